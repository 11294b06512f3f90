"""Loops for people to walk: through doors, around furniture, away from where the robot starts. Stands on numpy."""

import math

import numpy as np
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.worlds.scene import Rgb, Walk, World
from rhino_actors.messages.grid import FREE, GridGeometry

RESOLUTION = 0.10  # [m]
CLEARANCE = 0.32  # [m] that a person's middle keeps from walls and furniture
START_CLEARANCE = 1.5  # [m] that it keeps from the robot's start
SPEEDS = (0.6, 1.0)  # [m/s]
STOPS = 3  # places that a loop touches
MIN_LENGTH = 6.0  # [m]
ATTEMPTS = 40

SHIRTS: tuple[Rgb, ...] = (
    (0.75, 0.20, 0.18),
    (0.18, 0.40, 0.70),
    (0.90, 0.72, 0.20),
    (0.25, 0.55, 0.35),
    (0.85, 0.85, 0.82),
)
TROUSERS: tuple[Rgb, ...] = ((0.16, 0.18, 0.26), (0.30, 0.26, 0.22), (0.10, 0.10, 0.11))


def plan_walks(
    world: World, spots: list[tuple[float, float]], count: int, rng: np.random.Generator
) -> tuple[Walk, ...]:
    """Plan `count` loops, or as many as can be found, over places that people like.

    Args:
        world: its solid boxes are walked around.
        spots: places [m] in odom; a loop touches STOPS of them, each as near as a person can get.
        count: of people.
        rng: draws the places, speeds and clothes.
    """
    truth = world.truth_grid(RESOLUTION, robot_radius=CLEARANCE, min_height=0.03, max_height=1.75)
    geometry = truth.geometry
    rows, cols = np.indices(geometry.shape)
    x = geometry.origin[0] + (cols + 0.5) * RESOLUTION
    y = geometry.origin[1] + (rows + 0.5) * RESOLUTION
    far = np.hypot(x, y) > START_CLEARANCE
    passable = truth.reachable & (truth.occupancy == FREE) & far
    cells = np.argwhere(passable)
    walks: list[Walk] = []
    for _ in range(ATTEMPTS):
        if len(walks) >= count or len(cells) == 0 or len(spots) < STOPS:
            break
        chosen = [spots[int(i)] for i in rng.permutation(len(spots))[:STOPS]]
        stops = [_nearest(cells, geometry, spot) for spot in chosen]
        loop = _loop(passable, stops)
        if loop is None:
            continue
        points = tuple(
            geometry.world_from_cell(row, col) for row, col in _straightened(passable, loop)
        )
        if _length(points) >= MIN_LENGTH:
            number = len(walks)
            walks.append(
                Walk(
                    points,
                    float(rng.uniform(*SPEEDS)),
                    SHIRTS[number % len(SHIRTS)],
                    TROUSERS[number % len(TROUSERS)],
                )
            )
    return tuple(walks)


def _nearest(
    cells: NDArray[np.int64], geometry: GridGeometry, spot: tuple[float, float]
) -> tuple[int, int]:
    row, col = geometry.cell_from_world(*spot)
    best = cells[int(np.argmin((cells[:, 0] - row) ** 2 + (cells[:, 1] - col) ** 2))]
    return int(best[0]), int(best[1])


def _loop(
    passable: NDArray[np.bool_], stops: list[tuple[int, int]]
) -> list[tuple[int, int]] | None:
    """Return the cells of the way over all stops and back, or None when two are not joined."""
    loop: list[tuple[int, int]] = []
    for begin, end in zip(stops, stops[1:] + stops[:1], strict=True):
        leg = _shortest(passable, begin, end)
        if leg is None:
            return None
        loop += leg[:-1]
    return loop or None


def _shortest(
    passable: NDArray[np.bool_], begin: tuple[int, int], end: tuple[int, int]
) -> list[tuple[int, int]] | None:
    """Return a shortest 4-connected way, both ends included: whole fronts at once, then back from the end."""
    rows, cols = passable.shape
    padded = np.pad(passable, 1)
    width = cols + 2
    steps = np.array((1, -1, width, -width))
    distance = np.where(padded, -1, -2).reshape(-1)
    first, last = ((row + 1) * width + col + 1 for row, col in (begin, end))
    front = np.array([first])
    distance[first] = 0
    while distance[last] == -1 and len(front):
        reached = (front[:, None] + steps).reshape(-1)
        reached = np.unique(reached[distance[reached] == -1])
        distance[reached] = distance[front[0]] + 1
        front = reached
    if distance[last] < 0:
        return None
    way, cell = [last], last
    while cell != first:
        around = cell + steps
        cell = int(around[np.flatnonzero(distance[around] == distance[cell] - 1)[0]])
        way.append(cell)
    return [(cell // width - 1, cell % width - 1) for cell in reversed(way)]


def _straightened(
    passable: NDArray[np.bool_], loop: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the corners of the loop when every stretch that can be walked straight is."""
    corners, at, end = [loop[0]], 0, len(loop)
    while at < end - 1:
        low, high = at + 1, end - 1
        while low < high:  # sight over a way is lost once; where it comes back does not matter
            middle = (low + high + 1) // 2
            if _sees(passable, loop[at], loop[middle]):
                low = middle
            else:
                high = middle - 1
        at = low
        corners.append(loop[at])
    return corners


def _sees(passable: NDArray[np.bool_], one: tuple[int, int], other: tuple[int, int]) -> bool:
    count = 2 * max(abs(one[0] - other[0]), abs(one[1] - other[1])) + 1
    rows = np.round(np.linspace(one[0], other[0], count)).astype(int)
    cols = np.round(np.linspace(one[1], other[1], count)).astype(int)
    return bool(np.all(passable[rows, cols]))


def _length(points: tuple[tuple[float, float], ...]) -> float:
    return sum(math.dist(a, b) for a, b in zip(points, points[1:] + points[:1], strict=True))
