"""/api/session: a browser shows the token once, and gets a cookie that scripts cannot read."""

from fastapi import APIRouter, Request, Response
from pydantic import Field

from serve_app.access import Access
from serve_app.api.deps import errors
from serve_app.schemas import RequestModel
from serve_app.security import TOKEN_COOKIE, Unauthorized, is_token, session_value

router = APIRouter(prefix="/session", tags=["access"])

SESSION_S = 30 * 24 * 3600


class SessionRequest(RequestModel):
    """What a browser signs in with."""

    token: str = Field(max_length=1000, description="of `rhino token`")


@router.post("", status_code=204, responses=errors(401))
async def sign_in(body: SessionRequest, request: Request, response: Response) -> None:
    """Check the token and set the cookie that stands for it, for 30 days or until the token is replaced."""
    access: Access = request.app.state.access
    if access.token is None:
        return
    if not is_token(access, body.token):
        raise Unauthorized()
    response.set_cookie(
        TOKEN_COOKIE,
        session_value(access.token),
        max_age=SESSION_S,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


@router.delete("", status_code=204, responses=errors())
async def sign_out(response: Response) -> None:
    """Take the cookie back."""
    response.delete_cookie(TOKEN_COOKIE, path="/", httponly=True, samesite="strict")
