"""How fast plans, fields and frontiers are on real maps: `python benchmarks/planning.py [MAPS]`.

MAPS is a folder of ROS map_server maps (yaml + pgm); default: shared/data/maps/ros beside the checkout, or below
$RHINO_SHARED. Times are CPU time of the thread, the least of several rounds. Peers run in the same rounds: a search
with heapq as the measure of the machine, and scipy.ndimage.label for the frontiers.
"""

import argparse
import heapq
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from rhino_actors import exploration, planning
from rhino_actors.errors import NoPath
from rhino_actors.mapping.inflation import inflate
from rhino_actors.mapping.map_files import load_map

QUERIES = 20
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("maps", nargs="?", type=Path, default=default_maps())
    folder = parser.parse_args().maps
    files = sorted(folder.glob("*.yaml"))
    if not files:
        raise SystemExit(f"no map in {folder}")
    planning.warm_up()
    exploration.warm_up()
    for file in files:
        occupancy, geometry = load_map(file)
        costmap = inflate(
            occupancy,
            resolution=geometry.resolution,
            inscribed_radius=0.30,
            inflation_radius=0.80,
            cost_scaling_factor=4.0,
        )
        rows, cols = costmap.shape
        print(f"\n{file.stem}: {rows} x {cols} at {geometry.resolution} m", end=", ")
        print(f"{np.count_nonzero(costmap < 253)} passable cells")
        report_plans(costmap)
        report_frontiers(occupancy)


def default_maps() -> Path:
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("RHINO_SHARED") or beside) / "data" / "maps" / "ros"


def report_plans(costmap: NDArray[np.uint8]) -> None:
    planner = planning.Planner()
    rng = np.random.default_rng(1)
    cells = np.argwhere(costmap < 253)
    start = cells[rng.integers(len(cells))]
    field = planner.cost_to_go(costmap, [start], allow_unknown=False)
    while np.isfinite(field).sum() < len(cells) / 4:
        start = cells[rng.integers(len(cells))]
        field = planner.cost_to_go(costmap, [start], allow_unknown=False)
    reached = int(np.isfinite(field).sum())
    (took,) = fastest(lambda: planner.cost_to_go(costmap, [start], allow_unknown=False))
    print(
        f"  cost_to_go  {took * 1e3:7.2f} ms  {took / reached * 1e9:6.1f} ns per cell reached",
        end="",
    )
    print(f" ({reached} cells)")

    times, peer_times, expanded = [], [], 0
    inside = np.argwhere(np.isfinite(field))
    while len(times) < QUERIES:
        a, b = inside[rng.integers(len(inside), size=2)]
        try:
            path = planner.plan_path(costmap, a, b, allow_unknown=False)
        except NoPath:
            continue
        took, peer = fastest(
            lambda a=a, b=b: planner.plan_path(costmap, a, b, allow_unknown=False),
            lambda a=a, b=b: heap_search(costmap, tuple(a), tuple(b)),
            rounds=(3, 1 if len(times) < 2 else 0),
        )
        times.append(took)
        peer_times += [peer] if np.isfinite(peer) else []
        expanded += path.expanded
    total = sum(times)
    print(
        f"  plan_path   {total / QUERIES * 1e3:7.2f} ms  {total / expanded * 1e9:6.1f} ns per expansion",
        end="",
    )
    print(
        f" (mean of {QUERIES}, worst {max(times) * 1e3:.2f} ms, {expanded // QUERIES} expansions)"
    )
    ratio = sum(peer_times) / sum(times[: len(peer_times)])
    print(f"              {ratio:7.0f} x as fast as heapq in Python on {len(peer_times)} of them")


def report_frontiers(occupancy: NDArray[np.int8]) -> None:
    """Hide a third of the map in blocks, as an exploration under way has it."""
    rng = np.random.default_rng(2)
    rows, cols = occupancy.shape
    blocks = rng.random((rows // 40 + 1, cols // 40 + 1)) < 0.3
    known = occupancy.copy()
    known[np.kron(blocks, np.ones((40, 40), bool))[:rows, :cols]] = -1
    free = np.argwhere((known >= 0) & (known < 50))
    start = tuple(int(v) for v in free[len(free) // 2])
    ours, peer, from_start = fastest(
        lambda: exploration.find_frontiers(known, min_cells=5),
        lambda: scipy_frontiers(known),
        lambda: exploration.find_frontiers(known, min_cells=5, start=start),
    )
    clusters = exploration.find_frontiers(known, min_cells=5)
    print(f"  frontiers   {ours * 1e3:7.2f} ms  {ours / known.size * 1e9:6.2f} ns per cell", end="")
    print(
        f" ({len(clusters)} clusters); scipy.ndimage {peer * 1e3:.2f} ms = {peer / ours:.1f} x; ",
        end="",
    )
    print(f"reachable ones {from_start * 1e3:.2f} ms")

    costmap = inflate(
        known,
        resolution=0.05,
        inscribed_radius=0.30,
        inflation_radius=0.80,
        cost_scaling_factor=4.0,
    )
    field = planning.cost_to_go(costmap, [start])
    (took,) = fastest(
        lambda: exploration.choose_frontier(clusters, costmap, field, resolution=0.05)
    )
    print(f"  choice      {took * 1e3:7.2f} ms  among {len(clusters)}, the field given")


def fastest(*calls: Callable[[], object], rounds: tuple[int, ...] | None = None) -> list[float]:
    """Return the least CPU time of each call [s], taken in turn; inf for one that had no round."""
    best = [np.inf] * len(calls)
    wanted = rounds or (ROUNDS,) * len(calls)
    for i in range(max(wanted)):
        for j, call in enumerate(calls):
            if i < wanted[j]:
                started = time.thread_time()
                call()
                best[j] = min(best[j], time.thread_time() - started)
    return best


def scipy_frontiers(occupancy: NDArray[np.int8]) -> tuple[NDArray[np.int32], int]:
    """Return the same clusters as labels: mask by array operations, then scipy's labelling."""
    unknown = np.pad(occupancy < 0, 1, constant_values=True)
    beside = unknown[2:, 1:-1] | unknown[:-2, 1:-1] | unknown[1:-1, 2:] | unknown[1:-1, :-2]
    mask = (occupancy >= 0) & (occupancy < 50) & beside
    labels, count = ndimage.label(mask, np.ones((3, 3)))
    return labels, count


def heap_search(costmap: NDArray[np.uint8], start: tuple[int, ...], goal: tuple[int, ...]) -> float:
    """Return the cost of the same plan by A* as one would write it with heapq."""
    grid, (rows, cols) = costmap.tolist(), costmap.shape
    best, done, queue = {start: 0.0}, set(), [(0.0, start)]
    while queue:
        _, cell = heapq.heappop(queue)
        if cell == goal:
            break
        if cell in done:
            continue
        done.add(cell)
        row, col = cell
        for dr, dc in ((0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)):
            r, c = row + dr, col + dc
            if not (0 <= r < rows and 0 <= c < cols):
                continue
            if grid[r][c] >= 253 or grid[row][c] >= 253 or grid[r][col] >= 253:
                continue
            length = 1.4142135623730951 if dr and dc else 1.0
            cost = best[cell] + length * (1.0 + 3.0 * (grid[row][col] + grid[r][c]) / 504.0)
            if cost < best.get((r, c), np.inf):
                best[r, c] = cost
                along, across = abs(r - goal[0]), abs(c - goal[1])
                ahead = max(along, across) + 0.41421356 * min(along, across)
                heapq.heappush(queue, (cost + ahead, (r, c)))
    return best.get(goal, float("inf"))


if __name__ == "__main__":
    main()
