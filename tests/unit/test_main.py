"""What deploy knows without a cluster."""

import asyncio
import dataclasses
import os
from pathlib import Path

import psutil
import pytest

from rhino_actors import main
from rhino_actors.config import RhinoConfig, with_paths
from rhino_actors.errors import AlreadyRunning, DeployError, PortTaken
from rhino_actors.main import _check_port
from rhino_actors.ray_cluster import RAY_ENVIRONMENT, find_cluster, last_line
from rhino_actors.run_record import (
    DEPLOYMENT_VARIABLE,
    RunRecord,
    _processes_of,
    check_nothing_runs,
    stop_deployment,
)

ROOT = Path(__file__).resolve().parents[2]


def _record(**changes: object) -> RunRecord:
    process = psutil.Process()
    values: dict[str, object] = {field.name: "" for field in dataclasses.fields(RunRecord)} | {
        "pid": process.pid,
        "pid_started": process.create_time(),
        "owns_ray": True,
        "started": 0.0,
        "ready": True,
        "deployment": "none",
    }
    return RunRecord(**{**values, **changes})  # type: ignore[arg-type]


def test_ray_env_of_a_cluster_holds_what_a_local_one_gets() -> None:
    lines = (ROOT / "cluster" / "ray.env").read_text().splitlines()
    pairs = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert pairs == RAY_ENVIRONMENT


def test_running_deployment_is_named_and_a_dead_one_is_not_in_the_way() -> None:
    check_nothing_runs()
    _record(url="http://127.0.0.1:8000").save()
    with pytest.raises(AlreadyRunning, match="127.0.0.1:8000"):
        check_nothing_runs()
    _record(pid_started=1.0).save()  # the pid was given to another process since
    check_nothing_runs()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": 1}'])
def test_damaged_run_record_is_said_and_not_taken_for_none(text: str) -> None:
    assert RunRecord.load() is None
    RunRecord.path().parent.mkdir(parents=True)
    RunRecord.path().write_text(text)
    for ask in (RunRecord.load, stop_deployment, check_nothing_runs):
        with pytest.raises(DeployError, match="run.json"):
            ask()


def test_processes_are_found_by_their_mark_even_when_they_wrote_over_their_title() -> None:
    import subprocess
    import sys

    code = (
        "import ray\n"
        "from ray._raylet import setproctitle\n"
        "import time\n"
        "setproctitle('ray::Hidden' + 'x' * 40)\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    environment = {**os.environ, DEPLOYMENT_VARIABLE: "deadbeef"}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout and child.stdout.readline()
        try:
            assert child.pid in [p.pid for p in _processes_of("deadbeef")]
        finally:
            child.kill()


def test_down_of_a_dead_deployment_clears_the_record() -> None:
    _record(pid_started=1.0).save()
    assert stop_deployment()
    assert not RunRecord.path().exists()


def test_taken_port_is_named() -> None:
    import socket

    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            _check_port("127.0.0.1", port)
    _check_port("127.0.0.1", port)


def test_cluster_that_does_not_answer_is_an_error_only_when_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert find_cluster() == ""
    with pytest.raises(DeployError, match="127.0.0.1:1"):
        find_cluster("127.0.0.1:1")
    left_behind = tmp_path / "ray" / "ray_current_cluster"
    left_behind.parent.mkdir()
    left_behind.write_text("127.0.0.1:1")
    assert find_cluster() == "", "a dead cluster that `ray start` left is not joined"


def test_paths_are_resolved_once_and_stay_what_the_config_names() -> None:
    resolved = with_paths(RhinoConfig())
    assert resolved.paths.state == os.path.join(os.environ["XDG_STATE_HOME"], "rhino")
    assert with_paths(resolved) == resolved


def test_last_line_of_an_error_says_what_it_is_about() -> None:
    assert last_line(RuntimeError("Traceback\n  File x\nConfigError: no such world\n\n")) == (
        "ConfigError: no such world"
    )


async def test_a_server_that_is_not_well_is_told_from_one_that_is() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readline()
        is_well = b"/api/control/health" not in asked
        writer.write(b"HTTP/1.1 200 OK\r\n" if is_well else b"HTTP/1.1 503 No\r\n")
        writer.write(b"X-Rhino-App: rest\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    heads = [await main._health("127.0.0.1", port, path) for path in main.HEALTH_PATHS]
    server.close()
    assert b"X-Rhino-App: rest" in heads[0] and heads[1] == b""
    assert await main._health("127.0.0.1", port, "/api/health") == b"", "nobody listens any more"
