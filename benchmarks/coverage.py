"""How much of a world's floor a robot's map has come to know, held against the truth. Pure.

Coverage is a share of the cells of the truth grid (5 cm) that the robot's centre can get to from the start, keeping
the inscribed radius from everything solid. Such a cell counts as known once the robot's map had a value there, free or
not, while the robot was within `NEAR`. Where a cell lies in the map is taken from the robot's true pose and the one
that it believed at that moment: so odometry that drifts moves the account along, and does not spoil it.
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.worlds.scene import TruthGrid
from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import OCCUPIED, UNKNOWN, MapSnapshot

NEAR = 4.0  # [m]: the L1's window reaches 3.2
LEAST_AREA = 0.02  # [m2] of a place that is told to be left


@dataclass(frozen=True, slots=True)
class LeftPlace:
    """Floor in one piece that the map never knew."""

    x: float  # [m] in the world, of its middle
    y: float
    area: float  # [m2]


class KnownFloor:
    """Takes in maps, newest last, and keeps the account."""

    def __init__(self, truth: TruthGrid) -> None:
        self.geometry = truth.geometry
        self.reachable = truth.reachable
        self._cells = np.argwhere(truth.reachable)
        self._places = truth.geometry.world_from_cells(self._cells)
        self._known = np.zeros(len(self._cells), np.bool_)
        self._blocked = np.zeros(len(self._cells), np.bool_)

    @property
    def coverage(self) -> float:
        """Share of the reachable floor that the map knew."""
        return float(np.mean(self._known))

    @property
    def blocked(self) -> float:
        """Share of the reachable floor that the map had as occupied when the robot was last near: it is free."""
        return float(np.mean(self._blocked))

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """(rows, cols) the reachable floor that the map never knew."""
        grid = self.reachable.copy()
        grid[tuple(self._cells[self._known].T)] = False
        return grid

    def step(self, snapshot: MapSnapshot, believed: Pose2D, true: Pose2D) -> None:
        """Take in a map.

        Args:
            snapshot: the newest map.
            believed: where the robot believes to be in it.
            true: where it is in the world.
        """
        near = np.flatnonzero(np.abs(self._places - (true.x, true.y)).max(axis=1) <= NEAR)
        map_from_world = compose(believed.as_tuple(), inverse(true.as_tuple()))
        cells = snapshot.geometry.cells_from_world(
            transform_points(map_from_world, self._places[near])
        )
        rows, cols = snapshot.geometry.shape
        inside = ((cells >= 0) & (cells < (rows, cols))).all(axis=1)
        values = np.full(len(near), UNKNOWN, np.int8)
        values[inside] = snapshot.occupancy[tuple(cells[inside].T)]
        self._known[near] |= values != UNKNOWN
        self._blocked[near] = values >= OCCUPIED // 2

    def left(self) -> list[LeftPlace]:
        """Return the places that the map never knew, the largest first."""
        count, _, stats, middles = cv2.connectedComponentsWithStats(
            self.unknown.astype(np.uint8), connectivity=8
        )
        size = self.geometry.resolution
        places = []
        for i in range(1, count):
            area = float(stats[i, cv2.CC_STAT_AREA]) * size**2
            if area >= LEAST_AREA:
                x, y = self.geometry.origin + (middles[i] + 0.5) * size
                places.append(LeftPlace(float(x), float(y), area))
        return sorted(places, key=lambda place: -place.area)
