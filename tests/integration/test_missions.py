"""Missions on real actors: limits, the way home, pauses, patrols, the log, and a killed explorer."""

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


def deploy_two_rooms(rhino: Rhino) -> None:
    settings = (ROOT / "configs" / "test.yaml").read_text()
    two_rooms = rhino.folder / "two_rooms.yaml"  # one room is seen at once, and nothing is left
    two_rooms.write_text(settings.replace("map: room ", "map: two_rooms "))
    rhino.deploy(str(two_rooms), "--lean")
    rhino.wait_for_map()


def end_of(rhino: Rhino, timeout: float) -> dict[str, Any]:
    """Return the mission's status once it runs no more."""
    ended: dict[str, Any] = rhino.wait_until(
        lambda: (now := mission(rhino))["state"] != "running" and now, timeout, "it to end"
    )
    return ended


def finished_record(rhino: Rhino, mission_id: str) -> dict[str, Any]:
    log: dict[str, Any] = rhino.wait_until(
        lambda: (r := record(rhino, mission_id)) and r["has_picture"] and r, 20.0, "the log"
    )
    return log


def way_drawn(rhino: Rhino, mission_id: str) -> int:
    """Return how many pixels of a mission's picture have the colour of the way driven."""
    png = httpx2.get(f"{rhino.api}/api/missions/{mission_id}/picture", timeout=20.0).content
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return int((image == (222, 110, 30)).all(axis=2).sum())


def test_missions_end_at_their_limits_and_are_read_afterwards(rhino: Rhino) -> None:
    deploy_two_rooms(rhino)
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
    ended = end_of(rhino, 120.0)
    assert (ended["state"], ended["reason"]) == ("time_limit", "DISTANCE_LIMIT"), ended
    assert ended["home_reached"] is True, ended["message"]
    at_x, at_y = rhino.pose()
    assert np.hypot(at_x - x, at_y - y) < 0.5
    log = finished_record(rhino, started["id"])
    assert log["state"] == "time_limit" and log["distance"] > 1.5 and log["goals"]
    assert log["goals"][-1]["label"] == "home" and log["goals"][-1]["outcome"] == "arrived"
    assert way_drawn(rhino, started["id"]) > 50
    said = rhino.run("missions", started["id"][:8])
    assert said.returncode == 0 and "DISTANCE_LIMIT" in said.stdout, said.stderr

    timed = rhino.post("/api/explore/start", {"max_time": 2.0})
    ended = end_of(rhino, 60.0)
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


def test_patrols_go_along_points_and_over_the_floor(rhino: Rhino) -> None:
    deploy_two_rooms(rhino)
    door, desk = (
        rhino.post("/api/pois", {"label": label, "x": x, "y": y})["id"]
        for label, x, y in (("door", 1.5, 0.5), ("desk", -0.5, -1.0))
    )

    body = {"router": "points", "points": [door, "00000000-0000-4000-8000-000000000000"]}
    refused = httpx2.post(f"{rhino.api}/api/patrol/start", json=body, timeout=20.0)
    assert (refused.status_code, refused.json()["code"]) == (404, "POI_NOT_FOUND"), refused.text

    behind_the_wall = {"x": 4.0, "y": 2.2, "label": "shelf"}
    body = {"router": "points", "points": [door, behind_the_wall, desk, desk], "loops": 1}
    started = rhino.post("/api/patrol/start", body)
    assert started["state"] == "running" and started["kind"] == "patrol"
    ended = end_of(rhino, 120.0)
    assert (ended["state"], ended["reason"]) == ("complete", "ALL_VISITED"), ended
    reasons = {left["label"]: left["reason"] for left in ended["skipped"]}
    assert reasons.keys() == {"shelf", "desk"} and reasons["desk"] == "DUPLICATE"
    assert reasons["shelf"] in ("GOAL_UNKNOWN", "GOAL_OUTSIDE_MAP")
    at_x, at_y = rhino.pose()
    assert np.hypot(at_x + 0.5, at_y + 1.0) < 0.5
    log = finished_record(rhino, started["id"])
    assert [(g["label"], g["outcome"]) for g in log["goals"]] == [
        ("door", "arrived"),
        ("desk", "arrived"),
    ]
    assert {left["label"]: left["reason"] for left in log["skipped"]} == reasons

    nowhere = {"area": [[50, 50], [52, 50], [52, 52]]}
    refused = httpx2.post(f"{rhino.api}/api/patrol/start", json=nowhere, timeout=20.0)
    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_REQUEST"), refused.text

    started = rhino.post("/api/patrol/start", {"router": "coverage"})

    def under_way() -> dict[str, Any] | None:
        """The mission, once it has driven and its progress was counted again since it began."""
        now = mission(rhino)
        idle = now["patrol"]["worst_idleness"] if now["patrol"] else 0.0
        return now if now["distance"] > 1.0 and idle > 0.0 else None

    seen = rhino.wait_until(under_way, 60.0, "the robot to drive")
    assert seen["patrol"]["router"] == "coverage" and seen["patrol"]["safe_area"] > 5.0
    assert 0.0 < seen["patrol"]["share_visited"] < 1.0
    assert rhino.post("/api/patrol/pause")["state"] == "paused_by_user"
    assert rhino.speed() < 0.05
    assert rhino.post("/api/patrol/resume")["state"] == "running"
    paused_at = mission(rhino)["distance"]
    rhino.wait_until(
        lambda: mission(rhino)["distance"] > paused_at + 0.5, 60.0, "the robot to go on"
    )
    stopped = rhino.post("/api/patrol/stop")
    assert (stopped["state"], stopped["reason"]) == ("cancelled", "CANCELLED")
    assert rhino.speed() < 0.05
    log = finished_record(rhino, started["id"])
    assert log["state"] == "cancelled" and log["patrol"]["share_visited"] > 0.0 and log["goals"]
    assert way_drawn(rhino, started["id"]) > 50
    listed = rhino.run("missions")
    assert listed.returncode == 0 and listed.stdout.count("patrol") == 2, listed.stdout
