"""What the robot makes of the simulated world: its odometry and its lidar, as they come or fail to come.

Profiles of the lidar: `scan`, rings of beams around the back; `ideal`, the same without noise; `l1`, the Go2's own,
which becomes the robot's voxel message. Everything is expressed in the odom that the drifting odometry spans, so map
and odometry agree as they do on the robot.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig
from rhino_actors.drivers.go2.lidar import write_voxel_message
from rhino_actors.drivers.mujoco.drift import OdometryDrift
from rhino_actors.drivers.mujoco.faults import FaultBoard
from rhino_actors.drivers.mujoco.l1 import L1Lidar
from rhino_actors.drivers.mujoco.lidar import RingLidar
from rhino_actors.drivers.mujoco.samples import (
    LidarSample,
    Observation,
    OdometrySample,
    Place,
    check_senses,
)
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.platform import Posture

LOCKED = frozenset({Posture.LYING, Posture.DAMPED})  # postures in which the odometry rests
DEVICE_EPOCH = 1.758e9  # [s] that the device's clock showed when the simulation began


class Body(NamedTuple):
    """The robot's true state at the end of a tick."""

    time: float  # [s] simulated
    pose: Pose2D  # in the world
    position: Place  # [m] of base_link in the world
    orientation: tuple[float, float, float, float]  # quaternion x, y, z, w
    twist: Twist2D
    posture: Posture


