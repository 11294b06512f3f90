"""PoiStore: the one actor that writes the database."""

import asyncio
from collections.abc import Mapping, Sequence

import numpy as np
import ray

from rhino_actors.config import RhinoConfig, data_dir, database_path
from rhino_actors.mapping import (
    decode_files,
    encode_files,
    known_part,
    pack_zip,
    thumbnail,
    unpack_zip,
)
from rhino_actors.messages.maps import MapContent, SavedMap
from rhino_actors.messages.missions import MissionRecord
from rhino_actors.messages.poi import Poi, PoiFileKind
from rhino_actors.storage.database import Database
from rhino_actors.storage.map_db import MapDatabase
from rhino_actors.storage.mission_db import MissionDatabase
from rhino_actors.storage.poi_db import PoiDatabase
from rhino_actors.storage.poi_files import read_places, to_csv, to_geojson


class PoiStore:
    """Keeps places, saved maps and the mission log of all robots. Thin: `storage` and `mapping` hold the rules.

    Reads:     nothing
    Publishes: Poi, SavedMap, MapContent, MissionRecord, and a version that counts every change of places and maps
    A failed call changed nothing; a database that cannot be used fails each call, not the actor.
    """

    def __init__(self, config: RhinoConfig) -> None:
        database = Database(database_path(config))
        self._database = PoiDatabase(database)
        self._maps = MapDatabase(database, data_dir(config.paths) / "maps")
        self._missions = MissionDatabase(database, config.store.missions_kept)
        # A large one takes hundreds of MB while it is packed or read.
        self._one_map = asyncio.Lock()

    @ray.method
    async def add(
        self, robot: str, label: str, x: float, y: float, z: float = 0.0, map_id: str | None = None
    ) -> Poi:
        """Store a new place. Raises InvalidLabel, InvalidRequest, StorageError."""
        return await self._database.add(robot, label, x, y, z, map_id)

    @ray.method
    async def list_pois(self, robot: str) -> tuple[Poi, ...]:
        """Return a robot's places in their order. Raises StorageError."""
        return await self._database.list_pois(robot)

    @ray.method
    async def get(self, poi_id: str) -> Poi:
        """Return a place. Raises PoiNotFound, StorageError."""
        return await self._database.get(poi_id)

    @ray.method
    async def change(
        self,
        poi_id: str,
        label: str | None = None,
        x: float | None = None,
        y: float | None = None,
        z: float | None = None,
    ) -> Poi:
        """Rename or move a place. Raises PoiNotFound, InvalidLabel, InvalidRequest, StorageError."""
        return await self._database.change(poi_id, label, x, y, z)

    @ray.method
    async def order(self, robot: str, ids: Sequence[str]) -> tuple[Poi, ...]:
        """Put all places of a robot in this order. Raises PoiListChanged, StorageError."""
        return await self._database.order(robot, ids)

    @ray.method
    async def export_pois(self, robot: str, kind: PoiFileKind) -> bytes:
        """Return a robot's places as a file. Raises StorageError."""
        write = {"csv": to_csv, "geojson": to_geojson}[kind]
        return await asyncio.to_thread(write, await self._database.list_pois(robot))

    @ray.method
    async def import_pois(
        self, robot: str, content: bytes, map_id: str | None, rebind: bool = False
    ) -> tuple[Poi, ...]:
        """Store the places of a file, all or none; see `PoiDatabase.take_over`. Raises PoiFileInvalid, StorageError."""
        entries = await asyncio.to_thread(read_places, content)
        return await self._database.take_over(robot, entries, map_id, rebind=rebind)

    @ray.method
    async def delete(self, poi_id: str) -> None:
        """Forget a place. Raises PoiNotFound, StorageError."""
        await self._database.delete(poi_id)

    @ray.method
    async def version(self) -> int:
        """Return how often anything was changed, for `poi_update` events. Raises StorageError."""
        return await self._database.version()

    @ray.method
    async def save_map(self, robot: str, name: str, content: MapContent) -> SavedMap:
        """Keep the known part of a map, and bind the places that were named on it.

        Raises:
            InvalidLabel, MapNameTaken, StorageError.
        """
        async with self._one_map:
            return await self._keep(robot, name, await asyncio.to_thread(known_part, content))

    @ray.method
    async def import_map(self, robot: str, name: str, files: Mapping[str, bytes]) -> SavedMap:
        """Keep a map that somebody sent.

        Args:
            robot: whose map it is.
            name: for the map.
            files: a zip alone, or a yaml, the image that it names and maybe a ply, by file name. Not to be trusted.

        Raises:
            MapFileInvalid, MapTooLarge, InvalidLabel, MapNameTaken, StorageError.
        """

        def read() -> MapContent:
            names = list(files)
            if len(names) == 1 and names[0].lower().endswith(".zip"):
                return decode_files(unpack_zip(files[names[0]]))
            return decode_files(files)

        async with self._one_map:
            return await self._keep(robot, name, await asyncio.to_thread(read))

    @ray.method
    async def list_maps(self, robot: str) -> tuple[SavedMap, ...]:
        """Return a robot's maps, oldest first. Raises StorageError."""
        return await self._maps.list_maps(robot)

    @ray.method
    async def get_map(self, map_id: str) -> SavedMap:
        """Return what is known of a map. Raises MapNotFound, StorageError."""
        return await self._maps.get(map_id)

    @ray.method
    async def open_map(self, map_id: str) -> MapContent:
        """Return a map's layers. Raises MapNotFound, MapFileInvalid (damaged since), StorageError."""
        async with self._one_map:
            return await asyncio.to_thread(decode_files, await self._maps.files(map_id))

    @ray.method
    async def export_map(self, map_id: str) -> bytes:
        """Return a zip of yaml, pgm and, where there are voxels, ply. Raises MapNotFound, StorageError."""
        async with self._one_map:
            return await asyncio.to_thread(pack_zip, await self._maps.files(map_id))

    @ray.method
    async def map_thumbnail(self, map_id: str) -> bytes:
        """Return a small picture of a map, as PGM. Raises MapNotFound, StorageError."""
        return await self._maps.thumbnail(map_id)

    @ray.method
    async def rename_map(self, map_id: str, name: str) -> SavedMap:
        """Give a map another name. Raises MapNotFound, InvalidLabel, MapNameTaken, StorageError."""
        return await self._maps.rename(map_id, name)

    @ray.method
    async def delete_map(self, map_id: str, force: bool = False) -> None:
        """Forget a map, see `MapDatabase.delete`. Raises MapNotFound, MapInUse, StorageError."""
        await self._maps.delete(map_id, force=force)

    @ray.method
    async def note_loaded(self, robot: str, map_id: str, epoch: int) -> None:
        """Remember which saved map a robot's mapper goes on with. Raises MapNotFound, StorageError."""
        await self._maps.note_loaded(robot, map_id, epoch)

    @ray.method
    async def map_in_force(self, robot: str, epoch: int) -> SavedMap | None:
        """Return the saved map whose coordinates the running map has, if there is one. Raises StorageError."""
        return await self._maps.in_force(robot, epoch)

    @ray.method
    async def save_mission(self, record: MissionRecord, picture: bytes | None = None) -> None:
        """Write a mission down, see `MissionDatabase.save`. Raises StorageError."""
        await self._missions.save(record, picture)

    @ray.method
    async def interrupt_missions(self, robot: str, reason: str, message: str) -> int:
        """Mark a robot's missions that have no end as interrupted; return how many. Raises StorageError."""
        return await self._missions.interrupt(robot, reason, message)

    @ray.method
    async def list_missions(self, robot: str, limit: int = 50) -> tuple[MissionRecord, ...]:
        """Return a robot's missions, newest first, without goals and what they left. Raises StorageError."""
        return await self._missions.list_missions(robot, limit)

    @ray.method
    async def get_mission(self, mission_id: str) -> MissionRecord:
        """Return a mission. Raises MissionNotFound, StorageError."""
        return await self._missions.get(mission_id)

    @ray.method
    async def mission_picture(self, mission_id: str) -> bytes:
        """Return a mission's picture, PNG. Raises MissionNotFound, also when it has none; StorageError."""
        return await self._missions.picture(mission_id)

    @ray.method
    async def delete_mission(self, mission_id: str) -> None:
        """Take a mission out of the log. Raises MissionNotFound, StorageError."""
        await self._missions.delete(mission_id)

    async def _keep(self, robot: str, name: str, content: MapContent) -> SavedMap:
        def encode() -> tuple[dict[str, bytes], int, bytes]:
            known = int(np.count_nonzero(content.occupancy >= 0))
            return encode_files(content), known, thumbnail(known_part(content).occupancy)

        files, known, picture = await asyncio.to_thread(encode)
        return await self._maps.add(
            robot,
            name,
            files,
            geometry=content.geometry,
            known_area=known * content.geometry.resolution**2,
            voxels=len(content.voxels) if content.voxels is not None else 0,
            thumbnail=picture,
            epoch=content.epoch,
        )
