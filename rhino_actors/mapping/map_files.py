"""Maps on disk as ROS map_server's yaml and pgm: read by many programs, and distrusted when read here."""

import contextlib
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rhino_actors.errors import MapFileInvalid, MapTooLarge, StorageError
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry

# Pixel values of the map server's trinary mode. 205 reads as 0.19608 occupied: free_thresh must stay below that,
# or every unknown cell comes back free.
_BLACK, _WHITE, _GREY = 0, 254, 205
_OCCUPIED_THRESHOLD, _FREE_THRESHOLD = 0.65, 0.196

MAX_CELLS = 64_000_000
MAX_DISTANCE = 1e6  # [m] of a map's corner from 0: beyond, float32 points miss their cells
MAX_YAML_BYTES = 65_536
MAX_HEADER_BYTES = 4_096
_HINT = "A map is a map_server .yaml with its .pgm image in the same folder."


class _PlainLoader(yaml.SafeLoader):
    """YAML without aliases: a few hundred bytes of them stand for gigabytes of text."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "aliases are not read")
        return super().compose_node(parent, index)


def encode_map(
    occupancy: NDArray[np.int8], geometry: GridGeometry, image: str
) -> tuple[bytes, bytes]:
    """Return the description and the image of a map, as `save_map` writes them.

    Args:
        occupancy: as for `save_map`.
        geometry: where it lies.
        image: name of the image's file, for the description.

    Raises:
        ValueError: the array and the geometry differ in shape.
    """
    if occupancy.shape != geometry.shape:
        raise ValueError(f"occupancy {occupancy.shape} and geometry {geometry.shape} differ")
    pixels = np.full(occupancy.shape, _GREY, np.uint8)
    pixels[occupancy >= math.ceil(_OCCUPIED_THRESHOLD * 100)] = _BLACK
    pixels[(occupancy >= 0) & (occupancy <= math.floor(_FREE_THRESHOLD * 100))] = _WHITE
    rows, cols = occupancy.shape
    header = f"P5\n# rhino, {geometry.resolution} m per pixel\n{cols} {rows}\n255\n"
    fields = {
        "image": image,
        "mode": "trinary",
        "resolution": float(geometry.resolution),
        "origin": [float(geometry.origin[0]), float(geometry.origin[1]), 0.0],
        "negate": 0,
        "occupied_thresh": _OCCUPIED_THRESHOLD,
        "free_thresh": _FREE_THRESHOLD,
    }
    description = yaml.safe_dump(fields, sort_keys=False, default_flow_style=None)
    # The image's first row has the highest y.
    return description.encode(), header.encode() + pixels[::-1].tobytes()


def decode_map(
    description: bytes,
    read_image: Callable[[str], bytes],
    *,
    name: str = "the map",
    max_cells: int = MAX_CELLS,
) -> tuple[NDArray[np.int8], GridGeometry]:
    """Return what a description and its image say, as `load_map` does.

    Args:
        description: the yaml.
        read_image: gives the bytes of the image that the description names. The name is not to be trusted.
        name: of the description's file, for errors.
        max_cells: refuse larger maps.

    Raises:
        MapFileInvalid: not such a map, a rotated one, one that is too large; and what `read_image` raises.
    """
    fields = _read_description(description, name)
    resolution = _number(fields["resolution"], "resolution")
    if not 1e-4 <= resolution <= 100.0:
        raise MapFileInvalid(f"The map's resolution is {resolution} m.", _HINT)
    origin = fields["origin"]
    if not isinstance(origin, list) or len(origin) != 3:
        raise MapFileInvalid("The map's origin is not [x, y, yaw].", _HINT)
    x, y, yaw = (_number(value, "origin") for value in origin)
    if abs(x) > MAX_DISTANCE or abs(y) > MAX_DISTANCE:
        raise MapFileInvalid(f"The map lies at ({x:g}, {y:g}) m.", "Move its origin nearer to 0.")
    if abs(yaw) > 1e-9:
        raise MapFileInvalid(
            f"The map is rotated by {yaw} rad, and rotated maps are not supported.",
            "Rotate the image and write a yaw of 0.",
        )
    occupied = _number(fields["occupied_thresh"], "occupied_thresh")
    free = _number(fields["free_thresh"], "free_thresh")
    if not 0.0 <= free < occupied <= 1.0:
        raise MapFileInvalid(f"The map's thresholds are {free} and {occupied}.", _HINT)
    negate = _number(fields["negate"], "negate")
    if fields.get("mode", "trinary") != "trinary":
        raise MapFileInvalid("The map's mode is not trinary.", "Save it in mode trinary.")

    image = fields["image"]
    if not isinstance(image, str) or not image:
        raise MapFileInvalid("The map's image is not a file name.", _HINT)
    pixels, highest = _read_pgm(read_image(image), repr(image)[:80], max_cells)
    shade = np.minimum(np.arange(256) / highest, 1.0)
    darkness = shade if negate else 1.0 - shade
    occupancy_from_pixel = np.full(256, UNKNOWN, np.int8)
    occupancy_from_pixel[darkness > occupied] = OCCUPIED
    occupancy_from_pixel[darkness < free] = FREE
    geometry = GridGeometry(resolution, (x, y), (pixels.shape[0], pixels.shape[1]))
    return occupancy_from_pixel[pixels[::-1]], geometry


def save_map(path: str | Path, occupancy: NDArray[np.int8], geometry: GridGeometry) -> Path:
    """Write a map as `<name>.yaml` and `<name>.pgm`, for map_server and for `load_map`.

    Three classes survive: occupied (65 and more), free (19 and less), and unknown, which takes the cells in
    between too, as map_server's own saver does. Each file is replaced whole.

    Args:
        path: the yaml file; `.yaml` is added where it is missing. Its folder must exist.
        occupancy: (rows, cols) int8, -1 unknown, 0..100; row 0 is the lowest y.
        geometry: where it lies.

    Returns:
        The yaml file.

    Raises:
        StorageError: the files cannot be written.
        ValueError: the array and the geometry differ in shape.
    """
    description = _yaml_path(path)
    image = description.with_suffix(".pgm")
    text, pixels = encode_map(occupancy, geometry, image.name)
    _write(image, pixels)
    _write(description, text)
    return description


def load_map(
    path: str | Path, *, max_cells: int = MAX_CELLS
) -> tuple[NDArray[np.int8], GridGeometry]:
    """Read a map that map_server, or `save_map`, wrote.

    Args:
        path: the yaml file; `.yaml` is added where it is missing.
        max_cells: refuse larger maps.

    Returns:
        (rows, cols) int8 with -1 unknown, 0 free, 100 occupied, row 0 the lowest y; and where it lies.

    Raises:
        StorageError: no such file; not such a map; a rotated one; one that is too large; an image that lies outside
            the yaml's folder.
    """
    description = _yaml_path(path)

    def read_image(image: str) -> bytes:
        return _read(_image_path(description, image), max_cells + MAX_HEADER_BYTES)

    return decode_map(
        _read(description, MAX_YAML_BYTES), read_image, name=description.name, max_cells=max_cells
    )


def _yaml_path(path: str | Path) -> Path:
    named = Path(path)
    return named if named.suffix in (".yaml", ".yml") else named.with_name(named.name + ".yaml")


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except (OSError, ValueError) as error:
        with contextlib.suppress(OSError, ValueError):
            partial.unlink(missing_ok=True)
        raise StorageError(
            f"The map cannot be written to {path}: {error}.", "Look at the folder and the disk."
        ) from error


def _read(path: Path, limit: int) -> bytes:
    """Return the bytes of a regular file that is not longer than `limit`."""
    try:
        if not path.is_file():
            raise MapFileInvalid(f"There is no file {path}.", _HINT)
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        raise MapFileInvalid(f"{path} cannot be read: {error}.", _HINT) from error
    if len(content) > limit:
        raise MapTooLarge(f"{path.name} is larger than {limit} bytes.")
    return content


def _read_description(content: bytes, name: str) -> dict[str, Any]:
    if len(content) > MAX_YAML_BYTES:
        raise MapFileInvalid(f"{name} is larger than {MAX_YAML_BYTES} bytes.", _HINT)
    try:
        fields = yaml.load(content, _PlainLoader)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise MapFileInvalid(f"{name} is not YAML: {type(error).__name__}.", _HINT) from error
    if not isinstance(fields, dict):
        raise MapFileInvalid(f"{name} is not a map's description.", _HINT)
    needed = ("image", "resolution", "origin", "negate", "occupied_thresh", "free_thresh")
    missing = [key for key in needed if key not in fields]
    if missing:
        raise MapFileInvalid(f"{name} lacks {', '.join(missing)}.", _HINT)
    return fields


def _number(value: Any, key: str) -> float:
    # PyYAML takes 5e-2 for text; other readers take it for a number.
    if isinstance(value, (bool, int, float, str)):
        with contextlib.suppress(OverflowError, ValueError):
            number = float(value)
            if math.isfinite(number):
                return number
    raise MapFileInvalid(f"The map's {key} is {str(value)[:40]}, not a number.", _HINT)


def _image_path(description: Path, name: str) -> Path:
    """Return the image's path, which must lie in the folder of the yaml: a file may not name what else is read."""
    try:
        folder = description.parent.resolve()
        image = (folder / name).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise MapFileInvalid("The map's image is not a file name.", _HINT) from error
    if not image.is_relative_to(folder):
        raise MapFileInvalid(f"The map's image {name!r} lies outside the map's folder.", _HINT)
    return image


