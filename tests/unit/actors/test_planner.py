"""PlannerActor as a plain class: acceptance, races, ends."""

import asyncio
import math
from collections.abc import AsyncIterator

import numpy as np
import pytest

from rhino_actors.actors.planner import PlannerActor
from rhino_actors.config import PlannerConfig, RhinoConfig
from rhino_actors.errors import (
    ActorUnavailable,
    EStopLatched,
    GoalOutsideMap,
    InvalidRequest,
    NoGoal,
    NoMap,
    NotLocalised,
    SupersededRequest,
)
from rhino_actors.geometry import compose, inverse, transform_poses
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, MapSnapshot
from rhino_actors.messages.navigation import FollowState, GoalRequest, NavState, NavStatus, Rank
from rhino_actors.planning.route import Route
from tests.fakes import FakeHandle
from tests.unit.actors.robot_side import ScriptedMapper, ScriptedPlatform

CONFIG = RhinoConfig(planner=PlannerConfig(tick_hz=50.0, replan_period_s=0.1))


class Scene:
    """A planner in a free room of 6 x 6 m, the robot at (1, 1)."""

    def __init__(self, config: RhinoConfig = CONFIG) -> None:
        self.platform = ScriptedPlatform(Pose2D(1.0, 1.0))
        self.mapper = ScriptedMapper(config)
        self.planner = PlannerActor(
            config, platform=FakeHandle(self.platform), mapper=FakeHandle(self.mapper)
        )

    def show_room(self, box: bool = False, correction: Pose2D | None = None) -> None:
        if correction is not None:
            self.mapper.correction = correction
        occupancy = np.full((120, 120), FREE, np.int8)
        occupancy[[0, -1], :] = OCCUPIED
        if box:
            occupancy[40:60, 40:60] = OCCUPIED
        self.mapper.show(occupancy)

    async def until(self, state: NavState) -> NavStatus:
        """Wait for a state."""
        status = await self.planner.status()
        async with asyncio.timeout(5.0):
            while status.state is not state:
                status = await self.planner.status(status.seq, 1.0)
        return status


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    running = asyncio.create_task(scene.planner.run())
    scene.show_room()
    async with asyncio.timeout(60.0):  # the kernels may have to be compiled
        while scene.planner._map is None:
            await asyncio.sleep(0.01)
    yield scene
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_goal_is_followed_and_arrives(scene: Scene) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0, client="anna"))
    assert accepted.state is NavState.FOLLOWING
    assert accepted.adjusted == Pose2D(4.0, 4.0)
    path = scene.platform.paths[-1]
    assert (path.goal_id, path.epoch, path.client) == (
        accepted.goal_id,
        scene.platform.epoch,
        "anna",
    )
    scene.platform.drive()
    arrived = await scene.until(NavState.ARRIVED)
    assert arrived.goal_id == accepted.goal_id and arrived.path is None
    assert scene.platform.released[-1] == "anna"


@pytest.mark.parametrize("goal", [(math.nan, 0.0), (0.0, math.inf), (1e9, 0.0), (0.0, -1e9)])
async def test_absurd_goal_is_refused_and_the_goal_in_force_goes_on(
    scene: Scene, goal: tuple[float, float]
) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    with pytest.raises(InvalidRequest):
        await scene.planner.navigate(GoalRequest(*goal))
    assert (await scene.planner.status()).goal_id == accepted.goal_id
    assert not scene.platform.cancelled


async def test_goal_before_the_first_map_says_so() -> None:
    scene = Scene()
    with pytest.raises(NoMap):
        await scene.planner.navigate(GoalRequest(1.0, 1.0))
    status = await scene.planner.status()
    assert (status.state, status.reason) == (NavState.FAILED, "NO_MAP")


async def test_new_goal_that_cannot_be_planned_stops_the_old_one(scene: Scene) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    with pytest.raises(GoalOutsideMap):
        await scene.planner.navigate(GoalRequest(300.0, 4.0))
    assert scene.platform.cancelled == [accepted.goal_id]
    assert (await scene.planner.status()).reason == "GOAL_OUTSIDE_MAP"


async def test_new_goal_replaces_the_old_one_without_a_stop_and_ids_grow(scene: Scene) -> None:
    first = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    second = await scene.planner.navigate(GoalRequest(4.0, 1.0))
    assert second.goal_id > first.goal_id
    assert not scene.platform.cancelled
    assert scene.platform.paths[-1].goal_id == second.goal_id


