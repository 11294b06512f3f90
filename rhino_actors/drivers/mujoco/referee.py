"""Counts what a robot should not do: touch walls, touch people, fall."""

import mujoco
import numpy as np

from rhino_actors.drivers.mujoco.model import TRUNK_BODY
from rhino_actors.drivers.mujoco.worlds.scene import PERSON, World
from rhino_actors.messages.platform import Posture

STEP_OVER = 0.08  # [m]: what ends lower is floor to walk on, not an obstacle
SAME_CONTACT = 0.5  # [s] without touching after which a touch counts anew


class Referee:
    """Counts contacts and falls, tick by tick."""

    def __init__(self, model: mujoco.MjModel, world: World) -> None:
        robot = model.body_rootid[model.geom_bodyid] == model.body_rootid[model.body(TRUNK_BODY).id]
        names = [model.geom(index).name for index in range(model.ngeom)]
        tall = {
            box.name
            for box in world.boxes
            if box.solid and box.center[2] + box.size[2] / 2.0 > STEP_OVER
        }
        self._is_robot = robot
        self._is_wall = np.array([name in tall for name in names], np.bool_)
        self._is_person = np.array([name.startswith(PERSON) for name in names], np.bool_)
        self._last_wall = self._last_person = -np.inf
        self._was_fallen = False
        self.wall_contacts = 0
        self.person_contacts = 0
        self.falls = 0
        self.contact_time = 0.0

    def step(self, data: mujoco.MjData, posture: Posture, duration: float) -> None:
        """Take in the state at the end of a tick of `duration` [s]."""
        is_fallen = posture is Posture.FALLEN
        self.falls += is_fallen and not self._was_fallen
        self._was_fallen = is_fallen
        if data.ncon == 0:
            return
        pairs = data.contact.geom
        ours = self._is_robot[pairs]
        other = pairs[ours.any(axis=1)].reshape(-1)
        time = float(data.time)
        wall = bool(self._is_wall[other].any())
        person = bool(self._is_person[other].any())
        if wall:
            self.wall_contacts += time - self._last_wall > SAME_CONTACT
            self._last_wall = time
        if person:
            self.person_contacts += time - self._last_person > SAME_CONTACT
            self._last_person = time
        if wall or person:
            self.contact_time += duration
