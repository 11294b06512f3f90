"""People who walk their loops through a running simulation, as mocap bodies that stop for the robot."""

import math

import mujoco
import numpy as np

from rhino_actors.drivers.mujoco.worlds.scene import PERSON, Walk

YIELD_DISTANCE = 0.9  # [m] to the robot's centre at which a person stops
PATIENCE = 4.0  # [s] after which a person who had to stop turns back
TURN_RATE = 3.0  # [rad/s]


class People:
    """Everybody in a simulation. `step` moves them; the same robot's way gives the same walks."""

    def __init__(self, walks: tuple[Walk, ...], model: mujoco.MjModel) -> None:
        """Put everybody at the begin of their loop.

        Args:
            walks: of the world that the model was compiled from.
            model: holds the mocap bodies.
        """
        self._walkers = [_Walker(walk) for walk in walks]
        self._bodies = [
            int(model.body(f"{PERSON}{index}").mocapid[0]) for index in range(len(walks))
        ]

    def __len__(self) -> int:
        return len(self._walkers)

    @property
    def places(self) -> tuple[tuple[float, float, float], ...]:
        """Where everybody is: x, y [m] in the world's frame, heading [rad]."""
        return tuple((*walker.place, walker.heading) for walker in self._walkers)

    def put(self, index: int, x: float, y: float) -> None:
        """Have a person stand at (x, y) [m] in the world's frame from the next step on. Raises IndexError."""
        self._walkers[index].stand_at((x, y))

    def step(self, data: mujoco.MjData, robot: tuple[float, float], duration: float) -> None:
        """Let everybody walk for a time [s] while the robot's centre is at `robot` [m]."""
        for body, walker in zip(self._bodies, self._walkers, strict=True):
            walker.step(robot, duration)
            half = walker.heading / 2.0
            data.mocap_pos[body] = (*walker.place, 0.0)
            data.mocap_quat[body] = (math.cos(half), 0.0, 0.0, math.sin(half))


class _Walker:
    def __init__(self, walk: Walk) -> None:
        points = np.array(walk.points)
        self._points = [tuple(point) for point in points.tolist()]
        self._speed = walk.speed
        self._next = 1 % len(self._points)  # corner that is walked to
        self._way = 1  # or -1, when the loop is walked backwards
        self._waited = 0.0
        self.place: tuple[float, float] = self._points[0]
        self.heading = self._bearing()

    def step(self, robot: tuple[float, float], duration: float) -> None:
        self._turn(duration)
        if self._must_yield(robot):
            self._waited += duration
            if self._waited >= PATIENCE:
                self._waited = 0.0
                self._way = -self._way
                self._next = (self._next + self._way) % len(self._points)
            return
        self._waited = 0.0
        left = self._speed * duration
        for _ in range(len(self._points)):
            corner = self._points[self._next]
            distance = math.dist(self.place, corner)
            if distance > left:
                share = left / distance
                self.place = (
                    self.place[0] + share * (corner[0] - self.place[0]),
                    self.place[1] + share * (corner[1] - self.place[1]),
                )
                return
            left -= distance
            self.place = corner
            self._next = (self._next + self._way) % len(self._points)

    def stand_at(self, place: tuple[float, float]) -> None:
        self.place = place
        self._points = [place]
        self._next = 0
        self._waited = 0.0

    def _must_yield(self, robot: tuple[float, float]) -> bool:
        """Tell whether the robot is near and walking on would not lead away from it."""
        dx, dy = robot[0] - self.place[0], robot[1] - self.place[1]
        if math.hypot(dx, dy) >= YIELD_DISTANCE:
            return False
        bearing = self._bearing()
        return dx * math.cos(bearing) + dy * math.sin(bearing) > -0.1

    def _bearing(self) -> float:
        corner = self._points[self._next]
        if math.dist(self.place, corner) < 1e-6:
            corner = self._points[(self._next + self._way) % len(self._points)]
        return math.atan2(corner[1] - self.place[1], corner[0] - self.place[0])

    def _turn(self, duration: float) -> None:
        error = math.remainder(self._bearing() - self.heading, math.tau)
        most = TURN_RATE * duration
        self.heading = math.remainder(self.heading + max(-most, min(most, error)), math.tau)
