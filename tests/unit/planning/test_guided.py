"""A field guides each replan: whatever rises or falls, the plan is the exact optimum."""

import numpy as np
import pytest

from rhino_actors.errors import (
    GoalOccupied,
    GoalOutsideMap,
    NoPath,
    PlanCancelled,
    PlanTimedOut,
    StartOccupied,
)
from rhino_actors.planning import GuidedPlanner, build_field, guided, plan_path
from tests.unit.planning.reference import passable, random_costmap


def optimum(costmap, start, goal, **model):
    try:
        return plan_path(costmap, start, goal, **model).cost
    except NoPath:
        return None


def planned(planner, start):
    try:
        return planner.plan(start).cost
    except NoPath:
        return None


def some_cell(rng, costmap, allow_unknown=True):
    while True:
        cell = int(rng.integers(costmap.shape[0])), int(rng.integers(costmap.shape[1]))
        if passable(costmap, *cell, allow_unknown):
            return cell


@pytest.mark.parametrize(
    ("cost_weight", "allow_unknown"),
    [(3.0, True), (3.0, False), (0.0, True), (0.777123456, True), (1000.0, False)],
)
def test_guided_plans_are_the_optimum_after_any_rise_and_fall(cost_weight, allow_unknown):
    rng = np.random.default_rng(int(cost_weight) + allow_unknown)
    model = {"cost_weight": cost_weight, "allow_unknown": allow_unknown}
    reached = unreached = 0
    for _ in range(3):
        costmap = random_costmap(rng, (int(rng.integers(20, 60)), int(rng.integers(20, 60))))
        goal = some_cell(rng, costmap, allow_unknown)
        planner = GuidedPlanner(**model)
        planner.set_map(costmap)
        planner.set_goal(goal)
        planner.rebuild()
        for _ in range(12):
            row, col = (int(rng.integers(size)) for size in costmap.shape)
            half = int(rng.integers(1, 8))
            box = (slice(max(0, row - half), row + half), slice(max(0, col - half), col + half))
            costmap = costmap.copy()
            costmap[box] = 0 if rng.random() < 0.3 else random_costmap(rng, costmap[box].shape)
            costmap[goal] = 0
            planner.update(costmap, (row - half, row + half, col - half, col + half))
            planner.update(costmap, (goal[0], goal[0] + 1, goal[1], goal[1] + 1))
            assert not planner.needs_rebuild
            start = some_cell(rng, costmap, allow_unknown)
            want, got = optimum(costmap, start, goal, **model), planned(planner, start)
            assert (want is None) == (got is None)
            if want is None:
                unreached += 1
            else:
                assert got == pytest.approx(want, rel=2e-4)
                reached += 1
    assert reached > 10
    assert reached + unreached == 36


def test_a_field_leaves_little_to_open():
    rng = np.random.default_rng(2)
    costmap = rng.integers(0, 120, (300, 300)).astype(np.uint8)
    planner = GuidedPlanner()
    planner.set_map(costmap)
    planner.set_goal((280, 290))
    unguided = planner.plan((5, 10))
    planner.rebuild()
    plan = planner.plan((5, 10))
    assert plan.cost == pytest.approx(unguided.cost, rel=1e-4)
    assert plan.expanded < 3 * len(plan.cells) < unguided.expanded / 10


def test_box_that_comes_and_goes_leaves_the_plan_as_it_was():
    costmap = np.zeros((80, 80), np.uint8)
    costmap[0, 0] = 7
    planner = GuidedPlanner()
    planner.set_map(costmap)
    planner.set_goal((40, 75))
    planner.rebuild()
    free = planner.plan((40, 5)).cost
    boxed = costmap.copy()
    boxed[20:60, 38:42] = 254
    planner.set_map(boxed)
    around = planner.plan((40, 5)).cost
    planner.set_map(costmap)
    assert planner.plan((40, 5)).cost == free
    assert around > 1.2 * free


