"""A warehouse of 40 x 25 m: racks with pallets and empty bays, a loading floor, packing tables, a cabin, a trap."""

from dataclasses import replace

import numpy as np

from rhino_actors.drivers.mujoco.worlds.draws import draw_until_usable
from rhino_actors.drivers.mujoco.worlds.plan import (
    DARK,
    FABRICS,
    OAK,
    TRAP_WIDTH,
    Area,
    Plan,
    Span,
    plaster,
)
from rhino_actors.drivers.mujoco.worlds.routes import plan_walks
from rhino_actors.drivers.mujoco.worlds.scene import Light, Material, Rgb, World

PLAN_SIZE = (40.0, 25.0)  # [m]
START = (4.0, 12.5)  # [m] on the loading floor
WALL = 0.2  # [m] thickness
WALL_HEIGHT = 4.5  # [m]
RACK_DEPTH = 1.1  # [m]
BAY = 2.75  # [m]
POST = 0.10  # [m]
SHELVES = (1.55, 2.95)  # [m] undersides
RACK_HEIGHT = 3.9  # [m]
RACK_ROWS = (3.6, 8.6, 16.4, 21.4)  # [m] middle lines of the double racks
PEOPLE = 2

STEEL_BLUE: Rgb = (0.16, 0.30, 0.55)
BEAM: Rgb = (0.88, 0.48, 0.12)
CARDBOARD: tuple[Rgb, ...] = (
    (0.72, 0.56, 0.38),
    (0.66, 0.50, 0.33),
    (0.78, 0.64, 0.46),
    (0.55, 0.60, 0.64),
    (0.36, 0.46, 0.40),
)
MATERIALS = (
    Material(
        "floor",
        "checker",
        (0.50, 0.51, 0.51),
        (0.47, 0.48, 0.48),
        "edge",
        (0.40, 0.41, 0.41),
        (0.25, 0.25),
    ),
    plaster("plaster", (0.76, 0.78, 0.80)),
    plaster("plaster_blue", (0.56, 0.64, 0.72)),
    Material(
        "wood",
        "gradient",
        (0.62, 0.46, 0.28),
        (0.50, 0.36, 0.21),
        "random",
        (0.40, 0.28, 0.16),
        cube=True,
    ),
    Material(
        "carton",
        "flat",
        (0.72, 0.56, 0.38),
        (0.72, 0.56, 0.38),
        "cross",
        (0.55, 0.42, 0.28),
        cube=True,
    ),
    Material("line", "", (0.92, 0.78, 0.14)),
    Material(
        "gate",
        "checker",
        (0.80, 0.82, 0.84),
        (0.70, 0.72, 0.75),
        "edge",
        (0.5, 0.52, 0.55),
        cube=True,
    ),
)


def generate(seed: int) -> World:
    """Return the warehouse of this seed."""
    return draw_until_usable(seed, lambda rng: _draw(seed, rng))


