"""Saved maps: complete or not there, and places that never change their map by accident."""

import asyncio
import os
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rhino_actors.errors import InvalidLabel, MapInUse, MapNameTaken, MapNotFound, StorageError
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.maps import SavedMap
from rhino_actors.storage import map_db
from rhino_actors.storage.database import SCHEMA_VERSION, Database
from rhino_actors.storage.map_db import MapDatabase
from rhino_actors.storage.poi_db import PoiDatabase

GEOMETRY = GridGeometry(0.05, (-1.6, 3.2), (64, 128))
FILES = {"map.yaml": b"image: map.pgm", "map.pgm": bytes(3000)}
FACTS: dict[str, Any] = {
    "geometry": GEOMETRY,
    "known_area": 7.5,
    "voxels": 4,
    "thumbnail": b"P5 picture",
}
# What the first release of the schema made; copied from a file that it wrote.
VERSION_1 = """
CREATE TABLE pois (
    seq INTEGER NOT NULL, id TEXT NOT NULL, robot TEXT NOT NULL, label TEXT NOT NULL, x DOUBLE NOT NULL,
    y DOUBLE NOT NULL, z DOUBLE NOT NULL, map_id TEXT, created_at DOUBLE NOT NULL, PRIMARY KEY (seq), UNIQUE (id)
);
CREATE INDEX ix_pois_robot ON pois (robot);
CREATE TABLE changes (id INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (id));
INSERT INTO changes VALUES (1, 41);
INSERT INTO pois VALUES (1, 'id-1', 'go2', 'kitchen 🐶', 1.5, -2.5, 0.1, NULL, 1700000000.5);
INSERT INTO pois VALUES (5, 'id-5', 'other', 'door', 0.0, 0.0, 0.0, 'm1', 1700000001.0);
PRAGMA user_version=1;
"""
WRITER = """
import asyncio, sys
from pathlib import Path
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.storage.database import Database
from rhino_actors.storage.map_db import MapDatabase

async def main(folder, name, count):
    maps = MapDatabase(Database(folder / "rhino.db"), folder / "maps")
    files = {"map.yaml": b"image: map.pgm", "map.pgm": bytes(2_000_000)}
    for number in range(count):
        saved = await maps.add(
            "go2", f"{name} {number}", files, geometry=GridGeometry(0.05, (0.0, 0.0), (64, 64)),
            known_area=1.0, voxels=0, thumbnail=b"",
        )
        print(saved.id, flush=True)
    await maps._database.close()

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""


class Store:
    """Maps and places over one file, as the actor holds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "maps"
        self.database = Database(folder / "rhino.db")
        self.maps = MapDatabase(self.database, self.folder)
        self.pois = PoiDatabase(self.database)

    async def save(self, name: str, robot: str = "go2", epoch: int = 0) -> SavedMap:
        return await self.maps.add(robot, name, FILES, epoch=epoch, **FACTS)

    def folders(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()} if self.folder.is_dir() else set()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = Store(tmp_path)
    yield opened
    await opened.database.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


async def test_a_map_comes_back_as_it_was_saved(store: Store, tmp_path: Path) -> None:
    saved = await store.save("office 🐶")
    assert (saved.name, saved.robot, saved.geometry) == ("office 🐶", "go2", GEOMETRY)
    assert (saved.known_area, saved.voxels, saved.size) == (7.5, 4, 3014)
    assert abs(saved.created_at - time.time()) < 60.0
    assert uuid.UUID(saved.id) and saved.frame == saved.id
    await store.database.close()

    again = Store(tmp_path)
    assert await again.maps.get(saved.id) == saved
    assert await again.maps.list_maps("go2") == (saved,)
    assert await again.maps.list_maps("other") == ()
    assert await again.maps.files(saved.id) == FILES
    assert await again.maps.thumbnail(saved.id) == b"P5 picture"
    await again.database.close()


