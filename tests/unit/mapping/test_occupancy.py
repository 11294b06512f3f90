"""The occupancy grid: what marks, what clears, what grows, and what never does."""

import math

import numpy as np
import pytest

from rhino_actors.errors import StorageError
from rhino_actors.mapping import CellWindow, OccupancyMapper
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import TILE_CELLS, GridGeometry
from tests.unit.mapping.scene import RINGS, Lidar, room

ORIGIN = (0.025, 0.025, 0.3)


def at(mapper: OccupancyMapper, x: float, y: float) -> int:
    """The occupancy of the cell at a place; -1 outside the grid."""
    row, col = mapper.geometry.cell_from_world(x, y)
    return int(mapper.occupancy()[row, col]) if mapper.geometry.contains(row, col) else -1


def by_world_cell(mapper: OccupancyMapper) -> dict[tuple[int, int], int]:
    """Occupancy of every known cell by its row and col in the world."""
    geometry, grid = mapper.geometry, mapper.occupancy()
    row0 = round(geometry.origin[1] / geometry.resolution)
    col0 = round(geometry.origin[0] / geometry.resolution)
    return {(int(r) + row0, int(c) + col0): int(grid[r, c]) for r, c in np.argwhere(grid >= 0)}


def random_scan(rng: np.random.Generator, count: int = 90) -> tuple[np.ndarray, np.ndarray]:
    """A planar scan with ranges drawn at random, some beyond any range."""
    azimuth = (np.arange(count) + rng.uniform()) * (math.tau / count)
    distance = rng.uniform(0.3, 5.0, count)
    distance[rng.random(count) < 0.1] = 100.0
    origin = np.array([*rng.uniform(-2.0, 2.0, 2), 0.3])
    points = np.stack([np.cos(azimuth), np.sin(azimuth), np.zeros(count)], 1) * distance[:, None]
    return points + origin, origin


def test_grid_is_one_unknown_cell_before_the_first_frame() -> None:
    mapper = OccupancyMapper(0.05)

    assert mapper.occupancy().tolist() == [[-1]]
    assert mapper.geometry == GridGeometry(0.05, (0.0, 0.0), (1, 1))
    assert mapper.known_area == 0.0
    assert mapper.take_changed().is_empty


def test_beam_clears_up_to_its_hit_marks_it_and_says_nothing_of_what_is_behind() -> None:
    mapper = OccupancyMapper(0.05)

    mapper.integrate([[2.025, 0.025, 0.3]], ORIGIN)

    along = [at(mapper, 0.025 + 0.05 * i, 0.025) for i in range(60)]
    assert along[:40] == [40] * 40
    assert along[40] == 70
    assert along[41:] == [-1] * 19
    assert mapper.known_area == pytest.approx(41 * 0.05**2)


def test_cell_is_updated_once_per_frame_however_many_beams_cross_it() -> None:
    points, origin = Lidar(beams=720).scan(room(4.0, 4.0), 2.0, 2.0)
    mapper = OccupancyMapper(0.05)

    mapper.integrate(points, origin)

    assert set(np.unique(mapper.occupancy()).tolist()) == {-1, 40, 70}


def test_hit_wins_over_miss_within_a_frame() -> None:
    """A beam that grazes past a hit of another beam does not take its evidence."""
    mapper = OccupancyMapper(0.1)
    origin = (0.05, 0.05, 0.3)

    mapper.integrate([[1.02, 0.08, 0.3], [3.0, 0.09, 0.3], [3.0, 0.02, 0.3]], origin)

    assert at(mapper, 1.05, 0.05) == 70


