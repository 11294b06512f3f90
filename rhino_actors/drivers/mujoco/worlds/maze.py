"""A maze of 20 x 14 m: two-metre corridors with some loops, walls in many colours, and one narrowed dead end."""

from dataclasses import replace

import numpy as np

from rhino_actors.drivers.mujoco.worlds.draws import draw_until_usable
from rhino_actors.drivers.mujoco.worlds.plan import (
    BOOKS,
    TRAP_WIDTH,
    WALL,
    Area,
    Plan,
    plaster,
)
from rhino_actors.drivers.mujoco.worlds.routes import plan_walks
from rhino_actors.drivers.mujoco.worlds.scene import Light, Material, World

COLUMNS, ROWS = 10, 7
CELL = 2.0  # [m]
START_CELL = (3, 0)  # row, column
WALL_HEIGHT = 1.8  # [m]
LOOPS = 0.18  # share of the inner walls that are left after carving and taken away
PEOPLE = 4
CORNER = 0.002  # [m] by which a wall ends before the outer face of the one that it meets

MATERIALS = (
    Material(
        "floor",
        "checker",
        (0.52, 0.50, 0.46),
        (0.46, 0.44, 0.41),
        "edge",
        (0.36, 0.34, 0.31),
        (0.5, 0.5),
    ),
    plaster("plaster", (0.84, 0.80, 0.72)),
    Material(
        "brick",
        "checker",
        (0.66, 0.34, 0.26),
        (0.60, 0.30, 0.23),
        "edge",
        (0.78, 0.74, 0.68),
        cube=True,
    ),
    Material(
        "blue",
        "checker",
        (0.26, 0.42, 0.62),
        (0.32, 0.50, 0.70),
        "edge",
        (0.20, 0.32, 0.48),
        cube=True,
    ),
    Material(
        "green",
        "checker",
        (0.34, 0.52, 0.36),
        (0.42, 0.60, 0.42),
        "random",
        (0.24, 0.38, 0.26),
        cube=True,
    ),
    Material(
        "ochre",
        "gradient",
        (0.82, 0.64, 0.30),
        (0.70, 0.50, 0.20),
        "random",
        (0.56, 0.40, 0.16),
        cube=True,
    ),
)
WALLS = ("plaster", "brick", "blue", "green", "ochre")

Cell = tuple[int, int]


def generate(seed: int) -> World:
    """Return the maze of this seed."""
    return draw_until_usable(seed, lambda rng: _draw(seed, rng))


def _draw(seed: int, rng: np.random.Generator) -> World:
    start = ((START_CELL[1] + 0.5) * CELL, (START_CELL[0] + 0.5) * CELL)
    plan = Plan(rng, start)
    ways = _carve(rng)
    ways.add((START_CELL, (START_CELL[0], START_CELL[1] + 1)))
    _walls(plan, rng, ways)
    ends = _dead_ends(ways)
    if ends:
        _narrow(plan, *ends[int(rng.integers(len(ends)))])
    for row in range(ROWS):
        for column in range(COLUMNS):
            plan.spot((column + 0.5) * CELL, (row + 0.5) * CELL)
    x, y = start
    lamps = [
        (c * CELL * COLUMNS / 4, r * CELL * ROWS / 3)
        for r in (0.5, 1.5, 2.5)
        for c in (0.5, 1.5, 2.5, 3.5)
    ]
    world = World(
        name="maze",
        seed=seed,
        boxes=tuple(plan.boxes),
        materials=MATERIALS,
        lights=tuple(Light((px - x, py - y, 3.2), (0.66, 0.64, 0.60)) for px, py in lamps),
        interior=(-x, -y, COLUMNS * CELL - x, ROWS * CELL - y),
        traps=tuple(plan.traps),
        start=start,
        is_roofed=False,
    )
    return replace(world, people=plan_walks(world, plan.spots, PEOPLE, rng))


def _carve(rng: np.random.Generator) -> set[tuple[Cell, Cell]]:
    """Return the open sides, each as (lower cell, higher cell): a tree by depth-first search, then some loops."""
    ways: set[tuple[Cell, Cell]] = set()
    stack, seen = [START_CELL], {START_CELL}
    while stack:
        fresh = [cell for cell in _around(stack[-1]) if cell not in seen]
        if not fresh:
            stack.pop()
            continue
        cell = fresh[int(rng.integers(len(fresh)))]
        ways.add(_side(stack[-1], cell))
        seen.add(cell)
        stack.append(cell)
    closed = [side for side in _sides() if side not in ways]
    for index in rng.permutation(len(closed))[: round(LOOPS * len(closed))]:
        ways.add(closed[int(index)])
    return ways


