"""A ring lidar by MuJoCo ray casting: rings of beams around a sensor on the robot's back."""

import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig
from rhino_actors.drivers.mujoco.model import LIDAR_SITE, TRUNK_BODY
from rhino_actors.drivers.mujoco.worlds.scene import BODY_GROUP, SCENE_GROUP

# Elevation of the lowest and the highest ring: the floor from 1 m on, furniture, and walls.
LOWEST_RING = math.radians(-25.0)
HIGHEST_RING = math.radians(15.0)
MIN_RANGE = 0.05  # [m]
# Where a beam that met nothing is put, as a multiple of the range.
MISS_FACTOR = 1.2

_GROUPS = np.array(
    [group in (SCENE_GROUP, BODY_GROUP) for group in range(mujoco.mjNGROUP)], dtype=np.uint8
)


class RingLidar:
    """Casts a scan from the present state of a simulation."""

    def __init__(self, model: mujoco.MjModel, config: MujocoConfig, seed: int) -> None:
        self._model = model
        self._range = config.lidar_range
        self._noise = config.lidar_noise
        self._directions = beam_directions(config.lidar_azimuths, config.lidar_elevations)
        count = len(self._directions)
        self._geoms = np.empty(count, dtype=np.int32)
        self._distances = np.empty(count, dtype=np.float64)
        self._site = model.site(LIDAR_SITE).id
        trunk = model.body(TRUNK_BODY).id
        # Geom ids of the trunk and everything below it, as a lookup that also answers id -1.
        self._is_robot = np.zeros(model.ngeom + 1, dtype=np.bool_)
        self._is_robot[:-1] = model.body_rootid[model.geom_bodyid] == model.body_rootid[trunk]
        self._rng = np.random.default_rng([seed, 1])

    def scan(self, data: mujoco.MjData) -> tuple[NDArray[np.float32], tuple[float, float, float]]:
        """Return points (N, 3) in the world's frame and the sensor's place [m].

        A beam that met nothing within the range becomes a point beyond it; returns from the robot itself and from
        nearer than MIN_RANGE are left out. `data` must have its kinematics up to date.
        """
        origin = data.site_xpos[self._site].copy()
        world_from_sensor = data.site_xmat[self._site].reshape(3, 3)
        beams = self._directions @ world_from_sensor.T
        mujoco.mj_multiRay(
            self._model,
            data,
            origin,
            beams.reshape(-1),
            _GROUPS,
            True,
            -1,
            self._geoms,
            self._distances,
            None,
            len(beams),
            self._range,
        )
        hit = (self._distances >= 0.0) & (self._distances <= self._range)
        noisy = self._distances + self._noise * self._rng.standard_normal(len(beams))
        ranges = np.where(hit, noisy, MISS_FACTOR * self._range)
        kept = ~(hit & self._is_robot[self._geoms]) & (ranges > MIN_RANGE)
        points = origin + beams[kept] * ranges[kept, None]
        x, y, z = origin.tolist()
        return points.astype(np.float32), (x, y, z)


def beam_directions(azimuths: int, elevations: int) -> NDArray[np.float64]:
    """Return unit vectors (azimuths * elevations, 3) in the sensor's frame, ring by ring from the lowest."""
    azimuth = np.arange(azimuths) * (math.tau / azimuths)
    elevation = (
        np.linspace(LOWEST_RING, HIGHEST_RING, elevations) if elevations > 1 else np.zeros(1)
    )
    flat = np.cos(elevation)[:, None]
    x, y = flat * np.cos(azimuth), flat * np.sin(azimuth)
    z = np.broadcast_to(np.sin(elevation)[:, None], x.shape)
    return np.ascontiguousarray(np.stack([x, y, z], axis=-1).reshape(-1, 3))
