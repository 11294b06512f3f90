"""`rhino doctor`: what could keep a robot from working, one line each, with what to do about it."""

import asyncio
import math
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from rhino_actors.config import RhinoConfig, data_dir
from rhino_actors.drivers.go2.calibration import load_calibration
from rhino_actors.drivers.go2.lidar import read_voxel_message
from rhino_actors.drivers.go2.session import RobotSession
from rhino_actors.drivers.go2.signalling import NEW_PORT, OLD_PORT, PortState, probe
from rhino_actors.drivers.go2.voxel_kernel import warm_up
from rhino_actors.errors import (
    ConfigError,
    LidarDecodeError,
    RhinoError,
    RobotBusy,
    RobotKeyMissing,
    RobotKeyRejected,
)
from rhino_actors.messages.geometry import Odometry
from rhino_actors.messages.platform import Posture

KNOCKS, KNOCK_GAP_S = 20, 0.1
LISTEN_S = 6.0
CONNECT_S = 40.0
MIN_DISK_GB = 1.0
CLOCK_LIMIT_S = 5.0
# What it is called here -> the package.
NEEDED = {
    "ray": "ray",
    "numba": "numba",
    "webrtc": "aiortc",
    "go2 client": "unitree-webrtc-connect-leshy",
    "video": "av",
}


class Verdict(StrEnum):
    """How a check ended."""

    GOOD = "ok"
    NOTE = "note"  # works, but worth knowing
    BAD = "fix"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    verdict: Verdict
    text: str
    fix: str = ""


async def examine(config: RhinoConfig, aes_key: str) -> AsyncIterator[Check]:
    """Yield what there is to say, the host first, then the robot; a robot out of reach ends it."""
    for check in host_checks(config):
        yield check
    host = config.go2.robot_ip
    if not host:
        yield Check(
            "robot", Verdict.BAD, "no address", "rhino doctor --robot-ip ADDRESS; rhino discover"
        )
        return
    reachable = False
    async for check in _network(host):
        reachable = reachable or check.name.startswith("port") and check.verdict is Verdict.GOOD
        yield check
    if reachable:
        async for check in _robot(config, aes_key):
            yield check


def host_checks(config: RhinoConfig) -> list[Check]:
    """Return what this machine says of itself."""
    version = ".".join(map(str, sys.version_info[:3]))
    checks = [
        Check("python", Verdict.GOOD, version)
        if sys.version_info >= (3, 11)
        else Check("python", Verdict.BAD, version, "rhino needs Python 3.11 or newer")
    ]
    for name, package in NEEDED.items():
        try:
            checks.append(Check(name, Verdict.GOOD, metadata.version(package)))
        except metadata.PackageNotFoundError:
            checks.append(Check(name, Verdict.BAD, "not installed", "pip install 'rhino-go2[go2]'"))
    checks.append(_disk(data_dir(config.paths)))
    checks += [_port(config.server.host, config.server.port)]
    gl = find_spec("mujoco") is not None
    text = "the simulation is installed" if gl else "no simulation here; the robot needs none"
    checks.append(Check("gl", Verdict.GOOD, text))
    checks.append(_calibration(config))
    return checks


def _disk(folder: Path) -> Check:
    place = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(place).free / 1e9
    if free >= MIN_DISK_GB:
        return Check("disk", Verdict.GOOD, f"{free:.0f} GB free at {place}")
    return Check(
        "disk", Verdict.BAD, f"{free:.1f} GB free at {place}", "make room for maps and logs"
    )


def _port(host: str, port: int) -> Check:
    with socket.socket() as attempt:
        attempt.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            attempt.bind((host, port))
        except OSError as error:
            return Check(
                f"port {port}",
                Verdict.NOTE,
                f"{error.strerror}: rhino runs, or another program has it",
                "RHINO_PORT=8001 chooses another",
            )
    return Check(f"api port {port}", Verdict.GOOD, "free")


def _calibration(config: RhinoConfig) -> Check:
    try:
        found = load_calibration(config.robot.name, config.paths)
    except ConfigError as error:
        return Check("calibration", Verdict.BAD, error.message, error.hint)
    if found is None:
        return Check(
            "calibration",
            Verdict.NOTE,
            "none for this robot",
            "rhino calibrate, once, before driving",
        )
    days = (time.time() - found.measured) / 86_400.0
    text = f"{days:.0f} days old: {found.velocity_api}, holds {found.hold_s:.1f} s"
    return Check("calibration", Verdict.GOOD, text)


