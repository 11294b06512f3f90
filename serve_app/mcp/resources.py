"""MCP resources (state, map and places to read along) and prompts."""

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Annotated, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError
from pydantic import Field

from rhino_actors.errors import PoiNotFound, RhinoError, RobotNotFound
from serve_app import commands
from serve_app.handles import Handles
from serve_app.mcp.texts import DRIVING
from serve_app.mcp.tools import Tools
from serve_app.schemas import PoiModel

P = ParamSpec("P")
R = TypeVar("R")

_JSON = "application/json"


def robots_sentence(handles: Handles) -> str:
    """Return one sentence that names the robots, for the instructions."""
    first, *others = handles.robots
    if not others:
        return f"There is one robot, {first}."
    return f"Robots: {', '.join(handles.robots)}; without the argument robot, {first} is meant."


def add_resources(server: MCPServer, handles: Handles, tools: Tools) -> None:
    """Add the resources of the first robot, and templates for those of each."""

    async def robots() -> str:
        return json.dumps({"robots": list(handles.robots), "default": handles.robot().name})

    async def state(robot: str | None = None) -> str:
        return (await tools.get_robot_status(robot)).model_dump_json()

    async def map_image(robot: str | None = None) -> bytes:
        return (await tools.map_picture(robot))[0]

    async def pois(robot: str | None = None) -> str:
        found = await tools.list_pois(robot)
        return json.dumps([poi.model_dump(mode="json") for poi in found], ensure_ascii=False)

    async def place(name: str, robot: str | None = None) -> str:
        found = await commands.find_poi(handles, handles.robot(robot), name)
        return PoiModel.model_validate(found).model_dump_json()

    of_first = "of the first robot"
    server.resource("rhino://robots", mime_type=_JSON, description="names of the robots")(
        _readable(robots)
    )
    server.resource(
        "rhino://state", mime_type=_JSON, description=f"pose, posture, goal, mission {of_first}"
    )(_first(state))
    server.resource("rhino://map", mime_type="image/png", description=f"map from above {of_first}")(
        _first(map_image)
    )
    server.resource("rhino://pois", mime_type=_JSON, description=f"named places {of_first}")(
        _first(pois)
    )

    @server.resource(
        "rhino://pois/{poi}", name="poi", mime_type=_JSON, description="a place, by label or id"
    )
    @_readable
    async def poi_of_first(poi: str) -> str:
        return await place(poi)

    @server.resource(
        "rhino://robots/{robot}/pois/{poi}",
        name="robot_poi",
        mime_type=_JSON,
        description="as rhino://pois/{poi}, of a robot by name",
    )
    @_readable
    async def poi_of_named(robot: str, poi: str) -> str:
        return await place(poi, robot)

    for name, mime_type, read in (
        ("state", _JSON, state),
        ("map", "image/png", map_image),
        ("pois", _JSON, pois),
    ):
        server.resource(
            f"rhino://robots/{{robot}}/{name}",
            name=f"robot_{name}",
            mime_type=mime_type,
            description=f"as rhino://{name}, of a robot by name",
        )(_of_named(read))


def add_prompts(server: MCPServer, handles: Handles) -> None:
    """Add what explains the robot and how to drive it safely."""

    @server.prompt(
        title="Drive the robot safely",
        description="what the robot is, how to drive it safely, and what refusals mean",
    )
    def drive_robot(
        task: Annotated[str, Field(max_length=2000, description="what to do with it")] = "",
    ) -> str:
        names = ", ".join(handles.robots)
        text = DRIVING.format(robots=f"the Unitree Go2 {names}")
        return f"{text}\nThe task: {task}\n" if task.strip() else text


def _readable(read: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R]]:
    """Hand a RhinoError to the client as code, sentence and hint."""

    @functools.wraps(read)
    async def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return await read(*args, **kwargs)
        except (PoiNotFound, RobotNotFound) as error:
            raise ResourceNotFoundError(str(error)) from error
        except RhinoError as error:
            raise ResourceError(str(error)) from error

    return call


def _first(read: Callable[[], Awaitable[R]]) -> Callable[[], Awaitable[R]]:
    """Return the reading of the first robot: no parameter, so that the resource is none of a template."""

    async def call() -> R:
        return await read()

    call.__name__ = read.__name__
    return _readable(call)


def _of_named(read: Callable[[str], Awaitable[R]]) -> Callable[[str], Awaitable[R]]:
    async def call(robot: str) -> R:
        return await read(robot)

    return _readable(call)
