"""Search kernels on bare arrays, and the memory they work in. `astar` and `guided` give them a public face.

Costs are whole numbers. A cell of cost c weighs k = scale * (1 + cost_weight * c / 252); a move between two cells
costs (k_a + k_b) * 70 straight and (k_a + k_b) * 99 diagonally (99 / 70 = sqrt 2 to 5.1e-5). For common weights
`scale` makes every k exact, so two kernels, or two kinds of hardware, agree to the bit.

The queue is a ring of LIFO buckets (Dial 1969; Denardo and Fox 1979) narrower than the cheapest move. A cell is
queued again when its cost falls; an entry whose cost is no longer the cell's is stale and dropped when popped.

One loop serves three searches: a flood without a target, A* with the octile distance, and A* guided by a field of
costs to the target. Cells are indexed unsigned: numba then leaves out the check for negative indices, which is a
third of the time.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.errors import NoPath, PlanCancelled, PlanTimedOut
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

FOUND, EXHAUSTED, FULL, PAUSED, OVERFLOW, CANCELLED = range(6)
_CURRENT, _EXPANDED = range(2)  # what a search keeps when it pauses: its bucket, and expansions
CHUNK = 100_000  # expansions between two questions to should_stop: 2 to 4 ms
_CHECK_EVERY = 256  # expansions between two looks at how full the buckets are
_RESERVE = 8 * _CHECK_EVERY  # most entries that so many expansions add to a bucket
_FIRST_CAPACITY = 2 * _RESERVE  # entries in a bucket before it first grows


@functools.lru_cache(maxsize=16)
def weight_table(cost_weight: float, allow_unknown: bool) -> tuple[NDArray[np.int64], int]:
    """Return the integer weight k of each uint8 cost (256,), 0 where a cell is impassable, and the scale.

    Both are exact if scale * cost_weight / 252 is whole for a scale up to 8192, else k is rounded, which moves a
    cost by at most 6.1e-5 of it.
    """
    ratio = Fraction(cost_weight).limit_denominator(1000)
    scale = (ratio / MAX_COST).denominator
    if float(ratio) != cost_weight or scale > _INEXACT_SCALE:
        scale = _INEXACT_SCALE
    costs = np.arange(256, dtype=np.float64)
    costs[NO_INFORMATION] = UNKNOWN_COST
    weights = np.rint(scale * (1.0 + cost_weight * costs / MAX_COST)).astype(np.int64)
    weights[INSCRIBED_INFLATED_OBSTACLE:NO_INFORMATION] = 0
    if not allow_unknown:
        weights[NO_INFORMATION] = 0
    weights.flags.writeable = False
    return weights, scale


@njit(nogil=True, cache=True)
def _octile(row, col, target_row, target_col, unit):  # type: ignore[no-untyped-def]
    """Return the cost that no path between two cells can beat."""
    rows, cols = abs(row - target_row), abs(col - target_col)
    return unit * (STRAIGHT * max(rows, cols) + (DIAGONAL - STRAIGHT) * min(rows, cols))


@njit(nogil=True, cache=True)
def _offer(  # type: ignore[no-untyped-def]
    cell, total, row, col, target, field, unit, shift, bits, infinity, g, entries, counts
):  # fmt: skip
    """Give a cell a cost, and an entry in the queue, if that is less than what it has.

    Nothing is queued that the target, once reached, shows to be of no use.
    """
    if total < g[cell]:
        ahead = np.int64(0)
        useful = True
        if field is not None:
            ahead = np.int64(field[cell])
            best = np.int64(g[target[0]])
            useful = ahead != infinity and (best == infinity or total + ahead < best)
        elif target is not None:
            ahead = _octile(row, col, target[1], target[2], unit)
            best = np.int64(g[target[0]])
            useful = best == infinity or total + ahead < best
        if useful:
            g[cell] = total
            slot = np.uint64((total + ahead) >> shift) & np.uint64(counts.size - 1)
            count = counts[slot]
            entries[slot, np.uint64(count)] = (total << bits) | np.int64(cell)
            counts[slot] = count + 1


@njit(nogil=True, cache=True)
def _raise_best(entries, slot, first, last, field, bits, cell_mask):  # type: ignore[no-untyped-def]
    """Bring the most promising of a bucket's newest entries to its top: guided, that leads straight to the target."""
    best, at = np.int64(2**62), np.uint64(first)
    for i in range(first, last):
        entry = entries[slot, np.uint64(i)]
        bound = (entry >> bits) + field[np.uint64(entry & cell_mask)]
        if bound < best:
            best, at = bound, np.uint64(i)
    top = np.uint64(last - 1)
    entries[slot, at], entries[slot, top] = entries[slot, top], entries[slot, at]


