"""The two servers: REST with its page, and MCP; as plain ASGI apps, and as Ray Serve applications.

`create_api` and `create_mcp` need handles only, so tests run them without Ray. `build_apps` gives `main` what it hands
to `serve.run`; the apps themselves are built inside the replicas, so nothing of them is pickled.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from mcp.server import MCPServer
from starlette.types import ASGIApp

from rhino_actors.config import RhinoConfig, access_log_path
from serve_app import telemetry
from serve_app.access_log import AccessLog, Journal, open_log
from serve_app.api import errors, openapi
from serve_app.api.bodies import JsonBodies
from serve_app.api.deps import Services
from serve_app.api.router import build_router
from serve_app.handles import Handles, connect
from serve_app.mcp.server import build_server, streamable_app
from serve_app.refusals import log_with_serve
from serve_app.security import Access, Guard, read_access
from serve_app.telemetry import Meters, Telemetry

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
    services = Services.of(handles, telemetry.scrape)
    access_log = Journal(open_log(journal))

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        looking = None
        if meters is not None:
            looking = Telemetry(handles, services.probes, services.open_streams, meters)
            looking.start()
        yield
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
    )
    app.state.services = services
    app.include_router(build_router())
    app.state.routes = openapi.install(app)
    errors.install(app)
    app.add_middleware(JsonBodies)
    app.add_middleware(Guard, access=access or Access(handles.server.host))
    app.add_middleware(
        AccessLog,
        routes=app.state.routes,
        robots=tuple(handles.robots),
        journal=access_log,
        meters=meters,
    )
    return app


def create_mcp(handles: Handles) -> MCPServer:
    """Return the MCP server over these handles."""
    return build_server(handles, version("rhino-go2"))


def create_mcp_app(handles: Handles, access: Access | None = None) -> ASGIApp:
    """Return the MCP server as an ASGI app for the path where it is mounted, stateless, with the same checks."""
    checks = access or Access(handles.server.host)
    return Guard(streamable_app(create_mcp(handles), checks), checks)


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


class McpServer:
    """What Serve runs as the application `mcp`."""

    def __init__(self, config: RhinoConfig, access: Access) -> None:
        self._config = config
        self._access = access

    def __serve_build_asgi_app__(self) -> ASGIApp:
        log_with_serve()
        return create_mcp_app(connect(self._config), self._access)


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

    def application(server: type[RestServer] | type[McpServer], name: str) -> Any:
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
        ServedApp("mcp", "/mcp", application(McpServer, "mcp")),
    )
