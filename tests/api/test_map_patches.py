"""GET /map/tiles and /map/voxels, read by a client that knows the documented format and nothing else."""

from typing import Any

import cv2
import numpy as np
import pytest
from fastapi.testclient import TestClient

from rhino_actors.mapping.tiles import MapTiles
from rhino_actors.mapping.voxel_tiles import VoxelTiles
from rhino_actors.mapping.voxels import VoxelBricks
from rhino_actors.messages.grid import TILE_CELLS, GridGeometry
from rhino_actors.messages.map_patch import MapPatch, VoxelPatch
from rhino_actors.messages.window import CellWindow
from tests.api.world import FakeMapper, Ref, World
from tests.map_client import MapClient, VoxelClient, read_tiles, read_voxels


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


def test_tiles_say_where_they_lie_in_the_map_and_what_changed(
    client: TestClient, world: World
) -> None:
    epoch = world.mapper.current.epoch
    world.mapper.patch = patch = tile_patch(epoch, 1, 0)
    answer = client.get("/api/map/tiles")
    tiles = read_tiles(answer.content)
    assert answer.headers["X-Map-Version"] == f"{epoch}-1"
    assert (tiles.epoch, tiles.seq, tiles.since) == (epoch, 1, 0)
    assert (tiles.resolution, tiles.origin, tiles.shape) == (0.05, (-3.2, 1.6), (96, 128))
    assert tiles.corners.tolist() == [[0, 0], [64, 96], [32, 64]]
    assert np.array_equal(tiles.occupancy, patch.occupancy)
    assert np.array_equal(tiles.costs, patch.costmap)


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
    voxels = read_voxels(client.get("/api/map/voxels").content)
    assert (voxels.epoch, voxels.seq, voxels.since) == (world.mapper.current.epoch, 1, 0)
    assert voxels.edge == 0.05
    assert np.allclose(voxels.bricks[0, 0, 0], [[0.175, 0.125, 0.225], [0.175, 0.125, 2.375]])
    assert np.allclose(voxels.bricks[-1, 2, 0], [[-0.775, 1.625, -0.775]])


def test_a_map_without_voxels_is_an_empty_patch(client: TestClient, world: World) -> None:
    empty = world.mapper.voxel_patch
    world.mapper.voxel_patch = type(empty)(7, 1, 0, 1.0, 0.05, empty.place[:0], empty.words[:0])
    assert read_voxels(client.get("/api/map/voxels").content).bricks == {}


class GrowingMapper(FakeMapper):
    """A mapper with the mapper's own tiles, whose map changes and grows at random."""

    def __init__(self, epoch: int) -> None:
        super().__init__(epoch)
        self.epoch, self.seq = epoch, 0
        self.rng = np.random.default_rng(epoch)
        self.world = np.full((300, 300), -1, np.int8)  # the middle is the frame's origin
        self.tiles = MapTiles(
            0.05, inscribed_radius=0.3, inflation_radius=0.8, cost_scaling_factor=6.0
        )
        self.bricks = VoxelTiles(0.05)

    def grow(self, reach: int) -> None:
        """Change some cells not farther than `reach` from the middle, and some bricks."""
        self.seq += 1
        row, col = self.rng.integers(-reach, reach - 8, 2)
        changed = CellWindow(row, row + 8, col, col + 8)
        part = np.s_[150 + row : 158 + row, 150 + col : 158 + col]
        self.world[part] = self.rng.choice([-1, 0, 0, 40, 100], (8, 8))
        self.tiles.update(self._read, changed, self.seq)
        place = self.rng.integers(-2, 3, (3, 3)).astype(np.int32)
        words = self.rng.integers(0, 2**63, (3, 256), dtype=np.uint64)
        words[:, self.rng.random(256) < 0.98] = 0
        words[self.rng.random(3) < 0.4] = 0  # what was there is gone
        unique = np.unique(place, axis=0, return_index=True)[1]
        self.bricks.update(VoxelBricks(place[unique], words[unique]), self.seq)

    def _read(self, window: CellWindow) -> np.ndarray:
        return self.world[
            150 + window.row0 : 150 + window.row1, 150 + window.col0 : 150 + window.col1
        ]

    def _since(self, newer_than: tuple[int, int]) -> int:
        epoch, seq = newer_than
        return seq if epoch == self.epoch and 0 <= seq < self.seq else 0

    async def snapshot(self, newer_than: tuple[int, int] = (0, 0), wait: float = 0.0) -> Any:
        version = (self.epoch, self.seq)
        if newer_than == version:
            return version, None
        return version, [Ref(self.whole(self._since(newer_than)))]

    async def voxels(self, newer_than: tuple[int, int] = (0, 0), wait: float = 0.0) -> Any:
        version = (self.epoch, self.seq)
        if newer_than == version:
            return version, None
        return version, [Ref(self.cubes(self._since(newer_than)))]

    def whole(self, since: int = 0) -> MapPatch:
        return self.tiles.patch(
            since, epoch=self.epoch, seq=self.seq, stamp=1.0, known_area=self.tiles.known_area
        )

    def cubes(self, since: int = 0) -> VoxelPatch:
        return self.bricks.patch(since, epoch=self.epoch, seq=self.seq, stamp=1.0)


def shown(client: TestClient, picture: str) -> np.ndarray:
    """A picture of the map with its first row at the lowest y, as grids have it."""
    body = client.get(f"/api/map/{picture}").content
    return np.flipud(cv2.imdecode(np.frombuffer(body, np.uint8), cv2.IMREAD_UNCHANGED))


def places(points: np.ndarray) -> set[tuple[int, int, int]]:
    """Voxels by their indices."""
    return set(map(tuple, np.floor(points / 0.05).astype(int).tolist()))


def greys(occupancy: np.ndarray) -> np.ndarray:
    grey = np.full(occupancy.shape, 205, np.uint8)
    grey[(occupancy >= 0) & (occupancy < 20)] = 254
    grey[occupancy >= 65] = 0
    return grey


@pytest.mark.slow
def test_a_client_of_tiles_has_the_map_of_the_pictures(client: TestClient, world: World) -> None:
    """Through growth in all directions, versions that were missed, and a restart of the mapper."""
    world.mapper = mapper = GrowingMapper(world.mapper.current.epoch)
    map_client, voxel_client = MapClient(), VoxelClient()
    version: dict[str, str] = {}
    partial = 0
    for step in range(40):
        for _ in range(int(mapper.rng.integers(1, 4))):  # some versions are never asked for
            mapper.grow(reach=min(10 + 3 * step, 100))
        if step == 25:
            world.mapper = mapper = GrowingMapper(mapper.epoch + 1)
            mapper.grow(reach=20)
        for part in ("tiles", "voxels"):
            answer = client.get(f"/api/map/{part}", params={"since": version.get(part, "")})
            assert answer.status_code == 200
            version[part] = answer.headers["X-Map-Version"]
            if part == "tiles":
                tiles = read_tiles(answer.content)
                partial += tiles.since > 0
                map_client.take(tiles)
            else:
                voxel_client.take(read_voxels(answer.content))
        assert np.array_equal(greys(map_client.occupancy), shown(client, "raw"))
        assert np.array_equal(map_client.costs, shown(client, "costmap"))
        info = client.get("/api/map/info").json()
        assert map_client.origin == (info["origin_x"], info["origin_y"])
        assert places(voxel_client.points()) == places(mapper.cubes().points())
    assert partial == 38, "all but the first and the one after the restart were changes only"
    assert client.get("/api/map/tiles", params={"since": version["tiles"]}).status_code == 204
