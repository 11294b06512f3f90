"""What the Go2 speaks over its data channel: topics, numbers, envelopes, and what its answers mean.

Every message is JSON with `type`, `topic` and `data`; lidar maps alone are binary (`lidar.py`). Values come from
outside: each reader here checks what it takes and raises `MessageError` for what cannot be used.
"""

import base64
import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from rhino_actors.drivers.go2 import lidar
from rhino_actors.messages.platform import LowState, Posture

LIDAR_TOPIC = lidar.TOPIC
POSE_TOPIC = "rt/utlidar/robot_pose"
LIDAR_SWITCH_TOPIC = "rt/utlidar/switch"
LOW_STATE_TOPIC = "rt/lf/lowstate"
SPORT_STATE_TOPIC = "rt/lf/sportmodestate"
MULTIPLE_STATE_TOPIC = "rt/multiplestate"
JOYSTICK_TOPIC = "rt/wirelesscontroller"
SUBSCRIBED = (POSE_TOPIC, LIDAR_TOPIC, LOW_STATE_TOPIC, SPORT_STATE_TOPIC)

# Services take requests on rt/api/NAME/request and answer on rt/api/NAME/response.
SPORT = "sport"
MOTION_SWITCHER = "motion_switcher"
OBSTACLES_AVOID = "obstacles_avoid"
VUI = "vui"

MOVE = 1008
STOP_MOVE = 1003
DAMP = 1001
SWITCH_JOYSTICK = 1027
CHECK_MODE = 1001  # of MOTION_SWITCHER
SWITCH_AVOID_SET = 1001  # of OBSTACLES_AVOID
VUI_SET_VOLUME = 1003
VUI_GET_VOLUME = 1004
VUI_SET_BRIGHTNESS = 1005
VUI_GET_BRIGHTNESS = 1006
VUI_COLOR = 1007

# Service, number and field of each of the DEVICES.
DEVICE_REQUESTS = {
    "light": (VUI, VUI_SET_BRIGHTNESS, "brightness"),
    "volume": (VUI, VUI_SET_VOLUME, "volume"),
    "obstacle_avoidance": (OBSTACLES_AVOID, SWITCH_AVOID_SET, "enable"),
}

# The same in both generations of the firmware's sport service.
_COMMON = {
    "Damp": DAMP,
    "BalanceStand": 1002,
    "StopMove": STOP_MOVE,
    "StandUp": 1004,
    "StandDown": 1005,
    "RecoveryStand": 1006,
    "Euler": 1007,
    "Move": MOVE,
    "Sit": 1009,
    "RiseSit": 1010,
    "SpeedLevel": 1015,
    "Hello": 1016,
    "Stretch": 1017,
    "Content": 1020,
    "Dance1": 1022,
    "Dance2": 1023,
    "SwitchJoystick": SWITCH_JOYSTICK,
    "Pose": 1028,
    "Scrape": 1029,
    "FrontFlip": 1030,
    "FrontJump": 1031,
    "FrontPounce": 1032,
    "FingerHeart": 1036,
}
# Mode "normal", up to firmware 1.1.6.
NORMAL_COMMANDS = {
    **_COMMON,
    "SwitchGait": 1011,
    "BodyHeight": 1013,
    "FootRaiseHeight": 1014,
    "Wallow": 1021,
    "WiggleHips": 1033,
    "EconomicGait": 1035,
    "StandOut": 1039,
    "LeftFlip": 1042,
    "RightFlip": 1043,
    "BackFlip": 1044,
    "FreeWalk": 1045,
    "Handstand": 1301,
    "CrossStep": 1302,
    "OnesidedStep": 1303,
    "Bound": 1304,
    "MoonWalk": 1305,
}
# Mode "mcf", from firmware 1.1.7.
MCF_COMMANDS = {
    **_COMMON,
    "StaticWalk": 1061,
    "TrotRun": 1062,
    "EconomicGait": 1063,
    "LeftFlip": 2041,
    "BackFlip": 2043,
    "Handstand": 2044,
    "FreeWalk": 2045,
    "Bound": 2046,
    "FreeJump": 2047,
    "FreeAvoid": 2048,
    "ClassicWalk": 2049,
    "WalkUpright": 2050,
    "CrossStep": 2051,
}
MCF_MODE = "mcf"

OK = 0
ALREADY_SO = 7004
NOT_OFFERED = 3203
WRONG_STATE = 4201

