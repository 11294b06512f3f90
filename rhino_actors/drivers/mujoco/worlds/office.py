"""An office floor of 30 x 20 m: rooms on both sides of a corridor, open-plan floors, a kitchen, a store with a trap.

The order and width of the rooms, their doors, furniture and colours vary with the seed.
"""

import math
from dataclasses import replace

import numpy as np

from rhino_actors.drivers.mujoco.worlds.draws import draw_until_usable
from rhino_actors.drivers.mujoco.worlds.plan import (
    DARK,
    FABRICS,
    OAK,
    PASSAGE,
    SKY,
    STEEL,
    TRAP_WIDTH,
    WALL,
    WALL_HEIGHT,
    WHITE,
    Area,
    Plan,
    Span,
    plaster,
)
from rhino_actors.drivers.mujoco.worlds.routes import plan_walks
from rhino_actors.drivers.mujoco.worlds.scene import Light, Material, World

PLAN_SIZE = (30.0, 20.0)  # [m]
CORRIDOR = (9.0, 11.2)  # [m] middle lines of its walls
START = (2.0, 10.1)  # [m] in the corridor
PEOPLE = 3

LAMP = (0.62, 0.60, 0.57)
MATERIALS = (
    Material(
        "floor",
        "checker",
        (0.56, 0.57, 0.58),
        (0.50, 0.51, 0.53),
        "edge",
        (0.38, 0.39, 0.41),
        (1.0, 1.0),
    ),
    Material(
        "carpet",
        "checker",
        (0.40, 0.50, 0.58),
        (0.35, 0.44, 0.52),
        "cross",
        (0.28, 0.35, 0.43),
        (2.0, 2.0),
    ),
    Material(
        "carpet_warm",
        "checker",
        (0.60, 0.46, 0.38),
        (0.53, 0.41, 0.34),
        "cross",
        (0.43, 0.32, 0.26),
        (2.0, 2.0),
    ),
    Material(
        "tiles",
        "checker",
        (0.82, 0.82, 0.80),
        (0.62, 0.66, 0.68),
        "edge",
        (0.5, 0.5, 0.5),
        (1.5, 1.5),
    ),
    plaster("plaster", (0.86, 0.85, 0.82)),
    plaster("plaster_blue", (0.60, 0.70, 0.80)),
    plaster("plaster_green", (0.66, 0.78, 0.68)),
    plaster("plaster_sand", (0.84, 0.76, 0.62)),
    Material(
        "wood",
        "gradient",
        (0.66, 0.50, 0.32),
        (0.54, 0.39, 0.23),
        "random",
        (0.44, 0.31, 0.18),
        cube=True,
    ),
    Material(
        "felt",
        "flat",
        (0.40, 0.46, 0.52),
        (0.40, 0.46, 0.52),
        "random",
        (0.30, 0.36, 0.42),
        cube=True,
    ),
    Material("paint", "", (0.93, 0.93, 0.91), emission=0.45),
)
WALLS = ("plaster", "plaster_blue", "plaster_green", "plaster_sand")


def generate(seed: int) -> World:
    """Return the office of this seed."""
    return draw_until_usable(seed, lambda rng: _draw(seed, rng))


def _draw(seed: int, rng: np.random.Generator) -> World:
    plan = Plan(rng, START)
    width, depth = PLAN_SIZE
    half = WALL / 2.0
    for at in (half, depth - half):
        plan.wall("x", at, (0.0, width))
    for at in (half, width - half):
        plan.wall("y", at, (WALL, depth - WALL))
    plan.box(
        "ceiling",
        (0.0, width),
        (0.0, depth),
        (WALL_HEIGHT, WALL_HEIGHT + 0.05),
        "paint",
        solid=False,
    )
    corridor = Area((WALL, width - WALL), (CORRIDOR[0] + half, CORRIDOR[1] - half))
    plan.keep_free(Area((START[0] - 1.6, START[0] + 2.6), corridor.y))
    south = (("open", 12.5), ("meeting", 6.0), ("office", 5.2), ("office", 5.2))
    north = (("office", 4.6), ("kitchen", 6.6), ("store", 4.2), ("open", 9.0), ("office", 4.6))
    lights: list[tuple[float, float]] = [(x, sum(CORRIDOR) / 2.0) for x in (4.0, 15.0, 26.0)]
    _row(plan, rng, south, (WALL, CORRIDOR[0] - half), CORRIDOR[0], lights)
    _row(plan, rng, north, (CORRIDOR[1] + half, depth - WALL), CORRIDOR[1], lights)
    for _ in range(3):
        _piece(plan, corridor, "bench", 1.3, 0.42, 0.45, plan.pick(FABRICS))
    for _ in range(2):
        _piece(plan, corridor, "copier", 0.7, 0.6, 1.05, STEEL)
    for x in (1.2, width / 2.0, width - 1.2):
        plan.spot(x, sum(CORRIDOR) / 2.0)
    x, y = START
    world = World(
        name="office",
        seed=seed,
        boxes=tuple(plan.boxes),
        materials=MATERIALS,
        lights=tuple(Light((px - x, py - y, WALL_HEIGHT - 0.15), LAMP) for px, py in lights),
        interior=(-x, -y, width - x, depth - y),
        traps=tuple(plan.traps),
        start=START,
    )
    return replace(world, people=plan_walks(world, plan.spots, PEOPLE, rng))


