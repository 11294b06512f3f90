"""A request becomes a route: P01-P05 of what users of navigation systems met."""

import dataclasses
import math

import numpy as np
import pytest

from rhino_actors.config import PlannerConfig, RobotConfig
from rhino_actors.errors import GoalOccupied, GoalOutsideMap, NoPath, PlanTimedOut, StartOutsideMap
from rhino_actors.mapping.inflation import inflate
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry, MapSnapshot
from rhino_actors.messages.navigation import GoalRequest, NavMode
from rhino_actors.planning.goal import covering
from rhino_actors.planning.route import Route, Router

RESOLUTION = 0.05
ROBOT = RobotConfig()


def _inflate(occupancy, resolution):  # type: ignore[no-untyped-def]
    return inflate(
        occupancy,
        resolution=resolution,
        inscribed_radius=ROBOT.inscribed_radius,
        inflation_radius=ROBOT.inflation_radius,
        cost_scaling_factor=ROBOT.cost_scaling_factor,
    )


def _room() -> np.ndarray:
    """A free room of 6 x 6 m with walls; (0, 0) is its lower-left corner."""
    occupancy = np.full((120, 120), FREE, np.int8)
    occupancy[[0, -1], :] = OCCUPIED
    occupancy[:, [0, -1]] = OCCUPIED
    return occupancy


def _snapshot(occupancy: np.ndarray) -> MapSnapshot:
    return MapSnapshot(
        epoch=5,
        seq=9,
        stamp=0.0,
        geometry=GridGeometry(RESOLUTION, (0.0, 0.0), occupancy.shape),
        occupancy=occupancy,
        costmap=_inflate(occupancy, RESOLUTION),
        known_area=36.0,
    )


def _box(occupancy: np.ndarray, x: float, y: float, size: float, value: int = OCCUPIED) -> None:
    low = [round((v - size / 2) / RESOLUTION) for v in (x, y)]
    high = [round((v + size / 2) / RESOLUTION) for v in (x, y)]
    occupancy[low[1] : high[1], low[0] : high[0]] = value


@pytest.fixture
def router() -> Router:
    return Router(PlannerConfig(), ROBOT, _inflate)


def _corridor(gap: float) -> np.ndarray:
    """The room with a corridor through its middle: 0.8 m wide, but for `gap` [m] half a metre before and behind it."""
    occupancy = _room()
    occupancy[20:100, 40:80] = OCCUPIED
    occupancy[52:68, 40:80] = FREE
    low, high = 60 - round(gap / RESOLUTION / 2), 60 + round(gap / RESOLUTION / 2)
    for col in (48, 72):
        occupancy[20:low, col] = occupancy[high:100, col] = OCCUPIED
    return occupancy


SHUT_IN, OUT = Pose2D(3.0, 3.0), GoalRequest(1.0, 1.0)


def test_a_robot_that_drift_has_shut_in_finds_the_way_that_it_came(router: Router) -> None:
    snapshot = _snapshot(_corridor(gap=0.5))
    route = router.plan(snapshot, SHUT_IN, OUT, NavMode.ASTAR)
    assert route.poses[-1, :2] == pytest.approx([1.0, 1.0])
    rows, cols = np.nonzero(snapshot.occupancy[20:100, 40:80])
    walls = np.stack([(cols + 40.5) * RESOLUTION, (rows + 20.5) * RESOLUTION], axis=1)
    clear = np.linalg.norm(route.poses[:, None, :2] - walls, axis=2).min()
    assert clear > ROBOT.width / 2, "and the body fits on it"
    assert np.isfinite(router.costs_from(snapshot, SHUT_IN)[20, 20])
    assert not router.is_blocked(route, snapshot, SHUT_IN)


@pytest.mark.parametrize("gap", [0.0, 0.2, 0.35])
def test_what_is_closed_or_too_narrow_for_the_body_stays_closed(router: Router, gap: float) -> None:
    snapshot = _snapshot(_corridor(gap))
    with pytest.raises(NoPath):
        router.plan(snapshot, SHUT_IN, OUT, NavMode.ASTAR)


def test_in_the_open_nothing_is_widened(router: Router) -> None:
    snapshot = _snapshot(_corridor(gap=0.5))
    assert router._leaving(snapshot, Pose2D(1.0, 1.0), True) is snapshot.costmap
    assert not np.isfinite(router.costs_from(snapshot, Pose2D(1.0, 3.0))[60, 60])


