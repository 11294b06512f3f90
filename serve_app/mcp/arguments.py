"""Arguments as assistants give them: what can be understood in one way only is taken, the rest is refused."""

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server.mcpserver.tools import Tool
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

_PLAIN_NUMBER = re.compile(r"[+-]?(\d{1,15}(\.\d{0,15})?|\.\d{1,15})([eE][+-]?\d{1,3})?")
# What a parameter is called elsewhere in rhino, where radians go without saying.
_OTHER_NAMES = {"yaw": "yaw_rad", "roll": "roll_rad", "pitch": "pitch_rad"}


def _number(value: object) -> object:
    """Take a number that was sent as text; refuse a truth value, which Python would take for one."""
    if isinstance(value, bool):
        raise ValueError("a number, not true or false")
    if isinstance(value, str):
        if not _PLAIN_NUMBER.fullmatch(value.strip()):
            raise ValueError("a number without unit, such as 1.5")
        return float(value)
    return value


def _whole_number(value: object) -> object:
    number = _number(value)
    if isinstance(number, float) and number.is_integer():
        return int(number)
    return number


def _within_a_turn(value: float) -> float:
    if abs(value) > 2.0 * math.pi + 1e-6:
        raise ValueError(
            f"in radians, within one turn; if {value:g} is in degrees, it is {math.radians(value):.4g}"
        )
    return value


def _listed(value: object) -> object:
    """Take one thing that was sent without the list around it."""
    return [value] if isinstance(value, (str, dict)) else value


Number = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
WholeNumber = Annotated[int, BeforeValidator(_whole_number)]
Heading = Annotated[Number, AfterValidator(_within_a_turn)]
Listed = BeforeValidator(_listed)
# A tool that ends a movement is not refused for the form of its argument.
AnyRobot = Annotated[
    Any,
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}),
]
RobotName = Annotated[
    str | None,
    Field(max_length=64, description="name of the robot; left out: the only one, or the first"),
]


def forgiving(tool: Tool, *, closed: bool) -> Tool:
    """Let a tool take an angle under its other name.

    Null is left out only where the parameter says so: JSON spells NaN as null, and that is not zero.

    Args:
        tool: changed in place.
        closed: refuse arguments that it does not know: one that is misspelt must not count as left out.
    """
    known = tool.fn_metadata.arg_model
    fields = known.model_fields
    others = {
        other: own for other, own in _OTHER_NAMES.items() if own in fields and other not in fields
    }

    def rename(cls: type, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {
            others[key] if key in others and others[key] not in given else key: value
            for key, value in given.items()
        }

    validator: Callable[..., Any] = model_validator(mode="before")(rename)  # type: ignore[assignment]
    model = create_model(
        known.__name__,
        __base__=known,
        __validators__={"rename": validator},
        __cls_kwargs__={"extra": "forbid"} if closed else {},
    )
    tool.fn_metadata.arg_model = model
    tool.parameters = model.model_json_schema(by_alias=True)
    return tool
