"""Request and response models: the API's contract, from which clients are generated.

Lengths in m, angles in rad counter-clockwise from +x, speeds in m/s and rad/s, times in s. Positions are in the frame
`map`, unless a field says another. Numbers that a client sends must be JSON numbers and finite; unknown fields are
refused.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from rhino_actors.geometry import compose
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.localisation import LocalisationState, LocalisationStatus
from rhino_actors.messages.maps import SavedMap
from rhino_actors.messages.missions import (
    MAX_CORNERS,
    MAX_DISTANCE_M,
    MAX_DURATION_S,
    MAX_DWELL_S,
    MAX_LOOPS,
    MAX_POINTS,
    ExploreRequest,
    MissionKind,
    MissionLimits,
    MissionPhase,
    MissionState,
    MissionStatus,
    PatrolPoint,
    PatrolRequest,
    PatrolRouter,
)
from rhino_actors.messages.navigation import NavMode, NavState, NavStatus
from rhino_actors.messages.platform import (
    FaultReport,
    Posture,
    RobotStatus,
    StopReason,
)


def _writable(text: str) -> str:
    """Refuse half of a surrogate pair: JSON can spell it, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half a character") from None
    return text


Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Text = Annotated[StrictStr, AfterValidator(_writable)]


PartState = Literal["ok", "restarting", "silent", "failed"]


class RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Answer(BaseModel):
    model_config = ConfigDict(from_attributes=True)


# what clients send


class NavigateRequest(RequestModel):
    x: Finite = Field(description="[m] in the map", examples=[2.0])
    y: Finite = Field(description="[m] in the map", examples=[1.0])
    yaw: Finite | None = Field(
        None, description="[rad] heading at the goal; left out: that of arrival"
    )
    strict: StrictBool = Field(
        False, description="refuse a goal in an obstacle instead of taking the nearest free floor"
    )
    allow_unknown: StrictBool = Field(True, description="plan through cells that were never seen")
    mode: NavMode | None = Field(
        None, description="astar or direct; left out: the planner's present mode"
    )


class CancelRequest(RequestModel):
    goal_id: StrictInt | None = Field(
        None, description="give up this goal only; left out: the one in force"
    )


class GoToPoiRequest(RequestModel):
    strict: StrictBool = Field(
        False, description="refuse a place in an obstacle instead of taking the nearest free floor"
    )


class ModeRequest(RequestModel):
    mode: NavMode = Field(description="astar: along a planned path; direct: straight at the goal")


class VelocityRequest(RequestModel):
    vx: Finite = Field(description="[m/s] forward", examples=[0.3])
    vy: Finite = Field(description="[m/s] left", examples=[0.0])
    omega: Finite = Field(description="[rad/s] counter-clockwise", examples=[0.0])


class SportRequest(RequestModel):
    """Numbers of Pose and Euler, as offsets from the level stand; what is left out is zero."""

    roll: Finite | None = Field(None, description="[rad] right side down", examples=[0.2])
    pitch: Finite | None = Field(None, description="[rad] nose down", examples=[0.0])
    yaw: Finite | None = Field(None, description="[rad] to the left, feet where they are")
    height: Finite | None = Field(None, description="[m] above the usual stand; not of Euler")

    def parameters(self) -> dict[str, float]:
        """Return the numbers that were given."""
        given: dict[str, float] = self.model_dump(exclude_none=True)
        return given


class LightRequest(RequestModel):
    brightness: StrictInt = Field(ge=0, le=10, description="0 is off", examples=[5])


class VolumeRequest(RequestModel):
    volume: StrictInt = Field(ge=0, le=10, description="0 is silent", examples=[3])


class AvoidanceRequest(RequestModel):
    enabled: StrictBool = Field(description="the robot's own obstacle avoidance", examples=[True])


