"""GET /events: everything that changes, as server-sent events; GET /api/health/streams: how many streams are open."""

from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent

from serve_app import streams
from serve_app.api.deps import MailboxDep, RobotDep, ServicesDep, StreamSlot, errors
from serve_app.schemas import Health
from serve_app.stream_schemas import Hello, OpenStreams
from serve_app.streams import EVENT_BYTES, Allowance

router = APIRouter(tags=["events"])
server_router = APIRouter(tags=["events"])

RECONNECT_MS = 500


@router.get(
    "/events",
    response_class=EventSourceResponse,
    responses=errors(),
)
async def events(
    mailbox: MailboxDep, robot: RobotDep, client: StreamSlot
) -> AsyncIterator[ServerSentEvent]:
    """Send events; each carries the whole of what it is about.

    `hello` (Hello) once, first · `state` (StateEvent) several times a second, fewer for more than 15 listeners ·
    `gate` (Gate) when holder, latch or reason change · `nav` (NavigateStatus, with the path) and `mission` (Mission)
    on each change · `localisation` (Localisation) when its state or sentence changes · `map_update` (MapUpdate) at
    most twice a second: fetch /map again · `poi_update` (PoiUpdate): who did not see version `since`, or is told null,
    fetches /pois again.

    With the header Last-Event-ID, which event sources send by themselves, what was missed comes first if the server
    still has it, else the newest of everything. A client that is slow misses what was overtaken. The stream ends after
    two minutes or 2 MB; event sources connect again by themselves. 503 with code TOO_MANY_STREAMS when too many are
    open.
    """
    allowance = Allowance(EVENT_BYTES, streams.EVENT_LIFE_S)
    hello = Hello(
        robot=robot.name, client=client, resumed=mailbox.resumed, replayed=mailbox.replayed
    )
    yield ServerSentEvent(event="hello", raw_data=hello.model_dump_json(), retry=RECONNECT_MS)
    while not allowance.is_used_up:
        for event in await mailbox.take():
            allowance.spend(len(event.data))
            yield ServerSentEvent(event=event.name, id=event.id, raw_data=event.data)


@server_router.get("/api/control/health", include_in_schema=False, response_model_exclude_none=True)
async def control_health() -> Health:
    """Say that the server of driving and stopping answers; open to everyone."""
    return Health(status="ok")


@server_router.get("/api/health/streams", responses=errors())
@server_router.get("/api/control/streams", include_in_schema=False)
async def open_streams(request: Request, services: ServicesDep) -> OpenStreams:
    """Count what is open here, in the server of events and video; /api/control/streams counts in that of driving."""
    return OpenStreams(
        app=request.app.state.name,
        open=services.streams.open,
        waiting=services.waits.open,
        limit=services.handles.server.max_streams,
    )
