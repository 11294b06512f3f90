"""The walking controller: one control step from the robot's true state to twelve torques, as a numba kernel.

A trot by a clock: diagonal legs swing together, feet land where the hips will be. Standing legs share the force and
moment that keep the trunk level, at height and at speed: a regularised least-squares fit, then a few projected
gradient steps into the friction cones. Swinging feet follow a curve under a task-space PD. At rest the robot stands
on all four. It plays the robot's firmware, so it may use the true state.

Frames: world; trunk; heading (the world turned by the trunk's yaw). Sources: own; the ideas are Raibert's foot
placement and the force distribution of the MIT Cheetah's balance controller.
"""

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.gait import ABDUCTION, HIP_X, HIP_Y, STAND_LENGTH
from rhino_actors.drivers.mujoco.kinematics import foot_jacobian, foot_place

Array = NDArray[np.float64]

GRAVITY = 9.81
# Legs FR, FL, RR, RL.
SIDE_X = (1.0, 1.0, -1.0, -1.0)
SIDE_Y = (-1.0, 1.0, -1.0, 1.0)
OFFSET = (0.0, 0.5, 0.5, 0.0)
TORQUE_LIMIT = (23.7, 23.7, 45.43)

_F = np.float64

GAINS = np.dtype(
    [
        ("mass", _F),  # [kg]
        ("period", _F),  # [s] of the trot
        ("duty", _F),  # share of it that a foot stands
        ("lift", _F),  # [m] of a swinging foot
        ("height", _F),  # [m] of the trunk above the feet
        ("place_gain", _F),  # [s] foot placement per velocity error
        ("reach", _F),  # [m] of a foot from below its hip, at most
        ("swing_kp", _F),
        ("swing_kd", _F),
        ("height_kp", _F),
        ("height_kd", _F),
        ("speed_kp", _F),  # [1/s]
        ("tilt_kp", _F),
        ("tilt_kd", _F),
        ("yaw_kp", _F),
        ("yaw_kd", _F),
        ("stand_yaw_kp", _F),
        ("stand_kp", _F),  # [1/s2] towards the middle of the feet
        ("stand_kd", _F),
        ("friction", _F),  # of the cones
        ("side_weight", _F),  # of a sideways force against an upright one in the fit
        ("moment_weight", _F),  # of a newton metre against a newton
        ("side_limit", _F),  # [m/s2] that the balance asks for at most
        ("regularise", _F),
        ("trim", _F),  # [1/s] of the velocity integral
        ("accel", _F),  # [m/s2] of the command
        ("brake", _F),
        ("yaw_accel", _F),  # [rad/s2]
        ("settle", _F),  # [s] of no command before it stands
    ]
)

STATE = np.dtype(
    [
        ("phase", _F),
        ("stepping", _F),  # 1 trotting, 0 standing on all four
        ("idle", _F),  # [s] without a command
        ("vx", _F),  # command after the slew, heading frame
        ("vy", _F),
        ("omega", _F),
        ("trim_x", _F),
        ("trim_y", _F),
        ("low_x", _F),  # low-passed velocity
        ("low_y", _F),
        ("late_x", _F),  # the slewed command, low-passed like the velocity
        ("late_y", _F),
        ("late_omega", _F),
        ("blocked", _F),  # [s] of moving much slower than asked
        ("yaw", _F),  # heading to hold
        ("floor", _F),  # [m] height of the standing feet
        ("slope_x", _F),  # of the floor under the feet, heading frame
        ("slope_y", _F),
        ("lean_x", _F),  # what standing adds against a lasting lean, heading frame [rad]
        ("lean_y", _F),
        ("lean_yaw", _F),
        ("fresh", _F),  # 1 until the first step
    ]
)

