import re

import pytest
from fastapi.testclient import TestClient
from ray import cloudpickle

from rhino_actors.config import RhinoConfig, ServerConfig
from rhino_actors.errors import ConfigError
from serve_app.app import build_apps

# Ray Serve's own models say so when they are first imported.
serve_import = pytest.mark.filterwarnings(
    "ignore:Using extra keyword arguments on `Field`:pydantic.PydanticDeprecatedSince20"
)


@serve_import
def test_serve_gets_two_applications_that_can_be_sent_to_replicas() -> None:
    apps = build_apps(RhinoConfig())
    assert [(app.name, app.route_prefix) for app in apps] == [("rest", "/"), ("mcp", "/mcp")]
    for app in apps:
        deployment = app.application._bound_deployment
        assert deployment.num_replicas == 1
        assert deployment.max_ongoing_requests > ServerConfig().max_streams
        cloudpickle.loads(cloudpickle.dumps((deployment.func_or_class, deployment.init_args)))


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
