"""`rhino map ...` against the server, with the real store behind it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from rhino_actors import cli
from rhino_actors.actors.poi_store import PoiStore
from rhino_actors.cli import api, maps
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import RhinoError
from rhino_actors.mapping import decode_files, known_part, load_map, save_map, unpack_zip
from rhino_actors.messages.geometry import Pose2D
from tests.api.world import World, snapshot_content


class Terminal:
    """Runs commands; what they ask of the API goes to the server of the test."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._runner = CliRunner()

    def run(self, *words: str) -> str:
        """Return what a command printed. Raises what it raised."""
        done = self._runner.invoke(cli.app, ["map", *words])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    def refused(self, *words: str) -> RhinoError:
        with pytest.raises(RhinoError) as caught:
            self.run(*words)
        assert caught.value.message and caught.value.hint
        return caught.value


@pytest.fixture
def terminal(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Terminal]:
    def request(method: str, url: str, **more: Any) -> Any:
        more.pop("timeout")
        return client.request(method, url, **more)

    monkeypatch.setenv("RHINO_URL", "http://localhost:8000")
    monkeypatch.setattr(api.httpx2, "request", request)
    monkeypatch.setattr(api.console, "width", 200, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    store = PoiStore(RhinoConfig())
    world.pois = store  # type: ignore[assignment]
    yield Terminal(world)
    assert client.portal is not None
    client.portal.call(store._database.close)


def test_a_map_goes_out_and_comes_back(terminal: Terminal, tmp_path: Path) -> None:
    said = terminal.run("save", "office 🐶")
    assert "saved office 🐶: 3.0 x 1.0 m, 3.0 m2 known" in said
    assert "wrote office.zip" in terminal.run("export", "office 🐶", "office.zip")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["office.zip"]
    content = decode_files(unpack_zip((tmp_path / "office.zip").read_bytes()))
    assert np.array_equal(content.occupancy, known_part(snapshot_content()).occupancy)

    assert "imported office:" in terminal.run("import", "office.zip")
    assert "imported lab:" in terminal.run("import", "office.zip", "--name", "lab")
    listed = terminal.run("list")
    marks = re.findall(r"│ (\*| ) +│ (office 🐶|office|lab) ", listed)
    assert marks == [("*", "office 🐶"), (" ", "office"), (" ", "lab")], listed
    assert "lab is now hall" in terminal.run("rename", "lab", "hall")
    assert "deleted hall" in terminal.run("delete", "hall")
    assert "hall" not in terminal.run("list")


def test_a_ros_map_is_imported_by_its_yaml(terminal: Terminal, tmp_path: Path) -> None:
    whole = snapshot_content()
    save_map(tmp_path / "ros.yaml", whole.occupancy, whole.geometry)
    assert "imported ros:" in terminal.run("import", "ros.yaml")
    terminal.run("export", "ros", "back.zip")
    files = unpack_zip((tmp_path / "back.zip").read_bytes())
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    occupancy, geometry = load_map(tmp_path / "map.yaml")
    assert geometry == whole.geometry and np.array_equal(occupancy, whole.occupancy)


@pytest.mark.parametrize(
    ("at", "pose"), [((), None), (("--at", "1.5", "-2", "0.5"), Pose2D(1.5, -2.0, 0.5))]
)
def test_a_map_is_loaded_by_its_name(
    terminal: Terminal, at: tuple[str, ...], pose: Pose2D | None
) -> None:
    terminal.run("save", "office")
    said = terminal.run("load", "Office", *at)
    assert "loaded office" in said and ("--at X Y YAW" in said) == (pose is None)
    ((content, given),) = terminal.world.mapper.loaded
    assert given == pose
    assert np.array_equal(content.occupancy, known_part(snapshot_content()).occupancy)


def test_a_map_is_found_by_its_id_and_by_its_beginning(terminal: Terminal) -> None:
    map_id = re.search(r"id ([0-9a-f-]{36})", terminal.run("save", "office"))
    assert map_id is not None
    terminal.run("load", map_id[1])
    terminal.run("load", map_id[1][:8])
    assert len(terminal.world.mapper.loaded) == 2


def test_a_name_that_is_not_there_lists_those_that_are(terminal: Terminal) -> None:
    terminal.run("save", "office")
    for words in (
        ("load", "ofice"),
        ("export", "ofice", "x.zip"),
        ("delete", ""),
        ("rename", "x", "y"),
    ):
        error = terminal.refused(*words)
        assert error.code == "MAP_NOT_FOUND" and "office" in error.hint
    assert terminal.world.mapper.loaded == []


def test_what_the_server_refuses_is_said_with_its_hint(terminal: Terminal) -> None:
    terminal.run("save", "office")
    assert terminal.refused("save", "office").code == "MAP_NAME_TAKEN"
    assert terminal.refused("save", " ").code == "INVALID_LABEL"


def test_a_map_with_places_needs_force(terminal: Terminal, client: TestClient) -> None:
    terminal.run("save", "office")
    client.post("/api/pois", json={"label": "door", "x": 1, "y": 2})
    assert terminal.refused("delete", "office").code == "MAP_IN_USE"
    terminal.run("delete", "office", "--force")
    assert client.get("/api/pois").json() == []


def test_files_that_are_no_map_are_refused_by_name(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "bad.zip").write_bytes(b"no zip")
    (tmp_path / "bad.yaml").write_text("image: ../secret.pgm")
    (tmp_path / "folder.zip").mkdir()
    for name in ("bad.zip", "bad.yaml", "folder.zip", "missing.zip", "missing.yaml"):
        assert terminal.refused("import", name).code == "MAP_FILE_INVALID"
    with (tmp_path / "huge.zip").open("wb") as file:
        file.truncate(maps.MAX_UPLOAD_BYTES + 1)
    assert terminal.refused("import", "huge.zip").code == "MAP_TOO_LARGE"


def test_an_export_writes_over_nothing_unless_forced(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run("save", "office")
    (tmp_path / "x.zip").write_bytes(b"mine")
    assert "--force" in terminal.refused("export", "office", "x.zip").hint
    assert (tmp_path / "x.zip").read_bytes() == b"mine"
    terminal.run("export", "office", "x.zip", "--force")
    assert (tmp_path / "x.zip").read_bytes().startswith(b"PK")
    assert "cannot be written" in terminal.refused("export", "office", "none/x.zip").message
