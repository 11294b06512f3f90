"""The web viewer: on loopback, without usage statistics, and gone with its parent."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from rhino_actors.viz import web_viewer
from rhino_actors.viz.web_viewer import WebViewer, free_port, port_is_free

pytest.importorskip("rerun_cli", reason="rerun-sdk is not installed")
DATA = "rerun+http://127.0.0.1:9/proxy"

PARENT = """
import sys, time
from pathlib import Path
from rhino_actors.viz.web_viewer import WebViewer
viewer = WebViewer(int(sys.argv[1]), "rerun+http://127.0.0.1:9/proxy", Path(sys.argv[2]))
print(viewer._process.pid, flush=True)
time.sleep(100)
"""


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_it_serves_on_loopback_only_and_ends_with_close(tmp_path: Path) -> None:
    port = free_port()
    viewer = WebViewer(port, DATA, tmp_path)
    try:
        assert viewer.url == f"http://127.0.0.1:{port}/?url=rerun%2Bhttp://127.0.0.1:9/proxy"
        with urllib.request.urlopen(viewer.url) as answer:
            assert answer.status == 200
        listening = [
            line.split()[1]
            for table in ("/proc/net/tcp", "/proc/net/tcp6")
            for line in Path(table).read_text().splitlines()[1:]
            if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
        ]
        assert listening == [f"0100007F:{port:04X}"]
    finally:
        viewer.close()
    viewer.close()
    assert port_is_free(port)


def test_its_usage_statistics_are_off(tmp_path: Path) -> None:
    viewer = WebViewer(free_port(), DATA, tmp_path)
    viewer.close()
    settings = json.loads((tmp_path / "rerun" / "analytics.json").read_text())
    assert settings["analytics_enabled"] is False
    assert not list(tmp_path.glob("rerun/analytics/*"))


def test_it_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(free_port()), str(tmp_path)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    child = 0
    try:
        child = int(parent.stdout.readline())
        assert _is_alive(child)
    finally:
        parent.kill()
        parent.communicate()
    deadline = time.monotonic() + 10.0
    while _is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    if _is_alive(child):
        os.kill(child, signal.SIGKILL)
        pytest.fail("the web viewer outlived its parent")


def test_a_program_that_is_missing_or_ends_at_once_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_viewer, "_program", lambda: "/bin/false")
    with pytest.raises(OSError, match="ended at once, see .*web_viewer.log"):
        WebViewer(free_port(), DATA, tmp_path)
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(OSError, match="rerun_cli/rerun is not installed"):
        WebViewer(free_port(), DATA, tmp_path)
