"""MapperActor and maps that are kept: what it hands out, and how it goes on with another one."""

import asyncio
import math
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rhino_actors.errors import InvalidRequest, MapTooLarge, NoMap, NotAvailable
from rhino_actors.geometry import compose
from rhino_actors.mapping import warm_up
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import NO_CORRECTION, GridGeometry, MapLayer, MapSnapshot
from rhino_actors.messages.localisation import LocalisationState
from rhino_actors.messages.sensors import LidarFrame
from tests.unit.actors.test_mapper import Rig, build, config, eventually, running, whole

GEOMETRY = GridGeometry(0.05, (-3.2, 0.0), (64, 128))


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    """Kernels are there before a test waits for its first frame."""
    warm_up()


def hall() -> np.ndarray:
    """A saved map: free, with one wall, and unknown beside it; read-only, as it comes from the object store."""
    occupancy = np.full(GEOMETRY.shape, -1, np.int8)
    occupancy[:, 10:] = 0
    occupancy[5, 10:] = 100
    occupancy.flags.writeable = False
    return occupancy


def classes(occupancy: np.ndarray) -> np.ndarray:
    return np.where(occupancy >= 65, 100, np.where((occupancy >= 0) & (occupancy <= 19), 0, -1))


def stand(rig: Rig, pose: Pose2D | None) -> None:
    """Have the platform say where the robot is in odom."""

    async def status() -> Any:
        return SimpleNamespace(odometry=SimpleNamespace(pose=pose) if pose else None)

    rig.platform.status = status  # type: ignore[attr-defined]


TURNED = Pose2D(-7.02, 4.02, math.pi / 2)  # map_from_odom on the map of `load_turned`


async def load_turned(rig: Rig) -> LidarFrame:
    """Map the room, and load that map turned by a quarter and moved, with a rough place; return the last frame."""
    for _ in range(8):
        frame = await rig.show()
    seen = await rig.actor.export_map()
    turned = np.rot90(seen.occupancy, -1)  # a quarter turn: rows and cols change places
    x, y = seen.geometry.origin
    corner = (-(y + 0.05 * seen.geometry.shape[0]) - 7.0, x + 4.0)
    geometry = GridGeometry(0.05, corner, (turned.shape[0], turned.shape[1]))
    said = Pose2D(*compose(TURNED.as_tuple(), frame.pose.as_tuple()))
    stand(rig, frame.pose)
    await rig.actor.load_map(turned, geometry, replace(said, x=said.x + 0.1))
    return frame


async def find_itself(rig: Rig) -> MapSnapshot:
    """Give frames until the robot knows its place; nothing may be fused before."""
    loaded = await whole(rig.actor)
    assert not loaded.localised
    async with asyncio.timeout(60.0):
        while not (snapshot := await whole(rig.actor)).localised:
            assert np.array_equal(snapshot.occupancy, loaded.occupancy)
            await rig.show()
    return snapshot


async def test_there_is_nothing_to_keep_before_the_first_frame() -> None:
    actor, _, _ = build(config())
    with pytest.raises(NoMap):
        await actor.export_map()


async def test_what_is_kept_is_what_was_published() -> None:
    async with running(config()) as rig:
        await rig.show()
        await eventually(lambda: rig.actor._seq > 0)
        content = await rig.actor.export_map()
        stats = await rig.actor.stats()
        snapshot = await rig.newest()
    assert content.geometry == snapshot.geometry
    assert np.array_equal(content.occupancy, snapshot.occupancy)
    assert (content.voxels is None) == (config().mapper.layers is MapLayer.OCCUPANCY)
    assert content.epoch == stats["frame_epoch"] == snapshot.epoch


