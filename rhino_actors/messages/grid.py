"""Grids: geometry, cost values, map snapshots.

Grid arrays are indexed `[row, col]` = `[y, x]`; row 0 has the lowest y. `row, col` are indices, `x, y` metres.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.window import CellWindow

# Occupancy grid, int8, as nav_msgs/OccupancyGrid.
UNKNOWN = -1
FREE = 0
OCCUPIED = 100

# Costmap, uint8, as Nav2's cost_values.hpp.
FREE_SPACE = 0
INSCRIBED_INFLATED_OBSTACLE = 253
LETHAL_OBSTACLE = 254
NO_INFORMATION = 255


# Grids that grow do so by square tiles of this many cells a side; tile (0, 0) begins at the frame's origin.
TILE_CELLS = 32

# Without relocalisation or drift correction the frames map and odom are one.
NO_CORRECTION = Pose2D(0.0, 0.0, 0.0)


class MapLayer(StrEnum):
    """What a map is made of."""

    OCCUPANCY = "occupancy"
    VOXELS = "voxels"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class GridGeometry:
    """Where a grid lies in its frame (odom, or map after relocalisation)."""

    resolution: float  # [m] cell edge
    origin: tuple[float, float]  # [m] x, y of the lower-left corner of cell (0, 0)
    shape: tuple[int, int]  # rows, cols

    @property
    def first_cell(self) -> tuple[int, int]:
        """Row, col of cell (0, 0) in the frame, for a grid whose cell edges lie on multiples of the resolution."""
        return (round(self.origin[1] / self.resolution), round(self.origin[0] / self.resolution))

    def cell_from_world(self, x: float, y: float) -> tuple[int, int]:
        """Return (row, col) of the cell that holds the point; it may lie outside the grid."""
        return (
            math.floor((y - self.origin[1]) / self.resolution),
            math.floor((x - self.origin[0]) / self.resolution),
        )

    def world_from_cell(self, row: int, col: int) -> tuple[float, float]:
        """Return (x, y) of the cell's centre [m]."""
        return (
            self.origin[0] + (col + 0.5) * self.resolution,
            self.origin[1] + (row + 0.5) * self.resolution,
        )

    def cells_from_world(self, points: NDArray[np.floating]) -> NDArray[np.int32]:
        """Return (N, 2) row, col of points (N, 2) x, y [m]."""
        cols = np.floor((points[:, 0] - self.origin[0]) / self.resolution)
        rows = np.floor((points[:, 1] - self.origin[1]) / self.resolution)
        return np.stack([rows, cols], axis=1).astype(np.int32)

    def world_from_cells(self, cells: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return (N, 2) x, y [m] of the centres of cells (N, 2) row, col."""
        x = self.origin[0] + (cells[:, 1] + 0.5) * self.resolution
        y = self.origin[1] + (cells[:, 0] + 0.5) * self.resolution
        return np.stack([x, y], axis=1)

    def contains(self, row: int, col: int) -> bool:
        return 0 <= row < self.shape[0] and 0 <= col < self.shape[1]


@dataclass(frozen=True, slots=True)
class MapSnapshot:
    """The map at one moment, immutable. `(epoch, seq)` orders snapshots; a new epoch means the mapper restarted."""

    epoch: int
    seq: int
    stamp: float  # [s] monotonic, of the newest frame that is in it, on the robot-side host
    geometry: GridGeometry
    occupancy: NDArray[np.int8]  # (rows, cols) -1 unknown, 0..100
    costmap: NDArray[np.uint8]  # (rows, cols) Nav2's values
    known_area: float  # [m2] of the cells that are not unknown
    robot: Pose2D | None = None  # of base_link in odom at the stamp
    map_from_odom: Pose2D = NO_CORRECTION  # where odom lies in the map; grids are in the frame map
    # False while the robot's place in a loaded map is not known: nothing in the map can be driven to.
    localised: bool = True
    # Cells that may differ from the reader's snapshot before this one; None: all, or the grid grew.
    changed: CellWindow | None = None

    @property
    def is_empty(self) -> bool:
        """True before the first frame."""
        return self.seq == 0
