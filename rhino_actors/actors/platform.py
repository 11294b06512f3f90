"""PlatformActor: the robot's side. Owns the driver, and the one line that sends it a twist."""

import asyncio
import dataclasses
import json
import logging
import math
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path as FilePath
from typing import Any

import ray

from rhino_actors.actors.latest import Latest
from rhino_actors.actors.rate import Rate, RateMeter
from rhino_actors.config import RhinoConfig, state_dir
from rhino_actors.control.collision_monitor import CollisionMonitor, Limited
from rhino_actors.control.motion_gate import Health, Intent, MotionGate, MotionKind
from rhino_actors.control.path_follower import PathFollower, checked_points
from rhino_actors.drivers.fake import FakePlatform
from rhino_actors.drivers.platform import ACROBATICS, SPORT_COMMANDS, Platform
from rhino_actors.errors import CommandRejected, InvalidRequest, RhinoError, UnknownCommand
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.navigation import FollowReport, FollowState, Path, Rank
from rhino_actors.messages.platform import (
    GateDecision,
    GateStatus,
    Posture,
    RobotStatus,
    SportResult,
    StopReason,
    VelocityAnswer,
)
from rhino_actors.messages.sensors import CameraFrame, LidarFrame

logger = logging.getLogger(__name__)

MAX_POSES = 100_000
SENSOR_POLL_HZ = (
    100.0  # odometry comes 50 times a second: looked for twice as often, none waits long
)
CAMERA_POLL_HZ = 60.0
LINK_CHECK_S = 0.5
BACK_OFF_S = (0.5, 8.0)  # first and longest wait between tries to connect
SETTLE_TIMEOUT_S = 2.0  # longest wait for the zeros before a sport command
CLOSE_TIMEOUT_S = 3.0
HALT_GAP_S = 0.02  # between zeros when no loop is left to send them


