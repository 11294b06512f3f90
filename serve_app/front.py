"""Which server a request belongs to: driving and stopping have a Serve application of their own.

Serve chooses an application by the longest prefix of the path, and what moves the robot has many paths
(`/api/velocity`, `/api/robots/go2/estop`, ...). Serve's HTTP proxy therefore loads `middlewares` (named to it in the
environment, see ray_cluster) and puts CONTROL_PREFIX before those paths; the server takes it away again, so clients
never see it. A proxy that was started without it sends everything to the server of REST, which has the same routes.

Imported in the proxy's process: no more than Starlette may be needed here.
"""

import re

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTROL_PREFIX = "/control"
APP_HEADER = "X-Rhino-App"
_CONTROL_PATHS = re.compile(
    r"/api/(?:robots/[^/]+/)?(?:velocity|stop|estop|control|ws|cmd/StopMove)(?:/|$)"
)
_STOPS = re.compile(
    r"/api/(?:robots/[^/]+/)?"
    r"(?:stop|estop|cmd/StopMove|cmd/Damp|navigate/cancel|(?:explore|patrol)/(?:stop|pause))/?$"
)
# Serve's: with the value ?1 it does not cancel a request whose client has gone.
_TO_THE_END = b"x-request-disconnect-disabled"


def belongs_to_control(path: str) -> bool:
    """Return whether the server of driving and stopping answers at this path."""
    return _CONTROL_PATHS.match(path) is not None


def is_stop(method: str, path: str) -> bool:
    """Return whether this request ends a movement."""
    return method == "POST" and _STOPS.match(path) is not None


def middlewares() -> list[Middleware]:
    """Return what Serve's HTTP proxy puts around itself."""
    return [Middleware(ToControl)]


class ToControl:
    """ASGI layer in the proxy: puts the prefix before the paths of driving and stopping.

    What ends a movement is carried out even if its client has gone since it asked. Every other request ends with its
    client, whatever its headers say.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope.get("path", "")
        if scope["type"] in ("http", "websocket") and belongs_to_control(asked):
            path = CONTROL_PREFIX + asked
            scope = {**scope, "path": path, "raw_path": path.encode()}
        if scope["type"] == "http":
            headers = [pair for pair in scope["headers"] if pair[0].lower() != _TO_THE_END]
            if is_stop(scope["method"], asked):
                headers.append((_TO_THE_END, b"?1"))
            scope = {**scope, "headers": headers}
        await self.app(scope, receive, send)


class FromFront:
    """ASGI layer around a server: takes the prefix away, and says in a header which server answered."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self.app = app
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        if scope["path"].startswith(CONTROL_PREFIX + "/"):
            path = scope["path"].removeprefix(CONTROL_PREFIX)
            scope = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault(APP_HEADER, self._name)
            await send(message)

        await self.app(scope, receive, send_named)
