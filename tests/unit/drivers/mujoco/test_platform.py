import pytest

from rhino_actors.config import RobotConfig
from rhino_actors.drivers.mujoco.platform import MujocoPlatform
from rhino_actors.drivers.platform import Platform
from rhino_actors.errors import ConfigError, NotConnected, UnknownCommand
from rhino_actors.messages.geometry import Twist2D
from tests.simulations import plain_simulation


def platform(**options: object) -> MujocoPlatform:
    return MujocoPlatform(plain_simulation(**options), RobotConfig())  # type: ignore[arg-type]


def test_it_is_a_platform() -> None:
    driver: Platform = platform()
    assert driver.simulated


def test_an_unknown_world_or_camera_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match="moon"):
        platform(world="moon")
    with pytest.raises(ConfigError, match="vulkan"):
        platform(camera="vulkan")


def test_before_connect_there_is_nothing_to_read_and_the_state_says_why() -> None:
    driver = platform()
    assert driver.odometry() is None
    assert driver.lidar(0) is None
    assert driver.camera(0) is None
    driver.send_twist(Twist2D(vx=1.0))
    state = driver.state()
    assert not state.connected
    assert state.link == "lost"
    assert state.faults == ("The simulation is not running.",)


async def test_commands_are_refused_before_connect_and_unknown_ones_always() -> None:
    driver = platform()
    with pytest.raises(NotConnected):
        await driver.sport("StandUp")
    with pytest.raises(NotConnected):
        await driver.inject_tilt(1.0)
    with pytest.raises(UnknownCommand, match="Moonwalk") as caught:
        await driver.sport("Moonwalk")
    assert "StandUp" in caught.value.hint


async def test_close_without_connect_is_fine_and_may_be_repeated() -> None:
    driver = platform()
    await driver.close()
    await driver.close()
