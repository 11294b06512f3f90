import math

import numpy as np
import pytest

from rhino_actors.errors import NoPath
from rhino_actors.mapping import inflate
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.planning import (
    cost_of,
    crosses_unknown,
    first_blocked,
    nearest_index,
    path_cost,
    path_is_blocked,
    path_length,
    plan_path,
    poses_from_cells,
    remaining_length,
    shortcut,
    smoothed,
)
from tests import maps
from tests.unit.planning.reference import passable, random_costmap


def sampled_cost(costmap, vertices, cost_weight):
    """Return the cost of a polyline of cell centres by fine sampling, and the cells it was seen in."""
    total, seen = 0.0, set()
    for tail, head in zip(vertices[:-1], vertices[1:], strict=True):
        count = 400
        for i in range(count):
            row, col = tail + (head - tail) * (i + 0.5) / count
            cell = (math.floor(row + 0.5), math.floor(col + 0.5))
            seen.add(cell)
            cost = 128.0 if costmap[cell] == 255 else float(costmap[cell])
            total += math.dist(tail, head) / count * (1.0 + cost_weight * cost / 252.0)
    return total, seen


@pytest.mark.parametrize("allow_unknown", [True, False])
def test_shortcut_is_never_dearer_and_stays_on_passable_cells(allow_unknown):
    rng = np.random.default_rng(23)
    shortened = 0
    for i in range(25):
        costmap = random_costmap(rng, (22, 27))
        if i % 2:
            costmap[costmap < 253] = 0
        cells = np.argwhere(costmap < 253)
        start, goal = cells[rng.integers(len(cells))], cells[rng.integers(len(cells))]
        try:
            path = plan_path(costmap, start, goal, allow_unknown=allow_unknown)
        except NoPath:
            continue
        vertices = shortcut(path.cells, costmap, allow_unknown=allow_unknown)
        np.testing.assert_array_equal(vertices[[0, -1]], path.cells[[0, -1]])
        shortened += len(vertices) < len(path.cells)
        cost, seen = sampled_cost(costmap, vertices.astype(float), 3.0)
        assert cost <= path.cost * 1.01  # the sampling's own error
        assert all(passable(costmap, *cell, allow_unknown) for cell in seen)
    assert shortened > 8


def test_shortcut_straightens_open_floor():
    costmap = np.zeros((40, 90), np.uint8)
    path = plan_path(costmap, (3, 2), (36, 85))
    assert shortcut(path.cells, costmap).tolist() == [[3, 2], [36, 85]]


def test_shortcut_goes_around_a_corner_not_over_it():
    drawn = maps.parse("""
        .......G
        ........
        ....####
        ....####
        S...####
    """)
    path = plan_path(drawn.costmap, drawn.start, drawn.goal)
    vertices = shortcut(path.cells, drawn.costmap)
    assert len(vertices) > 2
    assert sampled_cost(drawn.costmap, vertices.astype(float), 3.0)[0] <= path.cost + 1e-6
    diagonal = np.array([[0, 3], [1, 4]])
    assert path_is_blocked(drawn.costmap, _poses(diagonal), _geometry(drawn.costmap)), "clips"


def test_shortcut_keeps_off_dear_floor_that_the_planner_went_around():
    costmap = np.zeros((9, 30), np.uint8)
    costmap[:6, 10:20] = 250
    path = plan_path(costmap, (0, 0), (0, 29))
    assert costmap[tuple(path.cells.T)].max() == 0
    vertices = shortcut(path.cells, costmap)
    _, seen = sampled_cost(costmap, vertices.astype(float), 3.0)
    assert max(costmap[cell] for cell in seen) == 0


@pytest.mark.parametrize("beside", [(0, 1), (1, 0), None])
@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("back", [True, False])
def test_a_way_through_a_corner_needs_both_cells_beside_it(beside, rising, back):
    costmap = np.zeros((2, 2), np.uint8)
    cells = np.array([[0, 0], [1, 1]])
    if beside is not None:
        costmap[beside] = 254
    if not rising:
        costmap, cells = costmap[::-1], np.array([[1, 0], [0, 1]])
    poses = _poses(cells[::-1] if back else cells)
    assert path_is_blocked(costmap, poses, _geometry(costmap)) == (beside is not None)


def _geometry(costmap, resolution=0.1, origin=(-1.0, 2.0)):
    return GridGeometry(resolution, origin, costmap.shape)


def _poses(cells, resolution=0.1, origin=(-1.0, 2.0)):
    points = np.zeros((len(cells), 3))
    points[:, 0] = origin[0] + (cells[:, 1] + 0.5) * resolution
    points[:, 1] = origin[1] + (cells[:, 0] + 0.5) * resolution
    return points


