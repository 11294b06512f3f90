"""Flat worlds in which an exploration takes seconds: offices, a lidar of rays on the grid, a perfect pose.

No dynamics and no clock: the robot moves along the planner's path at a constant speed, and time is counted in steps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.config import PlannerConfig, RobotConfig
from rhino_actors.errors import PlanningError
from rhino_actors.mapping import inflate
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry, MapSnapshot
from rhino_actors.messages.navigation import GoalRequest, NavMode
from rhino_actors.messages.window import CellWindow
from rhino_actors.planning.route import Router

RESOLUTION = 0.05  # [m]
SPEED = 0.55  # [m/s]
TICK = 0.5  # [s] between looks of the explorer
SCANS = 2  # per tick
RAYS = 720
ROBOT = RobotConfig()


@dataclass(frozen=True)
class World:
    """The truth."""

    occupancy: NDArray[np.int8]  # (rows, cols) FREE or OCCUPIED
    start: tuple[float, float]  # [m]
    floor: NDArray[np.bool_]  # free cells that can be seen from where the robot gets to

    @property
    def geometry(self) -> GridGeometry:
        return GridGeometry(RESOLUTION, (0.0, 0.0), self.occupancy.shape)


def office(metres: float, seed: int, lidar: float = 5.0) -> World:
    """Return a square office: rooms of 3.5 to 7 m cut out of each other, doors of 0.9 m, and boxes that stand about."""
    rng = np.random.default_rng(seed)
    size = round(metres / RESOLUTION)
    grid = np.zeros((size, size), np.int8)
    grid[:3] = grid[-3:] = OCCUPIED
    grid[:, :3] = grid[:, -3:] = OCCUPIED
    doors: list[tuple[float, float]] = []
    rooms: list[tuple[int, int, int, int]] = []
    _split(grid, rng, (3, size - 3, 3, size - 3), rooms, doors)
    for row0, row1, col0, col1 in rooms:
        for _ in range(rng.integers(1, 5)):
            height, width = rng.integers(8, 25, 2)
            row = int(rng.integers(row0, max(row0 + 1, row1 - height)))
            col = int(rng.integers(col0, max(col0 + 1, col1 - width)))
            middle = np.array([row + height / 2, col + width / 2])
            if all(np.hypot(*(middle - door)) > 30 + max(height, width) / 2 for door in doors):
                grid[row : min(row1, row + height), col : min(col1, col + width)] = OCCUPIED
    return _world(grid, rng, lidar)


def _split(grid, rng, room, rooms, doors):  # type: ignore[no-untyped-def]
    row0, row1, col0, col1 = room
    height, width = row1 - row0, col1 - col0
    least, most = 70, 140
    across = height >= width
    long = max(height, width)
    if long < 2 * least + 2 or (long < most and rng.random() < 0.7):
        rooms.append(room)
        return
    at = int(rng.integers(least, long - least - 1)) + (row0 if across else col0)
    if across:
        grid[at : at + 2, col0:col1] = OCCUPIED
        parts = (row0, at, col0, col1), (at + 2, row1, col0, col1)
    else:
        grid[row0:row1, at : at + 2] = OCCUPIED
        parts = (row0, row1, col0, at), (row0, row1, at + 2, col1)
    for part in parts:
        _split(grid, rng, part, rooms, doors)
    first, last = (col0, col1) if across else (row0, row1)
    for _ in range(1 + (last - first > 160) + (last - first > 400)):
        for _ in range(50):  # not where a wall of the rooms beside ends
            place = int(rng.integers(first + 6, last - 24))
            beside = (
                grid[at - 6 : at + 8, place : place + 18].T
                if across
                else grid[place : place + 18, at - 6 : at + 8]
            )
            if not beside[:, :6].any() and not beside[:, 8:].any():
                break
        if across:
            grid[at : at + 2, place : place + 18] = FREE
            doors.append((at + 1, place + 9))
        else:
            grid[place : place + 18, at : at + 2] = FREE
            doors.append((place + 9, at + 1))


def _world(grid: NDArray[np.int8], rng: np.random.Generator, lidar: float) -> World:
    """Put the robot on the largest floor that hangs together, and see what can be seen from there."""
    from scipy import ndimage

    clear = (
        ndimage.distance_transform_edt(grid == FREE) * RESOLUTION > ROBOT.inscribed_radius + 0.02
    )
    labels, count = ndimage.label(clear)
    sizes = np.bincount(labels.ravel())[1:]
    assert count and sizes.max() > 0.5 * sizes.sum(), "most of the floor must hang together"
    reached = labels == 1 + int(np.argmax(sizes))
    roomy = reached & (ndimage.distance_transform_edt(grid == FREE) * RESOLUTION > 0.6)
    cells = np.argwhere(roomy)
    row, col = cells[rng.integers(len(cells))]
    known = np.full(grid.shape, UNKNOWN, np.int8)
    for r, c in np.argwhere(reached)[::40]:
        scan(grid, known, int(r), int(c), lidar / RESOLUTION)
    start = ((col + 0.5) * RESOLUTION, (row + 0.5) * RESOLUTION)
    return World(grid, start, known == FREE)


@njit(nogil=True, cache=True)
def scan(truth, known, row, col, reach):  # type: ignore[no-untyped-def]
    """Uncover what a lidar sees: cells along its rays, up to the first wall."""
    rows, cols = truth.shape
    known[row, col] = truth[row, col]
    for ray in range(RAYS):
        angle = ray * (2 * np.pi / RAYS)
        drow, dcol = np.sin(angle) * 0.5, np.cos(angle) * 0.5
        for step in range(1, int(2 * reach) + 1):
            r, c = int(np.floor(row + 0.5 + drow * step)), int(np.floor(col + 0.5 + dcol * step))
            if not (0 <= r < rows and 0 <= c < cols):
                break
            known[r, c] = truth[r, c]
            if truth[r, c] >= 50:
                break


def costs(occupancy: NDArray[np.int8], resolution: float = RESOLUTION) -> NDArray[np.uint8]:
    """Return the robot's costmap."""
    return inflate(
        occupancy,
        resolution=resolution,
        inscribed_radius=ROBOT.inscribed_radius,
        inflation_radius=ROBOT.inflation_radius,
        cost_scaling_factor=ROBOT.cost_scaling_factor,
    )


