"""A whole map as a few named files, and those as one zip: what is exported, and what strangers send to be imported."""

import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import MapFileInvalid, MapTooLarge
from rhino_actors.mapping.map_files import (
    MAX_CELLS,
    MAX_HEADER_BYTES,
    MAX_YAML_BYTES,
    decode_map,
    encode_map,
)
from rhino_actors.mapping.ply import MAX_POINTS, decode_ply, encode_ply
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.maps import MapContent

DESCRIPTION, IMAGE, VOXELS = "map.yaml", "map.pgm", "map.ply"
MAX_ZIP_BYTES = 64_000_000

_MAX_ENTRIES = 64
_MAX_NAME = 200
_MAX_PLY_BYTES = MAX_POINTS * 12 + MAX_HEADER_BYTES
_LIMITS = {
    ".yaml": MAX_YAML_BYTES,
    ".yml": MAX_YAML_BYTES,
    ".pgm": MAX_CELLS + MAX_HEADER_BYTES,
    ".ply": _MAX_PLY_BYTES,
}
_THUMBNAIL_SIDE = 160
# A zip's last record: signature, disks, entries, size and place of the directory, length of a comment.
_END_RECORD = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR = b"PK\x06\x07"
_HINT = "Make a plain zip of the map's .yaml and .pgm, and its .ply if it has one, without folders or a password."


def encode_files(content: MapContent) -> dict[str, bytes]:
    """Return a map's files by name: yaml and pgm, and ply where there are voxels.

    Raises:
        ValueError: the arrays do not fit the geometry, or voxels are not finite.
    """
    text, image = encode_map(content.occupancy, content.geometry, IMAGE)
    files = {DESCRIPTION: text, IMAGE: image}
    if content.voxels is not None:
        files[VOXELS] = encode_ply(content.voxels)
    return files


def decode_files(files: Mapping[str, bytes]) -> MapContent:
    """Return the map that files hold: one yaml, the image that it names, and at most one ply.

    The yaml may name its image with the folder where it once lay; only its last part counts. Files of other kinds
    are not looked at.

    Raises:
        MapFileInvalid: they are not such a map.
        MapTooLarge: they are too large.
    """
    described = [name for name in files if name.lower().endswith((".yaml", ".yml"))]
    clouds = [name for name in files if name.lower().endswith(".ply")]
    if len(described) != 1 or len(clouds) > 1:
        raise MapFileInvalid(
            f"A map has one .yaml and at most one .ply, not {len(described)} and {len(clouds)}.",
            _HINT,
        )

    def read_image(image: str) -> bytes:
        name = image.replace("\\", "/").rpartition("/")[2]
        if name not in files:
            raise MapFileInvalid(f"The map's image {name[:80]!r} is not among the files.", _HINT)
        return files[name]

    occupancy, geometry = decode_map(files[described[0]], read_image, name=described[0])
    voxels = decode_ply(files[clouds[0]], name=clouds[0]) if clouds else None
    return MapContent(geometry, occupancy, voxels)


