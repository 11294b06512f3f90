"""What reaches Rerun: entity paths, values, and that nothing bad a robot says can break it."""

import math
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

rr = pytest.importorskip("rerun", reason="rerun-sdk is not installed")

from rerun.chunk import RrdReader  # noqa: E402
from rerun.error_utils import RerunWarning  # noqa: E402

from rhino_actors.config import RhinoConfig, ViewerConfig  # noqa: E402
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D  # noqa: E402
from rhino_actors.messages.grid import GridGeometry, MapSnapshot  # noqa: E402
from rhino_actors.messages.map_patch import VoxelPatch  # noqa: E402
from rhino_actors.messages.missions import (  # noqa: E402
    MissionKind,
    MissionState,
    MissionStatus,
    PatrolProgress,
    PatrolRouter,
    Visits,
)
from rhino_actors.messages.navigation import NavState, NavStatus  # noqa: E402
from rhino_actors.messages.platform import (  # noqa: E402
    DriverState,
    GateDecision,
    GateStatus,
    Posture,
    RobotStatus,
    StopReason,
)
from rhino_actors.messages.poi import Poi  # noqa: E402
from rhino_actors.messages.sensors import CameraFrame, LidarFrame, LidarKind  # noqa: E402
from rhino_actors.viz.rerun_logger import RerunLogger  # noqa: E402
from rhino_actors.viz.web_viewer import free_port, port_is_free  # noqa: E402

ROW_ID = "rerun.controls.RowId"
Rows = dict[str, list[dict[str, Any]]]
POI = Poi("0f3a", "go2", "🐶厨房", 1.0, 2.0, 0.0, None, 0.0)
GATE = GateStatus(1, "me", "human", False, "", None, StopReason.NONE, Twist2D(0.4), 1.0, 0.5, 1.2)
STATUS = RobotStatus(
    robot="go2",
    driver="fake",
    simulated=True,
    stamp=5.0,
    odometry=None,
    odometry_age=0.02,
    lidar_age=0.1,
    camera_age=None,
    odometry_rate=50.0,
    lidar_rate=7.7,
    camera_rate=0.0,
    control_rate=20.0,
    driver_state=DriverState(True, Posture.STANDING, 81.0, faults=("motor 3 is hot",)),
    gate=GATE,
)


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    """Turn what Rerun would only warn of into errors."""
    rr.set_strict_mode(True)
    yield
    rr.set_strict_mode(False)


@pytest.fixture
def record(tmp_path: Path) -> Callable[[Callable[[RerunLogger], None]], Rows]:
    """Run calls on a logger and return what a reader of its file finds: entity -> rows of column -> value."""

    def run(calls: Callable[[RerunLogger], None]) -> Rows:
        path = tmp_path / "run.rrd"
        logger = RerunLogger(_config(record=str(path)))
        try:
            calls(logger)
        finally:
            logger.close()
        return _rows(path)

    return run


def _config(**viewer: Any) -> RhinoConfig:
    return replace(RhinoConfig(), viewer=ViewerConfig(**{"grpc_port": 0, "web_port": 0, **viewer}))


def _rows(path: Path) -> Rows:
    with pytest.warns(RerunWarning, match="no footer"):
        chunks = list(RrdReader(str(path)).stream())
    found: dict[str, list[tuple[bytes, dict[str, Any]]]] = {}
    for chunk in chunks:
        batch = chunk.to_record_batch()
        for index in range(batch.num_rows):
            row = {name: batch.column(name)[index] for name in batch.schema.names}
            values = {name: value.as_py() for name, value in row.items() if ":" in name}
            present = {name: value for name, value in values.items() if value is not None}
            entry = (row[ROW_ID].as_py(), present | {"timelines": set(chunk.timeline_names)})
            found.setdefault(str(chunk.entity_path), []).append(entry)
    # Rows of one entity may come in several chunks, in any order; row ids grow with time.
    return {
        entity: [row for _, row in sorted(rows, key=lambda pair: pair[0])]
        for entity, rows in found.items()
    }


def _odometry(x: float) -> Odometry:
    return Odometry(1, 5.0, (x, 2.0, 0.3), (0.0, 0.0, 1.0, 0.0), Twist2D(0.25, 0.0, -0.5))


