"""GET /events: everything that changes, as server-sent events."""

from collections.abc import AsyncIterator

from fastapi import APIRouter
from fastapi.sse import EventSourceResponse, ServerSentEvent

from serve_app.api.deps import MailboxDep, errors
from serve_app.streams import EVENT_BYTES, Allowance

router = APIRouter(tags=["events"])

RECONNECT_MS = 1000


@router.get(
    "/events",
    response_class=EventSourceResponse,
    responses=errors(),
)
async def events(mailbox: MailboxDep) -> AsyncIterator[ServerSentEvent]:
    """Send events; each carries the whole of what it is about, and the newest of each comes first on connect.

    `state` (StateEvent) several times a second · `gate` (Gate) when holder, latch or reason change · `nav`
    (NavigateStatus, with the path) and `mission` (Mission) on each change · `localisation` (Localisation) when its
    state or sentence changes · `map_update` {epoch, seq, empty} at most twice a second: fetch /map again ·
    `poi_update` {version, since, added, changed, removed (ids), reordered}: who did not see version `since`, or is told
    null, fetches /pois again. A client that is slow misses what was overtaken. The stream ends after five minutes or
    4 MB; event sources connect again by themselves. 503 with code TOO_MANY_STREAMS when too many are open.
    """
    allowance = Allowance(EVENT_BYTES)
    yield ServerSentEvent(comment="rhino", retry=RECONNECT_MS)
    while not allowance.is_used_up:
        for event in await mailbox.take():
            allowance.spend(len(event.data))
            yield ServerSentEvent(event=event.name, id=str(event.id), raw_data=event.data)
