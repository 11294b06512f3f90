"""An exploration on drawn maps and in small worlds: targets, tries, ends."""

import math

import numpy as np
import pytest

from rhino_actors.config import ExplorerConfig, PlannerConfig, RobotConfig
from rhino_actors.errors import InvalidRequest, PlanningError
from rhino_actors.exploration import ExploreMission, SkipReason, explore_mission
from rhino_actors.exploration.mission import Choice
from rhino_actors.mapping.inflation import inflate
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry, MapSnapshot
from rhino_actors.messages.missions import FrontierState, MissionPhase
from rhino_actors.planning.route import Router

RESOLUTION = 0.1
ROBOT = RobotConfig(inflation_radius=0.5)
CONFIG = ExplorerConfig(settle_time_s=1.0, sensor_range=3.0)


def _inflate(occupancy, resolution):  # type: ignore[no-untyped-def]
    return inflate(
        occupancy,
        resolution=resolution,
        inscribed_radius=ROBOT.inscribed_radius,
        inflation_radius=ROBOT.inflation_radius,
        cost_scaling_factor=ROBOT.cost_scaling_factor,
    )


class Exploring:
    """A mission, and the robot's pose."""

    def __init__(self, at: tuple[float, float] = (1.0, 1.0), **options: object) -> None:
        area = options.pop("area", ())
        config = ExplorerConfig(**{"settle_time_s": 1.0, "sensor_range": 3.0, **options})  # type: ignore[arg-type]
        self.mission = ExploreMission(config, ROBOT, area)  # type: ignore[arg-type]
        self.pose = Pose2D(*at)
        self.exact = True
        self._router = Router(PlannerConfig(), ROBOT, _inflate)
        self._seq = 0

    def look(self, occupancy: np.ndarray, now: float) -> Choice:
        self._seq += 1
        geometry = GridGeometry(RESOLUTION, (0.0, 0.0), occupancy.shape)
        snapshot = MapSnapshot(
            1, self._seq, now, geometry, occupancy, _inflate(occupancy, RESOLUTION), 1.0
        )
        costs = self._router.costs_from(snapshot, self.pose) if self.exact else None
        return self.mission.choose(snapshot, self.pose.as_tuple(), costs, now)

    def go(self, occupancy: np.ndarray, now: float) -> Choice:
        """Look, and take the target."""
        choice = self.look(occupancy, now)
        assert choice.target is not None
        self.mission.sent(choice.target, 1)
        return choice


def _closed_room() -> np.ndarray:
    occupancy = np.full((60, 60), UNKNOWN, np.int8)
    occupancy[2:58, 2:58] = OCCUPIED
    occupancy[3:57, 3:57] = FREE
    return occupancy


def _room_with_open_door() -> np.ndarray:
    occupancy = _closed_room()
    occupancy[24:36, 57:60] = FREE
    return occupancy


def _see(truth: np.ndarray, known: np.ndarray, pose: Pose2D, reach: float = 3.0) -> None:
    """Uncover what a lidar sees."""
    angles = np.arange(720) * (math.pi / 360)
    steps = np.arange(0.0, reach, RESOLUTION / 2)
    x = pose.x + np.outer(np.cos(angles), steps)
    y = pose.y + np.outer(np.sin(angles), steps)
    rows, cols = (y / RESOLUTION).astype(int), (x / RESOLUTION).astype(int)
    inside = (rows >= 0) & (rows < truth.shape[0]) & (cols >= 0) & (cols < truth.shape[1])
    rows, cols = np.clip(rows, 0, truth.shape[0] - 1), np.clip(cols, 0, truth.shape[1] - 1)
    hit = (truth[rows, cols] >= 50) | ~inside
    open_until = np.where(hit.any(axis=1), hit.argmax(axis=1), len(steps))
    seen = (np.arange(len(steps)) <= open_until[:, None]) & inside
    known[rows[seen], cols[seen]] = truth[rows[seen], cols[seen]]


