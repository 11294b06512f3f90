"""Replanning to one goal: a field of costs to the goal guides each search, so that it opens little but the path.

The field is the exact one of the cheapest map that was seen since it was built: cells that became cheaper lower it at
once, as far as that reaches; cells that became dearer leave it as it is. So it is always a lower bound that obeys the
triangle inequality, and A* with it is exact whatever obstacles came, went or grew. Where a fall reaches too far to be
followed within a millisecond, plans are exact by the octile distance instead, and the field wants rebuilding.
Source: the idea of adaptive A* (Koenig and Likhachev 2006), own code.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.errors import GoalOccupied, GoalOutsideMap
from rhino_actors.planning.astar import (
    GridPath,
    as_cell,
    check_costmap,
    check_ends,
    check_weight,
    grid_path,
    is_passable,
)
from rhino_actors.planning.search import Cell, Limits, Workspace, run

# Expansions spent on a fall in cost before it is left to a rebuild: 0.5 to 1 ms.
_LOWER_BUDGET = 20_000

# First row, row after the last, first column, column after the last.
Window = tuple[int, int, int, int]


class GoalField:
    """The exact cost from every cell of a map to one goal, in memory of its own. Made by `build_field`."""

    def __init__(self, goal: Cell, model: tuple[float, bool], space: Workspace) -> None:
        self.goal = goal
        self.model = model  # cost_weight, allow_unknown
        self.space = space  # after a flood from the goal


def build_field(
    costmap: NDArray[np.uint8],
    goal: Sequence[int],
    *,
    cost_weight: float = 3.0,
    allow_unknown: bool = True,
    should_stop: Callable[[], bool] | None = None,
    cancel: NDArray[np.uint8] | None = None,
    reuse: GoalField | None = None,
) -> GoalField:
    """Return the field of a goal: 2 to 15 ms per million cells, in any thread.

    Arguments are those of `plan_path` and `Planner.plan_path`; `reuse` is a field that is no more of use, whose
    memory the new one takes.

    Raises:
        GoalOutsideMap, GoalOccupied, PlanTimedOut, PlanCancelled.
    """
    check_costmap(costmap)
    check_weight(cost_weight)
    cell = as_cell(goal, "goal")
    if not (0 <= cell[0] < costmap.shape[0] and 0 <= cell[1] < costmap.shape[1]):
        raise GoalOutsideMap
    if not is_passable(costmap[cell], allow_unknown):
        raise GoalOccupied
    for wide in (False, True):
        space = reuse.space if reuse is not None else Workspace(wide=wide)
        if space.is_wide != wide:
            space = Workspace(wide=wide)
        space.load(costmap, cost_weight, allow_unknown)
        if run(space, [cell], None, Limits(None, should_stop, cancel)):
            return GoalField(cell, (cost_weight, allow_unknown), space)
    raise ValueError(f"a cost_weight of {cost_weight} is too large for this map")


class GuidedPlanner:
    """Exact plans to one goal on a map that changes. Not for two threads at once.

    `set_map`, or `update` with what changed; `set_goal`; then `plan` from wherever the robot is. `rebuild` when
    `needs_rebuild` and there is time for it. Or build a field in another thread and `adopt` it.
    """

    def __init__(self, *, cost_weight: float = 3.0, allow_unknown: bool = True) -> None:
        """Start without a map. The cost model is that of `plan_path`."""
        check_weight(cost_weight)
        self._model = (cost_weight, allow_unknown)
        self._space = Workspace()
        self._space.set_model(*self._model)
        self._shape = (0, 0)
        self._goal: Cell | None = None
        self._field: GoalField | None = None  # its costs are the cheapest that each cell had

    @property
    def goal(self) -> Cell | None:
        """Row, col."""
        return self._goal

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, cols of the map; (0, 0) before the first."""
        return self._shape

    @property
    def needs_rebuild(self) -> bool:
        """True if no field guides the plans: none was built for this goal, or a fall in cost was too much for it."""
        return self._field is None

    def set_goal(self, goal: Sequence[int]) -> None:
        """Take another goal; the field of the last one is dropped."""
        cell = as_cell(goal, "goal")
        if cell != self._goal:
            self._goal = cell
            self._field = None

    def set_map(self, costmap: NDArray[np.uint8]) -> None:
        """Take a whole map (rows, cols) uint8; one of the last one's shape is compared to it cell by cell.

        A map that grew or moved must be told by `reset`, since its cells are not those of the last one.
        """
        self.update(costmap, (0, costmap.shape[0], 0, costmap.shape[1]))

    def reset(self) -> None:
        """Forget the map and the field; the next map may be of other cells."""
        self._shape = (0, 0)
        self._field = None

    def update(self, costmap: NDArray[np.uint8], window: Window) -> None:
        """Take the cells of a map that changed.

        Args:
            costmap: (rows, cols) uint8, the whole map as it is now; only the window is read, unless the shape is new.
            window: which cells may have changed; clipped to the map.
        """
        check_costmap(costmap)
        if costmap.shape != self._shape:
            self.reset()
            rows, cols = costmap.shape
            self._shape = (rows, cols)
            self._space.resize(rows, cols)
            self._space.costs[1:-1, 1:-1] = costmap
            return
        row0, row1, col0, col1 = window
        bounds = (
            max(0, row0),
            min(self._shape[0], row1),
            max(0, col0),
            min(self._shape[1], col1),
        )
        view = np.ascontiguousarray(costmap).view()
        view.flags.writeable = False
        space = self._space
        field = space if self._field is None else self._field.space
        changed = np.empty((bounds[1] - bounds[0]) * (bounds[3] - bounds[2]), np.int64)
        args = (view, space.costs, field.costs, space.weights, *bounds)
        self._lower(int(_take(*args, changed)), changed)

    def adopt(self, field: GoalField) -> None:
        """Take over a field that was built elsewhere, on this map or an earlier state of it, and its goal.

        Raises:
            ValueError: it is for another shape or cost model.
        """
        if field.space.shape != self._shape or field.model != self._model:
            raise ValueError("the field is for another map or cost model")
        if field.space.is_wide != self._space.is_wide:
            self._change_width()
        self._goal, self._field = field.goal, field
        changed = np.empty(self._space.costs.size, np.int64)
        costs, weights = self._space.costs, self._space.weights
        self._lower(int(_cheapen(costs, field.space.costs, weights, changed)), changed)

    def rebuild(
        self,
        *,
        should_stop: Callable[[], bool] | None = None,
        cancel: NDArray[np.uint8] | None = None,
    ) -> None:
        """Build the goal's field on the map as it is.

        Raises:
            GoalOutsideMap, GoalOccupied, PlanTimedOut, PlanCancelled.
        """
        if self._goal is None:
            raise ValueError("there is no goal to build a field for")
        old, self._field = self._field, None
        field = build_field(
            self._space.costs[1:-1, 1:-1],
            self._goal,
            cost_weight=self._model[0],
            allow_unknown=self._model[1],
            should_stop=should_stop,
            cancel=cancel,
            reuse=old,
        )
        if field.space.is_wide != self._space.is_wide:
            self._change_width()
        self._field = field

    def plan(
        self,
        start: Sequence[int],
        *,
        max_expansions: int | None = None,
        should_stop: Callable[[], bool] | None = None,
        cancel: NDArray[np.uint8] | None = None,
    ) -> GridPath:
        """Return the cheapest path from a cell to the goal on the map as it is: what `plan_path` would return.

        Raises:
            StartOutsideMap, StartOccupied, GoalOutsideMap, GoalOccupied, NoPath, PlanTimedOut, PlanCancelled.
            ValueError: there is no goal or no map yet.
        """
        if self._goal is None or self._shape == (0, 0):
            raise ValueError("a plan needs a map and a goal")
        first, last = check_ends(self._space.costs[1:-1, 1:-1], start, self._goal, self._model[1])
        if first == last:
            return GridPath(np.array([first], np.int32), 0.0, 0)
        limits = Limits(max_expansions, should_stop, cancel)
        costs = None if self._field is None else self._field.space.costs_to_sources()
        if not run(self._space, [first], last, limits, field=costs):
            self._change_width()
            if not run(self._space, [first], last, limits):
                raise ValueError(f"a cost_weight of {self._model[0]} is too large for this map")
        return grid_path(self._space, self._model[0])

    def _lower(self, count: int, changed: NDArray[np.int64]) -> None:
        """Let the field follow the first `count` cells of `changed`, which became cheaper."""
        if self._field is None or count == 0:
            return
        stride = self._shape[1] + 2
        around = np.array([row * stride + col for row in (-1, 0, 1) for col in (-1, 0, 1)])
        cells = np.unique(changed[:count, None] + around)
        if not self._field.space.lower(cells, _LOWER_BUDGET):
            self._field = None

    def _change_width(self) -> None:
        """Go on in 64 bits, or in 32 again, whichever this is not; without a field."""
        before = self._space
        self._space = Workspace(wide=not before.is_wide)
        self._space.resize(*self._shape)
        self._space.costs[:] = before.costs
        self._space.set_model(*self._model)
        self._field = None


