"""A map outlives its deployment: saved, everything ended, deployed again, loaded, and the same."""

import io
import zipfile
from typing import Any

import cv2
import httpx2
import numpy as np
import pytest

from tests.deployment import Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


def picture(png: bytes) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_UNCHANGED)


def succeeds(rhino: Rhino, *words: str) -> str:
    done = rhino.run(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def drive(rhino: Rhino, x: float, y: float) -> int:
    """Send the robot off and return the goal; the planner may get its first map after the API has it."""

    def accepted() -> httpx2.Response | None:
        body = {"x": x, "y": y}
        answer = httpx2.post(f"{rhino.api}/api/navigate", json=body, timeout=20.0)
        return answer if answer.is_success else None

    return int(rhino.wait_until(accepted, 30.0, "a goal to be accepted", 0.3).json()["goal_id"])


def go(rhino: Rhino, poi_id: str) -> httpx2.Response:
    return httpx2.post(f"{rhino.api}/api/pois/{poi_id}/navigate", json={}, timeout=20.0)


def wait_until_localised(rhino: Rhino) -> dict[str, Any]:
    """Turn the robot on the spot until it knows its place, and return where odom lies in the map."""

    def knows() -> dict[str, Any] | None:
        info: dict[str, Any] = rhino.get("/api/map/info")
        if info["localised"]:
            return info
        rhino.post("/api/velocity", {"vx": 0.0, "vy": 0.0, "omega": 0.6})
        return None

    info = rhino.wait_until(knows, 90.0, "the robot to know its place", 0.1)
    rhino.post("/api/stop")
    assert rhino.get("/api/state")["localisation"]["state"] == "localised"
    return dict(info["map_from_odom"])


def refused(rhino: Rhino, x: float, y: float) -> dict[str, Any] | None:
    """Ask for a goal and return the refusal; the planner may hear of a new map after the API."""
    answer = httpx2.post(f"{rhino.api}/api/navigate", json={"x": x, "y": y}, timeout=20.0)
    return dict(answer.json()) if answer.status_code == 409 else None


# The fake robot starts at the same place in each deployment, and its odometry does not drift.
IDENTITY = pytest.approx({"x": 0.0, "y": 0.0, "yaw": 0.0}, abs=0.08)


def test_a_saved_map_is_loaded_by_the_next_deployment(rhino: Rhino) -> None:
    rhino.deploy("test", "--lean")
    rhino.wait_for_map()
    x, y = rhino.pose()
    poi = rhino.post("/api/pois", {"label": "door", "x": x + 0.5, "y": y})
    assert rhino.wait_for_end(drive(rhino, x + 1.0, y + 0.5))["state"] == "arrived"
    succeeds(rhino, "map", "save", "office 🐶")
    (saved,) = rhino.get("/api/maps")
    assert saved["name"] == "office 🐶" and saved["in_force"] and saved["known_area"] > 1.0
    assert [p["map_id"] for p in rhino.get("/api/pois")] == [saved["id"]]
    before = rhino.folder / "before.zip"
    succeeds(rhino, "map", "export", "office 🐶", str(before))
    assert rhino.run("down", timeout=120.0).returncode == 0

    rhino.deploy("test", "--lean")
    rhino.wait_for_map()
    assert rhino.get("/api/maps") == [{**saved, "in_force": False}]
    answer = go(rhino, poi["id"])
    assert answer.status_code == 409 and answer.json()["code"] == "MAP_NOT_LOADED"

    epoch = rhino.get("/api/map/info")["epoch"]
    x, y = rhino.pose()
    drive(rhino, x + 2.0, y)
    rhino.wait_until(lambda: rhino.speed() > 0.15, 15.0, "the robot to drive", 0.0)
    x, y = rhino.pose()
    yaw = rhino.get("/api/state")["pose"]["yaw"]
    # Not as a command: that takes seconds to start, and the robot would arrive first.
    rough = {"x": x + 0.5, "y": y - 0.3, "yaw": yaw + 0.2}
    rhino.post(f"/api/maps/{saved['id']}/load", rough)
    state = rhino.get("/api/state")
    assert state["localisation"]["state"] == "searching" and state["pose"] is None
    info = rhino.get("/api/map/info")
    now = picture(httpx2.get(f"{rhino.api}/api/map/raw", timeout=20.0).content)
    assert rhino.speed() < 0.05
    nav = rhino.get("/api/navigate/status")
    assert (nav["state"], nav["reason"]) == ("cancelled", "STOPPED")
    assert info["epoch"] > epoch

    with zipfile.ZipFile(before) as archive:
        kept = picture(archive.read("map.pgm"))
    # The running map has unknown rims that are not kept.
    col = round((saved["origin_x"] - info["origin_x"]) / saved["resolution"])
    top = info["origin_y"] + info["height"] * info["resolution"]
    row = round((top - saved["origin_y"]) / saved["resolution"]) - saved["height"]
    now = now[row : row + saved["height"], col : col + saved["width"]]
    known = kept != 205
    assert known.sum() * saved["resolution"] ** 2 == pytest.approx(saved["known_area"], rel=0.05)
    assert (now[known] != kept[known]).mean() < 0.005
    after = rhino.folder / "after.zip"
    succeeds(rhino, "map", "export", "office 🐶", str(after))
    assert after.read_bytes() == before.read_bytes()

    assert wait_until_localised(rhino) == IDENTITY
    rhino.wait_until(lambda: go(rhino, poi["id"]).is_success, 20.0, "the place to be driven to")
    succeeds(rhino, "stop")
    pose = rhino.get("/api/state")["pose"]
    at = [str(pose["x"] - 0.4), str(pose["y"] + 0.4), str(pose["yaw"] - 0.2)]
    assert "loaded office" in succeeds(rhino, "map", "load", "office 🐶", "--at", *at)
    assert wait_until_localised(rhino) == IDENTITY


def test_what_another_program_made_is_imported_and_bad_files_are_not(running: Rhino) -> None:
    text = (
        "image: hall.pgm\nmode: trinary\nresolution: 0.1\norigin: [-2.0, -2.0, 0]\n"
        "negate: 0\noccupied_thresh: 0.65\nfree_thresh: 0.25\n"
    )
    pixels = np.full((40, 60), 254, np.uint8)
    pixels[0] = 0
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("hall.yaml", text)
        archive.writestr("hall.pgm", b"P5\n60 40\n255\n" + pixels.tobytes())
    url = f"{running.api}/api/maps/import"
    answer = httpx2.post(url, params={"name": "hall"}, content=buffer.getvalue(), timeout=20.0)
    assert answer.status_code == 201, answer.text
    bad = httpx2.post(url, params={"name": "bad"}, content=buffer.getvalue()[:-9], timeout=20.0)
    assert bad.status_code == 422 and bad.json()["code"] == "MAP_FILE_INVALID"

    loaded = running.post(f"/api/maps/{answer.json()['id']}/load", {"x": 0.0, "y": 0.0})
    # It is not the place where the robot is: it must not be sent about on it, nor draw what it sees into it.
    refusal = running.wait_until(lambda: refused(running, 1.0, 0.0), 20.0, "a goal to be refused")
    assert refusal["code"] == "NOT_LOCALISED"
    assert running.get("/api/state")["pose"] is None
    info = running.get("/api/map/info")
    assert info["epoch"] == loaded["epoch"] and info["resolution"] == 0.05
    image = picture(httpx2.get(f"{running.api}/api/map/raw", timeout=20.0).content)
    # The wall along the hall's far side, 2 m ahead of where the robot was said to stand.
    row = info["height"] - 1 - int((1.95 - info["origin_y"]) / 0.05)
    col = int((-1.5 - info["origin_x"]) / 0.05)
    assert image[row, col] == 0
    assert len(running.get("/api/maps")) == 1
