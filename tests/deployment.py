"""A rhino deployment of a test's own: its own state, port, Ray session; ended when the test ends."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 150.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Rhino:
    """The `rhino` command in a world of its own."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.api = f"http://127.0.0.1:{self.port}"
        # Short: Ray's socket paths must stay under 107 characters.
        self.ray_tmp = tempfile.mkdtemp(prefix="rh")
        self.environment = {
            **os.environ,
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "RAY_TMPDIR": self.ray_tmp,
            "RHINO_PORT": str(self.port),
            "PYTHONWARNINGS": "",
            "COLUMNS": "200",
        }
        self.environment.pop("RAY_ADDRESS", None)

    def run(self, *words: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "rhino_actors.cli", *words],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        """Start a foreground deployment."""
        return subprocess.Popen(
            [sys.executable, "-m", "rhino_actors.cli", *words],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def deploy(self, *words: str) -> None:
        """Deploy in the background and wait for the API. Shows the log when it fails."""
        done = self.run("deploy", *words, "--detach", timeout=START_TIMEOUT_S)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.log()}"

    def log(self) -> str:
        path = self.folder / "state" / "rhino" / "logs" / "rhino.log"
        return path.read_text() if path.is_file() else "no log"

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.folder / "state/rhino/run.json").read_text())
        return record

    def get(self, route: str, **parameters: Any) -> Any:
        answer = httpx2.get(self.api + route, params=parameters, timeout=20.0)
        answer.raise_for_status()
        return answer.json()

    def text(self, route: str) -> str:
        """What a route answers, "" while it is not there."""
        answer = httpx2.get(self.api + route, timeout=20.0)
        return answer.text if answer.is_success else ""

    def post(self, route: str, body: dict[str, Any] | None = None, **headers: str) -> Any:
        answer = httpx2.post(self.api + route, json=body or {}, headers=headers, timeout=20.0)
        assert answer.is_success, f"{route}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def wait_until(
        self, condition: Callable[[], Any], timeout: float, what: str, period: float = 0.1
    ) -> Any:
        """Return the first truthy answer; fails with what was waited for, the state and the log."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            answer = condition()
            if answer:
                return answer
            time.sleep(period)
        raise AssertionError(f"{what}: not within {timeout} s. {self.log()[-3000:]}")

    def wait_for_map(self, area: float = 1.0) -> None:
        self.wait_until(
            lambda: self.get("/api/map/info")["known_area"] > area, 60.0, "a map to plan on"
        )

    def navigate(self, x: float, y: float, **more: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.post("/api/navigate", {"x": x, "y": y, **more})
        return answer

    def wait_for_end(self, goal_id: int, timeout: float = 60.0) -> dict[str, Any]:
        """Return the status in which the goal ended."""

        def ended() -> dict[str, Any] | None:
            nav: dict[str, Any] = self.get("/api/navigate/status")
            over = nav["state"] in ("arrived", "failed", "cancelled")
            return nav if nav["goal_id"] == goal_id and over else None

        nav: dict[str, Any] = self.wait_until(ended, timeout, f"goal {goal_id} to end", 0.2)
        return nav

    def pose(self) -> tuple[float, float]:
        """Where the robot is in the map; in odom while that is not known, as when the mapper restarts."""
        state = self.get("/api/state")
        pose = state["pose"] or state["odom_pose"]
        return pose["x"], pose["y"]

    def odom_pose(self) -> tuple[float, float]:
        pose = self.get("/api/state")["odom_pose"]
        return pose["x"], pose["y"]

    def speed(self) -> float:
        """How far the robot gets in half a second, per second [m/s]: what it does, not what it says."""
        x, y = self.odom_pose()
        time.sleep(0.5)
        after_x, after_y = self.odom_pose()
        return float(((after_x - x) ** 2 + (after_y - y) ** 2) ** 0.5 / 0.5)

    def processes(self) -> list[str]:
        """What still runs of this deployment: every process that names its folders."""
        return [f"{p.pid} {' '.join(p.cmdline())[:150]}" for p in self.family()]

    def family(self, title: str = "") -> list[psutil.Process]:
        """The deployment's processes, or those whose command line begins with a title."""
        mark = f"RAY_TMPDIR={self.ray_tmp}".encode()
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                # As it lies: Ray's workers write their title over the beginning, which confuses psutil.
                environment = Path(f"/proc/{process.pid}/environ").read_bytes()
                words = " ".join(process.cmdline())
                ours = mark in environment or self.ray_tmp in words
                if process.pid != os.getpid() and ours and words.startswith(title):
                    found.append(process)
        return found

    def end(self) -> None:
        done = self.run("down", timeout=120.0)
        left = self.processes()
        shutil.rmtree(self.ray_tmp, ignore_errors=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert not left, f"left behind: {left}"


@contextmanager
def rhino_world(folder: Path) -> Iterator[Rhino]:
    rhino = Rhino(folder)
    try:
        yield rhino
    finally:
        rhino.end()
