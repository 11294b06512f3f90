"""VoxelMapper: what is in the map equals ten lines of Python; what left is gone; the map stays bounded."""

import math
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.drivers.go2.lidar import read_voxel_message
from rhino_actors.errors import StorageError
from rhino_actors.mapping import Carving, CellWindow, VoxelBricks, VoxelMapper
from rhino_actors.mapping.checkpoint import load_checkpoint, save_checkpoint
from rhino_actors.mapping.voxel_kernels import COLUMNS
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.map_patch import VoxelPatch
from tests.unit.mapping.scene import RINGS, Lidar, room

SHARED = Path(os.environ.get("RHINO_SHARED") or Path(__file__).resolve().parents[4] / "shared")
VECTORS = SHARED / "data" / "go2"
NAMES = sorted(path.stem for path in VECTORS.glob("*.bin"))

ORIGIN = (0.01, 0.02, 0.3)
Voxel = tuple[int, int, int]
Points = NDArray[np.float32]


def indices(points: NDArray[np.floating], size: float = 0.05) -> set[Voxel]:
    """Return the voxels that hold the points."""
    return set(map(tuple, np.floor(points.astype(np.float64) / size).astype(int).tolist()))


def carved(known: set[Voxel], points: NDArray[np.floating]) -> set[Voxel]:
    """The map after a frame, carved by column: ten lines to compare with."""
    fresh = indices(points)
    columns = {(x, y) for x, y, _ in fresh}
    return {v for v in known if (v[0], v[1]) not in columns} | fresh


def cloud(seed: int, count: int = 800, spread: float = 1.2) -> Points:
    rng = np.random.default_rng(seed)
    return rng.normal((0.0, 0.0, 0.8), (spread, spread, 1.6), (count, 3)).astype(np.float32)


def box(x: float, y: float, width: float, height: float) -> Points:
    """Voxel centres of a solid box that stands on the floor."""
    side = np.arange(0.025, width, 0.05)
    xs, ys, zs = np.meshgrid(x + side, y + side, np.arange(0.025, height, 0.05))
    return np.stack([xs.ravel(), ys.ravel(), zs.ravel()], 1).astype(np.float32)


def mirrored(known: dict[Voxel, Points], update: VoxelBricks) -> None:
    """What a reader of publications does."""
    for k, place in enumerate(update.place.tolist()):
        points = centres(update.place[k : k + 1], update.words[k : k + 1])
        known.pop(tuple(place), None)
        if len(points):
            known[tuple(place)] = points


def centres(place: NDArray[np.int32], words: NDArray[np.uint64]) -> Points:
    """Return the voxels of bricks as the message has them."""
    return VoxelPatch(1, 1, 0, 0.0, 0.05, place, words).points()


def all_points(known: dict[Voxel, Points]) -> set[Voxel]:
    return indices(np.concatenate([np.empty((0, 3), np.float32), *known.values()]))


@pytest.mark.parametrize("carve_columns", [True, False])
def test_the_map_is_what_ten_lines_of_python_give(carve_columns: bool) -> None:
    mapper, expected = VoxelMapper(carve_columns=carve_columns), set()
    for seed in range(6):
        points = cloud(seed)
        mapper.add_frame(points, (9.0, 0.0, 0.3))
        expected = carved(expected, points) if carve_columns else expected | indices(points)
        assert indices(mapper.points()) == expected
        assert len(mapper) == len(expected) == len(mapper.points())


def test_a_column_is_carved_at_all_heights() -> None:
    mapper = VoxelMapper()
    tall = np.array([[1.01, 1.01, z] for z in (-9.0, -0.4, 0.01, 2.2, 2.5, 17.0)], np.float32)
    mapper.add_frame(tall, ORIGIN)
    assert len(mapper) == 6
    mapper.add_frame(np.array([[1.02, 1.02, 0.52]], np.float32), ORIGIN)
    assert indices(mapper.points()) == {(20, 20, 10)}


