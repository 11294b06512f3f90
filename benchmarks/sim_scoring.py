"""How much of a world a driver covers, at what way and with how many bumps; and what the simulation costs.

    python -m benchmarks.sim_scoring                                    every world, bump and turn, 300 s
    python -m benchmarks.sim_scoring --world office --seed 3 --seconds 60 --base walking
    python -m benchmarks.sim_scoring --cost                             share of a core, piece by piece

Everything runs in lock-step: the same seeds print the same figures, but for those of speed. `Score` reads truths and
nothing else, so it judges a live simulation (`MujocoPlatform.truth`) as well as these runs.

Covered is a cell of the reachable floor that was within 3.0 m and in line of sight on the truth grid. The greedy
tour knows the map and always takes the best next step: not the shortest tour, but one to measure an explorer by.
"""

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.samples import OdometrySample
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.truth import Truth
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.grid import OCCUPIED
from rhino_actors.messages.platform import Posture
from rhino_actors.planning import cost_to_go, plan_path

SIGHT = 3.0  # [m]: the robot's voxel window reaches 3.2
ROBOT_RADIUS = 0.25  # [m] of the reachable floor that counts
LOOK_EVERY = 0.10  # [m] of way, or
LOOK_ANYWAY = 1.0  # [s]
VIEWPOINT_SPACING = 0.5  # [m] of the greedy tour's choices
WORTH_A_LOOK = 40  # new cells for which the greedy tour goes anywhere, while there are such
WALK_NOISE = 0.02  # [m] of a step that is the body's sway and no way

Cells = NDArray[np.int32]


class Sight:
    """What can be seen from where, on a world's truth."""

    def __init__(self, world: World, *, robot_radius: float = ROBOT_RADIUS) -> None:
        truth = world.truth_grid(robot_radius=robot_radius)
        self.geometry = truth.geometry
        self.reachable = truth.reachable
        self._blocked = truth.occupancy == OCCUPIED
        self._reach = round(SIGHT / truth.geometry.resolution)
        self.total = int(np.count_nonzero(truth.reachable))

    def seen(self, x: float, y: float) -> Cells:
        """Return flat indices of the reachable cells that are in sight of a place [m]."""
        row, col = self.geometry.cell_from_world(x, y)
        found = np.empty((2 * self._reach + 1) ** 2, np.int32)
        count = _seen(self._blocked, self.reachable, row, col, self._reach, found)
        return found[:count]


@njit(nogil=True, cache=True)
def _seen(blocked, wanted, row, col, reach, found):  # type: ignore[no-untyped-def]
    rows, cols = blocked.shape
    count = 0
    for r in range(max(0, row - reach), min(rows, row + reach + 1)):
        for c in range(max(0, col - reach), min(cols, col + reach + 1)):
            dr, dc = r - row, c - col
            if not wanted[r, c] or dr * dr + dc * dc > reach * reach:
                continue
            steps = max(abs(dr), abs(dc))
            clear = True
            for step in range(1, steps):
                # Half up, the same both ways along a line.
                rr = row + (2 * step * dr + steps) // (2 * steps)
                cc = col + (2 * step * dc + steps) // (2 * steps)
                if 0 <= rr < rows and 0 <= cc < cols and blocked[rr, cc]:
                    clear = False
                    break
            if clear:
                found[count] = r * cols + c
                count += 1
    return count


