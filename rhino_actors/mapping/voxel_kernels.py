"""Numba kernels of the voxel map: bricks of columns, a bit for each voxel.

A brick is 16 x 16 columns of 64 levels: one 64-bit word per column, indexed row * 16 + col. The bricks above one
another form the chain of a tile, found by a hash table of tiles. Voxel (x, y, z) is the cube from
(x, y, z) * voxel_size; its level is z + 16, so that a floor at z = 0 and what stands on it share a brick.
"""

import math
from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.map_patch import BRICK_BASE, BRICK_LEVELS, BRICK_SIDE

# Columns along a brick's edge, its levels, and that of the voxel whose lower face is z = 0: as bricks are published.
SIDE, LEVELS, BASE_LEVEL = BRICK_SIDE, BRICK_LEVELS, BRICK_BASE
COLUMNS = SIDE * SIDE
NONE = -1
HIGH = 1 << 30  # an eye above everything
# A coordinate that float32 cannot tell from a voxel's edge lies on the edge, relative to its size in voxels.
_EDGE = 6.1e-8
_STEEP = 2.0  # voxels that a beam must go down for a return to be a floor's
_GRAZE = 1.5  # voxels above the return in which such a beam grazes
_EYE_MOVED = 4  # levels; a walking robot's sensor goes up and down by less
_MAX_INDEX = 1 << 30  # voxels from the origin along an axis
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_TOP = np.uint64(LEVELS - 1)


class Store(NamedTuple):
    """The arrays of a voxel map. The first `counts[0]` bricks and `counts[1]` tiles are in use."""

    words: NDArray[np.uint64]  # (bricks, COLUMNS) a bit for each level
    # The same: voxels that the last look went through; no bricks when not needed.
    doubt: NDArray[np.uint64]
    place: NDArray[np.int32]  # (bricks, 3) tile x, tile y, height of the brick in bricks
    above: NDArray[np.int32]  # (bricks,) next brick of the tile's chain, or NONE
    touched: NDArray[np.int64]  # (bricks,) number of the last frame that put a voxel there
    # (bricks,) level of the sensor in that frame: tops above it were not seen from above.
    eye: NDArray[np.int32]
    slot: NDArray[np.int32]  # (bricks,) of a touched brick in the frame's scratch arrays
    dirty: NDArray[np.uint8]  # (bricks,) 1: in `changed`
    # (bricks,) the first counts[2]: bricks changed since they were last taken.
    changed: NDArray[np.int32]
    head: NDArray[np.int32]  # (bricks,) first brick of each tile
    keys: NDArray[np.int64]  # (buckets,) of the tiles; NONE: empty
    tiles: NDArray[np.int32]  # (buckets,)
    counts: NDArray[np.int64]  # bricks, tiles, changed bricks, voxels


