import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import ray.exceptions as rx

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.navigation import GoalRequest
from serve_app import events, streams
from serve_app.api import events as route
from serve_app.app import create_api
from serve_app.events import Event, EventHub, Mailbox
from tests.api.streams import Stream, sse_events
from tests.api.world import World, snapshot

pytestmark = pytest.mark.slow

ALL = {"state", "gate", "nav", "mission", "map_update", "localisation", "poi_update"}


def has(*names: str) -> Callable[[bytes], bool]:
    return lambda body: set(names) <= {name for name, _ in sse_events(body)}


async def test_a_new_listener_gets_the_whole_state_first() -> None:
    world = World()
    app = create_api(world.handles())
    stream = await Stream.read(app, "/api/events", has(*ALL))
    assert stream.headers["content-type"].startswith("text/event-stream")
    assert stream.headers["cache-control"] == "no-cache"
    newest = {name: json.loads(data) for name, data in sse_events(stream.body)}
    assert newest["state"]["pose"]["x"] == 1.0 and "path" not in newest["state"]
    assert newest["nav"]["state"] == "idle" and newest["mission"]["state"] == "idle"
    assert newest["localisation"] == {"state": "unknown", "share": 0.0, "sentence": ""}
    assert newest["map_update"] == {"epoch": 7, "seq": 1, "empty": False}
    assert newest["poi_update"]["version"] == 0 and newest["poi_update"]["since"] is None
    assert b"\nretry: " in b"\n" + stream.body and b"\nid: " in stream.body


async def test_changes_are_told_as_they_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MAP_PERIOD_S", 0.05)
    monkeypatch.setattr(events, "POI_PERIOD_S", 0.05)
    world = World()
    app = create_api(world.handles())

    async def change() -> None:
        await asyncio.sleep(0.1)
        await world.planner.navigate(GoalRequest(3.0, 4.0, client="ann"))
        await world.explorer.start("ann")
        await world.pois.add("go2", "kitchen", 1, 1)
        await world.platform.estop("ann")
        world.mapper.current = snapshot(2)

    def enough(body: bytes) -> bool:
        told = body.replace(b" ", b"")
        words = (
            b'"following"',
            b'"running"',
            b'"added":["id-1"]',
            b'"seq":2',
            b'"latched_by":"ann"',
        )
        return all(word in told for word in words)

    changing = asyncio.create_task(change())
    stream = await Stream.read(app, "/api/events", enough)
    await changing
    told = sse_events(stream.body)
    last = {name: json.loads(data) for name, data in told}
    assert last["nav"]["path"] == [[1.0, 2.0], [3.0, 4.0]] and last["nav"]["client"] == "ann"
    assert last["gate"]["latched_by"] == "ann"
    for name in ("nav", "mission", "gate", "map_update", "poi_update"):
        assert sum(1 for event, _ in told if event == name) == 2, f"{name} only when it changes"


async def test_a_change_of_places_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "POI_PERIOD_S", 0.02)
    world = World()
    hub = EventHub(world.handles(), world.handles().robot())
    keep, gone, changed = [await world.pois.add("go2", label, 1, 1) for label in "abc"]
    await world.pois.add("second", "far", 1, 1)
    told: list[dict[str, Any]] = []
    async with asyncio.timeout(5), hub.listen() as mailbox:

        async def next_update() -> None:
            while True:
                for event in await mailbox.take():
                    if event.name == "poi_update":
                        told.append(json.loads(event.data))
                        return

        await next_update()
        assert told[0]["since"] is None and told[0]["added"] == []
        version = told[0]["version"]
        await world.pois.delete(gone.id)
        await next_update()
        await world.pois.change(changed.id, x=5.0)
        await next_update()
        new = await world.pois.add("go2", "d", 1, 1)
        await next_update()
        await world.pois.order("go2", [new.id, keep.id, changed.id])
        await next_update()
        await world.pois.add("second", "farther", 1, 1)
        await next_update()
    nothing = {"added": [], "changed": [], "removed": [], "reordered": False}
    said = [
        {"removed": [gone.id]},
        {"changed": [changed.id]},
        {"added": [new.id]},
        {"reordered": True},
        {},
    ]
    for number, (event, of_it) in enumerate(zip(told[1:], said, strict=True), version):
        assert event == {"version": number + 1, "since": number, **nothing, **of_it}


