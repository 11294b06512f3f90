"""The life of one goal, as a table of reports and decisions."""

import pytest

from rhino_actors.config import PlannerConfig
from rhino_actors.errors import NoPath
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.navigation import FollowReport, FollowState, NavState
from rhino_actors.messages.platform import StopReason
from rhino_actors.planning.goal_life import FAILED_PLANS, OBSTACLE_WAIT_S, Action, GoalLife

GOAL = 7
CONFIG = PlannerConfig()


def _life() -> GoalLife:
    life = GoalLife(CONFIG, GOAL, 0.0)
    life.planned(0.0)
    return life


def _report(
    state: FollowState, reason: str = "", x: float = 0.0, deviation: float = 0.0, goal: int = GOAL
) -> FollowReport:
    why = StopReason(reason)
    return FollowReport(goal, state, why, f"because {reason}", Pose2D(x, 0.0), 3.0, deviation)


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
            life.planned(now)
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
            life.planned(now)
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


def test_one_failed_replan_does_not_end_a_goal_but_several_do() -> None:
    life = _life()
    states = [life.plan_failed(NoPath(), float(k)).state for k in range(FAILED_PLANS)]
    assert states[:-1] == [NavState.RECOVERING] * (FAILED_PLANS - 1)
    assert states[-1] is NavState.FAILED
