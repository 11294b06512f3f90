"""What to do when the robot or its goal stands where the costmap says that nothing can stand."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import StartOccupied, StartOutsideMap
from rhino_actors.messages.grid import (
    FREE,
    INSCRIBED_INFLATED_OBSTACLE,
    LETHAL_OBSTACLE,
    NO_INFORMATION,
    UNKNOWN,
    GridGeometry,
    MapSnapshot,
)
from rhino_actors.planning.astar import check_costmap, cost_to_go, is_passable
from rhino_actors.planning.search import MAX_COST, Cell

Inflate = Callable[[NDArray[np.int8]], NDArray[np.uint8]]

MARGIN_M = 3.0  # of unknown floor around a place outside the map, to go around what may stand there
OPENED_M = 1.5  # around a robot that is shut in
BLOCK_CELLS = (
    64  # a map is extended by whole blocks, so that it keeps its size while the robot drives
)


def covering(snapshot: MapSnapshot, points: NDArray[np.float64]) -> MapSnapshot:
    """Return the map, extended by unknown floor so that points (N, 2) x, y [m] lie inside with a margin.

    The very snapshot if they lie inside. Cells keep their place in the world.
    """
    geometry = snapshot.geometry
    rows, cols = geometry.shape
    cells = geometry.cells_from_world(points)
    low, high = cells.min(axis=0), cells.max(axis=0)
    if low.min() >= 0 and high[0] < rows and high[1] < cols:
        return snapshot
    margin = math.ceil(MARGIN_M / geometry.resolution)

    def blocks(missing: int) -> int:
        return -(-(missing + margin) // BLOCK_CELLS) * BLOCK_CELLS if missing > 0 else 0

    before = (blocks(-int(low[0])), blocks(-int(low[1])))
    after = (blocks(int(high[0]) + 1 - rows), blocks(int(high[1]) + 1 - cols))
    widths = ((before[0], after[0]), (before[1], after[1]))
    occupancy = np.pad(snapshot.occupancy, widths, constant_values=UNKNOWN)
    costmap = np.pad(snapshot.costmap, widths, constant_values=NO_INFORMATION)
    for array in (occupancy, costmap):
        array.flags.writeable = False
    x, y = geometry.origin
    origin = (x - before[1] * geometry.resolution, y - before[0] * geometry.resolution)
    shape = (occupancy.shape[0], occupancy.shape[1])
    return replace(
        snapshot,
        geometry=GridGeometry(geometry.resolution, origin, shape),
        occupancy=occupancy,
        costmap=costmap,
        changed=None,
    )


def outside_by(geometry: GridGeometry, x: float, y: float) -> float:
    """Return how far a point lies outside the grid [m]; 0 inside."""
    rows, cols = geometry.shape
    dx = max(geometry.origin[0] - x, x - geometry.origin[0] - cols * geometry.resolution, 0.0)
    dy = max(geometry.origin[1] - y, y - geometry.origin[1] - rows * geometry.resolution, 0.0)
    return math.hypot(dx, dy)


def free_start(
    occupancy: NDArray[np.int8],
    costmap: NDArray[np.uint8],
    geometry: GridGeometry,
    x: float,
    y: float,
    *,
    inflate: Inflate,
    footprint_radius: float,
    inflation_radius: float,
    allow_unknown: bool = True,
) -> NDArray[np.uint8]:
    """Let a robot plan its way out of an obstacle that it stands in or too near to.

    An obstacle inside the footprint's disc cannot be one, since the robot is there: neither it nor its inflation
    blocks. What they would have blocked stays passable at the highest cost, so that the way out avoids it. An
    obstacle outside the disc blocks as ever, and so does its inflation outside the disc.

    Args:
        occupancy: (rows, cols) int8, -1 unknown, 0..100.
        costmap: (rows, cols) uint8, the inflated occupancy. Not changed.
        geometry: of both.
        x: of the robot [m], in the grid's frame.
        y: of the robot [m].
        inflate: makes the costmap of an occupancy grid; called on a window around the robot.
        footprint_radius: the inscribed radius that the costmap was inflated with [m].
        inflation_radius: how far `inflate` reaches [m].
        allow_unknown: as for plan_path.

    Returns:
        The costmap itself if its cell of the robot is passable, else a changed copy.

    Raises:
        StartOutsideMap: the robot is.
        StartOccupied: the robot is boxed in: no cell around it that the map has as passable can be reached.
    """
    check_costmap(costmap)
    row, col = geometry.cell_from_world(x, y)
    if not geometry.contains(row, col):
        raise StartOutsideMap
    if is_passable(costmap[row, col], allow_unknown):
        return costmap
    changed = footprint_radius + inflation_radius
    inner = _window(geometry, x, y, changed)
    outer = _window(geometry, x, y, changed + inflation_radius)

    rows, cols = np.ogrid[outer]
    center_x, center_y = geometry.world_from_cell(0, 0)
    dx = center_x + cols * geometry.resolution - x
    dy = center_y + rows * geometry.resolution - y
    under_robot = dx * dx + dy * dy <= footprint_radius * footprint_radius
    under_robot[row - outer[0].start, col - outer[1].start] = True

    cleared = occupancy[outer].copy()
    cleared[under_robot & (cleared > FREE)] = FREE
    before, after = costmap[outer], inflate(cleared)
    eased = np.where(before == NO_INFORMATION, before, np.minimum(before, MAX_COST))
    eased = np.where(after >= INSCRIBED_INFLATED_OBSTACLE, after, eased)
    keep = NO_INFORMATION if allow_unknown else MAX_COST
    stuck = under_robot & (eased >= INSCRIBED_INFLATED_OBSTACLE)
    eased[stuck] = np.where(eased[stuck] == NO_INFORMATION, keep, MAX_COST)

    result = costmap.copy()
    lead = (inner[0].start - outer[0].start, inner[1].start - outer[1].start)
    size = (inner[0].stop - inner[0].start, inner[1].stop - inner[1].start)
    result[inner] = eased[lead[0] : lead[0] + size[0], lead[1] : lead[1] + size[1]]

    here = (row - inner[0].start, col - inner[1].start)
    reached = np.isfinite(cost_to_go(result[inner], [here], allow_unknown=allow_unknown))
    if not np.any(reached & _passable(costmap[inner], allow_unknown)):
        raise StartOccupied
    return result


def opened(
    costmap: NDArray[np.uint8],
    geometry: GridGeometry,
    x: float,
    y: float,
    *,
    clearance: float,
    allow_unknown: bool = True,
) -> NDArray[np.uint8]:
    """Let a robot out of a place that the map has closed around it: where it got in, it gets out.

    A passage as wide as the robot needs is closed by a centimetre of drift or noise. Where no way leads farther than
    OPENED_M from the robot, floor within that which is only too near to an obstacle becomes passable at the highest
    cost, if the obstacle is farther away than `clearance`. Obstacles stay what they are.

    Args:
        costmap: (rows, cols) uint8. Not changed.
        geometry: of the costmap.
        x: of the robot [m], in the grid's frame.
        y: of the robot [m].
        clearance: from the middle of the robot to an obstacle that it still passes [m].
        allow_unknown: as for plan_path.

    Returns:
        The costmap itself if a way leads out, or none can be opened, else a changed copy.
    """
    row, col = geometry.cell_from_world(x, y)
    if not geometry.contains(row, col):
        return costmap
    window = _window(geometry, x, y, OPENED_M)
    here = (row - window[0].start, col - window[1].start)
    part = np.ascontiguousarray(costmap[window])
    reached = np.isfinite(cost_to_go(part, [here], allow_unknown=allow_unknown))
    if reached[[0, -1]].any() or reached[:, [0, -1]].any():
        return costmap
    near = np.zeros(part.shape, np.bool_)
    lethal = np.pad(part == LETHAL_OBSTACLE, reach := int(clearance / geometry.resolution))
    for down in range(-reach, reach + 1):
        for right in range(-reach, reach + 1):
            if math.hypot(down, right) * geometry.resolution <= clearance:
                top, left = reach + down, reach + right
                near |= lethal[top : top + part.shape[0], left : left + part.shape[1]]
    widened = (part == INSCRIBED_INFLATED_OBSTACLE) & ~near
    if not widened.any():
        return costmap
    result = costmap.copy()
    result[window] = np.where(widened, MAX_COST, part)
    return result


def nearest_free_goal(
    costmap: NDArray[np.uint8],
    goal: Cell,
    start: Cell,
    *,
    radius: float,
    resolution: float,
    allow_unknown: bool = True,
    should_stop: Callable[[], bool] | None = None,
) -> Cell | None:
    """Return the cell nearest to the goal that can be stood on and reached from the start, or None.

    Known floor comes before unknown; then the straight distance decides, then the lower cost, row, column. The goal
    itself is the answer if it can be reached, and may lie outside the map.

    Args:
        costmap: (rows, cols) uint8, values as in messages.grid.
        goal: row, col of what was asked for.
        start: row, col of the robot: a passable cell.
        radius: how far the goal may be moved [m].
        resolution: cell edge [m].
        allow_unknown: as for plan_path.
        should_stop: asked every few milliseconds; True ends the search.

    Raises:
        StartOutsideMap: the start is.
        PlanTimedOut: should_stop said so.
    """
    if not (0 <= start[0] < costmap.shape[0] and 0 <= start[1] < costmap.shape[1]):
        raise StartOutsideMap
    reach = math.floor(radius / resolution + 1e-9)
    low = (max(0, goal[0] - reach), max(0, goal[1] - reach))
    window = costmap[low[0] : max(0, goal[0] + reach + 1), low[1] : max(0, goal[1] + reach + 1)]
    field = cost_to_go(
        costmap, [start], cost_weight=0.0, allow_unknown=allow_unknown, should_stop=should_stop
    )
    rows, cols = np.nonzero(
        np.isfinite(field[low[0] : low[0] + window.shape[0], low[1] : low[1] + window.shape[1]])
    )
    costs = window[rows, cols]
    rows, cols = rows + low[0], cols + low[1]
    squared = (rows - goal[0]) ** 2 + (cols - goal[1]) ** 2
    near = squared <= (radius / resolution + 1e-9) ** 2
    rows, cols, costs, squared = rows[near], cols[near], costs[near], squared[near]
    if not rows.size:
        return None
    best = np.lexsort((cols, rows, costs, squared, costs == NO_INFORMATION))[0]
    return int(rows[best]), int(cols[best])


def _window(geometry: GridGeometry, x: float, y: float, reach: float) -> tuple[slice, slice]:
    """Return the rows and columns within `reach` [m] of a point, clipped to the grid."""
    low = geometry.cell_from_world(x - reach, y - reach)
    high = geometry.cell_from_world(x + reach, y + reach)
    rows, cols = geometry.shape
    return (
        slice(max(0, low[0]), min(rows, high[0] + 1)),
        slice(max(0, low[1]), min(cols, high[1] + 1)),
    )


def _passable(costmap: NDArray[np.uint8], allow_unknown: bool) -> NDArray[np.bool_]:
    passable: NDArray[np.bool_] = costmap < INSCRIBED_INFLATED_OBSTACLE
    if allow_unknown:
        passable |= costmap == NO_INFORMATION
    return passable
