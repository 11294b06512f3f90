"""How well and how fast an exploration chooses: `python -m benchmarks.exploration_choice [PART ...] [--dimos PYTHON]`.

Parts:
  frontiers  detection on 2 to 3 million cells of real buildings and an office, against scipy.ndimage; incremental too
  choice     one whole choice on 400, 1000 and 4000 cells square, 60 % known; against dimos's on the two smaller ones
  worlds     offices of --metres, --seeds of them: metres to 90, 95, 99 % of the floor; rhino, nearest frontier, dimos
  bound      the same worlds: a greedy tour that knows the map

Times are CPU times of the thread. `--dimos` or RHINO_DIMOS_PYTHON is the Python of an environment with dimos 0.0.15,
as benchmarks/README.md says. dimos takes 5 to 40 s for a goal: --dimos-seeds limits its runs, --dimos-metres their
length. The dimos runs use rhino's planner to drive, its stop for too little news is off, the time that it takes to
choose is not counted, and its 15 s for a goal are kept.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from benchmarks.exploration_worlds import (
    RESOLUTION,
    ROBOT,
    TICK,
    Robot,
    Run,
    World,
    costs,
    explore,
    office,
    scan,
)
from benchmarks.planning import default_maps, scipy_frontiers
from rhino_actors import planning
from rhino_actors.config import ExplorerConfig
from rhino_actors.errors import PlanningError
from rhino_actors.exploration import ExploreMission, FrontierMap, find_frontiers, warm_up
from rhino_actors.mapping import load_map
from rhino_actors.messages.grid import FREE, UNKNOWN
from rhino_actors.messages.window import CellWindow

PARTS = ("frontiers", "choice", "worlds", "bound")
GOAL_TIMEOUT_S = 15.0  # of dimos
LIDAR_M = 5.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--dimos", default=os.environ.get("RHINO_DIMOS_PYTHON", ""))
    parser.add_argument("--maps", type=Path, default=default_maps())
    parser.add_argument("--metres", type=float, default=20.0)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--dimos-seeds", type=int, default=2)
    parser.add_argument("--dimos-metres", type=float, default=500.0)
    parser.add_argument("--only-dimos", action="store_true")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    warm_up()
    for part in options.parts or PARTS:
        print(f"\n{part}", flush=True)
        {
            "frontiers": report_frontiers,
            "choice": report_choice,
            "worlds": report_worlds,
            "bound": report_bound,
        }[part](options)


def timed(call: Callable[..., object], *args: object, **options: object) -> float:
    """Return the CPU time of a call [ms]."""
    started = time.thread_time()
    call(*args, **options)
    return (time.thread_time() - started) * 1e3


def report_frontiers(options: argparse.Namespace) -> None:
    grids = {"office 80 m": half_seen(office(80.0, 0).occupancy)}
    for file in sorted((options.maps / "ros").glob("*.yaml")):
        occupancy, _ = load_map(file)
        while occupancy.size < 1.8e6:
            occupancy = np.concatenate([occupancy, occupancy[:, ::-1]], axis=1)
            occupancy = np.ascontiguousarray(occupancy.T)
        grids[file.stem] = occupancy
    print(
        f"{'map':>24} {'Mcells':>7} {'cells':>7} {'rhino':>8} {'scipy':>8} {'window of 10 m':>15}  [ms]"
    )
    for name, grid in grids.items():
        frontiers = FrontierMap()
        frontiers.update(grid)
        at = grid.shape[0] // 2
        window = CellWindow(at - 100, at + 100, at - 100, at + 100)
        own, peer, part = [], [], []
        for _ in range(options.rounds):
            own.append(timed(find_frontiers, grid, min_cells=8))
            peer.append(timed(scipy_frontiers, grid))
            part.append(timed(_again, frontiers, grid, window))
        count = sum(cluster.size for cluster in find_frontiers(grid, min_cells=1))
        print(
            f"{name:>24} {grid.size / 1e6:7.2f} {count:7d} {np.median(own):8.2f} {np.median(peer):8.2f}"
            f" {np.median(part):15.2f}",
            flush=True,
        )


def _again(frontiers: FrontierMap, grid: NDArray[np.int8], window: CellWindow) -> None:
    frontiers.update(grid, window)
    frontiers.grouped(min_cells=8)


def half_seen(truth: NDArray[np.int8], share: float = 0.6, seed: int = 0) -> NDArray[np.int8]:
    """Return a map of which about a share is known: what a lidar saw from places near each other."""
    rng = np.random.default_rng(seed)
    known = np.full(truth.shape, UNKNOWN, np.int8)
    clear = np.argwhere(ndimage.distance_transform_edt(truth == FREE) > 8)
    order = np.argsort(
        np.hypot(*(clear - clear[0]).T) + rng.uniform(0, 0.2 * len(truth), len(clear))
    )
    for k, i in enumerate(order[:: max(1, len(order) // 4000)]):
        scan(truth, known, int(clear[i, 0]), int(clear[i, 1]), round(LIDAR_M / RESOLUTION))
        if k % 20 == 0 and np.count_nonzero(known >= 0) >= share * known.size:
            break
    return known


def report_choice(options: argparse.Namespace) -> None:
    print(
        "A step of 0.3 m, its scan, then: field (the planner's, from the robot), choose (frontiers, places, gains,"
    )
    print(
        "order), both [ms of CPU]; again: the same map once more. At 4000 the mission's own field serves."
    )
    peer = Dimos(options.dimos) if options.dimos else None
    for size in (400, 1000, 4000):
        world = office(size * RESOLUTION, 0)
        robot = Robot(world, LIDAR_M)
        robot.known[:] = half_seen(world.occupancy)
        robot._costmap = costs(robot.known)
        field_ms, choose_ms, again_ms = [], [], []
        mission = ExploreMission(ExplorerConfig(sensor_range=LIDAR_M), ROBOT)
        rng = np.random.default_rng(1)
        field = planning.cost_to_go(
            robot._costmap, [world.geometry.cell_from_world(*world.start)], allow_unknown=False
        )
        places = np.argwhere(np.isfinite(field))
        for turn in range(40 if size < 4000 else 16):
            if turn % 4 == 0:  # somewhere else: nothing of the last choice serves
                row, col = places[rng.integers(len(places))]
                x, y = world.geometry.world_from_cell(int(row), int(col))
            else:
                x = robot.pose.x + 0.05
                y = robot.pose.y
            robot.pose = type(robot.pose)(x, y, 0.0)
            robot.scan()
            snapshot = robot.snapshot()
            costs_from = None
            try:
                if size < 4000:
                    started = time.thread_time()
                    costs_from = robot.router.costs_from(snapshot, robot.pose)
                    field_ms.append((time.thread_time() - started) * 1e3)
                else:
                    field_ms.append(0.0)
            except PlanningError:
                continue
            args = (snapshot, robot.pose.as_tuple(), costs_from)
            started = time.thread_time()
            choice = mission.choose(*args, float(turn))
            choose_ms.append((time.thread_time() - started) * 1e3)
            if choice.target is not None:
                mission.sent(choice.target, turn + 1)
            mission.choose(*args, turn + 0.2)
            again_ms.append(timed(mission.choose, *args, turn + 0.5))
        both = np.array(field_ms) + np.array(choose_ms)
        known = np.mean(robot.known >= 0)
        print(
            f"{size:5d}: {known:.0%} known, field median {np.median(field_ms):.1f}, choose median"
            f" {np.median(choose_ms):.1f} p95 {np.percentile(choose_ms, 95):.1f}, both p95"
            f" {np.percentile(both, 95):.1f}, again {np.median(again_ms):.2f}",
            flush=True,
        )
        if peer is not None and size < 4000:
            peer.ask(do="new")
            peer.goal(robot)
            print(f"       dimos {peer.cpu * 1e3:.0f}", flush=True)


def report_worlds(options: argparse.Namespace) -> None:
    rules: dict[str, dict[str, float]] = {
        "rhino": {},
        "nearest": {"look_ahead": 1, "leave_weight": 0.0},
    }
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    print(
        f"{'':>10} {'seed':>5} {'90 %':>7} {'95 %':>7} {'99 %':>7} {'end':>7} {'seen':>6}  goals  ended"
    )
    found: dict[str, list[list[float]]] = {}
    for seed in seeds:
        world = office(options.metres, seed)
        runs: dict[str, Run] = {}
        if not options.only_dimos:
            for name, changed in rules.items():
                config = ExplorerConfig(sensor_range=LIDAR_M, **changed)  # type: ignore[arg-type]
                runs[name] = explore(Robot(world, LIDAR_M), ExploreMission(config, ROBOT))
        if options.dimos and seed - options.first_seed < options.dimos_seeds:
            runs["dimos"] = dimos_run(world, options.dimos, options.dimos_metres)
        for name, run in runs.items():
            row = [run.metres_to(share) for share in (0.9, 0.95, 0.99)]
            row += [run.distance[-1], 100 * run.coverage[-1]]
            found.setdefault(name, []).append(row)
            print(
                f"{name:>10} {seed:5d} {row[0]:7.1f} {row[1]:7.1f} {row[2]:7.1f} {row[3]:7.1f}"
                f" {row[4]:5.1f}% {run.targets:6d}  {run.end}",
                flush=True,
            )
    for name, rows in found.items():
        mean = np.nanmean(rows, axis=0)
        print(f"{name:>10} mean  " + " ".join(f"{value:7.1f}" for value in mean))
        print(f"{name:>10} worst seen {min(row[4] for row in rows):.1f} %, of {len(rows)} runs")


class Dimos:
    """The peer, in its own process."""

    def __init__(self, python: str) -> None:
        self.cpu = 0.0
        self._folder = tempfile.TemporaryDirectory()
        worker = Path(__file__).with_name("exploration_peer.py")
        self._worker = subprocess.Popen(
            [python, str(worker)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, **ask: object) -> dict:  # type: ignore[type-arg]
        assert self._worker.stdin is not None and self._worker.stdout is not None
        self._worker.stdin.write(json.dumps(ask) + "\n")
        self._worker.stdin.flush()
        answer: dict = json.loads(self._worker.stdout.readline())  # type: ignore[type-arg]
        return answer

    def goal(self, robot: Robot) -> tuple[float, float] | None:
        file = Path(self._folder.name) / "known.npy"
        np.save(file, robot.known)
        answer = self.ask(
            do="goal", file=str(file), resolution=RESOLUTION, x=robot.pose.x, y=robot.pose.y
        )
        self.cpu = answer["cpu"]
        return None if answer["goal"] is None else (answer["goal"][0], answer["goal"][1])

    def close(self) -> None:
        assert self._worker.stdin is not None
        self._worker.stdin.close()
        self._worker.wait()


def dimos_run(world: World, python: str, most: float) -> Run:
    """Let dimos choose the goals, in its own loop's order: a goal, until it is reached or 15 s are over."""
    peer, robot = Dimos(python), Robot(world, LIDAR_M)
    peer.ask(do="new")
    nothing = 0
    while robot.distance < most and nothing < 10 and robot.now < 20000:
        goal = peer.goal(robot)
        if goal is None:
            nothing += 1
            robot.now += 2.0
            continue
        nothing = 0
        robot.run.targets += 1
        robot.go(goal)
        for _ in range(round(GOAL_TIMEOUT_S / TICK)):
            outcome = robot.move(robot.snapshot())
            if outcome == "arrived":
                break
            if outcome:
                robot.go(None)  # dimos does not hear of it and waits
        print(
            f"  dimos {robot.run.targets:4d} goals {robot.distance:7.1f} m {robot.run.coverage[-1]:6.1%}",
            file=sys.stderr,
            flush=True,
        )
        if robot.run.coverage[-1] >= 0.99:
            break
    robot.run.end = "99 %" if robot.run.coverage[-1] >= 0.99 else "nothing" if nothing else "limit"
    peer.close()
    return robot.run


