import math

import numpy as np
import pytest

from rhino_actors.drivers.mujoco.drift import OdometryDrift
from rhino_actors.messages.geometry import Pose2D, Twist2D

TICK = 0.1


def square(drift: OdometryDrift, side: float = 30.0, speed: float = 0.5) -> tuple[Pose2D, Pose2D]:
    """Walk once around a square; return the true and the believed pose at the end."""
    true = Pose2D(0.0, 0.0, 0.0)
    for _ in range(4):
        for _ in range(round(side / speed / TICK)):
            step = speed * TICK
            new = Pose2D(
                true.x + step * math.cos(true.yaw), true.y + step * math.sin(true.yaw), true.yaw
            )
            drift.advance(true, new, TICK, is_locked=False)
            true = new
        for _ in range(20):
            new = Pose2D(true.x, true.y, math.remainder(true.yaw + math.pi / 40, math.tau))
            drift.advance(true, new, TICK, is_locked=False)
            true = new
    return true, drift.pose


def stand(drift: OdometryDrift, seconds: float, *, is_locked: bool) -> float:
    still = Pose2D(0.0, 0.0)
    for _ in range(round(seconds / TICK)):
        drift.advance(still, still, TICK, is_locked=is_locked)
    return drift.pose.yaw


def closing_error(level: str, seed: int) -> float:
    true, believed = square(OdometryDrift(level, seed))
    return math.dist((true.x, true.y), (believed.x, believed.y)) / 120.0


def test_switched_off_it_is_the_truth() -> None:
    drift = OdometryDrift("off", 1)
    true, believed = square(drift)
    assert believed == true and drift.is_exact
    assert drift.twist(Twist2D(0.3, 0.1, -0.2), is_locked=False) == Twist2D(0.3, 0.1, -0.2)


@pytest.mark.parametrize(
    ("level", "low", "high"), [("default", 0.006, 0.020), ("harsh", 0.008, 0.025)]
)
def test_a_square_closes_as_well_as_in_the_published_figures(
    level: str, low: float, high: float
) -> None:
    assert low < np.median([closing_error(level, seed) for seed in range(24)]) < high


def test_equal_seeds_drift_equally_and_others_do_not() -> None:
    assert closing_error("default", 3) == closing_error("default", 3)
    assert closing_error("default", 3) != closing_error("default", 4)


def test_the_heading_creeps_while_it_stands_and_rests_while_it_lies() -> None:
    creep = [abs(stand(OdometryDrift("default", s), 300.0, is_locked=False)) for s in range(24)]
    assert math.radians(1.5) < float(np.sqrt(np.mean(np.square(creep)))) < math.radians(9.0)
    for seed in range(4):
        drift = OdometryDrift("default", seed)
        assert stand(drift, 300.0, is_locked=True) == 0.0
        assert (drift.pose.x, drift.pose.y) == (0.0, 0.0)


def test_standing_drifts_in_heading_only() -> None:
    drift = OdometryDrift("default", 1)
    stand(drift, 60.0, is_locked=False)
    assert (drift.pose.x, drift.pose.y) == (0.0, 0.0)


def test_a_jump_moves_the_belief_in_the_bodys_frame_and_it_goes_on_from_there() -> None:
    drift = OdometryDrift("off", 1)
    drift.advance(Pose2D(0.0, 0.0), Pose2D(1.0, 0.0, math.pi / 2), TICK, is_locked=False)
    drift.jump(0.5, 0.0, 0.0)
    assert (drift.pose.x, drift.pose.y) == pytest.approx((1.0, 0.5))
    drift.advance(
        Pose2D(1.0, 0.0, math.pi / 2), Pose2D(1.0, 2.0, math.pi / 2), TICK, is_locked=False
    )
    assert (drift.pose.x, drift.pose.y) == pytest.approx((1.0, 2.5))
