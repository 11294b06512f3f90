"""Pictures of grids and camera frames, as numpy and OpenCV: no actor, no clock.

In every picture of a map one pixel is one cell and row 0 is the highest y, as people and map_server draw maps; grids
have row 0 at the lowest y. Colours are BGR, as OpenCV wants them.
"""

import math
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot

# map_server's greys and its thresholds [% occupied].
UNKNOWN_GREY, FREE_GREY, OCCUPIED_GREY = 205, 254, 0
_OCCUPIED_FROM, _FREE_TO = 65, 19

_PATH_BGR = (222, 110, 30)
_GOAL_BGR = (40, 120, 240)
_ROBOT_BGR = (70, 160, 40)
_ROBOT_RADIUS = 0.30  # [m] of the mark, about the robot's own size
_SUBPIXEL = 3  # fractional bits of drawing coordinates

Image = NDArray[np.uint8]


def _grey_table() -> Image:
    occupancy = np.arange(256, dtype=np.uint8).view(np.int8)
    grey = np.full(256, UNKNOWN_GREY, dtype=np.uint8)
    grey[(occupancy >= 0) & (occupancy <= _FREE_TO)] = FREE_GREY
    grey[occupancy >= _OCCUPIED_FROM] = OCCUPIED_GREY
    return grey


_GREY = _grey_table()


def occupancy_image(snapshot: MapSnapshot) -> Image:
    """Return (rows, cols) uint8 grey of the occupancy: 254 free, 0 occupied, 205 unknown or undecided."""
    grey: Image = _GREY[np.flipud(snapshot.occupancy).view(np.uint8)]
    return grey


def costmap_image(snapshot: MapSnapshot) -> Image:
    """Return (rows, cols) uint8 of the costmap, the pixel being the cost itself: 0 free .. 254 lethal, 255 unknown."""
    return np.ascontiguousarray(np.flipud(snapshot.costmap))


def overview_image(
    snapshot: MapSnapshot,
    *,
    pose: Pose2D | None = None,
    path: NDArray[np.floating] | None = None,
    goal: Pose2D | None = None,
    scale: int = 1,
) -> Image:
    """Return the occupancy as BGR with path, goal and robot drawn on it.

    Args:
        snapshot: the map.
        pose: of base_link in the map's frame; None draws no robot.
        path: (N, 2) x, y [m]; None draws none.
        goal: where it goes; None draws none.
        scale: pixels per cell, at least 1.
    """
    image: Any = cv2.cvtColor(occupancy_image(snapshot), cv2.COLOR_GRAY2BGR)
    if scale > 1:
        image = cv2.resize(image, None, fx=scale, fy=scale, interpolation=cv2.INTER_NEAREST)
    thickness = max(1, round(0.06 / snapshot.geometry.resolution * scale))
    if path is not None and len(path) > 1:
        points = _pixels(snapshot.geometry, np.asarray(path, dtype=np.float64)[:, :2], scale)
        cv2.polylines(image, [points], False, _PATH_BGR, thickness, cv2.LINE_AA, _SUBPIXEL)
    radius = max(2.0, _ROBOT_RADIUS / snapshot.geometry.resolution * scale)
    if goal is not None:
        (centre,) = _pixels(snapshot.geometry, np.array([[goal.x, goal.y]]), scale)
        _circle(image, centre, radius * 0.7, _GOAL_BGR, max(1, thickness))
    if pose is not None:
        outline = np.array([[1.2, 0.0], [-0.8, 0.75], [-0.4, 0.0], [-0.8, -0.75]]) * _ROBOT_RADIUS
        outline *= radius / (_ROBOT_RADIUS / snapshot.geometry.resolution * scale)
        cos, sin = math.cos(pose.yaw), math.sin(pose.yaw)
        world = outline @ np.array([[cos, sin], [-sin, cos]]) + (pose.x, pose.y)
        cv2.fillPoly(
            image,
            [_pixels(snapshot.geometry, world, scale)],
            _ROBOT_BGR,
            cv2.LINE_AA,
            _SUBPIXEL,
        )
    return np.asarray(image, dtype=np.uint8)


