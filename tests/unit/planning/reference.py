"""The contract's cost model, written to be read: what the kernels are compared to."""

import heapq
import math

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]


def passable(costmap: NDArray[np.uint8], row: int, col: int, allow_unknown: bool) -> bool:
    rows, cols = costmap.shape
    if not (0 <= row < rows and 0 <= col < cols):
        return False
    return bool(costmap[row, col] < 253 or (allow_unknown and costmap[row, col] == 255))


def step_cost(costmap: NDArray[np.uint8], a: Cell, b: Cell, cost_weight: float) -> float:
    costs = [128.0 if costmap[cell] == 255 else float(costmap[cell]) for cell in (a, b)]
    return math.hypot(a[0] - b[0], a[1] - b[1]) * (1.0 + cost_weight * sum(costs) / 2.0 / 252.0)


def neighbours(costmap: NDArray[np.uint8], cell: Cell, allow_unknown: bool) -> list[Cell]:
    row, col = cell
    found = []
    for drow in (-1, 0, 1):
        for dcol in (-1, 0, 1):
            if (drow or dcol) and all(
                passable(costmap, r, c, allow_unknown)
                for r, c in ((row + drow, col + dcol), (row + drow, col), (row, col + dcol))
            ):
                found.append((row + drow, col + dcol))
    return found


def dijkstra(
    costmap: NDArray[np.uint8], sources: list[Cell], cost_weight: float, allow_unknown: bool
) -> NDArray[np.float64]:
    """Return the cost from the nearest source to every cell, inf where none leads."""
    best = np.full(costmap.shape, np.inf)
    queue = [(0.0, cell) for cell in sources if passable(costmap, *cell, allow_unknown)]
    for _, cell in queue:
        best[cell] = 0.0
    while queue:
        cost, cell = heapq.heappop(queue)
        if cost > best[cell]:
            continue
        for other in neighbours(costmap, cell, allow_unknown):
            total = cost + step_cost(costmap, cell, other, cost_weight)
            if total < best[other]:
                best[other] = total
                heapq.heappush(queue, (total, other))
    return best


def random_costmap(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Return a costmap of random costs, obstacles and unknown cells."""
    costmap = rng.integers(0, 253, shape).astype(np.uint8)
    draw = rng.random(shape)
    costmap[draw < 0.35] = 0
    costmap[draw < 0.22] = rng.choice([253, 254])
    costmap[draw > 0.88] = 255
    return costmap
