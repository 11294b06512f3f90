"""Every refusal has the same body, whatever was wrong, and a bad body never reaches an actor."""

import logging

import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from rhino_actors import errors as e
from rhino_actors.storage import database
from serve_app.api.bodies import MAX_BODY_BYTES
from serve_app.api.errors import status_of
from serve_app.handles import CALL_TIMEOUT_S
from tests.api.world import World

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/nothing", 404, "NOT_FOUND"),
        ("GET", "/../../etc/passwd", 404, "NOT_FOUND"),
        ("GET", "/lite/../app.py", 404, "NOT_FOUND"),
        ("PUT", "/api/state", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/api/stop", 405, "METHOD_NOT_ALLOWED"),
    ],
)
def test_unknown_addresses_and_methods(
    client: TestClient, method: str, path: str, status: int, code: str
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["code"] == code and answer.json()["hint"]


@pytest.mark.parametrize("content_type", [None, "text/plain", FORM["content-type"]])
def test_json_is_taken_whatever_it_is_called(client: TestClient, content_type: str | None) -> None:
    headers = {"content-type": content_type} if content_type else {}
    answer = client.post("/api/navigate", content=b'{"x": 2, "y": 1}', headers=headers)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"3",
        b"x=2&y=1",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"x": 1' + b"0" * 5000 + b', "y": 1}',
        b'{"x": 1' + b"0" * 400 + b', "y": 1}',
    ],
)
def test_a_body_that_is_no_request_is_refused(
    client: TestClient, world: World, body: bytes
) -> None:
    answer = client.post("/api/navigate", content=body, headers=FORM)
    assert answer.status_code in (400, 422)
    assert answer.json()["code"] == "INVALID_REQUEST"
    assert world.planner.requests == []


def test_a_body_of_a_megabyte_is_too_large(client: TestClient) -> None:
    body = b'{"label": "' + b"x" * MAX_BODY_BYTES + b'"}'

    def in_pieces():  # type: ignore[no-untyped-def]
        for start in range(0, len(body), 65536):
            yield body[start : start + 65536]

    for content in (body, in_pieces()):
        answer = client.post("/api/pois", content=content)
        assert answer.status_code == 413
        assert answer.json()["code"] == "TOO_LARGE"


def test_an_unforeseen_error_is_logged_and_tells_nothing(
    client: TestClient, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.planner.error = ZeroDivisionError("secret detail")
    answer = client.post("/api/navigate", json={"x": 1, "y": 1})
    assert answer.status_code == 500
    assert answer.json()["code"] == "INTERNAL"
    assert "secret" not in answer.text
    assert "secret detail" in caplog.text


def refusals(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [
        (record.levelno, record.getMessage())
        for record in caplog.records
        if record.name == "serve_app.refusals"
    ]


def test_refusals_are_logged_with_client_and_holder_and_successes_are_not(
    client: TestClient, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="serve_app")
    body, bob = {"vx": 0.1, "vy": 0, "omega": 0}, {"X-Rhino-Client": "bob"}
    client.get("/api/state")
    client.post("/api/velocity", json=body, headers={"X-Rhino-Client": "ann"})
    assert refusals(caplog) == []
    for _ in range(20):
        client.post("/api/velocity", json=body, headers=bob)
    client.post("/api/velocity", json={"vx": 0.1}, headers=bob)
    client.get("/api/nothing%0ahere")
    client.post("/api/stop", headers={"origin": "http://evil.example"})
    held, invalid, missing, foreign = refusals(caplog)
    assert held[1].startswith("POST /api/velocity by bob: CONTROL_HELD")
    assert held[1].endswith("(ann drives)")
    assert "INVALID_REQUEST" in invalid[1] and "bob" in invalid[1]
    assert "NOT_FOUND" in missing[1] and "\n" not in missing[1]
    assert "ORIGIN_NOT_ALLOWED" in foreign[1]
    assert {level for level, _ in (held, invalid, missing, foreign)} == {logging.INFO}


def test_failures_are_logged_as_errors_and_what_is_not_there_yet_is_not_one(
    client: TestClient, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="serve_app")
    client.get("/api/camera/frame?wait=0")
    world.lost["planner"] = rx.ActorDiedError()
    client.get("/api/navigate/status")
    absent, failed = refusals(caplog)
    assert absent[0] == logging.INFO and "NOT_AVAILABLE" in absent[1]
    assert failed[0] == logging.ERROR and "ACTOR_UNAVAILABLE" in failed[1]


def test_a_restarting_part_is_503_and_says_when_to_ask_again(
    client: TestClient, world: World
) -> None:
    world.lost["planner"] = rx.ActorUnavailableError("restarting", b"\0" * 16)
    answer = client.post("/api/navigate", json={"x": 1, "y": 1})
    assert answer.status_code == 503
    assert answer.json()["code"] == "ACTOR_UNAVAILABLE"
    assert int(answer.headers["Retry-After"]) >= 1


def test_a_silent_part_is_504(client: TestClient, world: World) -> None:
    world.lost["planner"] = rx.GetTimeoutError("too late")
    answer = client.get("/api/navigate/status")
    assert answer.status_code == 504
    assert answer.json()["code"] == "TIMEOUT"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (e.GoalOccupied(), 422),
        (e.GoalOutsideMap(), 422),
        (e.StartOccupied(), 409),
        (e.NoPath(), 409),
        (e.NoMap(), 503),
        (e.PlanTimedOut(), 504),
        (e.EStopLatched(), 409),
        (e.RobotFallen(), 409),
        (e.SupersededRequest(), 409),
        (e.NotConnected(), 503),
        (e.InvalidRequest(), 422),
    ],
)
def test_refusals_have_a_fitting_status(
    client: TestClient, world: World, error: e.RhinoError, status: int
) -> None:
    world.planner.error = error
    answer = client.post("/api/navigate", json={"x": 1, "y": 1})
    assert answer.status_code == status
    assert answer.json() == {"code": error.code, "message": error.message, "hint": error.hint}


