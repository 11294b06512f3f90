"""Bodies are JSON, whatever a client calls them, and of a bounded size; those of imported maps are large."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1_000_000
MAX_MAP_BYTES = 64_000_000
_MAP_ROUTE = "/maps/import"
# What curl -d, fetch() with a string and browsers' forms call a body that is JSON all the same.
_NAMED_WRONGLY = (b"application/x-www-form-urlencoded", b"text/plain", b"application/octet-stream")


class JsonBodies:
    """ASGI layer: gives a body without a type, or with one that clients send by default, the type JSON.

    Pages of other sites gain nothing by it: Guard refuses them by their Origin before. A body beyond the limit is
    refused with 413 as soon as that is known, whether or not the client said its length.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
            return
        headers = scope["headers"]
        given = next((value for name, value in headers if name == b"content-type"), b"")
        if not given or given.split(b";")[0].strip().lower() in _NAMED_WRONGLY:
            kept = [(name, value) for name, value in headers if name != b"content-type"]
            scope = {**scope, "headers": [*kept, (b"content-type", b"application/json")]}
        limit = MAX_MAP_BYTES if scope["path"].endswith(_MAP_ROUTE) else MAX_BODY_BYTES
        declared = next((value for name, value in headers if name == b"content-length"), b"0")
        too_large = declared.isdigit() and (len(declared) > 12 or int(declared) > limit)
        received = 0

        async def receive_bounded() -> Message:
            nonlocal received
            if too_large:
                raise HTTPException(413)
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413)
            return message

        await self.app(scope, receive_bounded, send)
