"""A first answer is legal, near the optimum, and says that it is not known to be the cheapest."""

import numpy as np
import pytest

from rhino_actors.errors import NoPath, PlanCancelled
from rhino_actors.mapping.inflation import inflate
from rhino_actors.planning import CoarsePlanner, path_cost, plan_path
from tests.unit.planning.reference import neighbours


def floor(seed, shape=(203, 310)):
    """Return the costmap of a floor with 40 boxes."""
    rng = np.random.default_rng(seed)
    occupancy = np.zeros(shape, np.int8)
    for _ in range(40):
        row, col = (int(rng.integers(size)) for size in shape)
        occupancy[row : row + int(rng.integers(3, 30)), col : col + int(rng.integers(3, 30))] = 100
    return inflate(
        occupancy,
        resolution=0.1,
        inscribed_radius=0.2,
        inflation_radius=1.0,
        cost_scaling_factor=3.0,
    )


def test_first_answers_are_legal_and_near_the_optimum():
    rng = np.random.default_rng(1)
    coarse_ones = 0
    for seed in range(4):
        costmap = floor(seed)
        planner = CoarsePlanner()
        planner.update(costmap)
        free = np.argwhere(costmap < 253)
        for _ in range(5):
            start, goal = (tuple(int(v) for v in free[i]) for i in rng.integers(0, len(free), 2))
            try:
                best = plan_path(costmap, start, goal).cost
            except NoPath:
                with pytest.raises(NoPath):
                    planner.plan(start, goal)
                continue
            plan = planner.plan(start, goal)
            coarse_ones += not plan.exact
            walked = [tuple(cell) for cell in plan.cells.tolist()]
            assert walked[0] == start and walked[-1] == goal
            steps = zip(walked[:-1], walked[1:], strict=True)
            assert all(b in neighbours(costmap, a, True) for a, b in steps)
            assert plan.cost == pytest.approx(path_cost(costmap, plan.cells), rel=1e-9)
            assert best * (1 - 1e-9) <= plan.cost <= 1.1 * best
    assert coarse_ones > 10


def test_gap_that_blocks_hide_is_found_by_the_exact_search():
    costmap = np.zeros((64, 64), np.uint8)
    costmap[28:36] = 254
    costmap[28:36, 41] = 3
    planner = CoarsePlanner()
    planner.update(costmap)
    plan = planner.plan((5, 41), (60, 41))
    assert plan.exact
    assert plan.cost == plan_path(costmap, (5, 41), (60, 41)).cost


def test_changed_window_is_seen_and_the_last_tunnel_forgotten():
    costmap = floor(3)
    costmap[:12], costmap[-12:] = 0, 0
    planner = CoarsePlanner()
    planner.update(costmap)
    planner.plan((3, 3), (3, 300))
    walled = costmap.copy()
    walled[:40, 150:158] = 254
    planner.update(walled, (0, 40, 150, 158))
    plan = planner.plan((3, 3), (3, 300))
    assert (walled[plan.cells[:, 0], plan.cells[:, 1]] < 253).all()
    whole = CoarsePlanner()
    whole.update(walled)
    np.testing.assert_array_equal(whole.plan((3, 3), (3, 300)).cells, plan.cells)


def test_first_answer_can_be_cancelled():
    planner = CoarsePlanner()
    planner.update(floor(0))
    free = np.argwhere(floor(0) < 253)
    with pytest.raises(PlanCancelled):
        planner.plan(free[0], free[-1], cancel=np.ones(1, np.uint8))
    assert planner.plan(free[0], free[0]).cost == 0.0
