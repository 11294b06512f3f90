"""How well the robot drives: goals in simulated worlds, in lock-step, judged by the simulation's truth.

    python -m benchmarks.navigation                              every world, 5 goals each, into unknown floor
    python -m benchmarks.navigation --world office --goals 30 --known
    python -m benchmarks.navigation --scene crossings --goals 20
    python -m benchmarks.navigation --scene drop --goals 30
    python -m benchmarks.navigation --scene doors

The pieces are those of the actors: mapper and costmap, router, goal's life, motion gate, follower and collision
monitor. Only Ray, processes and clocks are left out: everything happens at a moment of simulated time, so the same
seeds print the same figures. `Robot` and `Navigator` may be used by other programs.

Each goal begins with a fresh robot at the world's start, unless `--chain` has it drive from goal to goal with the
odometry that it has by then. With `--known` the map is there before: that of a tour which knew its place. The
shortest feasible way keeps 0.30 m from everything on the truth grid. Clearance is that of the body's rectangle.
"""

import argparse
import contextlib
import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RhinoConfig
from rhino_actors.control.collision_monitor import CollisionMonitor
from rhino_actors.control.driving import PathDriving, describe
from rhino_actors.control.motion_gate import Health, MotionGate, MotionKind
from rhino_actors.control.path_follower import PathFollower, checked_points
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, Walk, World
from rhino_actors.errors import ControlError, PlanningError
from rhino_actors.geometry import compose, inverse, transform_poses, wrap_angle
from rhino_actors.mapping import MapLayers, inflate
from rhino_actors.mapping import warm_up as warm_up_mapping
from rhino_actors.mapping.loop_mapping import LoopMapping
from rhino_actors.mapping.whereabouts import Whereabouts
from rhino_actors.messages import navigation as messages
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.grid import FREE, NO_CORRECTION, OCCUPIED, MapSnapshot
from rhino_actors.messages.map_patch import MapReader
from rhino_actors.messages.navigation import (
    FollowReport,
    FollowState,
    GoalRequest,
    NavMode,
    NavState,
    Rank,
)
from rhino_actors.messages.platform import StopReason
from rhino_actors.messages.sensors import LidarFrame
from rhino_actors.planning import cost_to_go, plan_path
from rhino_actors.planning.goal_life import Action, Decision, GoalLife
from rhino_actors.planning.path import path_length, poses_from_cells
from rhino_actors.planning.route import Route, Router

CLIENT = "benchmark"
SAMPLE_M = 0.10  # [m] of way between two places that count: shorter steps are the trot's sway
SAMPLE_S = 0.10  # [s] between two looks at the clearance
FEASIBLE_RADIUS = 0.30  # [m]
PERSON_RADIUS = 0.17  # [m] of the trunk
TOUR_STEP, TOUR_TICKS = 0.06, 3  # [m], ticks: the pace of the tour that makes a known map
# By which a correction of the map moves the robot on it, from which the path is sent anew.
SHIFT_M, SHIFT_RAD = 0.03, 0.02
TIME_LIMIT = 3.0  # times the fair time, and 30 s, after which a goal is given up


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


def make_router(config: RhinoConfig) -> Router:
    """Return a router that inflates as the mapper does."""
    robot = config.robot
    return Router(
        config.planner,
        robot,
        lambda occupancy, resolution: inflate(
            occupancy,
            resolution=resolution,
            inscribed_radius=robot.inscribed_radius,
            inflation_radius=robot.inflation_radius,
            cost_scaling_factor=robot.cost_scaling_factor,
        ),
    )


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
    """One goal, from its posting to its end."""

    state: NavState = NavState.IDLE
    reason: str = ""
    message: str = ""
    plans: int = 0
    sent: int = 0  # paths
    recoveries: int = 0
    plan_times: list[float] = field(default_factory=list)  # [s] of thread CPU
    first_twist: float = math.nan  # [s] simulated, from the posting
    events: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)  # of the paths after the first


