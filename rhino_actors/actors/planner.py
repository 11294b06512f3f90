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
from rhino_actors.actors.map_follower import MapFollower
from rhino_actors.actors.rate import Rate
from rhino_actors.actors.routing import make_router
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import (
    ActorUnavailable,
    ControlError,
    InvalidRequest,
    NoGoal,
    NoMap,
    NotLocalised,
    PlanningError,
    RhinoError,
    SupersededRequest,
)
from rhino_actors.geometry import compose, inverse, transform_poses, wrap_angle
from rhino_actors.messages.geometry import MAX_COORDINATE_M, Pose2D
from rhino_actors.messages.grid import NO_CORRECTION, MapSnapshot
from rhino_actors.messages.navigation import (
    FollowReport,
    FollowState,
    GoalRequest,
    NavMode,
    NavState,
    NavStatus,
    Path,
    PathReason,
)
from rhino_actors.planning.goal_life import Action, Decision, GoalLife
from rhino_actors.planning.route import Route

if TYPE_CHECKING:
    from ray.actor import ActorProxy

    from rhino_actors.actors.mapper import MapperActor
    from rhino_actors.actors.platform import PlatformActor

logger = logging.getLogger(__name__)

MAP_SILENCE_S = 3.0  # of the mapper, after which the robot does not drive on
SHIFT_M = (
    0.03  # by which a correction of the map moves the robot on it, from which the path is sent anew
)
SHIFT_RAD = 0.02


@dataclasses.dataclass
class _Goal:
    """The goal in force."""

    id: int
    request: GoalRequest
    mode: NavMode
    epoch: int
    life: GoalLife
    route: Route = dataclasses.field(init=False)  # in the map; there before the goal is in force
    sent_with: Pose2D = (
        NO_CORRECTION  # map_from_odom that the robot side's copy of the path was made with
    )
    paths: int = 0  # sent
    astray_since: float | None = None  # [s] when the robot's place in the map was lost
    path_reason: PathReason = PathReason.NONE


