"""Go2Platform with its own process against a live peer, and its ends: close, and an actor that is killed."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

pytest.importorskip("aiortc")

from rhino_actors.config import Go2Config, RobotConfig
from rhino_actors.drivers.go2 import wire
from rhino_actors.drivers.go2.platform import Go2Platform
from rhino_actors.errors import ConfigError, NotConnected, RobotUnreachable, UnknownCommand
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import DriverState, LowState, Posture
from rhino_actors.messages.sensors import LidarKind
from rhino_actors.peer.body import RoomBody
from rhino_actors.peer.server import PeerOptions, RobotPeer

PATIENCE_S = 60.0
HOST = f"127.78.{os.getpid() % 250}.2"
PATIENT = {"odometry_max_age_s": 2.0, "hold_timeout_s": 1.0, "command_max_age_s": 1.0}

pytestmark = pytest.mark.timeout(150)


async def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)


@pytest.mark.integration
async def test_platform_lives_through_a_whole_drive_and_leaves_nothing() -> None:
    peer = RobotPeer(RoomBody(), PeerOptions(host=HOST))
    await peer.start()
    robot = Go2Platform(Go2Config(robot_ip=HOST, **PATIENT), RobotConfig())  # type: ignore[arg-type]
    try:
        assert not robot.state().connected
        with pytest.raises(NotConnected):
            await robot.sport("Hello")
        await robot.connect()
        link = robot._link
        assert link is not None and robot.state().connected
        await until(lambda: robot.lidar(0) and robot.camera(0), "lidar and camera")
        frame, picture = robot.lidar(0), robot.camera(0)
        assert frame is not None and picture is not None
        assert frame.kind is LidarKind.VOXEL and frame.resolution == 0.05
        assert frame.origin == pytest.approx((0.289, 0.0, 0.31 - 0.047))
        assert (picture.width, picture.height) == (1280, 720)
        assert robot.lidar(frame.seq + 1000) is None and robot.camera(picture.seq + 1000) is None
        assert (await robot.sport("Hello")).accepted
        with pytest.raises(UnknownCommand):
            await robot.sport("Fly")
        await asyncio.sleep(1.6)  # the show piece
        before = robot.odometry()
        assert before is not None
        for _ in range(12):
            robot.send_twist(Twist2D(0.5))
            await asyncio.sleep(0.05)

        def has_moved() -> bool:
            now = robot.odometry()
            return now is not None and now.pose.x - before.pose.x > 0.05

        await until(has_moved, "motion")
        seq = frame.seq
        await robot.close()
        await robot.close()
        assert not psutil.pid_exists(link.pid)
        await until(lambda: peer.session is None, "the peer to be free")
        assert [c.name for c in peer.commands[-2:]] == ["StopMove"] * 2
        await robot.connect()
        await until(lambda: robot.lidar(seq), "numbers to go on")
    finally:
        await robot.close()
        await peer.close()


ACTOR = """
import asyncio, sys
from rhino_actors.config import Go2Config, RobotConfig
from rhino_actors.drivers.go2.platform import Go2Platform
from rhino_actors.messages.geometry import Twist2D

async def main():
    robot = Go2Platform(Go2Config(robot_ip=sys.argv[1], camera=False, odometry_max_age_s=2.0), RobotConfig())
    await robot.connect()
    print("driving", flush=True)
    while True:
        robot.send_twist(Twist2D(0.4))
        await asyncio.sleep(0.05)

asyncio.run(main())
"""


@pytest.mark.integration
async def test_an_actor_that_is_killed_leaves_a_robot_that_stands_and_is_free() -> None:
    peer = RobotPeer(RoomBody(), PeerOptions(host=HOST))
    await peer.start()
    actor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ACTOR, HOST, stdout=subprocess.PIPE
    )
    try:
        assert actor.stdout is not None
        assert (await actor.stdout.readline()).strip() == b"driving"
        await until(
            lambda: any(not c.twist.is_zero for c in peer.commands), "the robot to be driven"
        )
        actor.send_signal(signal.SIGKILL)
        await until(lambda: peer.session is None, "the client to disconnect")
        assert [c.name for c in peer.commands[-3:]] == ["StopMove"] * 3
        assert peer.brain.twist.is_zero
    finally:
        if actor.returncode is None:
            actor.kill()
        await actor.wait()
        await peer.close()


@pytest.mark.integration
async def test_an_address_without_a_robot_is_an_error_that_says_so() -> None:
    robot = Go2Platform(Go2Config(robot_ip=f"127.78.{os.getpid() % 250}.9"), RobotConfig())
    try:
        with pytest.raises(RobotUnreachable, match="neither port"):
            await robot.connect()
    finally:
        await robot.close()


@pytest.mark.parametrize("key", ["velocity_api", "obstacle_avoidance"])
def test_a_value_that_is_not_known_is_refused_with_those_that_are(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Go2Platform(Go2Config(**{key: "perhaps"}), RobotConfig())


def test_what_passes_between_the_processes_arrives_as_it_was() -> None:
    odometry = Odometry(7, 1.5, (1, 2, 3), (0, 0, 0, 1), Twist2D(0.1, 0.2, 0.3), 9.0)
    assert wire.unpack_odometry(wire.pack_odometry(odometry), 0) == odometry
    assert wire.unpack_odometry(wire.pack_odometry(odometry), 100).seq == 107
    low = LowState((0.1, 0.2, 0.3), None, (1.0, 2.0), (3.0,), 2.5)
    state = DriverState(True, Posture.SITTING, 50.0, 28.0, "video", "ok", ("a", "b"), None, low)
    assert wire.unpack_state(wire.pack_state(state)) == state
    assert wire.unpack_twist(wire.pack_twist(Twist2D(1, 2, 3), 4.0)) == (Twist2D(1, 2, 3), 4.0)
    frames = [(b"A", b"one"), (b"B", b""), (b"C", bytes(70_000))]
    stream = b"".join(wire.frame(kind, payload) for kind, payload in frames)
    for size in (1_000_000, 4096, 3):
        reader, found = wire.FrameReader(), []
        for start in range(0, len(stream), size):
            found += list(reader.feed(stream[start : start + size]))
        assert found == frames
