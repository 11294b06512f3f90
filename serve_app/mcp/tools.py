"""MCP tools: what an assistant can do and see. They do the same acts as the REST routes, with an agent's rank.

A refusal is a tool error that reads `CODE: what is wrong. What to do.`
"""

import asyncio
import functools
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, ParamSpec, TypeVar

from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.tools import Tool
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field, create_model
from starlette.requests import Request

from rhino_actors.errors import (
    ActorUnavailable,
    ControlHeld,
    NotAvailable,
    NotLocalised,
    RhinoError,
)
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.navigation import NavStatus, Rank
from serve_app import commands
from serve_app.camera_feed import CameraFeed
from serve_app.clients import HEADER, assistant_name, from_header
from serve_app.handles import Handles, Robot
from serve_app.images import jpeg_within, map_png_within
from serve_app.map_view import MapView, overlay_of, place_on
from serve_app.refusals import RefusalLog
from serve_app.schemas import (
    Gate,
    Mission,
    Nav,
    PoiModel,
    Pose,
    SportResponse,
    StateEvent,
    StopResponse,
    VelocityResponse,
)
from serve_app.streams import StreamLimit

MAX_SIDE_PX = 1024
MAX_IMAGE_BYTES = 200_000
MAX_WAIT_S = 120.0
CAMERA_WAIT_S = 2.0

P = ParamSpec("P")
R = TypeVar("R")

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]  # no text, no truth value
Wait = Annotated[
    Number,
    Field(ge=0.0, le=MAX_WAIT_S, description="[s] to wait for the end; 0 returns at once"),
]

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


class NavReport(Nav):
    """How a goal goes."""

    ended: bool = Field(description="false: it is still under way; ask get_nav_status again")
    exploring: bool = Field(False, description="the explorer sets the goals")


class Observation(BaseModel):
    """What the picture is."""

    seq: int
    age: float = Field(description="[s] when it was read")
    width: int = Field(description="[px]")
    height: int = Field(description="[px]")
    robot: Pose | None = Field(description="where the robot was, in the map; null: not known")


