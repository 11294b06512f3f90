"""The servers: REST with its page, driving and stopping, and MCP; as plain ASGI apps, and as Ray Serve applications.

Driving and stopping have a process of their own, so that they never wait behind streams, maps and pictures; `front`
says how their requests get there. The server of REST answers them too, where it is asked.

`create_api`, `create_control` and `create_mcp` need handles only, so tests run them without Ray. `build_apps` gives
`main` what it hands to `serve.run`; the apps themselves are built inside the replicas, so nothing of them is pickled.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from mcp.server import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

from rhino_actors.config import RhinoConfig, access_log_path, control_log_path, mcp_log_path
from rhino_actors.errors import RhinoError
from serve_app import telemetry
from serve_app.access import Access, read_access
from serve_app.access_log import AccessLog, Journal, open_log
from serve_app.api import errors, openapi
from serve_app.api.bodies import JsonBodies
from serve_app.api.deps import Services
from serve_app.api.router import build_control_router, build_router
from serve_app.front import CONTROL_PREFIX, FromFront
from serve_app.handles import Handles, connect
from serve_app.mcp.server import ToolCall, build_server, streamable_app
from serve_app.refusals import log_with_serve
from serve_app.security import Guard
from serve_app.telemetry import Meters, Telemetry
from serve_app.tool_log import ToolLog

# Streams count as ongoing requests; server.max_streams bounds them well below this.
MAX_ONGOING_REQUESTS = 6000


def create_api(
    handles: Handles,
    access: Access | None = None,
    *,
    journal: Path | None = None,
    meters: Meters | None = None,
) -> FastAPI:
    """Return the REST server over these handles.

    Args:
        handles: to the actors.
        access: who may come in; the configured bind address without a token by default.
        journal: file of the access log; None: it goes where the process logs.
        meters: where metrics go; None: none are taken.
    """
    return _create(
        "rest", build_router(), handles, access, journal=journal, meters=meters, watches=True
    )


def create_control(
    handles: Handles,
    access: Access | None = None,
    *,
    journal: Path | None = None,
    meters: Meters | None = None,
) -> FastAPI:
    """Return the server of driving and stopping, with the same checks; arguments as of `create_api`."""
    return _create(
        "control",
        build_control_router(),
        handles,
        access,
        journal=journal,
        meters=meters,
        openapi_url=None,
    )


def _create(
    name: str,
    router: APIRouter,
    handles: Handles,
    access: Access | None,
    *,
    journal: Path | None,
    meters: Meters | None,
    watches: bool = False,
    **more: Any,
) -> FastAPI:
    """Return a server; one that `watches` also takes the metrics of the whole deployment."""
    services = Services.of(handles, telemetry.scrape)
    checks = access or Access(handles.server.host)
    access_log = Journal(open_log(journal))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(_find_parts(handles))
        looking = None
        if watches and meters is not None:
            looking = Telemetry(handles, services.probes, services.open_streams, meters)
            looking.start()
        yield
        warming.cancel()
        if looking is not None:
            looking.close()
        services.close()
        access_log.flush()

    app = FastAPI(
        title="rhino",
        summary="Navigation for the Unitree Go2",
        version=version("rhino-go2"),
        docs_url=None,  # the interactive pages load scripts from other servers
        redoc_url=None,
        generate_unique_id_function=openapi.operation_id,
        lifespan=lifespan,
        **more,
    )
    app.state.services = services
    app.state.name = name
    app.state.access = checks
    app.include_router(router)
    app.state.routes = openapi.install(app)
    errors.install(app)
    app.add_middleware(JsonBodies)
    app.add_middleware(Guard, access=checks)
    app.add_middleware(
        AccessLog,
        routes=app.state.routes,
        robots=tuple(handles.robots),
        journal=access_log,
        meters=meters,
    )
    app.add_middleware(FromFront, name=name)
    return app


def create_mcp(handles: Handles, note: Callable[[ToolCall], None] | None = None) -> MCPServer:
    """Return the MCP server over these handles; `note` is told each call of a tool when it has ended."""
    return build_server(handles, version("rhino-go2"), note)


def create_mcp_app(
    handles: Handles,
    access: Access | None = None,
    *,
    journal: Path | None = None,
    meters: Meters | None = None,
) -> ASGIApp:
    """Return the MCP server as an ASGI app for the path where it is mounted, stateless, with the same checks.

    Arguments as of `create_api`; log and metrics have the calls of tools.
    """
    checks = access or Access(handles.server.host)
    log = ToolLog(tuple(handles.robots), Journal(open_log(journal)), meters)
    return _Prepared(Guard(streamable_app(create_mcp(handles, log.note), checks), checks), handles)


class _Prepared:
    """ASGI layer: looks the parts up while the app starts."""

    def __init__(self, app: ASGIApp, handles: Handles) -> None:
        self.app = app
        self._handles = handles

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        warming = asyncio.create_task(_find_parts(self._handles))
        try:
            await self.app(scope, receive, send)
        finally:
            warming.cancel()


async def _find_parts(handles: Handles) -> None:
    """Look every part up before the first request has to.

    A handle brings the import of its actor's class with it, up to half a second during which nothing else is answered:
    the first stop would wait for that, or any stop when the first page opens its socket.
    """
    for robot in handles.robots.values():
        for ask in (
            robot.platform.status,
            robot.planner.status,
            robot.explorer.status,
            robot.mapper.localisation,
        ):
            with suppress(RhinoError):
                await ask()
    with suppress(RhinoError):
        await handles.poi_store.version()


class RestServer:
    """What Serve runs as the application `rest`."""

    def __init__(self, config: RhinoConfig, access: Access) -> None:
        self._config = config
        self._access = access

    def __serve_build_asgi_app__(self) -> ASGIApp:
        log_with_serve()
        return create_api(
            connect(self._config),
            self._access,
            journal=access_log_path(self._config),
            meters=Meters(),
        )


class ControlServer:
    """What Serve runs as the application `control`."""

    def __init__(self, config: RhinoConfig, access: Access) -> None:
        self._config = config
        self._access = access

    def __serve_build_asgi_app__(self) -> ASGIApp:
        log_with_serve()
        return create_control(
            connect(self._config),
            self._access,
            journal=control_log_path(self._config),
            meters=Meters(),
        )


class McpServer:
    """What Serve runs as the application `mcp`."""

    def __init__(self, config: RhinoConfig, access: Access) -> None:
        self._config = config
        self._access = access

    def __serve_build_asgi_app__(self) -> ASGIApp:
        log_with_serve()
        return create_mcp_app(
            connect(self._config),
            self._access,
            journal=mcp_log_path(self._config),
            meters=Meters(),
        )


@dataclass(frozen=True)
class ServedApp:
    """What to give to `serve.run`."""

    name: str
    route_prefix: str
    application: Any  # ray.serve.Application


def build_apps(config: RhinoConfig) -> tuple[ServedApp, ...]:
    """Return the Serve applications of a deployment.

    The token, if there is one, is read here and travels with the deployment, so a replica may start on any node.

    Raises:
        ConfigError: the token file cannot be used, or a bind address beyond loopback has no token.
    """
    from ray import serve  # takes a second to import, and tests of the apps do without

    access = read_access(config.server)
    place = config.placement

    def application(
        server: type[RestServer] | type[ControlServer] | type[McpServer], name: str
    ) -> Any:
        configured = serve.deployment(
            name=name,
            num_replicas=1,
            max_ongoing_requests=MAX_ONGOING_REQUESTS,
            # Beside the robot: the loss of a planner host must not take the API along.
            ray_actor_options={
                "num_cpus": 0.1,
                "label_selector": {place.label: place.robot_side},
                "fallback_strategy": [{"label_selector": {}}],
            },
            graceful_shutdown_timeout_s=2.0,  # open streams would hold a shutdown up
            # A page asks many times a second; refusals are logged.
            logging_config={"enable_access_log": False},
        )
        deployment: Any = configured(serve.ingress()(server))
        return deployment.bind(config, access)

    return (
        ServedApp("rest", "/", application(RestServer, "rest")),
        ServedApp("control", CONTROL_PREFIX, application(ControlServer, "control")),
        ServedApp("mcp", "/mcp", application(McpServer, "mcp")),
    )
