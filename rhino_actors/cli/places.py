"""rhino poi: points of interest."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from rhino_actors.cli.api import call, console
from rhino_actors.errors import (
    PoiNotFound,
)

app = typer.Typer(no_args_is_help=True, help="Points of interest: named places.")


@app.command("list")
def poi_list() -> None:
    """List the points of interest."""
    table = Table("label", "x [m]", "y [m]", "id")
    for poi in call("GET", "/api/pois"):
        table.add_row(Text(poi["label"]), f"{poi['x']:.2f}", f"{poi['y']:.2f}", poi["id"])
    console.print(table)


@app.command("add", context_settings={"ignore_unknown_options": True})
def poi_add(
    label: str,
    x: Annotated[float | None, typer.Argument(help="[m]; default: where the robot is")] = None,
    y: Annotated[float | None, typer.Argument(help="[m]")] = None,
) -> None:
    """Name a place: rhino poi add kitchen, or rhino poi add door 3.5 1."""
    body: dict[str, Any] = {"label": label}
    if x is not None and y is not None:
        body |= {"x": x, "y": y}
    print(call("POST", "/api/pois", body)["id"])


@app.command("go")
def poi_go(
    poi: Annotated[str, typer.Argument(help="label, id, or the beginning of an id")],
) -> None:
    """Send the robot to a point of interest: rhino poi go kitchen."""
    found = _find_poi(poi)
    answer = call("POST", f"/api/pois/{found['id']}/navigate", {})
    console.print(f"goal {answer['goal_id']}: going to {found['label']}", markup=False)


@app.command("delete")
def poi_delete(
    poi: Annotated[str, typer.Argument(help="label, id, or the beginning of an id")],
) -> None:
    """Delete a point of interest."""
    found = _find_poi(poi)
    call("DELETE", f"/api/pois/{found['id']}")
    console.print(f"deleted {found['label']}", markup=False)


def _find_poi(wanted: str) -> dict[str, Any]:
    """Return the one point of interest of a label or the beginning of an id. Raises PoiNotFound."""
    pois: list[dict[str, Any]] = call("GET", "/api/pois")
    found = [p for p in pois if p["label"] == wanted]
    found = found or [p for p in pois if p["id"].startswith(wanted)]
    if len(found) == 1:
        return found[0]
    many = "Several points of interest are" if found else "There is no point of interest"
    raise PoiNotFound(f"{many} {wanted!r}.", "rhino poi list shows all of them with their ids.")