def test_a_database_that_cannot_be_used_is_503_and_its_hint_arrives(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def locked(robot: str) -> None:
        raise e.StorageError("rhino.db is locked.", "Try again.")

    monkeypatch.setattr(world.pois, "list_pois", locked)
    answer = client.get("/api/pois")
    assert answer.status_code == 503 and int(answer.headers["Retry-After"]) >= 1
    assert answer.json() == {
        "code": "STORAGE_ERROR",
        "message": "rhino.db is locked.",
        "hint": "Try again.",
    }
    assert status_of(e.PoiNotFound()) == 404 and status_of(e.InvalidLabel()) == 422


def test_a_locked_database_says_so_before_the_call_is_given_up() -> None:
    assert database.BUSY_TIMEOUT_S <= CALL_TIMEOUT_S / 2


def test_every_error_has_a_status() -> None:
    kinds, todo = set(), [e.RhinoError]
    while todo:
        kind = todo.pop()
        kinds.add(kind)
        todo += kind.__subclasses__()
    assert len(kinds) > 30
    for kind in kinds:
        assert 400 <= status_of(kind()) < 600


@pytest.mark.parametrize("name", ["x" * 65, "a\tb", "explorer", "Planner", "Assistant (kitchen)"])
def test_an_unusable_client_name_is_refused(client: TestClient, world: World, name: str) -> None:
    answer = client.post("/api/control/take", headers={"X-Rhino-Client": name})
    assert answer.status_code == 422
    assert answer.json()["code"] == "INVALID_REQUEST"
    assert world.platform.holder == ""


@pytest.mark.parametrize("name", ["x" * 65, "explorer", "Assistant (kitchen)"])
@pytest.mark.parametrize("path", ["stop", "estop"])
def test_a_stop_is_not_refused_for_a_name(
    client: TestClient, world: World, path: str, name: str
) -> None:
    assert client.post(f"/api/{path}", headers={"X-Rhino-Client": name}).status_code == 200
    assert world.platform.calls == [f"{path} testclient"]


def test_a_client_is_called_by_its_name_else_its_address(client: TestClient, world: World) -> None:
    client.post("/api/stop", headers={"X-Rhino-Client": "phone 🐶".encode()})
    client.post("/api/stop")
    assert world.platform.calls == ["stop phone 🐶", "stop testclient"]


def test_the_description_is_complete(client: TestClient) -> None:
    spec = client.get("/openapi.json").json()
    ids = []
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            ids.append(operation["operationId"])
            assert operation["description"], (method, path)
            if path != "/api/health":
                schema = operation["responses"]["422"]["content"]["application/json"]["schema"]
                assert schema["$ref"].endswith("/ErrorBody"), (method, path)
    assert len(ids) == len(set(ids))
    velocity = spec["components"]["schemas"]["VelocityRequest"]
    assert velocity["required"] == ["vx", "vy", "omega"]
    assert velocity["additionalProperties"] is False
