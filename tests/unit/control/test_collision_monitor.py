"""The monitor between a twist and points in odom: what is left of the twist."""

import dataclasses
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.config import CollisionConfig, RobotConfig
from rhino_actors.control.collision_monitor import CollisionMonitor
from rhino_actors.geometry import compose, transform_points
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.sensors import LidarFrame, LidarKind

CONFIG = CollisionConfig()
ROBOT = RobotConfig()
HERE = Pose2D(0.0, 0.0, 0.0)
NOSE = ROBOT.length / 2
SIDE = ROBOT.width / 2
AHEAD = Twist2D(0.6)
BACK = Twist2D(-0.3)


def frame(points: NDArray[np.floating], pose: Pose2D = HERE) -> LidarFrame:
    cloud = np.asarray(points, dtype=np.float32)
    cloud.setflags(write=False)
    return LidarFrame(1, 0.0, cloud, (pose.x, pose.y, 0.3), pose, 0.0, LidarKind.SCAN)


def wall(x: float, low: float = -1.0, high: float = 1.0, z: float = 0.3) -> NDArray[np.float64]:
    y = np.arange(low, high, 0.02)
    return np.column_stack([np.full_like(y, x), y, np.full_like(y, z)])


def side_wall(y: float, noise: float = 0.0) -> NDArray[np.float64]:
    x = np.arange(-2.0, 2.0, 0.02)
    off = np.random.default_rng(1).normal(0.0, noise, len(x)) if noise else 0.0
    return np.column_stack([x, y + off, np.full_like(x, 0.3)])


def monitor(points: NDArray[np.floating], **config: object) -> CollisionMonitor:
    watch = CollisionMonitor(dataclasses.replace(CONFIG, **config), ROBOT)  # type: ignore[arg-type]
    watch.update(frame(points))
    return watch


def speed(twist: Twist2D) -> float:
    return math.hypot(twist.vx, twist.vy) + abs(twist.omega)


def test_nothing_in_the_way_leaves_the_twist_as_it_is() -> None:
    assert monitor(wall(2.5)).limit(AHEAD, HERE).twist == AHEAD
    assert monitor(np.zeros((0, 3))).limit(AHEAD, HERE).twist == AHEAD


def test_a_wall_within_the_margin_ahead_stops_it_and_says_where() -> None:
    limited = monitor(wall(NOSE + 0.08)).limit(AHEAD, HERE)
    assert limited.blocked
    assert limited.twist == Twist2D()
    assert limited.where == pytest.approx((NOSE + 0.08, 0.0), abs=0.05)


def test_the_nearer_the_wall_the_slower() -> None:
    speeds = [
        monitor(wall(NOSE + gap)).limit(AHEAD, HERE).twist.vx
        for gap in (0.05, 0.15, 0.2, 0.3, 0.4, 0.5, 1.5)
    ]
    assert speeds == sorted(speeds)
    assert speeds[0] == 0.0 and speeds[-1] == AHEAD.vx
    assert 0.0 < speeds[3] < AHEAD.vx


