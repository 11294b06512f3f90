"""The newest value of a stream, for readers who wait for one newer than theirs. Nothing is queued."""

import asyncio
from typing import Generic, Protocol, TypeVar

MAX_WAIT_S = 30.0  # that a reader may ask for


class Numbered(Protocol):
    """A message with a running number."""

    @property
    def seq(self) -> int: ...


Value = TypeVar("Value", bound=Numbered)


class Latest(Generic[Value]):
    """Holds one value; a slow reader skips what came in between."""

    def __init__(self, value: Value | None = None) -> None:
        self.value = value
        self._arrived = asyncio.Event()

    def publish(self, value: Value) -> None:
        """Replace the value and wake who waits."""
        self.value = value
        arrived, self._arrived = self._arrived, asyncio.Event()
        arrived.set()

    async def newer(self, newer_than: int, wait: float) -> Value | None:
        """Return a value other than `newer_than`, or None when there is none within `wait` [s].

        A lower number is of a new life of the one who publishes, so it is newer too.
        """
        if wait > 0.0 and not self._has_other(newer_than):
            try:
                async with asyncio.timeout(min(MAX_WAIT_S, wait)):
                    while not self._has_other(newer_than):
                        await self._arrived.wait()
            except TimeoutError:
                return None
        return self.value if self._has_other(newer_than) else None

    def _has_other(self, seq: int) -> bool:
        return self.value is not None and self.value.seq != seq
