"""The costmap: Nav2's values at the right distances, and the same bytes however little was recomputed."""

import math

import numpy as np
import pytest

from rhino_actors.mapping import CellWindow, inflate, update_costmap
from rhino_actors.messages.grid import (
    FREE_SPACE,
    INSCRIBED_INFLATED_OBSTACLE,
    LETHAL_OBSTACLE,
    NO_INFORMATION,
)
from tests.maps import parse

GO2 = {
    "resolution": 0.05,
    "inscribed_radius": 0.30,
    "inflation_radius": 0.80,
    "cost_scaling_factor": 4.0,
}
SMALL = {
    "resolution": 0.1,
    "inscribed_radius": 0.17,
    "inflation_radius": 0.43,
    "cost_scaling_factor": 3.0,
}


def random_grid(rng: np.random.Generator, shape: tuple[int, int], density: float) -> np.ndarray:
    grid = rng.integers(0, 65, shape).astype(np.int8)
    grid[rng.random(shape) < 0.3] = -1
    grid[rng.random(shape) < density] = rng.integers(65, 101)
    return grid


def reference(
    occupancy: np.ndarray,
    *,
    resolution: float,
    inscribed_radius: float,
    inflation_radius: float,
    cost_scaling_factor: float,
) -> np.ndarray:
    """Nav2's formula cell by cell, distances by looking at every obstacle."""
    costs = np.zeros(occupancy.shape, np.uint8)
    obstacles = np.argwhere(occupancy >= 65)
    for row, col in np.ndindex(*occupancy.shape):
        distance = math.inf
        if len(obstacles):
            distance = np.hypot(*(obstacles - (row, col)).T).min() * resolution
        cost = 0
        if distance == 0.0:
            cost = 254
        elif distance <= inscribed_radius + 1e-9:
            cost = 253
        elif distance <= inflation_radius + 1e-9:
            cost = int(252 * math.exp(-cost_scaling_factor * (distance - inscribed_radius)))
        costs[row, col] = 255 if occupancy[row, col] < 0 and cost < 253 else cost
    return costs


