import asyncio
import base64
import json
import logging
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import cv2
import httpx2
import numpy as np
import pytest
import ray.exceptions as rx
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ImageContent, TextContent

from rhino_actors import errors
from rhino_actors.errors import GoalOccupied
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.missions import (
    ExploreRequest,
    MissionLimits,
    MissionState,
    PatrolRequest,
    PatrolRouter,
)
from rhino_actors.messages.navigation import GoalRequest, Rank
from serve_app.app import create_mcp, create_mcp_app
from serve_app.clients import assistant_name
from serve_app.handles import Handles
from serve_app.mcp import tools
from serve_app.mcp.tools import Tools
from serve_app.streams import TooManyStreams
from tests.api.world import Crowded, FakePlatform, World, jpeg, snapshot

TOOLS = {
    "send_velocity",
    "relative_move",
    "standup",
    "liedown",
    "execute_sport",
    "observe",
    "get_robot_status",
    "navigate_to",
    "get_nav_status",
    "cancel_navigation",
    "explore",
    "stop_explore",
    "start_patrol",
    "stop_patrol",
    "get_mission_status",
    "pause_mission",
    "resume_mission",
    "tag_poi",
    "list_pois",
    "go_to_poi",
    "stop",
    "get_map",
}


CODES = {getattr(kind, "code", "") for kind in vars(errors).values() if isinstance(kind, type)}
ENDS = {"stop", "cancel_navigation", "pause_mission", "stop_explore", "stop_patrol"}


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def agent(world: World) -> AsyncIterator[Client]:
    """A connected client, held open by one task: its cancel scopes do not like to change tasks."""
    connected: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
    done = asyncio.Event()

    async def hold() -> None:
        async with Client(create_mcp(world.handles())) as client:
            connected.set_result(client)
            await done.wait()

    holding = asyncio.create_task(hold())
    await asyncio.wait({holding, connected}, return_when=asyncio.FIRST_COMPLETED)
    if holding.done():
        holding.result()
    yield connected.result()
    done.set()
    await holding


async def call(agent: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await agent.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def refusal(agent: Client, name: str, **arguments: Any) -> str:
    result = await agent.call_tool(name, arguments)
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def image_of(result: CallToolResult) -> tuple[bytes, str]:
    (image,) = [part for part in result.content if isinstance(part, ImageContent)]
    return base64.b64decode(image.data), image.mime_type


async def test_every_tool_is_there_with_its_nature(agent: Client) -> None:
    tools = {tool.name: tool for tool in (await agent.list_tools()).tools}
    assert set(tools) == TOOLS
    for tool in tools.values():
        assert tool.title and tool.description and tool.output_schema, tool.name
        hints = tool.annotations
        assert hints is not None and None not in (
            hints.read_only_hint,
            hints.open_world_hint,
            hints.destructive_hint if not hints.read_only_hint else False,
            hints.idempotent_hint if not hints.read_only_hint else False,
        ), tool.name
        assert "robot" in tool.input_schema["properties"], tool.name
    read_only = {name for name, tool in tools.items() if tool.annotations.read_only_hint}
    assert read_only == {
        "observe",
        "get_robot_status",
        "get_nav_status",
        "get_mission_status",
        "list_pois",
        "get_map",
    }
    destructive = {name for name, tool in tools.items() if tool.annotations.destructive_hint}
    assert {
        "navigate_to",
        "send_velocity",
        "explore",
        "execute_sport",
        "start_patrol",
    } <= destructive
    assert not destructive & {"stop", "cancel_navigation", "stop_explore", "tag_poi"}
    idempotent = {name for name, tool in tools.items() if tool.annotations.idempotent_hint}
    assert idempotent == ENDS


async def test_parameters_say_their_unit(agent: Client) -> None:
    for tool in (await agent.list_tools()).tools:
        for name, schema in tool.input_schema["properties"].items():
            types = {schema.get("type"), *(each.get("type") for each in schema.get("anyOf", ()))}
            if "number" not in types:
                continue
            said = schema.get("description", "")
            assert name == "degrees" or said.startswith("["), f"{tool.name} {name}: {said!r}"
            assert ("rad]" in said) == name.endswith("_rad"), f"{tool.name} {name}"


async def test_status_is_structured(agent: Client) -> None:
    status = await call(agent, "get_robot_status")
    assert status["pose"]["x"] == 1.0 and status["status"]["posture"] == "standing"
    assert status["gate"]["holder"] == "" and "path" not in status


async def test_a_goal_is_an_agents(agent: Client, world: World) -> None:
    report = await call(agent, "navigate_to", x=3, y=4)
    assert report["goal_id"] == 1 and report["ended"] is False
    (request,) = world.planner.requests
    assert request.rank is Rank.AGENT and request.client.startswith("assistant")
    assert (await call(agent, "get_nav_status"))["state"] == "following"
    assert (await call(agent, "cancel_navigation"))["ended"] is True
    assert (await refusal(agent, "cancel_navigation")).startswith("NO_GOAL: ")


async def test_a_goal_can_be_waited_for_with_progress(agent: Client, world: World) -> None:
    world.planner.arrives = True
    report = await call(agent, "navigate_to", x=3, y=4, wait_s=5)
    assert report["state"] == "arrived" and report["ended"] is True


async def test_waiting_ends_at_its_limit_and_the_goal_goes_on(agent: Client, world: World) -> None:
    heard: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)

    result = await agent.call_tool(
        "navigate_to", {"x": 3, "y": 4, "wait_s": 0.25}, progress_callback=progress
    )
    assert result.structured_content is not None
    assert result.structured_content["ended"] is False
    assert world.planner.nav.state.is_active and heard == [0.0]


