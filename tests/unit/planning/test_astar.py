import math
import threading

import numpy as np
import pytest

from rhino_actors.errors import (
    BackendUnavailable,
    GoalOccupied,
    GoalOutsideMap,
    NoPath,
    PlanCancelled,
    PlanningError,
    PlanTimedOut,
    StartOccupied,
    StartOutsideMap,
)
from rhino_actors.planning import Planner, cost_to_go, path_cost, plan_path
from tests import maps
from tests.unit.planning.reference import (
    dijkstra,
    neighbours,
    passable,
    random_costmap,
    step_cost,
)

TOLERANCE = 2e-4  # the contract's, relative
MODELS = [
    (3.0, True),
    (3.0, False),
    (0.0, True),
    (1.0, False),
    (0.37, True),
    (2.7182818, True),
    (60.0, True),
]


def free_cells(costmap, allow_unknown=True):
    return [
        (row, col)
        for row in range(costmap.shape[0])
        for col in range(costmap.shape[1])
        if passable(costmap, row, col, allow_unknown)
    ]


@pytest.mark.parametrize(("cost_weight", "allow_unknown"), MODELS)
def test_plan_is_the_optimum_of_the_cost_model(cost_weight, allow_unknown):
    rng = np.random.default_rng(7)
    planned = 0
    for shape in [(1, 9), (9, 1), (2, 2), (7, 12), (15, 15), (24, 31), (31, 24)]:
        costmap = random_costmap(rng, shape)
        cells = free_cells(costmap, allow_unknown)
        for _ in range(6):
            start, goal = (cells[i] for i in rng.integers(0, len(cells), 2))
            best = dijkstra(costmap, [start], cost_weight, allow_unknown)[goal]
            model = {"cost_weight": cost_weight, "allow_unknown": allow_unknown}
            if math.isinf(best):
                with pytest.raises(NoPath):
                    plan_path(costmap, start, goal, **model)
                continue
            path = plan_path(costmap, start, goal, **model)
            planned += 1
            assert best * (1 - 1e-12) <= path.cost <= best * (1 + TOLERANCE)
            walked = [tuple(cell) for cell in path.cells.tolist()]
            assert walked[0] == start and walked[-1] == goal
            steps = list(zip(walked[:-1], walked[1:], strict=True))
            assert all(b in neighbours(costmap, a, allow_unknown) for a, b in steps)
            total = sum(step_cost(costmap, a, b, cost_weight) for a, b in steps)
            assert path.cost == pytest.approx(total, rel=1e-12)
    assert planned > 10


@pytest.mark.parametrize(("cost_weight", "allow_unknown"), MODELS)
def test_cost_to_go_is_the_model_s_cost_from_every_cell_to_the_nearest_goal(
    cost_weight, allow_unknown
):
    rng = np.random.default_rng(11)
    for shape in [(1, 6), (13, 9), (30, 22)]:
        costmap = random_costmap(rng, shape)
        goals = [(int(rng.integers(shape[0])), int(rng.integers(shape[1]))) for _ in range(3)]
        field = cost_to_go(
            costmap, np.array(goals), cost_weight=cost_weight, allow_unknown=allow_unknown
        )
        best = dijkstra(costmap, goals, cost_weight, allow_unknown)
        assert field.dtype == np.float32 and field.shape == shape
        np.testing.assert_allclose(field, best, rtol=TOLERANCE)


