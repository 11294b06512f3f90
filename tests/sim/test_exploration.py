"""Whole explorations in lock-step: the actors' pieces on a walking robot with the L1 lidar and drifting odometry."""

import pytest

pytest.importorskip("mujoco")

from benchmarks.exploration import Setup, explore, line

pytestmark = pytest.mark.sim


@pytest.mark.timeout(900)
def test_the_apartment_is_explored_to_its_end_without_a_touch() -> None:
    result = explore(Setup("apartment", 0))
    assert result.end in ("complete", "blocked"), line(result)
    assert result.reason
    assert result.coverage >= 0.99, result.left
    assert (result.persons, result.falls) == (0, 0)
    assert result.ratio < 2.5
    assert result.goals >= 3
