"""ExplorerActor as a plain class: whose mission it is, how it yields, how it ends."""

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from rhino_actors.actors.explorer import ExplorerActor
from rhino_actors.config import ExplorerConfig, RhinoConfig
from rhino_actors.errors import (
    ActorUnavailable,
    ControlHeld,
    MissionRunning,
    NoGoal,
    NoMap,
    NoMission,
    NoPath,
    NotLocalised,
    SupersededRequest,
)
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, MapSnapshot
from rhino_actors.messages.missions import MissionState, MissionStatus
from rhino_actors.messages.navigation import GoalRequest, NavState, NavStatus, Rank
from rhino_actors.messages.platform import GateStatus
from tests.fakes import FakeHandle
from tests.unit.actors.robot_side import ScriptedMapper, ScriptedPlatform

CONFIG = RhinoConfig(
    explorer=ExplorerConfig(seen_out_check_hz=20.0, settle_time_s=0.1, retry_wait_s=0.1)
)


@dataclass
class ScriptedPlanner:
    """Takes goals; the test says how they end."""

    nav: NavStatus = field(default_factory=NavStatus)
    goals: list[GoalRequest] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    error: Exception | None = None

    async def navigate(self, request: GoalRequest) -> NavStatus:
        if self.error:
            raise self.error
        self.goals.append(request)
        goal_id = self.nav.goal_id + 1
        self.nav = NavStatus(state=NavState.FOLLOWING, goal_id=goal_id, client=request.client)
        return self.nav

    async def status(self, newer_than: int = 0, wait: float = 0.0) -> NavStatus:
        return self.nav

    async def cancel(self, client: str, goal_id: int | None = None) -> NavStatus:
        if goal_id != self.nav.goal_id or not self.nav.state.is_active:
            raise NoGoal()
        self.cancelled.append(client)
        self.end(NavState.CANCELLED, "CANCELLED")
        return self.nav

    def end(self, state: NavState, reason: str = "") -> None:
        self.nav = replace(self.nav, state=state, reason=reason, message=f"It was {reason}.")


class Platform(ScriptedPlatform):
    """A platform with a gate that the test fills in."""

    gate_holder = ""

    async def status(self):  # type: ignore[no-untyped-def]
        gate = GateStatus(
            1, self.gate_holder, "", False, "", None, "STOPPED", Twist2D(), 1.0, 1.0, 1.0
        )
        return type("Status", (), {"gate": gate})()


class Scene:
    """An explorer in a room with an open door to the east."""

    def __init__(self, config: RhinoConfig = CONFIG) -> None:
        self.platform = Platform(Pose2D(1.0, 1.0))
        self.mapper = ScriptedMapper(config)
        self.planner = ScriptedPlanner()
        self.explorer = ExplorerActor(
            config,
            platform=FakeHandle(self.platform),
            mapper=FakeHandle(self.mapper),
            planner=FakeHandle(self.planner),
            was_restarted=False,
        )

    def show(self, *, door: bool) -> None:
        occupancy = np.full((80, 80), UNKNOWN, np.int8)
        occupancy[5:75, 5:75] = OCCUPIED
        occupancy[6:74, 6:74] = FREE
        if door:
            occupancy[30:50, 74:80] = FREE
        self.mapper.show(occupancy)

    async def until(self, state: MissionState) -> MissionStatus:
        status = await self.explorer.status()
        async with asyncio.timeout(10.0):
            while status.state is not state:
                status = await self.explorer.status(status.seq, 1.0)
        return status

    async def until_goals(self, count: int) -> None:
        async with asyncio.timeout(90.0):
            while len(self.planner.goals) < count:
                await asyncio.sleep(0.01)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    running = asyncio.create_task(scene.explorer.run())
    yield scene
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_it_sends_the_robot_to_the_frontier_as_a_mission(scene: Scene) -> None:
    scene.show(door=True)
    started = await scene.explorer.start("anna")
    assert started.state is MissionState.RUNNING and started.client == "anna"
    await scene.until_goals(1)
    goal = scene.planner.goals[0]
    assert (goal.client, goal.rank, goal.epoch) == ("explorer", Rank.MISSION, scene.platform.epoch)
    assert goal.x > 3.0


