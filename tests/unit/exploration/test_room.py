"""Which unknown floor is worth seeing."""

import math

import numpy as np

from rhino_actors.exploration import views
from rhino_actors.exploration.room import Room
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN
from rhino_actors.messages.window import CellWindow

RESOLUTION = 0.1
RADIUS = 0.3
EVERYWHERE = np.empty((0, 0), np.bool_)


def room_of(occupancy):
    room = Room()
    room.update(occupancy, RESOLUTION, RADIUS)
    return room


def seen(occupancy, place):
    room = room_of(occupancy)
    return views.seen_area(
        np.array([place], np.int32),
        occupancy,
        EVERYWHERE,
        30.0,
        room.reachable(*place, 5),
    )[0]


def test_insides_of_furniture_and_slits_are_not_worth_seeing_and_a_room_is():
    occupancy = np.zeros((60, 60), np.int8)
    occupancy[:, [0, 59]] = occupancy[[0, 59]] = OCCUPIED
    occupancy[20:40, 30:50] = OCCUPIED
    occupancy[21:39, 31:49] = UNKNOWN
    occupancy[28:31, 30] = FREE  # a slit of 0.3 m into it
    occupancy[1:3, 10:30] = UNKNOWN  # along the wall, nearer than the robot comes
    assert seen(occupancy, (29, 20)) == 0.0
    occupancy[24:35, 30] = FREE  # an opening that the robot fits through
    assert seen(occupancy, (29, 20)) > 50.0
    beyond = np.full((60, 60), UNKNOWN, np.int8)
    beyond[:, :25] = FREE
    assert seen(beyond, (30, 20)) > 0.3 * math.pi * 30**2


def test_a_window_that_changed_gives_the_same_as_the_whole_map():
    rng = np.random.default_rng(3)
    occupancy = np.zeros((50, 70), np.int8)
    room = room_of(occupancy)
    for _ in range(20):
        row, col = rng.integers(0, (45, 65))
        window = CellWindow(row, row + 5, col, col + 5)
        occupancy[window.slices] = rng.choice([FREE, FREE, FREE, OCCUPIED], (5, 5))
        room.update(occupancy, RESOLUTION, RADIUS, window)
        fresh = room_of(occupancy)
        np.testing.assert_array_equal(room.reachable(5, 5, 5), fresh.reachable(5, 5, 5))


def test_robot_that_is_squeezed_in_still_has_room_to_get_to():
    occupancy = np.zeros((40, 40), np.int8)
    occupancy[:, 20] = OCCUPIED
    room = room_of(occupancy)
    left = room.reachable(10, 5, 5)
    assert left[10, 5] and not left[:, 20:].any()
    assert room.reachable(10, 18, 5)[10, 5], "from where it is too near to the wall"
    closed = room_of(np.full((40, 40), OCCUPIED, np.int8))
    assert closed.reachable(10, 10, 5).all(), "that says nothing"