def test_door_that_opens_far_from_the_field_s_reach_wants_a_rebuild_and_plans_stay_exact(
    monkeypatch,
):
    monkeypatch.setattr(guided, "_LOWER_BUDGET", 50)
    costmap = np.zeros((60, 60), np.uint8)
    costmap[0, 0] = 7
    costmap[:, 30] = 254
    costmap[59, 30] = 0
    planner = GuidedPlanner()
    planner.set_map(costmap)
    planner.set_goal((5, 55))
    planner.rebuild()
    opened = costmap.copy()
    opened[4:7, 30] = 0
    planner.set_map(opened)
    assert planner.needs_rebuild
    assert planner.plan((5, 5)).cost == pytest.approx(50.0)
    planner.rebuild()
    assert not planner.needs_rebuild
    assert planner.plan((5, 5)).cost == pytest.approx(50.0)


def test_field_built_elsewhere_on_an_older_map_is_brought_up_to_date():
    rng = np.random.default_rng(4)
    costmap = random_costmap(rng, (50, 60))
    goal = some_cell(rng, costmap)
    field = build_field(costmap, goal)
    newer = costmap.copy()
    newer[10:20, 10:30] = random_costmap(rng, (10, 20))
    newer[goal] = 0
    planner = GuidedPlanner()
    planner.set_map(newer)
    planner.adopt(field)
    assert planner.goal == goal
    for _ in range(20):
        start = some_cell(rng, newer)
        want = optimum(newer, start, goal)
        assert planned(planner, start) == (pytest.approx(want, rel=2e-4) if want else want)
    other = build_field(np.zeros((50, 61), np.uint8), (0, 0))
    with pytest.raises(ValueError, match="another map"):
        planner.adopt(other)


def test_another_goal_or_another_map_drops_the_field():
    costmap = np.zeros((20, 20), np.uint8)
    planner = GuidedPlanner()
    planner.set_map(costmap)
    planner.set_goal((3, 3))
    planner.rebuild()
    planner.set_goal((3, 3))
    assert not planner.needs_rebuild
    planner.set_goal((9, 9))
    assert planner.needs_rebuild
    planner.rebuild()
    planner.set_map(np.zeros((20, 25), np.uint8))
    assert planner.needs_rebuild
    assert planner.plan((0, 24)).cells[-1].tolist() == [9, 9]


def test_rebuild_can_be_stopped_and_plans_go_on_without():
    costmap = np.zeros((400, 400), np.uint8)
    costmap[0, 0] = 9
    planner = GuidedPlanner()
    planner.set_map(costmap)
    planner.set_goal((390, 390))
    with pytest.raises(PlanTimedOut):
        planner.rebuild(should_stop=lambda: True)
    with pytest.raises(PlanCancelled):
        planner.rebuild(cancel=np.ones(1, np.uint8))
    assert planner.needs_rebuild
    assert planner.plan((390, 10)).cost == pytest.approx(380.0)


def test_what_cannot_be_planned_says_why():
    planner = GuidedPlanner()
    with pytest.raises(ValueError, match="map and a goal"):
        planner.plan((0, 0))
    costmap = np.array([[0, 0, 254, 0]], np.uint8)
    planner.set_map(costmap)
    with pytest.raises(ValueError, match="goal"):
        planner.rebuild()
    planner.set_goal((0, 2))
    with pytest.raises(GoalOccupied):
        planner.rebuild()
    with pytest.raises(GoalOccupied):
        planner.plan((0, 0))
    planner.set_goal((0, 9))
    with pytest.raises(GoalOutsideMap):
        planner.rebuild()
    planner.set_goal((0, 0))
    planner.rebuild()
    with pytest.raises(StartOccupied):
        planner.plan((0, 2))
    with pytest.raises(NoPath):
        planner.plan((0, 3))
    assert planner.plan((0, 0)).cells.tolist() == [[0, 0]]
