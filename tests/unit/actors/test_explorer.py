"""ExplorerActor as a plain class: whose mission it is, how it yields, how it ends."""

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rhino_actors.actors import explorer as explorer_module
from rhino_actors.actors import mission_log, mission_run
from rhino_actors.actors.explorer import ExplorerActor
from rhino_actors.config import ExplorerConfig, RhinoConfig
from rhino_actors.errors import (
    ActorUnavailable,
    ControlHeld,
    InvalidRequest,
    MissionRunning,
    NoGoal,
    NoMission,
    NoPath,
    StorageError,
    SupersededRequest,
)
from rhino_actors.exploration.mission import Choice, Target
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry, MapSnapshot
from rhino_actors.messages.missions import (
    ExploreRequest,
    MissionKind,
    MissionLimits,
    MissionPhase,
    MissionRecord,
    MissionState,
    MissionStatus,
    PatrolPoint,
    PatrolProgress,
    PatrolRequest,
    PatrolRouter,
    SkippedTarget,
    Visits,
)
from rhino_actors.messages.navigation import GoalRequest, NavState, NavStatus, Rank
from rhino_actors.messages.platform import DriverState, GateStatus, Posture
from tests.fakes import FakeHandle
from tests.unit.actors.robot_side import ScriptedMapper, ScriptedPlatform

CONFIG = RhinoConfig(
    explorer=ExplorerConfig(seen_out_check_hz=20.0, settle_time_s=0.1, retry_wait_s=0.1)
)
SLOW = RhinoConfig(explorer=ExplorerConfig(seen_out_check_hz=0.1))  # it looks when it hears only


@dataclass
class ScriptedPlanner:
    """Takes goals; the test says how they end."""

    acts: list[str]
    nav: NavStatus = field(default_factory=NavStatus)
    goals: list[GoalRequest] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    error: Exception | None = None
    status_error: Exception | None = None

    async def navigate(self, request: GoalRequest) -> NavStatus:
        if self.error:
            raise self.error
        self.goals.append(request)
        self._set(
            NavStatus(state=NavState.FOLLOWING, goal_id=self.nav.goal_id + 1, client=request.client)
        )
        return self.nav

    async def status(self, newer_than: int = 0, wait: float = 0.0) -> NavStatus:
        if self.status_error:
            raise self.status_error
        end = asyncio.get_running_loop().time() + wait
        while self.nav.seq == newer_than and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.002)
        return self.nav

    async def cancel(self, client: str, goal_id: int | None = None) -> NavStatus:
        if goal_id != self.nav.goal_id or not self.nav.state.is_active:
            raise NoGoal()
        self.acts.append("cancel")
        self.cancelled.append(client)
        self.end(NavState.CANCELLED, "CANCELLED")
        return self.nav

    def end(self, state: NavState, reason: str = "") -> None:
        self._set(replace(self.nav, state=state, reason=reason, message=f"It was {reason}."))

    def forget(self) -> None:
        """Be another life of the planner."""
        self.nav = NavStatus()

    def _set(self, nav: NavStatus) -> None:
        self.nav = replace(nav, seq=self.nav.seq + 1)


class Platform(ScriptedPlatform):
    """A platform with a gate that the test fills in."""

    gate_holder = ""
    reason = ""
    latched = False
    posture = Posture.STANDING
    battery = 87.0
    gone = False

    def __init__(self, pose: Pose2D, acts: list[str]) -> None:
        super().__init__(pose)
        self.acts = acts
        self.newest = 10**9  # every goal was accepted

    async def status(self):  # type: ignore[no-untyped-def]
        if self.gone:
            raise ActorUnavailable()
        gate = GateStatus(
            self.epoch,
            self.gate_holder,
            "",
            self.latched,
            "",
            None,
            self.reason,
            Twist2D(),
            1.0,
            1.0,
            1.0,
        )
        state = DriverState(True, self.posture, self.battery)
        odometry = await self.odometry()
        return SimpleNamespace(gate=gate, driver_state=state, odometry=odometry)

    async def release(self, client: str, epoch: int | None = None) -> None:
        self.acts.append("release")
        await super().release(client, epoch)

    def take(self, holder: str) -> None:
        """Have somebody drive."""
        self.epoch += 1
        self.gate_holder = holder

    def stop(self) -> None:
        self.epoch += 1
        self.stops += 1