def test_poses_run_from_the_robot_to_the_goal_with_headings_along_the_way():
    drawn = maps.parse("""
        ..........G
        .......####
        .......####
        S......####
    """)
    geometry = _geometry(drawn.costmap)
    path = plan_path(drawn.costmap, drawn.start, drawn.goal)
    start, goal = (-0.98, 2.03), (0.07, 2.36)
    poses = poses_from_cells(
        path.cells, drawn.costmap, geometry, spacing=0.05, start=start, goal=goal
    )
    np.testing.assert_allclose(poses[[0, -1], :2], [start, goal])
    steps = np.diff(poses[:, :2], axis=0)
    lengths = np.hypot(*steps.T)
    assert lengths.max() <= 0.05 + 1e-9 and lengths.min() > 0
    np.testing.assert_allclose(poses[:-1, 2], np.arctan2(steps[:, 1], steps[:, 0]))
    assert poses[-1, 2] == poses[-2, 2]
    assert path_length(poses) == pytest.approx(lengths.sum())
    assert path_length(poses) <= path.cost * 0.1 + 0.1
    assert not path_is_blocked(drawn.costmap, poses, geometry)


def test_ends_that_lie_elsewhere_or_behind_a_corner_are_left_at_the_cell():
    drawn = maps.parse("""
        G#
        S.
    """)
    geometry = _geometry(drawn.costmap, 1.0, (0.0, 0.0))
    cells = np.array([[0, 1], [0, 0], [1, 0]])
    poses = poses_from_cells(
        cells, drawn.costmap, geometry, spacing=5.0, start=(1.9, 0.9), goal=(7.0, 7.0)
    )
    np.testing.assert_allclose(poses[:, :2], [[1.9, 0.9], [0.5, 0.5], [0.5, 1.5]])
    across = poses_from_cells(
        cells, drawn.costmap, geometry, spacing=5.0, start=(1.9, 0.9), goal=(0.95, 1.99)
    )
    assert not path_is_blocked(drawn.costmap, across, geometry)


def test_a_path_of_one_cell_is_one_pose_or_a_short_way():
    costmap = np.zeros((3, 3), np.uint8)
    geometry = _geometry(costmap, 1.0, (0.0, 0.0))
    one = poses_from_cells(np.array([[1, 1]]), costmap, geometry, spacing=0.1)
    np.testing.assert_allclose(one, [[1.5, 1.5, 0.0]])
    way = poses_from_cells(
        np.array([[1, 1]]), costmap, geometry, spacing=9.0, start=(1.2, 1.5), goal=(1.2, 1.9)
    )
    np.testing.assert_allclose(way, [[1.2, 1.5, math.pi / 2], [1.2, 1.9, math.pi / 2]])
    same = poses_from_cells(
        np.array([[1, 1]]), costmap, geometry, spacing=9.0, start=(1.2, 1.5), goal=(1.2, 1.5)
    )
    np.testing.assert_allclose(same, [[1.2, 1.5, 0.0]])


def test_obstacle_on_the_way_ahead_blocks_and_one_behind_does_not():
    costmap = np.zeros((5, 30), np.uint8)
    geometry = _geometry(costmap)
    poses = _poses(np.array([[2, col] for col in range(0, 30, 3)]))
    assert not path_is_blocked(costmap, poses, geometry)
    costmap[2, 16] = 253  # between two poses
    assert first_blocked(poses, costmap, geometry) == 6
    assert first_blocked(poses, costmap, geometry, 5) == 6
    assert first_blocked(poses, costmap, geometry, 6) is None
    costmap[2, 18] = 254  # the robot is there already
    assert first_blocked(poses, costmap, geometry, 6) is None
    costmap[2, 19] = 254
    assert first_blocked(poses, costmap, geometry, 6) == 7


def test_unknown_blocks_when_it_may_not_be_crossed_and_outside_always():
    costmap = np.zeros((5, 10), np.uint8)
    costmap[2, 5] = 255
    geometry = _geometry(costmap)
    poses = _poses(np.array([[2, 1], [2, 8]]))
    assert not path_is_blocked(costmap, poses, geometry)
    assert path_is_blocked(costmap, poses, geometry, allow_unknown=False)
    assert path_is_blocked(costmap, _poses(np.array([[2, 1], [2, 10]])), geometry)
    assert path_is_blocked(costmap, _poses(np.array([[2, 1], [-1, 1]])), geometry)
    assert crosses_unknown(costmap, np.array([[2, 4], [2, 5]]))
    assert not crosses_unknown(costmap, np.array([[2, 4], [2, 6]]))


def test_segments_agree_with_sampling_about_what_they_touch():
    rng = np.random.default_rng(29)
    geometry = GridGeometry(1.0, (0.0, 0.0), (12, 12))
    blocked = 0
    for _ in range(400):
        costmap = np.where(rng.random((12, 12)) < 0.15, 254, 0).astype(np.uint8)
        ends = rng.uniform(0, 12, (2, 2))
        ends = np.floor(ends) + 0.5 if rng.random() < 0.3 else ends
        samples = ends[0] + np.linspace(0, 1, 3001)[:, None] * (ends[1] - ends[0])
        cells = {tuple(cell) for cell in geometry.cells_from_world(samples).tolist()}
        cells.discard(geometry.cell_from_world(*ends[0]))
        want = any(costmap[cell] == 254 for cell in cells)
        got = path_is_blocked(costmap, np.column_stack([ends, [0, 0]]), geometry)
        assert got or not want
        if got and not want:  # only a corner that is touched in a point
            assert np.allclose(ends % 1.0, 0.5)
        blocked += got
    assert 50 < blocked < 350


