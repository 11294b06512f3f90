"""The motion gate's decisions of the last minute, in sentences for people: why did it stop? Pure."""

import math
from collections import deque

from rhino_actors.messages.platform import GateDecision, StopReason

LOG_SPAN_S = 60.0
LOG_LENGTH = 500
REPEAT_SILENCE_S = 1.0  # the same line of MAY_REPEAT is not logged again within this time
MAY_REPEAT = frozenset({"refuse", "zero", "go on", "hold", "sport"})

_SENTENCES = {
    StopReason.NONE: "Nothing holds the robot.",
    StopReason.IDLE: "Nothing drives the robot.",
    StopReason.RELEASED: "Whoever drove let go.",
    StopReason.STOPPED: "Somebody stopped the robot.",
    StopReason.ESTOP: "The emergency stop is latched.",
    StopReason.DEAD_MAN: "No velocity came in time.",
    StopReason.PREEMPTED: "Somebody else took over.",
    StopReason.CANCELLED: "The goal was cancelled.",
    StopReason.LEASE_EXPIRED: "The planner did not renew its path.",
    StopReason.STALE_ODOMETRY: "The pose is too old to follow a path.",
    StopReason.STALE_LIDAR: "What the lidar saw is too old to follow a path.",
    StopReason.ODOM_JUMP: "The pose jumped, and is looked at for a moment.",
    StopReason.FALLEN: "The robot has fallen.",
    StopReason.OBSTACLE: "Something is in the way.",
    StopReason.ARRIVED: "The robot is at its goal.",
    StopReason.POSTURE: "The robot does not stand.",
    StopReason.SPORT: "The robot was asked for a sport command.",
    StopReason.NOT_CONNECTED: "The robot is not connected.",
    StopReason.LOOP_FAILED: "A loop that driving needs has failed.",
    StopReason.CLIENT_LOST: "The connection of whoever drove has closed.",
}


def sentence(reason: StopReason) -> str:
    """Return what a reason means, for people."""
    return _SENTENCES[reason]


class GateLog:
    """Keeps the newest decisions, at most a minute and LOG_LENGTH of them."""

    def __init__(self, wall_from_monotonic: float) -> None:
        """Start empty. `wall_from_monotonic`: Unix time minus monotonic time [s]."""
        self._wall_from_monotonic = wall_from_monotonic
        self._lines: deque[GateDecision] = deque(maxlen=LOG_LENGTH)
        self._noted: dict[tuple[str, str, str], float] = {}

    def note(self, event: str, reason: StopReason, message: str, now: float, holder: str) -> None:
        """Add a line, unless the same one has just been written; no message: the reason's sentence."""
        key = (event, holder, reason.value)
        if event in MAY_REPEAT:
            if now - self._noted.get(key, -math.inf) < REPEAT_SILENCE_S:
                return
            if len(self._noted) >= LOG_LENGTH:
                self._noted.clear()
            self._noted[key] = now
        wall, text = now + self._wall_from_monotonic, message or sentence(reason)
        self._lines.append(GateDecision(now, wall, event, holder, reason.value, text))

    def since(self, now: float, after: float = -math.inf) -> tuple[GateDecision, ...]:
        """Return the lines of the last minute that are newer than `after` [s], oldest first."""
        while self._lines and now - self._lines[0].stamp > LOG_SPAN_S:
            self._lines.popleft()
        return tuple(line for line in self._lines if line.stamp > after)
