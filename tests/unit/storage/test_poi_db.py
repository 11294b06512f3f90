"""The database: what it answered stays, what it refuses it leaves alone."""

import asyncio
import math
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rhino_actors.errors import InvalidLabel, InvalidRequest, PoiNotFound, StorageError
from rhino_actors.storage.poi_db import PoiDatabase

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
    assert (await database.rename(poi.id, label)).label == label
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
    with pytest.raises(InvalidLabel):
        await database.rename(poi.id, label)
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


@pytest.mark.parametrize("unknown", ["", "nope", "' OR 1=1 --", "0" * 36])
async def test_an_unknown_id_is_named_and_changes_nothing(
    database: PoiDatabase, unknown: str
) -> None:
    poi = await database.add("go2", "kept", 0.0, 0.0)
    version = await database.version()
    for call in (database.get(unknown), database.delete(unknown), database.rename(unknown, "x")):
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
    await other.rename(poi.id, "c")
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
