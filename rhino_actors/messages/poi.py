"""Points of interest."""

from dataclasses import dataclass
from typing import Literal

PoiFileKind = Literal["geojson", "csv"]


@dataclass(frozen=True, slots=True)
class Poi:
    """A named place."""

    id: str  # UUID
    robot: str
    label: str  # 1..200 characters, as the user wrote it
    x: float  # [m] in odom (map after relocalisation)
    y: float  # [m]
    z: float  # [m]
    map_id: str | None  # the saved map it belongs to; None: the running one
    created_at: float  # [s] since the Unix epoch