class PlannerActor:
    """Takes goals, plans and replans paths, and says how it goes.

    Goals, routes and NavStatus are in the frame map, what goes to the platform and comes from it in odom.

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
        self._last_id = 0
        self._accepting = asyncio.Lock()
        self._revoked = 0  # counts cancels, so that a goal still being planned notices one
        self._asked = 0  # counts what people and agents asked for: the newest wins
        self._map_heard = -math.inf  # [s] when the mapper last answered
        self._running = asyncio.Lock()
        self._status = NavStatus(mode=self._mode)
        self._latest = Latest(self._status)

    @ray.method
    async def run(self) -> None:
        """Follow the map and the goal until cancelled; an exception ends the loop and reaches main.

        A second call waits for the first to end.
        """
        async with self._running:
            async with self._routing:
                await asyncio.to_thread(self._router.warm_up)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._watch_map())
                tasks.create_task(self._renew_lease())
                tasks.create_task(self._drive())

    @ray.method
    async def navigate(self, request: GoalRequest) -> NavStatus:
        """Plan to a goal and send the robot off.

        Returns the status with the goal's id and where it really goes. Until the robot side has taken the new path
        the goal in force goes on; a person's or agent's goal that cannot be planned ends it all the same, for its
        owner wants the robot elsewhere.

        Raises:
            InvalidRequest: a coordinate is not finite or absurd.
            PlanningError: there is no map, or no path.
            ControlError: the robot may not be moved by this client now.
            SupersededRequest: it was cancelled or replaced while it was planned.
        """
        _check(request)
        revoked = self._revoked
        stops = request.stops
        if stops is None:
            stops = (await call(self._platform.follow_report.remote(0))).stops
        if request.epoch is None:
            self._asked += 1
        asked = self._asked
        async with self._accepting:
            if revoked != self._revoked or (request.epoch is None and asked != self._asked):
                raise SupersededRequest("It was cancelled or replaced before it was planned.")
            report = await call(self._platform.follow_report.remote(0))
            if request.epoch not in (None, report.epoch):
                raise SupersededRequest()
            epoch = request.epoch
            if epoch is None:
                claim = self._platform.claim.remote(request.client, request.rank, stops=stops)  # type: ignore[call-arg]  # Ray's types drop defaults
                epoch = await call(claim)
            # Ids grow over restarts of this actor and on whatever host it runs: the robot side keeps the count.
            self._last_id = max(self._last_id, report.newest_goal_id, epoch) + 1
            goal = _Goal(
                self._last_id,
                request,
                request.mode or self._mode,
                epoch,
                GoalLife(self._config, self._last_id, time.monotonic()),
            )
            try:
                await self._begin(goal, revoked)
            except RhinoError as error:
                await self._refused(goal, error)
                raise
            return self._status

    async def _begin(self, goal: _Goal, revoked: int) -> None:
        """Plan, send the path, and only then put the goal in force."""
        goal.route, _ = await self._plan(goal.request)
        goal.path_reason = PathReason.NEW_GOAL
        if revoked != self._revoked:
            raise SupersededRequest("It was cancelled while it was planned.")
        await self._send(goal)
        if self._goal is not None:
            self._publish_end(NavState.CANCELLED, "SUPERSEDED", "A newer goal took its place.")
        self._goal = goal
        self._publish(_first_status(goal, NavState.PLANNING))
        self._tell(goal.life.planned(time.monotonic(), goal.route.length), None)

    async def _refused(self, goal: _Goal, error: RhinoError) -> None:
        """Clean up after a goal that did not begin. A mission's own goal in force is the mission's business."""
        request = goal.request
        if request.epoch is not None:
            return
        if isinstance(error, PlanningError):
            await self._end_goal(NavState.CANCELLED, "SUPERSEDED", "A newer goal took its place.")
            status = _first_status(goal, NavState.FAILED)
            text = f"{error.message} {error.hint}"
            self._publish(dataclasses.replace(status, reason=error.code, message=text))
        with contextlib.suppress(ActorUnavailable):
            await self._release(goal)

    @ray.method
    async def cancel(self, client: str, goal_id: int | None = None) -> NavStatus:
        """Drop the goal; the robot stands.

        Args:
            client: who says so.
            goal_id: only this goal; None: whatever is in force, or being planned.

        Raises:
            NoGoal: there is none, or another one.
        """
        goal = self._goal
        if goal_id is None:
            self._revoked += 1
            if goal is None and not self._accepting.locked():
                raise NoGoal()
        elif goal is None or goal.id != goal_id:
            raise NoGoal(f"Goal {goal_id} is not in force.")
        if goal is not None:
            await self._cancel(goal, client)
        return self._status

    async def _cancel(self, goal: _Goal, client: str) -> None:
        """End a goal; if the robot was stopped just before, that is what ended it."""
        reason, message = "CANCELLED", f"Cancelled by {client}."
        with contextlib.suppress(ActorUnavailable):
            report = await call(self._platform.follow_report.remote(goal.id))
            if report.state is FollowState.ENDED and report.reason.ends_goal:
                reason, message = report.reason, report.message
        if goal is self._goal:
            await self._end_goal(NavState.CANCELLED, reason, message)

    @ray.method
    async def set_mode(self, mode: NavMode) -> NavMode:
        """Set how later goals are reached."""
        self._mode = NavMode(mode)
        self._publish(dataclasses.replace(self._status, mode=self._mode))
        return self._mode

    @ray.method
    async def status(self, newer_than: int = 0, wait: float = 0.0) -> NavStatus:
        """Return the status; with `wait`, once its seq is another than `newer_than` or the time is over."""
        await self._latest.newer(newer_than, wait)
        return self._status

    async def _watch_map(self) -> None:
        follower = MapFollower(self._mapper)
        while True:
            try:
                snapshot = await follower.newer(1.0)
                self._map_heard = time.monotonic()
                # A restarted mapper begins empty; what is known holds until it has seen something.
                if snapshot is not None and not (snapshot.is_empty and self._map):
                    self._map = snapshot
            except ActorUnavailable:
                await asyncio.sleep(0.3)

    async def _renew_lease(self) -> None:
        """Keep the path alive while this actor is, whatever a plan takes; not when the map is lost."""
        rate = Rate(4.0 / self._config.path_lease_s)
        while True:
            if self._goal is not None and not (self._map_is_lost() or self._is_astray()):
                with contextlib.suppress(ActorUnavailable):
                    await call(self._platform.follow_report.remote(self._goal.id))
            await rate.sleep()

    def _map_is_lost(self) -> bool:
        return time.monotonic() - self._map_heard > MAP_SILENCE_S

    def _is_astray(self) -> bool:
        """Tell whether the robot's place in the map is not known."""
        return self._map is not None and not self._map.localised

    async def _drive(self) -> None:
        rate = Rate(self._config.tick_hz)
        while True:
            goal = self._goal
            if goal is not None and self._map_is_lost():
                # The path's lease runs out now, and the robot stops; it is planned anew when the mapper is back.
                text = "The mapper does not answer."
                self._update(goal, state=NavState.PAUSED, reason="NO_MAP", message=text)
            elif goal is not None:
                try:
                    if self._is_astray():
                        await self._wait_astray(goal)
                    else:
                        goal.astray_since = None
                        await self._step(goal)
                except ActorUnavailable as error:
                    self._update(
                        goal, state=NavState.PAUSED, reason=error.code, message=error.message
                    )
            await rate.sleep()

    async def _step(self, goal: _Goal) -> None:
        report = await call(self._platform.follow_report.remote(goal.id))
        if report.pose is not None:
            report = dataclasses.replace(report, pose=self._in_map(report.pose))
        blocked = await self._is_blocked(goal.route, report.pose)
        if goal is not self._goal:
            return
        decision = goal.life.step(report, time.monotonic(), path_is_blocked=blocked)
        if decision.action is Action.PLAN:
            decision = await self._replan(goal, decision)
        if decision.action is Action.RECOVER:
            await self._recover(goal, decision)
        if goal is not self._goal:
            return
        if decision.action is Action.END:
            await self._end_goal(decision.state, decision.reason, decision.message)
            return
        if report.state in (FollowState.FOLLOWING, FollowState.WAITING):
            await self._follow_correction(goal, report.pose)
        self._tell(decision, report)

    async def _wait_astray(self, goal: _Goal) -> None:
        """Have the robot stand until it knows its place in the map, for a while; then the goal has failed.

        The path's lease is not renewed and runs out. When the place is known again the goal is planned anew.
        """
        now = time.monotonic()
        if goal.astray_since is None:
            goal.astray_since = now
        waited = now - goal.astray_since
        error = NotLocalised()
        if waited > self._config.wait_timeout_s:
            text = f"{error.message} {error.hint}"
            await self._end_goal(NavState.FAILED, error.code, text)
            return
        if waited > 1.5 * self._config.path_lease_s:  # to ask earlier would renew it
            report = await call(self._platform.follow_report.remote(goal.id))
            if report.state is FollowState.ENDED and report.reason.ends_goal:
                if goal is self._goal:
                    await self._end_goal(NavState.CANCELLED, report.reason, report.message)
                return
        self._update(
            goal, state=NavState.PAUSED, reason=error.code, message=error.message, eta=None
        )

    async def _is_blocked(self, route: Route, pose: Pose2D | None) -> bool:
        snapshot = self._map
        if snapshot is None:
            return False
        return await asyncio.to_thread(self._router.is_blocked, route, snapshot, pose)

    async def _replan(self, goal: _Goal, decision: Decision) -> Decision:
        """Plan again while the robot drives on, and send the new path if it is needed or clearly better."""
        try:
            route, pose = await self._plan(goal.request)
            if await self._is_blocked(route, pose):
                raise PlanningError("The map changed while it was planned.")
        except PlanningError as error:
            return goal.life.plan_failed(error, time.monotonic())
        snapshot = self._map
        if goal is not self._goal or snapshot is None:
            return decision
        if decision.must_replace or await asyncio.to_thread(
            self._router.is_better, route, goal.route, snapshot, pose
        ):
            goal.route, goal.path_reason = route, decision.why
            try:
                await self._send(goal)
            except ControlError as error:
                return Decision(Action.END, NavState.CANCELLED, error.code, error.message)
            planned = goal.life.planned(time.monotonic(), route.length)
        else:
            planned = goal.life.kept(time.monotonic())
        return planned if decision.state is not NavState.PAUSED else decision

    async def _recover(self, goal: _Goal, decision: Decision) -> None:
        logger.info(
            "goal %d: %s: recovery %d: %s",
            goal.id,
            decision.reason,
            goal.life.attempts + 1,
            decision.motion,
        )
        goal.life.recovering(time.monotonic(), decision.duration)
        with contextlib.suppress(ControlError):  # the next report says who stopped it
            await call(
                self._platform.nudge.remote(  # type: ignore[call-arg]  # Ray's types drop defaults
                    decision.motion,
                    decision.duration,
                    goal_id=goal.id,
                    epoch=goal.epoch,
                    client=goal.request.client,
                    rank=goal.request.rank,
                )
            )

    async def _follow_correction(self, goal: _Goal, pose: Pose2D | None) -> None:
        """Send the path anew where the map has been found to lie elsewhere under the robot than when it was sent."""
        if pose is None or self._correction == goal.sent_with:
            return
        odom_from_map = inverse(self._correction.as_tuple())
        here = compose(odom_from_map, pose.as_tuple())
        there = compose(inverse(goal.sent_with.as_tuple()), pose.as_tuple())
        turned = abs(wrap_angle(here[2] - there[2]))
        if math.dist(here[:2], there[:2]) > SHIFT_M or turned > SHIFT_RAD:
            with contextlib.suppress(ControlError):  # the next report says why it is not taken
                await self._send(goal)

    @property
    def _correction(self) -> Pose2D:
        """Where odom lies in the newest map."""
        return self._map.map_from_odom if self._map else NO_CORRECTION

    def _in_map(self, pose: Pose2D) -> Pose2D:
        return Pose2D(*compose(self._correction.as_tuple(), pose.as_tuple()))

    async def _plan(self, request: GoalRequest) -> tuple[Route, Pose2D]:
        """Return a route on the newest map, and the pose in it that it starts from. Raises PlanningError."""
        snapshot = self._map
        if snapshot is None or snapshot.is_empty:
            raise NoMap()
        if not snapshot.localised:
            raise NotLocalised()
        odometry = await call(self._platform.odometry.remote(0, 0.0))  # type: ignore[call-arg]  # Ray's types drop defaults
        if odometry is None:
            raise NoMap("There is no odometry yet.")
        mode = request.mode or self._mode
        placed = compose(snapshot.map_from_odom.as_tuple(), odometry.pose.as_tuple())
        pose = Pose2D(*placed)
        async with self._routing:
            route = await asyncio.to_thread(self._router.plan, snapshot, pose, request, mode)
        return route, pose

    async def _send(self, goal: _Goal) -> FollowReport:
        request, route = goal.request, goal.route
        correction = self._correction
        odom_from_map = inverse(correction.as_tuple())
        yaw = None if request.yaw is None else wrap_angle(request.yaw + odom_from_map[2])
        goal.sent_with = correction
        goal.paths += 1
        return await call(
            self._platform.follow.remote(
                Path(
                    goal_id=goal.id,
                    epoch=goal.epoch,
                    poses=transform_poses(odom_from_map, route.poses),
                    client=request.client,
                    rank=request.rank,
                    final_yaw=yaw,
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
        self._publish_end(state, reason, message)
        with contextlib.suppress(ActorUnavailable):  # its lease stops the robot then
            await call(self._platform.cancel_path.remote(goal.id))
            if goal.request.epoch is None:  # a mission keeps its lease from goal to goal
                await self._release(goal)

    async def _release(self, goal: _Goal) -> None:
        await call(self._platform.release.remote(goal.request.client, goal.epoch))  # type: ignore[call-arg]  # Ray's types drop defaults

    def _publish_end(self, state: NavState, reason: str, message: str) -> None:
        left = 0.0 if state is NavState.ARRIVED else self._status.distance_remaining
        self._publish(
            dataclasses.replace(
                self._status,
                state=state,
                reason=reason,
                message=message,
                path=None,
                eta=None,
                distance_remaining=left,
            )
        )

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
                path_reason=goal.path_reason,
                paths=goal.paths,
                **changes,  # type: ignore[arg-type]
            )
        )

    def _publish(self, status: NavStatus) -> None:
        self._status = dataclasses.replace(status, seq=self._status.seq + 1)
        self._latest.publish(self._status)


def _first_status(goal: _Goal, state: NavState) -> NavStatus:
    request = goal.request
    return NavStatus(
        state=state,
        goal_id=goal.id,
        requested=Pose2D(request.x, request.y, request.yaw or 0.0),
        requested_yaw=request.yaw,
        client=request.client,
        mode=goal.mode,
    )


def _check(request: GoalRequest) -> None:
    for name, value in (("x", request.x), ("y", request.y), ("yaw", request.yaw)):
        if value is None and name == "yaw":
            continue
        if value is None or not math.isfinite(value):
            raise InvalidRequest(f"{name} is {value}.")
        if abs(value) > MAX_COORDINATE_M:
            raise InvalidRequest(f"{name} is {value}: farther than {MAX_COORDINATE_M:.0f} m.")
