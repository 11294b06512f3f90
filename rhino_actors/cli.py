"""The `rhino` command. `deploy` runs a deployment; the others speak to it through its REST API."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import httpx2
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rhino_actors.config import load_config, token_path
from rhino_actors.errors import (
    DeployError,
    InvalidRequest,
    MapFileInvalid,
    MapNotFound,
    MapTooLarge,
    NotRunning,
    PoiNotFound,
    RhinoError,
)
from rhino_actors.main import deploy
from rhino_actors.messages.maps import MapContent
from rhino_actors.messages.navigation import MissionStatus, NavStatus
from rhino_actors.messages.platform import RobotStatus
from rhino_actors.ray_cluster import prepare_ray_environment
from rhino_actors.robot_commands import register
from rhino_actors.run_record import (
    RunRecord,
    check_nothing_runs,
    log_path,
    set_up_logging,
    stop_deployment,
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Navigation for the Unitree Go2: map, plan, explore, in simulation and on the robot.",
    epilog="First steps: `rhino deploy sim`, then `rhino goto 2 1`, `rhino explore`, `rhino stop`.",
)
poi_app = typer.Typer(no_args_is_help=True, help="Points of interest: named places.")
app.add_typer(poi_app, name="poi")
map_app = typer.Typer(
    no_args_is_help=True, help="Maps that are kept: save, load, move to ROS and back."
)
app.add_typer(map_app, name="map")
fault_app = typer.Typer(no_args_is_help=True, help="Faults of the simulation, on demand.")
app.add_typer(fault_app, name="fault")
register(app)
console = Console()
errors = Console(stderr=True)

CLIENT_NAME = "cli"
DETACH_TIMEOUT_S = 180.0
PLAIN_SIMULATION = {"mujoco.base": "kinematic", "mujoco.lidar": "scan", "mujoco.drift": "off"}
MAX_UPLOAD_BYTES = 64_000_000  # what the API takes
MAP_TIMEOUT_S = 90.0  # a large map takes its time to be packed and sent
# Ray names a worker's log after nothing that a person knows; its first lines hold the actor's class.
ACTOR_CLASSES = {
    "platform": "PlatformActor",
    "mapper": "MapperActor",
    "planner": "PlannerActor",
    "explorer": "ExplorerActor",
    "viewer": "ViewerActor",
    "poi_store": "PoiStore",
}


@app.command("deploy")
def deploy_command(
    source: Annotated[str, typer.Argument(help="sim, go2, or the path of a configuration.yaml")],
    robot_ip: Annotated[
        str | None, typer.Option(help="address of the Go2; rhino discover finds it")
    ] = None,
    world: Annotated[str | None, typer.Option(help="scene, or the .yaml of a ROS map")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the scene")] = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="a gliding base, a scan lidar and exact odometry, not the Go2's own"
        ),
    ] = False,
    speed: Annotated[
        float | None, typer.Option(help="simulated seconds per second; 1 is real time")
    ] = None,
    explore: Annotated[bool, typer.Option("--explore", help="explore at once")] = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="go to the background once the API is served")
    ] = False,
    lean: Annotated[bool, typer.Option("--lean", help="without Ray's dashboard")] = False,
    address: Annotated[
        str | None,
        typer.Option(help="Ray cluster to join, host:port; default: that of `ray start`"),
    ] = None,
) -> None:
    """Start everything; Ctrl-C stops the robot, then all.

    Examples:  rhino deploy sim --explore  ·  rhino deploy go2 --robot-ip 192.168.12.1  ·  rhino deploy my.yaml
    """
    overrides: dict[str, Any] = {
        "go2.robot_ip": robot_ip,
        "go2.aes_key": os.environ.get("RHINO_GO2_AES_KEY"),
        "mujoco.world": _world(world),
        "mujoco.seed": seed,
        "mujoco.speed": speed,
        **(PLAIN_SIMULATION if plain else {}),
        "ray.address": address,
    }
    config = load_config(source, {k: v for k, v in overrides.items() if v is not None})
    if detach:
        _deploy_detached()
        return
    check_nothing_runs()  # before the log of the one that runs is begun anew
    prepare_ray_environment()
    set_up_logging(to_terminal=True)
    screen = _Screen()
    console.print(f"rhino: starting {config.driver} ({config.robot.name}) ...")
    with screen:
        deploy(config, lean=lean, explore=explore, announce=screen.announce, show=screen.show)
    console.print("rhino: the robot is stopped, everything has ended.")


def _world(name: str | None) -> str | None:
    """Return the scene's name, or a map's path as it is found from any folder: actors run in others."""
    if name is not None and Path(name).suffix in (".yaml", ".yml"):
        return str(Path(name).expanduser().resolve())
    return name


def _deploy_detached() -> None:
    """Run the same command without --detach in a session of its own, and wait until it serves."""
    check_nothing_runs()  # before the output of the one that runs is begun anew
    arguments = [word for word in sys.argv[1:] if word != "--detach"]
    output = log_path().with_name("deploy.out")
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("w") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "rhino_actors.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + DETACH_TIMEOUT_S
    while time.monotonic() < deadline:
        record = RunRecord.load()
        if record and record.ready and record.pid == child.pid:
            console.print(f"rhino runs: {record.url}", soft_wrap=True)
            _print_notice(record)
            return
        if child.poll() is not None:
            errors.print(output.read_text().strip(), markup=False)
            raise typer.Exit(child.returncode or 1)
        time.sleep(0.1)
    child.terminate()
    child.wait(60.0)
    raise DeployError(f"It was not served within {DETACH_TIMEOUT_S:.0f} s; see {log_path()}.")


def _print_notice(record: RunRecord) -> None:
    if record.notice:
        console.print(record.notice, style="bold yellow", markup=False, soft_wrap=True)


class _Screen:
    """What a foreground deployment shows: addresses once, then one live line."""

    def __init__(self) -> None:
        self._live = Live(Text(""), console=console, refresh_per_second=2, transient=True)
        self._is_terminal = console.is_terminal
        self._shown = 0.0

    def __enter__(self) -> "_Screen":
        if self._is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal:
            self._live.stop()

    def announce(self, record: RunRecord) -> None:
        table = Table.grid(padding=(0, 2))
        for name, value in (
            ("dashboard", record.url),
            ("API", f"{record.url}/openapi.json"),
            ("MCP", record.mcp),
            ("Ray dashboard", _ray_dashboard_line(record)),
            ("Rerun", _rerun_line(record)),
            ("log", record.log),
        ):
            table.add_row(name, Text(value, no_wrap=True, overflow="ignore"))
        console.print(table, soft_wrap=True)
        _print_notice(record)
        console.print("Ctrl-C stops the robot, then everything.", highlight=False)

    def show(
        self,
        robot: RobotStatus | None,
        nav: NavStatus | None,
        mission: MissionStatus | None,
        area: float,
    ) -> None:
        line = status_line(robot, nav, mission, area)
        if self._is_terminal:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif time.monotonic() - self._shown > 10.0:
            self._shown = time.monotonic()
            print(line, flush=True)


def _rerun_line(record: RunRecord) -> str:
    return " or ".join(address for address in (record.rerun_web, record.rerun) if address) or "off"


def _ray_dashboard_line(record: RunRecord) -> str:
    if not record.ray_dashboard:
        return "off"
    token = os.environ.get("RAY_AUTH_MODE") == "token"
    ray = os.path.relpath(Path(sys.executable).with_name("ray"))
    return record.ray_dashboard + (f" (it asks for: {ray} get-auth-token)" if token else "")


def status_line(
    robot: RobotStatus | None, nav: NavStatus | None, mission: MissionStatus | None, area: float
) -> str:
    """Return one line of text: pose, map area, goal, rates."""
    if robot is None:
        return "the platform does not answer"
    pose = robot.odometry.pose if robot.odometry else None
    parts = [
        f"x {pose.x:+.2f} y {pose.y:+.2f} yaw {pose.yaw:+.2f}" if pose else "no odometry",
        f"map {area:.1f} m2",
    ]
    if robot.gate.latched:
        parts.append(f"E-STOP by {robot.gate.latched_by}")
    if nav and nav.state.is_active and nav.requested:
        goal = nav.adjusted or nav.requested
        parts.append(
            f"{nav.state} ({goal.x:.1f}, {goal.y:.1f}), {nav.distance_remaining:.1f} m left"
        )
    elif nav and nav.goal_id:
        parts.append(f"goal {nav.goal_id} {nav.state}{f' {nav.reason}' if nav.reason else ''}")
    if mission and mission.state != "idle":
        parts.append(f"{mission.kind} {mission.state}")
    parts.append(
        f"odom {robot.odometry_rate:.0f} lidar {robot.lidar_rate:.1f}"
        f" camera {robot.camera_rate:.0f} control {robot.control_rate:.0f} Hz"
    )
    return " | ".join(parts)


@app.command()
def status(
    as_json: Annotated[bool, typer.Option("--json", help="print the API's state as JSON")] = False,
) -> None:
    """Show what runs, where, and what the robot does."""
    record = _record()
    state = _call("GET", "/api/state")
    if as_json:
        print(json.dumps(state, indent=2))
        return
    table = Table.grid(padding=(0, 2))
    uptime = timedelta(seconds=round(time.time() - record.started)) if record else "?"
    if record:
        table.add_row(
            "rhino", f"{record.robot} ({record.driver}), up {uptime}, process {record.pid}"
        )
        table.add_row("API", record.url)
        table.add_row("Ray dashboard", record.ray_dashboard or "off")
        table.add_row("Rerun", _rerun_line(record))
    for name, value in _state_rows(state):
        table.add_row(name, value)
    console.print(table, soft_wrap=True, highlight=False)


def _state_rows(state: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows of the status; what a restarting part should say is left out, and the part is named."""
    rows = []
    pose, gate, nav = state["pose"], state["gate"], state["nav"]
    mission, ages = state["mission"], state["ages"]
    if gate and gate["latched"]:
        rows.append(("E-STOP", f"latched by {gate['latched_by']}; rhino estop --clear"))
    if state["unavailable"]:
        rows.append(("restarting", ", ".join(state["unavailable"])))
    if pose:
        rows.append(
            ("pose", f"x {pose['x']:.2f} y {pose['y']:.2f} m, yaw {pose['yaw']:.2f} rad in the map")
        )
    localisation = state["localisation"]
    if localisation and localisation["sentence"]:
        rows.append(("place", localisation["sentence"]))
    if gate:
        rows.append(("drives", gate["holder"] or "nobody"))
    if nav:
        left = f", {nav['distance_remaining']:.1f} m left" if nav["state"] == "following" else ""
        rows.append(("goal", f"{nav['state']} {nav['reason']}".strip() + left))
    if mission:
        rows.append(("mission", f"{mission['state']} {mission['reason']}".strip()))
    if ages:
        seen = [f"{name} {age:.2f} s old" for name, age in ages.items() if age is not None]
        rows.append(("sensors", ", ".join(seen) or "nothing came yet"))
    status = state["status"]
    if status:
        rows.append(("robot", f"{status['posture']}, battery {status['battery']:.0f} %"))
        rows.append(("camera", status["camera"]))
        rows.extend(("fault", fault) for fault in status["faults"])
    return rows