class FaultRequest(RequestModel):
    name: Text = Field(max_length=64, description="GET lists them", examples=["drop_lidar"])
    values: dict[Text, Finite] = Field(
        default_factory=dict,
        max_length=16,
        description="numbers of this fault; those left out have their defaults",
        examples=[{"share": 0.3}],
    )
    after: Finite | None = Field(None, description="[s] simulated, until it begins")
    duration: Finite | None = Field(
        None, description="[s] simulated, from its begin; left out: until it is cleared"
    )

    def numbers(self) -> dict[str, float]:
        """Return all numbers that were given, the times among them."""
        times = {"after": self.after, "duration": self.duration}
        return self.values | {key: value for key, value in times.items() if value is not None}


class _MissionRequest(RequestModel):
    """What an exploration and a patrol have in common."""

    area: list[tuple[Finite, Finite]] = Field(
        default_factory=list,
        max_length=MAX_CORNERS,
        description="corners x, y [m] in the map, at least 3, of the area to keep to; left out: everything",
        examples=[[[-2.0, -2.0], [4.0, -2.0], [4.0, 3.0], [-2.0, 3.0]]],
    )
    max_time: Finite | None = Field(
        None, description=f"[s] of running, 1 to {MAX_DURATION_S:g}", examples=[600.0]
    )
    max_distance: Finite | None = Field(
        None, description=f"[m] driven, 0.1 to {MAX_DISTANCE_M:g}", examples=[200.0]
    )
    min_battery: Finite | None = Field(
        None, description="[%] 0 to 100; below explorer.min_battery it ends anyway", examples=[30.0]
    )
    return_home: StrictBool = Field(
        False, description="drive back to where it started before it ends, unless it is stopped"
    )

    def limits(self) -> MissionLimits:
        """Return when the mission ends although there is more to do."""
        return MissionLimits(
            self.max_time, self.max_distance, self.min_battery, return_home=self.return_home
        )


class ExploreStart(_MissionRequest):
    """Every field may be left out: then everything that can be reached is explored."""

    def request(self) -> ExploreRequest:
        """Return it as the explorer takes it."""
        return ExploreRequest(tuple(self.area), self.limits())


class PatrolStop(RequestModel):
    """A point of a patrol: a place by its id, or coordinates."""

    poi: Text | None = Field(None, max_length=64, description="id of a place, instead of x and y")
    x: Finite | None = Field(None, description="[m] in the map", examples=[2.0])
    y: Finite | None = Field(None, description="[m] in the map", examples=[1.0])
    yaw: Finite | None = Field(
        None, description="[rad] to look to there; left out: as it arrives", examples=[1.57]
    )
    dwell: Finite | None = Field(
        None, description="[s] to stand there; left out: the patrol's dwell", examples=[5.0]
    )
    label: Text = Field("", max_length=200, description="shown to people", examples=["door"])

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "PatrolStop":
        has_point = self.x is not None and self.y is not None
        if (self.poi is not None) == has_point or (self.x is None) != (self.y is None):
            raise ValueError("give poi, or both x and y")
        return self

    def point(self) -> PatrolPoint:
        """Return it as the explorer takes it; the coordinates of a place are still to be looked up."""
        return PatrolPoint(self.x or 0.0, self.y or 0.0, self.yaw, self.dwell, self.label, self.poi)