def _draw(seed: int, rng: np.random.Generator) -> World:
    plan = Plan(rng, START)
    width, depth = PLAN_SIZE
    half = WALL / 2.0
    for at in (half, depth - half):
        plan.box("wall", (0.0, width), (at - half, at + half), (0.0, WALL_HEIGHT), "plaster")
    for at in (half, width - half):
        plan.box(
            "wall", (at - half, at + half), (WALL, depth - WALL), (0.0, WALL_HEIGHT), "plaster_blue"
        )
    plan.keep_free(Area((START[0] - 1.0, START[0] + 4.5), (START[1] - 1.2, START[1] + 1.2)))
    begin = plan.vary(9.6, 10.4)
    aisle = plan.vary(2.4, 2.9)
    left = (begin, begin + 4 * BAY)
    right = (left[1] + aisle, left[1] + aisle + 4 * BAY)
    for row in RACK_ROWS:
        for block in (left, right):
            for back in (-1, 1):
                _rack(plan, block, row, back)
            plan.claim(Area(block, (row - RACK_DEPTH, row + RACK_DEPTH)))
    _cabin(plan, Area((width - WALL - 4.0, width - WALL), (WALL, WALL + 3.6)))
    _pen(plan)
    _loading_floor(plan, rng)
    _packing(plan, Area((right[1] + 1.4, width - WALL), (6.0, depth - WALL)))
    for y in (12.5, 6.1, 18.9):
        plan.box("line", (begin, right[1]), (y - 0.04, y + 0.04), (0.0, 0.003), "line", solid=False)
    for x in (2.0, 8.6, left[1] + aisle / 2, right[1] + 1.2):
        for y in (1.2, 6.1, 12.5, 18.9, 23.8):
            plan.spot(x, y)
    x, y = START
    lamps = [(px, py) for px in (4.0, 12.0, 20.0, 28.0, 36.0) for py in (6.1, 12.5, 18.9)]
    world = World(
        name="warehouse",
        seed=seed,
        boxes=tuple(plan.boxes),
        materials=MATERIALS,
        lights=tuple(Light((px - x, py - y, 4.6), (0.66, 0.66, 0.64)) for px, py in lamps),
        interior=(-x, -y, width - x, depth - y),
        traps=tuple(plan.traps),
        start=START,
        is_roofed=False,
    )
    return replace(world, people=plan_walks(world, plan.spots, PEOPLE, rng))


def _rack(plan: Plan, x: Span, row: float, back: int) -> None:
    """Build one side of a double rack: posts, beams, loads; some bays are empty down to the floor."""
    face = row + back * RACK_DEPTH
    y = (min(row, face), max(row, face))
    bays = round((x[1] - x[0]) / BAY)
    for index in range(bays + 1):
        at = min(max(x[0] + index * BAY, x[0] + POST / 2), x[1] - POST / 2)
        front = (face - POST, face) if back > 0 else (face, face + POST)
        plan.box("post", (at - POST / 2, at + POST / 2), front, (0.0, RACK_HEIGHT), STEEL_BLUE)
    if back > 0:
        plan.box("rack_back", x, (row - 0.02, row + 0.02), (0.0, RACK_HEIGHT), (0.30, 0.33, 0.38))
    for shelf in SHELVES:
        plan.box("beam", x, (y[0] + 0.02, y[1] - 0.02), (shelf, shelf + 0.10), BEAM)
    for index in range(bays):
        low, high = x[0] + index * BAY + POST / 2 + 0.04, x[0] + (index + 1) * BAY - POST / 2 - 0.04
        inner = (y[0] + 0.05, y[1] - 0.06) if back > 0 else (y[0] + 0.06, y[1] - 0.05)
        if plan.chance(0.82):
            _load(plan, (low, high), inner, 0.0, plan.vary(0.75, 1.3))
        if plan.chance(0.7):
            _load(
                plan,
                (low, high - plan.vary(0.0, 1.2)),
                inner,
                SHELVES[0] + 0.10,
                plan.vary(0.6, 1.1),
            )


def _load(plan: Plan, x: Span, y: Span, bottom: float, height: float) -> None:
    plan.box("pallet", x, y, (bottom, bottom + 0.14), "wood")
    inset = (x[0] + 0.05, x[1] - 0.05), (y[0] + 0.04, y[1] - 0.04)
    look: str | Rgb = "carton" if plan.chance(0.4) else plan.pick(CARDBOARD)
    plan.box("load", *inset, (bottom + 0.14, bottom + height), look)