TRIM_LIMIT = (0.30, 0.25)
YAW_ERROR_LIMIT = 0.25  # [rad]
LEAN_GAIN = 2.0  # [1/s] of the integral that takes a standing robot to the attitude asked for
LEAN_LIMIT = 0.35  # [rad]
STILL_RATE = 0.1  # [rad/s]
INERTIA = (0.18, 0.47, 0.50)  # [kg m2] of the whole robot, standing, about its own axes
LOW_PASS = 0.15  # [s] of the velocity that the trim sees
LEG_LAG = 0.28  # [s] of legs and low-pass behind a command
YAW_LAG = 0.10  # [s]
MIN_FORCE, MAX_FORCE = 4.0, 320.0  # [N] of a foot on the floor
TOUCH = 8.0  # [N] that count as contact
EARLY = 0.6  # share of the swing after which contact ends it
PRESS = 0.004  # [m] below the floor that a swinging foot aims at
SHANK_MASS = 0.194  # [kg]
FLOOR_TIME = 0.05  # [s] in which the floor's height is taken up
SLOPE_TIME = 0.3  # [s] and its slope
SLOPE_LIMIT = 0.4
HELD_SPEED, HELD_TIME = 0.25, 0.4  # [m/s] of error for so long [s]: something holds the robot
CALM_SPEED = 0.12  # [m/s] below which it may stand still
RESTART_SPEED = 0.35  # [m/s] or
RESTART_TILT = 0.26  # [rad] beyond which a standing robot steps
IDLE = 0.015  # [m/s] or [rad/s] below which a command is none


def default_gains() -> NDArray[np.void]:
    """Return the gains (1,) of dtype GAINS."""
    gains = np.zeros(1, GAINS)
    values = {
        "mass": 15.02,
        "period": 0.36,
        "duty": 0.55,
        "lift": 0.07,
        "height": STAND_LENGTH - 0.012,
        "place_gain": 0.08,
        "reach": 0.22,
        "swing_kp": 900.0,
        "swing_kd": 24.0,
        "height_kp": 120.0,
        "height_kd": 18.0,
        "speed_kp": 12.0,
        "tilt_kp": 180.0,
        "tilt_kd": 18.0,
        "yaw_kp": 20.0,
        "yaw_kd": 26.0,
        "stand_yaw_kp": 80.0,
        "stand_kp": 60.0,
        "stand_kd": 12.0,
        "friction": 0.6,
        "side_weight": 1.0,
        "moment_weight": 5.0,
        "side_limit": 4.0,
        "regularise": 1e-3,
        "trim": 1.0,
        "accel": 3.0,
        "brake": 5.0,
        "yaw_accel": 4.0,
        "settle": 0.3,
    }
    for name, value in values.items():
        gains[name] = value
    return gains


class TrotController:
    """The kernel's memory and work space. `torques` is written by each `step`."""

    def __init__(self, gains: NDArray[np.void] | None = None) -> None:
        self.gains = default_gains() if gains is None else gains
        self.state = np.zeros(1, STATE)
        self.torques = np.zeros(12)
        # What is asked for while standing, as offsets: roll, pitch, yaw [rad], height, forward shift [m].
        self.attitude = np.zeros(5)
        self._command = np.zeros(3)
        self._lifted = np.zeros((4, 3))  # where a foot left the floor, world
        self._modes = np.zeros((4, 2))  # 1 in swing; 1 landed early
        self._work = np.zeros((12, 12))
        self.reset()

    def reset(self) -> None:
        """Forget everything: the next step starts standing, where and as the robot is."""
        self.state[:] = 0.0
        self.state["fresh"] = 1.0
        self.attitude[:] = 0.0
        self._modes[:] = 0.0

    @property
    def is_stepping(self) -> bool:
        return bool(self.state["stepping"][0])

    def step(
        self,
        qpos: Array,
        qvel: Array,
        com: Array,
        touch: Array,
        twist: tuple[float, float, float],
        dt: float,
    ) -> Array:
        """Take one control step.

        Args:
            qpos: (19,) place, quaternion w x y z, joints.
            qvel: (18,) velocity in the world, rates in the trunk, joint speeds.
            com: (3,) centre of mass in the world [m].
            touch: (4,) force at the feet [N].
            twist: what is asked for: vx, vy [m/s], omega [rad/s], heading frame.
            dt: time since the last step [s].

        Returns:
            (12,) torques [N m]; overwritten by the next step.
        """
        self._command[0], self._command[1], self._command[2] = twist
        _control(
            self.gains,
            self.state,
            self._lifted,
            self._modes,
            self._work,
            qpos,
            qvel,
            com,
            touch,
            self._command,
            self.attitude,
            dt,
            self.torques,
        )
        return self.torques