def _around(cell: Cell) -> list[Cell]:
    row, column = cell
    near = [(row, column + 1), (row + 1, column), (row, column - 1), (row - 1, column)]
    return [(r, c) for r, c in near if 0 <= r < ROWS and 0 <= c < COLUMNS]


def _side(one: Cell, other: Cell) -> tuple[Cell, Cell]:
    return (min(one, other), max(one, other))


def _sides() -> list[tuple[Cell, Cell]]:
    cells = [(row, column) for row in range(ROWS) for column in range(COLUMNS)]
    return [(cell, other) for cell in cells for other in _around(cell) if cell < other]


def _dead_ends(ways: set[tuple[Cell, Cell]]) -> list[tuple[Cell, Cell]]:
    """Return (dead end, the cell before it) for every dead end but the start."""
    ends = []
    for row in range(ROWS):
        for column in range(COLUMNS):
            cell = (row, column)
            open_to = [other for other in _around(cell) if _side(cell, other) in ways]
            if len(open_to) == 1 and cell != START_CELL and open_to[0] != START_CELL:
                ends.append((cell, open_to[0]))
    return ends


def _walls(plan: Plan, rng: np.random.Generator, ways: set[tuple[Cell, Cell]]) -> None:
    """Build the walls, neighbours in one line as one box."""
    for row in range(ROWS + 1):
        closed = [
            row in (0, ROWS) or ((row - 1, column), (row, column)) not in ways
            for column in range(COLUMNS)
        ]
        for begin, end in _runs(closed):
            _wall(plan, rng, "x", row * CELL, (begin * CELL, end * CELL), edge=row in (0, ROWS))
    for column in range(COLUMNS + 1):
        closed = [
            column in (0, COLUMNS) or ((row, column - 1), (row, column)) not in ways
            for row in range(ROWS)
        ]
        for begin, end in _runs(closed):
            _wall(
                plan,
                rng,
                "y",
                column * CELL,
                (begin * CELL, end * CELL),
                edge=column in (0, COLUMNS),
            )


def _wall(
    plan: Plan,
    rng: np.random.Generator,
    along: str,
    at: float,
    span: tuple[float, float],
    *,
    edge: bool,
) -> None:
    # A sign on some faces tells places apart.
    half = WALL / 2.0
    across = (at - half, at + half)
    # Ends that lie in another wall's face would flicker through it.
    reach = half - CORNER if along == "x" else half
    length = (span[0] - reach, span[1] + reach)
    look = WALLS[int(rng.integers(len(WALLS)))]
    x, y = (length, across) if along == "x" else (across, length)
    plan.box("wall", x, y, (0.0, WALL_HEIGHT), look)
    for face in (at - half, at + half):
        if plan.chance(0.5):
            middle = plan.vary(span[0] + 0.5, span[1] - 0.5)
            low = plan.vary(0.5, 0.9)
            plan.panel(
                along, face, (middle - 0.35, middle + 0.35), (low, low + 0.6), plan.pick(BOOKS)
            )


def _runs(closed: list[bool]) -> list[tuple[int, int]]:
    runs, begin = [], None
    for index, is_closed in enumerate([*closed, False]):
        if is_closed and begin is None:
            begin = index
        elif not is_closed and begin is not None:
            runs.append((begin, index))
            begin = None
    return runs


def _narrow(plan: Plan, end: Cell, before: Cell) -> None:
    """Leave a gap of TRAP_WIDTH between a dead end and the cell before it."""
    half, thick = WALL / 2.0, 0.3
    row, column = end
    x0, y0 = column * CELL, row * CELL
    pocket = Area((x0 + half, x0 + CELL - half), (y0 + half, y0 + CELL - half))
    middle_x, middle_y = pocket.middle
    gap = TRAP_WIDTH / 2.0
    if before[0] == row:
        at = x0 + CELL if before[1] > column else x0
        for y in ((pocket.y[0], middle_y - gap), (middle_y + gap, pocket.y[1])):
            plan.box("gate", (at - thick / 2, at + thick / 2), y, (0.0, 1.0), "ochre")
        plan.trap(at, middle_y, pocket)
    else:
        at = y0 + CELL if before[0] > row else y0
        for x in ((pocket.x[0], middle_x - gap), (middle_x + gap, pocket.x[1])):
            plan.box("gate", x, (at - thick / 2, at + thick / 2), (0.0, 1.0), "ochre")
        plan.trap(middle_x, at, pocket)
