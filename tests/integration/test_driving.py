"""A whole deployment with the fake robot: goals, velocities, stops, and what a bad client sends."""

import json
import os
import signal
import subprocess
import sys
import time

import httpx2
import pytest

from tests.deployment import Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]


def test_goal_is_reached_and_reported(running: Rhino) -> None:
    x, y = running.pose()
    answer = running.navigate(x + 1.0, y + 0.5)
    nav = running.wait_for_end(answer["goal_id"])
    assert nav["state"] == "arrived"
    at = running.pose()
    assert abs(at[0] - x - 1.0) < 0.25 and abs(at[1] - y - 0.5) < 0.25


def test_goals_in_rapid_sequence_follow_only_the_last(running: Rhino) -> None:
    x, y = running.pose()
    last = 0
    for k in range(20):
        running.navigate(x + 0.8, y)
        httpx2.post(f"{running.api}/api/navigate/cancel", json={})
        last = running.navigate(x - 0.5 if k % 2 else x - 0.4, y)["goal_id"]
    nav = running.wait_for_end(last)
    assert nav["state"] == "arrived" and nav["goal_id"] == last
    assert abs(running.pose()[0] - (x - 0.5)) < 0.3


def test_goal_without_curls_content_type_is_understood(running: Rhino) -> None:
    x, y = running.pose()
    body = json.dumps({"x": x + 0.5, "y": y})
    done = subprocess.run(
        ["curl", "-sS", "-X", "POST", f"{running.api}/api/navigate", "-d", body],
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert running.wait_for_end(json.loads(done.stdout)["goal_id"])["state"] == "arrived"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"x": NaN, "y": 0}', "INVALID_REQUEST"),
        ('{"x": 1e999, "y": 0}', "INVALID_REQUEST"),
        ('{"x": "1", "y": 0}', "INVALID_REQUEST"),
        ('{"x": null, "y": 0}', "INVALID_REQUEST"),
        ('{"y": 0}', "INVALID_REQUEST"),
        ('{"x": 1e9, "y": 0}', "INVALID_REQUEST"),
        ('{"x": 900, "y": 0}', "GOAL_OUTSIDE_MAP"),
        ("[1, 2]", "INVALID_REQUEST"),
        ("not json", "INVALID_REQUEST"),
    ],
)
def test_bad_goal_is_refused_with_its_code_and_moves_nothing(
    running: Rhino, body: str, code: str
) -> None:
    before = running.pose()
    answer = httpx2.post(
        f"{running.api}/api/navigate", content=body, headers={"content-type": "application/json"}
    )
    assert 400 <= answer.status_code < 500
    assert answer.json()["code"] == code and answer.json()["hint"]
    time.sleep(0.4)
    assert running.pose() == pytest.approx(before, abs=0.02)


def test_goal_in_a_wall_while_driving_stops_the_robot(running: Rhino) -> None:
    x, y = _drive_off(running)
    answer = httpx2.post(
        f"{running.api}/api/navigate", json={"x": x + 300.0, "y": y, "strict": True}
    )
    assert answer.status_code >= 400
    time.sleep(0.3)
    assert running.speed() < 0.05


def test_stop_from_anyone_ends_motion_and_goal(running: Rhino) -> None:
    _drive_off(running)
    running.post("/api/stop", **{"X-Rhino-Client": "a bystander"})
    time.sleep(0.3)
    assert running.speed() < 0.05
    nav = running.get("/api/navigate/status")
    assert (nav["state"], nav["reason"]) == ("cancelled", "STOPPED")


def test_client_that_is_killed_while_driving_leaves_a_standing_robot(running: Rhino) -> None:
    script = (
        "import httpx2, time\n"
        "with httpx2.Client() as client:\n"
        "    while True:\n"
        f"        client.post('{running.api}/api/velocity',"
        " json={'vx': 0.0, 'vy': 0.0, 'omega': 0.6})\n"
        "        time.sleep(0.05)\n"
    )
    client = subprocess.Popen([sys.executable, "-c", script])
    try:
        running.wait_until(
            lambda: running.get("/api/state")["gate"]["applied"]["omega"] > 0.5, 15.0, "turning"
        )
    finally:
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
    time.sleep(0.3 + 0.15)
    gate = running.get("/api/state")["gate"]
    assert gate["applied"] == {"vx": 0.0, "vy": 0.0, "omega": 0.0}
    assert gate["reason"] == "DEAD_MAN"


def test_estop_latches_over_a_restart_and_clearing_moves_nothing(rhino: Rhino) -> None:
    rhino.deploy("test", "--lean")
    rhino.wait_for_map()
    poi = rhino.post("/api/pois", {"label": "kitchen 🐶"})
    assert rhino.run("estop").returncode == 0
    refused = httpx2.post(f"{rhino.api}/api/navigate", json={"x": 0.5, "y": 0.0})
    assert refused.status_code == 409 and refused.json()["code"] == "ESTOP_LATCHED"
    assert rhino.run("down", timeout=120.0).returncode == 0

    rhino.deploy("test", "--lean")
    assert rhino.get("/api/state")["gate"]["latched"]
    assert [p["id"] for p in rhino.get("/api/pois")] == [poi["id"]]
    assert rhino.run("estop", "--clear").returncode == 0
    rhino.wait_for_map()
    assert rhino.speed() < 0.02
    assert rhino.run("cmd", "StandUp").returncode == 0
    rhino.wait_until(
        lambda: rhino.get("/api/state")["status"]["posture"] == "standing", 20.0, "standing"
    )
    goal = rhino.run("goto", *(str(v + 0.6) for v in rhino.pose()), "--wait")
    assert goal.returncode == 0, goal.stdout + goal.stderr


def _drive_off(running: Rhino) -> tuple[float, float]:
    """Send the robot off to the far side and return where it was when it was under way."""
    x, y = running.pose()
    for dx, dy in ((2.0, 0.0), (-2.0, 0.0), (0.0, 2.0), (0.0, -2.0)):
        answer = httpx2.post(f"{running.api}/api/navigate", json={"x": x + dx, "y": y + dy})
        if answer.is_success:
            break
    running.wait_until(lambda: running.speed() > 0.15, 15.0, "the robot to drive", 0.0)
    return running.pose()
