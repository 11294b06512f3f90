"""Search and refinement: what they promise about places, against plain numpy."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.mapping.likelihood import (
    SIGMA,
    DistanceField,
    LikelihoodPyramid,
    SearchArea,
    Transform,
    refine,
    surface,
    thinned,
)
from rhino_actors.mapping.localisation import Localiser
from rhino_actors.messages.grid import GridGeometry

CELL = 0.05


def cluttered(seed: int, size: float = 8.0) -> tuple[NDArray[np.int8], GridGeometry]:
    """A walled square with blocks at random places, no two alike."""
    rng = np.random.default_rng(seed)
    cells = round(size / CELL)
    grid = np.zeros((cells, cells), np.int8)
    grid[:2], grid[-2:], grid[:, :2], grid[:, -2:] = 100, 100, 100, 100
    for _ in range(9):
        height, width = rng.integers(6, 30, 2)
        row, col = rng.integers(10, cells - 40, 2)
        grid[row : row + height, col : col + width] = 100
    return grid, GridGeometry(CELL, (-1.7, 2.3), grid.shape)


def seen_around(
    grid: NDArray[np.int8], geometry: GridGeometry, x: float, y: float, radius: float = 3.0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All surfaces and all clear cells near a place, in the map."""
    marks = surface(grid >= 65, grid < 0)
    ends = geometry.world_from_cells(np.argwhere(marks))
    distance = DistanceField(grid, geometry).distance
    clear = geometry.world_from_cells(np.argwhere((grid == 0) & (distance > 0.15)))

    def near(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return points[np.hypot(points[:, 0] - x, points[:, 1] - y) < radius]

    return near(ends), near(clear)


def open_place(
    grid: NDArray[np.int8], geometry: GridGeometry, rng: np.random.Generator
) -> tuple[float, float]:
    distance = DistanceField(grid, geometry).distance
    cells = np.argwhere((grid == 0) & (distance > 0.4))
    row, col = cells[int(rng.integers(len(cells)))]
    return geometry.world_from_cell(int(row), int(col))


def off(found: Transform, true: Transform, pivot: tuple[float, float]) -> tuple[float, float]:
    """Distance [m] at the pivot and turn [rad] between two transforms."""
    a, b = compose(found, (*pivot, 0.0)), compose(true, (*pivot, 0.0))
    return math.hypot(a[0] - b[0], a[1] - b[1]), abs(math.remainder(a[2] - b[2], math.tau))


def test_the_distance_is_that_to_the_nearest_surface_cell() -> None:
    rng = np.random.default_rng(3)
    grid = np.where(rng.random((40, 50)) < 0.03, 100, 0).astype(np.int8)
    grid[10:20, 10:22] = 100
    field = DistanceField(grid, GridGeometry(CELL, (0.0, 0.0), grid.shape))
    marks = np.argwhere(surface(grid >= 65, grid < 0))
    cells = np.stack(np.indices(grid.shape), -1).reshape(-1, 1, 2)
    plain = CELL * np.hypot(*np.moveaxis(cells - marks, -1, 0)).min(axis=1).reshape(grid.shape)
    np.testing.assert_allclose(field.distance, np.minimum(plain, 1.0), atol=1e-5)
    assert field.distance[15, 15] > 0.15  # deep in the block is not on its surface


@pytest.mark.parametrize("seed", range(4))
def test_the_search_finds_where_points_come_from_and_no_place_beside_it(seed: int) -> None:
    grid, geometry = cluttered(seed)
    field = DistanceField(grid, geometry)
    pyramid = LikelihoodPyramid(grid, geometry, field)
    rng = np.random.default_rng(seed)
    x, y = open_place(grid, geometry, rng)
    true = (*rng.uniform(-30.0, 30.0, 2).tolist(), float(rng.uniform(-math.pi, math.pi)))
    ends, clear = (
        transform_points(inverse(true), points) for points in seen_around(grid, geometry, x, y)
    )
    here = compose(inverse(true), (x, y, 0.0))[:2]
    candidates, is_complete = pyramid.search(
        thinned(ends, 0.1, 400), thinned(clear, 0.2, 300), here
    )
    assert is_complete and len(candidates) == 1
    assert candidates[0].score > 0.8
    distance, turn = off(candidates[0].transform, true, here)
    assert distance < 0.15 and turn < math.radians(3.0)
    match = refine(field, ends, candidates[0].transform, here)
    distance, turn = off(match.transform, true, here)
    assert distance < 0.01 and turn < math.radians(0.2)
    assert match.share > 0.95 and not match.is_degenerate


def test_the_search_misses_nothing_that_trying_every_place_finds() -> None:
    grid, geometry = cluttered(11, size=4.0)
    field = DistanceField(grid, geometry)
    rng = np.random.default_rng(5)
    for _ in range(3):
        ends, clear = rng.uniform(-1.0, 1.0, (30, 2)), rng.uniform(-1.0, 1.0, (20, 2))
        area = SearchArea(0.0, 4.0, 0.3, radius=2.0, spread=0.0)
        wide = LikelihoodPyramid(grid, geometry, field)
        best = wide.search(ends, clear, (0.0, 0.0), area=area, most=1)[0][0]
        flat = LikelihoodPyramid(grid, geometry, field)
        flat._levels = 0
        flat._fits, flat._against, flat._open = flat._fits[:1], flat._against[:1], flat._open[:1]
        assert best == flat.search(ends, clear, (0.0, 0.0), area=area, most=1)[0][0]


def test_a_place_that_looks_like_another_brings_both() -> None:
    grid, geometry = cluttered(2)
    twice = np.hstack([grid, grid])
    wide = GridGeometry(CELL, geometry.origin, twice.shape)
    pyramid = LikelihoodPyramid(twice, wide, DistanceField(twice, wide))
    x, y = open_place(grid, geometry, np.random.default_rng(0))
    ends, clear = seen_around(grid, geometry, x, y)
    candidates, _ = pyramid.search(thinned(ends, 0.1, 400), thinned(clear, 0.2, 300), (x, y))
    assert len(candidates) == 2
    apart = candidates[1].transform[0] - candidates[0].transform[0]
    assert abs(apart) == pytest.approx(8.0, abs=0.15)
    assert candidates[0].score - candidates[1].score < 0.05


def test_the_robot_is_never_put_on_an_obstacle_or_into_the_unknown() -> None:
    grid = np.full((60, 60), -1, np.int8)
    grid[20:40, 20:40] = 0
    grid[20, 20:40] = 100
    geometry = GridGeometry(0.1, (0.0, 0.0), grid.shape)
    pyramid = LikelihoodPyramid(grid, geometry, DistanceField(grid, geometry))
    rng = np.random.default_rng(1)
    candidates, _ = pyramid.search(
        rng.uniform(-2.0, 2.0, (50, 2)), np.empty((0, 2)), (0.0, 0.0), margin=10.0, most=50
    )
    assert len(candidates) > 3
    for candidate in candidates:
        row, col = geometry.cell_from_world(*candidate.transform[:2])
        assert grid[row, col] == 0


def test_a_clear_place_on_an_obstacle_counts_against_a_fit() -> None:
    grid, geometry = cluttered(4)
    pyramid = LikelihoodPyramid(grid, geometry, DistanceField(grid, geometry))
    x, y = open_place(grid, geometry, np.random.default_rng(4))
    ends, clear = seen_around(grid, geometry, x, y)
    few = thinned(ends, 0.1, 300)
    area = SearchArea(x, y, 0.0, radius=0.05, spread=0.0)
    good = pyramid.search(few, thinned(clear, 0.2, 200), (x, y), area=area)[0][0].score
    bad = pyramid.search(few, few, (x, y), area=area)[0][0].score
    assert good > 0.9 and bad < good - 0.8


def test_along_a_corridor_the_guess_is_kept_and_across_it_is_corrected() -> None:
    grid = np.zeros((60, 400), np.int8)
    grid[10], grid[50] = 100, 100
    geometry = GridGeometry(CELL, (0.0, 0.0), grid.shape)
    field = DistanceField(grid, geometry)
    along = np.arange(8.0, 12.0, 0.05)
    rng = np.random.default_rng(0)
    ends = np.concatenate(
        [np.stack([along, np.full_like(along, y)], 1) for y in (10.5 * CELL, 50.5 * CELL)]
    ) + rng.normal(0.0, 0.01, (160, 2))
    for guess in ((0.25, 0.08, 0.0), (-0.25, -0.1, 0.01)):
        match = refine(field, ends, guess, (10.0, 1.5))
        here = compose(match.transform, (10.0, 1.5, 0.0))
        expected = compose(guess, (10.0, 1.5, 0.0))
        assert match.is_degenerate
        assert here[0] == pytest.approx(expected[0], abs=0.01)
        assert here[1] == pytest.approx(1.5, abs=0.01)
        assert here[2] == pytest.approx(0.0, abs=math.radians(0.2))


def test_points_without_an_obstacle_near_leave_the_guess() -> None:
    grid = np.zeros((100, 100), np.int8)
    grid[0, 0] = 100
    field = DistanceField(grid, GridGeometry(CELL, (0.0, 0.0), grid.shape))
    guess = (0.1, -0.2, 0.3)
    ends = np.random.default_rng(0).uniform(2.5, 3.5, (50, 2))
    for points in (ends, np.empty((0, 2))):
        match = refine(field, points, guess, (3.0, 3.0))
        assert match.is_degenerate and match.share == 0.0
        np.testing.assert_allclose(match.transform, guess, atol=1e-9)


def test_a_fit_is_told_from_a_misfit_by_its_share() -> None:
    grid, geometry = cluttered(7)
    field = DistanceField(grid, geometry)
    x, y = open_place(grid, geometry, np.random.default_rng(7))
    ends, _ = seen_around(grid, geometry, x, y)
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, ends.shape)
    assert refine(field, ends, (0.0, 0.0, 0.0), (x, y)).share == 1.0
    assert refine(field, ends + noise, (0.0, 0.0, 0.0), (x, y)).share < 0.6
    assert SIGMA == 0.10


def test_a_grid_that_is_too_large_to_search_is_refused_before_anything_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def allocated(*_: object) -> None:
        raise AssertionError("allocated")

    monkeypatch.setattr("rhino_actors.mapping.localisation.DistanceField", allocated)
    cells = np.broadcast_to(np.zeros((), np.int8), (60_000, 60_000))  # one byte
    geometry = GridGeometry(CELL, (0.0, 0.0), cells.shape)
    with pytest.raises(ValueError, match="too large to search"):
        Localiser(cells, geometry)
    with pytest.raises(ValueError, match="too large to search"):
        LikelihoodPyramid(cells, geometry, None)  # type: ignore[arg-type]