def explore(truth, exploring, known=None, most=200.0):  # type: ignore[no-untyped-def]
    """Drive a mission to its end. Returns the map, the last choice, the metres, and the targets."""
    known = np.full_like(truth, UNKNOWN) if known is None else known.copy()
    metres, now, targets = 0.0, 0.0, []
    while metres < most and now < 2000:
        now += 1.0
        _see(truth, known, exploring.pose)
        choice = exploring.look(known.copy(), now)
        if choice.is_complete:
            return known, choice, metres, targets
        if choice.target is not None:
            targets.append((choice.target.x, choice.target.y))
            exploring.mission.sent(choice.target, len(targets))
        if choice.drop:
            exploring.mission.forget_goal()
        if not exploring.mission.goal_id:
            continue
        geometry = GridGeometry(RESOLUTION, (0.0, 0.0), truth.shape)
        snapshot = MapSnapshot(1, 10**6, now, geometry, known, _inflate(known, RESOLUTION), 1.0)
        try:
            costs = exploring._router.costs_from(snapshot, Pose2D(*targets[-1]))
        except PlanningError as error:
            exploring.mission.failed(now, error.code)
            continue
        cell = np.array(geometry.cell_from_world(exploring.pose.x, exploring.pose.y))
        for _ in range(6):  # 0.6 m and more: down the field
            around = [cell + (r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)]
            around = [c for c in around if truth[tuple(c)] < 50]
            best = min(around, key=lambda c: costs[tuple(c)])
            metres += float(np.hypot(*(best - cell))) * RESOLUTION
            cell = best
        exploring.pose = Pose2D(*geometry.world_from_cell(*cell.tolist()))
        if math.dist(targets[-1], (exploring.pose.x, exploring.pose.y)) < 0.15:
            exploring.mission.arrived(now)
    raise AssertionError(f"no end after {metres:.0f} m, {now:.0f} s")


def test_room_without_frontiers_is_complete_after_the_map_has_settled() -> None:
    exploring = Exploring()
    assert not exploring.look(_closed_room(), 0.0).is_complete
    assert not exploring.look(_closed_room(), 0.9).is_complete
    choice = exploring.look(_closed_room(), 1.1)
    assert choice.is_complete and not choice.gave_up and not choice.skipped
    assert choice.explored_share == 1.0


@pytest.mark.parametrize("exact", [True, False])
def test_open_door_is_the_target_and_is_kept_until_it_is_seen_out(exact: bool) -> None:
    exploring = Exploring()
    exploring.exact = exact
    choice = exploring.go(_room_with_open_door(), 0.0)
    target = choice.target
    assert target is not None and 3.5 < target.x < 6.0 and 1.8 < target.y < 4.2
    assert 0 < (choice.explored_share or 0) < 1 and choice.eta is not None and choice.eta > 3
    driving = exploring.look(_room_with_open_door(), 0.5)
    assert driving.target is None and not driving.drop, "drive on"
    assert FrontierState.TARGET in driving.frontiers[:, 2]
    assert exploring.mission.goal_id == 1
    seen_out = exploring.look(_closed_room(), 1.0)
    assert seen_out.target is None and seen_out.drop
    assert exploring.look(_closed_room(), 2.5).is_complete


def test_target_seen_out_before_arrival_gives_way_to_the_next_at_once() -> None:
    occupancy = _room_with_open_door()
    occupancy[57:60, 24:36] = FREE
    exploring = Exploring()
    first = exploring.go(occupancy, 0.0).target
    assert first is not None
    left = occupancy.copy()
    left[
        (slice(24, 36), slice(57, 60)) if first.x > first.y else (slice(57, 60), slice(24, 36))
    ] = OCCUPIED
    second = exploring.look(left, 0.5).target
    assert second is not None and math.dist((first.x, first.y), (second.x, second.y)) > 1.0


def test_the_target_is_kept_between_two_that_are_as_good() -> None:
    occupancy = _room_with_open_door()
    occupancy[57:60, 24:36] = FREE
    exploring = Exploring()
    exploring.go(occupancy, 0.0)
    rng = np.random.default_rng(1)
    for k in range(10):
        exploring.pose = Pose2D(*(1.0 + 0.2 * rng.random(2)))
        assert exploring.look(occupancy, 0.5 * k).target is None


def test_target_whose_floor_becomes_an_obstacle_is_replaced() -> None:
    exploring = Exploring()
    target = exploring.go(_room_with_open_door(), 0.0).target
    assert target is not None
    occupancy = _room_with_open_door()
    row, col = int(target.y / RESOLUTION), int(target.x / RESOLUTION)
    occupancy[row - 1 : row + 2, col - 1 : col + 2] = OCCUPIED
    again = exploring.look(occupancy, 0.5).target
    assert again is not None and math.dist((again.x, again.y), (target.x, target.y)) > 0.3


def test_edge_of_the_grid_is_a_frontier() -> None:
    assert Exploring().look(np.full((60, 60), FREE, np.int8), 0.0).target is not None


