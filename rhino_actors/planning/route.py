"""From a map, a pose and a goal to a path that the robot can drive: the planner's pieces in their order."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import PlannerConfig, RobotConfig
from rhino_actors.errors import (
    GoalOccupied,
    GoalOutsideMap,
    PlanTimedOut,
    StartOccupied,
    StartOutsideMap,
)
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import NO_INFORMATION, GridGeometry, MapSnapshot
from rhino_actors.messages.navigation import GoalRequest, NavMode
from rhino_actors.planning import astar, guided, path
from rhino_actors.planning.astar import GridPath, Planner, is_passable
from rhino_actors.planning.goal import covering, free_start, nearest_free_goal, opened, outside_by
from rhino_actors.planning.guided import GuidedPlanner
from rhino_actors.planning.search import Cell

SPACING_M = 0.10  # of the poses of a path
SIDE_M = 0.05  # left free beside the body where the robot is shut in
MIN_GAIN_M = 0.30  # of cost, below which no new route is better
# A goal's field that takes longer [s] is not built: the map is too large for it to pay.
FIELD_TIMEOUT_S = 0.25

Inflate = Callable[
    [NDArray[np.int8], float], NDArray[np.uint8]
]  # (occupancy, resolution) -> costmap


@dataclass(frozen=True, slots=True)
class Route:
    """A path to a goal, and what it was planned on."""

    poses: NDArray[np.float64]  # (N, 3) x, y [m], yaw [rad] in the map
    goal: Pose2D  # where it ends; yaw is 0 unless one was asked for
    length: float  # [m]
    through_unknown: bool
    allow_unknown: bool
    map_version: tuple[int, int]  # epoch, seq
    plan_time: float  # [s]


class Router:
    """Plans routes with a workspace of its own. Not for two threads at once."""

    def __init__(self, config: PlannerConfig, robot: RobotConfig, inflate: Inflate) -> None:
        self._config = config
        self._robot = robot
        self._inflate = inflate
        self._planner = Planner()
        self._guided: GuidedPlanner | None = None  # for the goal that was asked for last
        self._asked: tuple[GridGeometry, Cell, bool] | None = None
        self._at_once = False  # whether the first plan to a goal builds its field
        self._field_in_time = True

    def warm_up(self) -> None:
        """Compile, or load, every kernel: seconds, once per process."""
        astar.warm_up()
        guided.warm_up()
        path.warm_up()
        self._inflate(np.zeros((3, 3), np.int8), 0.05)

    def plan(
        self, snapshot: MapSnapshot, pose: Pose2D, request: GoalRequest, mode: NavMode
    ) -> Route:
        """Plan from a pose to a goal.

        A goal in an obstacle is moved to the nearest floor that can be reached, within goal_search_radius, unless
        the request is strict. In direct mode the route is a straight line; only its end is checked. From the second
        plan to a goal on, its field guides the search.

        Raises:
            StartOutsideMap, StartOccupied, GoalOutsideMap, GoalOccupied, NoPath, PlanTimedOut.
        """
        started = time.perf_counter()
        deadline = started + self._config.timeout_s
        reach = self._config.unknown_reach if request.allow_unknown else 0.0
        if 0.0 < outside_by(snapshot.geometry, request.x, request.y) <= reach:
            snapshot = covering(snapshot, np.array([(request.x, request.y)]))
        geometry = snapshot.geometry
        costmap = self._leaving(snapshot, pose, request.allow_unknown)
        start = geometry.cell_from_world(pose.x, pose.y)
        wanted = geometry.cell_from_world(request.x, request.y)
        if not geometry.contains(*wanted):
            where = f"more than {reach:.0f} m outside" if reach else "outside"
            raise GoalOutsideMap(f"({request.x:.2f}, {request.y:.2f}) is {where} the map.")
        cell = self._goal_cell(costmap, start, wanted, request, geometry.resolution, deadline)
        goal = (request.x, request.y) if cell == wanted else geometry.world_from_cell(*cell)
        if mode is NavMode.DIRECT:
            poses = _straight(pose, goal)
            cells = geometry.cells_from_world(poses[:, :2])
        else:
            cells = self._search(
                costmap, geometry, start, cell, request.allow_unknown, deadline
            ).cells
            poses = path.poses_from_cells(
                cells,
                costmap,
                geometry,
                spacing=SPACING_M,
                start=(pose.x, pose.y),
                goal=goal,
                cost_weight=self._config.cost_weight,
                allow_unknown=request.allow_unknown,
            )
        return Route(
            poses=poses,
            goal=Pose2D(*goal, request.yaw or 0.0),
            length=path.path_length(poses),
            through_unknown=path.crosses_unknown(snapshot.costmap, cells),
            allow_unknown=request.allow_unknown,
            map_version=(snapshot.epoch, snapshot.seq),
            plan_time=time.perf_counter() - started,
        )

    def replan(
        self, snapshot: MapSnapshot, pose: Pose2D, request: GoalRequest, mode: NavMode
    ) -> Route:
        """Plan as `plan` does, with the goal's field as guide from the first plan on. Worth it while driving there."""
        self._at_once = True
        try:
            return self.plan(snapshot, pose, request, mode)
        finally:
            self._at_once = False

    def costs_from(self, snapshot: MapSnapshot, pose: Pose2D) -> NDArray[np.float32]:
        """Return the cost of the way from a pose to every cell (rows, cols), inf where none leads.

        Raises:
            StartOutsideMap, StartOccupied: as for plan.
        """
        costmap = self._leaving(snapshot, pose, allow_unknown=True)
        start = snapshot.geometry.cell_from_world(pose.x, pose.y)
        return self._planner.cost_to_go(costmap, [start], cost_weight=self._config.cost_weight)

    def is_blocked(self, route: Route, snapshot: MapSnapshot, pose: Pose2D | None) -> bool:
        """Say whether a map shows an obstacle on what is left of a route, seen from a pose."""
        first = path.nearest_index(route.poses, pose.x, pose.y) if pose else 0
        if route.allow_unknown:
            snapshot = covering(snapshot, route.poses[first:, :2])
        costmap = snapshot.costmap
        if pose:
            try:
                costmap = self._leaving(snapshot, pose, route.allow_unknown)
            except (StartOccupied, StartOutsideMap):
                return True
        return path.path_is_blocked(
            costmap, route.poses, snapshot.geometry, first, route.allow_unknown
        )

    def is_better(self, new: Route, old: Route, snapshot: MapSnapshot, pose: Pose2D) -> bool:
        """Say whether a new route is worth leaving the old one for: that one is blocked, or costs clearly more."""
        costs = []
        for route in (new, old):
            first = path.nearest_index(route.poses, pose.x, pose.y)
            rest = route.poses[min(first + 1, len(route.poses) - 1) :, :2]
            points = np.concatenate([[[pose.x, pose.y]], rest])
            around = covering(snapshot, points) if route.allow_unknown else snapshot
            try:
                costmap = self._leaving(around, pose, route.allow_unknown)
            except (StartOccupied, StartOutsideMap):
                return True
            costs.append(
                path.cost_of(
                    points,
                    costmap,
                    around.geometry,
                    cost_weight=self._config.cost_weight,
                    allow_unknown=route.allow_unknown,
                )
            )
        if not np.isfinite(costs[1]):
            return True
        return costs[1] - costs[0] > max(MIN_GAIN_M, self._config.better_by * costs[1])

    def _leaving(
        self, snapshot: MapSnapshot, pose: Pose2D, allow_unknown: bool
    ) -> NDArray[np.uint8]:
        """Return the costmap, eased where the robot stands too near to an obstacle or is shut in."""
        geometry = snapshot.geometry

        def eased(costmap: NDArray[np.uint8]) -> NDArray[np.uint8]:
            return free_start(
                snapshot.occupancy,
                costmap,
                geometry,
                pose.x,
                pose.y,
                inflate=lambda window: self._inflate(window, geometry.resolution),
                footprint_radius=self._robot.inscribed_radius,
                inflation_radius=self._robot.inflation_radius,
                allow_unknown=allow_unknown,
            )

        def wider(costmap: NDArray[np.uint8]) -> NDArray[np.uint8]:
            return opened(
                costmap,
                geometry,
                pose.x,
                pose.y,
                clearance=self._robot.width / 2 + SIDE_M,
                allow_unknown=allow_unknown,
            )

        try:
            return wider(eased(snapshot.costmap))
        except StartOccupied:
            return eased(wider(snapshot.costmap))

    def _goal_cell(
        self,
        costmap: NDArray[np.uint8],
        start: Cell,
        wanted: Cell,
        request: GoalRequest,
        resolution: float,
        deadline: float,
    ) -> Cell:
        """Return the cell to go to: the wanted one, or the nearest that serves. Raises GoalOccupied, PlanTimedOut."""
        cost = costmap[wanted]
        if is_passable(cost, request.allow_unknown):
            return wanted
        what = "was never seen" if cost == NO_INFORMATION else "is in an obstacle or too near one"
        place = f"The goal ({request.x:.2f}, {request.y:.2f}) {what}"
        if request.strict:
            raise GoalOccupied(f"{place}.")
        radius = self._config.goal_search_radius
        near = nearest_free_goal(
            costmap,
            wanted,
            start,
            radius=radius,
            resolution=resolution,
            allow_unknown=request.allow_unknown,
            should_stop=lambda: time.perf_counter() > deadline,
        )
        if near is None:
            raise GoalOccupied(f"{place}, and no floor within {radius:.1f} m can be reached.")
        return near

    def _ask(self, geometry: GridGeometry, goal: Cell, allow_unknown: bool) -> bool:
        """Note what is asked for; return True if it is the same as before."""
        asked, self._asked = self._asked, (geometry, goal, allow_unknown)
        if asked == self._asked:
            return True
        self._field_in_time = True
        if self._guided is not None and asked is not None:
            if asked[0] != geometry:
                self._guided.reset()
            if asked[2] != allow_unknown:
                self._guided = None
        return False

    def _search(
        self,
        costmap: NDArray[np.uint8],
        geometry: GridGeometry,
        start: Cell,
        goal: Cell,
        allow_unknown: bool,
        deadline: float,
    ) -> GridPath:
        """Return the cheapest path, guided by the goal's field if the goal was asked for before."""
        weight = self._config.cost_weight

        def is_late() -> bool:
            return time.perf_counter() > deadline

        if not self._ask(geometry, goal, allow_unknown) and not self._at_once:
            return self._planner.plan_path(
                costmap,
                start,
                goal,
                cost_weight=weight,
                allow_unknown=allow_unknown,
                should_stop=is_late,
            )
        if self._guided is None:
            self._guided = GuidedPlanner(cost_weight=weight, allow_unknown=allow_unknown)
        self._guided.set_map(costmap)
        self._guided.set_goal(goal)
        if self._guided.needs_rebuild and self._field_in_time:
            until = min(deadline, time.perf_counter() + FIELD_TIMEOUT_S)
            try:
                self._guided.rebuild(should_stop=lambda: time.perf_counter() > until)
            except PlanTimedOut:
                self._field_in_time = False
        return self._guided.plan(start, should_stop=is_late)


def _straight(pose: Pose2D, goal: tuple[float, float]) -> NDArray[np.float64]:
    """Return the straight line to the goal as poses (N, 3)."""
    heading = np.arctan2(goal[1] - pose.y, goal[0] - pose.x)
    count = max(2, int(pose.distance_to(*goal) / SPACING_M) + 1)
    share = np.linspace(0.0, 1.0, count)
    poses = np.empty((count, 3))
    poses[:, 0] = pose.x + share * (goal[0] - pose.x)
    poses[:, 1] = pose.y + share * (goal[1] - pose.y)
    poses[:, 2] = heading
    return poses
