"""PathDriving: what the follower wants and the collision monitor allows, made into one twist.

Where the way is blocked it looks for another way on: to call a place just short of the goal the goal, or to go on
along the path without turning. Pure.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.control.collision_monitor import CollisionMonitor, Limited
from rhino_actors.control.path_follower import PathFollower
from rhino_actors.messages.geometry import Pose2D, Twist2D


@dataclass(frozen=True, slots=True)
class DriveStep:
    """One control period on a path."""

    twist: Twist2D
    arrived: bool
    obstacle: str  # a sentence on what is in the way; empty: nothing
    distance_remaining: float  # [m] along the path
    deviation: float  # [m] of the robot from the path


class PathDriving:
    """Drives along one path at a time, under the collision monitor."""

    def __init__(
        self, follower: PathFollower, monitor: CollisionMonitor, *, accept_within: float
    ) -> None:
        """Take over the follower and share the monitor, whose frames the owner gives it.

        Args:
            follower: without a path.
            monitor: shared.
            accept_within: [m] from the goal within which an obstacle makes the present place the goal.
        """
        self._follower = follower
        self._monitor = monitor
        self._accept_within = accept_within

    def set_path(self, poses: NDArray[np.floating], final_yaw: float | None) -> None:
        """Take a path, as `PathFollower.set_path`."""
        self._follower.set_path(poses, final_yaw)

    def clear(self) -> None:
        """Forget the path."""
        self._follower.clear()

    def step(self, pose: Pose2D, *, speed: float, dt: float) -> DriveStep:
        """Return the twist for this control period. The monitor's frame must be a new one.

        Args:
            pose: newest, in odom.
            speed: [m/s] forward speed last sent.
            dt: [s] control period.

        Raises:
            ValueError: there is no path.
        """
        clearance = self._monitor.clearance(pose)
        step = self._follower.step(pose, speed=speed, dt=dt, clearance=clearance)
        if step.arrived:
            twist, obstacle = Twist2D(), ""
        else:
            twist, obstacle = self._allowed(step.twist, pose)
        return DriveStep(twist, step.arrived, obstacle, step.distance_remaining, step.deviation)

    def _allowed(self, twist: Twist2D, pose: Pose2D) -> tuple[Twist2D, str]:
        """Return what may be driven instead of a blocked twist, and what is in the way."""
        limited = self._monitor.limit(twist, pose)
        if not limited.blocked:
            return limited.twist, ""
        if self._follower.accept_here(pose, self._accept_within):
            return Twist2D(), ""
        sideways = self._monitor.limit(self._follower.crab_twist(pose), pose)
        if sideways.blocked:
            self._follower.turn_again()
            return Twist2D(), describe(limited)
        self._follower.keep_heading()
        return sideways.twist, ""


def describe(limited: Limited) -> str:
    """Return the sentence that tells people what is in the way."""
    place = f" at x {limited.where[0]:.2f}, y {limited.where[1]:.2f}" if limited.where else ""
    return f"Something is in the way{place}."