def _row(
    plan: Plan,
    rng: np.random.Generator,
    kinds: tuple[tuple[str, float], ...],
    y: Span,
    corridor_wall: float,
    lights: list[tuple[float, float]],
) -> None:
    """Lay out the rooms of one side of the corridor, from low to high x."""
    order = [kinds[int(i)] for i in rng.permutation(len(kinds))]
    widths = np.array([width for _, width in order]) * rng.uniform(0.92, 1.08, len(order))
    edges = np.concatenate([[0.0], np.cumsum(widths)]) * PLAN_SIZE[0] / widths.sum()
    doors: list[Span] = []
    below = corridor_wall == CORRIDOR[0]  # the corridor lies on the room's high side
    passages: list[Span] = []
    for index, (kind, _) in enumerate(order):
        room = Area((float(edges[index]) + WALL / 2, float(edges[index + 1]) - WALL / 2), y)
        if index == 0:
            room = Area((WALL, room.x[1]), y)
        if index == len(order) - 1:
            room = Area((room.x[0], PLAN_SIZE[0] - WALL), y)
        for share in (0.28, 0.72) if kind == "open" else (None,):
            wide = 1.5 if kind == "open" else plan.vary(1.0, 1.15)
            low, high = room.x[0] + 0.5, room.x[1] - 0.5 - wide
            at = plan.vary(low, high) if share is None else low + share * (high - low)
            doors.append((at, at + wide))
            zone = (corridor_wall - 1.3, corridor_wall + 1.3)
            plan.keep_free(Area((at - 0.1, at + wide + 0.1), zone))
        if index and kind != "store" and order[index - 1][0] != "store" and plan.chance(0.5):
            across = plan.vary(y[0] + 1.0, y[1] - 2.1)
            passages.append((across, across + 1.05))
            middle = float(edges[index])
            plan.keep_free(Area((middle - 1.2, middle + 1.2), (across - 0.1, across + 1.15)))
        else:
            passages.append((math.nan, math.nan))
    look = WALLS[int(rng.integers(len(WALLS)))]
    plan.wall("x", corridor_wall, (WALL, PLAN_SIZE[0] - WALL), tuple(doors), look)
    for index, (kind, _) in enumerate(order):
        if index:
            gap = passages[index]
            openings = () if math.isnan(gap[0]) else (gap,)
            plan.wall("y", float(edges[index]), y, openings, WALLS[int(rng.integers(len(WALLS)))])
        room = Area(
            (
                WALL if index == 0 else float(edges[index]) + WALL / 2,
                PLAN_SIZE[0] - WALL
                if index == len(order) - 1
                else float(edges[index + 1]) - WALL / 2,
            ),
            y,
        )
        _FURNISH[kind](plan, room, "s" if below else "n")
        plan.spot(*room.middle)
        lights += _lamps(room)
        outside = y[0] + 0.01 if below else y[1] - 0.01
        for low in np.arange(room.x[0] + 0.6, room.x[1] - 1.6, 2.6):
            plan.panel("x", outside, (float(low), float(low) + 1.3), (0.95, 2.05), SKY)


def _lamps(room: Area) -> list[tuple[float, float]]:
    count = max(1, round((room.x[1] - room.x[0]) / 6.0))
    step = (room.x[1] - room.x[0]) / count
    return [(room.x[0] + (i + 0.5) * step, room.middle[1]) for i in range(count)]


