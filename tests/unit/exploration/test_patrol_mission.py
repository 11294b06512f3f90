"""A patrol on drawn maps: goals, tries, rounds, points, ends."""

import dataclasses

import numpy as np
import pytest

from benchmarks.patrol import Course, drive, measure
from rhino_actors.config import PatrolConfig, RhinoConfig, RobotConfig
from rhino_actors.exploration.mission import Choice, Mission
from rhino_actors.exploration.patrol_mission import PatrolMission, max_safe_cost
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import OCCUPIED, UNKNOWN, GridGeometry, MapSnapshot
from rhino_actors.messages.missions import (
    MissionPhase,
    PatrolPoint,
    PatrolRequest,
    PatrolRouter,
    Visits,
)
from tests.unit.exploration.patrol_maps import (
    ROBOT,
    costs_from,
    inflated,
    new_router,
    room,
    snapshot_of,
    two_rooms,
)

CONFIG = PatrolConfig(retry_s=10.0, blocked_after_s=20.0)
ROUTERS = [PatrolRouter.COVERAGE, PatrolRouter.RANDOM, PatrolRouter.FRONTIER]


class Patrolling:
    """A mission that is told that each goal was taken, and a robot that is put where the test wants it."""

    def __init__(self, occupancy: np.ndarray | None = None, **request: object) -> None:
        self.mission = PatrolMission(PatrolRequest(seed=0, **request), CONFIG, ROBOT)  # type: ignore[arg-type]
        self.snapshot: MapSnapshot = snapshot_of(room() if occupancy is None else occupancy)
        self.place = (2.0, 2.0)
        self.now = 0.0
        self._goals = 0

    def look(self, after: float = 0.5) -> Choice:
        self.now += after
        costs = costs_from(self.snapshot, *self.place)
        choice = self.mission.choose(self.snapshot, (*self.place, 0.0), costs, self.now)
        if choice.target is not None:
            self._goals += 1
            self.mission.sent(choice.target, self._goals)
        return choice

    def arrive(self, choice: Choice, after: float = 5.0) -> None:
        assert choice.target is not None
        self.now += after
        self.place = (choice.target.x, choice.target.y)
        costs = costs_from(self.snapshot, *self.place)
        self.mission.choose(self.snapshot, (*self.place, 0.0), costs, self.now)
        if self.mission.goal_id:
            self.mission.arrived(self.now)

    def show(self, occupancy: np.ndarray) -> None:
        self.snapshot = snapshot_of(occupancy, seq=self.snapshot.seq + 1)


def points(*places: tuple[float, float], **more: object) -> tuple[PatrolPoint, ...]:
    return tuple(PatrolPoint(x, y, label=f"P{i}", **more) for i, (x, y) in enumerate(places))  # type: ignore[arg-type]


def test_it_is_a_mission() -> None:
    mission: Mission = PatrolMission(PatrolRequest(), CONFIG, ROBOT)
    assert mission.goal_id == 0


@pytest.mark.parametrize(
    "request_",
    [
        PatrolRequest(router=PatrolRouter.POINTS),
        PatrolRequest(area=((0.0, 0.0), (1.0, 0.0))),
        PatrolRequest(loops=0),
        PatrolRequest(expiry=0.0),
    ],
)
def test_a_request_that_means_nothing_is_refused(request_: PatrolRequest) -> None:
    with pytest.raises(ValueError):
        PatrolMission(request_, CONFIG, ROBOT)


def test_clearance_beyond_the_body_is_a_cost_of_the_map() -> None:
    occupancy = room()
    costs = inflated(occupancy)
    for clearance in (0.1, 0.3, 0.45, 0.6, 0.8, 3.0):
        safe = costs <= max_safe_cost(clearance, RobotConfig())
        kept = min(max(clearance, ROBOT.inscribed_radius), ROBOT.inflation_radius)
        distance = (np.argmax(safe[:, 60]) - 1) * 0.05
        assert kept < distance + 0.06 and distance <= kept + 0.11


# Places that a router chooses.


