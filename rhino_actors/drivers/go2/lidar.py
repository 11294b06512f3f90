"""The Go2's voxel map message, read and written: its frame, its header, its bits.

The robot sends no beams but an occupancy window in odom: 128 x 128 cells and a few dozen layers, one bit a cell, LZ4
on top. In byte `z * 2048 + y * 16 + x // 8` the highest bit is the lowest x. A message is a short binary head, a JSON
header and the block. Messages come from outside: nothing is allocated or believed before it was checked. The
simulation writes what the robot would send, so both share this way in.
"""

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import lz4.block
import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import LidarDecodeError

WIDTH = 128  # cells along x and y
LAYER_BYTES = WIDTH * WIDTH // 8
MAX_LAYERS = 128  # the robot sends 38; far more is not a message of its
MAX_COORDINATE = 1e6  # [m] beyond which an origin is damage
TOPIC = "rt/utlidar/voxel_map_compressed"

_MAX_BLOCK = MAX_LAYERS * LAYER_BYTES * 256 // 255 + 64  # LZ4 never makes data longer than that
_MAX_HEADER = 65_536
_SHORT_HEAD = struct.Struct("<2H")
_LONG_HEAD = struct.Struct("<2H2I")
_LONG_MARK = (2, 0)


@dataclass(frozen=True, slots=True)
class VoxelMessage:
    """A voxel map message, split and checked but not unpacked."""

    stamp: float  # [s] the device's own, to seven digits: data, not a clock; nan when it cannot be read
    resolution: float  # [m] edge of a cell
    origin: tuple[float, float, float]  # [m] in odom of the centre of cell (0, 0, 0)
    src_size: int  # [bytes] of the block when unpacked
    payload: bytes  # LZ4 block without a size

    def points(self) -> NDArray[np.float32]:
        """Return the occupied cells' centres; see `decode_voxel_frame`. Raises LidarDecodeError."""
        return decode_voxel_frame(
            self.payload, src_size=self.src_size, resolution=self.resolution, origin=self.origin
        )


def decode_voxel_frame(
    payload: bytes,
    *,
    src_size: int,
    resolution: float,
    origin: Sequence[float],
) -> NDArray[np.float32]:
    """Return the occupied cells of a voxel map as points.

    Args:
        payload: LZ4 block without a size in front.
        src_size: bytes of the block when unpacked: 2048 for each layer.
        resolution: edge of a cell [m].
        origin: x, y, z [m] in odom of the centre of cell (0, 0, 0).

    Returns:
        (N, 3) float32 in odom [m], ordered by z, then y, then x; read-only.

    Raises:
        LidarDecodeError: the block is damaged, or a value cannot be one of a voxel map's.
    """
    _check_lattice(resolution, origin)
    packed = unpack_voxel_frame(payload, src_size=src_size)
    from rhino_actors.drivers.go2.voxel_kernel import centres  # numba takes a second to import

    x, y, z = (float(value) for value in origin)
    points = centres(packed, WIDTH, float(resolution), (x, y, z))
    points.flags.writeable = False
    return points


def unpack_voxel_frame(payload: bytes, *, src_size: int) -> NDArray[np.uint8]:
    """Return the packed layers (layers * 2048,) uint8 of a voxel map, read-only.

    Raises:
        LidarDecodeError: the block is damaged, or the size cannot be one of a voxel map.
    """
    _layers(src_size)
    try:
        block = memoryview(payload)
    except TypeError:
        raise LidarDecodeError(f"The payload is a {type(payload).__name__}, not bytes.") from None
    if not 0 < block.nbytes <= _MAX_BLOCK:
        raise LidarDecodeError(f"The payload has {block.nbytes} bytes.")
    try:
        unpacked = lz4.block.decompress(block, uncompressed_size=src_size)
    except (lz4.block.LZ4BlockError, BufferError, ValueError) as error:
        raise LidarDecodeError(f"The LZ4 block cannot be unpacked: {error}.") from error
    if len(unpacked) != src_size:
        raise LidarDecodeError(
            f"The block unpacks to {len(unpacked)} bytes, the header says {src_size}."
        )
    return np.frombuffer(unpacked, np.uint8)