@pytest.mark.parametrize("parameters", [GO2, SMALL])
@pytest.mark.parametrize("seed", range(4))
def test_costs_equal_the_formula_cell_by_cell(parameters: dict[str, float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid = random_grid(rng, (int(rng.integers(1, 50)), int(rng.integers(1, 50))), 0.01)

    assert np.array_equal(inflate(grid, **parameters), reference(grid, **parameters))


def test_lone_obstacle_has_the_documented_values_around_it() -> None:
    grid = np.zeros((1, 41), np.int8)
    grid[0, 20] = 100

    costs = inflate(grid, **GO2)[0]

    assert costs[20] == LETHAL_OBSTACLE
    assert costs[26] == costs[14] == INSCRIBED_INFLATED_OBSTACLE, (
        "6 cells are 0.30 m, rounding or not"
    )
    assert costs[27] == int(252 * math.exp(-4.0 * 0.05))
    assert costs[36] == int(252 * math.exp(-4.0 * 0.50))
    assert costs[37] == FREE_SPACE
    assert np.array_equal(costs, costs[::-1])


@pytest.mark.parametrize(("value", "lethal"), [(0, False), (64, False), (65, True), (100, True)])
def test_occupancy_is_lethal_from_the_map_servers_threshold_on(value: int, lethal: bool) -> None:
    grid = np.full((3, 3), value, np.int8)
    assert np.all(inflate(grid, **GO2) == (LETHAL_OBSTACLE if lethal else FREE_SPACE))


@pytest.mark.parametrize("seed", range(5))
def test_inflation_never_turns_unknown_into_anything_that_may_be_driven_on(seed: int) -> None:
    grid = random_grid(np.random.default_rng(seed), (60, 70), 0.02)

    costs = inflate(grid, **GO2)

    assert set(np.unique(costs[grid < 0]).tolist()) <= {INSCRIBED_INFLATED_OBSTACLE, NO_INFORMATION}
    assert not np.any(costs[grid >= 0] == NO_INFORMATION)


def test_wall_seen_from_one_side_keeps_its_clearance_in_the_unknown_behind() -> None:
    drawn = parse("....#????????????")

    costs = inflate(drawn.occupancy, **SMALL | {"resolution": 0.05})[0]

    assert costs[5:8].tolist() == [INSCRIBED_INFLATED_OBSTACLE] * 3
    assert np.all(costs[8:] == NO_INFORMATION)


@pytest.mark.parametrize(("gap", "passable"), [(0.8, True), (0.55, False)])
@pytest.mark.parametrize("resolution", [0.05, 0.1])
@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("turned", [False, True])
def test_doorway_is_passable_when_the_robot_fits(
    gap: float, passable: bool, resolution: float, offset: float, turned: bool
) -> None:
    """P07: a gap in a wall 0.2 m thick, in both directions, on the grid and half a cell off it."""
    size = round(3.0 / resolution)
    grid = np.zeros((size, size), np.int8)
    centre = (np.arange(size) + 0.5) * resolution
    middle = 1.5 + offset * resolution
    thickness = np.abs(centre - 1.5) < 0.1
    wall = np.abs(centre - middle) > gap / 2 - resolution / 2 + 1e-9  # a cell that the wall touches
    grid[np.ix_(thickness, wall)] = 100

    costs = inflate(grid.T if turned else grid, **GO2 | {"resolution": resolution})

    row = (costs.T if turned else costs)[round(1.5 / resolution)]
    assert bool(np.any(row < INSCRIBED_INFLATED_OBSTACLE)) is passable


@pytest.mark.parametrize("parameters", [GO2, SMALL])
@pytest.mark.parametrize("seed", range(4))
def test_local_update_gives_the_bytes_of_a_full_one(
    parameters: dict[str, float], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    grid = random_grid(rng, (90, 120), 0.005)
    costmap = inflate(grid, **parameters)
    for _ in range(20):
        row0, col0 = rng.integers(-5, 95), rng.integers(-5, 125)
        window = CellWindow(
            int(row0), int(row0 + rng.integers(1, 30)), int(col0), int(col0 + rng.integers(1, 30))
        )
        part = grid[max(0, row0) : max(0, window.row1), max(0, col0) : max(0, window.col1)]
        part[...] = random_grid(rng, part.shape, rng.choice([0.0, 0.05]))
        before = costmap.copy()

        touched = update_costmap(costmap, grid, window, **parameters)

        assert np.array_equal(costmap, inflate(grid, **parameters))
        before[touched.slices] = costmap[touched.slices]
        assert np.array_equal(before, costmap), "nothing outside the returned window changed"


def test_occupancy_is_left_alone_read_only_or_not() -> None:
    grid = random_grid(np.random.default_rng(0), (20, 30), 0.05)
    copy = grid.copy()
    grid.flags.writeable = False

    costs = inflate(grid[::2, 3:], **GO2)

    assert np.array_equal(grid, copy)
    assert np.array_equal(costs, inflate(copy[::2, 3:].copy(), **GO2))


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)])
def test_empty_grid_has_an_empty_costmap(shape: tuple[int, int]) -> None:
    assert inflate(np.empty(shape, np.int8), **GO2).shape == shape


def test_radius_of_zero_marks_the_obstacle_alone() -> None:
    grid = parse("...#...").occupancy
    costs = inflate(grid, **GO2 | {"inscribed_radius": 0.0, "inflation_radius": 0.0})
    assert costs.tolist() == [[0, 0, 0, 254, 0, 0, 0]]


@pytest.mark.parametrize(
    "wrong",
    [
        {"inflation_radius": 0.2},
        {"inscribed_radius": -0.1},
        {"cost_scaling_factor": math.nan},
        {"inflation_radius": math.inf},
        {"resolution": 0.0},
        {"inflation_radius": 1e4},
    ],
)
def test_impossible_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        inflate(np.zeros((2, 2), np.int8), **GO2 | wrong)


def test_grids_of_other_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="two dimensions"):
        inflate(np.zeros(4, np.int8), **GO2)
    with pytest.raises(ValueError, match="differ in shape"):
        update_costmap(
            np.zeros((2, 2), np.uint8), np.zeros((2, 3), np.int8), CellWindow(0, 1, 0, 1), **GO2
        )