async def test_a_relative_move_starts_from_where_the_robot_looks(
    agent: Client, world: World
) -> None:
    world.platform.pose = Pose2D(1.0, 2.0, np.pi / 2)
    await call(agent, "relative_move", forward=1.0, left=0.5, degrees=90, wait_s=0)
    (request,) = world.planner.requests
    assert (request.x, request.y) == (pytest.approx(0.5), pytest.approx(3.0))
    assert abs(request.yaw or 0.0) == pytest.approx(np.pi)


async def test_refusals_carry_the_code_and_the_hint(
    agent: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "CAMERA_WAIT_S", 0.01)
    world.planner.error = GoalOccupied()
    text = await refusal(agent, "navigate_to", x=1, y=1)
    assert text.startswith("GOAL_OCCUPIED: ") and "clear floor" in text
    world.platform.holder, world.platform.rank = "ann", Rank.HUMAN
    assert (await refusal(agent, "send_velocity", vx=0.1)).startswith("CONTROL_HELD: ")
    assert (await refusal(agent, "execute_sport", command="Fly")).startswith("UNKNOWN_COMMAND: ")
    assert (await refusal(agent, "observe")).startswith("NOT_AVAILABLE: ")
    assert (await refusal(agent, "go_to_poi", poi="moon")).startswith("POI_NOT_FOUND: ")
    world.lost["planner"] = rx.ActorDiedError()
    assert (await refusal(agent, "get_nav_status")).startswith("ACTOR_UNAVAILABLE: ")


async def test_an_unforeseen_error_tells_no_details(agent: Client, world: World) -> None:
    world.planner.error = ZeroDivisionError("secret")
    assert "secret" not in await refusal(agent, "navigate_to", x=1, y=1)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("send_velocity", {"vx": float("nan")}),
        ("send_velocity", {"vx": "fast"}),
        ("send_velocity", {"vx": 0.1, "duration": 60}),
        ("send_velocity", {"vx": 0.1, "duration": 0}),
        ("navigate_to", {"x": 1}),
        ("navigate_to", {"x": float("inf"), "y": 0}),
        ("relative_move", {"degrees": float("nan")}),
        ("navigate_to", {"x": 1, "y": 1, "wait_s": 1e6}),
    ],
)
async def test_bad_arguments_move_nothing(
    agent: Client, world: World, tool: str, arguments: dict[str, Any]
) -> None:
    result = await agent.call_tool(tool, arguments)
    assert result.is_error
    assert world.platform.twists == [] and world.planner.requests == []


async def test_a_velocity_is_kept_up_then_stopped_and_let_go(agent: Client, world: World) -> None:
    answer = await call(agent, "send_velocity", vx=5.0, duration=0.35)
    assert answer["applied"]["vx"] == 1.0 and answer["clamped"] is True
    assert answer["note"] == "Clamped to the robot's limits: vx 5 to 1 m/s."
    sent = [twist.vx for twist, _, _ in world.platform.twists]
    assert sent[:-1] == [1.0] * (len(sent) - 1) and len(sent) >= 4 and sent[-1] == 0.0
    assert {rank for _, _, rank in world.platform.twists} == {Rank.AGENT}
    assert world.platform.holder == ""


async def test_a_person_who_takes_over_ends_the_agents_drive(agent: Client, world: World) -> None:
    driving = asyncio.create_task(refusal(agent, "send_velocity", vx=0.2, duration=3))
    await asyncio.sleep(0.15)
    await world.platform.claim("ann", Rank.HUMAN)
    assert (await driving).startswith("CONTROL_HELD: ")
    assert world.platform.holder == "ann"


