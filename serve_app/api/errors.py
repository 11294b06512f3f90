"""From an error to its HTTP answer: one table, one body for all of them."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rhino_actors import errors as e
from serve_app.api.deps import address_of
from serve_app.clients import HEADER, UNKNOWN, from_header
from serve_app.refusals import RefusalLog
from serve_app.schemas import error_body
from serve_app.security import HostNotAllowed, OriginNotAllowed, Unauthorized
from serve_app.streams import TooManyStreams

_log = logging.getLogger(__name__)

# The first class that fits counts, so the special ones stand before their bases.
STATUS: tuple[tuple[type[e.RhinoError], int], ...] = (
    (e.ActorTimedOut, 504),
    (e.ActorUnavailable, 503),
    (e.NotAvailable, 503),
    (TooManyStreams, 503),
    (Unauthorized, 401),  # Guard answers with these three
    (HostNotAllowed, 403),
    (OriginNotAllowed, 403),
    (e.RobotNotFound, 404),
    (e.InvalidRequest, 422),
    (e.UnknownCommand, 404),
    (e.NotConnected, 503),
    (e.PlatformError, 409),
    (e.ControlError, 409),
    (e.NoMap, 503),
    (e.GoalOccupied, 422),
    (e.GoalOutsideMap, 422),
    (e.PlanTimedOut, 504),
    (e.PlanningError, 409),
    (e.MissionError, 409),
    (e.PoiNotFound, 404),
    (e.PoiListChanged, 409),
    (e.PoiFileInvalid, 422),
    (e.InvalidLabel, 422),
    (e.MapTooLarge, 413),
    (e.MapFileInvalid, 422),
    (e.MapNotFound, 404),
    (e.MissionNotFound, 404),
    (e.MapNameTaken, 409),
    (e.MapInUse, 409),
    (e.StorageError, 503),
    (e.RhinoError, 500),
)
RETRY_AFTER_S = "1"
# 503 because it is to be asked again, and no failure: a camera that is off is asked for by every page.
_NOT_YET = frozenset({e.NotAvailable.code, e.NoMap.code, TooManyStreams.code})

_HTTP_ERRORS: dict[int, tuple[str, str, str]] = {
    400: ("INVALID_REQUEST", "The request's body cannot be read.", "Send one JSON object, UTF-8."),
    404: ("NOT_FOUND", "There is nothing at this address.", "/openapi.json lists every route."),
    405: (
        "METHOD_NOT_ALLOWED",
        "This address does not take this method.",
        "/openapi.json lists every route.",
    ),
    413: (
        "TOO_LARGE",
        "The request's body is too large.",
        "A body has at most 1 MB, an imported map at most 64 MB.",
    ),
}
UNHEALTHY = (
    "UNHEALTHY",
    "A part that every robot needs does not answer.",
    "It restarts by itself within seconds; see the log otherwise: rhino logs.",
)
_UNEXPECTED = ("INTERNAL", "The server failed at this request.", "See the log: rhino logs.")
# Errors of commands that come before there is a server.
_BEFORE_SERVING = (e.ConfigError, e.DeployError)


def status_of(error: e.RhinoError) -> int:
    """Return the HTTP status of an error."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


class ErrorRow(NamedTuple):
    """One line of the table of all errors."""

    code: str
    status: int | None  # None: only commands end with it
    message: str
    hint: str


def error_table() -> list[ErrorRow]:
    """Return every error that rhino raises or answers with, by code; messages are often more precise than here."""
    plain = _HTTP_ERRORS | {500: _UNEXPECTED, 503: UNHEALTHY}
    rows = {
        code: ErrorRow(code, status, message, hint)
        for status, (code, message, hint) in plain.items()
    }
    for kind in _kinds(e.RhinoError):
        error = kind()
        status = None if isinstance(error, _BEFORE_SERVING) else status_of(error)
        rows[kind.code] = ErrorRow(kind.code, status, error.message, error.hint)
    return sorted(rows.values())


def _kinds(kind: type[e.RhinoError]) -> Iterator[type[e.RhinoError]]:
    yield kind
    for special in kind.__subclasses__():
        yield from _kinds(special)


def install(app: FastAPI) -> None:
    """Give every error of the app the common body, and log it."""
    app.state.refusals = RefusalLog()
    app.add_exception_handler(e.RhinoError, _rhino_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_middleware(Unexpected)


async def _rhino_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, e.RhinoError), "registered for RhinoError"
    status = status_of(error)
    holder = error.holder if isinstance(error, e.ControlHeld) else None
    return _answer(
        request,
        error_body(error.code, error.message, error.hint, holder),
        status,
        {"Retry-After": RETRY_AFTER_S} if status == 503 else None,
    )


def _answer(
    request: Request, body: dict[str, Any], status: int, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    log: RefusalLog = request.app.state.refusals
    # For the access log, the layer around everything.
    request.scope.get("state", {}).get("refusal", {}).update(
        code=body["code"], holder=body.get("holder", "")
    )
    given = request.headers.get(HEADER)
    log.write(
        logging.ERROR if status >= 500 and body["code"] not in _NOT_YET else logging.INFO,
        from_header(given) if given else address_of(request) or UNKNOWN,
        f"{request.method} {request.url.path}",
        body["code"],
        body["message"],
        body.get("holder", ""),
    )
    return JSONResponse(body, status, headers)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError), "registered for RequestValidationError"
    hint = (
        "Numbers are JSON numbers, finite and in SI units: m, s, rad. /openapi.json has the fields."
    )
    return _answer(request, error_body("INVALID_REQUEST", _first_problem(error), hint), 422)


def _first_problem(error: RequestValidationError) -> str:
    """Return one sentence that names the field; what was sent is not repeated."""
    problems = error.errors()
    if not problems:
        return e.InvalidRequest.default_message
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    text = (
        "the body is not JSON"
        if first["type"] == "json_invalid"
        else str(first["msg"]).removeprefix("Value error, ")
    )
    more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
    named = first["type"] != "json_invalid" and place
    return f"{place}: {text}{more}." if named else f"{text[:1].upper()}{text[1:]}{more}."


async def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException), "registered for HTTPException"
    known = _HTTP_ERRORS.get(error.status_code)
    code, message, hint = known or (f"HTTP_{error.status_code}", str(error.detail), "")
    headers = error.headers
    if error.status_code == 405 and (methods := request.app.state.routes.methods(request.url.path)):
        # The framework names the methods of one of the routes at the path only.
        headers = {"Allow": ", ".join(sorted(methods))}
    return _answer(request, error_body(code, message, hint), error.status_code, headers)


class Unexpected:
    """ASGI layer: an exception that nobody foresaw is logged whole and answered with 500 and no details."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started = False

        async def send_noting(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, send_noting)
        except Exception:
            if started:
                raise  # too late for an answer; the server cuts the connection and logs it
            _log.exception("%s %s failed", scope["method"], scope["path"])
            await JSONResponse(error_body(*_UNEXPECTED), 500)(scope, receive, send)
