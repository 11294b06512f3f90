"""RobotPeer: the simulated robot as a network sees it. Signalling, one client at a time, faults on demand."""

import asyncio
import contextlib
import json
import logging
import math
import socket
import struct
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rhino_actors.drivers.go2 import protocol
from rhino_actors.geometry import compose
from rhino_actors.messages.geometry import Odometry
from rhino_actors.peer.body import Body
from rhino_actors.peer.brain import Brain, Command, Firmware
from rhino_actors.peer.http import serve
from rhino_actors.peer.keys import RobotKeys
from rhino_actors.peer.network import Link
from rhino_actors.peer.session import PeerSession

logger = logging.getLogger(__name__)

OLD_PORT, NEW_PORT = 8081, 9991
HEARTBEAT_LIMIT_S = 15.0  # a client that is silent for so long is gone
GROUP, QUERY_PORT, ANSWER_PORT = "231.1.1.1", 10131, 10134
QUERY_NAME = "unitree_dapengche"


@dataclass(frozen=True)
class PeerOptions:
    """Which robot this is, and how it differs from others."""

    host: str = "127.0.0.1"
    signalling: str = "both"  # old, new or both
    data2: int = 2
    aes_key: str = "00112233445566778899aabbccddeeff"  # with data2 = 3
    firmware: Firmware = field(default_factory=Firmware)
    serial: str = "B42D2000PEER0001"
    fps: float = 30.0
    long_framing: bool = False
    strict: bool = True
    drop_first_switches: int = 0
    saving_blocks_lidar: bool = True
    validation_delay: float = 0.0
    never_validate: bool = False
    response_delay: float = 0.0
    control_port: int = 0  # 0: none


class Faults:
    """What goes wrong now."""

    def __init__(self) -> None:
        self.silent: set[str] = set()  # topics; "*" is all
        self.soc: float | None = None
        self.no_responses = False
        self.no_heartbeat_echo = False
        self.probe_first = False
        self.reject_next = 0  # clients turned away as if another were connected
        self.offset = (0.0, 0.0, 0.0)  # odom shifted against what the body says [m, m, rad]

    def is_silent(self, topic: str) -> bool:
        return topic in self.silent or "*" in self.silent

    def moved(self, odometry: Odometry) -> Odometry:
        """Return odometry after the teleports."""
        if self.offset == (0.0, 0.0, 0.0):
            return odometry
        pose = odometry.pose
        x, y, yaw = compose(self.offset, pose.as_tuple())
        half = yaw / 2.0
        return replace(
            odometry,
            position=(x, y, odometry.position[2]),
            orientation=(0.0, 0.0, math.sin(half), math.cos(half)),
        )