@pytest.mark.parametrize("seed", range(5))
def test_kernels_equal_a_plain_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    resolution = 0.1
    mapper = OccupancyMapper(resolution, max_range=6.0)
    log_odds: dict[tuple[int, int], float] = {}
    for _ in range(12):
        points, origin = random_scan(rng)
        mapper.integrate(points, origin)
        misses, hits = set(), set()
        start = origin[:2] / resolution
        for point in points:
            offset = point[:2] - origin[:2]
            distance = math.hypot(*offset)
            end = start + offset / distance * min(distance, 6.0) / resolution
            axis = 0 if abs(offset[0]) >= abs(offset[1]) else 1
            low, high = sorted((math.floor(start[axis]), math.floor(end[axis])))
            for k in range(low + 1, high):
                part = (k + 0.5 - start[axis]) / (end[axis] - start[axis])
                crossing = start + part * (end - start)
                cell = [math.floor(crossing[1]), math.floor(crossing[0])]
                cell[1 - axis] = k
                misses.add(tuple(cell))
            last = (math.floor(end[1]), math.floor(end[0]))
            (hits if distance <= 6.0 else misses).add(last)
        misses.add((math.floor(start[1]), math.floor(start[0])))
        for cell in misses - hits:
            log_odds[cell] = max(-3.5, log_odds.get(cell, 0.0) - 0.4)
        for cell in hits:
            log_odds[cell] = min(3.5, log_odds.get(cell, 0.0) + 0.85)

    expected = {cell: round(100.0 / (1.0 + math.exp(-odds))) for cell, odds in log_odds.items()}
    got = by_world_cell(mapper)
    assert got.keys() == expected.keys()
    assert max(abs(got[cell] - expected[cell]) for cell in got) <= 1  # rounding at .5


@pytest.mark.parametrize("seed", range(5))
def test_order_of_frames_does_not_matter_while_no_cell_is_at_its_clamp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frames = [random_scan(rng) for _ in range(6)]
    forward = OccupancyMapper(0.1, max_range=6.0, max_log_odds=50.0)
    backward = OccupancyMapper(0.1, max_range=6.0, max_log_odds=50.0)

    for points, origin in frames:
        forward.integrate(points, origin)
    for points, origin in frames[::-1]:
        backward.integrate(points, origin)

    assert by_world_cell(forward) == by_world_cell(backward)
    assert forward.geometry == backward.geometry


def test_order_of_points_does_not_matter() -> None:
    points, origin = Lidar(elevations=RINGS, beams=90).scan(room(5.0, 4.0), 2.0, 1.5)
    ordered, shuffled = OccupancyMapper(0.05), OccupancyMapper(0.05)

    ordered.integrate(points, origin)
    shuffled.integrate(np.random.default_rng(0).permutation(points), origin)

    assert by_world_cell(ordered) == by_world_cell(shuffled)


@pytest.mark.parametrize("shift", [(1, 0), (0, -1), (-37, 200), (1000, -999)])
def test_map_of_a_moved_world_is_the_moved_map(shift: tuple[int, int]) -> None:
    resolution = 0.0625  # a power of two: moving by whole cells is exact
    here, there = OccupancyMapper(resolution), OccupancyMapper(resolution)
    for seed in range(3):
        points, origin = random_scan(np.random.default_rng(seed))
        points, origin = np.round(points * 4096) / 4096, np.round(origin * 4096) / 4096
        move = np.array([shift[1], shift[0], 0]) * resolution
        here.integrate(points, origin)
        there.integrate(points + move, origin + move)

    moved = {(r + shift[0], c + shift[1]): v for (r, c), v in by_world_cell(here).items()}
    assert moved == by_world_cell(there)


def test_growth_in_every_direction_leaves_each_cell_where_it_was() -> None:
    """P10: obstacles keep their place in metres, and the origin stays on a tile's corner."""
    mapper = OccupancyMapper(0.1, max_range=8.0)
    expected: dict[tuple[int, int], int] = {}
    shapes = set()
    for step, (x, y) in enumerate(
        [(0.05, 0.05), (-20.05, 0.05), (0.05, -31.05), (40.05, 0.05), (-60.05, 55.05)]
    ):
        mapper.integrate([[x + 1.0, y, 0.3], [x, y + 2.0, 0.3]], (x, y, 0.3))
        cells = by_world_cell(mapper)
        assert expected.items() <= cells.items(), f"step {step} moved or changed earlier cells"
        expected = cells
        geometry = mapper.geometry
        shapes.add(geometry.shape)
        tile = TILE_CELLS * 0.1
        for value in geometry.origin:
            assert value / tile == pytest.approx(round(value / tile), abs=1e-9)
        assert all(side % TILE_CELLS == 0 for side in geometry.shape)
        assert at(mapper, 1.05, 0.05) == 70
    assert len(shapes) == 5