@pytest.mark.parametrize("end", ["stop", "estop"])
async def test_a_stop_by_anyone_ends_the_agents_drive_at_once(
    agent: Client, world: World, end: str
) -> None:
    driving = asyncio.create_task(refusal(agent, "send_velocity", vx=0.2, duration=3))
    async with asyncio.timeout(2):
        while len(world.platform.twists) < 2:
            await asyncio.sleep(0.01)
        await getattr(world.platform, end)("bob")
        sent = len(world.platform.twists)
        text = await driving
    assert text.startswith("SUPERSEDED: " if end == "stop" else "ESTOP_LATCHED: ")
    assert "of 3 s" in text, "it says that part of it was driven"
    assert len(world.platform.twists) == sent, "whoever stopped it has the robot to himself"
    assert not any(call.startswith("release") for call in world.platform.calls)


async def test_a_drive_that_the_client_cancels_is_stopped(agent: Client, world: World) -> None:
    driving = asyncio.create_task(agent.call_tool("send_velocity", {"vx": 0.2, "duration": 5}))
    await asyncio.sleep(0.15)
    driving.cancel()
    async with asyncio.timeout(2):
        while not world.platform.twists[-1][0].is_zero or world.platform.holder:
            await asyncio.sleep(0.01)


async def test_a_wait_that_the_client_cancels_cancels_the_goal(agent: Client, world: World) -> None:
    moving = asyncio.create_task(agent.call_tool("relative_move", {"forward": 1.0}))
    await asyncio.sleep(0.1)
    moving.cancel()
    async with asyncio.timeout(2):
        while world.planner.nav.state.is_active:
            await asyncio.sleep(0.01)


async def test_a_client_that_goes_does_not_cancel_the_goal_that_came_after_its_own(
    agent: Client, world: World
) -> None:
    moving = asyncio.create_task(agent.call_tool("relative_move", {"forward": 1.0}))
    async with asyncio.timeout(2):
        while not world.planner.requests:
            await asyncio.sleep(0.01)
        cancelled: list[tuple[Any, ...]] = []
        cancel = world.planner.cancel

        async def noted(client: str, goal_id: int | None = None) -> Any:
            cancelled.append((client, goal_id))
            return await cancel(client, goal_id)

        world.planner.cancel = noted  # type: ignore[method-assign]
        await world.planner.navigate(GoalRequest(5.0, 5.0, client="ann"))
        world.planner.nav = replace(world.planner.nav, goal_id=1)  # as it was seen last
        moving.cancel()
        while not cancelled:
            world.planner.nav = replace(world.planner.nav, goal_id=2)
            await asyncio.sleep(0.01)
    assert cancelled[0][1] == 1
    assert world.planner.nav.state.is_active and world.planner.nav.client == "ann"


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("navigate_to", "x"),
        ("navigate_to", "yaw_rad"),
        ("navigate_to", "wait_s"),
        ("relative_move", "forward"),
        ("relative_move", "left"),
        ("relative_move", "degrees"),
        ("send_velocity", "vx"),
        ("send_velocity", "vy"),
        ("send_velocity", "omega"),
        ("send_velocity", "duration"),
        ("go_to_poi", "wait_s"),
        ("tag_poi", "x"),
    ],
)
async def test_a_number_is_a_number(agent: Client, world: World, name: str, argument: str) -> None:
    needed: dict[str, Any] = {
        "navigate_to": {"x": 1, "y": 2},
        "go_to_poi": {"poi": "door"},
        "tag_poi": {"label": "door", "x": 1, "y": 2},
    }.get(name, {})
    for value in (True, "true", "1 m", "1,5", "", "nan", "inf", "1e999", "0x10", "1_0", [1], {}):
        text = await refusal(agent, name, **{**needed, argument: value})
        assert text.startswith(f"INVALID_REQUEST: {argument}: "), text
        assert "http" not in text and "\n" not in text
    assert world.planner.requests == [] and world.platform.twists == []
    assert world.pois.pois == {}


async def test_a_number_may_come_as_text(agent: Client, world: World) -> None:
    await call(agent, "navigate_to", x="1.5", y=" -2 ", yaw_rad="1e-1", wait_s="0")
    (request,) = world.planner.requests
    assert (request.x, request.y, request.yaw) == (1.5, -2.0, 0.1)
    answer = await call(agent, "send_velocity", vx="0.2", duration="0.1")
    assert answer["applied"]["vx"] == 0.2


