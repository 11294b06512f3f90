"""The API of a live Serve against its own description, and what it leaves behind to look at."""

import re

import pytest
import schemathesis

from tests import contract
from tests.deployment import Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_operation_of_a_live_server_answers_as_it_is_described(running: Rhino) -> None:
    schema = schemathesis.openapi.from_url(
        f"{running.api}/openapi.json", config=contract.configuration("go2", max_examples=1)
    )
    requests, failures = contract.failures(
        schema.exclude(path_regex=contract.ENDLESS), is_live=True
    )
    assert not failures, "\n".join(failures)
    assert requests > 800
    # Nothing that was sent ended a part, and the latch that it pressed can be cleared.
    running.post("/api/estop/clear")
    health = running.get("/api/health", deep="true")
    assert {part["state"] for part in health["robots"][0]["parts"].values()} == {"ok"}
    assert "Traceback" not in running.log()


def test_what_was_asked_is_in_the_access_log_and_the_metrics(running: Rhino) -> None:
    running.post("/api/stop", **{"X-Rhino-Client": "ann at the door"})
    running.post("/api/pois", {"label": "door", "x": 0, "y": 0}, **{"X-Rhino-Client": "ann"})
    for log, line in (
        ("control", r'robot="go2" client="ann at the door" POST /api/stop 200 ms='),
        ("access", r'robot="go2" client="ann" POST /api/pois 201 ms='),
    ):
        said = running.run("logs", log, "-n", "20").stdout
        assert re.search(line, said), said
    wanted = re.compile(
        r'^ray_rhino_api_requests_total\{.*route="/api/stop",status="200".*\} [1-9]', re.MULTILINE
    )
    sensors = re.compile(
        r'^ray_rhino_sensor_rate_hertz\{.*robot="go2",sensor="lidar"\} [1-9]', re.MULTILINE
    )

    def exported() -> bool:
        text = running.text("/metrics")
        return bool(wanted.search(text) and sensors.search(text))

    running.wait_until(exported, 60.0, "metrics of the request and of the lidar", period=1.0)
