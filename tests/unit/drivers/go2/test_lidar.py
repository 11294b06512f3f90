"""The voxel map message: equal to the vectors that other decoders agree on, and refused when it is damaged."""

import json
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.drivers.go2 import decode_voxel_frame
from rhino_actors.drivers.go2.lidar import (
    LAYER_BYTES,
    encode_voxel_frame,
    read_voxel_message,
    write_voxel_message,
)
from rhino_actors.errors import LidarDecodeError

SHARED = Path(os.environ.get("RHINO_SHARED") or Path(__file__).resolve().parents[5] / "shared")
VECTORS = SHARED / "data" / "go2"
NAMES = sorted(path.stem for path in VECTORS.glob("*.bin"))
LAYERS = 38
LATTICE = {"resolution": 0.05, "origin": (-3.625, -3.275, -0.575)}


def packed(cells: NDArray[np.integer], layers: int = LAYERS) -> NDArray[np.uint8]:
    """Pack cells (N, 3) x, y, z the slow way."""
    bits = np.zeros((layers, 128, 128), np.uint8)
    bits[cells[:, 2], cells[:, 1], cells[:, 0]] = 1
    return np.packbits(bits).reshape(-1)


def random_cells(count: int, seed: int = 1) -> NDArray[np.int64]:
    cells = np.random.default_rng(seed).integers(0, (128, 128, LAYERS), (count, 3))
    return np.unique(cells[:, ::-1], axis=0)[:, ::-1]


GOOD = encode_voxel_frame(packed(random_cells(2000)))
MESSAGE = write_voxel_message(packed(random_cells(2000)), stamp=1.758148e9, **LATTICE)  # type: ignore[arg-type]


@pytest.mark.skipif(not NAMES, reason=f"no vectors in {VECTORS}: set RHINO_SHARED")
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_every_vector_decodes_to_the_points_that_other_decoders_give(name: str) -> None:
    message = read_voxel_message((VECTORS / f"{name}.bin").read_bytes())
    expected = np.load(VECTORS / f"{name}.npz")
    assert message.src_size == expected["src_size"]
    assert message.stamp == 1.758148e9
    points = message.points()
    wanted = expected["cells"] * float(expected["resolution"]) + expected["origin"]
    assert points.shape == wanted.shape and points.dtype == np.float32
    assert np.array_equal(points, wanted.astype(np.float32)), "same points in the same order"


def test_what_is_written_is_read_back() -> None:
    cells = random_cells(5000)
    points = decode_voxel_frame(
        encode_voxel_frame(packed(cells)),
        src_size=LAYERS * LAYER_BYTES,
        **LATTICE,  # type: ignore[arg-type]
    )
    assert np.allclose(points, cells * 0.05 + LATTICE["origin"], atol=1e-6)
    assert not points.flags.writeable
    message = read_voxel_message(MESSAGE)
    assert message.origin == LATTICE["origin"] and message.resolution == 0.05
    assert len(message.points()) == len(random_cells(2000))


def test_a_message_with_the_long_head_reads_the_same() -> None:
    body = MESSAGE[4:]
    (length,) = struct.unpack_from("<H", MESSAGE)
    long = struct.pack("<2H2I", 2, 0, length, 0) + body
    assert read_voxel_message(long) == read_voxel_message(MESSAGE)


@pytest.mark.parametrize(
    "change",
    [
        {"src_size": 0},
        {"src_size": -2048},
        {"src_size": 2047},
        {"src_size": 2**40},
        {"src_size": 77824.0},
        {"src_size": True},
        {"src_size": None},
        {"src_size": 40960},  # fewer layers than the block has
        {"src_size": 79872},  # more
        {"resolution": 0.0},
        {"resolution": float("nan")},
        {"resolution": "wide"},
        {"origin": (0.0, 0.0)},
        {"origin": (0.0, float("inf"), 0.0)},
        {"origin": None},
        {"payload": b""},
        {"payload": "text"},
        {"payload": GOOD[:-5]},
        {"payload": GOOD[5:]},
        {"payload": GOOD + b"more"},
        {"payload": bytes(1000)},
        {"payload": b"\xff" * 1_000_000},
    ],
    ids=lambda change: repr(change)[:40],
)
def test_malformed_input_is_an_error_of_ours(change: dict[str, object]) -> None:
    arguments = {"payload": GOOD, "src_size": LAYERS * LAYER_BYTES, **LATTICE, **change}
    with pytest.raises(LidarDecodeError):
        decode_voxel_frame(arguments.pop("payload"), **arguments)  # type: ignore[arg-type]


def test_random_damage_never_raises_anything_else() -> None:
    rng = np.random.default_rng(2)
    for _ in range(400):
        damaged = bytearray(MESSAGE[: int(rng.integers(0, len(MESSAGE)))])
        for _ in range(int(rng.integers(1, 12))):
            if damaged:
                damaged[int(rng.integers(len(damaged)))] = int(rng.integers(256))
        try:
            points = read_voxel_message(bytes(damaged)).points()
        except LidarDecodeError:
            continue
        assert points.shape[1] == 3 and np.all(np.isfinite(points))


@pytest.mark.parametrize(
    "field",
    [
        {"width": [64, 128, 38]},
        {"width": "wide"},
        {"origin": [1, 2]},
        {"origin": [1, 2, "3"]},
        {"src_size": 10**12},
        {"src_size": "77824"},
        {"resolution": None},
        {"resolution": 10**400},
    ],
    ids=lambda field: repr(field)[:40],
)
def test_a_header_with_values_of_no_voxel_map_is_refused(field: dict[str, object]) -> None:
    data = {"stamp": 1.0, "resolution": 0.05, "src_size": 77824, "origin": [0, 0, 0]}
    header = json.dumps({"data": {**data, "width": [128, 128, 38], **field}}).encode()
    with pytest.raises(LidarDecodeError):
        read_voxel_message(struct.pack("<2H", len(header), 0) + header + GOOD)


@pytest.mark.parametrize("stamp", ["now", None, 1e999, float("nan"), 10**400, 0.0, -3600.0])
def test_a_frame_is_not_lost_for_its_stamp(stamp: object) -> None:
    data = {"resolution": 0.05, "src_size": 77824, "origin": [0, 0, 0], "width": [128, 128, 38]}
    header = json.dumps({"data": {**data, "stamp": stamp}}).encode()
    message = read_voxel_message(struct.pack("<2H", len(header), 0) + header + GOOD)
    assert len(message.points()) == len(random_cells(2000))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x02\x00\x00",
        b"\x02\x00\x00\x00\x01",
        b"\xff\xff\x00\x00{}",
        struct.pack("<2H", 2, 1) + b"[]",
        struct.pack("<2H", 2, 1) + b"{}",
        struct.pack("<2H2I", 2, 0, 2**31, 0) + b"{}",
        struct.pack("<2H", 60_000, 1) + b"[" * 60_000,
    ],
    ids=range(8),
)
def test_what_is_no_message_is_refused(message: bytes) -> None:
    with pytest.raises(LidarDecodeError):
        read_voxel_message(message)