def test_grid_stops_growing_at_its_bound_and_goes_on_mapping_inside() -> None:
    mapper = OccupancyMapper(0.1, max_range=5.0, max_cells=10 * TILE_CELLS**2)
    mapper.integrate([[0.05, -2.05, 0.3]], (0.05, 0.05, 0.3))
    assert mapper.growth_refused == 0

    for step in range(1, 60):
        x = 0.05 + 2.0 * step
        mapper.integrate([[x + 2.0, 0.05, 0.3], [x, 2.0, 0.3]], (x, 0.05, 0.3))
        assert math.prod(mapper.geometry.shape) <= 10 * TILE_CELLS**2
    refused = mapper.growth_refused
    assert refused > 10
    assert at(mapper, 0.05, -2.05) == 70

    mapper.integrate([[0.05, -2.05, 0.3]], (0.05, 0.05, 0.3))
    assert at(mapper, 0.05, -2.05) == 85
    assert mapper.growth_refused == refused


def test_first_frame_larger_than_the_bound_maps_what_fits() -> None:
    mapper = OccupancyMapper(0.1, max_cells=TILE_CELLS**2)
    points, origin = Lidar().scan(room(9.0, 9.0), 3.0, 3.0)

    mapper.integrate(points, origin)

    assert mapper.geometry.shape == (TILE_CELLS, TILE_CELLS)
    assert mapper.growth_refused == 1
    assert at(mapper, 3.0, 3.0) == 40


def test_ghost_is_gone_after_eight_frames_and_an_obstacle_is_there_after_five() -> None:
    """P09: a box seen for long, taken away, seen through from 2 m."""
    mapper = OccupancyMapper(0.05)
    walls, box = room(6.0, 4.0), (3.0, 1.8, 0.0, 3.4, 2.2, 0.5)
    lidar = Lidar(elevations=RINGS)
    with_box, without_box = lidar.scan([*walls, box], 1.0, 2.0), lidar.scan(walls, 1.0, 2.0)
    for _ in range(200):
        mapper.integrate(*with_box)
    assert at(mapper, 3.02, 2.0) >= 95

    for _ in range(8):
        mapper.integrate(*without_box)
    inside = [at(mapper, x, y) for x in (3.02, 3.22) for y in (1.86, 2.0, 2.14)]
    assert max(inside) < 65

    for _ in range(200):
        mapper.integrate(*without_box)
    for _ in range(5):
        mapper.integrate(*with_box)
    assert at(mapper, 3.02, 2.0) >= 65


def test_invalid_and_infinite_returns_neither_mark_nor_clear() -> None:
    """P12: 360 beams with NaN, infinite, zero and negative ranges among them."""
    points, origin = Lidar().scan(room(6.0, 6.0), 3.0, 3.0)
    broken = points.astype(np.float64)
    broken[0:40] = np.nan
    broken[100:120] = np.inf
    broken[120:140, 0] = -np.inf
    broken[200:210] = origin  # range zero
    broken[300:310, 2] = np.nan
    whole, mapper = OccupancyMapper(0.05), OccupancyMapper(0.05)

    used = mapper.integrate(broken, origin)
    whole.integrate(
        np.delete(points, [*range(40), *range(100, 140), *range(200, 210), *range(300, 310)], 0),
        origin,
    )

    assert used == 360 - 100
    assert by_world_cell(mapper) == by_world_cell(whole)
    assert at(mapper, 3.0, 3.0) == 40


def test_frame_without_a_usable_point_changes_nothing() -> None:
    mapper = OccupancyMapper(0.05, body_length=0.7, body_width=0.3)
    mapper.integrate([[2.0, 0.0, 0.3]], ORIGIN)
    before = by_world_cell(mapper)
    mapper.take_changed()

    for points in (np.empty((0, 3)), np.full((50, 3), np.nan), np.tile(ORIGIN, (3, 1))):
        assert mapper.integrate(points, ORIGIN, pose=Pose2D(0.0, 0.0)) == 0

    assert by_world_cell(mapper) == before
    assert not mapper.has_changed


