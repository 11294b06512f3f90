"""The MCP server: tools for an assistant, over streamable HTTP without sessions."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, InputRequiredResult
from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from rhino_actors.errors import InvalidRequest
from serve_app.access import Access
from serve_app.clients import HEADER
from serve_app.handles import Handles
from serve_app.mcp.resources import add_prompts, add_resources, robots_sentence
from serve_app.mcp.texts import INSTRUCTIONS
from serve_app.mcp.tools import CODE_KEY, HOLDER_KEY, Tools, agent_name, refusal
from serve_app.refusals import RefusalLog
from serve_app.security import mcp_security


def build_server(
    handles: Handles, version: str, note: Callable[["ToolCall"], None] | None = None
) -> MCPServer:
    """Return the server with all its tools, resources and prompts over these handles.

    Args:
        handles: to the actors.
        version: of rhino.
        note: is told each call of a tool when it has ended.
    """
    tools = Tools(handles)
    every = tools.every()
    ends = {tool.name for tool in every if tool.annotations and tool.annotations.idempotent_hint}
    server = _Server(
        "rhino",
        title="rhino: a Go2 robot",
        instructions=INSTRUCTIONS + robots_sentence(handles),
        version=version,
        log_level="WARNING",
        tools=every,
        note=note,
        middleware=[Cancellations(spared=ends)],
        subscriptions=False,  # nobody would publish to them: a replica sees its own requests only
    )
    add_resources(server, handles, tools)
    add_prompts(server, handles)
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


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool that has ended."""

    tool: str  # "" for one that does not exist
    reads: bool  # it changes nothing
    robot: str  # as it was named, "" where it was not
    client: str
    seconds: float
    code: str = ""  # of a refusal; CRASHED where the tool failed, CANCELLED where it was ended
    holder: str = ""  # who drives, where that is why


CRASHED, CANCELLED = "INTERNAL", "CANCELLED"


class _Server(MCPServer[Any]):
    """The SDK's server; arguments that do not fit a tool are refused in the words of every other refusal."""

    def __init__(
        self, *args: Any, tools: list[Tool], note: Callable[[ToolCall], None] | None, **kwargs: Any
    ) -> None:
        super().__init__(*args, tools=tools, **kwargs)
        self._refusals = RefusalLog()
        self._note = note
        self._reads = {
            tool.name: bool(tool.annotations and tool.annotations.read_only_hint) for tool in tools
        }

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        started = time.monotonic()
        result: CallToolResult | InputRequiredResult | None = None
        code = CRASHED
        try:
            result = await self._call_tool(name, arguments, context)
            return result
        except asyncio.CancelledError:
            code = CANCELLED
            raise
        finally:
            if self._note is not None:
                meta = result.meta or {} if result is not None else {CODE_KEY: code}
                robot = arguments.get("robot")
                self._note(
                    ToolCall(
                        tool=name if name in self._reads else "",
                        reads=self._reads.get(name, False),
                        robot=robot if isinstance(robot, str) else "",
                        client=agent_name(context) if context else "assistant",
                        seconds=time.monotonic() - started,
                        code=str(meta.get(CODE_KEY, "")),
                        holder=str(meta.get(HOLDER_KEY, "")),
                    )
                )

    async def _call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Any, Any] | None
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


class Cancellations:
    """Middleware: a call is ended by a cancellation that comes as a request of its own.

    Clients of protocols before 2026-07-28 send it so, and without sessions nothing else joins the two. They are
    matched by who asks and the id of the request; of two clients that cannot be told apart both may be ended, which
    only stops more. It reaches the calls of this replica, but for those that end a movement.

    Args:
        spared: tools that are carried out to their end.
    """

    def __init__(self, spared: Collection[str]) -> None:
        self._spared = spared
        self._running: dict[tuple[str, str], list[anyio.CancelScope]] = {}

    async def __call__(
        self, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        params = ctx.params or {}
        if ctx.method == "notifications/cancelled":
            for scope in self._running.get((_asker(ctx), str(params.get("requestId"))), ()):
                scope.cancel()
        is_call = ctx.method == "tools/call" and ctx.request_id is not None
        if not is_call or params.get("name") in self._spared:
            return await call_next(ctx)
        key = _asker(ctx), str(ctx.request_id)
        with anyio.CancelScope() as scope:
            scopes = self._running.setdefault(key, [])
            scopes.append(scope)
            try:
                return await call_next(ctx)
            finally:
                scopes.remove(scope)
                if not scopes and self._running.get(key) is scopes:
                    del self._running[key]
        raise MCPError(code=INTERNAL_ERROR, message="The call was cancelled.")


def _asker(ctx: ServerRequestContext[Any, Any]) -> str:
    request = ctx.request
    if not isinstance(request, Request):
        return ""
    return f"{request.headers.get(HEADER, '')} {request.client.host if request.client else ''}"


class _MountPoint:
    """ASGI layer: the bare mount point (`/mcp`) is served too, instead of redirected to `/mcp/`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == scope.get("root_path", ""):
            path = scope["path"] + "/"
            scope = {**scope, "path": path, "raw_path": path.encode()}
        await self.app(scope, receive, send)
