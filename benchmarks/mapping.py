"""Mapping speed, each against a plain numpy or scipy version of the same work in the same run.

    python benchmarks/mapping.py

Times are the median and the 99th percentile of interleaved rounds, in milliseconds of wall time.
"""

import argparse
import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt

from rhino_actors.mapping import CellWindow, OccupancyMapper, inflate, update_costmap, warm_up
from rhino_actors.messages.geometry import Pose2D

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
    """Return median and 99th percentile [ms] of each, turn by turn."""
    times: list[list[float]] = [[] for _ in works]
    for turn in range(rounds + 3):
        for kept, work in zip(times, works, strict=True):
            started = time.perf_counter()
            work()
            if turn >= 3:
                kept.append(1000.0 * (time.perf_counter() - started))
    return [(float(np.median(t)), float(np.percentile(t, 99))) for t in times]


def row(name: str, ours: tuple[float, float], reference: tuple[float, float] | None) -> None:
    against = "" if reference is None else f"{reference[0]:10.2f} {reference[0] / ours[0]:8.1f}"
    print(f"{name:<46} {ours[0]:8.3f} {ours[1]:8.3f} {against}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    warm_up()
    print(f"{'':<46} {'p50 ms':>8} {'p99 ms':>8} {'plain ms':>10} {'ratio':>8}")

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


if __name__ == "__main__":
    main()
