"""Packed voxels to points, compiled: straight from the bits, empty words skipped eight bytes at a time."""

import numpy as np
from numba import njit
from numpy.typing import NDArray


def centres(
    packed: NDArray[np.uint8], width: int, resolution: float, origin: tuple[float, float, float]
) -> NDArray[np.float32]:
    """Return the centres (N, 3) of the cells whose bit is set, ordered by z, y, x.

    Args:
        packed: (layers * width * width / 8,) uint8, as the robot packs them.
        width: cells along x and y, a multiple of 8.
        resolution: edge of a cell [m].
        origin: centre of cell (0, 0, 0) [m].
    """
    words = packed.view(np.uint64)
    count = int(np.bitwise_count(words).sum())
    points = np.empty((count, 3), np.float32)
    x, y, z = origin
    _fill(points, packed, words, width // 8, resolution, x, y, z)
    return points


def warm_up() -> None:
    """Compile, or load, what this module needs, for read-only input as it comes."""
    centres(np.frombuffer(bytes(2048), np.uint8), 128, 0.05, (0.0, 0.0, 0.0))


@njit(nogil=True, cache=True)
def _fill(points, packed, words, row_bytes, resolution, ox, oy, oz):  # type: ignore[no-untyped-def]
    """Write the centre of every set bit."""
    layer_bytes = row_bytes * row_bytes * 8
    place = 0
    for index in range(words.size):
        if words[index] == 0:
            continue
        for at in range(8 * index, 8 * index + 8):
            byte = packed[at]
            if byte == 0:
                continue
            z = np.float32(at // layer_bytes * resolution + oz)
            y = np.float32(at % layer_bytes // row_bytes * resolution + oy)
            first = at % row_bytes * 8
            for bit in range(8):
                if byte & (128 >> bit):
                    points[place, 0] = (first + bit) * resolution + ox
                    points[place, 1] = y
                    points[place, 2] = z
                    place += 1
