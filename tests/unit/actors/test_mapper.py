"""MapperActor as a plain class: what it fuses, what it publishes and when, and what it survives."""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ray.exceptions

from rhino_actors.actors.mapper import MAX_PATCHES, MapperActor
from rhino_actors.config import RhinoConfig, config_from_tree, state_dir
from rhino_actors.mapping import CellWindow, OccupancyMapper, inflate, warm_up
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import MapSnapshot
from rhino_actors.messages.map_patch import MapPatch, MapReader
from rhino_actors.messages.sensors import LidarFrame, LidarKind
from tests.fakes import FakeHandle
from tests.unit.mapping.scene import RINGS, Lidar, room

WALLS = room(4.0, 4.0)


@pytest.fixture(autouse=True, scope="module")
def _compiled() -> None:
    """Kernels are there before a test waits for its first frame."""
    warm_up()


class FakePlatform:
    """Gives the newest frame to whoever has an older one; may be dead."""

    def __init__(self) -> None:
        self.frame: LidarFrame | None = None
        self.failure: Exception | None = None
        self.asked = 0
        self.newest_held = 0  # seq of the frame that the mapper last said it has
        self._news = asyncio.Condition()

    async def lidar(self, newer_than: int = 0, wait: float = 0.0) -> LidarFrame | None:
        self.asked += 1
        self.newest_held = newer_than
        if self.failure:
            raise self.failure

        def is_new() -> bool:
            return self.frame is not None and self.frame.seq > newer_than

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait), self._news:
                await self._news.wait_for(is_new)
        return self.frame if is_new() else None

    async def show(self, frame: LidarFrame) -> None:
        async with self._news:
            self.frame = frame
            self._news.notify_all()


@dataclass
class Rig:
    """A running mapper with its platform and all that it put into the store."""

    actor: MapperActor
    platform: FakePlatform
    store: list[MapPatch]
    loop: asyncio.Task[None]
    seq: int = 0

    async def show(self, **changes: Any) -> LidarFrame:
        """Give the mapper one more frame, and wait until it has dealt with it."""
        self.seq += 1
        frame = replace(frame_at(2.0, 2.0, self.seq), **changes)
        await self.platform.show(frame)
        await eventually(lambda: self.platform.newest_held == frame.seq)
        return frame

    async def newest(self, newer_than: tuple[int, int] = (0, 0), wait: float = 5.0) -> MapSnapshot:
        """Return the whole map, once it is another than `newer_than`."""
        _, box = await self.actor.snapshot(newer_than, wait)
        assert box is not None
        return await whole(self.actor)


async def whole(actor: MapperActor) -> MapSnapshot:
    """Return the map as a reader sees it that had none."""
    _, box = await actor.snapshot()
    assert box is not None
    return MapReader().take(box[0])  # type: ignore[arg-type]


def frame_at(x: float, y: float, seq: int) -> LidarFrame:
    points, origin = Lidar(beams=180).scan(WALLS, x, y)
    return LidarFrame(seq, time.monotonic(), points, origin, Pose2D(x, y, 0.3), 0.0, LidarKind.SCAN)


async def eventually(condition: Callable[[], bool], timeout: float = 10.0) -> None:
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.002)


def config(**mapper: Any) -> RhinoConfig:
    """The defaults, but fast: checkpoints come more often than a user may ask for."""
    built = config_from_tree({"mapper": {"publish_hz": 50.0, **mapper}})
    return replace(built, mapper=replace(built.mapper, checkpoint_period_s=0.05))


def build(
    settings: RhinoConfig, *, restarted: bool = False
) -> tuple[MapperActor, FakePlatform, list[MapPatch]]:
    platform, store = FakePlatform(), []

    def put(patch: MapPatch) -> Any:
        store.append(patch)
        return patch

    actor = MapperActor(
        settings,
        platform=FakeHandle(platform),  # type: ignore[arg-type]
        put=put,
        was_restarted=lambda: restarted,
    )
    return actor, platform, store


@contextlib.asynccontextmanager
async def running(settings: RhinoConfig, *, restarted: bool = False) -> AsyncIterator[Rig]:
    actor, platform, store = build(settings, restarted=restarted)
    loop = asyncio.create_task(actor.run())
    try:
        yield Rig(actor, platform, store, loop)
        assert not loop.done() or loop.cancelled(), f"the loop ended: {loop.exception()!r}"
    finally:
        loop.cancel()
        await asyncio.wait([loop])


