"""MCP tools: what an assistant can do and see. They do the same acts as the REST routes, with an agent's rank.

A refusal is a tool error that reads `CODE: what is wrong. What to do.`
"""

import asyncio
import functools
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request

from rhino_actors.errors import (
    ActorUnavailable,
    ControlHeld,
    InvalidRequest,
    NotAvailable,
    NotLocalised,
    RhinoError,
)
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.missions import (
    ExploreRequest,
    MissionLimits,
    MissionStatus,
    PatrolPoint,
    PatrolRequest,
    PatrolRouter,
)
from rhino_actors.messages.navigation import NavStatus, Rank
from rhino_actors.messages.platform import VelocityAnswer
from serve_app import commands
from serve_app.camera_feed import CameraFeed
from serve_app.clients import HEADER, assistant_name, from_header
from serve_app.handles import Handles, Robot
from serve_app.images import jpeg_within, map_png_within
from serve_app.map_view import MapView, overlay_of, place_on
from serve_app.mcp.arguments import (
    AnyRobot,
    Heading,
    Listed,
    Number,
    RobotName,
    WholeNumber,
    forgiving,
)
from serve_app.mcp.results import (
    MapPicture,
    MissionProgress,
    NavReport,
    Observation,
    StopReport,
    VelocityReport,
)
from serve_app.refusals import RefusalLog
from serve_app.schemas import (
    Gate,
    Mission,
    Nav,
    PoiModel,
    Pose,
    SportResponse,
    StateEvent,
    VelocityResponse,
    map_state,
)
from serve_app.streams import StreamLimit

MAX_SIDE_PX = 1024
MAX_IMAGE_BYTES = 200_000
MAX_WAIT_S = 120.0
CAMERA_WAIT_S = 2.0

P = ParamSpec("P")
R = TypeVar("R")

Wait = Annotated[
    Number,
    Field(ge=0.0, le=MAX_WAIT_S, description="[s] to wait for the end; 0 returns at once"),
]
Area = Annotated[
    list[tuple[Number, Number]],
    Field(
        max_length=1000,
        description="corners [x, y] [m] in the map of the area to keep to; two are opposite corners of a rectangle; "
        "left out: everything",
    ),
]
MaxTime = Annotated[Number | None, Field(description="[s] after which the mission ends")]
MaxDistance = Annotated[Number | None, Field(description="[m] driven after which it ends")]
MinBattery = Annotated[Number | None, Field(description="[%] of battery below which it ends")]
ReturnHome = Annotated[bool, Field(description="drive back to where it started before it ends")]

_READ_ONLY = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_MOVES = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
_ENDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_NOTES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_TITLES = {
    "get_robot_status": "Robot status",
    "observe": "Look through the camera",
    "get_map": "Map from above",
    "get_nav_status": "How the goal goes",
    "get_mission_status": "How the mission goes",
    "list_pois": "Named places",
    "navigate_to": "Drive to a point",
    "relative_move": "Move from here",
    "send_velocity": "Drive at a velocity",
    "go_to_poi": "Drive to a named place",
    "explore": "Explore",
    "start_patrol": "Start a patrol",
    "resume_mission": "Go on with the mission",
    "standup": "Stand up",
    "liedown": "Lie down",
    "execute_sport": "Posture or trick",
    "stop": "Stop",
    "cancel_navigation": "Give up the goal",
    "pause_mission": "Pause the mission",
    "stop_explore": "End the exploration",
    "stop_patrol": "End the patrol",
    "tag_poi": "Name a place",
}


# In `_meta` of a refusal.
CODE_KEY, HOLDER_KEY = "rhino/code", "rhino/holder"


class PointOfPatrol(BaseModel):
    """A point to visit."""

    model_config = ConfigDict(extra="forbid")

    x: Number = Field(description="[m] in the map")
    y: Number = Field(description="[m] in the map")
    yaw_rad: Heading | None = Field(None, description="[rad] to look to; left out: as it arrives")
    dwell: Number | None = Field(None, description="[s] to stand there")
    label: str = Field("", max_length=200)