def test_target_that_failed_is_left_alone_then_tried_as_the_last_one_then_given_up() -> None:
    exploring = Exploring(retry_wait_s=8.0, max_attempts=2)
    occupancy = _room_with_open_door()
    occupancy[24:36, 57:60] = UNKNOWN
    occupancy[24:32, 57:60] = FREE
    exploring.go(occupancy, 0.0)
    exploring.mission.failed(1.0, "OBSTACLE")
    for now in (1.5, 8.5):
        choice = exploring.look(occupancy, now)
        assert choice.target is None and not choice.is_complete
        assert choice.phase is MissionPhase.WAITING
    exploring.go(occupancy, 9.5)
    exploring.mission.failed(20.0, "OBSTACLE")
    exploring.look(occupancy, 20.5)
    choice = exploring.look(occupancy, 40.0)
    assert choice.is_complete and choice.gave_up
    assert {s.reason for s in choice.skipped} == {SkipReason.GAVE_UP}


def test_other_targets_come_before_one_that_failed_and_it_is_revisited_after_give_up_s() -> None:
    occupancy = _room_with_open_door()
    occupancy[57:60, 24:36] = FREE
    exploring = Exploring()
    first = exploring.go(occupancy, 0.0).target
    exploring.mission.refused(first, 1.0, "GOAL_OCCUPIED")
    second = exploring.go(occupancy, 1.5).target
    assert first is not None and second is not None
    assert math.dist((first.x, first.y), (second.x, second.y)) > 0.5


def test_change_of_the_map_near_a_target_frees_it() -> None:
    exploring = Exploring(max_attempts=1)
    occupancy = _room_with_open_door()
    exploring.go(occupancy, 0.0)
    exploring.mission.failed(1.0, "NO_VALID_PATH")
    choices = [exploring.look(occupancy, 2.0 + k) for k in range(3)]
    given_up = {s.reason for choice in choices for s in choice.skipped}
    assert SkipReason.GAVE_UP in given_up
    far = occupancy.copy()
    far[5:15, 5:8] = OCCUPIED
    assert any(s.reason is SkipReason.GAVE_UP for s in exploring.look(far, 6.0).skipped)
    changed = occupancy.copy()
    changed[36:40, 50:57] = OCCUPIED
    changed[20:24, 50:57] = OCCUPIED
    freed = exploring.look(changed, 7.0)
    assert not any(s.reason is SkipReason.GAVE_UP for s in freed.skipped)


def test_errors_that_are_not_the_targets_fault_are_no_try() -> None:
    exploring = Exploring(max_attempts=1)
    target = exploring.go(_room_with_open_door(), 0.0).target
    assert target is not None
    exploring.mission.failed(1.0, "START_OCCUPIED")
    assert exploring.look(_room_with_open_door(), 1.5).target is not None


def test_frontier_that_stays_unseen_from_the_best_places_is_no_failure() -> None:
    exploring = Exploring(max_attempts=2)
    occupancy = _closed_room()
    occupancy[28:33, 57:60] = FREE  # as wide as one part
    choice, now = exploring.look(occupancy, 0.0), 0.0
    for k in range(20):
        now = k + 1.0
        if choice.target is not None:
            exploring.mission.sent(choice.target, k + 1)
            exploring.mission.arrived(now)
        choice = exploring.look(occupancy, now + 0.5)
        if choice.is_complete:
            break
    assert choice.is_complete and not choice.gave_up
    assert {s.reason for s in choice.skipped} == {SkipReason.STAYS_UNSEEN}


def test_way_that_is_closed_during_the_mission_ends_it_blocked() -> None:
    occupancy = _closed_room()
    occupancy[3:57, 30] = OCCUPIED
    occupancy[24:36, 30] = FREE
    occupancy[24:36, 57:60] = FREE
    exploring = Exploring((2.5, 3.0))
    assert exploring.look(occupancy, 0.0).target is not None
    occupancy = occupancy.copy()
    occupancy[24:36, 30] = OCCUPIED
    exploring.look(occupancy, 1.0)
    waiting = exploring.look(occupancy, 3.0)
    assert waiting.target is None, "no way, over unknown floor neither"
    assert waiting.phase is MissionPhase.WAITING and not waiting.is_complete
    choice = exploring.look(occupancy, 1.0 + CONFIG.retry_wait_s)
    assert choice.is_complete and choice.gave_up
    assert {s.reason for s in choice.skipped} == {SkipReason.WAY_CLOSED}


