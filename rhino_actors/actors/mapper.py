"""MapperActor: lidar frames in, versioned map snapshots out."""

import asyncio
import contextlib
import dataclasses
import functools
import logging
import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
from numpy.typing import NDArray

from rhino_actors.actors.calls import call
from rhino_actors.actors.rate import Percentiles, RateMeter
from rhino_actors.config import RhinoConfig, state_dir
from rhino_actors.errors import (
    InvalidRequest,
    MapTooLarge,
    NoMap,
    NotAvailable,
    RhinoError,
    StorageError,
)
from rhino_actors.geometry import compose, inverse
from rhino_actors.mapping import MapLayers, load_checkpoint, save_checkpoint, warm_up
from rhino_actors.mapping.checkpoint import Standing
from rhino_actors.mapping.loop_mapping import LoopMapping, Redraw
from rhino_actors.mapping.whereabouts import Whereabouts
from rhino_actors.messages.geometry import MAX_COORDINATE_M, Pose2D
from rhino_actors.messages.grid import NO_CORRECTION, GridGeometry
from rhino_actors.messages.localisation import LocalisationState, LocalisationStatus
from rhino_actors.messages.map_patch import NO_MAP, MapPatch, MapVersion, VoxelPatch
from rhino_actors.messages.maps import MapContent
from rhino_actors.messages.sensors import LidarFrame

if TYPE_CHECKING:
    from ray.actor import ActorProxy

    from rhino_actors.actors.platform import PlatformActor

logger = logging.getLogger(__name__)

MAX_WAIT_S = 30.0
MAX_PATCHES = 8  # onto earlier maps that are kept until the next map
_POLL_S = 1.0  # longest wait for a frame before the loop looks around
_RETRY_S = 0.3  # pause before an unreachable platform is asked again


def _was_restarted() -> bool:
    """Tell whether Ray brought this actor back after it died."""
    with warnings.catch_warnings():
        # Ray warns of a deprecated part that it uses in there itself.
        warnings.simplefilter("ignore", DeprecationWarning)
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)


