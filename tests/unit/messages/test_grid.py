"""Grid geometry: rows are y, row 0 is the lowest, and a point belongs to one cell."""

import math

import numpy as np

from rhino_actors.messages.grid import GridGeometry, MapSnapshot

RNG = np.random.default_rng(3)
GEOMETRIES = [
    GridGeometry(0.05, (0.0, 0.0), (10, 20)),
    GridGeometry(0.1, (-3.2, 4.7), (33, 7)),
    GridGeometry(0.025, (-100.0, -0.0125), (5, 5)),
]


def test_the_first_row_is_the_lowest_y_and_the_origin_its_lower_left_corner() -> None:
    geometry = GridGeometry(0.5, (-1.0, 2.0), (4, 6))
    assert geometry.cell_from_world(-1.0, 2.0) == (0, 0)
    assert geometry.cell_from_world(1.9, 2.1) == (0, 5)
    assert geometry.cell_from_world(-0.9, 3.9) == (3, 0)
    assert geometry.world_from_cell(0, 0) == (-0.75, 2.25)


def test_a_cell_comes_back_from_its_centre() -> None:
    for geometry in GEOMETRIES:
        for row, col in RNG.integers(-50, 50, (100, 2)).tolist():
            assert geometry.cell_from_world(*geometry.world_from_cell(row, col)) == (row, col)


def test_a_point_is_within_half_a_cell_of_its_cells_centre() -> None:
    for geometry in GEOMETRIES:
        for x, y in RNG.uniform(-20, 20, (100, 2)).tolist():
            cx, cy = geometry.world_from_cell(*geometry.cell_from_world(x, y))
            assert max(abs(cx - x), abs(cy - y)) <= geometry.resolution / 2 + 1e-9


def test_many_at_once_equal_one_by_one() -> None:
    for geometry in GEOMETRIES:
        points = RNG.uniform(-20, 20, (50, 2))
        cells = geometry.cells_from_world(points)
        assert [tuple(cell) for cell in cells.tolist()] == [
            geometry.cell_from_world(x, y) for x, y in points.tolist()
        ]
        np.testing.assert_allclose(
            geometry.world_from_cells(cells),
            [geometry.world_from_cell(row, col) for row, col in cells.tolist()],
        )


def test_contains_is_true_inside_only() -> None:
    geometry = GridGeometry(0.05, (0.0, 0.0), (3, 5))
    inside = {(row, col) for row in range(3) for col in range(5)}
    for row in range(-2, 6):
        for col in range(-2, 8):
            assert geometry.contains(row, col) == ((row, col) in inside)


def test_a_snapshot_without_a_frame_is_empty() -> None:
    unknown = np.full((1, 1), -1, dtype=np.int8)
    costs = np.full((1, 1), 255, dtype=np.uint8)
    geometry = GridGeometry(0.05, (0.0, 0.0), (1, 1))
    assert MapSnapshot(1, 0, math.nan, geometry, unknown, costs, 0.0).is_empty
    assert not MapSnapshot(1, 1, 0.0, geometry, unknown, costs, 0.0).is_empty