class PlatformActor:
    """Drives one robot: motion gate, path following and collision monitor beside the driver.

    Publishes: Odometry, LidarFrame and CameraFrame by long-poll, RobotStatus
    Accepts:   Path with a lease from the planner; velocity, stop, e-stop and sport commands from anyone
    If it dies: the driver's own dead-man stops the robot; the e-stop latch is on disk.
    """

    def __init__(
        self,
        config: RhinoConfig,
        *,
        driver: Platform | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._config = config
        self._clock = clock
        self._driver = driver or _build_driver(config)
        self._latch = _LatchFile(state_dir() / config.robot.name / "estop.json")
        wall, now = time.time(), clock()
        by, since = self._latch.read()
        self._gate = MotionGate(
            config.gate,
            now=now,
            wall_from_monotonic=wall - now,
            first_epoch=int(wall * 1000.0),  # above every epoch of an earlier life
            latched_by=by,
            latched_since=since,
        )
        self._follower = PathFollower(config.follower)
        self._monitor = CollisionMonitor(config.collision, config.robot)
        self._period = 1.0 / config.gate.control_rate_hz
        self._odometry: Latest[Odometry] = Latest()
        self._lidar: Latest[LidarFrame] = Latest()
        self._camera: Latest[CameraFrame] = Latest()
        self._meters = {name: RateMeter() for name in ("odometry", "lidar", "camera", "control")}
        self._distance_remaining = 0.0
        self._deviation = 0.0
        self._faults: dict[str, str] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._sport_lock = asyncio.Lock()
        self._latch_lock = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()
        self._ended.set()
        self._loops_run = False

    # life

    @ray.method
    async def run(self) -> None:
        """Connect and drive until `close`. A loop that fails stops the robot, and its exception leaves here."""
        if not self._ended.is_set():
            raise RuntimeError("the platform's loops run already")
        self._ended.clear()
        try:
            if await self._connect():
                await self._run_loops()
        finally:
            self._ended.set()

    @ray.method
    async def close(self) -> None:
        """Stop the robot, end the loops, close the driver."""
        self._stopping.set()
        self._gate.stop("rhino", self._clock())
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._ended.wait()
        except TimeoutError:
            logger.error("the loops did not end within %.0f s", CLOSE_TIMEOUT_S)
        await self._send_zeros()
        for task in list(self._background):
            task.cancel()
        await self._driver.close()

    # sensors

    @ray.method
    async def odometry(self, newer_than: int = 0, wait: float = 0.0) -> Odometry | None:
        """Return odometry with another seq than `newer_than`; None when none came within `wait` [s]."""
        return await self._odometry.newer(newer_than, wait)

    @ray.method
    async def lidar(self, newer_than: int = 0, wait: float = 0.0) -> LidarFrame | None:
        """Return a frame with another seq than `newer_than`; None when none came within `wait` [s]."""
        return await self._lidar.newer(newer_than, wait)

    @ray.method
    async def camera(self, newer_than: int = 0, wait: float = 0.0) -> CameraFrame | None:
        """Return a picture with another seq than `newer_than`; None when none came within `wait` [s]."""
        return await self._camera.newer(newer_than, wait)

    @ray.method
    async def status(self) -> RobotStatus:
        """Return everything that a dashboard shows of the robot."""
        now = self._clock()
        state = self._driver.state()
        if self._gate.fallen:
            state = dataclasses.replace(state, posture=Posture.FALLEN)
        return RobotStatus(
            robot=self._config.robot.name,
            driver=self._config.driver,
            simulated=self._driver.simulated,
            stamp=now,
            odometry=self._odometry.value,
            odometry_age=_age(self._odometry.value, now),
            lidar_age=_age(self._lidar.value, now),
            camera_age=_age(self._camera.value, now),
            odometry_rate=self._meters["odometry"].rate(now),
            lidar_rate=self._meters["lidar"].rate(now),
            camera_rate=self._meters["camera"].rate(now),
            control_rate=self._meters["control"].rate(now),
            driver_state=state,
            gate=self._gate.status(now),
            faults=(*self._faults.values(), *state.faults),
        )

    @ray.method
    async def gate_log(self) -> tuple[GateDecision, ...]:
        """Return the gate's decisions of the last minute, oldest first."""
        return self._gate.log(self._clock())

    # who drives

    @ray.method
    async def claim(
        self, client: str, rank: Rank, *, take: bool = False, on_behalf_of: str = ""
    ) -> int:
        """Make `client` the holder; return the motion epoch that its goals carry.

        Raises:
            ControlHeld, EStopLatched, RobotFallen: not now.
        """
        return self._gate.claim(client, rank, self._clock(), take=take, on_behalf_of=on_behalf_of)

    @ray.method
    async def release(self, client: str, epoch: int | None = None) -> None:
        """Let go of the robot; what `client` had it do ends. With `epoch`: unless it has decided anew since then."""
        self._gate.release(client, self._clock(), epoch=epoch)

    @ray.method
    async def velocity(
        self, twist: Twist2D, client: str, rank: Rank = Rank.HUMAN
    ) -> VelocityAnswer:
        """Drive directly; without another call within the dead-man time the robot stops.

        Raises:
            InvalidRequest: a value is not finite.
            ControlHeld, EStopLatched, RobotFallen, NotConnected: not now.
        """
        now = self._clock()
        self._observe(now)
        return self._gate.velocity(twist, client, rank, now)

    @ray.method
    async def stop(self, client: str) -> GateStatus:
        """Zero, drop the path, free the holder. Never refused."""
        now = self._clock()
        self._gate.stop(client, now)
        self._send(Twist2D())
        return self._gate.status(now)

    @ray.method
    async def estop(self, client: str) -> GateStatus:
        """Zero at once, latch, also on disk, and let the motors damp. Never refused."""
        now = self._clock()
        self._gate.estop(client, now)
        self._send(Twist2D())
        self._spawn(self._damp())
        await self._save_latch()
        return self._gate.status(now)

    @ray.method
    async def clear_estop(self, client: str) -> GateStatus:
        """Clear the latch. Nothing resumes; a damped robot has to be told to stand up."""
        self._gate.clear(client, self._clock())
        await self._save_latch()
        return self._gate.status(self._clock())

    # paths

    @ray.method
    async def follow(self, path: Path) -> FollowReport:
        """Follow a path, in place of an earlier one of the same goal or an older goal.

        Raises:
            SupersededRequest: it belongs to an earlier decision, or its goal was cancelled.
            ControlHeld, EStopLatched, RobotFallen: not now.
            InvalidRequest: a path that cannot be followed.
        """
        now = self._clock()
        try:
            points = checked_points(path.poses, path.final_yaw)
        except ValueError as error:
            raise InvalidRequest(f"The path cannot be followed: {error}.") from error
        if len(points) > MAX_POSES:
            raise InvalidRequest(f"The path has {len(points)} poses, more than {MAX_POSES}.")
        self._observe(now)
        self._gate.start_path(path, now)
        self._follower.set_path(points, path.final_yaw)
        self._distance_remaining = path.length
        return self._report(path.goal_id)

    @ray.method
    async def follow_report(self, goal_id: int) -> FollowReport:
        """Say how a goal's path goes; asking renews its lease."""
        self._gate.renew(goal_id, self._clock())
        return self._report(goal_id)

    @ray.method
    async def cancel_path(self, goal_id: int) -> None:
        """Stop the goal's path; no path of this goal or an older one is accepted any more."""
        was_moving = not self._gate.is_settled
        self._gate.cancel(goal_id, self._clock())
        if was_moving and self._gate.kind is MotionKind.NONE:
            self._send(Twist2D())

    @ray.method  # type: ignore[arg-type]  # Ray's types know no keyword-only arguments
    async def nudge(
        self,
        twist: Twist2D,
        duration: float,
        *,
        goal_id: int,
        epoch: int,
        client: str,
        rank: Rank,
    ) -> None:
        """Start a short recovery motion under the collision monitor and return; it takes the path's place.

        Raises:
            SupersededRequest, ControlHeld, EStopLatched, RobotFallen, InvalidRequest: as `follow`.
        """
        now = self._clock()
        self._observe(now)
        self._gate.start_nudge(
            twist, duration, goal_id=goal_id, epoch=epoch, client=client, rank=rank, now=now
        )

    # sport commands

    @ray.method
    async def sport(self, command: str, client: str, rank: Rank = Rank.HUMAN) -> SportResult:
        """Carry out a sport command once the robot stands still. StopMove is never refused.

        Raises:
            UnknownCommand: there is none of that name.
            CommandRejected: acrobatics are off, or another command is being carried out.
            ControlHeld, EStopLatched, RobotFallen, NotConnected: not now.
        """
        if command not in SPORT_COMMANDS:
            raise UnknownCommand(
                f"There is no sport command {command!r}.", f"Known: {', '.join(SPORT_COMMANDS)}."
            )
        self._observe(self._clock())
        self._admit_sport(command, client, rank)
        if command in ("StopMove", "Damp"):
            self._send(Twist2D())
            return await self._driver.sport(command)
        if self._sport_lock.locked():
            raise CommandRejected(
                "The robot is carrying out another command.", "Ask again when it is done."
            )
        async with self._sport_lock:
            await self._settle()
            self._observe(self._clock())
            self._admit_sport(command, client, rank)  # much may have happened meanwhile
            return await self._driver.sport(command)

    def _admit_sport(self, command: str, client: str, rank: Rank) -> None:
        self._gate.admit_sport(
            command, client, rank, self._clock(), is_acrobatic=command in ACROBATICS
        )

    async def _settle(self) -> None:
        """Wait until the zeros that end a motion are sent: one during a sport command could cut it short."""
        give_up = time.monotonic() + SETTLE_TIMEOUT_S
        while not self._gate.is_settled and time.monotonic() < give_up:
            await asyncio.sleep(self._period)

    # loops

    async def _connect(self) -> bool:
        """Connect, however often it takes. Returns False when closed meanwhile."""
        wait = BACK_OFF_S[0]
        while not self._stopping.is_set():
            try:
                await self._driver.connect()
            except RhinoError as error:
                self._faults["connect"] = f"{error.message} {error.hint}"
                logger.error("cannot connect, next try in %.1f s: %s", wait, error)
            else:
                self._faults.pop("connect", None)
                if self._gate.latched and "damp" in self._faults:
                    self._spawn(self._damp())
                return True
            await self._pause(wait)
            wait = min(2.0 * wait, BACK_OFF_S[1])
        return False

    async def _run_loops(self) -> None:
        self._loops_run = True
        loops = [
            asyncio.create_task(loop, name=name)
            for name, loop in (
                ("control", self._control_loop()),
                ("sensors", self._sensor_loop()),
                ("camera", self._camera_loop()),
                ("link", self._link_loop()),
            )
        ]
        try:
            done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._loops_run = False
            for loop in loops:
                loop.cancel()
            if not self._stopping.is_set():
                self._gate.fail("The control loop ended.", self._clock())
                await self._send_zeros()
            await asyncio.gather(*loops, return_exceptions=True)
        for loop in done:
            if error := loop.exception():
                logger.error("the %s loop failed; the robot is stopped", loop.get_name())
                raise error

    async def _control_loop(self) -> None:
        due = self._clock()
        while not self._stopping.is_set():
            now = self._clock()
            self._tick(now)
            if now >= due:
                self._meters["control"].tick(now)
                due = due + self._period if due + self._period > now else now + self._period
            # What runs out between two ticks ends when it runs out, not at the next tick.
            wake = min(due, max(self._gate.deadline, now))
            await asyncio.sleep(max(0.0, wake - self._clock()))

    async def _sensor_loop(self) -> None:
        rate = Rate(SENSOR_POLL_HZ)
        while not self._stopping.is_set():
            self._poll_sensors(self._clock())
            await rate.sleep()

    async def _camera_loop(self) -> None:
        rate = Rate(CAMERA_POLL_HZ)
        seen = 0
        while not self._stopping.is_set():
            picture = self._driver.camera(seen)
            if picture is not None:
                seen = picture.seq
                self._meters["camera"].tick(self._clock())
                self._camera.publish(picture)
            await rate.sleep()

    async def _link_loop(self) -> None:
        while not self._stopping.is_set():
            if not self._driver.state().connected:
                logger.error("the robot's link is lost")
                await self._connect()
            await self._pause(LINK_CHECK_S)

    def _poll_sensors(self, now: float) -> None:
        odometry, latest = self._driver.odometry(), self._odometry.value
        if odometry is not None and (latest is None or odometry.seq != latest.seq):
            if _is_finite(odometry):
                self._faults.pop("odometry", None)
                self._gate.observe_odometry(odometry, now)
                self._meters["odometry"].tick(now)
                self._odometry.publish(odometry)
            else:
                self._faults["odometry"] = "Odometry has values that are not finite numbers."
        last = self._lidar.value
        frame = self._driver.lidar(last.seq if last else 0)
        if frame is not None:
            if not self._gate.trusts_pose_at(frame.stamp):
                frame = dataclasses.replace(frame, pose_is_trusted=False)
            self._meters["lidar"].tick(now)
            self._monitor.update(frame)
            self._lidar.publish(frame)

    # driving

    def _tick(self, now: float) -> None:
        """Decide on this period's twist and send it."""
        self._observe(now)
        intent = self._gate.intent(now)
        if intent.kind is not MotionKind.PATH:
            self._follower.clear()
        twist, obstacle = Twist2D(), ""
        if intent.kind is not MotionKind.NONE and intent.hold is StopReason.NONE:
            twist, obstacle = self._twist_for(intent, now)
        twist_to_send = self._gate.output(twist, now, obstacle=obstacle)
        if twist_to_send is not None:
            self._send(twist_to_send)

    def _twist_for(self, intent: Intent, now: float) -> tuple[Twist2D, str]:
        """Return the twist of what drives, after the collision monitor, and what is in the way."""
        twist = intent.twist
        odometry = self._odometry.value
        if intent.kind is MotionKind.PATH and odometry is not None:
            step = self._follower.step(odometry.pose, speed=self._gate.applied.vx, dt=self._period)
            self._distance_remaining, self._deviation = step.distance_remaining, step.deviation
            if step.arrived:
                self._gate.path_arrived(now, "The robot is at the goal.")
                return Twist2D(), ""
            twist = step.twist
        limited = self._limit(twist, now)
        if not limited.blocked:
            return limited.twist, ""
        if intent.kind is MotionKind.PATH and odometry is not None:
            # An obstacle right behind the goal may keep the body just short of it.
            near = self._config.follower.goal_tolerance + self._config.collision.stop_margin
            if self._follower.accept_here(odometry.pose, near):
                return Twist2D(), ""
            sideways = self._limit(self._follower.crab(odometry.pose), now)
            if not sideways.blocked:
                return sideways.twist, ""
        place = f" at x {limited.where[0]:.2f}, y {limited.where[1]:.2f}" if limited.where else ""
        return Twist2D(), f"Something is in the way{place}."

    def _limit(self, twist: Twist2D, now: float) -> Limited:
        """Let the collision monitor look at the newest frame, if it is new enough to say anything."""
        frame, odometry = self._lidar.value, self._odometry.value
        if frame is None or not now - frame.stamp <= self._config.gate.lidar_max_age_s:
            return Limited(twist)
        fresh = (
            odometry is not None
            and now - odometry.stamp <= self._config.gate.odometry_max_age_s
            and not self._gate.is_settling_after_jump(now)
        )
        pose = odometry.pose if odometry is not None and fresh else frame.pose
        return self._monitor.limit(twist, pose)

    def _send(self, twist: Twist2D) -> None:
        """Give the driver a twist: the one place where this happens."""
        self._driver.send_twist(twist)
        self._gate.sent(twist)

    async def _send_zeros(self) -> None:
        """Send zero again and again without the loops' help."""
        for _ in range(self._config.gate.zero_repeats):
            try:
                self._send(Twist2D())
            except Exception:
                logger.exception("the driver does not take a zero twist")
            await asyncio.sleep(HALT_GAP_S)

    def _observe(self, now: float) -> None:
        state = self._driver.state()
        odometry, frame = self._odometry.value, self._lidar.value
        self._gate.observe(
            Health(
                connected=state.connected and self._loops_run,
                posture=state.posture,
                odometry_age=math.inf if odometry is None else now - odometry.stamp,
                lidar_age=math.inf if frame is None else now - frame.stamp,
            ),
            now,
        )

    def _report(self, goal_id: int) -> FollowReport:
        state, odometry = self._gate.path_state, self._odometry.value
        pose: Pose2D | None = None if odometry is None else odometry.pose
        if goal_id != state.goal_id:
            return FollowReport(0, FollowState.NONE, pose=pose, epoch=self._gate.epoch)
        return FollowReport(
            goal_id=goal_id,
            state=state.state,
            reason=state.reason.value,
            message=state.message,
            pose=pose,
            distance_remaining=self._distance_remaining,
            deviation=self._deviation,
            epoch=self._gate.epoch,
        )

    # e-stop

    async def _damp(self) -> None:
        try:
            result = await self._driver.sport("Damp")
        except Exception as error:
            logger.exception("Damp failed")
            self._faults["damp"] = f"The motors could not be damped: {error}"
        else:
            if result.accepted:
                self._faults.pop("damp", None)
            else:
                self._faults["damp"] = f"The robot refused to damp its motors: {result.message}"

    async def _save_latch(self) -> None:
        async with self._latch_lock:
            by = self._gate.latched_by if self._gate.latched else None
            try:
                await asyncio.to_thread(self._latch.write, by, self._gate.latched_since)
            except OSError as error:
                logger.exception("the e-stop latch cannot be kept on disk")
                self._faults["latch"] = f"The e-stop latch cannot be kept on disk: {error}"
            else:
                self._faults.pop("latch", None)

    # small things

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _pause(self, duration: float) -> None:
        """Sleep, but not beyond `close`."""
        try:
            async with asyncio.timeout(duration):
                await self._stopping.wait()
        except TimeoutError:
            return


class _LatchFile:
    """The e-stop latch on disk: {"latched": bool, "by": who, "since": Unix time [s]}."""

    def __init__(self, path: FilePath) -> None:
        self._path = path

    def read(self) -> tuple[str | None, float | None]:
        """Return who latched it and when; (None, None): it is not latched. What cannot be read is latched."""
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            if data["latched"] is False:
                return None, None
            return str(data["by"]), float(data["since"])
        except FileNotFoundError:
            return None, None
        except (OSError, ValueError, TypeError, KeyError) as error:
            logger.error("%s cannot be read, so the e-stop is latched: %s", self._path, error)
            return "unreadable latch file", None

    def write(self, by: str | None, since: float | None) -> None:
        """Replace the file in one step; it is on the disk when this returns. Raises OSError."""
        data = {"latched": by is not None, "by": by or "", "since": since or 0.0}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".new")
        with open(new, "w", encoding="utf-8") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _build_driver(config: RhinoConfig) -> Platform:
    if config.driver == "fake":
        return FakePlatform(config.fake, config.robot)
    from rhino_actors.drivers.mujoco.platform import MujocoPlatform  # needs the `sim` extra

    return MujocoPlatform(config.mujoco, config.robot)


def _age(value: Odometry | LidarFrame | CameraFrame | None, now: float) -> float | None:
    return None if value is None else max(0.0, now - value.stamp)


def _is_finite(odometry: Odometry) -> bool:
    numbers = (*odometry.position, *odometry.orientation, odometry.stamp)
    return all(map(math.isfinite, numbers)) and odometry.twist.is_finite
