"""Chooses the frontier to go to next, and the cell to stand on: near, reachable, safe, and with a view of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.exploration.frontier import Cell, FrontierCluster, find_frontiers
from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE, LETHAL_OBSTACLE

# What a cell of distance between the standing cell and the frontier counts, in cells of free floor. More than any
# step costs at the default cost_weight: a part of a frontier that can be stood on comes before one by a wall.
DISTANCE_WEIGHT = 5.0


class SkipReason(StrEnum):
    """Why a frontier is not a target."""

    NO_SAFE_CELL = "NO_SAFE_CELL"  # the robot fits nowhere near it with a view of it
    UNREACHABLE = "UNREACHABLE"  # no way leads to the cells near it
    GAVE_UP = "GAVE_UP"  # all cells near it are too close to places given up


@dataclass(frozen=True, slots=True)
class FrontierChoice:
    """The frontier to go to."""

    cluster: FrontierCluster
    cell: Cell  # to stand on
    sees: Cell  # the member of the cluster that it was chosen for
    cost: float  # of the way to `cell`, in cells of free floor


@dataclass(frozen=True, slots=True)
class SkippedCluster:
    """A frontier that is no target, and why."""

    cluster: FrontierCluster
    reason: SkipReason


def choose_frontier(
    clusters: Sequence[FrontierCluster],
    costmap: NDArray[np.uint8],
    cost_to_go: NDArray[np.float32],
    *,
    resolution: float,
    view_distance: float = 0.6,
    given_up: Sequence[Cell] = (),
    skip_radius: float = 0.5,
) -> tuple[FrontierChoice | None, list[SkippedCluster]]:
    """Return the frontier that is nearest to travel to, and those that cannot be targets.

    Args:
        clusters: of find_frontiers, on the same grid as the costmap.
        costmap: (rows, cols) uint8, values as in messages.grid.
        cost_to_go: (rows, cols) float32, the planner's field from the robot; inf where it cannot go.
        resolution: cell edge [m].
        view_distance: how far from the frontier the robot may stand to see it out [m].
        given_up: row, col of places that were tried in vain.
        skip_radius: cells this near to such a place are not stood on, nor is a frontier there looked at [m].

    Returns:
        The choice, None if there is no target; and the clusters that were skipped. Ties go to the earlier cluster.
    """
    if not clusters:
        return None, []
    cells = np.concatenate([cluster.cells for cluster in clusters])
    ends = np.cumsum([0] + [cluster.size for cluster in clusters])
    offsets = _disc(view_distance / resolution + 1e-9)
    places = np.array(given_up, np.int32).reshape(-1, 2)
    found = _standing_cells(
        _read_only(cells),
        ends,
        _read_only(costmap),
        _read_only(cost_to_go),
        offsets,
        np.hypot(offsets[:, 0], offsets[:, 1]),
        places,
        (skip_radius / resolution) ** 2,
    )
    skipped, best, lowest = [], -1, math.inf
    for i, (row, col, member, reason) in enumerate(found.tolist()):
        if member < 0:
            skipped.append(SkippedCluster(clusters[i], _REASONS[reason]))
        elif cost_to_go[row, col] < lowest:
            best, lowest = i, float(cost_to_go[row, col])
    if best < 0:
        return None, skipped
    row, col, member, _ = found[best].tolist()
    sees = (int(cells[member, 0]), int(cells[member, 1]))
    return FrontierChoice(clusters[best], (row, col), sees, lowest), skipped


def warm_up() -> None:
    """Compile, or load, every kernel of the package: an actor calls it at start."""
    clusters = find_frontiers(np.zeros((3, 3), np.int8), min_cells=1, start=(1, 1))
    choose_frontier(
        clusters, np.zeros((3, 3), np.uint8), np.zeros((3, 3), np.float32), resolution=1.0
    )


_REASONS = (SkipReason.NO_SAFE_CELL, SkipReason.UNREACHABLE, SkipReason.GAVE_UP)


def _disc(radius: float) -> NDArray[np.int32]:
    """Return the offsets (N, 2) row, col within `radius` cells, the nearest first."""
    reach = math.floor(radius)
    rows, cols = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    squared = rows**2 + cols**2
    order = np.argsort(squared, axis=None, kind="stable")
    order = order[squared.ravel()[order] <= radius * radius]
    return np.stack([rows.ravel()[order], cols.ravel()[order]], axis=1).astype(np.int32)


def _read_only(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return a read-only contiguous view or copy: the one kind of array that the kernels are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@njit(nogil=True, cache=True)
def _near_any(row, col, places, squared):  # type: ignore[no-untyped-def]
    for i in range(len(places)):
        if (places[i, 0] - row) ** 2 + (places[i, 1] - col) ** 2 <= squared:
            return True
    return False


@njit(nogil=True, cache=True)
def _in_view(row0, col0, row1, col1, grid):  # type: ignore[no-untyped-def]
    """Say whether a line between two cells meets no lethal and no unknown cell, its ends apart."""
    steps = 2 * max(abs(row1 - row0), abs(col1 - col0))
    for i in range(1, steps):
        row = int(np.floor(row0 + 0.5 + (row1 - row0) * i / steps))
        col = int(np.floor(col0 + 0.5 + (col1 - col0) * i / steps))
        if (row != row1 or col != col1) and grid[row, col] >= LETHAL_OBSTACLE:
            return False
    return True


@njit(nogil=True, cache=True)
def _standing_cells(cells, ends, grid, field, offsets, distances, places, squared):  # type: ignore[no-untyped-def]
    """Return per cluster the row and column to stand on, the member seen from there (-1: none), and else the reason.

    For each member it is the nearest passable, reachable cell with a view of it, of those the cheapest; among the
    members, distance is weighed against travel.
    """
    rows, cols = grid.shape
    found = np.full((len(ends) - 1, 4), -1, np.int64)
    for cluster in range(len(ends) - 1):
        best, reason = np.inf, 0
        for member in range(ends[cluster], ends[cluster + 1]):
            at_row, at_col = cells[member, 0], cells[member, 1]
            given_up = _near_any(at_row, at_col, places, squared)
            cheapest, nearest = np.inf, np.inf
            for i in range(len(offsets)):
                distance = distances[i]
                if distance > nearest or (given_up and reason == 2):
                    break
                row, col = at_row + offsets[i, 0], at_col + offsets[i, 1]
                if not (0 <= row < rows and 0 <= col < cols):
                    continue
                if grid[row, col] >= INSCRIBED_INFLATED_OBSTACLE:
                    continue
                cost = field[row, col]
                level = 1 if cost == np.inf else 2
                if level <= reason and cost >= cheapest:
                    continue
                if not _in_view(row, col, at_row, at_col, grid):
                    continue
                reason = max(reason, level)
                if level == 1 or given_up or _near_any(row, col, places, squared):
                    continue
                cheapest, nearest = cost, distance
                if cost + DISTANCE_WEIGHT * distance < best:
                    best = cost + DISTANCE_WEIGHT * distance
                    found[cluster, 0], found[cluster, 1], found[cluster, 2] = row, col, member
        found[cluster, 3] = reason
    return found