def encode_voxel_frame(packed: NDArray[np.uint8]) -> bytes:
    """Return the LZ4 block of packed layers (layers * 2048,) uint8."""
    block: bytes = lz4.block.compress(np.ascontiguousarray(packed).data, store_size=False)
    return block


def read_voxel_message(message: bytes) -> VoxelMessage:
    """Split a binary message of the robot's data channel into header and block.

    Raises:
        LidarDecodeError: too short, no such header, or values that cannot be a voxel map's.
    """
    if len(message) < _SHORT_HEAD.size:
        raise LidarDecodeError(f"The message has {len(message)} bytes.")
    first, second = _SHORT_HEAD.unpack_from(message)
    start, length = _SHORT_HEAD.size, first
    if (first, second) == _LONG_MARK:
        if len(message) < _LONG_HEAD.size:
            raise LidarDecodeError(f"The message has {len(message)} bytes.")
        start, length = _LONG_HEAD.size, _LONG_HEAD.unpack_from(message)[2]
    if not 0 < length <= min(_MAX_HEADER, len(message) - start):
        raise LidarDecodeError(f"The message names a header of {length} bytes.")
    try:
        fields = json.loads(message[start : start + length])["data"]
        if list(fields["width"][:2]) != [WIDTH, WIDTH]:
            raise LidarDecodeError(f"The voxel map is {fields['width']} cells wide.")
        x, y, z = (_number(value) for value in fields["origin"])
        read = VoxelMessage(
            stamp=_stamp(fields.get("stamp")),
            resolution=_number(fields["resolution"]),
            origin=(x, y, z),
            src_size=fields["src_size"],
            payload=message[start + length :],
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise LidarDecodeError(f"The header cannot be read: {error!r}.") from error
    _layers(read.src_size)
    _check_lattice(read.resolution, read.origin)
    return read


def write_voxel_message(
    packed: NDArray[np.uint8],
    *,
    stamp: float,
    resolution: float,
    origin: tuple[float, float, float],
) -> bytes:
    """Return the message that the robot sends for packed layers (layers * 2048,) uint8.

    The stamp keeps seven digits, as in the robot's own: of seconds since 1970 that leaves steps of 1000 s.
    """
    header = (
        f'{{"type":"msg","topic":"{TOPIC}","data":{{"stamp":{stamp:e},"frame_id":"odom",'
        f'"resolution":{resolution:f},"src_size":{packed.size},'
        f'"origin":[{origin[0]:f},{origin[1]:f},{origin[2]:f}],'
        f'"width":[{WIDTH},{WIDTH},{packed.size // LAYER_BYTES}]}}}}'
    ).encode()
    return _SHORT_HEAD.pack(len(header), 0) + header + encode_voxel_frame(packed)


def _layers(src_size: Any) -> int:
    if isinstance(src_size, bool) or not isinstance(src_size, (int, np.integer)):
        raise LidarDecodeError(f"src_size is {src_size!r}.")
    layers, rest = divmod(int(src_size), LAYER_BYTES)
    if rest or not 1 <= layers <= MAX_LAYERS:
        raise LidarDecodeError(
            f"src_size is {src_size}: not 1 to {MAX_LAYERS} layers of {LAYER_BYTES} bytes."
        )
    return layers


def _check_lattice(resolution: Any, origin: Any) -> None:
    try:
        cell, place = float(resolution), [float(value) for value in origin]
    except (TypeError, ValueError, OverflowError):
        raise LidarDecodeError(f"resolution {resolution!r} or origin {origin!r}.") from None
    if not 1e-3 <= cell <= 10.0:
        raise LidarDecodeError(f"A cell is {cell} m wide.")
    if len(place) != 3 or not all(abs(value) <= MAX_COORDINATE for value in place):
        raise LidarDecodeError(f"The origin is {place}.")


def _stamp(value: Any) -> float:
    """Return a stamp, nan for one that is none: a frame is not lost for what nothing reads."""
    try:
        return _number(value)
    except (ValueError, OverflowError):
        return math.nan


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a number")
    return float(value)
