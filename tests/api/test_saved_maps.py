"""/maps...: keep, load, hand out and take in; a robot that is under way is stopped first."""

import asyncio
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from rhino_actors.errors import MapTooLarge
from rhino_actors.messages.geometry import Pose2D, Twist2D
from serve_app import commands
from serve_app.api import bodies
from tests.api.test_pois import STRANGE
from tests.api.world import World


def save(client: TestClient, name: str = "office", robot: str = "") -> dict[str, Any]:
    base = f"/api/robots/{robot}" if robot else "/api"
    answer = client.post(f"{base}/maps", json={"name": name})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def test_the_present_map_is_kept_under_a_name(client: TestClient, world: World) -> None:
    made = save(client)
    saved, content = world.pois.maps[made["id"]]
    assert np.array_equal(content.occupancy, world.mapper.current.occupancy)
    assert content.epoch == world.mapper.current.epoch
    assert made == {
        "id": saved.id,
        "robot": "go2",
        "name": "office",
        "created_at": 1000.0,
        "resolution": 0.1,
        "origin_x": -1.0,
        "origin_y": -0.5,
        "width": 30,
        "height": 20,
        "known_area": 3.0,
        "voxels": 0,
        "size": 500,
        "frame": saved.frame,
        "in_force": True,
    }
    assert client.get("/api/maps").json() == [made]
    assert client.get("/api/robots/go2/maps").json() == [made]
    assert client.get("/api/robots/second/maps").json() == []


@pytest.mark.parametrize("name", STRANGE)
def test_names_come_back_as_they_were_written(client: TestClient, name: str) -> None:
    save(client, name)
    assert [each["name"] for each in client.get("/api/maps").json()] == [name]


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, None, 5])
def test_unusable_names_are_refused(client: TestClient, world: World, name: Any) -> None:
    made = save(client)
    for answer in (
        client.post("/api/maps", json={"name": name}),
        client.patch(f"/api/maps/{made['id']}", json={"name": name}),
    ):
        assert answer.status_code == 422
        assert answer.json()["code"] in ("INVALID_LABEL", "INVALID_REQUEST")
    assert len(world.pois.maps) == 1


def test_a_taken_name_is_refused(client: TestClient) -> None:
    save(client)
    answer = client.post("/api/maps", json={"name": "office"})
    assert answer.status_code == 409 and answer.json()["code"] == "MAP_NAME_TAKEN"


def test_maps_are_renamed_and_deleted(client: TestClient, world: World) -> None:
    made = save(client)
    renamed = client.patch(f"/api/maps/{made['id']}", json={"name": "lab"})
    assert renamed.json() == {**made, "name": "lab"}
    assert client.delete(f"/api/maps/{made['id']}").status_code == 204
    assert world.pois.maps == {}


def test_a_map_with_places_is_deleted_only_by_force(client: TestClient, world: World) -> None:
    made = save(client)
    client.post("/api/pois", json={"label": "door", "x": 1, "y": 2})
    refused = client.delete(f"/api/maps/{made['id']}")
    assert refused.status_code == 409 and refused.json()["code"] == "MAP_IN_USE"
    assert "force" in refused.json()["hint"] and made["id"] in world.pois.maps
    assert client.delete(f"/api/maps/{made['id']}?force=true").status_code == 204


@pytest.mark.parametrize(
    ("method", "suffix"),
    [
        ("PATCH", ""),
        ("DELETE", "?force=true"),
        ("POST", "/load"),
        ("GET", "/export"),
        ("GET", "/thumbnail"),
    ],
)
def test_unknown_maps_and_those_of_another_robot_are_not_found(
    client: TestClient, world: World, method: str, suffix: str
) -> None:
    made = save(client)
    body = {"name": "b"} if method == "PATCH" else None
    for path in (f"/api/maps/nope{suffix}", f"/api/robots/second/maps/{made['id']}{suffix}"):
        answer = client.request(method, path, json=body)
        assert answer.status_code == 404 and answer.json()["code"] == "MAP_NOT_FOUND"
    assert made["id"] in world.pois.maps
    assert world.mapper.loaded == [] and world.platform.calls == []