@app.command()
def down() -> None:
    """Stop the robot, then everything that deploy started. Nothing to stop is no error."""
    if stop_deployment():
        console.print("rhino: the robot is stopped, everything has ended.")
    else:
        console.print("rhino: nothing runs.")


@app.command()
def logs(
    actor: Annotated[
        str | None, typer.Argument(help="an actor (platform, mapper, ...); default: the deployment")
    ] = None,
    lines: Annotated[int, typer.Option("-n", help="lines from the end", min=1)] = 50,
    follow: Annotated[bool, typer.Option("-f", help="keep printing; Ctrl-C ends")] = False,
) -> None:
    """Print the log of the deployment, or of one actor.

    Examples:  rhino logs  ·  rhino logs platform -n 200  ·  rhino logs -f
    """
    path = _actor_log(actor) if actor else log_path()
    if not path.is_file():
        raise NotRunning(f"There is no log at {path}.")
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file.readlines()[-lines:]:
            print(line, end="")
        try:
            while follow:
                line = file.readline()
                if line:
                    print(line, end="", flush=True)
                else:
                    time.sleep(0.2)
        except KeyboardInterrupt:
            return


def _actor_log(actor: str) -> Path:
    record = _record()
    if record is None or not record.ray_session:
        raise NotRunning()
    if actor not in ACTOR_CLASSES:
        raise RhinoError(f"There is no actor {actor!r}.", f"Actors: {', '.join(ACTOR_CLASSES)}.")
    marker = f":actor_name:{ACTOR_CLASSES[actor]}"
    folder = Path(record.ray_session) / "logs"
    for path in sorted(folder.glob("worker-*.err"), key=lambda p: p.stat().st_mtime, reverse=True):
        with path.open(encoding="utf-8", errors="replace") as file:
            head = [file.readline().strip() for _ in range(4)]
        if marker in head:
            return path
    raise RhinoError(
        f"No log of {actor} is in {folder}.", "It may run on another node: look there."
    )


