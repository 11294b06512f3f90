"""The official client over HTTP: replicas that know nothing of each other, restarts, cancellation, other hosts."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp, Receive, Scope, Send

from rhino_actors.messages.navigation import Rank
from serve_app import commands
from serve_app.app import create_mcp_app
from serve_app.security import Access
from tests.api.test_mcp import lifespan
from tests.api.world import World

CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "navigate_to", "arguments": {"x": 1, "y": 1}},
}
ACCEPT = {"accept": "application/json, text/event-stream"}


class Replicas:
    """Serve's part: hands each request for /mcp to the next of several servers."""

    def __init__(self, *apps: ASGIApp) -> None:
        self.apps = list(apps)
        self.asked = [0] * len(apps)
        self._next = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        chosen = self._next % len(self.apps)
        self._next += 1
        self.asked[chosen] += 1
        await self.apps[chosen]({**scope, "root_path": "/mcp"}, receive, send)


@asynccontextmanager
async def served(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """Serve an app on a port of its own; yield the address of MCP."""
    listening = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(app, lifespan="off", log_level="warning", ws="none")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    running = asyncio.create_task(server.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        await running


@pytest.fixture
def world() -> World:
    return World()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.01)


async def call(client: Client, name: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_any_replica_answers_any_request_of_a_client(world: World, mode: str) -> None:
    first, second = create_mcp_app(world.handles()), create_mcp_app(world.handles())
    replicas = Replicas(first, second)
    async with lifespan(first), lifespan(second), served(replicas) as address:
        async with Client(address, mode=mode) as client:
            for number in range(4):
                answer = await call(client, "navigate_to", x=number, y=0)
                assert (await call(client, "get_nav_status"))["goal_id"] == answer["goal_id"]
            assert (await client.read_resource("rhino://state")).contents
    assert min(replicas.asked) >= 4
    assert len(world.planner.requests) == 4
    assert len({request.client for request in world.planner.requests}) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_replica_that_is_started_anew_between_two_calls_breaks_no_client(
    world: World, mode: str
) -> None:
    old = create_mcp_app(world.handles())
    replicas = Replicas(old)
    async with served(replicas) as address:
        async with lifespan(old):
            # The client outlives the replica, so it is closed after it.
            client = await Client(address, mode=mode).__aenter__()
            await call(client, "tag_poi", label="door", x=1, y=1)
        new = create_mcp_app(world.handles())
        async with lifespan(new):
            replicas.apps = [new]
            assert (await call(client, "list_pois"))["result"][0]["label"] == "door"
            await client.__aexit__(None, None, None)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_progress_comes_while_a_goal_is_driven_to(world: World, mode: str) -> None:
    app = create_mcp_app(world.handles())
    heard: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)
        world.planner.arrives = True

    async with lifespan(app), served(Replicas(app)) as address:
        async with Client(address, mode=mode) as client:
            result = await client.call_tool(
                "navigate_to", {"x": 3, "y": 4, "wait_s": 20}, progress_callback=progress
            )
    assert result.structured_content is not None
    assert result.structured_content["state"] == "arrived" and heard == [0.0]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_goal_that_is_waited_for_is_given_up_when_the_client_cancels(
    world: World, mode: str
) -> None:
    app = create_mcp_app(world.handles())
    async with lifespan(app), served(Replicas(app)) as address:
        async with Client(address, mode=mode) as client:
            going = asyncio.create_task(
                client.call_tool("navigate_to", {"x": 3, "y": 4, "wait_s": 100})
            )
            await until(lambda: world.planner.requests)
            going.cancel()
            await until(lambda: not world.planner.nav.state.is_active)


async def test_a_cancellation_ends_the_call_it_names_and_never_a_stop(world: World) -> None:
    """As clients of older protocols send it, here with ids of our own."""
    app = create_mcp_app(world.handles())
    halted, go_on = asyncio.Event(), asyncio.Event()
    stop = world.platform.stop

    async def slow_stop(client: str) -> Any:
        halted.set()
        await go_on.wait()
        return await stop(client)

    world.platform.stop = slow_stop
    calls = {
        7: {"name": "navigate_to", "arguments": {"x": 3, "y": 4, "wait_s": 100}},
        8: {"name": "stop", "arguments": {}},
    }

    async with lifespan(app), served(Replicas(app)) as address:
        async with httpx2.AsyncClient(timeout=30, headers=ACCEPT) as http:

            async def ask(number: int) -> str:
                body = {"jsonrpc": "2.0", "id": number, "method": "tools/call"}
                return (await http.post(address, json={**body, "params": calls[number]})).text

            async def cancel(number: int) -> None:
                await http.post(
                    address,
                    json={
                        "jsonrpc": "2.0",
                        "method": "notifications/cancelled",
                        "params": {"requestId": number},
                    },
                )

            going = asyncio.create_task(ask(7))
            await until(lambda: world.planner.nav.state.is_active)
            await cancel(6)
            assert world.planner.nav.state.is_active
            await cancel(7)
            await until(lambda: not world.planner.nav.state.is_active)
            await going
            stopping = asyncio.create_task(ask(8))
            await halted.wait()
            await cancel(8)
            go_on.set()
            assert '"stopped":["go2","second"]' in (await stopping).replace(" ", "")


@pytest.mark.parametrize("tool", ["send_velocity", "navigate_to", "explore"])
async def test_what_moves_is_ended_when_the_clients_connection_is_gone(
    world: World, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    monkeypatch.setattr(commands, "DRIVE_PERIOD_S", 0.001)
    arguments: dict[str, Any] = {
        "send_velocity": {"vx": 0.2, "duration": 5},
        "navigate_to": {"x": 3, "y": 4, "wait_s": 100},
        "explore": {"wait_s": 100},
    }[tool]
    app = create_mcp_app(world.handles())
    body = {**CALL, "params": {"name": tool, "arguments": arguments}}
    ended = asyncio.Event()

    async def drive(address: str) -> None:
        async with httpx2.AsyncClient(timeout=30) as http:
            await http.post(address, json=body, headers=ACCEPT)
            ended.set()

    def moves() -> bool:
        return (
            world.platform.holder != ""
            or world.planner.nav.state.is_active
            or world.explorer.mission.state.is_active
        )

    async with lifespan(app), served(Replicas(app)) as address:
        driving = asyncio.create_task(drive(address))
        await until(moves)
        driving.cancel()
        await until(lambda: not moves())
        assert not ended.is_set(), "it did not end by itself"
        if tool == "send_velocity":
            assert world.platform.twists[-1][0].is_zero
            assert {rank for _, _, rank in world.platform.twists} == {Rank.AGENT}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "rhino.example"}, 403),
        ({"host": "127.0.0.1.example:80"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 400),
    ],
)
async def test_a_page_of_others_cannot_drive_the_robot(
    world: World, headers: dict[str, str], status: int
) -> None:
    app = create_mcp_app(world.handles())
    async with lifespan(app), served(Replicas(app)) as address:
        async with httpx2.AsyncClient() as http:
            answer = await http.post(address, json=CALL, headers={**ACCEPT, **headers})
    assert answer.status_code // 100 == status // 100, answer.text
    assert len(world.planner.requests) == (1 if status == 200 else 0)


async def test_a_token_is_asked_for_where_there_is_one(world: World) -> None:
    app = create_mcp_app(world.handles(), Access("127.0.0.1", "secret"))
    async with lifespan(app), served(Replicas(app)) as address:
        async with httpx2.AsyncClient() as http:
            assert (await http.post(address, json=CALL, headers=ACCEPT)).status_code == 401
            wrong = {**ACCEPT, "authorization": "Bearer guess"}
            assert (await http.post(address, json=CALL, headers=wrong)).status_code == 401
        assert world.planner.requests == []
        bearer = httpx2.AsyncClient(headers={"authorization": "Bearer secret"})
        async with Client(streamable_http_client(address, http_client=bearer)) as client:
            await call(client, "navigate_to", x=1, y=1)
        await bearer.aclose()
    assert len(world.planner.requests) == 1