def encode_png(image: Image) -> bytes:
    """Return a PNG, made fast rather than small: level 1, no row filter, which suits maps of few colours."""
    ok, data = cv2.imencode(
        ".png",
        image,
        [cv2.IMWRITE_PNG_COMPRESSION, 1, cv2.IMWRITE_PNG_FILTER, cv2.IMWRITE_PNG_FILTER_NONE],
    )
    assert ok, "OpenCV encodes every 8-bit picture"
    return bytes(data)


def png_from_pgm(pgm: bytes) -> bytes:
    """Return the PNG of a grey PGM.

    Raises:
        ValueError: these bytes are no picture.
    """
    image = cv2.imdecode(np.frombuffer(pgm, dtype=np.uint8), cv2.IMREAD_GRAYSCALE)
    if image is None:
        raise ValueError("these bytes are no PGM")
    return encode_png(np.asarray(image, dtype=np.uint8))


def map_png_within(
    snapshot: MapSnapshot,
    *,
    pose: Pose2D | None,
    path: NDArray[np.floating] | None,
    goal: Pose2D | None,
    max_side: int,
    max_bytes: int,
) -> tuple[bytes, float]:
    """Return an overview that fits both bounds, and its pixels per cell: above 1 for a small map, below for a large."""
    side = max(snapshot.geometry.shape)
    scale = max(1, min(8, max_side // side))
    image = overview_image(snapshot, pose=pose, path=path, goal=goal, scale=scale)
    per_cell = float(scale)
    while True:
        factor = min(1.0, max_side / max(image.shape[:2]))
        if factor < 1.0:
            image = _shrunk(image, factor)
            per_cell *= factor
        ok, data = cv2.imencode(".png", image, [cv2.IMWRITE_PNG_COMPRESSION, 6])
        assert ok, "OpenCV encodes every 8-bit picture"
        if len(data) <= max_bytes or max(image.shape[:2]) <= 32:
            return bytes(data), per_cell
        max_side = max(32, int(max(image.shape[:2]) * 0.75))


def jpeg_within(jpeg: bytes, *, max_side: int, max_bytes: int) -> tuple[bytes, int, int]:
    """Return a JPEG that fits both bounds, with its width and height [px]; the same bytes when they fit already.

    Raises:
        ValueError: these bytes are no picture.
    """
    image = cv2.imdecode(np.frombuffer(jpeg, dtype=np.uint8), cv2.IMREAD_COLOR)
    if image is None:
        raise ValueError("the camera's bytes are no JPEG")
    if max(image.shape[:2]) <= max_side and len(jpeg) <= max_bytes:
        return jpeg, image.shape[1], image.shape[0]
    side, quality = min(max_side, max(image.shape[:2])), 85
    while True:
        small = _shrunk(np.asarray(image, dtype=np.uint8), side / max(image.shape[:2]))
        ok, data = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, quality])
        assert ok, "OpenCV encodes every 8-bit picture"
        if len(data) <= max_bytes or side <= 32:
            return bytes(data), small.shape[1], small.shape[0]
        quality, side = (quality - 15, side) if quality > 55 else (quality, int(side * 0.75))


def _shrunk(image: Image, factor: float) -> Image:
    height, width = image.shape[:2]
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _pixels(geometry: GridGeometry, points: NDArray[np.floating], scale: int) -> NDArray[np.int32]:
    """Return (N, 2) fixed-point pixel coordinates of points (N, 2) x, y [m], row 0 at the highest y."""
    cols = (points[:, 0] - geometry.origin[0]) / geometry.resolution * scale - 0.5
    rows = (geometry.shape[0] - (points[:, 1] - geometry.origin[1]) / geometry.resolution) * scale
    pixels = np.stack([cols, rows - 0.5], axis=1) * (1 << _SUBPIXEL)
    limit = 2.0**30 / (1 << _SUBPIXEL)  # far outside any picture, and still an int32 to OpenCV
    fixed: NDArray[np.int32] = (
        np.clip(np.nan_to_num(pixels), -limit, limit).round().astype(np.int32)
    )
    return fixed


def _circle(
    image: Image, centre: NDArray[np.int32], radius: float, colour: tuple[int, int, int], width: int
) -> None:
    cv2.circle(
        image,
        (int(centre[0]), int(centre[1])),
        round(radius * (1 << _SUBPIXEL)),
        colour,
        width,
        cv2.LINE_AA,
        _SUBPIXEL,
    )
