"""GET /state and /gate/log: what the robot does, and why it does not."""

import math
from typing import Annotated

from fastapi import APIRouter, Query

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
async def gate_log(
    robot: RobotDep,
    since: Annotated[
        float | None,
        Query(
            allow_inf_nan=False,
            description="[s] stamp of the newest line that the client has; left out: the whole minute",
        ),
    ] = None,
) -> list[GateLogLine]:
    """Return the motion gate's decisions of the last minute, oldest first: why did it stop?

    `message` says it in a sentence. With `since`, only the lines after that stamp.
    """
    lines = await robot.platform.gate_log(-math.inf if since is None else since)
    return [GateLogLine.model_validate(line) for line in lines]