@pytest.mark.parametrize("router", ROUTERS)
def test_every_place_of_a_small_world_is_visited_in_bounded_time(router: PatrolRouter) -> None:
    occupancy = room(56, 90)
    occupancy[10:22, 14:28] = OCCUPIED
    occupancy[30:, 50:52] = OCCUPIED
    occupancy.flags.writeable = False
    snapshot, start = snapshot_of(occupancy), Pose2D(2.0, 1.5)
    costs = costs_from(snapshot, 2.0, 1.5)
    safe = (snapshot.costmap < 253) & np.isfinite(costs)
    course = Course("small", snapshot, start, safe, safe)
    seconds = {"coverage": 120.0, "frontier": 120.0, "random": 400.0}[router]
    made = drive(course, PatrolRequest(router=router, seed=1), RhinoConfig(), new_router(), seconds)
    figures = measure(made.track, safe, seconds)
    assert figures[-1, 2] == 1.0
    assert made.failed == 0


def test_a_goal_stands_until_it_is_reached_and_the_next_is_another() -> None:
    patrol = Patrolling()
    first = patrol.look()
    assert first.target is not None and first.target.message
    assert patrol.look().target is None, "drive on"
    patrol.arrive(first)
    second = patrol.look()
    assert second.target is not None
    assert np.hypot(second.target.x - first.target.x, second.target.y - first.target.y) > 0.3


def test_a_goal_that_is_passed_needs_no_stop() -> None:
    patrol = Patrolling()
    first = patrol.look()
    assert first.target is not None
    patrol.now += 5.0
    patrol.place = (first.target.x - 0.1, first.target.y)
    passed = patrol.look()
    assert passed.target is not None, "the next one takes its place before the robot stops"


def test_a_failed_goal_is_left_alone_and_tried_again_later() -> None:
    patrol = Patrolling()
    first = patrol.look()
    assert first.target is not None
    patrol.mission.failed(patrol.now, "STUCK")
    assert patrol.mission.goal_id == 0
    second = patrol.look()
    assert second.target is not None
    away = np.hypot(second.target.x - first.target.x, second.target.y - first.target.y)
    assert away > CONFIG.skip_radius - 0.2
    assert [s.reason for s in second.skipped] == ["STUCK"]
    patrol.mission.forget_goal()
    assert patrol.look(after=10.5).skipped == (), "its time is over"


def test_a_place_that_fails_again_waits_twice_as_long() -> None:
    patrol = Patrolling()
    mission = patrol.mission
    patrol.look()
    mission.failed(patrol.now, "STUCK")
    for after, skipped in ((9.0, 1), (2.0, 0)):
        mission.forget_goal()
        assert len(patrol.look(after).skipped) == skipped
    again = patrol.mission._proposed
    mission.forget_goal()
    for _ in range(40):
        choice = patrol.look(0.01)
        assert choice.target is not None
        mission.failed(patrol.now, "STUCK")
    assert again is not None
    assert max(old.tries for old in mission._exclusions) >= 1
    assert len(mission._exclusions) <= 41


def test_a_change_of_the_map_nearby_frees_a_failed_goal() -> None:
    patrol = Patrolling()
    first = patrol.look()
    assert first.target is not None
    patrol.mission.refused(first.target, patrol.now, "GOAL_OCCUPIED")
    assert len(patrol.look().skipped) == 1
    far, near = room(), room()
    row, col = patrol.snapshot.geometry.cell_from_world(first.target.x, first.target.y)
    far[40:44, (col + 60) % 118 : (col + 60) % 118 + 4] = OCCUPIED
    patrol.show(far)
    assert len(patrol.look().skipped) == 1
    near[max(0, row - 14) : row - 8, max(0, col - 14) : col - 4] = OCCUPIED
    near[row + 9 : row + 14, col - 4 : col + 14] = OCCUPIED
    patrol.show(near)
    assert patrol.look().skipped == ()


def test_it_gives_up_when_nothing_can_be_reached_for_long() -> None:
    patrol = Patrolling(np.full((80, 120), UNKNOWN, np.int8))
    first = patrol.look()
    assert first.target is None and not first.is_complete
    assert first.phase is MissionPhase.WAITING and first.message
    assert not patrol.look(19.0).is_complete
    last = patrol.look(1.5)
    assert last.is_complete and last.gave_up