async def test_after_cancel_and_new_goal_in_any_order_only_the_last_is_followed(
    scene: Scene,
) -> None:
    for _ in range(30):
        old = asyncio.create_task(scene.planner.navigate(GoalRequest(4.0, 4.0)))
        await asyncio.sleep(0.001)
        cancel = asyncio.create_task(scene.planner.cancel("anna"))
        await asyncio.gather(cancel, return_exceptions=True)
        new = await scene.planner.navigate(GoalRequest(1.0, 4.0))
        await asyncio.gather(old, return_exceptions=True)
        assert scene.platform.paths[-1].goal_id == new.goal_id
        assert (await scene.planner.status()).goal_id == new.goal_id


async def test_cancel_without_a_goal_says_so(scene: Scene) -> None:
    with pytest.raises(NoGoal):
        await scene.planner.cancel("anna")


async def test_stop_at_the_gate_cancels_the_goal_for_good(scene: Scene) -> None:
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    scene.platform.epoch += 1
    scene.platform.report(FollowState.ENDED, "STOPPED")
    status = await scene.until(NavState.CANCELLED)
    assert status.reason == "STOPPED"
    sent = len(scene.platform.paths)
    await asyncio.sleep(0.3)
    assert len(scene.platform.paths) == sent


async def test_cancel_just_after_a_stop_says_that_it_was_stopped(scene: Scene) -> None:
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    scene.platform.report(FollowState.ENDED, "STOPPED")
    assert (await scene.planner.cancel("anna")).reason == "STOPPED"


async def test_goal_asked_for_before_a_stop_does_not_move_the_robot_after_it(scene: Scene) -> None:
    scene.platform.stops = 4
    with pytest.raises(SupersededRequest):
        await scene.planner.navigate(GoalRequest(4.0, 4.0, stops=3))
    assert not scene.platform.paths
    await scene.planner.navigate(GoalRequest(4.0, 4.0, stops=4))


async def test_mission_of_an_older_epoch_does_not_touch_the_goal_in_force(scene: Scene) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0, client="anna"))
    for _ in range(3):
        with pytest.raises(SupersededRequest):
            await scene.planner.navigate(
                GoalRequest(1.0, 4.0, client="explorer", rank=Rank.MISSION, epoch=9)
            )
    status = await scene.planner.status()
    assert (status.state, status.goal_id) == (NavState.FOLLOWING, accepted.goal_id)
    assert not scene.platform.cancelled and not scene.platform.released


async def test_goal_that_the_robot_side_does_not_take_is_not_in_force(scene: Scene) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    scene.platform.follow_error = ActorUnavailable()
    with pytest.raises(ActorUnavailable):
        await scene.planner.navigate(GoalRequest(1.0, 4.0))
    assert (await scene.planner.status()).goal_id == accepted.goal_id


async def test_ids_go_on_growing_in_a_restarted_planner(scene: Scene) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    scene.platform.newest = accepted.goal_id + 50
    restarted = Scene()
    restarted.planner = PlannerActor(
        CONFIG, platform=FakeHandle(scene.platform), mapper=FakeHandle(scene.mapper)
    )
    running = asyncio.create_task(restarted.planner.run())
    async with asyncio.timeout(30.0):
        while restarted.planner._map is None:
            await asyncio.sleep(0.01)
    again = await restarted.planner.navigate(GoalRequest(1.0, 4.0))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert again.goal_id > accepted.goal_id + 50


async def test_of_several_goals_in_the_queue_the_newest_is_driven_to(scene: Scene) -> None:
    answers = await asyncio.gather(
        *(scene.planner.navigate(GoalRequest(4.0, 1.0 + k)) for k in range(4)),
        return_exceptions=True,
    )
    assert isinstance(answers[-1], NavStatus)
    assert (await scene.planner.status()).requested == Pose2D(4.0, 4.0)
    assert any(isinstance(answer, SupersededRequest) for answer in answers[:-1])


async def test_cancel_of_another_goal_changes_nothing(scene: Scene) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    with pytest.raises(NoGoal):
        await scene.planner.cancel("anna", accepted.goal_id - 1)
    assert (await scene.planner.status()).state is NavState.FOLLOWING
    await scene.planner.cancel("anna", accepted.goal_id)
    assert (await scene.planner.status()).state is NavState.CANCELLED


