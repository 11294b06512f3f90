"""Which server a path belongs to, and that clients never see how."""

import re
from typing import Any

import pytest
from fastapi.testclient import TestClient

from serve_app import front
from serve_app.app import create_api, create_control
from serve_app.front import CONTROL_PREFIX, ToControl, belongs_to_control
from tests.api.conftest import BASE_URL
from tests.api.world import World

CONTROL = [
    "/api/velocity",
    "/api/stop",
    "/api/stop/",
    "/api/estop",
    "/api/estop/clear",
    "/api/control/take",
    "/api/control/keep",
    "/api/ws",
    "/api/cmd/StopMove",
    "/api/robots/go2/velocity",
    "/api/robots/go2/ws",
    "/api/robots/go2/estop/clear",
]
OTHERS = [
    "/",
    "/lite",
    "/api/health",
    "/api/state",
    "/api/events",
    "/api/camera/stream",
    "/api/stopwatch",
    "/api/robots",
    "/api/robots/velocity",
    "/api/robots/go2/events",
    "/api/cmd/StandUp",
    "/api/explore/stop",
    "/mcp",
    "/x/api/velocity",
]


@pytest.mark.parametrize("path", CONTROL)
def test_what_drives_and_stops_goes_to_its_own_server(path: str) -> None:
    assert belongs_to_control(path)


@pytest.mark.parametrize("path", OTHERS)
def test_everything_else_does_not(path: str) -> None:
    assert not belongs_to_control(path)


def scope(kind: str, path: str, *headers: tuple[bytes, bytes], method: str = "GET") -> Any:
    encoded = {"path": path, "raw_path": path.encode(), "headers": list(headers)}
    return {"type": kind, "method": method, **encoded}


@pytest.mark.parametrize(
    ("method", "path", "to_the_end"),
    [
        ("POST", "/api/stop", True),
        ("POST", "/api/robots/go2/estop", True),
        ("POST", "/api/cmd/StopMove", True),
        ("POST", "/api/cmd/Damp", True),
        ("POST", "/api/navigate/cancel", True),
        ("POST", "/api/patrol/pause", True),
        ("GET", "/api/stop", False),
        ("POST", "/api/velocity", False),
        ("POST", "/api/estop/clear", False),
        ("POST", "/api/cmd/StandUp", False),
        ("POST", "/api/explore/resume", False),
        ("GET", "/api/events", False),
    ],
)
@pytest.mark.parametrize("given", [[], [(b"x-request-disconnect-disabled", b"?1")]])
async def test_what_ends_a_movement_outlives_its_client_and_nothing_else_does(
    method: str, path: str, to_the_end: bool, given: list[tuple[bytes, bytes]]
) -> None:
    seen: list[dict[bytes, bytes]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(dict(scope["headers"]))

    await ToControl(app)(scope("http", path, *given, method=method), None, None)
    assert (seen[0].get(b"x-request-disconnect-disabled") == b"?1") == to_the_end


async def test_the_proxy_puts_the_prefix_before_the_path_and_the_server_takes_it_away() -> None:
    (layer,) = front.middlewares()
    seen: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope)

    proxy = layer.cls(app)
    assert isinstance(proxy, ToControl)
    for kind in ("http", "websocket"):
        await proxy(scope(kind, "/api/ws"), None, None)
    await proxy(scope("http", "/api/state"), None, None)
    assert [scope["path"] for scope in seen] == ["/control/api/ws"] * 2 + ["/api/state"]


@pytest.mark.parametrize("prefix", ["", CONTROL_PREFIX])
@pytest.mark.parametrize("create", [create_api, create_control])
def test_both_servers_answer_with_and_without_the_prefix(create: Any, prefix: str) -> None:
    world = World()
    with TestClient(create(world.handles()), base_url=BASE_URL) as client:
        for base in ("/api", "/api/robots/go2"):
            answer = client.post(f"{prefix}{base}/estop", headers={"X-Rhino-Client": "ann"})
            assert answer.status_code == 200 and world.platform.latched_by == "ann"
            assert answer.headers["X-Rhino-App"] == ("rest" if create is create_api else "control")
            assert client.post(f"{prefix}{base}/estop/clear").json()["latched"] is False
        assert client.get(f"{prefix}/api/control/health").json() == {"status": "ok"}
        foreign = {"origin": "http://evil.example"}
        assert client.post(f"{prefix}/api/estop", headers=foreign).status_code == 403


def test_every_path_that_goes_there_is_answered_there() -> None:
    """What the proxy sends to the server of driving must be one of its routes."""
    world = World()
    rest = create_api(world.handles()).openapi()["paths"]
    control = create_control(world.handles())
    with TestClient(control, base_url=BASE_URL) as client:
        for path, methods in rest.items():
            concrete = re.sub(r"{robot}", "go2", path)
            if not belongs_to_control(concrete):
                continue
            for method in methods:
                answer = client.request(method, concrete)
                assert answer.status_code not in (404, 405), f"{method} {path}"
