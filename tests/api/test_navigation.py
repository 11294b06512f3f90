import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from rhino_actors.messages.navigation import NavMode, Rank
from tests.api.world import World

ANN = {"X-Rhino-Client": "ann"}


def test_a_goal_reaches_the_planner(client: TestClient, world: World) -> None:
    answer = client.post("/api/navigate", json={"x": 2, "y": -1.5, "yaw": 7.0}, headers=ANN)
    assert answer.status_code == 200
    assert answer.json()["goal_id"] == 1 and answer.json()["state"] == "following"
    assert answer.json()["path"] == [[1.0, 2.0], [2.0, -1.5]]
    (request,) = world.planner.requests
    assert (request.x, request.y, request.client, request.rank) == (2.0, -1.5, "ann", Rank.HUMAN)
    assert request.yaw == pytest.approx(7.0 - 6.283185307)
    assert not request.strict and request.allow_unknown and request.mode is None


def test_a_goal_may_be_strict_and_direct(client: TestClient, world: World) -> None:
    body = {"x": 1, "y": 1, "strict": True, "allow_unknown": False, "mode": "direct"}
    client.post("/api/navigate", json=body)
    (request,) = world.planner.requests
    assert request.strict and not request.allow_unknown and request.mode is NavMode.DIRECT
    assert request.yaw is None


@pytest.mark.parametrize(
    "body",
    [
        '{"x": NaN, "y": 0}',
        '{"x": 0, "y": Infinity}',
        '{"x": 0}',
        '{"x": "1", "y": 0}',
        '{"x": null, "y": 0}',
        '{"x": 0, "y": 0, "yaw": NaN}',
        '{"x": 0, "y": 0, "strict": "yes"}',
        '{"x": 0, "y": 0, "mode": "teleport"}',
        '{"x": 0, "y": 0, "z": 0}',
    ],
)
def test_a_bad_goal_is_refused(client: TestClient, world: World, body: str) -> None:
    answer = client.post("/api/navigate", content=body)
    assert answer.status_code == 422
    assert answer.json()["code"] == "INVALID_REQUEST"
    assert world.planner.requests == []


def test_status_tells_goal_and_who_sets_it(client: TestClient) -> None:
    assert client.get("/api/navigate/status").json()["goal"] is None
    client.post("/api/navigate", json={"x": 2, "y": 1})
    client.post("/api/explore/start")
    status = client.get("/api/navigate/status").json()
    assert status["goal"] == {"x": 2.0, "y": 1.0, "yaw": 0.0}
    assert status["exploring"] is True and status["mode"] == "astar"
    client.post("/api/navigate/cancel")
    assert client.get("/api/navigate/status").json()["goal"] is None


def test_status_works_while_the_explorer_is_dead(client: TestClient, world: World) -> None:
    world.lost["explorer"] = rx.ActorDiedError()
    assert client.get("/api/navigate/status").json()["exploring"] is False


def test_cancel_ends_the_goal_and_needs_one(client: TestClient) -> None:
    answer = client.post("/api/navigate/cancel")
    assert answer.status_code == 409 and answer.json()["code"] == "NO_GOAL"
    client.post("/api/navigate", json={"x": 2, "y": 1})
    assert client.post("/api/navigate/cancel").json()["state"] == "cancelled"


def test_a_cancel_may_name_its_goal(client: TestClient) -> None:
    goal = client.post("/api/navigate", json={"x": 2, "y": 1}).json()["goal_id"]
    other = client.post("/api/navigate/cancel", json={"goal_id": goal + 1})
    assert other.status_code == 409 and other.json()["code"] == "NO_GOAL"
    for bad in ({"goal_id": "1"}, {"goal_id": 1.5}, {"goal": 1}):
        assert client.post("/api/navigate/cancel", json=bad).status_code == 422
    assert client.get("/api/navigate/status").json()["state"] == "following"
    ended = client.post("/api/navigate/cancel", json={"goal_id": goal})
    assert ended.json()["state"] == "cancelled"


def test_the_mode_is_set(client: TestClient, world: World) -> None:
    assert client.post("/api/navigate/mode", json={"mode": "direct"}).json() == {"mode": "direct"}
    assert world.planner.mode is NavMode.DIRECT
    assert client.post("/api/navigate/mode", json={"mode": "fast"}).status_code == 422


def test_exploring_starts_once_and_stops_once(client: TestClient, world: World) -> None:
    assert client.post("/api/explore/start", headers=ANN).json()["state"] == "running"
    assert world.explorer.started_by == [("ann", Rank.HUMAN)]
    again = client.post("/api/explore/start")
    assert again.status_code == 409 and again.json()["code"] == "MISSION_RUNNING"
    assert client.post("/api/explore/stop").json()["state"] == "cancelled"
    assert client.post("/api/explore/stop").json()["code"] == "NO_MISSION"
    assert client.post("/api/explore/resume").status_code == 409


def test_a_goal_carries_the_count_of_stops_from_when_it_was_asked_for(
    client: TestClient, world: World
) -> None:
    world.platform.stops = 3
    assert client.post("/api/navigate", json={"x": 1.0, "y": 0.0}).is_success
    assert world.planner.requests[-1].stops == 3
