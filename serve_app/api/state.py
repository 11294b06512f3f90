"""GET /state and /gate/log: what the robot does, and why it does not."""

from fastapi import APIRouter

from serve_app.api.deps import RobotDep, errors
from serve_app.commands import read_state
from serve_app.schemas import GateLogLine, State

router = APIRouter(tags=["state"])


@router.get("/state", responses=errors())
async def state(robot: RobotDep) -> State:
    """Return pose, status, path, goal, mission, gate and ages at this moment.

    Always 200: a part that does not answer is named in `unavailable`, and what it knows is null.
    """
    return await read_state(robot)


@router.get("/gate/log", responses=errors())
async def gate_log(robot: RobotDep) -> list[GateLogLine]:
    """Return the motion gate's decisions of the last minute, oldest first: why did it stop?"""
    return [GateLogLine.model_validate(line) for line in await robot.platform.gate_log()]
