"""Who may talk to the server: Host, Origin and token checks in one pure-ASGI layer, for HTTP and WebSockets alike.

* Host: with a loopback bind only loopback names are served, so a page whose name was re-bound to 127.0.0.1 is not.
* Origin: a request that changes something, or opens a WebSocket, must come from this server's own pages or from a
  program that sends no Origin (curl, the command line).
* Token: with a token, everything but health and the static page needs it, as bearer or, for what a browser opens
  without headers (images, event streams), as the cookie `rhino_token`.
"""

import hmac
import ipaddress
import json
import logging
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhino_actors.config import ServerConfig, token_path
from rhino_actors.errors import ConfigError, RhinoError
from serve_app.refusals import RefusalLog

TOKEN_COOKIE = "rhino_token"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_RESPONSE_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}


class HostNotAllowed(RhinoError):
    """The Host header names no address that this server serves: DNS rebinding, or a missing setting."""

    code = "HOST_NOT_ALLOWED"
    default_message = "The server does not answer under this name."
    default_hint = (
        "Use http://127.0.0.1 or http://localhost; for other names set server.host and a token."
    )


class OriginNotAllowed(RhinoError):
    """A page of another site asks for a change."""

    code = "ORIGIN_NOT_ALLOWED"
    default_message = "Pages of other sites may not drive the robot."
    default_hint = "Open the server's own page, or call the API from a program."


class Unauthorized(RhinoError):
    """No token, or a wrong one."""

    code = "UNAUTHORIZED"
    default_message = "A token is needed, and this is not it."
    default_hint = f"Send Authorization: Bearer TOKEN, or the cookie {TOKEN_COOKIE}."


@dataclass(frozen=True)
class Access:
    """What `Guard` checks."""

    host: str  # bind address
    token: str | None = None  # None: no token is asked for

    @property
    def is_local(self) -> bool:
        """True when only programs of this machine can connect."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a bind address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_access(server: ServerConfig) -> Access:
    """Return the checks for a server's configuration, its token read from the file.

    Raises:
        ConfigError: the token file cannot be read or is empty, or a bind address beyond loopback has no token.
    """
    path = token_path(server)
    token: str | None = None
    if server.token_file or path.exists():
        try:
            token = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"The token file {path} cannot be read: {error}") from error
        if not token:
            raise ConfigError(f"The token file {path} is empty.", "Write one line of text into it.")
    if token is None and not is_loopback(server.host):
        raise ConfigError(
            f"server.host is {server.host}, which other machines can reach, and there is no token.",
            f"Write a token to {path} (readable by you only), or set server.host to 127.0.0.1.",
        )
    return Access(server.host, token)


def mcp_security(access: Access) -> TransportSecuritySettings:
    """Return the MCP SDK's own checks to the same rules as `Guard`'s: a second fence, not the only one."""
    if not access.is_local:
        # The Host may be any name of this machine; the token and the Origin check of Guard protect it.
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = _local_names(access)
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*names, *(f"{name}:*" for name in names)],
        allowed_origins=[
            f"{scheme}://{name}{port}"
            for scheme in ("http", "https")
            for name in names
            for port in ("", ":*")
        ],
    )


class Guard:
    """ASGI layer around an app: refuses what may not come in, and adds headers that keep others' pages out."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self._access = access
        self._names = _local_names(access)
        self._log = RefusalLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _RESPONSE_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, send_guarded)
            return
        self._note(refusal, scope)
        if scope["type"] == "websocket":
            await send(
                {"type": "websocket.close", "code": 1008}
            )  # before accept: the client gets 403
        else:
            await _refuse(refusal, send_guarded)

    def _note(self, refusal: RhinoError, scope: Scope) -> None:
        peer = scope.get("client")
        what = f"{scope.get('method', 'WebSocket')} {scope['path']}"
        self._log.write(
            logging.INFO, peer[0] if peer else "unknown", what, refusal.code, refusal.message
        )

    def _refusal(self, scope: Scope) -> RhinoError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        # Of several, the app behind might read another one than was checked.
        if len(headers.getlist("host")) > 1 or not _is_readable(f"//{host}"):
            return HostNotAllowed()
        if len(headers.getlist("origin")) > 1:
            return OriginNotAllowed()
        if self._access.is_local and _name_of(host) not in self._names:
            return HostNotAllowed()
        if scope["type"] == "websocket" or scope["method"] not in _SAFE_METHODS:
            origin = headers.get("origin")
            if origin is not None and not _is_own(origin, host):
                return OriginNotAllowed()
            if origin is None and headers.get("sec-fetch-site") in ("cross-site", "same-site"):
                return OriginNotAllowed()
        if self._access.token and not _is_open(scope):
            given = _given_token(headers)
            if given is None or not hmac.compare_digest(
                given.encode(), self._access.token.encode()
            ):
                return Unauthorized()
        return None


async def _refuse(error: RhinoError, send: Send) -> None:
    unauthorized = isinstance(error, Unauthorized)
    headers = [(b"content-type", b"application/json")]
    if unauthorized:
        headers.append((b"www-authenticate", b"Bearer"))
    body = json.dumps({"code": error.code, "message": error.message, "hint": error.hint}).encode()
    status = 401 if unauthorized else 403
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _local_names(access: Access) -> tuple[str, ...]:
    return (*_LOOPBACK_NAMES, access.host.lower())


def _name_of(host: str) -> str:
    """Return a Host header's name without the port, lower case, brackets kept around an IPv6 address."""
    name, separator, port = host.lower().rpartition(":")
    return name if separator and port.isdigit() else host.lower()


def _is_readable(address: str) -> bool:
    try:
        urlsplit(address)
    except ValueError:  # brackets around what is no IPv6 address
        return False
    return True


def _is_own(origin: str, host: str) -> bool:
    """Return whether an Origin names the server under the Host that was asked for."""
    return bool(host) and _is_readable(origin) and urlsplit(origin).netloc.lower() == host.lower()


def _is_open(scope: Scope) -> bool:
    """Return whether this needs no token: health without a question, and the page, which holds only its own code."""
    path = scope["path"]
    if path == "/api/health":
        return not scope.get("query_string")
    return path in ("/", "/lite") or path.startswith("/lite/")


def _given_token(headers: Headers) -> str | None:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    cookies = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        return None
    return cookies[TOKEN_COOKIE].value if TOKEN_COOKIE in cookies else None