def warm_up() -> None:
    """Compile the kernels, or load them from the cache."""
    qpos = np.zeros(19)
    qpos[2:4] = 0.33, 1.0
    qpos[7:] = (0.0, 0.75, -1.5) * 4
    TrotController().step(qpos, np.zeros(18), qpos[:3].copy(), np.zeros(4), (0.0, 0.0, 0.0), 0.002)


@njit(nogil=True, cache=True)
def _approach(value: float, target: float, step: float) -> float:
    return value + max(-step, min(step, target - value))


@njit(nogil=True, cache=True)
def _bounded(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))


@njit(nogil=True, cache=True)
def _rotation(quaternion: Array, matrix: Array) -> None:
    w, x, y, z = quaternion[0], quaternion[1], quaternion[2], quaternion[3]
    matrix[0, 0] = 1.0 - 2.0 * (y * y + z * z)
    matrix[0, 1] = 2.0 * (x * y - w * z)
    matrix[0, 2] = 2.0 * (x * z + w * y)
    matrix[1, 0] = 2.0 * (x * y + w * z)
    matrix[1, 1] = 1.0 - 2.0 * (x * x + z * z)
    matrix[1, 2] = 2.0 * (y * z - w * x)
    matrix[2, 0] = 2.0 * (x * z - w * y)
    matrix[2, 1] = 2.0 * (y * z + w * x)
    matrix[2, 2] = 1.0 - 2.0 * (x * x + y * y)


@njit(nogil=True, cache=True)
def _slew(gains: Any, state: Any, command: Array, dt: float) -> None:
    """Move the command towards what is asked, no faster than the robot can."""
    g, s = gains[0], state[0]
    dx, dy = command[0] - s.vx, command[1] - s.vy
    length = math.sqrt(dx * dx + dy * dy)
    # Braking is what brings the speed down; it may be harder than speeding up.
    slower = dx * s.vx + dy * s.vy < 0.0
    step = (g.brake if slower else g.accel) * dt
    if length > step:
        dx, dy = dx * step / length, dy * step / length
    s.vx += dx
    s.vy += dy
    s.omega = _approach(s.omega, command[2], g.yaw_accel * dt)


@njit(nogil=True, cache=True)
def _solve6(a: Array, b: Array) -> None:
    """Solve the symmetric positive definite a (6, 6) x = b in place by Cholesky; a is destroyed."""
    for i in range(6):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= a[i, k] * a[j, k]
            a[i, j] = math.sqrt(max(total, 1e-12)) if i == j else total / a[j, j]
    for i in range(6):
        for k in range(i):
            b[i] -= a[i, k] * b[k]
        b[i] /= a[i, i]
    for i in range(5, -1, -1):
        for k in range(i + 1, 6):
            b[i] -= a[k, i] * b[k]
        b[i] /= a[i, i]


@njit(nogil=True, cache=True)
def _into_cone(force: Array, friction: float) -> None:
    """Move a foot's force (3,) into its friction cone and range, nearest in the vertical first."""
    force[2] = max(MIN_FORCE, min(MAX_FORCE, force[2]))
    side = math.sqrt(force[0] * force[0] + force[1] * force[1])
    limit = friction * force[2]
    if side > limit:
        # Nearest point of the cone: share the excess between more load and less side force.
        load = min(MAX_FORCE, (force[2] + friction * side) / (1.0 + friction * friction))
        force[2] = load
        force[0] *= friction * load / side
        force[1] *= friction * load / side


