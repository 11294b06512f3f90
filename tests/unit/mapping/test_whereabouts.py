"""What the mapper learns before it fuses: where odom lies, and whether the frame may be fused at all."""

import math

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.mapping.whereabouts import Whereabouts
from rhino_actors.mapping.window import CellWindow
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import NO_CORRECTION
from rhino_actors.messages.localisation import DriftMode, LocalisationState
from rhino_actors.messages.sensors import LidarFrame, LidarKind
from tests.unit.mapping.test_drift_correction import LIDAR, ROOM, circuit
from tests.unit.mapping.test_localisation import anywhere, furnished, furnished_map


def frame(
    boxes: list[tuple[float, ...]], x: float, y: float, yaw: float, odom_from_map: tuple, seq: int
) -> LidarFrame:
    points, origin = LIDAR.scan(boxes, x, y, yaw)  # type: ignore[arg-type]
    ((ox, oy, oz),) = transform_points(odom_from_map, [origin]).tolist()
    return LidarFrame(
        seq=seq,
        stamp=0.25 * seq,
        points=transform_points(odom_from_map, points).astype(np.float32),
        origin=(ox, oy, oz),
        pose=Pose2D(*compose(odom_from_map, (x, y, yaw))),
        resolution=0.0,
        kind=LidarKind.SCAN,
    )


def nothing(window: CellWindow) -> NDArray[np.int8]:
    return np.full(window.shape, -1, np.int8)


def test_without_a_map_and_with_correction_off_odom_stays_where_it_is() -> None:
    whereabouts = Whereabouts(MapperConfig(), RobotConfig())
    for given in (NO_CORRECTION, Pose2D(1.0, 2.0, 0.3)):
        for index, pose in enumerate(circuit(5)):
            seen = frame(ROOM, *pose, (0.1 * index, 0.0, 0.02 * index), index)
            assert whereabouts.place(seen, given, nothing) == (given, True)
    assert whereabouts.status.state is LocalisationState.UNKNOWN and whereabouts.status.is_usable


def test_on_a_loaded_map_nothing_is_fused_until_the_place_is_known() -> None:
    whereabouts = Whereabouts(MapperConfig(), RobotConfig())
    whereabouts.load(*furnished_map(1))
    assert not whereabouts.status.is_usable
    map_from_odom = anywhere(4)
    placed, fused = NO_CORRECTION, []
    for index in range(50):
        x, y = 2.5 + 0.06 * index, 3.0 + 0.02 * index
        seen = frame(furnished(1), x, y, 0.0, inverse(map_from_odom), index)
        placed, may_fuse = whereabouts.place(seen, placed, nothing)
        fused.append(may_fuse)
        if not may_fuse:
            assert placed == NO_CORRECTION
        assert may_fuse == whereabouts.status.is_usable
    assert fused[0] is False and fused[-1] is True
    here = compose(placed.as_tuple(), seen.pose.as_tuple())
    assert math.hypot(here[0] - x, here[1] - y) < 0.06
    whereabouts.begin()
    assert whereabouts.status.state is LocalisationState.UNKNOWN
    assert whereabouts.place(seen, placed, nothing) == (placed, True)


def test_with_correction_on_odom_is_moved_against_its_drift() -> None:
    whereabouts = Whereabouts(MapperConfig(drift_correction=DriftMode.MATCHING), RobotConfig())
    mapper = OccupancyMapper(0.05, max_range=9.5)
    placed, ends = NO_CORRECTION, []
    truth = circuit(80)
    for index, pose in enumerate(truth):
        drift = (0.0, 0.0, math.radians(0.08) * index)
        seen = frame(ROOM, *pose, compose(compose(pose, drift), inverse(pose)), index)
        placed, may_fuse = whereabouts.place(seen, placed, mapper.read)
        assert may_fuse
        ends.append(compose(placed.as_tuple(), seen.pose.as_tuple()))
        mapper.integrate(
            transform_points(placed.as_tuple(), seen.points),
            transform_points(placed.as_tuple(), [seen.origin])[0],
        )
    assert abs(math.remainder(ends[-1][2] - truth[-1][2], math.tau)) < math.radians(2.5)
    assert placed.yaw < -math.radians(3.0)
