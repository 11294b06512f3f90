"""What really is, for scoring and tests: nothing that navigates may read it."""

import struct
from dataclasses import dataclass

from rhino_actors.geometry import yaw_from_quaternion
from rhino_actors.messages.geometry import Pose2D, Twist2D

MAX_PEOPLE = 16

_MESSAGE = struct.Struct("=12d3qdq")
_PERSON = struct.Struct("=3d")


@dataclass(frozen=True)
class Truth:
    """The world's own account of the robot, in the world's frame."""

    stamp: float  # [s] monotonic, of the moment
    time: float  # [s] simulated
    position: tuple[float, float, float]  # [m] of base_link
    orientation: tuple[float, float, float, float]  # quaternion x, y, z, w
    twist: Twist2D  # in the body's frame
    wall_contacts: int  # times that the robot began to touch walls or furniture
    person_contacts: int
    falls: int
    contact_time: float  # [s] in which it touched something
    people: tuple[tuple[float, float, float], ...]  # x, y [m], heading [rad]

    @property
    def pose(self) -> Pose2D:
        """The pose on the ground plane."""
        return Pose2D(self.position[0], self.position[1], yaw_from_quaternion(*self.orientation))


def pack_truth(truth: Truth) -> bytes:
    """Return the message of the truth channel."""
    head = _MESSAGE.pack(
        truth.stamp,
        truth.time,
        *truth.position,
        *truth.orientation,
        truth.twist.vx,
        truth.twist.vy,
        truth.twist.omega,
        truth.wall_contacts,
        truth.person_contacts,
        truth.falls,
        truth.contact_time,
        len(truth.people),
    )
    return head + b"".join(_PERSON.pack(*person) for person in truth.people)


def unpack_truth(message: bytes) -> Truth:
    """Return the truth that a message holds."""
    stamp, time, *rest = _MESSAGE.unpack_from(message)
    x, y, z, qx, qy, qz, qw, vx, vy, omega, walls, persons, falls, touching, count = rest
    people = tuple(
        _PERSON.unpack_from(message, _MESSAGE.size + index * _PERSON.size) for index in range(count)
    )
    return Truth(
        stamp=stamp,
        time=time,
        position=(x, y, z),
        orientation=(qx, qy, qz, qw),
        twist=Twist2D(vx, vy, omega),
        wall_contacts=walls,
        person_contacts=persons,
        falls=falls,
        contact_time=touching,
        people=people,
    )


def truth_capacity() -> int:
    """Return the longest message [bytes]."""
    return _MESSAGE.size + MAX_PEOPLE * _PERSON.size
