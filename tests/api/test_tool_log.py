"""What assistants call has a log and figures, as requests have."""

import logging
from typing import Any

import pytest
from mcp import Client

from rhino_actors.messages.navigation import GoalRequest, Rank
from serve_app.access_log import Journal
from serve_app.app import create_mcp
from serve_app.route_table import OTHER
from serve_app.tool_log import ToolLog
from tests.api.test_access_log import Lines, Meters
from tests.api.test_access_log import lines as lines
from tests.api.world import World

WHO = "assistant (mcp, unknown)"


@pytest.fixture
def meters() -> Meters:
    return Meters()


async def call(world: World, meters: Meters, tool: str, **arguments: Any) -> bool:
    """Call a tool; return whether it was refused."""
    log = ToolLog(("go2", "second"), Journal(logging.getLogger("serve_app.access")), meters)
    async with Client(create_mcp(world.handles(), log.note)) as agent:
        return (await agent.call_tool(tool, arguments)).is_error


async def test_a_call_that_changes_something_has_a_line(meters: Meters, lines: Lines) -> None:
    await call(World(), meters, "tag_poi", label="dock", robot="second")
    (line,) = lines.now()
    assert line.startswith(f'robot="second" client="{WHO}" POST /mcp/tag_poi 200 ms=')
    assert meters.requests == [("POST", "/mcp/tag_poi", "second", 200)]


async def test_what_only_reads_is_summed(meters: Meters, lines: Lines) -> None:
    await call(World(), meters, "get_robot_status")
    assert lines.now() == []
    assert meters.requests == [("GET", "/mcp/get_robot_status", "go2", 200)]


async def test_a_refusal_names_its_code_and_who_drives(meters: Meters, lines: Lines) -> None:
    world = World()
    await world.platform.claim("ann", Rank.HUMAN)
    await world.planner.navigate(GoalRequest(3.0, 4.0, client="ann"))
    assert await call(world, meters, "send_velocity", vx=0.1, vy=0.0, omega=0.0)
    (line,) = lines.now()
    assert " POST /mcp/send_velocity 409 " in line
    assert line.endswith('code="CONTROL_HELD" holder="ann"')
    assert meters.refusals == ["CONTROL_HELD"]


@pytest.mark.parametrize(
    ("tool", "arguments", "route", "status", "code"),
    [
        ("navigate_to", {"x": "far"}, "/mcp/navigate_to", 422, "INVALID_REQUEST"),
        ("get_map", {"robot": "nobody"}, "/mcp/get_map", 404, "ROBOT_NOT_FOUND"),
        ("made_up", {}, OTHER, 500, "INTERNAL"),
    ],
)
async def test_every_end_has_the_status_of_rest_and_a_label_of_few_values(
    meters: Meters, tool: str, arguments: dict[str, Any], route: str, status: int, code: str
) -> None:
    await call(World(), meters, tool, **arguments)
    ((_, seen, robot, answered),) = meters.requests
    assert (seen, answered, meters.refusals) == (route, status, [code])
    assert robot in ("go2", "second", "")
