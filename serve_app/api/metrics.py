"""GET /metrics: rhino's own metrics for Prometheus, behind the same checks as everything else."""

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from serve_app.api.deps import ServicesDep, errors

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=PlainTextResponse, responses=errors())
async def metrics(services: ServicesDep) -> PlainTextResponse:
    """Return requests, refusals, gate decisions, streams, ages and rates in Prometheus' text format.

    They are up to 10 s old. 503 NOT_AVAILABLE while Ray's exporter has not started.
    """
    text = await services.scrape()
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")
