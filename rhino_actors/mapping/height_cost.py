"""Height cost: from a voxel map to where a legged robot can go, as a whole or only where the map changed.

How it is wired: `costmap.update(voxel_mapper, voxel_mapper.take_changed())` after a frame; it returns the cells whose
cost changed. Costs: -1 unknown; 0 flat; up to 64 rough but passable (64: a step or slope just below the limit); 100
lethal. So a reader with the map server's threshold, 65, as `inflate` has, sees the same obstacles.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rhino_actors.mapping import height_kernels as kernels
from rhino_actors.mapping.voxels import VoxelMapper
from rhino_actors.mapping.window import EMPTY_WINDOW, CellWindow
from rhino_actors.messages.grid import UNKNOWN, GridGeometry

TILE_CELLS = 64  # the grid grows by whole tiles
MAX_CELLS = 64_000_000
MAX_SLOPE_DEG = 30.0  # what the Go2 is sold for

_GROUND_RADIUS = 0.4  # [m] around a column in which its local ground is looked for
_LIKE_HEIGHT = 0.1  # [m] between surfaces that support one another
_BRINK_REACH = 1.0  # [m] of unseen cells behind which a lower floor is a drop-off
# Unseen cells over which a step may grow with the slope; beyond, what is unseen is no ramp.
_STEEP_CELLS = 3
# [m] on each side over which a slope is measured: the half of the robot's stance.
_SLOPE_REACH = 0.2
_ISLAND_SIZE = 2.0  # [m] of the box that a table's or bed's top fits in
_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class HeightLayers:
    """All that is known of the ground, on one grid. Arrays are (rows, cols) and the caller's."""

    geometry: GridGeometry
    cost: NDArray[np.int8]  # -1, 0..64, 100
    # True: never seen, filled in between seen ground; its cost is a guess.
    inferred: NDArray[np.bool_]
    height: NDArray[np.float32]  # [m] of the ground's surface above z = 0; NaN where there is none


class _Limits(NamedTuple):
    """The limits in the units of the kernels."""

    level: float  # [m]
    gap: int  # levels
    climb: float  # [m]
    blocked: int  # levels
    noise: float  # [m]
    noise_levels: int
    like: int  # levels
    ground: int  # cells
    fill: int  # cells
    slope: int  # cells
    island: int  # cells
    steepest: float  # rise over run
    weights: NDArray[np.float32]
    steps: NDArray[np.float32]  # [m] by distance in cells