@dataclass
class Run:
    """How an exploration went: one row per tick."""

    distance: list[float] = field(default_factory=list)  # [m]
    coverage: list[float] = field(default_factory=list)  # 0..1
    targets: int = 0
    end: str = ""
    ended: float = 0.0  # [m] when it said that it is done
    track: list[tuple[float, float]] = field(default_factory=list)

    def metres_to(self, share: float) -> float:
        """Return the distance [m] at which a share of the floor was seen; nan if it never was."""
        at = np.flatnonzero(np.array(self.coverage) >= share)
        return self.distance[at[0]] if len(at) else math.nan


class Robot:
    """A point that sees, and moves along planned paths; its map is shared with nobody."""

    def __init__(self, world: World, lidar: float = 5.0) -> None:
        self.world = world
        self.known = np.full(world.occupancy.shape, UNKNOWN, np.int8)
        self.router = Router(
            PlannerConfig(), ROBOT, lambda grid, resolution: costs(grid, resolution)
        )
        self.pose = Pose2D(*world.start, 0.0)
        self.now = 0.0
        self.run = Run()
        self._lidar = lidar
        self._costmap = costs(self.known)
        self._seq = 0
        self._path: NDArray[np.float64] | None = None
        self._goal: tuple[float, float] | None = None
        self._planned = -math.inf
        self._seen = 0
        self.distance = 0.0
        self.scan()

    def scan(self) -> None:
        row, col = self.world.geometry.cell_from_world(self.pose.x, self.pose.y)
        reach = round(self._lidar / RESOLUTION)
        scan(self.world.occupancy, self.known, row, col, reach)
        grown = reach + round(ROBOT.inflation_radius / RESOLUTION) + 2
        whole = CellWindow(0, self.known.shape[0], 0, self.known.shape[1])
        inner = CellWindow(row - grown, row + grown + 1, col - grown, col + grown + 1).clipped(
            whole
        )
        margin = round(ROBOT.inflation_radius / RESOLUTION) + 1
        outer = inner.grown(margin).clipped(whole)
        fresh = costs(np.ascontiguousarray(self.known[outer.slices]))
        self._costmap = self._costmap.copy()
        inside = inner.moved(-outer.row0, -outer.col0)
        self._costmap[inner.slices] = fresh[inside.slices]

    def snapshot(self) -> MapSnapshot:
        self._seq += 1
        return MapSnapshot(
            1, self._seq, self.now, self.world.geometry, self.known.copy(), self._costmap, 1.0
        )

    def go(self, goal: tuple[float, float] | None) -> None:
        """Take a goal, or none."""
        self._goal, self._path, self._planned = goal, None, -math.inf

    def move(self, snapshot: MapSnapshot) -> str:
        """Drive on for a tick. Returns "", "arrived", or the planner's code."""
        self.now += TICK
        outcome = ""
        if self._goal is not None:
            if self.now - self._planned >= 1.0:
                request = GoalRequest(
                    x=self._goal[0], y=self._goal[1], client="bench", allow_unknown=True
                )
                try:
                    self._path = self.router.plan(snapshot, self.pose, request, NavMode.ASTAR).poses
                except PlanningError as error:
                    self._note()
                    return error.code
                self._planned = self.now
            outcome = self._drive(SPEED * TICK)
        self._note()
        return outcome

    def _drive(self, left: float) -> str:
        assert self._path is not None
        step = left / SCANS
        for _ in range(SCANS):
            rest = step
            while rest > 1e-9 and len(self._path):
                dx, dy = self._path[0, 0] - self.pose.x, self._path[0, 1] - self.pose.y
                away = math.hypot(dx, dy)
                part = min(1.0, rest / away) if away > 1e-9 else 1.0
                x, y = self.pose.x + part * dx, self.pose.y + part * dy
                cell = self.world.geometry.cell_from_world(x, y)
                if self.world.occupancy[cell] != FREE:
                    self._planned = -math.inf  # a wall that it has only now seen
                    return ""
                yaw = math.atan2(dy, dx) if away > 1e-9 else self.pose.yaw
                self.pose = Pose2D(x, y, yaw)
                self.distance += part * away
                rest -= part * away
                if part >= 1.0:
                    self._path = self._path[1:]
            self.scan()
            if not len(self._path):
                return "arrived"
        return ""

    def _note(self) -> None:
        seen = np.count_nonzero((self.known == FREE) & self.world.floor)
        self.run.distance.append(self.distance)
        self.run.coverage.append(float(seen / max(1, np.count_nonzero(self.world.floor))))
        self.run.track.append((self.pose.x, self.pose.y))


