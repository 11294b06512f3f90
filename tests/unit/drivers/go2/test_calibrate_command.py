"""`rhino calibrate` before it drives."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("aiortc")

from rhino_actors import cli
from rhino_actors.config import load_config
from rhino_actors.drivers.go2 import calibrate as calibrate_module
from rhino_actors.errors import EStopLatched, NotConnected
from rhino_actors.storage.latch import LatchFile, latch_path


@pytest.fixture
def latch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LatchFile:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def drive(*arguments: Any) -> None:
        raise NotConnected("it would drive")

    monkeypatch.setattr(calibrate_module, "calibrate", drive)
    return LatchFile(latch_path(load_config("go2")))


def calibrate() -> BaseException | None:
    return CliRunner().invoke(cli.app, ["calibrate", "--yes"]).exception


def test_a_robot_whose_emergency_stop_is_latched_is_not_driven(latch: LatchFile) -> None:
    latch.write("anna", 1.0)
    error = calibrate()
    assert isinstance(error, EStopLatched)
    assert "anna" in error.message and "rhino estop --clear" in error.hint
    latch.write(None, None)
    assert isinstance(calibrate(), NotConnected), "cleared: it goes on"


def test_a_latch_that_cannot_be_read_counts_as_latched(latch: LatchFile) -> None:
    path = latch_path(load_config("go2"))
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert isinstance(calibrate(), EStopLatched)
