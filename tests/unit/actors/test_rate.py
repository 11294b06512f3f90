"""Pacing and measuring, on a clock of the test's own."""

import math

import pytest

from rhino_actors.actors.rate import Percentiles, Rate, RateMeter


class Clock:
    """A clock that stands still but for sleeping and `work`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_turns_start_a_period_apart_whatever_they_take() -> None:
    clock = Clock()
    rate = Rate(10.0, clock=clock, sleep=clock.sleep)
    ends = []
    for work in (0.0, 0.03, 0.09, 0.05):
        clock.now += work
        assert await rate.sleep() == 0.0
        ends.append(clock.now)
    assert ends == pytest.approx([100.1, 100.2, 100.3, 100.4])
    assert rate.overruns == 0


async def test_turn_that_is_a_little_late_is_made_up_for() -> None:
    clock = Clock()
    rate = Rate(10.0, clock=clock, sleep=clock.sleep)
    clock.now += 0.15
    assert await rate.sleep() == pytest.approx(0.05)
    await rate.sleep()
    assert clock.now == pytest.approx(100.2)
    assert rate.overruns == 1


async def test_stall_is_not_followed_by_a_burst() -> None:
    clock = Clock()
    rate = Rate(10.0, clock=clock, sleep=clock.sleep)
    clock.now += 5.0
    await rate.sleep()
    await rate.sleep()
    assert clock.now == pytest.approx(105.1)
    assert rate.overruns == 1
    assert clock.slept[0] == 0.0, "a late loop still lets others run"


@pytest.mark.parametrize("hz", [0.0, -1.0, math.nan, math.inf])
def test_rate_that_makes_no_sense_is_refused(hz: float) -> None:
    with pytest.raises(ValueError):
        Rate(hz)


def test_meter_measures_a_steady_stream_and_sees_it_stall() -> None:
    meter = RateMeter(window_s=3.0)
    assert meter.rate(0.0) == 0.0
    for k in range(100):
        meter.tick(k * 0.1)
    assert meter.rate(9.9) == pytest.approx(10.0)
    assert meter.rate(9.95) == pytest.approx(10.0)
    assert meter.rate(11.4) < 8.0
    assert meter.rate(20.0) == 0.0


def test_percentiles_are_of_the_last_samples() -> None:
    samples = Percentiles(size=100)
    assert math.isnan(samples.at(50))
    for value in range(1000):
        samples.add(float(value))
    assert len(samples) == 100
    assert (samples.at(0), samples.at(50), samples.at(99), samples.at(100)) == (900, 949, 998, 999)
