"""What the channels of the shared memory hold, and how each message is laid out.

| channel  | writer  | rate | message |
|----------|---------|------|---------|
| command  | actor   | as sent | twist, time of sending |
| odometry | physics | 50 Hz | pose, twist, stamps |
| lidar    | physics | 7.7 Hz | origin, pose, stamps, points |
| state    | physics | 5 Hz and on change | JSON |
| pose     | physics | 50 Hz | the model's coordinates, for the camera |
| camera   | camera  | 15 Hz | stamp, size, JPEG |

All stamps are CLOCK_MONOTONIC seconds, one clock for all processes of a host.
"""

import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.sensors import CameraFrame, LidarFrame, LidarKind

_COMMAND = struct.Struct("=4d")
_ODOMETRY = struct.Struct("=12d")
_LIDAR = struct.Struct("=8dq")
_CAMERA = struct.Struct("=d2q")
_STATE_CAPACITY = 8192
_POSE_CAPACITY = 1024
# Longest JPEG, as bytes per pixel: pictures of noise at quality 100 stay below it.
_JPEG_BYTES_PER_PIXEL = 3


def capacities(config: MujocoConfig) -> dict[str, int]:
    """Return the channels of a simulation and the longest message of each [bytes]."""
    pixels = config.camera_width * config.camera_height
    return {
        "command": _COMMAND.size,
        "odometry": _ODOMETRY.size,
        "lidar": _LIDAR.size + 12 * config.lidar_azimuths * config.lidar_elevations,
        "state": _STATE_CAPACITY,
        "pose": _POSE_CAPACITY,
        "camera": _CAMERA.size + _JPEG_BYTES_PER_PIXEL * pixels,
    }


def pack_command(twist: Twist2D, stamp: float) -> bytes:
    """Return the message of a twist that was sent at `stamp` [s]."""
    return _COMMAND.pack(twist.vx, twist.vy, twist.omega, stamp)


def unpack_command(message: bytes) -> tuple[Twist2D, float]:
    """Return the twist and when it was sent [s]."""
    vx, vy, omega, stamp = _COMMAND.unpack(message)
    return Twist2D(vx, vy, omega), stamp


def pack_odometry(
    stamp: float,
    device_stamp: float,
    position: tuple[float, float, float],
    orientation: tuple[float, float, float, float],
    twist: Twist2D,
) -> bytes:
    """Return an odometry message; fields as in `Odometry`."""
    return _ODOMETRY.pack(
        stamp, device_stamp, *position, *orientation, twist.vx, twist.vy, twist.omega
    )


def unpack_odometry(seq: int, message: bytes) -> Odometry:
    """Return the odometry that a message holds."""
    stamp, device_stamp, x, y, z, qx, qy, qz, qw, vx, vy, omega = _ODOMETRY.unpack(message)
    return Odometry(seq, stamp, (x, y, z), (qx, qy, qz, qw), Twist2D(vx, vy, omega), device_stamp)


def pack_lidar(
    stamp: float,
    device_stamp: float,
    points: NDArray[np.float32],
    origin: tuple[float, float, float],
    pose: Pose2D,
) -> tuple[bytes, memoryview]:
    """Return the two parts of a scan's message; fields as in `LidarFrame`, points (N, 3) in odom."""
    head = _LIDAR.pack(stamp, device_stamp, *origin, pose.x, pose.y, pose.yaw, len(points))
    return head, np.ascontiguousarray(points).reshape(-1).view(np.uint8).data


def unpack_lidar(seq: int, message: bytes) -> LidarFrame:
    """Return the scan that a message holds, its points read-only."""
    stamp, device_stamp, ox, oy, oz, x, y, yaw, count = _LIDAR.unpack_from(message)
    points = np.frombuffer(message, np.float32, 3 * count, _LIDAR.size).reshape(count, 3)
    return LidarFrame(
        seq=seq,
        stamp=stamp,
        points=points,
        origin=(ox, oy, oz),
        pose=Pose2D(x, y, yaw),
        resolution=0.0,
        kind=LidarKind.SCAN,
        device_stamp=device_stamp,
    )


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


def pack_pose(qpos: NDArray[np.float64]) -> bytes:
    """Return the message of the model's coordinates."""
    return qpos.tobytes()


def unpack_pose(message: bytes) -> NDArray[np.float64]:
    """Return the model's coordinates, read-only."""
    return np.frombuffer(message, np.float64)
