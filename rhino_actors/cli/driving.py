"""rhino goto, stop, estop, cmd: what the robot does."""

import math
import os
import signal
import time
from typing import Annotated

import typer

from rhino_actors.cli.api import call, console, errors, read_numbers, running_record
from rhino_actors.errors import (
    NotRunning,
)

app = typer.Typer()


@app.command(context_settings={"ignore_unknown_options": True})
def goto(
    x: Annotated[float, typer.Argument(help="[m] on the map")],
    y: Annotated[float, typer.Argument(help="[m] on the map")],
    yaw: Annotated[float | None, typer.Option(help="final heading [rad]")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="wait until the goal ends")] = False,
) -> None:
    """Send the robot to a point.

    Examples:  rhino goto 2 1  ·  rhino goto -1.5 0 --yaw 1.57 --wait
    """
    body = {"x": x, "y": y} | ({} if yaw is None else {"yaw": yaw})
    answer = call("POST", "/api/navigate", body)
    target = answer.get("adjusted") or answer["requested"]
    console.print(f"goal {answer['goal_id']}: going to ({target['x']:.2f}, {target['y']:.2f})")
    moved = math.hypot(target["x"] - x, target["y"] - y)
    if moved > 0.01:
        console.print(f"moved {moved:.2f} m: the point itself is in an obstacle or too near one")
    while wait:
        nav = call("GET", "/api/navigate/status")
        if nav["goal_id"] != answer["goal_id"] or nav["state"] in (
            "arrived",
            "failed",
            "cancelled",
        ):
            console.print(f"{nav['state']} {nav.get('message') or ''}".strip(), highlight=False)
            raise typer.Exit(0 if nav["state"] == "arrived" else 1)
        time.sleep(0.3)


@app.command()
def stop() -> None:
    """Stop: zero velocity, drop goal and mission. The robot stays enabled."""
    _stop_or_signal("/api/stop", signal.SIGUSR1)
    console.print("stopped")


@app.command()
def estop(
    clear: Annotated[bool, typer.Option("--clear", help="clear the latch; moves nothing")] = False,
) -> None:
    """Emergency stop: latched until it is cleared, also over a restart; the motors only damp."""
    if clear:
        call("POST", "/api/estop/clear", {})
        console.print("cleared; nothing resumes, and the robot lies: rhino cmd StandUp")
        return
    _stop_or_signal("/api/estop", signal.SIGUSR2)
    console.print("E-STOP is latched")


def _stop_or_signal(route: str, name: signal.Signals) -> None:
    """Stop by the API; if it does not answer at once, tell the deployment's process directly."""
    try:
        call("POST", route, {}, timeout=2.0)
    except NotRunning:
        record = running_record()
        if record is None:
            raise
        os.kill(record.pid, name)
        errors.print("The API does not answer; the deployment was told directly.")


@app.command("cmd")
def sport_command(
    command: Annotated[str, typer.Argument(help="StandUp, StandDown, Sit, Hello, Pose, ...")],
    numbers: Annotated[
        list[str] | None,
        typer.Argument(help="of Pose and Euler: roll=, pitch=, yaw= [rad], height= [m]"),
    ] = None,
) -> None:
    """Have the robot do a sport command.

    Examples:  rhino cmd StandUp  ·  rhino cmd Hello  ·  rhino cmd Pose roll=0.2 height=-0.05
    """
    answer = call("POST", f"/api/cmd/{command}", read_numbers(numbers or []))
    done = "".join(f" {key}={value:g}" for key, value in answer["parameters"].items())
    console.print(
        f"{answer['command']}{done}: accepted"
        + (f", {answer['message']}" if answer["message"] else "")
    )
