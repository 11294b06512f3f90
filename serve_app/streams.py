"""How many streams may be open, and how much each may send.

Ray Serve puts no back-pressure on a stream: what a client that stalled does not read piles up in the server. A stream
therefore ends after a time and after an amount; whoever opens it again gets the newest first.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rhino_actors.errors import RhinoError

STREAM_LIFE_S = 300.0
EVENT_LIFE_S = 120.0  # an event stream goes on where it ended, so it may end often
# All streams of a kind together: Serve's proxy passes each piece on by itself, and driving goes through it too.
PIECES_PER_S = 150.0
EVENT_BYTES = 2_000_000  # two minutes of events at 10 Hz
FILM_BYTES = 8_000_000  # 200 frames of 40 kB
FILMS_PER_CLIENT = 4


class TooManyStreams(RhinoError):
    """This process holds as many streams open as it may."""

    code = "TOO_MANY_STREAMS"
    default_message = "Too many streams or waiting requests are open."
    default_hint = "Close some, or raise server.max_streams in the config."


def shared_period(period: float, listeners: int) -> float:
    """Return the time between two pieces [s] of each of so many streams: `period`, longer where they are many."""
    return max(period, listeners / PIECES_PER_S)


class StreamLimit:
    """Counts what is open in this process, and for each client."""

    def __init__(self, limit: int, per_client: int | None = None) -> None:
        self._limit = limit
        self._per_client = per_client
        self._clients: Counter[str] = Counter()
        self.open = 0

    @contextmanager
    def slot(self, client: str = "") -> Iterator[None]:
        """Hold one place. Raises TooManyStreams."""
        if self.open >= self._limit:
            raise TooManyStreams()
        if self._per_client is not None and self._clients[client] >= self._per_client:
            raise TooManyStreams(
                f"{client} has {self._per_client} streams of this kind open.",
                "Close one: each client may have so many.",
            )
        self.open += 1
        self._clients[client] += 1
        try:
            yield
        finally:
            self.open -= 1
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]


class Allowance:
    """What one stream may still send."""

    def __init__(self, size: int, life: float | None = None) -> None:
        """Start with `size` bytes and `life` seconds, STREAM_LIFE_S by default."""
        self._left = size
        life = STREAM_LIFE_S if life is None else life
        self._end = asyncio.get_running_loop().time() + life

    def spend(self, size: int) -> None:
        """Note that `size` bytes are sent."""
        self._left -= size

    @property
    def is_used_up(self) -> bool:
        return self._left <= 0 or asyncio.get_running_loop().time() >= self._end
