import inspect
import logging
import re
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.testclient import TestClient
from ray import cloudpickle
from starlette.types import ASGIApp

import serve_app
from rhino_actors.config import RhinoConfig, ServerConfig
from rhino_actors.errors import ConfigError
from serve_app.api.router import build_control_router, build_router
from serve_app.app import build_apps, create_api, create_control, create_mcp_app
from serve_app.handles import Handles, connect
from serve_app.refusals import RefusalLog, log_with_serve

# Ray Serve's own models say so when they are first imported.
serve_import = pytest.mark.filterwarnings(
    "ignore:Using extra keyword arguments on `Field`:pydantic.PydanticDeprecatedSince20"
)


@serve_import
def test_serve_gets_three_applications_that_can_be_sent_to_replicas() -> None:
    apps = build_apps(RhinoConfig())
    assert [(app.name, app.route_prefix) for app in apps] == [
        ("rest", "/"),
        ("control", "/control"),
        ("mcp", "/mcp"),
    ]
    for app in apps:
        deployment = app.application._bound_deployment
        assert deployment.num_replicas == 1
        assert deployment.logging_config["enable_access_log"] is False
        assert deployment.max_ongoing_requests > ServerConfig().max_streams
        cloudpickle.loads(cloudpickle.dumps((deployment.func_or_class, deployment.init_args)))


def calls_of(routes: Iterable[Any]) -> Iterator[Callable[..., Any]]:
    """Yield each handler and each dependency below these routes."""
    for route in routes:
        if inner := getattr(route, "original_router", None):
            yield from calls_of(inner.routes)
        waiting = [route.dependant] if hasattr(route, "dependant") else []
        while waiting:
            dependant = waiting.pop()
            yield dependant.call
            waiting += dependant.dependencies


@pytest.mark.parametrize("build", [build_router, build_control_router])
def test_nothing_of_a_request_goes_to_a_thread(build: Callable[[], APIRouter]) -> None:
    """A place taken in a thread while its client leaves is never given back, and a stop would wait for a thread."""
    calls = set(calls_of(build().routes))
    assert {"get_robot", "get_anyone", "estop"} <= {call.__name__ for call in calls}
    on_loop = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    assert [call for call in calls if not any(check(call) for check in on_loop)] == []


@pytest.mark.parametrize("create", [create_api, create_control, create_mcp_app])
def test_every_part_is_looked_up_before_the_first_request(
    create: Callable[[Handles], ASGIApp],
) -> None:
    """That imports the actor's class, which holds everything up: no stop shall wait for it."""
    names: list[str] = []

    def resolve(name: str) -> Any:
        names.append(name)
        raise ValueError

    parts = {"go2/platform", "go2/planner", "go2/explorer", "go2/mapper", "poi_store"}
    with TestClient(create(connect(RhinoConfig(), resolve))):
        deadline = time.monotonic() + 10.0
        while not parts <= set(names):
            assert time.monotonic() < deadline, names
            time.sleep(0.01)


def test_every_file_of_the_page_is_in_the_package() -> None:
    root = Path(serve_app.__file__).parent.parent
    packaged = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    patterns = packaged["package-data"]["*"]
    for file in (root / "serve_app" / "lite").iterdir():
        assert any(file.match(pattern) for pattern in patterns), file.name


def test_in_a_replica_the_log_goes_where_serves_own_goes() -> None:
    own, serve = logging.getLogger("serve_app"), logging.getLogger("ray.serve")
    before = (own.handlers[:], own.level, own.propagate)
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    try:
        log_with_serve()
        serve.addHandler(ear := Ear())
        RefusalLog().write(logging.INFO, "bob", "GET /x", "NOT_FOUND", "Nothing.")
    finally:
        serve.removeHandler(ear)
        own.handlers[:], own.level, own.propagate = before
    assert heard == ["GET /x by bob: NOT_FOUND: Nothing."]


@serve_import
def test_no_application_is_open_to_others_without_a_token() -> None:
    with pytest.raises(ConfigError):
        build_apps(RhinoConfig(server=ServerConfig(host="0.0.0.0")))


@pytest.mark.parametrize("path", ["/", "/lite"])
def test_the_page_has_every_part_that_its_code_asks_for(client: TestClient, path: str) -> None:
    page, code = client.get(path).text, client.get("/lite/lite.js").text
    wanted = set(re.findall(r'\$\("([\w-]+)"\)', code))
    assert len(wanted) > 30 and wanted <= set(re.findall(r'id="([\w-]+)"', page))
    controls = set(re.findall(r'data-testid="([\w-]+)"', page))
    assert {"stop", "estop", "estop-clear", "map", "camera", "explore-start"} <= controls
    assert {f"drive-{key}" for key in "wasdqe"} <= controls


def test_the_page_writes_what_others_named_as_text_only(client: TestClient) -> None:
    code = client.get("/lite/lite.js").text
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", code)


def test_nothing_whose_height_changes_stands_above_the_drive_pad(client: TestClient) -> None:
    page = client.get("/lite").text
    side = page[page.index('<div class="side">') :]
    assert re.findall(r'<section[^>]* aria-label="(\w+)', side) == [
        "Camera",  # its shape is fixed
        "Drive",
        "State",
        "Places",
    ]
    assert re.search(r"\.camera {[^}]*aspect-ratio", client.get("/lite/lite.css").text)
