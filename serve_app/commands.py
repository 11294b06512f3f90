"""What a client can do to a robot, once for REST and MCP: each function is one act, made of calls to actors."""

import asyncio
import difflib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio

from rhino_actors.errors import (
    ActorUnavailable,
    CommandRejected,
    ControlError,
    InvalidRequest,
    MapNotFound,
    MapNotLoaded,
    MissionNotFound,
    MissionRunning,
    NoGoal,
    NoMission,
    NotAvailable,
    NotLocalised,
    PoiNotFound,
    RhinoError,
    RobotMoves,
)
from rhino_actors.geometry import compose, wrap_angle
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.maps import SavedMap
from rhino_actors.messages.missions import (
    ExploreRequest,
    MissionRecord,
    MissionStatus,
    PatrolPoint,
    PatrolRequest,
    SkippedTarget,
    check_request,
)
from rhino_actors.messages.navigation import GoalRequest, NavMode, NavStatus, Rank
from rhino_actors.messages.platform import (
    GateStatus,
    RobotStatus,
    SportResult,
    TakeOver,
    VelocityAnswer,
)
from rhino_actors.messages.poi import Poi
from serve_app.handles import Handles, Robot
from serve_app.schemas import (
    NavigateStatus,
    State,
    map_state,
    navigate_status,
    path_points,
    pose_in_map,
    state_event,
)

# The robot stands already when planner and explorer are told; an answer to "stop" does not wait long for them.
STOP_PATIENCE_S = 1.0
DRIVE_PERIOD_S = 0.1  # well within the gate's dead-man
MAX_DRIVE_S = 5.0
MAX_COMPARED = (
    60  # characters of a name and of the labels that it is compared with, which takes its square
)
# Before another map is loaded: how long a robot that was stopped may take to stand, and what counts as standing.
STAND_PATIENCE_S = 3.0
STANDS_BELOW = (0.05, 0.1)  # [m/s] and [rad/s] of the measured twist

T = TypeVar("T")


@dataclass(frozen=True)
class Stopped:
    """What a stop ended."""

    gate: GateStatus
    goal_cancelled: bool
    mission_stopped: bool


async def read_state(robot: Robot) -> State:
    """Return everything known of a robot; parts that do not answer are listed instead of failing the whole."""
    status, nav, mission, mapping, localisation = await asyncio.gather(
        _or_unavailable(robot.platform.status()),
        _or_unavailable(robot.planner.status()),
        _or_unavailable(robot.explorer.status()),
        _or_unavailable(robot.mapper.stats()),
        _or_unavailable(robot.mapper.localisation()),
    )
    parts = {"platform": status, "mapper": mapping, "planner": nav, "explorer": mission}
    event = state_event(
        robot.name,
        robot.simulated,
        status,
        nav,
        mission,
        localisation,
        [name for name, value in parts.items() if value is None],
    )
    if event.rates and mapping:
        event.rates.map = mapping["publish_rate"]
    return State(
        **dict(event),
        path=path_points(nav),
        map=map_state(mapping, status) if mapping else None,
    )


async def _or_unavailable(call: Awaitable[T]) -> T | None:
    try:
        return await call
    except ActorUnavailable:
        return None


async def current_pose(robot: Robot) -> Pose2D:
    """Return where the robot is, in the frame map.

    Raises:
        NotAvailable: before the first odometry.
        NotLocalised: its place in the loaded map is not known.
    """
    status, localisation = await asyncio.gather(
        robot.platform.status(), robot.mapper.localisation()
    )
    if status.odometry is None:
        raise NotAvailable("The robot's pose is not known yet.")
    pose = pose_in_map(status.odometry.pose, localisation)
    if pose is None:
        raise NotLocalised()
    return pose


async def drive(robot: Robot, twist: Twist2D, client: str, rank: Rank) -> VelocityAnswer:
    """Ask the gate for a velocity; it holds for the gate's dead-man time only."""
    return await robot.platform.velocity(twist, client, rank)


