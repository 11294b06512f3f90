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


def test_places_are_moved(client: TestClient) -> None:
    poi = client.post("/api/pois", json={"label": "a", "x": 1, "y": 2}).json()
    moved = client.patch(f"/api/pois/{poi['id']}", json={"x": 3, "z": 0.5}).json()
    assert (moved["label"], moved["x"], moved["y"], moved["z"]) == ("a", 3.0, 2.0, 0.5)
    for bad in ("{}", '{"x": NaN}', '{"x": "3"}', '{"map_id": "m"}'):
        answer = client.patch(f"/api/pois/{poi['id']}", content=bad)
        assert answer.status_code == 422 and answer.json()["code"] == "INVALID_REQUEST", bad
    assert client.get("/api/pois").json() == [moved]


def test_places_are_put_in_order(client: TestClient) -> None:
    ids = [
        client.post("/api/pois", json={"label": label, "x": 1, "y": 2}).json()["id"]
        for label in "abc"
    ]
    new = [ids[2], ids[0], ids[1]]
    answer = client.post("/api/pois/order", json={"ids": new})
    assert [poi["id"] for poi in answer.json()] == new
    assert [poi["id"] for poi in client.get("/api/pois").json()] == new
    refused = client.post("/api/pois/order", json={"ids": new[:2]})
    assert refused.status_code == 409 and refused.json()["code"] == "POI_LIST_CHANGED"
    assert client.post("/api/pois/order", json={"ids": [1]}).status_code == 422
    assert client.get("/api/pois/order").status_code in (404, 405)


@pytest.mark.parametrize(
    ("kind", "media", "begins"),
    [("csv", "text/csv; charset=utf-8", "id,label,"), ("geojson", "application/geo+json", "{")],
)
def test_places_are_exported(client: TestClient, kind: str, media: str, begins: str) -> None:
    client.post("/api/pois", json={"label": "🐶厨房", "x": 1, "y": 2})
    answer = client.get("/api/pois/export", params={"format": kind})
    assert answer.status_code == 200 and answer.headers["content-type"] == media
    assert answer.headers["content-disposition"] == f'attachment; filename="pois.{kind}"'
    assert answer.text.startswith(begins) and "🐶厨房" in answer.text
    assert client.get("/api/pois/export", params={"format": "xml"}).status_code == 422


@pytest.mark.parametrize("media", [None, "text/csv", "application/x-www-form-urlencoded"])
def test_places_are_imported_whatever_the_client_calls_the_file(
    client: TestClient, media: str | None
) -> None:
    headers = {"content-type": media} if media else {}
    content = b"label,x,y\nkitchen,1,2\ndoor,3,4\n"
    answer = client.post("/api/pois/import", content=content, headers=headers)
    assert answer.status_code == 201
    assert [poi["label"] for poi in client.get("/api/pois").json()] == ["kitchen", "door"]
    bad = client.post("/api/pois/import", content=content + b"x,y,z\n", headers=headers)
    assert bad.status_code == 422 and bad.json()["code"] == "POI_FILE_INVALID"
    assert bad.json()["message"].startswith("Line 4: ")
    large = client.post("/api/pois/import", content=b"x" * 1_000_001, headers=headers)
    assert large.status_code == 413
    assert len(client.get("/api/pois").json()) == 2


def test_imported_places_lie_on_the_map_that_runs(client: TestClient) -> None:
    saved = client.post("/api/maps", json={"name": "office"}).json()
    content = b"label,x,y,map_id\na,1,2,\n"
    (poi,) = client.post("/api/pois/import", content=content).json()
    assert poi["map_id"] is None
    query = {"onto_running_map": "true"}
    (poi,) = client.post("/api/pois/import", content=content, params=query).json()
    assert poi["map_id"] == saved["id"]


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