class MapperActor:
    """Fuses lidar frames into the map and publishes it, with its costmap, as patches that readers put together.

    Reads:     PlatformActor.lidar
    Publishes: MapPatch by reference, at once after a frame that changed a cell, at most `publish_hz`
    A failed call: the platform is restarting; the map stands still and goes on with the next frame. After a crash
    of its own the actor comes back with its checkpoint and a new epoch; a fresh deployment starts empty.
    """

    def __init__(
        self,
        config: RhinoConfig,
        *,
        platform: "ActorProxy[PlatformActor]",
        put: Callable[[Any], Any] = ray.put,
        was_restarted: Callable[[], bool] = _was_restarted,
    ) -> None:
        self._config = config.mapper
        self._robot_config = config.robot
        self._platform = platform
        self._put = put
        self._was_restarted = was_restarted
        self._layers = MapLayers(config.mapper, config.robot)
        self._whereabouts = Whereabouts(config.mapper, config.robot)
        self._loops = LoopMapping.of(config.mapper, config.robot)
        self._closing: asyncio.Task[None] | None = None  # a look for a loop, beside the frames
        # Where odom lies in the map: frames are moved by it before they are fused.
        self._map_from_odom = NO_CORRECTION
        self._is_placed = False  # on a loaded map, which the correction is about right for
        self._working = asyncio.Lock()  # one at a time changes the map, or looks into its tiles
        self._running = False
        self._seen = 0  # seq of the newest frame that the platform gave
        self._stamp = -math.inf  # of the newest frame in the map
        self._robot: Pose2D | None = None
        self._platform_answers = True

        # A restarted mapper counts from 0 again: the epoch tells its maps from the earlier ones.
        self._epoch = time.time_ns() // 1_000_000
        # In which the map got its coordinates; a crash does not change them.
        self._frame_epoch = self._epoch
        self._seq = 0
        # Patches onto earlier maps, by their seq, that make the newest; made when first asked for.
        self._boxes: dict[int, list[ray.ObjectRef[MapPatch]]] = {}
        self._voxel_boxes: dict[int, list[ray.ObjectRef[VoxelPatch]]] = {}
        self._about: dict[str, Any] = {
            "stamp": time.monotonic(),
            "known_area": 0.0,
        }  # the newest map
        self._is_published = True  # no frame changed the map since
        self._differs = False  # the tiles are of the map after `_seq`
        self._published_at = -math.inf
        self._news = asyncio.Condition()

        self._checkpoint = state_dir(config.paths) / config.robot.name / "map_checkpoint.npz"
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
                await self._work(frame if frame is not None and self._accepts(frame) else None)
                self._close_loops_if_due()
                await self._checkpoint_if_due()
        finally:
            self._running = False
            if self._closing is not None:
                self._closing.cancel()

    @ray.method
    async def snapshot(
        self, newer_than: MapVersion = NO_MAP, wait: float = 0.0
    ) -> "tuple[MapVersion, list[ray.ObjectRef[MapPatch]] | None]":
        """Wait for another map than the one that the caller has.

        Args:
            newer_than: (epoch, seq) of the caller's map; (0, 0): it has none.
            wait: longest wait [s].

        Returns:
            ((epoch, seq), [reference]) of the newest map, as the patch that makes it of the caller's one, which
            `MapReader` puts in; or (version, None) if it is still the caller's. The list keeps Ray from resolving the
            reference: await it to read it. A caller with a map of another life of this actor gets the whole map.
            Before the first frame seq is 0 and the map is one unknown cell. A reference is lost with the mapper: ask
            again with (0, 0).
        """
        newer_than = (newer_than[0], newer_than[1])
        if not await self._is_other(newer_than, wait):
            return self._version, None
        async with self._working:
            since = self._since(newer_than)
            if since not in self._boxes:
                patch = functools.partial(self._put_patch, since, self._seq)
                _keep(self._boxes, since, await asyncio.to_thread(patch))
            return self._version, self._boxes[since]

    @ray.method
    async def voxels(
        self, newer_than: MapVersion = NO_MAP, wait: float = 0.0
    ) -> "tuple[MapVersion, list[ray.ObjectRef[VoxelPatch]] | None]":
        """Wait for another map than the caller's and return its voxels, as `snapshot` does the grid.

        Without the 3D layer a patch has no brick.
        """
        newer_than = (newer_than[0], newer_than[1])
        if not await self._is_other(newer_than, wait):
            return self._version, None
        async with self._working:
            since = self._since(newer_than)
            if since not in self._voxel_boxes:
                _keep(self._voxel_boxes, since, await asyncio.to_thread(self._put_voxels, since))
            return self._version, self._voxel_boxes[since]

    @ray.method
    async def stats(self) -> dict[str, float]:
        """Return counts since the start, rates [Hz], the last times [ms], the known area [m2], memory.

        `latency_ms` is from a frame's arrival to the snapshot that holds it; 0 before the first. `epoch` and `seq` are
        of the newest snapshot, `frame_epoch` is the epoch in which the map got its coordinates, `map_from_odom_...`
        says where odom lies in it [m, rad], `stamp` is of the newest frame in the map [s], 0 before the first.
        `localised` is 1 unless a map is loaded and the robot's place in it is not known; `localisation_share` is that
        of the lidar's points on the loaded map's obstacles. With drift correction by loops, LoopMapping.stats too.
        """
        now = time.monotonic()
        times = {
            "integrate_ms": self._integrate_s,
            "publish_ms": self._publish_s,
            "latency_ms": self._latency_s,
        }
        counted = ("frames", "dropped_no_pose", "dropped_stale", "dropped_untrusted", "publishes")
        rows, cols = self._layers.geometry.shape
        return {
            "epoch": float(self._epoch),
            "frame_epoch": float(self._frame_epoch),
            "seq": float(self._seq),
            "stamp": self._stamp if math.isfinite(self._stamp) else 0.0,
            **{name: float(self._counts[name]) for name in counted},
            "growth_refused": float(self._layers.occupancy.growth_refused),
            "frame_rate": self._frame_rate.rate(now),
            "publish_rate": self._publish_rate.rate(now),
            **{
                f"{name}_p{percent}": 1000.0 * samples.at(percent) if samples else 0.0
                for name, samples in times.items()
                for percent in (50, 99)
            },
            "known_area": self._layers.known_area,
            **(self._loops.stats() if self._loops is not None else {}),
            "localised": float(self._whereabouts.status.is_usable),
            "localisation_share": self._whereabouts.status.share,
            "memory_mb": self._layers.occupancy.memory / 1e6,
            "map_from_odom_x": self._map_from_odom.x,
            "map_from_odom_y": self._map_from_odom.y,
            "map_from_odom_yaw": self._map_from_odom.yaw,
            "rows": float(rows),
            "cols": float(cols),
        }

    @ray.method
    async def localisation(self) -> LocalisationStatus:
        """Return whether the robot knows its place in a loaded map, with a sentence for people, and where odom lies."""
        return dataclasses.replace(self._whereabouts.status, map_from_odom=self._map_from_odom)

    @property
    def _version(self) -> MapVersion:
        return (self._epoch, self._seq)

    async def _is_other(self, version: MapVersion, wait: float) -> bool:
        """Wait until the newest map is another one than `version`, or the time [s] is over; says if it is."""
        if self._version == version and wait > 0.0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(wait, MAX_WAIT_S)), self._news:
                    await self._news.wait_for(lambda: self._version != version)
        return self._version != version

    def _since(self, version: MapVersion) -> int:
        """Return the seq of a reader's map if a patch can go onto it, else 0: the reader needs all."""
        epoch, seq = version
        return seq if epoch == self._epoch and 0 < seq < self._seq else 0

    def _prepare(self) -> None:
        """Compile the kernels; after a crash, take the map back from the checkpoint."""
        warm_up(with_voxels=self._layers.voxels is not None)
        if self._counts["frames"] or not self._was_restarted():
            return
        layers = MapLayers(self._config, self._robot_config)
        try:
            state = load_checkpoint(self._checkpoint)
            standing = Standing.of(state)
            layers.restore(state)
            has_map = layers.has_changed
            differs = layers.update_tiles(self._seq + 1)
            if standing.is_loaded:
                grid, geometry = layers.occupancy_grid(), layers.geometry
                self._whereabouts.resume(grid, geometry, is_near=standing.is_placed)
        except (StorageError, ValueError) as error:
            logger.warning("the map starts empty: %s", error)
            return
        self._layers, self._is_placed = layers, standing.is_placed
        self._frame_epoch, self._map_from_odom = standing.frame_epoch, standing.map_from_odom
        # The way is lost, and with it the loops back to it: the map so far stays as it is.
        self._loops = (
            None
            if standing.is_loaded
            else LoopMapping.of(self._config, self._robot_config, base=state)
        )
        self._is_published, self._differs = not has_map, differs
        logger.info("the map is back: %.1f m2 known", self._layers.known_area)

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

    @property
    def _next_publish(self) -> float:
        return self._published_at + 1.0 / self._config.publish_hz

    async def _work(self, frame: LidarFrame | None) -> None:
        """Fuse a frame, if there is one, and publish what changed, if it is time: all in one go on one thread."""
        async with self._working:
            started = time.monotonic()
            is_due = started >= self._next_publish
            if frame is None and (self._is_published or not is_due):
                return
            reference = await asyncio.to_thread(self._fuse, frame, is_due)
            if reference is None:
                return
            now = time.monotonic()
            self._published_at = started
            self._counts["publishes"] += 1
            self._publish_rate.tick(now)
            if math.isfinite(self._stamp):
                self._latency_s.add(now - self._stamp)
            async with self._news:
                self._boxes = {self._seq: [reference]}
                self._voxel_boxes = {}
                self._seq += 1
                self._news.notify_all()

    def _fuse(self, frame: LidarFrame | None, is_due: bool) -> "ray.ObjectRef[MapPatch] | None":
        if frame is not None:
            self._integrate(frame)
        if not is_due or self._is_published:
            return None
        started = time.monotonic()
        # What could not be put the last time is still to come.
        self._differs |= self._layers.update_tiles(self._seq + 1)
        self._about = {
            "stamp": self._stamp if math.isfinite(self._stamp) else time.monotonic(),
            "known_area": self._layers.known_area,
            "robot": self._robot,
            "map_from_odom": self._map_from_odom,
            "localised": self._whereabouts.status.is_usable,
        }
        reference = self._put_patch(self._seq, self._seq + 1) if self._differs else None
        self._differs = False
        self._is_published = True
        self._publish_s.add(time.monotonic() - started)
        return reference

    def _integrate(self, frame: LidarFrame) -> None:
        started = time.monotonic()
        before, localised = self._map_from_odom, self._whereabouts.status
        self._map_from_odom, may_fuse = self._whereabouts.place(
            frame, before, self._layers.occupancy.read
        )
        state = self._whereabouts.status.state
        if state is not localised.state:
            logger.info("%s", self._whereabouts.status.sentence)
            self._is_checkpointed = False
        if state in (LocalisationState.LOCALISED, LocalisationState.LOST):
            self._is_placed = state is LocalisationState.LOCALISED
        if self._map_from_odom != before or state is not localised.state:
            self._is_published, self._differs = False, True  # readers want it without a new cell
        if may_fuse:
            self._layers.integrate(frame, self._map_from_odom)
            if self._loops is not None and self._loops.add_frame(frame, self._map_from_odom):
                logger.warning("the way is longer than can be kept: no loop is closed any more")
        now = time.monotonic()
        self._integrate_s.add(now - started)
        self._frame_rate.tick(now)
        self._counts["frames"] += 1
        self._stamp = frame.stamp
        self._robot = frame.pose
        if self._layers.has_changed:
            self._is_published = self._is_checkpointed = False
        if self._layers.occupancy.growth_refused == 1:
            logger.warning("the map is at max_cells and does not grow any more")

    def _close_loops_if_due(self) -> None:
        """Begin to look for a loop when it is time, one at a time. Raises what the last look raised."""
        if self._closing is not None and self._closing.done():
            closing, self._closing = self._closing, None
            closing.result()
        if self._closing is None and self._loops is not None and self._loops.is_due:
            self._closing = asyncio.create_task(self._close_loops(self._loops))

    async def _close_loops(self, loops: LoopMapping) -> None:
        """Look for a loop and draw the map anew while frames go on into the present one; then change over."""
        try:
            async with self._working:
                redraw = await asyncio.to_thread(loops.begin)
            await asyncio.to_thread(redraw.run)
            async with self._working:
                if loops is self._loops:  # no other map was loaded meanwhile
                    await asyncio.to_thread(self._adopt, loops, redraw)
        finally:
            loops.drop()
        await self._work(None)

    def _adopt(self, loops: LoopMapping, redraw: Redraw) -> None:
        self._map_from_odom = loops.adopt(redraw, self._layers, self._map_from_odom)
        if redraw.layers is not None:
            self._is_published = self._is_checkpointed = False
            self._differs = True  # readers want the correction even if no cell differs
            logger.info(
                "a loop is closed: the map moved by up to %.2f m, drawn anew in %.1f s",
                redraw.shift,
                redraw.took,
            )

    def _put_patch(self, since: int, seq: int) -> "ray.ObjectRef[MapPatch]":
        """Put what makes map `seq` of map `since` into the object store."""
        patch = self._layers.tiles.patch(since, epoch=self._epoch, seq=seq, **self._about)
        reference: ray.ObjectRef[MapPatch] = self._put(patch)
        return reference

    def _put_voxels(self, since: int) -> "ray.ObjectRef[VoxelPatch]":
        bricks = self._layers.bricks
        stamp = self._about["stamp"]
        patch = bricks.patch(since, epoch=self._epoch, seq=self._seq, stamp=stamp)
        reference: ray.ObjectRef[VoxelPatch] = self._put(patch)
        return reference

    async def _checkpoint_if_due(self) -> None:
        now = time.monotonic()
        due = self._checkpointed_at + self._config.checkpoint_period_s
        if self._is_checkpointed or now < due or (self._writing and not self._writing.done()):
            return
        self._checkpointed_at = now
        self._is_checkpointed = True
        async with self._working:  # another map may be loaded meanwhile
            state = await asyncio.to_thread(self._layers.state)
            is_loaded = self._whereabouts.status.state is not LocalisationState.UNKNOWN
            state |= Standing(
                self._frame_epoch, self._map_from_odom, is_loaded, self._is_placed
            ).arrays()
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
        async with self._working:
            return await asyncio.to_thread(self._content)

    def _content(self) -> MapContent:
        layers = self._layers
        self._differs |= layers.update_tiles(self._seq + 1)
        if layers.known_area == 0.0:
            raise NoMap()
        return MapContent(
            layers.geometry, layers.occupancy_grid(), layers.voxel_points(), self._frame_epoch
        )

    @ray.method
    async def load_map(
        self,
        occupancy: NDArray[np.int8],
        geometry: GridGeometry,
        initial_pose: Pose2D | None = None,
        voxels: NDArray[np.float32] | None = None,
    ) -> int:
        """Go on with another map instead of the present one. On it the localiser corrects the drift, not loops.

        Args:
            occupancy: (rows, cols) int8 in the frame map, -1 unknown, 0..100; row 0 is the lowest y.
            geometry: where it lies.
            initial_pose: roughly where the robot stands on it; None: it may be anywhere. Nothing is fused, and no goal
                is taken, until the localiser knows.
            voxels: (N, 3) centres [m] of its 3D layer; None: that starts empty.

        Returns:
            The new epoch. The first snapshot of it is out.

        Raises:
            InvalidRequest: the pose is not finite or absurd.
            NotAvailable: a pose is given and the robot has no odometry yet.
            MapTooLarge, StorageError: the map does not fit; the present one is as it was.
            ActorUnavailable: the platform does not answer.
        """
        correction = NO_CORRECTION
        if initial_pose is not None:
            _check(initial_pose)
            status = await call(self._platform.status.remote())
            if status.odometry is None:
                raise NotAvailable("The robot's pose in odom is not known yet.")
            odom_from_base = status.odometry.pose.as_tuple()
            correction = Pose2D(*compose(initial_pose.as_tuple(), inverse(odom_from_base)))
        layers = MapLayers(self._config, self._robot_config)
        whereabouts = Whereabouts(self._config, self._robot_config)

        def load() -> None:
            try:
                whereabouts.load(occupancy, geometry, guess=initial_pose)
            except ValueError as error:
                raise MapTooLarge(f"The robot cannot be found on this map: {error}.") from error
            layers.load(occupancy, geometry, voxels)

        await asyncio.to_thread(load)
        async with self._working:
            self._layers, self._whereabouts, self._loops = layers, whereabouts, None
            self._map_from_odom, self._is_placed = correction, initial_pose is not None
            self._epoch = self._frame_epoch = max(self._epoch + 1, time.time_ns() // 1_000_000)
            self._seq = 0
            self._boxes, self._voxel_boxes = {}, {}
            self._is_published = self._is_checkpointed = False
            self._differs = False
            self._published_at = -math.inf
        await self._work(None)
        return self._epoch


def _check(pose: Pose2D) -> None:
    """Raise InvalidRequest for a place that no map reaches."""
    if not all(map(math.isfinite, pose.as_tuple())):
        raise InvalidRequest("The robot's place must be finite numbers.")
    if max(abs(pose.x), abs(pose.y)) > MAX_COORDINATE_M:
        raise InvalidRequest(f"The robot's place is farther than {MAX_COORDINATE_M:.0f} m.")


def _keep(
    boxes: "dict[int, list[ray.ObjectRef[Any]]]", since: int, reference: "ray.ObjectRef[Any]"
) -> None:
    """Keep a patch for the next who asks for it; what is kept is bounded whatever clients ask for."""
    if len(boxes) >= MAX_PATCHES:
        del boxes[next(iter(boxes))]
    boxes[since] = [reference]
