"""Numba kernels of the occupancy grid: a lidar frame to beams, beams to touched cells, touched cells to evidence.

A frame is drawn into a small scratch grid around the sensor first, so that each cell is updated at most once per
frame, whatever the number of beams through it, and a hit wins over a miss. The cost depends on the frame alone.

Cells are drawn in scratch coordinates: x and y in cells from the scratch grid's lower-left corner.
"""

import math

import numba
import numpy as np
from numpy.typing import NDArray

# Marks in the scratch grid.
UNTOUCHED, MISS, FLOOR, HIT, BODY = 0, 1, 2, 3, 4

# An obstacle ends the clearing of every beam within this angle of it. Rings of a tilted lidar do not share their
# azimuths exactly, and between two beams, a degree apart, the obstacle goes on.
_SHADOW = math.radians(0.5)
# A frame whose points all lie this near the sensor's height is a planar scan [m].
_PLANAR_TOLERANCE = 1e-3


@numba.njit(nogil=True, cache=True)
def reduce_beams(
    points: NDArray[np.float64],
    origin: tuple[float, float, float],
    band: tuple[float, float],
    ranges: tuple[float, float],
    body: tuple[float, float, float, float, float, float],
    voxel: float,
    reach: NDArray[np.float64],
    limit: NDArray[np.float64],
    direction: NDArray[np.float64],
    ends: NDArray[np.float64],
) -> tuple[int, int, int]:
    """Reduce a frame to one beam per azimuth bin, and the obstacles that it met.

    Per bin: `reach` is how far the farthest return shows clear floor, `limit` how near the nearest obstacle
    is. A ring of beams that passes over a low box is so ended by the ring that hits it.

    Args:
        points: (N, 3) beam ends [m]. Not finite: not looked at.
        origin: of the sensor [m], same frame.
        band: heights [m]: lower than the first is floor, which only clears; above the second is ignored. In a
            planar scan, all of it at the sensor's height, every return is an obstacle.
        ranges: nearest and farthest return [m] that counts; one beyond met nothing within the farthest.
        body: x, y, cos and sin of the yaw, half length, half width [m] of the robot's own box: returns inside
            are the robot itself. A half length below zero: no box.
        voxel: edge [m] of the voxels that the points are centres of; 0 for beam ends.
        reach: (bins,) set here [m], 0 where no beam went.
        limit: (bins,) set here [m], inf where no obstacle is.
        direction: (bins, 2) set here, unit vector of the beam where `reach` is not 0.
        ends: (N, 2) set here: x, y [m] of the obstacles, in the first rows.

    Returns:
        The number of obstacles and of floor voxels in `ends`, and of returns that counted.
    """
    ox, oy, oz = origin
    floor_top, ceiling = band
    nearest, farthest = ranges
    bx, by, cos, sin, half_length, half_width = body
    bins = reach.size
    bins_per_radian = bins / math.tau
    reach[:] = 0.0
    limit[:] = np.inf

    planar = True
    for i in range(points.shape[0]):
        off = abs(points[i, 2] - oz)
        if off > _PLANAR_TOLERANCE and math.isfinite(points[i, 0] + points[i, 1] + off):
            planar = False
            break

    obstacles = 0
    floors = 0
    used = 0
    for i in range(points.shape[0]):
        dx, dy, dz = points[i, 0] - ox, points[i, 1] - oy, points[i, 2] - oz
        distance = math.sqrt(dx * dx + dy * dy + dz * dz)
        if not (nearest <= distance < np.inf):  # NaN, inf, the sensor itself
            continue
        clear = math.sqrt(dx * dx + dy * dy)
        if clear <= 0.0:
            continue
        ux, uy = dx / clear, dy / clear
        end_height = oz + dz
        is_obstacle = False
        if distance <= farthest:
            if half_length >= 0.0:
                px, py = points[i, 0] - bx, points[i, 1] - by
                if (
                    abs(cos * px + sin * py) <= half_length
                    and abs(cos * py - sin * px) <= half_width
                ):
                    continue
            is_obstacle = planar or end_height >= floor_top
            if not planar and end_height > ceiling:
                continue
        else:
            clear *= farthest / distance
            end_height = oz + dz * (farthest / distance)
        if not planar and not is_obstacle:
            # Beyond where it leaves the band a beam says nothing about obstacles.
            if end_height > ceiling:
                clear *= max(0.0, ceiling - oz) / (end_height - oz)
            elif end_height < -floor_top:
                clear *= max(0.0, oz + floor_top) / (oz - end_height)
        used += 1
        if voxel > 0.0 and not is_obstacle and distance <= farthest:
            floors += 1
            ends[points.shape[0] - floors, 0] = points[i, 0]
            ends[points.shape[0] - floors, 1] = points[i, 1]
        azimuth = (math.atan2(dy, dx) * bins_per_radian) % bins
        half = 0.0
        if voxel > 0.0:
            half = math.atan2(voxel * 0.7071067811865476, clear) * bins_per_radian
        for b in range(math.floor(azimuth - half), math.floor(azimuth + half) + 1):
            k = b % bins
            if clear > reach[k]:
                reach[k] = clear
                if voxel > 0.0:
                    direction[k, 0] = math.cos((k + 0.5) / bins_per_radian)
                    direction[k, 1] = math.sin((k + 0.5) / bins_per_radian)
                else:
                    direction[k, 0] = ux
                    direction[k, 1] = uy
        if is_obstacle:
            ends[obstacles, 0] = points[i, 0]
            ends[obstacles, 1] = points[i, 1]
            obstacles += 1
            half = max(_SHADOW * bins_per_radian, half)
            for b in range(math.floor(azimuth - half), math.floor(azimuth + half) + 1):
                k = b % bins
                if clear < limit[k]:
                    limit[k] = clear
    return obstacles, floors, used


