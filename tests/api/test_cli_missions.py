"""`rhino explore`, `patrol` and `missions` against the server."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from rhino_actors import cli
from rhino_actors.cli import api, missions
from rhino_actors.errors import RhinoError
from rhino_actors.messages.missions import (
    MissionKind,
    MissionState,
    PatrolPoint,
    PatrolRouter,
    SkippedTarget,
)
from tests.api.test_missions import RECORD
from tests.api.world import World


class Terminal:
    """Runs commands; `then` is called instead of each wait between two looks."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.waits = 0
        self.then: list[Any] = []
        self._runner = CliRunner()

    def sleep(self, _: float) -> None:
        self.waits += 1
        if self.then:
            self.then.pop(0)()

    def run(self, *words: str, code: int = 0) -> str:
        done = self._runner.invoke(cli.app, list(words))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == code, done.output
        return done.output

    def refused(self, *words: str) -> RhinoError:
        with pytest.raises(RhinoError) as caught:
            self.run(*words)
        assert caught.value.message and caught.value.hint
        return caught.value

    def end(self, state: MissionState, message: str = "It is over.", **more: Any) -> None:
        explorer = self.world.explorer
        explorer.mission = replace(explorer.mission, state=state, message=message, **more)


@pytest.fixture
def terminal(
    client: TestClient, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Terminal]:
    def request(method: str, url: str, **more: Any) -> Any:
        more.pop("timeout")
        return client.request(method, url, **more)

    terminal = Terminal(world)
    monkeypatch.setenv("RHINO_URL", "http://localhost:8000")
    monkeypatch.setattr(api.httpx2, "request", request)
    monkeypatch.setattr(api.console, "width", 200, raising=False)
    monkeypatch.setattr(missions.time, "sleep", terminal.sleep)
    monkeypatch.chdir(tmp_path)
    yield terminal


def test_exploring_is_watched_until_it_ends(terminal: Terminal) -> None:
    figures = {"known_area": 55.5, "distance": 12.3, "elapsed": 90.0, "explored_share": 0.5}
    terminal.then = [
        lambda: terminal.end(MissionState.RUNNING, "On its way.", eta=30.0, **figures),
        lambda: terminal.end(MissionState.PAUSED, "Ann drives.", **figures),
        lambda: terminal.end(MissionState.COMPLETE, "Nothing is left to see.", **figures),
    ]
    words = ("--max-time", "60", "--return-home", "--area", "-2,-2", "--area", "4,-2.5")
    said = terminal.run("explore", *words, "--area", "1,3")
    assert terminal.waits == 3, "a pause does not end the watch"
    assert "explore: complete. Nothing is left to see." in said
    assert "55.5 m2, 50 %, 12.3 m, 1.5 min" in said
    request = terminal.world.explorer.requests[0]
    assert request.area == ((-2.0, -2.0), (4.0, -2.5), (1.0, 3.0))
    assert request.limits.max_time == 60.0 and request.limits.return_home


def test_an_end_that_was_not_wanted_is_a_failure(terminal: Terminal) -> None:
    terminal.then = [lambda: terminal.end(MissionState.CANCELLED, "Ended by bert.")]
    assert "cancelled. Ended by bert." in terminal.run("explore", code=1)


def test_control_c_ends_the_mission(terminal: Terminal) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    terminal.then = [interrupt]
    assert "the robot stands" in terminal.run("explore", code=130)
    assert terminal.world.explorer.mission.state is MissionState.CANCELLED


def test_detached_it_goes_on_and_is_paused_resumed_and_ended(terminal: Terminal) -> None:
    assert "id mission-1" in terminal.run("explore", "--detach")
    assert terminal.waits == 0
    assert terminal.refused("explore", "--detach").code == "MISSION_RUNNING"
    assert "paused_by_user" in terminal.run("explore", "--pause")
    assert "running" in terminal.run("explore", "--resume")
    assert "cancelled" in terminal.run("explore", "--stop")
    assert terminal.refused("patrol", "--stop").code == "NO_MISSION"
    assert terminal.refused("explore", "--stop", "--pause").code == "INVALID_REQUEST"


def test_a_patrol_of_places_and_points(terminal: Terminal, client: TestClient) -> None:
    kitchen = client.post("/api/pois", json={"label": "kitchen", "x": 2.0, "y": 1.0}).json()["id"]
    terminal.then = [lambda: terminal.end(MissionState.TIME_LIMIT, patrol=RECORD.patrol)]
    words = ("kitchen", "-1,0.5", "3,4,1.5", "--loops", "2", "--dwell", "5")
    said = terminal.run("patrol", *words)
    assert "worst idleness 1.0 min" in said
    request = terminal.world.explorer.requests[0]
    assert request.points == (
        PatrolPoint(2.0, 1.0, label="kitchen", poi_id=kitchen),
        PatrolPoint(-1.0, 0.5),
        PatrolPoint(3.0, 4.0, 1.5),
    )
    assert (request.router, request.loops, request.dwell) == (PatrolRouter.POINTS, 2, 5.0)
    assert terminal.refused("patrol", "attic").code == "POI_NOT_FOUND"
    terminal.run("patrol", "--detach", "--router", "random", "--expiry", "300")
    assert terminal.world.explorer.requests[1].router is PatrolRouter.RANDOM
    assert terminal.world.explorer.requests[1].expiry == 300.0
    terminal.run("patrol", "--stop")
    assert terminal.refused("patrol", "--router", "spiral").code == "INVALID_REQUEST"


@pytest.mark.parametrize("corner", ["1", "a,b", "1,2,3", ""])
def test_a_corner_that_is_none_is_refused(terminal: Terminal, corner: str) -> None:
    assert terminal.refused("explore", "--area", corner).code == "INVALID_REQUEST"


def test_the_log_is_listed_and_shown(terminal: Terminal, tmp_path: Path) -> None:
    label = "[bold]attic[/bold] 🐶"
    record = replace(RECORD, id="3f2a-1", skipped=(SkippedTarget(1.0, 2.0, 0, "X", label),))
    running = replace(RECORD, id="3f9b-2", kind=MissionKind.EXPLORE, ended_at=None, patrol=None)
    terminal.world.pois.missions = {"3f2a-1": (record, b"PNG"), "3f9b-2": (running, None)}
    listed = terminal.run("missions")
    assert listed.index("3f9b-2") < listed.index("3f2a-1") and "time_limit" in listed
    shown = terminal.run("missions", "3f2a")
    assert label in shown and "NO_VALID_PATH" in shown and "door" in shown
    assert "it runs" in terminal.run("missions", "3f9")
    terminal.run("missions", "3f2a", "--picture", "way.png")
    assert (tmp_path / "way.png").read_bytes() == b"PNG"
    assert terminal.refused("missions", "3f2a", "--picture", "no/way.png").code == "STORAGE_ERROR"
    for wanted in ("3f", "7"):
        assert terminal.refused("missions", wanted).code == "MISSION_NOT_FOUND"
    assert terminal.refused("missions", "3f9b", "--delete").code == "MISSION_RUNNING"
    assert terminal.refused("missions", "--delete").code == "INVALID_REQUEST"
    terminal.run("missions", "3f2a", "--delete")
    assert list(terminal.world.pois.missions) == ["3f9b-2"]