def test_it_goes_on_when_the_map_comes() -> None:
    patrol = Patrolling(np.full((80, 120), UNKNOWN, np.int8))
    patrol.look()
    patrol.show(room())
    assert patrol.look(15.0).target is not None
    assert not patrol.look(15.0).is_complete


@pytest.mark.parametrize("router", ROUTERS)
def test_it_completes_after_its_rounds(router: PatrolRouter) -> None:
    patrol = Patrolling(room(40, 60), router=router, loops=2)
    patrol.place = (1.5, 1.0)
    loops = set()
    for _ in range(200):
        choice = patrol.look()
        if choice.is_complete:
            break
        assert choice.patrol is not None
        loops.add(choice.patrol.loops)
        if choice.target is not None:
            patrol.arrive(choice)
    assert choice.is_complete and not choice.gave_up
    assert loops == {0, 1}
    assert patrol.look().is_complete, "and stays so"
    assert choice.patrol is not None and choice.patrol.loops == 2
    assert choice.patrol.share_visited == 1.0


@pytest.mark.parametrize("router", ROUTERS)
def test_a_round_waits_for_the_rest_of_the_floor_when_a_door_closes(router: PatrolRouter) -> None:
    patrol = Patrolling(two_rooms(), loops=1, router=router)
    patrol.look()
    for y in np.arange(0.4, 3.7, 0.4):
        for x in np.arange(0.4, 3.9, 0.2):
            patrol.place = (x, y)
            patrol.look(0.3)
    patrol.show(two_rooms(door=False))
    for _ in range(20):
        patrol.mission.forget_goal()
        choice = patrol.look(0.1)
        assert not choice.is_complete and choice.target is not None and choice.target.x < 4.0
        assert choice.patrol is not None and choice.patrol.loops == 0
    patrol.mission.forget_goal()
    assert patrol.look(CONFIG.blocked_after_s + 1.0).is_complete, "the door stays closed"


def test_it_waits_where_it_sees_all_that_is_in_reach() -> None:
    patrol = Patrolling(loops=1)
    patrol.look()
    pen = room()
    pen[20:60, 20:22] = pen[20:60, 58:60] = OCCUPIED
    pen[20:22, 20:60] = pen[58:60, 20:60] = OCCUPIED
    patrol.show(pen)
    for x in np.arange(1.4, 2.7, 0.2):
        for y in np.arange(1.4, 2.7, 0.2):
            patrol.place = (x, y)
            patrol.mission.forget_goal()
            waits = patrol.look(0.01)
    assert waits.phase is MissionPhase.WAITING and waits.target is None
    assert "blocked" in waits.message and not waits.is_complete


def test_goals_stay_in_the_area() -> None:
    area = ((1.0, 1.0), (3.0, 1.0), (3.0, 3.0), (1.0, 3.0))
    patrol = Patrolling(area=area)
    for _ in range(25):
        choice = patrol.look()
        assert choice.target is not None
        assert 1.0 <= choice.target.x <= 3.0 and 1.0 <= choice.target.y <= 3.0
        assert choice.patrol is not None and choice.patrol.safe_area <= 4.0 + 1e-9
        patrol.arrive(choice)


def test_it_dwells_at_its_goals() -> None:
    patrol = Patrolling(dwell=8.0)
    choice = patrol.look()
    assert choice.target is not None and choice.target.dwell == 8.0
    patrol.arrive(choice)
    dwelling = patrol.look(7.0)
    assert dwelling.target is None and dwelling.phase is MissionPhase.DWELLING
    assert patrol.look(1.5).target is not None


def test_a_carried_robot_chooses_anew() -> None:
    patrol = Patrolling(two_rooms())
    first = patrol.look()
    assert first.target is not None and first.target.x < 4.5
    patrol.place = (7.0, 2.0)
    second = patrol.look()
    assert second.target is not None and second.target.x > 4.0


