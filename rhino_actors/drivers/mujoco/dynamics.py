"""Faults that change the body itself: a load on its back, slippery feet. For a body that walks."""

import mujoco
import numpy as np

from rhino_actors.drivers.mujoco.faults import FaultBoard
from rhino_actors.drivers.mujoco.gait import LEGS
from rhino_actors.drivers.mujoco.model import TRUNK_BODY


class BodyFaults:
    """Keeps a model as heavy and as slippery as the faults of the moment have it."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        self._trunk = int(model.body(TRUNK_BODY).id)
        self._mass = float(model.body_mass[self._trunk])
        self._inertia = model.body_inertia[self._trunk].copy()
        self._feet = [int(model.geom(f"{leg[0]}_foot").id) for leg in LEGS]
        self._friction = model.geom_friction[self._feet].copy()
        self._load = 0.0
        self._slip: float | None = None

    def step(self, faults: FaultBoard) -> None:
        """Take up what has changed."""
        payload = faults.active("payload")
        load = 0.0 if payload is None else payload["mass"]
        if load != self._load:
            self._load = load
            share = (self._mass + load) / self._mass
            self._model.body_mass[self._trunk] = self._mass * share
            self._model.body_inertia[self._trunk] = self._inertia * share
            # What follows from the masses is kept in the model, and must be told; on a state of its own, because
            # it is computed at the initial pose.
            mujoco.mj_setConst(self._model, mujoco.MjData(self._model))
        slippery = faults.active("friction")
        slip = None if slippery is None else slippery["value"]
        if slip != self._slip:
            self._slip = slip
            friction = self._friction.copy()
            if slip is not None:
                friction[:, 0] = max(0.0, slip)
            self._model.geom_friction[self._feet] = np.maximum(friction, 0.0)
