"""What the peer does with commands: the sport service's states, how long a Move holds, and what else the robot serves.

Time is an argument; the body is asked to move by `step`, many times a second. Assumptions about the real firmware
are options, because nobody outside the vendor knows them all.
"""

import json
import logging
import math
from collections import deque
from dataclasses import dataclass
from typing import Any

from rhino_actors.drivers.go2 import protocol
from rhino_actors.errors import RhinoError, UnknownCommand
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.platform import Posture
from rhino_actors.peer.body import Body

NUMBERS = 2**31  # request numbers are milliseconds modulo this
LOG_LENGTH = 50_000

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Firmware:
    """How this robot behaves where robots differ."""

    version: str = "1.1.8"
    mode: str = protocol.MCF_MODE  # of the motion switcher; "normal" in older firmware
    hold_s: float = 1.0  # a Move lasts so long
    move_scale: tuple[float, float, float] = (1.0, 1.0, 1.0)  # what comes of a Move
    move_works: bool = True  # False: Move is answered and nothing happens
    stick_scale: tuple[float, float, float] = (1.5, -1.0, -2.0)  # per stick: forward, left, turning


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that a client asked for."""

    stamp: float  # [s] monotonic
    name: str
    age: float  # [s] since the client wrote it; nan where it does not say
    twist: Twist2D = Twist2D()


class Brain:
    """Obeys one client."""

    def __init__(self, body: Body, firmware: Firmware) -> None:
        self._body = body
        self._firmware = firmware
        self._names = {
            number: name for name, number in protocol.sport_commands(firmware.mode).items()
        }
        self._twist = Twist2D()
        self._until = -math.inf
        self._avoids = False
        self.volume = 5
        self.brightness = 5
        self.color = ""
        self.refusals: dict[int, int] = {}  # sport number -> code, for tests
        self.commands: deque[Command] = deque(maxlen=LOG_LENGTH)

    @property
    def twist(self) -> Twist2D:
        """What the robot does because of a velocity."""
        return self._twist

    def step(self, now: float) -> None:
        """Let the body go on; a velocity that nobody repeated has ended."""
        if now >= self._until:
            self._twist = Twist2D()
        self._body.drive(self._twist)

    def joystick(self, data: Any, now: float) -> None:
        """Take the remote control's sticks."""
        try:
            lx, ly, rx = (float(data[key]) for key in ("lx", "ly", "rx"))
        except (KeyError, TypeError, ValueError):
            return
        forward, left, turning = self._firmware.stick_scale
        twist = Twist2D(forward * ly, left * lx, turning * rx)
        self._note("joystick", now, math.nan, twist)
        self._hold(twist, now)

    async def request(
        self, service: str, number: int, api_id: int, parameter: str, now: float, wall: float
    ) -> tuple[int, str]:
        """Carry out a request.

        Args:
            service: its name.
            number: the client's own; where it is the time in ms, the request's age follows from it.
            api_id: what is wanted.
            parameter: JSON text, or empty.
            now: monotonic [s].
            wall: since the epoch [s].

        Returns:
            Status code and data of the answer.
        """
        age = ((int(wall * 1000) - number) % NUMBERS) / 1000.0
        try:
            fields = json.loads(parameter) if parameter else {}
        except ValueError:
            return 3204, ""
        if service == protocol.SPORT:
            return await self._sport(api_id, fields, now, age)
        self._note(f"{service}:{api_id}", now, age)
        if service == protocol.MOTION_SWITCHER:
            if api_id == protocol.CHECK_MODE:
                return 0, json.dumps({"form": "0", "name": self._firmware.mode})
            is_same = fields.get("name") == self._firmware.mode
            return (protocol.ALREADY_SO if is_same else protocol.NOT_OFFERED), ""
        if service == protocol.OBSTACLES_AVOID:
            if api_id == protocol.SWITCH_AVOID_SET:
                self._avoids = bool(fields.get("enable"))
                return 0, ""
            return 0, json.dumps({"enable": self._avoids})
        if service == protocol.VUI:
            return self._vui(api_id, fields)
        return protocol.NOT_OFFERED, ""

    def _vui(self, api_id: int, fields: dict[str, Any]) -> tuple[int, str]:
        if api_id == protocol.VUI_SET_VOLUME:
            self.volume = int(fields.get("volume", 0))
        elif api_id == protocol.VUI_SET_BRIGHTNESS:
            self.brightness = int(fields.get("brightness", 0))
        elif api_id == protocol.VUI_COLOR:
            self.color = str(fields.get("color", ""))
        elif api_id == protocol.VUI_GET_VOLUME:
            return 0, json.dumps({"volume": self.volume})
        elif api_id == protocol.VUI_GET_BRIGHTNESS:
            return 0, json.dumps({"brightness": self.brightness})
        else:
            return protocol.NOT_OFFERED, ""
        return 0, ""

    async def _sport(
        self, api_id: int, fields: dict[str, Any], now: float, age: float
    ) -> tuple[int, str]:
        name = self._names.get(api_id)
        if name is None:
            self._note(f"sport:{api_id}", now, age)
            return protocol.NOT_OFFERED, ""
        if api_id == protocol.MOVE:
            return self._move(fields, now, age)
        self._note(name, now, age)
        if api_id in self.refusals:
            return self.refusals[api_id], ""
        if name in ("StopMove", "Damp"):
            self._until = -math.inf
            self.step(now)
        if name in ("SwitchJoystick", "Euler", "Pose", "SpeedLevel"):
            return 0, ""
        try:
            result = await self._body.sport(name)
        except UnknownCommand:
            return protocol.NOT_OFFERED, ""
        except RhinoError as error:
            logger.warning("the body cannot carry %s out: %s", name, error)
            return protocol.WRONG_STATE, ""
        if result.accepted:
            return protocol.OK, ""
        is_unknown = result.code == protocol.NOT_OFFERED
        return (protocol.NOT_OFFERED if is_unknown else protocol.WRONG_STATE), ""

    def _move(self, fields: dict[str, Any], now: float, age: float) -> tuple[int, str]:
        try:
            asked = Twist2D(*(float(fields[axis]) for axis in "xyz"))
        except (KeyError, TypeError, ValueError):
            return 3204, ""
        self._note("Move", now, age, asked)
        if not asked.is_finite:
            return 3204, ""
        if protocol.MOVE in self.refusals:
            return self.refusals[protocol.MOVE], ""
        if self._body.state().posture is not Posture.STANDING:
            return protocol.WRONG_STATE, ""
        if self._firmware.move_works:
            scale = self._firmware.move_scale
            self._hold(
                Twist2D(asked.vx * scale[0], asked.vy * scale[1], asked.omega * scale[2]), now
            )
        return 0, ""

    def _hold(self, twist: Twist2D, now: float) -> None:
        self._twist, self._until = twist, now + self._firmware.hold_s
        self.step(now)

    def _note(self, name: str, now: float, age: float, twist: Twist2D | None = None) -> None:
        self.commands.append(Command(now, name, age, twist or Twist2D()))
