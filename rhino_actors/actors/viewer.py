"""ViewerActor: pulls what the other actors know and shows it in Rerun."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import ray
import ray.exceptions

from rhino_actors.actors.calls import call
from rhino_actors.actors.map_follower import MapFollower
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import RhinoError
from rhino_actors.messages.grid import MapLayer
from rhino_actors.messages.map_patch import NO_MAP
from rhino_actors.messages.platform import GateDecision

if TYPE_CHECKING:
    from ray.actor import ActorProxy

    from rhino_actors.actors.explorer import ExplorerActor
    from rhino_actors.actors.mapper import MapperActor
    from rhino_actors.actors.planner import PlannerActor
    from rhino_actors.actors.platform import PlatformActor
    from rhino_actors.actors.poi_store import PoiStore
    from rhino_actors.viz.rerun_logger import RerunLogger

logger = logging.getLogger(__name__)

WAIT_S = 2.0  # how long a source may take to have something newer
GRACE_S = 2.0  # what its answer may take on top
RETRY_S = 1.0  # pause after a source failed
ODOMETRY_PERIOD_S = 0.05
MAP_PERIOD_S = 0.5  # each map is kept whole in the viewer's history: not every one needs to be
STATUS_PERIOD_S = 0.5
POIS_PERIOD_S = 1.0
VISITS_PERIOD_S = 2.0
OPEN_TIMEOUT_S = 12.0
MIN_PAUSE_S = 0.02  # a source that answers at once without news must not spin

Draw = Callable[[Any, float], None]
Step = Callable[[], Awaitable[None]]
Source = tuple[str, Step, float]  # name, one round, period [s]


class ViewerActor:
    """Shows the robot in Rerun. Nothing depends on it.

    Reads:     odometry, lidar, camera, status and gate log of PlatformActor; MapperActor.snapshot and .voxels; the
               status of PlannerActor and ExplorerActor, and the visits of a patrol; the places of PoiStore
    Publishes: the Rerun stream, and a .rrd file if the config names one
    A failed call: that source pauses and is asked again; the others go on. Each source has one answer on its way
    at most, and asks for the newest only, so a slow viewer skips and nothing piles up.
    """

    def __init__(
        self,
        config: RhinoConfig,
        *,
        platform: "ActorProxy[PlatformActor]",
        mapper: "ActorProxy[MapperActor]",
        planner: "ActorProxy[PlannerActor]",
        explorer: "ActorProxy[ExplorerActor]",
        poi_store: "ActorProxy[PoiStore]",
    ) -> None:
        self._config = config
        self._platform = platform
        self._planner = planner
        self._explorer = explorer
        self._poi_store = poi_store
        # Rerun keeps state per thread, and its calls may take milliseconds: all of them on this one. It lives as
        # long as the actor, which the web viewer's own end depends on.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rerun")
        self._opening = self._thread.submit(_open, config)
        self._running = asyncio.Lock()
        self._closing = asyncio.Event()
        self._failing: set[str] = set()
        self._seen: dict[str, int] = {}  # source -> seq of the newest that was drawn
        self._ask_newer: dict[str, int] = {}
        self._mapper = mapper
        self._maps = MapFollower(mapper)
        self._voxel_version = NO_MAP
        self._poi_version = -1
        self._decisions: set[GateDecision] = set()

    @ray.method
    async def run(self) -> None:
        """Show everything until close(). A second call waits for the first to end."""
        async with self._running:
            rerun = await asyncio.wrap_future(self._opening)
            tasks = []
            if not isinstance(rerun, str):
                tasks = [
                    asyncio.create_task(self._follow(name, step, period), name=name)
                    for name, step, period in self._sources(rerun)
                ]
            try:
                await self._closing.wait()
            finally:
                await _end(tasks)

    @ray.method
    async def address(self) -> dict[str, str]:
        """Return `grpc` and `web`: where Rerun's data and web viewer are, or `off: ` and the reason.

        With a recording, `record` is its file, or `off: ` and the reason.
        """
        opening = asyncio.shield(asyncio.wrap_future(self._opening))
        try:
            rerun = await asyncio.wait_for(opening, OPEN_TIMEOUT_S)
        except TimeoutError:
            rerun = "off: still starting"
        if isinstance(rerun, str):
            return {"grpc": rerun, "web": rerun}
        addresses = {"grpc": rerun.grpc, "web": rerun.web}
        return {**addresses, "record": rerun.record} if rerun.record else addresses

    @ray.method
    async def close(self) -> None:
        """End the loop, flush the recording and end the web viewer. May be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        async with self._running:  # the sources have ended
            rerun = await asyncio.wrap_future(self._opening)
            if not isinstance(rerun, str):
                await asyncio.get_running_loop().run_in_executor(self._thread, rerun.close)
            self._thread.shutdown(wait=False)

    def _sources(self, rerun: "RerunLogger") -> list[Source]:
        def stream(name: str, method: Any, draw: Draw, period: float = 0.0) -> Source:
            return name, lambda: self._newest(name, method, draw), period

        sources = [
            stream("odometry", self._platform.odometry, rerun.odometry, ODOMETRY_PERIOD_S),
            stream("lidar", self._platform.lidar, rerun.lidar),
            stream("nav", self._planner.status, rerun.nav),
            stream("mission", self._explorer.status, rerun.mission),
            ("map", lambda: self._map(rerun), MAP_PERIOD_S),
            ("status", lambda: self._status(rerun), STATUS_PERIOD_S),
            ("pois", lambda: self._pois(rerun), POIS_PERIOD_S),
            ("visits", lambda: self._visits(rerun), VISITS_PERIOD_S),
        ]
        if self._config.mapper.layers is not MapLayer.OCCUPANCY:
            sources.append(("voxels", lambda: self._voxels(rerun), MAP_PERIOD_S))
        rate = self._config.viewer.camera_rate_hz
        if rate > 0.0:
            sources.append(stream("camera", self._platform.camera, rerun.camera, 1.0 / rate))
        return sources

    async def _follow(self, name: str, step: Step, period: float) -> None:
        """Repeat a source's step, whatever becomes of it: the viewer must not be what stops a deployment."""
        while True:
            started = time.monotonic()
            try:
                await step()
                self._failing.discard(name)
            except Exception as error:
                self._report(name, error)
                self._forget(name)
                await asyncio.sleep(RETRY_S)
            await asyncio.sleep(max(MIN_PAUSE_S, period - (time.monotonic() - started)))

    def _report(self, name: str, error: Exception) -> None:
        if name in self._failing:  # said already
            return
        self._failing.add(name)
        expected = isinstance(error, (RhinoError, ray.exceptions.RayError))
        logger.warning("viewer: %s paused: %s", name, error, exc_info=None if expected else error)

    def _forget(self, name: str) -> None:
        """Ask as if for the first time: an actor that was restarted counts from one again."""
        self._ask_newer[name] = 0
        if name == "voxels":
            self._voxel_version = NO_MAP
        if name == "pois":
            self._poi_version = -1

    async def _newest(self, name: str, method: Any, draw: Draw) -> None:
        """Draw what a method with the arguments `newer_than` and `wait` answers, if it was not drawn yet."""
        newer_than = self._ask_newer.get(name, 0)
        message = await call(method.remote(newer_than, WAIT_S), WAIT_S + GRACE_S)
        if message is None:  # nothing newer: or the sender counts from one again
            self._ask_newer[name] = 0
            return
        self._ask_newer[name] = message.seq
        if self._seen.get(name) != message.seq:
            self._seen[name] = message.seq
            await self._draw(draw, message)

    async def _map(self, rerun: "RerunLogger") -> None:
        snapshot = await self._maps.newer(WAIT_S)
        if snapshot is not None:
            await self._draw(rerun.map, snapshot)

    async def _voxels(self, rerun: "RerunLogger") -> None:
        method: Any = self._mapper.voxels  # Ray's types drop defaults
        version, box = await call(method.remote(self._voxel_version, WAIT_S), WAIT_S + GRACE_S)
        if box is not None:
            await self._draw(rerun.voxels, await call(box[0], GRACE_S))
        self._voxel_version = version

    async def _status(self, rerun: "RerunLogger") -> None:
        await self._draw(rerun.status, await call(self._platform.status.remote(), GRACE_S))
        gate_log: Any = self._platform.gate_log  # Ray's types drop defaults
        decisions = await call(gate_log.remote(), GRACE_S)
        fresh = [decision for decision in decisions if decision not in self._decisions]
        self._decisions = set(decisions)
        await self._draw(rerun.gate, fresh)

    async def _pois(self, rerun: "RerunLogger") -> None:
        version = await call(self._poi_store.version.remote(), GRACE_S)
        if version != self._poi_version:
            pois = await call(self._poi_store.list_pois.remote(self._config.robot.name), GRACE_S)
            await self._draw(rerun.pois, pois)
            self._poi_version = version

    async def _visits(self, rerun: "RerunLogger") -> None:
        visits = await call(self._explorer.visits.remote(), GRACE_S)
        if visits is not None:
            await self._draw(rerun.visits, visits)

    async def _draw(self, draw: Draw, message: Any) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, draw, message, time.time())


async def _end(tasks: Iterable["asyncio.Task[None]"]) -> None:
    pending = set(tasks)
    while pending:
        for task in pending:  # again and again: Python 3.11's wait_for may swallow a cancellation
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=0.1)


def _open(config: RhinoConfig) -> "RerunLogger | str":
    """Start Rerun, on the thread that will use it; return `off: ` and the reason if there will be none."""
    if not config.viewer.enabled:
        return "off: viewer.enabled is false"
    try:
        # Late: 100 MB that a robot without a viewer does not need, and need not have installed.
        from rhino_actors.viz.rerun_logger import RerunLogger

        return RerunLogger(config)
    except ModuleNotFoundError as error:
        return f"off: {error.name} is not installed: pip install 'rhino-go2[viewer]'"
    except Exception as error:
        logger.exception("viewer: Rerun did not start")
        return f"off: {error}"
