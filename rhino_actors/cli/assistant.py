"""rhino mcp: for assistants that start their servers as programs and speak to them through a pipe."""

from typing import Annotated

import typer

app = typer.Typer()


@app.command("mcp")
def mcp(
    url: Annotated[
        str | None,
        typer.Option(help="of the deployment, default: the one that runs here", metavar="URL"),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            help="of that deployment; better in the environment, where other users do not see it",
            envvar="RHINO_TOKEN",
            show_envvar=True,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="by which others see who drives, default: the program's own"),
    ] = None,
) -> None:
    """Join an assistant's program on this machine to the robot: MCP on stdin and stdout, until stdin ends.

    The deployment may start later, and start anew: until it answers each tool says NOT_RUNNING.
    """
    # Takes seconds to import, which no other command should.
    from rhino_actors.cli import mcp_bridge

    mcp_bridge.run(url, token, name)
