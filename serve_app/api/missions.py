"""/missions...: the log of explorations and patrols. The one that runs is in it too, as it was last written down."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from serve_app import commands
from serve_app.api.deps import HandlesDep, RobotDep, errors
from serve_app.schemas import MissionReport, MissionSummary

router = APIRouter(prefix="/missions", tags=["missions"])

MissionId = Annotated[str, Path(max_length=64, description="id of the mission")]


@router.get("", responses=errors())
async def list_missions(
    robot: RobotDep,
    handles: HandlesDep,
    limit: Annotated[int, Query(ge=1, le=1000, description="the newest so many")] = 50,
) -> list[MissionSummary]:
    """List the robot's missions, newest first."""
    found = await commands.missions(handles, robot, limit)
    return [MissionSummary.model_validate(record) for record in found]


@router.get("/{mission_id}", responses=errors(404))
async def get_mission(mission_id: MissionId, robot: RobotDep, handles: HandlesDep) -> MissionReport:
    """Return a mission with its goals and what it left."""
    return MissionReport.model_validate(await commands.mission(handles, robot, mission_id))


@router.get(
    "/{mission_id}/picture",
    response_class=Response,
    responses={
        **errors(404),
        200: {
            "content": {"image/png": {"schema": {"type": "string", "format": "binary"}}},
            "description": "PNG: the map as it was known, the way driven, goals and what was left",
        },
    },
)
async def picture(mission_id: MissionId, robot: RobotDep, handles: HandlesDep) -> Response:
    """Return the picture of a mission that has ended. 404 MISSION_NOT_FOUND while it has none."""
    png = await commands.mission_picture(handles, robot, mission_id)
    # The picture of an id never changes.
    return Response(png, media_type="image/png", headers={"Cache-Control": "max-age=86400"})


@router.delete(
    "/{mission_id}", status_code=204, response_class=Response, responses=errors(404, 409)
)
async def delete(mission_id: MissionId, robot: RobotDep, handles: HandlesDep) -> Response:
    """Take a mission out of the log. 409 MISSION_RUNNING while it runs."""
    await commands.delete_mission(handles, robot, mission_id)
    return Response(status_code=204)
