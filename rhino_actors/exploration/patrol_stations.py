"""The stations of a patrol's round: few enough, and in such an order, that a short closed way has all floor in view.

A covering tour: stations are chosen by greedy set cover and ordered; then each is left out or moved as long as the
ways between the others have in view what it had.
"""

import heapq
import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.exploration.patrol_order import costs_between, improve, spanning_order
from rhino_actors.exploration.patrol_sites import UNJOINED, Sites, way

# Of the most floor in view, what a station has that is ordered at first; the ways have most of the rest in view.
FIRST_SHARE = 0.04
ROUNDS = 4  # of shortening and ordering anew, at most
MANY_SITES = 12_000  # with more, one
SWEEPS = 4  # of shortening, at most
LEAST_GAIN = 0.2  # [cells] that the way must be shorter for a station to move
LONGEST_TURN = 8  # stations in a row that a repair may visit the other way around
REACH = 1  # [blocks] that a station moves at once


def plan_stations(
    sites: Sites, known: NDArray[np.int32] | None = None
) -> tuple[NDArray[np.int32], float]:
    """Return the sites (M,) to visit, around and around, so that all floor comes into view; and what a round costs.

    Args:
        sites: of the map.
        known: (K,) sites of an order that was good before the map changed: it is kept where it can be.
    """
    ground = _Ground(sites)
    if known is not None and len(known):
        order, longest = known.astype(np.int32), LONGEST_TURN
    else:
        widest = float(sites.seen_count.max(initial=0))
        order, longest = ground.cover(FIRST_SHARE * widest), len(sites.at)
        pairs, costs = _pairs(sites, order)
        order = order[spanning_order(len(order), pairs, costs)]
        order = _reorder(sites, order, longest)
    best, least = known, math.inf
    for _ in range(ROUNDS if len(sites.at) <= MANY_SITES else 1):
        order = ground.complete(order)
        order, cost = ground.shorten(order, _joined_anew(order, best, len(sites.at)))
        if cost >= least:
            break
        best, least = order, cost
        if len(sites.at) <= MANY_SITES:
            order = _reorder(sites, order, longest)
    assert best is not None
    return best, least


def _joined_anew(
    order: NDArray[np.int32], before: NDArray[np.int32] | None, sites: int
) -> NDArray[np.bool_]:
    """Return which stations (M,) of an order are not between the same two as before."""
    if before is None:
        return np.ones(len(order), np.bool_)
    low, high = np.full(sites, -1), np.full(sites, -1)
    low[before] = np.minimum(np.roll(before, 1), np.roll(before, -1))
    high[before] = np.maximum(np.roll(before, 1), np.roll(before, -1))
    beside = np.roll(order, 1), np.roll(order, -1)
    is_same = (low[order] == np.minimum(*beside)) & (high[order] == np.maximum(*beside))
    return np.asarray(~is_same, np.bool_)