class PatrolStart(_MissionRequest):
    """Every field may be left out: then the whole reachable floor is patrolled until it is stopped."""

    router: PatrolRouter = Field(
        PatrolRouter.COVERAGE,
        description="coverage: what was longest unvisited; random; frontier: where visited floor borders unvisited; "
        "points: the given points in their order",
    )
    points: list[Annotated[Text, Field(max_length=64)] | PatrolStop] = Field(
        default_factory=list,
        max_length=MAX_POINTS,
        description="of the router points: ids of places, or points",
        examples=[[{"x": 2.0, "y": 1.0, "dwell": 5.0, "label": "door"}, {"x": 0.0, "y": 0.0}]],
    )
    dwell: Finite = Field(0.0, description=f"[s] to stand at each goal, 0 to {MAX_DWELL_S:g}")
    loops: StrictInt | None = Field(
        None,
        ge=1,
        le=MAX_LOOPS,
        description="rounds of the points, or times that all was visited; left out: until it is stopped",
        examples=[3],
    )
    expiry: Finite | None = Field(
        None,
        description="[s] after which a place counts as unvisited; left out: the configured",
        examples=[600.0],
    )
    seed: StrictInt | None = Field(
        None, ge=0, le=2**32 - 1, description="of the router random; left out: another each time"
    )

    def request(self) -> PatrolRequest:
        """Return it as the explorer takes it; the coordinates of places are still to be looked up."""
        return PatrolRequest(
            router=self.router,
            points=tuple(
                PatrolPoint(0.0, 0.0, poi_id=p) if isinstance(p, str) else p.point()
                for p in self.points
            ),
            dwell=self.dwell,
            loops=self.loops,
            expiry=self.expiry,
            area=tuple(self.area),
            seed=self.seed,
            limits=self.limits(),
        )


class PoiRequest(RequestModel):
    label: Text = Field(description="1 to 200 characters", examples=["kitchen"])
    x: Finite | None = Field(
        None, description="[m] in the map; neither x nor y: where the robot is"
    )
    y: Finite | None = Field(
        None, description="[m] in the map; neither x nor y: where the robot is"
    )


class PoiChange(RequestModel):
    """A new label, a new place, or both; what is left out stays."""

    label: Text | None = Field(None, description="1 to 200 characters", examples=["charging dock"])
    x: Finite | None = Field(None, description="[m] on the map that the place lies on")
    y: Finite | None = Field(None, description="[m] on the map that the place lies on")
    z: Finite | None = Field(None, description="[m]")


class PoiOrder(RequestModel):
    ids: list[Text] = Field(
        description="ids of all places of the robot, each once, in the new order", max_length=10_000
    )


class SaveMapRequest(RequestModel):
    name: Text = Field(
        description="1 to 200 characters; no two maps of a robot have names that look the same",
        examples=["office"],
    )


class MapChange(RequestModel):
    name: Text = Field(description="1 to 200 characters", examples=["office, 2nd floor"])


class LoadMapRequest(RequestModel):
    x: Finite | None = Field(None, description="[m] on the map, where the robot stands")
    y: Finite | None = Field(None, description="[m] on the map, where the robot stands")
    yaw: Finite = Field(0.0, description="[rad] on the map, where the robot looks")


# what they get


class ErrorBody(BaseModel):
    code: str = Field(description="stable name for programs", examples=["GOAL_OCCUPIED"])
    message: str = Field(description="one sentence: what is wrong")
    hint: str = Field(description="one sentence: what to do")
    holder: str | None = Field(None, description="who drives; with CONTROL_HELD only")


class Pose(Answer):
    x: float = Field(description="[m]")
    y: float = Field(description="[m]")
    yaw: float = Field(description="[rad] in (-pi, pi]")


class Twist(Answer):
    vx: float = Field(description="[m/s] forward")
    vy: float = Field(description="[m/s] left")
    omega: float = Field(description="[rad/s] counter-clockwise")


class Gate(Answer):
    epoch: int = Field(description="grows whenever an earlier decision to move became void")
    holder: str = Field(description="who drives; empty: nobody")
    holder_rank: str = Field(description="human, mission, agent or empty")
    latched: bool = Field(description="the emergency stop is latched")
    latched_by: str
    latched_since: float | None = Field(description="[s] since the Unix epoch")
    reason: str = Field(
        description="why the robot does not move as asked: " + ", ".join(r for r in StopReason if r)
    )
    applied: Twist = Field(description="the twist last sent to the robot")
    max_vx: float = Field(description="[m/s]")
    max_vy: float = Field(description="[m/s]")
    max_omega: float = Field(description="[rad/s]")
    message: str = Field("", description="the reason as a sentence")
    lease_s: float = Field(
        0.0, description="[s] of silence after which the lease is free; 0: nobody drives"
    )
    applied_since: float = Field(
        0.0,
        description="[s] monotonic on the robot's host: when the driver was first given `applied`",
    )


