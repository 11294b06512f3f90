"""The gate alone: time is an argument, so every case is exact."""

import contextlib
import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from rhino_actors.config import GateConfig
from rhino_actors.control.gate_log import LOG_LENGTH, sentence
from rhino_actors.control.motion_gate import (
    KEPT_CANCELS,
    Health,
    MotionGate,
    MotionKind,
)
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
from rhino_actors.geometry import quaternion_from_yaw
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.navigation import FollowState, Path, Rank
from rhino_actors.messages.platform import Posture, StopReason

CONFIG = GateConfig()
HEALTHY = Health(connected=True, posture=Posture.STANDING, odometry_age=0.02, lidar_age=0.1)
AHEAD = Twist2D(0.4, 0.0, 0.0)
ZERO = Twist2D()
TICK = 0.05


def make_gate(**config: float) -> MotionGate:
    gate = MotionGate(dataclasses.replace(CONFIG, **config), now=0.0)
    gate.observe(HEALTHY, 0.0)
    return gate


def make_path(epoch: int, goal_id: int = 1, client: str = "anna", **fields: object) -> Path:
    poses = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    return Path(goal_id, epoch, poses, client, fields.pop("rank", Rank.HUMAN), **fields)  # type: ignore[arg-type]


def tick(
    gate: MotionGate, now: float, wanted: Twist2D = AHEAD, obstacle: str = ""
) -> Twist2D | None:
    intent = gate.intent(now)
    twist = wanted if intent.kind is MotionKind.PATH else intent.twist
    out = gate.output(twist, now, obstacle=obstacle)
    if out is not None:
        gate.sent(out, now)
    return out


def run(gate: MotionGate, start: float, seconds: float) -> list[Twist2D | None]:
    return [tick(gate, start + k * TICK) for k in range(round(seconds / TICK))]


def odometry(
    seq: int, stamp: float, x: float = 0.0, yaw: float = 0.0, roll: float = 0.0
) -> Odometry:
    _, _, sz, cz = quaternion_from_yaw(yaw)
    sx, cx = math.sin(roll / 2), math.cos(roll / 2)
    turned = (cz * sx, sz * sx, sz * cx, cz * cx)
    return Odometry(seq, stamp, (x, 0.0, 0.3), turned, Twist2D())


# velocities


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "0.3", None, 10**400])
@pytest.mark.parametrize("axis", ["vx", "vy", "omega"])
def test_a_velocity_that_is_no_finite_number_is_refused_and_moves_nothing(
    bad: float, axis: str
) -> None:
    gate = make_gate()
    with pytest.raises(InvalidRequest):
        gate.velocity(dataclasses.replace(AHEAD, **{axis: bad}), "anna", Rank.HUMAN, 0.0)
    assert gate.kind is MotionKind.NONE
    assert gate.holder(0.0) == ""
    assert tick(gate, 0.01) is None


def test_a_bad_velocity_does_not_disturb_the_one_that_drives() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    with pytest.raises(InvalidRequest):
        gate.velocity(Twist2D(math.nan), "anna", Rank.HUMAN, 0.1)
    assert tick(gate, 0.11) == AHEAD
    assert tick(gate, 0.25) == ZERO, "and does not keep it alive either"


def test_each_axis_is_clamped_for_itself_and_the_answer_tells_the_applied_twist() -> None:
    gate = make_gate()
    answer = gate.velocity(Twist2D(50.0, -50.0, 0.3), "anna", Rank.HUMAN, 0.0)
    assert answer.applied == Twist2D(CONFIG.max_vx, -CONFIG.max_vy, 0.3)
    assert answer.clamped
    assert tick(gate, 0.01) == answer.applied
    assert not gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.02).clamped


def test_the_dead_man_sends_zero_at_its_time_and_repeats_it() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    assert gate.deadline == CONFIG.dead_man_s
    assert tick(gate, CONFIG.dead_man_s - 0.001) == AHEAD
    sent = [tick(gate, CONFIG.dead_man_s + k * TICK) for k in range(CONFIG.zero_repeats)]
    assert sent == [ZERO] * CONFIG.zero_repeats
    assert tick(gate, 2.0) is None, "at rest the wire is silent"
    assert gate.status(2.0).reason == StopReason.DEAD_MAN


def test_zero_from_the_holder_ends_the_motion_at_once() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    gate.velocity(ZERO, "anna", Rank.HUMAN, 0.1)
    assert run(gate, 0.1, 0.3) == [ZERO] * 6
    assert gate.holder(0.4) == "anna"


def test_velocity_needs_a_robot() -> None:
    gate = make_gate()
    gate.observe(dataclasses.replace(HEALTHY, connected=False), 0.0)
    with pytest.raises(NotConnected):
        gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)


@pytest.mark.parametrize("name", ["", "   ", "x" * 201, None])
def test_who_drives_has_a_name(name: str) -> None:
    with pytest.raises(InvalidRequest):
        make_gate().velocity(AHEAD, name, Rank.HUMAN, 0.0)


@pytest.mark.parametrize("hold", ["odometry_age", "lidar_age"])
def test_stale_sensors_hold_an_agent_but_not_a_person_who_sees_the_robot(hold: str) -> None:
    stale = dataclasses.replace(HEALTHY, **{hold: 5.0})
    for rank, expected in ((Rank.HUMAN, AHEAD), (Rank.AGENT, ZERO)):
        gate = make_gate()
        gate.observe(stale, 0.0)
        gate.velocity(AHEAD, "anna", rank, 0.0)
        assert tick(gate, 0.01) == expected


def test_a_robot_that_does_not_stand_takes_no_velocity() -> None:
    gate = make_gate()
    gate.observe(dataclasses.replace(HEALTHY, posture=Posture.LYING), 0.0)
    assert gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0).applied == ZERO
    assert tick(gate, 0.01) == ZERO
    assert gate.status(0.01).reason == StopReason.POSTURE


