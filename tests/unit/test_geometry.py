"""SE(2) helpers: group laws, and yaw that stays in (-pi, pi]."""

import math

import numpy as np
import pytest

from rhino_actors.geometry import (
    compose,
    inverse,
    quaternion_from_yaw,
    tilt_from_quaternion,
    transform_points,
    transform_poses,
    wrap_angle,
    yaw_from_quaternion,
)

Planar = tuple[float, float, float]
RNG = np.random.default_rng(7)
TRANSFORMS: list[Planar] = [tuple(row) for row in RNG.uniform(-math.pi, math.pi, (40, 3)).tolist()]


def _same(first: Planar, second: Planar) -> bool:
    return math.dist(first[:2], second[:2]) < 1e-9 and abs(wrap_angle(first[2] - second[2])) < 1e-9


@pytest.mark.parametrize("turns", [-3, -1, 0, 1, 5])
def test_wrapping_keeps_the_direction_and_stays_in_range(turns: int) -> None:
    for angle in np.linspace(-math.pi, math.pi, 101):
        wrapped = wrap_angle(float(angle) + turns * math.tau)
        assert -math.pi < wrapped <= math.pi
        assert math.cos(wrapped) == pytest.approx(math.cos(angle), abs=1e-9)
        assert math.sin(wrapped) == pytest.approx(math.sin(angle), abs=1e-9)


def test_half_a_turn_is_plus_pi_from_both_sides() -> None:
    assert wrap_angle(math.pi) == wrap_angle(-math.pi) == wrap_angle(3 * math.pi) == math.pi


def test_yaw_survives_the_way_through_a_quaternion() -> None:
    for yaw in np.linspace(-3.14, 3.14, 50):
        quaternion = quaternion_from_yaw(float(yaw))
        assert yaw_from_quaternion(*quaternion) == pytest.approx(yaw)
        assert tilt_from_quaternion(*quaternion) == pytest.approx(0.0, abs=1e-7)


def test_yaw_is_the_heading_of_the_x_axis_however_the_body_rolls() -> None:
    for roll in (0.2, -0.7):
        for yaw in (0.3, -2.0):
            sr, cr, sy, cy = (f(a / 2) for a in (roll, yaw) for f in (math.sin, math.cos))
            rolled = (sr * cy, sr * sy, cr * sy, cr * cy)  # yaw about z, then roll about its own x
            assert yaw_from_quaternion(*rolled) == pytest.approx(yaw)
            assert tilt_from_quaternion(*rolled) == pytest.approx(abs(roll))


def test_tilt_is_pi_on_the_back_and_never_leaves_its_domain() -> None:
    assert tilt_from_quaternion(1.0, 0.0, 0.0, 0.0) == pytest.approx(math.pi)
    assert tilt_from_quaternion(1.0000001, 0.0, 0.0, 0.0) == pytest.approx(math.pi)


def test_a_transform_and_its_inverse_cancel() -> None:
    for a in TRANSFORMS:
        assert _same(compose(a, inverse(a)), (0.0, 0.0, 0.0))
        assert _same(compose(inverse(a), a), (0.0, 0.0, 0.0))


def test_composition_is_associative_and_moves_points_in_turn() -> None:
    points = RNG.uniform(-5, 5, (10, 3))
    for a, b, c in zip(TRANSFORMS, TRANSFORMS[1:], TRANSFORMS[2:], strict=False):
        assert _same(compose(compose(a, b), c), compose(a, compose(b, c)))
        np.testing.assert_allclose(
            transform_points(compose(a, b), points),
            transform_points(a, transform_points(b, points)),
            atol=1e-9,
        )


def test_points_keep_their_height_and_the_given_array_is_not_changed() -> None:
    points = np.array([[1.0, 0.0, 0.7]], dtype=np.float32)
    points.flags.writeable = False
    moved = transform_points((2.0, 3.0, math.pi / 2), points)
    np.testing.assert_allclose(moved, [[2.0, 4.0, 0.7]], atol=1e-6)
    np.testing.assert_array_equal(points, np.array([[1.0, 0.0, 0.7]], dtype=np.float32))
    assert transform_points((0.0, 0.0, 0.0), np.empty((0, 2))).shape == (0, 2)


def test_poses_are_moved_like_one_frame_after_the_other() -> None:
    rng = np.random.default_rng(5)
    poses = np.column_stack([rng.uniform(-9, 9, (50, 2)), rng.uniform(-math.pi, math.pi, 50)])
    frame = (1.0, -2.0, 2.5)
    moved = transform_poses(frame, poses)
    for before, after in zip(poses.tolist(), moved.tolist(), strict=True):
        assert after == pytest.approx(compose(frame, tuple(before)))
    assert (moved[:, 2] > -math.pi).all() and (moved[:, 2] <= math.pi).all()
    np.testing.assert_allclose(transform_poses(inverse(frame), moved)[:, :2], poses[:, :2])
