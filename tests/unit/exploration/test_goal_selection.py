import numpy as np
import pytest

from rhino_actors.exploration import FrontierCluster, SkipReason, choose_frontier, find_frontiers
from rhino_actors.mapping.inflation import inflate
from rhino_actors.planning import cost_to_go
from tests import maps

RES = 0.1


def choose(occupancy, robot, *, radius=RES, min_cells=1, inflated=True, **more):
    if inflated:
        costmap = inflate(
            occupancy,
            resolution=RES,
            inscribed_radius=radius,
            inflation_radius=max(radius, 0.4),
            cost_scaling_factor=4.0,
        )
    else:
        costmap = maps.costmap_from_occupancy(occupancy)
    field = cost_to_go(costmap, [robot], allow_unknown=False)
    clusters = find_frontiers(occupancy, min_cells=min_cells)
    choice, skipped = choose_frontier(clusters, costmap, field, resolution=RES, **more)
    return choice, skipped, costmap, field


def test_the_frontier_that_is_nearest_to_travel_to_wins_not_the_nearest_as_the_crow_flies():
    drawn = maps.parse("""
        ????????????????????
        #####...############
        #..S............#..?
        #..#............#..?
        #..##############..#
        #..................#
        ####################
    """)
    right = drawn.occupancy.copy()
    robot = (4, 14)  # two cells from the room on the right, a long way from it on foot
    choice, skipped, _, field = choose(right, robot, inflated=False)
    assert choice is not None and not skipped
    assert {tuple(cell) for cell in choice.cluster.cells.tolist()} == {(5, 5), (5, 6), (5, 7)}
    assert choice.cost == field[choice.cell]


def test_the_robot_goes_up_to_a_frontier_in_the_open():
    occupancy = np.zeros((40, 60), np.int8)
    occupancy[:, 45:] = -1
    occupancy[[0, -1]] = 100
    occupancy[:, 0] = 100
    choice, skipped, costmap, _ = choose(occupancy, (20, 10))
    assert choice is not None and not skipped
    assert choice.cell == choice.sees and choice.cell[1] == 44
    assert costmap[choice.cell] < 253


def test_the_robot_stands_on_safe_floor_in_view_of_a_frontier_it_cannot_stand_on():
    drawn = maps.parse("""
        ####################
        #..................#
        #..................#
        #..S...............#
        #..................#
        #..................#
        #..................#
        #########...########
        #########...########
        #########???########
    """)
    choice, skipped, costmap, field = choose(drawn.occupancy, drawn.start, radius=0.2)
    assert choice is not None and not skipped
    assert costmap[choice.cell] < 253 and np.isfinite(field[choice.cell])
    assert costmap[choice.sees] >= 253
    assert np.hypot(*np.subtract(choice.cell, choice.sees)) * RES <= 0.6
    assert 9 <= choice.cell[1] <= 11, maps.draw(drawn.occupancy, np.array([choice.cell]))


def test_a_frontier_behind_a_wall_is_not_looked_at_through_it():
    drawn = maps.parse("""
        ##########
        #S.......#
        #........#
        ##########
        #........#
        ?........#
        ##########
    """)
    choice, skipped, _, _ = choose(drawn.occupancy, drawn.start, inflated=False)
    assert choice is None
    assert [skip.reason for skip in skipped] == [SkipReason.UNREACHABLE]


def test_slivers_that_the_robot_fits_nowhere_near_are_skipped_with_the_reason():
    drawn = maps.parse("""
        ####################
        #S.......###########
        #........###########
        #.................??
        #........###########
        #........###########
        ####################
    """)
    choice, skipped, _, _ = choose(drawn.occupancy, drawn.start, radius=0.2)
    assert choice is None
    assert [skip.reason for skip in skipped] == [SkipReason.NO_SAFE_CELL]


def test_unreachable_pockets_are_skipped_and_the_reachable_frontier_is_taken():  # P18
    drawn = maps.parse("""
        ####################
        #.......#....#######
        #.......#....#######
        #...S...#....???????
        #.......#....???????
        #.......#....#######
        #.......############
        ????????############
    """)
    choice, skipped, _, _ = choose(drawn.occupancy, drawn.start)
    assert choice is not None and choice.cluster.cells[:, 0].max() == 1
    assert [skip.reason for skip in skipped] == [SkipReason.UNREACHABLE]


