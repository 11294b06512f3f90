"""/explore, /patrol and the log of missions."""

import math
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from rhino_actors.messages.missions import (
    MissionGoal,
    MissionKind,
    MissionRecord,
    MissionState,
    PatrolPoint,
    PatrolProgress,
    PatrolRouter,
    SkippedTarget,
)
from rhino_actors.messages.navigation import Rank
from tests.api.world import World

RECORD = MissionRecord(
    id="m-1",
    robot="go2",
    kind=MissionKind.PATROL,
    client="ann",
    started_at=1000.0,
    ended_at=1100.0,
    state=MissionState.TIME_LIMIT,
    reason="TIME_LIMIT",
    message="The time is over.",
    distance=12.5,
    elapsed=90.0,
    known_area=33.0,
    goals=(MissionGoal(1.0, 2.0, 0.5, 8.0, "failed", "NO_VALID_PATH", 3.0, "door"),),
    skipped=(SkippedTarget(4.0, 5.0, 0, "MAP_NOT_LOADED", "attic"),),
    goals_reached=4,
    goals_failed=1,
    patrol=PatrolProgress(PatrolRouter.POINTS, 0.5, 60.0, 20.0, 30.0, 2, "door"),
    has_picture=True,
)


def test_exploring_takes_an_area_and_limits(client: TestClient, world: World) -> None:
    area = [[-2.0, -2], [4, -2.0], [4.0, 3.0]]
    body = {"area": area, "max_time": 60, "max_distance": 20.5, "min_battery": 30}
    answer = client.post("/api/explore/start", json=body | {"return_home": True})
    assert answer.status_code == 200, answer.text
    request = world.explorer.requests[0]
    assert request.area == ((-2.0, -2.0), (4.0, -2.0), (4.0, 3.0))
    limits = request.limits
    assert (limits.max_time, limits.max_distance, limits.min_battery) == (60.0, 20.5, 30.0)
    assert limits.return_home and world.explorer.started_by[0][1] is Rank.HUMAN
    mission = answer.json()
    assert (mission["kind"], mission["state"], mission["phase"]) == (
        "explore",
        "running",
        "choosing",
    )
    assert mission["id"] == "mission-1" and mission["home"] == {"x": 1.0, "y": 2.0, "yaw": 0.0}
    assert mission["area"] == area and mission["limits"]["max_time"] == 60.0


@pytest.mark.parametrize("route", ["/api/explore", "/api/patrol", "/api/robots/go2/patrol"])
@pytest.mark.parametrize("body", [None, {}])
def test_it_starts_without_a_body_pauses_goes_on_and_ends(
    client: TestClient, route: str, body: dict[str, Any] | None
) -> None:
    assert client.post(f"{route}/start", json=body).json()["state"] == "running"
    again = client.post(f"{route}/start")
    assert again.status_code == 409 and again.json()["code"] == "MISSION_RUNNING"
    assert client.post(f"{route}/pause").json()["state"] == "paused_by_user"
    assert client.post(f"{route}/pause").status_code == 409
    assert client.post(f"{route}/resume").json()["state"] == "running"
    assert client.post(f"{route}/stop").json()["state"] == "cancelled"
    for action in ("stop", "pause", "resume"):
        refused = client.post(f"{route}/{action}")
        assert refused.status_code == 409 and refused.json()["code"] == "NO_MISSION"


