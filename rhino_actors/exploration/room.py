"""Which floor is worth seeing: where the body would fit, if what is unknown were free, and could get to."""

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.window import CellWindow

OCCUPIED_FROM = 50


class Room:
    """Floor that the centre of the body may come to stand on.

    The insides of furniture, the slit between a wall and its double in a map that drifted, and a pocket behind a gap
    that is too narrow are none: nothing that is seen there lets the robot go anywhere.
    """

    def __init__(self) -> None:
        self._wide = np.empty((0, 0), np.uint8)  # 1: no obstacle within the radius
        self._labels = np.empty((0, 0), np.int32)  # pieces of wide cells, 0: none

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
        if changed is None or occupancy.shape != self._wide.shape:
            changed, self._wide = whole, np.empty(occupancy.shape, np.uint8)
        if changed.is_empty:
            return
        written = changed.grown(reach).clipped(whole)
        read = written.grown(reach).clipped(whole)
        obstacles = (occupancy[read.slices] >= OCCUPIED_FROM).astype(np.uint8)
        tight = cv2.dilate(obstacles, _disc(radius / resolution), borderValue=0)
        self._wide[written.slices] = 1 - tight[written.moved(-read.row0, -read.col0).slices]
        _, labels = cv2.connectedComponents(self._wide, connectivity=4, ltype=cv2.CV_32S)
        self._labels = np.asarray(labels, np.int32)

    def reachable(self, row: int, col: int, reach: int) -> NDArray[np.bool_]:
        """Return the cells (rows, cols) that a way leads to from a cell.

        From a cell that is none of them, as where the robot was squeezed in: from any within `reach` cells; if there is
        none, all cells, so that it is not taken for a sign that nothing is left.
        """
        rows, cols = self._labels.shape
        inside = 0 <= row < rows and 0 <= col < cols
        if inside and self._labels[row, col]:
            here: NDArray[np.bool_] = self._labels == self._labels[row, col]
            return here
        near = np.unique(
            self._labels[
                max(0, row - reach) : max(0, row + reach + 1),
                max(0, col - reach) : max(0, col + reach + 1),
            ]
        )
        if not near.any():
            return np.ones(self._labels.shape, np.bool_)
        chosen = np.zeros(int(self._labels.max()) + 1, np.bool_)
        chosen[near] = True
        chosen[0] = False
        found: NDArray[np.bool_] = chosen[self._labels]
        return found


def _disc(radius: float) -> NDArray[np.uint8]:
    """Return the cells nearer than a radius [cells] as a kernel."""
    reach = math.ceil(radius)
    rows, cols = np.ogrid[-reach : reach + 1, -reach : reach + 1]
    disc: NDArray[np.uint8] = (rows**2 + cols**2 < radius**2).astype(np.uint8)
    return disc
