"""The real Go2 behind the `Platform` protocol. A process of its own holds the connection."""

import asyncio
import dataclasses
import logging
import os
import time
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from rhino_actors.config import Go2Config, PathsConfig, RobotConfig
from rhino_actors.drivers.go2 import wire
from rhino_actors.drivers.go2.calibration import (
    VELOCITY_APIS,
    apply_calibration,
    load_calibration,
)
from rhino_actors.drivers.go2.lidar import read_voxel_message
from rhino_actors.drivers.go2.link import RobotLink
from rhino_actors.drivers.go2.voxel_kernel import warm_up
from rhino_actors.drivers.platform import check_command, check_device, check_parameters
from rhino_actors.errors import ConfigError, LidarDecodeError, NotConnected
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import DriverState, Posture, SportResult
from rhino_actors.messages.sensors import CameraFrame, LidarFrame, LidarKind

KEY_VARIABLE = "RHINO_GO2_AES_KEY"
ANSWER_TIMEOUT_S = 25.0  # longer than the robot is waited for
# The longest pause between two tries, and a try beside its wait for the channel: signalling, first pose, mode.
CONNECT_TIMEOUT_S = 60.0 + 35.0
STATE_LIMIT_S = 1.0  # without a state from the process, after which nothing of it is believed
AVOIDANCE = ("keep", "on", "off")

logger = logging.getLogger(__name__)