@numba.njit(nogil=True, cache=True, inline="always")
def bits_set(word: np.uint64) -> int:
    """Return how many bits of a word are set."""
    w = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    w = (w & np.uint64(0x3333333333333333)) + ((w >> np.uint64(2)) & np.uint64(0x3333333333333333))
    w = (w + (w >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((w * np.uint64(0x0101010101010101)) >> np.uint64(56))


@numba.njit(nogil=True, cache=True, inline="always")
def lowest_bit(word: np.uint64) -> int:
    """Return the index of the lowest bit that is set; the word is not 0."""
    return bits_set((word & (~word + _ONE)) - _ONE)


@numba.njit(nogil=True, cache=True, inline="always")
def voxel_index(coordinate: float, size: float) -> int:
    """Return the voxel that holds a coordinate [m]."""
    scaled = coordinate / size
    return math.floor(scaled + abs(scaled) * _EDGE)


@numba.njit(nogil=True, cache=True, inline="always")
def _bucket(key: int, buckets: int) -> int:
    mixed = np.uint64(key) * _GOLDEN
    return int(mixed >> np.uint64(40)) & (buckets - 1)


@numba.njit(nogil=True, cache=True, inline="always")
def _key(tx: int, ty: int) -> int:
    return ((tx + (1 << 27)) << 30) | (ty + (1 << 27))


@numba.njit(nogil=True, cache=True)
def find_tile(store: Store, tx: int, ty: int) -> int:
    """Return the tile's first brick, or NONE."""
    key = _key(tx, ty)
    i = _bucket(key, store.keys.size)
    while store.keys[i] != NONE:
        if store.keys[i] == key:
            return int(store.head[store.tiles[i]])
        i = (i + 1) & (store.keys.size - 1)
    return NONE


@numba.njit(nogil=True, cache=True)
def claim_brick(store: Store, tx: int, ty: int, tz: int) -> int:
    """Return the brick at a place, a new and empty one if there was none; NONE if all are in use."""
    counts, key = store.counts, _key(tx, ty)
    i = _bucket(key, store.keys.size)
    while store.keys[i] != NONE and store.keys[i] != key:
        i = (i + 1) & (store.keys.size - 1)
    is_new_tile = store.keys[i] == NONE
    if not is_new_tile:
        b = int(store.head[store.tiles[i]])
        while b != NONE:
            if store.place[b, 2] == tz:
                return int(b)
            b = int(store.above[b])
    if counts[0] == store.place.shape[0]:
        return NONE
    b = int(counts[0])
    counts[0] += 1
    if is_new_tile:
        store.keys[i] = key
        store.tiles[i] = counts[1]
        store.head[counts[1]] = NONE
        counts[1] += 1
    tile = store.tiles[i]
    store.place[b, 0], store.place[b, 1], store.place[b, 2] = tx, ty, tz
    store.above[b] = store.head[tile]
    store.head[tile] = b
    store.touched[b] = NONE
    store.eye[b] = HIGH
    store.dirty[b] = 0
    store.words[b, :] = np.uint64(0)
    if store.doubt.shape[0]:
        store.doubt[b, :] = np.uint64(0)
    return b


@numba.njit(nogil=True, cache=True)
def _widen(store: Store, b: int, column: int, window: NDArray[np.int64]) -> None:
    """Let the window reach over a column of a brick."""
    row = store.place[b, 1] * SIDE + (column >> 4)
    col = store.place[b, 0] * SIDE + (column & 15)
    window[0], window[1] = min(window[0], row), max(window[1], row + 1)
    window[2], window[3] = min(window[2], col), max(window[3], col + 1)


@numba.njit(nogil=True, cache=True)
def _note(store: Store, b: int, column: int, window: NDArray[np.int64]) -> None:
    """Remember that a column of a brick changed."""
    if store.dirty[b] == 0:
        store.dirty[b] = 1
        store.changed[store.counts[2]] = b
        store.counts[2] += 1
    _widen(store, b, column, window)


@numba.njit(nogil=True, cache=True)
def place_points(
    store: Store,
    points: NDArray[np.float32],
    origin: tuple[float, float, float],
    ranges: tuple[float, float],
    body: tuple[float, float, float, float, float, float],
    size: float,
    frame: int,
    eye: int,
    whole_tiles: bool,
    used: NDArray[np.int32],
    bricks: NDArray[np.int32],
    cells: NDArray[np.int32],
    window: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Find the brick, column and level of each point that counts; bricks are made as needed.

    Args:
        store: changed: bricks that hold a point are touched by `frame` and have a slot.
        points: (N, 3) [m].
        origin: of the sensor [m].
        ranges: nearest and farthest return [m] that counts.
        body: x, y, cos and sin of the yaw, half length, half width [m] of the robot's own box; a half length
            below zero: no box.
        size: of a voxel [m].
        frame: number of this frame.
        eye: level of the sensor.
        whole_tiles: touch all bricks of a tile that holds a point.
        used: (bricks,) set here: the touched bricks, by slot.
        bricks: (N,) set here: slot of each point that counts, in the first rows.
        cells: (N,) set here: column * LEVELS + level of each.
        window: row0, row1, col0, col1 in world cells of what changed; widened where the eye moved.

    Returns:
        How many points count, how many bricks are touched, and how many points found no brick.
    """
    ox, oy, oz = origin
    nearest, farthest = ranges[0] * ranges[0], ranges[1] * ranges[1]
    bx, by, cos, sin, half_length, half_width = body
    count, slots, homeless = 0, 0, 0
    last_x, last_y, last_z, last = 1 << 40, 0, 0, NONE
    for i in range(points.shape[0]):
        x, y, z = float(points[i, 0]), float(points[i, 1]), float(points[i, 2])
        dx, dy, dz = x - ox, y - oy, z - oz
        distance = dx * dx + dy * dy + dz * dz
        if not (nearest <= distance <= farthest):  # false for NaN and inf
            continue
        if half_length >= 0.0:
            px, py = x - bx, y - by
            if abs(cos * px + sin * py) <= half_length and abs(cos * py - sin * px) <= half_width:
                continue
        if max(abs(x), abs(y), abs(z)) >= _MAX_INDEX * size:
            continue
        ix, iy, level = (
            voxel_index(x, size),
            voxel_index(y, size),
            voxel_index(z, size) + BASE_LEVEL,
        )
        tx, ty, tz = ix >> 4, iy >> 4, level >> 6
        if tx != last_x or ty != last_y or tz != last_z:
            last = claim_brick(store, tx, ty, tz)
            last_x, last_y, last_z = tx, ty, tz
            if last != NONE and store.touched[last] != frame:
                b = find_tile(store, tx, ty) if whole_tiles else last
                while b != NONE:
                    if store.touched[b] != frame:
                        store.touched[b] = frame
                        if abs(store.eye[b] - eye) > _EYE_MOVED:
                            if store.eye[b] != HIGH:
                                for column in (0, COLUMNS - 1):
                                    _widen(store, b, column, window)
                            store.eye[b] = eye
                        store.slot[b] = slots
                        used[slots] = b
                        slots += 1
                    b = store.above[b] if whole_tiles else NONE
        if last == NONE:
            homeless += 1
            continue
        bricks[count] = store.slot[last]
        cells[count] = (((iy & 15) << 4) | (ix & 15)) << 6 | (level & 63)
        count += 1
    return count, slots, homeless


@numba.njit(nogil=True, cache=True)
def insert(
    store: Store,
    used: NDArray[np.int32],
    bricks: NDArray[np.int32],
    cells: NDArray[np.int32],
    carve: bool,
    window: NDArray[np.int64],
) -> None:
    """Put a frame's voxels into the map.

    Args:
        store: changed.
        used: (slots,) bricks by slot.
        bricks: (N,) slot of each voxel.
        cells: (N,) column * LEVELS + level of each.
        carve: first empty every column that the frame has a voxel in; all bricks of its tile must be in `used`.
        window: row0, row1, col0, col1 in world cells of what changed; widened.
    """
    fresh = np.zeros((used.size, COLUMNS), np.uint64)
    for i in range(cells.size):
        fresh[bricks[i], cells[i] >> 6] |= _ONE << np.uint64(cells[i] & 63)
    has_doubt = store.doubt.shape[0] > 0
    seen = np.empty(COLUMNS, np.bool_)
    for s in range(used.size):
        b = used[s]
        # In a chain each brick asks the others whether the frame saw its column.
        if carve:
            for c in range(COLUMNS):
                seen[c] = fresh[s, c] != 0
            other = find_tile(store, store.place[b, 0], store.place[b, 1])
            while other != NONE:
                if other != b:
                    k = store.slot[other]
                    for c in range(COLUMNS):
                        seen[c] |= fresh[k, c] != 0
                other = store.above[other]
        for c in range(COLUMNS):
            old = store.words[b, c]
            if carve:
                new = fresh[s, c] if seen[c] else old
            else:
                new = old | fresh[s, c]
                if has_doubt:
                    store.doubt[b, c] &= ~fresh[s, c]
            if new != old:
                store.words[b, c] = new
                store.counts[3] += bits_set(new) - bits_set(old)
                _note(store, b, c, window)


@numba.njit(nogil=True, cache=True)
def draw_rays(
    scratch: NDArray[np.uint64],
    corner: tuple[int, int],
    low_brick: int,
    points: NDArray[np.float32],
    origin: tuple[float, float, float],
    ranges: tuple[float, float, float],
    size: float,
) -> tuple[int, int, int, int]:
    """Set the voxels that the beams to the points pass through, but none beside or at a return.

    A beam that goes down to a return grazes what it passes at nearly the return's height: a floor, maybe, that fills
    its voxels to a part. These voxels are set apart.

    Args:
        scratch: (side, side, 2 * bricks) a word per column and brick, 0 all over before; holds the clear range. The
            second half is for the voxels that were grazed.
        corner: row and col in the world of scratch cell (0, 0).
        low_brick: height of the lowest brick in it.
        points: (N, 3) [m]; one beyond the farthest range met nothing.
        origin: of the sensor [m].
        ranges: nearest and farthest return that counts, how far a beam clears [m].
        size: of a voxel [m].

    Returns:
        Half-open row0, row1, col0, col1 of the part of the scratch grid that may be set.
    """
    side, bricks = scratch.shape[0], scratch.shape[2] // 2
    ox, oy, oz = origin
    nearest, farthest, clear_range = ranges
    x0, y0 = ox / size - corner[1], oy / size - corner[0]
    z0 = oz / size + BASE_LEVEL - low_brick * LEVELS
    top = bricks * LEVELS - 1
    row_low, row_high, col_low, col_high = side, -1, side, -1
    for i in range(points.shape[0]):
        dx, dy, dz = float(points[i, 0]) - ox, float(points[i, 1]) - oy, float(points[i, 2]) - oz
        distance = math.sqrt(dx * dx + dy * dy + dz * dz)
        if not (nearest <= distance < np.inf):
            continue
        # The last voxel before a return is left alone: the return may lie on the near side of its own.
        length = min(clear_range, farthest if distance > farthest else distance - size)
        if length <= 0.0:
            continue
        graze = -np.inf
        if distance <= farthest and dz < -_STEEP * size:
            graze = z0 + dz / size + _GRAZE
        scale = length / (distance * size)
        dx, dy, dz = dx * scale, dy * scale, dz * scale
        c, r = int(x0), int(y0)
        c1, r1 = int(x0 + dx), int(y0 + dy)
        row_low, row_high = min(row_low, r, r1), max(row_high, r, r1)
        col_low, col_high = min(col_low, c, c1), max(col_high, c, c1)
        step_c, step_r = (1 if dx > 0.0 else -1), (1 if dy > 0.0 else -1)
        per_c = abs(1.0 / dx) if dx != 0.0 else np.inf
        per_r = abs(1.0 / dy) if dy != 0.0 else np.inf
        next_c = ((c + 1 - x0) if dx > 0.0 else (x0 - c)) * per_c if dx != 0.0 else np.inf
        next_r = ((r + 1 - y0) if dy > 0.0 else (y0 - r)) * per_r if dy != 0.0 else np.inf
        part = 0.0
        while True:
            leave = min(next_c, next_r, 1.0)
            za, zb = z0 + dz * part, z0 + dz * leave
            low, high = math.floor(min(za, zb)), math.floor(max(za, zb))
            low, high = max(low, 0), min(high, top)
            k, half = low >> 6, bricks if min(za, zb) < graze else 0
            while k << 6 <= high:
                first, last = max(low - (k << 6), 0), min(high - (k << 6), LEVELS - 1)
                scratch[r, c, half + k] |= (_ALL << np.uint64(first)) & (
                    _ALL >> (_TOP - np.uint64(last))
                )
                k += 1
            if leave >= 1.0:
                break
            part = leave
            if next_c < next_r:
                next_c += per_c
                c += step_c
            else:
                next_r += per_r
                r += step_r
    for i in range(points.shape[0]):
        dx, dy, dz = float(points[i, 0]) - ox, float(points[i, 1]) - oy, float(points[i, 2]) - oz
        if not (dx * dx + dy * dy + dz * dz <= farthest * farthest):
            continue
        c = voxel_index(float(points[i, 0]), size) - corner[1]
        r = voxel_index(float(points[i, 1]), size) - corner[0]
        level = voxel_index(float(points[i, 2]), size) + BASE_LEVEL - low_brick * LEVELS
        for rr in range(max(row_low, r - 1), min(row_high, r + 1) + 1):
            for cc in range(max(col_low, c - 1), min(col_high, c + 1) + 1):
                for v in range(max(level - 1, 0), min(level + 1, top) + 1):
                    bit = ~(_ONE << np.uint64(v & 63))
                    scratch[rr, cc, v >> 6] &= bit
                    scratch[rr, cc, bricks + (v >> 6)] &= bit
    return row_low, row_high + 1, col_low, col_high + 1


@numba.njit(nogil=True, cache=True)
def clear_seen_through(
    store: Store,
    scratch: NDArray[np.uint64],
    corner: tuple[int, int],
    low_brick: int,
    part: tuple[int, int, int, int],
    window: NDArray[np.int64],
) -> None:
    """Remove the voxels that two looks in a row went through, and wipe the scratch grid.

    The lowest voxel of a column, its floor, stays when it was only grazed.

    Args:
        store: changed; with `doubt`.
        scratch: as `draw_rays` left it; 0 all over afterwards.
        corner: row and col in the world of scratch cell (0, 0); multiples of SIDE.
        low_brick: height of its lowest brick.
        part: what `draw_rays` returned.
        window: row0, row1, col0, col1 in world cells of what changed; widened.
    """
    row0, row1, col0, col1 = part
    bricks = scratch.shape[2] // 2
    for tr in range(row0 // SIDE, (row1 + SIDE - 1) // SIDE):
        for tc in range(col0 // SIDE, (col1 + SIDE - 1) // SIDE):
            b = find_tile(store, corner[1] // SIDE + tc, corner[0] // SIDE + tr)
            while b != NONE:
                k = store.place[b, 2] - low_brick
                if 0 <= k < bricks:
                    for c in range(COLUMNS):
                        old = store.words[b, c]
                        if old == 0:
                            continue
                        r, col = tr * SIDE + (c >> 4), tc * SIDE + (c & 15)
                        lowest = old & (~old + _ONE)
                        through = scratch[r, col, k] | (scratch[r, col, bricks + k] & ~lowest)
                        missed = through & old
                        if missed == 0:
                            continue
                        gone = missed & store.doubt[b, c]
                        store.doubt[b, c] = (store.doubt[b, c] | missed) & ~gone
                        if gone != 0:
                            store.words[b, c] = old & ~gone
                            store.counts[3] -= bits_set(gone)
                            _note(store, b, c, window)
                b = store.above[b]
    scratch[row0:row1, col0:col1] = np.uint64(0)


@numba.njit(nogil=True, cache=True)
def expand(
    words: NDArray[np.uint64],
    place: NDArray[np.int32],
    size: float,
    points: NDArray[np.float32],
) -> None:
    """Write the centres [m] of all voxels of bricks into `points`, (voxels, 3)."""
    n = 0
    for b in range(words.shape[0]):
        row, col = place[b, 1] * SIDE, place[b, 0] * SIDE
        base = place[b, 2] * LEVELS - BASE_LEVEL
        for c in range(COLUMNS):
            word = words[b, c]
            while word != 0:
                points[n, 0] = (col + (c & 15) + 0.5) * size
                points[n, 1] = (row + (c >> 4) + 0.5) * size
                points[n, 2] = (base + lowest_bit(word) + 0.5) * size
                n += 1
                word &= word - _ONE


@numba.njit(nogil=True, cache=True)
def count_voxels(words: NDArray[np.uint64], counts: NDArray[np.int64]) -> None:
    """Set `counts` (bricks,) to the voxels in each brick of words (bricks, COLUMNS)."""
    for b in range(words.shape[0]):
        n = 0
        for c in range(COLUMNS):
            n += bits_set(words[b, c])
        counts[b] = n


@numba.njit(nogil=True, cache=True)
def thin_brick(
    words: NDArray[np.uint64],
    order: NDArray[np.int64],
    excess: int,
) -> int:
    """Empty columns of one brick (COLUMNS,) in the order given until `excess` voxels are gone; return how many are."""
    gone = 0
    for c in order:
        while gone < excess and words[c] != 0:
            words[c] &= words[c] - _ONE
            gone += 1
    return gone


@numba.njit(nogil=True, cache=True)
def keep_bricks(store: Store, kept: NDArray[np.int64]) -> None:
    """Close the gaps: only bricks `kept`, ascending, stay, in that order; the table is built anew."""
    counts = store.counts
    dirty = np.zeros(kept.size, np.uint8)
    for k in range(kept.size):
        dirty[k] = store.dirty[kept[k]]
    store.keys[:] = NONE
    voxels, changed = 0, 0
    counts[0], counts[1], counts[2] = 0, 0, 0
    for k in range(kept.size):
        b = kept[k]
        touched, eye = store.touched[b], store.eye[b]
        tx, ty, tz = store.place[b, 0], store.place[b, 1], store.place[b, 2]
        words = store.words[b].copy()
        doubt = store.doubt[b].copy() if store.doubt.shape[0] else words
        new = claim_brick(store, tx, ty, tz)
        store.words[new, :] = words
        if store.doubt.shape[0]:
            store.doubt[new, :] = doubt
        store.touched[new], store.eye[new] = touched, eye
        store.dirty[new] = dirty[k]
        if dirty[k]:
            store.changed[changed] = new
            changed += 1
        for c in range(COLUMNS):
            voxels += bits_set(words[c])
    counts[2] = changed
    counts[3] = voxels
