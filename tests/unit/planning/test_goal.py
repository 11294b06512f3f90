import functools
import math

import numpy as np
import pytest

from rhino_actors.errors import NoPath, StartOccupied, StartOutsideMap
from rhino_actors.mapping.inflation import inflate
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.planning import free_start, nearest_free_goal, plan_path
from tests import maps

RADIUS = 0.30
INFLATION = 0.80
RES = 0.1


def inflation(resolution=RES):
    return functools.partial(
        inflate,
        resolution=resolution,
        inscribed_radius=RADIUS,
        inflation_radius=INFLATION,
        cost_scaling_factor=4.0,
    )


def room(size_m=6.0, resolution=RES):
    cells = round(size_m / resolution)
    return np.zeros((cells, cells), np.int8), GridGeometry(resolution, (0.0, 0.0), (cells, cells))


def fill(occupancy, geometry, x0, y0, x1, y1, value=100):
    """Mark the cells whose centres lie in a box [m]."""
    rows, cols = np.indices(occupancy.shape)
    x, y = (cols + 0.5) * geometry.resolution, (rows + 0.5) * geometry.resolution
    occupancy[(x > x0) & (x < x1) & (y > y0) & (y < y1)] = value


def free(occupancy, geometry, x, y, **more):
    costmap = inflation(geometry.resolution)(occupancy)
    return free_start(
        occupancy,
        costmap,
        geometry,
        x,
        y,
        inflate=inflation(geometry.resolution),
        footprint_radius=RADIUS,
        inflation_radius=INFLATION,
        **more,
    )


@pytest.mark.parametrize("asked", [(2.0, 2.0), (2.35, 2.0), (1.81, 2.2)])
def test_goal_in_an_obstacle_moves_to_the_nearest_free_floor(asked):  # P01
    occupancy, geometry = room()
    fill(occupancy, geometry, 1.8, 1.8, 2.2, 2.2)
    costmap = inflation()(occupancy)
    goal = geometry.cell_from_world(*asked)
    found = nearest_free_goal(
        costmap, goal, geometry.cell_from_world(5.0, 5.0), radius=0.6, resolution=RES
    )
    assert found is not None and costmap[found] < 253
    distance = math.dist(found, goal) * RES
    rows, cols = np.nonzero(costmap < 253)
    assert distance == pytest.approx(np.hypot(rows - goal[0], cols - goal[1]).min() * RES)
    assert distance <= 0.5
    rows, cols = np.nonzero(occupancy == 100)
    assert np.hypot(rows - found[0], cols - found[1]).min() * RES >= RADIUS - 1e-9


def test_goal_stays_on_the_robot_s_side_of_a_wall():  # P01: the same region
    drawn = maps.parse("""
        .........
        .........
        ####G####
        .........
        S........
    """)
    occupancy = drawn.occupancy.copy()
    occupancy[drawn.goal] = 100
    costmap = maps.costmap_from_occupancy(occupancy)
    ask = functools.partial(nearest_free_goal, costmap, resolution=RES)
    assert ask(drawn.goal, drawn.start, radius=0.3) == (1, 4)
    assert ask(drawn.goal, (4, 0), radius=0.3) == (3, 4)
    assert ask(drawn.goal, drawn.start, radius=0.05) is None


def test_goal_that_can_be_reached_is_its_own_answer_and_known_floor_comes_first():
    drawn = maps.parse("""
        ??#..
        ??#..
        ..G.S
    """)
    ask = functools.partial(nearest_free_goal, drawn.costmap, radius=0.5, resolution=RES)
    assert ask(drawn.goal, drawn.start) == drawn.goal
    assert ask((2, 2), drawn.start) == (2, 3)
    assert ask((2, 1), drawn.start) == (0, 1)
    assert ask((2, 1), drawn.start, allow_unknown=False) == (0, 1)
    assert ask((5, 3), drawn.start) == (2, 3), "a goal outside the map"
    assert ask((90, 90), drawn.start) is None
    with pytest.raises(StartOutsideMap):
        ask(drawn.goal, (3, 0))


def test_robot_gets_out_of_an_obstacle_that_appeared_in_front_of_it():  # P02
    for resolution in (0.05, 0.1):
        occupancy, geometry = room(resolution=resolution)
        robot, goal = (4.5, 3.03), geometry.cell_from_world(1.5, 3.0)
        fill(occupancy, geometry, 4.6, 2.9, 4.71, 3.15)
        costmap = inflation(resolution)(occupancy)
        before = costmap.copy()
        start = geometry.cell_from_world(*robot)
        with pytest.raises(StartOccupied):
            plan_path(costmap, start, goal)
        path = plan_path(free(occupancy, geometry, *robot), start, goal)
        assert path.cost < 1.6 * len(path.cells)
        np.testing.assert_array_equal(costmap, before)


def test_robot_on_a_lethal_cell_gets_out():  # P02
    occupancy, geometry = room()
    fill(occupancy, geometry, 2.9, 2.9, 3.2, 3.2)
    start = geometry.cell_from_world(3.0, 3.0)
    assert occupancy[start] == 100
    path = plan_path(free(occupancy, geometry, 3.0, 3.0), start, (5, 5))
    assert tuple(path.cells[-1]) == (5, 5)


def test_robot_in_the_inscribed_band_of_a_wall_gets_out_and_never_through_it():  # P02
    for resolution in (0.05, 0.1):
        for gap in np.arange(0.16, 0.34, 0.02):
            occupancy, geometry = room(resolution=resolution)
            fill(occupancy, geometry, 0.0, 3.0, 6.0, 3.0 + 1.5 * resolution)
            robot = (3.013, 3.0 - gap)
            start = geometry.cell_from_world(*robot)
            costmap = free(occupancy, geometry, *robot)
            assert tuple(plan_path(costmap, start, (2, 2)).cells[-1]) == (2, 2)
            with pytest.raises(NoPath):
                plan_path(costmap, start, geometry.cell_from_world(3.0, 5.0))