def _piece(
    plan: Plan,
    room: Area,
    name: str,
    length: float,
    depth: float,
    height: float,
    look: str | tuple[float, float, float],
    sides: str = "nesw",
) -> Area | None:
    """Put a box against a wall of the room, if there is floor for it."""
    found = plan.against(room, length, depth, sides)
    if found is None:
        return None
    plan.box(name, *found[0], (0.0, height), look)
    return found[0]


def _greenery(plan: Plan, room: Area, count: int) -> None:
    for _ in range(count):
        found = plan.against(room, 0.42, 0.42)
        if found is not None:
            plan.plant(*found[0].middle)


def _desk(plan: Plan, area: Area, side: str) -> None:
    """Put a desk against the wall at `side`, a screen on it and a chair before it; the area holds all of it."""
    (x0, x1), (y0, y1) = area
    depth = 0.75
    top = {
        "n": Area((x0, x1), (y1 - depth, y1)),
        "s": Area((x0, x1), (y0, y0 + depth)),
        "e": Area((x1 - depth, x1), (y0, y1)),
        "w": Area((x0, x0 + depth), (y0, y1)),
    }[side]
    plan.table(*top, along="x" if side in "ns" else "y")
    yaw = {"n": math.pi / 2, "s": -math.pi / 2, "e": 0.0, "w": math.pi}[side]
    x, y = top.middle
    plan.turned("screen", (x, y, yaw), (0.14, 0.0), (0.03, 0.6, 0.36), 0.86, DARK)
    plan.turned("screen_foot", (x, y, yaw), (0.14, 0.0), (0.16, 0.16, 0.12), 0.74, DARK)
    plan.seat((x, y, yaw), (x1 - x0 if side in "ns" else y1 - y0) / 2.0)


def _office(plan: Plan, room: Area, far: str) -> None:
    plan.box("carpet", *room.grown(-0.3), (0.0, 0.004), _carpet(plan), solid=False)
    for _ in range(2):
        found = plan.against(room, 1.6, 1.35, far + "ew")
        if found is not None:
            _desk(plan, *found)
    for _ in range(2):
        found = plan.against(room, 1.0, 0.36, "ew")
        if found is not None:
            plan.bookcase(*found[0], plan.vary(1.3, 2.0))
    if plan.chance(0.6):
        _piece(plan, room, "sofa", 1.6, 0.8, 0.42, plan.pick(FABRICS))
    _greenery(plan, room, 1)


def _carpet(plan: Plan) -> str:
    return "carpet" if plan.chance(0.5) else "carpet_warm"


def _open(plan: Plan, room: Area, far: str) -> None:
    """Fill an open-plan floor with islands of four desks, back to back with a screen of felt between."""
    plan.box("carpet", *room.grown(-0.3), (0.0, 0.004), "carpet", solid=False)
    length, deep = 2.8, 2.7  # chairs on both sides included
    rows = 1 if room.y[1] - room.y[0] < 2 * deep + 3 * 1.0 + 0.6 else 2
    count = int((room.x[1] - room.x[0] - 1.2) / (length + 1.2))
    step_x = (room.x[1] - room.x[0]) / max(count, 1)
    usable = (room.y[0], room.y[1] - 1.2) if far == "s" else (room.y[0] + 1.2, room.y[1])
    step_y = (usable[1] - usable[0]) / rows
    for row in range(rows):
        for column in range(count):
            if plan.chance(0.15):
                continue
            x = room.x[0] + (column + 0.5) * step_x + plan.vary(-0.12, 0.12)
            y = usable[0] + (row + 0.5) * step_y + plan.vary(-0.12, 0.12)
            _island(plan, Area((x - length / 2, x + length / 2), (y - deep / 2, y + deep / 2)))
    for _ in range(3):
        _piece(plan, room, "cabinet", 1.2, 0.45, 1.1, WHITE)
    _greenery(plan, room, 3)


def _island(plan: Plan, area: Area) -> None:
    plan.claim(area)
    (x0, x1), (y0, y1) = area
    y = (y0 + y1) / 2.0
    plan.box("felt", (x0, x1), (y - 0.02, y + 0.02), (0.35, 1.15), "felt")
    middle = (x0 + x1) / 2.0
    for left, right in ((x0, middle), (middle, x1)):
        plan.table((left + 0.01, right - 0.01), (y + 0.02, y + 0.77))
        plan.table((left + 0.01, right - 0.01), (y - 0.77, y - 0.02))
        for side, yaw in ((1, -math.pi / 2), (-1, math.pi / 2)):
            x = (left + right) / 2.0
            plan.box(
                "screen",
                (x - 0.3, x + 0.3),
                (y + side * 0.2 - 0.015, y + side * 0.2 + 0.015),
                (0.86, 1.22),
                DARK,
            )
            plan.seat((x, y + side * 0.395, yaw), (right - left) / 2.0)