def test_route_leads_from_the_robot_to_the_very_point_that_was_asked_for(router: Router) -> None:
    snapshot = _snapshot(_room())
    route = router.plan(snapshot, Pose2D(1.0, 1.0), GoalRequest(4.43, 3.91), NavMode.ASTAR)
    assert route.poses[0, :2] == pytest.approx([1.0, 1.0])
    assert route.poses[-1, :2] == pytest.approx([4.43, 3.91])
    assert route.length == pytest.approx(math.hypot(3.43, 2.91), rel=0.05)
    assert route.map_version == (5, 9)
    assert not route.through_unknown


def test_goal_in_an_obstacle_is_moved_to_near_floor_or_refused_when_strict(router: Router) -> None:
    occupancy = _room()
    _box(occupancy, 2.0, 2.0, 0.4)
    snapshot = _snapshot(occupancy)
    for x in (2.0, 2.35):
        request = GoalRequest(x, 2.0)
        route = router.plan(snapshot, Pose2D(1.0, 1.0), request, NavMode.ASTAR)
        assert math.dist((route.goal.x, route.goal.y), (x, 2.0)) <= 0.5 + RESOLUTION
        rows, cols = np.nonzero(occupancy == OCCUPIED)
        cells = np.stack([(cols + 0.5) * RESOLUTION, (rows + 0.5) * RESOLUTION], axis=1)
        clearance = np.hypot(*(cells - [route.goal.x, route.goal.y]).T).min()
        assert clearance >= ROBOT.inscribed_radius
        with pytest.raises(GoalOccupied):
            router.plan(snapshot, Pose2D(1.0, 1.0), GoalRequest(x, 2.0, strict=True), NavMode.ASTAR)


def test_robot_in_a_fresh_obstacle_finds_its_way_out(router: Router) -> None:
    occupancy = _room()
    _box(occupancy, 4.15, 3.0, 0.15)
    route = router.plan(
        _snapshot(occupancy), Pose2D(4.0, 3.0), GoalRequest(1.0, 3.0), NavMode.ASTAR
    )
    assert route.poses[-1, :2] == pytest.approx([1.0, 3.0])


def test_goal_at_the_robot_is_one_pose(router: Router) -> None:
    route = router.plan(_snapshot(_room()), Pose2D(2.0, 2.0), GoalRequest(2.0, 2.0), NavMode.ASTAR)
    assert route.length < RESOLUTION


def test_ring_around_the_robot_has_no_path(router: Router) -> None:
    occupancy = _room()
    occupancy[20:60, [20, 60]] = OCCUPIED
    occupancy[[20, 60], 20:61] = OCCUPIED
    with pytest.raises(NoPath):
        router.plan(_snapshot(occupancy), Pose2D(2.0, 2.0), GoalRequest(5.0, 5.0), NavMode.ASTAR)


def test_unknown_floor_is_crossed_only_when_allowed_and_then_said(router: Router) -> None:
    occupancy = _room()
    occupancy[:, 50:70] = UNKNOWN
    occupancy[90:110, 50:70] = FREE
    snapshot = _snapshot(occupancy)
    start, goal = Pose2D(1.5, 1.0), (4.5, 1.0)
    across = router.plan(snapshot, start, GoalRequest(*goal), NavMode.ASTAR)
    around = router.plan(snapshot, start, GoalRequest(*goal, allow_unknown=False), NavMode.ASTAR)
    assert across.through_unknown and not around.through_unknown
    assert around.length > 2.0 * across.length


def test_places_outside_the_map_are_named(router: Router) -> None:
    snapshot = _snapshot(_room())
    with pytest.raises(GoalOutsideMap):
        router.plan(snapshot, Pose2D(1.0, 1.0), GoalRequest(900.0, 0.0), NavMode.ASTAR)
    with pytest.raises(StartOutsideMap):
        router.plan(snapshot, Pose2D(-9.0, 1.0), GoalRequest(1.0, 1.0), NavMode.ASTAR)


def test_direct_mode_is_a_straight_line_even_through_a_box(router: Router) -> None:
    occupancy = _room()
    _box(occupancy, 3.0, 3.0, 0.4)
    route = router.plan(
        _snapshot(occupancy), Pose2D(1.0, 3.0), GoalRequest(5.0, 3.0), NavMode.DIRECT
    )
    assert route.length == pytest.approx(4.0)
    assert np.allclose(route.poses[:, 1], 3.0)