@pytest.mark.parametrize("distance", [6.01, 100.0, 1e6, 1e12, 1e30])
def test_return_beyond_the_range_clears_as_far_as_the_range_and_never_marks(
    distance: float,
) -> None:
    mapper = OccupancyMapper(0.05, max_range=6.0)
    direction = np.array([math.cos(0.3), math.sin(0.3), 0.0])

    mapper.integrate([direction * distance + ORIGIN], ORIGIN)

    grid = mapper.occupancy()
    assert grid.max() == 40
    rows, cols = np.nonzero(grid == 40)
    centres = mapper.geometry.world_from_cells(np.stack([rows, cols], 1))
    reached = np.hypot(centres[:, 0] - ORIGIN[0], centres[:, 1] - ORIGIN[1]).max()
    assert 5.9 < reached < 6.05
    assert max(mapper.geometry.shape) <= 5 * TILE_CELLS


def test_return_nearer_than_the_lidar_can_measure_is_left_out() -> None:
    mapper = OccupancyMapper(0.01, min_range=0.05)

    assert mapper.integrate([[0.065, 0.025, 0.3], [0.025, -0.02, 0.3]], ORIGIN) == 0
    assert mapper.integrate([[0.085, 0.025, 0.3]], ORIGIN) == 1


def test_return_too_far_for_numbers_is_left_out() -> None:
    mapper = OccupancyMapper(0.05)

    assert mapper.integrate([[1e200, 1.0, 0.3], [3.0, -1e308, 0.3]], ORIGIN) == 0


@pytest.mark.parametrize("height", [0.0, 0.3, 1.2])
def test_planar_scan_marks_at_whatever_height_it_is_taken(height: float) -> None:
    points, origin = Lidar(height=height, floor=False).scan(room(4.0, 4.0), 2.0, 2.0)
    mapper = OccupancyMapper(0.05)

    mapper.integrate(points, origin)

    assert at(mapper, 4.02, 2.0) == 70
    assert at(mapper, 3.0, 2.0) == 40


def test_floor_clears_and_never_marks() -> None:
    """P16: points within 5 cm of the floor, near and far."""
    mapper = OccupancyMapper(0.05)
    rng = np.random.default_rng(0)
    azimuth, distance = rng.uniform(-math.pi, math.pi, 500), rng.uniform(0.4, 4.0, 500)
    points = np.stack(
        [np.cos(azimuth) * distance, np.sin(azimuth) * distance, rng.uniform(-0.05, 0.05, 500)], 1
    )

    for _ in range(3):
        mapper.integrate(points, (0.0, 0.0, 0.35))

    assert mapper.occupancy().max() < 50
    assert mapper.known_area > 5.0
    far = max(distance)
    geometry = mapper.geometry
    rows_cols = np.argwhere(mapper.occupancy() >= 0)
    assert np.hypot(*geometry.world_from_cells(rows_cols).T).max() < far + 0.05


def test_robot_does_not_see_itself_and_the_floor_under_it_is_free() -> None:
    """P16: returns from inside the body's box, whichever way the robot faces."""
    for yaw in (0.0, 0.7, math.pi / 2, -2.5):
        mapper = OccupancyMapper(0.05, body_length=0.7, body_width=0.3)
        pose = Pose2D(1.0, -2.0, yaw)
        rng = np.random.default_rng(1)
        body = np.stack([rng.uniform(-0.34, 0.34, 200), rng.uniform(-0.14, 0.14, 200)], 1)
        cos, sin = math.cos(yaw), math.sin(yaw)
        own = np.column_stack(
            [body @ [cos, -sin] + pose.x, body @ [sin, cos] + pose.y, rng.uniform(0.1, 0.5, 200)]
        )
        sensor = (pose.x + 0.28 * cos, pose.y + 0.28 * sin, 0.35)
        wall = np.array([[pose.x + 3.0 * cos, pose.y + 3.0 * sin, 0.3]])

        mapper.integrate(np.vstack([own, wall]), sensor, pose=pose)

        assert np.count_nonzero(mapper.occupancy() >= 50) == 1
        under = [
            at(mapper, pose.x + dx, pose.y + dy)
            for dx in (-0.1, 0.0, 0.1)
            for dy in (-0.1, 0.0, 0.1)
            if math.hypot(dx, dy) < 0.12
        ]
        assert max(under) < 20 and min(under) >= 0


def test_ghost_under_the_robot_is_gone_at_once() -> None:
    mapper = OccupancyMapper(0.05, body_length=0.7, body_width=0.3)
    for _ in range(20):
        mapper.integrate([[1.0, 0.0, 0.3]], (0.0, 0.0, 0.3))
    assert at(mapper, 1.0, 0.0) > 90

    mapper.integrate([[3.0, 0.0, 0.3]], (1.3, 0.0, 0.3), pose=Pose2D(1.0, 0.0))

    assert at(mapper, 1.0, 0.0) < 10