class Store:
    """The mission log."""

    def __init__(self) -> None:
        self.records: dict[str, MissionRecord] = {}
        self.history: list[MissionRecord] = []
        self.pictures: dict[str, bytes] = {}
        self.interrupted: list[str] = []
        self.error: Exception | None = None

    async def save_mission(self, record: MissionRecord, picture: bytes | None = None) -> None:
        if self.error:
            raise self.error
        self.records[record.id] = record
        self.history.append(record)
        if picture is not None:
            self.pictures[record.id] = picture

    async def interrupt_missions(self, robot: str, reason: str, message: str) -> int:
        self.interrupted.append(robot)
        return 0

    async def map_in_force(self, robot: str, epoch: int) -> SimpleNamespace:
        return SimpleNamespace(id="map-1")


class Mapper(ScriptedMapper):
    async def stats(self) -> dict[str, float]:
        return {"frame_epoch": 1.0}


class FakeMission:
    """Proposes what the test gives it, and remembers what it was told."""

    exact_cells = sys.maxsize

    def __init__(self) -> None:
        self.goal_id = 0
        self.next: list[Choice] = []
        self.told: list[str] = []
        self.looks = 0
        self.now = Choice()

    def choose(self, snapshot, pose, cost_to_go, now) -> Choice:  # type: ignore[no-untyped-def]
        self.looks += 1
        assert cost_to_go.shape == snapshot.costmap.shape
        return self.next.pop(0) if self.next else self.now

    def sent(self, target: Target, goal_id: int) -> None:
        self.goal_id = goal_id
        self.told.append(f"sent {target.x:g}")

    def forget_goal(self) -> None:
        self.goal_id = 0
        self.told.append("forget")

    def arrived(self, now: float) -> None:
        self.goal_id = 0
        self.told.append("arrived")

    def failed(self, now: float, reason: str) -> None:
        self.goal_id = 0
        self.told.append(f"failed {reason}")

    def refused(self, target: Target, now: float, reason: str) -> None:
        self.told.append(f"refused {target.x:g} {reason}")

    def visits(self, geometry: GridGeometry, now: float) -> Visits | None:
        return Visits(geometry, np.full(geometry.shape, 7, np.uint8), 60.0)