def test_way_that_opens_again_while_it_waits_is_taken() -> None:
    """A person stood in the door."""
    door = _closed_room()
    door[3:57, 30] = OCCUPIED
    door[24:36, 30] = FREE
    door[24:36, 57:60] = FREE
    shut = door.copy()
    shut[24:36, 30] = OCCUPIED
    exploring = Exploring()
    assert exploring.look(door, 0.0).target is not None
    for now in (1.0, 3.0, 5.0):
        assert not exploring.look(shut, now).is_complete
    assert exploring.look(door.copy(), 6.0).target is not None


def _hall_and_room() -> tuple[np.ndarray, np.ndarray]:
    """Return a hall of 12 m with a door to a room at its far end, and what is known of it: not all of the room."""
    truth = np.full((60, 200), OCCUPIED, np.int8)
    truth[20:40, 2:150] = FREE
    truth[2:58, 151:198] = FREE
    truth[24:36, 150] = FREE
    known = truth.copy()
    known[2:58, 175:198] = UNKNOWN
    return truth, known


def test_a_closed_way_that_was_last_seen_from_afar_is_looked_at_again() -> None:
    """A person walked through the door as the robot saw it last, and is gone."""
    truth, known = _hall_and_room()
    exploring = Exploring((1.0, 3.0))
    assert exploring.look(known, 0.0).target is not None
    shut = known.copy()
    shut[24:36, 148:150] = OCCUPIED
    found, choice, metres, targets = explore(truth, exploring, shut)
    assert choice.is_complete and not choice.gave_up
    assert math.dist(targets[0], (14.6, 3.0)) < 1.0, "first it goes to see the door"
    assert (found[truth == FREE] == FREE).mean() > 0.99 and metres < 30.0


def test_a_way_that_is_still_closed_is_looked_at_once_and_ends_it_blocked() -> None:
    truth, known = _hall_and_room()
    exploring = Exploring((1.0, 3.0))
    assert exploring.look(known, 0.0).target is not None
    truth[24:36, 150] = OCCUPIED
    known[24:36, 150] = OCCUPIED
    _, choice, metres, targets = explore(truth, exploring, known)
    assert choice.is_complete and choice.gave_up
    assert {s.reason for s in choice.skipped} == {SkipReason.WAY_CLOSED}
    assert len(targets) == 1 and 12.0 < metres < 16.0


@pytest.mark.parametrize("end", ["refused", "failed"])
def test_a_lookout_that_cannot_be_got_to_is_not_driven_to_again(end: str) -> None:
    _, known = _hall_and_room()
    exploring = Exploring((1.0, 3.0))
    exploring.look(known, 0.0)
    known[24:36, 148:150] = OCCUPIED
    choice = exploring.go(known.copy(), 1.0)
    if end == "failed":
        exploring.mission.failed(2.0, "NO_VALID_PATH")
    else:
        assert choice.target is not None
        exploring.mission.refused(choice.target, 2.0, "NO_VALID_PATH")
    for now in (2.0, 4.0):
        choice = exploring.look(known.copy(), now)
        assert choice.target is None and choice.phase is MissionPhase.WAITING
    assert exploring.look(known.copy(), 2.5 + CONFIG.retry_wait_s).is_complete


def test_closed_ways_that_move_on_the_map_without_end_do_not_keep_the_mission_alive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(explore_mission, "MOST_LOOKS", 4)
    _, known = _hall_and_room()
    exploring = Exploring((1.0, 3.0))
    exploring.look(known, 0.0)
    targets, now = [], 1.0
    for _ in range(200):
        now += 20.0
        shut = known.copy()
        col = 40 + 12 * (len(targets) % 9)
        shut[20:40, col : col + 2] = OCCUPIED
        choice = exploring.look(shut, now)
        if choice.is_complete:
            break
        if choice.target is not None:
            targets.append(choice.target)
            exploring.mission.sent(choice.target, len(targets))
            exploring.mission.arrived(now)
    assert choice.is_complete and choice.gave_up
    assert len(targets) == 4


def test_while_it_drives_to_a_closed_way_a_target_that_turns_up_comes_first() -> None:
    _, known = _hall_and_room()
    exploring = Exploring((1.0, 3.0))
    exploring.look(known, 0.0)
    shut = known.copy()
    shut[24:36, 148:150] = OCCUPIED
    lookout = exploring.go(shut, 1.0).target
    assert exploring.look(shut.copy(), 2.0).target is None, "it drives on"
    seen = exploring.look(known.copy(), 3.0).target
    assert lookout is not None and seen is not None
    assert math.dist((lookout.x, lookout.y), (seen.x, seen.y)) > 1.0


