import numpy as np
import pytest

from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.drivers.mujoco.worlds.scene import Box, World
from rhino_actors.errors import ConfigError
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN

SEEDS = range(12)


def world_of(*boxes: Box, half: float = 2.0) -> World:
    return World("test", 0, boxes, (), (), (-half, -half, half, half))


def test_an_unknown_world_is_refused_with_the_names_of_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="appartment") as caught:
        make_world("appartment", 1)
    assert "apartment" in caught.value.hint


def test_the_same_seed_gives_the_same_apartment_and_another_seed_another() -> None:
    assert make_world("apartment", 5) == make_world("apartment", 5)
    assert make_world("apartment", 5).boxes != make_world("apartment", 6).boxes


@pytest.mark.parametrize("seed", SEEDS)
def test_every_apartment_has_floor_to_explore_and_a_clear_start(seed: int) -> None:
    truth = make_world("apartment", seed).truth_grid()
    assert 30.0 < truth.reachable_area < 50.0
    for x, y in ((0.0, 0.0), (1.0, 0.0), (2.0, 1.0)):
        assert truth.reachable[truth.geometry.cell_from_world(x, y)]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_room_can_be_reached(seed: int) -> None:
    truth = make_world("apartment", seed).truth_grid()
    rooms = {"kitchen": (0.2, 3.4), "hall": (4.4, 3.6), "bedroom": (6.2, 3.5), "study": (7.0, 0.0)}
    reached = {
        name: bool(truth.reachable[truth.geometry.cell_from_world(x, y)])
        for name, (x, y) in rooms.items()
    }
    assert all(reached.values()), reached


@pytest.mark.parametrize("seed", SEEDS)
def test_every_door_lets_a_wide_robot_through(seed: int) -> None:
    world = make_world("apartment", seed)
    lintels = [box for box in world.boxes if box.name.startswith("lintel")]
    assert len(lintels) == 5
    for lintel in lintels:
        assert max(lintel.size[:2]) >= 0.9


def test_names_of_boxes_are_unique() -> None:
    names = [box.name for box in make_world("apartment", 1).boxes]
    assert len(names) == len(set(names))


def test_a_box_marks_the_cells_it_touches_and_no_others() -> None:
    world = world_of(Box("block", (1.0, 0.5, 0.25), (0.2, 0.1, 0.5)))
    truth = world.truth_grid(0.05)
    rows, cols = np.nonzero(truth.occupancy == OCCUPIED)
    centres = truth.geometry.world_from_cells(np.stack([rows, cols], axis=1))
    assert len(rows) == 4 * 2
    assert np.all(np.abs(centres - (1.0, 0.5)) < (0.1, 0.05))


def test_a_turned_box_marks_its_turned_shape() -> None:
    flat = world_of(Box("plank", (0.8, 0.8, 0.2), (1.0, 0.1, 0.4)))
    upright = world_of(Box("plank", (0.8, 0.8, 0.2), (1.0, 0.1, 0.4), yaw=np.pi / 2))
    assert np.array_equal(flat.truth_grid().occupancy.T, upright.truth_grid().occupancy)


@pytest.mark.parametrize(
    ("bottom", "top", "solid", "expected"),
    [
        (0.0, 0.5, True, True),
        (0.0, 0.05, True, False),  # driven over
        (0.7, 1.0, True, False),  # passed under
        (0.5, 1.0, True, True),
        (0.0, 0.5, False, False),  # decoration
    ],
)
def test_only_what_the_robot_would_meet_is_occupied(
    bottom: float, top: float, solid: bool, expected: bool
) -> None:
    box = Box("box", (1.0, 1.0, (bottom + top) / 2), (0.3, 0.3, top - bottom), solid=solid)
    assert bool(np.any(world_of(box).truth_grid().occupancy == OCCUPIED)) is expected


def test_floor_behind_a_wall_or_a_narrow_gap_is_not_reachable() -> None:
    def with_gap(gap: float) -> float:
        left = Box("left", (1.0, -1.0 - gap / 2, 0.5), (0.1, 2.0, 1.0))
        right = Box("right", (1.0, 1.0 + gap / 2, 0.5), (0.1, 2.0, 1.0))
        truth = world_of(left, right).truth_grid(robot_radius=0.30)
        rows, cols = np.nonzero(truth.reachable)
        return float(truth.geometry.world_from_cells(np.stack([rows, cols], axis=1))[:, 0].max())

    assert with_gap(0.5) < 1.0
    assert with_gap(0.8) > 1.0


def test_a_blocked_start_reaches_nothing() -> None:
    world = world_of(Box("on_start", (0.0, 0.0, 0.5), (1.0, 1.0, 1.0)))
    assert world.truth_grid().reachable_area == 0.0


def test_cells_outside_the_building_are_unknown_and_unreachable() -> None:
    world = World("test", 0, (), (), (), (-1.01, -1.0, 1.0, 1.0))
    truth = world.truth_grid(0.05)
    assert np.all(truth.occupancy[:, 0] == UNKNOWN)
    assert np.all(truth.occupancy[:, 1] == FREE)
    assert not np.any(truth.reachable[truth.occupancy != FREE])


def test_the_exported_grid_cannot_be_changed() -> None:
    truth = make_world("apartment", 1).truth_grid()
    with pytest.raises(ValueError, match="read-only"):
        truth.occupancy[0, 0] = 0