async def test_the_next_target_is_chosen_when_the_goal_is_over_not_when_the_next_look_is_due() -> (
    None
):
    scene = Scene(RhinoConfig(explorer=ExplorerConfig(seen_out_check_hz=0.1)))
    running = asyncio.create_task(scene.explorer.run())
    try:
        scene.show(door=True)
        await scene.explorer.start("anna")
        await scene.until_goals(1)
        scene.planner.end(NavState.ARRIVED)
        async with asyncio.timeout(5.0):
            await scene.until_goals(2)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_it_is_complete_when_nothing_is_left_and_lets_go_of_the_robot(scene: Scene) -> None:
    scene.show(door=True)
    await scene.explorer.start("anna")
    await scene.until_goals(1)
    scene.planner.end(NavState.ARRIVED)
    scene.show(door=False)
    done = await scene.until(MissionState.COMPLETE)
    assert (done.reason, done.goals_reached) == ("NOTHING_LEFT", 1)
    await asyncio.sleep(0.05)
    assert "explorer" in scene.platform.released


async def test_targets_that_fail_are_given_up_and_the_mission_ends_blocked(scene: Scene) -> None:
    scene.show(door=True)
    scene.planner.error = NoPath()
    await scene.explorer.start("anna")
    done = await scene.until(MissionState.BLOCKED)
    assert done.goals_failed >= CONFIG.explorer.max_attempts and done.skipped


@pytest.mark.parametrize("reason", ["PREEMPTED", "SUPERSEDED"])
async def test_it_yields_to_a_person_and_goes_on_only_when_asked(scene: Scene, reason: str) -> None:
    scene.show(door=True)
    await scene.explorer.start("anna")
    await scene.until_goals(1)
    scene.planner.end(NavState.CANCELLED, reason)
    await scene.until(MissionState.PAUSED)
    await asyncio.sleep(0.3)
    assert len(scene.planner.goals) == 1, "it does not drag the robot back"
    scene.platform.epoch += 5
    await scene.explorer.resume("anna")
    await scene.until_goals(2)
    assert scene.planner.goals[1].epoch == scene.platform.epoch


async def test_a_stop_ends_the_mission(scene: Scene) -> None:
    scene.show(door=True)
    await scene.explorer.start("anna")
    await scene.until_goals(1)
    scene.planner.end(NavState.CANCELLED, "STOPPED")
    done = await scene.until(MissionState.CANCELLED)
    assert done.reason == "STOPPED"


async def test_a_goal_refused_as_superseded_pauses_or_ends_by_who_holds_the_robot(
    scene: Scene,
) -> None:
    scene.show(door=True)
    scene.planner.error = SupersededRequest()
    await scene.explorer.start("anna")
    await scene.until(MissionState.CANCELLED)
    scene.platform.gate_holder = "bert"
    await scene.explorer.start("anna")
    paused = await scene.until(MissionState.PAUSED)
    assert "bert" in paused.message


async def test_ending_it_cancels_its_goal(scene: Scene) -> None:
    scene.show(door=True)
    await scene.explorer.start("anna")
    await scene.until_goals(1)
    async with asyncio.timeout(5.0):
        while (await scene.explorer.status()).goal is None:
            await asyncio.sleep(0.01)
    ended = await scene.explorer.stop("bert")
    assert ended.state is MissionState.CANCELLED and "bert" in ended.message
    assert scene.planner.cancelled == ["explorer"]


async def test_only_one_mission_runs(scene: Scene) -> None:
    scene.show(door=True)
    answers = await asyncio.gather(
        *(scene.explorer.start(name) for name in ("anna", "bert", "cleo")), return_exceptions=True
    )
    assert sum(isinstance(a, MissionStatus) for a in answers) == 1
    assert sum(isinstance(a, MissionRunning) for a in answers) == 2


async def test_what_it_cannot_do_is_said(scene: Scene) -> None:
    with pytest.raises(NoMap):
        await scene.explorer.start("anna")
    with pytest.raises(NoMission):
        await scene.explorer.stop("anna")
    with pytest.raises(NoMission):
        await scene.explorer.resume("anna")
    scene.show(door=True)
    scene.platform.claim_error = ControlHeld("bert drives.", "", "bert")
    with pytest.raises(ControlHeld):
        await scene.explorer.start("anna")
    assert (await scene.explorer.status()).state is MissionState.IDLE


