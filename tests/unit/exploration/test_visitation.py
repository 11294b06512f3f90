"""Visits: what counts as one, how long, and what they survive."""

import numpy as np
import pytest

from rhino_actors.exploration.area import cells_inside
from rhino_actors.exploration.visitation import VisitationGrid, block_cells
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry, MapSnapshot
from tests.unit.exploration.patrol_maps import RESOLUTION, costs_from, room, snapshot_of, two_rooms

RADIUS = 0.5


def _visited(grid: VisitationGrid, snapshot: MapSnapshot, now: float = 0.0) -> np.ndarray:
    return np.isfinite(grid.ages(snapshot.geometry, now))


def _survey(grid, snapshot, now, *, expiry=100.0, round_start=0.0, at=(2.0, 2.0), **more):  # type: ignore[no-untyped-def]
    return grid.survey(
        snapshot,
        costs_from(snapshot, *at),
        now,
        max_cost=252,
        expiry=expiry,
        round_start=round_start,
        **more,
    )


def test_a_visit_is_the_disc_around_the_robot() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    grid.look(snapshot, 3.025, 2.025, 0.0)  # the middle of a cell
    rows, cols = np.nonzero(_visited(grid, snapshot))
    away = np.hypot(rows - 40, cols - 60) * RESOLUTION
    assert away.max() <= RADIUS + 1e-9
    assert len(rows) == sum(
        (r * r + c * c) * RESOLUTION**2 <= RADIUS**2 + 1e-9
        for r in range(-11, 12)
        for c in range(-11, 12)
    )


def test_a_wall_does_not_count_the_room_behind() -> None:
    grid, snapshot = VisitationGrid(2.0), snapshot_of(two_rooms(door=False))
    grid.look(snapshot, 3.5, 2.0, 0.0)
    visited = _visited(grid, snapshot)
    assert visited[40, 60], "1 m away on this side"
    assert not visited[:, 82:].any()


def test_unknown_hides_what_is_behind_it() -> None:
    occupancy = room()
    occupancy[:, 70] = UNKNOWN
    grid, snapshot = VisitationGrid(1.0), snapshot_of(occupancy)
    grid.look(snapshot, 3.2, 2.0, 0.0)
    assert not _visited(grid, snapshot)[:, 71:].any()


def test_the_way_between_two_looks_is_visited_and_the_way_of_a_carried_robot_is_not() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    assert grid.look(snapshot, 1.0, 2.0, 0.0)
    assert grid.look(snapshot, 3.0, 2.0, 2.0)
    assert _visited(grid, snapshot)[40, 40], "half-way"
    assert not grid.look(snapshot, 5.0, 3.0, 2.1)
    visited = _visited(grid, snapshot)
    assert visited[60, 100] and not visited[50, 80]


def test_after_a_pause_only_the_place_counts() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    grid.look(snapshot, 1.0, 2.0, 0.0)
    assert grid.look(snapshot, 5.0, 2.0, 60.0), "it may have driven there, who knows which way"
    assert not _visited(grid, snapshot)[40, 60]


def test_visits_expire() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    grid.look(snapshot, 2.0, 2.0, 10.0)
    fresh = _survey(grid, snapshot, 10.0 + 99.0, round_start=10.0)
    old = _survey(grid, snapshot, 10.0 + 101.0, round_start=10.0)
    assert fresh.visited.sum() > 200 and old.visited.sum() == 0
    assert fresh.unvisited.sum() < old.unvisited.sum() == old.safe_cells
    assert old.share_visited == 0.0 < fresh.share_visited < 1.0


def test_idleness_counts_from_the_last_visit_or_the_start() -> None:
    grid, snapshot = VisitationGrid(10.0), snapshot_of(room())
    grid.look(snapshot, 3.0, 2.0, 100.0)
    assert _survey(grid, snapshot, 130.0).worst_idleness == pytest.approx(30.0)
    small = VisitationGrid(RADIUS)
    small.look(snapshot, 3.0, 2.0, 100.0)
    small.look(snapshot, 3.0, 2.0, 150.0)
    survey = _survey(small, snapshot, 160.0)
    assert survey.worst_idleness == pytest.approx(60.0)
    assert 10.0 < survey.mean_idleness < 60.0
    assert survey.oldest[survey.block_from_world(3.0, 2.0)] == pytest.approx(10.0)


def test_growth_of_the_map_moves_no_visit() -> None:
    grid, small = VisitationGrid(RADIUS), snapshot_of(room())
    grid.look(small, 2.0, 2.0, 0.0)
    before = np.argwhere(_visited(grid, small))
    grown = np.pad(small.occupancy, ((40, 7), (33, 64)), constant_values=UNKNOWN)
    large = snapshot_of(grown, origin=(-33 * RESOLUTION, -40 * RESOLUTION), seq=2)
    grid.look(large, 2.0, 2.0, 0.5)
    assert np.array_equal(np.argwhere(_visited(grid, large)), before + (40, 33))


