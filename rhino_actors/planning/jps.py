"""Jump-point search: shortest paths where all floor costs the same.

Moves and lengths are those of `search`: 70 straight, 99 diagonal, no corner cut. Source: Harabor and Grastien (2011,
2014), own code: maps of bits are scanned 64 cells at a time along rows and columns; a bit stops a scan where a cell
is impassable or where an obstacle beside the way ends, so that a turn may pay. Diagonal steps are not queued: from
each, the scans to both sides queue what they find.
"""

from typing import Any

import numpy as np
from numba import njit
from numba.cpython.unsafe import numbers
from numpy.typing import NDArray

from rhino_actors.errors import NoPath, PlanCancelled, PlanTimedOut
from rhino_actors.planning.search import (
    CANCELLED,
    DIAGONAL,
    EXHAUSTED,
    FOUND,
    FULL,
    PAUSED,
    STRAIGHT,
    Cell,
    Limits,
    weight_table,
)

# Numba's types say that these never return.
_leading_zeros: Any = numbers.leading_zeros
_trailing_zeros: Any = numbers.trailing_zeros

# Jump points that a row or column scan meets per free cell from which bucketed A* is the faster: random clutter has
# 0.2 and more, buildings and game maps less than 0.03.
_DENSE = 0.1
_CHUNK = 2_000  # expansions between two questions to should_stop
_CHECK_EVERY = 16  # expansions between two looks at the cancel flag
_INFINITY = 2**31 - 1
_QUEUED, _EXPANDED, _TOUCHED = range(3)  # what a search keeps when it pauses
_EAST, _NORTH, _WEST, _SOUTH = range(
    4
)  # the way that a queued cell was reached; columns grow to the east