@pytest.mark.parametrize("carving", list(Carving))
def test_the_order_of_points_and_the_memory_they_lie_in_do_not_matter(carving: Carving) -> None:
    mappers = [VoxelMapper(carving=carving) for _ in range(3)]
    for seed in range(4):
        points = cloud(seed)
        shuffled = points[np.random.default_rng(9).permutation(len(points))]
        frozen = points.astype(np.float64)
        frozen.flags.writeable = False
        for mapper, given in zip(mappers, (points, shuffled, frozen), strict=True):
            mapper.add_frame(given, ORIGIN)
    first = indices(mappers[0].points())
    assert first == indices(mappers[1].points()) == indices(mappers[2].points())


@pytest.mark.parametrize("carving", list(Carving))
@pytest.mark.parametrize("shift", [(1, 0, 0), (-640, 33, 70), (5000, -7001, -129)])
def test_a_map_moved_by_whole_voxels_is_the_same_map(carving: Carving, shift: Voxel) -> None:
    here, there = VoxelMapper(0.25, carving=carving), VoxelMapper(0.25, carving=carving)
    move = np.array(shift) * 0.25  # exact in float32
    for seed in range(4):
        points = np.round(cloud(seed) * 64.0) / np.float32(64.0)
        here.add_frame(points, (0.125, 0.125, 0.375))
        there.add_frame(points + move, np.array((0.125, 0.125, 0.375)) + move)
    moved = {tuple(np.add(v, shift).tolist()) for v in indices(here.points(), 0.25)}
    assert indices(there.points(), 0.25) == moved


def test_points_are_voxel_centres_and_come_back_to_their_own_voxels() -> None:
    mapper = VoxelMapper()
    mapper.add_frame(cloud(1) * 8.0, ORIGIN)
    centres = mapper.points()
    assert centres.dtype == np.float32 and centres.shape == (len(mapper), 3)
    assert np.allclose(centres, (np.floor(centres / 0.05) + 0.5) * 0.05, atol=1e-5)
    again = VoxelMapper()
    again.add_frame(centres, ORIGIN)
    assert indices(again.points()) == indices(centres)


def test_points_on_the_edge_of_a_voxel_are_told_as_float32_allows() -> None:
    k = np.arange(-600, 600)
    edges = (k * 0.05).astype(np.float32)
    mapper = VoxelMapper(min_range=0.0)
    mapper.add_frame(np.stack([edges, edges * 0, edges * 0], 1), ORIGIN)
    assert {v[0] for v in indices(mapper.points())} == set(k.tolist())


def test_what_is_no_return_never_marks() -> None:
    good = cloud(3, 50)
    bad = np.array(
        [
            [np.nan, 1.0, 0.0],
            [1.0, np.nan, 0.5],
            [np.inf, 0.0, 0.0],
            [0.0, -np.inf, 0.0],
            [1.0, 1.0, np.nan],
            [1e30, 1e30, 0.0],
            [60.0, 0.0, 0.0],
            [*ORIGIN],
            [0.02, 0.02, 0.31],
        ],
        np.float32,
    )
    for carving in Carving:
        mapper = VoxelMapper(carving=carving)
        assert mapper.add_frame(bad, ORIGIN) == 0
        assert len(mapper) == 0 and not mapper.has_changed
        assert mapper.add_frame(np.vstack([bad, good]), ORIGIN) == 50
        assert indices(mapper.points()) == indices(good)


def test_wide_doubles_are_outliers_and_no_overflow() -> None:
    mapper = VoxelMapper()
    mapper.add_frame(np.array([[1e300, 0.0, 0.0], [1.0, 0.0, 0.0]]), ORIGIN)
    assert len(mapper) == 1


@pytest.mark.parametrize("empty", [np.empty((0, 3)), np.empty(0), []])
def test_an_empty_frame_changes_nothing(empty: NDArray[np.float64]) -> None:
    mapper = VoxelMapper()
    mapper.add_frame(cloud(1), ORIGIN)
    mapper.take_changed()
    assert mapper.add_frame(empty, ORIGIN) == 0
    assert not mapper.has_changed


