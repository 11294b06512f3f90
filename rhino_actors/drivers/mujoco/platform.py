"""The simulated robot behind the `Platform` protocol. Its physics runs in a process of its own."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco import wire
from rhino_actors.drivers.mujoco.camera_ladder import RUNGS
from rhino_actors.drivers.mujoco.faults import KINDS, check_fault, parse_faults
from rhino_actors.drivers.mujoco.link import SimulationLink
from rhino_actors.drivers.mujoco.samples import check_senses
from rhino_actors.drivers.mujoco.truth import Truth, unpack_truth
from rhino_actors.drivers.mujoco.worlds import check_world
from rhino_actors.drivers.platform import check_command, check_parameters
from rhino_actors.errors import ConfigError, InvalidFault, NotConnected
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import (
    DriverState,
    FaultReport,
    InjectedFault,
    LowState,
    Posture,
    SportResult,
)
from rhino_actors.messages.sensors import CameraFrame, LidarFrame

ANSWER_TIMEOUT = 5.0  # [s]
BASES = ("kinematic", "walking")
SILENCE_LIMIT = 1.0  # [s] without odometry after which the link counts as lost


class MujocoPlatform:
    """A Go2 in MuJoCo. All methods belong to one thread; the getters read shared memory and never wait."""

    simulated = True

    def __init__(self, config: MujocoConfig, robot: RobotConfig) -> None:
        """Check the configuration; nothing is started.

        Raises:
            ConfigError: there is no such world, fault, or kind of base, lidar, drift or camera.
        """
        check_world(config.world)
        check_senses(config)
        for name, values in parse_faults(config.faults):
            check_fault(name, values, walking=config.base == "walking")
        if config.base not in BASES:
            raise ConfigError(f"mujoco.base is {config.base!r}.", f"Known: {', '.join(BASES)}.")
        if config.camera not in RUNGS:
            raise ConfigError(f"mujoco.camera is {config.camera!r}.", f"Known: {', '.join(RUNGS)}.")
        self._config = config
        self._robot = robot
        self._link: SimulationLink | None = None
        self._numbers: dict[str, int] = {}
        self._odometry: Odometry | None = None
        self._last_state: dict[str, Any] = {"posture": Posture.CHANGING.value, "battery": 0.0}

    async def connect(self) -> None:
        """Start the simulation; nothing happens when it runs already. Raises NotConnected."""
        if self._link is not None:
            if self._link.fault() is None:
                return
            await self.close()
        link = self._link = SimulationLink(self._config, self._robot, self._numbers)
        try:
            await asyncio.to_thread(link.start)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Send zero and end the simulation. May be called twice."""
        link, self._link = self._link, None
        if link is None:
            return
        link.send_twist(Twist2D(), time.monotonic())
        self._numbers = {name: link.block[name].newest for name in wire.capacities(self._config)}
        await asyncio.to_thread(link.stop)

    def odometry(self) -> Odometry | None:
        """Return the newest odometry, or None before the first."""
        newest = 0 if self._odometry is None else self._odometry.seq
        message = None if self._link is None else self._link.block["odometry"].read(newest)
        if message is not None:
            self._odometry = wire.unpack_odometry(*message)
        return self._odometry

    def lidar(self, newer_than: int) -> LidarFrame | None:
        """Return the newest scan if its seq is greater than `newer_than`, else None."""
        message = None if self._link is None else self._link.block["lidar"].read(newer_than)
        return None if message is None else wire.unpack_lidar(*message)

    def camera(self, newer_than: int) -> CameraFrame | None:
        """Return the newest picture if its seq is greater than `newer_than`, else None."""
        message = None if self._link is None else self._link.block["camera"].read(newer_than)
        return None if message is None else wire.unpack_camera(*message)

    def send_twist(self, twist: Twist2D) -> None:
        """Put a body twist into the command slot; the physics takes it within a tick. Lost when not connected."""
        if self._link is not None:
            self._link.send_twist(twist, time.monotonic())

    async def sport(
        self, command: str, parameters: Mapping[str, float] | None = None
    ) -> SportResult:
        """Begin a sport command and return the robot's answer; `state().posture` shows its progress.

        Raises:
            UnknownCommand: not one of SPORT_COMMANDS.
            InvalidRequest: a parameter that the command does not take.
            NotConnected: the simulation does not run or does not answer.
        """
        check_command(command)
        check_parameters(command, parameters or {})
        answer = await self._request(op="sport", command=command, parameters=dict(parameters or {}))
        return SportResult(**answer["result"])

    async def inject_tilt(self, roll: float, pitch: float = 0.0) -> None:
        """Throw the robot over to these angles [rad], for fall tests. RecoveryStand puts it back on its feet.

        Raises:
            NotConnected: the simulation does not run or does not answer.
        """
        await self._request(op="tip_over", roll=roll, pitch=pitch)

    async def inject(self, name: str, /, **values: float) -> None:
        """Let something go wrong from now on, by name and numbers; `clear` ends all. See docs/simulation.md.

        Raises:
            InvalidFault: no such fault or value, the body cannot have it, or there are too many.
            NotConnected: the simulation does not run or does not answer.
        """
        try:
            check_fault(name, values, walking=self._config.base == "walking")
        except ConfigError as error:
            raise InvalidFault(error.message, error.hint) from error
        answer = await self._request(op="inject", name=name, values=values)
        if "refused" in answer:
            raise InvalidFault(*answer["refused"])

    async def clear_faults(self, name: str = "") -> None:
        """End the faults of a name; all without one.

        Raises:
            InvalidFault: there is none of that name.
            NotConnected: the simulation does not run or does not answer.
        """
        answer = await self._request(op="clear", name=name)
        if "refused" in answer:
            raise InvalidFault(*answer["refused"])

    async def faults(self) -> FaultReport:
        """Return what is wrong on purpose, and what could be. Raises NotConnected."""
        answer = await self._request(op="faults")
        found = tuple(InjectedFault(**fields) for fields in answer["faults"])
        return FaultReport(found, tuple(KINDS.values()))

    def truth(self) -> Truth | None:
        """Return what really is, or None before the first tick. For scoring and tests alone."""
        message = None if self._link is None else self._link.block["truth"].read()
        return None if message is None else unpack_truth(message[1])

    def state(self) -> DriverState:
        """Return posture, battery, camera, link and faults."""
        link = self._link
        fault = "The simulation is not running." if link is None else link.fault()
        gone = fault is not None
        message = None if link is None else link.block["state"].read()
        if message is not None:
            self._last_state = wire.unpack_state(message[1])
        state = self._last_state
        odometry = self.odometry()
        silent = odometry is None or time.monotonic() - odometry.stamp > SILENCE_LIMIT
        if fault is None and odometry is not None and silent:
            fault = "The simulation has stopped publishing."
        return DriverState(
            connected=not gone,
            posture=Posture(state["posture"]),
            battery=state["battery"],
            voltage=state.get("voltage", 0.0),
            camera="off: the simulation is gone"
            if gone
            else state.get("camera", "off: not started"),
            link="lost" if fault else "connecting" if silent else "ok",
            faults=(*(() if fault is None else (fault,)), *state.get("injected", ())),
            realtime_factor=state.get("realtime_factor"),
            low_state=_low_state(state.get("low_state")),
        )

    async def _request(self, **fields: Any) -> dict[str, Any]:
        if self._link is None:
            raise NotConnected("The simulation is not running.")
        answer = asyncio.wrap_future(self._link.request(**fields))
        try:
            return await asyncio.wait_for(answer, ANSWER_TIMEOUT)
        except TimeoutError:
            raise NotConnected(
                f"The simulation did not answer within {ANSWER_TIMEOUT:g} s."
            ) from None


def _low_state(fields: dict[str, Any] | None) -> LowState | None:
    return None if fields is None else LowState(**{k: _tupled(v) for k, v in fields.items()})


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
