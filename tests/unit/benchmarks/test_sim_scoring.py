"""The score says what was seen, walked and bumped into."""

import math

import numpy as np
import pytest

pytest.importorskip("mujoco")

from benchmarks.sim_scoring import SIGHT, BumpAndTurn, Score, Sight, drive, greedy_tour
from rhino_actors.drivers.mujoco.truth import Truth
from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, World
from rhino_actors.messages.geometry import Twist2D
from tests.simulations import plain_simulation


def room(*boxes: Box, half: float = 5.0) -> World:
    walls = tuple(
        Box(f"side_{i}", (x, y, 0.5), (w, d, 1.0))
        for i, (x, y, w, d) in enumerate(
            [
                (half, 0.0, 0.2, 2 * half),
                (-half, 0.0, 0.2, 2 * half),
                (0.0, half, 2 * half, 0.2),
                (0.0, -half, 2 * half, 0.2),
            ]
        )
    )
    floor = Material("floor", "", (0.5, 0.5, 0.5))
    return World("room", 1, (*walls, *boxes), (floor,), (), (-half, -half, half, half))


DIVIDED = room(Box("wall", (2.0, -1.0, 0.5), (0.2, 8.0, 1.0)))


def truth(x: float, y: float, time: float) -> Truth:
    still = Twist2D()
    return Truth(0.0, time, (x, y, 0.3), (0.0, 0.0, 0.0, 1.0), still, 0, 0, 0, 0.0, ())


def places(sight: Sight, cells: np.ndarray) -> np.ndarray:
    rows, cols = np.divmod(cells, sight.geometry.shape[1])
    return sight.geometry.world_from_cells(np.stack([rows, cols], axis=1))


def test_sight_ends_at_its_range_and_at_walls() -> None:
    sight = Sight(DIVIDED)
    seen = places(sight, sight.seen(0.0, 0.0))
    assert np.hypot(*seen.T).max() == pytest.approx(SIGHT, abs=0.1)
    assert seen[:, 0].max() < 2.0
    open_disc = math.pi * SIGHT**2 / 0.05**2
    assert 0.6 * open_disc < len(seen) < open_disc


def test_sight_is_mutual() -> None:
    sight = Sight(DIVIDED)
    rng = np.random.default_rng(1)
    cells = np.argwhere(sight.reachable)
    cols = sight.geometry.shape[1]
    one_way = 0
    for _ in range(200):
        a, b = cells[rng.integers(len(cells), size=2)]
        ab = int(b[0] * cols + b[1]) in set(
            sight.seen(*sight.geometry.world_from_cell(*a)).tolist()
        )
        ba = int(a[0] * cols + a[1]) in set(
            sight.seen(*sight.geometry.world_from_cell(*b)).tolist()
        )
        one_way += ab != ba
    assert one_way <= 2  # a line drawn in cells may graze a corner one way and not the other


def test_a_score_grows_with_what_is_seen_and_with_the_way() -> None:
    score = Score(Sight(room()))
    score.step(truth(0.0, 0.0, 0.0))
    first = score.coverage
    assert first == pytest.approx(math.pi * 9.0 / 9.3**2, abs=0.03)
    score.step(truth(0.0, 0.0, 5.0))
    assert score.coverage == first and score.path == 0.0
    for step in range(1, 41):
        score.step(truth(0.1 * step, 0.0, 5.0 + step))
    assert score.path == pytest.approx(4.0)
    assert score.coverage > first + 0.1
    assert [covered for *_, covered in score.curve] == sorted(c for *_, c in score.curve)


def test_the_sway_of_a_standing_body_is_no_way() -> None:
    score = Score(Sight(room()))
    for step in range(200):
        score.step(truth(0.004 * math.sin(step), 0.003 * math.cos(step), 0.02 * step))
    assert score.path < 0.05


def test_the_greedy_tour_covers_the_floor_behind_a_wall_on_a_way_that_can_be_walked() -> None:
    sight = Sight(room(Box("wall", (1.0, -0.8, 0.5), (0.2, 5.0, 1.0)), half=3.0))
    tour = greedy_tour(sight)
    assert tour.curve[-1][1] >= 0.99
    assert 2.0 < tour.path_for(0.99) < 20.0
    assert tour.path_for(0.5) <= tour.path_for(0.9) <= tour.path_for(0.99)
    assert math.isnan(tour.path_for(1.1))
    for x, y in tour.places:
        assert sight.reachable[sight.geometry.cell_from_world(x, y)]


@pytest.mark.slow
def test_bump_and_turn_turns_at_walls_and_gets_about() -> None:
    config = plain_simulation(lidar_azimuths=16, lidar_elevations=1)
    score, spent = drive(room(half=3.0), config, BumpAndTurn(1), 60.0)
    assert score.coverage > 0.95
    assert score.truth is not None and score.truth.wall_contacts >= 3
    assert score.path > 8.0 and spent > 0.0