async def drive_for(
    robot: Robot, twist: Twist2D, duration: float, client: str, rank: Rank
) -> VelocityAnswer:
    """Drive for `duration` seconds, then send zero and let go; also when cancelled half-way.

    Raises:
        InvalidRequest: the duration is not within (0, MAX_DRIVE_S].
        ControlError: the gate refused, at the start or on the way: someone stopped the robot or took it over. Then
            it is not ours any more, and nothing more is sent.
    """
    if not 0.0 < duration <= MAX_DRIVE_S:
        raise InvalidRequest(
            f"duration is {duration:g}.", f"Give seconds above 0 and up to {MAX_DRIVE_S:g}."
        )
    loop = asyncio.get_running_loop()
    start = loop.time()
    end = start + duration
    is_ours = True
    answer: VelocityAnswer | None = None
    try:
        answer = await drive(robot, twist, client, rank)
        while (left := end - loop.time()) > 0.0:
            await asyncio.sleep(min(DRIVE_PERIOD_S, left))
            if loop.time() < end:
                answer = await drive(robot, twist, client, rank)
    except ControlError as error:
        is_ours = False
        if answer is None:
            raise
        driven = f"It was driven for {loop.time() - start:.1f} s of {duration:g} s."
        raise type(error)(f"{error.message} {driven}", *error.args[1:]) from error
    finally:
        if is_ours:
            with anyio.move_on_after(STOP_PATIENCE_S, shield=True):
                await _let_go(robot, client, rank)
    return answer


async def _let_go(robot: Robot, client: str, rank: Rank) -> None:
    try:
        await robot.platform.velocity(Twist2D(), client, rank)
        await robot.platform.release(client)
    except RhinoError:
        # Somebody else has the robot by now, or its platform restarts: it is not ours to hold still.
        return


async def stop(robot: Robot, client: str) -> Stopped:
    """Send zero and give up goal and mission. Works while planner or explorer are dead."""
    return await _stop(robot, client, robot.platform.stop(client))


async def emergency_stop(robot: Robot, client: str) -> Stopped:
    """Latch the emergency stop, then give up goal and mission. Works while planner or explorer are dead."""
    return await _stop(robot, client, robot.platform.estop(client))


async def _stop(robot: Robot, client: str, first: Awaitable[GateStatus]) -> Stopped:
    try:
        gate = await first
    finally:
        # Even when the platform does not answer: what it would follow next must be gone.
        goal, mission = await asyncio.gather(
            _ended(robot.planner.cancel(client)), _ended(robot.explorer.stop(client))
        )
    return Stopped(gate, goal, mission)


async def _ended(call: Awaitable[object]) -> bool:
    """Return whether the call ended something; nothing to end and nobody there to ask are both fine."""
    try:
        async with asyncio.timeout(STOP_PATIENCE_S):
            await call
    except (NoGoal, NoMission, ActorUnavailable, TimeoutError):
        return False
    return True


async def take_control(robot: Robot, client: str, taking_from: str | None = None) -> TakeOver:
    """Take the robot over from whoever drives, or only from `taking_from`. Raises ControlHeld, EStopLatched."""
    return await robot.platform.take(client, taking_from)


async def keep_control(robot: Robot, client: str) -> GateStatus:
    """Keep the lease of a client that drives nothing just now. Raises ControlHeld, NotHolder."""
    return await robot.platform.keep(client)


async def release_control(robot: Robot, client: str) -> RobotStatus:
    """Let go of the robot, if this client drives it; return the status after."""
    await robot.platform.release(client)
    return await robot.platform.status()


async def sport(
    robot: Robot,
    command: str,
    client: str,
    rank: Rank,
    parameters: Mapping[str, float] | None = None,
) -> SportResult:
    """Carry out a sport command. Raises UnknownCommand, InvalidRequest, CommandRejected, ControlError."""
    result = await robot.platform.sport(command, client, rank, parameters)
    if not result.accepted:
        raise CommandRejected(
            f"The robot refused {command} (code {result.code}). {result.message}".strip()
        )
    return result


async def navigate(
    robot: Robot,
    x: float,
    y: float,
    yaw: float | None = None,
    *,
    client: str,
    rank: Rank,
    strict: bool = False,
    allow_unknown: bool = True,
    mode: NavMode | None = None,
) -> NavStatus:
    """Send the robot to a point of the map [m, rad]. Raises PlanningError, ControlError, InvalidRequest."""
    if not (math.isfinite(x) and math.isfinite(y) and (yaw is None or math.isfinite(yaw))):
        raise InvalidRequest("The goal is not finite.")
    heading = None if yaw is None else wrap_angle(yaw)
    # A stop that comes while this is on its way to the planner makes it void.
    stops = (await robot.platform.follow_report(0)).stops
    return await robot.planner.navigate(
        GoalRequest(x, y, heading, client, rank, strict, allow_unknown, mode, stops=stops)
    )


