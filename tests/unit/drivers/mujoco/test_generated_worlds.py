"""Office, warehouse and maze: fit to be judged in, for every seed; and worlds made from a ROS map."""

import hashlib
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rhino_actors.drivers.mujoco.worlds import GENERATOR_VERSION, from_ros_map, make_world
from rhino_actors.drivers.mujoco.worlds.draws import MIN_REACHABLE, untagged_pocket_area
from rhino_actors.drivers.mujoco.worlds.export import export, picture
from rhino_actors.drivers.mujoco.worlds.scene import TruthGrid, World
from rhino_actors.errors import ConfigError
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN

SIZES = {"office": (30.0, 20.0), "warehouse": (40.0, 25.0), "maze": (20.0, 14.0)}
PEOPLE = {"office": 3, "warehouse": 2, "maze": 4}
CASES = [(name, seed) for name in SIZES for seed in range(2)]
WORLDS = {case: make_world(*case) for case in CASES}


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest) -> tuple[str, int]:
    found: tuple[str, int] = request.param
    return found


@pytest.fixture
def world(case: tuple[str, int]) -> World:
    return WORLDS[case]


def at(truth: TruthGrid, x: float, y: float) -> int:
    return int(truth.occupancy[truth.geometry.cell_from_world(x, y)])


def test_a_seed_gives_the_same_world_and_another_seed_another(
    case: tuple[str, int], world: World
) -> None:
    name, seed = case
    assert make_world(name, seed) == world
    assert make_world(name, seed + 1).boxes != world.boxes


def test_another_process_generates_the_same_worlds() -> None:
    def digest(name: str) -> str:
        return hashlib.sha256(repr(WORLDS[name, 0]).encode()).hexdigest()

    script = (
        "import hashlib; from rhino_actors.drivers.mujoco.worlds import make_world; "
        f"print(*(hashlib.sha256(repr(make_world(n, 0)).encode()).hexdigest() for n in {list(SIZES)}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(__file__).resolve().parents[4])},
    )
    assert found.stdout.split() == [digest(name) for name in SIZES]


def test_it_has_its_size_and_most_of_its_floor_can_be_reached(world: World) -> None:
    x_min, y_min, x_max, y_max = world.interior
    assert (x_max - x_min, y_max - y_min) == pytest.approx(SIZES[world.name])
    truth = world.truth_grid()
    assert truth.reachable_area >= MIN_REACHABLE * truth.free_area
    assert truth.reachable[truth.geometry.cell_from_world(0.0, 0.0)]
    assert truth.reachable[truth.geometry.cell_from_world(1.0, 0.0)]


def test_it_is_closed_all_around(world: World) -> None:
    occupancy = world.truth_grid().occupancy
    for edge in (occupancy[1], occupancy[-2], occupancy[:, 1], occupancy[:, -2]):
        assert np.all(edge[1:-1] != FREE)


def test_the_one_trap_is_tagged_and_there_is_no_other(world: World) -> None:
    (trap,) = world.traps
    assert 0.45 <= trap.width <= 0.55
    assert untagged_pocket_area(world) < 0.3
    x_min, y_min, x_max, y_max = trap.pocket
    inside = ((x_min + x_max) / 2.0, (y_min + y_max) / 2.0)

    def is_reached(radius: float) -> bool:
        truth = world.truth_grid(robot_radius=radius)
        return bool(truth.reachable[truth.geometry.cell_from_world(*inside)])

    assert is_reached(0.20) and not is_reached(0.30)


def test_people_walk_where_there_is_floor_and_leave_the_start_alone(world: World) -> None:
    assert len(world.people) == PEOPLE[world.name]
    truth = world.truth_grid(min_height=0.03, max_height=1.75)
    for walk in world.people:
        loop = [*walk.points, walk.points[0]]
        for (ax, ay), (bx, by) in zip(loop, loop[1:], strict=False):
            for share in np.linspace(
                0.0, 1.0, max(2, math.ceil(math.dist((ax, ay), (bx, by)) / 0.05))
            ):
                x, y = ax + share * (bx - ax), ay + share * (by - ay)
                assert at(truth, x, y) == FREE
                assert math.hypot(x, y) > 1.2


def test_names_of_boxes_are_unique(world: World) -> None:
    names = [box.name for box in world.boxes]
    assert len(names) == len(set(names))
    assert {box.material for box in world.boxes} <= {"", *(m.name for m in world.materials)}


def test_people_can_be_left_out() -> None:
    assert make_world("maze", 0, people=False).people == ()


def test_the_export_says_all_that_a_score_needs(world: World, tmp_path: Path) -> None:
    export(tmp_path / "truth.npz", world, GENERATOR_VERSION)
    saved = np.load(tmp_path / "truth.npz")
    truth = world.truth_grid(robot_radius=float(saved["robot_radius"]))
    assert np.array_equal(saved["occupancy"], truth.occupancy)
    assert np.array_equal(saved["reachable"], truth.reachable)
    assert tuple(saved["origin"]) == truth.geometry.origin
    assert (str(saved["name"]), int(saved["seed"])) == (world.name, world.seed)
    assert int(saved["generator_version"]) == GENERATOR_VERSION
    assert np.array_equal(saved["walk_0"], np.array(world.people[0].points))
    assert len(saved["walk_speed"]) == len(world.people)
    drawn = picture(world)
    assert drawn.shape == (2 * truth.geometry.shape[0], 2 * truth.geometry.shape[1], 3)