class GateLogLine(Answer):
    stamp: float = Field(description="[s] monotonic on the robot's host")
    wall_time: float = Field(description="[s] since the Unix epoch")
    event: str = Field(
        description="claim, preempt, release, stop, estop, clear, fall, recovered, zero, hold, go on, refuse, sport"
    )
    holder: str = Field(description="who drove, or asked")
    reason: str = Field(description="code, as in the gate; empty: no stop")
    message: str = Field(description="what happened, in a sentence")


class Status(Answer):
    driver: str
    connected: bool
    posture: Posture
    battery: float = Field(description="[%] 0..100")
    voltage: float = Field(description="[V]")
    link: str = Field(description="ok, lost or connecting")
    camera: str = Field(description="how pictures are made, or off and the reason")
    realtime_factor: float | None = Field(
        description="[s/s] simulated time per real time; null: a robot"
    )
    faults: list[str]


class Ages(Answer):
    odometry: float | None = Field(description="[s] on the robot's host; null: never seen")
    lidar: float | None = Field(description="[s]")
    camera: float | None = Field(description="[s]")


class PartHealth(BaseModel):
    state: PartState
    answer_ms: float | None = Field(None, description="[ms] until it answered; null: it did not")
    needed: bool = Field(description="without it the robot cannot be driven to a goal")


class RobotHealth(BaseModel):
    robot: str
    parts: dict[str, PartHealth] = Field(description="by name: platform, mapper, ...")
    ages: Ages | None = Field(None, description="null: the platform does not answer")
    problems: list[str] = Field(description="sensors that are late, and the robot's faults")


class Health(BaseModel):
    status: Literal["ok", "degraded"] = Field("ok", examples=["ok"])
    robots: list[RobotHealth] | None = Field(default=None, description="with `deep` only")
    store: PartHealth | None = Field(default=None, description="with `deep` only: the database")


class Unhealthy(ErrorBody):
    status: Literal["unavailable"]
    robots: list[RobotHealth]
    store: PartHealth


class Rates(Answer):
    odometry: float = Field(description="[Hz] over the last seconds")
    lidar: float = Field(description="[Hz]")
    camera: float = Field(description="[Hz]")
    control: float = Field(description="[Hz]")
    odometry_interval_p99: float | None = Field(
        None, description="[s] 99 of 100 odometry messages of the last minute came within this"
    )
    map: float | None = Field(
        None, description="[Hz] new maps; null in events, and while the mapper does not answer"
    )


class Nav(Answer):
    state: NavState
    goal_id: int = Field(description="0: none yet")
    requested: Pose | None = Field(description="where it was sent")
    adjusted: Pose | None = Field(description="where it really goes; null before it was planned")
    requested_yaw: float | None = Field(description="[rad] that was asked for; null: none was")
    client: str = Field(description="who asked")
    mode: NavMode
    reason: str = Field(description="code; empty while all is well")
    message: str
    distance_remaining: float = Field(description="[m]")
    eta: float | None = Field(description="[s]")
    attempts: int = Field(description="recoveries tried for this goal")
    through_unknown: bool
    plan_time: float = Field(description="[s] the last plan took")
    plans: int
    seq: int = Field(description="counts every change")
    path_reason: str = Field("", description="why the path in force took the place of another")
    paths: int = Field(0, description="paths sent for this goal")


class NavigateStatus(Nav):
    goal: Pose | None = Field(None, description="the goal in force; null when there is none")
    exploring: bool = False
    path: list[tuple[float, float]] = Field(
        default_factory=list, description="x, y [m] of the path in force"
    )


