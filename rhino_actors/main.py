"""Deploy: config -> Ray -> wiring -> Serve -> supervise -> a clean end.

`deploy` is the whole life of one deployment in the foreground. It ends on SIGINT, SIGTERM or a failure, and
always in the same order: the robot is stopped, then the actors and the server go, then Ray.
"""

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from rhino_actors.config import (
    NAMESPACE,
    RhinoConfig,
    config_to_tree,
    state_dir,
    token_path,
    with_paths,
)
from rhino_actors.errors import (
    ActorUnavailable,
    AlreadyRunning,
    DeployError,
    NoMap,
    PortTaken,
    RhinoError,
    original,
)
from rhino_actors.messages.navigation import MissionStatus, NavStatus
from rhino_actors.messages.platform import RobotStatus

logger = logging.getLogger("rhino")

# Set before Ray is imported, unless the user set them: Ray reads them once.
RAY_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",  # the cluster's ports are open to the network whatever the node address
    "RAY_worker_niceness": "0",  # workers run at nice 15 else, the control loop among them
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else `uv run rhino` zips and ships the working directory
    # A planner host that is gone is noticed in 5 s instead of 65 s.
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray's new default, without its warning
}
# In the environment of every process that a deployment with a Ray of its own starts.
DEPLOYMENT_VARIABLE = "RHINO_DEPLOYMENT"
LOOP_RESTART_DELAY_S = 0.5
LOOP_RESTARTS = (
    8  # of a loop that raises, within LOOP_RESTART_WINDOW_S, before the deployment gives up
)
LOOP_RESTART_WINDOW_S = 60.0
STOP_TIMEOUT_S = 4.0
API_SILENCE_S = (
    4.0  # after which the robot is stopped: a restarting replica takes 2 to 9 s, a proxy 30
)
APP_PREFIX = "rhino-"  # of our applications among those of the cluster's Serve
APP_NAMES = frozenset({"rhino-rest", "rhino-mcp"})
READY_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class RunRecord:
    """What other `rhino` commands need to know of the deployment; kept in the state directory."""

    pid: int
    pid_started: (
        float  # [s] creation time of the process, so that a reused pid is not taken for ours
    )
    url: str
    mcp: str
    robot: str
    driver: str
    ray_address: str
    ray_dashboard: str
    ray_session: str  # directory of the Ray session
    owns_ray: bool
    rerun: str
    rerun_web: str
    log: str
    token_file: str  # of the API's bearer token; need not exist
    deployment: str  # DEPLOYMENT_VARIABLE of every process that belongs to it
    started: float  # [s] since the Unix epoch
    ready: bool
    notice: str = ""  # what the one who deployed must know

    @staticmethod
    def path() -> Path:
        return state_dir() / "run.json"

    @classmethod
    def load(cls) -> "RunRecord | None":
        """Return the record on disk, of a deployment that may be gone; None when there is none.

        Raises:
            DeployError: there is one and it cannot be read: a deployment may run that it would name.
        """
        try:
            text = cls.path().read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise DeployError(f"{cls.path()} cannot be read: {error}") from error
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise DeployError(
                f"{cls.path()} is damaged, or of another version: a deployment may run all the same.",
                "Look for it (ps -ef | grep rhino_actors), end it with kill -TERM, then delete the file.",
            ) from error

    def save(self) -> None:
        self.path().parent.mkdir(parents=True, exist_ok=True)
        partial = self.path().with_suffix(f".{os.getpid()}.tmp")
        partial.write_text(json.dumps(dataclasses.asdict(self), indent=2), encoding="utf-8")
        os.replace(partial, self.path())

    def process(self) -> psutil.Process | None:
        """Return the deployment's process if it still runs."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.pid_started) < 1.0
            alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
            return process if same and alive else None
        except psutil.NoSuchProcess:
            return None


def deploy(
    config: RhinoConfig,
    *,
    lean: bool = False,
    explore: bool = False,
    announce: Callable[[RunRecord], None],
    show: Callable[[RobotStatus | None, NavStatus | None, MissionStatus | None, float], None],
) -> None:
    """Run one deployment until it is told to end.

    Args:
        config: what to run.
        lean: leave Ray's dashboard out.
        explore: start exploring as soon as there is a map.
        announce: called once, when the API is served.
        show: called every second with robot, goal, mission and known area [m2].

    Raises:
        DeployError: something is in the way, or start-up failed. Nothing is left running.
    """
    deployment = Deployment(config, lean=lean, explore=explore, announce=announce, show=show)
    asyncio.run(deployment.run())


class Deployment:
    """One deployment's life. Use `deploy`."""

    def __init__(
        self,
        config: RhinoConfig,
        *,
        lean: bool,
        explore: bool,
        announce: Callable[[RunRecord], None],
        show: Callable[[RobotStatus | None, NavStatus | None, MissionStatus | None, float], None],
    ) -> None:
        self._config = with_paths(config)
        self._lean = lean
        self._id = uuid.uuid4().hex
        self._explore = explore
        self._announce = announce
        self._show = show
        self._ending = asyncio.Event()
        self._graph: Any = None
        self._owns_ray = False
        self._owns_serve = False
        self._serving = False
        self._blocking: set[asyncio.Future[Any]] = (
            set()
        )  # start-up calls that cannot be interrupted
        self._stopping: set[asyncio.Future[Any]] = set()
        self._notices: list[str] = []
        self._failure: BaseException | None = None

    async def run(self) -> None:
        """Start, supervise, end. Raises DeployError when start-up or a loop failed for good."""
        self._catch_signals()
        check_nothing_runs()
        self._record(ready=False).save()
        try:
            starting = asyncio.create_task(self._start())
            ending = asyncio.create_task(self._ending.wait())
            await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done() and not self._ending.is_set():
                starting.result()
                await self._supervise_all()
            else:
                logger.warning("told to end during start-up: as soon as Ray lets go")
                starting.cancel()
        finally:
            await self._stop()
            RunRecord.path().unlink(missing_ok=True)
        if self._failure:
            raise DeployError(f"It ended because {self._failure}") from self._failure

    def _catch_signals(self) -> None:
        """End on the usual signals; SIGUSR1 stops the robot, SIGUSR2 is the e-stop: ways that need no server."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._stop_robot, "stop", "rhino stop")
        loop.add_signal_handler(signal.SIGUSR2, self._stop_robot, "estop", "rhino estop")
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(name, self._end, name)

    def _end(self, name: signal.Signals) -> None:
        if self._ending.is_set():
            return
        logger.info("%s: ending", name.name)
        self._ending.set()

    def _stop_robot(self, how: str, who: str) -> None:
        if self._graph is None:
            return
        logger.warning("%s by %s, without the API", how, who)
        call = getattr(self._graph.platform, how).remote(who)
        task = asyncio.ensure_future(_ask(call, STOP_TIMEOUT_S))
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    def _record(self, *, ready: bool, rerun: dict[str, str] | None = None) -> RunRecord:
        server, this = self._config.server, psutil.Process()
        url = f"http://{_reachable(server.host)}:{server.port}"
        address = dashboard = session = ""
        if ready or self._owns_ray:
            address, dashboard, session = _describe_ray()
        return RunRecord(
            pid=this.pid,
            pid_started=this.create_time(),
            url=url,
            mcp=f"{url}/mcp",
            robot=self._config.robot.name,
            driver=self._config.driver,
            ray_address=address,
            ray_dashboard=dashboard,
            ray_session=session,
            owns_ray=self._owns_ray,
            rerun=(rerun or {}).get("grpc", ""),
            rerun_web=(rerun or {}).get("web", ""),
            log=str(log_path()),
            token_file=str(token_path(server)),
            deployment=self._id,
            started=time.time(),
            ready=ready,
            notice=" ".join(self._notices),
        )

    async def _start(self) -> None:
        logger.info("configuration:\n%s", yaml.safe_dump(config_to_tree(self._config)))
        # On this thread: Ray's processes get SIGKILL when the thread that started them ends. It blocks the
        # loop, in which nothing else runs yet.
        self._start_ray()
        self._catch_signals()  # Ray has put its own handler in place of ours
        if self._ending.is_set():
            return
        self._record(ready=False).save()
        # The server takes as long as the actors: side by side.
        serve_started = asyncio.create_task(self._in_thread(self._start_serve))
        from rhino_actors.wiring import build_graph

        self._graph = build_graph(self._config)
        await serve_started
        await self._in_thread(self._serve_apps)
        await self._check_constructors()

    async def _in_thread(self, work: Callable[[], None]) -> None:
        future = asyncio.get_running_loop().run_in_executor(None, work)
        self._blocking.add(future)
        await asyncio.shield(future)

    def _start_ray(self) -> None:
        """Join the cluster that is there, or start one. Raises DeployError for what is in the way."""
        ray_config, server = self._config.ray, self._config.server
        address = find_cluster(ray_config.address)
        if not address:
            _check_port(server.host, server.port)
        os.environ[DEPLOYMENT_VARIABLE] = self._id
        import ray

        common: dict[str, Any] = {
            "namespace": NAMESPACE,
            "log_to_driver": False,
            "logging_level": logging.WARNING,
            "configure_logging": False,
        }
        if address:
            logger.info("joining the Ray cluster at %s", address)
            ray.init(address=address, **common)
            self._check_cluster()
            return
        self._owns_ray = True
        ray.init(
            address="local",
            num_cpus=max(2, os.cpu_count() or 2),
            labels={self._config.placement.label: self._config.placement.robot_side},
            object_store_memory=ray_config.object_store_mb * 1_000_000,
            include_dashboard=ray_config.dashboard and not self._lean,
            dashboard_host="127.0.0.1",
            dashboard_port=ray_config.dashboard_port or None,
            **common,
        )

    def _check_cluster(self) -> None:
        """Raise AlreadyRunning or PortTaken for what others run on the joined cluster; sweep what the dead left."""
        server, robot = self._config.server, self._config.robot.name
        for name in (f"{robot}/platform", "poi_store"):
            if _actor_lives(name, NAMESPACE):
                raise AlreadyRunning(
                    f"This Ray cluster runs a rhino deployment already: its actor {name} is alive.",
                    "End it where it was started: rhino down.",
                )
        port = serve_port()
        if port is None:
            _check_port(server.host, server.port)
            return
        _delete_apps()
        if port != server.port:
            raise PortTaken(
                f"Ray Serve runs on this cluster already, at port {port}, not {server.port}.",
                f"Use that port: RHINO_PORT={port}; or end Serve there: serve shutdown.",
            )

    def _start_serve(self) -> None:
        from ray import serve

        server = self._config.server
        self._owns_serve = serve_port() is None
        serve.start(
            proxy_location="HeadOnly",
            http_options={"host": server.host, "port": server.port, "keep_alive_timeout_s": 65},
            logging_config={"enable_access_log": False},
        )

    def _serve_apps(self) -> None:
        from ray import serve

        from serve_app.app import build_apps

        targets = [
            serve.RunTarget(
                app.application, name=APP_PREFIX + app.name, route_prefix=app.route_prefix
            )
            for app in build_apps(self._config)
        ]
        self._serving = True
        serve.run_many(targets)

    async def _check_constructors(self) -> None:
        """Wait until every actor answers. Raises DeployError naming the one that did not."""
        import ray

        for name, handle in self._graph.handles.items():
            try:
                async with asyncio.timeout(READY_TIMEOUT_S):
                    await handle.__ray_ready__.remote()
            except TimeoutError as error:
                raise DeployError(f"{name} did not start in {READY_TIMEOUT_S:.0f} s.") from error
            except ray.exceptions.RayError as error:
                logger.error("%s did not start: %s", name, error)
                raise DeployError(f"{name} did not start: {_last_line(error)}") from error

    async def _supervise_all(self) -> None:
        loops = [
            asyncio.create_task(self._supervise(name, handle), name=name)
            for name, handle in self._graph.loops.items()
        ]
        others = [
            asyncio.create_task(self._watch()),
            asyncio.create_task(self._watch_api()),
        ]
        if self._explore:
            others.append(asyncio.create_task(self._start_exploring()))
        others.append(asyncio.create_task(self._announce_all()))
        ending = asyncio.create_task(self._ending.wait())
        done, pending = await asyncio.wait(
            {ending, *loops, *others[:2]}, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done - {ending}:
            self._failure = task.exception() or self._failure
        for task in (*pending, *others):
            task.cancel()
        await asyncio.gather(*pending, *others, return_exceptions=True)

    async def _announce_all(self) -> None:
        """Say that the API is served, and where everything is once Rerun has said where it listens."""
        robot = await _ask(self._graph.platform.status.remote())
        if robot and robot.gate.latched:
            self._notices.append(
                f"The emergency stop is latched, by {robot.gate.latched_by}: rhino estop --clear."
            )
        self._record(ready=True).save()
        record = self._record(ready=True, rerun=await self._rerun_address())
        record.save()
        self._announce(record)

    async def _supervise(self, name: str, handle: Any) -> None:
        """Keep an actor's loop running. The reference of `run` is the only place its error shows."""
        import ray

        failures: list[float] = []
        while True:
            pause = LOOP_RESTART_DELAY_S
            try:
                await handle.run.remote()
                logger.warning("%s: its loop ended by itself; started again", name)
            except ray.exceptions.ActorUnavailableError:
                # Restarting, or the network was gone for a moment and the old loop still runs: the actor lets a
                # second run wait for the first.
                logger.error("%s: not reachable, waiting for it", name)
            except ray.exceptions.ActorDiedError as error:
                raise DeployError(
                    f"{name} died and does not come back: {_last_line(error)}"
                ) from error
            except ray.exceptions.RayError as error:
                logger.error("%s: its loop raised; started again: %s", name, error)
                now = time.monotonic()
                failures = [t for t in failures if now - t < LOOP_RESTART_WINDOW_S] + [now]
                if len(failures) > LOOP_RESTARTS:
                    window = f"{LOOP_RESTART_WINDOW_S:.0f} s"
                    raise DeployError(
                        f"{name} failed {len(failures)} times in {window}: {_last_line(error)}"
                    ) from error
                pause *= len(failures)
            await asyncio.sleep(pause)

    async def _watch_api(self) -> None:
        """Stop the robot when the API does not answer: nobody could stop it by page, REST or MCP then."""
        server = self._config.server
        heard, was_stopped = time.monotonic(), False
        while True:
            if await _is_healthy(_reachable(server.host), server.port):
                heard, was_stopped = time.monotonic(), False
            elif not was_stopped and time.monotonic() - heard > API_SILENCE_S:
                logger.error(
                    "the API does not answer for %.0f s: stopping the robot", API_SILENCE_S
                )
                self._stop_robot("stop", "deploy: the API does not answer")
                was_stopped = True
            await asyncio.sleep(0.5)

    async def _rerun_address(self) -> dict[str, str]:
        if not self._graph.viewer:
            return {}
        answer = await _ask(self._graph.viewer.address.remote(), 15.0)
        return answer if isinstance(answer, dict) else {}

    async def _start_exploring(self) -> None:
        """Start exploring once there is a map. Any other refusal is somebody's decision, and final."""
        import ray

        while True:
            try:
                await self._graph.explorer.start.remote("deploy --explore")
                return
            except (NoMap, ActorUnavailable) as error:
                logger.info("exploring waits: %s", original(error))
            except RhinoError as error:
                logger.warning("not exploring: %s", original(error))
                self._notices.append(f"It does not explore: {original(error)}")
                return
            except ray.exceptions.RayActorError as error:  # the supervisor deals with it
                logger.warning("exploring waits: %s", error)
            await asyncio.sleep(1.0)

    async def _watch(self) -> None:
        while True:
            robot, nav, mission, stats = await asyncio.gather(
                _ask(self._graph.platform.status.remote()),
                _ask(self._graph.planner.status.remote()),
                _ask(self._graph.explorer.status.remote()),
                _ask(self._graph.mapper.stats.remote()),
            )
            area = float(stats.get("known_area", 0.0)) if isinstance(stats, dict) else 0.0
            self._show(robot, nav, mission, area)
            await asyncio.sleep(1.0)

    async def _stop(self) -> None:
        """Stop the robot first, then everything else. Every step is bounded and none hinders the next."""
        if self._blocking:
            await asyncio.wait(self._blocking, timeout=60.0)
        if self._graph:
            platform = self._graph.platform
            await _step("platform stop", _ask(platform.stop.remote("rhino down"), STOP_TIMEOUT_S))
            await _step("platform close", _ask(platform.close.remote(), STOP_TIMEOUT_S))
            if self._graph.viewer:  # what it records is written out
                await _step("viewer close", _ask(self._graph.viewer.close.remote(), STOP_TIMEOUT_S))
        await _step("server and actors", asyncio.to_thread(self._stop_cluster), 60.0)

    def _stop_cluster(self) -> None:
        import ray

        if not ray.is_initialized():
            return
        if self._serving and not self._owns_ray:
            from ray import serve

            if self._owns_serve:
                serve.shutdown()  # type: ignore[no-untyped-call]
            else:
                _delete_apps()
        if self._graph:
            for handle in self._graph.handles.values():
                ray.kill(handle)
        ray.shutdown()