def test_beams_over_a_low_box_clear_neither_it_nor_what_it_hides() -> None:
    """Upper rings pass over the box and reach the wall behind; the ring that hits the box has the say."""
    box = (2.0, -0.5, 0.0, 2.6, 0.5, 0.2)
    wall = (5.0, -4.0, 0.0, 5.1, 4.0, 2.4)
    mapper = OccupancyMapper(0.05)
    points, origin = Lidar(elevations=RINGS).scan([box, wall], 0.0, 0.0)
    for _ in range(30):
        mapper.integrate(points, origin)

    assert all(at(mapper, 2.02, y) >= 90 for y in np.arange(-0.4, 0.41, 0.05))
    inside = [at(mapper, x, y) for x in (2.15, 2.3, 2.5) for y in (-0.3, 0.0, 0.3)]
    assert all(value == -1 or value >= 65 for value in inside)
    assert at(mapper, 3.0, 0.0) == -1
    assert at(mapper, 5.02, 0.0) >= 90
    assert at(mapper, 3.0, 1.6) < 10


def test_low_box_holds_against_the_rings_of_a_tilted_lidar() -> None:
    """Tilted rings do not share their azimuths: the box still ends the beams beside its hits."""
    box = (2.0, -0.5, 0.0, 2.6, 0.5, 0.2)
    wall = (5.0, -4.0, 0.0, 5.1, 4.0, 2.4)
    low = Lidar(elevations=RINGS[:7]).scan([box, wall], 0.0, 0.0)[0]
    high, origin = Lidar(elevations=RINGS[7:]).scan([box, wall], 0.0, 0.0, yaw=math.radians(0.4))
    mapper = OccupancyMapper(0.05)

    for _ in range(10):
        mapper.integrate(np.vstack([low, high]), origin)

    assert at(mapper, 3.0, 0.0) == -1
    assert all(at(mapper, 2.02, y) >= 90 for y in np.arange(-0.4, 0.41, 0.05))


def test_robot_may_pass_under_what_is_higher_than_it() -> None:
    table = (1.5, -1.0, 0.72, 2.5, 1.0, 0.76)
    wall = (4.0, -4.0, 0.0, 4.1, 4.0, 2.4)
    mapper = OccupancyMapper(0.05)

    points, origin = Lidar(elevations=RINGS).scan([table, wall], 0.0, 0.0)
    for _ in range(10):
        mapper.integrate(points, origin)

    assert max(at(mapper, x, y) for x in (1.52, 2.0, 2.4) for y in (-0.9, 0.0, 0.9)) < 20
    assert at(mapper, 4.02, 0.0) >= 90


def test_rising_beam_clears_only_while_it_is_low() -> None:
    mapper = OccupancyMapper(0.05, max_range=10.0, obstacle_max_height=0.6)
    rise = math.radians(5.0)
    direction = np.array([math.cos(rise), 0.0, math.sin(rise)])

    mapper.integrate([np.array(ORIGIN) + 100.0 * direction], ORIGIN)

    leaves = 0.3 / math.tan(rise)
    assert at(mapper, leaves - 0.1, 0.025) == 40
    assert at(mapper, leaves + 0.15, 0.025) == -1


def test_sinking_beam_that_meets_no_floor_does_not_clear_the_drop() -> None:
    mapper = OccupancyMapper(0.05, max_range=10.0, obstacle_min_height=0.08)

    mapper.integrate([[5.0, 0.025, -2.0]], (0.025, 0.025, 0.35))

    crosses = 4.975 * (0.35 + 0.08) / 2.35
    assert at(mapper, crosses - 0.1, 0.025) == 40
    assert at(mapper, crosses + 0.15, 0.025) == -1


