"""ViewerActor: it shows what the others know, outlives each of them, and troubles nobody."""

import asyncio
import builtins
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ray.exceptions import ActorUnavailableError

from rhino_actors.actors import viewer
from rhino_actors.actors.viewer import ViewerActor
from rhino_actors.config import RhinoConfig, ViewerConfig
from rhino_actors.errors import StorageError
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.missions import MissionStatus, Visits
from rhino_actors.messages.navigation import NavStatus
from rhino_actors.messages.platform import GateDecision
from rhino_actors.messages.poi import Poi
from rhino_actors.messages.sensors import CameraFrame, LidarFrame, LidarKind
from tests.fakes import FakeHandle

CONFIG = replace(RhinoConfig(), viewer=ViewerConfig(camera_rate_hz=60.0))


class Rerun:
    """Stands in for RerunLogger: remembers what was drawn, and on which threads."""

    grpc, web, record = "rerun+http://127.0.0.1:1/proxy", "http://127.0.0.1:2/", ""

    def __init__(self, _config: RhinoConfig) -> None:
        self.drawn: dict[str, list[Any]] = {}
        self.threads = {threading.get_ident()}
        self.closed = 0

    def __getattr__(self, name: str) -> Callable[[Any, float], None]:
        def draw(message: Any, now: float) -> None:
            self.threads.add(threading.get_ident())
            self.drawn.setdefault(name, []).append(message)

        return draw

    def close(self) -> None:
        self.threads.add(threading.get_ident())
        self.closed += 1


async def _ready(value: Any) -> Any:
    return value


class World:
    """All five actors in one: what they answer, how often they were asked, and whether they fail."""

    def __init__(self) -> None:
        self.first_seq = 1
        self.count = 0
        self.failure: Exception | None = None
        self.asked: dict[str, int] = {}
        self.places: tuple[Poi, ...] = ()
        self.changes = 0
        self.decisions: tuple[GateDecision, ...] = ()
        self.epoch = 1
        self.visits: Visits | None = None

    def restart(self) -> None:
        """Count from one again, as an actor that was restarted does."""
        self.count, self.epoch = 0, self.epoch + 1

    def publish(self) -> int:
        self.count += 1
        return self.count

    async def _answer(self, name: str, make: Callable[[int], Any], newer_than: int) -> Any:
        self.asked[name] = self.asked.get(name, 0) + 1
        await asyncio.sleep(0.002)
        if self.failure is not None:
            raise self.failure
        return make(self.count) if self.count > newer_than else None

    async def odometry(self, newer_than: int = 0, wait: float = 0.0) -> Odometry | None:
        def make(seq: int) -> Odometry:
            return Odometry(seq, 1.0, (float(seq), 0.0, 0.0), (0.0, 0.0, 0.0, 1.0), Twist2D())

        return await self._answer("odometry", make, newer_than)

    async def lidar(self, newer_than: int = 0, wait: float = 0.0) -> LidarFrame | None:
        def make(seq: int) -> LidarFrame:
            points = np.zeros((1, 3), np.float32)
            return LidarFrame(seq, 1.0, points, (0.0, 0.0, 0.0), Pose2D(0, 0), 0.0, LidarKind.SCAN)

        return await self._answer("lidar", make, newer_than)

    async def camera(self, newer_than: int = 0, wait: float = 0.0) -> CameraFrame | None:
        return await self._answer("camera", lambda n: CameraFrame(n, 1.0, b"x", 1, 1), newer_than)

    async def snapshot(
        self, newer_than: tuple[int, int] = (0, 0), wait: float = 0.0
    ) -> tuple[tuple[int, int], list[Awaitable[MapSnapshot]] | None]:
        version = (self.epoch, self.count)
        await self._answer("map", lambda n: n, 0)
        if version == newer_than:
            return version, None
        geometry = GridGeometry(0.05, (0.0, 0.0), (1, 1))
        occupancy, costs = np.zeros((1, 1), np.int8), np.zeros((1, 1), np.uint8)
        return version, [_ready(MapSnapshot(*version, 1.0, geometry, occupancy, costs, 0.0))]

    async def status(self, newer_than: int | None = None, wait: float = 0.0) -> Any:
        await self._answer("status", lambda n: n, 0)
        return "status"

    async def gate_log(self) -> tuple[GateDecision, ...]:
        return self.decisions

    async def version(self) -> int:
        await self._answer("version", lambda n: n, 0)
        return self.changes

    async def list_pois(self, robot: str) -> tuple[Poi, ...]:
        assert robot == CONFIG.robot.name
        return self.places


