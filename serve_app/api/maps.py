"""GET /map...: pictures of the map, and where they lie in the world.

In every picture one pixel is one cell and the top row has the highest y. Before the first scan there is a picture too:
one unknown cell, and `empty` is true in /map/info. Headers X-Map-* give the geometry of the very picture they come
with, so that a client can turn a click into metres while the map grows.
"""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from serve_app.api.deps import RobotDep, ServicesDep, errors
from serve_app.handles import NO_VERSION, MapVersion
from serve_app.map_view import Picture
from serve_app.schemas import Localisation, MapInfo, Pose

router = APIRouter(tags=["map"])

_PNG = {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}}
_PICTURE = {
    **errors(),
    200: {**_PNG, "description": "PNG; ETag and X-Map-* headers"},
    304: {"description": "the client has this version already"},
}
_BYTES = {
    "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
}
_PATCH = {
    **errors(),
    200: {**_BYTES, "description": "what changed; header X-Map-Version"},
    204: {"description": "the client has the newest version"},
}
Since = Annotated[
    str,
    Query(
        pattern=r"^([0-9]{1,15}-[0-9]{1,15})?$",
        description="X-Map-Version of the last answer: EPOCH-SEQ; empty: everything",
    ),
]
IfNoneMatch = Annotated[str | None, Header(description="ETags that the client holds")]


@router.get("/map/info", responses=errors())
async def info(robot: RobotDep, services: ServicesDep) -> MapInfo:
    """Return where the newest map lies. `empty` is true before the first scan."""
    snapshot, localisation = await asyncio.gather(
        services.maps[robot.name].snapshot(), robot.mapper.localisation()
    )
    rows, cols = snapshot.geometry.shape
    return MapInfo(
        origin_x=snapshot.geometry.origin[0],
        origin_y=snapshot.geometry.origin[1],
        resolution=snapshot.geometry.resolution,
        width=cols,
        height=rows,
        epoch=snapshot.epoch,
        seq=snapshot.seq,
        empty=snapshot.is_empty,
        known_area=snapshot.known_area,
        robot=Pose.model_validate(snapshot.robot) if snapshot.robot else None,
        map_from_odom=Pose.model_validate(snapshot.map_from_odom),
        localised=snapshot.localised,
        localisation=Localisation.model_validate(localisation),
    )


@router.get("/map", response_class=Response, responses=_PICTURE)
async def overview(
    robot: RobotDep, services: ServicesDep, if_none_match: IfNoneMatch = None
) -> Response:
    """Return the map with robot, path and goal drawn."""
    return _answer(await services.maps[robot.name].overview(), if_none_match)


@router.get("/map/raw", response_class=Response, responses=_PICTURE)
async def raw(
    robot: RobotDep, services: ServicesDep, if_none_match: IfNoneMatch = None
) -> Response:
    """Return the clean map in map_server's greys: 254 free, 0 occupied, 205 unknown."""
    return _answer(await services.maps[robot.name].occupancy(), if_none_match)


@router.get("/map/costmap", response_class=Response, responses=_PICTURE)
async def costmap(
    robot: RobotDep, services: ServicesDep, if_none_match: IfNoneMatch = None
) -> Response:
    """Return the costmap; the pixel is the cost: 0 free, 253 inscribed, 254 lethal, 255 unknown."""
    return _answer(await services.maps[robot.name].costmap(), if_none_match)


@router.get("/map/tiles", response_class=Response, responses=_PATCH)
async def tiles(robot: RobotDep, services: ServicesDep, since: Since = "") -> Response:
    """Return the tiles of occupancy and costs that changed since a version, all of them without one.

    Little-endian binary, described in docs/api.md. 204 when nothing is newer. X-Map-Version of the answer is the
    `since` of the next request. An answer whose header says `since` 0 is the whole map, whatever was asked for.
    """
    return _patch(await services.maps[robot.name].tiles(_version(since)))


@router.get("/map/voxels", response_class=Response, responses=_PATCH)
async def voxels(robot: RobotDep, services: ServicesDep, since: Since = "") -> Response:
    """Return the bricks of voxels that changed since a version, all of them without one; as /map/tiles."""
    return _patch(await services.maps[robot.name].voxels(_version(since)))


def _version(since: str) -> MapVersion:
    epoch, _, seq = since.partition("-")
    return (int(epoch), int(seq)) if since else NO_VERSION


def _patch(answer: tuple[MapVersion, bytes | None]) -> Response:
    (epoch, seq), content = answer
    headers = {"X-Map-Version": f"{epoch}-{seq}", "Cache-Control": "no-store"}
    if content is None:
        return Response(status_code=204, headers=headers)
    return Response(content, media_type="application/octet-stream", headers=headers)


def _answer(picture: Picture, if_none_match: str | None) -> Response:
    snapshot = picture.snapshot
    rows, cols = snapshot.geometry.shape
    headers = {
        "ETag": picture.etag,
        "Cache-Control": "no-cache",
        "X-Map-Epoch": str(snapshot.epoch),
        "X-Map-Seq": str(snapshot.seq),
        "X-Map-Origin-X": repr(float(snapshot.geometry.origin[0])),
        "X-Map-Origin-Y": repr(float(snapshot.geometry.origin[1])),
        "X-Map-Resolution": repr(float(snapshot.geometry.resolution)),
        "X-Map-Width": str(cols),
        "X-Map-Height": str(rows),
        "X-Map-Empty": "true" if snapshot.is_empty else "false",
    }
    if if_none_match is not None and _holds(if_none_match, picture.etag):
        return Response(status_code=304, headers=headers)
    return Response(picture.png, media_type="image/png", headers=headers)


def _holds(if_none_match: str, etag: str) -> bool:
    held = [part.strip().removeprefix("W/") for part in if_none_match.split(",")]
    return etag in held or "*" in held
