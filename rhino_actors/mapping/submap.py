"""What a lidar saw of late, as a small grid in odom that forgets: the piece of map that is matched to another."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rhino_actors.mapping.inflation import LETHAL_OCCUPANCY
from rhino_actors.mapping.likelihood import DistanceField
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import UNKNOWN, GridGeometry

MAX_RANGE = 9.5  # [m] farthest return that counts
FREE_LIMIT = 35  # occupancy up to which a cell counts as clear
CLEAR_DISTANCE = 0.15  # [m] that a clear place keeps from every obstacle


@dataclass(frozen=True)
class Band:
    """Which of a lidar's points are obstacles."""

    obstacle_min_height: float = 0.08  # [m] above z = 0; lower is floor
    obstacle_max_height: float = 0.60  # [m]; higher is passed under
    body_length: float = (
        0.70  # [m] of the box along the robot's x in which points are the robot itself
    )
    body_width: float = 0.31  # [m] along its y

    def mapper(self, resolution: float = 0.05) -> OccupancyMapper:
        """Return an empty grid that sees the same obstacles; cell edge [m]."""
        return OccupancyMapper(
            resolution,
            max_range=MAX_RANGE,
            obstacle_min_height=self.obstacle_min_height,
            obstacle_max_height=self.obstacle_max_height,
            body_length=self.body_length,
            body_width=self.body_width,
        )


class RecentGrid:
    """A grid of the last stretch of way. Two are kept, one begun half a stretch later, so that one is long enough.

    Over the stretch odometry is taken as exact: it must be short against its drift.
    """

    def __init__(
        self, band: Band, *, way: float = 12.0, duration: float = 60.0, resolution: float = 0.05
    ) -> None:
        """Start empty.

        Args:
            band: what counts as an obstacle.
            way: length of the stretch [m], and so
            duration: its longest time [s].
            resolution: cell edge [m].
        """
        self._half = (way / 2.0, duration / 2.0)
        self._band = band
        self._resolution = resolution
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        self._old = self._band.mapper(self._resolution)
        self._young = self._band.mapper(self._resolution)
        self._way = 0.0  # [m] since the younger one was begun
        self._since = -math.inf
        self._last: Pose2D | None = None

    def add(
        self,
        points: ArrayLike,
        origin: tuple[float, float, float],
        pose: Pose2D,
        *,
        voxel_size: float,
        stamp: float,
    ) -> None:
        """Take in a frame; arguments as for OccupancyMapper.integrate, `stamp` [s] on any one clock."""
        if self._last is None:
            self._since = stamp
        else:
            self._way += self._last.distance_to(pose.x, pose.y)
        self._last = pose
        if self._way > self._half[0] or stamp - self._since > self._half[1]:
            self._old, self._young = self._young, self._band.mapper(self._resolution)
            self._way, self._since = 0.0, stamp
        for grid in (self._old, self._young):
            grid.integrate(points, origin, pose=pose, voxel_size=voxel_size)

    def places(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the centres in odom [m] of obstacle cells (N, 2) and of cells well clear of them (M, 2)."""
        return obstacle_and_clear_places(self._old.occupancy(), self._old.geometry)


def obstacle_and_clear_places(
    occupancy: NDArray[np.int8], geometry: GridGeometry
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the centres [m] of a grid's obstacle cells (N, 2) and of its free cells well clear of them (M, 2)."""
    ends = geometry.world_from_cells(np.argwhere(occupancy >= LETHAL_OCCUPANCY))
    distance = DistanceField(occupancy, geometry).distance
    clear = (occupancy != UNKNOWN) & (occupancy <= FREE_LIMIT) & (distance > CLEAR_DISTANCE)
    return ends, geometry.world_from_cells(np.argwhere(clear))


def obstacle_ends(
    points: ArrayLike,
    pose: Pose2D,
    band: Band,
) -> NDArray[np.float64]:
    """Return the places (K, 2) [m] of one frame's obstacles, in the points' frame.

    Args:
        points: (N, 3) [m]; those that are not finite, too far, at other heights or on the robot itself are left out.
        pose: of the robot, same frame.
        band: what counts as an obstacle.
    """
    cloud = np.asarray(points, np.float64)
    cloud = cloud[np.isfinite(cloud).all(axis=1)]
    cloud = cloud[
        (cloud[:, 2] >= band.obstacle_min_height) & (cloud[:, 2] <= band.obstacle_max_height)
    ]
    dx, dy = cloud[:, 0] - pose.x, cloud[:, 1] - pose.y
    cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
    along, across = cos * dx + sin * dy, cos * dy - sin * dx
    on_robot = (np.abs(along) <= band.body_length / 2.0) & (np.abs(across) <= band.body_width / 2.0)
    ends: NDArray[np.float64] = cloud[~on_robot & (np.hypot(dx, dy) <= MAX_RANGE), :2]
    return ends
