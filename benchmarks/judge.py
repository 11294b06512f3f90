"""What the truth says of a drive: its length, how near things came, contacts and falls, and the shortest way."""

import math

import numpy as np
from numpy.typing import NDArray

from benchmarks.lockstep import Robot
from rhino_actors.control.motion_gate import MotionKind
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.mapping import inflate
from rhino_actors.messages.grid import FREE, OCCUPIED
from rhino_actors.messages.platform import StopReason
from rhino_actors.planning import plan_path
from rhino_actors.planning.path import path_length, poses_from_cells

SAMPLE_M = 0.10  # [m] of way between two places that count: shorter steps are the trot's sway
SAMPLE_S = 0.10  # [s] between two looks at the clearance
FEASIBLE_RADIUS = 0.30  # [m]


class Judge:
    """Looks at the truth all along a drive."""

    def __init__(self, robot: Robot, world: World) -> None:
        self.robot = robot
        truth = self.truth = world.truth_grid(robot_radius=FEASIBLE_RADIUS)
        self.geometry = truth.geometry
        rows, cols = np.nonzero(truth.occupancy == OCCUPIED)
        self._obstacles = self.geometry.world_from_cells(np.stack([rows, cols], axis=1))
        grown = _grown(truth.occupancy != FREE, FEASIBLE_RADIUS / self.geometry.resolution)
        self.costmap = np.where(grown, 254, 0).astype(np.uint8)
        self.reachable = truth.reachable
        self._look_due = 0.0
        self.clear()

    def clear(self) -> None:
        """Begin a new account."""
        truth = self.robot.sim.truth(0.0)
        self._before = truth
        self._at = truth.position[:2]
        self.length = 0.0
        self.clearances: list[float] = []
        self.people = math.inf  # [m] nearest that a person's middle came to the robot's
        self.still = 0.0  # [s] that it stood while it had a path and nothing held it
        self.held = 0.0  # [s] that it stood before something
        self.trace: list[tuple[float, float]] = [self._at]

    def step(self) -> None:
        """Take in a tick."""
        sim = self.robot.sim
        place = sim.position[:2]
        moved = math.dist(place, self._at)
        if moved >= SAMPLE_M:
            self.length += moved
            self._at = place
            self.trace.append(place)
        if self.robot.gate.kind is MotionKind.PATH and self.robot.twist.is_zero:
            reason = self.robot.gate.path_state.reason
            self.still += sim.tick * (reason is StopReason.NONE)
            self.held += sim.tick * (reason is StopReason.OBSTACLE)
        if sim.time >= self._look_due:
            self._look_due = sim.time + SAMPLE_S
            self.clearances.append(self.clearance())
            for x, y, _ in sim.truth(0.0).people:
                self.people = min(self.people, math.dist((x, y), place))

    def clearance(self) -> float:
        """Return how far the body's rectangle is from the nearest wall or furniture [m], 2 at most."""
        pose, robot = self.robot.sim.pose, self.robot.config.robot
        near = np.abs(self._obstacles - (pose.x, pose.y)).max(axis=1) < 2.4
        dx, dy = (self._obstacles[near] - (pose.x, pose.y)).T
        if len(dx) == 0:
            return 2.0
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        ahead = np.maximum(np.abs(cos * dx + sin * dy) - robot.length / 2.0, 0.0)
        beside = np.maximum(np.abs(cos * dy - sin * dx) - robot.width / 2.0, 0.0)
        half_cell = self.geometry.resolution / 2.0
        return min(2.0, max(0.0, float(np.hypot(ahead, beside).min()) - half_cell))

    def contacts(self) -> tuple[int, int, int]:
        """Return contacts with walls and with people, and falls, since `clear`."""
        now, before = self.robot.sim.truth(0.0), self._before
        return (
            now.wall_contacts - before.wall_contacts,
            now.person_contacts - before.person_contacts,
            now.falls - before.falls,
        )

    def shortest(self, start: tuple[float, float], goal: tuple[float, float]) -> float:
        """Return the length of the shortest way on the truth grid [m], any angle. Raises PlanningError."""
        cells = [_nearest(self.costmap, self.geometry.cell_from_world(*p)) for p in (start, goal)]
        found = plan_path(self.costmap, cells[0], cells[1], cost_weight=0.0)
        poses = poses_from_cells(
            found.cells, self.costmap, self.geometry, spacing=0.1, cost_weight=0.0
        )
        return path_length(poses)


def _grown(blocked: NDArray[np.bool_], radius: float) -> NDArray[np.bool_]:
    grid = np.where(blocked, OCCUPIED, FREE).astype(np.int8)
    costs = inflate(
        grid,
        resolution=1.0,
        inscribed_radius=radius,
        inflation_radius=radius,
        cost_scaling_factor=1.0,
    )
    grown: NDArray[np.bool_] = costs >= 253
    return grown


def _nearest(costmap: NDArray[np.uint8], cell: tuple[int, int]) -> tuple[int, int]:
    """Return the free cell nearest to a cell."""
    if costmap[cell] == 0:
        return cell
    cells = np.argwhere(costmap == 0)
    best = cells[int(np.argmin(((cells - cell) ** 2).sum(axis=1)))]
    return int(best[0]), int(best[1])
