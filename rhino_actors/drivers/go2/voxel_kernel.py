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
    points = np.empty((_count(words), 3), np.float32)
    x, y, z = origin
    _fill(points, words, width, resolution, x, y, z, _FIRST_BIT)
    return points


def warm_up() -> None:
    """Compile, or load, what this module needs, for read-only input as it comes."""
    centres(np.frombuffer(bytes(2048), np.uint8), 128, 0.05, (0.0, 0.0, 0.0))


@njit(nogil=True, cache=True)
def _count(words):  # type: ignore[no-untyped-def]
    """Return how many bits are set: sums of two, four and eight bits side by side, all added by a product."""
    count = 0
    for word in words:
        if word:
            twos = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
            fours = (twos & np.uint64(0x3333333333333333)) + (
                (twos >> np.uint64(2)) & np.uint64(0x3333333333333333)
            )
            bytes_ = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            count += (bytes_ * np.uint64(0x0101010101010101)) >> np.uint64(56)
    return count


@njit(nogil=True, cache=True)
def _fill(points, words, width, resolution, ox, oy, oz, first_bit):  # type: ignore[no-untyped-def]
    """Write the centre of every set bit."""
    row_words = width // 64
    place = 0
    for index in range(words.size):
        word = words[index]
        if word == 0:
            continue
        row = index // row_words
        y = np.float32(row % width * resolution + oy)
        z = np.float32(row // width * resolution + oz)
        for first in range(index % row_words * 64, index % row_words * 64 + 64, 8):
            byte = word & np.uint64(255)
            word >>= np.uint64(8)
            while byte:
                bit = first_bit[byte]
                points[place, 0] = (first + bit) * resolution + ox
                points[place, 1] = y
                points[place, 2] = z
                place += 1
                byte ^= np.uint64(128) >> np.uint64(bit)