def test_a_map_is_loaded_with_the_robots_place_on_it(client: TestClient, world: World) -> None:
    made = save(client)
    answer = client.post(f"/api/maps/{made['id']}/load", json={"x": 1.5, "y": -2, "yaw": 7.0})
    assert answer.status_code == 200
    loaded = answer.json()
    ((content, pose),) = world.mapper.loaded
    assert np.array_equal(content.occupancy, world.pois.maps[made["id"]][1].occupancy)
    assert pose is not None and pose.as_tuple() == pytest.approx((1.5, -2.0, 7.0 - 2 * np.pi))
    assert loaded["is_placed"] is True and loaded["epoch"] == world.mapper.current.epoch
    assert loaded["map"] == made
    assert world.pois.running["go2"] == (loaded["epoch"], made["id"])
    info = client.get("/api/map/info").json()
    assert info["map_from_odom"]["x"] == 1.5


@pytest.mark.parametrize("body", [None, {}, {"yaw": 1.0}])
def test_without_a_place_map_and_odom_are_one(
    client: TestClient, world: World, body: dict[str, float] | None
) -> None:
    made = save(client)
    answer = client.post(f"/api/maps/{made['id']}/load", json=body)
    assert answer.json()["is_placed"] is False
    assert world.mapper.loaded[0][1] is None


@pytest.mark.parametrize(
    "body", ['{"x": 1}', '{"y": 1}', '{"x": NaN, "y": 0}', '{"x": "1", "y": 0}', '{"z": 1}', "[]"]
)
def test_a_bad_place_is_refused_and_the_robot_goes_on(
    client: TestClient, world: World, body: str
) -> None:
    made = save(client)
    client.post("/api/navigate", json={"x": 2, "y": 1})
    answer = client.post(f"/api/maps/{made['id']}/load", content=body)
    assert answer.status_code == 422 and answer.json()["code"] == "INVALID_REQUEST"
    assert world.mapper.loaded == [] and world.planner.nav.state.is_active
    assert world.platform.calls == []


def test_a_map_is_loaded_with_its_voxels(client: TestClient, world: World) -> None:
    made = save(client)
    saved, content = world.pois.maps[made["id"]]
    voxels = np.array([[0.5, 0.5, 0.2]], np.float32)
    world.pois.maps[made["id"]] = (saved, replace(content, voxels=voxels))
    assert client.post(f"/api/maps/{made['id']}/load").status_code == 200
    ((loaded, _),) = world.mapper.loaded
    assert loaded.voxels is not None and np.array_equal(loaded.voxels, voxels)


def test_goal_and_mission_are_given_up_before_the_map_is_replaced(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = save(client)
    client.post("/api/navigate", json={"x": 2, "y": 1})
    client.post("/api/explore/start")
    seen: list[tuple[list[str], bool, bool]] = []
    load = world.mapper.load_map

    async def watched(*args: Any) -> int:
        active = world.planner.nav.state.is_active, world.explorer.mission.state.is_active
        seen.append((list(world.platform.calls), *active))
        # Somebody's goal that comes while the map is replaced was meant for the map before.
        await world.planner.navigate(
            commands.GoalRequest(1.0, 1.0, None, "late", commands.Rank.HUMAN)
        )
        return await load(*args)

    monkeypatch.setattr(world.mapper, "load_map", watched)
    headers = {"X-Rhino-Client": "ann"}
    assert client.post(f"/api/maps/{made['id']}/load", headers=headers).status_code == 200
    assert seen == [(["stop ann"], False, False)]
    assert world.platform.calls == ["stop ann", "stop ann"]
    assert not world.planner.nav.state.is_active


def test_the_map_is_not_replaced_while_the_robot_still_moves(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "STAND_PATIENCE_S", 0.2)
    made = save(client)
    for twist in (Twist2D(0.2, 0.0, 0.0), Twist2D(0.0, 0.2, 0.0), Twist2D(0.0, 0.0, -0.5)):
        world.platform.twist = twist
        answer = client.post(f"/api/maps/{made['id']}/load")
        assert answer.status_code == 409 and answer.json()["code"] == "ROBOT_MOVES"
    assert world.mapper.loaded == [] and world.platform.calls == ["stop testclient"] * 3


async def test_the_map_is_replaced_once_the_robot_stands() -> None:
    world = World()
    handles = world.handles()
    robot = handles.robot()
    saved = await commands.save_map(handles, robot, "office")
    world.platform.twist = Twist2D(0.3, 0.0, 0.0)
    loading = asyncio.create_task(commands.load_map(handles, robot, saved.id, None, "ann"))
    await asyncio.sleep(0.12)
    assert world.mapper.loaded == []
    world.platform.twist = Twist2D()
    await loading
    assert len(world.mapper.loaded) == 1


def test_a_map_too_large_for_the_mapper_says_so_and_is_not_in_force(
    client: TestClient, world: World
) -> None:
    made = save(client)
    running = dict(world.pois.running)
    world.mapper.error = MapTooLarge("It needs 9 cells.")
    answer = client.post(f"/api/maps/{made['id']}/load")
    assert answer.status_code == 413 and answer.json()["code"] == "MAP_TOO_LARGE"
    assert world.pois.running == running


def test_a_map_is_exported_as_a_zip_under_its_name(client: TestClient) -> None:
    made = save(client, 'küche "1"/\\')
    answer = client.get(f"/api/maps/{made['id']}/export")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.content == b"PK zip of " + made["id"].encode()
    disposition = answer.headers["content-disposition"]
    assert disposition == (
        "attachment; filename=\"map.zip\"; filename*=UTF-8''k%C3%BCche%20%221%22%2F%5C.zip"
    )


def test_a_thumbnail_is_a_picture(client: TestClient) -> None:
    made = save(client)
    answer = client.get(f"/api/maps/{made['id']}/thumbnail")
    image = cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_UNCHANGED)
    assert answer.headers["content-type"] == "image/png" and image.tolist() == [[0, 254]]


