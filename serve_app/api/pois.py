"""/pois...: named places. Labels are stored as they were written; duplicates are distinct places."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from rhino_actors.messages.navigation import Rank
from serve_app import commands
from serve_app.api.deps import ClientDep, HandlesDep, RobotDep, errors
from serve_app.schemas import (
    GoToPoiRequest,
    NavigateStatus,
    PoiChange,
    PoiModel,
    PoiRequest,
    navigate_status,
)

router = APIRouter(prefix="/pois", tags=["pois"])

PoiId = Annotated[str, Path(max_length=64, description="id of the place")]


@router.get("", responses=errors())
async def list_pois(robot: RobotDep, handles: HandlesDep) -> list[PoiModel]:
    """List the robot's places."""
    return [PoiModel.model_validate(poi) for poi in await handles.poi_store.list_pois(robot.name)]


@router.post("", status_code=201, responses=errors())
async def add(body: PoiRequest, robot: RobotDep, handles: HandlesDep) -> PoiModel:
    """Store a place: the point given, or where the robot is now."""
    return PoiModel.model_validate(
        await commands.add_poi(handles, robot, body.label, body.x, body.y)
    )


@router.patch("/{poi_id}", responses=errors(404))
async def rename(poi_id: PoiId, body: PoiChange, robot: RobotDep, handles: HandlesDep) -> PoiModel:
    """Give a place another label."""
    poi = await commands.get_poi(handles, robot, poi_id)
    return PoiModel.model_validate(await handles.poi_store.rename(poi.id, body.label))


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
