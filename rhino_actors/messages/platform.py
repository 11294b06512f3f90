"""The robot's own state, and the motion gate's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rhino_actors.messages.geometry import Odometry, Twist2D


class Posture(StrEnum):
    STANDING = "standing"
    LYING = "lying"
    SITTING = "sitting"
    DAMPED = "damped"  # motors only damp: the robot sinks and takes no velocity
    CHANGING = "changing"  # between two postures; takes no velocity
    FALLEN = "fallen"


@dataclass(frozen=True, slots=True)
class LowState:
    """What the robot's own board says of its body, as far as the driver gets it."""

    roll_pitch_yaw: tuple[float, float, float]  # [rad] of the IMU: yaw, then pitch, then roll
    gyro: tuple[float, float, float] | None = None  # [rad/s] in the body's frame
    joint_angles: tuple[float, ...] = ()  # [rad] FR, FL, RR, RL: abduction, hip, knee
    foot_forces: tuple[float, ...] = ()  # [N] FR, FL, RR, RL; empty: not measured
    current: float = 0.0  # [A] out of the battery


@dataclass(frozen=True, slots=True)
class DriverState:
    """What a driver says of its robot, newest values, never blocking."""

    connected: bool
    posture: Posture
    battery: float  # [%] 0..100
    voltage: float = 0.0  # [V]
    camera: str = "off"  # how pictures are made, or "off: reason"
    link: str = "ok"  # ok, lost, connecting: a word for people
    faults: tuple[str, ...] = ()  # sentences
    realtime_factor: float | None = None  # simulated seconds per wall second; None on a robot
    low_state: LowState | None = None


@dataclass(frozen=True, slots=True)
class SportResult:
    """The robot's answer to a sport command."""

    command: str
    accepted: bool
    code: int = 0  # the robot's status code, 0 is success
    message: str = ""
    parameters: Mapping[str, float] = field(default_factory=dict)  # as they were carried out


@dataclass(frozen=True, slots=True)
class FaultNumber:
    """A number that a fault takes."""

    default: float  # inf where it means never
    unit: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class FaultKind:
    """Something that a simulation can let go wrong."""

    name: str
    does: str
    numbers: Mapping[str, FaultNumber]  # beside `after` and `duration`
    needs_walking: bool = False
    is_event: bool = False  # happens once, or again and again; there is nothing that lasts


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault that was asked for, on or still to come. Times are simulated seconds from now."""

    name: str
    values: Mapping[str, float]
    starts_in: float  # [s] 0: it is on
    ends_in: float | None  # [s] None: it lasts until it is cleared


@dataclass(frozen=True, slots=True)
class FaultReport:
    """What is wrong on purpose, and what could be."""

    faults: tuple[InjectedFault, ...]
    kinds: tuple[FaultKind, ...]


class StopReason(StrEnum):
    """Why the robot does not move as it was asked to, or not any more. A closed list, for programs and logs."""

    NONE = ""
    IDLE = "IDLE"
    RELEASED = "RELEASED"
    STOPPED = "STOPPED"
    ESTOP = "ESTOP_LATCHED"
    DEAD_MAN = "DEAD_MAN"
    PREEMPTED = "PREEMPTED"
    CANCELLED = "CANCELLED"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    STALE_ODOMETRY = "STALE_ODOMETRY"
    STALE_LIDAR = "STALE_LIDAR"
    ODOM_JUMP = "ODOM_JUMP"
    FALLEN = "FALLEN"
    OBSTACLE = "OBSTACLE"
    ARRIVED = "ARRIVED"
    POSTURE = "POSTURE"  # it does not stand
    SPORT = "SPORT_COMMAND"  # the holder had it do something else
    NOT_CONNECTED = "NOT_CONNECTED"
    LOOP_FAILED = "LOOP_FAILED"
    CLIENT_LOST = "CLIENT_LOST"  # the connection of the one who drove by hand closed

    @property
    def ends_goal(self) -> bool:
        """True where the decision to move is void: a path that ended for this gets no successor."""
        return self in _GOAL_ENDS


_GOAL_ENDS = frozenset(
    {
        StopReason.RELEASED,
        StopReason.STOPPED,
        StopReason.ESTOP,
        StopReason.PREEMPTED,
        StopReason.CANCELLED,
        StopReason.FALLEN,
        StopReason.SPORT,
        StopReason.LOOP_FAILED,
        StopReason.CLIENT_LOST,
    }
)


@dataclass(frozen=True, slots=True)
class GateDecision:
    """One line of the gate's log: what changed, when, for whom and why."""

    stamp: float  # [s] monotonic
    wall_time: float  # [s] since the Unix epoch, for people
    event: str  # claim, preempt, release, stop, estop, clear, fall, recovered, hold, zero, go on, sport, refuse
    holder: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GateStatus:
    """Who drives and what the gate lets through."""

    epoch: int  # motion epoch: grows with every claim and whenever an earlier decision became void
    holder: str  # empty: nobody
    holder_rank: str  # human, mission, agent or empty
    latched: bool
    latched_by: str
    latched_since: float | None  # [s] since the Unix epoch
    reason: str  # why the robot is not moving as asked, a StopReason
    applied: Twist2D  # the twist last sent to the driver
    max_vx: float  # [m/s]
    max_vy: float  # [m/s]
    max_omega: float  # [rad/s]
    message: str = ""  # the reason as a sentence
    lease_s: float = 0.0  # [s] of silence after which the holder's lease is free; 0: no holder
    applied_since: float = 0.0  # [s] monotonic: when the driver was first given `applied`


@dataclass(frozen=True, slots=True)
class TakeOver:
    """What became of a take-over."""

    gate: GateStatus
    taken_from: str  # who drove before; empty: nobody, or the same client


@dataclass(frozen=True, slots=True)
class VelocityAnswer:
    """What became of a velocity request."""

    requested: Twist2D
    applied: Twist2D  # after clamping; the collision monitor may still slow it down
    clamped: bool
    holder: str
    stamp: float = 0.0  # [s] monotonic on the robot-side host, when the gate decided


@dataclass(frozen=True, slots=True)
class RobotStatus:
    """Everything of the robot that a dashboard shows, at one moment. Ages are counted on the robot's host."""

    robot: str
    driver: str
    simulated: bool
    stamp: float  # [s] monotonic on the robot-side host
    odometry: Odometry | None
    odometry_age: float | None  # [s]; None: never seen
    lidar_age: float | None  # [s]
    camera_age: float | None  # [s]
    odometry_rate: float  # [Hz] over the last seconds
    lidar_rate: float
    camera_rate: float
    control_rate: float  # [Hz] of the control loop
    driver_state: DriverState
    gate: GateStatus
    faults: tuple[str, ...] = field(default=())
    # [s] 99 of 100 of the last minute came within; None: too few.
    odometry_interval_p99: float | None = None
