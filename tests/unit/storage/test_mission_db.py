"""The mission log: what was written is there, also after a kill, and its size is bounded."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

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
from rhino_actors.storage.database import Database
from rhino_actors.storage.map_db import MapDatabase
from rhino_actors.storage.mission_db import MissionDatabase
from rhino_actors.storage.poi_db import PoiDatabase

RUNNING = MissionRecord(
    id="m-1",
    robot="go2",
    kind=MissionKind.PATROL,
    client="ann 🐶",
    started_at=1700000000.5,
    ended_at=None,
    state=MissionState.RUNNING,
    reason="",
    message="Driving to \"door'; DROP TABLE missions;--",
    distance=1.5,
    elapsed=20.0,
    known_area=30.25,
    goals=(
        MissionGoal(1.0, -2.0, 0.5, 8.0, "arrived", "", 3.0, "door 🐶"),
        MissionGoal(4.0, 5.0, 8.0, 9.5, "failed", "NO_VALID_PATH", 0.5),
    ),
    skipped=(SkippedTarget(4.0, 5.0, 0, "MAP_NOT_LOADED", "attic"),),
    map_id="map-1",
    goals_reached=1,
    goals_failed=1,
    explored_share=0.75,
    patrol=PatrolProgress(PatrolRouter.POINTS, 0.5, 60.0, 20.0, 30.0, 2, "door"),
)
ENDED = replace(
    RUNNING,
    ended_at=1700000100.0,
    state=MissionState.TIME_LIMIT,
    reason="TIME_LIMIT",
    message="It has run for 100 s.",
    elapsed=100.0,
)
# What schema 2 made; copied from a file that it wrote.
VERSION_2 = """
CREATE TABLE changes (id INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (id));
INSERT INTO "changes" VALUES(1,2);
CREATE TABLE maps (
    seq INTEGER NOT NULL, id TEXT NOT NULL, robot TEXT NOT NULL, name TEXT NOT NULL, name_key TEXT NOT NULL,
    created_at DOUBLE NOT NULL, resolution DOUBLE NOT NULL, origin_x DOUBLE NOT NULL, origin_y DOUBLE NOT NULL,
    rows INTEGER NOT NULL, cols INTEGER NOT NULL, known_area DOUBLE NOT NULL, voxels INTEGER NOT NULL,
    size INTEGER NOT NULL, frame TEXT NOT NULL, thumbnail BLOB NOT NULL, PRIMARY KEY (seq),
    UNIQUE (robot, name_key), UNIQUE (id)
);
INSERT INTO "maps" VALUES(1,'a1c7b6b3-29cd-4e1c-b0bc-a3d556289e8c','go2','office','office',
    1.79609352432390436171e+09,0.05,-1.6,0.0,64,64,7.5,4,1,'a1c7b6b3-29cd-4e1c-b0bc-a3d556289e8c',X'5035');
CREATE TABLE pois (
    seq INTEGER NOT NULL, id TEXT NOT NULL, robot TEXT NOT NULL, label TEXT NOT NULL, x DOUBLE NOT NULL,
    y DOUBLE NOT NULL, z DOUBLE NOT NULL, map_id TEXT, created_at DOUBLE NOT NULL, PRIMARY KEY (seq), UNIQUE (id)
);
INSERT INTO "pois" VALUES(1,'3378eb4d-1340-46e2-8509-42e3e1a2dce3','go2','kitchen 🐶',1.5,-2.5,0.1,
    'a1c7b6b3-29cd-4e1c-b0bc-a3d556289e8c',1.7960935244994645118e+09);
CREATE TABLE running_maps (
    robot TEXT NOT NULL, epoch INTEGER NOT NULL, map_id TEXT NOT NULL, PRIMARY KEY (robot)
);
INSERT INTO "running_maps" VALUES('go2',77,'a1c7b6b3-29cd-4e1c-b0bc-a3d556289e8c');
CREATE INDEX ix_pois_robot ON pois (robot);
PRAGMA user_version=2;
"""
WRITER = """
import asyncio, sys, time
from dataclasses import replace
from pathlib import Path
from rhino_actors.storage.database import Database
from rhino_actors.storage.mission_db import MissionDatabase
from tests.unit.storage.test_mission_db import RUNNING

async def main(path):
    log = MissionDatabase(Database(path), 100)
    count = 0
    while True:
        count += 1
        await log.save(replace(RUNNING, elapsed=float(count), goals=RUNNING.goals * 50))
        print(count, flush=True)