async def move_by(
    robot: Robot, forward: float, left: float, turn: float, *, client: str, rank: Rank
) -> NavStatus:
    """Send the robot to a pose given from where it stands now: `forward`, `left` [m], `turn` [rad]."""
    if not (math.isfinite(forward) and math.isfinite(left) and math.isfinite(turn)):
        raise InvalidRequest("The move is not finite.")
    x, y, yaw = compose((await current_pose(robot)).as_tuple(), (forward, left, turn))
    return await navigate(robot, x, y, yaw, client=client, rank=rank)


async def navigation(robot: Robot) -> NavigateStatus:
    """Return how the goal goes, and whether the explorer is at work."""
    nav, mission = await asyncio.gather(
        robot.planner.status(), _or_unavailable(robot.explorer.status())
    )
    return navigate_status(nav, exploring=_explores(mission))


def _explores(mission: MissionStatus | None) -> bool:
    return mission is not None and mission.state.is_active


async def wait_for_goal(
    robot: Robot,
    goal_id: int,
    timeout: float,
    client: str,
    report: Callable[[NavStatus], Awaitable[None]],
) -> NavStatus:
    """Wait until the goal ended, for at most `timeout` seconds; return its status then.

    When the caller is cancelled while it waits, so is this goal: nobody is left who asked for it.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    try:
        nav = await robot.planner.status()
        while nav.goal_id == goal_id and not nav.state.is_final and loop.time() < end:
            await report(nav)
            left = end - loop.time()
            newer, _ = await asyncio.gather(
                robot.planner.status(nav.seq, wait=max(0.0, min(1.0, left))),
                asyncio.sleep(max(0.0, min(0.1, left))),
            )
            nav = newer
    except asyncio.CancelledError:
        with anyio.move_on_after(STOP_PATIENCE_S, shield=True):
            await _ended(robot.planner.cancel(client, goal_id))
        raise
    return nav


async def wait_for_mission(
    robot: Robot,
    mission_id: str,
    timeout: float,
    client: str,
    report: Callable[[MissionStatus], Awaitable[None]],
) -> MissionStatus:
    """Wait until the mission ended, for at most `timeout` seconds; return its status then.

    When the caller is cancelled while it waits, this mission is stopped: nobody is left who asked for it.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    try:
        now = await robot.explorer.status()
        while now.id == mission_id and now.state.is_active and loop.time() < end:
            await report(now)
            left = end - loop.time()
            newer, _ = await asyncio.gather(
                robot.explorer.status(now.seq, wait=max(0.0, min(1.0, left))),
                asyncio.sleep(max(0.0, min(0.25, left))),
            )
            now = newer
    except asyncio.CancelledError:
        with anyio.move_on_after(STOP_PATIENCE_S, shield=True):
            if (await robot.explorer.status()).id == mission_id:
                await _ended(robot.explorer.stop(client))
        raise
    return now


async def explore(
    robot: Robot, request: ExploreRequest, *, client: str, rank: Rank
) -> MissionStatus:
    """Have the robot explore. Raises InvalidRequest, MissionRunning, ControlError."""
    check_request(request)
    return await robot.explorer.start(client, rank, request)


async def patrol(
    handles: Handles, robot: Robot, request: PatrolRequest, *, client: str, rank: Rank
) -> MissionStatus:
    """Have the robot patrol.

    A point with a `poi_id` gets the place's coordinates, and its label unless the point has one. Places of a map that
    is not loaded are skipped, and the mission's status says so.

    Raises:
        InvalidRequest, MissionRunning, ControlError.
        PoiNotFound: there is no such place of this robot.
        MapNotLoaded: every point is a place of a map that is not loaded.
    """
    check_request(request)
    if any(point.poi_id is not None for point in request.points):
        request = await _with_places(handles, robot, request)
    return await robot.explorer.start_patrol(client, rank, request)


