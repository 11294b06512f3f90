"""rhino explore, patrol, missions: what the robot does by itself, and the log of it."""

import time
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from rhino_actors.cli import places
from rhino_actors.cli.api import call, console
from rhino_actors.errors import InvalidRequest, MissionNotFound, NotRunning, StorageError

app = typer.Typer()

POLL_S = 0.5
SILENCE_S = 15.0  # of the API, before the watch gives up
WELL_ENDED = ("complete", "time_limit")  # a limit that was asked for is no failure

Area = Annotated[
    list[str] | None,
    typer.Option(help="corner x,y [m] of the area to keep to; once for each, at least three"),
]
MaxTime = Annotated[float | None, typer.Option(help="[s] of running, after which it ends")]
MaxDistance = Annotated[float | None, typer.Option(help="[m] driven, after which it ends")]
MinBattery = Annotated[float | None, typer.Option(help="[%] charge at which it ends")]
ReturnHome = Annotated[
    bool, typer.Option("--return-home", help="drive back to where it started before it ends")
]
Detach = Annotated[bool, typer.Option("--detach", help="return at once; it goes on")]
End = Annotated[bool, typer.Option("--stop", help="end the mission; the robot stands")]
Pause = Annotated[bool, typer.Option("--pause", help="have the robot stand until --resume")]
Resume = Annotated[bool, typer.Option("--resume", help="go on after --pause, or a take-over")]


@app.command()
def explore(
    area: Area = None,
    max_time: MaxTime = None,
    max_distance: MaxDistance = None,
    min_battery: MinBattery = None,
    return_home: ReturnHome = False,
    detach: Detach = False,
    end: End = False,
    pause: Pause = False,
    resume: Resume = False,
) -> None:
    """Explore until nothing is left to see, and show how it goes. Ctrl-C ends it, and the robot stands.

    Examples:  rhino explore  ·  rhino explore --max-time 600 --return-home  ·  rhino explore --detach  ·
    rhino explore --area -2,-2 --area 4,-2 --area 4,3  ·  rhino explore --stop
    """
    if _acts("explore", end, pause, resume):
        return
    body = _limits(area, max_time, max_distance, min_battery, return_home)
    _start("explore", body, detach)


@app.command(context_settings={"ignore_unknown_options": True})
def patrol(
    points: Annotated[
        list[str] | None,
        typer.Argument(help="places by label or id, or points x,y or x,y,yaw [m, rad], in order"),
    ] = None,
    router: Annotated[str | None, typer.Option(help="coverage, random, frontier or points")] = None,
    loops: Annotated[int | None, typer.Option(help="rounds; default: until it is stopped")] = None,
    dwell: Annotated[float, typer.Option(help="[s] to stand at each goal")] = 0.0,
    expiry: Annotated[
        float | None, typer.Option(help="[s] after which a place counts as unvisited")
    ] = None,
    area: Area = None,
    max_time: MaxTime = None,
    max_distance: MaxDistance = None,
    min_battery: MinBattery = None,
    return_home: ReturnHome = False,
    detach: Detach = False,
    end: End = False,
    pause: Pause = False,
    resume: Resume = False,
) -> None:
    """Patrol the known floor, or the given points, and show how it goes. Ctrl-C ends it, and the robot stands.

    Examples:  rhino patrol  ·  rhino patrol kitchen door 2,1 --loops 3 --dwell 5  ·  rhino patrol --pause
    """
    if _acts("patrol", end, pause, resume):
        return
    body = _limits(area, max_time, max_distance, min_battery, return_home)
    given = {"loops": loops, "expiry": expiry}
    body |= {key: value for key, value in given.items() if value is not None}
    body |= {"router": router or ("points" if points else "coverage"), "dwell": dwell}
    if points:
        body["points"] = [_point(word) for word in points]
    _start("patrol", body, detach)


