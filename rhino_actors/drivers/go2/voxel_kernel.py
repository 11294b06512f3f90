"""Packed voxels to points, compiled: straight from the bits, empty words skipped eight bytes at a time."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Of each byte, the place of its highest bit counted from the left: in a byte the lowest x comes first.
_FIRST_BIT = np.array([8] + [8 - byte.bit_length() for byte in range(1, 256)], np.uint8)


def centres(
    packed: NDArray[np.uint8], width: int, resolution: float, origin: tuple[float, float, float]
) -> NDArray[np.float32]:
    """Return the centres (N, 3) of the cells whose bit is set, ordered by z, y, x.

    Args:
        packed: (layers * width * width / 8,) uint8, as the robot packs them.
        width: cells along x and y, a multiple of 64.
        resolution: edge of a cell [m].
        origin: centre of cell (0, 0, 0) [m].
    """
    words = packed.view(np.dtype("<u8"))
    count = int(np.bitwise_count(words).sum())
    points = np.empty((count, 3), np.float32)
    layers = 8 * packed.size // width**2
    x, y, z = (
        (np.arange(cells) * resolution + first).astype(np.float32)
        for cells, first in zip((width, width, layers), origin, strict=True)
    )
    _fill(points, words, x, y, z, _FIRST_BIT)
    return points


def warm_up() -> None:
    """Compile, or load, what this module needs, for read-only input as it comes."""
    centres(np.frombuffer(bytes(2048), np.uint8), 128, 0.05, (0.0, 0.0, 0.0))


@njit(nogil=True, cache=True)
def _fill(points, words, x, y, z, first_bit):  # type: ignore[no-untyped-def]
    """Write the centre of every set bit; `x`, `y`, `z` are the centres of columns, rows and layers."""
    row_words = x.size // 64
    place = 0
    for index in range(words.size):
        word = words[index]
        if word == 0:
            continue
        row = index // row_words
        at_z, at_y = z[row // y.size], y[row % y.size]
        for first in range(index % row_words * 64, index % row_words * 64 + 64, 8):
            byte = word & np.uint64(255)
            word >>= np.uint64(8)
            while byte:
                bit = first_bit[byte]
                points[place, 0] = x[first + bit]
                points[place, 1] = at_y
                points[place, 2] = at_z
                place += 1
                byte ^= np.uint64(128) >> np.uint64(bit)
