"""Where a patrol goes next: every place is weighed on one field of travel costs from the robot. Pure.

All works on the blocks of a Survey. The cheapest ways to all blocks form a tree, and what lies along a way is summed
from the robot outwards, so thousands of candidates cost one pass and no search of their own.
"""

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.exploration.visitation import Survey, _read_only, line_is_open
from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE

# Gradient of the distance transform below which a block is on the ridge: 1 on a slope, 0 half-way between walls.
RIDGE_SLOPE = 0.75
# Known floor that is not joined to the robot's counts as reached only so near to it: it may stand where the map is
# unknown or too narrow, but a patrol does not lead through what was never seen.
ROOT_REACH_M = 2.0


# Of coverage, tuned on the offices of benchmarks/patrol.py: how much more a stale block counts whose surroundings are
# not stale, what the disc at the end of a way counts, and the power of the way's length, above 1 for nearer goals.
LONELY_WEIGHT = 12.0
END_SHARE = 0.2
LENGTH_POWER = 1.5


@dataclass(frozen=True, slots=True)
class PatrolGoal:
    """A place to go to."""

    block: tuple[int, int]  # row, col in the survey
    cell: tuple[int, int]  # row, col in the map
    length: float  # [m] of the way there
    value: float  # what the router ranked it by
    # (K, 2) row, col on the lattice: once these cells were visited, nobody has to go there; None: the goal itself
    cells: NDArray[np.int32] | None = None


@dataclass(frozen=True, slots=True)
class Ways:
    """The cheapest ways from the robot to all blocks of a survey, as a tree. Arrays are (block rows, block cols)."""

    length: NDArray[np.float32]  # [m]; inf where none leads over known floor
    parent: NDArray[np.int32]  # flat index of the block before; -1 at the robot
    order: NDArray[np.int32]  # (N,) flat indices of the blocks that are reached, the cheapest first


def ways(survey: Survey, costmap: NDArray[np.uint8]) -> Ways:
    """Return the tree of ways that the field of travel costs describes.

    Args:
        survey: of the newest map.
        costmap: (rows, cols) uint8, of the same map.
    """
    length = np.full(survey.entry.shape, np.inf, np.float32)
    parent = np.full(survey.entry.shape, -1, np.int32)
    reached = np.flatnonzero(np.isfinite(survey.entry_cost))
    order = reached[np.argsort(survey.entry_cost.ravel()[reached])].astype(np.int32)
    _tree(
        order,
        _read_only(survey.entry_cost),
        _read_only(survey.entry),
        _read_only(costmap),
        survey.geometry.resolution,
        length,
        parent,
    )
    return Ways(length, parent, order)


