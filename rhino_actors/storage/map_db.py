"""Saved maps: a row in the database for what is known of each, a folder for its files. No Ray.

A map is there when its row is. Its folder is complete and on the disk before the row is written, and goes after the
row is gone: whoever is killed half-way leaves at most a folder that nothing names, and the next start removes it.
"""

import asyncio
import contextlib
import os
import shutil
import time
import unicodedata
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from rhino_actors.errors import MapInUse, MapNameTaken, MapNotFound, StorageError
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.maps import SavedMap
from rhino_actors.storage.database import Database, check_label, maps, pois, running_maps

# A folder without a row is removed when it is older: another process may be about to write the row.
ORPHAN_AGE_S = 3600.0

_HINT_FOLDER = "Look at the folder's owner and the room on the disk."
_columns = [
    column for column in maps.columns if column.name not in ("seq", "name_key", "thumbnail")
]


class MapDatabase:
    """The saved maps of all robots.

    Args:
        database: shared with the points of interest, which lie on maps.
        folder: holds a folder per map, named by its id; made when it is missing.
    """

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self._folder = folder
        self._is_swept = False

    async def add(
        self,
        robot: str,
        name: str,
        files: Mapping[str, bytes],
        *,
        geometry: GridGeometry,
        known_area: float,
        voxels: int,
        thumbnail: bytes,
        epoch: int = 0,
    ) -> SavedMap:
        """Store a map and return what is known of it.

        A map that was taken from the running one keeps its coordinates: it has the frame of the saved map that the
        running one goes on from, if it does, and the places that were named on the running map since lie on it.

        Args:
            robot: whose map it is.
            name: kept as it is, see `check_label`; no two maps of a robot may have names that look the same.
            files: content by file name.
            geometry: of its grid.
            known_area: of its grid [m2].
            voxels: centres in its 3D layer.
            thumbnail: small picture, kept beside the row.
            epoch: in which the running map that it is of got its coordinates [ms since the Unix epoch]; 0: of none.

        Raises:
            InvalidLabel, MapNameTaken, StorageError.
        """
        map_id = str(uuid.uuid4())
        check_label(name)
        await self._check_name(robot, name)
        await self._sweep_once()
        with _folder_errors(self._folder):
            await asyncio.to_thread(_write_folder, self._folder, map_id, files)
        saved = SavedMap(
            id=map_id,
            robot=robot,
            name=name,
            created_at=time.time(),
            geometry=geometry,
            known_area=known_area,
            voxels=voxels,
            size=sum(map(len, files.values())),
            frame=map_id,
        )
        try:
            return await self._insert(saved, thumbnail, epoch)
        except BaseException:
            shutil.rmtree(self._folder / map_id, ignore_errors=True)
            raise

    async def list_maps(self, robot: str) -> tuple[SavedMap, ...]:
        """Return the maps of a robot, oldest first. Raises StorageError."""
        query = sa.select(*_columns).where(maps.c.robot == robot).order_by(maps.c.seq)
        async with self._database.reading() as connection:
            return tuple(_saved(row._mapping) for row in await connection.execute(query))

    async def get(self, map_id: str) -> SavedMap:
        """Return what is known of a map. Raises MapNotFound, StorageError."""
        async with self._database.reading() as connection:
            return await _one(connection, map_id)

    async def files(self, map_id: str) -> dict[str, bytes]:
        """Return a map's files by name. Raises MapNotFound; StorageError, also when they are gone."""
        saved = await self.get(map_id)
        with _folder_errors(self._folder / saved.id):
            return await asyncio.to_thread(_read_folder, self._folder / saved.id)

    async def thumbnail(self, map_id: str) -> bytes:
        """Return a map's small picture. Raises MapNotFound, StorageError."""
        query = sa.select(maps.c.thumbnail).where(maps.c.id == map_id)
        async with self._database.reading() as connection:
            picture = await connection.scalar(query)
        if picture is None:
            raise _not_found(map_id)
        return bytes(picture)

    async def rename(self, map_id: str, name: str) -> SavedMap:
        """Give a map another name and return it. Raises MapNotFound, InvalidLabel, MapNameTaken, StorageError."""
        values = {"name": check_label(name), "name_key": _key(name)}
        async with self._database.changing() as connection:
            with _name_is_free(name):
                await connection.execute(maps.update().where(maps.c.id == map_id).values(values))
            return await _one(connection, map_id)

    async def delete(self, map_id: str, *, force: bool = False) -> None:
        """Forget a map and remove its files.

        Places that lie on it go over to the newest other map of the same frame. Without one the map stays, unless
        `force`: then its places are forgotten too.

        Raises:
            MapNotFound, StorageError.
            MapInUse: places lie on it and on no other map; not with `force`.
        """
        async with self._database.changing() as connection:
            saved = await _one(connection, map_id)
            placed = pois.c.map_id == map_id
            twin = await connection.scalar(
                sa.select(maps.c.id)
                .where(maps.c.frame == saved.frame, maps.c.id != map_id)
                .order_by(maps.c.seq.desc())
                .limit(1)
            )
            count = int(
                await connection.scalar(sa.select(sa.func.count()).select_from(pois).where(placed))
                or 0
            )
            if twin is not None:
                await connection.execute(pois.update().where(placed).values(map_id=twin))
                await connection.execute(
                    running_maps.update().where(running_maps.c.map_id == map_id).values(map_id=twin)
                )
            elif count and not force:
                places = "1 place lies" if count == 1 else f"{count} places lie"
                raise MapInUse(f"{places} on the map {saved.name[:60]!r}.")
            else:
                await connection.execute(pois.delete().where(placed))
                await connection.execute(
                    running_maps.delete().where(running_maps.c.map_id == map_id)
                )
            await connection.execute(maps.delete().where(maps.c.id == map_id))
        await asyncio.to_thread(shutil.rmtree, self._folder / saved.id, ignore_errors=True)

    async def note_loaded(self, robot: str, map_id: str, epoch: int) -> None:
        """Remember that a robot's running map, since this epoch, has the coordinates of a saved one.

        Raises:
            MapNotFound, StorageError.
        """
        async with self._database.changing() as connection:
            await _one(connection, map_id)
            await _set_running(connection, robot, map_id, epoch)

    async def in_force(self, robot: str, epoch: int) -> SavedMap | None:
        """Return the saved map whose coordinates the running map has, None when there is none. Raises StorageError."""
        async with self._database.reading() as connection:
            return await _in_force(connection, robot, epoch)

    async def _insert(self, saved: SavedMap, thumbnail: bytes, epoch: int) -> SavedMap:
        async with self._database.changing() as connection:
            if epoch:
                before = await _in_force(connection, saved.robot, epoch)
                if before is not None:
                    saved = replace(saved, frame=before.frame)
                await connection.execute(
                    pois.update()
                    .where(
                        pois.c.robot == saved.robot,
                        pois.c.map_id.is_(None),
                        pois.c.created_at >= epoch / 1000.0,
                    )
                    .values(map_id=saved.id)
                )
                await _set_running(connection, saved.robot, saved.id, epoch)
            with _name_is_free(saved.name):
                await connection.execute(maps.insert().values(_row(saved, thumbnail)))
        return saved

    async def _check_name(self, robot: str, name: str) -> None:
        """Refuse a taken name before anything is written; the table refuses it again if two come at once."""
        query = sa.select(maps.c.id).where(maps.c.robot == robot, maps.c.name_key == _key(name))
        async with self._database.reading() as connection:
            if await connection.scalar(query) is not None:
                raise _taken(name)

    async def _sweep_once(self) -> None:
        """Remove what those who were killed left behind."""
        if self._is_swept:
            return
        async with self._database.reading() as connection:
            known = set((await connection.execute(sa.select(maps.c.id))).scalars())
        await asyncio.to_thread(_sweep, self._folder, known)
        self._is_swept = True


