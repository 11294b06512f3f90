"""Poses as odometry: the velocity is right, and a pose that waited on its way is not taken for new."""

import math

import pytest

from rhino_actors.drivers.go2.odometry import OdometryReader
from rhino_actors.drivers.go2.protocol import RobotPose
from rhino_actors.messages.geometry import Odometry


def pose(t: float, *, stamp: float | None = None, vx: float = 0.5, omega: float = 0.4) -> RobotPose:
    """Return where a robot on a circle is at `t` [s]."""
    yaw = omega * t
    x = vx / omega * math.sin(yaw)
    y = vx / omega * (1.0 - math.cos(yaw))
    turn = (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))
    return RobotPose(1000.0 + t if stamp is None else stamp, (x, y, 0.3), turn)


def read(reader: OdometryReader, first: float, last: float, late: float = 0.0) -> list[Odometry]:
    found = []
    for index in range(round((last - first) * 20)):
        t = first + index / 20
        odometry = reader.read(pose(t), t + late)
        if odometry is not None:
            found.append(odometry)
    return found


def test_velocity_follows_from_the_poses_in_the_bodys_frame() -> None:
    twist = read(OdometryReader(), 0.0, 3.0)[-1].twist
    assert twist.vx == pytest.approx(0.5, abs=0.01)
    assert twist.vy == pytest.approx(0.0, abs=0.01)
    assert twist.omega == pytest.approx(0.4, abs=0.01)


def test_numbers_count_up_and_the_robots_stamp_is_kept_as_data() -> None:
    found = read(OdometryReader(), 0.0, 1.0)
    assert [o.seq for o in found] == list(range(1, 21))
    assert found[3].device_stamp == pytest.approx(1000.15) and found[3].stamp == pytest.approx(0.15)


def test_a_burst_of_poses_that_waited_for_seconds_is_dropped_but_the_newest_is_taken() -> None:
    reader = OdometryReader()
    read(reader, 0.0, 2.0)
    burst = [reader.read(pose(2.0 + k / 20), 14.0 + k * 1e-4) for k in range(240)]
    taken = [o for o in burst if o is not None]
    assert all(o.device_stamp > 1000.0 + 14.0 - 0.45 for o in taken)
    assert taken and len(taken) < 12


@pytest.mark.parametrize(
    "stamps", [lambda t: 5.0, lambda t: 1000.0 - 3600.0 + t, lambda t: math.nan]
)
def test_a_clock_that_freezes_jumps_or_is_none_costs_a_second_at_most(stamps) -> None:  # type: ignore[no-untyped-def]
    reader = OdometryReader()
    read(reader, 0.0, 2.0)
    got = [reader.read(pose(2 + k / 20, stamp=stamps(2 + k / 20)), 2 + k / 20) for k in range(200)]
    assert sum(o is not None for o in got[30:]) == 170


def test_a_clock_that_runs_a_little_slower_costs_no_pose() -> None:
    reader, late = OdometryReader(), []
    for second in range(3 * 3600):
        if reader.read(pose(0.0, stamp=1000.0 + second * (1 - 1e-4)), float(second)) is None:
            late.append(second)
    assert late == []


def test_after_a_gap_no_velocity_is_made_of_poses_before_it() -> None:
    reader = OdometryReader()
    read(reader, 0.0, 1.0)
    reader.restart()
    again = reader.read(pose(9.0), 9.0)
    assert again is not None and again.twist.is_zero
