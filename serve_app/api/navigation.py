"""/navigate...: goals."""

from fastapi import APIRouter

from rhino_actors.messages.navigation import Rank
from serve_app import commands
from serve_app.api.deps import ClientDep, RobotDep, errors
from serve_app.schemas import (
    CancelRequest,
    ModeRequest,
    NavigateRequest,
    NavigateStatus,
    navigate_status,
)

router = APIRouter(prefix="/navigate", tags=["navigation"])


@router.post("", responses=errors(409))
async def navigate(body: NavigateRequest, robot: RobotDep, client: ClientDep) -> NavigateStatus:
    """Send the robot to a point; an earlier goal is replaced. The answer has the goal's id and where it really goes."""
    nav = await commands.navigate(
        robot,
        body.x,
        body.y,
        body.yaw,
        client=client,
        rank=Rank.HUMAN,
        strict=body.strict,
        allow_unknown=body.allow_unknown,
        mode=body.mode,
    )
    return navigate_status(nav, exploring=False)


@router.post("/cancel", responses=errors(409))
async def cancel(
    robot: RobotDep, client: ClientDep, body: CancelRequest | None = None
) -> NavigateStatus:
    """Give up the goal; the robot stands. 409 NO_GOAL when there is none, or another than the one named."""
    goal_id = body.goal_id if body else None
    return navigate_status(await robot.planner.cancel(client, goal_id), exploring=False)


@router.get("/status", responses=errors())
async def status(robot: RobotDep) -> NavigateStatus:
    """Return the goal in force, or how the last one ended."""
    return await commands.navigation(robot)


@router.post("/mode", responses=errors())
async def mode(body: ModeRequest, robot: RobotDep) -> ModeRequest:
    """Set how later goals are reached."""
    return ModeRequest(mode=await robot.planner.set_mode(body.mode))
