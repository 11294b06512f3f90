"""Places in a running deployment: what was answered stays, whoever is killed."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from tests.deployment import Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]

WRITERS, EACH = 20, 15


def test_twenty_writers_lose_nothing_that_was_answered_when_the_store_is_killed(
    running: Rhino,
) -> None:
    answered: list[str] = []

    def write(writer: int) -> int:
        failed = 0
        with httpx2.Client(timeout=30) as client:
            for number in range(EACH):
                body = {"label": f"{writer} {number}", "x": writer, "y": number}
                answer = client.post(f"{running.api}/api/pois", json=body)
                if answer.status_code == 201:
                    answered.append(answer.json()["id"])
                else:
                    assert answer.status_code in (503, 504), answer.text
                    failed += 1
        return failed

    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write, writer) for writer in range(WRITERS)]
        running.wait_until(lambda: len(answered) >= 40, 60.0, "the writers to be at work", 0.01)
        (store,) = running.family("ray::PoiStore")
        store.kill()
        failed = [done.result() for done in writing]
    running.wait_until(
        lambda: httpx2.get(f"{running.api}/api/pois").is_success, 30.0, "the store to be back"
    )
    stored = [poi["id"] for poi in running.get("/api/pois")]
    assert set(answered) <= set(stored) and len(stored) == len(set(stored))
    assert len(answered) + sum(failed) == WRITERS * EACH


def test_places_go_out_and_come_back_by_the_command_line(running: Rhino, tmp_path: Path) -> None:
    assert running.run("poi", "add", "=1+1 🐶", "0.1", "-0.3").returncode == 0
    before = running.get("/api/pois")
    file = tmp_path / "places.csv"
    assert running.run("poi", "export", str(file)).returncode == 0
    with (
        ThreadPoolExecutor(10) as pool,
        httpx2.Client(base_url=running.api, timeout=30.0) as client,
    ):
        list(pool.map(lambda poi: client.delete(f"/api/pois/{poi['id']}"), before))
    assert running.get("/api/pois") == []
    done = running.run("poi", "import", str(file))
    assert done.returncode == 0 and f"{len(before)} places" in done.stdout, done.stderr
    assert json.dumps(running.get("/api/pois")) == json.dumps(before)
