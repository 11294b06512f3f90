"""A robot made of plain classes, behind which the server is tested; each part can be made to fail."""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import cv2
import numpy as np

from rhino_actors.config import ServerConfig
from rhino_actors.errors import (
    ControlHeld,
    EStopLatched,
    InvalidFault,
    InvalidLabel,
    InvalidRequest,
    MapFileInvalid,
    MapInUse,
    MapNameTaken,
    MapNotFound,
    MissionNotFound,
    MissionRunning,
    NoGoal,
    NoMission,
    NotEquipped,
    NotHolder,
    NotSimulated,
    PoiListChanged,
    PoiNotFound,
    SupersededRequest,
    UnknownCommand,
)
from rhino_actors.geometry import quaternion_from_yaw
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.localisation import LocalisationState, LocalisationStatus
from rhino_actors.messages.map_patch import MapPatch, VoxelPatch
from rhino_actors.messages.maps import MapContent, SavedMap
from rhino_actors.messages.missions import (
    ExploreRequest,
    MissionKind,
    MissionPhase,
    MissionRecord,
    MissionState,
    MissionStatus,
    PatrolRequest,
)
from rhino_actors.messages.navigation import (
    FollowReport,
    FollowState,
    GoalRequest,
    NavMode,
    NavState,
    NavStatus,
    Rank,
)
from rhino_actors.messages.platform import (
    DriverState,
    FaultKind,
    FaultNumber,
    FaultReport,
    GateDecision,
    GateStatus,
    InjectedFault,
    Posture,
    RobotStatus,
    SportResult,
    TakeOver,
    VelocityAnswer,
)
from rhino_actors.messages.poi import Poi, PoiFileKind
from rhino_actors.messages.sensors import CameraFrame
from rhino_actors.storage.poi_files import read_places, to_csv, to_geojson
from serve_app.handles import Actor, Handles, Robot
from tests.fakes import FakeHandle


def jpeg(width: int = 64, height: int = 48, noise: bool = False) -> bytes:
    rng = np.random.default_rng(1)
    image = np.full((height, width, 3), 90, dtype=np.uint8)
    if noise:
        image = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
    return bytes(cv2.imencode(".jpg", image)[1])


def snapshot(seq: int = 1, epoch: int = 7) -> MapSnapshot:
    """A map of 20 by 30 cells with one obstacle at row 2 (low y), col 4, and its upper half unknown."""
    if seq == 0:
        return MapSnapshot(
            epoch=epoch,
            seq=0,
            stamp=0.0,
            geometry=GridGeometry(0.05, (0.0, 0.0), (1, 1)),
            occupancy=np.full((1, 1), -1, dtype=np.int8),
            costmap=np.full((1, 1), 255, dtype=np.uint8),
            known_area=0.0,
        )
    occupancy = np.zeros((20, 30), dtype=np.int8)
    occupancy[10:] = -1
    occupancy[2, 4] = 100
    costmap = np.zeros((20, 30), dtype=np.uint8)
    costmap[10:] = 255
    costmap[2, 4] = 254
    costmap[2, 5] = 253
    return MapSnapshot(
        epoch=epoch,
        seq=seq,
        stamp=1.0,
        geometry=GridGeometry(0.1, (-1.0, -0.5), (20, 30)),
        occupancy=occupancy,
        costmap=costmap,
        known_area=3.0,
        robot=Pose2D(0.0, 0.0, 0.0),
    )


def snapshot_content() -> MapContent:
    """The map of `snapshot` as it goes to the disk."""
    now = snapshot()
    return MapContent(now.geometry, now.occupancy, None, now.epoch)


