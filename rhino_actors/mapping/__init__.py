"""Maps from lidar frames, costs from maps, maps on disk. Pure: numpy in, numpy out."""

from rhino_actors.mapping import inflation, likelihood, occupancy, voxels
from rhino_actors.mapping.checkpoint import load_checkpoint, save_checkpoint
from rhino_actors.mapping.height_cost import (
    HeightCostmap,
    HeightLayers,
    height_cost,
    height_layers,
)
from rhino_actors.mapping.height_cost import warm_up as _warm_up_height_cost
from rhino_actors.mapping.inflation import inflate, update_costmap
from rhino_actors.mapping.layers import MapLayers
from rhino_actors.mapping.loaded_map import mapper_state, on_lattice
from rhino_actors.mapping.localisation import Localiser
from rhino_actors.mapping.map_files import load_map, save_map
from rhino_actors.mapping.map_package import (
    decode_files,
    encode_files,
    known_part,
    pack_zip,
    thumbnail,
    unpack_zip,
)
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.mapping.ply import decode_ply, encode_ply
from rhino_actors.mapping.tiles import MapTiles
from rhino_actors.mapping.voxels import Carving, VoxelBricks, VoxelMapper
from rhino_actors.mapping.whereabouts import Whereabouts
from rhino_actors.mapping.window import CellWindow

__all__ = [
    "Carving",
    "CellWindow",
    "HeightCostmap",
    "HeightLayers",
    "Localiser",
    "MapLayers",
    "MapTiles",
    "OccupancyMapper",
    "VoxelBricks",
    "VoxelMapper",
    "Whereabouts",
    "height_cost",
    "height_layers",
    "decode_files",
    "decode_ply",
    "encode_files",
    "encode_ply",
    "inflate",
    "known_part",
    "load_checkpoint",
    "load_map",
    "mapper_state",
    "on_lattice",
    "pack_zip",
    "save_checkpoint",
    "save_map",
    "thumbnail",
    "unpack_zip",
    "update_costmap",
    "warm_up",
]


def warm_up(*, with_voxels: bool = True) -> None:
    """Compile every kernel, or load it from numba's cache, so that no frame waits for it.

    Args:
        with_voxels: those of the 3D layer too.
    """
    occupancy.warm_up()
    inflation.warm_up()
    likelihood.warm_up()
    if with_voxels:
        voxels.warm_up()
        _warm_up_height_cost()