def _scan(points: list[list[float]], resolution: float = 0.0) -> LidarFrame:
    array = np.array(points, np.float32).reshape(-1, 3)
    array.flags.writeable = False
    return LidarFrame(1, 5.0, array, (0.0, 0.0, 0.4), Pose2D(0, 0), resolution, LidarKind.SCAN)


def test_the_pose_is_a_transform_at_world_robot(record: Any) -> None:
    rows = record(lambda logger: logger.odometry(_odometry(1.5), 1000.0))
    (row,) = rows["/world/robot"]
    np.testing.assert_allclose(row["Transform3D:translation"], [[1.5, 2.0, 0.3]], rtol=1e-6)
    np.testing.assert_allclose(row["Transform3D:quaternion"], [[0.0, 0.0, 1.0, 0.0]], atol=1e-6)
    assert {"t", "stamp"} <= row["timelines"]
    assert rows["/plots/measured/vx"][0]["Scalars:scalars"] == [0.25]


def test_returns_are_drawn_and_misses_and_invalid_ones_are_not(record: Any) -> None:
    far = RhinoConfig().mapper.max_range + 0.5
    points = [[1.0, 0.0, 0.4], [far, 0.0, 0.4], [math.nan, 0.0, 0.0], [math.inf, 0.0, 0.0]]
    rows = record(lambda logger: logger.lidar(_scan(points), 1000.0))
    np.testing.assert_allclose(rows["/world/lidar"][0]["Points3D:positions"], [[1.0, 0.0, 0.4]])


def test_an_empty_frame_clears_the_points(record: Any) -> None:
    rows = record(lambda logger: logger.lidar(_scan([]), 1000.0))
    assert rows["/world/lidar"][0]["Points3D:positions"] == []


def test_the_picture_is_passed_through_as_it_is(record: Any) -> None:
    jpeg = b"\xff\xd8 not looked into \xff\xd9"
    rows = record(lambda logger: logger.camera(CameraFrame(1, 5.0, jpeg, 4, 4), 1000.0))
    row = rows["/world/robot/camera"][0]
    assert bytes(row["EncodedImage:blob"][0]) == jpeg
    assert row["EncodedImage:media_type"] == ["image/jpeg"]


def test_grids_lie_at_their_origin_with_the_highest_row_first(record: Any) -> None:
    geometry = GridGeometry(0.05, (-1.0, 2.0), (2, 3))
    occupancy = np.array([[0, 0, 0], [-1, 100, 0]], np.int8)
    costmap = np.array([[0, 1, 2], [255, 254, 253]], np.uint8)
    snapshot = MapSnapshot(1, 1, 5.0, geometry, occupancy, costmap, 1.5)
    rows = record(lambda logger: logger.map(snapshot, 1000.0))
    for entity, data in (
        ("/world/occupancy", [255, 100, 0, 0, 0, 0]),
        ("/world/costmap", [255, 254, 253, 0, 1, 2]),
    ):
        (row,) = rows[entity]
        assert list(bytes(row["GridMap:data"][0])) == data
        np.testing.assert_allclose(row["GridMap:cell_size"], [0.05])
        np.testing.assert_allclose(row["GridMap:translation"][0][:2], [-1.0, 2.0])
        (image,) = row["GridMap:format"]
        assert (image["width"], image["height"]) == (3, 2)
    assert rows["/plots/map/known_area"][0]["Scalars:scalars"] == [1.5]


def test_voxels_are_drawn_block_by_block_and_only_where_they_changed(record: Any) -> None:
    def patch(since: int, *bricks: tuple[int, int, int, int]) -> VoxelPatch:
        place = np.array([brick[:3] for brick in bricks], np.int32)
        words = np.zeros((len(bricks), 256), np.uint64)
        words[:, 0] = [brick[3] for brick in bricks]
        return VoxelPatch(1, since + 1, since, 5.0, 0.1, place, words)

    def calls(logger: RerunLogger) -> None:
        logger.voxels(patch(0, (0, 0, 0, 1), (1, 0, 0, 3), (4, 0, 0, 1)), 1000.0)
        logger.voxels(patch(1, (1, 0, 0, 0)), 1001.0)

    rows = record(calls)
    first, second = rows["/world/voxels/0_0"]
    np.testing.assert_allclose(
        first["Points3D:positions"], [[0.05, 0.05, -1.55], [1.65, 0.05, -1.55], [1.65, 0.05, -1.45]]
    )
    np.testing.assert_allclose(second["Points3D:positions"], [[0.05, 0.05, -1.55]])
    assert len(rows["/world/voxels/1_0"]) == 1


