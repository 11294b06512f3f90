"""The database: what it answered stays, what it refuses it leaves alone."""

import asyncio
import math
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rhino_actors.errors import (
    InvalidLabel,
    InvalidRequest,
    PoiFileInvalid,
    PoiListChanged,
    PoiNotFound,
    StorageError,
)
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.storage.database import SCHEMA_VERSION, Database
from rhino_actors.storage.map_db import MapDatabase
from rhino_actors.storage.poi_db import PoiDatabase
from rhino_actors.storage.poi_files import read_places, to_csv, to_geojson

WRITER = """
import asyncio, sys
from pathlib import Path
from rhino_actors.storage.poi_db import PoiDatabase

async def main(path, name, count):
    database = PoiDatabase(Path(path))
    for number in range(count):
        print((await database.add(name, f"{name} {number}", 0.0, 0.0)).id, flush=True)
    await database.close()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

CROWD = """
import asyncio, sys
from pathlib import Path
from rhino_actors.storage.poi_db import PoiDatabase

async def write(database, name):
    for number in range(int(sys.argv[3])):
        print((await database.add(name, f"{number}", 0.0, 0.0)).id, flush=True)

async def main():
    database = PoiDatabase(Path(sys.argv[1]))
    await asyncio.gather(*(write(database, f"{sys.argv[2]}{n}") for n in range(10)))
    await database.close()

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "rhino.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[PoiDatabase]:
    opened = PoiDatabase(path)
    yield opened
    await opened.close()


async def test_a_poi_comes_back_as_it_was_stored(database: PoiDatabase, path: Path) -> None:
    poi = await database.add("go2", "kitchen", 1.5, -2.25, 0.1, map_id="m1")
    assert await database.get(poi.id) == poi
    await database.close()
    again = PoiDatabase(path)
    assert await again.list_pois("go2") == (poi,)
    await again.close()


async def test_pois_are_listed_oldest_first_and_by_robot(database: PoiDatabase) -> None:
    mine = [await database.add("a", f"place {number}", number, 0.0) for number in range(12)]
    await database.add("b", "elsewhere", 0.0, 0.0)
    assert list(await database.list_pois("a")) == mine
    assert await database.list_pois("nobody") == ()


@pytest.mark.parametrize(
    "label",
    [
        "🐶厨房",
        "'); DROP TABLE pois;--",
        "<img src=x onerror=alert(1)>",
        "مطبخ",
        "👩‍👩‍👧‍👦",
        " kitchen ",
        "%s {0} \\n",
        "x" * 200,
        "🐶" * 200,
    ],
)
async def test_labels_are_kept_verbatim(database: PoiDatabase, label: str) -> None:
    poi = await database.add("go2", "first", 0.0, 0.0)
    assert (await database.add("go2", label, 0.0, 0.0)).label == label
    assert (await database.change(poi.id, label)).label == label
    assert [poi.label for poi in await database.list_pois("go2")] == [label, label]


@pytest.mark.parametrize(
    "label",
    ["", " ", "\u3000\u00a0", "\u200b\u200d", "x" * 201, "x" * 10_000, "a\0b", "a\nb", "a\x1b[2Jb"]
    + ["a\u2028b", "\ud800", None, 5, b"x"],
)
async def test_unusable_labels_are_refused_and_nothing_changes(
    database: PoiDatabase, label: str
) -> None:
    poi = await database.add("go2", "kept", 0.0, 0.0)
    version = await database.version()
    with pytest.raises(InvalidLabel):
        await database.add("go2", label, 0.0, 0.0)
    if label is not None:  # which would be: no other label
        with pytest.raises(InvalidLabel):
            await database.change(poi.id, label)
    assert await database.list_pois("go2") == (poi,)
    assert await database.version() == version


async def test_duplicate_labels_get_distinct_ids(database: PoiDatabase) -> None:
    first = await database.add("go2", "door", 0.0, 0.0)
    second = await database.add("go2", "door", 0.0, 0.0)
    assert first.id != second.id
    await database.delete(first.id)
    assert await database.list_pois("go2") == (second,)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, None, "1", True, 10**400])