def report_bound(options: argparse.Namespace) -> None:
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        world = office(options.metres, seed)
        metres = greedy_tour(world)
        print(
            f"seed {seed}: " + ", ".join(f"{k:.0%} {v:.1f} m" for k, v in metres.items()),
            flush=True,
        )


def greedy_tour(world: World, spacing: int = 10) -> dict[float, float]:
    """Return the metres of a tour that knows the map: always to where most new floor per metre comes in sight."""
    costmap = costs(world.occupancy)
    start = world.geometry.cell_from_world(*world.start)
    field = planning.cost_to_go(costmap, [start], cost_weight=0.0, allow_unknown=False)
    cells = np.argwhere(np.isfinite(field))
    cells = cells[(cells % spacing == 0).all(axis=1)]
    cells = np.concatenate([[start], cells])
    coarse = world.floor[::2, ::2]
    views = []
    for row, col in cells:
        known = np.full(world.occupancy.shape, UNKNOWN, np.int8)
        scan(world.occupancy, known, int(row), int(col), round(LIDAR_M / RESOLUTION))
        views.append(np.packbits((known == FREE)[::2, ::2] & coarse))
    seen, total = views[0].copy(), int(coarse.sum())
    bits = np.array(views)
    at, metres, marks = 0, 0.0, {}
    while True:
        share = int(np.bitwise_count(seen).sum()) / total
        for mark in (0.9, 0.95, 0.99):
            if share >= mark:
                marks.setdefault(mark, metres)
        if share >= 0.99:
            return marks
        field = planning.cost_to_go(costmap, [cells[at]], cost_weight=0.0, allow_unknown=False)
        away = field[cells[:, 0], cells[:, 1]] * RESOLUTION
        new = np.bitwise_count(bits & ~seen).sum(axis=1) * (2 * RESOLUTION) ** 2
        worth = np.where(new > 0, new / np.maximum(away, 0.25), 0.0)
        best = int(np.argmax(worth))
        if worth[best] <= 0 or not math.isfinite(away[best]):
            return marks
        # What is seen on the way counts too.
        path = planning.plan_path(
            costmap, cells[at], cells[best], cost_weight=0.0, allow_unknown=False
        )
        metres += float(away[best])
        known = np.full(world.occupancy.shape, UNKNOWN, np.int8)
        for row, col in path.cells[::5]:
            scan(world.occupancy, known, int(row), int(col), round(LIDAR_M / RESOLUTION))
        seen |= np.packbits((known == FREE)[::2, ::2] & coarse) | bits[best]
        at = best


if __name__ == "__main__":
    main()
