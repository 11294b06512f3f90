"""ExplorerActor: one mission at a time, an exploration or a patrol."""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import ray

from rhino_actors import exploration
from rhino_actors.actors.calls import call
from rhino_actors.actors.latest import Latest
from rhino_actors.actors.map_follower import MapFollower
from rhino_actors.actors.mission_log import MissionLog
from rhino_actors.actors.mission_run import Ending, MissionRun
from rhino_actors.actors.routing import make_router
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import (
    ActorUnavailable,
    ControlError,
    EStopLatched,
    MissionRunning,
    NoGoal,
    NoMap,
    NoMission,
    NotLocalised,
    PlanningError,
    RhinoError,
    RobotFallen,
)
from rhino_actors.exploration.area import check_in_reach
from rhino_actors.exploration.mission import Choice, Mission, Target
from rhino_actors.exploration.missions import make_mission
from rhino_actors.geometry import compose
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import MapSnapshot
from rhino_actors.messages.missions import (
    ExploreRequest,
    MissionKind,
    MissionPhase,
    MissionRequest,
    MissionState,
    MissionStatus,
    PatrolRequest,
    Visits,
    check_request,
)
from rhino_actors.messages.navigation import GoalRequest, NavState, NavStatus, Rank
from rhino_actors.messages.platform import Posture, RobotStatus, StopReason

if TYPE_CHECKING:
    from ray.actor import ActorProxy

    from rhino_actors.actors.mapper import MapperActor
    from rhino_actors.actors.planner import PlannerActor
    from rhino_actors.actors.platform import PlatformActor
    from rhino_actors.actors.poi_store import PoiStore

logger = logging.getLogger(__name__)

HOLDER = "explorer"  # the name under which missions drive
UNAVAILABLE_TIMEOUT_S = 60.0  # of an actor's silence, or of no way to plan, before a mission ends
MIN_PAUSE_S = 0.05  # between two looks, whatever happens
NAV_WAIT_S = 2.0  # how long the planner may take to have something new
MAX_VISIT_CELLS = 1_000_000  # of a grid that is only looked at
# Between two looks the robot drives no farther than this, and this per second; beyond it, it was carried.
CARRIED_M, CARRIED_M_PER_S = 0.5, 2.0
AT_HOME_M = 0.3
YIELDING_REASONS = frozenset({"PREEMPTED", "SUPERSEDED", "CONTROL_HELD"})
# Ends after which a mission that was asked to goes home.
_GOES_HOME = frozenset(
    {
        MissionState.COMPLETE,
        MissionState.BLOCKED,
        MissionState.LOW_BATTERY,
        MissionState.TIME_LIMIT,
    }
)