@njit(nogil=True, cache=True)
def _take(costmap, known, base, weights, row0, row1, col0, col1, changed):  # type: ignore[no-untyped-def]
    """Copy a window of a map into a padded one; where it is cheaper than `base`, there too.

    Fills `changed` with the flat places of those cells, and returns how many they are.
    """
    count = 0
    stride = known.shape[1]
    for row in range(row0, row1):
        for first in range(col0, col1, 64):
            last = min(first + 64, col1)
            differs = np.uint8(0)
            for col in range(first, last):
                differs |= costmap[row, col] ^ known[row + 1, col + 1]
            if differs == 0:
                continue
            for col in range(first, last):
                new = costmap[row, col]
                if new != known[row + 1, col + 1]:
                    if _is_cheaper(new, base[row + 1, col + 1], weights):
                        base[row + 1, col + 1] = new
                        changed[count] = (row + 1) * stride + col + 1
                        count += 1
                    known[row + 1, col + 1] = new
    return count


@njit(nogil=True, cache=True)
def _is_cheaper(cost, than, weights):  # type: ignore[no-untyped-def]
    """Say whether a cell of one cost lets a path through for less than one of another; weight 0 is impassable."""
    return weights[cost] != 0 and (weights[than] == 0 or weights[cost] < weights[than])


