from collections.abc import Iterator
from dataclasses import replace

import pytest

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco import wire
from rhino_actors.drivers.mujoco.camera_ladder import CameraLadder
from rhino_actors.drivers.mujoco.shm import SharedBlock
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.messages.geometry import Odometry, Twist2D

pytest.importorskip("mujoco")

from rhino_actors.drivers.mujoco.process import PhysicsLoop
from rhino_actors.drivers.mujoco.simulation import Simulation
from tests.simulations import plain_simulation

CONFIG = plain_simulation(camera="off", lidar_azimuths=32, lidar_elevations=4, hold_timeout_s=0.5)
WORLD = make_world("apartment", 1)


class Driven:
    """A physics loop whose clock the test turns."""

    def __init__(self, block: SharedBlock, config: MujocoConfig = CONFIG) -> None:
        self.block = block
        self.now = 1000.0
        simulation = Simulation(WORLD, config, RobotConfig())
        self.loop = PhysicsLoop(simulation, block, config, CameraLadder(config, block, "{}"))

    def send(self, twist: Twist2D) -> None:
        self.block["command"].write(wire.pack_command(twist, self.now))

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.now += self.loop.period
            self.loop.tick(self.now, self.now)

    def odometry(self) -> Odometry:
        message = self.block["odometry"].read()
        assert message is not None
        return wire.unpack_odometry(*message)


@pytest.fixture
def block() -> Iterator[SharedBlock]:
    block = SharedBlock.create(wire.capacities(CONFIG))
    yield block
    block.close()


@pytest.fixture
def driven(block: SharedBlock) -> Driven:
    return Driven(block)


def test_odometry_comes_at_its_rate_with_stamps_in_step(driven: Driven) -> None:
    driven.tick(50)
    odometry = driven.odometry()
    assert odometry.seq == 50
    assert odometry.stamp == driven.now
    assert odometry.device_stamp == pytest.approx(1.0)


@pytest.mark.parametrize(("rate", "expected"), [(10.0, 10), (50.0, 50), (250.0, 250)])
def test_any_odometry_rate_is_met(block: SharedBlock, rate: float, expected: int) -> None:
    driven = Driven(block, replace(CONFIG, odometry_rate_hz=rate))
    driven.tick(round(1.0 / driven.loop.period))
    assert driven.odometry().seq == expected


def test_lidar_comes_at_its_rate(driven: Driven) -> None:
    driven.tick(500)
    assert driven.block["lidar"].newest == pytest.approx(10 * CONFIG.lidar_rate_hz, abs=1.5)


def test_a_fresh_twist_drives_and_silence_stops(driven: Driven) -> None:
    for _ in range(50):
        driven.send(Twist2D(vx=0.5))
        driven.tick()
    assert driven.odometry().twist.vx == pytest.approx(0.5, abs=0.02)
    driven.tick(round(CONFIG.hold_timeout_s / driven.loop.period) - 2)
    assert driven.odometry().twist.vx == pytest.approx(0.5, abs=0.02)
    driven.tick(50)
    assert abs(driven.odometry().twist.vx) < 1e-3


def test_a_twist_of_before_the_start_moves_nothing(block: SharedBlock) -> None:
    block["command"].write(wire.pack_command(Twist2D(vx=0.5), 1000.0))
    driven = Driven(block)
    driven.tick(10)
    assert driven.odometry().position[0] == 0.0


def test_stop_move_voids_the_twist_before_it_and_not_the_one_after(driven: Driven) -> None:
    driven.send(Twist2D(vx=0.5))
    driven.tick(10)
    driven.loop.answer({"id": 1, "op": "sport", "command": "StopMove"}, driven.now)
    speed = driven.odometry().twist.vx
    driven.tick(5)
    assert driven.odometry().twist.vx < speed
    driven.send(Twist2D(vx=0.5))
    driven.tick(20)
    assert driven.odometry().twist.vx > 0.4


def test_the_answer_to_a_command_finds_the_state_changed_already(driven: Driven) -> None:
    reply = driven.loop.answer({"id": 4, "op": "sport", "command": "StandDown"}, driven.now)
    assert reply["id"] == 4
    assert reply["result"]["accepted"]
    message = driven.block["state"].read()
    assert message is not None
    assert wire.unpack_state(message[1])["posture"] == "changing"


def test_a_refused_command_leaves_the_robot_driving(driven: Driven) -> None:
    for _ in range(30):
        driven.send(Twist2D(vx=0.5))
        driven.tick()
    reply = driven.loop.answer({"id": 1, "op": "sport", "command": "FrontFlip"}, driven.now)
    assert not reply["result"]["accepted"]
    driven.tick(5)
    assert driven.odometry().twist.vx == pytest.approx(0.5, abs=0.03)


def test_the_camera_that_is_off_is_said_to_be(driven: Driven) -> None:
    driven.tick()
    message = driven.block["state"].read()
    assert message is not None
    assert wire.unpack_state(message[1])["camera"] == "off: switched off in the config"
