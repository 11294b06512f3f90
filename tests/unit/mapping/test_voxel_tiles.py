"""VoxelTiles: published bricks. What they publish is tested with the layers."""

import weakref

import numpy as np

from rhino_actors.mapping import VoxelBricks
from rhino_actors.mapping.voxel_tiles import VoxelTiles


def test_a_brick_that_stays_does_not_keep_the_rest_of_its_update_in_memory() -> None:
    tiles = VoxelTiles(0.05)
    words = np.ones((40, 256), np.uint64)
    place = np.stack([np.arange(40), np.zeros(40), np.zeros(40)], axis=1).astype(np.int32)
    whole = weakref.ref(words)
    tiles.update(VoxelBricks(place, words), 1)
    del words
    assert whole() is None
    assert len(tiles.patch(0, epoch=1, seq=1, stamp=0.0).place) == 40


def test_without_a_brick_a_patch_is_empty() -> None:
    patch = VoxelTiles(0.05).patch(0, epoch=1, seq=0, stamp=0.0)
    assert patch.place.shape == (0, 3) and patch.words.shape == (0, 256)
    assert len(patch.points()) == 0
