import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest
import ray.exceptions as rx
from fastapi import FastAPI
from fastapi.testclient import TestClient

from serve_app import camera_feed
from serve_app.api import camera
from serve_app.app import create_api
from serve_app.streams import FILMS_PER_CLIENT
from tests.api.streams import Stream
from tests.api.world import Crowded, FakePlatform, World, jpeg

pytestmark = pytest.mark.slow


def test_a_frame_comes_with_number_and_age(client: TestClient, world: World) -> None:
    world.platform.add_frame()
    answer = client.get("/api/camera/frame")
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/jpeg"
    assert answer.content == jpeg()
    assert answer.headers["X-Frame-Seq"] == "1"
    assert float(answer.headers["X-Frame-Age"]) == pytest.approx(0.25, abs=0.2)
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
    client: TestClient, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(camera, "FIRST_FRAME_WAIT_S", 0.01)
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


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_true():
            await asyncio.sleep(0.005)


async def ended(app: FastAPI) -> None:
    await until(lambda: not app.state.services.cameras["go2"].is_running)


async def test_viewers_that_vanish_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera_feed, "LINGER_S", 0.0)
    world = World()
    world.platform.add_frame()
    app = create_api(world.handles())
    tasks = len(asyncio.all_tasks())
    await asyncio.gather(
        *(
            Stream.read(app, f"/api/camera/stream?client=c{i}", lambda body: len(body) > 0)
            for i in range(50)
        )
    )
    await ended(app)
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
    monkeypatch.setattr(camera_feed, "RETRY_S", 0.05)
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


async def test_waiting_for_pictures_keeps_nobody_from_stopping_the_robot() -> None:
    """A thousand ask for a picture of a camera that is off; the platform carries out four calls at a time."""
    world = World()
    platform = FakePlatform()
    platform.longest_poll_s = 60.0
    world.platform = Crowded(platform, 4)
    app = create_api(world.handles())
    path = "/api/camera/frame?wait=10"
    waiting = [asyncio.create_task(Stream.read(app, path, lambda body: False)) for _ in range(1000)]
    await until(lambda: app.state.services.waits.open == world.server.max_streams)
    await until(lambda: world.platform.open["camera"] == 1)
    async with asyncio.timeout(5):
        for act in ("stop", "estop"):
            answer = await Stream.read(app, f"/api/{act}", lambda body: False, method="POST")
            assert answer.status == 200
    assert world.platform.most_open["camera"] == 1
    refused = [task.result() for task in waiting if task.done()]
    assert len(refused) == 1000 - world.server.max_streams, "those who wait are bounded"
    assert {stream.status for stream in refused} == {503}
    assert b"TOO_MANY_STREAMS" in refused[0].body
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert app.state.services.waits.open == 0
    app.state.services.close()


async def test_stop_answers_while_all_places_are_taken_by_streams_and_waiting_requests() -> None:
    world = World(max_streams=200)
    platform = FakePlatform()
    platform.longest_poll_s = 60.0
    platform.add_frame()
    world.platform = Crowded(platform, 4)
    app = create_api(world.handles())
    paths = [
        *("/api/events" for _ in range(32)),
        *(f"/api/camera/stream?client=c{i}" for i in range(32)),
        *("/api/camera/frame?newer_than=1&wait=10" for _ in range(200)),
    ]
    held = [asyncio.create_task(Stream.read(app, path, lambda body: False)) for path in paths]
    services = app.state.services
    await until(lambda: services.streams.open == 64 and services.waits.open == 200)
    await until(lambda: world.platform.open["camera"] == 1)
    async with asyncio.timeout(5):
        for act in ("stop", "estop"):
            answer = await Stream.read(app, f"/api/{act}", lambda body: False, method="POST")
            assert answer.status == 200
    assert world.platform.most_open["camera"] == 1
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    services.close()


async def test_the_camera_is_asked_only_while_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(camera_feed, "LINGER_S", 0.05)
    world = World()
    world.platform = Crowded(FakePlatform(), 10)
    app = create_api(world.handles())
    assert (await Stream.read(app, "/api/camera/frame?wait=0", lambda body: False)).status == 503
    await ended(app)
    calls = world.platform.calls["camera"]
    await asyncio.sleep(0.2)
    assert world.platform.calls["camera"] == calls


async def test_whoever_asks_again_and_again_finds_the_feed_running() -> None:
    world = World()
    platform = FakePlatform()
    platform.longest_poll_s = 60.0
    platform.add_frame()
    world.platform = Crowded(platform, 10)
    app = create_api(world.handles())
    for _ in range(20):
        frame = await Stream.read(app, "/api/camera/frame?newer_than=1&wait=0", lambda body: False)
        assert frame.status == 204
    assert world.platform.calls["camera"] <= 2 and world.platform.most_open["camera"] == 1
    app.state.services.close()


async def test_a_frame_comes_to_those_who_wait_for_it() -> None:
    world = World()
    world.platform.longest_poll_s = 60.0
    world.platform.add_frame()
    app = create_api(world.handles())
    path = "/api/camera/frame?newer_than=1&wait=10"
    waiting = [asyncio.create_task(Stream.read(app, path, lambda body: False)) for _ in range(20)]
    await until(lambda: app.state.services.waits.open == 20)
    world.platform.add_frame()
    frames = await asyncio.gather(*waiting)
    assert {frame.headers["x-frame-seq"] for frame in frames} == {"2"}
    app.state.services.close()


def test_a_lost_platform_is_told_at_once(client: TestClient, world: World) -> None:
    world.lost["platform"] = rx.ActorDiedError()
    answer = client.get("/api/camera/frame?wait=10")
    assert answer.status_code == 503 and answer.json()["code"] == "ACTOR_UNAVAILABLE"


async def test_a_film_ends_after_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(camera, "FILM_BYTES", 3 * len(jpeg()))
    world = World()
    world.platform.add_frame()
    app = create_api(world.handles())

    async def film() -> None:
        while True:
            await asyncio.sleep(0.01)
            world.platform.add_frame()

    filming = asyncio.create_task(film())
    stream = await Stream.read(app, "/api/camera/stream", lambda body: False)
    filming.cancel()
    assert 2 <= stream.body.count(b"--frame\r\n") <= 4
    assert app.state.services.streams.open == 0
    app.state.services.close()


async def test_each_client_may_have_a_few_films_only() -> None:
    world = World()
    world.platform.add_frame()
    app = create_api(world.handles())
    with ExitStack() as others:
        for _ in range(FILMS_PER_CLIENT):
            others.enter_context(app.state.services.films.slot("ann"))
        refused = await Stream.read(app, "/api/camera/stream?client=ann", lambda body: True)
        assert refused.status == 503 and b"TOO_MANY_STREAMS" in refused.body
        assert b"ann" in refused.body
        accepted = await Stream.read(app, "/api/camera/stream?client=bob", lambda body: True)
        assert accepted.status == 200
    accepted = await Stream.read(app, "/api/camera/stream?client=ann", lambda body: True)
    assert accepted.status == 200
    app.state.services.close()
