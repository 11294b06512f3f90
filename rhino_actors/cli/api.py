"""How commands speak to a deployment: through its REST API, and to the user: through two consoles."""

import math
import os
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console

from rhino_actors.access_token import read_token
from rhino_actors.config import load_config, token_path
from rhino_actors.errors import (
    InvalidRequest,
    NotRunning,
    RhinoError,
)
from rhino_actors.run_record import (
    RunRecord,
)

console = Console()
errors = Console(stderr=True)

CLIENT_NAME = "cli"


def running_record() -> RunRecord | None:
    """Return the record of the deployment that runs; None when none does."""
    record = RunRecord.load()
    return record if record and record.process() else None


def url() -> str:
    """Return where the API is. Raises NotRunning, ConfigError."""
    if "RHINO_URL" in os.environ:
        return os.environ["RHINO_URL"].rstrip("/")
    record = running_record()
    if record:
        return record.url
    if "RHINO_PORT" in os.environ:
        return f"http://127.0.0.1:{load_config('sim').server.port}"
    raise NotRunning()


def call(
    method: str,
    route: str,
    body: dict[str, Any] | None = None,
    timeout: float = 20.0,
    *,
    content: bytes | None = None,
    query: dict[str, str] | None = None,
) -> Any:
    """Ask the API and return its answer: JSON as objects, a file as bytes.

    Args:
        method: of HTTP.
        route: path below the API's address.
        body: sent as JSON.
        timeout: [s]
        content: sent as it is, a file.
        query: parameters of the route.

    Raises:
        RhinoError: with the API's own code, message and hint.
    """
    headers = {"X-Rhino-Client": CLIENT_NAME}
    record = running_record()
    token = Path(record.token_file) if record else token_path()
    if token.is_file():
        headers["Authorization"] = f"Bearer {read_token(token)}"
    address = url()
    try:
        answer = httpx2.request(
            method,
            address + route,
            json=body,
            content=content,
            params=query,
            headers=headers,
            timeout=timeout,
        )
    except httpx2.ConnectError as error:
        raise NotRunning(f"Nothing answers at {address}.", "Start it: rhino deploy sim.") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise NotRunning(
            f"{address} does not answer: {error}", "rhino status; rhino logs."
        ) from error
    if answer.is_error:
        raise _api_error(answer)
    kind = answer.headers.get("content-type", "")
    if answer.content and not kind.startswith("application/json"):
        return answer.content
    return answer.json() if answer.content else None


def _api_error(answer: httpx2.Response) -> RhinoError:
    try:
        said = answer.json()
        error = RhinoError(str(said["message"]), str(said["hint"]))
        error.code = str(said["code"])
    except (ValueError, KeyError, TypeError):
        error = RhinoError(f"The server answered {answer.status_code}: {answer.text[:200]}")
    return error


def read_numbers(words: list[str]) -> dict[str, float]:
    """Read words of the form key=number. Raises InvalidRequest."""
    numbers: dict[str, float] = {}
    for word in words:
        key, equals, number = word.partition("=")
        try:
            numbers[key] = float(number)
        except ValueError:
            equals = ""
        if not equals or not math.isfinite(numbers[key]):
            raise InvalidRequest(f"{word!r} is not key=number.", "For example: roll=0.2.")
    return numbers
