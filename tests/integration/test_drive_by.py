"""A page of another site, in a real browser on the robot's machine, gets nothing and changes nothing."""

import asyncio
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, sync_playwright
from starlette.types import ASGIApp

from rhino_actors.messages.navigation import NavState
from serve_app.access import Access
from serve_app.app import create_api
from tests.api.world import World
from tests.deployment import Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

# Everything a page can try without the server's leave; it says what came of each attempt.
ATTACK = (Path(__file__).parent / "drive_by.html").read_text()


class Evil(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(ATTACK.encode())

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving(app: ASGIApp) -> Iterator[int]:
    """Serve an app on a free loopback port."""
    probe = socket.socket()
    probe.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([probe])))
    thread.start()
    try:
        yield probe.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20.0)
        probe.close()


@contextmanager
def evil_site() -> Iterator[int]:
    site = ThreadingHTTPServer(("127.0.0.1", 0), Evil)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        yield site.server_port
    finally:
        site.shutdown()
        site.server_close()


@contextmanager
def browser() -> Iterator[Browser]:
    """Chromium for which evil.example is this machine: a site of others, and a name that was re-bound."""
    chromium = shutil.which("chromium")
    assert chromium, "this test needs chromium: apt-get install chromium"
    arguments = ["--no-sandbox", "--host-resolver-rules=MAP *.example 127.0.0.1"]
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=arguments)
        try:
            yield running
        finally:
            running.close()


def visit(page: Page, site: str, api: str) -> dict[str, str]:
    """Open the page of others and let it try everything; return what came of each attempt."""
    page.goto(site)
    got: dict[str, str] = page.evaluate("api => attack(api)", api)
    return got


def leaked(got: dict[str, str]) -> dict[str, str]:
    """Return the attempts that learned something. Opaque answers and queued beacons tell a page nothing."""
    return {k: v for k, v in got.items() if v not in ("failed", "opaque", "true", "false")}


def what_happened(robot: Rhino) -> tuple[Any, ...]:
    """Return what an attack would change."""
    state = robot.get("/api/state")
    newest = max((line["stamp"] for line in robot.get("/api/gate/log")), default=0.0)
    return (
        state["nav"]["goal_id"],
        state["mission"]["state"],
        state["gate"]["latched"],
        state["gate"]["epoch"],
        newest,  # decision of the gate; the log forgets old ones
    )


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_page_of_others_changes_and_reads_nothing(running: Rhino, name: str) -> None:
    api = f"http://{name}:{running.port}"
    running.post("/api/estop")  # so that clearing it would show
    before = what_happened(running)
    with evil_site() as port, browser() as chromium:
        for site in ("evil.example", "localhost"):  # another site, and another port of this machine
            page = chromium.new_page()
            got = visit(page, f"http://{site}:{port}/", api)
            assert len(got) == 13 and not leaked(got), got
            assert what_happened(running) == before
    running.post("/api/estop/clear")
    before = what_happened(running)
    with evil_site() as port, browser() as chromium:
        visit(chromium.new_page(), f"http://evil.example:{port}/", api)
        assert what_happened(running) == before, "the robot that may move was not moved"


def test_a_name_that_was_rebound_to_this_machine_is_not_served(running: Rhino) -> None:
    before = what_happened(running)
    with browser() as chromium:
        page = chromium.new_page()
        answer = page.goto(f"http://evil.example:{running.port}/")
        assert answer is not None and answer.status == 403
        statuses = page.evaluate(
            """async () => Promise.all([
                fetch("/api/state"), fetch("/api/velocity", {method: "POST", body: '{"vx":0.5,"vy":0,"omega":0}'}),
                fetch("/mcp", {method: "POST", body: "{}"}),
            ].map(async (asked) => (await asked).status))"""
        )
        assert statuses == [403, 403, 403]
    assert what_happened(running) == before


def test_the_robots_own_page_may_drive(running: Rhino) -> None:
    """What the other tests watch does change when it should."""
    before = what_happened(running)
    with browser() as chromium:
        page = chromium.new_page()
        page.goto(f"{running.api}/lite")
        status = page.evaluate(
            """async () => (await fetch("/api/velocity",
                {method: "POST", body: '{"vx":0.05,"vy":0,"omega":0}'})).status"""
        )
        assert status == 200
    assert what_happened(running) != before
    running.post("/api/stop")


def test_a_signed_in_browser_lends_its_session_to_nobody() -> None:
    world, token = World(), "a-token-of-some-length"
    app = create_api(world.handles(), Access("127.0.0.1", token))
    with serving(app) as port, evil_site() as evil, browser() as chromium:
        own = f"http://127.0.0.1:{port}"
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{own}/lite")
        page.get_by_test_id("token-input").fill(token)
        page.get_by_test_id("token-input").press("Enter")
        page.get_by_test_id("token-form").wait_for(state="hidden")
        assert page.evaluate("fetch('/api/state').then((a) => a.status)") == 200
        assert page.evaluate("document.cookie") == "", "scripts cannot read it"
        for site in (f"http://evil.example:{evil}/", f"http://127.0.0.1:{evil}/"):
            other = context.new_page()
            got = visit(other, site, own)
            assert not leaked(got), got
            assert world.platform.twists == [] and world.platform.calls == []
            assert world.planner.nav.state is NavState.IDLE
            assert not world.explorer.mission.state.is_active
