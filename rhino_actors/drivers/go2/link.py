"""The connection's process as the platform actor's child: its start, its requests, its end."""

import contextlib
import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rhino_actors
from rhino_actors import errors
from rhino_actors.config import Go2Config
from rhino_actors.drivers.go2 import wire
from rhino_actors.errors import NotConnected
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import DriverState

END_GRACE_S = 4.0  # to stop the robot and disconnect, and again for each signal
READ_BYTES = 262_144

logger = logging.getLogger(__name__)


class RobotLink:
    """One life of the process. The newest of everything is read without waiting, from any thread."""

    def __init__(self, config: Go2Config, aes_key: str, first_seq: int = 0) -> None:
        """Start the process; it begins to connect.

        Args:
            config: of the robot.
            aes_key: the robot's own key, or empty.
            first_seq: number of the last odometry of an earlier life.
        """
        self._first_seq = first_seq
        self.odometry: Odometry | None = None
        self.lidar: tuple[int, bytes] = (0, b"")  # number, payload
        self.camera: tuple[int, bytes] = (0, b"")
        self.state: tuple[float, DriverState] | None = None  # arrival [s]
        self._answers: dict[int, Future[Any]] = {}
        self._ended = False  # nobody reads answers any more
        self._last_id = 0
        self._lock = threading.Lock()
        self._stream, child_stream = socket.socketpair()
        self._commands, child_commands = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._commands.setblocking(False)
        settings = json.dumps({"go2": asdict(config), "aes_key": aes_key})
        root = str(Path(rhino_actors.__file__).resolve().parent.parent)
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        with child_stream, child_commands:
            fds = (child_stream.fileno(), child_commands.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rhino_actors.drivers.go2.process", *map(str, fds)],
                env={**os.environ, wire.SETTINGS: settings, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=sys.__stderr__ if _has_descriptor(sys.__stderr__) else None,
                pass_fds=fds,
                start_new_session=True,  # a Ctrl-C is the actor's to handle: it stops the robot first
            )
        self._thread = threading.Thread(target=self._read, name="go2-link", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Process id of the process."""
        return self._process.pid

    def fault(self) -> str | None:
        """Return None while the process runs and is listened to, else what ended."""
        code = self._process.poll()
        if code is not None:
            return f"The process of the robot's link ended, status {code}."
        return (
            "Nothing is read from the process of the robot's link any more."
            if self._ended
            else None
        )

    def send_twist(self, twist: Twist2D) -> None:
        """Send a twist, decided on now. One that cannot be sent at once is lost."""
        self._send(wire.pack_twist(twist, time.monotonic()))

    def request(self, **fields: Any) -> "Future[Any]":
        """Send a request; the future brings the result, or the RhinoError that it led to."""
        future: Future[Any] = Future()
        with self._lock:
            self._last_id += 1
            number = self._last_id
            self._answers[number] = future
        if not self._send(json.dumps({"id": number, **fields}).encode()) or self.fault():
            self._fail(number)
        return future

    def stop(self) -> None:
        """End the process, which stops the robot and disconnects first. Blocks for seconds at worst."""
        with contextlib.suppress(OSError):  # it is gone already
            self._stream.shutdown(socket.SHUT_WR)
        for end in (None, self._process.terminate, self._process.kill):
            if end is not None:
                logger.warning("the process of the robot's link does not end; sending a signal")
                end()
            try:
                self._process.wait(END_GRACE_S)
                break
            except subprocess.TimeoutExpired:
                continue
        self._thread.join(END_GRACE_S)
        self._stream.close()
        self._commands.close()

    def _send(self, datagram: bytes) -> bool:
        try:
            self._commands.send(datagram)
        except (BlockingIOError, OSError) as error:
            logger.warning("the process of the robot's link takes no command: %s", error)
            return False
        return True

    def _read(self) -> None:
        try:
            self._take_all()
        finally:
            with self._lock:
                self._ended = True
                numbers = list(self._answers)
            for number in numbers:
                self._fail(number)

    def _take_all(self) -> None:
        """Take frames until the stream ends."""
        reader = wire.FrameReader()
        while True:
            try:
                data = self._stream.recv(READ_BYTES)
            except OSError:
                data = b""
            if not data:
                return
            for kind, payload in reader.feed(data):
                self._take(kind, payload)

    def _take(self, kind: bytes, payload: bytes) -> None:
        if kind == wire.ODOMETRY:
            self.odometry = wire.unpack_odometry(payload, self._first_seq)
        elif kind == wire.LIDAR:
            self.lidar = (self.lidar[0] + 1, payload)
        elif kind == wire.CAMERA:
            self.camera = (self.camera[0] + 1, payload)
        elif kind == wire.STATE:
            self.state = (time.monotonic(), wire.unpack_state(payload))
        elif kind == wire.ANSWER:
            answer = json.loads(payload)
            future = self._answers.pop(answer["id"], None)
            if future is not None and future.set_running_or_notify_cancel():
                if "error" in answer:
                    name, message, hint = answer["error"]
                    future.set_exception(getattr(errors, name)(message, hint))
                else:
                    future.set_result(answer.get("result"))

    def _fail(self, number: int) -> None:
        future = self._answers.pop(number, None)
        if future is not None and future.set_running_or_notify_cancel():
            future.set_exception(NotConnected("The process of the robot's link has ended."))


def _has_descriptor(stream: Any) -> bool:
    try:
        return stream is not None and stream.fileno() >= 0
    except (OSError, ValueError):
        return False
