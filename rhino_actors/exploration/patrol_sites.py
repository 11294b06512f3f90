"""Where a patrol may stand, what it has in view from there, and the ways between: one site per block of the floor."""

import heapq
import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.exploration.visitation import _read_only, line_is_open
from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE, LETHAL_OBSTACLE, GridGeometry

COST_WEIGHT = 1.0  # of the costmap in a way's cost, as the planner weighs it
UNJOINED = 1e5  # [cells] cost of a way that there is none: to another island of the floor
NO_FLOOR = 1000.0  # rank of a cell that is no goal: a block's site is one only if it has no other


@dataclass(frozen=True, slots=True)
class Sites:
    """The N sites of a map, and the F cells of its safe floor.

    Costs of ways are in cells of free floor.
    """

    # row, col of the map's first cell, the edge of a block [cells], row, col of the first block; on their lattices
    lattice: NDArray[np.int64]
    costmap: NDArray[np.uint8]
    at: NDArray[np.int32]  # (N, 2) row, col in the map
    number: NDArray[np.int32]  # (block rows, block cols) of a block's site; -1: none
    is_floor: NDArray[np.bool_]  # (N,) whether a goal may be there
    neighbours: NDArray[
        np.int32
    ]  # (N, 8) the sites beside each to which a straight line is open; -1: none
    steps: NDArray[np.float32]  # (N, 8) cost of the way to them
    floor: NDArray[np.int32]  # (F,) flat index of each floor cell
    seen: NDArray[np.int32]  # (N, most) floor cells in view of each site
    seen_count: NDArray[np.int32]  # (N,)


