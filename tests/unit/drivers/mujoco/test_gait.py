import itertools
import math

import pytest

from rhino_actors.drivers.mujoco import gait
from rhino_actors.messages.geometry import Twist2D


def foot(hip: float, knee: float) -> tuple[float, float]:
    """Forward kinematics of the leg's plane: forward and down from the thigh joint [m]."""
    return (
        -gait.THIGH * math.sin(hip) - gait.SHANK * math.sin(hip + knee),
        gait.THIGH * math.cos(hip) + gait.SHANK * math.cos(hip + knee),
    )


@pytest.mark.parametrize(
    ("forward", "down"), list(itertools.product((-0.2, -0.05, 0.0, 0.15), (0.15, 0.25, 0.32)))
)
def test_leg_angles_put_the_foot_where_it_was_asked(forward: float, down: float) -> None:
    abduction, hip, knee = gait.leg_angles(forward, 0.0, down)
    assert abduction == 0.0
    assert foot(hip, knee) == pytest.approx((forward, down), abs=1e-9)
    assert knee < 0.0


def test_a_foot_out_of_reach_stretches_the_leg_towards_it() -> None:
    _, hip, knee = gait.leg_angles(1.0, 0.0, 1.0)
    x, z = foot(hip, knee)
    assert math.hypot(x, z) == pytest.approx(gait.THIGH + gait.SHANK, rel=0.01)
    assert x == pytest.approx(z, abs=0.01)


def test_legs_stand_when_the_robot_does() -> None:
    assert gait.trot(0.3, Twist2D()) == (0.0, gait.STAND_HIP, gait.STAND_KNEE) * 4


def test_a_standing_foot_moves_back_as_fast_as_the_body_moves_forward() -> None:
    twist, step = Twist2D(vx=0.5), 0.001
    leg = 0  # FR stands in the first part of the phase
    before = foot(*gait.trot(0.2, twist)[3 * leg + 1 : 3 * leg + 3])
    after = foot(*gait.trot(0.2 + step, twist)[3 * leg + 1 : 3 * leg + 3])
    assert (after[0] - before[0]) / (step * gait.TROT_PERIOD) == pytest.approx(-0.5, rel=1e-3)
    assert after[1] == pytest.approx(before[1], abs=1e-9)


@pytest.mark.parametrize("twist", [Twist2D(vx=0.8), Twist2D(omega=1.0), Twist2D(0.2, -0.3, 0.5)])
def test_two_feet_at_least_stand_at_every_phase(twist: Twist2D) -> None:
    for index in range(100):
        joints = gait.trot(index / 100, twist)
        standing = 0
        for leg in range(4):
            _, down = foot(joints[3 * leg + 1], joints[3 * leg + 2])
            standing += down > gait.STAND_LENGTH - 0.002
        assert standing >= 2
