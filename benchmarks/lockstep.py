"""The robot and its planner in lock-step with the simulation: the actors' pieces without Ray, processes and clocks.

`Robot` is what runs beside the robot (senses, mapper, gate, follower, collision monitor), `Navigator` what the planner
actor does with goals. Everything happens at a moment of simulated time, so the same seeds give the same drives.
"""

import contextlib
import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rhino_actors.actors.routing import make_router
from rhino_actors.config import MujocoConfig, RhinoConfig
from rhino_actors.control.collision_monitor import CollisionMonitor
from rhino_actors.control.driving import PathDriving, describe
from rhino_actors.control.motion_gate import Health, MotionGate, MotionKind
from rhino_actors.control.path_follower import PathFollower, checked_points
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.errors import ControlError, PlanningError
from rhino_actors.geometry import compose, inverse, transform_poses, wrap_angle
from rhino_actors.mapping import MapLayers
from rhino_actors.mapping.loop_mapping import LoopMapping
from rhino_actors.mapping.whereabouts import Whereabouts
from rhino_actors.messages import navigation as messages
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.grid import NO_CORRECTION, MapSnapshot
from rhino_actors.messages.map_patch import MapReader
from rhino_actors.messages.navigation import (
    FollowReport,
    FollowState,
    GoalRequest,
    NavMode,
    NavState,
)
from rhino_actors.messages.platform import StopReason
from rhino_actors.messages.sensors import LidarFrame
from rhino_actors.planning.goal_life import Action, Decision, GoalLife
from rhino_actors.planning.route import Route, Router

# By which a correction of the map moves the robot on it, from which the path is sent anew.
SHIFT_M, SHIFT_RAD = 0.03, 0.02


def make_config(
    world: str = "office",
    *,
    seed: int = 1,
    body: str = "walking",
    lidar: str = "l1",
    drift: str = "default",
    faults: str = "",
) -> RhinoConfig:
    """Return the configuration of a lock-step run: the defaults, in this world and on this body."""
    mujoco = MujocoConfig(
        world=world,
        seed=seed,
        base=body,
        fast=True,
        lidar=lidar,
        drift=drift,
        faults=faults,
        camera="off",
    )
    return RhinoConfig(mujoco=mujoco)


def changed(config: RhinoConfig, setting: str) -> RhinoConfig:
    """Return the configuration with one `section.key=value` changed."""
    place, _, text = setting.partition("=")
    section, _, key = place.partition(".")
    part = getattr(config, section)
    kind = type(getattr(part, key))
    value = text == "true" if kind is bool else kind(text)
    return dataclasses.replace(config, **{section: dataclasses.replace(part, **{key: value})})


class Mapping:
    """Frames to snapshots: what the mapper actor does with them, and the reader of its patches."""

    def __init__(self, config: RhinoConfig) -> None:
        self._period = 1.0 / config.mapper.publish_hz
        self.layers = MapLayers(config.mapper, config.robot)
        self._whereabouts = Whereabouts(config.mapper, config.robot)
        self.loops = LoopMapping.of(config.mapper, config.robot)
        self._reader = MapReader()
        self._due = 0.0
        self._seq = 0
        self.map_from_odom = NO_CORRECTION
        self.snapshot: MapSnapshot | None = None

    def take(self, frame: LidarFrame, now: float) -> None:
        """Fuse a frame, and publish if it is time."""
        moved = False
        if frame.pose_is_trusted:
            before = self.map_from_odom
            self.map_from_odom, may_fuse = self._whereabouts.place(
                frame, before, self.layers.occupancy.read
            )
            if may_fuse:
                self.layers.integrate(frame, self.map_from_odom)
                if self.loops is not None:
                    self.loops.add_frame(frame, self.map_from_odom)
                    self.map_from_odom = self.loops.close_now(self.layers, self.map_from_odom)
            moved = self.map_from_odom != before
        if now >= self._due and (moved or self.layers.has_changed):
            self._due = now + self._period
            self._publish(now, frame.pose, moved)

    def _publish(self, now: float, pose: Pose2D, moved: bool) -> None:
        """Make the newest map the snapshot."""
        since, seq = self._seq, self._seq + 1
        if not self.layers.update_tiles(seq) and not moved:
            return
        patch = self.layers.tiles.patch(
            since,
            epoch=1,
            seq=seq,
            stamp=now,
            known_area=self.layers.known_area,
            robot=pose,
            map_from_odom=self.map_from_odom,
            localised=self._whereabouts.status.is_usable,
        )
        self._seq = seq
        self.snapshot = self._reader.take(patch)


