"""SE(2) helpers on floats and arrays. Yaw is counter-clockwise from +x, in (-pi, pi]."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def wrap_angle(angle: float) -> float:
    """Return the same direction in (-pi, pi] [rad]."""
    wrapped = math.remainder(angle, math.tau)
    return math.pi if wrapped <= -math.pi else wrapped


def yaw_from_quaternion(x: float, y: float, z: float, w: float) -> float:
    """Return the heading of a unit quaternion [rad]: the yaw of the body's x axis on the ground plane."""
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))


def tilt_from_quaternion(x: float, y: float, z: float, w: float) -> float:
    """Return the angle between the body's z axis and the world's [rad], 0 when level, pi on its back."""
    return math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y))))


def roll_pitch_from_quaternion(x: float, y: float, z: float, w: float) -> tuple[float, float]:
    """Return roll and pitch of a unit quaternion [rad], in the order yaw, pitch, roll about the turning axes."""
    roll = math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    return roll, math.asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x))))


def quaternion_from_yaw(yaw: float) -> tuple[float, float, float, float]:
    """Return (x, y, z, w) of a turn by `yaw` [rad] about z."""
    return (0.0, 0.0, math.sin(yaw / 2.0), math.cos(yaw / 2.0))


def compose(
    a_from_b: tuple[float, float, float], b_from_c: tuple[float, float, float]
) -> tuple[float, float, float]:
    """Chain two planar transforms (x [m], y [m], yaw [rad]) into a_from_c."""
    ax, ay, ayaw = a_from_b
    bx, by, byaw = b_from_c
    cos, sin = math.cos(ayaw), math.sin(ayaw)
    return (ax + cos * bx - sin * by, ay + sin * bx + cos * by, wrap_angle(ayaw + byaw))


def inverse(a_from_b: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return b_from_a of a planar transform (x [m], y [m], yaw [rad])."""
    x, y, yaw = a_from_b
    cos, sin = math.cos(yaw), math.sin(yaw)
    return (-cos * x - sin * y, sin * x - cos * y, wrap_angle(-yaw))


def transform_points(
    a_from_b: tuple[float, float, float], points: NDArray[np.floating] | Sequence[Sequence[float]]
) -> NDArray[np.float64]:
    """Return points (N, 2) or (N, 3) given in b, in a. z is left as it is."""
    moved = np.array(points, dtype=np.float64)
    x, y, yaw = a_from_b
    cos, sin = math.cos(yaw), math.sin(yaw)
    moved[:, 0], moved[:, 1] = (
        x + cos * moved[:, 0] - sin * moved[:, 1],
        y + sin * moved[:, 0] + cos * moved[:, 1],
    )
    return moved


def transform_poses(
    a_from_b: tuple[float, float, float], poses: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return poses (N, 3) x, y [m], yaw [rad] given in b, in a; yaw in (-pi, pi]."""
    moved = transform_points(a_from_b, poses)
    moved[:, 2] = math.pi - np.mod(math.pi - moved[:, 2] - a_from_b[2], math.tau)
    return moved


def polygon_area(corners: Sequence[tuple[float, float]]) -> float:
    """Return the area that a polygon's corners x, y [m] enclose [m2]; the order of the corners does not matter."""
    pairs = zip(corners, [*corners[1:], *corners[:1]], strict=True)
    return abs(math.fsum(x * other_y - other_x * y for (x, y), (other_x, other_y) in pairs)) / 2.0