# who drives


def test_one_holder_drives_and_the_other_learns_his_name() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    with pytest.raises(ControlHeld) as refused:
        gate.velocity(Twist2D(-0.3), "bert", Rank.HUMAN, 0.1)
    assert refused.value.holder == "anna"
    assert "anna" in refused.value.message
    assert tick(gate, 0.11) == AHEAD


@pytest.mark.parametrize(
    ("first", "second", "granted"),
    [
        (Rank.AGENT, Rank.MISSION, True),
        (Rank.MISSION, Rank.HUMAN, True),
        (Rank.AGENT, Rank.HUMAN, True),
        (Rank.HUMAN, Rank.HUMAN, False),
        (Rank.HUMAN, Rank.MISSION, False),
        (Rank.MISSION, Rank.AGENT, False),
    ],
)
def test_rank_decides(first: Rank, second: Rank, granted: bool) -> None:
    gate = make_gate()
    epoch = gate.claim("first", first, 0.0)
    if granted:
        assert gate.claim("second", second, 0.1) > epoch
        assert gate.holder(0.1) == "second"
    else:
        with pytest.raises(ControlHeld):
            gate.claim("second", second, 0.1)
        assert gate.holder(0.1) == "first"


def test_take_works_among_equals_and_never_upwards() -> None:
    gate = make_gate()
    gate.claim("anna", Rank.HUMAN, 0.0)
    gate.claim("bert", Rank.HUMAN, 0.1, take=True)
    assert gate.holder(0.1) == "bert"
    with pytest.raises(ControlHeld):
        gate.claim("robot-friend", Rank.AGENT, 0.2, take=True)


def test_a_person_hands_over_to_the_mission_that_he_starts() -> None:
    gate = make_gate()
    gate.claim("anna", Rank.HUMAN, 0.0)
    with pytest.raises(ControlHeld):
        gate.claim("explorer", Rank.MISSION, 0.1, on_behalf_of="bert")
    gate.claim("explorer", Rank.MISSION, 0.1, on_behalf_of="anna")
    assert gate.holder(0.1) == "explorer"


def test_a_silent_holder_is_free_to_be_replaced_and_one_that_drives_is_not_silent() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, valid_for_s=10.0), 0.0)
    late = CONFIG.holder_timeout_s + 1.0
    gate.observe(HEALTHY, late)
    tick(gate, late)
    with pytest.raises(ControlHeld):
        gate.claim("bert", Rank.HUMAN, late)
    gate.cancel(1, late)
    assert gate.holder(late) == ""
    gate.claim("bert", Rank.HUMAN, late)
    assert gate.holder(late) == "bert"


def test_release_ends_the_motion_and_only_the_holder_can() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    gate.release("bert", 0.01)
    assert tick(gate, 0.02) == AHEAD
    gate.release("anna", 0.03)
    assert run(gate, 0.05, 0.5) == [ZERO] * 10
    assert gate.holder(0.1) == ""


def test_letting_go_of_an_old_goal_does_not_stop_the_stick_that_replaced_it() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch), 0.0)
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.1)
    gate.release("anna", 0.12, epoch=epoch)
    assert tick(gate, 0.13) == AHEAD
    gate.release("anna", 0.14, epoch=gate.epoch)
    assert tick(gate, 0.15) == ZERO


def test_a_persons_velocity_ends_a_mission_path_for_good() -> None:
    gate = make_gate()
    epoch = gate.claim("explorer", Rank.MISSION, 0.0)
    path = make_path(epoch, client="explorer", rank=Rank.MISSION)
    gate.start_path(path, 0.0)
    gate.velocity(Twist2D(-0.2), "anna", Rank.HUMAN, 0.1)
    assert tick(gate, 0.11) == Twist2D(-0.2)
    assert gate.path_state.reason is StopReason.PREEMPTED
    with pytest.raises(SupersededRequest):
        gate.start_path(path, 0.2)
    with pytest.raises(ControlHeld):
        gate.claim("explorer", Rank.MISSION, 0.3)


def test_a_person_who_takes_the_stick_drops_his_own_goal_even_while_it_is_planned() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.1)
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(epoch), 0.2)
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(gate.epoch), 0.2)
    epoch = gate.claim("anna", Rank.HUMAN, 0.3)
    gate.start_path(make_path(epoch), 0.3)
    assert tick(gate, 0.31) == AHEAD


# stop and e-stop


def test_stop_is_open_to_anyone_and_voids_what_is_in_flight() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch), 0.0)
    gate.stop("a stranger", 0.1)
    assert run(gate, 0.1, 1.0) == [ZERO] * 10 + [None] * 10
    assert gate.path_state.state is FollowState.ENDED
    assert gate.path_state.reason is StopReason.STOPPED
    assert gate.holder(0.2) == ""
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(epoch), 0.2)


def _fall(gate: MotionGate, now: float) -> None:
    gate.observe(dataclasses.replace(HEALTHY, posture=Posture.FALLEN), now)
    for k in range(60):
        gate.observe_odometry(odometry(k, now), now)
        gate.observe(HEALTHY, now)
        with contextlib.suppress(RobotFallen, SupersededRequest):
            gate.velocity(AHEAD, "anna", Rank.HUMAN, now)
        now += 0.02
    assert not gate.fallen


def _estop(gate: MotionGate, now: float) -> None:
    gate.estop("bert", now)
    gate.clear("bert", now + 0.02)


def _preempt(gate: MotionGate, now: float) -> None:
    epoch = gate.claim("bert", Rank.HUMAN, now, take=True)
    gate.release("bert", now + 0.02, epoch=epoch)


