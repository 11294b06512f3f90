"""/ and /lite: one plain page, served as it lies here; it needs no build step and no other server."""

from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

_FOLDER = Path(__file__).resolve().parent.parent / "lite"
_TYPES = {
    "index.html": "text/html; charset=utf-8",
    "lite.css": "text/css; charset=utf-8",
    "lite.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


@router.get("/")
@router.get("/lite")
async def page() -> Response:
    """Return the page."""
    return _file("index.html")


@router.get("/lite/lite.css")
async def style() -> Response:
    """Return its style."""
    return _file("lite.css")


@router.get("/lite/lite.js")
async def script() -> Response:
    """Return its code."""
    return _file("lite.js")


@router.get("/lite/icon.svg")
async def icon() -> Response:
    """Return its icon."""
    return _file("icon.svg")


def _file(name: str) -> Response:
    headers = {"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache"}
    return FileResponse(_FOLDER / name, media_type=_TYPES[name], headers=headers)
