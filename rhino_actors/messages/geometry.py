"""Poses, twists and odometry. SI units; body frame x forward, y left, z up (REP-103)."""

import math
from dataclasses import dataclass

from rhino_actors.geometry import tilt_from_quaternion, yaw_from_quaternion

MAX_COORDINATE_M = 10_000.0  # what a client may name is no farther from the origin


@dataclass(frozen=True, slots=True)
class Pose2D:
    """A pose on the ground plane, in the frame that the holder of the value names."""

    x: float  # [m]
    y: float  # [m]
    yaw: float = 0.0  # [rad] in (-pi, pi], counter-clockwise from +x

    def as_tuple(self) -> tuple[float, float, float]:
        """Return (x, y, yaw) for the functions of `rhino_actors.geometry`."""
        return (self.x, self.y, self.yaw)

    def distance_to(self, x: float, y: float) -> float:
        """Return the straight distance to a point of the same frame [m]."""
        return math.hypot(x - self.x, y - self.y)


@dataclass(frozen=True, slots=True)
class Twist2D:
    """A velocity in the body frame: `vx` forward, `vy` left [m/s], `omega` counter-clockwise [rad/s]."""

    vx: float = 0.0
    vy: float = 0.0
    omega: float = 0.0

    @property
    def is_finite(self) -> bool:
        return math.isfinite(self.vx) and math.isfinite(self.vy) and math.isfinite(self.omega)

    @property
    def is_zero(self) -> bool:
        return self.vx == 0.0 and self.vy == 0.0 and self.omega == 0.0


@dataclass(frozen=True, slots=True)
class Odometry:
    """Where the robot is in the drifting frame `odom`, and how fast it moves."""

    seq: int  # counts up by one; never repeats within a driver's life
    stamp: float  # [s] monotonic arrival time on the robot-side host
    position: tuple[float, float, float]  # [m] of base_link in odom
    orientation: tuple[float, float, float, float]  # quaternion x, y, z, w of base_link in odom
    twist: Twist2D  # in the body frame
    device_stamp: float = math.nan  # [s] as the device gave it: data, not a clock

    @property
    def pose(self) -> Pose2D:
        """The pose on the ground plane."""
        return Pose2D(self.position[0], self.position[1], yaw_from_quaternion(*self.orientation))

    @property
    def tilt(self) -> float:
        """Angle between the body's z axis and the vertical [rad]."""
        return tilt_from_quaternion(*self.orientation)