@njit(nogil=True, cache=True)
def _share_forces(
    arms: Array, standing: Array, wrench: Array, g: Any, forces: Array, work: Array
) -> None:
    """Find forces (4, 3) of the standing feet that make up a wrench about the centre of mass.

    Args:
        arms: (4, 3) feet from the centre of mass [m].
        standing: (4,) 1 for a foot on the floor.
        wrench: (6,) force [N], moment [N m].
        g: gains.
        forces: (4, 3), written.
        work: (12, 12) scratch.
    """
    grasp = work[:6, :]  # (6, 12) wrench per force, moments scaled
    for i in range(6):
        for j in range(12):
            grasp[i, j] = 0.0
    k, e = g.moment_weight, g.side_weight
    for leg in range(4):
        if standing[leg] < 0.5:
            continue
        c = 3 * leg
        x, y, z = arms[leg, 0], arms[leg, 1], arms[leg, 2]
        grasp[0, c] = grasp[1, c + 1] = e
        grasp[2, c + 2] = 1.0
        grasp[3, c + 1] = -k * z
        grasp[3, c + 2] = k * y
        grasp[4, c] = k * z
        grasp[4, c + 2] = -k * x
        grasp[5, c] = -k * y
        grasp[5, c + 1] = k * x
    normal = work[6:12, :6]
    trace = 0.0
    for i in range(6):
        for j in range(i + 1):
            total = 0.0
            for c in range(12):
                total += grasp[i, c] * grasp[j, c]
            normal[i, j] = normal[j, i] = total
        trace += normal[i, i]
    for i in range(6):
        normal[i, i] += g.regularise * trace / 6.0
    wanted = work[6:12, 6]
    left = work[6:12, 7]
    for i in range(6):
        wanted[i] = wrench[i] * (k if i > 2 else 1.0 if i == 2 else e)
        left[i] = wanted[i]
    _solve6(normal, left)
    outside = False
    for leg in range(4):
        for axis in range(3):
            total = 0.0
            for i in range(6):
                total += grasp[i, 3 * leg + axis] * left[i]
            forces[leg, axis] = total
        if standing[leg] > 0.5:
            f = forces[leg]
            before_x, before_z = f[0], f[2]
            _into_cone(f, g.friction)
            outside = outside or f[0] != before_x or f[2] != before_z
    if not outside:
        return
    # The largest eigenvalue is below the trace: a step of twice its inverse share still goes down.
    rate = 1.6 / trace
    for _ in range(12):
        for i in range(6):
            total = -wanted[i]
            for leg in range(4):
                for axis in range(3):
                    total += grasp[i, 3 * leg + axis] * forces[leg, axis]
            left[i] = total
        for leg in range(4):
            if standing[leg] < 0.5:
                continue
            for axis in range(3):
                slope = 0.0
                for i in range(6):
                    slope += grasp[i, 3 * leg + axis] * left[i]
                forces[leg, axis] -= rate * slope
            _into_cone(forces[leg], g.friction)


@njit(nogil=True, cache=True)
def _place_feet(
    qpos: Array, qvel: Array, turn: Array, feet: Array, speeds: Array, jacobians: Array
) -> None:
    """Write places (4, 3), speeds against the trunk (4, 3) and Jacobians (4, 3, 3) of the feet, world frame."""
    local = np.empty(3)
    own = np.empty((3, 3))
    for leg in range(4):
        q = qpos[7 + 3 * leg : 10 + 3 * leg]
        foot_place(q, SIDE_Y[leg], local)
        local[0] += SIDE_X[leg] * HIP_X
        local[1] += SIDE_Y[leg] * HIP_Y
        foot_jacobian(q, SIDE_Y[leg], own)
        for i in range(3):
            feet[leg, i] = (
                qpos[i] + turn[i, 0] * local[0] + turn[i, 1] * local[1] + turn[i, 2] * local[2]
            )
            total = 0.0
            for j in range(3):
                value = turn[i, 0] * own[0, j] + turn[i, 1] * own[1, j] + turn[i, 2] * own[2, j]
                jacobians[leg, i, j] = value
                total += value * qvel[6 + 3 * leg + j]
            speeds[leg, i] = total


