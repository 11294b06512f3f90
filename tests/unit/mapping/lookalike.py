"""Worlds whose places look alike, and drives through them with drifting odometry: what loop closure must not believe.

    python -m tests.unit.mapping.lookalike --seeds 20

prints for each world how many places were believed, how many of them wrongly (more than 0.5 m or 10 degrees off), and
where odometry and the map ended. In all of them a part that looks like one seen long before comes before that part
itself is seen again, if it ever is.
"""

import argparse
import math
from typing import NamedTuple

import numpy as np

from rhino_actors.drivers.mujoco.drift import OdometryDrift
from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.mapping.likelihood import Transform
from rhino_actors.mapping.loop_closure import LoopClosure, LoopOptions
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.sensors import LidarFrame, LidarKind
from tests.unit.mapping.scene import Box, Lidar

LIDAR = Lidar(beams=150, max_range=8.0)
SPEED = 0.6  # [m/s]
WRONG = (0.5, math.radians(10.0))
Place = tuple[float, float]


class World(NamedTuple):
    boxes: list[Box]
    way: list[Place]  # corners of the drive [m]


def _wall(x0: float, y0: float, x1: float, y1: float) -> Box:
    return (
        min(x0, x1) - 0.05,
        min(y0, y1) - 0.05,
        0.0,
        max(x0, x1) + 0.05,
        max(y0, y1) + 0.05,
        2.0,
    )


def _gaps(along: float, start: float, end: float, doors: list[float], *, is_x: bool) -> list[Box]:
    """A wall with doors of 0.9 m, in x or in y."""
    walls, at = [], start
    for door in [*sorted(doors), None]:
        stop = end if door is None else door - 0.45
        if stop > at:
            walls.append(_wall(at, along, stop, along) if is_x else _wall(along, at, along, stop))
        at = end if door is None else door + 0.45
    return walls


def rooms(pitch: float = 3.6, count: int = 8) -> World:
    """A corridor with equal rooms, furnished alike; the neighbour of the first is visited last."""
    length, depth = pitch * count, 4.0
    doors = [pitch * (k + 0.5) for k in range(count)]
    boxes = [
        _wall(0.0, 0.0, length, 0.0),
        _wall(0.0, 0.0, 0.0, 2.0 + depth),
        _wall(length, 0.0, length, 2.0 + depth),
        _wall(0.0, 2.0 + depth, length, 2.0 + depth),
        *_gaps(2.0, 0.0, length, doors, is_x=True),
    ]
    for k in range(count):
        x = pitch * k
        boxes += [
            _wall(x, 2.0, x, 2.0 + depth),
            (x + 0.3, 5.2, 0.0, x + 1.5, 5.9, 0.8),
            (x + pitch - 0.6, 3.4, 0.0, x + pitch - 0.1, 4.6, 1.2),
        ]

    def visit(k: int) -> list[Place]:
        return [(doors[k], 1.0), (doors[k], 4.6), (doors[k], 1.0)]

    order = [0, *range(count - 1, 1, -1), 1, 0]
    return World(boxes, [(doors[0], 1.0), *(place for k in order for place in visit(k))])


def parallel_corridors(pitch: float = 2.4, length: float = 16.0) -> World:
    """Two equal corridors side by side, with equal things in them: one at the begin, the other after a long way."""
    far = 30.0  # the long way is through a hall beyond
    boxes = [
        _wall(-2.0, -1.2, -2.0, 2.0 * pitch),
        _wall(-2.0, -1.2, length, -1.2),
        _wall(-2.0, 2.0 * pitch - 1.2, length, 2.0 * pitch - 1.2),
        _wall(0.0, pitch - 1.2, length, pitch - 1.2),
    ]
    rng = np.random.default_rng(5)
    for x in np.arange(1.0, length - 1.0, 1.7):
        shift, w, d = rng.uniform(-0.3, 0.3), rng.uniform(0.3, 0.7), rng.uniform(0.2, 0.4)
        for k in range(2):
            y = pitch * k - 1.2
            boxes.append((x + shift, y, 0.0, x + shift + w, y + d, 1.0))
    boxes += [
        _wall(length, -8.0, length, -1.2),
        _wall(length, 2.0 * pitch - 1.2, length, 12.0),
        _wall(length, -8.0, far, -8.0),
        _wall(length, 12.0, far, 12.0),
        _wall(far, -8.0, far, 12.0),
    ]
    for x, y in rng.uniform((length + 2.0, -6.0), (far - 2.0, 10.0), (14, 2)).tolist():
        boxes.append((x, y, 0.0, x + 0.6, y + 0.5, 1.0))
    corners = [
        (length + 1.0, -7.0),
        (far - 1.0, -7.0),
        (far - 1.0, 11.0),
        (length + 1.0, 11.0),
    ]
    first, second = [(-1.0, 0.2), (length + 1.0, 0.2)], [(length + 1.0, pitch), (-1.0, pitch)]
    return World(boxes, [*first, *corners, *second, (-1.0, 0.2), (4.0, 0.2)])


