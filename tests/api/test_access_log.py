"""The access log: a line for what happens, a sum for what is asked again and again, and bounded labels for metrics."""

import logging
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from serve_app import access_log
from serve_app.access_log import Entry, Journal, open_log
from serve_app.app import create_api
from serve_app.route_table import OTHER
from tests.api.conftest import BASE_URL
from tests.api.world import World

ANN = {"X-Rhino-Client": "ann"}


class Meters:
    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str, int]] = []
        self.refusals: list[str] = []

    def request(
        self, method: str, route: str, robot: str, status: int, seconds: float, *, is_stream: bool
    ) -> None:
        assert seconds >= 0.0 and not is_stream
        self.requests.append((method, route, robot, status))

    def refusal(self, code: str) -> None:
        self.refusals.append(code)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    # The server is shared: the minute of what other tests asked for may be over in the middle of this one.
    monkeypatch.setattr(access_log, "SUM_PERIOD_S", math.inf)
    caplog.set_level(logging.INFO, logger="serve_app.access")
    return Lines(caplog)


class Lines(list[str]):
    """The access log's lines so far."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__()
        self._caplog = caplog

    def now(self) -> list[str]:
        return [
            record.getMessage()
            for record in self._caplog.records
            if record.name == "serve_app.access"
        ]


def test_a_change_has_a_line_with_robot_client_and_route(client: TestClient, lines: Lines) -> None:
    client.post("/api/robots/second/pois", json={"label": "dock"}, headers=ANN)
    (line,) = lines.now()
    assert line.startswith('robot="second" client="ann" POST /api/robots/{robot}/pois 201 ms=')


def test_a_refusal_names_its_code_and_who_drives(
    client: TestClient, world: World, lines: Lines
) -> None:
    body = {"vx": 0.1, "vy": 0.0, "omega": 0.0}
    client.post("/api/velocity", json=body, headers=ANN)
    for _ in range(10):  # the same again is not written within a second
        client.post("/api/velocity", json=body, headers={"X-Rhino-Client": "bob"})
    refused = [line for line in lines.now() if " 409 " in line]
    assert len(refused) == 1
    assert refused[0].startswith('robot="go2" client="bob" POST /api/velocity 409')
    assert 'code="CONTROL_HELD" holder="ann"' in refused[0]


def test_polls_and_velocities_are_summed(client: TestClient, lines: Lines) -> None:
    before = lines.now()
    for _ in range(30):
        client.get("/api/state", headers=ANN)
        client.post("/api/velocity", json={"vx": 0, "vy": 0, "omega": 0}, headers=ANN)
    assert lines.now() == before


def test_a_sum_says_how_often_and_how_long(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(access_log, "SUM_PERIOD_S", 60.0)
    monkeypatch.setattr(access_log.time, "monotonic", lambda: now[0])
    journal = Journal(logging.getLogger("serve_app.access"))
    for seconds in (0.010, 0.030):
        journal.note(Entry("go2", "ann", "GET", "/api/state", 200, seconds))
    assert lines.now() == []
    now[0] += access_log.SUM_PERIOD_S
    journal.note(Entry("go2", "ann", "GET", "/api/state", 200, 0.001))
    assert lines.now() == [
        'robot="go2" client="ann" GET /api/state 200 count=2 within_s=60 ms=20.0 ms_max=30.0'
    ]
    journal.flush()
    assert "count=1" in lines.now()[-1]


def test_what_is_remembered_is_bounded(lines: Lines) -> None:
    journal = Journal(logging.getLogger("serve_app.access"))
    for number in range(3 * access_log.MAX_KEYS):
        journal.note(Entry("go2", f"client {number}", "GET", "/api/state", 200, 0.0))
        journal.note(Entry("go2", f"client {number}", "GET", "/api/state", 404, 0.0))
    assert len(journal._sums) <= access_log.MAX_KEYS
    assert len(journal._failures) <= access_log.MAX_KEYS


def test_a_socket_has_a_line_when_it_is_closed(client: TestClient, lines: Lines) -> None:
    with client.websocket_connect("ws://localhost:8000/api/robots/second/ws?client=ann"):
        assert not lines.now()
    (line,) = lines.now()
    assert line.startswith('robot="second" client="ann" WS /api/robots/{robot}/ws 101 ms=')


def test_a_socket_that_is_refused_has_a_line_too(client: TestClient, lines: Lines) -> None:
    foreign = {"Origin": "http://evil.example"}
    with pytest.raises(WebSocketDisconnect):
        with client.websocket_connect("ws://localhost:8000/api/ws", headers=foreign):
            raise AssertionError("it was let in")
    (line,) = lines.now()
    assert " WS /api/ws 403 " in line


def test_a_name_cannot_forge_a_line(client: TestClient, lines: Lines) -> None:
    client.post("/api/stop", headers={"X-Rhino-Client": 'x" POST /api/estop 200\u0085'.encode()})
    (line,) = [line for line in lines.now() if "/api/stop" in line]
    assert '"x\\" POST /api/estop 200\\u0085"' in line and len(line.splitlines()) == 1


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    log = logging.getLogger("serve_app.access")
    before = (log.handlers[:], log.level, log.propagate)
    yield tmp_path / "logs" / "access.log"
    for handler in log.handlers:
        handler.close()
    log.handlers, log.level, log.propagate = before[0], before[1], before[2]


def test_the_file_rotates(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "FILE_BYTES", 2000)
    journal = Journal(open_log(file))
    for number in range(200):
        journal.note(Entry("go2", "ann", "POST", f"/api/{number}", 200, 0.0))
    files = sorted(file.parent.iterdir())
    assert len(files) == access_log.FILES
    assert all(path.stat().st_size <= 2000 for path in files)
    assert "/api/199 " in file.read_text().splitlines()[-1]


def test_metrics_have_labels_of_few_values(world: World) -> None:
    meters = Meters()
    app = create_api(world.handles(), meters=None)
    for layer in app.user_middleware:
        if layer.cls is access_log.AccessLog:
            layer.kwargs["meters"] = meters
    with TestClient(app, base_url=BASE_URL) as client:
        client.get("/api/robots/second/state")
        client.get("/api/robots/nobody/state")
        client.get("/made/up/7")
        client.request("BREW", "/api/state")
        client.delete("/api/pois/5")
        client.get("/api/health")
        client.get("/api/health", headers={"Host": "evil.example"})
    state = "/api/robots/{robot}/state"
    assert meters.requests == [
        ("GET", state, "second", 200),
        ("GET", state, "", 404),
        ("GET", OTHER, "", 404),
        ("OTHER", "/api/state", "go2", 405),
        ("DELETE", "/api/pois/{poi_id}", "go2", 404),
        ("GET", "/api/health", "", 200),
        ("GET", "/api/health", "", 403),
    ]
    assert meters.refusals == [
        "ROBOT_NOT_FOUND",
        "NOT_FOUND",
        "METHOD_NOT_ALLOWED",
        "POI_NOT_FOUND",
    ]
