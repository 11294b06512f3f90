from dataclasses import replace

import cv2
import numpy as np
import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient
from numpy.typing import NDArray

from rhino_actors.messages.geometry import Pose2D
from tests.api.world import World, snapshot


def picture(client: TestClient, path: str, flags: int = cv2.IMREAD_UNCHANGED) -> NDArray[np.uint8]:
    answer = client.get(path)
    assert answer.status_code == 200 and answer.headers["content-type"] == "image/png"
    return np.asarray(cv2.imdecode(np.frombuffer(answer.content, np.uint8), flags), dtype=np.uint8)


def test_raw_is_map_servers_picture_with_the_highest_y_on_top(client: TestClient) -> None:
    image = picture(client, "/api/map/raw")
    assert image.shape == (20, 30)
    assert image[20 - 1 - 2, 4] == 0, "the obstacle of row 2, counted from the bottom"
    assert (image[:10] == 205).all(), "the unknown half has the higher y"
    assert (np.delete(image[10:].ravel(), 7 * 30 + 4) == 254).all()


def test_raw_calls_undecided_cells_unknown(client: TestClient, world: World) -> None:
    world.mapper.current.occupancy[0, :5] = [19, 20, 50, 64, 65]
    assert picture(client, "/api/map/raw")[-1, :5].tolist() == [254, 205, 205, 205, 0]


def test_costmap_pixels_are_the_costs(client: TestClient) -> None:
    image = picture(client, "/api/map/costmap")
    assert image[17, 4:7].tolist() == [254, 253, 0]
    assert (image[:10] == 255).all()


def test_info_says_where_the_picture_lies(client: TestClient, world: World) -> None:
    info = client.get("/api/map/info").json()
    assert (info["origin_x"], info["origin_y"], info["resolution"]) == (-1.0, -0.5, 0.1)
    assert (info["width"], info["height"]) == (30, 20)
    assert (info["epoch"], info["seq"]) == (world.mapper.current.epoch, 1)
    assert info["empty"] is False and info["known_area"] == 3.0
    headers = client.get("/api/map").headers
    assert float(headers["X-Map-Origin-X"]) == info["origin_x"]
    assert float(headers["X-Map-Resolution"]) == info["resolution"]
    assert int(headers["X-Map-Height"]) == 20 and headers["X-Map-Empty"] == "false"


def test_before_the_first_scan_there_is_an_all_unknown_picture(
    client: TestClient, world: World
) -> None:
    world.mapper.current = snapshot(0, epoch=world.mapper.current.epoch)
    info = client.get("/api/map/info")
    assert info.status_code == 200
    assert info.json()["empty"] is True and info.json()["seq"] == 0
    assert (picture(client, "/api/map/raw") == 205).all()
    assert (picture(client, "/api/map/costmap") == 255).all()
    assert picture(client, "/api/map").shape == (1, 1, 3)


@pytest.mark.parametrize("path", ["/api/map", "/api/map/raw", "/api/map/costmap"])
def test_a_picture_that_the_client_has_is_not_sent_again(
    client: TestClient, world: World, path: str
) -> None:
    first = client.get(path)
    for held in (first.headers["ETag"], f'"other", W/{first.headers["ETag"]}', "*"):
        again = client.get(path, headers={"If-None-Match": held})
        assert again.status_code == 304 and again.content == b""
    world.mapper.current = snapshot(2, epoch=world.mapper.current.epoch)
    newer = client.get(path, headers={"If-None-Match": first.headers["ETag"]})
    assert newer.status_code == 200 and newer.headers["ETag"] != first.headers["ETag"]


def test_the_pictures_of_one_map_have_tags_of_their_own(client: TestClient) -> None:
    tags = {client.get(f"/api/map{kind}").headers["ETag"] for kind in ("", "/raw", "/costmap")}
    assert len(tags) == 3


def test_a_restarted_mapper_is_not_mistaken_for_the_old_one(
    client: TestClient, world: World
) -> None:
    old = client.get("/api/map/raw").headers["ETag"]
    world.mapper.current = snapshot(1, epoch=world.mapper.current.epoch + 1000)
    assert client.get("/api/map/raw", headers={"If-None-Match": old}).status_code == 200


def test_the_robot_is_drawn_where_it_is(client: TestClient, world: World) -> None:
    world.platform.pose = Pose2D(0.5, 0.0, 0.0)
    image = picture(client, "/api/map")
    row, col = 20 - 1 - 5, 15
    grey = {(254, 254, 254), (205, 205, 205), (0, 0, 0)}
    assert tuple(image[row, col].tolist()) not in grey
    assert tuple(image[row, col - 14].tolist()) in grey
    moved = client.get("/api/map").headers["ETag"]
    world.platform.pose = Pose2D(0.0, 0.0, 0.0)
    assert client.get("/api/map").headers["ETag"] != moved


def test_robot_path_and_goal_are_drawn_in_the_map(client: TestClient, world: World) -> None:
    world.platform.pose = Pose2D(50.5, 40.0, 0.0)
    world.mapper.current = replace(world.mapper.current, map_from_odom=Pose2D(-50.0, -40.0, 0.0))
    image = picture(client, "/api/map")
    assert tuple(image[20 - 1 - 5, 15].tolist()) == (70, 160, 40), "the robot is at (0.5, 0)"
    client.post("/api/navigate", json={"x": -0.5, "y": -0.2})
    goal = picture(client, "/api/map")
    assert (
        goal[20 - 1 - 3 - 3 : 20 - 3 + 3, 5 - 3 : 5 + 4]
        != picture(client, "/api/map/raw")[20 - 1 - 3 - 3 : 20 - 3 + 3, 5 - 3 : 5 + 4, None]
    ).any(), "the goal is at (-0.5, -0.2)"


def test_a_robot_whose_place_is_not_known_is_not_drawn(client: TestClient, world: World) -> None:
    world.platform.pose = Pose2D(0.5, 0.0, 0.0)
    world.mapper.lose()
    raw = picture(client, "/api/map/raw")
    assert (picture(client, "/api/map") == raw[:, :, None]).all()


def test_the_path_is_drawn_while_it_is_followed(client: TestClient, world: World) -> None:
    world.platform.pose = Pose2D(-50.0, -50.0, 0.0)
    bare = picture(client, "/api/map")
    client.post("/api/navigate", json={"x": 0, "y": -0.4})
    drawn = picture(client, "/api/map")
    assert (bare != drawn).any()
    client.post("/api/navigate/cancel")
    assert (picture(client, "/api/map") == bare).all()


def test_the_map_is_shown_while_platform_and_planner_are_dead(
    client: TestClient, world: World
) -> None:
    world.lost["platform"] = world.lost["planner"] = rx.ActorDiedError()
    assert client.get("/api/map").status_code == 200


def test_a_dead_mapper_is_503_until_it_is_back(client: TestClient, world: World) -> None:
    world.lost["mapper"] = rx.ActorDiedError()
    for path in ("/api/map", "/api/map/raw", "/api/map/info"):
        assert client.get(path).status_code == 503
    world.lost.clear()
    assert client.get("/api/map/raw").status_code == 200