def test_voxel_frame_clears_without_gaps_and_not_between_the_voxels_of_a_wall() -> None:
    size = 0.05
    wall = [[1.025, y, z] for y in np.arange(-1.975, 2.0, size) for z in (0.125, 0.225)]
    before = [
        [x, y, 0.025] for x in np.arange(-2.975, 1.0, size) for y in np.arange(-1.975, 2.0, size)
    ]
    behind = [
        [x, y, 0.025] for x in np.arange(1.075, 3.0, size) for y in np.arange(-0.475, 0.5, 4 * size)
    ]
    mapper = OccupancyMapper(size)

    for _ in range(10):
        mapper.integrate(wall + before + behind, (0.0, 0.0, 0.35), voxel_size=size)

    assert all(at(mapper, 1.025, y) >= 90 for y in np.arange(-1.975, 2.0, size))
    for y in np.arange(-0.475, 0.45, 4 * size):
        assert at(mapper, 1.525, y) in range(20), "floor that the robot remembers is free"
        assert all(at(mapper, 1.525, y + k * size) == -1 for k in (1, 2, 3)), "and nothing else"
    floor = [
        at(mapper, x, y) for x in np.arange(-2.4, 0.9, size) for y in np.arange(-1.4, 1.4, size)
    ]
    assert min(floor) >= 0 and max(floor) < 20


def column(x: float, y: float, *heights: float) -> list[list[float]]:
    return [[x, y, z] for z in heights]


def test_floor_behind_an_obstacle_that_voxels_no_longer_show_does_not_clear_it() -> None:
    """The robot remembers floor that it saw from elsewhere; the wall between was forgotten after 2 s."""
    mapper = OccupancyMapper(0.05)
    wall = column(1.025, 0.025, 0.125, 0.225)
    beyond = column(2.025, 0.025, 0.025)
    for _ in range(10):
        mapper.integrate(wall, ORIGIN, voxel_size=0.05)
    assert at(mapper, 1.025, 0.025) >= 90

    for _ in range(16):  # as long as the robot remembers it
        mapper.integrate(beyond, ORIGIN, voxel_size=0.05)

    assert at(mapper, 1.025, 0.025) >= 65
    assert at(mapper, 0.525, 0.025) < 20 and at(mapper, 2.025, 0.025) < 20


def test_person_who_left_is_gone_after_eight_voxel_frames_with_floor_there() -> None:
    mapper = OccupancyMapper(0.05)
    legs = [p for y in (-0.075, -0.025, 0.025) for p in column(1.025, y, 0.125, 0.325, 0.525)]
    for _ in range(100):
        mapper.integrate(legs, ORIGIN, voxel_size=0.05)
    assert at(mapper, 1.025, 0.025) >= 95

    for _ in range(8):
        mapper.integrate(
            [p for y in (-0.075, -0.025, 0.025) for p in column(1.025, y, 0.025)],
            ORIGIN,
            voxel_size=0.05,
        )

    assert max(at(mapper, 1.025, y) for y in (-0.075, -0.025, 0.025)) < 65


def test_obstacle_wins_over_floor_in_its_own_column() -> None:
    mapper = OccupancyMapper(0.05)
    for order in (1, -1):
        mapper.integrate(column(1.025, 0.025, 0.025, 0.325)[::order], ORIGIN, voxel_size=0.05)
    assert at(mapper, 1.025, 0.025) == 85


def test_memory_follows_what_was_observed_and_not_how_far_apart_it_lies() -> None:
    mapper = OccupancyMapper(0.05, max_range=3.0)
    mapper.integrate([[2.0, 0.0, 0.3]], ORIGIN)
    near = mapper.memory
    mapper.integrate([[202.0, 150.0, 0.3]], (200.0, 150.0, 0.3))

    assert mapper.geometry.shape > (3000, 4000)
    assert mapper.memory <= 2 * near + 10_000
    assert at(mapper, 2.0, 0.0) == 70 and at(mapper, 202.0, 150.0) == 70


