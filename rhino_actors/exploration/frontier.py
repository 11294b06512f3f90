"""Finds frontiers: the free cells at which the known world ends."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.messages.window import CellWindow

Cell = tuple[int, int]

FREE_BELOW = 50  # occupancy of a free cell: 0 to 49


class FrontierCluster(NamedTuple):
    """Frontier cells that touch each other, diagonally too."""

    cells: NDArray[np.int32]  # (N, 2) row, col, by row
    size: int  # N
    target: Cell  # the member nearest to the centroid


def find_frontiers(
    occupancy: NDArray[np.int8], *, min_cells: int, start: Cell | None = None
) -> list[FrontierCluster]:
    """Return the frontiers of a map, the largest first.

    A frontier cell is free and has an unknown cell beside it (left, right, above or below); beyond the grid's edge
    all is unknown. No footprint is thought of here: a frontier may lie where the robot does not fit.

    Args:
        occupancy: (rows, cols) int8, -1 unknown, 0..100, free below 50. Not changed, and may be read-only.
        min_cells: smaller clusters are left out.
        start: row, col of the robot. Given, only frontiers count that it can reach over free cells, not cutting
            corners; if it does not stand on a free cell itself, the free cells around it count as reached.

    Raises:
        ValueError: not an occupancy grid, or the start is not in it.

    Source: own; union-find over rows as in two-pass component labelling (Rosenfeld and Pfaltz 1966).
    """
    grid = _as_bytes(occupancy)
    rows, cols = grid.shape
    if start is not None and not (0 <= start[0] < rows and 0 <= start[1] < cols):
        raise ValueError(f"start {start} is outside a grid of {occupancy.shape}")
    cells = _frontier_cells(grid, 0, rows, 0, cols)
    if start is not None:
        cells = cells[_reachable(grid, int(start[0]), int(start[1]))[cells]]
    return _clusters(cells, cols, min_cells)


class FrontierMap:
    """The frontiers of a map that changes. Only what changed is looked at; the clusters are always made anew."""

    def __init__(self) -> None:
        self._shape = (0, 0)
        self._cells = np.empty(0, np.int32)  # flat indices, ascending

    def update(self, occupancy: NDArray[np.int8], changed: CellWindow | None = None) -> None:
        """Take a map (rows, cols) int8 as in find_frontiers.

        Args:
            occupancy: the map; not kept.
            changed: cells that may differ from the map before; None, or a map of another shape: all.

        Raises:
            ValueError: not an occupancy grid.
        """
        grid = _as_bytes(occupancy)
        rows, cols = grid.shape
        whole = CellWindow(0, rows, 0, cols)
        if changed is None or grid.shape != self._shape:
            self._shape = (rows, cols)
            self._cells = _frontier_cells(grid, *whole)
            return
        window = changed.grown(1).clipped(whole)
        if changed.is_empty or window.is_empty:
            return
        found = _frontier_cells(grid, *window)
        self._cells = _merged(self._cells, found, cols, *window)

    def grouped(self, *, min_cells: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the cells (N, 2) row, col by cluster, and where each cluster begins (K + 1,)."""
        cells, ends, _ = _cluster(self._cells, max(1, self._shape[1]), max(1, min_cells))
        return cells, ends

    def clusters(self, *, min_cells: int) -> list[FrontierCluster]:
        """Return what find_frontiers would on the newest map."""
        return _clusters(self._cells, self._shape[1], min_cells)


def changed_window(
    occupancy: NDArray[np.int8],
    before: NDArray[np.int8],
    costmap: NDArray[np.uint8],
    costmap_before: NDArray[np.uint8],
) -> CellWindow:
    """Return the cells in which a map, or its costs, differ from those before: all of one shape."""
    rows, cols = occupancy.shape
    window = CellWindow(rows, 0, cols, 0)
    for new, old in ((occupancy, before), (costmap, costmap_before)):
        if new is not old:
            found = CellWindow(*_changed(_flat(new), _flat(old), cols))
            window = CellWindow(
                min(window.row0, found.row0),
                max(window.row1, found.row1),
                min(window.col0, found.col0),
                max(window.col1, found.col1),
            )
    return CellWindow(0, 0, 0, 0) if window.is_empty else window


def warm_up() -> None:
    """Compile, or load, every kernel of this module."""
    grid = np.full((3, 3), -1, np.int8)
    grid[1] = 0
    find_frontiers(grid, min_cells=1, start=(1, 1))
    frontiers = FrontierMap()
    frontiers.update(grid)
    frontiers.update(grid, CellWindow(0, 2, 0, 2))
    frontiers.clusters(min_cells=1)
    changed_window(grid, grid, grid.view(np.uint8), grid.view(np.uint8))


