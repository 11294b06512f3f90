"""Driving among obstacles, with the real follower and monitor and an ideal robot."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.config import CollisionConfig, FollowerConfig, RobotConfig
from rhino_actors.control.collision_monitor import CollisionMonitor
from rhino_actors.control.driving import DriveStep, PathDriving
from rhino_actors.control.path_follower import PathFollower
from rhino_actors.geometry import compose
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.sensors import LidarFrame, LidarKind

FOLLOWER = FollowerConfig()
COLLISION = CollisionConfig()
ROBOT = RobotConfig()
HERE = Pose2D(0.0, 0.0, 0.0)
NOSE = ROBOT.length / 2
SIDE = ROBOT.width / 2
DT = 0.05
NEAR = FOLLOWER.goal_tolerance + COLLISION.stop_margin


def points(*xy: tuple[float, float]) -> NDArray[np.float32]:
    """Each as a small post that the monitor takes for an obstacle."""
    posts = [(x + dx, y, 0.3) for x, y in xy for dx in (-0.005, 0.0, 0.005)]
    return np.array(posts, dtype=np.float32).reshape(-1, 3)


# Left and right of the nose: turning either way would sweep a corner into one of them.
NARROW = points(
    (0.30, SIDE + 0.06), (0.30, -SIDE - 0.06), (-0.30, SIDE + 0.06), (-0.30, -SIDE - 0.06)
)
BEHIND = points((-NOSE - 0.05, 0.0))
AHEAD = points((NOSE + 0.05, 0.0))


class Scene:
    """A robot whose lidar sees what the test shows it."""

    def __init__(self, *seen: NDArray[np.float32]) -> None:
        self.monitor = CollisionMonitor(COLLISION, ROBOT)
        self.driving = PathDriving(PathFollower(FOLLOWER), self.monitor, accept_within=NEAR)
        self.show(*seen)

    def show(self, *seen: NDArray[np.float32]) -> None:
        cloud = np.concatenate([np.zeros((0, 3), np.float32), *seen])
        self.monitor.update(LidarFrame(1, 0.0, cloud, (0.0, 0.0, 0.3), HERE, 0.0, LidarKind.SCAN))

    def go(self, *xy: tuple[float, float], final_yaw: float | None = None) -> None:
        self.driving.set_path(np.array([(x, y, 0.0) for x, y in xy]), final_yaw)

    def step(self, pose: Pose2D = HERE, speed: float = 0.0) -> DriveStep:
        return self.driving.step(pose, speed=speed, dt=DT)

    def run(self, seconds: float) -> tuple[list[DriveStep], Pose2D]:
        """Drive from HERE until it arrives; return the steps and where the robot is then."""
        pose, steps = HERE, [self.step()]
        while not steps[-1].arrived and len(steps) < seconds / DT:
            twist = steps[-1].twist
            moved = (twist.vx * DT, twist.vy * DT, twist.omega * DT)
            pose = Pose2D(*compose(pose.as_tuple(), moved))
            steps.append(self.step(pose, twist.vx))
        return steps, pose


def test_in_the_open_it_follows_the_path() -> None:
    scene = Scene()
    scene.go((0.0, 0.0), (2.0, 0.0))
    step = scene.step()
    assert step.twist.vx > 0.0 and step.obstacle == "" and not step.arrived
    assert step.distance_remaining == pytest.approx(2.0)
    steps, end = scene.run(20.0)
    assert steps[-1].arrived and steps[-1].twist == Twist2D()
    assert end.distance_to(2.0, 0.0) <= FOLLOWER.goal_tolerance


def test_where_it_cannot_turn_it_goes_on_without_turning_and_then_turns() -> None:
    scene = Scene(NARROW)
    scene.go((0.0, 0.0), (-3.0, 0.0))
    steps, end = scene.run(30.0)
    assert steps[0].twist.vx < 0.0 and steps[0].twist.omega == 0.0
    assert any(step.twist.omega != 0.0 for step in steps), "it turned once it was out"
    assert steps[-1].arrived
    assert end.distance_to(-3.0, 0.0) <= FOLLOWER.goal_tolerance


def test_where_it_can_neither_turn_nor_go_on_something_is_in_the_way() -> None:
    scene = Scene(NARROW, BEHIND)
    scene.go((0.0, 0.0), (-3.0, 0.0))
    for _ in range(5):
        step = scene.step()
        assert step.twist == Twist2D()
        assert step.obstacle.startswith("Something is in the way at x ")


def test_a_blocked_way_on_does_not_keep_it_from_turning_once_there_is_room() -> None:
    scene = Scene(NARROW, BEHIND)
    scene.go((0.0, 0.0), (-3.0, 0.0))
    scene.step()
    scene.show(BEHIND)
    step = scene.step()
    assert step.twist.omega != 0.0 and step.twist.vx == 0.0 and step.obstacle == ""


def test_a_way_on_that_gets_blocked_under_way_lets_it_turn_again() -> None:
    scene = Scene(NARROW)
    scene.go((0.0, 0.0), (-3.0, 0.0))
    assert scene.step().twist.vx < 0.0
    scene.show(BEHIND)  # and there is room to turn now
    assert scene.step().twist.vx == 0.0
    assert scene.step().twist.omega != 0.0


def test_an_obstacle_right_behind_the_goal_makes_the_place_before_it_the_goal() -> None:
    scene = Scene(AHEAD)
    scene.go((-1.0, 0.0), (NEAR - 0.02, 0.0))
    first = scene.step()
    assert (first.twist, first.obstacle) == (Twist2D(), "")
    assert scene.step().arrived


def test_an_obstacle_before_a_goal_farther_away_stops_it() -> None:
    scene = Scene(AHEAD)
    scene.go((-1.0, 0.0), (2.0, 0.0))
    step = scene.step()
    assert step.twist == Twist2D() and step.obstacle and not step.arrived


def test_without_a_path_there_is_no_step() -> None:
    scene = Scene()
    scene.go((0.0, 0.0), (2.0, 0.0))
    scene.driving.clear()
    with pytest.raises(ValueError):
        scene.step()


def test_it_turns_to_the_final_yaw() -> None:
    scene = Scene()
    scene.go((-1.0, 0.0), (0.0, 0.0), final_yaw=math.pi / 2)
    assert scene.step().twist.omega > 0.0


def test_between_two_walls_it_drives_slower_than_in_the_open() -> None:
    x = np.arange(-1.0, 4.0, 0.03)
    speeds = []
    for gap in (0.05, 1.5):
        sides = np.concatenate(
            [np.column_stack([x, np.full_like(x, s * (SIDE + gap))]) for s in (-1, 1)]
        )
        scene = Scene(points(*map(tuple, sides.tolist())))
        scene.go((0.0, 0.0), (2.9, 0.0))
        steps, _ = scene.run(20.0)
        assert steps[-1].arrived
        speeds.append(max(step.twist.vx for step in steps))
    assert speeds[0] < 0.8 * speeds[1]