@njit(nogil=True, cache=True)
def _schedule(
    gains: Any, state: Any, command: Array, vx: float, vy: float, yaw: float, leans: bool, dt: float
) -> None:
    """Step or stand, and trim the velocity while stepping. Standing begins at a moment with all feet down."""
    g, s = gains[0], state[0]
    share = dt / LOW_PASS
    s.low_x += share * (vx - s.low_x)
    s.low_y += share * (vy - s.low_y)
    # What the robot can be expected to do by now: errors against it are the trim's, not the lag of the legs.
    share = dt / LEG_LAG
    s.late_x += share * (s.vx - s.late_x)
    s.late_y += share * (s.vy - s.late_y)
    s.late_omega += dt / YAW_LAG * (s.omega - s.late_omega)

    asked = max(math.sqrt(command[0] ** 2 + command[1] ** 2), abs(command[2])) > IDLE
    moving = max(math.sqrt(s.vx * s.vx + s.vy * s.vy), abs(s.omega)) > IDLE
    pushed = math.sqrt(vx * vx + vy * vy) > RESTART_SPEED or leans
    s.idle = 0.0 if asked or moving or pushed else s.idle + dt
    if s.stepping > 0.5:
        s.phase += dt / g.period
        s.phase -= math.floor(s.phase)
        all_down = s.phase < g.duty - 0.5 or 0.5 <= s.phase < g.duty
        calm = math.sqrt(s.low_x**2 + s.low_y**2) < CALM_SPEED
        if s.idle > g.settle and all_down and calm:
            s.stepping = 0.0
            s.trim_x = s.trim_y = 0.0
            s.yaw = yaw
    elif asked or pushed:
        s.stepping = 1.0
        s.phase = g.duty - 0.5
        s.yaw = yaw

    # The trim is a slow integral of what is left of the velocity error; what something holds back is not its to mend.
    error_x, error_y = s.late_x - s.low_x, s.late_y - s.low_y
    held = s.stepping > 0.5 and (abs(error_x) > HELD_SPEED or abs(error_y) > HELD_SPEED)
    s.blocked = s.blocked + dt if held else 0.0
    if s.blocked >= HELD_TIME:
        s.trim_x *= 1.0 - dt
        s.trim_y *= 1.0 - dt
    elif s.stepping > 0.5 and (moving or not pushed):
        s.trim_x = _bounded(s.trim_x + g.trim * error_x * dt, TRIM_LIMIT[0])
        s.trim_y = _bounded(s.trim_y + g.trim * error_y * dt, TRIM_LIMIT[1])


@njit(nogil=True, cache=True)
def _progress(gains: Any, state: Any, leg: int) -> float:
    """Return how far a leg is through its swing, 0 to 1; negative while it stands."""
    at = state[0].phase + OFFSET[leg]
    at -= math.floor(at)
    progress: float = (at - gains[0].duty) / (1.0 - gains[0].duty)
    return progress


@njit(nogil=True, cache=True)
def _choose_legs(
    gains: Any, state: Any, modes: Array, lifted: Array, feet: Array, touch: Array, standing: Array
) -> None:
    """Write which legs stand (4,): those that the clock has standing, and those that met the floor early."""
    standing[:] = 1.0
    for leg in range(4):
        progress = _progress(gains, state, leg)
        if state[0].stepping < 0.5 or progress < 0.0:
            modes[leg, 0] = modes[leg, 1] = 0.0
            continue
        if modes[leg, 0] < 0.5:
            modes[leg, 0] = 1.0
            modes[leg, 1] = 0.0
            for i in range(3):
                lifted[leg, i] = feet[leg, i]
        if progress > EARLY and touch[leg] > TOUCH:
            modes[leg, 1] = 1.0
        if modes[leg, 1] < 0.5:
            standing[leg] = 0.0