def test_read_gives_any_window_and_unknown_beyond_the_grid() -> None:
    mapper = OccupancyMapper(0.1, max_range=6.0)
    rng = np.random.default_rng(11)
    for _ in range(5):
        mapper.integrate(*random_scan(rng))
    cells = by_world_cell(mapper)
    for _ in range(20):
        row, col = (int(v) for v in rng.integers(-150, 100, 2))
        window = CellWindow(
            row, row + int(rng.integers(1, 90)), col, col + int(rng.integers(1, 90))
        )
        found = mapper.read(window)
        assert found.shape == window.shape
        for r, c in np.ndindex(*found.shape):
            assert found[r, c] == cells.get((r + row, c + col), -1)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_furnished_room_is_mapped_as_it_is(noise: float) -> None:
    boxes = [
        *room(6.0, 5.0),
        (2.5, 0.0, 0.0, 3.5, 0.8, 0.9),
        (4.5, 3.0, 0.0, 5.2, 3.7, 0.25),
        (1.0, 3.5, 0.0, 1.4, 3.9, 1.2),
    ]
    mapper = OccupancyMapper(0.05, max_range=9.5)
    lidar = Lidar(elevations=RINGS)
    path = [(1.0 + 0.05 * i, 2.0) for i in range(60)] + [(4.0, 2.0 + 0.05 * i) for i in range(50)]
    for i, (x, y) in enumerate(path):
        mapper.integrate(*lidar.scan(boxes, x, y, yaw=0.013 * i, noise=noise, seed=i))

    grid, geometry = mapper.occupancy(), mapper.geometry
    rows, cols = np.indices(grid.shape)
    centres = geometry.world_from_cells(np.stack([rows.ravel(), cols.ravel()], 1))
    x, y = centres.T
    # Signed distance to the nearest box, negative inside it; and to the room.
    outside = np.min(
        [np.maximum.reduce([x0 - x, x - x1, y0 - y, y - y1]) for x0, y0, _, x1, y1, _ in boxes],
        axis=0,
    ).reshape(grid.shape)
    in_room = ((x > 0.0) & (x < 6.0) & (y > 0.0) & (y < 5.0)).reshape(grid.shape)

    assert outside[grid >= 65].max() < 0.075, "no obstacle off a surface by more than a cell"
    assert np.count_nonzero((grid >= 0) & (grid < 65) & (outside < -0.05)) == 0, (
        "no free cell inside"
    )
    clear = in_room & (outside > 0.05)
    assert np.count_nonzero(clear & (grid >= 0) & (grid < 20)) > 0.97 * np.count_nonzero(clear)
    assert np.count_nonzero(clear & (grid >= 65)) == 0
    obstacles = centres.reshape(*grid.shape, 2)[grid >= 65]
    walls = [(x, y) for x in np.arange(0.05, 6.0, 0.05) for y in (0.0, 5.0) if not 2.4 < x < 3.6]
    walls += [(x, y) for y in np.arange(0.05, 5.0, 0.05) for x in (0.0, 6.0)]
    found = [np.abs(obstacles - point).max(axis=1).min() < 0.08 for point in walls]
    assert np.mean(found) > 0.97, "walls are seen all along"


def test_changed_window_holds_every_change_since_it_was_taken() -> None:
    mapper = OccupancyMapper(0.1, max_range=6.0)
    rng = np.random.default_rng(3)
    mapper.integrate(*random_scan(rng))
    mapper.take_changed()
    for _ in range(5):
        before, geometry = mapper.occupancy(), mapper.geometry
        for _ in range(3):
            points, origin = random_scan(rng, 5)
            mapper.integrate(points, origin)
        window = mapper.take_changed()
        after = mapper.occupancy()
        old = np.full(after.shape, -1, np.int8)
        row, col = mapper.geometry.cell_from_world(*np.add(geometry.origin, 0.05))
        old[row : row + before.shape[0], col : col + before.shape[1]] = before
        changed = np.argwhere(old != after)
        assert (window.row0, window.col0) == tuple(changed.min(0))
        assert (window.row1, window.col1) == tuple(changed.max(0) + 1)
        assert not mapper.has_changed
        assert mapper.take_changed().is_empty


def test_nothing_changes_once_every_cell_is_at_its_clamp() -> None:
    mapper = OccupancyMapper(0.05)
    points, origin = Lidar().scan(room(4.0, 4.0), 2.0, 2.0)
    for _ in range(20):
        mapper.integrate(points, origin)
    mapper.take_changed()

    mapper.integrate(points, origin)

    assert not mapper.has_changed


def test_occupancy_given_out_never_changes_again() -> None:
    mapper = OccupancyMapper(0.05)
    mapper.integrate([[2.0, 0.0, 0.3]], ORIGIN)
    given = mapper.occupancy()
    copy = given.copy()

    mapper.integrate([[1.0, 0.0, 0.3], [0.0, 3.0, 0.3]], ORIGIN)
    given[0, 0] = 55

    copy[0, 0] = 55
    assert np.array_equal(given, copy)
    assert 55 not in mapper.occupancy()


