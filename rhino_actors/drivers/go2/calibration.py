"""What `rhino calibrate` found out about one robot, and where it is kept."""

import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rhino_actors.config import Go2Config, PathsConfig, data_dir
from rhino_actors.errors import ConfigError

VELOCITY_APIS = ("move", "joystick")
FIELDS = (
    "velocity_api",
    "scale_vx",
    "scale_vy",
    "scale_omega",
    "stick_vx",
    "stick_vy",
    "stick_omega",
)


@dataclass(frozen=True)
class Calibration:
    """Velocities of one robot as measured by its own odometry."""

    velocity_api: str
    scale_vx: float
    scale_vy: float
    scale_omega: float
    stick_vx: float
    stick_vy: float
    stick_omega: float
    latency_s: float  # from a command to motion in odometry
    hold_s: float  # how long the robot goes on after the last command
    measured: float  # [s] since the Unix epoch


def calibration_path(robot: str, paths: PathsConfig | None = None) -> Path:
    """Return the file of a robot's calibration."""
    return data_dir(paths) / "go2" / f"{robot}.json"


def load_calibration(robot: str, paths: PathsConfig | None = None) -> Calibration | None:
    """Return the stored calibration of a robot, or None. Raises ConfigError when it cannot be read."""
    path = calibration_path(robot, paths)
    if not path.is_file():
        return None
    try:
        fields: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        found = Calibration(**fields)
        _check(fields)
    except (OSError, ValueError, TypeError, OverflowError) as error:
        raise ConfigError(
            f"The calibration {path} cannot be read: {error}.",
            "Delete it, or run rhino calibrate again; go2.calibrated: false ignores it.",
        ) from error
    return found


def _check(fields: dict[str, Any]) -> None:
    """Raise ValueError for what the configuration would not take either."""
    if fields["velocity_api"] not in VELOCITY_APIS:
        raise ValueError(f"velocity_api is {fields['velocity_api']!r}")
    bounds = {spec.name: spec.metadata for spec in dataclasses.fields(Go2Config)}
    for name, value in fields.items():
        if name == "velocity_api":
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ValueError(f"{name} is not a number")
        if not math.isfinite(value):
            raise ValueError(f"{name} is not finite")
        if name in FIELDS and not bounds[name]["low"] <= value <= bounds[name]["high"]:
            raise ValueError(f"{name} is {value:g}")


def save_calibration(
    robot: str, calibration: Calibration, paths: PathsConfig | None = None
) -> Path:
    """Store a robot's calibration and return the file."""
    path = calibration_path(robot, paths)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(dataclasses.asdict(calibration), indent=2), encoding="utf-8")
    partial.replace(path)
    return path


def apply_calibration(config: Go2Config, calibration: Calibration | None) -> Go2Config:
    """Return the configuration with what was measured in place of its numbers."""
    if calibration is None:
        return config
    return dataclasses.replace(config, **{name: getattr(calibration, name) for name in FIELDS})
