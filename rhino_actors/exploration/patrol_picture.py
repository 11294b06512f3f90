"""Pictures of a patrol: how long ago each place was visited, and where the robot went. Pure."""

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.grid import MapSnapshot

# Just visited, half of the expiry ago, expired; RGB.
FRESH, MIDDLE, STALE = (38, 166, 154), (255, 213, 79), (216, 67, 21)
WALL, FLOOR, UNKNOWN = (55, 61, 71), (236, 238, 241), (205, 210, 216)
TRACE, ROBOT, GOAL, POINT = (33, 64, 154), (20, 20, 20), (194, 24, 91), (106, 27, 154)
HEAT_ALPHA = 200  # 0..255
SIDE_PX = 900  # longest side of a picture's map
MAX_SCALE = 8
LEGEND_PX = 44


def visit_age_image(ages: NDArray[np.float32], expiry: float) -> NDArray[np.uint8]:
    """Return ages as colours: from green just after a visit over yellow to red at the expiry and beyond.

    Args:
        ages: (rows, cols) float32 [s] since the last visit, inf where there was none.
        expiry: [s]

    Returns:
        (rows, cols, 4) uint8 RGBA in the order of the rows given, transparent where nothing was visited.
    """
    image = np.zeros((*ages.shape, 4), np.uint8)
    visited = np.isfinite(ages)
    level = np.clip(ages[visited] / expiry, 0.0, 1.0)
    image[visited, :3] = _colours(level)
    image[visited, 3] = HEAT_ALPHA
    return image


def patrol_picture(
    snapshot: MapSnapshot,
    ages: NDArray[np.float32],
    expiry: float,
    trace: NDArray[np.float64],
    *,
    robot: tuple[float, float, float] | None = None,
    goal: tuple[float, float] | None = None,
    points: NDArray[np.float64] | None = None,
) -> bytes:
    """Draw the known part of a map, the ages of the visits, and the robot's trace; the highest y on top.

    Args:
        snapshot: the map.
        ages: (rows, cols) float32 [s] since the last visit of each cell, inf where there was none.
        expiry: [s] at which the colours end.
        trace: (N, 2) x, y [m] in the map.
        robot: x, y [m], yaw [rad] in the map.
        goal: x, y [m].
        points: (K, 2) x, y [m] of a patrol of points.

    Returns:
        A PNG.
    """
    geometry = snapshot.geometry
    known = np.argwhere(snapshot.occupancy >= 0)
    low, high = (known.min(0), known.max(0) + 1) if len(known) else ((0, 0), geometry.shape)
    part = (slice(low[0], high[0]), slice(low[1], high[1]))
    occupancy = snapshot.occupancy[part]
    image = np.full((*occupancy.shape, 3), UNKNOWN, np.uint8)
    image[occupancy >= 0] = FLOOR
    heat = visit_age_image(ages[part], expiry)
    alpha = heat[..., 3:].astype(np.float32) / 255.0
    image = (image * (1.0 - alpha) + heat[..., :3] * alpha).astype(np.uint8)
    image[occupancy >= 50] = WALL

    longest = max(image.shape[:2])
    scale = min(MAX_SCALE, SIDE_PX / longest)
    size = (max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale)))
    how = cv2.INTER_NEAREST if scale >= 1.0 else cv2.INTER_AREA
    image = np.ascontiguousarray(cv2.resize(image[::-1], size, interpolation=how))

    def pixels(places: NDArray[np.float64]) -> NDArray[np.int32]:
        cells = (places - geometry.origin) / geometry.resolution - (low[1], low[0])
        drawn: NDArray[np.int32] = np.round(cells * scale * (1, -1) + (0, size[1])).astype(np.int32)
        return drawn

    if len(trace) > 1:
        cv2.polylines(image, [pixels(trace).reshape(-1, 1, 2)], False, TRACE, 1, cv2.LINE_AA)
    for x, y in pixels(points) if points is not None else ():
        cv2.circle(image, (int(x), int(y)), 6, POINT, 2, cv2.LINE_AA)
    if goal is not None:
        x, y = (int(v) for v in pixels(np.array([goal]))[0])
        cv2.drawMarker(image, (x, y), GOAL, cv2.MARKER_TILTED_CROSS, 14, 2, cv2.LINE_AA)
    if robot is not None:
        x, y = (int(v) for v in pixels(np.array([robot[:2]]))[0])
        nose = (round(x + 14 * np.cos(robot[2])), round(y - 14 * np.sin(robot[2])))
        cv2.circle(image, (x, y), 6, ROBOT, -1, cv2.LINE_AA)
        cv2.line(image, (x, y), nose, ROBOT, 3, cv2.LINE_AA)
    image = np.vstack([image, _legend(size[0], expiry)])
    return bytes(cv2.imencode(".png", image[..., ::-1])[1].tobytes())


def _colours(level: NDArray[np.floating]) -> NDArray[np.uint8]:
    """Return (N, 3) RGB of levels (N,) 0..1."""
    stops = np.array([FRESH, MIDDLE, STALE], np.float64)
    channels = [np.interp(level, (0.0, 0.5, 1.0), stops[:, i]) for i in range(3)]
    return np.stack(channels, axis=-1).astype(np.uint8)


def _legend(width: int, expiry: float) -> NDArray[np.uint8]:
    """Return a strip (LEGEND_PX, width, 3) that says what the colours mean."""
    strip = np.full((LEGEND_PX, width, 3), 255, np.uint8)
    left, right = 10, max(11, min(width - 10, 230))
    strip[10:22, left:right] = _colours(np.linspace(0.0, 1.0, right - left))
    text = (
        f"visited now ... {expiry / 60.0:.0f} min ago"
        if expiry >= 120.0
        else f"now ... {expiry:.0f} s ago"
    )
    cv2.putText(strip, text, (left, 38), cv2.FONT_HERSHEY_SIMPLEX, 0.42, ROBOT, 1, cv2.LINE_AA)
    return strip
