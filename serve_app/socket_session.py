"""One WebSocket: the events of a robot out, commands that drive and stop it in, each answered.

Serve puts no back-pressure on what is sent, so the client says how far it has read (`ack`). With too much unread no
events are sent, which then wait in the mailbox, newest of each name; who acknowledges nothing for SLOW_S is dropped.

Commands are carried out in order, but for stops, which wait for nothing and void the velocities before them. Of
velocities that wait, the newest is carried out. When the connection closes while it drives, zero is sent at once.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import anyio
from pydantic import BaseModel, ValidationError

from rhino_actors.errors import InvalidRequest, RhinoError
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.navigation import Rank
from serve_app import commands
from serve_app.events import Mailbox
from serve_app.handles import Robot
from serve_app.refusals import RefusalLog
from serve_app.schemas import (
    ControlResponse,
    ErrorBody,
    Gate,
    StopResponse,
    VelocityResponse,
    error_body,
)
from serve_app.stream_schemas import (
    Acknowledgement,
    AnswerMessage,
    ClearCommand,
    ClientMessage,
    Command,
    ErrorMessage,
    EstopCommand,
    Hello,
    HelloMessage,
    KeepCommand,
    ReleaseCommand,
    StopCommand,
    TakeCommand,
    VelocityCommand,
    control_response,
    stop_response,
)

_log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 4096
MAX_WAITING = 32  # commands; velocities count as one
MAX_UNREADABLE = 20  # messages that make no sense before the connection is closed
WINDOW_BYTES = 128_000  # unread, after which no events are sent
MOST_UNREAD_BYTES = 512_000  # answers included, after which the client is dropped
SLOW_S = 10.0
CHECK_S = 0.5
LAST_ACT_S = 1.0  # for the zero when the connection closed

# Close codes of our own; RFC 6455 leaves 4000 to 4999 to applications.
TOO_SLOW = 4408
POLICY = 1008
TRY_AGAIN_LATER = 1013


class Overtaken(RhinoError):
    """A velocity that waited when a newer one, or a stop, came."""

    code = "OVERTAKEN"
    default_message = "A newer velocity, or a stop, came before this one was carried out."
    default_hint = "Nothing to do."


class SlowReader(RhinoError):
    """The client does not acknowledge what it is sent."""

    code = "SLOW_READER"
    default_message = f"Messages were not acknowledged for {SLOW_S:.0f} s."
    default_hint = 'Send {"type": "ack", "n": N} about once a second, and open the socket again.'


class Closing(Exception):
    """The connection is to be closed, with this code and reason."""

    def __init__(self, code: int, error: RhinoError) -> None:
        super().__init__(code, error)
        self.code, self.error = code, error


class Socket(Protocol):
    """What a session needs of a WebSocket."""

    async def receive(self) -> str | None:
        """Return the next message, None when the connection has closed."""

    async def send(self, text: str) -> None: ...


class Session:
    """Serves one client until it leaves or has to be dropped."""

    def __init__(
        self, socket: Socket, robot: Robot, client: str, mailbox: Mailbox, refusals: RefusalLog
    ) -> None:
        self._socket = socket
        self._robot = robot
        self._client = client
        self._mailbox = mailbox
        self._refusals = refusals
        self._n = 0
        self._unread: deque[tuple[int, int, float]] = deque()  # number, bytes, when it was sent
        self._unread_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._waiting: deque[Command] = deque()
        self._work = asyncio.Event()
        self._urgent: set[asyncio.Task[None]] = set()
        self._unreadable = 0
        self._may_drive = False  # a velocity of this connection may be in force
        self._acts: dict[type[Any], Callable[[Any], Awaitable[BaseModel]]] = {
            VelocityCommand: self._velocity,
            StopCommand: self._stop,
            EstopCommand: self._estop,
            ClearCommand: self._clear,
            TakeCommand: self._take,
            KeepCommand: self._keep,
            ReleaseCommand: self._release,
        }

    async def run(self) -> None:
        """Serve until the client leaves. Raises Closing when it has to be dropped."""
        tasks: list[asyncio.Task[None]] = []
        try:
            await self._greet()
            work: tuple[Coroutine[Any, Any, None], ...] = (
                self._read(),
                self._tell(),
                self._carry_out(),
                self._watch_reader(),
            )
            tasks = [asyncio.create_task(part) for part in work]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            with anyio.move_on_after(LAST_ACT_S, shield=True):
                for task in (*tasks, *self._urgent):
                    # A stop that was asked for is carried out, though nobody waits for its answer.
                    if task not in self._urgent:
                        task.cancel()
                if self._may_drive:
                    await self._let_go()
                await asyncio.gather(*tasks, *self._urgent, return_exceptions=True)

    async def _let_go(self) -> None:
        try:
            await self._robot.platform.lose(self._client)
        except RhinoError as error:  # the gate's dead-man is left
            _log.warning("the zero of a lost client did not arrive: %s", error)

    # out

    async def _greet(self) -> None:
        mailbox = self._mailbox
        hello = Hello(
            robot=self._robot.name,
            client=self._client,
            resumed=mailbox.resumed,
            replayed=mailbox.replayed,
        )
        await self._send(HelloMessage(n=self._next(), data=hello).model_dump_json())

    def _next(self) -> int:
        self._n += 1
        return self._n

    async def _send(self, text: str) -> None:
        """Send what has just been given the newest number."""
        size = len(text)
        self._unread.append((self._n, size, asyncio.get_running_loop().time()))
        self._unread_bytes += size
        if self._unread_bytes > MOST_UNREAD_BYTES:
            raise Closing(TOO_SLOW, SlowReader())
        if self._unread_bytes > WINDOW_BYTES:
            self._room.clear()
        await self._socket.send(text)

    async def _tell(self) -> None:
        while True:
            for event in await self._mailbox.take():
                await self._room.wait()
                # Written by hand, since the data is JSON already and is the same for all.
                await self._send(
                    f'{{"type":"event","n":{self._next()},"event":"{event.name}",'
                    f'"id":"{event.id}","data":{event.data}}}'
                )

    async def _watch_reader(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(CHECK_S)
            if self._unread and loop.time() - self._unread[0][2] > SLOW_S:
                raise Closing(TOO_SLOW, SlowReader())

    def _acknowledge(self, n: int) -> None:
        while self._unread and self._unread[0][0] <= n:
            self._unread_bytes -= self._unread.popleft()[1]
        if self._unread_bytes <= WINDOW_BYTES:
            self._room.set()

    # in

    async def _read(self) -> None:
        while (text := await self._socket.receive()) is not None:
            try:
                if len(text) > MAX_MESSAGE_BYTES:
                    raise InvalidRequest("The message is too long.")
                message = ClientMessage.validate_json(text)
            except (ValidationError, InvalidRequest) as error:
                await self._complain(error)
                continue
            if isinstance(message, Acknowledgement):
                self._acknowledge(message.n)
            elif isinstance(message, StopCommand | EstopCommand):
                await self._drop_velocities()
                task = asyncio.create_task(self._act(message))
                self._urgent.add(task)
                task.add_done_callback(self._urgent.discard)
            else:
                await self._queue(message)

    async def _complain(self, error: ValidationError | InvalidRequest) -> None:
        self._unreadable += 1
        refused = InvalidRequest(
            _first_problem(error) if isinstance(error, ValidationError) else ""
        )
        if self._unreadable > MAX_UNREADABLE:
            raise Closing(POLICY, refused)
        await self._send(ErrorMessage(n=self._next(), error=_body(refused)).model_dump_json())

    async def _queue(self, message: Command) -> None:
        if isinstance(message, VelocityCommand):
            await self._drop_velocities()
        if len(self._waiting) >= MAX_WAITING:
            raise Closing(POLICY, InvalidRequest("Too many commands wait.", "Wait for answers."))
        self._waiting.append(message)
        self._work.set()

    async def _drop_velocities(self) -> None:
        dropped = [command for command in self._waiting if isinstance(command, VelocityCommand)]
        for command in dropped:
            self._waiting.remove(command)
            await self._answer(command, error=Overtaken())

    # acts

    async def _carry_out(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            while self._waiting:
                await self._act(self._waiting.popleft())

    async def _act(self, command: Command) -> None:
        try:
            result = await self._acts[type(command)](command)
        except RhinoError as error:
            holder = getattr(error, "holder", "")
            self._refusals.write(
                logging.INFO,
                self._client,
                f"WebSocket {command.type}",
                error.code,
                error.message,
                holder,
            )
            await self._answer(command, error=error)
        except Exception:
            _log.exception("WebSocket %s failed", command.type)
            failed = RhinoError("The server failed at this command.", "See the log: rhino logs.")
            await self._answer(command, error=failed)
        else:
            await self._answer(command, result=result)

    async def _answer(
        self,
        command: Command,
        *,
        result: BaseModel | None = None,
        error: RhinoError | None = None,
    ) -> None:
        answer = AnswerMessage(
            n=self._next(),
            to=command.type,
            seq=command.seq,
            ok=error is None,
            result=result.model_dump(mode="json") if result else None,
            error=_body(error) if error else None,
        )
        await self._send(answer.model_dump_json())

    async def _velocity(self, command: VelocityCommand) -> VelocityResponse:
        twist = Twist2D(command.vx, command.vy, command.omega)
        if not twist.is_zero:
            self._may_drive = True  # also when no answer comes
        answer = await commands.drive(self._robot, twist, self._client, Rank.HUMAN)
        if twist.is_zero:
            self._may_drive = False
        return VelocityResponse.model_validate(answer)

    async def _stop(self, command: StopCommand) -> StopResponse:
        stopped = await commands.stop(self._robot, self._client)
        return stop_response(stopped.gate, stopped.goal_cancelled, stopped.mission_stopped)

    async def _estop(self, command: EstopCommand) -> StopResponse:
        stopped = await commands.emergency_stop(self._robot, self._client)
        return stop_response(stopped.gate, stopped.goal_cancelled, stopped.mission_stopped)

    async def _clear(self, command: ClearCommand) -> Gate:
        return Gate.model_validate(await self._robot.platform.clear_estop(self._client))

    async def _take(self, command: TakeCommand) -> ControlResponse:
        took = await commands.take_control(self._robot, self._client, command.taking_from)
        return control_response(took.gate, took.taken_from)

    async def _keep(self, command: KeepCommand) -> ControlResponse:
        return control_response(await commands.keep_control(self._robot, self._client))

    async def _release(self, command: ReleaseCommand) -> ControlResponse:
        status = await commands.release_control(self._robot, self._client)
        return control_response(status.gate)


def _body(error: RhinoError) -> ErrorBody:
    holder = getattr(error, "holder", None)
    return ErrorBody(**error_body(error.code, error.message, error.hint, holder))


def closing_message(error: RhinoError, n: int = 0) -> str:
    """Return what is sent before a connection is closed."""
    return ErrorMessage(n=n, error=_body(error)).model_dump_json()


def _first_problem(error: ValidationError) -> str:
    """Return one sentence that names the field; what was sent is not repeated."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place:.64}: {first['msg']}." if place else f"{first['msg']:.200}."