def test_an_empty_map_is_not_drawn(record: Any) -> None:
    one = GridGeometry(0.05, (0.0, 0.0), (1, 1))
    unknown = MapSnapshot(
        1, 0, math.nan, one, np.full((1, 1), -1, np.int8), np.full((1, 1), 255, np.uint8), 0.0
    )
    assert "/world/occupancy" not in record(lambda logger: logger.map(unknown, 1000.0))


def test_robot_and_lidar_are_drawn_where_the_map_says_that_odom_lies(record: Any) -> None:
    geometry = GridGeometry(0.05, (0.0, 0.0), (2, 2))
    cells = np.zeros((2, 2), np.int8)
    snapshot = MapSnapshot(1, 1, 5.0, geometry, cells, cells.view(np.uint8), 0.01)
    path = np.array([[8.0, 1.5], [9.0, 1.0]])
    going = NavStatus(NavState.FOLLOWING, 1, Pose2D(9.0, 1.0), path=path)

    def calls(logger: RerunLogger) -> None:
        logger.map(replace(snapshot, map_from_odom=Pose2D(10.0, 0.0, math.pi / 2)), 1000.0)
        logger.odometry(_odometry(1.5), 1000.0)
        logger.lidar(_scan([[1.0, 2.0, 0.5]]), 1000.0)
        logger.nav(going, 1000.0)

    rows = record(calls)
    (row,) = rows["/world/robot"]
    np.testing.assert_allclose(row["Transform3D:translation"], [[8.0, 1.5, 0.3]], atol=1e-6)
    # It looks along -x in odom, so along -y in the map.
    half = math.sqrt(0.5)
    turned = np.array(row["Transform3D:quaternion"][0])
    np.testing.assert_allclose(turned * np.sign(turned[2]), [0.0, 0.0, half, -half], atol=1e-6)
    np.testing.assert_allclose(
        rows["/world/lidar"][0]["Points3D:positions"], [[8.0, 1.0, 0.5]], atol=1e-6
    )
    strip = rows["/world/path"][0]["LineStrips3D:strips"][0]
    np.testing.assert_allclose(np.array(strip)[:, :2], path)


def test_path_and_goal_are_drawn_while_they_stand_and_taken_away_once(record: Any) -> None:
    path = np.array([[0.0, 0.0], [1.0, 0.5]])
    going = NavStatus(NavState.FOLLOWING, 1, Pose2D(9.0, 9.0), Pose2D(1.0, 0.5), path=path)
    failed = NavStatus(NavState.FAILED, 1, reason="NO_VALID_PATH", message="Walls.")

    def calls(logger: RerunLogger) -> None:
        for status in (going, going, failed, failed):
            logger.nav(status, 1000.0)

    rows = record(calls)
    for entity in ("/world/path", "/world/goal"):
        assert [("Clear:is_recursive" in row) for row in rows[entity]] == [False, False, True]
    strip = rows["/world/path"][0]["LineStrips3D:strips"][0]
    np.testing.assert_allclose(np.array(strip)[:, :2], path)
    np.testing.assert_allclose(rows["/world/goal"][0]["Points3D:positions"][0][:2], [1.0, 0.5])
    said = [(row["TextLog:text"][0], row["TextLog:level"][0]) for row in rows["/log"]]
    assert said == [("nav: following", "INFO"), ("nav: failed NO_VALID_PATH Walls.", "WARN")]


@pytest.mark.parametrize("path", [None, np.empty((0, 2)), np.zeros((1, 2))])
def test_a_goal_without_a_path_to_draw_is_still_drawn(record: Any, path: Any) -> None:
    status = NavStatus(NavState.PLANNING, 1, requested=Pose2D(1.0, 2.0), path=path)
    rows = record(lambda logger: logger.nav(status, 1000.0))
    assert "/world/goal" in rows and "/world/path" not in rows


