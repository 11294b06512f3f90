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
    bits_set,
    find_tile,
    lowest_bit,
)

NOTHING = -32768  # no stack
ABYSS = 32767  # no ground known near
_MAX_BRICKS_ABOVE = 64  # of one column that are looked at
_MAX_HEIGHT = 500  # bricks above or below z = 0 that a level of 16 bits can say

# What is known of a cell.
UNSEEN, GROUND, BLOCKED, INFERRED = 0, 1, 2, 3
LEVEL, QUIET = 1, 2
# Costs: up to PASSABLE the robot can go; LETHAL it cannot; BRINK is lethal ground beside something lower.
UNKNOWN, PASSABLE, LETHAL, BRINK = -1, 64, 100, 101

_SUPPORT = 3  # columns of like height that a surface needs around it to be ground for others
_SUPPORT_RADIUS = 2
_ONE = np.uint64(1)

Window = tuple[int, int, int, int]
# Four arrays (rows, cols): bottom and top of the lowest stack, then of the next; levels, or NOTHING.
Stacks = tuple[NDArray[np.int16], NDArray[np.int16], NDArray[np.int16], NDArray[np.int16]]


@numba.njit(nogil=True, cache=True)
def find_stacks(
    store: Store,
    window: Window,
    corner: tuple[int, int],
    gap: int,
    stacks: Stacks,
    hung: NDArray[np.uint8],
) -> Window:
    """Find the two lowest stacks of each column: voxels with gaps between them that the robot cannot pass.

    Args:
        store: of the voxel map.
        window: row0, row1, col0, col1 of the grid.
        corner: row and col in the world of grid cell (0, 0), multiples of SIDE.
        gap: empty levels that the robot passes.
        stacks: set in the window.
        hung: (rows, cols) set in the window: 1 where the lowest stack begins above the sensor that saw it, so that
            its top cannot have been seen as ground.

    Returns:
        The part of the window in which a stack changed.
    """
    bottoms, tops, next_bottoms, next_tops = stacks
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
                    done, hangs = 0, 0
                    for i in range(length):
                        word = store.words[chain[i], column]
                        base = store.place[chain[i], 2] * LEVELS - BASE_LEVEL
                        while word != 0 and done < 2:
                            lowest = word & (~word + _ONE)
                            above = word & (word + lowest)  # without its lowest run
                            level = base + lowest_bit(word)
                            if bottom == NOTHING:
                                bottom = level
                                hangs = 1 if level > store.eye[chain[i]] else 0
                            elif level - top > gap:
                                if done == 0:
                                    b0, t0 = bottom, top
                                else:
                                    b1, t1 = bottom, top
                                done += 1
                                bottom = level
                            top = level + bits_set(word ^ above) - 1
                            word = above
                        if done == 2:
                            break
                    if done == 0:
                        b0, t0 = bottom, top
                    elif done == 1:
                        b1, t1 = bottom, top
                    if (
                        bottoms[r, c] != b0
                        or tops[r, c] != t0
                        or next_bottoms[r, c] != b1
                        or next_tops[r, c] != t1
                        or hung[r, c] != hangs
                    ):
                        hung[r, c] = hangs
                        bottoms[r, c], tops[r, c] = b0, t0
                        next_bottoms[r, c], next_tops[r, c] = b1, t1
                        row_low, row_high = min(row_low, r), max(row_high, r)
                        col_low, col_high = min(col_low, c), max(col_high, c)
    return row_low, row_high + 1, col_low, col_high + 1


