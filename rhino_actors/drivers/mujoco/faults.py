"""Faults on demand: what goes wrong in the field, by name, with a begin and an end in simulated time.

A fault is written `name key=value ...`; several are separated by semicolons:

    drop_lidar share=0.3 after=20 duration=10; odometry_jump x=0.5 after=60

`after` [s] counts from when it is asked for and `duration` [s] from its begin; without one it lasts until `clear`.
This module says what is wrong at a moment; the simulation and its process do it. Stands on numpy alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rhino_actors.errors import ConfigError

CLEAR = "clear"  # ends every fault


@dataclass(frozen=True)
class FaultKind:
    """What a fault does, and the numbers that it takes, with their defaults and units."""

    does: str
    values: Mapping[str, tuple[float, str]]
    needs_walking: bool = False
    is_event: bool = False  # happens once; `duration` says nothing


KINDS: dict[str, FaultKind] = {
    "frozen_stamp": FaultKind("device stamps of odometry and lidar stand still", {}),
    "jumping_stamp": FaultKind("device stamps jump back and forth at random", {"size": (5.0, "s")}),
    "drop_lidar": FaultKind("lidar frames get lost", {"share": (1.0, "")}),
    "late_lidar": FaultKind("lidar frames come late", {"delay": (0.5, "s")}),
    "freeze_odometry": FaultKind("odometry goes on coming and says the same pose", {}),
    "drop_odometry": FaultKind("odometry gets lost", {"share": (1.0, "")}),
    "odometry_jump": FaultKind(
        "the odometry jumps, in the body's frame",
        {"x": (0.0, "m"), "y": (0.0, "m"), "yaw": (0.0, "rad")},
        is_event=True,
    ),
    "link_loss": FaultKind("nothing comes and no command arrives", {}),
    "refuse_sport": FaultKind("sport commands are refused", {"code": (3104.0, "")}),
    "command_latency": FaultKind("velocity commands take effect late", {"delay": (0.2, "s")}),
    "hold_timeout": FaultKind(
        "the robot holds the last velocity this long", {"timeout": (2.0, "s")}
    ),
    "battery": FaultKind("the charge becomes this", {"level": (10.0, "%")}, is_event=True),
    "push": FaultKind(
        "something pushes the trunk, in the world's frame; both 0: 20 N s from a random side",
        {"x": (0.0, "N s"), "y": (0.0, "N s"), "every": (math.inf, "s")},
        needs_walking=True,
    ),
    "payload": FaultKind("a load on the back", {"mass": (3.0, "kg")}, needs_walking=True),
    "friction": FaultKind(
        "the feet's friction becomes this", {"value": (0.3, "")}, needs_walking=True
    ),
    "actuator_lag": FaultKind("the torques come late", {"delay": (0.010, "s")}, needs_walking=True),
}
_TIMES = {"after": (0.0, "s"), "duration": (math.inf, "s")}
RANDOM_PUSH = 20.0  # [N s]


@dataclass(frozen=True)
class Fault:
    """One fault that was asked for."""

    name: str
    values: Mapping[str, float]
    begin: float  # [s] simulated
    end: float  # [s]

    def __getitem__(self, key: str) -> float:
        return self.values[key]

    def __str__(self) -> str:
        numbers = [f"{k}={v:g}" for k, v in self.values.items() if math.isfinite(v)]
        return " ".join([self.name, *numbers])


def parse_faults(text: str) -> list[tuple[str, dict[str, float]]]:
    """Read faults as they stand in a configuration.

    Raises:
        ConfigError: a part is not `name key=number ...`, or `check_fault` refuses it.
    """
    faults: list[tuple[str, dict[str, float]]] = []
    for part in text.split(";"):
        words = part.split()
        if not words:
            continue
        values: dict[str, float] = {}
        for word in words[1:]:
            key, equals, number = word.partition("=")
            try:
                values[key] = float(number)
            except ValueError:
                equals = ""
            if not equals:
                raise ConfigError(
                    f"In the fault {part.strip()!r}, {word!r} is not key=number.", _known(words[0])
                )
        faults.append((words[0], values))
    return faults


def check_fault(name: str, values: Mapping[str, float], *, walking: bool) -> None:
    """Raise ConfigError when there is no such fault, value, or body that could have it."""
    if name == CLEAR:
        return
    if name not in KINDS:
        raise ConfigError(f"There is no fault {name!r}.", f"Known: {', '.join([*KINDS, CLEAR])}.")
    kind = KINDS[name]
    for key, value in values.items():
        if key not in {**kind.values, **_TIMES}:
            raise ConfigError(f"The fault {name} has no value {key!r}.", _known(name))
        if math.isnan(value) or (not math.isfinite(value) and key not in ("duration", "every")):
            raise ConfigError(f"The fault {name} cannot have {key}={value}.", _known(name))
    if kind.needs_walking and not walking:
        raise ConfigError(
            f"The fault {name} needs a body with weight, and this one is driven.",
            "Set mujoco.base to walking.",
        )


class FaultBoard:
    """What is wrong now. Time comes in by `advance`."""

    def __init__(self, text: str, seed: int, *, walking: bool) -> None:
        """Begin with the faults of a configuration. Raises ConfigError."""
        self._walking = walking
        self._time = 0.0
        self._faults: list[Fault] = []
        self._events: list[Fault] = []
        self._rng = np.random.default_rng([seed, 4])
        for name, values in parse_faults(text):
            self.add(name, values)

    def add(self, name: str, values: Mapping[str, float]) -> None:
        """Ask for a fault from now on; CLEAR ends all. Raises ConfigError."""
        check_fault(name, values, walking=self._walking)
        if name == CLEAR:
            self._faults.clear()
            self._events.clear()
            return
        kind = KINDS[name]
        full = {key: default for key, (default, _) in kind.values.items()}
        full.update({key: value for key, value in values.items() if key in full})
        begin = self._time + values.get("after", 0.0)
        fault = Fault(name, full, begin, begin + values.get("duration", math.inf))
        if kind.is_event or name == "push":
            self._events.append(fault)
        else:
            self._faults.append(fault)

    def advance(self, time: float) -> None:
        """Let simulated time go on to `time` [s]; what is over is forgotten."""
        self._time = time
        self._faults = [fault for fault in self._faults if time < fault.end]

    def active(self, name: str) -> Fault | None:
        """Return the fault of this name that is on now, the newest if there are several."""
        on = [f for f in self._faults if f.name == name and f.begin <= self._time]
        return on[-1] if on else None

    def due(self, name: str) -> list[Fault]:
        """Return the events of this name whose time has come, and forget them, or their turn, by that."""
        found = [f for f in self._events if f.name == name and f.begin <= self._time]
        for fault in found:
            self._events.remove(fault)
            again = fault.begin + fault.values.get("every", math.inf)
            if again < fault.end:
                self._events.append(Fault(fault.name, fault.values, again, fault.end))
        return found

    def happens(self, share: float) -> bool:
        """Draw whether something of this share happens."""
        return bool(self._rng.random() < share)

    def spread(self, size: float) -> float:
        """Draw a number from -size to size."""
        return float(self._rng.uniform(-size, size))

    def push(self, fault: Fault) -> tuple[float, float]:
        """Return the impulse [N s] of a push: as asked for, else RANDOM_PUSH from a random side."""
        if fault["x"] or fault["y"]:
            return fault["x"], fault["y"]
        angle = math.tau * float(self._rng.random())
        return RANDOM_PUSH * math.cos(angle), RANDOM_PUSH * math.sin(angle)

    def sentences(self) -> tuple[str, ...]:
        """Return what is wrong now, for people."""
        return tuple(
            f"Injected: {fault}: {KINDS[fault.name].does}."
            for fault in self._faults
            if fault.begin <= self._time
        )


def _known(name: str) -> str:
    kind = KINDS.get(name)
    if kind is None:
        return f"Known faults: {', '.join(KINDS)}."
    values = [
        f"{key} [{unit}]" if unit else key for key, (_, unit) in {**kind.values, **_TIMES}.items()
    ]
    return f"{name} takes {', '.join(values)}."
