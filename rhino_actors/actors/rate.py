"""Keep a loop's period, and measure: rates over the last seconds, percentiles over the last samples."""

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable


class Rate:
    """Paces a loop at a fixed rate and counts the turns that took too long.

    A turn that is late by less than a period is made up for; after a longer one the schedule starts anew, so
    that a stall is not followed by a burst.

    Attributes:
        overruns: turns that took longer than the period.
    """

    def __init__(
        self,
        hz: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Start the first period now.

        Args:
            hz: turns per second.
            clock: gives the time [s].
            sleep: waits for a duration [s].

        Raises:
            ValueError: hz is not a positive finite number.
        """
        if not (hz > 0.0 and math.isfinite(hz)):
            raise ValueError(f"a rate must be positive and finite, not {hz}")
        self.period = 1.0 / hz
        self.overruns = 0
        self._clock = clock
        self._sleep = sleep
        self._due = clock() + self.period

    async def sleep(self) -> float:
        """Wait for the end of this turn's period; yields to the event loop even when late.

        Returns:
            By how much the turn was late [s], 0.0 when it was in time.
        """
        late = self._clock() - self._due
        if late > 0.0:
            self.overruns += 1
        await self._sleep(max(0.0, -late))
        self._due += self.period
        if late > self.period:
            self._due = self._clock() + self.period
        return max(0.0, late)


class RateMeter:
    """Measures how often something happens, over a sliding window."""

    def __init__(self, window_s: float = 3.0) -> None:
        """Measure over the last `window_s` [s]."""
        self._window = window_s
        self._ticks: deque[float] = deque()

    def tick(self, now: float) -> None:
        """Count one event at `now` [s], of the clock that `rate` is asked with."""
        self._ticks.append(now)
        self._forget(now)

    def rate(self, now: float) -> float:
        """Return events per second [Hz]; falls to 0.0 within the window once nothing comes any more."""
        self._forget(now)
        if len(self._ticks) < 2:
            return 0.0
        # The gap that is still open counts once it is longer than the mean one: a stalled stream is seen to slow.
        spanned, gaps = self._ticks[-1] - self._ticks[0], len(self._ticks) - 1
        if now - self._ticks[-1] > spanned / gaps:
            spanned, gaps = now - self._ticks[0], gaps + 1
        return gaps / spanned if spanned > 0.0 else 0.0

    def _forget(self, now: float) -> None:
        while self._ticks and self._ticks[0] < now - self._window:
            self._ticks.popleft()


class Percentiles:
    """Percentiles of the last samples, e.g. of latencies."""

    def __init__(self, size: int = 512) -> None:
        """Keep the last `size` samples."""
        self._samples: deque[float] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: float) -> None:
        self._samples.append(sample)

    def at(self, percent: float) -> float:
        """Return the smallest sample that at least `percent` [0..100] of them do not exceed; nan before the first."""
        if not self._samples:
            return math.nan
        rank = math.ceil(percent / 100.0 * len(self._samples))
        return sorted(self._samples)[max(0, rank - 1)]
