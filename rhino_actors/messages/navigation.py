"""Goals, paths, and how they go."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.platform import StopReason


class Rank(IntEnum):
    """Who outranks whom at the motion gate: a person over a mission over an agent."""

    AGENT = 0
    MISSION = 1
    HUMAN = 2


class NavMode(StrEnum):
    """How a goal is reached."""

    ASTAR = "astar"  # along a planned path
    DIRECT = "direct"  # straight at it, the collision monitor on watch


class NavState(StrEnum):
    IDLE = "idle"
    PLANNING = "planning"
    FOLLOWING = "following"
    RECOVERING = "recovering"
    PAUSED = "paused"  # the goal stands, the robot waits: `reason` says for what
    ARRIVED = "arrived"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in (NavState.ARRIVED, NavState.FAILED, NavState.CANCELLED)

    @property
    def is_active(self) -> bool:
        return self in (NavState.PLANNING, NavState.FOLLOWING, NavState.RECOVERING, NavState.PAUSED)


class PathReason(StrEnum):
    """Why the path in force is another one than before."""

    NONE = ""
    NEW_GOAL = "NEW_GOAL"
    BETTER = "BETTER"  # a clearly better way has opened
    BLOCKED = "BLOCKED"  # the map shows an obstacle on it
    OBSTACLE = "OBSTACLE"  # the robot stood before something
    LEFT = "LEFT"  # the robot was too far off it
    RECOVERED = "RECOVERED"  # a recovery motion is over
    LOST = "LOST"  # the robot side had none any more


@dataclass(frozen=True, slots=True)
class GoalRequest:
    """What a client asks the planner for."""

    x: float  # [m] in the map
    y: float  # [m] in the map
    yaw: float | None = None  # [rad]; None keeps the heading of arrival
    client: str = "unknown"  # who asks; the name that others see
    rank: Rank = Rank.HUMAN
    # Refuse a goal in an obstacle instead of moving it to the nearest free floor.
    strict: bool = False
    allow_unknown: bool = True  # plan through cells that were never seen
    mode: NavMode | None = None  # None: the planner's present mode
    epoch: int | None = None  # motion epoch of the mission that asks; None: a decision of its own
    # FollowReport.stops when the client asked; None: count from the planner on.
    stops: int | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """A path for the robot side to follow, with a lease: no renewal within `valid_for_s`, and it stops."""

    goal_id: int  # positive; within one epoch none older than the newest is accepted
    epoch: int  # motion epoch it was decided in; the gate refuses all but the newest
    poses: NDArray[np.float64]  # (N, 3) x, y [m], yaw [rad] in odom, N >= 1
    client: str
    rank: Rank  # for people: the gate counts the one that the client claimed with
    final_yaw: float | None = None  # [rad] to turn to at the end; None: keep the heading of arrival
    length: float = 0.0  # [m]
    map_epoch: int = 0
    map_seq: int = 0  # of the map that it was planned on
    through_unknown: bool = False
    mode: NavMode = NavMode.ASTAR
    valid_for_s: float = 1.0


class FollowState(StrEnum):
    """What the path follower does with the path it was given."""

    NONE = "none"  # there is no path
    FOLLOWING = "following"
    WAITING = "waiting"  # held by `reason`, goes on by itself when that is over
    ARRIVED = "arrived"
    ENDED = "ended"  # dropped for `reason`; does not go on


@dataclass(frozen=True, slots=True)
class FollowReport:
    """How the path goes, asked for by the planner; asking renews the path's lease."""

    goal_id: int  # 0: none
    state: FollowState
    reason: StopReason = StopReason.NONE  # why it waits or ended
    message: str = ""
    pose: Pose2D | None = None  # newest, in odom
    distance_remaining: float = 0.0  # [m] along the path
    deviation: float = 0.0  # [m] from the path
    epoch: int = 0  # the gate's newest motion epoch
    newest_goal_id: int = 0  # highest that the gate ever accepted, whatever goal was asked about
    stops: int = 0  # how often the robot was stopped in this life of the platform


@dataclass(frozen=True, slots=True)
class NavStatus:
    """The planner's present goal, or the last one."""

    state: NavState = NavState.IDLE
    goal_id: int = 0
    requested: Pose2D | None = None
    adjusted: Pose2D | None = None  # where it really goes; None before it was planned
    requested_yaw: float | None = None
    client: str = ""
    mode: NavMode = NavMode.ASTAR
    reason: str = ""  # code; empty while all is well
    message: str = ""  # one sentence
    distance_remaining: float = 0.0  # [m]
    eta: float | None = None  # [s]
    attempts: int = 0  # recoveries tried for this goal
    through_unknown: bool = False
    plan_time: float = 0.0  # [s] the last plan took
    plans: int = 0  # plans made for this goal
    path: NDArray[np.float64] | None = None  # (N, 2) x, y [m] in the map of the path in force
    seq: int = 0  # counts every change
    path_reason: str = ""  # PathReason: why the path in force took the place of another
    paths: int = 0  # sent for this goal; plans that gave no better one are not
