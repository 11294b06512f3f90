"""The way driven: bounded, even, broken where the robot was carried."""

import math

import numpy as np

from rhino_actors.exploration.trace import Trace


def test_the_points_are_as_far_apart_as_asked_and_the_newest_is_among_them() -> None:
    trace = Trace(0.5)
    for step in range(101):
        trace.add(step * 0.1, 0.0)
    points = trace.points()
    assert points[0].tolist() == [0.0, 0.0] and points[-1].tolist() == [10.0, 0.0]
    assert np.diff(points[:, 0])[:-1].min() >= 0.499
    assert not points.flags.writeable


def test_it_never_has_more_points_than_allowed_and_still_covers_the_whole_way() -> None:
    trace = Trace(0.1, 50)
    for step in range(20000):
        trace.add(math.cos(step / 100.0) * 5.0, math.sin(step / 100.0) * 5.0)
        assert len(trace) <= 50
    trace.add(7.0, 0.0)
    points = trace.points()
    assert len(points) <= 51 and points[0].tolist() == [5.0, 0.0]
    assert points[-1].tolist() == [7.0, 0.0]


def test_a_cut_breaks_the_line_once() -> None:
    trace = Trace(0.1)
    trace.cut()
    for x in (0.0, 1.0, 1.05):
        trace.add(x, 0.0)
    trace.cut()
    trace.cut()
    trace.add(5.0, 5.0)
    points = trace.points()
    assert points[2].tolist() == [1.05, 0.0], "where it was cut is kept"
    assert np.isnan(points[:, 0]).tolist() == [False, False, False, True, False]
    assert points[-1].tolist() == [5.0, 5.0]


def test_a_robot_that_is_lost_again_and_again_fills_nothing() -> None:
    trace = Trace(0.1, 20)
    for step in range(1000):
        trace.add(float(step), 0.0)
        trace.cut()
    assert len(trace.points()) <= 21
    assert trace.points()[-1].tolist() == [999.0, 0.0]


def test_nothing_driven_is_no_points() -> None:
    assert Trace().points().shape == (0, 2)