class Score:
    """Takes in truths, newest last, and keeps the account."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._covered = np.zeros(sight.reachable.size, np.bool_)
        self._looked: tuple[float, float, float] | None = None
        self._at: tuple[float, float] | None = None
        self.path = 0.0  # [m]
        self.curve: list[tuple[float, float, float]] = []  # time [s], path [m], coverage
        self.truth: Truth | None = None

    @property
    def coverage(self) -> float:
        """Share of the reachable floor that was seen."""
        return float(np.count_nonzero(self._covered)) / self._sight.total

    def step(self, truth: Truth) -> None:
        """Take in the truth of a moment."""
        self.truth = truth
        x, y = truth.position[:2]
        if self._at is None:
            self._at = (x, y)
        moved = math.dist(self._at, (x, y))
        if moved >= WALK_NOISE:
            self.path += moved
            self._at = (x, y)
        last = self._looked
        if (
            last is None
            or math.dist(last[:2], (x, y)) >= LOOK_EVERY
            or truth.time - last[2] >= LOOK_ANYWAY
        ):
            self._looked = (x, y, truth.time)
            self._covered[self._sight.seen(x, y)] = True
            self.curve.append((truth.time, self.path, self.coverage))


@dataclass
class Tour:
    """A way that covers a world: its places and how much was covered along it."""

    curve: list[tuple[float, float]] = field(default_factory=list)  # path [m], coverage
    places: list[tuple[float, float]] = field(default_factory=list)  # [m]

    def path_for(self, coverage: float) -> float:
        """Return the way [m] after which so much was covered; nan when it never is."""
        for path, covered in self.curve:
            if covered >= coverage:
                return path
        return math.nan


def greedy_tour(sight: Sight, goal: float = 0.99) -> Tour:
    """Return the shorter of two greedy tours from the start that cover `goal` of the reachable floor.

    One goes where most new floor per metre of way can be seen; to the other, near floor counts for more.
    """
    tours = [_greedy_tour(sight, goal, greed) for greed in (1.0, 0.5)]
    return min(tours, key=lambda tour: tour.curve[-1][0] if tour.curve else math.inf)


def _greedy_tour(sight: Sight, goal: float, greed: float) -> Tour:
    geometry, reachable = sight.geometry, sight.reachable
    costmap = np.where(reachable, 0, 254).astype(np.uint8)
    stride = round(VIEWPOINT_SPACING / geometry.resolution)
    grid = np.argwhere(reachable[::stride, ::stride]) * stride
    seen = [sight.seen(*geometry.world_from_cell(int(row), int(col))) for row, col in grid]
    covered = np.zeros(reachable.size, np.bool_)
    cell = geometry.cell_from_world(0.0, 0.0)
    tour = Tour(places=[(0.0, 0.0)])
    path = 0.0
    covered[sight.seen(0.0, 0.0)] = True
    while covered.sum() / sight.total < goal:
        distance = cost_to_go(costmap, [cell], cost_weight=0.0)[grid[:, 0], grid[:, 1]]
        new = np.array([np.count_nonzero(~covered[cells]) for cells in seen])
        new[new < min(WORTH_A_LOOK, int(new.max()))] = 0
        worth = np.where(new > 0, new**greed, 0.0) / (distance * geometry.resolution + 1.0)
        worth[~np.isfinite(distance)] = 0.0
        best = int(np.argmax(worth))
        if worth[best] == 0.0:
            break
        way = plan_path(costmap, cell, (int(grid[best, 0]), int(grid[best, 1])), cost_weight=0.0)
        for before, after in zip(way.cells[:-1], way.cells[1:], strict=True):
            path += math.dist(before, after) * geometry.resolution
            place = geometry.world_from_cell(int(after[0]), int(after[1]))
            covered[sight.seen(*place)] = True
            tour.curve.append((path, float(covered.sum()) / sight.total))
            tour.places.append(place)
        cell = (int(way.cells[-1][0]), int(way.cells[-1][1]))
    return tour


class Driver(Protocol):
    """Something that drives on what the robot perceives."""

    def twist(self, sim: Simulation, odometry: OdometrySample | None) -> Twist2D:
        """Return what is asked of the robot for the next tick."""


class BumpAndTurn:
    """Drives straight on until the odometry stops, backs off, turns by chance, drives on."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 9])
        self._twist = Twist2D(vx=0.5)
        self._until = math.inf
        self._turn = 0.0
        self._trail: list[tuple[float, float, float]] = []

    def twist(self, sim: Simulation, odometry: OdometrySample | None) -> Twist2D:
        """See `Driver`."""
        now = sim.time
        if sim.posture is Posture.FALLEN:
            sim.command("RecoveryStand")
            self._change(Twist2D(vx=-0.3), now + 9.0)
        elif now >= self._until:
            if self._twist.vx < 0.0:
                turning = Twist2D(omega=math.copysign(1.0, self._turn))
                self._change(turning, now + abs(self._turn))
            else:
                self._change(Twist2D(vx=0.5), math.inf)
        elif self._twist.vx > 0.0 and self._is_blocked(now, odometry):
            self._turn = float(self._rng.uniform(0.7, 2.6) * self._rng.choice((-1.0, 1.0)))
            self._change(Twist2D(vx=-0.3), now + 1.2)
        return self._twist

    def _change(self, twist: Twist2D, until: float) -> None:
        self._twist, self._until = twist, until
        self._trail.clear()

    def _is_blocked(self, now: float, odometry: OdometrySample | None) -> bool:
        """Tell whether less than 8 cm came of the last 0.6 s of driving, after 1 s to get going."""
        if odometry is not None:
            self._trail.append((now, *odometry.position[:2]))
        if not self._trail or now - self._trail[0][0] < 1.0:
            return False
        past = next((p for p in reversed(self._trail) if now - p[0] >= 0.6), self._trail[0])
        return math.dist(past[1:], self._trail[-1][1:]) < 0.08


def drive(
    world: World, config: MujocoConfig, driver: Driver, seconds: float
) -> tuple[Score, float]:
    """Let a driver drive in lock-step; return the score and the CPU seconds that the simulation took."""
    sim = Simulation(world, config, RobotConfig())
    score = Score(Sight(world))
    odometry: OdometrySample | None = None
    spent = 0.0
    while sim.time < seconds:
        twist = driver.twist(sim, odometry)
        began = time.thread_time()
        observation = sim.step(twist)
        spent += time.thread_time() - began
        odometry = observation.odometry or odometry
        score.step(sim.truth(0.0))
    return score, spent


