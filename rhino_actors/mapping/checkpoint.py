"""A mapper's state on disk, so that a restarted mapper does not start blind."""

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import StorageError

State = Mapping[str, NDArray[np.generic]]


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
