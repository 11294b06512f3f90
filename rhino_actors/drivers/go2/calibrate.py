"""`rhino calibrate`: a short, slow drive that finds out how this robot takes velocities."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from rhino_actors.config import Go2Config
from rhino_actors.drivers.go2.calibration import Calibration
from rhino_actors.drivers.go2.measure import AXES, Motion, Sample, measure, works
from rhino_actors.drivers.go2.session import RobotSession, sticks
from rhino_actors.errors import CommandRejected, NotConnected
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import Posture

ASKED = {"vx": 0.3, "vy": 0.2, "omega": 0.6}  # [m/s], [m/s], [rad/s]
DRIVE_S = 1.5
REST_S = 3.0  # after the last command; longer than any firmware is reported to hold one
SEND_GAP_S = 0.05
BATTERY_MIN = 20.0  # [%]
FARTHEST = 1.2  # [m] from where it began: the drive ends there
ROOM = "1.5 m of free floor on every side"


class Recorder:
    """The session's sink: keeps where the robot was."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=10_000)

    def odometry(self, odometry: Odometry) -> None:
        pose = odometry.pose
        self.samples.append(Sample(odometry.stamp, pose.x, pose.y, pose.yaw))

    def lidar(self, message: bytes, stamp: float, odometry: Odometry) -> None:
        """Nothing is made of it here."""

    def camera(self, jpeg: bytes, width: int, height: int, stamp: float) -> None:
        """Nothing is made of it here."""


async def calibrate(config: Go2Config, aes_key: str, say: Callable[[str], None]) -> Calibration:
    """Drive a little by each way of driving and return what works, and how.

    Raises:
        NotConnected: no connection to the robot.
        CommandRejected: it does not stand, its battery is low, or nothing that was tried moves it.
    """
    recorder = Recorder()
    session = RobotSession(replace(config, camera=False), aes_key, recorder)
    running = asyncio.create_task(session.run())
    try:
        async with asyncio.timeout(60.0):
            await session.connected()
        await _check(session)
        return await _Drive(session, recorder, config, say).run()
    except TimeoutError:
        raise NotConnected("The robot did not connect within 60 s.") from None
    finally:
        await session.close()
        await running


async def _check(session: RobotSession) -> None:
    give_up = time.monotonic() + 3.0
    while session.state().battery == 0.0 and time.monotonic() < give_up:
        await asyncio.sleep(0.1)
    state = session.state()
    if state.posture is not Posture.STANDING:
        raise CommandRejected(
            f"The robot is {state.posture.value}.", "It has to stand: StandUp, then try again."
        )
    if state.battery < BATTERY_MIN:
        raise CommandRejected(
            f"The battery is at {state.battery:.0f} %.", "Charge it first: it drives differently."
        )


class _Drive:
    """The drive itself."""

    def __init__(
        self,
        session: RobotSession,
        recorder: Recorder,
        config: Go2Config,
        say: Callable[[str], None],
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._config = config
        self._say = say
        self._home = recorder.samples[-1]

    async def run(self) -> Calibration:
        """Try both ways of driving forward, then the other axes by the better one."""
        forward = {}
        for api in ("move", "joystick"):
            forward[api] = await self._there_and_back(api, "vx")
            self._tell(api, "vx", forward[api])
        api = next((a for a in forward if works(forward[a], ASKED["vx"])), "")
        if not api:
            raise CommandRejected(
                "Neither Move nor the sticks move the robot.",
                "BalanceStand, take it out of any lead or avoidance mode, and try again.",
            )
        measured = {"vx": forward[api]}
        for axis in ("vy", "omega"):
            measured[axis] = await self._there_and_back(api, axis)
            self._tell(api, axis, measured[axis])
        return self._result(api, measured)

    def _result(self, api: str, measured: dict[str, Motion]) -> Calibration:
        config = self._config
        values = {
            name: getattr(config, name)
            for kind in ("scale", "stick")
            for name in (f"{kind}_{axis}" for axis in AXES)
        }
        for axis, motion in measured.items():
            if not works(motion, ASKED[axis]):
                self._say(f"{axis}: nothing moved; its number is left as it was")
                continue
            kind = "scale" if api == "move" else "stick"
            scale = getattr(config, f"scale_{axis}")
            asked = scale * ASKED[axis] if api == "move" else self._stick(axis)
            values[f"{kind}_{axis}"] = round(asked / motion.velocity, 4)
        first = measured["vx"]
        return Calibration(
            velocity_api=api,
            latency_s=round(first.latency, 3),
            hold_s=round(first.hold, 3),
            measured=time.time(),
            **values,
        )

    def _stick(self, axis: str) -> float:
        """Return the stick's value that was sent for an axis."""
        sent = sticks(self._config, Twist2D(**{axis: ASKED[axis]}))
        return {"vx": sent["ly"], "vy": sent["lx"], "omega": sent["rx"]}[axis]

    def _tell(self, api: str, axis: str, motion: Motion) -> None:
        self._say(
            f"{api} {axis}: asked {ASKED[axis]:.2f}, got {motion.velocity:+.2f},"
            f" after {motion.latency:.2f} s, for {motion.hold:.2f} s more"
        )

    async def _there_and_back(self, api: str, axis: str) -> Motion:
        motion = await self._one(api, axis, ASKED[axis])
        if works(motion, ASKED[axis]):
            await self._one(api, axis, -ASKED[axis])
        return motion

    async def _one(self, api: str, axis: str, asked: float) -> Motion:
        """Drive along one axis for a moment, let the robot stop by itself, and measure."""
        started = time.monotonic()
        twist = Twist2D(**{axis: asked})
        begun = ended = time.monotonic()
        while time.monotonic() - begun < DRIVE_S and self._is_near():
            ended = time.monotonic()
            self._session.send_once(api, twist)
            await asyncio.sleep(SEND_GAP_S)
        await asyncio.sleep(REST_S)
        self._session.twist(Twist2D(), time.monotonic())
        await asyncio.sleep(0.3)
        samples = [s for s in self._recorder.samples if s.stamp >= started - 0.5]
        try:
            return measure(samples, axis, begun, ended)
        except ValueError as error:
            raise CommandRejected(f"The drive cannot be measured: {error}.") from error

    def _is_near(self) -> bool:
        last = self._recorder.samples[-1]
        far = (last.x - self._home.x) ** 2 + (last.y - self._home.y) ** 2 > FARTHEST**2
        return not far and time.monotonic() - last.stamp < 0.5