HEADER = (
    f"{'world':<13}{'m2':>5}{'people':>7}{'cover':>7}{'path':>7}{'greedy 90/99 %':>16}{'ratio':>7}"
    f"{'walls':>7}{'persons':>8}{'falls':>6}{'drift':>8}{'x real':>8}"
)


def row(world: World, score: Score, tour: Tour, spent: float, odom_error: float) -> str:
    """Return a line of the table; `ratio` is the way against the greedy way for what was covered."""
    truth = score.truth
    assert truth is not None
    greedy = tour.path_for(score.coverage)
    ratio = score.path / greedy if greedy > 0.0 else math.nan
    area = world.truth_grid(robot_radius=ROBOT_RADIUS).reachable_area
    return (
        f"{world.name + ' ' + str(world.seed):<13}{area:>5.0f}{len(world.people):>7}"
        f"{100 * score.coverage:>6.0f}%{score.path:>6.0f}m"
        f"{tour.path_for(0.90):>9.0f} /{tour.path_for(0.99):>4.0f}m{ratio:>7.1f}"
        f"{truth.wall_contacts:>7}{truth.person_contacts:>8}{truth.falls:>6}"
        f"{odom_error:>7.2f}m{truth.time / spent:>8.0f}"
    )


def run(world: World, config: MujocoConfig, seconds: float) -> str:
    """Drive one world and return its line."""

    class Watched(BumpAndTurn):
        last: OdometrySample | None = None

        def twist(self, sim: Simulation, odometry: OdometrySample | None) -> Twist2D:
            self.last = odometry
            return super().twist(sim, odometry)

    driver = Watched(config.seed)
    score, spent = drive(world, config, driver, seconds)
    assert score.truth is not None and driver.last is not None
    error = math.dist(driver.last.position[:2], score.truth.position[:2])
    return row(world, score, greedy_tour(Sight(world)), spent, error)


def cost(names: Sequence[str], base: str, fast: bool) -> None:
    """Print the share of a core that one second of simulation takes, piece by piece."""
    print(
        f"{'share of a core':<16}{'physics, control':>18}{'all, l1 voxels':>16}{'all, scan':>11}{'voxel kB':>10}"
    )
    twists = (Twist2D(vx=0.4, omega=0.4), Twist2D(vx=0.4, omega=-0.4))
    for name in names:
        shares = []
        size = 0.0
        for kind in ("advance", "l1", "scan"):
            config = MujocoConfig(
                world=name,
                base=base,
                fast=fast,
                drift="default",
                lidar="scan" if kind == "advance" else kind,
            )
            sim = Simulation(make_world(name, 1), config, RobotConfig())
            sizes = []
            spent = 0.0
            for tick in range(1600):
                twist = twists[tick // 200 % 2]
                began = time.thread_time()
                if kind == "advance":
                    sim.advance(twist, sim.tick_steps)
                    lidar = None
                else:
                    lidar = sim.step(twist).lidar
                if tick >= 100:
                    spent += time.thread_time() - began
                if lidar is not None and lidar.message:
                    sizes.append(len(lidar.message))
            shares.append(100.0 * spent / (1500 * sim.tick))
            size = float(np.mean(sizes)) / 1000.0 if sizes else size
        print(f"{name:<16}{shares[0]:>17.1f}%{shares[1]:>15.1f}%{shares[2]:>10.1f}%{size:>10.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--world", action="append", help="name, or path of a ROS map; may be repeated"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300.0, help="simulated")
    parser.add_argument("--base", default="walking", choices=("walking", "kinematic"))
    parser.add_argument("--fast", action="store_true", help="4 ms steps")
    parser.add_argument("--lidar", default="l1", choices=("l1", "scan", "ideal"))
    parser.add_argument("--drift", default="default", choices=("off", "default", "harsh"))
    parser.add_argument("--no-people", action="store_true")
    parser.add_argument("--cost", action="store_true", help="print what the simulation costs")
    arguments = parser.parse_args()
    names = arguments.world or list(WORLDS)
    if arguments.cost:
        cost(names, arguments.base, arguments.fast)
        return
    print(HEADER)
    for name in names:
        config = MujocoConfig(
            world=name,
            seed=arguments.seed,
            base=arguments.base,
            fast=arguments.fast,
            lidar=arguments.lidar,
            drift=arguments.drift,
        )
        world = make_world(name, arguments.seed, people=not arguments.no_people)
        print(run(world, config, arguments.seconds), flush=True)


if __name__ == "__main__":
    main()
