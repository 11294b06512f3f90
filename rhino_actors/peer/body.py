"""What the peer moves and senses with, behind one protocol: a kinematic room, or the Go2 in MuJoCo."""

import time
from dataclasses import dataclass, replace
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import FakeConfig, MujocoConfig, RobotConfig
from rhino_actors.drivers.fake import FakePlatform
from rhino_actors.drivers.go2.lidar import LAYER_BYTES, WIDTH, write_voxel_message
from rhino_actors.drivers.mujoco.platform import MujocoPlatform
from rhino_actors.drivers.mujoco.voxel_window import LAYERS, VoxelWindow, warm_up
from rhino_actors.drivers.platform import Platform
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import DriverState, SportResult

PICTURE = (1280, 720)  # [px] width, height, as the robot's
WALL_HEIGHTS = np.arange(0.05, 1.0, 0.05)  # [m] at which a wall of the room is seen
VOXEL_TTL_S = 2.0
EPOCH_STAMP = 1.758148e9

Picture = NDArray[np.uint8]  # (720, 1280, 3) BGR


@dataclass(frozen=True, slots=True)
class VoxelFrame:
    """One lidar message as the robot sends it, with its number."""

    seq: int
    message: bytes


class Body(Protocol):
    """A robot without its radio."""

    async def start(self) -> None:
        """Begin. Raises NotConnected."""

    async def close(self) -> None:
        """End; may be called twice."""

    def odometry(self) -> Odometry | None:
        """Return the newest odometry."""

    def drive(self, twist: Twist2D) -> None:
        """Move so now; called many times a second."""

    async def sport(self, command: str) -> SportResult:
        """Carry out a sport command."""

    def state(self) -> DriverState:
        """Return posture and battery."""

    def voxels(self, newer_than: int) -> VoxelFrame | None:
        """Return the newest lidar message if its seq is greater."""

    def picture(self, seq: int) -> Picture:
        """Return the front camera's picture for the video's frame `seq`."""


class _Driven:
    """What both bodies leave to a platform."""

    platform: Platform

    async def start(self) -> None:
        await self.platform.connect()

    async def close(self) -> None:
        await self.platform.close()

    def odometry(self) -> Odometry | None:
        return self.platform.odometry()

    def drive(self, twist: Twist2D) -> None:
        self.platform.send_twist(twist)

    async def sport(self, command: str) -> SportResult:
        return await self.platform.sport(command)

    def state(self) -> DriverState:
        return self.platform.state()


class RoomBody(_Driven):
    """A disc in a hand-made room: light enough for many tests a second."""

    def __init__(self, room: str = "room", start: tuple[float, float] | None = None) -> None:
        """Place the robot. Raises ConfigError for an unknown room."""
        config = FakeConfig(map=room, lidar_rate_hz=7.5, camera_rate_hz=0.0)
        if start is not None:
            config = replace(config, start_x=start[0], start_y=start[1])
        self.platform = FakePlatform(config, RobotConfig())
        self._window = VoxelWindow(VOXEL_TTL_S)
        self._picture = _backdrop()
        self._started = time.monotonic()

    async def start(self) -> None:
        warm_up()
        await super().start()

    def voxels(self, newer_than: int) -> VoxelFrame | None:
        frame = self.platform.lidar(newer_than)
        odometry = self.platform.odometry()
        if frame is None or odometry is None:
            return None
        now = time.monotonic() - self._started
        self._window.follow(odometry.position)
        self._window.insert(_walls_and_floor(frame.points, frame.origin), now)
        message = write_voxel_message(
            self._window.pack(now),
            stamp=EPOCH_STAMP,
            resolution=self._window.resolution,
            origin=self._window.origin,
        )
        return VoxelFrame(frame.seq, message)

    def picture(self, seq: int) -> Picture:
        picture = self._picture
        picture[40:80, 40:260] = 30
        cv2.putText(picture, f"{seq}", (48, 72), cv2.FONT_HERSHEY_SIMPLEX, 1.0, (255, 255, 255), 2)
        x = 8 * seq % PICTURE[0]
        picture[700:, :] = 30
        picture[700:, x : x + 60] = 220
        return picture


class SimulatedBody(_Driven):
    """The Go2 in MuJoCo, its own lidar and its own camera."""

    def __init__(self, config: MujocoConfig, robot: RobotConfig) -> None:
        """Check the configuration. Raises ConfigError."""
        width, height = PICTURE
        config = replace(config, lidar="l1", lidar_rate_hz=7.5)
        config = replace(config, camera_width=width // 2, camera_height=height // 2)
        self.platform = MujocoPlatform(config, robot)
        self._seen = 0
        self._picture = _backdrop()

    def voxels(self, newer_than: int) -> VoxelFrame | None:
        frame = self.platform.lidar(newer_than)
        if frame is None:
            return None
        return VoxelFrame(
            frame.seq, repack(frame.points, (frame.pose.x, frame.pose.y, self._height()))
        )

    def picture(self, seq: int) -> Picture:
        frame = self.platform.camera(self._seen)
        if frame is not None:
            self._seen = frame.seq
            small = cv2.imdecode(np.frombuffer(frame.jpeg, np.uint8), cv2.IMREAD_COLOR)
            if small is not None:
                self._picture = cv2.resize(small, PICTURE).astype(np.uint8, copy=False)
        return self._picture

    def _height(self) -> float:
        odometry = self.platform.odometry()
        return 0.3 if odometry is None else odometry.position[2]


def repack(points: NDArray[np.float32], place: tuple[float, float, float]) -> bytes:
    """Return the robot's message for voxel centres (N, 3) [m] around a body at `place` [m]."""
    window = VoxelWindow(VOXEL_TTL_S)
    window.follow(place)
    origin, resolution = window.origin, window.resolution
    cells = np.rint((points - np.array(origin)) / resolution).astype(np.int64)
    inside = ((cells >= 0) & (cells < (WIDTH, WIDTH, LAYERS))).all(axis=1)
    bits = np.zeros((LAYERS, WIDTH, WIDTH), np.uint8)
    x, y, z = cells[inside].T
    bits[z, y, x] = 1
    packed = np.packbits(bits).reshape(LAYERS * LAYER_BYTES)
    return write_voxel_message(packed, stamp=EPOCH_STAMP, resolution=resolution, origin=origin)


def _walls_and_floor(
    points: NDArray[np.float32], origin: tuple[float, float, float]
) -> NDArray[np.float64]:
    """Return what a lidar that also looks up and down would see where a flat one sees `points`."""
    ends = points.astype(np.float64)
    flat = ends[:, :2] - origin[:2]
    length = np.linalg.norm(flat, axis=1)
    seen = length < 4.0
    walls = np.repeat(ends[seen], len(WALL_HEIGHTS), axis=0)
    walls[:, 2] = np.tile(WALL_HEIGHTS, int(seen.sum()))
    shares = np.arange(0.4, 3.0, 0.05)[None, :] / np.maximum(length, 1e-6)[:, None]
    on_floor = shares < 1.0
    floor = origin[:2] + flat[:, None, :] * shares[:, :, None]
    ground = np.full((int(on_floor.sum()), 3), 0.001)
    ground[:, :2] = floor[on_floor]
    return np.concatenate([walls, ground])


def _backdrop() -> Picture:
    width, height = PICTURE
    shade = np.linspace(60, 200, width, dtype=np.uint8)
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = shade[None, :, None]
    return picture
