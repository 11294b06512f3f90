"""MotionGate: who may move the robot, how fast, and when it must stand still. The one way to the driver.

Pure: it decides, its owner sends. `now` is monotonic time [s] of the robot-side host throughout.

Every tick the owner asks `intent` what moves the robot, works out a twist, and passes it through `output`, which
answers with the twist to send, or None when the robot is at rest and was told so often enough. At rest nothing is
sent: a zero twist would cut short what the robot does by a sport command, and a driver's own dead-man keeps it still.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rhino_actors.config import GateConfig
from rhino_actors.control.gate_log import GateLog, sentence
from rhino_actors.errors import (
    CommandRejected,
    ControlError,
    ControlHeld,
    EStopLatched,
    InvalidRequest,
    NotConnected,
    NotHolder,
    RobotFallen,
    SupersededRequest,
)
from rhino_actors.geometry import wrap_angle
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.navigation import FollowState, Path, Rank
from rhino_actors.messages.platform import (
    GateDecision,
    GateStatus,
    Posture,
    StopReason,
    VelocityAnswer,
)

UPRIGHT_TIME_S = 1.0  # how long a fallen robot must stand upright before it may be driven again
UPRIGHT_SHARE = 0.5  # of the fall tilt: below this it is upright
JUMP_YAW = 0.6  # [rad] turn in one odometry step beyond what the turning rate explains: a jump
SPEED_SLACK = 1.5  # a reported speed beyond this much of the limits explains no step
OBSTACLE_CLEAR_S = 0.3  # the way must be clear this long before a path goes on
MAX_LEASE_S = 10.0
MAX_NUDGE_S = 3.0
MAX_NUDGE = Twist2D(0.3, 0.3, 0.8)
MAX_NAME = 200  # characters of a client's name
KEPT_CANCELS = 64  # goals of which a path that is still on its way is refused
NOTHING = Twist2D()
ALWAYS_ALLOWED = "StopMove"
# Commands that help a fallen robot, or make it safer.
RECOVERY_COMMANDS = frozenset({"RecoveryStand", "StandUp", "Damp", "StopMove"})


class MotionKind(StrEnum):
    """What moves the robot."""

    NONE = "none"
    DIRECT = "direct"  # a client's velocity, held by the dead-man
    PATH = "path"  # held by its lease
    NUDGE = "nudge"  # a short recovery motion, held by its duration


@dataclass(frozen=True, slots=True)
class Health:
    """What the gate must know of the robot at this moment."""

    connected: bool
    posture: Posture
    odometry_age: float = math.inf  # [s]
    lidar_age: float = math.inf  # [s]


@dataclass(frozen=True, slots=True)
class Intent:
    """What the owner has to work out a twist for."""

    kind: MotionKind
    twist: Twist2D = NOTHING  # of DIRECT and NUDGE, clamped
    hold: StopReason = StopReason.NONE  # why it must stand still for now


@dataclass(frozen=True, slots=True)
class PathState:
    """How the newest path, or nudge, goes."""

    goal_id: int = 0
    state: FollowState = FollowState.NONE
    reason: StopReason = StopReason.NONE
    message: str = ""


class MotionGate:
    """Lease, e-stop latch, clamps, dead-man, health holds, and a log of every decision.

    The *motion epoch* grows with every decision to move, and whenever one becomes void: each claim, also of the
    present holder, stop, e-stop, fall, release, pre-emption, the holder changing from a path to direct driving and
    back. A path of another epoch than the newest is refused, so nothing in flight moves the robot after a stop.

    What ends a motion ends it for a stick that is held on, too: its client must let go of it before he drives again.
    """

    def __init__(
        self,
        config: GateConfig,
        *,
        now: float,
        wall_from_monotonic: float = 0.0,
        first_epoch: int = 1,
        latched_by: str | None = None,
        latched_since: float | None = None,
    ) -> None:
        """Start at rest.

        Args:
            config: limits and times.
            now: [s].
            wall_from_monotonic: Unix time minus monotonic time [s], for the stamps that people read.
            first_epoch: must be greater than any epoch of an earlier life.
            latched_by: who latched the e-stop in an earlier life; None: it is not latched.
            latched_since: Unix time of that [s].
        """
        self._config = config
        self._wall_from_monotonic = wall_from_monotonic
        self._epoch = first_epoch
        self._epoch_is_direct = False
        self._holder = ""
        self._rank = Rank.AGENT
        self._seen = now  # last sign of life of the holder
        self._latched = latched_by is not None
        self._latched_by = latched_by or ""
        self._latched_since = latched_since
        self._kind = MotionKind.NONE
        self._twist = NOTHING
        self._until = now  # end of the dead-man, lease or nudge
        self._lease = 0.0
        self._zeros_left = 0
        self._reason = StopReason.ESTOP if self._latched else StopReason.IDLE
        self._message = ""  # the reason in its own words
        self._health = Health(connected=False, posture=Posture.CHANGING)
        self._hold = StopReason.NONE
        self._blocked_at = -math.inf
        self._odometry: Odometry | None = None
        self._jump_from = math.inf
        self._jump_until = -math.inf
        self._tilted_since: float | None = None
        self._upright_since: float | None = None
        self._fallen = False
        self._path = PathState()
        self._path_epoch = -1
        self._newest_goal_id = 0
        self._cancelled: deque[int] = deque(maxlen=KEPT_CANCELS)
        self._stops = 0  # counts stops and e-stops of this life
        self._sticks: dict[str, float] = {}  # client that must let go -> time of his last try [s]
        self._applied = NOTHING
        self._applied_since = now
        self._log = GateLog(wall_from_monotonic)
        if self._latched:
            self._note("estop", StopReason.ESTOP, "Latched by an earlier run.", now, latched_by)

    # what it knows

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def latched(self) -> bool:
        return self._latched

    @property
    def latched_by(self) -> str:
        return self._latched_by

    @property
    def latched_since(self) -> float | None:
        """Unix time of the e-stop [s]."""
        return self._latched_since

    @property
    def fallen(self) -> bool:
        return self._fallen

    @property
    def kind(self) -> MotionKind:
        return self._kind

    @property
    def path_state(self) -> PathState:
        return self._path

    @property
    def newest_goal_id(self) -> int:
        """The highest goal id of a path or nudge that was ever accepted; 0: none."""
        return self._newest_goal_id

    @property
    def applied(self) -> Twist2D:
        """The twist last sent."""
        return self._applied

    @property
    def is_settled(self) -> bool:
        """True when nothing moves the robot and zero was sent often enough."""
        return self._kind is MotionKind.NONE and self._zeros_left == 0

    @property
    def deadline(self) -> float:
        """When the present motion runs out if nothing renews it [s]; inf at rest."""
        return math.inf if self._kind is MotionKind.NONE else self._until

    @property
    def stops(self) -> int:
        """How often the robot was stopped, by stop or e-stop: what was asked for before one is void."""
        return self._stops

    def holder(self, now: float) -> str:
        """Return who drives; empty: nobody, or somebody who was silent for too long."""
        return "" if self._is_stale(now) else self._holder

    def status(self, now: float) -> GateStatus:
        """Return what others see."""
        holder = self.holder(now)
        reason, message = self._why()
        return GateStatus(
            epoch=self._epoch,
            holder=holder,
            holder_rank=self._rank.name.lower() if holder else "",
            latched=self._latched,
            latched_by=self._latched_by,
            latched_since=self._latched_since,
            reason=reason,
            applied=self._applied,
            max_vx=self._config.max_vx,
            max_vy=self._config.max_vy,
            max_omega=self._config.max_omega,
            message=message or sentence(reason),
            lease_s=self._lease_limit() if holder else 0.0,
            applied_since=self._applied_since,
        )

    def _why(self) -> tuple[StopReason, str]:
        """Return why the robot does not move as asked, and that in words where there are some of its own."""
        if self._latched:
            return StopReason.ESTOP, f"Emergency stop by {self._latched_by}."
        if self._fallen:
            return StopReason.FALLEN, ""
        if self._kind is MotionKind.NONE:
            return self._reason, self._message
        has_words = self._hold is not StopReason.NONE and self._path.reason is self._hold
        return self._hold, self._path.message if has_words else ""

    def log(self, now: float, after: float = -math.inf) -> tuple[GateDecision, ...]:
        """Return the decisions of the last minute that are newer than `after` [s], oldest first."""
        return self._log.since(now, after)

    # health

    def observe_odometry(self, odometry: Odometry, now: float) -> None:
        """Look at a new odometry for jumps and tilt. Its numbers must be finite."""
        previous, self._odometry = self._odometry, odometry
        if previous is not None and self._is_jump(previous, odometry):
            if now >= self._jump_until:
                self._jump_from = previous.stamp
            self._jump_until = now + self._config.jump_hold_s
            step = previous.pose.distance_to(odometry.pose.x, odometry.pose.y)
            self._note("hold", StopReason.ODOM_JUMP, f"The pose jumped by {step:.2f} m.", now)
        tilt = odometry.tilt
        if tilt <= self._config.fall_tilt:
            self._tilted_since = None
        elif self._tilted_since is None:
            self._tilted_since = now
        if tilt >= UPRIGHT_SHARE * self._config.fall_tilt:
            self._upright_since = None
        elif self._upright_since is None:
            self._upright_since = now

    def observe(self, health: Health, now: float) -> None:
        """Take the robot's health into account; a fall ends everything."""
        self._health = health
        lies = health.posture is Posture.FALLEN
        tilted = self._tilted_since
        if lies or (tilted is not None and now - tilted >= self._config.fall_time_s):
            if not self._fallen:
                self._fallen = True
                self._drop(StopReason.FALLEN, "The robot has fallen.", now)
                self._void()
                self._note("fall", StopReason.FALLEN, "The robot has fallen.", now)
            if lies:
                self._upright_since = None
        elif (
            self._fallen
            and self._upright_since is not None
            and now - self._upright_since >= UPRIGHT_TIME_S
            and health.odometry_age <= self._config.odometry_max_age_s
        ):
            self._fallen = False
            self._explain(StopReason.IDLE)
            self._note("recovered", StopReason.NONE, "The robot is upright again.", now)

    def trusts_pose_at(self, stamp: float) -> bool:
        """Return False while the robot lies, and for a time [s] around an odometry jump: not to be fused."""
        return not self._fallen and not self._jump_from <= stamp <= self._jump_until

    def is_settling_after_jump(self, now: float) -> bool:
        """Return True while an odometry jump holds paths."""
        return now < self._jump_until

    # who drives

    def claim(
        self,
        client: str,
        rank: Rank,
        now: float,
        *,
        take: bool = False,
        on_behalf_of: str = "",
        stops: int | None = None,
    ) -> int:
        """Make `client` the holder and return a new motion epoch for what it decides now.

        `stops` is the count of stops when this was asked for; None: it was asked for just now.

        A path or nudge of the present holder drives on until one of the new epoch replaces it or it ends by itself;
        nothing else of an earlier epoch is accepted any more.

        Raises:
            InvalidRequest: an empty name.
            ControlHeld: somebody else drives, and neither rank nor `take` nor a hand-over decides against him.
            EStopLatched, RobotFallen: nobody may drive now.
            SupersededRequest: the robot was stopped since it was asked for.
        """
        name, rank = _name(client), Rank(rank)
        self._refuse_if_unsafe(name, now)
        if stops not in (None, self._stops):
            self._note("refuse", StopReason.STOPPED, "It was asked for before a stop.", now, name)
            raise SupersededRequest()
        if name != self._holder:
            self._refuse_if_held(name, rank, now, take=take, on_behalf_of=on_behalf_of)
            self._take_over(name, now)
        else:
            if self._epoch_is_direct:
                self._end(StopReason.PREEMPTED, f"{name} asked for something else.", now)
            self._new_epoch()
        self._rank = rank
        self._seen = now
        return self._epoch

    def take(self, client: str, now: float, *, taking_from: str | None = None) -> str:
        """Let a person take the robot over; return from whom, empty: nobody, or he had it already.

        With `taking_from`: only from that one; empty: only if nobody drives.

        Raises:
            ControlHeld: another one drives than was named. `holder` is who.
            InvalidRequest, EStopLatched, RobotFallen: as `claim`.
        """
        name, before = _name(client), self.holder(now)
        if taking_from is not None and before not in (taking_from, name, ""):
            self._raise_held(name, now)
        self.claim(name, Rank.HUMAN, now, take=True)
        return "" if before == name else before

    def keep(self, client: str, now: float) -> None:
        """Keep the lease without driving. It keeps nothing moving: dead-man and path leases have their own times.

        Raises:
            ControlHeld: somebody else drives.
            NotHolder: nobody does: the lease ran out, was given back or ended by a stop.
        """
        name, holder = _name(client), self.holder(now)
        if holder != name:
            if holder:
                self._raise_held(name, now)
            raise NotHolder()
        self._seen = now

    def lose(self, client: str, now: float) -> bool:
        """End what a client drives by hand because its connection closed; return whether it did."""
        if not client or client != self._holder or self._kind is not MotionKind.DIRECT:
            return False
        message = f"The connection of {client} closed while it drove."
        self._drop(StopReason.CLIENT_LOST, message, now)
        self._note("release", StopReason.CLIENT_LOST, message, now)
        self._void()
        return True

    def release(self, client: str, now: float, *, epoch: int | None = None) -> None:
        """Let go of the robot.

        Nothing happens when `client` is not the holder, or when `epoch` is given and is not the newest: then the
        holder has decided anew meanwhile, and what it let go of is over already.
        """
        if client and client == self._holder and epoch in (None, self._epoch):
            message = f"{client} let go."
            self._drop(StopReason.RELEASED, message, now)
            self._note("release", StopReason.RELEASED, message, now)
            self._void()

    def velocity(self, twist: Twist2D, client: str, rank: Rank, now: float) -> VelocityAnswer:
        """Drive directly for as long as the dead-man allows; claims control if need be.

        Zero ends the motion. The answer tells the twist after clamping.

        Raises:
            InvalidRequest: a value is not a finite number, or the name is empty.
            ControlHeld, EStopLatched, RobotFallen, NotConnected: it may not be driven now.
            SupersededRequest: its driving was ended, and it has neither sent zero since nor been silent for the
                dead-man's time: the stick is still held from before.
        """
        name, rank = _name(client), Rank(rank)
        is_zero = _is_finite(twist) and twist.is_zero
        # First: each try counts, refused or not.
        holds_stick = self._holds_stick(name, is_zero, now)
        try:
            self._refuse_velocity(twist, name, rank, now)
        except ControlError:
            if not is_zero:  # it does not get the robot by holding on until nobody else has it
                self._remember_stick(name, now)
            raise
        if holds_stick:
            if is_zero:  # letting go takes nothing and ends nothing
                return VelocityAnswer(twist, NOTHING, False, self.holder(now), now)
            self._note("refuse", StopReason.NONE, "The stick is held from before.", now, name)
            raise SupersededRequest(
                "The robot was stopped, or somebody took over, while this drove it.",
                "Let go of the stick first, then drive on.",
            )
        if name != self._holder:
            self._take_over(name, now)
        elif not self._epoch_is_direct:
            self._drop(StopReason.PREEMPTED, f"{name} drives by hand.", now)
            self._new_epoch()
        self._rank = rank
        self._seen = now
        self._epoch_is_direct = True
        clamped = self._clamp(twist)
        if not clamped.is_zero:
            self._kind = MotionKind.DIRECT
            self._twist = clamped
            self._until = now + self._config.dead_man_s
        elif self._kind is not MotionKind.NONE:
            self._end(StopReason.IDLE, f"{name} asked for zero.", now)
        stands = self._health.posture is Posture.STANDING
        applied = clamped if stands else NOTHING
        return VelocityAnswer(twist, applied, applied != twist, name, now)

    def _refuse_velocity(self, twist: Twist2D, name: str, rank: Rank, now: float) -> None:
        """Raise what keeps a client from driving directly."""
        if not _is_finite(twist):
            self._note("refuse", StopReason.NONE, "A velocity was not finite.", now, name)
            raise InvalidRequest(f"A velocity is not a finite number: {twist}.")
        self._refuse_if_unsafe(name, now)
        if not self._health.connected:
            self._note("refuse", StopReason.NOT_CONNECTED, "The robot is not connected.", now, name)
            raise NotConnected()
        if name != self._holder:
            self._refuse_if_held(name, rank, now)

    def stop(self, client: str, now: float) -> None:
        """Zero, drop what moves the robot, free the holder. Anyone may, always."""
        self._stops += 1
        client = _any_name(client)
        message = f"Stopped by {client}."
        self._drop(StopReason.STOPPED, message, now)
        self._explain(StopReason.STOPPED, message)
        self._zeros_left = self._config.zero_repeats
        self._void()
        self._note("stop", StopReason.STOPPED, message, now, client)

    def estop(self, client: str, now: float) -> None:
        """Latch the emergency stop. Anyone may, always; the first name stays."""
        self._stops += 1
        client = _any_name(client)
        message = f"Emergency stop by {client}."
        self._drop(StopReason.ESTOP, message, now)
        self._explain(StopReason.ESTOP, message)
        self._zeros_left = self._config.zero_repeats
        self._void()
        if not self._latched:
            self._latched = True
            self._latched_by = client
            self._latched_since = now + self._wall_from_monotonic
        self._note("estop", StopReason.ESTOP, message, now, client)

    def clear(self, client: str, now: float) -> None:
        """Clear the latch. Nothing resumes: whatever moves the robot next was asked for after this."""
        if not self._latched:
            return
        client = _any_name(client)
        self._latched = False
        self._latched_by = ""
        self._latched_since = None
        self._explain(StopReason.IDLE)
        self._void()
        self._note("clear", StopReason.NONE, f"Cleared by {client}.", now, client)

    # paths

    def start_path(self, path: Path, now: float) -> None:
        """Let a path drive the robot, in place of an earlier one. Its client keeps the rank it claimed with.

        Raises:
            InvalidRequest: its lease or goal id is not a positive number.
            SupersededRequest: another epoch than the newest, or its goal was cancelled or is older than one of the
                same epoch.
            ControlHeld, EStopLatched, RobotFallen: it may not be driven now.
        """
        lease = path.valid_for_s
        if not (math.isfinite(lease) and lease > 0.0):
            raise InvalidRequest(f"valid_for_s is {lease}.", "A lease is a positive time in s.")
        self._admit(path.goal_id, path.epoch, path.client, now)
        self._kind = MotionKind.PATH
        self._lease = min(lease, MAX_LEASE_S)
        self._until = now + self._lease
        self._blocked_at = -math.inf
        self._path = PathState(path.goal_id, FollowState.FOLLOWING)
        self._set_hold(self._health_hold(now), now)

    def start_nudge(
        self,
        twist: Twist2D,
        duration: float,
        *,
        goal_id: int,
        epoch: int,
        client: str,
        now: float,
    ) -> None:
        """Let a short recovery motion drive the robot, in place of the goal's path. Raises like `start_path`."""
        if not (_is_finite(twist) and math.isfinite(duration) and duration > 0.0):
            raise InvalidRequest("A nudge needs finite values and a positive duration.")
        self._admit(goal_id, epoch, client, now)
        self._kind = MotionKind.NUDGE
        self._twist = _limit(self._clamp(twist), MAX_NUDGE)
        self._until = now + min(duration, MAX_NUDGE_S)
        self._blocked_at = -math.inf
        self._path = PathState(
            goal_id, FollowState.FOLLOWING, message="A recovery motion is on its way."
        )
        self._set_hold(self._health_hold(now), now)

    def renew(self, goal_id: int, now: float) -> None:
        """Renew the lease of a goal's path, and its client's hold on the robot.

        What drives is renewed whatever its epoch is; what has ended keeps the robot only for the newest epoch.
        """
        if goal_id != self._path.goal_id:
            return
        drives = self._kind in (MotionKind.PATH, MotionKind.NUDGE)
        if drives or self._path_epoch == self._epoch:
            self._seen = now
        if self._kind is MotionKind.PATH:
            self._until = now + self._lease

    def cancel(self, goal_id: int, now: float) -> None:
        """Stop this goal's path or nudge, and never again accept one of it. Other goals are left alone."""
        if goal_id not in self._cancelled:
            self._cancelled.append(goal_id)
        if goal_id == self._path.goal_id and self._kind is not MotionKind.DIRECT:
            self._drop(StopReason.CANCELLED, "The goal was cancelled.", now)

    def path_arrived(self, now: float, message: str = "") -> None:
        """End the path because the robot is there."""
        if self._kind is MotionKind.PATH:
            self._end(StopReason.ARRIVED, message, now)
            self._path = PathState(
                self._path.goal_id, FollowState.ARRIVED, StopReason.ARRIVED, message
            )

    def fail(self, message: str, now: float) -> None:
        """End all motion because a loop that it needs has failed."""
        self._drop(StopReason.LOOP_FAILED, message, now)
        self._explain(StopReason.LOOP_FAILED, message)
        self._zeros_left = self._config.zero_repeats
        self._void()

    # sport commands

    def admit_sport(
        self,
        command: str,
        client: str,
        rank: Rank,
        now: float,
        *,
        is_acrobatic: bool,
        parameters: Mapping[str, float] | None = None,
    ) -> dict[str, float]:
        """Let a sport command through; what moves the robot ends first, and does not go on after it.

        Args:
            command: its name, known.
            client: who asks.
            rank: of the client.
            now: [s].
            is_acrobatic: it throws the robot's weight about.
            parameters: roll, pitch, yaw [rad] and height [m] of the commands that take them.

        Returns:
            The parameters after clamping.

        Raises:
            InvalidRequest: a parameter is not a finite number, or of no known name.
            EStopLatched: all but StopMove wait for the latch to be cleared.
            RobotFallen: only RECOVERY_COMMANDS help now.
            CommandRejected: acrobatics, unless the configuration allows them.
            ControlHeld: somebody else drives.
            NotConnected: there is no robot.
        """
        name, rank = _name(client), Rank(rank)
        if command == ALWAYS_ALLOWED:
            self.stop(name, now)
        if not self._health.connected:
            raise NotConnected()
        if command == ALWAYS_ALLOWED:
            return {}
        applied = self._clamp_pose(command, parameters or {})
        if self._latched:
            self._note("refuse", StopReason.ESTOP, f"{command} while latched.", now, name)
            raise EStopLatched()
        if is_acrobatic and not self._config.allow_acrobatics:
            self._note("refuse", StopReason.NONE, f"{command} is not allowed.", now, name)
            raise CommandRejected(
                f"{command} is not allowed here.",
                "It throws the robot about: set gate.allow_acrobatics if there is room for it.",
            )
        if self._fallen:
            if command not in RECOVERY_COMMANDS:
                self._note("refuse", StopReason.FALLEN, f"{command} while fallen.", now, name)
                raise RobotFallen()
        else:
            if name != self._holder:
                self._refuse_if_held(name, rank, now)
                self._take_over(name, now)
            else:
                self._drop(StopReason.SPORT, f"{name} asked for {command}.", now)
                self._new_epoch()
            self._rank = rank
            self._seen = now
        numbers = "".join(f" {key}={value:g}" for key, value in applied.items())
        self._note("sport", StopReason.NONE, f"{command}{numbers} by {name}.", now, name)
        return applied

    def _clamp_pose(self, command: str, parameters: Mapping[str, float]) -> dict[str, float]:
        """Return a pose within the configured limits. Raises InvalidRequest."""
        config = self._config
        limits = {
            "roll": (-config.pose_tilt, config.pose_tilt),
            "pitch": (-config.pose_tilt, config.pose_tilt),
            "yaw": (-config.pose_yaw, config.pose_yaw),
            "height": (-config.pose_lower, config.pose_raise),
        }
        applied = {}
        for name, value in parameters.items():
            if name not in limits or not math.isfinite(value):
                raise InvalidRequest(f"{command} cannot have {name[:64]}={value}.")
            low, high = limits[name]
            applied[name] = max(low, min(high, value))
        return applied

    # each tick

    def intent(self, now: float) -> Intent:
        """Return what moves the robot now, after ending what ran out."""
        self._expire(now)
        if self._kind is MotionKind.NONE:
            return Intent(MotionKind.NONE)
        hold = self._health_hold(now)
        if hold is not StopReason.NONE or self._hold is not StopReason.OBSTACLE:
            self._set_hold(hold, now)
        return Intent(self._kind, self._twist, hold)

    def output(self, twist: Twist2D, now: float, *, obstacle: str = "") -> Twist2D | None:
        """Return the twist to send now, or None when nothing has to be sent.

        Args:
            twist: for what `intent` named.
            now: [s].
            obstacle: a sentence, when something in the way forbids this motion.
        """
        if self._kind is MotionKind.NONE:
            if self._zeros_left == 0:
                return None
            self._zeros_left -= 1
            return NOTHING
        if self._hold not in (StopReason.NONE, StopReason.OBSTACLE):
            return NOTHING
        if not twist.is_finite:
            self.fail("A twist that is not finite was worked out.", now)
            return self.output(NOTHING, now)
        if obstacle:
            self._blocked_at = now
        waits = self._kind is not MotionKind.DIRECT and now - self._blocked_at < OBSTACLE_CLEAR_S
        if obstacle or waits:
            self._set_hold(StopReason.OBSTACLE, now, obstacle or self._path.message)
            return NOTHING
        self._set_hold(StopReason.NONE, now)
        return self._clamp(twist)

    def sent(self, twist: Twist2D, now: float) -> None:
        """Note the twist that the driver was given, and when [s]."""
        if twist != self._applied:
            self._applied_since = now
        self._applied = twist

    # inside

    def _admit(self, goal_id: int, epoch: int, client: str, now: float) -> None:
        name = _name(client)
        self._refuse_if_unsafe(name, now)
        if goal_id <= 0:
            raise InvalidRequest(f"The goal id is {goal_id}.", "Goal ids are positive.")
        if epoch != self._epoch or self._epoch_is_direct:
            self._note("refuse", StopReason.NONE, "A path of an earlier decision.", now, name)
            raise SupersededRequest()
        if name != self._holder:
            self._raise_held(name, now)
        is_older = epoch == self._path_epoch and goal_id < self._path.goal_id
        if is_older or goal_id in self._cancelled:
            self._note("refuse", StopReason.CANCELLED, "A path of a cancelled goal.", now, name)
            raise SupersededRequest(
                "The goal was cancelled or a newer one took its place.",
                "Ask for a new goal if it is still wanted.",
            )
        self._path_epoch = epoch
        self._newest_goal_id = max(self._newest_goal_id, goal_id)
        self._seen = now

    def _refuse_if_unsafe(self, name: str, now: float) -> None:
        if self._latched:
            self._note("refuse", StopReason.ESTOP, "The emergency stop is latched.", now, name)
            raise EStopLatched(f"The emergency stop is latched, by {self._latched_by}.")
        if self._fallen:
            self._note("refuse", StopReason.FALLEN, "The robot has fallen.", now, name)
            raise RobotFallen()

    def _refuse_if_held(
        self, name: str, rank: Rank, now: float, *, take: bool = False, on_behalf_of: str = ""
    ) -> None:
        holder = self.holder(now)
        if holder and not (
            rank > self._rank or on_behalf_of == holder or (take and rank >= self._rank)
        ):
            self._raise_held(name, now)

    def _take_over(self, name: str, now: float) -> None:
        previous = self.holder(now)
        if self._holder:
            self._drop(StopReason.PREEMPTED, f"{name} took over from {self._holder}.", now)
        if previous:
            self._note("preempt", StopReason.PREEMPTED, f"{name} took over from {previous}.", now)
        self._keep_stick()
        self._holder = name
        self._new_epoch()
        self._note("claim", StopReason.NONE, f"{name} drives.", now)

    def _raise_held(self, name: str, now: float) -> None:
        holder = self.holder(now) or "nobody"
        self._note("refuse", StopReason.NONE, f"{holder} drives.", now, name)
        raise ControlHeld(f"{holder} drives the robot ({self._rank.name.lower()}).", "", holder)

    def _is_stale(self, now: float) -> bool:
        return self._kind is MotionKind.NONE and now - self._seen > self._lease_limit()

    def _lease_limit(self) -> float:
        """Return the silence [s] after which the holder's lease is free."""
        config = self._config
        is_mission = self._rank is Rank.MISSION
        return config.mission_timeout_s if is_mission else config.holder_timeout_s

    def _new_epoch(self) -> None:
        self._epoch += 1
        self._epoch_is_direct = False

    def _void(self) -> None:
        """Free the holder and make every earlier decision void."""
        self._keep_stick()
        self._holder = ""
        self._new_epoch()

    def _keep_stick(self) -> None:
        """Have the holder let go of the stick before he drives again, if he drove directly."""
        if self._epoch_is_direct:
            self._remember_stick(self._holder, self._seen)

    def _remember_stick(self, name: str, at: float) -> None:
        """Have a client that drove, or tried to, at `at` [s] let go before it drives; forget who was silent since."""
        limit = self._config.dead_man_s
        self._sticks = {other: last for other, last in self._sticks.items() if at - last <= limit}
        self._sticks[name] = at

    def _holds_stick(self, name: str, is_zero: bool, now: float) -> bool:
        """Return whether a client has held its stick ever since its driving was ended; zero is the last of it."""
        last = self._sticks.pop(name, -math.inf)
        if now - last > self._config.dead_man_s:
            return False
        if not is_zero:
            self._sticks[name] = now
        return True

    def _drop(self, reason: StopReason, message: str, now: float) -> None:
        """End what moves the robot, and the path that waits for its next stretch."""
        self._end(reason, message, now)
        self._end_waiting_path(reason, message)

    def _end(self, reason: StopReason, message: str, now: float) -> None:
        """End what moves the robot, if anything does; zeros follow."""
        kind, self._kind = self._kind, MotionKind.NONE
        if kind is MotionKind.NONE:
            return
        self._zeros_left = self._config.zero_repeats
        self._explain(reason, message)
        self._hold = StopReason.NONE
        self._twist = NOTHING
        if kind in (MotionKind.PATH, MotionKind.NUDGE):
            self._path = PathState(self._path.goal_id, FollowState.ENDED, reason, message)
        self._note("zero", reason, message, now)

    def _explain(self, reason: StopReason, message: str = "") -> None:
        self._reason, self._message = reason, message

    def _end_waiting_path(self, reason: StopReason, message: str) -> None:
        """Tell a goal between two paths (lease run out, recovery over) why it will not get another."""
        path = self._path
        if path.state is FollowState.ENDED and path.reason in (
            StopReason.LEASE_EXPIRED,
            StopReason.IDLE,
        ):
            self._path = PathState(path.goal_id, FollowState.ENDED, reason, message)

    def _expire(self, now: float) -> None:
        if self._kind is MotionKind.NONE or now < self._until:
            return
        if self._kind is MotionKind.DIRECT:
            self._end(StopReason.DEAD_MAN, "No velocity came in time.", now)
        elif self._kind is MotionKind.PATH:
            self._end(StopReason.LEASE_EXPIRED, "The planner did not renew its path.", now)
        else:
            self._end(StopReason.IDLE, "The recovery motion is over.", now)

    def _health_hold(self, now: float) -> StopReason:
        """Return what keeps the present motion still. A person who drives by hand sees the robot himself."""
        health, config = self._health, self._config
        if not health.connected:
            return StopReason.NOT_CONNECTED
        if health.posture is not Posture.STANDING:
            return StopReason.POSTURE
        if self._kind is MotionKind.DIRECT and self._rank is Rank.HUMAN:
            return StopReason.NONE
        if not health.odometry_age <= config.odometry_max_age_s:
            return StopReason.STALE_ODOMETRY
        if self.is_settling_after_jump(now):
            return StopReason.ODOM_JUMP
        if not health.lidar_age <= config.lidar_max_age_s:
            return StopReason.STALE_LIDAR
        return StopReason.NONE

    def _set_hold(self, hold: StopReason, now: float, message: str = "") -> None:
        changed, self._hold = hold is not self._hold, hold
        if self._kind in (MotionKind.PATH, MotionKind.NUDGE):
            if hold is not StopReason.NONE:
                text = message or sentence(hold)
                self._path = PathState(self._path.goal_id, FollowState.WAITING, hold, text)
            elif self._path.state is FollowState.WAITING:
                self._path = PathState(self._path.goal_id, FollowState.FOLLOWING)
        if changed:
            event = "zero" if hold is not StopReason.NONE else "go on"
            self._note(event, hold, message, now)

    def _is_jump(self, previous: Odometry, odometry: Odometry) -> bool:
        elapsed = max(0.0, odometry.stamp - previous.stamp)
        twists = (previous.twist, odometry.twist, self._applied)
        limit = math.hypot(self._config.max_vx, self._config.max_vy)
        speed = min(max(math.hypot(t.vx, t.vy) for t in twists), SPEED_SLACK * limit)
        rate = min(max(abs(t.omega) for t in twists), SPEED_SLACK * self._config.max_omega)
        a, b = previous.pose, odometry.pose
        step = a.distance_to(b.x, b.y) - speed * elapsed
        turn = abs(wrap_angle(b.yaw - a.yaw)) - rate * elapsed
        return step > self._config.jump_distance or turn > JUMP_YAW

    def _clamp(self, twist: Twist2D) -> Twist2D:
        config = self._config
        return _limit(twist, Twist2D(config.max_vx, config.max_vy, config.max_omega))

    def _note(
        self, event: str, reason: StopReason, message: str, now: float, name: str | None = None
    ) -> None:
        self._log.note(event, reason, message, now, self._holder if name is None else name)


def _name(client: str) -> str:
    if not isinstance(client, str) or not client.strip() or len(client) > MAX_NAME:
        raise InvalidRequest(
            "A client needs a name.", f"1 to {MAX_NAME} characters, not only white space."
        )
    return client


def _any_name(client: str) -> str:
    """Return a name to show for one who needs no name, as to stop."""
    return str(client)[:MAX_NAME].strip() or "unknown"


def _is_finite(twist: Twist2D) -> bool:
    try:
        return twist.is_finite
    except (TypeError, OverflowError):
        return False


def _limit(twist: Twist2D, most: Twist2D) -> Twist2D:
    """Return the twist with each axis in -most..most. Its values must be finite."""
    return Twist2D(
        max(-most.vx, min(most.vx, float(twist.vx))),
        max(-most.vy, min(most.vy, float(twist.vy))),
        max(-most.omega, min(most.omega, float(twist.omega))),
    )
