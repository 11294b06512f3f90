import numpy as np
import pytest
from scipy import ndimage

from rhino_actors.exploration import find_frontiers
from tests import maps


def reference(occupancy, min_cells, start=None):
    """Return the frontiers as sets of cells, by scipy: four-connected reach, eight-connected clusters."""
    free = (occupancy >= 0) & (occupancy < 50)
    unknown = np.pad(occupancy < 0, 1, constant_values=True)
    beside = unknown[2:, 1:-1] | unknown[:-2, 1:-1] | unknown[1:-1, 2:] | unknown[1:-1, :-2]
    frontier = free & beside
    if start is not None:
        labels, _ = ndimage.label(free)
        near = labels[start]
        if not near:
            row, col = start
            near = labels[max(0, row - 1) : row + 2, max(0, col - 1) : col + 2]
        frontier &= np.isin(labels, np.unique(near)) & free
    labels, count = ndimage.label(frontier, np.ones((3, 3)))
    clusters = [frozenset(map(tuple, np.argwhere(labels == i + 1).tolist())) for i in range(count)]
    return {cluster for cluster in clusters if len(cluster) >= min_cells}


def as_sets(clusters):
    return {frozenset(map(tuple, cluster.cells.tolist())) for cluster in clusters}


@pytest.mark.parametrize("with_start", [False, True])
def test_clusters_are_those_of_the_reference(with_start):
    rng = np.random.default_rng(31)
    found = 0
    for shape in [(1, 1), (1, 12), (12, 1), (9, 9), (40, 33), (64, 80)] * 6:
        occupancy = ndimage.uniform_filter(rng.random(shape), rng.integers(1, 4))
        low, high = np.quantile(occupancy, [0.35, 0.75])
        grid = np.where(occupancy < low, -1, rng.integers(0, 50, shape))
        grid = np.where(occupancy > high, rng.integers(50, 101, shape), grid).astype(np.int8)
        grid.flags.writeable = bool(rng.integers(2))
        start = (int(rng.integers(shape[0])), int(rng.integers(shape[1]))) if with_start else None
        min_cells = int(rng.integers(1, 6))
        clusters = find_frontiers(grid, min_cells=min_cells, start=start)
        assert as_sets(clusters) == reference(grid, min_cells, start)
        found += len(clusters)
    assert found > 20


def test_a_cluster_has_its_size_and_a_member_near_its_middle_as_target():
    drawn = maps.parse("""
        ?????????
        #.......#
        #########
    """)
    (cluster,) = find_frontiers(drawn.occupancy, min_cells=1)
    assert cluster.size == len(cluster.cells) == 7
    assert cluster.cells.dtype == np.int32
    assert cluster.target == (1, 4)


def test_target_is_a_member_even_where_the_centroid_is_not():
    drawn = maps.parse("""
        .????.
        .????.
        ......
    """)
    padded = np.pad(drawn.occupancy, 1, constant_values=100)
    (cluster,) = find_frontiers(padded, min_cells=1)
    assert tuple(cluster.target) in set(map(tuple, cluster.cells.tolist()))


def test_the_largest_comes_first_and_small_ones_are_left_out():
    drawn = maps.parse("""
        #####????#
        #..##....#
        ?..##....#
        ##########
    """)
    sizes = [cluster.size for cluster in find_frontiers(drawn.occupancy, min_cells=1)]
    assert sizes == [4, 1]
    assert [c.size for c in find_frontiers(drawn.occupancy, min_cells=2)] == [4]


def test_the_edge_of_the_grid_counts_as_unknown():  # P19
    drawn = maps.parse("""
        ####.##
        #.....#
        #.....#
        #######
    """)
    (cluster,) = find_frontiers(drawn.occupancy, min_cells=1)
    assert cluster.cells.tolist() == [[3, 4]]
    everywhere = find_frontiers(np.zeros((3, 4), np.int8), min_cells=1)
    assert [cluster.size for cluster in everywhere] == [10]


def test_frontiers_join_over_a_diagonal():
    drawn = maps.parse("""
        ##?#
        ?#.#
        #.##
        ####
    """)
    occupancy = drawn.occupancy.copy()
    occupancy[1, 0] = -1
    (cluster,) = find_frontiers(occupancy, min_cells=1)
    assert sorted(map(tuple, cluster.cells.tolist())) == [(1, 1), (2, 2)]


def test_unknown_behind_a_closed_ring_is_no_frontier_of_the_robot():  # P18
    drawn = maps.parse("""
        ##########
        #S...####?
        #....#??.?
        #....#??.?
        ?....####?
        ##########
    """)
    reachable = find_frontiers(drawn.occupancy, min_cells=1, start=drawn.start)
    assert [cluster.cells.tolist() for cluster in reachable] == [[[1, 1]]]
    assert len(find_frontiers(drawn.occupancy, min_cells=1)) == 2


def test_a_diagonal_gap_is_no_way_through():
    drawn = maps.parse("""
        #####
        #S#.?
        ##.#?
        #####
    """)
    assert find_frontiers(drawn.occupancy, min_cells=1, start=(2, 1)) == []


def test_a_robot_on_an_occupied_cell_still_has_the_free_cells_around_it():
    drawn = maps.parse("""
        ####
        ?.##
        ####
    """)
    assert len(find_frontiers(drawn.occupancy, min_cells=1, start=(1, 2))) == 1
    assert find_frontiers(drawn.occupancy, min_cells=1, start=(2, 3)) == []


def test_an_unknown_and_an_empty_map_have_no_frontier():
    assert find_frontiers(np.full((5, 5), -1, np.int8), min_cells=1) == []
    assert find_frontiers(np.full((1, 1), -1, np.int8), min_cells=1, start=(0, 0)) == []
    assert find_frontiers(np.zeros((0, 0), np.int8), min_cells=1) == []


@pytest.mark.parametrize(
    "occupancy", [np.zeros((3, 3)), np.zeros(9, np.int8), np.zeros((3, 3), np.uint8)]
)
def test_what_is_not_an_occupancy_grid_is_refused(occupancy):
    with pytest.raises(ValueError, match="int8"):
        find_frontiers(occupancy, min_cells=1)


def test_a_start_outside_the_grid_is_refused():
    with pytest.raises(ValueError, match="outside"):
        find_frontiers(np.zeros((3, 3), np.int8), min_cells=1, start=(3, 0))
