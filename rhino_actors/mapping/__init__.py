"""Maps from lidar frames, costs from maps, maps on disk. Pure: numpy in, numpy out."""

from rhino_actors.mapping import inflation, occupancy
from rhino_actors.mapping.checkpoint import load_checkpoint, save_checkpoint
from rhino_actors.mapping.inflation import InflatedCostmap, inflate, update_costmap
from rhino_actors.mapping.layers import MapLayers
from rhino_actors.mapping.map_files import load_map, save_map
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.mapping.tiles import MapTiles
from rhino_actors.mapping.window import CellWindow

__all__ = [
    "CellWindow",
    "InflatedCostmap",
    "MapLayers",
    "MapTiles",
    "OccupancyMapper",
    "inflate",
    "load_checkpoint",
    "load_map",
    "save_checkpoint",
    "save_map",
    "update_costmap",
    "warm_up",
]


def warm_up() -> None:
    """Compile every kernel, or load it from numba's cache, so that no frame waits for it."""
    occupancy.warm_up()
    inflation.warm_up()
