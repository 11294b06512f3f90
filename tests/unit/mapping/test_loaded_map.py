"""A loaded map becomes the running one: exactly where it fits, and never with an obstacle less."""

import numpy as np
import pytest

from rhino_actors.errors import MapTooLarge
from rhino_actors.mapping import OccupancyMapper, mapper_state, on_lattice
from rhino_actors.messages.grid import GridGeometry


def classes(occupancy: np.ndarray) -> np.ndarray:
    return np.where(occupancy >= 65, 100, np.where((occupancy >= 0) & (occupancy <= 19), 0, -1))


@pytest.mark.parametrize("seed", range(3))
def test_a_map_of_the_mappers_own_comes_back_cell_for_cell(seed: int) -> None:
    rng = np.random.default_rng(seed)
    resolution = float(rng.choice([0.05, 0.1, 0.03]))
    origin = tuple(float(64 * v * resolution) for v in rng.integers(-9, 9, 2))
    geometry = GridGeometry(resolution, origin, (128, 64))
    occupancy = rng.choice(np.array([-1, 0, 100], np.int8), geometry.shape)
    occupancy.flags.writeable = False
    mapper = OccupancyMapper(resolution)
    fitted, lattice = on_lattice(occupancy, geometry, resolution)
    mapper.restore(mapper_state(fitted, lattice, mapper.state()))

    assert mapper.geometry.shape == geometry.shape
    assert mapper.geometry.origin == pytest.approx(geometry.origin)
    assert np.array_equal(classes(mapper.occupancy()), occupancy)
    assert mapper.known_area == pytest.approx((occupancy >= 0).sum() * resolution**2)
    assert mapper.has_changed


def test_a_map_between_the_tiles_keeps_its_place_and_the_rest_is_unknown() -> None:
    geometry = GridGeometry(0.1, (-3.7, 12.3), (5, 9))
    occupancy = np.zeros((5, 9), np.int8)
    occupancy[2, 3] = 100
    mapper = OccupancyMapper(0.1)
    fitted, lattice = on_lattice(occupancy, geometry, 0.1)
    mapper.restore(mapper_state(fitted, lattice, mapper.state()))
    row, col = mapper.geometry.cell_from_world(*geometry.world_from_cell(2, 3))
    assert np.argwhere(mapper.occupancy() >= 65).tolist() == [[row, col]]
    assert (mapper.occupancy() >= 0).sum() == 45


def test_what_is_undecided_stays_known_and_undecided() -> None:
    mapper = OccupancyMapper(0.1)
    geometry = GridGeometry(0.1, (0.0, 0.0), (1, 4))
    mapper.restore(mapper_state(np.array([[20, 64, 65, 19]], np.int8), geometry, mapper.state()))
    assert mapper.occupancy()[0, :4].tolist() == [50, 50, 97, 3]


def test_a_loaded_obstacle_that_is_gone_is_unlearned() -> None:
    mapper = OccupancyMapper(0.1)
    geometry = GridGeometry(0.1, (-1.0, -1.0), (20, 40))
    occupancy = np.zeros((20, 40), np.int8)
    occupancy[9:11, 20] = 100
    mapper.restore(mapper_state(occupancy, geometry, mapper.state()))
    row, col = mapper.geometry.cell_from_world(1.05, 0.05)
    assert mapper.occupancy()[row, col] >= 65
    beam = np.array([[2.5, 0.05, 0.3]])
    for _ in range(9):
        mapper.integrate(beam, (0.0, 0.05, 0.3))
    assert mapper.occupancy()[row, col] < 65


@pytest.mark.parametrize("seed", range(6))
def test_on_another_lattice_no_obstacle_is_lost_and_none_moves_further_than_a_cell(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    edge, resolution = float(rng.uniform(0.02, 0.3)), float(rng.uniform(0.03, 0.2))
    geometry = GridGeometry(edge, tuple(rng.normal(0.0, 5.0, 2)), (23, 31))
    occupancy = rng.choice(np.array([-1, 0, 100], np.int8), geometry.shape, p=[0.3, 0.65, 0.05])
    fitted, lattice = on_lattice(occupancy, geometry, resolution)

    assert lattice.resolution == resolution
    on = np.array(lattice.origin) / resolution
    assert np.abs(on - np.round(on)).max() < 1e-6
    # Every occupied cell's points, a little inside its edges, are occupied.
    inside = np.linspace(0.05, 0.95, 7) * edge
    for row, col in np.argwhere(occupancy == 100):
        corner_x, corner_y = (v - edge / 2 for v in geometry.world_from_cell(row, col))
        for dx in inside:
            for dy in inside:
                assert fitted[lattice.cell_from_world(corner_x + dx, corner_y + dy)] == 100
    # Every occupied cell has an occupied one of the map within reach, and a free one is free at its centre.
    centres = geometry.world_from_cells(np.argwhere(occupancy == 100))
    for row, col in np.argwhere(fitted == 100):
        away = np.abs(centres - lattice.world_from_cell(row, col)).max(axis=1).min()
        assert away <= (edge + resolution) / 2 * 1.05
    for row, col in np.argwhere(fitted == 0):
        assert occupancy[geometry.cell_from_world(*lattice.world_from_cell(row, col))] == 0


def test_an_origin_rounded_to_the_millimetre_is_the_same_map() -> None:
    geometry = GridGeometry(0.05, (-12.2003, 3.4496), (7, 9))
    occupancy = np.arange(63, dtype=np.int8).reshape(7, 9)
    fitted, lattice = on_lattice(occupancy, geometry, 0.05)
    assert np.array_equal(fitted, occupancy)
    assert lattice.origin == pytest.approx((-12.2, 3.45))


def test_a_map_too_large_for_the_mapper_is_refused_before_memory_is_taken() -> None:
    coarse = GridGeometry(100.0, (0.0, 0.0), (100, 100))
    with pytest.raises(MapTooLarge, match="200000 x 200000"):
        on_lattice(np.zeros((100, 100), np.int8), coarse, 0.05)
