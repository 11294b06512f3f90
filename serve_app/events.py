"""What changes, to many listeners: one hub per robot asks the actors once, however many clients listen.

A hub runs while somebody listens, and a moment longer. Each listener has a mailbox that keeps the newest event of each
name and nothing else, so a slow one misses states in between and never grows. Every event carries the whole of what it
is about.

An event's id is `LIFE-NUMBER`. A life begins when a hub starts to watch: with the process, and again after nobody has
listened for LINGER_S. Who comes back with an id of the same life gets what was missed, from a ring of bounded length;
with any other id, the newest of everything.
"""

import asyncio
import itertools
import logging
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from rhino_actors.errors import ActorUnavailable
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.localisation import LocalisationStatus
from rhino_actors.messages.missions import MissionStatus
from rhino_actors.messages.navigation import NavStatus
from rhino_actors.messages.platform import GateStatus, RobotStatus
from rhino_actors.messages.poi import Poi
from serve_app.handles import NO_VERSION, Handles, MapVersion, Robot
from serve_app.schemas import Gate, Localisation, Mission, navigate_status, state_event
from serve_app.stream_schemas import MapUpdate, PoiUpdate
from serve_app.streams import shared_period

_log = logging.getLogger(__name__)

LONG_POLL_S = 2.0
MAP_PERIOD_S = 0.5  # maps change faster than anyone needs to draw them
POI_PERIOD_S = 0.5
LOCALISATION_PERIOD_S = 0.2  # what the pose in the map is made with
LINGER_S = 15.0  # a client that reconnects finds its hub still watching
RING_LENGTH = 256  # events that can be sent again
RING_BYTES = 512_000
# Of these only the newest says anything; the others also tell how it came to be so.
_ONLY_NEWEST = frozenset({"map_update", "poi_update"})


@dataclass(frozen=True)
class Event:
    """One event, written out once for all who listen."""

    name: str
    number: int
    data: str  # JSON
    life: str = ""

    @property
    def id(self) -> str:
        """What a client gives back to get what came after."""
        return f"{self.life}-{self.number}"


class Mailbox:
    """One listener's unread events: what it missed before it came, and the newest of each name since.

    Attributes:
        resumed: it came back with a known id, and got what it missed only.
        replayed: how many events that were.
    """

    def __init__(self, missed: list[Event] | None = None) -> None:
        """Start with what a known client missed; None: it is not known."""
        self.resumed = missed is not None
        self._missed = missed or []
        self.replayed = len(self._missed)
        self._events: dict[str, Event] = {}
        self._filled = asyncio.Event()
        if self._missed:
            self._filled.set()

    def put(self, event: Event) -> None:
        """Leave an event; an unread one of the same name is dropped."""
        self._events.pop(event.name, None)
        self._events[event.name] = event
        self._filled.set()

    async def take(self) -> list[Event]:
        """Wait until there is something, and return all of it, oldest first."""
        await self._filled.wait()
        self._filled.clear()
        events = [*self._missed, *self._events.values()]
        self._missed = []
        self._events.clear()
        return events


@dataclass
class _Ring:
    """The newest events, bounded in number and size, to be sent again to who missed them."""

    events: deque[Event] = field(default_factory=deque)
    size: int = 0  # bytes
    lost: int = 0  # number of the newest event that fell out

    def add(self, event: Event) -> None:
        if event.name in _ONLY_NEWEST:
            for old in [old for old in self.events if old.name == event.name]:
                self.events.remove(old)
                self.size -= len(old.data)
        self.events.append(event)
        self.size += len(event.data)
        while len(self.events) > RING_LENGTH or self.size > RING_BYTES:
            old = self.events.popleft()
            self.size -= len(old.data)
            self.lost = old.number


class EventHub:
    """Watches one robot's actors while anybody listens, and tells all listeners what changed."""

    def __init__(self, handles: Handles, robot: Robot) -> None:
        self._handles = handles
        self._robot = robot
        self._period = 1.0 / handles.server.stream_rate_hz
        self._mailboxes: set[Mailbox] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._newest: dict[str, Event] = {}
        self._lingering: asyncio.TimerHandle | None = None
        self._unavailable: set[str] = set()
        self._forget()

    def _forget(self) -> None:
        self._life = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._last = 0  # number of the newest event
        self._ring = _Ring()
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
    async def listen(self, last_id: str | None = None) -> AsyncIterator[Mailbox]:
        """Return a mailbox that gets every change from now on.

        It starts with what came after `last_id` if that is known, else with the newest of everything. Old states
        are not sent again: the next one comes at once.
        """
        missed = self._missed(last_id) if last_id else None
        mailbox = Mailbox(missed)
        if missed is None:
            for event in self._newest.values():
                mailbox.put(event)
        self._mailboxes.add(mailbox)
        self._stop_lingering()
        if not self._tasks:
            self._start()
        try:
            yield mailbox
        finally:
            self._mailboxes.discard(mailbox)
            if not self._mailboxes:
                loop = asyncio.get_running_loop()
                self._lingering = loop.call_later(LINGER_S, self.close)

    def _missed(self, last_id: str) -> list[Event] | None:
        """Return the events after an id, without states; None: it is of another life, or too long ago."""
        life, _, text = last_id.rpartition("-")
        if life != self._life or not text.isascii() or not text.isdigit() or len(text) > 15:
            return None
        number = int(text)
        if not self._ring.lost <= number <= self._last:
            return None
        return [event for event in self._ring.events if event.number > number]

    def _stop_lingering(self) -> None:
        if self._lingering is not None:
            self._lingering.cancel()
            self._lingering = None

    def close(self) -> None:
        """Stop watching; the next listener starts it again, with a new life."""
        self._stop_lingering()
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
        # How far away an obstacle is changes with every tick, and the epoch with every decision.
        gate = replace(status.gate, applied=Twist2D(), applied_since=0.0, message="")
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
            update = MapUpdate(epoch=epoch, seq=seq, empty=seq == 0)
            self._tell("map_update", update.model_dump_json())

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
        update = PoiUpdate(
            version=version,
            since=None if is_first else self._pois,
            added=[key for key in now if key not in before],
            changed=[key for key in now if key in before and now[key] != before[key]],
            removed=[key for key in before if key not in now],
            reordered=[key for key in before if key in now]
            != [key for key in now if key in before],
        )
        self._pois, self._places = version, now
        self._tell("poi_update", update.model_dump_json())

    async def _tell_state(self) -> None:
        while True:
            if not self._mailboxes:
                await asyncio.sleep(self._period)
            elif self._is_known("platform", self._status) and self._is_known(
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
                await asyncio.sleep(shared_period(self._period, len(self._mailboxes)))
            else:
                await asyncio.sleep(0.01)

    def _is_known(self, part: str, said: object) -> bool:
        return said is not None or part in self._unavailable

    def _tell(self, name: str, data: str) -> None:
        self._last = next(self._numbers)
        self._newest[name] = event = Event(name, self._last, data, self._life)
        if name != "state":
            self._ring.add(event)
        for mailbox in self._mailboxes:
            mailbox.put(event)
