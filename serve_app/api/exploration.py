"""/explore...: the mission that maps what was not seen yet. /patrol...: the one that visits what is known."""

from fastapi import APIRouter

from rhino_actors.messages.navigation import Rank
from serve_app import commands
from serve_app.api.deps import ClientDep, HandlesDep, RobotDep, errors
from serve_app.schemas import ExploreStart, Mission, PatrolStart

router = APIRouter(tags=["missions"])


@router.post("/explore/start", responses=errors(409))
async def start_exploring(
    robot: RobotDep, client: ClientDep, body: ExploreStart | None = None
) -> Mission:
    """Explore until nothing is left to see, or a limit is reached. 409 MISSION_RUNNING when one runs already.

    Without a map, or while the place in it is not known, the mission waits for it.
    """
    request = (body or ExploreStart.model_validate({})).request()
    return Mission.model_validate(
        await commands.explore(robot, request, client=client, rank=Rank.HUMAN)
    )


@router.post("/patrol/start", responses=errors(404, 409))
async def start_patrol(
    robot: RobotDep, handles: HandlesDep, client: ClientDep, body: PatrolStart | None = None
) -> Mission:
    """Patrol the known floor, or the given points. 409 MISSION_RUNNING when a mission runs already.

    A place that lies on a map that is not loaded is skipped, with the reason MAP_NOT_LOADED; when all do, it is 409.
    """
    request = (body or PatrolStart.model_validate({})).request()
    return Mission.model_validate(
        await commands.patrol(handles, robot, request, client=client, rank=Rank.HUMAN)
    )


@router.post("/explore/stop", responses=errors(409))
@router.post("/patrol/stop", responses=errors(409))
async def stop(robot: RobotDep, client: ClientDep) -> Mission:
    """End the mission, of whichever kind it is; the robot stands. 409 NO_MISSION when none runs."""
    return Mission.model_validate(await commands.stop_mission(robot, client))


@router.post("/explore/pause", responses=errors(409))
@router.post("/patrol/pause", responses=errors(409))
async def pause(robot: RobotDep, client: ClientDep) -> Mission:
    """Have the robot stand until the mission is resumed. 409 NO_MISSION when none runs."""
    return Mission.model_validate(await commands.pause_mission(robot, client))


@router.post("/explore/resume", responses=errors(409))
@router.post("/patrol/resume", responses=errors(409))
async def resume(robot: RobotDep, client: ClientDep) -> Mission:
    """Go on with the mission that was paused, or that a person's driving paused."""
    return Mission.model_validate(await commands.resume_mission(robot, client))
