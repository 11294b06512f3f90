"""`rhino peer` in the foreground: from its options to a peer that runs until it is told to end."""

import asyncio
import signal
from collections.abc import Callable

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.fake import MAPS
from rhino_actors.errors import ConfigError, PortTaken
from rhino_actors.peer.body import Body, RoomBody, SimulatedBody
from rhino_actors.peer.brain import Firmware
from rhino_actors.peer.server import NEW_PORT, OLD_PORT, PeerOptions, RobotPeer

# First firmware version -> data2 and mode of the motion switcher.
GENERATIONS = (((1, 1, 15), 3, "mcf"), ((1, 1, 8), 2, "mcf"), ((1, 1, 7), 1, "mcf"))


def firmware_of(version: str) -> tuple[int, Firmware]:
    """Return data2 and the behaviour of a firmware version. Raises ConfigError."""
    try:
        numbers = tuple(int(word) for word in version.split("."))
    except ValueError:
        raise ConfigError(
            f"The firmware version is {version!r}.", "It looks like 1.1.14."
        ) from None
    for first, data2, mode in GENERATIONS:
        if numbers >= first:
            return data2, Firmware(version=version, mode=mode)
    return 1, Firmware(version=version, mode="normal")


def make_body(world: str, seed: int, walking: bool, speed: float) -> Body:
    """Return a kinematic room by its name, or the MuJoCo Go2 in any of its worlds. Raises ConfigError."""
    if world in MAPS:
        return RoomBody(world)
    base = "walking" if walking else "kinematic"
    return SimulatedBody(
        MujocoConfig(world=world, seed=seed, base=base, speed=speed), RobotConfig()
    )


async def run_peer(body: Body, options: PeerOptions, say: Callable[[str], None]) -> None:
    """Run a peer until SIGINT or SIGTERM. Raises PortTaken, NotConnected."""
    peer = RobotPeer(body, options)
    ending = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, ending.set)
    try:
        await peer.start()
    except OSError as error:
        raise PortTaken(
            f"The peer cannot listen at {options.host}: {error.strerror}.",
            f"It needs ports {OLD_PORT} and {NEW_PORT}; with --host 127.0.0.2 a second one fits.",
        ) from error
    try:
        say(f"a simulated Go2 at {options.host}, firmware {options.firmware.version}")
        say(f"in another terminal: rhino deploy go2 --robot-ip {options.host}")
        await ending.wait()
    finally:
        await peer.close()