def serpentine(pitch: float = 2.4, length: float = 14.0, count: int = 6) -> World:
    """Equal corridors one after the other, up and down, and back through all of them."""
    boxes = [
        _wall(-1.2, -1.2, length + 1.2, -1.2),
        _wall(-1.2, pitch * count - 1.2, length + 1.2, pitch * count - 1.2),
        _wall(-1.2, -1.2, -1.2, pitch * count - 1.2),
        _wall(length + 1.2, -1.2, length + 1.2, pitch * count - 1.2),
    ]
    way: list[Place] = []
    for k in range(count):
        y = pitch * k
        if k:
            gap = (-1.2, length - 1.0) if k % 2 else (1.0, length + 1.2)
            boxes.append(_wall(gap[0], y - 1.2, gap[1], y - 1.2))
        for x in np.arange(2.0, length - 2.0, 2.0).tolist():
            boxes.append((x, y - 1.2, 0.0, x + 0.5, y - 0.85, 1.0))
        ends = [(0.0, y), (length, y)]
        way += ends if k % 2 == 0 else ends[::-1]
    return World(boxes, [*way, *way[::-1][1:]])


WORLDS = {"rooms": rooms, "parallel": parallel_corridors, "serpentine": serpentine}


def poses(way: list[Place], step: float = 0.2) -> list[Transform]:
    """Along the way, turning on the spot at its corners."""
    found: list[Transform] = []
    for (x0, y0), (x1, y1) in zip(way, way[1:], strict=False):
        yaw = math.atan2(y1 - y0, x1 - x0)
        if found:
            turn = math.remainder(yaw - found[-1][2], math.tau)
            for part in np.linspace(0.0, 1.0, max(2, math.ceil(abs(turn) / 0.3)))[1:].tolist():
                found.append((x0, y0, math.remainder(yaw - (1.0 - part) * turn, math.tau)))
        length = math.hypot(x1 - x0, y1 - y0)
        for part in np.arange(0.0, length, step) / length:
            found.append((x0 + part * (x1 - x0), y0 + part * (y1 - y0), yaw))
    return found


class Outcome(NamedTuple):
    believed: int  # places recognised and believed
    wrong: int  # of these
    refused: int
    way: float  # [m]
    odometry: float  # [m] that the end was off by odometry
    map: float  # [m] and on the map


def drive(
    world: World, seed: int, *, drift: str = "default", options: LoopOptions | None = None
) -> Outcome:
    """Drive, close loops, and hold each believed step against the truth."""
    odometry, loops = OdometryDrift(drift, seed), LoopClosure(options)
    truth = poses(world.way)
    start, before = truth[0], truth[0]
    map_from_odom: Transform = start
    at_node: list[Transform] = []  # the truth at each node's begin
    way, odom = 0.0, (0.0, 0.0, 0.0)
    for index, true in enumerate(truth):
        step = math.hypot(true[0] - before[0], true[1] - before[1])
        duration = step / SPEED + abs(math.remainder(true[2] - before[2], math.tau)) / 0.8
        odometry.advance(Pose2D(*before), Pose2D(*true), duration, is_locked=False)
        odom, before, way = odometry.pose.as_tuple(), true, way + step
        points, origin = LIDAR.scan(world.boxes, *true, noise=0.01, seed=index)
        odom_from_map = compose(odom, inverse(true))
        ((x, y, z),) = transform_points(odom_from_map, [origin]).tolist()
        frame = LidarFrame(
            index,
            way / SPEED + 0.01 * index,
            transform_points(odom_from_map, points),
            (x, y, z),
            Pose2D(*odom),
            0.0,
            LidarKind.SCAN,
        )
        loops.add_frame(frame, map_from_odom)
        at_node += [true] * (len(loops.nodes) - len(at_node))
        if loops.is_due:
            moved = loops.adopt(loops.begin().run())
            map_from_odom = compose(moved, map_from_odom)
    loop_edges = [edge for edge in loops.edges if edge.is_loop]
    wrong = 0
    for edge in loop_edges:
        x, y, yaw = compose(inverse(at_node[edge.first]), at_node[edge.second])
        off = math.hypot(x - edge.step[0], y - edge.step[1])
        turned = abs(math.remainder(yaw - edge.step[2], math.tau))
        wrong += off > WRONG[0] or turned > WRONG[1]
    ends = (compose(start, odom), compose(map_from_odom, odom))
    errors = [math.hypot(end[0] - truth[-1][0], end[1] - truth[-1][1]) for end in ends]
    return Outcome(len(loop_edges), wrong, loops.refused, way, errors[0], errors[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", nargs="+", choices=tuple(WORLDS), default=tuple(WORLDS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--drift", default="default", choices=("default", "harsh"))
    chosen = parser.parse_args()
    for name in chosen.worlds:
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            found = drive(WORLDS[name](), seed, drift=chosen.drift)
            print(
                f"{name:<11} {seed:3d} way {found.way:5.0f} m, believed {found.believed:3d}, wrong {found.wrong:2d}, "
                f"refused {found.refused:2d}; end {found.odometry:.2f} m by odometry, {found.map:.2f} m on the map",
                flush=True,
            )


if __name__ == "__main__":
    main()