_CODES = {
    3001: "The robot reports an unknown error.",
    3102: "The robot's service could not pass the request on.",
    3104: "The robot's service did not answer in time.",
    3202: "The robot's service has an internal error.",
    NOT_OFFERED: "This firmware does not offer that.",
    3204: "The robot does not take these numbers.",
    3205: "Another program has the robot's sport service.",
    WRONG_STATE: "The robot cannot do that in its posture.",
}

_SOURCES = {
    100: "communication",
    200: "communication",
    300: "a motor",
    400: "the lidar",
    500: "the UWB module",
    600: "motion control",
}
# (source, bit) -> what it is. Codes are bit masks.
_FAULTS = {
    (100, 0x1): "messages inside the robot come too late",
    (100, 0x2): "the distribution switch is abnormal",
    (100, 0x10): "the battery does not communicate",
    (100, 0x20): "the remote control does not communicate",
    (100, 0x40): "the controller board does not communicate",
    (100, 0x80): "the motors do not communicate",
    (200, 0x1): "the rear left fan is jammed",
    (200, 0x2): "the rear right fan is jammed",
    (200, 0x4): "the front fan is jammed",
    (300, 0x1): "overcurrent",
    (300, 0x2): "overvoltage",
    (300, 0x4): "its driver is too hot",
    (300, 0x8): "undervoltage",
    (300, 0x10): "its winding is too hot",
    (300, 0x20): "its encoder is abnormal",
    (300, 0x100): "its communication is interrupted",
    (400, 0x1): "its motor does not keep its speed",
    (400, 0x2): "its points are abnormal",
    (400, 0x4): "its data are abnormal",
    (400, 0x10): "its window is dirty",
    (500, 0x1): "its port does not open",
    (500, 0x2): "it does not find the robot",
    (600, 0x4): "the robot protects itself: too hot",
    (600, 0x8): "the robot protects itself: battery low",
}

# `mode` of sportmodestate in the documented table; newer firmware reports fewer of them.
_POSTURES = {
    0: Posture.STANDING,
    1: Posture.STANDING,
    3: Posture.STANDING,
    5: Posture.LYING,
    7: Posture.DAMPED,
    8: Posture.CHANGING,
    10: Posture.SITTING,
}
LYING_HEIGHT = 0.16  # [m] of the body below which it lies
STANDING_HEIGHT = 0.24  # [m] above which it stands


class MessageError(ValueError):
    """A message of the robot that cannot be used."""


@dataclass(frozen=True, slots=True)
class RobotPose:
    """One message of the robot's own odometry."""

    device_stamp: float  # [s]
    position: tuple[float, float, float]  # [m] in odom
    orientation: tuple[float, float, float, float]  # quaternion x, y, z, w


@dataclass(frozen=True, slots=True)
class BoardState:
    """What a low state message says."""

    battery: float  # [%]
    voltage: float  # [V]
    temperature: float  # [deg C] of the hottest motor
    low_state: LowState


@dataclass(frozen=True, slots=True)
class SportState:
    """What a sport state message says."""

    mode: int
    body_height: float  # [m]; nan: not told
    error_code: int


def envelope(kind: str, topic: str = "", data: Any = None) -> str:
    """Return a message as text. Raises ValueError for numbers that JSON does not know."""
    message: dict[str, Any] = {"type": kind, "topic": topic}
    if data is not None:
        message["data"] = data
    return json.dumps(message, allow_nan=False)


def request_topic(service: str) -> str:
    """Return the topic on which a service takes requests."""
    return f"rt/api/{service}/request"


def response_topic(service: str) -> str:
    """Return the topic on which a service answers."""
    return f"rt/api/{service}/response"


def request(service: str, api_id: int, number: int, parameter: Any = None) -> str:
    """Return a request as text; `number` comes back in the answer."""
    text = "" if parameter is None else json.dumps(parameter, allow_nan=False)
    header = {"identity": {"id": number, "api_id": api_id}}
    return envelope("req", request_topic(service), {"header": header, "parameter": text})


def move_parameter(vx: float, vy: float, omega: float) -> dict[str, float]:
    """Return the parameter of Move: forward, left [m/s], turning left [rad/s]."""
    return {"x": vx, "y": vy, "z": omega}


