"""Recorded drives in the simulated worlds, for the benchmark of localisation: frames as the robot sends them.

A drive may begin anywhere: the world is moved so that the robot's start is its origin, as it is for a robot that was
switched on there. Drives are kept in a folder and read back, so that a change of the algorithm costs no simulation.
"""

import dataclasses
import math
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.samples import LidarSample
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.errors import PlanningError
from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.mapping import inflate
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.planning import plan_path

Transform = tuple[float, float, float]
SPEED = 0.6  # [m/s]
LOOKAHEAD = 0.45  # [m]
SEEN_RADIUS = 1.8  # [m] around the robot that a mapping drive counts as seen
CLEARANCE = 0.35  # [m] that the robot's middle keeps


@dataclasses.dataclass(frozen=True)
class Drive:
    """What one drive brought. Poses of the truth are in the world's own frame, the frame of the maps."""

    start: Transform  # of the robot in the world
    samples: list[LidarSample]
    times: list[float]  # [s] simulated
    truth: list[Transform]  # of base_link in the world


class Floor:
    """Where a robot may drive in a world, from its truth."""

    def __init__(self, world: World) -> None:
        truth = world.truth_grid(robot_radius=CLEARANCE)
        self.geometry: GridGeometry = truth.geometry
        self.occupancy = truth.occupancy
        self.reachable = truth.reachable
        self._costmap = inflate(
            truth.occupancy,
            resolution=truth.geometry.resolution,
            inscribed_radius=0.30,
            inflation_radius=0.80,
            cost_scaling_factor=3.0,
        )

    def random_place(self, rng: np.random.Generator) -> tuple[float, float]:
        cells = np.argwhere(self.reachable)
        row, col = cells[int(rng.integers(len(cells)))]
        return self.geometry.world_from_cell(int(row), int(col))

    def way(
        self, begin: tuple[float, float], end: tuple[float, float]
    ) -> NDArray[np.float64] | None:
        """Return places (N, 2) [m] from begin to end, or None."""
        try:
            found = plan_path(
                self._costmap,
                self.geometry.cell_from_world(*begin),
                self.geometry.cell_from_world(*end),
                allow_unknown=False,
            )
        except PlanningError:
            return None
        return self.geometry.world_from_cells(found.cells)


def moved_world(world: World, start: Transform) -> World:
    """Return the world as seen by a robot that was switched on at `start`: everything in that robot's odom."""
    new_from_old = inverse(start)

    def moved(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(float(x), float(y)) for x, y in transform_points(new_from_old, points)]

    boxes = tuple(
        box._replace(
            center=(*moved([box.center[:2]])[0], box.center[2]), yaw=box.yaw + new_from_old[2]
        )
        for box in world.boxes
    )
    people = tuple(walk._replace(points=tuple(moved(list(walk.points)))) for walk in world.people)
    lights = tuple(
        light._replace(position=(*moved([light.position[:2]])[0], light.position[2]))
        for light in world.lights
    )
    x0, y0, x1, y1 = world.interior
    corners = np.array(moved([(x0, y0), (x1, y0), (x0, y1), (x1, y1)]))
    interior = (*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist())
    return dataclasses.replace(
        world, boxes=boxes, people=people, lights=lights, interior=interior, traps=()
    )


class Driver:
    """Drives one simulated robot over the floor and keeps its frames."""

    def __init__(
        self,
        name: str,
        world_seed: int,
        start: Transform,
        *,
        drift: str,
        seed: int,
        lidar: str = "l1",
        base: str = "kinematic",
        people: bool = True,
    ) -> None:
        world = make_world(name, world_seed, people=people)
        self._simulation = Simulation(
            moved_world(world, start),
            MujocoConfig(world=name, seed=seed, lidar=lidar, drift=drift, base=base, people=people),
            RobotConfig(),
        )
        self.drive = Drive(start, [], [], [])

    @property
    def pose(self) -> Transform:
        """Where the robot really is in the world."""
        return compose(self.drive.start, self._simulation.pose.as_tuple())

    @property
    def time(self) -> float:
        return self._simulation.time

    def step(self, twist: Twist2D) -> None:
        seen = self._simulation.step(twist)
        if seen.lidar is not None:
            self.drive.samples.append(seen.lidar)
            self.drive.times.append(self._simulation.time)
            self.drive.truth.append(self.pose)

    def turn(self, angle: float, rate: float = 0.8) -> None:
        """Turn on the spot [rad]."""
        end = self.time + abs(angle) / rate
        while self.time < end:
            self.step(Twist2D(0.0, 0.0, math.copysign(rate, angle)))

    def follow(self, way: NDArray[np.float64], until: float) -> None:
        """Drive along places (N, 2) in the world, not longer than to the time `until` [s]."""
        nearest = 0
        stuck_at = self.time + 5.0 + 3.0 * float(np.hypot(*np.diff(way, axis=0).T).sum()) / SPEED
        while self.time < min(until, stuck_at):
            x, y, yaw = self.pose
            distances = np.hypot(way[nearest:, 0] - x, way[nearest:, 1] - y)
            nearest += int(np.argmin(distances[:40]))
            ahead = nearest
            while ahead < len(way) - 1 and np.hypot(*(way[ahead] - (x, y))) < LOOKAHEAD:
                ahead += 1
            if np.hypot(*(way[-1] - (x, y))) < 0.15:
                return
            error = math.remainder(math.atan2(way[ahead, 1] - y, way[ahead, 0] - x) - yaw, math.tau)
            forward = SPEED * max(0.0, math.cos(error)) if abs(error) < 0.8 else 0.0
            self.step(Twist2D(forward, 0.0, max(-1.0, min(1.0, 2.0 * error))))