@numba.njit(nogil=True, cache=True)
def draw_frame(
    scratch: NDArray[np.uint8],
    corner: tuple[int, int],
    resolution: float,
    origin: tuple[float, float, float],
    reach: NDArray[np.float64],
    limit: NDArray[np.float64],
    direction: NDArray[np.float64],
    ends: NDArray[np.float64],
    floors: NDArray[np.float64],
    body: tuple[float, float, float],
) -> tuple[int, int, int, int]:
    """Draw the beams, the floor, the obstacles, and the robot's body into the scratch grid, the later over the earlier.

    A beam clears one cell per step along its longer axis, up to the cell of its limit, which it leaves alone.

    Args:
        scratch: (side, side), UNTOUCHED all over before; large enough for every beam.
        corner: row and col in the world (0, 0 touches the frame's origin) of scratch cell (0, 0).
        resolution: cell edge [m].
        origin: of the sensor [m].
        reach: (bins,) as `reduce_beams` sets it, and so the next two.
        limit: (bins,)
        direction: (bins, 2)
        ends: (K, 2) x, y [m] of the obstacles.
        floors: (L, 2) x, y [m] of the floor that was seen itself, not only crossed.
        body: x, y, radius [m] of the disc that the robot covers; a radius below zero: none.

    Returns:
        Half-open row0, row1, col0, col1 of the part of the scratch grid that may be touched.
    """
    row_corner, col_corner = corner
    x0 = origin[0] / resolution - col_corner
    y0 = origin[1] / resolution - row_corner
    c0, r0 = int(x0), int(y0)
    row_low, row_high, col_low, col_high = r0, r0, c0, c0
    scratch[r0, c0] = MISS
    for k in range(reach.size):
        length = reach[k]
        if length <= 0.0:
            continue
        blocked = limit[k] <= length
        if blocked:
            length = limit[k]
        dx, dy = direction[k, 0] * length / resolution, direction[k, 1] * length / resolution
        c1, r1 = int(x0 + dx), int(y0 + dy)
        row_low, row_high = min(row_low, r1), max(row_high, r1)
        col_low, col_high = min(col_low, c1), max(col_high, c1)
        if abs(dx) >= abs(dy):
            slope = dy / dx
            start = y0 + slope * (0.5 - x0)
            for c in range(min(c0, c1) + 1, max(c0, c1)):
                scratch[int(start + slope * c), c] = MISS
        else:
            slope = dx / dy
            start = x0 + slope * (0.5 - y0)
            for r in range(min(r0, r1) + 1, max(r0, r1)):
                scratch[r, int(start + slope * r)] = MISS
        if not blocked:
            scratch[r1, c1] = MISS
    for i in range(floors.shape[0]):
        c = int(floors[i, 0] / resolution - col_corner)
        r = int(floors[i, 1] / resolution - row_corner)
        scratch[r, c] = FLOOR
        row_low, row_high = min(row_low, r), max(row_high, r)
        col_low, col_high = min(col_low, c), max(col_high, c)
    for i in range(ends.shape[0]):
        c = int(ends[i, 0] / resolution - col_corner)
        r = int(ends[i, 1] / resolution - row_corner)
        scratch[r, c] = HIT
        row_low, row_high = min(row_low, r), max(row_high, r)
        col_low, col_high = min(col_low, c), max(col_high, c)
    if body[2] >= 0.0:
        x, y = body[0] / resolution - col_corner, body[1] / resolution - row_corner
        radius = body[2] / resolution
        for r in range(
            max(0, math.floor(y - radius)), min(scratch.shape[0], math.floor(y + radius) + 1)
        ):
            for c in range(
                max(0, math.floor(x - radius)), min(scratch.shape[1], math.floor(x + radius) + 1)
            ):
                if (c + 0.5 - x) ** 2 + (r + 0.5 - y) ** 2 <= radius * radius:
                    scratch[r, c] = BODY
                    row_low, row_high = min(row_low, r), max(row_high, r)
                    col_low, col_high = min(col_low, c), max(col_high, c)
    return row_low, row_high + 1, col_low, col_high + 1


