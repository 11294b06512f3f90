"""OccupancyMapper: lidar frames to a log-odds occupancy grid that grows with what was seen."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rhino_actors.errors import StorageError
from rhino_actors.mapping import raycast
from rhino_actors.mapping.window import EMPTY_WINDOW, CellWindow
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import TILE_CELLS, UNKNOWN, GridGeometry

# Log odds are kept as whole steps, so that sums are exact and the order of frames does not matter.
STEPS_PER_UNIT = 500
# Of a cell of this occupancy and more, what a voxel map shows beyond it takes but a share of what floor seen in the
# cell itself takes. Less, and people who left stay too long; more, and walls that the robot passed wear off.
_KEPT_OCCUPANCY = 65
_CROSSED = 0.25
# Azimuth bins around the sensor: a quarter of a degree, one cell of 5 cm at 11 m.
_BINS = 1440
_STATE_VERSION = 1


class OccupancyMapper:
    """Fuses lidar frames, given in odom, into an occupancy grid.

    Every cell holds the log odds of being occupied, clamped to `max_log_odds` on both sides; a cell that no
    beam has touched is unknown. With the defaults a ghost is free again (below 65) after 8 frames that look
    through it, however long it was seen; an obstacle is lethal after 5 frames in free space, after 1 in unknown.

    A frame of voxels is the robot's own memory of the last seconds, seen from elsewhere too. So a column with floor
    in it and no obstacle is cleared as by a beam, and so is what lies before it; but an obstacle that only lies
    before such floor loses a quarter of that: the robot may have seen the floor from elsewhere.

    Cells never move in the world: cell edges lie on multiples of the resolution, and the grid grows by whole tiles in
    any direction until `max_cells`. A tile is stored when one of its cells is observed and stays where it is in
    memory: growth copies no cell. Not thread-safe: one caller at a time.

    Attributes:
        growth_refused: frames of which a part was dropped because the grid may not grow any more.

    Source: occupancy grids with log odds (Thrun, Burgard, Fox: Probabilistic Robotics, 9.2); polar reduction: own.
    """

    def __init__(
        self,
        resolution: float = 0.05,
        *,
        max_range: float = 20.0,
        min_range: float = 0.05,
        hit_log_odds: float = 0.85,
        miss_log_odds: float = 0.4,
        max_log_odds: float = 3.5,
        obstacle_min_height: float = 0.08,
        obstacle_max_height: float = 0.60,
        body_length: float = 0.0,
        body_width: float = 0.0,
        max_cells: int = 64_000_000,
    ) -> None:
        """Start with an empty grid.

        Args:
            resolution: cell edge [m].
            max_range: farthest return that marks [m]; a point beyond met nothing: it clears this far.
            min_range: nearest return that counts [m].
            hit_log_odds: evidence of one frame that hit a cell.
            miss_log_odds: evidence of one frame that looked through it.
            max_log_odds: clamp of the evidence, at most 60.
            obstacle_min_height: points lower than this above z = 0 are floor and only clear [m].
            obstacle_max_height: points higher than this are passed under and ignored [m].
            body_length: of the box along the robot's x [m] in which points are the robot itself; 0: no box.
            body_width: of the box along its y [m]; the disc of this diameter is known free.
            max_cells: bound on rows times cols of the grid.

        Raises:
            ValueError: a value out of its bounds.
        """
        positive = (resolution, max_range, hit_log_odds, miss_log_odds, max_log_odds)
        if not all(math.isfinite(v) and v > 0.0 for v in positive):
            raise ValueError(f"resolution, range and evidence must be positive: {positive}")
        if not 0.0 <= min_range < max_range:
            raise ValueError(f"min_range {min_range} is not between 0 and max_range {max_range}")
        if not 0.0 <= obstacle_min_height <= obstacle_max_height:
            raise ValueError("obstacle_min_height must be between 0 and obstacle_max_height")
        if body_length < 0.0 or body_width < 0.0:
            raise ValueError("the body's length and width cannot be negative")
        if max_log_odds > 60.0:
            raise ValueError(f"max_log_odds {max_log_odds} is more than 60")
        if max_cells < TILE_CELLS**2:
            raise ValueError(f"max_cells must be at least one tile, {TILE_CELLS**2}")
        self._resolution = float(resolution)
        self._ranges = (float(min_range), float(max_range))
        self._band = (float(obstacle_min_height), float(obstacle_max_height))
        self._body = (float(body_length) / 2.0, float(body_width) / 2.0)
        self._max_cells = max_cells
        miss = _steps(miss_log_odds)
        self._weights = (_steps(hit_log_odds), miss, round(_CROSSED * miss))
        self._table = _occupancy_table(_steps(max_log_odds))
        self._keep = int(np.searchsorted(self._table, _KEPT_OCCUPANCY))

        self._margin = math.ceil(max_range / resolution) + 1
        side = 2 * self._margin + 3
        self._scratch = np.zeros((side, side), np.uint8)
        self._reach = np.empty(_BINS)
        self._limit = np.empty(_BINS)
        self._direction = np.empty((_BINS, 2))

        # Windows in world cells: row, col of the cell whose lower-left corner is at row, col * resolution.
        self._extent = EMPTY_WINDOW  # in whole tiles
        self._changed = EMPTY_WINDOW
        self._tiles = np.zeros(
            (0, 0), np.int32
        )  # places in the pool of the extent's tiles, -1: none
        # The system gives memory to a place when it is first written.
        self._pool = np.zeros((-(-max_cells // TILE_CELLS**2), TILE_CELLS, TILE_CELLS), np.uint16)
        self._used = 0
        self._known = 0
        self.growth_refused = 0

    @property
    def geometry(self) -> GridGeometry:
        """Where the grid lies now; one cell at the origin before the first frame."""
        shape = self._extent.shape if not self._extent.is_empty else (1, 1)
        origin = (self._extent.col0 * self._resolution, self._extent.row0 * self._resolution)
        return GridGeometry(self._resolution, origin, shape)

    @property
    def known_area(self) -> float:
        """Area that was ever observed [m2]."""
        return self._known * self._resolution**2

    @property
    def memory(self) -> int:
        """Memory that the cells take [byte]."""
        return self._used * int(self._pool[:1].nbytes)

    def occupancy(self) -> NDArray[np.int8]:
        """Return (rows, cols) of `geometry`, -1 unknown, 0..100; a copy that is the caller's."""
        if self._extent.is_empty:
            return np.full((1, 1), UNKNOWN, np.int8)
        return self.read(self._extent)

    def read(self, window: CellWindow) -> NDArray[np.int8]:
        """Return the occupancy of a window of world cells, -1 beyond the grid; a copy that is the caller's."""
        cells = np.empty(window.shape, np.int8)
        corner = (window.row0 - self._extent.row0, window.col0 - self._extent.col0)
        raycast.read_cells(corner, self._tiles, self._pool, self._table, cells)
        return cells

    @property
    def has_changed(self) -> bool:
        """True if some cell's occupancy changed since `take_changed` was last called."""
        return not self._changed.is_empty

    def take_changed(self) -> CellWindow:
        """Return the cells of the present grid that hold every change of occupancy since the last call."""
        changed, self._changed = self._changed, EMPTY_WINDOW
        if changed.is_empty:
            return EMPTY_WINDOW
        return changed.moved(-self._extent.row0, -self._extent.col0)

    def integrate(
        self,
        points: ArrayLike,
        origin: Sequence[float] | NDArray[np.floating],
        *,
        pose: Pose2D | None = None,
        voxel_size: float = 0.0,
    ) -> int:
        """Fuse one frame. Each cell is updated at most once, and a hit wins over a miss.

        Per azimuth the nearest obstacle ends the clearing; without one it goes to the farthest floor point, or
        to `max_range` where a beam met nothing. All obstacles mark. NaN and infinite points neither clear
        nor mark, points at the sensor are ignored. If all points are at the sensor's height, every return
        within range is an obstacle. A frame without a usable point changes nothing.

        Args:
            points: (N, 3) beam ends or voxel centres in odom [m], N may be 0. Not changed.
            origin: (3,) of the sensor in odom [m].
            pose: of the robot in odom: its own points are left out and the floor under it is known free.
            voxel_size: edge [m] of the voxels that the points stand for; 0 for beam ends.

        Returns:
            The number of points that counted.

        Raises:
            ValueError: wrong shapes; an origin or pose that is not finite.
        """
        cloud = np.array(points, np.float64, order="C")  # a copy, so that the kernel knows one type
        if cloud.ndim != 2 or cloud.shape[1] != 3:
            raise ValueError(f"points must be (N, 3), not {cloud.shape}")
        sensor = _floats(origin)
        ends = np.empty((len(cloud), 2))
        box, disc = (0.0, 0.0, 1.0, 0.0, -1.0, -1.0), (0.0, 0.0, -1.0)
        if pose is not None:
            x, y, yaw = _floats(pose.as_tuple())
            if self._body[0] > 0.0 and self._body[1] > 0.0:
                box = (x, y, math.cos(yaw), math.sin(yaw), *self._body)
                disc = (x, y, self._body[1])
        obstacles, floors, used = raycast.reduce_beams(
            cloud,
            sensor,
            self._band,
            self._ranges,
            box,
            float(voxel_size),
            self._reach,
            self._limit,
            self._direction,
            ends,
        )
        if used == 0:
            return 0
        row, col = (
            math.floor(sensor[1] / self._resolution),
            math.floor(sensor[0] / self._resolution),
        )
        corner = (row - self._margin - 1, col - self._margin - 1)
        touched = CellWindow(
            *raycast.draw_frame(
                self._scratch,
                corner,
                self._resolution,
                sensor,
                self._reach,
                self._limit,
                self._direction,
                ends[:obstacles],
                ends[len(ends) - floors :],
                disc,
            )
        )
        self._grow(touched.moved(*corner), CellWindow(row, row + 1, col, col + 1))
        self._used, seen, *changed = raycast.apply_frame(
            self._scratch,
            touched.as_tuple(),
            self._extent.moved(-corner[0], -corner[1]).as_tuple(),
            (corner[0] - self._extent.row0, corner[1] - self._extent.col0),
            self._tiles,
            self._pool,
            self._used,
            self._weights,
            self._keep if voxel_size > 0.0 else self._table.size,
            self._table,
        )
        self._known += seen
        self._changed = self._changed.united(CellWindow(*changed).moved(*corner))
        return int(used)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return what `restore` needs, as named arrays that are the caller's: the map for a checkpoint."""
        return {
            "version": np.array(_STATE_VERSION),
            "resolution": np.array(self._resolution),
            "origin_cell": np.array([self._extent.row0, self._extent.col0], np.int64),
            "levels": np.array(self._table.size),
            "evidence": self._evidence(),
        }

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the map of a `state` with the same resolution, clamp and tiles; what was known before is dropped.

        Raises:
            StorageError: not such a state; this mapper is as it was.
        """
        try:
            version, levels = int(state["version"]), int(state["levels"])
            resolution = float(state["resolution"])
            row0, col0 = (int(v) for v in state["origin_cell"])
            evidence = state["evidence"]
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"The map's state cannot be read: {error}.") from error
        fits = (
            version == _STATE_VERSION
            and resolution == self._resolution
            and levels == self._table.size
            and evidence.ndim == 2
            and evidence.dtype == np.uint16
            and evidence.size <= self._max_cells
            and all(v % TILE_CELLS == 0 for v in (row0, col0, *evidence.shape))
            and (evidence.size == 0 or int(evidence.max()) < levels)
        )
        if not fits:
            raise StorageError("The map's state is of another kind of map, or damaged.")
        self._extent = CellWindow(row0, row0 + evidence.shape[0], col0, col0 + evidence.shape[1])
        self._changed = self._extent
        self._known = int(np.count_nonzero(evidence))
        self._pool[: self._used] = 0
        in_tiles = _by_tile(evidence.astype(np.uint16))
        is_kept = in_tiles.any(axis=(2, 3))
        self._used = int(np.count_nonzero(is_kept))
        self._tiles = np.full(is_kept.shape, -1, np.int32)
        self._tiles[is_kept] = np.arange(self._used)
        self._pool[: self._used] = in_tiles[is_kept]

    def _evidence(self) -> NDArray[np.uint16]:
        """Return the evidence of the whole extent, (rows, cols)."""
        evidence = np.zeros(self._extent.shape, np.uint16)
        in_tiles = _by_tile(evidence)
        is_kept = self._tiles >= 0
        in_tiles[is_kept] = self._pool[self._tiles[is_kept]]
        return evidence

    def _grow(self, wanted: CellWindow, sensor: CellWindow) -> None:
        """Let the grid reach over `wanted`, both in world cells, as far as `max_cells` allows."""
        extent = self._extent if not self._extent.is_empty else _whole_tiles(sensor)
        target = extent.united(_whole_tiles(wanted))
        refused = False
        for side in range(4):
            grown = list(extent)
            grown[side] = target[side]
            candidate = CellWindow(*grown)
            if math.prod(candidate.shape) <= self._max_cells:
                extent = candidate
            else:
                refused = True
        self.growth_refused += refused
        if extent != self._extent:
            self._cover(extent)

    def _cover(self, extent: CellWindow) -> None:
        """Let the table of tiles cover `extent`; the tiles themselves stay where they are."""
        rows, cols = extent.shape
        tiles = np.full((rows // TILE_CELLS, cols // TILE_CELLS), -1, np.int32)
        if not self._extent.is_empty:
            row = (self._extent.row0 - extent.row0) // TILE_CELLS
            col = (self._extent.col0 - extent.col0) // TILE_CELLS
            tiles[row : row + self._tiles.shape[0], col : col + self._tiles.shape[1]] = self._tiles
        self._tiles, self._extent = tiles, extent


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache: a few seconds at most, once per process."""
    mapper = OccupancyMapper(0.5, max_range=2.0, body_length=0.2, body_width=0.2)
    points = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.0]], np.float32)
    points.flags.writeable = False  # as frames from the object store are
    mapper.integrate(points, (0.0, 0.0, 0.3), pose=Pose2D(0.0, 0.0, 0.0), voxel_size=0.1)


