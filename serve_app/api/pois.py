"""/pois...: named places. Labels are stored as they were written; duplicates are distinct places."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from rhino_actors.messages.navigation import Rank
from rhino_actors.messages.poi import PoiFileKind
from serve_app import commands
from serve_app.api.deps import ClientDep, HandlesDep, RobotDep, errors
from serve_app.schemas import (
    GoToPoiRequest,
    NavigateStatus,
    PoiChange,
    PoiModel,
    PoiOrder,
    PoiRequest,
    navigate_status,
)

router = APIRouter(prefix="/pois", tags=["pois"])

_MEDIA_TYPE: dict[PoiFileKind, str] = {
    "geojson": "application/geo+json",
    "csv": "text/csv; charset=utf-8",
}
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "description": "the file as it is, at most 1 MB; what export gives, or columns label, x, y and more",
        "content": {"application/geo+json": _BINARY, "text/csv": _BINARY},
    }
}

PoiId = Annotated[str, Path(max_length=64, description="id of the place")]


@router.get("", responses=errors())
async def list_pois(robot: RobotDep, handles: HandlesDep) -> list[PoiModel]:
    """List the robot's places in their order."""
    return [PoiModel.model_validate(poi) for poi in await handles.poi_store.list_pois(robot.name)]


@router.post("", status_code=201, responses=errors())
async def add(body: PoiRequest, robot: RobotDep, handles: HandlesDep) -> PoiModel:
    """Store a place: the point given, or where the robot is now."""
    return PoiModel.model_validate(
        await commands.add_poi(handles, robot, body.label, body.x, body.y)
    )


@router.post("/order", responses=errors(409))
async def order(body: PoiOrder, robot: RobotDep, handles: HandlesDep) -> list[PoiModel]:
    """Put all places in another order, in one step. Refused when the list has changed since it was read."""
    pois = await handles.poi_store.order(robot.name, body.ids)
    return [PoiModel.model_validate(poi) for poi in pois]


@router.get(
    "/export",
    response_class=Response,
    responses={
        **errors(),
        200: {
            "content": {"application/geo+json": {}, "text/csv": {}},
            "description": "all places in their order; import reads it back without loss",
        },
    },
)
async def export(
    robot: RobotDep,
    handles: HandlesDep,
    format: Annotated[PoiFileKind, Query(description="kind of file")] = "geojson",
) -> Response:
    """Return the robot's places as a file."""
    content = await handles.poi_store.export_pois(robot.name, format)
    disposition = f'attachment; filename="pois.{format}"'
    return Response(
        content, media_type=_MEDIA_TYPE[format], headers={"Content-Disposition": disposition}
    )


@router.post("/import", status_code=201, responses=errors(413), openapi_extra=_UPLOAD)
async def import_pois(
    request: Request,
    robot: RobotDep,
    handles: HandlesDep,
    onto_running_map: Annotated[
        bool, Query(description="all places lie on the map that runs, whatever the file says")
    ] = False,
) -> list[PoiModel]:
    """Store the places of a file, GeoJSON or CSV, all or none. A known id is overwritten, others come last."""
    saved = await commands.map_in_force(handles, robot)
    pois = await handles.poi_store.import_pois(
        robot.name, await request.body(), saved.id if saved else None, onto_running_map
    )
    return [PoiModel.model_validate(poi) for poi in pois]


@router.patch("/{poi_id}", responses=errors(404))
async def change(poi_id: PoiId, body: PoiChange, robot: RobotDep, handles: HandlesDep) -> PoiModel:
    """Rename a place, or move it."""
    poi = await commands.get_poi(handles, robot, poi_id)
    return PoiModel.model_validate(
        await handles.poi_store.change(poi.id, body.label, body.x, body.y, body.z)
    )


@router.delete("/{poi_id}", status_code=204, response_class=Response, responses=errors(404))
async def delete(poi_id: PoiId, robot: RobotDep, handles: HandlesDep) -> Response:
    """Forget a place."""
    poi = await commands.get_poi(handles, robot, poi_id)
    await handles.poi_store.delete(poi.id)
    return Response(status_code=204)


@router.post("/{poi_id}/navigate", responses=errors(404, 409))
async def go(
    poi_id: PoiId,
    robot: RobotDep,
    handles: HandlesDep,
    client: ClientDep,
    body: GoToPoiRequest | None = None,
) -> NavigateStatus:
    """Send the robot to a place."""
    poi = await commands.get_poi(handles, robot, poi_id)
    await commands.check_place(handles, robot, poi)
    strict = body.strict if body else False
    nav = await commands.navigate(
        robot, poi.x, poi.y, client=client, rank=Rank.HUMAN, strict=strict
    )
    return navigate_status(nav, exploring=False)