def _loading_floor(plan: Plan, rng: np.random.Generator) -> None:
    """Stand pallets about in front of the gates."""
    floor = Area((WALL, 8.4), (WALL, PLAN_SIZE[1] - WALL))
    for y in (3.0, 8.0, 17.0, 22.0):
        plan.panel("y", WALL + 0.005, (y - 1.5, y + 1.5), (0.0, 3.2), (0.72, 0.74, 0.77))
        plan.box("line", (WALL, 3.2), (y - 1.54, y - 1.46), (0.0, 0.003), "line", solid=False)
    for _ in range(int(rng.integers(9, 14))):
        place = (
            plan.standing(floor, 1.2, 0.8) if plan.chance(0.5) else plan.standing(floor, 0.8, 1.2)
        )
        if place is not None:
            _load(plan, *place, 0.0, plan.vary(0.5, 1.4))
    place = plan.standing(floor, 2.2, 1.1)
    if place is not None:
        x0, x1 = place.x
        across = place.y
        plan.box("truck", (x0, x0 + 1.3), across, (0.10, 1.1), (0.90, 0.62, 0.10))
        roof = (across[0] + 0.08, across[1] - 0.08)
        plan.box("truck_roof", (x0 + 0.1, x0 + 1.2), roof, (1.1, 2.0), DARK)
        middle = sum(across) / 2.0
        for side in (-0.3, 0.3):
            fork = (middle + side - 0.06, middle + side + 0.06)
            plan.box("fork", (x0 + 1.3, x1), fork, (0.09, 0.14), DARK)


def _packing(plan: Plan, area: Area) -> None:
    """Set up packing tables along the far wall, and bins between them."""
    for _ in range(4):
        found = plan.against(area, 2.2, 0.8, "e")
        if found is not None:
            plan.table(*found[0], along="y")
            (x0, x1), (y0, _) = found[0]
            plan.box("carton", (x0 + 0.15, x1 - 0.1), (y0 + 0.2, y0 + 0.7), (0.74, 1.05), "carton")
    for _ in range(3):
        found = plan.against(area, 0.8, 0.8, "en")
        if found is not None:
            plan.box("bin", *found[0], (0.0, 0.9), plan.pick(FABRICS))


def _cabin(plan: Plan, area: Area) -> None:
    """Build an office cabin in the corner, its door to the west."""
    (x0, x1), (y0, y1) = area
    thick = 0.10
    door = (y0 + 1.0, y0 + 2.05)
    for y in ((y0, door[0]), (door[1], y1)):
        plan.box("cabin", (x0, x0 + thick), y, (0.0, 2.4), "plaster")
    plan.box("cabin_lintel", (x0, x0 + thick), door, (2.05, 2.4), "plaster")
    plan.box("cabin", (x0, x1), (y1, y1 + thick), (0.0, 2.4), "plaster_blue")
    plan.table((x1 - 0.8, x1), (y0 + 0.9, y0 + 2.4), along="y")
    plan.seat((x1 - 0.4, y0 + 1.65, 0.0), 0.75)
    plan.box("locker", (x0 + 1.3, x0 + 2.3), (y1 - 0.45, y1), (0.0, 1.9), (0.45, 0.52, 0.58))
    plan.claim(Area((x0 - 1.0, x1), (y0, y1 + thick)))
    plan.spot(x0 + 1.4, y0 + 1.5)


def _pen(plan: Plan) -> None:
    """Fence off a corner of the loading floor with stacks that leave a gap too narrow to go through."""
    size, thick = 2.0, 0.8
    top = PLAN_SIZE[1] - WALL
    pocket = Area((WALL, WALL + size), (top - size, top))
    row = (pocket.y[0] - thick, pocket.y[0])
    column = (pocket.x[1], pocket.x[1] + thick)
    gap = plan.vary(WALL + 0.5, pocket.x[1] - TRAP_WIDTH - 0.3)
    _stack(plan, Area((WALL, gap), row), 1.1)
    _stack(plan, Area((gap + TRAP_WIDTH, column[1]), row), 1.3)
    _stack(plan, Area(column, pocket.y), 1.2)
    plan.claim(Area((WALL, column[1]), (row[0], top)))
    plan.trap(gap + TRAP_WIDTH / 2.0, sum(row) / 2.0, pocket)


def _stack(plan: Plan, area: Area, height: float) -> None:
    plan.box("pallet", *area, (0.0, 0.14), "wood")
    plan.box("load", *area, (0.14, height), "carton" if plan.chance(0.5) else OAK)
