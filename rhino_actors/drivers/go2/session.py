"""The robot as rhino wants it: connected, subscribed, lidar and video on, and again so after every gap.

Everything runs on one event loop. What arrives goes to a `Sink`; what leaves passes `VelocitySender` or the request
table. `run` keeps the session alive until `close`.
"""

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from aiortc.mediastreams import MediaStreamTrack

from rhino_actors.config import Go2Config
from rhino_actors.drivers.go2 import protocol
from rhino_actors.drivers.go2.connection import Connection, MessageChannel
from rhino_actors.drivers.go2.odometry import OdometryReader
from rhino_actors.drivers.go2.recovery import Decision, LinkPhase, Recovery
from rhino_actors.drivers.go2.request_table import Answer, RequestTable
from rhino_actors.drivers.go2.velocity import Kind, LinkHealth, Outgoing, VelocitySender
from rhino_actors.drivers.go2.video import NewestFrame, drain
from rhino_actors.drivers.platform import SPORT_PARAMETERS
from rhino_actors.errors import ChannelNotOpened, NotConnected, RhinoError
from rhino_actors.geometry import tilt_from_quaternion
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import DriverState, Posture, SportResult

STEP_S = 0.02
SAVING_TIMEOUT_S, SAVING_TRIES = 1.0, 3
FIRST_POSE_S = 5.0
MODE_TIMEOUT_S = 1.5
SPORT_TIMEOUT_S = 8.0
STAND_TIMEOUT_S = 3.0
LIDAR_BURST, LIDAR_GAP_S = 5, 0.1
LIDAR_RETRY_S, LIDAR_ALARM_S = 1.0, 3.0
VIDEO_RETRY_S, VIDEO_ALARM_S = 2.0, 6.0
SILENT_TOPIC_S = 1.0  # of odometry, while other topics arrive
FAREWELL_STOPS, FAREWELL_GAP_S = 3, 0.03
HOT_MOTOR = 75.0  # [deg C]
LOW_BATTERY = 15.0  # [%]

logger = logging.getLogger(__name__)


class Sink(Protocol):
    """Who gets what arrives. Called on the session's loop; must not block."""

    def odometry(self, odometry: Odometry) -> None:
        """A pose arrived."""

    def lidar(self, message: bytes, stamp: float, odometry: Odometry) -> None:
        """A lidar message arrived; `odometry` is the newest before it."""

    def camera(self, jpeg: bytes, width: int, height: int, stamp: float) -> None:
        """A picture is ready."""