async def test_reader_before_the_first_frame_gets_one_unknown_cell() -> None:
    actor, _, _ = build(config())

    version, box = await actor.snapshot()

    assert version[1] == 0 and version[0] > 0
    assert box is not None
    snapshot = MapReader().take(box[0])  # type: ignore[arg-type]
    assert snapshot.is_empty and (snapshot.epoch, snapshot.seq) == version
    assert snapshot.occupancy.tolist() == [[-1]] and snapshot.costmap.tolist() == [[255]]
    assert snapshot.known_area == 0.0
    assert await actor.snapshot(version) == (version, None)


async def test_frame_becomes_a_snapshot_with_its_costmap() -> None:
    settings = config()
    async with running(settings) as rig:
        frame = await rig.show()
        snapshot = await rig.newest((0, 0) if rig.store else (await rig.actor.snapshot())[0])

    robot = settings.robot
    expected = inflate(
        snapshot.occupancy,
        resolution=settings.mapper.resolution,
        inscribed_radius=robot.inscribed_radius,
        inflation_radius=robot.inflation_radius,
        cost_scaling_factor=robot.cost_scaling_factor,
    )
    assert np.array_equal(snapshot.costmap, expected)
    assert snapshot.occupancy.shape == snapshot.costmap.shape == snapshot.geometry.shape
    assert snapshot.seq == 1 and snapshot.stamp == frame.stamp and snapshot.robot == frame.pose
    row, col = snapshot.geometry.cell_from_world(4.02, 2.0)
    assert snapshot.occupancy[row, col] >= 65
    assert snapshot.known_area == pytest.approx(
        np.count_nonzero(snapshot.occupancy >= 0) * settings.mapper.resolution**2
    )


async def test_published_arrays_are_read_only_and_never_change() -> None:
    async with running(config()) as rig:
        await rig.show()
        first = await rig.newest((await rig.actor.snapshot())[0] if not rig.store else (0, 0))
        kept = first.occupancy.copy(), first.costmap.copy()
        for k in range(10):
            await rig.show(**scan_from(1.0 + 0.2 * k, 3.0))
        last = await rig.newest()

    assert last.seq > first.seq
    assert np.array_equal(first.occupancy, kept[0]) and np.array_equal(first.costmap, kept[1])
    for array in (first.occupancy, first.costmap, last.occupancy, last.costmap):
        assert not array.flags.writeable


def scan_from(x: float, y: float, **lidar: Any) -> dict[str, Any]:
    points, origin = Lidar(**{"beams": 180, **lidar}).scan(WALLS, x, y)
    return {"points": points, "origin": origin, "pose": Pose2D(x, y)}


async def test_costmap_is_right_after_many_local_updates() -> None:
    settings = config()
    async with running(settings) as rig:
        for k in range(25):
            await rig.show(**scan_from(0.6 + 0.1 * k, 1.0 + 0.08 * k, elevations=RINGS))
        await eventually(lambda: rig.store[-1].stamp == rig.platform.frame.stamp)  # type: ignore[union-attr]
        snapshot = await rig.newest()

    robot = settings.robot
    assert snapshot.seq > 5
    assert np.array_equal(
        snapshot.costmap,
        inflate(
            snapshot.occupancy,
            resolution=settings.mapper.resolution,
            inscribed_radius=robot.inscribed_radius,
            inflation_radius=robot.inflation_radius,
            cost_scaling_factor=robot.cost_scaling_factor,
        ),
    )


async def test_nothing_is_published_while_nothing_changes() -> None:
    async with running(config()) as rig:
        for _ in range(25):
            await rig.show()
        await asyncio.sleep(0.05)
        version, _ = await rig.actor.snapshot()
        for _ in range(5):
            newest = await rig.show()
        await asyncio.sleep(0.05)

        assert await rig.actor.snapshot(version) == (version, None)
        stats = await rig.actor.stats()
        assert stats["frames"] == 30
        assert stats["publishes"] == version[1] < 25
        assert (stats["epoch"], stats["seq"], stats["stamp"]) == (*version, newest.stamp)