class FakePlatform:
    def __init__(self) -> None:
        self.pose: Pose2D | None = Pose2D(1.0, 2.0, math.pi / 2)
        self.twist = Twist2D()  # measured
        self.holder = ""
        self.rank: Rank | None = None
        self.latched_by = ""
        self.epoch = 1
        self.stops = 0
        self.twists: list[tuple[Twist2D, str, Rank]] = []
        self.calls: list[str] = []
        self.frames: list[CameraFrame] = []
        self.now = 100.0
        self.longest_poll_s = 0.05
        self.has_faults = True
        self.is_equipped = True
        self.injected: list[InjectedFault] = []
        self.driver_faults: tuple[str, ...] = ()
        self.held_sticks: set[str] = set()  # whose velocities are refused until they send zero

    async def status(self) -> RobotStatus:
        pose = self.pose
        odometry = (
            Odometry(5, self.now, (pose.x, pose.y, 0.3), quaternion_from_yaw(pose.yaw), self.twist)
            if pose
            else None
        )
        return RobotStatus(
            robot="go2",
            driver="fake",
            simulated=True,
            stamp=self.now,
            odometry=odometry,
            odometry_age=0.02 if pose else None,
            lidar_age=0.1,
            camera_age=0.05 if self.frames else None,
            odometry_rate=50.0,
            lidar_rate=7.7,
            camera_rate=5.0,
            control_rate=20.0,
            driver_state=DriverState(
                True, Posture.STANDING, 87.0, 29.5, "off: no GPU", faults=self.driver_faults
            ),
            gate=self.gate(),
            faults=("The latch cannot be kept.", *self.driver_faults),
        )

    def gate(self) -> GateStatus:
        return GateStatus(
            epoch=self.epoch,
            holder=self.holder,
            holder_rank=self.rank.name.lower() if self.rank is not None else "",
            latched=bool(self.latched_by),
            latched_by=self.latched_by,
            latched_since=5.0 if self.latched_by else None,
            reason="ESTOP_LATCHED" if self.latched_by else "",
            applied=self.twists[-1][0] if self.twists else Twist2D(),
            max_vx=1.0,
            max_vy=0.5,
            max_omega=1.2,
        )

    async def camera(self, newer_than: int = 0, wait: float = 0.0) -> CameraFrame | None:
        end = asyncio.get_running_loop().time() + min(wait, self.longest_poll_s)
        while True:
            if self.frames and self.frames[-1].seq > newer_than:
                return self.frames[-1]
            if asyncio.get_running_loop().time() >= end:
                return None
            await asyncio.sleep(0.005)

    async def gate_log(self, after: float = -math.inf) -> tuple[GateDecision, ...]:
        line = GateDecision(1.0, 2.0, "stop", "ann", "STOPPED", "ann stopped the robot.")
        return (line,) if line.stamp > after else ()

    def _check(self, client: str, rank: Rank, take: bool = False) -> None:
        if self.latched_by:
            raise EStopLatched()
        if self.rank is not None and self.holder not in ("", client) and not take:
            if rank <= self.rank:
                raise ControlHeld("", "", self.holder)
        self.holder, self.rank = client, rank

    async def follow_report(self, goal_id: int) -> FollowReport:
        return FollowReport(0, FollowState.NONE, stops=self.stops)

    async def claim(self, client: str, rank: Rank, *, take: bool = False) -> int:
        self._check(client, rank, take)
        self.epoch += 1
        return self.epoch

    async def take(self, client: str, taking_from: str | None = None) -> TakeOver:
        before = self.holder
        if taking_from is not None and before not in ("", client, taking_from):
            raise ControlHeld("", "", before)
        self._check(client, Rank.HUMAN, take=True)
        self.epoch += 1
        return TakeOver(self.gate(), "" if before == client else before)

    async def keep(self, client: str) -> GateStatus:
        self.calls.append(f"keep {client}")
        if not self.holder:
            raise NotHolder()
        self._check(client, Rank.AGENT)
        return self.gate()

    async def lose(self, client: str) -> None:
        self.calls.append(f"lose {client}")
        if self.holder == client:
            self.twists.append((Twist2D(), client, Rank.HUMAN))
            self.holder, self.rank = "", None

    async def release(self, client: str) -> None:
        self.calls.append(f"release {client}")
        if self.holder == client:
            self.holder, self.rank = "", None

    async def velocity(
        self, twist: Twist2D, client: str, rank: Rank = Rank.HUMAN
    ) -> VelocityAnswer:
        if not twist.is_finite:
            raise InvalidRequest()
        if client in self.held_sticks:
            if not twist.is_zero:
                raise SupersededRequest()
            self.held_sticks.discard(client)
            return VelocityAnswer(twist, twist, False, client)
        self._check(client, rank)
        applied = Twist2D(
            max(-1.0, min(1.0, twist.vx)),
            max(-0.5, min(0.5, twist.vy)),
            max(-1.2, min(1.2, twist.omega)),
        )
        self.twists.append((applied, client, rank))
        return VelocityAnswer(twist, applied, applied != twist, client)

    async def stop(self, client: str) -> GateStatus:
        self.calls.append(f"stop {client}")
        if self.holder and self.twists and not self.twists[-1][0].is_zero:
            self.held_sticks.add(self.holder)
        self.twists.append((Twist2D(), client, Rank.HUMAN))
        self.holder, self.rank = "", None
        self.epoch += 1
        return self.gate()

    async def estop(self, client: str) -> GateStatus:
        self.calls.append(f"estop {client}")
        self.latched_by = client
        return self.gate()

    async def clear_estop(self, client: str) -> GateStatus:
        self.latched_by = ""
        return self.gate()

    async def sport(
        self,
        command: str,
        client: str,
        rank: Rank = Rank.HUMAN,
        parameters: Mapping[str, float] | None = None,
    ) -> SportResult:
        if command not in ("StandUp", "StandDown", "Hello", "Sit", "Pose", "StopMove"):
            raise UnknownCommand(f"There is no command {command!r}.", "Known: StandUp, Hello.")
        if parameters and command != "Pose":
            raise InvalidRequest(f"{command} has no parameters.")
        numbers = "".join(f" {key}={value}" for key, value in (parameters or {}).items())
        self.calls.append(f"{command}{numbers} {client} {rank.name}")
        if command == "Sit":
            return SportResult(command, False, 7)
        applied = {key: min(value, 0.35) for key, value in (parameters or {}).items()}
        return SportResult(command, True, parameters=applied)

    async def set_device(self, device: str, level: int, client: str) -> SportResult:
        if not self.is_equipped:
            raise NotEquipped()
        self.calls.append(f"{device} {level} {client}")
        return SportResult(device, True, 0)

    def _report(self) -> FaultReport:
        if not self.has_faults:
            raise NotSimulated()
        kinds = (
            FaultKind("drop_lidar", "lidar gets lost", {"share": FaultNumber(1.0, "", 0.0, 1.0)}),
            FaultKind(
                "push",
                "something pushes",
                {"every": FaultNumber(math.inf, "s", 0.1, 9.0)},
                needs_walking=True,
                is_event=True,
            ),
        )
        return FaultReport(tuple(self.injected), kinds)

    async def faults(self) -> FaultReport:
        return self._report()

    async def inject_fault(
        self, name: str, values: Mapping[str, float], client: str
    ) -> FaultReport:
        self._report()
        if name not in ("drop_lidar", "push"):
            raise InvalidFault(f"There is no fault {name!r}.", "Known: drop_lidar, push.")
        given = dict(values)
        after, duration = given.pop("after", 0.0), given.pop("duration", None)
        self.injected.append(InjectedFault(name, given, after, duration))
        self.calls.append(f"fault {name} {client}")
        return self._report()

    async def clear_faults(self, client: str, name: str = "") -> FaultReport:
        self._report()
        self.injected = [fault for fault in self.injected if name and fault.name != name]
        return self._report()

    def add_frame(self, data: bytes | None = None) -> None:
        seq = self.frames[-1].seq + 1 if self.frames else 1
        self.frames.append(CameraFrame(seq, self.now - 0.25, data or jpeg(), 64, 48))