def validation_answer(key: str) -> str:
    """Return what the robot expects for the key that it sent."""
    digest = hashlib.md5(f"UnitreeGo2_{key}".encode(), usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def sport_commands(mode: str) -> dict[str, int]:
    """Return name -> number for the sport service in a mode of the motion switcher."""
    return MCF_COMMANDS if mode == MCF_MODE else NORMAL_COMMANDS


def code_sentence(code: int) -> str:
    """Return what a status code means; empty for success."""
    if code in (OK, ALREADY_SO):
        return ""
    return _CODES.get(code, f"The robot refused with code {code}.")


def fault_sentences(source: int, code: int) -> tuple[str, ...]:
    """Return what a fault message says: one sentence for each bit of its code."""
    where = _SOURCES.get(source, f"source {source}")
    bits = [1 << index for index in range(max(code, 0).bit_length()) if code >> index & 1]
    return tuple(
        f"The robot reports a fault of {where}: "
        f"{_FAULTS.get((source, bit), f'code {bit:x} of {source}')}."
        for bit in bits
    ) or (f"The robot reports a fault of {where}.",)


def fault_list(data: Any) -> list[tuple[float, int, int]]:
    """Return (time, source, code) of a fault message, which holds one triple or a list of them."""
    if not isinstance(data, list):
        raise MessageError("faults are not a list")
    triples = [data] if data and not isinstance(data[0], list) else data
    found = []
    for triple in triples:
        if not isinstance(triple, list) or len(triple) != 3:
            raise MessageError("a fault is not three numbers")
        found.append((_number(triple[0]), int(_number(triple[1])), int(_number(triple[2]))))
    return found


def read_pose(data: Any) -> RobotPose:
    """Read a message of POSE_TOPIC. Raises MessageError."""
    try:
        place, turn = data["pose"]["position"], data["pose"]["orientation"]
        position = (_number(place["x"]), _number(place["y"]), _number(place["z"]))
        x, y, z, w = (_number(turn[axis]) for axis in "xyzw")
    except (KeyError, TypeError) as error:
        raise MessageError(f"not a pose: {error!r}") from error
    norm = math.sqrt(x * x + y * y + z * z + w * w)
    if not 0.5 < norm < 2.0:
        raise MessageError("not a quaternion")
    return RobotPose(_stamp(data), position, (x / norm, y / norm, z / norm, w / norm))


def read_low_state(data: Any) -> BoardState:
    """Read a message of LOW_STATE_TOPIC. Raises MessageError."""
    try:
        roll, pitch, yaw = (_number(value) for value in data["imu_state"]["rpy"])
        battery = data["bms_state"]
        motors = data["motor_state"][:12]
        state = LowState(
            roll_pitch_yaw=(roll, pitch, yaw),
            joint_angles=tuple(_number(motor["q"]) for motor in motors),
            foot_forces=tuple(_number(force) for force in data.get("foot_force", ())),
            current=-_number(battery.get("current", 0)) / 1000.0,
        )
        return BoardState(
            battery=min(100.0, max(0.0, _number(battery["soc"]))),
            voltage=_number(data["power_v"]),
            temperature=max((_number(motor["temperature"]) for motor in motors), default=math.nan),
            low_state=state,
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise MessageError(f"not a low state: {error!r}") from error


def read_sport_state(data: Any) -> SportState:
    """Read a message of SPORT_STATE_TOPIC. Raises MessageError."""
    try:
        return SportState(
            mode=int(_number(data["mode"])),
            body_height=_number(data["body_height"]) if "body_height" in data else math.nan,
            error_code=int(_number(data.get("error_code", 0))),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise MessageError(f"not a sport state: {error!r}") from error


def posture_of(state: SportState | None, height: float, tilt: float) -> Posture:
    """Return the posture from the sport state, the body's height [m] and its tilt [rad].

    The height has the last word on lying and standing: what `mode` says differs between firmwares.
    """
    if tilt > 0.87:
        return Posture.FALLEN
    posture = Posture.STANDING if state is None else _POSTURES.get(state.mode, Posture.STANDING)
    if posture is Posture.STANDING and height < LYING_HEIGHT:
        return Posture.LYING
    if posture is Posture.STANDING and height < STANDING_HEIGHT:
        return Posture.CHANGING
    return posture


def _stamp(data: Any) -> float:
    """Return the device's stamp, nan when it cannot be read: it is data, not a clock."""
    try:
        stamp = data["header"]["stamp"]
        return _number(stamp["sec"]) + _number(stamp["nanosec"]) * 1e-9
    except (KeyError, TypeError, MessageError):
        return math.nan


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise MessageError(f"{value!r:.40} is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise MessageError("a number is not finite")
    return number
