"""Commands around a real Go2, or a simulated one on the network: they need no deployment."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

console = Console()


def register(app: typer.Typer) -> None:
    """Add the commands to `rhino`."""
    for name, command in (("peer", peer),):
        app.command(name)(command)


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
