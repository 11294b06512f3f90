"""Occupancy grid to costmap: obstacles grown with Nav2's formula, in full or only where the grid changed.

The distance transform is exact and bounded by the inflation radius, and all arithmetic before the final table is
on whole numbers, so a local update gives the very bytes that a full one would.
"""

import functools
import math

import numba
import numpy as np
from numpy.typing import NDArray

from rhino_actors.mapping.window import EMPTY_WINDOW, CellWindow
from rhino_actors.messages.grid import (
    FREE_SPACE,
    INSCRIBED_INFLATED_OBSTACLE,
    LETHAL_OBSTACLE,
    NO_INFORMATION,
)

# Occupancy from which a cell is an obstacle: the map server's occupied threshold, 0.65.
LETHAL_OCCUPANCY = 65
# A distance that misses a radius by this little, in cells, is rounding (6 * 0.05 > 0.3), so it is inside.
_TOLERANCE = 1e-6
# Squared distances must be exact in float32: (radius + 1)^2 + radius^2 < 2^24.
_MAX_RADIUS = 2000


def inflate(
    occupancy: NDArray[np.int8],
    *,
    resolution: float,
    inscribed_radius: float,
    inflation_radius: float,
    cost_scaling_factor: float,
) -> NDArray[np.uint8]:
    """Grow obstacles so that a point robot keeps a circular footprint clear.

    A cell of occupancy 65 or more is lethal (254). Within the inscribed radius of one the cost is 253; from there
    to the inflation radius it is 252 * exp(-cost_scaling_factor * (distance - inscribed_radius)), rounded
    down; beyond it is 0. Distances are between cell centres. An unknown cell stays unknown (255), except within
    the inscribed radius of an obstacle, where it becomes 253: a wall seen from one side keeps its clearance on
    the other, and unknown never becomes free.

    Args:
        occupancy: (rows, cols) int8, -1 unknown, 0..100; row 0 is the lowest y. Not changed.
        resolution: cell edge [m].
        inscribed_radius: radius that the centre may never enter [m].
        inflation_radius: radius of influence [m], at least inscribed_radius.
        cost_scaling_factor: decay rate [1/m].

    Returns:
        (rows, cols) uint8 costmap, values as in messages.grid; a new array.

    Raises:
        ValueError: not a two-dimensional grid; a radius or rate that is negative or not finite;
            inflation_radius < inscribed_radius.

    Source: Nav2 InflationLayer (nav2_costmap_2d/plugins/inflation_layer.cpp, inflate_unknown off), same formula,
    own code.
    """
    grid = _as_grid(occupancy)
    table, radius = _cost_table(resolution, inscribed_radius, inflation_radius, cost_scaling_factor)
    costmap = np.empty(grid.shape, np.uint8)
    if grid.size:
        _cost_kernel(np.array(grid, np.int8, order="C"), radius, table, costmap)
    return costmap


def update_costmap(
    costmap: NDArray[np.uint8],
    occupancy: NDArray[np.int8],
    window: CellWindow,
    *,
    resolution: float,
    inscribed_radius: float,
    inflation_radius: float,
    cost_scaling_factor: float,
) -> CellWindow:
    """Bring a costmap up to date after the occupancy changed inside `window`.

    Args:
        costmap: (rows, cols) uint8, what `inflate` gave before the change; updated in place.
        occupancy: (rows, cols) int8 after the change. Not changed.
        window: the cells whose occupancy may have changed; may reach beyond the grid.
        resolution: as for `inflate`, and so the rest.
        inscribed_radius: [m]
        inflation_radius: [m]
        cost_scaling_factor: [1/m]

    Returns:
        The cells of the costmap that were computed anew. Afterwards the costmap equals `inflate(occupancy)`.

    Raises:
        ValueError: as `inflate`; or the shapes differ.
    """
    grid = _as_grid(occupancy)
    if costmap.shape != grid.shape:
        raise ValueError(f"costmap {costmap.shape} and occupancy {grid.shape} differ in shape")
    table, radius = _cost_table(resolution, inscribed_radius, inflation_radius, cost_scaling_factor)
    whole = CellWindow(0, grid.shape[0], 0, grid.shape[1])
    changed = window.clipped(whole)
    if changed.is_empty:
        return EMPTY_WINDOW
    # What a changed cell can reach, and what can reach that.
    target = changed.grown(radius).clipped(whole)
    source = target.grown(radius).clipped(whole)
    local = np.empty(source.shape, np.uint8)
    _cost_kernel(np.array(grid[source.slices], np.int8, order="C"), radius, table, local)
    costmap[target.slices] = local[target.moved(-source.row0, -source.col0).slices]
    return target


