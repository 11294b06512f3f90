"""The Go2's own lidar, the L1: one beam that sweeps a hemisphere below the robot's nose, while the robot moves.

Mount: the public URDF's. Rate and field of view: the maker's pages. How the mirror's sweep divides (180 sweeps of
120 points a second, 11 turns a second) is an assumption, and so is the even spread of elevations.
"""

import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.model import TRUNK_BODY
from rhino_actors.drivers.mujoco.worlds.scene import BODY_GROUP, SCENE_GROUP

MOUNT = (0.28945, 0.0, -0.046825)  # [m] in base_link
MOUNT_PITCH = 2.8782  # [rad]: the hemisphere looks down, its rim tilted up in front
POINT_RATE = 21_600.0  # [1/s]
SWEEP_RATE = 180.0  # [1/s] from the rim to the axis
TURN_RATE = 11.0  # [1/s] about the axis
FIELD = math.pi / 2.0  # [rad] from rim to axis
MIN_RANGE = 0.05  # [m]: nearer it is blind
# [m] The sensor reaches 30, but the robot's voxel window ends before this in every direction: farther returns are lost
# there anyway, and beams that end here cost half.
MAX_RANGE = 5.5
NOISE = 0.01  # [m] standard deviation of a range,
NOISE_SHARE = 0.002  # and this share of it

# The head is not in the rays' way: the sensor sits inside its shape.
_GROUPS = np.array(
    [group in (SCENE_GROUP, BODY_GROUP) for group in range(mujoco.mjNGROUP)], dtype=np.uint8
)
_BASE_FROM_SENSOR = np.array(
    [
        [math.cos(MOUNT_PITCH), 0.0, math.sin(MOUNT_PITCH)],
        [0.0, 1.0, 0.0],
        [-math.sin(MOUNT_PITCH), 0.0, math.cos(MOUNT_PITCH)],
    ]
)


class L1Lidar:
    """Casts the beams of one tick after another. Beams between two ticks leave from the pose of the second."""

    def __init__(self, model: mujoco.MjModel, seed: int) -> None:
        self._model = model
        self._trunk = int(model.body(TRUNK_BODY).id)
        # Geom ids of the robot, as a lookup that also answers id -1.
        self._is_robot = np.zeros(model.ngeom + 1, dtype=np.bool_)
        root = model.body_rootid[self._trunk]
        self._is_robot[:-1] = model.body_rootid[model.geom_bodyid] == root
        self._cast = 0  # beams since the start
        self._rng = np.random.default_rng([seed, 3])

    def origin(self, data: mujoco.MjData) -> NDArray[np.float64]:
        """Return the sensor's place (3,) in the world's frame [m]."""
        world_from_base = data.xmat[self._trunk].reshape(3, 3)
        place: NDArray[np.float64] = data.xpos[self._trunk] + world_from_base @ np.array(MOUNT)
        return place

    def cast(self, data: mujoco.MjData, duration: float) -> NDArray[np.float64]:
        """Return the returns (N, 3) in the world's frame [m] of the beams of `duration` [s] up to now.

        `data` must have its kinematics up to date. Returns of the robot itself, and from nearer than MIN_RANGE, are
        left out, as are beams that meet nothing.
        """
        count = round(POINT_RATE * duration)
        beams = sweep(self._cast, count)
        self._cast += count
        world_from_base = data.xmat[self._trunk].reshape(3, 3)
        directions = beams @ (world_from_base @ _BASE_FROM_SENSOR).T
        origin = self.origin(data)
        geoms = np.empty(count, np.int32)
        distances = np.empty(count, np.float64)
        mujoco.mj_multiRay(
            self._model,
            data,
            origin,
            directions.reshape(-1),
            _GROUPS,
            True,
            -1,
            geoms,
            distances,
            None,
            count,
            MAX_RANGE,
        )
        noise = self._rng.standard_normal(count) * (NOISE + NOISE_SHARE * distances)
        met = (distances >= MIN_RANGE) & (distances <= MAX_RANGE) & ~self._is_robot[geoms]
        returns: NDArray[np.float64] = origin + directions[met] * (distances + noise)[met, None]
        return returns


def sweep(first: int, count: int) -> NDArray[np.float64]:
    """Return the directions (count, 3) of beam `first` and those after it, in the sensor's frame (z its axis)."""
    time = (first + np.arange(count)) / POINT_RATE
    from_axis = FIELD * (1.0 - np.mod(time * SWEEP_RATE, 1.0))
    azimuth = math.tau * np.mod(time * TURN_RATE, 1.0)
    flat = np.sin(from_axis)
    directions = np.stack(
        [flat * np.cos(azimuth), flat * np.sin(azimuth), np.cos(from_axis)], axis=1
    )
    return np.ascontiguousarray(directions)
