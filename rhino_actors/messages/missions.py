"""Missions: what is asked of the explorer, how it goes, and what is kept of it afterwards."""

import math
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import InvalidRequest
from rhino_actors.geometry import polygon_area
from rhino_actors.messages.geometry import MAX_COORDINATE_M, Pose2D
from rhino_actors.messages.grid import GridGeometry

# What a request may ask for.
MAX_DURATION_S = 7 * 86400.0
MAX_DISTANCE_M = 1_000_000.0
MAX_DWELL_S = 86400.0
MAX_LOOPS = 1_000_000
MAX_POINTS = 500
MAX_CORNERS = 200
MIN_AREA_M2 = 0.01


class MissionKind(StrEnum):
    EXPLORE = "explore"  # see what was not seen yet
    PATROL = "patrol"  # visit what is known, again and again


class MissionState(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    PAUSED = "paused_by_user"  # goes on only when asked to
    COMPLETE = "complete"
    BLOCKED = "blocked"  # nothing more can be reached; `skipped` lists what is left
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"  # the explorer or something it needs died
    LOW_BATTERY = "low_battery"
    TIME_LIMIT = "time_limit"  # of time or of distance: `reason` says which

    @property
    def is_active(self) -> bool:
        return self in (MissionState.RUNNING, MissionState.PAUSED)


class MissionPhase(StrEnum):
    """What a running mission does at the moment."""

    NONE = ""  # it does not run
    CHOOSING = "choosing"
    DRIVING = "driving"
    WAITING = "waiting"  # the way is blocked, or the map or the robot's place in it is not known
    DWELLING = "dwelling"  # stands at a point of a patrol
    RETURNING = "returning"  # home, before it ends


class FrontierState(IntEnum):
    """The third column of MissionStatus.frontiers."""

    OPEN = 0
    TARGET = 1  # driven to
    SKIPPED = 2  # left, for a reason that `skipped` gives


class PatrolRouter(StrEnum):
    """How a patrol chooses where to go next."""

    COVERAGE = "coverage"  # the longest unvisited area per metre
    RANDOM = "random"  # any safe place
    FRONTIER = "frontier"  # where visited floor borders unvisited
    POINTS = "points"  # the given points in their order


@dataclass(frozen=True, slots=True)
class MissionLimits:
    """When a mission ends although there is more to do. None: no such limit."""

    max_time: float | None = None  # [s] of running; pauses do not count
    max_distance: float | None = None  # [m] driven
    min_battery: float | None = None  # [%] 0..100
    return_home: bool = (
        False  # drive back to where it started before it ends, unless it is cancelled
    )


@dataclass(frozen=True, slots=True)
class SkippedTarget:
    """A frontier, or a point of a patrol, that the mission left."""

    x: float  # [m] in the map
    y: float
    size: int  # cells of the frontier; 0 for a point
    reason: str  # code
    label: str = ""  # of the point


@dataclass(frozen=True, slots=True)
class ExploreRequest:
    """What an exploration is asked for."""

    area: tuple[tuple[float, float], ...] = ()  # polygon x, y [m] in the map; empty: everything
    limits: MissionLimits = MissionLimits()


@dataclass(frozen=True, slots=True)
class PatrolPoint:
    """A point of a patrol that visits points."""

    x: float  # [m] in the map
    y: float
    yaw: float | None = None  # [rad] to look to; None: as it arrives
    dwell: float | None = None  # [s] to stand there; None: the request's
    label: str = ""
    poi_id: str | None = None


@dataclass(frozen=True, slots=True)
class PatrolRequest:
    """What a patrol is asked for."""

    router: PatrolRouter = PatrolRouter.COVERAGE
    points: tuple[PatrolPoint, ...] = ()  # of the router `points`
    dwell: float = 0.0  # [s] to stand at each goal
    loops: int | None = (
        None  # rounds of `points`, or times that all was visited; None: until stopped
    )
    expiry: float | None = None  # [s] after which a place counts as unvisited; None: the configured
    area: tuple[tuple[float, float], ...] = ()  # as in ExploreRequest
    seed: int | None = None  # of the router `random`; None: another each time
    limits: MissionLimits = MissionLimits()
    skipped: tuple[SkippedTarget, ...] = ()  # points that were left out before it began


@dataclass(frozen=True, slots=True)
class PatrolProgress:
    """How far a patrol has come."""

    router: PatrolRouter
    share_visited: float  # of the safe area within the last `expiry` seconds, 0..1
    worst_idleness: (
        float  # [s] since the longest unvisited reachable place was visited, or the start
    )
    mean_idleness: float  # [s]
    safe_area: float  # [m2] reachable
    loops: int  # done
    next_label: str = ""  # of the point driven to


@dataclass(frozen=True, slots=True)
class Visits:
    """How long ago a patrol visited each cell of a grid."""

    geometry: GridGeometry
    # (rows, cols) uint8: 0 never visited, 1 just now, 255 `expiry` ago or longer; row 0 at the lowest y.
    age: NDArray[np.uint8]
    expiry: float  # [s]

    def thinned(self, max_cells: int) -> "Visits":
        """Return every second cell, or fewer, so that there are at most so many: for who only looks at them."""
        step = max(1, math.ceil(math.sqrt(self.age.size / max_cells)))
        if step == 1:
            return self
        age = np.ascontiguousarray(self.age[::step, ::step])
        age.flags.writeable = False
        grid = self.geometry
        return Visits(
            GridGeometry(grid.resolution * step, grid.origin, age.shape), age, self.expiry
        )


@dataclass(frozen=True, slots=True)
class MissionStatus:
    """The mission that runs, or the last one."""

    kind: MissionKind = MissionKind.EXPLORE
    state: MissionState = MissionState.IDLE
    reason: str = ""  # code of the end or pause
    message: str = ""
    client: str = ""  # who started it
    goal: Pose2D | None = None
    goals_reached: int = 0
    goals_failed: int = 0
    # (K, 3) x, y [m] in the map, FrontierState
    frontiers: NDArray[np.float64] | None = None
    skipped: tuple[SkippedTarget, ...] = field(default=())
    known_area: float = 0.0  # [m2]
    distance: float = 0.0  # [m] driven in this mission
    elapsed: float = 0.0  # [s] of running
    seq: int = 0  # counts every change
    id: str = ""  # UUID, of its record in the mission log
    phase: MissionPhase = MissionPhase.NONE
    home: Pose2D | None = None  # in the map: where it started
    area: tuple[tuple[float, float], ...] = ()  # polygon it keeps to; empty: everything
    limits: MissionLimits = MissionLimits()
    # Explored floor over what is known and what is expected behind the frontiers, 0..1; an estimate.
    explored_share: float | None = None
    eta: float | None = None  # [s] to the end, an estimate; None: not known
    patrol: PatrolProgress | None = None
    # (N, 2) x, y [m] in the map: where it has driven; a row of NaN breaks the line, where it was carried.
    trace: NDArray[np.float64] | None = None
    home_reached: bool | None = None  # None: it was not asked to return, or has not ended


@dataclass(frozen=True, slots=True)
class MissionGoal:
    """One goal of a mission, as the log keeps it."""

    x: float  # [m] in the map
    y: float
    started: float  # [s] since the mission began
    ended: float  # [s]
    outcome: str  # NavState, or SEEN_OUT, REPLACED, SKIPPED
    reason: str = ""  # code
    distance: float = 0.0  # [m] driven for it
    label: str = ""  # of a patrol's point


@dataclass(frozen=True, slots=True)
class MissionRecord:
    """A mission in the log."""

    id: str  # UUID
    robot: str
    kind: MissionKind
    client: str
    started_at: float  # [s] since the Unix epoch
    ended_at: float | None  # None: it runs, or its process was killed
    state: MissionState
    reason: str
    message: str
    distance: float  # [m]
    elapsed: float  # [s]
    known_area: float  # [m2]
    goals: tuple[MissionGoal, ...] = ()
    skipped: tuple[SkippedTarget, ...] = ()
    map_id: str | None = None  # the saved map whose coordinates it was in
    goals_reached: int = 0  # all of them; `goals` may have the last ones only
    goals_failed: int = 0
    explored_share: float | None = None  # as in MissionStatus
    patrol: PatrolProgress | None = None
    has_picture: bool = False


MissionRequest = ExploreRequest | PatrolRequest


def check_request(request: MissionRequest) -> None:
    """Raise InvalidRequest for a request with a value that cannot be used; the message names the field."""
    _check_area(request.area)
    limits = request.limits
    _check_number("max_time", limits.max_time, 1.0, MAX_DURATION_S)
    _check_number("max_distance", limits.max_distance, 0.1, MAX_DISTANCE_M)
    _check_number("min_battery", limits.min_battery, 0.0, 100.0)
    if isinstance(request, PatrolRequest):
        _check_patrol(request)


def _check_patrol(request: PatrolRequest) -> None:
    if (request.router is PatrolRouter.POINTS) != bool(request.points):
        raise InvalidRequest(
            "The router points, and it alone, needs points.",
            'Give points with "router": "points", and none with coverage, random or frontier.',
        )
    if len(request.points) > MAX_POINTS:
        raise InvalidRequest(f"There are {len(request.points)} points; {MAX_POINTS} are the most.")
    _check_number("dwell", request.dwell, 0.0, MAX_DWELL_S)
    _check_number("expiry", request.expiry, 1.0, MAX_DURATION_S)
    _check_number("loops", request.loops, 1, MAX_LOOPS)
    for i, point in enumerate(request.points):
        _check_number(f"points.{i}.x", point.x, -MAX_COORDINATE_M, MAX_COORDINATE_M)
        _check_number(f"points.{i}.y", point.y, -MAX_COORDINATE_M, MAX_COORDINATE_M)
        _check_number(f"points.{i}.yaw", point.yaw, -1000.0, 1000.0)
        _check_number(f"points.{i}.dwell", point.dwell, 0.0, MAX_DWELL_S)


def _check_area(area: tuple[tuple[float, float], ...]) -> None:
    if not area:
        return
    hint = "Give at least 3 corners x, y [m] in the map, in the order of the outline."
    if not 3 <= len(area) <= MAX_CORNERS:
        raise InvalidRequest(f"The area has {len(area)} corners, not 3 to {MAX_CORNERS}.", hint)
    for i, (x, y) in enumerate(area):
        _check_number(f"area.{i}.x", x, -MAX_COORDINATE_M, MAX_COORDINATE_M)
        _check_number(f"area.{i}.y", y, -MAX_COORDINATE_M, MAX_COORDINATE_M)
    if polygon_area(area) < MIN_AREA_M2:
        raise InvalidRequest("The area's corners enclose nothing.", hint)


def _check_number(name: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:  # NaN is not within
        raise InvalidRequest(f"{name} is {value:g}, not {low:g} to {high:g}.")
