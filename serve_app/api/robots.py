"""GET /api/robots: the fleet."""

import asyncio

from fastapi import APIRouter

from rhino_actors.errors import ActorUnavailable
from serve_app.api.deps import HandlesDep, errors
from serve_app.handles import Handles, Robot
from serve_app.schemas import ErrorBody, RobotSummary

router = APIRouter(tags=["robots"])


@router.get(
    "/api/robots",
    # The model that every error of the API has, which puts it into the description.
    responses={
        **errors(),
        504: {"model": ErrorBody, "description": "A part did not answer in time"},
    },
)
async def robots(handles: HandlesDep) -> list[RobotSummary]:
    """List the robots. Every route below /api is also below /api/robots/{name}."""
    return await asyncio.gather(*(_summary(handles, robot) for robot in handles.robots.values()))


async def _summary(handles: Handles, robot: Robot) -> RobotSummary:
    default = robot is handles.robot()
    try:
        status = await robot.platform.status()
    except ActorUnavailable:
        return RobotSummary(
            name=robot.name,
            simulated=robot.simulated,
            available=False,
            default=default,
            posture=None,
            battery=None,
            holder=None,
            latched=None,
        )
    return RobotSummary(
        name=robot.name,
        simulated=status.simulated,
        available=True,
        default=default,
        posture=status.driver_state.posture,
        battery=status.driver_state.battery,
        holder=status.gate.holder,
        latched=status.gate.latched,
    )