@njit(nogil=True, cache=True)
def _feel_floor(
    state: Any,
    qpos: Array,
    feet: Array,
    lifted: Array,
    touch: Array,
    standing: Array,
    heading: tuple[float, float, float, float],
    dt: float,
) -> None:
    """Follow height and slope of the floor by the feet that stand, and by where the others last stood."""
    s = state[0]
    cos, sin, vx, vy = heading
    stepping = s.stepping > 0.5
    count, mean = 0.0, 0.0
    last = np.empty(4)
    for leg in range(4):
        last[leg] = feet[leg, 2] if standing[leg] > 0.5 else lifted[leg, 2]
        if standing[leg] > 0.5 and (touch[leg] > TOUCH or not stepping):
            x, y = feet[leg, 0] - qpos[0], feet[leg, 1] - qpos[1]
            count += 1.0
            mean += feet[leg, 2] - s.slope_x * (cos * x + sin * y) - s.slope_y * (cos * y - sin * x)
    if count > 0.5:
        s.floor += (mean / count - s.floor) * min(1.0, dt / FLOOR_TIME)
    else:
        s.floor += s.slope_x * vx * dt + s.slope_y * vy * dt
    share = min(1.0, dt / SLOPE_TIME)
    rise_x = (last[0] + last[1] - last[2] - last[3]) / (4.0 * HIP_X)
    rise_y = (last[1] + last[3] - last[0] - last[2]) / (4.0 * (HIP_Y + ABDUCTION))
    s.slope_x = _bounded(s.slope_x + (rise_x - s.slope_x) * share, SLOPE_LIMIT)
    s.slope_y = _bounded(s.slope_y + (rise_y - s.slope_y) * share, SLOPE_LIMIT)


@njit(nogil=True, cache=True)
def _want_wrench(
    gains: Any,
    state: Any,
    qpos: Array,
    qvel: Array,
    com: Array,
    feet: Array,
    turn: Array,
    rates: Array,
    attitude: Array,
    heading: tuple[float, float, float, float],
    dt: float,
    wrench: Array,
) -> None:
    """Write the force [N] and the moment about the centre of mass [N m] that the balance asks for (6,), world."""
    g, s = gains[0], state[0]
    cos, sin, vx, vy = heading
    stepping = s.stepping > 0.5
    if stepping:
        ax = g.speed_kp * (s.vx + s.trim_x - vx)
        ay = g.speed_kp * (s.vy + s.trim_y - vy)
        side_x, side_y = cos * ax - sin * ay, sin * ax + cos * ay
    else:
        middle_x = 0.25 * (feet[0, 0] + feet[1, 0] + feet[2, 0] + feet[3, 0]) + cos * attitude[4]
        middle_y = 0.25 * (feet[0, 1] + feet[1, 1] + feet[2, 1] + feet[3, 1]) + sin * attitude[4]
        side_x = g.stand_kp * (middle_x - com[0]) - g.stand_kd * qvel[0]
        side_y = g.stand_kp * (middle_y - com[1]) - g.stand_kd * qvel[1]
    # Two feet cannot both push hard sideways and keep the trunk level; level comes first.
    far = math.sqrt(side_x * side_x + side_y * side_y)
    if far > g.side_limit:
        side_x, side_y = side_x * g.side_limit / far, side_y * g.side_limit / far
    height = s.floor + g.height + attitude[3]
    climb = s.slope_x * vx + s.slope_y * vy
    wrench[0] = g.mass * side_x
    wrench[1] = g.mass * side_y
    wrench[2] = g.mass * (
        GRAVITY + g.height_kp * (height - qpos[2]) - g.height_kd * (qvel[2] - climb)
    )

    # The up direction that the trunk should have, and the turn that leads there; heading frame.
    up_x = math.sin(attitude[1]) * math.cos(attitude[0]) - s.slope_x
    up_y = -math.sin(attitude[0]) - s.slope_y
    up_z = math.sqrt(max(0.1, 1.0 - up_x * up_x - up_y * up_y))
    now_x = cos * turn[0, 2] + sin * turn[1, 2]
    now_y = cos * turn[1, 2] - sin * turn[0, 2]
    roll_error = now_y * up_z - turn[2, 2] * up_y
    pitch_error = turn[2, 2] * up_x - now_x * up_z
    yaw_error = s.yaw + attitude[2] - math.atan2(turn[1, 0], turn[0, 0])
    yaw_error = math.atan2(math.sin(yaw_error), math.cos(yaw_error))
    if stepping:
        s.lean_x = s.lean_y = s.lean_yaw = 0.0
    elif rates[0] ** 2 + rates[1] ** 2 + rates[2] ** 2 < STILL_RATE * STILL_RATE:
        # Only a trunk at rest shows what is lasting, and what is on the way.
        s.lean_x = _bounded(s.lean_x + LEAN_GAIN * roll_error * dt, LEAN_LIMIT)
        s.lean_y = _bounded(s.lean_y + LEAN_GAIN * pitch_error * dt, LEAN_LIMIT)
        s.lean_yaw = _bounded(s.lean_yaw + LEAN_GAIN * yaw_error * dt, LEAN_LIMIT)
    roll_rate, pitch_rate = cos * rates[0] + sin * rates[1], cos * rates[1] - sin * rates[0]
    about_x = INERTIA[0] * (g.tilt_kp * (roll_error + s.lean_x) - g.tilt_kd * roll_rate)
    about_y = INERTIA[1] * (g.tilt_kp * (pitch_error + s.lean_y) - g.tilt_kd * pitch_rate)
    yaw_kp = g.yaw_kp if stepping else g.stand_yaw_kp
    wrench[3] = cos * about_x - sin * about_y
    wrench[4] = sin * about_x + cos * about_y
    wrench[5] = INERTIA[2] * (yaw_kp * (yaw_error + s.lean_yaw) + g.yaw_kd * (s.omega - rates[2]))


