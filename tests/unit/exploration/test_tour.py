"""The order of a few places."""

import itertools

import numpy as np
import pytest

from rhino_actors.exploration.tour import tour_costs


def brute_force(first, between, leaving):
    best = np.full(len(first), np.inf)
    for order in itertools.permutations(range(len(first))):
        cost = first[order[0]]
        for a, b in itertools.pairwise(order):
            cost += between[a, b] + leaving[a]
        best[order[0]] = min(best[order[0]], cost)
    return best


def test_it_is_the_best_of_all_orders():
    rng = np.random.default_rng(1)
    for count in (1, 2, 3, 5, 6, 7):
        first, leaving = rng.random(count), rng.random(count)
        between = rng.random((count, count))
        between += between.T
        np.testing.assert_allclose(
            tour_costs(first, between, leaving), brute_force(first, between, leaving)
        )


def test_no_place_has_no_order_and_too_many_are_refused():
    assert tour_costs(np.zeros(0), np.zeros((0, 0)), np.zeros(0)).shape == (0,)
    with pytest.raises(ValueError, match="12"):
        tour_costs(np.zeros(13), np.zeros((13, 13)), np.zeros(13))