async def test_a_file_of_version_1_is_taken_over_with_all_it_holds(
    store: Store, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "rhino.db") as connection:
        connection.executescript(VERSION_1)
    connection.close()
    (poi,) = await store.pois.list_pois("go2")
    assert (poi.id, poi.label, poi.x, poi.y, poi.z) == ("id-1", "kitchen 🐶", 1.5, -2.5, 0.1)
    assert (poi.map_id, poi.created_at) == (None, 1700000000.5)
    (other,) = await store.pois.list_pois("other")
    assert (other.id, other.map_id) == ("id-5", "m1")
    assert await store.pois.version() == 41
    saved = await store.save("office")
    assert await store.maps.list_maps("go2") == (saved,)
    await store.database.close()
    connection = sqlite3.connect(tmp_path / "rhino.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    connection.close()


async def test_two_processes_that_take_over_version_1_at_once_both_succeed(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "rhino.db") as connection:
        connection.executescript(VERSION_1)
    connection.close()
    first, second = Store(tmp_path), Store(tmp_path)
    await asyncio.gather(first.save("a"), second.save("b"))
    assert {saved.name for saved in await first.maps.list_maps("go2")} == {"a", "b"}
    assert len(await second.pois.list_pois("go2")) == 1
    await first.database.close()
    await second.database.close()


@pytest.mark.parametrize("same", ["office", "OFFICE", " office ", "ｏｆｆｉｃｅ"])
async def test_names_that_look_the_same_are_taken_once(store: Store, same: str) -> None:
    office = await store.save("office")
    other = await store.save("lab")
    with pytest.raises(MapNameTaken):
        await store.save(same)
    with pytest.raises(MapNameTaken):
        await store.maps.rename(other.id, same)
    elsewhere = await store.save(same, robot="second")
    assert store.folders() == {office.id, other.id, elsewhere.id}
    assert (await store.maps.rename(office.id, same)).name == same, "its own name is free"


async def test_of_two_that_save_one_name_at_once_one_is_refused_and_leaves_nothing(
    store: Store,
) -> None:
    answers = await asyncio.gather(
        *(store.save("office") for _ in range(4)), return_exceptions=True
    )
    saved = [answer for answer in answers if isinstance(answer, SavedMap)]
    refused = [answer for answer in answers if isinstance(answer, MapNameTaken)]
    assert (len(saved), len(refused)) == (1, 3)
    assert store.folders() == {saved[0].id}
    assert await store.maps.list_maps("go2") == (saved[0],)


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", "a\x1b[2J", None, 7])
async def test_unusable_names_are_refused_and_nothing_is_written(store: Store, name: Any) -> None:
    kept = await store.save("kept")
    with pytest.raises(InvalidLabel):
        await store.save(name)
    with pytest.raises(InvalidLabel):
        await store.maps.rename(kept.id, name)
    assert await store.maps.list_maps("go2") == (kept,)
    assert store.folders() == {kept.id}


@pytest.mark.parametrize("name", ["../../evil", "a/b", "'); DROP TABLE maps;--", ".hidden"])
async def test_a_name_is_never_a_path(store: Store, tmp_path: Path, name: str) -> None:
    saved = await store.save(name)
    assert (await store.maps.get(saved.id)).name == name
    assert store.folders() == {saved.id}
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["maps"]


@pytest.mark.parametrize(
    "unknown", ["", "nope", "..", "../..", "' OR 1=1 --", str(uuid.UUID(int=7))]
)
async def test_an_unknown_id_is_named_and_changes_nothing(store: Store, unknown: str) -> None:
    kept = await store.save("kept")
    version = await store.pois.version()
    for call in (
        store.maps.get(unknown),
        store.maps.files(unknown),
        store.maps.thumbnail(unknown),
        store.maps.rename(unknown, "x"),
        store.maps.delete(unknown, force=True),
        store.maps.note_loaded("go2", unknown, 5),
    ):
        with pytest.raises(MapNotFound):
            await call
    assert await store.maps.files(kept.id) == FILES
    assert await store.pois.version() == version


async def test_every_change_is_counted(store: Store) -> None:
    saved = await store.save("a")
    await store.maps.rename(saved.id, "b")
    await store.maps.delete(saved.id)
    assert await store.pois.version() == 3


async def test_deleting_removes_the_files(store: Store) -> None:
    saved, kept = await store.save("a"), await store.save("b")
    await store.maps.delete(saved.id)
    assert store.folders() == {kept.id}
    assert await store.maps.list_maps("go2") == (kept,)
    with pytest.raises(MapNotFound):
        await store.maps.files(saved.id)


async def test_places_named_since_the_running_map_began_lie_on_it_once_it_is_saved(
    store: Store,
) -> None:
    earlier = await store.pois.add("go2", "earlier", 0.0, 0.0)
    await asyncio.sleep(0.002)
    epoch = now_ms()
    poi = await store.pois.add("go2", "here", 0.0, 0.0)
    foreign = await store.pois.add("second", "of another robot", 0.0, 0.0)
    saved = await store.save("office", epoch=epoch)
    assert (await store.pois.get(poi.id)).map_id == saved.id
    assert (await store.pois.get(earlier.id)).map_id is None
    assert (await store.pois.get(foreign.id)).map_id is None
    assert await store.maps.in_force("go2", epoch) == saved
    assert await store.maps.in_force("go2", epoch + 1) is None
    assert await store.maps.in_force("second", epoch) is None


async def test_an_imported_map_takes_no_places_and_is_not_in_force(store: Store) -> None:
    epoch = now_ms() - 1000
    poi = await store.pois.add("go2", "here", 0.0, 0.0)
    await store.save("imported")
    assert (await store.pois.get(poi.id)).map_id is None
    assert await store.maps.in_force("go2", epoch) is None


async def test_a_map_saved_from_a_loaded_one_has_its_frame(store: Store) -> None:
    first = await store.save("first", epoch=100)
    second = await store.save("second", epoch=100)
    await store.maps.note_loaded("go2", first.id, 200)
    third = await store.save("third", epoch=200)
    fresh = await store.save("fresh", epoch=300)
    assert first.frame == second.frame == third.frame == first.id
    assert fresh.frame == fresh.id
    assert await store.maps.in_force("go2", 300) == fresh


async def test_a_map_with_places_is_kept_until_it_is_forced(store: Store) -> None:
    saved = await store.save("office", epoch=100)
    mine = await store.pois.add("go2", "door", 0.0, 0.0, map_id=saved.id)
    other = await store.pois.add("go2", "elsewhere", 0.0, 0.0)
    with pytest.raises(MapInUse, match="1 place lies on the map 'office'"):
        await store.maps.delete(saved.id)
    assert await store.maps.files(saved.id) == FILES
    assert (await store.pois.get(mine.id)).map_id == saved.id
    await store.maps.delete(saved.id, force=True)
    assert await store.pois.list_pois("go2") == (other,)
    assert await store.maps.in_force("go2", 100) is None


async def test_places_go_over_to_a_map_of_the_same_frame(store: Store) -> None:
    old = await store.save("office", epoch=100)
    poi = await store.pois.add("go2", "door", 0.0, 0.0, map_id=old.id)
    new = await store.save("office, larger", epoch=100)
    await store.maps.note_loaded("go2", old.id, 200)
    await store.maps.delete(old.id)
    assert (await store.pois.get(poi.id)).map_id == new.id
    assert await store.maps.in_force("go2", 200) == new
    assert (await store.maps.rename(new.id, "office")).name == "office"


async def test_parallel_writers_lose_no_answer(store: Store, tmp_path: Path) -> None:
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(tmp_path), name, "8", stdout=subprocess.PIPE
        )
        for name in ("a", "b")
    ]
    answers = [(await writer.communicate())[0].decode().split() for writer in writers]
    assert [len(ids) for ids in answers] == [8, 8]
    assert {saved.id for saved in await store.maps.list_maps("go2")} == {*answers[0], *answers[1]}
    assert store.folders() == {*answers[0], *answers[1]}


