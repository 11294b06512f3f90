"""`rhino deploy go2` against `rhino peer`: the whole system through the robot's own protocol."""

from collections.abc import Iterator

import pytest

from tests.deployment import Rhino, rhino_world
from tests.peer_process import Peer

pytest.importorskip("aiortc")
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Rhino, Peer]]:
    with rhino_world(tmp_path_factory.mktemp("peer")) as world:
        peer = Peer(world, "--firmware", "1.1.15")
        try:
            world.wait_until(peer.is_up, 60.0, "the peer to listen")
            config = world.folder / "go2.yaml"
            config.write_text(
                "driver: go2\nviewer: {enabled: false}\nray: {dashboard: false, object_store_mb: 120}\n"
            )
            world.environment["RHINO_GO2_AES_KEY"] = "00112233445566778899aabbccddeeff"
            world.deploy(str(config), "--robot-ip", peer.host)
            world.wait_for_map()
            yield world, peer
        finally:
            peer.end()


def test_goal_is_reached_through_the_robots_own_protocol(robot: tuple[Rhino, Peer]) -> None:
    world, peer = robot
    answer = world.navigate(1.0, 0.5)
    nav = world.wait_for_end(answer["goal_id"], timeout=90.0)
    assert nav["state"] == "arrived", nav
    x, y, _ = peer.ask("GET", "/stats")["pose"]
    assert abs(x - 1.0) < 0.3 and abs(y - 0.5) < 0.3
    status = world.get("/api/state")["status"]
    assert status["driver"] == "go2" and status["connected"] and status["link"] == "ok"


def test_estop_reaches_the_robot_as_stop_and_damp(robot: tuple[Rhino, Peer]) -> None:
    world, peer = robot
    world.post("/api/estop")
    names = world.wait_until(
        lambda: {c["name"] for c in peer.ask("GET", "/commands")[-20:]} & {"Damp"},
        10.0,
        "Damp to arrive",
    )
    assert names == {"Damp"}
    world.post("/api/estop/clear")


def test_light_volume_and_avoidance_reach_the_robot(robot: tuple[Rhino, Peer]) -> None:
    rhino, peer = robot
    for device, body in (
        ("light", {"brightness": 7}),
        ("volume", {"volume": 3}),
        ("obstacle_avoidance", {"enabled": False}),
    ):
        answer = rhino.post(f"/api/robot/{device}", body)
        assert answer == {"device": device, "accepted": True, "code": 0, "message": ""}
    asked = [command["name"] for command in peer.ask("GET", "/commands")]
    assert {"vui:1005", "vui:1003", "obstacles_avoid:1001"} <= set(asked)


def test_the_key_is_not_in_the_log(robot: tuple[Rhino, Peer]) -> None:
    world, _ = robot
    assert "00112233445566778899aabbccddeeff" not in world.log()


def test_an_actor_that_is_killed_leaves_a_robot_that_stands_and_a_free_peer(
    robot: tuple[Rhino, Peer],
) -> None:
    world, peer = robot
    before = peer.ask("GET", "/stats")["connects"]
    (platform,) = world.family("ray::PlatformActor")
    platform.kill()
    world.wait_until(
        lambda: peer.ask("GET", "/stats")["connects"] > before, 60.0, "the next connection"
    )
    world.wait_until(lambda: peer.ask("GET", "/stats")["connected"], 30.0, "it to be validated")
