"""One client's connection to the peer: validation, subscriptions, streams, requests."""

import asyncio
import contextlib
import json
import logging
import math
import secrets
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from aiortc import RTCDataChannel, RTCPeerConnection, RTCRtpSender, RTCSessionDescription

from rhino_actors.drivers.go2 import protocol
from rhino_actors.drivers.go2.addresses import offer_only
from rhino_actors.geometry import roll_pitch_from_quaternion
from rhino_actors.messages.geometry import Odometry
from rhino_actors.messages.platform import Posture
from rhino_actors.peer.brain import Brain
from rhino_actors.peer.video import CameraTrack

if TYPE_CHECKING:
    from rhino_actors.peer.server import PeerOptions, RobotPeer

logger = logging.getLogger(__name__)

POSE_HZ, LOW_STATE_HZ, SPORT_STATE_HZ, MULTIPLE_STATE_HZ, STEP_HZ = 20.0, 50.0, 20.0, 1.0, 50.0
LIDAR_POLL_HZ = 30.0
CONGESTION = 1_000_000  # [bytes] waiting above which streams are dropped, as a radio would
SHORT_HEAD, LONG_HEAD = struct.Struct("<2H"), struct.Struct("<2H2I")
MODES = {
    Posture.STANDING: 1,
    Posture.LYING: 5,
    Posture.SITTING: 10,
    Posture.DAMPED: 7,
    Posture.CHANGING: 8,
    Posture.FALLEN: 7,
}