def test_a_goal_that_can_no_longer_be_reached_is_replaced() -> None:
    patrol = Patrolling(two_rooms())
    patrol.look()
    patrol.mission.forget_goal()
    for x in np.arange(0.6, 3.6, 0.2):  # this side has been visited
        for y in (0.6, 1.3, 2.0, 2.7, 3.4):
            patrol.place = (float(x), y)
            patrol.mission._visits.look(patrol.snapshot, float(x), y, x + 20.0)
    patrol.place, patrol.now = (3.5, 2.0), 24.0
    first = patrol.look()
    assert first.target is not None and first.target.x > 4.0
    patrol.show(two_rooms(door=False))
    other = patrol.look()
    assert other.target is not None and other.target.x < 4.0


def test_a_goal_that_can_no_longer_be_reached_is_dropped_if_there_is_no_other() -> None:
    patrol = Patrolling()
    assert patrol.look().target is not None
    patrol.show(np.full((80, 120), UNKNOWN, np.int8))
    other = patrol.look()
    assert other.target is None and other.drop and other.phase is MissionPhase.WAITING
    assert patrol.mission.goal_id == 0


def test_progress_is_told() -> None:
    patrol = Patrolling()
    first = patrol.look().patrol
    assert first is not None and first.router is PatrolRouter.COVERAGE
    assert first.safe_area == pytest.approx((4.0 - 0.8) * (6.0 - 0.8), rel=0.1)
    assert 0.0 < first.share_visited < 0.2
    later = patrol.look(30.0).patrol
    assert later is not None and later.worst_idleness == pytest.approx(30.0)
    assert 20.0 < later.mean_idleness <= 30.0


# Points.


def test_points_are_visited_in_their_order_and_around_again() -> None:
    patrol = Patrolling(
        router=PatrolRouter.POINTS, points=points((1.0, 1.0), (5.0, 1.0), (3.0, 3.0)), loops=2
    )
    labels, etas = [], []
    for _ in range(6):
        choice = patrol.look()
        assert choice.target is not None and choice.patrol is not None
        assert choice.patrol.next_label == choice.target.label
        labels.append(choice.target.label)
        etas.append(choice.eta)
        patrol.arrive(choice)
    assert labels == ["P0", "P1", "P2"] * 2
    end = patrol.look()
    assert end.is_complete and not end.gave_up
    assert end.patrol is not None and end.patrol.loops == 2
    assert etas[0] is None and etas[3] == pytest.approx(patrol.now / 2, rel=0.2)


def test_a_point_has_its_own_dwell_and_heading() -> None:
    own = PatrolPoint(1.0, 1.0, yaw=1.5, dwell=0.0, label="own")
    other = PatrolPoint(5.0, 1.0, label="other")
    patrol = Patrolling(router=PatrolRouter.POINTS, points=(own, other), dwell=9.0)
    first = patrol.look()
    assert first.target is not None and (first.target.yaw, first.target.dwell) == (1.5, 0.0)
    patrol.arrive(first)
    second = patrol.look()
    assert second.target is not None and second.target.dwell == 9.0
    patrol.arrive(second)
    assert patrol.look(8.0).phase is MissionPhase.DWELLING


def test_points_that_cannot_be_visited_are_skipped_with_a_reason() -> None:
    occupancy = two_rooms(door=False)
    occupancy[50:78, 2:30] = OCCUPIED
    patrol = Patrolling(
        occupancy,
        router=PatrolRouter.POINTS,
        points=points((1.0, 1.0), (1.0, 1.0), (30.0, 1.0), (6.0, 2.0), (0.7, 3.2), (3.0, 2.0)),
    )
    first = patrol.look()
    patrol.arrive(first)
    second = patrol.look()
    assert second.target is not None and second.target.label == "P5"
    assert {s.label: s.reason for s in second.skipped} == {
        "P1": "DUPLICATE",
        "P2": "GOAL_OUTSIDE_MAP",
        "P3": "NO_VALID_PATH",
        "P4": "GOAL_OCCUPIED",
    }


def test_a_skipped_point_is_tried_again_in_the_next_loop() -> None:
    patrol = Patrolling(
        two_rooms(door=False), router=PatrolRouter.POINTS, points=points((6.0, 2.0), (1.0, 1.0))
    )
    first = patrol.look()
    assert first.target is not None and first.target.label == "P1"
    patrol.show(two_rooms())
    patrol.arrive(first)
    again = patrol.look()
    assert again.target is not None and again.target.label == "P0"
    patrol.arrive(again)
    assert patrol.look().skipped == ()


