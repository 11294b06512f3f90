"""Whole drives in lock-step: the actors' pieces on a walking robot with the L1 lidar and drifting odometry."""

import dataclasses
import math

import pytest

pytest.importorskip("mujoco")

from benchmarks.judge import Judge
from benchmarks.lockstep import Navigator, Robot, make_config, make_router, wait_for_map
from benchmarks.navigation import (
    Result,
    crossing_world,
    door_world,
    judge_drive,
    open_world,
    put_person_ahead,
)
from rhino_actors.config import RhinoConfig
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.drivers.mujoco.worlds.scene import Walk, World
from rhino_actors.messages.navigation import GoalRequest, NavState

pytestmark = pytest.mark.sim

CONFIG = make_config()
ROUTER = make_router(CONFIG)


class Scene:
    """A robot in a world, its planner and its judge."""

    def __init__(self, world: World, config: RhinoConfig = CONFIG, seed: int = 1) -> None:
        drawn = dataclasses.replace(config.mujoco, seed=seed)
        self.world = world
        self.robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
        self.navigator = Navigator(self.robot, ROUTER)
        self.judge = Judge(self.robot, world)
        wait_for_map(self.robot)

    def go(self, x: float, y: float) -> Result:
        return judge_drive(self.navigator, self.judge, (x, y), seed=1, world=self.world)


def is_clean(result: Result) -> bool:
    return (result.walls, result.persons, result.falls) == (0, 0, 0)


def test_goals_in_floor_that_was_never_seen_are_reached_without_a_touch() -> None:
    scene = Scene(make_world("maze", 1))
    for goal in ((3.7, 1.5), (5.9, 3.1)):
        result = scene.go(*goal)
        assert result.success and is_clean(result)
        assert result.error < 0.5
        assert result.still < 0.5, "it does not stand to think"
        assert result.drive.first_twist <= 0.5


def test_the_map_grows_behind_the_robot_while_a_goal_is_in_force_and_nothing_moves() -> None:
    scene = Scene(open_world(), make_config(drift="off"))
    assert scene.robot.mapping.snapshot is not None
    before = scene.robot.mapping.snapshot.geometry
    result = scene.go(-3.0, -6.5)
    after = scene.robot.mapping.snapshot.geometry
    assert after.origin[1] < before.origin[1]
    assert result.success and is_clean(result) and result.error < 0.3


@pytest.mark.parametrize("angle", [0.0, math.pi / 4])
@pytest.mark.parametrize(("width", "passes"), [(0.8, True), (0.55, False)])
def test_a_door_of_80_cm_is_passed_and_a_gap_of_55_cm_is_not(
    width: float, passes: bool, angle: float
) -> None:
    scene = Scene(door_world(width, angle, 0.013))
    if not passes:
        scene.judge.costmap[:] = 0
    result = scene.go(6.0, 0.0)
    assert result.success == passes
    assert is_clean(result)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_it_stops_for_what_appears_1_5_m_ahead_and_then_goes_around(seed: int) -> None:
    scene = Scene(open_world(people=(Walk(((18.0, 7.0), (18.0, 7.1)), speed=1e-6),)), seed=seed)
    put_person_ahead(scene.judge, at=2.0 + 0.1 * seed, off=0.1 * (seed - 2))
    result = scene.go(8.0, 0.0)
    assert result.success and is_clean(result)
    assert result.people > 0.55


def test_people_who_cross_its_way_are_not_touched() -> None:
    scene = Scene(crossing_world(3))
    result = scene.go(12.0, 0.0)
    assert result.success and is_clean(result)


def test_after_an_odometry_jump_it_waits_says_so_and_goes_on() -> None:
    scene = Scene(open_world(), make_config(faults="odometry_jump x=1.5 y=0.5 after=6"))
    result = scene.go(9.0, 2.0)
    assert any("ODOM_JUMP" in event for event in result.drive.events)
    assert result.success and is_clean(result)


def test_without_lidar_it_waits_says_so_and_goes_on() -> None:
    scene = Scene(open_world(), make_config(faults="drop_lidar share=1 after=6 duration=4"))
    result = scene.go(9.0, 2.0)
    assert any("STALE_LIDAR" in event for event in result.drive.events)
    assert result.success and is_clean(result)


def test_a_fall_ends_the_goal_and_nothing_goes_on_by_itself() -> None:
    scene = Scene(open_world())
    robot = scene.robot
    thrown = False

    def throw() -> None:
        nonlocal thrown
        if not thrown and robot.now > 6.0:
            robot.sim.tip_over(1.6, 0.0)
            thrown = True

    drive = scene.navigator.drive(GoalRequest(9.0, 0.0), limit=30.0, watch=throw)
    assert (drive.state, drive.reason) == (NavState.CANCELLED, "FALLEN")
    for _ in range(100):
        robot.step()
        assert robot.twist.is_zero


def test_a_robot_that_is_held_recovers_a_few_times_and_then_says_that_it_gets_nowhere() -> None:
    scene = Scene(open_world())
    robot = scene.robot
    held: list[float] = []

    def hold() -> None:
        if robot.sim.pose.x > 1.0:
            robot.sim.data.qpos[0] = 1.0
            held.append(robot.now)

    posted = robot.now
    drive = scene.navigator.drive(GoalRequest(9.0, 0.0), limit=120.0, watch=hold)
    assert (drive.state, drive.reason) == (NavState.FAILED, "FAILED_TO_MAKE_PROGRESS")
    assert drive.recoveries == CONFIG.planner.max_recoveries
    first = next(event for event in drive.events if "STUCK" in event)
    waited = float(first.split(" ")[0]) - (held[0] - posted)
    assert 3.0 <= waited <= 9.0
