"""One goal from its acceptance to its end: (reports, time) -> what to do next. Pure; the planner actor obeys."""

from dataclasses import dataclass
from enum import StrEnum

from rhino_actors.config import PlannerConfig
from rhino_actors.errors import FailedToMakeProgress, PlanningError, StartOccupied
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.navigation import FollowReport, FollowState, NavState, PathReason
from rhino_actors.messages.platform import StopReason
from rhino_actors.planning.progress import ProgressChecker

OBSTACLE_WAIT_S = 4.0  # people walk on: wait this long for an obstacle before recovering from it
REPLAN_AT_OBSTACLE_S = 0.6  # the map needs a few frames to show what the collision monitor saw
REPLAN_DEVIATION_M = 0.5
RETRY_PLAN_S = 0.5
FORGIVEN_M = 1.5  # of way done after which earlier recoveries do not count any more

STILL = Twist2D()
# Recovery motions in turn, under the collision monitor like all others: back out, step aside, look elsewhere.
RECOVERIES = (
    (Twist2D(vx=-0.2), 1.2),
    (Twist2D(vy=0.2), 1.2),
    (Twist2D(omega=0.8), 1.5),
    (Twist2D(vy=-0.2), 1.5),
    (Twist2D(vx=-0.2), 1.5),
)


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
    why: PathReason = PathReason.NONE  # of PLAN: what a new path is for
    must_replace: bool = False  # of PLAN: there is no path worth keeping
    motion: Twist2D = STILL  # of RECOVER
    duration: float = 0.0  # of RECOVER [s]


class GoalLife:
    """Decides for one goal: replan, wait, recover, give up. `now` is monotonic time [s] throughout."""

    def __init__(self, config: PlannerConfig, goal_id: int, now: float) -> None:
        self._config = config
        self._goal_id = goal_id
        self._progress = ProgressChecker(config.progress_distance, config.progress_time_s)
        self._last_plan = now
        self._failing_since: float | None = None
        self._waiting_since: float | None = None
        self._blocked_since: float | None = None
        self._blocked_gains = 0  # of the progress checker when it was first blocked
        self._busy_until = now
        self._tries = 0  # recoveries since it last got on
        self._tried_at: float | None = None  # [m] way left at the last of them
        self.attempts = 0  # recoveries, all
        self.plans = 0

    def planned(self, now: float, remaining: float) -> Decision:
        """Note that a path with this way left [m] was planned and sent."""
        self._progress.rebase(remaining)
        if self._tried_at is not None:
            self._tried_at = remaining
        return self.kept(now)

    def kept(self, now: float) -> Decision:
        """Note that it was planned anew, and that the path in force is as good."""
        self._last_plan = now
        self._failing_since = None
        self.plans += 1
        return Decision(Action.NONE, NavState.FOLLOWING)

    def plan_failed(self, error: PlanningError, now: float) -> Decision:
        """Note that a replan failed.

        The goal ends when that has gone on for `no_path_patience_s`: a cell may be noise, and people step aside. A
        robot that the map has in an obstacle tries to move out of it.
        """
        self._last_plan = now - max(0.0, self._config.replan_period_s - RETRY_PLAN_S)
        if self._failing_since is None:
            self._failing_since = now
        if isinstance(error, StartOccupied):
            return self._recover(error.code, error.message)
        if now - self._failing_since >= self._config.no_path_patience_s:
            return Decision(
                Action.END, NavState.FAILED, error.code, f"{error.message} {error.hint}"
            )
        return Decision(Action.NONE, NavState.RECOVERING, error.code, error.message)

    def recovering(self, now: float, duration: float) -> None:
        """Note that a recovery motion of `duration` [s] was started."""
        self.attempts += 1
        self._tries += 1
        self._busy_until = now + duration
        self._waiting_since = self._blocked_since = None
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
            return Decision(Action.PLAN, NavState.PLANNING, why=PathReason.LOST, must_replace=True)
        if report.state is FollowState.ARRIVED:
            return Decision(Action.END, NavState.ARRIVED, message="The robot is at the goal.")
        if report.state is FollowState.ENDED:
            return self._ended(report, now)
        if report.state is FollowState.WAITING:
            return self._waiting(report, now, path_is_blocked)
        return self._following(report, now, path_is_blocked)

    def _ended(self, report: FollowReport, now: float) -> Decision:
        reason, message = report.reason, report.message
        if reason.ends_goal:
            return Decision(Action.END, NavState.CANCELLED, reason, message)
        if self._failing_since is not None and now - self._last_plan < RETRY_PLAN_S:
            return Decision(Action.NONE, NavState.RECOVERING, reason, message)
        why = PathReason.RECOVERED if reason is StopReason.IDLE else PathReason.LOST
        return Decision(Action.PLAN, NavState.PLANNING, reason, message, why=why, must_replace=True)

    def _waiting(self, report: FollowReport, now: float, path_is_blocked: bool) -> Decision:
        self._progress.hold(now)
        reason, message = report.reason, report.message
        paused = Decision(Action.NONE, NavState.PAUSED, reason, message)
        if reason is not StopReason.OBSTACLE:
            if self._waiting_since is None:
                self._waiting_since = now
            if now - self._waiting_since > self._config.wait_timeout_s:
                return Decision(Action.END, NavState.FAILED, reason, message)
            return paused
        if self._blocked_since is None:
            self._blocked_since, self._blocked_gains = now, self._progress.gains
        waited = now - self._blocked_since
        if waited > OBSTACLE_WAIT_S:
            return self._recover(StopReason.OBSTACLE, message)
        age = now - self._last_plan
        if age > REPLAN_AT_OBSTACLE_S and (path_is_blocked or waited > REPLAN_AT_OBSTACLE_S):
            return Decision(Action.PLAN, NavState.PAUSED, reason, message, why=PathReason.OBSTACLE)
        return paused

    def _following(self, report: FollowReport, now: float, path_is_blocked: bool) -> Decision:
        self._waiting_since = None
        left, pose = report.distance_remaining, report.pose
        if pose is not None and self._progress.is_stuck(left, pose.x, pose.y, now):
            return self._recover("STUCK", "The robot does not get on as it should.")
        # Going on for a moment and stopping again is still the same wait.
        if self._progress.gains != self._blocked_gains:
            self._blocked_since = None
        self._forgive(left)
        age = now - self._last_plan
        following = NavState.FOLLOWING
        if age >= RETRY_PLAN_S and report.deviation > REPLAN_DEVIATION_M:
            return Decision(Action.PLAN, following, why=PathReason.LEFT, must_replace=True)
        due = age >= self._config.replan_period_s
        if path_is_blocked and (due or age >= RETRY_PLAN_S):
            return Decision(Action.PLAN, following, why=PathReason.BLOCKED)
        if due:
            return Decision(Action.PLAN, following, why=PathReason.BETTER)
        return Decision(Action.NONE, following)

    def _forgive(self, left: float) -> None:
        """Let earlier recoveries not count any more once the robot got on."""
        if self._tries == 0:
            return
        if self._tried_at is None:
            self._tried_at = left
        elif left <= self._tried_at - FORGIVEN_M:
            self._tries, self._tried_at = 0, None

    def _recover(self, reason: str, message: str) -> Decision:
        if self._tries >= self._config.max_recoveries:
            text = f"{message} {self._tries} recoveries did not help."
            return Decision(Action.END, NavState.FAILED, FailedToMakeProgress.code, text)
        motion, duration = RECOVERIES[self._tries % len(RECOVERIES)]
        return Decision(
            Action.RECOVER,
            NavState.RECOVERING,
            reason,
            message,
            motion=motion,
            duration=duration,
        )