def pack_zip(files: Mapping[str, bytes]) -> bytes:
    """Return the files as one zip; the same files always give the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # dated 1980
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED, 6)
    return buffer.getvalue()


def unpack_zip(archive: bytes) -> dict[str, bytes]:
    """Return the files of a map's zip by name; nothing is written anywhere.

    One folder around them is looked through, and so are the hidden files that some systems add. Files of other
    kinds than a map's are left out without being unpacked.

    Raises:
        MapFileInvalid: not such a zip: damaged, encrypted, with links, or names that lead elsewhere.
        MapTooLarge: it, or what it holds, is larger than a map may be; said before that is unpacked.
    """
    if len(archive) > MAX_ZIP_BYTES:
        raise MapTooLarge(f"The zip has more than {MAX_ZIP_BYTES} bytes.")
    _check_directory(archive)
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return _read_entries(opened)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise MapFileInvalid(f"The zip is damaged: {str(error)[:80]}.", _HINT) from error
    except (
        NotImplementedError,
        RuntimeError,
    ) as error:  # a method that is not built in; a password
        raise MapFileInvalid(f"The zip cannot be unpacked: {str(error)[:80]}.", _HINT) from error


def known_part(content: MapContent) -> MapContent:
    """Return the map without the rims that nobody has seen: running grids have some, and get more at each load."""
    known = content.occupancy >= 0
    rows, cols = np.nonzero(known.any(axis=1))[0], np.nonzero(known.any(axis=0))[0]
    if not rows.size:
        return content
    row, col = int(rows[0]), int(cols[0])
    part = content.occupancy[row : rows[-1] + 1, col : cols[-1] + 1]
    edge, (x, y) = content.geometry.resolution, content.geometry.origin
    origin = (x + col * edge, y + row * edge)
    geometry = GridGeometry(edge, origin, (part.shape[0], part.shape[1]))
    return replace(content, geometry=geometry, occupancy=part)


def thumbnail(occupancy: NDArray[np.int8]) -> bytes:
    """Return a small picture of a map, as a PGM of at most 160 pixels a side.

    An occupied cell shows however small the picture gets: a wall is a cell thick.
    """
    step = -(-max(occupancy.shape) // _THUMBNAIL_SIDE)
    height, width = (-(-side // step) for side in occupancy.shape)
    padded = np.full((height * step, width * step), -1, np.int8)
    padded[: occupancy.shape[0], : occupancy.shape[1]] = occupancy
    largest = padded.reshape(height, step, width, step).max(axis=(1, 3))
    pixels = np.full(largest.shape, 205, np.uint8)
    pixels[(largest >= 0) & (largest < 65)] = 254
    pixels[largest >= 65] = 0
    return f"P5\n{width} {height}\n255\n".encode() + pixels[::-1].tobytes()


def _check_directory(archive: bytes) -> None:
    """Refuse a zip whose directory is large: to read it takes a hundred times its size in memory."""
    at = len(archive) - _END_RECORD.size
    if at < 0:
        raise MapFileInvalid("This is not a zip.", _HINT)
    signature, _, _, _, entries, size, _, comment = _END_RECORD.unpack_from(archive, at)
    if signature != b"PK\x05\x06" or comment:
        raise MapFileInvalid("This is not a zip, or one with a comment.", _HINT)
    if archive[max(0, at - 20) : at].startswith(_ZIP64_LOCATOR) or entries > _MAX_ENTRIES:
        raise MapFileInvalid(f"The zip has more than {_MAX_ENTRIES} files.", _HINT)
    if size > _MAX_ENTRIES * 1_024:
        raise MapFileInvalid("The zip has a directory that is too large.", _HINT)


def _read_entries(archive: zipfile.ZipFile) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    for entry in archive.infolist():
        if entry.is_dir():
            continue
        path = _safe_path(entry.filename)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise MapFileInvalid(f"{path.name[:80]!r} in the zip is not a plain file.", _HINT)
        limit = _LIMITS.get(path.suffix.lower())
        if limit is None or path.name.startswith(".") or path.parts[0] == "__MACOSX":
            continue
        if path.name in files:
            raise MapFileInvalid(f"{path.name[:80]!r} is in the zip twice.", _HINT)
        if len(files) == 4:
            raise MapFileInvalid("The zip has more than one map.", _HINT)
        if entry.file_size > limit:
            raise MapTooLarge(f"{path.name[:80]!r} in the zip has {entry.file_size} bytes.")
        with archive.open(entry) as file:
            content = file.read(limit + 1)  # what the directory says need not be so
        if len(content) > limit:
            raise MapTooLarge(f"{path.name[:80]!r} in the zip has more than {limit} bytes.")
        files[path.name] = content
    return files


def _safe_path(name: str) -> PurePosixPath:
    """Return an entry's path, at most one folder deep. Raises MapFileInvalid for one that leads elsewhere."""
    path = PurePosixPath(name)
    strange = any(ord(letter) < 32 or letter in '\\:"' for letter in name)
    if strange or path.is_absolute() or ".." in path.parts or not 1 <= len(path.parts) <= 2:
        raise MapFileInvalid(f"The zip has a file with the name {name[:80]!r}.", _HINT)
    if len(name) > _MAX_NAME:
        raise MapFileInvalid("The zip has a file with a very long name.", _HINT)
    return path
