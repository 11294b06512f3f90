"""The torus of voxels against a dictionary of cells."""

import math

import numpy as np

from rhino_actors.drivers.go2 import decode_voxel_frame
from rhino_actors.drivers.go2.lidar import encode_voxel_frame
from rhino_actors.drivers.mujoco.voxel_window import BELOW, LAYERS, RESOLUTION, VoxelWindow

Cell = tuple[int, int, int]


def cells_of(window: VoxelWindow, time: float) -> set[Cell]:
    packed = window.pack(time)
    points = decode_voxel_frame(
        encode_voxel_frame(packed),
        src_size=packed.size,
        resolution=RESOLUTION,
        origin=window.origin,
    )
    return {tuple(cell) for cell in np.floor(points / RESOLUTION).astype(int).tolist()}


class Reference:
    """What the window should hold, the slow way."""

    def __init__(self, ttl: float) -> None:
        self.ttl = ttl
        self.last: dict[Cell, float] = {}
        self.low: Cell = (0, 0, 0)

    def inside(self, cell: Cell) -> bool:
        return all(
            low <= at < low + size
            for at, low, size in zip(cell, self.low, (128, 128, LAYERS), strict=True)
        )

    def follow(self, place: tuple[float, float, float]) -> None:
        x, y, z = (math.floor(v / RESOLUTION) for v in place)
        self.low = (x - 64, y - 64, z - BELOW)
        self.last = {cell: t for cell, t in self.last.items() if self.inside(cell)}

    def insert(self, points: np.ndarray, time: float) -> None:
        for point in points:
            cell = tuple(math.floor(v / RESOLUTION) for v in point)
            if self.inside(cell):  # type: ignore[arg-type]
                self.last[cell] = time  # type: ignore[index]

    def cells(self, time: float) -> set[Cell]:
        return {cell for cell, t in self.last.items() if t >= time - self.ttl}


def test_it_holds_what_a_dictionary_of_cells_holds_wherever_it_wanders() -> None:
    rng = np.random.default_rng(1)
    window, reference = VoxelWindow(2.0), Reference(2.0)
    place = np.zeros(3)
    for step in range(60):
        time = 0.25 * step
        place = place + rng.normal(0.0, 0.4, 3) * (1.0, 1.0, 0.1)
        if step % 20 == 19:
            place = place + (9.0, -20.0, 0.0)  # farther than the window is wide
        at = (float(place[0]), float(place[1]), float(place[2]))
        window.follow(at)
        reference.follow(at)
        points = place + rng.normal(0.0, 2.0, (200, 3)) * (1.0, 1.0, 0.3)
        window.insert(points, time)
        reference.insert(points, time)
        assert cells_of(window, time) == reference.cells(time)


def test_a_cell_goes_when_nothing_returned_from_it_for_its_life() -> None:
    window = VoxelWindow(2.0)
    window.insert(np.array([[0.51, 0.0, 0.1]]), 10.0)
    assert len(cells_of(window, 11.9)) == 1
    assert len(cells_of(window, 12.1)) == 0


def test_the_window_lies_around_the_robot_on_the_lattice_of_the_robots_own() -> None:
    window = VoxelWindow(2.0)
    window.follow((-0.43, -0.08, 0.32))
    # A published recording has this z, and half-voxel centres.
    assert abs(window.origin[2] + 0.575) < 1e-9
    assert all(
        abs(v / RESOLUTION - 0.5 - round(v / RESOLUTION - 0.5)) < 1e-9 for v in window.origin
    )


def test_far_and_wild_points_are_lost_without_harm() -> None:
    window = VoxelWindow(2.0)
    window.insert(np.array([[50.0, 0.0, 0.0], [0.0, -1e9, 0.0], [0.0, 0.0, 30.0]]), 1.0)
    assert cells_of(window, 1.0) == set()
