"""What the command line says of itself."""

import pytest
from typer.testing import CliRunner

from rhino_actors.cli import app


@pytest.mark.parametrize(
    ("command", "units"),
    [
        (["goto"], ("[m] on the map", "heading [rad]")),
        (["patrol"], ("[s] to stand", "[m] driven", "[m, rad]")),
        (["poi", "move"], ("[m] on the map",)),
        (["fault", "add"], ("duration= [s]",)),
    ],
)
def test_help_keeps_the_units(command: list[str], units: tuple[str, ...]) -> None:
    said = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"}).output
    assert all(unit in said for unit in units), said
