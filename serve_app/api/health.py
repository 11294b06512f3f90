"""GET /api/health: the server answers; open to everyone."""

from fastapi import APIRouter

from serve_app.schemas import Health

router = APIRouter(tags=["health"])


@router.get("/api/health")
async def health() -> Health:
    """Say that the server answers. The actors are not asked: /api/state names those that are missing."""
    return Health(status="ok")
