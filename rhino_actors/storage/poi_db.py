"""Points of interest in the database. No Ray."""

import math
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from rhino_actors.errors import InvalidRequest, PoiFileInvalid, PoiListChanged, PoiNotFound
from rhino_actors.messages.poi import Poi
from rhino_actors.storage.database import Database, check_label, maps, pois
from rhino_actors.storage.poi_files import PoiEntry

_columns = [column for column in pois.columns if column.name not in ("seq", "position")]


class PoiDatabase:
    """Points of interest in one SQLite file.

    Args:
        source: the database, or the path of its file.
    """

    def __init__(self, source: Database | Path) -> None:
        self._database = source if isinstance(source, Database) else Database(source)

    async def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again."""
        await self._database.close()

    async def add(
        self, robot: str, label: str, x: float, y: float, z: float = 0.0, map_id: str | None = None
    ) -> Poi:
        """Store a new place, last of the robot's, and return it. Labels need not be unique: ids tell places apart.

        Args:
            robot: name of the robot it belongs to.
            label: kept as it is, see `check_label`.
            x: in odom, or in the frame of the map that `map_id` names [m].
            y: as x [m].
            z: as x [m].
            map_id: saved map it lies on; None: the running one, which was not saved yet.

        Raises:
            InvalidLabel, InvalidRequest (a coordinate that is not finite), StorageError.
        """
        poi = Poi(
            id=str(uuid.uuid4()),
            robot=robot,
            label=check_label(label),
            x=_finite("x", x),
            y=_finite("y", y),
            z=_finite("z", z),
            map_id=map_id,
            created_at=time.time(),
        )
        async with self._database.changing() as connection:
            await _insert(connection, poi)
        return poi

    async def list_pois(self, robot: str) -> tuple[Poi, ...]:
        """Return the places of a robot: oldest first, until `order` says another. Raises StorageError."""
        async with self._database.reading() as connection:
            return await _all(connection, robot)

    async def get(self, poi_id: str) -> Poi:
        """Return a place. Raises PoiNotFound, StorageError."""
        async with self._database.reading() as connection:
            return await _one(connection, poi_id)

    async def change(
        self,
        poi_id: str,
        label: str | None = None,
        x: float | None = None,
        y: float | None = None,
        z: float | None = None,
    ) -> Poi:
        """Rename or move a place, and return it. What is None stays as it is.

        Args:
            poi_id: of the place.
            label: see `check_label`.
            x: in the frame of the place's own map [m].
            y: as x [m].
            z: as x [m].

        Raises:
            PoiNotFound, InvalidLabel, StorageError.
            InvalidRequest: a coordinate that is not finite, or nothing to change.
        """
        values: dict[str, object] = {
            name: _finite(name, value)
            for name, value in (("x", x), ("y", y), ("z", z))
            if value is not None
        }
        if label is not None:
            values["label"] = check_label(label)
        if not values:
            raise InvalidRequest("There is nothing to change.", "Give a label, x, y or z.")
        async with self._database.changing() as connection:
            await connection.execute(pois.update().where(pois.c.id == poi_id).values(values))
            return await _one(connection, poi_id)

    async def order(self, robot: str, ids: Sequence[str]) -> tuple[Poi, ...]:
        """Put the places of a robot in this order, all or none, and return them so.

        Raises:
            PoiListChanged: the ids are not those of all its places, each once.
            StorageError.
        """
        async with self._database.changing() as connection:
            there = {poi.id for poi in await _all(connection, robot)}
            if len(set(ids)) != len(ids):
                raise PoiListChanged("The order names a place twice.")
            if unknown := [poi_id for poi_id in ids if poi_id not in there]:
                raise PoiListChanged(f"There is no point of interest {unknown[0]!r:.60}.")
            if left_out := len(there) - len(ids):
                raise PoiListChanged(
                    f"The order leaves {left_out} of {len(there)} places out.",
                )
            for position, poi_id in enumerate(ids, 1):
                await connection.execute(
                    pois.update().where(pois.c.id == poi_id).values(position=position)
                )
            return await _all(connection, robot)

    async def take_over(
        self, robot: str, entries: Sequence[PoiEntry], map_id: str | None, *, rebind: bool = False
    ) -> tuple[Poi, ...]:
        """Store the places of a file, all or none, and return them.

        A place whose id the robot has already is overwritten and keeps its position; the others come last, in the
        order of the file.

        Args:
            robot: whose places they are.
            entries: see `read_places`.
            map_id: saved map of the places whose map the file does not say.
            rebind: all lie on that one, whatever the file says.

        Raises:
            PoiFileInvalid: a map that is not there, or an id that another robot's place has.
            StorageError.
        """
        taken: list[Poi] = []
        async with self._database.changing() as connection:
            robot_of = {
                row.id: row.robot
                for row in await connection.execute(sa.select(pois.c.id, pois.c.robot))
            }
            known_maps = set(
                (
                    await connection.execute(sa.select(maps.c.id).where(maps.c.robot == robot))
                ).scalars()
            )
            for entry in entries:
                if entry.id is not None and robot_of.get(entry.id, robot) != robot:
                    raise PoiFileInvalid(
                        f"{_at(entry)}: the id is that of another robot's place.",
                        "Leave the id out, and the place gets a new one.",
                    )
                own_map = entry.map_id if entry.has_map_id and not rebind else map_id
                if own_map is not None and own_map not in known_maps and own_map != map_id:
                    raise PoiFileInvalid(
                        f"{_at(entry)}: the robot has no saved map {own_map}.",
                        "Load the map that the places lie on, and import with onto_running_map.",
                    )
                poi = Poi(
                    id=entry.id or str(uuid.uuid4()),
                    robot=robot,
                    label=entry.label,
                    x=entry.x,
                    y=entry.y,
                    z=entry.z,
                    map_id=own_map,
                    created_at=time.time() if entry.created_at is None else entry.created_at,
                )
                if poi.id in robot_of:
                    values = {column.name: getattr(poi, column.name) for column in _columns}
                    await connection.execute(
                        pois.update().where(pois.c.id == poi.id).values(values)
                    )
                else:
                    await _insert(connection, poi)
                taken.append(poi)
        return tuple(taken)

    async def delete(self, poi_id: str) -> None:
        """Forget a place. Raises PoiNotFound, StorageError."""
        async with self._database.changing() as connection:
            done = await connection.execute(pois.delete().where(pois.c.id == poi_id))
            if done.rowcount == 0:
                raise PoiNotFound(f"There is no point of interest {poi_id!r:.60}.")

    async def version(self) -> int:
        """Return how often anything was changed, by any process, since the file was made. Raises StorageError."""
        return await self._database.version()


def _finite(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_finite(value):
        raise InvalidRequest(f"{name} must be a finite number in m, not {value!r:.40}.")
    return float(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every float
        return False


def _at(entry: PoiEntry) -> str:
    return f"{entry.where[0].upper()}{entry.where[1:]}"


async def _insert(connection: AsyncConnection, poi: Poi) -> None:
    values = {column.name: getattr(poi, column.name) for column in _columns}
    last = sa.select(sa.func.coalesce(sa.func.max(pois.c.position), 0)).where(
        pois.c.robot == poi.robot
    )
    await connection.execute(pois.insert().values(**values, position=last.scalar_subquery() + 1))


async def _all(connection: AsyncConnection, robot: str) -> tuple[Poi, ...]:
    query = sa.select(*_columns).where(pois.c.robot == robot).order_by(pois.c.position, pois.c.seq)
    return tuple(Poi(**row._mapping) for row in await connection.execute(query))


async def _one(connection: AsyncConnection, poi_id: str) -> Poi:
    query = sa.select(*_columns).where(pois.c.id == poi_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise PoiNotFound(f"There is no point of interest {poi_id!r:.60}.")
    return Poi(**row._mapping)