@app.command(context_settings={"ignore_unknown_options": True})
def goto(
    x: Annotated[float, typer.Argument(help="[m] in odom")],
    y: Annotated[float, typer.Argument(help="[m] in odom")],
    yaw: Annotated[float | None, typer.Option(help="final heading [rad]")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="wait until the goal ends")] = False,
) -> None:
    """Send the robot to a point.

    Examples:  rhino goto 2 1  ·  rhino goto -1.5 0 --yaw 1.57 --wait
    """
    body = {"x": x, "y": y} | ({} if yaw is None else {"yaw": yaw})
    answer = _call("POST", "/api/navigate", body)
    target = answer.get("adjusted") or answer["requested"]
    console.print(f"goal {answer['goal_id']}: going to ({target['x']:.2f}, {target['y']:.2f})")
    moved = math.hypot(target["x"] - x, target["y"] - y)
    if moved > 0.01:
        console.print(f"moved {moved:.2f} m: the point itself is in an obstacle or too near one")
    while wait:
        nav = _call("GET", "/api/navigate/status")
        if nav["goal_id"] != answer["goal_id"] or nav["state"] in (
            "arrived",
            "failed",
            "cancelled",
        ):
            console.print(f"{nav['state']} {nav.get('message') or ''}".strip(), highlight=False)
            raise typer.Exit(0 if nav["state"] == "arrived" else 1)
        time.sleep(0.3)


