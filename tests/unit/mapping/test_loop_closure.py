"""Loops: a way that drifted closes where it began, and a place that cannot be is refused."""

import math

import numpy as np
import pytest

from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.mapping.likelihood import Transform
from rhino_actors.mapping.loop_closure import Edge, LoopClosure, LoopOptions, bend, optimised
from rhino_actors.messages.geometry import Pose2D
from tests.unit.mapping.scene import Box, Lidar, room

LIDAR = Lidar(beams=120, max_range=5.0)
SIGMA = (0.03, math.radians(0.6))


def square(side: float = 20.0, step: float = 2.0) -> list[Transform]:
    """Once around, the last pose being the first."""
    poses, here = [(0.0, 0.0, 0.0)], (0.0, 0.0, 0.0)
    for _ in range(4):
        for _ in range(round(side / step)):
            here = compose(here, (step, 0.0, 0.0))
            poses.append(here)
        here = compose(here, (0.0, 0.0, math.pi / 2.0))
        poses[-1] = here
    return poses


def drifted(poses: list[Transform], seed: int) -> tuple[list[Transform], list[Edge]]:
    rng = np.random.default_rng(seed)
    edges, here, bent = [], poses[0], [poses[0]]
    for index, (a, b) in enumerate(zip(poses, poses[1:], strict=False)):
        off = rng.normal((0.0, 0.0, math.radians(0.2)), (0.02, 0.02, math.radians(0.2)))
        step = compose(compose(inverse(a), b), tuple(off.tolist()))
        edges.append(Edge(index, index + 1, step, SIGMA))
        here = compose(here, step)
        bent.append(here)
    return bent, edges


def worst(found: list[Transform], true: list[Transform]) -> float:
    return max(math.hypot(a[0] - b[0], a[1] - b[1]) for a, b in zip(found, true, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_closed_way_is_bent_back_and_its_begin_stays(seed: int) -> None:
    truth = square()
    bent, edges = drifted(truth, seed)
    assert worst(bent, truth) > 1.0
    last = len(truth) - 1
    loop = Edge(0, last, truth[-1], (0.03, math.radians(0.5)))
    found = optimised(bent, [*edges, loop])
    assert found[0] == bent[0]
    assert math.hypot(found[-1][0], found[-1][1]) < 0.10
    assert worst(found, truth) < 0.4 * worst(bent, truth)
    assert max(bend(found, edge) for edge in [*edges, loop]) < 3.0


def test_a_false_loop_bends_more_than_odometry_allows() -> None:
    bent, edges = drifted(square(), 0)
    false = Edge(5, 25, (0.0, 0.0, 0.0), (0.03, math.radians(0.5)))
    found = optimised(bent, [*edges, false])
    assert max(bend(found, edge) for edge in [*edges, false]) > LoopOptions.max_bend


def walk(
    boxes: list[Box], truth: list[Transform], turn: float
) -> tuple[LoopClosure, Transform, Transform]:
    """Drive true poses with an odometry that turns too far; return it, where it ends, and where that is in the map."""
    loops = LoopClosure()
    odom, map_from_odom = truth[0], (0.0, 0.0, 0.0)
    for index, (before, true) in enumerate(zip([truth[0], *truth], truth, strict=False)):
        way = math.hypot(true[0] - before[0], true[1] - before[1])
        odom = compose(compose(odom, compose(inverse(before), true)), (0.0, 0.0, turn * way))
        points, origin = LIDAR.scan(boxes, *true, noise=0.01, seed=index)
        odom_from_map = compose(odom, inverse(true))
        ((x, y, z),) = transform_points(odom_from_map, [origin]).tolist()
        closed = loops.add_frame(
            transform_points(odom_from_map, points),
            (x, y, z),
            Pose2D(*odom),
            map_from_odom,
            voxel_size=0.0,
            stamp=0.25 * index,
        )
        map_from_odom = closed or map_from_odom
    return loops, odom, compose(map_from_odom, odom)


def around(width: float, depth: float) -> list[Transform]:
    """Once around a ring of corridors and a little farther, looking ahead, a frame every 0.2 m."""
    corners = [(1.0, 1.0), (width - 1.0, 1.0), (width - 1.0, depth - 1.0), (1.0, depth - 1.0)]
    poses: list[Transform] = []
    legs = [*zip(corners, [*corners[1:], corners[0]], strict=True), (corners[0], (4.0, 1.0))]
    for (x0, y0), (x1, y1) in legs:
        length = math.hypot(x1 - x0, y1 - y0)
        for part in np.arange(0.0, length, 0.2) / length:
            poses.append(
                (x0 + part * (x1 - x0), y0 + part * (y1 - y0), math.atan2(y1 - y0, x1 - x0))
            )
    return poses


def test_a_ring_of_corridors_with_things_in_it_closes() -> None:
    boxes = [
        *room(9.0, 8.0),
        (2.0, 2.0, 0.0, 7.0, 6.0, 2.0),
        (2.4, 0.0, 0.0, 2.9, 0.3, 1.0),
        (0.0, 2.9, 0.0, 0.3, 3.2, 1.0),
        (4.4, 0.0, 0.0, 4.7, 0.45, 1.0),
        (5.8, 7.6, 0.0, 6.6, 8.0, 1.0),
    ]
    truth = around(9.0, 8.0)
    turn = math.radians(0.25)
    loops, odom, believed = walk(boxes, truth, turn)
    true = truth[-1]
    assert math.hypot(odom[0] - true[0], odom[1] - true[1]) > 0.3
    assert loops.closed >= 1
    assert math.hypot(believed[0] - true[0], believed[1] - true[1]) < 0.12
    assert abs(math.remainder(believed[2] - true[2], math.tau)) < math.radians(2.5)
    frames = list(loops.frames())
    # Poses lie as far apart as kept frames must: rounding may drop one, never two in a row.
    assert len(frames) >= len(truth) // 2
    last = frames[-1].pose
    assert math.hypot(last.x - true[0], last.y - true[1]) < 0.12 + LoopOptions.frame_way


def test_a_straight_way_closes_nothing() -> None:
    corridor: list[Box] = [(-9.0, -0.1, 0.0, 40.0, 0.0, 2.0), (-9.0, 1.6, 0.0, 40.0, 1.7, 2.0)]
    truth = [(0.2 * i, 0.8, 0.0) for i in range(120)]
    loops, _, _ = walk(corridor, truth, 0.0)
    assert loops.closed == 0 and len(loops.edges) == len(loops.nodes) - 1
