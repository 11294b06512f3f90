"""The robot's own voxel map: a window of cells that follows it, each occupied while its last return is fresh.

What the firmware does exactly (how long a cell stays, whether free space is cleared) is not published; the life of a
cell is a setting. The store is a torus of times: a cell keeps its place when the window moves, and only what the
window newly covers is wiped.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.drivers.go2.lidar import LAYER_BYTES, WIDTH

RESOLUTION = 0.05  # [m]
LAYERS = 38
BELOW = 18  # layers below the one that the robot's base is in
NEVER = -1e9  # [s]


class VoxelWindow:
    """Times of the last return of each cell. Coordinates are odom."""

    resolution = RESOLUTION  # [m]

    def __init__(self, ttl: float) -> None:
        """Begin empty around the origin; a cell is occupied for `ttl` [s] after a return."""
        self._ttl = ttl
        self._times = np.full((LAYERS, WIDTH, WIDTH), NEVER, np.float32)
        self._low = np.zeros(3, np.int64)  # lowest x, y, z of the window [cells]
        self.follow((0.0, 0.0, 0.0))
        self._times[:] = NEVER

    @property
    def origin(self) -> tuple[float, float, float]:
        """Centre of cell (0, 0, 0) [m]."""
        x, y, z = ((self._low + 0.5) * RESOLUTION).tolist()
        return (x, y, z)

    def follow(self, place: tuple[float, float, float]) -> None:
        """Move the window so that the robot's base at `place` [m] is in its middle."""
        x, y, z = (math.floor(value / RESOLUTION) for value in place)
        low = np.array((x - WIDTH // 2, y - WIDTH // 2, z - BELOW), np.int64)
        if np.any(low != self._low):
            _wipe(self._times, self._low, low)
            self._low = low

    def insert(self, points: NDArray[np.float64], time: float) -> None:
        """Note returns (N, 3) in odom [m] at a time [s]; those outside the window are lost."""
        _insert(self._times, self._low, points, time, RESOLUTION)

    def pack(self, time: float) -> NDArray[np.uint8]:
        """Return the occupied cells at a time [s], one bit each, as the robot packs them."""
        packed = np.empty(LAYERS * LAYER_BYTES, np.uint8)
        _pack(self._times, self._low, time - self._ttl, packed)
        return packed


def warm_up() -> None:
    """Compile, or load, what this module needs."""
    window = VoxelWindow(1.0)
    window.insert(np.zeros((1, 3)), 0.0)
    window.follow((1.0, 1.0, 1.0))
    window.pack(0.0)


@njit(nogil=True, cache=True)
def _insert(times, low, points, time, resolution):  # type: ignore[no-untyped-def]
    layers, rows, cols = times.shape
    for index in range(points.shape[0]):
        x = int(math.floor(points[index, 0] / resolution))
        y = int(math.floor(points[index, 1] / resolution))
        z = int(math.floor(points[index, 2] / resolution))
        if 0 <= x - low[0] < cols and 0 <= y - low[1] < rows and 0 <= z - low[2] < layers:
            times[z % layers, y % rows, x % cols] = time


@njit(nogil=True, cache=True)
def _wipe(times, old, new):  # type: ignore[no-untyped-def]
    """Forget what the window at `new` covers and the one at `old` did not."""
    layers, rows, cols = times.shape
    sizes = (cols, rows, layers)
    for axis in range(3):
        size = sizes[axis]
        shift = new[axis] - old[axis]
        if shift == 0:
            continue
        first = new[axis] if shift < 0 else max(old[axis] + size, new[axis])
        last = min(old[axis], new[axis] + size) if shift < 0 else new[axis] + size
        for cell in range(first, last):
            if axis == 0:
                times[:, :, cell % size] = NEVER
            elif axis == 1:
                times[:, cell % size, :] = NEVER
            else:
                times[cell % size, :, :] = NEVER


@njit(nogil=True, cache=True)
def _pack(times, low, oldest, packed):  # type: ignore[no-untyped-def]
    layers, rows, cols = times.shape
    place = 0
    for z in range(layers):
        layer = (low[2] + z) % layers
        for y in range(rows):
            row = times[layer, (low[1] + y) % rows]
            x = low[0] % cols
            for _ in range(cols // 8):
                byte = 0
                for _ in range(8):
                    byte = byte * 2 + (1 if row[x] >= oldest else 0)
                    x += 1
                    if x == cols:
                        x = 0
                packed[place] = byte
                place += 1