def test_places_given_up_are_left_alone_and_the_rest_of_a_long_frontier_is_not():
    occupancy = np.zeros((40, 60), np.int8)
    occupancy[:, 45:] = -1
    occupancy[[0, -1]] = 100
    occupancy[:, 0] = 100
    first, _, _, _ = choose(occupancy, (20, 10))
    second, skipped, _, _ = choose(occupancy, (20, 10), given_up=[first.cell])
    assert second is not None and not skipped
    for cell in (second.cell, second.sees):
        assert np.hypot(*np.subtract(cell, first.cell)) * RES > 0.5
    none, skipped, _, _ = choose(occupancy, (20, 10), given_up=[first.cell], skip_radius=5.0)
    assert none is None
    assert [skip.reason for skip in skipped] == [SkipReason.GAVE_UP]


def test_a_standing_cell_given_up_is_not_stood_on_again():
    drawn = maps.parse("""
        ####################
        #..................#
        #..................#
        #..S...............#
        #..................#
        #..................#
        #..................#
        #########...########
        #########...########
        #########???########
    """)
    first, _, costmap, _ = choose(drawn.occupancy, drawn.start, radius=0.2)
    assert costmap[first.sees] >= 253
    again, _, _, _ = choose(
        drawn.occupancy, drawn.start, radius=0.2, given_up=[first.cell], skip_radius=0.15
    )
    assert np.hypot(*np.subtract(again.cell, first.cell)) * RES > 0.15


def test_near_pockets_come_before_the_far_one():  # P20
    drawn = maps.parse("""
        ########?###?###?###################
        #........S........................??
        #.................................??
        ####################################
    """)
    occupancy, robot, order = drawn.occupancy.copy(), drawn.start, []
    while True:
        choice, _, _, _ = choose(occupancy, robot, inflated=False)
        if choice is None:
            break
        order.append(int(choice.cluster.target[1]))
        robot = choice.cell
        seen = np.argwhere(occupancy < 0)
        near = np.hypot(*(seen - np.array(choice.sees)).T) < 3.0
        occupancy[tuple(seen[near].T)] = 100
    assert order[0] == 8 and order[-1] == 33 and len(order) == 4
    assert sum(abs(b - a) for a, b in zip([9, *order], order, strict=False)) <= 40


def test_exploring_two_rooms_through_a_door_sees_both_and_ends():  # P19
    truth = maps.parse("""
        .....................
        .....................
        .....................
        .....................
        .....................
        ##########...########
        .....................
        .....................
        ...S.................
        .....................
    """)
    world = truth.occupancy
    known = np.full_like(world, -1)
    robot, goals = truth.start, 0
    while True:
        look(world, known, robot, reach=6)
        costmap = maps.costmap_from_occupancy(known)
        field = cost_to_go(costmap, [robot], allow_unknown=False)
        # The truth ends where the drawing ends: a wall around it keeps its edge from being a frontier.
        clusters = find_frontiers(np.pad(known, 1, constant_values=100), min_cells=1)
        moved = [FrontierCluster(c.cells - 1, c.size, (-1, -1)) for c in clusters]
        choice, _ = choose_frontier(moved, costmap, field, resolution=RES)
        if choice is None:
            break
        robot, goals = choice.cell, goals + 1
        assert goals < 40
    assert np.mean(known >= 0) > 0.95


def look(world, known, robot, reach):
    """Uncover what a robot sees: cells within reach whose line of sight meets no wall."""
    for row, col in np.ndindex(world.shape):
        steps = 2 * max(abs(row - robot[0]), abs(col - robot[1]), 1)
        if np.hypot(row - robot[0], col - robot[1]) > reach:
            continue
        share = np.arange(steps)[:, None] / steps
        line = np.rint(robot + share * np.subtract((row, col), robot)).astype(int).tolist()
        if all(world[r, c] < 50 for r, c in line if (r, c) != (row, col)):
            known[row, col] = world[row, col]


def test_choice_is_the_same_for_read_only_arrays_and_any_order_of_memory():
    drawn = maps.parse("""
        ???????
        .......
        ...S...
    """)
    choice, _, costmap, field = choose(drawn.occupancy, drawn.start, inflated=False)
    for array in (costmap, field):
        array.flags.writeable = False
    clusters = find_frontiers(drawn.occupancy, min_cells=1)
    again, _ = choose_frontier(
        clusters, np.asfortranarray(costmap), np.asfortranarray(field), resolution=RES
    )
    assert again is not None and choice is not None
    assert (again.cell, again.cost) == (choice.cell, choice.cost)


@pytest.mark.parametrize("given_up", [(), [], [(3, 3)]])
def test_no_cluster_is_no_choice(given_up):
    grid = np.zeros((4, 4), np.uint8)
    choice, skipped = choose_frontier(
        [], grid, np.zeros((4, 4), np.float32), resolution=RES, given_up=given_up
    )
    assert choice is None and skipped == []
