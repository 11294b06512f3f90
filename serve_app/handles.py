"""The server's way to the actors: typed calls with a time-out, found by name in Ray or given by a test.

`connect` makes `Handles` for a configuration. Each `*Calls` protocol lists what one actor answers; `Actor` carries the
calls out and turns what goes wrong on the way into `ActorUnavailable` (restarting, gone) or `ActorTimedOut` (silent).
"""

import asyncio
import functools
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import ray
from numpy.typing import NDArray
from ray.exceptions import ActorDiedError, RayError, RayTaskError

from rhino_actors.config import NAMESPACE, RhinoConfig, ServerConfig
from rhino_actors.errors import ActorTimedOut, ActorUnavailable, RhinoError, RobotNotFound, original
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.localisation import LocalisationStatus
from rhino_actors.messages.map_patch import MapPatch, VoxelPatch
from rhino_actors.messages.map_patch import MapVersion as MapVersion
from rhino_actors.messages.maps import MapContent, SavedMap
from rhino_actors.messages.missions import (
    ExploreRequest,
    MissionRecord,
    MissionStatus,
    PatrolRequest,
)
from rhino_actors.messages.navigation import FollowReport, GoalRequest, NavMode, NavStatus, Rank
from rhino_actors.messages.platform import (
    FaultReport,
    GateDecision,
    GateStatus,
    RobotStatus,
    SportResult,
    TakeOver,
    VelocityAnswer,
)
from rhino_actors.messages.poi import Poi, PoiFileKind
from rhino_actors.messages.sensors import CameraFrame

CALL_TIMEOUT_S = 5.0  # an actor answers in milliseconds; this is "something is wrong"
# Calls that rightly take longer: a posture change, a first plan. A long-poll adds its keyword `wait`.
_PATIENCE_S = {"sport": 20.0, "navigate": 15.0, "start": 15.0, "resume": 15.0}
_PATIENCE_S["start_patrol"] = 15.0
# A large map takes seconds to be packed, read or written.
_PATIENCE_S |= dict.fromkeys(("export_map", "load_map", "open_map", "save_map", "import_map"), 60.0)

# What would move the robot although nobody waits for it any more. What ends a movement is not here: it goes through.
_CALLED_OFF = frozenset(
    {
        ("planner", "navigate"),
        ("explorer", "start"),
        ("explorer", "start_patrol"),
        ("explorer", "resume"),
        ("platform", "velocity"),
        ("platform", "sport"),
    }
)

NO_VERSION: MapVersion = (-1, -1)  # older than everything


class PlatformCalls(Protocol):
    """What the platform actor answers."""

    async def camera(self, newer_than: int = 0, wait: float = 0.0) -> CameraFrame | None: ...
    async def status(self) -> RobotStatus: ...
    async def gate_log(self, after: float = -math.inf) -> tuple[GateDecision, ...]: ...
    async def claim(self, client: str, rank: Rank, *, take: bool = False) -> int: ...
    async def take(self, client: str, taking_from: str | None = None) -> TakeOver: ...
    async def keep(self, client: str) -> GateStatus: ...
    async def lose(self, client: str) -> None: ...
    async def release(self, client: str) -> None: ...
    async def follow_report(self, goal_id: int) -> FollowReport: ...
    async def velocity(
        self, twist: Twist2D, client: str, rank: Rank = Rank.HUMAN
    ) -> VelocityAnswer: ...
    async def stop(self, client: str) -> GateStatus: ...
    async def estop(self, client: str) -> GateStatus: ...
    async def clear_estop(self, client: str) -> GateStatus: ...
    async def sport(
        self,
        command: str,
        client: str,
        rank: Rank = Rank.HUMAN,
        parameters: Mapping[str, float] | None = None,
    ) -> SportResult: ...
    async def set_device(self, device: str, level: int, client: str) -> SportResult: ...
    async def faults(self) -> FaultReport: ...
    async def inject_fault(
        self, name: str, values: Mapping[str, float], client: str
    ) -> FaultReport: ...
    async def clear_faults(self, client: str, name: str = "") -> FaultReport: ...


class MapperCalls(Protocol):
    """What the mapper actor answers."""

    async def snapshot(
        self, newer_than: MapVersion = (0, 0), wait: float = 0.0
    ) -> tuple[MapVersion, list[Awaitable[MapPatch]] | None]: ...
    async def voxels(
        self, newer_than: MapVersion = (0, 0), wait: float = 0.0
    ) -> tuple[MapVersion, list[Awaitable[VoxelPatch]] | None]: ...
    async def stats(self) -> dict[str, float]: ...
    async def localisation(self) -> LocalisationStatus: ...
    async def export_map(self) -> MapContent: ...
    async def load_map(
        self,
        occupancy: NDArray[np.int8],
        geometry: GridGeometry,
        initial_pose: Pose2D | None = None,
        voxels: NDArray[np.float32] | None = None,
    ) -> int: ...


