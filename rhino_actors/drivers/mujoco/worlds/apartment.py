"""A furnished apartment: living room, kitchen, hall, bedroom and study, joined by open doors.

Laid out on a floor plan of 11 x 8 m whose lower-left corner is (0, 0); every box is moved so that the start lies at
the origin of odom. Sizes, places and colours of the furniture vary with the seed. A layout in which the robot
reaches too little, or not the floor ahead of its start, is dropped and drawn again, so every seed gives a world.
"""

import math

import numpy as np

from rhino_actors.drivers.mujoco.worlds.plan import (
    BOOKS,
    DARK,
    FABRICS,
    OAK,
    SKY,
    STEEL,
    WALL,
    WALL_HEIGHT,
    WHITE,
    Plan,
    plaster,
)
from rhino_actors.drivers.mujoco.worlds.scene import Light, Material, World

PLAN_SIZE = (11.0, 8.0)  # [m]
START = (1.5, 3.0)  # [m] on the plan, in the living room
MIN_REACHABLE_AREA = 32.0  # [m2] for the centre of a robot of 0.30 m radius
START_CLEARANCE = 0.45  # [m] around the start and the two points ahead that users try first
CLEAR_POINTS = ((0.0, 0.0), (1.0, 0.0), (2.0, 1.0))  # [m] in odom
ATTEMPTS = 200

