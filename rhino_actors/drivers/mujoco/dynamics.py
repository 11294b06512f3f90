"""Faults that change the body itself: a load on its back, slippery feet, late torques. For a body that walks."""

from typing import Protocol, runtime_checkable

from rhino_actors.drivers.mujoco.faults import FaultBoard
from rhino_actors.drivers.mujoco.walking_model import FOOT_FRICTION


@runtime_checkable
class WeightedBody(Protocol):
    """What a body with weight lets be done to it."""

    def load(self, mass: float) -> None:
        """Put a mass on the back, instead of what lay there [kg]."""

    def set_friction(self, friction: float) -> None:
        """Set the friction of the feet."""

    def set_lag(self, delay: float) -> None:
        """Let torques take effect this much later [s]."""


class BodyFaults:
    """Keeps a body as heavy, as slippery and as slow as the faults of the moment have it."""

    def __init__(self, body: WeightedBody) -> None:
        self._body = body
        self._load, self._friction, self._lag = 0.0, FOOT_FRICTION, 0.0

    def step(self, faults: FaultBoard) -> None:
        """Take up what has changed."""
        payload = faults.active("payload")
        load = 0.0 if payload is None else payload["mass"]
        if load != self._load:
            self._load = load
            self._body.load(load)
        slippery = faults.active("friction")
        friction = FOOT_FRICTION if slippery is None else max(0.0, slippery["value"])
        if friction != self._friction:
            self._friction = friction
            self._body.set_friction(friction)
        late = faults.active("actuator_lag")
        lag = 0.0 if late is None else max(0.0, late["delay"])
        if lag != self._lag:
            self._lag = lag
            self._body.set_lag(lag)
