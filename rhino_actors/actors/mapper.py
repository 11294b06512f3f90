"""MapperActor: lidar frames in, versioned map snapshots out."""

import asyncio
import contextlib
import logging
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import ray
from numpy.typing import NDArray

from rhino_actors.actors.calls import call
from rhino_actors.actors.rate import Percentiles, RateMeter
from rhino_actors.config import RhinoConfig, state_dir
from rhino_actors.errors import NoMap, NotAvailable, RhinoError, StorageError
from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.mapping import (
    InflatedCostmap,
    OccupancyMapper,
    load_checkpoint,
    mapper_state,
    on_lattice,
    save_checkpoint,
    warm_up,
)
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import (
    NO_CORRECTION,
    NO_INFORMATION,
    GridGeometry,
    MapSnapshot,
)
from rhino_actors.messages.maps import MapContent
from rhino_actors.messages.sensors import LidarFrame, LidarKind

if TYPE_CHECKING:
    from ray.actor import ActorProxy

    from rhino_actors.actors.platform import PlatformActor

logger = logging.getLogger(__name__)

MAX_WAIT_S = 30.0
_POLL_S = 1.0  # longest wait for a frame before the loop looks around
_RETRY_S = 0.3  # pause before an unreachable platform is asked again

Version = tuple[int, int]


def _was_restarted() -> bool:
    """Tell whether Ray brought this actor back after it died."""
    with warnings.catch_warnings():
        # Ray warns of a deprecated part that it uses in there itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