ENDS = [
    lambda gate, now: gate.stop("bert", now),
    lambda gate, now: gate.stop("anna", now),  # the tab whose other hand holds the stick
    lambda gate, now: gate.release("anna", now),
    lambda gate, now: gate.fail("A loop ended.", now),
    lambda gate, now: gate.admit_sport("StopMove", "bert", Rank.AGENT, now, is_acrobatic=False),
    _estop,
    _preempt,
    _fall,
]


def stream(gate: MotionGate, start: float, seconds: float) -> list[Twist2D | None]:
    """Have anna send a velocity each tick, whatever the answer is; return what went on the wire."""
    sent = []
    for k in range(round(seconds / TICK)):
        now = start + k * TICK
        with contextlib.suppress(ControlError):
            gate.velocity(AHEAD, "anna", Rank.HUMAN, now)
        sent.append(tick(gate, now))
    return sent


@pytest.mark.parametrize("end", ENDS)
def test_a_stick_that_is_held_on_does_not_move_the_robot_after_it_was_stopped(
    end: Callable[[MotionGate, float], None],
) -> None:
    gate = make_gate()
    assert stream(gate, 0.0, 1.0) == [AHEAD] * 20
    end(gate, 1.0)
    start = 2.2 if end is _fall else 1.05
    with pytest.raises(SupersededRequest, match="[Ll]et go"):
        gate.velocity(AHEAD, "anna", Rank.HUMAN, start)
    sent = stream(gate, start + TICK, 3.0)
    assert AHEAD not in sent
    assert gate.holder(start + 3.0) == ""
    later = start + 3.0 + CONFIG.dead_man_s + TICK  # silent for longer than the dead-man
    assert stream(gate, later, 0.5) == [AHEAD] * 10


def test_after_a_stop_a_stick_that_came_back_to_zero_drives_again_at_once() -> None:
    gate = make_gate()
    stream(gate, 0.0, 1.0)
    gate.stop("bert", 1.0)
    stream(gate, 1.05, 0.5)
    answer = gate.velocity(ZERO, "anna", Rank.HUMAN, 1.6)
    assert answer.applied == ZERO
    assert gate.holder(1.6) == "", "letting go of the stick takes nothing"
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 1.62)
    assert tick(gate, 1.65) == AHEAD


def test_a_stop_does_not_keep_others_from_driving() -> None:
    gate = make_gate()
    stream(gate, 0.0, 1.0)
    gate.stop("bert", 1.0)
    gate.velocity(Twist2D(-0.2), "bert", Rank.HUMAN, 1.05)
    assert tick(gate, 1.1) == Twist2D(-0.2)


def test_a_driver_who_let_go_before_the_stop_is_not_kept_waiting() -> None:
    gate = make_gate()
    stream(gate, 0.0, 1.0)
    gate.stop("bert", 1.5)
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 1.55)
    assert tick(gate, 1.6) == AHEAD


def test_letting_go_of_the_stick_does_not_end_the_mission_that_was_started_meanwhile() -> None:
    gate = make_gate()
    stream(gate, 0.0, 1.0)
    epoch = gate.claim("explorer", Rank.MISSION, 1.0, on_behalf_of="anna")
    gate.start_path(make_path(epoch, client="explorer", rank=Rank.MISSION), 1.0)
    assert stream(gate, 1.05, 0.5) == [AHEAD] * 10  # the path's, not hers
    gate.velocity(ZERO, "anna", Rank.HUMAN, 1.55)
    assert gate.kind is MotionKind.PATH
    gate.velocity(Twist2D(-0.2), "anna", Rank.HUMAN, 1.6)
    assert tick(gate, 1.65) == Twist2D(-0.2), "a fresh push is meant"


def test_a_stick_pushed_before_a_stop_does_not_end_the_goal_set_after_it() -> None:
    gate = make_gate()
    stream(gate, 0.0, 1.0)
    gate.stop("anna", 1.0)
    epoch = gate.claim("anna", Rank.HUMAN, 1.02)
    gate.start_path(make_path(epoch), 1.03)
    stream(gate, 1.05, 0.5)
    gate.velocity(ZERO, "anna", Rank.HUMAN, 1.55)
    assert gate.kind is MotionKind.PATH


def test_the_memory_of_held_sticks_is_bounded() -> None:
    gate = make_gate()
    for k in range(1000):
        now = float(k)
        gate.velocity(AHEAD, f"client {k}", Rank.HUMAN, now)
        gate.stop("bert", now + 0.1)
    assert len(gate._sticks) <= 2


def test_stop_sends_zeros_even_when_nothing_is_known_to_move() -> None:
    gate = make_gate()
    gate.stop("", 0.0)
    assert run(gate, 0.0, 0.5) == [ZERO] * 10


def test_estop_beats_everything_and_clearing_resumes_nothing() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch), 0.0)
    gate.estop("bert", 0.1)
    gate.estop("carl", 0.2)
    status = gate.status(0.2)
    assert status.latched
    assert status.latched_by == "bert"
    assert run(gate, 0.2, 0.5) == [ZERO] * 10
    for attempt in (
        lambda: gate.claim("anna", Rank.HUMAN, 0.3),
        lambda: gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.3),
        lambda: gate.start_path(make_path(epoch), 0.3),
        lambda: gate.start_path(make_path(gate.epoch), 0.3),
    ):
        with pytest.raises(EStopLatched):
            attempt()
    gate.clear("anna", 1.0)
    assert run(gate, 1.0, 0.5) == [None] * 10
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(epoch), 1.6)


def test_a_gate_that_starts_latched_refuses_until_it_is_cleared() -> None:
    gate = MotionGate(CONFIG, now=0.0, latched_by="bert", latched_since=7.0)
    gate.observe(HEALTHY, 0.0)
    assert gate.status(0.0).latched_since == 7.0
    with pytest.raises(EStopLatched):
        gate.claim("anna", Rank.HUMAN, 0.0)
    gate.clear("anna", 0.1)
    gate.claim("anna", Rank.HUMAN, 0.2)


