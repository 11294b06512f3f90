"""/maps...: maps that are kept. As files they are map_server's yaml and pgm, and a ply of the voxels."""

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from rhino_actors.errors import ActorUnavailable, InvalidRequest, MapFileInvalid
from rhino_actors.geometry import wrap_angle
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.maps import SavedMap
from serve_app import commands
from serve_app.api.deps import ClientDep, HandlesDep, RobotDep, ServicesDep, errors
from serve_app.handles import Handles, Robot
from serve_app.images import png_from_pgm
from serve_app.schemas import (
    LoadedMap,
    LoadMapRequest,
    MapChange,
    SavedMapModel,
    SaveMapRequest,
    saved_map,
)

router = APIRouter(prefix="/maps", tags=["saved maps"])

MapId = Annotated[str, Path(max_length=64, description="id of the saved map")]

_BINARY = {"schema": {"type": "string", "format": "binary"}}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "description": "a zip as it is, or a form with the zip, or with yaml, pgm and maybe ply; at most 64 MB",
        "content": {
            "application/zip": _BINARY,
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "maxItems": 3,
                        }
                    },
                }
            },
        },
    }
}


@router.get("", responses=errors())
async def list_maps(robot: RobotDep, handles: HandlesDep) -> list[SavedMapModel]:
    """List the robot's saved maps, oldest first."""
    saved = await handles.poi_store.list_maps(robot.name)
    return await _models(handles, robot, *saved)


@router.post("", status_code=201, responses=errors(409))
async def save(body: SaveMapRequest, robot: RobotDep, handles: HandlesDep) -> SavedMapModel:
    """Keep the map as it is now; places that were named on it since are bound to it."""
    saved = await commands.save_map(handles, robot, body.name)
    return saved_map(saved, saved.frame)


@router.post("/import", status_code=201, responses=errors(409, 413), openapi_extra=_UPLOAD)
async def import_map(
    request: Request,
    robot: RobotDep,
    handles: HandlesDep,
    services: ServicesDep,
    name: Annotated[str, Query(description="for the map, 1 to 200 characters")],
) -> SavedMapModel:
    """Keep a map that was made elsewhere: what export gives, or what ROS map_server reads."""
    with services.uploads.slot():
        saved = await handles.poi_store.import_map(robot.name, name, await _uploaded(request))
    return (await _models(handles, robot, saved))[0]


@router.post("/{map_id}/load", responses=errors(404, 409, 413))
async def load(
    map_id: MapId,
    robot: RobotDep,
    handles: HandlesDep,
    client: ClientDep,
    body: LoadMapRequest | None = None,
) -> LoadedMap:
    """Stop the robot and go on with this map; its place there is looked for, first around the pose if one is given."""
    place = body or LoadMapRequest.model_validate({})
    if (place.x is None) != (place.y is None):
        raise InvalidRequest(
            "Only one of x and y was given.", "Give both [m], or neither if the place is not known."
        )
    pose = None
    if place.x is not None and place.y is not None:
        pose = Pose2D(place.x, place.y, wrap_angle(place.yaw))
    saved, epoch = await commands.load_map(handles, robot, map_id, pose, client)
    return LoadedMap(map=saved_map(saved, saved.frame), epoch=epoch, is_placed=pose is not None)


@router.get(
    "/{map_id}/export",
    response_class=Response,
    responses={
        **errors(404),
        200: {
            "content": {"application/zip": _BINARY},
            "description": "map.yaml and map.pgm for map_server, map.ply with the voxels if there are any",
        },
    },
)
async def export(map_id: MapId, robot: RobotDep, handles: HandlesDep) -> Response:
    """Return the map as a zip."""
    saved = await commands.get_map(handles, robot, map_id)
    archive = await handles.poi_store.export_map(saved.id)
    name = quote(f"{saved.name}.zip", safe="")
    disposition = f"attachment; filename=\"map.zip\"; filename*=UTF-8''{name}"
    return Response(
        archive, media_type="application/zip", headers={"Content-Disposition": disposition}
    )


@router.get(
    "/{map_id}/thumbnail",
    response_class=Response,
    responses={
        **errors(404),
        200: {"content": {"image/png": _BINARY}, "description": "PNG, at most 160 pixels a side"},
    },
)
async def thumbnail(map_id: MapId, robot: RobotDep, handles: HandlesDep) -> Response:
    """Return a small picture of the map's known part, in map_server's greys."""
    saved = await commands.get_map(handles, robot, map_id)
    picture = png_from_pgm(await handles.poi_store.map_thumbnail(saved.id))
    # The picture of an id never changes.
    return Response(picture, media_type="image/png", headers={"Cache-Control": "max-age=86400"})


@router.patch("/{map_id}", responses=errors(404, 409))
async def rename(
    map_id: MapId, body: MapChange, robot: RobotDep, handles: HandlesDep
) -> SavedMapModel:
    """Give a map another name."""
    saved = await commands.get_map(handles, robot, map_id)
    renamed = await handles.poi_store.rename_map(saved.id, body.name)
    return (await _models(handles, robot, renamed))[0]


@router.delete("/{map_id}", status_code=204, response_class=Response, responses=errors(404, 409))
async def delete(
    map_id: MapId,
    robot: RobotDep,
    handles: HandlesDep,
    force: Annotated[bool, Query(description="delete the places that lie on it too")] = False,
) -> Response:
    """Forget a map. Its places go over to another map of the same frame; without one it takes `force`."""
    saved = await commands.get_map(handles, robot, map_id)
    await handles.poi_store.delete_map(saved.id, force)
    return Response(status_code=204)


async def _models(handles: Handles, robot: Robot, *maps: SavedMap) -> list[SavedMapModel]:
    """Return the maps as models, also while the mapper cannot say which one is in force."""
    try:
        running = await commands.map_in_force(handles, robot)
    except ActorUnavailable:
        return [saved_map(saved, None, is_known=False) for saved in maps]
    return [saved_map(saved, running.frame if running else None) for saved in maps]


async def _uploaded(request: Request) -> dict[str, bytes]:
    """Return the files of a request by name. Raises MapFileInvalid."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        return {"upload.zip": await request.body()}
    files: dict[str, bytes] = {}
    try:
        async with request.form(max_files=3, max_fields=0) as form:
            for _, part in form.multi_items():
                if not isinstance(part, UploadFile) or not part.filename or part.filename in files:
                    raise MapFileInvalid(
                        "The form has parts that are not files with names of their own."
                    )
                files[part.filename] = await part.read()
    except HTTPException as error:
        if error.status_code == 413:
            raise
        raise MapFileInvalid("The form cannot be read, or has more than three files.") from error
    if not files:
        raise MapFileInvalid("The form holds no file.")
    return files
