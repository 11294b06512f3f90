"""PoiStore: the one actor that writes the database."""

import ray

from rhino_actors.config import RhinoConfig, database_path
from rhino_actors.messages.poi import Poi
from rhino_actors.storage.poi_db import PoiDatabase


class PoiStore:
    """Keeps the points of interest of all robots. Thin: `storage.poi_db` holds the rules.

    Reads:     nothing
    Publishes: Poi, and a version that counts every change
    A failed call changed nothing; a database that cannot be used fails each call, not the actor.
    """

    def __init__(self, config: RhinoConfig) -> None:
        self._database = PoiDatabase(database_path(config))

    @ray.method
    async def add(
        self, robot: str, label: str, x: float, y: float, z: float = 0.0, map_id: str | None = None
    ) -> Poi:
        """Store a new place. Raises InvalidLabel, InvalidRequest, StorageError."""
        return await self._database.add(robot, label, x, y, z, map_id)

    @ray.method
    async def list_pois(self, robot: str) -> tuple[Poi, ...]:
        """Return a robot's places, oldest first. Raises StorageError."""
        return await self._database.list_pois(robot)

    @ray.method
    async def get(self, poi_id: str) -> Poi:
        """Return a place. Raises PoiNotFound, StorageError."""
        return await self._database.get(poi_id)

    @ray.method
    async def rename(self, poi_id: str, label: str) -> Poi:
        """Give a place another label. Raises PoiNotFound, InvalidLabel, StorageError."""
        return await self._database.rename(poi_id, label)

    @ray.method
    async def delete(self, poi_id: str) -> None:
        """Forget a place. Raises PoiNotFound, StorageError."""
        await self._database.delete(poi_id)

    @ray.method
    async def version(self) -> int:
        """Return how often anything was changed, for `poi_update` events. Raises StorageError."""
        return await self._database.version()