def _key(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _taken(name: str) -> MapNameTaken:
    return MapNameTaken(f"A map named {name[:60]!r} is saved already.")


def _not_found(map_id: str) -> MapNotFound:
    return MapNotFound(f"There is no saved map {map_id!r:.60}.")


@contextlib.contextmanager
def _name_is_free(name: str) -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise _taken(name) from error


@contextlib.contextmanager
def _folder_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"{folder} cannot be used: {error}.", _HINT_FOLDER) from error


def _row(saved: SavedMap, thumbnail: bytes) -> dict[str, Any]:
    return {
        "id": saved.id,
        "robot": saved.robot,
        "name": saved.name,
        "name_key": _key(saved.name),
        "created_at": saved.created_at,
        "resolution": saved.geometry.resolution,
        "origin_x": saved.geometry.origin[0],
        "origin_y": saved.geometry.origin[1],
        "rows": saved.geometry.shape[0],
        "cols": saved.geometry.shape[1],
        "known_area": saved.known_area,
        "voxels": saved.voxels,
        "size": saved.size,
        "frame": saved.frame,
        "thumbnail": thumbnail,
    }


def _saved(row: Mapping[Any, Any]) -> SavedMap:
    plain = ("id", "robot", "name", "created_at", "known_area", "voxels", "size", "frame")
    geometry = GridGeometry(
        row["resolution"], (row["origin_x"], row["origin_y"]), (row["rows"], row["cols"])
    )
    return SavedMap(geometry=geometry, **{name: row[name] for name in plain})


async def _one(connection: AsyncConnection, map_id: str) -> SavedMap:
    query = sa.select(*_columns).where(maps.c.id == map_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise _not_found(map_id)
    return _saved(row._mapping)


async def _in_force(connection: AsyncConnection, robot: str, epoch: int) -> SavedMap | None:
    query = sa.select(*_columns).join(running_maps, running_maps.c.map_id == maps.c.id)
    query = query.where(running_maps.c.robot == robot, running_maps.c.epoch == epoch)
    row = (await connection.execute(query)).one_or_none()
    return _saved(row._mapping) if row is not None else None


async def _set_running(connection: AsyncConnection, robot: str, map_id: str, epoch: int) -> None:
    await connection.execute(running_maps.delete().where(running_maps.c.robot == robot))
    await connection.execute(running_maps.insert().values(robot=robot, epoch=epoch, map_id=map_id))


def _write_folder(parent: Path, name: str, files: Mapping[str, bytes]) -> None:
    """Make a folder with files under its name in one step; when this returns, all of it is on the disk."""
    parent.mkdir(parents=True, exist_ok=True)
    partial = parent / f".{name}.part"
    try:
        partial.mkdir()
        for file_name, content in files.items():
            with (partial / file_name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        _sync_folder(partial)
        partial.rename(parent / name)
        _sync_folder(parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def _sync_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read_folder(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.is_symlink()
    }


def _sweep(folder: Path, known: set[str]) -> None:
    """Remove the folders that look like a map's and that no row names, if they are old."""
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        name = path.name.removeprefix(".").removesuffix(".part")
        with contextlib.suppress(ValueError, OSError):
            uuid.UUID(name)  # what else lies there is not ours
            if name not in known and time.time() - path.stat().st_mtime > ORPHAN_AGE_S:
                shutil.rmtree(path, ignore_errors=True)