SQUARE = [[0, 0], [1, 0], [1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"area": [[0, 0], [1, 1]]}, "corners"),
        ({"area": [[0, 0], [1, 1], [2, 2]]}, "enclose nothing"),
        ({"area": [[0, 0], [1, 0], [1, 20000]]}, "area.2.y"),
        ({"area": [[0, 0], [1, 0], [1, "1"]]}, "area"),
        ({"area": [[0, 0], [1, 0], [1, 2, 3]]}, "area"),
        ({"area": [[float(i), float(i * i)] for i in range(1001)]}, "area"),
        ({"area": SQUARE, "max_time": -1}, "max_time"),
        ({"max_time": 0.0}, "max_time"),
        ({"max_distance": 0}, "max_distance"),
        ({"min_battery": 100.5}, "min_battery"),
        ({"min_battery": "low"}, "min_battery"),
        ({"return_home": 1}, "return_home"),
        ({"speed": 1}, "speed"),
    ],
)
@pytest.mark.parametrize("kind", ["explore", "patrol"])
def test_what_cannot_be_used_is_refused_and_starts_nothing(
    client: TestClient, world: World, kind: str, body: dict[str, Any], says: str
) -> None:
    answer = client.post(f"/api/{kind}/start", json=body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "INVALID_REQUEST" and says in answer.json()["message"]
    assert not world.explorer.requests


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused(client: TestClient, number: str) -> None:
    for body in (f'{{"max_time": {number}}}', f'{{"area": [[0,0],[1,0],[1,{number}]]}}'):
        answer = client.post("/api/explore/start", content=body)
        assert answer.status_code == 422, body


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"router": "spiral"}, "router"),
        ({"router": "points"}, "needs points"),
        ({"router": "coverage", "points": [{"x": 1, "y": 1}]}, "needs points"),
        ({"router": "points", "points": [{"x": 1}]}, "points.0"),
        ({"router": "points", "points": [{}]}, "points.0"),
        ({"router": "points", "points": [{"poi": "id", "x": 1, "y": 2}]}, "points.0"),
        ({"router": "points", "points": [{"x": 1, "y": 20000}]}, "points.0.y"),
        ({"router": "points", "points": [{"x": 1, "y": 2, "dwell": -1}]}, "points.0.dwell"),
        ({"router": "points", "points": [{"x": 1, "y": 2}] * 501}, "points"),
        ({"dwell": -0.5}, "dwell"),
        ({"loops": 0}, "loops"),
        ({"loops": 1.5}, "loops"),
        ({"expiry": 0}, "expiry"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_patrol_that_cannot_be_is_refused(
    client: TestClient, world: World, body: dict[str, Any], says: str
) -> None:
    answer = client.post("/api/patrol/start", json=body)
    assert answer.status_code == 422, answer.text
    assert says in answer.json()["message"] and not world.explorer.requests


def test_places_of_a_patrol_are_looked_up(client: TestClient, world: World) -> None:
    door = client.post("/api/pois", json={"label": "door", "x": 2.0, "y": 1.0}).json()["id"]
    body = {
        "router": "points",
        "points": [door, {"poi": door, "dwell": 5, "yaw": 1.5, "label": "mat"}, {"x": -1, "y": 0}],
        "dwell": 2,
        "loops": 3,
    }
    assert client.post("/api/patrol/start", json=body).json()["kind"] == "patrol"
    request = world.explorer.requests[0]
    assert request.points == (
        PatrolPoint(2.0, 1.0, label="door", poi_id=door),
        PatrolPoint(2.0, 1.0, 1.5, 5.0, "mat", door),
        PatrolPoint(-1.0, 0.0),
    )
    assert (request.router, request.dwell, request.loops) == (PatrolRouter.POINTS, 2.0, 3)


def test_a_place_that_is_not_known_starts_nothing(client: TestClient, world: World) -> None:
    other = client.post("/api/robots/second/pois", json={"label": "roof", "x": 1, "y": 1}).json()
    for poi in ("no-such-id", other["id"]):
        body = {"router": "points", "points": [{"x": 0, "y": 0}, poi]}
        answer = client.post("/api/patrol/start", json=body)
        assert answer.status_code == 404 and answer.json()["code"] == "POI_NOT_FOUND"
        assert poi in answer.json()["message"] and "/api/pois" in answer.json()["hint"]
    assert not world.explorer.requests


async def test_places_of_another_map_are_skipped_and_alone_are_refused(
    client: TestClient, world: World
) -> None:
    saved = client.post("/api/maps", json={"name": "attic"}).json()
    attic = client.post("/api/pois", json={"label": "beam", "x": 3.0, "y": 4.0}).json()["id"]
    assert world.pois.pois[attic].map_id == saved["id"]
    world.mapper.current = replace(world.mapper.current, epoch=99)  # another map is in force now
    here = client.post("/api/pois", json={"label": "door", "x": 2.0, "y": 1.0}).json()["id"]
    refused = client.post("/api/patrol/start", json={"router": "points", "points": [attic]})
    assert refused.status_code == 409 and refused.json()["code"] == "MAP_NOT_LOADED"
    body = {"router": "points", "points": [attic, here]}
    answer = client.post("/api/patrol/start", json=body).json()
    skipped = {"x": 3.0, "y": 4.0, "size": 0, "reason": "MAP_NOT_LOADED", "label": "beam"}
    assert answer["skipped"] == [skipped]
    assert [p.label for p in world.explorer.requests[0].points] == ["door"]


def test_the_missions_progress_is_in_the_state(client: TestClient, world: World) -> None:
    client.post("/api/patrol/start")
    world.explorer.mission = replace(
        world.explorer.mission, patrol=RECORD.patrol, explored_share=0.7, eta=12.0
    )
    mission = client.get("/api/state").json()["mission"]
    assert mission["patrol"]["worst_idleness"] == 60.0 and mission["patrol"]["router"] == "points"
    assert (mission["explored_share"], mission["eta"]) == (0.7, 12.0)


def test_the_log_is_listed_newest_first_and_read(client: TestClient, world: World) -> None:
    older = replace(RECORD, id="m-0", state=MissionState.COMPLETE, has_picture=False)
    world.pois.missions = {"m-0": (older, None), "m-1": (RECORD, b"PNG"), "m-2": (RECORD, None)}
    world.pois.missions["m-2"] = (replace(RECORD, id="m-2", robot="second"), None)
    listed = client.get("/api/missions").json()
    assert [m["id"] for m in listed] == ["m-1", "m-0"] and "goals" not in listed[0]
    assert [m["id"] for m in client.get("/api/missions", params={"limit": 1}).json()] == ["m-1"]
    assert client.get("/api/missions", params={"limit": 0}).status_code == 422
    read = client.get("/api/missions/m-1").json()
    goal = {"x": 1.0, "y": 2.0, "started": 0.5, "ended": 8.0, "outcome": "failed"}
    assert read["goals"] == [goal | {"reason": "NO_VALID_PATH", "distance": 3.0, "label": "door"}]
    assert (read["state"], read["distance"], read["goals_reached"]) == ("time_limit", 12.5, 4)
    assert read["skipped"][0]["label"] == "attic" and math.isclose(read["ended_at"], 1100.0)
    picture = client.get("/api/missions/m-1/picture")
    assert picture.content == b"PNG" and picture.headers["content-type"] == "image/png"
    assert client.get("/api/robots/second/missions/m-2").status_code == 200
    for route in ("/api/missions/no", "/api/missions/m-2", "/api/missions/m-0/picture"):
        answer = client.get(route)
        assert answer.status_code == 404 and answer.json()["code"] == "MISSION_NOT_FOUND", route


def test_a_mission_is_deleted_unless_it_runs(client: TestClient, world: World) -> None:
    running = replace(RECORD, id="m-2", ended_at=None)
    world.pois.missions = {"m-1": (RECORD, b"PNG"), "m-2": (running, None)}
    assert client.delete("/api/robots/second/missions/m-1").status_code == 404
    assert client.delete("/api/missions/m-1").status_code == 204
    assert client.delete("/api/missions/m-1").status_code == 404
    refused = client.delete("/api/missions/m-2")
    assert refused.status_code == 409 and refused.json()["code"] == "MISSION_RUNNING"
    assert list(world.pois.missions) == ["m-2"]