def mapping_drive(name: str, world_seed: int, *, drift: str, seed: int, limit: float) -> Drive:
    """Drive until all reachable floor was near, or to the time `limit` [s]. Nobody walks about."""
    floor = Floor(make_world(name, world_seed))
    driver = Driver(name, world_seed, (0.0, 0.0, 0.0), drift=drift, seed=seed, people=False)
    driver.turn(math.tau)
    cells = np.argwhere(floor.reachable)
    places = floor.geometry.world_from_cells(cells)
    unseen = np.ones(len(places), np.bool_)
    noted = 0
    while driver.time < limit:
        for x, y, _ in driver.drive.truth[noted:]:
            unseen &= np.hypot(places[:, 0] - x, places[:, 1] - y) > SEEN_RADIUS
        noted = len(driver.drive.truth)
        left = np.flatnonzero(unseen)
        if len(left) == 0:
            break
        x, y, _ = driver.pose
        goal = left[int(np.argmin(np.hypot(places[left, 0] - x, places[left, 1] - y)))]
        way = floor.way((x, y), (float(places[goal, 0]), float(places[goal, 1])))
        unseen[goal] = False
        if way is not None:
            driver.follow(way, limit)
    return driver.drive


def random_drive(
    name: str,
    world_seed: int,
    *,
    seed: int,
    duration: float,
    drift: str = "default",
    lidar: str = "l1",
    base: str = "kinematic",
) -> Drive:
    """Begin somewhere, turn once around, then drive to one random place after another."""
    rng = np.random.default_rng([seed, 11])
    floor = Floor(make_world(name, world_seed))
    x, y = floor.random_place(rng)
    start = (x, y, float(rng.uniform(-math.pi, math.pi)))
    driver = Driver(name, world_seed, start, drift=drift, seed=seed, lidar=lidar, base=base)
    driver.turn(math.tau)
    while driver.time < duration:
        way = floor.way(driver.pose[:2], floor.random_place(rng))
        if way is not None and len(way) > 20:
            driver.follow(way, duration)
    return driver.drive


def kept(folder: Path, name: str, make: Callable[[], Drive]) -> Drive:
    """Return the drive of this name from the folder; make and keep it when it is not there."""
    path = folder / f"{name}.pickle"
    if path.is_file():
        with path.open("rb") as file:
            drive: Drive = pickle.load(file)
        return drive
    drive = make()
    folder.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pickle.dump(drive, file)
    return drive


def loop_drive(
    name: str,
    world_seed: int,
    *,
    seed: int,
    way: float = 120.0,
    drift: str = "default",
    lidar: str = "l1",
    base: str = "kinematic",
) -> Drive:
    """Drive from the start to far places until `way` [m] is nearly up, and back to the start. Nobody walks about."""
    rng = np.random.default_rng([seed, 12])
    floor = Floor(make_world(name, world_seed))
    driver = Driver(
        name,
        world_seed,
        (0.0, 0.0, 0.0),
        drift=drift,
        seed=seed,
        lidar=lidar,
        base=base,
        people=False,
    )
    driver.turn(math.tau)
    cells = np.argwhere(floor.reachable)
    places = floor.geometry.world_from_cells(cells)
    visited = [(0.0, 0.0)]
    driven, x, y = 0.0, 0.0, 0.0
    while True:
        # Of some random places the one farthest from where the robot was, that leaves enough way to return.
        chosen, best = None, 0.0
        for index in rng.integers(len(places), size=30):
            place = (float(places[index, 0]), float(places[index, 1]))
            spread = min(math.hypot(place[0] - v[0], place[1] - v[1]) for v in visited)
            if spread > best:
                there, back = floor.way((x, y), place), floor.way(place, (0.0, 0.0))
                if there is None or back is None:
                    continue
                if driven + _length(there) + _length(back) <= way * 1.1:
                    chosen, best = (place, there), spread
        if chosen is None:
            break
        place, there = chosen
        driver.follow(there, math.inf)
        driven += _length(there)
        visited.append(place)
        x, y, _ = driver.pose
    back = floor.way((x, y), (0.0, 0.0))
    if back is not None:
        driver.follow(back, math.inf)
    return driver.drive


def _length(way: NDArray[np.float64]) -> float:
    return float(np.hypot(*np.diff(way, axis=0).T).sum())
