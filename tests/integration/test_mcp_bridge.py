"""`rhino mcp` as a program of its own, spoken to by the official client through its pipe."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation, TextContent

from serve_app.app import create_mcp_app
from serve_app.security import Access
from tests.api.test_mcp import TOOLS, image_of, lifespan
from tests.api.test_mcp_http import Replicas, served, until
from tests.api.world import World

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]


@pytest.fixture
def world() -> World:
    return World()


def bridge(*words: str, folder: Path, **variables: str) -> StdioServerParameters:
    """The command, in a machine where nothing of rhino runs."""
    environment = {**os.environ, "XDG_STATE_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    for name in ("RHINO_URL", "RHINO_PORT", "RHINO_TOKEN"):
        environment.pop(name, None)
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "rhino_actors.cli", "mcp", *words],
        env={**environment, **variables},
    )


async def call(client: Client, name: str, **arguments: Any) -> Mapping[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def refusal(client: Client, name: str, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    assert result.is_error
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_everything_goes_through(world: World, tmp_path: Path, mode: str) -> None:
    world.platform.add_frame()
    app = create_mcp_app(world.handles())
    heard: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)
        world.planner.arrives = True

    async with lifespan(app), served(Replicas(app)) as address:
        # Given as the address of the deployment, or of MCP.
        url = address if mode == "auto" else address.removesuffix("/mcp")
        program = Implementation(name="Desk Élan", version="1")
        parameters = bridge("--url", url, folder=tmp_path)
        async with Client(parameters, mode=mode, client_info=program) as client:
            assert "Go2" in (client.instructions or "")
            assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
            assert (await call(client, "get_robot_status"))["robot"] == "go2"
            result = await client.call_tool(
                "navigate_to", {"x": 3, "y": 4, "wait_s": 60}, progress_callback=progress
            )
            assert result.structured_content is not None
            assert result.structured_content["state"] == "arrived" and heard == [0.0]
            assert image_of(await client.call_tool("observe", {}))[1] == "image/jpeg"
            assert (await refusal(client, "go_to_poi", poi="x")).startswith("POI_NOT_FOUND: ")
            (state,) = (await client.read_resource("rhino://state")).contents
            assert json.loads(state.text)["robot"] == "go2"
            with pytest.raises(MCPError, match="POI_NOT_FOUND"):
                await client.read_resource("rhino://pois/x")
            assert len((await client.list_resources()).resources) == 4
            assert (await client.list_resource_templates()).resource_templates
            assert [each.name for each in (await client.list_prompts()).prompts] == ["drive_robot"]
            assert (await client.get_prompt("drive_robot", {})).messages

            world.planner.arrives = False
            going = asyncio.create_task(
                client.call_tool("navigate_to", {"x": 1, "y": 4, "wait_s": 100})
            )
            await until(lambda: len(world.planner.requests) == 2)
            going.cancel()
            await until(lambda: not world.planner.nav.state.is_active)
    name = world.planner.requests[0].client
    assert name.startswith("assistant (Desk lan ") and name[-2].isdigit(), name


async def test_the_deployment_may_start_later_and_start_anew(world: World, tmp_path: Path) -> None:
    async with served(Replicas()) as address:
        pass  # a port at which nothing listens now
    port = int(address.rpartition(":")[2].removesuffix("/mcp"))
    async with Client(bridge("--url", address, folder=tmp_path)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        assert [each.name for each in (await client.list_prompts()).prompts] == ["drive_robot"]
        text = await refusal(client, "get_robot_status")
        assert text.startswith("NOT_RUNNING: ") and "rhino deploy" in text
        with pytest.raises(MCPError, match="NOT_RUNNING"):
            await client.read_resource("rhino://state")
        for _ in range(2):
            app = create_mcp_app(world.handles())
            async with lifespan(app), served(Replicas(app), port):
                assert (await call(client, "get_robot_status"))["robot"] == "go2"
            assert (await refusal(client, "stop")).startswith("NOT_RUNNING: ")


async def test_what_goes_away_in_the_middle_is_said(world: World, tmp_path: Path) -> None:
    """A server that takes the request and closes."""

    async def close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.close()

    server = await asyncio.start_server(close, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Client(bridge("--url", f"http://127.0.0.1:{port}", folder=tmp_path)) as client:
        assert (await refusal(client, "stop")).startswith("NOT_RUNNING: ")
    server.close()


async def test_it_finds_the_deployment_by_itself_or_says_that_none_runs(
    world: World, tmp_path: Path
) -> None:
    app = create_mcp_app(world.handles())
    async with lifespan(app), served(Replicas(app)) as address:
        variables = {"RHINO_URL": address.removesuffix("/mcp")}
        async with Client(bridge(folder=tmp_path, **variables)) as client:
            assert (await call(client, "get_robot_status"))["robot"] == "go2"
    async with Client(bridge(folder=tmp_path)) as client:
        assert (await refusal(client, "stop")).startswith("NOT_RUNNING: ")


async def test_the_token_is_given_or_its_want_is_said(world: World, tmp_path: Path) -> None:
    app = create_mcp_app(world.handles(), Access("127.0.0.1", "secret"))
    async with lifespan(app), served(Replicas(app)) as address:
        async with Client(bridge("--url", address, folder=tmp_path)) as client:
            assert (await refusal(client, "stop")).startswith("UNAUTHORIZED: ")
        for parameters in (
            bridge("--url", address, "--token", "secret", folder=tmp_path),
            bridge("--url", address, folder=tmp_path, RHINO_TOKEN="secret"),
        ):
            async with Client(parameters) as client:
                assert (await call(client, "stop"))["stopped"] == ["go2", "second"]


def test_nothing_but_the_protocol_is_on_stdout(tmp_path: Path) -> None:
    parameters = bridge("--url", "http://127.0.0.1:9", folder=tmp_path)
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        },
    }
    sent = [
        json.dumps(hello),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "not json",
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ]
    program = subprocess.Popen(
        [parameters.command, *parameters.args],
        env=parameters.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdin is not None and program.stdout is not None
    program.stdin.write("\n".join(sent) + "\n")
    program.stdin.flush()
    said = []
    while not any(message.get("id") == 2 for message in said):
        said.append(json.loads(program.stdout.readline()))
    rest, _ = program.communicate(timeout=60)  # stdin ends, and so does it
    assert program.returncode == 0
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
    assert all(message["jsonrpc"] == "2.0" for message in said)


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    parameters = bridge("--url", "localhost:8000", folder=tmp_path)
    done = subprocess.run(
        [parameters.command, *parameters.args], env=parameters.env, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stdout == "" and "INVALID_REQUEST" in done.stderr
