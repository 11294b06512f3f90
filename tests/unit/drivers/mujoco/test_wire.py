import numpy as np
import pytest

from rhino_actors.drivers.go2.lidar import LAYER_BYTES, write_voxel_message
from rhino_actors.drivers.mujoco import wire
from rhino_actors.drivers.mujoco.samples import LidarSample, OdometrySample
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.sensors import LidarKind
from tests.simulations import plain_simulation


def test_a_command_comes_back_as_it_was_sent() -> None:
    twist = Twist2D(0.3, -0.1, 0.7)
    assert wire.unpack_command(wire.pack_command(twist, 12.5)) == (twist, 12.5)


def test_odometry_comes_back_as_it_was_sent() -> None:
    sample = OdometrySample(4.0, (1.0, 2.0, 0.3), (0.1, 0.2, 0.3, 0.9), Twist2D(0.1, 0.2, 0.3))
    message = wire.pack_odometry(5.0, sample)
    odometry = wire.unpack_odometry(7, message)
    assert (odometry.seq, odometry.stamp, odometry.device_stamp) == (7, 5.0, 4.0)
    assert odometry.position == (1.0, 2.0, 0.3)
    assert odometry.orientation == (0.1, 0.2, 0.3, 0.9)
    assert odometry.twist == Twist2D(0.1, 0.2, 0.3)


@pytest.mark.parametrize("count", [0, 1, 500])
def test_a_scan_comes_back_as_it_was_sent_and_read_only(count: int) -> None:
    points = np.random.default_rng(0).normal(size=(count, 3)).astype(np.float32)
    sample = LidarSample(4.0, (0.1, 0.2, 0.5), Pose2D(1.0, 2.0, 0.3), points)
    head, body = wire.pack_lidar(5.0, sample)
    frame = wire.unpack_lidar(3, head + bytes(body))
    assert (frame.seq, frame.stamp, frame.device_stamp) == (3, 5.0, 4.0)
    assert frame.origin == (0.1, 0.2, 0.5)
    assert frame.pose == Pose2D(1.0, 2.0, 0.3)
    assert frame.kind is LidarKind.SCAN
    assert np.array_equal(frame.points, points)
    assert not frame.points.flags.writeable


def test_a_voxel_message_comes_back_decoded_and_fits_whatever_is_in_it() -> None:
    noise = np.random.default_rng(0).integers(0, 256, 38 * LAYER_BYTES, dtype=np.uint8)
    message = write_voxel_message(noise, stamp=1.0, resolution=0.05, origin=(1.0, 2.0, -0.575))
    sample = LidarSample(4.0, (0.1, 0.2, 0.5), Pose2D(1.0, 2.0, 0.3), message=message)
    head, body = wire.pack_lidar(5.0, sample)
    assert len(head) + len(body) <= wire.capacities(plain_simulation())["lidar"]
    frame = wire.unpack_lidar(3, head + bytes(body))
    assert (frame.seq, frame.stamp, frame.device_stamp) == (3, 5.0, 4.0)
    assert (frame.kind, frame.resolution) == (LidarKind.VOXEL, 0.05)
    assert len(frame.points) == np.unpackbits(noise).sum()


def test_a_picture_comes_back_as_it_was_sent() -> None:
    frame = wire.unpack_camera(9, b"".join(wire.pack_camera(3.0, 640, 360, b"\xff\xd8jpeg")))
    assert (frame.seq, frame.stamp, frame.width, frame.height) == (9, 3.0, 640, 360)
    assert frame.jpeg == b"\xff\xd8jpeg"


def test_the_lidar_channel_holds_a_scan_without_a_single_lost_beam() -> None:
    config = plain_simulation(lidar_azimuths=90, lidar_elevations=4)
    points = np.zeros((360, 3), np.float32)
    head, body = wire.pack_lidar(0.0, LidarSample(0.0, (0.0, 0.0, 0.0), Pose2D(0.0, 0.0), points))
    assert len(head) + len(body) <= wire.capacities(config)["lidar"]


def test_the_camera_channel_holds_a_picture_of_noise_at_full_quality() -> None:
    cv2 = pytest.importorskip("cv2")
    config = plain_simulation(camera_width=160, camera_height=90)
    noise = np.random.default_rng(0).integers(0, 256, (90, 160, 3), dtype=np.uint8)
    _, jpeg = cv2.imencode(".jpg", noise, [cv2.IMWRITE_JPEG_QUALITY, 100])
    assert len(jpeg) < wire.capacities(config)["camera"]
