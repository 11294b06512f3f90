"""The walking Go2: it follows commands, keeps its feet, does its figures, falls and gets up, the same every time."""

import asyncio
import hashlib
import math
import subprocess
import sys
import time

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from rhino_actors.config import GateConfig, RobotConfig  # noqa: E402
from rhino_actors.drivers.mujoco.locomotion import WalkingRobot  # noqa: E402
from rhino_actors.drivers.mujoco.platform import MujocoPlatform  # noqa: E402
from rhino_actors.drivers.mujoco.posture import (  # noqa: E402
    CODE_NOT_OFFERED,
    CODE_WRONG_POSTURE,
    PERFORMANCES,
)
from rhino_actors.drivers.mujoco.simulation import Simulation  # noqa: E402
from rhino_actors.drivers.mujoco.walking_model import compile_walking_model  # noqa: E402
from rhino_actors.drivers.mujoco.worlds import make_world  # noqa: E402
from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, World  # noqa: E402
from rhino_actors.drivers.platform import ACROBATICS, SPORT_COMMANDS  # noqa: E402
from rhino_actors.errors import InvalidRequest  # noqa: E402
from rhino_actors.messages.geometry import Twist2D  # noqa: E402
from rhino_actors.messages.platform import Posture  # noqa: E402
from tests.simulations import plain_simulation  # noqa: E402

pytestmark = pytest.mark.sim

STILL = Twist2D()
FLOOR = Material("floor", "", (0.5, 0.5, 0.5))


def robot(*boxes: Box, fast: bool = True) -> WalkingRobot:
    world = World("test", 0, boxes, (FLOOR,), (), (-20.0, -20.0, 20.0, 20.0))
    made = WalkingRobot(compile_walking_model(world, plain_simulation(fast=fast)))
    walk(made, STILL, 0.5)
    return made


def walk(robot: WalkingRobot, twist: Twist2D, seconds: float) -> np.ndarray:
    """Walk and return what was done (n, 3), every 20 ms."""
    done = []
    steps = round(0.02 / robot.model.opt.timestep)
    for _ in range(round(seconds / 0.02)):
        robot.advance(twist, steps)
        now = robot.twist
        done.append((now.vx, now.vy, now.omega))
    return np.array(done)


def settled(robot: WalkingRobot, seconds: float = 20.0) -> WalkingRobot:
    began = robot.time
    while robot.posture is Posture.CHANGING and robot.time - began < seconds:
        walk(robot, STILL, 0.1)
    return robot


def after(*commands: str) -> WalkingRobot:
    made = robot()
    for command in commands:
        assert made.command(command).accepted, command
        settled(made)
        walk(made, STILL, 2.0)
    return made


def test_a_standing_robot_does_not_move() -> None:
    made = robot()
    walk(made, STILL, 2.0)
    before = made.position
    walk(made, STILL, 5.0)
    assert made.position == pytest.approx(before, abs=1e-3)
    assert made.tilt < 0.01
    assert made.foot_forces.sum() == pytest.approx(15.02 * 9.81, rel=0.02)


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "command",
    [(0.6, 0.0, 0.0), (-0.4, 0.0, 0.0), (0.0, 0.4, 0.0), (0.0, 0.0, 1.5), (0.8, 0.0, 1.0)],
)
def test_it_walks_as_it_is_told(command: tuple[float, float, float], fast: bool) -> None:
    done = walk(robot(fast=fast), Twist2D(*command), 7.0)[150:]
    assert done.mean(0) == pytest.approx(command, abs=0.02)
    assert done[:, 2].std() < 0.15


def test_it_speeds_up_and_stops_within_its_figures() -> None:
    made = robot(fast=False)
    done = walk(made, Twist2D(vx=1.0), 4.0)[:, 0]
    assert np.argmax(done >= 0.9) * 0.02 <= 0.65
    assert done.max() <= 1.2
    start = made.pose.x
    walk(made, STILL, 1.5)
    assert made.pose.x - start <= 0.25
    assert np.abs(walk(made, STILL, 1.0)).max() < 0.01


def test_pushes_do_not_throw_it_over() -> None:
    rng = np.random.default_rng(1)
    made = robot()
    for _ in range(24):
        angle = rng.uniform(0.0, math.tau)
        made.push(20.0 * math.cos(angle), 20.0 * math.sin(angle))
        walk(made, Twist2D(*(rng.uniform(-1.0, 1.0, 3) * (0.7, 0.4, 1.2))), 2.0)
        assert made.posture is Posture.STANDING


