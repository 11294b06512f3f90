"""A world from a ROS map (map_server's yaml and pgm): walls as high as a room where the map is black.

So a user can simulate the place that was mapped. Unknown next to free floor becomes wall too: nobody knows what is
behind it. The robot starts where the map's frame has its origin, which is where the mapping began, or on the
nearest clear floor; when that is far from it, in the middle of the largest floor. Stands on numpy and yaml.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.worlds.plan import plaster
from rhino_actors.drivers.mujoco.worlds.scene import Box, Light, Material, World, flood
from rhino_actors.errors import ConfigError

WALL_HEIGHT = 1.6  # [m]
START_CLEARANCE = 0.40  # [m] around the start
NEAR_ORIGIN = 1.0  # [m] from the map's origin within which the start counts as there
MAX_PARTS = 50
MAX_BOXES = 3000  # a map that needs more is halved in resolution
MAX_CELLS = 16_000_000
MAX_YAML_BYTES = 65_536
LIGHT_SPACING = 8.0  # [m]
MAX_LIGHTS = 60
MARGIN = 0.5  # [m] of floor beyond the walls

MATERIALS = (
    Material(
        "floor",
        "checker",
        (0.60, 0.56, 0.52),
        (0.54, 0.50, 0.46),
        "edge",
        (0.36, 0.33, 0.30),
        (1.0, 1.0),
    ),
    plaster("plaster", (0.84, 0.80, 0.72)),
    plaster("plaster_blue", (0.62, 0.71, 0.79)),
    plaster("plaster_green", (0.67, 0.76, 0.65)),
    Material(
        "brick",
        "checker",
        (0.66, 0.40, 0.32),
        (0.60, 0.36, 0.29),
        "edge",
        (0.78, 0.74, 0.68),
        cube=True,
    ),
)
WALLS = ("plaster", "plaster_blue", "plaster_green", "brick")

_HINT = "A map is a map_server .yaml in mode trinary with its binary .pgm beside it."


def from_ros_map(path: str | Path) -> World:
    """Extrude a map to walls.

    Raises:
        ConfigError: no such file, not such a map, or no free floor in it.
    """
    walls, free, resolution, origin = _read_map(Path(path))
    walls |= _beside(free) & ~free
    boxes = _rectangles(walls)
    while len(boxes) > MAX_BOXES:
        walls, free = _halved(walls, np.any), _halved(free, np.all)
        resolution *= 2.0
        boxes = _rectangles(walls)
    start = _start(free & ~walls, resolution, origin)
    x0, y0 = origin[0] - start[0], origin[1] - start[1]
    rows, cols = walls.shape
    used_rows, used_cols = np.flatnonzero(walls.any(axis=1)), np.flatnonzero(walls.any(axis=0))
    interior = (
        x0 + float(used_cols[0]) * resolution,
        y0 + float(used_rows[0]) * resolution,
        x0 + float(used_cols[-1] + 1) * resolution,
        y0 + float(used_rows[-1] + 1) * resolution,
    )
    return World(
        name=Path(path).stem,
        seed=0,
        boxes=tuple(_wall(index, box, resolution, (x0, y0)) for index, box in enumerate(boxes)),
        materials=MATERIALS,
        lights=_lights(free, resolution, (x0, y0)),
        interior=interior,
        start=start,
        is_roofed=False,
        only_connected=True,
    )


def _wall(
    index: int, cells: tuple[int, int, int, int], resolution: float, corner: tuple[float, float]
) -> Box:
    row0, col0, row1, col1 = cells
    width, depth = (col1 - col0) * resolution, (row1 - row0) * resolution
    center = (
        corner[0] + col0 * resolution + width / 2.0,
        corner[1] + row0 * resolution + depth / 2.0,
        WALL_HEIGHT / 2.0,
    )
    # One look for each stretch of some metres, so that places look different.
    look = WALLS[(math.floor(center[0] / 5.0) * 7 + math.floor(center[1] / 5.0) * 3) % len(WALLS)]
    return Box(f"wall_{index}", center, (width, depth, WALL_HEIGHT), look)


def _rectangles(cells: NDArray[np.bool_]) -> list[tuple[int, int, int, int]]:
    """Cover the cells with rectangles (row0, col0, row1, col1), ends excluded: runs of a row, joined while equal."""
    done: list[tuple[int, int, int, int]] = []
    growing: dict[tuple[int, int], int] = {}  # columns of a run -> the row it began in
    for row in range(len(cells) + 1):
        runs: set[tuple[int, int]] = set()
        if row < len(cells):
            edges = np.flatnonzero(np.diff(cells[row].astype(np.int8), prepend=0, append=0))
            runs = set(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))
        for run in [run for run in growing if run not in runs]:
            done.append((growing.pop(run), run[0], row, run[1]))
        for run in runs:
            growing.setdefault(run, row)
    return sorted(done)


def _halved(cells: NDArray[np.bool_], how: Any) -> NDArray[np.bool_]:
    rows, cols = cells.shape
    even = np.pad(cells, ((0, rows % 2), (0, cols % 2)))
    blocks = even.reshape((rows + 1) // 2, 2, (cols + 1) // 2, 2)
    halved: NDArray[np.bool_] = how(blocks, axis=(1, 3))
    return halved


def _beside(cells: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the cells given and their eight neighbours."""
    padded = np.pad(cells, 1)
    rows, cols = cells.shape
    near = np.zeros_like(cells)
    for row in range(3):
        for col in range(3):
            near |= padded[row : row + rows, col : col + cols]
    return near


