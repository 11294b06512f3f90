"""The API's description: what FastAPI finds out, completed so that a client can be generated from it.

Every operation has a stable id, the refusals that stand before all routes (401, 403, and 400, 413 for bodies), and
every number its unit as `x-unit`, taken from the `[m]` with which its description begins.
"""

import re
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute

from serve_app.route_table import RouteTable
from serve_app.schemas import ErrorBody
from serve_app.security import TOKEN_COOKIE

DESCRIPTION = """\
SI units; angles in rad, counter-clockwise; positions in the frame `map`. Every route below `/api` means the first robot
and is also below `/api/robots/{robot}`. A client names itself with the header `X-Rhino-Client`. Every error has one
body: `code`, `message`, `hint`. A server beyond loopback asks for its token.
"""
_UNIT = re.compile(r"^\[([^\]]+)\]")
_PREFIX, _OF_A_ROBOT = "/api", "/api/robots/{robot}"
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# Pages, sockets and the description itself, which are not in it.
_PAGES = ("/", "/lite", "/lite/lite.css", "/lite/lite.js", "/lite/icon.svg")
_PLAIN = (*_PAGES, "/openapi.json", f"{_PREFIX}/ws", f"{_OF_A_ROBOT}/ws")


def operation_id(route: APIRoute) -> str:
    """Return method and path in camel case: getMapInfo, getMapInfoOfRobot, postPoisByPoiIdNavigate."""
    path, suffix = route.path_format, ""
    if path.startswith(_OF_A_ROBOT):
        path, suffix = path.removeprefix(_OF_A_ROBOT), "OfRobot"
    words = [min(route.methods or {"get"}).lower()]
    for part in path.removeprefix(_PREFIX).split("/"):
        words += ["by", *part.strip("{}").split("_")] if part.startswith("{") else part.split("_")
    return words[0] + "".join(word[:1].upper() + word[1:] for word in words[1:]) + suffix


# Of each server by its name. It takes most of a second to make, and is the same for every instance.
_descriptions: dict[str, dict[str, Any]] = {}


def install(app: FastAPI) -> RouteTable:
    """Complete the app's description, and return its table of routes."""
    plain, name = app.openapi, app.state.name

    def openapi() -> dict[str, Any]:
        if name not in _descriptions:
            spec = plain()
            _complete(spec)
            _descriptions[name] = spec
        return _descriptions[name]

    app.openapi = openapi  # type: ignore[method-assign]
    table = {path: _methods(item) for path, item in openapi()["paths"].items()}
    return RouteTable(table | dict.fromkeys(_PLAIN, {"GET"}))


def _methods(item: dict[str, Any]) -> set[str]:
    return {method.upper() for method in item if method in _METHODS}


def _complete(spec: dict[str, Any]) -> None:
    spec["info"]["description"] = DESCRIPTION
    schemes = {
        "token": {"type": "http", "scheme": "bearer", "description": "asked for beyond loopback"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": TOKEN_COOKIE},
    }
    spec["components"]["securitySchemes"] = schemes
    # Which of the ways a server takes is its configuration's: none on loopback without a token.
    spec["security"] = [{}, {"token": []}, {"cookie": []}]
    for item in spec["paths"].values():
        for method in _methods(item):
            operation = item[method.lower()]
            _complete_responses(operation["responses"], has_body="requestBody" in operation)
            for parameter in operation.get("parameters", ()):
                _add_unit(parameter)
    for schema in spec["components"]["schemas"].values():
        for field in schema.get("properties", {}).values():
            _add_unit(field)


def _complete_responses(responses: dict[str, Any], *, has_body: bool) -> None:
    added = {
        "401": "The server asks for its token, and this is not it",
        "403": "Host or Origin is not one that this server serves",
    }
    if has_body:
        added |= {
            "400": "The body cannot be read at all",
            "413": "The body is too large",
        }
    for status, description in added.items():
        responses.setdefault(status, error_response(description))
    if "503" in responses:
        responses["503"].setdefault("headers", {})["Retry-After"] = {
            "description": "[s] after which to ask again",
            "schema": {"type": "string"},
        }


def error_response(description: str) -> dict[str, Any]:
    """Return the description of an error's response; written out, since FastAPI would take a stream's for a piece."""
    schema = {"$ref": f"#/components/schemas/{ErrorBody.__name__}"}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _add_unit(field: dict[str, Any]) -> None:
    if found := _UNIT.match(field.get("description", "")):
        field["x-unit"] = found.group(1)