class Skipped(Answer):
    x: float = Field(description="[m]")
    y: float = Field(description="[m]")
    size: int = Field(description="cells of the frontier; 0 for a point of a patrol")
    reason: str = Field(description="code")
    label: str = Field("", description="of the point")


class Limits(Answer):
    max_time: float | None = Field(description="[s] of running; null: none")
    max_distance: float | None = Field(description="[m]; null: none")
    min_battery: float | None = Field(description="[%]; null: none")
    return_home: bool


class Patrol(Answer):
    router: PatrolRouter
    share_visited: float = Field(
        description="[1] of the safe area within the last expiry seconds, 0 to 1"
    )
    worst_idleness: float = Field(
        description="[s] since the longest unvisited reachable place was visited, or the start"
    )
    mean_idleness: float = Field(description="[s]")
    safe_area: float = Field(description="[m2] that can be reached")
    loops: int = Field(description="done")
    next_label: str = Field(description="of the point driven to")


class Mission(Answer):
    id: str = Field("", description="UUID, of its record in the log; empty: none ran yet")
    kind: MissionKind
    state: MissionState = Field(
        description="idle, running, paused_by_user, or its end: complete, blocked, cancelled, interrupted, "
        "low_battery, time_limit (of time or distance)"
    )
    phase: MissionPhase = Field(
        MissionPhase.NONE, description="what a running mission does: empty when none runs"
    )
    reason: str = Field(description="code of the end, the pause, or what it waits for")
    message: str
    client: str = Field(description="who started it")
    goal: Pose | None
    home: Pose | None = Field(None, description="where it started")
    home_reached: bool | None = Field(
        None, description="at its end; null: it was not asked to return"
    )
    goals_reached: int
    goals_failed: int
    skipped: list[Skipped] = Field(description="frontiers and points that were left")
    known_area: float = Field(description="[m2]")
    explored_share: float | None = Field(
        None, description="[1] of what is known and expected, 0 to 1; an estimate; null: not known"
    )
    eta: float | None = Field(None, description="[s] to the end, an estimate; null: not known")
    distance: float = Field(description="[m] driven in this mission")
    elapsed: float = Field(description="[s] of running, pauses left out")
    area: list[tuple[float, float]] = Field(
        default_factory=list, description="corners [m] of the area it keeps to; empty: everything"
    )
    limits: Limits | None = None
    patrol: Patrol | None = Field(None, description="of a patrol")
    seq: int = Field(description="counts every change")


class MissionSummary(Answer):
    """A mission in the log."""

    id: str
    robot: str
    kind: MissionKind
    client: str = Field(description="who started it")
    started_at: float = Field(description="[s] since the Unix epoch")
    ended_at: float | None = Field(description="[s] since the Unix epoch; null: it runs")
    state: MissionState
    reason: str = Field(description="code of the end")
    message: str
    distance: float = Field(description="[m]")
    elapsed: float = Field(description="[s] of running")
    known_area: float = Field(description="[m2] at its end")
    explored_share: float | None = Field(description="[1] 0 to 1; null: not known")
    goals_reached: int
    goals_failed: int
    map_id: str | None = Field(description="the saved map that it drove on; null: none")
    patrol: Patrol | None
    has_picture: bool


class MissionGoalModel(Answer):
    x: float = Field(description="[m] in the map")
    y: float = Field(description="[m] in the map")
    started: float = Field(description="[s] since the mission began")
    ended: float = Field(description="[s]")
    outcome: str = Field(description="arrived, failed, cancelled, REPLACED, REFUSED or DROPPED")
    reason: str = Field(description="code")
    distance: float = Field(description="[m] driven for it")
    label: str = Field(description="of a patrol's point")


class MissionReport(MissionSummary):
    """A mission in the log, with its goals and what it left."""

    goals: list[MissionGoalModel] = Field(description="the last ones, oldest first")
    skipped: list[Skipped]


