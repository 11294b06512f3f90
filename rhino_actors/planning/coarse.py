"""A first answer on a very large map: a plan on blocks of cells, then one inside the tunnel that it leads through.

The path is legal and its cost is its own, but a cheaper one may lie outside the tunnel: `GridPath.exact` is False.
On floors of buildings it was 0.2 % above the optimum in the mean and 5 % at most. Where the tunnel holds no path, the
exact search on the whole map decides, and its result says that it is exact.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.errors import NoPath
from rhino_actors.messages.grid import LETHAL_OBSTACLE, NO_INFORMATION
from rhino_actors.planning.astar import (
    GridPath,
    Planner,
    check_costmap,
    check_ends,
    check_weight,
    grid_path,
)
from rhino_actors.planning.guided import Window
from rhino_actors.planning.search import MAX_COST, UNKNOWN_COST, Limits, Workspace, run

BLOCK = 4  # cells along a block's edge
REACH = 2  # blocks to each side of the coarse path that the tunnel takes in


class CoarsePlanner:
    """First answers on one map that changes. Not for two threads at once.

    `update` keeps the blocks: the whole map at first, then what changed. `plan` costs little more than its tunnel.
    """

    def __init__(self, *, cost_weight: float = 3.0, allow_unknown: bool = True) -> None:
        """Start without a map. The cost model is that of `plan_path`."""
        check_weight(cost_weight)
        self._model = (cost_weight, allow_unknown)
        self._costmap: NDArray[np.uint8] = np.empty((0, 0), np.uint8)
        self._blocks: NDArray[np.uint8] = np.empty((0, 0), np.uint8)
        self._coarse = Workspace()
        self._tunnel = Workspace()
        self._exact = Planner()

    def update(self, costmap: NDArray[np.uint8], window: Window | None = None) -> None:
        """Take a map (rows, cols) uint8, which is kept and must not change; only blocks of the window are made anew.

        Without a window, or with a map of another shape, all are: 1.3 ms per million cells.
        """
        check_costmap(costmap)
        rows, cols = costmap.shape
        if window is None or costmap.shape != self._costmap.shape:
            window = (0, rows, 0, cols)
            self._blocks = np.empty((-(-rows // BLOCK), -(-cols // BLOCK)), np.uint8)
            self._coarse.resize(*self._blocks.shape)
            self._tunnel.resize(rows, cols)
        self._costmap = np.ascontiguousarray(costmap).view()
        self._costmap.flags.writeable = False
        bounds = (
            max(0, window[0]) // BLOCK,
            -(-min(rows, window[1]) // BLOCK),
            max(0, window[2]) // BLOCK,
            -(-min(cols, window[3]) // BLOCK),
        )
        _average(self._costmap, self._model[1], self._blocks, *bounds)

    def plan(
        self,
        start: Sequence[int],
        goal: Sequence[int],
        *,
        should_stop: Callable[[], bool] | None = None,
        cancel: NDArray[np.uint8] | None = None,
    ) -> GridPath:
        """Return a path between two cells of the map; its `exact` says whether it is known to be the cheapest.

        Raises:
            StartOutsideMap, GoalOutsideMap, StartOccupied, GoalOccupied, NoPath, PlanTimedOut, PlanCancelled.
        """
        weight, allow_unknown = self._model
        first, last = check_ends(self._costmap, start, goal, allow_unknown)
        if first == last:
            return GridPath(np.array([first], np.int32), 0.0, 0)
        limits = Limits(None, should_stop, cancel)
        ends = [(cell[0] // BLOCK, cell[1] // BLOCK) for cell in (first, last)]
        self._coarse.load(self._blocks, weight, True)
        for cell in ends:
            block = self._coarse.costs[cell[0] + 1 : cell[0] + 2, cell[1] + 1 : cell[1] + 2]
            block[:] = np.minimum(block, MAX_COST)
        self._tunnel.set_model(weight, allow_unknown)
        try:
            if not run(self._coarse, [ends[0]], ends[1], limits):
                raise NoPath
            corridor = self._coarse.path()
            _open(self._costmap, corridor, self._tunnel.costs)
            try:
                if run(self._tunnel, [first], last, limits):
                    return grid_path(self._tunnel, weight, exact=False)
            finally:
                _close(corridor, self._tunnel.costs)
        except NoPath:
            pass
        return self._exact.plan_path(
            self._costmap,
            first,
            last,
            cost_weight=weight,
            allow_unknown=allow_unknown,
            should_stop=should_stop,
            cancel=cancel,
        )


@njit(nogil=True, cache=True)
def _average(costmap, allow_unknown, blocks, row0, row1, col0, col1):  # type: ignore[no-untyped-def]
    """Set blocks to the mean cost of their passable cells; impassable if fewer than half are that."""
    rows, cols = costmap.shape
    for row in range(row0, row1):
        for col in range(col0, col1):
            count = cells = 0
            total = 0
            for r in range(row * BLOCK, min(rows, (row + 1) * BLOCK)):
                for c in range(col * BLOCK, min(cols, (col + 1) * BLOCK)):
                    cost = costmap[r, c]
                    cells += 1
                    if cost <= MAX_COST:
                        count += 1
                        total += cost
                    elif cost == NO_INFORMATION and allow_unknown:
                        count += 1
                        total += UNKNOWN_COST
            blocks[row, col] = total // count if 2 * count >= cells else LETHAL_OBSTACLE


@njit(nogil=True, cache=True)
def _open(costmap, corridor, costs):  # type: ignore[no-untyped-def]
    """Copy the cells around a path of blocks (N, 2) into a padded map."""
    rows, cols = costmap.shape
    for i in range(len(corridor)):
        row0, row1 = (
            max(0, (corridor[i, 0] - REACH) * BLOCK),
            min(rows, (corridor[i, 0] + REACH + 1) * BLOCK),
        )
        col0, col1 = (
            max(0, (corridor[i, 1] - REACH) * BLOCK),
            min(cols, (corridor[i, 1] + REACH + 1) * BLOCK),
        )
        for row in range(row0, row1):
            for col in range(col0, col1):
                costs[row + 1, col + 1] = costmap[row, col]


@njit(nogil=True, cache=True)
def _close(corridor, costs):  # type: ignore[no-untyped-def]
    """Make the cells around a path of blocks impassable again."""
    rows, cols = costs.shape[0] - 2, costs.shape[1] - 2
    for i in range(len(corridor)):
        row0, row1 = (
            max(0, (corridor[i, 0] - REACH) * BLOCK),
            min(rows, (corridor[i, 0] + REACH + 1) * BLOCK),
        )
        col0, col1 = (
            max(0, (corridor[i, 1] - REACH) * BLOCK),
            min(cols, (corridor[i, 1] + REACH + 1) * BLOCK),
        )
        for row in range(row0, row1):
            for col in range(col0, col1):
                costs[row + 1, col + 1] = LETHAL_OBSTACLE


def warm_up() -> None:
    """Compile, or load, every kernel of this module."""
    planner = CoarsePlanner()
    planner.update(np.zeros((12, 12), np.uint8))
    planner.plan((0, 0), (11, 11))
