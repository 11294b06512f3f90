"""Write docs/errors.md and the table of routes in docs/api.md from the server's own code.

    python docs/generate_api.py
    python docs/generate_api.py --openapi openapi.json

The second line writes the OpenAPI description for a client generator, without starting anything; a running server has
the same at /openapi.json.
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from rhino_actors.config import RhinoConfig
from serve_app.api.errors import error_table
from serve_app.app import create_api
from serve_app.handles import connect

ROOT = Path(__file__).resolve().parent.parent
ERRORS = ROOT / "docs" / "errors.md"
API = ROOT / "docs" / "api.md"
_OF_A_ROBOT = "/api/robots/{robot}/"
_BEGIN, _END = "<!-- routes: generated -->", "<!-- end of routes -->"

ERRORS_INTRODUCTION = """\
# Errors

Generated from the classes in `rhino_actors/errors.py` and `serve_app` by `python docs/generate_api.py`; do not edit by
hand.

Every error of the API, of MCP and of the command line has a stable `code`, one sentence that says what is wrong and a
hint that says what to do. Over HTTP they are the body of the answer, with the status below; over MCP the text of a tool
error. The sentence of an answer is often more precise than the one here. With 503 comes `Retry-After` in seconds.

| code | status | message | hint |
|---|---|---|---|
"""


def description() -> dict[str, Any]:
    """Return the OpenAPI description of the default configuration."""
    spec: dict[str, Any] = create_api(connect(RhinoConfig())).openapi()
    return spec


def errors_document() -> str:
    """Return the text of docs/errors.md."""
    lines = [
        f"| `{row.code}` | {row.status or 'command line'} | {_cell(row.message)} | {_cell(row.hint)} |\n"
        for row in error_table()
    ]
    return ERRORS_INTRODUCTION + "".join(lines)


def with_routes(text: str) -> str:
    """Return docs/api.md with its table of routes brought up to date. Raises ValueError without the two marks."""
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{API} lacks {_BEGIN} or {_END}")
    return f"{head}{begin}\n{_routes()}{end}{tail}"


def _routes() -> str:
    lines = ["| route | what it does | answers | operation |\n", "|---|---|---|---|\n"]
    for path, item in description()["paths"].items():
        if path.startswith(_OF_A_ROBOT):
            continue
        for method, operation in item.items():
            sentence = re.split(r"(?<=[.?])\s", operation["description"])[0]
            # 401, 403, 422, 503 and 504 are said once for all.
            statuses = [s for s in sorted(operation["responses"]) if s not in _EVERYWHERE]
            lines.append(
                f"| `{method.upper()} {path}` | {_cell(sentence)} | {' '.join(statuses)} "
                f"| `{operation['operationId']}` |\n"
            )
    return "".join(lines)


_EVERYWHERE = ("400", "401", "403", "413", "422", "503", "504")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--openapi", type=Path, help="write the OpenAPI description to this file")
    target = parser.parse_args().openapi
    if target:
        target.write_text(json.dumps(description(), indent=1) + "\n", encoding="utf-8")
    else:
        ERRORS.write_text(errors_document(), encoding="utf-8")
        API.write_text(with_routes(API.read_text(encoding="utf-8")), encoding="utf-8")