class Localisation(Answer):
    state: LocalisationState = Field(
        description="unknown: no saved map is loaded, nothing to find; searching and lost: goals are refused"
    )
    share: float = Field(description="[1] of the lidar's points that lie on the loaded map, 0 to 1")
    sentence: str = Field(description="what is wrong, or what to do")


class StateEvent(Answer):
    robot: str
    simulated: bool
    pose: Pose | None = Field(
        description="in the map; null before the first odometry, and while the place in it is not known"
    )
    odom_pose: Pose | None = Field(
        description="in odom, which goes on without a jump; null before the first odometry"
    )
    z: float | None = Field(description="[m] height of the body")
    twist: Twist | None = Field(description="measured, in the body frame")
    status: Status | None
    gate: Gate | None
    nav: Nav | None
    mission: Mission | None
    ages: Ages | None
    rates: Rates | None
    localisation: Localisation | None = Field(
        description="whether the robot knows its place in a loaded map"
    )
    unavailable: list[str] = Field(
        default_factory=list, description="parts that do not answer now; what they know is null"
    )


class MapState(BaseModel):
    epoch: int = Field(description="new after the mapper restarted")
    seq: int = Field(description="counts the maps of an epoch; 0 before the first")
    known_area: float = Field(description="[m2] of the cells that were seen")
    age: float | None = Field(
        description="[s] of the newest lidar frame in the map; null before the first"
    )
    frame_rate: float = Field(description="[Hz] lidar frames taken in")
    latency_p50_ms: float = Field(
        description="[ms] from a lidar frame to the map that holds it: half of the last ones took less"
    )
    latency_p99_ms: float = Field(description="[ms]")


class State(StateEvent):
    path: list[tuple[float, float]] = Field(description="x, y [m] of the path in force")
    map: MapState | None = Field(description="how new and how large the map is")


class MapInfo(BaseModel):
    origin_x: float = Field(description="[m] of the lower-left corner of the map")
    origin_y: float = Field(description="[m] of the lower-left corner of the map")
    resolution: float = Field(description="[m] per pixel")
    width: int = Field(description="[px]")
    height: int = Field(description="[px]")
    epoch: int = Field(description="new after the mapper restarted")
    seq: int = Field(description="counts the maps of an epoch")
    empty: bool = Field(description="true before the first scan")
    known_area: float = Field(description="[m2] of the cells that were seen")
    robot: Pose | None = Field(description="in odom: where the robot was when this map was made")
    map_from_odom: Pose = Field(description="where the frame odom lies in the map")
    localised: bool = Field(
        description="false: the robot's place in this map is not known, and map_from_odom says nothing"
    )
    localisation: Localisation = Field(description="as it is now")


class VelocityResponse(Answer):
    requested: Twist
    applied: Twist = Field(description="after clamping; the collision monitor may slow it further")
    clamped: bool
    holder: str
    stamp: float = Field(
        0.0, description="[s] monotonic on the robot's host, when the gate decided"
    )


class StopResponse(BaseModel):
    gate: Gate
    goal_cancelled: bool = Field(description="a goal was given up")
    mission_stopped: bool = Field(description="a mission was given up")


class ControlResponse(BaseModel):
    holder: str = Field(description="who drives now; empty: nobody")
    taken_from: str = Field(
        default="", description="who drove before; empty: nobody, or the same client"
    )
    epoch: int
    lease_s: float = Field(
        0.0, description="[s] of silence after which the lease is free; 0: nobody drives"
    )


class SportResponse(Answer):
    command: str
    accepted: bool
    code: int = Field(description="the robot's status code; 0 is success")
    message: str
    parameters: dict[str, float] = Field(
        default_factory=dict, description="as they were carried out, after clamping"
    )


class DeviceResponse(BaseModel):
    device: str
    accepted: bool
    code: int = Field(description="the robot's status code; 0 is success")
    message: str