# paths


def test_a_path_without_renewal_stops_when_its_lease_runs_out_and_may_come_again() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, valid_for_s=1.0), 0.0)
    gate.renew(1, 0.8)
    gate.renew(2, 1.7)  # of another goal: renews nothing
    assert tick(gate, 1.79) == AHEAD
    assert tick(gate, 1.8) == ZERO
    assert gate.path_state.reason is StopReason.LEASE_EXPIRED
    gate.start_path(make_path(epoch), 2.0)
    assert tick(gate, 2.01) == AHEAD


@pytest.mark.parametrize("lease", [math.nan, math.inf, 0.0, -1.0])
def test_a_path_has_a_finite_positive_lease(lease: float) -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    with pytest.raises(InvalidRequest):
        gate.start_path(make_path(epoch, valid_for_s=lease), 0.0)
    assert gate.kind is MotionKind.NONE


def test_a_cancelled_goal_never_drives_again_neither_by_path_nor_by_nudge() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, goal_id=5), 0.0)
    gate.cancel(5, 0.1)
    assert run(gate, 0.1, 0.5) == [ZERO] * 10
    assert gate.path_state.reason is StopReason.CANCELLED
    for _ in range(2):
        with pytest.raises(SupersededRequest):
            gate.start_path(make_path(epoch, goal_id=5), 0.2)
        with pytest.raises(SupersededRequest):
            gate.start_nudge(AHEAD, 1.0, goal_id=5, epoch=epoch, client="anna", now=0.2)
        epoch = gate.claim("anna", Rank.HUMAN, 0.3)  # a new decision does not bring it back


def test_a_goal_that_was_cancelled_before_its_first_path_came_never_drives() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.cancel(7, 0.1)
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(epoch, goal_id=7), 0.2)
    gate.start_path(make_path(epoch, goal_id=6), 0.3)  # that is another goal


@pytest.mark.parametrize("other", [1, 4, 6, 10**12])
def test_cancelling_another_goal_leaves_the_one_that_drives_alone(other: int) -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, goal_id=5), 0.0)
    gate.cancel(other, 0.1)
    assert tick(gate, 0.15) == AHEAD
    gate.start_path(make_path(epoch, goal_id=5), 0.2)


def test_within_one_decision_a_path_of_an_older_goal_never_replaces_a_newer_one() -> None:
    gate = make_gate()
    epoch = gate.claim("explorer", Rank.MISSION, 0.0)
    goal = {"client": "explorer", "rank": Rank.MISSION}
    gate.start_path(make_path(epoch, goal_id=6, **goal), 0.0)  # type: ignore[arg-type]
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(epoch, goal_id=5, **goal), 0.1)  # type: ignore[arg-type]
    assert gate.path_state.goal_id == 6
    gate.cancel(6, 0.2)
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(epoch, goal_id=5, **goal), 0.3)  # type: ignore[arg-type]
    gate.start_path(make_path(epoch, goal_id=7, **goal), 0.4)  # type: ignore[arg-type]


def test_a_new_decision_may_have_any_goal_id() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, goal_id=2_000_000), 0.0)
    epoch = gate.claim("anna", Rank.HUMAN, 0.1)
    gate.start_path(make_path(epoch, goal_id=3), 0.1)  # of a planner whose clock was set back
    assert tick(gate, 0.15) == AHEAD
    assert gate.path_state.goal_id == 3
    assert gate.newest_goal_id == 2_000_000


def test_the_memory_of_cancelled_goals_is_bounded_and_keeps_the_newest() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    for goal_id in range(1, 10_001):
        gate.cancel(goal_id, 0.1)
        gate.cancel(goal_id, 0.1)
    assert len(gate._cancelled) == KEPT_CANCELS
    for goal_id in range(10_001 - KEPT_CANCELS, 10_001):
        with pytest.raises(SupersededRequest):
            gate.start_path(make_path(epoch, goal_id=goal_id), 0.2)


@pytest.mark.parametrize("goal_id", [0, -1])
def test_a_goal_has_a_positive_id(goal_id: int) -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    with pytest.raises(InvalidRequest):
        gate.start_path(make_path(epoch, goal_id=goal_id), 0.0)


def test_the_newest_goal_id_counts_only_what_was_accepted() -> None:
    gate = make_gate()
    assert gate.newest_goal_id == 0
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(epoch - 1, goal_id=9), 0.0)
    assert gate.newest_goal_id == 0
    gate.start_nudge(AHEAD, 1.0, goal_id=4, epoch=epoch, client="anna", now=0.0)
    gate.stop("bert", 0.1)
    assert gate.newest_goal_id == 4


# each claim is a decision of its own


def test_a_holder_that_decides_anew_drives_on_until_the_new_path_comes() -> None:
    gate = make_gate()
    old = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(old, goal_id=1, valid_for_s=1.0), 0.0)
    new = gate.claim("anna", Rank.HUMAN, 0.1)
    assert new > old
    for now in (0.2, 0.9, 1.6):  # the path in force is renewed, whatever its decision
        assert tick(gate, now) == AHEAD
        gate.renew(1, now)
    for late in (
        lambda: gate.start_path(make_path(old, goal_id=1), 1.7),
        lambda: gate.start_path(make_path(old, goal_id=2), 1.7),
        lambda: gate.start_nudge(AHEAD, 1.0, goal_id=1, epoch=old, client="anna", now=1.7),
    ):
        with pytest.raises(SupersededRequest):
            late()
    assert tick(gate, 1.75) == AHEAD
    gate.start_path(make_path(new, goal_id=2), 1.8)
    assert gate.path_state.goal_id == 2


