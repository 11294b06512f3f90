"""An exploration from its first target to its end. Pure; the explorer actor obeys."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import ExplorerConfig, RobotConfig
from rhino_actors.exploration.frontier import Cell, FrontierCluster, find_frontiers
from rhino_actors.exploration.goal_selection import SkippedCluster, SkipReason, choose_frontier
from rhino_actors.exploration.mission import Choice, Target
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.missions import FrontierState, SkippedTarget

# A frontier whose nearest cell is farther than this from where it was has been seen out [m].
SEEN_OUT_DISTANCE_M = 0.4
VIEW_MARGIN_M = 0.35  # added to the robot's radius: from how near a frontier is looked at


@dataclass(frozen=True, slots=True)
class _Aim:
    """The target in force."""

    x: float  # [m] in the map: where to stand
    y: float
    frontier_x: float  # [m] in the map, of the frontier's cell that it was chosen for
    frontier_y: float


@dataclass
class _Attempt:
    """A place that was tried in vain."""

    x: float  # [m] in the map
    y: float
    tries: int
    last: float  # [s]


class ExploreMission:
    """Chooses target after target and remembers the places that were tried in vain."""

    def __init__(self, config: ExplorerConfig, robot: RobotConfig) -> None:
        self._config = config
        self._view_distance = robot.inscribed_radius + VIEW_MARGIN_M
        self._proposed: _Aim | None = None  # of the newest choice
        self._aim: _Aim | None = None  # in force
        self._attempts: list[_Attempt] = []
        self._nothing_since: float | None = None
        self.goal_id = 0  # of the planner, for the target in force; 0: none

    def sent(self, target: Target, goal_id: int) -> None:
        """Note that the planner took the target."""
        self._aim, self.goal_id = self._proposed, goal_id

    def forget_goal(self) -> None:
        """Note that the target is no longer driven to, through no fault of its own."""
        self._aim, self.goal_id = None, 0

    def arrived(self, now: float) -> None:
        """Note that the robot stands at the target: if its frontier is still there, that was a try."""
        self._tried(now)

    def failed(self, now: float, reason: str) -> None:
        """Note that the planner gave the target up."""
        self._tried(now)

    def refused(self, target: Target, now: float, reason: str) -> None:
        """Note that the planner did not take a target."""
        self._aim = self._proposed
        self._tried(now)

    def choose(
        self,
        snapshot: MapSnapshot,
        pose: tuple[float, float, float],
        cost_to_go: NDArray[np.float32],
        now: float,
    ) -> Choice:
        """Look at the newest map.

        Args:
            snapshot: the map.
            pose: x, y [m], yaw [rad] of the robot in the map.
            cost_to_go: (rows, cols) float32, the planner's field from the robot on this map.
            now: monotonic time [s].
        """
        geometry = snapshot.geometry
        min_cells = max(1, round(self._config.min_frontier_size / geometry.resolution))
        clusters = find_frontiers(snapshot.occupancy, min_cells=min_cells)
        best, skipped = choose_frontier(
            clusters,
            snapshot.costmap,
            cost_to_go,
            resolution=geometry.resolution,
            view_distance=self._view_distance,
            given_up=self._given_up(geometry, now),
            skip_radius=self._config.skip_radius,
        )
        if self._aim is not None and not self._is_seen_out(self._aim, clusters, geometry):
            self._nothing_since = None
            return _choice(None, False, self._aim, clusters, skipped, geometry)
        if best is not None:
            self._nothing_since = None
            aim = _Aim(*geometry.world_from_cell(*best.cell), *geometry.world_from_cell(*best.sees))
            self._proposed = aim
            text = f"Driving to a frontier of {best.cluster.size} cells."
            target = Target(aim.x, aim.y, message=text)
            return _choice(target, False, aim, clusters, skipped, geometry)
        if self._nothing_since is None:
            self._nothing_since = now
        complete = now - self._nothing_since >= self._config.settle_time_s
        return _choice(None, complete, None, clusters, skipped, geometry)

    def _tried(self, now: float) -> None:
        aim, self._aim, self.goal_id = self._aim, None, 0
        if aim is None:
            return
        place = (aim.frontier_x, aim.frontier_y)
        for attempt in self._attempts:
            if math.dist(place, (attempt.x, attempt.y)) <= self._config.skip_radius:
                attempt.tries += 1
                attempt.last = now
                return
        self._attempts.append(_Attempt(*place, 1, now))

    def _given_up(self, geometry: GridGeometry, now: float) -> list[Cell]:
        """Return the places given up; one is tried anew after give_up_s, for doors open and people walk on."""
        self._attempts = [a for a in self._attempts if now - a.last < self._config.give_up_s]
        return [
            geometry.cell_from_world(a.x, a.y)
            for a in self._attempts
            if a.tries >= self._config.max_attempts
        ]

    def _is_seen_out(
        self, aim: _Aim, clusters: list[FrontierCluster], geometry: GridGeometry
    ) -> bool:
        cell = np.array(geometry.cell_from_world(aim.frontier_x, aim.frontier_y))
        near = (SEEN_OUT_DISTANCE_M / geometry.resolution) ** 2
        return not any(
            bool((((cluster.cells - cell) ** 2).sum(axis=1) <= near).any()) for cluster in clusters
        )


def _choice(
    target: Target | None,
    is_complete: bool,
    in_force: _Aim | None,
    clusters: list[FrontierCluster],
    skipped: list[SkippedCluster],
    geometry: GridGeometry,
) -> Choice:
    frontiers = np.zeros((len(clusters), 3))
    for i, cluster in enumerate(clusters):
        frontiers[i, :2] = geometry.world_from_cell(*cluster.target)
    if in_force is not None and len(clusters):
        away = np.hypot(
            frontiers[:, 0] - in_force.frontier_x, frontiers[:, 1] - in_force.frontier_y
        )
        frontiers[int(np.argmin(away)), 2] = FrontierState.TARGET
    return Choice(
        target=target,
        is_complete=is_complete,
        frontiers=frontiers,
        skipped=tuple(
            SkippedTarget(*geometry.world_from_cell(*s.cluster.target), s.cluster.size, s.reason)
            for s in skipped
        ),
        gave_up=any(s.reason is SkipReason.GAVE_UP for s in skipped),
    )
