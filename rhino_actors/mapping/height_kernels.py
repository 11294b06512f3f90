"""Numba kernels of the height cost: columns to stacks, stacks to ground, ground to steps, slopes and islands.

Each kernel works on a window of the grid and reads a known number of cells beyond it, so a change needs work only
around itself and the result is that of a whole run. Heights are levels of the voxel map: whole numbers.
"""

import math

import numba
import numpy as np
from numpy.typing import NDArray

from rhino_actors.mapping.voxel_kernels import (
    BASE_LEVEL,
    LEVELS,
    NONE,
    SIDE,
    Store,
    find_tile,
    lowest_bit,
)

NOTHING = -32768  # no stack
ABYSS = 32767  # no ground known near
_MAX_BRICKS_ABOVE = 64  # of one column that are looked at
_MAX_HEIGHT = 500  # bricks above or below z = 0 that a level of 16 bits can say

# What is known of a cell.
UNSEEN, GROUND, BLOCKED, INFERRED = 0, 1, 2, 3
# Costs: up to PASSABLE the robot can go; LETHAL it cannot; BRINK is lethal ground beside something lower.
UNKNOWN, PASSABLE, LETHAL, BRINK = -1, 64, 100, 101

_SUPPORT = 3  # columns of like height that a surface needs around it to be ground for others
_SUPPORT_RADIUS = 2
_ONE = np.uint64(1)

Window = tuple[int, int, int, int]