class Go2Platform:
    """A Go2 over its own WebRTC. All methods belong to one thread; the getters never wait."""

    simulated = False

    def __init__(
        self, config: Go2Config, robot: RobotConfig, paths: PathsConfig | None = None
    ) -> None:
        """Check the configuration; nothing is started.

        Args:
            config: address, key, velocity.
            robot: whose name the calibration is stored under.
            paths: where it is stored.

        Raises:
            ConfigError: a value that is not known, or the `go2` extra is not installed.
        """
        check_config(config)
        if config.calibrated:
            config = apply_calibration(config, load_calibration(robot.name, paths))
        warm_up()
        self._config = config
        self._link: RobotLink | None = None
        self._odometry: Odometry | None = None
        self._numbers = {"lidar": 0, "camera": 0}  # of earlier lives
        self._lidar: LidarFrame | None = None
        self._lidar_number = 0
        self._damaged = 0

    async def connect(self) -> None:
        """Wait until the robot is connected and sends. Raises the NotConnected of the next try that fails.

        A process that says neither is ended, so that the next call starts another.
        """
        if self._link is not None and self._link.fault() is not None:
            await self.close()
        if self._link is None:
            first = 0 if self._odometry is None else self._odometry.seq
            key = os.environ.get(KEY_VARIABLE, "") or self._config.aes_key
            self._link = RobotLink(self._config, key, first)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S + self._config.connect_timeout_s):
                await asyncio.wrap_future(self._link.request(op="connect"))
        except TimeoutError:
            await self.close()
            raise NotConnected("The process of the robot's link does not answer.") from None

    async def close(self) -> None:
        """Stop the robot and disconnect. May be called twice."""
        link, self._link = self._link, None
        if link is None:
            return
        link.send_twist(Twist2D())
        self._numbers["lidar"] += link.lidar[0]
        self._numbers["camera"] += link.camera[0]
        self._lidar_number = 0
        await asyncio.to_thread(link.stop)

    def odometry(self) -> Odometry | None:
        """Return the newest odometry, or None before the first."""
        if self._link is not None and self._link.odometry is not None:
            self._odometry = self._link.odometry
        return self._odometry

    def lidar(self, newer_than: int) -> LidarFrame | None:
        """Return the newest voxel map if its seq is greater than `newer_than`, else None."""
        if self._link is not None and self._link.lidar[0] > self._lidar_number:
            self._lidar_number, payload = self._link.lidar
            self._decode(self._numbers["lidar"] + self._lidar_number, payload)
        frame = self._lidar
        return frame if frame is not None and frame.seq > newer_than else None

    def camera(self, newer_than: int) -> CameraFrame | None:
        """Return the newest picture if its seq is greater than `newer_than`, else None."""
        if self._link is None:
            return None
        number, payload = self._link.camera
        seq = self._numbers["camera"] + number
        if not number or seq <= newer_than:
            return None
        jpeg, width, height, stamp = wire.unpack_camera(payload)
        return CameraFrame(seq, stamp, jpeg, width, height)

    def send_twist(self, twist: Twist2D) -> None:
        """Send a body twist; it is lost when not connected."""
        if self._link is not None:
            self._link.send_twist(twist)

    async def sport(
        self, command: str, parameters: Mapping[str, float] | None = None
    ) -> SportResult:
        """Carry out a sport command and return the robot's answer.

        Raises:
            UnknownCommand: not one of SPORT_COMMANDS.
            InvalidRequest: a parameter that the command does not take.
            NotConnected: no connection, or no answer.
        """
        check_command(command)
        check_parameters(command, parameters or {})
        result = await self._request(op="sport", command=command, parameters=dict(parameters or {}))
        return SportResult(**result)

    async def set_device(self, device: str, level: int) -> SportResult:
        """Set the light, the volume or the robot's own obstacle avoidance. Raises InvalidRequest, NotConnected."""
        check_device(device, level)
        return SportResult(**await self._request(op="device", device=device, level=level))

    def state(self) -> DriverState:
        """Return posture, battery, link and faults."""
        link = self._link
        if link is None:
            return DriverState(False, Posture.CHANGING, 0.0, link="lost")
        fault = link.fault()
        told = link.state
        if told is None:
            faults = () if fault is None else (fault,)
            return DriverState(False, Posture.CHANGING, 0.0, link="connecting", faults=faults)
        arrived, state = told
        if fault is None and time.monotonic() - arrived > STATE_LIMIT_S:
            fault = "The process of the robot's link does not answer."
        if fault is not None:
            return dataclasses.replace(state, connected=False, link="lost", faults=(fault,))
        if self._damaged:
            sentence = f"{self._damaged} lidar messages in a row could not be decoded."
            state = dataclasses.replace(state, faults=(*state.faults, sentence))
        return state

    def _decode(self, seq: int, payload: bytes) -> None:
        message, stamp, pose, origin = wire.unpack_lidar(payload)
        try:
            voxels = read_voxel_message(message)
            points = voxels.points()
        except LidarDecodeError as error:
            self._damaged += 1
            logger.warning("a lidar message was dropped: %s", error)
            return
        self._damaged = 0
        self._lidar = LidarFrame(
            seq=seq,
            stamp=stamp,
            points=points,
            origin=origin,
            pose=pose,
            resolution=voxels.resolution,
            kind=LidarKind.VOXEL,
            device_stamp=voxels.stamp,
        )

    async def _request(self, **fields: Any) -> Any:
        if self._link is None:
            raise NotConnected()
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await asyncio.wrap_future(self._link.request(**fields))
        except TimeoutError:
            raise NotConnected("The process of the robot's link does not answer.") from None


def check_config(config: Go2Config) -> None:
    """Raise ConfigError for a value that is not known, or when the `go2` extra is not installed."""
    if find_spec("unitree_webrtc_connect") is None or find_spec("aiortc") is None:
        raise ConfigError(
            "The WebRTC client of the Go2 is not installed.",
            "Install rhino with the extra `go2`: pip install 'rhino-go2[go2]'.",
        )
    for key, value, known in (
        ("velocity_api", config.velocity_api, VELOCITY_APIS),
        ("obstacle_avoidance", config.obstacle_avoidance, AVOIDANCE),
    ):
        if value not in known:
            raise ConfigError(f"go2.{key} is {value!r}.", f"Known: {', '.join(known)}.")
