"""PLY: read by another reader, and never trusted when read here."""

import struct

import numpy as np
import pytest

from rhino_actors.errors import MapFileInvalid, MapTooLarge
from rhino_actors.mapping import decode_ply, encode_ply

HEADER = (
    "ply\nformat binary_little_endian 1.0\nelement vertex 1\n"
    "property float x\nproperty float y\nproperty float z\nend_header\n"
)


def reference_vertices(content: bytes) -> list[tuple[float, ...]]:
    """Read x, y, z as Turk's description of PLY says, a value at a time; written apart from the code under test."""
    header, body = content.split(b"end_header\n", 1)
    lines = header.decode("ascii").splitlines()
    assert lines[0] == "ply" and lines[1] == "format binary_little_endian 1.0"
    (count,) = (int(line.split()[2]) for line in lines if line.startswith("element vertex"))
    kinds = [line.split()[1:] for line in lines if line.startswith("property")]
    assert kinds == [["float", "x"], ["float", "y"], ["float", "z"]]
    assert len(body) == count * 12
    return list(struct.iter_unpack("<fff", body))


@pytest.mark.parametrize("seed", range(3))
def test_points_come_back_and_another_reader_finds_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(0.0, 100.0, (int(rng.integers(0, 500)), 3)).astype(np.float32)
    points.flags.writeable = False
    content = encode_ply(points)
    assert np.array_equal(decode_ply(content), points)
    assert reference_vertices(content) == [tuple(map(float, point)) for point in points]


def test_no_points_are_a_file_too() -> None:
    assert decode_ply(encode_ply(np.empty((0, 3), np.float32))).shape == (0, 3)


@pytest.mark.parametrize("points", [np.zeros((3, 2)), np.zeros(3), np.full((1, 3), np.nan)])
def test_what_is_no_cloud_is_not_written(points: np.ndarray) -> None:
    with pytest.raises(ValueError, match="points must be"):
        encode_ply(points)


@pytest.mark.parametrize("order", ["little", "big"])
def test_files_of_other_programs_are_read_whatever_else_they_hold(order: str) -> None:
    mark = "<" if order == "little" else ">"
    header = (
        f"ply\r\nformat binary_{order}_endian 1.0\r\ncomment made by hand\r\nobj_info x\r\n"
        "element vertex 2\r\nproperty uchar red\r\nproperty double z\r\nproperty float32 x\r\n"
        "property double y\r\nelement face 1\r\nproperty list uchar int vertex_indices\r\nend_header\r\n"
    )
    body = b"".join(struct.pack(f"{mark}Bdfd", 7, z, x, y) for x, y, z in ((1, 2, 3), (4, 5, 6)))
    points = decode_ply(header.encode() + body + b"\x03faces")
    assert points.dtype == np.float32
    assert points.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"ply",
        b"ply\n" + b"comment x\n" * 5000,
        b"ply\nend_header\n",
        b"solid cube\n",
        HEADER.encode() + bytes(11),
        HEADER.encode() + struct.pack("<fff", 1.0, float("nan"), 0.0),
        HEADER.encode() + struct.pack("<fff", 1.0, float("inf"), 0.0),
        HEADER.replace("float y", "double y").encode() + struct.pack("<fdf", 1.0, 1e300, 0.0),
        HEADER.replace("binary_little_endian", "ascii").encode() + b"0 0 0\n",
        HEADER.replace("float z", "float w").encode() + bytes(12),
        HEADER.replace("float z", "float x").encode() + bytes(12),
        HEADER.replace("float z", "list uchar float z").encode() + bytes(99),
        HEADER.replace("float z", "quad z").encode() + bytes(99),
        HEADER.replace("vertex 1", "vertex -1").encode() + bytes(99),
        HEADER.replace("vertex 1", "vertex 1e3").encode() + bytes(99),
        HEADER.replace("vertex 1", "vertex ²").encode("latin-1") + bytes(99),
        HEADER.replace("element vertex 1", "element face 1").encode() + bytes(99),
        HEADER.replace("end_header\n", "element vertex 2\nend_header\n").encode() + bytes(99),
        HEADER.replace("1.0", "2.0").encode() + bytes(12),
    ],
)
def test_a_file_that_is_no_cloud_is_refused(content: bytes) -> None:
    with pytest.raises(MapFileInvalid) as caught:
        decode_ply(content, name="cloud.ply")
    assert "cloud.ply" in caught.value.message


def test_a_header_that_promises_too_much_is_refused_before_memory_is_taken() -> None:
    for count in (10**7 + 1, 10**17, "9" * 4000):
        with pytest.raises((MapTooLarge, MapFileInvalid)):
            decode_ply(HEADER.replace("vertex 1", f"vertex {count}").encode() + bytes(12))
    with pytest.raises(MapTooLarge):
        decode_ply(encode_ply(np.zeros((3, 3))), max_points=2)