def test_freeing_changes_nothing_away_from_the_robot_nor_outside_the_disc_s_obstacles():
    rng = np.random.default_rng(1)
    occupancy, geometry = room()
    occupancy[rng.random(occupancy.shape) < 0.01] = 100
    occupancy[rng.random(occupancy.shape) < 0.05] = -1
    robot = (3.03, 3.02)
    fill(occupancy, geometry, 2.9, 2.9, 3.1, 3.2)
    costmap = inflation()(occupancy)
    freed = free(occupancy, geometry, *robot)
    rows, cols = np.indices(costmap.shape)
    distance = np.hypot((cols + 0.5) * RES - robot[0], (rows + 0.5) * RES - robot[1])
    far = distance > RADIUS + INFLATION + RES
    np.testing.assert_array_equal(freed[far], costmap[far])
    outside = distance > RADIUS + RES / 2
    assert np.all(freed[outside & (occupancy == 100)] >= 253)
    lowered = (freed < costmap) & (costmap < 255)
    assert np.all(freed[lowered] == 252), "what is freed stays the dearest floor there is"
    assert np.all(freed >= np.minimum(costmap, 252))


def test_freeing_equals_inflating_the_whole_map_without_the_disc():
    rng = np.random.default_rng(41)
    freed_any = 0
    for _ in range(20):
        occupancy, geometry = room()
        occupancy[rng.random(occupancy.shape) < 0.02] = 100
        robot = tuple(rng.uniform(1.0, 5.0, 2))
        if inflation()(occupancy)[geometry.cell_from_world(*robot)] < 253:
            continue
        rows, cols = np.indices(occupancy.shape)
        inside = np.hypot((cols + 0.5) * RES - robot[0], (rows + 0.5) * RES - robot[1]) <= RADIUS
        cleared = occupancy.copy()
        cleared[inside] = 0
        try:
            freed = free(occupancy, geometry, *robot)
        except StartOccupied:
            continue
        whole = inflation()(cleared)
        np.testing.assert_array_equal((freed < 253)[~inside], (whole < 253)[~inside])
        assert np.all(freed[inside] < 253)
        freed_any += 1
    assert freed_any > 5


def test_robot_that_sees_itself_all_around_gets_out():  # P02, P16
    occupancy, geometry = room()
    rows, cols = np.indices(occupancy.shape)
    distance = np.hypot((cols + 0.5) * RES - 3.05, (rows + 0.5) * RES - 3.05)
    occupancy[(distance > 0.15) & (distance < 0.3)] = 100
    start = geometry.cell_from_world(3.05, 3.05)
    path = plan_path(free(occupancy, geometry, 3.05, 3.05), start, (5, 5))
    assert tuple(path.cells[-1]) == (5, 5)


def test_boxed_in_robot_is_start_occupied():  # P02
    occupancy, geometry = room()
    rows, cols = np.indices(occupancy.shape)
    distance = np.hypot((cols + 0.5) * RES - 3.05, (rows + 0.5) * RES - 3.05)
    occupancy[(distance > 0.35) & (distance < 0.6)] = 100
    fill(occupancy, geometry, 3.1, 3.0, 3.2, 3.1)
    with pytest.raises(StartOccupied):
        free(occupancy, geometry, 3.05, 3.05)


def test_a_free_start_costs_no_copy_and_one_outside_is_told():
    occupancy, geometry = room()
    costmap = inflation()(occupancy)
    kept = free_start(
        occupancy,
        costmap,
        geometry,
        3.0,
        3.0,
        inflate=inflation(),
        footprint_radius=RADIUS,
        inflation_radius=INFLATION,
    )
    assert kept is costmap
    with pytest.raises(StartOutsideMap):
        free(occupancy, geometry, -0.2, 3.0)


def test_robot_by_the_edge_of_the_map_is_freed_too():
    occupancy, geometry = room()
    fill(occupancy, geometry, 0.0, 0.0, 0.15, 0.15)
    path = plan_path(free(occupancy, geometry, 0.05, 0.05), (0, 0), (30, 30))
    assert tuple(path.cells[0]) == (0, 0)


def test_unknown_floor_under_the_robot_is_floor():
    occupancy, geometry = room(3.0)
    fill(occupancy, geometry, 1.3, 1.3, 1.7, 1.7, -1)
    start = geometry.cell_from_world(1.5, 1.5)
    freed = free(occupancy, geometry, 1.5, 1.5, allow_unknown=False)
    assert plan_path(freed, start, (2, 2), allow_unknown=False).cost > 0


@pytest.mark.parametrize("shift", [0.0, 0.5])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("gap", "passes"), [(0.8, True), (0.55, False)])
def test_doorways(gap, passes, turned, shift):  # P07
    resolution = 0.05
    occupancy, geometry = room(4.0, resolution)
    middle = 2.0 + shift * resolution
    fill(occupancy, geometry, 0.0, 1.9, middle - gap / 2, 2.1)
    fill(occupancy, geometry, middle + gap / 2, 1.9, 4.0, 2.1)
    costmap = inflation(resolution)(occupancy.T if turned else occupancy)
    start, goal = (geometry.cell_from_world(2.0, y) for y in (0.7, 3.3))
    if turned:
        start, goal = start[::-1], goal[::-1]
    if passes:
        assert plan_path(costmap, start, goal).cost < 400
    else:
        with pytest.raises(NoPath):
            plan_path(costmap, start, goal)