@app.command()
def explore(
    end: Annotated[bool, typer.Option("--stop", help="end exploring")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="go on after someone took over")] = False,
) -> None:
    """Explore until nothing is left to see.

    Examples:  rhino explore  ·  rhino explore --stop
    """
    action = "stop" if end else "resume" if resume else "start"
    answer = _call("POST", f"/api/explore/{action}", {})
    console.print(f"explore: {answer['state']} {answer.get('message') or ''}".strip())


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
        _call("POST", "/api/estop/clear", {})
        console.print("cleared; nothing resumes, and the robot lies: rhino cmd StandUp")
        return
    _stop_or_signal("/api/estop", signal.SIGUSR2)
    console.print("E-STOP is latched")


def _stop_or_signal(route: str, name: signal.Signals) -> None:
    """Stop by the API; if it does not answer at once, tell the deployment's process directly."""
    try:
        _call("POST", route, {}, timeout=2.0)
    except NotRunning:
        record = _record()
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
    answer = _call("POST", f"/api/cmd/{command}", _numbers(numbers or []))
    done = "".join(f" {key}={value:g}" for key, value in answer["parameters"].items())
    console.print(
        f"{answer['command']}{done}: accepted"
        + (f", {answer['message']}" if answer["message"] else "")
    )


def _numbers(words: list[str]) -> dict[str, float]:
    """Read words of the form key=number. Raises InvalidRequest."""
    numbers: dict[str, float] = {}
    for word in words:
        key, equals, number = word.partition("=")
        try:
            numbers[key] = float(number)
        except ValueError:
            equals = ""
        if not equals or not math.isfinite(numbers[key]):
            raise InvalidRequest(f"{word!r} is not key=number.", "For example: roll=0.2.")
    return numbers