async def test_a_part_that_is_lost_is_named_and_told_again_when_it_is_back() -> None:
    world = World()
    app = create_api(world.handles())

    async def lose() -> None:
        await asyncio.sleep(0.1)
        world.lost["planner"] = rx.ActorDiedError()
        await asyncio.sleep(0.2)
        world.lost.clear()

    def enough(body: bytes) -> bool:
        return sum(1 for name, _ in sse_events(body) if name == "nav") >= 2

    losing = asyncio.create_task(lose())
    stream = await Stream.read(app, "/api/events", enough)
    await losing
    states = [json.loads(data) for name, data in sse_events(stream.body) if name == "state"]
    assert {"unavailable": ["planner"], "nav": None}.items() <= {
        key: value
        for state in states
        if state["unavailable"]
        for key, value in state.items()
        if key in ("unavailable", "nav")
    }.items()


async def test_a_lost_platform_does_not_silence_the_stream() -> None:
    world = World()
    world.lost["platform"] = rx.ActorDiedError()
    stream = await Stream.read(create_api(world.handles()), "/api/events", has("state", "nav"))
    (state, *_) = [json.loads(data) for name, data in sse_events(stream.body) if name == "state"]
    assert state["pose"] is None and "platform" in state["unavailable"]


async def test_many_listeners_cost_the_actors_no_more_than_one() -> None:
    world = World()
    calls = 0
    status = world.platform.status

    async def counted():  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        return await status()

    world.platform.status = counted  # type: ignore[method-assign]
    app = create_api(world.handles())
    streams = await asyncio.gather(*(Stream.read(app, "/api/events", has(*ALL)) for _ in range(30)))
    most = max(sum(1 for name, _ in sse_events(s.body) if name == "state") for s in streams)
    assert calls <= 4 * (most + 2)


async def test_listeners_that_vanish_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LINGER_S", 0.0)
    world = World(max_streams=200)
    app = create_api(world.handles())
    tasks = len(asyncio.all_tasks())
    await asyncio.gather(*(Stream.read(app, "/api/events", has("state")) for _ in range(200)))
    await asyncio.sleep(0.01)
    assert app.state.services.streams.open == 0
    assert app.state.services.hubs["go2"].listeners == 0
    assert len(asyncio.all_tasks()) <= tasks


