"""A robot's newest camera frame for all who look: one call upstream at a time, however many wait."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from rhino_actors.errors import ActorUnavailable, NotAvailable
from rhino_actors.messages.sensors import CameraFrame
from serve_app.handles import Robot

_log = logging.getLogger(__name__)

LONG_POLL_S = 2.0
# A call to an actor goes on when the one who waits for it is gone. The feed therefore outlives its last viewer for a
# moment: those who ask for one frame after the other find it running, instead of leaving a call behind each time.
LINGER_S = 1.0
RETRY_S = 0.5
MAX_HZ = 30.0


@dataclass(frozen=True)
class View:
    """A camera frame and how old it was when it was read [s]."""

    frame: CameraFrame
    age: float


@dataclass(frozen=True)
class _Shot:
    frame: CameraFrame
    age: float  # [s] when it came, by the robot's own clock
    came: float  # [s] on the loop's clock

    def view(self) -> View:
        return View(self.frame, self.age + asyncio.get_running_loop().time() - self.came)


class CameraFeed:
    """Asks the platform for frames while anybody looks, and a moment longer."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._task: asyncio.Task[None] | None = None
        self._left = -math.inf  # when the last viewer left
        # What the platform said last: a frame, why there is none, or that it does not answer; None: not asked yet.
        self._answer: _Shot | NotAvailable | ActorUnavailable | None = None
        self._news = asyncio.Event()
        self.viewers = 0

    @property
    def is_running(self) -> bool:
        return self._task is not None

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Keep the feed running."""
        self.viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._fetch())
        try:
            yield
        finally:
            self.viewers -= 1
            self._left = asyncio.get_running_loop().time()

    def close(self) -> None:
        """Stop asking the platform; the next viewer starts it again."""
        if self._task is not None:
            self._task.cancel()
        self._task = self._answer = None

    def at_hand(self, newer_than: int) -> View | None:
        """Return the newest frame without waiting, None when it is `newer_than` or nobody has looked just now."""
        if isinstance(self._answer, _Shot) and self._answer.frame.seq != newer_than:
            self._left = asyncio.get_running_loop().time()
            return self._answer.view()
        return None

    async def look(self, newer_than: int = 0, wait: float = 0.0) -> View | None:
        """Return the newest frame as soon as there is another than `newer_than`, None when none came in time.

        A lower number is of an earlier life of the platform, so any frame is newer.

        Args:
            newer_than: seq of the frame that the caller has; 0: none.
            wait: longest wait [s].

        Raises:
            NotAvailable: there has been no frame at all; the message says why where the driver knows.
            ActorUnavailable: the platform does not answer.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        async with self.watch():
            while True:
                if view := self.at_hand(newer_than):
                    return view
                answer = self._answer
                if isinstance(answer, ActorUnavailable):
                    raise type(answer)(*answer.args)
                if answer is not None and loop.time() >= end:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(end if answer is not None else None):
                        await self._news.wait()
        if isinstance(answer, NotAvailable):
            raise NotAvailable(*answer.args)
        return None

    async def newer(self, than: int) -> CameraFrame:
        """Wait for a frame other than number `than`, through restarts; frames in between are skipped."""
        while True:
            if view := self.at_hand(than):
                return view.frame
            await self._news.wait()

    async def _fetch(self) -> None:
        loop = asyncio.get_running_loop()
        platform = self._robot.platform
        seq, wait = 0, 0.0
        while self.viewers or loop.time() - self._left < LINGER_S:
            due = loop.time() + 1.0 / MAX_HZ
            try:
                frame = await platform.camera(seq, wait=wait)
                status = await platform.status()
            except ActorUnavailable as error:
                self._tell(error)
                seq, wait, due = 0, 0.0, loop.time() + RETRY_S
            except Exception:
                _log.exception("pictures of %s cannot be read", self._robot.name)
                self._tell(NotAvailable("The camera cannot be read.", "See the log: rhino logs."))
                seq, wait, due = 0, 0.0, loop.time() + LONG_POLL_S
            else:
                if frame is not None:
                    self._tell(_Shot(frame, max(0.0, status.stamp - frame.stamp), loop.time()))
                    seq, wait = frame.seq, LONG_POLL_S
                elif seq:
                    # A restart that went unnoticed looks like a camera that stands still: look from the start.
                    seq, wait = 0, 0.0
                else:
                    camera = status.driver_state.camera
                    self._tell(NotAvailable(f"There is no camera picture. Camera: {camera}."))
                    wait = LONG_POLL_S
            await asyncio.sleep(max(0.0, due - loop.time()))
        self._task = self._answer = None

    def _tell(self, answer: _Shot | NotAvailable | ActorUnavailable) -> None:
        self._answer = answer
        news, self._news = self._news, asyncio.Event()
        news.set()
