"""What a short drive says of a robot: scale, sign, latency, hold time, from its own odometry. Pure."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhino_actors.geometry import wrap_angle

SETTLE_S = 0.6  # after a command before the velocity is taken
WORKS_FROM = 0.2  # share of the asked velocity below which a way of driving does nothing
NOTICEABLE = 0.03  # [m] or [rad] that count as motion
AXES = ("vx", "vy", "omega")


class Sample(NamedTuple):
    """Where the robot was."""

    stamp: float  # [s]
    x: float  # [m] in odom
    y: float  # [m] in odom
    yaw: float  # [rad]


class Motion(NamedTuple):
    """What came of a command."""

    velocity: float  # [m/s] or [rad/s] along the axis that was asked for
    latency: float  # [s] until it moved; nan: it never did
    hold: float  # [s] for which it went on after the last command; nan: it never moved


def measure(samples: Sequence[Sample], axis: str, begun: float, ended: float) -> Motion:
    """Return what came of commands along one axis, sent from `begun` to `ended` [s].

    Args:
        samples: odometry from before `begun` until the robot stands again, oldest first.
        axis: one of AXES.
        begun: time of the first command [s].
        ended: time of the last command [s].

    Raises:
        ValueError: too few samples, or none while it was driven.
    """
    times, progress = _progress(samples, axis, begun)
    steady = (times >= begun + SETTLE_S) & (times <= ended)
    if len(times) < 5 or steady.sum() < 3:
        raise ValueError("odometry came too rarely to measure anything")
    velocity = float(np.polyfit(times[steady], progress[steady], 1)[0])
    moved = np.abs(progress) >= NOTICEABLE
    if not moved.any() or abs(velocity) < 1e-3:
        return Motion(velocity, math.nan, math.nan)
    first = float(times[np.argmax(moved)])
    latency = max(0.0, first - NOTICEABLE / abs(velocity) - begun)
    moving = np.abs(progress - progress[-1]) >= NOTICEABLE
    last = float(times[np.flatnonzero(moving)[-1]]) if moving.any() else ended
    hold = max(0.0, last + NOTICEABLE / abs(velocity) - ended)
    return Motion(velocity, latency, hold)


def works(motion: Motion, asked: float) -> bool:
    """Return whether a command led to motion, in whatever direction."""
    return abs(motion.velocity) >= WORKS_FROM * abs(asked)


def _progress(
    samples: Sequence[Sample], axis: str, begun: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times and how far the robot got along the axis, in its own frame at each moment."""
    if axis not in AXES:
        raise ValueError(f"no axis {axis!r}")
    times, progress, total = [], [], 0.0
    for before, after in zip(samples, samples[1:], strict=False):
        if after.stamp < begun:
            continue
        turn = wrap_angle(after.yaw - before.yaw)
        heading = before.yaw + turn / 2.0
        dx, dy = after.x - before.x, after.y - before.y
        step = {
            "vx": math.cos(heading) * dx + math.sin(heading) * dy,
            "vy": -math.sin(heading) * dx + math.cos(heading) * dy,
            "omega": turn,
        }[axis]
        total += step
        times.append(after.stamp)
        progress.append(total)
    return np.array(times), np.array(progress)
