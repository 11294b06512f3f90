"""What the mapper publishes, tiles that changed, and how a reader makes the whole map of it.

A reader asks with the version that it has and gets what changed since: `patch.since` is that version's seq, 0 when
the patch is the whole map. `MapReader` holds the map and puts the patches in.
"""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import (
    NO_CORRECTION,
    NO_INFORMATION,
    TILE_CELLS,
    UNKNOWN,
    GridGeometry,
    MapSnapshot,
)
from rhino_actors.messages.window import EMPTY_WINDOW, CellWindow

MapVersion = tuple[int, int]  # (epoch, seq)
NO_MAP: MapVersion = (0, 0)  # what a reader has that has nothing
BRICK_SIDE, BRICK_LEVELS, BRICK_BASE = 16, 64, 16  # see VoxelPatch
# Bricks that are unpacked together, 16 kB each: a whole map's would take hundreds of MB.
_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class MapPatch:
    """The tiles that differ between map `since` and map `seq` of an epoch."""

    epoch: int
    seq: int
    since: int  # seq of the map that this goes onto; 0: it is the whole map
    stamp: float  # [s] monotonic, of the newest frame that is in it, on the robot-side host
    geometry: GridGeometry  # of the whole map after the patch, whole tiles
    # (N, 2) row, col of each tile; tile (0, 0) begins at the frame's origin.
    tiles: NDArray[np.int32]
    occupancy: NDArray[np.int8]  # (N, TILE_CELLS, TILE_CELLS) -1 unknown, 0..100
    costmap: NDArray[np.uint8]  # (N, TILE_CELLS, TILE_CELLS) Nav2's values
    known_area: float  # [m2] of the cells that are not unknown
    robot: Pose2D | None = None  # of base_link in odom at the stamp
    map_from_odom: Pose2D = NO_CORRECTION  # where odom lies in the map; grids are in the frame map
    localised: bool = True  # as in MapSnapshot

    @property
    def is_empty(self) -> bool:
        """True before the first frame."""
        return self.seq == 0

    def corners(self) -> NDArray[np.int32]:
        """Return (N, 2) row, col in the whole map's arrays of each tile's first cell."""
        x, y = self.geometry.origin
        side = TILE_CELLS * self.geometry.resolution
        return (self.tiles - np.array([round(y / side), round(x / side)], np.int32)) * TILE_CELLS


@dataclass(frozen=True, slots=True)
class VoxelPatch:
    """The bricks of voxels that differ between map `since` and map `seq`: the 3D layer, apart from the grid.

    A brick is 16 x 16 columns of 64 levels, level 0 of brick z 0 lying `BRICK_BASE` levels below z = 0.
    """

    epoch: int
    seq: int
    since: int  # seq of the map that this goes onto; 0: all bricks that hold a voxel
    stamp: float  # [s] monotonic, of the newest frame that is in it
    voxel_size: float  # [m]
    place: NDArray[np.int32]  # (N, 3) x, y, z of each brick, in bricks
    words: NDArray[np.uint64]  # (N, 256) by y * 16 + x of the column; bit n: voxel of level n

    def cells(self) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
        """Return the voxels one by one: brick's index (M,), ascending, and level * 256 + y * 16 + x in it (M,)."""
        bricks, cells = [np.zeros(0, np.int64)], [np.zeros(0, np.uint16)]
        for first in range(0, len(self.words), _AT_ONCE):
            octets = np.ascontiguousarray(self.words[first : first + _AT_ONCE], "<u8").view(
                np.uint8
            )
            bits = np.unpackbits(octets.reshape(-1, 8), axis=1, bitorder="little")
            brick_column, level = np.nonzero(bits.reshape(-1, BRICK_LEVELS))
            brick, column = np.divmod(brick_column, BRICK_SIDE * BRICK_SIDE)
            bricks.append(brick + first)
            cells.append((level * (BRICK_SIDE * BRICK_SIDE) + column).astype(np.uint16))
        return np.concatenate(bricks), np.concatenate(cells)

    def points(self) -> NDArray[np.float32]:
        """Return the (M, 3) centres of the voxels in the frame map [m], brick by brick."""
        brick, cell = self.cells()
        level, column = np.divmod(cell.astype(np.int64), BRICK_SIDE * BRICK_SIDE)
        y, x = np.divmod(column, BRICK_SIDE)
        corner = self.place[brick].astype(np.int64) * (BRICK_SIDE, BRICK_SIDE, BRICK_LEVELS)
        whole = corner + np.stack([x, y, level - BRICK_BASE], axis=1)
        points: NDArray[np.float32] = ((whole + 0.5) * self.voxel_size).astype(np.float32)
        return points


