"""The MuJoCo driver's senses, faults and worlds through its real processes."""

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator, Callable

import cv2
import numpy as np
import pytest

from rhino_actors.config import RobotConfig
from rhino_actors.drivers.mujoco.platform import MujocoPlatform
from rhino_actors.errors import ConfigError, InvalidFault
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.sensors import LidarFrame, LidarKind
from tests.simulations import plain_simulation

pytestmark = pytest.mark.sim

LONG = 60.0  # [s] no wait is this long unless something is broken


@contextlib.asynccontextmanager
async def connected(**settings: object) -> AsyncIterator[MujocoPlatform]:
    config = plain_simulation(**{"camera": "off", **settings})  # type: ignore[arg-type]
    driver = MujocoPlatform(config, RobotConfig())
    try:
        await driver.connect()
        yield driver
    finally:
        await driver.close()


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        await asyncio.sleep(0.02)


async def frame_after(driver: MujocoPlatform, seq: int = 0) -> LidarFrame:
    await until(lambda: driver.lidar(seq) is not None, "a lidar frame")
    frame = driver.lidar(seq)
    assert frame is not None
    return frame


def odometry(driver: MujocoPlatform) -> Odometry:
    found = driver.odometry()
    assert found is not None
    return found


async def test_the_l1_arrives_as_decoded_voxels_around_the_believed_pose() -> None:
    async with connected(lidar="l1", drift="default", world="office") as driver:
        await until(lambda: driver.lidar(8) is not None, "the window has filled")
        frame = await frame_after(driver)
        assert frame.kind is LidarKind.VOXEL and frame.resolution == 0.05
        assert len(frame.points) > 800 and not frame.points.flags.writeable
        assert np.abs(frame.points[:, :2] - (frame.pose.x, frame.pose.y)).max() < 3.3
        ahead = (frame.origin[0] - frame.pose.x, frame.origin[1] - frame.pose.y)
        assert math.hypot(*ahead) == pytest.approx(0.289, abs=0.01)
        assert 0.0 <= time.monotonic() - frame.stamp < 5.0


async def test_truth_is_told_apart_from_what_is_believed() -> None:
    async with connected(drift="harsh", people=True, world="maze") as driver:
        await driver.inject("odometry_jump", x=1.0)
        await until(lambda: odometry(driver).position[0] > 0.9, "the jump")
        truth = driver.truth()
        assert truth is not None
        assert math.hypot(*truth.position[:2]) < 0.05
        assert len(truth.people) == 4 and truth.falls == 0
        first = truth.people
        await until(lambda: (t := driver.truth()) and t.people != first, "people walk")


async def test_the_state_carries_the_low_state_and_what_was_injected() -> None:
    async with connected(base="walking") as driver:
        await until(lambda: driver.state().low_state is not None, "a low state")
        low = driver.state().low_state
        assert low is not None and low.gyro is not None
        assert len(low.joint_angles) == 12 and low.joint_angles[2] == pytest.approx(-1.5, abs=0.3)
        assert sum(low.foot_forces) == pytest.approx(15.0 * 9.81, rel=0.5)
        assert abs(low.roll_pitch_yaw[0]) < 0.1 and low.current > 0.0
        await driver.inject("drop_lidar", share=0.5)
        assert any("drop_lidar" in sentence for sentence in driver.state().faults)
        await driver.inject("late_lidar", after=100.0, duration=5.0)
        report = await driver.faults()
        dropped, late = report.faults
        assert (dropped.name, dict(dropped.values)) == ("drop_lidar", {"share": 0.5})
        assert dropped.starts_in == 0.0 and dropped.ends_in is None
        assert 90.0 < late.starts_in <= 100.0 and late.ends_in == pytest.approx(late.starts_in + 5)
        assert {"push", "payload"} <= {kind.name for kind in report.kinds}
        await driver.clear_faults("drop_lidar")
        assert driver.state().faults == ()
        await driver.inject("link_loss")
        assert len((await driver.faults()).faults) == 2, "the list does not go over the lost link"
        await driver.inject("clear")
        assert (await driver.faults()).faults == ()


async def test_a_lost_link_is_noticed_stops_the_robot_and_comes_back() -> None:
    async with connected() as driver:
        await until(
            lambda: driver.send_twist(Twist2D(vx=0.4)) or odometry(driver).twist.vx > 0.3,
            "it drives",
        )
        await driver.inject("link_loss", duration=2.5)
        last = odometry(driver)
        await until(lambda: driver.state().link == "lost", "the silence is noticed")
        driver.send_twist(Twist2D(vx=0.4))
        await until(lambda: driver.state().link == "ok", "it is back")
        assert odometry(driver).seq > last.seq
        # What was sent into the dead link was lost with it.
        assert abs(odometry(driver).twist.vx) < 0.02


async def test_the_robot_holds_a_velocity_as_long_as_it_is_told_to() -> None:
    async with connected(hold_timeout_s=0.2) as driver:
        await driver.inject("hold_timeout", timeout=1.5)
        sent = time.monotonic()
        driver.send_twist(Twist2D(vx=0.4))
        await until(lambda: odometry(driver).stamp > sent + 1.2, "time has passed")
        assert odometry(driver).twist.vx > 0.3
        await until(lambda: abs(odometry(driver).twist.vx) < 0.01, "it stops")


async def test_faults_that_cannot_be_are_refused_with_the_reason() -> None:
    async with connected() as driver:
        with pytest.raises(InvalidFault, match="weight"):
            await driver.inject("push", x=20.0)
        with pytest.raises(InvalidFault, match="no fault"):
            await driver.inject("fire")
        with pytest.raises(InvalidFault, match="no value 'name'"):
            await driver.inject("drop_lidar", **{"name": 1.0})
        with pytest.raises(InvalidFault):
            await driver.clear_faults("fire")
    with pytest.raises(ConfigError, match="weight"):
        MujocoPlatform(plain_simulation(faults="payload mass=3"), RobotConfig())


async def test_a_push_reaches_the_walking_robot() -> None:
    async with connected(base="walking") as driver:
        await driver.inject("push", y=25.0)
        await until(lambda: (t := driver.truth()) and abs(t.position[1]) > 0.05, "it gives way")


async def test_simulated_time_runs_at_the_factor_of_the_config() -> None:
    async with connected(speed=4.0) as driver:
        first = odometry(driver)
        await until(lambda: odometry(driver).stamp > first.stamp + 1.5, "a while")
        last = odometry(driver)
        factor = (last.device_stamp - first.device_stamp) / (last.stamp - first.stamp)
        assert factor == pytest.approx(4.0, rel=0.15)


async def test_pictures_show_people_walking_while_the_robot_stands() -> None:
    async with connected(camera="auto", world="maze", seed=1) as driver:
        await until(lambda: not driver.state().camera.startswith("starting"), "the ladder is done")
        first = driver.camera(0)
        assert first is not None

        def differs() -> bool:
            newer = driver.camera(first.seq)
            return newer is not None and newer.jpeg != first.jpeg

        await until(differs, "a person moves in the picture")
        picture = cv2.imdecode(np.frombuffer(first.jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert picture is not None and picture.std() > 20.0
