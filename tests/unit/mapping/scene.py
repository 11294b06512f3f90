"""A lidar in a world of boxes on a flat floor, in numpy: what the mapper is shown, with the truth at hand."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float, float, float]  # x0, y0, z0, x1, y1, z1 [m]


def room(width: float, depth: float, height: float = 2.4, thickness: float = 0.1) -> list[Box]:
    """Four walls around a floor from (0, 0) to (width, depth)."""
    t = thickness
    return [
        (-t, -t, 0.0, width + t, 0.0, height),
        (-t, depth, 0.0, width + t, depth + t, height),
        (-t, 0.0, 0.0, 0.0, depth, height),
        (width, 0.0, 0.0, width + t, depth, height),
    ]


@dataclass(frozen=True)
class Lidar:
    """Rings of beams around; a beam that meets nothing within `max_range` ends at `beyond`."""

    beams: int = 360
    elevations: tuple[float, ...] = (0.0,)  # [rad]
    height: float = 0.35  # [m] of the sensor above the floor
    max_range: float = 10.0
    beyond: float = 60.0
    floor: bool = True

    def scan(
        self,
        boxes: list[Box],
        x: float,
        y: float,
        yaw: float = 0.0,
        noise: float = 0.0,
        seed: int = 0,
    ) -> tuple[NDArray[np.float32], tuple[float, float, float]]:
        """Return (N, 3) float32 points and the sensor's origin."""
        azimuth = yaw + np.arange(self.beams) * (math.tau / self.beams)
        a, e = np.meshgrid(azimuth, np.asarray(self.elevations), indexing="ij")
        direction = np.stack([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)], -1)
        direction = direction.reshape(-1, 3)
        origin = np.array([x, y, self.height])
        distance = np.full(len(direction), np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.floor:
                down = direction[:, 2] < 0.0
                distance[down] = -self.height / direction[down, 2]
            for box in boxes:
                near = (np.array(box[:3]) - origin) / direction
                far = (np.array(box[3:]) - origin) / direction
                enter = np.nanmax(np.minimum(near, far), axis=1)
                leave = np.nanmin(np.maximum(near, far), axis=1)
                hit = (enter <= leave) & (enter > 0.0)
                distance = np.where(hit, np.minimum(distance, enter), distance)
        distance += np.random.default_rng(seed).normal(0.0, noise, len(distance)) if noise else 0.0
        distance = np.where(distance <= self.max_range, distance, self.beyond)
        return (origin + direction * distance[:, None]).astype(np.float32), (x, y, self.height)


RINGS = tuple(np.radians(np.linspace(-20.0, 25.0, 16)).tolist())
