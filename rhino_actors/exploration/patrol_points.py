"""A patrol along points: in their order, around and around, past those that cannot be reached. Pure."""

import math

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import PatrolConfig
from rhino_actors.errors import GoalOccupied, GoalOutsideMap, NoPath
from rhino_actors.exploration.visitation import FREE_BELOW
from rhino_actors.geometry import wrap_angle
from rhino_actors.messages.grid import (
    INSCRIBED_INFLATED_OBSTACLE,
    NO_INFORMATION,
    MapSnapshot,
)
from rhino_actors.messages.missions import PatrolPoint, PatrolRequest, SkippedTarget

DUPLICATE = "DUPLICATE"  # the very place and heading of the point before it
OUTSIDE_AREA = "OUTSIDE_AREA"  # of the polygon that the patrol keeps to
NEVER_SEEN = "GOAL_UNKNOWN"  # the map is unknown there
SAME_PLACE_M = 0.05
SAME_YAW_RAD = 0.05


class PointTour:
    """Says which point comes next, and remembers why others were skipped. A skipped point is tried in each loop."""

    def __init__(self, request: PatrolRequest, config: PatrolConfig) -> None:
        self._points = request.points
        self._last_loop = request.loops
        self._search_radius = config.point_search_radius
        self._at = 0
        self._reached_in_loop = 0
        self._reasons: dict[int, str] = {}
        self.loops = 0  # done

    @property
    def is_over(self) -> bool:
        """True when all loops are done."""
        return self._last_loop is not None and self.loops >= self._last_loop

    @property
    def share(self) -> float:
        """Loops done, the present one by its share."""
        return self.loops + self._at / len(self._points)

    @property
    def skipped(self) -> tuple[SkippedTarget, ...]:
        """Points that were skipped when they were last due."""
        return tuple(
            SkippedTarget(self._points[i].x, self._points[i].y, 0, reason, self._label(i))
            for i, reason in sorted(self._reasons.items())
        )

    def next(
        self,
        snapshot: MapSnapshot,
        cost_to_go: NDArray[np.float32],
        area: NDArray[np.bool_] | None,
    ) -> tuple[int, float, float] | None:
        """Return the index of the next point that can be reached, and x, y [m] to stand on.

        Points on the way to it that cannot be are skipped. None if there is none in a whole loop, which then does not
        count, or if the tour is over.

        Args:
            snapshot: the map.
            cost_to_go: (rows, cols) float32, the planner's field from the robot.
            area: (rows, cols) bool that points have to lie in; None: everywhere.
        """
        for _ in self._points:
            if self.is_over:
                return None
            place = self._place(self._at, snapshot, cost_to_go, area)
            if not isinstance(place, str):
                return (self._at, *place)
            self.skip(place)
        return None

    def reached(self) -> None:
        """Note that the robot stands at the point."""
        self._reasons.pop(self._at, None)
        self._reached_in_loop += 1
        self._advance()

    def skip(self, reason: str) -> None:
        """Leave the point out, for a reason (code)."""
        self._reasons[self._at] = reason
        self._advance()

    def _advance(self) -> None:
        self._at += 1
        if self._at == len(self._points):
            self._at = 0
            self.loops += self._reached_in_loop > 0
            self._reached_in_loop = 0

    def _place(
        self,
        index: int,
        snapshot: MapSnapshot,
        cost_to_go: NDArray[np.float32],
        area: NDArray[np.bool_] | None,
    ) -> tuple[float, float] | str:
        """Return x, y [m] to stand on for a point, or the reason why there is none."""
        point, geometry = self._points[index], snapshot.geometry
        if index > 0 and _is_same(point, self._points[index - 1]):
            return DUPLICATE
        row, col = geometry.cell_from_world(point.x, point.y)
        if not geometry.contains(row, col):
            return GoalOutsideMap.code
        if area is not None and not area[row, col]:
            return OUTSIDE_AREA
        reach = math.ceil(self._search_radius / geometry.resolution)
        row0, col0 = max(0, row - reach), max(0, col - reach)
        window = (slice(row0, row + reach + 1), slice(col0, col + reach + 1))
        occupancy = snapshot.occupancy[window]
        safe = (snapshot.costmap[window] < INSCRIBED_INFLATED_OBSTACLE) & (occupancy >= 0)
        safe &= occupancy < FREE_BELOW
        if area is not None:
            safe &= area[window]
        rows, cols = np.mgrid[window[0], window[1]][:, : safe.shape[0], : safe.shape[1]]
        away = np.hypot(rows - row, cols - col) * geometry.resolution
        safe &= away <= self._search_radius + 1e-9
        can_go = safe & np.isfinite(cost_to_go[window])
        if can_go[row - row0, col - col0]:
            return (point.x, point.y)
        if can_go.any():
            nearest = np.argmin(np.where(can_go, away, np.inf))
            at = np.unravel_index(int(nearest), can_go.shape)
            return geometry.world_from_cell(int(at[0]) + row0, int(at[1]) + col0)
        if safe.any():
            return NoPath.code
        if snapshot.costmap[row, col] == NO_INFORMATION:
            return NEVER_SEEN
        return GoalOccupied.code

    def _label(self, index: int) -> str:
        return self._points[index].label or f"point {index + 1}"


def _is_same(a: PatrolPoint, b: PatrolPoint) -> bool:
    if math.dist((a.x, a.y), (b.x, b.y)) > SAME_PLACE_M:
        return False
    if a.yaw is None or b.yaw is None:
        return a.yaw is None and b.yaw is None
    return abs(wrap_angle(a.yaw - b.yaw)) <= SAME_YAW_RAD