def _steps(log_odds: float) -> int:
    return max(1, round(log_odds * STEPS_PER_UNIT))


def _occupancy_table(bound: int) -> NDArray[np.int8]:
    """Return the occupancy by evidence: entry 0 is unknown, entry 1 + bound is log odds 0."""
    log_odds = np.arange(-bound, bound + 1) / STEPS_PER_UNIT
    known = np.rint(100.0 / (1.0 + np.exp(-log_odds)))
    return np.concatenate([[UNKNOWN], known]).astype(np.int8)


def _by_tile(cells: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Return a view (tile rows, tile cols, TILE_CELLS, TILE_CELLS) of whole tiles' cells."""
    rows, cols = cells.shape
    split = cells.reshape(rows // TILE_CELLS, TILE_CELLS, cols // TILE_CELLS, TILE_CELLS)
    return split.swapaxes(1, 2)


def _floats(values: Sequence[float] | NDArray[np.floating]) -> tuple[float, float, float]:
    x, y, z = (float(v) for v in values)
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        raise ValueError(f"origin and pose must be finite, not {(x, y, z)}")
    return x, y, z


def _whole_tiles(window: CellWindow) -> CellWindow:
    """Return the smallest window of whole tiles around it."""
    row0, row1, col0, col1 = window
    return CellWindow(
        row0 // TILE_CELLS * TILE_CELLS,
        -(-row1 // TILE_CELLS) * TILE_CELLS,
        col0 // TILE_CELLS * TILE_CELLS,
        -(-col1 // TILE_CELLS) * TILE_CELLS,
    )