def with_refusals(
    function: Callable[P, Awaitable[R]], log: RefusalLog
) -> Callable[P, Awaitable[R | CallToolResult]]:
    """Hand a RhinoError to the assistant as code, sentence and hint, and log it; anything else is logged as a crash.

    The result is made here, since the SDK puts words of its own before the text of a ToolError.
    """

    @functools.wraps(function)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R | CallToolResult:
        try:
            return await function(*args, **kwargs)
        except RhinoError as error:
            context = kwargs.get("ctx")
            log.write(
                logging.ERROR if isinstance(error, ActorUnavailable) else logging.INFO,
                agent_name(context) if isinstance(context, Context) else "assistant",
                function.__name__,
                error.code,
                error.message,
                error.holder if isinstance(error, ControlHeld) else "",
            )
            return refusal(error)

    return call


def refusal(error: RhinoError) -> CallToolResult:
    """Return the tool error that reads as the error does: code, sentence, hint; for programs, the code alone too."""
    meta = {CODE_KEY: error.code}
    if isinstance(error, ControlHeld) and error.holder:
        meta[HOLDER_KEY] = error.holder
    return CallToolResult(
        content=[TextContent(type="text", text=str(error))], is_error=True, _meta=meta
    )


def agent_name(context: Context[Any, Any]) -> str:
    """Return the name that others see; `clients.assistant_name` says who can be told apart by it."""
    given = context.headers.get(HEADER) if context.headers else None
    params = context.request_context.session.client_params
    request = context.request_context.request
    peer = request.client if isinstance(request, Request) else None
    return assistant_name(
        from_header(given) if given else None,
        params.client_info.name if params else None,
        peer.host if peer else None,
    )