@fault_app.command("list")
def fault_list() -> None:
    """List what is wrong on purpose, and what could be."""
    answer = _call("GET", "/api/sim/faults")
    _print_faults(answer["faults"])
    table = Table("fault", "does", "numbers (default), and after= and duration= [s]")
    for kind in answer["kinds"]:
        numbers = [
            f"{number['name']} {number['low']:g} to {number['high']:g}"
            + (f" {number['unit']}" if number["unit"] else "")
            + (f" ({number['default']:g})" if number["default"] is not None else "")
            for number in kind["numbers"]
        ]
        needs = "; needs base: walking" if kind["needs_walking"] else ""
        table.add_row(kind["name"], Text(kind["does"] + needs), Text(", ".join(numbers)))
    console.print(table)


@fault_app.command("add")
def fault_add(
    name: Annotated[str, typer.Argument(help="drop_lidar, push, ...: rhino fault list")],
    numbers: Annotated[
        list[str] | None, typer.Argument(help="key=number of this fault; after=, duration= [s]")
    ] = None,
) -> None:
    """Let something go wrong in the simulation.

    Examples:  rhino fault add drop_lidar share=0.3 duration=10  ·  rhino fault add push x=-20 after=2
    """
    values = _numbers(numbers or [])
    times: dict[str, Any] = {key: values.pop(key) for key in ("after", "duration") if key in values}
    body = {"name": name, "values": values, **times}
    answer = _call("POST", "/api/sim/faults", body)
    _print_faults(answer["faults"])


@fault_app.command("clear")
def fault_clear(
    name: Annotated[str | None, typer.Argument(help="only this fault; default: all")] = None,
) -> None:
    """End faults: rhino fault clear, or rhino fault clear drop_lidar."""
    answer = _call("DELETE", "/api/sim/faults" + (f"/{name}" if name else ""))
    _print_faults(answer["faults"])


def _print_faults(faults: list[dict[str, Any]]) -> None:
    if not faults:
        console.print("nothing is wrong on purpose")
    for fault in faults:
        numbers = "".join(f" {key}={value:g}" for key, value in fault["values"].items())
        start = f", begins in {fault['starts_in']:.1f} s" if fault["starts_in"] > 0.0 else ""
        end = "" if fault["ends_in"] is None else f", ends in {fault['ends_in']:.1f} s"
        console.print(f"fault {fault['name']}{numbers}{start}{end}", highlight=False)


@poi_app.command("list")
def poi_list() -> None:
    """List the points of interest."""
    table = Table("label", "x [m]", "y [m]", "id")
    for poi in _call("GET", "/api/pois"):
        table.add_row(Text(poi["label"]), f"{poi['x']:.2f}", f"{poi['y']:.2f}", poi["id"])
    console.print(table)


@poi_app.command("add", context_settings={"ignore_unknown_options": True})
def poi_add(
    label: str,
    x: Annotated[float | None, typer.Argument(help="[m]; default: where the robot is")] = None,
    y: Annotated[float | None, typer.Argument(help="[m]")] = None,
) -> None:
    """Name a place: rhino poi add kitchen, or rhino poi add door 3.5 1."""
    body: dict[str, Any] = {"label": label}
    if x is not None and y is not None:
        body |= {"x": x, "y": y}
    print(_call("POST", "/api/pois", body)["id"])


