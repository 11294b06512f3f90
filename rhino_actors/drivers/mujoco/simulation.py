"""The simulated robot, without clocks, processes or memory of others: the same commands give the same motion."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.base import STILL, make_base
from rhino_actors.drivers.mujoco.dynamics import BodyFaults, WeightedBody
from rhino_actors.drivers.mujoco.faults import MAX_LATENCY, FaultBoard
from rhino_actors.drivers.mujoco.gait import LEGS
from rhino_actors.drivers.mujoco.model import LEG_JOINTS, TRUNK_BODY
from rhino_actors.drivers.mujoco.people import People
from rhino_actors.drivers.mujoco.referee import Referee
from rhino_actors.drivers.mujoco.samples import Observation
from rhino_actors.drivers.mujoco.senses import Body, Senses
from rhino_actors.drivers.mujoco.truth import Truth
from rhino_actors.drivers.mujoco.worlds.scene import World
from rhino_actors.geometry import roll_pitch_from_quaternion
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.platform import Posture, SportResult

# What the body can do at most, whoever asks.
MAX_VX = 2.5  # [m/s]
MAX_VY = 1.0  # [m/s]
MAX_OMEGA = 3.0  # [rad/s]

BATTERY_START = 96.0  # [%]
BATTERY_CAPACITY = 8.0  # [A h]
BATTERY_LIFE_STANDING = 4.0 * 3600.0  # [s] from full to empty
BATTERY_LIFE_WALKING = 2.0 * 3600.0  # [s]
CELL_EMPTY, CELL_FULL, CELLS = 3.2, 4.15, 8  # [V], [V], in series

MAX_TICK_STEPS = 10  # physics steps between two looks at the sensors


class Simulation:
    """The robot in its world. `advance` is the only thing that lets time pass, and `step` calls it."""

    def __init__(self, world: World, config: MujocoConfig, robot: RobotConfig) -> None:
        self.base = make_base(world, config, robot)
        self.model = self.base.model
        self.data = self.base.data
        rate = config.odometry_rate_hz
        self.tick_steps = max(1, min(MAX_TICK_STEPS, round(1.0 / (rate * self.timestep))))
        self.faults = FaultBoard(config.faults, config.seed, walking=config.base == "walking")
        self._senses = Senses(self.model, config, self.faults, self.tick)
        self._people = People(world.people, self.model)
        self._referee = Referee(self.model, world)
        self._body_faults = BodyFaults(self.base) if isinstance(self.base, WeightedBody) else None
        self._commands: deque[tuple[float, Twist2D]] = deque()
        self._battery = BATTERY_START
        self._is_walking = False
        self._trunk = int(self.model.body(TRUNK_BODY).id)
        self._joints = [int(self.model.joint(name).qposadr[0]) for name in LEG_JOINTS]
        sensors = {self.model.sensor(i).name: i for i in range(self.model.nsensor)}
        feet = [sensors[f"{leg[0]}_touch"] for leg in LEGS if f"{leg[0]}_touch" in sensors]
        self._feet = [int(self.model.sensor_adr[index]) for index in feet]

    @property
    def time(self) -> float:
        """Simulated seconds since the start."""
        return float(self.data.time)

    @property
    def timestep(self) -> float:
        """Length of a step [s]."""
        return float(self.model.opt.timestep)

    @property
    def tick(self) -> float:
        """Simulated seconds that a `step` takes."""
        return self.tick_steps * self.timestep

    @property
    def posture(self) -> Posture:
        return self.base.posture

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
        """Pose of base_link in the world, as it really is."""
        return self.base.pose

    @property
    def position(self) -> tuple[float, float, float]:
        """Place of base_link in the world [m]."""
        return self.base.position

    @property
    def orientation(self) -> tuple[float, float, float, float]:
        """Quaternion x, y, z, w of base_link in the world."""
        return self.base.orientation

    @property
    def twist(self) -> Twist2D:
        """Velocity in the body's frame, as it really is."""
        return self.base.twist

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """What the camera needs to draw: the model's coordinates, then place and quaternion of each mocap body."""
        bodies = np.hstack([self.data.mocap_pos, self.data.mocap_quat])
        return np.concatenate([self.data.qpos, bodies.reshape(-1)])

    def command(self, name: str, parameters: Mapping[str, float] | None = None) -> SportResult:
        """Carry out a sport command; see `Base.command`."""
        refusal = self.faults.active("refuse_sport")
        if refusal is not None:
            return SportResult(name, False, int(refusal["code"]), "Injected: refused.")
        return self.base.command(name, parameters)

    def tip_over(self, roll: float, pitch: float) -> None:
        """Throw the robot over; see `Base.tip_over`."""
        self.base.tip_over(roll, pitch)

    def put_person(self, index: int, x: float, y: float) -> None:
        """Have one of the world's people stand at (x, y) [m] from the next step on. Raises IndexError."""
        self._people.put(index, x, y)

    def inject(self, name: str, values: Mapping[str, float]) -> None:
        """Let something go wrong; see `faults`. Raises ConfigError."""
        self.faults.add(name, values)

    def step(self, twist: Twist2D) -> Observation:
        """Let one tick pass while the robot is asked for a body twist, and return what its sensors bring.

        This is all of the simulation in lock-step: people walk, faults happen, noise and drift are drawn, and equal
        configurations and commands give equal observations to the last bit.
        """
        before = self.pose
        self._people.step(self.data, (before.x, before.y), self.tick)
        for fault in self.faults.due("battery"):
            self._battery = max(0.0, min(100.0, fault["level"]))
        if self._body_faults is not None:
            self._body_faults.step(self.faults)
        for fault in self.faults.due("push"):
            self.base.push(*self.faults.push(fault))
        self.advance(self._delayed(twist), self.tick_steps)
        self.faults.advance(self.time)
        mujoco.mj_kinematics(self.model, self.data)
        self._referee.step(self.data, self.posture, self.tick)
        body = Body(self.time, self.pose, self.position, self.orientation, self.twist, self.posture)
        return self._senses.observe(self.data, body)

    def truth(self, stamp: float) -> Truth:
        """Return what really is, at the monotonic time `stamp` [s]; for scoring."""
        return Truth(
            stamp=stamp,
            time=self.time,
            position=self.position,
            orientation=self.orientation,
            twist=self.twist,
            wall_contacts=self._referee.wall_contacts,
            person_contacts=self._referee.person_contacts,
            falls=self._referee.falls,
            contact_time=self._referee.contact_time,
            people=self._people.places,
        )

    def _delayed(self, twist: Twist2D) -> Twist2D:
        """Return the command that takes effect now, when a fault makes commands late."""
        late = self.faults.active("command_latency")
        self._commands.append((self.time, twist))
        while self._commands[0][0] < self.time - MAX_LATENCY:
            self._commands.popleft()
        if late is None:
            return twist
        arrived = [sent for at, sent in self._commands if at <= self.time - late["delay"]]
        return arrived[-1] if arrived else STILL

    def advance(self, twist: Twist2D, steps: int) -> None:
        """Let `steps` time steps pass while the robot is asked for a body twist; it obeys when it stands."""
        duration = steps * self.timestep
        wanted = _possible(twist) if self.base.takes_velocity else STILL
        self.base.advance(wanted, steps)
        self._is_walking = not wanted.is_zero
        life = BATTERY_LIFE_WALKING if self._is_walking else BATTERY_LIFE_STANDING
        self._battery = max(0.0, self._battery - 100.0 * duration / life)

    def scan(self) -> tuple[NDArray[np.float32], tuple[float, float, float]]:
        """Return a scan of the rings from where the robot is now: points (N, 3) and the sensor's place, world [m]."""
        mujoco.mj_kinematics(self.model, self.data)
        return self._senses.scan(self.data)

    def summary(self) -> dict[str, Any]:
        """Return posture and battery, for the state message."""
        return {
            "posture": self.posture.value,
            "battery": self.battery,
            "voltage": self.voltage,
            "low_state": self._low_state(),
            "injected": self.faults.sentences(),
        }

    def _low_state(self) -> dict[str, Any]:
        yaw = self._senses.pose.yaw
        roll, pitch = roll_pitch_from_quaternion(*self.orientation)
        spin = np.zeros(6)
        mujoco.mj_objectVelocity(
            self.model, self.data, mujoco.mjtObj.mjOBJ_BODY, self._trunk, spin, 1
        )
        life = BATTERY_LIFE_WALKING if self._is_walking else BATTERY_LIFE_STANDING
        return {
            "roll_pitch_yaw": (roll, pitch, yaw),
            "gyro": spin[:3].tolist(),
            "joint_angles": self.data.qpos[self._joints].tolist(),
            "foot_forces": self.data.sensordata[self._feet].tolist(),
            "current": BATTERY_CAPACITY * 3600.0 / life,
        }


def _possible(twist: Twist2D) -> Twist2D:
    if not twist.is_finite:
        return STILL
    return Twist2D(
        max(-MAX_VX, min(MAX_VX, twist.vx)),
        max(-MAX_VY, min(MAX_VY, twist.vy)),
        max(-MAX_OMEGA, min(MAX_OMEGA, twist.omega)),
    )
