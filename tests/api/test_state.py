import ast
import asyncio
import inspect
import math
from dataclasses import replace
from typing import Any

import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from rhino_actors.control import motion_gate
from rhino_actors.errors import NotLocalised
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.navigation import Rank
from serve_app.commands import read_state
from serve_app.schemas import GateLogLine
from tests.api.world import World, snapshot


def test_health_says_ok(client: TestClient) -> None:
    assert client.get("/api/health").json() == {"status": "ok"}


def test_state_has_pose_status_gate_goal_mission_and_ages(client: TestClient, world: World) -> None:
    world.platform.holder, world.platform.rank = "ann", Rank.HUMAN
    state = client.get("/api/state").json()
    assert state["pose"]["x"] == 1.0 and state["pose"]["y"] == 2.0
    assert abs(state["pose"]["yaw"] - 1.5707963) < 1e-6
    assert state["status"]["posture"] == "standing" and state["status"]["battery"] == 87.0
    assert state["gate"]["holder"] == "ann" and state["gate"]["holder_rank"] == "human"
    assert state["nav"]["state"] == "idle" and state["mission"]["state"] == "idle"
    assert state["ages"]["lidar"] == 0.1 and state["ages"]["camera"] is None
    assert state["rates"]["odometry"] == 50.0
    assert state["simulated"] is True
    assert state["path"] == [] and state["unavailable"] == []


def test_state_tells_how_new_and_how_large_the_map_is(client: TestClient, world: World) -> None:
    state = client.get("/api/state").json()
    assert state["map"] == {
        "epoch": world.mapper.current.epoch,
        "seq": 1,
        "known_area": 3.0,
        "age": 99.0,
        "frame_rate": 7.7,
        "latency_p50_ms": 20.0,
        "latency_p99_ms": 60.0,
    }
    assert state["rates"]["map"] == 7.5
    world.mapper.current = snapshot(0)
    assert client.get("/api/state").json()["map"]["age"] is None


def test_state_names_every_fault_once(client: TestClient, world: World) -> None:
    world.platform.driver_faults = ("Injected: link_loss.",)
    faults = client.get("/api/state").json()["status"]["faults"]
    assert faults == ["The latch cannot be kept.", "Injected: link_loss."]


def test_state_works_while_the_mapper_is_dead(client: TestClient, world: World) -> None:
    world.lost["mapper"] = rx.ActorDiedError()
    state = client.get("/api/state").json()
    assert state["map"] is None and state["unavailable"] == ["mapper"]
    assert state["rates"]["map"] is None and state["rates"]["odometry"] == 50.0
    assert state["pose"] is None and state["odom_pose"] is not None


async def test_state_asks_all_parts_at_the_same_time(world: World) -> None:
    parts = {name: getattr(world, name) for name in ("platform", "mapper", "planner", "explorer")}
    arrived = asyncio.Barrier(len(parts))

    def meeting(call: Any) -> Any:
        async def wait_for_the_others(*args: Any) -> Any:
            await arrived.wait()
            return await call(*args)

        return wait_for_the_others

    for name, part in parts.items():
        call = "stats" if name == "mapper" else "status"
        setattr(part, call, meeting(getattr(part, call)))
    async with asyncio.timeout(5):
        assert (await read_state(world.handles().robot())).unavailable == []


def test_the_description_names_the_gates_events() -> None:
    calls = [
        node.args[0]
        for node in ast.walk(ast.parse(inspect.getsource(motion_gate)))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "self._note"
    ]
    events = {arg.value for arg in calls if isinstance(arg, ast.Constant)} | {"go on"}
    described = GateLogLine.model_fields["event"].description
    assert described is not None and set(described.split(", ")) == events


def test_state_before_the_first_odometry_has_no_pose(client: TestClient, world: World) -> None:
    world.platform.pose = None
    state = client.get("/api/state")
    assert state.status_code == 200
    assert state.json()["pose"] is None and state.json()["ages"]["odometry"] is None


def test_state_shows_the_path_in_force(client: TestClient) -> None:
    client.post("/api/navigate", json={"x": 3, "y": 4.00049})
    assert client.get("/api/state").json()["path"] == [[1.0, 2.0], [3.0, 4.0]]


def test_state_names_the_parts_that_do_not_answer(client: TestClient, world: World) -> None:
    world.lost["planner"] = rx.ActorDiedError()
    state = client.get("/api/state")
    assert state.status_code == 200
    assert state.json()["unavailable"] == ["planner"]
    assert state.json()["nav"] is None and state.json()["pose"] is not None
    world.lost["platform"] = rx.ActorUnavailableError("restarting", b"\0" * 16)
    assert client.get("/api/state").json()["unavailable"] == ["platform", "planner"]
    assert client.get("/api/state").json()["simulated"] is True