def _meeting(plan: Plan, room: Area, far: str) -> None:
    plan.box("carpet", *room.grown(-0.3), (0.0, 0.004), "carpet_warm", solid=False)
    x, y = room.middle
    half = min(1.7, (room.y[1] - room.y[0]) / 2 - 1.7)
    plan.table((x - 0.6, x + 0.6), (y - half, y + half), along="y")
    plan.claim(Area((x - 1.15, x + 1.15), (y - half - 0.3, y + half + 0.3)))
    seat = plan.pick(FABRICS)
    for at in np.linspace(y - half + 0.5, y + half - 0.5, max(2, int(half / 0.4))):
        for side, yaw in ((-1, 0.0), (1, math.pi)):
            plan.chair(x + side * 0.82, float(at), yaw, seat)
    wall = room.x[0] + 0.01
    plan.panel("y", wall, (y - 1.0, y + 1.0), (0.9, 2.0), WHITE)
    _piece(plan, room, "sideboard", 1.4, 0.42, 0.8, OAK)
    _greenery(plan, room, 2)


def _kitchen(plan: Plan, room: Area, far: str) -> None:
    plan.box("tiles", *room, (0.0, 0.004), "tiles", solid=False)
    found = plan.against(room, 3.4, 0.62, far)
    if found is not None:
        (x0, x1), y = found[0]
        plan.box("counter", (x0, x1 - 0.7), y, (0.0, 0.88), WHITE)
        plan.box("worktop", (x0, x1 - 0.7), y, (0.88, 0.92), OAK)
        plan.box("fridge", (x1 - 0.68, x1), y, (0.0, 1.85), STEEL)
    for _ in range(3):
        place = plan.standing(room, 0.9, 2.2)
        if place is not None:
            x, y0 = place.middle
            plan.table((x - 0.4, x + 0.4), (y0 - 0.45, y0 + 0.45))
            for side, yaw in ((-1, math.pi / 2), (1, -math.pi / 2)):
                plan.chair(x, y0 + side * 0.78, yaw, plan.pick(FABRICS))
    found = plan.against(room, 2.0, 0.85)
    if found is not None:
        plan.box("sofa", *found[0], (0.0, 0.42), plan.pick(FABRICS))
    _greenery(plan, room, 2)


def _store(plan: Plan, room: Area, far: str) -> None:
    """Shelve the walls, and close off the far end but for a gap too narrow to go through."""
    depth, thick = 1.7, 0.5
    (x0, x1), (y0, y1) = room
    pocket = Area(room.x, (y0, y0 + depth)) if far == "s" else Area(room.x, (y1 - depth, y1))
    row = (pocket.y[1], pocket.y[1] + thick) if far == "s" else (pocket.y[0] - thick, pocket.y[0])
    gap = plan.vary(x0 + 0.9, x1 - 0.9 - TRAP_WIDTH)
    for index, x in enumerate(((x0, gap), (gap + TRAP_WIDTH, x1))):
        plan.box("shelf", x, row, (0.0, 1.9 - 0.3 * index), "wood")
    closed = Area(room.x, (min(pocket.y[0], row[0]), max(pocket.y[1], row[1])))
    plan.claim(closed)
    plan.trap(gap + TRAP_WIDTH / 2.0, sum(row) / 2.0, pocket)
    plan.box(
        "crate", (x0 + 0.02, x0 + 0.7), (pocket.y[0] + 0.3, pocket.y[0] + 1.0), (0.0, 0.6), OAK
    )
    rest = Area(room.x, (closed.y[1], y1) if far == "s" else (y0, closed.y[0]))
    for _ in range(4):
        found = plan.against(rest, plan.vary(1.2, 2.0), 0.45, "ew")
        if found is not None:
            plan.bookcase(*found[0], plan.vary(1.5, 2.1))
    if rest.x[1] - rest.x[0] > 2 * PASSAGE + 0.8:
        place = plan.standing(rest, 0.7, 0.7)
        if place is not None:
            plan.box("boxes", *place, (0.0, plan.vary(0.5, 1.1)), OAK)


_FURNISH = {
    "office": _office,
    "open": _open,
    "meeting": _meeting,
    "kitchen": _kitchen,
    "store": _store,
}