@njit(nogil=True, cache=True)
def _swing(
    gains: Any,
    state: Any,
    leg: int,
    qpos: Array,
    qvel: Array,
    rates: Array,
    foot: Array,
    speed: Array,
    lifted: Array,
    heading: tuple[float, float, float, float],
    pull: Array,
) -> None:
    """Write the force (3,) that leads a swinging foot along its curve to where it belongs, world [N]."""
    g, s = gains[0], state[0]
    cos, sin, vx, vy = heading
    p = _progress(gains, state, leg)
    swing_time = (1.0 - g.duty) * g.period
    remaining = (1.0 - p) * swing_time
    # Where the hip will be, and how far from below it the foot belongs; heading frame.
    ahead = s.omega * remaining
    hip_x, hip_y = SIDE_X[leg] * HIP_X, SIDE_Y[leg] * (HIP_Y + ABDUCTION)
    hip_x, hip_y = (
        math.cos(ahead) * hip_x - math.sin(ahead) * hip_y,
        math.sin(ahead) * hip_x + math.cos(ahead) * hip_y,
    )
    half = 0.5 * g.duty * g.period
    step_x = half * (vx - s.omega * hip_y) + g.place_gain * (vx - s.vx - s.trim_x)
    step_y = half * (vy + s.omega * hip_x) + g.place_gain * (vy - s.vy - s.trim_y)
    far = math.sqrt(step_x * step_x + step_y * step_y)
    if far > g.reach:
        step_x, step_y = step_x * g.reach / far, step_y * g.reach / far
    x = vx * remaining + hip_x + step_x
    y = vy * remaining + hip_y + step_y
    target = (
        qpos[0] + cos * x - sin * y,
        qpos[1] + sin * x + cos * y,
        s.floor + s.slope_x * x + s.slope_y * y - PRESS,
    )
    # Along the ground by a minimum-jerk curve, up and down by a bump.
    along = p * p * p * (10.0 - 15.0 * p + 6.0 * p * p)
    along_rate = 30.0 * p * p * (1.0 - p) * (1.0 - p) / swing_time
    bump = 16.0 * p * p * (1.0 - p) * (1.0 - p)
    bump_rate = 32.0 * p * (1.0 - p) * (1.0 - 2.0 * p) / swing_time
    for i in range(3):
        way = target[i] - lifted[i]
        place = lifted[i] + along * way + (g.lift * bump if i == 2 else 0.0)
        rate = along_rate * way + (g.lift * bump_rate if i == 2 else 0.0)
        # Speed of the foot in the world: against the trunk, plus the trunk's own.
        j, k = (i + 1) % 3, (i + 2) % 3
        carried = qvel[i] + rates[j] * (foot[k] - qpos[k]) - rates[k] * (foot[j] - qpos[j])
        pull[i] = g.swing_kp * (place - foot[i]) + g.swing_kd * (rate - speed[i] - carried)
    pull[2] += SHANK_MASS * GRAVITY


