"""Who may talk to the server: Host, Origin and token checks in one pure-ASGI layer, for HTTP and WebSockets alike.

* Host: with a loopback bind only loopback names are served, so a page whose name was re-bound to 127.0.0.1 is not.
* Origin: a request that changes something, or opens a WebSocket, must come from this server's own pages or from a
  program that sends no Origin (curl, the command line).
* Token: with a token, everything but health, the static page and signing in needs it, as bearer or, for what a browser
  opens without headers (images, event streams), as the cookie of a session (`POST /api/session`). The cookie holds a
  digest of the token, not the token; it ends when the token is replaced.
"""

import hashlib
import hmac
import json
import logging
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhino_actors.errors import RhinoError
from serve_app.access import Access
from serve_app.refusals import RefusalLog

TOKEN_COOKIE = "rhino_session"
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
    default_hint = "Send Authorization: Bearer TOKEN; a browser signs in with POST /api/session."


def session_value(token: str) -> str:
    """Return what the cookie of a browser's session holds."""
    return hmac.new(token.encode(), b"rhino browser session", hashlib.sha256).hexdigest()


def is_token(access: Access, given: str) -> bool:
    """Say whether a text is the token, in a time that tells nothing of it."""
    own = access.token
    return own is not None and hmac.compare_digest(given.encode(errors="replace"), own.encode())


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
            if not _is_authorised(headers, self._access):
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
    """Return whether this needs no token: health without a question, signing in, and the page, which is only code."""
    path = scope["path"]
    if path in ("/api/health", "/api/control/health"):
        return not scope.get("query_string")
    return path in ("/", "/lite", "/api/session") or path.startswith("/lite/")


def _is_authorised(headers: Headers, access: Access) -> bool:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return is_token(access, value.strip())
    cookies = SimpleCookie()
    try:
        cookies.load(headers.get("cookie", ""))
    except CookieError:
        return False
    if TOKEN_COOKIE not in cookies or access.token is None:
        return False
    expected = session_value(access.token)
    return hmac.compare_digest(cookies[TOKEN_COOKIE].value.encode(), expected.encode())
