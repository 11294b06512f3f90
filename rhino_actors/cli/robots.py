"""Commands around a real Go2, or a simulated one on the network: they need no deployment."""

import asyncio
import dataclasses
import os
from typing import Annotated

import typer
from rich.text import Text

from rhino_actors.cli.api import console
from rhino_actors.config import RhinoConfig, load_config
from rhino_actors.errors import ConfigError, EStopLatched
from rhino_actors.run_record import check_nothing_runs
from rhino_actors.storage.latch import LatchFile, latch_path

app = typer.Typer()
COLORS = {"ok": "green", "note": "yellow", "fix": "bold red"}

RobotIp = Annotated[str | None, typer.Option(help="address of the robot")]
Source = Annotated[str, typer.Option("--config", help="go2, or the path of a configuration.yaml")]


@app.command()
def discover(
    timeout: Annotated[float, typer.Option(help="how long to wait for answers [s]")] = 2.0,
) -> None:
    """Find robots on this network.

    Examples:  rhino discover  ·  rhino discover --timeout 5
    """
    from rhino_actors.drivers.go2.discovery import discover as find

    try:
        found = asyncio.run(find(timeout))
    except OSError as error:
        raise ConfigError(
            f"This host cannot listen for answers: {error.strerror}.",
            "Another program that looks for robots may run: end it.",
        ) from error
    for robot in found:
        console.print(f"{robot.ip}  {robot.serial}", highlight=False)
    if not found:
        console.print("No robot answered.")
        console.print(
            "It answers in the network that it was given in the app (STA mode); its own Wi-Fi is at 192.168.12.1.",
            style="dim",
        )
        raise typer.Exit(1)


@app.command()
def doctor(robot_ip: RobotIp = None, source: Source = "go2") -> None:
    """Check this host and the robot: one line each, with what to do. Nothing moves.

    Examples:  rhino doctor  ·  rhino doctor --robot-ip 192.168.12.1
    """
    config = _config(source, robot_ip)
    from rhino_actors.drivers.go2.doctor import Verdict, examine

    async def run() -> int:
        bad = 0
        async for check in examine(config, _aes_key(config)):
            bad += check.verdict is Verdict.BAD
            word = Text(f"{check.verdict.value:<5}", COLORS[check.verdict.value])
            fix = f"  -> {check.fix}" if check.fix else ""
            console.print(
                word, f"{check.name:<13} {check.text}{fix}", highlight=False, soft_wrap=True
            )
        return bad

    if asyncio.run(run()):
        raise typer.Exit(1)


@app.command()
def calibrate(
    robot_ip: RobotIp = None,
    source: Source = "go2",
    yes: Annotated[bool, typer.Option("--yes", help="do not ask before it drives")] = False,
) -> None:
    """Drive a short, slow sequence and store how this robot takes velocities. Refused while the e-stop is latched.

    Examples:  rhino calibrate --robot-ip 192.168.12.1
    """
    config = _config(source, robot_ip)
    check_nothing_runs()
    _check_not_latched(config, source)
    from rhino_actors.drivers.go2.calibrate import ROOM
    from rhino_actors.drivers.go2.calibrate import calibrate as drive
    from rhino_actors.drivers.go2.calibration import save_calibration

    if not yes:
        typer.confirm(f"The robot will drive by itself. Does it stand, with {ROOM}?", abort=True)
    plain = dataclasses.replace(config.go2, scale_vx=1.0, scale_vy=1.0, scale_omega=1.0)
    found = asyncio.run(
        drive(plain, _aes_key(config), lambda line: console.print(line, highlight=False))
    )
    path = save_calibration(config.robot.name, found, config.paths)
    console.print(f"stored for {config.robot.name}: {path}", soft_wrap=True)


def _config(source: str, robot_ip: str | None) -> RhinoConfig:
    from rhino_actors.drivers.go2.platform import check_config

    config = load_config(source, {} if robot_ip is None else {"go2.robot_ip": robot_ip})
    check_config(config.go2)
    return config


def _check_not_latched(config: RhinoConfig, source: str) -> None:
    by, _ = LatchFile(latch_path(config)).read()
    if by is not None:
        raise EStopLatched(
            f"The emergency stop is latched, by {by}: the robot is not driven.",
            f"Look at the robot; then rhino deploy {source}, rhino estop --clear, rhino down.",
        )


def _aes_key(config: RhinoConfig) -> str:
    return os.environ.get("RHINO_GO2_AES_KEY", "") or config.go2.aes_key


@app.command()
def peer(
    world: Annotated[
        str, typer.Option(help="a world of the simulation, or room, two_rooms, corridor (light)")
    ] = "office",
    host: Annotated[str, typer.Option(help="address to listen at")] = "127.0.0.1",
    firmware: Annotated[str, typer.Option(help="version to behave as")] = "1.1.8",
    data2: Annotated[int, typer.Option(help="key scheme 1, 2 or 3; 0: the firmware's")] = 0,
    aes_key: Annotated[
        str, typer.Option(help="key of scheme 3")
    ] = "00112233445566778899aabbccddeeff",
    signalling: Annotated[str, typer.Option(help="old, new or both")] = "both",
    fps: Annotated[float, typer.Option(help="of the video")] = 30.0,
    seed: Annotated[int, typer.Option(help="of the world")] = 1,
    walking: Annotated[bool, typer.Option("--walking", help="legs with weight")] = False,
    speed: Annotated[float, typer.Option(help="simulated seconds per second")] = 1.0,
    control_port: Annotated[
        int, typer.Option(help="port for GET /stats, /commands and POST /fault; 0: none")
    ] = 0,
) -> None:
    """Run a simulated Go2 that speaks the robot's own WebRTC protocol.

    Examples:  rhino peer --world office  ·  rhino peer --world room --firmware 1.1.15 --host 127.0.0.2
    """
    from rhino_actors.peer.command import firmware_of, make_body, run_peer
    from rhino_actors.peer.server import PeerOptions

    scheme, behaviour = firmware_of(firmware)
    options = PeerOptions(
        host=host,
        signalling=signalling,
        data2=data2 or scheme,
        aes_key=aes_key,
        firmware=behaviour,
        fps=fps,
        control_port=control_port,
    )
    body = make_body(world, seed, walking, speed)
    asyncio.run(run_peer(body, options, lambda line: console.print(f"rhino peer: {line}")))