@njit(nogil=True, cache=True)
def _expand(  # type: ignore[no-untyped-def]
    cost, weights, g, stride, target, field, unit, shift, bits, entries, counts, trail, state, budget,
    infinity, longest, cancel
):  # fmt: skip
    """Expand cells until the target's cost is final or, with target None, until all that can be reached is.

    cost, g, field: flat, with a border of impassable cells. target: cell, its row and column. field: None, or costs
    to the target that no path undercuts and that differ between neighbours by no more than their move costs.
    unit: cheapest straight move / 70. bits: of an entry that hold the cell. trail: takes the cells expanded, as far
    as they fit. budget: expansions at which to pause. infinity: g of a cell not reached. longest: dearest move.
    cancel: ends the search soon after another thread sets it.
    """
    one, step = np.uint64(1), np.uint64(stride)
    mask = np.uint64(counts.size - 1)
    current, expanded = state[_CURRENT], state[_EXPANDED]
    cell_mask = (1 << bits) - 1
    queue = (
        unit,
        shift,
        bits,
        infinity,
    )  # an array in a tuple would be counted, atomically, per cell
    row = col = 0
    check = expanded
    empty = 0
    status = EXHAUSTED
    while True:
        slot = np.uint64(current) & mask
        count = counts[slot]
        if count == 0:
            empty += 1
            if empty > counts.size:
                break
            current += 1
            if target is not None and g[target[0]] < min(infinity, (current << shift) + 1):
                break
            continue
        empty = 0
        if expanded >= check:
            if expanded >= budget:
                status = PAUSED
                break
            if cancel[0]:
                status = CANCELLED
                break
            fullest = 0
            for i in range(counts.size):
                fullest = max(fullest, counts[i])
            if fullest + _RESERVE > entries.shape[1]:
                status = FULL
                break
            check = min(expanded + _CHECK_EVERY, budget)
        count -= 1
        counts[slot] = count
        entry = entries[slot, np.uint64(count)]
        cell = np.uint64(entry & cell_mask)
        here = entry >> bits
        if here != g[cell]:
            continue
        if here + longest >= infinity:
            status = OVERFLOW
            break
        if target is not None:
            row = np.int64(cell) // stride
            col = np.int64(cell) - row * stride
            best = g[target[0]]
            if best < infinity:
                if field is not None:
                    if here + field[cell] >= best:
                        continue
                elif here + _octile(row, col, target[1], target[2], unit) >= best:
                    continue
        if expanded < trail.size:
            trail[expanded] = np.int64(cell)
        expanded += 1
        k = weights[cost[cell]]
        # Unrolled by hand: 1.4 times as fast as a loop over the eight moves.
        east, west = weights[cost[cell + one]], weights[cost[cell - one]]
        north, south = weights[cost[cell + step]], weights[cost[cell - step]]
        if east:
            _offer(
                cell + one,
                here + (k + east) * STRAIGHT,
                row,
                col + 1,
                target,
                field,
                *queue,
                g,
                entries,
                counts,
            )
        if west:
            _offer(
                cell - one,
                here + (k + west) * STRAIGHT,
                row,
                col - 1,
                target,
                field,
                *queue,
                g,
                entries,
                counts,
            )
        if north:
            _offer(
                cell + step,
                here + (k + north) * STRAIGHT,
                row + 1,
                col,
                target,
                field,
                *queue,
                g,
                entries,
                counts,
            )
            if east:
                weight = weights[cost[cell + step + one]]
                if weight:
                    total = here + (k + weight) * DIAGONAL
                    _offer(
                        cell + step + one,
                        total,
                        row + 1,
                        col + 1,
                        target,
                        field,
                        *queue,
                        g,
                        entries,
                        counts,
                    )
            if west:
                weight = weights[cost[cell + step - one]]
                if weight:
                    total = here + (k + weight) * DIAGONAL
                    _offer(
                        cell + step - one,
                        total,
                        row + 1,
                        col - 1,
                        target,
                        field,
                        *queue,
                        g,
                        entries,
                        counts,
                    )
        if south:
            _offer(
                cell - step,
                here + (k + south) * STRAIGHT,
                row - 1,
                col,
                target,
                field,
                *queue,
                g,
                entries,
                counts,
            )
            if east:
                weight = weights[cost[cell - step + one]]
                if weight:
                    total = here + (k + weight) * DIAGONAL
                    _offer(
                        cell - step + one,
                        total,
                        row - 1,
                        col + 1,
                        target,
                        field,
                        *queue,
                        g,
                        entries,
                        counts,
                    )
            if west:
                weight = weights[cost[cell - step - one]]
                if weight:
                    total = here + (k + weight) * DIAGONAL
                    _offer(
                        cell - step - one,
                        total,
                        row - 1,
                        col - 1,
                        target,
                        field,
                        *queue,
                        g,
                        entries,
                        counts,
                    )
        if field is not None and counts[slot] > count + 1:
            _raise_best(entries, slot, count, counts[slot], field, bits, cell_mask)
    state[_CURRENT], state[_EXPANDED] = current, expanded
    if status == EXHAUSTED and target is not None and g[target[0]] < infinity:
        status = FOUND
    return status


