"""Rerun's web viewer as a child process on loopback. It ends with its parent and sends no usage data of its own."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 10.0

# Run by a bare Python in place of a preexec_fn, which is unsafe in a process with threads: asks Linux for a SIGTERM
# when the parent ends, however it ends, and becomes the viewer.
_LAUNCH = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent has gone")
os.execv(sys.argv[2], sys.argv[2:])
"""


class WebViewer:
    """The running viewer.

    Linux counts the thread that starts the child as its parent: construct this on a thread that lives as long as
    the viewer is wanted.

    Args:
        port: where it listens, on loopback.
        data_url: address of the Rerun data, `rerun+http://...`.
        folder: for its settings and its log; made when it is missing.

    Raises:
        OSError: the port is taken, or the program is missing or did not start; the text says which.
    """

    def __init__(self, port: int, data_url: str, folder: Path) -> None:
        if not port_is_free(port):
            raise OSError(f"port {port} is taken")
        self.url = f"http://{LOOPBACK}:{port}/?url={quote(data_url, safe=':/')}"
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "web_viewer.log"
        command = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid()), _program()]
        command += ["--serve-web", "--bind", LOOPBACK, "--web-viewer-port", str(port), data_url]
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                env=_environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            self._wait_until_served(port, log)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the viewer. May be called twice."""
        self._process.terminate()
        try:
            self._process.wait(timeout=3.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_until_served(self, port: int, log: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise OSError(f"the web viewer ended at once, see {log}")
            try:
                socket.create_connection((LOOPBACK, port), timeout=1.0).close()
                return
            except OSError:
                time.sleep(0.05)
        raise OSError(f"the web viewer did not start within {START_TIMEOUT_S:g} s, see {log}")


def port_is_free(port: int) -> bool:
    """Return whether something could listen on this port of loopback now."""
    with socket.socket() as probe:
        probe.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # else a closed port seems taken
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port of loopback that nothing uses now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _program() -> str:
    # The wheel's `rerun` command is a Python wrapper whose child would outlive it: start the program itself.
    spec = importlib.util.find_spec("rerun_cli")
    for folder in spec.submodule_search_locations or () if spec else ():
        program = Path(folder) / "rerun"
        if program.is_file():
            return str(program)
    raise OSError("the program rerun_cli/rerun is not installed")


def _environment(folder: Path) -> dict[str, str]:
    """Give the program settings of its own in which usage statistics are off."""
    home = folder / "rerun"
    home.mkdir(parents=True, exist_ok=True)
    settings = {
        "analytics_enabled": False,
        "analytics_id": "",
        "metadata": {},
        "config_file_path": str(home / "analytics.json"),
        "data_dir_path": str(home / "analytics"),
    }
    (home / "analytics.json").write_text(json.dumps(settings), encoding="utf-8")
    return {**os.environ, "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
