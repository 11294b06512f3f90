"""The explorer's way to the mission log: what is to be written waits here, so that no mission waits for the disk."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rhino_actors.actors.calls import call
from rhino_actors.errors import ActorUnavailable, RhinoError
from rhino_actors.messages.missions import MissionRecord

if TYPE_CHECKING:
    from ray.actor import ActorProxy

    from rhino_actors.actors.mapper import MapperActor
    from rhino_actors.actors.poi_store import PoiStore

logger = logging.getLogger(__name__)

RETRY_S = 2.0  # after the store did not take a record
MAX_WAITING = (
    50  # missions whose records wait for the store; more than these are lost, the oldest first
)
CUT_OFF = "The explorer's process ended while the mission ran."

Draw = Callable[[], bytes]


class MissionLog:
    """Writes the newest record of each mission, and tries again until the store takes it."""

    def __init__(
        self, robot: str, store: "ActorProxy[PoiStore]", mapper: "ActorProxy[MapperActor]"
    ) -> None:
        self._robot = robot
        self._store = store
        self._mapper = mapper
        self._waiting: dict[str, tuple[MissionRecord, Draw | None]] = {}
        self._filled = asyncio.Event()
        self._map_of: tuple[str, str | None] = ("", None)  # mission and the saved map it is on
        self._is_failing = False

    def put(self, record: MissionRecord, draw: Draw | None = None) -> None:
        """Have a record written in place of an earlier one of its mission; `draw` makes its picture."""
        _, drawn = self._waiting.pop(record.id, (None, None))
        self._waiting[record.id] = (record, draw or drawn)
        while len(self._waiting) > MAX_WAITING:
            self._waiting.pop(next(iter(self._waiting)))
        self._filled.set()

    async def run(self) -> None:
        """Mark what an earlier life left without an end, then write until cancelled."""
        await self._insist(self._interrupt)
        while True:
            await self._filled.wait()
            self._filled.clear()
            await self._insist(self._write)

    async def _insist(self, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await step()
                self._is_failing = False
                return
            except RhinoError as error:
                if not self._is_failing:
                    logger.warning("the mission log cannot be written: %s", error)
                self._is_failing = True
                await asyncio.sleep(RETRY_S)

    async def _interrupt(self) -> None:
        cut_off = self._store.interrupt_missions.remote(self._robot, "PROCESS_ENDED", CUT_OFF)
        if count := await call(cut_off, 5.0):
            logger.info("missions without an end: %d", count)

    async def _write(self) -> None:
        while self._waiting:
            mission_id, entry = next(iter(self._waiting.items()))
            record, draw = entry
            picture = await self._draw(draw)
            record = replace(record, map_id=await self._map_id(record))
            await call(self._store.save_mission.remote(record, picture), 5.0)  # type: ignore[call-arg]  # Ray's types drop defaults
            if self._waiting.get(mission_id) is entry:  # otherwise a newer one came meanwhile
                del self._waiting[mission_id]

    async def _draw(self, draw: Draw | None) -> bytes | None:
        if draw is None:
            return None
        try:
            return await asyncio.to_thread(draw)
        except Exception:
            logger.exception("the mission's picture cannot be drawn")
            return None

    async def _map_id(self, record: MissionRecord) -> str | None:
        """Return the saved map that the mission is on: as it was while the mission ran, for it may be another now."""
        mission_id, known = self._map_of
        if mission_id == record.id and (record.ended_at is not None or known is not None):
            return known
        try:
            stats = await call(self._mapper.stats.remote())
            epoch = int(stats.get("frame_epoch", 0.0))
            saved = await call(self._store.map_in_force.remote(self._robot, epoch))
        except ActorUnavailable:
            return known if mission_id == record.id else None
        self._map_of = (record.id, saved.id if saved else None)
        return self._map_of[1]
