"""Drawing a world again until it is one that a robot can be judged in. Stands on numpy alone."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.worlds.scene import World

MIN_REACHABLE = 0.60  # of the free floor
ROBOT_RADIUS = 0.30  # [m] that a robot's centre keeps when it plans
START_CLEARANCE = 0.45  # [m] around the start and a point ahead
AHEAD = 1.0  # [m]
SQUEEZED_RADIUS = 0.225  # [m] a body that goes on when planning would not
MAX_POCKET = 0.3  # [m2] of floor that only a squeezed body gets to, beside the traps
ATTEMPTS = 60


def draw_until_usable(seed: int, draw: Callable[[np.random.Generator], World]) -> World:
    """Return the first usable draw of a seed.

    Usable: the start and what lies ahead of it are clear, most of the floor can be reached, and nowhere but at a
    tagged trap does a gap lead on that is too narrow to plan through and wide enough to get stuck in.
    """
    for attempt in range(ATTEMPTS):
        world = draw(np.random.default_rng([seed, attempt]))
        if is_usable(world):
            return world
    raise AssertionError(f"no usable world in {ATTEMPTS} draws of seed {seed}")


def is_usable(world: World) -> bool:
    """Tell whether a draw may be kept; see `draw_until_usable`."""
    truth = world.truth_grid(robot_radius=ROBOT_RADIUS)
    if truth.reachable_area < MIN_REACHABLE * truth.free_area:
        return False
    roomy = world.truth_grid(robot_radius=START_CLEARANCE).reachable
    if not all(roomy[truth.geometry.cell_from_world(x, 0.0)] for x in (0.0, AHEAD)):
        return False
    return untagged_pocket_area(world) <= MAX_POCKET and bool(world.traps)


def untagged_pocket_area(world: World) -> float:
    """Return the floor [m2] that a squeezed body reaches through gaps that are no tagged trap."""
    truth = world.truth_grid(robot_radius=ROBOT_RADIUS)
    squeezed = world.truth_grid(robot_radius=SQUEEZED_RADIUS)
    # What lies within the difference of the radii is the rim of the floor that is reached anyway.
    rim = _near(truth.reachable, 4)
    pockets = squeezed.reachable & ~rim
    rows, cols = np.nonzero(pockets)
    places = truth.geometry.world_from_cells(np.stack([rows, cols], axis=1))
    tagged = np.zeros(len(places), np.bool_)
    for trap in world.traps:
        x_min, y_min, x_max, y_max = trap.pocket
        inside = (places > (x_min - 0.6, y_min - 0.6)) & (places < (x_max + 0.6, y_max + 0.6))
        tagged |= inside.all(axis=1)
    return float(np.count_nonzero(~tagged)) * truth.geometry.resolution**2


def _near(cells: NDArray[np.bool_], reach: int) -> NDArray[np.bool_]:
    """Return the cells within a square of `reach` cells around those given."""
    grown = cells.copy()
    for _ in range(reach):
        step = grown.copy()
        step[1:] |= grown[:-1]
        step[:-1] |= grown[1:]
        step[:, 1:] |= grown[:, :-1]
        step[:, :-1] |= grown[:, 1:]
        grown = step
    return grown