@pytest.mark.parametrize("kind", [None, "application/zip", "application/octet-stream"])
def test_a_zip_is_imported_as_it_is_sent(
    client: TestClient, world: World, kind: str | None
) -> None:
    headers = {"content-type": kind} if kind else {}
    body = b"\x00zip" * 500_000  # more than a body may have elsewhere
    answer = client.post("/api/maps/import?name=office", content=body, headers=headers)
    assert answer.status_code == 201
    assert answer.json()["name"] == "office" and answer.json()["in_force"] is False
    assert world.pois.imported == [{"upload.zip": body}]


def test_files_of_a_form_are_imported(client: TestClient, world: World) -> None:
    files = [("files", ("office.yaml", b"image: office.pgm")), ("files", ("office.pgm", b"P5"))]
    answer = client.post("/api/robots/second/maps/import?name=lab", files=files)
    assert answer.status_code == 201 and answer.json()["robot"] == "second"
    assert world.pois.imported == [dict(file for _, file in files)]


@pytest.mark.parametrize(
    "request_",
    [
        {"files": [("f", (f"{n}.pgm", b"x")) for n in range(4)]},
        {"files": [("f", ("a.pgm", b"x")), ("f", ("a.pgm", b"y"))]},
        {"files": [("f", ("a.pgm", b"x"))], "data": {"more": "text"}},
        {"content": b"--x", "headers": {"content-type": "multipart/form-data; boundary=x"}},
        {"content": b"--x", "headers": {"content-type": "multipart/form-data"}},
        {"content": b"bad zip"},
        {"files": [("f", ("a.zip", b"bad zip"))]},
    ],
)
def test_an_upload_that_is_no_map_is_refused(
    client: TestClient, world: World, request_: dict[str, Any]
) -> None:
    answer = client.post("/api/maps/import?name=office", **request_)
    assert answer.status_code == 422 and answer.json()["code"] == "MAP_FILE_INVALID"
    assert world.pois.maps == {}


def test_an_import_without_a_name_is_refused(client: TestClient, world: World) -> None:
    answer = client.post("/api/maps/import", content=b"zip")
    assert answer.status_code == 422 and answer.json()["code"] == "INVALID_REQUEST"
    assert world.pois.imported == []


@pytest.mark.parametrize("form", [True, False])
def test_a_map_beyond_the_limit_is_refused_as_soon_as_that_is_known(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch, form: bool
) -> None:
    monkeypatch.setattr(bodies, "MAX_MAP_BYTES", 200_000)

    def in_pieces() -> Any:
        for _ in range(5):
            yield b"x" * 65536

    sent: dict[str, Any] = (
        {"files": [("f", ("a.zip", b"x" * 300_000))]} if form else {"content": in_pieces()}
    )
    answer = client.post("/api/maps/import?name=office", **sent)
    assert answer.status_code == 413 and answer.json()["code"] == "TOO_LARGE"
    assert world.pois.imported == []


def test_other_routes_keep_the_small_limit(client: TestClient) -> None:
    body = b'{"name": "' + b"x" * bodies.MAX_BODY_BYTES + b'"}'
    assert client.post("/api/maps", content=body).status_code == 413


