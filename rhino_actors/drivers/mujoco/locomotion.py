"""The walking robot: postures as motions of a body with weight, and the trot when it stands.

Sport commands are scripts: generators that set what the joints or the balance are to do, one control step at a time.
They end in a posture. Nothing here knows clocks, threads or the scene; the same commands give the same motion.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace

import mujoco
import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.gait import LEGS
from rhino_actors.drivers.mujoco.posture import FOLD as FOLD_POSE
from rhino_actors.drivers.mujoco.posture import (
    LEAN_TIME,
    LEVELLING,
    PERFORMANCES,
    admit,
    lean_of,
)
from rhino_actors.drivers.mujoco.posture import LIE as LIE_POSE
from rhino_actors.drivers.mujoco.posture import SIT as SIT_POSE
from rhino_actors.drivers.mujoco.posture import STAND as STAND_POSE
from rhino_actors.drivers.mujoco.trot import TORQUE_LIMIT, TrotController
from rhino_actors.drivers.mujoco.trot import warm_up as warm_up_trot
from rhino_actors.drivers.mujoco.walking_model import TRUNK_BODY, standing_coordinates
from rhino_actors.drivers.platform import SPORT_PARAMETERS
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.platform import Posture, SportResult

Array = NDArray[np.float64]
Script = Generator[None, None, None]

FALL_TILT = 0.87  # [rad] of the trunk, for
FALL_TIME = 0.2  # [s]: it has fallen
SUNK_HEIGHT = 0.15  # [m] of the trunk over the floor while it should stand, for
SUNK_TIME = 0.5  # [s]: it has fallen, too
SIT_TILT = 1.1  # [rad] that a robot may lean when it sits or does a figure
PUSH_TIME = 0.1  # [s] that a push takes
LEVEL = (0.0,) * 5  # no lean

FOLD, LIE, SIT, STAND = (pose[2:] for pose in (FOLD_POSE, LIE_POSE, SIT_POSE, STAND_POSE))

KP, KD = 80.0, 4.0  # of joints that follow a script
DAMPING = 3.0  # [N m s/rad] of damped motors

# Roll from the back onto the belly: two poses of right and left legs (abduction outwards, hip, knee [rad]) and the
# time of each [s]; right and left change places for the other side. Found by such a search as
# benchmarks/roll_over_search.py.
ROLL_OVER: tuple[tuple[tuple[float, ...], tuple[float, ...], float], ...] = (
    ((0.40, 2.38, -1.45), (0.20, 0.77, -1.87), 0.39),
    ((0.89, 3.00, -1.82), (0.93, 2.56, -1.50), 0.25),
)
UPSIDE_DOWN = 1.75  # [rad] of roll beyond which the robot lies on its back
MAX_ROLLS = 8


class WalkingRobot:
    """A Go2 in a MuJoCo model of `walking_model`. `advance` is the only thing that lets time pass."""

    def __init__(self, model: mujoco.MjModel, *, control_every: int = 1) -> None:
        """Set the robot on its feet at the origin.

        Args:
            model: with the robot in it.
            control_every: physics steps per control step.
        """
        self.model = model
        self.data = mujoco.MjData(model)
        self.controller = TrotController()
        self.roll_over = ROLL_OVER
        self._every = control_every
        self._dt = float(model.opt.timestep) * control_every
        self._steps = 0
        trunk = model.body(TRUNK_BODY).id
        # Views that MuJoCo keeps up to date. The robot's joints are the first of the model.
        start = int(model.jnt_qposadr[model.body_jntadr[trunk]])
        speed = int(model.jnt_dofadr[model.body_jntadr[trunk]])
        self._qpos: Array = self.data.qpos[start : start + 19]
        self._qvel: Array = self.data.qvel[speed : speed + 18]
        self._com: Array = self.data.subtree_com[trunk]
        self._touch: Array = self.data.sensordata[:4]
        self._ctrl: Array = self.data.ctrl[:12]
        self._force: Array = self.data.xfrc_applied[trunk]
        self._push_until = -1.0
        self._trunk = trunk
        self._own_mass = float(model.body_mass[trunk])
        self._late: deque[Array] = deque()
        self._posture = Posture.STANDING
        self._goal = Posture.STANDING
        self._script: Script | None = None
        self._is_performing = False
        self._recovering = False
        self._target: Array | None = None  # joints to hold; None: the balance controller acts
        self._damped = False
        self._held = np.zeros(12)
        self._tilted = 0.0  # [s]
        self._sunk = 0.0  # [s]
        self.place(0.0, 0.0, 0.0)

    @property
    def time(self) -> float:
        """Simulated seconds since the start."""
        return float(self.data.time)

    @property
    def posture(self) -> Posture:
        return self._posture

    @property
    def takes_velocity(self) -> bool:
        return self._posture is Posture.STANDING

    @property
    def position(self) -> tuple[float, float, float]:
        """Place of the trunk in the world [m]."""
        x, y, z = self._qpos[:3].tolist()
        return (x, y, z)

    @property
    def orientation(self) -> tuple[float, float, float, float]:
        """Quaternion x, y, z, w of the trunk in the world."""
        w, x, y, z = self._qpos[3:7].tolist()
        return (x, y, z, w)

    @property
    def roll_pitch_yaw(self) -> tuple[float, float, float]:
        """Attitude of the trunk [rad]: yaw, then pitch, then roll."""
        w, x, y, z = self._qpos[3:7].tolist()
        return (
            math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y)),
            math.asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x)))),
            math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)),
        )

    @property
    def tilt(self) -> float:
        """Angle between the trunk's up and the world's [rad]."""
        _, x, y, _ = self._qpos[3:7].tolist()
        return math.acos(max(-1.0, min(1.0, 1.0 - 2.0 * (x * x + y * y))))

    @property
    def pose(self) -> Pose2D:
        """Pose of the trunk over the floor, world frame."""
        return Pose2D(float(self._qpos[0]), float(self._qpos[1]), self.roll_pitch_yaw[2])

    @property
    def twist(self) -> Twist2D:
        """Velocity in the heading frame and turning rate about the world's vertical, as they are."""
        yaw = self.roll_pitch_yaw[2]
        cos, sin = math.cos(yaw), math.sin(yaw)
        vx, vy, _, p, q, r = self._qvel[:6].tolist()
        w, x, y, z = self._qpos[3:7].tolist()
        omega = (
            2.0 * (x * z - w * y) * p
            + 2.0 * (y * z + w * x) * q
            + (1.0 - 2.0 * (x * x + y * y)) * r
        )
        return Twist2D(cos * vx + sin * vy, -sin * vx + cos * vy, omega)

    @property
    def joints(self) -> Array:
        """The 12 joint angles [rad]; a view that `advance` changes."""
        return self._qpos[7:]

    @property
    def foot_forces(self) -> Array:
        """Force at each foot [N], FR, FL, RR, RL; a view that `advance` changes."""
        return self._touch

    def place(self, x: float, y: float, yaw: float) -> None:
        """Put the robot, standing and still, on the floor at a pose of the world."""
        self._qpos[:] = standing_coordinates()
        self._qpos[:2] = x, y
        self._qpos[3:7] = math.cos(yaw / 2.0), 0.0, 0.0, math.sin(yaw / 2.0)
        self._qvel[:] = 0.0
        self._balance()
        self._become(Posture.STANDING)
        mujoco.mj_forward(self.model, self.data)

    def command(self, name: str, parameters: Mapping[str, float] | None = None) -> SportResult:
        """Begin what a sport command asks for and answer as the robot would, without waiting for its end.

        Args:
            name: one of SPORT_COMMANDS.
            parameters: of Pose and Euler, as offsets from the level stand; a velocity ends them.

        Raises:
            ValueError: no such command; the caller checks the name.
        """
        if name in LEVELLING and self._posture is Posture.STANDING and self._leans:
            self._lean_to(LEVEL)
        if name == "StopMove":
            if self._is_performing:
                self._begin(self._level(), Posture.STANDING)
            return SportResult(name, True)
        if name == "Damp":
            if self._posture is not Posture.FALLEN:
                self._damp()
                self._become(Posture.DAMPED)
            return SportResult(name, True)
        answer, goal = admit(name, self._posture)
        if goal is not None and name in SPORT_PARAMETERS:
            self._lean_to((*lean_of(parameters), 0.0))
            return replace(answer, parameters=dict(parameters or {}))
        if goal is not None:
            self._begin(self._scripts()[name](), goal)
            self._is_performing = name in PERFORMANCES
            self._recovering = name == "RecoveryStand"
        return answer

    @property
    def _leans(self) -> bool:
        return bool(self.controller.attitude.any())

    def _lean_to(self, wanted: tuple[float, ...]) -> None:
        """Begin to lean the standing trunk: roll, pitch, yaw [rad], height, forward [m], feet where they are."""
        self._script, self._goal = self._lean(wanted, LEAN_TIME), Posture.STANDING

    def tip_over(self, roll: float, pitch: float) -> None:
        """Set the trunk to these angles [rad], a little off the floor, and let it fall."""
        yaw = self.roll_pitch_yaw[2]
        self._qpos[2] += 0.15 * min(1.0, abs(roll) + abs(pitch))
        cr, sr = math.cos(roll / 2.0), math.sin(roll / 2.0)
        cp, sp = math.cos(pitch / 2.0), math.sin(pitch / 2.0)
        cy, sy = math.cos(yaw / 2.0), math.sin(yaw / 2.0)
        self._qpos[3:7] = (
            cr * cp * cy + sr * sp * sy,
            sr * cp * cy - cr * sp * sy,
            cr * sp * cy + sr * cp * sy,
            cr * cp * sy - sr * sp * cy,
        )
        self._qvel[:] = 0.0
        mujoco.mj_forward(self.model, self.data)
        if self.tilt > FALL_TILT:
            self._damp()
            self._become(Posture.FALLEN)

    def push(self, x: float, y: float, z: float = 0.0) -> None:
        """Push the trunk for PUSH_TIME with an impulse in the world's frame [N s]."""
        self._force[:3] = x / PUSH_TIME, y / PUSH_TIME, z / PUSH_TIME
        self._push_until = self.time + PUSH_TIME

    def load(self, mass: float) -> None:
        """Put a mass on the back, instead of what lay there [kg]; the controller does not know of it."""
        self.model.body_mass[self._trunk] = self._own_mass + mass
        # Constants that follow from the masses; they are computed in a state of their own.
        mujoco.mj_setConst(self.model, mujoco.MjData(self.model))

    def set_friction(self, friction: float) -> None:
        """Set the friction of the feet on any floor."""
        for name, *_ in LEGS:
            self.model.geom(f"{name}_foot").friction[0] = friction

    def set_lag(self, delay: float) -> None:
        """Let torques take effect this much later than they are asked for [s]."""
        self._late = deque(np.zeros((round(delay / self._dt), 12)))

    def advance(self, twist: Twist2D, steps: int) -> None:
        """Let `steps` physics steps pass while the robot is asked for a twist; it obeys when it stands."""
        wanted = (twist.vx, twist.vy, twist.omega) if self.takes_velocity else (0.0, 0.0, 0.0)
        for _ in range(steps):
            if self._steps % self._every == 0:
                self._control(wanted)
            mujoco.mj_step(self.model, self.data)
            self._steps += 1
            if self._push_until >= 0.0 and self.data.time >= self._push_until:
                self._force[:] = 0.0
                self._push_until = -1.0

    def _control(self, wanted: tuple[float, float, float]) -> None:
        if self._script is not None:
            try:
                next(self._script)
            except StopIteration:
                self._script = None
                self._become(self._goal)
        if self._target is None and not self._damped:
            asked = any(wanted)
            if asked and self._leans and self._posture is Posture.STANDING:
                self._script = None
                self.controller.attitude[:] = 0.0
            self._ctrl[:] = self.controller.step(
                self._qpos, self._qvel, self._com, self._touch, wanted, self._dt
            )
        elif self._damped:
            self._ctrl[:] = -DAMPING * self._qvel[6:]
        else:
            _follow(self._qpos, self._qvel, self._held, KP, KD, self._ctrl)
        if self._late:
            self._late.append(self._ctrl.copy())
            self._ctrl[:] = self._late.popleft()
        self._watch()

    def _watch(self) -> None:
        """Notice a fall: tilted for too long, or down when it should stand."""
        if self._recovering or self._posture is Posture.FALLEN:
            self._tilted = self._sunk = 0.0
            return
        balancing = self._target is None and not self._damped
        limit = FALL_TILT if balancing or self._posture is Posture.LYING else SIT_TILT
        self._tilted = self._tilted + self._dt if self.tilt > limit else 0.0
        height = float(self._qpos[2] - self.controller.state["floor"][0])
        self._sunk = self._sunk + self._dt if balancing and height < SUNK_HEIGHT else 0.0
        if self._tilted > FALL_TIME or self._sunk > SUNK_TIME:
            self._damp()
            self._become(Posture.FALLEN)

    def _begin(self, script: Script, goal: Posture) -> None:
        self._become(Posture.CHANGING)
        self._script, self._goal = script, goal

    def _become(self, posture: Posture) -> None:
        self._posture = posture
        self._script = None
        self._is_performing = self._recovering = False

    def _balance(self) -> None:
        """Hand over to the balance controller, which starts from what is."""
        self.controller.reset()
        self._target, self._damped = None, False

    def _damp(self) -> None:
        self._target, self._damped = None, True

    def _scripts(self) -> dict[str, Callable[[], Script]]:
        return {
            "StandUp": self._stand_up,
            "BalanceStand": self._rise,
            "RecoveryStand": self._recover,
            "StandDown": self._lie_down,
            "Sit": lambda: self._move(SIT, 1.5),
            "RiseSit": self._rise,
            "Hello": self._hello,
            "Stretch": self._stretch,
            "Dance1": lambda: self._dance(0.28, 0.10, 0.05, 0.0, 1.0),
            "Dance2": lambda: self._dance(0.10, 0.24, 0.03, 0.3, 1.5),
        }

    def _move(self, target: Array, duration: float) -> Script:
        """Bring the joints to a pose [rad] in a time [s], smoothly, and hold it."""
        start = self._qpos[7:].copy() if self._target is None else self._held.copy()
        self._target, self._damped = target, False
        steps = max(1, round(duration / self._dt))
        for index in range(1, steps + 1):
            share = index / steps
            self._held[:] = start + share * share * (3.0 - 2.0 * share) * (target - start)
            yield

    def _wait(self, duration: float) -> Script:
        for _ in range(round(duration / self._dt)):
            yield

    def _lean(self, wanted: tuple[float, ...], duration: float) -> Script:
        """Bring the balance to an attitude: roll, pitch, yaw [rad], height, forward [m], as offsets."""
        start, target = self.controller.attitude.copy(), np.array(wanted)
        steps = max(1, round(duration / self._dt))
        for index in range(1, steps + 1):
            share = index / steps
            self.controller.attitude[:] = start + share * share * (3.0 - 2.0 * share) * (
                target - start
            )
            yield

    def _level(self) -> Script:
        """Come back from whatever figure to the balanced stand."""
        if self._target is None:
            yield from self._lean(LEVEL, 0.5)
        else:
            yield from self._rise()

    def _rise(self) -> Script:
        yield from self._move(STAND, 1.2)
        self._balance()
        yield from self._wait(0.3)

    def _stand_up(self) -> Script:
        yield from self._move(FOLD, 0.4)
        yield from self._move(STAND, 1.0)
        self._balance()
        yield from self._wait(0.3)

    def _lie_down(self) -> Script:
        yield from self._move(FOLD, 0.8)
        yield from self._move(LIE, 0.5)

    def _hello(self) -> Script:
        yield from self._move(SIT, 1.5)
        paw = SIT.copy()
        paw[:3] = -0.1, -0.9, -1.3
        yield from self._move(paw, 0.6)
        for index in range(round(2.5 / self._dt)):
            wave = math.sin(math.tau * 1.5 * index * self._dt)
            self._held[0] = paw[0] - 0.25 * wave
            self._held[2] = paw[2] + 0.15 * wave
            yield
        yield from self._move(SIT, 0.6)
        yield from self._rise()

    def _stretch(self) -> Script:
        yield from self._lean((0.0, 0.33, 0.0, -0.06, -0.07), 1.2)
        yield from self._wait(1.0)
        yield from self._lean(LEVEL, 1.2)

    def _dance(self, roll: float, pitch: float, bob: float, yaw: float, rate: float) -> Script:
        """Sway for eight seconds: amplitudes [rad], [m] and beats per second."""
        attitude = self.controller.attitude
        if self._leans:
            yield from self._lean(LEVEL, LEAN_TIME)
        length = 8.0
        for index in range(round(length / self._dt)):
            at = index * self._dt
            swell = min(1.0, at, length - at)
            beat = math.tau * rate * at
            attitude[0] = swell * roll * math.sin(beat)
            attitude[1] = swell * pitch * math.sin(beat + 1.2)
            attitude[2] = swell * yaw * math.sin(0.5 * beat)
            attitude[3] = -swell * bob * (0.5 - 0.5 * math.cos(2.0 * beat))
            yield
        attitude[:] = 0.0

    def _recover(self) -> Script:
        """Fold, roll over as often as it takes, stand up."""
        for attempt in range(MAX_ROLLS + 1):
            yield from self._move(FOLD, 0.6)
            yield from self._wait(0.25)
            if abs(self.roll_pitch_yaw[0]) < UPSIDE_DOWN and self.tilt < FALL_TILT:
                break
            if attempt == MAX_ROLLS:
                self._damp()
                self._goal = Posture.FALLEN
                return
            yield from self._roll_over(-1.0 if self.roll_pitch_yaw[0] < 0.0 else 1.0)
        yield from self._stand_up()

    def _roll_over(self, direction: float) -> Script:
        for right, left, duration in self.roll_over:
            yield from self._move(mirrored_legs(right, left, direction), duration)


def mirrored_legs(right: tuple[float, ...], left: tuple[float, ...], direction: float) -> Array:
    """Return 12 joints with both right legs and both left legs alike, sides swapped where `direction` is negative."""
    if direction < 0.0:
        right, left = left, right
    return np.array([-right[0], right[1], right[2], left[0], left[1], left[2]] * 2)


def warm_up() -> None:
    """Compile the kernels, or load them from the cache."""
    warm_up_trot()
    _follow(np.zeros(19), np.zeros(18), np.zeros(12), KP, KD, np.zeros(12))


@njit(nogil=True, cache=True)
def _follow(qpos: Array, qvel: Array, target: Array, kp: float, kd: float, torques: Array) -> None:
    """Write the torques (12,) of a PD to joint angles (12,) [rad]."""
    for index in range(12):
        limit = TORQUE_LIMIT[index % 3]
        torque = kp * (target[index] - qpos[7 + index]) - kd * qvel[6 + index]
        torques[index] = max(-limit, min(limit, torque))
