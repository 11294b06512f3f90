"""Pages of others cannot drive the robot, re-bound names are not served, and with a token nothing goes without."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from rhino_actors.config import ServerConfig, state_dir
from rhino_actors.errors import ConfigError
from serve_app.access import Access, is_loopback, read_access
from serve_app.api import pages
from serve_app.app import create_api, create_mcp_app
from serve_app.security import TOKEN_COOKIE, Guard, session_value
from tests.api.world import World

TOKEN = "a-token-of-some-length"
OPEN = Access("127.0.0.1")
LOCKED = Access("0.0.0.0", TOKEN)
WS = "ws://localhost:8000/ws"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        await socket.send_text("hello")
        await socket.close()
    else:
        await PlainTextResponse("in")(scope, receive, send)


def guarded(access: Access) -> TestClient:
    return TestClient(Guard(app, access), base_url="http://localhost:8000")


@pytest.mark.parametrize(
    "host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "LOCALHOST", "127.0.0.1"]
)
def test_loopback_names_are_served(host: str) -> None:
    assert guarded(OPEN).get("/api/state", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:8000", "evil.example", "localhost.evil.example", "127.0.0.1.nip.io:8000", ""],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_rebound_name_is_not_served(host: str, method: str) -> None:
    answer = guarded(OPEN).request(method, "/api/state", headers={"host": host})
    assert answer.status_code == 403 and answer.json()["code"] == "HOST_NOT_ALLOWED"


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost",
        "http://localhost:3000",
        "http://127.0.0.1:8000",
        "http://localhost:8000.evil.example",
        "http://x@evil.example:8000",
        "http://[evil]x",
        "http://[::1",
    ],
)
@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE", "PUT"])
def test_other_origins_change_nothing(origin: str, method: str) -> None:
    answer = guarded(OPEN).request(method, "/api/stop", headers={"origin": origin})
    assert answer.status_code == 403 and answer.json()["code"] == "ORIGIN_NOT_ALLOWED"


@pytest.mark.parametrize("access", [OPEN, Access("0.0.0.0")])
@pytest.mark.parametrize("host", ["[evil]x", "[::1", "[evil]x:8000"])
def test_a_host_that_cannot_be_read_is_not_served(access: Access, host: str) -> None:
    for headers in ({"host": host}, {"host": host, "origin": f"http://{host}"}):
        answer = guarded(access).post("/api/stop", headers=headers)
        assert answer.status_code == 403 and answer.json()["code"] == "HOST_NOT_ALLOWED"


@pytest.mark.parametrize(
    ("name", "values", "code"),
    [
        ("host", ("localhost:8000", "evil.example"), "HOST_NOT_ALLOWED"),
        ("origin", ("http://localhost:8000", "http://evil.example"), "ORIGIN_NOT_ALLOWED"),
    ],
)
def test_one_host_and_one_origin_at_most(name: str, values: tuple[str, str], code: str) -> None:
    for ordered in (values, values[::-1]):
        answer = guarded(OPEN).post("/api/stop", headers=[(name, value) for value in ordered])
        assert answer.status_code == 403 and answer.json()["code"] == code


def test_a_form_post_of_another_site_is_refused_without_an_origin_too() -> None:
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
        answer = guarded(OPEN).post("/api/stop", headers={"sec-fetch-site": site})
        assert answer.status_code == status


def test_own_pages_and_programs_may_change_things() -> None:
    own = {"origin": "http://localhost:8000"}
    assert guarded(OPEN).post("/api/stop", headers=own).status_code == 200
    assert guarded(OPEN).post("/api/stop").status_code == 200


def test_websockets_are_checked_alike() -> None:
    with guarded(OPEN).websocket_connect(WS) as socket:
        assert socket.receive_text() == "hello"
    bad: list[dict[str, str]] = [{"origin": "http://evil.example"}, {"host": "evil.example"}]
    for headers in bad:
        with pytest.raises(WebSocketDisconnect):
            with guarded(OPEN).websocket_connect(WS, headers=headers):
                pass
    with pytest.raises(WebSocketDisconnect):
        with guarded(LOCKED).websocket_connect(WS):
            pass


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer "},
        {"authorization": f"Bearer {TOKEN}x"},
        {"cookie": f"{TOKEN_COOKIE}=wrong"},
        {"cookie": f"{TOKEN_COOKIE}={TOKEN}"},
        {"cookie": "\x01=;;;"},
        {"authorization": "Bearer ü".encode()},
    ],
)
def test_without_the_token_nothing_goes(headers: dict[str, Any]) -> None:
    answer = guarded(LOCKED).get("/api/state", headers=headers)
    assert answer.status_code == 401 and answer.json()["code"] == "UNAUTHORIZED"
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {TOKEN}"},
        {"authorization": f"bearer {TOKEN}"},
        {"cookie": f"a=b; {TOKEN_COOKIE}={session_value(TOKEN)}"},
    ],
)
def test_with_the_token_it_goes(headers: dict[str, str]) -> None:
    assert guarded(LOCKED).get("/api/state", headers=headers).status_code == 200
    assert guarded(LOCKED).get("/mcp", headers=headers).status_code == 200


def test_health_and_the_bare_page_need_no_token() -> None:
    for path in ("/api/health", "/", "/lite", "/lite/lite.js"):
        assert guarded(LOCKED).get(path).status_code == 200
    assert guarded(LOCKED).post("/api/session").status_code == 200
    for path in ("/api", "/openapi.json", "/mcp", "/api/health/x"):
        assert guarded(LOCKED).get(path).status_code == 401


def test_answers_keep_other_pages_out() -> None:
    headers = guarded(OPEN).get("/api/state").headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_the_page_may_load_nothing_from_elsewhere(client: TestClient) -> None:
    for path in ("/", "/lite", "/lite/lite.js", "/lite/lite.css", "/lite/icon.svg"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-security-policy"] == pages.CONTENT_SECURITY_POLICY
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in answer.text
    assert "unsafe" not in pages.CONTENT_SECURITY_POLICY


def test_the_apps_themselves_are_guarded(client: TestClient, world: World) -> None:
    answer = client.post("/api/estop", headers={"origin": "http://evil.example"})
    assert answer.status_code == 403 and world.platform.calls == []
    with TestClient(create_mcp_app(world.handles()), base_url="http://localhost") as mcp:
        assert mcp.post("/", headers={"origin": "http://evil.example"}).status_code == 403
        assert mcp.post("/", headers={"host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.0.0.9", True)]
    + [("0.0.0.0", False), ("::", False), ("192.168.1.4", False), ("robot.local", False)],
)
def test_only_loopback_is_local(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_another_bind_address_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no token"):
        read_access(ServerConfig(host="0.0.0.0"))
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert read_access(ServerConfig(host="0.0.0.0", token_file=str(file))) == LOCKED


def test_the_token_of_the_state_directory_is_used() -> None:
    assert read_access(ServerConfig()) == OPEN
    state_dir().mkdir(parents=True)
    (state_dir() / "token").write_text(TOKEN)
    (state_dir() / "token").chmod(0o600)
    assert read_access(ServerConfig()).token == TOKEN


@pytest.mark.parametrize(
    "content", [None, b"", b"\n", b"\xff\xfe", b"short", b"two words of length"]
)
def test_a_token_file_that_cannot_be_used_stops_the_start(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
        file.chmod(0o600)
    with pytest.raises(ConfigError):
        read_access(ServerConfig(token_file=str(file)))


def test_a_token_file_that_others_may_read_stops_the_start(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="Others may read"):
        read_access(ServerConfig(token_file=str(file)))


@pytest.fixture
def locked(world: World) -> Iterator[TestClient]:
    with TestClient(create_api(world.handles(), LOCKED), base_url="http://robot:8000") as client:
        yield client


def test_a_browser_signs_in_once_and_its_cookie_is_not_the_token(locked: TestClient) -> None:
    assert locked.get("/api/state").status_code == 401
    answer = locked.post("/api/session", json={"token": TOKEN})
    assert answer.status_code == 204
    words = answer.headers["set-cookie"].lower()
    assert "httponly" in words and "samesite=strict" in words and TOKEN not in words
    assert locked.get("/api/state").status_code == 200
    assert locked.delete("/api/session").status_code == 204
    assert locked.get("/api/state").status_code == 401


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", "\ud800", "ü" * 40])
def test_a_wrong_token_signs_nobody_in(locked: TestClient, token: str) -> None:
    answer = locked.post("/api/session", content=json.dumps({"token": token}))
    assert answer.status_code in (401, 422) and "set-cookie" not in answer.headers
    assert locked.get("/api/state").status_code == 401


def test_pages_of_others_cannot_sign_in(locked: TestClient) -> None:
    headers = {"origin": "http://evil.example"}
    answer = locked.post("/api/session", json={"token": TOKEN}, headers=headers)
    assert answer.status_code == 403 and "set-cookie" not in answer.headers