class PlannerCalls(Protocol):
    """What the planner actor answers."""

    async def navigate(self, request: GoalRequest) -> NavStatus: ...
    async def cancel(self, client: str, goal_id: int | None = None) -> NavStatus: ...
    async def status(self, newer_than: int = 0, wait: float = 0.0) -> NavStatus: ...
    async def set_mode(self, mode: NavMode) -> NavMode: ...


class ExplorerCalls(Protocol):
    """What the explorer actor answers."""

    async def start(
        self, client: str, rank: Rank = Rank.HUMAN, request: ExploreRequest = ExploreRequest()
    ) -> MissionStatus: ...
    async def start_patrol(
        self, client: str, rank: Rank, request: PatrolRequest
    ) -> MissionStatus: ...
    async def pause(self, client: str) -> MissionStatus: ...
    async def stop(self, client: str) -> MissionStatus: ...
    async def resume(self, client: str) -> MissionStatus: ...
    async def status(self, newer_than: int = 0, wait: float = 0.0) -> MissionStatus: ...


class PoiCalls(Protocol):
    """What the store of points of interest, saved maps and the mission log answers."""

    async def add(
        self,
        robot: str,
        label: str,
        x: float,
        y: float,
        z: float = 0.0,
        map_id: str | None = None,
    ) -> Poi: ...
    async def list_pois(self, robot: str) -> tuple[Poi, ...]: ...
    async def get(self, poi_id: str) -> Poi: ...
    async def change(
        self,
        poi_id: str,
        label: str | None = None,
        x: float | None = None,
        y: float | None = None,
        z: float | None = None,
    ) -> Poi: ...
    async def order(self, robot: str, ids: Sequence[str]) -> tuple[Poi, ...]: ...
    async def export_pois(self, robot: str, kind: PoiFileKind) -> bytes: ...
    async def import_pois(
        self, robot: str, content: bytes, map_id: str | None, rebind: bool = False
    ) -> tuple[Poi, ...]: ...
    async def delete(self, poi_id: str) -> None: ...
    async def version(self) -> int: ...
    async def save_map(self, robot: str, name: str, content: MapContent) -> SavedMap: ...
    async def import_map(self, robot: str, name: str, files: Mapping[str, bytes]) -> SavedMap: ...
    async def list_maps(self, robot: str) -> tuple[SavedMap, ...]: ...
    async def get_map(self, map_id: str) -> SavedMap: ...
    async def open_map(self, map_id: str) -> MapContent: ...
    async def export_map(self, map_id: str) -> bytes: ...
    async def map_thumbnail(self, map_id: str) -> bytes: ...
    async def rename_map(self, map_id: str, name: str) -> SavedMap: ...
    async def delete_map(self, map_id: str, force: bool = False) -> None: ...
    async def note_loaded(self, robot: str, map_id: str, epoch: int) -> None: ...
    async def map_in_force(self, robot: str, epoch: int) -> SavedMap | None: ...
    async def list_missions(self, robot: str, limit: int = 50) -> tuple[MissionRecord, ...]: ...
    async def get_mission(self, mission_id: str) -> MissionRecord: ...
    async def mission_picture(self, mission_id: str) -> bytes: ...
    async def delete_mission(self, mission_id: str) -> None: ...


class ViewerCalls(Protocol):
    """What the viewer actor answers."""

    async def address(self) -> dict[str, str]: ...


@dataclass(frozen=True)
class Robot:
    """One robot and its actors."""

    name: str
    simulated: bool
    platform: PlatformCalls
    mapper: MapperCalls
    planner: PlannerCalls
    explorer: ExplorerCalls
    viewer: ViewerCalls


@dataclass(frozen=True)
class Handles:
    """Everything that the server reaches: the fleet, and the store that it shares."""

    server: ServerConfig
    robots: Mapping[str, Robot]  # by name; the first is the one that /api/... means
    poi_store: PoiCalls

    def robot(self, name: str | None = None) -> Robot:
        """Return the named robot, or the first without a name. Raises RobotNotFound."""
        if name is None:
            return next(iter(self.robots.values()))
        if name not in self.robots:
            raise RobotNotFound(
                f"There is no robot named {name[:64]!r}.",
                f"Known robots: {', '.join(self.robots)}.",
            )
        return self.robots[name]


