"""The official MCP client against a running deployment."""

import asyncio
import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.deployment import Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]


async def _call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return dict(result.structured_content)


async def test_client_lists_tools_drives_and_sees(running: Rhino) -> None:
    x, y = running.pose()
    async with Client(f"{running.api}/mcp") as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"navigate_to", "get_nav_status", "observe", "stop", "tag_poi", "get_map"} <= names

        answer = await _call(client, "navigate_to", x=x + 0.6, y=y)
        for _ in range(200):
            nav = await _call(client, "get_nav_status")
            if nav["goal_id"] == answer["goal_id"] and nav["state"] == "arrived":
                break
            await asyncio.sleep(0.2)
        assert nav["state"] == "arrived"

        picture = await client.call_tool("observe", {})
        image = next(part for part in picture.content if part.type == "image")
        assert image.mime_type == "image/jpeg" and len(image.data) > 1000

        refused = await client.call_tool("navigate_to", {"x": 500.0, "y": 0.0})
        assert refused.is_error and "GOAL_OUTSIDE_MAP" in refused.content[0].text


async def test_agent_may_not_interrupt_a_persons_mission_but_may_stop_it(running: Rhino) -> None:
    running.post("/api/explore/start")
    async with Client(f"{running.api}/mcp") as client:
        refused = await client.call_tool("navigate_to", {"x": 0.5, "y": 0.0})
        assert refused.is_error and "CONTROL_HELD" in refused.content[0].text
        await _call(client, "stop")
    mission = running.get("/api/state")["mission"]
    assert mission["state"] == "cancelled"


async def test_acrobatics_are_refused_and_tricks_are_not(running: Rhino) -> None:
    async with Client(f"{running.api}/mcp") as client:
        for command in ("FrontFlip", "FrontJump", "FrontPounce"):
            refused = await client.call_tool("execute_sport", {"command": command})
            assert refused.is_error and "COMMAND_REJECTED" in refused.content[0].text
            assert "allow_acrobatics" in refused.content[0].text
        await _call(client, "execute_sport", command="Hello")


async def test_a_replica_that_is_killed_between_two_calls_breaks_no_client(running: Rhino) -> None:
    async with Client(f"{running.api}/mcp") as client:
        poi = await _call(client, "tag_poi", label="before")
        for replica in running.family("ray::ServeReplica:mcp"):
            replica.kill()
            replica.wait(10)

        async def again() -> dict[str, Any] | None:
            try:
                return await _call(client, "list_pois")
            except Exception:  # while Serve starts another
                return None

        async with asyncio.timeout(60):
            while (listed := await again()) is None:
                await asyncio.sleep(0.2)
        assert poi["id"] in [each["id"] for each in listed["result"]]


async def test_the_bridge_finds_the_deployment_that_runs(running: Rhino) -> None:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "rhino_actors.cli", "mcp"],
        env={key: value for key, value in running.environment.items() if key != "RHINO_PORT"},
    )
    async with Client(parameters) as client:
        status = await _call(client, "get_robot_status")
        assert status["status"]["connected"] is True
        await _call(client, "stop")