def test_frontiers_are_drawn_with_the_target_marked_until_the_mission_ends(record: Any) -> None:
    frontiers = np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0]])
    frontiers.flags.writeable = False
    running = MissionStatus(state=MissionState.RUNNING, frontiers=frontiers)
    done = MissionStatus(state=MissionState.COMPLETE, message="Nothing is left to see.")

    def calls(logger: RerunLogger) -> None:
        logger.mission(running, 1000.0)
        logger.mission(done, 1001.0)

    rows = record(calls)
    drawn, cleared = rows["/world/frontiers"]
    np.testing.assert_allclose(np.array(drawn["Points3D:positions"])[:, :2], frontiers[:, :2])
    assert len(set(drawn["Points3D:colors"])) == 2
    assert "Clear:is_recursive" in cleared
    assert rows["/log"][-1]["TextLog:text"] == ["explore: complete Nothing is left to see."]


def test_frontiers_have_the_colour_of_their_state(record: Any) -> None:
    frontiers = np.array([[1.0, 2.0, 0.0], [3.0, 4.0, 1.0], [5.0, 6.0, 2.0], [7.0, 8.0, 2.0]])
    running = MissionStatus(state=MissionState.RUNNING, frontiers=frontiers)
    (drawn,) = record(lambda logger: logger.mission(running, 1000.0))["/world/frontiers"]
    colors = drawn["Points3D:colors"]
    assert len(set(colors)) == 3 and colors[2] == colors[3]


def test_a_patrols_way_and_visits_are_drawn_and_stay_until_the_next_mission(record: Any) -> None:
    there_and_back = [[0.2, 0.2], [3.0, 0.2], [0.2, 0.2]]
    trace = np.array([*there_and_back, [np.nan, np.nan], [0.2, 2.0], [1.0, 2.0]])
    progress = PatrolProgress(PatrolRouter.COVERAGE, 0.4, 30.0, 12.0, 50.0, 1)
    running = MissionStatus(
        MissionKind.PATROL, MissionState.RUNNING, id="a", patrol=progress, trace=trace
    )
    age = np.zeros((60, 80), np.uint8)
    age[4, 10], age[40, 10], age[0, 0] = 255, 100, 1
    geometry = GridGeometry(0.05, (1.0, 2.0), age.shape)

    def calls(logger: RerunLogger) -> None:
        logger.mission(running, 1000.0)
        logger.visits(Visits(geometry, age, 60.0), 1000.5)
        logger.mission(replace(running, state=MissionState.CANCELLED, reason="CANCELLED"), 1001.0)
        logger.mission(MissionStatus(state=MissionState.RUNNING, id="b"), 1002.0)

    rows = record(calls)
    strips = rows["/world/trace"][0]["LineStrips3D:strips"]
    assert [len(strip) for strip in strips] == [3, 2], "nothing is drawn where it was carried"
    (drawn, cleared) = rows["/world/patrol"]
    heat = np.frombuffer(bytes(drawn["GridMap:data"][0]), np.uint8)
    heat = np.flipud(heat.reshape(age.shape))
    assert 98 == heat[4, 10] > heat[40, 10] > heat[0, 0] == 1 > heat[59, 79] == 0
    assert list(drawn["GridMap:translation"][0][:2]) == [1.0, 2.0]
    assert "Clear:is_recursive" in cleared
    trace = ["Clear:is_recursive" in row for row in rows["/world/trace"]]
    assert trace == [False, False, True]
    assert rows["/plots/patrol/worst_idleness"][0]["Scalars:scalars"] == [30.0]
    said = [row["TextLog:text"][0] for row in rows["/log"]]
    assert said == ["patrol: running", "patrol: cancelled CANCELLED", "explore: running"]