async def test_a_loaded_map_replaces_the_present_one_and_waiting_readers_get_it() -> None:
    async with running(config()) as rig:
        await rig.show()
        await eventually(lambda: rig.actor._seq > 0)
        before = await rig.newest()
        waiting = asyncio.create_task(rig.newest((before.epoch, before.seq)))
        epoch = await rig.actor.load_map(hall(), GEOMETRY)
        snapshot = await waiting
        stats = await rig.actor.stats()
    assert (snapshot.epoch, snapshot.seq) == (epoch, 1) and epoch > before.epoch
    cells = snapshot.geometry.cells_from_world(GEOMETRY.world_from_cells(np.argwhere(hall() >= 0)))
    found = classes(snapshot.occupancy)[cells[:, 0], cells[:, 1]]
    assert np.array_equal(found, hall()[hall() >= 0])
    assert (snapshot.occupancy >= 0).sum() == (hall() >= 0).sum(), "nothing else is known"
    row, col = snapshot.geometry.cell_from_world(*GEOMETRY.world_from_cell(5, 60))
    assert snapshot.costmap[row, col] == 254
    assert snapshot.map_from_odom == NO_CORRECTION
    assert stats["frame_epoch"] == epoch
    assert stats["known_area"] == pytest.approx((hall() >= 0).sum() * 0.0025)


@pytest.mark.slow
async def test_on_a_loaded_map_nothing_is_fused_until_the_robot_has_found_itself_near_where_it_was_said_to_stand() -> (
    None
):
    async with running(config()) as rig:
        frame = await load_turned(rig)
        asked = await rig.actor.localisation()
        assert asked.state is LocalisationState.SEARCHING and not asked.is_usable
        snapshot = await find_itself(rig)
        asked = await rig.actor.localisation()
        assert asked.is_usable and asked.map_from_odom == snapshot.map_from_odom
        assert (await rig.actor.stats())["localised"] == 1.0
    found = snapshot.map_from_odom
    assert found.distance_to(-7.0, 4.0) < 0.06
    assert found.yaw == pytest.approx(math.pi / 2, abs=0.03)
    assert snapshot.robot == frame.pose, "the robot's pose stays in odom"


async def test_a_load_without_odometry_or_of_too_large_a_map_changes_nothing() -> None:
    async with running(config(max_cells=1_000_000)) as rig:
        await rig.show()
        await eventually(lambda: rig.actor._seq > 0)
        version, _ = await rig.actor.snapshot()
        stand(rig, None)
        with pytest.raises(NotAvailable):
            await rig.actor.load_map(hall(), GEOMETRY, Pose2D(0.0, 0.0))
        with pytest.raises(MapTooLarge):
            coarse = GridGeometry(1.0, (0.0, 0.0), (64, 128))
            await rig.actor.load_map(hall(), coarse)
        assert (await rig.actor.snapshot())[0] == version
        content = await rig.actor.export_map()
        snapshot = await rig.newest()
    assert np.array_equal(content.occupancy, snapshot.occupancy)


async def test_after_a_crash_the_map_lies_where_it_lay() -> None:
    settings = config()
    async with running(settings) as rig:
        stand(rig, Pose2D(1.0, 0.0, 0.0))
        epoch = await rig.actor.load_map(hall(), GEOMETRY, Pose2D(3.0, -1.0, 0.5))
        before = await rig.newest()
        await eventually(lambda: rig.actor._checkpoint.is_file())
        await rig.show()
        await eventually(lambda: rig.actor._is_checkpointed and rig.actor._writing is not None)
        await rig.actor._writing  # type: ignore[misc]
    async with running(settings, restarted=True) as again:
        await eventually(lambda: again.actor._seq > 0)
        stats = await again.actor.stats()
        after = await again.newest()
    assert after.map_from_odom == before.map_from_odom != NO_CORRECTION
    assert stats["frame_epoch"] == epoch != stats["epoch"]