async def test_a_writer_killed_half_way_leaves_no_half_map(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(tmp_path), "map", "100000", stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    try:
        answered = [(await writer.stdout.readline()).decode().strip() for _ in range(5)]
    finally:
        writer.kill()
    answered += (await writer.communicate())[0].decode().split()
    stored = await store.maps.list_maps("go2")
    assert set(answered) <= {saved.id for saved in stored}
    for saved in stored:
        files = await store.maps.files(saved.id)
        assert {name: len(data) for name, data in files.items()} == {
            "map.yaml": 14,
            "map.pgm": 2_000_000,
        }
    # What it was writing is not seen, and goes with the first map that is saved after a while.
    for name in (str(uuid.uuid4()), f".{uuid.uuid4()}.part"):
        (store.folder / name).mkdir()
        (store.folder / name / "map.yaml").write_bytes(b"half")
    (store.folder / "mine").mkdir()
    monkeypatch.setattr(map_db, "ORPHAN_AGE_S", -1.0)
    last = await store.save("last")
    assert store.folders() == {"mine", last.id, *(saved.id for saved in stored)}


@pytest.mark.parametrize("step", ["fsync", "rename", "row"])
async def test_a_failure_half_way_leaves_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    kept = await store.save("kept")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        if step == "fsync":
            patch.setattr(os, "fsync", fail)
        elif step == "rename":
            patch.setattr(Path, "rename", fail)
        else:
            patch.setattr(map_db, "_row", fail)
        with pytest.raises(StorageError, match="No space left"):
            await store.save("new")
    assert await store.maps.list_maps("go2") == (kept,)
    assert store.folders() == {kept.id}
    await store.save("new")


async def test_files_that_are_gone_are_named(store: Store) -> None:
    saved = await store.save("a")
    for path in (store.folder / saved.id).iterdir():
        path.unlink()
    (store.folder / saved.id).rmdir()
    with pytest.raises(StorageError, match=saved.id):
        await store.maps.files(saved.id)
    await store.maps.delete(saved.id)


async def test_links_in_a_maps_folder_are_not_followed(store: Store, tmp_path: Path) -> None:
    saved = await store.save("a")
    (tmp_path / "secret").write_text("secret")
    (store.folder / saved.id / "link.ply").symlink_to(tmp_path / "secret")
    assert await store.maps.files(saved.id) == FILES