class FakeMapper:
    def __init__(self, epoch: int = 7) -> None:
        self.current = snapshot(epoch=epoch)
        self.patch: MapPatch | None = None  # what is answered instead of the whole of `current`
        words = np.zeros((2, 256), np.uint64)
        words[0, 16 * 2 + 3] = 1 << 20 | 1 << 63
        words[1, 0] = 1
        place = np.array([[0, 0, 0], [-1, 2, 0]], np.int32)
        self.voxel_patch = VoxelPatch(epoch, 1, 0, 1.0, 0.05, place, words)
        self.loaded: list[tuple[MapContent, Pose2D | None]] = []
        self.error: Exception | None = None
        self.localisation_status = LocalisationStatus()

    async def localisation(self) -> LocalisationStatus:
        return replace(self.localisation_status, map_from_odom=self.current.map_from_odom)

    def lose(self) -> None:
        """Have a loaded map on which the robot does not know its place."""
        sentence = "Lost: what the lidar sees does not fit the map here."
        self.localisation_status = LocalisationStatus(LocalisationState.LOST, 0.31, sentence)
        self.current = replace(self.current, seq=self.current.seq + 1, localised=False)

    async def export_map(self) -> MapContent:
        return replace(snapshot_content(), epoch=self.current.epoch)

    async def load_map(
        self,
        occupancy: np.ndarray,
        geometry: GridGeometry,
        initial_pose: Pose2D | None = None,
        voxels: np.ndarray | None = None,
    ) -> int:
        if self.error:
            raise self.error
        self.loaded.append((MapContent(geometry, occupancy, voxels), initial_pose))
        correction = initial_pose or Pose2D(0.0, 0.0)
        self.current = replace(
            self.current, epoch=self.current.epoch + 1, seq=1, map_from_odom=correction
        )
        return self.current.epoch

    async def snapshot(
        self, newer_than: tuple[int, int] = (0, 0), wait: float = 0.0
    ) -> tuple[tuple[int, int], list[Any] | None]:
        version = (self.current.epoch, self.current.seq)
        if version == newer_than:
            return version, None
        return version, [Ref(self.patch or self.current)]

    async def voxels(
        self, newer_than: tuple[int, int] = (0, 0), wait: float = 0.0
    ) -> tuple[tuple[int, int], list[Any] | None]:
        version = (self.current.epoch, self.current.seq)
        if version == newer_than:
            return version, None
        return version, [Ref(self.voxel_patch)]

    async def stats(self) -> dict[str, float]:
        return {
            "epoch": float(self.current.epoch),
            "frame_epoch": float(self.current.epoch),
            "map_from_odom_x": self.current.map_from_odom.x,
            "map_from_odom_y": self.current.map_from_odom.y,
            "map_from_odom_yaw": self.current.map_from_odom.yaw,
            "seq": float(self.current.seq),
            "stamp": self.current.stamp,
            "known_area": self.current.known_area,
            "publish_rate": 7.5,
            "frame_rate": 7.7,
            "latency_ms_p50": 20.0,
            "latency_ms_p99": 60.0,
        }


