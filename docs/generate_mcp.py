"""Write the tables of docs/mcp.md from the server itself.

    python docs/generate_mcp.py

What is between the marks is replaced; the rest of the page is written by hand.
"""

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcp_types import Tool

from rhino_actors.config import load_config
from serve_app.app import create_mcp
from serve_app.handles import connect

DOCUMENT = Path(__file__).resolve().parent / "mcp.md"
BEGIN, END = "<!-- begin: generated -->", "<!-- end: generated -->"


async def document(text: str) -> str:
    """Return the page's text with its tables up to date."""
    tables = await _tables()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


async def _tables() -> str:
    server = create_mcp(connect(load_config("sim")))
    lines = ["| tool | arguments | does | kind |", "|---|---|---|---|"]
    lines += [
        _row(
            f"`{tool.name}`",
            _arguments(tool),
            _first_sentences(tool.description or ""),
            _kind(tool),
        )
        for tool in await server.list_tools()
    ]
    lines += ["", "| resource | holds | type |", "|---|---|---|"]
    lines += [
        _row(f"`{each.uri}`", each.description or "", each.mime_type or "")
        for each in await server.list_resources()
    ]
    lines += [
        _row(f"`{each.uri_template}`", each.description or "", each.mime_type or "")
        for each in await server.list_resource_templates()
    ]
    lines += ["", "| prompt | arguments | does |", "|---|---|---|"]
    lines += [
        _row(
            f"`{each.name}`",
            ", ".join(f"`{argument.name}`" for argument in each.arguments or ()),
            each.description or "",
        )
        for each in await server.list_prompts()
    ]
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _arguments(tool: Tool) -> str:
    properties: dict[str, dict[str, Any]] = tool.input_schema["properties"]
    required = tool.input_schema.get("required", [])
    return ", ".join(
        f"`{name}`{'' if name in required else '?'}{_unit(schema)}"
        for name, schema in properties.items()
        if name != "robot"
    )


def _unit(schema: dict[str, Any]) -> str:
    found = re.match(r"\[[^\]]*\]", schema.get("description", ""))
    return f" {found[0]}" if found else ""


def _first_sentences(text: str) -> str:
    """Return the first paragraph in one line."""
    return " ".join(text.strip().split("\n\n")[0].split())


def _kind(tool: Tool) -> str:
    hints = tool.annotations
    assert hints is not None, "every tool has annotations"
    words: Iterable[tuple[bool | None, str]] = (
        (hints.read_only_hint, "reads"),
        (hints.destructive_hint and not hints.read_only_hint, "moves the robot"),
        (hints.idempotent_hint, "ends a movement"),
    )
    return ", ".join(word for is_so, word in words if is_so) or "notes"


if __name__ == "__main__":
    written = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(asyncio.run(document(written)), encoding="utf-8")
