"""The peer's own parts: what it sends is the robot's, a Move holds as long as it says, faults do what they say."""

import json
import math
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("aiortc")

from rhino_actors.drivers.go2 import protocol
from rhino_actors.drivers.go2.lidar import read_voxel_message
from rhino_actors.drivers.mujoco.voxel_window import VoxelWindow
from rhino_actors.errors import ConfigError, NotConnected, RhinoError, UnknownCommand
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.platform import SportResult
from rhino_actors.peer.body import RoomBody, repack
from rhino_actors.peer.brain import Brain, Firmware
from rhino_actors.peer.command import firmware_of
from rhino_actors.peer.server import PeerOptions, RobotPeer
from rhino_actors.peer.session import check_offer, reframed


async def room_brain(**firmware: Any) -> tuple[RoomBody, Brain]:
    body = RoomBody()
    await body.start()
    return body, Brain(body, Firmware(**firmware))


async def move(brain: Brain, now: float, x: float = 0.3) -> tuple[int, str]:
    parameter = json.dumps(protocol.move_parameter(x, 0.0, 0.0))
    return await brain.request(protocol.SPORT, 1, protocol.MOVE, parameter, now, time.time())


async def test_a_move_holds_for_its_time_and_stop_ends_it() -> None:
    _, brain = await room_brain(hold_s=1.0)
    assert await move(brain, 10.0) == (0, "")
    brain.step(10.9)
    assert brain.twist == Twist2D(0.3)
    brain.step(11.0)
    assert brain.twist.is_zero
    await move(brain, 20.0)
    await brain.request(protocol.SPORT, 2, protocol.STOP_MOVE, "", 20.1, time.time())
    assert brain.twist.is_zero


async def test_a_robot_that_lies_refuses_to_move_and_what_it_does_not_know() -> None:
    body, brain = await room_brain(mode="mcf")
    assert (await brain.request(protocol.SPORT, 1, 1035, "", 1.0, 1.0))[0] == protocol.NOT_OFFERED
    await body.sport("Damp")
    assert (await move(brain, 5.0))[0] == protocol.WRONG_STATE
    for parameter in ("{", "[]", '{"x": "fast"}', '{"x": 1e999, "y": 0, "z": 0}', ""):
        code, _ = await brain.request(protocol.SPORT, 1, protocol.MOVE, parameter, 6.0, 1.0)
        assert code != 0 and brain.twist.is_zero


@pytest.mark.parametrize(
    ("failure", "code"),
    [(UnknownCommand(), protocol.NOT_OFFERED), (NotConnected(), protocol.WRONG_STATE)],
)
async def test_the_answer_says_whether_the_body_lacks_a_command_or_cannot_now(
    monkeypatch: pytest.MonkeyPatch, failure: RhinoError, code: int
) -> None:
    body, brain = await room_brain()

    async def fail(command: str) -> SportResult:
        raise failure

    monkeypatch.setattr(body, "sport", fail)
    assert await brain.request(protocol.SPORT, 1, protocol.DAMP, "", 1.0, 1.0) == (code, "")


async def test_a_fault_of_the_body_is_not_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    body, brain = await room_brain()

    async def fail(command: str) -> SportResult:
        raise ZeroDivisionError

    monkeypatch.setattr(body, "sport", fail)
    with pytest.raises(ZeroDivisionError):
        await brain.request(protocol.SPORT, 1, protocol.DAMP, "", 1.0, 1.0)


async def test_the_age_of_a_request_follows_from_its_number() -> None:
    _, brain = await room_brain()
    wall = 1_796_000_000.0
    number = int((wall - 0.25) * 1000) % 2**31
    await brain.request(protocol.SPORT, number, protocol.DAMP, "", 1.0, wall)
    assert brain.commands[-1].age == pytest.approx(0.25, abs=0.002)


def test_voxels_are_packed_again_without_loss() -> None:
    rng = np.random.default_rng(6)
    cells = np.unique(rng.integers((-80, -80, -25), (80, 80, 30), (4000, 3)), axis=0)
    place = (0.61, -0.02, 0.31)
    points = ((cells + 0.5) * 0.05).astype(np.float32)
    back = read_voxel_message(repack(points, place)).points()
    window = VoxelWindow(1.0)
    window.follow(place)
    low = np.rint(np.array(window.origin) / 0.05 - 0.5).astype(int)
    inside = ((cells >= low) & (cells < low + (128, 128, 38))).all(axis=1)
    again = np.rint(back / 0.05 - 0.5).astype(int)
    assert sorted(map(tuple, again.tolist())) == sorted(map(tuple, cells[inside].tolist()))
    assert 0 < inside.sum() < len(cells)


async def test_the_room_is_seen_where_it_is() -> None:
    body = RoomBody()
    await body.start()
    frame = body.voxels(0)
    assert frame is not None and body.voxels(frame.seq + 10) is None
    points = read_voxel_message(frame.message).points()
    walls = points[points[:, 2] > 0.2]
    assert walls[:, 0].min() == pytest.approx(-3.0, abs=0.1), "the room's wall is at -3 m"
    floor = points[points[:, 2] < 0.05]
    assert len(floor) > 500 and np.abs(floor[:, :2]).max() < 4.1
    assert read_voxel_message(reframed(frame.message)) == read_voxel_message(frame.message)


@pytest.mark.parametrize(
    ("version", "data2", "mode"),
    [("1.0.25", 1, "normal"), ("1.1.7", 1, "mcf"), ("1.1.8", 2, "mcf"), ("1.1.14", 2, "mcf")]
    + [("1.1.15", 3, "mcf"), ("1.2", 3, "mcf")],
)
def test_a_firmware_has_its_key_scheme_and_its_sport_service(
    version: str, data2: int, mode: str
) -> None:
    scheme, firmware = firmware_of(version)
    assert (scheme, firmware.mode) == (data2, mode)


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError):
        firmware_of("newest")


def test_offers_that_robots_choke_on_are_refused() -> None:
    good = "m=application 9 UDP/DTLS/SCTP x\r\na=ice-ufrag:a\r\na=fingerprint:sha-256 X\r\n"
    check_offer(good)
    for bad in (
        good + "a=ice-ufrag:b\r\n",
        good + "a=fingerprint:sha-512 X\r\n",
        good.replace("UDP/DTLS/SCTP", "DTLS/SCTP"),
    ):
        with pytest.raises(ValueError):
            check_offer(bad)


async def test_a_teleport_moves_odom_about_the_robot_that_stands() -> None:
    body = RoomBody(start=(1.0, 0.0))
    await body.start()
    peer = RobotPeer(body, PeerOptions())
    peer.fault("teleport", x=2.0, y=1.0, yaw=math.pi / 2)
    while (odometry := body.odometry()) is None:
        time.sleep(0.01)
    moved = peer.faults.moved(odometry).pose
    assert (moved.x, moved.y, moved.yaw) == pytest.approx((2.0, 2.0, math.pi / 2))
    with pytest.raises(ValueError, match="no fault"):
        peer.fault("explode")