def test_the_path_of_an_earlier_decision_still_ends_by_its_lease_or_by_its_cancel() -> None:
    for end, reason in (
        (lambda gate: None, StopReason.LEASE_EXPIRED),
        (lambda gate: gate.cancel(1, 0.3), StopReason.CANCELLED),
    ):
        gate = make_gate()
        epoch = gate.claim("anna", Rank.HUMAN, 0.0)
        gate.start_path(make_path(epoch, valid_for_s=0.5), 0.0)
        gate.claim("anna", Rank.HUMAN, 0.1)
        end(gate)
        assert tick(gate, 0.5) == ZERO
        assert gate.path_state.reason is reason


def test_a_dead_path_of_an_earlier_decision_does_not_keep_the_robot_for_its_client() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, valid_for_s=0.5), 0.0)
    gate.claim("anna", Rank.HUMAN, 0.1)
    tick(gate, 0.6)
    late = 0.1 + CONFIG.holder_timeout_s + 0.1
    gate.renew(1, late)
    assert gate.holder(late) == ""


def test_a_claim_of_somebody_else_ends_the_path_at_once() -> None:
    gate = make_gate()
    epoch = gate.claim("explorer", Rank.MISSION, 0.0)
    gate.start_path(make_path(epoch, client="explorer", rank=Rank.MISSION), 0.0)
    gate.claim("anna", Rank.HUMAN, 0.1)
    assert tick(gate, 0.15) == ZERO
    assert gate.path_state.reason is StopReason.PREEMPTED


def test_a_late_release_of_one_goal_never_ends_the_next() -> None:
    gate = make_gate()
    first = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(first, goal_id=1), 0.0)
    second = gate.claim("anna", Rank.HUMAN, 0.1)
    gate.start_path(make_path(second, goal_id=2), 0.2)
    gate.release("anna", 0.3, epoch=first)
    assert tick(gate, 0.35) == AHEAD
    gate.release("bert", 0.4, epoch=second)
    assert tick(gate, 0.45) == AHEAD
    gate.release("anna", 0.5, epoch=second)
    assert tick(gate, 0.55) == ZERO
    assert gate.holder(0.55) == ""


def test_a_path_does_not_raise_the_rank_that_its_client_claimed_with() -> None:
    gate = make_gate()
    epoch = gate.claim("explorer", Rank.AGENT, 0.0)
    gate.start_path(make_path(epoch, client="explorer", rank=Rank.HUMAN), 0.0)
    gate.start_nudge(AHEAD, 1.0, goal_id=1, epoch=epoch, client="explorer", now=0.1)
    assert gate.status(0.1).holder_rank == "agent"
    gate.claim("another", Rank.MISSION, 0.2)


def test_a_path_of_someone_who_does_not_drive_is_refused() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    with pytest.raises(ControlHeld):
        gate.start_path(make_path(epoch, client="bert"), 0.1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"connected": False}, StopReason.NOT_CONNECTED),
        ({"posture": Posture.SITTING}, StopReason.POSTURE),
        ({"odometry_age": 0.51}, StopReason.STALE_ODOMETRY),
        ({"odometry_age": math.nan}, StopReason.STALE_ODOMETRY),
        ({"lidar_age": 1.01}, StopReason.STALE_LIDAR),
    ],
)
def test_a_held_path_waits_with_the_reason_and_goes_on_by_itself(
    change: dict[str, object], reason: StopReason
) -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, valid_for_s=10.0), 0.0)
    assert tick(gate, 0.01) == AHEAD
    gate.observe(dataclasses.replace(HEALTHY, **change), 0.05)  # type: ignore[arg-type]
    assert run(gate, 0.05, 0.5) == [ZERO] * 10
    assert gate.path_state.state is FollowState.WAITING
    assert gate.path_state.reason is reason
    assert gate.status(0.5).reason == reason
    gate.observe(HEALTHY, 0.6)
    assert tick(gate, 0.61) == AHEAD
    assert gate.path_state.state is FollowState.FOLLOWING


def test_an_obstacle_makes_a_path_wait_until_the_way_was_clear_for_a_while() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, valid_for_s=10.0), 0.0)
    assert tick(gate, 0.05, obstacle="A box.") == ZERO
    assert gate.path_state.reason is StopReason.OBSTACLE
    assert tick(gate, 0.10) == ZERO
    assert gate.path_state.state is FollowState.WAITING
    assert tick(gate, 0.40) == AHEAD
    assert gate.path_state.state is FollowState.FOLLOWING


def test_an_obstacle_never_delays_a_person_who_drives_away_from_it() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    assert tick(gate, 0.05, obstacle="A box.") == ZERO
    gate.velocity(Twist2D(-0.2), "anna", Rank.HUMAN, 0.1)
    assert tick(gate, 0.1) == Twist2D(-0.2)


def test_a_twist_that_is_not_finite_stops_the_robot() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch), 0.0)
    assert tick(gate, 0.05, wanted=Twist2D(math.nan)) == ZERO
    assert gate.path_state.reason is StopReason.LOOP_FAILED
    assert run(gate, 0.1, 0.4) == [ZERO] * 8


def test_a_path_is_clamped_too() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch), 0.0)
    assert tick(gate, 0.05, wanted=Twist2D(9.0, 9.0, -9.0)) == Twist2D(
        CONFIG.max_vx, CONFIG.max_vy, -CONFIG.max_omega
    )


def test_a_nudge_is_slow_and_short_and_the_goal_may_send_a_path_after_it() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    goal = {"goal_id": 1, "epoch": epoch, "client": "anna"}
    gate.start_nudge(Twist2D(-5.0), 60.0, **goal, now=0.0)  # type: ignore[arg-type]
    assert tick(gate, 2.99) == Twist2D(-0.3)
    assert tick(gate, 3.0) == ZERO
    gate.start_path(make_path(epoch), 3.1)
    assert tick(gate, 3.1) == AHEAD
    gate.stop("bert", 3.2)
    with pytest.raises(SupersededRequest):
        gate.start_nudge(Twist2D(-0.2), 1.0, **goal, now=3.3)  # type: ignore[arg-type]


