"""GET /camera...: the front camera as a stream of JPEGs, or one by one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse

from serve_app.api.deps import CameraFeedDep, RobotDep, ServicesDep, errors
from serve_app.camera_feed import MAX_HZ, CameraFeed
from serve_app.streams import FILM_BYTES, Allowance, shared_period

router = APIRouter(tags=["camera"])

MAX_WAIT_S = 10.0
FIRST_FRAME_WAIT_S = 2.0
_BOUNDARY = "frame"
_JPEG = {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
_MJPEG = {"content": {"multipart/x-mixed-replace": {"schema": {"type": "string"}}}}


@router.get(
    "/camera/frame",
    response_class=Response,
    responses={
        **errors(),
        200: {**_JPEG, "description": "JPEG; X-Frame-Seq, X-Frame-Age [s], X-Frame-Stamp [s]"},
        204: {"description": "nothing newer came in time; ask again"},
    },
)
async def frame(
    robot: RobotDep,
    services: ServicesDep,
    newer_than: Annotated[
        int, Query(ge=0, le=2**53, description="X-Frame-Seq of the frame that the client has")
    ] = 0,
    wait: Annotated[
        float,
        Query(
            ge=0.0, le=MAX_WAIT_S, allow_inf_nan=False, description="[s] to wait for a newer one"
        ),
    ] = 2.0,
) -> Response:
    """Return the newest frame as soon as there is one newer than the client's.

    A client that asks again with each X-Frame-Seq gets every frame it can take in and never an old one. 503 with code
    NOT_AVAILABLE when there has been no frame at all: the camera is off or has not started; TOO_MANY_STREAMS when too
    many wait.
    """
    feed = services.cameras[robot.name]
    view = feed.at_hand(newer_than)
    if view is None:
        with services.waits.slot():
            view = await feed.look(newer_than, wait)
    if view is None:
        return Response(status_code=204, headers={"Cache-Control": "no-store"})
    headers = {
        "Cache-Control": "no-store",
        "X-Frame-Seq": str(view.frame.seq),
        "X-Frame-Stamp": f"{view.frame.stamp:.4f}",
        "X-Frame-Age": f"{view.age:.3f}",
    }
    return Response(view.frame.jpeg, media_type="image/jpeg", headers=headers)


@router.get(
    "/camera/stream",
    response_class=StreamingResponse,
    responses={**errors(), 200: {**_MJPEG, "description": "MJPEG"}},
)
async def stream(feed: CameraFeedDep) -> StreamingResponse:
    """Send JPEGs as they come, up to 30 a second, fewer where more than five watch; late frames are skipped.

    503 with code TOO_MANY_STREAMS when too many are open (four for each client), NOT_AVAILABLE when there is no camera.
    A stream ends after 8 MB (some 200 frames of 640 x 360) or five minutes, since what a client does not read piles up
    in the server; an <img> does not open it again by itself: a page of one's own better asks for /camera/frame.
    """
    await feed.look(0, FIRST_FRAME_WAIT_S)
    return StreamingResponse(
        _parts(feed),
        media_type=f"multipart/x-mixed-replace; boundary={_BOUNDARY}",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _parts(feed: CameraFeed) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    allowance = Allowance(FILM_BYTES)
    seq = 0
    while not allowance.is_used_up:
        sent = loop.time()
        newest = await feed.newer(seq)
        seq = newest.seq
        allowance.spend(len(newest.jpeg))
        yield (
            (
                f"--{_BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(newest.jpeg)}\r\n"
                f"X-Frame-Seq: {seq}\r\n\r\n"
            ).encode()
            + newest.jpeg
            + b"\r\n"
        )
        await asyncio.sleep(
            max(0.0, shared_period(1.0 / MAX_HZ, feed.viewers) - (loop.time() - sent))
        )
