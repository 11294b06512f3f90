"""From cells to a path that a robot drives: shortened, smoothed, in metres; and questions about such a path.

Poses are (N, 3) float64 x, y [m], yaw [rad] in the grid's frame. Nothing here leaves the cells that the planner may
use: a segment is followed through every cell that it touches, and between two cells that meet only in a corner both
cells beside that corner must be passable.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.messages.grid import (
    INSCRIBED_INFLATED_OBSTACLE,
    NO_INFORMATION,
    GridGeometry,
)
from rhino_actors.planning.astar import is_passable
from rhino_actors.planning.search import MAX_COST, UNKNOWN_COST

Poses = NDArray[np.float64]
Point = tuple[float, float]

_SAME = 1e-9  # cells: two crossings nearer than this are one corner
_ROUNDS = 60  # of smoothing, at most
_PULL = 0.98  # of the way to the middle of its neighbours: whole ways would end on the cells' very edges
_SETTLED = 0.01  # cells: a round in which no point moved farther ends it


def poses_from_cells(
    cells: NDArray[np.integer],
    costmap: NDArray[np.uint8],
    geometry: GridGeometry,
    *,
    spacing: float,
    start: Point | None = None,
    goal: Point | None = None,
    cost_weight: float = 3.0,
    allow_unknown: bool = True,
) -> Poses:
    """Return a planned path as poses for the follower, no dearer than the cells were.

    Args:
        cells: (N, 2) row, col of neighbouring passable cells, N >= 1.
        costmap: (rows, cols) uint8 that they were planned on.
        geometry: of the costmap.
        spacing: largest distance of two poses [m].
        start: where the robot is [m] in the first cell; taken where the way from it is passable. None: the centre.
        goal: where it wants to be [m] in the last cell, likewise.
        cost_weight: as planned with.
        allow_unknown: as planned with.

    Returns:
        (M, 3) float64, M >= 1; yaw along the path, the last as the one before, 0 for a single pose.
    """
    vertices = shortcut(cells, costmap, cost_weight=cost_weight, allow_unknown=allow_unknown)
    points = geometry.world_from_cells(vertices)
    if len(points) == 1:
        points = np.repeat(points, 2, axis=0)
    for i, beside, end in ((0, 1, start), (-1, -2, goal)):
        if end is None or geometry.cell_from_world(*end) != tuple(vertices[i]):
            continue
        if not path_is_blocked(
            costmap, np.array([end, points[beside]]), geometry, 0, allow_unknown
        ):
            points[i] = end
    if len(points) == 2 and np.array_equal(points[0], points[1]):
        points = points[:1]
    bent = _resampled(points, spacing)
    return _with_headings(
        smoothed(bent, costmap, geometry, cost_weight=cost_weight, allow_unknown=allow_unknown)
    )


def smoothed(
    points: NDArray[np.float64],
    costmap: NDArray[np.uint8],
    geometry: GridGeometry,
    *,
    cost_weight: float = 3.0,
    allow_unknown: bool = True,
) -> NDArray[np.float64]:
    """Return a path (N, 2) x, y [m] with its corners rounded; both ends stay.

    Each point in turn moves towards the middle of its neighbours where both segments that this makes are passable
    and no dearer than the two before. So every step leaves a path that can be driven and costs no more.
    """
    if len(points) < 3:
        return points
    scaled = (points[:, ::-1] - geometry.origin[::-1]) / geometry.resolution
    scaled = np.ascontiguousarray(scaled)
    _relax(scaled, _rates(cost_weight, allow_unknown), _read_only(costmap), _ROUNDS)
    soft: NDArray[np.float64] = scaled[:, ::-1] * geometry.resolution + np.array(geometry.origin)
    soft[[0, -1]] = points[[0, -1]]
    # Metres and cells differ by rounding, and what is driven is checked in metres.
    if path_is_blocked(costmap, soft, geometry, 0, allow_unknown):
        return points
    return soft


def cost_of(
    poses: Poses,
    costmap: NDArray[np.uint8],
    geometry: GridGeometry,
    from_index: int = 0,
    *,
    cost_weight: float = 3.0,
    allow_unknown: bool = True,
) -> float:
    """Return what the rest of a path costs [m]: its length, weighed as the planner weighs it; inf if it is blocked.

    The cell of the pose at `from_index` may be blocked: the robot is there already.
    """
    scaled = np.ascontiguousarray(poses[from_index:, 1::-1], np.float64)
    scaled = (scaled - geometry.origin[::-1]) / geometry.resolution
    cost = _cost(scaled, _rates(cost_weight, allow_unknown), _read_only(costmap))
    return float(cost) * geometry.resolution


def shortcut(
    cells: NDArray[np.integer],
    costmap: NDArray[np.uint8],
    *,
    cost_weight: float = 3.0,
    allow_unknown: bool = True,
) -> NDArray[np.int32]:
    """Return the cells (M, 2) to which a path (N, 2) reduces when straight segments replace its steps.

    A segment is taken only where every cell that it touches is passable, and where its cost (each cell's, times the
    length in it) is no more than that of the steps it replaces. So the result is never dearer than the path.
    """
    path = np.ascontiguousarray(cells, np.int32)
    if len(path) < 3:
        return path
    rates = _rates(cost_weight, allow_unknown)
    steps = np.abs(np.diff(path, axis=0)).sum(axis=1)
    along = rates[costmap[path[:, 0], path[:, 1]]]
    costs = np.where(steps == 2, math.sqrt(2.0), 1.0) * (along[1:] + along[:-1]) / 2.0
    spent = np.concatenate([[0.0], np.cumsum(costs)])
    kept = np.empty(len(path), np.int64)
    count = _shortcut(path, spent, rates, _read_only(costmap), kept)
    return path[kept[:count]]


def first_blocked(
    poses: Poses,
    costmap: NDArray[np.uint8],
    geometry: GridGeometry,
    from_index: int = 0,
    allow_unknown: bool = True,
) -> int | None:
    """Return the index of the first pose after `from_index` that cannot be driven to from the pose before, or None.

    The pose at `from_index` itself may be blocked: the robot is there already. Outside the map counts as blocked.
    """
    scaled = np.ascontiguousarray(poses[from_index:, 1::-1], np.float64)
    scaled = (scaled - geometry.origin[::-1]) / geometry.resolution
    index = int(_first_blocked(scaled, _rates(0.0, allow_unknown), _read_only(costmap)))
    return None if index < 0 else from_index + index


def path_is_blocked(
    costmap: NDArray[np.uint8],
    poses: Poses,
    geometry: GridGeometry,
    from_index: int = 0,
    allow_unknown: bool = True,
) -> bool:
    """Say whether the rest of a path meets an impassable cell, so that a new one is needed at once."""
    return first_blocked(poses, costmap, geometry, from_index, allow_unknown) is not None


def crosses_unknown(costmap: NDArray[np.uint8], cells: NDArray[np.integer]) -> bool:
    """Say whether a path over cells (N, 2) leads through one that was never seen."""
    return bool(np.any(costmap[cells[:, 0], cells[:, 1]] == NO_INFORMATION))


def path_length(poses: Poses) -> float:
    """Return the length of a path [m]."""
    return float(np.hypot(*np.diff(poses[:, :2], axis=0).T).sum())


def nearest_index(poses: Poses, x: float, y: float, from_index: int = 0) -> int:
    """Return the index of the pose nearest to a point [m], at or after `from_index`."""
    rest = poses[from_index:, :2]
    return from_index + int(np.argmin(np.hypot(rest[:, 0] - x, rest[:, 1] - y)))


def remaining_length(poses: Poses, x: float, y: float, from_index: int = 0) -> float:
    """Return the way to the end [m]: to the nearest point of the path, then along it, from `from_index` on."""
    points = poses[from_index:, :2]
    if len(points) == 1:
        return float(math.hypot(points[0, 0] - x, points[0, 1] - y))
    steps = np.diff(points, axis=0)
    squared = np.maximum((steps**2).sum(axis=1), 1e-18)
    toward = np.array([x, y]) - points[:-1]
    share = np.clip((toward * steps).sum(axis=1) / squared, 0.0, 1.0)
    off = np.hypot(*(toward - share[:, None] * steps).T)
    nearest = int(np.argmin(off))
    lengths = np.sqrt(squared)
    rest = (1.0 - share[nearest]) * lengths[nearest] + lengths[nearest + 1 :].sum()
    return float(off[nearest] + rest)


def warm_up() -> None:
    """Compile, or load, every kernel of this module."""
    geometry = GridGeometry(1.0, (0.0, 0.0), (3, 3))
    cells = np.array([[0, 0], [1, 1], [2, 2]], np.int32)
    poses = poses_from_cells(cells, np.zeros((3, 3), np.uint8), geometry, spacing=0.5)
    path_is_blocked(np.zeros((3, 3), np.uint8), poses, geometry)
    cost_of(poses, np.zeros((3, 3), np.uint8), geometry)


def _rates(cost_weight: float, allow_unknown: bool) -> NDArray[np.float64]:
    """Return the cost of a cell's length in a cell of each uint8 value (256,), inf where it is impassable."""
    costs = np.arange(256, dtype=np.float64)
    costs[NO_INFORMATION] = UNKNOWN_COST
    rates = 1.0 + cost_weight * costs / MAX_COST
    rates[INSCRIBED_INFLATED_OBSTACLE:NO_INFORMATION] = np.inf
    if not is_passable(NO_INFORMATION, allow_unknown):
        rates[NO_INFORMATION] = np.inf
    return rates