class Navigator:
    """The planner's side in lock-step: one goal at a time."""

    def __init__(self, robot: Robot, router: Router | None = None) -> None:
        self.robot = robot
        self.router = router or make_router(robot.config)
        self._tick = 1.0 / robot.config.planner.tick_hz
        self._sent_with = NO_CORRECTION
        self._goal_id = 0

    def drive(
        self,
        request: GoalRequest,
        *,
        limit: float,
        watch: Callable[[], None] = lambda: None,
    ) -> Drive:
        """Drive to a goal in lock-step until it is over or `limit` [s] have passed; `watch` sees every tick."""
        robot, record = self.robot, Drive()
        posted = robot.now
        self._goal_id = max(self._goal_id, robot.gate.newest_goal_id) + 1
        life = GoalLife(robot.config.planner, self._goal_id, posted)
        epoch = robot.gate.claim(CLIENT, Rank.HUMAN, posted)
        try:
            route = self._plan(request, record)
            self._send(route, request, epoch, record)
        except (PlanningError, ControlError) as error:
            record.state, record.reason, record.message = (NavState.FAILED, error.code, str(error))
            robot.gate.release(CLIENT, robot.now)
            return record
        life.planned(posted, route.length)
        due = posted + self._tick
        decision = Decision(Action.NONE, NavState.FOLLOWING)
        while robot.now - posted < limit:
            robot.step()
            watch()
            if math.isnan(record.first_twist) and not robot.twist.is_zero:
                record.first_twist = robot.now - posted
            if robot.now < due:
                continue
            due += self._tick
            before = decision
            report = robot.report(self._goal_id)
            report = dataclasses.replace(report, pose=robot.map_pose)
            blocked = self._is_blocked(route, report.pose)
            decision = life.step(report, robot.now, path_is_blocked=blocked)
            if decision.action is Action.PLAN:
                route, decision = self._replan(route, request, epoch, life, decision, record)
            if decision.action is Action.RECOVER:
                self._recover(life, epoch, decision)
            if (decision.state, decision.reason) != (before.state, before.reason):
                record.events.append(
                    f"{robot.now - posted:.1f} s {decision.state} {decision.reason} {decision.message}"
                )
            if decision.action is Action.END:
                break
            if report.state in (FollowState.FOLLOWING, FollowState.WAITING):
                if self._is_shifted(robot.map_pose):
                    with contextlib.suppress(ControlError):
                        self._send(route, request, epoch, record)
        else:
            decision = Decision(Action.END, NavState.FAILED, "TIME_LIMIT", "It took too long.")
        record.state, record.reason, record.message = (
            decision.state,
            decision.reason,
            decision.message,
        )
        record.recoveries = life.attempts
        robot.gate.cancel(self._goal_id, robot.now)
        robot.gate.release(CLIENT, robot.now)
        return record

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
                goal_id=self._goal_id,
                epoch=epoch,
                poses=transform_poses(odom_from_map, route.poses),
                client=CLIENT,
                rank=Rank.HUMAN,
                final_yaw=None
                if request.yaw is None
                else wrap_angle(request.yaw + odom_from_map[2]),
                length=route.length,
            )
        )

    def _replan(
        self,
        route: Route,
        request: GoalRequest,
        epoch: int,
        life: GoalLife,
        decision: Decision,
        record: Drive,
    ) -> tuple[Route, Decision]:
        """Return the route in force after planning anew, and what to do, as the planner actor does it."""
        now, snapshot = self.robot.now, self.robot.mapping.snapshot
        assert snapshot is not None
        try:
            new = self._plan(request, record)
            pose = self.robot.map_pose
            if self._is_blocked(new, pose):
                raise PlanningError("The new path is blocked.")
        except PlanningError as error:
            return route, life.plan_failed(error, now)
        if decision.must_replace or self.router.is_better(new, route, snapshot, pose):
            try:
                self._send(new, request, epoch, record)
            except ControlError as error:
                return route, Decision(Action.END, NavState.CANCELLED, error.code, error.message)
            record.reasons[decision.why] += 1
            route, done = new, life.planned(now, new.length)
        else:
            done = life.kept(now)
        return route, done if decision.state is not NavState.PAUSED else decision

    def _recover(self, life: GoalLife, epoch: int, decision: Decision) -> None:
        life.recovering(self.robot.now, decision.duration)
        self.robot.gate.start_nudge(
            decision.motion,
            decision.duration,
            goal_id=self._goal_id,
            epoch=epoch,
            client=CLIENT,
            now=self.robot.now,
        )


