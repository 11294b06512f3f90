"""What each GET route answers before the first scan, frame and pose, and without its part: as docs/api.md says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from rhino_actors.mapping.tiles import MapTiles
from rhino_actors.mapping.voxel_tiles import VoxelTiles
from serve_app.app import create_api
from tests.api.conftest import BASE_URL
from tests.api.world import World, snapshot

pytestmark = pytest.mark.slow

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "api.md"
ROW = re.compile(r"^\| `GET (/\S+)` \| (\d{3})[^|]*\| (\d{3})[^|]*\|", re.MULTILINE)
PARTS = ("platform", "mapper", "planner", "explorer", "viewer", "poi_store")
ENDLESS = "/api/events"
METRICS = "/metrics"  # asks no part


def documented() -> dict[str, tuple[int, int]]:
    """By route: its status before anything was seen, and while the parts restart."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return {path: (int(empty), int(gone)) for path, empty, gone in ROW.findall(text)}


def empty(world: World) -> None:
    epoch = world.mapper.current.epoch
    world.platform.pose = None
    world.mapper.current = snapshot(0, epoch)
    tiles = MapTiles(0.05, inscribed_radius=0.3, inflation_radius=0.8, cost_scaling_factor=6.0)
    world.mapper.patch = tiles.patch(0, epoch=epoch, seq=0, stamp=0.0, known_area=0.0)
    world.mapper.voxel_patch = VoxelTiles(0.05).patch(0, epoch=epoch, seq=0, stamp=0.0)


def routes(client: TestClient) -> Iterator[tuple[str, str]]:
    """Every GET route that ends, with a path to it."""
    for template, item in client.get("/openapi.json").json()["paths"].items():
        if template.endswith((ENDLESS.removeprefix("/api"), METRICS)):
            continue
        if "get" in item:
            yield template, re.sub(r"\{\w+\}", "x", template.replace("{robot}", "go2"))


@pytest.fixture
def lonely() -> Iterator[tuple[World, TestClient]]:
    """A server of each test's own: the camera's feed remembers for a moment what the world before it said."""
    world = World()
    with TestClient(create_api(world.handles()), base_url=BASE_URL) as client:
        yield world, client


def expected(template: str) -> tuple[int, int]:
    return documented()[template.replace("/robots/{robot}", "")]


def test_before_anything_was_seen(lonely: tuple[World, TestClient]) -> None:
    world, client = lonely
    world.reset()
    empty(world)
    for template, path in routes(client):
        answer = client.get(path)
        assert answer.status_code == expected(template)[0], (template, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["code"] in (
                "NOT_AVAILABLE",
                "MAP_NOT_FOUND",
                "MISSION_NOT_FOUND",
            ), template


def test_while_every_part_is_gone(lonely: tuple[World, TestClient]) -> None:
    world, client = lonely
    world.reset()
    world.lost = dict.fromkeys(PARTS, rx.ActorDiedError())
    for template, path in routes(client):
        answer = client.get(path)
        assert answer.status_code == expected(template)[1], (template, answer.text)
        if answer.status_code == 503:
            assert answer.headers["Retry-After"] == "1"
            assert answer.json()["code"] == "ACTOR_UNAVAILABLE", template


def test_while_every_part_is_silent(lonely: tuple[World, TestClient]) -> None:
    world, client = lonely
    world.reset()
    world.lost = dict.fromkeys(PARTS, rx.GetTimeoutError("late"))
    for template, path in routes(client):
        answer = client.get(path)
        gone = expected(template)[1]
        assert answer.status_code == (504 if gone == 503 else gone), (template, answer.text)


def test_the_table_has_every_route_and_no_other(client: TestClient) -> None:
    plain = {template for template, _ in routes(client) if "/robots/{robot}" not in template}
    assert documented().keys() == plain | {ENDLESS}
