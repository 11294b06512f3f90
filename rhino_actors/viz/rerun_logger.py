"""Every Rerun call: what rhino knows, as entities of one recording. Needs rerun-sdk; no Ray.

Rerun's server lives in this process and keeps a bounded history, so no call here waits for a network. Importing
this module raises ModuleNotFoundError where Rerun is not installed.
"""

import itertools
import logging
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import rerun as rr
import rerun.blueprint as rrb
from numpy.typing import NDArray

from rhino_actors.config import RhinoConfig, ViewerConfig, state_dir
from rhino_actors.geometry import transform_points
from rhino_actors.messages.geometry import Odometry
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.map_patch import VoxelPatch
from rhino_actors.messages.missions import MissionKind, MissionState, MissionStatus, Visits
from rhino_actors.messages.navigation import NavState, NavStatus
from rhino_actors.messages.platform import GateDecision, RobotStatus
from rhino_actors.messages.poi import Poi
from rhino_actors.messages.sensors import CameraFrame, LidarFrame
from rhino_actors.viz.web_viewer import LOOPBACK, WebViewer, free_port, port_is_free

TIMELINE = "t"  # arrival at the viewer, wall clock
STAMPS = "stamp"  # [s] monotonic on the robot-side host, where a message has one

ROBOT, CAMERA, LIDAR = "world/robot", "world/robot/camera", "world/lidar"
OCCUPANCY, COSTMAP, VOXELS = "world/occupancy", "world/costmap", "world/voxels"
PATH, GOAL, FRONTIERS, POIS = "world/path", "world/goal", "world/frontiers", "world/pois"
TRACE, PATROL = "world/trace", "world/patrol"
PLOTS, LOG = "plots", "log"

_Colormap = rr.components.Colormap
_log = logging.getLogger(__name__)
_GREEN, _ORANGE, _BLUE, _PINK = (60, 200, 90), (255, 150, 40), (70, 150, 255), (240, 90, 190)
_GREY = (150, 150, 150)
_FRONTIER_COLORS = np.array((_BLUE, _ORANGE, _GREY), np.uint8)  # by FrontierState
_OLDEST = 98  # of the costmap's colours, 0 to 100: where those of costs end
_BLOCK = 4  # bricks a side of the blocks that voxels are drawn in: what changes is drawn anew, the rest stays
_TOP = 1.5  # [m] height at which the colour of lidar points ends
_BAD_ENDS = (NavState.FAILED, MissionState.BLOCKED, MissionState.INTERRUPTED)