def in_map(map_from_odom: Pose2D, pose: Pose2D) -> Pose2D:
    """Return a pose in odom as one in the map."""
    return Pose2D(*compose(map_from_odom.as_tuple(), pose.as_tuple()))


class Robot:
    """The robot's side in lock-step: simulation, senses, gate, follower, monitor, and the mapper behind them."""

    def __init__(self, world: World, config: RhinoConfig) -> None:
        self.config = config
        self.sim = Simulation(world, config.mujoco, config.robot)
        self.mapping = Mapping(config)
        self.monitor = CollisionMonitor(config.collision, config.robot)
        near = config.follower.goal_tolerance + config.collision.stop_margin
        self.driving = PathDriving(PathFollower(config.follower), self.monitor, accept_within=near)
        self.gate = MotionGate(config.gate, now=0.0)
        self.odometry: Odometry | None = None
        self.frame: LidarFrame | None = None
        self.twist = Twist2D()
        self.remaining = self.deviation = 0.0
        self._period = 1.0 / config.gate.control_rate_hz
        self._control_due = 0.0
        self._frames = self._odometries = 0

    @property
    def now(self) -> float:
        """Simulated time [s]."""
        return self.sim.time

    @property
    def pose(self) -> Pose2D:
        """Where the robot believes to be, in odom."""
        return self.odometry.pose if self.odometry else Pose2D(0.0, 0.0)

    @property
    def map_pose(self) -> Pose2D:
        """Where the robot believes to be, in the map."""
        return in_map(self.mapping.map_from_odom, self.pose)

    def step(self) -> None:
        """Let one tick of the simulation pass, with what the robot's host does in it."""
        observation = self.sim.step(self.twist)
        now = self.now
        if observation.odometry is not None:
            self._odometries += 1
            self.odometry = observation.odometry.odometry(self._odometries, now)
            self.gate.observe_odometry(self.odometry, now)
        if observation.lidar is not None:
            self._frames += 1
            frame = observation.lidar.frame(self._frames, now)
            if not self.gate.trusts_pose_at(frame.stamp):
                frame = dataclasses.replace(frame, pose_is_trusted=False)
            self.frame = frame
            self.monitor.update(frame)
            self.mapping.take(frame, now)
        if now >= self._control_due - 1e-9:
            self._control_due = max(self._control_due, now - self._period) + self._period
            self._control(now)

    def follow(self, path: messages.Path) -> None:
        """Take a path, as the platform actor does. Raises ControlError."""
        points = checked_points(path.poses, path.final_yaw)
        self.gate.start_path(path, self.now)
        self.driving.set_path(points, path.final_yaw)
        self.remaining = path.length

    def report(self, goal_id: int) -> FollowReport:
        """Say how a path goes, and renew its lease."""
        self.gate.renew(goal_id, self.now)
        state = self.gate.path_state
        return FollowReport(
            goal_id=state.goal_id,
            state=state.state,
            reason=state.reason,
            message=state.message,
            pose=self.pose,
            distance_remaining=self.remaining,
            deviation=self.deviation,
            epoch=self.gate.epoch,
            newest_goal_id=self.gate.newest_goal_id,
            stops=self.gate.stops,
        )

    def _control(self, now: float) -> None:
        self.gate.observe(
            Health(
                True,
                self.sim.posture,
                now - self.odometry.stamp if self.odometry else math.inf,
                now - self.frame.stamp if self.frame else math.inf,
            ),
            now,
        )
        intent = self.gate.intent(now)
        if intent.kind is not MotionKind.PATH:
            self.driving.clear()
        twist, obstacle = Twist2D(), ""
        if intent.kind is not MotionKind.NONE and intent.hold is StopReason.NONE:
            if intent.kind is MotionKind.PATH:
                step = self.driving.step(self.pose, speed=self.gate.applied.vx, dt=self._period)
                self.remaining, self.deviation = step.distance_remaining, step.deviation
                if step.arrived:
                    self.gate.path_arrived(now, "The robot is at the goal.")
                twist, obstacle = step.twist, step.obstacle
            else:
                limited = self.monitor.limit(intent.twist, self.pose)
                twist = limited.twist
                obstacle = describe(limited) if limited.blocked else ""
        sent = self.gate.output(twist, now, obstacle=obstacle)
        if sent is not None:
            self.twist = sent
            self.gate.sent(sent, now)