@numba.njit(nogil=True, cache=True)
def find_stacks(
    store: Store,
    window: Window,
    corner: tuple[int, int],
    gap: int,
    stacks: NDArray[np.int16],
) -> Window:
    """Find the two lowest stacks of each column: voxels with gaps between them that the robot cannot pass.

    Args:
        store: of the voxel map.
        window: row0, row1, col0, col1 of the grid.
        corner: row and col in the world of grid cell (0, 0), multiples of SIDE.
        gap: empty levels that the robot passes.
        stacks: (rows, cols, 4) set in the window: bottom and top of the lowest, then of the next.

    Returns:
        The part of the window in which a stack changed.
    """
    chain = np.empty(_MAX_BRICKS_ABOVE, np.int64)
    row_low, row_high, col_low, col_high = window[1], window[0] - 1, window[3], window[2] - 1
    for tr in range(window[0] // SIDE, (window[1] + SIDE - 1) // SIDE):
        for tc in range(window[2] // SIDE, (window[3] + SIDE - 1) // SIDE):
            length = 0
            b = find_tile(store, corner[1] // SIDE + tc, corner[0] // SIDE + tr)
            while b != NONE and length < _MAX_BRICKS_ABOVE:
                if abs(store.place[b, 2]) <= _MAX_HEIGHT:
                    i = length
                    while i > 0 and store.place[chain[i - 1], 2] > store.place[b, 2]:
                        chain[i] = chain[i - 1]
                        i -= 1
                    chain[i] = b
                    length += 1
                b = store.above[b]
            for r in range(max(window[0], tr * SIDE), min(window[1], (tr + 1) * SIDE)):
                for c in range(max(window[2], tc * SIDE), min(window[3], (tc + 1) * SIDE)):
                    column = ((r & 15) << 4) | (c & 15)
                    b0, t0, b1, t1 = NOTHING, NOTHING, NOTHING, NOTHING
                    bottom, top = NOTHING, NOTHING
                    done = 0
                    for i in range(length):
                        word = store.words[chain[i], column]
                        base = store.place[chain[i], 2] * LEVELS - BASE_LEVEL
                        while word != 0 and done < 2:
                            low = lowest_bit(word)
                            rest = ~(word >> np.uint64(low))
                            run = lowest_bit(rest) if rest != 0 else LEVELS
                            run = min(run, LEVELS - low)
                            level = base + low
                            if bottom == NOTHING:
                                bottom = level
                            elif level - top > gap:
                                if done == 0:
                                    b0, t0 = bottom, top
                                else:
                                    b1, t1 = bottom, top
                                done += 1
                                bottom = level
                            top = level + run - 1
                            if low + run >= LEVELS:
                                word = np.uint64(0)
                            else:
                                word = (word >> np.uint64(low + run)) << np.uint64(low + run)
                        if done == 2:
                            break
                    if done == 0:
                        b0, t0 = bottom, top
                    elif done == 1:
                        b1, t1 = bottom, top
                    cell = stacks[r, c]
                    if cell[0] != b0 or cell[1] != t0 or cell[2] != b1 or cell[3] != t1:
                        cell[0], cell[1], cell[2], cell[3] = b0, t0, b1, t1
                        row_low, row_high = min(row_low, r), max(row_high, r)
                        col_low, col_high = min(col_low, c), max(col_high, c)
    return row_low, row_high + 1, col_low, col_high + 1


@numba.njit(nogil=True, cache=True)
def find_ground(
    window: Window,
    stacks: NDArray[np.int16],
    like: int,
    radius: int,
    gap: int,
    climb: int,
    kind: NDArray[np.uint8],
    span: NDArray[np.int16],
) -> Window:
    """Decide for each column whether it is ground, blocked or tells nothing.

    The local ground is the lowest surface around that others support. What hangs as high above it as the robot
    needs tells nothing of the ground; what lies below it is a reflection.

    Args:
        window: of the grid; reads `radius` + 2 cells beyond.
        stacks: (rows, cols, 4) as `find_stacks` sets it.
        like: levels between surfaces that support one another.
        radius: cells around in which the local ground is looked for.
        gap: empty levels that the robot passes.
        climb: levels; a stack this high is blocked.
        kind: (rows, cols) set in the window: UNSEEN, GROUND or BLOCKED.
        span: (rows, cols, 2) set in the window: bottom and top of what was found.

    Returns:
        The part of the window in which something changed.
    """
    rows, cols = kind.shape
    r0, r1 = max(0, window[0] - radius), min(rows, window[1] + radius)
    c0, c1 = max(0, window[2] - radius), min(cols, window[3] + radius)
    height, width = r1 - r0, c1 - c0
    # Surfaces that hold, with a margin that never wins.
    surface = np.full((height, width + 2 * radius), ABYSS, np.int16)
    for r in range(r0, r1):
        for c in range(c0, c1):
            top = stacks[r, c, 1]
            if top == NOTHING:
                continue
            support = 0
            for rr in range(max(0, r - _SUPPORT_RADIUS), min(rows, r + _SUPPORT_RADIUS + 1)):
                for cc in range(max(0, c - _SUPPORT_RADIUS), min(cols, c + _SUPPORT_RADIUS + 1)):
                    support += abs(stacks[rr, cc, 1] - top) <= like
                if support > _SUPPORT:  # itself is one
                    break
            if support > _SUPPORT:
                surface[r - r0, c - c0 + radius] = top
    lowest = np.empty((height, width), np.int16)
    for r in range(height):
        line, out = surface[r], lowest[r]
        for c in range(width):
            out[c] = line[c]
        for k in range(1, 2 * radius + 1):
            shifted = line[k:]
            for c in range(width):
                out[c] = shifted[c] if shifted[c] < out[c] else out[c]
    row_low, row_high, col_low, col_high = window[1], window[0] - 1, window[3], window[2] - 1
    floor = np.empty(width, np.int16)
    for r in range(window[0], window[1]):
        floor[:] = ABYSS
        for k in range(max(0, r - radius - r0), min(height, r + radius + 1 - r0)):
            line = lowest[k]
            for c in range(width):
                floor[c] = line[c] if line[c] < floor[c] else floor[c]
        for c in range(window[2], window[3]):
            ground = int(floor[c - c0])
            bottom, top = int(stacks[r, c, 0]), int(stacks[r, c, 1])
            what = UNSEEN
            if ground != ABYSS and top != NOTHING and top < ground - 1:
                bottom, top = int(stacks[r, c, 2]), int(stacks[r, c, 3])
            if top != NOTHING:
                if ground == ABYSS:
                    what = BLOCKED if top - bottom >= climb else GROUND
                elif bottom - ground <= gap:
                    bottom = max(bottom, ground - 1)
                    what = BLOCKED if top - bottom >= climb else GROUND
            if what == UNSEEN:
                bottom, top = NOTHING, NOTHING
            before = kind[r, c] if kind[r, c] != INFERRED else UNSEEN
            if before != what or span[r, c, 0] != bottom or span[r, c, 1] != top:
                kind[r, c] = what
                span[r, c, 0], span[r, c, 1] = bottom, top
                row_low, row_high = min(row_low, r), max(row_high, r)
                col_low, col_high = min(col_low, c), max(col_high, c)
    return row_low, row_high + 1, col_low, col_high + 1


@numba.njit(nogil=True, cache=True)
def smooth_ground(
    window: Window,
    kind: NDArray[np.uint8],
    span: NDArray[np.int16],
    weights: NDArray[np.float32],
    noise: int,
    level: float,
    height: NDArray[np.float32],
) -> None:
    """Set the height [m] of ground: the mean with neighbours that differ by no more than noise, so edges stay sharp.

    Args:
        window: of the grid; reads the weights' radius beyond.
        kind: (rows, cols).
        span: (rows, cols, 2).
        weights: (2 k + 1, 2 k + 1).
        noise: levels.
        level: height of one [m].
        height: (rows, cols) set in the window where there is ground.
    """
    rows, cols = kind.shape
    k = weights.shape[0] // 2
    for r in range(window[0], window[1]):
        for c in range(window[2], window[3]):
            if kind[r, c] != GROUND:
                continue
            top = span[r, c, 1]
            total, weight = np.float32(0.0), np.float32(0.0)
            for rr in range(max(0, r - k), min(rows, r + k + 1)):
                for cc in range(max(0, c - k), min(cols, c + k + 1)):
                    off = span[rr, cc, 1] - top
                    if kind[rr, cc] == GROUND and abs(off) <= noise:
                        w = weights[rr - r + k, cc - c + k]
                        total += w * np.float32(off)
                        weight += w
            height[r, c] = np.float32(level) * (np.float32(top) + total / weight)


@numba.njit(nogil=True, cache=True)
def find_steps(
    window: Window,
    kind: NDArray[np.uint8],
    height: NDArray[np.float32],
    noise: float,
    limits: NDArray[np.float32],
    step: NDArray[np.int8],
) -> None:
    """Set the cost of stepping down from each cell; across unseen cells it counts too.

    Args:
        window: of the grid; reads as many cells beyond as there are limits.
        kind: (rows, cols); INFERRED counts as unseen.
        height: (rows, cols) of ground [m].
        noise: steps up to this [m] are none.
        limits: step [m] that is lethal, by distance in cells less one.
        step: (rows, cols) set in the window: UNKNOWN where not seen, LETHAL where blocked, BRINK at a step beyond
            the limit, else up to PASSABLE.
    """
    rows, cols = kind.shape
    reach = limits.size
    for r in range(window[0], window[1]):
        for c in range(window[2], window[3]):
            what = kind[r, c]
            if what != GROUND:
                step[r, c] = LETHAL if what == BLOCKED else UNKNOWN
                continue
            here = height[r, c]
            worst = np.float32(0.0)
            for dr in range(-1, 2):
                for dc in range(-1, 2):
                    if dr == 0 and dc == 0:
                        continue
                    rr, cc = r + dr, c + dc
                    for k in range(reach):
                        if not (0 <= rr < rows and 0 <= cc < cols):
                            break
                        other = kind[rr, cc]
                        if other == GROUND:
                            drop = here - height[rr, cc]
                            if drop > noise:
                                worst = max(worst, drop / limits[k])
                            break
                        if other == BLOCKED:
                            break
                        rr += dr
                        cc += dc
            if worst >= np.float32(0.9999):
                step[r, c] = BRINK
            else:
                step[r, c] = np.int8(worst * PASSABLE + np.float32(0.5))


@numba.njit(nogil=True, cache=True)
def infer_ground(
    window: Window,
    reach: int,
    noise: float,
    limits: NDArray[np.float32],
    kind: NDArray[np.uint8],
    height: NDArray[np.float32],
    step: NDArray[np.int8],
) -> None:
    """Fill small holes: unseen cells with passable ground near on both sides, along two lines or more.

    Args:
        window: of the grid; reads `reach` cells beyond, and of these only what was seen.
        reach: cells [0: fill nothing].
        noise: as for `find_steps`.
        limits: the same.
        kind: (rows, cols) changed in the window: UNSEEN and INFERRED.
        height: (rows, cols) set in the window where inferred [m].
        step: (rows, cols) as `find_steps` sets it; set in the window where inferred.
    """
    rows, cols = kind.shape
    for r in range(window[0], window[1]):
        for c in range(window[2], window[3]):
            what = kind[r, c]
            if what == GROUND or what == BLOCKED:
                continue
            lines, total, worst = 0, np.float32(0.0), np.float32(0.0)
            for line in range(4):
                dr, dc = (0, 1, 1, 1)[line], (1, 0, 1, -1)[line]
                found, low, high, apart = 0, np.float32(0.0), np.float32(0.0), 0
                for side in range(-1, 2, 2):
                    for k in range(1, reach + 1):
                        rr, cc = r + side * k * dr, c + side * k * dc
                        if not (0 <= rr < rows and 0 <= cc < cols):
                            break
                        other = kind[rr, cc]
                        if other == GROUND or other == BLOCKED:
                            if step[rr, cc] <= PASSABLE:
                                h = height[rr, cc]
                                low = min(low, h) if found else h
                                high = max(high, h) if found else h
                                found += 1
                                apart += k
                            break
                if found == 2:
                    ratio = (high - low) / limits[min(apart, limits.size) - 1]
                    if ratio < np.float32(0.9999):
                        lines += 1
                        total += np.float32(0.5) * (low + high)
                        if high - low > noise:
                            worst = max(worst, ratio)
            if lines >= 2:
                kind[r, c] = INFERRED
                height[r, c] = total / np.float32(lines)
                step[r, c] = np.int8(worst * PASSABLE + np.float32(0.5))
            else:
                kind[r, c] = UNSEEN
                step[r, c] = UNKNOWN


@numba.njit(nogil=True, cache=True, inline="always")
def _linked(
    kind: NDArray[np.uint8],
    height: NDArray[np.float32],
    r: int,
    c: int,
    rr: int,
    cc: int,
    climb: float,
) -> bool:
    if not (kind[r, c] & 1 and kind[rr, cc] & 1):  # GROUND and INFERRED are the odd ones
        return False
    return abs(height[r, c] - height[rr, cc]) < climb


@numba.njit(nogil=True, cache=True)
def find_slopes(
    window: Window,
    kind: NDArray[np.uint8],
    height: NDArray[np.float32],
    step: NDArray[np.int8],
    reach: int,
    resolution: float,
    noise: float,
    climb: float,
    steepest: float,
    cost: NDArray[np.int8],
) -> None:
    """Add to the cost of steps that of slopes, measured over up to `reach` cells of joined ground on each side.

    Args:
        window: of the grid; reads `reach` cells beyond.
        kind: (rows, cols).
        height: (rows, cols) of ground [m].
        step: (rows, cols) costs.
        reach: cells.
        resolution: cell edge [m].
        noise: a rise up to this [m] over the length measured is none.
        climb: a rise from cell to cell of this [m] ends the ground that is joined.
        steepest: rise over run that is lethal.
        cost: (rows, cols) set in the window.
    """
    rows, cols = kind.shape
    width = window[3] - window[2]
    # Joined cells below each cell of the row, and above it: counted on from row to row.
    below = np.zeros(width, np.int64)
    for c in range(width):
        k = 0
        while (
            k < reach
            and window[0] - k - 1 >= 0
            and _linked(
                kind, height, window[0] - k, window[2] + c, window[0] - k - 1, window[2] + c, climb
            )
        ):
            k += 1
        below[c] = k
    above = np.zeros(width, np.int64)
    for r in range(window[0], window[1]):
        left = 0
        while (
            left < reach
            and window[2] - left - 1 >= 0
            and _linked(kind, height, r, window[2] - left, r, window[2] - left - 1, climb)
        ):
            left += 1
        right = 0
        for c in range(window[2], window[3]):
            w = c - window[2]
            if w > 0:
                left = min(reach, left + 1) if _linked(kind, height, r, c - 1, r, c, climb) else 0
                right = max(0, right - 1)
            while (
                right < reach
                and c + right + 1 < cols
                and _linked(kind, height, r, c + right, r, c + right + 1, climb)
            ):
                right += 1
            if r > window[0]:
                if _linked(kind, height, r - 1, c, r, c, climb):
                    below[w] = min(reach, below[w] + 1)
                else:
                    below[w] = 0
                above[w] = max(0, above[w] - 1)
            while (
                above[w] < reach
                and r + above[w] + 1 < rows
                and _linked(kind, height, r + above[w], c, r + above[w] + 1, c, climb)
            ):
                above[w] += 1
            worth = step[r, c]
            if 0 <= worth <= PASSABLE:
                square = 0.0
                for axis in range(2):
                    if axis == 0:
                        run, rise = left + right, height[r, c + right] - height[r, c - left]
                    else:
                        run = above[w] + below[w]
                        rise = height[r + above[w], c] - height[r - below[w], c]
                    if run >= reach and abs(rise) > noise:
                        slope = rise / (run * resolution)
                        square += slope * slope
                if square > 0.0:
                    ratio = math.sqrt(square) / steepest
                    worth = LETHAL if ratio >= 1.0 else max(worth, np.int8(ratio * PASSABLE + 0.5))
            cost[r, c] = worth


@numba.njit(nogil=True, cache=True)
def find_rims(
    window: Window,
    kind: NDArray[np.uint8],
    span: NDArray[np.int16],
    height: NDArray[np.float32],
    cost: NDArray[np.int8],
    level: float,
    climb: float,
    rim: NDArray[np.uint8],
) -> None:
    """Mark passable cells beside an edge that falls away from their own height.

    Args:
        window: of the grid; reads 1 cell beyond.
        kind: (rows, cols).
        span: (rows, cols, 2).
        height: (rows, cols) [m].
        cost: (rows, cols) as `find_slopes` sets it.
        level: height of one [m].
        climb: [m].
        rim: (rows, cols) set in the window: 1 or 0.
    """
    rows, cols = kind.shape
    for r in range(window[0], window[1]):
        for c in range(window[2], window[3]):
            mark = 0
            if 0 <= cost[r, c] <= PASSABLE:
                here = height[r, c]
                for rr in range(max(0, r - 1), min(rows, r + 2)):
                    for cc in range(max(0, c - 1), min(cols, c + 2)):
                        if cost[rr, cc] == BRINK:
                            mark |= abs(height[rr, cc] - here) < climb
                        elif kind[rr, cc] == BLOCKED:
                            top, bottom = level * span[rr, cc, 1], level * span[rr, cc, 0]
                            mark |= abs(top - here) < climb and here - bottom >= climb
            rim[r, c] = mark


@numba.njit(nogil=True, cache=True)
def close_islands(
    window: Window,
    reach: int,
    cost: NDArray[np.int8],
    rim: NDArray[np.uint8],
    marks: NDArray[np.uint8],
    result: NDArray[np.int8],
) -> Window:
    """Make small raised islands lethal: passable cells that are joined, fit in a box and have a rim.

    Args:
        window: of the grid where costs or rims changed.
        reach: largest edge of the box [cells].
        cost: (rows, cols).
        rim: (rows, cols).
        marks: (rows, cols) scratch, 0 all over before and after.
        result: (rows, cols) the final cost; set in the window and up to `reach` cells beyond.

    Returns:
        The window in which the final cost changed.
    """
    rows, cols = cost.shape
    r0, r1 = max(0, window[0] - reach), min(rows, window[1] + reach)
    c0, c1 = max(0, window[2] - reach), min(cols, window[3] + reach)
    before = result[r0:r1, c0:c1].copy()
    for r in range(r0, r1):
        for c in range(c0, c1):
            result[r, c] = min(cost[r, c], LETHAL)
    small, big = np.uint8(1), np.uint8(2)
    stack = np.empty((4 * (reach + 2) * (reach + 2), 2), np.int32)
    visited = [(0, 0)]
    visited.clear()
    for sr in range(max(0, r0 - reach), min(rows, r1 + reach)):
        for sc in range(max(0, c0 - reach), min(cols, c1 + reach)):
            if rim[sr, sc] == 0 or marks[sr, sc] != 0:
                continue
            first = len(visited)
            low_r, high_r, low_c, high_c = sr, sr, sc, sc
            stack[0, 0], stack[0, 1] = sr, sc
            depth = 1
            marks[sr, sc] = small
            visited.append((sr, sc))
            is_big = False
            while depth > 0 and not is_big:
                depth -= 1
                r, c = stack[depth, 0], stack[depth, 1]
                for k in range(4):
                    rr, cc = r + (1, -1, 0, 0)[k], c + (0, 0, 1, -1)[k]
                    if not (0 <= rr < rows and 0 <= cc < cols):
                        continue
                    if not 0 <= cost[rr, cc] <= PASSABLE:
                        continue
                    if marks[rr, cc] == big:
                        is_big = True
                        break
                    if marks[rr, cc] == small:
                        continue
                    low_r, high_r = min(low_r, rr), max(high_r, rr)
                    low_c, high_c = min(low_c, cc), max(high_c, cc)
                    if high_r - low_r >= reach or high_c - low_c >= reach:
                        is_big = True
                        break
                    marks[rr, cc] = small
                    visited.append((rr, cc))
                    stack[depth, 0], stack[depth, 1] = rr, cc
                    depth += 1
            for i in range(first, len(visited)):
                r, c = visited[i]
                if is_big:
                    marks[r, c] = big
                elif r0 <= r < r1 and c0 <= c < c1:
                    result[r, c] = LETHAL
    for i in range(len(visited)):
        marks[visited[i][0], visited[i][1]] = 0
    row_low, row_high, col_low, col_high = r1, r0 - 1, c1, c0 - 1
    for r in range(r0, r1):
        for c in range(c0, c1):
            if result[r, c] != before[r - r0, c - c0]:
                row_low, row_high = min(row_low, r), max(row_high, r)
                col_low, col_high = min(col_low, c), max(col_high, c)
    return row_low, row_high + 1, col_low, col_high + 1
