"""A patrol's round: a closed way along stations that has all floor in view; planned for a map, repaired for others."""

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.exploration.patrol_sites import make_sites
from rhino_actors.exploration.patrol_stations import owners, plan_stations
from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE, GridGeometry, MapSnapshot

# A round is repaired when so much floor is new, or so much that could be passed can be no longer, or the reverse.
NEW_FLOOR_M2 = 0.25
NEW_FLOOR_REACH_M = 0.4  # what lies no farther from the floor of the round belongs to it
CHANGED_M2 = 1.5


@dataclass(frozen=True, slots=True)
class Round:
    """A closed way along M stations, on the map that it was planned for."""

    geometry: GridGeometry
    stations: NDArray[
        np.int32
    ]  # (M, 2) row, col of the cells on the lattice, as they follow each other
    origins: NDArray[np.int32]  # (M,) which station of the round before each was; -1: none
    owner: NDArray[
        np.int32
    ]  # (rows, cols) to which station the way has a cell best in view; -1: no floor
    is_passable: NDArray[np.bool_]  # (rows, cols)
    length: float  # [m] of free floor: more beside obstacles
    stamp: float  # [s] when it was planned


def plan_round(
    snapshot: MapSnapshot,
    is_safe: NDArray[np.bool_],
    block: int,
    radius: float,
    now: float,
    before: Round | None = None,
) -> Round:
    """Return a round of the safe floor.

    Args:
        snapshot: the map.
        is_safe: (rows, cols) bool, at least one cell. A site of a round is safe, and all safe cells are in view of it.
        block: edge of a block [cells]: a station is in the middle of one.
        radius: of what is in view from the way [m].
        now: monotonic time [s].
        before: the round on an earlier map: what can be kept of its order is.
    """
    geometry = snapshot.geometry
    sites = make_sites(snapshot.costmap, is_safe, geometry, block, radius)
    known, kept = None, np.empty(0, np.intp)
    if before is not None:
        blocks = before.stations // block - sites.lattice[3:]
        inside = ((blocks >= 0) & (blocks < sites.number.shape)).all(axis=1)
        number = np.full(len(blocks), -1, np.int32)
        number[inside] = sites.number[blocks[inside, 0], blocks[inside, 1]]
        kept = np.flatnonzero((number >= 0) & sites.is_floor[number])
        known = number[kept]
    order, cost = plan_stations(sites, known)
    came_from = np.full(len(sites.at), -1, np.int32)
    if known is not None:
        order = _as_before(order, known)
        came_from[known] = kept
    owner = np.full(geometry.shape, -1, np.int32)
    owner.ravel()[sites.floor] = owners(sites, order)
    # A few cells that no site has in view, as those seen through a gap between blocks.
    owner, _ = _spread(owner, is_safe, 0.0)
    return Round(
        geometry,
        (sites.at[order] + np.array(geometry.first_cell)).astype(np.int32),
        came_from[order],
        owner,
        _passable(snapshot),
        cost * geometry.resolution,
        now,
    )


def hold_against(
    known: Round, snapshot: MapSnapshot, is_safe: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], bool]:
    """Return the owners (rows, cols) of the safe cells of a newer map, and whether the round is still good for it."""
    geometry = snapshot.geometry
    cell = geometry.resolution**2
    owner = _moved(known.owner, known.geometry, geometry, -1)
    owner, new = _spread(owner, is_safe, NEW_FLOOR_REACH_M / geometry.resolution)
    was_passable = _moved(known.is_passable, known.geometry, geometry, 0)
    changed = (was_passable != _passable(snapshot)).astype(np.uint8)
    # Walls that are seen a cell beside where they were are no change.
    changed = cv2.erode(changed, np.ones((3, 3), np.uint8))
    is_good = new * cell < NEW_FLOOR_M2 and int(np.count_nonzero(changed)) * cell < CHANGED_M2
    return owner, bool(is_good)


def _spread(
    owner: NDArray[np.int32], is_safe: NDArray[np.bool_], reach: float
) -> tuple[NDArray[np.int32], int]:
    """Give safe cells without an owner the nearest one's; return how many are farther than `reach` cells from any."""
    is_owned = owner >= 0
    lacks = is_safe & ~is_owned
    if not lacks.any() or not is_owned.any():
        return owner, int(np.count_nonzero(lacks))
    away, labels = cv2.distanceTransformWithLabels(
        (~is_owned).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    by_label = np.empty(int(labels.max()) + 1, np.int32)
    by_label[labels[is_owned]] = owner[is_owned]
    filled = owner.copy()
    filled[lacks] = by_label[labels[lacks]]
    return filled, int(np.count_nonzero(lacks & (away > reach)))


def _passable(snapshot: MapSnapshot) -> NDArray[np.bool_]:
    return np.asarray(snapshot.costmap < INSCRIBED_INFLATED_OBSTACLE, np.bool_)


def _moved(
    cells: NDArray[Any], before: GridGeometry, after: GridGeometry, fill: int
) -> NDArray[Any]:
    """Return cells of one map at their places in another one of the same lattice."""
    if before == after:
        return cells
    moved = np.full(after.shape, fill, cells.dtype)
    shift = np.array(before.first_cell) - np.array(after.first_cell)
    low = np.maximum(shift, 0)
    high = np.minimum(np.array(before.shape) + shift, np.array(after.shape))
    if (low < high).all():
        from_low, from_high = low - shift, high - shift
        moved[low[0] : high[0], low[1] : high[1]] = cells[
            from_low[0] : from_high[0], from_low[1] : from_high[1]
        ]
    return moved


def _as_before(order: NDArray[np.int32], known: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the order in the direction in which the known ones were visited."""
    place = {int(site): i for i, site in enumerate(order)}
    found = np.array([place[int(site)] for site in known if int(site) in place])
    if len(found) < 3:
        return order
    steps = (np.roll(found, -1) - found) % len(order)
    is_turned = np.count_nonzero(steps > len(order) // 2) * 2 > len(steps)
    return order[::-1].copy() if is_turned else order