@poi_app.command("go")
def poi_go(
    poi: Annotated[str, typer.Argument(help="label, id, or the beginning of an id")],
) -> None:
    """Send the robot to a point of interest: rhino poi go kitchen."""
    found = _find_poi(poi)
    answer = _call("POST", f"/api/pois/{found['id']}/navigate", {})
    console.print(f"goal {answer['goal_id']}: going to {found['label']}", markup=False)


@poi_app.command("delete")
def poi_delete(
    poi: Annotated[str, typer.Argument(help="label, id, or the beginning of an id")],
) -> None:
    """Delete a point of interest."""
    found = _find_poi(poi)
    _call("DELETE", f"/api/pois/{found['id']}")
    console.print(f"deleted {found['label']}", markup=False)


def _find_poi(wanted: str) -> dict[str, Any]:
    """Return the one point of interest of a label or the beginning of an id. Raises PoiNotFound."""
    pois: list[dict[str, Any]] = _call("GET", "/api/pois")
    found = [p for p in pois if p["label"] == wanted]
    found = found or [p for p in pois if p["id"].startswith(wanted)]
    if len(found) == 1:
        return found[0]
    many = "Several points of interest are" if found else "There is no point of interest"
    raise PoiNotFound(f"{many} {wanted!r}.", "rhino poi list shows all of them with their ids.")


@map_app.command("save")
def map_save(name: Annotated[str, typer.Argument(help="1 to 200 characters")]) -> None:
    """Keep the map as it is now: rhino map save office."""
    saved = _call("POST", "/api/maps", {"name": name}, timeout=MAP_TIMEOUT_S)
    console.print(f"saved {saved['name']}: {_extent(saved)}", markup=False, highlight=False)


@map_app.command("load", context_settings={"ignore_unknown_options": True})
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
    answer = _call("POST", f"/api/maps/{found['id']}/load", body, timeout=MAP_TIMEOUT_S)
    console.print(f"loaded {found['name']}; the robot stands", markup=False, highlight=False)
    if not answer["is_placed"]:
        console.print(
            "Its place on the map was not given: it looks for it everywhere. Drive or turn it until it knows"
            " (rhino status), or: rhino map load NAME --at X Y YAW.",
            soft_wrap=True,
            highlight=False,
        )


@map_app.command("list")
def map_list() -> None:
    """List the saved maps; * marks those whose coordinates the running map has."""
    table = Table("", "name", "known [m2]", "cell [m]", "saved", "id")
    for saved in _call("GET", "/api/maps"):
        table.add_row(
            "*" if saved["in_force"] else "",
            Text(saved["name"]),
            f"{saved['known_area']:.1f}",
            f"{saved['resolution']:g}",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(saved["created_at"])),
            saved["id"],
        )
    console.print(table)


@map_app.command("export")
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
    archive = _call("GET", f"/api/maps/{found['id']}/export", timeout=MAP_TIMEOUT_S)
    partial = path.with_name(path.name + ".part")
    try:
        partial.write_bytes(archive)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RhinoError(f"{path} cannot be written: {error}.", "Look at its folder.") from error
    console.print(f"wrote {path}, {len(archive) / 1000:.0f} kB", markup=False, highlight=False)


@map_app.command("import")
def map_import(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="a zip, or the .yaml of a ROS map")],
    name: Annotated[str | None, typer.Option(help="for the map; default: the file's")] = None,
) -> None:
    """Keep a map that was made elsewhere.

    Examples:  rhino map import office.zip  ·  rhino map import ~/maps/office.yaml --name lab
    """
    archive = _map_archive(path)
    saved = _call(
        "POST",
        "/api/maps/import",
        content=archive,
        query={"name": name or path.stem},
        timeout=MAP_TIMEOUT_S,
    )
    console.print(f"imported {saved['name']}: {_extent(saved)}", markup=False, highlight=False)


