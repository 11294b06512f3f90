"""Missions: what is asked of the explorer, how it goes, and what is kept of it afterwards."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.geometry import Pose2D


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
class SkippedTarget:
    """A frontier, or a point of a patrol, that the mission left."""

    x: float  # [m] in the map
    y: float
    size: int  # cells of the frontier; 0 for a point
    reason: str  # code
    label: str = ""  # of the point


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
    trace: NDArray[np.float64] | None = None  # (N, 2) x, y [m] in the map: where it has driven


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
