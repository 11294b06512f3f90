"""Notices a robot that should move and does not."""

import math


class ProgressChecker:
    """Stuck: not `progress_distance` [m] away from where it last got on, for `progress_time_s` [s].

    Ask only while the robot should be moving, and call `reset` when it waits on purpose: that time does not count.
    """

    def __init__(self, progress_distance: float, progress_time_s: float) -> None:
        self._distance = progress_distance
        self._time = progress_time_s
        self._anchor: tuple[float, float, float] | None = None

    def reset(self) -> None:
        """Forget the past; the clock starts with the next question."""
        self._anchor = None

    def is_stuck(self, x: float, y: float, now: float) -> bool:
        """Take the newest position [m] at `now` [s, monotonic], and say whether the robot is stuck.

        A clock that goes back starts anew.
        """
        if self._anchor is not None:
            then, at_x, at_y = self._anchor
            if now >= then and math.hypot(x - at_x, y - at_y) < self._distance:
                return now - then >= self._time
        self._anchor = (now, x, y)
        return False
