"""How fast plans, replans, fields and frontiers are on real maps: `python -m benchmarks.planning`.

Peers run in Pythons of their own (README.md says how to make them): --peers for dimos, pyastar2d, tcod and
scikit-image, --semita for semita; without them the table has rhino alone. Every time is CPU time of the thread around
the call, the least of a few rounds, the planners taking turns query by query. Maps: shared/data/maps beside the
checkout, or below $RHINO_SHARED.
"""

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from rhino_actors import exploration, planning
from rhino_actors.config import PlannerConfig, RobotConfig
from rhino_actors.errors import PlanningError
from rhino_actors.mapping.inflation import inflate, update_costmap
from rhino_actors.mapping.map_files import load_map
from rhino_actors.mapping.window import CellWindow
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.navigation import GoalRequest, NavMode
from rhino_actors.planning.route import Router

Cell = tuple[int, int]
WALLS = {"inscribed_radius": 0.25, "inflation_radius": 1.2, "cost_scaling_factor": 3.0}
SLOW = ("skimage", "tcod")  # peers that get fewer queries
PARTS = ("cold", "replan", "pipeline", "uniform", "field", "large", "router", "frontiers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; default all"
    )
    parser.add_argument("--peers", help="Python that has dimos, pyastar2d, tcod, scikit-image")
    parser.add_argument("--semita", help="Python that has semita")
    parser.add_argument("--maps", type=Path, default=default_maps())
    parser.add_argument("--queries", type=int, default=10, help="per map")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    planning.warm_up()
    with Peers([python for python in (options.peers, options.semita) if python]) as peers:
        for part in options.parts or PARTS:
            print(f"\n## {part}\n")
            globals()[f"report_{part}"](options, peers)


def default_maps() -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("RHINO_SHARED") or beside) / "data" / "maps"