def test_who_comes_between_two_paths_of_a_goal_ends_it() -> None:
    for intervene, reason in (
        (lambda gate: gate.stop("bert", 0.6), StopReason.STOPPED),
        (lambda gate: gate.estop("bert", 0.6), StopReason.ESTOP),
        (lambda gate: gate.cancel(1, 0.6), StopReason.CANCELLED),
        (lambda gate: gate.velocity(AHEAD, "bert", Rank.HUMAN, 0.6), StopReason.PREEMPTED),
        (lambda gate: gate.release("explorer", 0.6), StopReason.RELEASED),
        (lambda gate: gate.fail("A loop ended.", 0.6), StopReason.LOOP_FAILED),
        (
            lambda gate: gate.observe(dataclasses.replace(HEALTHY, posture=Posture.FALLEN), 0.6),
            StopReason.FALLEN,
        ),
        (
            lambda gate: gate.admit_sport(
                "Hello", "explorer", Rank.MISSION, 0.6, is_acrobatic=False
            ),
            StopReason.SPORT,
        ),
    ):
        gate = make_gate()
        epoch = gate.claim("explorer", Rank.MISSION, 0.0)
        path = make_path(epoch, client="explorer", rank=Rank.MISSION, valid_for_s=0.5)
        gate.start_path(path, 0.0)
        tick(gate, 0.5)
        assert gate.path_state.reason is StopReason.LEASE_EXPIRED
        intervene(gate)
        assert gate.path_state.reason is reason
        assert reason.ends_goal
        with pytest.raises(ControlError):
            gate.start_path(path, 0.7)


# jumps and falls


def test_an_odometry_jump_holds_a_path_and_marks_the_poses_around_it() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch, valid_for_s=10.0), 0.0)
    gate.observe_odometry(odometry(1, 1.00, x=0.0), 1.00)
    gate.observe_odometry(odometry(2, 1.02, x=1.5), 1.02)
    assert tick(gate, 1.03) == ZERO
    assert gate.path_state.reason is StopReason.ODOM_JUMP
    assert not gate.trusts_pose_at(1.01)
    assert not gate.trusts_pose_at(1.5)
    assert gate.trusts_pose_at(0.99)
    assert gate.trusts_pose_at(1.53)
    assert tick(gate, 1.51) == ZERO
    assert tick(gate, 1.53) == AHEAD


def test_a_second_jump_prolongs_the_hold() -> None:
    gate = make_gate()
    for seq, (stamp, x) in enumerate([(1.0, 0.0), (1.02, 1.5), (1.4, 1.5), (1.42, 0.0)]):
        gate.observe_odometry(odometry(seq, stamp, x=x), stamp)
    assert gate.is_settling_after_jump(1.9)
    assert not gate.trusts_pose_at(1.01)
    assert not gate.is_settling_after_jump(1.93)


def test_small_steps_and_steps_that_the_speed_explains_are_no_jump() -> None:
    gate = make_gate()
    gate.sent(Twist2D(1.0), 1.0)
    gate.observe_odometry(odometry(1, 1.0, x=0.0), 1.0)
    gate.observe_odometry(odometry(2, 1.02, x=0.1), 1.02)
    gate.observe_odometry(odometry(3, 1.62, x=0.7), 1.62)
    assert not gate.is_settling_after_jump(1.63)


def test_a_jump_is_seen_even_when_the_odometry_claims_a_mad_speed() -> None:
    gate = make_gate()
    gate.observe_odometry(odometry(1, 1.0, x=0.0), 1.0)
    mad = dataclasses.replace(odometry(2, 1.02, x=1.5), twist=Twist2D(75.0))
    gate.observe_odometry(mad, 1.02)
    assert gate.is_settling_after_jump(1.03)


def test_a_heading_that_jumps_is_a_jump() -> None:
    gate = make_gate()
    gate.observe_odometry(odometry(1, 1.0), 1.0)
    gate.observe_odometry(odometry(2, 1.02, yaw=1.2), 1.02)
    assert gate.is_settling_after_jump(1.03)


def fall(gate: MotionGate, start: float, seconds: float, roll: float, seq: int = 100) -> None:
    for k in range(round(seconds / 0.02) + 1):
        now = start + 0.02 * k
        gate.observe_odometry(odometry(seq + k, now, roll=roll), now)
        gate.observe(HEALTHY, now)


def test_a_fall_ends_everything_and_getting_up_resumes_nothing() -> None:
    gate = make_gate()
    epoch = gate.claim("explorer", Rank.MISSION, 0.0)
    path = make_path(epoch, client="explorer", rank=Rank.MISSION, valid_for_s=10.0)
    gate.start_path(path, 0.0)
    fall(gate, 0.1, 0.24, roll=math.radians(60))
    assert gate.fallen
    assert gate.path_state.reason is StopReason.FALLEN
    assert run(gate, 0.35, 0.5) == [ZERO] * 10
    assert not gate.trusts_pose_at(0.8)
    with pytest.raises(RobotFallen):
        gate.claim("anna", Rank.HUMAN, 0.9)
    with pytest.raises(RobotFallen):
        gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.9)
    fall(gate, 1.0, 0.9, roll=0.0)
    assert gate.fallen, "not yet upright for long enough"
    fall(gate, 1.92, 0.2, roll=0.0)
    assert not gate.fallen
    assert gate.trusts_pose_at(2.2)
    assert tick(gate, 2.2) is None
    with pytest.raises(SupersededRequest):
        gate.start_path(path, 2.2)
    gate.claim("anna", Rank.HUMAN, 2.3)