@numba.njit(nogil=True, cache=True)
def find_ground(
    window: Window,
    stacks: Stacks,
    hung: NDArray[np.uint8],
    like: int,
    radius: int,
    gap: int,
    climb: int,
    kind: NDArray[np.uint8],
    bottom: NDArray[np.int16],
    top: NDArray[np.int16],
) -> Window:
    """Decide for each column whether it is ground, blocked or tells nothing.

    The local ground is the lowest surface around that others support. What hangs as high above it as the robot
    needs, or above the sensor where no ground is known, tells nothing of the ground; what lies below is a reflection.

    Args:
        window: of the grid; reads `radius` + 2 cells beyond.
        stacks: as `find_stacks` sets them.
        hung: (rows, cols) likewise.
        like: levels between surfaces that support one another.
        radius: cells around in which the local ground is looked for.
        gap: empty levels that the robot passes.
        climb: levels; a stack this high is blocked.
        kind: (rows, cols) set in the window: UNSEEN, GROUND or BLOCKED.
        bottom: (rows, cols) set in the window: the lowest level of what was found, or NOTHING.
        top: (rows, cols) the highest, likewise.

    Returns:
        The part of the window in which something changed.
    """
    bottoms, tops, next_bottoms, next_tops = stacks
    rows, cols = kind.shape
    r0, r1 = max(0, window[0] - radius), min(rows, window[1] + radius)
    c0, c1 = max(0, window[2] - radius), min(cols, window[3] + radius)
    height, width = r1 - r0, c1 - c0
    # Surfaces that hold, with a margin that never wins.
    surface = np.full((height, width + 2 * radius), ABYSS, np.int16)
    for r in range(r0, r1):
        for c in range(c0, c1):
            here = int(tops[r, c])
            if here == NOTHING or hung[r, c]:
                continue
            support = 0
            for rr in range(max(0, r - _SUPPORT_RADIUS), min(rows, r + _SUPPORT_RADIUS + 1)):
                for cc in range(max(0, c - _SUPPORT_RADIUS), min(cols, c + _SUPPORT_RADIUS + 1)):
                    support += abs(int(tops[rr, cc]) - here) <= like
                if support > _SUPPORT:  # itself is one
                    break
            if support > _SUPPORT:
                surface[r - r0, c - c0 + radius] = here
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
            low, high = int(bottoms[r, c]), int(tops[r, c])
            what = UNSEEN
            if ground != ABYSS and high != NOTHING and high < ground - 1:
                low, high = int(next_bottoms[r, c]), int(next_tops[r, c])
            if high != NOTHING:
                if ground != ABYSS and low - ground <= gap:
                    low = max(low, ground - 1)
                    what = BLOCKED if high - low >= climb else GROUND
                elif ground == ABYSS and not hung[r, c]:
                    what = BLOCKED if high - low >= climb else GROUND
            if what == UNSEEN:
                low, high = NOTHING, NOTHING
            before = kind[r, c] if kind[r, c] != INFERRED else UNSEEN
            if before != what or bottom[r, c] != low or top[r, c] != high:
                kind[r, c] = what
                bottom[r, c], top[r, c] = low, high
                row_low, row_high = min(row_low, r), max(row_high, r)
                col_low, col_high = min(col_low, c), max(col_high, c)
    return row_low, row_high + 1, col_low, col_high + 1


@numba.njit(nogil=True, cache=True)
def smooth_ground(
    window: Window,
    kind: NDArray[np.uint8],
    top: NDArray[np.int16],
    weights: NDArray[np.float32],
    noise: int,
    level: float,
    height: NDArray[np.float32],
) -> None:
    """Set the height [m] of ground: the mean with neighbours that differ by no more than noise, so edges stay sharp.

    Args:
        window: of the grid; reads the weights' radius beyond.
        kind: (rows, cols).
        top: (rows, cols).
        weights: (2 k + 1, 2 k + 1).
        noise: levels.
        level: height of one [m].
        height: (rows, cols) set in the window where there is ground.
    """
    rows, cols = kind.shape
    k = weights.shape[0] // 2
    width = window[3] - window[2]
    far = np.float32(1e6)
    size = np.float32(level)
    bound = np.float32(noise)
    # The tops of the rows around, as floats that differ by more than noise where there is no ground.
    ring = np.empty((2 * k + 1, width + 2 * k), np.float32)
    total = np.empty(width, np.float32)
    weight = np.empty(width, np.float32)
    for r in range(window[0] - k, window[1] + k):
        line = ring[r % (2 * k + 1)]
        line[:] = far
        if 0 <= r < rows:
            for c in range(max(0, window[2] - k), min(cols, window[3] + k)):
                if kind[r, c] == GROUND:
                    line[c - window[2] + k] = np.float32(top[r, c])
        middle = r - k
        if middle < window[0]:
            continue
        here = ring[middle % (2 * k + 1)][k:]
        total[:] = 0.0
        weight[:] = 0.0
        for dr in range(-k, k + 1):
            near = ring[(middle + dr) % (2 * k + 1)]
            for dc in range(2 * k + 1):
                w, other = weights[dr + k, dc], near[dc:]
                for c in range(width):
                    off = other[c] - here[c]
                    part = w if abs(off) <= bound else np.float32(0.0)
                    total[c] += part * off
                    weight[c] += part
        for c in range(width):
            if here[c] != far:
                height[middle, window[2] + c] = size * (here[c] + total[c] / weight[c])


