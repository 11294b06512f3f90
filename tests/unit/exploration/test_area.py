"""The polygon that a mission is kept to."""

import math

import numpy as np
import pytest

from rhino_actors.errors import InvalidRequest
from rhino_actors.exploration import check_area, check_in_reach
from rhino_actors.exploration.area import cells_inside
from rhino_actors.messages.grid import GridGeometry, MapSnapshot

SQUARE = ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 2.0))


@pytest.mark.parametrize(
    "area",
    [
        (),
        SQUARE,
        SQUARE[::-1],
        ((0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (2.0, 1.0), (0.0, 4.0)),  # not convex
        ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 2.0)),  # a corner on a straight edge
    ],
)
def test_polygons_pass(area):
    check_area(area)


@pytest.mark.parametrize(
    "area",
    [
        ((0.0, 0.0),),
        ((0.0, 0.0), (1.0, 1.0)),
        ((0.0, 0.0), (math.nan, 0.0), (1.0, 1.0)),
        ((0.0, 0.0), (math.inf, 0.0), (1.0, 1.0)),
        ((0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0)),  # a bow tie
        ((0.0, 0.0), (1.0, 0.0), (2.0, 0.0)),  # a line
        ((0.0, 0.0), (2.0, 0.0), (2.0, 2.0), (0.0, 0.0)),  # the first corner again
        ((0.0, 0.0), (4.0, 0.0), (4.0, 2.0), (2.0, 0.0), (0.0, 2.0)),  # touches itself
        ((0.0, 0.0), (2.0, 0.0), (1.0, 0.0), (1.0, 1.0)),  # runs back on itself
        tuple((math.cos(k), math.sin(k)) for k in np.linspace(0, 6, 500)),
    ],
)
def test_what_is_no_polygon_is_refused(area):
    with pytest.raises(InvalidRequest):
        check_area(area)


def test_cells_inside_are_those_whose_centre_is():
    rng = np.random.default_rng(1)
    geometry = GridGeometry(0.1, (-1.0, -2.0), (60, 50))
    for count in (3, 5, 8):
        angles = np.sort(rng.uniform(0, 2 * math.pi, count))
        corners = [
            (1.0 + r * math.cos(a), 1.0 + r * math.sin(a))
            for a, r in zip(angles, rng.uniform(0.5, 4.0, count), strict=True)
        ]
        inside = cells_inside(corners, geometry)
        for row, col in rng.integers(0, 50, (300, 2)).tolist():
            x, y = geometry.world_from_cell(row, col)
            odd = False
            for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
                if (y0 <= y) != (y1 <= y) and x >= x0 + (y - y0) * (x1 - x0) / (y1 - y0):
                    odd = not odd
            assert inside[row, col] == odd


def test_an_area_that_the_robot_cannot_get_into_is_refused():
    geometry = GridGeometry(0.1, (0.0, 0.0), (50, 50))
    field = np.full((50, 50), np.inf, np.float32)
    field[:, 30:] = 1.0
    snapshot = MapSnapshot(
        1, 1, 0.0, geometry, np.zeros((50, 50), np.int8), np.zeros((50, 50), np.uint8), 1.0
    )
    with pytest.raises(InvalidRequest, match="get into"):
        check_in_reach(SQUARE, snapshot, field)
    field[:, 19:] = 1.0
    check_in_reach(SQUARE, snapshot, field)
    check_in_reach((), snapshot, np.full((50, 50), np.inf, np.float32))
    with pytest.raises(InvalidRequest):
        check_in_reach(tuple((x + 90, y) for x, y in SQUARE), snapshot, field)
