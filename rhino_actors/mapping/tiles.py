"""The map as it is published: occupancy and costs in tiles that never change, replaced one by one.

A publish costs what the change costs, whatever the size of the map, and so does a patch for whoever has an earlier
version. Costs are those of `inflate` on the whole grid, to the byte.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.mapping.inflation import inflate, inflation_cells
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import (
    NO_CORRECTION,
    NO_INFORMATION,
    TILE_CELLS,
    UNKNOWN,
    GridGeometry,
)
from rhino_actors.messages.map_patch import MapPatch
from rhino_actors.messages.window import EMPTY_WINDOW, CellWindow

Key = tuple[int, int]  # row, col of a tile; tile (0, 0) begins at the frame's origin
ReadCells = Callable[[CellWindow], NDArray[np.int8]]  # a window of world cells to its occupancy


@dataclass(frozen=True, slots=True)
class _Tile:
    """Cells of one tile, and the seq of the map in which it changed last. Arrays are read-only."""

    seq: int
    occupancy: NDArray[np.int8]
    costmap: NDArray[np.uint8]


class MapTiles:
    """Follows an occupancy grid of any size; knows for each tile when it changed last."""

    def __init__(
        self,
        resolution: float,
        *,
        inscribed_radius: float,
        inflation_radius: float,
        cost_scaling_factor: float,
    ) -> None:
        """Start without a tile. Resolution and radii [m], rate [1/m] as for `inflate`; raises ValueError as it does."""
        self._parameters = {
            "resolution": resolution,
            "inscribed_radius": inscribed_radius,
            "inflation_radius": inflation_radius,
            "cost_scaling_factor": cost_scaling_factor,
        }
        self._margin = inflation_cells(**self._parameters)
        self._resolution = resolution
        self._tiles: dict[Key, _Tile] = {}  # those that changed last come last
        self._extent = EMPTY_WINDOW  # in tiles
        self._known = 0

    @property
    def known_area(self) -> float:
        """Area of the cells that are not unknown [m2]."""
        return self._known * self._resolution**2

    @property
    def geometry(self) -> GridGeometry:
        """What the tiles span; one cell at the frame's origin before the first."""
        row0, _, col0, _ = self._extent
        rows, cols = self._extent.shape
        side = TILE_CELLS * self._resolution
        shape = (rows * TILE_CELLS, cols * TILE_CELLS) if self._tiles else (1, 1)
        return GridGeometry(self._resolution, (col0 * side, row0 * side), shape)

    def occupancy(self) -> NDArray[np.int8]:
        """Return the occupancy of all tiles as one array (rows, cols) on `geometry`; the caller's."""
        cells = np.full(self.geometry.shape, UNKNOWN, np.int8)
        for key, part in _parts(self._extent):
            if key in self._tiles:
                cells[part] = self._tiles[key].occupancy
        return cells

    def update(self, read: ReadCells, changed: CellWindow, seq: int) -> int:
        """Take over what changed.

        Args:
            read: gives the occupancy of any window of world cells, -1 where nothing is known.
            changed: the world cells that may have changed since the last update.
            seq: of the map that this makes; greater than all before.

        Returns:
            The number of tiles that differ from before. Nothing at all needs to be published when it is 0.
        """
        if changed.is_empty:
            return 0
        window = changed.grown(self._margin)
        tiles = CellWindow(
            window.row0 // TILE_CELLS,
            -(-window.row1 // TILE_CELLS),
            window.col0 // TILE_CELLS,
            -(-window.col1 // TILE_CELLS),
        )
        target = CellWindow(*(edge * TILE_CELLS for edge in tiles))
        source = read(target.grown(self._margin))
        inner = (slice(self._margin, self._margin + side) for side in target.shape)
        inside = tuple(inner)
        costs = inflate(source, **self._parameters)[inside]
        cells = source[inside]
        count = 0
        for key, part in _parts(tiles):
            count += self._replace(key, cells[part], costs[part], seq)
        return count

    def patch(
        self,
        since: int,
        *,
        epoch: int,
        seq: int,
        stamp: float,
        known_area: float,
        robot: Pose2D | None = None,
        map_from_odom: Pose2D = NO_CORRECTION,
        localised: bool = True,
    ) -> MapPatch:
        """Return what changed after map `since`, 0 for everything, as the message to whoever has that map.

        Args:
            since: seq that the reader has.
            epoch: of this mapper.
            seq: of the newest map.
            stamp: of its newest frame [s].
            known_area: [m2]
            robot: where it is in odom.
            map_from_odom: where odom lies in the map.
            localised: False while the robot's place in a loaded map is not known.
        """
        chosen: list[tuple[Key, _Tile]] = []
        for key in reversed(self._tiles):
            tile = self._tiles[key]
            if tile.seq <= since:
                break
            chosen.append((key, tile))
        shape = (len(chosen), TILE_CELLS, TILE_CELLS)
        tiles = np.array([key for key, _ in chosen], np.int32).reshape(len(chosen), 2)
        occupancy, costmap = np.empty(shape, np.int8), np.empty(shape, np.uint8)
        for index, (_, tile) in enumerate(chosen):
            occupancy[index], costmap[index] = tile.occupancy, tile.costmap
        for array in (tiles, occupancy, costmap):
            array.flags.writeable = False
        return MapPatch(
            epoch=epoch,
            seq=seq,
            since=since,
            stamp=stamp,
            geometry=self.geometry,
            tiles=tiles,
            occupancy=occupancy,
            costmap=costmap,
            known_area=known_area,
            robot=robot,
            map_from_odom=map_from_odom,
            localised=localised,
        )

    def _replace(
        self, key: Key, occupancy: NDArray[np.int8], costmap: NDArray[np.uint8], seq: int
    ) -> bool:
        """Keep a tile if it differs from what is there; one that says nothing is not kept. Says if it was kept."""
        old = self._tiles.get(key)
        if old is None:
            if (occupancy == UNKNOWN).all() and (costmap == NO_INFORMATION).all():
                return False
            row, col = key
            self._extent = self._extent.united(CellWindow(row, row + 1, col, col + 1))
        elif np.array_equal(old.occupancy, occupancy) and np.array_equal(old.costmap, costmap):
            return False
        else:
            self._known -= int(np.count_nonzero(old.occupancy != UNKNOWN))
            del self._tiles[key]
        self._known += int(np.count_nonzero(occupancy != UNKNOWN))
        self._tiles[key] = _Tile(seq, occupancy.copy(), costmap.copy())
        return True


def _parts(tiles: CellWindow) -> Iterator[tuple[Key, tuple[slice, slice]]]:
    """Give each tile of a window of tiles, and where its cells lie in the window's array."""
    for row in range(tiles.row0, tiles.row1):
        for col in range(tiles.col0, tiles.col1):
            r, c = (row - tiles.row0) * TILE_CELLS, (col - tiles.col0) * TILE_CELLS
            yield (row, col), (slice(r, r + TILE_CELLS), slice(c, c + TILE_CELLS))
