"""The MCP server: tools for an assistant, over streamable HTTP without sessions."""

import logging
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp_types import CallToolResult, InputRequiredResult
from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from rhino_actors.errors import InvalidRequest
from serve_app.access import Access
from serve_app.handles import Handles
from serve_app.mcp.tools import Tools, agent_name, refusal
from serve_app.refusals import RefusalLog
from serve_app.security import mcp_security

INSTRUCTIONS = """\
You drive a Unitree Go2, a robot dog, through a building. Lengths are metres, angles radians (degrees where a \
parameter is called so), counter-clockwise. Positions are x, y in the frame map: without a loaded map the \
robot started near (0, 0) looking along +x; y is to its left. On a loaded map the robot may not know its place at \
first: pose is null then, localisation says why, and goals are refused with NOT_LOCALISED until it was driven about.
Look before you move: get_robot_status says where it is and whether something holds it; observe shows what is ahead; \
get_map shows the map from above. navigate_to plans around obstacles and returns at once: poll get_nav_status, or pass \
wait_s. People outrank you: when one drives, your commands are refused with CONTROL_HELD; do not insist. stop always \
works. A refusal starts with a code and says what to do.
"""


def build_server(handles: Handles, version: str) -> MCPServer:
    """Return the server with all its tools over these handles."""
    return _Server(
        "rhino",
        title="rhino: a Go2 robot",
        instructions=INSTRUCTIONS,
        version=version,
        log_level="WARNING",
        tools=Tools(handles).every(),
    )


def streamable_app(server: MCPServer, access: Access) -> ASGIApp:
    """Return the server as an ASGI app that answers at its own mount point.

    Stateless: any replica answers any request, and a restart breaks no client.
    """
    app = server.streamable_http_app(
        streamable_http_path="/",
        stateless_http=True,
        transport_security=mcp_security(access),
        host=access.host,
    )
    return _MountPoint(app)


class _Server(MCPServer[Any]):
    """The SDK's server; arguments that do not fit a tool are refused in the words of every other refusal."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._refusals = RefusalLog()

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            refused = InvalidRequest(
                _first_problem(error.__cause__),
                "The tool's input schema lists the arguments; numbers are finite JSON numbers.",
            )
            who = agent_name(context) if context else "assistant"
            self._refusals.write(logging.INFO, who, name, refused.code, refused.message)
            return refusal(refused)


def _first_problem(error: ValidationError) -> str:
    """Return one sentence that names the argument; what was sent is not repeated."""
    problems = error.errors(include_url=False, include_input=False)
    place = ".".join(str(part) for part in problems[0]["loc"])
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place:.64}: {problems[0]['msg']}{more}."


class _MountPoint:
    """ASGI layer: the bare mount point (`/mcp`) is served too, instead of redirected to `/mcp/`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == scope.get("root_path", ""):
            path = scope["path"] + "/"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self.app(scope, receive, send)