class Ref:
    """Like an ObjectRef: awaited by those who want the value, dropped by the others."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        return self._value


class FakePlanner:
    def __init__(self) -> None:
        self.nav = NavStatus()
        self.requests: list[GoalRequest] = []
        self.mode = NavMode.ASTAR
        self.error: Exception | None = None
        self.arrives = False

    async def navigate(self, request: GoalRequest) -> NavStatus:
        if self.error:
            raise self.error
        self.requests.append(request)
        self.nav = NavStatus(
            state=NavState.FOLLOWING,
            goal_id=self.nav.goal_id + 1,
            requested=Pose2D(request.x, request.y, request.yaw or 0.0),
            adjusted=Pose2D(request.x, request.y, request.yaw or 0.0),
            client=request.client,
            distance_remaining=3.0,
            path=np.array([[1.0, 2.0], [request.x, request.y]]),
            seq=self.nav.seq + 1,
        )
        return self.nav

    async def cancel(self, client: str, goal_id: int | None = None) -> NavStatus:
        if not self.nav.state.is_active or goal_id not in (None, self.nav.goal_id):
            raise NoGoal()
        self.nav = replace(self.nav, state=NavState.CANCELLED, seq=self.nav.seq + 1)
        return self.nav

    async def status(self, newer_than: int = 0, wait: float = 0.0) -> NavStatus:
        if self.arrives and self.nav.state.is_active:
            self.nav = replace(
                self.nav, state=NavState.ARRIVED, distance_remaining=0.0, seq=self.nav.seq + 1
            )
        return self.nav

    async def set_mode(self, mode: NavMode) -> NavMode:
        self.mode = mode
        return mode


class FakeExplorer:
    def __init__(self) -> None:
        self.mission = MissionStatus()
        self.started_by: list[tuple[str, Rank]] = []
        self.requests: list[ExploreRequest | PatrolRequest] = []

    async def start(
        self, client: str, rank: Rank = Rank.HUMAN, request: ExploreRequest = ExploreRequest()
    ) -> MissionStatus:
        return self._start(client, rank, request)

    async def start_patrol(self, client: str, rank: Rank, request: PatrolRequest) -> MissionStatus:
        return self._start(client, rank, request)

    async def stop(self, client: str) -> MissionStatus:
        if not self.mission.state.is_active:
            raise NoMission()
        return self._set(MissionState.CANCELLED, client)

    async def pause(self, client: str) -> MissionStatus:
        if self.mission.state is not MissionState.RUNNING:
            raise NoMission()
        return self._set(MissionState.PAUSED, client)

    async def resume(self, client: str) -> MissionStatus:
        if self.mission.state is not MissionState.PAUSED:
            raise NoMission()
        return self._set(MissionState.RUNNING, client)

    async def status(self, newer_than: int = 0, wait: float = 0.0) -> MissionStatus:
        return self.mission

    def _start(
        self, client: str, rank: Rank, request: ExploreRequest | PatrolRequest
    ) -> MissionStatus:
        if self.mission.state.is_active:
            raise MissionRunning()
        self.started_by.append((client, rank))
        self.requests.append(request)
        patrols = isinstance(request, PatrolRequest)
        self.mission = MissionStatus(
            kind=MissionKind.PATROL if patrols else MissionKind.EXPLORE,
            id=f"mission-{len(self.requests)}",
            phase=MissionPhase.CHOOSING,
            home=Pose2D(1.0, 2.0),
            area=request.area,
            limits=request.limits,
            skipped=request.skipped if isinstance(request, PatrolRequest) else (),
            seq=self.mission.seq,
        )
        return self._set(MissionState.RUNNING, client)

    def _set(self, state: MissionState, client: str) -> MissionStatus:
        self.mission = replace(self.mission, state=state, client=client, seq=self.mission.seq + 1)
        return self.mission


class FakePois:
    def __init__(self) -> None:
        self.pois: dict[str, Poi] = {}
        self.maps: dict[str, tuple[SavedMap, MapContent]] = {}
        self.running: dict[str, tuple[int, str]] = {}
        self.imported: list[Mapping[str, bytes]] = []
        self.missions: dict[str, tuple[MissionRecord, bytes | None]] = {}
        self.changes = 0

    async def add(
        self,
        robot: str,
        label: str,
        x: float,
        y: float,
        z: float = 0.0,
        map_id: str | None = None,
    ) -> Poi:
        self._check(label)
        self.changes += 1
        poi = Poi(f"id-{self.changes}", robot, label, x, y, z, map_id, 1000.0)
        self.pois[poi.id] = poi
        return poi

    async def list_pois(self, robot: str) -> tuple[Poi, ...]:
        return tuple(poi for poi in self.pois.values() if poi.robot == robot)

    async def get(self, poi_id: str) -> Poi:
        if poi_id not in self.pois:
            raise PoiNotFound()
        return self.pois[poi_id]

    async def change(
        self,
        poi_id: str,
        label: str | None = None,
        x: float | None = None,
        y: float | None = None,
        z: float | None = None,
    ) -> Poi:
        given = {"label": label, "x": x, "y": y, "z": z}
        values: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        if not values:
            raise InvalidRequest()
        if label is not None:
            self._check(label)
        self.changes += 1
        self.pois[poi_id] = replace(await self.get(poi_id), **values)
        return self.pois[poi_id]

    async def order(self, robot: str, ids: Sequence[str]) -> tuple[Poi, ...]:
        if sorted(ids) != sorted(poi.id for poi in await self.list_pois(robot)):
            raise PoiListChanged()
        self.changes += 1
        self.pois = {
            **{key: poi for key, poi in self.pois.items() if poi.robot != robot},
            **{key: self.pois[key] for key in ids},
        }
        return await self.list_pois(robot)

    async def export_pois(self, robot: str, kind: PoiFileKind) -> bytes:
        pois = await self.list_pois(robot)
        return to_csv(pois) if kind == "csv" else to_geojson(pois)

    async def import_pois(
        self, robot: str, content: bytes, map_id: str | None, rebind: bool = False
    ) -> tuple[Poi, ...]:
        taken = []
        for entry in read_places(content):
            own = entry.map_id if entry.has_map_id and not rebind else map_id
            poi = await self.add(robot, entry.label, entry.x, entry.y, entry.z, own)
            taken.append(poi)
        return tuple(taken)

    async def delete(self, poi_id: str) -> None:
        await self.get(poi_id)
        del self.pois[poi_id]
        self.changes += 1

    async def version(self) -> int:
        return self.changes

    async def save_map(self, robot: str, name: str, content: MapContent) -> SavedMap:
        self._check(name)
        if any(saved.robot == robot and saved.name == name for saved, _ in self.maps.values()):
            raise MapNameTaken()
        self.changes += 1
        new = f"map-{self.changes}"
        before = await self.map_in_force(robot, content.epoch)
        frame = before.frame if before else new
        saved = SavedMap(new, robot, name, 1000.0, content.geometry, 3.0, 0, 500, frame)
        self.maps[new] = saved, content
        if content.epoch:
            self.running[robot] = content.epoch, new
        return saved

    async def import_map(self, robot: str, name: str, files: Mapping[str, bytes]) -> SavedMap:
        self.imported.append(files)
        if any(content.startswith(b"bad") for content in files.values()):
            raise MapFileInvalid()
        return await self.save_map(robot, name, replace(snapshot_content(), epoch=0))

    async def list_maps(self, robot: str) -> tuple[SavedMap, ...]:
        return tuple(saved for saved, _ in self.maps.values() if saved.robot == robot)

    async def get_map(self, map_id: str) -> SavedMap:
        if map_id not in self.maps:
            raise MapNotFound()
        return self.maps[map_id][0]

    async def open_map(self, map_id: str) -> MapContent:
        await self.get_map(map_id)
        return self.maps[map_id][1]

    async def export_map(self, map_id: str) -> bytes:
        await self.get_map(map_id)
        return b"PK zip of " + map_id.encode()

    async def map_thumbnail(self, map_id: str) -> bytes:
        await self.get_map(map_id)
        return b"P5\n2 1\n255\n\x00\xfe"

    async def rename_map(self, map_id: str, name: str) -> SavedMap:
        self._check(name)
        saved, content = self.maps[map_id]
        self.maps[map_id] = replace(saved, name=name), content
        return self.maps[map_id][0]

    async def delete_map(self, map_id: str, force: bool = False) -> None:
        await self.get_map(map_id)
        if any(poi.map_id == map_id for poi in self.pois.values()) and not force:
            raise MapInUse()
        del self.maps[map_id]

    async def note_loaded(self, robot: str, map_id: str, epoch: int) -> None:
        await self.get_map(map_id)
        self.running[robot] = epoch, map_id

    async def map_in_force(self, robot: str, epoch: int) -> SavedMap | None:
        since, map_id = self.running.get(robot, (0, ""))
        return self.maps[map_id][0] if since == epoch and map_id in self.maps else None

    async def list_missions(self, robot: str, limit: int = 50) -> tuple[MissionRecord, ...]:
        of_robot = [record for record, _ in self.missions.values() if record.robot == robot]
        return tuple(replace(record, goals=(), skipped=()) for record in of_robot[::-1][:limit])

    async def get_mission(self, mission_id: str) -> MissionRecord:
        if mission_id not in self.missions:
            raise MissionNotFound()
        return self.missions[mission_id][0]

    async def mission_picture(self, mission_id: str) -> bytes:
        await self.get_mission(mission_id)
        picture = self.missions[mission_id][1]
        if picture is None:
            raise MissionNotFound("This mission has no picture.")
        return picture

    async def delete_mission(self, mission_id: str) -> None:
        await self.get_mission(mission_id)
        del self.missions[mission_id]

    @staticmethod
    def _check(label: str) -> None:
        if not label.strip() or len(label) > 200:
            raise InvalidLabel()


class FakeViewer:
    async def address(self) -> dict[str, str]:
        return {"grpc": "", "web": ""}


class Lost:
    """A part that does not answer: every call raises `error`."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            raise self._error

        return call