async def _with_places(handles: Handles, robot: Robot, request: PatrolRequest) -> PatrolRequest:
    saved = await map_in_force(handles, robot)
    points: list[PatrolPoint] = []
    skipped = list(request.skipped)
    problem: MapNotLoaded | None = None
    for point in request.points:
        if point.poi_id is None:
            points.append(point)
            continue
        try:
            poi = await get_poi(handles, robot, point.poi_id)
        except PoiNotFound as error:
            raise PoiNotFound(
                f"There is no point of interest {point.poi_id[:64]!r}.", error.hint
            ) from error
        label = point.label or poi.label
        try:
            await _check_place_on(handles, saved, poi)
        except MapNotLoaded as error:
            problem = error
            skipped.append(SkippedTarget(poi.x, poi.y, 0, error.code, label))
        else:
            points.append(replace(point, x=poi.x, y=poi.y, label=label))
    if problem is not None and not points:
        raise problem
    return replace(request, points=tuple(points), skipped=tuple(skipped))


async def pause_mission(robot: Robot, client: str) -> MissionStatus:
    """Have the robot stand until the mission is resumed. Raises NoMission."""
    return await robot.explorer.pause(client)


async def resume_mission(robot: Robot, client: str) -> MissionStatus:
    """Go on with the paused mission. Raises NoMission, ControlError."""
    return await robot.explorer.resume(client)


async def stop_mission(robot: Robot, client: str) -> MissionStatus:
    """End the mission, of whichever kind it is; the robot stands. Raises NoMission."""
    return await robot.explorer.stop(client)


async def missions(handles: Handles, robot: Robot, limit: int = 50) -> tuple[MissionRecord, ...]:
    """Return the log of a robot's missions, newest first, without their goals. Raises StorageError."""
    return await handles.poi_store.list_missions(robot.name, limit)


async def mission(handles: Handles, robot: Robot, mission_id: str) -> MissionRecord:
    """Return what the log has of a mission of this robot. Raises MissionNotFound, StorageError."""
    record = await handles.poi_store.get_mission(mission_id)
    if record.robot != robot.name:
        raise MissionNotFound()
    return record


async def mission_picture(handles: Handles, robot: Robot, mission_id: str) -> bytes:
    """Return a mission's picture, PNG. Raises MissionNotFound, also when it has none; StorageError."""
    record = await mission(handles, robot, mission_id)
    return await handles.poi_store.mission_picture(record.id)


async def delete_mission(handles: Handles, robot: Robot, mission_id: str) -> None:
    """Take a mission out of the log. Raises MissionNotFound, MissionRunning, StorageError."""
    record = await mission(handles, robot, mission_id)
    if record.ended_at is None:
        raise MissionRunning("This mission has not ended.", "Stop it first.")
    await handles.poi_store.delete_mission(record.id)


async def add_poi(
    handles: Handles, robot: Robot, label: str, x: float | None, y: float | None
) -> Poi:
    """Store a place: the point given in the map [m], or where the robot is.

    It lies on the saved map that the running one has its coordinates from, if there is one.

    Raises:
        InvalidRequest, InvalidLabel, NotAvailable, NotLocalised.
    """
    if (x is None) != (y is None):
        raise InvalidRequest(
            "Only one of x and y was given.", "Give both [m], or neither to take the robot's place."
        )
    if x is None or y is None:
        pose = await current_pose(robot)
        x, y = pose.x, pose.y
    saved = await map_in_force(handles, robot)
    return await handles.poi_store.add(robot.name, label, x, y, map_id=saved.id if saved else None)


async def check_place(handles: Handles, robot: Robot, poi: Poi) -> None:
    """Raise MapNotLoaded if a place's coordinates are not those of the running map."""
    await _check_place_on(handles, await map_in_force(handles, robot), poi)


async def _check_place_on(handles: Handles, saved: SavedMap | None, poi: Poi) -> None:
    if poi.map_id == (saved.id if saved else None):
        return
    if poi.map_id is None:
        raise MapNotLoaded(
            f"The place {poi.label[:60]!r} lies on a map that was not saved and is gone.",
            "Delete the place, and name it again on this map.",
        )
    own = await handles.poi_store.get_map(poi.map_id)
    if saved is None or own.frame != saved.frame:
        raise MapNotLoaded(
            f"The place {poi.label[:60]!r} lies on the saved map {own.name[:60]!r}, which is not loaded."
        )


