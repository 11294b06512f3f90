"""What `rhino mcp` hands on, without its pipe: tests/integration has it as a program."""

import asyncio

import pytest
from mcp import Client
from mcp_types import TextContent

from rhino_actors.cli.mcp_bridge import Bridge
from serve_app.app import create_mcp_app
from tests.api.test_mcp import TOOLS, lifespan
from tests.api.test_mcp_http import Replicas, served, until
from tests.api.world import World


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_requests_progress_and_cancellations_are_handed_on(mode: str) -> None:
    world = World()
    app = create_mcp_app(world.handles())
    heard: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)

    async with lifespan(app), served(Replicas(app)) as address:
        async with Client(Bridge(address, None, "ann").server(), mode=mode) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            going = asyncio.create_task(
                client.call_tool(
                    "navigate_to", {"x": 1, "y": 4, "wait_s": 100}, progress_callback=progress
                )
            )
            await until(lambda: heard)
            going.cancel()
            await until(lambda: not world.planner.nav.state.is_active)
    assert world.planner.requests[0].client.startswith("assistant (ann ")


async def test_without_a_deployment_tools_are_listed_and_refuse() -> None:
    async with served(Replicas()) as address:
        pass  # a port at which nothing listens now
    async with Client(Bridge(address, None, None).server()) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        result = await client.call_tool("stop", {})
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent) and content.text.startswith("NOT_RUNNING: ")