class InjectedFault(Answer):
    name: str
    values: dict[str, float]
    starts_in: float = Field(description="[s] simulated; 0: it is on")
    ends_in: float | None = Field(description="[s] simulated; null: when it is cleared")


class FaultNumber(BaseModel):
    name: str
    unit: str
    default: float | None = Field(description="null: never")
    low: float
    high: float


class FaultKind(BaseModel):
    name: str
    does: str
    numbers: list[FaultNumber]
    needs_walking: bool = Field(description="only a body with weight has it: mujoco.base walking")
    once: bool = Field(description="an event; nothing that lasts")


class Faults(BaseModel):
    faults: list[InjectedFault] = Field(description="on, or still to come")
    kinds: list[FaultKind] = Field(description="what can go wrong on purpose")


class PoiModel(Answer):
    id: str
    robot: str
    label: str
    x: float = Field(description="[m]")
    y: float = Field(description="[m]")
    z: float = Field(description="[m]")
    map_id: str | None = Field(
        description="the saved map that it lies on; null: a running map that was not saved"
    )
    created_at: float = Field(description="[s] since the Unix epoch")


class SavedMapModel(BaseModel):
    id: str
    robot: str
    name: str
    created_at: float = Field(description="[s] since the Unix epoch")
    resolution: float = Field(description="[m] edge of a cell")
    origin_x: float = Field(description="[m] of the lower-left corner")
    origin_y: float = Field(description="[m] of the lower-left corner")
    width: int = Field(description="[cells]")
    height: int = Field(description="[cells]")
    known_area: float = Field(description="[m2] of the cells that were seen")
    voxels: int = Field(description="voxels in its 3D layer; 0: it has none")
    size: int = Field(description="[byte] of its files")
    frame: str = Field(description="maps with the same frame have the same coordinates")
    in_force: bool | None = Field(
        description="the running map has this map's coordinates; null: the mapper does not answer"
    )


class LoadedMap(BaseModel):
    map: SavedMapModel
    epoch: int = Field(description="of the running map that goes on from it")
    is_placed: bool = Field(
        description="the robot's place on it was given, roughly; otherwise it is looked for everywhere"
    )


class RobotSummary(BaseModel):
    name: str
    simulated: bool
    available: bool = Field(description="its platform answers")
    default: bool = Field(description="the robot that /api/... means")
    posture: Posture | None
    battery: float | None = Field(description="[%]")
    holder: str | None
    latched: bool | None


def faults(report: FaultReport) -> Faults:
    """Return what is wrong on purpose, and what could be."""
    return Faults(
        faults=[InjectedFault.model_validate(fault) for fault in report.faults],
        kinds=[
            FaultKind(
                name=kind.name,
                does=kind.does,
                numbers=[
                    FaultNumber(
                        name=name,
                        unit=number.unit,
                        default=number.default if math.isfinite(number.default) else None,
                        low=number.low,
                        high=number.high,
                    )
                    for name, number in kind.numbers.items()
                ],
                needs_walking=kind.needs_walking,
                once=kind.is_event,
            )
            for kind in report.kinds
        ],
    )


def navigate_status(nav: NavStatus, *, exploring: bool) -> NavigateStatus:
    """Return a goal's status with its path."""
    goal = (nav.adjusted or nav.requested) if nav.state.is_active else None
    return NavigateStatus(
        **dict(Nav.model_validate(nav)),
        goal=Pose.model_validate(goal) if goal else None,
        exploring=exploring,
        path=path_points(nav),
    )


def saved_map(saved: SavedMap, frame: str | None, *, is_known: bool = True) -> SavedMapModel:
    """Return a saved map's model; `frame` is that of the running map, if it has a saved one's and `is_known`."""
    geometry = saved.geometry
    return SavedMapModel(
        id=saved.id,
        robot=saved.robot,
        name=saved.name,
        created_at=saved.created_at,
        resolution=geometry.resolution,
        origin_x=geometry.origin[0],
        origin_y=geometry.origin[1],
        width=geometry.shape[1],
        height=geometry.shape[0],
        known_area=saved.known_area,
        voxels=saved.voxels,
        size=saved.size,
        frame=saved.frame,
        in_force=saved.frame == frame if is_known else None,
    )