async def test_a_planner_that_restarts_is_waited_for(scene: Scene) -> None:
    scene.show(door=True)
    scene.planner.error = ActorUnavailable()
    await scene.explorer.start("anna")
    await asyncio.sleep(0.3)
    assert (await scene.explorer.status()).state is MissionState.RUNNING
    scene.planner.error = None
    await scene.until_goals(1)


async def test_a_restarted_explorer_says_that_its_mission_was_interrupted() -> None:
    scene = Scene()
    await scene.planner.navigate(GoalRequest(3.0, 3.0, client="explorer"))
    restarted = ExplorerActor(
        CONFIG,
        platform=FakeHandle(scene.platform),
        mapper=FakeHandle(scene.mapper),
        planner=FakeHandle(scene.planner),
        was_restarted=True,
    )
    assert (await restarted.status()).state is MissionState.INTERRUPTED
    running = asyncio.create_task(restarted.run())
    async with asyncio.timeout(30.0):
        while not scene.platform.released:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert scene.planner.cancelled == ["explorer"], "what its earlier life began is stopped"


async def test_a_mission_that_an_agent_starts_keeps_the_agents_rank(scene: Scene) -> None:
    scene.show(door=True)
    await scene.explorer.start("assistant", Rank.AGENT)
    await scene.until_goals(1)
    assert scene.platform.claims[-1] == ("explorer", Rank.AGENT)
    assert scene.planner.goals[0].rank is Rank.AGENT


async def test_a_late_step_does_not_revive_or_end_another_mission(scene: Scene) -> None:
    scene.show(door=True)
    await scene.explorer.start("anna")
    await scene.until_goals(1)
    await scene.explorer.stop("anna")
    scene.planner.end(NavState.CANCELLED, "PREEMPTED")
    await asyncio.sleep(0.2)
    assert (await scene.explorer.status()).state is MissionState.CANCELLED
    await scene.explorer.start("bert")
    await asyncio.sleep(0.2)
    assert (await scene.explorer.status()).state is MissionState.RUNNING


async def test_the_robots_place_among_the_frontiers_is_the_one_in_the_map(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Pose2D] = []
    costs_from = scene.explorer._router.costs_from

    def noted(snapshot: MapSnapshot, pose: Pose2D):  # type: ignore[no-untyped-def]
        asked.append(pose)
        return costs_from(snapshot, pose)

    monkeypatch.setattr(scene.explorer._router, "costs_from", noted)
    scene.mapper.correction = Pose2D(1.0, 3.0, math.pi / 2)
    scene.platform.pose = Pose2D(-2.0, -1.0, 0.0)  # at (2, 1) in the map
    scene.show(door=True)
    await scene.explorer.start("anna")
    await scene.until_goals(1)
    assert asked[0].as_tuple() == pytest.approx((2.0, 1.0, math.pi / 2))
    assert scene.planner.goals[0].x > 3.0, "the goal is in the map too"


async def test_no_mission_begins_or_resumes_while_the_place_is_not_known(scene: Scene) -> None:
    scene.mapper.localised = False
    scene.show(door=True)
    with pytest.raises(NotLocalised):
        await scene.explorer.start("anna")
    assert scene.platform.claims == []
    scene.mapper.localised = True
    scene.show(door=True)
    await scene.explorer.start("anna")
    await scene.until_goals(1)
    scene.planner.nav = replace(scene.planner.nav, goal_id=7, client="ben")
    await scene.until(MissionState.PAUSED)
    scene.mapper.localised = False
    scene.show(door=True)
    with pytest.raises(NotLocalised):
        await scene.explorer.resume("anna")
    assert (await scene.explorer.status()).state is MissionState.PAUSED


async def test_a_mission_waits_while_the_place_is_lost_and_blames_no_target(scene: Scene) -> None:
    scene.show(door=True)
    await scene.explorer.start("anna")
    await scene.until_goals(1)
    scene.mapper.localised = False
    scene.show(door=True)
    status = await scene.explorer.status()
    async with asyncio.timeout(10.0):
        while status.reason != "NOT_LOCALISED":
            status = await scene.explorer.status(status.seq, 1.0)
    assert status.state is MissionState.RUNNING
    scene.planner.end(NavState.FAILED, "NOT_LOCALISED")
    await asyncio.sleep(0.3)
    assert len(scene.planner.goals) == 1
    scene.mapper.localised = True
    scene.show(door=True)
    await scene.until_goals(2)
    status = await scene.explorer.status()
    assert (status.goals_failed, status.reason) == (0, "")