def owners(sites: Sites, order: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return per floor cell (F,) which station's way has it best in view; -1: none.

    The way of a station is the one to it from the station before.
    """
    ground = _Ground(sites)
    owner = np.full(len(sites.floor), -1, np.int32)
    nearest = np.full(len(sites.floor), np.inf, np.float32)
    _own(order, owner, nearest, sites.floor, sites.seen, sites.seen_count, ground.chain, ground.way)
    return owner


class _Ground:
    """The floor of a map, and how many sites on the ways between the stations have each cell in view."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._covers = np.zeros(len(sites.floor), np.int32)
        self.chain = np.empty(len(sites.at) + 2, np.int32)
        self.way = (
            sites.at,
            sites.number,
            sites.neighbours,
            sites.steps,
            sites.lattice,
            sites.costmap,
            np.full(len(sites.at), np.inf, np.float32),
            np.empty(len(sites.at), np.int32),
        )

    def cover(self, least: float) -> NDArray[np.int32]:
        """Return sites that have the floor in view that none on the ways has; each more than `least` cells of it."""
        sites = self._sites
        chosen = np.zeros(len(sites.at), np.bool_)
        _cover(
            least,
            chosen,
            self._covers,
            sites.is_floor,
            sites.seen,
            sites.seen_count,
            sites.at,
            sites.number,
            sites.lattice,
        )
        return np.flatnonzero(chosen).astype(np.int32)

    def complete(self, order: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the order with the stations that it takes to have all floor in view."""
        sites = self._sites
        self._covers[:] = 0
        _count_ways(order, self._covers, sites.seen, sites.seen_count, self.chain, self.way)
        added = self.cover(0.0)
        if not len(added):
            return order
        order = _insert(order, added, self.chain, self.way)
        self._covers[:] = 0
        _count_ways(order, self._covers, sites.seen, sites.seen_count, self.chain, self.way)
        return order

    def shorten(
        self, order: NDArray[np.int32], is_new: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int32], float]:
        """Return a shorter order with the same floor in view, and its cost. `complete` comes before.

        Args:
            order: (M,) of stations.
            is_new: (M,) which of them to look at; the others only where one beside them moved.
        """
        sites = self._sites
        shorter = order.copy()
        left = _shorten(
            shorter,
            is_new,
            self._covers,
            sites.is_floor,
            sites.seen,
            sites.seen_count,
            self.way,
        )
        shorter = shorter[:left].copy()
        return shorter, float(_cost(shorter, self.chain, self.way))


def _pairs(sites: Sites, order: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the pairs (E, 2) of stations between which no third one is nearer, and the costs (E,) of their ways."""
    cost = np.full(len(sites.at), np.inf, np.float32)
    station = np.full(len(sites.at), -1, np.int32)
    _spread(order, cost, station, sites.neighbours, sites.steps)
    here = np.repeat(np.arange(len(sites.at)), 8)
    there, step = sites.neighbours.ravel(), sites.steps.ravel()
    is_border = (there > here) & (station[here] >= 0) & (station[here] != station[there])
    here, there, step = here[is_border], there[is_border], step[is_border]
    ends = np.sort(np.stack([station[here], station[there]], 1), axis=1)
    total = cost[here] + step + cost[there]
    ranks = np.lexsort((total, ends[:, 1], ends[:, 0]))
    ends, total = ends[ranks], total[ranks]
    is_first = np.ones(len(ends), np.bool_)
    is_first[1:] = (ends[1:] != ends[:-1]).any(axis=1)
    return ends[is_first], total[is_first]


def _reorder(sites: Sites, order: NDArray[np.int32], longest: int) -> NDArray[np.int32]:
    pairs, costs = _pairs(sites, order)
    between = costs_between(len(order), pairs, costs)
    return order[improve(np.arange(len(order), dtype=np.int32), between, longest)]


@njit(nogil=True, cache=True)
def _spread(order, cost, station, neighbours, steps):  # type: ignore[no-untyped-def]
    """Give each site the station with the cheapest way to it, and that way's cost."""
    heap = [(0.0, order[i]) for i in range(len(order))]
    for i in range(len(order)):
        cost[order[i]] = 0.0
        station[order[i]] = i
    while heap:
        own, i = heapq.heappop(heap)
        if own > cost[i]:
            continue
        for k in range(8):
            other = neighbours[i, k]
            if other < 0:
                continue
            new = np.float32(own + steps[i, k])
            if new < cost[other]:
                cost[other] = new
                station[other] = station[i]
                heapq.heappush(heap, (np.float64(new), other))


@njit(nogil=True, cache=True)
def _cover(least, chosen, covers, is_floor, seen, seen_count, at, number, lattice):  # type: ignore[no-untyped-def]
    """Choose sites, most new cells first, until all cells in view are covered, or none has more than `least`.

    Then leave out those that others make superfluous. `covers` is counted on.
    """
    count = len(seen_count)
    gain = np.zeros(count, np.float32)
    for i in range(count):
        if is_floor[i]:
            for k in range(seen_count[i]):
                if covers[seen[i, k]] == 0:
                    gain[i] += 1.0
    row0, col0, block, block_row0, block_col0 = lattice
    reach = int(np.ceil(np.sqrt(seen.shape[1]) / block)) + 1
    picked = []
    while count:
        best = np.argmax(gain)
        if gain[best] <= least:
            break
        chosen[best] = True
        picked.append(best)
        for k in range(seen_count[best]):
            covers[seen[best, k]] += 1
        b_row = (at[best, 0] + row0) // block - block_row0
        b_col = (at[best, 1] + col0) // block - block_col0
        for r in range(max(0, b_row - reach), min(number.shape[0], b_row + reach + 1)):
            for c in range(max(0, b_col - reach), min(number.shape[1], b_col + reach + 1)):
                i = number[r, c]
                if i < 0 or gain[i] <= 0.0:
                    continue
                gain[i] = 0.0
                for k in range(seen_count[i]):
                    if covers[seen[i, k]] == 0:
                        gain[i] += 1.0
    for site in picked[::-1]:
        is_needed = False
        for k in range(seen_count[site]):
            if covers[seen[site, k]] == 1:
                is_needed = True
                break
        if not is_needed:
            chosen[site] = False
            for k in range(seen_count[site]):
                covers[seen[site, k]] -= 1


@njit(nogil=True, cache=True)
def _count_ways(order, covers, seen, seen_count, chain, ground):  # type: ignore[no-untyped-def]
    for i in range(len(order)):
        _, count = way(order[i - 1], order[i], np.inf, chain, *ground)
        for j in range(count):
            for k in range(seen_count[chain[j]]):
                covers[seen[chain[j], k]] += 1


@njit(nogil=True, cache=True)
def _cost(order, chain, ground):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(order)):
        total += way(order[i - 1], order[i], np.inf, chain, *ground)[0]
    return total


@njit(nogil=True, cache=True)
def _insert(order, added, chain, ground):  # type: ignore[no-untyped-def]
    """Put more stations into an order, each where its detour is the least."""
    at = ground[0]
    grown = np.empty(len(order) + len(added), np.int32)
    grown[: len(order)] = order
    count = len(order)
    for site in added:
        if count == 0:
            grown[0] = site
            count = 1
            continue
        # The nearest stations as the crow flies; between them and those beside them.
        away = np.empty(count, np.float32)
        for i in range(count):
            rise, run = at[grown[i], 0] - at[site, 0], at[grown[i], 1] - at[site, 1]
            away[i] = rise * rise + run * run
        least, best = UNJOINED, 0
        for _ in range(min(8, count)):
            near = int(np.argmin(away))
            away[near] = np.inf
            for j in (near, (near + 1) % count):  # between j - 1 and j
                p, n = grown[(j - 1) % count], grown[j]
                own = way(p, n, np.inf, chain, *ground)[0]
                detour = way(p, site, least + own, chain, *ground)[0] - own
                if detour < least:
                    detour += way(site, n, least - detour, chain, *ground)[0]
                if detour < least:
                    least, best = detour, j
        for i in range(count, best, -1):
            grown[i] = grown[i - 1]
        grown[best] = site
        count += 1
    return grown


@njit(nogil=True, cache=True)
def _see(chain, count, marks, token, seen, seen_count):  # type: ignore[no-untyped-def]
    for j in range(count):
        for k in range(seen_count[chain[j]]):
            marks[seen[chain[j], k]] = token


@njit(nogil=True, cache=True)
def _shorten(order, is_active, covers, is_floor, seen, seen_count, ground):  # type: ignore[no-untyped-def]
    """Leave out or move stations while the way gets shorter and loses nothing from view; return how many are left."""
    at, number, lattice = ground[0], ground[1], ground[4]
    row0, col0, block, block_row0, block_col0 = lattice
    chain_in = np.empty(len(at) + 2, np.int32)
    chain_out = np.empty(len(at) + 2, np.int32)
    marks = np.zeros(len(covers), np.int32)
    token = 0
    lost = np.empty(len(covers), np.int32)
    most = (2 * REACH + 1) ** 2 + 1
    places = np.empty(most, np.int32)
    costs = np.empty(most, np.float64)
    count = len(order)
    for _ in range(SWEEPS):
        has_improved = False
        i = 0
        while i < count and count > 1:
            if not is_active[i]:
                i += 1
                continue
            is_active[i] = False
            p, s, n = order[(i - 1) % count], order[i], order[(i + 1) % count]
            cost_in, count_in = way(p, s, np.inf, chain_in, *ground)
            cost_out, count_out = way(s, n, np.inf, chain_out, *ground)
            old = cost_in + cost_out
            losses = 0
            for side in range(2):
                chain = chain_in if side == 0 else chain_out
                for j in range(count_in if side == 0 else count_out):
                    for k in range(seen_count[chain[j]]):
                        cell = seen[chain[j], k]
                        covers[cell] -= 1
                        if covers[cell] == 0:
                            lost[losses] = cell
                            losses += 1
            places[0], options = -1, 1
            costs[0] = way(p, n, old, chain_in, *ground)[0]
            b_row = (at[s, 0] + row0) // block - block_row0
            b_col = (at[s, 1] + col0) // block - block_col0
            for r in range(max(0, b_row - REACH), min(number.shape[0], b_row + REACH + 1)):
                for c in range(max(0, b_col - REACH), min(number.shape[1], b_col + REACH + 1)):
                    t = number[r, c]
                    if t < 0 or not is_floor[t] or t == s or t == p or t == n:
                        continue
                    places[options] = t
                    costs[options] = way(p, t, old, chain_in, *ground)[0]
                    if costs[options] < old - LEAST_GAIN:
                        costs[options] += way(t, n, old, chain_out, *ground)[0]
                    options += 1
            taken = s
            has_found = False
            for _ in range(options):
                best = np.argmin(costs[:options])
                if costs[best] >= old - LEAST_GAIN:
                    break
                costs[best] = np.inf
                t = places[best]
                token += 1
                if t < 0:
                    _, count_in = way(p, n, old, chain_in, *ground)
                    count_out = 0
                else:
                    _, count_in = way(p, t, old, chain_in, *ground)
                    _, count_out = way(t, n, old, chain_out, *ground)
                _see(chain_in, count_in, marks, token, seen, seen_count)
                _see(chain_out, count_out, marks, token, seen, seen_count)
                is_kept = True
                for k in range(losses):
                    if marks[lost[k]] != token:
                        is_kept = False
                        break
                if is_kept:
                    taken, has_found = t, True
                    break
            if not has_found:
                _, count_in = way(p, s, np.inf, chain_in, *ground)
                _, count_out = way(s, n, np.inf, chain_out, *ground)
            for side in range(2):
                chain = chain_in if side == 0 else chain_out
                for j in range(count_in if side == 0 else count_out):
                    for k in range(seen_count[chain[j]]):
                        covers[seen[chain[j], k]] += 1
            if has_found:
                has_improved = True
                for j in range(i - 2, i + 3):
                    is_active[j % count] = True
            if taken < 0:
                for j in range(i, count - 1):
                    order[j] = order[j + 1]
                    is_active[j] = is_active[j + 1]
                count -= 1
            else:
                order[i] = taken
                i += 1
        if not has_improved:
            break
    return count


@njit(nogil=True, cache=True)
def _own(order, owner, nearest, floor, seen, seen_count, chain, ground):  # type: ignore[no-untyped-def]
    at, costmap = ground[0], ground[5]
    cols = costmap.shape[1]
    for i in range(len(order)):
        _, count = way(order[i - 1], order[i], np.inf, chain, *ground)
        for j in range(count):
            site = chain[j]
            for k in range(seen_count[site]):
                cell = seen[site, k]
                rise = floor[cell] // cols - at[site, 0]
                run = floor[cell] % cols - at[site, 1]
                away = rise * rise + run * run
                if away < nearest[cell]:
                    nearest[cell] = away
                    owner[cell] = i
