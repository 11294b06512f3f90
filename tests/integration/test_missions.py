"""Missions on real actors: limits, the way home, pauses, the log, and a killed explorer."""

import os
import signal
from typing import Any

import cv2
import httpx2
import numpy as np
import pytest

from tests.deployment import ROOT, Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def mission(rhino: Rhino) -> dict[str, Any]:
    found: dict[str, Any] | None = rhino.get("/api/state")["mission"]
    return found or {"state": "unknown", "phase": "", "distance": 0.0, "id": ""}


def record(rhino: Rhino, mission_id: str) -> dict[str, Any] | None:
    answer = httpx2.get(f"{rhino.api}/api/missions/{mission_id}", timeout=20.0)
    return dict(answer.json()) if answer.is_success else None


def test_missions_end_at_their_limits_and_are_read_afterwards(rhino: Rhino) -> None:
    settings = (ROOT / "configs" / "test.yaml").read_text()
    two_rooms = rhino.folder / "two_rooms.yaml"  # one room is seen at once, and nothing is left
    two_rooms.write_text(settings.replace("map: room ", "map: two_rooms "))
    rhino.deploy(str(two_rooms), "--lean")
    rhino.wait_for_map()
    x, y = rhino.pose()

    started = rhino.post("/api/explore/start", {"max_distance": 1.5, "return_home": True})
    assert started["state"] == "running" and started["limits"]["max_distance"] == 1.5
    rhino.wait_until(lambda: mission(rhino)["distance"] > 0.3, 60.0, "the robot to drive")
    paused = rhino.post("/api/explore/pause")
    assert paused["state"] == "paused_by_user"
    assert rhino.speed() < 0.05
    kept = record(rhino, started["id"])
    assert kept is not None and kept["ended_at"] is None
    assert rhino.post("/api/explore/resume")["state"] == "running"
    ended = rhino.wait_until(
        lambda: (now := mission(rhino))["state"] != "running" and now, 120.0, "it to end"
    )
    assert (ended["state"], ended["reason"]) == ("time_limit", "DISTANCE_LIMIT"), ended
    assert ended["home_reached"] is True, ended["message"]
    at_x, at_y = rhino.pose()
    assert np.hypot(at_x - x, at_y - y) < 0.5
    log = rhino.wait_until(
        lambda: (r := record(rhino, started["id"])) and r["has_picture"] and r, 20.0, "the log"
    )
    assert log["state"] == "time_limit" and log["distance"] > 1.5 and log["goals"]
    assert log["goals"][-1]["label"] == "home" and log["goals"][-1]["outcome"] == "arrived"
    png = httpx2.get(f"{rhino.api}/api/missions/{started['id']}/picture", timeout=20.0).content
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None and (image == (222, 110, 30)).all(axis=2).sum() > 50, "the way driven"
    said = rhino.run("missions", started["id"][:8])
    assert said.returncode == 0 and "DISTANCE_LIMIT" in said.stdout, said.stderr

    timed = rhino.post("/api/explore/start", {"max_time": 2.0})
    ended = rhino.wait_until(
        lambda: (now := mission(rhino))["state"] != "running" and now, 60.0, "it to end"
    )
    assert (ended["state"], ended["reason"]) == ("time_limit", "TIME_LIMIT"), ended
    assert ended["home_reached"] is None

    cut_off = rhino.post("/api/explore/start", {})
    rhino.wait_until(lambda: record(rhino, cut_off["id"]), 20.0, "the mission to be written down")
    for process in rhino.family("ray::ExplorerActor"):
        os.kill(process.pid, signal.SIGKILL)
    log = rhino.wait_until(
        lambda: (r := record(rhino, cut_off["id"])) and r["ended_at"] and r, 90.0, "its end"
    )
    assert (log["state"], log["reason"]) == ("interrupted", "PROCESS_ENDED")
    assert [m["id"] for m in rhino.get("/api/missions")] == [
        cut_off["id"],
        timed["id"],
        started["id"],
    ]