@map_app.command("rename")
def map_rename(
    wanted: Annotated[
        str, typer.Argument(metavar="NAME", help="name, id, or the beginning of an id")
    ],
    name: Annotated[str, typer.Argument(help="the new name")],
) -> None:
    """Give a saved map another name: rhino map rename office "office, 2nd floor"."""
    found = _find_map(wanted)
    _call("PATCH", f"/api/maps/{found['id']}", {"name": name})
    console.print(f"{found['name']} is now {name}", markup=False, highlight=False)


@map_app.command("delete")
def map_delete(
    wanted: Annotated[
        str, typer.Argument(metavar="NAME", help="name, id, or the beginning of an id")
    ],
    force: Annotated[bool, typer.Option("--force", help="delete its places too")] = False,
) -> None:
    """Delete a saved map. Its places go over to another map of the same coordinates, if there is one."""
    found = _find_map(wanted)
    _call("DELETE", f"/api/maps/{found['id']}" + ("?force=true" if force else ""))
    console.print(f"deleted {found['name']}", markup=False, highlight=False)


def _find_map(wanted: str) -> dict[str, Any]:
    """Return the one saved map of a name, an id or the beginning of one. Raises MapNotFound."""
    maps: list[dict[str, Any]] = _call("GET", "/api/maps")
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


def _record() -> RunRecord | None:
    record = RunRecord.load()
    return record if record and record.process() else None


def _url() -> str:
    """Return where the API is. Raises NotRunning, ConfigError."""
    if "RHINO_URL" in os.environ:
        return os.environ["RHINO_URL"].rstrip("/")
    record = _record()
    if record:
        return record.url
    if "RHINO_PORT" in os.environ:
        return f"http://127.0.0.1:{load_config('sim').server.port}"
    raise NotRunning()


def _call(
    method: str,
    route: str,
    body: dict[str, Any] | None = None,
    timeout: float = 20.0,
    *,
    content: bytes | None = None,
    query: dict[str, str] | None = None,
) -> Any:
    """Ask the API and return its answer: JSON as objects, a file as bytes.

    Args:
        method: of HTTP.
        route: path below the API's address.
        body: sent as JSON.
        timeout: [s]
        content: sent as it is, a zip.
        query: parameters of the route.

    Raises:
        RhinoError: with the API's own code, message and hint.
    """
    headers = {"X-Rhino-Client": CLIENT_NAME}
    record = _record()
    token = Path(record.token_file) if record else token_path()
    if token.is_file():
        headers["Authorization"] = f"Bearer {token.read_text().strip()}"
    url = _url()
    try:
        answer = httpx2.request(
            method,
            url + route,
            json=body,
            content=content,
            params=query,
            headers=headers,
            timeout=timeout,
        )
    except httpx2.ConnectError as error:
        raise NotRunning(f"Nothing answers at {url}.", "Start it: rhino deploy sim.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NotRunning(f"{url} does not answer: {error}", "rhino status; rhino logs.") from error
    if answer.is_error:
        raise _api_error(answer)
    if answer.headers.get("content-type") == "application/zip":
        return answer.content
    return answer.json() if answer.content else None


def _api_error(answer: httpx2.Response) -> RhinoError:
    try:
        said = answer.json()
        error = RhinoError(str(said["message"]), str(said["hint"]))
        error.code = str(said["code"])
    except (ValueError, KeyError, TypeError):
        error = RhinoError(f"The server answered {answer.status_code}: {answer.text[:200]}")
    return error


def run() -> None:
    """Entry point: run a command, and turn errors into one line and exit code 1."""
    try:
        app()
    except RhinoError as error:
        errors.print(Text.assemble((error.code, "bold red"), f" {error.message}"), soft_wrap=True)
        errors.print(error.hint, style="dim", markup=False, soft_wrap=True)
        sys.exit(1)


if __name__ == "__main__":
    run()
