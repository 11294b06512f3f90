"""LoopClosure: recognises a place seen long before, and bends the whole way so that the map closes there.

The way is cut into stretches, the nodes of a graph; each keeps some frames relative to itself. A new stretch is
searched for in the map of the old ones around it. When one place fits, and clearly better than any other, the stretches
are moved so that all steps between them bend as little as possible, and the map is drawn again from the kept frames.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhino_actors.geometry import compose, inverse, transform_points, wrap_angle
from rhino_actors.mapping.likelihood import (
    COARSE,
    DistanceField,
    LikelihoodPyramid,
    SearchArea,
    Transform,
    refine,
    thinned,
)
from rhino_actors.mapping.submap import Band, RecentGrid
from rhino_actors.messages.geometry import Pose2D

_UNIT = 0.001  # [m] to which kept points are rounded


@dataclass(frozen=True)
class LoopOptions:
    """When a place counts as seen before, and what drift is expected."""

    frame_way: float = 0.2  # [m] between two kept frames, or
    frame_turn: float = math.radians(12.0)  # [rad]
    node_way: float = 2.0  # [m] of a stretch
    old_way: float = 15.0  # [m] driven since: nearer in time is not a loop
    search_radius: float = 1.0  # [m] of the search, and
    drift_share: float = 0.02  # of the way driven since, added to it,
    max_radius: float = 4.0  # [m] at most
    spread: float = math.radians(12.0)  # [rad] of the search to either side
    map_radius: float = 5.0  # [m] around the robot of old frames that are matched to
    near_radius: float = 3.5  # [m] around the robot of what was just seen that is matched
    min_cells: int = 80  # obstacle cells of 10 cm seen in the stretch
    min_score: float = 0.65  # as for Localiser, and so
    min_share: float = 0.75
    margin: float = 0.15
    step_sigma: tuple[float, float] = (0.03, math.radians(0.6))  # of odometry in a stretch
    loop_sigma: tuple[float, float] = (0.03, math.radians(0.5))  # of a recognised place
    max_bend: float = 4.0  # deviations by which a step may be bent: more, and the loop is refused
    max_frames: int = 6000  # kept; beyond, no more loops are closed


class Edge(NamedTuple):
    """A step between two nodes, as measured."""

    first: int
    second: int
    step: Transform  # first from second
    sigma: tuple[float, float]  # [m], [rad]


class _Kept(NamedTuple):
    node: int
    node_from_base: Transform
    points: NDArray[np.int16]  # (N, 3) in the base's frame, heights above z = 0 of odom, in units
    origin: tuple[float, float, float]  # of the sensor, the same
    voxel_size: float


class PlacedFrame(NamedTuple):
    """A kept frame where the map has it now: arguments for OccupancyMapper.integrate."""

    points: NDArray[np.float64]
    origin: tuple[float, float, float]
    pose: Pose2D
    voxel_size: float


class LoopClosure:
    """Keeps the way and closes its loops. Not thread-safe: one caller at a time.

    Attributes:
        nodes: pose in the map of each stretch's begin.
        edges: all steps that are believed.
        closed: loops closed so far.
        refused: places recognised that would have bent the way too much.

    Source: pose graphs (Grisetti, Kuemmerle, Stachniss, Burgard: A tutorial on graph-based SLAM, 2010), own code.
    """

    def __init__(
        self,
        options: LoopOptions | None = None,
        band: Band | None = None,
    ) -> None:
        """Start without a way."""
        self.options = options or LoopOptions()
        self._band = band or Band()
        way = 3.0 * self.options.node_way
        self._recent = RecentGrid(self._band, way=way)
        self.nodes: list[Transform] = []
        self._begins: list[float] = []  # [m] of way at which each node begins
        self.edges: list[Edge] = []
        self._frames: list[_Kept] = []
        self._way = 0.0
        self._last: Transform | None = None
        self.closed = 0
        self.refused = 0

    @property
    def is_full(self) -> bool:
        """True when no more frames can be kept."""
        return len(self._frames) >= self.options.max_frames

    def add_frame(
        self,
        points: NDArray[np.floating],
        origin: tuple[float, float, float],
        pose: Pose2D,
        map_from_odom: Transform,
        *,
        voxel_size: float,
        stamp: float,
    ) -> Transform | None:
        """Take in a frame of odom, and look for a loop when a stretch is complete.

        Args:
            points: (N, 3) [m] in odom.
            origin: of the sensor in odom [m].
            pose: of the robot in odom.
            map_from_odom: where odom is believed to lie now.
            voxel_size: edge [m] of the voxels that the points stand for; 0 for beam ends.
            stamp: of the frame [s].

        Returns:
            The new map_from_odom when a loop was closed: the map must be drawn again from `frames`. Else None.
        """
        options = self.options
        self._recent.add(points, origin, pose, voxel_size=voxel_size, stamp=stamp)
        here = compose(map_from_odom, pose.as_tuple())
        if self.is_full:
            return None
        if self._last is None:
            self._begin_node(here)
        else:
            step = math.hypot(here[0] - self._last[0], here[1] - self._last[1])
            turn = abs(wrap_angle(here[2] - self._last[2]))
            if step < options.frame_way and turn < options.frame_turn:
                return None
            self._way += step
        self._last = here
        is_new = self._way - self._begins[-1] >= options.node_way
        if is_new:
            self._begin_node(here)
        self._keep(points, origin, pose, here, voxel_size)
        return self._close(pose, map_from_odom) if is_new else None

    def frames(self) -> Iterator[PlacedFrame]:
        """Give all kept frames where the map has them now, in the order in which they came."""
        return (self._placed(kept) for kept in self._frames)

    def _begin_node(self, here: Transform) -> None:
        if self.nodes:
            step = compose(inverse(self.nodes[-1]), here)
            last = len(self.nodes) - 1
            self.edges.append(Edge(last, last + 1, step, self.options.step_sigma))
        self.nodes.append(here)
        self._begins.append(self._way)

    def _keep(
        self,
        points: NDArray[np.floating],
        origin: tuple[float, float, float],
        pose: Pose2D,
        here: Transform,
        voxel_size: float,
    ) -> None:
        base_from_odom = inverse(pose.as_tuple())
        cloud = np.asarray(points, np.float64)
        local = transform_points(base_from_odom, cloud[np.isfinite(cloud).all(axis=1)])
        local = local[(np.abs(local) < 32.0).all(axis=1)]
        ((x, y),) = transform_points(base_from_odom, [origin[:2]]).tolist()
        self._frames.append(
            _Kept(
                len(self.nodes) - 1,
                compose(inverse(self.nodes[-1]), here),
                np.rint(local / _UNIT).astype(np.int16),
                (x, y, origin[2]),
                voxel_size,
            )
        )

    def _placed(self, kept: _Kept) -> PlacedFrame:
        map_from_base = compose(self.nodes[kept.node], kept.node_from_base)
        ((x, y),) = transform_points(map_from_base, [kept.origin[:2]]).tolist()
        points = transform_points(map_from_base, kept.points * _UNIT)
        return PlacedFrame(points, (x, y, kept.origin[2]), Pose2D(*map_from_base), kept.voxel_size)

    def _close(self, pose: Pose2D, map_from_odom: Transform) -> Transform | None:
        """Look for the newest stretch among the old ones, and bend the way if it is there."""
        options = self.options
        newest = len(self.nodes) - 1
        here = self.nodes[newest]
        old = [
            index
            for index, (node, begin) in enumerate(zip(self.nodes, self._begins, strict=True))
            if self._way - begin >= options.old_way
            and math.hypot(node[0] - here[0], node[1] - here[1]) <= options.map_radius
        ]
        if not old:
            return None
        nearest = min(
            old, key=lambda i: math.hypot(self.nodes[i][0] - here[0], self.nodes[i][1] - here[1])
        )
        found = self._recognise(set(old), nearest, pose, map_from_odom)
        if found is None:
            return None
        seen_at = compose(found, pose.as_tuple())
        step = compose(inverse(self.nodes[nearest]), seen_at)
        edges = [*self.edges, Edge(nearest, newest, step, options.loop_sigma)]
        moved = optimised(self.nodes, edges)
        if max(bend(moved, edge) for edge in edges) > options.max_bend:
            self.refused += 1
            return None
        shift = max(
            math.hypot(a[0] - b[0], a[1] - b[1]) for a, b in zip(moved, self.nodes, strict=True)
        )
        self.edges = edges
        if shift < 0.02:  # nothing to see: the map stands as it is
            return None
        corrected = compose(moved[newest], inverse(self.nodes[newest]))
        self.nodes = moved
        self._last = compose(corrected, here)
        self.closed += 1
        return compose(corrected, map_from_odom)

    def _recognise(
        self, old: set[int], nearest: int, pose: Pose2D, map_from_odom: Transform
    ) -> Transform | None:
        """Return map_from_odom as the old stretches have it, or None when that is not clear."""
        options = self.options
        all_ends, all_clear = (
            places[np.hypot(places[:, 0] - pose.x, places[:, 1] - pose.y) <= options.near_radius]
            for places in self._recent.places()
        )
        ends = thinned(all_ends, COARSE, 400)
        if len(ends) < options.min_cells:
            return None
        mapper = self._band.mapper()
        for kept in self._frames:
            if kept.node in old:
                placed = self._placed(kept)
                mapper.integrate(
                    placed.points, placed.origin, pose=placed.pose, voxel_size=placed.voxel_size
                )
        occupancy, geometry = mapper.occupancy(), mapper.geometry
        field = DistanceField(occupancy, geometry)
        since = self._way - self._begins[nearest]
        radius = min(options.max_radius, options.search_radius + options.drift_share * since)
        here = compose(map_from_odom, pose.as_tuple())
        candidates, is_complete = LikelihoodPyramid(
            occupancy, geometry, field, unknown_contradiction=0.0
        ).search(
            ends,
            thinned(all_clear, 0.2, 300),
            (pose.x, pose.y),
            area=SearchArea(here[0], here[1], map_from_odom[2], radius, options.spread),
            margin=options.margin,
            apart=(0.5, math.radians(10.0)),
            most=2,
        )
        if len(candidates) != 1 or not is_complete or candidates[0].score < options.min_score:
            return None
        match = refine(
            field, thinned(all_ends, 0.05, 3000), candidates[0].transform, (pose.x, pose.y)
        )
        if match.is_degenerate or match.share < options.min_share:
            return None
        return match.transform


def bend(nodes: list[Transform], edge: Edge) -> float:
    """Return how far an edge is from what was measured, in its own deviations."""
    x, y, yaw = _residual(nodes, edge)
    return max(math.hypot(x, y) / edge.sigma[0], abs(yaw) / edge.sigma[1])


def _residual(nodes: list[Transform], edge: Edge) -> Transform:
    step = compose(inverse(nodes[edge.first]), nodes[edge.second])
    dx, dy = step[0] - edge.step[0], step[1] - edge.step[1]
    return dx, dy, wrap_angle(step[2] - edge.step[2])


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
    count = len(nodes)
    here = np.array(nodes, np.float64)
    for _ in range(rounds):
        matrix = np.zeros((3 * count, 3 * count))
        vector = np.zeros(3 * count)
        poses = [tuple(row) for row in here.tolist()]
        for edge in edges:
            i, j = edge.first, edge.second
            residual = np.array(_residual(poses, edge))
            weights = 1.0 / np.array([edge.sigma[0] ** 2, edge.sigma[0] ** 2, edge.sigma[1] ** 2])
            if j != i + 1:
                weights /= 1.0 + float(residual**2 @ weights) / loss**2
            yaw = here[i, 2]
            cos, sin = math.cos(yaw), math.sin(yaw)
            dx, dy = here[j, 0] - here[i, 0], here[j, 1] - here[i, 1]
            first = np.array(
                [
                    [-cos, -sin, -sin * dx + cos * dy],
                    [sin, -cos, -cos * dx - sin * dy],
                    [0.0, 0.0, -1.0],
                ]
            )
            second = np.array([[cos, sin, 0.0], [-sin, cos, 0.0], [0.0, 0.0, 1.0]])
            a, b = slice(3 * i, 3 * i + 3), slice(3 * j, 3 * j + 3)
            for rows, left in ((a, first), (b, second)):
                weighted = left.T * weights
                matrix[rows, a] += weighted @ first
                matrix[rows, b] += weighted @ second
                vector[rows] += weighted @ residual
        matrix[:3] = matrix[:, :3] = 0.0
        matrix[:3, :3] = np.eye(3)
        vector[:3] = 0.0
        step = np.linalg.solve(matrix, -vector).reshape(count, 3)
        here[1:] += step[1:]
        if float(np.abs(step).max()) < 1e-5:
            break
    return [(x, y, wrap_angle(yaw)) for x, y, yaw in here.tolist()]
