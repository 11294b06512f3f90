"""/explore...: the mission that maps what was not seen yet."""

from fastapi import APIRouter

from rhino_actors.messages.navigation import Rank
from serve_app.api.deps import ClientDep, RobotDep, errors
from serve_app.schemas import Mission

router = APIRouter(prefix="/explore", tags=["exploration"])


@router.post("/start", responses=errors(409))
async def start(robot: RobotDep, client: ClientDep) -> Mission:
    """Explore until nothing is left to see. 409 MISSION_RUNNING when it runs already."""
    return Mission.model_validate(await robot.explorer.start(client, Rank.HUMAN))


@router.post("/stop", responses=errors(409))
async def stop(robot: RobotDep, client: ClientDep) -> Mission:
    """End the mission; the robot stands. 409 NO_MISSION when none runs."""
    return Mission.model_validate(await robot.explorer.stop(client))


@router.post("/resume", responses=errors(409))
async def resume(robot: RobotDep, client: ClientDep) -> Mission:
    """Go on with a mission that a person's driving paused."""
    return Mission.model_validate(await robot.explorer.resume(client))