@app.command()
def missions(
    mission: Annotated[
        str | None, typer.Argument(metavar="ID", help="id of a mission, or its beginning")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="write its picture, PNG, here")] = None,
    delete: Annotated[bool, typer.Option("--delete", help="take it out of the log")] = False,
    limit: Annotated[int, typer.Option(help="how many to list, the newest first")] = 20,
) -> None:
    """List the missions that the robot did, or show one of them.

    Examples:  rhino missions  ·  rhino missions 3f2a  ·  rhino missions 3f2a --picture way.png
    """
    if mission is None:
        if picture is not None or delete:
            raise InvalidRequest("Of which mission?", "Give its id: rhino missions lists them.")
        _list(limit)
        return
    found = _find(mission)
    route = f"/api/missions/{found['id']}"
    if delete:
        call("DELETE", route)
        console.print(f"deleted {found['id']}")
    elif picture is not None:
        png = call("GET", f"{route}/picture")
        try:
            picture.write_bytes(png)
        except OSError as error:
            raise StorageError(
                f"{picture} cannot be written: {error.strerror}.", "Choose another file."
            ) from error
        console.print(f"written: {picture}", markup=False, soft_wrap=True)
    else:
        _show(call("GET", route))


def _acts(kind: str, end: bool, pause: bool, resume: bool) -> bool:
    """Carry out --stop, --pause or --resume; return False when none was given."""
    actions = [
        name for name, given in (("stop", end), ("pause", pause), ("resume", resume)) if given
    ]
    if len(actions) > 1:
        raise InvalidRequest("Only one of --stop, --pause and --resume can be done.", "Choose one.")
    for action in actions:
        answer = call("POST", f"/api/{kind}/{action}", {})
        text = f"{answer['kind']}: {answer['state']} {answer['message']}".strip()
        console.print(text, markup=False, highlight=False)
    return bool(actions)


def _limits(
    area: list[str] | None,
    max_time: float | None,
    max_distance: float | None,
    min_battery: float | None,
    return_home: bool,
) -> dict[str, Any]:
    given = {"max_time": max_time, "max_distance": max_distance, "min_battery": min_battery}
    body: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if area:
        body["area"] = [_numbers(corner, 2) for corner in area]
    return body | ({"return_home": True} if return_home else {})


def _numbers(word: str, *counts: int) -> list[float]:
    try:
        numbers = [float(part) for part in word.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) not in counts:
        raise InvalidRequest(f"{word!r} is not x,y.", "For example: 2,1 or -1.5,0.")
    return numbers


def _point(word: str) -> dict[str, float] | str:
    """Return a point of a patrol as the API takes it: coordinates, or a place's id. Raises PoiNotFound."""
    try:
        return dict(zip(("x", "y", "yaw"), _numbers(word, 2, 3), strict=False))
    except InvalidRequest:
        return str(places._find_poi(word)["id"])


def _start(kind: str, body: dict[str, Any], detach: bool) -> None:
    mission = call("POST", f"/api/{kind}/start", body)
    for left in mission["skipped"]:
        console.print(f"skipped {_name(left)}: {left['reason']}", markup=False, highlight=False)
    if detach:
        console.print(
            f"{kind}: {mission['state']}, id {mission['id']}; rhino {kind} --stop ends it"
        )
        return
    try:
        mission = _watch(mission)
    except KeyboardInterrupt:
        call("POST", f"/api/{kind}/stop", {})
        console.print(f"{kind}: ended, the robot stands")
        raise typer.Exit(130) from None
    text = f"{kind}: {mission['state']}. {mission['message']}"
    console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(f"{_figures(mission)}; rhino missions {mission['id'][:8]}", highlight=False)
    raise typer.Exit(0 if mission["state"] in WELL_ENDED else 1)