@numba.njit(nogil=True, cache=True)
def apply_frame(
    scratch: NDArray[np.uint8],
    touched: tuple[int, int, int, int],
    inside: tuple[int, int, int, int],
    offset: tuple[int, int],
    tiles: NDArray[np.int32],
    pool: NDArray[np.uint16],
    used: int,
    weights: tuple[int, int, int],
    keep: int,
    table: NDArray[np.int8],
) -> tuple[int, int, int, int, int, int]:
    """Add a drawn frame to the grid and wipe the scratch grid for the next one.

    Args:
        scratch: as `draw_frame` left it; UNTOUCHED all over afterwards.
        touched: row0, row1, col0, col1 in the scratch grid that `draw_frame` returned.
        inside: the part of the scratch grid that the grid covers; the rest is dropped.
        offset: row and col of scratch cell (0, 0) in the grid.
        tiles: (rows, cols) place in `pool` of each tile of the grid, -1 where nothing was observed; updated.
        pool: (places, side, side) 0 never observed, else the log odds in steps, counted from 1; updated. Places
            that are not used yet hold 0.
        used: places that are used.
        weights: steps that a hit adds, FLOOR or MISS takes, and MISS takes from `keep` on.
        keep: evidence from which a MISS takes less.
        table: occupancy by evidence; its ends are the clamps.

    Returns:
        The places used now, the number of cells observed for the first time, and half-open row0, row1, col0, col1 in
        the scratch grid of the cells whose occupancy changed (row0 >= row1: none).
    """
    hit, miss, crossed = weights
    highest = table.size - 1
    even = highest // 2 + 1
    side = pool.shape[1]
    first_seen = 0
    row_low, row_high, col_low, col_high = scratch.shape[0], -1, scratch.shape[1], -1
    for r in range(touched[0], touched[1]):
        row_inside = inside[0] <= r < inside[1]
        for c in range(touched[2], touched[3]):
            mark = scratch[r, c]
            if mark == UNTOUCHED:
                continue
            scratch[r, c] = UNTOUCHED
            if not (row_inside and inside[2] <= c < inside[3]):
                continue
            gr, gc = r + offset[0], c + offset[1]
            tr, tc = gr // side, gc // side
            place = tiles[tr, tc]
            if place < 0:
                place = used
                tiles[tr, tc] = place
                used += 1
            lr, lc = gr - tr * side, gc - tc * side
            before = int(pool[place, lr, lc])
            value = table[before]
            if before == 0:
                first_seen += 1
                before = even
            if mark == HIT:
                after = min(before + hit, highest)
            elif mark == FLOOR:
                after = max(before - miss, 1)
            elif mark == MISS:
                after = max(before - (crossed if before >= keep else miss), 1)
            else:
                after = 1
            pool[place, lr, lc] = after
            if value != table[after]:
                row_low, row_high = min(row_low, r), max(row_high, r)
                col_low, col_high = min(col_low, c), max(col_high, c)
    return used, first_seen, row_low, row_high + 1, col_low, col_high + 1


@numba.njit(nogil=True, cache=True)
def read_cells(
    corner: tuple[int, int],
    tiles: NDArray[np.int32],
    pool: NDArray[np.uint16],
    table: NDArray[np.int8],
    cells: NDArray[np.int8],
) -> None:
    """Look up the occupancy of a window of the grid.

    Args:
        corner: row and col in the grid of `cells[0, 0]`; the window may reach beyond the grid.
        tiles: (rows, cols) as for `apply_frame`, and so the next two.
        pool: (places, side, side)
        table: occupancy by evidence.
        cells: (rows, cols) set here.
    """
    side = pool.shape[1]
    rows, cols = cells.shape
    for r in range(rows):
        gr = r + corner[0]
        tr = gr // side
        c = 0
        while c < cols:
            gc = c + corner[1]
            tc = gc // side
            end = min(cols, (tc + 1) * side - corner[1])
            place = -1
            if 0 <= tr < tiles.shape[0] and 0 <= tc < tiles.shape[1]:
                place = tiles[tr, tc]
            if place < 0:
                cells[r, c:end] = table[0]
            else:
                line = pool[place, gr - tr * side]
                first = gc - tc * side
                for k in range(end - c):
                    cells[r, c + k] = table[line[first + k]]
            c = end
