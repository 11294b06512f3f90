"""Faults of the simulation over REST and from the command line."""

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from rhino_actors import cli
from rhino_actors.cli import api
from rhino_actors.errors import RhinoError
from tests.api.world import World

ANN = {"X-Rhino-Client": "ann"}


def test_faults_are_added_listed_and_cleared(client: TestClient, world: World) -> None:
    listed = client.get("/api/sim/faults").json()
    assert listed["faults"] == []
    drop, push = listed["kinds"]
    assert drop["name"] == "drop_lidar" and not drop["once"] and not drop["needs_walking"]
    assert drop["numbers"] == [
        {"name": "share", "unit": "", "default": 1.0, "low": 0.0, "high": 1.0}
    ]
    assert push["once"] and push["needs_walking"]
    assert push["numbers"][0]["default"] is None, "never, since JSON has no infinity"
    body = {"name": "drop_lidar", "values": {"share": 0.3}, "after": 2, "duration": 10}
    answer = client.post("/api/sim/faults", json=body, headers=ANN)
    expected = {"name": "drop_lidar", "values": {"share": 0.3}, "starts_in": 2.0, "ends_in": 10.0}
    assert answer.json()["faults"] == [expected]
    assert world.platform.calls == ["fault drop_lidar ann"]
    client.post("/api/sim/faults", json={"name": "push"})
    assert len(client.get("/api/sim/faults").json()["faults"]) == 2
    left = client.delete("/api/sim/faults/drop_lidar").json()["faults"]
    assert [fault["name"] for fault in left] == ["push"]
    assert client.delete("/api/sim/faults").json()["faults"] == []


def test_a_push_needs_no_control_of_the_robot(client: TestClient, world: World) -> None:
    client.post("/api/velocity", json={"vx": 0.1, "vy": 0, "omega": 0}, headers=ANN)
    assert client.post("/api/sim/faults", json={"name": "push"}).status_code == 200
    client.post("/api/estop")
    assert client.post("/api/sim/faults", json={"name": "push"}).status_code == 200


def test_a_robot_that_is_no_simulation_says_so(client: TestClient, world: World) -> None:
    world.platform.has_faults = False
    for answer in (
        client.get("/api/sim/faults"),
        client.post("/api/sim/faults", json={"name": "push"}),
        client.delete("/api/sim/faults"),
    ):
        assert answer.status_code == 409 and answer.json()["code"] == "NOT_A_SIMULATION"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"name": "fire"}', "FAULT_INVALID"),
        ("{}", "INVALID_REQUEST"),
        ('{"name": "push", "values": {"x": "20"}}', "INVALID_REQUEST"),
        ('{"name": "push", "values": {"x": 1e999}}', "INVALID_REQUEST"),
        ('{"name": "push", "share": 1}', "INVALID_REQUEST"),
        ('{"name": "%s"}' % ("x" * 65), "INVALID_REQUEST"),
    ],
)
def test_what_is_no_fault_is_refused(
    client: TestClient, world: World, body: str, code: str
) -> None:
    answer = client.post("/api/sim/faults", content=body)
    assert answer.status_code == 422 and answer.json()["code"] == code
    assert world.platform.injected == []


# the command line, over the same server


@pytest.fixture
def rhino(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("RHINO_URL", "http://localhost:8000")
    monkeypatch.setattr(
        api.httpx2,
        "request",
        lambda method, url, *, timeout, **sent: client.request(method, url, **sent),
    )
    return CliRunner()


def run(rhino: CliRunner, *words: str) -> str:
    result = rhino.invoke(cli.app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_the_command_line_adds_lists_and_clears_faults(rhino: CliRunner, world: World) -> None:
    assert "nothing is wrong" in run(rhino, "fault", "clear")
    added = run(rhino, "fault", "add", "drop_lidar", "share=0.3", "after=2", "duration=10")
    assert added == "fault drop_lidar share=0.3, begins in 2.0 s, ends in 10.0 s"
    assert world.platform.calls == ["fault drop_lidar cli"]
    run(rhino, "fault", "add", "push", "x=-20")
    listed = run(rhino, "fault", "list")
    assert "share=0.3" in listed and "push x=-20" in listed and "something pushes" in listed
    assert run(rhino, "fault", "clear", "drop_lidar") == "fault push x=-20"
    assert "nothing is wrong" in run(rhino, "fault", "clear")


@pytest.mark.parametrize("word", ["share", "share=much", "share=nan", "=1e999"])
def test_the_command_line_refuses_what_is_no_number(
    rhino: CliRunner, world: World, word: str
) -> None:
    with pytest.raises(RhinoError, match="key=number"):
        run(rhino, "fault", "add", "drop_lidar", word)
    assert world.platform.injected == []


def test_the_command_line_shows_why_a_fault_is_refused(rhino: CliRunner, world: World) -> None:
    with pytest.raises(RhinoError, match="FAULT_INVALID"):
        run(rhino, "fault", "add", "fire")
    world.platform.has_faults = False
    with pytest.raises(RhinoError, match="NOT_A_SIMULATION"):
        run(rhino, "fault", "list")


def test_the_command_line_sends_a_pose_and_shows_what_was_applied(
    rhino: CliRunner, world: World
) -> None:
    done = run(rhino, "cmd", "Pose", "roll=9", "height=-0.05")
    assert done == "Pose roll=0.35 height=-0.05: accepted"
    assert world.platform.calls == ["Pose roll=9.0 height=-0.05 cli HUMAN"]
    assert run(rhino, "cmd", "Hello") == "Hello: accepted"