def test_a_wall_holds_it_and_leaves_nothing_behind() -> None:
    made = robot(Box("wall", (1.2, 0.0, 0.5), (0.2, 6.0, 1.0)))
    walk(made, Twist2D(vx=0.5), 10.0)
    assert made.posture is Posture.STANDING
    assert made.pose.x < 0.9
    # No trim was wound up: away from the wall it walks as fast as told.
    walk(made, Twist2D(vx=-0.3), 1.5)
    assert walk(made, Twist2D(vx=-0.3), 2.0)[:, 0].mean() == pytest.approx(-0.3, abs=0.05)


@pytest.mark.parametrize("height", [0.02, 0.04])
def test_it_climbs_a_small_step(height: float) -> None:
    made = robot(Box("step", (4.0, 0.0, height / 2), (6.0, 6.0, height)))
    ground = made.position[2]
    walk(made, Twist2D(vx=0.4), 6.0)
    assert made.posture is Posture.STANDING
    assert made.pose.x > 1.5
    assert made.position[2] - ground == pytest.approx(height, abs=0.03)


@pytest.mark.parametrize(
    ("commands", "posture", "height"),
    [
        (["StandDown"], Posture.LYING, 0.07),
        (["StandDown", "StandUp"], Posture.STANDING, 0.33),
        (["Sit"], Posture.SITTING, 0.20),
        (["Sit", "RiseSit"], Posture.STANDING, 0.33),
        (["Damp"], Posture.DAMPED, 0.07),
        (["Damp", "StandUp"], Posture.STANDING, 0.33),
        (["StandDown", "RecoveryStand"], Posture.STANDING, 0.33),
        (["BalanceStand"], Posture.STANDING, 0.33),
        (["StopMove"], Posture.STANDING, 0.33),
    ],
)
def test_commands_lead_to_their_posture(
    commands: list[str], posture: Posture, height: float
) -> None:
    made = after(*commands)
    assert made.posture is posture
    assert made.position[2] == pytest.approx(height, abs=0.02)
    assert np.abs(made.data.qvel).max() < 0.05


@pytest.mark.parametrize("name", sorted(PERFORMANCES))
def test_a_figure_moves_it_and_ends_where_it_began(name: str) -> None:
    made = robot()
    start = made.pose
    assert made.command(name).accepted
    assert made.posture is Posture.CHANGING
    tilt = 0.0
    while made.posture is Posture.CHANGING and made.time < 30.0:
        walk(made, Twist2D(vx=0.5), 0.1)  # not obeyed
        tilt = max(tilt, made.tilt)
    assert made.posture is Posture.STANDING
    assert tilt > 0.08
    assert math.hypot(made.pose.x - start.x, made.pose.y - start.y) < 0.05
    assert walk(made, Twist2D(vx=0.5), 4.0)[100:, 0].mean() == pytest.approx(0.5, abs=0.05)


def test_hello_raises_the_right_paw() -> None:
    made = robot()
    made.command("Hello")
    walk(made, STILL, 3.0)
    feet = {name: made.data.geom(f"{name}_foot").xpos[2] for name in ("FR", "FL", "RR", "RL")}
    assert feet["FR"] > 0.3
    assert max(feet["FL"], feet["RR"], feet["RL"]) < 0.05


@pytest.mark.parametrize("posture", ["StandDown", "Sit", "Damp"])
def test_velocity_counts_only_standing(posture: str) -> None:
    made = after(posture)
    before = made.pose
    walk(made, Twist2D(vx=0.8), 2.0)
    assert math.hypot(made.pose.x - before.x, made.pose.y - before.y) < 0.01


@pytest.mark.parametrize("name", sorted(ACROBATICS))
def test_flips_and_jumps_are_refused_with_code_and_sentence(name: str) -> None:
    made = robot()
    answer = made.command(name)
    assert not answer.accepted and answer.code != 0 and answer.message.endswith(".")
    assert made.takes_velocity


def test_stop_move_cuts_a_figure_short() -> None:
    for name in PERFORMANCES:
        made = robot()
        made.command(name)
        walk(made, STILL, 2.2)
        assert made.command("StopMove").accepted
        walk(made, STILL, 2.0)
        assert made.posture is Posture.STANDING, name
        assert made.tilt < 0.05