def test_blocked_route_is_noticed_only_ahead_of_the_robot(router: Router) -> None:
    free = _snapshot(_room())
    route = router.plan(free, Pose2D(1.0, 3.0), GoalRequest(5.0, 3.0), NavMode.ASTAR)
    occupancy = _room()
    _box(occupancy, 3.0, 3.0, 0.2)
    blocked = _snapshot(occupancy)
    assert not router.is_blocked(route, free, Pose2D(1.0, 3.0))
    assert router.is_blocked(route, blocked, Pose2D(1.0, 3.0))
    assert not router.is_blocked(route, blocked, Pose2D(4.0, 3.0))


@pytest.mark.parametrize("offset", [0.0, 0.025])
@pytest.mark.parametrize("upright", [False, True])
def test_door_of_80_cm_passes_and_gap_of_55_cm_does_not(
    router: Router, upright: bool, offset: float
) -> None:
    for width, passes in ((0.8, True), (0.55, False)):
        occupancy = _room()
        middle = 3.0 + offset
        low, high = (round((middle + s * width / 2) / RESOLUTION) for s in (-1, 1))
        occupancy[58:62, :] = OCCUPIED
        occupancy[58:62, low:high] = FREE
        start, goal = Pose2D(3.0, 1.0), (3.0, 5.0)
        if not upright:
            occupancy = np.ascontiguousarray(occupancy.T)
            start, goal = Pose2D(1.0, 3.0), (5.0, 3.0)
        if passes:
            router.plan(_snapshot(occupancy), start, GoalRequest(*goal), NavMode.ASTAR)
        else:
            with pytest.raises(NoPath):
                router.plan(_snapshot(occupancy), start, GoalRequest(*goal), NavMode.ASTAR)


def _cost(route: Route, snapshot: MapSnapshot) -> float:
    """Return what a route costs on a map: shortcuts of equally cheap plans may differ in length."""
    cells = snapshot.geometry.cells_from_world(route.poses[:, :2])
    costs = snapshot.costmap[cells[:, 0], cells[:, 1]].astype(float)
    steps = np.hypot(*np.diff(route.poses[:, :2], axis=0).T)
    return float((steps * (1.0 + 3.0 * (costs[1:] + costs[:-1]) / 504.0)).sum())


def test_replans_while_obstacles_come_and_go_are_what_a_fresh_router_plans(router: Router) -> None:
    rng = np.random.default_rng(3)
    request = GoalRequest(5.0, 5.0)
    clear = _room()
    _box(clear, 3.0, 3.0, 0.6)
    for step in range(12):
        occupancy = clear.copy()
        if step % 3:
            _box(occupancy, *rng.uniform(1.5, 4.0, 2), 0.4)
        snapshot = _snapshot(occupancy)
        pose = Pose2D(0.8 + 0.1 * step, 0.8)
        fresh = Router(PlannerConfig(), ROBOT, _inflate).plan(
            snapshot, pose, request, NavMode.ASTAR
        )
        for route in (
            router.replan(snapshot, pose, request, NavMode.ASTAR),
            router.plan(snapshot, pose, request, NavMode.ASTAR),
        ):
            assert _cost(route, snapshot) == pytest.approx(_cost(fresh, snapshot), rel=0.05)
            assert not router.is_blocked(route, snapshot, pose)


def test_replan_follows_a_map_that_moved_under_the_same_shape(router: Router) -> None:
    request = GoalRequest(5.0, 3.0)
    occupancy = _room()
    _box(occupancy, 3.0, 3.0, 1.0)
    router.replan(_snapshot(occupancy), Pose2D(1.0, 3.0), request, NavMode.ASTAR)
    moved = dataclasses.replace(
        _snapshot(_room()), geometry=GridGeometry(RESOLUTION, (0.5, 0.5), (120, 120))
    )
    route = router.replan(moved, Pose2D(1.0, 3.0), request, NavMode.ASTAR)
    assert route.length == pytest.approx(4.0, rel=0.01)


def test_goal_that_had_to_move_is_replanned_to_the_same_place(router: Router) -> None:
    occupancy = _room()
    _box(occupancy, 4.0, 3.0, 0.4)
    snapshot = _snapshot(occupancy)
    request = GoalRequest(4.0, 3.0)
    first = router.replan(snapshot, Pose2D(1.0, 3.0), request, NavMode.ASTAR)
    second = router.replan(snapshot, Pose2D(1.2, 3.0), request, NavMode.ASTAR)
    assert second.goal == first.goal


