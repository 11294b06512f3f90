"""Height cost: what blocks a legged robot and what does not, the same in one run or window by window."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.mapping import (
    CellWindow,
    HeightCostmap,
    VoxelMapper,
    height_cost,
    height_layers,
    inflate,
)
from rhino_actors.messages.grid import GridGeometry

Points = NDArray[np.float64]
Surface = Callable[[Points, Points], Points]
SIZE = 4.0  # [m] of the floors
CELLS = 80


def surface(
    shape: float | Surface,
    *,
    x: tuple[float, float] = (0.0, SIZE),
    y: tuple[float, float] = (0.0, SIZE),
    noise: float = 0.0,
    seed: int = 0,
) -> Points:
    """Points of a surface, four in each cell."""
    xs, ys = np.meshgrid(
        np.arange(x[0] + 0.0125, x[1], 0.025), np.arange(y[0] + 0.0125, y[1], 0.025)
    )
    zs = shape(xs, ys) if callable(shape) else np.full(xs.shape, float(shape))
    points = np.stack([xs.ravel(), ys.ravel(), zs.ravel()], 1)
    points[:, 2] += np.random.default_rng(seed).normal(0.0, noise, len(points)) if noise else 0.0
    return points


def solid(x0: float, y0: float, z0: float, x1: float, y1: float, z1: float) -> Points:
    """Voxel centres of a box."""
    axes = [np.arange(a + 0.025, b, 0.05) for a, b in ((x0, x1), (y0, y1), (z0, z1))]
    return np.stack([a.ravel() for a in np.meshgrid(*axes)], 1)


def without(points: Points, x0: float, y0: float, x1: float, y1: float) -> Points:
    """The points that are not in a rectangle."""
    x, y = points[:, 0], points[:, 1]
    return points[~((x > x0) & (x < x1) & (y > y0) & (y < y1))]


def part(
    grid: NDArray[np.generic], geometry: GridGeometry, x0: float, y0: float, x1: float, y1: float
) -> NDArray[np.generic]:
    """The cells of a rectangle."""
    (r0, c0), (r1, c1) = (
        geometry.cell_from_world(x0 + 1e-3, y0 + 1e-3),
        geometry.cell_from_world(x1 - 1e-3, y1 - 1e-3),
    )
    return grid[r0 : r1 + 1, c0 : c1 + 1]


FLOOR = surface(0.0, noise=0.01)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("height", [0.0, 0.013, 0.024, -3.02, 12.34])
def test_a_flat_floor_with_a_centimetre_of_noise_costs_nothing(height: float, seed: int) -> None:
    cost, geometry = height_cost(surface(height, noise=0.01, seed=seed))
    assert cost.dtype == np.int8 and cost.shape == geometry.shape == (CELLS, CELLS)
    assert not cost.any()


def test_no_points_are_one_unknown_cell() -> None:
    for nothing in (np.empty((0, 3)), np.full((4, 3), np.nan), [[np.inf, 0.0, 0.0]]):
        cost, geometry = height_cost(nothing)
        assert cost.tolist() == [[-1]] and geometry.shape == (1, 1)


def test_points_that_are_not_finite_do_not_count() -> None:
    bad = np.array(
        [[np.nan, 1.0, 0.0], [1.0, 1.0, np.inf], [np.inf, np.inf, 0.0], [1.0, 1.0, np.nan]]
    )
    expected, geometry = height_cost(FLOOR)
    cost, same = height_cost(np.vstack([bad, FLOOR]))
    assert np.array_equal(cost, expected) and same == geometry


def test_the_order_of_points_does_not_matter() -> None:
    points = np.vstack([FLOOR, solid(1.0, 1.0, 0.0, 1.3, 2.0, 0.4)])
    expected, _ = height_cost(points)
    shuffled = points[np.random.default_rng(1).permutation(len(points))].astype(np.float32)
    shuffled.flags.writeable = False
    assert np.array_equal(height_cost(shuffled)[0], expected)


@pytest.mark.parametrize("shift", [(-73, 16, 0), (1000, -801, 37), (5, 5, -129)])
def test_a_world_moved_by_whole_cells_has_the_same_costs(shift: tuple[int, int, int]) -> None:
    scene = np.vstack([without(FLOOR, 2.0, 2.0, 2.6, 2.6), solid(1.0, 1.0, 0.0, 1.2, 3.0, 0.8)])
    lattice = (np.floor(scene / 0.05) + 0.5) * 0.05
    expected, geometry = height_cost(lattice)
    cost, moved = height_cost(lattice + np.array(shift) * 0.05)
    assert np.array_equal(cost, expected)
    assert np.allclose(np.subtract(moved.origin, geometry.origin), np.array(shift[:2]) * 0.05)


@pytest.mark.parametrize("thickness", [0.05, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("height", [0.3, 0.9, 2.4])
def test_complete_walls_are_lethal_wherever_they_are_and_nothing_else_is(
    thickness: float, height: float
) -> None:
    wall = solid(2.0, 0.0, 0.0, 2.0 + thickness, SIZE, height)
    cost, geometry = height_cost(np.vstack([FLOOR, wall]))
    inside = np.zeros(cost.shape, np.bool_)
    part(inside, geometry, 2.0, 0.0, 2.0 + thickness, SIZE)[:] = True
    assert np.all(cost[inside] == 100)
    assert np.all(cost[~inside] == 0)


@pytest.mark.parametrize("kept", [1.0, 0.6, 0.3])
def test_walls_with_missing_voxels_are_lethal_within_a_cell(kept: float) -> None:
    wall = solid(2.0, 0.0, 0.0, 2.1, SIZE, 2.4)
    wall = wall[np.random.default_rng(2).random(len(wall)) < kept]
    floor = without(FLOOR, 2.0, 0.0, 2.1, SIZE)
    cost, geometry = height_cost(np.vstack([floor, wall]))
    assert np.all(part(cost, geometry, 1.95, 0.0, 2.15, SIZE).max(axis=1) == 100)
    assert np.all(part(cost, geometry, 0.0, 0.0, 1.95, SIZE) < 65)


def test_the_gap_that_counts_is_free_height_above_the_floor() -> None:
    def under(bottom: float) -> int:
        table = solid(1.0, 1.0, bottom, 2.0, 2.0, bottom + 0.05)
        cost, geometry = height_cost(np.vstack([FLOOR, table]))
        assert np.all(cost[:19] == 0), "beside it is free"
        values = np.unique(part(cost, geometry, 1.0, 1.0, 2.0, 2.0))
        assert len(values) == 1
        return int(values[0])

    assert [under(z) for z in (0.3, 0.45, 0.55)] == [100, 100, 100]
    assert [under(z) for z in (0.65, 0.75, 2.0)] == [0, 0, 0]


def test_what_the_robot_needs_decides_what_it_passes_under() -> None:
    points = np.vstack([FLOOR, solid(1.0, 1.0, 0.75, 2.0, 2.0, 0.8)])
    assert height_cost(points, can_pass_under=0.6)[0].max() == 0
    assert height_cost(points, can_pass_under=0.9)[0].max() == 100


def test_a_door_lintel_and_a_lamp_do_not_block_but_the_jambs_do() -> None:
    wall = solid(2.0, 0.0, 0.0, 2.1, SIZE, 2.4)
    wall = wall[~((abs(wall[:, 1] - 2.0) < 0.45) & (wall[:, 2] < 2.0))]
    lamp = solid(1.0, 1.0, 1.6, 1.2, 1.2, 1.9)
    cord = solid(1.1, 1.1, 1.9, 1.15, 1.15, 2.6)
    cost, geometry = height_cost(np.vstack([FLOOR, wall, lamp, cord]))
    assert np.all(part(cost, geometry, 2.0, 1.6, 2.1, 2.4) == 0)
    assert np.all(part(cost, geometry, 2.0, 0.0, 2.1, 1.5) == 100)
    assert np.all(part(cost, geometry, 0.5, 0.5, 1.5, 1.5) == 0)


def test_a_lamp_that_hangs_low_blocks() -> None:
    cost, geometry = height_cost(np.vstack([FLOOR, solid(1.0, 1.0, 0.4, 1.2, 1.2, 0.6)]))
    assert np.all(part(cost, geometry, 1.0, 1.0, 1.2, 1.2) == 100)


def test_what_hangs_above_an_unseen_floor_says_nothing_of_it() -> None:
    floor = without(FLOOR, 1.0, 1.0, 1.7, 1.7)
    cost, geometry = height_cost(np.vstack([floor, surface(1.5, x=(1.0, 1.7), y=(1.0, 1.7))]))
    assert np.all(part(cost, geometry, 1.15, 1.15, 1.55, 1.55) == -1)
    assert cost.max() == 0


def test_a_ceiling_seen_farther_than_the_floor_is_no_ground() -> None:
    mapper, costmap = VoxelMapper(), HeightCostmap()
    frame = np.vstack([surface(0.0, x=(0.0, 1.5), noise=0.01), surface(2.4)])
    mapper.add_frame(frame, (0.5, 2.0, 0.35))
    costmap.update(mapper, mapper.take_changed())
    cost, geometry = costmap.cost(), costmap.geometry
    assert np.all(part(cost, geometry, 0.0, 0.0, 1.5, SIZE) == 0)
    assert np.all(part(cost, geometry, 1.55, 0.0, SIZE, SIZE) == -1)


@pytest.mark.parametrize(
    ("step", "low", "high"),
    [(0.05, 0, 0), (0.10, 20, 64), (0.15, 100, 100), (0.20, 100, 100), (0.5, 100, 100)],
)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_costs_by_its_height_and_is_lethal_at_the_limit(
    step: float, low: int, high: int, axis: int, sign: int
) -> None:
    def shape(x: Points, y: Points) -> Points:
        return 0.02 + step * ((x, y)[axis] * sign > 2.0 * sign)

    cost, _ = height_cost(surface(shape))
    cost = cost if axis == 0 else cost.T
    edge = cost[:, 40] if sign > 0 else cost[:, 39]
    assert np.all((edge >= low) & (edge <= high))
    lower = cost[:, :40] if sign > 0 else cost[:, 40:]
    assert np.all(lower < 100), "the floor before it is no obstacle"


def test_a_robot_that_climbs_more_finds_the_same_step_passable() -> None:
    points = surface(lambda x, y: 0.02 + 0.2 * (x > 2.0))
    assert height_cost(points, can_climb=0.15)[0].max() == 100
    assert height_cost(points, can_climb=0.25)[0].max() < 65


@pytest.mark.parametrize("noise", [0.0, 0.01])
@pytest.mark.parametrize("turn", [0.0, 30.0, 45.0])
def test_slopes_cost_by_their_angle_up_to_the_limit(noise: float, turn: float) -> None:
    def ramp(angle: float) -> NDArray[np.int8]:
        along = math.radians(turn)

        def shape(x: Points, y: Points) -> Points:
            s = (x - 2.0) * math.cos(along) + (y - 2.0) * math.sin(along)
            return math.tan(math.radians(angle)) * s

        cost, geometry = height_cost(surface(shape, noise=noise))
        return part(cost, geometry, 1.0, 1.0, 3.0, 3.0)

    assert np.all(ramp(3.0) <= 20)
    assert np.all((ramp(12.0) > 0) & (ramp(12.0) < 50))
    assert np.all((ramp(22.0) > 25) & (ramp(22.0) < 65))
    assert np.mean(ramp(12.0)) < np.mean(ramp(22.0))
    assert np.all(ramp(38.0) == 100)
    assert np.all(ramp(45.0) == 100)


def test_a_platform_with_a_ramp_is_reached_over_it_and_its_brink_is_lethal() -> None:
    def shape(x: Points, y: Points) -> Points:
        return np.where(y < 1.2, np.clip((x - 1.0) * 0.35, 0.0, 0.5), 0.5 * (x > 2.45))

    cost, geometry = height_cost(surface(shape, noise=0.005))
    assert np.all(part(cost, geometry, 0.0, 0.2, SIZE, 1.0) < 65), "up the ramp"
    assert np.all(part(cost, geometry, 2.45, 1.5, 2.5, SIZE) == 100), "the platform's brink"
    assert np.all(part(cost, geometry, 2.7, 0.2, SIZE, SIZE) < 65), "the platform itself"
    assert np.all(part(cost, geometry, 0.0, 1.5, 2.4, SIZE) < 65), "the floor below"


def test_a_drop_behind_a_gap_that_was_not_seen_is_lethal_at_the_brink() -> None:
    upper, lower = surface(0.0, x=(0.0, 2.0)), surface(-0.4, x=(2.5, SIZE))
    cost, geometry = height_cost(np.vstack([upper, lower]))
    assert np.all(part(cost, geometry, 1.95, 0.5, 2.0, 3.5) == 100)
    assert np.all(part(cost, geometry, 0.0, 0.0, 1.9, SIZE) == 0)
    assert np.all(part(cost, geometry, 2.05, 0.0, 2.45, SIZE) == -1)


def test_an_edge_with_nothing_seen_beyond_stays_unknown_beyond() -> None:
    cost, geometry = height_cost(without(FLOOR, 2.0, 1.0, 3.0, 3.0))
    assert np.all(part(cost, geometry, 2.0, 1.0, 3.0, 3.0) == -1)
    assert cost.max() == 0


@pytest.mark.parametrize("top", [0.2, 0.45, 0.72])
@pytest.mark.parametrize("size", [0.4, 1.0, 1.8])
def test_the_flat_top_of_a_thing_is_no_free_island(top: float, size: float) -> None:
    x1 = 1.0 + size
    floor = without(FLOOR, 1.0, 1.0, x1, x1)
    thing = surface(top, x=(1.0, x1), y=(1.0, x1), noise=0.01)
    thing = thing if top <= 0.6 else np.vstack([thing, solid(1.0, 1.0, 0.3, x1, x1, top)])
    cost, geometry = height_cost(np.vstack([floor, thing]))
    assert np.all(part(cost, geometry, 1.0, 1.0, x1, x1) == 100)
    assert np.all(part(cost, geometry, 0.0, 0.0, SIZE, 0.95) == 0)


def test_a_floor_walled_in_is_not_taken_for_a_table() -> None:
    closet = np.vstack(
        [
            solid(1.0, 1.0, 0.0, 2.2, 1.1, 2.0),
            solid(1.0, 2.1, 0.0, 2.2, 2.2, 2.0),
            solid(1.0, 1.0, 0.0, 1.1, 2.2, 2.0),
            solid(2.1, 1.0, 0.0, 2.2, 2.2, 0.3),
        ]
    )
    cost, geometry = height_cost(np.vstack([FLOOR, closet]))
    assert np.all(part(cost, geometry, 1.1, 1.1, 2.1, 2.1) == 0)


def test_reflections_below_the_floor_are_neither_ground_nor_a_drop() -> None:
    rng = np.random.default_rng(3)
    ghosts = np.column_stack([rng.uniform(0.2, 3.8, (40, 2)), rng.uniform(-2.0, -0.3, 40)])
    cost, _ = height_cost(np.vstack([FLOOR, ghosts]))
    assert not cost.any()


def test_small_holes_are_filled_and_marked_and_larger_ones_are_not() -> None:
    holes = without(without(FLOOR, 1.0, 1.0, 1.1, 1.1), 2.0, 2.0, 3.0, 3.0)
    layers = height_layers(holes)
    assert np.all(part(layers.cost, layers.geometry, 1.0, 1.0, 1.1, 1.1) == 0)
    assert np.all(part(layers.inferred, layers.geometry, 1.0, 1.0, 1.1, 1.1))
    assert np.all(part(layers.cost, layers.geometry, 2.1, 2.1, 2.9, 2.9) == -1)
    assert np.all((layers.cost >= 0) | ~layers.inferred)
    assert np.array_equal(np.isnan(layers.height), layers.cost == -1)
    assert np.allclose(np.nan_to_num(layers.height), 0.0, atol=0.06)
    bare = height_layers(holes, smoothing=0.0)
    assert not bare.inferred.any()
    assert np.all(part(bare.cost, bare.geometry, 1.0, 1.0, 1.1, 1.1) == -1)


def test_nothing_is_inferred_beyond_what_was_seen() -> None:
    disc = FLOOR[np.hypot(FLOOR[:, 0] - 2.0, FLOOR[:, 1] - 2.0) < 1.5]
    layers = height_layers(disc)
    rows, cols = np.nonzero(layers.cost >= 0)
    centres = layers.geometry.world_from_cells(np.stack([rows, cols], 1))
    assert np.hypot(centres[:, 0] - 2.0, centres[:, 1] - 2.0).max() < 1.54


def test_passable_costs_stay_below_the_threshold_of_inflate() -> None:
    points = surface(lambda x, y: 0.3 * x + 0.02 + 0.1 * (y > 2.0))
    cost, geometry = height_cost(points)
    assert 0 < cost.max() < 65
    costmap = inflate(
        cost,
        resolution=geometry.resolution,
        inscribed_radius=0.3,
        inflation_radius=0.8,
        cost_scaling_factor=4.0,
    )
    assert not costmap.any()


@pytest.mark.parametrize(
    "values",
    [
        {"resolution": 0.0},
        {"can_climb": -0.1},
        {"can_pass_under": math.nan},
        {"ignore_noise": -0.01},
        {"smoothing": math.inf},
        {"max_slope_deg": 90.0},
    ],
)
def test_values_out_of_bounds_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        height_cost(FLOOR, **values)


def test_points_too_far_apart_for_a_grid_are_refused() -> None:
    with pytest.raises(ValueError, match="too many"):
        height_cost(np.array([[0.0, 0.0, 0.0], [4e5, 4e5, 0.0]]))


# incremental


def scene(turn: int, rng: np.random.Generator) -> tuple[Points, tuple[float, float, float]]:
    """A frame of a changing world: floor on two levels, a ramp, things that come and go, noise."""
    x, y = rng.uniform(-1.0, 4.0, 2)

    def shape(xs: Points, ys: Points) -> Points:
        return np.where(ys > 2.0, 0.35 * (xs > 1.5), np.clip(xs - 1.0, 0.0, 1.0) * 0.35)

    floor = surface(shape, x=(x, x + 1.6), y=(y, y + 1.6), noise=0.01, seed=turn)
    floor = floor[rng.random(len(floor)) < rng.uniform(0.1, 0.9)]
    a, b = rng.uniform(-1.0, 5.0, 2)
    low = rng.choice([0.0, 0.4, 0.8])
    thing = solid(a, b, low, a + rng.uniform(0.05, 0.6), b + rng.uniform(0.05, 0.6), low + 0.5)
    stray = rng.uniform((x, y, -1.0), (x + 2.0, y + 2.0, 2.0), (8, 3))
    return np.vstack([floor, thing, stray]), (x + 0.8, y + 0.8, rng.choice([0.5, 3.0]))


@pytest.mark.parametrize("carving", ["columns", "line_of_sight"])
@pytest.mark.parametrize("smoothing", [0.0, 1.0, 2.0])
def test_window_by_window_is_the_same_as_a_whole_run(carving: str, smoothing: float) -> None:
    rng = np.random.default_rng(11)
    mapper = VoxelMapper(carving=carving)
    costmap = HeightCostmap(smoothing=smoothing)
    before, old = costmap.cost(), costmap.extent
    for turn in range(14):
        mapper.add_frame(*scene(turn, rng))
        changed = costmap.update(mapper, mapper.take_changed())
        whole = HeightCostmap(smoothing=smoothing)
        whole.update(mapper, costmap.extent)
        assert whole.geometry == costmap.geometry
        assert np.array_equal(costmap.cost(), whole.cost()), f"turn {turn}"
        assert np.array_equal(costmap.inferred(), whole.inferred())
        now = costmap.cost()
        inside = np.zeros(now.shape, np.bool_)
        inside[changed.slices] = True
        grown = np.full(now.shape, -1, np.int8)
        if not old.is_empty:
            moved = old.moved(-costmap.extent.row0, -costmap.extent.col0)
            grown[moved.slices] = before
        assert np.all(inside | (grown == now)), "the window holds every change"
        before, old = now, costmap.extent
    assert set(np.unique(costmap.cost())) >= {-1, 0, 100}


def test_a_small_change_is_felt_as_far_as_in_a_whole_run() -> None:
    rng = np.random.default_rng(13)
    mapper, costmap = VoxelMapper(), HeightCostmap()
    tables = [surface(0.5, x=(x, x + 1.7), y=(y, y + 1.7)) for x, y in ((0.3, 0.3), (2.2, 2.1))]
    floor = FLOOR[rng.random(len(FLOOR)) < 0.15]
    for part_ in (floor, *tables):
        mapper.add_frame(part_, (2.0, 2.0, 1.0))
    costmap.update(mapper, mapper.take_changed())
    for turn in range(30):
        x, y = rng.uniform(0.0, 3.6, 2)
        width, height = rng.uniform(0.06, 0.4), rng.choice([-0.4, 0.0, 0.3, 0.5, 0.9])
        spot = surface(float(height), x=(x, x + width), y=(y, y + width))
        before = costmap.cost(), costmap.inferred()
        mapper.add_frame(spot, (2.0, 2.0, 1.0))
        changed = costmap.update(mapper, mapper.take_changed())
        whole = HeightCostmap()
        whole.update(mapper, costmap.extent)
        now = costmap.cost(), costmap.inferred()
        assert np.array_equal(now[0], whole.cost()), f"turn {turn}"
        assert np.array_equal(now[1], whole.inferred()), f"turn {turn}"
        outside = np.ones(now[0].shape, np.bool_)
        outside[changed.slices] = False
        for new, old in zip(now, before, strict=True):
            assert np.array_equal(new[outside], old[outside]), f"turn {turn}"


def test_the_cost_of_a_map_is_that_of_its_points() -> None:
    rng = np.random.default_rng(12)
    mapper, costmap = VoxelMapper(), HeightCostmap()
    for turn in range(6):
        points, (x, y, _) = scene(turn, rng)
        mapper.add_frame(points, (x, y, 5.0))  # from above, as points are taken to be
        costmap.update(mapper, mapper.take_changed())
    cost, geometry = height_cost(mapper.points())
    row, col = (round((geometry.origin[k] - costmap.geometry.origin[k]) / 0.05) for k in (1, 0))
    same = costmap.cost()[row : row + cost.shape[0], col : col + cost.shape[1]]
    assert np.array_equal(cost, same)


def test_cells_do_not_move_when_the_grid_grows() -> None:
    mapper, costmap = VoxelMapper(), HeightCostmap()
    thing = np.vstack([FLOOR, solid(1.0, 1.0, 0.0, 1.2, 1.2, 0.5)])
    mapper.add_frame(thing, (2.0, 2.0, 0.3))
    costmap.update(mapper, mapper.take_changed())
    for x, y in ((-9.0, 1.0), (1.0, -9.0), (20.0, 20.0)):
        far = surface(0.0, x=(x, x + 0.5), y=(y, y + 0.5))
        mapper.add_frame(far, (x, y, 0.3))
        changed = costmap.update(mapper, mapper.take_changed())
        cost, geometry = costmap.cost(), costmap.geometry
        assert geometry.shape == cost.shape
        assert np.all(part(cost, geometry, 1.0, 1.0, 1.2, 1.2) == 100)
        assert np.all(part(cost, geometry, 0.0, 0.0, SIZE, 0.9) == 0)
        assert np.all(part(cost, geometry, x + 0.01, y + 0.01, x + 0.49, y + 0.49) == 0)
        assert changed == changed.clipped(CellWindow(0, cost.shape[0], 0, cost.shape[1]))


def test_a_grid_at_its_bound_drops_what_is_beyond_and_says_so() -> None:
    mapper, costmap = VoxelMapper(), HeightCostmap(max_cells=200 * 200)
    mapper.add_frame(FLOOR, (2.0, 2.0, 0.3))
    costmap.update(mapper, mapper.take_changed())
    before = costmap.cost()
    mapper.add_frame(FLOOR + (40.0, 0.0, 0.0), (42.0, 2.0, 0.3))
    assert costmap.update(mapper, mapper.take_changed()).is_empty
    assert costmap.growth_refused == 1
    assert np.array_equal(costmap.cost(), before)


def test_an_update_without_change_or_with_other_voxels() -> None:
    mapper, costmap = VoxelMapper(), HeightCostmap()
    assert costmap.update(mapper, mapper.take_changed()).is_empty
    assert costmap.cost().tolist() == [[-1]] and not costmap.inferred().any()
    mapper.add_frame(FLOOR, (2.0, 2.0, 0.3))
    costmap.update(mapper, mapper.take_changed())
    assert costmap.update(mapper, mapper.extent).is_empty, "seen before"
    with pytest.raises(ValueError):
        HeightCostmap(0.1).update(mapper, mapper.extent)