def test_a_short_lurch_is_no_fall() -> None:
    gate = make_gate()
    fall(gate, 0.0, 0.16, roll=math.radians(60))
    fall(gate, 0.2, 0.5, roll=0.1)
    assert not gate.fallen


def test_a_robot_whose_driver_says_fallen_has_fallen() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    gate.observe(dataclasses.replace(HEALTHY, posture=Posture.FALLEN), 0.1)
    assert tick(gate, 0.1) == ZERO
    assert gate.status(0.1).reason == StopReason.FALLEN


def test_a_robot_that_was_said_to_lie_must_be_up_for_a_while_too() -> None:
    gate = make_gate()
    fall(gate, 0.0, 2.0, roll=0.0)
    gate.observe(dataclasses.replace(HEALTHY, posture=Posture.FALLEN), 2.1)
    fall(gate, 2.2, 0.9, roll=0.0)
    assert gate.fallen
    fall(gate, 3.12, 0.2, roll=0.0)
    assert not gate.fallen


# sport commands


def test_a_sport_command_ends_the_motion_for_good() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch), 0.0)
    gate.admit_sport("Hello", "anna", Rank.HUMAN, 0.1, is_acrobatic=False)
    assert tick(gate, 0.15) == ZERO
    assert not gate.is_settled
    with pytest.raises(SupersededRequest):
        gate.start_path(make_path(epoch), 0.2)


def test_sport_commands_obey_latch_holder_fall_and_configuration() -> None:
    gate = make_gate()
    gate.claim("anna", Rank.HUMAN, 0.0)
    with pytest.raises(ControlHeld):
        gate.admit_sport("Hello", "bert", Rank.HUMAN, 0.0, is_acrobatic=False)
    with pytest.raises(CommandRejected):
        gate.admit_sport("FrontFlip", "anna", Rank.HUMAN, 0.0, is_acrobatic=True)
    gate.estop("bert", 0.1)
    for command in ("StandUp", "Hello", "RecoveryStand"):
        with pytest.raises(EStopLatched):
            gate.admit_sport(command, "anna", Rank.HUMAN, 0.2, is_acrobatic=False)
    gate.admit_sport("StopMove", "carl", Rank.AGENT, 0.2, is_acrobatic=False)
    gate.clear("anna", 0.3)
    gate.admit_sport("StandUp", "anna", Rank.HUMAN, 0.4, is_acrobatic=False)
    fall(gate, 0.5, 0.24, roll=1.5)
    with pytest.raises(RobotFallen):
        gate.admit_sport("Hello", "anna", Rank.HUMAN, 0.8, is_acrobatic=False)
    for command in ("RecoveryStand", "StandUp", "Damp", "StopMove"):
        gate.admit_sport(command, "anna", Rank.HUMAN, 0.8, is_acrobatic=False)


def test_a_pose_is_clamped_to_the_configuration_and_a_bad_one_refused() -> None:
    gate = make_gate(pose_tilt=0.3, pose_yaw=0.2, pose_lower=0.1, pose_raise=0.02)

    def ask(**numbers: float) -> dict[str, float]:
        return gate.admit_sport(
            "Pose", "anna", Rank.HUMAN, 0.0, is_acrobatic=False, parameters=numbers
        )

    assert ask(roll=0.1, height=-0.05) == {"roll": 0.1, "height": -0.05}
    assert ask(roll=9.0, pitch=-9.0, yaw=9.0, height=9.0) == {
        "roll": 0.3,
        "pitch": -0.3,
        "yaw": 0.2,
        "height": 0.02,
    }
    assert ask(height=-9.0) == {"height": -0.1}
    assert ask() == {}
    epoch = gate.epoch
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidRequest):
            ask(roll=bad)
    with pytest.raises(InvalidRequest):
        ask(lift=0.1)
    assert gate.epoch == epoch, "what is refused ends nothing"


def test_acrobatics_are_let_through_where_the_configuration_says_so() -> None:
    gate = make_gate(allow_acrobatics=True)
    gate.admit_sport("FrontFlip", "anna", Rank.HUMAN, 0.0, is_acrobatic=True)


# the log


def test_the_log_names_every_decision_and_forgets_after_a_minute() -> None:
    gate = make_gate()
    gate.claim("explorer", Rank.MISSION, 0.0)
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 1.0)
    with pytest.raises(ControlHeld):
        gate.claim("bert", Rank.HUMAN, 1.0)
    gate.stop("bert", 1.1)
    gate.estop("bert", 1.2)
    gate.clear("bert", 1.3)
    events = [line.event for line in gate.log(2.0)]
    assert events == ["claim", "preempt", "claim", "refuse", "zero", "stop", "estop", "clear"]
    assert gate.log(62.0) == ()


def test_the_log_is_bounded_and_ticks_write_nothing() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    before = len(gate.log(0.0))
    run(gate, 0.0, 0.2)
    assert len(gate.log(0.2)) == before
    for k in range(3 * LOG_LENGTH):
        gate.stop(f"client {k}", 0.3)
        with pytest.raises(InvalidRequest):
            gate.velocity(Twist2D(math.nan), f"client {k}", Rank.HUMAN, 0.3)
    assert len(gate.log(0.3)) <= LOG_LENGTH
    assert len(gate._log._noted) <= LOG_LENGTH


