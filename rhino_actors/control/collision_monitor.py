"""CollisionMonitor: slows and stops a twist for what the newest lidar frame shows, without any map.

The body's rectangle is moved along the arc of the twist until the frame's points enter it. Only what lies ahead
*on that arc* counts, so motion away from an obstacle is free, however near it is.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import CollisionConfig, RobotConfig
from rhino_actors.geometry import compose, inverse
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.sensors import LidarFrame

REACH = 3.0  # [m] points farther from the robot are not looked at
SIDE_MARGIN = 0.03  # [m] kept around the body while the floor allows it
NOISE = 0.02  # [m] by which points of one surface differ
RIM = 0.02  # [m] points deeper inside the body than this are of the robot itself
STEP = 0.04  # [m] between two looks along the arc
REACTION_S = 0.15  # from the frame to the motors: a control period, a frame's age
SLOWEST = 0.02  # [m/s] of the fastest corner; slower is zero
CAREFUL = 0.15  # [m/s] of the fastest corner: it comes down to this before it has to brake


@dataclass(frozen=True, slots=True)
class Limited:
    """What is left of a twist."""

    twist: Twist2D
    blocked: bool = False  # stopped by an obstacle
    where: tuple[float, float] | None = None  # x, y [m] in odom of the obstacle that limits it


class CollisionMonitor:
    """Keeps the newest frame's obstacle points and limits twists by them."""

    def __init__(self, config: CollisionConfig, robot: RobotConfig) -> None:
        self._config = config
        self._robot = robot
        self._half_length = robot.length / 2.0
        self._half_width = robot.width / 2.0
        self._corner = math.hypot(self._half_length, self._half_width)
        self._x: NDArray[np.float64] = np.zeros(0)  # [m] in odom
        self._y: NDArray[np.float64] = np.zeros(0)

    def update(self, frame: LidarFrame) -> None:
        """Take the newest frame: of its points those that stand in the robot's way, above floor z = 0 of odom."""
        x, y, z = frame.points.T
        band = (z >= self._robot.obstacle_min_height) & (z <= self._robot.obstacle_max_height)
        band &= (np.abs(x - frame.pose.x) <= REACH) & (np.abs(y - frame.pose.y) <= REACH)
        self._x, self._y = x[band].astype(np.float64), y[band].astype(np.float64)

    def clearance(self, pose: Pose2D) -> float:
        """Return how far the body is from the nearest points that are not its own [m]; inf: none near."""
        if not self._config.enabled or len(self._x) == 0:
            return math.inf
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        dx, dy = self._x - pose.x, self._y - pose.y
        beyond_x = np.abs(cos * dx + sin * dy) - self._half_length
        beyond_y = np.abs(cos * dy - sin * dx) - self._half_width
        outside = np.maximum(beyond_x, beyond_y) > -RIM
        if np.count_nonzero(outside) < self._config.min_points:
            return math.inf
        gaps = np.hypot(np.maximum(beyond_x[outside], 0.0), np.maximum(beyond_y[outside], 0.0))
        last = self._config.min_points - 1
        return float(np.partition(gaps, last)[last])

    def limit(self, twist: Twist2D, pose: Pose2D) -> Limited:
        """Return the twist, slower where the way is short, or zero where there is none.

        Args:
            twist: finite, in the body frame.
            pose: of base_link in odom, now.
        """
        speed = math.hypot(twist.vx, twist.vy) + abs(twist.omega) * self._corner
        if not self._config.enabled or speed == 0.0 or len(self._x) == 0:
            return Limited(twist)
        stopping = speed * REACTION_S + speed**2 / (2.0 * self._config.deceleration)
        ahead = self._config.stop_margin + max(self._config.slow_margin, stopping)
        contact = self._contact(twist, pose, speed, ahead)
        if contact is None:
            return Limited(twist)
        distance, where = contact
        free = max(0.0, distance - self._config.stop_margin)
        allowed = self._allowed_speed(speed, free)
        if allowed < SLOWEST:
            return Limited(Twist2D(), True, where)
        share = min(1.0, allowed / speed)
        slower = Twist2D(twist.vx * share, twist.vy * share, twist.omega * share)
        return Limited(slower, False, where)

    def _allowed_speed(self, speed: float, free: float) -> float:
        """Return the speed from which the robot still stops within `free`, gently less the nearer it is."""
        braking = self._config.deceleration
        allowed = braking * (math.sqrt(REACTION_S**2 + 2.0 * free / braking) - REACTION_S)
        if free < self._config.slow_margin and speed > CAREFUL:
            allowed = min(allowed, CAREFUL + (speed - CAREFUL) * free / self._config.slow_margin)
        return allowed

    def _contact(
        self, twist: Twist2D, pose: Pose2D, speed: float, ahead: float
    ) -> tuple[float, tuple[float, float]] | None:
        """Return how far the fastest corner moves until points enter the body, and where; None: not within `ahead`."""
        steps = max(2, math.ceil(ahead / STEP))
        times = np.linspace(0.0, ahead / speed, steps + 1)[1:]
        x, y, yaw = _arc(twist, times)
        base_x, base_y, base_yaw = inverse(pose.as_tuple())
        c, s = math.cos(base_yaw), math.sin(base_yaw)
        seen_x = base_x + c * self._x - s * self._y
        seen_y = base_y + s * self._x + c * self._y
        around = self._corner + SIDE_MARGIN
        near = (seen_x >= min(0.0, x.min()) - around) & (seen_x <= max(0.0, x.max()) + around)
        near &= (seen_y >= min(0.0, y.min()) - around) & (seen_y <= max(0.0, y.max()) + around)
        seen_x, seen_y = seen_x[near], seen_y[near]
        # Of each point from the body, along the axis in which it is farther, negative inside.
        clearance = np.maximum(
            np.abs(seen_x) - self._half_length, np.abs(seen_y) - self._half_width
        )
        outside = clearance > -RIM
        seen_x, seen_y, clearance = seen_x[outside], seen_y[outside], clearance[outside]
        if len(seen_x) < self._config.min_points:
            return None
        # Where something is nearer than the margin already, the margin gives way: else it would trap the robot.
        margin = min(SIDE_MARGIN, float(clearance.min()) - NOISE)
        cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
        dx, dy = seen_x - x[:, None], seen_y - y[:, None]
        inside = np.abs(cos * dx + sin * dy) < self._half_length + margin
        inside &= np.abs(cos * dy - sin * dx) < self._half_width + margin
        hit = inside.any(axis=0)
        if hit.sum() < self._config.min_points:
            return None
        entry = inside[:, hit].argmax(axis=0)  # step in which each point enters
        first = int(np.partition(entry, self._config.min_points - 1)[self._config.min_points - 1])
        what = entry <= first
        at_x, at_y = float(seen_x[hit][what].mean()), float(seen_y[hit][what].mean())
        where = compose(pose.as_tuple(), (at_x, at_y, 0.0))
        return float(times[first]) * speed - ahead / steps, (where[0], where[1])


def _arc(
    twist: Twist2D, times: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return x, y, yaw of the body at `times` [s] along a constant twist, in the body frame at time 0."""
    yaw = twist.omega * times
    # Exact for every omega: the chord of the arc has the mean heading and the length v t sinc(yaw / 2).
    shrink = np.sinc(yaw / math.tau)
    forward, left = twist.vx * times * shrink, twist.vy * times * shrink
    cos, sin = np.cos(yaw / 2.0), np.sin(yaw / 2.0)
    return cos * forward - sin * left, sin * forward + cos * left, yaw
