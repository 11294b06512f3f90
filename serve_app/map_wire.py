"""Maps as compact bytes for the dashboard and other clients; little-endian. The format is in docs/api.md."""

import struct

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.grid import TILE_CELLS
from rhino_actors.messages.map_patch import MapPatch, VoxelPatch

_TILES = struct.Struct("<4sIQIIdddIIII")
_VOXELS = struct.Struct("<4sIQIIdII")


def encode_tiles(patch: MapPatch) -> bytes:
    """Return tiles: header, corners, occupancy, costs."""
    rows, cols = patch.geometry.shape
    x, y = patch.geometry.origin
    head = _TILES.pack(
        b"RMT1",
        _TILES.size,
        patch.epoch,
        patch.seq,
        patch.since,
        patch.geometry.resolution,
        x,
        y,
        rows,
        cols,
        TILE_CELLS,
        len(patch.tiles),
    )
    corners = patch.corners().astype("<i4")
    return head + corners.tobytes() + patch.occupancy.tobytes() + patch.costmap.tobytes()


def encode_voxels(patch: VoxelPatch) -> bytes:
    """Return voxels: header, places of the bricks, voxels in each brick, the voxels' cells in the bricks."""
    brick, cell = patch.cells()
    counts: NDArray[np.int64] = np.bincount(brick, minlength=len(patch.place))
    head = _VOXELS.pack(
        b"RMV1",
        _VOXELS.size,
        patch.epoch,
        patch.seq,
        patch.since,
        patch.voxel_size,
        len(patch.place),
        len(cell),
    )
    parts = (patch.place.astype("<i4"), counts.astype("<u4"), cell.astype("<u2"))
    return head + b"".join(part.tobytes() for part in parts)