async def test_a_fresh_mapper_says_when_its_coordinates_began() -> None:
    async with running(config()) as rig:
        await rig.actor.load_map(hall(), GEOMETRY)
        await eventually(rig.actor._checkpoint.is_file)
    before = time.time_ns() // 1_000_000
    # Started anew, not restarted: the checkpoint is another map's.
    async with running(config()) as rig:
        stats = await rig.actor.stats()
    assert stats["frame_epoch"] == stats["epoch"] >= before


@pytest.mark.parametrize("pose", [Pose2D(1e300, 0.0), Pose2D(0.0, math.nan), Pose2D(0.0, -2e4)])
async def test_a_place_that_no_map_reaches_is_refused_and_mapping_goes_on(pose: Pose2D) -> None:
    async with running(config()) as rig:
        await rig.show()
        await eventually(lambda: rig.actor._seq > 0)
        stand(rig, Pose2D(0.0, 0.0))
        epoch = (await rig.actor.stats())["epoch"]
        with pytest.raises(InvalidRequest):
            await rig.actor.load_map(hall(), GEOMETRY, pose)
        await rig.show()
        assert (await rig.actor.stats())["epoch"] == epoch


async def kept(rig: Rig) -> None:
    """Give frames until a checkpoint of the present state is on the disk."""
    await rig.show()
    await eventually(lambda: rig.actor._is_checkpointed and rig.actor._writing is not None)
    await rig.actor._writing  # type: ignore[misc]


@pytest.mark.slow
async def test_after_a_crash_on_a_loaded_map_the_robot_finds_itself_again_before_it_fuses() -> None:
    settings = config()
    async with running(settings) as rig:
        await load_turned(rig)
        before = await find_itself(rig)
        await kept(rig)
    async with running(settings, restarted=True) as again:
        await eventually(lambda: again.actor._seq > 0)
        assert (await again.actor.localisation()).state is LocalisationState.SEARCHING
        after = await find_itself(again)
        assert (await again.actor.localisation()).state is LocalisationState.LOCALISED
    assert after.map_from_odom.distance_to(before.map_from_odom.x, before.map_from_odom.y) < 0.06
    assert after.map_from_odom.yaw == pytest.approx(before.map_from_odom.yaw, abs=0.03)


async def test_after_a_crash_the_robot_is_looked_for_where_it_was_said_to_be() -> None:
    settings = config()
    async with running(settings) as rig:
        await load_turned(rig)
        await kept(rig)  # its rough place was said, it has not found itself
    async with running(settings, restarted=True) as again:
        await eventually(lambda: again.actor._seq > 0)
        await again.show()
        localiser = again.actor._whereabouts._localiser
        assert localiser is not None
        assert localiser._guess_from_odom == pytest.approx(
            (TURNED.x + 0.1, TURNED.y, TURNED.yaw), abs=1e-6
        )


async def test_after_a_crash_on_a_map_made_by_itself_the_mapper_just_goes_on() -> None:
    settings = config()
    async with running(settings) as rig:
        await rig.show()
        await kept(rig)
    async with running(settings, restarted=True) as again:
        await eventually(lambda: again.actor._seq > 0)
        assert (await again.actor.localisation()).state is LocalisationState.UNKNOWN
        assert (await again.newest()).localised


async def test_a_loaded_map_comes_with_its_voxels() -> None:
    settings = config(layers=MapLayer.BOTH)
    async with running(settings) as rig:
        await rig.show()
        await eventually(lambda: rig.actor._seq > 0)
        content = await rig.actor.export_map()
        assert content.voxels is not None and len(content.voxels) > 100
        await rig.actor.load_map(content.occupancy, content.geometry, None, content.voxels)
        _, box = await rig.actor.voxels()
        assert box is not None
        shown = box[0].points()  # type: ignore[attr-defined]
        await rig.actor.load_map(content.occupancy, content.geometry)
        again = await rig.actor.export_map()
    assert {tuple(p) for p in np.round(shown, 3).tolist()} == {
        tuple(p) for p in np.round(content.voxels, 3).tolist()
    }
    assert again.voxels is not None and len(again.voxels) == 0
