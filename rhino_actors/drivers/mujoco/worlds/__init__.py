"""Scenes by name. A scene is a pure function of its name and seed; stands on numpy alone."""

from collections.abc import Callable

from rhino_actors.drivers.mujoco.worlds import apartment
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.errors import ConfigError

WORLDS: dict[str, Callable[[int], World]] = {"apartment": apartment.generate}


def make_world(name: str, seed: int) -> World:
    """Generate a scene, the same one for the same name and seed.

    Raises:
        ConfigError: no scene has this name.
    """
    check_world(name)
    return WORLDS[name](seed)


def check_world(name: str) -> None:
    """Raise ConfigError when no scene has this name."""
    if name not in WORLDS:
        raise ConfigError(f"There is no world {name!r}.", f"Known worlds: {', '.join(WORLDS)}.")
