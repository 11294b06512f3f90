"""Loops: a way that drifted closes where it began, and places that only look alike are left alone."""

import math
from collections.abc import Iterator

import numpy as np

from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.mapping.likelihood import Transform
from rhino_actors.mapping.loop_closure import LoopClosure, LoopOptions
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.sensors import LidarFrame, LidarKind
from tests.unit.mapping.scene import Box, Lidar, room

LIDAR = Lidar(beams=120, max_range=5.0)


RING: list[Box] = [
    *room(9.0, 8.0),
    (2.0, 2.0, 0.0, 7.0, 6.0, 2.0),
    (2.4, 0.0, 0.0, 2.9, 0.3, 1.0),
    (0.0, 2.9, 0.0, 0.3, 3.2, 1.0),
    (4.4, 0.0, 0.0, 4.7, 0.45, 1.0),
    (5.8, 7.6, 0.0, 6.6, 8.0, 1.0),
]


def frames(
    boxes: list[Box], truth: list[Transform], turn: float, scale: float = 1.0
) -> Iterator[LidarFrame]:
    """Drive true poses with an odometry that turns too far, and goes too far."""
    odom = truth[0]
    for index, (before, true) in enumerate(zip([truth[0], *truth], truth, strict=False)):
        x, y, yaw = compose(inverse(before), true)
        way = math.hypot(x, y)
        odom = compose(odom, (scale * x, scale * y, yaw + turn * way))
        points, origin = LIDAR.scan(boxes, *true, noise=0.01, seed=index)
        odom_from_map = compose(odom, inverse(true))
        ((ox, oy, oz),) = transform_points(odom_from_map, [origin]).tolist()
        yield LidarFrame(
            seq=index,
            stamp=0.3 * index,
            points=transform_points(odom_from_map, points),
            origin=(ox, oy, oz),
            pose=Pose2D(*odom),
            resolution=0.0,
            kind=LidarKind.SCAN,
        )


def walk(
    boxes: list[Box],
    truth: list[Transform],
    turn: float,
    *,
    scale: float = 1.0,
    options: LoopOptions | None = None,
) -> tuple[LoopClosure, Transform, Transform]:
    """Drive, closing loops; return it, where odom ends, and where that is in the map."""
    loops = LoopClosure(options)
    map_from_odom = odom = (0.0, 0.0, 0.0)
    for frame in frames(boxes, truth, turn, scale):
        odom = frame.pose.as_tuple()
        loops.add_frame(frame, map_from_odom)
        if loops.is_due:
            moved = loops.adopt(loops.begin().run())
            map_from_odom = compose(moved, map_from_odom)
    return loops, odom, compose(map_from_odom, odom)


def around(width: float, depth: float) -> list[Transform]:
    """Once around a ring of corridors and a little farther, looking ahead, a frame every 0.2 m."""
    corners = [(1.0, 1.0), (width - 1.0, 1.0), (width - 1.0, depth - 1.0), (1.0, depth - 1.0)]
    poses: list[Transform] = []
    legs = [*zip(corners, [*corners[1:], corners[0]], strict=True), (corners[0], (7.0, 1.0))]
    for (x0, y0), (x1, y1) in legs:
        length = math.hypot(x1 - x0, y1 - y0)
        for part in np.arange(0.0, length, 0.2) / length:
            poses.append(
                (x0 + part * (x1 - x0), y0 + part * (y1 - y0), math.atan2(y1 - y0, x1 - x0))
            )
    return poses


def test_a_ring_of_corridors_with_things_in_it_closes() -> None:
    truth = around(9.0, 8.0)
    turn = math.radians(0.25)
    loops, odom, believed = walk(RING, truth, turn)
    true = truth[-1]
    assert math.hypot(odom[0] - true[0], odom[1] - true[1]) > 0.3
    assert loops.closed >= 1
    assert math.hypot(believed[0] - true[0], believed[1] - true[1]) < 0.12
    assert abs(math.remainder(believed[2] - true[2], math.tau)) < math.radians(2.5)
    frames_kept = list(loops.frames())
    # Poses lie as far apart as kept frames must: rounding may drop one, never two in a row.
    assert len(frames_kept) >= len(truth) // 2
    last = frames_kept[-1].pose
    assert math.hypot(last.x - true[0], last.y - true[1]) < 0.12 + LoopOptions.frame_way


def test_a_straight_way_closes_nothing() -> None:
    corridor: list[Box] = [(-9.0, -0.1, 0.0, 40.0, 0.0, 2.0), (-9.0, 1.6, 0.0, 40.0, 1.7, 2.0)]
    truth = [(0.2 * i, 0.8, 0.0) for i in range(120)]
    loops, _, _ = walk(corridor, truth, 0.0)
    assert loops.closed == 0 and len(loops.edges) == len(loops.nodes) - 1
