"""Models of the event streams, the WebSocket and the lease. Units and frames as in `schemas`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictInt, TypeAdapter

from rhino_actors.messages.platform import GateStatus
from serve_app.schemas import (
    ControlResponse,
    ErrorBody,
    Finite,
    Gate,
    RequestModel,
    StopResponse,
    Text,
)

EventName = Literal["state", "gate", "nav", "mission", "localisation", "map_update", "poi_update"]


class Hello(BaseModel):
    """The first event of every stream."""

    robot: str
    client: str = Field(description="the name under which this client drives and stops")
    resumed: bool = Field(
        description="true: what was missed since the id that was given follows; false: the whole state follows"
    )
    replayed: int = Field(description="events that were missed and follow")


class MapUpdate(BaseModel):
    epoch: int = Field(description="new after the mapper restarted")
    seq: int = Field(description="counts the maps of an epoch")
    empty: bool = Field(description="true before the first scan")


class PoiUpdate(BaseModel):
    version: int = Field(description="counts the changes of places")
    since: int | None = Field(
        description="the version that the lists start from; who saw another last lists the places again"
    )
    added: list[str] = Field(description="ids")
    changed: list[str] = Field(description="ids")
    removed: list[str] = Field(description="ids")
    reordered: bool


class OpenStreams(BaseModel):
    app: str = Field(description="the server that answers: rest or control")
    open: int = Field(description="event streams, videos and WebSockets that are open in it")
    waiting: int = Field(description="requests that wait for a camera frame")
    limit: int = Field(description="server.max_streams")


class TakeRequest(RequestModel):
    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)

    taking_from: Text | None = Field(
        None,
        alias="from",
        max_length=200,
        description="take it from this one only: 409 when another one drives by now",
        examples=["ann"],
    )


# what a WebSocket client sends


class _Command(RequestModel):
    seq: StrictInt | None = Field(
        None, description="the client's own number; the answer repeats it"
    )


class VelocityCommand(_Command):
    """As POST /velocity."""

    type: Literal["velocity"]
    vx: Finite = Field(description="[m/s] forward")
    vy: Finite = Field(description="[m/s] left")
    omega: Finite = Field(description="[rad/s] counter-clockwise")


class StopCommand(_Command):
    """As POST /stop."""

    type: Literal["stop"]


class EstopCommand(_Command):
    """As POST /estop."""

    type: Literal["estop"]


class ClearCommand(_Command):
    """As POST /estop/clear."""

    type: Literal["estop_clear"]


class TakeCommand(_Command, TakeRequest):
    """As POST /control/take."""

    type: Literal["take"]


class KeepCommand(_Command):
    """As POST /control/keep."""

    type: Literal["keep"]


class ReleaseCommand(_Command):
    """As POST /control/release."""

    type: Literal["release"]


class Acknowledgement(RequestModel):
    """All messages up to number n were read. Who sends none is taken for a slow reader."""

    type: Literal["ack"]
    n: StrictInt


Command = (
    VelocityCommand
    | StopCommand
    | EstopCommand
    | ClearCommand
    | TakeCommand
    | KeepCommand
    | ReleaseCommand
)
ClientMessage: TypeAdapter[Command | Acknowledgement] = TypeAdapter(
    Annotated[Command | Acknowledgement, Field(discriminator="type")]
)


# what it gets


class HelloMessage(BaseModel):
    type: Literal["hello"] = "hello"
    n: int = Field(description="number of the message on this connection")
    data: Hello


class EventMessage(BaseModel):
    type: Literal["event"] = "event"
    n: int
    event: EventName
    id: str = Field(description="for last_event_id when the connection is opened again")
    data: dict[str, Any] = Field(description="the same as on /api/events")


class AnswerMessage(BaseModel):
    type: Literal["answer"] = "answer"
    n: int
    to: str = Field(description="type of the command")
    seq: int | None = None
    ok: bool
    result: dict[str, Any] | None = Field(None, description="what the REST route answers")
    error: ErrorBody | None = Field(None, description="why not")


class ErrorMessage(BaseModel):
    """A message that cannot be read, or why the connection is closed."""

    type: Literal["error"] = "error"
    n: int
    error: ErrorBody


ServerMessage: TypeAdapter[HelloMessage | EventMessage | AnswerMessage | ErrorMessage] = (
    TypeAdapter(
        Annotated[
            HelloMessage | EventMessage | AnswerMessage | ErrorMessage, Field(discriminator="type")
        ]
    )
)


class SocketSchemas(BaseModel):
    client: dict[str, Any] = Field(description="JSON Schema of what a client may send")
    server: dict[str, Any] = Field(description="JSON Schema of what it gets")


# from what the robot says to what clients get


def control_response(gate: GateStatus, taken_from: str = "") -> ControlResponse:
    """Return who drives."""
    return ControlResponse(
        holder=gate.holder, taken_from=taken_from, epoch=gate.epoch, lease_s=gate.lease_s
    )


def stop_response(gate: GateStatus, goal_cancelled: bool, mission_stopped: bool) -> StopResponse:
    """Return what a stop ended."""
    return StopResponse(
        gate=Gate.model_validate(gate),
        goal_cancelled=goal_cancelled,
        mission_stopped=mission_stopped,
    )
