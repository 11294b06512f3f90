"""Streams, videos, drivers and e-stops at once, for ten seconds. Nothing is timed here: benchmarks/api_load.py does."""

import httpx2
import pytest

from benchmarks.api_load import Load, run_load
from tests.deployment import Rhino

pytestmark = pytest.mark.integration


def test_the_api_under_load_fails_no_request_and_leaves_no_stream(running: Rhino) -> None:
    running.post("/api/cmd/StandUp")
    load = Load(seconds=10.0, events=10, films=3, drivers=4, vanish=40, estops=2)
    report = run_load(running, load)
    assert report.server_errors == 0, report.statuses
    assert report.open_during >= load.events + load.films
    assert report.open_after == 0
    assert report.estops >= 2 and report.stop_failed == []
    drivers = {"driver", *(f"rival-{k}" for k in range(load.drivers - 1))}
    assert report.refused_by and set(report.refused_by) <= drivers, "the others are told who drives"
    assert set(report.served_by) == {"control"}, "driving has a server of its own"


def test_driving_and_stopping_have_a_server_of_their_own(running: Rhino) -> None:
    def app(path: str, method: str = "POST") -> str:
        return httpx2.request(method, running.api + path, timeout=20.0).headers["X-Rhino-App"]

    for path in ("/api/stop", "/api/robots/go2/stop", "/api/control/release"):
        assert app(path) == "control"
    assert app("/api/control/health", "GET") == "control"
    assert app("/api/state", "GET") == app("/api/health", "GET") == "rest"
    assert (
        httpx2.post(running.api + "/api/stop", headers={"Origin": "http://a.b"}).status_code == 403
    )
