"""The layers together: what each adds, what is published, and what comes back from a checkpoint."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.errors import ConfigError, StorageError
from rhino_actors.mapping import MapLayers
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry, MapLayer, MapSnapshot
from rhino_actors.messages.map_patch import MapReader, VoxelPatch
from rhino_actors.messages.sensors import LidarFrame, LidarKind

SIZE = 0.1


def layers(kind: MapLayer, **changes: Any) -> MapLayers:
    config = MapperConfig(resolution=SIZE, layers=kind, max_range=5.0, max_cells=1_000_000)
    return MapLayers(dataclasses.replace(config, **changes), RobotConfig())


def voxel_frame(cells: np.ndarray, stamp: float = 1.0) -> LidarFrame:
    points = ((cells + 0.5) * SIZE).astype(np.float32)
    return LidarFrame(1, stamp, points, (0.05, 0.05, 0.4), Pose2D(0.0, 0.0), SIZE, LidarKind.VOXEL)


def floor(x0: int, x1: int, y0: int = -10, y1: int = 10, z: int = 0) -> np.ndarray:
    x, y = np.meshgrid(np.arange(x0, x1), np.arange(y0, y1))
    return np.stack([x.ravel(), y.ravel(), np.full(x.size, z)], 1)


def published(made: MapLayers, seq: int) -> MapSnapshot:
    patch = made.tiles.patch(0, epoch=1, seq=seq, stamp=1.0, known_area=made.known_area)
    return MapReader().take(patch)


def occupancy_at(snapshot: MapSnapshot, x: int, y: int) -> int:
    row, col = snapshot.geometry.first_cell
    return int(snapshot.occupancy[y - row, x - col])


def mapped(kind: MapLayer, *frames: np.ndarray, times: int = 6) -> MapSnapshot:
    made = layers(kind)
    for step in range(times):
        for frame in frames:
            made.integrate(voxel_frame(frame, float(step)))
    assert made.update_tiles(1)
    assert not made.has_changed
    return published(made, 1)


DROP = np.concatenate([floor(-10, 20), floor(20, 30, z=-6)])  # 0.6 m down from x = 20 on
POST = np.concatenate([floor(-10, 20), [[15, 0, z] for z in range(1, 6)]])


@pytest.mark.parametrize(
    ("kind", "sees_drop"),
    [(MapLayer.OCCUPANCY, False), (MapLayer.VOXELS, True), (MapLayer.BOTH, True)],
)
def test_drop_off_is_an_obstacle_where_the_3d_layer_is(kind: MapLayer, sees_drop: bool) -> None:
    snapshot = mapped(kind, DROP)
    brink = [occupancy_at(snapshot, x, 0) for x in range(17, 23)]
    assert (max(brink) >= 65) is sees_drop
    assert occupancy_at(snapshot, 5, 0) in range(20)


@pytest.mark.parametrize("kind", list(MapLayer))
def test_post_is_an_obstacle_in_every_layer(kind: MapLayer) -> None:
    snapshot = mapped(kind, POST)
    assert occupancy_at(snapshot, 15, 0) >= 65
    assert occupancy_at(snapshot, 10, 5) in range(20)
    assert snapshot.known_area == pytest.approx(np.count_nonzero(snapshot.occupancy >= 0) * SIZE**2)


def test_both_layers_call_known_what_either_knows_and_lethal_what_either_does() -> None:
    frames = [POST, DROP]
    flat, deep, both = (mapped(kind, *frames) for kind in MapLayer)
    for row in range(-12, 12):
        for col in range(-12, 32):
            values = [
                occupancy_at(m, col, row)
                if m.geometry.contains(
                    row - m.geometry.first_cell[0], col - m.geometry.first_cell[1]
                )
                else -1
                for m in (flat, deep, both)
            ]
            assert values[2] == max(values[:2])


def test_correction_moves_the_3d_layer_too() -> None:
    made = layers(MapLayer.BOTH)
    for step in range(6):
        made.integrate(voxel_frame(POST, float(step)), Pose2D(10.0, -3.0, 0.0))
    made.update_tiles(1)
    assert occupancy_at(published(made, 1), 115, -30) >= 65
    assert made.voxels is not None
    centres = made.voxels.points()
    assert centres[:, 0].min() == pytest.approx(9.05, abs=0.01)


def test_published_bricks_are_the_voxel_map_at_every_version() -> None:
    made = layers(MapLayer.VOXELS, carving="columns")
    rng = np.random.default_rng(0)
    held: dict[tuple[int, ...], np.ndarray] = {}
    for seq in range(1, 12):
        cells = rng.integers((-20, -20, 0), (20, 20, 8), (60, 3))
        made.integrate(voxel_frame(cells, float(seq)))
        made.update_tiles(seq)
        if seq % 3 == 0:  # a reader that misses some
            patch = made.bricks.patch(seq - 3, epoch=1, seq=seq, stamp=1.0)
            held |= {tuple(p): w for p, w in zip(patch.place.tolist(), patch.words, strict=True)}
        assert made.voxels is not None
        whole = made.bricks.patch(0, epoch=1, seq=seq, stamp=1.0)
        assert sorted_rows(whole.points()) == sorted_rows(made.voxels.points())
        if seq % 3 == 0:
            place, words = np.array(list(held), np.int32), np.stack(list(held.values()))
            mine = VoxelPatch(1, seq, 0, 1.0, SIZE, place, words)
            assert sorted_rows(mine.points()) == sorted_rows(made.voxels.points())


def sorted_rows(points: np.ndarray) -> list[list[float]]:
    return sorted(np.round(points.astype(np.float64), 3).tolist())


@pytest.mark.parametrize("kind", list(MapLayer))
def test_restored_layers_publish_the_same_map(kind: MapLayer) -> None:
    made, back = layers(kind), layers(kind)
    for step in range(6):
        made.integrate(voxel_frame(POST, float(step)))
    made.update_tiles(1)
    back.restore(made.state())
    assert back.has_changed
    back.update_tiles(1)
    before, after = published(made, 1), published(back, 1)
    assert np.array_equal(before.occupancy, after.occupancy)
    assert np.array_equal(before.costmap, after.costmap)


def test_damaged_voxels_leave_both_layers_as_they_were() -> None:
    made = layers(MapLayer.BOTH)
    made.integrate(voxel_frame(POST))
    made.update_tiles(1)
    other = layers(MapLayer.BOTH)
    other.integrate(voxel_frame(DROP))
    state = {**other.state(), "voxels_words": np.zeros(3)}
    before = made.state()
    with pytest.raises(StorageError):
        made.restore(state)
    for name, array in made.state().items():
        if name != "voxels_age":
            assert np.array_equal(array, before[name]), name


def test_unknown_carving_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="line_of_sight"):
        layers(MapLayer.BOTH, carving="by hand")


@pytest.mark.parametrize("kind", [MapLayer.OCCUPANCY, MapLayer.BOTH])
def test_a_reader_that_follows_has_the_same_map_as_a_new_one_after_another_took_its_place(
    kind: MapLayer,
) -> None:
    made, drawn = layers(kind), layers(kind)
    reader, bricks = MapReader(), {}

    def read(since: int, seq: int) -> MapSnapshot:
        voxels = made.bricks.patch(since, epoch=1, seq=seq, stamp=1.0)
        bricks.update(zip(map(tuple, voxels.place.tolist()), map(bytes, voxels.words), strict=True))
        patch = made.tiles.patch(since, epoch=1, seq=seq, stamp=1.0, known_area=made.known_area)
        assert patch.since == since
        return reader.take(patch)

    for step in range(4):
        made.integrate(voxel_frame(POST, float(step)))
    made.update_tiles(1)
    read(0, 1)
    for step in range(4):
        drawn.integrate(voxel_frame(POST + (14, 30, 0), float(step)))
    drawn.settle()
    made.take_over(drawn)
    assert made.has_changed
    assert made.update_tiles(2)
    snapshot, whole = read(1, 2), published(made, 2)
    assert np.array_equal(snapshot.occupancy, whole.occupancy)
    assert np.array_equal(snapshot.costmap, whole.costmap)
    assert occupancy_at(snapshot, 29, 30) >= 65 and occupancy_at(snapshot, 15, 0) == -1
    assert snapshot.known_area == pytest.approx(np.count_nonzero(snapshot.occupancy >= 0) * SIZE**2)
    held = {place for place, words in bricks.items() if any(words)}
    fresh = made.bricks.patch(0, epoch=1, seq=2, stamp=1.0)
    assert held == set(map(tuple, fresh.place.tolist()))
    if made.voxels is not None:
        assert held and len(fresh.points()) == len(made.voxels)
    # And it goes on from there.
    made.integrate(voxel_frame(POST, 9.0))
    assert made.update_tiles(3)
    assert occupancy_at(read(2, 3), 15, 0) >= 0


def test_a_kept_map_comes_with_its_voxels() -> None:
    made = layers(MapLayer.BOTH)
    for step in range(4):
        made.integrate(voxel_frame(POST, float(step)))
    made.update_tiles(1)
    back = layers(MapLayer.BOTH)
    back.load(made.occupancy_grid(), made.geometry, made.voxel_points())
    back.update_tiles(1)
    assert made.voxels is not None and back.voxels is not None
    assert {tuple(p) for p in np.round(back.voxels.points(), 3).tolist()} == {
        tuple(p) for p in np.round(made.voxels.points(), 3).tolist()
    }
    one, other = published(made, 1), published(back, 1)
    assert np.array_equal(one.occupancy >= 65, other.occupancy >= 65)
    plain = layers(MapLayer.OCCUPANCY)
    plain.load(made.occupancy_grid(), made.geometry, made.voxel_points())
    assert plain.voxel_points() is None


def test_a_kept_map_with_more_voxels_than_fit_is_refused() -> None:
    points = ((floor(-40, 40, -40, 40) + 0.5) * SIZE).astype(np.float32)
    grid = np.zeros((32, 32), np.int8)
    made = layers(MapLayer.BOTH, max_voxels=5000)
    with pytest.raises(StorageError, match="max_voxels"):
        made.load(grid, GridGeometry(SIZE, (0.0, 0.0), (32, 32)), points)