@pytest.mark.parametrize("start", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("twist", [AHEAD, Twist2D(1.0), Twist2D(0.5, 0.0, 0.3), Twist2D(0.3, 0.3)])
def test_driving_on_never_touches_the_wall_with_old_frames_and_soft_brakes(
    twist: Twist2D, start: float
) -> None:
    watch = monitor(wall(2.0, -3.0, 3.0))
    pose, dt = Pose2D(start, 0.0, 0.0), 0.05
    applied = 0.0
    for _ in range(400):
        limited = watch.limit(twist, pose).twist
        share = speed(limited) / speed(twist)
        # The robot brakes no faster than the monitor assumes.
        applied = max(share, applied - CONFIG.deceleration / speed(twist) * dt)
        moved = (twist.vx * applied * dt, twist.vy * applied * dt, twist.omega * applied * dt)
        pose = Pose2D(*compose(pose.as_tuple(), moved))
        corners = transform_points(
            pose.as_tuple(), [[a * NOSE, b * SIDE] for a in (-1, 1) for b in (-1, 1)]
        )
        assert corners[:, 0].max() < 2.0


def test_backing_out_is_free_however_near_the_wall_is() -> None:
    for gap in (-0.015, 0.0, 0.005, 0.02, 0.09):
        watch = monitor(wall(NOSE + gap))
        assert watch.limit(AHEAD, HERE).blocked
        assert watch.limit(BACK, HERE).twist == BACK


@pytest.mark.parametrize("gap", [-0.005, 0.0, 0.01, 0.03, 0.05])
def test_a_wall_along_the_side_does_not_trap_it(gap: float) -> None:
    watch = monitor(side_wall(SIDE + gap, noise=0.004))
    assert not watch.limit(Twist2D(0.3), HERE).blocked
    assert not watch.limit(BACK, HERE).blocked
    assert watch.limit(Twist2D(0.0, -0.2), HERE).twist == Twist2D(0.0, -0.2)
    assert watch.limit(Twist2D(0.0, 0.2), HERE).blocked


def test_something_behind_stops_it_backwards_and_not_forwards() -> None:
    watch = monitor(wall(-NOSE - 0.05))
    assert watch.limit(BACK, HERE).blocked
    assert watch.limit(AHEAD, HERE).twist == AHEAD


def test_turning_sweeps_its_corners() -> None:
    beside = np.array([[0.30, 0.24, 0.3], [0.31, 0.24, 0.3]])  # left of the nose
    watch = monitor(beside)
    assert watch.limit(Twist2D(omega=0.8), HERE).blocked
    assert watch.limit(Twist2D(omega=-0.8), HERE).twist == Twist2D(omega=-0.8)
    assert watch.limit(Twist2D(0.3), HERE).twist == Twist2D(0.3)


def test_turning_in_open_floor_is_free() -> None:
    corner = math.hypot(NOSE, SIDE)
    angles = np.linspace(-math.pi, math.pi, 200)
    ring = np.column_stack(
        [(corner + 0.05) * np.cos(angles), (corner + 0.05) * np.sin(angles), np.full(200, 0.3)]
    )
    assert monitor(ring).limit(Twist2D(omega=1.0), HERE).twist == Twist2D(omega=1.0)


def test_a_doorway_of_0_9_m_is_passed() -> None:
    y = np.concatenate([np.arange(-2, -0.45, 0.02), np.arange(0.45, 2, 0.02)])
    jambs = np.concatenate(
        [np.column_stack([np.full_like(y, x), y, np.full_like(y, 0.3)]) for x in (1.0, 1.15)]
    )
    watch = monitor(jambs)
    for x in np.arange(0.0, 1.6, 0.05):
        assert not watch.limit(AHEAD, Pose2D(float(x), 0.05, 0.05)).blocked


def test_the_robots_pose_now_counts_not_that_of_the_frame() -> None:
    watch = monitor(wall(2.0))
    assert watch.limit(AHEAD, HERE).twist == AHEAD
    assert watch.limit(AHEAD, Pose2D(2.0 - NOSE - 0.05, 0.0, 0.0)).blocked
    assert watch.limit(AHEAD, Pose2D(2.0 - NOSE - 0.05, 0.0, math.pi)).twist == AHEAD


@pytest.mark.parametrize("z", [-0.05, 0.0, 0.05, 0.7, 2.0])
def test_the_floor_and_what_it_passes_under_are_no_obstacles(z: float) -> None:
    assert monitor(wall(NOSE + 0.05, z=z)).limit(AHEAD, HERE).twist == AHEAD


def test_the_robot_does_not_stop_for_itself() -> None:
    deep = 0.025  # what touches the body from outside is no part of it
    x, y = np.meshgrid(
        np.linspace(deep - NOSE, NOSE - deep, 9), np.linspace(deep - SIDE, SIDE - deep, 9)
    )
    body = np.column_stack([x.ravel(), y.ravel(), np.full(81, 0.3)])
    for twist in (AHEAD, BACK, Twist2D(omega=1.0), Twist2D(0.0, 0.3)):
        assert monitor(body).limit(twist, HERE).twist == twist


def test_one_stray_point_is_no_obstacle_and_invalid_points_do_no_harm() -> None:
    points = np.array([[NOSE + 0.05, 0.0, 0.3], [math.nan] * 3, [math.inf, 0.0, 0.3]])
    assert monitor(points).limit(AHEAD, HERE).twist == AHEAD
    assert monitor(points, min_points=1).limit(AHEAD, HERE).blocked


def test_it_can_be_turned_off() -> None:
    assert monitor(wall(NOSE + 0.05), enabled=False).limit(AHEAD, HERE).twist == AHEAD


def test_slowing_keeps_the_arc() -> None:
    arc = Twist2D(0.6, 0.0, 0.4)
    slower = monitor(wall(NOSE + 0.3)).limit(arc, HERE).twist
    assert 0.0 < slower.vx < arc.vx
    assert slower.omega / slower.vx == pytest.approx(arc.omega / arc.vx)


def test_clearance_is_the_distance_from_the_body_s_rectangle() -> None:
    rng = np.random.default_rng(9)
    for _ in range(50):
        pose = Pose2D(*rng.uniform(-1.0, 1.0, 2), float(rng.uniform(-3.0, 3.0)))
        x, y = rng.uniform(-1.3, 1.3, 2)
        gap = math.hypot(max(abs(x) - NOSE, 0.0), max(abs(y) - SIDE, 0.0))
        if gap < 0.01:
            continue
        seen = transform_points(pose.as_tuple(), [[x, y, 0.3], [x, y, 0.4]])
        assert monitor(seen).clearance(pose) == pytest.approx(gap, abs=1e-5)


def test_one_stray_point_and_the_robot_itself_take_no_clearance() -> None:
    body = [[0.1, 0.05, 0.3], [-0.2, 0.0, 0.3]]
    assert monitor(np.array([*body, [1.0, 0.0, 0.3]])).clearance(HERE) == math.inf
    assert monitor(np.zeros((0, 3))).clearance(HERE) == math.inf
    twice = np.array([*body, [1.0, 0.0, 0.3], [0.0, 0.7, 0.3]])
    assert monitor(twice).clearance(HERE) == pytest.approx(1.0 - NOSE)