def test_the_robot_does_not_see_itself() -> None:
    mapper = VoxelMapper(body_length=0.8, body_width=0.4)
    pose = Pose2D(3.0, 1.0, math.pi / 2)
    inside, beside = [3.12, 1.32, 0.31], [3.32, 1.12, 0.31]
    mapper.add_frame(np.array([inside, beside], np.float32), (3.0, 1.0, 0.35), pose=pose)
    assert indices(mapper.points()) == indices(np.array([beside]))


@pytest.mark.parametrize("what", ["points", "origin", "nan", "pose"])
def test_what_cannot_be_a_frame_is_the_callers_mistake(what: str) -> None:
    mapper = VoxelMapper()
    points = np.ones((4, 2)) if what == "points" else np.ones((4, 3))
    origin = {"origin": (0.0, 0.0), "nan": (0.0, math.nan, 0.0)}.get(what, (0.0, 0.0, 0.0))
    pose = Pose2D(math.inf, 0.0, 0.0) if what == "pose" else None
    with pytest.raises(ValueError):
        mapper.add_frame(points, origin, pose=pose)
    assert len(mapper) == 0


@pytest.mark.parametrize(
    "values",
    [
        {"voxel_size": 0.0},
        {"voxel_size": math.nan},
        {"max_voxels": 0},
        {"min_range": 2.0, "max_range": 1.0},
        {"max_range": math.inf},
        {"clear_range": -1.0},
        {"body_width": -0.1},
        {"carving": "raytrace"},
    ],
)
def test_values_out_of_bounds_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        VoxelMapper(**values)  # type: ignore[arg-type]


# line of sight


def test_a_noise_point_does_not_wipe_what_stands_in_its_column() -> None:
    shelf = box(2.0, 0.0, 0.3, 1.2)
    by_sight, by_column = VoxelMapper(carving="line_of_sight"), VoxelMapper()
    noise = np.array([[2.12, 0.12, 0.01]], np.float32)
    for mapper in (by_sight, by_column):
        mapper.add_frame(shelf, ORIGIN)
        mapper.add_frame(noise, (0.0, 0.1, 3.0))
    assert indices(shelf) <= indices(by_sight.points())
    assert len(indices(shelf) - indices(by_column.points())) == 23, "which carving by column does"


def test_a_person_who_left_is_gone_from_what_the_frames_see() -> None:
    lidar, walls = Lidar(elevations=RINGS, beams=720), room(6.0, 4.0)
    person = (2.8, 1.8, 0.0, 3.2, 2.2, 1.8)
    mapper = VoxelMapper(carving="line_of_sight", max_range=10.0)
    for _ in range(10):
        mapper.add_frame(*lidar.scan([*walls, person], 1.0, 2.0, noise=0.01))

    def of_person() -> int:
        p = mapper.points()
        near = (abs(p[:, 0] - 3.0) < 0.3) & (abs(p[:, 1] - 2.0) < 0.3) & (p[:, 2] > 0.1)
        return int(near.sum())

    assert of_person() > 60
    before = len(mapper)
    for seed in range(4):
        mapper.add_frame(*lidar.scan(walls, 1.0, 2.0, noise=0.01, seed=seed))
    assert of_person() == 0
    assert len(mapper) > 0.9 * before - 100, "the rest stayed"


def test_one_look_through_a_voxel_only_casts_doubt() -> None:
    mapper = VoxelMapper(carving=Carving.LINE_OF_SIGHT)
    thing, beyond = np.array([[2.01, 0.01, 0.31]]), np.array([[4.01, 0.01, 0.31]])
    origin = (0.01, 0.01, 0.31)
    mapper.add_frame(thing, origin)
    for _ in range(3):  # a hit in between takes the doubt away
        mapper.add_frame(beyond, origin)
        assert indices(thing) <= indices(mapper.points())
        mapper.add_frame(thing, origin)
    mapper.add_frame(beyond, origin)
    mapper.add_frame(beyond, origin)
    assert indices(mapper.points()) == indices(beyond)