class RerunLogger:
    """One recording of one robot, served on loopback and, if the config says so, written to a file.

    Rerun keeps the present time per thread: construct and call this on one thread. Entities are drawn from the
    first call that names them. `grpc`, `web` and `record` are two addresses and a file, or `off: ` and the reason.
    A data port that is taken is replaced by a free one; a web port that is taken leaves the web viewer out, a file
    that cannot be written leaves the recording out.

    Args:
        config: the viewer's part, the robot's measures and the range of the lidar are used.
    """

    def __init__(self, config: RhinoConfig) -> None:
        self._max_range = config.mapper.max_range
        self._map_from_odom = (0.0, 0.0, 0.0)  # of the newest map
        self._snapshot: MapSnapshot | None = None  # newest, if it is not empty
        self._said: dict[str, object] = {}
        self._faults: set[str] = set()
        self._shown: set[str] = set()
        self._pois: dict[str, Poi] = {}
        # Voxels by block, then by brick: place and bits.
        self._bricks: dict[tuple[int, int], dict[tuple[int, int, int], NDArray[np.uint64]]] = {}
        self._web: WebViewer | None = None
        self._recording = rr.RecordingStream("rhino")
        self.record = ""
        self.grpc = self._serve(config.viewer)
        self.web = self._start_web(config)
        self._log_fixtures(config)

    def close(self) -> None:
        """Flush the recording and end the servers. May be called twice."""
        if self._web is not None:
            self._web.close()
            self._web = None
        self._recording.disconnect()

    def odometry(self, odometry: Odometry, now: float) -> None:
        """Move the robot. `now` here and below: wall clock of the arrival [s]."""
        self._at(now, odometry.stamp)
        (place,) = transform_points(self._map_from_odom, [odometry.position]).tolist()
        x, y, z, w = odometry.orientation
        half = self._map_from_odom[2] / 2.0
        cos, sin = math.cos(half), math.sin(half)
        turned = (cos * x - sin * y, cos * y + sin * x, cos * z + sin * w, cos * w - sin * z)
        self._recording.log(
            ROBOT, rr.Transform3D(translation=place, quaternion=rr.Quaternion(xyzw=turned))
        )
        for name in ("vx", "omega"):
            self._plot(f"measured/{name}", getattr(odometry.twist, name))

    def lidar(self, frame: LidarFrame, now: float) -> None:
        """Draw the newest frame in the map. Beams that met nothing and invalid returns are left out."""
        self._at(now, frame.stamp)
        distances = np.linalg.norm(frame.points - np.asarray(frame.origin, np.float32), axis=1)
        points = frame.points[distances <= self._max_range]  # NaN is not: it is left out too
        if self._map_from_odom != (0.0, 0.0, 0.0):
            points = transform_points(self._map_from_odom, points).astype(np.float32)
        radius = frame.resolution / 2.0 or 0.02
        self._recording.log(LIDAR, rr.Points3D(points, colors=_height_colors(points), radii=radius))

    def camera(self, frame: CameraFrame, now: float) -> None:
        """Show the newest picture."""
        self._at(now, frame.stamp)
        self._recording.log(CAMERA, rr.EncodedImage(contents=frame.jpeg, media_type="image/jpeg"))

    def map(self, snapshot: MapSnapshot, now: float) -> None:
        """Draw occupancy and costmap on the floor; robot and lidar are drawn where it says that odom lies."""
        self._map_from_odom = snapshot.map_from_odom.as_tuple()
        if snapshot.is_empty:
            return
        self._snapshot = snapshot
        self._at(now, snapshot.stamp)
        occupancy = snapshot.occupancy.view(np.uint8)
        layers: tuple[tuple[str, NDArray[np.uint8], _Colormap, float, float], ...] = (
            (OCCUPANCY, occupancy, _Colormap.RvizMap, 1.0, -0.02),
            (COSTMAP, snapshot.costmap, _Colormap.RvizCostmap, 0.5, -0.01),
        )
        for entity, cells, colormap, opacity, z in layers:
            self._recording.log(entity, _grid(snapshot.geometry, cells, colormap, opacity, z))
        self._plot("map/known_area", snapshot.known_area)

    def voxels(self, patch: VoxelPatch, now: float) -> None:
        """Draw the voxels of the blocks that a patch touches."""
        self._at(now, patch.stamp)
        if patch.since == 0:
            self._bricks.clear()
            self._recording.log(VOXELS, rr.Clear(recursive=True))
        blocks = set()
        for index, (x, y, z) in enumerate(patch.place.tolist()):
            block = (x // _BLOCK, y // _BLOCK)
            blocks.add(block)
            # A copy: a row would keep its whole patch in shared memory.
            self._bricks.setdefault(block, {})[x, y, z] = patch.words[index].copy()
        for block in sorted(blocks):
            held = self._bricks[block]
            place = np.array(list(held), np.int32)
            points = replace(patch, place=place, words=np.stack(list(held.values()))).points()
            half = patch.voxel_size / 2.0
            boxes = rr.Points3D(points, colors=_height_colors(points), radii=half)
            self._recording.log([*VOXELS.split("/"), f"{block[0]}_{block[1]}"], boxes)

    def nav(self, status: NavStatus, now: float) -> None:
        """Draw goal and path, or take them away, and write what changed to the log."""
        self._at(now)
        active = status.state.is_active
        goal = status.adjusted or status.requested
        if active and goal is not None:
            self._show(GOAL, rr.Points3D([[goal.x, goal.y, 0.05]], colors=[_GREEN], radii=0.12))
        else:
            self._hide(GOAL)
        if active and status.path is not None and len(status.path) >= 2:
            strip = np.column_stack([status.path, np.full(len(status.path), 0.05)])
            self._show(PATH, rr.LineStrips3D([strip], colors=[_GREEN], radii=0.03))
        else:
            self._hide(PATH)
        if active:
            self._plot("nav/distance_remaining", status.distance_remaining)
            self._plot("nav/plan_time", status.plan_time)
        bad = status.state in _BAD_ENDS
        self._say("nav", status.state, status.reason, status.message, key=status.goal_id, bad=bad)

    def mission(self, status: MissionStatus, now: float) -> None:
        """Draw frontiers and the way driven; write what changed to the log.

        The way and the visits stay when the mission has ended, until the next one.
        """
        self._at(now)
        if status.state.is_active and status.frontiers is not None and len(status.frontiers):
            points = status.frontiers.copy()
            kinds = points[:, 2].astype(int).clip(0, len(_FRONTIER_COLORS) - 1)
            points[:, 2] = 0.1
            colors = _FRONTIER_COLORS[kinds]
            self._show(FRONTIERS, rr.Points3D(points, colors=colors, radii=0.08))
        else:
            self._hide(FRONTIERS)
        self._draw_trace(status)
        if status.patrol is not None:
            self._plot("patrol/worst_idleness", status.patrol.worst_idleness)
            self._plot("patrol/share_visited", 100.0 * status.patrol.share_visited)
        if status.explored_share is not None:
            self._plot("map/explored_share", 100.0 * status.explored_share)
        bad = status.state in _BAD_ENDS
        self._say(status.kind, status.state, status.reason, status.message, key=status.id, bad=bad)

    def visits(self, visits: Visits, now: float) -> None:
        """Draw how long ago a patrol visited each place: blue just now, red when the visit has expired."""
        self._at(now)
        levels = np.ceil(visits.age * (_OLDEST / 255.0)).astype(np.uint8)
        self._show(PATROL, _grid(visits.geometry, levels, _Colormap.Costmap, 0.6, 0.0))

    def _draw_trace(self, status: MissionStatus) -> None:
        """Draw the way driven."""
        trace = status.trace
        if trace is None or len(trace) < 2:
            if not status.state.is_active and status.state is not MissionState.IDLE:
                return
            self._hide(TRACE)
            self._hide(PATROL)
            return
        breaks = np.flatnonzero(np.isnan(trace[:, 0]))
        strips = [piece[np.isfinite(piece[:, 0])] for piece in np.split(trace, breaks)]
        lines = [np.column_stack([s, np.full(len(s), 0.03)]) for s in strips if len(s) >= 2]
        if lines:
            self._show(TRACE, rr.LineStrips3D(lines, colors=[_BLUE], radii=0.02))
        if status.kind is not MissionKind.PATROL:
            self._hide(PATROL)

    def pois(self, pois: Iterable[Poi], now: float) -> None:
        """Draw the places; those that are gone are taken away. Labels are drawn as plain text."""
        self._at(now)
        present = {poi.id: poi for poi in pois}
        for gone in self._pois.keys() - present.keys():
            self._recording.log([*POIS.split("/"), gone], rr.Clear(recursive=False))
        for poi in present.values():
            if self._pois.get(poi.id) != poi:
                marker = rr.Points3D(
                    [[poi.x, poi.y, poi.z + 0.3]], labels=[poi.label], colors=[_PINK], radii=0.08
                )
                self._recording.log([*POIS.split("/"), poi.id], marker)
        self._pois = present

    def status(self, status: RobotStatus, now: float) -> None:
        """Plot rates, ages, battery and what was sent; write new faults to the log."""
        self._at(now, status.stamp)
        values = {
            "battery": status.driver_state.battery,
            "rate/odometry": status.odometry_rate,
            "rate/lidar": status.lidar_rate,
            "rate/camera": status.camera_rate,
            "rate/control": status.control_rate,
            "age/odometry": status.odometry_age,
            "age/lidar": status.lidar_age,
            "age/camera": status.camera_age,
            "applied/vx": status.gate.applied.vx,
            "applied/omega": status.gate.applied.omega,
        }
        for name, value in values.items():
            if value is not None:
                self._plot(name, value)
        faults = {*status.faults, *status.driver_state.faults}
        for fault in sorted(faults - self._faults):
            self._text(f"fault: {fault}", bad=True)
        self._faults = faults

    def gate(self, decisions: Iterable[GateDecision], now: float) -> None:
        """Write decisions of the motion gate to the log, at their own time."""
        for decision in decisions:
            self._at(decision.wall_time, decision.stamp)
            words = (decision.event, decision.holder, decision.reason, decision.message)
            bad = decision.event in ("estop", "refuse")
            self._text("gate: " + " ".join(word for word in words if word), bad=bad)
        self._at(now)

    def _serve(self, config: ViewerConfig) -> str:
        port = config.grpc_port
        if port == 0 or not port_is_free(port):
            port = free_port()
            if config.grpc_port:
                _log.warning("Rerun's data port %d is taken: using %d", config.grpc_port, port)
        # Only this sink can be bound to loopback; serve_grpc and serve_web_viewer listen on every interface.
        server = rr.GrpcServerSink(
            LOOPBACK, port, server_memory_limit=f"{config.memory_limit_mb}MB"
        )
        file = self._open_file(config.record) if config.record else None
        sinks = (server,) if file is None else (server, file)
        self._recording.set_sinks(*sinks, default_blueprint=_blueprint())
        return str(server.uri)

    def _open_file(self, name: str) -> rr.FileSink | None:
        try:
            path = _new_file(Path(name).expanduser().absolute())
        except OSError as error:
            _log.warning("No Rerun recording: %s", error)
            self.record = f"off: {error}"
            return None
        self.record = str(path)
        # A footer would keep an index of the whole recording in memory until the end.
        return rr.FileSink(path, write_footer=False)

    def _start_web(self, config: RhinoConfig) -> str:
        port = config.viewer.web_port
        if port == 0:
            return "off: viewer.web_port is 0"
        try:
            self._web = WebViewer(port, self.grpc, state_dir(config.paths) / "rerun")
        except OSError as error:
            _log.warning("No Rerun web viewer: %s", error)
            return f"off: {error}"
        return self._web.url

    def _log_fixtures(self, config: RhinoConfig) -> None:
        """Log what never changes. Static: an entity from before the first set_time is not on the timeline."""
        half = (config.robot.length / 2.0, config.robot.width / 2.0, 0.12)
        body = rr.Boxes3D(half_sizes=[half], colors=[_ORANGE], radii=0.01)
        self._recording.log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        self._recording.log(f"{ROBOT}/body", body, rr.TransformAxes3D(0.4), static=True)

    def _at(self, now: float, stamp: float | None = None) -> None:
        self._recording.reset_time()
        self._recording.set_time(TIMELINE, timestamp=now)
        if stamp is not None:
            self._recording.set_time(STAMPS, duration=stamp)

    def _plot(self, name: str, value: float) -> None:
        self._recording.log(f"{PLOTS}/{name}", rr.Scalars(value))

    def _show(self, entity: str, what: rr.AsComponents) -> None:
        self._shown.add(entity)
        self._recording.log(entity, what)

    def _hide(self, entity: str) -> None:
        if entity in self._shown:
            self._shown.remove(entity)
            self._recording.log(entity, rr.Clear(recursive=False))

    def _say(
        self, topic: str, state: str, reason: str, message: str, *, key: object, bad: bool
    ) -> None:
        """Write a line when something of the topic is not as it was said last."""
        said = (key, state, reason, message)
        if self._said.get(topic) != said:
            self._said[topic] = said
            self._text(
                " ".join(word for word in (f"{topic}:", state, reason, message) if word), bad=bad
            )

    def _text(self, text: str, *, bad: bool) -> None:
        level = rr.TextLogLevel.WARN if bad else rr.TextLogLevel.INFO
        self._recording.log(LOG, rr.TextLog(text, level=level))


def _new_file(path: Path) -> Path:
    """Make an empty file of this name, or name-1, name-2, ... : an earlier recording is never overwritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    candidate = path
    for number in itertools.count(1):
        try:
            candidate.open("xb").close()
            break
        except FileExistsError:
            candidate = path.with_stem(f"{path.stem}-{number}")
    return candidate


def _grid(
    geometry: GridGeometry, cells: NDArray[np.uint8], colormap: _Colormap, opacity: float, z: float
) -> rr.GridMap:
    rows, cols = cells.shape
    x, y = geometry.origin
    return rr.GridMap(
        data=np.flipud(cells).tobytes(),  # Rerun draws the first row at the top, ours is the lowest
        format=rr.components.ImageFormat(
            width=cols, height=rows, color_model="L", channel_datatype="U8"
        ),
        cell_size=geometry.resolution,
        translation=(x, y, z),
        opacity=opacity,
        colormap=colormap,
    )


def _height_colors(points: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return (N, 3) RGB: blue on the floor over green to red at `_TOP`."""
    levels = np.clip(points[:, 2] / _TOP, 0.0, 1.0)
    ramps = ((40, 60, 255), (90, 220, 60), (255, 60, 60))  # red, green, blue at 0, 1/2, 1
    red, green, blue = (
        np.interp(levels, (0.0, 0.5, 1.0), ramp) for ramp in zip(*ramps, strict=True)
    )
    return np.stack([red, green, blue], axis=1).astype(np.uint8)


def _blueprint() -> rrb.Blueprint:
    """Return the first layout: the world, and beside it camera, plots and log."""
    return rrb.Blueprint(
        rrb.Horizontal(
            rrb.Spatial3DView(
                name="World", origin="world", contents=["+ /world/**", f"- /{CAMERA}/**"]
            ),
            rrb.Vertical(
                rrb.Spatial2DView(name="Camera", origin=CAMERA),
                rrb.Tabs(
                    *(
                        rrb.TimeSeriesView(name=title, origin=f"{PLOTS}/{entity}")
                        for title, entity in (
                            ("Sent", "applied"),
                            ("Measured", "measured"),
                            ("Rates [Hz]", "rate"),
                            ("Ages [s]", "age"),
                            ("Battery [%]", "battery"),
                            ("Navigation", "nav"),
                            ("Map [m2]", "map"),
                            ("Patrol", "patrol"),
                        )
                    ),
                ),
                rrb.TextLogView(name="Log", origin=LOG),
            ),
            column_shares=[3, 2],
        ),
        rrb.TimePanel(state="collapsed", timeline=TIMELINE, play_state="following"),
        rrb.BlueprintPanel(state="collapsed"),
        rrb.SelectionPanel(state="collapsed"),
        auto_views=False,
    )