def inflation_cells(
    *,
    resolution: float,
    inscribed_radius: float,
    inflation_radius: float,
    cost_scaling_factor: float,
) -> int:
    """Return how many cells away from an obstacle there can be a cost. Parameters and errors as for `inflate`."""
    return _cost_table(resolution, inscribed_radius, inflation_radius, cost_scaling_factor)[1]


def warm_up() -> None:
    """Compile the kernel, or load it from numba's cache: up to a second, once per process."""
    inflate(
        np.zeros((4, 4), np.int8),
        resolution=0.1,
        inscribed_radius=0.1,
        inflation_radius=0.2,
        cost_scaling_factor=1.0,
    )


def _as_grid(occupancy: NDArray[np.int8]) -> NDArray[np.int8]:
    grid = np.asarray(occupancy)
    if grid.ndim != 2:
        raise ValueError(f"an occupancy grid has two dimensions, not {grid.ndim}")
    return grid


@functools.lru_cache(maxsize=16)
def _cost_table(
    resolution: float, inscribed_radius: float, inflation_radius: float, cost_scaling_factor: float
) -> tuple[NDArray[np.uint8], int]:
    """Return the cost by squared distance in cells, up to the inflation radius, and that radius in cells."""
    values = (resolution, inscribed_radius, inflation_radius, cost_scaling_factor)
    if not all(math.isfinite(v) and v >= 0.0 for v in values) or resolution == 0.0:
        raise ValueError(f"radii and rates must be finite and not negative: {values}")
    if inflation_radius < inscribed_radius:
        raise ValueError("inflation_radius is smaller than inscribed_radius")
    reach = inflation_radius / resolution + _TOLERANCE
    if reach > _MAX_RADIUS:
        raise ValueError(f"inflation_radius is more than {_MAX_RADIUS} cells")
    distance = np.sqrt(np.arange(math.floor(reach * reach) + 1))
    beyond = np.maximum(distance * resolution - inscribed_radius, 0.0)
    cost = np.floor((INSCRIBED_INFLATED_OBSTACLE - 1) * np.exp(-cost_scaling_factor * beyond))
    cost[distance <= inscribed_radius / resolution + _TOLERANCE] = INSCRIBED_INFLATED_OBSTACLE
    cost[0] = LETHAL_OBSTACLE
    return cost.astype(np.uint8), math.floor(reach)


@numba.njit(nogil=True, cache=True)
def _cost_kernel(
    occupancy: NDArray[np.int8],
    radius: int,
    table: NDArray[np.uint8],
    costmap: NDArray[np.uint8],
) -> None:
    """Write the costs of a grid: distances down the columns first, then across the rows as far as the radius.

    float32 throughout the two distance passes: numba widens small integers and loses the vector units.
    """
    rows, cols = occupancy.shape
    one = np.float32(1.0)
    far = np.float32(radius + 1)
    column = np.empty((rows, cols), np.float32)  # distance to the nearest obstacle of the column
    for r in range(rows):
        for c in range(cols):
            above = column[r - 1, c] + one if r > 0 else far
            above = above if above < far else far
            column[r, c] = np.float32(0.0) if occupancy[r, c] >= LETHAL_OCCUPANCY else above
    for r in range(rows - 2, -1, -1):
        for c in range(cols):
            below = column[r + 1, c] + one
            column[r, c] = below if below < column[r, c] else column[r, c]

    padded = np.full(cols + 2 * radius, far * far, np.float32)
    nearest = np.empty(cols, np.float32)
    for r in range(rows):
        least = far
        for c in range(cols):
            d = column[r, c]
            padded[radius + c] = d * d
            least = d if d < least else least
        if least >= far:
            for c in range(cols):
                costmap[r, c] = NO_INFORMATION if occupancy[r, c] < 0 else FREE_SPACE
            continue
        for c in range(cols):
            nearest[c] = padded[radius + c]
        for k in range(1, radius + 1):
            square = np.float32(k * k)
            left, right = (
                padded[radius - k :],
                padded[radius + k :],
            )  # slices keep the loop vectorised
            for c in range(cols):
                d = (left[c] if left[c] < right[c] else right[c]) + square
                nearest[c] = d if d < nearest[c] else nearest[c]
        for c in range(cols):
            index = int(nearest[c])
            cost = table[index] if index < table.size else FREE_SPACE
            if occupancy[r, c] < 0 and cost < INSCRIBED_INFLATED_OBSTACLE:
                cost = NO_INFORMATION
            costmap[r, c] = cost
