"""The voxels as they are published: bricks, and when each changed last."""

import numpy as np
from numpy.typing import NDArray

from rhino_actors.mapping.voxels import VoxelBricks
from rhino_actors.messages.map_patch import BRICK_SIDE, VoxelPatch

Place = tuple[int, int, int]  # x, y, z of a brick, in bricks


class VoxelTiles:
    """Follows a voxel map; a patch for a reader costs what changed since the reader's version."""

    def __init__(self, voxel_size: float) -> None:
        """Start without a brick; `voxel_size` [m]."""
        self._voxel_size = voxel_size
        # Those that changed last come last. One without voxels stays, so that readers learn that it is gone.
        self._bricks: dict[Place, tuple[int, NDArray[np.uint64]]] = {}

    def update(self, bricks: VoxelBricks, seq: int) -> None:
        """Take over the bricks that changed, as map `seq`."""
        for place, words in zip(bricks.place.tolist(), bricks.words, strict=True):
            key = (place[0], place[1], place[2])
            self._bricks.pop(key, None)
            self._bricks[key] = (seq, words.copy())  # a row would keep all bricks of the update

    def places(self) -> NDArray[np.int32]:
        """Return the (N, 3) x, y, z of all bricks that hold a voxel."""
        held = [key for key, (_, words) in self._bricks.items() if words.any()]
        return np.array(held, np.int32).reshape(len(held), 3)

    def patch(self, since: int, *, epoch: int, seq: int, stamp: float) -> VoxelPatch:
        """Return the bricks that changed after map `since`, 0 for all that hold a voxel."""
        chosen: list[tuple[Place, NDArray[np.uint64]]] = []
        for key in reversed(self._bricks):
            changed, words = self._bricks[key]
            if changed <= since:
                break
            if since or words.any():
                chosen.append((key, words))
        place = np.array([key for key, _ in chosen], np.int32).reshape(len(chosen), 3)
        stacked = np.array([words for _, words in chosen], np.uint64).reshape(
            len(chosen), BRICK_SIDE**2
        )
        place.flags.writeable = stacked.flags.writeable = False
        return VoxelPatch(epoch, seq, since, stamp, self._voxel_size, place, stacked)
