"""Requests to the connection's process always end: it fails, its stream ends, or it says nothing."""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

pytest.importorskip("aiortc")

from rhino_actors.config import Go2Config, RobotConfig
from rhino_actors.drivers.go2 import link as link_module
from rhino_actors.drivers.go2 import platform as platform_module
from rhino_actors.drivers.go2 import wire
from rhino_actors.drivers.go2.link import RobotLink
from rhino_actors.drivers.go2.platform import Go2Platform
from rhino_actors.drivers.go2.process import RobotProcess, Upward
from rhino_actors.drivers.go2.session import RobotSession
from rhino_actors.errors import InvalidRequest, NotConnected, PlatformError


class Child:
    """Stands for the process: keeps its ends of the two sockets open and does nothing."""

    pid = 0

    def __init__(self, words: list[str], *, pass_fds: tuple[int, int], **more: Any) -> None:
        self.stream, self.commands = (socket.socket(fileno=os.dup(fd)) for fd in pass_fds)
        self.status: int | None = None
        children.append(self)

    def poll(self) -> int | None:
        return self.status

    def wait(self, timeout: float) -> int:
        self.end()
        return 0

    def terminate(self) -> None:
        """Nothing to do: it ends when it is waited for."""

    kill = terminate

    def end(self) -> None:
        self.status = 0
        self.stream.close()
        self.commands.close()


children: list[Child] = []


@pytest.fixture(autouse=True)
def silent_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(link_module.subprocess, "Popen", Child)
    yield
    for child in children:
        child.end()
    children.clear()


def test_a_request_after_the_stream_has_ended_fails_although_the_process_still_runs() -> None:
    link = RobotLink(Go2Config(), "")
    before = link.request(op="connect")
    children[0].stream.close()
    link._thread.join(5.0)
    after = link.request(op="connect")
    for future in (before, after):
        with pytest.raises(NotConnected):
            future.result(timeout=2.0)
    link.stop()


def test_a_frame_that_cannot_be_read_leaves_no_request_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threading.excepthook", lambda args: None)
    link = RobotLink(Go2Config(), "")
    waiting = link.request(op="connect")
    children[0].stream.sendall(wire.frame(wire.STATE, b"no json"))
    with pytest.raises(NotConnected):
        waiting.result(timeout=5.0)
    link.stop()


async def test_connecting_ends_when_the_process_says_nothing_and_the_next_try_starts_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform_module, "CONNECT_TIMEOUT_S", -0.8)
    robot = Go2Platform(Go2Config(calibrated=False, connect_timeout_s=1.0), RobotConfig())
    for tries in (1, 2):
        async with asyncio.timeout(5.0):
            with pytest.raises(NotConnected, match="does not answer"):
                await robot.connect()
        assert len(children) == tries
    await robot.close()


async def test_a_parameter_that_a_command_does_not_take_is_refused() -> None:
    robot = Go2Platform(Go2Config(calibrated=False), RobotConfig())
    with pytest.raises(InvalidRequest, match="speed"):
        await robot.sport("Hello", {"speed": 1.0})


class Broken:
    """A session in which something goes wrong that nobody foresaw."""

    async def connected(self) -> None:
        raise KeyError("what is this")

    def state(self) -> Any:
        return platform_module.DriverState(False, platform_module.Posture.CHANGING, 0.0)


class Frames:
    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []

    def send(self, kind: bytes, payload: bytes) -> None:
        if kind == wire.ANSWER:
            self.answers.append(json.loads(payload))


@pytest.mark.parametrize("op", ["connect", "fly"], ids=["bug", "unknown"])
async def test_an_error_that_nobody_foresaw_is_answered_and_logged(
    op: str, caplog: pytest.LogCaptureFixture
) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    frames = Frames()
    with ours, theirs:
        theirs.setblocking(False)
        process = RobotProcess(cast(RobotSession, Broken()), cast(Upward, frames), theirs)
        ours.send(json.dumps({"id": 3, "op": op}).encode())
        with caplog.at_level(logging.ERROR):
            process.read_commands()
            for _ in range(5):
                await asyncio.sleep(0)
    (answer,) = frames.answers
    assert answer["id"] == 3 and answer["error"][0] == PlatformError.__name__
    assert any(record.exc_info for record in caplog.records)
