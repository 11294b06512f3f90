"""The `rhino` command. `deploy` runs a deployment; most others speak to it through its REST API."""

import sys

import typer
from rich.text import Text

from rhino_actors.cli import (
    access,
    assistant,
    deployment,
    driving,
    faults,
    maps,
    missions,
    places,
    robots,
)
from rhino_actors.cli.api import errors
from rhino_actors.errors import RhinoError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # the default takes units, [m], for markup and drops them
    pretty_exceptions_enable=False,
    help="Navigation for the Unitree Go2: map, plan, explore, in simulation and on the robot.",
    epilog="First steps: `rhino deploy sim`, then `rhino goto 2 1`, `rhino explore`, `rhino stop`.",
)
app.add_typer(deployment.app)
app.add_typer(driving.app)
app.add_typer(missions.app)
app.add_typer(places.app, name="poi")
app.add_typer(maps.app, name="map")
app.add_typer(faults.app, name="fault")
app.add_typer(robots.app)
app.add_typer(access.app)
app.add_typer(assistant.app)


def run() -> None:
    """Entry point: run a command, and turn errors into one line and exit code 1."""
    try:
        app()
    except RhinoError as error:
        errors.print(Text.assemble((error.code, "bold red"), f" {error.message}"), soft_wrap=True)
        errors.print(error.hint, style="dim", markup=False, soft_wrap=True)
        sys.exit(1)