def skeleton_weights(safe: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return how near each safe block is to the Voronoi skeleton of the floor: 1 on it, towards 0 at the walls.

    The skeleton is the ridge of the distance transform, and the weight d / (d + r) with the distances d to the nearest
    block that is not safe and r to the ridge.

    Args:
        safe: (rows, cols) bool. Beyond the edge nothing is.

    Source: own; the weighting as in the Voronoi layer of Lau, Sprunk and Burgard (2013), without its decay.
    """
    padded = np.pad(safe, 1).astype(np.uint8)
    distance = cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    slope_y, slope_x = np.gradient(distance)
    ridge = (padded > 0) & (np.hypot(slope_x, slope_y) < RIDGE_SLOPE)
    if not ridge.any():
        return safe.astype(np.float32)
    to_ridge = cv2.distanceTransform((~ridge).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    weights = np.where(padded > 0, distance / np.maximum(distance + to_ridge, 1e-6), 0.0)
    return weights[1:-1, 1:-1].astype(np.float32)


def coverage_goal(
    survey: Survey,
    tree: Ways,
    excluded: NDArray[np.bool_],
    *,
    radius: float,
    goal_cost: float,
    skeleton_share: float,
) -> PatrolGoal | None:
    """Return the place whose way covers the most stale floor per metre.

    Stale floor is the sum of (idleness / expiry) ** power over the safe cells within `radius`, integrated along the
    way. As idleness grows without bound, so does the value of every place that is left out.

    Args:
        survey: of the newest map.
        tree: of that survey.
        excluded: (block rows, block cols) bool, where no goal may be.
        radius: of a visit [m].
        goal_cost: what a goal costs beyond its way [m]: keeps it from taking many small ones.
        skeleton_share: how much of a goal's value depends on its nearness to the skeleton, 0..1.

    Returns:
        The goal; None if there is no safe place.
    """
    at_goal = (survey.goal >= 0) & ~excluded & np.isfinite(tree.length)
    if not at_goal.any():
        return None
    is_due = at_goal & (survey.unvisited > 0)
    if not is_due.any():
        return _best(survey, tree, np.where(at_goal, survey.oldest, -np.inf))
    edge = survey.block * survey.geometry.resolution
    cells = survey.block**2
    stale = survey.urgency * (survey.unvisited + np.float32(cells))
    around = _disc_sums(stale, radius / edge)
    # What is the last of its surroundings, at a wall or left beside a lane, is cheap now and dear later.
    mean = around / np.float32(math.pi * (radius / edge) ** 2)
    lonely = np.clip(1.0 - mean / np.maximum(stale, 1e-9), 0.0, 1.0).astype(np.float32)
    around = _disc_sums(stale * (1.0 + LONELY_WEIGHT * lonely), radius / edge)
    along = np.zeros_like(around)
    _sum_along(tree.order, tree.parent, tree.length, around, 2.0 / (math.pi * radius), along)
    value = (along + END_SHARE * around) / (tree.length + goal_cost) ** LENGTH_POWER
    if skeleton_share:
        value *= 1.0 - skeleton_share + skeleton_share * skeleton_weights(survey.safe > 0)
    return _best(survey, tree, np.where(is_due, value, -np.inf))


def random_goal(
    survey: Survey, tree: Ways, excluded: NDArray[np.bool_], rng: np.random.Generator
) -> PatrolGoal | None:
    """Return an unvisited place drawn by chance, those near the skeleton more often; any if all is visited."""
    at_goal = (survey.goal >= 0) & ~excluded & np.isfinite(tree.length)
    weights = skeleton_weights(survey.safe > 0)
    chances: NDArray[np.floating | np.integer] = weights * np.where(at_goal, survey.unvisited, 0)
    if not chances.any():
        chances = np.where(at_goal, survey.safe, 0)
    if not chances.any():
        return None
    sums = np.cumsum(chances.ravel(), dtype=np.float64)
    drawn = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
    value = np.full(survey.goal.shape, -np.inf)
    value.flat[min(drawn, value.size - 1)] = 1.0
    return _best(survey, tree, value)


def frontier_goal(survey: Survey, tree: Ways, excluded: NDArray[np.bool_]) -> PatrolGoal | None:
    """Return a place where visited floor borders unvisited floor: of the area with the most cells per metre of way.

    Areas are 8-connected; an area is entered where the way there is the shortest.
    """
    at_goal = (survey.goal >= 0) & ~excluded & np.isfinite(tree.length)
    unvisited = at_goal & (survey.unvisited > 0)
    if not unvisited.any():
        return _best(survey, tree, np.where(at_goal, survey.oldest, -np.inf))
    count, labels = cv2.connectedComponents(unvisited.astype(np.uint8), connectivity=8)
    sizes = np.bincount(labels.ravel(), survey.unvisited.ravel(), count)
    visited = ((survey.safe > survey.unvisited) & (survey.safe > 0)).astype(np.uint8)
    border = unvisited & (cv2.dilate(visited, np.ones((3, 3), np.uint8)) > 0)
    # An area that touches nothing visited has its whole floor for a border.
    touched = np.zeros(count, np.bool_)
    touched[labels[border]] = True
    border |= unvisited & ~touched[labels]
    edge = survey.block * survey.geometry.resolution
    value = sizes[labels] / (tree.length + edge)
    return _best(survey, tree, np.where(border, value, -np.inf))


def _best(survey: Survey, tree: Ways, value: NDArray[np.floating]) -> PatrolGoal | None:
    at = int(np.argmax(value))
    row, col = at // value.shape[1], at % value.shape[1]
    if not np.isfinite(value[row, col]):
        return None
    cell = survey.cell_from_block(row, col)
    return PatrolGoal((row, col), cell, float(tree.length[row, col]), float(value[row, col]))


def _disc_sums(values: NDArray[np.float32], radius: float) -> NDArray[np.float32]:
    """Return the sum over the blocks within `radius` blocks of each; blocks on the rim count by their share."""
    reach = math.ceil(radius + 0.5)
    offsets = np.arange(-reach, reach + 1)
    away = np.hypot(offsets[:, None], offsets[None, :])
    kernel = np.clip(radius + 0.5 - away, 0.0, 1.0).astype(np.float32)
    kernel *= np.float32(math.pi * radius**2 / kernel.sum())
    sums = np.asarray(cv2.filter2D(values, -1, kernel, borderType=cv2.BORDER_CONSTANT), np.float32)
    return np.maximum(sums, np.float32(0.0))


@njit(nogil=True, cache=True)
def _tree(order, entry_cost, entry, costmap, resolution, length, parent):  # type: ignore[no-untyped-def]
    """Give each block, the cheapest first, the cheapest of its neighbours that its way may come from."""
    rows, cols = entry_cost.shape
    map_cols = costmap.shape[1]
    for i in range(len(order)):
        row, col = order[i] // cols, order[i] % cols
        own = entry_cost[row, col]
        at = entry[row, col]
        lowest, lowest_open = own, own
        blocked, found = -1, -1
        for r in range(max(0, row - 1), min(rows, row + 2)):
            for c in range(max(0, col - 1), min(cols, col + 2)):
                cost = entry_cost[r, c]
                if cost >= lowest_open:
                    continue
                other = entry[r, c]
                if line_is_open(
                    at // map_cols,
                    at % map_cols,
                    other // map_cols,
                    other % map_cols,
                    costmap,
                    INSCRIBED_INFLATED_OBSTACLE,
                ):
                    lowest_open = cost
                    found = r * cols + c
                elif cost < lowest:
                    lowest = cost
                    blocked = r * cols + c
        if found < 0:
            found = blocked
        if found < 0:
            if own * resolution <= ROOT_REACH_M:
                length[row, col] = own * resolution
            continue
        other = entry[found // cols, found % cols]
        rise = at // map_cols - other // map_cols
        run = at % map_cols - other % map_cols
        parent[row, col] = found
        length[row, col] = (
            length[found // cols, found % cols] + np.sqrt(rise * rise + run * run) * resolution
        )


@njit(nogil=True, cache=True)
def _sum_along(order, parent, length, density, per_metre, along):  # type: ignore[no-untyped-def]
    """Integrate `density * per_metre` along the ways of a tree, from the robot outwards."""
    cols = length.shape[1]
    for i in range(len(order)):
        row, col = order[i] // cols, order[i] % cols
        before = parent[row, col]
        if before < 0:
            continue
        r, c = before // cols, before % cols
        step = length[row, col] - length[r, c]
        mean = 0.5 * (density[row, col] + density[r, c])
        along[row, col] = along[r, c] + mean * step * per_metre
