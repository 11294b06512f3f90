"""What the map knows of the floor is counted against the truth, wherever odometry has drifted to."""

import math

import numpy as np
import pytest

pytest.importorskip("mujoco")

from benchmarks.coverage import KnownFloor
from rhino_actors.drivers.mujoco.worlds.scene import TruthGrid
from rhino_actors.geometry import compose
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry, MapSnapshot

SIZE = 0.05
HERE = Pose2D(0.0, 0.0, 0.0)


def make_floor() -> KnownFloor:
    """A hall of 6 m by 6 m; all but a rim of 0.3 m can be got to."""
    geometry = GridGeometry(SIZE, (-3.0, -3.0), (120, 120))
    reachable = np.zeros((120, 120), np.bool_)
    reachable[6:-6, 6:-6] = True
    return KnownFloor(TruthGrid(np.zeros((120, 120), np.int8), geometry, reachable))


def make_map(occupancy: np.ndarray, origin: tuple[float, float] = (-3.0, -3.0)) -> MapSnapshot:
    geometry = GridGeometry(SIZE, origin, occupancy.shape)
    return MapSnapshot(1, 1, 0.0, geometry, occupancy, np.zeros(occupancy.shape, np.uint8), 0.0)


def test_nothing_is_covered_before_the_map_knows_anything() -> None:
    floor = make_floor()
    assert floor.coverage == 0.0
    floor.step(make_map(np.full((120, 120), UNKNOWN, np.int8)), HERE, HERE)
    assert floor.coverage == 0.0
    assert np.array_equal(floor.unknown, floor.reachable)


def test_coverage_is_the_share_of_reachable_cells_that_the_map_knows() -> None:
    floor = make_floor()
    half = np.full((120, 120), UNKNOWN, np.int8)
    half[:60] = FREE
    floor.step(make_map(half), HERE, HERE)
    assert floor.coverage == 0.5
    assert not floor.unknown[:60].any() and floor.unknown[60:-6, 6:-6].all()


def test_what_lies_outside_the_map_is_unknown() -> None:
    floor = make_floor()
    floor.step(make_map(np.zeros((60, 120), np.int8)), HERE, HERE)
    assert floor.coverage == 0.5


def test_what_was_known_once_stays_covered() -> None:
    floor = make_floor()
    known, unknown = np.zeros((120, 120), np.int8), np.full((120, 120), UNKNOWN, np.int8)
    floor.step(make_map(known), HERE, HERE)
    floor.step(make_map(unknown), HERE, HERE)
    assert floor.coverage == 1.0


def test_cells_far_from_the_robot_are_not_looked_at() -> None:
    floor = make_floor()
    corner = Pose2D(-5.0, -5.0)
    floor.step(make_map(np.zeros((120, 120), np.int8)), corner, corner)
    assert 0.0 < floor.coverage < 0.2
    assert not floor.unknown[6, 6] and floor.unknown[-7, -7]


@pytest.mark.parametrize("drift", [(0.8, -0.4, 0.0), (0.3, 0.2, math.pi / 2)])
def test_drift_moves_the_account_along(drift: tuple[float, float, float]) -> None:
    floor = make_floor()
    # The map shows one quarter of the hall, where drift has put it.
    occupancy = np.full((240, 240), UNKNOWN, np.int8)
    geometry = GridGeometry(SIZE, (-6.0, -6.0), occupancy.shape)
    quarter = np.argwhere(floor.reachable[:60, :60])
    for x, y in floor.geometry.world_from_cells(quarter):
        row, col = geometry.cell_from_world(*compose(drift, (float(x), float(y), 0.0))[:2])
        occupancy[row, col] = FREE
    snapshot = make_map(occupancy, (-6.0, -6.0))
    true = Pose2D(1.0, 0.5, 0.4)
    floor.step(snapshot, Pose2D(*compose(drift, true.as_tuple())), true)
    assert floor.coverage == pytest.approx(0.25, abs=0.01)
    assert not floor.unknown[6:58, 6:58].any()


def test_free_floor_that_the_map_has_as_occupied_is_told() -> None:
    floor = make_floor()
    occupancy = np.zeros((120, 120), np.int8)
    occupancy[60:] = OCCUPIED
    floor.step(make_map(occupancy), HERE, HERE)
    assert floor.coverage == 1.0 and floor.blocked == 0.5
    floor.step(make_map(np.zeros((120, 120), np.int8)), HERE, HERE)
    assert floor.blocked == 0.0


def test_places_left_are_told_with_middle_and_area_the_largest_first() -> None:
    floor = make_floor()
    occupancy = np.zeros((120, 120), np.int8)
    occupancy[20:30, 20:40] = UNKNOWN
    occupancy[80:90, 90:100] = UNKNOWN
    occupancy[50, 50] = UNKNOWN
    floor.step(make_map(occupancy), HERE, HERE)
    large, small = floor.left()
    assert large.area == pytest.approx(0.5) and small.area == pytest.approx(0.25)
    assert (large.x, large.y) == pytest.approx((-1.5, -1.75))
    assert (small.x, small.y) == pytest.approx((1.75, 1.25))
