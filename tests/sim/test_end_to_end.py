"""The whole of rhino on the simulation, as a user meets it: goals, camera, Rerun, the page in a browser, exploring."""

import math
import shutil
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlparse

import cv2
import httpx2
import numpy as np
import pytest
from playwright.sync_api import Page, sync_playwright

from tests.deployment import Rhino

pytestmark = [pytest.mark.sim, pytest.mark.timeout(900)]

GOALS = ((2.0, 1.0), (1.0, 0.0), (0.0, 0.0))


@pytest.fixture
def page() -> Iterator[Page]:
    chromium = shutil.which("chromium")
    assert chromium, "this test needs chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1280, "height": 860})
        browser.close()


def test_it_goes_around_furniture_to_where_it_is_sent(simulated: Rhino) -> None:
    for x, y in GOALS:
        nav = simulated.wait_for_end(simulated.navigate(x, y)["goal_id"], timeout=90.0)
        assert nav["state"] == "arrived", nav
        assert math.dist(simulated.pose(), (x, y)) < 0.25


def test_final_heading_is_reached_when_asked_for(simulated: Rhino) -> None:
    nav = simulated.wait_for_end(simulated.navigate(0.5, 0.0, yaw=1.57)["goal_id"], timeout=90.0)
    assert nav["state"] == "arrived"
    assert simulated.get("/api/state")["pose"]["yaw"] == pytest.approx(1.57, abs=0.25)


def test_every_stream_flows(simulated: Rhino) -> None:
    """Not a measurement: the bounds hold on a machine that does much else besides."""
    time.sleep(4.0)
    state = simulated.get("/api/state")
    for stream, least in (("odometry", 15.0), ("lidar", 2.5), ("control", 8.0), ("map", 0.2)):
        assert state["rates"][stream] > least, state["rates"]
    assert 0.3 < state["status"]["realtime_factor"] < 1.1


def test_a_fault_is_injected_seen_and_cleared(simulated: Rhino) -> None:
    def faults() -> list[str]:
        found: list[str] = simulated.get("/api/state")["status"]["faults"]
        return [fault for fault in found if fault.startswith("Injected: ")]

    assert simulated.get("/api/sim/faults")["faults"] == []
    simulated.post("/api/sim/faults", {"name": "drop_lidar"})
    assert len(faults()) == 1 and "drop_lidar" in faults()[0]
    simulated.wait_until(
        lambda: simulated.get("/api/state")["ages"]["lidar"] > 2.0, 60.0, "the lidar to be missed"
    )
    done = simulated.run("fault", "clear")
    assert done.returncode == 0 and "nothing is wrong" in done.stdout, done.stderr
    assert faults() == []
    simulated.wait_until(
        lambda: simulated.get("/api/state")["ages"]["lidar"] < 1.0, 60.0, "the lidar to be back"
    )
    refused = simulated.run("fault", "add", "fire")
    assert refused.returncode == 1 and "FAULT_INVALID" in refused.stderr


def test_the_body_leans_as_it_is_told_and_levels_when_it_drives(simulated: Rhino) -> None:
    done = simulated.run("cmd", "Pose", "roll=9", "height=-0.05")
    assert done.returncode == 0 and "Pose roll=0.35 height=-0.05: accepted" in done.stdout
    low = simulated.wait_until(
        lambda: (z := simulated.get("/api/state")["z"]) < 0.29 and z, 60.0, "it to lower itself"
    )
    # By the same client: who asked for the pose holds the robot. To a place where it is not: else it need not drive.
    x, y = simulated.pose()
    away = {"x": 0.0, "y": 0.0} if math.hypot(x, y) > 0.4 else {"x": 1.0, "y": 0.0}
    goal = simulated.post("/api/navigate", away, **{"X-Rhino-Client": "cli"})
    nav = simulated.wait_for_end(goal["goal_id"], timeout=90.0)
    assert nav["state"] == "arrived"
    assert simulated.get("/api/state")["z"] > low + 0.02


