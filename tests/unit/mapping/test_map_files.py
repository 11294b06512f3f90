"""Maps on disk: the bytes that map_server expects, and files that nobody should trust."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from rhino_actors.errors import StorageError
from rhino_actors.mapping import load_map, save_map
from rhino_actors.messages.grid import GridGeometry
from tests.maps import parse

GEOMETRY = GridGeometry(0.05, (-1.6, 3.2), (3, 4))
DRAWN = parse(
    """
    #..?
    ?..#
    ....
    """
).occupancy


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save_map(tmp_path / "room.yaml", DRAWN, GEOMETRY)


def edit(saved: Path, **fields: object) -> Path:
    """Change fields of the description; None takes one out."""
    tree = yaml.safe_load(saved.read_text())
    tree.update(fields)
    saved.write_text(yaml.safe_dump({k: v for k, v in tree.items() if v is not None}))
    return saved


def test_map_comes_back_as_it_was(saved: Path) -> None:
    occupancy, geometry = load_map(saved)

    assert np.array_equal(occupancy, DRAWN)
    assert geometry == GEOMETRY


@pytest.mark.parametrize("seed", range(3))
def test_three_classes_survive_any_number_of_round_trips(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(1, 60)), int(rng.integers(1, 60)))
    grid = rng.integers(-1, 101, shape).astype(np.int8)
    geometry = GridGeometry(float(rng.uniform(0.01, 0.3)), tuple(rng.normal(0, 50, 2)), shape)
    classes = np.where(grid >= 65, 100, np.where((grid >= 0) & (grid <= 19), 0, -1))

    for _ in range(2):
        grid, geometry_back = load_map(save_map(tmp_path / "map", grid, geometry))
        assert np.array_equal(grid, classes)
        assert geometry_back == geometry


def test_files_are_what_map_server_reads(saved: Path) -> None:
    tree = yaml.safe_load(saved.read_text())
    image = cv2.imread(str(saved.with_name(tree["image"])), cv2.IMREAD_UNCHANGED)

    assert tree == {
        "image": "room.pgm",
        "mode": "trinary",
        "resolution": 0.05,
        "origin": [-1.6, 3.2, 0.0],
        "negate": 0,
        "occupied_thresh": 0.65,
        "free_thresh": 0.196,
    }
    assert image.tolist() == [[0, 254, 254, 205], [205, 254, 254, 0], [254] * 4], "top row is max y"


def test_name_without_ending_and_name_with_dots_are_taken(tmp_path: Path) -> None:
    written = save_map(tmp_path / "office.v2", DRAWN, GEOMETRY)

    assert written == tmp_path / "office.v2.yaml"
    assert (tmp_path / "office.v2.pgm").exists()
    assert np.array_equal(load_map(tmp_path / "office.v2")[0], DRAWN)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["office.v2.pgm", "office.v2.yaml"]


def test_map_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be written"):
        save_map(tmp_path / "missing" / "room.yaml", DRAWN, GEOMETRY)
    with pytest.raises(ValueError, match="differ"):
        save_map(tmp_path / "room.yaml", DRAWN[:2], GEOMETRY)


def test_inverted_and_ranged_images_are_read(saved: Path) -> None:
    saved.with_suffix(".pgm").write_bytes(
        b"P5 # made by hand\n# more\n2 2\n# and more\n100\n\x64\x00\x50\x63"
    )

    assert load_map(saved)[0].tolist() == [[-1, 0], [0, 100]]
    assert load_map(edit(saved, negate=1))[0].tolist() == [[100, 100], [100, 0]]


def test_grey_read_with_the_map_servers_other_threshold_is_free(saved: Path) -> None:
    """The trap of free_thresh 0.25: the same pixel means something else, and the file decides."""
    assert load_map(edit(saved, free_thresh=0.25))[0].min() == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"resolution": None},
        {"image": None},
        {"origin": None},
        {"negate": None},
        {"occupied_thresh": None},
        {"free_thresh": None},
        {"resolution": 0},
        {"resolution": -0.05},
        {"resolution": float("nan")},
        {"resolution": "wide"},
        {"resolution": 10**400},
        {"resolution": [0.05]},
        {"origin": [0.0, 0.0]},
        {"origin": [0.0, 0.0, 0.1]},
        {"origin": [0.0, float("inf"), 0.0]},
        {"origin": "here"},
        {"free_thresh": 0.7},
        {"occupied_thresh": 1.5},
        {"mode": "raw"},
        {"image": ""},
        {"image": 7},
        {"image": "gone.pgm"},
        {"image": "."},
        {"image": "a\0b.pgm"},
        {"image": "room.yaml"},
    ],
)
def test_description_that_makes_no_sense_is_refused(saved: Path, fields: dict[str, object]) -> None:
    with pytest.raises(StorageError):
        load_map(edit(saved, **fields))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n- b",
        "image: [",
        "resolution: 2001-99-99",
        "\x00",
        "a: &a [*a]",
        "[" * 5000,
        "x" * 70_000,
    ],
)
def test_file_that_is_not_a_description_is_refused(saved: Path, text: str) -> None:
    saved.write_text(text)
    with pytest.raises(StorageError):
        load_map(saved)


def test_binary_noise_is_refused(saved: Path) -> None:
    saved.write_bytes(bytes(range(256)) * 8)
    with pytest.raises(StorageError):
        load_map(saved)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"P5",
        b"P2\n2 2\n255\n0 0 0 0",
        b"\x89PNG\r\n\x1a\n",
        b"P5\n2 2\n255\n\x00\x00\x00",
        b"P5\n2 2\n65535\n" + bytes(8),
        b"P5\n0 2\n255\n",
        b"P5\n-2 2\n255\n" + bytes(9),
        b"P5\n100000 100000\n255\n" + bytes(9),
        b"P5\n9999999999999999999999 1\n255\n" + bytes(9),
        b"P5\n2 2\n0\n" + bytes(9),
        b"P5\n2 x\n255\n" + bytes(9),
        b"P5\n#" + b"#" * 9000,
        b"P5" + b" " * 9000 + b"2 2\n255\n" + bytes(4),
    ],
)
def test_image_that_is_not_a_map_is_refused(saved: Path, content: bytes) -> None:
    saved.with_suffix(".pgm").write_bytes(content)
    with pytest.raises(StorageError):
        load_map(saved)


def test_map_larger_than_asked_for_is_refused(saved: Path) -> None:
    assert load_map(saved, max_cells=12)[0].size == 12
    with pytest.raises(StorageError, match="more than 11"):
        load_map(saved, max_cells=11)


def test_image_outside_the_maps_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "maps"
    folder.mkdir()
    saved = save_map(folder / "room", DRAWN, GEOMETRY)
    outside = tmp_path / "secret.pgm"
    outside.write_bytes(saved.with_suffix(".pgm").read_bytes())
    (folder / "link.pgm").symlink_to(outside)

    for name in ("../secret.pgm", str(outside), "link.pgm"):
        with pytest.raises(StorageError, match="outside"):
            load_map(edit(saved, image=name))


def test_pipe_or_folder_in_place_of_a_file_is_refused_at_once(saved: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pgm")
    with pytest.raises(StorageError):
        load_map(edit(saved, image="pipe.pgm"))
    with pytest.raises(StorageError):
        load_map(tmp_path)
    with pytest.raises(StorageError):
        load_map(tmp_path / "none.yaml")
