"""GET /api/health: the server answers; open to everyone. With `deep` it says how every part is."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse

from rhino_actors.messages.platform import RobotStatus
from serve_app.api.deps import HandlesDep, ServicesDep, errors
from serve_app.api.errors import RETRY_AFTER_S, UNHEALTHY
from serve_app.probes import NEEDED, STORE, Probe, stale_sensors
from serve_app.schemas import Ages, Health, PartHealth, RobotHealth, Unhealthy

router = APIRouter(tags=["health"])

_UNHEALTHY = {"model": Unhealthy, "description": "A part that every robot needs does not answer"}


@router.get(
    "/api/health",
    response_model=Health,
    response_model_exclude_none=True,
    responses={422: errors()[422], 503: _UNHEALTHY},
)
async def health(
    handles: HandlesDep,
    services: ServicesDep,
    deep: Annotated[bool, Query(description="ask every part how it is")] = False,
) -> Response | Health:
    """Say that the server answers. The actors are not asked, unless `deep` is true; then it takes at most a second.

    Deep, `status` is `ok`, `degraded` (a part that no goal needs is missing, or a sensor is late), or, with 503 and
    code UNHEALTHY, `unavailable`: platform, mapper or planner of a robot does not answer. Deep asks for the token where
    there is one.
    """
    if not deep:
        return Health(status="ok")
    found = await services.probes.ask()
    robots = [_robot(name, found) for name in handles.robots]
    store = _part(found["", STORE], needed=False)
    missing = [
        f"{robot.robot}/{name}"
        for robot in robots
        for name, part in robot.parts.items()
        if part.needed and part.state != "ok"
    ]
    if missing:
        code, message, hint = UNHEALTHY
        body = Unhealthy(
            code=code,
            message=f"{message} Missing: {', '.join(missing)}.",
            hint=hint,
            holder=None,
            status="unavailable",
            robots=robots,
            store=store,
        )
        return JSONResponse(body.model_dump(exclude_none=True), 503, {"Retry-After": RETRY_AFTER_S})
    all_well = store.state == "ok" and all(
        not robot.problems and all(part.state == "ok" for part in robot.parts.values())
        for robot in robots
    )
    return Health(status="ok" if all_well else "degraded", robots=robots, store=store)


def _robot(name: str, found: Mapping[tuple[str, str], Probe]) -> RobotHealth:
    parts = {part: probe for (robot, part), probe in found.items() if robot == name}
    status: Any = parts["platform"].answer
    known = isinstance(status, RobotStatus)
    return RobotHealth(
        robot=name,
        parts={part: _part(probe, needed=part in NEEDED) for part, probe in parts.items()},
        ages=Ages(odometry=status.odometry_age, lidar=status.lidar_age, camera=status.camera_age)
        if known
        else None,
        problems=[*stale_sensors(status), *status.faults] if known else [],
    )


def _part(probe: Probe, *, needed: bool) -> PartHealth:
    answer_ms = None if probe.seconds is None else round(probe.seconds * 1000.0, 1)
    return PartHealth(state=probe.state, answer_ms=answer_ms, needed=needed)
