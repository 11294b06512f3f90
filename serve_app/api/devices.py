"""/robot/...: the light, the speaker and the obstacle avoidance of a real Go2. 409 NOT_EQUIPPED on any other robot."""

from fastapi import APIRouter

from serve_app.api.deps import ClientDep, RobotDep, errors
from serve_app.handles import Robot
from serve_app.schemas import AvoidanceRequest, DeviceResponse, LightRequest, VolumeRequest

router = APIRouter(prefix="/robot", tags=["devices"])


@router.post("/light", responses=errors(409))
async def light(body: LightRequest, robot: RobotDep, client: ClientDep) -> DeviceResponse:
    """Set the head light."""
    return await _set(robot, "light", body.brightness, client)


@router.post("/volume", responses=errors(409))
async def volume(body: VolumeRequest, robot: RobotDep, client: ClientDep) -> DeviceResponse:
    """Set the speaker's volume."""
    return await _set(robot, "volume", body.volume, client)


@router.post("/obstacle_avoidance", responses=errors(409))
async def avoidance(body: AvoidanceRequest, robot: RobotDep, client: ClientDep) -> DeviceResponse:
    """Switch the robot's own obstacle avoidance; 409 CONTROL_HELD while somebody else drives. rhino's stays on."""
    return await _set(robot, "obstacle_avoidance", int(body.enabled), client)


async def _set(robot: Robot, device: str, level: int, client: str) -> DeviceResponse:
    result = await robot.platform.set_device(device, level, client)
    return DeviceResponse(
        device=device, accepted=result.accepted, code=result.code, message=result.message
    )