@pytest.mark.parametrize(("listeners", "least", "most"), [(1, 10, 60), (20, 2, 8)])
async def test_many_listeners_get_fewer_states(
    listeners: int, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together they get PIECES_PER_S, so that driving, which takes the same way, does not wait behind them."""
    monkeypatch.setattr(streams, "PIECES_PER_S", 100.0)
    monkeypatch.setattr(streams, "EVENT_LIFE_S", 1.0)
    app = create_api(World(stream_rate_hz=50.0).handles())
    reading = (Stream.read(app, "/api/events", lambda body: False) for _ in range(listeners))
    for stream in await asyncio.gather(*reading):
        states = sum(1 for name, _ in sse_events(stream.body) if name == "state")
        assert least <= states <= most


async def test_a_stream_ends_after_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "EVENT_LIFE_S", 0.1)
    app = create_api(World().handles())
    stream = await Stream.read(app, "/api/events", lambda body: False)
    assert stream.status == 200 and app.state.services.streams.open == 0


async def test_a_stream_ends_after_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route, "EVENT_BYTES", 20_000)
    app = create_api(World().handles())
    stream = await Stream.read(app, "/api/events", lambda body: False)
    assert 20_000 <= len(stream.body) < 60_000
    assert app.state.services.streams.open == 0


async def test_a_slow_listener_keeps_the_newest_of_each_kind_only() -> None:
    mailbox = Mailbox()
    for number in range(10_000):
        mailbox.put(Event("state", number, "{}"))
        if number in (3, 5):
            mailbox.put(Event("nav", number, "{}"))
    assert [(event.name, event.number) for event in await mailbox.take()] == [
        ("nav", 5),
        ("state", 9999),
    ]
    mailbox.put(Event("gate", 1, "{}"))
    assert [event.name for event in await mailbox.take()] == ["gate"]


async def test_the_state_has_the_pose_in_the_map_and_the_loss_of_the_place_is_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "LOCALISATION_PERIOD_S", 0.05)
    world = World()
    world.mapper.current = replace(world.mapper.current, map_from_odom=Pose2D(10.0, 0.0, 0.0))
    app = create_api(world.handles())

    async def lose() -> None:
        await asyncio.sleep(0.3)
        world.mapper.lose()

    def enough(body: bytes) -> bool:
        told = sse_events(body)
        return any(n == "state" and json.loads(d)["pose"] is None for n, d in told)

    losing = asyncio.create_task(lose())
    stream = await Stream.read(app, "/api/events", enough)
    await losing
    told = [(name, json.loads(data)) for name, data in sse_events(stream.body)]
    states = [value for name, value in told if name == "state"]
    assert states[0]["pose"]["x"] == 11.0 and states[0]["odom_pose"]["x"] == 1.0
    assert states[-1]["odom_pose"]["x"] == 1.0
    assert states[-1]["localisation"]["state"] == "lost"
    places = [value["state"] for name, value in told if name == "localisation"]
    assert places == ["unknown", "lost"]


async def test_a_lost_mapper_does_not_silence_the_stream() -> None:
    world = World()
    world.lost["mapper"] = rx.ActorDiedError()
    stream = await Stream.read(create_api(world.handles()), "/api/events", has("state", "nav"))
    (state, *_) = [json.loads(data) for name, data in sse_events(stream.body) if name == "state"]
    assert state["pose"] is None and state["odom_pose"]["x"] == 1.0
    assert "mapper" in state["unavailable"]


def ids(body: bytes) -> list[str]:
    return [line[4:] for line in body.decode().split("\n") if line.startswith("id: ")]


def hello_of(body: bytes) -> dict[str, Any]:
    name, data = sse_events(body)[0]
    assert name == "hello"
    hello: dict[str, Any] = json.loads(data)
    return hello


async def test_who_comes_back_gets_what_it_missed_and_nothing_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    app = create_api(world.handles())
    first = await Stream.read(app, "/api/events?client=ann", has(*ALL))
    assert hello_of(first.body) == {
        "robot": "go2",
        "client": "ann",
        "resumed": False,
        "replayed": 0,
    }
    hub = app.state.services.hubs["go2"]
    last = hub._last
    await world.platform.estop("bob")
    async with asyncio.timeout(5.0):  # nobody listens: it is the hub that watches on
        while "bob" not in hub._newest["gate"].data:
            await asyncio.sleep(0.005)
        await world.platform.clear_estop("bob")
        while "bob" in hub._newest["gate"].data:
            await asyncio.sleep(0.005)
    again = await Stream.read(
        app, "/api/events", has("hello", "state"), headers={"Last-Event-ID": ids(first.body)[-1]}
    )
    assert hello_of(again.body)["resumed"] and hello_of(again.body)["replayed"] == 2
    told = sse_events(again.body)
    assert [name for name, _ in told if name not in ("state", "hello")] == ["gate", "gate"]
    assert json.loads(told[1][1])["latched_by"] == "bob" and not json.loads(told[2][1])["latched"]
    assert all(int(text.split("-")[1]) > last for text in ids(again.body))
    app.state.services.close()


@pytest.mark.parametrize(
    "last", ["0badc0de-5", "LIFE-999999", "LIFE-x", "-", "", "4", "LIFE-²", "é"]
)
async def test_an_id_that_says_nothing_gets_the_whole_state(last: str) -> None:
    app = create_api(World().handles())
    await Stream.read(app, "/api/events", has("state"))
    life = app.state.services.hubs["go2"]._life
    headers = {"Last-Event-ID": last.replace("LIFE", life)}
    stream = await Stream.read(app, "/api/events", has(*ALL), headers=headers)
    assert not hello_of(stream.body)["resumed"]
    app.state.services.close()


async def test_a_new_server_is_noticed_by_its_ids() -> None:
    world = World()
    old = create_api(world.handles())
    first = await Stream.read(old, "/api/events", has(*ALL))
    old.state.services.close()
    new = create_api(world.handles())
    stream = await Stream.read(
        new, "/api/events", has(*ALL), headers={"Last-Event-ID": ids(first.body)[-1]}
    )
    assert not hello_of(stream.body)["resumed"]
    assert ids(stream.body)[0].split("-")[0] != ids(first.body)[0].split("-")[0]
    new.state.services.close()


async def test_the_ring_is_bounded_and_says_when_something_fell_out() -> None:
    hub = create_api(World().handles()).state.services.hubs["go2"]
    for number in range(1000):
        hub._tell("gate", json.dumps({"number": number}))
        hub._tell("map_update", "{}")
    assert len(hub._ring.events) <= events.RING_LENGTH
    assert sum(1 for event in hub._ring.events if event.name == "map_update") == 1
    assert hub._ring.size == sum(len(event.data) for event in hub._ring.events)
    oldest = hub._ring.events[0].number
    assert hub._missed(f"{hub._life}-{oldest - 1}") is not None
    assert hub._missed(f"{hub._life}-{oldest - 3}") is None
    assert [e.number for e in hub._missed(f"{hub._life}-{hub._last - 1}")] == [hub._last]
    hub._tell("nav", "x" * (events.RING_BYTES + 1))
    assert hub._ring.size <= events.RING_BYTES, "one event that is too large for it is not kept"
    assert hub._missed(f"{hub._life}-{hub._last - 1}") is None