class PeerSession:
    """A connected client. `closed` is set when it is gone."""

    def __init__(self, peer: "RobotPeer", options: "PeerOptions") -> None:
        self._peer = peer
        self._options = options
        self._key = secrets.token_hex(8)
        self._channel: RTCDataChannel | None = None
        self._topics: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._switches = 0
        self._saves_traffic = True
        self.lidar_on = False
        self.validated = False
        self.heard = time.monotonic()  # the last heartbeat
        self.closed = asyncio.Event()
        self.sent: Counter[str] = Counter()
        self.brain = Brain(peer.body, options.firmware)
        self.video = CameraTrack(peer.body.picture, options.fps)
        self.pc = RTCPeerConnection()

    async def answer(self, offer: str, host: str) -> str:
        """Return the answer to an offer. Raises ValueError for one that the robot would not take."""
        if self._options.strict:
            check_offer(offer)
        pc = self.pc
        pc.on("datachannel", self._on_channel)
        pc.on("connectionstatechange", self._on_state)
        await pc.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        for transceiver in pc.getTransceivers():
            if transceiver.kind == "video":
                capabilities = RTCRtpSender.getCapabilities("video").codecs
                transceiver.setCodecPreferences(
                    [codec for codec in capabilities if codec.mimeType == "video/H264"]
                )
                transceiver.direction = "sendonly"
                transceiver.sender.replaceTrack(self.video)
        offer_only(host)
        await pc.setLocalDescription(await pc.createAnswer())
        self._peer.link.attach(pc)
        return str(pc.localDescription.sdp)

    async def close(self) -> None:
        """End the connection."""
        if self.closed.is_set():
            return
        self.closed.set()
        for task in list(self._tasks):
            task.cancel()
        self.video.stop()
        await self.pc.close()

    def send(self, text: str | bytes, what: str) -> None:
        """Send, unless the channel is not open, or so much waits that a radio would drop it."""
        channel = self._channel
        if channel is None or channel.readyState != "open" or channel.bufferedAmount > CONGESTION:
            return
        channel.send(text)
        self.sent[what] += 1

    # what comes in

    def _on_channel(self, channel: RTCDataChannel) -> None:
        self._channel = channel
        channel.on("message", self._on_message)
        if not self._options.never_validate:
            self._spawn(self._ask_validation())

    async def _on_state(self) -> None:
        if self.pc.connectionState in ("closed", "failed"):
            await self.close()

    async def _ask_validation(self) -> None:
        await asyncio.sleep(self._options.validation_delay)
        while not self.validated:
            self.send(protocol.envelope("validation", data=self._key), "validation")
            await asyncio.sleep(1.0)

    def _on_message(self, message: str | bytes) -> None:
        try:
            fields = json.loads(message)
            kind, topic, data = fields["type"], fields.get("topic", ""), fields.get("data")
        except (ValueError, KeyError, TypeError):
            return
        if kind == "validation":
            self._validate(data)
        elif not self.validated:
            self.send(json.dumps({"type": "err", "topic": "", "info": "Validation Needed."}), "err")
        elif kind == "heartbeat":
            self.heard = time.monotonic()
            if not self._peer.faults.no_heartbeat_echo:
                self.send(protocol.envelope("heartbeat", data=data), "heartbeat")
        elif kind == "subscribe":
            self._topics.add(topic)
        elif kind == "unsubscribe":
            self._topics.discard(topic)
        elif kind == "vid":
            (self.video.enabled.set if data == "on" else self.video.enabled.clear)()
        elif kind == "msg":
            self._take(topic, data)
        elif kind == "req":
            self._spawn(self._respond(topic, data))
        elif kind == "rtc_inner_req":
            self._inner(data)

    def _validate(self, data: Any) -> None:
        if data != protocol.validation_answer(self._key):
            self.send(json.dumps({"type": "err", "topic": "", "info": "Validation Needed."}), "err")
            return
        if not self.validated:
            self.validated = True
            self.heard = time.monotonic()
            for work in (self._stream_states, self._stream_lidar, self._drive):
                self._spawn(work())
        self.send(protocol.envelope("validation", data="Validation Ok."), "validation")

    def _take(self, topic: str, data: Any) -> None:
        if topic == protocol.LIDAR_SWITCH_TOPIC:
            self._switches += 1
            if self._switches > self._options.drop_first_switches:
                self.lidar_on = str(data).lower() == "on"
        elif topic == protocol.JOYSTICK_TOPIC:
            self.brain.joystick(data, time.monotonic())

    def _inner(self, data: Any) -> None:
        if not isinstance(data, dict):
            return
        info = {"req_type": data.get("req_type"), "uuid": data.get("uuid")}
        if data.get("req_type") == "disable_traffic_saving":
            if self._peer.faults.probe_first:
                probe = {"req_type": "rtt_probe_send_from_mechine", "stamp": time.time()}
                self._send_inner(probe)
            self._saves_traffic = data.get("instruction") != "on"
            info["execution"] = "ok"
        elif data.get("req_type") == "public_network_status":
            info["status"] = "NetworkStatus.ON_WIFI_CONNECTED"
        else:
            return
        self._send_inner(info)

    def _send_inner(self, info: dict[str, Any]) -> None:
        self.send(json.dumps({"type": "rtc_inner_req", "topic": "", "info": info}), "rtc_inner_req")

    async def _respond(self, topic: str, data: Any) -> None:
        words = topic.split("/")
        try:
            identity = data["header"]["identity"]
            number, api_id = int(identity["id"]), int(identity["api_id"])
            service = words[2]
        except (KeyError, TypeError, ValueError, IndexError):
            return
        code, text = await self.brain.request(
            service, number, api_id, data.get("parameter", ""), time.monotonic(), time.time()
        )
        if self._peer.faults.no_responses:
            return
        await asyncio.sleep(self._options.response_delay)
        header = {"identity": {"api_id": api_id, "id": number}, "status": {"code": code}}
        self.send(
            protocol.envelope(
                "res", protocol.response_topic(service), {"header": header, "data": text}
            ),
            "res",
        )

    # what goes out

    async def _drive(self) -> None:
        while True:
            self.brain.step(time.monotonic())
            await asyncio.sleep(1.0 / STEP_HZ)

    async def _stream_states(self) -> None:
        streams: tuple[tuple[float, str, Callable[[], Any]], ...] = (
            (POSE_HZ, protocol.POSE_TOPIC, self._pose),
            (LOW_STATE_HZ, protocol.LOW_STATE_TOPIC, self._low_state),
            (SPORT_STATE_HZ, protocol.SPORT_STATE_TOPIC, self._sport_state),
            (MULTIPLE_STATE_HZ, protocol.MULTIPLE_STATE_TOPIC, self._multiple_state),
        )
        await asyncio.gather(*(self._stream(*stream) for stream in streams))

    async def _stream(self, rate: float, topic: str, make: Callable[[], Any]) -> None:
        due = time.monotonic()
        while True:
            if topic in self._topics and not self._peer.faults.is_silent(topic):
                data = make()
                if data is not None:
                    self.send(protocol.envelope("msg", topic, data), topic)
            due = max(due + 1.0 / rate, time.monotonic())
            await asyncio.sleep(due - time.monotonic())

    async def _stream_lidar(self) -> None:
        seen, topic = 0, protocol.LIDAR_TOPIC
        while True:
            await asyncio.sleep(1.0 / LIDAR_POLL_HZ)
            held_back = self._saves_traffic and self._options.saving_blocks_lidar
            silent = held_back or self._peer.faults.is_silent(topic)
            if topic not in self._topics or not self.lidar_on or silent:
                continue
            frame = self._peer.body.voxels(seen)
            if frame is None:
                continue
            seen, message = frame.seq, frame.message
            self.send(reframed(message) if self._options.long_framing else message, topic)

    def _pose(self) -> dict[str, Any] | None:
        odometry = self._odometry()
        if odometry is None:
            return None
        x, y, z = odometry.position
        qx, qy, qz, qw = odometry.orientation
        return {
            "header": {"stamp": _stamp(), "frame_id": "odom"},
            "pose": {
                "position": {"x": round(x, 6), "y": round(y, 6), "z": round(z, 6)},
                "orientation": {
                    "x": round(qx, 6),
                    "y": round(qy, 6),
                    "z": round(qz, 6),
                    "w": round(qw, 6),
                },
            },
        }

    def _odometry(self) -> Odometry | None:
        odometry = self._peer.body.odometry()
        return None if odometry is None else self._peer.faults.moved(odometry)

    def _low_state(self) -> dict[str, Any]:
        state = self._peer.body.state()
        low = state.low_state
        odometry = self._peer.body.odometry()
        roll, pitch = roll_pitch_from_quaternion(*odometry.orientation) if odometry else (0.0, 0.0)
        joints = low.joint_angles if low and low.joint_angles else (0.0, 0.8, -1.5) * 4
        soc = self._peer.faults.soc
        motors = [
            {
                "q": round(q, 6),
                "temperature": 33 + index % 3,
                "lost": 0,
                "reserve": [0, 674],
            }
            for index, q in enumerate(joints)
        ]
        motors += [{"q": 0, "temperature": 0, "lost": 0, "reserve": [0, 0]}] * 8
        yaw = odometry.pose.yaw if odometry else 0.0
        return {
            "imu_state": {"rpy": [round(roll, 6), round(pitch, 6), round(yaw, 6)]},
            "motor_state": motors,
            "bms_state": {
                "version_high": 1,
                "version_low": 18,
                "soc": round(state.battery if soc is None else soc),
                "current": -2481,
                "cycle": 56,
                "bq_ntc": [30, 29],
                "mcu_ntc": [33, 32],
            },
            "foot_force": [97, 84, 81, 81],
            "temperature_ntc1": 48,
            "power_v": round(state.voltage or 28.3, 6),
        }

    def _sport_state(self) -> dict[str, Any]:
        state, odometry = self._peer.body.state(), self._odometry()
        twist = self.brain.twist
        height = odometry.position[2] if odometry else 0.32
        return {
            "stamp": _stamp(),
            "error_code": 100,
            "imu_state": {
                "quaternion": [1.0, 0.0, 0.0, 0.0],
                "gyroscope": [0.0, 0.0, 0.0],
                "accelerometer": [0.0, 0.0, 9.81],
                "rpy": [0.0, 0.0, 0.0],
                "temperature": 76,
            },
            "mode": 3 if not twist.is_zero else MODES[state.posture],
            "progress": 0,
            "gait_type": 0 if twist.is_zero else 1,
            "foot_raise_height": 0.09,
            "position": list(odometry.position) if odometry else [0.0, 0.0, 0.32],
            "body_height": height,
            "velocity": [twist.vx, twist.vy, 0.0],
            "yaw_speed": twist.omega,
            "range_obstacle": [0.0] * 4,
            "foot_force": [97, 84, 81, 81],
            "foot_position_body": [0.0] * 12,
            "foot_speed_body": [0.0] * 12,
        }

    def _multiple_state(self) -> str:
        return json.dumps(
            {
                "volume": self.brain.volume,
                "brightness": self.brain.brightness,
                "obstaclesAvoidSwitch": False,
                "uwbSwitch": False,
                "bodyHeight": 0.0,
                "speedLevel": 0,
                "footRaiseHeight": 0.0,
            }
        )

    def _spawn(self, work: Awaitable[None]) -> None:
        async def run() -> None:
            with contextlib.suppress(ConnectionError):
                await work

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the peer's session failed", exc_info=error)


def reframed(message: bytes) -> bytes:
    """Return a lidar message with the long head, from one with the short."""
    length, _ = SHORT_HEAD.unpack_from(message)
    return LONG_HEAD.pack(2, 0, length, 0) + message[SHORT_HEAD.size :]


def check_offer(offer: str) -> None:
    """Raise ValueError for an offer that real robots are reported to choke on."""
    lines = offer.splitlines()
    names = {line for line in lines if line.startswith("a=ice-ufrag:")}
    if len(names) != 1:
        raise ValueError(f"{len(names)} ufrags")
    if any(line.startswith("a=fingerprint:") and "sha-256" not in line for line in lines):
        raise ValueError("fingerprints other than sha-256")
    if not any(line.startswith("m=application") and "UDP/DTLS/SCTP" in line for line in lines):
        raise ValueError("the old form of SCTP")


def _stamp() -> dict[str, int]:
    fraction, whole = math.modf(time.time())
    return {"sec": int(whole), "nanosec": int(fraction * 1e9)}
