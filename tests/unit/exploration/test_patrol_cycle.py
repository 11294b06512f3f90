"""A patrol that goes around and around."""

import math

import numpy as np
import pytest

from benchmarks.patrol import SPEED, Course, drive, measure
from rhino_actors.config import PatrolConfig, RhinoConfig
from rhino_actors.exploration.patrol_mission import PatrolMission
from rhino_actors.exploration.patrol_order import FAR, costs_between, improve, spanning_order
from rhino_actors.exploration.patrol_round import Round, hold_against, plan_round
from rhino_actors.exploration.patrol_sites import make_sites
from rhino_actors.exploration.patrol_stations import owners, plan_stations
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, MapSnapshot
from rhino_actors.messages.missions import PatrolRequest
from tests.unit.exploration.patrol_maps import (
    ROBOT,
    costs_from,
    new_router,
    room,
    snapshot_of,
    two_rooms,
)

BLOCK = 4
VIEW = 0.45  # [m]


def four_rooms() -> np.ndarray:
    """Four rooms of 3.5 m around a crossing of two walls, each with a door to two others."""
    occupancy = room(142, 142)
    occupancy[70:72], occupancy[:, 70:72] = OCCUPIED, OCCUPIED
    for at in (30, 100):
        occupancy[at : at + 20, 70:72] = FREE
        occupancy[70:72, at : at + 20] = FREE
    return occupancy


def safe_floor(snapshot: MapSnapshot, x: float, y: float) -> np.ndarray:
    return (snapshot.costmap < 253) & np.isfinite(costs_from(snapshot, x, y))


def new_round(occupancy: np.ndarray, before: Round | None = None) -> tuple[MapSnapshot, Round]:
    snapshot = snapshot_of(occupancy)
    return snapshot, plan_round(snapshot, safe_floor(snapshot, 1.0, 1.0), BLOCK, VIEW, 0.0, before)


def straight_length(stations: np.ndarray) -> float:
    return float(np.hypot(*(stations - np.roll(stations, 1, axis=0)).T).sum()) * 0.05


def test_all_floor_is_in_view_of_the_way_and_belongs_to_a_station() -> None:
    snapshot, planned = new_round(four_rooms())
    safe = safe_floor(snapshot, 1.0, 1.0)
    assert ((planned.owner >= 0) == safe).all()
    stations = planned.stations
    assert safe[stations[:, 0], stations[:, 1]].all()
    assert set(np.unique(planned.owner[safe])) <= set(range(len(stations)))
    assert len({tuple(s) for s in stations.tolist()}) == len(stations)


def test_a_round_is_hardly_longer_than_lanes_of_a_visits_width() -> None:
    snapshot, planned = new_round(room(122, 162))
    area = safe_floor(snapshot, 1.0, 1.0).sum() * 0.05**2
    lanes = area / (2 * VIEW)
    assert planned.length < 1.5 * lanes


def test_the_way_of_a_round_goes_through_each_door_as_seldom_as_can_be() -> None:
    _, planned = new_round(two_rooms())
    is_left = planned.stations[:, 1] < 81
    assert np.count_nonzero(is_left != np.roll(is_left, 1)) == 2


def test_planning_repeats() -> None:
    first, second = new_round(four_rooms())[1], new_round(four_rooms())[1]
    assert np.array_equal(first.stations, second.stations)
    assert np.array_equal(first.owner, second.owner)


def test_a_repair_keeps_the_order_and_brings_the_new_floor_in() -> None:
    closed, opened = two_rooms(), two_rooms()
    closed[:, 120:] = OCCUPIED
    _, before = new_round(closed)
    snapshot, after = new_round(opened, before)
    safe = safe_floor(snapshot, 1.0, 1.0)
    assert ((after.owner >= 0) == safe).all()
    kept = after.origins[after.origins >= 0]
    assert len(kept) > 0.6 * len(before.stations)
    steps = np.diff(kept) % len(before.stations)
    assert np.count_nonzero(steps <= 3) > 0.8 * len(steps), "one after the other, as before"


def test_a_repair_goes_around_a_new_wall() -> None:
    occupancy = room(122, 162)
    _, before = new_round(occupancy)
    occupancy[30:120, 80:82] = OCCUPIED
    snapshot, after = new_round(occupancy, before)
    safe = safe_floor(snapshot, 1.0, 1.0)
    assert ((after.owner >= 0) == safe).all()
    assert safe[after.stations[:, 0], after.stations[:, 1]].all()
    assert after.length < 1.3 * new_round(occupancy)[1].length


def test_only_what_changes_the_floor_calls_for_a_repair() -> None:
    occupancy = room(122, 162)
    _, planned = new_round(occupancy)

    def is_good(changed: np.ndarray) -> bool:
        snapshot = snapshot_of(changed)
        return hold_against(planned, snapshot, safe_floor(snapshot, 1.0, 1.0))[1]

    jitter, person, wall, wider = (occupancy.copy() for _ in range(4))
    jitter[2:3] = OCCUPIED
    person[60:68, 60:68] = OCCUPIED
    wall[2:100, 80:82] = OCCUPIED
    assert is_good(occupancy) and is_good(jitter) and is_good(person)
    assert not is_good(wall)
    wider[40:80, :2] = FREE
    grown = snapshot_of(np.pad(wider, ((0, 0), (40, 0))), origin=(-2.0, 0.0))
    owner, still = hold_against(planned, grown, safe_floor(grown, 1.0, 1.0))
    assert not still and (owner[:, 40:][planned.owner >= 0] >= 0).all()