def find_cluster(wanted: str = "") -> str:
    """Return the address of the Ray cluster to join, or "" when a local one must be started.

    Looks at `wanted`, then RAY_ADDRESS, then what `ray start` left behind on this machine.

    Raises:
        DeployError: an address was asked for and nothing answers there.
    """
    prepare_ray_environment()
    from ray._private.utils import read_ray_address

    asked = wanted or os.environ.get("RAY_ADDRESS", "")
    if asked == "local":
        return ""
    if asked and asked != "auto":
        if not _answers(asked):
            raise DeployError(
                f"No Ray cluster answers at {asked}.",
                "Start one there (cluster/README.md), or leave the address out to start a local one.",
            )
        return asked
    address = read_ray_address() or ""
    return address if address and _answers(address) else ""


def prepare_ray_environment() -> None:
    """Set what Ray reads from the environment, before it is imported; what the user set stays."""
    for name, value in RAY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def log_path() -> Path:
    """Return the deployment's log file."""
    return state_dir() / "logs" / "rhino.log"


def _answers(address: str) -> bool:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            return True
    except (OSError, ValueError):
        return False


def check_nothing_runs() -> None:
    """Raise AlreadyRunning when the state directory names a deployment that is alive."""
    record = RunRecord.load()
    if record and record.process():
        raise AlreadyRunning(
            f"{record.robot} ({record.driver}) runs already: {record.url}, process {record.pid}.",
            "rhino status shows it; rhino down stops it.",
        )


