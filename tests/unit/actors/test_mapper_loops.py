"""MapperActor and loops: looked for beside the frames, the map changes over at once, odom does not move."""

import logging
import math
import threading
from dataclasses import replace

import numpy as np
import pytest

from rhino_actors.geometry import compose
from rhino_actors.mapping import warm_up
from rhino_actors.mapping.loop_mapping import LoopMapping, Redraw
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import NO_CORRECTION, GridGeometry
from rhino_actors.messages.localisation import DriftMode
from rhino_actors.messages.map_patch import MapReader
from rhino_actors.messages.sensors import LidarFrame
from tests.unit.actors.test_mapper import Rig, config, eventually, running, whole
from tests.unit.mapping.test_loop_closure import RING, around, frames

LOOPS = config(drift_correction=DriftMode.LOOPS)
TURN = math.radians(0.25)  # per metre, of the odometry


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    """Kernels are there before a test waits for its first frame."""
    warm_up(with_voxels=False)


def driven() -> list[LidarFrame]:
    return list(frames(RING, around(9.0, 8.0), TURN))


async def show(rig: Rig, frame: LidarFrame) -> None:
    """Give the mapper a frame as it is, and wait until it has dealt with it."""
    rig.seq += 1
    await rig.platform.show(replace(frame, seq=rig.seq))
    await eventually(lambda: rig.platform.newest_held == rig.seq)


async def closed(rig: Rig) -> None:
    """Wait until no look for a loop is under way."""
    await eventually(lambda: rig.actor._closing is None or rig.actor._closing.done())


async def test_a_ring_closes_and_readers_go_on_with_patches_while_odom_stays_where_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    reader = MapReader()
    async with running(LOOPS) as rig:
        versions, corrections = [], []
        for frame in driven():
            await show(rig, frame)
            await closed(rig)
            version, box = await rig.actor.snapshot(reader.version)
            if box is not None:
                snapshot = reader.take(box[0])  # type: ignore[arg-type]
                versions.append(version)
                corrections.append(snapshot.map_from_odom)
                assert snapshot.robot is not None
        stats = await rig.actor.stats()
        fresh = await whole(rig.actor)
    assert stats["redraws"] >= 1 and stats["loops_closed"] >= 1
    assert stats["loop_frames"] > 50 and stats["loop_memory_mb"] > 0.0
    assert "a loop is closed" in caplog.text
    assert len({epoch for epoch, _ in versions}) == 1, "the same life, the same coordinates"
    assert stats["frame_epoch"] == stats["epoch"]
    assert corrections[0] == NO_CORRECTION != corrections[-1]
    assert np.array_equal(reader.snapshot.occupancy, fresh.occupancy)  # type: ignore[union-attr]
    assert np.array_equal(reader.snapshot.costmap, fresh.costmap)  # type: ignore[union-attr]
    true = around(9.0, 8.0)[-1]
    here = compose(corrections[-1].as_tuple(), frame.pose.as_tuple())
    assert math.hypot(here[0] - true[0], here[1] - true[1]) < 0.12
    assert math.hypot(frame.pose.x - true[0], frame.pose.y - true[1]) > 0.3
    # The wall where the drive began is one wall again.
    column = fresh.occupancy[:, fresh.geometry.cell_from_world(1.6, 0.0)[1]]
    rows = np.flatnonzero(column >= 65)
    low = rows[rows < fresh.geometry.cell_from_world(0.0, 1.0)[0]]
    assert 1 <= len(low) and np.ptp(low) <= 2


class Held:
    """Lets a redraw wait, so that something can happen meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        run = Redraw.run

        def held(redraw: Redraw) -> None:
            self.begun.set()
            assert self.go.wait(30.0)
            run(redraw)

        monkeypatch.setattr(Redraw, "run", held)


async def test_frames_go_on_into_the_map_while_a_loop_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held(monkeypatch)
    async with running(LOOPS) as rig:
        way = driven()
        index = 0
        while not held.begun.is_set():
            await show(rig, way[index])
            index += 1
        before = await whole(rig.actor)
        for frame in way[index : index + 10]:
            await show(rig, frame)
            index += 1
        await eventually(lambda: rig.actor._seq > before.seq)
        after = await whole(rig.actor)
        assert after.known_area > before.known_area
        assert (await rig.actor.stats())["frames"] == index
        held.go.set()
        await closed(rig)


async def test_a_map_loaded_while_the_old_one_is_drawn_anew_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = Held(monkeypatch)
    grid = np.zeros((64, 64), np.int8)
    grid[3] = 100
    async with running(LOOPS) as rig:
        way = iter(driven())
        while not held.begun.is_set():
            await show(rig, next(way))
        epoch = await rig.actor.load_map(grid, GridGeometry(0.05, (0.0, 0.0), (64, 64)))
        loaded = await whole(rig.actor)
        held.go.set()
        await closed(rig)
        assert (await rig.actor.snapshot())[0][0] == epoch
        assert np.array_equal((await whole(rig.actor)).occupancy, loaded.occupancy)
        stats = await rig.actor.stats()
    assert "loops_closed" not in stats, "the localiser corrects the drift on a loaded map"


async def test_what_goes_wrong_in_a_look_for_a_loop_reaches_main(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(redraw: Redraw) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(Redraw, "run", fails)
    with pytest.raises(AssertionError, match="no memory"):
        async with running(LOOPS) as rig:
            for frame in driven():
                rig.seq += 1
                await rig.platform.show(replace(frame, seq=rig.seq))
                await eventually(lambda: rig.platform.newest_held == rig.seq or rig.loop.done())
                if rig.loop.done():
                    break
            assert rig.loop.done()


@pytest.mark.slow
async def test_after_a_crash_the_map_so_far_stays_under_what_is_drawn_anew() -> None:
    async with running(LOOPS) as rig:
        for _ in range(3):
            await rig.show()
        await eventually(lambda: rig.actor._is_checkpointed and rig.actor._writing is not None)
        await rig.actor._writing  # type: ignore[misc]
        before = await whole(rig.actor)
    async with running(LOOPS, restarted=True) as again:
        await eventually(lambda: again.actor._seq > 0)
        loops = again.actor._loops
        assert loops is not None
        moved = Pose2D(40.0, 0.0)  # where nothing was seen before the crash
        again.actor._map_from_odom = moved
        for frame in driven():
            await show(again, frame)
            await closed(again)
        stats = await again.actor.stats()
        after = await whole(again.actor)
    assert stats["redraws"] >= 1
    row, col = (
        round((a - b) / 0.05)
        for a, b in zip(before.geometry.origin[::-1], after.geometry.origin[::-1], strict=True)
    )
    rows, cols = before.geometry.shape
    kept = after.occupancy[row : row + rows, col : col + cols]
    assert np.array_equal(kept, before.occupancy)


async def test_where_loops_are_not_to_be_closed_no_way_is_kept() -> None:
    async with running(config(drift_correction=DriftMode.NONE)) as rig:
        await rig.show()
        assert rig.actor._loops is None
        assert "loop_frames" not in await rig.actor.stats()


def test_the_flag_has_three_values() -> None:
    for mode in DriftMode:
        settings = config(drift_correction=mode.value)
        made = LoopMapping.of(settings.mapper, settings.robot)
        assert (made is not None) == (mode is DriftMode.LOOPS)
