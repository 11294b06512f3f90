"""A world's truth as a file, for scoring and for pictures. Stands on numpy, and on OpenCV for the picture."""

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.messages.grid import OCCUPIED, UNKNOWN

# [m] of the reachable set in an export: the body's half-diagonal would shut doors.
ROBOT_RADIUS = 0.25
PIXELS_PER_CELL = 2

_GREY, _BLACK, _WHITE = (128, 128, 128), (20, 20, 20), (255, 255, 255)
_REACHABLE, _WALK, _TRAP, _START = (206, 236, 206), (200, 90, 20), (30, 30, 220), (30, 150, 30)


def export(
    path: str | Path, world: World, version: int, *, robot_radius: float = ROBOT_RADIUS
) -> None:
    """Write a world's truth as npz.

    Keys: `occupancy` (rows, cols) int8, -1 outside, 0 free, 100 occupied, row 0 the lowest y; `reachable` (rows,
    cols) bool; `resolution` [m]; `origin` (2,) lower-left corner in odom [m]; `start` (3,) x, y, yaw in odom, always
    zeros; `start_on_plan` (2,) [m]; `robot_radius` [m]; `people` number of loops, and for each `walk_<i>` (N, 2)
    corners [m] and `walk_speed` (people,) [m/s]; `traps` (K, 3) x, y, width [m]; `name`, `seed`,
    `generator_version`.
    """
    truth = world.truth_grid(robot_radius=robot_radius)
    arrays: dict[str, ArrayLike] = {
        "occupancy": truth.occupancy,
        "reachable": truth.reachable,
        "resolution": truth.geometry.resolution,
        "origin": np.array(truth.geometry.origin),
        "start": np.zeros(3),
        "start_on_plan": np.array(world.start),
        "robot_radius": robot_radius,
        "people": len(world.people),
        "walk_speed": np.array([walk.speed for walk in world.people]),
        "traps": np.array([(*trap.center, trap.width) for trap in world.traps]).reshape(-1, 3),
        "name": world.name,
        "seed": world.seed,
        "generator_version": version,
        **{f"walk_{i}": np.array(walk.points) for i, walk in enumerate(world.people)},
    }
    np.savez_compressed(path, allow_pickle=False, **arrays)


def picture(world: World, *, robot_radius: float = ROBOT_RADIUS) -> NDArray[np.uint8]:
    """Draw a world's truth from above, +x right and +y up: (height, width, 3) uint8, BGR.

    Black is occupied, green can be reached, blue are people's loops, red the traps, dark green the start.
    """
    truth = world.truth_grid(robot_radius=robot_radius)
    image = np.full((*truth.geometry.shape, 3), _WHITE, np.uint8)
    image[truth.reachable] = _REACHABLE
    image[truth.occupancy == OCCUPIED] = _BLACK
    image[truth.occupancy == UNKNOWN] = _GREY
    image = np.repeat(np.repeat(image, PIXELS_PER_CELL, axis=0), PIXELS_PER_CELL, axis=1)

    def pixel(x: float, y: float) -> tuple[int, int]:
        scale = PIXELS_PER_CELL / truth.geometry.resolution
        return (
            round((x - truth.geometry.origin[0]) * scale),
            round((y - truth.geometry.origin[1]) * scale),
        )

    for walk in world.people:
        corners = np.array([pixel(*point) for point in walk.points], np.int32)
        cv2.polylines(image, [corners], True, _WALK, 2, cv2.LINE_AA)
    for trap in world.traps:
        cv2.circle(image, pixel(*trap.center), 14, _TRAP, 3, cv2.LINE_AA)
    cv2.circle(image, pixel(0.0, 0.0), 8, _START, -1, cv2.LINE_AA)
    cv2.line(image, pixel(0.0, 0.0), pixel(0.6, 0.0), _START, 4, cv2.LINE_AA)
    return np.ascontiguousarray(image[::-1])
