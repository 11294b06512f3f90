"""The peer's front camera as an H.264 track."""

import asyncio
import fractions
import time
from collections.abc import Callable

from aiortc import MediaStreamTrack
from av import VideoFrame

from rhino_actors.peer.body import Picture

CLOCK_RATE = 90_000


class CameraTrack(MediaStreamTrack):
    """Pictures at a steady rate while switched on; nothing otherwise."""

    kind = "video"

    def __init__(self, picture: Callable[[int], Picture], fps: float) -> None:
        super().__init__()
        self._picture = picture
        self._period = 1.0 / fps
        self._due = time.monotonic()
        self._count = 0
        self.enabled = asyncio.Event()
        self.frozen = False

    async def recv(self) -> VideoFrame:
        """Return the next picture when it is time."""
        while self.frozen or not self.enabled.is_set():
            if self.frozen:
                await asyncio.sleep(0.05)
            else:
                await self.enabled.wait()
        now = time.monotonic()
        self._due = max(self._due + self._period, now)
        await asyncio.sleep(self._due - now)
        self._count += 1
        frame = VideoFrame.from_ndarray(self._picture(self._count), format="bgr24")
        frame.pts = round(time.monotonic() * CLOCK_RATE)
        frame.time_base = fractions.Fraction(1, CLOCK_RATE)
        return frame
