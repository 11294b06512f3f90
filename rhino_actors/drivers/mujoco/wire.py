"""What the channels of the shared memory hold, and how each message is laid out.

| channel  | writer  | rate | message |
|----------|---------|------|---------|
| command  | actor   | as sent | twist, time of sending |
| odometry | physics | 50 Hz | pose, twist, stamps |
| lidar    | physics | 7.7 Hz | origin, pose, stamps, points or the robot's own voxel message |
| state    | physics | 5 Hz and on change | JSON |
| pose     | physics | 50 Hz | coordinates of all that moves, for the camera |
| camera   | camera  | 15 Hz | stamp, size, JPEG |
| truth    | physics | 50 Hz | what really is, for scoring |

All stamps are CLOCK_MONOTONIC seconds, one clock for all processes of a host.
"""

import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig
from rhino_actors.drivers.mujoco.samples import LidarSample, OdometrySample
from rhino_actors.drivers.mujoco.truth import truth_capacity
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.sensors import CameraFrame, LidarFrame

_COMMAND = struct.Struct("=4d")
_ODOMETRY = struct.Struct("=12d")
_LIDAR = struct.Struct("=8dq")
_VOXELS = -1  # in the place of the number of points: the robot's message follows
_CAMERA = struct.Struct("=d2q")
_STATE_CAPACITY = 16384
_POSE_CAPACITY = 2048
# Longest voxel message: all layers, as LZ4 stores what it cannot shorten.
_VOXEL_CAPACITY = 96 * 1024
# Longest JPEG, as bytes per pixel: pictures of noise at quality 100 stay below it.
_JPEG_BYTES_PER_PIXEL = 3


def capacities(config: MujocoConfig) -> dict[str, int]:
    """Return the channels of a simulation and the longest message of each [bytes]."""
    pixels = config.camera_width * config.camera_height
    return {
        "command": _COMMAND.size,
        "odometry": _ODOMETRY.size,
        "lidar": _LIDAR.size
        + max(_VOXEL_CAPACITY, 12 * config.lidar_azimuths * config.lidar_elevations),
        "state": _STATE_CAPACITY,
        "pose": _POSE_CAPACITY,
        "camera": _CAMERA.size + _JPEG_BYTES_PER_PIXEL * pixels,
        "truth": truth_capacity(),
    }


def pack_command(twist: Twist2D, stamp: float) -> bytes:
    """Return the message of a twist that was sent at `stamp` [s]."""
    return _COMMAND.pack(twist.vx, twist.vy, twist.omega, stamp)


def unpack_command(message: bytes) -> tuple[Twist2D, float]:
    """Return the twist and when it was sent [s]."""
    vx, vy, omega, stamp = _COMMAND.unpack(message)
    return Twist2D(vx, vy, omega), stamp


def pack_odometry(stamp: float, sample: OdometrySample) -> bytes:
    """Return the message of an odometry sample that arrives at `stamp` [s]."""
    twist = sample.twist
    return _ODOMETRY.pack(
        stamp,
        sample.device_stamp,
        *sample.position,
        *sample.orientation,
        twist.vx,
        twist.vy,
        twist.omega,
    )


def unpack_odometry(seq: int, message: bytes) -> Odometry:
    """Return the odometry that a message holds."""
    stamp, device_stamp, x, y, z, qx, qy, qz, qw, vx, vy, omega = _ODOMETRY.unpack(message)
    return Odometry(seq, stamp, (x, y, z), (qx, qy, qz, qw), Twist2D(vx, vy, omega), device_stamp)


def pack_lidar(stamp: float, sample: LidarSample) -> tuple[bytes, bytes | memoryview]:
    """Return the two parts of a lidar message for a sample that arrives at `stamp` [s]."""
    points = sample.points
    head = _LIDAR.pack(
        stamp,
        sample.device_stamp,
        *sample.origin,
        *sample.pose.as_tuple(),
        _VOXELS if points is None else len(points),
    )
    if points is None:
        return head, sample.message
    return head, np.ascontiguousarray(points).reshape(-1).view(np.uint8).data


def unpack_lidar(seq: int, message: bytes) -> LidarFrame:
    """Return the frame that a message holds, its points read-only. Raises LidarDecodeError."""
    stamp, device_stamp, ox, oy, oz, x, y, yaw, count = _LIDAR.unpack_from(message)
    if count == _VOXELS:
        points, voxels = None, message[_LIDAR.size :]
    else:
        points = np.frombuffer(message, np.float32, 3 * count, _LIDAR.size).reshape(count, 3)
        voxels = b""
    pose = Pose2D(x, y, yaw)
    return LidarSample(device_stamp, (ox, oy, oz), pose, points, voxels).frame(seq, stamp)


def pack_camera(stamp: float, width: int, height: int, jpeg: bytes) -> tuple[bytes, bytes]:
    """Return the two parts of a picture's message."""
    return _CAMERA.pack(stamp, width, height), jpeg


def unpack_camera(seq: int, message: bytes) -> CameraFrame:
    """Return the picture that a message holds."""
    stamp, width, height = _CAMERA.unpack_from(message)
    return CameraFrame(seq, stamp, message[_CAMERA.size :], width, height)


def pack_state(state: dict[str, Any]) -> bytes:
    """Return the message of the simulation's state."""
    return json.dumps(state).encode()


def unpack_state(message: bytes) -> dict[str, Any]:
    """Return the simulation's state."""
    state: dict[str, Any] = json.loads(message)
    return state


def pack_pose(coordinates: NDArray[np.float64]) -> bytes:
    """Return the message of the coordinates of all that moves."""
    return coordinates.tobytes()


def unpack_pose(message: bytes) -> NDArray[np.float64]:
    """Return the coordinates of all that moves, read-only."""
    return np.frombuffer(message, np.float64)
