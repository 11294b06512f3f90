"""A mapper's state on disk, so that a restarted mapper does not start blind."""

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import StorageError
from rhino_actors.messages.geometry import Pose2D

State = Mapping[str, NDArray[np.generic]]


class Standing(NamedTuple):
    """How a map stands: what a checkpoint has beside the layers."""

    frame_epoch: int  # in which the map got its coordinates
    map_from_odom: Pose2D
    is_loaded: bool  # a saved map, on which the robot is localised
    is_placed: bool  # map_from_odom is about right for it

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return it as named arrays for `save_checkpoint`."""
        return {
            "frame": np.array([self.frame_epoch, *self.map_from_odom.as_tuple()], np.float64),
            "localiser": np.array([self.is_loaded, self.is_placed], np.bool_),
        }

    @classmethod
    def of(cls, state: State) -> "Standing":
        """Read it from a checkpoint. Raises StorageError."""
        try:
            epoch, x, y, yaw = (float(value) for value in state["frame"])
            is_loaded, is_placed = (bool(value) for value in state["localiser"])
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"The checkpoint does not say how the map lies: {error}.") from error
        return cls(int(epoch), Pose2D(x, y, yaw), is_loaded, is_placed)


def save_checkpoint(path: Path, state: State) -> None:
    """Write named arrays; whoever reads finds the old file or the new one, never a part.

    Raises:
        StorageError: the file cannot be written.
    """
    partial = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, **state)
        os.replace(partial, path)
    except OSError as error:
        raise StorageError(
            f"The map's checkpoint cannot be written to {path}: {error}.",
            "Look at the disk and the folder's owner.",
        ) from error


def load_checkpoint(path: Path) -> dict[str, NDArray[np.generic]]:
    """Read what `save_checkpoint` wrote.

    Raises:
        StorageError: there is none, or it is damaged.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (OSError, ValueError, KeyError, EOFError, AttributeError) as error:
        raise StorageError(f"The map's checkpoint {path} cannot be read: {error}.") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise StorageError(f"The map's checkpoint {path} is damaged: {error}.") from error