Explorer = Callable[[Robot, float], None]


def explore(robot: Robot, mission, most: float = 3000.0, until: float = 1.1) -> Run:  # type: ignore[no-untyped-def]
    """Carry out a mission as the explorer actor does; `most` is in metres, `until` a coverage."""
    goal_id = 0
    while robot.distance < most:
        snapshot = robot.snapshot()
        try:
            field = robot.router.costs_from(snapshot, robot.pose)
        except PlanningError as error:
            robot.run.end = error.code
            return robot.run
        choice = mission.choose(snapshot, robot.pose.as_tuple(), field, robot.now)
        if choice.is_complete:
            robot.run.end = "blocked" if choice.gave_up else "complete"
            robot.run.ended = robot.distance
            return robot.run
        if choice.target is not None:
            goal_id += 1
            robot.run.targets += 1
            mission.sent(choice.target, goal_id)
            robot.go((choice.target.x, choice.target.y))
        elif choice.drop:
            mission.forget_goal()
            robot.go(None)
        outcome = robot.move(snapshot)
        if outcome == "arrived":
            mission.arrived(robot.now)
            robot.go(None)
        elif outcome:
            mission.failed(robot.now, outcome)
            robot.go(None)
        if robot.run.coverage[-1] >= until:
            robot.run.end = "enough"
            return robot.run
        if robot.now > 20000:
            break
    robot.run.end = "limit"
    return robot.run
