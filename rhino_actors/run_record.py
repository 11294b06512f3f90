"""What a deployment leaves on disk for other `rhino` commands, and how one that runs is ended from outside."""

import contextlib
import dataclasses
import json
import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from rhino_actors.config import state_dir
from rhino_actors.errors import AlreadyRunning, DeployError
from rhino_actors.ray_cluster import answers, delete_apps, prepare_ray_environment, serve_port

# In the environment of every process that a deployment with a Ray of its own starts.
DEPLOYMENT_VARIABLE = "RHINO_DEPLOYMENT"


@dataclass(frozen=True)
class RunRecord:
    """What other `rhino` commands need to know of the deployment; kept in the state directory."""

    pid: int
    pid_started: float  # [s] creation of the process: a pid may be used again
    url: str
    mcp: str
    robot: str
    driver: str
    ray_address: str
    ray_dashboard: str
    ray_session: str  # directory of the Ray session
    owns_ray: bool
    rerun: str
    rerun_web: str
    log: str
    token_file: str  # of the API's bearer token; need not exist
    deployment: str  # DEPLOYMENT_VARIABLE of every process that belongs to it
    started: float  # [s] since the Unix epoch
    ready: bool
    notice: str = ""  # what the one who deployed must know

    @staticmethod
    def path() -> Path:
        return state_dir() / "run.json"

    @classmethod
    def load(cls) -> "RunRecord | None":
        """Return the record on disk, of a deployment that may be gone; None when there is none.

        Raises:
            DeployError: there is one and it cannot be read: a deployment may run that it would name.
        """
        try:
            text = cls.path().read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise DeployError(f"{cls.path()} cannot be read: {error}") from error
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise DeployError(
                f"{cls.path()} is damaged, or of another version: a deployment may run all the same.",
                "Look for it (ps -ef | grep rhino_actors), end it with kill -TERM, then delete the file.",
            ) from error

    def save(self) -> None:
        self.path().parent.mkdir(parents=True, exist_ok=True)
        partial = self.path().with_suffix(f".{os.getpid()}.tmp")
        partial.write_text(json.dumps(dataclasses.asdict(self), indent=2), encoding="utf-8")
        os.replace(partial, self.path())

    def process(self) -> psutil.Process | None:
        """Return the deployment's process if it still runs."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.pid_started) < 1.0
            alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
            return process if same and alive else None
        except psutil.NoSuchProcess:
            return None


def log_path() -> Path:
    """Return the deployment's log file."""
    return state_dir() / "logs" / "rhino.log"


def check_nothing_runs() -> None:
    """Raise AlreadyRunning when the state directory names a deployment that is alive."""
    record = RunRecord.load()
    if record and record.process():
        raise AlreadyRunning(
            f"{record.robot} ({record.driver}) runs already: {record.url}, process {record.pid}.",
            "rhino status shows it; rhino down stops it.",
        )


def set_up_logging(*, to_terminal: bool) -> None:
    """Log to the state directory, and warnings to the terminal."""
    log_path().parent.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(log_path(), mode="w", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handlers: list[logging.Handler] = [file]
    if to_terminal:
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setLevel(logging.WARNING)
        terminal.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        handlers.append(terminal)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)


def stop_deployment(timeout: float = 90.0) -> bool:
    """End the deployment that the state directory names, and whatever it left. Return False when none was there.

    Raises:
        DeployError: something of it does not end, even after it was killed.
    """
    record = RunRecord.load()
    if record is None:
        return False
    process = record.process()
    clean = False
    if process:
        process.terminate()
        try:
            process.wait(timeout)
            clean = True
        except psutil.TimeoutExpired:
            process.kill()
    _end_processes(record.deployment)
    if not clean and not record.owns_ray:
        _sweep_cluster(record.ray_address)
    RunRecord.path().unlink(missing_ok=True)
    return True


def _sweep_cluster(address: str) -> None:
    """Take the applications of a deployment that was killed off a cluster that goes on."""
    if not address or not answers(address):
        return
    prepare_ray_environment()
    import ray

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        if serve_port() is not None:
            delete_apps()
    finally:
        ray.shutdown()


def _end_processes(deployment: str) -> None:
    """Wait for the processes that belong to a deployment to end, and kill those that do not."""
    alive = _processes_of(deployment)
    _, alive = psutil.wait_procs(alive, timeout=3.0)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _, alive = psutil.wait_procs(alive, timeout=5.0)
    alive += _processes_of(deployment)
    if alive:
        raise DeployError(f"These processes do not end: {[p.pid for p in alive]}.")


def _processes_of(deployment: str) -> list[psutil.Process]:
    """Every process with the deployment's mark in its environment.

    Read as it lies: Ray's workers write their title over the beginning of the block, and psutil sees nothing then.
    """
    mark = f"{DEPLOYMENT_VARIABLE}={deployment}".encode()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if mark in Path(f"/proc/{process.pid}/environ").read_bytes():
                found.append(process)
    return found
