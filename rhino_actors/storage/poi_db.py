"""Points of interest in the database. No Ray."""

import math
import time
import uuid
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from rhino_actors.errors import InvalidRequest, PoiNotFound
from rhino_actors.messages.poi import Poi
from rhino_actors.storage.database import Database, check_label, pois

_columns = [column for column in pois.columns if column.name != "seq"]


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
        """Store a new place and return it. Labels need not be unique: the id tells places apart.

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
        values = {column.name: getattr(poi, column.name) for column in _columns}
        async with self._database.changing() as connection:
            await connection.execute(pois.insert().values(values))
        return poi

    async def list_pois(self, robot: str) -> tuple[Poi, ...]:
        """Return the places of a robot, oldest first. Raises StorageError."""
        query = sa.select(*_columns).where(pois.c.robot == robot).order_by(pois.c.seq)
        async with self._database.reading() as connection:
            return tuple(Poi(**row._mapping) for row in await connection.execute(query))

    async def get(self, poi_id: str) -> Poi:
        """Return a place. Raises PoiNotFound, StorageError."""
        async with self._database.reading() as connection:
            return await _one(connection, poi_id)

    async def rename(self, poi_id: str, label: str) -> Poi:
        """Give a place another label and return it. Raises PoiNotFound, InvalidLabel, StorageError."""
        label = check_label(label)
        async with self._database.changing() as connection:
            await connection.execute(pois.update().where(pois.c.id == poi_id).values(label=label))
            return await _one(connection, poi_id)

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


async def _one(connection: AsyncConnection, poi_id: str) -> Poi:
    query = sa.select(*_columns).where(pois.c.id == poi_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise PoiNotFound(f"There is no point of interest {poi_id!r:.60}.")
    return Poi(**row._mapping)
