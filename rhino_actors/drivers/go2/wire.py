"""What passes between the actor's process and the one that holds the connection to the robot.

Up goes a stream of frames: kind, length, payload. Down go datagrams: a twist, or a request as JSON. Both ends are one
rhino on one host, so the layout may change at any time; stamps are the host's monotonic clock.
"""

import dataclasses
import json
import struct
from collections.abc import Iterator
from typing import Any

from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.platform import DriverState, LowState, Posture

# Environment variable with the settings: others cannot read it, unlike a command line.
SETTINGS = "RHINO_GO2_SETTINGS"

HEAD = struct.Struct("<cI")
ODOMETRY, LIDAR, CAMERA, STATE, ANSWER = b"O", b"L", b"C", b"S", b"A"
TWIST = b"T"

_ODOMETRY = struct.Struct("<q12d")
_LIDAR = struct.Struct("<7d")
_CAMERA = struct.Struct("<dII")
_TWIST = struct.Struct("<c4d")


def frame(kind: bytes, payload: bytes) -> bytes:
    """Return a frame of the stream."""
    return HEAD.pack(kind, len(payload)) + payload


class FrameReader:
    """Cuts a stream into frames."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield (kind, payload) of each frame that is complete with this data."""
        self._waiting += data
        while len(self._waiting) >= HEAD.size:
            kind, length = HEAD.unpack_from(self._waiting)
            if len(self._waiting) < HEAD.size + length:
                return
            payload = bytes(self._waiting[HEAD.size : HEAD.size + length])
            del self._waiting[: HEAD.size + length]
            yield kind, payload


def pack_odometry(odometry: Odometry) -> bytes:
    """Return the payload of odometry."""
    twist = odometry.twist
    return _ODOMETRY.pack(
        odometry.seq,
        odometry.stamp,
        *odometry.position,
        *odometry.orientation,
        twist.vx,
        twist.vy,
        twist.omega,
        odometry.device_stamp,
    )


def unpack_odometry(payload: bytes, first_seq: int) -> Odometry:
    """Return odometry with its number raised by `first_seq`, so that numbers go on after a restart."""
    seq, stamp, x, y, z, qx, qy, qz, qw, vx, vy, omega, device = _ODOMETRY.unpack(payload)
    twist = Twist2D(vx, vy, omega)
    return Odometry(first_seq + seq, stamp, (x, y, z), (qx, qy, qz, qw), twist, device)


def pack_lidar(
    message: bytes, stamp: float, pose: Pose2D, origin: tuple[float, float, float]
) -> bytes:
    """Return the payload of a lidar message as the robot sent it, with where the robot was."""
    return _LIDAR.pack(stamp, pose.x, pose.y, pose.yaw, *origin) + message


def unpack_lidar(payload: bytes) -> tuple[bytes, float, Pose2D, tuple[float, float, float]]:
    """Return the robot's message, its arrival [s], the pose and the sensor's place in odom [m]."""
    stamp, x, y, yaw, ox, oy, oz = _LIDAR.unpack_from(payload)
    return payload[_LIDAR.size :], stamp, Pose2D(x, y, yaw), (ox, oy, oz)


def pack_camera(jpeg: bytes, width: int, height: int, stamp: float) -> bytes:
    """Return the payload of a picture."""
    return _CAMERA.pack(stamp, width, height) + jpeg


def unpack_camera(payload: bytes) -> tuple[bytes, int, int, float]:
    """Return jpeg, width, height and arrival [s]."""
    stamp, width, height = _CAMERA.unpack_from(payload)
    return payload[_CAMERA.size :], width, height, stamp


def pack_twist(twist: Twist2D, stamp: float) -> bytes:
    """Return the datagram of a twist decided on at `stamp` [s]."""
    return _TWIST.pack(TWIST, twist.vx, twist.vy, twist.omega, stamp)


def unpack_twist(datagram: bytes) -> tuple[Twist2D, float]:
    """Return a twist and when it was decided on [s]."""
    _, vx, vy, omega, stamp = _TWIST.unpack(datagram)
    return Twist2D(vx, vy, omega), stamp


def pack_state(state: DriverState) -> bytes:
    """Return the payload of a state."""
    return json.dumps(dataclasses.asdict(state)).encode()


def unpack_state(payload: bytes) -> DriverState:
    """Return a state."""
    fields: dict[str, Any] = json.loads(payload)
    low = fields["low_state"]
    fields["posture"] = Posture(fields["posture"])
    fields["faults"] = tuple(fields["faults"])
    fields["low_state"] = LowState(**{k: _tupled(v) for k, v in low.items()}) if low else None
    return DriverState(**fields)


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