def test_slivers_in_view_of_no_floor_that_the_robot_fits_on_do_not_block_the_end() -> None:
    occupancy = _closed_room()
    occupancy[50:57, 50:57] = OCCUPIED
    occupancy[52:56, 52:56] = FREE
    occupancy[53:55, 53:55] = UNKNOWN
    exploring = Exploring()
    exploring.look(occupancy, 0.0)
    choice = exploring.look(occupancy, 2.0)
    assert choice.is_complete and not choice.gave_up
    assert {s.reason for s in choice.skipped} == {SkipReason.NO_SAFE_CELL}


def test_too_little_to_see_is_skipped_with_the_reason() -> None:
    occupancy = _closed_room()
    occupancy[30:32, 30:32] = UNKNOWN
    exploring = Exploring()
    exploring.look(occupancy, 0.0)
    choice = exploring.look(occupancy, 2.0)
    assert choice.is_complete and not choice.gave_up
    assert {s.reason for s in choice.skipped} == {SkipReason.TOO_SMALL}


def test_area_limits_frontiers_and_targets() -> None:
    occupancy = np.full((60, 60), FREE, np.int8)
    area = ((0.5, 0.5), (3.0, 0.5), (3.0, 3.0), (0.5, 3.0))
    exploring = Exploring(area=area)
    exploring.look(occupancy, 0.0)
    assert exploring.look(occupancy, 2.0).is_complete, "the grid's edge is outside the area"
    occupancy = occupancy.copy()
    occupancy[15:28, 15:28] = UNKNOWN
    occupancy[40:60, 40:60] = UNKNOWN
    choice = Exploring(area=area).look(occupancy, 0.0)
    assert choice.target is not None
    assert 0.5 <= choice.target.x <= 3.0 and 0.5 <= choice.target.y <= 3.0
    assert (choice.frontiers[:, :2] < 3.01).all()
    with pytest.raises(InvalidRequest):
        Exploring(area=area[:2])


def test_same_map_and_pose_are_not_thought_over_again() -> None:
    exploring = Exploring()
    exploring.go(_room_with_open_door(), 0.0)
    occupancy = _room_with_open_door()
    geometry = GridGeometry(RESOLUTION, (0.0, 0.0), occupancy.shape)
    snapshot = MapSnapshot(1, 9, 0.0, geometry, occupancy, _inflate(occupancy, RESOLUTION), 1.0)
    first = exploring.mission.choose(snapshot, exploring.pose.as_tuple(), None, 1.0)
    assert exploring.mission.choose(snapshot, exploring.pose.as_tuple(), None, 1.5) is not first
    again = exploring.mission.choose(snapshot, exploring.pose.as_tuple(), None, 2.0)
    assert again is exploring.mission.choose(snapshot, exploring.pose.as_tuple(), None, 2.5)


def test_map_that_grows_to_any_side_keeps_what_is_known_of_ways() -> None:
    exploring = Exploring((2.5, 3.0))
    occupancy = _closed_room()
    occupancy[3:57, 30] = OCCUPIED
    occupancy[24:36, 30] = FREE
    occupancy[24:36, 57:60] = FREE
    assert exploring.look(occupancy, 0.0).target is not None
    grown = np.full((92, 92), UNKNOWN, np.int8)
    grown[32:, 32:] = occupancy
    grown[32 + 24 : 32 + 36, 32 + 30] = OCCUPIED
    geometry = GridGeometry(RESOLUTION, (-3.2, -3.2), grown.shape)
    for now in (1.0, 1.0 + CONFIG.retry_wait_s):
        snapshot = MapSnapshot(1, 5, now, geometry, grown, _inflate(grown, RESOLUTION), 1.0)
        choice = exploring.mission.choose(snapshot, exploring.pose.as_tuple(), None, now)
    assert choice.is_complete and choice.gave_up
    assert {s.reason for s in choice.skipped} == {SkipReason.WAY_CLOSED}


def test_pocket_that_drifting_walls_close_does_not_make_the_end_blocked() -> None:
    exploring = Exploring()
    occupancy = _closed_room()
    occupancy[50:57, 49] = OCCUPIED
    occupancy[49, 49:57] = OCCUPIED
    occupancy[49, 50:56] = FREE  # a way into a corner of 0.7 m
    occupancy[54:57, 54:57] = UNKNOWN
    assert exploring.look(occupancy, 0.0).target is None, "0.09 m2 are too little"
    closed = occupancy.copy()
    closed[49, 50:56] = OCCUPIED
    exploring.look(closed, 1.0)
    choice = exploring.look(closed, 3.0)
    assert choice.is_complete and not choice.gave_up
    assert SkipReason.WAY_CLOSED not in {s.reason for s in choice.skipped}


