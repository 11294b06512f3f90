"""Where to stand to see a frontier, and how much would be seen from there."""

import functools
import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE

RAYS = 72
ANGLES = 24  # of the places that are tried around a part of a frontier
OCCUPIED_FROM = 50
EVERYWHERE = np.empty((0, 0), np.bool_)
# A place is good enough if it shows this share of the most that any place shows of the part.
GOOD_SHARE = 0.7

# How far the search for a place to stand on came.
NO_FLOOR = 0  # nowhere in view of it the robot fits
CUT_OFF = 1  # there is such floor, but no way to it
THROUGH_UNKNOWN = 2  # a way to it leads over floor that was never seen
REACHABLE = 3


def parts(
    cells: NDArray[np.int32], ends: NDArray[np.int64], spacing: float
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Cut clusters into parts that one look can take in.

    Args:
        cells: (N, 2) row, col by cluster.
        ends: (K + 1,) where each cluster begins.
        spacing: how far a cell may be from the first one of its part, in cells.

    Returns:
        Of each part: row, col (P, 2) of the member nearest to its middle; its size (P,); its cluster (P,).
    """
    found: tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]] = _parts(
        cells, ends, float(spacing)
    )
    return found


@functools.cache
def rings(resolution: float, nearest: float, farthest: float) -> NDArray[np.int32]:
    """Return offsets (N, 3) row, col, ring around a part, by distance: rings from `nearest` to `farthest` [m]."""
    radii = [0.0]
    radius = nearest
    while radius < farthest:
        radii.append(radius)
        radius *= 1.5
    radii.append(farthest)
    angles = np.arange(ANGLES) * (2 * math.pi / ANGLES)
    offsets = [(0, 0, 0)]
    for ring, radius in enumerate(radii[1:], 1):
        rows = np.rint(np.sin(angles) * radius / resolution).astype(int)
        cols = np.rint(np.cos(angles) * radius / resolution).astype(int)
        offsets += [(int(r), int(c), ring) for r, c in zip(rows, cols, strict=True)]
    return np.array(list(dict.fromkeys(offsets)), np.int32)


def warm_up() -> None:
    """Compile, or load, every kernel of this module."""
    grid = np.zeros((5, 5), np.int8)
    costs, exact, coarse = (
        np.zeros((5, 5), np.uint8),
        np.zeros((5, 5), np.float32),
        np.zeros((5, 5), np.float32),
    )
    inside = np.empty((0, 0), np.bool_)
    for array in (grid, costs, exact):
        array.flags.writeable = False
    at, _, _ = parts(np.array([[1, 1]], np.int32), np.array([0, 1]), 3.0)
    spots, _ = standing_places(
        at, grid, costs, exact, coarse, 1, 0.05, rings(0.05, 0.1, 0.2), inside, np.empty((0, 3))
    )
    seen_area(spots[0], grid, inside, 3.0)
    sees(grid, np.array([1, 1], np.int32), at, 3.0)


def seen_area(
    places: NDArray[np.int32],
    occupancy: NDArray[np.int8],
    inside: NDArray[np.bool_],
    reach: float,
    room: NDArray[np.bool_] = EVERYWHERE,
) -> NDArray[np.float64]:
    """Return the unknown area (N,) [cells] that a sensor of range `reach` [cells] would see from places (N, 2).

    Unknown cells let a ray through, walls do not; row -1 is no place and sees nothing.

    Args:
        places: (N, 2) row, col.
        occupancy: (rows, cols) int8.
        inside: (rows, cols), cells that count; (0, 0): all.
        reach: [cells].
        room: (rows, cols), cells that count; (0, 0): all.
    """
    areas: NDArray[np.float64] = _seen_area(
        np.ascontiguousarray(places), occupancy, inside, float(reach), room
    )
    return areas


def sees(
    occupancy: NDArray[np.int8],
    place: NDArray[np.int32],
    points: NDArray[np.int32],
    reach: float,
) -> NDArray[np.bool_]:
    """Say which points (N, 2) are in view of a place within `reach` [cells]: over known cells without obstacles."""
    seen: NDArray[np.bool_] = _sees(occupancy, int(place[0]), int(place[1]), points, float(reach))
    return seen


def standing_places(
    at: NDArray[np.int32],
    occupancy: NDArray[np.int8],
    costmap: NDArray[np.uint8],
    exact: NDArray[np.float32],
    coarse: NDArray[np.float32],
    block: int,
    resolution: float,
    offsets: NDArray[np.int32],
    inside: NDArray[np.bool_],
    avoided: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Find the cheapest places to look at parts of frontiers from, one on each ring.

    Args:
        at: (P, 2) row, col of the parts.
        occupancy: (rows, cols) int8.
        costmap: (rows, cols) uint8 of the same grid.
        exact: (rows, cols) float32, the planner's field from the robot in cells; or (0, 0): `coarse` counts alone.
        coarse: the field of CoarseTravel from the robot [m], over blocks of `block` cells.
        block: cells.
        resolution: [m].
        offsets: of `rings`.
        inside: (rows, cols) bool, where the robot may stand; (0, 0): everywhere.
        avoided: (A, 3) row, col, radius [cells]: places that are not stood on.

    Returns:
        (P, R, 2) row, col by ring, -1 where there is none (of CUT_OFF: no way leads there); and (P, R + 1): the
        cost of the way [m] to each, and in the last column how far the search came.
    """
    places, costs = _standing_places(
        at, occupancy, costmap, exact, coarse, block, resolution, offsets, inside, avoided
    )
    return places, costs


@njit(nogil=True, cache=True)
def _parts(cells, ends, spacing):  # type: ignore[no-untyped-def]
    count = len(cells)
    firsts = np.empty(count, np.int32)
    part_of = np.empty(count, np.int32)
    clusters = np.empty(count, np.int32)
    found = 0
    for k in range(len(ends) - 1):
        begin = found
        for i in range(ends[k], ends[k + 1]):
            nearest, best = spacing * spacing, -1
            for p in range(begin, found):
                row, col = cells[firsts[p], 0], cells[firsts[p], 1]
                squared = (cells[i, 0] - row) ** 2.0 + (cells[i, 1] - col) ** 2.0
                if squared <= nearest:
                    nearest, best = squared, p
            if best < 0:
                firsts[found], clusters[found] = i, k
                best = found
                found += 1
            part_of[i] = best
    sizes = np.zeros(found, np.int32)
    middles = np.zeros((found, 2))
    for i in range(count):
        sizes[part_of[i]] += 1
        middles[part_of[i], 0] += cells[i, 0]
        middles[part_of[i], 1] += cells[i, 1]
    at = np.zeros((found, 2), np.int32)
    least = np.full(found, np.inf)
    for i in range(count):
        p = part_of[i]
        squared = (cells[i, 0] - middles[p, 0] / sizes[p]) ** 2 + (
            cells[i, 1] - middles[p, 1] / sizes[p]
        ) ** 2
        if squared < least[p]:
            least[p] = squared
            at[p, 0], at[p, 1] = cells[i, 0], cells[i, 1]
    return at, sizes, clusters[:found].copy()


@njit(nogil=True, cache=True)
def _clear(grid, row0, col0, row1, col1):  # type: ignore[no-untyped-def]
    """Say whether the line between two cells meets only known cells without an obstacle, the ends apart."""
    steps = 2 * max(abs(row1 - row0), abs(col1 - col0))
    for i in range(1, steps):
        row = int(np.floor(row0 + 0.5 + (row1 - row0) * i / steps))
        col = int(np.floor(col0 + 0.5 + (col1 - col0) * i / steps))
        if (row == row1 and col == col1) or (row == row0 and col == col0):
            continue
        if grid[row, col] < 0 or grid[row, col] >= OCCUPIED_FROM:
            return False
    return True


@njit(nogil=True, cache=True)
def _sees(grid, row, col, points, reach):  # type: ignore[no-untyped-def]
    seen = np.zeros(len(points), np.bool_)
    for i in range(len(points)):
        away = np.hypot(points[i, 0] - row, points[i, 1] - col)
        seen[i] = away <= reach and _clear(grid, row, col, points[i, 0], points[i, 1])
    return seen


@njit(nogil=True, cache=True)
def _standing_places(  # type: ignore[no-untyped-def]
    at, occupancy, costmap, exact, coarse, block, resolution, offsets, inside, avoided
):
    rows, cols = occupancy.shape
    count = offsets[-1, 2] + 1
    places = np.full((len(at), count, 2), -1, np.int32)
    costs = np.full((len(at), count + 1), np.inf)
    for p in range(len(at)):
        level = NO_FLOOR
        for i in range(len(offsets)):
            ring = offsets[i, 2]
            row, col = at[p, 0] + offsets[i, 0], at[p, 1] + offsets[i, 1]
            if not (0 <= row < rows and 0 <= col < cols):
                continue
            if costmap[row, col] >= INSCRIBED_INFLATED_OBSTACLE or occupancy[row, col] < 0:
                continue
            if inside.size and not inside[row, col]:
                continue
            over_floor = coarse[row // block, col // block]
            cost = exact[row, col] * resolution if exact.size else over_floor
            this = REACHABLE
            if cost == np.inf:
                this = CUT_OFF
            elif over_floor == np.inf:
                this = THROUGH_UNKNOWN
            if this < level:
                continue
            if this == level and places[p, ring, 0] >= 0 and cost >= costs[p, ring]:
                continue
            near = False
            for k in range(len(avoided)):
                squared = (avoided[k, 0] - row) ** 2 + (avoided[k, 1] - col) ** 2
                near = near or squared <= avoided[k, 2] ** 2
            if near or not _clear(occupancy, row, col, at[p, 0], at[p, 1]):
                continue
            if this > level:
                level = this
                places[p] = -1
                costs[p] = np.inf
            places[p, ring, 0], places[p, ring, 1] = row, col
            costs[p, ring] = cost
        costs[p, count] = level
    return places, costs


@njit(nogil=True, cache=True)
def _seen_area(places, occupancy, inside, reach, room):  # type: ignore[no-untyped-def]
    rows, cols = occupancy.shape
    areas = np.zeros(len(places))
    width = 2 * np.pi / RAYS
    for p in range(len(places)):
        if places[p, 0] < 0:
            continue
        total = 0.0
        for ray in range(RAYS):
            angle = (ray + 0.5) * width
            drow, dcol = np.sin(angle), np.cos(angle)
            for step in range(1, int(reach) + 1):
                row = int(np.floor(places[p, 0] + 0.5 + drow * step))
                col = int(np.floor(places[p, 1] + 0.5 + dcol * step))
                if not (0 <= row < rows and 0 <= col < cols):
                    if not inside.size:
                        # beyond the grid all is unknown
                        total += width * 0.5 * (reach * reach - step * step)
                    break
                seen = occupancy[row, col]
                if seen >= OCCUPIED_FROM:
                    break
                if seen >= 0 or (inside.size and not inside[row, col]):
                    continue
                if not room.size or room[row, col]:
                    total += width * step
        areas[p] = total
    return areas