class Peers:
    """The workers, asked by the name of a planner."""

    def __init__(self, pythons: list[str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._workers: dict[str, subprocess.Popen[str]] = {}
        script = Path(__file__).with_name("planning_peers.py")
        for python in pythons:
            worker = subprocess.Popen(
                [python, str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            for name in _ask(worker, {"do": "peers"}).get("names", []):
                self._workers.setdefault(name, worker)

    def __enter__(self) -> "Peers":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in set(self._workers.values()):
            worker.stdin.close()  # type: ignore[union-attr]
            worker.wait(60)
        self._folder.cleanup()

    def names(self, wanted: tuple[str, ...] = ()) -> list[str]:
        return [name for name in self._workers if not wanted or name in wanted]

    def load(self, costmap: NDArray[np.uint8], wanted: tuple[str, ...] = ()) -> None:
        file = self._save(costmap)
        for worker in set(self._workers.values()):
            names = [name for name in self.names(wanted) if self._workers[name] is worker]
            _ask(worker, {"do": "load", "file": file, "peers": names})

    def plan(
        self, name: str, start: Cell, goal: Cell, repeat: int = 1
    ) -> tuple[float, NDArray[np.int32] | None]:
        """Return the least CPU time [s] of some calls, and the path."""
        ask = {"do": "plan", "peer": name, "start": start, "goal": goal, "repeat": repeat}
        answer = _ask(self._workers[name], ask)
        cells = answer["cells"]
        return answer["cpu"], None if cells is None else np.array(cells, np.int32)

    def pipeline(
        self, occupancy: NDArray[np.int8], resolution: float, start: Cell, goal: Cell
    ) -> dict[str, float]:
        geometry = GridGeometry(resolution, (0.0, 0.0), occupancy.shape)
        ends = {"start": geometry.world_from_cell(*start), "goal": geometry.world_from_cell(*goal)}
        file = self._save(occupancy)
        ask = {"do": "pipeline", "file": file, "resolution": resolution, **ends}
        return _ask(self._workers["dimos"], ask)

    def _save(self, array: NDArray[np.generic]) -> str:
        file = str(Path(self._folder.name) / "grid.npy")
        np.save(file, array)
        return file


def _ask(worker: subprocess.Popen[str], ask: dict[str, object]) -> dict:  # type: ignore[type-arg]
    assert worker.stdin and worker.stdout
    worker.stdin.write(json.dumps(ask) + "\n")
    worker.stdin.flush()
    line = worker.stdout.readline()
    if not line:
        raise SystemExit(
            "a worker ended: run benchmarks/planning_peers.py in its Python to see why"
        )
    return json.loads(line)


def buildings(folder: Path) -> dict[str, tuple[NDArray[np.int8], float]]:
    """Return occupancy and resolution of the real maps, and two larger ones made of them."""
    found = {}
    for file in sorted((folder / "ros").glob("*.yaml")):
        occupancy, geometry = load_map(file)
        found[file.stem] = occupancy, geometry.resolution
        if geometry.resolution > 0.09:
            finer = np.kron(occupancy, np.ones((2, 2), np.int8))
            found[f"{file.stem} at half"] = finer, geometry.resolution / 2
    if not found:
        raise SystemExit(f"no map in {folder / 'ros'}")
    return found


def two_million(folder: Path) -> tuple[NDArray[np.int8], float]:
    """Return the largest real map laid beside its mirror image: 2.1 million cells."""
    found = buildings(folder)
    occupancy, resolution = max(
        (found[file.stem] for file in (folder / "ros").glob("*.yaml")), key=lambda m: m[0].size
    )
    return np.concatenate([occupancy, occupancy[:, ::-1]], axis=1), resolution


def queries(costmap: NDArray[np.uint8], count: int, seed: int = 1) -> list[tuple[Cell, Cell]]:
    """Return pairs of cells in the largest part of the map that hangs together."""
    rng = np.random.default_rng(seed)
    cells = np.argwhere(costmap < 253)
    while True:
        start = cells[rng.integers(len(cells))]
        field = planning.cost_to_go(costmap, [start], allow_unknown=False)
        inside = np.argwhere(np.isfinite(field))
        if len(inside) > len(cells) / 4:
            break
    draws = inside[rng.integers(len(inside), size=(count, 2))]
    return [(as_cell(a), as_cell(b)) for a, b in draws if tuple(a) != tuple(b)]


def as_cell(cell: NDArray[np.integer]) -> Cell:
    return int(cell[0]), int(cell[1])


def is_legal(costmap: NDArray[np.uint8], cells: NDArray[np.integer]) -> bool:
    """Say whether a path keeps to passable cells and cuts no corner."""
    passable = costmap < 253
    tail, head = cells[:-1], cells[1:]
    if np.abs(head - tail).max(initial=0) > 1 or not passable[cells[:, 0], cells[:, 1]].all():
        return False
    return bool((passable[tail[:, 0], head[:, 1]] & passable[head[:, 0], tail[:, 1]]).all())


def timed(call: Callable[..., object], *args: object, **options: object) -> float:
    """Return the CPU time of one call [s]."""
    started = time.thread_time()
    call(*args, **options)
    return time.thread_time() - started


def geometric(values: list[float]) -> float:
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else math.nan


def report_cold(options: argparse.Namespace, peers: Peers) -> None:
    """One plan on a map seen for the first time; all peers."""
    planner = planning.Planner()
    ratios: dict[str, list[float]] = {name: [] for name in peers.names()}
    excess: dict[str, list[float]] = {name: [] for name in peers.names()}
    illegal = dict.fromkeys(peers.names(), 0)
    asked = dict.fromkeys(peers.names(), 0)
    print(
        "| map (cells, passable) | rhino ms | " + " | ".join(f"{n} ms (x)" for n in ratios) + " |"
    )
    print("|---" * (len(ratios) + 2) + "|")
    for name, (occupancy, resolution) in buildings(options.maps).items():
        costmap = inflate(occupancy, resolution=resolution, **WALLS)
        peers.load(costmap)
        own, others = [], {peer: [] for peer in ratios}
        for i, (start, goal) in enumerate(queries(costmap, options.queries)):
            taking = [p for p in ratios if p not in SLOW or i < max(2, options.queries // 4)]
            best, least = math.inf, dict.fromkeys(taking, math.inf)
            for _ in range(options.rounds):
                best = min(
                    best,
                    timed(planner.plan_path, costmap, start, goal, allow_unknown=False),
                )
                for peer in taking:
                    cpu, cells = peers.plan(peer, start, goal)
                    least[peer] = min(least[peer], cpu)
            plan = planner.plan_path(costmap, start, goal, allow_unknown=False)
            own.append(best)
            for peer in taking:
                cells = peers.plan(peer, start, goal)[1]
                others[peer].append((best, least[peer]))
                asked[peer] += 1
                if cells is None or not is_legal(costmap, cells):
                    illegal[peer] += 1
                if cells is not None:
                    excess[peer].append(planning.path_cost(costmap, cells) / plan.cost - 1.0)
        row = f"| {name} ({costmap.size:,}, {np.count_nonzero(costmap < 253):,}) | "
        row += f"{np.mean(own) * 1e3:.2f} |"
        for peer, pairs in others.items():
            ours, theirs = np.sum(pairs, axis=0)
            ratios[peer].append(theirs / ours)
            row += f" {theirs / len(pairs) * 1e3:.1f} ({theirs / ours:.1f}) |"
        print(row)
    if ratios:
        print("| geometric mean of the ratios | 1 |", end="")
        print("".join(f" {geometric(r):.1f} (least {min(r):.1f}) |" for r in ratios.values()))
        print("| cost above the optimum, mean (most) | 0 |", end="")
        print("".join(f" {np.mean(e):.2%} ({max(e):.1%}) |" for e in excess.values()))
        print("| paths that cut corners | 0 |", end="")
        print("".join(f" {illegal[p]} of {asked[p]} |" for p in ratios))


class Drive:
    """A robot drives to a goal while boxes appear and vanish within 5 m of it: occupancy and costmap step by step."""

    def __init__(self, occupancy: NDArray[np.int8], resolution: float, seed: int) -> None:
        self.walls, self.occupancy, self.resolution = occupancy, occupancy.copy(), resolution
        self.costmap = inflate(occupancy, resolution=resolution, **WALLS)
        self._boxes: list[tuple[slice, slice]] = []
        self._rng = np.random.default_rng(seed)

    def change(self, here: Cell, goal: Cell) -> list[CellWindow]:
        """Put a box or two near the robot, take one away now and then; return where the occupancy changed."""
        rng, changed = self._rng, []
        for _ in range(int(rng.integers(1, 3))):
            row, col = (int(v + rng.uniform(-5, 5) / self.resolution) for v in here)
            half = max(1, int(rng.uniform(0.1, 0.3) / self.resolution))
            near = min(math.dist((row, col), cell) for cell in (here, goal)) * self.resolution < 1.0
            if near or min(row, col) < half:
                continue
            box = (slice(row - half, row + half + 1), slice(col - half, col + half + 1))
            self._boxes.append(box)
            self.occupancy[box] = 100
            changed.append(box)
        if self._boxes and rng.random() < 0.3:
            box = self._boxes.pop(int(rng.integers(len(self._boxes))))
            self.occupancy[box] = self.walls[box]
            for other in self._boxes:
                self.occupancy[other] = 100
            changed.append(box)
        return [CellWindow(b[0].start, b[0].stop, b[1].start, b[1].stop) for b in changed]

    def inflate_local(self, window: CellWindow) -> CellWindow:
        return update_costmap(
            self.costmap, self.occupancy, window, resolution=self.resolution, **WALLS
        )


def report_replan(options: argparse.Namespace, peers: Peers) -> None:
    """Plans while driving: update of the guided planner and plan, against each peer's search on the same costmap."""
    names = peers.names(("dimos", "pyastar2d"))
    cold_planner = planning.Planner()
    print(
        "| drive (steps) | field once ms | update + plan ms, mean / p95 | inflation ms | own cold ms |",
        end="",
    )
    print("".join(f" {n} ms (x) |" for n in names) + "\n" + "|---" * (5 + len(names)) + "|")
    everything: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for name, (occupancy, resolution) in buildings(options.maps).items():
        costmap = inflate(occupancy, resolution=resolution, **WALLS)
        far = sorted(queries(costmap, 12, seed=5), key=lambda q: math.dist(*q))
        for start, goal in far[-2:]:
            drive = Drive(occupancy, resolution, seed=3)
            guided = planning.GuidedPlanner(allow_unknown=False)
            guided.set_map(drive.costmap)
            guided.set_goal(goal)
            build = timed(guided.rebuild)
            here, spent, inflating, cold = start, [], [], []
            theirs: dict[str, list[float]] = {peer: [] for peer in names}
            while here != goal and len(spent) < 60:
                changed = drive.change(here, goal)
                started = time.thread_time()
                windows = [drive.inflate_local(window) for window in changed]
                inflating.append(time.thread_time() - started)
                started = time.thread_time()
                for window in windows:
                    guided.update(drive.costmap, window.as_tuple())
                try:
                    plan = guided.plan(here)
                except PlanningError:
                    break
                spent.append(time.thread_time() - started)
                started = time.thread_time()
                exact = cold_planner.plan_path(drive.costmap, here, goal, allow_unknown=False)
                cold.append(time.thread_time() - started)
                if abs(plan.cost - exact.cost) > 2e-4 * exact.cost:
                    raise SystemExit(f"{name}: {plan.cost} is not the optimum {exact.cost}")
                if len(spent) % 4 == 1:
                    peers.load(drive.costmap, tuple(names))
                    for peer in names:
                        theirs[peer].append(peers.plan(peer, here, goal)[0])
                here = as_cell(plan.cells[min(int(1.0 / resolution), len(plan.cells) - 1)])
            if len(spent) < 5:
                continue
            everything += spent
            row = f"| {name} ({len(spent)}) | {build * 1e3:.1f} | {np.mean(spent) * 1e3:.2f} / "
            row += f"{np.percentile(spent, 95) * 1e3:.2f} | "
            row += f"{np.mean(inflating) * 1e3:.2f} | {np.mean(cold) * 1e3:.2f} |"
            for peer in names:
                ratio = np.mean(theirs[peer]) / np.mean(spent[::4])
                ratios[peer].append(ratio)
                row += f" {np.mean(theirs[peer]) * 1e3:.1f} ({ratio:.0f}) |"
            print(row)
    print(
        f"\nAll {len(everything)} steps: mean {np.mean(everything) * 1e3:.2f} ms, p95 "
        f"{np.percentile(everything, 95) * 1e3:.2f} ms; every one cost what the exact plan costs."
    )
    for peer in names:
        print(
            f"{peer}: geometric mean {geometric(ratios[peer]):.0f} x, least {min(ratios[peer]):.0f} x."
        )


def report_pipeline(options: argparse.Namespace, peers: Peers) -> None:
    """From a changed occupancy grid of two million cells to a path: costmap and search."""
    occupancy, resolution = two_million(options.maps)
    start, goal = max(
        queries(inflate(occupancy, resolution=resolution, **WALLS), 12), key=lambda q: math.dist(*q)
    )
    planner = planning.Planner()

    def cold() -> None:
        costmap = inflate(occupancy, resolution=resolution, **WALLS)
        planner.plan_path(costmap, start, goal, allow_unknown=False)

    drive = Drive(occupancy, resolution, seed=3)
    guided = planning.GuidedPlanner(allow_unknown=False)
    guided.set_map(drive.costmap)
    guided.set_goal(goal)
    guided.rebuild()

    def local(changed: list[CellWindow]) -> None:
        for window in changed:
            guided.update(drive.costmap, drive.inflate_local(window).as_tuple())
        guided.plan(start)

    whole = [timed(cold) for _ in range(5)]
    steps = []
    for _ in range(20):
        changed = drive.change(start, goal)
        steps.append(timed(local, changed))
    print(
        f"{occupancy.shape[0]} x {occupancy.shape[1]} cells: cold {min(whole) * 1e3:.1f} ms, ",
        end="",
    )
    print(f"local mean {np.mean(steps) * 1e3:.2f} ms, most {max(steps) * 1e3:.2f} ms.")
    if "dimos" in peers.names():
        takes = [peers.pipeline(occupancy, resolution, start, goal) for _ in range(options.rounds)]
        least = {key: min(take[key] for take in takes) * 1e3 for key in takes[0]}
        total = sum(least.values())
        print(
            f"dimos: costmap {least['costmap']:.0f} + search {least['search']:.0f} + smoothing "
            f"{least['smooth']:.0f} = {total:.0f} ms: {total / min(whole) / 1e3:.0f} x cold, "
            f"{total / np.mean(steps) / 1e3:.0f} x local."
        )


def report_uniform(options: argparse.Namespace, peers: Peers) -> None:
    """The MovingAI scenarios: octile lengths on uniform floor."""
    names = peers.names(("pyastar2d", "semita"))
    planner = planning.Planner()
    print("| map | rhino us | lengths equal to 1e-4 |" + "".join(f" {n} us (x) |" for n in names))
    print("|---" * (3 + len(names)) + "|")
    ratios: dict[str, list[float]] = {name: [] for name in names}
    for file in sorted((options.maps / "movingai").glob("*.map")):
        lines = file.read_text().splitlines()
        letters = np.array([list(line) for line in lines[lines.index("map") + 1 :] if line])
        costmap = np.where(np.isin(letters, [".", "G", "S"]), 0, 254).astype(np.uint8)
        rows = [line.split() for line in Path(f"{file}.scen").read_text().splitlines()[1:]]
        cases = [((int(r[5]), int(r[4])), (int(r[7]), int(r[6])), float(r[8])) for r in rows if r]
        peers.load(costmap, tuple(names))
        equal, own, theirs = 0, [], {peer: [] for peer in names}
        for start, goal, length in cases:
            plan = planner.plan_path(costmap, start, goal, cost_weight=0.0)
            equal += abs(plan.cost - length) <= 1e-4 * length + 0.006
        for start, goal, _ in cases[:: max(1, len(cases) // (2 * options.queries))]:
            best, least = math.inf, dict.fromkeys(names, math.inf)
            for _ in range(options.rounds):
                # Some calls each in a turn: these are short, and the caches belong to the last planner.
                for _ in range(4):
                    took = timed(planner.plan_path, costmap, start, goal, cost_weight=0.0)
                    best = min(best, took)
                for peer in names:
                    least[peer] = min(least[peer], peers.plan(peer, start, goal, repeat=4)[0])
            own.append(best)
            for peer in names:
                theirs[peer].append(least[peer])
        row = f"| {file.stem} | {np.mean(own) * 1e6:.0f} | {equal} of {len(cases)} |"
        for peer in names:
            ratios[peer].append(np.sum(theirs[peer]) / np.sum(own))
            row += f" {np.mean(theirs[peer]) * 1e6:.0f} ({ratios[peer][-1]:.1f}) |"
        print(row)
    for peer in names:
        print(f"\n{peer}: geometric mean {geometric(ratios[peer]):.1f} x", end="")
    print()


def report_field(options: argparse.Namespace, peers: Peers) -> None:
    """cost_to_go, and what it saves a patrol that weighs 64 places."""
    planner = planning.Planner()
    sample = 8
    for name, (occupancy, resolution) in buildings(options.maps).items():
        costmap = inflate(occupancy, resolution=resolution, **WALLS)
        places = queries(costmap, 65, seed=2)
        start = places[0][0]
        candidates = np.array([goal for _, goal in places[:64]])

        def evaluate(
            costmap: NDArray[np.uint8] = costmap,
            start: Cell = start,
            candidates: NDArray[np.int64] = candidates,
        ) -> NDArray[np.float32]:
            field = planner.cost_to_go(costmap, [start], allow_unknown=False)
            return field[candidates[:, 0], candidates[:, 1]]

        took = min(timed(evaluate) for _ in range(options.rounds + 2))
        reached = int(np.isfinite(planner.cost_to_go(costmap, [start], allow_unknown=False)).sum())
        print(
            f"{name}: {took * 1e3:.2f} ms, {took / reached * 1e9:.1f} ns per cell reached ({reached:,})",
            end="",
        )
        if "dimos" in peers.names():
            peers.load(costmap, ("dimos",))
            plans = sum(peers.plan("dimos", start, as_cell(c))[0] for c in candidates[:sample])
            print(
                f"; 64 plans of dimos {plans * 64 / sample * 1e3:.0f} ms (from {sample}): "
                f"{plans * 64 / sample / took:.0f} x",
                end="",
            )
        print()


def report_large(options: argparse.Namespace, peers: Peers) -> None:
    """A city of 4096 x 4096 cells, and how cost grows up to there."""
    file = options.maps / "movingai" / "Paris_1_256.map"
    lines = file.read_text().splitlines()
    letters = np.array([list(line) for line in lines[lines.index("map") + 1 :] if line])
    print(
        "| cells | passable | cold ms, mean / most | expansions | bytes a cell | first answer ms, mean / most "
        "| above the optimum, most | blocks made anew ms |\n" + "|---" * 8 + "|"
    )
    for scale in (4, 8, 16):
        occupancy = np.kron(
            np.where(np.isin(letters, [".", "G", "S"]), 0, 100), np.ones((scale, scale))
        ).astype(np.int8)
        costmap = inflate(occupancy, resolution=0.05, **WALLS)
        planner, coarse = planning.Planner(), planning.CoarsePlanner(allow_unknown=False)
        blocks = min(timed(coarse.update, costmap) for _ in range(2))
        own, first, expanded, above = [], [], [], []
        for start, goal in queries(costmap, options.queries):
            own.append(
                min(
                    timed(planner.plan_path, costmap, start, goal, allow_unknown=False)
                    for _ in range(2)
                )
            )
            first.append(min(timed(coarse.plan, start, goal) for _ in range(2)))
            plan = planner.plan_path(costmap, start, goal, allow_unknown=False)
            expanded.append(plan.expanded)
            above.append(coarse.plan(start, goal).cost / plan.cost - 1.0)
        print(
            f"| {costmap.shape[0]}^2 | {np.count_nonzero(costmap < 253):,} | {np.mean(own) * 1e3:.1f} / "
            f"{max(own) * 1e3:.1f} | {np.mean(expanded):,.0f} | {planner.nbytes / costmap.size:.1f} | "
            f"{np.mean(first) * 1e3:.1f} / {max(first) * 1e3:.1f} | {max(above):.2%} | {blocks * 1e3:.1f} |"
        )


def report_router(options: argparse.Namespace, peers: Peers) -> None:
    """A whole replan on 1000 x 1000 cells: costmap window, search, smoothing, check."""
    name, (occupancy, resolution) = max(buildings(options.maps).items(), key=lambda e: e[1][0].size)
    rows, cols = min(1000, occupancy.shape[0]), min(1000, occupancy.shape[1])
    grid = np.full((1000, 1000), 100, np.int8)
    grid[:rows, :cols] = occupancy[:rows, :cols]
    robot = RobotConfig()
    drive = Drive(grid, resolution, seed=3)
    router = Router(
        PlannerConfig(), robot, lambda window, edge: inflate(window, resolution=edge, **WALLS)
    )
    geometry = GridGeometry(resolution, (0.0, 0.0), grid.shape)
    spent: list[float] = []
    for start, goal in queries(drive.costmap, 8, seed=4):
        here = start
        request = GoalRequest(*geometry.world_from_cell(*goal), allow_unknown=False)
        while math.dist(here, goal) > 2.0 / resolution and len(spent) < 400:
            changed = drive.change(here, goal)
            started = time.thread_time()
            for window in changed:
                drive.inflate_local(window)
            snapshot = MapSnapshot(
                1, len(spent) + 1, 0.0, geometry, drive.occupancy, drive.costmap, 0.0
            )
            try:
                route = router.replan(
                    snapshot, Pose2D(*geometry.world_from_cell(*here)), request, NavMode.ASTAR
                )
            except PlanningError:
                break
            blocked = router.is_blocked(route, snapshot, None)
            spent.append(time.thread_time() - started)
            assert not blocked, "a fresh route is free"
            along = int(np.searchsorted(np.arange(len(route.poses)) * 0.1, 1.0))
            x, y = route.poses[min(along, len(route.poses) - 1), :2]
            step = geometry.cell_from_world(x, y)
            if step == here:
                break
            here = step
    print(
        f"{name}, cut and padded to 1000 x 1000: {len(spent)} replans, mean {np.mean(spent) * 1e3:.1f} ms, "
        f"p95 {np.percentile(spent, 95) * 1e3:.1f} ms, most {max(spent) * 1e3:.1f} ms "
        f"(the first to a goal builds its field)."
    )


def report_frontiers(options: argparse.Namespace, peers: Peers) -> None:
    """Frontiers of a map a third of which is hidden in blocks, against scipy.ndimage.label."""
    exploration.warm_up()
    for name, (occupancy, _) in buildings(options.maps).items():
        rng = np.random.default_rng(2)
        rows, cols = occupancy.shape
        blocks = rng.random((rows // 40 + 1, cols // 40 + 1)) < 0.3
        known = occupancy.copy()
        known[np.kron(blocks, np.ones((40, 40), bool))[:rows, :cols]] = -1
        own, peer = math.inf, math.inf
        for _ in range(options.rounds):
            own = min(own, timed(exploration.find_frontiers, known, min_cells=5))
            peer = min(peer, timed(scipy_frontiers, known))
        print(
            f"{name}: {own * 1e3:.2f} ms, {own / known.size * 1e9:.2f} ns per cell; "
            f"scipy {peer * 1e3:.2f} ms: {peer / own:.1f} x"
        )


def scipy_frontiers(occupancy: NDArray[np.int8]) -> tuple[NDArray[np.int32], int]:
    """Return the same clusters as labels: mask by array operations, then scipy's labelling."""
    unknown = np.pad(occupancy < 0, 1, constant_values=True)
    beside = unknown[2:, 1:-1] | unknown[:-2, 1:-1] | unknown[1:-1, 2:] | unknown[1:-1, :-2]
    mask = (occupancy >= 0) & (occupancy < 50) & beside
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    return labels, count


if __name__ == "__main__":
    main()