class ExplorerActor:
    """Carries out one mission at a time: sends the robot where it says, and tells it how that went.

    Frontiers, points and goals are in the frame map, odometry in odom. What the mission needs and is not there (a map,
    the robot's place in it, another actor) is waited for, for a bounded time.

    Reads:     MapperActor.snapshot, PlatformActor.status, PlannerActor.status
    Publishes: GoalRequest to PlannerActor.navigate; MissionStatus; MissionRecord to PoiStore
    A failed call: the mission waits for the actor to come back; after a minute it ends `interrupted`.
    """

    def __init__(
        self,
        config: RhinoConfig,
        *,
        platform: "ActorProxy[PlatformActor]",
        mapper: "ActorProxy[MapperActor]",
        planner: "ActorProxy[PlannerActor]",
        poi_store: "ActorProxy[PoiStore]",
        was_restarted: bool | None = None,
        make: Callable[[MissionRequest, RhinoConfig], Mission] = make_mission,
    ) -> None:
        self._config = config
        self._platform = platform
        self._planner = planner
        self._make = make
        self._router = make_router(config)
        self._run_in_force: MissionRun | None = None
        self._deciding = asyncio.Lock()  # start, stop, resume, pause and end one after the other
        self._running = asyncio.Lock()
        self._wake = asyncio.Event()
        self._active = asyncio.Event()  # a mission runs or is paused
        self._maps = MapFollower(mapper)
        self._map: MapSnapshot | None = None
        self._knows_battery = False
        self._log = MissionLog(config.robot.name, poi_store, mapper)
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

    # life

    @ray.method
    async def run(self) -> None:
        """Carry out missions until cancelled; an exception ends the loop and reaches main.

        A second call waits for the first to end.
        """
        async with self._running:
            await asyncio.to_thread(self._router.warm_up)
            await asyncio.to_thread(exploration.warm_up)
            if self._status.reason == "EXPLORER_RESTARTED":
                await self._let_go()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._log.run())
                tasks.create_task(self._watch_planner())
                tasks.create_task(self._carry_out())

    async def _let_go(self) -> None:
        """Stop what an earlier life of this actor left driving."""
        with contextlib.suppress(ActorUnavailable, NoGoal):
            nav = await call(self._planner.status.remote(0, 0.0))  # type: ignore[call-arg]  # Ray's types drop defaults
            if nav.client == HOLDER and nav.state.is_active:
                await call(self._planner.cancel.remote(HOLDER, nav.goal_id))  # type: ignore[call-arg]  # Ray's types drop defaults
        with contextlib.suppress(ActorUnavailable):
            await call(self._platform.release.remote(HOLDER))

    async def _carry_out(self) -> None:
        period = 1.0 / self._config.explorer.seen_out_check_hz
        while True:
            await self._active.wait()
            if (run := self._run_in_force) is not None:
                await self._try_look(run)
            await asyncio.sleep(MIN_PAUSE_S)
            await self._until_woken(period)

    async def _until_woken(self, period: float) -> None:
        """Wait for the next look: for news of the planner, the end of a stand, or the period's end."""
        run = self._run_in_force
        if run is not None and run.dwell_until is not None:
            period = min(period, max(0.0, run.dwell_until - time.monotonic()))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(period):
                await self._wake.wait()
        self._wake.clear()

    async def _watch_planner(self) -> None:
        """Have a look taken as soon as a goal changes its state: between two goals the robot stands."""
        seq, known = -1, None
        while True:
            await self._active.wait()
            try:
                nav = await call(self._planner.status.remote(seq, NAV_WAIT_S), 2.0 * NAV_WAIT_S)  # type: ignore[call-arg]  # Ray's types drop defaults
            except ActorUnavailable:
                await asyncio.sleep(0.3)
                continue
            seq = nav.seq
            news = (nav.goal_id, nav.state, nav.reason)
            if news != known:
                known = news
                self._wake.set()
            await asyncio.sleep(0.02)

    # what clients ask for

    @ray.method
    async def start(
        self,
        client: str,
        rank: Rank = Rank.HUMAN,
        request: ExploreRequest = ExploreRequest(),
    ) -> MissionStatus:
        """Start exploring. Without a map, or while the robot's place in it is not known, the mission waits for it.

        Raises:
            InvalidRequest: a value of the request cannot be used, or no floor known by now leads into its area.
            MissionRunning: one runs, or waits for its resume.
            ControlError: the robot may not be moved by this client now.
        """
        return await self._start(client, rank, request)

    @ray.method
    async def start_patrol(self, client: str, rank: Rank, request: PatrolRequest) -> MissionStatus:
        """Start a patrol; otherwise as `start`."""
        return await self._start(client, rank, request)

    async def _start(self, client: str, rank: Rank, request: MissionRequest) -> MissionStatus:
        check_request(request)
        async with self._deciding:
            if self._status.state is MissionState.PAUSED:
                raise MissionRunning("A mission is paused.", "Resume it, or stop it first.")
            if self._status.state.is_active:
                raise MissionRunning()
            mission = self._make(request, self._config)
            await self._check_area(mission, request)
            rank = Rank.AGENT if rank is Rank.AGENT else Rank.MISSION
            epoch, stops = await self._claim(client, rank)
            now = time.monotonic()
            run = MissionRun(mission, request, client, rank, epoch, stops, time.time(), now, now)
            self._run_in_force = run
            patrols = isinstance(request, PatrolRequest)
            self._publish(
                MissionStatus(
                    id=str(uuid.uuid4()),
                    kind=MissionKind.PATROL if patrols else MissionKind.EXPLORE,
                    state=MissionState.RUNNING,
                    phase=MissionPhase.CHOOSING,
                    message="Choosing where to go.",
                    client=client,
                    area=request.area,
                    limits=request.limits,
                    skipped=request.skipped if isinstance(request, PatrolRequest) else (),
                    seq=self._status.seq,
                )
            )
            self._write(run)
            self._active.set()
            self._wake.set()
            return self._status

    async def _check_area(self, mission: Mission, request: MissionRequest) -> None:
        """Check that the robot gets into the area, as far as that is known now. Raises InvalidRequest."""
        if not request.area:
            return
        robot = await call(self._platform.status.remote())
        snapshot = await self._newest_map()
        if snapshot is None or not snapshot.localised or robot.odometry is None:
            return
        if snapshot.occupancy.size > mission.exact_cells:
            return
        place = compose(snapshot.map_from_odom.as_tuple(), robot.odometry.pose.as_tuple())
        try:
            costs = await asyncio.to_thread(self._router.costs_from, snapshot, Pose2D(*place))
        except PlanningError:
            return  # the mission waits for a start
        check_in_reach(request.area, snapshot, costs)

    @ray.method
    async def stop(self, client: str) -> MissionStatus:
        """End the mission; the robot stands. Raises NoMission when none runs."""
        async with self._deciding:
            run = self._run_in_force
            if run is None:
                raise NoMission()
            await self._end(run, MissionState.CANCELLED, "CANCELLED", f"Ended by {client}.")
            return self._status

    @ray.method
    async def pause(self, client: str) -> MissionStatus:
        """Have the robot stand until `resume`; nobody holds it meanwhile. Raises NoMission when none runs."""
        async with self._deciding:
            run = self._run_in_force
            if run is None:
                raise NoMission()
            if self._status.state is MissionState.PAUSED:
                raise NoMission("The mission is paused already.", "Resume it, or stop it.")
            await self._pause(run, "PAUSED", f"Paused by {client}.")
            return self._status

    @ray.method
    async def resume(self, client: str) -> MissionStatus:
        """Go on with a paused mission.

        Raises:
            NoMission: none is paused.
            ControlError: the robot may not be moved by this client now.
        """
        async with self._deciding:
            run = self._run_in_force
            if run is None or self._status.state is not MissionState.PAUSED:
                raise NoMission("No mission is paused.")
            run.epoch, run.stops = await self._claim(client, run.rank)
            run.running_since, run.trouble_since = time.monotonic(), None
            run.place = run.odom = None  # a person may have driven it meanwhile
            run.trace.cut()
            self._change(
                state=MissionState.RUNNING,
                phase=MissionPhase.CHOOSING,
                reason="",
                message=f"Resumed by {client}.",
            )
            self._wake.set()
            return self._status

    @ray.method
    async def status(self, newer_than: int = 0, wait: float = 0.0) -> MissionStatus:
        """Return the status; with `wait`, once its seq is another than `newer_than` or the time is over."""
        await self._latest.newer(newer_than, wait)
        return self._status

    @ray.method
    async def visits(self) -> Visits | None:
        """Return how long ago each place was visited by the patrol that runs or is paused; None: there is none.

        At most a million cells: of a larger map every second, or fewer.
        """
        run, snapshot = self._run_in_force, self._map
        if run is None or snapshot is None:
            return None
        visits = await asyncio.to_thread(run.visits, snapshot.geometry, time.monotonic())
        return visits.thinned(MAX_VISIT_CELLS) if visits is not None else None

    async def _claim(self, client: str, rank: Rank) -> tuple[int, int]:
        """Take the robot for a mission; return the epoch of its goals, and how often the robot was stopped before.

        `client` hands the robot over.
        """
        stops = (await call(self._platform.follow_report.remote(0))).stops
        claim = self._platform.claim.remote(HOLDER, rank, on_behalf_of=client, stops=stops)  # type: ignore[call-arg]  # Ray's types drop defaults
        return await call(claim), stops

    # one look

    async def _try_look(self, run: MissionRun) -> None:
        try:
            await self._look(run)
        except (ActorUnavailable, PlanningError) as error:
            await self._wait_for(run, error)
        except Exception as error:
            logger.exception("the mission cannot go on")
            text = f"A fault of the program: {type(error).__name__}. See the log: rhino logs."
            await self._conclude(run, MissionState.INTERRUPTED, "INTERNAL_ERROR", text)
        else:
            if run.trouble and self._goes_on(run) and self._status.reason == run.trouble:
                phase = MissionPhase.DWELLING if run.dwell_until else MissionPhase.CHOOSING
                self._change(reason="", message="The mission goes on.", phase=phase)
            run.trouble_since, run.trouble = None, ""

    async def _wait_for(self, run: MissionRun, error: RhinoError) -> None:
        """Note what the mission waits for; end it when that takes too long."""
        if not self._goes_on(run):
            return
        now = time.monotonic()
        run.trouble_since, run.trouble = run.trouble_since or now, error.code
        patience = UNAVAILABLE_TIMEOUT_S
        if isinstance(error, (NoMap, NotLocalised)):
            patience = self._config.explorer.map_timeout_s
        if now - run.trouble_since > patience:
            run.home_problem = error.code
            state, reason, message = run.ending or (
                MissionState.INTERRUPTED,
                error.code,
                f"{error.message} {error.hint}",
            )
            await self._conclude(run, state, reason, message)
            return
        self._change(
            phase=MissionPhase.WAITING,
            reason=error.code,
            message=error.message,
            elapsed=run.elapsed(now),
        )

    async def _look(self, run: MissionRun) -> None:
        """Hear how things are, and decide what the robot does next."""
        robot = await call(self._platform.status.remote())
        if not self._is_in_force(run):
            return
        if self._status.state is MissionState.PAUSED:
            await self._watch_paused(run, robot)
            return
        if robot.gate.epoch != run.epoch or robot.gate.latched or _has_fallen(robot):
            await self._lost_control(run, robot)
            return
        if not await self._hear(run):
            return
        snapshot = await self._newest_map()
        if not self._goes_on(run):
            return
        await self._note_travel(run, robot, snapshot)
        if await self._is_at_limit(run, robot):
            return
        if not run.goal_id and run.last_goal_id:
            # No path drives: this keeps the mission's hold on the robot, however long it stands.
            await call(self._platform.follow_report.remote(run.last_goal_id))
        if snapshot is None:
            raise NoMap()
        if not snapshot.localised:
            raise NotLocalised()
        if robot.odometry is None:
            raise NoMap("There is no odometry yet.")
        if run.ending is not None:
            await self._go_home(run)
        elif run.dwell_until is None or time.monotonic() >= run.dwell_until:
            run.dwell_until = None
            await self._choose_next(run, snapshot)

    async def _watch_paused(self, run: MissionRun, robot: RobotStatus) -> None:
        """End a paused mission when the robot falls or is stopped for good: it does not resume by itself then."""
        for is_so, error in (
            (robot.gate.latched, EStopLatched()),
            (_has_fallen(robot), RobotFallen()),
        ):
            if is_so:
                async with self._deciding:
                    if self._is_in_force(run) and self._status.state is MissionState.PAUSED:
                        await self._end(run, MissionState.CANCELLED, error.code, error.message)
                return

    async def _lost_control(self, run: MissionRun, robot: RobotStatus) -> None:
        """End or pause: a latch, a fall or a stop ends the mission, another driver pauses it."""
        gate = robot.gate
        cancelled = MissionState.CANCELLED
        if gate.latched:
            text = EStopLatched.default_message
            await self._conclude(run, cancelled, EStopLatched.code, text)
        elif _has_fallen(robot):
            await self._conclude(run, cancelled, RobotFallen.code, RobotFallen.default_message)
        elif gate.reason == StopReason.LOOP_FAILED:
            text = "The robot's control loop failed."
            await self._conclude(run, MissionState.INTERRUPTED, StopReason.LOOP_FAILED.value, text)
        else:
            report = await call(self._platform.follow_report.remote(0))
            if report.newest_goal_id < run.last_goal_id:
                text = "The robot's driver was restarted."
                await self._conclude(run, MissionState.INTERRUPTED, "PLATFORM_RESTARTED", text)
            elif report.stops != run.stops:
                await self._conclude(run, cancelled, "STOPPED", "The robot was stopped.")
            elif gate.holder in ("", HOLDER):
                await self._yield(run, "Somebody took the robot over and let go.")
            else:
                await self._yield(run, f"{gate.holder} drives.")

    async def _hear(self, run: MissionRun) -> bool:
        """Take note of how the goal goes. Returns False when the mission goes no further now."""
        if not run.goal_id:
            return True
        nav = await call(self._planner.status.remote(0, 0.0))  # type: ignore[call-arg]  # Ray's types drop defaults
        if not self._goes_on(run):
            return False
        now = time.monotonic()
        if nav.goal_id != run.goal_id:
            if nav.goal_id > run.goal_id and nav.client != HOLDER:
                await self._yield(run, f"{nav.client} sent the robot elsewhere.")
                return False
            self._close_goal(run, "cancelled", "PLANNER_RESTARTED")
            run.mission.forget_goal()
        elif nav.state is NavState.ARRIVED:
            return await self._arrived(run, now)
        elif nav.state is NavState.FAILED and nav.reason == NotLocalised.code:
            self._close_goal(run, "failed", nav.reason)
            run.mission.forget_goal()  # not the target's fault
        elif nav.state is NavState.FAILED:
            self._failed(run, "failed", nav.reason, now)
        elif nav.state is NavState.CANCELLED:
            if nav.reason in YIELDING_REASONS:
                await self._yield(run, nav.message)
            else:
                await self._conclude(run, MissionState.CANCELLED, nav.reason, nav.message)
            return False
        else:
            self._note_drive(run, nav)
        return True

    async def _arrived(self, run: MissionRun, now: float) -> bool:
        target = run.target
        self._close_goal(run, "arrived")
        self._change(goals_reached=self._status.goals_reached + 1)
        if run.ending is not None:
            await self._conclude(run, *run.ending, home_reached=True)
            return False
        run.mission.arrived(now)
        if target is not None and target.dwell > 0.0:
            run.dwell_until = now + target.dwell
            where = f"at {target.label}" if target.label else "here"
            text = f"Standing {where} for {target.dwell:g} s."
            self._change(phase=MissionPhase.DWELLING, message=text)
        return True

    def _failed(self, run: MissionRun, outcome: str, reason: str, now: float) -> None:
        self._close_goal(run, outcome, reason)
        self._change(goals_failed=self._status.goals_failed + 1)
        if run.ending is None:
            run.mission.failed(now, reason)
        else:
            run.home_tries += 1
            run.home_problem = reason

    def _note_drive(self, run: MissionRun, nav: NavStatus) -> None:
        """Say that the robot drives, or what it stands for."""
        waits = nav.state in (NavState.PAUSED, NavState.RECOVERING)
        on_way = MissionPhase.RETURNING if run.ending else MissionPhase.DRIVING
        text = run.target.message if run.target else ""
        self._change(
            phase=MissionPhase.WAITING if waits else on_way,
            reason=nav.reason if waits else "",
            message=nav.message if waits and nav.message else text or self._status.message,
        )

    async def _newest_map(self) -> MapSnapshot | None:
        """Return the newest map; None while there is none. A restarted mapper begins empty: what is known holds."""
        newer = await self._maps.newer()
        if newer is not None and not (newer.is_empty and self._map):
            self._map = newer
        return self._map if self._map is not None and not self._map.is_empty else None

    async def _note_travel(
        self, run: MissionRun, robot: RobotStatus, snapshot: MapSnapshot | None
    ) -> None:
        """Count metres and seconds, and notice when the robot was carried: then where it was sent says nothing."""
        now = time.monotonic()
        distance = self._status.distance
        if robot.odometry is not None:
            allowed = CARRIED_M + CARRIED_M_PER_S * (now - run.seen_at)
            odom = robot.odometry.pose
            step = _distance(run.odom, odom)
            was_carried = step > allowed
            distance += 0.0 if was_carried else step
            run.odom, run.seen_at = odom, now
            if snapshot is None or not snapshot.localised:
                run.place = None
                run.trace.cut()
            else:
                place = Pose2D(*compose(snapshot.map_from_odom.as_tuple(), odom.as_tuple()))
                was_carried |= _distance(run.place, place) > allowed
                if was_carried:
                    run.trace.cut()
                run.place = place
                run.trace.add(place.x, place.y)
            if was_carried:
                logger.warning("the robot was carried; the mission chooses anew")
                await self._drop_goal(run, "CARRIED")
                if not self._goes_on(run):
                    return
        home = self._status.home or run.place
        self._change(
            home=Pose2D(home.x, home.y, home.yaw) if home else None,
            distance=distance,
            elapsed=run.elapsed(now),
            known_area=snapshot.known_area if snapshot else self._status.known_area,
            trace=run.trace.points(),
        )
        if now - run.written_at >= self._config.explorer.log_period_s:
            self._write(run)

    async def _is_at_limit(self, run: MissionRun, robot: RobotStatus) -> bool:
        """End the mission, or send it home, when it has used up what it was given."""
        if run.ending is not None or not self._goes_on(run):
            return not self._goes_on(run)
        battery = robot.driver_state.battery
        self._knows_battery |= battery > 0.0  # a driver says 0 until it has heard of it
        known = battery if self._knows_battery else None
        least = self._config.explorer.min_battery
        ending = run.used_up(self._status, known, least, time.monotonic())
        if ending is None:
            return False
        await self._finish(run, *ending)
        return not self._goes_on(run)

    # choosing and driving

    async def _choose_next(self, run: MissionRun, snapshot: MapSnapshot) -> None:
        pose = run.place
        if pose is None:
            raise NotLocalised()
        choice = await asyncio.to_thread(self._choose, run, snapshot, pose, time.monotonic())
        if not self._goes_on(run):
            return
        before = run.request.skipped if isinstance(run.request, PatrolRequest) else ()
        self._change(
            frontiers=choice.frontiers,
            skipped=(*before, *choice.skipped),
            explored_share=choice.explored_share,
            eta=choice.eta,
            patrol=choice.patrol,
        )
        if choice.is_complete:
            await self._finish(run, *self._complete(choice))
        elif choice.target is not None:
            await self._go(run, choice.target)
        elif choice.drop and run.goal_id:
            await self._drop_goal(run, "DROPPED")
        if self._goes_on(run) and not run.goal_id and not choice.is_complete:
            text = choice.message or "Looking for where to go next."
            self._change(phase=choice.phase, message=text, goal=None)

    def _choose(self, run: MissionRun, snapshot: MapSnapshot, pose: Pose2D, now: float) -> Choice:
        """Choose on one field of travel costs from the robot. Raises StartOutsideMap, StartOccupied."""
        is_exact = snapshot.occupancy.size <= run.mission.exact_cells
        costs = self._router.costs_from(snapshot, pose) if is_exact else None
        with run.looking:
            return run.mission.choose(snapshot, pose.as_tuple(), costs, now)

    def _complete(self, choice: Choice) -> Ending:
        if choice.gave_up:
            text = choice.message or f"What is left could not be reached: {len(choice.skipped)}."
            return MissionState.BLOCKED, "SKIPPED_AREAS", text
        if self._status.kind is MissionKind.PATROL:
            return MissionState.COMPLETE, "ALL_VISITED", choice.message or "All was visited."
        text = f"Nothing is left to see; {len(choice.skipped)} frontiers cannot be got near."
        return MissionState.COMPLETE, "NOTHING_LEFT", choice.message or text

    async def _go(self, run: MissionRun, target: Target) -> None:
        """Send the robot to a target; it takes the place of the goal in force without a stop."""
        try:
            nav = await self._navigate(run, target)
        except NotLocalised:
            raise
        except PlanningError as error:
            if self._goes_on(run):
                logger.info("target (%.2f, %.2f): %s", target.x, target.y, error)
                self._note_goal(run, target, "REFUSED", error.code)
                run.mission.refused(target, time.monotonic(), error.code)
                self._change(goals_failed=self._status.goals_failed + 1)
                self._wake.set()  # there may be another
            return
        if nav is not None:
            run.mission.sent(target, nav.goal_id)

    async def _navigate(self, run: MissionRun, target: Target) -> NavStatus | None:
        """Ask the planner; None when the mission has ended or paused meanwhile. Raises PlanningError."""
        request = GoalRequest(
            x=target.x,
            y=target.y,
            yaw=target.yaw,
            client=HOLDER,
            rank=run.rank,
            allow_unknown=True,
            epoch=run.epoch,
        )
        try:
            nav = await call(self._planner.navigate.remote(request), 10.0)
        except ControlError as error:
            if self._goes_on(run):
                await self._refused_control(run, error)
            return None
        if not self._goes_on(run):
            return None  # the gate refuses its path
        self._close_goal(run, "REPLACED")
        run.goal_id = run.last_goal_id = nav.goal_id
        run.target = target
        run.goal_since = (time.monotonic() - run.began, self._status.distance)
        self._change(
            goal=Pose2D(target.x, target.y, target.yaw or 0.0),
            phase=MissionPhase.RETURNING if run.ending else MissionPhase.DRIVING,
            reason="",
            message=target.message or "Driving to the next goal.",
        )
        return nav

    async def _refused_control(self, run: MissionRun, error: ControlError) -> None:
        robot = await call(self._platform.status.remote())
        is_its_own = robot.gate.epoch == run.epoch and robot.gate.holder in ("", HOLDER)
        if is_its_own or isinstance(error, (EStopLatched, RobotFallen)):
            await self._conclude(run, MissionState.CANCELLED, error.code, error.message)
        else:
            await self._lost_control(run, robot)

    async def _drop_goal(self, run: MissionRun, reason: str) -> None:
        """Have the robot stand: where it drives to is not wanted any more."""
        goal_id = run.goal_id
        if not goal_id:
            return
        self._close_goal(run, "DROPPED", reason)
        run.mission.forget_goal()
        with contextlib.suppress(NoGoal):
            await call(self._planner.cancel.remote(HOLDER, goal_id))  # type: ignore[call-arg]  # Ray's types drop defaults

    def _close_goal(self, run: MissionRun, outcome: str, reason: str = "") -> None:
        """Note in the log how the goal in force ended, if there is one."""
        target = run.target
        run.goal_id, run.target = 0, None
        if target is not None:
            self._note_goal(run, target, outcome, reason, run.goal_since)

    def _note_goal(
        self,
        run: MissionRun,
        target: Target,
        outcome: str,
        reason: str,
        since: tuple[float, float] | None = None,
    ) -> None:
        run.note_goal(target, outcome, reason, since, time.monotonic(), self._status.distance)
        self._write(run)

    async def _go_home(self, run: MissionRun) -> None:
        """Send the robot home, again when that failed; then the mission ends, wherever the robot is."""
        home, place = self._status.home, run.place
        assert run.ending is not None, "it goes home when it is about to end"
        if run.goal_id:
            return
        if home is None or place is None:
            raise NotLocalised()
        if run.home_tries == 0 and place.distance_to(home.x, home.y) <= AT_HOME_M:
            await self._conclude(run, *run.ending, home_reached=True)
            return
        if run.home_tries >= self._config.explorer.max_attempts:
            await self._conclude(run, *run.ending)
            return
        target = Target(home.x, home.y, home.yaw, "Driving home.", "home")
        try:
            await self._navigate(run, target)
        except NotLocalised:
            raise
        except PlanningError as error:
            if self._goes_on(run):
                self._note_goal(run, target, "REFUSED", error.code)
                run.home_tries += 1
                run.home_problem = error.code
                self._change(goals_failed=self._status.goals_failed + 1)
                with contextlib.suppress(NoGoal):  # it may still drive to what home was to replace
                    cancel = self._planner.cancel.remote(HOLDER, run.last_goal_id)  # type: ignore[call-arg]  # Ray's types drop defaults
                    await call(cancel)

    # pausing and ending

    def _is_in_force(self, run: MissionRun) -> bool:
        return run is self._run_in_force

    def _goes_on(self, run: MissionRun) -> bool:
        """Say whether this mission is still the one, and not paused or ended while something was awaited."""
        return run is self._run_in_force and self._status.state is MissionState.RUNNING

    async def _yield(self, run: MissionRun, message: str) -> None:
        async with self._deciding:
            if self._goes_on(run):
                text = f"{message} Resume when the robot may go on."
                await self._pause(run, "PREEMPTED", text)

    async def _pause(self, run: MissionRun, reason: str, message: str) -> None:
        """Pause the mission in force; the caller holds `_deciding`. What was driven to is chosen anew afterwards."""
        goal_id, epoch = run.goal_id, run.epoch
        now = time.monotonic()
        run.ran, run.running_since = run.elapsed(now), None
        self._close_goal(run, "cancelled", reason)
        run.dwell_until = None
        run.mission.forget_goal()
        self._change(
            state=MissionState.PAUSED,
            phase=MissionPhase.NONE,
            reason=reason,
            message=message,
            goal=None,
            eta=None,
            elapsed=run.ran,
        )
        self._write(run)
        await self._stand(goal_id, epoch)

    async def _finish(
        self, run: MissionRun, state: MissionState, reason: str, message: str
    ) -> None:
        """End this mission, after the way home if it was asked to."""
        wants_home = run.request.limits.return_home and state in _GOES_HOME
        if wants_home and self._status.home is not None and self._goes_on(run):
            run.ending = (state, reason, message)
            run.dwell_until = None
            self._close_goal(run, "REPLACED")
            run.mission.forget_goal()
            self._change(phase=MissionPhase.RETURNING, message=f"{message} Driving home.", eta=None)
            self._wake.set()
        else:
            await self._conclude(run, state, reason, message)

    async def _conclude(
        self,
        run: MissionRun,
        state: MissionState,
        reason: str,
        message: str,
        home_reached: bool = False,
    ) -> None:
        """End this mission, unless it has ended or paused meanwhile."""
        async with self._deciding:
            if not self._goes_on(run):
                return
            wants_home = run.request.limits.return_home and state in _GOES_HOME
            if wants_home and home_reached:
                message += " It is back where it started."
            elif wants_home:
                message += (
                    f" It could not get home: {run.home_problem or 'its place is not known'}."
                )
            await self._end(run, state, reason, message, home_reached if wants_home else None)

    async def _end(
        self,
        run: MissionRun,
        state: MissionState,
        reason: str,
        message: str,
        home_reached: bool | None = None,
    ) -> None:
        """End the mission in force; the caller holds `_deciding`."""
        self._run_in_force = None
        self._active.clear()
        goal_id, now = run.goal_id, time.monotonic()
        logger.info("mission %s: %s %s", state, reason, message)
        self._close_goal(run, "cancelled", reason)
        self._change(
            state=state,
            phase=MissionPhase.NONE,
            reason=reason,
            message=message,
            goal=None,
            eta=None,
            elapsed=run.elapsed(now),
            home_reached=home_reached,
        )
        self._write(run, ended_at=time.time())
        await self._stand(goal_id, run.epoch)

    async def _stand(self, goal_id: int, epoch: int) -> None:
        """Let go of the robot, which makes it stand, and of the goal: the platform hears of it first."""

        async def cancel() -> None:
            with contextlib.suppress(RhinoError):
                if goal_id:
                    await call(self._planner.cancel.remote(HOLDER, goal_id))  # type: ignore[call-arg]  # Ray's types drop defaults

        release = self._platform.release.remote(HOLDER, epoch)  # type: ignore[call-arg]  # Ray's types drop defaults
        await asyncio.gather(call(release), cancel(), return_exceptions=True)

    # what is told

    def _write(self, run: MissionRun, ended_at: float | None = None) -> None:
        """Have the mission written down as it is now; at its end with its picture."""
        run.written_at = time.monotonic()
        record = run.record(self._status, self._config.robot.name, ended_at)
        draw = None
        if ended_at is not None:
            draw = functools.partial(run.picture, self._map, record, self._status, run.written_at)
        self._log.put(record, draw)

    def _change(self, **changes: object) -> None:
        changed = dataclasses.replace(self._status, **changes)  # type: ignore[arg-type]
        if any(_differ(getattr(self._status, name), getattr(changed, name)) for name in changes):
            self._publish(changed)

    def _publish(self, status: MissionStatus) -> None:
        self._status = dataclasses.replace(status, seq=self._status.seq + 1)
        self._latest.publish(self._status)


def _distance(before: Pose2D | None, now: Pose2D) -> float:
    return before.distance_to(now.x, now.y) if before else 0.0


def _has_fallen(robot: RobotStatus) -> bool:
    return robot.driver_state.posture is Posture.FALLEN or robot.gate.reason == StopReason.FALLEN


def _differ(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return not (
            isinstance(one, np.ndarray)
            and isinstance(other, np.ndarray)
            and np.array_equal(one, other, equal_nan=True)
        )
    return one != other