class Statuses:
    """Planner or explorer: a status of its own beside the world's failures."""

    def __init__(self, world: World, make: Callable[[int], Any]) -> None:
        self._world, self._make = world, make

    async def status(self, newer_than: int = 0, wait: float = 0.0) -> Any:
        await self._world._answer("nav", lambda n: n, 0)
        return self._make(self._world.count)

    async def visits(self) -> Any:
        return self._world.visits


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def actor(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ViewerActor]:
    monkeypatch.setattr("rhino_actors.viz.rerun_logger.RerunLogger", Rerun)
    for name in ("RETRY_S", "ODOMETRY_PERIOD_S", "MAP_PERIOD_S", "STATUS_PERIOD_S"):
        monkeypatch.setattr(viewer, name, 0.005)
    for name in ("POIS_PERIOD_S", "VISITS_PERIOD_S"):
        monkeypatch.setattr(viewer, name, 0.005)
    monkeypatch.setattr(viewer, "MIN_PAUSE_S", 0.001)
    made = _viewer(world, CONFIG)
    yield made
    await made.close()


def _viewer(world: World, config: RhinoConfig) -> ViewerActor:
    everything: Any = FakeHandle(world)
    return ViewerActor(
        config,
        platform=everything,
        mapper=everything,
        planner=FakeHandle(Statuses(world, lambda n: NavStatus(seq=n))),  # type: ignore[arg-type]
        explorer=FakeHandle(Statuses(world, lambda n: MissionStatus(seq=n))),  # type: ignore[arg-type]
        poi_store=everything,
    )


async def _rerun(actor: ViewerActor) -> Any:
    return await asyncio.wrap_future(actor._opening)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20.0):
        while not condition():
            await asyncio.sleep(0.005)


async def test_every_source_is_drawn_once_per_message_and_on_one_thread(
    actor: ViewerActor, world: World
) -> None:
    rerun = await _rerun(actor)
    world.publish()
    running = asyncio.create_task(actor.run())
    names = {"odometry", "lidar", "camera", "nav", "mission", "map", "status", "gate", "pois"}
    await _until(lambda: rerun.drawn.keys() >= names)
    world.publish()
    sensors = ("odometry", "lidar", "camera")
    await _until(lambda: all(rerun.drawn[name][-1].seq == 2 for name in sensors))
    asked = dict(world.asked)
    await _until(lambda: all(world.asked[name] > asked[name] + 3 for name in sensors))
    await actor.close()
    await running
    for name in sensors:
        assert [message.seq for message in rerun.drawn[name]] == [1, 2]
    assert rerun.closed == 1
    assert len(rerun.threads) == 1
    assert threading.get_ident() not in rerun.threads


@pytest.mark.parametrize(
    "failure",
    [
        ActorUnavailableError("restarting", None),
        StorageError("file gone"),
        ValueError("a bug elsewhere"),
        TimeoutError(),
    ],
    ids=lambda failure: type(failure).__name__,
)
async def test_the_viewer_outlives_actors_that_fail_and_shows_them_again(
    actor: ViewerActor, world: World, failure: Exception
) -> None:
    rerun = await _rerun(actor)
    for _ in range(50):
        world.publish()
    running = asyncio.create_task(actor.run())
    await _until(lambda: "odometry" in rerun.drawn)
    world.failure = failure
    asked = world.asked["odometry"]
    await _until(lambda: world.asked["odometry"] > asked + 3)
    world.restart()
    world.publish()
    world.failure = None
    for name in ("odometry", "lidar", "camera", "nav", "mission", "map"):
        await _until(lambda name=name: name in rerun.drawn and rerun.drawn[name][-1].seq == 1)  # type: ignore[misc]
    assert not running.done()


async def test_a_sender_that_counts_from_one_again_is_shown_even_when_no_call_failed(
    actor: ViewerActor, world: World
) -> None:
    rerun = await _rerun(actor)
    for _ in range(50):
        world.publish()
    running = asyncio.create_task(actor.run())
    await _until(lambda: "lidar" in rerun.drawn and "map" in rerun.drawn)
    world.restart()
    world.publish()
    await _until(lambda: rerun.drawn["lidar"][-1].seq == 1 and rerun.drawn["map"][-1].seq == 1)
    assert not running.done()