class MapperActor:
    """Fuses lidar frames into the occupancy grid and publishes it, with its costmap, as immutable snapshots.

    Reads:     PlatformActor.lidar
    Publishes: MapSnapshot by reference, at most `publish_hz`, only when a cell changed
    A failed call: the platform is restarting; the map stands still and goes on with the next frame. After a crash
    of its own the actor comes back with its checkpoint and a new epoch; a fresh deployment starts empty.
    """

    def __init__(
        self,
        config: RhinoConfig,
        *,
        platform: "ActorProxy[PlatformActor]",
        put: "Callable[[MapSnapshot], ray.ObjectRef[MapSnapshot]]" = ray.put,
        was_restarted: Callable[[], bool] = _was_restarted,
    ) -> None:
        robot, mapper = config.robot, config.mapper
        self._config = mapper
        self._platform = platform
        self._put = put
        self._was_restarted = was_restarted
        self._mapper = OccupancyMapper(
            mapper.resolution,
            max_range=mapper.max_range,
            hit_log_odds=mapper.hit_log_odds,
            miss_log_odds=mapper.miss_log_odds,
            max_log_odds=mapper.max_log_odds,
            obstacle_min_height=robot.obstacle_min_height,
            obstacle_max_height=robot.obstacle_max_height,
            body_length=robot.length,
            body_width=robot.width,
            max_cells=mapper.max_cells,
        )
        self._costs = InflatedCostmap(
            inscribed_radius=robot.inscribed_radius,
            inflation_radius=robot.inflation_radius,
            cost_scaling_factor=robot.cost_scaling_factor,
        )
        self._running = False
        self._seen = 0  # seq of the newest frame that the platform gave
        self._stamp = -math.inf  # of the newest frame in the map
        self._robot: Pose2D | None = None
        self._map_from_odom = NO_CORRECTION
        self._replacing = asyncio.Lock()  # a frame is in one map or the other
        self._platform_answers = True

        # A restarted mapper counts from 0 again: the epoch tells its snapshots from the earlier ones.
        self._epoch = time.time_ns() // 1_000_000
        self._frame_epoch = (
            self._epoch
        )  # in which the map got its coordinates; a crash does not change them
        self._seq = 0
        self._box: list[ray.ObjectRef[MapSnapshot]] | None = None
        self._is_published = True  # the newest map is out
        self._published_at = -math.inf
        self._news = asyncio.Condition()

        self._checkpoint = state_dir(config.paths) / robot.name / "map_checkpoint.npz"
        self._is_checkpointed = True
        self._checkpointed_at = time.monotonic()
        self._writing: asyncio.Task[None] | None = None

        self._counts: Counter[str] = Counter()
        self._frame_rate = RateMeter()
        self._publish_rate = RateMeter()
        self._integrate_s = Percentiles()
        self._publish_s = Percentiles()
        self._latency_s = Percentiles()

    @ray.method
    async def run(self) -> None:
        """Map until cancelled; an exception ends the loop and reaches main. May be called again after that."""
        if self._running:
            raise RuntimeError("the mapper's loop runs already")
        self._running = True
        try:
            await asyncio.to_thread(self._prepare)
            while True:
                frame = await self._next_frame()
                async with self._replacing:
                    if frame is not None and self._accepts(frame):
                        await asyncio.to_thread(self._integrate, frame)
                    await self._publish_if_due()
                    await self._checkpoint_if_due()
        finally:
            self._running = False

    @ray.method
    async def snapshot(
        self, newer_than: Version = (0, 0), wait: float = 0.0
    ) -> "tuple[Version, list[ray.ObjectRef[MapSnapshot]] | None]":
        """Wait for another map than the one that the caller has.

        Args:
            newer_than: (epoch, seq) of the caller's snapshot; (0, 0): it has none.
            wait: longest wait [s].

        Returns:
            ((epoch, seq), [reference]) of the newest snapshot, or (version, None) if it is still the caller's. The list
            keeps Ray from resolving the reference: await it to read it. Before the first frame seq is 0 and the
            map is one unknown cell. A reference is lost with the mapper: ask again with (0, 0).
        """
        if self._box is None:
            await self._offer_empty()
        if self._version == tuple(newer_than) and wait > 0.0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait, MAX_WAIT_S)), self._news:
                    await self._news.wait_for(lambda: self._version != tuple(newer_than))
        if self._version == tuple(newer_than):
            return self._version, None
        return self._version, self._box

    @ray.method
    async def stats(self) -> dict[str, float]:
        """Return counts since the start, rates [Hz], the last times [ms], and the known area [m2].

        `latency_ms` is from a frame's arrival to the snapshot that holds it; 0 before the first. `epoch` and `seq` are
        of the newest snapshot, `frame_epoch` is the epoch in which the map got its coordinates, `map_from_odom_...`
        says where odom lies in it [m, rad], `stamp` is of the newest frame in the map [s], 0 before the first.
        """
        now = time.monotonic()
        times = {
            "integrate_ms": self._integrate_s,
            "publish_ms": self._publish_s,
            "latency_ms": self._latency_s,
        }
        counted = ("frames", "dropped_no_pose", "dropped_stale", "dropped_untrusted", "publishes")
        rows, cols = self._mapper.geometry.shape
        return {
            "epoch": float(self._epoch),
            "frame_epoch": float(self._frame_epoch),
            "seq": float(self._seq),
            "stamp": self._stamp if math.isfinite(self._stamp) else 0.0,
            **{name: float(self._counts[name]) for name in counted},
            "growth_refused": float(self._mapper.growth_refused),
            "frame_rate": self._frame_rate.rate(now),
            "publish_rate": self._publish_rate.rate(now),
            **{
                f"{name}_p{percent}": 1000.0 * samples.at(percent) if samples else 0.0
                for name, samples in times.items()
                for percent in (50, 99)
            },
            "known_area": self._mapper.known_area,
            "map_from_odom_x": self._map_from_odom.x,
            "map_from_odom_y": self._map_from_odom.y,
            "map_from_odom_yaw": self._map_from_odom.yaw,
            "rows": float(rows),
            "cols": float(cols),
        }

    @property
    def _version(self) -> Version:
        return (self._epoch, self._seq)

    def _prepare(self) -> None:
        """Compile the kernels; after a crash, take the map back from the checkpoint."""
        warm_up()
        if self._counts["frames"] or not self._was_restarted():
            return
        try:
            state = load_checkpoint(self._checkpoint)
            frame_epoch, map_from_odom = _frame_of(state)
            self._mapper.restore(state)
        except StorageError as error:
            logger.warning("the map starts empty: %s", error)
            return
        self._frame_epoch, self._map_from_odom = frame_epoch, map_from_odom
        self._is_published = not self._mapper.has_changed
        logger.info("the map is back: %.1f m2 known", self._mapper.known_area)

    async def _next_frame(self) -> LidarFrame | None:
        """Wait for a frame, not longer than until the map is due."""
        wait = _POLL_S
        if not self._is_published:
            wait = min(wait, max(0.0, self._next_publish - time.monotonic()))
        try:
            asked = self._platform.lidar.remote(self._seen, wait)  # type: ignore[call-arg]  # ray's types drop defaults
            frame = await call(asked, wait + 2.0)
        except RhinoError as error:
            if self._platform_answers:
                logger.warning("no lidar: %s", error)
            self._platform_answers = False
            self._seen = 0  # a restarted platform counts from 1 again
            await asyncio.sleep(_RETRY_S)
            return None
        if not self._platform_answers:
            logger.info("the platform answers again")
        self._platform_answers = True
        if frame is not None:
            self._seen = frame.seq
        return frame

    def _accepts(self, frame: LidarFrame) -> bool:
        """Say whether a frame may be fused, and count why not. Only the platform's stamps are compared."""
        placed = (*frame.origin, *frame.pose.as_tuple())
        if not all(map(math.isfinite, placed)):
            self._counts["dropped_no_pose"] += 1
        elif not frame.pose_is_trusted:
            self._counts["dropped_untrusted"] += 1
        elif not frame.stamp >= self._stamp:
            self._counts["dropped_stale"] += 1
        else:
            return frame.stamp > self._stamp  # the same frame may come twice
        return False

    def _integrate(self, frame: LidarFrame) -> None:
        started = time.monotonic()
        points, origin, pose = _in_map(frame, self._map_from_odom)
        self._mapper.integrate(
            points,
            origin,
            pose=pose,
            voxel_size=frame.resolution if frame.kind is LidarKind.VOXEL else 0.0,
        )
        now = time.monotonic()
        self._integrate_s.add(now - started)
        self._frame_rate.tick(now)
        self._counts["frames"] += 1
        self._stamp = frame.stamp
        self._robot = frame.pose
        if self._mapper.has_changed:
            self._is_published = self._is_checkpointed = False
        if self._mapper.growth_refused == 1:
            logger.warning("the map is at max_cells and does not grow any more")

    @property
    def _next_publish(self) -> float:
        return self._published_at + 1.0 / self._config.publish_hz

    async def _publish_if_due(self) -> None:
        started = time.monotonic()
        if self._is_published or started < self._next_publish:
            return
        reference = await asyncio.to_thread(self._put_snapshot, self._seq + 1)
        now = time.monotonic()
        self._published_at = started
        self._is_published = True
        self._counts["publishes"] += 1
        self._publish_rate.tick(now)
        self._publish_s.add(now - started)
        if math.isfinite(self._stamp):
            self._latency_s.add(now - self._stamp)
        async with self._news:
            self._seq += 1
            self._box = [reference]
            self._news.notify_all()

    def _put_snapshot(self, seq: int) -> "ray.ObjectRef[MapSnapshot]":
        """Copy the map, bring the costmap up to date where it changed, and put both into the object store."""
        changed = self._mapper.take_changed()
        geometry, occupancy = self._mapper.geometry, self._mapper.occupancy()
        self._costs.update(occupancy, geometry, changed)
        costmap = self._costs.costmap.copy()
        occupancy.flags.writeable = costmap.flags.writeable = False
        return self._put(
            MapSnapshot(
                epoch=self._epoch,
                seq=seq,
                stamp=self._stamp if math.isfinite(self._stamp) else time.monotonic(),
                geometry=geometry,
                occupancy=occupancy,
                costmap=costmap,
                known_area=self._mapper.known_area,
                robot=self._robot,
                map_from_odom=self._map_from_odom,
            )
        )

    async def _offer_empty(self) -> None:
        """Have a snapshot to give before the first frame: one unknown cell, seq 0."""
        empty = OccupancyMapper(self._config.resolution)
        occupancy = empty.occupancy()
        costmap = np.full(occupancy.shape, NO_INFORMATION, np.uint8)
        occupancy.flags.writeable = costmap.flags.writeable = False
        snapshot = MapSnapshot(
            self._epoch, 0, time.monotonic(), empty.geometry, occupancy, costmap, 0.0
        )
        reference = await asyncio.to_thread(self._put, snapshot)
        if self._box is None:
            self._box = [reference]

    async def _checkpoint_if_due(self) -> None:
        now = time.monotonic()
        due = self._checkpointed_at + self._config.checkpoint_period_s
        if self._is_checkpointed or now < due or (self._writing and not self._writing.done()):
            return
        self._checkpointed_at = now
        self._is_checkpointed = True
        state = await asyncio.to_thread(self._mapper.state)
        state["frame"] = np.array([self._frame_epoch, *self._map_from_odom.as_tuple()], np.float64)
        # The write may take longer than a frame; the map goes on meanwhile.
        self._writing = asyncio.create_task(asyncio.to_thread(self._write_checkpoint, state))

    def _write_checkpoint(self, state: dict[str, np.ndarray]) -> None:
        try:
            save_checkpoint(self._checkpoint, state)
        except StorageError as error:
            logger.warning("%s", error)

    @ray.method
    async def export_map(self) -> MapContent:
        """Return the map as it is now, to be kept. Raises NoMap while nothing was seen."""
        async with self._replacing:
            if self._mapper.known_area == 0.0:
                raise NoMap()
            return MapContent(
                self._mapper.geometry,
                await asyncio.to_thread(self._mapper.occupancy),
                None,
                self._frame_epoch,
            )

    @ray.method
    async def load_map(
        self,
        occupancy: NDArray[np.int8],
        geometry: GridGeometry,
        initial_pose: Pose2D | None = None,
    ) -> int:
        """Go on with another map instead of the present one.

        Args:
            occupancy: (rows, cols) int8 in the frame map, -1 unknown, 0..100; row 0 is the lowest y.
            geometry: where it lies.
            initial_pose: where the robot stands on it; None: map and odom are one.

        Returns:
            The new epoch. The first snapshot of it is out.

        Raises:
            NotAvailable: a pose is given and the robot has no odometry yet.
            MapTooLarge, StorageError: the map does not fit; the present one is as it was.
            ActorUnavailable: the platform does not answer.
        """
        correction = NO_CORRECTION
        if initial_pose is not None:
            status = await call(self._platform.status.remote())
            if status.odometry is None:
                raise NotAvailable("The robot's pose in odom is not known yet.")
            odom_from_base = status.odometry.pose.as_tuple()
            correction = Pose2D(*compose(initial_pose.as_tuple(), inverse(odom_from_base)))
        async with self._replacing:
            await asyncio.to_thread(self._replace_map, occupancy, geometry)
            self._map_from_odom = correction
            self._epoch = self._frame_epoch = max(self._epoch + 1, time.time_ns() // 1_000_000)
            self._seq, self._box = 0, None
            self._is_published = self._is_checkpointed = False
            self._published_at = -math.inf
            await self._publish_if_due()
            return self._epoch

    def _replace_map(self, occupancy: NDArray[np.int8], geometry: GridGeometry) -> None:
        fitted, lattice = on_lattice(
            occupancy, geometry, self._config.resolution, max_cells=self._config.max_cells
        )
        self._mapper.restore(mapper_state(fitted, lattice, self._mapper.state()))


def _in_map(
    frame: LidarFrame, map_from_odom: Pose2D
) -> tuple[NDArray[np.floating], tuple[float, float, float], Pose2D]:
    """Return a frame's points, sensor origin and robot pose in the frame map."""
    if map_from_odom == NO_CORRECTION:
        return frame.points, frame.origin, frame.pose
    correction = map_from_odom.as_tuple()
    x, y, z = frame.origin
    ((moved_x, moved_y),) = transform_points(correction, [[x, y]]).tolist()
    pose = Pose2D(*compose(correction, frame.pose.as_tuple()))
    return transform_points(correction, frame.points), (moved_x, moved_y, z), pose


def _frame_of(state: Mapping[str, NDArray[np.generic]]) -> tuple[int, Pose2D]:
    """Return the epoch in which a checkpoint's map got its coordinates, and where odom lies in it."""
    try:
        epoch, x, y, yaw = (float(value) for value in state["frame"])
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"The checkpoint does not say where odom lies: {error}.") from error
    return int(epoch), Pose2D(x, y, yaw)
