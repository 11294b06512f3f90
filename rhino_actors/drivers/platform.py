"""The one protocol behind which every robot stands: fake, simulated, real."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from rhino_actors.errors import InvalidRequest, UnknownCommand
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import DriverState, FaultReport, SportResult
from rhino_actors.messages.sensors import CameraFrame, LidarFrame

# Sport commands that every driver knows by name. A driver that cannot do one answers `accepted=False`.
SPORT_COMMANDS = (
    "StandUp",
    "StandDown",
    "BalanceStand",
    "RecoveryStand",
    "StopMove",
    "Damp",
    "Sit",
    "RiseSit",
    "Hello",
    "Stretch",
    "Dance1",
    "Dance2",
    "Pose",
    "Euler",
    "FrontFlip",
    "FrontJump",
    "FrontPounce",
)
# Commands that throw the robot's weight about: refused unless `gate.allow_acrobatics` is set.
ACROBATICS = frozenset({"FrontFlip", "FrontJump", "FrontPounce"})
# Commands that take numbers, offsets from the level stand: roll, pitch, yaw [rad] (right side down, nose down, to the
# left), height [m]. What is left out is zero.
SPORT_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Pose": ("roll", "pitch", "yaw", "height"),
    "Euler": ("roll", "pitch", "yaw"),
}


def check_command(command: str) -> None:
    """Raise UnknownCommand, with the list of those that exist, if `command` is not one of SPORT_COMMANDS."""
    if command not in SPORT_COMMANDS:
        raise UnknownCommand(
            f"There is no sport command {command!r}.", f"Known: {', '.join(SPORT_COMMANDS)}."
        )


def check_parameters(command: str, parameters: Mapping[str, float]) -> None:
    """Raise InvalidRequest, with the names that it knows, if `command` does not take one of `parameters`."""
    known = SPORT_PARAMETERS.get(command, ())
    for name in parameters:
        if name not in known:
            hint = f"It takes {', '.join(known)}." if known else "It takes none."
            raise InvalidRequest(f"{command} has no parameter {name[:64]!r}.", hint)


class Platform(Protocol):
    """A robot as the platform actor sees it.

    The getters return the newest value at once and never block; `send_twist` never blocks either. `connect`,
    `close` and `sport` may take seconds and are coroutines. A driver has a dead-man of its own: without a fresh
    twist for `hold_timeout_s` it stops the robot, whatever became of the rest of rhino.
    """

    simulated: bool

    async def connect(self) -> None:
        """Connect, or start the simulation. Raises NotConnected with the reason and what to do."""

    async def close(self) -> None:
        """Send zero, then let go of every process, file and connection. May be called twice."""

    def odometry(self) -> Odometry | None:
        """Return the newest odometry, or None before the first."""

    def lidar(self, newer_than: int) -> LidarFrame | None:
        """Return the newest frame if its seq is greater than `newer_than`, else None."""

    def camera(self, newer_than: int) -> CameraFrame | None:
        """Return the newest picture if its seq is greater than `newer_than`, else None."""

    def send_twist(self, twist: Twist2D) -> None:
        """Send a body twist. Zero is sent as zero. Only `MotionGate`'s owner calls this."""

    async def sport(
        self, command: str, parameters: Mapping[str, float] | None = None
    ) -> SportResult:
        """Carry out one of SPORT_COMMANDS and return the robot's answer. Raises UnknownCommand.

        Only `MotionGate`'s owner calls this; `parameters` are of SPORT_PARAMETERS, finite and within its limits.
        """

    def state(self) -> DriverState:
        """Return posture, battery, link and faults."""


# What a robot may have beside its legs, and the highest level; 0 is off.
DEVICES = {"light": 10, "volume": 10, "obstacle_avoidance": 1}


def check_device(device: str, level: int) -> None:
    """Raise InvalidRequest if there is no such device, or it has no such level."""
    if device not in DEVICES:
        raise InvalidRequest(
            f"There is no device {device[:64]!r}.", f"Known: {', '.join(DEVICES)}."
        )
    if not 0 <= level <= DEVICES[device]:
        raise InvalidRequest(f"{device} is {level}.", f"Give 0 to {DEVICES[device]}.")


@runtime_checkable
class EquippedRobot(Protocol):
    """A driver whose robot has the DEVICES: a light, a speaker, an obstacle avoidance of its own."""

    async def set_device(self, device: str, level: int) -> SportResult:
        """Set a device to a level, and return the robot's answer. Raises InvalidRequest, NotConnected."""


@runtime_checkable
class FaultySource(Protocol):
    """A driver that can let things go wrong on demand: a simulation."""

    async def faults(self) -> FaultReport:
        """Return what is wrong on purpose, and what could be. Raises NotConnected."""

    async def inject(self, name: str, /, **values: float) -> None:
        """Let something go wrong, from `after` [s] on and for `duration` [s]. Raises InvalidFault, NotConnected."""

    async def clear_faults(self, name: str = "") -> None:
        """End the faults of a name; all without one. Raises InvalidFault, NotConnected."""