@dataclass
class Drive:
    """One goal, from its posting to its end, and what became of it."""

    goal_id: int = 0
    state: NavState = NavState.IDLE
    reason: str = ""
    message: str = ""
    posted: float = 0.0  # [s]
    ended: float = math.nan  # [s]
    plans: int = 0
    sent: int = 0  # paths
    recoveries: int = 0
    plan_times: list[float] = field(default_factory=list)  # [s] of thread CPU
    first_twist: float = math.nan  # [s] simulated, from the posting
    events: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)  # of the paths after the first


@dataclass
class _Goal:
    """The goal in force."""

    request: GoalRequest
    epoch: int
    life: GoalLife
    route: Route
    record: Drive
    decision: Decision


class Navigator:
    """The planner's side in lock-step: one goal in force at a time."""

    def __init__(self, robot: Robot, router: Router | None = None) -> None:
        self.robot = robot
        self.router = router or make_router(robot.config)
        self.newest = Drive()  # the goal in force, or the last one
        self._goal: _Goal | None = None
        self._period = 1.0 / robot.config.planner.tick_hz
        self._due = 0.0
        self._sent_with = NO_CORRECTION
        self._goal_id = 0

    @property
    def is_driving(self) -> bool:
        """Whether a goal is in force."""
        return self._goal is not None

    def drive(
        self,
        request: GoalRequest,
        *,
        limit: float,
        watch: Callable[[], None] = lambda: None,
    ) -> Drive:
        """Drive to a goal in lock-step until it is over or `limit` [s] have passed; `watch` sees every tick."""
        robot = self.robot
        began = robot.now
        try:
            record = self.navigate(request)
        except (PlanningError, ControlError):
            robot.gate.release(request.client, robot.now)
            return self.newest
        while self.is_driving and robot.now - began < limit:
            robot.step()
            watch()
            self.tick()
        if self.is_driving:
            self._end(Decision(Action.END, NavState.FAILED, "TIME_LIMIT", "It took too long."))
        return record

    def navigate(self, request: GoalRequest) -> Drive:
        """Plan to a goal and send the robot off; an earlier one is dropped when the path is taken.

        Returns the record, which grows until the goal is over.

        Raises:
            PlanningError, ControlError: it cannot be driven to; a goal in force goes on.
        """
        robot = self.robot
        now = robot.now
        self._goal_id = max(self._goal_id, robot.gate.newest_goal_id) + 1
        record = Drive(self._goal_id, posted=now)
        life = GoalLife(robot.config.planner, self._goal_id, now)
        try:
            epoch = request.epoch
            if epoch is None:
                epoch = robot.gate.claim(request.client, request.rank, now)
            route = self._plan(request, record)
            self._send(route, request, epoch, record)
        except (PlanningError, ControlError) as error:
            record.state, record.reason, record.message = NavState.FAILED, error.code, str(error)
            record.ended = now
            if self._goal is None:
                self.newest = record
            raise
        if self._goal is not None:
            old = self._goal.record
            old.state, old.reason, old.ended = NavState.CANCELLED, "SUPERSEDED", now
            old.recoveries = self._goal.life.attempts
        life.planned(now, route.length)
        record.state = NavState.FOLLOWING
        decision = Decision(Action.NONE, NavState.FOLLOWING)
        self._goal = _Goal(request, epoch, life, route, record, decision)
        self.newest = record
        self._due = now + self._period
        return record

    def cancel(self) -> None:
        """Drop the goal in force; the robot stands."""
        if self._goal is not None:
            self._end(Decision(Action.END, NavState.CANCELLED, "CANCELLED", "Cancelled."))

    def tick(self) -> None:
        """Look at how the goal goes, if it is time; to be called after every step of the robot."""
        goal, robot = self._goal, self.robot
        if goal is None:
            return
        record = goal.record
        if math.isnan(record.first_twist) and not robot.twist.is_zero:
            record.first_twist = robot.now - record.posted
        if robot.now < self._due:
            return
        self._due += self._period
        report = dataclasses.replace(robot.report(record.goal_id), pose=robot.map_pose)
        blocked = self._is_blocked(goal.route, report.pose)
        decision = goal.life.step(report, robot.now, path_is_blocked=blocked)
        if decision.action is Action.PLAN:
            decision = self._replan(goal, decision)
        if decision.action is Action.RECOVER:
            self._recover(goal, decision)
        before, goal.decision = goal.decision, decision
        if (decision.state, decision.reason) != (before.state, before.reason):
            record.events.append(
                f"{robot.now - record.posted:.1f} s {decision.state} {decision.reason} {decision.message}"
            )
        if decision.action is Action.END:
            self._end(decision)
            return
        record.state = decision.state
        if report.state in (FollowState.FOLLOWING, FollowState.WAITING):
            if self._is_shifted(robot.map_pose):
                with contextlib.suppress(ControlError):
                    self._send(goal.route, goal.request, goal.epoch, record)

    def _end(self, decision: Decision) -> None:
        goal, self._goal = self._goal, None
        assert goal is not None
        record, gate, now = goal.record, self.robot.gate, self.robot.now
        record.state, record.reason = decision.state, decision.reason
        record.message, record.ended = decision.message, now
        record.recoveries = goal.life.attempts
        gate.cancel(record.goal_id, now)
        if goal.request.epoch is None:  # a mission keeps the robot from goal to goal
            gate.release(goal.request.client, now)

    def _plan(self, request: GoalRequest, record: Drive) -> Route:
        snapshot = self.robot.mapping.snapshot
        assert snapshot is not None
        began = time.thread_time()
        try:
            return self.router.plan(snapshot, self.robot.map_pose, request, NavMode.ASTAR)
        finally:
            record.plan_times.append(time.thread_time() - began)
            record.plans += 1

    def _is_blocked(self, route: Route, pose: Pose2D | None) -> bool:
        snapshot = self.robot.mapping.snapshot
        return snapshot is not None and self.router.is_blocked(route, snapshot, pose)

    def _is_shifted(self, pose: Pose2D) -> bool:
        """Say whether the map was found to lie elsewhere under the robot than when the path was sent."""
        here = compose(inverse(self.robot.mapping.map_from_odom.as_tuple()), pose.as_tuple())
        there = compose(inverse(self._sent_with.as_tuple()), pose.as_tuple())
        turned = abs(wrap_angle(here[2] - there[2]))
        return math.dist(here[:2], there[:2]) > SHIFT_M or turned > SHIFT_RAD

    def _send(self, route: Route, request: GoalRequest, epoch: int, record: Drive) -> None:
        record.sent += 1
        self._sent_with = self.robot.mapping.map_from_odom
        odom_from_map = inverse(self._sent_with.as_tuple())
        self.robot.follow(
            messages.Path(
                goal_id=record.goal_id,
                epoch=epoch,
                poses=transform_poses(odom_from_map, route.poses),
                client=request.client,
                rank=request.rank,
                final_yaw=None
                if request.yaw is None
                else wrap_angle(request.yaw + odom_from_map[2]),
                length=route.length,
            )
        )

    def _replan(self, goal: _Goal, decision: Decision) -> Decision:
        """Plan anew, put a better route in force, and return what to do, as the planner actor does it."""
        now, snapshot = self.robot.now, self.robot.mapping.snapshot
        assert snapshot is not None
        try:
            new = self._plan(goal.request, goal.record)
            pose = self.robot.map_pose
            if self._is_blocked(new, pose):
                raise PlanningError("The new path is blocked.")
        except PlanningError as error:
            return goal.life.plan_failed(error, now)
        if decision.must_replace or self.router.is_better(new, goal.route, snapshot, pose):
            try:
                self._send(new, goal.request, goal.epoch, goal.record)
            except ControlError as error:
                return Decision(Action.END, NavState.CANCELLED, error.code, error.message)
            goal.record.reasons[decision.why] += 1
            goal.route, done = new, goal.life.planned(now, new.length)
        else:
            done = goal.life.kept(now)
        return done if decision.state is not NavState.PAUSED else decision

    def _recover(self, goal: _Goal, decision: Decision) -> None:
        goal.life.recovering(self.robot.now, decision.duration)
        self.robot.gate.start_nudge(
            decision.motion,
            decision.duration,
            goal_id=goal.record.goal_id,
            epoch=goal.epoch,
            client=goal.request.client,
            now=self.robot.now,
        )


def wait_for_map(robot: Robot, seconds: float = 2.5) -> None:
    """Stand until the first frames are in the map."""
    while robot.now < seconds or robot.mapping.snapshot is None:
        robot.step()