async def test_an_error_while_drawing_does_not_end_the_viewer(
    actor: ViewerActor, world: World
) -> None:
    rerun = await _rerun(actor)

    def refuse(_message: Any, _now: float) -> None:
        raise RuntimeError("Rerun does not like this")

    rerun.lidar = refuse
    world.publish()
    running = asyncio.create_task(actor.run())
    await _until(lambda: world.asked.get("lidar", 0) > 3 and "odometry" in rerun.drawn)
    assert not running.done()


async def test_the_visits_of_a_patrol_are_drawn_while_there_is_one(
    actor: ViewerActor, world: World
) -> None:
    rerun = await _rerun(actor)
    world.publish()
    running = asyncio.create_task(actor.run())
    await _until(lambda: "pois" in rerun.drawn and "odometry" in rerun.drawn)
    assert "visits" not in rerun.drawn
    geometry = GridGeometry(0.05, (0.0, 0.0), (1, 1))
    world.visits = Visits(geometry, np.ones((1, 1), np.uint8), 60.0)
    await _until(lambda: "visits" in rerun.drawn)
    world.visits = None
    assert rerun.drawn["visits"][0].expiry == 60.0
    assert not running.done()


async def test_places_are_read_when_they_changed_only(actor: ViewerActor, world: World) -> None:
    rerun = await _rerun(actor)
    running = asyncio.create_task(actor.run())
    await _until(lambda: rerun.drawn.get("pois") == [()])
    asked = world.asked["version"]
    await _until(lambda: world.asked["version"] > asked + 3)
    world.places = (Poi("id", CONFIG.robot.name, "door", 1.0, 2.0, 0.0, None, 0.0),)
    world.changes += 1
    await _until(lambda: rerun.drawn["pois"] == [(), world.places])
    assert not running.done()


async def test_each_gate_decision_is_drawn_once(actor: ViewerActor, world: World) -> None:
    rerun = await _rerun(actor)
    first, second = (GateDecision(1.0, 1.0, event, "me", "", "") for event in ("claim", "stop"))
    world.decisions = (first,)
    running = asyncio.create_task(actor.run())
    await _until(lambda: [first] in rerun.drawn.get("gate", []))
    world.decisions = (first, second)
    await _until(lambda: [second] in rerun.drawn["gate"])
    drawn = [decision for batch in rerun.drawn["gate"] for decision in batch]
    assert drawn == [first, second]
    assert not running.done()


async def test_a_second_run_waits_for_the_first(actor: ViewerActor, world: World) -> None:
    world.publish()
    first, second = asyncio.create_task(actor.run()), asyncio.create_task(actor.run())
    rerun = await _rerun(actor)
    await _until(lambda: world.asked.get("lidar", 0) > 5)
    assert len(rerun.drawn["lidar"]) == 1
    await actor.close()
    await asyncio.gather(first, second)


async def test_the_addresses_are_those_of_rerun(actor: ViewerActor) -> None:
    assert await actor.address() == {"grpc": Rerun.grpc, "web": Rerun.web}
    (await _rerun(actor)).record = "/tmp/x.rrd"
    assert (await actor.address())["record"] == "/tmp/x.rrd"


async def test_without_rerun_the_actor_stays_up_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def no_rerun(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("rhino_actors.viz"):
            raise ModuleNotFoundError("No module named 'rerun'", name="rerun")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_rerun)
    actor = _viewer(world, CONFIG)
    running = asyncio.create_task(actor.run())
    address = await actor.address()
    assert address["grpc"] == address["web"]
    assert address["grpc"].startswith("off: rerun is not installed")
    assert not running.done()
    assert world.asked == {}
    await actor.close()
    await running


async def test_a_viewer_that_is_off_or_does_not_start_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    off = _viewer(world, replace(CONFIG, viewer=ViewerConfig(enabled=False)))
    assert (await off.address())["web"] == "off: viewer.enabled is false"
    await off.close()
    await off.close()

    def broken(_config: RhinoConfig) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr("rhino_actors.viz.rerun_logger.RerunLogger", broken)
    failed = _viewer(world, CONFIG)
    assert (await failed.address())["grpc"] == "off: no room"
    await failed.close()


async def test_ending_tasks_insists_when_a_cancellation_is_swallowed() -> None:
    async def stubborn() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(60.0)
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await asyncio.wait_for(viewer._end([task]), 20.0)
    assert task.done()