async def test_goal_waits_while_the_mapper_is_gone_and_its_lease_is_not_renewed(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rhino_actors.actors.planner.MAP_SILENCE_S", 0.2)
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    scene.mapper.is_gone = True
    paused = await scene.until(NavState.PAUSED)
    assert paused.reason == "NO_MAP"
    asked = scene.platform.asked
    await asyncio.sleep(0.3)
    assert scene.platform.asked == asked
    scene.mapper.is_gone = False
    await scene.until(NavState.FOLLOWING)


async def test_refused_claim_reaches_the_client_and_changes_nothing(scene: Scene) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    scene.platform.claim_error = EStopLatched()
    with pytest.raises(EStopLatched):
        await scene.planner.navigate(GoalRequest(1.0, 4.0))
    assert (await scene.planner.status()).goal_id == accepted.goal_id


async def test_mission_keeps_its_lease_from_goal_to_goal(scene: Scene) -> None:
    request = GoalRequest(
        4.0, 4.0, client="explorer", rank=Rank.MISSION, epoch=scene.platform.epoch
    )
    await scene.planner.navigate(request)
    assert not scene.platform.claims
    scene.platform.drive()
    await scene.until(NavState.ARRIVED)
    assert not scene.platform.released


async def test_blocked_path_is_replanned_around_the_obstacle(scene: Scene) -> None:
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    before = scene.platform.paths[-1].poses
    scene.show_room(box=True)
    async with asyncio.timeout(5.0):
        while np.array_equal(scene.platform.paths[-1].poses, before):
            await asyncio.sleep(0.02)
    poses = scene.platform.paths[-1].poses
    inside = (poses[:, :2] > 1.75).all(axis=1) & (poses[:, :2] < 3.25).all(axis=1)
    assert not inside.any()


async def test_each_look_at_the_progress_keeps_the_status_fresh(scene: Scene) -> None:
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    status = await scene.planner.status()
    newer = await scene.planner.status(status.seq, 2.0)
    assert newer.seq > status.seq and newer.distance_remaining == 1.0


CORRECTION = Pose2D(2.0, -1.0, 0.7)  # map_from_odom


def odom_from_map(x: float, y: float, yaw: float = 0.0) -> Pose2D:
    return Pose2D(*compose(inverse(CORRECTION.as_tuple()), (x, y, yaw)))


async def corrected(scene: Scene, correction: Pose2D = CORRECTION) -> None:
    """Have the map lie elsewhere than odom, and wait until the planner knows."""
    scene.show_room(correction=correction)
    async with asyncio.timeout(5.0):
        while scene.planner._map is None or scene.planner._map.map_from_odom != correction:
            await asyncio.sleep(0.01)


async def test_goals_are_in_the_map_and_paths_in_odom(scene: Scene) -> None:
    scene.platform.pose = odom_from_map(1.0, 1.0, 0.3)
    await corrected(scene)
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0, yaw=1.0))
    assert accepted.adjusted == Pose2D(4.0, 4.0, 1.0)
    assert accepted.path is not None
    assert accepted.path[[0, -1]].ravel() == pytest.approx([1.0, 1.0, 4.0, 4.0])
    path = scene.platform.paths[-1]
    end = odom_from_map(4.0, 4.0, 1.0)
    assert path.poses[-1, :2] == pytest.approx([end.x, end.y])
    assert path.final_yaw == pytest.approx(end.yaw)
    here = scene.platform.pose
    assert path.poses[0, :2] == pytest.approx([here.x, here.y])
    again = transform_poses(CORRECTION.as_tuple(), path.poses)
    steps = np.diff(again[:, :2], axis=0)
    assert again[:-1, 2] == pytest.approx(np.arctan2(steps[:, 1], steps[:, 0]))


async def test_an_obstacle_on_the_path_in_the_map_is_noticed_from_the_place_in_odom(
    scene: Scene,
) -> None:
    scene.platform.pose = odom_from_map(1.0, 1.0)
    await corrected(scene)
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    scene.show_room(box=True)
    status = await scene.planner.status()
    async with asyncio.timeout(5.0):
        while status.path_reason != "BLOCKED":
            status = await scene.planner.status(status.seq, 1.0)
    assert status.path is not None and status.paths == 2
    inside = (status.path > 1.75).all(axis=1) & (status.path < 3.25).all(axis=1)
    assert not inside.any()


