"""Travel costs over known floor on coarse blocks: from the robot, and between places it may go to."""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.exploration.frontier import Cell
from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE
from rhino_actors.messages.window import CellWindow

BLOCK_M = 0.2  # edge of a block, as near as whole cells come to it
_IMPASSABLE = 255
_UNIT = 10  # whole numbers per block of free floor; a diagonal is 14
_HERE = 4  # of the steps 3 * (1 + rows) + 1 + cols
_RING = 32  # buckets: more than the dearest step, 28


class CoarseTravel:
    """Costs of ways over known floor, in metres of free floor; inf where none leads.

    A block can be passed if one of its cells can; its cost is the mean of those. That makes ways a little too good
    beside obstacles, never wrong by more than a block at a gap. Unknown cells are not passed.
    """

    def __init__(self) -> None:
        self.block = 1  # cells along a block's edge
        self._resolution = 1.0
        self._shape = (0, 0)
        self._blocks = np.empty((0, 0), np.uint8)

    def update(
        self, costmap: NDArray[np.uint8], resolution: float, changed: CellWindow | None = None
    ) -> None:
        """Take a costmap (rows, cols) uint8 as in messages.grid; not kept. changed: as in FrontierMap.update."""
        rows, cols = costmap.shape
        block = max(1, round(BLOCK_M / resolution))
        whole = CellWindow(0, -(-rows // block), 0, -(-cols // block))
        window = whole
        if changed is not None and costmap.shape == self._shape and block == self.block:
            row0, row1, col0, col1 = changed
            window = CellWindow(
                row0 // block, -(-row1 // block), col0 // block, -(-col1 // block)
            ).clipped(whole)
        else:
            self._blocks = np.empty((whole.row1, whole.col1), np.uint8)
        self._shape, self.block, self._resolution = costmap.shape, block, resolution
        if not window.is_empty:
            costmap = np.ascontiguousarray(costmap).view()
            costmap.flags.writeable = False  # the one kind of array that the kernel is compiled for
            _average(costmap, block, self._blocks, *window)

    def from_robot(self, row: int, col: int, radius: float) -> NDArray[np.float32]:
        """Return the field over blocks (float32) from the floor within `radius` [m] of a cell.

        The robot may stand where the map has no floor: too near a wall, or where its sensor never looked.
        """
        reach = math.ceil(radius / self.edge)
        at_row, at_col = row // self.block, col // self.block
        seeds = [(at_row, at_col)]
        rows, cols = self._blocks.shape
        if not (0 <= at_row < rows and 0 <= at_col < cols):
            return np.full(self._blocks.shape, np.inf, np.float32)
        if self._blocks[at_row, at_col] == _IMPASSABLE:
            near = CellWindow(
                at_row - reach, at_row + reach + 1, at_col - reach, at_col + reach + 1
            ).clipped(CellWindow(0, rows, 0, cols))
            found = np.argwhere(self._blocks[near.slices] != _IMPASSABLE) + near[::2]
            seeds += [(int(r), int(c)) for r, c in found]
        return self._flood(np.array(seeds, np.int32), np.empty((0, 2), np.int32), math.inf)

    def between(self, cells: NDArray[np.int32], limit: float = math.inf) -> NDArray[np.float64]:
        """Return the costs (K, K) [m] between cells (K, 2) row, col. Ways longer than `limit` [m] count as inf."""
        places = (cells // self.block).astype(np.int32)
        costs = np.zeros((len(cells), len(cells)))
        for i in range(len(cells) - 1):
            field = self._flood(places[i : i + 1], places[i + 1 :], limit)
            costs[i, i + 1 :] = field[places[i + 1 :, 0], places[i + 1 :, 1]]
        return np.maximum(costs, costs.T)

    @property
    def edge(self) -> float:
        """Edge of a block [m]."""
        return self.block * self._resolution

    def blocks_of(self, cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the blocks in which any of some cells (rows, cols) lies."""
        rows, cols = self._blocks.shape
        padded = np.zeros((rows * self.block, cols * self.block), np.bool_)
        padded[: cells.shape[0], : cells.shape[1]] = cells
        blocks = padded.reshape(rows, self.block, cols, self.block)
        return np.asarray(blocks.any(axis=(1, 3)), np.bool_)

    def area_around(self, cell: NDArray[np.int32]) -> float:
        """Return how much floor [m2] can be got to from a cell (row, col)."""
        sources = (cell[None] // self.block).astype(np.int32)
        field = self._flood(sources, np.empty((0, 2), np.int32), math.inf)
        return float(np.count_nonzero(np.isfinite(field))) * self.edge**2

    def _flood(
        self, sources: NDArray[np.int32], targets: NDArray[np.int32], limit: float
    ) -> NDArray[np.float32]:
        most = 2**30 if math.isinf(limit) else int(limit / self.edge * _UNIT)
        field: NDArray[np.float32] = _flood(
            self._blocks, sources, targets, most, np.float32(self.edge / _UNIT)
        )
        return field


def note_ways(
    field: NDArray[np.float32], led: NDArray[np.bool_], ways_back: NDArray[np.int8]
) -> None:
    """Write down for the blocks that a way leads to now how it goes back to the robot; the others keep what they have.

    Args:
        field: (rows, cols) of blocks, from the robot, inf where no way leads.
        led: blocks to note.
        ways_back: (rows, cols) int8, changed: 0 where no way ever led, 5 at the way's begin, elsewhere
            3 * (1 + rows to go) + 1 + cols to go + 1 to the next block of the way back.
    """
    _note_ways(field, led, ways_back)


def way_end(block: Cell, led: NDArray[np.bool_], ways_back: NDArray[np.int8]) -> Cell | None:
    """Return where the way that last led to a block ends now: its last block that one leads to; None: there is none."""
    row, col = block
    for _ in range(ways_back.size):
        if led[row, col]:
            return row, col
        step = int(ways_back[row, col]) - 1
        if step < 0 or step == _HERE:
            return None
        row, col = row + step // 3 - 1, col + step % 3 - 1
    return None  # ways of different times may meet in a ring


def warm_up() -> None:
    """Compile, or load, every kernel of this module."""
    travel = CoarseTravel()
    travel.update(np.zeros((9, 9), np.uint8), 0.05)
    field = travel.from_robot(4, 4, 0.5)
    travel.between(np.array([[0, 0], [8, 8]], np.int32))
    note_ways(field, np.isfinite(field), np.zeros(field.shape, np.int8))


@njit(nogil=True, cache=True)
def _average(costmap, block, blocks, row0, row1, col0, col1):  # type: ignore[no-untyped-def]
    rows, cols = costmap.shape
    for row in range(row0, row1):
        for col in range(col0, col1):
            count = total = 0
            for r in range(row * block, min(rows, (row + 1) * block)):
                for c in range(col * block, min(cols, (col + 1) * block)):
                    cost = costmap[r, c]
                    if cost < INSCRIBED_INFLATED_OBSTACLE:
                        count += 1
                        total += cost
            blocks[row, col] = total // count if count else _IMPASSABLE


@njit(nogil=True, cache=True)
def _note_ways(field, led, ways_back):  # type: ignore[no-untyped-def]
    rows, cols = field.shape
    for row in range(rows):
        for col in range(cols):
            if not led[row, col]:
                continue
            least, step = field[row, col], _HERE
            for dr in range(-1, 2):
                for dc in range(-1, 2):
                    r, c = row + dr, col + dc
                    if 0 <= r < rows and 0 <= c < cols and field[r, c] < least:
                        least, step = field[r, c], 3 * (dr + 1) + dc + 1
            ways_back[row, col] = step + 1


@njit(nogil=True, cache=True)
def _flood(blocks, sources, targets, most, unit):  # type: ignore[no-untyped-def]
    """Return costs [m] from the sources by Dial's buckets, until all targets are settled or costs exceed `most`."""
    rows, cols = blocks.shape
    cost = np.full(rows * cols, 2**31 - 1, np.int32)
    after = np.empty(
        rows * cols, np.int32
    )  # each block is in one bucket at most: lists of both directions
    before = np.empty(rows * cols, np.int32)
    heads = np.full(_RING, -1, np.int32)
    wanted = np.zeros(rows * cols, np.bool_)
    left = 0
    for i in range(len(targets)):
        at = targets[i, 0] * cols + targets[i, 1]
        if not wanted[at]:
            wanted[at] = True
            left += 1
    waiting = 0
    for i in range(len(sources)):
        at = sources[i, 0] * cols + sources[i, 1]
        if cost[at] != 0:
            cost[at] = 0
            after[at], before[at] = heads[0], -1
            if heads[0] >= 0:
                before[heads[0]] = at
            heads[0] = at
            waiting += 1
    now = 0
    some = len(targets) > 0
    while waiting and now <= most and not (some and left == 0):
        bucket = now % _RING
        while heads[bucket] >= 0:
            at = heads[bucket]
            heads[bucket] = after[at]
            if heads[bucket] >= 0:
                before[heads[bucket]] = -1
            waiting -= 1
            if wanted[at]:
                wanted[at] = False
                left -= 1
            row, col = at // cols, at % cols
            own = min(blocks[row, col], 252)
            for dr in range(-1, 2):
                for dc in range(-1, 2):
                    r, c = row + dr, col + dc
                    if not (0 <= r < rows and 0 <= c < cols) or blocks[r, c] == _IMPASSABLE:
                        continue
                    step = 14 if dr != 0 and dc != 0 else 10
                    new = now + step + step * (own + blocks[r, c]) // 504
                    other = r * cols + c
                    old = cost[other]
                    if new >= old:
                        continue
                    if old != 2**31 - 1:  # it waits in another bucket
                        if before[other] >= 0:
                            after[before[other]] = after[other]
                        else:
                            heads[old % _RING] = after[other]
                        if after[other] >= 0:
                            before[after[other]] = before[other]
                        waiting -= 1
                    cost[other] = new
                    slot = new % _RING
                    after[other], before[other] = heads[slot], -1
                    if heads[slot] >= 0:
                        before[heads[slot]] = other
                    heads[slot] = other
                    waiting += 1
        now += 1
    field = np.full((rows, cols), np.inf, np.float32)
    flat = field.ravel()
    for i in range(rows * cols):
        if cost[i] <= now:
            flat[i] = cost[i] * unit
    return field
