"""As much of HTTP as signalling and the control port need: one request per connection, asyncio alone."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

MAX_BODY = 1_000_000  # [bytes]
HEAD_TIMEOUT_S = 10.0

# (method, path, body) -> (status, text)
Handler = Callable[[str, str, bytes], Awaitable[tuple[int, str]]]


async def serve(host: str, port: int, handler: Handler) -> asyncio.Server:
    """Answer requests at host and port until the server is closed. Raises OSError when the port is taken."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_S):
                method, path, body = await _read(reader)
            status, text = await handler(method, path, body)
            data = text.encode()
            writer.write(
                f"HTTP/1.1 {status} -\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode()
                + data
            )
            await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the other side went away, or does not speak HTTP
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port)


async def request(host: str, port: int, method: str, path: str, body: Any = None) -> Any:
    """Send JSON and return the JSON of the answer. Raises OSError, or ValueError for a refusal."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        await writer.drain()
        status = (await reader.readline()).split()
        raw = await reader.read()
    finally:
        writer.close()
    text = raw.partition(b"\r\n\r\n")[2]
    if status[1] != b"200":
        raise ValueError(text.decode())
    return json.loads(text)


async def _read(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    words = (await reader.readline()).decode("latin-1").split()
    if len(words) < 2:
        raise ValueError("not a request")
    length = 0
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            length = int(value)
    if not 0 <= length <= MAX_BODY:
        raise ValueError("too long")
    return words[0], words[1], await reader.readexactly(length)