async def test_snapshots_come_no_faster_than_asked_for_and_the_last_change_is_not_lost() -> None:
    async with running(config(publish_hz=5.0)) as rig:
        await rig.show()
        started = time.monotonic()
        for k in range(20):
            frame = await rig.show(**scan_from(1.0 + 0.1 * k, 2.5))
        await eventually(lambda: bool(rig.store) and rig.store[-1].stamp == frame.stamp)
        elapsed = time.monotonic() - started
        stats = await rig.actor.stats()

    assert stats["frames"] == 21
    assert stats["publishes"] <= elapsed * 5.0 + 2.0


async def test_frames_that_must_not_be_fused_are_counted_and_leave_the_map_alone() -> None:
    """P13 and P15: without a pose, older than what is fused, after an odometry jump."""
    async with running(config()) as rig:
        await rig.show(pose=Pose2D(math.nan, 0.0))
        await rig.show(origin=(0.0, math.nan, 0.3))
        await rig.show(pose_is_trusted=False)
        assert (await rig.actor.stats())["frames"] == 0

        good = await rig.show()
        await rig.newest((await rig.actor.snapshot())[0] if not rig.store else (0, 0))
        await rig.show(**scan_from(1.0, 1.0), stamp=good.stamp - 5.0)
        await rig.show(**scan_from(1.0, 1.0), stamp=math.nan)
        await rig.show(**scan_from(1.0, 1.0), stamp=good.stamp)  # the same again
        await rig.show(**scan_from(1.0, 1.0), pose_is_trusted=False)
        await asyncio.sleep(0.05)

        stats = await rig.actor.stats()
        assert stats["frames"] == 1
        assert stats["dropped_no_pose"] == 2
        assert stats["dropped_untrusted"] == 2
        assert stats["dropped_stale"] == 2
        assert len([s for s in rig.store if not s.is_empty]) == 1

        await rig.show()
        assert (await rig.actor.stats())["frames"] == 2


async def test_device_stamps_do_not_matter() -> None:
    """P14: frozen, then far in the past, then NaN."""
    async with running(config()) as rig:
        for stamp in (5.0, 5.0, -3600.0, math.nan):
            await rig.show(device_stamp=stamp)
        assert (await rig.actor.stats())["frames"] == 4


async def test_waiting_reader_is_woken_by_the_next_map() -> None:
    async with running(config()) as rig:
        version, _ = await rig.actor.snapshot()
        waiting = asyncio.create_task(rig.actor.snapshot(version, 10.0))
        await asyncio.sleep(0.02)
        assert not waiting.done()
        await rig.show()
        newer, box = await asyncio.wait_for(waiting, 5.0)
        assert newer[1] == 1 and box is not None

        assert await rig.actor.snapshot(newer, 0.02) == (newer, None)
        other_epoch = (newer[0] - 1, newer[1])
        _, other = await rig.actor.snapshot(other_epoch)
        assert other is not None and other[0].since == 0  # type: ignore[attr-defined]


async def test_loop_outlives_a_platform_that_dies_and_says_so_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rhino_actors.actors.mapper._RETRY_S", 0.01)
    caplog.set_level(logging.INFO)
    async with running(config()) as rig:
        await rig.show()
        rig.platform.failure = ray.exceptions.ActorUnavailableError("restarting", None)
        await rig.platform.show(frame_at(2.0, 2.0, 77))  # ends the poll that is under way
        await eventually(lambda: rig.platform.asked > 8)
        rig.platform.failure = None
        rig.seq = 0  # a restarted platform counts from 1
        await rig.show()
        await eventually(lambda: rig.actor._counts["frames"] == 3)

    warnings = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1 and "lidar" in warnings[0].getMessage()
    assert any("answers again" in r.getMessage() for r in caplog.records)


async def checkpointed(settings: RhinoConfig) -> tuple[MapSnapshot, Path]:
    """Map a little and return the map with its checkpoint."""
    path = state_dir() / settings.robot.name / "map_checkpoint.npz"
    async with running(settings) as rig:
        for _ in range(3):
            frame = await rig.show()
        # A frame with nothing new in it keeps the loop turning until the checkpoint is due.
        await asyncio.sleep(0.06)
        await rig.show(points=np.empty((0, 3), np.float32))
        await eventually(lambda: bool(rig.store) and rig.store[-1].stamp >= frame.stamp)
        await eventually(path.exists)
        snapshot = await rig.newest()
    assert [p.name for p in path.parent.iterdir()] == ["map_checkpoint.npz"]
    return snapshot, path