def _read_pgm(content: bytes, name: str, max_cells: int) -> tuple[NDArray[np.uint8], int]:
    """Return (rows, cols) uint8, first row on top, of a binary 8-bit PGM, and its value for white."""
    cols, rows, highest, start = _pgm_header(content, name)
    if not (cols > 0 and rows > 0 and 0 < highest < 256):
        raise MapFileInvalid(f"{name} is {cols} x {rows} with {highest} shades.", _HINT)
    if rows * cols > max_cells:
        raise MapTooLarge(f"{name} has more than {max_cells} pixels.")
    if len(content) - start < rows * cols:
        raise MapFileInvalid(f"{name} ends before its last pixel.", _HINT)
    return np.frombuffer(content, np.uint8, rows * cols, start).reshape(rows, cols), highest


def _pgm_header(content: bytes, name: str) -> tuple[int, int, int, int]:
    """Return width, height and highest value of a P5 file, and where its pixels start."""
    if content[:2] != b"P5":
        raise MapFileInvalid(f"{name} is not a binary PGM image.", _HINT)
    numbers: list[int] = []
    at = 2
    while len(numbers) < 3:
        word = b""
        while at < min(len(content), MAX_HEADER_BYTES):
            byte = content[at : at + 1]
            at += 1
            if byte == b"#" and not word:
                at = content.find(b"\n", at) + 1 or len(content)
            elif not byte.isspace():
                word += byte
            elif word:
                break
        if not word.isdigit() or len(word) > 9:
            raise MapFileInvalid(f"{name} has a damaged PGM header.", _HINT)
        numbers.append(int(word))
    width, height, highest = numbers
    return width, height, highest, at