def _start(
    free: NDArray[np.bool_], resolution: float, origin: tuple[float, float]
) -> tuple[float, float]:
    """Return where the robot starts, in the map's frame [m]: its origin, or the clear floor nearest to that."""
    reach = math.ceil(START_CLEARANCE / resolution)
    clear = free.copy()
    for _ in range(reach):
        clear = ~_beside(~clear)
    clear[:reach] = clear[-reach:] = False
    clear[:, :reach] = clear[:, -reach:] = False
    cells = np.argwhere(clear)
    if len(cells) == 0:
        raise ConfigError(
            f"The map has no floor with {START_CLEARANCE} m of clear space around it.", _HINT
        )
    # Corners of cells, so that the truth grid has the map's own cells.
    place = np.array(origin) + cells[:, ::-1] * resolution
    if np.hypot(*place.T).min() > NEAR_ORIGIN:
        # The origin says nothing: take the largest floor, and its middle.
        cells = np.argwhere(_largest_part(clear))
        place = np.array(origin) + cells[:, ::-1] * resolution
        best = int(np.argmin(np.hypot(*(place - place.mean(axis=0)).T)))
    else:
        best = int(np.argmin(np.hypot(*place.T)))
    return (float(place[best, 0]), float(place[best, 1]))


def _largest_part(clear: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the largest 4-connected part, among the first MAX_PARTS that are met."""
    left, largest = clear.copy(), np.zeros_like(clear)
    for _ in range(MAX_PARTS):
        cells = np.flatnonzero(left)
        if len(cells) <= np.count_nonzero(largest):
            break
        row, col = divmod(int(cells[len(cells) // 2]), clear.shape[1])
        part = flood(left, (row, col))
        left &= ~part
        if np.count_nonzero(part) > np.count_nonzero(largest):
            largest = part
    return largest


def _lights(
    free: NDArray[np.bool_], resolution: float, corner: tuple[float, float]
) -> tuple[Light, ...]:
    step = max(1, round(LIGHT_SPACING / resolution))
    lights: list[Light] = []
    for row in range(step // 2, free.shape[0], step):
        for col in range(step // 2, free.shape[1], step):
            around = free[
                max(0, row - step // 2) : row + step // 2, max(0, col - step // 2) : col + step // 2
            ]
            if around.any() and len(lights) < MAX_LIGHTS:
                place = (corner[0] + col * resolution, corner[1] + row * resolution, 3.0)
                lights.append(Light(place, (0.66, 0.64, 0.60)))
    return tuple(lights)


def _read_map(
    path: Path,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], float, tuple[float, float]]:
    """Return walls and free floor, row 0 the lowest y, the cell's edge and the lower-left corner [m]."""
    try:
        if path.stat().st_size > MAX_YAML_BYTES:
            raise ConfigError(f"{path.name} is no map description.", _HINT)
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        image = path.parent / str(fields["image"])
        resolution = float(fields["resolution"])
        x, y, yaw = (float(value) for value in fields["origin"])
        occupied = float(fields.get("occupied_thresh", 0.65))
        is_free = float(fields.get("free_thresh", 0.196))
        negate = bool(fields.get("negate", 0))
        if image.stat().st_size > MAX_CELLS + 4096:
            raise ConfigError(f"{image.name} is too large.", "Crop the map.")
        pixels, highest = _read_pgm(image.read_bytes(), image.name)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"The map {path} cannot be read: {error!r}.", _HINT) from error
    if not (1e-3 <= resolution <= 1.0 and math.isfinite(x) and math.isfinite(y)):
        raise ConfigError(f"The map's resolution is {resolution} m, its origin {x}, {y}.", _HINT)
    if abs(yaw) > 1e-9:
        raise ConfigError("The map is rotated.", "Rotate the image and write a yaw of 0.")
    shade = pixels[::-1] / highest
    darkness = shade if negate else 1.0 - shade
    return darkness > occupied, darkness < is_free, resolution, (x, y)


def _read_pgm(content: bytes, name: str) -> tuple[NDArray[np.uint8], int]:
    words: list[bytes] = []
    at = 0
    while len(words) < 4:
        end = at
        while end < len(content) and not content[end : end + 1].isspace():
            end += 1
        word = content[at:end]
        if word.startswith(b"#"):
            end = content.find(b"\n", at)
            if end < 0:
                break
        elif word:
            words.append(word)
        if end >= len(content):
            break
        at = end + 1
    if len(words) < 4 or words[0] != b"P5":
        raise ConfigError(f"{name} is not a binary PGM image.", _HINT)
    cols, rows, highest = (int(word) for word in words[1:])
    if not (0 < rows and 0 < cols and rows * cols <= MAX_CELLS and 0 < highest < 256):
        raise ConfigError(f"{name} is {cols} x {rows} with {highest} shades.", _HINT)
    if len(content) - at < rows * cols:
        raise ConfigError(f"{name} ends before its last pixel.", _HINT)
    return np.frombuffer(content, np.uint8, rows * cols, at).reshape(rows, cols), highest