# a world from a ROS map

ROOM = [
    "????????????????????",
    "?##################?",
    "?#................#?",
    "?#................#?",
    "?#......##........#?",
    "?#......##........#?",
    "?#................#?",
    "?#................??",
    "?#................#?",
    "?##################?",
    "????????????????????",
]
SHADES = {"#": 0, ".": 254, "?": 205}


def ros_map(
    folder: Path, rows: list[str] | None = None, *, scale: int = 4, **fields: object
) -> Path:
    pixels = np.array([[SHADES[c] for c in row] for row in rows or ROOM], np.uint8)
    pixels = np.kron(pixels, np.ones((scale, scale), np.uint8))
    header = f"P5\n# made for a test\n{pixels.shape[1]} {pixels.shape[0]}\n255\n"
    (folder / "home.pgm").write_bytes(header.encode() + pixels.tobytes())
    values: dict[str, object] = {
        "image": "home.pgm",
        "resolution": 0.05,
        "origin": [-1.0, -1.0, 0.0],
        "negate": 0,
        "occupied_thresh": 0.65,
        "free_thresh": 0.196,
        **fields,
    }
    path = folder / "home.yaml"
    path.write_text("\n".join(f"{key}: {value}" for key, value in values.items()))
    return path


def test_a_ros_map_becomes_walls_where_it_is_black(tmp_path: Path) -> None:
    world = make_world(str(ros_map(tmp_path)), 0)
    truth = world.truth_grid()
    # The map's origin is clear floor, so odom and map agree.
    assert world.start == pytest.approx((0.0, 0.0), abs=0.03)
    dx, dy = world.start
    # Rows from the top: row 4 of the text, columns 8 and 9, is the block.
    block = (-1.0 + 8.9 * 0.2 - dx, -1.0 + (11 - 4.6) * 0.2 - dy)
    assert at(truth, *block) == OCCUPIED
    assert at(truth, block[0] - 0.4, block[1]) == FREE
    # 16 x 7 cells of 0.2 m of floor, less the block.
    assert truth.free_area == pytest.approx((16 * 7 - 4) * 0.04, abs=0.15)


def test_unknown_beside_free_floor_of_a_ros_map_is_wall(tmp_path: Path) -> None:
    world = from_ros_map(ros_map(tmp_path))
    truth = world.truth_grid()
    dx, dy = world.start
    gap = (-1.0 + 18.1 * 0.2 - dx, -1.0 + 3.5 * 0.2 - dy)
    assert at(truth, *gap) in (OCCUPIED, UNKNOWN)
    assert not np.any(truth.reachable[:, 0]) and not np.any(truth.reachable[:, -1])


def test_a_ros_map_whose_origin_is_elsewhere_starts_on_its_floor(tmp_path: Path) -> None:
    world = from_ros_map(ros_map(tmp_path, origin=[50.0, -20.0, 0.0]))
    truth = world.truth_grid(robot_radius=0.35)
    assert truth.reachable[truth.geometry.cell_from_world(0.0, 0.0)]
    assert world.start[0] > 50.0 and world.start[1] < -17.0


def test_a_map_that_needs_too_many_boxes_is_made_coarser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = from_ros_map(ros_map(tmp_path))
    monkeypatch.setattr("rhino_actors.drivers.mujoco.worlds.ros_map.MAX_BOXES", len(fine.boxes) - 1)
    coarse = from_ros_map(ros_map(tmp_path))
    assert len(coarse.boxes) < len(fine.boxes)
    assert coarse.truth_grid().free_area == pytest.approx(fine.truth_grid().free_area, rel=0.2)


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "none.pgm"},
        {"resolution": 0},
        {"resolution": "wide"},
        {"origin": "[1, 2]"},
        {"origin": [0.0, 0.0, 0.5]},
        {"origin": [".nan", 0.0, 0.0]},
    ],
    ids=repr,
)
def test_a_map_that_cannot_be_used_is_a_config_error(
    tmp_path: Path, fields: dict[str, object]
) -> None:
    with pytest.raises(ConfigError):
        from_ros_map(ros_map(tmp_path, **fields))


@pytest.mark.parametrize(
    "content", [b"", b"P5", b"P2\n2 2\n255\n0000", b"P5\n4 4\n255\nxx", b"P5\n-1 4\n255\n", b"P5 #"]
)
def test_a_damaged_image_is_a_config_error(tmp_path: Path, content: bytes) -> None:
    path = ros_map(tmp_path)
    (tmp_path / "home.pgm").write_bytes(content)
    with pytest.raises(ConfigError):
        from_ros_map(path)


def test_a_map_without_clear_floor_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="clear space"):
        from_ros_map(ros_map(tmp_path, ["####", "#..#", "####"], scale=2))


def test_a_missing_map_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        make_world(str(tmp_path / "nowhere.yaml"), 0)