async def test_null_is_left_out_where_that_means_nothing_else(agent: Client, world: World) -> None:
    await call(agent, "navigate_to", x=1, y=2, yaw_rad=None, robot=None)
    assert world.planner.requests[0].yaw is None
    await call(agent, "stop", robot=None)
    stopped = len(world.platform.twists)
    text = await refusal(agent, "send_velocity", vx=None, vy=0.2)
    assert text.startswith("INVALID_REQUEST: vx: "), "NaN is null on its way"
    assert len(world.platform.twists) == stopped


async def test_an_angle_says_its_unit_and_degrees_are_noticed(agent: Client, world: World) -> None:
    await call(agent, "navigate_to", x=1, y=2, yaw=1.5)
    assert world.planner.requests[-1].yaw == 1.5
    text = await refusal(agent, "navigate_to", x=1, y=2, yaw_rad=90)
    assert text.startswith("INVALID_REQUEST: yaw_rad: ") and "it is 1.571" in text
    text = await refusal(agent, "navigate_to", x=1, y=2, yaw=1.0, yaw_rad=1.0)
    assert text.startswith("INVALID_REQUEST: yaw: ")
    assert len(world.planner.requests) == 1


async def test_unknown_arguments_are_refused_except_by_what_stops(
    agent: Client, world: World
) -> None:
    for tool in (await agent.list_tools()).tools:
        is_closed = tool.input_schema.get("additionalProperties") is False
        assert is_closed is (tool.name not in ENDS), tool.name
    text = await refusal(agent, "send_velocity", vx=0.1, speed=3)
    assert text.startswith("INVALID_REQUEST: speed: ")
    assert world.platform.twists == []
    await call(agent, "stop", reason="a child")
    assert world.platform.calls[0].startswith("stop ")
    for robot in (5, ["x"], "nobody", ""):
        assert (await call(agent, "stop", robot=robot))["stopped"] == ["go2", "second"]


async def test_each_tool_means_the_robot_that_is_named(world: World) -> None:
    both = world.handles()
    second = World()
    handles = Handles(
        world.server,
        {"go2": both.robots["go2"], "second": second.handles().robots["go2"]},
        both.poi_store,
    )
    handles = replace(
        handles,
        robots={**handles.robots, "second": replace(handles.robots["second"], name="second")},
    )
    second.platform.add_frame()
    second.platform.pose = Pose2D(7.0, 8.0, 0.0)
    async with Client(create_mcp(handles)) as agent:
        assert "go2, second" in (agent.instructions or "")
        assert (await call(agent, "get_robot_status", robot="Second"))["pose"]["x"] == 7.0
        assert (await call(agent, "observe", robot="second"))["robot"]["x"] == 7.0
        assert (await call(agent, "get_map", robot="second"))["robot"]["x"] == 7.0
        await call(agent, "navigate_to", x=1, y=1, robot="second")
        await call(agent, "tag_poi", label="its", robot="second")
        await call(agent, "standup", robot="second")
        await call(agent, "explore", robot="second")
        assert (await call(agent, "list_pois"))["result"] == []
        assert (await call(agent, "list_pois", robot="second"))["result"][0]["label"] == "its"
        assert (await call(agent, "get_mission_status"))["state"] == "idle"
        assert (await call(agent, "get_mission_status", robot="second"))["state"] == "running"
        text = await refusal(agent, "navigate_to", x=1, y=1, robot="third")
        assert text.startswith("ROBOT_NOT_FOUND: ") and "go2, second" in text
        assert world.planner.requests == [] and world.platform.calls == []
        report = await call(agent, "stop", robot="second")
        assert report["stopped"] == ["second"] and report["mission_stopped"] is True
        second.lost["platform"] = rx.ActorDiedError()
        report = await call(agent, "stop")
        assert (report["stopped"], report["silent"]) == (["go2"], ["second"])


async def test_postures_and_tricks(agent: Client, world: World) -> None:
    await call(agent, "standup")
    await call(agent, "liedown")
    await call(agent, "execute_sport", command="Hello")
    await call(agent, "execute_sport", command="Pose", roll_rad=0.1, height="-0.05")
    names = [entry.split()[0] for entry in world.platform.calls]
    assert names == ["StandUp", "StandDown", "Hello", "Pose"]
    assert "roll=0.1 height=-0.05" in world.platform.calls[-1]
    assert all(entry.endswith("AGENT") for entry in world.platform.calls)
    assert (await refusal(agent, "execute_sport", command="Sit")).startswith("COMMAND_REJECTED")


