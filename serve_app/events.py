"""What changes, to many listeners: one hub per robot asks the actors once, however many clients listen.

A hub runs while somebody listens. Each listener has a mailbox that keeps the newest event of each name and nothing
else, so a slow one misses states in between and never grows. Every event carries the whole of what it is about.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from rhino_actors.errors import ActorUnavailable, RhinoError
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.navigation import MissionStatus, NavStatus
from rhino_actors.messages.platform import GateStatus, RobotStatus
from rhino_actors.messages.sensors import CameraFrame
from serve_app.handles import NO_VERSION, Handles, MapVersion, Robot
from serve_app.schemas import Gate, Mission, navigate_status, state_event

_log = logging.getLogger(__name__)

LONG_POLL_S = 2.0
MAP_PERIOD_S = 0.5  # maps change faster than anyone needs to draw them
POI_PERIOD_S = 0.5
# Ray Serve puts no back-pressure on a stream: what a client that stalled does not read piles up in the server. A
# stream therefore ends after this time; event sources reconnect by themselves and get the whole state first.
STREAM_LIFE_S = 300.0


class TooManyStreams(RhinoError):
    """This process holds as many streams open as it may."""

    code = "TOO_MANY_STREAMS"
    default_message = "Too many event and video streams are open."
    default_hint = "Close some, or raise server.max_streams in the config."


class StreamLimit:
    """Counts the open streams of this process."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.open = 0

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold one stream open. Raises TooManyStreams."""
        if self.open >= self._limit:
            raise TooManyStreams()
        self.open += 1
        try:
            yield
        finally:
            self.open -= 1


@dataclass(frozen=True)
class Event:
    """One event, written out once for all who listen."""

    name: str
    id: int
    data: str  # JSON


class Mailbox:
    """One listener's unread events: the newest of each name."""

    def __init__(self) -> None:
        self._events: dict[str, Event] = {}
        self._filled = asyncio.Event()

    def put(self, event: Event) -> None:
        """Leave an event; an unread one of the same name is dropped."""
        self._events.pop(event.name, None)
        self._events[event.name] = event
        self._filled.set()

    async def take(self) -> list[Event]:
        """Wait until there is something, and return all of it, oldest first."""
        await self._filled.wait()
        self._filled.clear()
        events = list(self._events.values())
        self._events.clear()
        return events