def test_who_held_on_while_refused_does_not_get_the_robot_by_anothers_stop() -> None:
    gate = MotionGate(GateConfig(), now=0.0)
    gate.observe(Health(True, Posture.STANDING, 0.0, 0.0), 0.0)
    gate.velocity(Twist2D(vx=0.3), "anna", Rank.HUMAN, 0.0)
    with pytest.raises(ControlHeld):
        gate.velocity(Twist2D(vx=-0.3), "bert", Rank.HUMAN, 0.05)
    gate.stop("cleo", 0.1)
    for tick in range(20):
        for name in ("anna", "bert"):
            with pytest.raises(SupersededRequest):
                gate.velocity(Twist2D(vx=0.3), name, Rank.HUMAN, 0.15 + tick * 0.05)
    gate.velocity(Twist2D(), "bert", Rank.HUMAN, 1.2)
    assert gate.velocity(Twist2D(vx=0.3), "bert", Rank.HUMAN, 1.25).applied.vx == 0.3


def test_what_was_asked_for_before_a_stop_claims_nothing() -> None:
    gate = MotionGate(CONFIG, now=0.0)
    gate.observe(HEALTHY, 0.0)
    asked = gate.stops
    gate.stop("bert", 0.1)
    with pytest.raises(SupersededRequest):
        gate.claim("anna", Rank.HUMAN, 0.2, stops=asked)
    assert gate.claim("anna", Rank.HUMAN, 0.3, stops=gate.stops) > 0
    gate.estop("bert", 0.4)
    assert gate.stops == asked + 2


# the lease


def test_a_kept_lease_does_not_go_stale_and_an_unkept_one_does() -> None:
    gate = make_gate()
    gate.take("anna", 0.0)
    for k in range(10):
        gate.keep("anna", 2.0 * k)
    assert gate.holder(18.0 + CONFIG.holder_timeout_s - 0.1) == "anna"
    assert gate.status(18.1).lease_s == CONFIG.holder_timeout_s
    late = 18.0 + CONFIG.holder_timeout_s + 0.1
    assert gate.holder(late) == "" and gate.status(late).lease_s == 0.0
    with pytest.raises(NotHolder):
        gate.keep("anna", late)
    assert gate.holder(late) == "", "a lease that ran out does not come back by being kept"


def test_keeping_a_lease_keeps_nothing_moving() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    for k in range(1, 7):
        gate.keep("anna", k * 0.05)
        out = tick(gate, k * 0.05)
    assert out == ZERO and gate.status(0.3).reason == StopReason.DEAD_MAN


def test_another_ones_lease_cannot_be_kept() -> None:
    gate = make_gate()
    gate.take("anna", 0.0)
    with pytest.raises(ControlHeld) as refused:
        gate.keep("bob", 0.1)
    assert refused.value.holder == "anna"


def test_a_take_over_says_from_whom_and_takes_from_nobody_else() -> None:
    gate = make_gate()
    assert gate.take("anna", 0.0, taking_from="somebody who is gone") == ""
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.1)
    assert gate.take("bob", 0.2, taking_from="anna") == "anna"
    assert tick(gate, 0.21) == ZERO, "what the one before drove has ended"
    with pytest.raises(ControlHeld) as refused:
        gate.take("carl", 0.3, taking_from="anna")
    assert refused.value.holder == "bob" and gate.holder(0.3) == "bob"
    assert gate.take("bob", 0.4) == "", "he has it already"


def test_a_take_over_beats_missions_and_agents_and_they_do_not_take_back() -> None:
    gate = make_gate()
    gate.claim("explorer", Rank.MISSION, 0.0)
    assert gate.take("anna", 0.1) == "explorer"
    for name, rank in (("explorer", Rank.MISSION), ("assistant", Rank.AGENT)):
        with pytest.raises(ControlHeld) as refused:
            gate.claim(name, rank, 0.2, take=True)
        assert refused.value.holder == "anna"


def test_a_lost_connection_ends_what_it_drove_by_hand_and_nothing_else() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    assert not gate.lose("bob", 0.01)
    assert tick(gate, 0.02) == AHEAD
    assert gate.lose("anna", 0.03)
    assert [tick(gate, 0.03 + k * TICK) for k in range(5)] == [ZERO] * 5
    status = gate.status(0.1)
    assert status.holder == "" and status.reason == StopReason.CLIENT_LOST
    assert "anna" in status.message
    epoch = gate.claim("anna", Rank.HUMAN, 1.0)
    gate.start_path(make_path(epoch), 1.0)
    assert not gate.lose("anna", 1.1) and gate.kind is MotionKind.PATH


# why


def test_every_reason_has_a_sentence() -> None:
    for reason in StopReason:
        assert sentence(reason).endswith(".")


def test_the_log_is_read_on_from_the_newest_line_that_is_known() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 1.0)
    known = gate.log(1.0)[-1].stamp
    gate.stop("bob", 2.0)
    newer = gate.log(2.0, known)
    assert [line.event for line in newer] == ["zero", "stop"]
    assert all(line.message == "Stopped by bob." for line in newer)
    assert gate.log(2.0, newer[-1].stamp) == ()
    assert gate.log(62.1) == (), "a minute later it is forgotten"


def test_a_hold_is_told_as_a_sentence() -> None:
    gate = make_gate()
    epoch = gate.claim("anna", Rank.HUMAN, 0.0)
    gate.start_path(make_path(epoch), 0.0)
    gate.observe(dataclasses.replace(HEALTHY, lidar_age=2.0), 0.1)
    tick(gate, 0.1)
    assert gate.status(0.1).message == sentence(StopReason.STALE_LIDAR)
    assert gate.log(0.1)[-1].message == sentence(StopReason.STALE_LIDAR)


def test_it_is_known_since_when_a_twist_is_sent() -> None:
    gate = make_gate()
    gate.velocity(AHEAD, "anna", Rank.HUMAN, 0.0)
    tick(gate, 0.01)
    tick(gate, 0.06)
    assert gate.status(0.06).applied_since == 0.01
    gate.estop("bob", 0.07)
    tick(gate, 0.08)
    tick(gate, 0.13)
    assert gate.status(0.13).applied_since == 0.08
