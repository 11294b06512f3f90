"""Configurations of the simulation that tests start from."""

from typing import Any

from rhino_actors.config import MujocoConfig


def plain_simulation(**changes: Any) -> MujocoConfig:
    """Return a gliding base, a scan lidar and exact odometry, but for what is changed: light, and easy to predict."""
    plain: dict[str, Any] = {"base": "kinematic", "lidar": "scan", "drift": "off"}
    return MujocoConfig(**(plain | changes))