def test_camera_shows_the_room_or_says_why_not(simulated: Rhino) -> None:
    camera = simulated.get("/api/state")["status"]["camera"]
    answer = httpx2.get(f"{simulated.api}/api/camera/frame", timeout=20.0)
    if camera.startswith("off"):
        assert answer.status_code == 503 and answer.json()["code"] == "NOT_AVAILABLE"
        return
    picture = cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_COLOR)
    size = camera.split()[1].split("@")[0]  # "egl 640x360@15", "raycast 160x90@5 (...)"
    assert picture is not None and f"{picture.shape[1]}x{picture.shape[0]}" == size
    assert picture.std() > 5.0, "a picture of something"


def test_map_is_a_picture_of_the_room(simulated: Rhino) -> None:
    info = simulated.get("/api/map/info")
    answer = httpx2.get(f"{simulated.api}/api/map/raw", timeout=20.0)
    picture = cv2.imdecode(np.frombuffer(answer.content, np.uint8), cv2.IMREAD_GRAYSCALE)
    assert picture.shape == (info["height"], info["width"])
    assert {0, 205, 254} >= set(np.unique(picture).tolist())
    assert (picture == 0).sum() > 200 and (picture == 254).sum() > 4000
    again = httpx2.get(
        f"{simulated.api}/api/map/raw", headers={"If-None-Match": answer.headers["etag"]}
    )
    assert again.status_code in (200, 304)


def test_rerun_listens_on_loopback(simulated: Rhino) -> None:
    address = urlparse(simulated.record()["rerun"].removeprefix("rerun+"))
    assert address.hostname == "127.0.0.1"
    with socket.create_connection(("127.0.0.1", address.port or 0), timeout=5.0):
        pass


def test_page_drives_stops_and_latches(simulated: Rhino, page: Page) -> None:
    simulated.wait_for_end(simulated.navigate(0.0, 0.0)["goal_id"], timeout=90.0)
    page.goto(simulated.api)
    page.get_by_test_id("sim-badge").wait_for(state="visible")
    picture = page.get_by_test_id("map")
    # Not wait_for_function: the page's own content security policy forbids what it does.
    has_image = "e => Boolean(e.querySelector('image').getAttribute('href'))"
    simulated.wait_until(lambda: picture.evaluate(has_image), 30.0, "the map")
    goal = (1.5, 0.5)
    before = simulated.get("/api/navigate/status")["goal_id"]
    # The drawing is in metres, x to the right and y up.
    screen = picture.evaluate("e => { const m = e.getScreenCTM(); return [m.a, m.e, m.f]; }")
    page.mouse.click(screen[0] * goal[0] + screen[1], screen[0] * -goal[1] + screen[2])
    simulated.wait_until(
        lambda: simulated.get("/api/navigate/status")["goal_id"] > before, 10.0, "a goal by click"
    )
    requested = simulated.get("/api/navigate/status")["requested"]
    assert math.dist((requested["x"], requested["y"]), goal) < 0.15

    page.get_by_test_id("stop").click()
    simulated.wait_until(
        lambda: simulated.get("/api/navigate/status")["reason"] == "STOPPED", 5.0, "the stop"
    )
    page.get_by_test_id("estop").click()
    simulated.wait_until(lambda: simulated.get("/api/state")["gate"]["latched"], 5.0, "the latch")
    page.get_by_test_id("estop-banner").wait_for(state="visible")
    page.get_by_test_id("estop-clear").click()
    assert simulated.get("/api/state")["gate"]["latched"], "clearing takes two steps"
    page.get_by_test_id("estop-clear").click()
    simulated.wait_until(
        lambda: not simulated.get("/api/state")["gate"]["latched"], 5.0, "the clearing"
    )
    simulated.post("/api/cmd/RecoveryStand")
    simulated.wait_until(
        lambda: simulated.get("/api/state")["status"]["posture"] == "standing", 20.0, "standing"
    )


def test_exploring_ends_by_itself_and_has_seen_the_apartment(simulated: Rhino) -> None:
    simulated.post("/api/explore/start")

    def ended() -> dict[str, object] | None:
        mission: dict[str, object] = simulated.get("/api/state")["mission"]
        return mission if mission["state"] not in ("running", "paused_by_user") else None

    mission = simulated.wait_until(ended, 600.0, "the exploration to end", 1.0)
    assert mission["state"] == "complete", f"{mission['state']}: {mission['skipped']}"
    # The apartment has 65 to 67 m2 of free floor, 42 to 44 of them where the robot fits.
    assert simulated.get("/api/map/info")["known_area"] > 55.0
