"""The MuJoCo driver with its real processes: they start, drive, survive each other's death, and leave nothing."""

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import cv2
import numpy as np
import psutil
import pytest

from rhino_actors.config import RobotConfig
from rhino_actors.drivers.mujoco.platform import MujocoPlatform
from rhino_actors.errors import NotConnected
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.platform import Posture
from tests.simulations import plain_simulation

pytestmark = pytest.mark.sim

LONG = 60.0  # [s] no wait is this long unless something is broken


@contextlib.asynccontextmanager
async def connected(camera: str = "off") -> AsyncIterator[MujocoPlatform]:
    driver = MujocoPlatform(plain_simulation(camera=camera), RobotConfig())
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


def processes_of(parent: int) -> list[psutil.Process]:
    """Return the simulation's processes under a process, physics first."""
    return psutil.Process(parent).children(recursive=True)


def physics() -> psutil.Process:
    return next(p for p in processes_of(os.getpid()) if "mujoco.process" in " ".join(p.cmdline()))


def is_gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def drive(driver: MujocoPlatform, twist: Twist2D, condition: Callable[[], object]) -> None:
    def sent() -> object:
        driver.send_twist(twist)
        return condition()

    await until(sent, "the drive is over")


def x_of(driver: MujocoPlatform) -> float:
    odometry = driver.odometry()
    assert odometry is not None
    return odometry.position[0]


async def test_streams_flow_and_the_robot_drives_and_stops_when_commands_stop() -> None:
    async with connected() as driver:
        assert driver.state().connected
        assert driver.state().camera.startswith("off")
        first = driver.odometry()
        frame = driver.lidar(0)
        assert first is not None and frame is not None
        assert frame.points.shape[1] == 3 and len(frame.points) > 4000
        assert not frame.points.flags.writeable
        assert 0.0 <= time.monotonic() - first.stamp < 5.0
        await drive(driver, Twist2D(vx=0.5), lambda: x_of(driver) > 0.4)
        newer = driver.lidar(frame.seq)
        assert newer is not None and newer.pose.x > frame.pose.x
        # Commands stop: the driver's own dead-man, not ours, brings it to rest.
        await until(
            lambda: (o := driver.odometry()) is not None and abs(o.twist.vx) < 1e-3, "it stands"
        )
        assert x_of(driver) < 1.5


async def test_postures_answer_at_once_and_show_in_the_state() -> None:
    async with connected() as driver:
        answer = await driver.sport("StandDown")
        assert answer.accepted
        assert driver.state().posture is Posture.CHANGING
        await until(lambda: driver.state().posture is Posture.LYING, "it lies")
        refused = await driver.sport("FrontFlip")
        assert not refused.accepted and refused.code != 0 and refused.message


async def test_a_tilt_shows_in_the_odometry_until_recovery() -> None:
    async with connected() as driver:
        await driver.inject_tilt(math.radians(70))
        await until(lambda: (o := driver.odometry()) is not None and o.tilt > 1.1, "it lies tipped")
        assert driver.state().posture is Posture.FALLEN
        assert (await driver.sport("RecoveryStand")).accepted
        await until(lambda: driver.state().posture is Posture.STANDING, "it stands again")
        odometry = driver.odometry()
        assert odometry is not None and odometry.tilt < 0.01