def test_remaining_length_and_nearest_index_follow_the_path():
    poses = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 1, 0], [2, 2, 0.0]])
    assert nearest_index(poses, 1.1, 0.3) == 1
    assert nearest_index(poses, 1.1, 0.3, from_index=2) == 2
    assert remaining_length(poses, 0.0, 0.0) == pytest.approx(4.0)
    assert remaining_length(poses, 1.5, 0.1) == pytest.approx(2.6)
    assert remaining_length(poses, 2.0, 2.0) == pytest.approx(0.0)
    assert remaining_length(poses, 2.0, 1.5, from_index=4) == pytest.approx(0.5)


def test_long_path_costs_what_its_pieces_cost():
    costmap = np.zeros((60, 300), np.uint8)
    costmap[:, 100:200] = 99
    path = plan_path(costmap, (5, 5), (50, 290))
    assert path.cost == pytest.approx(path_cost(costmap, path.cells))
    vertices = shortcut(path.cells, costmap)
    assert sampled_cost(costmap, vertices.astype(float), 3.0)[0] <= path.cost * 1.01


def grown(occupancy):
    return inflate(
        occupancy,
        resolution=0.05,
        inscribed_radius=0.3,
        inflation_radius=0.8,
        cost_scaling_factor=4.0,
    )


def bend(points):
    """Return the sharpest turn of a polyline [rad]."""
    headings = np.unwrap(np.arctan2(*np.diff(points, axis=0).T[::-1]))
    return np.abs(np.diff(headings)).max(initial=0.0)


@pytest.mark.parametrize("allow_unknown", [True, False])
def test_smoothing_keeps_a_path_passable_and_makes_it_no_dearer(allow_unknown):
    rng = np.random.default_rng(31)
    geometry = GridGeometry(0.05, (-3.0, 1.0), (40, 40))
    rounder = 0
    for _ in range(25):
        costmap = random_costmap(rng, (40, 40))
        cells = np.argwhere(costmap < 253)
        start, goal = cells[rng.integers(len(cells))], cells[rng.integers(len(cells))]
        try:
            path = plan_path(costmap, start, goal, allow_unknown=allow_unknown)
        except NoPath:
            continue
        points = geometry.world_from_cells(path.cells)
        soft = smoothed(points, costmap, geometry, allow_unknown=allow_unknown)
        np.testing.assert_allclose(soft[[0, -1]], points[[0, -1]])
        assert not path_is_blocked(costmap, soft, geometry, 0, allow_unknown)
        before, after = (
            cost_of(p, costmap, geometry, allow_unknown=allow_unknown) for p in (points, soft)
        )
        assert after <= before + 1e-9
        rounder += bend(soft) < bend(points)
    assert rounder > 8


def test_smoothing_rounds_a_corner_and_leaves_the_obstacle_in_it_alone():
    occupancy = np.zeros((60, 60), np.int8)
    occupancy[30:, :30] = 100
    costmap = grown(occupancy)
    geometry = GridGeometry(0.05, (0.0, 0.0), costmap.shape)
    first = [(0.5 + 0.1 * k, 1.0) for k in range(16)]
    points = np.array(first + [(2.0, 1.1 + 0.1 * k) for k in range(15)])
    soft = smoothed(points, costmap, geometry)
    assert not path_is_blocked(costmap, soft, geometry)
    assert bend(points) > 1.5 and bend(soft) < 0.5
    assert path_length(soft) < path_length(points)


def test_cost_of_a_path_is_its_length_on_free_floor_and_inf_through_a_wall():
    costmap = np.zeros((20, 40), np.uint8)
    geometry = GridGeometry(0.1, (0.0, 0.0), costmap.shape)
    poses = np.array([(0.55, 1.0, 0.0), (1.5, 1.0, 0.0), (3.05, 1.0, 0.0)])
    assert cost_of(poses, costmap, geometry) == pytest.approx(2.5)
    costmap[:, 20:25] = 126
    assert cost_of(poses, costmap, geometry, cost_weight=2.0) == pytest.approx(2.5 + 0.5)
    costmap[5, 5] = 254
    costmap[10, 5] = 254
    assert math.isfinite(cost_of(poses, costmap, geometry)), "the robot stands there already"
    costmap[:, 22] = 254
    assert cost_of(poses, costmap, geometry) == math.inf
    assert math.isfinite(cost_of(poses[2:], costmap, geometry))


def test_poses_for_the_robot_are_smooth_where_there_is_room():
    occupancy = np.zeros((80, 80), np.int8)
    occupancy[36:44, 28:52] = 100
    costmap = grown(occupancy)
    geometry = GridGeometry(0.05, (0.0, 0.0), costmap.shape)
    path = plan_path(costmap, (20, 40), (60, 40))
    poses = poses_from_cells(path.cells, costmap, geometry, spacing=0.1)
    assert not path_is_blocked(costmap, poses, geometry)
    assert bend(poses[:, :2]) < 0.6
