"""The simulated robot, without clocks, processes or memory of others: the same commands give the same motion."""

import math
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco import gait
from rhino_actors.drivers.mujoco.lidar import RingLidar
from rhino_actors.drivers.mujoco.model import SETTLE_SITES, TIMESTEP, compile_model
from rhino_actors.drivers.mujoco.posture import PostureMachine
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.platform import Posture, SportResult

# What the body can do at most, whoever asks.
MAX_VX = 2.5  # [m/s]
MAX_VY = 1.0  # [m/s]
MAX_OMEGA = 3.0  # [rad/s]

BATTERY_START = 96.0  # [%]
BATTERY_LIFE_STANDING = 4.0 * 3600.0  # [s] from full to empty
BATTERY_LIFE_WALKING = 2.0 * 3600.0  # [s]
CELL_EMPTY, CELL_FULL, CELLS = 3.2, 4.15, 8  # [V], [V], in series

_PLANAR = 3  # coordinates of the base; those of trunk and legs follow
_IN_MOTION = 0.02  # [m/s] or [rad/s] above which the legs trot


class Simulation:
    """The robot in its world. `advance` is the only thing that lets time pass."""

    def __init__(self, world: World, config: MujocoConfig, robot: RobotConfig) -> None:
        self.model = compile_model(world, config, robot)
        self.data = mujoco.MjData(self.model)
        self._sketch = mujoco.MjData(
            self.model
        )  # a second state, to set the robot down on the floor
        self._posture = PostureMachine()
        self._lidar = RingLidar(self.model, config, config.seed)
        names = [self.model.site(index).name for index in range(self.model.nsite)]
        self._settle = np.array([i for i, n in enumerate(names) if n.startswith(SETTLE_SITES)])
        self._settle_radius = self.model.site_size[self._settle, 0]
        self._phase = 0.0
        self._battery = BATTERY_START
        self._pose_body(STILL, 0.0)

    @property
    def time(self) -> float:
        """Simulated seconds since the start."""
        return float(self.data.time)

    @property
    def posture(self) -> Posture:
        return self._posture.posture

    @property
    def battery(self) -> float:
        """Charge [%]."""
        return self._battery

    @property
    def voltage(self) -> float:
        """Voltage of the pack [V]."""
        return CELLS * (CELL_EMPTY + (CELL_FULL - CELL_EMPTY) * self._battery / 100.0)

    @property
    def pose(self) -> Pose2D:
        """Pose of the base in odom, which is the world's frame here."""
        x, y, yaw = self.data.qpos[:_PLANAR].tolist()
        return Pose2D(x, y, math.remainder(yaw, math.tau))

    @property
    def position(self) -> tuple[float, float, float]:
        """Place of base_link in odom [m]."""
        x, y, _, z = self.data.qpos[: _PLANAR + 1].tolist()
        return (x, y, z)

    @property
    def orientation(self) -> tuple[float, float, float, float]:
        """Quaternion x, y, z, w of base_link in odom."""
        _, _, yaw, _, pitch, roll = self.data.qpos[: _PLANAR + 3].tolist()
        return _quaternion(roll, pitch, yaw)

    @property
    def twist(self) -> Twist2D:
        """Velocity in the body's frame, as it really is."""
        vx, vy, omega = self.data.qvel[:_PLANAR].tolist()
        yaw = float(self.data.qpos[2])
        cos, sin = math.cos(yaw), math.sin(yaw)
        return Twist2D(cos * vx + sin * vy, -sin * vx + cos * vy, omega)

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """The model's coordinates, for the camera; a view that the next `advance` changes."""
        qpos: NDArray[np.float64] = self.data.qpos
        return qpos

    def command(self, name: str) -> SportResult:
        """Carry out a sport command; see `PostureMachine.command`."""
        return self._posture.command(name)

    def tip_over(self, roll: float, pitch: float) -> None:
        """Throw the robot over; see `PostureMachine.tip_over`."""
        self._posture.tip_over(roll, pitch)

    def advance(self, twist: Twist2D, steps: int) -> None:
        """Let `steps` time steps pass while the robot is asked for a body twist; it obeys when it stands."""
        duration = steps * TIMESTEP
        wanted = _possible(twist) if self._posture.takes_velocity else STILL
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
        life = BATTERY_LIFE_STANDING if wanted.is_zero else BATTERY_LIFE_WALKING
        self._battery = max(0.0, self._battery - 100.0 * duration / life)

    def scan(self) -> tuple[NDArray[np.float32], tuple[float, float, float]]:
        """Return a lidar scan from where the robot is now: points (N, 3) in odom, and the sensor's place [m]."""
        mujoco.mj_kinematics(self.model, self.data)
        return self._lidar.scan(self.data)

    def summary(self) -> dict[str, Any]:
        """Return posture and battery, for the state message."""
        return {
            "posture": self.posture.value,
            "battery": self.battery,
            "voltage": self.voltage,
        }

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


STILL = Twist2D()


def _possible(twist: Twist2D) -> Twist2D:
    if not twist.is_finite:
        return STILL
    return Twist2D(
        max(-MAX_VX, min(MAX_VX, twist.vx)),
        max(-MAX_VY, min(MAX_VY, twist.vy)),
        max(-MAX_OMEGA, min(MAX_OMEGA, twist.omega)),
    )


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
