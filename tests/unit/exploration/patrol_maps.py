"""Maps for the tests of patrols."""

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import PlannerConfig, RobotConfig
from rhino_actors.mapping.inflation import inflate
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, GridGeometry, MapSnapshot
from rhino_actors.planning.route import Router

RESOLUTION = 0.05
ROBOT = RobotConfig()


def inflated(occupancy: NDArray[np.int8], resolution: float = RESOLUTION) -> NDArray[np.uint8]:
    return inflate(
        occupancy,
        resolution=resolution,
        inscribed_radius=ROBOT.inscribed_radius,
        inflation_radius=ROBOT.inflation_radius,
        cost_scaling_factor=ROBOT.cost_scaling_factor,
    )


def snapshot_of(
    occupancy: NDArray[np.int8],
    *,
    origin: tuple[float, float] = (0.0, 0.0),
    epoch: int = 1,
    seq: int = 1,
) -> MapSnapshot:
    geometry = GridGeometry(RESOLUTION, origin, occupancy.shape)
    return MapSnapshot(epoch, seq, 0.0, geometry, occupancy, inflated(occupancy), 1.0)


def room(rows: int = 80, cols: int = 120) -> NDArray[np.int8]:
    """A closed room."""
    occupancy = np.full((rows, cols), FREE, np.int8)
    occupancy[:2] = occupancy[-2:] = OCCUPIED
    occupancy[:, :2] = occupancy[:, -2:] = OCCUPIED
    return occupancy


def two_rooms(door: bool = True) -> NDArray[np.int8]:
    """Two rooms of 4 m beside each other, the wall between them at x = 4 m, a door of 1 m in its middle."""
    occupancy = room(80, 162)
    occupancy[:, 80:82] = OCCUPIED
    if door:
        occupancy[30:50, 80:82] = FREE
    return occupancy


def new_router() -> Router:
    return Router(PlannerConfig(), ROBOT, inflated)


def costs_from(snapshot: MapSnapshot, x: float, y: float) -> NDArray[np.float32]:
    return new_router().costs_from(snapshot, Pose2D(x, y))
