"""The WebSocket: through the test client, and as a session alone where time and order matter."""

import asyncio
import json
from typing import Any

import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient
from starlette.testclient import WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.navigation import Rank
from serve_app import events, socket_session
from serve_app.access import Access
from serve_app.app import create_api, create_control
from serve_app.events import Event, Mailbox
from serve_app.refusals import RefusalLog
from serve_app.security import TOKEN_COOKIE, session_value
from serve_app.socket_session import Closing, Session
from serve_app.stream_schemas import AnswerMessage, EventMessage, HelloMessage
from tests.api.conftest import BASE_URL
from tests.api.world import World

AHEAD = {"type": "velocity", "vx": 0.3, "vy": 0.0, "omega": 0.0}
ZERO = {"type": "velocity", "vx": 0.0, "vy": 0.0, "omega": 0.0}
WS = BASE_URL.replace("http", "ws")


def until(socket: WebSocketTestSession, kind: str) -> dict[str, Any]:
    """Return the next message of a kind."""
    while True:
        message: dict[str, Any] = socket.receive_json()
        if message["type"] == kind:
            return message


def ask(socket: WebSocketTestSession, command: dict[str, Any]) -> dict[str, Any]:
    socket.send_json(command)
    return until(socket, "answer")


def test_events_come_as_on_the_event_stream(client: TestClient) -> None:
    with client.websocket_connect(WS + "/api/ws?client=ann") as socket:
        hello = HelloMessage.model_validate(socket.receive_json(), extra="forbid")
        assert hello.data.client == "ann" and hello.data.robot == "go2" and not hello.data.resumed
        seen: dict[str, EventMessage] = {}
        while len(seen) < 7:
            event = EventMessage.model_validate(socket.receive_json(), extra="forbid")
            seen[event.event] = event
    assert seen["state"].data["pose"]["x"] == 1.0
    assert seen["map_update"].data == {
        "epoch": seen["map_update"].data["epoch"],
        "seq": 1,
        "empty": False,
    }
    with client.websocket_connect(WS + f"/api/ws?last_event_id={seen['state'].id}") as socket:
        assert socket.receive_json()["data"]["resumed"]


def test_the_messages_have_schemas(client: TestClient) -> None:
    schemas = client.get("/api/ws/schema").json()
    kinds = {"velocity", "stop", "estop", "estop_clear", "take", "keep", "release", "ack"}
    assert set(schemas["client"]["discriminator"]["mapping"]) == kinds
    assert "from" in schemas["client"]["$defs"]["TakeCommand"]["properties"]
    kinds = {"hello", "event", "answer", "error"}
    assert set(schemas["server"]["discriminator"]["mapping"]) == kinds


def test_commands_are_answered_with_their_number(client: TestClient, world: World) -> None:
    with client.websocket_connect(WS + "/api/ws?client=ann") as socket:
        answer = AnswerMessage.model_validate(ask(socket, {**AHEAD, "vx": 9.0, "seq": 7}))
        assert (answer.to, answer.seq, answer.ok) == ("velocity", 7, True)
        assert answer.result and answer.result["applied"]["vx"] == 1.0 and answer.result["clamped"]
        assert world.platform.twists[-1] == (Twist2D(1.0), "ann", Rank.HUMAN)
        assert ask(socket, {"type": "keep"})["result"]["holder"] == "ann"
        assert ask(socket, {"type": "release"})["result"]["holder"] == ""
        refused = ask(socket, {"type": "keep", "seq": 8})
        assert refused["ok"] is False and refused["error"]["code"] == "NOT_HOLDER"
        assert ask(socket, {"type": "estop"})["result"]["gate"]["latched_by"] == "ann"
        assert ask(socket, AHEAD)["error"]["code"] == "ESTOP_LATCHED"
        assert ask(socket, {"type": "estop_clear"})["result"]["latched"] is False