class Judge:
    """Looks at the truth all along a drive."""

    def __init__(self, robot: Robot, world: World) -> None:
        self.robot = robot
        truth = world.truth_grid(robot_radius=FEASIBLE_RADIUS)
        self.geometry = truth.geometry
        rows, cols = np.nonzero(truth.occupancy == OCCUPIED)
        self._obstacles = self.geometry.world_from_cells(np.stack([rows, cols], axis=1))
        grown = _grown(truth.occupancy != FREE, FEASIBLE_RADIUS / self.geometry.resolution)
        self.costmap = np.where(grown, 254, 0).astype(np.uint8)
        self.reachable = truth.reachable
        self._look_due = 0.0
        self.clear()

    def clear(self) -> None:
        """Begin a new account."""
        truth = self.robot.sim.truth(0.0)
        self._before = truth
        self._at = truth.position[:2]
        self.length = 0.0
        self.clearances: list[float] = []
        self.people = math.inf  # [m] nearest that a person's middle came to the robot's
        self.still = 0.0  # [s] that it stood while it had a path and nothing held it
        self.held = 0.0  # [s] that it stood before something
        self.trace: list[tuple[float, float]] = [self._at]

    def step(self) -> None:
        """Take in a tick."""
        sim = self.robot.sim
        place = sim.position[:2]
        moved = math.dist(place, self._at)
        if moved >= SAMPLE_M:
            self.length += moved
            self._at = place
            self.trace.append(place)
        if self.robot.gate.kind is MotionKind.PATH and self.robot.twist.is_zero:
            reason = self.robot.gate.path_state.reason
            self.still += sim.tick * (reason is StopReason.NONE)
            self.held += sim.tick * (reason is StopReason.OBSTACLE)
        if sim.time >= self._look_due:
            self._look_due = sim.time + SAMPLE_S
            self.clearances.append(self.clearance())
            for x, y, _ in sim.truth(0.0).people:
                self.people = min(self.people, math.dist((x, y), place))

    def clearance(self) -> float:
        """Return how far the body's rectangle is from the nearest wall or furniture [m], 2 at most."""
        pose, robot = self.robot.sim.pose, self.robot.config.robot
        near = np.abs(self._obstacles - (pose.x, pose.y)).max(axis=1) < 2.4
        dx, dy = (self._obstacles[near] - (pose.x, pose.y)).T
        if len(dx) == 0:
            return 2.0
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        ahead = np.maximum(np.abs(cos * dx + sin * dy) - robot.length / 2.0, 0.0)
        beside = np.maximum(np.abs(cos * dy - sin * dx) - robot.width / 2.0, 0.0)
        half_cell = self.geometry.resolution / 2.0
        return min(2.0, max(0.0, float(np.hypot(ahead, beside).min()) - half_cell))

    def contacts(self) -> tuple[int, int, int]:
        """Return contacts with walls and with people, and falls, since `clear`."""
        now, before = self.robot.sim.truth(0.0), self._before
        return (
            now.wall_contacts - before.wall_contacts,
            now.person_contacts - before.person_contacts,
            now.falls - before.falls,
        )

    def shortest(self, start: tuple[float, float], goal: tuple[float, float]) -> float:
        """Return the length of the shortest way on the truth grid [m], any angle. Raises PlanningError."""
        cells = [_nearest(self.costmap, self.geometry.cell_from_world(*p)) for p in (start, goal)]
        found = plan_path(self.costmap, cells[0], cells[1], cost_weight=0.0)
        poses = poses_from_cells(
            found.cells, self.costmap, self.geometry, spacing=0.1, cost_weight=0.0
        )
        return path_length(poses)