async def test_progress_is_looked_at_from_the_place_in_the_map(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.platform.pose = odom_from_map(1.0, 1.0, 0.3)
    await corrected(scene)
    asked: list[Pose2D | None] = []
    router = scene.planner._router

    def is_blocked(route: Route, snapshot: MapSnapshot, pose: Pose2D | None) -> bool:
        asked.append(pose)
        return False

    monkeypatch.setattr(router, "is_blocked", is_blocked)
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    async with asyncio.timeout(5.0):
        while not asked:
            await asyncio.sleep(0.01)
    assert asked[0] is not None
    assert asked[0].as_tuple() == pytest.approx((1.0, 1.0, 0.3))


async def test_a_correction_under_way_moves_the_path_that_the_robot_has(scene: Scene) -> None:
    scene.platform.pose = odom_from_map(1.0, 1.0)
    await corrected(scene)
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    better = Pose2D(2.0, -0.8, 0.7)
    await corrected(scene, better)
    end = compose(inverse(better.as_tuple()), (4.0, 4.0, 0.0))
    async with asyncio.timeout(5.0):
        while scene.platform.paths[-1].poses[-1, :2] != pytest.approx(end[:2]):
            await asyncio.sleep(0.02)


async def test_a_path_that_is_as_good_is_not_sent_again(scene: Scene) -> None:
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    status = await scene.planner.status()
    async with asyncio.timeout(5.0):
        while status.plans < 5:
            status = await scene.planner.status(status.seq, 1.0)
    assert (status.paths, status.path_reason) == (1, "NEW_GOAL")
    assert len(scene.platform.paths) == 1


@pytest.mark.slow
async def test_a_robot_that_gets_nowhere_recovers_and_then_says_why(scene: Scene) -> None:
    config = RhinoConfig(
        planner=PlannerConfig(
            tick_hz=50.0, replan_period_s=0.1, progress_time_s=1.0, max_recoveries=1
        )
    )
    stuck = Scene()
    stuck.planner = PlannerActor(
        config, platform=FakeHandle(stuck.platform), mapper=FakeHandle(stuck.mapper)
    )
    running = asyncio.create_task(stuck.planner.run())
    stuck.show_room()
    async with asyncio.timeout(30.0):
        while stuck.planner._map is None:
            await asyncio.sleep(0.01)
    await stuck.planner.navigate(GoalRequest(4.0, 4.0))
    status = await stuck.until(NavState.FAILED)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert status.reason == "FAILED_TO_MAKE_PROGRESS" and status.attempts == 1
    assert len(stuck.platform.nudges) == 1


async def lose_place(scene: Scene) -> None:
    scene.mapper.localised = False
    scene.show_room()
    async with asyncio.timeout(5.0):
        while scene.planner._map is None or scene.planner._map.localised:
            await asyncio.sleep(0.01)


def find_place(scene: Scene, correction: Pose2D) -> None:
    scene.mapper.localised = True
    scene.show_room(correction=correction)


async def test_a_goal_is_refused_while_the_robot_does_not_know_its_place(scene: Scene) -> None:
    await lose_place(scene)
    with pytest.raises(NotLocalised):
        await scene.planner.navigate(GoalRequest(4.0, 4.0))
    assert scene.platform.paths == []
    status = await scene.planner.status()
    assert (status.state, status.reason) == (NavState.FAILED, "NOT_LOCALISED")


async def test_a_goal_pauses_when_the_place_is_lost_and_is_planned_anew_where_it_is_found(
    scene: Scene,
) -> None:
    accepted = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    await lose_place(scene)
    paused = await scene.until(NavState.PAUSED)
    assert (paused.reason, paused.goal_id) == ("NOT_LOCALISED", accepted.goal_id)
    assert "does not know its place" in paused.message
    asked = scene.platform.asked
    await asyncio.sleep(0.8 * CONFIG.planner.path_lease_s)
    assert scene.platform.asked == asked, "each look would keep the path alive, and the robot going"
    scene.platform.report(FollowState.ENDED, "LEASE_EXPIRED")  # as the robot side ends it
    scene.platform.pose = odom_from_map(2.0, 2.0)
    find_place(scene, CORRECTION)
    await scene.until(NavState.FOLLOWING)
    end = odom_from_map(4.0, 4.0)
    async with asyncio.timeout(5.0):
        while scene.platform.paths[-1].poses[-1, :2] != pytest.approx([end.x, end.y]):
            await asyncio.sleep(0.02)
    assert scene.platform.paths[-1].goal_id == accepted.goal_id


async def test_a_goal_whose_place_stays_lost_fails_in_time() -> None:
    scene = Scene(RhinoConfig(planner=PlannerConfig(tick_hz=50.0, wait_timeout_s=1.0)))
    running = asyncio.create_task(scene.planner.run())
    scene.show_room()
    async with asyncio.timeout(30.0):
        while scene.planner._map is None:
            await asyncio.sleep(0.01)
    goal = await scene.planner.navigate(GoalRequest(4.0, 4.0))
    await lose_place(scene)
    failed = await scene.until(NavState.FAILED)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert failed.reason == "NOT_LOCALISED" and failed.path is None
    assert scene.platform.cancelled == [goal.goal_id]


async def test_a_goal_that_waits_for_the_place_ends_when_somebody_takes_the_robot(
    scene: Scene,
) -> None:
    await scene.planner.navigate(GoalRequest(4.0, 4.0))
    await lose_place(scene)
    await scene.until(NavState.PAUSED)
    scene.platform.report(FollowState.ENDED, "PREEMPTED")
    ended = await scene.until(NavState.CANCELLED)
    assert ended.reason == "PREEMPTED"
