"""The description of the API is true and complete: schemathesis tries every operation, and the rest is counted."""

from dataclasses import replace

import pytest
import schemathesis
from fastapi.testclient import TestClient

from serve_app.app import create_api
from serve_app.security import Access
from tests import contract
from tests.api.test_map_patches import tile_patch
from tests.api.world import World

pytestmark = pytest.mark.slow

OF_A_ROBOT = "/api/robots/{robot}"


async def scraped() -> str:
    return "# TYPE ray_rhino_part_up gauge\n"


@pytest.mark.timeout(300)
def test_every_operation_answers_as_it_is_described() -> None:
    world = World()
    world.platform.add_frame()
    world.mapper.patch = tile_patch(world.mapper.current.epoch, 1, 0)
    # A bind address under whose name schemathesis asks.
    app = create_api(world.handles(), Access("testserver"))
    app.state.services = replace(app.state.services, scrape=scraped)  # there is no Ray here
    schema = schemathesis.openapi.from_asgi(
        "/openapi.json", app, config=contract.configuration("go2", max_examples=2)
    )
    # The routes by name are the same functions; the slow tests try them too.
    tried = schema.exclude(path_regex=contract.ENDLESS).exclude(path_regex=r"\{robot\}")
    requests, failures = contract.failures(tried)
    assert not failures, "\n".join(failures)
    assert requests > 400


def test_every_route_of_a_robot_is_there_for_the_first_one_and_by_name(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    named = {path.removeprefix(OF_A_ROBOT) for path in paths if path.startswith(OF_A_ROBOT)}
    plain = {path.removeprefix("/api") for path in paths if not path.startswith("/api/robots")}
    assert len(named) > 30 and named <= plain
    assert plain - named == {"/health", "/health/streams", "/session", "/metrics"}
    for path in named:
        assert paths[OF_A_ROBOT + path].keys() == paths["/api" + path].keys()
    for path, item in paths.items():
        for method, operation in item.items():
            assert (path.startswith(OF_A_ROBOT)) == operation["operationId"].endswith("OfRobot")
            assert {"401", "403"} <= operation["responses"].keys(), (method, path)
            if path.startswith(OF_A_ROBOT):
                assert "404" in operation["responses"], (method, path)


def test_every_number_says_its_unit(client: TestClient) -> None:
    spec = client.get("/openapi.json").json()
    for name, schema in spec["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            kinds = {
                described.get("type"),
                *(one.get("type") for one in described.get("anyOf", [])),
            }
            # A fault's numbers have their unit beside them.
            if "number" in kinds and name != "FaultNumber":
                assert described.get("x-unit"), f"{name}.{field}"
    velocity = spec["components"]["schemas"]["VelocityRequest"]["properties"]
    assert velocity["omega"]["x-unit"] == "rad/s" and velocity["vx"]["examples"]
    frame = spec["paths"]["/api/camera/frame"]["get"]["parameters"]
    assert {p["name"]: p.get("x-unit") for p in frame}["wait"] == "s"


def test_a_method_that_is_not_taken_is_told_which_are(client: TestClient) -> None:
    answer = client.put("/api/pois")
    assert answer.status_code == 405 and answer.headers["Allow"] == "GET, POST"
    answer = client.post("/api/robots/go2/pois/x")
    assert answer.status_code == 405 and answer.headers["Allow"] == "DELETE, PATCH"
    assert client.put("/api/cmd/StandUp").headers["Allow"] == "POST"