def test_read_only_points_of_any_float_type_are_taken_and_left_alone() -> None:
    points, origin = random_scan(np.random.default_rng(0))
    maps = []
    for kind in (np.float32, np.float64):
        array = np.asfortranarray(points.astype(np.float32).astype(kind))
        array.flags.writeable = False
        mapper = OccupancyMapper(0.1)
        mapper.integrate(array, origin.astype(kind).astype(np.float64))
        maps.append(mapper.known_area)
    assert maps[0] == pytest.approx(maps[1], rel=0.01)


@pytest.mark.parametrize("points", [np.zeros(3), np.zeros((4, 2)), np.zeros((2, 3, 3))])
def test_points_of_another_shape_are_refused(points: np.ndarray) -> None:
    with pytest.raises(ValueError, match="points must be"):
        OccupancyMapper(0.05).integrate(points, ORIGIN)


def test_origin_or_pose_that_is_not_finite_is_refused() -> None:
    mapper = OccupancyMapper(0.05)
    for origin, pose in (((0.0, math.nan, 0.0), None), (ORIGIN, Pose2D(0.0, math.inf, 0.0))):
        with pytest.raises(ValueError, match="finite"):
            mapper.integrate([[1.0, 0.0, 0.3]], origin, pose=pose)
    assert mapper.known_area == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        {"resolution": 0.0},
        {"resolution": math.nan},
        {"resolution": 0.05, "max_range": -1.0},
        {"resolution": 0.05, "min_range": 30.0},
        {"resolution": 0.05, "miss_log_odds": 0.0},
        {"resolution": 0.05, "max_log_odds": 100.0},
        {"resolution": 0.05, "obstacle_min_height": 1.0, "obstacle_max_height": 0.5},
        {"resolution": 0.05, "body_width": -0.1},
        {"resolution": 0.05, "max_cells": 100},
    ],
)
def test_parameters_out_of_bounds_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        OccupancyMapper(**wrong)  # type: ignore[arg-type]


def test_restored_map_goes_on_as_if_nothing_had_happened() -> None:
    rng = np.random.default_rng(5)
    frames = [random_scan(rng) for _ in range(10)]
    original, restored = OccupancyMapper(0.1), OccupancyMapper(0.1)
    for points, origin in frames[:5]:
        original.integrate(points, origin)

    restored.restore(original.state())

    assert restored.geometry == original.geometry
    assert np.array_equal(restored.occupancy(), original.occupancy())
    assert restored.known_area == original.known_area
    assert restored.take_changed().shape == restored.geometry.shape
    for points, origin in frames[5:]:
        original.integrate(points, origin)
        restored.integrate(points + 0.0, origin)
    assert by_world_cell(restored) == by_world_cell(original)


def test_state_of_an_empty_map_can_be_restored() -> None:
    mapper = OccupancyMapper(0.1)
    mapper.restore(OccupancyMapper(0.1).state())
    mapper.integrate([[1.0, 0.0, 0.3]], ORIGIN)
    assert at(mapper, 1.0, 0.0) == 70


@pytest.mark.parametrize(
    "damage",
    [
        {"version": np.array(99)},
        {"resolution": np.array(0.05)},
        {"levels": np.array(7)},
        {"origin_cell": np.array([1, 0])},
        {"origin_cell": np.array([0])},
        {"evidence": np.zeros((64, 64))},
        {"evidence": np.zeros((64, 65), np.uint16)},
        {"evidence": np.full((64, 64), 60_000, np.uint16)},
        {"evidence": np.zeros(64, np.uint16)},
        {"evidence": np.zeros((8192, 8192), np.uint16)},
    ],
)
def test_damaged_state_is_refused_and_the_map_is_left_as_it_was(
    damage: dict[str, np.ndarray],
) -> None:
    mapper = OccupancyMapper(0.1)
    mapper.integrate([[1.0, 0.0, 0.3]], ORIGIN)
    before = by_world_cell(mapper)

    with pytest.raises(StorageError):
        mapper.restore({**mapper.state(), **damage})
    with pytest.raises(StorageError):
        mapper.restore({})

    assert by_world_cell(mapper) == before
