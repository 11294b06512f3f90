"""The mission log in the database. No Ray.

A record is written when the mission begins, while it runs and when it ends, each time as a whole. One that has no end
when the next life of its robot begins was cut off, and is marked so.
"""

import dataclasses
import json
import time
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from rhino_actors.errors import MissionNotFound
from rhino_actors.messages.missions import (
    MissionGoal,
    MissionKind,
    MissionRecord,
    MissionState,
    PatrolProgress,
    PatrolRouter,
    SkippedTarget,
)
from rhino_actors.storage.database import Database, mission_pictures, missions

_LONG = ("goals", "skipped")  # left out of the list
_columns = [column for column in missions.columns if column.name not in ("seq", "updated_at")]
_short = [column for column in _columns if column.name not in _LONG]


class MissionDatabase:
    """The missions of all robots.

    Args:
        database: shared with the points of interest and the saved maps.
        kept: missions of a robot; when there are more, the oldest go.
    """

    def __init__(self, database: Database, kept: int) -> None:
        self._database = database
        self._kept = kept

    async def save(self, record: MissionRecord, picture: bytes | None = None) -> None:
        """Write a mission down, in place of what was written of it before.

        Args:
            record: of the mission.
            picture: PNG; None: the one that it has stays, if it has one.

        Raises:
            StorageError: nothing was changed.
        """
        values = _values(record) | {"updated_at": time.time()}
        has_picture = {"has_picture": picture is not None}
        new = insert(missions).values(values | has_picture)
        if picture is not None:
            values |= has_picture
        async with self._database.changing(counts=False) as connection:
            await connection.execute(new.on_conflict_do_update(index_elements=["id"], set_=values))
            if picture is not None:
                drawn = insert(mission_pictures).values(id=record.id, png=picture)
                await connection.execute(
                    drawn.on_conflict_do_update(index_elements=["id"], set_={"png": picture})
                )
            await self._trim(connection, record.robot)

    async def interrupt(self, robot: str, reason: str, message: str) -> int:
        """Mark a robot's missions without an end as interrupted when they were last written; return how many.

        Raises:
            StorageError.
        """
        cut_off = sa.and_(missions.c.robot == robot, missions.c.ended_at.is_(None))
        async with self._database.changing(counts=False) as connection:
            done = await connection.execute(
                missions.update()
                .where(cut_off)
                .values(
                    ended_at=missions.c.updated_at,
                    state=MissionState.INTERRUPTED.value,
                    reason=reason,
                    message=message,
                )
            )
            return int(done.rowcount)

    async def list_missions(self, robot: str, limit: int = 50) -> tuple[MissionRecord, ...]:
        """Return a robot's missions, newest first, without their goals and what they left. Raises StorageError."""
        query = sa.select(*_short).where(missions.c.robot == robot)
        query = query.order_by(missions.c.seq.desc()).limit(limit)
        async with self._database.reading() as connection:
            return tuple(_record(row._mapping) for row in await connection.execute(query))

    async def get(self, mission_id: str) -> MissionRecord:
        """Return a mission. Raises MissionNotFound, StorageError."""
        query = sa.select(*_columns).where(missions.c.id == mission_id)
        async with self._database.reading() as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise _not_found(mission_id)
        return _record(row._mapping)

    async def picture(self, mission_id: str) -> bytes:
        """Return a mission's picture, PNG. Raises MissionNotFound, also when it has none; StorageError."""
        query = sa.select(mission_pictures.c.png).where(mission_pictures.c.id == mission_id)
        async with self._database.reading() as connection:
            png = await connection.scalar(query)
        if png is None:
            await self.get(mission_id)
            raise MissionNotFound("The mission has no picture.", "It is drawn when it ends.")
        return bytes(png)

    async def delete(self, mission_id: str) -> None:
        """Take a mission out of the log. Raises MissionNotFound, StorageError."""
        async with self._database.changing(counts=False) as connection:
            done = await connection.execute(missions.delete().where(missions.c.id == mission_id))
            if done.rowcount == 0:
                raise _not_found(mission_id)
            await connection.execute(
                mission_pictures.delete().where(mission_pictures.c.id == mission_id)
            )

    async def _trim(self, connection: AsyncConnection, robot: str) -> None:
        newest = sa.select(missions.c.id).where(missions.c.robot == robot)
        newest = newest.order_by(missions.c.seq.desc()).limit(self._kept)
        too_many = sa.and_(missions.c.robot == robot, missions.c.id.not_in(newest))
        gone = (await connection.scalars(sa.select(missions.c.id).where(too_many))).all()
        if gone:
            await connection.execute(missions.delete().where(missions.c.id.in_(gone)))
            await connection.execute(
                mission_pictures.delete().where(mission_pictures.c.id.in_(gone))
            )


def _values(record: MissionRecord) -> dict[str, Any]:
    names = [column.name for column in _columns if column.name != "has_picture"]
    values = {name: getattr(record, name) for name in names}
    values["kind"], values["state"] = record.kind.value, record.state.value
    for name in _LONG:
        values[name] = json.dumps([dataclasses.asdict(item) for item in values[name]])
    values["patrol"] = json.dumps(dataclasses.asdict(record.patrol)) if record.patrol else None
    return values


def _record(row: sa.RowMapping) -> MissionRecord:
    values: dict[str, Any] = dict(row)
    values["kind"], values["state"] = MissionKind(row["kind"]), MissionState(row["state"])
    if "goals" in values:
        values["goals"] = tuple(MissionGoal(**goal) for goal in json.loads(row["goals"]))
        values["skipped"] = tuple(SkippedTarget(**item) for item in json.loads(row["skipped"]))
    if row["patrol"] is not None:
        patrol = json.loads(row["patrol"])
        values["patrol"] = PatrolProgress(**patrol | {"router": PatrolRouter(patrol["router"])})
    return MissionRecord(**values)


def _not_found(mission_id: str) -> MissionNotFound:
    return MissionNotFound(f"There is no mission {mission_id!r:.60} in the log.")