@njit(nogil=True, cache=True)
def _cheapen(known, base, weights, changed):  # type: ignore[no-untyped-def]
    """Bring `base` down to `known` where that is cheaper; fill `changed` as `_take` does."""
    count = 0
    for row in range(known.shape[0]):
        for col in range(known.shape[1]):
            if known[row, col] != base[row, col] and _is_cheaper(
                known[row, col], base[row, col], weights
            ):
                base[row, col] = known[row, col]
                changed[count] = row * known.shape[1] + col
                count += 1
    return count


def warm_up() -> None:
    """Compile, or load, every kernel of this module."""
    costmap = np.zeros((4, 4), np.uint8)
    costmap[1, 1] = 1
    planner = GuidedPlanner()
    planner.set_map(costmap)
    planner.set_goal((3, 3))
    planner.rebuild()
    costmap[2, 2] = 5
    planner.update(costmap, (2, 3, 2, 3))
    planner.plan((0, 0))
    costmap[1, 1] = 0
    planner.update(costmap, (1, 2, 1, 2))
    planner.adopt(build_field(costmap, (3, 3)))
    _guide_wide(costmap)


def _guide_wide(costmap: NDArray[np.uint8]) -> None:
    """Run the guided search once in 64 bits."""
    field, space = Workspace(wide=True), Workspace(wide=True)
    for each, ends in ((field, ((3, 3), None)), (space, ((0, 0), (3, 3)))):
        each.load(costmap, 3.0, True)
        guide = None if each is field else field.costs_to_sources()
        run(each, [ends[0]], ends[1], Limits(), field=guide)
    field.lower(np.array([field.index((1, 1))]), 10)
