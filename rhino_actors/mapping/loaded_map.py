"""A map that was loaded, made into what the running mapper goes on with."""

import math

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import MapTooLarge
from rhino_actors.mapping.checkpoint import State
from rhino_actors.mapping.map_files import MAX_CELLS
from rhino_actors.messages.grid import TILE_CELLS, UNKNOWN, GridGeometry

# The map server's thresholds [% occupied].
_OCCUPIED_FROM, _FREE_TO = 65, 19
# Of a cell: what two grids may be apart and still be the same, for origins that were rounded to the millimetre.
_TOLERANCE = 0.02


def on_lattice(
    occupancy: NDArray[np.int8],
    geometry: GridGeometry,
    resolution: float,
    *,
    max_cells: int = MAX_CELLS,
) -> tuple[NDArray[np.int8], GridGeometry]:
    """Return the map on the cells of a running mapper, whose edges lie on multiples of its resolution.

    A map that lies on them already is returned as it is. Else a cell is occupied if any occupied cell of the map
    reaches into it, and otherwise what the map has at its centre: obstacles never get lost, and may grow by a cell.

    Args:
        occupancy: (rows, cols) int8, -1 unknown, 0..100; row 0 is the lowest y. Not changed.
        geometry: where it lies.
        resolution: of the mapper [m].
        max_cells: refuse what needs more.

    Raises:
        MapTooLarge: it needs more than `max_cells` at this resolution.
    """
    spans = [
        _span(geometry.origin[1 - axis], geometry.resolution, geometry.shape[axis], resolution)
        for axis in (0, 1)
    ]
    rows, cols = (stop - start for start, stop in spans)
    if rows * cols > max_cells:
        raise MapTooLarge(
            f"The map needs {rows} x {cols} cells of {resolution} m; {max_cells} are the most."
        )
    origin = (spans[1][0] * resolution, spans[0][0] * resolution)
    lattice = GridGeometry(resolution, origin, (rows, cols))
    drift = abs(geometry.resolution / resolution - 1.0) * max(geometry.shape)
    apart = max(abs(a - b) for a, b in zip(origin, geometry.origin, strict=True)) / resolution
    if geometry.shape == lattice.shape and drift < _TOLERANCE and apart < _TOLERANCE:
        return occupancy, lattice
    row_from, row_to, row_at = _overlaps(geometry, lattice, 0)
    col_from, col_to, col_at = _overlaps(geometry, lattice, 1)
    is_occupied = occupancy >= _OCCUPIED_FROM
    by_row = np.zeros((rows, occupancy.shape[1]), np.bool_)
    for step in range(int((row_to - row_from).max())):
        by_row |= is_occupied[np.minimum(row_from + step, row_to - 1)]
    blocked = np.zeros((rows, cols), np.bool_)
    for step in range(int((col_to - col_from).max())):
        blocked |= by_row[:, np.minimum(col_from + step, col_to - 1)]
    fitted = occupancy[np.ix_(row_at, col_at)]
    fitted[row_at < 0, :] = UNKNOWN
    fitted[:, col_at < 0] = UNKNOWN
    fitted[blocked] = 100
    return fitted, lattice


def mapper_state(occupancy: NDArray[np.int8], geometry: GridGeometry, like: State) -> State:
    """Return a state that `OccupancyMapper.restore` takes: every cell of the map as sure as a cell can be.

    What the map has wrong is unlearned as what the mapper saw itself. The three classes of a map on disk survive: 65
    and more is occupied, 19 and less is free; what is between counts as seen and undecided.

    Args:
        occupancy: (rows, cols) int8 on the mapper's lattice, see `on_lattice`.
        geometry: where it lies.
        like: a state of the mapper that is to take it, for its resolution and levels.
    """
    levels, resolution = int(like["levels"]), geometry.resolution
    row0, col0 = round(geometry.origin[1] / resolution), round(geometry.origin[0] / resolution)
    tile_row, tile_col = (math.floor(v / TILE_CELLS) * TILE_CELLS for v in (row0, col0))
    row, col = row0 - tile_row, col0 - tile_col
    rows, cols = occupancy.shape
    shape = tuple(-(-side // TILE_CELLS) * TILE_CELLS for side in (row + rows, col + cols))
    table = np.full(256, levels // 2, np.uint16)
    table[: _FREE_TO + 1] = 1
    table[_OCCUPIED_FROM:128] = levels - 1
    table[128:] = 0  # negative, seen as unsigned
    evidence = np.zeros(shape, np.uint16)
    evidence[row : row + rows, col : col + cols] = table[occupancy.view(np.uint8)]
    return {
        "version": like["version"],
        "levels": like["levels"],
        "resolution": like["resolution"],
        "origin_cell": np.array([tile_row, tile_col], np.int64),
        "evidence": evidence,
    }


def _span(origin: float, edge: float, cells: int, resolution: float) -> tuple[int, int]:
    """Return the first and one past the last lattice cell that a side of the map reaches into."""
    start = math.floor(origin / resolution + _TOLERANCE)
    stop = math.ceil((origin + cells * edge) / resolution - _TOLERANCE)
    return start, max(start + 1, stop)


def _overlaps(
    source: GridGeometry, lattice: GridGeometry, axis: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return for each lattice row (axis 0) or column the source cells from and up to, and at its centre or -1."""
    cells = source.shape[axis]
    start = (lattice.origin[1 - axis] - source.origin[1 - axis]) / source.resolution
    edges = start + np.arange(lattice.shape[axis] + 1) * (lattice.resolution / source.resolution)
    first = np.clip(np.floor(edges[:-1] + _TOLERANCE), 0, cells - 1).astype(np.int64)
    last = np.clip(np.ceil(edges[1:] - _TOLERANCE), 1, cells).astype(np.int64)
    centre = np.floor((edges[:-1] + edges[1:]) / 2.0).astype(np.int64)
    centre[(centre < 0) | (centre >= cells)] = -1
    return first, np.maximum(last, first + 1), centre
