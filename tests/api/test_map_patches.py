"""GET /map/tiles and /map/voxels, read by a client that knows the documented format and nothing else."""

import struct

import numpy as np
import pytest
from fastapi.testclient import TestClient

from rhino_actors.messages.grid import TILE_CELLS, GridGeometry
from rhino_actors.messages.map_patch import MapPatch
from tests.api.world import World


def tile_patch(epoch: int, seq: int, since: int, count: int = 3) -> MapPatch:
    rng = np.random.default_rng(seq)
    shape = (count, TILE_CELLS, TILE_CELLS)
    return MapPatch(
        epoch=epoch,
        seq=seq,
        since=since,
        stamp=1.0,
        geometry=GridGeometry(0.05, (-3.2, 1.6), (96, 128)),
        tiles=np.array([[1, -2], [3, 1], [2, 0]], np.int32)[:count],
        occupancy=rng.integers(-1, 101, shape).astype(np.int8),
        costmap=rng.integers(0, 256, shape).astype(np.uint8),
        known_area=3.0,
    )


def read_tiles(content: bytes) -> tuple[dict[str, float], np.ndarray, np.ndarray, np.ndarray]:
    names = "size epoch seq since resolution x y rows cols side count".split()
    magic, *values = struct.unpack_from("<4sIQIIdddIIII", content)
    assert magic == b"RMT1"
    head = dict(zip(names, values, strict=True))
    count, side, at = head["count"], head["side"], head["size"]
    corners = np.frombuffer(content, "<i4", 2 * count, at).reshape(count, 2)
    cells = count * side * side
    occupancy = np.frombuffer(content, "i1", cells, at + 8 * count).reshape(count, side, side)
    costs = np.frombuffer(content, "u1", cells, at + 8 * count + cells)
    assert len(content) == at + 8 * count + 2 * cells
    return head, corners, occupancy, costs.reshape(count, side, side)


def test_tiles_say_where_they_lie_in_the_map_and_what_changed(
    client: TestClient, world: World
) -> None:
    epoch = world.mapper.current.epoch
    world.mapper.patch = patch = tile_patch(epoch, 1, 0)
    answer = client.get("/api/map/tiles")
    head, corners, occupancy, costs = read_tiles(answer.content)
    assert answer.headers["X-Map-Version"] == f"{epoch}-1"
    assert (head["epoch"], head["seq"], head["since"]) == (epoch, 1, 0)
    assert (head["resolution"], head["x"], head["y"]) == (0.05, -3.2, 1.6)
    assert (head["rows"], head["cols"], head["side"]) == (96, 128, TILE_CELLS)
    assert corners.tolist() == [[0, 0], [64, 96], [32, 64]]
    assert np.array_equal(occupancy, patch.occupancy) and np.array_equal(costs, patch.costmap)


@pytest.mark.parametrize("part", ["tiles", "voxels"])
def test_a_client_that_has_the_newest_version_gets_nothing(
    client: TestClient, world: World, part: str
) -> None:
    world.mapper.patch = tile_patch(world.mapper.current.epoch, 1, 0)
    version = client.get(f"/api/map/{part}").headers["X-Map-Version"]
    again = client.get(f"/api/map/{part}", params={"since": version})
    assert again.status_code == 204 and again.content == b""
    assert again.headers["X-Map-Version"] == version
    assert client.get(f"/api/map/{part}", params={"since": "6-1"}).status_code == 200


@pytest.mark.parametrize("since", ["7", "-", "7-", "a-b", "7-1-2", "7--1", "9" * 40 + "-1", "٣-١"])
@pytest.mark.parametrize("part", ["tiles", "voxels"])
def test_a_version_that_is_none_is_refused(client: TestClient, part: str, since: str) -> None:
    assert client.get(f"/api/map/{part}", params={"since": since}).status_code == 422


def test_voxels_come_as_bricks_of_two_bytes_each(client: TestClient, world: World) -> None:
    content = client.get("/api/map/voxels").content
    magic, size, epoch, seq, since, edge, bricks, voxels = struct.unpack_from("<4sIQIIdII", content)
    assert (magic, epoch, seq, since, edge, bricks, voxels) == (
        b"RMV1",
        world.mapper.current.epoch,
        1,
        0,
        0.05,
        2,
        3,
    )
    place = np.frombuffer(content, "<i4", 3 * bricks, size).reshape(bricks, 3)
    counts = np.frombuffer(content, "<u4", bricks, size + 12 * bricks)
    cells = np.frombuffer(content, "<u2", voxels, size + 16 * bricks)
    assert len(content) == size + 16 * bricks + 2 * voxels
    assert counts.tolist() == [2, 1]
    corner = np.repeat(place * (16, 16, 64) - (0, 0, 16), counts, axis=0)
    inside = np.stack([cells % 16, cells // 16 % 16, cells // 256], axis=1)
    centres = (corner + inside + 0.5) * edge
    assert np.allclose(
        centres, [[0.175, 0.125, 0.225], [0.175, 0.125, 2.375], [-0.775, 1.625, -0.775]]
    )
    assert np.allclose(np.sort(centres, 0), np.sort(world.mapper.voxel_patch.points(), 0))


def test_a_map_without_voxels_is_an_empty_patch(client: TestClient, world: World) -> None:
    empty = world.mapper.voxel_patch
    world.mapper.voxel_patch = type(empty)(7, 1, 0, 1.0, 0.05, empty.place[:0], empty.words[:0])
    content = client.get("/api/map/voxels").content
    assert struct.unpack_from("<4sIQIIdII", content)[6:] == (0, 0)
