"""Packed voxels to points, compiled: straight from the bits, empty words skipped eight bytes at a time."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.drivers.go2.lidar import LAYER_BYTES, WIDTH

_ROW_BYTES = WIDTH // 8


def centres(
    packed: NDArray[np.uint8], resolution: float, origin: tuple[float, float, float]
) -> NDArray[np.float32]:
    """Return the centres (N, 3) of the cells whose bit is set, ordered by z, y, x.

    Args:
        packed: (layers * 2048,) uint8, as the robot packs them.
        resolution: edge of a cell [m].
        origin: centre of cell (0, 0, 0) [m].
    """
    x, y, z = origin
    points: NDArray[np.float32] = _centres(packed, packed.view(np.uint64), resolution, x, y, z)
    return points


def warm_up() -> None:
    """Compile, or load, what this module needs, for read-only input as it comes."""
    packed = np.frombuffer(bytes(LAYER_BYTES), np.uint8)
    centres(packed, 0.05, (0.0, 0.0, 0.0))


@njit(nogil=True, cache=True)
def _centres(packed, words, resolution, ox, oy, oz):  # type: ignore[no-untyped-def]
    count = 0
    for index in range(words.size):
        word = words[index]
        while word:
            word &= word - np.uint64(1)
            count += 1
    points = np.empty((count, 3), np.float32)
    place = 0
    for index in range(words.size):
        if words[index] == 0:
            continue
        for at in range(8 * index, 8 * index + 8):
            byte = packed[at]
            if byte == 0:
                continue
            z = at // LAYER_BYTES * resolution + oz
            y = at % LAYER_BYTES // _ROW_BYTES * resolution + oy
            first = at % _ROW_BYTES * 8
            for bit in range(8):
                if byte & (128 >> bit):
                    points[place, 0] = (first + bit) * resolution + ox
                    points[place, 1] = y
                    points[place, 2] = z
                    place += 1
    return points
