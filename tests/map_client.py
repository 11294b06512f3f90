"""A client of the map as docs/api.md describes it, which knows the documented bytes and nothing of rhino's code."""

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_TILES = struct.Struct("<4sIQIIdddIIII")
_VOXELS = struct.Struct("<4sIQIIdII")


@dataclass(frozen=True)
class Tiles:
    """One answer of /api/map/tiles."""

    epoch: int
    seq: int
    since: int
    resolution: float
    origin: tuple[float, float]
    shape: tuple[int, int]
    corners: NDArray[np.int32]  # (N, 2) row, col
    occupancy: NDArray[np.int8]  # (N, side, side)
    costs: NDArray[np.uint8]  # (N, side, side)


def read_tiles(body: bytes) -> Tiles:
    magic, at, epoch, seq, since, resolution, x, y, rows, cols, side, count = _TILES.unpack_from(
        body
    )
    assert magic == b"RMT1"
    cells = count * side * side
    assert len(body) == at + 8 * count + 2 * cells
    corners = np.frombuffer(body, "<i4", 2 * count, at).reshape(count, 2)
    occupancy = np.frombuffer(body, "i1", cells, at + 8 * count).reshape(count, side, side)
    costs = np.frombuffer(body, "u1", cells, at + 8 * count + cells).reshape(count, side, side)
    return Tiles(epoch, seq, since, resolution, (x, y), (rows, cols), corners, occupancy, costs)


@dataclass
class MapClient:
    """The whole map, kept up to date from tiles."""

    occupancy: NDArray[np.int8] = field(default_factory=lambda: np.full((0, 0), -1, np.int8))
    costs: NDArray[np.uint8] = field(default_factory=lambda: np.full((0, 0), 255, np.uint8))
    origin: tuple[float, float] = (0.0, 0.0)

    def take(self, tiles: Tiles) -> None:
        """Put an answer in: make the arrays anew or grow them, then write the tiles."""
        occupancy = np.full(tiles.shape, -1, np.int8)
        costs = np.full(tiles.shape, 255, np.uint8)
        if tiles.since:  # otherwise it is the whole map
            row = round((self.origin[1] - tiles.origin[1]) / tiles.resolution)
            col = round((self.origin[0] - tiles.origin[0]) / tiles.resolution)
            rows, cols = self.occupancy.shape
            occupancy[row : row + rows, col : col + cols] = self.occupancy
            costs[row : row + rows, col : col + cols] = self.costs
        side = tiles.occupancy.shape[1]
        for (row, col), cells, price in zip(
            tiles.corners, tiles.occupancy, tiles.costs, strict=True
        ):
            occupancy[row : row + side, col : col + side] = cells
            costs[row : row + side, col : col + side] = price
        self.occupancy, self.costs, self.origin = occupancy, costs, tiles.origin


@dataclass(frozen=True)
class Voxels:
    """One answer of /api/map/voxels."""

    epoch: int
    seq: int
    since: int
    edge: float
    # By brick: (N, 3) centres of its voxels [m]; none: the brick is gone.
    bricks: dict[tuple[int, int, int], NDArray[np.float64]]


def read_voxels(body: bytes) -> Voxels:
    magic, at, epoch, seq, since, edge, count, total = _VOXELS.unpack_from(body)
    assert magic == b"RMV1"
    assert len(body) == at + 16 * count + 2 * total
    places = np.frombuffer(body, "<i4", 3 * count, at).reshape(count, 3)
    counts = np.frombuffer(body, "<u4", count, at + 12 * count)
    cells = np.split(np.frombuffer(body, "<u2", total, at + 16 * count), np.cumsum(counts)[:-1])
    bricks = {}
    for place, inside in zip(places.tolist(), cells, strict=bool(count)):
        level, column = np.divmod(inside.astype(np.int64), 256)
        y, x = np.divmod(column, 16)
        corner = (16 * place[0], 16 * place[1], 64 * place[2] - 16)
        bricks[tuple(place)] = (np.stack([x, y, level], axis=1) + corner + 0.5) * edge
    return Voxels(epoch, seq, since, edge, bricks)


class VoxelClient:
    """All voxels, kept up to date from bricks."""

    def __init__(self) -> None:
        self._bricks: dict[tuple[int, int, int], NDArray[np.float64]] = {}

    def take(self, voxels: Voxels) -> None:
        if not voxels.since:
            self._bricks.clear()
        for place, points in voxels.bricks.items():
            if len(points):
                self._bricks[place] = points
            else:
                self._bricks.pop(place, None)

    def points(self) -> NDArray[np.float64]:
        """Return the (N, 3) centres [m]."""
        return np.concatenate([np.zeros((0, 3)), *self._bricks.values()])