def path_points(nav: NavStatus | None) -> list[tuple[float, float]]:
    """Return the path in force, rounded to a millimetre."""
    if nav is None or nav.path is None:
        return []
    return [(round(float(x), 3), round(float(y), 3)) for x, y in nav.path[:, :2]]


def state_event(
    robot: str,
    simulated: bool,
    status: RobotStatus | None,
    nav: NavStatus | None,
    mission: MissionStatus | None,
    localisation: LocalisationStatus | None,
    unavailable: Sequence[str],
) -> StateEvent:
    """Put together what is known of a robot; what is not known is null."""
    odometry = status.odometry if status else None
    pose = pose_in_map(odometry.pose, localisation) if odometry else None
    return StateEvent(
        robot=robot,
        simulated=status.simulated if status else simulated,
        pose=Pose.model_validate(pose) if pose else None,
        odom_pose=Pose.model_validate(odometry.pose) if odometry else None,
        z=odometry.position[2] if odometry else None,
        twist=Twist.model_validate(odometry.twist) if odometry else None,
        status=_status(status) if status else None,
        gate=Gate.model_validate(status.gate) if status else None,
        nav=Nav.model_validate(nav) if nav else None,
        mission=Mission.model_validate(mission) if mission else None,
        ages=_ages(status) if status else None,
        rates=_rates(status) if status else None,
        localisation=Localisation.model_validate(localisation) if localisation else None,
        unavailable=list(unavailable),
    )


def pose_in_map(odom_pose: Pose2D, localisation: LocalisationStatus | None) -> Pose2D | None:
    """Return where a pose given in odom lies in the map, None while that is not known."""
    if localisation is None or not localisation.is_usable:
        return None
    return Pose2D(*compose(localisation.map_from_odom.as_tuple(), odom_pose.as_tuple()))


def map_state(stats: Mapping[str, float], status: RobotStatus | None) -> MapState:
    """Return what the mapper's figures say; the platform's clock tells the age, since the frame's stamp is its."""
    stamp = stats["stamp"]
    return MapState(
        epoch=int(stats["epoch"]),
        seq=int(stats["seq"]),
        known_area=stats["known_area"],
        age=max(0.0, status.stamp - stamp) if status and stamp > 0.0 else None,
        frame_rate=stats["frame_rate"],
        latency_p50_ms=stats["latency_ms_p50"],
        latency_p99_ms=stats["latency_ms_p99"],
    )


def _status(status: RobotStatus) -> Status:
    driver = status.driver_state
    return Status(
        driver=status.driver,
        connected=driver.connected,
        posture=driver.posture,
        battery=driver.battery,
        voltage=driver.voltage,
        link=driver.link,
        camera=driver.camera,
        realtime_factor=driver.realtime_factor,
        faults=list(status.faults),  # the driver's are among them
    )


def _ages(status: RobotStatus) -> Ages:
    return Ages(odometry=status.odometry_age, lidar=status.lidar_age, camera=status.camera_age)


def _rates(status: RobotStatus) -> Rates:
    return Rates(
        odometry=status.odometry_rate,
        lidar=status.lidar_rate,
        camera=status.camera_rate,
        control=status.control_rate,
        odometry_interval_p99=status.odometry_interval_p99,
        map=None,
    )


def error_body(code: str, message: str, hint: str, holder: str | None = None) -> dict[str, Any]:
    """Return the body of every error; `holder` only where there is one."""
    body = ErrorBody(code=code, message=message, hint=hint, holder=holder)
    return body.model_dump(exclude_none=True)
