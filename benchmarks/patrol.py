"""Patrols of a known floor against time: what is left out, how long places wait, and what a choice costs.

    python -m benchmarks.patrol [--seeds N] [--first SEED] [--minutes M] [--routers NAME ...] [--dimos PYTHON]
                                [--pictures FOLDER]
    python -m benchmarks.patrol --costs            CPU time of a choice on maps of 400 to 4000 cells a side

A 2D kinematic robot drives the planned paths on the true grid of an office of 20 m at 0.55 m/s; nothing is seen or
mapped. The robot chooses by `PatrolMission` twice a second, as the explorer actor does. Every track is measured by the
same code: the share of safe cells that were ever within 0.5 m of it, for two notions of safe (where rhino's body fits:
0.30 m from obstacles; dimos's own: free cells eroded by 7 x 7), and idleness, the time since a cell was last so near.
`bound %` is the most that `peer %` can be for a body of 0.30 m: dimos's safe cells within 0.5 m of where it fits.

`PYTHON`, or RHINO_DIMOS_PYTHON, is an interpreter that has dimos (benchmarks/README.md). Its routers and its planner
then drive on the same grids, in their own process. Times are CPU times of the thread.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors import exploration
from rhino_actors.actors.routing import make_router
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import PlanningError
from rhino_actors.exploration.patrol_mission import PatrolMission
from rhino_actors.exploration.visitation import age_levels
from rhino_actors.mapping import inflate
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, GridGeometry, MapSnapshot
from rhino_actors.messages.missions import (
    MissionKind,
    MissionRecord,
    MissionState,
    PatrolRequest,
    PatrolRouter,
    Visits,
)
from rhino_actors.messages.navigation import GoalRequest, NavMode
from rhino_actors.planning.route import Router
from rhino_actors.viz.mission_picture import draw_mission

RESOLUTION = 0.05
SPEED = 0.55  # [m/s]
PERIOD = 0.5  # [s] between looks
NEAR = 0.5  # [m] from the track
GOAL_TOLERANCE = 0.15  # [m]
DOOR = (0.9, 1.2)  # [m]


def office(size: int, seed: int) -> NDArray[np.int8]:
    """Return an office (size, size): corridors of 2 m every 12 m or so, rooms of 3 to 6 m, doors, desks, pillars."""
    rng = np.random.default_rng(seed)
    grid = np.full((size, size), FREE, np.int8)
    grid[:2], grid[-2:], grid[:, :2], grid[:, -2:] = (OCCUPIED,) * 4
    corridor = 40
    rows = max(1, round(size * RESOLUTION / 13.0))
    pitch = size // rows
    for k in range(rows):
        low, high = k * pitch, size if k == rows - 1 else (k + 1) * pitch
        middle = (low + high) // 2 + int(rng.integers(-20, 21))
        for first, last, wall in (
            (low, middle - corridor // 2, middle - corridor // 2),
            (middle + corridor // 2, high, middle + corridor // 2),
        ):
            grid[wall : wall + 2] = OCCUPIED
            _rooms(grid, rng, first, last, wall)
        if k:  # two ways to the strip below
            grid[low : low + 2] = OCCUPIED
            for _ in range(2):
                at = int(rng.integers(10, size - 40))
                door = int(rng.uniform(*DOOR) / RESOLUTION)
                grid[low - 4 : low + 6, at : at + door] = FREE
    return grid


def _rooms(
    grid: NDArray[np.int8], rng: np.random.Generator, first: int, last: int, wall: int
) -> None:
    size, left = grid.shape[1], 2
    while left < size - 2:
        right = min(size - 2, left + int(rng.uniform(3.0, 6.0) / RESOLUTION))
        if size - 2 - right < 50:
            right = size - 2
        if right < size - 2:
            grid[first:last, right : right + 2] = OCCUPIED
        door = int(rng.uniform(*DOOR) / RESOLUTION)
        at = int(rng.integers(left + 6, max(left + 7, right - door - 6)))
        for _ in range(int(rng.integers(2, 5))):  # furniture
            height, width = (int(v / RESOLUTION) for v in rng.uniform(0.4, 1.6, 2))
            row = int(rng.integers(first, max(first + 1, last - height)))
            col = int(rng.integers(left, max(left + 1, right - width)))
            grid[row : row + height, col : col + width] = OCCUPIED
        grid[wall - 18 : wall + 20, at : at + door] = FREE
        left = right + 2


@dataclass(frozen=True)
class Course:
    """A world, and where the robot begins."""

    name: str
    snapshot: MapSnapshot
    start: Pose2D
    safe: NDArray[np.bool_]  # where rhino's robot fits and gets to
    peer_safe: NDArray[np.bool_]  # dimos's own safe cells, as far as they are reached

    @property
    def bound(self) -> float:
        """Share of dimos's safe cells within NEAR of a cell where rhino's robot fits and gets to."""
        away = cv2.distanceTransform(
            (~self.safe).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE
        )
        is_near = away * RESOLUTION <= NEAR + 1e-6
        return float((is_near & self.peer_safe).sum() / max(1, self.peer_safe.sum()))


def make_course(size: int, seed: int, config: RhinoConfig, router: Router) -> Course:
    """Return an office with a start in its widest place."""
    occupancy = office(size, seed)
    robot = config.robot
    costmap = inflate(
        occupancy,
        resolution=RESOLUTION,
        inscribed_radius=robot.inscribed_radius,
        inflation_radius=robot.inflation_radius,
        cost_scaling_factor=robot.cost_scaling_factor,
    )
    for array in (occupancy, costmap):
        array.flags.writeable = False
    geometry = GridGeometry(RESOLUTION, (0.0, 0.0), occupancy.shape)
    area = float(occupancy.size) * RESOLUTION**2
    snapshot = MapSnapshot(1, 1, 0.0, geometry, occupancy, costmap, area)
    free = (occupancy == FREE).astype(np.uint8)
    widest = cv2.distanceTransform(free, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    start = Pose2D(*geometry.world_from_cell(*np.unravel_index(int(widest.argmax()), widest.shape)))
    costs = router.costs_from(snapshot, start)
    safe = np.isfinite(costs) & (costmap < 253)
    eroded = cv2.erode(free, np.ones((7, 7), np.uint8), borderValue=0)
    _, labels = cv2.connectedComponents(eroded, connectivity=4)
    row, col = geometry.cell_from_world(start.x, start.y)
    return Course(
        f"office {seed}", snapshot, start, safe, (labels == labels[row, col]) & (eroded > 0)
    )


@dataclass
class Drive:
    """A track and what it took."""

    track: NDArray[np.float64]  # (N, 3) time [s], x, y [m]
    choices: list[float]  # [s] CPU of each look that gave a goal
    looks: list[float]  # [s] CPU of each other look
    goals: int = 0
    failed: int = 0


def drive(
    course: Course, request: PatrolRequest, config: RhinoConfig, router: Router, seconds: float
) -> Drive:
    """Patrol for a time."""
    mission = PatrolMission(request, config.patrol, config.robot)
    pose, now, path = course.start, 0.0, np.empty((0, 2))
    made = Drive(np.empty((0, 3)), [], [])
    track = [(0.0, pose.x, pose.y)]
    goal_id, goal = 0, (0.0, 0.0)
    while now < seconds:
        if mission.goal_id and not len(path):
            arrived = pose.distance_to(*goal) <= GOAL_TOLERANCE
            mission.arrived(now) if arrived else mission.failed(now, "STUCK")
        costs = router.costs_from(course.snapshot, pose)
        began = time.thread_time()
        choice = mission.choose(course.snapshot, pose.as_tuple(), costs, now)
        spent = time.thread_time() - began
        (made.looks if choice.target is None else made.choices).append(spent)
        if choice.is_complete:
            break
        if choice.target is not None:
            aim = GoalRequest(choice.target.x, choice.target.y, allow_unknown=False)
            try:
                route = router.plan(course.snapshot, pose, aim, NavMode.ASTAR)
            except PlanningError as error:
                mission.refused(choice.target, now, error.code)
                made.failed += 1
            else:
                goal_id += 1
                mission.sent(choice.target, goal_id)
                path, goal = route.poses[1:, :2], (route.goal.x, route.goal.y)
        pose, path = _advance(pose, path, SPEED * PERIOD, now, track)
        now += PERIOD
    made.goals = goal_id
    made.track = np.array(track)
    return made


def _advance(
    pose: Pose2D,
    path: NDArray[np.float64],
    distance: float,
    now: float,
    track: list[tuple[float, float, float]],
) -> tuple[Pose2D, NDArray[np.float64]]:
    """Move along a path, noting each 5 cm; return the new pose and what is left."""
    at, left = np.array([pose.x, pose.y]), distance
    while len(path) and left > 1e-9:
        way = path[0] - at
        length = float(np.hypot(*way))
        step = min(length, left, RESOLUTION)
        if length > 1e-9:
            at = at + way * (step / length)
        left -= step
        if step >= length - 1e-9:
            path = path[1:]
        track.append((now + (distance - left) / SPEED, float(at[0]), float(at[1])))
    return Pose2D(float(at[0]), float(at[1])), path


@njit(cache=True)
def _idleness(track, safe, radius, resolution, seconds, every):  # type: ignore[no-untyped-def]
    """Return per `every` seconds the worst and mean idleness of the safe cells, and the share ever near the track."""
    last = np.zeros(safe.shape, np.float64)
    ever = np.zeros(safe.shape, np.bool_)
    reach = int(np.ceil(radius / resolution))
    count = int(seconds / every)
    found = np.zeros((count, 3))
    total = safe.sum()
    i = 0
    for k in range(count):
        until = (k + 1) * every
        while i < len(track) and track[i, 0] <= until:
            row, col = track[i, 2] / resolution - 0.5, track[i, 1] / resolution - 0.5
            for r in range(max(0, int(row) - reach), min(safe.shape[0], int(row) + reach + 2)):
                for c in range(max(0, int(col) - reach), min(safe.shape[1], int(col) + reach + 2)):
                    if (r - row) ** 2 + (c - col) ** 2 <= (radius / resolution) ** 2:
                        last[r, c] = track[i, 0]
                        ever[r, c] = True
            i += 1
        worst, sums, near = 0.0, 0.0, 0
        for r in range(safe.shape[0]):
            for c in range(safe.shape[1]):
                if safe[r, c]:
                    idle = until - last[r, c]
                    worst = max(worst, idle)
                    sums += idle
                    near += ever[r, c]
        found[k] = worst, sums / total, near / total
    return found


def measure(
    track: NDArray[np.float64], safe: NDArray[np.bool_], seconds: float
) -> NDArray[np.float64]:
    """Return (K, 3) worst idleness [s], mean idleness [s], share ever near the track, at every 10 s."""
    found: NDArray[np.float64] = _idleness(track, safe, NEAR, RESOLUTION, seconds, 10.0)
    return found


def row(name: str, course: Course, made: Drive, seconds: float) -> tuple[str, list[float]]:
    """Return a line of the table, and its numbers."""
    own, peer = (
        measure(made.track, course.safe, seconds),
        measure(made.track, course.peer_safe, seconds),
    )
    half = len(own) // 2
    covered = np.flatnonzero(own[:, 2] >= 0.98)
    numbers = [
        100.0 * own[-1, 2],
        100.0 * peer[-1, 2],
        100.0 * course.bound,
        float(covered[0] + 1) / 6.0 if len(covered) else np.nan,
        own[half:, 0].max() / 60.0,
        own[half:, 1].mean() / 60.0,
        float(np.hypot(*np.diff(made.track[:, 1:], axis=0).T).sum()),
        made.goals,
        1000.0 * float(np.median(made.choices)) if made.choices else np.nan,
        1000.0 * float(np.percentile(made.choices, 95)) if made.choices else np.nan,
        1000.0 * float(np.max(made.choices)) if made.choices else np.nan,
    ]
    line = f"{course.name:<12} {name:<18}" + "".join(f"{v:>9.1f}" for v in numbers)
    return line, numbers


HEADER = (
    f"{'':<12} {'':<18}{'near %':>9}{'peer %':>9}{'bound %':>9}{'98% min':>9}{'worst':>9}{'mean':>9}"
    f"{'m':>9}{'goals':>9}{'ms med':>9}{'ms p95':>9}{'ms max':>9}"
)


def drive_peer(python: str, course: Course, router: str, seed: int, seconds: float) -> Drive:
    """Let dimos's router and planner patrol the same grid in their own process."""
    with tempfile.TemporaryDirectory() as folder:
        world, result = Path(folder) / "world.npz", Path(folder) / "track.npz"
        np.savez(world, grid=course.snapshot.occupancy)
        ask = {
            "router": router,
            "seed": seed,
            "seconds": seconds,
            "speed": SPEED,
            "resolution": RESOLUTION,
            "start": [course.start.x, course.start.y],
            "world": str(world),
            "result": str(result),
        }
        worker = Path(__file__).with_name("patrol_peer.py")
        subprocess.run([python, str(worker), json.dumps(ask)], check=True)
        with np.load(result) as made:
            return Drive(made["track"], made["choices"].tolist(), [], int(made["goals"]))