@pytest.mark.parametrize("label", ["🐶厨房", "<img src=x onerror=alert(1)>", "a/b c", "x" * 200])
def test_places_are_drawn_by_id_with_their_label_verbatim(record: Any, label: str) -> None:
    rows = record(lambda logger: logger.pois([replace(POI, label=label)], 1000.0))
    (row,) = rows["/world/pois/0f3a"]
    assert row["Points3D:labels"] == [label]
    np.testing.assert_allclose(row["Points3D:positions"][0][:2], [1.0, 2.0])


def test_a_place_is_drawn_again_when_it_changed_and_cleared_when_it_is_gone(record: Any) -> None:
    def calls(logger: RerunLogger) -> None:
        for pois in ([POI], [POI], [replace(POI, label="bath")], [], []):
            logger.pois(pois, 1000.0)

    rows = record(calls)["/world/pois/0f3a"]
    assert [row.get("Points3D:labels") for row in rows] == [["🐶厨房"], ["bath"], None]
    assert "Clear:is_recursive" in rows[2]


def test_status_is_plotted_and_a_fault_is_said_once_until_it_comes_again(record: Any) -> None:
    well = replace(STATUS, driver_state=DriverState(True, Posture.STANDING, 80.0))

    def calls(logger: RerunLogger) -> None:
        for status in (STATUS, STATUS, well, STATUS):
            logger.status(status, 1000.0)

    rows = record(calls)
    assert [row["Scalars:scalars"] for row in rows["/plots/battery"]] == [[81], [81], [80], [81]]
    assert rows["/plots/rate/lidar"][0]["Scalars:scalars"] == [7.7]
    assert rows["/plots/age/odometry"][0]["Scalars:scalars"] == [0.02]
    assert rows["/plots/applied/vx"][0]["Scalars:scalars"] == [0.4]
    assert "/plots/age/camera" not in rows
    assert [row["TextLog:text"] for row in rows["/log"]] == [["fault: motor 3 is hot"]] * 2


def test_gate_decisions_are_written_with_who_and_why(record: Any) -> None:
    decision = GateDecision(5.0, 1000.0, "estop", "phone", "ESTOP_LATCHED", "Pressed.")
    rows = record(lambda logger: logger.gate([decision], 1001.0))
    assert rows["/log"][0]["TextLog:text"] == ["gate: estop phone ESTOP_LATCHED Pressed."]
    assert rows["/log"][0]["TextLog:level"] == ["WARN"]


def test_an_earlier_recording_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.rrd"
    names = []
    for x in (1.0, 2.0, 3.0):
        logger = RerunLogger(_config(record=str(path)))
        names.append(Path(logger.record).name)
        logger.odometry(_odometry(x), 1000.0)
        logger.close()
        logger.close()
    assert names == ["run.rrd", "run-1.rrd", "run-2.rrd"]
    for name, x in zip(names, (1.0, 2.0, 3.0), strict=True):
        (row,) = _rows(path.with_name(name))["/world/robot"]
        assert row["Transform3D:translation"][0][0] == x


def test_a_recording_that_cannot_be_written_leaves_the_viewer_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    logger = RerunLogger(_config(record=str(tmp_path / "file" / "run.rrd")))
    assert logger.record.startswith("off: ")
    assert logger.grpc.startswith("rerun+http://127.0.0.1:")
    logger.odometry(_odometry(1.0), 1000.0)
    logger.close()


def test_a_data_port_that_is_taken_is_replaced_by_a_free_one() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        logger = RerunLogger(_config(grpc_port=port))
        address = logger.grpc
        logger.odometry(_odometry(1.0), 1000.0)
        logger.close()
    assert address.startswith("rerun+http://127.0.0.1:") and str(port) not in address


def test_data_is_served_on_loopback_only_at_the_port_asked_for() -> None:
    port = free_port()
    logger = RerunLogger(_config(grpc_port=port))
    assert logger.grpc == f"rerun+http://127.0.0.1:{port}/proxy"
    assert logger.web == "off: viewer.web_port is 0"
    listening = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    ]
    logger.close()
    assert listening == [f"0100007F:{port:04X}"]


def test_a_web_port_that_is_taken_leaves_the_rest_on() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not port_is_free(port)
        logger = RerunLogger(_config(web_port=port))
        assert logger.web == f"off: port {port} is taken"
        logger.odometry(_odometry(1.0), 1000.0)
        logger.close()