def test_the_gate_log_is_read_on_from_a_stamp(client: TestClient) -> None:
    (line,) = client.get("/api/gate/log?since=0.5").json()
    assert line["message"].endswith(".")
    assert client.get("/api/gate/log", params={"since": line["stamp"]}).json() == []
    assert client.get("/api/gate/log?since=nan").status_code == 422


def test_the_gate_log_tells_why_it_stopped(client: TestClient) -> None:
    (line,) = client.get("/api/gate/log").json()
    assert line["event"] == "stop" and line["reason"] == "STOPPED"


def test_robots_lists_the_fleet(client: TestClient, world: World) -> None:
    first, second = client.get("/api/robots").json()
    assert first["name"] == "go2" and first["default"] and first["available"]
    assert second["name"] == "second" and not second["default"]
    world.lost["platform"] = rx.ActorDiedError()
    first, _ = client.get("/api/robots").json()
    assert not first["available"] and first["posture"] is None


def test_every_route_exists_per_robot_too(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    plain = {
        path.removeprefix("/api"): set(methods)
        for path, methods in paths.items()
        if not path.startswith(("/api/robots", "/api/health", "/api/session", "/metrics"))
    }
    named = {
        path.removeprefix("/api/robots/{robot}"): set(methods)
        for path, methods in paths.items()
        if path.startswith("/api/robots/{robot}")
    }
    assert plain == named and len(plain) > 20


def test_a_named_robot_is_the_one_that_is_asked(client: TestClient) -> None:
    assert client.get("/api/robots/second/state").json()["robot"] == "second"


def test_an_unknown_robot_is_not_found(client: TestClient, world: World) -> None:
    for method, path in (
        ("GET", "state"),
        ("GET", "events"),
        ("GET", "camera/stream"),
        ("POST", "stop"),
        ("POST", "estop"),
    ):
        answer = client.request(method, f"/api/robots/cat/{path}")
        assert answer.status_code == 404
        assert answer.json()["code"] == "ROBOT_NOT_FOUND"
    assert world.platform.calls == []


def test_state_carries_where_the_robot_stands_now(client: TestClient, world: World) -> None:
    world.platform.pose = Pose2D(-3.0, 4.0, 0.0)
    assert client.get("/api/state").json()["pose"] == {"x": -3.0, "y": 4.0, "yaw": 0.0}


def test_the_pose_is_in_the_map_and_that_in_odom_is_a_field_of_its_own(
    client: TestClient, world: World
) -> None:
    world.mapper.current = replace(
        world.mapper.current, map_from_odom=Pose2D(10.0, 0.0, math.pi / 2)
    )
    world.platform.pose = Pose2D(1.0, 2.0, 0.25)
    state = client.get("/api/state").json()
    assert state["pose"] == pytest.approx({"x": 8.0, "y": 1.0, "yaw": math.pi / 2 + 0.25})
    assert state["odom_pose"] == pytest.approx({"x": 1.0, "y": 2.0, "yaw": 0.25})
    assert state["localisation"] == {"state": "unknown", "share": 0.0, "sentence": ""}


def test_while_the_place_is_not_known_there_is_no_pose_in_the_map_but_a_sentence(
    client: TestClient, world: World
) -> None:
    world.mapper.lose()
    state = client.get("/api/state").json()
    assert state["pose"] is None and state["odom_pose"]["x"] == 1.0
    assert state["localisation"]["state"] == "lost" and state["localisation"]["share"] == 0.31
    assert state["localisation"]["sentence"].startswith("Lost: ")
    info = client.get("/api/map/info").json()
    assert info["localised"] is False and info["localisation"] == state["localisation"]
    refused = client.post("/api/pois", json={"label": "here"})
    assert refused.status_code == 409 and refused.json()["code"] == "NOT_LOCALISED"
    assert client.post("/api/pois", json={"label": "there", "x": 1, "y": 2}).status_code == 201


def test_a_goal_is_refused_with_409_while_the_place_is_not_known(
    client: TestClient, world: World
) -> None:
    world.planner.error = NotLocalised()
    refused = client.post("/api/navigate", json={"x": 1, "y": 1})
    assert refused.status_code == 409
    assert refused.json()["code"] == "NOT_LOCALISED" and "rough pose" in refused.json()["hint"]
