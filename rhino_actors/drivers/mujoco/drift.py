"""How the odometry leaves the truth: the drift of a legged robot, as a seeded model of its increments.

A scale of forward, sideways and turning motion that a robot is born with, random walks with the way, and the bias of
the gyro, which wanders slowly and turns the robot's heading while it stands and balances too. Lying or locked, the
odometry rests. There are no published figures of the Go2's own estimator. The levels are set by those of like robots,
where a loop of 120 m closes within 1 to 2 % of the way; here the median is 1.0 % for `default` and 1.4 % for `harsh`.
Stands on numpy alone.
"""

import math
from dataclasses import dataclass

import numpy as np

from rhino_actors.messages.geometry import Pose2D, Twist2D


@dataclass(frozen=True)
class DriftLevel:
    """Standard deviations of the model."""

    scale_x: tuple[float, float] = (0.996, 0.010)  # mean and deviation of the forward scale
    scale_y: tuple[float, float] = (1.0, 0.020)
    scale_yaw: tuple[float, float] = (1.0, 0.006)
    walk: float = 0.012  # [m] per square root of a metre of way, forward and sideways
    yaw_walk: float = math.radians(0.10)  # [rad] per square root of a metre
    bias: float = math.radians(1.0) / 60.0  # [rad/s] of the gyro
    bias_time: float = 300.0  # [s] in which the bias forgets itself


LEVELS: dict[str, DriftLevel | None] = {
    "off": None,
    "default": DriftLevel(),
    "harsh": DriftLevel(bias=math.radians(1.5) / 60.0),
}


class OdometryDrift:
    """The pose that the robot believes in. Equal seeds and increments give equal poses."""

    def __init__(self, level: str, seed: int) -> None:
        self._level = LEVELS[level]
        self._rng = np.random.default_rng([seed, 2])
        self._x = self._y = self._yaw = 0.0
        self.is_exact = self._level is None  # odom is still the world's frame
        self._bias = 0.0
        self._scales = (1.0, 1.0, 1.0)
        if self._level is not None:
            born = (self._level.scale_x, self._level.scale_y, self._level.scale_yaw)
            self._scales = tuple(float(self._rng.normal(*scale)) for scale in born)  # type: ignore[assignment]
            self._bias = self._level.bias * float(self._rng.standard_normal())

    @property
    def pose(self) -> Pose2D:
        """Of base_link in odom."""
        return Pose2D(self._x, self._y, math.remainder(self._yaw, math.tau))

    def twist(self, true: Twist2D, *, is_locked: bool) -> Twist2D:
        """Return the body twist that the robot believes in when it is `true`."""
        kx, ky, kyaw = self._scales
        bias = 0.0 if is_locked else self._bias
        return Twist2D(kx * true.vx, ky * true.vy, kyaw * true.omega + bias)

    def advance(self, before: Pose2D, after: Pose2D, duration: float, *, is_locked: bool) -> None:
        """Take in a step of the true pose that took `duration` [s]; locked, the belief rests."""
        if self._level is None:
            if self.is_exact:
                self._x, self._y, self._yaw = after.as_tuple()
            else:
                self._move(_increment(before, after))
            return
        if is_locked:
            return
        level, (kx, ky, kyaw) = self._level, self._scales
        fade = math.exp(-duration / level.bias_time)
        wander = level.bias * math.sqrt(1.0 - fade * fade)
        noise = self._rng.standard_normal(4).tolist()
        self._bias = fade * self._bias + wander * noise[3]
        dx, dy, dyaw = _increment(before, after)
        root = math.sqrt(math.hypot(dx, dy))
        self._move(
            (
                kx * dx + level.walk * root * noise[0],
                ky * dy + level.walk * root * noise[1],
                kyaw * dyaw + level.yaw_walk * root * noise[2] + self._bias * duration,
            )
        )

    def jump(self, x: float, y: float, yaw: float) -> None:
        """Let the belief jump by this much, in the body's frame [m], [rad]."""
        self.is_exact = False
        self._move((x, y, yaw))

    def _move(self, step: tuple[float, float, float]) -> None:
        dx, dy, dyaw = step
        heading = self._yaw + dyaw / 2.0
        self._x += math.cos(heading) * dx - math.sin(heading) * dy
        self._y += math.sin(heading) * dx + math.cos(heading) * dy
        self._yaw += dyaw


def _increment(before: Pose2D, after: Pose2D) -> tuple[float, float, float]:
    """Return the step in the body's frame, halfway through its turn."""
    dyaw = math.remainder(after.yaw - before.yaw, math.tau)
    heading = before.yaw + dyaw / 2.0
    dx, dy = after.x - before.x, after.y - before.y
    cos, sin = math.cos(heading), math.sin(heading)
    return cos * dx + sin * dy, -sin * dx + cos * dy, dyaw
