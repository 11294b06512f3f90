"""The order in which a few places are visited: exact, for as many as a mission looks ahead to."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

MOST = 12  # places; time and memory double with each


def tour_costs(
    first: NDArray[np.float64], between: NDArray[np.float64], leaving: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return, for each of K places, the cost (K,) of the best order that begins with it.

    An order visits every place and ends at the last, wherever that is. It costs its ways, and `leaving` of every
    place but the last.

    Args:
        first: (K,) cost of the way from the robot to each place.
        between: (K, K) cost of the ways between them, symmetric.
        leaving: (K,) what leaving a place for another costs beside the way.

    Raises:
        ValueError: more than 12 places.

    Source: Held and Karp 1962, over subsets; from the end, so that one table serves every beginning.
    """
    if len(first) > MOST:
        raise ValueError(f"{len(first)} places: {MOST} at most")
    costs: NDArray[np.float64] = _held_karp(
        np.ascontiguousarray(first, np.float64),
        np.ascontiguousarray(between, np.float64),
        np.ascontiguousarray(leaving, np.float64),
    )
    return costs


def warm_up() -> None:
    """Compile, or load, every kernel of this module."""
    tour_costs(np.ones(2), np.ones((2, 2)), np.zeros(2))


@njit(nogil=True, cache=True)
def _held_karp(first, between, leaving):  # type: ignore[no-untyped-def]
    count = len(first)
    if count == 0:
        return np.empty(0)
    full = (1 << count) - 1
    # rest[s, i]: least cost from place i on, when the places in s (i among them) are done.
    rest = np.full((full + 1, count), np.inf)
    rest[full, :] = 0.0
    for done in range(full - 1, 0, -1):
        for i in range(count):
            if not done >> i & 1:
                continue
            least = np.inf
            for j in range(count):
                if not done >> j & 1:
                    cost = between[i, j] + rest[done | 1 << j, j]
                    if cost < least:
                        least = cost
            rest[done, i] = leaving[i] + least
    costs = np.empty(count)
    for i in range(count):
        costs[i] = first[i] + rest[1 << i, i]
    return costs