@dataclass
class Result:
    """A drive and what the judge says of it."""

    world: str
    seed: int
    drive: Drive
    goal: tuple[float, float]  # in the world
    success: bool
    walls: int
    persons: int
    falls: int
    length: float
    shortest: float
    seconds: float
    fair: float  # [s] shortest way at cruise speed
    clearance: float  # [m] mean
    least: float  # [m]
    people: float
    still: float  # [s] without a reason
    held: float  # [s] before something
    error: float  # [m] true distance to the goal at the end
    trace: list[tuple[float, float]]


def judge_drive(
    navigator: Navigator, judge: Judge, goal: tuple[float, float], *, seed: int, world: World
) -> Result:
    """Drive to a goal given in the world, as a person would click it on the robot's map, and judge it."""
    robot = navigator.robot
    judge.clear()
    start = robot.sim.pose
    map_from_world = compose(robot.map_pose.as_tuple(), inverse(start.as_tuple()))
    x, y, _ = compose(map_from_world, (*goal, 0.0))
    shortest = judge.shortest((start.x, start.y), goal)
    fair = shortest / robot.config.follower.cruise_speed
    began = robot.now
    drive = navigator.drive(
        GoalRequest(x, y, client=CLIENT), limit=TIME_LIMIT * fair + 30.0, watch=judge.step
    )
    walls, persons, falls = judge.contacts()
    clearances = judge.clearances or [judge.clearance()]
    return Result(
        world.name,
        seed,
        drive,
        goal,
        drive.state is NavState.ARRIVED,
        walls,
        persons,
        falls,
        judge.length,
        shortest,
        robot.now - began,
        fair,
        float(np.mean(clearances)),
        float(np.min(clearances)),
        judge.people,
        judge.still,
        judge.held,
        math.dist(robot.sim.position[:2], goal),
        judge.trace,
    )


def wait_for_map(robot: Robot, seconds: float = 2.5) -> None:
    """Stand until the first frames are in the map."""
    while robot.now < seconds or robot.mapping.snapshot is None:
        robot.step()


def draw_goals(
    world: World, count: int, seed: int, *, least: float = 3.0
) -> list[tuple[float, float]]:
    """Return places that a body of 0.35 m radius can get to, at least so far [m] from the start as the crow flies."""
    truth = world.truth_grid(robot_radius=0.35)
    cells = np.argwhere(truth.reachable)
    places = truth.geometry.world_from_cells(cells)
    places = places[np.hypot(places[:, 0], places[:, 1]) >= least]
    rng = np.random.default_rng([seed, 17])
    return [tuple(places[i]) for i in rng.choice(len(places), count, replace=False)]  # type: ignore[misc]


def known_state(
    world: World, config: RhinoConfig, cache: Path | None = None
) -> dict[str, NDArray[np.generic]]:
    """Return the mapper's state after a tour that knew its place: a kinematic base without drift, led by the truth.

    With `cache`, a folder, tours are kept there and not made twice.
    """
    kept = None
    if cache is not None:
        kept = cache / f"tour_{world.name}_{world.seed}_{config.mujoco.lidar}.npz"
        if kept.exists():
            return dict(np.load(kept))
    led = dataclasses.replace(config.mujoco, base="kinematic", drift="off", faults="")
    robot = Robot(dataclasses.replace(world, people=()), dataclasses.replace(config, mujoco=led))
    data = robot.sim.data
    last = (0.0, 0.0)
    for place in _tour(world):
        if math.dist(place, last) < TOUR_STEP:
            continue
        heading = math.atan2(place[1] - last[1], place[0] - last[0])
        turn = math.remainder(heading - float(data.qpos[2]), math.tau)
        data.qpos[:2] = place
        data.qpos[2] += max(-0.25, min(0.25, turn))
        data.qvel[:] = 0.0
        last = place
        for _ in range(TOUR_TICKS):
            robot.step()
    state = robot.mapping.layers.state()
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, **state)
    return state


