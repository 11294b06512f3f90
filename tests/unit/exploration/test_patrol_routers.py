"""Where patrols go next."""

import numpy as np
import pytest

from rhino_actors.exploration.patrol_routers import (
    PatrolGoal,
    Ways,
    coverage_goal,
    frontier_goal,
    random_goal,
    skeleton_weights,
    ways,
)
from rhino_actors.exploration.visitation import Survey, VisitationGrid
from rhino_actors.messages.grid import UNKNOWN, MapSnapshot
from tests.unit.exploration.patrol_maps import costs_from, room, snapshot_of, two_rooms

RADIUS = 0.5
ROUTERS = ["coverage", "random", "frontier"]


class Scene:
    """A map, visits, and the ways from the robot."""

    def __init__(self, occupancy: np.ndarray, track: list[tuple[float, float, float]]) -> None:
        self.snapshot: MapSnapshot = snapshot_of(occupancy)
        visits = VisitationGrid(RADIUS)
        for x, y, now in track:
            visits.look(self.snapshot, x, y, now)
        x, y, now = track[-1]
        self.costs = costs_from(self.snapshot, x, y)
        survey = visits.survey(
            self.snapshot, self.costs, now, max_cost=252, expiry=600.0, round_start=0.0
        )
        self.tree: Ways = ways(survey, self.snapshot.costmap)
        self.survey: Survey = survey.only(np.isfinite(self.tree.length))
        self.excluded = np.zeros(survey.goal.shape, np.bool_)

    def goal(self, router: str, seed: int = 0) -> PatrolGoal | None:
        if router == "random":
            return random_goal(self.survey, self.tree, self.excluded, np.random.default_rng(seed))
        if router == "frontier":
            return frontier_goal(self.survey, self.tree, self.excluded)
        return coverage_goal(
            self.survey, self.tree, self.excluded, radius=RADIUS, goal_cost=0.5, skeleton_share=0.1
        )


def _random_map(rng: np.random.Generator) -> np.ndarray:
    occupancy = room(100, 120)
    for _ in range(12):
        row, col = rng.integers(0, 90), rng.integers(0, 110)
        kind = rng.choice([100, UNKNOWN, 60])
        occupancy[row : row + rng.integers(2, 25), col : col + rng.integers(2, 25)] = kind
    occupancy[40:60, 50:70] = 0
    return occupancy


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("seed", range(12))
def test_no_goal_is_off_the_safe_mask(router: str, seed: int) -> None:
    scene = Scene(_random_map(np.random.default_rng(seed)), [(3.0, 2.5, 0.0), (3.2, 2.5, 1.0)])
    for draw in range(5):
        goal = scene.goal(router, draw)
        assert goal is not None
        assert scene.snapshot.costmap[goal.cell] < 253
        assert 0 <= scene.snapshot.occupancy[goal.cell] < 50
        assert np.isfinite(scene.costs[goal.cell])
        assert np.isfinite(goal.length)
        scene.excluded[goal.block] = True


@pytest.mark.parametrize("router", ROUTERS)
def test_without_a_safe_place_there_is_no_goal(router: str) -> None:
    scene = Scene(room(), [(3.0, 2.0, 0.0)])
    scene.excluded[:] = True
    assert scene.goal(router) is None


def test_ways_are_as_long_as_the_field_says() -> None:
    scene = Scene(two_rooms(), [(2.0, 2.0, 0.0)])
    row, col = scene.survey.block_from_world(6.0, 2.0)
    assert scene.tree.length[row, col] == pytest.approx(4.0, abs=0.4)
    behind = scene.survey.block_from_world(4.8, 3.4)  # around the door's post
    assert scene.tree.length[behind] > 3.1


def test_no_way_leads_through_what_was_never_seen() -> None:
    occupancy = two_rooms()
    occupancy[:, 78:84] = UNKNOWN
    scene = Scene(occupancy, [(1.5, 2.0, 0.0)])
    assert np.isfinite(scene.costs[40, 120]), "the planner would"
    assert not np.isfinite(scene.tree.length[scene.survey.block_from_world(6.0, 2.0)])
    assert scene.survey.safe[scene.survey.block_from_world(6.0, 2.0)] == 0


def test_coverage_goes_to_the_side_that_was_not_visited() -> None:
    track = [
        (1.0 + 0.1 * i, y, 0.2 * (30 * k + i))
        for k, y in enumerate((0.7, 1.6, 2.5, 3.3))
        for i in range(21)
    ]
    goal = Scene(room(), [*track, (3.0, 2.0, 60.0)]).goal("coverage")
    assert goal is not None and goal.cell[1] * 0.05 > 3.4


def test_coverage_prefers_the_older_of_two_places_alike() -> None:
    def visited_at(left: float, right: float) -> PatrolGoal | None:
        visits = [
            (x, y, t)
            for x0, t in ((0.6, left), (5.4, right))
            for x in (x0 - 0.2, x0, x0 + 0.2)
            for y in np.arange(0.4, 3.7, 0.2)
        ]
        middle = [(x, y, 590.0) for x in np.arange(1.2, 4.9, 0.4) for y in np.arange(0.4, 3.7, 0.4)]
        scene = Scene(room(), sorted([*visits, *middle, (3.0, 2.0, 600.0)], key=lambda v: v[2]))
        return scene.goal("coverage")

    # Both expire: the expiry of the scene is 600 s and its round began at 0.
    first, second = visited_at(0.0, 0.0), visited_at(0.0, 500.0)
    assert first is not None and second is not None
    assert second.cell[1] * 0.05 < 2.0


def test_random_draws_everywhere_and_repeats_with_its_seed() -> None:
    scene = Scene(room(), [(3.0, 2.0, 0.0)])
    cells = np.array([scene.goal("random", seed).cell for seed in range(80)])  # type: ignore[union-attr]
    assert (cells[:, 1] < 40).any() and (cells[:, 1] > 80).any()
    assert (cells[:, 0] < 27).any() and (cells[:, 0] > 53).any()
    assert scene.goal("random", 7) == scene.goal("random", 7)


def test_random_draws_what_is_not_visited() -> None:
    scene = Scene(room(), [(3.0, 2.0, 0.0)])
    for seed in range(40):
        goal = scene.goal("random", seed)
        assert goal is not None and scene.survey.unvisited[goal.block] > 0


def test_frontier_borders_visited_floor_and_the_nearer_area_comes_first() -> None:
    scene = Scene(room(), [(1.0, 2.0, 0.0), (1.5, 2.0, 1.0)])
    goal = scene.goal("frontier")
    assert goal is not None
    row, col = goal.block
    around = (slice(row - 1, row + 2), slice(col - 1, col + 2))
    assert (scene.survey.safe[around] > scene.survey.unvisited[around]).any()
    assert scene.survey.unvisited[goal.block] > 0
    assert goal.length < 1.0


def test_the_skeleton_of_a_corridor_is_its_middle() -> None:
    safe = np.zeros((30, 60), np.bool_)
    safe[10:21, 2:58] = True
    weights = skeleton_weights(safe)
    assert np.argmax(weights[:, 30]) == 15
    assert weights[15, 30] > 0.95 > 0.5 > weights[10, 30] > 0.0
    assert (weights[~safe] == 0.0).all()
    assert np.all(np.diff(weights[10:16, 30]) >= 0.0)
