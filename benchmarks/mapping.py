"""Mapping speed, each against a plain numpy or scipy version of the same work in the same run.

    python -m benchmarks.mapping
    python -m benchmarks.mapping --dimos PYTHON      and against dimos 0.0.15; see benchmarks/README.md

Times are the least and the median of interleaved rounds, in milliseconds of CPU time of the thread. The ratio is of
the medians.
"""

import argparse
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.mapping import (
    CellWindow,
    MapLayers,
    MapTiles,
    OccupancyMapper,
    inflate,
    update_costmap,
    warm_up,
)
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.map_patch import MapReader
from rhino_actors.messages.sensors import LidarFrame, LidarKind

RESOLUTION = 0.05
PARAMETERS = {
    "resolution": RESOLUTION,
    "inscribed_radius": 0.30,
    "inflation_radius": 0.80,
    "cost_scaling_factor": 4.0,
}
ORIGIN = (0.01, 0.02, 0.35)


class NumpyMapper:
    """Log odds on a fixed grid by sampling every beam twice per cell: what one writes in numpy without kernels."""

    def __init__(self, size: float) -> None:
        self._cells = math.ceil(size / RESOLUTION)
        self._log_odds = np.zeros((self._cells, self._cells), np.float32)

    def integrate(self, points: NDArray[np.float32], origin: tuple[float, float, float]) -> None:
        start = np.array(origin[:2])
        rays = points[:, :2] - start
        steps = math.ceil(float(np.hypot(*rays.T).max()) / RESOLUTION * 2)
        part = np.arange(steps) / steps
        samples = start + rays[:, None, :] * part[None, :, None]
        free = self._flat(samples.reshape(-1, 2))
        hits = np.unique(self._flat(points[points[:, 2] >= 0.08, :2]))
        free = np.setdiff1d(np.unique(free), hits, assume_unique=True)
        grid = self._log_odds.ravel()
        grid[free] = np.maximum(grid[free] - 0.4, -3.5)
        grid[hits] = np.minimum(grid[hits] + 0.85, 3.5)

    def _flat(self, places: NDArray[np.floating]) -> NDArray[np.int64]:
        cells = np.floor(places / RESOLUTION).astype(np.int64) + self._cells // 2
        return cells[:, 1] * self._cells + cells[:, 0]


def scipy_costmap(occupancy: NDArray[np.int8]) -> NDArray[np.uint8]:
    """The same costs from scipy's distance transform of the whole grid."""
    distance = distance_transform_edt(occupancy < 65) * RESOLUTION
    cost = np.floor(252.0 * np.exp(-4.0 * np.maximum(distance - 0.30, 0.0)))
    cost[distance > 0.80 + 1e-6] = 0
    cost[distance <= 0.30 + 1e-6] = 253
    cost[distance == 0.0] = 254
    cost[(occupancy < 0) & (cost < 253)] = 255
    return cost.astype(np.uint8)


def open_scan(beams: int, distance: float) -> NDArray[np.float32]:
    """Beams of one length all around, at the sensor's height."""
    a = np.arange(beams) * (math.tau / beams)
    flat = np.stack([np.cos(a) * distance, np.sin(a) * distance, np.zeros(beams)], 1)
    return (flat + ORIGIN).astype(np.float32)


def ring_scan(azimuths: int, rings: int) -> NDArray[np.float32]:
    """A hall of 9 m radius seen by a lidar of many rings: floor, walls and what is above the robot."""
    a, e = np.meshgrid(
        np.arange(azimuths) * (math.tau / azimuths), np.radians(np.linspace(-20.0, 30.0, rings))
    )
    with np.errstate(divide="ignore"):
        distance = np.minimum(9.0 / np.cos(e), np.where(e < 0.0, ORIGIN[2] / -np.sin(e), np.inf))
    ray = np.stack([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)], -1)
    return (ray * distance[..., None] + ORIGIN).reshape(-1, 3).astype(np.float32)


