"""PoiStore: the actor's calls reach the database that the config names."""

from dataclasses import replace
from pathlib import Path

import pytest

from rhino_actors.actors.poi_store import PoiStore
from rhino_actors.config import RhinoConfig, StoreConfig, data_dir
from rhino_actors.errors import PoiNotFound, StorageError


async def test_pois_survive_a_new_actor_and_lie_in_the_data_directory() -> None:
    store = PoiStore(RhinoConfig())
    poi = await store.add("go2", "kitchen", 1.0, 2.0)
    assert (data_dir() / "rhino.db").is_file()
    await store._database.close()

    store = PoiStore(RhinoConfig())
    assert await store.list_pois("go2") == (poi,)
    assert (await store.rename(poi.id, "bath")).label == "bath"
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