def _as_bytes(occupancy: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Return a read-only contiguous view or copy as uint8: the one kind of array that the kernels are compiled for."""
    if not isinstance(occupancy, np.ndarray) or occupancy.dtype != np.int8 or occupancy.ndim != 2:
        kind = getattr(occupancy, "dtype", type(occupancy).__name__)
        raise ValueError(f"occupancy is (rows, cols) int8, not {np.ndim(occupancy)}-d {kind}")
    view = np.ascontiguousarray(occupancy).view(np.uint8)
    view.flags.writeable = False
    return view


def _clusters(cells: NDArray[np.int32], cols: int, min_cells: int) -> list[FrontierCluster]:
    grouped, ends, targets = _cluster(cells, max(1, cols), max(1, min_cells))
    grouped.flags.writeable = False
    bounds, at = ends.tolist(), targets.tolist()
    order = np.argsort(ends[:-1] - ends[1:], kind="stable").tolist()
    return [
        FrontierCluster(
            grouped[bounds[k] : bounds[k + 1]], bounds[k + 1] - bounds[k], (at[k][0], at[k][1])
        )
        for k in order
    ]


def _flat(grid: NDArray[np.generic]) -> NDArray[np.uint8]:
    flat = np.ascontiguousarray(grid).view(np.uint8).ravel()
    flat.flags.writeable = False
    return flat


@njit(nogil=True, cache=True)
def _changed(new, old, cols):  # type: ignore[no-untyped-def]
    """Return the window row0, row1, col0, col1 of the cells that differ; empty if row1 is 0."""
    row0, row1, col0, col1 = len(new) // max(1, cols), 0, cols, 0
    for row in range(len(new) // max(1, cols)):
        first = row * cols
        differs = False
        for i in range(first, first + cols):
            differs |= new[i] != old[i]
        if not differs:
            continue
        row0, row1 = min(row0, row), row + 1
        for col in range(col0):
            if new[first + col] != old[first + col]:
                col0 = col
                break
        for col in range(cols - 1, col1 - 1, -1):
            if new[first + col] != old[first + col]:
                col1 = col + 1
                break
    return row0, row1, col0, col1


# In bytes an unknown cell has the highest bit, and a free one is below FREE_BELOW.


@njit(nogil=True, cache=True)
def _reachable(grid, row, col):  # type: ignore[no-untyped-def]
    """Return which cells (flat) a robot gets to. Four moves reach what eight without cut corners do."""
    rows, cols = grid.shape
    reached = np.zeros(rows * cols, np.bool_)
    stack = np.empty(rows * cols, np.int32)
    count = 0
    reach = 0 if grid[row, col] < FREE_BELOW else 1
    for r in range(max(0, row - reach), min(rows, row + reach + 1)):
        for c in range(max(0, col - reach), min(cols, col + reach + 1)):
            if grid[r, c] < FREE_BELOW:
                reached[r * cols + c] = True
                stack[count] = r * cols + c
                count += 1
    while count:
        count -= 1
        row, col = stack[count] // cols, stack[count] % cols
        for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0)):
            r, c = row + dr, col + dc
            if 0 <= r < rows and 0 <= c < cols and grid[r, c] < FREE_BELOW:
                if not reached[r * cols + c]:
                    reached[r * cols + c] = True
                    stack[count] = r * cols + c
                    count += 1
    return reached


@njit(nogil=True, cache=True)
def _mark(here, left, right, above, below, marks):  # type: ignore[no-untyped-def]
    """Set marks to 1 where a frontier cell is: a plain loop over bytes, which the compiler makes wide."""
    for i in range(len(marks)):
        unknown = (left[i] | right[i] | above[i] | below[i]) >> 7
        marks[i] = unknown & np.uint8(here[i] < FREE_BELOW)


@njit(nogil=True, cache=True)
def _frontier_cells(grid, row0, row1, col0, col1):  # type: ignore[no-untyped-def]
    """Return the flat indices of the frontier cells in a window of the grid, ascending."""
    rows, cols = grid.shape
    cells = np.empty(
        max(0, row1 - row0) * max(0, col1 - col0), np.int32
    )  # unwritten pages are free
    count = 0
    beyond = np.full(cols, 255, np.uint8)
    inner0, inner1 = max(col0, 1), min(col1, cols - 1)
    width = max(0, inner1 - inner0)
    marks = np.zeros(-(-width // 8) * 8, np.uint8)
    words = marks.view(np.uint64)
    for row in range(row0, row1):
        here = grid[row]
        above = grid[row - 1] if row > 0 else beyond
        below = grid[row + 1] if row + 1 < rows else beyond
        if col0 == 0 and here[0] < FREE_BELOW:
            cells[count] = row * cols
            count += 1
        if width:
            _mark(
                here[inner0:inner1],
                here[inner0 - 1 : inner1 - 1],
                here[inner0 + 1 : inner1 + 1],
                above[inner0:inner1],
                below[inner0:inner1],
                marks[:width],
            )
            for word in range(len(words)):
                if words[word]:
                    for i in range(word * 8, word * 8 + 8):
                        if marks[i]:
                            cells[count] = row * cols + inner0 + i
                            count += 1
        if col1 == cols and cols > 1 and here[cols - 1] < FREE_BELOW:
            cells[count] = row * cols + cols - 1
            count += 1
    return cells[:count].copy()


@njit(nogil=True, cache=True)
def _merged(old, new, cols, row0, row1, col0, col1):  # type: ignore[no-untyped-def]
    """Return old cells outside of a window and new ones, ascending."""
    cells = np.empty(len(old) + len(new), np.int32)
    count = taken = 0
    for cell in old:
        row, col = cell // cols, cell % cols
        if row0 <= row < row1 and col0 <= col < col1:
            continue
        while taken < len(new) and new[taken] < cell:
            cells[count] = new[taken]
            taken += 1
            count += 1
        cells[count] = cell
        count += 1
    for i in range(taken, len(new)):
        cells[count] = new[i]
        count += 1
    return cells[:count].copy()


@njit(nogil=True, cache=True)
def _root(parents, i):  # type: ignore[no-untyped-def]
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i


@njit(nogil=True, cache=True)
def _cluster(cells, cols, min_cells):  # type: ignore[no-untyped-def]
    """Group ascending flat indices by touch.

    Returns (N, 2) row, col by group, where each begins (K + 1,), and the targets (K, 2).
    """
    count = len(cells)
    place = np.empty((count, 2), np.int32)
    parents = np.empty(count, np.int32)
    newest = np.full(cols + 2, -1, np.int32)  # by column + 1: the last frontier cell found there
    row, first = np.int64(0), np.int64(0)  # the cell's row, and the flat index that it begins at
    for i in range(count):
        if cells[i] >= first + cols:
            row = cells[i] // cols
            first = row * cols
        col = cells[i] - first
        place[i, 0], place[i, 1] = row, col
        parents[i] = i
        # A cell straight above touches all others that this one may touch.
        other = newest[col + 1]
        if other >= 0 and place[other, 0] == row - 1:
            parents[i] = _root(parents, other)
        else:
            other = newest[col]  # to the left, or above that
            if other >= 0 and place[other, 0] >= row - 1:
                parents[i] = _root(parents, other)
            other = newest[col + 2]
            if other >= 0 and place[other, 0] == row - 1:
                a, b = _root(parents, other), parents[i]
                low = min(a, b)  # groups keep the order of their first cells
                parents[a] = parents[b] = parents[i] = low
        newest[col + 1] = i

    sizes = np.zeros(count, np.int32)
    sums = np.zeros((count, 2), np.float64)
    for i in range(count):
        root = _root(parents, i)
        parents[i] = root
        sizes[root] += 1
        sums[root, 0] += place[i, 0]
        sums[root, 1] += place[i, 1]
    group = np.full(count, -1, np.int32)
    ends = np.zeros(count + 1, np.int64)
    groups = 0
    for i in range(count):
        if sizes[i] >= min_cells:
            group[i] = groups
            ends[groups + 1] = ends[groups] + sizes[i]
            groups += 1
            sums[i, 0] /= sizes[i]
            sums[i, 1] /= sizes[i]
    grouped = np.empty((ends[groups], 2), np.int32)
    filled = ends[: groups + 1].copy()
    targets = np.zeros((groups, 2), np.int32)
    nearest = np.full(groups, np.inf)
    for i in range(count):
        root = parents[i]
        k = group[root]
        if k < 0:
            continue
        row, col = place[i, 0], place[i, 1]
        grouped[filled[k], 0], grouped[filled[k], 1] = row, col
        filled[k] += 1
        squared = (row - sums[root, 0]) ** 2 + (col - sums[root, 1]) ** 2
        if squared < nearest[k]:
            nearest[k] = squared
            targets[k, 0], targets[k, 1] = row, col
    return grouped, ends[: groups + 1].copy(), targets