def test_control_is_taken_from_who_was_named_only(client: TestClient, world: World) -> None:
    world.platform.holder, world.platform.rank = "bob", Rank.HUMAN
    with client.websocket_connect(WS + "/api/ws?client=ann") as socket:
        refused = ask(socket, AHEAD)
        assert refused["error"]["code"] == "CONTROL_HELD" and refused["error"]["holder"] == "bob"
        refused = ask(socket, {"type": "take", "from": "carl"})
        assert refused["error"]["holder"] == "bob"
        took = ask(socket, {"type": "take", "from": "bob"})
        assert took["result"]["holder"] == "ann" and took["result"]["taken_from"] == "bob"


def test_a_stop_ends_goal_and_mission_too(client: TestClient, world: World) -> None:
    client.post("/api/navigate", json={"x": 1, "y": 1})
    with client.websocket_connect(WS + "/api/robots/go2/ws?client=ann") as socket:
        assert ask(socket, {"type": "stop"})["result"]["goal_cancelled"]
    assert world.platform.calls[0] == "stop ann"


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "velocity", "vx": NaN, "vy": 0, "omega": 0}',
        '{"type": "velocity", "vx": 1e999, "vy": 0, "omega": 0}',
        '{"type": "velocity", "vx": "0.3", "vy": 0, "omega": 0}',
        '{"type": "velocity", "vx": 0.3, "vy": 0}',
        '{"type": "velocity", "vx": null, "vy": 0, "omega": 0}',
        '{"type": "velocity", "vx": 0.3, "vy": 0, "omega": 0, "speed": 1}',
        '{"type": "fly"}',
        "[]",
        "nonsense",
        "{" + " " * 5000 + "}",
    ],
)
def test_a_message_that_makes_no_sense_is_named_and_moves_nothing(
    client: TestClient, world: World, text: str
) -> None:
    with client.websocket_connect(WS + "/api/ws?client=ann") as socket:
        socket.send_text(text)
        assert until(socket, "error")["error"]["code"] == "INVALID_REQUEST"
        assert ask(socket, {"type": "take"})["ok"], "and the connection goes on"
    assert world.platform.twists == []


def test_who_sends_nonsense_only_is_dropped(client: TestClient) -> None:
    with client.websocket_connect(WS + "/api/ws") as socket:
        with pytest.raises(WebSocketDisconnect) as closed:
            for _ in range(socket_session.MAX_UNREADABLE + 1):
                socket.send_bytes(b"\x00\xff")
            while True:
                socket.receive_json()
    assert closed.value.code == socket_session.POLICY


def test_a_connection_that_closes_while_it_drives_leaves_a_zero(
    client: TestClient, world: World
) -> None:
    with client.websocket_connect(WS + "/api/ws?client=ann") as socket:
        assert ask(socket, AHEAD)["ok"]
    assert world.platform.calls == ["lose ann"] and world.platform.twists[-1][0].is_zero


def test_a_connection_that_let_go_before_it_closed_ends_nothing(
    client: TestClient, world: World
) -> None:
    with client.websocket_connect(WS + "/api/ws?client=ann") as socket:
        ask(socket, AHEAD)
        ask(socket, ZERO)
    with client.websocket_connect(WS + "/api/ws?client=ann") as socket:
        until(socket, "event")
    assert world.platform.calls == []


@pytest.mark.parametrize(
    ("path", "code", "error"),
    [
        ("/api/robots/nobody/ws", 1008, "ROBOT_NOT_FOUND"),
        ("/api/ws?client=explorer", 1008, "INVALID_REQUEST"),
    ],
)
def test_a_socket_that_cannot_be_served_says_why(
    client: TestClient, path: str, code: int, error: str
) -> None:
    with client.websocket_connect(WS + path) as socket:
        assert socket.receive_json()["error"]["code"] == error
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
        assert closed.value.code == code


def test_sockets_are_counted_and_limited() -> None:
    world = World(max_streams=2)
    with TestClient(create_control(world.handles()), base_url=BASE_URL) as client:
        count = "/api/control/streams"
        with (
            client.websocket_connect(WS + "/api/ws") as one,
            client.websocket_connect(WS + "/api/ws"),
        ):
            until(one, "event")
            assert client.get(count).json()["open"] == 2
            with client.websocket_connect(WS + "/api/ws") as third:
                assert third.receive_json()["error"]["code"] == "TOO_MANY_STREAMS"
        assert client.get(count).json() == {
            "app": "control",
            "open": 0,
            "waiting": 0,
            "limit": 2,
        }