class RobotSession:
    """One robot, connected again and again."""

    def __init__(self, config: Go2Config, aes_key: str, sink: Sink) -> None:
        """Prepare; nothing is sent before `run`.

        Args:
            config: with the address.
            aes_key: the robot's own key, or empty.
            sink: gets what arrives.
        """
        self._config = config
        self._aes_key = aes_key
        self._sink = sink
        self._recovery = Recovery(config, time.monotonic())
        self._sender = VelocitySender(config)
        self._requests = RequestTable()
        self._poses = OdometryReader()
        self._connection: Connection | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._attempt: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._outcome: asyncio.Future[None] | None = None
        self._inner: asyncio.Future[dict[str, Any]] | None = None
        self._video = NewestFrame(config, sink.camera)
        self._pose: Odometry | None = None
        self._first_pose = asyncio.Event()
        self._lidar_at = self._lidar_asked = -math.inf
        self._video_asked = self._subscribed_at = -math.inf
        self._ready_at = math.inf
        self._board: protocol.BoardState | None = None
        self._sport: protocol.SportState | None = None
        self._mode = ""
        self._turn = 0  # of the newest sport request, or of the connection's end
        self._refused_move = 0
        self._robot_faults: set[tuple[int, int]] = set()
        self.reconnects = 0

    # life

    async def run(self) -> None:
        """Keep the robot connected until `close`."""
        try:
            while not self._closing.is_set():
                self._step(time.monotonic())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STEP_S):
                        await self._closing.wait()
        finally:
            await self._end()

    async def close(self) -> None:
        """Let `run` end: stop the robot, then disconnect."""
        self._closing.set()

    async def connected(self) -> None:
        """Return when the robot is connected and sends. Raises the error of the next try that fails."""
        if self._is_ready and self._recovery.phase(time.monotonic()) is LinkPhase.CONNECTED:
            return
        if self._outcome is None or self._outcome.done():
            self._outcome = asyncio.get_running_loop().create_future()
            self._outcome.add_done_callback(_seen)
        await asyncio.shield(self._outcome)

    # commands

    def twist(self, twist: Twist2D, stamp: float) -> None:
        """Want a body twist, decided on at `stamp` [s]."""
        now = time.monotonic()
        self._sender.ask(twist, stamp, now)
        self._send_velocity(now)

    async def sport(
        self, command: str, parameters: Mapping[str, float] | None = None
    ) -> SportResult:
        """Carry out a sport command by its name. Raises NotConnected when no answer comes.

        StandUp and Pose are two requests to the robot. The second is not sent when another command came between:
        an e-stop must not be undone.
        """
        number = protocol.sport_commands(self._mode).get(command)
        if number is None:
            mode = self._mode or "this"
            return SportResult(
                command,
                False,
                protocol.NOT_OFFERED,
                f"The firmware's {mode} mode does not offer {command}.",
            )
        self._turn += 1
        turn = self._turn
        self._sender.interrupt()
        given = dict(parameters or {})
        answer = await self.request(protocol.SPORT, number, _sport_parameter(command, given))
        second = ""
        if command == "Pose" and given:
            second = "Euler"  # Pose itself only opens the mode in which it leans the body
        elif command == "StandUp":
            second = (
                "BalanceStand"  # joints are locked, and Move does nothing, until the robot balances
            )
        if second and _is_accepted(answer):
            if second == "BalanceStand":
                await self._until_standing(turn)
            if turn != self._turn:
                why = f"Another command came before {second}."
                return SportResult(command, True, answer.code, why)
            number = protocol.sport_commands(self._mode)[second]
            said = await self.request(protocol.SPORT, number, _sport_parameter(second, given))
            answer = said if second == "Euler" else answer
        if not _is_accepted(answer):
            return SportResult(command, False, answer.code, protocol.code_sentence(answer.code))
        applied, note = _applied(command, given)
        return SportResult(command, True, answer.code, note, applied)

    async def request(
        self, service: str, api_id: int, parameter: Any = None, timeout: float = SPORT_TIMEOUT_S
    ) -> Answer:
        """Send a request to a service of the robot and return the answer. Raises NotConnected."""
        number = self._requests.number()
        self._channel.send(protocol.request(service, api_id, number, parameter))
        try:
            return await self._requests.wait(number, timeout)
        except TimeoutError:
            raise NotConnected(
                f"The robot did not answer a request to {service} within {timeout:g} s.",
                "Look at the robot: it may have carried it out.",
            ) from None

    async def set_device(self, device: str, level: int) -> SportResult:
        """Set the light, the volume or the obstacle avoidance. Raises NotConnected."""
        service, api_id, field = protocol.DEVICE_REQUESTS[device]
        value = level > 0 if device == "obstacle_avoidance" else level
        answer = await self.request(service, api_id, {field: value})
        accepted = answer.code == protocol.OK
        why = "" if accepted else protocol.code_sentence(answer.code)
        return SportResult(device, accepted, answer.code, why)

    # what there is to know

    @property
    def error(self) -> RhinoError | None:
        """Why there is no connection; None while there is one."""
        return self._recovery.error

    def state(self) -> DriverState:
        """Return posture, battery, link and faults."""
        now = time.monotonic()
        phase = self._recovery.phase(now)
        board = self._board
        return DriverState(
            connected=self._is_ready and phase is LinkPhase.CONNECTED,
            posture=self._posture(),
            battery=board.battery if board else 0.0,
            voltage=board.voltage if board else 0.0,
            camera=self._camera_word(now),
            link=self._link_word(phase),
            faults=tuple(self._faults(now, phase)),
            low_state=board.low_state if board else None,
        )

    @property
    def _is_ready(self) -> bool:
        return self._recovery.is_open and math.isfinite(self._ready_at)

    @property
    def _channel(self) -> MessageChannel:
        if self._connection is None:
            raise NotConnected()
        return self._connection.channel

    def _posture(self) -> Posture:
        if self._pose is None:
            return Posture.CHANGING
        tilt = tilt_from_quaternion(*self._pose.orientation)
        return protocol.posture_of(self._sport, self._pose.position[2], tilt)

    def _link_word(self, phase: LinkPhase) -> str:
        if phase is LinkPhase.CONNECTED:
            return "ok" if self._is_ready else "connecting"
        return "connecting" if phase is LinkPhase.CONNECTING else "lost"

    def _camera_word(self, now: float) -> str:
        if not self._config.camera:
            return "off: go2.camera is false"
        if not self._is_ready:
            return "off: not connected"
        if now - self._video.seen <= VIDEO_RETRY_S:
            return "video of the robot"
        return "waiting for the robot's video"

    def _faults(self, now: float, phase: LinkPhase) -> list[str]:
        found = []
        if phase is LinkPhase.LOST:
            found.append(
                f"Nothing arrives from the robot since {self._recovery.silence(now):.0f} s."
                " It stops by itself; is it in range of the network?"
            )
        if phase is LinkPhase.CONNECTED and self._is_ready:
            found += self._sensor_faults(now)
        for source, code in sorted(self._robot_faults):
            found += protocol.fault_sentences(source, code)
        board = self._board
        if board and board.battery < LOW_BATTERY:
            found.append(f"The battery is at {board.battery:.0f} %: bring the robot home.")
        if board and board.temperature > HOT_MOTOR:
            found.append(f"A motor has {board.temperature:.0f} degrees: let the robot rest.")
        return found

    def _sensor_faults(self, now: float) -> list[str]:
        found = []
        if self._pose is None or now - self._pose.stamp > SILENT_TOPIC_S:
            found.append("The robot sends no odometry; rhino asks for it again. It does not move.")
        if now - max(self._lidar_at, self._ready_at) > LIDAR_ALARM_S:
            found.append(
                "The lidar sends nothing though it was switched on. Is it turned off in the app,"
                " or covered? rhino keeps switching it on."
            )
        if self._config.camera and now - max(self._video.seen, self._ready_at) > VIDEO_ALARM_S:
            found.append("The robot sends no video; rhino asks for it again.")
        if self._refused_move:
            found.append(
                "The robot refuses to move: "
                f"{protocol.code_sentence(self._refused_move)} StandUp or BalanceStand may help."
            )
        return found

    # each step

    def _step(self, now: float) -> None:
        decision = self._recovery.decide(now)
        if decision is Decision.CONNECT:
            self._recovery.started()
            self._attempt = self._spawn(self._connect())
        elif decision is Decision.DROP:
            logger.error("nothing arrives from the robot: connecting anew")
            self._drop(NotConnected("The link to the robot was lost."), now)
        elif self._recovery.is_open and self._connection and self._connection.is_gone:
            logger.error("the robot closed the connection")
            self._drop(NotConnected("The robot closed the connection."), now)
        self._send_velocity(now)
        if self._is_ready:
            self._keep_streams(now)

    def _keep_streams(self, now: float) -> None:
        """Ask again for what should come and does not."""
        if now - self._lidar_at > LIDAR_RETRY_S and now - self._lidar_asked > LIDAR_RETRY_S:
            self._lidar_asked = now
            self._spawn(self._switch_lidar_on())
        silent = self._pose is None or now - self._pose.stamp > SILENT_TOPIC_S
        if silent and now - self._subscribed_at > SILENT_TOPIC_S:
            self._subscribe(now)
        last_video = max(self._video.seen, self._video_asked)
        if self._config.camera and now - last_video > VIDEO_RETRY_S:
            self._video_asked = now
            self._try_send(protocol.envelope("vid", data="off"))
            self._try_send(protocol.envelope("vid", data="on"))

    def _send_velocity(self, now: float) -> None:
        up = self._recovery.is_open and self._recovery.phase(now) is LinkPhase.CONNECTED
        age = math.inf if self._pose is None else now - self._pose.stamp
        buffered = self._channel.buffered if up and self._connection else 0
        for outgoing in self._sender.step(now, LinkHealth(up, age, buffered)):
            try:
                self._send_one(outgoing)
            except (NotConnected, ValueError) as error:
                logger.warning("a velocity could not be sent: %s", error)

    def _send_one(self, outgoing: Outgoing) -> None:
        if outgoing.kind is Kind.STOP:
            number = self._requests.number()
            text = protocol.request(protocol.SPORT, protocol.STOP_MOVE, number)
            self._channel.send_expiring(text, self._config.command_max_age_s)
        self.send_once(self._config.velocity_api, outgoing.twist)

    def send_once(self, velocity_api: str, twist: Twist2D) -> None:
        """Send one velocity, not repeated and not guarded: for calibration. Raises NotConnected."""
        config = self._config
        if velocity_api == "joystick":
            text = protocol.envelope("msg", protocol.JOYSTICK_TOPIC, sticks(config, twist))
        else:
            parameter = protocol.move_parameter(
                config.scale_vx * twist.vx,
                config.scale_vy * twist.vy,
                config.scale_omega * twist.omega,
            )
            number = self._requests.number()
            text = protocol.request(protocol.SPORT, protocol.MOVE, number, parameter)
        self._channel.send_expiring(text, config.command_max_age_s)

    # connecting

    async def _connect(self) -> None:
        connection = Connection(
            self._config.robot_ip,
            self._aes_key,
            budget=self._config.connect_timeout_s,
            on_message=self._on_message,
            on_binary=self._on_binary,
            on_track=self._on_track,
        )
        try:
            await connection.connect()
            self._connection = connection
            self._poses.restart()
            self._sender.lost()
            await self._prepare()
        except Exception as error:  # whatever it was, the next try must come
            known = error if isinstance(error, RhinoError) else _unexpected(error)
            self._connection = None
            await connection.disconnect()
            self._recovery.failed(known, time.monotonic())
            self._settle_outcome(known)
            logger.error("cannot connect to the robot: %s", known)
        else:
            self._ready_at = time.monotonic()
            self._recovery.opened(self._ready_at)
            self.reconnects += 1
            self._settle_outcome(None)
            logger.info("connected to the robot at %s", self._config.robot_ip)

    async def _prepare(self) -> None:
        """Have the robot stand still and send; the order matters to it."""
        self._first_pose.clear()
        self._pose = None
        stop = protocol.request(protocol.SPORT, protocol.STOP_MOVE, self._requests.number())
        self._channel.send(stop)
        await self._end_traffic_saving()
        self._subscribe(time.monotonic())
        try:
            async with asyncio.timeout(FIRST_POSE_S):
                await self._first_pose.wait()
        except TimeoutError:
            raise ChannelNotOpened(
                f"The robot is connected but sent no odometry within {FIRST_POSE_S:.0f} s.",
                "Its motion service may still be starting: wait a minute, or restart the robot.",
            ) from None
        self._mode = await self._read_mode()
        if self._config.obstacle_avoidance != "keep":
            wanted = int(self._config.obstacle_avoidance == "on")
            await self.set_device("obstacle_avoidance", wanted)
        self._lidar_asked = time.monotonic()
        self._spawn(self._switch_lidar_on())
        if self._config.camera:
            self._video_asked = time.monotonic()
            self._channel.send(protocol.envelope("vid", data="on"))

    async def _end_traffic_saving(self) -> None:
        """Ask for everything: with traffic saving the robot holds the lidar back."""
        data = {"req_type": "disable_traffic_saving", "instruction": "on"}
        for _ in range(SAVING_TRIES):
            self._inner = asyncio.get_running_loop().create_future()
            self._channel.send(protocol.envelope("rtc_inner_req", data=data))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SAVING_TIMEOUT_S):
                    await self._inner
                    return
        logger.warning("the robot does not confirm that it stops saving traffic")

    def _subscribe(self, now: float) -> None:
        self._subscribed_at = now
        for topic in protocol.SUBSCRIBED:
            self._try_send(protocol.envelope("subscribe", topic))

    async def _switch_lidar_on(self) -> None:
        """Switch it on, several times: robots are reported to miss the first."""
        asked = time.monotonic()
        for _ in range(LIDAR_BURST):
            if self._lidar_at >= asked:
                return
            self._try_send(protocol.envelope("msg", protocol.LIDAR_SWITCH_TOPIC, "ON"))
            await asyncio.sleep(LIDAR_GAP_S)

    async def _read_mode(self) -> str:
        """Return the mode of the motion switcher, or empty where there is none, as in old firmware."""
        try:
            answer = await self.request(
                protocol.MOTION_SWITCHER, protocol.CHECK_MODE, timeout=MODE_TIMEOUT_S
            )
            return str(json.loads(answer.data)["name"])
        except (NotConnected, ValueError, KeyError, TypeError):
            return ""

    async def _until_standing(self, turn: int) -> None:
        """Wait for the robot to stand; no longer than no other sport command comes."""
        give_up = time.monotonic() + STAND_TIMEOUT_S
        while (
            turn == self._turn
            and self._posture() is not Posture.STANDING
            and time.monotonic() < give_up
        ):
            await asyncio.sleep(STEP_S)

    def _drop(self, error: RhinoError, now: float) -> None:
        connection, self._connection = self._connection, None
        self._ready_at = math.inf
        self._recovery.closed(error, now)
        self._turn += 1
        self._requests.fail_all()
        self._sender.lost()
        if connection is not None:
            self._spawn(connection.disconnect())

    def _settle_outcome(self, error: RhinoError | None) -> None:
        outcome, self._outcome = self._outcome, None
        if outcome is None or outcome.done():
            return
        if error is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(error)

    async def _end(self) -> None:
        """Stop the robot and disconnect, so that the next client finds it free."""
        self._settle_outcome(NotConnected("The driver was closed."))
        connection, self._connection = self._connection, None
        if self._attempt is not None:
            self._attempt.cancel()
        if connection is not None:
            with contextlib.suppress(NotConnected):
                for _ in range(FAREWELL_STOPS):
                    number = self._requests.number()
                    connection.channel.send(
                        protocol.request(protocol.SPORT, protocol.STOP_MOVE, number)
                    )
                    await asyncio.sleep(FAREWELL_GAP_S)
                connection.channel.send(protocol.envelope("vid", data="off"))
                await asyncio.sleep(FAREWELL_GAP_S)
            await connection.disconnect()
        self._requests.fail_all()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # what arrives

    def _on_message(self, message: dict[str, Any]) -> None:
        now = time.monotonic()
        self._recovery.heard(now)
        kind, topic, data = message.get("type"), message.get("topic"), message.get("data")
        try:
            if kind == "msg":
                self._on_topic(topic, data, now)
            elif kind == "res":
                answered = self._requests.answered(data)
                if answered is not None and answered[0] == protocol.MOVE:
                    self._refused_move = answered[1]
            elif kind == "rtc_inner_req":
                self._on_inner(message.get("info"))
            elif kind in ("add_error", "rm_error", "errors"):
                self._on_fault(str(kind), data)
        except protocol.MessageError as error:
            logger.debug("a message of the robot was dropped: %s", error)

    def _on_topic(self, topic: Any, data: Any, now: float) -> None:
        if topic == protocol.POSE_TOPIC:
            odometry = self._poses.read(protocol.read_pose(data), now)
            if odometry is not None:
                self._pose = odometry
                self._first_pose.set()
                self._sink.odometry(odometry)
        elif topic == protocol.LOW_STATE_TOPIC:
            self._board = protocol.read_low_state(data)
        elif topic == protocol.SPORT_STATE_TOPIC:
            self._sport = protocol.read_sport_state(data)

    def _on_inner(self, info: Any) -> None:
        waits = self._inner is not None and not self._inner.done()
        if waits and isinstance(info, dict) and info.get("execution") == "ok":
            assert self._inner is not None
            self._inner.set_result(info)

    def _on_fault(self, kind: str, data: Any) -> None:
        faults = {(source, code) for _, source, code in protocol.fault_list(data)}
        if kind == "add_error":
            self._robot_faults |= faults
        elif kind == "rm_error":
            self._robot_faults -= faults
        else:
            self._robot_faults = faults

    def _on_binary(self, message: bytes) -> None:
        now = time.monotonic()
        self._recovery.heard(now)
        self._lidar_at = now
        if self._pose is not None:
            self._sink.lidar(message, now, self._pose)

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._spawn(self._video.read(track) if track.kind == "video" else drain(track))

    # small things

    def _try_send(self, text: str) -> None:
        with contextlib.suppress(NotConnected):
            self._channel.send(text)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the session with the robot failed", exc_info=error)