def test_plan_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    occupancy = np.full((900, 900), FREE, np.int8)
    occupancy[450, :-40] = OCCUPIED
    snapshot = _snapshot(occupancy)
    router = Router(PlannerConfig(timeout_s=0.1), ROBOT, _inflate)
    router.warm_up()
    clock = iter(np.arange(0.0, 1e4, 0.06))
    monkeypatch.setattr("rhino_actors.planning.route.time.perf_counter", lambda: float(next(clock)))
    for plan in (router.plan, router.replan):
        with pytest.raises(PlanTimedOut):
            plan(snapshot, Pose2D(5.0, 5.0), GoalRequest(5.0, 40.0), NavMode.ASTAR)


def test_goal_outside_the_map_is_driven_to_through_unknown_floor(router: Router) -> None:
    occupancy = _room()
    occupancy[:, -1] = FREE
    snapshot = _snapshot(occupancy)
    request = GoalRequest(14.0, 3.0)
    route = router.plan(snapshot, Pose2D(1.0, 1.0), request, NavMode.ASTAR)
    assert route.through_unknown
    assert route.poses[-1, :2] == pytest.approx([14.0, 3.0])
    assert not router.is_blocked(route, snapshot, Pose2D(1.0, 1.0))
    assert not router.is_better(route, route, snapshot, Pose2D(1.0, 1.0))
    with pytest.raises(GoalOutsideMap):
        refused = GoalRequest(14.0, 3.0, allow_unknown=False)
        router.plan(snapshot, Pose2D(1.0, 1.0), refused, NavMode.ASTAR)


@pytest.mark.parametrize("point", [(-7.0, 3.0), (3.0, -1.0), (9.0, 20.0), (3.0, 3.0)])
def test_a_map_that_is_extended_keeps_its_cells_in_place(point: tuple[float, float]) -> None:
    occupancy = _room()
    _box(occupancy, 2.0, 4.0, 0.4)
    snapshot = _snapshot(occupancy)
    wide = covering(snapshot, np.array([point]))
    assert wide.geometry.contains(*wide.geometry.cell_from_world(*point))
    rows, cols = np.nonzero(wide.occupancy == OCCUPIED)
    seen = wide.geometry.world_from_cells(np.stack([rows, cols], axis=1))
    rows, cols = np.nonzero(occupancy == OCCUPIED)
    meant = snapshot.geometry.world_from_cells(np.stack([rows, cols], axis=1))
    np.testing.assert_allclose(seen, meant, atol=1e-9)
    assert np.count_nonzero(wide.occupancy != UNKNOWN) == occupancy.size
    inside = point == (3.0, 3.0)
    assert (wide is snapshot) == inside


def test_a_route_is_left_only_for_one_that_is_clearly_better_or_when_it_is_blocked(
    router: Router,
) -> None:
    here = Pose2D(1.0, 3.0)
    goal = GoalRequest(5.0, 3.0)
    occupancy = _room()
    _box(occupancy, 3.0, 3.0, 2.5)
    around = router.plan(_snapshot(occupancy), here, goal, NavMode.ASTAR)
    free = _snapshot(_room())
    straight = router.plan(free, here, goal, NavMode.ASTAR)
    assert router.is_better(straight, around, free, here)
    assert not router.is_better(around, straight, free, here)
    bowed = dataclasses.replace(straight, poses=straight.poses.copy())
    bowed.poses[:, 1] += 0.1 * np.sin(np.linspace(0.0, math.pi, len(bowed.poses)))
    assert not router.is_better(straight, bowed, free, here), "not for a few centimetres"
    assert router.is_better(around, straight, _snapshot(occupancy), here)


def test_driven_path_never_cuts_a_corner(router: Router) -> None:
    rng = np.random.default_rng(3)
    for _ in range(12):
        occupancy = _room()
        for _ in range(6):
            _box(occupancy, *rng.uniform(1.2, 5.0, 2), float(rng.uniform(0.1, 0.9)))
        occupancy[10:30, 10:30] = FREE
        snapshot = _snapshot(occupancy)
        try:
            route = router.plan(snapshot, Pose2D(1.0, 1.0), GoalRequest(5.3, 5.3), NavMode.ASTAR)
        except (NoPath, GoalOccupied):
            continue
        rows, cols = np.nonzero(occupancy == OCCUPIED)
        cells = np.stack([(cols + 0.5) * RESOLUTION, (rows + 0.5) * RESOLUTION], axis=1)
        gaps = np.hypot(*(route.poses[1:, None, :2] - cells).transpose(2, 0, 1)).min(axis=1)
        half_cell = RESOLUTION / math.sqrt(2.0)
        assert gaps.min() >= ROBOT.inscribed_radius - half_cell
