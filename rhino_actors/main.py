"""Deploy: config -> Ray -> wiring -> Serve -> supervise -> a clean end.

`deploy` is the whole life of one deployment in the foreground. It ends on SIGINT, SIGTERM or a failure, and
always in the same order: the robot is stopped, then the actors and the server go, then Ray.
"""

import asyncio
import logging
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import psutil
import yaml

from rhino_actors.config import (
    NAMESPACE,
    RhinoConfig,
    config_to_tree,
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
from rhino_actors.messages.missions import MissionStatus
from rhino_actors.messages.navigation import NavStatus
from rhino_actors.messages.platform import RobotStatus
from rhino_actors.ray_cluster import (
    actor_lives,
    delete_apps,
    describe_cluster,
    find_cluster,
    last_line,
    serve_port,
)
from rhino_actors.run_record import (
    DEPLOYMENT_VARIABLE,
    RunRecord,
    check_nothing_runs,
    log_path,
)
from serve_app.access import read_access

logger = logging.getLogger("rhino")

LOOP_RESTART_DELAY_S = 0.5
# Of a loop that raises, within LOOP_RESTART_WINDOW_S, before the deployment gives up.
LOOP_RESTARTS = 8
LOOP_RESTART_WINDOW_S = 60.0
STOP_TIMEOUT_S = 4.0
# After which the robot is stopped: a restarting replica takes 2 to 9 s, a proxy 30.
API_SILENCE_S = 4.0
APP_PREFIX = "rhino-"  # of our applications among those of the cluster's Serve
READY_TIMEOUT_S = 90.0
# Of the two servers that a person's stop goes through: the page's and that of driving and stopping.
HEALTH_PATHS = ("/api/health", "/api/control/health")


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
        ConfigError: the server would be open to other machines without a token, or its token cannot be used.
        DeployError: something is in the way, or start-up failed. Nothing is left running.
    """
    read_access(config.server)  # again where it is served; here before minutes are spent
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
        # Start-up calls that cannot be interrupted.
        self._blocking: set[asyncio.Future[Any]] = set()
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
            address, dashboard, session = describe_cluster()
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
        logger.info("configuration:\n%s", yaml.safe_dump(_without_secrets(self._config)))
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
            if actor_lives(name, NAMESPACE):
                raise AlreadyRunning(
                    f"This Ray cluster runs a rhino deployment already: its actor {name} is alive.",
                    "End it where it was started: rhino down.",
                )
        port = serve_port()
        if port is None:
            _check_port(server.host, server.port)
            return
        delete_apps()
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
                raise DeployError(f"{name} did not start: {last_line(error)}") from error

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
        server = self._config.server
        head = await _health(_reachable(server.host), server.port, HEALTH_PATHS[1])
        if b"x-rhino-app: control" not in head.lower():
            self._notices.append(
                "Ray was started without cluster/ray.env: driving and stopping share a process with streams and maps."
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
                    f"{name} died and does not come back: {last_line(error)}"
                ) from error
            except ray.exceptions.RayError as error:
                logger.error("%s: its loop raised; started again: %s", name, error)
                now = time.monotonic()
                failures = [t for t in failures if now - t < LOOP_RESTART_WINDOW_S] + [now]
                if len(failures) > LOOP_RESTARTS:
                    window = f"{LOOP_RESTART_WINDOW_S:.0f} s"
                    raise DeployError(
                        f"{name} failed {len(failures)} times in {window}: {last_line(error)}"
                    ) from error
                pause *= len(failures)
            await asyncio.sleep(pause)

    async def _watch_api(self) -> None:
        """Stop the robot when the API does not answer: nobody could stop it by page, REST or MCP then."""
        server = self._config.server
        heard, was_stopped = time.monotonic(), False
        while True:
            host, port = _reachable(server.host), server.port
            answers = await asyncio.gather(*(_health(host, port, path) for path in HEALTH_PATHS))
            if all(answers):
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
                delete_apps()
        if self._graph:
            for handle in self._graph.handles.values():
                ray.kill(handle)
        ray.shutdown()


def _without_secrets(config: RhinoConfig) -> dict[str, Any]:
    """Return the configuration as it may stand in a log."""
    tree = config_to_tree(config)
    if tree["go2"]["aes_key"]:
        tree["go2"]["aes_key"] = "(set)"
    return tree


def _check_port(host: str, port: int) -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortTaken(f"Port {port} on {host} cannot be used: {error.strerror}.") from error


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "::", "") else host


async def _health(host: str, port: int, path: str) -> bytes:
    """Return the head of a server's answer, empty if it is not well. Bare sockets: cheap enough for twice a second."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(2.0):
            reader, writer = await asyncio.open_connection(host, port)
            request = f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
            writer.write(request.encode())
            await writer.drain()
            head = await reader.readuntil(b"\r\n\r\n")
            return head if b" 200 " in head.partition(b"\r\n")[0] else b""
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return b""
    finally:
        if writer is not None:
            writer.close()


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
