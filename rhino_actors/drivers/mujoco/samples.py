"""What the simulated sensors bring, as values: made by the physics process, read by the platform actor.

Stands on numpy and LZ4; MuJoCo is not needed to read them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig
from rhino_actors.drivers.go2.lidar import read_voxel_message
from rhino_actors.drivers.mujoco.drift import LEVELS
from rhino_actors.errors import ConfigError
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.sensors import LidarFrame, LidarKind

PROFILES = ("scan", "l1", "ideal")

Place = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class OdometrySample:
    """One odometry message, before it has a number and a time of arrival."""

    device_stamp: float  # [s]
    position: Place  # [m] in odom
    orientation: tuple[float, float, float, float]
    twist: Twist2D

    def odometry(self, seq: int, stamp: float) -> Odometry:
        """Return it as it arrives at `stamp` [s]."""
        return Odometry(seq, stamp, self.position, self.orientation, self.twist, self.device_stamp)


@dataclass(frozen=True, slots=True)
class LidarSample:
    """One lidar frame, before it has a number and a time of arrival: points, or the robot's own message."""

    device_stamp: float  # [s]
    origin: Place  # [m] of the sensor in odom
    pose: Pose2D  # of base_link in odom
    points: NDArray[np.float32] | None = None  # (N, 3) in odom
    message: bytes = b""

    def frame(self, seq: int, stamp: float) -> LidarFrame:
        """Return it as it arrives at `stamp` [s], a message decoded. Raises LidarDecodeError."""
        points, resolution, kind = self.points, 0.0, LidarKind.SCAN
        if points is None:
            voxels = read_voxel_message(self.message)
            points, resolution, kind = voxels.points(), voxels.resolution, LidarKind.VOXEL
        return LidarFrame(
            seq=seq,
            stamp=stamp,
            points=points,
            origin=self.origin,
            pose=self.pose,
            resolution=resolution,
            kind=kind,
            device_stamp=self.device_stamp,
        )


class Observation(NamedTuple):
    """What a tick brought. A stream that has nothing new, or lost it to a fault, is None."""

    odometry: OdometrySample | None
    lidar: LidarSample | None


def check_senses(config: MujocoConfig) -> None:
    """Raise ConfigError when there is no such lidar profile or level of drift."""
    for key, value, known in (
        ("lidar", config.lidar, PROFILES),
        ("drift", config.drift, tuple(LEVELS)),
    ):
        if value not in known:
            raise ConfigError(f"mujoco.{key} is {value!r}.", f"Known: {', '.join(known)}.")