async def test_stop_and_exploring(agent: Client, world: World) -> None:
    mission = await call(agent, "explore")
    assert mission["state"] == "running" and mission["ended"] is False and mission["id"]
    assert world.explorer.started_by[0][1] is Rank.AGENT
    assert (await refusal(agent, "explore")).startswith("MISSION_RUNNING: ")
    assert (await call(agent, "get_mission_status"))["id"] == mission["id"]
    assert (await call(agent, "stop"))["mission_stopped"] is True
    assert (await refusal(agent, "stop_explore")).startswith("NO_MISSION: ")
    assert (await call(agent, "get_mission_status"))["ended"] is True


async def test_an_exploration_keeps_to_an_area_and_its_limits(agent: Client, world: World) -> None:
    await call(
        agent,
        "explore",
        area=[[0, 0], ["4", 3]],
        max_time=600,
        min_battery="30",
        return_home=True,
    )
    (request,) = world.explorer.requests
    assert isinstance(request, ExploreRequest)
    assert request.area == ((0.0, 0.0), (4.0, 0.0), (4.0, 3.0), (0.0, 3.0))
    assert request.limits == MissionLimits(600.0, None, 30.0, True)
    await call(agent, "stop_explore")
    for bad in ({"area": [[0, 0]]}, {"area": [[0, 0], [0, 0]]}, {"max_time": 0}, {"area": [[0]]}):
        assert (await refusal(agent, "explore", **bad)).startswith("INVALID_REQUEST: ")
    assert len(world.explorer.requests) == 1


async def test_a_patrol_goes_over_the_floor_or_from_place_to_place(
    agent: Client, world: World
) -> None:
    await call(agent, "tag_poi", label="Kitchen", x=1, y=1)
    assert (await call(agent, "start_patrol", max_time=60))["kind"] == "patrol"
    assert (await call(agent, "pause_mission"))["ended"] is False
    assert (await call(agent, "resume_mission"))["state"] == "running"
    assert (await call(agent, "stop_patrol"))["ended"] is True
    points = ["kitchen", {"x": "3", "y": 4, "yaw_rad": 1, "dwell": 2, "label": "door"}]
    await call(agent, "start_patrol", points=points, loops="2", dwell=1, return_home=True)
    await call(agent, "stop_patrol")
    await call(agent, "start_patrol", points="kitchen")
    await call(agent, "stop")
    floor, places, one = world.explorer.requests
    assert isinstance(floor, PatrolRequest) and floor.router is PatrolRouter.COVERAGE
    assert isinstance(places, PatrolRequest) and places.router is PatrolRouter.POINTS
    kitchen, door = places.points
    assert (kitchen.x, kitchen.y, kitchen.label) == (1.0, 1.0, "Kitchen")
    assert (door.x, door.y, door.yaw, door.dwell, door.label) == (3.0, 4.0, 1.0, 2.0, "door")
    assert (places.loops, places.dwell, places.limits.return_home) == (2, 1.0, True)
    assert isinstance(one, PatrolRequest) and len(one.points) == 1
    for bad in (
        {"router": "points"},
        {"router": "coverage", "points": ["kitchen"]},
        {"router": "teleport"},
        {"points": ["kitchn"]},
        {"points": [{"x": 1}]},
        {"points": [{"x": 1, "y": 1, "yaw_rad": 90}]},
        {"loops": 0},
        {"loops": 1.5},
    ):
        text = await refusal(agent, "start_patrol", **bad)
        assert text.startswith(("INVALID_REQUEST: ", "POI_NOT_FOUND: ")), text
    assert len(world.explorer.requests) == 3


async def test_an_exploration_can_be_waited_for_with_progress(agent: Client, world: World) -> None:
    heard: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, message))
        world.explorer.mission = replace(
            world.explorer.mission,
            state=MissionState.COMPLETE if len(heard) == 3 else MissionState.RUNNING,
            elapsed=len(heard) * 1.0,
            known_area=12.0,
            seq=world.explorer.mission.seq + 1,
        )

    result = await agent.call_tool("explore", {"wait_s": 20}, progress_callback=progress)
    assert result.structured_content is not None
    assert result.structured_content["state"] == "complete"
    assert [done for done, _ in heard] == [0.0, 1.0, 2.0] and "12 m2" in (heard[1][1] or "")


async def test_a_waiting_client_that_goes_ends_the_exploration_it_began(
    agent: Client, world: World
) -> None:
    waiting = asyncio.create_task(agent.call_tool("explore", {"wait_s": 100}))
    async with asyncio.timeout(5):
        while not world.explorer.mission.state.is_active:
            await asyncio.sleep(0.01)
        waiting.cancel()
        while world.explorer.mission.state.is_active:
            await asyncio.sleep(0.01)