def test_a_beam_that_met_nothing_clears_as_far_as_it_may() -> None:
    mapper = VoxelMapper(carving="line_of_sight", max_range=6.0, clear_range=4.0)
    origin = (0.01, 0.01, 0.31)
    mapper.add_frame(np.array([[2.01, 0.01, 0.31], [5.01, 0.01, 0.31]]), origin)
    for _ in range(2):
        mapper.add_frame(np.array([[90.0, 0.01, 0.31]]), origin)
    assert {v[0] for v in indices(mapper.points())} == {100}


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_walls_and_floor_stay_whole_while_beams_graze_them(noise: float) -> None:
    lidar, walls = Lidar(elevations=RINGS, beams=720), room(7.0, 3.0)
    kept, grown = VoxelMapper(carving="line_of_sight"), VoxelMapper(carving="none")
    for k in range(40):
        x = 1.0 + 0.1 * k
        frame = lidar.scan(walls, x, 1.5 + 0.3 * math.sin(k), yaw=0.05 * k, noise=noise, seed=k)
        kept.add_frame(*frame)
        grown.add_frame(*frame)
    columns = [{(v[0], v[1]) for v in indices(m.points())} for m in (kept, grown)]
    assert len(columns[0] & columns[1]) > 0.995 * len(columns[1])


def test_a_beam_clears_the_voxels_on_its_way_and_no_other() -> None:
    origin = np.array([0.013, -0.021, 0.31])
    low = np.array((-12, -12, -6))
    solid = (np.stack(np.meshgrid(*[np.arange(24)] * 3), -1).reshape(-1, 3) + low + 0.5) * 0.05
    mapper = VoxelMapper(carving="line_of_sight", min_range=0.0)
    for far in np.random.default_rng(4).uniform(-0.5, 0.5, (10, 3)):
        mapper.add_frame(solid, origin)
        whole = grid_of(mapper.points(), low)
        end = (far + origin).astype(np.float32).astype(np.float64)
        for _ in range(2):
            mapper.add_frame(end[None], origin)
        gone = whole & ~grid_of(mapper.points(), low)
        length = np.linalg.norm(end - origin)
        part = np.linspace(0.0, max(0.0, 1.0 - 0.05 / length), 3000)[:, None]
        on_the_way = grid_of(origin + (end - origin) * part, low)
        r, c, k = np.floor(end / 0.05).astype(int) - low
        on_the_way[max(0, r - 1) : r + 2, max(0, c - 1) : c + 2, max(0, k - 1) : k + 2] = False
        assert not np.any(on_the_way & whole & ~gone)
        assert np.sum(gone & ~on_the_way) <= 2, "what a sampled line misses at a corner"


