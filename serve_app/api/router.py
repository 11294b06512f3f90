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
    missions,
    motion,
    navigation,
    pages,
    pois,
    robots,
    saved_maps,
    session,
    sim,
    sockets,
    state,
)
from serve_app.api.deps import errors, named_robot

# What the server of driving and stopping answers. That of REST answers it too: docs/streams.md says when it has to.
_OF_CONTROL = (motion.router, sockets.router)
_OF_A_ROBOT = (
    state.router,
    maps.router,
    camera.router,
    events.router,
    navigation.router,
    exploration.router,
    missions.router,
    *_OF_CONTROL,
    devices.router,
    pois.router,
    saved_maps.router,
    sim.router,
)


def build_control_router() -> APIRouter:
    """Return the routes of the server of driving and stopping."""
    router = APIRouter()
    router.include_router(events.server_router)
    for part in _OF_CONTROL:
        router.include_router(part, prefix="/api")
        router.include_router(part, prefix="/api/robots/{robot}")
    return router


def build_router() -> APIRouter:
    """Return every route of the server."""
    router = APIRouter()
    router.include_router(health.router)
    router.include_router(session.router, prefix="/api")
    router.include_router(robots.router)
    router.include_router(events.server_router)
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
