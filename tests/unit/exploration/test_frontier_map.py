"""Frontiers of a map that changes."""

import numpy as np
from scipy import ndimage

from rhino_actors.exploration import FrontierMap, find_frontiers
from rhino_actors.exploration.frontier import changed_window
from rhino_actors.messages.window import EMPTY_WINDOW, CellWindow


def as_sets(clusters):
    return {frozenset(map(tuple, cluster.cells.tolist())) for cluster in clusters}


def random_map(rng, shape):
    smooth = ndimage.uniform_filter(rng.random(shape), 3)
    low, high = np.quantile(smooth, [0.3, 0.8])
    grid = np.where(smooth < low, -1, 0)
    return np.where(smooth > high, 100, grid).astype(np.int8)


def test_updates_of_windows_give_what_the_whole_map_gives():
    rng = np.random.default_rng(5)
    for shape in [(1, 1), (1, 9), (17, 40), (50, 33)]:
        grid = random_map(rng, shape)
        frontiers = FrontierMap()
        frontiers.update(grid)
        for _ in range(25):
            row0, row1 = sorted(rng.integers(0, shape[0] + 1, 2).tolist())
            col0, col1 = sorted(rng.integers(0, shape[1] + 1, 2).tolist())
            grid = grid.copy()
            window = CellWindow(row0, row1, col0, col1)
            grid[window.slices] = random_map(rng, shape)[window.slices]
            frontiers.update(grid, window)
            for min_cells in (1, 4):
                expected = find_frontiers(grid, min_cells=min_cells)
                assert as_sets(frontiers.clusters(min_cells=min_cells)) == as_sets(expected)


def test_a_map_of_another_shape_is_looked_at_whole():
    frontiers = FrontierMap()
    frontiers.update(np.full((5, 5), 100, np.int8))
    frontiers.update(np.zeros((9, 9), np.int8), CellWindow(0, 1, 0, 1))
    assert [cluster.size for cluster in frontiers.clusters(min_cells=1)] == [32]


def test_the_window_of_what_changed_holds_every_cell_that_differs_and_no_more():
    rng = np.random.default_rng(6)
    for _ in range(60):
        shape = tuple(rng.integers(1, 30, 2))
        grid, costs = np.zeros(shape, np.int8), np.zeros(shape, np.uint8)
        new, new_costs = grid.copy(), costs.copy()
        for array in (new, new_costs):
            for _ in range(rng.integers(0, 3)):
                array[rng.integers(shape[0]), rng.integers(shape[1])] = 7
        rows, cols = np.nonzero((new != grid) | (new_costs != costs))
        window = changed_window(new, grid, new_costs, costs)
        if not len(rows):
            assert window == EMPTY_WINDOW
        else:
            assert window == (rows.min(), rows.max() + 1, cols.min(), cols.max() + 1)