class Crowded:
    """A part that carries out a few calls at a time, as an actor does; others wait for their turn."""

    def __init__(self, part: Any, slots: int) -> None:
        self._part = part
        self._free = asyncio.Semaphore(slots)
        self.calls: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self.most_open: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with self._free:
                self.calls[name] += 1
                self.open[name] += 1
                self.most_open[name] = max(self.most_open[name], self.open[name])
                try:
                    return await getattr(self._part, name)(*args, **kwargs)
                finally:
                    self.open[name] -= 1

        return call


class World:
    """The parts of one robot, and the handles that lead to them."""

    def __init__(self, **server: Any) -> None:
        self.server = ServerConfig(**{"stream_rate_hz": 50.0, **server})
        self._epochs = itertools.count(7)
        self.reset()

    def reset(self) -> None:
        """Make every part anew; the map gets a new epoch, as after a restart of the mapper."""
        self.platform: Any = FakePlatform()
        self.mapper = FakeMapper(next(self._epochs))
        self.planner = FakePlanner()
        self.explorer = FakeExplorer()
        self.pois = FakePois()
        self.lost: dict[str, BaseException] = {}

    def _resolve(self, name: str) -> Any:
        part = name.rpartition("/")[2]
        if part in self.lost:
            return FakeHandle(Lost(self.lost[part]))
        parts = {
            "platform": self.platform,
            "mapper": self.mapper,
            "planner": self.planner,
            "explorer": self.explorer,
            "viewer": FakeViewer(),
            "poi_store": self.pois,
        }
        return FakeHandle(parts[part])

    def handles(self) -> Handles:
        """Handles whose parts are looked up at each call, so that a test can lose one at any moment."""

        def actor(name: str) -> Any:
            return _Fresh(name, self._resolve)

        robot = Robot(
            name="go2",
            simulated=True,
            platform=actor("go2/platform"),
            mapper=actor("go2/mapper"),
            planner=actor("go2/planner"),
            explorer=actor("go2/explorer"),
            viewer=actor("go2/viewer"),
        )
        other = replace(robot, name="second")
        return Handles(self.server, {"go2": robot, "second": other}, actor("poi_store"))


class _Fresh:
    """Like `Actor`, without holding the handle that it was given last."""

    def __init__(self, name: str, resolve: Any) -> None:
        self._name, self._resolve = name, resolve

    def __getattr__(self, method: str) -> Any:
        return getattr(Actor(self._name, self._resolve), method)
