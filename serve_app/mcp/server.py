"""The MCP server: tools for an assistant, over streamable HTTP without sessions."""

from mcp.server import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

from serve_app.handles import Handles
from serve_app.mcp.tools import Tools
from serve_app.security import Access, mcp_security

INSTRUCTIONS = """\
You drive a Unitree Go2, a robot dog, through a building. Lengths are metres, angles radians (degrees where a \
parameter is called so), counter-clockwise. Positions are x, y in the frame odom: the robot started near (0, 0) \
looking along +x; y is to its left.
Look before you move: get_robot_status says where it is and whether something holds it; observe shows what is ahead; \
get_map shows the map from above. navigate_to plans around obstacles and returns at once: poll get_nav_status, or pass \
wait_s. People outrank you: when one drives, your commands are refused with CONTROL_HELD; do not insist. stop always \
works. A refusal starts with a code and says what to do.
"""


def build_server(handles: Handles, version: str) -> MCPServer:
    """Return the server with all its tools over these handles."""
    server: MCPServer = MCPServer(
        "rhino",
        title="rhino: a Go2 robot",
        instructions=INSTRUCTIONS,
        version=version,
        log_level="WARNING",
    )
    Tools(handles).register(server)
    return server


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


class _MountPoint:
    """ASGI layer: the bare mount point (`/mcp`) is served too, instead of redirected to `/mcp/`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == scope.get("root_path", ""):
            path = scope["path"] + "/"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self.app(scope, receive, send)