def test_plans_are_symmetric_and_agree_with_the_field():
    rng = np.random.default_rng(3)
    costmap = random_costmap(rng, (40, 50))
    cells = free_cells(costmap)
    goal = cells[len(cells) // 2]
    field = cost_to_go(costmap, [goal])
    compared = 0
    for i in rng.integers(0, len(cells), 30):
        if math.isinf(field[cells[i]]):
            continue
        there, back = plan_path(costmap, cells[i], goal), plan_path(costmap, goal, cells[i])
        assert there.cost == pytest.approx(back.cost, rel=TOLERANCE)
        assert there.cost == pytest.approx(field[cells[i]], rel=TOLERANCE)
        compared += 1
    assert compared > 10


def test_plan_never_gets_cheaper_when_the_weight_rises():
    costmap = random_costmap(np.random.default_rng(5), (30, 30))
    cells = free_cells(costmap)
    field = cost_to_go(costmap, [cells[0]])
    goal = next(cell for cell in reversed(cells) if np.isfinite(field[cell]))
    costs = [plan_path(costmap, cells[0], goal, cost_weight=w).cost for w in (0, 0.5, 1, 3, 10, 99)]
    assert costs == sorted(costs) and costs[0] < costs[-1]


def test_one_planner_gives_the_same_plans_whatever_it_did_before():
    rng = np.random.default_rng(13)
    planner = Planner()
    for _ in range(40):
        shape = [(12, 30), (30, 12), (20, 20)][rng.integers(3)]
        costmap = random_costmap(rng, shape)
        costmap.flags.writeable = bool(rng.integers(2))
        cells = free_cells(costmap)
        start, goal = (cells[i] for i in rng.integers(0, len(cells), 2))
        weight = float(rng.choice([0.0, 3.0, 40.0, 0.123456789]))
        try:
            fresh = Planner().plan_path(costmap, start, goal, cost_weight=weight)
        except NoPath:
            with pytest.raises(NoPath):
                planner.plan_path(costmap, start, goal, cost_weight=weight)
            continue
        again = planner.plan_path(costmap, start, goal, cost_weight=weight)
        np.testing.assert_array_equal(again.cells, fresh.cells)
        assert (again.cost, again.expanded) == (fresh.cost, fresh.expanded)


def test_plan_takes_any_view_of_a_costmap_and_leaves_it_as_it_was():
    costmap = random_costmap(np.random.default_rng(17), (40, 60))
    before = costmap.copy()
    cells = free_cells(costmap)
    field = cost_to_go(costmap, [cells[0]])
    np.testing.assert_array_equal(cost_to_go(np.asfortranarray(costmap), [cells[0]]), field)
    np.testing.assert_array_equal(costmap, before)


def test_plans_in_several_threads_do_not_meet():
    rng = np.random.default_rng(19)
    costmaps = [random_costmap(rng, (60 + i, 60)) for i in range(4)]
    want = [cost_to_go(costmap, [free_cells(costmap)[0]]) for costmap in costmaps]
    wrong = []

    def work(i):
        for _ in range(25):
            field = cost_to_go(costmaps[i], [free_cells(costmaps[i])[0]])
            if not np.array_equal(field, want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_long_paths_at_high_cost_do_not_overflow():
    """A serpentine of 40,000 cells at the highest cost and an odd weight needs more than 32 bits."""
    costmap = np.full((200, 402), 252, np.uint8)
    costmap[1::2] = 254
    for row in range(1, 200, 2):
        costmap[row, 401 if row % 4 == 1 else 0] = 252
    weight = 90.0 + 1.0 / 7919.0
    goal = (198, 0 if (198 // 2) % 2 else 401)
    path = plan_path(costmap, (0, 0), goal, cost_weight=weight)
    assert len(path.cells) > 40_000
    assert path.cost == pytest.approx((len(path.cells) - 1) * (1.0 + weight), rel=1e-9)
    field = cost_to_go(costmap, [(0, 0)], cost_weight=weight)
    assert field[goal] == pytest.approx(path.cost, rel=TOLERANCE)


def test_a_queue_that_outgrows_its_buckets_loses_nothing():
    """4,000 goals in a lattice of 5 x 5 cells fill the first buckets beyond their first size at once."""
    rows, cols = np.indices((311, 311))
    goals = np.argwhere((rows % 5 == 0) & (cols % 5 == 0))
    field = Planner().cost_to_go(np.zeros((311, 311), np.uint8), goals, cost_weight=0.0)
    up, side = (np.minimum(i % 5, 5 - i % 5) for i in (rows, cols))
    octile = np.maximum(up, side) + (math.sqrt(2.0) - 1.0) * np.minimum(up, side)
    np.testing.assert_allclose(field, octile, rtol=TOLERANCE)


def test_start_at_goal_is_a_path_of_one_cell():
    path = plan_path(np.full((3, 3), 200, np.uint8), (1, 2), (1, 2))
    assert path.cells.tolist() == [[1, 2]] and path.cost == 0.0 and path.expanded == 0
    assert path.cells.dtype == np.int32


@pytest.mark.parametrize(
    ("start", "goal", "error"),
    [
        ((0, 0), (0, 2), GoalOccupied),
        ((0, 2), (0, 0), StartOccupied),
        ((0, 2), (0, 2), StartOccupied),
        ((-1, 0), (0, 0), StartOutsideMap),
        ((0, 4), (0, 0), StartOutsideMap),
        ((0, 0), (1, 0), GoalOutsideMap),
        ((0, 0), (0, -1), GoalOutsideMap),
        ((0, 0), (0, 3), NoPath),
    ],
)
def test_plan_says_why_there_is_none(start, goal, error):
    costmap = np.array([[0, 0, 254, 0]], np.uint8)
    with pytest.raises(error) as caught:
        plan_path(costmap, start, goal)
    assert isinstance(caught.value, PlanningError) and caught.value.message and caught.value.hint


@pytest.mark.parametrize("cost", [253, 254])
def test_inscribed_and_lethal_cells_are_impassable(cost):
    costmap = np.array([[0, cost, 0]], np.uint8)
    with pytest.raises(NoPath):
        plan_path(costmap, (0, 0), (0, 2))
    assert math.isinf(cost_to_go(costmap, [(0, 0)])[0, 2])


def test_cost_to_go_without_a_free_goal_is_infinite_everywhere():
    costmap = np.array([[0, 254, 0]], np.uint8)
    assert np.isinf(cost_to_go(costmap, [(0, 1)])).all()
    assert np.isinf(cost_to_go(costmap, np.empty((0, 2), int))).all()
    with pytest.raises(GoalOutsideMap):
        cost_to_go(costmap, [(0, 0), (5, 5)])


def test_cost_to_go_says_which_backends_there_are():
    costmap = np.zeros((2, 2), np.uint8)
    with pytest.raises(BackendUnavailable) as caught:
        cost_to_go(costmap, [(0, 0)], backend="cuda")
    assert "cpu" in caught.value.hint
    with pytest.raises(ValueError, match="cpu"):
        cost_to_go(costmap, [(0, 0)], backend="tpu")
    auto, cpu = (cost_to_go(costmap, [(0, 0)], backend=name) for name in ("auto", "cpu"))
    np.testing.assert_array_equal(auto, cpu)


@pytest.mark.parametrize(
    "costmap",
    [np.zeros((3, 3)), np.zeros((3, 3), np.int8), np.zeros(9, np.uint8), [[0, 0], [0, 0]]],
)
def test_what_is_not_a_costmap_is_refused(costmap):
    with pytest.raises(ValueError, match="uint8"):
        plan_path(costmap, (0, 0), (1, 1))
    with pytest.raises(ValueError, match="uint8"):
        cost_to_go(costmap, [(0, 0)])


@pytest.mark.parametrize("cell", [(0.5, 1), (1,), (1, 2, 3), None, "ab", (math.nan, 0)])
def test_what_is_not_a_cell_is_refused(cell):
    costmap = np.zeros((3, 3), np.uint8)
    with pytest.raises(ValueError, match="row, col"):
        plan_path(costmap, cell, (1, 1))
    with pytest.raises(ValueError, match="row, col"):
        plan_path(costmap, (1, 1), cell)


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf, 1e9])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(ValueError, match="cost_weight"):
        plan_path(np.zeros((3, 3), np.uint8), (0, 0), (1, 1), cost_weight=weight)


def test_an_empty_map_has_no_cell():
    with pytest.raises(StartOutsideMap):
        plan_path(np.zeros((0, 0), np.uint8), (0, 0), (0, 0))


def walled_floor():
    """Return a floor of two costs with a wall, so that a plan opens most of one side."""
    costmap = np.zeros((700, 700), np.uint8)
    costmap[::2] = 3
    costmap[350, :-1] = 254
    return costmap


def test_a_search_can_be_bounded_and_stopped():
    costmap = walled_floor()
    planner = Planner()
    with pytest.raises(PlanTimedOut):
        planner.plan_path(costmap, (0, 0), (699, 0), max_expansions=1000)
    asked = []

    def stop():
        asked.append(len(asked))
        return len(asked) == 2

    with pytest.raises(PlanTimedOut):
        planner.plan_path(costmap, (0, 0), (699, 0), should_stop=stop)
    assert len(asked) == 2
    with pytest.raises(PlanTimedOut):
        planner.cost_to_go(costmap, [(0, 0)], should_stop=lambda: True)
    with pytest.raises(PlanTimedOut):
        cost_to_go(costmap, [(0, 0)], should_stop=lambda: True)
    whole = planner.plan_path(costmap, (0, 0), (699, 0))
    chunked = planner.plan_path(costmap, (0, 0), (699, 0), should_stop=lambda: False)
    np.testing.assert_array_equal(whole.cells, chunked.cells)
    assert whole.expanded == chunked.expanded > 200_000


def test_cancel_ends_a_search_that_runs_in_its_kernel():
    costmap = walled_floor()
    planner = Planner()
    for search in (
        lambda **limits: planner.plan_path(costmap, (0, 0), (699, 0), **limits),
        lambda **limits: planner.cost_to_go(costmap, [(0, 0)], **limits),
    ):
        cancel = np.zeros(1, np.uint8)
        asked = []

        def set_cancel(cancel=cancel, asked=asked):
            asked.append(1)
            cancel[0] = 1
            return False

        with pytest.raises(PlanCancelled):
            search(should_stop=set_cancel, cancel=cancel)
        assert len(asked) == 1, "the kernel itself must end, long before the next question"
        cancel[0] = 0
        search(cancel=cancel)


def test_cancel_from_another_thread_ends_a_field():
    costmap = np.zeros((3000, 3000), np.uint8)
    cancel = np.zeros(1, np.uint8)
    ended = []

    def work():
        try:
            Planner().cost_to_go(costmap, [(0, 0)], cancel=cancel)
        except PlanCancelled:
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    cancel[0] = 1
    thread.join(60)
    assert ended == [True]


def test_path_cost_counts_unknown_as_128():
    costmap = np.array([[0, 255]], np.uint8)
    cells = np.array([[0, 0], [0, 1]])
    assert path_cost(costmap, cells, 3.0) == pytest.approx(1.0 + 3.0 * 64.0 / 252.0)


def test_plan_never_squeezes_between_diagonal_obstacles():  # P06
    with pytest.raises(NoPath):
        plan_path(maps.parse("G#\n#S").costmap, (0, 1), (1, 0))
    drawn = maps.parse("""
        .....
        .G#..
        .#S..
        .....
    """)
    path = plan_path(drawn.costmap, drawn.start, drawn.goal)
    assert len(path.cells) > 5, maps.draw(drawn.occupancy, path.cells)


def test_plan_never_clips_a_corner():  # P06
    drawn = maps.parse("""
        .G
        S#
    """)
    path = plan_path(drawn.costmap, drawn.start, drawn.goal)
    assert path.cells.tolist() == [[0, 0], [1, 0], [1, 1]]


def test_a_closed_ring_has_no_path_either_way():  # P04
    drawn = maps.parse("""
        G.......
        ..####..
        ..#S.#..
        ..####..
        ........
    """)
    for start, goal in ((drawn.start, drawn.goal), (drawn.goal, drawn.start)):
        with pytest.raises(NoPath):
            plan_path(drawn.costmap, start, goal)


def test_unknown_is_crossed_only_when_allowed():  # P05
    drawn = maps.parse("""
        ...........
        .#########.
        .#########.
        S...???...G
    """)
    across = plan_path(drawn.costmap, drawn.start, drawn.goal, cost_weight=0.5)
    around = plan_path(drawn.costmap, drawn.start, drawn.goal, allow_unknown=False)
    assert (drawn.occupancy[tuple(across.cells.T)] < 0).any()
    assert not (drawn.occupancy[tuple(around.cells.T)] < 0).any()
    assert across.cost > len(across.cells) - 1, "unknown cells must cost"