def _watch(mission: dict[str, Any]) -> dict[str, Any]:
    """Show how a mission goes until it ends; return it as it ended. A paused one is waited for."""
    started, heard = mission, time.monotonic()
    with Progress(
        TextColumn("{task.fields[what]}", markup=False),
        BarColumn(30),
        TextColumn("{task.fields[figures]}", markup=False),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("", total=1.0, what="", figures="")
        while mission["state"] in ("running", "paused_by_user"):
            share = _share(mission)
            progress.update(
                task,
                total=None if share is None else 1.0,
                completed=share or 0.0,
                what=_what(mission),
                figures=_figures(mission),
            )
            time.sleep(POLL_S)
            try:
                newest = call("GET", "/api/state")["mission"]
            except NotRunning:
                newest = None
                if time.monotonic() - heard > SILENCE_S:
                    raise
            if newest is not None:
                heard = time.monotonic()
                if newest["id"] not in ("", started["id"]):
                    break  # another mission runs by now
                mission = newest
    return mission


def _share(mission: dict[str, Any]) -> float | None:
    patrol = mission["patrol"]
    share: float | None = patrol["share_visited"] if patrol else mission["explored_share"]
    return share


def _what(mission: dict[str, Any]) -> str:
    phase = "paused" if mission["state"] == "paused_by_user" else mission["phase"]
    return f"{phase}: {mission['message']}"[:70]


def _figures(mission: dict[str, Any]) -> str:
    parts = [f"{mission['known_area']:.1f} m2"]
    share = _share(mission)
    if share is not None:
        parts.append(f"{100.0 * share:.0f} %")
    parts += [f"{mission['distance']:.1f} m", f"{mission['elapsed'] / 60.0:.1f} min"]
    if mission.get("eta") is not None:
        parts.append(f"ETA {mission['eta'] / 60.0:.1f} min")
    if mission["patrol"]:
        parts.append(f"worst idleness {mission['patrol']['worst_idleness'] / 60.0:.1f} min")
    return ", ".join(parts)


def _list(limit: int) -> None:
    table = Table("id", "kind", "began", "ended as", "min", "m", "m2", "goals", "failed")
    for one in call("GET", "/api/missions", query={"limit": str(limit)}):
        ended_as = one["state"] + (f" {one['reason']}" if one["reason"] else "")
        table.add_row(
            one["id"][:8],
            one["kind"],
            _when(one["started_at"]),
            ended_as,
            f"{one['elapsed'] / 60.0:.1f}",
            f"{one['distance']:.1f}",
            f"{one['known_area']:.1f}",
            str(one["goals_reached"]),
            str(one["goals_failed"]),
        )
    console.print(table)


def _show(mission: dict[str, Any]) -> None:
    ended = _when(mission["ended_at"]) if mission["ended_at"] is not None else "it runs"
    lines = (
        f"{mission['kind']} {mission['id']}, started by {mission['client']}",
        f"{_when(mission['started_at'])} to {ended}: {mission['state']} {mission['reason']}",
        mission["message"],
        _figures(mission),
        *(f"skipped {_name(left)}: {left['reason']}" for left in mission["skipped"]),
    )
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    table = Table("at (s)", "x (m)", "y (m)", "label", "outcome", "driven (m)")
    for goal in mission["goals"]:
        table.add_row(
            f"{goal['started']:.0f}-{goal['ended']:.0f}",
            f"{goal['x']:.2f}",
            f"{goal['y']:.2f}",
            Text(goal["label"]),
            f"{goal['outcome']} {goal['reason']}".strip(),
            f"{goal['distance']:.1f}",
        )
    console.print(table)


def _find(wanted: str) -> dict[str, Any]:
    """Return the one mission of an id or the beginning of one. Raises MissionNotFound."""
    listed: list[dict[str, Any]] = call("GET", "/api/missions", query={"limit": "1000"})
    found = [one for one in listed if wanted and one["id"].startswith(wanted)]
    if len(found) == 1:
        return found[0]
    many = "Several missions begin with" if found else "There is no mission"
    raise MissionNotFound(f"{many} {wanted!r}.", "rhino missions lists them with their ids.")


def _name(left: dict[str, Any]) -> str:
    return str(left["label"]) or f"({left['x']:.2f}, {left['y']:.2f})"


def _when(stamp: float) -> str:
    return datetime.fromtimestamp(stamp).strftime("%Y-%m-%d %H:%M:%S")
