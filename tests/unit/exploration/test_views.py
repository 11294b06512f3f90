"""Places to look at frontiers from, and what would be seen from there."""

import math

import numpy as np

from rhino_actors.exploration import views
from rhino_actors.exploration.views import CUT_OFF, NO_FLOOR, REACHABLE, THROUGH_UNKNOWN
from tests import maps

EVERYWHERE = np.empty((0, 0), np.bool_)
NOWHERE = np.empty((0, 3))


def places_for(occupancy, at, *, costmap=None, reachable=None, exact=None, avoided=NOWHERE):
    costmap = maps.costmap_from_occupancy(occupancy) if costmap is None else costmap
    field = np.where(costmap < 253, 1.0, np.inf).astype(np.float32)
    if reachable is not None:
        field[~reachable] = np.inf
    exact = np.empty((0, 0), np.float32) if exact is None else exact
    return views.standing_places(
        np.array(at, np.int32),
        occupancy,
        costmap,
        exact,
        field,
        1,
        0.1,
        views.rings(0.1, 0.3, 1.5),
        EVERYWHERE,
        avoided,
    )


def test_unknown_area_in_sight_is_that_of_the_disc_without_what_walls_hide():
    occupancy = np.full((200, 200), -1, np.int8)
    place = np.array([[100, 100]], np.int32)
    disc = views.seen_area(place, occupancy, EVERYWHERE, 40.0)[0]
    assert abs(disc - math.pi * 40**2) < 0.05 * math.pi * 40**2
    occupancy[:, 105] = 100
    half = views.seen_area(place, occupancy, EVERYWHERE, 40.0)[0]
    assert 0.5 * disc < half < 0.65 * disc
    occupancy[100:] = 0
    assert views.seen_area(place, occupancy, EVERYWHERE, 40.0)[0] < 0.35 * disc


def test_beyond_the_grid_all_is_unknown_and_outside_an_area_nothing_counts():
    occupancy = np.zeros((81, 81), np.int8)
    place = np.array([[40, 80]], np.int32)
    half_disc = math.pi * 30**2 / 2
    assert (
        abs(views.seen_area(place, occupancy, EVERYWHERE, 30.0)[0] - half_disc) < 0.06 * half_disc
    )
    inside = np.ones((81, 81), np.bool_)
    assert views.seen_area(place, occupancy, inside, 30.0)[0] == 0
    assert views.seen_area(np.array([[-1, -1]], np.int32), occupancy, EVERYWHERE, 30.0)[0] == 0


def test_a_frontier_is_looked_at_from_known_floor_in_view_that_can_be_got_to():
    drawn = maps.parse("""
        ##############
        #S....#......#
        #.....#......#
        #.....#......?
        #.....#......?
        #.....########
        #.....#......#
        ##############
    """)
    at = tuple(np.argwhere(drawn.occupancy < 0)[0] - (0, 1))
    places, costs = places_for(drawn.occupancy, [at])
    assert costs[0, -1] == REACHABLE
    for row, col in places[0][places[0, :, 0] >= 0].tolist():
        assert drawn.occupancy[row, col] == 0
        assert 7 <= col <= 12 and row >= 3, "not through walls"
    cut = np.zeros(drawn.occupancy.shape, np.bool_)
    cut[:, :6] = True
    _, costs = places_for(drawn.occupancy, [at], reachable=cut)
    assert costs[0, -1] == CUT_OFF
    nothing = np.full(drawn.occupancy.shape, 253, np.uint8)
    assert places_for(drawn.occupancy, [at], costmap=nothing)[1][0, -1] == NO_FLOOR
    over = np.ones(drawn.occupancy.shape, np.float32)
    assert places_for(drawn.occupancy, [at], reachable=cut, exact=over)[1][0, -1] == THROUGH_UNKNOWN


def test_places_stood_on_in_vain_are_avoided():
    occupancy = np.zeros((60, 60), np.int8)
    places, _ = places_for(occupancy, [(30, 59)])
    first = places[0, 0]
    avoided = np.array([[*first, 6.0]])
    again, _ = places_for(occupancy, [(30, 59)], avoided=avoided)
    rest = again[0][again[0, :, 0] >= 0]
    assert len(rest) and (np.hypot(*(rest - first).T) > 6.0).all()


def test_long_frontiers_are_cut_into_parts_and_each_cell_is_near_one():
    cells = np.stack([np.full(100, 5), np.arange(100)], axis=1).astype(np.int32)
    at, sizes, clusters = views.parts(cells, np.array([0, 60, 100]), 10.0)
    assert sizes.sum() == 100 and set(clusters.tolist()) == {0, 1}
    assert sizes[clusters == 0].sum() == 60
    away = np.abs(cells[:, None, 1] - at[None, :, 1]).min(axis=1)
    assert away.max() <= 10
    assert 5 <= len(at) <= 12


def test_lines_of_sight_end_at_obstacles_and_at_what_was_never_seen():
    drawn = maps.parse("""
        .....
        .#.?.
        .....
    """)
    points = np.array([[0, 2], [1, 0], [1, 4], [2, 2]], np.int32)
    seen = views.sees(drawn.occupancy, np.array([1, 2]), points, 10.0)
    assert seen.tolist() == [True, False, False, True]
    assert not views.sees(drawn.occupancy, np.array([1, 2]), points[2:], 1.0)[0]
