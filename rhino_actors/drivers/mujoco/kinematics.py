"""Kinematics of one leg of the Go2 as numba kernels: where the foot is, how it moves, which angles put it there.

A leg hangs from its hip joint: abduction about x, then thigh and shank about y, as in `gait`. Places are relative
to the hip joint, in the trunk's frame [m]; `side` is +1 on the left and -1 on the right.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.gait import ABDUCTION, SHANK, THIGH

Array = NDArray[np.float64]

REACH = 0.999 * (THIGH + SHANK)  # [m] of the foot from the thigh joint


@njit(nogil=True, cache=True)
def foot_place(q: Array, side: float, place: Array) -> None:
    """Write the foot's place (3,) for the joints q (3,) [rad]."""
    y = side * ABDUCTION
    x = -THIGH * math.sin(q[1]) - SHANK * math.sin(q[1] + q[2])
    z = -THIGH * math.cos(q[1]) - SHANK * math.cos(q[1] + q[2])
    c, s = math.cos(q[0]), math.sin(q[0])
    place[0] = x
    place[1] = c * y - s * z
    place[2] = s * y + c * z


@njit(nogil=True, cache=True)
def foot_jacobian(q: Array, side: float, jacobian: Array) -> None:
    """Write d(place)/dq (3, 3) for the joints q (3,) [rad]."""
    y = side * ABDUCTION
    shank_x = -SHANK * math.sin(q[1] + q[2])
    shank_z = -SHANK * math.cos(q[1] + q[2])
    x = -THIGH * math.sin(q[1]) + shank_x
    z = -THIGH * math.cos(q[1]) + shank_z
    c, s = math.cos(q[0]), math.sin(q[0])
    jacobian[0, 0] = 0.0
    jacobian[1, 0] = -s * y - c * z
    jacobian[2, 0] = c * y - s * z
    jacobian[0, 1] = z
    jacobian[1, 1] = s * x
    jacobian[2, 1] = -c * x
    jacobian[0, 2] = shank_z
    jacobian[1, 2] = s * shank_x
    jacobian[2, 2] = -c * shank_x


@njit(nogil=True, cache=True)
def leg_joints(place: Array, side: float, q: Array) -> None:
    """Write the joints q (3,) [rad] that put the foot at `place` (3,), knee bent backwards.

    Out of reach is met as far as the leg goes, in the same direction.
    """
    y = side * ABDUCTION
    drop = -math.sqrt(max(place[1] ** 2 + place[2] ** 2 - y * y, 1e-8))
    q[0] = math.atan2(place[2], place[1]) - math.atan2(drop, y)
    q[0] = math.atan2(math.sin(q[0]), math.cos(q[0]))
    x = place[0]
    distance = math.sqrt(x * x + drop * drop)
    if distance > REACH:
        x, drop = x * REACH / distance, drop * REACH / distance
        distance = REACH
    bend = (distance * distance - THIGH * THIGH - SHANK * SHANK) / (2.0 * THIGH * SHANK)
    q[2] = -math.acos(max(-1.0, min(1.0, bend)))
    q[1] = math.atan2(-x, -drop) - math.atan2(
        SHANK * math.sin(q[2]), THIGH + SHANK * math.cos(q[2])
    )