def costs(config: RhinoConfig, router: Router) -> None:
    """Print what a choice costs, by router and size of the map, with a tenth of the floor visited."""
    print(
        f"{'cells':<14}{'router':<12}{'first':>10}{'choose ms':>12}{'(least)':>9}{'cost field ms':>15}"
        f"{'visits MB':>11}"
    )
    for size in (400, 1000, 4000):
        course = make_course(size, 1, config, router)
        for kind in (PatrolRouter.COVERAGE, PatrolRouter.RANDOM, PatrolRouter.FRONTIER):
            times, fields = [], []
            mission = PatrolMission(PatrolRequest(router=kind, seed=0), config.patrol, config.robot)
            pose, now = course.start, 0.0
            for _ in range(9):
                began = time.thread_time()
                field = router.costs_from(course.snapshot, pose)
                fields.append(time.thread_time() - began)
                began = time.thread_time()
                choice = mission.choose(course.snapshot, pose.as_tuple(), field, now)
                times.append(time.thread_time() - began)
                assert choice.target is not None
                pose, now = Pose2D(choice.target.x, choice.target.y), now + 30.0
            first, times, fields = times[0], times[2:], fields[2:]
            memory = mission._visits.memory / 1e6
            print(
                f"{size} x {size:<7}{kind:<12}{1e3 * first:>10.1f}{1e3 * np.median(times):>12.1f}"
                f"{1e3 * min(times):>9.1f}{1e3 * np.median(fields):>15.1f}{memory:>11.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=26.0)
    parser.add_argument("--size", type=int, default=400, help="cells a side")
    parser.add_argument("--routers", nargs="*", default=["coverage", "random", "frontier"])
    parser.add_argument(
        "--dimos", default=os.environ.get("RHINO_DIMOS_PYTHON", ""), help="interpreter"
    )
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each drive")
    parser.add_argument("--costs", action="store_true")
    parser.add_argument("--set", nargs="*", default=[], help="key=value of the patrol section")
    arguments = parser.parse_args()
    config = RhinoConfig()
    changes: dict[str, Any] = {}
    for text in arguments.set:
        key, value = text.split("=")
        changes[key] = type(getattr(config.patrol, key))(float(value))
    config = dataclasses.replace(config, patrol=dataclasses.replace(config.patrol, **changes))
    router = make_router(config)
    router.warm_up()
    exploration.warm_up()
    if arguments.costs:
        costs(config, router)
        return
    seconds = 60.0 * arguments.minutes
    print(HEADER)
    table: dict[str, list[list[float]]] = {}
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        course = make_course(arguments.size, seed, config, router)
        for kind in arguments.routers:
            runs = [
                (
                    "rhino",
                    lambda k=kind, s=seed, c=course: drive(
                        c, PatrolRequest(router=PatrolRouter(k), seed=s), config, router, seconds
                    ),
                )
            ]
            if arguments.dimos:
                runs.append(
                    (
                        "dimos",
                        lambda k=kind, s=seed, c=course: drive_peer(
                            arguments.dimos, c, k, s, seconds
                        ),
                    )
                )
            for who, go in runs:
                made = go()
                line, numbers = row(f"{who} {kind}", course, made, seconds)
                print(line, flush=True)
                table.setdefault(f"{who} {kind}", []).append(numbers)
                if arguments.pictures:
                    _draw(arguments.pictures, f"{who}_{kind}_{seed}", course, made, seconds)
    print()
    for name, rows in table.items():
        print(
            f"{'median':<12} {name:<18}" + "".join(f"{v:>9.1f}" for v in np.nanmedian(rows, axis=0))
        )
        print(
            f"{'worst':<12} {name:<18}"
            + "".join(f"{v:>9.1f}" for v in (*np.min(rows, axis=0)[:3], *np.max(rows, axis=0)[3:]))
        )


def _draw(folder: Path, name: str, course: Course, made: Drive, seconds: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ages = np.full(course.snapshot.geometry.shape, np.inf, np.float32)
    for stamp, x, y in made.track:
        row, col = course.snapshot.geometry.cell_from_world(x, y)
        cv2.circle(ages, (col, row), round(NEAR / RESOLUTION), float(seconds - stamp), -1)
    ages[course.snapshot.occupancy != FREE] = np.inf
    visits = Visits(course.snapshot.geometry, age_levels(ages, seconds), seconds)
    way = made.track[:, 1:]
    record = MissionRecord(
        id=name,
        robot="point",
        kind=MissionKind.PATROL,
        client="benchmark",
        started_at=0.0,
        ended_at=seconds,
        state=MissionState.TIME_LIMIT,
        reason="",
        message="",
        distance=float(np.hypot(*np.diff(way, axis=0).T).sum()),
        elapsed=seconds,
        known_area=course.snapshot.known_area,
        goals_reached=made.goals - made.failed,
        goals_failed=made.failed,
    )
    picture = draw_mission(course.snapshot, record, way, visits=visits)
    (folder / f"{name}.png").write_bytes(picture)


if __name__ == "__main__":
    main()
