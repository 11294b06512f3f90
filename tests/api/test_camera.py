import asyncio

import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from serve_app.app import create_api
from tests.api.streams import Stream
from tests.api.world import World, jpeg


def test_a_frame_comes_with_number_and_age(client: TestClient, world: World) -> None:
    world.platform.add_frame()
    answer = client.get("/api/camera/frame")
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/jpeg"
    assert answer.content == jpeg()
    assert answer.headers["X-Frame-Seq"] == "1"
    assert float(answer.headers["X-Frame-Age"]) == pytest.approx(0.25)
    assert answer.headers["Cache-Control"] == "no-store"


def test_without_a_newer_frame_there_is_no_content(client: TestClient, world: World) -> None:
    world.platform.add_frame()
    assert client.get("/api/camera/frame?newer_than=1&wait=0.01").status_code == 204
    world.platform.add_frame()
    assert client.get("/api/camera/frame?newer_than=1").headers["X-Frame-Seq"] == "2"


def test_a_number_from_before_a_restart_gets_the_newest_frame(
    client: TestClient, world: World
) -> None:
    world.platform.add_frame()
    answer = client.get("/api/camera/frame?newer_than=500&wait=0.01")
    assert answer.status_code == 200 and answer.headers["X-Frame-Seq"] == "1"


@pytest.mark.parametrize("path", ["/api/camera/frame?wait=0.01", "/api/camera/stream"])
def test_without_any_frame_the_camera_is_not_available_and_says_why(
    client: TestClient, path: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 503 and answer.json()["code"] == "NOT_AVAILABLE"
    assert "no GPU" in answer.json()["message"] and answer.headers["Retry-After"]


@pytest.mark.parametrize(
    "query", ["newer_than=-1", "newer_than=x", "wait=99", "wait=nan", "wait=inf"]
)
def test_bad_queries_are_refused(client: TestClient, query: str) -> None:
    answer = client.get(f"/api/camera/frame?{query}")
    assert answer.status_code == 422 and answer.json()["code"] == "INVALID_REQUEST"


async def test_the_stream_sends_frames_as_they_come_and_skips_what_was_missed() -> None:
    world = World()
    world.platform.add_frame()
    app = create_api(world.handles())

    async def film() -> None:
        while True:
            await asyncio.sleep(0.002)
            world.platform.add_frame()

    filming = asyncio.create_task(film())
    stream = await Stream.read(
        app, "/api/camera/stream", lambda body: body.count(b"X-Frame-Seq") >= 4
    )
    filming.cancel()
    assert stream.status == 200
    assert stream.headers["content-type"] == "multipart/x-mixed-replace; boundary=frame"
    parts = stream.body.split(b"--frame\r\n")[1:]
    seqs = [int(part.split(b"X-Frame-Seq: ")[1].split(b"\r\n")[0]) for part in parts]
    assert seqs == sorted(set(seqs)) and seqs[-1] > len(seqs), "some were skipped, none came twice"
    assert parts[0].split(b"\r\n\r\n", 1)[1].rstrip(b"\r\n") == jpeg().rstrip(b"\r\n")
    services = app.state.services
    assert services.streams.open == 0 and services.cameras["go2"].viewers == 0


async def test_viewers_that_vanish_leave_nothing_behind() -> None:
    world = World()
    world.platform.add_frame()
    app = create_api(world.handles())
    tasks = len(asyncio.all_tasks())
    await asyncio.gather(
        *(Stream.read(app, "/api/camera/stream", lambda body: len(body) > 0) for _ in range(50))
    )
    await asyncio.sleep(0)
    assert app.state.services.streams.open == 0
    assert len(asyncio.all_tasks()) <= tasks


async def test_one_stream_too_many_is_refused_before_it_starts() -> None:
    world = World(max_streams=2)
    world.platform.add_frame()
    app = create_api(world.handles())
    with app.state.services.streams.slot(), app.state.services.streams.slot():
        for path in ("/api/camera/stream", "/api/events"):
            refused = await Stream.read(app, path, lambda body: True)
            assert refused.status == 503 and b"TOO_MANY_STREAMS" in refused.body
    accepted = await Stream.read(app, "/api/camera/stream", lambda body: True)
    assert accepted.status == 200


async def test_the_stream_goes_on_after_the_platform_restarted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    for _ in range(5):
        world.platform.add_frame()
    app = create_api(world.handles())

    async def restart() -> None:
        await asyncio.sleep(0.05)
        world.lost["platform"] = rx.ActorDiedError()
        await asyncio.sleep(0.05)
        world.platform.frames.clear()
        world.platform.add_frame()
        world.lost.clear()

    restarting = asyncio.create_task(restart())
    stream = await Stream.read(
        app, "/api/camera/stream", lambda body: body.count(b"X-Frame-Seq") >= 2
    )
    await restarting
    assert b"X-Frame-Seq: 5\r\n" in stream.body and b"X-Frame-Seq: 1\r\n" in stream.body
