"""rhino map: maps that are kept."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from rhino_actors.cli.api import call, console
from rhino_actors.errors import (
    MapFileInvalid,
    MapNotFound,
    MapTooLarge,
    RhinoError,
)
from rhino_actors.messages.maps import MapContent

app = typer.Typer(
    no_args_is_help=True, help="Maps that are kept: save, load, move to ROS and back."
)

MAX_UPLOAD_BYTES = 64_000_000  # what the API takes
MAP_TIMEOUT_S = 90.0  # a large map takes its time to be packed and sent


@app.command("save")
def map_save(name: Annotated[str, typer.Argument(help="1 to 200 characters")]) -> None:
    """Keep the map as it is now: rhino map save office."""
    saved = call("POST", "/api/maps", {"name": name}, timeout=MAP_TIMEOUT_S)
    console.print(f"saved {saved['name']}: {_extent(saved)}", markup=False, highlight=False)


@app.command("load", context_settings={"ignore_unknown_options": True})
def map_load(
    wanted: Annotated[
        str, typer.Argument(metavar="NAME", help="name, id, or the beginning of an id")
    ],
    at: Annotated[
        tuple[float, float, float] | None,
        typer.Option(metavar="X Y YAW", help="where the robot stands on it, in m, m and rad"),
    ] = None,
) -> None:
    """Stop the robot and go on with a saved map.

    Examples:  rhino map load office  ·  rhino map load office --at 1.5 -2 1.57
    """
    found = _find_map(wanted)
    body = dict(zip(("x", "y", "yaw"), at, strict=True)) if at else {}
    answer = call("POST", f"/api/maps/{found['id']}/load", body, timeout=MAP_TIMEOUT_S)
    console.print(f"loaded {found['name']}; the robot stands", markup=False, highlight=False)
    if not answer["is_placed"]:
        console.print(
            "Its place on the map was not given: it looks for it everywhere. Drive or turn it until it knows"
            " (rhino status), or: rhino map load NAME --at X Y YAW.",
            soft_wrap=True,
            highlight=False,
        )


@app.command("list")
def map_list() -> None:
    """List the saved maps; * marks those whose coordinates the running map has."""
    table = Table("", "name", "known (m2)", "cell (m)", "saved", "id")
    for saved in call("GET", "/api/maps"):
        table.add_row(
            "*" if saved["in_force"] else "",
            Text(saved["name"]),
            f"{saved['known_area']:.1f}",
            f"{saved['resolution']:g}",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(saved["created_at"])),
            saved["id"],
        )
    console.print(table)


@app.command("export")
def map_export(
    wanted: Annotated[
        str, typer.Argument(metavar="NAME", help="name, id, or the beginning of an id")
    ],
    path: Annotated[Path, typer.Argument(metavar="FILE.zip", help="to write; yaml, pgm and ply")],
    force: Annotated[bool, typer.Option("--force", help="write over a file that is there")] = False,
) -> None:
    """Write a saved map to a zip for ROS and others: rhino map export office office.zip."""
    if path.exists() and not force:
        raise RhinoError(f"{path} is there already.", "Choose another name, or add --force.")
    found = _find_map(wanted)
    archive = call("GET", f"/api/maps/{found['id']}/export", timeout=MAP_TIMEOUT_S)
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(archive)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RhinoError(f"{path} cannot be written: {error}.", "Look at its folder.") from error
    console.print(f"wrote {path}, {len(archive) / 1000:.0f} kB", markup=False, highlight=False)


@app.command("import")
def map_import(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="a zip, or the .yaml of a ROS map")],
    name: Annotated[str | None, typer.Option(help="for the map; default: the file's")] = None,
) -> None:
    """Keep a map that was made elsewhere.

    Examples:  rhino map import office.zip  ·  rhino map import ~/maps/office.yaml --name lab
    """
    archive = _map_archive(path)
    saved = call(
        "POST",
        "/api/maps/import",
        content=archive,
        query={"name": name or path.stem},
        timeout=MAP_TIMEOUT_S,
    )
    console.print(f"imported {saved['name']}: {_extent(saved)}", markup=False, highlight=False)


@app.command("rename")
def map_rename(
    wanted: Annotated[
        str, typer.Argument(metavar="NAME", help="name, id, or the beginning of an id")
    ],
    name: Annotated[str, typer.Argument(help="the new name")],
) -> None:
    """Give a saved map another name: rhino map rename office "office, 2nd floor"."""
    found = _find_map(wanted)
    call("PATCH", f"/api/maps/{found['id']}", {"name": name})
    console.print(f"{found['name']} is now {name}", markup=False, highlight=False)


@app.command("delete")
def map_delete(
    wanted: Annotated[
        str, typer.Argument(metavar="NAME", help="name, id, or the beginning of an id")
    ],
    force: Annotated[bool, typer.Option("--force", help="delete its places too")] = False,
) -> None:
    """Delete a saved map. Its places go over to another map of the same coordinates, if there is one."""
    found = _find_map(wanted)
    call("DELETE", f"/api/maps/{found['id']}" + ("?force=true" if force else ""))
    console.print(f"deleted {found['name']}", markup=False, highlight=False)


def _find_map(wanted: str) -> dict[str, Any]:
    """Return the one saved map of a name, an id or the beginning of one. Raises MapNotFound."""
    maps: list[dict[str, Any]] = call("GET", "/api/maps")
    found = [m for m in maps if wanted in (m["name"], m["id"])]
    found = found or [m for m in maps if m["name"].casefold() == wanted.casefold()]
    found = found or [m for m in maps if wanted and m["id"].startswith(wanted)]
    if len(found) == 1:
        return found[0]
    many = "Several saved maps fit" if found else "There is no saved map"
    names = ", ".join(m["name"] for m in maps[:10]) or "none"
    raise MapNotFound(
        f"{many} {wanted!r}.", f"Saved maps: {names}. rhino map list shows their ids."
    )


def _extent(saved: dict[str, Any]) -> str:
    width, height = (saved[side] * saved["resolution"] for side in ("width", "height"))
    voxels = f", {saved['voxels']} voxels" if saved["voxels"] else ""
    return f"{width:.1f} x {height:.1f} m, {saved['known_area']:.1f} m2 known{voxels}, id {saved['id']}"


def _map_archive(path: Path) -> bytes:
    """Return a map as the zip to upload: the file, or a yaml with its image. Raises MapFileInvalid, MapTooLarge."""
    # Imported here: numba takes half a second, and `rhino stop` must not wait for it.
    from rhino_actors.mapping import encode_files, load_map, pack_zip

    if path.suffix.lower() in (".yaml", ".yml"):
        occupancy, geometry = load_map(path)
        return pack_zip(encode_files(MapContent(geometry, occupancy)))
    try:
        if not path.is_file():
            raise MapFileInvalid(f"There is no file {path}.")
        if path.stat().st_size > MAX_UPLOAD_BYTES:
            raise MapTooLarge(f"{path} is larger than {MAX_UPLOAD_BYTES // 1_000_000} MB.")
        return path.read_bytes()
    except OSError as error:
        raise MapFileInvalid(f"{path} cannot be read: {error}.") from error
