"""Whereabouts: what the mapper asks, frame by frame, before it fuses: where does odom lie in the map?"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.geometry import compose
from rhino_actors.mapping.drift_correction import DriftCorrection, DriftOptions
from rhino_actors.mapping.localisation import Localiser
from rhino_actors.mapping.submap import Band, obstacle_ends
from rhino_actors.mapping.window import CellWindow
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.localisation import DriftMode, LocalisationStatus
from rhino_actors.messages.sensors import LidarFrame, LidarKind

ReadCells = Callable[[CellWindow], NDArray[np.int8]]


class Whereabouts:
    """Joins odom to the map: by a localiser on a loaded map, else by drift correction where it is on, else not at all.

    Not for two threads at once.
    """

    def __init__(self, config: MapperConfig, robot: RobotConfig) -> None:
        """Begin without a loaded map."""
        self._corrects = config.drift_correction is DriftMode.MATCHING
        self._resolution = config.resolution
        self._band = Band(
            robot.obstacle_min_height, robot.obstacle_max_height, robot.length, robot.width
        )
        self._localiser: Localiser | None = None
        self._is_near = False  # odom lies about where `place` is told at its first frame
        self._drift = DriftCorrection()

    @property
    def status(self) -> LocalisationStatus:
        """Whether the robot knows its place in a loaded map."""
        return self._localiser.status if self._localiser is not None else LocalisationStatus()

    def load(
        self, occupancy: NDArray[np.int8], geometry: GridGeometry, guess: Pose2D | None = None
    ) -> None:
        """Localise on this map from now on; nothing is fused until the robot knows its place in it.

        Args:
            occupancy: (rows, cols) int8 in the frame map, -1 unknown, 0..100. Not changed, not kept.
            geometry: where it lies.
            guess: rough pose of the robot in the map; None: it may be anywhere.

        Raises:
            ValueError: the map is too large to search.
        """
        self._localiser = Localiser(occupancy, geometry, guess=guess, band=self._band)
        self._is_near = False

    def resume(self, occupancy: NDArray[np.int8], geometry: GridGeometry, *, is_near: bool) -> None:
        """Localise on a map again after a crash; as `load`, but odom goes on as it was.

        Args:
            occupancy: (rows, cols) int8 in the frame map, -1 unknown, 0..100. Not changed, not kept.
            geometry: where it lies.
            is_near: the `map_from_odom` that `place` is given first is about right: it is looked there first.

        Raises:
            ValueError: the map is too large to search.
        """
        self.load(occupancy, geometry)
        self._is_near = is_near

    def begin(self) -> None:
        """Go on without a loaded map."""
        self._localiser = None

    def place(
        self, frame: LidarFrame, map_from_odom: Pose2D, read: ReadCells
    ) -> tuple[Pose2D, bool]:
        """Say where odom lies at a frame.

        Args:
            frame: the newest.
            map_from_odom: as it was until now.
            read: gives a window of the map's cells, -1 unknown, 0..100; row and col count from the frame's origin.

        Returns:
            map_from_odom as it is now, and whether the frame may be fused with it.
        """
        if self._localiser is not None:
            if self._is_near:
                here = compose(map_from_odom.as_tuple(), frame.pose.as_tuple())
                self._localiser.suggest(Pose2D(*here))
                self._is_near = False
            self._localiser.add_frame(
                frame.points,
                frame.origin,
                frame.pose,
                voxel_size=frame.resolution if frame.kind is LidarKind.VOXEL else 0.0,
                stamp=frame.stamp,
            )
            if not self._localiser.is_localised:
                return map_from_odom, False
            return Pose2D(*self._localiser.map_from_odom), True
        if not self._corrects:
            return map_from_odom, True
        self._drift.map_from_odom = map_from_odom.as_tuple()
        x, y = self._drift.place(frame.pose)
        reach = math.ceil(DriftOptions.radius / self._resolution)
        row, col = (math.floor(value / self._resolution) for value in (y, x))
        window = CellWindow(row - reach, row + reach + 1, col - reach, col + reach + 1)
        origin = (window.col0 * self._resolution, window.row0 * self._resolution)
        moved = self._drift.correct(
            read(window),
            GridGeometry(self._resolution, origin, window.shape),
            obstacle_ends(frame.points, frame.pose, self._band),
            frame.pose,
        )
        return Pose2D(*moved), True
