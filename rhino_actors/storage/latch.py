"""The e-stop latch on disk: a small file that outlives the process. No Ray."""

import json
import logging
import os
from pathlib import Path

from rhino_actors.config import RhinoConfig, state_dir

logger = logging.getLogger(__name__)


def latch_path(config: RhinoConfig) -> Path:
    """Return the file in which the e-stop of a configuration's robot is kept."""
    return state_dir(config.paths) / config.robot.name / "estop.json"


class LatchFile:
    """Holds {"latched": bool, "by": who, "since": Unix time [s]}."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[str | None, float | None]:
        """Return who latched it and when; (None, None): it is not latched. What cannot be read is latched."""
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            if data["latched"] is False:
                return None, None
            return str(data["by"]), float(data["since"])
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.error("%s cannot be read, so the e-stop is latched: %s", self._path, error)
            return "unreadable latch file", None

    def write(self, by: str | None, since: float | None) -> None:
        """Replace the file in one step; it is on the disk when this returns.

        Args:
            by: who latched it; None: it is not latched.
            since: Unix time of that [s].

        Raises:
            OSError: it could not be written; the file is as it was.
        """
        data = {"latched": by is not None, "by": by or "", "since": since or 0.0}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        with open(new, "w", encoding="utf-8") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