def _unexpected(error: Exception) -> ChannelNotOpened:
    logger.error("connecting failed in a way that nobody foresaw", exc_info=error)
    return ChannelNotOpened(f"The connection did not come about: {error!r}.")


def _seen(outcome: asyncio.Future[None]) -> None:
    """Take a failure that nobody waits for any more."""
    if not outcome.cancelled():
        outcome.exception()


def sticks(config: Go2Config, twist: Twist2D) -> dict[str, float]:
    """Return the remote control's sticks for a twist, each in -1 to 1."""

    def stick(value: float) -> float:
        return max(-1.0, min(1.0, value))

    return {
        "lx": stick(config.stick_vy * twist.vy),
        "ly": stick(config.stick_vx * twist.vx),
        "rx": stick(config.stick_omega * twist.omega),
        "ry": 0.0,
        "keys": 0,
    }


def _is_accepted(answer: Answer) -> bool:
    return answer.code in (protocol.OK, protocol.ALREADY_SO)


def _applied(command: str, given: dict[str, float]) -> tuple[dict[str, float], str]:
    """Return the parameters as the robot takes them, and a sentence on what it does not."""
    known = SPORT_PARAMETERS["Euler"] if command in SPORT_PARAMETERS else ()
    applied = {name: value if name in known else 0.0 for name, value in given.items()}
    left_out = [name for name, value in given.items() if value != applied[name]]
    return applied, f"The robot does not take {', '.join(left_out)}." if left_out else ""


def _sport_parameter(command: str, given: dict[str, float]) -> Any:
    """Return what the robot wants beside the command's number."""
    if command == "Euler":
        return {
            "x": given.get("roll", 0.0),
            "y": given.get("pitch", 0.0),
            "z": given.get("yaw", 0.0),
        }
    if command == "Pose":
        return {"data": True}
    return None
