"""DriftCorrection: where odom lies in the map that is being made, so that walls seen again fall on themselves.

Each frame is matched to the grid made so far, close to where it is expected, and moves map -> odom a little. What
is new to the grid is placed by odometry; what was seen before pulls the robot back to where it was when it made that
part. Along a direction that the surroundings do not fix (a corridor without features) odometry is kept.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.geometry import compose, inverse, transform_points, wrap_angle
from rhino_actors.mapping.likelihood import DistanceField, Transform, refine, thinned
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import UNKNOWN, GridGeometry


@dataclass(frozen=True)
class DriftOptions:
    """How much a frame is believed."""

    radius: float = 5.0  # [m] of the grid around the robot that a frame is matched to
    view_share: float = (
        0.7  # of the farthest obstacle's distance, within which obstacles are matched
    )
    blend: float = 0.2  # part of a frame's correction that is taken over
    max_step: tuple[float, float] = (0.03, math.radians(0.6))  # per frame [m], [rad]
    gate: tuple[float, float] = (0.30, math.radians(6.0))  # corrections beyond are not believed
    min_ends: int = 40  # obstacle points of a frame on known cells that make evidence
    min_share: float = 0.6  # of them on the grid's obstacles after the match
    min_information: float = 0.10  # of a direction that is corrected, as for `refine`
    prior: tuple[float, float] = (0.1, 0.1)  # weight of odometry, against one end


class DriftCorrection:
    """Keeps map_from_odom while mapping. Not thread-safe: one caller at a time.

    Attributes:
        map_from_odom: where odom lies in the map; the identity until something was seen again.
    """

    def __init__(self, options: DriftOptions | None = None) -> None:
        """Start with odom and map as one."""
        self.options = options or DriftOptions()
        self.map_from_odom: Transform = (0.0, 0.0, 0.0)

    def place(self, pose: Pose2D) -> tuple[float, float]:
        """Return where a robot at a pose in odom is in the map [m]."""
        x, y, _ = compose(self.map_from_odom, pose.as_tuple())
        return x, y

    def correct(
        self,
        occupancy: NDArray[np.int8],
        geometry: GridGeometry,
        ends: NDArray[np.float64],
        pose: Pose2D,
    ) -> Transform:
        """Match a frame to the map, before it becomes part of it, and return map_from_odom.

        Args:
            occupancy: (rows, cols) int8 of the map, at least `options.radius` around the robot. Not changed.
            geometry: where it lies in the frame map.
            ends: (N, 2) the frame's obstacles in odom [m].
            pose: of the robot in odom.
        """
        options = self.options
        x, y, _ = here = compose(self.map_from_odom, pose.as_tuple())
        window, where = crop(occupancy, geometry, x, y, options.radius)
        # At the edge of the view walls go on where earlier frames saw them end: matched, they would pull back.
        distances = np.hypot(ends[:, 0] - pose.x, ends[:, 1] - pose.y)
        if len(ends):
            ends = ends[distances <= options.view_share * float(distances.max())]
        ends = thinned(ends, geometry.resolution, 500)
        placed = transform_points(self.map_from_odom, ends)
        cells = where.cells_from_world(placed)
        rows, cols = window.shape
        inside = (
            (cells[:, 0] >= 0) & (cells[:, 0] < rows) & (cells[:, 1] >= 0) & (cells[:, 1] < cols)
        )
        known = np.zeros(len(ends), np.bool_)
        known[inside] = window[cells[inside, 0], cells[inside, 1]] != UNKNOWN
        if np.count_nonzero(known) < options.min_ends:
            return self.map_from_odom
        match = refine(
            DistanceField(window, where),
            ends[known],
            self.map_from_odom,
            (pose.x, pose.y),
            prior=options.prior,
            min_information=options.min_information,
            rounds=6,
        )
        if match.share < options.min_share:
            return self.map_from_odom
        there = compose(match.transform, pose.as_tuple())
        distance = math.hypot(there[0] - x, there[1] - y)
        turn = wrap_angle(there[2] - here[2])
        if distance > options.gate[0] or abs(turn) > options.gate[1]:
            return self.map_from_odom
        part = min(options.blend, options.max_step[0] / max(distance, 1e-9))
        turned = max(-options.max_step[1], min(options.max_step[1], options.blend * turn))
        moved = (
            x + part * (there[0] - x),
            y + part * (there[1] - y),
            wrap_angle(here[2] + turned),
        )
        self.map_from_odom = compose(moved, inverse(pose.as_tuple()))
        return self.map_from_odom


def crop(
    occupancy: NDArray[np.int8], geometry: GridGeometry, x: float, y: float, radius: float
) -> tuple[NDArray[np.int8], GridGeometry]:
    """Return the part of a grid within `radius` [m] of a place along each axis, as a view, and where it lies."""
    row, col = geometry.cell_from_world(x, y)
    reach = math.ceil(radius / geometry.resolution)
    rows, cols = occupancy.shape
    row0, row1 = (min(max(value, 0), rows) for value in (row - reach, row + reach + 1))
    col0, col1 = (min(max(value, 0), cols) for value in (col - reach, col + reach + 1))
    origin = (
        geometry.origin[0] + col0 * geometry.resolution,
        geometry.origin[1] + row0 * geometry.resolution,
    )
    window = occupancy[row0:row1, col0:col1]
    return window, GridGeometry(geometry.resolution, origin, window.shape)