async def test_pictures_come_in_the_format_that_the_state_says() -> None:
    async with connected("auto") as driver:
        await until(lambda: not driver.state().camera.startswith("starting"), "the ladder is done")
        way, size = driver.state().camera.split()[:2]
        assert way in ("egl", "osmesa", "raycast")
        assert size == ("160x90@5" if way == "raycast" else "640x360@15")
        frame = driver.camera(0)
        assert frame is not None
        picture = cv2.imdecode(np.frombuffer(frame.jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert picture is not None
        assert f"{picture.shape[1]}x{picture.shape[0]}" == size.split("@")[0]
        assert (frame.width, frame.height) == (picture.shape[1], picture.shape[0])
        assert picture.std() > 20.0


async def test_a_killed_camera_comes_back_and_nothing_else_notices() -> None:
    async with connected("auto") as driver:
        await until(lambda: not driver.state().camera.startswith("starting"), "the ladder is done")
        (camera,) = physics().children()
        camera.kill()
        await until(lambda: "restarting" in driver.state().camera, "the state says so")
        before = driver.odometry()
        assert before is not None
        last = driver.camera(0)
        assert last is not None
        await until(lambda: driver.camera(last.seq), "a new picture")
        after = driver.odometry()
        assert after is not None and after.seq > before.seq
        assert driver.state().connected


async def test_a_killed_physics_is_reported_takes_the_camera_with_it_and_can_be_started_again() -> (
    None
):
    async with connected("auto") as driver:
        process = physics()
        await until(process.children, "the camera process runs")
        children = process.children()
        process.kill()
        await until(lambda: not driver.state().connected, "the state says so")
        state = driver.state()
        assert "signal 9" in state.faults[0] and state.link == "lost"
        await until(lambda: all(is_gone(child) for child in children), "the camera is gone")
        last = driver.odometry()
        assert last is not None
        with pytest.raises(NotConnected):
            await driver.sport("StandUp")
        await driver.connect()
        again = driver.odometry()
        assert again is not None and again.seq > last.seq
        assert driver.state().connected


async def test_a_frozen_physics_is_noticed_and_comes_back() -> None:
    async with connected() as driver:
        process = physics()
        process.suspend()
        try:
            await until(lambda: driver.state().link == "lost", "the silence is noticed")
            assert "stopped publishing" in driver.state().faults[0]
        finally:
            process.resume()
        await until(lambda: driver.state().link == "ok", "it is back")
        assert driver.state().faults == ()


async def test_close_leaves_no_process_and_reads_stay_harmless() -> None:
    async with connected("auto") as driver:
        everything = processes_of(os.getpid())
        assert everything
        assert driver.odometry() is not None
    await driver.close()
    assert all(is_gone(process) for process in everything)
    assert driver.odometry() is not None
    assert driver.lidar(0) is None
    assert not driver.state().connected


async def test_connecting_twice_keeps_the_one_simulation() -> None:
    async with connected() as driver:
        pid = physics().pid
        await driver.connect()
        assert [p.pid for p in processes_of(os.getpid())] == [pid]


async def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    driver = MujocoPlatform(plain_simulation(camera="off"), RobotConfig())
    connecting = asyncio.create_task(driver.connect())
    await until(lambda: processes_of(os.getpid()), "the process starts")
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert processes_of(os.getpid()) == []


async def test_a_start_that_fails_says_what_the_process_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mujoco.py").write_text("raise ImportError('the physics library is broken')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    driver = MujocoPlatform(plain_simulation(camera="off"), RobotConfig())
    with pytest.raises(NotConnected, match="the physics library is broken"):
        await driver.connect()
    assert processes_of(os.getpid()) == []


OWNER = """
import asyncio
from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.platform import MujocoPlatform

async def main():
    driver = MujocoPlatform(MujocoConfig(base="kinematic"), RobotConfig())
    await driver.connect()
    while driver.state().camera.startswith("starting"):
        await asyncio.sleep(0.05)
    print("up", flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
async def test_nothing_outlives_an_owner_that_is_killed(end: signal.Signals) -> None:
    shared_before = set(os.listdir("/dev/shm"))
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        line = await asyncio.to_thread(owner.stdout.readline)
        assert line == b"up\n"
        everything = processes_of(owner.pid)
        assert everything
        owner.send_signal(end)
        await until(lambda: all(is_gone(process) for process in everything), "all are gone")
    ours = {name for name in set(os.listdir("/dev/shm")) - shared_before if "rhino" in name}
    assert ours == set()