class MapPicture(BaseModel):
    """Where the picture lies: x = left_x + column / pixels_per_metre, y = top_y - row / pixels_per_metre."""

    left_x: float = Field(description="[m] of the left edge")
    top_y: float = Field(description="[m] of the upper edge")
    pixels_per_metre: float
    known_area: float = Field(description="[m2] of the floor and walls that were seen")
    empty: bool = Field(description="true before the first scan")
    robot: Pose | None
    legend: str = (
        "white: free, black: obstacle, grey: never seen, green arrow: robot, blue line: path, "
        "orange ring: goal"
    )


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
    """Return the tool error that reads as the error does: code, sentence, hint."""
    return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)


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
    """The tools over one deployment; they mean its default robot."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._maps = MapView(handles.robot())
        self._camera = CameraFeed(handles.robot())
        self._waits = StreamLimit(handles.server.max_streams)

    @property
    def _robot(self) -> Robot:
        return self._handles.robot()

    def every(self) -> list[Tool]:
        """Return every tool. Those that end a movement take any argument: a stop is not refused for its form."""
        log = RefusalLog()
        kinds: tuple[tuple[ToolAnnotations, tuple[Callable[..., Awaitable[Any]], ...]], ...] = (
            (_READ_ONLY, (self.get_robot_status, self.observe, self.get_map)),
            (_READ_ONLY, (self.get_nav_status, self.list_pois)),
            (_MOVES, (self.navigate_to, self.relative_move, self.send_velocity, self.go_to_poi)),
            (_MOVES, (self.explore, self.standup, self.liedown, self.execute_sport)),
            (_ENDS, (self.stop, self.cancel_navigation, self.stop_explore)),
            (_NOTES, (self.tag_poi,)),
        )
        tools: list[Tool] = []
        for annotations, functions in kinds:
            for function in functions:
                tool = Tool.from_function(with_refusals(function, log), annotations=annotations)
                tools.append(tool if annotations is _ENDS else _closed(tool))
        return tools

    async def get_robot_status(self) -> StateEvent:
        """Return pose, posture, battery, who drives, the goal, the mission, and how old the sensors' data are."""
        state = await commands.read_state(self._robot)
        return StateEvent(**{name: getattr(state, name) for name in StateEvent.model_fields})

    async def observe(self) -> Annotated[CallToolResult, Observation]:
        """Look through the front camera: returns the newest picture and its age."""
        with self._waits.slot():
            view = await self._camera.look(0, CAMERA_WAIT_S)
        assert view is not None, "without newer_than there is a frame, or an error"
        try:
            jpeg, width, height = await asyncio.to_thread(
                jpeg_within, view.frame.jpeg, max_side=MAX_SIDE_PX, max_bytes=MAX_IMAGE_BYTES
            )
        except ValueError as error:
            raise NotAvailable(f"The picture cannot be shown: {error}.") from error
        pose = await self._pose()
        seen = Observation(
            seq=view.frame.seq,
            age=view.age,
            width=width,
            height=height,
            robot=Pose.model_validate(pose) if pose else None,
        )
        return _with_image(Image(data=jpeg, format="jpeg"), seen)

    async def get_map(self) -> Annotated[CallToolResult, MapPicture]:
        """Return the map from above, up being +y, with the robot, its path and its goal drawn."""
        snapshot = await self._maps.snapshot()
        odom_pose, nav = await self._maps.overlay()
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
        shown = MapPicture(
            left_x=geometry.origin[0],
            top_y=geometry.origin[1] + geometry.shape[0] * geometry.resolution,
            pixels_per_metre=per_cell / geometry.resolution,
            known_area=snapshot.known_area,
            empty=snapshot.is_empty,
            robot=Pose.model_validate(pose) if pose else None,
        )
        return _with_image(Image(data=png, format="png"), shown)

    async def navigate_to(
        self,
        x: Annotated[Number, Field(description="[m] in the map")],
        y: Annotated[Number, Field(description="[m] in the map")],
        ctx: Context[Any, Any],
        yaw: Annotated[
            Number | None,
            Field(description="[rad] heading at the goal; none: any"),
        ] = None,
        wait_s: Wait = 0.0,
    ) -> NavReport:
        """Drive to a point around obstacles. Returns at once unless wait_s is given: poll get_nav_status."""
        client = agent_name(ctx)
        nav = await commands.navigate(self._robot, x, y, yaw, client=client, rank=Rank.AGENT)
        return await self._watched(nav, wait_s, client, ctx)

    async def relative_move(
        self,
        ctx: Context[Any, Any],
        forward: Annotated[Number, Field(description="[m]; negative: back")] = 0.0,
        left: Annotated[Number, Field(description="[m]; negative: right")] = 0.0,
        degrees: Annotated[Number, Field(description="turn counter-clockwise (left)")] = 0.0,
        wait_s: Wait = 30.0,
    ) -> NavReport:
        """Move to a pose given from where the robot stands and looks now, and wait for the end."""
        client = agent_name(ctx)
        nav = await commands.move_by(
            self._robot, forward, left, math.radians(degrees), client=client, rank=Rank.AGENT
        )
        return await self._watched(nav, wait_s, client, ctx)

    async def send_velocity(
        self,
        ctx: Context[Any, Any],
        vx: Annotated[Number, Field(description="[m/s] forward")] = 0.0,
        vy: Annotated[Number, Field(description="[m/s] left")] = 0.0,
        omega: Annotated[Number, Field(description="[rad/s] counter-clockwise")] = 0.0,
        duration: Annotated[
            Number, Field(gt=0.0, le=commands.MAX_DRIVE_S, description="[s], then it stops")
        ] = 1.0,
    ) -> VelocityResponse:
        """Drive at a velocity for a few seconds, then stop. Prefer relative_move: it avoids obstacles."""
        twist = Twist2D(vx, vy, omega)
        return VelocityResponse.model_validate(
            await commands.drive_for(self._robot, twist, duration, agent_name(ctx), Rank.AGENT)
        )

    async def get_nav_status(self) -> NavReport:
        """Return how the present goal goes, or how the last one ended."""
        status = await commands.navigation(self._robot)
        return NavReport(
            **{name: getattr(status, name) for name in Nav.model_fields},
            ended=not status.state.is_active,
            exploring=status.exploring,
        )

    async def cancel_navigation(self, ctx: Context[Any, Any]) -> NavReport:
        """Give up the goal; the robot stands."""
        return _report(await self._robot.planner.cancel(agent_name(ctx)))

    async def stop(self, ctx: Context[Any, Any]) -> StopResponse:
        """Stop the robot at once and give up goal and mission. Always allowed."""
        stopped = await commands.stop(self._robot, agent_name(ctx))
        return StopResponse(
            gate=Gate.model_validate(stopped.gate),
            goal_cancelled=stopped.goal_cancelled,
            mission_stopped=stopped.mission_stopped,
        )

    async def explore(self, ctx: Context[Any, Any]) -> Mission:
        """Drive around until the whole place is mapped. Returns at once: poll get_robot_status for the mission."""
        return Mission.model_validate(await self._robot.explorer.start(agent_name(ctx), Rank.AGENT))

    async def stop_explore(self, ctx: Context[Any, Any]) -> Mission:
        """End the exploration; the robot stands."""
        return Mission.model_validate(await self._robot.explorer.stop(agent_name(ctx)))

    async def standup(self, ctx: Context[Any, Any]) -> SportResponse:
        """Make the robot stand up; it must stand to walk."""
        return await self._sport("StandUp", ctx)

    async def liedown(self, ctx: Context[Any, Any]) -> SportResponse:
        """Make the robot lie down."""
        return await self._sport("StandDown", ctx)

    async def execute_sport(
        self,
        command: Annotated[
            str, Field(max_length=64, description="Hello, Stretch, Sit, RiseSit, Dance1, ...")
        ],
        ctx: Context[Any, Any],
        roll: Annotated[Number | None, Field(description="[rad] of Pose and Euler")] = None,
        pitch: Annotated[Number | None, Field(description="[rad] of Pose and Euler")] = None,
        yaw: Annotated[Number | None, Field(description="[rad] of Pose and Euler")] = None,
        height: Annotated[Number | None, Field(description="[m] of Pose")] = None,
    ) -> SportResponse:
        """Carry out a sport command by name; an unknown one is refused with the list of those that exist.

        Pose and Euler lean the standing body by roll (right side down), pitch (nose down), yaw (left) and height.
        """
        numbers = {"roll": roll, "pitch": pitch, "yaw": yaw, "height": height}
        given = {name: value for name, value in numbers.items() if value is not None}
        return await self._sport(command, ctx, given)

    async def tag_poi(
        self,
        label: Annotated[str, Field(description="name of the place, 1 to 200 characters")],
        x: Annotated[Number | None, Field(description="[m] in the map")] = None,
        y: Annotated[Number | None, Field(description="[m] in the map")] = None,
    ) -> PoiModel:
        """Name a place: the point given, or where the robot is now."""
        poi = await commands.add_poi(self._handles, self._robot, label, x, y)
        return PoiModel.model_validate(poi)

    async def list_pois(self) -> list[PoiModel]:
        """List the named places."""
        pois = await self._handles.poi_store.list_pois(self._robot.name)
        return [PoiModel.model_validate(poi) for poi in pois]

    async def go_to_poi(
        self,
        poi: Annotated[str, Field(description="label or id of the place")],
        ctx: Context[Any, Any],
        wait_s: Wait = 0.0,
    ) -> NavReport:
        """Drive to a named place. Returns at once unless wait_s is given: poll get_nav_status."""
        place = await commands.find_poi(self._handles, self._robot, poi)
        await commands.check_place(self._handles, self._robot, place)
        return await self.navigate_to(place.x, place.y, ctx, None, wait_s)

    async def _pose(self) -> Pose2D | None:
        """Return where the robot is in the map, None while that is not known."""
        try:
            return await commands.current_pose(self._robot)
        except (ActorUnavailable, NotAvailable, NotLocalised):
            return None

    async def _sport(
        self, command: str, ctx: Context[Any, Any], parameters: Mapping[str, float] | None = None
    ) -> SportResponse:
        return SportResponse.model_validate(
            await commands.sport(self._robot, command, agent_name(ctx), Rank.AGENT, parameters)
        )

    async def _watched(
        self, nav: NavStatus, wait_s: float, client: str, ctx: Context[Any, Any]
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

        return _report(
            await commands.wait_for_goal(self._robot, nav.goal_id, wait_s, client, progress)
        )


def _closed(tool: Tool) -> Tool:
    """Make the tool refuse arguments that it does not know: one that is misspelt must not count as left out."""
    known = tool.fn_metadata.arg_model
    closed = create_model(known.__name__, __base__=known, __cls_kwargs__={"extra": "forbid"})
    tool.fn_metadata.arg_model = closed
    tool.parameters = closed.model_json_schema(by_alias=True)
    return tool


def _report(nav: NavStatus) -> NavReport:
    return NavReport(**dict(Nav.model_validate(nav)), ended=not nav.state.is_active)


def _with_image(image: Image, described: BaseModel) -> CallToolResult:
    text = TextContent(type="text", text=described.model_dump_json())
    return CallToolResult(
        content=[image.to_image_content(), text],
        structured_content=described.model_dump(mode="json"),
    )
