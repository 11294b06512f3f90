"""All routes in order: those of the server, then those of a robot, once for the default one and once by name."""

from fastapi import APIRouter, Depends

from serve_app.api import (
    camera,
    devices,
    events,
    exploration,
    health,
    maps,
    metrics,
    motion,
    navigation,
    pages,
    pois,
    robots,
    saved_maps,
    sim,
    state,
)
from serve_app.api.deps import errors, named_robot

_OF_A_ROBOT = (
    state.router,
    maps.router,
    camera.router,
    events.router,
    navigation.router,
    exploration.router,
    motion.router,
    devices.router,
    pois.router,
    saved_maps.router,
    sim.router,
)


def build_router() -> APIRouter:
    """Return every route of the server."""
    router = APIRouter()
    router.include_router(health.router)
    router.include_router(robots.router)
    router.include_router(metrics.router)
    for part in _OF_A_ROBOT:
        router.include_router(part, prefix="/api")
    for part in _OF_A_ROBOT:
        router.include_router(
            part,
            prefix="/api/robots/{robot}",
            dependencies=[Depends(named_robot)],
            responses=errors(404),
        )
    router.include_router(pages.router)
    return router
