"""The physics process as the platform actor's child: its start, its requests, its end.

Threads, because a pipe must be drained whatever the event loop does, and because a driver works without one.
"""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

import rhino_actors
from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco import wire
from rhino_actors.drivers.mujoco.shm import SharedBlock
from rhino_actors.errors import NotConnected
from rhino_actors.messages.geometry import Twist2D

_TAIL_LINES = 20
_END_GRACE = 2.0  # [s] for the process to end by itself, and again for each signal
_POLL = 0.05  # [s]
_HINT = "Install the simulation with its libraries (the extra `sim`), then see the log: rhino logs."

_log = logging.getLogger(__name__)


class SimulationLink:
    """One life of the physics process."""

    def __init__(
        self, config: MujocoConfig, robot: RobotConfig, numbers: dict[str, int] | None = None
    ) -> None:
        """Prepare the shared memory.

        Args:
            config: of the simulation.
            robot: of the robot's body.
            numbers: last message number of each channel of an earlier life; counting goes on from there.
        """
        self._config = config
        self._settings = json.dumps({"mujoco": asdict(config), "robot": asdict(robot)})
        self.block = SharedBlock.create(wire.capacities(config))
        for name, number in (numbers or {}).items():
            self.block[name].start_after(number)
        self._process: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._ready = threading.Event()
        self._given_up = threading.Event()
        self._lock = threading.Lock()  # over start and stop
        self._answers: dict[int, Future[dict[str, Any]]] = {}
        self._last_id = 0

    @property
    def pid(self) -> int | None:
        """Process id of the physics process; None before it was started."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process and wait until it publishes. Blocks; `stop` cuts it short.

        Raises:
            NotConnected: it ended, or did not get ready in time; the message carries what it said.
        """
        with self._lock:
            if self._given_up.is_set():
                raise NotConnected("The simulation was stopped while it started.")
            self._process = self._spawn()
            for name, target in (("answers", self._read_answers), ("errors", self._read_errors)):
                thread = threading.Thread(target=target, name=f"mujoco-{name}", daemon=True)
                thread.start()
                self._threads.append(thread)
            deadline = time.monotonic() + self._config.start_timeout_s
            while not self._ready.wait(_POLL):
                if self._process.poll() is not None:
                    self._join()
                    raise NotConnected(f"The simulation did not start: {self._last_words()}", _HINT)
                if self._given_up.is_set():
                    raise NotConnected("The simulation was stopped while it started.")
                if time.monotonic() > deadline:
                    raise NotConnected(
                        f"The simulation was not ready within {self._config.start_timeout_s:g} s.",
                        "The machine may be busy: raise mujoco.start_timeout_s.",
                    )

    def stop(self) -> None:
        """End the process and free everything. Blocks for seconds at worst; may be called twice."""
        self._given_up.set()
        with self._lock:
            process = self._process
            if process is not None:
                self._end(process)
                self._join()
                for stream in (process.stdout, process.stderr):
                    if stream is not None:
                        stream.close()
            self.block.close()

    def fault(self) -> str | None:
        """Return None while the process runs, else how it ended."""
        if self._process is None:
            return "The simulation was not started."
        code = self._process.poll()
        if code is None:
            return None
        return f"The simulation process ended: {self._last_words()}"

    def send_twist(self, twist: Twist2D, now: float) -> None:
        """Put a twist into the command slot, stamped `now` (monotonic) [s]."""
        self.block["command"].write(wire.pack_command(twist, now))

    def request(self, **fields: Any) -> "Future[dict[str, Any]]":
        """Send a request; the future brings the answer, or NotConnected when the process ends before it."""
        future: Future[dict[str, Any]] = Future()
        process = self._process
        if process is None or process.stdin is None:
            future.set_exception(NotConnected("The simulation was not started."))
            return future
        self._last_id += 1
        self._answers[self._last_id] = future
        try:
            process.stdin.write(json.dumps({"id": self._last_id, **fields}) + "\n")
            process.stdin.flush()
        except (OSError, ValueError):
            self._fail_answers()
        return future

    def _spawn(self) -> subprocess.Popen[str]:
        root = str(Path(rhino_actors.__file__).resolve().parent.parent)
        environment = dict(os.environ)
        environment.update(
            MUJOCO_GL="disable",  # the physics draws nothing, and a missing GL would kill its import
            OPENBLAS_NUM_THREADS="1",
            OMP_NUM_THREADS="1",
            PYTHONPATH=os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
        )
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "rhino_actors.drivers.mujoco.process",
                str(self.block.fd),
                self._settings,
            ],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(self.block.fd,),
            text=True,
            start_new_session=True,  # a Ctrl-C is the actor's to handle: it stops the robot first
        )

    def _end(self, process: subprocess.Popen[str]) -> None:
        if process.stdin is not None:
            try:
                process.stdin.close()
            except OSError:
                pass  # the process is gone and left a line unread
        for end in (None, process.terminate, process.kill):
            if end is not None:
                _log.warning("the simulation process does not end; sending a signal")
                end()
            try:
                process.wait(_END_GRACE)
                return
            except subprocess.TimeoutExpired:
                continue

    def _read_answers(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if "ready" in message:
                self._ready.set()
                continue
            future = self._answers.pop(message["id"], None)
            if future is not None and future.set_running_or_notify_cancel():
                future.set_result(message)
        self._fail_answers()

    def _fail_answers(self) -> None:
        while self._answers:
            _, future = self._answers.popitem()
            if future.set_running_or_notify_cancel():
                future.set_exception(NotConnected("The simulation process has ended."))

    def _read_errors(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        for line in self._process.stderr:
            self._tail.append(line.rstrip())
            _log.warning("simulation: %s", line.rstrip())

    def _join(self) -> None:
        for thread in self._threads:
            thread.join(_END_GRACE)

    def _last_words(self) -> str:
        code = None if self._process is None else self._process.poll()
        status = f"status {code}" if code is None or code >= 0 else f"signal {-code}"
        tail = " | ".join(line for line in self._tail if line.strip())
        return f"{status}. {tail[-1500:]}".strip()
