"""The access log and the requests' metrics: one ASGI layer around a server, which sees refusals of every kind.

A request gets a line of its own when it asks for a change, fails, or was a stream that has ended. What comes many times
a second, reads and velocities that succeed, is summed: one line a minute for each client, route and status. The same
failure of the same client is written once a second at most. So the file grows by what happens, not by how often a page
looks, and it rotates.
"""

import json
import logging
import time
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serve_app.clients import HEADER, MAX_CLIENT_NAME, UNKNOWN, from_header
from serve_app.route_table import RouteTable

FILE_BYTES = 2_000_000
FILES = 4  # the newest and those before
SUM_PERIOD_S = 60.0
SILENCE_S = 1.0
MAX_KEYS = 500  # sums and failures that are remembered
# Renewed many times a second while somebody drives.
_FREQUENT = ("/velocity", "/send_velocity")
_STREAMS = ("/events", "/camera/stream", "/ws")
_READS = frozenset({"GET", "HEAD"})


class RequestMeters(Protocol):
    """Where the figures of requests go."""

    def request(
        self, method: str, route: str, robot: str, status: int, seconds: float, *, is_stream: bool
    ) -> None:
        """Count one request that has ended."""

    def refusal(self, code: str) -> None:
        """Count one answer with an error."""


@dataclass
class _Sum:
    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0


@dataclass(frozen=True)
class Entry:
    """One request that has ended."""

    robot: str
    client: str
    method: str
    route: str  # its template
    status: int
    seconds: float
    code: str = ""  # of a refusal
    holder: str = ""  # who drives, where that is why

    @property
    def is_frequent(self) -> bool:
        is_read = self.method in _READS and not self.is_stream
        return self.status < 400 and (is_read or self.route.endswith(_FREQUENT))

    @property
    def is_stream(self) -> bool:
        return self.route.endswith(_STREAMS)


class Journal:
    """Writes entries, or sums of them, to a log."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._sums: dict[tuple[str, str, str, str, int], _Sum] = {}
        self._since = time.monotonic()
        self._failures: dict[tuple[str, str, int], float] = {}

    def note(self, entry: Entry) -> None:
        """Take one request that has ended."""
        now = time.monotonic()
        if now - self._since >= SUM_PERIOD_S or len(self._sums) >= MAX_KEYS:
            self.flush()
        if entry.is_frequent:
            key = (entry.robot, entry.client, entry.method, entry.route, entry.status)
            total = self._sums.setdefault(key, _Sum())
            total.count += 1
            total.seconds += entry.seconds
            total.longest = max(total.longest, entry.seconds)
        elif entry.status < 400 or self._is_news(entry, now):
            self._write(
                entry.robot,
                entry.client,
                entry.method,
                entry.route,
                entry.status,
                ms=round(entry.seconds * 1000.0, 1),
                code=entry.code or None,
                holder=entry.holder or None,
            )

    def flush(self) -> None:
        """Write the sums, and begin new ones."""
        now = time.monotonic()
        for key, total in self._sums.items():
            self._write(
                *key,
                count=total.count,
                within_s=round(now - self._since),
                ms=round(total.seconds / total.count * 1000.0, 1),
                ms_max=round(total.longest * 1000.0, 1),
            )
        self._sums.clear()
        self._since = now

    def _is_news(self, entry: Entry, now: float) -> bool:
        key = (entry.client, entry.route, entry.status)
        if now - self._failures.get(key, -SILENCE_S) < SILENCE_S:
            return False
        if len(self._failures) >= MAX_KEYS:
            self._failures.clear()
        self._failures[key] = now
        return True

    def _write(
        self, robot: str, client: str, method: str, route: str, status: int, **more: Any
    ) -> None:
        words = [
            f"robot={_quoted(robot) if robot else '-'}",
            f"client={_quoted(client)}",
            f"{method} {route} {status}",
            *(
                f"{key}={_quoted(value) if isinstance(value, str) else value}"
                for key, value in more.items()
                if value is not None
            ),
        ]
        self._log.info("%s", " ".join(words))


def open_log(path: Path | None) -> logging.Logger:
    """Return the logger of the access log, which writes to a rotating file; without a path it writes nowhere new."""
    log = logging.getLogger("serve_app.access")
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = RotatingFileHandler(
            path, maxBytes=FILE_BYTES, backupCount=FILES - 1, encoding="utf-8"
        )
        file.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.handlers = [file]
        log.setLevel(logging.INFO)
        log.propagate = False
    return log


class AccessLog:
    """ASGI layer: times each request and gives it to the journal and the meters."""

    def __init__(
        self,
        app: ASGIApp,
        routes: RouteTable,
        robots: tuple[str, ...],
        journal: Journal,
        meters: RequestMeters | None = None,
    ) -> None:
        """Wrap an app.

        Args:
            app: what answers.
            routes: of the app.
            robots: names; the first is the one that /api/... means.
            journal: for the log.
            meters: for the metrics; None: nothing is counted.
        """
        self.app = app
        self._routes = routes
        self._robots = robots
        self._journal = journal
        self._meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        started = time.monotonic()
        status = 499  # as proxies say when the client left before an answer
        # The error handlers put code and holder in.
        refusal: dict[str, str] = scope.setdefault("state", {}).setdefault("refusal", {})

        async def send_noting(message: Message) -> None:
            nonlocal status
            kind = message["type"]
            if kind in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
            elif kind == "websocket.accept":
                status = 101
            elif kind == "websocket.close" and status == 499:
                status = 403  # what the server answers for one that was never accepted
            await send(message)

        try:
            await self.app(scope, receive, send_noting)
        finally:
            self._note(scope, status, time.monotonic() - started, refusal)

    def _note(self, scope: Scope, status: int, seconds: float, refusal: dict[str, str]) -> None:
        route = self._routes.template(scope["path"])
        entry = Entry(
            robot=self._robot(scope["path"], route),
            client=_client(scope),
            method=_method(scope),
            route=route,
            status=status,
            seconds=seconds,
            code=refusal.get("code", ""),
            holder=refusal.get("holder", ""),
        )
        self._journal.note(entry)
        if self._meters is not None:
            self._meters.request(
                entry.method, route, entry.robot, status, seconds, is_stream=entry.is_stream
            )
            if entry.code:
                self._meters.refusal(entry.code)

    def _robot(self, path: str, route: str) -> str:
        if route.startswith("/api/robots/{robot}/"):
            name = path.split("/")[3]
            return name if name in self._robots else ""
        about_none = not route.startswith("/api/") or route in ("/api/robots", "/api/health")
        return "" if about_none else self._robots[0]


_KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _method(scope: Scope) -> str:
    """Return the method; what a client makes up must not become a label."""
    if scope["type"] == "websocket":
        return "WS"
    method: str = scope["method"]
    return method if method in _KNOWN_METHODS else "OTHER"


def _client(scope: Scope) -> str:
    wanted = HEADER.lower().encode()
    given = next((value for name, value in scope["headers"] if name == wanted), b"")
    if given:
        return from_header(given.decode("latin-1"))[:MAX_CLIENT_NAME]
    # Event sources, pictures and sockets of a browser have no headers of their own.
    query: str = scope["query_string"].decode("latin-1")
    for name, value in parse_qsl(query):
        if name == "client":
            return value[:MAX_CLIENT_NAME]
    peer: tuple[str, int] | None = scope.get("client")
    return peer[0] if peer else UNKNOWN


def _quoted(text: str) -> str:
    """Return text as one harmless word: a client's name may hold anything."""
    return json.dumps(text[:200], ensure_ascii=True)
