"""rhino poi: points of interest."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from rhino_actors.cli.api import call, console
from rhino_actors.errors import InvalidRequest, PoiNotFound

app = typer.Typer(no_args_is_help=True, help="Points of interest: named places.")

PoiArgument = Annotated[str, typer.Argument(help="label, id, or the beginning of an id")]
KINDS = {".csv": "csv", ".geojson": "geojson", ".json": "geojson"}


@app.command("list")
def poi_list() -> None:
    """List the points of interest in their order."""
    table = Table("label", "x (m)", "y (m)", "map", "id")
    pois = call("GET", "/api/pois")
    names = {saved["id"]: saved["name"] for saved in call("GET", "/api/maps")}
    for poi in pois:
        place = Text("" if poi["map_id"] is None else names.get(poi["map_id"], poi["map_id"]))
        table.add_row(Text(poi["label"]), f"{poi['x']:.2f}", f"{poi['y']:.2f}", place, poi["id"])
    console.print(table)


@app.command("add", context_settings={"ignore_unknown_options": True})
def poi_add(
    label: str,
    x: Annotated[float | None, typer.Argument(help="[m]; default: where the robot is")] = None,
    y: Annotated[float | None, typer.Argument(help="[m]")] = None,
) -> None:
    """Name a place: rhino poi add kitchen, or rhino poi add door 3.5 1."""
    body: dict[str, Any] = {"label": label}
    if x is not None:
        body |= {"x": x, "y": y}
    print(call("POST", "/api/pois", body)["id"])


@app.command("rename")
def poi_rename(poi: PoiArgument, label: str) -> None:
    """Give a point of interest another label: rhino poi rename door "front door"."""
    found = _find_poi(poi)
    renamed = call("PATCH", f"/api/pois/{found['id']}", {"label": label})
    console.print(f"{found['label']} is called {renamed['label']}", markup=False)


@app.command("move", context_settings={"ignore_unknown_options": True})
def poi_move(
    poi: PoiArgument,
    x: Annotated[float, typer.Argument(help="[m] on the map that it lies on")],
    y: Annotated[float, typer.Argument(help="[m]")],
    z: Annotated[float | None, typer.Argument(help="[m]; default: as it is")] = None,
) -> None:
    """Move a point of interest: rhino poi move door 3.5 1."""
    found = _find_poi(poi)
    body = {"x": x, "y": y} | ({} if z is None else {"z": z})
    call("PATCH", f"/api/pois/{found['id']}", body)
    console.print(f"{found['label']} lies at {x:g} {y:g}", markup=False)


@app.command("order")
def poi_order(
    pois: Annotated[list[str], typer.Argument(help="labels or ids; those left out come after")],
) -> None:
    """Put the points of interest in another order: rhino poi order door kitchen."""
    first = [_find_poi(poi)["id"] for poi in pois]
    rest = [poi["id"] for poi in call("GET", "/api/pois") if poi["id"] not in first]
    call("POST", "/api/pois/order", {"ids": first + rest})
    poi_list()


@app.command("go")
def poi_go(poi: PoiArgument) -> None:
    """Send the robot to a point of interest: rhino poi go kitchen."""
    found = _find_poi(poi)
    answer = call("POST", f"/api/pois/{found['id']}/navigate", {})
    console.print(f"goal {answer['goal_id']}: going to {found['label']}", markup=False)


@app.command("delete")
def poi_delete(poi: PoiArgument) -> None:
    """Delete a point of interest."""
    found = _find_poi(poi)
    call("DELETE", f"/api/pois/{found['id']}")
    console.print(f"deleted {found['label']}", markup=False)


@app.command("export")
def poi_export(
    file: Annotated[Path, typer.Argument(help="to write: .geojson or .csv", dir_okay=False)],
    force: Annotated[bool, typer.Option("--force", help="overwrite the file")] = False,
) -> None:
    """Write all points of interest to a file: rhino poi export places.csv."""
    kind = KINDS.get(file.suffix.lower())
    if kind is None:
        raise InvalidRequest(
            f"{file.name} does not say what to write.", "End it in .geojson or .csv."
        )
    if file.exists() and not force:
        raise InvalidRequest(f"{file} is there already.", "Choose another name, or --force.")
    content = call("GET", "/api/pois/export", query={"format": kind})
    file.write_bytes(content)
    console.print(f"{file}: {len(content)} bytes", markup=False)


@app.command("import")
def poi_import(
    file: Annotated[Path, typer.Argument(help="GeoJSON or CSV", exists=True, dir_okay=False)],
    onto_running_map: Annotated[
        bool,
        typer.Option(help="the places lie on the map that runs, whatever the file says"),
    ] = False,
) -> None:
    """Store the points of interest of a file, all or none: rhino poi import places.csv."""
    query = {"onto_running_map": "true"} if onto_running_map else None
    taken = call("POST", "/api/pois/import", content=file.read_bytes(), query=query)
    console.print(f"{len(taken)} places from {file}", markup=False)


def _find_poi(wanted: str) -> dict[str, Any]:
    """Return the one point of interest of a label or the beginning of an id. Raises PoiNotFound."""
    pois: list[dict[str, Any]] = call("GET", "/api/pois")
    found = [p for p in pois if p["label"] == wanted]
    found = found or [p for p in pois if p["id"].startswith(wanted)]
    if len(found) == 1:
        return found[0]
    many = "Several points of interest are" if found else "There is no point of interest"
    raise PoiNotFound(f"{many} {wanted!r}.", "rhino poi list shows all of them with their ids.")
