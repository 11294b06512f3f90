"""The one database: SQLite through SQLAlchemy, write-ahead log, one file. No Ray.

An answer is given after its transaction is on disk (`synchronous=FULL`): it survives a kill -9 of the process and
a battery that is pulled. Writes are rare, so the price, one fsync each, does not matter. Several processes may have
the file open; a write that finds the file locked waits for BUSY_TIMEOUT_S.
"""

import asyncio
import math
import time
import unicodedata
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from rhino_actors.errors import InvalidLabel, InvalidRequest, PoiNotFound, StorageError
from rhino_actors.messages.poi import Poi

SCHEMA_VERSION = 1  # `PRAGMA user_version` of the files that this module writes
BUSY_TIMEOUT_S = 2.0  # the API gives a call up after 5 s, and the hint must reach the client before
MAX_LABEL_LENGTH = 200  # characters

# Unicode categories: control, surrogate, line and paragraph separator; with those that leave no mark.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})
_INVISIBLE = _REFUSED | {"Zs", "Cf"}

_HINT_FILE = "Check that the folder can be written and has room, or set store.path to another file."
_HINT_BUSY = "Another program holds the database; try again."
_HINT_DAMAGED = (
    "Move the file away and put back a copy, or start with an empty one; rhino leaves it as it is."
)

_metadata = sa.MetaData()
_pois = sa.Table(
    "pois",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True),  # order of creation
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("robot", sa.Text, nullable=False, index=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("x", sa.Double, nullable=False),
    sa.Column("y", sa.Double, nullable=False),
    sa.Column("z", sa.Double, nullable=False),
    sa.Column("map_id", sa.Text),
    sa.Column("created_at", sa.Double, nullable=False),  # Unix epoch: SQLite's dates lose the zone
)
_changes = sa.Table(  # one row: how often anything was changed, by any process, ever
    "changes",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
)
_poi_columns = [column for column in _pois.columns if column.name != "seq"]


