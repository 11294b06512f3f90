"""Loops in lock-step: a robot that drifts goes round again, the map closes, odometry goes on, the path is sent anew."""

import dataclasses
import math

import pytest

pytest.importorskip("mujoco")

from benchmarks.lockstep import Navigator, Robot, make_config, make_router, wait_for_map
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.mapping.loop_closure import LoopOptions
from rhino_actors.mapping.loop_mapping import LoopMapping
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.localisation import DriftMode
from rhino_actors.messages.navigation import GoalRequest, NavState
from tests.unit.mapping.lookalike import WORLDS, drive

pytestmark = [pytest.mark.sim, pytest.mark.timeout(600)]

GOALS = ((5.9, 3.1), (0.2, 0.0), (5.9, 3.1), (0.2, 0.0))


def test_a_loop_closes_under_way_and_the_path_is_sent_anew() -> None:
    config = make_config("maze", body="kinematic", drift="harsh", seed=3)
    mapper = dataclasses.replace(config.mapper, drift_correction=DriftMode.LOOPS)
    config = dataclasses.replace(config, mapper=mapper)
    robot = Robot(make_world("maze", 1, people=False), config)
    robot.mapping.loops = loops = LoopMapping(
        config.mapper, config.robot, options=LoopOptions(old_way=8.0, min_shift=(0.03, 0.01))
    )
    wait_for_map(robot)
    navigator = Navigator(robot, make_router(config))
    steps: list[float] = []
    moved: list[
        float
    ] = []  # [s] when the map moved under the robot by more than a path is sent for
    answered: list[float] = []  # [s] after which the path was sent with the new correction
    errors: list[tuple[float, float]] = []  # [m] of the robot's place on the map, before and after
    last, correction = robot.pose, robot.mapping.map_from_odom

    def watch() -> None:
        nonlocal last, correction
        steps.append(robot.pose.distance_to(last.x, last.y))
        last = robot.pose
        now = robot.mapping.map_from_odom
        if now != correction:
            before, after = (_place(c, robot.pose) for c in (correction, now))
            if math.dist(before, after) > 0.04:
                moved.append(robot.now)
                true = robot.sim.pose
                errors.append((true.distance_to(*before), true.distance_to(*after)))
            correction = now
        if len(answered) < len(moved) and navigator._sent_with == now:
            answered.append(robot.now - moved[-1])

    for goal in GOALS:
        record = navigator.drive(GoalRequest(*goal), limit=60.0, watch=watch)
        assert record.state is NavState.ARRIVED
    assert loops.redraws >= 1 and loops.loops.refused == 0
    assert max(steps) < 0.05, "odometry never jumps"
    assert moved and answered and max(answered) <= 1.0 / config.planner.tick_hz + 0.1
    before, after = errors[0]
    assert after < before, errors


def _place(correction: Pose2D, pose: Pose2D) -> tuple[float, float]:
    cos, sin = math.cos(correction.yaw), math.sin(correction.yaw)
    return (
        correction.x + cos * pose.x - sin * pose.y,
        correction.y + sin * pose.x + cos * pose.y,
    )


@pytest.mark.parametrize("name", WORLDS)
def test_what_only_looks_like_a_place_seen_before_is_not_believed(name: str) -> None:
    found = drive(WORLDS[name](), 0)
    assert found.wrong == 0 and found.believed >= 1
    assert found.map < 0.3 < found.odometry
