"""/ws: events and commands over one WebSocket, and the schema of its messages."""

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Query, WebSocket, WebSocketDisconnect

from rhino_actors.errors import RhinoError
from serve_app.api.deps import Services, errors
from serve_app.clients import HEADER, client_name, from_header
from serve_app.refusals import RefusalLog
from serve_app.socket_session import (
    POLICY,
    TRY_AGAIN_LATER,
    Closing,
    Session,
    closing_message,
)
from serve_app.stream_schemas import ClientMessage, ServerMessage, SocketSchemas
from serve_app.streams import TooManyStreams

router = APIRouter(tags=["events"])


@router.get("/ws/schema", responses=errors())
async def schema() -> SocketSchemas:
    """Return the JSON Schemas of the WebSocket's messages, which OpenAPI does not describe."""
    return SocketSchemas(
        client=ClientMessage.json_schema(by_alias=True),
        server=ServerMessage.json_schema(mode="serialization"),
    )


@router.websocket("/ws")
async def socket(
    websocket: WebSocket,
    client: Annotated[str | None, Query()] = None,
    last_event_id: Annotated[str | None, Query()] = None,
) -> None:
    """Serve one client; docs/streams.md has the messages."""
    services: Services = websocket.app.state.services
    refusals: RefusalLog = websocket.app.state.refusals
    await websocket.accept()
    try:
        robot = services.handles.robot(websocket.path_params.get("robot"))
        given = client or websocket.headers.get(HEADER)
        peer = websocket.client
        name = client_name(from_header(given) if given else None, peer.host if peer else None)
        hub = services.hubs[robot.name]
        with services.streams.slot():
            async with hub.listen(last_event_id) as mailbox:
                await Session(_Socket(websocket), robot, name, mailbox, refusals).run()
    except Closing as closing:
        await _close(websocket, closing.code, closing.error)
    except TooManyStreams as error:
        await _close(websocket, TRY_AGAIN_LATER, error)
    except RhinoError as error:
        await _close(websocket, POLICY, error)
    except WebSocketDisconnect:
        return


async def _close(websocket: WebSocket, code: int, error: RhinoError) -> None:
    with suppress(RuntimeError, WebSocketDisconnect):  # it is gone already
        await websocket.send_text(closing_message(error))
        await websocket.close(code, error.code)


class _Socket:
    """Starlette's WebSocket, as a session wants it."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket

    async def receive(self) -> str | None:
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            return None
        text: str | None = message.get("text")
        return text if text is not None else ""  # bytes are no message of ours

    async def send(self, text: str) -> None:
        with suppress(RuntimeError, WebSocketDisconnect):  # closed, which `receive` says too
            await self._websocket.send_text(text)
