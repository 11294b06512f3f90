"""What carries the sensors through the world: a base that is driven, or a body that walks. Both by one protocol."""

import math
from collections.abc import Mapping
from typing import Any, Protocol

import mujoco
import numpy as np

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco import gait
from rhino_actors.drivers.mujoco.model import MASS, SETTLE_SITES, compile_model
from rhino_actors.drivers.mujoco.posture import PostureMachine
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.platform import Posture, SportResult

_PLANAR = 3  # coordinates of the driven base; those of trunk and legs follow
_IN_MOTION = 0.02  # [m/s] or [rad/s] above which the legs of the driven base trot
STILL = Twist2D()


class Base(Protocol):
    """The robot's body in a MuJoCo model. `advance` is the only thing that lets time pass."""

    model: mujoco.MjModel
    data: mujoco.MjData

    @property
    def posture(self) -> Posture: ...

    @property
    def takes_velocity(self) -> bool: ...

    @property
    def pose(self) -> Pose2D:
        """Pose of base_link over the floor, world frame."""

    @property
    def position(self) -> tuple[float, float, float]:
        """Place of base_link in the world [m]."""

    @property
    def orientation(self) -> tuple[float, float, float, float]:
        """Quaternion x, y, z, w of base_link in the world."""

    @property
    def twist(self) -> Twist2D:
        """Velocity in the heading frame, as it really is."""

    def command(self, name: str, parameters: Mapping[str, float] | None = None) -> SportResult:
        """Begin a sport command and answer as the robot would.

        Args:
            name: one of SPORT_COMMANDS.
            parameters: of SPORT_PARAMETERS; what is left out is zero.

        Raises:
            ValueError: no such command.
        """

    def tip_over(self, roll: float, pitch: float) -> None:
        """Throw the robot over to these angles [rad]."""

    def push(self, x: float, y: float, z: float = 0.0) -> None:
        """Push the trunk with an impulse in the world's frame [N s]."""

    def advance(self, twist: Twist2D, steps: int) -> None:
        """Let `steps` time steps pass while the robot is asked for a twist; it obeys when it stands."""


def make_base(world: World, config: MujocoConfig, robot: RobotConfig) -> Base:
    """Return the base that the config names, at the world's origin, ready to step without a pause."""
    model = compile_model(world, config, robot)
    if config.base == "kinematic":
        return KinematicBase(model)
    # numba takes a second to import: only those who walk pay for it.
    from rhino_actors.drivers.mujoco.locomotion import WalkingRobot, warm_up

    warm_up()
    return WalkingRobot(model)


class KinematicBase:
    """A base on planar joints that motors drive; trunk and legs are set to look as posture and trot have them."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model = model
        self.data = mujoco.MjData(model)
        # A second state, to set the robot down on the floor.
        self._sketch = mujoco.MjData(model)
        self._posture = PostureMachine()
        names = [model.site(index).name for index in range(model.nsite)]
        self._settle = np.array([i for i, n in enumerate(names) if n.startswith(SETTLE_SITES)])
        self._settle_radius = model.site_size[self._settle, 0]
        self._phase = 0.0
        self._pose_body(STILL, 0.0)

    @property
    def posture(self) -> Posture:
        return self._posture.posture

    @property
    def takes_velocity(self) -> bool:
        return self._posture.takes_velocity

    @property
    def pose(self) -> Pose2D:
        """Pose of base_link over the floor, world frame."""
        x, y, yaw = self.data.qpos[:_PLANAR].tolist()
        return Pose2D(x, y, math.remainder(yaw, math.tau))

    @property
    def position(self) -> tuple[float, float, float]:
        """Place of base_link in the world [m]."""
        x, y, _, z = self.data.qpos[: _PLANAR + 1].tolist()
        return (x, y, z)

    @property
    def orientation(self) -> tuple[float, float, float, float]:
        """Quaternion x, y, z, w of base_link in the world."""
        _, _, yaw, _, pitch, roll = self.data.qpos[: _PLANAR + 3].tolist()
        return _quaternion(roll, pitch, yaw)

    @property
    def twist(self) -> Twist2D:
        """Velocity in the heading frame, as it really is."""
        vx, vy, omega = self.data.qvel[:_PLANAR].tolist()
        yaw = float(self.data.qpos[2])
        cos, sin = math.cos(yaw), math.sin(yaw)
        return Twist2D(cos * vx + sin * vy, -sin * vx + cos * vy, omega)

    def command(self, name: str, parameters: Mapping[str, float] | None = None) -> SportResult:
        """Carry out a sport command; see `PostureMachine.command`."""
        return self._posture.command(name, parameters)

    def tip_over(self, roll: float, pitch: float) -> None:
        """Throw the robot over; see `PostureMachine.tip_over`."""
        self._posture.tip_over(roll, pitch)

    def push(self, x: float, y: float, z: float = 0.0) -> None:
        """Push the base with an impulse in the world's frame [N s]; it cannot be lifted."""
        self.data.qvel[:2] += (x / MASS, y / MASS)

    def advance(self, twist: Twist2D, steps: int) -> None:
        """Let `steps` time steps pass while the robot is asked for a twist; it obeys when it stands."""
        duration = steps * float(self.model.opt.timestep)
        wanted = twist if self._posture.takes_velocity else STILL
        if not wanted.is_zero:
            self._posture.level()
        self._posture.step(duration)
        self._pose_body(self.twist, duration)
        yaw = float(self.data.qpos[2]) + 0.5 * duration * float(self.data.qvel[2])
        cos, sin = math.cos(yaw), math.sin(yaw)
        self.data.ctrl[:] = (
            cos * wanted.vx - sin * wanted.vy,
            sin * wanted.vx + cos * wanted.vy,
            wanted.omega,
        )
        mujoco.mj_step(self.model, self.data, nstep=steps)

    def _pose_body(self, twist: Twist2D, duration: float) -> None:
        """Set trunk and legs as posture and gait have them, the lowest point of the robot on the floor."""
        pose = self._posture.pose
        joints: Any = pose[2:]
        if self._posture.takes_velocity:
            if max(math.hypot(twist.vx, twist.vy), abs(twist.omega)) > _IN_MOTION:
                self._phase = math.fmod(self._phase + duration / gait.TROT_PERIOD, 1.0)
                joints = gait.trot(self._phase, twist)
            else:
                self._phase = 0.0
        sketch = self._sketch.qpos
        sketch[_PLANAR] = 0.0
        sketch[_PLANAR + 1 : _PLANAR + 3] = pose[:2]
        sketch[_PLANAR + 3 :] = joints
        mujoco.mj_kinematics(self.model, self._sketch)
        lowest = (self._sketch.site_xpos[self._settle, 2] - self._settle_radius).min()
        sketch[_PLANAR] = -lowest
        self.data.qpos[_PLANAR:] = sketch[_PLANAR:]
        self.data.qvel[_PLANAR:] = 0.0


def _quaternion(roll: float, pitch: float, yaw: float) -> tuple[float, float, float, float]:
    """Return x, y, z, w of a turn by yaw about z, then pitch about the new y, then roll about the new x [rad]."""
    cr, sr = math.cos(roll / 2.0), math.sin(roll / 2.0)
    cp, sp = math.cos(pitch / 2.0), math.sin(pitch / 2.0)
    cy, sy = math.cos(yaw / 2.0), math.sin(yaw / 2.0)
    return (
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
        cr * cp * cy + sr * sp * sy,
    )
