"""The session against a live peer on loopback: order, recovery, refusals, faults. Slow machines only make it slower."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("aiortc")

from rhino_actors.config import Go2Config
from rhino_actors.drivers.go2.lidar import read_voxel_message
from rhino_actors.drivers.go2.request_table import Answer
from rhino_actors.drivers.go2.session import RobotSession
from rhino_actors.errors import (
    ChannelNotOpened,
    NotConnected,
    RobotBusy,
    RobotKeyMissing,
    RobotKeyRejected,
    RobotUnreachable,
)
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import Posture
from rhino_actors.peer.body import RoomBody
from rhino_actors.peer.brain import Firmware
from rhino_actors.peer.server import PeerOptions, RobotPeer

KEY = "00112233445566778899aabbccddeeff"
PATIENCE_S = 30.0
_hosts = itertools.count(2)

pytestmark = pytest.mark.timeout(90)


def new_host() -> str:
    """Return a loopback address of this test's own: the robot's ports are fixed."""
    number = next(_hosts)
    return f"127.77.{os.getpid() % 250}.{number}"


class Recorder:
    """A sink that keeps what came."""

    def __init__(self) -> None:
        self.poses: list[Odometry] = []
        self.messages: list[bytes] = []
        self.pictures: list[bytes] = []

    def odometry(self, odometry: Odometry) -> None:
        self.poses.append(odometry)

    def lidar(self, message: bytes, stamp: float, odometry: Odometry) -> None:
        self.messages.append(message)

    def camera(self, jpeg: bytes, width: int, height: int, stamp: float) -> None:
        self.pictures.append(jpeg)


class Pair:
    """A peer and a session that runs."""

    def __init__(self, peer: RobotPeer, session: RobotSession, sink: Recorder) -> None:
        self.peer, self.session, self.sink = peer, session, sink

    @property
    def names(self) -> list[str]:
        return [command.name for command in self.peer.commands]

    async def until(self, condition: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.session.state()} {self.names[-9:]}"
            await asyncio.sleep(0.01)

    async def drive(self, twist: Twist2D, duration: float) -> None:
        end = time.monotonic() + duration
        while time.monotonic() < end:
            self.session.twist(twist, time.monotonic())
            await asyncio.sleep(0.05)


@asynccontextmanager
async def pair(
    config: dict[str, Any] | None = None, key: str = "", connects: bool = True, **options: Any
) -> AsyncIterator[Pair]:
    """Run a robot in a room and a session with it. A loaded machine must not look like a stale link."""
    host = new_host()
    peer = RobotPeer(RoomBody(), PeerOptions(host=host, **options))
    # A real robot's round-trip probe can come before the answer about traffic saving.
    peer.fault("probe_first")
    await peer.start()
    patient = {"odometry_max_age_s": 2.0, "hold_timeout_s": 1.0, "command_max_age_s": 1.0}
    settings = Go2Config(
        **{"robot_ip": host, "camera": False, "lost_after_s": 2.0, **patient, **(config or {})}
    )
    sink = Recorder()
    session = RobotSession(settings, key, sink)
    running = asyncio.create_task(session.run())
    try:
        async with asyncio.timeout(60.0):
            if connects:
                await session.connected()
            yield Pair(peer, session, sink)
    finally:
        await session.close()
        await running
        await peer.close()


@pytest.mark.parametrize(
    "options",
    [
        {"signalling": "old"},
        {"signalling": "new", "data2": 1},
        {"data2": 2, "long_framing": True, "drop_first_switches": 2},
        {"data2": 3, "aes_key": KEY},
    ],
    ids=["old", "new-1", "new-2-long", "new-3"],
)
async def test_every_kind_of_robot_connects_and_sends_everything(options: dict[str, Any]) -> None:
    async with pair(key=KEY, config={"camera": options.get("data2") == 3}, **options) as robot:
        await robot.until(lambda: robot.sink.messages and robot.sink.poses, "streams")
        assert len(read_voxel_message(robot.sink.messages[-1]).points()) > 100
        state = robot.session.state()
        assert state.connected and state.link == "ok" and state.posture is Posture.STANDING
        await robot.until(lambda: robot.session.state().battery == 87.0, "battery")
        assert robot.names[0] == "StopMove", "the first command of all is stop"
        if options.get("data2") == 3:
            await robot.until(lambda: robot.sink.pictures, "a picture")
            assert robot.sink.pictures[0][:2] == b"\xff\xd8"
        assert robot.session.state().faults == ()


@pytest.mark.parametrize(
    ("options", "key", "error"),
    [
        ({"data2": 3, "signalling": "new"}, "", RobotKeyMissing),
        ({"data2": 3, "signalling": "new"}, "ff" * 16, RobotKeyRejected),
        ({"never_validate": True}, "", ChannelNotOpened),
    ],
    ids=["no-key", "wrong-key", "never-validated"],
)
async def test_what_hinders_a_connection_is_an_error_of_its_own(
    options: dict[str, Any], key: str, error: type[NotConnected]
) -> None:
    async with pair(config={"connect_timeout_s": 1.0}, key=key, connects=False, **options) as robot:
        with pytest.raises(error) as caught:
            await robot.session.connected()
        assert caught.value.message and caught.value.hint
        assert not robot.session.state().connected


async def test_nothing_at_the_address_is_told_apart_from_another_machine() -> None:
    session = RobotSession(Go2Config(robot_ip=new_host()), "", Recorder())
    running = asyncio.create_task(session.run())
    try:
        with pytest.raises(RobotUnreachable, match="neither port"):
            await session.connected()
    finally:
        await session.close()
        await running


async def test_a_busy_robot_is_told_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rhino_actors.drivers.go2.recovery.BUSY_BACK_OFF_S", (0.1,))
    async with pair(connects=False) as robot:
        robot.peer.fault("reject_next")
        with pytest.raises(RobotBusy):
            await robot.session.connected()
        await robot.session.connected()
        assert robot.peer.rejects == 1


async def test_driving_moves_the_robot_and_zero_stops_it() -> None:
    async with pair() as robot:
        await robot.drive(Twist2D(0.5), 0.6)
        await robot.until(lambda: robot.sink.poses[-1].pose.x > 0.05, "the robot to move")
        robot.session.twist(Twist2D(), time.monotonic())
        await robot.until(lambda: robot.names[-2:] == ["StopMove", "Move"], "the stop")
        assert robot.peer.brain.twist.is_zero
        moves = [c.twist for c in robot.peer.commands if c.name == "Move"]
        assert {m for m in moves if not m.is_zero} == {Twist2D(0.5)}


async def test_sticks_have_their_own_scale_and_signs() -> None:
    config = {"velocity_api": "joystick", "stick_vx": 0.5, "stick_vy": -1.0, "stick_omega": -0.5}
    async with pair(config=config) as robot:
        await robot.drive(Twist2D(0.3, 0.1, 0.4), 0.4)
        await robot.until(lambda: "joystick" in robot.names, "the sticks")
        twist = next(c.twist for c in robot.peer.commands if c.name == "joystick" and c.twist.vx)
        assert (twist.vx, twist.vy, twist.omega) == pytest.approx((0.225, 0.1, 0.4))


async def test_sport_commands_are_answered_with_the_robots_code() -> None:
    async with pair() as robot:
        assert (await robot.session.sport("Hello")).accepted
        robot.peer.fault("refuse", api_id=1022, code=3203)
        refused = await robot.session.sport("Dance1")
        assert not refused.accepted and refused.code == 3203
        assert refused.message == "This firmware does not offer that."
        robot.peer.fault("refuse", api_id=1009, code=7004)
        assert (await robot.session.sport("Sit")).accepted, "already so is success"
        assert (await robot.session.sport("StandUp")).accepted
        assert robot.names[-1] == "BalanceStand", "after standing up the robot has to balance"


async def test_light_volume_and_avoidance_reach_the_robot() -> None:
    async with pair() as robot:
        brain = robot.peer.brain
        assert (await robot.session.set_device("light", 7)).accepted
        assert (await robot.session.set_device("volume", 3)).accepted
        assert (brain.brightness, brain.volume) == (7, 3)
        assert (await robot.session.set_device("obstacle_avoidance", 1)).accepted
        assert brain._avoids
        assert (await robot.session.set_device("obstacle_avoidance", 0)).accepted
        assert not brain._avoids


class Answering(RobotSession):
    """A session whose robot answers at once; keeps the numbers of what was asked."""

    def __init__(self) -> None:
        super().__init__(Go2Config(), "", Recorder())
        self.numbers: list[int] = []
        self.answers: dict[int, int] = {}

    async def request(
        self, service: str, api_id: int, parameter: Any = None, timeout: float = 1.0
    ) -> Answer:
        self.numbers.append(api_id)
        await asyncio.sleep(0.01)
        return Answer(self.answers.get(api_id, 0), "")


@pytest.mark.parametrize(
    ("command", "parameters", "wait"),
    [("StandUp", {}, 0.0), ("StandUp", {}, 0.1), ("Pose", {"roll": 0.1}, 0.0)],
    ids=["StandUp-unanswered", "StandUp-rising", "Pose-unanswered"],
)
async def test_nothing_is_sent_after_a_damp_that_comes_between(
    monkeypatch: pytest.MonkeyPatch, command: str, parameters: dict[str, float], wait: float
) -> None:
    monkeypatch.setattr("rhino_actors.drivers.go2.session.STAND_TIMEOUT_S", 0.3)
    session = Answering()
    first = asyncio.create_task(session.sport(command, parameters))
    await asyncio.sleep(wait)
    assert (await session.sport("Damp")).accepted
    result = await first
    assert len(session.numbers) == 2 and session.numbers[-1] == 1001, "Damp is the last request"
    assert "Another command" in result.message and result.parameters == {}


async def test_an_answer_says_which_parameters_were_carried_out() -> None:
    session = Answering()
    pose = await session.sport("Pose", {"roll": 0.1, "height": 0.05})
    assert pose.accepted and pose.parameters == {"roll": 0.1, "height": 0.0}
    assert pose.message == "The robot does not take height."
    euler = await session.sport("Euler", {"pitch": 0.2, "yaw": -0.1})
    assert euler.parameters == {"pitch": 0.2, "yaw": -0.1} and euler.message == ""
    session.answers[1007] = 3203  # Euler
    refused = await session.sport("Pose", {"roll": 0.1})
    assert not refused.accepted and refused.parameters == {}


async def test_a_request_without_an_answer_ends_with_an_error() -> None:
    async with pair() as robot:
        robot.peer.fault("no_responses")
        with pytest.raises(NotConnected, match="did not answer"):
            await robot.session.request("sport", 1016, timeout=0.2)


async def test_faults_of_the_robot_become_sentences_and_go_again() -> None:
    async with pair() as robot:
        robot.peer.fault("error", source=300, code=4)
        sentence = "The robot reports a fault of a motor: its driver is too hot."
        await robot.until(lambda: sentence in robot.session.state().faults, "the fault")
        robot.peer.fault("clear_error", source=300, code=4)
        robot.peer.fault("soc", value=7)
        await robot.until(lambda: sentence not in robot.session.state().faults, "its end")
        await robot.until(
            lambda: any("battery is at 7 %" in f for f in robot.session.state().faults), "battery"
        )


async def test_messages_that_are_none_hurt_nobody() -> None:
    async with pair() as robot:
        for text in ("", "{", "[]", "5", '{"type": 3}', '{"topic": "x"}', '{"type":"msg"}', "null"):
            robot.peer.fault("raw", text=text)
        robot.peer.fault("raw", text='{"type":"msg","topic":"rt/utlidar/robot_pose","data":{}}')
        robot.peer.fault("raw", text='{"type":"add_error","data":"x"}')
        robot.peer.fault("raw", text='{"type":"rtc_inner_req","info":7}')
        robot.peer.fault("raw", text=b"\x02\x00\x00")
        seen = len(robot.sink.poses)
        await robot.until(lambda: len(robot.sink.poses) > seen + 2, "poses to go on")
        assert robot.session.state().connected


@pytest.mark.integration
async def test_a_connection_that_the_robot_closes_is_made_anew_with_everything_in_it() -> None:
    async with pair() as robot:
        await robot.until(lambda: robot.sink.messages, "the lidar")
        robot.peer.fault("close_channel")
        await robot.until(lambda: robot.peer.connects == 2, "the second connection")
        seen = len(robot.sink.messages)
        await robot.until(lambda: len(robot.sink.messages) > seen, "the lidar again")
        assert robot.names[0] == "StopMove", "of the new connection too"
        await robot.until(lambda: robot.session.state().connected, "the state")


@pytest.mark.integration
async def test_a_cut_link_ends_the_motion_and_delivers_no_old_command() -> None:
    config = {
        "lost_after_s": 1.0,
        "reconnect_after_s": 30.0,
        "odometry_max_age_s": 0.5,
        "command_max_age_s": 0.5,
    }
    async with pair(config=config, firmware=Firmware(hold_s=0.5)) as robot:
        await robot.drive(Twist2D(0.3), 0.5)
        await robot.until(lambda: not robot.peer.brain.twist.is_zero, "the robot to move")
        robot.peer.fault("impair", loss=1.0)
        cut = time.monotonic()
        await robot.drive(Twist2D(0.3), 2.5)
        assert robot.session.state().link == "lost"
        before = len(robot.peer.commands)
        robot.peer.fault("impair")
        poses = len(robot.sink.poses)
        while len(robot.sink.poses) < poses + 10:
            await robot.drive(Twist2D(0.3), 0.1)
        late = [c for c in robot.peer.commands[before:] if c.name == "Move" and not c.twist.is_zero]
        assert late == [], "the old wish does not go on, and nothing of it comes late"
        assert robot.peer.brain.twist.is_zero and time.monotonic() - cut > 2.5


@pytest.mark.integration
async def test_silent_topics_and_video_are_told_and_asked_for_again() -> None:
    async with pair() as robot:
        robot.peer.fault("silence", topic="rt/utlidar/robot_pose")
        sentence = "The robot sends no odometry"
        await robot.until(
            lambda: any(f.startswith(sentence) for f in robot.session.state().faults), "the fault"
        )
        robot.peer.fault("speak")
        await robot.until(lambda: robot.session.state().faults == (), "its end")


async def test_closing_stops_the_robot_and_leaves_it_free_for_the_next() -> None:
    async with pair() as robot:
        await robot.drive(Twist2D(0.4), 0.4)
        commands = robot.peer.commands
        await robot.session.close()
        await robot.until(lambda: robot.peer.session is None, "the peer to be free")
        assert [c.name for c in robot.peer.commands[-2:]] == ["StopMove"] * 2
        assert len(robot.peer.commands) > len(commands)


def test_patience_is_for_the_test_alone() -> None:
    """What the tests loosen is stricter by default, as the figures of the documents say."""
    config = replace(Go2Config())
    assert config.odometry_max_age_s <= 0.25 and config.command_max_age_s <= 0.3
    assert config.hold_timeout_s <= 0.3 and config.lost_after_s == 1.0


async def test_the_robot_is_found_by_the_multicast_question() -> None:
    from rhino_actors.drivers.go2.discovery import discover

    host = new_host()
    peer = RobotPeer(RoomBody(), PeerOptions(host=host, serial="B42FOUND"))
    await peer.start()
    try:
        found = []
        for _ in range(5):
            found = [robot for robot in await discover(1.0) if robot.ip == host]
            if found:
                break
    finally:
        await peer.close()
    assert [robot.serial for robot in found] == ["B42FOUND"]