class Scene:
    """An explorer in a room with an open door to the east."""

    def __init__(
        self,
        config: RhinoConfig = CONFIG,
        mission: FakeMission | None = None,
        was_restarted: bool = False,
    ) -> None:
        self.acts: list[str] = []
        self.platform = Platform(Pose2D(1.0, 1.0), self.acts)
        self.mapper = Mapper(config)
        self.planner = ScriptedPlanner(self.acts)
        self.store = Store()
        self.mission = mission
        made = {} if mission is None else {"make": lambda request, config: mission}
        self.explorer = ExplorerActor(
            config,
            platform=FakeHandle(self.platform),
            mapper=FakeHandle(self.mapper),
            planner=FakeHandle(self.planner),
            poi_store=FakeHandle(self.store),
            was_restarted=was_restarted,
            **made,
        )

    def show(self, *, door: bool = True) -> None:
        occupancy = np.full((80, 80), UNKNOWN, np.int8)
        occupancy[5:75, 5:75] = OCCUPIED
        occupancy[6:74, 6:74] = FREE
        if door:
            occupancy[30:50, 74:80] = FREE
        self.mapper.show(occupancy)

    async def until(self, state: MissionState) -> MissionStatus:
        return await self.until_status(lambda status: status.state is state)

    async def until_status(self, is_so: Callable[[MissionStatus], bool]) -> MissionStatus:
        status = await self.explorer.status()
        async with asyncio.timeout(20.0):
            while not is_so(status):
                status = await self.explorer.status(status.seq, 1.0)
        return status

    async def until_goals(self, count: int) -> None:
        await self.until_true(lambda: len(self.planner.goals) >= count)

    async def until_true(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(90.0):
            while not is_so():
                await asyncio.sleep(0.005)

    async def looks(self, count: int = 4) -> None:
        """Wait until the explorer has looked so many times more."""
        assert self.mission is not None
        wanted = self.mission.looks + count
        await self.until_true(lambda: self.mission.looks >= wanted)


@asynccontextmanager
async def running(scene: Scene) -> AsyncIterator[Scene]:
    task = asyncio.create_task(scene.explorer.run())
    yield scene
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def fake() -> AsyncIterator[Scene]:
    """A scene whose mission the test speaks for; the robot stands in the room."""
    scene = Scene(mission=FakeMission())
    scene.show()
    async with running(scene):
        yield scene


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with running(Scene()) as scene:
        yield scene


async def test_it_sends_the_robot_to_the_frontier_as_a_mission(scene: Scene) -> None:
    scene.show(door=True)
    started = await scene.explorer.start("anna")
    assert started.state is MissionState.RUNNING and started.client == "anna"
    await scene.until_goals(1)
    goal = scene.planner.goals[0]
    assert (goal.client, goal.rank, goal.epoch) == ("explorer", Rank.MISSION, scene.platform.epoch)
    assert goal.x > 3.0


async def test_an_area_that_cannot_be_got_into_is_refused_and_leaves_the_robot(
    scene: Scene,
) -> None:
    beyond = (
        (1.0, 4.2),
        (3.0, 4.2),
        (3.0, 6.0),
        (1.0, 6.0),
    )  # the wall is at 3.7 m, the door in the east
    scene.show(door=False)
    for start in (
        scene.explorer.start("anna", Rank.HUMAN, ExploreRequest(area=beyond)),
        scene.explorer.start_patrol("anna", Rank.HUMAN, PatrolRequest(area=beyond)),
    ):
        with pytest.raises(InvalidRequest, match="get into"):
            await start
    assert not scene.platform.claims and not scene.store.records
    assert not (await scene.explorer.status()).state.is_active
    inside = ((1.0, 1.0), (3.0, 1.0), (3.0, 6.0), (1.0, 6.0))
    started = await scene.explorer.start("anna", Rank.HUMAN, ExploreRequest(area=inside))
    assert started.state is MissionState.RUNNING


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
    with pytest.raises(NoMission):
        await scene.explorer.pause("anna")
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
    scene = Scene(was_restarted=True)
    await scene.planner.navigate(GoalRequest(3.0, 3.0, client="explorer"))
    assert (await scene.explorer.status()).state is MissionState.INTERRUPTED
    async with running(scene):
        await scene.until_true(lambda: scene.platform.released and scene.store.interrupted)
    assert scene.planner.cancelled == ["explorer"], "what its earlier life began is stopped"
    assert scene.store.interrupted == ["go2"], "what it left without an end in the log is marked"


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


# what every mission has: limits, pauses, ends


def go(x: float, y: float = 1.0, **more: Any) -> Choice:
    target = Target(x, y, message="There.", **more)
    return Choice(target=target, phase=MissionPhase.CHOOSING)


async def test_a_mission_waits_for_the_first_map_and_says_so(fake: Scene) -> None:
    scene = Scene(mission=FakeMission())
    assert scene.mission is not None
    scene.mission.next = [go(2.0)]
    async with running(scene):
        await scene.explorer.start_patrol("anna", Rank.HUMAN, PatrolRequest())
        waiting = await scene.until_status(lambda status: status.reason == "NO_MAP")
        assert (waiting.state, waiting.phase) == (MissionState.RUNNING, MissionPhase.WAITING)
        assert waiting.kind is MissionKind.PATROL and waiting.home is None
        scene.show()
        driving = await scene.until_status(lambda s: s.phase is MissionPhase.DRIVING)
        assert driving.reason == "" and driving.home == Pose2D(1.0, 1.0, 0.0)


async def test_a_mission_starts_where_the_place_is_not_known_and_waits() -> None:
    scene = Scene(mission=FakeMission())
    assert scene.mission is not None
    scene.mission.next = [go(2.0)]
    scene.mapper.localised = False
    scene.show()
    async with running(scene):
        await scene.explorer.start("anna")
        await scene.until_status(lambda status: status.reason == "NOT_LOCALISED")
        assert not scene.planner.goals
        scene.mapper.localised = True
        scene.show()
        await scene.until_goals(1)


async def test_a_map_that_never_comes_ends_the_mission() -> None:
    patience = ExplorerConfig(seen_out_check_hz=20.0, map_timeout_s=1.0)
    scene = Scene(replace(CONFIG, explorer=patience), FakeMission())
    async with running(scene):
        await scene.explorer.start("anna")
        ended = await scene.until(MissionState.INTERRUPTED)
    assert ended.reason == "NO_MAP" and scene.platform.released == ["explorer"]


@pytest.mark.parametrize("what", ["planner", "mapper", "platform"])
async def test_a_dead_part_ends_the_mission_interrupted(
    fake: Scene, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explorer_module, "UNAVAILABLE_TIMEOUT_S", 0.5)
    assert fake.mission is not None
    fake.mission.next = [go(2.0)]
    await fake.explorer.start("anna")
    await fake.until_goals(1)
    if what == "planner":
        fake.planner.status_error = ActorUnavailable()
    elif what == "mapper":
        fake.mapper.is_gone = True
    else:
        fake.platform.gone = True
    waiting = await fake.until_status(lambda s: s.phase is MissionPhase.WAITING)
    assert waiting.reason == "ACTOR_UNAVAILABLE"
    ended = await fake.until(MissionState.INTERRUPTED)
    assert ended.reason == "ACTOR_UNAVAILABLE" and ended.phase is MissionPhase.NONE


async def test_a_fault_of_the_mission_ends_it_and_the_next_one_runs(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.next = [None]  # type: ignore[list-item]
    await fake.explorer.start("anna")
    ended = await fake.until(MissionState.INTERRUPTED)
    assert ended.reason == "INTERNAL_ERROR"
    fake.mission.next = [go(2.0)]
    await fake.explorer.start("anna")
    await fake.until_goals(1)


@pytest.mark.parametrize("act", ["pause", "stop"])
async def test_the_robot_is_stopped_first_and_the_goal_dropped_then(fake: Scene, act: str) -> None:
    assert fake.mission is not None
    fake.mission.next = [go(2.0)]
    await fake.explorer.start("anna")
    await fake.until_status(lambda status: status.goal is not None)
    status = await getattr(fake.explorer, act)("bert")
    assert fake.acts == ["release", "cancel"]
    assert "bert" in status.message and status.goal is None
    assert status.state is (MissionState.PAUSED if act == "pause" else MissionState.CANCELLED)


async def test_a_pause_lasts_until_it_is_resumed_and_does_not_count(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.next = [go(2.0)]
    fake.mission.now = Choice()
    await fake.explorer.start("anna")
    await fake.until_goals(1)
    paused = await fake.explorer.pause("bert")
    assert (paused.reason, paused.phase) == ("PAUSED", MissionPhase.NONE)
    with pytest.raises(NoMission):
        await fake.explorer.pause("bert")
    with pytest.raises(MissionRunning):
        await fake.explorer.start("anna")
    await asyncio.sleep(0.3)
    assert len(fake.planner.goals) == 1 and "forget" in fake.mission.told
    fake.mission.next = [go(3.0)]
    resumed = await fake.explorer.resume("cleo")
    assert resumed.elapsed == paused.elapsed
    await fake.until_goals(2)
    assert fake.planner.goals[1].epoch == fake.platform.epoch


async def test_a_new_target_replaces_the_goal_without_a_stop(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.next = [go(2.0), Choice(), go(3.0)]
    await fake.explorer.start("anna")
    await fake.until_goals(2)
    await fake.looks()
    assert fake.mission.told == ["sent 2", "sent 3"]
    assert fake.acts == [], "neither is the goal cancelled nor the robot let go"
    assert (await fake.explorer.status()).goal == Pose2D(3.0, 1.0)


async def test_a_goal_that_is_not_worth_it_any_more_is_dropped(fake: Scene) -> None:
    assert fake.mission is not None
    waits = Choice(drop=True, phase=MissionPhase.WAITING, message="A person stands in the door.")
    fake.mission.next = [go(2.0), waits]
    await fake.explorer.start("anna")
    await fake.until_true(lambda: fake.acts == ["cancel"])
    assert "forget" in fake.mission.told
    status = await fake.explorer.status()
    assert status.state is MissionState.RUNNING and status.goal is None


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [(NavState.ARRIVED, "", "arrived"), (NavState.FAILED, "NO_VALID_PATH", "failed NO_VALID_PATH")],
)
async def test_a_goals_end_is_heard_at_once_and_the_next_one_is_driven_to(
    state: NavState, reason: str, told: str
) -> None:
    # It looks once in ten seconds: sooner only when it hears of the end.
    mission = FakeMission()
    mission.next = [go(2.0)]
    scene = Scene(SLOW, mission)
    scene.show()
    async with running(scene):
        await scene.explorer.start("anna")
        await scene.until_goals(1)
        mission.next = [go(3.0)]
        loop = asyncio.get_running_loop()
        started = loop.time()
        scene.planner.end(state, reason)
        await scene.until_goals(2)
        assert loop.time() - started < 5.0 and told in mission.told


async def test_a_refused_goal_is_followed_by_another_at_once() -> None:
    mission = FakeMission()
    mission.next = [go(2.0), go(3.0)]
    scene = Scene(SLOW, mission)
    scene.show()
    scene.planner.error = NoPath()
    async with running(scene):
        await scene.explorer.start("anna")
        async with asyncio.timeout(30.0):
            while len(mission.told) < 2:
                await asyncio.sleep(0.005)
    assert mission.told[:2] == ["refused 2 NO_VALID_PATH", "refused 3 NO_VALID_PATH"]


async def test_it_stands_at_a_point_for_its_dwell(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.next = [go(2.0, yaw=1.5, dwell=0.6, label="door")]
    await fake.explorer.start_patrol("anna", Rank.HUMAN, PatrolRequest())
    await fake.until_goals(1)
    assert fake.planner.goals[0].yaw == 1.5
    await fake.until_true(lambda: "sent 2" in fake.mission.told)
    fake.planner.end(NavState.ARRIVED)
    status = await fake.until_status(lambda s: s.phase is MissionPhase.DWELLING)
    since = asyncio.get_running_loop().time()
    assert "door" in status.message and fake.mission.told[-1] == "arrived"
    looks = fake.mission.looks
    fake.mission.next = [go(3.0)]
    await fake.until_goals(2)
    assert asyncio.get_running_loop().time() - since >= 0.5
    assert fake.mission.looks == looks + 1, "it was not asked while the robot stood"


async def test_what_the_mission_says_of_itself_is_told(fake: Scene) -> None:
    assert fake.mission is not None
    progress = PatrolProgress(PatrolRouter.COVERAGE, 0.4, 30.0, 12.0, 50.0, 1, "door")
    left = SkippedTarget(1.0, 2.0, 0, "NO_VALID_PATH", "attic")
    before = SkippedTarget(5.0, 5.0, 0, "MAP_NOT_LOADED", "cellar")
    fake.mission.now = Choice(
        message="A door is shut.",
        phase=MissionPhase.WAITING,
        skipped=(left,),
        explored_share=0.8,
        eta=40.0,
        patrol=progress,
        frontiers=np.array([[1.0, 2.0, 2.0]]),
    )
    request = PatrolRequest(PatrolRouter.POINTS, (PatrolPoint(1.0, 1.0),), skipped=(before,))
    started = await fake.explorer.start_patrol("anna", Rank.HUMAN, request)
    assert started.skipped == (before,) and started.id
    status = await fake.until_status(lambda s: s.phase is MissionPhase.WAITING)
    assert status.message == "A door is shut." and status.skipped == (before, left)
    assert (status.explored_share, status.eta, status.patrol) == (0.8, 40.0, progress)
    assert status.frontiers is not None and status.frontiers.tolist() == [[1.0, 2.0, 2.0]]


async def test_a_goal_that_the_planner_pauses_is_waited_for(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.next = [go(2.0)]
    await fake.explorer.start("anna")
    await fake.until_goals(1)
    fake.planner.end(NavState.PAUSED, "OBSTACLE")
    waiting = await fake.until_status(lambda s: s.phase is MissionPhase.WAITING)
    assert waiting.reason == "OBSTACLE" and waiting.state is MissionState.RUNNING
    fake.planner.end(NavState.FOLLOWING)
    driving = await fake.until_status(lambda s: s.phase is MissionPhase.DRIVING)
    assert (driving.reason, driving.message) == ("", "There.")


def limited(**limits: Any) -> ExploreRequest:
    return ExploreRequest(limits=MissionLimits(**limits))


async def test_the_time_that_it_may_run_ends_it(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.next = [go(2.0)]
    await fake.explorer.start("anna", request=limited(max_time=1.0))
    await fake.until_goals(1)
    ended = await fake.until(MissionState.TIME_LIMIT)
    assert ended.reason == "TIME_LIMIT" and 1.0 <= ended.elapsed < 5.0
    await fake.until_true(lambda: "cancel" in fake.acts)


async def test_the_way_that_it_may_drive_ends_it(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.next = [go(2.0)]
    await fake.explorer.start("anna", request=limited(max_distance=1.0))
    await fake.looks()
    for step in range(8):
        fake.platform.pose = Pose2D(1.0 + 0.2 * step, 1.0)
        await asyncio.sleep(0.1)
    ended = await fake.until(MissionState.TIME_LIMIT)
    assert ended.reason == "DISTANCE_LIMIT" and ended.distance == pytest.approx(1.2, abs=0.41)
    assert ended.trace is not None and np.isfinite(ended.trace).all() and len(ended.trace) > 3


async def test_a_charge_that_the_driver_has_not_heard_of_yet_ends_nothing(
    fake: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mission_run, "LOW_BATTERY_S", 0.0)
    fake.platform.battery = 0.0
    await fake.explorer.start("anna")
    await fake.looks()
    assert (await fake.explorer.status()).state is MissionState.RUNNING
    fake.platform.battery = 87.0
    await fake.looks()
    fake.platform.battery = 0.0  # now it is believed
    await fake.until(MissionState.LOW_BATTERY)


@pytest.mark.parametrize(("asked", "charge"), [(None, 14.0), (50.0, 49.0)])
async def test_a_low_battery_ends_it(
    fake: Scene, asked: float | None, charge: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mission_run, "LOW_BATTERY_S", 0.2)
    assert fake.mission is not None
    await fake.explorer.start("anna", request=limited(min_battery=asked))
    await fake.looks()
    assert (await fake.explorer.status()).state is MissionState.RUNNING
    fake.platform.battery = 0.0  # for a moment: the driver does not know it
    fake.platform.battery = charge
    ended = await fake.until(MissionState.LOW_BATTERY)
    assert f"{charge:.0f} %" in ended.message


async def returning(scene: Scene) -> MissionStatus:
    """Have a mission reach its end 2 m from where it began, and be on its way home."""
    assert scene.mission is not None
    scene.mission.next = [go(3.0)]
    await scene.explorer.start("anna", request=limited(return_home=True))
    await scene.until_status(lambda s: s.home is not None and s.phase is MissionPhase.DRIVING)
    for x in (1.5, 2.0, 2.5, 3.0):
        scene.platform.pose = Pose2D(x, 1.0)
        await asyncio.sleep(0.1)
    scene.mission.now = Choice(is_complete=True, message="All was seen.")
    status = await scene.until_status(lambda s: s.phase is MissionPhase.RETURNING)
    await scene.until_goals(2)
    return status


async def test_it_comes_home_before_it_ends(fake: Scene) -> None:
    status = await returning(fake)
    assert status.state is MissionState.RUNNING and fake.acts == []
    home = fake.planner.goals[1]
    assert (home.x, home.y, home.yaw) == (1.0, 1.0, 0.0)
    fake.planner.end(NavState.ARRIVED)
    ended = await fake.until(MissionState.COMPLETE)
    assert (ended.reason, ended.home_reached) == ("NOTHING_LEFT", True)
    assert ended.message.startswith("All was seen.") and "back" in ended.message


async def test_an_end_says_when_it_could_not_come_home(fake: Scene) -> None:
    await returning(fake)
    fake.planner.error = NoPath()
    fake.planner.end(NavState.FAILED, "NO_VALID_PATH")
    ended = await fake.until(MissionState.COMPLETE)
    assert ended.home_reached is False and "NO_VALID_PATH" in ended.message


async def test_a_home_that_cannot_be_planned_to_stops_what_it_was_to_replace(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.next = [go(3.0)]
    await fake.explorer.start("anna", request=limited(return_home=True, max_distance=0.5))
    await fake.until_status(lambda s: s.phase is MissionPhase.DRIVING)
    fake.planner.error = NoPath()
    fake.platform.pose = Pose2D(1.6, 1.0)
    ended = await fake.until(MissionState.TIME_LIMIT)
    assert (ended.reason, ended.home_reached) == ("DISTANCE_LIMIT", False)
    assert fake.acts[0] == "cancel" and not fake.planner.nav.state.is_active
    (record,) = fake.store.records.values()
    assert [g.outcome for g in record.goals] == ["REPLACED", "REFUSED", "REFUSED"]


async def test_one_who_stops_it_on_its_way_home_has_it_stand(fake: Scene) -> None:
    await returning(fake)
    ended = await fake.explorer.stop("bert")
    assert (ended.state, ended.home_reached) == (MissionState.CANCELLED, None)
    assert fake.acts == ["release", "cancel"]


async def test_at_home_already_it_ends_at_once(fake: Scene) -> None:
    assert fake.mission is not None
    fake.mission.now = Choice(is_complete=True)
    await fake.explorer.start("anna", request=limited(return_home=True))
    ended = await fake.until(MissionState.COMPLETE)
    assert ended.home_reached is True and not fake.planner.goals


# who else has the robot


async def driving(scene: Scene) -> None:
    assert scene.mission is not None
    scene.mission.next = [go(2.0)]
    await scene.explorer.start("anna")
    await scene.until_status(lambda s: s.goal is not None)


async def test_a_person_who_drives_pauses_it_also_while_it_stands(fake: Scene) -> None:
    assert fake.mission is not None
    await fake.explorer.start("anna")
    await fake.looks()
    fake.platform.take("bert")
    paused = await fake.until(MissionState.PAUSED)
    assert paused.reason == "PREEMPTED" and "bert" in paused.message
    fake.platform.gate_holder = ""
    await asyncio.sleep(0.3)
    assert (await fake.explorer.status()).state is MissionState.PAUSED


async def test_one_who_took_it_and_let_go_pauses_it_too(fake: Scene) -> None:
    await driving(fake)
    fake.platform.take("")
    assert (await fake.until(MissionState.PAUSED)).reason == "PREEMPTED"


async def test_a_stop_at_the_gate_ends_it(fake: Scene) -> None:
    await driving(fake)
    fake.platform.stop()
    assert (await fake.until(MissionState.CANCELLED)).reason == "STOPPED"


@pytest.mark.parametrize("is_paused", [False, True])
@pytest.mark.parametrize("reason", ["FALLEN", "ESTOP_LATCHED"])
async def test_a_fall_and_an_emergency_stop_end_it_and_nothing_resumes(
    fake: Scene, reason: str, is_paused: bool
) -> None:
    await driving(fake)
    if is_paused:
        await fake.explorer.pause("bert")
    fake.platform.epoch += 1
    fake.platform.latched = reason == "ESTOP_LATCHED"
    fake.platform.posture = Posture.FALLEN if reason == "FALLEN" else Posture.STANDING
    ended = await fake.until(MissionState.CANCELLED)
    assert ended.reason == reason
    fake.platform.latched, fake.platform.posture = False, Posture.STANDING
    with pytest.raises(NoMission):
        await fake.explorer.resume("anna")
    await asyncio.sleep(0.2)
    assert len(fake.planner.goals) == 1


async def test_a_restarted_platform_ends_it_as_interrupted(fake: Scene) -> None:
    await driving(fake)
    fake.platform.epoch += 1000
    fake.platform.newest = 0  # a new life has accepted no goal
    assert (await fake.until(MissionState.INTERRUPTED)).reason == "PLATFORM_RESTARTED"


async def test_a_control_loop_that_failed_ends_it_as_interrupted(fake: Scene) -> None:
    await driving(fake)
    fake.platform.reason = "LOOP_FAILED"
    fake.platform.epoch += 1
    assert (await fake.until(MissionState.INTERRUPTED)).reason == "LOOP_FAILED"


async def test_a_restarted_planner_is_given_a_goal_anew(fake: Scene) -> None:
    assert fake.mission is not None
    await driving(fake)
    fake.mission.next = [go(3.0)]
    fake.planner.forget()
    await fake.until_goals(2)
    assert "forget" in fake.mission.told
    assert (await fake.explorer.status()).state is MissionState.RUNNING


async def test_a_robot_that_is_carried_is_sent_anew_and_the_way_does_not_count(
    fake: Scene,
) -> None:
    assert fake.mission is not None
    await driving(fake)
    await fake.looks()
    fake.mission.next = [go(3.0, 3.0)]
    fake.platform.pose = Pose2D(3.4, 3.4)
    await fake.until_goals(2)
    status = await fake.explorer.status()
    assert fake.acts == ["cancel"] and "forget" in fake.mission.told
    assert status.distance < 0.1 and status.state is MissionState.RUNNING
    assert status.trace is not None and np.isnan(status.trace).any(), "the line is broken there"


async def test_a_relocalisation_elsewhere_has_it_choose_anew(fake: Scene) -> None:
    assert fake.mission is not None
    await driving(fake)
    await fake.looks()
    fake.mission.next = [go(3.0, 3.0)]
    fake.mapper.correction = Pose2D(2.0, 1.0, 0.0)  # it is 2 m from where it was thought to be
    fake.show()
    await fake.until_goals(2)
    assert "forget" in fake.mission.told
    assert (await fake.explorer.status()).distance < 0.1


async def test_a_map_that_changed_by_a_third_is_looked_at(fake: Scene) -> None:
    await driving(fake)
    await fake.looks()
    known = (await fake.explorer.status()).known_area
    occupancy = np.full((80, 80), UNKNOWN, np.int8)
    occupancy[6:50, 6:74] = FREE
    fake.mapper.show(occupancy)
    await fake.until_status(lambda s: s.known_area < 0.7 * known)
    await fake.looks()
    assert (await fake.explorer.status()).state is MissionState.RUNNING


async def test_the_hold_on_the_robot_is_kept_while_it_stands(fake: Scene) -> None:
    await driving(fake)
    asked = fake.platform.asked
    await fake.looks()
    assert fake.platform.asked == asked, "the planner's lease is not renewed by anyone else"
    fake.planner.end(NavState.ARRIVED)
    await fake.until_true(lambda: fake.platform.asked > asked)


@pytest.mark.parametrize(
    "request_",
    [
        ExploreRequest(((0.0, 0.0), (1.0, 1.0), (2.0, 2.0))),
        ExploreRequest(((0.0, 0.0), (1.0, 1.0))),
        ExploreRequest(((0.0, 0.0), (1.0, math.nan), (2.0, 0.0))),
        limited(max_time=math.nan),
        limited(max_distance=-1.0),
        limited(min_battery=101.0),
        PatrolRequest(PatrolRouter.POINTS),
        PatrolRequest(PatrolRouter.COVERAGE, (PatrolPoint(1.0, 1.0),)),
        PatrolRequest(PatrolRouter.POINTS, (PatrolPoint(1.0, math.inf),)),
        PatrolRequest(dwell=-1.0),
        PatrolRequest(loops=0),
        PatrolRequest(expiry=math.nan),
    ],
)
async def test_a_request_that_cannot_be_is_refused(
    fake: Scene, request_: ExploreRequest | PatrolRequest
) -> None:
    with pytest.raises(InvalidRequest):
        if isinstance(request_, ExploreRequest):
            await fake.explorer.start("anna", Rank.HUMAN, request_)
        else:
            await fake.explorer.start_patrol("anna", Rank.HUMAN, request_)
    assert (await fake.explorer.status()).state is MissionState.IDLE
    assert not fake.platform.claims


# the log


async def test_the_log_has_the_mission_from_its_start_and_its_goals(fake: Scene) -> None:
    assert fake.mission is not None
    await driving(fake)
    await fake.until_true(lambda: fake.store.records)
    (record,) = fake.store.records.values()
    assert (record.state, record.ended_at, record.client) == (MissionState.RUNNING, None, "anna")
    assert record.id == (await fake.explorer.status()).id and record.robot == "go2"
    fake.mission.next = [go(3.0), go(3.5)]
    fake.planner.end(NavState.FAILED, "NO_VALID_PATH")
    await fake.until_goals(3)
    ended = await fake.explorer.stop("bert")
    await fake.until_true(lambda: fake.store.pictures)
    (record,) = fake.store.records.values()
    assert [(g.x, g.outcome, g.reason) for g in record.goals] == [
        (2.0, "failed", "NO_VALID_PATH"),
        (3.0, "REPLACED", ""),
        (3.5, "cancelled", "CANCELLED"),
    ]
    assert (record.state, record.reason, record.goals_failed) == (ended.state, "CANCELLED", 1)
    assert record.ended_at is not None and record.ended_at >= record.started_at
    assert record.map_id == "map-1"
    assert fake.store.pictures[record.id].startswith(b"\x89PNG")


async def test_it_says_how_long_ago_places_were_visited_while_a_mission_runs(fake: Scene) -> None:
    assert await fake.explorer.visits() is None
    await driving(fake)
    visits = await fake.explorer.visits()
    assert visits is not None and visits.expiry == 60.0
    assert (visits.age == 7).all() and visits.age.size > 1
    await fake.explorer.stop("anna")
    await fake.until_true(lambda: fake.store.pictures)
    assert await fake.explorer.visits() is None


async def test_it_is_written_down_while_it_runs_also_without_a_goal() -> None:
    often = ExplorerConfig(seen_out_check_hz=20.0, log_period_s=1.0)
    scene = Scene(replace(CONFIG, explorer=often), FakeMission())
    scene.show()
    async with running(scene):
        await scene.explorer.start("anna")
        await scene.until_true(lambda: len(scene.store.history) >= 3)
    assert scene.store.history[-1].elapsed > scene.store.history[0].elapsed


async def test_a_store_that_fails_stops_no_mission_and_gets_the_record_later(
    fake: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mission_log, "RETRY_S", 0.05)
    fake.store.error = StorageError("The disk is full.")
    await driving(fake)
    await fake.explorer.stop("anna")
    first = (await fake.explorer.status()).id
    await driving(fake)
    assert not fake.store.records
    fake.store.error = None
    await fake.until_true(lambda: len(fake.store.records) == 2)
    assert fake.store.records[first].state is MissionState.CANCELLED
    await fake.until_true(lambda: first in fake.store.pictures)
