"""The layers of the running map behind one face: a frame goes into each, and what they say together is published."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.errors import ConfigError, StorageError
from rhino_actors.geometry import compose, transform_points
from rhino_actors.mapping.height_cost import HeightCostmap
from rhino_actors.mapping.loaded_map import mapper_state, on_lattice
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.mapping.tiles import MapTiles
from rhino_actors.mapping.voxel_tiles import VoxelTiles
from rhino_actors.mapping.voxels import Carving, VoxelBricks, VoxelMapper
from rhino_actors.mapping.window import EMPTY_WINDOW, CellWindow
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, NO_CORRECTION, OCCUPIED, GridGeometry, MapLayer
from rhino_actors.messages.sensors import LidarFrame, LidarKind

_LETHAL = 65  # height cost from which a cell is an obstacle
_VOXELS = "voxels_"  # before the names of the voxel map's arrays in a state


class MapLayers:
    """The map of one robot. Not for two threads at once.

    With `voxels` a cell is an obstacle where the height cost is lethal, free where the ground was seen or lies in a
    small hole of seen ground. With `both` an obstacle of either layer counts, and what one of them knows is known.

    Attributes:
        occupancy: the 2D layer; another one, e.g. a loaded map, may be put in its place between two frames.
        voxels: the 3D layer, None without it.
        tiles: the map as it is published.
        bricks: the voxels as they are published; no brick without the 3D layer.
    """

    def __init__(self, config: MapperConfig, robot: RobotConfig) -> None:
        """Start with an empty map.

        Raises:
            ConfigError: there is no such carving.
            ValueError: a value out of its bounds.
        """
        if config.carving not in tuple(Carving):
            known = ", ".join(Carving)
            raise ConfigError(f"mapper.carving is {config.carving!r}.", f"Known: {known}.")
        self._max_cells = config.max_cells
        self.occupancy = OccupancyMapper(
            config.resolution,
            max_range=config.max_range,
            hit_log_odds=config.hit_log_odds,
            miss_log_odds=config.miss_log_odds,
            max_log_odds=config.max_log_odds,
            obstacle_min_height=robot.obstacle_min_height,
            obstacle_max_height=robot.obstacle_max_height,
            body_length=robot.length,
            body_width=robot.width,
            max_cells=config.max_cells,
        )
        self._fuses_occupancy = config.layers is not MapLayer.VOXELS
        self.voxels: VoxelMapper | None = None
        self.bricks = VoxelTiles(config.resolution)
        self._heights: HeightCostmap | None = None
        if config.layers is not MapLayer.OCCUPANCY:
            self.voxels = VoxelMapper(
                config.resolution,
                carving=config.carving,
                max_voxels=config.max_voxels,
                clear_range=config.max_range,
                body_length=robot.length,
                body_width=robot.width,
            )
            self._heights = HeightCostmap(
                config.resolution,
                can_pass_under=robot.obstacle_max_height,
                can_climb=config.can_climb,
                ignore_noise=config.ignore_noise,
                smoothing=config.smoothing,
                max_slope_deg=math.degrees(config.max_slope),
                max_cells=config.max_cells,
            )
        # World cells and bricks that readers have and the layers may not hold any more.
        self._stale = EMPTY_WINDOW
        self._gone: NDArray[np.int32] = np.zeros((0, 3), np.int32)
        self.tiles = MapTiles(
            config.resolution,
            inscribed_radius=robot.inscribed_radius,
            inflation_radius=robot.inflation_radius,
            cost_scaling_factor=robot.cost_scaling_factor,
        )

    @property
    def geometry(self) -> GridGeometry:
        """Where the published map lies."""
        return self.tiles.geometry

    @property
    def known_area(self) -> float:
        """Area that is not unknown on the published map [m2]."""
        return self.tiles.known_area

    @property
    def has_changed(self) -> bool:
        """True if something changed since `update_tiles`."""
        return (
            self.occupancy.has_changed
            or not self._stale.is_empty
            or (self.voxels is not None and self.voxels.has_changed)
        )

    def integrate(self, frame: LidarFrame, map_from_odom: Pose2D = NO_CORRECTION) -> None:
        """Fuse a frame, moved from odom into the map."""
        points: NDArray[np.floating] = frame.points
        origin, pose = frame.origin, frame.pose
        if map_from_odom != NO_CORRECTION:
            correction = map_from_odom.as_tuple()
            points = transform_points(correction, points)
            x, y, z = transform_points(correction, [origin])[0].tolist()
            origin, pose = (x, y, z), Pose2D(*compose(correction, pose.as_tuple()))
        if self._fuses_occupancy:
            self.occupancy.integrate(
                points,
                origin,
                pose=pose,
                voxel_size=frame.resolution if frame.kind is LidarKind.VOXEL else 0.0,
            )
        if self.voxels is not None:
            self.voxels.add_frame(points, origin, pose=pose)

    def read(self, window: CellWindow) -> NDArray[np.int8]:
        """Return what the layers say together of a window of world cells: -1 unknown, 0..100; the caller's."""
        cells = self.occupancy.read(window)
        if self._heights is None:
            return cells
        cost = self._heights.read(window)
        ground = np.where(cost >= _LETHAL, OCCUPIED, np.where(cost >= 0, FREE, cost))
        return np.maximum(cells, ground).astype(np.int8)

    def update_tiles(self, seq: int) -> bool:
        """Bring tiles and bricks up to date as map `seq`; says if any tile differs from before."""
        self.settle()
        if self.voxels is not None:
            bricks = self.voxels.take_bricks()
            if len(self._gone):
                bricks = _with_gone(bricks, self._gone)
                self._gone = self._gone[:0]
            self.bricks.update(bricks, seq)
        changed, self._stale = self._stale, EMPTY_WINDOW
        return self.tiles.update(self.read, changed, seq) > 0

    def settle(self) -> None:
        """Compute what the layers say together where they changed; `update_tiles` does it too."""
        changed = self.occupancy.take_changed().moved(*self.occupancy.geometry.first_cell)
        if self.voxels is not None and self._heights is not None and self.voxels.has_changed:
            now = self._heights.update(self.voxels, self.voxels.take_changed())
            if not now.is_empty:
                changed = changed.united(now.moved(*self._heights.geometry.first_cell))
        self._stale = self._stale.united(changed)

    def take_over(self, drawn: "MapLayers") -> None:
        """Go on with the map of other layers, of the same configuration, and use them up.

        Tiles and bricks stay, so that readers get what differs: what is not on the new map becomes unknown.
        """
        for grid in (self.occupancy.geometry, self._heights.geometry if self._heights else None):
            if grid is not None:
                row, col = grid.first_cell
                old = CellWindow(row, row + grid.shape[0], col, col + grid.shape[1])
                self._stale = self._stale.united(old)
        if self.voxels is not None:
            self._gone = np.concatenate([self._gone, self.bricks.places()])
        self.occupancy, self.voxels, self._heights = drawn.occupancy, drawn.voxels, drawn._heights
        self._stale = self._stale.united(drawn._stale)

    def occupancy_grid(self) -> NDArray[np.int8]:
        """Return the published map as one array (rows, cols) on `geometry`; the caller's."""
        return self.tiles.occupancy()

    def voxel_points(self) -> NDArray[np.float32] | None:
        """Return the centres of the voxels (N, 3) [m], None without the 3D layer."""
        return self.voxels.points() if self.voxels is not None else None

    def load(
        self,
        occupancy: NDArray[np.int8],
        geometry: GridGeometry,
        voxels: NDArray[np.float32] | None = None,
    ) -> None:
        """Take a map that was kept, brought onto this one's cells. For layers that are new.

        Args:
            occupancy: (rows, cols) int8, -1 unknown, 0..100, for the 2D layer.
            geometry: where it lies.
            voxels: (N, 3) centres [m] for the 3D layer, if there is one; None: it starts empty.

        Raises:
            MapTooLarge, StorageError: it does not fit.
        """
        fitted, lattice = on_lattice(
            occupancy, geometry, self.occupancy.geometry.resolution, max_cells=self._max_cells
        )
        self.occupancy.restore(mapper_state(fitted, lattice, self.occupancy.state()))
        if self.voxels is not None and voxels is not None:
            kept = VoxelMapper.of_points(voxels, self.voxels.voxel_size)
            self.voxels.restore(kept.state())

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return what `restore` needs, as named arrays that are the caller's."""
        state = self.occupancy.state()
        if self.voxels is not None:
            state |= {_VOXELS + name: array for name, array in self.voxels.state().items()}
        return state

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the map of a `state`. Raises StorageError; the map is as it was then.

        A state without voxels is taken too: the 3D layer starts empty.
        """
        kept = {
            name.removeprefix(_VOXELS): array
            for name, array in state.items()
            if name.startswith(_VOXELS)
        }
        before = self.occupancy.state()
        self.occupancy.restore(state)
        if self.voxels is not None and kept:
            try:
                self.voxels.restore(kept)
            except StorageError:
                self.occupancy.restore(before)
                raise


def _with_gone(bricks: VoxelBricks, gone: NDArray[np.int32]) -> VoxelBricks:
    """Return bricks with empty ones where there were some and are none any more."""
    held = {tuple(place) for place in bricks.place.tolist()}
    empty = np.array([p for p in gone.tolist() if tuple(p) not in held], np.int32).reshape(-1, 3)
    words = np.zeros((len(empty), *bricks.words.shape[1:]), np.uint64)
    return VoxelBricks(np.concatenate([bricks.place, empty]), np.concatenate([bricks.words, words]))
