"""Exact plans and cost-to-go fields on a costmap: numpy in, numpy out.

A move costs its length in cells (1 or sqrt 2) times (1 + cost_weight * c / 252), c the mean cost of the two cells
that it joins and 128 for an unknown one. It is the same in both directions, so one field serves both. A diagonal
needs both cells beside it passable. What comes back is the optimum of that model, to 2e-4 of its cost.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.errors import (
    BackendUnavailable,
    GoalOccupied,
    GoalOutsideMap,
    StartOccupied,
    StartOutsideMap,
)
from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE, NO_INFORMATION
from rhino_actors.planning.jps import JumpPointSearch
from rhino_actors.planning.search import (
    MAX_COST,
    UNKNOWN_COST,
    Cell,
    Limits,
    Workspace,
    run,
)

MAX_COST_WEIGHT = 1000.0


@dataclass(frozen=True, slots=True)
class GridPath:
    """A path over a costmap's cells."""

    cells: NDArray[np.int32]  # (N, 2) row, col from start to goal, both included
    cost: float  # in cells of free floor
    expanded: int  # cells that the search opened
    exact: bool = True  # False: a first answer, legal but perhaps not the cheapest


class Planner:
    """`plan_path` and `cost_to_go` with memory of its own, kept from call to call.

    An actor owns one. It is not for two threads at once; the functions of the module are.
    """

    def __init__(self) -> None:
        self._narrow = Workspace()
        self._wide: Workspace | None = None
        self._jumps = JumpPointSearch()

    def plan_path(
        self,
        costmap: NDArray[np.uint8],
        start: Sequence[int],
        goal: Sequence[int],
        *,
        cost_weight: float = 3.0,
        allow_unknown: bool = True,
        max_expansions: int | None = None,
        should_stop: Callable[[], bool] | None = None,
        cancel: NDArray[np.uint8] | None = None,
    ) -> GridPath:
        """See the function of this name; this one can be bounded.

        It opens at most `max_expansions` cells, asks `should_stop` every few milliseconds, and ends within
        microseconds once another thread makes `cancel` (1,) other than 0. A map on which all floor costs the same is
        searched by jump points.

        Raises:
            PlanTimedOut: max_expansions was reached, or should_stop said so.
            PlanCancelled: cancel was set.
        """
        check_costmap(costmap)
        check_weight(cost_weight)
        first, last = check_ends(costmap, start, goal, allow_unknown)
        if first == last:
            return GridPath(np.array([first], np.int32), 0.0, 0)
        limits = Limits(max_expansions, should_stop, cancel)
        if self._jumps.load(costmap, cost_weight, allow_unknown):
            cells, expanded = self._jumps.search(first, last, limits)
            return GridPath(cells, path_cost(costmap, cells, cost_weight), expanded)
        space = self._run(costmap, (cost_weight, allow_unknown), [first], last, limits)
        return grid_path(space, cost_weight)

    def cost_to_go(
        self,
        costmap: NDArray[np.uint8],
        goals: NDArray[np.integer] | Sequence[Sequence[int]],
        *,
        cost_weight: float = 3.0,
        allow_unknown: bool = True,
        backend: str = "auto",
        should_stop: Callable[[], bool] | None = None,
        cancel: NDArray[np.uint8] | None = None,
    ) -> NDArray[np.float32]:
        """See the function of this name; this one can be stopped, as plan_path can.

        Raises:
            PlanTimedOut: should_stop said so.
            PlanCancelled: cancel was set.
        """
        check_costmap(costmap)
        check_weight(cost_weight)
        check_backend(backend)
        cells = np.asarray(goals)
        if cells.size == 0:
            return np.full(costmap.shape, np.inf, np.float32)
        if cells.ndim != 2 or cells.shape[1] != 2:
            raise ValueError(f"goals must be (K, 2) of row, col, not {cells.shape}")
        sources = [as_cell(cell, "goals") for cell in cells]
        if not all(_inside(costmap, cell) for cell in sources):
            raise GoalOutsideMap
        sources = [cell for cell in sources if is_passable(costmap[cell], allow_unknown)]
        if not sources:
            return np.full(costmap.shape, np.inf, np.float32)
        limits = Limits(None, should_stop, cancel)
        return self._run(costmap, (cost_weight, allow_unknown), sources, None, limits).field()

    @property
    def nbytes(self) -> int:
        """Memory that is kept between calls [bytes]."""
        wide = 0 if self._wide is None else self._wide.nbytes
        return self._narrow.nbytes + wide + self._jumps.nbytes

    def _run(
        self,
        costmap: NDArray[np.uint8],
        model: tuple[float, bool],
        sources: list[Cell],
        target: Cell | None,
        limits: Limits,
    ) -> Workspace:
        """Search in 32 bits, and again in 64 if a cost does not fit. Raises NoPath, PlanTimedOut, PlanCancelled."""
        self._narrow.load(costmap, *model)
        if run(self._narrow, sources, target, limits):
            return self._narrow
        self._wide = self._wide or Workspace(wide=True)
        self._wide.load(costmap, *model)
        if run(self._wide, sources, target, limits):
            return self._wide
        raise ValueError(f"a cost_weight of {model[0]} is too large for this map")