@njit(nogil=True, cache=True)
def _queue(entries, counts, buckets, costs, cells, bits):  # type: ignore[no-untyped-def]
    """Put cells of known costs into the buckets that they belong to."""
    for i in range(len(cells)):
        slot = buckets[i] & (counts.size - 1)
        entries[slot, counts[slot]] = (costs[i] << bits) | cells[i]
        counts[slot] += 1


@njit(nogil=True, cache=True)
def _forget(g, cells, stride, infinity):  # type: ignore[no-untyped-def]
    """Make cells, which were expanded, and their neighbours unreached again."""
    for cell in cells:
        for first in (cell - stride - 1, cell - 1, cell + stride - 1):
            g[first] = g[first + 1] = g[first + 2] = infinity


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
    unreached = np.float32(np.inf)
    for row in range(rows):
        line = g[
            (row + 1) * (cols + 2) + 1 : (row + 2) * (cols + 2) - 1
        ]  # slices keep the loop vectorised
        out = field[row]
        for col in range(cols):
            out[col] = unreached if line[col] == infinity else np.float32(line[col]) * factor
    return field


def _full(size: int, value: int, *, wide: bool) -> Costs:
    if wide:
        return np.full((size,), value, np.int64)
    return np.full((size,), value, np.int32)


class Workspace:
    """The arrays of one search at a time, kept between searches so that none is allocated per query.

    g is int32: enough for paths of 180,000 free cells. `wide` makes it int64, for what overflows that.
    Memory: 5 bytes a cell (9 if wide), an eighth of a byte for the trail, and the queue, whose size follows the
    search's front rather than the map. Not for two threads at once.
    """

    def __init__(self, *, wide: bool = False) -> None:
        self._g_type = np.int64 if wide else np.int32
        self._shape = (0, 0)
        self._cost = np.empty(0, np.uint8)
        self._g: Costs = np.empty(0, np.int32)
        self._entries = np.empty((0, 0), np.int64)
        self._counts = np.empty(0, np.int64)
        self._state = np.zeros(2, np.int64)
        self._trail = np.empty(0, np.int32)
        self._sources: list[int] = []
        self._target: tuple[int, int, int] | None = None
        self._field: Costs | None = None
        self._cancel = np.zeros(1, np.uint8)

    def load(self, costmap: NDArray[np.uint8], cost_weight: float, allow_unknown: bool) -> None:
        """Take the map (rows, cols), copied, and the cost model of the searches that follow."""
        self.resize(*costmap.shape)
        self.costs[1:-1, 1:-1] = costmap
        self.set_model(cost_weight, allow_unknown)

    def resize(self, rows: int, cols: int) -> None:
        """Have room for a map of this shape; one of another shape than before is all impassable."""
        if (rows, cols) == self._shape:
            return
        self._shape = (rows, cols)
        size = (rows + 2) * (cols + 2)
        bits = size.bit_length() if self._g_type == np.int64 else 32
        self._bits = np.int64(bits)
        self._infinity = np.int64(2**31 - 1 if bits == 32 else 2 ** (63 - bits) - 1)
        self._cost = np.full(size, LETHAL_OBSTACLE, np.uint8)
        self._g = _full(size, int(self._infinity), wide=self.is_wide)
        self._trail = np.empty(size // 32 + 64, np.int32)
        self._sources = []
        self._state[:] = 0

    def set_model(self, cost_weight: float, allow_unknown: bool) -> None:
        """Take the cost model of the searches that follow."""
        self._weights, scale = weight_table(cost_weight, allow_unknown)
        self._unit = 2 * scale
        self._longest = 2 * int(self._weights.max()) * DIAGONAL
        self._shift = (self._unit * STRAIGHT).bit_length() - 2
        ring = 1 << ((self._longest + self._unit * DIAGONAL) // (1 << self._shift) + 2).bit_length()
        if ring != len(self._counts):
            self._counts = np.zeros(ring, np.int64)
            self._entries = np.empty((ring, max(_FIRST_CAPACITY, self._entries.shape[1])), np.int64)

    def begin(
        self,
        sources: Sequence[Cell],
        target: Cell | None,
        *,
        field: Costs | None = None,
        cancel: NDArray[np.uint8] | None = None,
    ) -> None:
        """Start a search from passable cells; with a target it is A*, without one a flood.

        Args:
            sources: row, col of each.
            target: row, col.
            field: padded integer costs to the target, from `costs_to_sources` of a flood from it on a map nowhere
                dearer than this one; None for the octile distance.
            cancel: (1,) uint8; the search ends with CANCELLED once it is not 0.
        """
        self._clear()
        self._target = None
        self._field = field
        self._cancel = np.zeros(1, np.uint8) if cancel is None else cancel
        self._sources = [self.index(cell) for cell in sources]
        ahead = 0
        if target is not None:
            self._target = (self.index(target), int(target[0]) + 1, int(target[1]) + 1)
            ahead = int(_octile(*sources[0], *target, self._unit))
        if field is not None:
            ahead = int(field[self._sources[0]])
        self._state[:] = ahead >> self._shift, 0
        while len(self._sources) > self._entries.shape[1]:
            self._grow()
        if field is not None and ahead == self._infinity:
            return
        slot = (ahead >> self._shift) & (len(self._counts) - 1)
        for cell in dict.fromkeys(self._sources):
            self._g[cell] = 0
            self._entries[slot, self._counts[slot]] = cell
            self._counts[slot] += 1

    def advance(self, expansions: int) -> int:
        """Go on for at most `expansions` more.

        Returns:
            FOUND, EXHAUSTED, OVERFLOW, CANCELLED, or PAUSED if more is to be done.
        """
        budget = int(self._state[_EXPANDED]) + expansions
        while True:
            status = int(
                _expand(
                    self._cost,
                    self._weights,
                    self._g,
                    self._shape[1] + 2,
                    self._target,
                    self._field,
                    self._unit,
                    self._shift,
                    self._bits,
                    self._entries,
                    self._counts,
                    self._trail,
                    self._state,
                    budget,
                    self._infinity,
                    self._longest,
                    self._cancel,
                )
            )
            if status != FULL:
                return status
            self._grow()

    @property
    def expanded(self) -> int:
        """Expansions of this search so far."""
        return int(self._state[_EXPANDED])

    @property
    def costs(self) -> NDArray[np.uint8]:
        """The map (rows + 2, cols + 2) with its impassable border, which must stay; may be written between searches."""
        rows, cols = self._shape
        return self._cost.reshape(rows + 2, cols + 2)

    @property
    def weights(self) -> NDArray[np.int64]:
        """The integer weight (256,) of each cost, 0 where impassable."""
        return self._weights

    @property
    def is_wide(self) -> bool:
        """Whether costs are int64."""
        return self._g_type == np.int64

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, cols of the map."""
        return self._shape

    @property
    def nbytes(self) -> int:
        """Memory of all arrays [bytes]."""
        arrays = (self._cost, self._g, self._entries, self._counts, self._trail)
        return sum(array.nbytes for array in arrays)

    def path(self) -> NDArray[np.int32]:
        """Return the cells (N, 2) from the source to the target, after FOUND."""
        assert self._target is not None
        cells = np.empty((4 * max(self._shape) + 16, 2), np.int32)
        while True:
            stride = self._shape[1] + 2
            ends = (self._sources[0], self._target[0])
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

    def costs_to_sources(self) -> Costs:
        """Return the integer cost of every cell, padded and flat, after a flood: a field to guide a search. No copy."""
        return self._g

    def lower(self, cells: NDArray[np.int64], budget: int) -> bool:
        """Bring a flood up to date after `costs` of some cells fell.

        Args:
            cells: (N,) flat places of the cells that are cheaper now, and of their neighbours.
            budget: most expansions to spend.

        Returns:
            True if the flood is as if made on the new costs; False if the budget was too small, or a cost did not fit,
            so that another must be made.
        """
        order = np.argsort(self._g[cells], kind="stable")
        cells = cells[order]
        costs = self._g[cells].astype(np.int64)
        cells, costs = cells[costs < self._infinity], costs[costs < self._infinity]
        buckets = costs >> self._shift
        span = len(self._counts) - (self._longest >> self._shift) - 2
        self._counts[:] = 0
        self._cancel = np.zeros(1, np.uint8)
        self._state[_EXPANDED] = len(self._trail) + 1  # the next search clears everything
        budget += int(self._state[_EXPANDED])
        first = 0
        # What is queued at once must fit the ring; the sets of cells that do may follow each other in any order.
        while first < len(cells):
            last = int(np.searchsorted(buckets, buckets[first] + span))
            while last - first > self._entries.shape[1]:
                self._grow()
            _queue(
                self._entries,
                self._counts,
                buckets[first:last],
                costs[first:last],
                cells[first:last],
                self._bits,
            )
            self._state[_CURRENT] = buckets[first]
            if self.advance(budget - self.expanded) != EXHAUSTED:
                return False
            first = last
        return True

    def index(self, cell: Cell) -> int:
        """Return a cell's place in the flat padded arrays."""
        return (int(cell[0]) + 1) * (self._shape[1] + 2) + int(cell[1]) + 1

    def _clear(self) -> None:
        """Make every cell unreached: only where the last search was, if that is less work."""
        if self.expanded <= len(self._trail):
            _forget(self._g, self._trail[: self.expanded], self._shape[1] + 2, self._infinity)
            self._g[self._sources] = self._infinity
        else:
            self._g.fill(self._infinity)
        self._counts[:] = 0

    def _grow(self) -> None:
        ring, capacity = self._entries.shape
        grown = np.empty((ring, 2 * capacity), np.int64)
        grown[:, :capacity] = self._entries
        self._entries = grown


@dataclass(frozen=True, slots=True)
class Limits:
    """What may end a search early."""

    max_expansions: int | None = None
    should_stop: Callable[[], bool] | None = None  # asked every few milliseconds
    cancel: NDArray[np.uint8] | None = None  # (1,), looked at by the kernel every 256 expansions


def run(
    space: Workspace,
    sources: Sequence[Cell],
    target: Cell | None,
    limits: Limits,
    *,
    field: Costs | None = None,
) -> bool:
    """Search to the end within limits; return False if a cost did not fit the workspace's width.

    Raises:
        NoPath: the target cannot be reached.
        PlanTimedOut, PlanCancelled: a limit ended the search.
    """
    space.begin(sources, target, field=field, cancel=limits.cancel)
    left = limits.max_expansions if limits.max_expansions is not None else 2**62
    while True:
        chunk = left if limits.should_stop is None else min(left, CHUNK)
        status = space.advance(chunk)
        left -= chunk
        if status == CANCELLED:
            raise PlanCancelled
        if status != PAUSED:
            break
        if left <= 0 or (limits.should_stop is not None and limits.should_stop()):
            raise PlanTimedOut
    if status == EXHAUSTED and target is not None:
        raise NoPath
    return status != OVERFLOW
