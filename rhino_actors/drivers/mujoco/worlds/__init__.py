"""Worlds by name, or from a ROS map. A world is a pure function of its name and seed; stands on numpy alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rhino_actors.drivers.mujoco.worlds import apartment, maze, office, warehouse
from rhino_actors.drivers.mujoco.worlds.ros_map import from_ros_map
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.errors import ConfigError

GENERATOR_VERSION = 1  # grows when a seed gives another world than before

WORLDS: dict[str, Callable[[int], World]] = {
    "apartment": apartment.generate,
    "office": office.generate,
    "warehouse": warehouse.generate,
    "maze": maze.generate,
}

__all__ = ["GENERATOR_VERSION", "WORLDS", "World", "check_world", "from_ros_map", "make_world"]


def make_world(name: str, seed: int, *, people: bool = True) -> World:
    """Generate a world, the same one for the same name and seed.

    Args:
        name: one of WORLDS, or the path of a map_server .yaml.
        seed: of everything that varies; a map has nothing that does.
        people: False leaves nobody walking about.

    Raises:
        ConfigError: no world has this name, or the map cannot be used.
    """
    world = from_ros_map(name) if _is_map(name) else _generator(name)(seed)
    return world if people else replace(world, people=())


def check_world(name: str) -> None:
    """Raise ConfigError when there is no such world."""
    if not _is_map(name):
        _generator(name)
    elif not Path(name).is_file():
        raise ConfigError(f"There is no map {name}.", "Give the path of a map_server .yaml.")


def _is_map(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml")


def _generator(name: str) -> Callable[[int], World]:
    if name not in WORLDS:
        raise ConfigError(
            f"There is no world {name!r}.",
            f"Known worlds: {', '.join(WORLDS)}; or the path of a map_server .yaml.",
        )
    return WORLDS[name]
