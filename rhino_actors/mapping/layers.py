"""The layers of the running map behind one face: a frame goes into each, and what they say together is published."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.geometry import compose, transform_points
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.mapping.tiles import MapTiles
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import NO_CORRECTION, GridGeometry
from rhino_actors.messages.sensors import LidarFrame, LidarKind


class MapLayers:
    """The map of one robot. Not for two threads at once.

    Attributes:
        occupancy: the 2D layer; another one, e.g. a loaded map, may be put in its place between two frames.
        tiles: the map as it is published.
    """

    def __init__(self, config: MapperConfig, robot: RobotConfig) -> None:
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
        """Area that was ever observed [m2]."""
        return self.occupancy.known_area

    @property
    def has_changed(self) -> bool:
        """True if a cell changed since `update_tiles`."""
        return self.occupancy.has_changed

    def integrate(self, frame: LidarFrame, map_from_odom: Pose2D = NO_CORRECTION) -> None:
        """Fuse a frame, moved from odom into the map."""
        points: NDArray[np.floating] = frame.points
        origin, pose = frame.origin, frame.pose
        if map_from_odom != NO_CORRECTION:
            correction = map_from_odom.as_tuple()
            points = transform_points(correction, points)
            x, y, z = transform_points(correction, [origin])[0].tolist()
            origin, pose = (x, y, z), Pose2D(*compose(correction, pose.as_tuple()))
        self.occupancy.integrate(
            points,
            origin,
            pose=pose,
            voxel_size=frame.resolution if frame.kind is LidarKind.VOXEL else 0.0,
        )

    def update_tiles(self, seq: int) -> bool:
        """Bring the tiles up to date as map `seq`; says if any of them differs from before."""
        geometry = self.occupancy.geometry
        changed = self.occupancy.take_changed().moved(*geometry.first_cell)
        return self.tiles.update(self.occupancy.read, changed, seq) > 0

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return what `restore` needs, as named arrays that are the caller's."""
        return self.occupancy.state()

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the map of a `state`. Raises StorageError; the map is as it was then."""
        self.occupancy.restore(state)