def grid_of(points: NDArray[np.floating], low: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the voxels that hold points, of the 24 x 24 x 24 from `low`."""
    grid = np.zeros((24, 24, 24), np.bool_)
    k = np.floor(points.astype(np.float64) / 0.05).astype(int) - low
    k = k[np.all((k >= 0) & (k < 24), axis=1)]
    grid[tuple(k.T)] = True
    return grid


# the bound


def test_the_bound_holds_and_the_oldest_go_first() -> None:
    mapper = VoxelMapper(max_voxels=4000)
    frames = [box(8.0 * k, 0.0, 0.5, 0.5) for k in range(9)]
    for k, frame in enumerate(frames):
        mapper.add_frame(frame, (8.0 * k - 1.0, 0.0, 0.3))
        assert len(mapper) <= 4000
    known = indices(mapper.points())
    kept = [len(indices(f) & known) / len(indices(f)) for f in frames]
    assert kept[0] == 0.0 and kept[-1] == kept[-2] == kept[-3] == 1.0
    assert kept == sorted(kept)
    assert mapper.evictions > 0
    assert mapper.evicted_voxels == 9000 - len(mapper)


def test_of_one_frame_that_is_too_large_the_farthest_go() -> None:
    mapper = VoxelMapper(max_voxels=500, min_range=0.0)
    x = np.arange(0.025, 45.0, 0.05)
    mapper.add_frame(np.stack([x, 0.01 + 0 * x, 0.3 + 0 * x], 1), ORIGIN)
    assert len(mapper) == 500
    assert mapper.points()[:, 0].max() < 25.1
    assert mapper.evicted_voxels == 400


def test_scattered_voxels_do_not_take_more_bricks_than_there_are() -> None:
    mapper = VoxelMapper(max_voxels=8192)
    for k in range(4):
        rng = np.random.default_rng(k)
        points = rng.uniform(-40.0, 40.0, (3000, 3)) * (1.0, 1.0, 0.5)
        mapper.add_frame(points, (0.0, 0.0, 0.3))
        known = indices(mapper.points())
        inside = points[np.linalg.norm(points - (0.0, 0.0, 0.3), axis=1) < 50.0]
        assert len(known) == len(mapper) <= 8192
        assert len(indices(inside) - known) <= mapper.refused_points
    assert mapper.evicted_voxels > 0 and mapper.refused_points == 0


def test_a_frame_that_is_wider_than_all_bricks_is_refused_in_part() -> None:
    mapper = VoxelMapper(max_voxels=4096)
    rng = np.random.default_rng(1)
    mapper.add_frame(rng.uniform(-28.0, 28.0, (9000, 3)), (0.0, 0.0, 0.0))
    assert 0 < len(mapper) <= 4096
    assert mapper.refused_points > 1000


# what changed


def test_the_window_holds_every_change_and_is_taken_once() -> None:
    mapper = VoxelMapper()
    assert mapper.take_changed().is_empty
    for seed in range(5):
        before = indices(mapper.points())
        mapper.add_frame(cloud(seed, 200), ORIGIN)
        changed = before ^ indices(mapper.points())
        window = mapper.take_changed()
        rows, cols = {v[1] for v in changed}, {v[0] for v in changed}
        assert window == CellWindow(min(rows), max(rows) + 1, min(cols), max(cols) + 1)
        assert mapper.take_changed().is_empty and not mapper.has_changed


def test_the_same_frame_again_is_no_change() -> None:
    mapper = VoxelMapper()
    mapper.add_frame(cloud(2), ORIGIN)
    mapper.take_changed()
    mapper.take_bricks()
    mapper.add_frame(cloud(2)[::-1], ORIGIN)
    assert not mapper.has_changed
    assert len(mapper.take_bricks().place) == 0


@pytest.mark.parametrize("carving", list(Carving))
def test_a_reader_of_changed_bricks_has_the_map(carving: Carving) -> None:
    mapper = VoxelMapper(carving=carving, max_voxels=3000)
    known: dict[Voxel, Points] = {}
    for k in range(14):
        mapper.add_frame(cloud(k, 500) + np.float32(2.0 * (k % 6)), (2.0 * (k % 6), 0.0, 0.3))
        if k % 3 == 0:
            mirrored(known, mapper.take_bricks())
            assert all_points(known) == indices(mapper.points())
    assert mapper.evictions > 0


def test_a_publication_costs_what_changed() -> None:
    mapper = VoxelMapper()
    for k in range(20):
        mapper.add_frame(cloud(k) + np.float32(6 * k), (6.0 * k, 6.0 * k, 0.3 + 6 * k))
    whole = mapper.take_bricks()
    mapper.add_frame(np.array([[1.0, 1.0, 0.3]]), ORIGIN)
    update = mapper.take_bricks()
    assert 1 <= len(update.place) <= 4 < len(whole.place)
    assert update.words.shape == (len(update.place), COLUMNS)
    assert not update.words.flags.writeable and not update.place.flags.writeable


def test_bricks_lie_in_the_message_where_they_lie_in_the_map() -> None:
    mapper = VoxelMapper()
    mapper.add_frame(np.array([[-0.01, 0.81, 2.41]]), ORIGIN)
    update = mapper.take_bricks()
    assert np.allclose(centres(update.place, update.words), [[-0.025, 0.825, 2.425]])


# kept and taken over


@pytest.mark.parametrize("carving", list(Carving))
def test_a_state_comes_back_as_the_same_map(carving: Carving, tmp_path: Path) -> None:
    first = VoxelMapper(carving=carving)
    for seed in range(5):
        first.add_frame(cloud(seed), ORIGIN)
    save_checkpoint(tmp_path / "voxels.npz", first.state())
    second = VoxelMapper(carving=carving)
    second.add_frame(cloud(77) + np.float32(5.0), (5.0, 5.0, 5.0))
    known: dict[Voxel, Points] = {}
    mirrored(known, second.take_bricks())
    second.restore(load_checkpoint(tmp_path / "voxels.npz"))
    assert indices(second.points()) == indices(first.points())
    assert len(second) == len(first)
    mirrored(known, second.take_bricks())
    assert all_points(known) == indices(first.points())
    extent = second.take_changed()
    assert extent.united(second.extent) == extent
    if carving is not Carving.LINE_OF_SIGHT:  # doubts are not kept
        for mapper in (first, second):
            mapper.add_frame(cloud(99), ORIGIN)
        assert indices(second.points()) == indices(first.points())


def test_a_restored_map_still_knows_which_part_is_oldest() -> None:
    first = VoxelMapper(max_voxels=4000)
    for k in range(4):
        first.add_frame(box(8.0 * k, 0.0, 0.5, 0.45), (8.0 * k - 1.0, 0.0, 0.3))
    second = VoxelMapper(max_voxels=4000)
    second.restore(first.state())
    second.add_frame(box(0.0, 8.0, 0.5, 0.5), (0.0, 7.0, 0.3))
    known = indices(second.points())
    assert not indices(box(0.0, 0.0, 0.5, 0.45)) <= known
    assert indices(box(24.0, 0.0, 0.5, 0.45)) <= known


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s.pop("words"),
        lambda s: s.update(voxel_size=np.array(0.1)),
        lambda s: s.update(version=np.array(99)),
        lambda s: s.update(words=s["words"][:, :100]),
        lambda s: s.update(words=s["words"].astype(np.int64)),
        lambda s: s.update(place=s["place"][:, :2]),
        lambda s: s.update(place=np.zeros_like(s["place"])),
        lambda s: s.update(place=s["place"] + np.int32(2**30)),
        lambda s: s.update(age=s["age"][:-1]),
        lambda s: s.update(eye=s["eye"].astype(np.int64)),
        lambda s: s.update(age=s["age"].astype(np.float64)),
        lambda s: s.update(version=np.zeros(3)),
    ],
)
def test_a_damaged_state_is_refused_and_the_map_stays(damage: object) -> None:
    mapper = VoxelMapper()
    mapper.add_frame(cloud(1), ORIGIN)
    state = mapper.state()
    damage(state)  # type: ignore[operator]
    before = indices(mapper.points())
    with pytest.raises(StorageError):
        mapper.restore(state)
    assert indices(mapper.points()) == before


def test_a_state_beyond_the_bound_is_refused() -> None:
    large, small = VoxelMapper(), VoxelMapper(max_voxels=100)
    large.add_frame(cloud(1), ORIGIN)
    with pytest.raises(StorageError, match="max_voxels"):
        small.restore(large.state())


# the robot's own messages


@pytest.mark.skipif(not NAMES, reason=f"no vectors in {VECTORS}: set RHINO_SHARED")
@pytest.mark.parametrize("carving", list(Carving))
@pytest.mark.parametrize("name", NAMES or ["none"])
def test_a_message_of_the_robot_is_in_the_map_voxel_by_voxel(name: str, carving: Carving) -> None:
    message = read_voxel_message((VECTORS / f"{name}.bin").read_bytes())
    points = message.points()
    # Some lattices have their centres on our edges: these belong to the voxel above.
    expected = indices(points.astype(np.float64) + 1e-5)
    mapper = VoxelMapper(carving=carving, min_range=0.0)
    for _ in range(2):  # a frame never removes its own voxels
        assert mapper.add_frame(points, (0.0, 0.0, 0.35)) == len(points)
        assert len(mapper) == len(points), "no two of its voxels share one"
        assert indices(mapper.points()) == expected
