"""PlannerActor: one goal at a time, from the request to its end."""

import asyncio
import contextlib
import dataclasses
import logging
import math
import time
from typing import TYPE_CHECKING

import ray

from rhino_actors.actors.calls import call
from rhino_actors.actors.latest import Latest
from rhino_actors.actors.rate import Rate
from rhino_actors.actors.routing import make_router
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import (
    ActorUnavailable,
    ControlError,
    InvalidRequest,
    NoGoal,
    NoMap,
    PlanningError,
    SupersededRequest,
)
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.grid import MapSnapshot
from rhino_actors.messages.navigation import (
    FollowReport,
    GoalRequest,
    NavMode,
    NavState,
    NavStatus,
    Path,
)
from rhino_actors.planning.goal_life import Action, Decision, GoalLife
from rhino_actors.planning.route import Route

if TYPE_CHECKING:
    from ray.actor import ActorProxy

    from rhino_actors.actors.mapper import MapperActor
    from rhino_actors.actors.platform import PlatformActor

logger = logging.getLogger(__name__)

MAX_COORDINATE_M = 10_000.0
# Recovery motions in turn: back out, turn to look elsewhere, back out again.
RECOVERIES = (
    (Twist2D(vx=-0.2), 1.2),
    (Twist2D(omega=0.8), 1.5),
    (Twist2D(vx=-0.2), 1.5),
)


@dataclasses.dataclass
class _Goal:
    """The goal in force."""

    id: int
    request: GoalRequest
    mode: NavMode
    epoch: int
    life: GoalLife
    route: Route


