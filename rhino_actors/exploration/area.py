"""The polygon that a mission may be kept to."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import InvalidRequest
from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE, GridGeometry, MapSnapshot

Polygon = Sequence[tuple[float, float]]

MOST_CORNERS = 200


def check_area(area: Polygon) -> None:
    """Check a polygon of corners x, y [m]; an empty one stands for everything.

    Raises:
        InvalidRequest: fewer than 3 corners or too many, not finite, without an area, or its edges cross.
    """
    if not len(area):
        return
    if not 3 <= len(area) <= MOST_CORNERS:
        raise InvalidRequest(
            f"The area has {len(area)} corners.",
            f"Give 3 to {MOST_CORNERS} corners x, y in metres.",
        )
    if not all(len(corner) == 2 and all(map(math.isfinite, corner)) for corner in area):
        raise InvalidRequest("A corner of the area is not two finite numbers.")
    corners = [(float(x), float(y)) for x, y in area]
    if len(set(corners)) < len(corners):
        raise InvalidRequest("The area has a corner twice.", "Do not repeat the first as the last.")
    count = len(corners)
    edges = [(corners[i], corners[(i + 1) % count]) for i in range(count)]
    for i in range(count):
        for j in range(i + 1, count):
            beside = j - i == 1 or (i == 0 and j == count - 1)
            if _cross(edges[i], edges[j], beside):
                raise InvalidRequest(
                    "The edges of the area cross.", "Give the corners in order around it."
                )
    if abs(_doubled_area(corners)) < 1e-6:
        raise InvalidRequest("The area is empty.")


def check_in_reach(area: Polygon, snapshot: MapSnapshot, cost_to_go: NDArray[np.float32]) -> None:
    """Check that the robot gets into a polygon that check_area let pass, over floor known now.

    Args:
        area: corners x, y [m] in the map; empty: everything.
        snapshot: the map.
        cost_to_go: (rows, cols) float32 from the robot on this map; inf where no way leads.

    Raises:
        InvalidRequest: no known floor in it can be reached.
    """
    if not len(area):
        return
    inside = cells_inside(area, snapshot.geometry)
    floor = inside & (snapshot.costmap < INSCRIBED_INFLATED_OBSTACLE) & np.isfinite(cost_to_go)
    if not floor.any():
        raise InvalidRequest(
            "The robot cannot get into the area over floor that it knows.",
            "Drive or explore up to it first, or make the area larger.",
        )


def cells_inside(area: Polygon, geometry: GridGeometry) -> NDArray[np.bool_]:
    """Return which cells (rows, cols) have their centre in a polygon; by the even-odd rule."""
    rows, cols = geometry.shape
    inside = np.zeros((rows, cols), np.bool_)
    y = geometry.origin[1] + (np.arange(rows) + 0.5) * geometry.resolution
    count = len(area)
    for i in range(count):
        (x0, y0), (x1, y1) = area[i], area[(i + 1) % count]
        crossed = np.flatnonzero((y0 <= y) != (y1 <= y))
        x = x0 + (y[crossed] - y0) * (x1 - x0) / (y1 - y0)
        first = np.ceil((x - geometry.origin[0]) / geometry.resolution - 0.5)
        for row, col in zip(crossed, np.clip(first, 0, cols).astype(int), strict=True):
            inside[row, col:] ^= True
    return inside


def _doubled_area(corners: Polygon) -> float:
    x, y = np.array(corners).T
    return float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))


def _side(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _between(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    """Say whether c, which is on the line through a and b, lies between them."""
    return min(a[0], b[0]) <= c[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= c[1] <= max(a[1], b[1])


def _cross(
    first: tuple[tuple[float, float], tuple[float, float]],
    second: tuple[tuple[float, float], tuple[float, float]],
    share_corner: bool,
) -> bool:
    (a, b), (c, d) = first, second
    if share_corner:  # they may meet there, but not lie on each other
        corner = b if b in (c, d) else a
        p, q = (a if corner == b else b), (d if corner == c else c)
        on_line = _side(corner, p, q) == 0
        return (
            on_line
            and (p[0] - corner[0]) * (q[0] - corner[0]) + (p[1] - corner[1]) * (q[1] - corner[1])
            > 0
        )
    sides = _side(a, b, c), _side(a, b, d), _side(c, d, a), _side(c, d, b)
    if sides[0] * sides[1] < 0 and sides[2] * sides[3] < 0:
        return True
    ends = ((a, b, c), (a, b, d), (c, d, a), (c, d, b))
    return any(side == 0 and _between(*end) for side, end in zip(sides, ends, strict=True))
