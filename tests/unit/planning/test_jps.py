"""Jump points give the lengths of the reference search, on uniform floor and only there."""

import math

import numpy as np
import pytest

from rhino_actors.errors import NoPath, PlanCancelled, PlanTimedOut
from rhino_actors.planning import Planner, path_cost
from rhino_actors.planning.jps import JumpPointSearch
from rhino_actors.planning.search import Limits
from tests.unit.planning.reference import dijkstra, neighbours


def clutter(rng, shape, share):
    return np.where(rng.random(shape) < share, 254, 0).astype(np.uint8)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.3, 0.4])
def test_lengths_are_those_of_dijkstra_on_random_clutter(share):
    rng = np.random.default_rng(int(share * 100))
    search = JumpPointSearch()
    compared = 0
    for shape in [(1, 9), (30, 1), (9, 140), (130, 12), (33, 65)]:
        costmap = clutter(rng, shape, share)
        search.load(costmap, 0.0, True)
        free = np.argwhere(costmap == 0)
        start = tuple(int(v) for v in free[rng.integers(len(free))])
        best = dijkstra(costmap, [start], 0.0, True)
        for goal in [tuple(int(v) for v in free[i]) for i in rng.integers(0, len(free), 12)]:
            if goal == start:
                continue
            if math.isinf(best[goal]):
                with pytest.raises(NoPath):
                    search.search(start, goal, Limits())
                continue
            cells, _ = search.search(start, goal, Limits())
            walked = [tuple(cell) for cell in cells.tolist()]
            assert walked[0] == start and walked[-1] == goal
            steps = zip(walked[:-1], walked[1:], strict=True)
            assert all(b in neighbours(costmap, a, True) for a, b in steps)
            assert path_cost(costmap, cells, 0.0) == pytest.approx(best[goal], rel=1e-4)
            compared += 1
    assert compared > 4


def test_it_applies_where_all_floor_costs_the_same():
    costmap = np.zeros((40, 40), np.uint8)
    costmap[10, 5:30] = 254
    search = JumpPointSearch()
    assert search.load(costmap, 3.0, True)
    assert search.load(np.where(costmap == 0, 40, costmap).astype(np.uint8), 3.0, True)
    costmap[3, 3] = 1
    assert not search.load(costmap, 3.0, True)
    assert search.load(costmap, 0.0, True)
    costmap[3, 3] = 255
    assert search.load(costmap, 3.0, False)
    assert not search.load(costmap, 3.0, True)
    assert search.load(costmap, 0.0, True)


def test_clutter_is_left_to_a_star():
    assert not JumpPointSearch().load(clutter(np.random.default_rng(1), (99, 99), 0.2), 0.0, True)


def test_planner_s_uniform_plans_follow_a_map_that_changes():
    costmap = np.full((50, 70), 30, np.uint8)
    planner = Planner()
    straight = planner.plan_path(costmap, (25, 5), (25, 65))
    assert straight.cost == pytest.approx(60.0 * (1.0 + 3.0 * 30.0 / 252.0))
    assert straight.expanded < 10
    walled = costmap.copy()
    walled[5:, 30] = 254
    around = planner.plan_path(walled, (25, 5), (25, 65))
    assert around.cost > straight.cost and around.cells[:, 0].min() == 4
    assert planner.plan_path(costmap, (25, 5), (25, 65)).cost == straight.cost


def test_unknown_floor_is_not_walked_when_forbidden():
    costmap = np.zeros((30, 30), np.uint8)
    costmap[:, 15] = 255
    planner = Planner()
    assert planner.plan_path(costmap, (3, 3), (3, 25), cost_weight=0.0).cost == 22.0
    with pytest.raises(NoPath):
        planner.plan_path(costmap, (3, 3), (3, 25), cost_weight=0.0, allow_unknown=False)


def test_search_can_be_ended():
    costmap = clutter(np.random.default_rng(7), (400, 400), 0.1)
    costmap[:5, :5] = costmap[-5:, -5:] = 0
    search = JumpPointSearch()
    search.load(costmap, 0.0, True)
    ends = ((0, 0), (399, 399))
    with pytest.raises(PlanTimedOut):
        search.search(*ends, Limits(max_expansions=20))
    with pytest.raises(PlanTimedOut):
        search.search(*ends, Limits(should_stop=lambda: True))
    with pytest.raises(PlanCancelled):
        search.search(*ends, Limits(cancel=np.ones(1, np.uint8)))
    whole, expanded = search.search(*ends, Limits())
    chunked, _ = search.search(*ends, Limits(should_stop=lambda: False))
    np.testing.assert_array_equal(whole, chunked)
    assert expanded > 2000