def connect(config: RhinoConfig, resolve: Callable[[str], Any] | None = None) -> Handles:
    """Return the handles of a deployment; nothing is called before the first request.

    Args:
        config: the deployment.
        resolve: actor name to handle, ValueError for an unknown one; Ray's own look-up by default.
    """
    look_up = resolve or functools.partial(ray.get_actor, namespace=NAMESPACE)
    name = config.robot.name
    robot = Robot(
        name=name,
        simulated=config.driver in ("mujoco", "fake"),
        platform=cast(PlatformCalls, Actor(f"{name}/platform", look_up)),
        mapper=cast(MapperCalls, Actor(f"{name}/mapper", look_up)),
        planner=cast(PlannerCalls, Actor(f"{name}/planner", look_up)),
        explorer=cast(ExplorerCalls, Actor(f"{name}/explorer", look_up)),
        viewer=cast(ViewerCalls, Actor(f"{name}/viewer", look_up)),
    )
    return Handles(config.server, {name: robot}, cast(PoiCalls, Actor("poi_store", look_up)))


class Actor:
    """One actor by name: `await actor.method(...)` calls `handle.method.remote(...)` with a time-out.

    A call that moves the robot is called off when the time is up or the caller goes away: what was answered with a
    time-out must not be carried out later. Every other call goes on. Serve cancels the request of a client that left,
    and Ray would cancel with it whatever was called in its context: a stop on its way, and what a feed asks for others
    because this client came first. Calls are therefore made in a context of their own.
    The handle is looked up at the first call and again after the actor died for good: a deployment that was started
    anew has new actors under the old names.
    """

    def __init__(self, name: str, resolve: Callable[[str], Any]) -> None:
        self._name = name
        self._resolve = resolve
        self._handle: Any = None

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        if method.startswith("_"):
            raise AttributeError(method)
        return functools.partial(self._call, method)

    async def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        limit = _PATIENCE_S.get(method, CALL_TIMEOUT_S) + kwargs.get("wait", 0.0)
        with translated(self._name):
            try:
                async with asyncio.timeout(limit):
                    if self._handle is None:
                        self._handle = await self._look_up()
                    reference = Context().run(getattr(self._handle, method).remote, *args, **kwargs)
                    try:
                        return await reference
                    except asyncio.CancelledError:
                        if self._moves(method, args):
                            _call_off(reference)
                        raise
            except ActorDiedError:
                self._handle = None
                raise

    def _moves(self, method: str, args: tuple[Any, ...]) -> bool:
        what = args[0] if args else None
        is_end = what.is_zero if isinstance(what, Twist2D) else what in ("StopMove", "Damp")
        return (self._name.rpartition("/")[2], method) in _CALLED_OFF and not is_end

    async def _look_up(self) -> Any:
        try:
            return await asyncio.to_thread(self._resolve, self._name)
        except ValueError as error:
            raise ActorUnavailable(f"{self._name} does not run.") from error


def _call_off(reference: object) -> None:
    if isinstance(reference, ray.ObjectRef):
        with suppress(Exception):  # the caller learns of the time-out anyway
            ray.cancel(reference)


@contextmanager
def translated(part: str) -> Iterator[None]:
    """Turn what Ray raises for a call to `part` into a RhinoError; what the actor raised itself comes through.

    An error that is no RhinoError and was raised by the actor's own code stays as it is: it is a bug, to be logged.
    """
    try:
        yield
    except RhinoError as error:
        raise original(error) from None
    except TimeoutError as error:
        raise ActorTimedOut(f"{part} did not answer in time.") from error
    except RayTaskError as error:
        if isinstance(error.cause, RayError):
            raise ActorUnavailable(f"{part} waits for a part that is restarting.") from error
        raise
    except RayError as error:
        raise ActorUnavailable(f"{part} is restarting.") from error


async def read_map(
    mapper: MapperCalls, newer_than: MapVersion = NO_VERSION, wait: float = 0.0
) -> tuple[MapVersion, MapPatch | None]:
    """Return the newest version, and what makes it of `newer_than`, None when it is that. Raises ActorUnavailable."""
    version, box = await mapper.snapshot(newer_than, wait=wait)
    if not box:
        return version, None
    with translated("the map"):
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return version, await box[0]


async def read_voxels(
    mapper: MapperCalls, newer_than: MapVersion = NO_VERSION
) -> tuple[MapVersion, VoxelPatch | None]:
    """Return the newest version, and the voxels that make it of `newer_than`; otherwise as `read_map`."""
    version, box = await mapper.voxels(newer_than)
    if not box:
        return version, None
    with translated("the map"):
        async with asyncio.timeout(CALL_TIMEOUT_S):
            return version, await box[0]
