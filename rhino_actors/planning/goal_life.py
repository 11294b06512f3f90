"""One goal from its acceptance to its end: (reports, time) -> what to do next. Pure; the planner actor obeys."""

from dataclasses import dataclass
from enum import StrEnum

from rhino_actors.config import PlannerConfig
from rhino_actors.errors import FailedToMakeProgress, PlanningError
from rhino_actors.messages.navigation import FollowReport, FollowState, NavState
from rhino_actors.messages.platform import StopReason
from rhino_actors.planning.progress import ProgressChecker

OBSTACLE_WAIT_S = 4.0  # people walk on: wait this long for an obstacle before recovering from it
REPLAN_AT_OBSTACLE_S = 0.6  # the map needs a few frames to show what the collision monitor saw
REPLAN_DEVIATION_M = 0.5
FAILED_PLANS = 4  # in a row, while driving, before the goal fails
RETRY_PLAN_S = 0.5


class Action(StrEnum):
    """What the actor has to do."""

    NONE = "none"
    PLAN = "plan"
    RECOVER = "recover"
    END = "end"


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, and what to tell the world of the goal."""

    action: Action
    state: NavState
    reason: str = ""
    message: str = ""


class GoalLife:
    """Decides for one goal: replan, wait, recover, give up. `now` is monotonic time [s] throughout."""

    def __init__(self, config: PlannerConfig, goal_id: int, now: float) -> None:
        self._config = config
        self._goal_id = goal_id
        self._progress = ProgressChecker(config.progress_distance, config.progress_time_s)
        self._last_plan = now
        self._failed_plans = 0
        self._waiting_since: float | None = None
        self._busy_until = now
        self.attempts = 0
        self.plans = 0

    def planned(self, now: float) -> Decision:
        """Note that a path was planned and sent."""
        self._last_plan = now
        self._failed_plans = 0
        self.plans += 1
        return Decision(Action.NONE, NavState.FOLLOWING)

    def plan_failed(self, error: PlanningError, now: float) -> Decision:
        """Note that a replan failed. The goal ends after FAILED_PLANS in a row: a map cell may be noise."""
        self._last_plan = now - max(0.0, self._config.replan_period_s - RETRY_PLAN_S)
        self._failed_plans += 1
        if self._failed_plans >= FAILED_PLANS:
            return Decision(
                Action.END, NavState.FAILED, error.code, f"{error.message} {error.hint}"
            )
        return Decision(Action.NONE, NavState.RECOVERING, error.code, error.message)

    def recovering(self, now: float, duration: float) -> None:
        """Note that a recovery motion of `duration` [s] was started."""
        self.attempts += 1
        self._busy_until = now + duration
        self._waiting_since = None
        self._progress.reset()

    def step(self, report: FollowReport, now: float, *, path_is_blocked: bool) -> Decision:
        """Decide on the newest report of the robot side.

        Args:
            report: of this goal's path.
            now: [s].
            path_is_blocked: the newest map has an obstacle on the rest of the path.
        """
        if now < self._busy_until:
            return Decision(Action.NONE, NavState.RECOVERING)
        if report.goal_id != self._goal_id or report.state is FollowState.NONE:
            return Decision(Action.PLAN, NavState.PLANNING)
        if report.state is FollowState.ARRIVED:
            return Decision(Action.END, NavState.ARRIVED, message="The robot is at the goal.")
        if report.state is FollowState.ENDED:
            return self._ended(report)
        if report.state is FollowState.WAITING:
            return self._waiting(report, now)
        return self._following(report, now, path_is_blocked)

    def _ended(self, report: FollowReport) -> Decision:
        if report.reason.ends_goal:
            return Decision(Action.END, NavState.CANCELLED, report.reason, report.message)
        return Decision(Action.PLAN, NavState.PLANNING, report.reason, report.message)

    def _waiting(self, report: FollowReport, now: float) -> Decision:
        self._progress.reset()
        if self._waiting_since is None:
            self._waiting_since = now
        waited = now - self._waiting_since
        paused = Decision(Action.NONE, NavState.PAUSED, report.reason, report.message)
        if report.reason is not StopReason.OBSTACLE:
            if waited > self._config.wait_timeout_s:
                return Decision(Action.END, NavState.FAILED, report.reason, report.message)
            return paused
        if waited > OBSTACLE_WAIT_S:
            return self._recover(StopReason.OBSTACLE, report.message)
        if waited > REPLAN_AT_OBSTACLE_S and now - self._last_plan > REPLAN_AT_OBSTACLE_S:
            return Decision(Action.PLAN, NavState.PAUSED, report.reason, report.message)
        return paused

    def _following(self, report: FollowReport, now: float, path_is_blocked: bool) -> Decision:
        self._waiting_since = None
        if report.pose is not None and self._progress.is_stuck(report.pose.x, report.pose.y, now):
            return self._recover("STUCK", "The robot does not move as it should.")
        age = now - self._last_plan
        due = age >= self._config.replan_period_s
        urgent = age >= RETRY_PLAN_S and (path_is_blocked or report.deviation > REPLAN_DEVIATION_M)
        return Decision(Action.PLAN if due or urgent else Action.NONE, NavState.FOLLOWING)

    def _recover(self, reason: str, message: str) -> Decision:
        if self.attempts >= self._config.max_recoveries:
            text = f"{message} {self.attempts} recoveries did not help."
            return Decision(Action.END, NavState.FAILED, FailedToMakeProgress.code, text)
        return Decision(Action.RECOVER, NavState.RECOVERING, reason, message)
