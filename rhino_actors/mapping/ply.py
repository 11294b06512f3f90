"""Points as PLY, the format of Stanford's scanners that MeshLab, CloudCompare, Open3D and Blender read."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import MapFileInvalid, MapTooLarge

MAX_POINTS = 10_000_000
_MAX_HEADER_BYTES = 16_384
_HINT = "Save the points as binary PLY with the vertex properties x, y and z."

_TYPES = {
    **dict.fromkeys(("char", "int8"), "i1"),
    **dict.fromkeys(("uchar", "uint8"), "u1"),
    **dict.fromkeys(("short", "int16"), "i2"),
    **dict.fromkeys(("ushort", "uint16"), "u2"),
    **dict.fromkeys(("int", "int32"), "i4"),
    **dict.fromkeys(("uint", "uint32"), "u4"),
    **dict.fromkeys(("float", "float32"), "f4"),
    **dict.fromkeys(("double", "float64"), "f8"),
}
_BYTE_ORDERS = {"binary_little_endian": "<", "binary_big_endian": ">"}


def encode_ply(points: NDArray[np.floating]) -> bytes:
    """Return points (N, 3) [m] as a binary little-endian PLY of float32 vertices.

    Raises:
        ValueError: not (N, 3), or a value is not finite.
    """
    if points.ndim != 2 or points.shape[1] != 3:
        raise ValueError(f"points must be (N, 3), not {points.shape}")
    vertices = np.ascontiguousarray(points, "<f4")
    if not np.isfinite(vertices).all():
        raise ValueError("points must be finite")
    header = (
        "ply\nformat binary_little_endian 1.0\ncomment rhino: voxel centres in the frame map [m]\n"
        f"element vertex {len(points)}\n"
        "property float x\nproperty float y\nproperty float z\nend_header\n"
    )
    return header.encode() + vertices.tobytes()


def decode_ply(
    content: bytes, *, name: str = "the PLY file", max_points: int = MAX_POINTS
) -> NDArray[np.float32]:
    """Return the vertices of a binary PLY as float32 (N, 3), N may be 0.

    Other scalar properties of the vertices are skipped, and so are the elements after them, such as faces.

    Args:
        content: the file.
        name: of the file, for errors.
        max_points: refuse more.

    Raises:
        MapFileInvalid: not such a file: another format, a damaged header, too few bytes, a value that is not
            finite or beyond float32.
        MapTooLarge: more than `max_points`.
    """
    order, count, properties, start = _read_header(content, name)
    if count > max_points:
        raise MapTooLarge(f"{name} has {count} points; {max_points} are the most.")
    layout = np.dtype([(key, order + kind) for key, kind in properties])
    if len(content) - start < count * layout.itemsize:
        raise MapFileInvalid(f"{name} ends before its last point.", _HINT)
    vertices = np.frombuffer(content, layout, count, start)
    points = np.empty((count, 3), np.float32)
    with np.errstate(over="ignore"):
        for axis, key in enumerate("xyz"):
            points[:, axis] = vertices[key]
    if not np.isfinite(points).all():
        raise MapFileInvalid(f"{name} has points that are not finite.", _HINT)
    return points


def _read_header(content: bytes, name: str) -> tuple[str, int, list[tuple[str, str]], int]:
    """Return byte order, number of vertices, their (name, numpy type), and where they start."""
    order, count = "", -1
    properties: list[tuple[str, str]] = []
    is_past_vertices = False
    for words, end in _header_lines(content, name):
        match words:
            case ["comment" | "obj_info", *_]:
                continue
            case ["format", kind, "1.0"] if not order:
                order = _BYTE_ORDERS.get(kind, "")
                if not order:
                    raise MapFileInvalid(f"{name} is of the format {kind[:40]!r}.", _HINT)
            case ["element", "vertex", number] if count < 0 and number.isdecimal():
                count = int(number[:18])
            case ["element", other, _] if count >= 0 and other != "vertex":
                is_past_vertices = True
            case ["property", *_] if is_past_vertices:
                continue
            case ["property", kind, key] if count >= 0 and kind in _TYPES:
                properties.append((key, _TYPES[kind]))
            case ["end_header"] if order and count >= 0:
                names = [key for key, _ in properties]
                if len(set(names)) < len(names) or not {"x", "y", "z"} <= set(names):
                    raise MapFileInvalid(f"{name} has no vertices with x, y and z.", _HINT)
                return order, count, properties, end
            case _:
                line = " ".join(words)[:40]
                raise MapFileInvalid(f"{name} has a header line {line!r} that is not read.", _HINT)
    raise MapFileInvalid(f"{name} has a header without an end.", _HINT)


def _header_lines(content: bytes, name: str) -> Iterator[tuple[list[str], int]]:
    """Give each header line after the first as words, with the place where the next one starts."""
    head = content[:_MAX_HEADER_BYTES]
    if not head.startswith((b"ply\n", b"ply\r\n")):
        raise MapFileInvalid(f"{name} is not a PLY file.", _HINT)
    at = head.index(b"\n") + 1
    while (end := head.find(b"\n", at)) >= 0:
        yield head[at:end].decode("latin-1").split(), end + 1
        at = end + 1
