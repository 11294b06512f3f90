"""PoiStore: the actor's calls reach the database and the folder that the config names."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rhino_actors.actors.poi_store import PoiStore
from rhino_actors.config import RhinoConfig, StoreConfig, data_dir
from rhino_actors.errors import (
    MapFileInvalid,
    MapNotFound,
    MissionNotFound,
    PoiNotFound,
    StorageError,
)
from rhino_actors.mapping import encode_files, known_part
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.maps import MapContent
from rhino_actors.messages.missions import MissionKind, MissionRecord, MissionState


async def test_pois_survive_a_new_actor_and_lie_in_the_data_directory() -> None:
    store = PoiStore(RhinoConfig())
    poi = await store.add("go2", "kitchen", 1.0, 2.0)
    assert (data_dir() / "rhino.db").is_file()
    await store._database.close()

    store = PoiStore(RhinoConfig())
    assert await store.list_pois("go2") == (poi,)
    assert (await store.change(poi.id, "bath")).label == "bath"
    assert (await store.get(poi.id)).label == "bath"
    await store.delete(poi.id)
    with pytest.raises(PoiNotFound):
        await store.get(poi.id)
    assert await store.version() == 3
    await store._database.close()


async def test_the_actor_starts_and_answers_when_the_database_cannot_be_used(
    tmp_path: Path,
) -> None:
    (tmp_path / "bad.db").write_bytes(b"no database" * 100)
    config = replace(RhinoConfig(), store=StoreConfig(path=str(tmp_path / "bad.db")))
    store = PoiStore(config)
    for _ in range(2):
        with pytest.raises(StorageError, match=r"bad\.db"):
            await store.list_pois("go2")


def content(epoch: int = 0) -> MapContent:
    occupancy = np.full((64, 64), -1, np.int8)
    occupancy[10:40, 20:50] = 0
    occupancy[10, 20:50] = 97
    voxels = np.array([[1.0, 0.5, 0.2], [1.05, 0.5, 0.2]], np.float32)
    return MapContent(GridGeometry(0.05, (-1.6, 0.0), (64, 64)), occupancy, voxels, epoch)


async def test_a_map_is_saved_opened_exported_and_imported_again() -> None:
    store = PoiStore(RhinoConfig())
    saved = await store.save_map("go2", "office", content(epoch=5))
    assert (saved.voxels, saved.known_area) == (2, pytest.approx(30 * 30 * 0.0025))
    assert sorted(p.name for p in (data_dir() / "maps" / saved.id).iterdir()) == [
        "map.pgm",
        "map.ply",
        "map.yaml",
    ]
    opened = await store.open_map(saved.id)
    expected = known_part(content())
    assert opened.geometry == expected.geometry and opened.voxels is not None
    assert expected.geometry.shape == (30, 30)
    assert np.array_equal(
        opened.occupancy, np.where(expected.occupancy > 50, 100, expected.occupancy)
    )
    assert expected.voxels is not None and np.array_equal(opened.voxels, expected.voxels)

    archive = await store.export_map(saved.id)
    imported = await store.import_map("go2", "copy", {"office.zip": archive})
    assert imported.frame == imported.id != saved.frame
    assert await store.export_map(imported.id) == archive
    assert await store.map_thumbnail(imported.id) == await store.map_thumbnail(saved.id)
    assert [each.id for each in await store.list_maps("go2")] == [saved.id, imported.id]
    assert (await store.rename_map(imported.id, "lab")).name == "lab"
    assert await store.map_in_force("go2", 5) == saved
    await store.note_loaded("go2", imported.id, 6)
    assert await store.map_in_force("go2", 6) == await store.get_map(imported.id)
    await store.delete_map(imported.id)
    with pytest.raises(MapNotFound):
        await store.open_map(imported.id)
    await store._database.close()


async def test_loose_files_are_imported_and_bad_ones_leave_nothing() -> None:
    store = PoiStore(RhinoConfig())
    files = encode_files(content())
    saved = await store.import_map("go2", "office", files)
    for bad in ({}, {"a.zip": b"no zip"}, {**files, "map.ply": b"no ply"}, {"map.yaml": b"x"}):
        with pytest.raises(MapFileInvalid):
            await store.import_map("go2", "bad", bad)
    assert await store.list_maps("go2") == (saved,)
    assert [p.name for p in (data_dir() / "maps").iterdir()] == [saved.id]
    await store._database.close()


async def test_a_map_whose_files_were_damaged_is_refused_when_it_is_opened() -> None:
    store = PoiStore(RhinoConfig())
    saved = await store.save_map("go2", "office", content())
    (data_dir() / "maps" / saved.id / "map.pgm").write_bytes(b"P5\n64 64\n255\n")
    with pytest.raises(MapFileInvalid, match="ends before"):
        await store.open_map(saved.id)
    await store._database.close()


async def test_the_mission_log_is_kept_and_bounded_by_the_config() -> None:
    store = PoiStore(replace(RhinoConfig(), store=StoreConfig(missions_kept=2)))
    running = MissionRecord(
        id="m-0",
        robot="go2",
        kind=MissionKind.EXPLORE,
        client="ann",
        started_at=1.0,
        ended_at=None,
        state=MissionState.RUNNING,
        reason="",
        message="",
        distance=0.0,
        elapsed=0.0,
        known_area=0.0,
    )
    for number in range(3):
        await store.save_mission(replace(running, id=f"m-{number}"), b"PNG")
    assert [m.id for m in await store.list_missions("go2")] == ["m-2", "m-1"]
    assert [m.id for m in await store.list_missions("go2", 1)] == ["m-2"]
    assert await store.mission_picture("m-2") == b"PNG"
    assert await store.interrupt_missions("go2", "PROCESS_ENDED", "It was killed.") == 2
    assert (await store.get_mission("m-1")).state is MissionState.INTERRUPTED
    await store.delete_mission("m-1")
    with pytest.raises(MissionNotFound):
        await store.get_mission("m-1")
    await store._database.close()