def test_an_attitude_is_held_until_it_walks() -> None:
    made = robot()
    wanted = {"roll": 0.2, "pitch": -0.1, "yaw": 0.25, "height": -0.06}
    answer = made.command("Pose", wanted)
    assert answer.accepted and answer.parameters == wanted
    assert made.takes_velocity
    height = made.position[2]
    walk(made, STILL, 4.0)
    assert made.roll_pitch_yaw == pytest.approx((0.2, -0.1, 0.25), abs=0.03)
    assert made.position[2] - height == pytest.approx(-0.06, abs=0.02)
    assert walk(made, Twist2D(vx=0.5), 4.0)[100:, 0].mean() == pytest.approx(0.5, abs=0.05)
    assert made.tilt < 0.1
    assert made.command("Euler", {"roll": 0.1}).accepted
    assert walk(made, STILL, 1.0) is not None and made.roll_pitch_yaw[0] == pytest.approx(
        0.1, abs=0.03
    )
    refused = after("StandDown").command("Euler", {"roll": 0.1})
    assert (
        not refused.accepted
        and refused.code == CODE_WRONG_POSTURE
        and "standing" in refused.message
    )


@pytest.mark.parametrize("ends", ["StopMove", "BalanceStand", "StandUp", "Dance1"])
def test_a_pose_at_the_limits_is_held_and_another_command_ends_it(ends: str) -> None:
    made = robot()
    gate = GateConfig()
    made.command("Pose", {"roll": gate.pose_tilt, "pitch": -gate.pose_tilt, "yaw": gate.pose_yaw})
    walk(made, STILL, 3.0)
    assert made.posture is Posture.STANDING and made.tilt > 0.45
    tilts = []
    assert made.command(ends).accepted
    while made.time < 14.0:
        walk(made, STILL, 0.02)
        tilts.append(made.tilt)
    assert np.abs(np.diff(tilts)).max() < 0.03, "it does not jerk"
    assert made.posture is Posture.STANDING and made.tilt < 0.02


def test_a_fall_is_noticed_takes_no_velocity_and_recovery_ends_it() -> None:
    made = robot()
    made.tip_over(2.8, 0.2)
    walk(made, STILL, 2.0)
    assert made.posture is Posture.FALLEN
    assert made.tilt > 1.0
    assert not made.command("StandUp").accepted
    before = made.pose
    walk(made, Twist2D(vx=0.5), 1.0)
    assert math.hypot(made.pose.x - before.x, made.pose.y - before.y) < 0.05
    assert made.command("RecoveryStand").accepted
    began = made.time
    assert settled(made).posture is Posture.STANDING
    assert made.time - began < 8.0
    assert walk(made, Twist2D(vx=0.5), 4.0)[100:, 0].mean() == pytest.approx(0.5, abs=0.05)


def test_a_robot_thrown_off_its_feet_falls_by_itself() -> None:
    made = robot()
    made.push(0.0, 120.0)
    walk(made, STILL, 3.0)
    assert made.posture is Posture.FALLEN


def test_it_gets_up_from_any_tumble() -> None:
    rng = np.random.default_rng(2)
    for _ in range(6):
        made = robot()
        made.tip_over(rng.uniform(-math.pi, math.pi), rng.uniform(-1.0, 1.0))
        made.joints[:] = np.array([0.0, 1.2, -1.8] * 4) + rng.uniform(-0.5, 0.5, 12)
        made.command("Damp")
        walk(made, STILL, 2.5)
        made.command("RecoveryStand")
        settled(made)
        assert made.posture is Posture.STANDING
        assert made.tilt < 0.1


def test_load_friction_and_lag_change_it_and_leave_it_walking() -> None:
    for change in ("load", "set_friction", "set_lag"):
        made = robot()
        getattr(made, change)({"load": 5.0, "set_friction": 0.4, "set_lag": 0.008}[change])
        walk(made, STILL, 1.0)
        if change == "load":
            assert made.foot_forces.sum() == pytest.approx(20.02 * 9.81, rel=0.02)
        assert walk(made, Twist2D(vx=0.5), 5.0)[150:, 0].mean() == pytest.approx(0.5, abs=0.04)
        assert made.posture is Posture.STANDING


REPLAY = """
import sys
from tests.sim.test_locomotion import replay
print(replay(sys.argv[1] == "fast"))
"""


def replay(fast: bool) -> str:
    """Return a hash of every state of a walk with a push, a figure, a fall and its end."""
    made = robot(Box("box", (2.0, 0.3, 0.2), (0.5, 0.5, 0.4)), fast=fast)
    states = hashlib.sha256()
    for index in range(12):
        if index == 3:
            made.push(10.0, -8.0)
        if index == 5:
            made.command("Sit")
        if index == 7:
            made.tip_over(2.0, 0.0)
        if index == 9:
            made.command("RecoveryStand")
        walk(made, Twist2D(0.5, 0.1, 0.3), 0.8)
        states.update(made.data.qpos.tobytes() + made.data.qvel.tobytes())
    return states.hexdigest()


