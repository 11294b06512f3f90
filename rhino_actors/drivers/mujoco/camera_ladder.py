"""Keeps a camera process going, on the first way of drawing that works: EGL, OSMesa, ray casting, then no camera.

A way that does not work may kill its process, so each is tried in the camera process itself. The physics process
calls `step`, which never waits.
"""

import os
import subprocess
import sys
import tempfile
from typing import IO, NamedTuple

from rhino_actors.config import MujocoConfig
from rhino_actors.drivers.mujoco.shm import SharedBlock

RAYCAST = "raycast"  # without OpenGL
RUNGS = {
    "auto": ("egl", "osmesa", RAYCAST),
    "egl": ("egl",),
    "osmesa": ("osmesa",),
    RAYCAST: (RAYCAST,),
    "off": (),
}
# What ray casting can be asked for: more would take more of a core than OpenGL in software does.
RAYCAST_WIDTH = 160  # [px]
RAYCAST_RATE = 5.0  # [Hz]

FIRST_PICTURE_TIMEOUT = 30.0  # [s] from the start of a process to its first picture
STALL_TIMEOUT = 10.0  # [s] without a picture after which the process counts as hung
MAX_RESTARTS = 3  # of a way that has worked, before the next one is tried
RESTART_DELAY = 1.0  # [s] before the first restart, doubled for each further one
STEADY_TIME = 60.0  # [s] of pictures after which earlier restarts are forgotten


class PictureFormat(NamedTuple):
    """How large and how often pictures are."""

    width: int  # [px]
    height: int  # [px]
    rate: float  # [Hz]

    def __str__(self) -> str:
        return f"{self.width}x{self.height}@{self.rate:g}"


def picture_format(way: str, config: MujocoConfig) -> PictureFormat:
    """Return what a way of drawing gives: what the config asks for, ray casting less of it in the same shape."""
    wanted = PictureFormat(config.camera_width, config.camera_height, config.camera_rate_hz)
    if way != RAYCAST:
        return wanted
    width = min(RAYCAST_WIDTH, wanted.width)
    height = max(1, round(wanted.height * width / wanted.width))
    return PictureFormat(width, height, min(RAYCAST_RATE, wanted.rate))


class CameraLadder:
    """Starts, watches and restarts the camera process. `status` says what came of it."""

    def __init__(self, config: MujocoConfig, block: SharedBlock, settings: str) -> None:
        """Prepare; the first `step` starts the process.

        Args:
            config: `camera` says which ways to try.
            block: the shared memory that the process inherits.
            settings: configuration as JSON, handed to the process as it is.
        """
        self._rungs = list(RUNGS[config.camera])
        self._config = config
        self._block = block
        self._settings = settings
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._failures: list[str] = []
        self._has_worked = False
        self._restarts = 0
        self._start_at = 0.0
        self._started = 0.0
        self._seen = 0
        self._seen_at = 0.0
        self.status = (
            f"starting: {self._rungs[0]}" if self._rungs else "off: switched off in the config"
        )

    def step(self, now: float) -> None:
        """Look after the process at monotonic time `now` [s]."""
        if not self._rungs:
            return
        if self._child is None:
            if now >= self._start_at:
                self._start(now)
            return
        newest = self._block["camera"].newest
        if newest != self._seen:
            self._seen, self._seen_at = newest, now
            self._has_worked = True
            self.status = self._working()
            if now - self._started > STEADY_TIME:
                self._restarts = 0
        code = self._child.poll()
        limit = STALL_TIMEOUT if self._seen_at > self._started else FIRST_PICTURE_TIMEOUT
        if code is not None:
            self._ended(self._last_error() or _exit_text(code), now)
        elif now - self._seen_at > limit:
            self._ended(f"no picture for {limit:.0f} s", now)

    def close(self) -> None:
        """End the process. May be called twice."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def _start(self, now: float) -> None:
        environment = dict(os.environ)
        way = self._rungs[0]
        # A library that is missing kills the import of MuJoCo where it is named, so ray casting names none.
        environment.update(MUJOCO_GL="disable" if way == RAYCAST else way, LP_NUM_THREADS="1")
        # OpenGL's own choice follows MuJoCo's; one that the environment carries would contradict it.
        environment.pop("PYOPENGL_PLATFORM", None)
        self._errors = tempfile.TemporaryFile()
        self._child = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "rhino_actors.drivers.mujoco.camera",
                str(self._block.fd),
                self._settings,
                str(os.getpid()),
                way,
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            pass_fds=(self._block.fd,),
        )
        self._started = self._seen_at = now
        self._seen = self._block["camera"].newest

    def _ended(self, reason: str, now: float) -> None:
        self.close()
        if self._has_worked and self._restarts < MAX_RESTARTS:
            self._start_at = now + RESTART_DELAY * 2**self._restarts
            self._restarts += 1
            self.status = f"off: restarting after: {reason}"
            return
        self._failures.append(f"{self._rungs.pop(0)}: {reason}")
        self._has_worked, self._restarts, self._start_at = False, 0, now
        self.status = (
            f"starting: {self._rungs[0]}" if self._rungs else f"off: {'; '.join(self._failures)}"
        )

    def _working(self) -> str:
        """Return the way that draws, its format, and what failed before it."""
        way = self._rungs[0]
        failed = f" ({'; '.join(self._failures)})" if self._failures else ""
        return f"{way} {picture_format(way, self._config)}{failed}"

    def _last_error(self) -> str:
        """Return the last line that the process wrote to its stderr, shortened."""
        if self._errors is None:
            return ""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - 4096))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1].strip()[:200] if lines else ""


def _exit_text(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"ended with status {code}"
