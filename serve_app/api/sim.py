"""/sim/faults: what goes wrong in a simulation on purpose. 409 NOT_A_SIMULATION on any other robot."""

from typing import Annotated

from fastapi import APIRouter, Path

from serve_app.api.deps import ClientDep, RobotDep, errors
from serve_app.schemas import FaultRequest, Faults, faults

router = APIRouter(prefix="/sim", tags=["simulation"])


@router.get("/faults", responses=errors(409))
async def list_faults(robot: RobotDep) -> Faults:
    """List what is wrong on purpose, and every fault that there is with its numbers."""
    return faults(await robot.platform.faults())


@router.post("/faults", responses=errors(409))
async def inject(body: FaultRequest, robot: RobotDep, client: ClientDep) -> Faults:
    """Let something go wrong; 422 FAULT_INVALID says why not. No control is needed: a push is no command."""
    return faults(await robot.platform.inject_fault(body.name, body.numbers(), client))


@router.delete("/faults", responses=errors(409))
async def clear(robot: RobotDep, client: ClientDep) -> Faults:
    """End every fault."""
    return faults(await robot.platform.clear_faults(client))


@router.delete("/faults/{name}", responses=errors(409))
async def clear_one(
    name: Annotated[str, Path(max_length=64, examples=["drop_lidar"])],
    robot: RobotDep,
    client: ClientDep,
) -> Faults:
    """End the faults of one name, also those still to come."""
    return faults(await robot.platform.clear_faults(client, name))