async def test_a_place_that_is_not_there_is_refused_with_what_may_be_meant(
    agent: Client, world: World
) -> None:
    for label in ("Kitchen", "front door", "charging dock", "office"):
        await call(agent, "tag_poi", label=label, x=1, y=1)
    for wrong, near in (
        ("kichen", "Kitchen"),
        ("the kitchen", "Kitchen"),
        ("dock", "charging dock"),
        ("Front Dor", "front door"),
    ):
        text = await refusal(agent, "go_to_poi", poi=wrong)
        assert text.startswith("POI_NOT_FOUND: ") and f"Near it: '{near}'" in text, text
    text = await refusal(agent, "go_to_poi", poi="x" * 400)
    assert "Near it" not in text and "list_pois" in text
    assert world.planner.requests == []


async def test_state_map_and_places_are_resources(agent: Client, world: World) -> None:
    await call(agent, "tag_poi", label="Küche / 1", x=1, y=2)
    listed = {str(each.uri): each for each in (await agent.list_resources()).resources}
    assert set(listed) == {"rhino://robots", "rhino://state", "rhino://map", "rhino://pois"}
    templates = {
        each.uri_template for each in (await agent.list_resource_templates()).resource_templates
    }
    assert {"rhino://pois/{poi}", "rhino://robots/{robot}/pois/{poi}"} <= templates
    assert {f"rhino://robots/{{robot}}/{name}" for name in ("state", "map", "pois")} <= templates

    async def text(uri: str) -> Any:
        (content,) = (await agent.read_resource(uri)).contents
        assert content.mime_type == "application/json"
        return json.loads(content.text)

    assert (await text("rhino://state"))["pose"]["x"] == 1.0
    assert (await text("rhino://robots/second/state"))["robot"] == "second"
    assert (await text("rhino://robots")) == {"robots": ["go2", "second"], "default": "go2"}
    (poi,) = await text("rhino://pois")
    assert await text("rhino://pois/k%C3%BCche%20%2F%201") == poi
    assert await text(f"rhino://pois/{poi['id']}") == poi
    assert await text("rhino://robots/second/pois") == []
    for uri in ("rhino://map", "rhino://robots/go2/map"):
        (image,) = (await agent.read_resource(uri)).contents
        assert image.mime_type == "image/png"
        assert base64.b64decode(image.blob).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        ("rhino://pois/nothing", "POI_NOT_FOUND"),
        ("rhino://robots/third/state", "ROBOT_NOT_FOUND"),
        ("rhino://robots/second/pois/nothing", "POI_NOT_FOUND"),
    ],
)
async def test_a_resource_that_is_not_there_is_refused_with_the_code(
    agent: Client, uri: str, code: str
) -> None:
    with pytest.raises(MCPError, match=code):
        await agent.read_resource(uri)


async def test_a_resource_of_a_lost_part_is_refused_with_the_code(
    agent: Client, world: World
) -> None:
    world.lost["mapper"] = rx.ActorDiedError()
    with pytest.raises(MCPError, match="ACTOR_UNAVAILABLE"):
        await agent.read_resource("rhino://map")


async def test_a_prompt_explains_the_robot(agent: Client) -> None:
    (prompt,) = (await agent.list_prompts()).prompts
    assert prompt.name == "drive_robot" and prompt.description
    result = await agent.get_prompt("drive_robot", {"task": "fetch {nothing}"})
    (message,) = result.messages
    text = message.content.text
    assert "fetch {nothing}" in text
    words = set(re.findall(r"[a-z_]+", text))
    named = {word for word in words if "_" in word.strip("_")}
    assert named <= TOOLS | {"max_time", "min_battery", "return_home"}, "only tools that exist"
    for code in re.findall(r"[A-Z]+_[A-Z_]+", text):
        assert code in CODES, code
    plain = (await agent.get_prompt("drive_robot", {})).messages[0].content.text
    assert "The task" not in plain


async def test_places_are_named_listed_and_gone_to(agent: Client, world: World) -> None:
    here = await call(agent, "tag_poi", label="Kitchen")
    assert (here["x"], here["y"]) == (1.0, 2.0)
    await call(agent, "tag_poi", label="door", x=3, y=4)
    listed = (await call(agent, "list_pois"))["result"]
    assert [poi["label"] for poi in listed] == ["Kitchen", "door"]
    await call(agent, "go_to_poi", poi=" kitchen ")
    await call(agent, "go_to_poi", poi=listed[1]["id"])
    assert [(goal.x, goal.y) for goal in world.planner.requests] == [(1.0, 2.0), (3.0, 4.0)]
    await call(agent, "tag_poi", label="DOOR", x=0, y=0)
    text = await refusal(agent, "go_to_poi", poi="door")
    assert text.startswith("INVALID_REQUEST: ") and listed[1]["id"] in text
    assert (await refusal(agent, "tag_poi", label=" ")).startswith("INVALID_LABEL: ")
    assert (await refusal(agent, "tag_poi", label="a", x=1)).startswith("INVALID_REQUEST: ")