def test_a_point_that_fails_is_skipped_and_the_patrol_goes_on() -> None:
    patrol = Patrolling(router=PatrolRouter.POINTS, points=points((1.0, 1.0), (5.0, 1.0)))
    patrol.look()
    patrol.mission.failed(patrol.now, "STUCK")
    choice = patrol.look()
    assert choice.target is not None and choice.target.label == "P1"
    assert [(s.label, s.reason) for s in choice.skipped] == [("P0", "STUCK")]


def test_the_same_place_may_be_visited_between_others() -> None:
    patrol = Patrolling(
        router=PatrolRouter.POINTS, points=points((1.0, 1.0), (5.0, 1.0), (1.0, 1.0), (3.0, 3.0))
    )
    labels = []
    for _ in range(4):
        choice = patrol.look()
        assert choice.target is not None
        labels.append(choice.target.label)
        patrol.arrive(choice)
    assert labels == ["P0", "P1", "P2", "P3"]


def test_a_point_by_a_wall_is_stood_at_beside_it() -> None:
    patrol = Patrolling(router=PatrolRouter.POINTS, points=points((3.0, 0.2)))
    choice = patrol.look()
    assert choice.target is not None
    cell = patrol.snapshot.geometry.cell_from_world(choice.target.x, choice.target.y)
    assert patrol.snapshot.costmap[cell] < 253
    assert abs(choice.target.x - 3.0) < 0.1 and 0.3 < choice.target.y < 0.6


def test_points_none_of_which_can_be_reached_block_the_patrol_with_reasons() -> None:
    patrol = Patrolling(
        router=PatrolRouter.POINTS, points=points((50.0, 1.0), (60.0, 1.0)), loops=1
    )
    assert patrol.look().phase is MissionPhase.WAITING
    end = patrol.look(21.0)
    assert end.is_complete and end.gave_up
    assert [s.reason for s in end.skipped] == ["GOAL_OUTSIDE_MAP"] * 2


def test_a_point_is_driven_to_again_after_a_person_took_over() -> None:
    patrol = Patrolling(router=PatrolRouter.POINTS, points=points((1.0, 1.0), (5.0, 1.0)))
    patrol.look()
    patrol.mission.forget_goal()
    patrol.place = (4.0, 3.0)
    choice = patrol.look(60.0)
    assert choice.target is not None and choice.target.label == "P0"


# Pictures.


def test_its_visits_say_how_long_ago_each_place_was_visited() -> None:
    patrol = Patrolling(expiry=100.0)
    geometry = patrol.snapshot.geometry
    assert not patrol.mission.visits(geometry, 0.0).age.any()
    patrol.look()
    row, col = geometry.cell_from_world(2.0, 2.0)
    for later, age in ((0.0, 1), (50.0, 128), (100.0, 255), (1e6, 255)):
        visits = patrol.mission.visits(geometry, patrol.now + later)
        assert visits.geometry == geometry and visits.expiry == 100.0
        assert visits.age.shape == geometry.shape and visits.age.dtype == np.uint8
        assert visits.age[row, col] == age and visits.age[5, 5] == 0


def test_visits_of_a_large_map_are_thinned_and_stay_where_they_are() -> None:
    age = np.zeros((400, 700), np.uint8)
    age[100:200, 300:500] = 9
    visits = Visits(GridGeometry(0.05, (-3.0, 2.0), age.shape), age, 60.0)
    assert visits.thinned(280_000) is visits
    thin = visits.thinned(20_000)
    assert thin.age.size <= 20_000 and thin.expiry == 60.0
    for x, y, expected in ((13.0, 7.5, 9), (21.0, 11.0, 9), (11.0, 7.5, 0), (13.0, 13.0, 0)):
        assert thin.age[thin.geometry.cell_from_world(x, y)] == expected


def test_an_expiry_of_its_own_counts() -> None:
    patrol = Patrolling(expiry=20.0)
    patrol.look()
    fresh = patrol.look(10.0).patrol
    patrol.place = (5.0, 3.0)
    late = patrol.look(40.0).patrol
    assert fresh is not None and late is not None
    assert late.share_visited < 0.15
    assert dataclasses.is_dataclass(late)
