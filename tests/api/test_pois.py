import pytest
from fastapi.testclient import TestClient

from tests.api.world import World

STRANGE = ["🐶厨房", "'); DROP TABLE pois;--", "<img src=x onerror=alert(1)>", "  edge ", "x" * 200]


@pytest.mark.parametrize("label", STRANGE)
def test_labels_come_back_as_they_were_written(client: TestClient, label: str) -> None:
    made = client.post("/api/pois", json={"label": label, "x": 1, "y": 2})
    assert made.status_code == 201
    assert [poi["label"] for poi in client.get("/api/pois").json()] == [label]


@pytest.mark.parametrize("label", ["", "   ", "x" * 10_000])
def test_unusable_labels_are_refused(client: TestClient, label: str) -> None:
    answer = client.post("/api/pois", json={"label": label, "x": 1, "y": 2})
    assert answer.status_code == 422 and answer.json()["code"] == "INVALID_LABEL"
    assert client.get("/api/pois").json() == []


@pytest.mark.parametrize(
    "body",
    [
        '{"label": "a", "x": 1}',
        '{"label": "a", "x": NaN, "y": 1}',
        '{"label": 3, "x": 1, "y": 1}',
        '{"label": null}',
        '{"x": 1, "y": 1}',
        '{"label": "\\ud800", "x": 1, "y": 1}',
        '{"label": "a", "x": 1, "y": 1, "id": "mine"}',
    ],
)
def test_a_bad_place_is_refused(client: TestClient, world: World, body: str) -> None:
    answer = client.post("/api/pois", content=body)
    assert answer.status_code == 422 and answer.json()["code"] == "INVALID_REQUEST"
    assert world.pois.pois == {}


def test_a_place_without_coordinates_is_where_the_robot_is(
    client: TestClient, world: World
) -> None:
    made = client.post("/api/pois", json={"label": "here"}).json()
    assert (made["x"], made["y"]) == (1.0, 2.0)
    world.platform.pose = None
    refused = client.post("/api/pois", json={"label": "nowhere"})
    assert refused.status_code == 503 and refused.json()["code"] == "NOT_AVAILABLE"


def test_places_are_renamed_and_deleted(client: TestClient) -> None:
    poi = client.post("/api/pois", json={"label": "a", "x": 1, "y": 2}).json()
    assert client.patch(f"/api/pois/{poi['id']}", json={"label": "b"}).json()["label"] == "b"
    assert client.patch(f"/api/pois/{poi['id']}", json={"label": ""}).status_code == 422
    assert client.delete(f"/api/pois/{poi['id']}").status_code == 204
    assert client.get("/api/pois").json() == []


def test_the_robot_is_sent_to_a_place(client: TestClient, world: World) -> None:
    poi = client.post("/api/pois", json={"label": "a", "x": 1.5, "y": 2}).json()
    answer = client.post(f"/api/pois/{poi['id']}/navigate", headers={"X-Rhino-Client": "ann"})
    assert answer.status_code == 200
    (request,) = world.planner.requests
    assert (request.x, request.y, request.client) == (1.5, 2.0, "ann")


@pytest.mark.parametrize(
    ("method", "suffix"), [("PATCH", ""), ("DELETE", ""), ("POST", "/navigate")]
)
def test_unknown_places_and_those_of_another_robot_are_not_found(
    client: TestClient, world: World, method: str, suffix: str
) -> None:
    poi = client.post("/api/pois", json={"label": "a", "x": 1, "y": 2}).json()
    body = {"label": "b"} if method == "PATCH" else None
    for path in (f"/api/pois/nope{suffix}", f"/api/robots/second/pois/{poi['id']}{suffix}"):
        answer = client.request(method, path, json=body)
        assert answer.status_code == 404 and answer.json()["code"] == "POI_NOT_FOUND"
    assert list(world.pois.pois) == [poi["id"]] and world.planner.requests == []
