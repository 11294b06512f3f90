"""Published tiles and the reader: together they are the whole map at every version, at the cost of the change."""

import copy

import numpy as np
import pytest

from rhino_actors.mapping import CellWindow, MapTiles, inflate
from rhino_actors.messages.grid import TILE_CELLS, MapSnapshot
from rhino_actors.messages.map_patch import NO_MAP, MapPatch, MapReader

PARAMETERS = {"inscribed_radius": 0.3, "inflation_radius": 0.8, "cost_scaling_factor": 4.0}
RESOLUTION = 0.1
SIZE = 400  # of the world in cells, from -SIZE/2


class World:
    """An occupancy grid that changes here and there, and the tiles that follow it."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.cells = np.full((SIZE, SIZE), -1, np.int8)
        self.tiles = MapTiles(RESOLUTION, **PARAMETERS)
        self.seq = 0

    def read(self, window: CellWindow) -> np.ndarray:
        found = np.full(window.shape, -1, np.int8)
        whole = CellWindow(0, SIZE, 0, SIZE)
        there = window.moved(SIZE // 2, SIZE // 2)
        inside = there.clipped(whole)
        found[inside.moved(-there.row0, -there.col0).slices] = self.cells[inside.slices]
        return found

    def change(self, reach: int | None = None) -> int:
        """Draw a box somewhere, in the middle at first, and return how many tiles differ."""
        reach = reach or min(SIZE // 2 - 30, 20 + 8 * self.seq)
        row, col = (int(v) for v in self.rng.integers(-reach, reach, 2))
        rows, cols = (int(v) for v in self.rng.integers(1, 25, 2))
        window = CellWindow(row, row + rows, col, col + cols)
        self.cells[window.moved(SIZE // 2, SIZE // 2).slices] = self.rng.choice(
            np.array([-1, 0, 30, 100], np.int8), (rows, cols)
        )
        self.seq += 1
        return self.tiles.update(self.read, window, self.seq)

    def patch(self, since: int, epoch: int = 5) -> MapPatch:
        return self.tiles.patch(since, epoch=epoch, seq=self.seq, stamp=1.0, known_area=2.0)

    def check(self, snapshot: MapSnapshot) -> None:
        """Hold a snapshot against the whole world."""
        rows, cols = snapshot.geometry.shape
        x, y = snapshot.geometry.origin
        row, col = round(y / RESOLUTION), round(x / RESOLUTION)
        window = CellWindow(row, row + rows, col, col + cols)
        wide = self.read(window.grown(20))
        costs = inflate(wide, resolution=RESOLUTION, **PARAMETERS)[20:-20, 20:-20]
        assert np.array_equal(snapshot.occupancy, self.read(window))
        assert np.array_equal(snapshot.costmap, costs)
        known = np.argwhere(self.cells >= 0) - SIZE // 2
        assert (known >= (row, col)).all() and (known < (row + rows, col + cols)).all()


@pytest.mark.parametrize("seed", range(3))
def test_readers_at_any_version_have_the_whole_map_after_their_patch(seed: int) -> None:
    world = World(seed)
    every, some = MapReader(), MapReader()
    for step in range(25):
        world.change()
        world.check(every.take(world.patch(every.version[1])))
        if step % 7 == 3:
            world.check(some.take(world.patch(some.version[1])))
        world.check(MapReader().take(world.patch(0)))


def test_snapshots_that_somebody_holds_never_change() -> None:
    world, reader = World(4), MapReader()
    held: list[tuple[MapSnapshot, np.ndarray, np.ndarray]] = []
    slices: list[tuple[np.ndarray, np.ndarray]] = []
    for step in range(20):
        world.change(reach=150)
        snapshot = reader.take(world.patch(reader.version[1]))
        if step % 3 == 0:
            held.append((snapshot, snapshot.occupancy.copy(), snapshot.costmap.copy()))
        if step % 3 == 1:
            part = snapshot.costmap[
                5:90, 3:80
            ]  # a view keeps the whole, whoever forgets the snapshot
            slices.append((part, part.copy()))
        del snapshot
    for snapshot, occupancy, costmap in held:
        assert np.array_equal(snapshot.occupancy, occupancy)
        assert np.array_equal(snapshot.costmap, costmap)
    for part, was in slices:
        assert np.array_equal(part, was)
    with pytest.raises(ValueError):
        held[0][0].occupancy[0, 0] = 1


def test_arrays_are_used_again_when_nobody_holds_them() -> None:
    world, reader = World(1), MapReader()
    for corner in (-170, 170):
        world.cells[corner + SIZE // 2, corner + SIZE // 2] = 0
        world.tiles.update(world.read, CellWindow(corner, corner + 1, corner, corner + 1), 1)
    seen = set()
    for _ in range(12):
        world.change(reach=100)
        seen.add(reader.take(world.patch(reader.version[1])).occupancy.ctypes.data)
    assert len(seen) <= 3


def test_changed_window_holds_what_differs_from_the_snapshot_before() -> None:
    world, reader = World(2), MapReader()
    before = None
    for _ in range(15):
        world.change(reach=150)
        snapshot = reader.take(world.patch(reader.version[1]))
        if before is not None and snapshot.geometry == before.geometry:
            assert snapshot.changed is not None
            rest = snapshot.costmap != before.costmap
            rest[snapshot.changed.slices] = False
            assert not rest.any()
            assert snapshot.changed.shape[0] < snapshot.geometry.shape[0]
        else:
            assert snapshot.changed is None
        before = snapshot


def test_a_patch_holds_the_changed_tiles_alone_whatever_the_size_of_the_map() -> None:
    world = World(3)
    world.cells[:] = 0
    world.seq = 1
    half = SIZE // 2
    world.tiles.update(world.read, CellWindow(-half, half, -half, half), 1)
    whole = len(world.patch(0).tiles)
    assert whole >= (SIZE // TILE_CELLS) ** 2

    world.cells[half, half] = 100
    world.seq = 2
    assert world.tiles.update(world.read, CellWindow(0, 1, 0, 1), 2) == 4

    assert len(world.patch(1).tiles) == 4
    assert len(world.patch(2).tiles) == 0
    assert world.tiles.update(world.read, CellWindow(0, 1, 0, 1), 3) == 0, "nothing differs"


def test_a_patch_that_does_not_fit_is_refused_and_the_map_stays() -> None:
    world, reader = World(5), MapReader()
    world.change()
    world.change()
    with pytest.raises(ValueError, match="does not fit"):
        reader.take(world.patch(1))
    first = reader.take(world.patch(0))
    world.change()
    with pytest.raises(ValueError, match="does not fit"):
        reader.take(world.patch(2, epoch=6))
    assert reader.snapshot is first
    assert reader.version == (5, 2)
    world.check(reader.take(world.patch(0, epoch=6)))


def test_a_patch_older_than_the_map_may_be_put_in_again() -> None:
    world, reader = World(6), MapReader()
    for _ in range(5):
        world.change()
    reader.take(world.patch(0))
    world.change()
    world.check(reader.take(world.patch(2)))


def test_whole_snapshots_are_taken_as_they_are() -> None:
    world, reader = World(7), MapReader()
    world.change()
    snapshot = copy.copy(MapReader().take(world.patch(0)))
    assert reader.version == NO_MAP
    assert reader.take(snapshot) is snapshot
    world.change()
    with pytest.raises(ValueError, match="does not fit"):
        reader.take(world.patch(1))


def test_empty_map_is_one_unknown_cell() -> None:
    snapshot = MapReader().take(World(0).patch(0))
    assert snapshot.is_empty
    assert snapshot.occupancy.tolist() == [[-1]] and snapshot.costmap.tolist() == [[255]]