# cases


def _boxed(rows: int, cols: int) -> np.ndarray:
    truth = np.full((rows, cols), FREE, np.int8)
    truth[[0, -1]] = OCCUPIED
    truth[:, [0, -1]] = OCCUPIED
    return truth


def test_pocket_behind_walls_is_listed_and_the_end_is_complete() -> None:  # P18
    occupancy = _closed_room()
    occupancy[24:36, 57:60] = FREE
    occupancy[40:57, 40:57] = OCCUPIED
    occupancy[41:56, 41:56] = FREE
    occupancy[46:52, 46:52] = UNKNOWN
    exploring = Exploring()
    choice = exploring.go(occupancy, 0.0)
    assert choice.target is not None and choice.target.y < 4.0, "the one that can be got to"
    done = occupancy.copy()
    done[24:36, 57] = OCCUPIED
    exploring.look(done, 1.0)
    choice = exploring.look(done, 3.0)
    assert choice.is_complete and not choice.gave_up
    reasons = {s.reason for s in choice.skipped}
    assert SkipReason.UNREACHABLE in reasons
    assert reasons <= {SkipReason.UNREACHABLE, SkipReason.NO_SAFE_CELL}


def test_two_rooms_joined_by_a_door_are_both_seen_and_it_ends_complete() -> None:  # P19
    truth = _boxed(60, 91)
    truth[:, 45] = OCCUPIED
    truth[30:39, 45] = FREE
    known, choice, _, _ = explore(truth, Exploring((1.5, 1.5), max_attempts=2))
    for room in (np.s_[:, :45], np.s_[:, 46:]):
        assert np.mean(known[room][truth[room] == FREE] == FREE) > 0.95
    assert not choice.gave_up


def test_near_pockets_come_before_the_far_one() -> None:  # P20
    truth = _boxed(40, 260)
    truth[20:, 1:-1] = OCCUPIED
    for col in (20, 50, 80, 225):  # pockets of 1.5 x 1.4 m above a corridor
        truth[20:34, col : col + 15] = FREE
    truth[1:9, 1:-1] = OCCUPIED
    known = truth.copy()
    known[20:35][truth[20:35] == FREE] = UNKNOWN
    known[34] = UNKNOWN
    known, choice, metres, targets = explore(truth, Exploring((6.5, 1.5)), known)
    assert choice.is_complete and np.mean(known[truth == FREE] == FREE) > 0.97
    best = (6.5 - 2.8) + (23.2 - 2.8)  # to the left pocket, then along to the right
    assert metres <= 1.5 * best
    order = [x for x, _ in targets]
    assert max(order) == order[-1] > 20.0 and min(order) < 4.0


def test_maze_is_explored_to_the_end() -> None:
    truth = _boxed(82, 82)
    for k, row in enumerate(range(16, 80, 16)):
        truth[row, 1:-1] = OCCUPIED
        truth[row, 2:12] = FREE if k % 2 else OCCUPIED
        truth[row, 70:80] = OCCUPIED if k % 2 else FREE
    known, choice, metres, _ = explore(truth, Exploring((0.8, 0.8)))
    assert choice.is_complete and not choice.gave_up
    assert np.mean(known[truth == FREE] == FREE) > 0.97
    assert metres < 60


def test_a_choice_looks_at_few_parts_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # P21
    """The time of a choice is in docs/exploration.md; here its work: areas are computed for the nearest parts only."""
    from rhino_actors.exploration import views

    rng = np.random.default_rng(1)
    occupancy = np.zeros((400, 400), np.int8)
    for row, col in rng.integers(20, 380, (150, 2)):
        occupancy[row : row + 8, col : col + 8] = UNKNOWN
    counted: list[int] = []
    seen_area = views.seen_area

    def count(places, *rest):  # type: ignore[no-untyped-def]
        counted.append(len(places))
        return seen_area(places, *rest)

    monkeypatch.setattr(views, "seen_area", count)
    choice = Exploring((20.0, 20.0)).look(occupancy, 0.0)
    assert choice.target is not None
    assert len(choice.frontiers) > 100
    assert sum(counted) < 100 * 8
