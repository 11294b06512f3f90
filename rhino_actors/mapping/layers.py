"""The layers of the running map behind one face: a frame goes into each, and what they say together is published."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.errors import ConfigError, StorageError
from rhino_actors.geometry import compose, transform_points
from rhino_actors.mapping.height_cost import HeightCostmap
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.mapping.tiles import MapTiles
from rhino_actors.mapping.voxel_tiles import VoxelTiles
from rhino_actors.mapping.voxels import Carving, VoxelMapper
from rhino_actors.mapping.window import CellWindow
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
        return self.occupancy.has_changed or (self.voxels is not None and self.voxels.has_changed)

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
        changed = self.occupancy.take_changed().moved(*self.occupancy.geometry.first_cell)
        if self.voxels is not None and self._heights is not None and self.voxels.has_changed:
            now = self._heights.update(self.voxels, self.voxels.take_changed())
            if not now.is_empty:
                changed = changed.united(now.moved(*self._heights.geometry.first_cell))
            self.bricks.update(self.voxels.take_bricks(), seq)
        return self.tiles.update(self.read, changed, seq) > 0

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
