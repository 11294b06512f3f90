"""Search kernels on bare arrays, and the memory they work in. `astar` gives them a public face.

Costs are whole numbers. A cell of cost c weighs k = scale * (1 + cost_weight * c / 252); a move between two cells
costs (k_a + k_b) * 70 straight and (k_a + k_b) * 99 diagonally (99 / 70 = sqrt 2 to 5.1e-5). For common weights
`scale` makes every k exact, so two kernels, or two kinds of hardware, agree to the bit.

The queue is a ring of LIFO buckets (Dial 1969; Denardo and Fox 1979) narrower than the cheapest move. A cell is
queued again when its cost falls; an entry whose cost is no longer the cell's is stale and dropped when popped.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.messages.grid import (
    INSCRIBED_INFLATED_OBSTACLE,
    LETHAL_OBSTACLE,
    NO_INFORMATION,
)

Cell = tuple[int, int]
Costs = NDArray[np.int32] | NDArray[np.int64]

UNKNOWN_COST = 128  # what a cell that was never seen counts as
MAX_COST = INSCRIBED_INFLATED_OBSTACLE - 1  # the highest passable cost

STRAIGHT, DIAGONAL = 70, 99
_INEXACT_SCALE = 8192  # rounding k moves a cost by at most 1 / 16384 of it

FOUND, EXHAUSTED, FULL, PAUSED, OVERFLOW = range(5)
# What a search keeps when it pauses: the bucket it is at, expansions, lowest and highest cell expanded.
_CURRENT, _EXPANDED, _LOW, _HIGH = range(4)
_CHECK_EVERY = 256  # expansions between two looks at how full the buckets are
_RESERVE = 8 * _CHECK_EVERY  # most entries that so many expansions add to a bucket
_FIRST_CAPACITY = 2 * _RESERVE  # entries in a bucket before it first grows


def weight_table(cost_weight: float, allow_unknown: bool) -> tuple[NDArray[np.int32], int]:
    """Return the integer weight k of each uint8 cost (256,), 0 where a cell is impassable, and the scale."""
    ratio = Fraction(cost_weight).limit_denominator(1000)
    scale = (ratio / MAX_COST).denominator
    if float(ratio) != cost_weight or scale > _INEXACT_SCALE:
        scale = _INEXACT_SCALE
    costs = np.arange(256, dtype=np.float64)
    costs[NO_INFORMATION] = UNKNOWN_COST
    weights = np.rint(scale * (1.0 + cost_weight * costs / MAX_COST)).astype(np.int32)
    weights[INSCRIBED_INFLATED_OBSTACLE:NO_INFORMATION] = 0
    if not allow_unknown:
        weights[NO_INFORMATION] = 0
    return weights, scale


@njit(nogil=True, cache=True)
def _octile(row, col, target_row, target_col, unit):  # type: ignore[no-untyped-def]
    """Return the cost that no path between two cells can beat."""
    rows, cols = abs(row - target_row), abs(col - target_col)
    return unit * (STRAIGHT * max(rows, cols) + (DIAGONAL - STRAIGHT) * min(rows, cols))


@njit(nogil=True, cache=True)
def _offer(cell, total, ahead, shift, bits, g, entries, counts):  # type: ignore[no-untyped-def]
    """Give a cell a cost, and an entry in the queue, if that is less than what it has."""
    if total < g[cell]:
        g[cell] = total
        slot = ((total + ahead) >> shift) & (counts.size - 1)
        count = counts[slot]
        entries[slot, count] = (total << bits) | cell
        counts[slot] = count + 1


@njit(nogil=True, cache=True)
def _expand(  # type: ignore[no-untyped-def]
    cost, weights, g, stride, target, unit, shift, bits, entries, counts, state, budget, infinity, longest
):  # fmt: skip
    """Expand cells until the target's cost is final or, with target None, until all that can be reached is.

    cost, g: flat, with a border of impassable cells. unit: cheapest straight move / 70. bits: of an entry that hold
    the cell. budget: expansions at which to pause. infinity: g of a cell not reached. longest: dearest move.
    """
    mask = counts.size - 1
    current, expanded, low, high = state[_CURRENT], state[_EXPANDED], state[_LOW], state[_HIGH]
    cell_mask = (1 << bits) - 1
    row = col = target_row = target_col = ahead = 0
    if target is not None:
        target_row, target_col = target // stride, target % stride
    check = expanded
    empty = 0
    status = EXHAUSTED
    while True:
        slot = current & mask
        count = counts[slot]
        if count == 0:
            empty += 1
            if empty > mask:
                break
            current += 1
            if target is not None and g[target] < min(infinity, (current << shift) + 1):
                break
            continue
        empty = 0
        if expanded >= check:
            if expanded >= budget:
                status = PAUSED
                break
            if counts.max() + _RESERVE > entries.shape[1]:
                status = FULL
                break
            check = min(expanded + _CHECK_EVERY, budget)
        count -= 1
        counts[slot] = count
        entry = entries[slot, count]
        cell = entry & cell_mask
        here = entry >> bits
        if here != g[cell]:
            continue
        if here + longest >= infinity:
            status = OVERFLOW
            break
        expanded += 1
        low = min(low, cell)
        high = max(high, cell)
        k = weights[cost[cell]]
        if target is not None:
            row = cell // stride
            col = cell - row * stride
        # Unrolled by hand: 1.4 times as fast as a loop over the eight moves.
        east, west = weights[cost[cell + 1]], weights[cost[cell - 1]]
        north, south = weights[cost[cell + stride]], weights[cost[cell - stride]]
        if east:
            total = here + (k + east) * STRAIGHT
            if target is not None:
                ahead = _octile(row, col + 1, target_row, target_col, unit)
            _offer(cell + 1, total, ahead, shift, bits, g, entries, counts)
        if west:
            total = here + (k + west) * STRAIGHT
            if target is not None:
                ahead = _octile(row, col - 1, target_row, target_col, unit)
            _offer(cell - 1, total, ahead, shift, bits, g, entries, counts)
        if north:
            total = here + (k + north) * STRAIGHT
            if target is not None:
                ahead = _octile(row + 1, col, target_row, target_col, unit)
            _offer(cell + stride, total, ahead, shift, bits, g, entries, counts)
        if south:
            total = here + (k + south) * STRAIGHT
            if target is not None:
                ahead = _octile(row - 1, col, target_row, target_col, unit)
            _offer(cell - stride, total, ahead, shift, bits, g, entries, counts)
        if north and east:
            weight = weights[cost[cell + stride + 1]]
            if weight:
                total = here + (k + weight) * DIAGONAL
                if target is not None:
                    ahead = _octile(row + 1, col + 1, target_row, target_col, unit)
                _offer(cell + stride + 1, total, ahead, shift, bits, g, entries, counts)
        if north and west:
            weight = weights[cost[cell + stride - 1]]
            if weight:
                total = here + (k + weight) * DIAGONAL
                if target is not None:
                    ahead = _octile(row + 1, col - 1, target_row, target_col, unit)
                _offer(cell + stride - 1, total, ahead, shift, bits, g, entries, counts)
        if south and east:
            weight = weights[cost[cell - stride + 1]]
            if weight:
                total = here + (k + weight) * DIAGONAL
                if target is not None:
                    ahead = _octile(row - 1, col + 1, target_row, target_col, unit)
                _offer(cell - stride + 1, total, ahead, shift, bits, g, entries, counts)
        if south and west:
            weight = weights[cost[cell - stride - 1]]
            if weight:
                total = here + (k + weight) * DIAGONAL
                if target is not None:
                    ahead = _octile(row - 1, col - 1, target_row, target_col, unit)
                _offer(cell - stride - 1, total, ahead, shift, bits, g, entries, counts)
    state[_CURRENT], state[_EXPANDED], state[_LOW], state[_HIGH] = current, expanded, low, high
    if status == EXHAUSTED and target is not None and g[target] < infinity:
        status = FOUND
    return status


@njit(nogil=True, cache=True)
def _walk_back(cost, weights, g, stride, start, target, cells):  # type: ignore[no-untyped-def]
    """Fill `cells` (N, 2) from the target to the start as far as they fit, and return how many there are.

    A cell's predecessor is the neighbour whose cost and move add up to the cell's own; going straight on wins ties.
    """
    moves = (1, stride, -1, -stride, stride + 1, stride - 1, -stride - 1, 1 - stride)
    cell, count, last = target, 0, 0
    while True:
        if count < cells.shape[0]:
            cells[count, 0] = cell // stride - 1
            cells[count, 1] = cell % stride - 1
        count += 1
        if cell == start:
            return count
        k = weights[cost[cell]]
        for i in range(-1, 8):
            step = last if i < 0 else moves[i]
            other = cell + step
            weight = weights[cost[other]]
            if step == 0 or weight == 0:
                continue
            straight = abs(step) == 1 or abs(step) == stride
            if not straight:
                side = 1 if step == stride + 1 or step == 1 - stride else -1
                if weights[cost[cell + side]] == 0 or weights[cost[other - side]] == 0:
                    continue
            if g[other] + (k + weight) * (STRAIGHT if straight else DIAGONAL) == g[cell]:
                last = step
                cell = other
                break
        else:
            return -1


@njit(nogil=True, cache=True)
def _scaled(g, rows, cols, infinity, factor):  # type: ignore[no-untyped-def]
    """Return padded integer costs as float32 (rows, cols) in cells, inf where nothing was reached."""
    field = np.empty((rows, cols), np.float32)
    for row in range(rows):
        first = (row + 1) * (cols + 2) + 1
        for col in range(cols):
            value = g[first + col]
            field[row, col] = np.inf if value == infinity else value * factor
    return field


class Workspace:
    """The arrays of one search at a time, kept between searches so that none is allocated per query.

    g is int32: enough for paths of 180,000 free cells. `wide` makes it int64, for what overflows that.
    Not for two threads at once.
    """

    def __init__(self, *, wide: bool = False) -> None:
        self._g_type = np.int64 if wide else np.int32
        self._shape = (0, 0)
        self._cost = np.empty(0, np.uint8)
        self._g: Costs = np.empty(0, np.int64)
        self._entries = np.empty((0, 0), np.int64)
        self._counts = np.empty(0, np.int64)
        self._state = np.zeros(4, np.int64)
        self._touched = slice(0, 0)
        self._target: int | None = None

    def load(self, costmap: NDArray[np.uint8], cost_weight: float, allow_unknown: bool) -> None:
        """Take the map (rows, cols), copied, and the cost model of the searches that follow."""
        rows, cols = costmap.shape
        if costmap.shape != self._shape:
            self._shape = (rows, cols)
            size = (rows + 2) * (cols + 2)
            bits = size.bit_length() if self._g_type == np.int64 else 32
            self._bits = np.int64(bits)
            self._infinity = np.int64(2**31 - 1 if bits == 32 else 2 ** (63 - bits) - 1)
            self._cost = np.full(size, LETHAL_OBSTACLE, np.uint8)
            self._g = np.full(size, self._infinity, self._g_type)
            self._touched = slice(0, 0)
        self._cost.reshape(rows + 2, cols + 2)[1:-1, 1:-1] = costmap
        self._weights, scale = weight_table(cost_weight, allow_unknown)
        self._unit = 2 * scale
        self._longest = 2 * int(self._weights.max()) * DIAGONAL
        self._shift = (self._unit * STRAIGHT).bit_length() - 2
        ring = 1 << ((self._longest + self._unit * DIAGONAL) // (1 << self._shift) + 2).bit_length()
        if ring != len(self._counts):
            self._counts = np.zeros(ring, np.int64)
            self._entries = np.empty((ring, max(_FIRST_CAPACITY, self._entries.shape[1])), np.int64)

    def begin(self, sources: Sequence[Cell], target: Cell | None) -> None:
        """Start a search from passable cells; with a target it is A*, without one a flood."""
        self._g[self._touched] = self._infinity
        self._counts[:] = 0
        self._target = None if target is None else self._index(target)
        self._sources = [self._index(cell) for cell in sources]
        ahead = 0
        if target is not None:
            ahead = int(_octile(*sources[0], *target, self._unit))
        self._state[:] = ahead >> self._shift, 0, min(self._sources), max(self._sources)
        while len(self._sources) > self._entries.shape[1]:
            self._grow()
        for cell in self._sources:
            args = (self._shift, self._bits, self._g, self._entries, self._counts)
            _offer(np.int64(cell), np.int64(0), np.int64(ahead), *args)
        self._mark_touched()

    def advance(self, expansions: int) -> int:
        """Go on for at most `expansions` more; return FOUND, EXHAUSTED, OVERFLOW, or PAUSED if more is to be done."""
        budget = int(self._state[_EXPANDED]) + expansions
        while True:
            status = int(
                _expand(
                    self._cost,
                    self._weights,
                    self._g,
                    self._shape[1] + 2,
                    self._target,
                    self._unit,
                    self._shift,
                    self._bits,
                    self._entries,
                    self._counts,
                    self._state,
                    budget,
                    self._infinity,
                    self._longest,
                )
            )
            if status != FULL:
                self._mark_touched()
                return status
            self._grow()

    @property
    def expanded(self) -> int:
        """Expansions of this search so far."""
        return int(self._state[_EXPANDED])

    def path(self) -> NDArray[np.int32]:
        """Return the cells (N, 2) from the source to the target, after FOUND."""
        cells = np.empty((4 * max(self._shape) + 16, 2), np.int32)
        while True:
            stride = self._shape[1] + 2
            ends = (self._sources[0], self._target)
            count = int(_walk_back(self._cost, self._weights, self._g, stride, *ends, cells))
            assert count > 0, "a found target has predecessors"
            if count <= len(cells):
                return cells[:count][::-1].copy()
            cells = np.empty((count, 2), np.int32)

    def field(self) -> NDArray[np.float32]:
        """Return the cost of every cell (rows, cols) in cells, inf where the search has not come."""
        factor = np.float32(1.0 / (STRAIGHT * self._unit))
        field: NDArray[np.float32] = _scaled(self._g, *self._shape, self._infinity, factor)
        return field

    def _index(self, cell: Cell) -> int:
        return (int(cell[0]) + 1) * (self._shape[1] + 2) + int(cell[1]) + 1

    def _mark_touched(self) -> None:
        reach = self._shape[1] + 3
        low = max(0, int(self._state[_LOW]) - reach)
        self._touched = slice(low, int(self._state[_HIGH]) + reach + 1)

    def _grow(self) -> None:
        ring, capacity = self._entries.shape
        grown = np.empty((ring, 2 * capacity), np.int64)
        grown[:, :capacity] = self._entries
        self._entries = grown