# Planners that no call uses at the moment. Taking from and giving back to a deque is atomic, so that calls from
# several threads never share one.
_idle: deque[Planner] = deque(maxlen=2)


def plan_path(
    costmap: NDArray[np.uint8],
    start: Sequence[int],
    goal: Sequence[int],
    *,
    cost_weight: float = 3.0,
    allow_unknown: bool = True,
) -> GridPath:
    """Return the cheapest path between two cells; safe to call from several threads.

    Args:
        costmap: (rows, cols) uint8, values as in messages.grid; passable below 253, and at 255 if allow_unknown.
            Not changed, and may be read-only.
        start: row, col.
        goal: row, col.
        cost_weight: how much a cell's cost counts against length; 0 is plain octile distance.
        allow_unknown: cells that were never seen may be crossed, at cost 128.

    Raises:
        StartOutsideMap, GoalOutsideMap, StartOccupied, GoalOccupied, NoPath: kinds of PlanningError.
        ValueError: not a costmap, not a cell, or a weight that is negative, not finite or above 1000.

    Source: A* (Hart, Nilsson, Raphael 1968) on integer costs with the queue that `search` describes; own code.
    """
    planner = _take()
    try:
        return planner.plan_path(
            costmap, start, goal, cost_weight=cost_weight, allow_unknown=allow_unknown
        )
    finally:
        _idle.append(planner)


def cost_to_go(
    costmap: NDArray[np.uint8],
    goals: NDArray[np.integer] | Sequence[Sequence[int]],
    *,
    cost_weight: float = 3.0,
    allow_unknown: bool = True,
    backend: str = "auto",
    should_stop: Callable[[], bool] | None = None,
    cancel: NDArray[np.uint8] | None = None,
) -> NDArray[np.float32]:
    """Return the cost from every cell to the nearest goal; safe to call from several threads.

    Args:
        costmap: as for plan_path.
        goals: (K, 2) row, col. A goal in an obstacle counts as none.
        cost_weight: as for plan_path.
        allow_unknown: as for plan_path.
        backend: "cpu", "cuda", or "auto" for the fastest there is.
        should_stop: asked every few milliseconds; True ends the search.
        cancel: (1,); ends the search at once when another thread makes it other than 0.

    Returns:
        (rows, cols) float32 in cells of free floor, inf where no goal can be reached from.

    Raises:
        GoalOutsideMap: one of the goals is.
        BackendUnavailable: of "cuda", which is not in this installation.
        PlanTimedOut, PlanCancelled: the search was ended.
        ValueError: as for plan_path, or a backend of another name.
    """
    planner = _take()
    try:
        return planner.cost_to_go(
            costmap,
            goals,
            cost_weight=cost_weight,
            allow_unknown=allow_unknown,
            backend=backend,
            should_stop=should_stop,
            cancel=cancel,
        )
    finally:
        _idle.append(planner)


def path_cost(
    costmap: NDArray[np.uint8], cells: NDArray[np.integer], cost_weight: float = 3.0
) -> float:
    """Return what a path of neighbouring cells (N, 2) costs, in cells of free floor. Passability is not looked at."""
    walked = np.ascontiguousarray(cells, np.int32)
    view = np.ascontiguousarray(costmap).view()
    view.flags.writeable = False
    return float(_path_cost(view, walked, cost_weight / (2 * MAX_COST)))