def _check_port(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortTaken(f"Port {port} on {host} cannot be used: {error.strerror}.") from error


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host


def _describe_ray() -> tuple[str, str, str]:
    """Return address, dashboard URL ("" without one) and session directory of the connected cluster."""
    import ray
    from ray._private.worker import global_worker

    node = global_worker.node
    if not ray.is_initialized() or node is None:
        return "", "", ""
    dashboard = node.address_info.get("webui_url") or ""
    return node.gcs_address, f"http://{dashboard}" if dashboard else "", node.get_session_dir_path()


async def _is_healthy(host: str, port: int) -> bool:
    """Ask the API for its health, with bare sockets: cheap enough for twice a second."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(2.0):
            reader, writer = await asyncio.open_connection(host, port)
            request = (
                f"GET /api/health HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
            )
            writer.write(request.encode())
            await writer.drain()
            return b" 200 " in await reader.readline()
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()


def serve_port() -> int | None:
    """Return the port of the Serve that the connected cluster runs, or None when it runs none."""
    from ray.serve.context import _get_global_client

    client = _get_global_client(raise_if_no_controller_running=False)
    return None if client is None else int(client.http_config.port)


def _delete_apps() -> None:
    """Delete the applications of a rhino deployment from the connected cluster's Serve."""
    from ray import serve

    for name in serve.status().applications:
        if name in APP_NAMES:
            serve.delete(name)


def _actor_lives(name: str, namespace: str) -> bool:
    import ray

    try:
        ray.get_actor(name, namespace=namespace)
        return True
    except ValueError:
        return False


def _last_line(error: BaseException) -> str:
    """Return what a Ray error is about: it ends with the line of the exception that it carries."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


async def _ask(reference: Any, timeout: float = 2.0) -> Any:
    """Return the answer, or None when none comes: for status, where silence is an answer too."""
    import ray

    try:
        async with asyncio.timeout(timeout):
            return await reference
    except (ray.exceptions.RayError, TimeoutError):
        return None


async def _step(name: str, work: Coroutine[Any, Any, Any], timeout: float = 10.0) -> None:
    started = time.monotonic()
    try:
        async with asyncio.timeout(timeout):
            await work
    except Exception:  # ending goes on whatever happens
        logger.exception("ending: %s", name)
    logger.info("ending: %s took %.1f s", name, time.monotonic() - started)


def set_up_logging(*, to_terminal: bool) -> None:
    """Log to the state directory, and warnings to the terminal."""
    log_path().parent.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(log_path(), mode="w", encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handlers: list[logging.Handler] = [file]
    if to_terminal:
        terminal = logging.StreamHandler(sys.stderr)
        terminal.setLevel(logging.WARNING)
        terminal.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        handlers.append(terminal)
    logging.basicConfig(level=logging.INFO, handlers=handlers, force=True)


def stop_deployment(timeout: float = 90.0) -> bool:
    """End the deployment that the state directory names, and whatever it left. Return False when none was there.

    Raises:
        DeployError: something of it does not end, even after it was killed.
    """
    record = RunRecord.load()
    if record is None:
        return False
    process = record.process()
    clean = False
    if process:
        process.terminate()
        try:
            process.wait(timeout)
            clean = True
        except psutil.TimeoutExpired:
            process.kill()
    _end_processes(record.deployment)
    if not clean and not record.owns_ray:
        _sweep_cluster(record.ray_address)
    RunRecord.path().unlink(missing_ok=True)
    return True


def _sweep_cluster(address: str) -> None:
    """Take the applications of a deployment that was killed off a cluster that goes on."""
    if not address or not _answers(address):
        return
    prepare_ray_environment()
    import ray

    ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    try:
        if serve_port() is not None:
            _delete_apps()
    finally:
        ray.shutdown()


def _end_processes(deployment: str) -> None:
    """Wait for the processes that belong to a deployment to end, and kill those that do not."""
    alive = _processes_of(deployment)
    _, alive = psutil.wait_procs(alive, timeout=3.0)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _, alive = psutil.wait_procs(alive, timeout=5.0)
    alive += _processes_of(deployment)
    if alive:
        raise DeployError(f"These processes do not end: {[p.pid for p in alive]}.")


def _processes_of(deployment: str) -> list[psutil.Process]:
    """Every process with the deployment's mark in its environment.

    Read as it lies: Ray's workers write their title over the beginning of the block, and psutil sees nothing then.
    """
    mark = f"{DEPLOYMENT_VARIABLE}={deployment}".encode()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if mark in Path(f"/proc/{process.pid}/environ").read_bytes():
                found.append(process)
    return found