class PlannerActor:
    """Takes goals, plans and replans paths, and says how it goes.

    Reads:     MapperActor.snapshot, PlatformActor.odometry, PlatformActor.follow_report
    Publishes: Path to PlatformActor.follow, with a lease that each look at the progress renews; NavStatus
    A failed call: the platform or mapper is restarting; the goal waits, the robot has stopped by its own lease.
    """

    def __init__(
        self,
        config: RhinoConfig,
        *,
        platform: "ActorProxy[PlatformActor]",
        mapper: "ActorProxy[MapperActor]",
    ) -> None:
        self._config = config.planner
        self._cruise_speed = config.follower.cruise_speed
        self._platform = platform
        self._mapper = mapper
        self._router = make_router(config)
        self._routing = asyncio.Lock()  # the router serves one thread at a time
        self._mode = config.planner.mode
        self._map: MapSnapshot | None = None
        self._goal: _Goal | None = None
        # Goal ids grow over restarts of this actor too: the platform never takes an older one.
        self._last_id = int(time.time() * 1000.0)
        self._accepting = asyncio.Lock()
        self._revoked = 0  # counts cancels, so that a goal still being planned notices one
        self._status = NavStatus(mode=self._mode)
        self._latest = Latest(self._status)

    @ray.method
    async def run(self) -> None:
        """Follow the map and the goal until cancelled; an exception ends the loop and reaches main."""
        async with self._routing:
            await asyncio.to_thread(self._router.warm_up)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_map())
            tasks.create_task(self._drive())

    @ray.method
    async def navigate(self, request: GoalRequest) -> NavStatus:
        """Plan to a goal and send the robot off.

        Returns the status with the goal's id and where it really goes.

        Raises:
            InvalidRequest: a coordinate is not finite or absurd.
            PlanningError: there is no map, or no path; a goal that ran before has ended too.
            ControlError: the robot may not be moved by this client now.
            SupersededRequest: it was cancelled or replaced while it was planned.
        """
        _check(request)
        revoked = self._revoked
        async with self._accepting:
            if revoked != self._revoked:
                raise SupersededRequest("The goal was cancelled before it was planned.")
            epoch = request.epoch
            if epoch is None:
                claim = self._platform.claim.remote(request.client, request.rank)
                epoch = await call(claim)
            self._last_id += 1
            goal_id = self._last_id
            try:
                route, _ = await self._plan(request)
            except PlanningError as error:
                await self._end_goal(
                    NavState.CANCELLED, "SUPERSEDED", "A newer goal took its place."
                )
                await self._publish_refusal(goal_id, request, epoch, error)
                raise
            if revoked != self._revoked:
                raise SupersededRequest("The goal was cancelled while it was planned.")
            goal = _Goal(
                goal_id,
                request,
                request.mode or self._mode,
                epoch,
                GoalLife(self._config, goal_id, time.monotonic()),
                route,
            )
            if self._goal:
                self._publish(
                    dataclasses.replace(
                        self._status,
                        state=NavState.CANCELLED,
                        reason="SUPERSEDED",
                        message="A newer goal took its place.",
                    )
                )
            self._goal = goal
            decision = goal.life.planned(time.monotonic())
            self._publish(
                NavStatus(
                    state=NavState.PLANNING,
                    goal_id=goal_id,
                    requested=Pose2D(request.x, request.y, request.yaw or 0.0),
                    requested_yaw=request.yaw,
                    client=request.client,
                    mode=goal.mode,
                )
            )
            try:
                await self._send(goal)
            except ControlError as error:
                await self._end_goal(NavState.CANCELLED, error.code, error.message)
                raise
            self._tell(decision, None)
            return self._status

    @ray.method
    async def cancel(self, client: str) -> NavStatus:
        """Drop the goal; the robot stands. Raises NoGoal when there is none."""
        self._revoked += 1
        if self._goal is None and not self._accepting.locked():
            raise NoGoal()
        await self._end_goal(NavState.CANCELLED, "CANCELLED", f"Cancelled by {client}.")
        return self._status

    @ray.method
    async def set_mode(self, mode: NavMode) -> NavMode:
        """Set how later goals are reached."""
        self._mode = NavMode(mode)
        self._publish(dataclasses.replace(self._status, mode=self._mode))
        return self._mode

    @ray.method
    async def status(self, newer_than: int = 0, wait: float = 0.0) -> NavStatus:
        """Return the status; with `wait`, once its seq is greater than `newer_than` or the time is over."""
        await self._latest.newer(newer_than, wait)
        return self._status

    async def _watch_map(self) -> None:
        version = (0, 0)
        while True:
            try:
                version, box = await call(self._mapper.snapshot.remote(version, 2.0), 5.0)  # type: ignore[call-arg]  # Ray's types drop defaults
                if box is not None:
                    self._map = await call(box[0])
            except ActorUnavailable:
                version = (0, 0)
                await asyncio.sleep(0.5)

    async def _drive(self) -> None:
        rate = Rate(self._config.tick_hz)
        while True:
            if self._goal is not None:
                try:
                    await self._step(self._goal)
                except ActorUnavailable as error:
                    self._update(
                        self._goal, state=NavState.PAUSED, reason=error.code, message=error.message
                    )
            await rate.sleep()

    async def _step(self, goal: _Goal) -> None:
        report = await call(self._platform.follow_report.remote(goal.id))
        if goal is not self._goal:
            return
        snapshot = self._map
        blocked = snapshot is not None and self._router.is_blocked(
            goal.route, snapshot, report.pose
        )
        decision = goal.life.step(report, time.monotonic(), path_is_blocked=blocked)
        if decision.action is Action.PLAN:
            decision = await self._replan(goal, decision)
        elif decision.action is Action.RECOVER:
            await self._recover(goal)
        if goal is not self._goal:
            return
        if decision.action is Action.END:
            await self._end_goal(decision.state, decision.reason, decision.message)
        else:
            self._tell(decision, report)

    async def _replan(self, goal: _Goal, decision: Decision) -> Decision:
        """Plan again while the robot drives on, and send the new path if the goal still stands."""
        try:
            route, snapshot = await self._plan(goal.request)
        except PlanningError as error:
            return goal.life.plan_failed(error, time.monotonic())
        if goal is not self._goal:
            return decision
        if snapshot is not self._map and self._router.is_blocked(
            route, self._map or snapshot, None
        ):
            return goal.life.plan_failed(
                PlanningError("The map changed meanwhile."), time.monotonic()
            )
        goal.route = route
        try:
            await self._send(goal)
        except ControlError as error:
            return Decision(Action.END, NavState.CANCELLED, error.code, error.message)
        planned = goal.life.planned(time.monotonic())
        return planned if decision.state is not NavState.PAUSED else decision

    async def _recover(self, goal: _Goal) -> None:
        twist, duration = RECOVERIES[goal.life.attempts % len(RECOVERIES)]
        logger.info("goal %d: recovery %d: %s", goal.id, goal.life.attempts + 1, twist)
        goal.life.recovering(time.monotonic(), duration)
        with contextlib.suppress(ControlError):  # the next report says who stopped it
            await call(
                self._platform.nudge.remote(  # type: ignore[call-arg]  # Ray's types drop defaults
                    twist,
                    duration,
                    goal_id=goal.id,
                    epoch=goal.epoch,
                    client=goal.request.client,
                    rank=goal.request.rank,
                )
            )

    async def _plan(self, request: GoalRequest) -> tuple[Route, MapSnapshot]:
        snapshot = self._map
        if snapshot is None or snapshot.is_empty:
            raise NoMap()
        odometry = await call(self._platform.odometry.remote(0, 0.0))  # type: ignore[call-arg]  # Ray's types drop defaults
        if odometry is None:
            raise NoMap("There is no odometry yet.")
        mode = request.mode or self._mode
        async with self._routing:
            route = await asyncio.to_thread(
                self._router.plan, snapshot, odometry.pose, request, mode
            )
        return route, snapshot

    async def _send(self, goal: _Goal) -> FollowReport:
        request, route = goal.request, goal.route
        return await call(
            self._platform.follow.remote(
                Path(
                    goal_id=goal.id,
                    epoch=goal.epoch,
                    poses=route.poses,
                    client=request.client,
                    rank=request.rank,
                    final_yaw=request.yaw,
                    length=route.length,
                    map_epoch=route.map_version[0],
                    map_seq=route.map_version[1],
                    through_unknown=route.through_unknown,
                    mode=goal.mode,
                    valid_for_s=self._config.path_lease_s,
                )
            )
        )

    async def _end_goal(self, state: NavState, reason: str, message: str) -> None:
        goal, self._goal = self._goal, None
        if goal is None:
            return
        self._publish(
            dataclasses.replace(
                self._status,
                state=state,
                reason=reason,
                message=message,
                path=None,
                eta=None,
                distance_remaining=0.0
                if state is NavState.ARRIVED
                else self._status.distance_remaining,
            )
        )
        with contextlib.suppress(ActorUnavailable):  # its lease stops the robot then
            await call(self._platform.cancel_path.remote(goal.id))
            await self._release(goal.request, goal.epoch)

    async def _release(self, request: GoalRequest, epoch: int) -> None:
        """Let go of the robot, unless a mission asked: it keeps its lease from goal to goal."""
        if request.epoch is None:
            await call(self._platform.release.remote(request.client, epoch))  # type: ignore[call-arg]  # Ray's types drop defaults

    async def _publish_refusal(
        self, goal_id: int, request: GoalRequest, epoch: int, error: PlanningError
    ) -> None:
        self._publish(
            NavStatus(
                state=NavState.FAILED,
                goal_id=goal_id,
                requested=Pose2D(request.x, request.y, request.yaw or 0.0),
                requested_yaw=request.yaw,
                client=request.client,
                mode=request.mode or self._mode,
                reason=error.code,
                message=f"{error.message} {error.hint}",
            )
        )
        with contextlib.suppress(ActorUnavailable):
            await self._release(request, epoch)

    def _tell(self, decision: Decision, report: FollowReport | None) -> None:
        goal = self._goal
        if goal is None:
            return
        remaining = report.distance_remaining if report else goal.route.length
        self._update(
            goal,
            state=decision.state,
            reason=decision.reason,
            message=decision.message,
            distance_remaining=remaining,
            eta=remaining / self._cruise_speed if decision.state is NavState.FOLLOWING else None,
        )

    def _update(self, goal: _Goal, **changes: object) -> None:
        if goal is not self._goal:
            return
        route = goal.route
        self._publish(
            dataclasses.replace(
                self._status,
                adjusted=route.goal,
                attempts=goal.life.attempts,
                through_unknown=route.through_unknown,
                plan_time=route.plan_time,
                plans=goal.life.plans,
                path=route.poses[:, :2],
                **changes,  # type: ignore[arg-type]
            )
        )

    def _publish(self, status: NavStatus) -> None:
        self._status = dataclasses.replace(status, seq=self._status.seq + 1)
        self._latest.publish(self._status)


def _check(request: GoalRequest) -> None:
    for name, value in (("x", request.x), ("y", request.y), ("yaw", request.yaw)):
        if value is None and name == "yaw":
            continue
        if value is None or not math.isfinite(value):
            raise InvalidRequest(f"{name} is {value}.")
        if abs(value) > MAX_COORDINATE_M:
            raise InvalidRequest(f"{name} is {value}: farther than {MAX_COORDINATE_M:.0f} m.")
