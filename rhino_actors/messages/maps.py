"""Maps that are kept: what one holds, and what is known of it without opening it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.grid import GridGeometry


@dataclass(frozen=True, slots=True)
class MapContent:
    """A map's layers in the frame map, as they go to the disk and come back."""

    geometry: GridGeometry
    occupancy: NDArray[np.int8]  # (rows, cols) -1 unknown, 0..100; row 0 has the lowest y
    voxels: NDArray[np.float32] | None = None  # (N, 3) centres [m]; None: no such layer
    # In which the running map that this is of got its coordinates; 0: it comes from files.
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class SavedMap:
    """What is known of a saved map."""

    id: str  # UUID
    robot: str
    name: str  # 1..200 characters, as the user wrote it; one map of a robot has it
    created_at: float  # [s] since the Unix epoch
    geometry: GridGeometry
    known_area: float  # [m2] of the cells that are not unknown
    voxels: int  # centres in its 3D layer; 0: it has none
    size: int  # [byte] of its files
    frame: str  # maps with the same frame have the same coordinates