async def test_restarted_mapper_is_back_with_its_map_in_a_new_epoch() -> None:
    before, _ = await checkpointed(config())

    async with running(config(), restarted=True) as rig:
        await eventually(lambda: any(s.seq == 1 for s in rig.store))
        after = await rig.newest()
        assert after.epoch != before.epoch
        assert after.geometry == before.geometry
        assert np.array_equal(after.occupancy, before.occupancy)
        assert np.array_equal(after.costmap, before.costmap)
        assert math.isfinite(after.stamp)
        await rig.show()
        assert (await rig.actor.stats())["frames"] == 1


async def test_fresh_deployment_starts_empty_whatever_was_kept() -> None:
    await checkpointed(config())

    async with running(config()) as rig:
        await eventually(lambda: rig.platform.asked > 0)
        assert (await rig.newest()).is_empty


@pytest.mark.parametrize("content", [b"", b"not a map", None])
async def test_checkpoint_that_cannot_be_used_is_reported_and_left(
    content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    _, path = await checkpointed(config())
    settings = config()
    if content is None:
        settings = config(resolution=0.1)  # a good checkpoint of another map
    else:
        path.write_bytes(content)

    async with running(settings, restarted=True) as rig:
        await eventually(lambda: rig.platform.asked > 0)
        assert (await rig.newest()).is_empty
        await rig.show()
        assert (await rig.actor.stats())["frames"] == 1
    assert "starts empty" in caplog.text


async def test_mapping_goes_on_when_the_checkpoint_cannot_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state_dir().parent.mkdir(parents=True, exist_ok=True)
    state_dir().write_text("a file where the folder should be")
    async with running(config()) as rig:
        await rig.show()
        await asyncio.sleep(0.06)
        await rig.show()
        await eventually(lambda: "cannot be written" in caplog.text)
        await rig.show()
        assert (await rig.actor.stats())["frames"] == 3


async def test_reader_with_the_map_before_gets_what_changed_and_one_that_missed_some_gets_that() -> (
    None
):
    async with running(config(resolution=0.1)) as rig:
        readers = [MapReader() for _ in range(3)]

        async def read(reader: MapReader) -> MapPatch:
            _, box = await rig.actor.snapshot(reader.version)
            assert box is not None
            reader.take(box[0])  # type: ignore[arg-type]
            return box[0]  # type: ignore[return-value]

        await rig.show()
        await rig.newest((0, 0) if rig.store else (await rig.actor.snapshot())[0])
        first = [await read(reader) for reader in readers]
        assert [patch.since for patch in first] == [0, 0, 0]
        sinces = []
        for k in range(6):
            before = (await rig.actor.snapshot())[0]
            await rig.show(**scan_from(1.0 + 0.3 * k, 2.6))
            await rig.actor.snapshot(before, 5.0)
            sinces.append((await read(readers[0])).since)
            if k == 2:
                assert (await read(readers[1])).since == 1
        assert sinces == list(range(1, 7))
        assert (await read(readers[2])).since == 1
        expected = await whole(rig.actor)
        for reader in readers[:1] + readers[2:]:
            assert reader.snapshot is not None
            assert np.array_equal(reader.snapshot.occupancy, expected.occupancy)
            assert np.array_equal(reader.snapshot.costmap, expected.costmap)
            assert reader.snapshot.stamp == expected.stamp


async def test_mapper_holds_references_of_the_newest_map_alone() -> None:
    async with running(config()) as rig:
        await rig.show()
        for k in range(10):
            await rig.show(**scan_from(1.0 + 0.2 * k, 2.6))
            await rig.actor.snapshot()
        await rig.actor.snapshot((await rig.actor.snapshot())[0], 0.05)
        assert len(rig.actor._boxes) <= 2


async def test_patches_that_are_kept_stay_few_whatever_readers_ask_for() -> None:
    async with running(config(resolution=0.1)) as rig:
        await rig.show()
        for k in range(MAX_PATCHES + 4):
            before = (await rig.actor.snapshot())[0]
            await rig.show(**scan_from(1.0 + 0.2 * k, 2.6))
            await rig.actor.snapshot(before, 5.0)
        epoch, newest = (await rig.actor.snapshot())[0]
        assert newest > MAX_PATCHES
        for since in range(1, newest):
            version, box = await rig.actor.snapshot((epoch, since))
            assert version == (epoch, newest) and box is not None
            assert box[0].since == since  # type: ignore[attr-defined]
        assert len(rig.actor._boxes) <= MAX_PATCHES


async def test_correction_moves_frames_into_the_map_and_is_published() -> None:
    async with running(config()) as rig:
        plain = OccupancyMapper(0.05, max_range=9.5, body_length=0.7, body_width=0.31)
        corner, quarter = Pose2D(2.0, 1.0, math.pi / 2), {"x": 2.0, "y": 2.0}
        rig.actor._map_from_odom = corner
        frame = await rig.show()
        snapshot = await rig.newest((0, 0) if rig.store else (await rig.actor.snapshot())[0])
        points = np.stack(
            [2.0 - frame.points[:, 1], 1.0 + frame.points[:, 0], frame.points[:, 2]], 1
        )
        x, y, z = frame.origin
        pose = Pose2D(2.0 - quarter["y"], 1.0 + quarter["x"], 0.3 + math.pi / 2)
        plain.integrate(points, (2.0 - y, 1.0 + x, z), pose=pose)

    assert snapshot.map_from_odom == corner
    assert snapshot.robot == frame.pose
    row, col = snapshot.geometry.first_cell
    rows, cols = snapshot.geometry.shape
    expected = plain.read(CellWindow(row, row + rows, col, col + cols))
    assert np.mean(snapshot.occupancy == expected) > 0.999  # rounding at cell edges


async def test_second_loop_is_refused() -> None:
    async with running(config()) as rig:
        await rig.show()
        with pytest.raises(RuntimeError, match="runs already"):
            await rig.actor.run()
        await rig.show()
        assert (await rig.actor.stats())["frames"] == 2


async def test_failed_publish_ends_the_loop_and_a_new_loop_makes_up_for_it() -> None:
    actor, platform, store = build(config())
    working, failing = actor._put, True

    def put(patch: MapPatch) -> Any:
        if failing:
            raise MemoryError("object store is full")
        return working(patch)

    actor._put = put
    await platform.show(frame_at(2.0, 2.0, 1))
    with pytest.raises(MemoryError):
        await asyncio.wait_for(actor.run(), 10.0)
    failing = False
    loop = asyncio.create_task(actor.run())
    await eventually(lambda: bool(store))
    loop.cancel()
    await asyncio.wait([loop])

    assert store[0].seq == 1
    assert store[0].known_area > 5.0


async def test_voxel_frames_are_fused_as_voxels() -> None:
    size = 0.05
    wall = [[1.025, y, 0.225] for y in np.arange(-1.975, 2.0, size)]
    behind = [[x, y, 0.025] for x in np.arange(1.5, 3.0, size) for y in (-0.125, 0.025, 0.225)]
    frame = {
        "points": np.array(wall + behind, np.float32),
        "origin": (0.0, 0.0, 0.35),
        "pose": Pose2D(0.0, 0.0),
        "resolution": size,
        "kind": LidarKind.VOXEL,
    }
    async with running(config()) as rig:
        await rig.show(**frame)
        await eventually(lambda: any(not s.is_empty for s in rig.store))
        snapshot = await rig.newest()

    row, col = snapshot.geometry.cell_from_world(1.3, 0.0)
    assert np.all(snapshot.occupancy[row - 2 : row + 3, col] == -1), (
        "no beam slips through the wall"
    )


async def test_stats_are_plain_finite_numbers_from_the_start() -> None:
    actor, _, _ = build(config())
    empty = await actor.stats()
    async with running(config()) as rig:
        await rig.show()
        await eventually(lambda: any(not s.is_empty for s in rig.store))
        full = await rig.actor.stats()

    assert empty.keys() == full.keys()
    for stats in (empty, full):
        assert all(type(value) is float and math.isfinite(value) for value in stats.values())
    assert full["known_area"] > 5.0 and full["frames"] == 1.0
    for name in ("integrate_ms", "publish_ms", "latency_ms"):
        assert 0.0 < full[f"{name}_p50"] <= full[f"{name}_p99"]