class HeightCostmap:
    """The height cost of a voxel map, kept up to date window by window; equal to a whole run at any time.

    A column blocks unless there is a free vertical gap of `can_pass_under` above its floor; what hangs higher does not
    count. The floor is the local one: the lowest surface within 0.4 m that others of its height surround. The higher
    cell of a step of `can_climb` or more is lethal, be it an obstacle or the brink of a drop, also when up to
    1 m between the two was not seen. A slope steeper than `max_slope_deg` over 0.4 m is lethal, and so is a raised
    place no larger than 2 m that falls away around (a table's top). Rises up to `ignore_noise` cost nothing.
    Unknown stays unknown, but for holes of up to 2 * `smoothing` cells in seen ground: these are filled in and marked
    as inferred. Where no ground is near, what is above the sensor that saw it, a ceiling, is not taken for ground.

    Cells are those of the voxel map: edges on multiples of the voxel size; the grid grows by tiles of 64 cells.
    Memory is 27 bytes a cell of the grid. Not thread-safe.

    Attributes:
        growth_refused: updates of which a part was dropped because the grid may not grow any more.

    Source: own. The parameters' names and meaning are those of the dimos height cost.
    """

    def __init__(
        self,
        resolution: float = 0.05,
        *,
        can_pass_under: float = 0.6,
        can_climb: float = 0.15,
        ignore_noise: float = 0.05,
        smoothing: float = 1.0,
        max_slope_deg: float = MAX_SLOPE_DEG,
        max_cells: int = MAX_CELLS,
    ) -> None:
        """Start with an empty grid.

        Args:
            resolution: edge of a cell and of a voxel [m].
            can_pass_under: free height that the robot needs [m].
            can_climb: a step of this height is lethal [m].
            ignore_noise: a rise up to this is noise [m]; one voxel at least.
            smoothing: standard deviation [cells] over which ground of like height is averaged; edges stay sharp.
            max_slope_deg: a slope of this angle is lethal [deg].
            max_cells: bound on rows times cols of the grid.

        Raises:
            ValueError: a value out of its bounds.
        """
        positive = (resolution, can_pass_under, can_climb)
        if not all(math.isfinite(v) and v > 0.0 for v in positive):
            raise ValueError(
                f"resolution, can_pass_under and can_climb must be positive: {positive}"
            )
        if not 0.0 <= ignore_noise < math.inf:
            raise ValueError(f"ignore_noise cannot be {ignore_noise}")
        if not 0.0 <= smoothing <= 10.0:
            raise ValueError(f"smoothing must be 0 to 10 cells, not {smoothing}")
        if not 0.0 < max_slope_deg < 90.0:
            raise ValueError(f"max_slope_deg must be between 0 and 90, not {max_slope_deg}")
        self._resolution = float(resolution)
        self._limits = _limits(
            self._resolution, can_pass_under, can_climb, ignore_noise, smoothing, max_slope_deg
        )
        self._max_cells = max_cells
        self._extent = EMPTY_WINDOW  # world cells
        self._backing = EMPTY_WINDOW  # what is allocated
        self._fields = _Fields.empty((0, 0))
        self.growth_refused = 0

    @property
    def geometry(self) -> GridGeometry:
        """Where the grid lies now; one cell at the origin while it is empty."""
        shape = self._extent.shape if not self._extent.is_empty else (1, 1)
        origin = (self._extent.col0 * self._resolution, self._extent.row0 * self._resolution)
        return GridGeometry(self._resolution, origin, shape)

    @property
    def extent(self) -> CellWindow:
        """The grid in world cells."""
        return self._extent

    def cost(self) -> NDArray[np.int8]:
        """Return (rows, cols) of `geometry`: -1 unknown, 0..64 passable, 100 lethal; a copy that is the caller's."""
        if self._extent.is_empty:
            return np.full((1, 1), UNKNOWN, np.int8)
        return self._fields.result[self._local(self._extent).slices].copy()

    def read(self, window: CellWindow) -> NDArray[np.int8]:
        """Return the cost of a window of world cells, -1 beyond the grid; a copy that is the caller's."""
        cells = np.full(window.shape, UNKNOWN, np.int8)
        inside = window.clipped(self._extent)
        if not inside.is_empty:
            target = inside.moved(-window.row0, -window.col0).slices
            cells[target] = self._fields.result[self._local(inside).slices]
        return cells

    def inferred(self) -> NDArray[np.bool_]:
        """Return (rows, cols), True where the cost is filled in and the ground was never seen; a copy."""
        if self._extent.is_empty:
            return np.zeros((1, 1), np.bool_)
        return np.equal(self._fields.kind[self._local(self._extent).slices], kernels.INFERRED)

    def layers(self) -> HeightLayers:
        """Return cost, inferred cells and ground height together, as copies."""
        if self._extent.is_empty:
            height = np.full((1, 1), np.nan, np.float32)
            return HeightLayers(self.geometry, self.cost(), self.inferred(), height)
        part = self._local(self._extent).slices
        kind = self._fields.kind[part]
        has_ground = (kind == kernels.GROUND) | (kind == kernels.INFERRED)
        height = np.where(has_ground, self._fields.height[part], np.float32(np.nan))
        return HeightLayers(self.geometry, self.cost(), kind == kernels.INFERRED, height)

    def update(self, voxels: VoxelMapper, changed: CellWindow) -> CellWindow:
        """Bring the cost up to date after columns of the voxel map changed.

        Args:
            voxels: the map, with the same cells; not changed.
            changed: world cells in which columns may have changed since the last update: what `take_changed`
                returns, or `extent` for the whole map.

        Returns:
            The cells of the present grid whose cost or inferred mark may have changed; may be empty.

        Raises:
            ValueError: the voxels are of another size.
        """
        if voxels.voxel_size != self._resolution:
            raise ValueError(f"voxels of {voxels.voxel_size} m on cells of {self._resolution} m")
        if changed.is_empty:
            return EMPTY_WINDOW
        self._grow(changed)
        window = self._local(changed.clipped(self._extent))
        if window.is_empty:
            return EMPTY_WINDOW
        corner = (self._backing.row0, self._backing.col0)
        grid = self._local(self._extent)
        now = _update(voxels, self._limits, self._resolution, self._fields, grid, window, corner)
        return now.moved(
            self._backing.row0 - self._extent.row0, self._backing.col0 - self._extent.col0
        )

    def _grow(self, wanted: CellWindow) -> None:
        target = self._extent.united(_whole_tiles(wanted))
        if math.prod(target.shape) > self._max_cells:
            self.growth_refused += 1
            return
        if target != target.clipped(self._backing):
            is_first = self._extent.is_empty
            spare = [
                0 if is_first else max(TILE_CELLS, size // 2 // TILE_CELLS * TILE_CELLS)
                for size in target.shape
            ]
            roomy = CellWindow(
                target.row0 - (spare[0] if target.row0 < self._backing.row0 else 0),
                target.row1 + (spare[0] if target.row1 > self._backing.row1 else 0),
                target.col0 - (spare[1] if target.col0 < self._backing.col0 else 0),
                target.col1 + (spare[1] if target.col1 > self._backing.col1 else 0),
            )
            backing = roomy if math.prod(roomy.shape) <= self._max_cells else target
            fields = _Fields.empty(backing.shape)
            if not self._extent.is_empty:
                old = self._local(self._extent).slices
                new = self._extent.moved(-backing.row0, -backing.col0).slices
                for name in _Fields._fields:
                    getattr(fields, name)[new] = getattr(self._fields, name)[old]
            self._fields, self._backing = fields, backing
        self._extent = target

    def _local(self, window: CellWindow) -> CellWindow:
        """Return a window of world cells as one of the allocated arrays."""
        return window.moved(-self._backing.row0, -self._backing.col0)


def height_cost(
    points: ArrayLike,
    resolution: float = 0.05,
    can_pass_under: float = 0.6,
    can_climb: float = 0.15,
    ignore_noise: float = 0.05,
    smoothing: float = 1.0,
    *,
    max_slope_deg: float = MAX_SLOPE_DEG,
) -> tuple[NDArray[np.int8], GridGeometry]:
    """Return the height cost of points as a grid; see HeightCostmap for the rules.

    Args:
        points: (N, 3) [m], voxel centres or points of any kind. NaN and infinite points do not count.
        resolution: edge of a cell [m]; heights are told apart by the same length.
        can_pass_under: free height that the robot needs [m].
        can_climb: a step of this height is lethal [m].
        ignore_noise: a rise up to this is noise [m].
        smoothing: standard deviation [cells] over which ground is averaged; 0 also fills no holes.
        max_slope_deg: a slope of this angle is lethal [deg].

    Returns:
        (rows, cols) int8: -1 unknown, 0 flat, up to 64 passable, 100 lethal; and where it lies. Holes that were
        filled have a cost here; `height_layers` tells which they are. Without points one unknown cell.

    Raises:
        ValueError: wrong shape, a value out of its bounds, or points too far apart for a grid.
    """
    layers = height_layers(
        points,
        resolution,
        can_pass_under,
        can_climb,
        ignore_noise,
        smoothing,
        max_slope_deg=max_slope_deg,
    )
    return layers.cost, layers.geometry


def height_layers(
    points: ArrayLike,
    resolution: float = 0.05,
    can_pass_under: float = 0.6,
    can_climb: float = 0.15,
    ignore_noise: float = 0.05,
    smoothing: float = 1.0,
    *,
    max_slope_deg: float = MAX_SLOPE_DEG,
) -> HeightLayers:
    """Return what `height_cost` does, with the marks of inferred cells and the ground's height."""
    costmap = HeightCostmap(
        resolution,
        can_pass_under=can_pass_under,
        can_climb=can_climb,
        ignore_noise=ignore_noise,
        smoothing=smoothing,
        max_slope_deg=max_slope_deg,
    )
    voxels = VoxelMapper.of_points(points, resolution)
    extent = voxels.take_changed()
    if not extent.is_empty and math.prod(_whole_tiles(extent).shape) > MAX_CELLS:
        raise ValueError(f"the points span {extent.shape} cells, too many for a grid")
    costmap.update(voxels, extent)
    layers = costmap.layers()
    if extent.is_empty:
        return layers
    part = extent.moved(-costmap.extent.row0, -costmap.extent.col0).slices
    origin = (extent.col0 * float(resolution), extent.row0 * float(resolution))
    return HeightLayers(
        GridGeometry(float(resolution), origin, extent.shape),
        layers.cost[part].copy(),
        layers.inferred[part].copy(),
        layers.height[part].copy(),
    )


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache: some seconds at most, once per process."""
    steps = np.arange(0.025, 1.0, 0.05)
    x, y = np.meshgrid(steps, steps)
    z = np.where(x < 0.5, 0.0, 0.5)
    points = np.stack([x.ravel(), y.ravel(), z.ravel()], 1).astype(np.float32)
    height_cost(points)


class _Fields(NamedTuple):
    """What is kept for each cell of the allocated grid. Most begins as 0, which takes no memory until it is written."""

    low_bottom: NDArray[np.int16]
    low_top: NDArray[np.int16]
    next_bottom: NDArray[np.int16]
    next_top: NDArray[np.int16]
    hung: NDArray[np.uint8]
    kind: NDArray[np.uint8]
    bottom: NDArray[np.int16]
    top: NDArray[np.int16]
    quiet: NDArray[np.uint8]
    height: NDArray[np.float32]
    step: NDArray[np.int8]
    cost: NDArray[np.int8]
    rim: NDArray[np.uint8]
    marks: NDArray[np.uint8]
    result: NDArray[np.int8]

    @classmethod
    def empty(cls, shape: tuple[int, int]) -> "_Fields":
        return cls(
            low_bottom=np.zeros(shape, np.int16),
            low_top=np.zeros(shape, np.int16),
            next_bottom=np.zeros(shape, np.int16),
            next_top=np.zeros(shape, np.int16),
            hung=np.zeros(shape, np.uint8),
            kind=np.zeros(shape, np.uint8),
            bottom=np.zeros(shape, np.int16),
            top=np.zeros(shape, np.int16),
            quiet=np.zeros(shape, np.uint8),
            height=np.zeros(shape, np.float32),
            step=np.full(shape, UNKNOWN, np.int8),
            cost=np.full(shape, UNKNOWN, np.int8),
            rim=np.zeros(shape, np.uint8),
            marks=np.zeros(shape, np.uint8),
            result=np.full(shape, UNKNOWN, np.int8),
        )


def _limits(
    resolution: float,
    can_pass_under: float,
    can_climb: float,
    ignore_noise: float,
    smoothing: float,
    max_slope_deg: float,
) -> _Limits:
    steepest = math.tan(math.radians(max_slope_deg))
    reach = max(1, round(_BRINK_REACH / resolution))
    grows = np.minimum(np.arange(reach), _STEEP_CELLS)
    radius = math.ceil(smoothing)
    square = np.arange(-radius, radius + 1) ** 2
    spread = np.exp(-(square[:, None] + square) / (2.0 * max(smoothing, _EPSILON) ** 2))
    return _Limits(
        level=resolution,
        gap=math.ceil(can_pass_under / resolution - _EPSILON),
        climb=float(can_climb),
        blocked=math.ceil(can_climb / resolution - _EPSILON) + 1,
        noise=max(float(ignore_noise), resolution) + _EPSILON,
        noise_levels=max(1, math.floor(ignore_noise / resolution + _EPSILON)),
        like=max(1, round(_LIKE_HEIGHT / resolution)),
        ground=max(1, round(_GROUND_RADIUS / resolution)),
        fill=math.ceil(2.0 * smoothing),
        slope=max(2, round(_SLOPE_REACH / resolution)),
        island=max(1, round(_ISLAND_SIZE / resolution)),
        steepest=steepest,
        weights=spread.astype(np.float32),
        steps=(can_climb + steepest * resolution * grows).astype(np.float32),
    )


def _update(
    voxels: VoxelMapper,
    limits: _Limits,
    resolution: float,
    fields: _Fields,
    grid: CellWindow,
    window: CellWindow,
    corner: tuple[int, int],
) -> CellWindow:
    """Run the kernels around a window of the arrays, each as far as the one before it changed something."""
    f = fields
    stacks = (f.low_bottom, f.low_top, f.next_bottom, f.next_top)
    changed = kernels.find_stacks(
        voxels.store, window.as_tuple(), corner, limits.gap, stacks, f.hung
    )
    window = CellWindow(*changed)
    if window.is_empty:
        return EMPTY_WINDOW
    window = window.grown(limits.ground + 2).clipped(grid)
    changed = kernels.find_ground(
        window.as_tuple(),
        stacks,
        f.hung,
        limits.like,
        limits.ground,
        limits.gap,
        limits.blocked,
        f.kind,
        f.bottom,
        f.top,
    )
    window = CellWindow(*changed)
    if window.is_empty:
        return EMPTY_WINDOW
    window = window.grown(limits.weights.shape[0] // 2).clipped(grid)
    kernels.smooth_ground(
        window.as_tuple(),
        f.kind,
        f.top,
        limits.weights,
        limits.noise_levels,
        limits.level,
        f.height,
    )
    kernels.find_quiet(
        window.grown(limits.slope + limits.fill).clipped(grid).as_tuple(),
        f.kind,
        f.height,
        limits.slope + limits.fill,
        limits.noise,
        f.quiet,
    )
    window = window.grown(len(limits.steps)).clipped(grid)
    kernels.find_steps(
        window.as_tuple(), f.kind, f.height, f.quiet, limits.noise, limits.steps, f.step
    )
    window = window.grown(limits.fill).clipped(grid)
    kernels.infer_ground(
        window.as_tuple(), limits.fill, limits.noise, limits.steps, f.kind, f.height, f.step
    )
    window = window.grown(limits.slope).clipped(grid)
    kernels.find_slopes(
        window.as_tuple(),
        f.kind,
        f.height,
        f.quiet,
        f.step,
        limits.slope,
        resolution,
        limits.noise,
        limits.climb,
        limits.steepest,
        f.cost,
    )
    window = window.grown(1).clipped(grid)
    kernels.find_rims(
        window.as_tuple(),
        f.kind,
        f.bottom,
        f.top,
        f.height,
        f.cost,
        limits.level,
        limits.climb,
        f.rim,
    )
    kernels.close_islands(window.as_tuple(), limits.island, f.cost, f.rim, f.marks, f.result)
    return window.grown(limits.island).clipped(grid)


def _whole_tiles(window: CellWindow) -> CellWindow:
    """Return the smallest window of whole tiles around it."""
    row0, row1, col0, col1 = window
    return CellWindow(
        row0 // TILE_CELLS * TILE_CELLS,
        -(-row1 // TILE_CELLS) * TILE_CELLS,
        col0 // TILE_CELLS * TILE_CELLS,
        -(-col1 // TILE_CELLS) * TILE_CELLS,
    )
