"""The one database: SQLite through SQLAlchemy, write-ahead log, one file. No Ray.

An answer is given after its transaction is on disk (`synchronous=FULL`): it survives a kill -9 of the process and
a battery that is pulled. Writes are rare, so the price, one fsync each, does not matter. Several processes may have
the file open; a write that finds the file locked waits for BUSY_TIMEOUT_S.
"""

import asyncio
import time
import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from rhino_actors.errors import InvalidLabel, StorageError

SCHEMA_VERSION = 3  # `PRAGMA user_version` of the files that this module writes
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
pois = sa.Table(
    "pois",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True),  # order of creation
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("robot", sa.Text, nullable=False, index=True),
    # Since schema 3: where it stands in the robot's list, lowest first; gaps do not matter.
    sa.Column("position", sa.Integer, nullable=False, server_default="0"),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("x", sa.Double, nullable=False),
    sa.Column("y", sa.Double, nullable=False),
    sa.Column("z", sa.Double, nullable=False),
    sa.Column("map_id", sa.Text),
    sa.Column("created_at", sa.Double, nullable=False),  # Unix epoch: SQLite's dates lose the zone
)
changes = sa.Table(  # one row: how often anything was changed, by any process, ever
    "changes",
    _metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("count", sa.Integer, nullable=False),
)
maps = sa.Table(  # since schema 2
    "maps",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True),  # order of creation
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("robot", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    # What must differ: names that look alike do not.
    sa.Column("name_key", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("resolution", sa.Double, nullable=False),
    sa.Column("origin_x", sa.Double, nullable=False),
    sa.Column("origin_y", sa.Double, nullable=False),
    sa.Column("rows", sa.Integer, nullable=False),
    sa.Column("cols", sa.Integer, nullable=False),
    sa.Column("known_area", sa.Double, nullable=False),
    sa.Column("voxels", sa.Integer, nullable=False),
    sa.Column("size", sa.Integer, nullable=False),
    sa.Column("frame", sa.Text, nullable=False),
    sa.Column("thumbnail", sa.LargeBinary, nullable=False),
    sa.UniqueConstraint("robot", "name_key"),
)
running_maps = sa.Table(  # since schema 2: what a robot's map was last saved as, or loaded from
    "running_maps",
    _metadata,
    sa.Column("robot", sa.Text, primary_key=True),
    sa.Column("epoch", sa.Integer, nullable=False),  # of the mapper; with another one it is not so
    sa.Column("map_id", sa.Text, nullable=False),
)
missions = sa.Table(  # since schema 3: the mission log
    "missions",
    _metadata,
    sa.Column("seq", sa.Integer, primary_key=True),  # order of creation
    sa.Column("id", sa.Text, nullable=False, unique=True),
    sa.Column("robot", sa.Text, nullable=False, index=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("client", sa.Text, nullable=False),
    sa.Column("started_at", sa.Double, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),  # when it was written last
    sa.Column("ended_at", sa.Double),  # null: it runs, or its process was killed
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("message", sa.Text, nullable=False),
    sa.Column("distance", sa.Double, nullable=False),
    sa.Column("elapsed", sa.Double, nullable=False),
    sa.Column("known_area", sa.Double, nullable=False),
    sa.Column("explored_share", sa.Double),
    sa.Column("goals_reached", sa.Integer, nullable=False),
    sa.Column("goals_failed", sa.Integer, nullable=False),
    sa.Column("map_id", sa.Text),
    sa.Column("goals", sa.Text, nullable=False),  # JSON, as are the next two
    sa.Column("skipped", sa.Text, nullable=False),
    sa.Column("patrol", sa.Text),
    sa.Column("has_picture", sa.Boolean, nullable=False),
)
mission_pictures = sa.Table(  # since schema 3; apart, so that the log is read without them
    "mission_pictures",
    _metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("png", sa.LargeBinary, nullable=False),
)


class Database:
    """One SQLite file.

    The file is opened by the first call, and again by the next one when that failed: a file that was put right is
    used without a restart. A file of an older schema is brought up to date, keeping all it holds. A file that cannot
    be used is never changed.

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

    async def version(self) -> int:
        """Return how often anything was changed, by any process, since the file was made. Raises StorageError."""
        async with self.reading() as connection:
            return int(await connection.scalar(sa.select(changes.c.count)) or 0)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """Give a connection to read. Raises StorageError."""
        engine = await self._open()
        with storage_errors(self._path):
            async with engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def changing(self, *, counts: bool = True) -> AsyncIterator[AsyncConnection]:
        """Give one transaction, undone by any exception.

        Its first statement writes: so the lock is taken, or waited for, before anything is read. A transaction that
        reads first cannot wait, and fails when another process wrote in between. Raises StorageError.

        Args:
            counts: `version` grows. The mission log does not count: nobody has to read places and maps again for it.
        """
        engine = await self._open()
        step = 1 if counts else 0
        with storage_errors(self._path):
            async with self._writing, engine.begin() as connection:
                await connection.execute(changes.update().values(count=changes.c.count + step))
                yield connection

    async def _open(self) -> AsyncEngine:
        async with self._opening:
            if self._engine is None:
                with storage_errors(self._path):
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


def _configure(connection: Any, _record: object) -> None:
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _prepare(path: Path) -> None:
    """Make the file if it is missing, bring an older one up to date, and leave alone one that cannot be used."""
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
        if version < SCHEMA_VERSION:
            # Tables that are not there are made; those that are stay as they are, but for the columns of schema 3.
            _metadata.create_all(connection)
            if version == 0:
                connection.execute(changes.insert().values(id=1, count=0))
            elif version < 3:
                _upgrade_3(connection)
            connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.exec_driver_sql("COMMIT")
        _write_ahead(connection)


def _upgrade_3(connection: sa.Connection) -> None:
    """Bring the tables of schema 1 or 2 to schema 3: places have a position, at first that of their creation."""
    connection.exec_driver_sql("ALTER TABLE pois ADD COLUMN position INTEGER NOT NULL DEFAULT 0")
    connection.execute(pois.update().values(position=pois.c.seq))


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
def storage_errors(path: Path) -> Iterator[None]:
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