def _tour(world: World) -> list[tuple[float, float]]:
    """Return places [m] along a way from which nearly all floor is seen, always to the nearest that shows more."""
    from benchmarks.sim_scoring import Sight

    sight = Sight(world, robot_radius=0.30)
    costmap = np.where(sight.reachable, 0, 254).astype(np.uint8)
    stride = round(1.0 / sight.geometry.resolution)
    grid = np.argwhere(sight.reachable[::stride, ::stride]) * stride
    seen = [sight.seen(*sight.geometry.world_from_cell(int(r), int(c))) for r, c in grid]
    covered = np.zeros(sight.reachable.size, np.bool_)
    cell = sight.geometry.cell_from_world(0.0, 0.0)
    places = [(0.0, 0.0)]
    left = np.ones(len(grid), np.bool_)
    while left.any():
        left &= np.array([np.count_nonzero(~covered[cells]) > 60 for cells in seen])
        way = cost_to_go(costmap, [cell], cost_weight=0.0)[grid[:, 0], grid[:, 1]]
        way[~left] = np.inf
        best = int(np.argmin(way))
        if not np.isfinite(way[best]):
            break
        target = (int(grid[best, 0]), int(grid[best, 1]))
        for step in plan_path(costmap, cell, target, cost_weight=0.0).cells:
            places.append(sight.geometry.world_from_cell(int(step[0]), int(step[1])))
            covered[sight.seen(*places[-1])] = True
        cell = target
        left[best] = False
    return places


