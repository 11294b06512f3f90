"""What changes, to many listeners: one hub per robot asks the actors once, however many clients listen.

A hub runs while somebody listens. Each listener has a mailbox that keeps the newest event of each name and nothing
else, so a slow one misses states in between and never grows. Every event carries the whole of what it is about.
"""

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from rhino_actors.errors import ActorUnavailable
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.localisation import LocalisationStatus
from rhino_actors.messages.missions import MissionStatus
from rhino_actors.messages.navigation import NavStatus
from rhino_actors.messages.platform import GateStatus, RobotStatus
from rhino_actors.messages.poi import Poi
from serve_app.handles import NO_VERSION, Handles, MapVersion, Robot
from serve_app.schemas import Gate, Localisation, Mission, navigate_status, state_event

_log = logging.getLogger(__name__)

LONG_POLL_S = 2.0
MAP_PERIOD_S = 0.5  # maps change faster than anyone needs to draw them
POI_PERIOD_S = 0.5
LOCALISATION_PERIOD_S = 0.2  # what the pose in the map is made with


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
        self._localisation: LocalisationStatus | None = None
        self._told_localisation: tuple[str, str] | None = None
        self._map: MapVersion = NO_VERSION
        self._pois = -1
        self._places: dict[str, Poi] = {}

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
            ("mapper", LOCALISATION_PERIOD_S, self._watch_localisation),
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
        elif part == "mapper":
            self._localisation = None

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

    async def _watch_localisation(self) -> None:
        self._localisation = now = await self._robot.mapper.localisation()
        # The share changes with every frame, and is in the state.
        if (now.state, now.sentence) != self._told_localisation:
            self._told_localisation = now.state, now.sentence
            self._tell("localisation", Localisation.model_validate(now).model_dump_json())

    async def _watch_pois(self) -> None:
        version = await self._handles.poi_store.version()
        if version == self._pois:
            return
        pois = await self._handles.poi_store.list_pois(self._robot.name)
        now = {poi.id: poi for poi in pois}
        is_first = self._pois < 0
        before = now if is_first else self._places
        changed = {
            "version": version,
            # Who saw another version last has missed an event, and lists the places again.
            "since": None if is_first else self._pois,
            "added": [key for key in now if key not in before],
            "changed": [key for key in now if key in before and now[key] != before[key]],
            "removed": [key for key in before if key not in now],
            "reordered": [key for key in before if key in now]
            != [key for key in now if key in before],
        }
        self._pois, self._places = version, now
        self._tell("poi_update", json.dumps(changed))

    async def _tell_state(self) -> None:
        while True:
            if self._is_known("platform", self._status) and self._is_known(
                "mapper", self._localisation
            ):
                event = state_event(
                    self._robot.name,
                    self._robot.simulated,
                    self._status,
                    self._nav,
                    self._mission,
                    self._localisation,
                    sorted(self._unavailable),
                )
                self._tell("state", event.model_dump_json())
                await asyncio.sleep(self._period)
            else:
                await asyncio.sleep(0.01)

    def _is_known(self, part: str, said: object) -> bool:
        return said is not None or part in self._unavailable

    def _tell(self, name: str, data: str) -> None:
        self._newest[name] = event = Event(name, next(self._ids), data)
        for mailbox in self._mailboxes:
            mailbox.put(event)