def make_sites(
    costmap: NDArray[np.uint8],
    floor: NDArray[np.bool_],
    geometry: GridGeometry,
    block: int,
    radius: float,
) -> Sites:
    """Return the sites of a map.

    Args:
        costmap: (rows, cols) uint8, as in messages.grid.
        floor: (rows, cols) bool, the cells to be visited; goals are there. All are passable.
        geometry: of the map.
        block: edge of a block [cells].
        radius: how far a site has floor in view [m].
    """
    row0, col0 = geometry.first_cell
    lattice = np.array([row0, col0, block, row0 // block, col0 // block], np.int64)
    shape = (
        (row0 + geometry.shape[0] - 1) // block - row0 // block + 1,
        (col0 + geometry.shape[1] - 1) // block - col0 // block + 1,
    )
    costmap, floor = _read_only(costmap), _read_only(floor)  # type: ignore[assignment]
    cell = np.full(shape, -1, np.int32)
    _place(costmap, floor, lattice, cell)
    number = np.full(shape, -1, np.int32)
    is_site = cell >= 0
    number[is_site] = np.arange(np.count_nonzero(is_site))
    cells = cell[is_site]
    at = np.stack([cells // geometry.shape[1], cells % geometry.shape[1]], 1).astype(np.int32)
    neighbours = np.full((len(at), 8), -1, np.int32)
    steps = np.full((len(at), 8), np.inf, np.float32)
    _join(costmap, at, number, np.argwhere(is_site).astype(np.int32), neighbours, steps)
    floor_cells = np.flatnonzero(floor).astype(np.int32)
    cell_number = np.full(floor.size, -1, np.int32)
    cell_number[floor_cells] = np.arange(len(floor_cells))
    reach = radius / geometry.resolution
    width = 2 * math.floor(reach) + 1
    seen = np.empty((len(at), width * width), np.int32)
    seen_count = np.zeros(len(at), np.int32)
    _look_around(costmap, cell_number.reshape(floor.shape), at, reach, seen, seen_count)
    return Sites(
        lattice,
        costmap,
        at,
        number,
        floor[at[:, 0], at[:, 1]],
        neighbours,
        steps,
        floor_cells,
        seen,
        seen_count,
    )


@njit(nogil=True, cache=True)
def _place(costmap, floor, lattice, cell):  # type: ignore[no-untyped-def]
    """Choose the cell of each block to stand on: floor, of low cost, then near the middle."""
    row0, col0, block, block_row0, block_col0 = lattice
    rows, cols = costmap.shape
    best = np.full(cell.shape, np.inf, np.float32)
    middle = 0.5 * (block - 1)
    for r in range(rows):
        b_row = (r + row0) // block - block_row0
        off_row = (r + row0) % block - middle
        for c in range(cols):
            if costmap[r, c] >= INSCRIBED_INFLATED_OBSTACLE:
                continue
            b_col = (c + col0) // block - block_col0
            off_col = (c + col0) % block - middle
            rank = costmap[r, c] + (off_row * off_row + off_col * off_col) / (block * block)
            if not floor[r, c]:
                rank += NO_FLOOR
            if rank < best[b_row, b_col]:
                best[b_row, b_col] = rank
                cell[b_row, b_col] = r * cols + c


@njit(nogil=True, cache=True)
def _join(costmap, at, number, blocks, neighbours, steps):  # type: ignore[no-untyped-def]
    """Note for each site those around it that a straight line leads to."""
    rows, cols = number.shape
    for i in range(len(at)):
        row, col = at[i]
        k = -1
        for dr in range(-1, 2):
            for dc in range(-1, 2):
                if dr == 0 and dc == 0:
                    continue
                k += 1
                r, c = blocks[i, 0] + dr, blocks[i, 1] + dc
                if not (0 <= r < rows and 0 <= c < cols) or number[r, c] < 0:
                    continue
                other = number[r, c]
                o_row, o_col = at[other]
                if line_is_open(row, col, o_row, o_col, costmap, INSCRIBED_INFLATED_OBSTACLE):
                    neighbours[i, k] = other
                    length = np.sqrt((o_row - row) ** 2 + (o_col - col) ** 2)
                    mean = 0.5 * (costmap[row, col] + costmap[o_row, o_col])
                    steps[i, k] = length * (1.0 + COST_WEIGHT / 252.0 * mean)


@njit(nogil=True, cache=True)
def _look_around(costmap, cell_number, at, reach, seen, seen_count):  # type: ignore[no-untyped-def]
    """Note the floor cells within `reach` cells of each site that no wall hides."""
    rows, cols = costmap.shape
    whole = int(np.floor(reach))
    for i in range(len(at)):
        row, col = at[i]
        row0, row1 = max(0, row - whole), min(rows, row + whole + 1)
        col0, col1 = max(0, col - whole), min(cols, col + whole + 1)
        is_open = True
        for r in range(row0, row1):
            for c in range(col0, col1):
                is_open &= costmap[r, c] < LETHAL_OBSTACLE
        count = 0
        for r in range(row0, row1):
            for c in range(col0, col1):
                if cell_number[r, c] < 0 or (r - row) ** 2 + (c - col) ** 2 > reach * reach:
                    continue
                if is_open or line_is_open(row, col, r, c, costmap, LETHAL_OBSTACLE):
                    seen[i, count] = cell_number[r, c]
                    count += 1
        seen_count[i] = count


@njit(nogil=True, cache=True)
def way(a, b, limit, chain, at, number, neighbours, steps, lattice, costmap, cost, before):  # type: ignore[no-untyped-def]
    """Write the sites along the way from a to b, both ends included, and return its cost and how many they are.

    It is the straight way if that is open, else the cheapest over the sites; UNJOINED and the ends if
    none leads there that costs no more than `limit`.
    `chain` (N + 2,) int32 is for the sites; `cost` (N,) float32 is all inf, and so again on return; `before` (N,) int32
    is scratch; the others are those of Sites.
    """
    chain[0] = a
    if a == b:
        return 0.0, 1
    row0, col0, block, block_row0, block_col0 = lattice
    rise, run = at[b, 0] - at[a, 0], at[b, 1] - at[a, 1]
    if line_is_open(at[a, 0], at[a, 1], at[b, 0], at[b, 1], costmap, INSCRIBED_INFLATED_OBSTACLE):
        length = np.sqrt(rise * rise + run * run)
        pieces = int(np.ceil(2.0 * length / block))
        count, total = 1, 0.0
        for i in range(1, pieces + 1):
            r = int(np.floor(at[a, 0] + rise * i / pieces + 0.5))
            c = int(np.floor(at[a, 1] + run * i / pieces + 0.5))
            total += min(252, costmap[r, c])
            site = number[(r + row0) // block - block_row0, (c + col0) // block - block_col0]
            if site >= 0 and site != chain[count - 1] and (i == pieces or site != b):
                chain[count] = site
                count += 1
        return length * (1.0 + COST_WEIGHT / 252.0 * total / pieces), count
    touched = [np.int32(a)]
    heap = [(0.0, np.int32(a))]
    cost[a] = 0.0
    before[a] = -1
    found = np.inf
    while heap:
        own, here = heapq.heappop(heap)
        if own > cost[here]:
            continue
        if here == b:
            found = own
        if here == b or own > limit:
            break
        for k in range(8):
            other = neighbours[here, k]
            if other < 0:
                continue
            new = np.float32(own + steps[here, k])
            if new < cost[other]:
                if cost[other] == np.inf:
                    touched.append(other)
                cost[other] = new
                before[other] = here
                heapq.heappush(heap, (np.float64(new), other))
    for site in touched:
        cost[site] = np.inf
    if found == np.inf:
        chain[1] = b
        return UNJOINED, 2
    count = 0
    step = b
    while step >= 0:
        chain[count] = step
        count += 1
        step = before[step]
    for j in range(count // 2):
        chain[j], chain[count - 1 - j] = chain[count - 1 - j], chain[j]
    return found, count
