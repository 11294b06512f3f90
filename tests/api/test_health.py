"""GET /api/health: liveness without a question to anyone, and deep: every part, quickly, whatever hangs."""

import asyncio
import time
from typing import Any

import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from serve_app.app import create_api
from serve_app.probes import PATIENCE_S
from serve_app.security import Access
from tests.api.conftest import BASE_URL
from tests.api.world import World

DEEP = "/api/health?deep=true"


class Hangs:
    """A part whose every call waits for ever; counts those that wait."""

    def __init__(self) -> None:
        self.waiting = 0

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            self.waiting += 1
            try:
                await asyncio.Event().wait()
            finally:
                self.waiting -= 1

        return call


def test_liveness_asks_nobody(client: TestClient, world: World) -> None:
    for part in ("platform", "mapper", "planner", "explorer", "poi_store"):
        world.lost[part] = AssertionError("asked")
    assert client.get("/api/health").json() == {"status": "ok"}


def test_deep_says_how_every_part_is(client: TestClient) -> None:
    answer = client.get(DEEP)
    assert answer.status_code == 200
    body = answer.json()
    robot = body["robots"][0]
    assert robot["robot"] == "go2"
    assert {name: part["state"] for name, part in robot["parts"].items()} == dict.fromkeys(
        ("platform", "mapper", "planner", "explorer"), "ok"
    )
    assert all(part["answer_ms"] >= 0.0 for part in robot["parts"].values())
    assert robot["ages"]["lidar"] == 0.1
    assert robot["problems"] == ["The latch cannot be kept."] and body["status"] == "degraded"
    assert [r["robot"] for r in body["robots"]] == ["go2", "second"]


@pytest.mark.parametrize("part", ["platform", "mapper", "planner"])
@pytest.mark.parametrize(
    ("error", "state"),
    [
        (rx.ActorDiedError(), "restarting"),
        (rx.GetTimeoutError("late"), "silent"),
        (ZeroDivisionError(), "failed"),
    ],
)
def test_without_a_part_that_is_needed_it_is_503(
    client: TestClient, world: World, part: str, error: Exception, state: str
) -> None:
    world.lost[part] = error
    answer = client.get(DEEP)
    assert answer.status_code == 503 and answer.headers["Retry-After"] == "1"
    body = answer.json()
    assert (body["code"], body["status"]) == ("UNHEALTHY", "unavailable")
    assert f"go2/{part}" in body["message"] and body["hint"]
    assert body["robots"][0]["parts"][part]["state"] == state
    assert client.get("/api/health").status_code == 200


@pytest.mark.parametrize("part", ["explorer", "poi_store"])
def test_without_another_part_it_is_degraded(client: TestClient, world: World, part: str) -> None:
    world.lost[part] = rx.ActorDiedError()
    answer = client.get(DEEP)
    assert answer.status_code == 200 and answer.json()["status"] == "degraded"


def test_a_late_sensor_is_a_problem(client: TestClient, world: World) -> None:
    world.platform.pose = None
    body = client.get(DEEP).json()
    assert "odometry: nothing yet" in body["robots"][0]["problems"]


@pytest.mark.slow
def test_parts_that_hang_do_not_hold_it_up_and_are_asked_once(world: World) -> None:
    hanging = Hangs()
    world.platform = world.mapper = hanging  # type: ignore[assignment]
    with TestClient(create_api(world.handles()), base_url=BASE_URL) as client:
        started = time.monotonic()
        for _ in range(3):
            answer = client.get(DEEP)
            assert answer.status_code == 503
            parts = answer.json()["robots"][0]["parts"]
            assert (parts["mapper"]["state"], parts["planner"]["state"]) == ("silent", "ok")
        assert time.monotonic() - started < 3 * CALL_LIMIT_S
        # Two parts of two robots, and the platform that the server looked up when it started.
        assert hanging.waiting == 4 + 1


def test_deep_asks_for_the_token(world: World) -> None:
    app = create_api(world.handles(), Access("127.0.0.1", "secret"))
    with TestClient(app, base_url=BASE_URL) as client:
        assert client.get("/api/health").status_code == 200
        assert client.get(DEEP).status_code == 401
        token = {"Authorization": "Bearer secret"}
        assert client.get(DEEP, headers=token).status_code == 200
        assert client.get("/api/health?deep=%74rue").status_code == 401


CALL_LIMIT_S = PATIENCE_S + 2.0  # far below the time-out of a call, with room for a busy machine
