"""What routes are given: the path's robot, the client's name, the shared services, a place for a stream.

All of it is `async`: FastAPI takes anything else to a thread, where a place that is taken while its client leaves is
never given back, and where a stop would wait for a free thread.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request

from rhino_actors.errors import InvalidRequest
from serve_app.camera_feed import CameraFeed
from serve_app.clients import client_name, from_header
from serve_app.events import EventHub, Mailbox
from serve_app.handles import Handles, Robot
from serve_app.map_view import MapView
from serve_app.probes import Probes
from serve_app.schemas import ErrorBody
from serve_app.streams import FILMS_PER_CLIENT, StreamLimit

MAX_UPLOADS = 2
Scrape = Callable[[], Awaitable[str]]


@dataclass(frozen=True)
class Services:
    """What the requests of one server process share."""

    handles: Handles
    streams: StreamLimit  # events and films
    films: StreamLimit  # MJPEG, which are streams too
    waits: StreamLimit  # requests that wait for a frame: counted apart, so that they lock out no stream, and none them
    uploads: StreamLimit  # of maps, which are large
    maps: dict[str, MapView]
    hubs: dict[str, EventHub]
    cameras: dict[str, CameraFeed]
    probes: Probes
    scrape: Scrape  # of Ray's metrics

    @classmethod
    def of(cls, handles: Handles, scrape: Scrape) -> "Services":
        """Return the services over these handles, nothing running yet."""
        return cls(
            handles=handles,
            streams=StreamLimit(handles.server.max_streams),
            films=StreamLimit(handles.server.max_streams, FILMS_PER_CLIENT),
            waits=StreamLimit(handles.server.max_streams),
            uploads=StreamLimit(MAX_UPLOADS),
            maps={name: MapView(robot) for name, robot in handles.robots.items()},
            hubs={name: EventHub(handles, robot) for name, robot in handles.robots.items()},
            cameras={name: CameraFeed(robot) for name, robot in handles.robots.items()},
            probes=Probes(handles),
            scrape=scrape,
        )

    def open_streams(self) -> dict[str, int]:
        """Return how many streams and waiting requests are open, by kind."""
        limits = {"events": self.streams, "films": self.films, "waits": self.waits}
        counts = {kind: limit.open for kind, limit in limits.items()}
        counts["events"] -= counts["films"]  # films are streams too
        return counts

    def close(self) -> None:
        """Stop everything that runs in the background."""
        for hub in self.hubs.values():
            hub.close()
        for camera in self.cameras.values():
            camera.close()
        self.probes.close()


async def get_services(request: Request) -> Services:
    """Return what the requests of this process share."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(get_services)]


async def get_handles(services: ServicesDep) -> Handles:
    """Return the handles of the deployment."""
    return services.handles


HandlesDep = Annotated[Handles, Depends(get_handles)]


async def get_robot(request: Request, handles: HandlesDep) -> Robot:
    """Return the robot of /api/robots/{robot}/..., or the default one of /api/..."""
    return handles.robot(request.path_params.get("robot"))


RobotDep = Annotated[Robot, Depends(get_robot)]


async def named_robot(
    robot: Annotated[str, Path(description="name of the robot; GET /api/robots lists them")],
) -> str:
    """Put the path parameter of /api/robots/{robot}/... into the API's description."""
    return robot


def address_of(request: Request) -> str | None:
    """Return the peer's address without the port, which a client changes as it likes."""
    return request.client.host if request.client else None


async def get_client(
    request: Request,
    x_rhino_client: Annotated[
        str | None,
        Header(description="the client's name, shown to others; without it: its address"),
    ] = None,
) -> str:
    """Return the client's name, from the header, else its address. Raises InvalidRequest."""
    given = from_header(x_rhino_client) if x_rhino_client is not None else None
    return client_name(given, address_of(request))


ClientDep = Annotated[str, Depends(get_client)]


async def get_anyone(
    request: Request,
    x_rhino_client: Annotated[str | None, Header(include_in_schema=False)] = None,
) -> str:
    """Return the client's name; its address in place of one that cannot be used: a stop is not refused for it."""
    try:
        return await get_client(request, x_rhino_client)
    except InvalidRequest:
        return client_name(None, address_of(request))


AnyoneDep = Annotated[str, Depends(get_anyone)]


async def get_stream_slot(
    request: Request,
    services: ServicesDep,
    client: Annotated[str | None, Query(description="the client's name, shown to others")] = None,
) -> AsyncIterator[str]:
    """Hold a place among the open streams until the response has ended. Return the client. Raises TooManyStreams."""
    name = client_name(client, address_of(request))
    with services.streams.slot():
        yield name


StreamSlot = Annotated[str, Depends(get_stream_slot)]  # the client's name


# A stream's generator is not told when its client leaves while a piece is on its way out; these are, at once, as the
# request's dependencies.
async def get_mailbox(
    slot: StreamSlot,
    robot: RobotDep,
    services: ServicesDep,
    last_event_id: Annotated[
        str | None, Header(description="id of the newest event that the client has")
    ] = None,
) -> AsyncIterator[Mailbox]:
    """Listen to the robot's events until the response has ended."""
    async with services.hubs[robot.name].listen(last_event_id) as mailbox:
        yield mailbox


async def get_camera_feed(
    slot: StreamSlot, robot: RobotDep, services: ServicesDep
) -> AsyncIterator[CameraFeed]:
    """Keep the robot's camera feed running until the response has ended. Raises TooManyStreams."""
    feed = services.cameras[robot.name]
    with services.films.slot(slot):
        async with feed.watch():
            yield feed


MailboxDep = Annotated[Mailbox, Depends(get_mailbox)]
CameraFeedDep = Annotated[CameraFeed, Depends(get_camera_feed)]


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route for these error statuses; every route can answer 422, 503 and 504."""
    texts = {
        401: "A token is needed, and none or a wrong one was given",
        404: "There is no such thing",
        409: "The present state, or who drives the robot, does not allow it",
        413: "What was sent, or what it holds, is too large",
        422: "A value cannot be used",
        503: "Nothing to answer yet, or a part is restarting; Retry-After says when to ask again",
        504: "A part did not answer in time",
    }
    # Written out, since FastAPI would describe a stream's errors as pieces of the stream.
    schema = {"$ref": f"#/components/schemas/{ErrorBody.__name__}"}
    return {
        status: {
            "description": texts[status],
            "content": {"application/json": {"schema": schema}},
        }
        for status in sorted({*statuses, 422, 503, 504})
    }