def test_islands_and_single_sites_are_planned_too() -> None:
    snapshot = snapshot_of(two_rooms(door=False))
    safe = snapshot.costmap < 253
    assert ((plan_round(snapshot, safe, BLOCK, VIEW, 0.0).owner >= 0) == safe).all()
    one = np.zeros(safe.shape, np.bool_)
    one[40, 40] = True
    sites = make_sites(snapshot.costmap, one, snapshot.geometry, BLOCK, VIEW)
    order, cost = plan_stations(sites)
    assert len(order) == 1 and cost == 0.0
    assert (owners(sites, order) == 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_an_improved_order_is_a_short_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = rng.random((60, 2)) * 10.0
    pairs = np.array([(i, j) for i in range(60) for j in range(i)], np.int32)
    costs = np.hypot(*(places[pairs[:, 0]] - places[pairs[:, 1]]).T).astype(np.float32)
    between = costs_between(60, pairs, costs)
    assert between.max() < FAR and np.allclose(between, between.T)

    def length(order: np.ndarray) -> float:
        return float(between[order, np.roll(order, 1)].sum())

    first = spanning_order(60, pairs, costs)
    better = improve(first, between)
    assert sorted(first.tolist()) == sorted(better.tolist()) == list(range(60))
    assert length(better) < length(first)
    # Beardwood, Halton, Hammersley: 0.7124 sqrt(n A) for many places; with few, their rim adds a tenth or so.
    assert length(better) < 1.25 * 0.7124 * math.sqrt(60 * 100.0)


def _course() -> Course:
    occupancy = four_rooms()
    occupancy.flags.writeable = False
    snapshot = snapshot_of(occupancy)
    safe = safe_floor(snapshot, 1.0, 1.0)
    return Course("four rooms", snapshot, Pose2D(1.0, 1.0), safe, safe)


def test_idleness_stays_near_the_time_of_a_round_and_every_round_visits_all() -> None:
    course = _course()
    took = new_round(four_rooms())[1].length / SPEED
    seconds = 10.0 * math.ceil(0.4 * took)  # four rounds
    made = drive(
        course,
        PatrolRequest(),
        RhinoConfig(patrol=PatrolConfig(rounds=True)),
        new_router(),
        seconds,
    )
    figures = measure(made.track, course.safe, seconds)
    steady = figures[math.ceil(0.13 * took) :, 0]
    assert made.failed == 0
    assert figures[math.ceil(0.13 * took), 2] == 1.0, "all in the first round"
    assert steady.max() <= 1.3 * took


class Walking:
    """A mission on a map that the test changes, and a robot that is at each goal at once."""

    def __init__(self, occupancy: np.ndarray) -> None:
        self.mission = PatrolMission(
            PatrolRequest(), PatrolConfig(retry_s=40.0, rounds=True), ROBOT
        )
        self.snapshot = snapshot_of(occupancy)
        self.place, self.now, self.goals = (1.0, 1.0), 0.0, 0

    def step(self, after: float = 4.0) -> tuple[float, float] | None:
        """Go to the next goal in a straight line, looking on the way; return it."""
        self.now += after
        choice = self._look()
        if choice is None:
            return None
        start = np.array(self.place)
        way = np.array(choice) - start
        for share in np.linspace(0.0, 1.0, max(2, math.ceil(np.hypot(*way) / 0.3)))[1:]:
            self.now += 0.5
            x, y = start + share * way
            self.place = (float(x), float(y))
            self.mission._visits.look(self.snapshot, *self.place, self.now)
        self.mission.arrived(self.now)
        return choice

    def _look(self) -> tuple[float, float] | None:
        costs = costs_from(self.snapshot, *self.place)
        choice = self.mission.choose(self.snapshot, (*self.place, 0.0), costs, self.now)
        if choice.target is None:
            return None
        self.goals += 1
        self.mission.sent(choice.target, self.goals)
        return (choice.target.x, choice.target.y)


def test_an_excluded_place_is_passed_over_and_comes_back() -> None:
    walking = Walking(room())
    walking.step()
    aim = walking._look()
    assert aim is not None
    walking.mission.failed(walking.now, "STUCK")
    until = walking.now + 40.0
    nearest = {False: math.inf, True: math.inf}
    for _ in range(120):
        goal = walking.step()
        assert goal is not None
        is_over = walking.now > until
        nearest[is_over] = min(nearest[is_over], math.dist(goal, aim))
    assert nearest[False] > 0.3
    assert nearest[True] < 0.6


def test_the_round_follows_the_map() -> None:
    occupancy = four_rooms()
    occupancy[72:, 72:] = OCCUPIED
    walking = Walking(occupancy)
    for _ in range(12):
        assert walking.step() is not None
    cycle = walking.mission._cycle
    assert cycle is not None
    before = cycle.length
    walking.snapshot = snapshot_of(four_rooms(), seq=2)
    walking.step(12.0)
    assert cycle.length > 1.15 * before
    in_new = [
        goal for goal in (walking.step() for _ in range(150)) if goal and min(goal) > 72 * 0.05
    ]
    assert in_new, "the new room is visited"
    walking.snapshot = snapshot_of(occupancy, seq=3)
    walking.place = (1.0, 1.0)
    for _ in range(30):
        goal = walking.step(12.0)
        assert goal is not None and min(goal) < 72 * 0.05


def test_two_missions_alike_go_the_same_way() -> None:
    first, second = Walking(four_rooms()), Walking(four_rooms())
    assert [first.step() for _ in range(15)] == [second.step() for _ in range(15)]


def test_a_robot_that_was_carried_joins_the_round_where_it_is() -> None:
    walking = Walking(four_rooms())
    walking.step()
    walking.place = (5.5, 5.5)
    goal = walking.step(0.5)
    assert goal is not None and math.dist(goal, (5.5, 5.5)) < 2.0
