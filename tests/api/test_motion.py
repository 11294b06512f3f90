import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.navigation import Rank
from tests.api.world import World

ANN = {"X-Rhino-Client": "ann"}
BOB = {"X-Rhino-Client": "bob"}


def test_velocity_reaches_the_gate_with_name_and_rank(client: TestClient, world: World) -> None:
    answer = client.post("/api/velocity", json={"vx": 0.3, "vy": 0, "omega": -0.5}, headers=ANN)
    assert answer.status_code == 200
    assert answer.json()["applied"] == {"vx": 0.3, "vy": 0.0, "omega": -0.5}
    assert answer.json()["holder"] == "ann" and answer.json()["clamped"] is False
    assert world.platform.twists == [(Twist2D(0.3, 0.0, -0.5), "ann", Rank.HUMAN)]


def test_a_too_large_velocity_answers_what_was_applied(client: TestClient) -> None:
    answer = client.post("/api/velocity", json={"vx": 50, "vy": 0, "omega": 0}).json()
    assert answer["clamped"] is True
    assert answer["applied"]["vx"] == 1.0 and answer["requested"]["vx"] == 50.0


@pytest.mark.parametrize("field", ["vx", "vy", "omega"])
@pytest.mark.parametrize(
    "value",
    ["NaN", "Infinity", "-Infinity", "1e999", '"0.3"', "null", "true", "[]", "{}", "MISSING"],
)
def test_a_bad_velocity_is_refused_and_moves_nothing(
    client: TestClient, world: World, field: str, value: str
) -> None:
    values = {"vx": "0.1", "vy": "0.1", "omega": "0.1", field: value}
    parts = [f'"{name}": {text}' for name, text in values.items() if text != "MISSING"]
    answer = client.post("/api/velocity", content="{" + ", ".join(parts) + "}")
    assert answer.status_code == 422
    assert answer.json()["code"] == "INVALID_REQUEST"
    assert field in answer.json()["message"]
    assert world.platform.twists == []


def test_an_unknown_field_is_refused(client: TestClient, world: World) -> None:
    body = {"vx": 0.1, "vy": 0, "omega": 0, "speed": 3}
    answer = client.post("/api/velocity", json=body)
    assert answer.status_code == 422 and "speed" in answer.json()["message"]
    assert world.platform.twists == []


def test_who_drives_is_named_to_the_second_driver(client: TestClient, world: World) -> None:
    body = {"vx": 0.1, "vy": 0, "omega": 0}
    client.post("/api/velocity", json=body, headers=ANN)
    answer = client.post("/api/velocity", json=body, headers=BOB)
    assert answer.status_code == 409
    assert answer.json()["code"] == "CONTROL_HELD" and answer.json()["holder"] == "ann"


def test_control_is_taken_and_given_back(client: TestClient) -> None:
    client.post("/api/velocity", json={"vx": 0.1, "vy": 0, "omega": 0}, headers=ANN)
    taken = client.post("/api/control/take", headers=BOB).json()
    assert taken["holder"] == "bob" and taken["taken_from"] == "ann"
    assert client.post("/api/control/release", headers=ANN).json()["holder"] == "bob"
    assert client.post("/api/control/release", headers=BOB).json()["holder"] == ""


def test_control_is_taken_from_the_one_who_was_named_only(client: TestClient) -> None:
    client.post("/api/velocity", json={"vx": 0.1, "vy": 0, "omega": 0}, headers=ANN)
    refused = client.post("/api/control/take", json={"from": "carl"}, headers=BOB)
    assert refused.status_code == 409 and refused.json()["holder"] == "ann"
    taken = client.post("/api/control/take", json={"from": "ann"}, headers=BOB).json()
    assert taken["holder"] == "bob" and taken["taken_from"] == "ann"


@pytest.mark.parametrize("body", ['{"from": 3}', '{"form": "ann"}', "[]"])
def test_a_take_over_that_makes_no_sense_takes_nothing(
    client: TestClient, world: World, body: str
) -> None:
    assert client.post("/api/control/take", content=body, headers=BOB).status_code == 422
    assert world.platform.holder == ""


def test_a_lease_is_kept_by_its_holder_only(client: TestClient, world: World) -> None:
    gone = client.post("/api/control/keep", headers=ANN)
    assert gone.status_code == 409 and gone.json()["code"] == "NOT_HOLDER"
    client.post("/api/control/take", headers=ANN)
    assert client.post("/api/control/keep", headers=ANN).json()["holder"] == "ann"
    held = client.post("/api/control/keep", headers=BOB)
    assert held.status_code == 409 and held.json()["holder"] == "ann"


def test_stop_stands_still_and_ends_goal_and_mission(client: TestClient, world: World) -> None:
    client.post("/api/navigate", json={"x": 1, "y": 1})
    client.post("/api/explore/start")
    answer = client.post("/api/stop", headers=ANN)
    assert answer.status_code == 200
    assert answer.json()["goal_cancelled"] and answer.json()["mission_stopped"]
    assert world.platform.calls == ["stop ann"]
    assert world.planner.nav.state == "cancelled" and world.explorer.mission.state == "cancelled"


