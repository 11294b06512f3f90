"""The bridge of `rhino mcp`: an MCP server on stdin and stdout that hands every request on to the deployment.

Each request opens a connection of its own, so a deployment that starts later, or anew, at another port even, is
found by the next one. Nothing is repeated: a command to move must not be. What the deployment would list is listed
from this installation while it does not answer, since programs ask once, when they start.
"""

import functools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp.server.context import ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from rhino_actors.cli.api import running_record
from rhino_actors.cli.api import url as running_url
from rhino_actors.config import token_path
from rhino_actors.errors import ConfigError, InvalidRequest, NotRunning, RhinoError
from serve_app.mcp.texts import INSTRUCTIONS

PROTOCOL = "2026-07-28"  # each request stands alone: nothing is said before it
CONNECT_TIMEOUT_S = 5.0
PATH = "/mcp"

R = TypeVar("R")
RequestContext = ServerRequestContext[Any, Any]


def run(url: str | None, token: str | None, name: str | None) -> None:
    """Serve until stdin ends. Raises InvalidRequest for an address that is none."""
    if url is not None:
        url = _endpoint(url)
    anyio.run(Bridge(url, token, name).serve)


class Bridge:
    """Hands requests of the program at the other end of the pipe on to a deployment.

    Args:
        url: where MCP is served; None: look for the deployment of this machine at each request.
        token: of the deployment; None: that of this machine's deployment, and none for a `url`.
        name: by which others see who drives; None: what the program calls itself.
    """

    def __init__(self, url: str | None, token: str | None, name: str | None) -> None:
        self._url = url
        self._token = token
        self._name = name

    async def serve(self) -> None:
        """Serve stdin and stdout until stdin ends; then what still runs is called off."""
        server = self.server()
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    def server(self) -> Server[Any]:
        """Return the server that hands on."""
        return Server(
            "rhino",
            title="rhino: a Go2 robot",
            version=version("rhino-go2"),
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    async def _call_tool(
        self, ctx: RequestContext, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def tell(progress: float, total: float | None, message: str | None) -> None:
            await ctx.session.report_progress(progress, total, message)

        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=params.name, arguments=params.arguments)
        )

        async def call(session: ClientSession) -> types.CallToolResult:
            return await session.send_request(request, types.CallToolResult, progress_callback=tell)

        try:
            return await self._ask(ctx, call)
        except RhinoError as error:
            text = types.TextContent(type="text", text=str(error))
            return types.CallToolResult(content=[text], is_error=True)

    async def _list_tools(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        try:
            return await self._ask(ctx, lambda session: session.list_tools())
        except RhinoError:
            return types.ListToolsResult(tools=await _own_server().list_tools())

    async def _list_resources(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        try:
            return await self._ask(ctx, lambda session: session.list_resources())
        except RhinoError:
            return types.ListResourcesResult(resources=await _own_server().list_resources())

    async def _list_templates(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        try:
            return await self._ask(ctx, lambda session: session.list_resource_templates())
        except RhinoError:
            templates = await _own_server().list_resource_templates()
            return types.ListResourceTemplatesResult(resource_templates=templates)

    async def _list_prompts(
        self, ctx: RequestContext, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        try:
            return await self._ask(ctx, lambda session: session.list_prompts())
        except RhinoError:
            return types.ListPromptsResult(prompts=await _own_server().list_prompts())

    async def _read_resource(
        self, ctx: RequestContext, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with _as_protocol_error():
            return await self._ask(ctx, lambda session: session.read_resource(params.uri))

    async def _get_prompt(
        self, ctx: RequestContext, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        with _as_protocol_error():
            return await self._ask(
                ctx, lambda session: session.get_prompt(params.name, params.arguments)
            )

    async def _ask(self, ctx: RequestContext, ask: Callable[[ClientSession], Awaitable[R]]) -> R:
        """Ask the deployment.

        Raises:
            MCPError: what it answered.
            RhinoError: it does not run, or does not let us in.
        """
        refused: list[RhinoError] = []
        try:
            async with self._session(ctx, refused) as session:
                return await ask(session)
        except (Exception, BaseExceptionGroup) as caught:
            error = _first(caught)
            if refused:
                raise refused[-1] from caught
            if isinstance(error, (MCPError, RhinoError)) and not _is_cut_off(error):
                raise error from caught
            if isinstance(error, (httpx2.HTTPError, MCPError, OSError, ValidationError)):
                raise NotRunning(
                    "The deployment does not answer, or went away before it did.",
                    "Look whether it runs: rhino status; what was asked for may have happened.",
                ) from caught
            raise

    @asynccontextmanager
    async def _session(
        self, ctx: RequestContext, refused: list[RhinoError]
    ) -> AsyncIterator[ClientSession]:
        address, token = self._target()
        params = ctx.session.client_params
        program = params.client_info if params else None
        headers = {"X-Rhino-Client": _header(self._name or (program.name if program else ""))}
        if token:
            headers["Authorization"] = f"Bearer {token}"

        async def note(answer: httpx2.Response) -> None:
            if answer.status_code in (401, 403, 404) or answer.status_code >= 500:
                refused.append(_refusal(address, answer.status_code, await answer.aread()))

        timeout = httpx2.Timeout(CONNECT_TIMEOUT_S, read=None)
        async with httpx2.AsyncClient(
            headers=headers, timeout=timeout, event_hooks={"response": [note]}
        ) as http:
            try:
                await _reach(address)
            except OSError as error:
                raise NotRunning(
                    f"Nothing answers at {address}.", "Start it: rhino deploy sim."
                ) from error
            transport = streamable_http_client(address, http_client=http)
            async with Client(transport, mode=PROTOCOL, client_info=program, cache=None) as client:
                yield client.session

    def _target(self) -> tuple[str, str | None]:
        """Return where to ask now, and with which token. Raises NotRunning."""
        if self._url is not None:
            return self._url, self._token  # this machine's own token is for no other machine
        token = self._token
        if token is None:
            record = running_record()
            path = Path(record.token_file) if record else token_path()
            try:
                token = path.read_text().strip() if path.is_file() else None
            except OSError as error:
                raise ConfigError(f"The token file {path} cannot be read: {error}") from error
        return _endpoint(running_url()), token


async def _reach(address: str) -> None:
    """Open and close a connection: nothing there is told apart from an answer that breaks off. Raises OSError."""
    place = urlsplit(address)
    port = place.port or (443 if place.scheme == "https" else 80)
    try:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            await (await anyio.connect_tcp(place.hostname or "", port)).aclose()
    except TimeoutError as error:
        raise OSError(str(error)) from error


def _refusal(address: str, status: int, body: bytes) -> RhinoError:
    """Return the error that an HTTP answer tells of: rhino's own code and words where it has them."""
    try:
        said = json.loads(body)
        error = RhinoError(str(said["message"]), str(said["hint"]))
        error.code = str(said["code"])
        return error
    except (ValueError, KeyError, TypeError):
        return NotRunning(
            f"{address} answers {status}: it is starting, or something else.",
            "Try again in some seconds; rhino status shows what runs.",
        )


class _as_protocol_error:
    """Turn a RhinoError into an error of the protocol, for requests whose results have no place for one."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RhinoError):
            raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from error


def _endpoint(url: str) -> str:
    """Return where MCP is served at an address of a deployment. Raises InvalidRequest."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise InvalidRequest(f"{url!r:.200} is no address.", "For example: http://127.0.0.1:8000.")
    plain = url.rstrip("/")
    return plain if plain.endswith(PATH) else plain + PATH


def _header(name: str) -> str:
    """Return the name that tells this program's robot commands from those of a second one on the same machine."""
    plain = "".join(ch for ch in name if ch.isprintable() and ch.isascii()).strip() or "desktop"
    return f"{plain[:40]} {os.getpid()}"


def _first(error: BaseException) -> BaseException:
    """Return the first error within nested groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_cut_off(error: BaseException) -> bool:
    return isinstance(error, MCPError) and error.error.code == types.CONNECTION_CLOSED


@functools.cache
def _own_server() -> MCPServer:
    """Return this installation's own server, which lists what a deployment of it would; it is never called."""
    from rhino_actors.config import load_config
    from serve_app.app import create_mcp
    from serve_app.handles import connect

    return create_mcp(connect(load_config("sim")))
