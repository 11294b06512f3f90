"""`rhino token`: the secret that programs and browsers of other machines need."""

from typing import Annotated

import typer

from rhino_actors.access_token import make_token, read_token
from rhino_actors.cli.api import console, errors, running_record
from rhino_actors.config import token_path

app = typer.Typer()


@app.command("token")
def token_command(
    new: Annotated[
        bool, typer.Option("--new", help="replace it: whoever has the old one is locked out")
    ] = False,
) -> None:
    """Print the API's token, and make one first if there is none.

    With a token every request needs it; the file is readable by you only. The next deployment reads it.

    Examples:  rhino token  ·  curl -H "Authorization: Bearer $(rhino token)" http://ROBOT:8000/api/state
    """
    path = token_path()
    is_made = new or not path.exists()
    token = make_token(path) if is_made else read_token(path)
    console.print(token, markup=False, highlight=False, soft_wrap=True)
    if is_made:
        errors.print(f"Written to {path}.", style="dim", markup=False, soft_wrap=True)
        if running_record():
            errors.print(
                "What runs does not know it: rhino down, then deploy again.", style="yellow"
            )
