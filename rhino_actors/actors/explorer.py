"""ExplorerActor: one mission at a time; explores until nothing is left that the robot can see out."""

import asyncio
import contextlib
import dataclasses
import logging
import time
from typing import TYPE_CHECKING

import ray

from rhino_actors.actors.calls import call
from rhino_actors.actors.latest import Latest
from rhino_actors.actors.map_follower import MapFollower
from rhino_actors.actors.rate import Rate
from rhino_actors.actors.routing import make_router
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import (
    ActorUnavailable,
    ControlError,
    MissionRunning,
    NoGoal,
    NoMap,
    NoMission,
    NotLocalised,
    PlanningError,
)
from rhino_actors.exploration import goal_selection
from rhino_actors.exploration.explore_mission import ExploreMission
from rhino_actors.exploration.mission import Choice, Mission, Target
from rhino_actors.geometry import compose
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import MapSnapshot
from rhino_actors.messages.missions import MissionKind, MissionState, MissionStatus
from rhino_actors.messages.navigation import GoalRequest, NavState, Rank

if TYPE_CHECKING:
    from ray.actor import ActorProxy

    from rhino_actors.actors.mapper import MapperActor
    from rhino_actors.actors.planner import PlannerActor
    from rhino_actors.actors.platform import PlatformActor

logger = logging.getLogger(__name__)

HOLDER = "explorer"
# Of the planner, the mapper or the robot's place in the map, before a mission is interrupted.
UNAVAILABLE_TIMEOUT_S = 60.0
GOAL_CHECK_HZ = 10.0  # how often it is asked whether the goal is over: the robot stands until the next is chosen
# Refusals that end a mission, and ends of its goal by which somebody took the robot: it waits for a person then.
ENDING_REASONS = frozenset({"ESTOP_LATCHED", "FALLEN"})
YIELDING_REASONS = frozenset({"PREEMPTED", "SUPERSEDED", "CONTROL_HELD"})


