"""The graph of a way: a loop bends it back, the begin stays, and stretches that are joined lie as they lay."""

import math

import numpy as np
import pytest

from rhino_actors.geometry import compose, inverse
from rhino_actors.mapping.likelihood import Transform
from rhino_actors.mapping.loop_closure import LoopOptions
from rhino_actors.mapping.pose_graph import Edge, bend, covariances, merged, optimised, residual

SIGMA = (0.03, math.radians(0.6))
LOOP = (0.03, math.radians(0.5))


def square(side: float = 20.0, step: float = 2.0) -> list[Transform]:
    """Once around, the last pose being the first."""
    poses, here = [(0.0, 0.0, 0.0)], (0.0, 0.0, 0.0)
    for _ in range(4):
        for _ in range(round(side / step)):
            here = compose(here, (step, 0.0, 0.0))
            poses.append(here)
        here = compose(here, (0.0, 0.0, math.pi / 2.0))
        poses[-1] = here
    return poses


def drifted(poses: list[Transform], seed: int) -> tuple[list[Transform], list[Edge]]:
    rng = np.random.default_rng(seed)
    edges, here, bent = [], poses[0], [poses[0]]
    for index, (a, b) in enumerate(zip(poses, poses[1:], strict=False)):
        off = rng.normal((0.0, 0.0, math.radians(0.2)), (0.02, 0.02, math.radians(0.2)))
        step = compose(compose(inverse(a), b), tuple(off.tolist()))
        edges.append(Edge(index, index + 1, step, SIGMA))
        here = compose(here, step)
        bent.append(here)
    return bent, edges


def worst(found: list[Transform], true: list[Transform]) -> float:
    return max(math.hypot(a[0] - b[0], a[1] - b[1]) for a, b in zip(found, true, strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_a_closed_way_is_bent_back_and_its_begin_stays(seed: int) -> None:
    truth = square()
    bent, edges = drifted(truth, seed)
    assert worst(bent, truth) > 1.0
    last = len(truth) - 1
    loop = Edge(0, last, truth[-1], LOOP, True)
    found = optimised(bent, [*edges, loop])
    assert found[0] == bent[0]
    assert math.hypot(found[-1][0], found[-1][1]) < 0.10
    assert worst(found, truth) < 0.4 * worst(bent, truth)
    assert max(bend(found, edge) for edge in [*edges, loop]) < 3.0


def test_a_false_loop_bends_more_than_odometry_allows() -> None:
    bent, edges = drifted(square(), 0)
    false = Edge(5, 25, (0.0, 0.0, 0.0), LOOP, True)
    found = optimised(bent, [*edges, false])
    assert max(bend(found, edge) for edge in [*edges, false]) > LoopOptions.max_bend


def test_the_farther_the_way_the_less_sure_is_the_step_and_a_loop_makes_it_sure_again() -> None:
    truth = square()
    _, edges = drifted(truth, 0)
    last = len(truth) - 1
    open_way = covariances(truth, edges, [0, last - 10, last - 1], last)
    spread = [math.sqrt(float(np.linalg.eigvalsh(found[:2, :2])[-1])) for found in open_way]
    assert spread[0] > spread[1] > spread[2] == pytest.approx(SIGMA[0], rel=1e-6)
    assert math.sqrt(open_way[2, 2, 2]) == pytest.approx(SIGMA[1], rel=1e-6)
    (closed,) = covariances(truth, [*edges, Edge(0, last, truth[-1], LOOP, True)], [0], last)
    assert math.sqrt(float(np.linalg.eigvalsh(closed[:2, :2])[-1])) < 0.031
    assert np.allclose(closed, closed.T)


def test_a_step_is_as_sure_as_many_drawn_ones_are_spread() -> None:
    truth, samples = square(6.0), []
    rng = np.random.default_rng(1)
    edges = [
        Edge(k, k + 1, compose(inverse(a), b), SIGMA)
        for k, (a, b) in enumerate(zip(truth, truth[1:], strict=False))
    ]
    for _ in range(2000):
        here = truth[0]
        for edge in edges:
            off = rng.normal(0.0, (SIGMA[0], SIGMA[0], SIGMA[1]))
            here = compose(here, tuple((np.array(edge.step) + off).tolist()))
        samples.append(here[:2])
    (sure,) = covariances(truth, edges, [0], len(truth) - 1)
    assert np.allclose(np.cov(np.array(samples).T), sure[:2, :2], atol=0.12 * sure[0, 0])


def test_joined_stretches_lie_as_they_lay_and_their_loops_hold() -> None:
    truth = square()
    bent, edges = drifted(truth, 1)
    last = len(truth) - 1
    edges = [*edges, Edge(1, last, compose(inverse(truth[1]), truth[-1]), LOOP, True)]
    nodes = optimised(bent, edges)
    keep = [0, 5, 10, 15, 20, 25, 30, 35, last]
    joined, left, owner = merged(nodes, edges, keep)
    assert joined == [nodes[k] for k in keep]
    assert owner[0] == owner[4] == 0 and owner[5] == 1 and owner[last] == 8
    assert [(edge.first, edge.second) for edge in left if not edge.is_loop] == [
        (k, k + 1) for k in range(8)
    ]
    (loop,) = [edge for edge in left if edge.is_loop]
    assert (loop.first, loop.second) == (0, 8)
    before = residual(nodes, edges[-1])
    after = residual(joined, loop)
    assert math.hypot(*after[:2]) == pytest.approx(math.hypot(*before[:2]), abs=0.02)
    assert worst(optimised(joined, left), joined) < 0.05
    one, other = (
        covariances(n, [e for e in es if not e.is_loop], [0], len(n) - 1)[0, :2, :2]
        for n, es in ((nodes, edges), (joined, left))
    )
    assert np.allclose(one, other, rtol=0.25, atol=0.002)