def _read_only(costmap: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a read-only contiguous view or copy: the one kind of array that the kernels are compiled for."""
    view = np.ascontiguousarray(costmap).view()
    view.flags.writeable = False
    return view


def _resampled(points: NDArray[np.float64], spacing: float) -> NDArray[np.float64]:
    """Return a polyline (N, 2) with its vertices kept and each edge cut evenly to at most `spacing`."""
    pieces = [points[:1]]
    for tail, head in zip(points[:-1], points[1:], strict=True):
        count = max(1, math.ceil(math.hypot(*(head - tail)) / spacing - 1e-9))
        share = np.arange(1, count + 1)[:, None] / count
        pieces.append(tail + share * (head - tail))
    return np.concatenate(pieces)


def _with_headings(points: NDArray[np.float64]) -> Poses:
    poses = np.zeros((len(points), 3))
    poses[:, :2] = points
    if len(points) > 1:
        steps = np.diff(points, axis=0)
        poses[:-1, 2] = np.arctan2(steps[:, 1], steps[:, 0])
        poses[-1, 2] = poses[-2, 2]
    return poses


@njit(nogil=True, cache=True)
def _segment_cost(row0, col0, row1, col1, rates, costmap, exempt_row, exempt_col):  # type: ignore[no-untyped-def]
    """Return the cost of a straight segment, inf if it touches what is impassable, the exempt cell apart.

    Coordinates are in cells, cell (r, c) covering r..r + 1, c..c + 1. Source: the grid traversal of Amanatides and
    Woo (1987), own code, with the two cells beside a corner looked at when the segment goes through it.
    """
    rows, cols = costmap.shape
    row, col = int(np.floor(row0)), int(np.floor(col0))
    last_row, last_col = int(np.floor(row1)), int(np.floor(col1))
    if min(row, last_row, col, last_col) < 0:
        return np.inf
    if max(row, last_row) >= rows or max(col, last_col) >= cols:
        return np.inf
    drow, dcol = row1 - row0, col1 - col0
    length = np.hypot(drow, dcol)
    row_step, col_step = (1 if drow > 0 else -1), (1 if dcol > 0 else -1)
    next_row = ((row + (drow > 0)) - row0) / drow if row != last_row else np.inf
    next_col = ((col + (dcol > 0)) - col0) / dcol if col != last_col else np.inf
    cost, at = 0.0, 0.0
    while row != last_row or col != last_col:
        rate = rates[costmap[row, col]]
        if rate == np.inf:
            if row != exempt_row or col != exempt_col:
                return np.inf
            rate = 1.0
        share = min(next_row, next_col)
        cost += rate * length * (share - at)
        at = share
        through_corner = abs(next_row - next_col) * length < _SAME
        if through_corner:
            beside = max(rates[costmap[row + row_step, col]], rates[costmap[row, col + col_step]])
            if beside == np.inf:
                return np.inf
        by_row = next_row <= next_col or through_corner
        by_col = next_row > next_col or through_corner
        if by_row:
            row += row_step
            next_row = ((row + (drow > 0)) - row0) / drow if row != last_row else np.inf
        if by_col:
            col += col_step
            next_col = ((col + (dcol > 0)) - col0) / dcol if col != last_col else np.inf
    rate = rates[costmap[row, col]]
    if rate == np.inf and row == exempt_row and col == exempt_col:
        rate = 1.0
    return np.inf if rate == np.inf else cost + rate * length * (1.0 - at)


@njit(nogil=True, cache=True)
def _shortcut(path, spent, rates, costmap, kept):  # type: ignore[no-untyped-def]
    """Fill `kept` with the indices of the vertices, and return how many there are.

    From each vertex the far end is sought by doubling, then by halving the gap between reach and failure.
    """
    last = len(path) - 1
    kept[0] = 0
    count, at = 1, 0
    while at < last:
        reached, failed, step = at + 1, last + 1, 2
        while reached < last:
            if failed > last:
                trial = min(at + step, last)
                step *= 2
            elif failed - reached > 1:
                trial = (reached + failed) // 2
            else:
                break
            cost = _segment_cost(
                path[at, 0] + 0.5,
                path[at, 1] + 0.5,
                path[trial, 0] + 0.5,
                path[trial, 1] + 0.5,
                rates,
                costmap,
                -1,
                -1,
            )
            if cost <= spent[trial] - spent[at] + 1e-9 * spent[last]:
                reached = trial
            else:
                failed = trial
        at = reached
        kept[count] = at
        count += 1
    return count


@njit(nogil=True, cache=True)
def _first_blocked(points, rates, costmap):  # type: ignore[no-untyped-def]
    """Return the index of the first point (row, col in cells) not to be driven to from the one before, or -1.

    The cell of the first point does not count.
    """
    row, col = int(np.floor(points[0, 0])), int(np.floor(points[0, 1]))
    for i in range(1, len(points)):
        (row0, col0), (row1, col1) = points[i - 1], points[i]
        if _segment_cost(row0, col0, row1, col1, rates, costmap, row, col) == np.inf:
            return i
    return -1


@njit(nogil=True, cache=True)
def _relax(points, rates, costmap, rounds):  # type: ignore[no-untyped-def]
    """Smooth a path of points (row, col in cells) in place, and return the number of rounds that it took."""
    count = len(points)
    costs = np.empty(count - 1)
    for i in range(count - 1):
        (row0, col0), (row1, col1) = points[i], points[i + 1]
        costs[i] = _segment_cost(row0, col0, row1, col1, rates, costmap, -1, -1)
    for turn in range(rounds):
        farthest = 0.0
        for i in range(1, count - 1):
            (row0, col0), (row2, col2) = points[i - 1], points[i + 1]
            row1 = points[i, 0] + _PULL * (0.5 * (row0 + row2) - points[i, 0])
            col1 = points[i, 1] + _PULL * (0.5 * (col0 + col2) - points[i, 1])
            first = _segment_cost(row0, col0, row1, col1, rates, costmap, -1, -1)
            if first == np.inf:
                continue
            second = _segment_cost(row1, col1, row2, col2, rates, costmap, -1, -1)
            if first + second <= costs[i - 1] + costs[i]:
                farthest = max(farthest, abs(row1 - points[i, 0]), abs(col1 - points[i, 1]))
                points[i, 0], points[i, 1] = row1, col1
                costs[i - 1], costs[i] = first, second
        if farthest < _SETTLED:
            return turn + 1
    return rounds


@njit(nogil=True, cache=True)
def _cost(points, rates, costmap):  # type: ignore[no-untyped-def]
    """Return the cost of a polyline (row, col in cells), the cell of its first point exempt."""
    row, col = int(np.floor(points[0, 0])), int(np.floor(points[0, 1]))
    total = 0.0
    for i in range(1, len(points)):
        (row0, col0), (row1, col1) = points[i - 1], points[i]
        total += _segment_cost(row0, col0, row1, col1, rates, costmap, row, col)
    return total