@njit(nogil=True, cache=True)
def _path_cost(costmap, cells, factor):  # type: ignore[no-untyped-def]
    """Return the cost of cells (N, 2); factor: what the sum of two costs adds to a length."""
    total = 0.0
    last = 0.0
    for i in range(len(cells)):
        here = float(costmap[cells[i, 0], cells[i, 1]])
        if here == NO_INFORMATION:
            here = float(UNKNOWN_COST)
        if i:
            turned = abs(cells[i, 0] - cells[i - 1, 0]) + abs(cells[i, 1] - cells[i - 1, 1])
            length = math.sqrt(2.0) if turned == 2 else 1.0
            total += length * (1.0 + factor * (here + last))
        last = here
    return total


def is_passable(cost: int | np.uint8, allow_unknown: bool) -> bool:
    """Say whether a path may use a cell of this cost."""
    return bool(cost < INSCRIBED_INFLATED_OBSTACLE or (allow_unknown and cost == NO_INFORMATION))


def check_costmap(costmap: NDArray[np.uint8]) -> None:
    """Raise ValueError for what is not a costmap."""
    if not isinstance(costmap, np.ndarray) or costmap.dtype != np.uint8 or costmap.ndim != 2:
        kind = getattr(costmap, "dtype", type(costmap).__name__)
        raise ValueError(f"a costmap is (rows, cols) uint8, not {np.ndim(costmap)}-d {kind}")


def check_weight(cost_weight: float) -> None:
    """Raise ValueError for what is not a cost_weight."""
    if not 0.0 <= cost_weight <= MAX_COST_WEIGHT:
        raise ValueError(f"cost_weight must be 0 to {MAX_COST_WEIGHT:g}, not {cost_weight}")


def check_backend(backend: str) -> None:
    """Raise BackendUnavailable for a backend that this installation lacks, ValueError for one that does not exist."""
    if backend == "cuda":
        raise BackendUnavailable
    if backend not in ("auto", "cpu"):
        raise ValueError(f"backend is 'cpu', 'cuda' or 'auto', not {backend!r}")


def check_ends(
    costmap: NDArray[np.uint8], start: Sequence[int], goal: Sequence[int], allow_unknown: bool
) -> tuple[Cell, Cell]:
    """Return both ends of a plan as cells. Raises what plan_path does when one of them cannot be."""
    first, last = as_cell(start, "start"), as_cell(goal, "goal")
    if not _inside(costmap, first):
        raise StartOutsideMap
    if not _inside(costmap, last):
        raise GoalOutsideMap
    if not is_passable(costmap[first], allow_unknown):
        raise StartOccupied
    if not is_passable(costmap[last], allow_unknown):
        raise GoalOccupied
    return first, last


def as_cell(cell: Any, name: str) -> Cell:
    """Return a cell as two ints; ValueError if it is not one."""
    try:
        row, col = (value.__index__() for value in cell)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(f"{name}: a cell is two whole numbers (row, col), not {cell!r}") from None
    return row, col


def grid_path(space: Workspace, cost_weight: float, *, exact: bool = True) -> GridPath:
    """Return the path that a workspace has found."""
    cells = space.path()
    return GridPath(cells, path_cost(space.costs, cells + 1, cost_weight), space.expanded, exact)


def warm_up() -> None:
    """Compile, or load, every kernel of this module: call it once before the first plan is urgent."""
    costmap = np.zeros((3, 3), np.uint8)
    costmap[1, 1] = 1
    for wide in (False, True):
        space = Workspace(wide=wide)
        space.load(costmap, 3.0, True)
        run(space, [(0, 0)], (2, 2), Limits())
        grid_path(space, 3.0)
        run(space, [(0, 0)], None, Limits())
        space.field()
    planner = Planner()
    planner.plan_path(costmap, (0, 0), (2, 2), cost_weight=0.0)
    planner.plan_path(costmap, (0, 0), (2, 2))


def _take() -> Planner:
    try:
        return _idle.pop()
    except IndexError:
        return Planner()


def _inside(costmap: NDArray[np.uint8], cell: Cell) -> bool:
    rows, cols = costmap.shape
    return bool(0 <= cell[0] < rows and 0 <= cell[1] < cols)
