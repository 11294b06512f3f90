"""Costs of ways on coarse blocks."""

import numpy as np

from rhino_actors.exploration.travel import CoarseTravel, note_ways, way_end
from rhino_actors.mapping.inflation import inflate
from rhino_actors.messages.grid import LETHAL_OBSTACLE
from rhino_actors.messages.window import CellWindow
from rhino_actors.planning import cost_to_go
from tests import maps


def random_costs(rng, shape):
    costs = rng.integers(0, 253, shape).astype(np.uint8)
    costs[rng.random(shape) < 0.3] = 254
    costs[rng.random(shape) < 0.1] = 255
    return costs


def test_with_blocks_of_one_cell_it_is_the_planners_field_to_a_few_percent():
    rng = np.random.default_rng(1)
    for _ in range(5):
        costmap = random_costs(rng, (40, 50))
        costmap[5, 5] = 0
        travel = CoarseTravel()
        travel.update(costmap, 0.2)
        assert travel.block == 1
        field = travel.from_robot(5, 5, 0.4)
        exact = cost_to_go(costmap, [(5, 5)], cost_weight=1.0, allow_unknown=False) * 0.2
        # Corners may be cut here, and a step is in tenths.
        assert (np.isfinite(field) | ~np.isfinite(exact)).all()
        both = np.isfinite(exact) & (exact > 1.0)
        assert (field[both] <= exact[both] * 1.02).all()
    costmap = np.zeros((40, 50), np.uint8)
    travel = CoarseTravel()
    travel.update(costmap, 0.2)
    exact = cost_to_go(costmap, [(5, 5)], cost_weight=1.0) * 0.2
    np.testing.assert_allclose(travel.from_robot(5, 5, 0.4), exact, rtol=0.011)


def test_unknown_floor_and_obstacles_are_not_passed():
    drawn = maps.parse("""
        ..?..
        ..?..
        S.?..
    """)
    travel = CoarseTravel()
    travel.update(drawn.costmap, 0.2)
    assert np.isfinite(travel.from_robot(0, 0, 0.4)).sum() == 6


def test_a_gap_of_one_cell_is_a_way_through_its_block():
    costmap = np.zeros((12, 12), np.uint8)
    costmap[:, 5:7] = 254
    costmap[6, 5:7] = 10
    travel = CoarseTravel()
    travel.update(costmap, 0.05)
    assert travel.block == 4
    assert np.isfinite(travel.from_robot(0, 0, 0.2)).all()
    costmap[:, 4:8] = 254
    travel.update(costmap, 0.05)
    assert np.isfinite(travel.from_robot(0, 0, 0.2)).sum() == 3


def test_a_robot_beside_the_floor_starts_from_the_floor_near_it():
    costmap = np.full((20, 20), 255, np.uint8)
    costmap[:, 12:] = 0
    travel = CoarseTravel()
    travel.update(costmap, 0.05)
    assert np.isfinite(travel.from_robot(4, 9, 0.2)[:, 3]).all()
    assert not np.isfinite(travel.from_robot(4, 0, 0.2)[:, 3]).any()
    assert not np.isfinite(travel.from_robot(40, 40, 0.2)).any(), "outside the map"


def test_updates_of_windows_give_what_the_whole_map_gives():
    rng = np.random.default_rng(2)
    costmap = random_costs(rng, (37, 50))
    travel = CoarseTravel()
    travel.update(costmap, 0.1)
    for _ in range(10):
        row0, row1 = sorted(rng.integers(0, 38, 2).tolist())
        col0, col1 = sorted(rng.integers(0, 51, 2).tolist())
        window = CellWindow(row0, row1, col0, col1)
        costmap = costmap.copy()
        costmap[window.slices] = random_costs(rng, (37, 50))[window.slices]
        travel.update(costmap, 0.1, window)
        fresh = CoarseTravel()
        fresh.update(costmap, 0.1)
        assert (travel.from_robot(20, 20, 1.0) == fresh.from_robot(20, 20, 1.0)).all()


def test_ways_between_places_are_the_fields_of_each():
    rng = np.random.default_rng(3)
    costmap = np.where(rng.random((60, 60)) < 0.2, 254, 30).astype(np.uint8)
    cells = np.argwhere(costmap < 253)[rng.integers(0, 2000, 6)].astype(np.int32)
    travel = CoarseTravel()
    travel.update(costmap, 0.2)
    between = travel.between(cells)
    for i, cell in enumerate(cells):
        field = travel.from_robot(int(cell[0]), int(cell[1]), 0.1)
        np.testing.assert_allclose(between[i], field[cells[:, 0], cells[:, 1]], rtol=1e-5)
    assert (between == between.T).all()
    limited = travel.between(cells, limit=3.0)
    near = between <= 2.5
    assert (limited[near] == between[near]).all() and np.isinf(limited[between > 4.0]).all()


def test_blocks_lead_through_a_gap_that_the_planners_field_does_not():
    """Why a way counts as having led somewhere only where both do."""
    drawn = np.zeros((60, 60), np.int8)
    drawn[30] = 100
    drawn[30, 25:36] = 0  # 0.55 m
    costmap = inflate(
        drawn, resolution=0.05, inscribed_radius=0.3, inflation_radius=0.8, cost_scaling_factor=6.0
    )
    travel = CoarseTravel()
    travel.update(costmap, 0.05)
    exact = cost_to_go(costmap, [(10, 30)], cost_weight=1.0)
    led = travel.blocks_of(np.isfinite(exact))
    assert np.isfinite(travel.from_robot(10, 30, 0.4))[50 // 4, 30 // 4]
    assert led[10 // 4, 30 // 4] and not led[50 // 4, 30 // 4]


def test_a_way_that_was_closed_ends_where_it_was_closed_and_not_behind_a_wall() -> None:
    """Floor on both sides of a wall that was not seen yet touches: ways lead around it all the same."""
    floor = np.zeros((60, 60), np.uint8)
    floor[10:50, 28:32] = LETHAL_OBSTACLE  # a wall with a way round either end
    travel = CoarseTravel()
    travel.update(floor, 0.05)
    ways_back = np.zeros((15, 15), np.int8)
    field = travel.from_robot(30, 10, 0.3)
    note_ways(field, np.isfinite(field), ways_back)
    closed = floor.copy()
    closed[:12, 28:32] = closed[48:, 28:32] = LETHAL_OBSTACLE
    travel.update(closed, 0.05)
    led = np.isfinite(travel.from_robot(30, 10, 0.3))
    assert not led[7, 14]
    note_ways(travel.from_robot(30, 10, 0.3), led, ways_back)
    for block in ((7, 14), (7, 8), (1, 12), (13, 12)):
        end = way_end(block, led, ways_back)
        assert end is not None and led[end] and end[1] == 6
        assert end[0] <= 3 or end[0] >= 11, "at the gap, not half-way along the wall"


def test_a_way_that_never_led_there_has_no_end() -> None:
    led = np.zeros((3, 3), np.bool_)
    ways_back = np.zeros((3, 3), np.int8)
    assert way_end((1, 1), led, ways_back) is None
    note_ways(np.zeros((3, 3), np.float32), np.ones((3, 3), np.bool_), ways_back)
    assert (ways_back == 5).all() and way_end((1, 1), led, ways_back) is None, "it begins here"
    ways_back[0, :2] = 6, 4  # two that lead to each other, of different times
    assert way_end((0, 0), led, ways_back) is None
