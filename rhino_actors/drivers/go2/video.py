"""The front camera: frames are taken off the track as they come, only the newest is kept, as JPEG when it is due."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import cv2
from aiortc.mediastreams import MediaStreamError, MediaStreamTrack

from rhino_actors.config import Go2Config

DAMAGED_PAUSE_S = 0.5  # after a picture that cannot be used, so that the log stays readable

logger = logging.getLogger(__name__)

# jpeg, width, height [px], arrival [s]
Deliver = Callable[[bytes, int, int, float], None]


async def drain(track: MediaStreamTrack) -> None:
    """Throw away what a track brings: a track that nobody reads keeps everything for ever."""
    while True:
        try:
            await track.recv()
        except MediaStreamError:
            return


class NewestFrame:
    """Reads one video track for as long as it lives."""

    def __init__(self, config: Go2Config, deliver: Deliver) -> None:
        self._config = config
        self._deliver = deliver
        self._newest: Any = None
        self._arrived = asyncio.Event()
        self.seen = -1e9  # [s] when the last frame arrived

    async def read(self, track: MediaStreamTrack) -> None:
        """Take frames until the track ends."""
        encoding = asyncio.create_task(self._encode())
        try:
            while True:
                self._newest = await track.recv()
                self.seen = time.monotonic()
                self._arrived.set()
        except MediaStreamError:
            return
        finally:
            encoding.cancel()

    async def _encode(self) -> None:
        period = 1.0 / self._config.camera_rate_hz
        while True:
            started = time.monotonic()
            await self._arrived.wait()
            self._arrived.clear()
            frame, stamp = self._newest, self.seen
            try:
                jpeg, width, height = await asyncio.to_thread(self._jpeg, frame)
            except Exception:  # one picture that cannot be used must not end those after it
                logger.exception("a picture of the robot's camera could not be used")
                await asyncio.sleep(DAMAGED_PAUSE_S)
                continue
            self._deliver(jpeg, width, height, stamp)
            await asyncio.sleep(max(0.0, started + period - time.monotonic()))

    def _jpeg(self, frame: Any) -> tuple[bytes, int, int]:
        width, height = frame.width, frame.height
        if width > self._config.camera_width:
            height = round(height * self._config.camera_width / width) // 2 * 2
            width = self._config.camera_width
        image = frame.to_ndarray(format="bgr24", width=width, height=height)
        _, data = cv2.imencode(
            ".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, self._config.camera_quality]
        )
        return data.tobytes(), width, height