@pytest.mark.parametrize("fast", [False, True])
def test_three_replays_one_in_another_process_are_the_same_to_the_bit(fast: bool) -> None:
    other = subprocess.run(
        [sys.executable, "-c", REPLAY, "fast" if fast else "slow"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert replay(fast) == replay(fast) == other.stdout.strip()


def test_the_simulation_walks_when_its_config_says_so() -> None:
    config = plain_simulation(base="walking", fast=True, camera="off")
    simulation = Simulation(make_world("apartment", 1), config, RobotConfig())
    kinematic = Simulation(make_world("apartment", 1), plain_simulation(), RobotConfig())
    for made in (simulation, kinematic):
        steps = round(0.02 / made.timestep)
        for _ in range(150):
            made.advance(Twist2D(vx=0.3), steps)
        assert made.position[0] == pytest.approx(0.85, abs=0.15)
        assert made.posture is Posture.STANDING
    assert simulation.position[2] == pytest.approx(0.33, abs=0.03)


async def test_behind_the_driver_it_walks_sits_falls_and_recovers() -> None:
    driver = MujocoPlatform(
        plain_simulation(base="walking", fast=True, camera="off"), RobotConfig()
    )

    async def until(posture: Posture) -> None:
        deadline = time.monotonic() + 40.0
        while driver.state().posture is not posture:
            assert time.monotonic() < deadline, f"waited in vain for {posture}"
            await asyncio.sleep(0.02)

    try:
        await driver.connect()
        assert driver.state().posture is Posture.STANDING
        deadline = time.monotonic() + 40.0
        while (odometry := driver.odometry()) is None or odometry.position[0] < 0.3:
            assert time.monotonic() < deadline
            driver.send_twist(Twist2D(vx=0.3))
            await asyncio.sleep(0.02)
        assert (await driver.sport("Sit")).accepted
        await until(Posture.SITTING)
        assert (await driver.sport("RiseSit")).accepted
        await until(Posture.STANDING)
        await driver.inject_tilt(2.5)
        await until(Posture.FALLEN)
        assert (await driver.sport("RecoveryStand")).accepted
        await until(Posture.STANDING)
        assert not (await driver.sport("FrontFlip")).accepted
    finally:
        await driver.close()


# Each command from the posture that those before it left, with the posture that it leads to.
ROUND = (
    ("StandDown", {}, Posture.LYING),
    ("StandUp", {}, Posture.STANDING),
    ("BalanceStand", {}, Posture.STANDING),
    ("Hello", {}, Posture.STANDING),
    ("Stretch", {}, Posture.STANDING),
    ("Dance1", {}, Posture.STANDING),
    ("Dance2", {}, Posture.STANDING),
    ("Pose", {"roll": 0.2, "pitch": 0.1, "yaw": 0.2, "height": -0.05}, Posture.STANDING),
    ("Euler", {"pitch": -0.2}, Posture.STANDING),
    ("StopMove", {}, Posture.STANDING),
    ("Sit", {}, Posture.SITTING),
    ("RiseSit", {}, Posture.STANDING),
    ("Damp", {}, Posture.DAMPED),
    ("RecoveryStand", {}, Posture.STANDING),
)


async def test_every_sport_command_runs_through_the_driver() -> None:
    assert {name for name, *_ in ROUND} | ACROBATICS == set(SPORT_COMMANDS)
    config = plain_simulation(base="walking", fast=True, camera="off", speed=4.0)
    driver = MujocoPlatform(config, RobotConfig())

    async def until(posture: Posture) -> None:
        deadline = time.monotonic() + 40.0
        while driver.state().posture is not posture:
            assert time.monotonic() < deadline, f"waited in vain for {posture}"
            await asyncio.sleep(0.02)

    try:
        await driver.connect()
        for name, parameters, posture in ROUND:
            answer = await driver.sport(name, parameters)
            assert answer.accepted and answer.code == 0, name
            assert answer.parameters == parameters
            await until(posture)
            if name == "Pose":
                deadline = time.monotonic() + 40.0
                while (odometry := driver.odometry()) is None or odometry.tilt < 0.18:
                    assert time.monotonic() < deadline, "it does not lean"
                    await asyncio.sleep(0.02)
        for name in ACROBATICS:
            answer = await driver.sport(name)
            assert not answer.accepted and answer.code == CODE_NOT_OFFERED == 3203, name
        await driver.sport("StandDown")
        await until(Posture.LYING)
        for name in ("Hello", "Stretch", "Dance1", "Dance2", "Sit", "RiseSit", "Pose", "Euler"):
            answer = await driver.sport(name)
            assert not answer.accepted and answer.code == CODE_WRONG_POSTURE, name
        with pytest.raises(InvalidRequest):
            await driver.sport("Hello", {"roll": 0.1})
        assert driver.state().posture is Posture.LYING
    finally:
        await driver.close()