@numba.njit(nogil=True, cache=True)
def find_quiet(
    window: Window,
    kind: NDArray[np.uint8],
    height: NDArray[np.float32],
    reach: int,
    noise: float,
    quiet: NDArray[np.uint8],
) -> None:
    """Mark cells that need no closer look.

    LEVEL: the ground around differs by no more than noise, so there is no slope. QUIET: also something is seen in
    each of the eight directions, so there is no step. Whole rows at a time, as the processor's vectors like it.

    Args:
        window: of the grid; reads `reach` cells beyond.
        kind: (rows, cols); INFERRED counts as unseen.
        height: (rows, cols) of ground [m].
        reach: cells to each side.
        noise: [m].
        quiet: (rows, cols) set in the window: 0, LEVEL or QUIET.
    """
    rows, cols = kind.shape
    width = window[3] - window[2]
    count = 2 * reach + 1
    stop = np.zeros((count, width + 2 * reach), np.uint8)
    floor = np.empty(width + 2 * reach, np.float32)
    roof = np.empty(width + 2 * reach, np.float32)
    low = np.empty((count, width), np.float32)
    high = np.empty((count, width), np.float32)
    lowest = np.empty(width, np.float32)
    highest = np.empty(width, np.float32)
    seen = np.empty(width, np.uint8)
    around = np.empty(width, np.uint8)
    bound = np.float32(noise)
    for r in range(window[0] - reach, window[1] + reach):
        here = stop[r % count]
        here[:] = 0
        floor[:] = np.inf
        roof[:] = -np.inf
        if 0 <= r < rows:
            for c in range(max(0, window[2] - reach), min(cols, window[3] + reach)):
                k = c - window[2] + reach
                if kind[r, c] == GROUND:
                    here[k] = 1
                    floor[k] = roof[k] = height[r, c]
                elif kind[r, c] == BLOCKED:
                    here[k] = 1
        least, most = low[r % count], high[r % count]
        for c in range(width):
            least[c], most[c] = floor[c], roof[c]
        for k in range(1, count):
            near_floor, near_roof = floor[k:], roof[k:]
            for c in range(width):
                least[c] = near_floor[c] if near_floor[c] < least[c] else least[c]
                most[c] = near_roof[c] if near_roof[c] > most[c] else most[c]
        middle = r - reach
        if middle < window[0]:
            continue
        for c in range(width):
            lowest[c], highest[c] = low[0, c], high[0, c]
        for k in range(1, count):
            least, most = low[k], high[k]
            for c in range(width):
                lowest[c] = least[c] if least[c] < lowest[c] else lowest[c]
                highest[c] = most[c] if most[c] > highest[c] else highest[c]
        around[:] = 1
        for dr in range(-1, 2):
            for dc in range(-1, 2):
                if dr == 0 and dc == 0:
                    continue
                seen[:] = 0
                for k in range(1, reach + 1):
                    other = stop[(middle + k * dr) % count][reach + k * dc :]
                    for c in range(width):
                        seen[c] |= other[c]
                for c in range(width):
                    around[c] &= seen[c]
        line = quiet[middle]
        for c in range(width):
            line[window[2] + c] = LEVEL + around[c] if highest[c] - lowest[c] <= bound else 0


