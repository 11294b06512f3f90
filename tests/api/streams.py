"""An endless response cannot be read through the test client, which waits for its end: this reads one as it comes.

Many requests at once go through it too, since the test client has one at a time.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message


class Stream:
    """One request whose client reads until `enough` is true of the bytes so far, then goes away."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self._gone = asyncio.Event()

    @classmethod
    async def read(
        cls,
        app: ASGIApp,
        url: str,
        enough: Callable[[bytes], bool],
        limit_s: float = 10.0,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
    ) -> "Stream":
        stream = cls()
        parts = urlsplit(url)
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "headers": [(b"host", b"localhost:8000"), *_encoded(headers or {})],
            "client": ("127.0.0.1", 5000),
            "server": ("127.0.0.1", 8000),
        }

        async def receive() -> Message:
            await stream._gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                stream.status = message["status"]
                stream.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                stream.body += message.get("body", b"")
                if enough(stream.body):
                    stream._gone.set()

        async with asyncio.timeout(limit_s):
            await app(scope, receive, send)
        return stream


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]


def sse_events(body: bytes) -> list[tuple[str, str]]:
    """Return (event, data) of each complete event."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "event" in fields:
            found.append((fields["event"], fields["data"]))
    return found
