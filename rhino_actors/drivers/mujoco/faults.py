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
from rhino_actors.messages.platform import FaultKind, FaultNumber, InjectedFault

CLEAR = "clear"  # ends every fault
MAX_LATENCY = 5.0  # [s] of a velocity command


FOREVER = math.inf
_LONG = 86_400.0  # [s] longest time that anything is put off or lasts


def _kind(
    name: str,
    does: str,
    *,
    needs_walking: bool = False,
    is_event: bool = False,
    **numbers: tuple[float, str, float, float],
) -> FaultKind:
    return FaultKind(
        name,
        does,
        {key: FaultNumber(*number) for key, number in numbers.items()},
        needs_walking,
        is_event,
    )


# Each number with its default, unit, least and greatest value: whatever is asked for, the simulation lives on.
KINDS: dict[str, FaultKind] = {
    kind.name: kind
    for kind in (
        _kind("frozen_stamp", "device stamps of odometry and lidar stand still"),
        _kind(
            "jumping_stamp",
            "device stamps jump back and forth at random",
            size=(5.0, "s", 0.0, 1e6),
        ),
        _kind("drop_lidar", "lidar frames get lost", share=(1.0, "", 0.0, 1.0)),
        _kind("late_lidar", "lidar frames come late", delay=(0.5, "s", 0.0, 30.0)),
        _kind("freeze_odometry", "odometry goes on coming and says the same pose"),
        _kind("drop_odometry", "odometry gets lost", share=(1.0, "", 0.0, 1.0)),
        _kind(
            "odometry_jump",
            "the odometry jumps, in the body's frame",
            is_event=True,
            x=(0.0, "m", -100.0, 100.0),
            y=(0.0, "m", -100.0, 100.0),
            yaw=(0.0, "rad", -math.pi, math.pi),
        ),
        _kind("link_loss", "nothing comes and no command arrives"),
        _kind("refuse_sport", "sport commands are refused", code=(3104.0, "", 1.0, 65535.0)),
        _kind(
            "command_latency",
            "velocity commands take effect late",
            delay=(0.2, "s", 0.0, MAX_LATENCY),
        ),
        _kind(
            "hold_timeout",
            "the robot holds the last velocity this long",
            timeout=(2.0, "s", 0.0, 60.0),
        ),
        _kind("battery", "the charge becomes this", is_event=True, level=(10.0, "%", 0.0, 100.0)),
        _kind(
            "push",
            "something pushes the trunk, in the world's frame; both 0: 20 N s from a random side",
            needs_walking=True,
            is_event=True,
            x=(0.0, "N s", -300.0, 300.0),
            y=(0.0, "N s", -300.0, 300.0),
            every=(FOREVER, "s", 0.1, _LONG),
        ),
        _kind("payload", "a load on the back", needs_walking=True, mass=(3.0, "kg", 0.0, 30.0)),
        _kind(
            "friction",
            "the feet's friction becomes this",
            needs_walking=True,
            value=(0.3, "", 0.0, 2.0),
        ),
        _kind(
            "actuator_lag",
            "the torques come late",
            needs_walking=True,
            delay=(0.010, "s", 0.0, 0.1),
        ),
    )
}
TIMES = {
    "after": FaultNumber(0.0, "s", 0.0, _LONG),
    "duration": FaultNumber(FOREVER, "s", 0.0, _LONG),
}
MAX_FAULTS = 16  # on or still to come
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
        raise ConfigError(
            f"There is no fault {name[:64]!r}.", f"Known: {', '.join([*KINDS, CLEAR])}."
        )
    kind = KINDS[name]
    known = {**kind.numbers, **TIMES}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"The fault {name} has no value {key[:64]!r}.", _known(name))
        number = known[key]
        never = value == FOREVER == number.default
        if not (never or number.low <= value <= number.high):
            raise ConfigError(
                f"The fault {name} cannot have {key}={value:g}: "
                f"it is from {number.low:g} to {number.high:g}.",
                _known(name),
            )
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
            self.clear()
            return
        if len(self._faults) + len(self._events) >= MAX_FAULTS:
            raise ConfigError(f"There are {MAX_FAULTS} faults already.", "Clear them first.")
        kind = KINDS[name]
        full = {key: number.default for key, number in kind.numbers.items()}
        full.update({key: value for key, value in values.items() if key in full})
        begin = self._time + values.get("after", 0.0)
        fault = Fault(name, full, begin, begin + values.get("duration", math.inf))
        if kind.is_event:
            self._events.append(fault)
        else:
            self._faults.append(fault)

    def clear(self, name: str = "") -> None:
        """End the faults of a name, also those to come; all without one. Raises ConfigError."""
        if name:
            check_fault(name, {}, walking=True)
        self._faults = [fault for fault in self._faults if name and fault.name != name]
        self._events = [fault for fault in self._events if name and fault.name != name]

    def listing(self) -> tuple[InjectedFault, ...]:
        """Return the faults that are on or still to come, in the order of their begins."""
        return tuple(
            InjectedFault(
                fault.name,
                {key: value for key, value in fault.values.items() if math.isfinite(value)},
                max(0.0, fault.begin - self._time),
                fault.end - self._time if math.isfinite(fault.end) else None,
            )
            for fault in sorted([*self._faults, *self._events], key=lambda fault: fault.begin)
        )

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
        lasting = [fault for fault in self._faults if fault.begin <= self._time]
        repeated = [f for f in self._events if math.isfinite(f.values.get("every", FOREVER))]
        return tuple(
            f"Injected: {fault}: {KINDS[fault.name].does}." for fault in (*lasting, *repeated)
        )


def _known(name: str) -> str:
    kind = KINDS.get(name)
    if kind is None:
        return f"Known faults: {', '.join(KINDS)}."
    values = [
        f"{key} [{number.unit}]" if number.unit else key
        for key, number in {**kind.numbers, **TIMES}.items()
    ]
    return f"{name} takes {', '.join(values)}."