class JumpPointSearch:
    """The bits of one map, and the arrays of one search at a time. Not for two threads at once."""

    def __init__(self) -> None:
        self._known: NDArray[np.uint8] | None = None  # the map whose bits these are
        self._weights = np.empty(0, np.int64)
        self._passable = np.zeros(256, np.bool_)
        self._pays = False
        self._shape = (0, 0)
        self._state = np.zeros(3, np.int64)
        self._heap = np.empty(1 << 14, np.int64)

    def load(self, costmap: NDArray[np.uint8], cost_weight: float, allow_unknown: bool) -> bool:
        """Take a map (rows, cols), and say whether to search it so.

        That is where all passable cells cost the same, unless the map is cluttered: then A* is faster. The bits are
        made anew only for another map than the last.
        """
        weights, _ = weight_table(cost_weight, allow_unknown)
        passable = self._passable if weights is self._weights else weights > 0
        view = np.ascontiguousarray(costmap).view()
        view.flags.writeable = False
        known = self._known
        is_known = (
            known is not None
            and known.shape == view.shape
            and (passable is self._passable or np.array_equal(passable, self._passable))
            and bool(_same(view, known))
        )
        if is_known and weights is self._weights:
            return self._pays
        if cost_weight != 0.0 and not _is_uniform(view, weights):
            return False
        if is_known:
            return self._pays
        self._weights = weights
        self._passable = passable
        self._known = view.copy()
        self._known.flags.writeable = False
        if view.shape != self._shape:
            self._resize(*view.shape)
        _draw_bits(view, passable, self._across, self._down)
        _draw_stops(self._across, self._stops_east, self._stops_west)
        _draw_stops(self._down, self._stops_north, self._stops_south)
        self._pays = bool(_turns(self._across, self._stops_east) < _DENSE)
        return self._pays

    def search(self, start: Cell, goal: Cell, limits: Limits) -> tuple[NDArray[np.int32], int]:
        """Return the cells (N, 2) of a shortest path between passable cells of the map, and the expansions.

        Raises:
            NoPath: there is none.
            PlanTimedOut, PlanCancelled: a limit ended the search.
        """
        cols = self._shape[1] + 2
        first, last = ((cell[0] + 1) * cols + cell[1] + 1 for cell in (start, goal))
        cancel = np.zeros(1, np.uint8) if limits.cancel is None else limits.cancel
        _forget(self._g, self._trail[: self._state[_TOUCHED]])
        self._state[:] = 0
        left = limits.max_expansions if limits.max_expansions is not None else 2**62
        status = PAUSED
        while status == PAUSED:
            chunk = left if limits.should_stop is None else min(left, _CHUNK)
            status = self._advance(first, last, int(self._state[_EXPANDED]) + chunk, cancel)
            left -= chunk
            if status == PAUSED and (
                left <= 0 or (limits.should_stop is not None and limits.should_stop())
            ):
                raise PlanTimedOut
        if status == CANCELLED:
            raise PlanCancelled
        if status == EXHAUSTED:
            raise NoPath
        count = int(_draw_path(self._parent, cols, first, last, np.empty((0, 2), np.int32)))
        cells = np.empty((count, 2), np.int32)
        _draw_path(self._parent, cols, first, last, cells)
        return cells, int(self._state[_EXPANDED])

    @property
    def nbytes(self) -> int:
        """Memory of all arrays [bytes]."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))

    def _advance(self, first: int, last: int, budget: int, cancel: NDArray[np.uint8]) -> int:
        while True:
            status = int(
                _expand(
                    self._across,
                    self._down,
                    self._stops_east,
                    self._stops_west,
                    self._stops_north,
                    self._stops_south,
                    self._g,
                    self._parent,
                    self._explored,
                    self._trail,
                    self._heap,
                    self._state,
                    first,
                    last,
                    budget,
                    cancel,
                )
            )
            if status != FULL:
                return status
            self._heap = np.concatenate([self._heap, np.empty_like(self._heap)])

    def _resize(self, rows: int, cols: int) -> None:
        self._shape = (rows, cols)
        across, down = (rows + 2, (cols + 2) // 64 + 1), (cols + 2, (rows + 2) // 64 + 1)
        self._across, self._stops_east, self._stops_west = (
            np.empty(across, np.uint64) for _ in range(3)
        )
        self._down, self._stops_north, self._stops_south = (
            np.empty(down, np.uint64) for _ in range(3)
        )
        size = (rows + 2) * (cols + 2)
        self._g = np.full(size, _INFINITY, np.int32)
        self._parent = np.empty(size, np.int32)
        self._explored = np.empty(size, np.uint8)
        self._trail = np.empty(size, np.int32)
        self._state[:] = 0
        needed = 8 * (rows + cols + 8)
        if len(self._heap) < 2 * needed:
            self._heap = np.empty(2 * needed, np.int64)


@njit(nogil=True, cache=True)
def _same(costmap, known):  # type: ignore[no-untyped-def]
    """Say whether two maps are equal; a row at a time, so that it is fast and ends at the first other row."""
    rows, cols = costmap.shape
    for row in range(rows):
        differs = np.uint8(0)
        for col in range(cols):
            differs |= costmap[row, col] ^ known[row, col]
        if differs:
            return False
    return True


@njit(nogil=True, cache=True)
def _is_uniform(costmap, weights):  # type: ignore[no-untyped-def]
    """Say whether all passable cells have one weight."""
    rows, cols = costmap.shape
    seen = 0
    for row in range(rows):
        for col in range(cols):
            weight = weights[costmap[row, col]]
            if weight and weight != seen:
                if seen:
                    return False
                seen = weight
    return True


@njit(nogil=True, cache=True)
def _draw_bits(costmap, passable, across, down):  # type: ignore[no-untyped-def]
    """Set a bit for each impassable cell, by rows and by columns; all that lies beyond the map is impassable."""
    rows, cols = costmap.shape
    across[:] = ~np.uint64(0)
    down[:] = ~np.uint64(0)
    one = np.uint64(1)
    for row in range(rows):
        high = np.uint64((row + 1) & 63)
        for col in range(cols):
            if passable[costmap[row, col]]:
                across[row + 1, (col + 1) >> 6] &= ~(one << np.uint64((col + 1) & 63))
                down[col + 1, (row + 1) >> 6] &= ~(one << high)


@njit(nogil=True, cache=True)
def _draw_stops(blocked, stops_up, stops_down):  # type: ignore[no-untyped-def]
    """Set a bit where a scan along a line ends, towards higher bits and towards lower ones.

    That is at an impassable cell, and where the cell beside is free while the one before it was not.
    """
    lines, words = blocked.shape
    one, top = np.uint64(1), np.uint64(63)
    full = ~np.uint64(0)
    for line in range(lines):
        for word in range(words):
            up = down = blocked[line, word]
            for other in (line - 1, line + 1):
                if 0 <= other < lines:
                    beside = blocked[other, word]
                    before = blocked[other, word - 1] if word > 0 else full
                    after = blocked[other, word + 1] if word + 1 < words else full
                    up |= ~beside & ((beside << one) | (before >> top))
                    down |= ~beside & ((beside >> one) | (after << top))
            stops_up[line, word] = up
            stops_down[line, word] = down


@njit(nogil=True, cache=True)
def _popcount(word):  # type: ignore[no-untyped-def]
    """Return how many bits of a word are set."""
    count = 0
    while word:
        word &= word - np.uint64(1)
        count += 1
    return count


@njit(nogil=True, cache=True)
def _turns(blocked, stops):  # type: ignore[no-untyped-def]
    """Return how many jump points there are per passable cell."""
    points = free = 0
    for line in range(blocked.shape[0]):
        for word in range(blocked.shape[1]):
            free += _popcount(~blocked[line, word])
            points += _popcount(stops[line, word] & ~blocked[line, word])
    return points / max(free, 1)


@njit(nogil=True, cache=True)
def _scan_up(blocked, stops, line, bit, goal_line, goal_bit):  # type: ignore[no-untyped-def]
    """Return the bit of the next jump point, or of the goal, above `bit` in a line, or -1."""
    word = (bit + 1) >> 6
    found = stops[line, word] & (~np.uint64(0) << np.uint64((bit + 1) & 63))
    while found == 0:
        word += 1
        found = stops[line, word]
    stop = (word << 6) + np.int64(_trailing_zeros(found))
    if line == goal_line and bit < goal_bit <= stop:
        return goal_bit
    if (blocked[line, stop >> 6] >> np.uint64(stop & 63)) & np.uint64(1):
        return -1
    return stop


@njit(nogil=True, cache=True)
def _scan_down(blocked, stops, line, bit, goal_line, goal_bit):  # type: ignore[no-untyped-def]
    """Return the bit of the next jump point, or of the goal, below `bit` in a line, or -1."""
    word = (bit - 1) >> 6
    found = stops[line, word] & (~np.uint64(0) >> np.uint64(63 - ((bit - 1) & 63)))
    while found == 0:
        word -= 1
        found = stops[line, word]
    stop = (word << 6) + 63 - np.int64(_leading_zeros(found))
    if line == goal_line and stop <= goal_bit < bit:
        return goal_bit
    if (blocked[line, stop >> 6] >> np.uint64(stop & 63)) & np.uint64(1):
        return -1
    return stop


@njit(nogil=True, cache=True)
def _is_blocked(across, row, col):  # type: ignore[no-untyped-def]
    return (across[row, col >> 6] >> np.uint64(col & 63)) & np.uint64(1) != 0


@njit(nogil=True, cache=True)
def _push(heap, count, item):  # type: ignore[no-untyped-def]
    """Put an item into a binary heap of `count`."""
    at = count
    while at > 0:
        above = (at - 1) >> 1
        if heap[above] <= item:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = item


@njit(nogil=True, cache=True)
def _pop(heap, count):  # type: ignore[no-untyped-def]
    """Take the least item out of a binary heap of `count`."""
    least = heap[0]
    last = heap[count - 1]
    size = count - 1
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= last:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = last
    return least


@njit(nogil=True, cache=True)
def _octile(rows, cols):  # type: ignore[no-untyped-def]
    return STRAIGHT * max(rows, cols) + (DIAGONAL - STRAIGHT) * min(rows, cols)


@njit(nogil=True, cache=True)
def _offer(  # type: ignore[no-untyped-def]
    row, col, total, way, parent_cell, cols, goal_row, goal_col, goal, g, parent, explored, trail, heap, state
):  # fmt: skip
    """Give a jump point a length, and an entry in the queue, if that is no more than what it has."""
    cell = row * cols + col
    known = g[cell]
    ahead = _octile(abs(row - goal_row), abs(col - goal_col))
    if total <= known and (total + ahead < g[goal] or g[goal] == _INFINITY):
        if known == _INFINITY:
            trail[state[_TOUCHED]] = cell
            state[_TOUCHED] += 1
        if total < known:
            g[cell] = total
            parent[cell] = parent_cell
            explored[cell] = 0
        _push(heap, state[_QUEUED], ((total + ahead) << 33) | (cell << 2) | way)
        state[_QUEUED] += 1


@njit(nogil=True, cache=True)
def _expand(  # type: ignore[no-untyped-def]
    across, down, stops_east, stops_west, stops_north, stops_south, g, parent, explored, trail, heap, state,
    start, goal, budget, cancel
):  # fmt: skip
    """Expand jump points until the goal's length is final or none is left."""
    rows, cols = across.shape[0], down.shape[0]
    room = 8 * (rows + cols)  # most entries that one expansion adds
    goal_row, goal_col = goal // cols, goal % cols
    if state[_TOUCHED] == 0:
        g[start] = 0
        parent[start] = start
        explored[start] = 0
        trail[0] = start
        state[_TOUCHED] = 1
        rest = _octile(abs(start // cols - goal_row), abs(start % cols - goal_col))
        heap[0] = (rest << 33) | (start << 2)
        state[_QUEUED] = 1
    while state[_QUEUED] > 0:
        if state[_EXPANDED] >= budget:
            return PAUSED
        if state[_EXPANDED] % _CHECK_EVERY == 0 and cancel[0]:
            return CANCELLED
        if state[_QUEUED] + room > heap.size:
            return FULL
        item = _pop(heap, state[_QUEUED])
        state[_QUEUED] -= 1
        bound, cell, way = item >> 33, (item >> 2) & (2**31 - 1), item & 3
        if bound >= g[goal]:
            return FOUND
        row, col = cell // cols, cell % cols
        here = np.int64(g[cell])
        if bound != here + _octile(abs(row - goal_row), abs(col - goal_col)):
            continue
        # Which of the eight ways to look along: bits 0-3 straight, 4-7 diagonal from bit i towards bit i + 1.
        wanted: Any = 0
        if cell == start:
            wanted = 255
        else:
            wanted = 1 << way
            back_row = row - (way == _NORTH) + (way == _SOUTH)
            back_col = col - (way == _EAST) + (way == _WEST)
            for side in range(4):
                if (side + way) & 1 == 0:
                    continue
                side_row = (side == _NORTH) - (side == _SOUTH)
                side_col = (side == _EAST) - (side == _WEST)
                if _is_blocked(across, row + side_row, col + side_col):
                    continue
                if _is_blocked(across, back_row + side_row, back_col + side_col):
                    wanted |= 1 << side
                    turn = way if (way + 1) & 3 == side else side
                    wanted |= 16 << turn
        wanted &= ~np.int64(explored[cell])
        if wanted == 0:
            continue
        explored[cell] |= np.uint8(wanted)
        state[_EXPANDED] += 1
        for turn in range(-1, 4):
            if turn >= 0 and not wanted & (16 << turn):
                continue
            other = (turn + 1) & 3
            row_step = (
                0
                if turn < 0
                else (turn == _NORTH or other == _NORTH) - (turn == _SOUTH or other == _SOUTH)
            )
            col_step = (
                0
                if turn < 0
                else (turn == _EAST or other == _EAST) - (turn == _WEST or other == _WEST)
            )
            ways = wanted & 15 if turn < 0 else (1 << turn) | (1 << other)
            at_row, at_col = row, col
            total: Any = here
            while True:
                if turn >= 0:
                    if (
                        _is_blocked(across, at_row + row_step, at_col)
                        or _is_blocked(across, at_row, at_col + col_step)
                        or _is_blocked(across, at_row + row_step, at_col + col_step)
                    ):
                        break
                    at_row += row_step
                    at_col += col_step
                    total += DIAGONAL
                    if at_row == goal_row and at_col == goal_col:
                        _offer(
                            at_row, at_col, total, 0, cell, cols, goal_row, goal_col, goal,
                            g, parent, explored, trail, heap, state,
                        )  # fmt: skip
                        break
                if ways & 1:
                    to = _scan_up(across, stops_east, at_row, at_col, goal_row, goal_col)
                    if to >= 0:
                        _offer(
                            at_row, to, total + STRAIGHT * (to - at_col), _EAST, cell, cols, goal_row, goal_col,
                            goal, g, parent, explored, trail, heap, state,
                        )  # fmt: skip
                if ways & 2:
                    to = _scan_up(down, stops_north, at_col, at_row, goal_col, goal_row)
                    if to >= 0:
                        _offer(
                            to, at_col, total + STRAIGHT * (to - at_row), _NORTH, cell, cols, goal_row, goal_col,
                            goal, g, parent, explored, trail, heap, state,
                        )  # fmt: skip
                if ways & 4:
                    to = _scan_down(across, stops_west, at_row, at_col, goal_row, goal_col)
                    if to >= 0:
                        _offer(
                            at_row, to, total + STRAIGHT * (at_col - to), _WEST, cell, cols, goal_row, goal_col,
                            goal, g, parent, explored, trail, heap, state,
                        )  # fmt: skip
                if ways & 8:
                    to = _scan_down(down, stops_south, at_col, at_row, goal_col, goal_row)
                    if to >= 0:
                        _offer(
                            to, at_col, total + STRAIGHT * (at_row - to), _SOUTH, cell, cols, goal_row, goal_col,
                            goal, g, parent, explored, trail, heap, state,
                        )  # fmt: skip
                if turn < 0:
                    break
    return FOUND if g[goal] < _INFINITY else EXHAUSTED


@njit(nogil=True, cache=True)
def _draw_path(parent, stride, start, goal, cells):  # type: ignore[no-untyped-def]
    """Fill `cells` (N, 2) from the start to the goal, if they are as many as the path's, and return how many it has.

    A jump leads diagonally first, then straight.
    """
    count = 1
    cell = goal
    while cell != start:
        before = np.int64(parent[cell])
        count += max(abs(cell // stride - before // stride), abs(cell % stride - before % stride))
        cell = before
    if count != len(cells):
        return count
    at = count - 1
    cell = goal
    while cell != start:
        before = np.int64(parent[cell])
        row, col = cell // stride, cell % stride
        row_from, col_from = before // stride, before % stride
        drow, dcol = row - row_from, col - col_from
        length, diagonal = max(abs(drow), abs(dcol)), min(abs(drow), abs(dcol))
        for i in range(length, 0, -1):
            cells[at, 0] = (
                row_from + np.sign(drow) * (i if abs(drow) == length else min(i, diagonal)) - 1
            )
            cells[at, 1] = (
                col_from + np.sign(dcol) * (i if abs(dcol) == length else min(i, diagonal)) - 1
            )
            at -= 1
        cell = before
    cells[0, 0] = start // stride - 1
    cells[0, 1] = start % stride - 1
    return count


@njit(nogil=True, cache=True)
def _forget(g, cells):  # type: ignore[no-untyped-def]
    for cell in cells:
        g[cell] = _INFINITY