asyncio.run(main(Path(sys.argv[1])))
"""


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    opened = Database(tmp_path / "rhino.db")
    yield opened
    await opened.close()


@pytest.fixture
def log(database: Database) -> MissionDatabase:
    return MissionDatabase(database, 100)


async def test_a_mission_comes_back_as_it_was_written_last(log: MissionDatabase) -> None:
    await log.save(RUNNING)
    assert await log.get("m-1") == RUNNING
    await log.save(ENDED, b"PNG 1")
    assert await log.get("m-1") == replace(ENDED, has_picture=True)
    assert await log.picture("m-1") == b"PNG 1"
    await log.save(replace(ENDED, message="again"))
    assert (await log.get("m-1")).has_picture and await log.picture("m-1") == b"PNG 1"
    bare = replace(RUNNING, id="m-2", kind=MissionKind.EXPLORE, patrol=None, goals=(), map_id=None)
    await log.save(replace(bare, explored_share=None, skipped=()))
    assert await log.get("m-2") == replace(bare, explored_share=None, skipped=())


async def test_the_list_is_short_newest_first_and_of_one_robot(log: MissionDatabase) -> None:
    for number in range(5):
        robot = "other" if number == 3 else "go2"
        await log.save(replace(RUNNING, id=f"m-{number}", robot=robot))
    await log.save(replace(ENDED, id="m-0"))  # written anew, and still the oldest
    listed = await log.list_missions("go2")
    assert [record.id for record in listed] == ["m-4", "m-2", "m-1", "m-0"]
    assert listed[0] == replace(RUNNING, id="m-4", goals=(), skipped=())
    assert [record.id for record in await log.list_missions("go2", 2)] == ["m-4", "m-2"]


async def test_the_oldest_go_when_there_are_too_many(database: Database) -> None:
    log = MissionDatabase(database, 3)
    await log.save(replace(ENDED, id="other", robot="other"), b"PNG")
    for number in range(6):
        await log.save(replace(ENDED, id=f"m-{number}"), b"PNG")
    assert [record.id for record in await log.list_missions("go2")] == ["m-5", "m-4", "m-3"]
    for gone in ("m-0", "m-2"):
        with pytest.raises(MissionNotFound):
            await log.picture(gone)
    assert await log.picture("m-3") == b"PNG" == await log.picture("other")


async def test_what_is_not_there_is_said(log: MissionDatabase) -> None:
    await log.save(RUNNING)
    with pytest.raises(MissionNotFound, match="no picture"):
        await log.picture("m-1")
    await log.delete("m-1")
    for call in (log.get, log.picture, log.delete):
        with pytest.raises(MissionNotFound, match="'m-1'"):
            await call("m-1")


async def test_the_log_does_not_have_clients_read_places_and_maps_again(
    log: MissionDatabase, database: Database
) -> None:
    places = PoiDatabase(database)
    await places.add("go2", "kitchen", 1.0, 2.0)
    before = await database.version()
    await log.save(RUNNING, b"PNG")
    await log.interrupt("go2", "X", "x")
    await log.delete("m-1")
    assert await database.version() == before


async def test_what_has_no_end_is_marked_as_interrupted_when_it_was_last_written(
    log: MissionDatabase,
) -> None:
    await log.save(replace(ENDED, id="ended"))
    await log.save(replace(RUNNING, id="other", robot="other"))
    await log.save(RUNNING)
    written = time.time()
    assert await log.interrupt("go2", "PROCESS_ENDED", "It was killed.") == 1
    cut_off = await log.get("m-1")
    assert (cut_off.state, cut_off.reason) == (MissionState.INTERRUPTED, "PROCESS_ENDED")
    assert cut_off.ended_at == pytest.approx(written, abs=30.0)
    assert cut_off.goals == RUNNING.goals and cut_off.elapsed == RUNNING.elapsed
    assert (await log.get("ended")).state is MissionState.TIME_LIMIT
    assert (await log.get("other")).state is MissionState.RUNNING
    assert await log.interrupt("go2", "PROCESS_ENDED", "It was killed.") == 0


async def test_a_writer_that_is_killed_leaves_all_that_it_was_told_is_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rhino.db"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert writer.stdout is not None
    confirmed = 0
    for _ in range(5):
        confirmed = int(writer.stdout.readline())
    writer.send_signal(signal.SIGKILL)
    await asyncio.to_thread(writer.wait)
    rest = writer.stdout.read().split()
    writer.stdout.close()
    confirmed = int(rest[-1]) if rest else confirmed
    database = Database(path)
    log = MissionDatabase(database, 100)
    assert (await log.get("m-1")).elapsed in (confirmed, confirmed + 1)
    assert await log.interrupt("go2", "PROCESS_ENDED", "It was killed.") == 1
    record = await log.get("m-1")
    assert record.state is MissionState.INTERRUPTED and len(record.goals) == 100
    await database.close()


async def test_a_file_of_version_2_is_taken_over_with_all_it_holds(
    log: MissionDatabase, database: Database, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "rhino.db") as connection:
        connection.executescript(VERSION_2)
    connection.close()
    (poi,) = await PoiDatabase(database).list_pois("go2")
    assert (poi.label, poi.x, poi.map_id) == (
        "kitchen 🐶",
        1.5,
        "a1c7b6b3-29cd-4e1c-b0bc-a3d556289e8c",
    )
    maps = MapDatabase(database, tmp_path / "maps")
    (saved,) = await maps.list_maps("go2")
    assert (saved.name, saved.known_area, saved.voxels) == ("office", 7.5, 4)
    assert await maps.in_force("go2", 77) == saved and await maps.thumbnail(saved.id) == b"P5"
    assert await database.version() == 2
    await log.save(ENDED, b"PNG")
    assert await log.get("m-1") == replace(ENDED, has_picture=True)
    await database.close()
    connection = sqlite3.connect(tmp_path / "rhino.db")
    assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    assert connection.execute("PRAGMA quick_check").fetchone() == ("ok",)
    connection.close()
