"""What a grid says about points: distance to its obstacles, and the search for the place where points fit it best.

Points are what a lidar saw, as two sets: ends (where obstacles are) and clear places (where none is). A fit is good
when ends lie on the grid's obstacles and clear places do not. Stands on numpy and numba.
"""

import heapq
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from rhino_actors.mapping.inflation import LETHAL_OCCUPANCY
from rhino_actors.messages.grid import UNKNOWN, GridGeometry

Transform = tuple[float, float, float]

REACH = 1.0  # [m] beyond which an obstacle does not matter to a point
SIGMA = 0.10  # [m] how far an end may lie off an obstacle
COARSE = 0.10  # [m] cell edge of the search; not finer than the grid's own
TOP_LEVEL = 5  # the search begins with squares of 2 ** TOP_LEVEL cells
CONTRADICTION = (
    2.0  # what a clear place on an obstacle takes, as a multiple of what an end on one gives
)
UNKNOWN_CONTRADICTION = (
    0.25  # the same where the grid knows nothing, as a part of that on an obstacle
)
CELL_LIMIT = 40_000_000  # padded coarse cells of the pyramid in all, of one byte each

_SCALE = 100  # scores are kept as whole numbers: a hundred for an end that fits


class DistanceField:
    """Distance [m] from any place to the nearest obstacle's surface in a grid, up to REACH."""

    def __init__(self, occupancy: NDArray[np.int8], geometry: GridGeometry) -> None:
        """Compute the field of a grid (rows, cols) int8, -1 unknown, 0..100; the grid is not kept."""
        self.geometry = geometry
        occupied = np.ascontiguousarray(occupancy >= LETHAL_OCCUPANCY)
        radius = math.ceil(REACH / geometry.resolution)
        self.distance = np.empty(occupancy.shape, np.float32)  # (rows, cols) [m]
        _distance_kernel(
            surface(occupied, occupancy == UNKNOWN), radius, geometry.resolution, self.distance
        )

    def at(self, points: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the distance (N,) [m] at points (N, 2) of the grid's frame, that of the nearest cell."""
        cells = self.geometry.cells_from_world(points)
        rows, cols = self.geometry.shape
        inside = (
            (cells[:, 0] >= 0) & (cells[:, 0] < rows) & (cells[:, 1] >= 0) & (cells[:, 1] < cols)
        )
        found = np.full(len(points), REACH, np.float32)
        found[inside] = self.distance[cells[inside, 0], cells[inside, 1]]
        return found


def surface(occupied: NDArray[np.bool_], unknown: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the obstacle cells that a lidar can see: those with a neighbour that is known and free.

    A point must not fit for lying deep in a solid block.
    """
    free = np.pad(~occupied & ~unknown, 1)
    rows, cols = occupied.shape
    beside = np.zeros_like(occupied)
    for row in range(3):
        for col in range(3):
            beside |= free[row : row + rows, col : col + cols]
    seen: NDArray[np.bool_] = occupied & beside
    return seen


class Match(NamedTuple):
    """Where points lie in a grid, after refinement."""

    transform: Transform  # grid from points
    share: float  # of the ends within SIGMA of an obstacle
    information: NDArray[np.float64]  # (3, 3) of x, y, yaw about the pivot, per end
    is_degenerate: bool  # some direction is not fixed by the points; the guess was kept along it


def refine(
    field: DistanceField,
    ends: NDArray[np.float64],
    guess: Transform,
    pivot: tuple[float, float],
    *,
    prior: tuple[float, float] = (0.0, 0.0),
    min_information: float = 0.03,
    rounds: int = 20,
) -> Match:
    """Move points so that they lie on the grid's obstacles, by Gauss-Newton on the distance field.

    Along a direction of which the points say too little (a corridor without features) nothing moves.

    Args:
        field: of the grid.
        ends: (N, 2) [m] places of obstacles, in the points' frame.
        guess: grid from points; the answer is looked for within about 0.3 m and 10 degrees.
        pivot: place in the points' frame [m] about which the turn is reckoned: the robot.
        prior: how much the guess counts against one end, for the place [1/m2] and for the yaw [1/rad2].
        min_information: least eigenvalue, per end, of a direction that may be corrected.
        rounds: most steps.

    Returns:
        The match. Without ends: the guess, a share of 0, degenerate.
    """
    lever = 1.0  # [m]: weighs radians against metres
    px, py = pivot
    x, y, yaw = guess
    cos, sin = math.cos(yaw), math.sin(yaw)
    x, y = x + cos * px - sin * py, y + sin * px + cos * py  # of the pivot in the grid
    start = np.array([x, y, yaw])
    here = start.copy()
    count = len(ends)
    if count == 0:
        return Match(guess, 0.0, np.zeros((3, 3)), True)
    local = np.ascontiguousarray(ends - np.array([px, py]))
    information, gradient = np.zeros((3, 3)), np.zeros(3)
    geometry = field.geometry
    origin = geometry.origin
    weights = np.array([prior[0], prior[0], prior[1]])
    is_degenerate = False
    for _ in range(rounds):
        _normal_equations(
            field.distance, origin, geometry.resolution, local, here, SIGMA, information, gradient
        )
        total = information / count + np.diag(weights)
        pull = gradient / count + weights * (here - start)
        scale = np.array([1.0, 1.0, 1.0 / lever])
        values, vectors = np.linalg.eigh(information / count * np.outer(scale, scale))
        firm = values >= min_information
        is_degenerate = not bool(firm.all())
        basis = vectors[:, firm]
        if basis.shape[1] == 0:
            break
        scaled = total * np.outer(scale, scale)
        step = -scale * (
            basis @ np.linalg.solve(basis.T @ scaled @ basis, basis.T @ (scale * pull))
        )
        length = float(np.hypot(step[0], step[1]))
        if length > 0.1:
            step *= 0.1 / length
        here += step
        if length < 1e-4 and abs(step[2]) < 1e-5:
            break
    x, y, yaw = here.tolist()
    yaw = math.remainder(yaw, math.tau)
    cos, sin = math.cos(yaw), math.sin(yaw)
    transform = (x - cos * px + sin * py, y - sin * px - cos * py, yaw)
    placed = np.empty_like(local)
    placed[:, 0] = x + cos * local[:, 0] - sin * local[:, 1]
    placed[:, 1] = y + sin * local[:, 0] + cos * local[:, 1]
    share = float(np.mean(field.at(placed) <= SIGMA))
    return Match(transform, share, information / count, is_degenerate)


class Candidate(NamedTuple):
    """A place that the search found."""

    transform: Transform  # grid from points
    score: float  # 1: every end on an obstacle and no clear place on one


@dataclass(frozen=True)
class SearchArea:
    """Where to look: all of the grid and all headings, or around a rough pose."""

    x: float = 0.0  # [m] of the pivot in the grid
    y: float = 0.0
    yaw: float = 0.0  # [rad] grid from points
    radius: float = math.inf  # [m]
    spread: float = math.pi  # [rad] to either side


EVERYWHERE = SearchArea()


def check_searchable(geometry: GridGeometry) -> None:
    """Raise ValueError for a grid that is too large for a LikelihoodPyramid; nothing is allocated."""
    factor = max(1, round(COARSE / geometry.resolution))
    rows, cols = (-(-side // factor) for side in geometry.shape)
    levels = _levels(rows, cols)
    pad = 2**levels - 1
    if (levels + 1) * (rows + pad) * (cols + pad) > CELL_LIMIT:
        raise ValueError(f"a grid of {rows} x {cols} coarse cells is too large to search")


def _levels(rows: int, cols: int) -> int:
    """Return the level of the coarsest squares that are of use on so many cells."""
    return min(TOP_LEVEL, max(rows, cols).bit_length() - 1)


class LikelihoodPyramid:
    """A grid prepared for the search of a place: bounds of the fit over squares of cells, coarse to fine.

    Source: branch and bound over a pyramid of maxima (Hess, Kohler, Rapp, Andor: Real-time loop closure in 2D lidar
    SLAM, 2016); best-first order, clear places and the test against other places: own.
    """

    def __init__(
        self,
        occupancy: NDArray[np.int8],
        geometry: GridGeometry,
        field: DistanceField,
        *,
        unknown_contradiction: float = UNKNOWN_CONTRADICTION,
    ) -> None:
        """Prepare a grid.

        Args:
            occupancy: (rows, cols) int8, -1 unknown, 0..100.
            geometry: where it lies.
            field: its distance field.
            unknown_contradiction: what a clear place counts against a fit where the grid knows nothing, as a part of
                what it does on an obstacle; 0 for a grid that covers only a part of what was seen.
        """
        check_searchable(geometry)
        self._factor = max(1, round(COARSE / geometry.resolution))
        self.resolution = self._factor * geometry.resolution
        near = _blocks(field.distance, self._factor, np.float32(REACH), np.minimum)
        occupied = _blocks(
            np.ascontiguousarray(occupancy >= LETHAL_OCCUPANCY), self._factor, False, np.logical_or
        )
        unknown = _blocks(occupancy == UNKNOWN, self._factor, True, np.logical_and)
        fits = np.rint(_SCALE * np.exp(-0.5 * (near / SIGMA) ** 2))
        against = np.rint(
            _SCALE
            * CONTRADICTION
            * np.where(occupied, 1.0, np.where(unknown, unknown_contradiction, 0.0))
        )
        rows, cols = near.shape
        self._levels = _levels(rows, cols)
        pad = 2**self._levels - 1
        self._pad = pad
        self._origin = (
            geometry.origin[0] - pad * self.resolution,
            geometry.origin[1] - pad * self.resolution,
        )
        self._outside = round(_SCALE * CONTRADICTION * unknown_contradiction)
        shape = (self._levels + 1, rows + pad, cols + pad)
        self._fits = np.zeros(shape, np.uint8)
        self._against = np.full(shape, self._outside, np.uint8)
        self._open = np.zeros(shape, np.bool_)
        self._fits[0, pad:, pad:] = fits
        self._against[0, pad:, pad:] = against
        self._open[0, pad:, pad:] = ~occupied & ~unknown
        for level in range(1, self._levels + 1):
            half = 2 ** (level - 1)
            _widen(self._fits, level, half, 0, np.maximum)
            _widen(self._against, level, half, self._outside, np.minimum)
            _widen(self._open, level, half, False, np.logical_or)

    def search(
        self,
        ends: NDArray[np.float64],
        clear: NDArray[np.float64],
        pivot: tuple[float, float],
        *,
        area: SearchArea = EVERYWHERE,
        margin: float = 0.15,
        apart: tuple[float, float] = (0.6, math.radians(20.0)),
        most: int = 4,
        max_nodes: int = 3_000_000,
    ) -> tuple[list[Candidate], bool]:
        """Find the place where points fit best, and every other one that fits nearly as well.

        The pivot is only looked for on cells that are known and not an obstacle. Exact on the search's own grid of
        places and headings: nothing that fits better is missed.

        Args:
            ends: (N, 2) [m] places of obstacles, in the points' frame, N > 0; a few hundred are enough.
            clear: (M, 2) [m] places without an obstacle.
            pivot: where the robot is, in the points' frame [m].
            area: where the pivot may be.
            margin: how much less than the best another place may score to be returned.
            apart: distance [m] or turn [rad] from which two places are two.
            most: places to return.
            max_nodes: bound on the work, in squares looked at.

        Returns:
            Candidates, best first, and whether the search came to its end within `max_nodes`. Empty: nothing open.
        """
        center = np.array(pivot)
        local_ends, local_clear = ends - center, clear - center
        distances = np.hypot(local_ends[:, 0], local_ends[:, 1])
        lever = max(1.0, float(np.percentile(distances, 90)))
        step = min(math.radians(3.0), max(math.radians(0.75), 0.15 / lever))
        half = math.ceil(min(area.spread, math.pi) / step)
        if area.spread >= math.pi:
            turns = np.arange(2 * half) * (math.pi / half)
        else:
            turns = np.arange(-half, half + 1) * step
        yaws = (area.yaw + turns).astype(np.float64)
        cos, sin = np.cos(yaws)[:, None], np.sin(yaws)[:, None]

        def turned(points: NDArray[np.float64]) -> NDArray[np.int32]:
            x = cos * points[:, 0] - sin * points[:, 1]
            y = sin * points[:, 0] + cos * points[:, 1]
            return np.ascontiguousarray(
                np.rint(np.stack([y, x], axis=-1) / self.resolution).astype(np.int32)
            )

        rows, cols = self._fits.shape[1:]
        bounds = (self._pad, rows, self._pad, cols)
        if math.isfinite(area.radius):
            row = math.floor((area.y - self._origin[1]) / self.resolution)
            col = math.floor((area.x - self._origin[0]) / self.resolution)
            reach = math.ceil(area.radius / self.resolution)
            bounds = (
                max(bounds[0], row - reach),
                min(bounds[1], row + reach + 1),
                max(bounds[2], col - reach),
                min(bounds[3], col + reach + 1),
            )
        found, is_complete = _search_kernel(
            self._fits,
            self._against,
            self._open,
            turned(local_ends),
            turned(local_clear),
            bounds,
            self._outside,
            int(margin * _SCALE * _WHOLE),
            (apart[0] / self.resolution, apart[1]),
            yaws,
            most,
            max_nodes,
        )
        candidates = []
        for score, angle, row, col in found:
            yaw = math.remainder(float(yaws[angle]), math.tau)
            x = self._origin[0] + (col + 0.5) * self.resolution
            y = self._origin[1] + (row + 0.5) * self.resolution
            c, s = math.cos(yaw), math.sin(yaw)
            place = (x - c * pivot[0] + s * pivot[1], y - s * pivot[0] - c * pivot[1], yaw)
            candidates.append(Candidate(place, score / (_SCALE * _WHOLE)))
        return candidates, bool(is_complete)


_WHOLE = 1000  # mean scores are whole numbers of this many parts of one of _SCALE


def thinned(points: NDArray[np.float64], cell: float, most: int) -> NDArray[np.float64]:
    """Return at most `most` points (K, 2), one for each square cell [m], spread evenly over the cells."""
    if len(points) == 0:
        return points.reshape(0, 2)
    cells = np.floor(points / cell).astype(np.int64)
    _, first = np.unique(cells[:, 0] * (1 << 32) + cells[:, 1], return_index=True)
    if len(first) > most:
        first = first[np.linspace(0, len(first) - 1, most).astype(np.int64)]
    chosen: NDArray[np.float64] = points[first]
    return chosen


def _blocks(grid: NDArray[Any], factor: int, fill: Any, reduce: np.ufunc) -> NDArray[Any]:
    """Reduce square blocks of `factor` cells to one, the last ones padded with `fill`."""
    if factor == 1:
        return grid
    rows, cols = (-(-size // factor) * factor for size in grid.shape)
    padded = np.full((rows, cols), fill, grid.dtype)
    padded[: grid.shape[0], : grid.shape[1]] = grid
    blocks = padded.reshape(rows // factor, factor, cols // factor, factor)
    reduced: NDArray[Any] = reduce.reduce(reduce.reduce(blocks, axis=3), axis=1)
    return reduced


def _widen(pyramid: NDArray[Any], level: int, half: int, outside: Any, pick: np.ufunc) -> None:
    """Let each cell of a level stand for the square of 2 ** level cells from it upwards."""
    below = pyramid[level - 1]
    shifted = np.full((below.shape[0] + half, below.shape[1] + half), outside, below.dtype)
    shifted[: below.shape[0], : below.shape[1]] = below
    rows, cols = below.shape
    pyramid[level] = pick(
        pick(shifted[:rows, :cols], shifted[half:, :cols]),
        pick(shifted[:rows, half:], shifted[half:, half:]),
    )


@numba.njit(nogil=True, cache=True)
def _distance_kernel(
    marks: NDArray[np.bool_], radius: int, resolution: float, distance: NDArray[np.float32]
) -> None:
    """Write the exact distance [m] between cell centres to the nearest mark, at most radius cells."""
    rows, cols = marks.shape
    far = np.float32(radius)
    one = np.float32(1.0)
    column = np.empty((rows, cols), np.float32)
    for r in range(rows):
        for c in range(cols):
            above = column[r - 1, c] + one if r > 0 else far
            above = above if above < far else far
            column[r, c] = np.float32(0.0) if marks[r, c] else above
    for r in range(rows - 2, -1, -1):
        for c in range(cols):
            below = column[r + 1, c] + one
            column[r, c] = below if below < column[r, c] else column[r, c]
    padded = np.full(cols + 2 * radius, far * far, np.float32)
    nearest = np.empty(cols, np.float32)
    for r in range(rows):
        for c in range(cols):
            padded[radius + c] = column[r, c] * column[r, c]
            nearest[c] = padded[radius + c]
        for k in range(1, radius + 1):
            square = np.float32(k * k)
            left, right = padded[radius - k :], padded[radius + k :]
            for c in range(cols):
                d = (left[c] if left[c] < right[c] else right[c]) + square
                nearest[c] = d if d < nearest[c] else nearest[c]
        for c in range(cols):
            distance[r, c] = math.sqrt(nearest[c]) * resolution


@numba.njit(nogil=True, cache=True)
def _normal_equations(
    distance: NDArray[np.float32],
    origin: tuple[float, float],
    resolution: float,
    local: NDArray[np.float64],
    here: NDArray[np.float64],
    sigma: float,
    information: NDArray[np.float64],
    gradient: NDArray[np.float64],
) -> None:
    """Write J^T W J (3, 3) and J^T W r (3,) of the distances at the placed points; far points count little."""
    rows, cols = distance.shape
    information[:] = 0.0
    gradient[:] = 0.0
    c, s = math.cos(here[2]), math.sin(here[2])
    width = 2.0 * sigma
    for i in range(local.shape[0]):
        rx = c * local[i, 0] - s * local[i, 1]
        ry = s * local[i, 0] + c * local[i, 1]
        u = (here[0] + rx - origin[0]) / resolution - 0.5
        v = (here[1] + ry - origin[1]) / resolution - 0.5
        col, row = int(math.floor(u)), int(math.floor(v))
        if not (0 <= row < rows - 1 and 0 <= col < cols - 1):
            continue
        fu, fv = u - col, v - row
        d00, d01 = distance[row, col], distance[row, col + 1]
        d10, d11 = distance[row + 1, col], distance[row + 1, col + 1]
        low = d00 + (d01 - d00) * fu
        high = d10 + (d11 - d10) * fu
        d = low + (high - low) * fv
        gx = ((d01 - d00) * (1.0 - fv) + (d11 - d10) * fv) / resolution
        gy = (high - low) / resolution
        ratio = d / width
        weight = 1.0 / (1.0 + ratio * ratio)
        weight *= weight
        gt = gy * rx - gx * ry
        information[0, 0] += weight * gx * gx
        information[0, 1] += weight * gx * gy
        information[0, 2] += weight * gx * gt
        information[1, 1] += weight * gy * gy
        information[1, 2] += weight * gy * gt
        information[2, 2] += weight * gt * gt
        gradient[0] += weight * d * gx
        gradient[1] += weight * d * gy
        gradient[2] += weight * d * gt
    information[1, 0] = information[0, 1]
    information[2, 0] = information[0, 2]
    information[2, 1] = information[1, 2]


@numba.njit(nogil=True, cache=True)
def _bound(
    fits: NDArray[np.uint8],
    against: NDArray[np.uint8],
    ends: NDArray[np.int32],
    clear: NDArray[np.int32],
    row: int,
    col: int,
    outside: int,
) -> int:
    """Return the best score, in parts of _WHOLE, that any place in a level's square at (row, col) can have."""
    rows, cols = fits.shape
    good = bad = 0
    for i in range(ends.shape[0]):
        r, c = ends[i, 0] + row, ends[i, 1] + col
        if 0 <= r < rows and 0 <= c < cols:
            good += fits[r, c]
    for i in range(clear.shape[0]):
        r, c = clear[i, 0] + row, clear[i, 1] + col
        if 0 <= r < rows and 0 <= c < cols:
            bad += against[r, c]
        else:
            bad += outside
    score: int = good * 1000 // ends.shape[0]
    if clear.shape[0] > 0:
        score -= bad * 1000 // clear.shape[0]
    return score


@numba.njit(nogil=True, cache=True)
def _search_kernel(
    fits: NDArray[np.uint8],
    against: NDArray[np.uint8],
    is_open: NDArray[np.bool_],
    ends: NDArray[np.int32],
    clear: NDArray[np.int32],
    bounds: tuple[int, int, int, int],
    outside: int,
    margin: int,
    apart: tuple[float, float],
    yaws: NDArray[np.float64],
    most: int,
    max_nodes: int,
) -> tuple[list[tuple[int, int, int, int]], bool]:
    """Take squares of places in the order of their bounds; single cells that come up are answers, best first."""
    row0, row1, col0, col1 = bounds
    top = fits.shape[0] - 1
    size = 1 << top
    rows, cols = fits.shape[1], fits.shape[2]
    heap = [(0, 0, 0, 0, 0)]
    heap.clear()
    nodes = 0
    for angle in range(yaws.size):
        for row in range(row0, row1, size):
            for col in range(col0, col1, size):
                if is_open[top, row, col]:
                    nodes += 1
                    bound = _bound(
                        fits[top], against[top], ends[angle], clear[angle], row, col, outside
                    )
                    heap.append((-bound, top, angle, row, col))
    heapq.heapify(heap)
    found = [(0, 0, 0, 0)]
    found.clear()
    while len(heap) > 0:
        cost, level, angle, row, col = heapq.heappop(heap)
        if len(found) > 0 and -cost < found[0][0] - margin:
            return found, True
        if level == 0:
            is_new = True
            for _, other, r, c in found:
                turn = abs(yaws[angle] - yaws[other]) % math.tau
                turn = min(turn, math.tau - turn)
                if math.hypot(row - r, col - c) < apart[0] and turn < apart[1]:
                    is_new = False
            if is_new:
                found.append((-cost, angle, row, col))
                if len(found) >= most:
                    return found, True
            continue
        if nodes > max_nodes:
            return found, False
        half = 1 << (level - 1)
        for r in (row, row + half):
            for c in (col, col + half):
                if r < row1 and c < col1 and r < rows and c < cols and is_open[level - 1, r, c]:
                    nodes += 1
                    bound = _bound(
                        fits[level - 1],
                        against[level - 1],
                        ends[angle],
                        clear[angle],
                        r,
                        c,
                        outside,
                    )
                    heapq.heappush(heap, (-bound, level - 1, angle, r, c))
    return found, True


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache: some seconds at most, once per process."""
    occupancy = np.zeros((8, 8), np.int8)
    occupancy[0] = 100
    geometry = GridGeometry(0.1, (0.0, 0.0), (8, 8))
    field = DistanceField(occupancy, geometry)
    points = np.array([[0.3, -0.2], [0.1, -0.2]])
    LikelihoodPyramid(occupancy, geometry, field).search(points, points + 0.2, (0.2, 0.2))
    refine(field, points, (0.2, 0.2, 0.0), (0.0, 0.0))