MATERIALS = (
    Material(
        "floor",
        "checker",
        (0.50, 0.36, 0.23),
        (0.56, 0.41, 0.27),
        "edge",
        (0.38, 0.27, 0.17),
        (0.8, 4.0),
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
    plaster("plaster", (0.86, 0.83, 0.76)),
    plaster("plaster_blue", (0.66, 0.74, 0.80)),
    plaster("plaster_green", (0.70, 0.78, 0.66)),
    Material(
        "wood",
        "gradient",
        (0.58, 0.40, 0.23),
        (0.46, 0.31, 0.17),
        "random",
        (0.38, 0.25, 0.13),
        cube=True,
    ),
    Material(
        "rug",
        "checker",
        (0.66, 0.28, 0.22),
        (0.83, 0.71, 0.52),
        "edge",
        (0.3, 0.12, 0.10),
        (2.0, 2.0),
    ),
    Material("paint", "", (0.93, 0.92, 0.88), emission=0.45),
    Material(
        "rug_blue",
        "checker",
        (0.22, 0.33, 0.50),
        (0.72, 0.76, 0.80),
        "cross",
        (0.9, 0.9, 0.9),
        (1.5, 1.5),
    ),
)


def generate(seed: int) -> World:
    """Return the apartment of this seed."""
    for attempt in range(ATTEMPTS):
        world = _draw(seed, np.random.default_rng([seed, attempt]))
        if _is_usable(world):
            return world
    raise AssertionError(f"no usable apartment in {ATTEMPTS} draws of seed {seed}")


def _is_usable(world: World) -> bool:
    truth = world.truth_grid()
    if truth.reachable_area < MIN_REACHABLE_AREA:
        return False
    roomy = world.truth_grid(robot_radius=START_CLEARANCE).reachable
    return all(roomy[truth.geometry.cell_from_world(x, y)] for x, y in CLEAR_POINTS)


def _draw(seed: int, rng: np.random.Generator) -> World:
    plan = Plan(rng, START)
    _walls(plan)
    _living_room(plan)
    _kitchen(plan)
    _hall(plan)
    _bedroom(plan)
    _study(plan)
    lamps = ((2.0, 2.5), (5.2, 2.5), (2.1, 6.5), (5.6, 6.5), (9.0, 6.4), (9.0, 2.3))
    x, y = START
    return World(
        name="apartment",
        seed=seed,
        boxes=tuple(plan.boxes),
        materials=MATERIALS,
        lights=tuple(Light((px - x, py - y, WALL_HEIGHT - 0.15)) for px, py in lamps),
        interior=(-x, -y, PLAN_SIZE[0] - x, PLAN_SIZE[1] - y),
    )


def _walls(plan: Plan) -> None:
    width, depth = PLAN_SIZE
    half = WALL / 2.0
    plan.wall("x", half, (0.0, width))
    plan.wall("x", depth - half, (0.0, width))
    plan.wall("y", half, (WALL, depth - WALL))
    plan.wall("y", width - half, (WALL, depth - WALL), look="plaster_blue")
    kitchen_door = plan.vary(1.0, 1.4)
    hall_door = plan.vary(4.75, 5.2)
    plan.wall(
        "x",
        5.0,
        (WALL, 7.0 - half),
        ((kitchen_door, kitchen_door + 1.15), (hall_door, hall_door + 1.1)),
        "plaster_green",
    )
    study_door = plan.vary(1.3, 2.0)
    bedroom_door = plan.vary(5.5, 6.2)
    plan.wall(
        "y",
        7.0,
        (WALL, depth - WALL),
        ((study_door, study_door + 1.05), (bedroom_door, bedroom_door + 1.05)),
    )
    service_door = plan.vary(5.4, 5.8)
    plan.wall(
        "y", 4.2, (5.0 + half, depth - WALL), ((service_door, service_door + 1.0),), "plaster_blue"
    )
    plan.wall("x", 4.6, (7.0 + half, width - WALL), look="plaster_green")
    above = (WALL_HEIGHT, WALL_HEIGHT + 0.05)
    plan.box("ceiling", (0.0, width), (0.0, depth), above, "paint", solid=False)


def _living_room(plan: Plan) -> None:
    fabric = plan.pick(FABRICS)
    left = plan.vary(2.7, 3.2)
    right = left + plan.vary(1.9, 2.3)
    plan.box("sofa", (left, right), (0.14, 0.95), (0.0, 0.42), fabric)
    plan.box("sofa_back", (left, right), (0.14, 0.36), (0.42, 0.82), fabric)
    for arm in (left, right - 0.2):
        plan.box("sofa_arm", (arm, arm + 0.2), (0.36, 0.95), (0.42, 0.60), fabric)
    middle = (left + right) / 2.0
    half = plan.vary(0.4, 0.55)
    table_y = plan.vary(1.66, 1.74)
    plan.box("rug", (middle - 1.2, middle + 1.2), (1.0, 2.9), (0.0, 0.006), "rug", solid=False)
    plan.box(
        "coffee_table",
        (middle - half, middle + half),
        (table_y, table_y + 0.5),
        (0.0, 0.40),
        "wood",
    )
    tv = plan.vary(0.5, 0.9)
    plan.box("tv_bench", (0.14, 0.52), (tv, tv + 1.3), (0.0, 0.46), DARK)
    plan.box("tv", (0.16, 0.22), (tv + 0.1, tv + 1.2), (0.62, 1.25), (0.05, 0.05, 0.07))
    board = plan.vary(2.75, 3.0)
    plan.box("sideboard", (board, board + 1.3), (4.56, 4.92), (0.0, 0.78), WHITE)
    plan.panel("x", 4.93, (board + 0.1, board + 1.2), (1.2, 1.9), plan.pick(BOOKS))
    plan.panel("x", 0.13, (1.3, 2.4), (0.9, 2.0), SKY)
    plan.panel("y", 0.13, (3.3, 4.5), (0.9, 2.0), SKY)
    if plan.chance(0.7):
        plan.plant(6.62, plan.vary(0.38, 0.5))
    if plan.chance(0.6):
        plan.bookcase((6.55, 6.92), (3.7, 4.7), plan.vary(1.3, 1.9))


def _kitchen(plan: Plan) -> None:
    counter_end = plan.vary(1.4, 1.8)
    plan.box("tiles", (WALL, 4.14), (5.06, 7.88), (0.0, 0.004), "tiles", solid=False)
    plan.box("counter", (0.14, 0.74), (6.0, 7.86), (0.0, 0.88), WHITE)
    plan.box("worktop", (0.13, 0.76), (6.0, 7.86), (0.88, 0.92), OAK)
    plan.box("counter", (0.74, counter_end), (7.26, 7.86), (0.0, 0.88), WHITE)
    plan.box("worktop", (0.74, counter_end), (7.24, 7.86), (0.88, 0.92), OAK)
    plan.box("cupboard", (0.13, 0.48), (6.2, 7.86), (1.45, 2.1), plan.pick(FABRICS))
    fridge = (counter_end + 0.02, counter_end + 0.66)
    plan.box("fridge", fridge, (7.22, 7.86), (0.0, 1.85), STEEL)
    x = counter_end + plan.vary(0.85, 1.05)
    plan.table((x, x + 1.2), (7.06, 7.80))
    seat = plan.pick(FABRICS)
    plan.chair(x + 0.32, 6.92, math.pi / 2.0, seat)
    if plan.chance(0.7):
        plan.chair(x + 0.88, 6.92, math.pi / 2.0, seat)
    plan.panel("y", 4.13, (7.0, 7.7), (1.2, 1.9), plan.pick(BOOKS))


def _hall(plan: Plan) -> None:
    shelf = plan.vary(5.0, 5.6)
    plan.box("shoe_rack", (shelf, shelf + 1.1), (7.5, 7.86), (0.0, 0.95), OAK)
    plan.panel("y", 4.27, (7.0, 7.8), (1.1, 1.9), plan.pick(BOOKS))
    if plan.chance(0.6):
        plan.box("bench", (4.28, 4.66), (6.95, 7.75), (0.0, 0.45), plan.pick(FABRICS))
    plan.box("runner", (5.1, 5.9), (5.4, 7.3), (0.0, 0.006), "rug_blue", solid=False)


def _bedroom(plan: Plan) -> None:
    width = plan.vary(1.4, 1.6)
    low = plan.vary(5.9, 6.05)
    cover = plan.pick(FABRICS)
    plan.box("bed", (8.85, 10.86), (low, low + width), (0.0, 0.32), "wood")
    plan.box("mattress", (8.85, 10.80), (low + 0.02, low + width - 0.02), (0.32, 0.50), cover)
    plan.box("pillow", (10.2, 10.75), (low + 0.15, low + width - 0.15), (0.50, 0.62), WHITE)
    plan.box("headboard", (10.80, 10.87), (low - 0.1, low + width + 0.1), (0.0, 1.0), OAK)
    plan.box("nightstand", (10.45, 10.86), (low - 0.5, low - 0.12), (0.0, 0.48), OAK)
    wardrobe = plan.vary(8.2, 8.8)
    plan.box("wardrobe", (wardrobe, wardrobe + 1.8), (4.67, 5.25), (0.0, 2.1), "wood")
    dresser = plan.vary(7.3, 7.5)
    plan.box("dresser", (dresser, dresser + 1.2), (7.42, 7.86), (0.0, 0.82), WHITE)
    plan.panel("x", 7.87, (dresser + 0.2, dresser + 1.0), (1.1, 1.9), SKY)
    plan.panel("y", 10.87, (6.2, 7.4), (1.2, 2.0), SKY)
    plan.box("rug", (7.4, 8.7), (5.6, 7.2), (0.0, 0.006), "rug_blue", solid=False)


def _study(plan: Plan) -> None:
    y = plan.vary(1.4, 2.2)
    plan.table((10.14, 10.86), (y, y + 1.4), along="y")
    plan.box("monitor", (10.55, 10.60), (y + 0.4, y + 1.0), (0.85, 1.2), DARK)
    plan.box("monitor_foot", (10.5, 10.66), (y + 0.62, y + 0.78), (0.74, 0.85), DARK)
    plan.chair(9.92, y + 0.7, 0.0, plan.pick(FABRICS))
    first = plan.vary(7.6, 8.2)
    plan.bookcase((first, first + 1.0), (4.18, 4.53), plan.vary(1.6, 2.1))
    plan.bookcase((first + 1.04, first + 2.04), (4.18, 4.53), plan.vary(1.2, 2.0))
    fabric = plan.pick(FABRICS)
    x = plan.vary(7.9, 8.6)
    plan.box("armchair", (x, x + 0.8), (0.14, 0.9), (0.0, 0.42), fabric)
    plan.box("armchair_back", (x, x + 0.8), (0.14, 0.34), (0.42, 0.86), fabric)
    if plan.chance(0.7):
        plan.plant(10.5, plan.vary(0.45, 0.6))
    plan.box("rug", (7.9, 9.6), (1.5, 3.2), (0.0, 0.006), "rug", solid=False)
    plan.panel("x", 0.13, (8.9, 10.2), (0.9, 2.0), SKY)
    plan.panel("y", 10.87, (2.9, 4.0), (0.9, 2.0), SKY)
