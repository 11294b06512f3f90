"""`rhino poi ...` against the server, with the real store behind it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from rhino_actors import cli
from rhino_actors.actors.poi_store import PoiStore
from rhino_actors.cli import api
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import RhinoError
from tests.api.world import World


class Terminal:
    """Runs `rhino poi`; what it asks of the API goes to the server of the test."""

    def run(self, *words: str) -> str:
        done = CliRunner().invoke(cli.app, ["poi", *words])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.output

    def refused(self, *words: str) -> RhinoError:
        with pytest.raises(RhinoError) as caught:
            self.run(*words)
        assert caught.value.message and caught.value.hint
        return caught.value

    def labels(self, client: TestClient) -> list[str]:
        return [poi["label"] for poi in client.get("/api/pois").json()]


@pytest.fixture
def terminal(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Terminal]:
    def request(method: str, url: str, **more: Any) -> Any:
        more.pop("timeout")
        return client.request(method, url, **more)

    monkeypatch.setenv("RHINO_URL", "http://localhost:8000")
    monkeypatch.setattr(api.httpx2, "request", request)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    store = PoiStore(RhinoConfig())
    world.pois = store  # type: ignore[assignment]
    yield Terminal()
    assert client.portal is not None
    client.portal.call(store._database.close)


def test_places_are_added_renamed_moved_and_deleted(terminal: Terminal, client: TestClient) -> None:
    assert re.fullmatch(r"[0-9a-f-]{36}\n", terminal.run("add", "door", "3.5", "-1"))
    terminal.run("add", "here")
    terminal.run("rename", "door", "front door 🐶")
    terminal.run("move", "front door 🐶", "-2", "0.5", "0.25")
    door, here = client.get("/api/pois").json()
    assert (door["label"], door["x"], door["y"], door["z"]) == ("front door 🐶", -2.0, 0.5, 0.25)
    assert (here["x"], here["y"]) == (1.0, 2.0)
    terminal.run("move", door["id"][:8], "7", "8")
    assert client.get("/api/pois").json()[0]["z"] == 0.25
    terminal.run("delete", "here")
    assert terminal.labels(client) == ["front door 🐶"]
    assert "front door 🐶" in terminal.run("list")
    assert terminal.refused("rename", "here", "x").code == "POI_NOT_FOUND"
    assert terminal.refused("rename", "front door 🐶", " ").code == "INVALID_LABEL"
    assert terminal.refused("add", "half", "1").code == "INVALID_REQUEST"


def test_places_are_put_in_order(terminal: Terminal, client: TestClient) -> None:
    for label in "abcd":
        terminal.run("add", label, "1", "1")
    terminal.run("order", "d", "b")
    assert terminal.labels(client) == ["d", "b", "a", "c"]
    assert terminal.refused("order", "a", "a").code == "POI_LIST_CHANGED"


@pytest.mark.parametrize("name", ["places.csv", "places.GeoJSON", "places.json"])
def test_places_go_to_a_file_and_come_back(
    terminal: Terminal, client: TestClient, name: str
) -> None:
    terminal.run("add", "=1+1", "0.1", "-1e-9")
    terminal.run("add", "door", "3", "4")
    before = client.get("/api/pois").json()
    terminal.run("export", name)
    assert terminal.refused("export", name).code == "INVALID_REQUEST"
    terminal.run("export", name, "--force")
    for poi in before:
        terminal.run("delete", poi["id"])
    assert terminal.run("import", name).startswith("2 places from ")
    assert client.get("/api/pois").json() == before
    assert terminal.refused("export", "places.txt").code == "INVALID_REQUEST"


def test_a_bad_file_changes_nothing_and_its_line_is_named(
    terminal: Terminal, client: TestClient
) -> None:
    Path("bad.csv").write_text("label,x,y\ndoor,1,2\nwall,one,2\n")
    error = terminal.refused("import", "bad.csv")
    assert error.code == "POI_FILE_INVALID" and error.message.startswith("Line 3: ")
    assert terminal.labels(client) == []


def test_imported_places_may_be_put_onto_the_map_that_runs(
    terminal: Terminal, client: TestClient
) -> None:
    other = "22222222-2222-4222-8222-222222222222"
    Path("moved.csv").write_text(f"label,x,y,map_id\ndoor,1,2,{other}\n")
    assert other in terminal.refused("import", "moved.csv").message
    terminal.run("import", "moved.csv", "--onto-running-map")
    assert client.get("/api/pois").json()[0]["map_id"] is None