def test_a_changed_map_keeps_what_still_holds() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    for step in range(9):
        grid.look(snapshot, 1.0 + 0.5 * step, 2.0, float(step))
    occupancy = room()
    occupancy[2:-2, 2:36] = OCCUPIED  # 30 % of the floor
    changed = snapshot_of(occupancy, seq=2)
    before = _survey(grid, snapshot, 8.0, at=(5.0, 2.0))
    grid.look(changed, 5.0, 2.0, 8.5)
    after = _survey(grid, changed, 8.5, at=(5.0, 2.0))
    assert 0 < after.visited.sum() < before.visited.sum()
    assert after.safe_cells < before.safe_cells
    assert after.oldest[after.block_from_world(3.0, 2.0)] < 6.0


def test_a_restarted_mapper_with_the_same_map_keeps_the_visits() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(two_rooms())
    grid.look(snapshot, 2.0, 2.0, 0.0)
    again = two_rooms()
    again[10:20, 10:20] = OCCUPIED
    assert grid.look(snapshot_of(again, epoch=2), 2.2, 2.0, 0.5)
    assert _visited(grid, snapshot)[32, 40]


def test_a_loaded_map_of_another_place_clears_the_visits() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    grid.look(snapshot, 2.0, 2.0, 0.0)
    other = np.full((80, 120), UNKNOWN, np.int8)
    other[:, 60:] = room()[:, 60:]
    assert not grid.look(snapshot_of(other, epoch=2), 4.0, 2.0, 0.5)
    assert not _visited(grid, snapshot)[:, :60].any()
    assert _visited(grid, snapshot)[40, 80]


def test_another_resolution_clears_the_visits() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    grid.look(snapshot, 2.0, 2.0, 0.0)
    geometry = GridGeometry(0.1, (0.0, 0.0), (40, 60))
    occupancy = np.zeros((40, 60), np.int8)
    coarse = MapSnapshot(1, 2, 0.0, geometry, occupancy, np.zeros((40, 60), np.uint8), 1.0)
    grid.look(coarse, 5.0, 3.0, 0.5)
    assert not _visited(grid, coarse)[20, 20]


def test_memory_follows_the_track_and_is_bounded() -> None:
    occupancy = np.full((1600, 1600), FREE, np.int8)
    snapshot = snapshot_of(occupancy)
    grid = VisitationGrid(RADIUS)
    grid.look(snapshot, 40.0, 40.0, 0.0)
    assert grid.memory < 100_000 < occupancy.nbytes
    bounded = VisitationGrid(RADIUS, max_tiles=12)
    for step in range(200):
        bounded.look(snapshot, 3.0 + 0.3 * step, 40.0, 0.5 * step)
    assert bounded.memory <= 16 * 4096
    visited = _visited(bounded, snapshot, 100.0)
    assert visited[800, int(62.7 / RESOLUTION)], "the newest stays"
    assert not visited[800, 60], "the oldest went"


def test_a_robot_outside_the_map_visits_nothing() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    assert grid.look(snapshot, -3.0, 50.0, 0.0)
    assert not _visited(grid, snapshot).any()


def test_safe_cells_are_free_reachable_clear_and_in_the_area() -> None:
    snapshot = snapshot_of(two_rooms(door=False))
    grid = VisitationGrid(RADIUS)
    grid.look(snapshot, 2.0, 2.0, 0.0)
    everywhere = _survey(grid, snapshot, 1.0)
    costs = costs_from(snapshot, 2.0, 2.0)
    safe = (snapshot.costmap < 253) & (snapshot.occupancy == FREE) & np.isfinite(costs)
    assert everywhere.safe_cells == np.count_nonzero(safe)
    corners = ((1.0, 1.0), (2.0, 1.0), (2.0, 3.0), (1.0, 3.0))
    area = cells_inside(corners, snapshot.geometry)
    assert _survey(grid, snapshot, 1.0, area=area).safe_cells == np.count_nonzero(safe & area)


@pytest.mark.parametrize(
    ("radius", "resolution"), [(0.5, 0.05), (0.5, 0.02), (2.0, 0.05), (0.1, 0.5)]
)
def test_blocks_nest_in_tiles_and_are_no_longer_than_half_a_radius(
    radius: float, resolution: float
) -> None:
    block = block_cells(radius, resolution)
    assert 32 % block == 0 and (block == 1 or block * resolution <= radius / 2 + 1e-9)


def test_a_field_of_another_shape_is_a_mistake() -> None:
    grid, snapshot = VisitationGrid(RADIUS), snapshot_of(room())
    with pytest.raises(ValueError, match="differ in shape"):
        grid.survey(
            snapshot, np.zeros((3, 3), np.float32), 0.0, max_cost=252, expiry=1.0, round_start=0.0
        )
