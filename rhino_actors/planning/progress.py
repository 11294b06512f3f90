"""Notices a robot that should get on and does not. Time is monotonic and comes in as an argument."""

import math

WANDER_RADIUS = 0.5  # [m]
WANDER_TIME_S = 20.0


class ProgressChecker:
    """Stuck: the way left did not become shorter by `progress_distance` [m] for `progress_time_s` [s].

    Motion alone is no progress: a robot that rocks to and fro is stuck like one that stands. Nor are ever new paths:
    whoever stays within WANDER_RADIUS for WANDER_TIME_S is stuck, whatever the way left is said to be.

    Ask only while the robot should be moving, and call `hold` while it waits on purpose: that time does not count.
    """

    def __init__(self, progress_distance: float, progress_time_s: float) -> None:
        self._distance = progress_distance
        self._time = progress_time_s
        self._best: float | None = None  # [m] shortest way left so far
        self._since = 0.0  # [s] when that was
        self._anchor: tuple[float, float] | None = None
        self._anchored = 0.0  # [s]
        self._asked: float | None = None
        self.gains = 0  # counts how often the way left became shorter by the distance

    def reset(self) -> None:
        """Forget the past; the clock starts with the next question."""
        self._best = self._anchor = self._asked = None

    def rebase(self, remaining: float) -> None:
        """Take another path, with this way left [m]. The clock goes on: a new path is no progress."""
        if self._best is not None:
            self._best = remaining

    def hold(self, now: float) -> None:
        """Let the time since the last question not count; the robot waits on purpose."""
        if self._asked is not None:
            pause = max(0.0, now - self._asked)
            self._since += pause
            self._anchored += pause
            self._asked = now

    def is_stuck(self, remaining: float, x: float, y: float, now: float) -> bool:
        """Take the way left [m] and the place [m] at `now` [s], and say whether the robot is stuck.

        A clock that goes back starts anew.
        """
        if self._asked is not None and now < self._asked:
            self.reset()
        self._asked = now
        if self._best is None:
            self._best, self._since = remaining, now
        elif remaining <= self._best - self._distance:
            self._best, self._since = remaining, now
            self.gains += 1
        if self._anchor is None or math.dist(self._anchor, (x, y)) >= WANDER_RADIUS:
            self._anchor, self._anchored = (x, y), now
        return now - self._since >= self._time or now - self._anchored >= WANDER_TIME_S