async def test_observe_gives_a_picture_that_fits_and_its_age(agent: Client, world: World) -> None:
    world.platform.add_frame(jpeg(1600, 1200, noise=True))
    result = await agent.call_tool("observe", {})
    data, mime = image_of(result)
    assert mime == "image/jpeg" and len(data) <= 200_000 and data[:2] == b"\xff\xd8"
    seen = result.structured_content
    assert (
        seen is not None
        and seen["age"] == pytest.approx(0.25, abs=0.2)
        and max(seen["width"], seen["height"]) <= 1024
    )
    (text,) = [part for part in result.content if isinstance(part, TextContent)]
    assert json.loads(text.text) == seen


async def test_the_map_says_how_pixels_become_metres(agent: Client, world: World) -> None:
    world.platform.pose = Pose2D(0.0, -0.3, 0.0)
    result = await agent.call_tool("get_map", {})
    data, mime = image_of(result)
    place = result.structured_content
    assert mime == "image/png" and place is not None
    image = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR))
    assert (place["height"], place["width"]) == image.shape[:2]
    assert place["age"] == pytest.approx(99.0), "of the lidar frame in the map"
    scale = place["pixels_per_metre"]
    # The obstacle of cell (2, 4) has its centre at (-0.55, -0.25).
    row, col = round((place["top_y"] + 0.25) * scale), round((-0.55 - place["left_x"]) * scale)
    assert image[row, col].tolist() == [0, 0, 0]
    assert place["empty"] is False and place["robot"]["y"] == -0.3
    world.mapper.current = snapshot(0)
    assert (await call(agent, "get_map"))["empty"] is True


async def test_a_large_map_fits_and_a_lost_platform_takes_its_age_along(
    agent: Client, world: World
) -> None:
    rng = np.random.default_rng(3)
    cells = rng.choice(np.array([-1, 0, 100], np.int8), (1500, 2600))
    world.mapper.current = replace(
        world.mapper.current,
        geometry=GridGeometry(0.05, (-60.0, -40.0), cells.shape),
        occupancy=cells,
        costmap=np.zeros(cells.shape, np.uint8),
    )
    world.lost["platform"] = rx.ActorDiedError()
    result = await agent.call_tool("get_map", {})
    data, _ = image_of(result)
    place = result.structured_content
    assert place is not None and place["age"] is None
    image = np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR))
    assert len(data) <= 200_000 and max(image.shape) <= 1024
    assert place["pixels_per_metre"] == pytest.approx(image.shape[1] / 130.0, rel=0.01)


async def test_it_is_served_without_sessions_at_the_bare_mount_point(world: World) -> None:
    app = create_mcp_app(world.handles())
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"accept": "application/json, text/event-stream"}
    transport = httpx2.ASGITransport(app, root_path="/mcp")
    async with lifespan(app), httpx2.AsyncClient(transport=transport) as client:
        answer = await client.post("http://localhost/mcp", json=request, headers=headers)
    assert answer.status_code == 200
    assert "navigate_to" in answer.text and "mcp-session-id" not in answer.headers


async def who_asks(
    world: World, request: dict[str, Any], *clients: tuple[str, dict[str, str]]
) -> list[str]:
    """Send a goal from each (address, headers), and return by which names the planner knows them."""
    app = create_mcp_app(world.handles())
    accept = {"accept": "application/json, text/event-stream"}
    async with lifespan(app):
        for address, headers in clients:
            transport = httpx2.ASGITransport(app, root_path="/mcp", client=(address, 5000))
            async with httpx2.AsyncClient(transport=transport) as client:
                answer = await client.post(
                    "http://localhost/mcp", json=request, headers={**accept, **headers}
                )
            assert answer.status_code == 200 and '"isError":true' not in answer.text, answer.text
    return [goal.client for goal in world.planner.requests]


