"""/velocity, /stop, /estop, /cmd, /control: moving the robot directly, and ending it."""

from typing import Annotated

from fastapi import APIRouter, Path

from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.navigation import Rank
from serve_app import commands
from serve_app.api.deps import AnyoneDep, ClientDep, RobotDep, errors
from serve_app.schemas import (
    ControlResponse,
    Gate,
    SportRequest,
    SportResponse,
    StopResponse,
    VelocityRequest,
    VelocityResponse,
)
from serve_app.stream_schemas import TakeRequest, control_response, stop_response

router = APIRouter(tags=["motion"])


@router.post("/velocity", responses=errors(409))
async def velocity(body: VelocityRequest, robot: RobotDep, client: ClientDep) -> VelocityResponse:
    """Drive at a velocity for a quarter of a second: send again at 10 to 20 Hz to go on, zero to end.

    Too large values are clamped and `applied` says to what. 409 CONTROL_HELD names who drives.
    """
    twist = Twist2D(body.vx, body.vy, body.omega)
    return VelocityResponse.model_validate(await commands.drive(robot, twist, client, Rank.HUMAN))


@router.post("/stop/", include_in_schema=False)  # a redirect may not be followed
@router.post("/stop", responses=errors())
async def stop(robot: RobotDep, client: AnyoneDep) -> StopResponse:
    """Send zero, give up goal and mission, free the control. Open to everyone."""
    stopped = await commands.stop(robot, client)
    return stop_response(stopped.gate, stopped.goal_cancelled, stopped.mission_stopped)


@router.post("/estop/", include_in_schema=False)  # a redirect may not be followed
@router.post("/estop", responses=errors())
async def estop(robot: RobotDep, client: AnyoneDep) -> StopResponse:
    """Stop, let the motors damp, and latch: nothing moves until the latch is cleared. Open to everyone."""
    stopped = await commands.emergency_stop(robot, client)
    return stop_response(stopped.gate, stopped.goal_cancelled, stopped.mission_stopped)


@router.post("/estop/clear", responses=errors())
async def clear_estop(robot: RobotDep, client: ClientDep) -> Gate:
    """Clear the latch. Nothing resumes."""
    return Gate.model_validate(await robot.platform.clear_estop(client))


@router.post("/cmd/StopMove", include_in_schema=False)  # a stop is not refused for its form
async def stop_move(robot: RobotDep, client: AnyoneDep) -> SportResponse:
    """Stop, whatever the body says."""
    return SportResponse.model_validate(await commands.sport(robot, "StopMove", client, Rank.HUMAN))


@router.post("/cmd/{command}", responses=errors(404, 409))
async def command(
    command: Annotated[str, Path(max_length=64, examples=["StandUp"])],
    robot: RobotDep,
    client: ClientDep,
    body: SportRequest | None = None,
) -> SportResponse:
    """Carry out a sport command: StandUp, StandDown, RecoveryStand, Hello, Dance1, Pose, ...

    404 UNKNOWN_COMMAND names those that exist. Flips and jumps are refused unless the config allows them. Pose and
    Euler take the body's numbers; too large ones are clamped and `parameters` says to what. A velocity ends a pose.
    """
    parameters = body.parameters() if body else {}
    return SportResponse.model_validate(
        await commands.sport(robot, command, client, Rank.HUMAN, parameters)
    )


@router.post("/control/take", responses=errors(409))
async def take(
    robot: RobotDep, client: ClientDep, body: TakeRequest | None = None
) -> ControlResponse:
    """Take the robot over from whoever drives it; what it was doing is dropped, and `taken_from` says who it was.

    With `from` in the body: only from that one. 409 CONTROL_HELD names another one who drives by now.
    """
    took = await commands.take_control(robot, client, body.taking_from if body else None)
    return control_response(took.gate, took.taken_from)


@router.post("/control/keep", responses=errors(409))
async def keep(robot: RobotDep, client: ClientDep) -> ControlResponse:
    """Keep the lease while nothing is driven; it is free after `lease_s` of silence. Keeps nothing moving.

    409 NOT_HOLDER when it has run out, was given back or ended by a stop; CONTROL_HELD names who drives.
    """
    return control_response(await commands.keep_control(robot, client))


@router.post("/control/release", responses=errors())
async def release(robot: RobotDep, client: ClientDep) -> ControlResponse:
    """Let go of the robot, so that others need not wait. Does nothing when somebody else drives."""
    status = await commands.release_control(robot, client)
    return control_response(status.gate)