def voxel_frame(count: int) -> NDArray[np.float32]:
    """Centres of 5 cm voxels in a window of 6.4 m: nine of ten are floor."""
    rng = np.random.default_rng(0)
    places = np.column_stack([rng.uniform(-3.2, 3.2, (count, 2)), rng.uniform(0.0, 0.6, count)])
    places[: count * 9 // 10, 2] = 0.0
    return ((np.floor(places / RESOLUTION) + 0.5) * RESOLUTION).astype(np.float32)


def office(size: int) -> NDArray[np.int8]:
    """Rooms of 5 m with doors, a fifth of the grid never seen."""
    grid = np.zeros((size, size), np.int8)
    grid[::100, :] = grid[:, ::100] = 100
    for k in range(0, size, 100):
        grid[k + 40 : k + 60, ::100] = 0
        grid[::100, k + 40 : k + 60] = 0
    grid[: size // 5] = -1
    return grid


def measure(rounds: int, *works: Callable[[], object]) -> list[tuple[float, float]]:
    """Return least and median [ms] of each, turn by turn."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(rounds + 3):
        for kept, work in zip(times, works, strict=True):
            started = time.thread_time()
            work()
            if turn >= 3:
                kept.append(1000.0 * (time.thread_time() - started))
    return [(float(np.min(t)), float(np.median(t))) for t in times]


def row(name: str, ours: tuple[float, float], reference: tuple[float, float] | None) -> None:
    against = "" if reference is None else f"{reference[1]:10.2f} {reference[1] / ours[1]:8.1f}"
    print(f"{name:<46} {ours[0]:8.3f} {ours[1]:8.3f} {against}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument(
        "--dimos", default=os.environ.get("RHINO_DIMOS_PYTHON", ""), help="interpreter"
    )
    arguments = parser.parse_args()
    rounds = arguments.rounds
    warm_up()
    print(f"{'':<46} {'min ms':>8} {'med ms':>8} {'plain ms':>10} {'ratio':>8}")

    for name, points, options in (
        ("integrate, 1000 beams of 10 m", open_scan(1000, 10.0), {}),
        ("integrate, 360 x 16 points", ring_scan(360, 16), {"pose": Pose2D(0.0, 0.0)}),
        ("integrate, 4000 voxels", voxel_frame(4000), {"voxel_size": RESOLUTION}),
    ):
        ours, plain = OccupancyMapper(RESOLUTION), NumpyMapper(24.0)
        row(
            name,
            *measure(
                rounds,
                lambda ours=ours, p=points, o=options: ours.integrate(p, ORIGIN, **o),
                lambda plain=plain, p=points: plain.integrate(p, ORIGIN),
            ),
        )

    for size in (1000, 2000):
        grid = office(size)
        if not np.array_equal(inflate(grid, **PARAMETERS), scipy_costmap(grid)):
            raise SystemExit("the two costmaps differ")
        few = max(5, rounds // 6)
        full = measure(
            few, lambda g=grid: inflate(g, **PARAMETERS), lambda g=grid: scipy_costmap(g)
        )
        row(f"inflate, {size} x {size}", *full)
        costmap = inflate(grid, **PARAMETERS)
        window = CellWindow(size // 2, size // 2 + 128, size // 2, size // 2 + 128)
        local = measure(
            rounds, lambda c=costmap, g=grid, w=window: update_costmap(c, g, w, **PARAMETERS)
        )
        row(f"update_costmap, 128 x 128 of {size} x {size}", local[0], full[1])
    publishing(rounds)
    corridors()
    if arguments.dimos:
        against_dimos(arguments.dimos, rounds)


def publishing(rounds: int) -> None:
    """A publish after a frame of the robot's window, on maps of many sizes, against the copy of the whole map."""
    change = np.random.default_rng(0)
    for size in (400, 2000, 6000):
        grid = office(size)
        tiles = MapTiles(RESOLUTION, **{k: v for k, v in PARAMETERS.items() if k != "resolution"})
        tiles.update(grid_reader(grid), CellWindow(0, size, 0, size), 1)
        costmap = inflate(grid, **PARAMETERS)
        window = CellWindow(size // 2, size // 2 + 128, size // 2, size // 2 + 128)
        seq = 1

        def publish(
            grid: NDArray[np.int8] = grid, tiles: MapTiles = tiles, window: CellWindow = window
        ) -> None:
            nonlocal seq
            seq += 1
            grid[window.slices] = change.choice(
                np.array([0, 100], np.int8), (128, 128), p=(0.9, 0.1)
            )
            tiles.update(grid_reader(grid), window, seq)
            tiles.patch(seq - 1, epoch=1, seq=seq, stamp=0.0, known_area=0.0)

        def whole(
            grid: NDArray[np.int8] = grid,
            costmap: NDArray[np.uint8] = costmap,
            window: CellWindow = window,
        ) -> None:
            grid[window.slices] = change.choice(
                np.array([0, 100], np.int8), (128, 128), p=(0.9, 0.1)
            )
            update_costmap(costmap, grid, window, **PARAMETERS)
            grid.copy(), costmap.copy()

        row(f"publish 128 x 128 of {size} x {size}; whole", *measure(rounds, publish, whole))


def grid_reader(grid: NDArray[np.int8]) -> Callable[[CellWindow], NDArray[np.int8]]:
    """Return what MapTiles reads a grid with."""

    def read(window: CellWindow) -> NDArray[np.int8]:
        cells = np.full(window.shape, -1, np.int8)
        inside = window.clipped(CellWindow(0, grid.shape[0], 0, grid.shape[1]))
        cells[inside.moved(-window.row0, -window.col0).slices] = grid[inside.slices]
        return cells

    return read


def corridors() -> None:
    """2 km of corridors, 100 m each, seen by the robot's voxel window: what the map takes, and its worst frame."""
    before = psutil.Process().memory_info().rss
    layers, reader = MapLayers(MapperConfig(), RobotConfig()), MapReader()
    points = voxel_frame(4000)
    points = points[np.abs(points[:, 1]) < 1.2]
    wall = np.arange(-3.2, 3.2, RESOLUTION) + RESOLUTION / 2
    walls = [[x, y, z] for x in wall for y in (-1.225, 1.225) for z in (0.125, 0.325)]
    cloud = np.concatenate([points, np.array(walls, np.float32)])
    times, seq = [], 0
    for lane in range(20):
        for step in range(500):
            x, y = 0.2 * step, 5.0 * lane
            frame = LidarFrame(
                seq + 1,
                0.1 * seq,
                cloud + np.array([x, y, 0.0], np.float32),
                (x, y, 0.35),
                Pose2D(x, y),
                RESOLUTION,
                LidarKind.VOXEL,
            )
            seq += 1
            began = time.thread_time()
            layers.integrate(frame)
            layers.update_tiles(seq)
            patch = layers.tiles.patch(seq - 1, epoch=1, seq=seq, stamp=0.0, known_area=0.0)
            times.append(1000.0 * (time.thread_time() - began))
            reader.take(patch)
    grown = (psutil.Process().memory_info().rss - before) / 1e6
    rows, cols = layers.geometry.shape
    print(
        f"2 km of corridors: {rows} x {cols} cells, grid {layers.occupancy.memory / 1e6:.0f} MB, "
        f"process + {grown:.0f} MB with a reader's map; a frame {np.median(times):.2f} ms, worst {np.max(times):.1f} ms"
    )


DIMOS = """
import sys, time
import numpy as np
from dimos.mapping.occupancy.inflation import simple_inflate
from dimos.mapping.occupancy.path_map import make_navigation_map
from dimos.msgs.nav_msgs.OccupancyGrid import OccupancyGrid
for line in sys.stdin:
    path, rounds = line.split()
    grid = OccupancyGrid(np.load(path), resolution=0.05)
    for work in (lambda: simple_inflate(grid, 0.3), lambda: make_navigation_map(grid, 0.33, "simple", "voronoi")):
        times = []
        for _ in range(int(rounds)):
            began = time.thread_time(); work(); times.append(1000 * (time.thread_time() - began))
        print(min(times), sorted(times)[len(times) // 2], flush=True)
"""


def against_dimos(python: str, rounds: int) -> None:
    """Print the costmap of a changed window against dimos's, which makes the whole one, in turns."""
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [python, "-c", DIMOS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as peer,
    ):
        assert peer.stdin is not None and peer.stdout is not None
        for size in (1000, 2000):
            grid = office(size)
            path = Path(folder) / f"{size}.npy"
            np.save(path, grid)
            window = CellWindow(size // 2, size // 2 + 128, size // 2, size // 2 + 128)
            costmap = inflate(grid, **PARAMETERS)
            (local, full) = measure(
                rounds,
                lambda c=costmap, g=grid, w=window: update_costmap(c, g, w, **PARAMETERS),
                lambda g=grid: inflate(g, **PARAMETERS),
            )
            peer.stdin.write(f"{path} {max(3, rounds // 10)}\n")
            peer.stdin.flush()
            for name in ("simple_inflate", "make_navigation_map"):
                low, median = map(float, peer.stdout.readline().split())
                row(f"{size} x {size} whole; dimos {name}", full, (low, median))
                row(f"{size} x {size} window; dimos {name}", local, (low, median))
        peer.stdin.close()


if __name__ == "__main__":
    main()
