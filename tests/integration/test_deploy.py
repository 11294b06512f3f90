"""Start-up, faults of start-up, and every way to end."""

import signal
import socket
import time
from pathlib import Path

import httpx2
import pytest

from tests.deployment import START_TIMEOUT_S, Rhino

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


def test_detached_deployment_serves_says_so_and_goes_away_without_a_trace(rhino: Rhino) -> None:
    done = rhino.run("deploy", "test", "--detach", timeout=START_TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr + rhino.log()
    assert rhino.api in done.stdout
    assert rhino.get("/api/health")["status"] == "ok"

    again = rhino.run("deploy", "test")
    assert again.returncode == 1
    assert "ALREADY_RUNNING" in again.stderr and rhino.api in again.stderr

    status = rhino.run("status")
    assert status.returncode == 0 and rhino.api in status.stdout

    down = rhino.run("down", timeout=120.0)
    assert down.returncode == 0, down.stdout + down.stderr
    assert not rhino.processes()
    with pytest.raises(httpx2.TransportError):
        rhino.get("/api/health")
    assert rhino.run("down").returncode == 0, "down of nothing is no error"


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_foreground_deployment_clean(rhino: Rhino, name: signal.Signals) -> None:
    process = rhino.start("deploy", "test", "--lean")
    try:
        rhino.wait_until(lambda: _serves(rhino), START_TIMEOUT_S, "the API")
        process.send_signal(name)
        output, _ = process.communicate(timeout=60.0)
    finally:
        process.kill()
    assert process.returncode == 0, output
    assert "stopped" in output
    assert not rhino.processes()


def test_interrupt_during_start_up_ends_clean(rhino: Rhino) -> None:
    process = rhino.start("deploy", "test", "--lean")
    try:
        time.sleep(4.0)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=120.0)
    finally:
        process.kill()
    assert "Traceback" not in output, output
    assert not rhino.processes()


def test_killed_deployment_is_swept_by_down(rhino: Rhino) -> None:
    rhino.deploy("test", "--lean")
    import os

    os.kill(rhino.record()["pid"], signal.SIGKILL)
    assert rhino.run("down", timeout=120.0).returncode == 0
    assert not rhino.processes()


def test_taken_port_is_named_and_nothing_is_started(rhino: Rhino) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", rhino.port))
        other.listen()
        done = rhino.run("deploy", "test")
    assert done.returncode == 1
    assert "PORT_TAKEN" in done.stderr and str(rhino.port) in done.stderr
    assert not rhino.processes()


def test_typo_in_the_configuration_names_the_known_keys(rhino: Rhino, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("planner: {replan_periods: 1.0}\n")
    done = rhino.run("deploy", str(config))
    assert done.returncode == 1
    assert "CONFIG_INVALID" in done.stderr
    assert "replan_periods" in done.stderr and "replan_period_s" in done.stderr
    assert not rhino.processes()


def test_start_up_that_fails_leaves_nothing(rhino: Rhino, tmp_path: Path) -> None:
    config = tmp_path / "mine.yaml"
    config.write_text("driver: fake\nfake: {map: moon}\nviewer: {enabled: false}\n")
    done = rhino.run("deploy", str(config), "--lean", timeout=START_TIMEOUT_S)
    assert done.returncode == 1, done.stdout
    assert "go2/platform" in done.stderr and "moon" in done.stderr
    assert "Traceback" not in done.stderr
    assert not rhino.processes()


def _serves(rhino: Rhino) -> bool:
    try:
        return bool(rhino.get("/api/health"))
    except httpx2.HTTPError:
        return False