@pytest.mark.parametrize("path", ["stop", "estop"])
def test_stop_with_nothing_to_stop_is_fine(client: TestClient, path: str) -> None:
    answer = client.post(f"/api/{path}")
    assert answer.status_code == 200
    assert not answer.json()["goal_cancelled"] and not answer.json()["mission_stopped"]


@pytest.mark.parametrize("path", ["stop", "estop"])
@pytest.mark.parametrize("parts", [("planner",), ("explorer",), ("planner", "explorer")])
def test_stop_works_while_planner_and_explorer_are_dead(
    client: TestClient, world: World, path: str, parts: tuple[str, ...]
) -> None:
    for part in parts:
        world.lost[part] = rx.ActorDiedError()
    answer = client.post(f"/api/{path}", headers=ANN)
    assert answer.status_code == 200
    assert world.platform.calls == [f"{path} ann"]


def test_stop_ends_the_goal_even_when_the_platform_is_gone(
    client: TestClient, world: World
) -> None:
    client.post("/api/navigate", json={"x": 1, "y": 1})
    world.lost["platform"] = rx.ActorDiedError()
    assert client.post("/api/stop").status_code == 503
    assert world.planner.nav.state == "cancelled"


def test_anyone_may_stop_while_another_drives(client: TestClient, world: World) -> None:
    client.post("/api/velocity", json={"vx": 0.1, "vy": 0, "omega": 0}, headers=ANN)
    assert client.post("/api/stop", headers=BOB).status_code == 200
    assert world.platform.twists[-1][0].is_zero


def test_the_emergency_stop_latches_until_it_is_cleared(client: TestClient) -> None:
    assert client.post("/api/estop", headers=BOB).json()["gate"]["latched_by"] == "bob"
    refused = client.post("/api/velocity", json={"vx": 0.1, "vy": 0, "omega": 0})
    assert refused.status_code == 409 and refused.json()["code"] == "ESTOP_LATCHED"
    assert client.post("/api/estop/clear").json()["latched"] is False
    assert client.post("/api/velocity", json={"vx": 0, "vy": 0, "omega": 0}).status_code == 200


def test_sport_commands_are_carried_out(client: TestClient, world: World) -> None:
    answer = client.post("/api/cmd/Hello", headers=ANN)
    assert answer.json()["accepted"] is True
    assert world.platform.calls == ["Hello ann HUMAN"]


def test_a_pose_takes_numbers_and_answers_what_was_applied(
    client: TestClient, world: World
) -> None:
    answer = client.post("/api/cmd/Pose", json={"roll": 0.2, "height": 9.0}, headers=ANN)
    assert answer.json()["parameters"] == {"roll": 0.2, "height": 0.35}
    assert world.platform.calls == ["Pose roll=0.2 height=9.0 ann HUMAN"]
    assert client.post("/api/cmd/Pose", json={}).json()["parameters"] == {}


@pytest.mark.parametrize(
    ("command", "body"),
    [
        ("Pose", '{"roll": 1e999}'),
        ("Pose", '{"roll": "0.1"}'),
        ("Pose", '{"lift": 0.1}'),
        ("Pose", "[]"),
        ("Hello", '{"roll": 0.1}'),
    ],
)
def test_numbers_that_a_command_cannot_have_are_refused(
    client: TestClient, world: World, command: str, body: str
) -> None:
    answer = client.post(f"/api/cmd/{command}", content=body)
    assert answer.status_code == 422 and answer.json()["code"] == "INVALID_REQUEST"
    assert world.platform.calls == []


def test_a_stop_move_is_not_refused_for_its_body(client: TestClient, world: World) -> None:
    for body in ("", "[]", '{"roll": 0.1}', "nonsense"):
        client.post("/api/cmd/StopMove", content=body, headers=ANN)
    assert world.platform.calls == ["StopMove ann HUMAN"] * 4


def test_an_unknown_sport_command_names_the_known_ones(client: TestClient) -> None:
    answer = client.post("/api/cmd/MoonWalk")
    assert answer.status_code == 404
    assert answer.json()["code"] == "UNKNOWN_COMMAND" and "Hello" in answer.json()["hint"]


def test_a_command_that_the_robot_refuses_is_an_error(client: TestClient) -> None:
    answer = client.post("/api/cmd/Sit")
    assert answer.status_code == 409 and answer.json()["code"] == "COMMAND_REJECTED"


@pytest.mark.parametrize("name", ["stop", "estop"])
@pytest.mark.parametrize("prefix", ["/api", "/api/robots/go2"])
def test_a_stop_is_not_redirected(client: TestClient, world: World, prefix: str, name: str) -> None:
    answer = client.post(f"{prefix}/{name}/", headers=ANN, follow_redirects=False)
    assert answer.status_code == 200
    assert world.platform.calls[0] == f"{name} ann"
