"""A robot that should get on and does not is noticed, whatever it does instead."""

import math

import pytest

from rhino_actors.planning import ProgressChecker
from rhino_actors.planning.progress import WANDER_TIME_S


def _checker() -> ProgressChecker:
    return ProgressChecker(0.15, 5.0)


def test_robot_that_gets_nearer_is_never_stuck() -> None:
    checker = _checker()
    for i in range(400):
        assert not checker.is_stuck(40.0 - 0.01 * i, 0.01 * i, 0.0, 0.1 * i)


@pytest.mark.parametrize("start", [0.0, 1e6, 2e9])
def test_robot_that_stands_is_stuck_after_the_time_and_not_before(start: float) -> None:
    checker = _checker()
    stuck = [t for t in range(100) if checker.is_stuck(3.0, 0.0, 0.0, start + 0.1 * t)]
    assert 50 <= stuck[0] <= 51
    assert stuck == list(range(stuck[0], 100))


def test_robot_that_rocks_to_and_fro_is_stuck_like_one_that_stands() -> None:
    checker = _checker()
    for tenth in range(100):
        sway = 0.4 * math.sin(tenth / 5.0)
        if checker.is_stuck(3.0 - sway, sway, 0.0, tenth / 10.0):
            break
    assert 5.0 <= tenth / 10.0 <= 8.0


def test_ever_new_paths_do_not_hide_a_robot_that_goes_nowhere() -> None:
    checker = _checker()
    for tenth in range(600):
        left = 9.0 if tenth % 20 < 10 else 5.0
        if tenth % 10 == 0:
            checker.rebase(left)
        # On each of the paths it seems to get on a little.
        now = tenth / 10.0
        if checker.is_stuck(left - 0.3 * (tenth % 10) / 10.0, 0.1 * (tenth % 3), 0.0, now):
            break
    assert now <= WANDER_TIME_S + 0.1


def test_a_longer_path_after_progress_is_no_reason_to_be_stuck() -> None:
    checker = _checker()
    assert not checker.is_stuck(3.0, 0.0, 0.0, 0.0)
    checker.rebase(12.0)
    for i in range(1, 200):
        assert not checker.is_stuck(12.0 - 0.05 * i, 0.05 * i, 0.0, 0.1 * i)


def test_a_new_path_alone_is_no_progress() -> None:
    checker = _checker()
    assert not checker.is_stuck(3.0, 0.0, 0.0, 0.0)
    checker.rebase(12.0)
    assert checker.is_stuck(12.0, 0.0, 0.0, 5.0)


def test_a_wait_does_not_count() -> None:
    checker = _checker()
    assert not checker.is_stuck(3.0, 0.0, 0.0, 0.0)
    assert not checker.is_stuck(3.0, 0.0, 0.0, 4.0)
    checker.hold(60.0)
    assert not checker.is_stuck(3.0, 0.0, 0.0, 60.9)
    assert checker.is_stuck(3.0, 0.0, 0.0, 61.0)


def test_progress_after_being_stuck_starts_the_clock_anew() -> None:
    checker = _checker()
    checker.is_stuck(3.0, 0.0, 0.0, 0.0)
    assert checker.is_stuck(2.9, 0.1, 0.0, 5.0)
    assert not checker.is_stuck(2.8, 0.2, 0.0, 5.1)
    assert checker.gains == 1
    assert not checker.is_stuck(2.8, 0.2, 0.0, 10.0)


def test_a_clock_that_goes_back_is_survived() -> None:
    checker = _checker()
    checker.is_stuck(3.0, 0.0, 0.0, 100.0)
    assert not checker.is_stuck(3.0, 0.0, 0.0, 3.0)
    assert checker.is_stuck(3.0, 0.0, 0.0, 8.0)
