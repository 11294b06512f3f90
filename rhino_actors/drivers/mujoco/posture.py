"""The posture state machine: sport commands as joint animations, and when the robot takes a velocity.

A pose is 14 numbers: pitch and roll of the trunk [rad], then the 12 joints in the order of `gait`. The height of
the trunk is not among them: the simulation sets the robot down on what is lowest. Stands on numpy alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.gait import (
    ABDUCTION,
    HIP_X,
    HIP_Y,
    LEGS,
    STAND_LENGTH,
    leg_angles,
)
from rhino_actors.drivers.platform import ACROBATICS, SPORT_PARAMETERS
from rhino_actors.messages.platform import Posture, SportResult

Pose = NDArray[np.float64]

# Answers in the robot's own manner: 0 is success, 3203 is its code for what the firmware does not offer.
CODE_NOT_OFFERED = 3203
# What the firmware answers in a wrong posture was not seen; this is its code for a motion that does not come about.
CODE_WRONG_POSTURE = 4201


class Keyframe(NamedTuple):
    """A pose to reach, and the time that it takes."""

    duration: float  # [s]
    pose: Pose


def _pose(
    front: tuple[float, float, float],
    rear: tuple[float, float, float],
    pitch: float = 0.0,
    roll: float = 0.0,
) -> Pose:
    """Build a symmetric pose; abduction is given outwards."""
    joints: list[float] = []
    for leg in (front, rear):
        joints += [-leg[0], leg[1], leg[2], leg[0], leg[1], leg[2]]
    pose = np.array([pitch, roll, *joints])
    pose.flags.writeable = False
    return pose


def _with_paw(pose: Pose, abduction: float, hip: float, knee: float) -> Pose:
    raised = pose.copy()
    raised[2:5] = (abduction, hip, knee)
    raised.flags.writeable = False
    return raised


STAND = _pose((0.0, 0.75, -1.5), (0.0, 0.75, -1.5))
CROUCH = _pose((0.0, 1.0, -2.0), (0.0, 1.0, -2.0))
FOLD = _pose((0.0, 1.36, -2.65), (0.0, 1.36, -2.65))
LIE = _pose((0.35, 1.36, -2.65), (0.5, 1.36, -2.65))
SIT = _pose((0.0, 0.75, -1.2), (0.1, 1.75, -2.7), pitch=-0.59)
BOW = _pose(leg_angles(0.20, 0.0, 0.15), leg_angles(-0.05, 0.0, 0.33), pitch=0.275)

STAND_UP = (Keyframe(0.4, FOLD), Keyframe(1.0, STAND))
LIE_DOWN = (Keyframe(0.8, FOLD), Keyframe(0.5, LIE))
HELLO = (
    Keyframe(1.3, SIT),
    Keyframe(0.5, _with_paw(SIT, -0.1, -0.9, -1.3)),
    *(Keyframe(0.33, _with_paw(SIT, 0.25 * side - 0.1, -0.9, -1.3)) for side in (1, -1) * 4),
    Keyframe(0.5, SIT),
    Keyframe(1.2, STAND),
)
STRETCH = (Keyframe(1.2, BOW), Keyframe(0.8, BOW), Keyframe(1.2, STAND))


def _sway(roll: float, pitch: float, beats: int, beat: float, low: Pose) -> tuple[Keyframe, ...]:
    frames: list[Keyframe] = []
    for index in range(beats):
        pose = (STAND if index % 2 else low).copy()
        pose[0] += pitch * (1 if index % 4 < 2 else -1)
        pose[1] += roll * (1 if index % 2 else -1)
        frames.append(Keyframe(beat, pose))
    return (*frames, Keyframe(0.5, STAND))


PERFORMANCES: dict[str, tuple[Keyframe, ...]] = {
    "Hello": HELLO,
    "Stretch": STRETCH,
    "Dance1": _sway(roll=0.18, pitch=0.10, beats=14, beat=0.45, low=CROUCH),
    "Dance2": _sway(roll=0.10, pitch=0.20, beats=20, beat=0.32, low=STAND),
}

# command -> (postures it starts from, animation, posture at its end)
_CHANGES: dict[str, tuple[frozenset[Posture], tuple[Keyframe, ...], Posture]] = {
    "StandUp": (
        frozenset({Posture.LYING, Posture.DAMPED, Posture.SITTING, Posture.CHANGING}),
        STAND_UP,
        Posture.STANDING,
    ),
    "StandDown": (
        frozenset({Posture.STANDING, Posture.SITTING, Posture.DAMPED, Posture.CHANGING}),
        LIE_DOWN,
        Posture.LYING,
    ),
    "BalanceStand": (
        frozenset({Posture.CHANGING, Posture.SITTING}),
        (Keyframe(1.0, STAND),),
        Posture.STANDING,
    ),
    "RecoveryStand": (frozenset(Posture), STAND_UP, Posture.STANDING),
    "Sit": (frozenset({Posture.STANDING}), (Keyframe(1.5, SIT),), Posture.SITTING),
    "RiseSit": (frozenset({Posture.SITTING}), (Keyframe(1.3, STAND),), Posture.STANDING),
    **{
        name: (frozenset({Posture.STANDING}), frames, Posture.STANDING)
        for name, frames in PERFORMANCES.items()
    },
}
for _name in SPORT_PARAMETERS:
    _CHANGES[_name] = (frozenset({Posture.STANDING}), (), Posture.STANDING)
# Commands that bring a leaning robot back to the level stand.
LEVELLING = frozenset({"StandUp", "BalanceStand", "RecoveryStand", "StopMove"})
# Commands that ask for what is so already: accepted, nothing moves.
_ALREADY = {
    "StandUp": Posture.STANDING,
    "BalanceStand": Posture.STANDING,
    "RecoveryStand": Posture.STANDING,
    "StandDown": Posture.LYING,
    "Sit": Posture.SITTING,
}
_TIP_TIME = 0.25  # [s] that a fall takes
_DAMP_TIME = 1.5  # [s] in which the robot sinks when its motors only damp
_RIGHTING_TIME = 1.5  # [s] to roll back onto the belly
LEAN_TIME = 0.6  # [s] to take up a Pose, or to leave it


def admit(name: str, posture: Posture) -> tuple[SportResult, Posture | None]:
    """Return the answer to a sport command in a posture, and the posture that it leads to.

    None where nothing is to be done: refused, or so already. StopMove and Damp are the caller's to carry out.

    Raises:
        ValueError: no such command; the caller checks the name.
    """
    if name in ACROBATICS:
        why = "The simulated robot does not jump or flip."
        return SportResult(name, False, CODE_NOT_OFFERED, why), None
    if name not in _CHANGES:
        raise ValueError(f"no sport command {name!r}")
    if _ALREADY.get(name) is posture:
        return SportResult(name, True), None
    starts, _, goal = _CHANGES[name]
    if posture not in starts:
        return SportResult(name, False, CODE_WRONG_POSTURE, _refusal(name, posture)), None
    return SportResult(name, True), goal


def lean_of(parameters: Mapping[str, float] | None) -> tuple[float, float, float, float]:
    """Return roll, pitch, yaw [rad] and height [m] of a Pose; what is left out is zero."""
    given = parameters or {}
    roll, pitch, yaw, height = (given.get(key, 0.0) for key in SPORT_PARAMETERS["Pose"])
    return roll, pitch, yaw, height


def _leaning(roll: float, pitch: float, height: float) -> Pose:
    """Return the stand with its trunk turned and moved, feet where they were."""
    cr, sr, cp, sp = math.cos(roll), math.sin(roll), math.cos(pitch), math.sin(pitch)
    world_from_trunk = np.array([[cp, sp * sr, sp * cr], [0.0, cr, -sr], [-sp, cp * sr, cp * cr]])
    pose = STAND.copy()
    pose[:2] = pitch, roll
    for index, (_, side_x, side_y, _) in enumerate(LEGS):
        hip, beside = np.array([side_x * HIP_X, side_y * HIP_Y, 0.0]), side_y * ABDUCTION
        foot = world_from_trunk.T @ (hip + (0.0, beside, -STAND_LENGTH - height)) - hip
        down = math.sqrt(max(foot[1] ** 2 + foot[2] ** 2 - beside**2, 1e-8))
        abduction = math.atan2(foot[2], foot[1]) - math.atan2(-down, beside)
        _, bend, knee = leg_angles(foot[0], 0.0, down)
        pose[2 + 3 * index : 5 + 3 * index] = math.remainder(abduction, math.tau), bend, knee
    pose.flags.writeable = False
    return pose


def _refusal(name: str, posture: Posture) -> str:
    if posture is Posture.FALLEN:
        return f"The robot has fallen; {name} cannot help, RecoveryStand can."
    if posture is Posture.CHANGING:
        return f"The robot is between two postures; ask for {name} when it is done."
    wanted = " or ".join(sorted(p.value for p in _CHANGES[name][0] if p is not Posture.CHANGING))
    return f"{name} needs a {wanted} robot; it is {posture.value}."


class PostureMachine:
    """Where the robot's body is, posture by posture. Time comes in by `step`."""

    def __init__(self) -> None:
        self._posture = Posture.STANDING
        self._goal = Posture.STANDING
        self._from: Pose = STAND
        self._frames: list[Keyframe] = []
        self._elapsed = 0.0
        self._pose: Pose = STAND
        self._is_performing = False  # a motion that ends where it began, and may be cut short
        self._is_leaning = False

    @property
    def posture(self) -> Posture:
        return self._posture

    @property
    def pose(self) -> Pose:
        """Pitch, roll and the 12 joints [rad] at this moment; read-only."""
        return self._pose

    @property
    def takes_velocity(self) -> bool:
        return self._posture is Posture.STANDING

    def command(self, name: str, parameters: Mapping[str, float] | None = None) -> SportResult:
        """Begin what a sport command asks for and answer as the robot would, without waiting for its end.

        Raises:
            ValueError: no such command; the caller checks the name.
        """
        if name in LEVELLING:
            self.level()
        if name == "StopMove":
            if self._is_performing:
                self._begin((Keyframe(0.8, STAND),), Posture.CHANGING, Posture.STANDING)
            return SportResult(name, True)
        if name == "Damp":
            if self._posture is not Posture.FALLEN:
                self._begin((Keyframe(_DAMP_TIME, LIE),), Posture.DAMPED, Posture.DAMPED)
            return SportResult(name, True)
        answer, goal = admit(name, self._posture)
        if goal is None:
            return answer
        if name in SPORT_PARAMETERS:
            roll, pitch, yaw, height = lean_of(parameters)
            self._begin(
                (Keyframe(LEAN_TIME, _leaning(roll, pitch, height)),),
                Posture.STANDING,
                Posture.STANDING,
            )
            self._is_leaning = True
            applied = {**(parameters or {}), "yaw": 0.0} if yaw else dict(parameters or {})
            note = "A driven base does not turn its trunk." if yaw else ""
            return SportResult(name, True, 0, note, applied)
        frames = _CHANGES[name][1]
        if self._posture is Posture.FALLEN:
            frames = (Keyframe(_RIGHTING_TIME, FOLD), *frames)
        self._begin(frames, Posture.CHANGING, goal)
        self._is_performing = name in PERFORMANCES
        return answer

    def level(self) -> None:
        """Come back to the level stand, if it leans."""
        if self._is_leaning:
            self._begin((Keyframe(LEAN_TIME, STAND),), Posture.STANDING, Posture.STANDING)

    def tip_over(self, roll: float, pitch: float) -> None:
        """Throw the robot over to these angles [rad]; it lies so until RecoveryStand."""
        fallen = FOLD.copy()
        fallen[0], fallen[1] = pitch, roll
        self._begin((Keyframe(_TIP_TIME, fallen),), Posture.FALLEN, Posture.FALLEN)

    def step(self, dt: float) -> None:
        """Let `dt` seconds pass."""
        self._elapsed += dt
        while self._frames and self._elapsed >= self._frames[0].duration:
            frame = self._frames.pop(0)
            self._elapsed -= frame.duration
            self._from = self._pose = frame.pose
            if not self._frames:
                self._posture = self._goal
                self._is_performing = False
        if self._frames:
            duration, pose = self._frames[0]
            share = self._elapsed / duration
            smooth = share * share * (3.0 - 2.0 * share)
            self._pose = self._from + smooth * (pose - self._from)

    def _begin(self, frames: Sequence[Keyframe], now: Posture, goal: Posture) -> None:
        self._from, self._frames, self._elapsed = self._pose, list(frames), 0.0
        self._posture, self._goal = now, goal
        self._is_performing = self._is_leaning = False
