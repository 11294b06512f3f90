"""Which velocity leaves for the robot, and when. Pure: time and the link's health are arguments.

The robot executes the last Move for a second or two, and its channel delivers everything late rather than not at all.
So: a velocity is repeated while it is wanted, nothing leaves into a link that may not deliver it, and the first
command after a gap is stop.
"""

import math
from enum import StrEnum
from typing import NamedTuple

from rhino_actors.config import Go2Config
from rhino_actors.messages.geometry import Twist2D

STOPS = 5  # sent when a motion ends
STOP_GAP_S = 0.2  # between stops that are asked for while nothing moves
EARLY_S = 0.003  # a step this much before its time counts as in time


class Kind(StrEnum):
    """What a command does."""

    STOP = "stop"
    MOVE = "move"


class Outgoing(NamedTuple):
    """One command to send."""

    kind: Kind
    twist: Twist2D


class LinkHealth(NamedTuple):
    """What the sender has to know of the link."""

    up: bool  # connected, validated, heard from
    odometry_age: float  # [s]
    buffered: int  # [bytes] that wait to be sent


class VelocitySender:
    """Turns the wanted twist into commands. `step` is asked at `velocity_rate_hz` and after every `ask`."""

    def __init__(self, config: Go2Config) -> None:
        self._config = config
        self._period = 1.0 / config.velocity_rate_hz
        self._asked = Twist2D()
        self._asked_at = -math.inf
        self._moving = False  # a Move left after the last stop
        self._stops = 0  # still to send
        self._last = -math.inf
        self._after_gap = True  # nothing is known of what the robot does: stop comes first
        self._held = False  # until zero, or silence, says that the old wish is over

    def ask(self, twist: Twist2D, stamp: float, now: float) -> None:
        """Want a twist, decided on at `stamp` [s]. Zero ends a motion at once.

        Silence is a pause between two decisions, not between two arrivals: after a stall many arrive at once.
        """
        if twist.is_zero or stamp - self._asked_at > self._config.hold_timeout_s:
            self._held = False
        if twist.is_zero and (self._moving or now - self._last > STOP_GAP_S):
            self._stops = max(self._stops, STOPS if self._moving else 1)
        self._asked, self._asked_at = twist, stamp

    def lost(self) -> None:
        """The link is gone. What was wanted before does not go on after it."""
        self._after_gap = self._held = True
        self._moving = False
        self._stops = 0

    def interrupt(self) -> None:
        """Another command takes over: no more stops, which would cut it short."""
        self._stops = 0
        self._moving = False
        self._asked = Twist2D()

    def step(self, now: float, link: LinkHealth) -> list[Outgoing]:
        """Return what to send now."""
        if not link.up:
            self.lost()
            return []
        due = now - self._last >= self._period - EARLY_S
        wanted = self._wanted(now)
        if wanted.is_zero or not self._may_move(link):
            return self._stop(now, due, refused=not wanted.is_zero)
        if not due:
            return []
        sent = [Outgoing(Kind.STOP, Twist2D())] if self._after_gap else []
        sent.append(Outgoing(Kind.MOVE, wanted))
        self._after_gap, self._moving, self._stops, self._last = False, True, 0, now
        return sent

    def _wanted(self, now: float) -> Twist2D:
        fresh = now - self._asked_at <= self._config.hold_timeout_s
        return self._asked if fresh and not self._held and self._asked.is_finite else Twist2D()

    def _may_move(self, link: LinkHealth) -> bool:
        config = self._config
        return (
            link.odometry_age <= config.odometry_max_age_s
            and link.buffered <= config.max_buffered_bytes
        )

    def _stop(self, now: float, due: bool, *, refused: bool) -> list[Outgoing]:
        """End a motion: the first stop leaves at once, the others follow at the rate."""
        first = self._moving
        if first:
            self._moving, self._stops = False, STOPS
            self._after_gap = self._after_gap or refused
        if not self._stops or not (due or first or self._stops == 1):
            return []
        self._stops -= 1
        self._last = now
        return [Outgoing(Kind.STOP, Twist2D())]
