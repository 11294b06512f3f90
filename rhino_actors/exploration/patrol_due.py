"""What is due of the floor of a patrol, whose it is on the round, and what the robot has in view on its way there."""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.exploration.patrol_routers import PatrolGoal, Ways
from rhino_actors.exploration.visitation import FREE_BELOW, Survey, _read_only, line_is_open
from rhino_actors.messages.grid import LETHAL_OBSTACLE, MapSnapshot


@dataclass(frozen=True, slots=True)
class Floor:
    """What the map and the visits say about the cells, all (rows, cols)."""

    snapshot: MapSnapshot
    is_safe: NDArray[np.bool_]  # a goal may be there, and it can be reached
    age: NDArray[np.float32]  # [s] of the last visit; inf: none


class Due:
    """The K cells that are due, whose they are, and how far away."""

    def __init__(
        self,
        floor: Floor,
        owner: NDArray[np.int32],
        survey: Survey,
        tree: Ways,
        excluded: NDArray[np.bool_],
        least_age: float,
    ) -> None:
        self.least_age = least_age
        self._survey = survey
        self._costmap = floor.snapshot.costmap
        self._open = np.isfinite(tree.length) & ~excluded
        cells = np.argwhere(floor.is_safe & (owner >= 0) & (floor.age >= least_age))
        blocks = self.block_of(cells)
        cells = cells[self.is_open(blocks)]
        blocks = self.block_of(cells)
        self.cells = cells.astype(np.int32)  # (K, 2) row, col
        self.owner = owner[cells[:, 0], cells[:, 1]]  # (K,)
        self.length = tree.length[blocks[:, 0], blocks[:, 1]]  # (K,) [m] of the way there
        self.age = floor.age[cells[:, 0], cells[:, 1]].astype(np.float64)
        self.age[np.isinf(self.age)] = max(0.0, float(survey.oldest.max(initial=0.0)))

    def block_of(self, cells: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return row, col (K, 2) of the blocks that hold cells of the map."""
        survey = self._survey
        on_lattice = cells + np.array(survey.geometry.first_cell)
        blocks = on_lattice // survey.block - np.array(survey.first_block)
        return np.asarray(blocks, np.int32)

    def is_open(self, blocks: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which blocks (K, 2) can be reached and are not excluded."""
        inside = ((blocks >= 0) & (blocks < self._open.shape)).all(axis=1)
        found = np.zeros(len(blocks), np.bool_)
        found[inside] = self._open[blocks[inside, 0], blocks[inside, 1]]
        return found

    def reach(self, radius: float) -> float:
        """Return a radius [m] in cells."""
        return radius / self._survey.geometry.resolution

    def way_length(self, cell: NDArray[np.int32], tree: Ways) -> float:
        """Return the length of the way from the robot to a cell [m]; inf if there is none."""
        row, col = self.block_of(cell[None])[0]
        return float(tree.length[row, col])

    def is_beside(
        self, cells: NDArray[np.int32], goal: NDArray[np.int32], tree: Ways, radius: float
    ) -> NDArray[np.bool_]:
        """Return which cells (K, 2) the way from the robot to a goal comes near to [m], and has in view."""
        found = np.zeros(len(cells), np.bool_)
        _in_view(
            cells.astype(np.int32),
            self._way_to(goal, tree),
            self.reach(radius),
            _read_only(self._costmap),
            found,
        )
        return found

    def _way_to(self, cell: NDArray[np.int32], tree: Ways) -> NDArray[np.int32]:
        """Return the cells (L, 2) in the middle of the blocks along the way from the robot."""
        row, col = self.block_of(cell[None])[0]
        cols = tree.length.shape[1]
        at, blocks = int(row) * cols + int(col), []
        while at >= 0:
            blocks.append(divmod(at, cols))
            at = int(tree.parent.flat[at])
        survey = self._survey
        corner = (np.array(blocks) + np.array(survey.first_block)) * survey.block
        middle = corner + survey.block // 2 - np.array(survey.geometry.first_cell)
        return np.asarray(middle, np.int32)

    def goal(
        self, cell: NDArray[np.int32], tree: Ways, seen_from_there: NDArray[np.int32]
    ) -> PatrolGoal:
        """Return a cell as the goal."""
        row, col = self.block_of(cell[None])[0]
        at = (int(row), int(col))
        return PatrolGoal(
            at,
            (int(cell[0]), int(cell[1])),
            float(tree.length[at]),
            float(self._survey.oldest[at]),
            seen_from_there,
        )


def safe_floor(
    snapshot: MapSnapshot,
    cost_to_go: NDArray[np.float32],
    max_cost: int,
    area: NDArray[np.bool_] | None,
) -> NDArray[np.bool_]:
    """Return the cells where a goal may be and that can be reached, as a Survey counts them."""
    occupancy, costmap = snapshot.occupancy, snapshot.costmap
    is_safe = (costmap <= max_cost) & (occupancy >= 0) & (occupancy < FREE_BELOW)
    is_safe &= np.isfinite(cost_to_go)
    if area is not None:
        is_safe &= area
    return np.asarray(is_safe, np.bool_)


@njit(nogil=True, cache=True)
def _in_view(cells, along, reach, costmap, found):  # type: ignore[no-untyped-def]
    """Note which cells one of the cells along a way is near to, with no wall between them."""
    rows, cols = costmap.shape
    for i in range(len(cells)):
        row, col = cells[i]
        for j in range(len(along)):
            r, c = along[j]
            if not (0 <= r < rows and 0 <= c < cols):
                continue
            if (r - row) ** 2 + (c - col) ** 2 > reach * reach:
                continue
            if line_is_open(r, c, row, col, costmap, LETHAL_OBSTACLE):
                found[i] = True
                break
