"""The life of one goal, as a table of reports and decisions."""

import pytest

from rhino_actors.config import PlannerConfig
from rhino_actors.errors import NoPath, StartOccupied
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.navigation import FollowReport, FollowState, NavState, PathReason
from rhino_actors.messages.platform import StopReason
from rhino_actors.planning.goal_life import (
    FORGIVEN_M,
    OBSTACLE_WAIT_S,
    RECOVERIES,
    Action,
    Decision,
    GoalLife,
)

GOAL = 7
CONFIG = PlannerConfig()


def _life() -> GoalLife:
    life = GoalLife(CONFIG, GOAL, 0.0)
    life.planned(0.0, 3.0)
    return life


def _report(
    state: FollowState,
    reason: str = "",
    x: float = 0.0,
    deviation: float = 0.0,
    goal: int = GOAL,
    left: float = 3.0,
) -> FollowReport:
    why = StopReason(reason)
    return FollowReport(goal, state, why, f"because {reason}", Pose2D(x, 0.0), left, deviation)


def test_arrival_ends_the_goal() -> None:
    decision = _life().step(_report(FollowState.ARRIVED), 0.2, path_is_blocked=False)
    assert (decision.action, decision.state) == (Action.END, NavState.ARRIVED)


@pytest.mark.parametrize("reason", [r.value for r in StopReason if r.ends_goal])
def test_what_a_person_or_a_fall_ended_is_never_driven_on(reason: str) -> None:
    decision = _life().step(_report(FollowState.ENDED, reason), 0.2, path_is_blocked=False)
    assert decision.action is Action.END
    assert (decision.state, decision.reason) == (NavState.CANCELLED, reason)


@pytest.mark.parametrize(
    "report", [_report(FollowState.NONE), _report(FollowState.FOLLOWING, goal=3)]
)
def test_path_that_the_robot_side_does_not_know_is_planned_anew(report: FollowReport) -> None:
    assert _life().step(report, 0.2, path_is_blocked=False).action is Action.PLAN


def test_expired_lease_is_planned_anew() -> None:
    report = _report(FollowState.ENDED, "LEASE_EXPIRED")
    assert _life().step(report, 0.2, path_is_blocked=False).action is Action.PLAN


def test_replans_each_period_and_sooner_when_the_path_is_blocked_or_left() -> None:
    driving = _report(FollowState.FOLLOWING)
    life = _life()
    assert life.step(driving, 0.7, path_is_blocked=False).action is Action.NONE
    assert life.step(driving, 0.7, path_is_blocked=True).action is Action.PLAN
    astray = _report(FollowState.FOLLOWING, deviation=0.6)
    assert life.step(astray, 0.7, path_is_blocked=False).action is Action.PLAN
    assert life.step(driving, 1.0, path_is_blocked=False).action is Action.PLAN


def test_stale_sensor_pauses_the_goal_and_ends_it_when_it_lasts() -> None:
    life, report = _life(), _report(FollowState.WAITING, "STALE_LIDAR")
    first = life.step(report, 1.0, path_is_blocked=False)
    assert (first.action, first.state, first.reason) == (
        Action.NONE,
        NavState.PAUSED,
        "STALE_LIDAR",
    )
    late = life.step(report, 1.1 + CONFIG.wait_timeout_s, path_is_blocked=False)
    assert (late.action, late.state) == (Action.END, NavState.FAILED)


def test_obstacle_is_replanned_around_then_recovered_from() -> None:
    life, report = _life(), _report(FollowState.WAITING, "OBSTACLE")
    actions = []
    now = 1.0
    while now < 1.0 + OBSTACLE_WAIT_S + 0.3:
        decision = life.step(report, now, path_is_blocked=False)
        if decision.action is Action.PLAN:
            life.planned(now, 3.0)
        actions.append(decision.action)
        now += 0.2
    assert actions[0] is Action.NONE
    assert Action.PLAN in actions
    assert actions[-1] is Action.RECOVER


def test_robot_that_does_not_move_recovers_and_in_the_end_fails() -> None:
    life, report = _life(), _report(FollowState.FOLLOWING)
    now, recoveries = 0.0, 0
    for _ in range(2000):
        now += 0.2
        decision = life.step(report, now, path_is_blocked=False)
        if decision.action is Action.PLAN:
            life.planned(now, 3.0)
        if decision.action is Action.RECOVER:
            recoveries += 1
            life.recovering(now, 1.0)
        if decision.action is Action.END:
            break
    assert recoveries == CONFIG.max_recoveries == life.attempts
    assert (decision.state, decision.reason) == (NavState.FAILED, "FAILED_TO_MAKE_PROGRESS")