class RobotPeer:
    """A robot on the network. `start` and `close` frame its life."""

    def __init__(self, body: Body, options: PeerOptions | None = None) -> None:
        self.body = body
        self.options = options or PeerOptions()
        self.faults = Faults()
        self.link = Link()
        self.session: PeerSession | None = None
        self.last_brain: Brain | None = None
        self.connects = 0
        self.rejects = 0
        self._keys: RobotKeys | None = None
        self._servers: list[asyncio.Server] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._admitting = asyncio.Lock()

    async def start(self) -> None:
        """Listen. Raises OSError when a port is taken, NotConnected when the body does not start."""
        options = self.options
        self._keys = await asyncio.to_thread(RobotKeys, options.data2, options.aes_key)
        await self.body.start()
        try:
            if options.signalling in ("old", "both"):
                self._servers.append(await serve(options.host, OLD_PORT, self._old))
            if options.signalling in ("new", "both"):
                self._servers.append(await serve(options.host, NEW_PORT, self._new))
            if options.control_port:
                self._servers.append(await serve(options.host, options.control_port, self._control))
        except OSError:
            await self.close()
            raise
        self._tasks.append(asyncio.create_task(self._watch_client()))
        self._tasks.append(asyncio.create_task(self._answer_queries()))

    async def close(self) -> None:
        """End everything; may be called twice."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for server in self._servers:
            server.close()
        self._servers.clear()
        if self.session is not None:
            await self.session.close()
        await self.body.close()

    @property
    def brain(self) -> Brain:
        """What obeys the present client, or obeyed the last. Raises ValueError before the first."""
        if self.last_brain is None:
            raise ValueError("no client was here")
        return self.last_brain

    @property
    def commands(self) -> list[Command]:
        """Everything that the present client, or the last, asked for."""
        return list(self.last_brain.commands) if self.last_brain else []

    def fault(self, kind: str, **values: Any) -> None:
        """Let something go wrong from now on.

        Args:
            kind: impair (loss, delay), silence (topic), speak (topic), freeze_video, thaw_video, soc (value), teleport
                (x, y, yaw), reject_next (count), no_responses, responses, no_heartbeat_echo, probe_first,
                error (source, code), clear_error (source, code), refuse (api_id, code), raw (text), close_channel.
            values: numbers and names that the kind takes.

        Raises:
            ValueError: there is no such kind.
        """
        faults, session = self.faults, self.session
        if kind == "impair":
            self.link.loss = float(values.get("loss", 0.0))
            self.link.delay = float(values.get("delay", 0.0))
        elif kind == "silence":
            faults.silent.add(str(values.get("topic", "*")))
        elif kind == "speak":
            faults.silent.clear()
        elif kind in ("freeze_video", "thaw_video"):
            if session is not None:
                session.video.frozen = kind == "freeze_video"
        elif kind == "soc":
            faults.soc = float(values["value"])
        elif kind == "teleport":
            shift = (values.get("x", 0.0), values.get("y", 0.0), values.get("yaw", 0.0))
            faults.offset = compose(shift, faults.offset)
        elif kind == "reject_next":
            faults.reject_next = int(values.get("count", 1))
        elif kind in ("no_responses", "responses"):
            faults.no_responses = kind == "no_responses"
        elif kind in ("no_heartbeat_echo", "probe_first"):
            setattr(faults, kind, True)
        elif kind in ("error", "clear_error"):
            triple = [int(time.time()), int(values["source"]), int(values["code"])]
            self._say(
                protocol.envelope("add_error" if kind == "error" else "rm_error", data=triple)
            )
        elif kind == "refuse":
            self.brain.refusals[int(values["api_id"])] = int(values["code"])
        elif kind == "raw":
            self._say(values["text"])
        elif kind == "close_channel":
            if session is not None:
                task = asyncio.create_task(session.close())
                self._tasks.append(task)
        else:
            raise ValueError(f"there is no fault {kind!r}")

    def stats(self) -> dict[str, Any]:
        """Return counts for the control port."""
        session = self.session
        last = self.commands[-1] if self.commands else None
        return {
            "connected": session is not None and session.validated,
            "connects": self.connects,
            "rejects": self.rejects,
            "sent": dict(session.sent) if session else {},
            "commands": len(self.commands),
            "last": asdict(last) if last else None,
            "pose": _pose(self.body.odometry()),
            "twist": asdict(self.brain.twist) if self.last_brain else None,
        }

    # inside

    def _say(self, text: str | bytes) -> None:
        if self.session is not None:
            self.session.send(text, "fault")

    async def _old(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        if path != "/offer":
            return 404, ""
        return 200, await self._admit(body.decode())

    async def _new(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        assert self._keys is not None
        if path == "/con_notify":
            return 200, self._keys.notice()
        if path != f"/{self._keys.path}":
            return 404, ""
        offer, key = self._keys.open_offer(body)
        return 200, self._keys.seal_answer(await self._admit(offer), key)

    async def _admit(self, offer: str) -> str:
        """Return the answer to a client's offer: another connection, or "reject"."""
        sdp = json.loads(offer)["sdp"]
        async with self._admitting:
            if self.faults.reject_next > 0 or self.session is not None:
                self.faults.reject_next = max(0, self.faults.reject_next - 1)
                self.rejects += 1
                return json.dumps({"sdp": "reject", "type": "answer"})
            session = PeerSession(self, self.options)
            answer = await session.answer(sdp, self.options.host)
            self.session, self.last_brain = session, session.brain
            self.connects += 1
            return json.dumps({"sdp": answer, "type": "answer"})

    async def _watch_client(self) -> None:
        while True:
            session = self.session
            if session is not None:
                if time.monotonic() - session.heard > HEARTBEAT_LIMIT_S:
                    await session.close()
                if session.closed.is_set():
                    self.session = None
            # The body goes on, also between clients and after one that is gone.
            if self.session is None and self.last_brain is not None:
                self.last_brain.step(time.monotonic())
            await asyncio.sleep(0.02)

    async def _control(self, method: str, path: str, body: bytes) -> tuple[int, str]:
        if path == "/stats":
            return 200, json.dumps(self.stats())
        if path == "/commands":
            return 200, json.dumps([asdict(command) for command in self.commands])
        if path == "/fault" and method == "POST":
            fields = json.loads(body)
            try:
                self.fault(fields.pop("kind", ""), **fields)
            except (ValueError, KeyError, TypeError) as error:
                return 400, json.dumps({"error": str(error)})
            return 200, "{}"
        return 404, "{}"

    async def _answer_queries(self) -> None:
        """Answer the multicast question of clients that look for robots."""
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.closing(sock):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setblocking(False)
            try:
                sock.bind((GROUP, QUERY_PORT))
                interface = socket.inet_aton(self.options.host)
                member = struct.pack("4s4s", socket.inet_aton(GROUP), interface)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            except OSError as error:
                logger.warning("clients cannot discover this peer: %s", error)
                return
            answer = json.dumps({"sn": self.options.serial, "ip": self.options.host}).encode()
            while True:
                question, sender = await loop.sock_recvfrom(sock, 1024)
                with contextlib.suppress(ValueError, OSError, AttributeError):
                    if json.loads(question).get("name") == QUERY_NAME:
                        await loop.sock_sendto(sock, answer, (sender[0], ANSWER_PORT))


def _pose(odometry: Odometry | None) -> list[float] | None:
    return None if odometry is None else list(odometry.pose.as_tuple())