class ExplorerActor:
    """Drives to the nearest frontier it can reach, again and again, until none is left.

    Frontiers and goals are in the frame map, odometry in odom. While the robot does not know its place in a loaded
    map no mission begins or resumes, and one that runs waits.

    Reads:     MapperActor.snapshot, PlatformActor.odometry, PlannerActor.status
    Publishes: GoalRequest to PlannerActor.navigate; MissionStatus
    A failed call: the mission waits for the actor to come back; after a minute it ends `interrupted`.
    """

    def __init__(
        self,
        config: RhinoConfig,
        *,
        platform: "ActorProxy[PlatformActor]",
        mapper: "ActorProxy[MapperActor]",
        planner: "ActorProxy[PlannerActor]",
        was_restarted: bool | None = None,
    ) -> None:
        self._config = config
        self._platform = platform
        self._planner = planner
        self._router = make_router(config)
        self._mission: Mission | None = None
        self._deciding = asyncio.Lock()  # start, stop, resume, pause and end one after the other
        self._running = asyncio.Lock()
        self._unavailable_since: float | None = None
        self._rank = Rank.MISSION
        self._epoch = 0
        self._started = 0.0
        self._last_pose: Pose2D | None = None
        self._maps = MapFollower(mapper)
        self._map: MapSnapshot | None = None
        self._status = MissionStatus()
        if was_restarted is None:
            was_restarted = ray.get_runtime_context().was_current_actor_reconstructed
        if was_restarted:
            self._status = MissionStatus(
                state=MissionState.INTERRUPTED,
                reason="EXPLORER_RESTARTED",
                message="The explorer was restarted; a mission that ran has ended.",
            )
        self._latest = Latest(self._status)

    @ray.method
    async def run(self) -> None:
        """Carry out missions until cancelled; an exception ends the loop and reaches main.

        A second call waits for the first to end.
        """
        async with self._running:
            await asyncio.to_thread(self._router.warm_up)
            await asyncio.to_thread(goal_selection.warm_up)
            if self._status.state is MissionState.INTERRUPTED:
                await self._let_go()
            hz = self._config.explorer.seen_out_check_hz
            rate = Rate(max(hz, GOAL_CHECK_HZ))
            looked_for: Mission | None = None
            due = 0.0
            while True:
                mission = self._mission
                if mission is not None and self._status.state is MissionState.RUNNING:
                    now = time.monotonic()
                    is_due = mission is not looked_for or now >= due
                    if is_due or await self._goal_is_over(mission):
                        looked_for, due = mission, now + 1.0 / hz
                        await self._try_step(mission)
                await rate.sleep()

    async def _let_go(self) -> None:
        """Stop what an earlier life of this actor left driving."""
        with contextlib.suppress(ActorUnavailable, NoGoal):
            nav = await call(self._planner.status.remote(0, 0.0))  # type: ignore[call-arg]  # Ray's types drop defaults
            if nav.client == HOLDER and nav.state.is_active:
                await call(self._planner.cancel.remote(HOLDER, nav.goal_id))  # type: ignore[call-arg]  # Ray's types drop defaults
        with contextlib.suppress(ActorUnavailable):
            await call(self._platform.release.remote(HOLDER))

    async def _goal_is_over(self, mission: Mission) -> bool:
        """Say whether the planner is done with the target in force; False where it does not answer."""
        if not mission.goal_id:
            return False
        try:
            nav = await call(self._planner.status.remote(0, 0.0))  # type: ignore[call-arg]  # Ray's types drop defaults
        except ActorUnavailable:
            return False
        return nav.goal_id != mission.goal_id or not nav.state.is_active

    async def _try_step(self, mission: Mission) -> None:
        try:
            await self._step(mission)
            self._unavailable_since = None
        except (ActorUnavailable, PlanningError) as error:
            now = time.monotonic()
            self._unavailable_since = self._unavailable_since or now
            if isinstance(error, NotLocalised) and self._runs(mission):
                self._change(reason=error.code, message=error.message)
            if now - self._unavailable_since > UNAVAILABLE_TIMEOUT_S:
                await self._conclude(mission, MissionState.INTERRUPTED, error.code, error.message)

    @ray.method
    async def start(self, client: str, rank: Rank = Rank.HUMAN) -> MissionStatus:
        """Start exploring.

        Raises:
            MissionRunning: one runs, or waits for its resume.
            NoMap: there is nothing to start from yet.
            NotLocalised: the robot does not know its place in the loaded map.
            ControlError: the robot may not be moved by this client now.
        """
        async with self._deciding:
            if self._status.state is MissionState.PAUSED:
                raise MissionRunning("A mission is paused.", "Resume it, or stop it first.")
            if self._status.state.is_active:
                raise MissionRunning()
            _check_localised(await self._refresh_map())
            self._rank = Rank.AGENT if rank is Rank.AGENT else Rank.MISSION
            self._epoch = await self._claim(client)
            self._mission = ExploreMission(self._config.explorer, self._config.robot)
            self._started = time.monotonic()
            self._last_pose = self._unavailable_since = None
            self._publish(
                MissionStatus(
                    kind=MissionKind.EXPLORE,
                    state=MissionState.RUNNING,
                    message="Looking for the nearest frontier.",
                    client=client,
                    seq=self._status.seq,
                )
            )
            return self._status

    @ray.method
    async def stop(self, client: str) -> MissionStatus:
        """End the mission; the robot stands. Raises NoMission when none runs."""
        async with self._deciding:
            if not self._status.state.is_active:
                raise NoMission()
            await self._end(MissionState.CANCELLED, "CANCELLED", f"Ended by {client}.")
            return self._status

    @ray.method
    async def resume(self, client: str) -> MissionStatus:
        """Go on with a paused mission.

        Raises:
            NoMission: none is paused.
            NotLocalised: the robot does not know its place in the loaded map.
            ControlError: the robot may not be moved by this client now.
        """
        async with self._deciding:
            if self._status.state is not MissionState.PAUSED:
                raise NoMission("No mission is paused.")
            _check_localised(await self._refresh_map())
            self._epoch = await self._claim(client)
            self._unavailable_since = None
            self._change(state=MissionState.RUNNING, reason="", message=f"Resumed by {client}.")
            return self._status

    @ray.method
    async def status(self, newer_than: int = 0, wait: float = 0.0) -> MissionStatus:
        """Return the status; with `wait`, once its seq is greater than `newer_than` or the time is over."""
        await self._latest.newer(newer_than, wait)
        return self._status

    async def _claim(self, client: str) -> int:
        """Take the robot for the mission and return the epoch of its goals; `client` hands it over."""
        claim = self._platform.claim.remote(HOLDER, self._rank, on_behalf_of=client)  # type: ignore[call-arg]  # Ray's types drop defaults
        return await call(claim)

    async def _step(self, mission: Mission) -> None:
        """Hear how the goal goes, look at the map, and choose anew when the target is settled."""
        snapshot = await self._refresh_map()
        odometry = await call(self._platform.odometry.remote(0, 0.0))  # type: ignore[call-arg]  # Ray's types drop defaults
        if odometry is None or not self._runs(mission):
            return
        self._note_travel(odometry.pose, snapshot)
        if mission.goal_id and not await self._goes_on(mission):
            return
        _check_localised(snapshot)
        if self._status.reason == NotLocalised.code:
            self._change(reason="", message="The robot knows its place in the map again.")
        placed = compose(snapshot.map_from_odom.as_tuple(), odometry.pose.as_tuple())
        pose = Pose2D(*placed)
        choice = await asyncio.to_thread(self._choose, mission, snapshot, pose, time.monotonic())
        if not self._runs(mission):
            return
        self._change(frontiers=choice.frontiers, skipped=choice.skipped)
        if choice.is_complete and choice.gave_up:
            text = f"What is left could not be reached: {len(choice.skipped)} frontiers."
            await self._conclude(mission, MissionState.BLOCKED, "SKIPPED_AREAS", text)
        elif choice.is_complete:
            text = f"Nothing is left to see; {len(choice.skipped)} frontiers cannot be got near."
            await self._conclude(mission, MissionState.COMPLETE, "NOTHING_LEFT", text)
        elif choice.target is not None:
            await self._go(mission, choice.target)

    def _runs(self, mission: Mission) -> bool:
        """Say whether this mission is still the one, and not paused or ended while something was awaited."""
        return mission is self._mission and self._status.state is MissionState.RUNNING

    def _choose(self, mission: Mission, snapshot: MapSnapshot, pose: Pose2D, now: float) -> Choice:
        """Choose on one field of travel costs from the robot. Raises StartOutsideMap, StartOccupied."""
        return mission.choose(
            snapshot, pose.as_tuple(), self._router.costs_from(snapshot, pose), now
        )

    async def _goes_on(self, mission: Mission) -> bool:
        """Take note of how the goal goes. Returns False when the mission goes no further."""
        nav = await call(self._planner.status.remote(0, 0.0))  # type: ignore[call-arg]  # Ray's types drop defaults
        if not self._runs(mission):
            return False
        if nav.goal_id != mission.goal_id:
            if nav.goal_id > mission.goal_id and nav.client != HOLDER:
                await self._yield(mission, f"{nav.client} sent the robot elsewhere.")
                return False
            mission.forget_goal()  # a restarted planner knows nothing of it
        elif nav.state is NavState.ARRIVED:
            mission.arrived(time.monotonic())
            self._change(goals_reached=self._status.goals_reached + 1)
        elif nav.state is NavState.FAILED and nav.reason == NotLocalised.code:
            mission.forget_goal()  # not the target's fault
        elif nav.state is NavState.FAILED:
            mission.failed(time.monotonic(), nav.reason)
            self._change(goals_failed=self._status.goals_failed + 1)
        elif nav.state is NavState.CANCELLED:
            if nav.reason in YIELDING_REASONS:
                await self._yield(mission, nav.message)
            else:
                await self._conclude(mission, MissionState.CANCELLED, nav.reason, nav.message)
            return False
        return True

    async def _go(self, mission: Mission, target: Target) -> None:
        request = GoalRequest(
            x=target.x,
            y=target.y,
            client=HOLDER,
            rank=self._rank,
            allow_unknown=True,
            epoch=self._epoch,
        )
        try:
            nav = await call(self._planner.navigate.remote(request), 10.0)
        except NotLocalised:
            raise
        except (PlanningError, ControlError) as error:
            if not self._runs(mission):
                return  # ended meanwhile; the gate has refused its path
            if isinstance(error, ControlError):
                await self._refused_control(mission, error)
                return
            logger.info("target (%.2f, %.2f): %s", target.x, target.y, error)
            mission.refused(target, time.monotonic(), error.code)
            self._change(goals_failed=self._status.goals_failed + 1)
            return
        if self._runs(mission):
            mission.sent(target, nav.goal_id)
            self._change(goal=Pose2D(target.x, target.y), message=target.message)

    async def _refused_control(self, mission: Mission, error: ControlError) -> None:
        """End or pause: a latch, a fall or a stop ends the mission, another driver pauses it."""
        gate = (await call(self._platform.status.remote())).gate
        if error.code in ENDING_REASONS or gate.holder in ("", HOLDER):
            reason = gate.reason or error.code
            await self._conclude(mission, MissionState.CANCELLED, reason, error.message)
        else:
            await self._yield(mission, f"{gate.holder} drives.")

    async def _yield(self, mission: Mission, message: str) -> None:
        async with self._deciding:
            if self._runs(mission):
                mission.forget_goal()
                text = f"{message} Resume when the robot may go on."
                self._change(state=MissionState.PAUSED, reason="PREEMPTED", message=text, goal=None)

    async def _conclude(
        self, mission: Mission, state: MissionState, reason: str, message: str
    ) -> None:
        """End this mission, unless it has ended or paused meanwhile."""
        async with self._deciding:
            if self._runs(mission):
                await self._end(state, reason, message)

    async def _end(self, state: MissionState, reason: str, message: str) -> None:
        """End the mission in force; the caller holds `_deciding`."""
        mission, self._mission = self._mission, None
        epoch = self._epoch
        logger.info("mission %s: %s %s", state, reason, message)
        self._change(state=state, reason=reason, message=message, goal=None)
        with contextlib.suppress(ActorUnavailable, NoGoal):
            if mission is not None and mission.goal_id:
                await call(self._planner.cancel.remote(HOLDER, mission.goal_id))  # type: ignore[call-arg]  # Ray's types drop defaults
        with contextlib.suppress(ActorUnavailable):
            await call(self._platform.release.remote(HOLDER, epoch))  # type: ignore[call-arg]  # Ray's types drop defaults

    async def _refresh_map(self) -> MapSnapshot:
        self._map = await self._maps.newer() or self._map
        if self._map is None or self._map.is_empty:
            raise NoMap()
        return self._map

    def _note_travel(self, pose: Pose2D, snapshot: MapSnapshot) -> None:
        step = pose.distance_to(self._last_pose.x, self._last_pose.y) if self._last_pose else 0.0
        self._last_pose = pose
        self._change(
            distance=self._status.distance + step,
            elapsed=time.monotonic() - self._started,
            known_area=snapshot.known_area,
        )

    def _change(self, **changes: object) -> None:
        self._publish(dataclasses.replace(self._status, **changes))  # type: ignore[arg-type]

    def _publish(self, status: MissionStatus) -> None:
        self._status = dataclasses.replace(status, seq=self._status.seq + 1)
        self._latest.publish(self._status)


def _check_localised(snapshot: MapSnapshot) -> None:
    """Raise NotLocalised if the robot's place in a map is not known."""
    if not snapshot.localised:
        raise NotLocalised()