@pytest.mark.parametrize("axis", ["x", "y", "z"])
async def test_coordinates_must_be_finite(database: PoiDatabase, axis: str, bad: float) -> None:
    values = {"x": 0.0, "y": 0.0, "z": 0.0, axis: bad}
    with pytest.raises(InvalidRequest, match=f"{axis} must be a finite number"):
        await database.add("go2", "place", **values)
    assert await database.list_pois("go2") == ()


async def test_a_place_is_moved_and_what_is_not_given_stays(database: PoiDatabase) -> None:
    poi = await database.add("go2", "door", 1.0, 2.0, 0.5, map_id="m1")
    moved = await database.change(poi.id, x=3, z=-0.25)
    assert (moved.label, moved.x, moved.y, moved.z, moved.map_id) == ("door", 3.0, 2.0, -0.25, "m1")
    assert await database.get(poi.id) == moved
    for bad in (math.nan, math.inf, True, "1"):
        with pytest.raises(InvalidRequest, match="y must be a finite number"):
            await database.change(poi.id, label="gone", y=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="nothing to change"):
        await database.change(poi.id)
    assert await database.get(poi.id) == moved


async def test_places_are_put_in_order_all_or_none(database: PoiDatabase, path: Path) -> None:
    a, b, c = [await database.add("go2", label, 0.0, 0.0) for label in "abc"]
    far = await database.add("second", "far", 0.0, 0.0)
    assert await database.order("go2", [c.id, a.id, b.id]) == (c, a, b)
    version = await database.version()
    for wrong in (
        [],
        [a.id, b.id],
        [a.id, b.id, b.id],
        [a.id, b.id, c.id, far.id],
        [a.id, b.id, "x"],
    ):
        with pytest.raises(PoiListChanged):
            await database.order("go2", wrong)
    assert await database.version() == version
    last = await database.add("go2", "d", 0.0, 0.0)
    await database.delete(a.id)
    await database.close()
    again = PoiDatabase(path)
    assert await again.list_pois("go2") == (c, b, last)
    assert await again.list_pois("second") == (far,)
    await again.close()


GEOMETRY = GridGeometry(0.05, (0.0, 0.0), (3, 4))


async def a_map(path: Path, robot: str) -> str:
    maps = MapDatabase(Database(path), path.parent / "maps")
    saved = await maps.add(
        robot,
        "office",
        {"map.yaml": b"x"},
        geometry=GEOMETRY,
        known_area=1.0,
        voxels=0,
        thumbnail=b"",
    )
    await maps._database.close()
    return saved.id


@pytest.mark.parametrize("write", [to_csv, to_geojson])
async def test_what_was_exported_is_imported_without_loss(
    database: PoiDatabase, path: Path, write: object
) -> None:
    office = await a_map(path, "go2")
    await database.add("go2", "=1+1", 0.1 + 0.2, -1e-9, 0.3, map_id=office)
    door = await database.add("go2", "'door", 5.0, 6.0)
    await database.order("go2", [poi.id for poi in reversed(await database.list_pois("go2"))])
    before = await database.list_pois("go2")
    content = write(before)  # type: ignore[operator]
    for poi in before:
        await database.delete(poi.id)
    assert await database.take_over("go2", read_places(content), office) == before
    assert await database.list_pois("go2") == before
    await database.change(door.id, "moved", x=9.0)
    await database.take_over("go2", read_places(content), office)
    assert await database.list_pois("go2") == before, "a known id is overwritten where it stands"


async def test_an_import_says_which_map_or_takes_the_one_in_force(
    database: PoiDatabase, path: Path
) -> None:
    office = await a_map(path, "go2")
    entries = read_places(f"label,x,y,map_id\na,1,2,\nb,1,2,{office}\n".encode())
    assert [poi.map_id for poi in await database.take_over("go2", entries, None)] == [None, office]
    taken = await database.take_over("go2", entries, office, rebind=True)
    assert [poi.map_id for poi in taken] == [office, office]
    (poi,) = await database.take_over("go2", read_places(b"label,x,y\na,1,2\n"), office)
    assert poi.map_id == office


