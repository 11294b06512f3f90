"""rhino deploy, status, down, logs: the life of a deployment."""

import json
import os
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rhino_actors.cli.api import call, console, errors, running_record
from rhino_actors.config import load_config
from rhino_actors.errors import (
    DeployError,
    NotRunning,
    RhinoError,
)
from rhino_actors.main import deploy
from rhino_actors.messages.missions import MissionStatus
from rhino_actors.messages.navigation import NavStatus
from rhino_actors.messages.platform import RobotStatus
from rhino_actors.ray_cluster import prepare_ray_environment
from rhino_actors.run_record import (
    RunRecord,
    check_nothing_runs,
    log_path,
    set_up_logging,
    stop_deployment,
)

app = typer.Typer()

DETACH_TIMEOUT_S = 180.0

PLAIN_SIMULATION = {"mujoco.base": "kinematic", "mujoco.lidar": "scan", "mujoco.drift": "off"}

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
    host: Annotated[
        str | None,
        typer.Option(help="address to serve on; any but loopback needs a token (rhino token)"),
    ] = None,
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
        "server.host": host,
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
    record = running_record()
    state = call("GET", "/api/state")
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
        str | None,
        typer.Argument(
            help="an actor (platform, mapper, ...); access: requests to the API; control: those that drive or stop; "
            "mcp: what assistants call; default: the deployment"
        ),
    ] = None,
    lines: Annotated[int, typer.Option("-n", help="lines from the end", min=1)] = 50,
    follow: Annotated[bool, typer.Option("-f", help="keep printing; Ctrl-C ends")] = False,
) -> None:
    """Print the log of the deployment, of one actor, or of the requests.

    Examples:  rhino logs  ·  rhino logs platform -n 200  ·  rhino logs access -f
    """
    if actor in ("access", "control", "mcp"):
        path = log_path().with_name(f"{actor}.log")
    else:
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
    record = running_record()
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