@njit(nogil=True, cache=True)
def _control(
    gains: Any,
    state: Any,
    lifted: Array,
    modes: Array,
    work: Array,
    qpos: Array,
    qvel: Array,
    com: Array,
    touch: Array,
    command: Array,
    attitude: Array,
    dt: float,
    torques: Array,
) -> None:
    """Write the torques (12,) of one control step; arguments as in `TrotController`."""
    g, s = gains[0], state[0]
    turn = np.empty((3, 3))
    _rotation(qpos[3:7], turn)
    yaw = math.atan2(turn[1, 0], turn[0, 0])
    cos, sin = math.cos(yaw), math.sin(yaw)
    rates = np.empty(3)
    for i in range(3):
        rates[i] = turn[i, 0] * qvel[3] + turn[i, 1] * qvel[4] + turn[i, 2] * qvel[5]
    vx, vy = cos * qvel[0] + sin * qvel[1], cos * qvel[1] - sin * qvel[0]
    heading = (cos, sin, vx, vy)
    feet = np.empty((4, 3))
    speeds = np.empty((4, 3))
    jacobians = np.empty((4, 3, 3))
    _place_feet(qpos, qvel, turn, feet, speeds, jacobians)
    if s.fresh > 0.5:
        s.fresh = 0.0
        s.yaw = yaw
        s.vx, s.vy, s.omega = vx, vy, rates[2]
        s.low_x, s.low_y = vx, vy
        s.late_x, s.late_y, s.late_omega = s.vx, s.vy, s.omega
        s.floor = 0.25 * (feet[0, 2] + feet[1, 2] + feet[2, 2] + feet[3, 2])

    _slew(gains, state, command, dt)
    tilt = math.acos(max(-1.0, min(1.0, turn[2, 2])))
    leans = tilt > RESTART_TILT + max(abs(attitude[0]), abs(attitude[1]))
    _schedule(gains, state, command, vx, vy, yaw, leans, dt)
    standing = np.empty(4)
    _choose_legs(gains, state, modes, lifted, feet, touch, standing)
    _feel_floor(state, qpos, feet, lifted, touch, standing, heading, dt)

    # Heading to hold; it does not run away from a robot that cannot turn.
    s.yaw += s.late_omega * dt
    turned = math.atan2(math.sin(s.yaw - yaw), math.cos(s.yaw - yaw))
    s.yaw = yaw + _bounded(turned, YAW_ERROR_LIMIT + abs(attitude[2]))

    wrench = np.empty(6)
    _want_wrench(gains, state, qpos, qvel, com, feet, turn, rates, attitude, heading, dt, wrench)
    arms = np.empty((4, 3))
    for leg in range(4):
        for i in range(3):
            arms[leg, i] = feet[leg, i] - com[i]
    forces = np.empty((4, 3))
    _share_forces(arms, standing, wrench, g, forces, work)

    pull = np.empty(3)
    for leg in range(4):
        if standing[leg] > 0.5:
            for i in range(3):
                pull[i] = -forces[leg, i]
        else:
            _swing(
                gains,
                state,
                leg,
                qpos,
                qvel,
                rates,
                feet[leg],
                speeds[leg],
                lifted[leg],
                heading,
                pull,
            )
        for j in range(3):
            total = 0.0
            for i in range(3):
                total += jacobians[leg, i, j] * pull[i]
            torques[3 * leg + j] = _bounded(total, TORQUE_LIMIT[j])