class Tools:
    """The tools over one deployment; without a robot's name they mean its first."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._maps = {name: MapView(robot) for name, robot in handles.robots.items()}
        self._cameras = {name: CameraFeed(robot) for name, robot in handles.robots.items()}
        self._waits = StreamLimit(handles.server.max_streams)

    def every(self) -> list[Tool]:
        """Return every tool. Those that end a movement take any argument: a stop is not refused for its form."""
        log = RefusalLog()
        kinds: tuple[tuple[ToolAnnotations, tuple[Callable[..., Awaitable[Any]], ...]], ...] = (
            (_READ_ONLY, (self.get_robot_status, self.observe, self.get_map)),
            (_READ_ONLY, (self.get_nav_status, self.get_mission_status, self.list_pois)),
            (_MOVES, (self.navigate_to, self.relative_move, self.send_velocity, self.go_to_poi)),
            (_MOVES, (self.explore, self.start_patrol, self.resume_mission)),
            (_MOVES, (self.standup, self.liedown, self.execute_sport)),
            (_ENDS, (self.stop, self.cancel_navigation, self.pause_mission)),
            (_ENDS, (self.stop_explore, self.stop_patrol)),
            (_NOTES, (self.tag_poi,)),
        )
        tools: list[Tool] = []
        for annotations, functions in kinds:
            for function in functions:
                tool = Tool.from_function(
                    with_refusals(function, log),
                    title=_TITLES[function.__name__],
                    annotations=annotations,
                )
                tools.append(forgiving(tool, closed=annotations is not _ENDS))
        return tools

    # what it sees

    async def get_robot_status(self, robot: RobotName = None) -> StateEvent:
        """Return pose, posture, battery, who drives, the goal, the mission, and how old the sensors' data are."""
        state = await commands.read_state(self._robot(robot))
        return StateEvent(**{name: getattr(state, name) for name in StateEvent.model_fields})

    async def observe(self, robot: RobotName = None) -> Annotated[CallToolResult, Observation]:
        """Look through the front camera: returns the newest picture and its age."""
        looks = self._robot(robot)
        with self._waits.slot():
            view = await self._cameras[looks.name].look(0, CAMERA_WAIT_S)
        assert view is not None, "without newer_than there is a frame, or an error"
        try:
            jpeg, width, height = await asyncio.to_thread(
                jpeg_within, view.frame.jpeg, max_side=MAX_SIDE_PX, max_bytes=MAX_IMAGE_BYTES
            )
        except ValueError as error:
            raise NotAvailable(f"The picture cannot be shown: {error}.") from error
        pose = await _pose(looks)
        seen = Observation(
            seq=view.frame.seq,
            age=view.age,
            width=width,
            height=height,
            robot=Pose.model_validate(pose) if pose else None,
        )
        return _with_image(Image(data=jpeg, format="jpeg"), seen)

    async def get_map(self, robot: RobotName = None) -> Annotated[CallToolResult, MapPicture]:
        """Return the map from above, up being +y, with the robot, its path and its goal drawn."""
        png, shown = await self.map_picture(robot)
        return _with_image(Image(data=png, format="png"), shown)

    async def map_picture(self, robot: str | None) -> tuple[bytes, MapPicture]:
        """Return the map as PNG within the limits of a picture, and where it lies. Raises RhinoError."""
        drawn = self._robot(robot)
        maps = self._maps[drawn.name]
        snapshot, (odom_pose, nav), age = await asyncio.gather(
            maps.snapshot(), maps.overlay(), _map_age(drawn)
        )
        path, goal = overlay_of(nav)
        pose = place_on(snapshot, odom_pose)

        def draw() -> tuple[bytes, float]:
            return map_png_within(
                snapshot,
                pose=pose,
                path=path,
                goal=goal,
                max_side=MAX_SIDE_PX,
                max_bytes=MAX_IMAGE_BYTES,
            )

        png, per_cell = await asyncio.to_thread(draw)
        geometry = snapshot.geometry
        return png, MapPicture(
            left_x=geometry.origin[0],
            top_y=geometry.origin[1] + geometry.shape[0] * geometry.resolution,
            pixels_per_metre=per_cell / geometry.resolution,
            width=int.from_bytes(png[16:20]),
            height=int.from_bytes(png[20:24]),
            age=age,
            known_area=snapshot.known_area,
            empty=snapshot.is_empty,
            robot=Pose.model_validate(pose) if pose else None,
        )

    # goals

    async def navigate_to(
        self,
        x: Annotated[Number, Field(description="[m] in the map")],
        y: Annotated[Number, Field(description="[m] in the map")],
        ctx: Context[Any, Any],
        yaw_rad: Annotated[
            Heading | None,
            Field(
                description="[rad] heading at the goal, counter-clockwise from +x; left out: any"
            ),
        ] = None,
        wait_s: Wait = 0.0,
        robot: RobotName = None,
    ) -> NavReport:
        """Drive to a point around obstacles. Returns at once unless wait_s is given: poll get_nav_status."""
        return await self._drive_to(self._robot(robot), x, y, yaw_rad, wait_s, ctx)

    async def relative_move(
        self,
        ctx: Context[Any, Any],
        forward: Annotated[Number, Field(description="[m]; negative: back")] = 0.0,
        left: Annotated[Number, Field(description="[m]; negative: right")] = 0.0,
        degrees: Annotated[Number, Field(description="turn counter-clockwise (left)")] = 0.0,
        wait_s: Wait = 30.0,
        robot: RobotName = None,
    ) -> NavReport:
        """Move to a pose given from where the robot stands and looks now, and wait for the end."""
        client, mover = agent_name(ctx), self._robot(robot)
        nav = await commands.move_by(
            mover, forward, left, math.radians(degrees), client=client, rank=Rank.AGENT
        )
        return await self._watched(mover, nav, wait_s, client, ctx)

    async def send_velocity(
        self,
        ctx: Context[Any, Any],
        vx: Annotated[Number, Field(description="[m/s] forward")] = 0.0,
        vy: Annotated[Number, Field(description="[m/s] left")] = 0.0,
        omega: Annotated[Number, Field(description="[rad/s] counter-clockwise")] = 0.0,
        duration: Annotated[
            Number, Field(gt=0.0, le=commands.MAX_DRIVE_S, description="[s], then it stops")
        ] = 1.0,
        robot: RobotName = None,
    ) -> VelocityReport:
        """Drive at a velocity for a few seconds, then stop. Prefer relative_move: it avoids obstacles.

        What is faster than the robot may go is clamped, and the answer says to what.
        """
        answer = await commands.drive_for(
            self._robot(robot), Twist2D(vx, vy, omega), duration, agent_name(ctx), Rank.AGENT
        )
        return VelocityReport(
            **dict(VelocityResponse.model_validate(answer)), note=_clamped(answer)
        )

    async def get_nav_status(self, robot: RobotName = None) -> NavReport:
        """Return how the present goal goes, or how the last one ended."""
        status = await commands.navigation(self._robot(robot))
        return NavReport(
            **{name: getattr(status, name) for name in Nav.model_fields},
            ended=not status.state.is_active,
            exploring=status.exploring,
        )

    async def cancel_navigation(self, ctx: Context[Any, Any], robot: AnyRobot = None) -> NavReport:
        """Give up the goal; the robot stands."""
        return _report(await self._any_robot(robot).planner.cancel(agent_name(ctx)))

    async def stop(self, ctx: Context[Any, Any], robot: AnyRobot = None) -> StopReport:
        """Stop at once and give up goal and mission: every robot, or the one that is named. Always allowed."""
        known = self._handles.robots
        robots = [self._any_robot(robot)] if self._is_known(robot) else list(known.values())
        client = agent_name(ctx)
        ends = await asyncio.gather(
            *(commands.stop(each, client) for each in robots), return_exceptions=True
        )
        report = StopReport(
            stopped=[], silent=[], goal_cancelled=False, mission_stopped=False, gates={}
        )
        for each, end in zip(robots, ends, strict=True):
            if isinstance(end, commands.Stopped):
                report.stopped.append(each.name)
                report.gates[each.name] = Gate.model_validate(end.gate)
                report.goal_cancelled |= end.goal_cancelled
                report.mission_stopped |= end.mission_stopped
            elif isinstance(end, RhinoError) and len(robots) > 1:
                report.silent.append(each.name)
            else:
                raise end
        return report

    # missions

    async def explore(
        self,
        ctx: Context[Any, Any],
        area: Area = [],  # noqa: B006  # pydantic copies it
        max_time: MaxTime = None,
        max_distance: MaxDistance = None,
        min_battery: MinBattery = None,
        return_home: ReturnHome = False,
        wait_s: Wait = 0.0,
        robot: RobotName = None,
    ) -> MissionProgress:
        """Drive around until the whole place, or an area of it, is mapped, or a limit is reached.

        Returns at once unless wait_s is given: poll get_mission_status.
        """
        client, explorer = agent_name(ctx), self._robot(robot)
        limits = MissionLimits(max_time, max_distance, min_battery, return_home)
        mission = await commands.explore(
            explorer, ExploreRequest(_corners(area), limits), client=client, rank=Rank.AGENT
        )
        return await self._watched_mission(explorer, mission, wait_s, client, ctx)

    async def start_patrol(
        self,
        ctx: Context[Any, Any],
        router: Annotated[
            Literal["coverage", "random", "frontier", "points"] | None,
            Field(
                description="coverage: what was longest unvisited; random; frontier: where visited floor borders "
                "unvisited; points: the given points in their order. Left out: points when there are any, else coverage"
            ),
        ] = None,
        points: Annotated[
            list[str | PointOfPatrol],
            Listed,
            Field(max_length=500, description="labels or ids of places, or points with x and y"),
        ] = [],  # noqa: B006  # pydantic copies it
        dwell: Annotated[Number, Field(description="[s] to stand at each goal")] = 0.0,
        loops: Annotated[
            WholeNumber | None,
            Field(ge=1, le=1_000_000, description="rounds; left out: until it is stopped"),
        ] = None,
        area: Area = [],  # noqa: B006  # pydantic copies it
        max_time: MaxTime = None,
        max_distance: MaxDistance = None,
        min_battery: MinBattery = None,
        return_home: ReturnHome = False,
        robot: RobotName = None,
    ) -> MissionProgress:
        """Go around: over the known floor, or from place to place. Returns at once: poll get_mission_status."""
        guard = self._robot(robot)
        request = PatrolRequest(
            router=PatrolRouter(router or ("points" if points else "coverage")),
            points=tuple([await self._point(guard, point) for point in points]),
            dwell=dwell,
            loops=loops,
            area=_corners(area),
            limits=MissionLimits(max_time, max_distance, min_battery, return_home),
        )
        return _progress(
            await commands.patrol(
                self._handles, guard, request, client=agent_name(ctx), rank=Rank.AGENT
            )
        )

    async def get_mission_status(self, robot: RobotName = None) -> MissionProgress:
        """Return how the exploration or the patrol goes, or how the last one ended."""
        return _progress(await self._robot(robot).explorer.status())

    async def pause_mission(
        self, ctx: Context[Any, Any], robot: AnyRobot = None
    ) -> MissionProgress:
        """Have the robot stand until the mission is resumed."""
        return _progress(await commands.pause_mission(self._any_robot(robot), agent_name(ctx)))

    async def resume_mission(
        self, ctx: Context[Any, Any], robot: RobotName = None
    ) -> MissionProgress:
        """Go on with the mission that was paused, by pause_mission or by a person who drove."""
        return _progress(await commands.resume_mission(self._robot(robot), agent_name(ctx)))

    async def stop_explore(self, ctx: Context[Any, Any], robot: AnyRobot = None) -> MissionProgress:
        """End the mission, be it an exploration or a patrol; the robot stands."""
        return _progress(await commands.stop_mission(self._any_robot(robot), agent_name(ctx)))

    async def stop_patrol(self, ctx: Context[Any, Any], robot: AnyRobot = None) -> MissionProgress:
        """End the mission, be it a patrol or an exploration; the robot stands."""
        return _progress(await commands.stop_mission(self._any_robot(robot), agent_name(ctx)))

    # postures

    async def standup(self, ctx: Context[Any, Any], robot: RobotName = None) -> SportResponse:
        """Make the robot stand up; it must stand to walk."""
        return await _sport(self._robot(robot), "StandUp", ctx)

    async def liedown(self, ctx: Context[Any, Any], robot: RobotName = None) -> SportResponse:
        """Make the robot lie down."""
        return await _sport(self._robot(robot), "StandDown", ctx)

    async def execute_sport(
        self,
        command: Annotated[
            str, Field(max_length=64, description="Hello, Stretch, Sit, RiseSit, Dance1, ...")
        ],
        ctx: Context[Any, Any],
        roll_rad: Annotated[Number | None, Field(description="[rad] of Pose and Euler")] = None,
        pitch_rad: Annotated[Number | None, Field(description="[rad] of Pose and Euler")] = None,
        yaw_rad: Annotated[Number | None, Field(description="[rad] of Pose and Euler")] = None,
        height: Annotated[Number | None, Field(description="[m] of Pose")] = None,
        robot: RobotName = None,
    ) -> SportResponse:
        """Carry out a sport command by name; an unknown one is refused with the list of those that exist.

        Pose and Euler lean the standing body by roll (right side down), pitch (nose down), yaw (left) and height.
        Flips and jumps are refused unless the configuration allows acrobatics.
        """
        numbers = {"roll": roll_rad, "pitch": pitch_rad, "yaw": yaw_rad, "height": height}
        given = {name: value for name, value in numbers.items() if value is not None}
        return await _sport(self._robot(robot), command, ctx, given)

    # places

    async def tag_poi(
        self,
        label: Annotated[str, Field(description="name of the place, 1 to 200 characters")],
        x: Annotated[Number | None, Field(description="[m] in the map")] = None,
        y: Annotated[Number | None, Field(description="[m] in the map")] = None,
        robot: RobotName = None,
    ) -> PoiModel:
        """Name a place: the point given, or where the robot is now."""
        poi = await commands.add_poi(self._handles, self._robot(robot), label, x, y)
        return PoiModel.model_validate(poi)

    async def list_pois(self, robot: RobotName = None) -> list[PoiModel]:
        """List the named places."""
        pois = await self._handles.poi_store.list_pois(self._robot(robot).name)
        return [PoiModel.model_validate(poi) for poi in pois]

    async def go_to_poi(
        self,
        poi: Annotated[str, Field(max_length=400, description="label or id of the place")],
        ctx: Context[Any, Any],
        wait_s: Wait = 0.0,
        robot: RobotName = None,
    ) -> NavReport:
        """Drive to a named place. Returns at once unless wait_s is given: poll get_nav_status."""
        goer = self._robot(robot)
        place = await commands.find_poi(self._handles, goer, poi)
        await commands.check_place(self._handles, goer, place)
        return await self._drive_to(goer, place.x, place.y, None, wait_s, ctx)

    def _robot(self, name: str | None) -> Robot:
        """Return the robot of this name, whatever its case, or the first. Raises RobotNotFound."""
        wanted = (name or "").strip().casefold()
        for known in self._handles.robots:
            if known.casefold() == wanted:
                return self._handles.robot(known)
        return self._handles.robot(name.strip() if name and wanted else None)

    def _is_known(self, name: object) -> bool:
        return isinstance(name, str) and name.strip().casefold() in (
            known.casefold() for known in self._handles.robots
        )

    def _any_robot(self, name: object) -> Robot:
        """Return the robot whose movement is to end: the only one there is, whatever was said."""
        if len(self._handles.robots) == 1 or not name:
            return self._handles.robot() if not self._is_known(name) else self._robot(str(name))
        return self._robot(str(name))

    async def _point(self, robot: Robot, point: str | PointOfPatrol) -> PatrolPoint:
        if isinstance(point, str):
            poi = await commands.find_poi(self._handles, robot, point)
            return PatrolPoint(poi.x, poi.y, poi_id=poi.id)
        return PatrolPoint(point.x, point.y, point.yaw_rad, point.dwell, point.label)

    async def _drive_to(
        self,
        robot: Robot,
        x: float,
        y: float,
        yaw: float | None,
        wait_s: float,
        ctx: Context[Any, Any],
    ) -> NavReport:
        client = agent_name(ctx)
        nav = await commands.navigate(robot, x, y, yaw, client=client, rank=Rank.AGENT)
        return await self._watched(robot, nav, wait_s, client, ctx)

    async def _watched(
        self, robot: Robot, nav: NavStatus, wait_s: float, client: str, ctx: Context[Any, Any]
    ) -> NavReport:
        if wait_s <= 0.0:
            return _report(nav)
        farthest = max(nav.distance_remaining, 0.01)
        told = -1.0

        async def progress(now: NavStatus) -> None:
            nonlocal farthest, told
            farthest = max(farthest, now.distance_remaining)
            done = farthest - now.distance_remaining
            if done > told:  # progress may only grow
                told = done
                await ctx.report_progress(
                    done, farthest, f"{now.state.value}, {now.distance_remaining:.1f} m to go"
                )

        return _report(await commands.wait_for_goal(robot, nav.goal_id, wait_s, client, progress))

    async def _watched_mission(
        self,
        robot: Robot,
        mission: MissionStatus,
        wait_s: float,
        client: str,
        ctx: Context[Any, Any],
    ) -> MissionProgress:
        if wait_s <= 0.0:
            return _progress(mission)
        told = -1.0

        async def progress(now: MissionStatus) -> None:
            nonlocal told
            if now.elapsed > told:  # progress may only grow
                told = now.elapsed
                await ctx.report_progress(
                    now.elapsed,
                    None,
                    f"{now.phase.value or now.state.value}, {now.known_area:.0f} m2 known, "
                    f"{now.distance:.0f} m driven",
                )

        return _progress(
            await commands.wait_for_mission(robot, mission.id, wait_s, client, progress)
        )


