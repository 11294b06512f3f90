"""Actors that die: the robot stops, they come back with their loops, the next goal works."""

import os
import signal
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.deployment import Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def _kill(rhino: Rhino, title: str) -> None:
    """SIGKILL the first process of an actor."""
    found = rhino.family(f"ray::{title}")
    assert found, f"no process of {title} runs"
    os.kill(found[0].pid, signal.SIGKILL)


def _goal_works(rhino: Rhino) -> bool:
    x, y = rhino.pose()
    for dx, dy in ((0.6, 0.0), (-0.6, 0.0), (0.0, 0.6)):
        answer = httpx2.post(
            f"{rhino.api}/api/navigate", json={"x": x + dx, "y": y + dy}, timeout=20.0
        )
        if answer.is_success:
            return bool(rhino.wait_for_end(answer.json()["goal_id"])["state"] == "arrived")
    return False


def _drive_off(rhino: Rhino) -> int:
    x, y = rhino.pose()
    for dx, dy in ((2.0, 0.0), (-2.0, 0.0), (0.0, 2.0), (0.0, -2.0)):
        answer = httpx2.post(f"{rhino.api}/api/navigate", json={"x": x + dx, "y": y + dy})
        if answer.is_success:
            rhino.wait_until(lambda: rhino.speed() > 0.15, 15.0, "the robot to drive", 0.0)
            return int(answer.json()["goal_id"])
    raise AssertionError("no goal was accepted")


def test_planner_killed_while_following_stops_the_robot_and_comes_back(running: Rhino) -> None:
    _drive_off(running)
    _kill(running, "PlannerActor")
    time.sleep(1.6)  # the path's lease of 1 s, and a moment
    assert running.speed() < 0.05
    running.wait_until(
        lambda: _goal_works(running), 90.0, "a goal after the planner came back", 1.0
    )


def test_mapper_killed_while_following_is_back_with_its_map(running: Rhino) -> None:
    time.sleep(11.0)  # a checkpoint is at most 10 s old
    before = running.get("/api/map/info")
    _kill(running, "MapperActor")

    def restored() -> bool:
        answer = httpx2.get(f"{running.api}/api/map/info", timeout=20.0)
        info = answer.json() if answer.is_success else before
        return bool(info["epoch"] != before["epoch"] and not info["empty"])

    running.wait_until(restored, 60.0, "a map of a new epoch")
    assert running.get("/api/map/info")["known_area"] > 0.9 * before["known_area"]
    assert _goal_works(running)


def test_platform_killed_while_following_comes_back_standing(running: Rhino) -> None:
    _drive_off(running)
    _kill(running, "PlatformActor")
    running.wait_until(lambda: _answers(running), 60.0, "the platform")
    assert running.speed() < 0.05
    assert running.get("/api/health")["status"] == "ok"
    running.wait_until(
        lambda: _goal_works(running), 90.0, "a goal after the platform came back", 1.0
    )


def test_explorer_killed_ends_its_mission_as_interrupted(running: Rhino) -> None:
    running.post("/api/explore/start")
    _kill(running, "ExplorerActor")

    def ended() -> bool:
        mission = running.get("/api/state")["mission"]
        return bool(mission and mission["state"] == "interrupted")

    running.wait_until(ended, 60.0, "the mission to be interrupted", 0.5)
    assert running.speed() < 0.05 or running.wait_until(
        lambda: running.speed() < 0.05, 30.0, "the robot to stand"
    )


def _answers(running: Rhino) -> bool:
    """The API and the platform are there: the state has a pose."""
    try:
        answer = httpx2.get(f"{running.api}/api/state", timeout=20.0)
    except httpx2.TransportError:
        return False
    return bool(answer.is_success and answer.json()["pose"])


@pytest.fixture(autouse=True)
def _standing(running: Rhino) -> Iterator[None]:
    """Each test begins with a robot that stands, a stick that is let go, and a platform that answers."""
    running.wait_until(lambda: _answers(running), 60.0, "the platform")
    running.post("/api/stop")
    httpx2.post(
        f"{running.api}/api/velocity", json={"vx": 0.0, "vy": 0.0, "omega": 0.0}, timeout=20.0
    )
    yield


def test_robot_stops_when_the_api_is_gone_and_can_be_stopped_without_it(running: Rhino) -> None:
    _drive_off(running)
    _kill(running, "ProxyActor")
    done = running.run("stop")
    assert done.returncode == 0, done.stderr
    running.wait_until(lambda: _answers(running), 90.0, "the API to come back", 0.5)
    nav = running.get("/api/navigate/status")
    assert (nav["state"], nav["reason"]) == ("cancelled", "STOPPED")
    assert running.speed() < 0.05


def test_robot_stops_when_the_server_of_driving_hangs(running: Rhino) -> None:
    """Killed, Serve has it back within seconds; that it hangs only `rhino deploy` sees."""
    before = running.get("/api/gate/log")
    (control,) = running.family("ray::ServeReplica:rhino-control")
    running.wait_until(lambda: _goal_works(running), 60.0, "the planner to have a map", 1.0)
    _drive_off(running)
    control.suspend()
    try:

        def stopped() -> bool:
            newer = running.get("/api/gate/log", since=before[-1]["stamp"] if before else 0.0)
            return any(
                line["event"] == "stop" and line["holder"].startswith("deploy") for line in newer
            )

        running.wait_until(stopped, 20.0, "the stop of rhino deploy")
        assert running.speed() < 0.05
    finally:
        control.resume()
    running.wait_until(lambda: _drives(running), 30.0, "the server of driving to answer", 0.5)


def test_server_of_driving_killed_while_it_drives_stops_the_robot(running: Rhino) -> None:
    (control,) = running.family("ray::ServeReplica:rhino-control")
    running.wait_until(lambda: _drives(running), 20.0, "the robot to turn", 0.0)
    control.kill()
    # No velocity comes any more: the gate's dead-man, then the server is there again.
    running.wait_until(
        lambda: not any(running.get("/api/state")["gate"]["applied"].values()), 10.0, "a zero"
    )
    running.wait_until(lambda: _drives(running), 60.0, "the server of driving to be back", 0.5)


def _drives(running: Rhino) -> bool:
    """A velocity was carried out by the server of driving."""
    body = {"vx": 0.0, "vy": 0.0, "omega": 0.4}
    try:
        answer = httpx2.post(f"{running.api}/api/velocity", json=body, timeout=20.0)
    except httpx2.TransportError:
        return False
    return answer.is_success and answer.headers["X-Rhino-App"] == "control"