class EventHub:
    """Watches one robot's actors while anybody listens, and tells all listeners what changed."""

    def __init__(self, handles: Handles, robot: Robot) -> None:
        self._handles = handles
        self._robot = robot
        self._period = 1.0 / handles.server.stream_rate_hz
        self._mailboxes: set[Mailbox] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._ids = itertools.count(1)
        self._newest: dict[str, Event] = {}
        self._unavailable: set[str] = set()
        self._forget()

    def _forget(self) -> None:
        self._newest.clear()
        self._unavailable.clear()
        self._status: RobotStatus | None = None
        self._nav: NavStatus | None = None
        self._mission: MissionStatus | None = None
        self._gate: GateStatus | None = None
        self._map: MapVersion = NO_VERSION
        self._pois = -1

    @property
    def listeners(self) -> int:
        return len(self._mailboxes)

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Mailbox]:
        """Return a mailbox that starts with the newest of everything and gets every change from now on."""
        mailbox = Mailbox()
        for event in self._newest.values():
            mailbox.put(event)
        self._mailboxes.add(mailbox)
        if not self._tasks:
            self._start()
        try:
            yield mailbox
        finally:
            self._mailboxes.discard(mailbox)
            if not self._mailboxes:
                self.close()

    def close(self) -> None:
        """Stop watching; the next listener starts it again."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._forget()

    def _start(self) -> None:
        watches: tuple[tuple[str, float, Callable[[], Awaitable[None]]], ...] = (
            ("platform", self._period, self._watch_platform),
            ("planner", self._period, self._watch_planner),
            ("explorer", self._period, self._watch_explorer),
            ("mapper", MAP_PERIOD_S, self._watch_map),
            ("poi_store", POI_PERIOD_S, self._watch_pois),
        )
        self._tasks = [
            asyncio.create_task(self._watch(part, period, step)) for part, period, step in watches
        ]
        self._tasks.append(asyncio.create_task(self._tell_state()))

    async def _watch(self, part: str, period: float, step: Callable[[], Awaitable[None]]) -> None:
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            try:
                await step()
                self._unavailable.discard(part)
            except ActorUnavailable:
                self._lose(part)
            except Exception:
                if part not in self._unavailable:
                    _log.exception("events of %s: %s cannot be read", self._robot.name, part)
                self._lose(part)
            await asyncio.sleep(max(period - (loop.time() - started), 0.01))

    def _lose(self, part: str) -> None:
        """Note that a part does not answer. What it said is no longer known, and its counters may start anew."""
        self._unavailable.add(part)
        if part == "platform":
            self._status = None
        elif part == "planner":
            self._nav = None
        elif part == "explorer":
            self._mission = None

    async def _watch_platform(self) -> None:
        self._status = status = await self._robot.platform.status()
        gate = replace(status.gate, applied=Twist2D())
        if gate != self._gate:
            self._gate = gate
            self._tell("gate", Gate.model_validate(status.gate).model_dump_json())

    async def _watch_planner(self) -> None:
        held = self._nav
        nav = await (
            self._robot.planner.status(held.seq, wait=LONG_POLL_S)
            if held
            else self._robot.planner.status()
        )
        self._nav = nav
        if held is None or nav.seq != held.seq:
            exploring = self._mission is not None and self._mission.state.is_active
            self._tell("nav", navigate_status(nav, exploring=exploring).model_dump_json())

    async def _watch_explorer(self) -> None:
        held = self._mission
        mission = await (
            self._robot.explorer.status(held.seq, wait=LONG_POLL_S)
            if held
            else self._robot.explorer.status()
        )
        self._mission = mission
        if held is None or mission.seq != held.seq:
            self._tell("mission", Mission.model_validate(mission).model_dump_json())

    async def _watch_map(self) -> None:
        known = self._map != NO_VERSION
        version, _ = await self._robot.mapper.snapshot(
            self._map, wait=LONG_POLL_S if known else 0.0
        )
        if version != self._map:
            self._map = version
            epoch, seq = version
            self._tell("map_update", json.dumps({"epoch": epoch, "seq": seq, "empty": seq == 0}))

    async def _watch_pois(self) -> None:
        version = await self._handles.poi_store.version()
        if version != self._pois:
            self._pois = version
            self._tell("poi_update", json.dumps({"version": version}))

    async def _tell_state(self) -> None:
        while True:
            if self._status is not None or "platform" in self._unavailable:
                event = state_event(
                    self._robot.name,
                    self._robot.simulated,
                    self._status,
                    self._nav,
                    self._mission,
                    sorted(self._unavailable),
                )
                self._tell("state", event.model_dump_json())
                await asyncio.sleep(self._period)
            else:
                await asyncio.sleep(0.01)

    def _tell(self, name: str, data: str) -> None:
        self._newest[name] = event = Event(name, next(self._ids), data)
        for mailbox in self._mailboxes:
            mailbox.put(event)


class CameraFeed:
    """The newest camera frame for every viewer of a robot; asks the platform once, while anybody looks."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._frame: CameraFrame | None = None
        self._changed = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.viewers = 0

    @asynccontextmanager
    async def look(self) -> AsyncIterator[None]:
        """Keep the feed running."""
        self.viewers += 1
        if self._task is None:
            self._task = asyncio.create_task(self._fetch())
        try:
            yield
        finally:
            self.viewers -= 1
            if self.viewers == 0:
                self.close()

    def close(self) -> None:
        """Stop asking the platform; the next viewer starts it again."""
        if self._task is not None:
            self._task.cancel()
        self._task = self._frame = None

    async def newer(self, than: int) -> CameraFrame:
        """Wait for a frame other than number `than`; frames in between are skipped."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._frame and self._frame.seq != than)
            assert self._frame is not None, "the condition has just been true"
            return self._frame

    async def _fetch(self) -> None:
        seq = 0
        while True:
            try:
                frame = await self._robot.platform.camera(seq, wait=LONG_POLL_S)
            except ActorUnavailable:
                seq = 0  # a restarted platform counts anew
                await asyncio.sleep(0.5)
                continue
            except Exception:
                _log.exception("pictures of %s cannot be read", self._robot.name)
                await asyncio.sleep(LONG_POLL_S)
                continue
            if frame is None:
                seq = 0  # a restart that went unnoticed looks like a camera that stands still
                await asyncio.sleep(0.01)
                continue
            seq = frame.seq
            async with self._changed:
                self._frame = frame
                self._changed.notify_all()
