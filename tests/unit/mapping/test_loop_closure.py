"""Loops: a way that drifted closes where it began, and places that only look alike are left alone."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

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


def around(width: float, depth: float, rounds: int = 1) -> list[Transform]:
    """Around a ring of corridors and a little farther, looking ahead, a frame every 0.2 m."""
    corners = [(1.0, 1.0), (width - 1.0, 1.0), (width - 1.0, depth - 1.0), (1.0, depth - 1.0)]
    poses: list[Transform] = []
    ring = list(zip(corners, [*corners[1:], corners[0]], strict=True))
    legs = [*ring * rounds, (corners[0], (7.0, 1.0))]
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


@pytest.mark.slow
def test_hours_of_driving_keep_a_bounded_number_of_frames_and_stretches_and_still_close() -> None:
    options = LoopOptions(max_frames=260, max_nodes=24)
    truth = around(9.0, 8.0, rounds=4)
    loops, odom, believed = walk(RING, truth, math.radians(0.25), options=options)
    assert loops.kept <= options.max_frames + 1 and not loops.is_full
    assert len(loops.nodes) <= options.max_nodes + 1
    true = truth[-1]
    assert math.hypot(odom[0] - true[0], odom[1] - true[1]) > 1.0
    assert math.hypot(believed[0] - true[0], believed[1] - true[1]) < 0.2
    # What is left is the newest of each place: the last rounds, all around.
    places = np.array([frame.pose.as_tuple()[:2] for frame in loops.frames()])
    for corner in ((1.0, 1.0), (8.0, 1.0), (8.0, 7.0), (1.0, 7.0)):
        assert np.hypot(*(places - corner).T).min() < 0.5


def test_a_way_without_a_place_seen_twice_ends_when_it_is_full() -> None:
    options = LoopOptions(max_frames=40)
    truth = [(0.6 * i, 0.8, 0.0) for i in range(80)]
    loops, _, _ = walk([(-9.0, -0.1, 0.0, 90.0, 0.0, 2.0)], truth, 0.0, options=options)
    assert loops.is_full and loops.kept == options.max_frames + 1 and not loops.is_due


def test_of_a_robot_that_stands_the_newest_frame_is_kept() -> None:
    person: Box = (3.0, 2.8, 0.0, 3.3, 3.1, 1.7)
    loops = LoopClosure()
    for index in range(20):
        boxes = [*room(6.0, 5.0), *([person] if index < 10 else [])]
        points, origin = LIDAR.scan(boxes, 1.0, 3.0)
        loops.add_frame(
            LidarFrame(index, 1.0 * index, points, origin, Pose2D(1.0, 3.0), 0.0, LidarKind.SCAN),
            (0.0, 0.0, 0.0),
        )
    first, newest = loops.frames()
    for frame, is_there in ((first, True), (newest, False)):
        off = np.hypot(frame.points[:, 0] - 3.0, frame.points[:, 1] - 2.95)
        assert (off.min() < 0.2) == is_there


def test_a_beam_that_met_nothing_is_kept_as_one() -> None:
    loops = LoopClosure()
    points = np.array([[60.0, 0.0, 0.3], [2.0, 0.0, 0.3], [np.nan, 0.0, 0.0]], np.float32)
    loops.add_frame(
        LidarFrame(1, 0.0, points, (0.1, 0.0, 0.3), Pose2D(0.0, 0.0), 0.0, LidarKind.SCAN),
        (1.0, 2.0, math.pi / 2.0),
    )
    (frame,) = loops.frames()
    assert frame.points.shape == (2, 3)
    assert math.dist(frame.points[0], frame.origin) == pytest.approx(30.0, abs=0.01)
    assert frame.points[1] == pytest.approx([1.0, 4.0, 0.3], abs=0.002)
    assert frame.origin == pytest.approx((1.0, 2.1, 0.3))


def test_stretches_that_were_begun_while_a_loop_was_looked_for_move_with_the_last_one() -> None:
    late = LoopClosure()
    given = list(frames(RING, around(9.0, 8.0), math.radians(0.25)))
    map_from_odom = (0.0, 0.0, 0.0)
    search, since = None, 0
    for frame in given:
        late.add_frame(frame, map_from_odom)
        if late.is_due:
            search, since = late.begin(), len(late.nodes)
        elif search is not None and len(late.nodes) >= since + 1:
            moved = late.adopt(search.run())
            search = None
            map_from_odom = compose(moved, map_from_odom)
    if search is not None:
        map_from_odom = compose(late.adopt(search.run()), map_from_odom)
    assert late.closed >= 1
    true = around(9.0, 8.0)[-1]
    here = compose(map_from_odom, given[-1].pose.as_tuple())
    assert math.hypot(here[0] - true[0], here[1] - true[1]) < 0.15
    assert len(late.edges) == len(late.nodes) - 1 + sum(edge.is_loop for edge in late.edges)


def test_after_a_jump_of_odometry_the_place_may_be_as_far_off_as_it_jumped() -> None:
    loops = LoopClosure()
    for index, x in enumerate([0.0, 0.3, 0.6, 2.1, 2.4, 2.7]):
        points, origin = LIDAR.scan(room(6.0, 5.0), 1.0 + x, 2.0)
        pose = Pose2D(1.0 + x, 2.0)
        loops.add_frame(
            LidarFrame(index, 0.4 * index, points, origin, pose, 0.0, LidarKind.SCAN),
            (0.0, 0.0, 0.0),
        )
    (edge,) = loops.edges
    assert edge.step[0] == pytest.approx(2.1) and edge.sigma[0] > 1.5 and edge.sigma[1] > 0.1


def test_one_search_at_a_time_and_one_that_is_given_up_makes_room_for_the_next() -> None:
    loops = LoopClosure()
    given = frames(RING, around(9.0, 8.0), 0.0)
    loops.add_frame(next(given), (0.0, 0.0, 0.0))
    loops.begin()
    with pytest.raises(RuntimeError, match="under way"):
        loops.begin()
    loops.drop()
    with pytest.raises(RuntimeError, match="no search"):
        loops.adopt(None)
    while not loops.is_due:
        loops.add_frame(next(given), (0.0, 0.0, 0.0))
    loops.begin()