def test_uploads_at_once_are_bounded(client: TestClient) -> None:
    uploads = client.app.state.services.uploads  # type: ignore[attr-defined]
    with uploads.slot(), uploads.slot():
        answer = client.post("/api/maps/import?name=office", content=b"zip")
        assert answer.status_code == 503 and int(answer.headers["Retry-After"]) >= 1
    assert client.post("/api/maps/import?name=office", content=b"zip").status_code == 201


def test_pages_of_other_sites_import_nothing(client: TestClient, world: World) -> None:
    answer = client.post(
        "/api/maps/import?name=x", content=b"zip", headers={"origin": "http://evil.example"}
    )
    assert answer.status_code == 403 and world.pois.imported == []


def test_saved_maps_are_listed_while_the_mapper_restarts(client: TestClient, world: World) -> None:
    made = save(client)
    world.lost["mapper"] = rx.ActorUnavailableError("restarting", b"\0" * 16)
    assert client.get("/api/maps").json() == [{**made, "in_force": None}]


def test_places_lie_on_the_map_in_force(client: TestClient, world: World) -> None:
    before = client.post("/api/pois", json={"label": "a", "x": 1, "y": 2}).json()
    made = save(client)
    after = client.post("/api/pois", json={"label": "b", "x": 1, "y": 2}).json()
    assert (before["map_id"], after["map_id"]) == (None, made["id"])


def test_a_place_where_the_robot_is_has_the_maps_coordinates(
    client: TestClient, world: World
) -> None:
    made = save(client)
    client.post(f"/api/maps/{made['id']}/load", json={"x": 10, "y": 20, "yaw": np.pi / 2})
    # The fake's correction is the pose given; the robot is at (1, 2) in odom.
    poi = client.post("/api/pois", json={"label": "here"}).json()
    assert (poi["x"], poi["y"]) == pytest.approx((8.0, 21.0))
    assert poi["map_id"] == made["id"]


def test_the_robot_is_not_sent_to_a_place_of_another_map(client: TestClient, world: World) -> None:
    loose = client.post("/api/pois", json={"label": "loose", "x": 1, "y": 2}).json()
    office = save(client, "office")
    bound = client.post("/api/pois", json={"label": "bound", "x": 1, "y": 2}).json()
    copy = save(client, "office, later")
    assert copy["frame"] == office["frame"]

    def go(poi: dict[str, Any]) -> Any:
        return client.post(f"/api/pois/{poi['id']}/navigate")

    assert go(bound).status_code == 200, "a later map of the same frame has the same coordinates"
    client.post(f"/api/maps/{office['id']}/load")
    assert go(bound).status_code == 200
    refused = go(loose)
    assert refused.status_code == 409 and refused.json()["code"] == "MAP_NOT_LOADED"
    hall = client.post("/api/maps/import?name=hall", content=b"zip").json()
    client.post(f"/api/maps/{hall['id']}/load")
    assert go(bound).json()["code"] == "MAP_NOT_LOADED", "the hall has coordinates of its own"
    world.mapper.current = replace(world.mapper.current, epoch=999)  # deployed anew
    refused = go(bound)
    assert refused.status_code == 409 and refused.json()["code"] == "MAP_NOT_LOADED"
    assert "'office'" in refused.json()["message"]
    assert go(loose).status_code == 200
    assert len(world.planner.requests) == 3


def test_a_move_by_is_made_on_the_map(world: World) -> None:
    async def moved() -> None:
        robot = world.handles().robot()
        world.mapper.current = replace(world.mapper.current, map_from_odom=Pose2D(10.0, 0.0, np.pi))
        await commands.move_by(robot, 1.0, 0.0, 0.0, client="ann", rank=commands.Rank.HUMAN)

    asyncio.run(moved())
    (request,) = world.planner.requests
    # At (1, 2) in odom, looking along +y; in the map that is (9, -2), looking along -y.
    assert (request.x, request.y) == pytest.approx((9.0, -3.0))


def test_routes_have_units_and_their_errors(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for base in ("/api", "/api/robots/{robot}"):
        load = paths[f"{base}/maps/{{map_id}}/load"]["post"]["responses"]
        assert {"404", "409", "413", "422", "503", "504"} <= set(load)
        upload = paths[f"{base}/maps/import"]["post"]
        assert set(upload["requestBody"]["content"]) == {"application/zip", "multipart/form-data"}
        export = paths[f"{base}/maps/{{map_id}}/export"]["get"]["responses"]["200"]["content"]
        assert set(export) == {"application/zip"}
