"""Finds frontiers: the free cells at which the known world ends."""

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

Cell = tuple[int, int]

FREE_BELOW = 50  # occupancy of a free cell: 0 to 49


@dataclass(frozen=True, slots=True)
class FrontierCluster:
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
    if not isinstance(occupancy, np.ndarray) or occupancy.dtype != np.int8 or occupancy.ndim != 2:
        kind = getattr(occupancy, "dtype", type(occupancy).__name__)
        raise ValueError(f"occupancy is (rows, cols) int8, not {np.ndim(occupancy)}-d {kind}")
    rows, cols = occupancy.shape
    if start is not None and not (0 <= start[0] < rows and 0 <= start[1] < cols):
        raise ValueError(f"start {start} is outside a grid of {occupancy.shape}")
    stride = -(-(cols + 2) // 8) * 8
    grid = np.full((rows + 2, stride), -1, np.int8)
    grid[1 : rows + 1, 1 : cols + 1] = occupancy
    flat, words = grid.ravel(), grid.view(np.uint64)
    reached = np.empty(0, np.bool_)
    if start is not None:
        reached = _reachable(flat, stride, (int(start[0]) + 1) * stride + int(start[1]) + 1)
    cells, ends, targets = _cluster(_frontier_cells(words, reached), stride, max(1, min_cells))
    cells.flags.writeable = False
    clusters = [
        FrontierCluster(cells[first:end], end - first, (row, col))
        for first, end, (row, col) in zip(ends[:-1], ends[1:], targets.tolist(), strict=True)
    ]
    return sorted(clusters, key=lambda cluster: -cluster.size)


# The kernels see the grid with a border of unknown cells, so that the edge needs no thought and no index runs out.


@njit(nogil=True, cache=True)
def _reachable(grid, stride, start):  # type: ignore[no-untyped-def]
    """Return which cells of a flat grid a robot gets to. Four moves reach what eight without cut corners do."""
    reached = np.zeros(grid.size, np.bool_)
    stack = np.empty(grid.size, np.int32)
    count = 0
    reach = 0 if 0 <= grid[start] < FREE_BELOW else 1
    for drow in range(-reach, reach + 1):
        for dcol in range(-reach, reach + 1):
            cell = start + drow * stride + dcol
            if 0 <= grid[cell] < FREE_BELOW:
                reached[cell] = True
                stack[count] = cell
                count += 1
    while count:
        count -= 1
        cell = stack[count]
        for step in (1, -1, stride, -stride):
            other = cell + step
            if 0 <= grid[other] < FREE_BELOW and not reached[other]:
                reached[other] = True
                stack[count] = other
                count += 1
    return reached


_BYTE = np.uint64(8)
_SEVEN_BYTES = np.uint64(56)
_SIGN = np.uint64(0x80)
_HIGHEST_BITS = np.uint64(0x8080808080808080)
_OTHER_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_TO_HIGHEST_BIT = np.uint64((128 - FREE_BELOW) * 0x0101010101010101)  # sets it from FREE_BELOW on


@njit(nogil=True, cache=True)
def _frontier_cells(words, reached):  # type: ignore[no-untyped-def]
    """Return the flat indices of frontier cells, by row. words: the grid, 8 cells of a row in each, little-endian.

    All 8 are decided at once: a byte's highest bit says unknown, and after an addition that no byte can overflow,
    that it is not free. reached: flat bool, or empty if all count.
    """
    rows, count = words.shape[0], words.shape[1]
    cells = np.empty(words.size * 8, np.int32)  # pages that are never written cost nothing
    found = 0
    for row in range(1, rows - 1):
        for i in range(count):
            here = words[row, i]
            not_free = (((here & _OTHER_BITS) + _TO_HIGHEST_BIT) | here) & _HIGHEST_BITS
            if not_free == _HIGHEST_BITS:
                continue
            left = here << _BYTE
            if i > 0:
                left |= words[row, i - 1] >> _SEVEN_BYTES
            right = here >> _BYTE
            if i + 1 < count:
                right |= words[row, i + 1] << _SEVEN_BYTES
            hits = (
                (left | right | words[row - 1, i] | words[row + 1, i]) & ~not_free & _HIGHEST_BITS
            )
            cell = (row * count + i) * 8
            while hits:
                if hits & _SIGN and (not reached.size or reached[cell]):
                    cells[found] = cell
                    found += 1
                hits >>= _BYTE
                cell += 1
    return cells[:found]


@njit(nogil=True, cache=True)
def _root(parents, i):  # type: ignore[no-untyped-def]
    while parents[i] != i:
        parents[i] = parents[parents[i]]
        i = parents[i]
    return i


@njit(nogil=True, cache=True)
def _cluster(cells, stride, min_cells):  # type: ignore[no-untyped-def]
    """Group flat indices by touch; return (N, 2) row, col by group, where each begins (K + 1,), and targets (K, 2)."""
    count = len(cells)
    parents = np.arange(count)
    newest = np.full(stride, -1, np.int64)  # by column: the last frontier cell found there
    for i in range(count):
        row, col = cells[i] // stride, cells[i] % stride
        for beside in range(col - 1, col + 2):
            other = newest[beside]
            if other >= 0 and cells[other] >= (row - 1) * stride:
                a, b = _root(parents, other), _root(parents, i)
                parents[max(a, b)] = min(a, b)  # groups keep the order of their first cells
        newest[col] = i

    sizes = np.zeros(count, np.int64)
    sums = np.zeros((count, 2), np.int64)
    for i in range(count):
        parents[i] = _root(parents, i)
        sizes[parents[i]] += 1
        sums[parents[i], 0] += cells[i] // stride - 1
        sums[parents[i], 1] += cells[i] % stride - 1
    group = np.full(count, -1, np.int64)
    ends = [0]
    for i in range(count):
        if sizes[i] >= min_cells:
            group[i] = len(ends) - 1
            ends.append(ends[-1] + sizes[i])
    grouped = np.empty((ends[-1], 2), np.int32)
    filled = np.array(ends)
    targets = np.zeros((len(ends) - 1, 2), np.int32)
    nearest = np.full(len(ends) - 1, np.inf)
    for i in range(count):
        root = parents[i]
        k = group[root]
        if k < 0:
            continue
        row, col = cells[i] // stride - 1, cells[i] % stride - 1
        grouped[filled[k], 0], grouped[filled[k], 1] = row, col
        filled[k] += 1
        squared = (row - sums[root, 0] / sizes[root]) ** 2 + (
            col - sums[root, 1] / sizes[root]
        ) ** 2
        if squared < nearest[k]:
            nearest[k] = squared
            targets[k, 0], targets[k, 1] = row, col
    return grouped, ends, targets