async def _network(host: str) -> AsyncIterator[Check]:
    """Knock at the robot's ports, which says more than ping and needs no rights."""
    states = {port: await probe(host, port) for port in (NEW_PORT, OLD_PORT)}
    best = next((port for port, state in states.items() if state is PortState.OPEN), None)
    knocks = []
    answering = best if best is not None else NEW_PORT
    for _ in range(KNOCKS):
        begun = time.perf_counter()
        state = await probe(host, answering, 0.5)
        knocks.append(math.inf if state is PortState.SILENT else time.perf_counter() - begun)
        await asyncio.sleep(KNOCK_GAP_S)
    answered = sorted(1000.0 * k for k in knocks if math.isfinite(k))
    loss = 100.0 * (1.0 - len(answered) / KNOCKS)
    if not answered:
        yield Check(
            "network",
            Verdict.BAD,
            f"nothing answers at {host}",
            "is it on, in this network, and is this its address? rhino discover finds it",
        )
        return
    text = (
        f"{answered[len(answered) // 2]:.1f} ms, at worst {answered[-1]:.0f} ms, {loss:.0f} % lost"
    )
    if loss > 5.0 or answered[-1] > 200.0:
        yield Check(
            "network", Verdict.NOTE, text, "bring the robot nearer to the access point, use 5 GHz"
        )
    else:
        yield Check("network", Verdict.GOOD, text)
    for port, state in states.items():
        kind = "new" if port == NEW_PORT else "old"
        if state is PortState.OPEN:
            yield Check(f"port {port}", Verdict.GOOD, f"open: {kind} signalling")
        else:
            fix = "" if best else "wait a minute after the start; 192.168.123.18 is not the robot"
            verdict = Verdict.NOTE if best else Verdict.BAD
            yield Check(f"port {port}", verdict, f"{state.value}: no {kind} signalling", fix)


class _Listener:
    """A sink that counts."""

    def __init__(self) -> None:
        self.poses = 0
        self.lidars = 0
        self.damaged = 0
        self.pictures = 0
        self.device_stamp = math.nan

    def odometry(self, odometry: Odometry) -> None:
        self.poses += 1
        self.device_stamp = odometry.device_stamp

    def lidar(self, message: bytes, stamp: float, odometry: Odometry) -> None:
        self.lidars += 1
        try:
            read_voxel_message(message).points()
        except LidarDecodeError:
            self.damaged += 1

    def camera(self, jpeg: bytes, width: int, height: int, stamp: float) -> None:
        self.pictures += 1


async def _robot(config: RhinoConfig, aes_key: str) -> AsyncIterator[Check]:
    """Connect, listen for a while, and say what came. Nothing moves."""
    await asyncio.to_thread(warm_up)  # compiling must not look like a robot that sends rarely
    listener = _Listener()
    session = RobotSession(replace(config.go2, camera=True), aes_key, listener)
    running = asyncio.create_task(session.run())
    try:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(CONNECT_S):
                await session.connected()
        except RhinoError as error:
            yield Check(_layer(error), Verdict.BAD, error.message, error.hint)
            return
        except TimeoutError:
            yield Check(
                "connection", Verdict.BAD, f"none within {CONNECT_S:.0f} s", "restart the robot"
            )
            return
        yield Check("key", Verdict.GOOD, "accepted, or none is needed")
        yield Check("other app", Verdict.GOOD, "none is connected")
        yield Check("data channel", Verdict.GOOD, f"open after {time.monotonic() - begun:.1f} s")
        await asyncio.sleep(LISTEN_S)
        for check in _heard(session, listener):
            yield check
    finally:
        await session.close()
        await running


def _layer(error: RhinoError) -> str:
    if isinstance(error, RobotBusy):
        return "other app"
    return "key" if isinstance(error, (RobotKeyMissing, RobotKeyRejected)) else "connection"


def _heard(session: RobotSession, listener: _Listener) -> list[Check]:
    """Return what the robot's streams say."""
    checks = []
    for name, count, least, fix in (
        ("odometry", listener.poses, 5.0, "restart the robot: its motion service does not run"),
        ("lidar", listener.lidars, 3.0, "switch it on in the app; is anything in front of it?"),
        (
            "video",
            listener.pictures,
            5.0,
            "navigation does without; restart the robot when it stays",
        ),
    ):
        rate = count / LISTEN_S
        good = rate >= least
        text = f"{rate:.1f} a second"
        checks.append(Check(name, Verdict.GOOD if good else Verdict.BAD, text, "" if good else fix))
    if listener.damaged:
        text = f"{listener.damaged} of {listener.lidars} messages cannot be decoded"
        checks.append(
            Check("lidar format", Verdict.BAD, text, "the firmware may be newer than rhino")
        )
    checks.append(_clock(listener.device_stamp))
    state = session.state()
    standing = state.posture is Posture.STANDING
    checks.append(
        Check(
            "posture",
            Verdict.GOOD if standing else Verdict.NOTE,
            state.posture.value,
            "" if standing else "rhino cmd StandUp, once it is deployed",
        )
    )
    full = state.battery >= 20.0
    checks.append(
        Check(
            "battery",
            Verdict.GOOD if full else Verdict.NOTE,
            f"{state.battery:.0f} %, {state.voltage:.1f} V",
            "" if full else "charge it",
        )
    )
    checks += [Check("robot", Verdict.NOTE, fault) for fault in state.faults]
    return checks


def _clock(device_stamp: float) -> Check:
    if math.isnan(device_stamp):
        return Check("clock", Verdict.NOTE, "the robot tells no time; rhino uses its own")
    behind = time.time() - device_stamp
    if abs(behind) <= CLOCK_LIMIT_S:
        return Check("clock", Verdict.GOOD, f"{behind:+.1f} s to the robot's")
    return Check(
        "clock",
        Verdict.NOTE,
        f"the robot's differs by {behind:+.0f} s",
        "rhino uses its own; for the logs, give the robot internet once",
    )