def run_world(
    name: str,
    goals: int,
    *,
    config: RhinoConfig,
    seed: int = 1,
    known: bool = False,
    chain: int = 1,
    people: bool = True,
    cache: Path | None = None,
    tell: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Drive to `goals` goals of one world; `chain` of them one after the other by the same robot."""
    world = make_world(name, seed, people=people)
    state = known_state(world, config, cache) if known else None
    router = make_router(config)
    results: list[Result] = []
    places = draw_goals(world, goals, seed)
    for first in range(0, goals, chain):
        drawn = dataclasses.replace(config.mujoco, seed=1000 * seed + first)
        robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
        if state is not None:
            robot.mapping.layers.restore(state)
        judge = Judge(robot, world)
        navigator = Navigator(robot, router)
        wait_for_map(robot)
        for goal in places[first : first + chain]:
            results.append(judge_drive(navigator, judge, goal, seed=seed, world=world))
            tell(results[-1])
    return results


HEADER = (
    f"{'world':<12}{'goal':>14}{'result':>11}{'way':>7}{'/short':>7}{'time':>7}{'/fair':>6}"
    f"{'clear':>7}{'least':>6}{'touch':>6}{'pers':>5}{'fall':>5}{'still':>6}{'held':>6}{'plans':>6}{'sent':>5}{'rec':>4}{'err':>6}"
)


def line(r: Result) -> str:
    """Return a drive as a line of the table."""
    place = f"({r.goal[0]:.1f},{r.goal[1]:.1f})"
    end = "arrived" if r.success else (r.drive.reason or r.drive.state)[:10]
    return (
        f"{r.world:<12}{place:>14}{end:>11}{r.length:>6.1f}m{r.length / max(r.shortest, 0.1):>7.2f}"
        f"{r.seconds:>6.1f}s{r.seconds / max(r.fair, 0.1):>6.2f}{r.clearance:>6.2f}m{r.least:>6.2f}"
        f"{r.walls:>6}{r.persons:>5}{r.falls:>5}{r.still:>5.1f}s{r.held:>5.1f}s{r.drive.plans:>6}{r.drive.sent:>5}"
        f"{r.drive.recoveries:>4}{r.error:>5.2f}m"
    )


def summary(results: list[Result]) -> str:
    """Return the figures of many drives."""
    done = [r for r in results if r.success] or results
    ways = sum(r.length for r in done) / max(0.1, sum(r.shortest for r in done))
    times = sum(r.seconds for r in done) / max(0.1, sum(r.fair for r in done))
    plans = np.array([t for r in results for t in r.drive.plan_times] or [0.0])
    twists = np.array([r.drive.first_twist for r in results])
    return (
        f"{len(results)} goals: success {100.0 * np.mean([r.success for r in results]):.1f} %, "
        f"contacts with walls {sum(r.walls for r in results)}, people {sum(r.persons for r in results)}, "
        f"falls {sum(r.falls for r in results)}; way {ways:.2f} of the shortest, "
        f"time {times:.2f} of the fair; clearance mean {np.mean([r.clearance for r in done]):.2f} m, "
        f"least {min(r.least for r in results):.2f} m; person nearest {min(r.people for r in results):.2f} m; "
        f"stood {sum(r.still for r in results):.1f} s for nothing, "
        f"{sum(r.held for r in results):.1f} s before something; "
        f"recoveries {sum(r.drive.recoveries for r in results)}; "
        f"plan CPU p50 {1000 * np.median(plans):.1f}, p95 {1000 * np.quantile(plans, 0.95):.1f} ms; "
        f"first twist p95 {np.nanquantile(twists, 0.95) if np.isfinite(twists).any() else math.nan:.2f} s"
    )


def open_world(
    boxes: tuple[Box, ...] = (), people: tuple[Walk, ...] = (), half: float = 8.0
) -> World:
    """Return a hall of 24 m by twice `half` [m] with walls, and what is put into it."""
    floor = Material("floor", "checker", (0.5, 0.5, 0.5), (0.4, 0.4, 0.4))
    edge = half + 0.1
    sides = (
        (8.0, -edge, 24.2, 0.2),
        (8.0, edge, 24.2, 0.2),
        (-4.1, 0.0, 0.2, 2.0 * edge),
        (20.1, 0.0, 0.2, 2.0 * edge),
    )
    walls = tuple(
        Box(f"wall_{i}", (x, y, 1.0), (sx, sy, 2.0)) for i, (x, y, sx, sy) in enumerate(sides)
    )
    interior = (-4.0, -half, 20.0, half)
    return World("hall", 0, (*walls, *boxes), (floor,), (), interior, people=people)


def door_world(width: float, angle: float, offset: float) -> World:
    """Return a hall with a wall across the way, a door in it: `angle` [rad] of the wall, `offset` [m] of the door."""
    cos, sin = math.cos(angle), math.sin(angle)
    boxes = []
    for name, side in (("left", 1.0), ("right", -1.0)):
        half = 9.0
        along = side * (width / 2.0 + half) + offset
        center = (3.0 - sin * along, cos * along, 1.0)
        boxes.append(Box(f"door_{name}", center, (0.2, 2.0 * half, 2.0), yaw=angle))
    return open_world(tuple(boxes), half=4.0)


def run_doors(
    config: RhinoConfig, tell: Callable[[str], None]
) -> list[tuple[float, float, float, Result]]:
    """Drive through doors of 0.8 m and at gaps of 0.55 m, at several angles and offsets."""
    router = make_router(config)
    results = []
    for width in (0.8, 0.55):
        for angle in (0.0, math.pi / 8, math.pi / 4):
            for offset in (0.0, 0.013, 0.025):
                world = door_world(width, angle, offset)
                drawn = dataclasses.replace(config.mujoco, seed=int(1000 * (angle + offset)) + 7)
                robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
                navigator, judge = Navigator(robot, router), Judge(robot, world)
                wait_for_map(robot)
                goal = (6.0, 0.0)
                if width < 0.6:
                    judge.costmap = np.zeros_like(judge.costmap)
                result = judge_drive(navigator, judge, goal, seed=0, world=world)
                results.append((width, angle, offset, result))
                good = result.success == (width > 0.6)
                verdict = "right" if good else "WRONG"
                place = f"{width:.2f} m at {math.degrees(angle):.0f} deg, {offset:.3f} m off"
                tell(f"{place}: {verdict} {line(result)}")
    return results


def crossing_world(seed: int) -> World:
    """Return a hall in which three people walk to and fro across the robot's way."""
    rng = np.random.default_rng([seed, 23])
    walks = []
    for x in (3.0, 6.0, 9.0):
        at = x + float(rng.uniform(-0.8, 0.8))
        far = float(rng.uniform(2.0, 4.0))
        side = float(rng.choice((-1.0, 1.0)))
        lean = float(rng.uniform(-0.8, 0.8))
        walks.append(
            Walk(((at, side * far), (at + lean, -side * far)), speed=float(rng.uniform(0.6, 1.2)))
        )
    return open_world(people=tuple(walks))


def run_crossings(
    config: RhinoConfig, count: int, tell: Callable[[str], None]
) -> tuple[int, list[Result]]:
    """Drive `count` times through crossing people; return the crossings within 2.5 m of the robot, and the drives."""
    router = make_router(config)
    results, crossings = [], 0
    for seed in range(count):
        world = crossing_world(seed)
        drawn = dataclasses.replace(config.mujoco, seed=seed)
        robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
        navigator, judge = Navigator(robot, router), Judge(robot, world)
        wait_for_map(robot, 2.5 + 0.37 * (seed % 7))
        count_crossings = watch_crossings(judge)
        result = judge_drive(navigator, judge, (12.0, 0.0), seed=seed, world=world)
        found = count_crossings()
        crossings += found
        results.append(result)
        tell(f"{found} crossings, nearest {result.people:.2f} m {line(result)}")
    return crossings, results


def watch_crossings(judge: Judge) -> Callable[[], int]:
    """Have the judge count who crosses the robot's course within 2.5 m, and return what tells the count."""
    robot, step = judge.robot, judge.step
    sides: dict[int, float] = {}
    found = 0

    def watch() -> None:
        nonlocal found
        step()
        pose = robot.sim.pose
        for index, (x, y, _) in enumerate(robot.sim.truth(0.0).people):
            _, across, _ = compose(inverse(pose.as_tuple()), (x, y, 0.0))
            near = math.dist((x, y), (pose.x, pose.y)) < 2.5
            found += near and sides.get(index, across) * across < 0.0
            sides[index] = across

    judge.step = watch  # type: ignore[method-assign]
    return lambda: found


def put_person_ahead(judge: Judge, *, at: float, off: float) -> None:
    """Have the world's one person stand 1.5 m before the robot's nose as soon as it passes x = `at` [m].

    Args:
        judge: whose `step` is called each tick.
        at: [m] in the world.
        off: [m] of the person to the left of the robot's course.
    """
    robot, step = judge.robot, judge.step
    done = False

    def watch() -> None:
        nonlocal done
        step()
        pose = robot.sim.pose
        if not done and pose.x >= at:
            done = True
            ahead = robot.config.robot.length / 2.0 + 1.5 + PERSON_RADIUS
            x, y, _ = compose(pose.as_tuple(), (ahead, off, 0.0))
            robot.sim.put_person(0, x, y)

    judge.step = watch  # type: ignore[method-assign]


def run_drops(config: RhinoConfig, count: int, tell: Callable[[str], None]) -> list[Result]:
    """Put a person 1.5 m ahead of the robot in full drive, `count` times, and see whether it touches him."""
    router = make_router(config)
    results = []
    for seed in range(count):
        world = open_world(people=(Walk(((18.0, 7.0), (18.0, 7.1)), speed=1e-6),))
        drawn = dataclasses.replace(config.mujoco, seed=seed)
        robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
        navigator, judge = Navigator(robot, router), Judge(robot, world)
        wait_for_map(robot)
        put_person_ahead(judge, at=2.0 + 0.1 * (seed % 10), off=0.12 * math.sin(seed))
        result = judge_drive(navigator, judge, (9.0, 0.0), seed=seed, world=world)
        results.append(result)
        tell(f"nearest {result.people:.2f} m {line(result)}")
    return results


def _grown(blocked: NDArray[np.bool_], radius: float) -> NDArray[np.bool_]:
    grid = np.where(blocked, OCCUPIED, FREE).astype(np.int8)
    costs = inflate(
        grid,
        resolution=1.0,
        inscribed_radius=radius,
        inflation_radius=radius,
        cost_scaling_factor=1.0,
    )
    grown: NDArray[np.bool_] = costs >= 253
    return grown


def _nearest(costmap: NDArray[np.uint8], cell: tuple[int, int]) -> tuple[int, int]:
    """Return the free cell nearest to a cell."""
    if costmap[cell] == 0:
        return cell
    cells = np.argwhere(costmap == 0)
    best = cells[int(np.argmin(((cells - cell) ** 2).sum(axis=1)))]
    return int(best[0]), int(best[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scene", default="worlds", choices=("worlds", "doors", "crossings", "drop")
    )
    parser.add_argument(
        "--world", action="append", help="name, or path of a ROS map; may be repeated"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--goals", type=int, default=5, help="goals of a world, or runs of a scene")
    parser.add_argument(
        "--chain", type=int, default=1, help="goals that one robot drives to in a row"
    )
    parser.add_argument("--known", action="store_true", help="with the map of a tour")
    parser.add_argument("--cache", type=Path, help="folder in which the maps of tours are kept")
    parser.add_argument("--body", default="walking", choices=("walking", "kinematic"))
    parser.add_argument("--lidar", default="l1", choices=("l1", "scan", "ideal"))
    parser.add_argument("--drift", default="default", choices=("off", "default", "harsh"))
    parser.add_argument("--no-people", action="store_true")
    parser.add_argument(
        "--set", action="append", default=[], help="section.key=value of the configuration"
    )
    parser.add_argument("--events", action="store_true", help="print what happened to each goal")
    arguments = parser.parse_args()
    config = make_config(body=arguments.body, lidar=arguments.lidar, drift=arguments.drift)
    for setting in arguments.set:
        config = changed(config, setting)
    make_router(config).warm_up()
    warm_up_mapping()

    def tell(result: Result) -> None:
        print(line(result), flush=True)
        if arguments.events:
            for event in result.drive.events:
                print("    ", event, flush=True)
            print("     paths:", dict(result.drive.reasons), flush=True)

    def say(text: str) -> None:
        print(text, flush=True)

    if arguments.scene == "doors":
        found = run_doors(config, say)
        print(
            f"right: {sum(r.success == (w > 0.6) and r.walls == 0 for w, _, _, r in found)} of {len(found)}"
        )
        return
    if arguments.scene == "crossings":
        crossings, results = run_crossings(config, arguments.goals, say)
        print(f"{crossings} crossings; {summary(results)}")
        return
    if arguments.scene == "drop":
        print(summary(run_drops(config, arguments.goals, say)))
        return
    print(HEADER)
    everything: list[Result] = []
    for name in arguments.world or list(WORLDS):
        results = run_world(
            name,
            arguments.goals,
            config=config,
            seed=arguments.seed,
            known=arguments.known,
            chain=arguments.chain,
            people=not arguments.no_people,
            cache=arguments.cache,
            tell=tell,
        )
        print(f"{name}: {summary(results)}", flush=True)
        everything += results
    if len(everything) > len(results):
        print(f"all: {summary(everything)}")


if __name__ == "__main__":
    main()