async def get_poi(handles: Handles, robot: Robot, poi_id: str) -> Poi:
    """Return a place of this robot. Raises PoiNotFound, also for one of another robot."""
    poi = await handles.poi_store.get(poi_id)
    if poi.robot != robot.name:
        raise PoiNotFound()
    return poi


async def find_poi(handles: Handles, robot: Robot, name: str) -> Poi:
    """Return the place with this id or label (case does not matter). Raises PoiNotFound, InvalidRequest."""
    pois = await handles.poi_store.list_pois(robot.name)
    wanted = name.strip().casefold()
    found = [poi for poi in pois if poi.id == name]
    found = found or [poi for poi in pois if poi.label.strip().casefold() == wanted]
    if not found:
        near = await asyncio.to_thread(_near, wanted, pois)
        hint = f"Near it: {', '.join(repr(label) for label in near)}. " if near else ""
        raise PoiNotFound(
            f"There is no place called {name[:200]!r}.", f"{hint}list_pois lists them all."
        )
    if len(found) > 1:
        raise InvalidRequest(
            f"{len(found)} places are called {name[:200]!r}.",
            f"Give an id: {', '.join(poi.id for poi in found[:10])}.",
        )
    return found[0]


def _near(wanted: str, pois: Iterable[Poi]) -> list[str]:
    """Return the labels, three at most, that may have been meant: like it, or with all of it or a word of it within."""
    wanted = wanted[:MAX_COMPARED]
    labels = {poi.label.strip().casefold()[:MAX_COMPARED]: poi.label for poi in pois}
    words = {word for word in wanted.split() if len(word) > 2}
    like = difflib.get_close_matches(wanted, labels, n=3, cutoff=0.6)
    within = [key for key in labels if (wanted and wanted in key) or words & set(key.split())]
    return [labels[key] for key in dict.fromkeys((*like, *within))][:3]


async def save_map(handles: Handles, robot: Robot, name: str) -> SavedMap:
    """Keep the map as it is now. Raises NoMap, InvalidLabel, MapNameTaken, StorageError."""
    return await handles.poi_store.save_map(robot.name, name, await robot.mapper.export_map())


async def get_map(handles: Handles, robot: Robot, map_id: str) -> SavedMap:
    """Return what is known of a saved map of this robot. Raises MapNotFound, also for one of another robot."""
    saved = await handles.poi_store.get_map(map_id)
    if saved.robot != robot.name:
        raise MapNotFound()
    return saved


async def map_in_force(handles: Handles, robot: Robot) -> SavedMap | None:
    """Return the saved map whose coordinates the running map has, None when there is none."""
    stats = await robot.mapper.stats()
    return await handles.poi_store.map_in_force(robot.name, int(stats["frame_epoch"]))


async def load_map(
    handles: Handles, robot: Robot, map_id: str, pose: Pose2D | None, client: str
) -> tuple[SavedMap, int]:
    """Stop the robot, and have it go on with a saved map; return the map and the mapper's new epoch.

    Goal and mission are given up first: where they lead was said on the other map.

    Args:
        handles: of the deployment.
        robot: whose map is replaced.
        map_id: of the saved map.
        pose: roughly where the robot stands on it; None: it may be anywhere.
        client: who asks.

    Raises:
        MapNotFound, MapFileInvalid (its files are damaged), StorageError: the robot was not stopped.
        MapTooLarge: for this mapper; the robot was stopped.
        RobotMoves: it was stopped and does not stand; the map is the one before.
    """
    saved = await get_map(handles, robot, map_id)
    content = await handles.poi_store.open_map(saved.id)
    await stop(robot, client)
    await _wait_until_it_stands(robot)
    epoch = await robot.mapper.load_map(content.occupancy, content.geometry, pose, content.voxels)
    await stop(robot, client)  # what was begun meanwhile was begun on the other map
    await handles.poi_store.note_loaded(robot.name, saved.id, epoch)
    return saved, epoch


async def _wait_until_it_stands(robot: Robot) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + STAND_PATIENCE_S
    while True:
        odometry = (await robot.platform.status()).odometry
        if odometry is None:
            return  # it cannot have moved
        twist = odometry.twist
        if math.hypot(twist.vx, twist.vy) < STANDS_BELOW[0] and abs(twist.omega) < STANDS_BELOW[1]:
            return
        if loop.time() >= end:
            raise RobotMoves()
        await asyncio.sleep(0.05)