class MapReader:
    """Keeps the whole map up to date from patches. Not for two tasks at once.

    Snapshots that were given out never change. An update copies the tiles of the last two patches when nobody holds
    the snapshot before the last any more, and the whole map when somebody does, or when the map grew.

    Attributes:
        snapshot: the newest map, None before the first.
    """

    def __init__(self) -> None:
        self.snapshot: MapSnapshot | None = None
        self._newest: tuple[NDArray[np.int8], NDArray[np.uint8]] | None = None
        # The arrays of the map before, and where they differ from the newest.
        self._before: tuple[NDArray[np.int8], NDArray[np.uint8]] | None = None
        self._behind: NDArray[np.int32] = np.zeros((0, 2), np.int32)

    @property
    def version(self) -> MapVersion:
        """What to ask the mapper with: (epoch, seq) of the newest map."""
        return (self.snapshot.epoch, self.snapshot.seq) if self.snapshot else NO_MAP

    def forget(self) -> None:
        """Drop the map, so that the next patch must be a whole one."""
        self.__init__()  # type: ignore[misc]

    def take(self, message: MapPatch | MapSnapshot) -> MapSnapshot:
        """Put a patch in, or take over a whole snapshot, and return the newest map.

        Raises:
            ValueError: the patch goes onto another map than the one held: ask again with `NO_MAP`.
        """
        if isinstance(message, MapSnapshot):
            self.forget()
            self.snapshot = message
            return message
        held = self.snapshot
        is_same_life = held is not None and held.epoch == message.epoch
        fits = is_same_life and self._newest is not None and message.since <= self.version[1]
        if message.since > 0 and not fits:
            raise ValueError(f"a patch onto map {message.since} does not fit {self.version}")
        if held is not None and is_same_life and message.seq <= held.seq:
            return held
        corners = message.corners()
        if message.since == 0 or held is None or self._newest is None:
            arrays, changed = _blank(message.geometry.shape), None
            self._before = None
        elif message.geometry != held.geometry:
            arrays, changed = _moved(self._newest, held.geometry, message.geometry), None
            self._before = None
        else:
            arrays, changed = self._writable(), _around(corners)
            self._before = self._newest
        for index, (row, col) in enumerate(corners.tolist()):
            part = np.s_[row : row + TILE_CELLS, col : col + TILE_CELLS]
            arrays[0][part], arrays[1][part] = message.occupancy[index], message.costmap[index]
        self._newest, self._behind = arrays, corners
        self.snapshot = _snapshot(message, arrays, changed)
        return self.snapshot

    def _writable(self) -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
        """Return arrays like the newest that nobody else sees."""
        assert self._newest is not None
        before, self._before = self._before, None
        if before is None or _holders(before) > _ALONE:
            return self._newest[0].copy(), self._newest[1].copy()
        for row, col in self._behind.tolist():
            part = np.s_[row : row + TILE_CELLS, col : col + TILE_CELLS]
            before[0][part], before[1][part] = self._newest[0][part], self._newest[1][part]
        return before


def _holders(arrays: tuple[NDArray[np.int8], NDArray[np.uint8]]) -> int:
    """Count who refers to the arrays of a pair: the pair, every view of them however it was made, the count itself."""
    return max(sys.getrefcount(arrays[0]), sys.getrefcount(arrays[1]))


def _blank(shape: tuple[int, int]) -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
    return np.full(shape, UNKNOWN, np.int8), np.full(shape, NO_INFORMATION, np.uint8)


# What is counted for a pair that nobody else holds: interpreters differ in what the count itself adds.
_ALONE = _holders(_blank((1, 1)))


def _moved(
    arrays: tuple[NDArray[np.int8], NDArray[np.uint8]], old: GridGeometry, new: GridGeometry
) -> tuple[NDArray[np.int8], NDArray[np.uint8]]:
    """Return the arrays of a grid on a grown one; what lies outside the new one is dropped."""
    made = _blank(new.shape)
    row, col = (round((old.origin[axis] - new.origin[axis]) / new.resolution) for axis in (1, 0))
    here = CellWindow(row, row + old.shape[0], col, col + old.shape[1])
    here = here.clipped(CellWindow(0, new.shape[0], 0, new.shape[1]))
    if not here.is_empty:
        there = here.moved(-row, -col)
        for target, source in zip(made, arrays, strict=True):
            target[here.slices] = source[there.slices]
    return made


def _around(corners: NDArray[np.int32]) -> CellWindow:
    """Return the window around tiles."""
    if not len(corners):
        return EMPTY_WINDOW
    (row0, col0), (row1, col1) = corners.min(axis=0).tolist(), corners.max(axis=0).tolist()
    return CellWindow(row0, row1 + TILE_CELLS, col0, col1 + TILE_CELLS)


def _snapshot(
    patch: MapPatch,
    arrays: tuple[NDArray[np.int8], NDArray[np.uint8]],
    changed: CellWindow | None,
) -> MapSnapshot:
    occupancy, costmap = arrays[0].view(), arrays[1].view()
    occupancy.flags.writeable = costmap.flags.writeable = False
    return MapSnapshot(
        epoch=patch.epoch,
        seq=patch.seq,
        stamp=patch.stamp,
        geometry=patch.geometry,
        occupancy=occupancy,
        costmap=costmap,
        known_area=patch.known_area,
        robot=patch.robot,
        map_from_odom=patch.map_from_odom,
        localised=patch.localised,
        changed=changed,
    )