async def test_assistants_are_told_apart_by_header_and_by_address(world: World) -> None:
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "navigate_to", "arguments": {"x": 1, "y": 1}},
    }
    names = await who_asks(
        world,
        request,
        ("10.0.0.1", {}),
        ("10.0.0.2", {}),
        ("10.0.0.1", {"X-Rhino-Client": "kitchen"}),
        ("10.0.0.1", {"X-Rhino-Client": "garden"}),
        ("10.0.0.1", {"X-Rhino-Client": "x" * 500}),
    )
    assert names[:4] == [
        "assistant (10.0.0.1)",
        "assistant (10.0.0.2)",
        "assistant (kitchen)",
        "assistant (garden)",
    ]
    assert len(names[4]) < 100


async def test_an_assistant_never_passes_for_a_person(world: World) -> None:
    assert assistant_name("ann", None, None) not in ("ann", "explorer")
    for given in ("", "  ", "a\nb", "explorer", "\x00"):
        name = assistant_name(given, "claude\r\n", "10.0.0.1")
        assert name.startswith("assistant (") and name.isprintable()
    assert assistant_name(None, "claude", "10.0.0.1") == "assistant (claude, 10.0.0.1)"
    assert assistant_name(None, "claude", "10.0.0.1") != assistant_name(None, "cline", "10.0.0.1")


async def test_refusals_are_logged_with_who_asked(
    agent: Client, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="serve_app")
    world.platform.holder, world.platform.rank = "ann", Rank.HUMAN
    await refusal(agent, "send_velocity", vx=0.1)
    (line,) = [record for record in caplog.records if record.name == "serve_app.refusals"]
    assert line.levelno == logging.INFO
    assert "send_velocity by assistant" in line.getMessage()
    assert "CONTROL_HELD" in line.getMessage() and "ann drives" in line.getMessage()


async def test_many_who_look_at_once_take_one_call_of_the_platform(world: World) -> None:
    platform = FakePlatform()
    platform.longest_poll_s = 60.0
    world.platform = Crowded(platform, 2)
    own = Tools(world.handles())
    looking = [asyncio.create_task(own.observe()) for _ in range(300)]
    async with asyncio.timeout(5):
        while world.platform.open["camera"] == 0:
            await asyncio.sleep(0.005)
    async with asyncio.timeout(2):
        await own.stop(FakeContext())
    for task in looking:
        task.cancel()
    refused = await asyncio.gather(*looking, return_exceptions=True)
    assert sum(isinstance(error, TooManyStreams) for error in refused) >= 300 - 64
    assert world.platform.most_open["camera"] == 1


class FakeContext:
    """What a tool reads of a call that came over a pipe."""

    headers = None

    class request_context:
        request = None

        class session:
            client_params = None


class lifespan:
    """Run an ASGI app's start and end around a block, as a server does."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._to_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._from_app: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(
            self._app({"type": "lifespan"}, self._to_app.get, self._from_app.put)
        )
        await self._to_app.put({"type": "lifespan.startup"})
        assert (await self._from_app.get())["type"] == "lifespan.startup.complete"

    async def __aexit__(self, *exc: object) -> None:
        await self._to_app.put({"type": "lifespan.shutdown"})
        assert (await self._from_app.get())["type"] == "lifespan.shutdown.complete"
        await self._task


async def test_an_assistant_sees_and_moves_the_robot_in_the_map(
    agent: Client, world: World
) -> None:
    world.platform.add_frame()
    world.platform.pose = Pose2D(1.0, 2.0, 0.0)
    world.mapper.current = replace(world.mapper.current, map_from_odom=Pose2D(10.0, 0.0, np.pi / 2))
    there = {"x": pytest.approx(8.0), "y": pytest.approx(1.0), "yaw": pytest.approx(np.pi / 2)}
    assert (await call(agent, "get_robot_status"))["pose"] == there
    assert (await call(agent, "get_map"))["robot"] == there
    assert (await call(agent, "observe"))["robot"] == there
    place = await call(agent, "tag_poi", label="here")
    assert (place["x"], place["y"]) == pytest.approx((8.0, 1.0))
    await call(agent, "relative_move", forward=1.0, wait_s=0)
    assert (world.planner.requests[0].x, world.planner.requests[0].y) == pytest.approx((8.0, 2.0))


async def test_an_assistant_is_told_that_the_place_is_not_known(
    agent: Client, world: World
) -> None:
    world.platform.add_frame()
    world.mapper.lose()
    status = await call(agent, "get_robot_status")
    assert status["pose"] is None and status["localisation"]["state"] == "lost"
    assert (await call(agent, "get_map"))["robot"] is None
    assert (await call(agent, "observe"))["robot"] is None
    for name, given in (("relative_move", {"forward": 1.0}), ("tag_poi", {"label": "here"})):
        assert (await refusal(agent, name, **given)).startswith("NOT_LOCALISED: ")
    assert world.planner.requests == []