async def test_an_import_is_all_or_nothing(database: PoiDatabase, path: Path) -> None:
    theirs = await a_map(path, "second")
    other = await database.add("second", "theirs", 0.0, 0.0)
    kept = await database.add("go2", "kept", 0.0, 0.0)
    version = await database.version()
    for column, value, says in (
        ("map_id", theirs, "no saved map"),
        ("id", other.id, "another robot's"),
    ):
        text = f"label,x,y,id,map_id\na,1,2,,\nkept,9,9,{kept.id},\n"
        row = {"id": "", "map_id": "", column: value}
        entries = read_places((text + f"b,1,2,{row['id']},{row['map_id']}\n").encode())
        with pytest.raises(PoiFileInvalid, match=f"Line 4: .*{says}"):
            await database.take_over("go2", entries, None)
    assert await database.list_pois("go2") == (kept,)
    assert await database.list_pois("second") == (other,)
    assert await database.version() == version


async def test_a_file_of_schema_2_is_taken_over_with_all_it_holds(
    database: PoiDatabase, path: Path
) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as connection:
        connection.executescript((Path(__file__).parent / "schema_2.sql").read_text())
    connection.close()
    kitchen, dock = await database.list_pois("go2")
    assert (kitchen.label, kitchen.x, kitchen.y, kitchen.z) == ("kitchen 🐶", 1.5, -2.5, 0.1)
    assert dock.map_id == kitchen.map_id and kitchen.map_id is not None
    assert await database.version() == 6
    new = await database.add("go2", "new", 0.0, 0.0)
    assert await database.list_pois("go2") == (kitchen, dock, new)
    assert await database.order("go2", [new.id, dock.id, kitchen.id]) == (new, dock, kitchen)
    (far,) = await database.list_pois("other")
    assert far.label == "far"
    await database.close()
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    connection.close()
    assert await database.list_pois("go2") == (new, dock, kitchen), "brought up to date once"


@pytest.mark.parametrize("unknown", ["", "nope", "' OR 1=1 --", "0" * 36])
async def test_an_unknown_id_is_named_and_changes_nothing(
    database: PoiDatabase, unknown: str
) -> None:
    poi = await database.add("go2", "kept", 0.0, 0.0)
    version = await database.version()
    for call in (database.get(unknown), database.delete(unknown), database.change(unknown, "x")):
        with pytest.raises(PoiNotFound):
            await call
    assert await database.list_pois("go2") == (poi,)
    assert await database.version() == version


async def test_the_version_counts_every_change_of_every_process(
    database: PoiDatabase, path: Path
) -> None:
    other = PoiDatabase(path)
    assert await database.version() == 0
    poi = await database.add("go2", "a", 0.0, 0.0)
    await other.add("go2", "b", 0.0, 0.0)
    assert await database.version() == await other.version() == 2
    await other.change(poi.id, "c")
    await other.delete(poi.id)
    await other.close()
    assert await database.version() == 4
    await database.close()
    assert await database.version() == 4


async def test_many_writers_at_once_lose_no_answer(database: PoiDatabase, path: Path) -> None:
    other = PoiDatabase(path)
    pois = await asyncio.gather(
        *((database, other)[number % 2].add("go2", f"{number}", 0.0, 0.0) for number in range(60))
    )
    assert {poi.id for poi in await database.list_pois("go2")} == {poi.id for poi in pois}
    assert await other.version() == 60
    await other.close()


async def test_two_processes_that_start_and_write_at_once_lose_no_answer(
    database: PoiDatabase, path: Path
) -> None:
    writers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, str(path), name, "40", stdout=subprocess.PIPE
        )
        for name in ("a", "b")
    ]
    answers = [(await writer.communicate())[0].decode().split() for writer in writers]
    assert [len(ids) for ids in answers] == [40, 40]
    for name, ids in zip(("a", "b"), answers, strict=True):
        assert [poi.id for poi in await database.list_pois(name)] == ids
    assert await database.version() == 80


async def test_what_was_answered_survives_kill_9(database: PoiDatabase, path: Path) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), "go2", "100000", stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    try:
        answered = [(await writer.stdout.readline()).decode().strip() for _ in range(20)]
    finally:
        writer.kill()
    answered += (await writer.communicate())[0].decode().split()
    stored = [poi.id for poi in await database.list_pois("go2")]
    assert stored[: len(answered)] == answered