@numba.njit(nogil=True, cache=True)
def find_steps(
    window: Window,
    kind: NDArray[np.uint8],
    height: NDArray[np.float32],
    quiet: NDArray[np.uint8],
    noise: float,
    limits: NDArray[np.float32],
    step: NDArray[np.int8],
) -> None:
    """Set the cost of stepping down from each cell; across unseen cells it counts too.

    Args:
        window: of the grid; reads as many cells beyond as there are limits.
        kind: (rows, cols); INFERRED counts as unseen.
        height: (rows, cols) of ground [m].
        quiet: (rows, cols) as `find_quiet` sets it.
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
            if quiet[r, c] == QUIET:
                step[r, c] = 0
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
                if lines + 4 - line < 2:
                    break
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
                    if found == 0:
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
    return bool(abs(height[r, c] - height[rr, cc]) < climb)


@numba.njit(nogil=True, cache=True)
def find_slopes(
    window: Window,
    kind: NDArray[np.uint8],
    height: NDArray[np.float32],
    quiet: NDArray[np.uint8],
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
        quiet: (rows, cols) as `find_quiet` sets it, with a reach that covers this and what inferred ground is made of.
        step: (rows, cols) costs.
        reach: cells.
        resolution: cell edge [m].
        noise: a rise up to this [m] over the length measured is none.
        climb: a rise from cell to cell of this [m] ends the ground that is joined.
        steepest: rise over run that is lethal.
        cost: (rows, cols) set in the window.
    """
    rows, cols = kind.shape
    for r in range(window[0], window[1]):
        for c in range(window[2], window[3]):
            worth = step[r, c]
            if quiet[r, c] >= LEVEL or not 0 <= worth <= PASSABLE:
                cost[r, c] = worth
                continue
            square, rises = 0.0, 0.0
            for axis in range(2):
                dr, dc = axis, 1 - axis
                run, rise = 0, 0.0
                for side in range(-1, 2, 2):
                    rr, cc, k = r, c, 0
                    while k < reach:
                        nr, nc = rr + side * dr, cc + side * dc
                        if not (0 <= nr < rows and 0 <= nc < cols):
                            break
                        if not _linked(kind, height, rr, cc, nr, nc, climb):
                            break
                        rr, cc = nr, nc
                        k += 1
                    run += k
                    rise += side * height[rr, cc]
                if run >= reach:
                    rises += rise * rise
                    slope = rise / (run * resolution)
                    square += slope * slope
            if rises > noise * noise:
                ratio = math.sqrt(square) / steepest
                worth = LETHAL if ratio >= 1.0 else max(worth, np.int8(ratio * PASSABLE + 0.5))
            cost[r, c] = worth


@numba.njit(nogil=True, cache=True)
def find_rims(
    window: Window,
    kind: NDArray[np.uint8],
    bottom: NDArray[np.int16],
    top: NDArray[np.int16],
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
        bottom: (rows, cols).
        top: (rows, cols).
        height: (rows, cols) [m].
        cost: (rows, cols) as `find_slopes` sets it.
        level: height of one [m].
        climb: [m].
        rim: (rows, cols) set in the window: 1 or 0.
    """
    rows, cols = kind.shape
    rim[window[0] : window[1], window[2] : window[3]] = 0
    for r in range(max(0, window[0] - 1), min(rows, window[1] + 1)):
        for c in range(max(0, window[2] - 1), min(cols, window[3] + 1)):
            if cost[r, c] < LETHAL:
                continue
            is_brink = cost[r, c] == BRINK
            if not is_brink and kind[r, c] != BLOCKED:
                continue
            edge = height[r, c] if is_brink else level * top[r, c]
            foot = -np.inf if is_brink else level * bottom[r, c]
            for rr in range(max(window[0], r - 1), min(window[1], r + 2)):
                for cc in range(max(window[2], c - 1), min(window[3], c + 2)):
                    if 0 <= cost[rr, cc] <= PASSABLE:
                        here = height[rr, cc]
                        rim[rr, cc] |= abs(edge - here) < climb and here - foot >= climb


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
