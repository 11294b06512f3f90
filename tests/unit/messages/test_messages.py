"""Messages are frozen, cross a process boundary whole, and their few properties hold."""

import dataclasses
import math
import pickle

import cv2
import numpy as np
import pytest

from rhino_actors.geometry import quaternion_from_yaw
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.missions import MissionState, MissionStatus, SkippedTarget
from rhino_actors.messages.navigation import (
    FollowReport,
    FollowState,
    GoalRequest,
    NavState,
    NavStatus,
    Path,
    Rank,
)
from rhino_actors.messages.platform import (
    DriverState,
    GateStatus,
    Posture,
    SportResult,
    StopReason,
    VelocityAnswer,
)
from rhino_actors.messages.poi import Poi
from rhino_actors.messages.sensors import CameraFrame, LidarFrame, LidarKind

ODOMETRY = Odometry(3, 1.5, (1.0, 2.0, 0.3), quaternion_from_yaw(0.7), Twist2D(0.1, 0.0, 0.2))
GATE = GateStatus(1, "me", "human", False, "", None, StopReason.NONE, Twist2D(), 1.0, 0.5, 1.2)
MESSAGES = [
    ODOMETRY,
    Pose2D(1.0, 2.0),
    Twist2D(0.1, 0.2, 0.3),
    GoalRequest(1.0, 2.0, client="phone"),
    Path(1, 2, np.zeros((3, 3)), "phone", Rank.HUMAN),
    FollowReport(1, FollowState.WAITING, StopReason.OBSTACLE),
    NavStatus(NavState.FOLLOWING, path=np.zeros((3, 2))),
    MissionStatus(skipped=(SkippedTarget(1.0, 2.0, 3, "NO_VALID_PATH"),)),
    DriverState(True, Posture.STANDING, 80.0),
    SportResult("Hello", True),
    GATE,
    VelocityAnswer(Twist2D(9.0), Twist2D(1.0), True, "me"),
    Poi("id", "go2", "door", 1.0, 2.0, 0.0, None, 1.0),
    LidarFrame(
        1, 2.0, np.zeros((4, 3), np.float32), (0.0, 0.0, 0.3), Pose2D(0, 0), 0.05, LidarKind.VOXEL
    ),
    CameraFrame(1, 2.0, b"\xff\xd8", 4, 4),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_frozen_and_crosses_a_process_boundary_whole(message: object) -> None:
    name = dataclasses.fields(message)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(message, name, None)
    assert repr(pickle.loads(pickle.dumps(message))) == repr(message)


def test_a_person_outranks_a_mission_outranks_an_agent() -> None:
    assert Rank.HUMAN > Rank.MISSION > Rank.AGENT


def test_every_state_of_a_goal_is_idle_active_or_final() -> None:
    for state in NavState:
        assert [state is NavState.IDLE, state.is_active, state.is_final].count(True) == 1


def test_a_paused_mission_is_still_there() -> None:
    assert {state for state in MissionState if state.is_active} == {
        MissionState.RUNNING,
        MissionState.PAUSED,
    }


def test_twists_know_bad_numbers_and_rest() -> None:
    assert Twist2D().is_zero and Twist2D(-0.0, 0.0, -0.0).is_zero
    for axis in ("vx", "vy", "omega"):
        for bad in (math.nan, math.inf, -math.inf):
            assert not Twist2D(**{axis: bad}).is_finite
            assert not Twist2D(**{axis: bad}).is_zero
        assert not Twist2D(**{axis: 1e-9}).is_zero


def test_odometry_gives_the_planar_pose_and_the_tilt() -> None:
    assert ODOMETRY.pose.as_tuple() == pytest.approx((1.0, 2.0, 0.7))
    assert ODOMETRY.tilt == pytest.approx(0.0, abs=1e-7)
    lying = dataclasses.replace(ODOMETRY, orientation=(math.sin(0.5), 0.0, 0.0, math.cos(0.5)))
    assert lying.tilt == pytest.approx(1.0)


def test_distance_is_straight_and_ignores_heading() -> None:
    assert Pose2D(1.0, 1.0, 3.0).distance_to(4.0, 5.0) == 5.0


def test_a_picture_gives_its_pixels_as_rgb() -> None:
    image = np.zeros((32, 48, 3), np.uint8)
    image[:, :24, 0], image[:, 24:, 2] = 200, 100  # red beside blue
    _, jpeg = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
    pixels = CameraFrame(1, 0.0, jpeg.tobytes(), 48, 32).rgb()
    assert pixels.shape == (32, 48, 3) and pixels.dtype == np.uint8
    np.testing.assert_allclose(pixels[8, 8], (200, 0, 0), atol=12)
    np.testing.assert_allclose(pixels[8, 40], (0, 0, 100), atol=12)
    with pytest.raises(ValueError, match="no JPEG"):
        CameraFrame(1, 0.0, b"\xff\xd8", 4, 4).rgb()