def test_other_sites_and_strangers_get_no_socket() -> None:
    world = World()
    app = create_control(world.handles(), Access("127.0.0.1", "secret"))
    with TestClient(app, base_url=BASE_URL) as client:
        for headers in (
            {"origin": "http://evil.example", "authorization": "Bearer secret"},
            {"origin": BASE_URL},
            {"host": "evil.example", "authorization": "Bearer secret"},
        ):
            with pytest.raises(WebSocketDisconnect):
                with client.websocket_connect(WS + "/api/ws", headers=headers) as socket:
                    socket.receive_json()
        session = f"{TOKEN_COOKIE}={session_value('secret')}"
        cookie = {"origin": BASE_URL, "cookie": session}
        with client.websocket_connect(WS + "/api/ws", headers=cookie) as socket:
            assert socket.receive_json()["type"] == "hello"


# a session alone


class Wire:
    """The client's end of a connection: it reads all there is, and may stop doing so."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[str | None] = asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self.news = asyncio.Event()

    async def receive(self) -> str | None:
        return await self.inbox.get()

    async def send(self, text: str) -> None:
        self.sent.append(json.loads(text))
        self.news.set()

    def say(self, message: dict[str, Any]) -> None:
        self.inbox.put_nowait(json.dumps(message))

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(5.0):
            while not condition():
                self.news.clear()
                await self.news.wait()

    def answers(self) -> list[dict[str, Any]]:
        return [message for message in self.sent if message["type"] == "answer"]


class Rig:
    def __init__(self, world: World) -> None:
        self.world, self.wire, self.mailbox = world, Wire(), Mailbox()
        robot = world.handles().robot()
        self.session = Session(self.wire, robot, "ann", self.mailbox, RefusalLog())
        self.task = asyncio.create_task(self.session.run())

    async def leave(self) -> None:
        self.wire.inbox.put_nowait(None)
        await self.task


class SlowPlatform:
    """A platform whose velocities take until they are let through."""

    def __init__(self, platform: Any) -> None:
        self._platform = platform
        self.gate = asyncio.Event()
        self.arrived = asyncio.Event()
        self.asked: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._platform, name)

    async def velocity(self, twist: Twist2D, client: str, rank: Rank = Rank.HUMAN) -> Any:
        self.asked.append(twist.vx)
        self.arrived.set()
        await self.gate.wait()
        return await self._platform.velocity(twist, client, rank)


async def test_a_stop_waits_for_no_velocity_and_voids_those_that_wait() -> None:
    world = World()
    slow = world.platform = SlowPlatform(world.platform)
    rig = Rig(world)
    rig.wire.say({**AHEAD, "vx": 0.1, "seq": 0})
    await slow.arrived.wait()
    rig.wire.say({**AHEAD, "vx": 0.2, "seq": 1})
    rig.wire.say({**AHEAD, "vx": 0.3, "seq": 2})
    rig.wire.say({"type": "stop", "seq": 9})
    await rig.wire.until(lambda: any(a["to"] == "stop" for a in rig.wire.answers()))
    assert slow.asked == [0.1], "the first is on its way, the others were overtaken"
    answers = {answer["seq"]: answer for answer in rig.wire.answers()}
    assert answers[9]["ok"]
    assert [answers[k]["error"]["code"] for k in (1, 2)] == ["OVERTAKEN"] * 2
    slow.gate.set()
    await rig.wire.until(lambda: len(rig.wire.answers()) == 4)
    await rig.leave()
    assert slow.asked == [0.1]


async def test_commands_keep_their_order_and_too_many_are_refused() -> None:
    world = World()
    slow = world.platform = SlowPlatform(world.platform)
    rig = Rig(world)
    rig.wire.say(AHEAD)
    rig.wire.say({"type": "release", "seq": 1})
    rig.wire.say({"type": "take", "seq": 2})
    slow.gate.set()
    await rig.wire.until(lambda: len(rig.wire.answers()) == 3)
    assert [answer["to"] for answer in rig.wire.answers()] == ["velocity", "release", "take"]
    slow.gate.clear()
    rig.wire.say(AHEAD)
    for _ in range(socket_session.MAX_WAITING + 2):
        rig.wire.say({"type": "keep"})
    with pytest.raises(Closing):
        await rig.task


async def test_a_stop_in_flight_is_carried_out_when_the_client_is_gone() -> None:
    world = World()
    rig = Rig(world)
    rig.wire.say({"type": "estop"})
    rig.wire.inbox.put_nowait(None)
    await rig.task
    assert world.platform.latched_by == "ann"


async def test_who_does_not_read_gets_no_more_events_and_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_session, "SLOW_S", 0.2)
    monkeypatch.setattr(socket_session, "CHECK_S", 0.02)
    rig = Rig(World())
    data = json.dumps({"x": "y" * 10_000})

    async def fill() -> None:
        for number in range(10_000):
            rig.mailbox.put(Event("state", number, data))
            await asyncio.sleep(0)

    filling = asyncio.create_task(fill())
    with pytest.raises(Closing) as dropped:
        await rig.task
    filling.cancel()
    assert dropped.value.code == socket_session.TOO_SLOW
    states = sum(1 for message in rig.wire.sent if message["type"] == "event")
    assert states <= socket_session.WINDOW_BYTES // len(data) + 2


async def test_who_acknowledges_is_kept_and_gets_the_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_session, "WINDOW_BYTES", 2000)
    rig = Rig(World())
    data = json.dumps({"x": "y" * 1000})
    for number in range(50):
        rig.mailbox.put(Event("state", number, data, "life"))
        await asyncio.sleep(0)
    read = len(rig.wire.sent)
    assert 1 < read < 10
    rig.wire.say({"type": "ack", "n": rig.wire.sent[-1]["n"]})
    await rig.wire.until(
        lambda: rig.wire.sent[-1]["id"] == "life-49" if len(rig.wire.sent) > read else False
    )
    assert len(rig.wire.sent) <= read + 2
    await rig.leave()


async def test_a_platform_that_is_lost_is_answered_and_the_socket_goes_on() -> None:
    world = World()
    world.lost["platform"] = rx.ActorDiedError()
    rig = Rig(world)
    rig.wire.say({**AHEAD, "seq": 1})
    await rig.wire.until(lambda: len(rig.wire.answers()) == 1)
    rig.wire.say({"type": "stop", "seq": 2})
    await rig.wire.until(lambda: len(rig.wire.answers()) == 2)
    assert {a["error"]["code"] for a in rig.wire.answers()} == {"ACTOR_UNAVAILABLE"}
    await rig.leave()


async def test_two_hundred_sockets_that_vanish_leave_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(events, "LINGER_S", 0.0)
    world = World(max_streams=200)
    app = create_api(world.handles())
    tasks = len(asyncio.all_tasks())

    async def visit() -> None:
        accepted = asyncio.Event()

        async def receive() -> dict[str, Any]:
            if not accepted.is_set():
                accepted.set()
                return {"type": "websocket.connect"}
            await seen.wait()
            return {"type": "websocket.disconnect", "code": 1006}

        seen = asyncio.Event()

        async def send(message: Any) -> None:
            if message["type"] == "websocket.send":
                seen.set()

        scope = {
            "type": "websocket",
            "path": "/api/ws",
            "raw_path": b"/api/ws",
            "query_string": b"",
            "root_path": "",
            "scheme": "ws",
            "headers": [(b"host", b"localhost:8000")],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 8000),
            "subprotocols": [],
        }
        await app(scope, receive, send)

    await asyncio.gather(*(visit() for _ in range(200)))
    await asyncio.sleep(0.01)
    assert app.state.services.streams.open == 0
    assert app.state.services.hubs["go2"].listeners == 0
    assert len(asyncio.all_tasks()) <= tasks