class PoiDatabase:
    """Points of interest in one SQLite file.

    The file is opened by the first call, and again by the next one when that failed: a file that was put right is
    used without a restart. A file that cannot be used is never changed.

    Args:
        path: database file; it and its folder are made when they are missing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine: AsyncEngine | None = None
        self._opening = asyncio.Lock()
        self._writing = asyncio.Lock()  # first come, first served: SQLite's own wait is not fair

    async def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.dispose()

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
            map_id: saved map it belongs to; None for the running one.

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
        values = {column.name: getattr(poi, column.name) for column in _poi_columns}
        async with self._changing() as connection:
            await connection.execute(_pois.insert().values(values))
        return poi

    async def list_pois(self, robot: str) -> tuple[Poi, ...]:
        """Return the places of a robot, oldest first. Raises StorageError."""
        query = sa.select(*_poi_columns).where(_pois.c.robot == robot).order_by(_pois.c.seq)
        async with self._reading() as connection:
            return tuple(Poi(**row._mapping) for row in await connection.execute(query))

    async def get(self, poi_id: str) -> Poi:
        """Return a place. Raises PoiNotFound, StorageError."""
        async with self._reading() as connection:
            return await _one(connection, poi_id)

    async def rename(self, poi_id: str, label: str) -> Poi:
        """Give a place another label and return it. Raises PoiNotFound, InvalidLabel, StorageError."""
        label = check_label(label)
        async with self._changing() as connection:
            await connection.execute(_pois.update().where(_pois.c.id == poi_id).values(label=label))
            return await _one(connection, poi_id)

    async def delete(self, poi_id: str) -> None:
        """Forget a place. Raises PoiNotFound, StorageError."""
        async with self._changing() as connection:
            done = await connection.execute(_pois.delete().where(_pois.c.id == poi_id))
            if done.rowcount == 0:
                raise PoiNotFound(f"There is no point of interest {poi_id!r:.60}.")

    async def version(self) -> int:
        """Return how often anything was changed, by any process, since the file was made. Raises StorageError."""
        async with self._reading() as connection:
            return int(await connection.scalar(sa.select(_changes.c.count)) or 0)

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        engine = await self._open()
        with _storage_errors(self._path):
            async with engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[AsyncConnection]:
        """Give one transaction, undone by any exception.

        Its first statement writes: so the lock is taken, or waited for, before anything is read. A transaction that
        reads first cannot wait, and fails when another process wrote in between.
        """
        engine = await self._open()
        with _storage_errors(self._path):
            async with self._writing, engine.begin() as connection:
                await connection.execute(_changes.update().values(count=_changes.c.count + 1))
                yield connection

    async def _open(self) -> AsyncEngine:
        async with self._opening:
            if self._engine is None:
                with _storage_errors(self._path):
                    await asyncio.to_thread(_prepare, self._path)
                self._engine = create_async_engine(
                    sa.URL.create("sqlite+aiosqlite", database=str(self._path.absolute())),
                    connect_args={"timeout": BUSY_TIMEOUT_S},
                    pool_size=2,  # one connection, and its thread, to write and one to read
                    max_overflow=0,
                )
                sa.event.listen(self._engine.sync_engine, "connect", _configure)
            return self._engine


def check_label(label: object) -> str:
    """Return the label as it is, or raise InvalidLabel.

    A label has 1 to 200 characters, at least one of them visible. Any script, emoji, quote or markup is stored as
    it is; control characters and line breaks are refused, because they would act on the terminal or log they are
    shown in.
    """
    if not isinstance(label, str):
        raise InvalidLabel(f"A label is text, not {type(label).__name__}.")
    if len(label) > MAX_LABEL_LENGTH:
        raise InvalidLabel(
            f"The label has {len(label)} characters; {MAX_LABEL_LENGTH} are the most."
        )
    categories = {unicodedata.category(character) for character in label}
    if categories <= _INVISIBLE:
        raise InvalidLabel("The label is empty or only white space.")
    if categories & _REFUSED:
        raise InvalidLabel("The label has control characters or line breaks.")
    return label


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
    query = sa.select(*_poi_columns).where(_pois.c.id == poi_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise PoiNotFound(f"There is no point of interest {poi_id!r:.60}.")
    return Poi(**row._mapping)


def _configure(connection: Any, _record: object) -> None:
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _prepare(path: Path) -> None:
    """Make the file if it is missing, and refuse one that cannot be used, without changing it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path.absolute())),
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},  # BEGIN is ours
        poolclass=sa.NullPool,
    )
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # two processes may start at once
        version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
        tables = sa.inspect(connection).get_table_names()
        if version > SCHEMA_VERSION:
            raise StorageError(
                f"{path} was written by a newer rhino (schema {version}, known: {SCHEMA_VERSION}).",
                "Update rhino, or set store.path to another file.",
            )
        if version == 0 and tables:
            raise StorageError(
                f"{path} is the database of another program.", "Set store.path to another file."
            )
        damage = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
        if damage != "ok":
            raise StorageError(f"{path} is damaged: {damage}.", _HINT_DAMAGED)
        if version == 0:
            _metadata.create_all(connection)
            connection.execute(_changes.insert().values(id=1, count=0))
            connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.exec_driver_sql("COMMIT")
        _write_ahead(connection)


def _write_ahead(connection: sa.Connection) -> None:
    """Switch the file to its write-ahead log, for good. SQLite does not wait for a lock here, so this does."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
            return
        except OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    """Turn what SQLAlchemy, SQLite and the file system raise into a StorageError that names the file."""
    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        cause = str(getattr(error, "orig", None) or error)
        hint = _HINT_FILE
        if "locked" in cause or "QueuePool" in cause:
            hint = _HINT_BUSY
        elif "malformed" in cause or "not a database" in cause:
            hint = _HINT_DAMAGED
        raise StorageError(f"{path} cannot be used: {cause}.", hint) from error
