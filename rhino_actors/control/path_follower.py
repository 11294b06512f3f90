"""PathFollower: (pose, path) -> body twist. Aims at a point ahead on the path and turns towards it.

Pure. The aim point is that of pure pursuit (R. C. Coulter, CMU-RI-TR-92-01); the turn is proportional to the
heading error instead of the arc through the point, because the robot can turn on the spot. Two modes: `p` is that
alone; `regulated` chooses its speed by what comes (bends, narrow places, the goal), brakes in time for it, and goes
sideways back to the path, for a legged robot can. Source of the rules: regulated pure pursuit (Macenski et al. 2023);
own form.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import FollowerConfig
from rhino_actors.errors import ConfigError
from rhino_actors.geometry import wrap_angle
from rhino_actors.messages.geometry import Pose2D, Twist2D

SAME_POINT = 1e-6  # [m] poses nearer than this are one
JOIN_WINDOW = 2.0  # [m] of a new path within which the robot joins it
ALIGN_MIN_OMEGA = 0.2  # [rad/s] slowest turn on the spot
DRIVE_BACK = (
    2.0  # of the goal tolerance: pushed this far off the goal while turning, it drives again
)
CRAB_SPEED = 0.25  # [m/s] of a body that moves without turning
CRAB_DISTANCE = 0.4  # [m] along the path before it tries to turn again
BEND_SLOW_DOWN = 0.6  # share of the speed that a bend of 90 degrees ahead takes away

# Of the regulated mode.
AIM_S = 0.9  # time ahead of the aim point
AIM_MIN, AIM_MAX = 0.35, 0.70  # [m] nearest and farthest aim point
FACING = 0.35  # [rad] heading error at which turning on the spot ends
SIDEWAYS_HEADING = 0.6  # [rad] heading error beyond which it does not go sideways
NEAR_GOAL = 0.35  # [m] from the goal within which it does not turn to it any more, but steps to it
BEND_LOOK = 1.0  # [m] of the path ahead that is looked at for bends
BEND_SPAN = 0.3  # [m] over which a bend is measured
BEND_STEP = 0.1  # [m]
MODES = ("regulated", "p")


@dataclass(frozen=True, slots=True)
class FollowStep:
    """One step of following."""

    twist: Twist2D
    arrived: bool
    distance_remaining: float  # [m] along the path
    deviation: float  # [m] of the robot from the path


def checked_points(poses: NDArray[np.floating], final_yaw: float | None) -> NDArray[np.float64]:
    """Return x, y (N, 2) [m] of a path's poses (N, 3) or (N, 2). Raises ValueError for what cannot be followed."""
    array: NDArray[np.float64] = np.asarray(poses, dtype=np.float64)
    if array.ndim != 2 or array.shape[0] < 1 or array.shape[1] not in (2, 3):
        raise ValueError(f"a path has shape (N, 3), N >= 1, not {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("a path has only finite values")
    if final_yaw is not None and not math.isfinite(final_yaw):
        raise ValueError("final_yaw is finite or None")
    return array[:, :2]


class PathFollower:
    """Follows one path at a time; a new one may replace it in mid-drive."""

    def __init__(self, config: FollowerConfig) -> None:
        """Take the configuration. Raises ConfigError when there is no such mode."""
        if config.mode not in MODES:
            raise ConfigError(f"follower.mode is {config.mode!r}.", f"Known: {', '.join(MODES)}.")
        self._config = config
        self._turning = False
        self._points: NDArray[np.float64] = np.zeros((0, 2))
        self._along: NDArray[np.float64] = np.zeros(0)
        self._drive_back = DRIVE_BACK * config.goal_tolerance
        self._final_yaw: float | None = None
        self._progress = 0.0
        self._aligning = False
        self._joined = False
        self._crab_until = -math.inf  # [m] of progress

    def set_path(self, poses: NDArray[np.floating], final_yaw: float | None) -> None:
        """Take a path.

        Args:
            poses: (N, 3) or (N, 2) x, y [m] (yaw is not used) in odom, N >= 1, finite.
            final_yaw: [rad] to turn to at the end; None keeps the heading of arrival.

        Raises:
            ValueError: the shape is wrong, it is empty, or a value is not finite.
        """
        points = checked_points(poses, final_yaw)
        steps = np.hypot(*np.diff(points, axis=0).T) if len(points) > 1 else np.zeros(0)
        keep = np.concatenate([[True], steps > SAME_POINT])
        self._points = points[keep].copy()
        self._along = np.concatenate(
            [[0.0], np.cumsum(np.hypot(*np.diff(self._points, axis=0).T))]
            if len(self._points) > 1
            else [[0.0]]
        )
        self._final_yaw = final_yaw
        self._progress = 0.0
        if self._crab_until > -math.inf:
            self._crab_until = CRAB_DISTANCE
        self._joined = False
        self._aligning = False

    def clear(self) -> None:
        """Forget the path."""
        self._points = np.zeros((0, 2))
        self._along = np.zeros(0)
        self._aligning = False
        self._crab_until = -math.inf

    def step(
        self, pose: Pose2D, *, speed: float, dt: float, clearance: float = math.inf
    ) -> FollowStep:
        """Return the twist for this control period.

        Args:
            pose: newest, in odom.
            speed: [m/s] forward speed last sent, from which it speeds up.
            dt: [s] control period.
            clearance: [m] free floor around the body, as far as it is known.

        Raises:
            ValueError: there is no path.
        """
        if len(self._points) == 0:
            raise ValueError("there is no path to follow")
        deviation = self._advance(pose)
        remaining = float(self._along[-1]) - self._progress
        goal = self._points[-1]
        to_goal = pose.distance_to(float(goal[0]), float(goal[1]))
        near = self._config.goal_tolerance
        if to_goal <= near and remaining <= 2.0 * near:
            self._aligning = True
        elif to_goal > self._drive_back:
            self._aligning = False
        if self._aligning:
            return self._align(pose, to_goal, deviation)
        if self._progress >= self._crab_until:
            self._crab_until = -math.inf
        if self._crab_until > -math.inf:
            twist = self.crab_twist(pose)
        else:
            left = max(remaining, to_goal)
            if self._config.mode == "p":
                twist = self._drive(pose, left, speed, dt)
            else:
                twist = self._regulated(pose, left, to_goal, speed, dt, clearance)
        return FollowStep(twist, False, max(remaining, to_goal), deviation)

    def crab_twist(self, pose: Pose2D) -> Twist2D:
        """Return the twist that follows on without turning, backwards or sideways as it comes.

        For a place too narrow to turn in: a legged robot need not face where it goes.
        """
        aim = self._point_at(self._progress + self._config.lookahead_distance)
        error = math.atan2(aim[1] - pose.y, aim[0] - pose.x) - pose.yaw
        speed = min(CRAB_SPEED, self._config.cruise_speed)
        return Twist2D(speed * math.cos(error), speed * math.sin(error), 0.0)

    def keep_heading(self) -> None:
        """Follow on without turning for the next stretch of the path."""
        self._crab_until = self._progress + CRAB_DISTANCE

    def turn_again(self) -> None:
        """Turn to where it goes from now on."""
        self._crab_until = -math.inf

    def accept_here(self, pose: Pose2D, within: float) -> bool:
        """Take the present place for the goal, if it is within `within` [m] of it: an obstacle keeps it from more.

        Returns True if it does; the next steps turn to the final yaw and arrive.
        """
        to_goal = pose.distance_to(float(self._points[-1, 0]), float(self._points[-1, 1]))
        if self._aligning or to_goal > min(within, self._drive_back):
            return False
        self._aligning = True
        return True

    def _align(self, pose: Pose2D, to_goal: float, deviation: float) -> FollowStep:
        error = 0.0 if self._final_yaw is None else wrap_angle(self._final_yaw - pose.yaw)
        if abs(error) <= self._config.yaw_tolerance:
            return FollowStep(Twist2D(), True, 0.0, deviation)
        omega = self._turn(error)
        omega = math.copysign(max(abs(omega), ALIGN_MIN_OMEGA), omega)
        return FollowStep(Twist2D(omega=omega), False, to_goal, deviation)

    def _drive(self, pose: Pose2D, remaining: float, speed: float, dt: float) -> Twist2D:
        config = self._config
        aim = self._point_at(self._progress + config.lookahead_distance)
        error = wrap_angle(math.atan2(aim[1] - pose.y, aim[0] - pose.x) - pose.yaw)
        omega = self._turn(error)
        off = abs(error) / config.rotate_in_place_angle
        if off >= 1.0:
            return Twist2D(omega=omega)
        wanted = config.cruise_speed * min(1.0, remaining / config.slow_down_distance)
        wanted *= 1.0 - self._bend(aim) * BEND_SLOW_DOWN
        wanted = max(wanted, config.min_speed) * (1.0 - off * off)
        return Twist2D(vx=min(wanted, max(speed, 0.0) + config.acceleration * dt), omega=omega)

    def _regulated(
        self,
        pose: Pose2D,
        remaining: float,
        to_goal: float,
        speed: float,
        dt: float,
        clearance: float,
    ) -> Twist2D:
        config = self._config
        ahead = max(AIM_MIN, min(AIM_MAX, AIM_S * speed))
        aim = self._point_at(self._progress + ahead)
        error = wrap_angle(math.atan2(aim[1] - pose.y, aim[0] - pose.x) - pose.yaw)
        if remaining <= NEAR_GOAL:
            self._turning = False
            return self._step_to_goal(error, to_goal, speed, dt)
        self._turning = abs(error) > (FACING if self._turning else config.rotate_in_place_angle)
        omega = self._turn(error)
        fastest = max(speed, 0.0) + config.acceleration * dt
        slowest = max(speed, 0.0) - config.deceleration * dt
        if self._turning:
            return Twist2D(vx=max(0.0, slowest), omega=omega)
        wanted = min(
            config.cruise_speed * math.cos(error) ** 2,
            self._bend_speed(),
            math.sqrt(2.0 * config.deceleration * remaining),
            self._speed_in(clearance),
        )
        vx = min(fastest, max(wanted, config.min_speed, slowest))
        vy = self._back_to_path(pose) if abs(error) < SIDEWAYS_HEADING else 0.0
        return Twist2D(vx, vy, omega)

    def _step_to_goal(self, error: float, to_goal: float, speed: float, dt: float) -> Twist2D:
        """Return the twist over the last stretch: towards the goal in whatever direction, without turning."""
        config = self._config
        pace = max(config.min_speed, min(math.sqrt(2.0 * config.deceleration * to_goal), 0.35))
        vx, vy = pace * math.cos(error), pace * math.sin(error)
        most = config.max_vy
        if abs(vy) > most:
            vx, vy = vx * most / abs(vy), math.copysign(most, vy)
        vx = min(speed + config.acceleration * dt, max(speed - config.deceleration * dt, vx))
        return Twist2D(vx, vy, 0.0)

    def _back_to_path(self, pose: Pose2D) -> float:
        """Return the sideways speed that takes the body back over the path."""
        x, y = self._point_at(self._progress)
        aside = -math.sin(pose.yaw) * (x - pose.x) + math.cos(pose.yaw) * (y - pose.y)
        most = self._config.max_vy
        return max(-most, min(most, self._config.lateral_gain * aside))

    def _speed_in(self, clearance: float) -> float:
        """Return the speed for so much free floor around the body [m]."""
        config = self._config
        if clearance >= config.slow_clearance:
            return config.cruise_speed
        slow = min(config.narrow_speed, config.cruise_speed)
        return slow + (config.cruise_speed - slow) * clearance / config.slow_clearance

    def _bend_speed(self) -> float:
        """Return the speed from which it can still brake for every bend within BEND_LOOK [m] ahead."""
        config = self._config
        first = self._progress
        along = np.arange(first, first + BEND_LOOK + BEND_SPAN + 1e-9, BEND_STEP)
        x = np.interp(along, self._along, self._points[:, 0])
        y = np.interp(along, self._along, self._points[:, 1])
        headings = np.arctan2(np.diff(y), np.diff(x))
        real = along[1:] <= self._along[-1]
        apart = round(BEND_SPAN / BEND_STEP)
        turns = np.abs(
            np.remainder(headings[apart:] - headings[:-apart] + np.pi, 2 * np.pi) - np.pi
        )
        turns = np.where(real[apart:], turns, 0.0)
        bends = np.maximum(turns / BEND_SPAN, 1e-6)
        allowed = np.minimum(np.sqrt(config.lateral_acceleration / bends), config.max_omega / bends)
        before = along[: len(bends)] - first
        return float(np.sqrt(allowed**2 + 2.0 * config.deceleration * before).min())

    def _turn(self, error: float) -> float:
        most = self._config.max_omega
        return max(-most, min(most, self._config.heading_gain * error))

    def _bend(self, aim: tuple[float, float]) -> float:
        """Return how much the path bends beyond the aim point, 0 straight .. 1 by 90 degrees or more."""
        ahead = self._config.lookahead_distance
        here = self._point_at(self._progress)
        beyond = self._point_at(self._progress + 2.0 * ahead)
        first = (aim[0] - here[0], aim[1] - here[1])
        second = (beyond[0] - aim[0], beyond[1] - aim[1])
        if math.hypot(*first) < SAME_POINT or math.hypot(*second) < SAME_POINT:
            return 0.0
        turn = wrap_angle(math.atan2(second[1], second[0]) - math.atan2(first[1], first[0]))
        return min(1.0, abs(turn) / (math.pi / 2.0))

    def _advance(self, pose: Pose2D) -> float:
        """Move the progress on to the nearest point of the path's next stretch; return the distance to it [m]."""
        here = np.array([pose.x, pose.y])
        if len(self._points) == 1:
            return float(np.hypot(*(self._points[0] - here)))
        window = JOIN_WINDOW if not self._joined else 2.0 * self._config.lookahead_distance
        first = max(0, int(np.searchsorted(self._along, self._progress, side="right")) - 1)
        last = int(np.searchsorted(self._along, self._progress + window, side="left"))
        first = min(first, len(self._points) - 2)
        last = max(first + 1, min(last, len(self._points) - 1))
        starts, ends = self._points[first:last], self._points[first + 1 : last + 1]
        edges = ends - starts
        lengths = np.hypot(edges[:, 0], edges[:, 1])
        share = np.clip(((here - starts) * edges).sum(axis=1) / lengths**2, 0.0, 1.0)
        along = np.clip(
            self._along[first:last] + share * lengths, self._progress, self._progress + window
        )
        share = (along - self._along[first:last]) / lengths
        gaps = np.hypot(*(starts + share[:, None] * edges - here).T)
        best = int(np.argmin(gaps))
        self._progress = float(along[best])
        self._joined = True
        return float(gaps[best])

    def _point_at(self, along: float) -> tuple[float, float]:
        """Return the point at this distance along the path, its end at most."""
        x = np.interp(along, self._along, self._points[:, 0])
        y = np.interp(along, self._along, self._points[:, 1])
        return float(x), float(y)