class Senses:
    """The sensors of one simulation. `observe` is asked once per tick."""

    def __init__(
        self, model: mujoco.MjModel, config: MujocoConfig, faults: FaultBoard, tick: float
    ) -> None:
        """Fit the sensors to a model; `tick` [s] is how often they are asked. Raises ConfigError."""
        check_senses(config)
        self._faults = faults
        self._tick = tick
        self._drift = OdometryDrift(config.drift, config.seed)
        self._every = max(1, round(1.0 / (config.odometry_rate_hz * tick)))
        self._ticks = 0
        self._lidar_period = 1.0 / config.lidar_rate_hz
        self._next_lidar = 0.0
        self._true = Pose2D(0.0, 0.0)
        self._held: OdometrySample | None = None
        self._frozen_at: float | None = None
        self._late: deque[tuple[float, LidarSample]] = deque()
        self._l1: L1Lidar | None = None
        if config.lidar == "l1":
            # numba takes a second to import: only this profile pays for it.
            from rhino_actors.drivers.mujoco.voxel_window import VoxelWindow, warm_up

            self._l1 = L1Lidar(model, config.seed)
            self._window = VoxelWindow(config.voxel_ttl_s)
            warm_up()
        else:
            ideal = replace(config, lidar_noise=0.0) if config.lidar == "ideal" else config
            self._ring = RingLidar(model, ideal, config.seed)

    @property
    def pose(self) -> Pose2D:
        """Where the robot believes to be: base_link in odom."""
        return self._drift.pose

    def scan(self, data: mujoco.MjData) -> tuple[NDArray[np.float32], Place]:
        """Return a scan of the rings: points (N, 3) in the world and the sensor's place [m]."""
        return self._ring.scan(data)

    def observe(self, data: mujoco.MjData, body: Body) -> Observation:
        """Return what comes at the end of a tick. `data` must have its kinematics up to date."""
        self._drift.advance(self._true, body.pose, self._tick, is_locked=body.posture in LOCKED)
        self._true = body.pose
        for jump in self._faults.due("odometry_jump"):
            self._drift.jump(jump["x"], jump["y"], jump["yaw"])
        stamp = self._device_stamp(body.time)
        lidar = self._lidar(data, body, stamp)
        odometry = None
        if self._ticks % self._every == 0:
            odometry = self._odometry(body, stamp)
        self._ticks += 1
        return Observation(odometry, lidar)

    def _odometry(self, body: Body, stamp: float) -> OdometrySample | None:
        lost = self._faults.active("drop_odometry")
        if lost is not None and self._faults.happens(lost["share"]):
            return None
        pose = self._drift.pose
        sample = OdometrySample(
            stamp,
            (pose.x, pose.y, body.position[2]),
            _turned(body.orientation, pose.yaw - body.pose.yaw),
            self._drift.twist(body.twist, is_locked=body.posture in LOCKED),
        )
        if self._faults.active("freeze_odometry") is None:
            self._held = None
            return sample
        if self._held is None:
            self._held = sample
        return replace(self._held, device_stamp=stamp)

    def _lidar(self, data: mujoco.MjData, body: Body, stamp: float) -> LidarSample | None:
        to_odom = self._odom_from_world(body)
        if self._l1 is not None:
            returns = self._l1.cast(data, self._tick)
            pose = self._drift.pose
            self._window.follow((pose.x, pose.y, body.position[2]))
            self._window.insert(to_odom(returns), body.time)
        sample = None
        if body.time >= self._next_lidar:
            self._next_lidar = max(self._next_lidar + self._lidar_period, body.time)
            sample = self._frame(data, body, stamp, to_odom)
        lost = self._faults.active("drop_lidar")
        if sample is not None and lost is not None and self._faults.happens(lost["share"]):
            sample = None
        late = self._faults.active("late_lidar")
        if late is None and not self._late:
            return sample
        if sample is not None:
            self._late.append((body.time + (0.0 if late is None else late["delay"]), sample))
        # One link carries all: a frame that is late holds up those behind it.
        if self._late and self._late[0][0] <= body.time:
            return self._late.popleft()[1]
        return None

    def _frame(
        self,
        data: mujoco.MjData,
        body: Body,
        stamp: float,
        to_odom: Callable[[NDArray[np.floating]], NDArray[np.float64]],
    ) -> LidarSample:
        pose = self._drift.pose
        if self._l1 is not None:
            x, y, z = to_odom(self._l1.origin(data)[None])[0].tolist()
            message = write_voxel_message(
                self._window.pack(body.time),
                stamp=DEVICE_EPOCH + stamp,
                resolution=self._window.resolution,
                origin=self._window.origin,
            )
            return LidarSample(stamp, (x, y, z), pose, message=message)
        points, origin = self._ring.scan(data)
        if not self._drift.is_exact:
            points = to_odom(points).astype(np.float32)
            x, y, z = to_odom(np.array(origin)[None])[0].tolist()
            origin = (x, y, z)
        points.flags.writeable = False
        return LidarSample(stamp, origin, pose, points)

    def _odom_from_world(self, body: Body) -> Callable[[NDArray[np.floating]], NDArray[np.float64]]:
        """Return the map of points (N, 3) from the world to odom as it is now."""
        pose, true = self._drift.pose, body.pose
        cos, sin = math.cos(pose.yaw - true.yaw), math.sin(pose.yaw - true.yaw)

        def moved(points: NDArray[np.floating]) -> NDArray[np.float64]:
            dx, dy = points[:, 0] - true.x, points[:, 1] - true.y
            x, y = pose.x + cos * dx - sin * dy, pose.y + sin * dx + cos * dy
            return np.stack([x, y, points[:, 2]], axis=1)

        return moved

    def _device_stamp(self, time: float) -> float:
        if self._faults.active("frozen_stamp") is not None:
            if self._frozen_at is None:
                self._frozen_at = time
            return self._frozen_at
        self._frozen_at = None
        jumping = self._faults.active("jumping_stamp")
        return time if jumping is None else time + self._faults.spread(jumping["size"])


def _turned(
    orientation: tuple[float, float, float, float], yaw: float
) -> tuple[float, float, float, float]:
    """Return the orientation turned about the world's vertical by `yaw` [rad]."""
    if yaw == 0.0:
        return orientation
    x, y, z, w = orientation
    c, s = math.cos(yaw / 2.0), math.sin(yaw / 2.0)
    return (c * x - s * y, c * y + s * x, c * z + s * w, c * w - s * z)
