"""Leg kinematics of the Go2, and a trot to look at: the joint angles that go with a base that is driven.

Joints are ordered FR, FL, RR, RL; per leg abduction, hip, knee [rad]. Stands on the standard library alone.
"""

import math

from rhino_actors.messages.geometry import Twist2D

# Published URDF figures of the Go2 [m].
HIP_X = 0.1934  # hip joint from the trunk's centre, forward
HIP_Y = 0.0465  # and sideways
ABDUCTION = 0.0955  # hip to thigh, sideways
THIGH = 0.213
SHANK = 0.213
FOOT_RADIUS = 0.022

# Legs in order: name, side along x, side along y, half of the trot it swings in.
LEGS = (("FR", 1, -1, 0.0), ("FL", 1, 1, 0.5), ("RR", -1, -1, 0.5), ("RL", -1, 1, 0.0))

STAND_HIP = 0.75
STAND_KNEE = -1.5
STAND_LENGTH = THIGH * math.cos(STAND_HIP) + SHANK * math.cos(STAND_HIP + STAND_KNEE)  # [m]

TROT_PERIOD = 0.40  # [s]
TROT_DUTY = 0.55  # share of the period that a foot stands
TROT_LIFT = 0.06  # [m] of a swinging foot
MAX_STRIDE = 0.22  # [m] between touch-down and lift-off
MIN_SPEED = 0.02  # [m/s] of a foot over the floor, below which the legs stand


def leg_angles(forward: float, left: float, down: float) -> tuple[float, float, float]:
    """Return abduction, hip and knee that put a foot at a place relative to its thigh joint [m].

    Exact for `left` = 0; a small `left` is met by tilting the leg. Out of reach is met as far as the leg goes.
    """
    distance = min(math.hypot(forward, down), 0.999 * (THIGH + SHANK))
    bend = math.acos(
        max(-1.0, min(1.0, (distance**2 - THIGH**2 - SHANK**2) / (2.0 * THIGH * SHANK)))
    )
    return (math.atan2(left, down), bend / 2.0 + math.atan2(-forward, down), -bend)


def trot(phase: float, twist: Twist2D) -> tuple[float, ...]:
    """Return the 12 joint angles of a trot at `phase` (turns) that fits a body twist; standing when it is slow."""
    angles: list[float] = []
    for _, side_x, side_y, offset in LEGS:
        speed_x = twist.vx - twist.omega * side_y * (HIP_Y + ABDUCTION)
        speed_y = twist.vy + twist.omega * side_x * HIP_X
        if math.hypot(speed_x, speed_y) < MIN_SPEED:
            angles += (0.0, STAND_HIP, STAND_KNEE)
            continue
        at, lift = _foot(math.fmod(phase + offset, 1.0))
        reach = TROT_DUTY * TROT_PERIOD
        stride_x, stride_y = _limited(speed_x * reach, speed_y * reach)
        angles += leg_angles(at * stride_x, at * stride_y, STAND_LENGTH - lift)
    return tuple(angles)


def _foot(phase: float) -> tuple[float, float]:
    """Return where a foot is: along the stride from +0.5 (touch-down) to -0.5, and its lift [m]."""
    if phase < TROT_DUTY:
        return 0.5 - phase / TROT_DUTY, 0.0
    swing = (phase - TROT_DUTY) / (1.0 - TROT_DUTY)
    return -0.5 * math.cos(math.pi * swing), TROT_LIFT * math.sin(math.pi * swing)


def _limited(x: float, y: float) -> tuple[float, float]:
    scale = min(1.0, MAX_STRIDE / max(math.hypot(x, y), 1e-9))
    return x * scale, y * scale
