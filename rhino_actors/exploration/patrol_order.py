"""The order in which many places are visited, around and around: a short closed tour by local search.

Distances are those of a sparse graph, known from each place to its nearest ones only; all others count as FAR.
"""

import heapq

import numpy as np
from numba import njit
from numpy.typing import NDArray

FAR = np.float32(1e5)  # cost of a way that is not known, as to another island of the floor
MOST_NEAREST = 64  # places to which the costs of ways are known, from each
NEIGHBOURS = 10  # that a place may be joined to
MOST_IN_SEGMENT = 3  # places moved together
MOST_SWEEPS = 100


def costs_between(
    count: int, pairs: NDArray[np.int32], costs: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the costs (M, M) of the ways between M places, FAR where not known.

    Args:
        count: M.
        pairs: (E, 2) places that are joined.
        costs: (E,) of the ways between them.
    """
    both = np.concatenate([pairs, pairs[:, ::-1]])
    twice = np.concatenate([costs, costs]).astype(np.float32)
    order = np.lexsort((both[:, 1], both[:, 0]))
    starts = np.searchsorted(both[order, 0], np.arange(count + 1)).astype(np.int32)
    between = np.full((count, count), FAR, np.float32)
    _nearest(starts, both[order, 1].astype(np.int32), twice[order], MOST_NEAREST, between)
    return between


def nearest(between: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the nearest others (M, K) of each place, the nearest first."""
    count = min(NEIGHBOURS, len(between) - 1)
    without_self = between + np.diag(np.full(len(between), np.inf, np.float32))
    near = np.argpartition(without_self, count - 1, axis=1)[:, :count] if count else None
    if near is None:
        return np.empty((len(between), 0), np.int32)
    ranks = np.lexsort((near, np.take_along_axis(without_self, near, 1)), axis=1)
    return np.ascontiguousarray(np.take_along_axis(near, ranks, 1), np.int32)


def spanning_order(
    count: int, pairs: NDArray[np.int32], costs: NDArray[np.float32]
) -> NDArray[np.int32]:
    """Return an order (M,) around the cheapest tree that joins the places: at most twice the best one."""
    ranks = np.lexsort((pairs[:, 1], pairs[:, 0], costs))
    order = np.empty(count, np.int32)
    _around_tree(np.ascontiguousarray(pairs[ranks], np.int32), order)
    return order


def improve(
    order: NDArray[np.int32], between: NDArray[np.float32], longest: int | None = None
) -> NDArray[np.int32]:
    """Return a shorter order: exchanges of two ways, and moves of up to three places, while any helps.

    Args:
        order: (M,) each place once.
        between: (M, M) symmetric costs.
        longest: how many places in a row may change their direction; None: any.

    Source: 2-opt (Croes 1958) and Or-opt (Or 1976) with neighbour lists, own code.
    """
    shorter = np.array(order, np.int32)
    if len(order) >= 4:
        most = len(order) if longest is None else longest
        _improve(shorter, between, nearest(between), most)
    return shorter


@njit(nogil=True, cache=True)
def _nearest(starts, ends, costs, most, between):  # type: ignore[no-untyped-def]
    count = len(between)
    cost = np.full(count, np.inf, np.float32)
    for source in range(count):
        heap = [(0.0, np.int32(source))]
        touched = [np.int32(source)]
        cost[source] = 0.0
        settled = 0
        while heap and settled < most:
            own, i = heapq.heappop(heap)
            if own > cost[i]:
                continue
            settled += 1
            if own < between[source, i]:
                between[source, i] = between[i, source] = own
            for k in range(starts[i], starts[i + 1]):
                new = np.float32(own + costs[k])
                if new < cost[ends[k]]:
                    if cost[ends[k]] == np.inf:
                        touched.append(ends[k])
                    cost[ends[k]] = new
                    heapq.heappush(heap, (np.float64(new), ends[k]))
        for i in touched:
            cost[i] = np.inf


@njit(nogil=True, cache=True)
def _around_tree(pairs, order):  # type: ignore[no-untyped-def]
    """Join the places along the pairs, the cheapest first; write them as they come on a way around the tree."""
    count = len(order)
    root = np.arange(count).astype(np.int32)
    head = np.full(count, -1, np.int32)
    after = np.full(2 * count, -1, np.int32)
    ends = np.empty(2 * count, np.int32)
    used = 0
    for k in range(len(pairs)):
        a, b = pairs[k]
        while root[a] != a:
            root[a] = root[root[a]]
            a = root[a]
        while root[b] != b:
            root[b] = root[root[b]]
            b = root[b]
        if a == b:
            continue
        root[max(a, b)] = min(a, b)
        for i in range(2):
            ends[used] = pairs[k, 1 - i]
            after[used] = head[pairs[k, i]]
            head[pairs[k, i]] = used
            used += 1
    visited = np.zeros(count, np.bool_)
    stack = np.empty(2 * count + 1, np.int32)
    found = 0
    for first in range(count):
        if visited[first]:
            continue
        depth = 1
        stack[0] = first
        while depth:
            depth -= 1
            at = stack[depth]
            if visited[at]:
                continue
            visited[at] = True
            order[found] = at
            found += 1
            k = head[at]
            while k >= 0:
                if not visited[ends[k]]:
                    stack[depth] = ends[k]
                    depth += 1
                k = after[k]


@njit(nogil=True, cache=True)
def _reverse(order, place, i, j):  # type: ignore[no-untyped-def]
    """Turn the places from position i to j around, or all others: the same closed tour."""
    count = len(order)
    inner = (j - i) % count + 1
    if 2 * inner > count:
        i, j = (j + 1) % count, (i - 1) % count
        inner = count - inner
    for _ in range(inner // 2):
        order[i], order[j] = order[j], order[i]
        place[order[i]], place[order[j]] = i, j
        i, j = (i + 1) % count, (j - 1) % count


@njit(nogil=True, cache=True)
def _exchange(a, order, place, between, near, longest):  # type: ignore[no-untyped-def]
    """Exchange a way from a place and another one, if that is shorter."""
    count = len(order)
    for side in (1, -1):
        b = order[(place[a] + side) % count]
        for k in range(near.shape[1]):
            c = near[a, k]
            if between[a, c] >= between[a, b]:
                break
            d = order[(place[c] + side) % count]
            if c == b or d == a:
                continue
            gain = np.float64(between[a, b]) + between[c, d]
            gain -= np.float64(between[a, c]) + between[b, d]
            if gain <= 1e-2:
                continue
            i, j = (place[b], place[c]) if side == 1 else (place[a], place[d])
            inner = (j - i) % count + 1
            if min(inner, count - inner) > longest:
                continue
            _reverse(order, place, i, j)
            return True
    return False


@njit(nogil=True, cache=True)
def _move(a, order, place, between, near, scratch):  # type: ignore[no-untyped-def]
    """Move a place, with up to two that follow or come before, to another way, if that is shorter."""
    count = len(order)
    for size in range(1, min(MOST_IN_SEGMENT, count - 3) + 1):
        for is_last in range(2):
            i = place[a] if is_last == 0 else (place[a] - size + 1) % count
            first, last = order[i], order[(i + size - 1) % count]
            p, n = order[(i - 1) % count], order[(i + size) % count]
            free = np.float64(between[p, first]) + between[last, n] - np.float64(between[p, n])
            other = last if is_last == 0 else first  # the end that is not a
            for k in range(near.shape[1]):
                c = near[a, k]
                if between[a, c] >= free:
                    break
                if (place[c] - i) % count < size:
                    continue
                for side in (1, -1):
                    q = order[(place[c] + side) % count]
                    if (place[q] - i) % count < size:
                        continue
                    gain = free + between[c, q] - (np.float64(between[a, c]) + between[other, q])
                    if gain <= 1e-2:
                        continue
                    # a comes next to c; the segment goes behind `left`
                    left = c if side == 1 else q
                    forwards = (side == 1) == (is_last == 0)
                    for s in range(size):
                        at = i + s if forwards else i + size - 1 - s
                        scratch[s] = order[at % count]
                    moved = size
                    at = (place[left] + 1) % count
                    for _ in range(count):
                        if (at - i) % count >= size:
                            scratch[moved] = order[at]
                            moved += 1
                        at = (at + 1) % count
                    start = (place[left] + 1) % count
                    if (start - i) % count < size:
                        start = i
                    for s in range(count):
                        order[(start + s) % count] = scratch[s]
                    for s in range(count):
                        place[order[s]] = s
                    return True
    return False


@njit(nogil=True, cache=True)
def _improve(order, between, near, longest):  # type: ignore[no-untyped-def]
    count = len(order)
    place = np.empty(count, np.int32)
    for i in range(count):
        place[order[i]] = i
    scratch = np.empty(count, np.int32)
    for _ in range(MOST_SWEEPS):
        has_improved = False
        for a in range(count):
            while _exchange(a, order, place, between, near, longest):
                has_improved = True
            while _move(a, order, place, between, near, scratch):
                has_improved = True
        if not has_improved:
            break