def test_waiting_does_not_count_as_being_stuck() -> None:
    life = _life()
    for tenth in range(1, 140):
        life.step(_report(FollowState.WAITING, "STALE_LIDAR"), tenth / 10.0, path_is_blocked=False)
    decision = life.step(_report(FollowState.FOLLOWING), 14.1, path_is_blocked=False)
    assert decision.action is not Action.RECOVER


def test_failed_replans_end_a_goal_only_when_they_go_on_for_long() -> None:
    life, patience = _life(), CONFIG.no_path_patience_s
    for now in (1.0, 1.5, 0.9 + patience):
        assert life.plan_failed(NoPath(), now).state is NavState.RECOVERING
    late = life.plan_failed(NoPath(), 1.1 + patience)
    assert (late.action, late.state, late.reason) == (
        Action.END,
        NavState.FAILED,
        "NO_VALID_PATH",
    )


def test_a_plan_in_between_makes_the_patience_begin_anew() -> None:
    life, patience = _life(), CONFIG.no_path_patience_s
    life.plan_failed(NoPath(), 1.0)
    life.kept(2.0)
    assert life.plan_failed(NoPath(), 2.5 + 0.9 * patience).action is Action.NONE


def test_robot_that_the_map_has_in_an_obstacle_moves_out_of_it() -> None:
    decision = _life().plan_failed(StartOccupied(), 1.0)
    assert decision.action is Action.RECOVER
    assert not decision.motion.is_zero and decision.duration > 0.0


def test_recoveries_differ_from_try_to_try() -> None:
    life, motions = _life(), []
    for now in range(len(RECOVERIES)):
        decision = life.plan_failed(StartOccupied(), float(now))
        motions.append((decision.motion, decision.duration))
        life.recovering(float(now), 0.5)
    assert motions == list(RECOVERIES)


def test_recoveries_are_forgiven_once_the_robot_got_on_but_all_are_counted() -> None:
    life = _life()
    for k in range(CONFIG.max_recoveries):
        life.recovering(float(k), 0.1)
    life.planned(5.5, 9.0)
    life.step(_report(FollowState.FOLLOWING, left=9.0), 6.0, path_is_blocked=False)
    far = _report(FollowState.FOLLOWING, left=9.0 - FORGIVEN_M, x=FORGIVEN_M)
    life.step(far, 8.0, path_is_blocked=False)
    assert life.plan_failed(StartOccupied(), 9.0).action is Action.RECOVER
    assert life.attempts == CONFIG.max_recoveries


def test_stop_and_go_before_an_obstacle_is_one_wait_and_ends_in_a_recovery() -> None:
    life, now, actions = _life(), 0.0, set()
    while now < OBSTACLE_WAIT_S + 2.0:
        now += 0.2
        stands = int(now / 0.6) % 2
        report = (
            _report(FollowState.WAITING, "OBSTACLE") if stands else _report(FollowState.FOLLOWING)
        )
        decision = life.step(report, now, path_is_blocked=False)
        actions.add(decision.action)
        if decision.action is Action.PLAN:
            life.kept(now)
    assert Action.RECOVER in actions


@pytest.mark.parametrize(
    ("report", "blocked", "why", "must"),
    [
        (_report(FollowState.NONE), False, PathReason.LOST, True),
        (_report(FollowState.ENDED, "LEASE_EXPIRED"), False, PathReason.LOST, True),
        (_report(FollowState.ENDED, "IDLE"), False, PathReason.RECOVERED, True),
        (_report(FollowState.FOLLOWING, deviation=0.6), False, PathReason.LEFT, True),
        (_report(FollowState.FOLLOWING), True, PathReason.BLOCKED, False),
        (_report(FollowState.FOLLOWING), False, PathReason.BETTER, False),
    ],
)
def test_each_replan_says_what_it_is_for(
    report: FollowReport, blocked: bool, why: PathReason, must: bool
) -> None:
    decision: Decision = _life().step(report, 1.2, path_is_blocked=blocked)
    assert (decision.action, decision.why, decision.must_replace) == (Action.PLAN, why, must)


def test_robot_that_rocks_on_the_spot_recovers() -> None:
    life, actions = _life(), []
    for tenth in range(1, 80):
        now = tenth / 10.0
        left = 3.0 + 0.3 * (tenth % 3)
        decision = life.step(
            _report(FollowState.FOLLOWING, left=left, x=-left), now, path_is_blocked=False
        )
        actions.append(decision.action)
        if decision.action is Action.PLAN:
            life.kept(now)
        if decision.action is Action.RECOVER:
            break
    assert actions[-1] is Action.RECOVER and 3.0 <= now <= 8.0