@pytest.mark.slow
async def test_twenty_writers_of_two_processes_lose_no_answer_when_one_process_is_killed(
    database: PoiDatabase, path: Path
) -> None:
    killed, other = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", CROWD, str(path), name, count, stdout=subprocess.PIPE
        )
        for name, count in (("a", "100000"), ("b", "12"))
    ]
    assert killed.stdout is not None
    try:
        answered = [(await killed.stdout.readline()).decode().strip() for _ in range(30)]
        assert other.returncode is None, "both write when the kill comes"
    finally:
        killed.kill()
    # A last line may be cut off by the kill; an id has 36 characters.
    rest = (await killed.communicate())[0].decode().split()
    answered += [line for line in rest if len(line) == 36]
    survivors = (await other.communicate())[0].decode().split()
    assert other.returncode == 0 and len(survivors) == 120
    stored = [
        poi.id for name in "ab" for n in range(10) for poi in await database.list_pois(f"{name}{n}")
    ]
    assert set(answered) | set(survivors) <= set(stored)
    assert await database.version() == len(stored) == len(set(stored))


async def test_a_cancelled_request_leaves_the_database_usable(database: PoiDatabase) -> None:
    await database.add("go2", "first", 0.0, 0.0)
    tasks = [asyncio.create_task(database.add("go2", f"{n}", 0.0, 0.0)) for n in range(10)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    stored = {poi.id for poi in await database.list_pois("go2")}
    assert {poi.id for poi in results if not isinstance(poi, BaseException)} <= stored
    assert await database.version() == len(stored)


def _corrupt(path: Path) -> None:
    path.write_bytes(b"this is not a database at all" * 200)


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE pois (id TEXT)")
        connection.execute("PRAGMA user_version=7")
    connection.close()


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE invoices (id TEXT)")
    connection.close()


def _damaged(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x TEXT)")
    connection.executemany("INSERT INTO t VALUES (?)", [("x" * 900,)] * 200)
    connection.execute("PRAGMA user_version=1")
    connection.commit()
    connection.close()
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xff" * 4096 * 3
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "hint"),
    [
        (_corrupt, "Move the file away"),
        (_damaged, "Move the file away"),
        (_newer, "Update rhino"),
        (_foreign, "store.path"),
    ],
)
async def test_a_file_that_cannot_be_used_is_named_and_left_untouched(
    tmp_path: Path, spoil: object, hint: str
) -> None:
    path = tmp_path / "rhino.db"
    spoil(path)  # type: ignore[operator]
    before = path.read_bytes()
    database = PoiDatabase(path)
    for call in (database.list_pois("go2"), database.add("go2", "x", 0.0, 0.0), database.version()):
        with pytest.raises(StorageError) as caught:
            await call
        assert str(path) in caught.value.message
        assert hint in caught.value.hint
    await database.close()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["rhino.db"]


async def test_a_path_that_cannot_be_made_is_named_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder.db").mkdir()
    for path in (tmp_path / "file" / "rhino.db", tmp_path / "folder.db"):
        with pytest.raises(StorageError, match="store.path") as caught:
            await PoiDatabase(path).version()
        assert str(path) in caught.value.message


async def test_a_file_that_was_put_right_is_used_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "rhino.db"
    _corrupt(path)
    database = PoiDatabase(path)
    with pytest.raises(StorageError):
        await database.version()
    path.unlink()
    poi = await database.add("go2", "door", 0.0, 0.0)
    assert await database.list_pois("go2") == (poi,)
    await database.close()


async def test_a_locked_database_is_reported_and_works_again_later(
    database: PoiDatabase, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rhino_actors.storage.database.BUSY_TIMEOUT_S", 0.05)
    await database.version()
    other = sqlite3.connect(path)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="try again"):
        await database.add("go2", "x", 0.0, 0.0)
    other.rollback()
    other.close()
    poi = await database.add("go2", "x", 0.0, 0.0)
    assert await database.list_pois("go2") == (poi,)