async def _pose(robot: Robot) -> Pose2D | None:
    """Return where the robot is in the map, None while that is not known."""
    try:
        return await commands.current_pose(robot)
    except (ActorUnavailable, NotAvailable, NotLocalised):
        return None


async def _map_age(robot: Robot) -> float | None:
    try:
        stats, status = await asyncio.gather(robot.mapper.stats(), robot.platform.status())
    except ActorUnavailable:
        return None
    return map_state(stats, status).age


async def _sport(
    robot: Robot,
    command: str,
    ctx: Context[Any, Any],
    parameters: Mapping[str, float] | None = None,
) -> SportResponse:
    return SportResponse.model_validate(
        await commands.sport(robot, command, agent_name(ctx), Rank.AGENT, parameters)
    )


def _clamped(answer: VelocityAnswer) -> str:
    """Return one sentence on what was slowed down to the robot's limits, empty when nothing was."""
    parts = [
        f"{name} {getattr(answer.requested, name):g} to {getattr(answer.applied, name):g} {unit}"
        for name, unit in (("vx", "m/s"), ("vy", "m/s"), ("omega", "rad/s"))
        if getattr(answer.requested, name) != getattr(answer.applied, name)
    ]
    return f"Clamped to the robot's limits: {', '.join(parts)}." if parts else ""


def _corners(area: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the outline of an area; two corners span a rectangle. Raises InvalidRequest."""
    if len(area) == 1:
        raise InvalidRequest(
            "The area has one corner.", "Give two opposite corners, or an outline."
        )
    if len(area) == 2:
        (x0, y0), (x1, y1) = area
        return ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
    return tuple(area)


def _report(nav: NavStatus) -> NavReport:
    return NavReport(**dict(Nav.model_validate(nav)), ended=not nav.state.is_active)


def _progress(mission: MissionStatus) -> MissionProgress:
    return MissionProgress(
        **dict(Mission.model_validate(mission)), ended=not mission.state.is_active
    )


def _with_image(image: Image, described: BaseModel) -> CallToolResult:
    text = TextContent(type="text", text=described.model_dump_json())
    return CallToolResult(
        content=[image.to_image_content(), text],
        structured_content=described.model_dump(mode="json"),
    )
