"""VoxelPatch: bits to voxels. MapPatch and MapReader are tested with the tiles that they come from."""

import numpy as np

from rhino_actors.messages.map_patch import BRICK_SIDE, VoxelPatch


def test_voxels_of_many_bricks_are_those_of_each_in_turn() -> None:
    rng = np.random.default_rng(0)
    count = 1300
    words = rng.integers(0, 2**64, (count, BRICK_SIDE**2), np.uint64, endpoint=False)
    words[rng.random(words.shape) < 0.99] = 0
    words[700] = 0
    place = rng.integers(-50, 50, (count, 3)).astype(np.int32)

    def patch(part: slice) -> VoxelPatch:
        return VoxelPatch(1, 1, 0, 0.0, 0.05, place[part], words[part])

    alone = [patch(slice(k, k + 1)) for k in range(count)]
    brick, cell = patch(slice(None)).cells()
    sizes = [len(one.cells()[1]) for one in alone]
    assert np.array_equal(brick, np.repeat(np.arange(count), sizes))
    assert np.array_equal(cell, np.concatenate([one.cells()[1] for one in alone]))
    assert len(cell) == int(np.bitwise_count(words).sum())
    points = np.concatenate([one.points() for one in alone])
    assert np.array_equal(patch(slice(None)).points(), points)
    assert patch(slice(0)).points().shape == (0, 3)
