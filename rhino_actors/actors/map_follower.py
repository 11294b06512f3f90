"""A reader's side of the map: asks the mapper for what changed and keeps the whole map."""

import asyncio
from typing import Any

from rhino_actors.actors.calls import call
from rhino_actors.messages.grid import MapSnapshot
from rhino_actors.messages.map_patch import MapReader

GRACE_S = 2.0  # what an answer may take beyond the wait


class MapFollower:
    """Follows the map of a mapper actor; after a call that failed it starts over with the whole map."""

    def __init__(self, mapper: Any) -> None:
        """Follow `mapper`, a handle; nothing is asked yet."""
        self._mapper = mapper
        self._reader = MapReader()
        self._asking = asyncio.Lock()

    async def newer(self, wait: float = 0.0) -> MapSnapshot | None:
        """Return a map newer than the last one returned, or None when there is none within `wait` [s].

        Raises:
            ActorUnavailable: the mapper is dead or restarting, or did not answer.
        """
        async with self._asking:
            try:
                asked = self._mapper.snapshot.remote(self._reader.version, wait)
                _, box = await call(asked, wait + GRACE_S)
                return None if box is None else self._reader.take(await call(box[0], GRACE_S))
            except BaseException:
                self._reader.forget()
                raise
