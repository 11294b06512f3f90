"""The process that holds the connection to the robot.

Started by `link.py` as `python -m rhino_actors.drivers.go2.process STREAM_FD DATAGRAM_FD`. In a process of its own,
so that video and encryption cost the actor nothing, and so that an actor that dies in whatever way leaves somebody
who stops the robot and disconnects: the stream's end tells it.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from rhino_actors.config import Go2Config
from rhino_actors.drivers.go2 import wire
from rhino_actors.drivers.go2.session import RobotSession
from rhino_actors.errors import PlatformError, RhinoError
from rhino_actors.messages.geometry import Odometry

STATE_PERIOD_S = 0.1
MAX_WAITING = (
    2_000_000  # [bytes] for a parent that does not read; lidar and pictures are dropped then
)
MAX_DATAGRAM = 65_536

logger = logging.getLogger(__name__)


class Upward:
    """The stream to the actor, as the session's sink."""

    def __init__(self, writer: asyncio.StreamWriter, config: Go2Config) -> None:
        self._writer = writer
        self._mount = np.array((config.lidar_x, 0.0, config.lidar_z))

    def odometry(self, odometry: Odometry) -> None:
        self.send(wire.ODOMETRY, wire.pack_odometry(odometry))

    def lidar(self, message: bytes, stamp: float, odometry: Odometry) -> None:
        place = np.array(odometry.position) + rotated(odometry.orientation, self._mount)
        x, y, z = place.tolist()
        self.send(wire.LIDAR, wire.pack_lidar(message, stamp, odometry.pose, (x, y, z)))

    def camera(self, jpeg: bytes, width: int, height: int, stamp: float) -> None:
        self.send(wire.CAMERA, wire.pack_camera(jpeg, width, height, stamp))

    def send(self, kind: bytes, payload: bytes) -> None:
        """Send a frame, unless so much waits that it would be stale."""
        transport = self._writer.transport
        is_bulk = kind in (wire.LIDAR, wire.CAMERA)
        if not transport.is_closing() and not (
            is_bulk and transport.get_write_buffer_size() > MAX_WAITING
        ):
            self._writer.write(wire.frame(kind, payload))


class RobotProcess:
    """Carries out what the actor asks, until it is gone."""

    def __init__(self, session: RobotSession, upward: Upward, commands: socket.socket) -> None:
        self._session = session
        self._upward = upward
        self._commands = commands
        self._tasks: set[asyncio.Task[None]] = set()

    def read_commands(self) -> None:
        """Take every datagram that waits."""
        while True:
            try:
                datagram = self._commands.recv(MAX_DATAGRAM)
            except BlockingIOError:
                return
            if datagram[:1] == wire.TWIST:
                self._session.twist(*wire.unpack_twist(datagram))
            elif datagram:
                task = asyncio.create_task(self._answer(json.loads(datagram)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def tell_state(self) -> None:
        """Send the state again and again."""
        while True:
            self._upward.send(wire.STATE, wire.pack_state(self._session.state()))
            await asyncio.sleep(STATE_PERIOD_S)

    async def _answer(self, request: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"id": request["id"]}
        try:
            answer["result"] = await self._carry_out(request)
        except Exception as error:  # whatever it was, the actor waits for an answer
            known = error if isinstance(error, RhinoError) else _unexpected(request, error)
            answer["error"] = [type(known).__name__, known.message, known.hint]
        # What the answer leads to is known before the answer.
        self._upward.send(wire.STATE, wire.pack_state(self._session.state()))
        self._upward.send(wire.ANSWER, json.dumps(answer).encode())

    async def _carry_out(self, request: dict[str, Any]) -> Any:
        match request["op"]:
            case "connect":
                await self._session.connected()
                return None
            case "sport":
                result = await self._session.sport(request["command"], request["parameters"])
                return asdict(result)
            case "device":
                result = await self._session.set_device(request["device"], request["level"])
                return asdict(result)
            case other:
                raise ValueError(f"no operation {other!r}")


def _unexpected(request: dict[str, Any], error: Exception) -> PlatformError:
    logger.error("%r failed in a way that nobody foresaw", request.get("op"), exc_info=error)
    return PlatformError(f"The driver of the robot failed: {error!r}.", "See the log: rhino logs.")


def rotated(orientation: tuple[float, float, float, float], vector: np.ndarray) -> np.ndarray:
    """Return a vector (3,) turned by a quaternion x, y, z, w."""
    axis, w = np.array(orientation[:3]), orientation[3]
    turned: np.ndarray = vector + 2.0 * np.cross(axis, np.cross(axis, vector) + w * vector)
    return turned


async def run(stream_fd: int, datagram_fd: int) -> None:
    """Hold the connection until the actor closes the stream, or SIGTERM."""
    settings = json.loads(os.environ.pop(wire.SETTINGS))
    config = Go2Config(**settings["go2"])
    stream = socket.socket(fileno=stream_fd)
    commands = socket.socket(fileno=datagram_fd)
    commands.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=stream)
    session = RobotSession(config, settings["aes_key"], upward := Upward(writer, config))
    process = RobotProcess(session, upward, commands)
    loop = asyncio.get_running_loop()
    loop.add_reader(commands, process.read_commands)
    ending = asyncio.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, ending.set)
    running = asyncio.create_task(session.run())
    telling = asyncio.create_task(process.tell_state())
    gone = asyncio.create_task(reader.read())
    told = asyncio.create_task(ending.wait())
    await asyncio.wait({running, gone, told}, return_when=asyncio.FIRST_COMPLETED)
    await session.close()
    telling.cancel()
    try:
        await running
    finally:
        loop.remove_reader(commands)
        commands.close()
        gone.cancel()
        told.cancel()
        writer.close()


def main() -> None:
    """Entry point."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # The libraries tell every packet and every status at this level.
    for name in ("root", "aioice", "aiortc", "libav"):
        logging.getLogger(None if name == "root" else name).setLevel(logging.WARNING)
    logging.getLogger("rhino_actors").setLevel(logging.INFO)
    # Pictures are made in threads beside the loop; a stop must not wait its turn for 5 ms at each of them.
    sys.setswitchinterval(0.001)
    asyncio.run(run(int(sys.argv[1]), int(sys.argv[2])))


if __name__ == "__main__":
    main()
