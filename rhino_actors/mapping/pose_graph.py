"""The poses of a way and the steps measured between them, moved so that all steps bend as little as possible.

Stands on numpy; the graph is small (hundreds of nodes) and solved as a dense system.

Source: Grisetti, Kuemmerle, Stachniss, Burgard: A tutorial on graph-based SLAM, 2010; own code.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhino_actors.geometry import compose, inverse, wrap_angle

Transform = tuple[float, float, float]


class Edge(NamedTuple):
    """A step between two nodes, as measured."""

    first: int
    second: int
    step: Transform  # first from second
    sigma: tuple[float, float]  # [m], [rad]
    is_loop: bool = False  # a place seen again; else a step of odometry


def residual(nodes: list[Transform], edge: Edge) -> Transform:
    """Return how far the nodes are from an edge's step [m], [m], [rad], in the frame of its first node."""
    x, y, yaw = compose(inverse(nodes[edge.first]), nodes[edge.second])
    return x - edge.step[0], y - edge.step[1], wrap_angle(yaw - edge.step[2])


def bend(nodes: list[Transform], edge: Edge) -> float:
    """Return how far an edge is from what was measured, in its own deviations."""
    x, y, yaw = residual(nodes, edge)
    return max(math.hypot(x, y) / edge.sigma[0], abs(yaw) / edge.sigma[1])


def optimised(
    nodes: list[Transform], edges: list[Edge], *, rounds: int = 12, loss: float = 3.0
) -> list[Transform]:
    """Return the poses that bend the edges least; the first stays. Gauss-Newton on squares with a Cauchy loss.

    Args:
        nodes: pose [m], [rad] of each, near enough to begin from.
        edges: measured steps; each node must be joined to the first.
        rounds: most steps.
        loss: deviations beyond which a loop counts less; steps of odometry count in full.
    """
    here = np.array(nodes, np.float64)
    for _ in range(rounds):
        matrix, vector = _normal_equations(here, edges, loss)
        step = np.linalg.solve(matrix, -vector).reshape(-1, 3)
        here[1:] += step
        if len(step) == 0 or float(np.abs(step).max()) < 1e-5:
            break
    return [(x, y, wrap_angle(yaw)) for x, y, yaw in here.tolist()]


def covariances(
    nodes: list[Transform], edges: list[Edge], firsts: list[int], second: int
) -> NDArray[np.float64]:
    """Return how sure the steps from some nodes to another are.

    Args:
        nodes: pose of each.
        edges: measured steps; each node must be joined to the first.
        firsts: from where, K of them.
        second: to where.

    Returns:
        (K, 3, 3) of x, y [m] and yaw [rad] in the frame of the node that the step begins at.
    """
    here = np.array(nodes, np.float64)
    matrix, _ = _normal_equations(here, edges, math.inf)
    count = len(firsts)
    one, other = _jacobians(here[firsts], here[[second] * count])
    rows = np.zeros((len(nodes), 3, count, 3))
    for index, first in enumerate(firsts):
        rows[first, :, index] = one[index].T
        rows[second, :, index] += other[index].T
    flat = rows.reshape(3 * len(nodes), 3 * count)[3:]
    solved = np.linalg.solve(matrix, flat)
    found = np.stack(
        [flat[:, 3 * k : 3 * k + 3].T @ solved[:, 3 * k : 3 * k + 3] for k in range(count)]
    )
    return found


def _normal_equations(
    here: NDArray[np.float64], edges: list[Edge], loss: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return matrix and vector of all nodes but the first."""
    count = len(here)
    i, j = np.array([e.first for e in edges], int), np.array([e.second for e in edges], int)
    steps = np.array([e.step for e in edges], np.float64).reshape(-1, 3)
    sigma = np.array([(e.sigma[0], e.sigma[0], e.sigma[1]) for e in edges]).reshape(-1, 3)
    first, second = _jacobians(here[i], here[j])
    cos, sin = np.cos(here[i, 2]), np.sin(here[i, 2])
    dx, dy = (here[j, :2] - here[i, :2]).T
    off = np.stack([cos * dx + sin * dy, cos * dy - sin * dx, here[j, 2] - here[i, 2]], 1) - steps
    off[:, 2] = (off[:, 2] + math.pi) % math.tau - math.pi
    weights = sigma**-2.0
    if math.isfinite(loss):
        is_loop = np.array([e.is_loop for e in edges], np.bool_)
        weights[is_loop] /= 1.0 + (off**2 * weights).sum(axis=1)[is_loop, None] / loss**2
    blocks = np.zeros((count, count, 3, 3))
    vector = np.zeros((count, 3))
    for rows, left in ((i, first), (j, second)):
        weighted = left.transpose(0, 2, 1) * weights[:, None, :]
        np.add.at(blocks, (rows, i), weighted @ first)
        np.add.at(blocks, (rows, j), weighted @ second)
        np.add.at(vector, rows, (weighted @ off[:, :, None])[:, :, 0])
    matrix = blocks.transpose(0, 2, 1, 3).reshape(3 * count, 3 * count)
    return matrix[3:, 3:], vector.ravel()[3:]


def _jacobians(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the derivatives (N, 3, 3) of the steps between poses (N, 3) by either pose."""
    cos, sin = np.cos(first[:, 2]), np.sin(first[:, 2])
    dx, dy = (second[:, :2] - first[:, :2]).T
    one, other = np.zeros((len(first), 3, 3)), np.zeros((len(first), 3, 3))
    other[:, 0, 0] = other[:, 1, 1] = cos
    other[:, 0, 1], other[:, 1, 0], other[:, 2, 2] = sin, -sin, 1.0
    one[:] = -other
    one[:, 0, 2], one[:, 1, 2] = cos * dy - sin * dx, -cos * dx - sin * dy
    return one, other


def merged(
    nodes: list[Transform], edges: list[Edge], keep: list[int]
) -> tuple[list[Transform], list[Edge], list[int]]:
    """Leave nodes out of a graph: what they held together is rigid from now on, as it lies now.

    Args:
        nodes: all of them.
        edges: all of them.
        keep: ascending, with 0: the nodes that stay. One that goes becomes a part of the last one before it.

    Returns:
        nodes, edges, and for each old node the new one that it is a part of. Of loops that join the same two nodes
        the newest stays.
    """
    owner = (np.searchsorted(keep, np.arange(len(nodes)), side="right") - 1).tolist()
    within = [compose(inverse(nodes[keep[owner[k]]]), nodes[k]) for k in range(len(nodes))]
    variances = np.zeros((len(keep), 2))
    loops: dict[tuple[int, int], Edge] = {}
    for edge in edges:
        a, b = owner[edge.first], owner[edge.second]
        if edge.is_loop and a != b:
            step = compose(compose(within[edge.first], edge.step), inverse(within[edge.second]))
            loops[a, b] = Edge(a, b, step, edge.sigma, True)
        elif not edge.is_loop:
            # A step inside a part makes the step to the next part less sure.
            end = b if a != b else b + 1
            if end < len(keep):
                there = nodes[keep[end]]
                here = nodes[edge.second]
                lever = math.hypot(there[0] - here[0], there[1] - here[1])
                variances[end] += (
                    edge.sigma[0] ** 2 + (lever * edge.sigma[1]) ** 2,
                    edge.sigma[1] ** 2,
                )
    kept = [nodes[k] for k in keep]
    chain = [
        Edge(k - 1, k, compose(inverse(kept[k - 1]), kept[k]), (sxy, syaw))
        for k, (sxy, syaw) in enumerate(np.sqrt(variances).tolist())
        if k > 0
    ]
    return kept, [*chain, *loops.values()], owner
