"""Which floor is worth seeing: where the body would fit, if what is unknown were free, and could get to."""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.exploration.travel import CoarseTravel
from rhino_actors.messages.grid import LETHAL_OBSTACLE
from rhino_actors.messages.window import CellWindow

OCCUPIED_FROM = 50


class Room:
    """Floor that the centre of the body may come to know by standing on it.

    The insides of furniture, the slit between a wall and its double in a map that drifted, and a pocket behind a gap
    that is too narrow are none: nothing that is seen there lets the robot go anywhere.
    """

    def __init__(self) -> None:
        # (rows, cols) uint8: LETHAL_OBSTACLE nearer to an obstacle than the radius, else 0.
        self.tight = np.empty((0, 0), np.uint8)
        self._ways = CoarseTravel()

    @property
    def block(self) -> int:
        """Cells along the edge of a block of `reachable`."""
        return self._ways.block

    def update(
        self,
        occupancy: NDArray[np.int8],
        resolution: float,
        radius: float,
        changed: CellWindow | None = None,
    ) -> None:
        """Take a map (rows, cols) int8; not kept. radius: inscribed [m]. changed: as in FrontierMap.update."""
        whole = CellWindow(0, occupancy.shape[0], 0, occupancy.shape[1])
        reach = math.ceil(radius / resolution)
        if changed is None or occupancy.shape != self.tight.shape:
            changed, self.tight = None, np.empty(occupancy.shape, np.uint8)
        window = whole if changed is None else changed
        if window.is_empty:
            return
        grown = window.grown(reach).clipped(whole)
        read = grown.grown(reach).clipped(whole)
        obstacles = (occupancy[read.slices] >= OCCUPIED_FROM).astype(np.uint8) * LETHAL_OBSTACLE
        tight = cv2.dilate(obstacles, _disc(radius / resolution), borderValue=0)
        self.tight[grown.slices] = tight[grown.moved(-read.row0, -read.col0).slices]
        self._ways.update(self.tight, resolution, None if changed is None else grown)

    def reachable(self, row: int, col: int, radius: float) -> NDArray[np.bool_]:
        """Return the blocks that a way leads to from the floor within `radius` [m] of a cell, unknown floor or not."""
        return np.isfinite(self._ways.from_robot(row, col, radius))


def _disc(radius: float) -> NDArray[np.uint8]:
    """Return the cells nearer than a radius [cells] as a kernel."""
    reach = math.ceil(radius)
    rows, cols = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    return (rows**2 + cols**2 < radius**2).astype(np.uint8)
