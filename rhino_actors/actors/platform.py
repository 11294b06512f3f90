"""PlatformActor: the robot's side. Owns the driver, and the one line that sends it a twist."""

import asyncio
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import ray

from rhino_actors.actors.latest import Latest
from rhino_actors.actors.rate import Percentiles, Rate, RateMeter
from rhino_actors.config import RhinoConfig
from rhino_actors.control.collision_monitor import CollisionMonitor, Limited
from rhino_actors.control.driving import PathDriving, describe
from rhino_actors.control.motion_gate import Health, Intent, MotionGate, MotionKind
from rhino_actors.control.path_follower import PathFollower, checked_points
from rhino_actors.drivers.fake import FakePlatform
from rhino_actors.drivers.platform import (
    ACROBATICS,
    SPORT_PARAMETERS,
    EquippedRobot,
    FaultySource,
    Platform,
    check_command,
    check_device,
    check_parameters,
)
from rhino_actors.errors import (
    CommandRejected,
    ControlHeld,
    InvalidRequest,
    NotEquipped,
    NotSimulated,
    RhinoError,
)
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.navigation import FollowReport, FollowState, Path, Rank
from rhino_actors.messages.platform import (
    FaultReport,
    GateDecision,
    GateStatus,
    Posture,
    RobotStatus,
    SportResult,
    StopReason,
    TakeOver,
    VelocityAnswer,
)
from rhino_actors.messages.sensors import CameraFrame, LidarFrame
from rhino_actors.storage.latch import LatchFile, latch_path

logger = logging.getLogger(__name__)

MAX_POSES = 100_000
# Odometry comes 50 times a second: looked for twice as often, none waits long.
SENSOR_POLL_HZ = 100.0
INTERVALS_KEPT = 3000  # of odometry: a minute
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
        self._latch = LatchFile(latch_path(config))
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
        self._monitor = CollisionMonitor(config.collision, config.robot)
        # An obstacle right behind the goal may keep the body just short of it.
        near = config.follower.goal_tolerance + config.collision.stop_margin
        self._driving = PathDriving(
            PathFollower(config.follower), self._monitor, accept_within=near
        )
        self._period = 1.0 / config.gate.control_rate_hz
        self._odometry: Latest[Odometry] = Latest()
        self._lidar: Latest[LidarFrame] = Latest()
        self._camera: Latest[CameraFrame] = Latest()
        self._meters = {name: RateMeter() for name in ("odometry", "lidar", "camera", "control")}
        self._intervals = Percentiles(INTERVALS_KEPT)
        self._odometry_at = math.inf  # [s]
        self._distance_remaining = 0.0
        self._deviation = 0.0
        self._faults: dict[str, str] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._sport_lock = asyncio.Lock()
        self._latch_lock = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._running = asyncio.Lock()
        self._loops_run = False

    # life

    @ray.method
    async def run(self) -> None:
        """Connect and drive until `close`. A loop that fails stops the robot, and its exception leaves here.

        A second call waits for the first to end, then runs.
        """
        async with self._running:
            if await self._connect():
                await self._run_loops()

    @ray.method
    async def close(self) -> None:
        """Stop the robot, end the loops, close the driver."""
        self._stopping.set()
        self._gate.stop("rhino", self._clock())
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.gather(*self._background, return_exceptions=True)  # an e-stop's rest
                async with self._running:  # the loops have ended
                    pass
        except TimeoutError:
            logger.error("the loops did not end within %.0f s", CLOSE_TIMEOUT_S)
        await self._send_zeros()
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
            odometry_interval_p99=self._intervals.at(99.0) if len(self._intervals) >= 100 else None,
        )

    @ray.method
    async def gate_log(self, after: float = -math.inf) -> tuple[GateDecision, ...]:
        """Return the gate's decisions of the last minute that are newer than `after` [s], oldest first."""
        return self._gate.log(self._clock(), after)

    # who drives

    @ray.method
    async def claim(
        self,
        client: str,
        rank: Rank,
        *,
        take: bool = False,
        on_behalf_of: str = "",
        stops: int | None = None,
    ) -> int:
        """Make `client` the holder; return a new motion epoch, which what it decides now carries.

        A path of its own drives on until one of the new epoch takes its place; later ones of older epochs are
        refused. A mission claims once, for all its goals.

        Raises:
            ControlHeld, EStopLatched, RobotFallen: not now.
            SupersededRequest: it was stopped since `stops` (FollowReport.stops) was read.
        """
        return self._gate.claim(
            client, rank, self._clock(), take=take, on_behalf_of=on_behalf_of, stops=stops
        )

    @ray.method
    async def release(self, client: str, epoch: int | None = None) -> None:
        """Let go of the robot; what `client` had it do ends. With `epoch`: unless another is the newest."""
        was_moving = not self._gate.is_settled
        self._gate.release(client, self._clock(), epoch=epoch)
        self._send_zero_if_ended(was_moving)

    @ray.method
    async def take(self, client: str, taking_from: str | None = None) -> TakeOver:
        """Let a person take the robot over from whoever drives, or only from `taking_from`; say from whom.

        Raises:
            ControlHeld: another one drives than was named.
            EStopLatched, RobotFallen: not now.
        """
        now = self._clock()
        before = self._gate.take(client, now, taking_from=taking_from)
        return TakeOver(self._gate.status(now), before)

    @ray.method
    async def keep(self, client: str) -> GateStatus:
        """Keep the lease of a client that drives nothing just now. Raises ControlHeld, NotHolder."""
        now = self._clock()
        self._gate.keep(client, now)
        return self._gate.status(now)

    @ray.method
    async def lose(self, client: str) -> None:
        """Send zero at once if this client, whose connection has closed, drives by hand."""
        if self._gate.lose(client, self._clock()):
            self._send_zero()

    @ray.method
    async def velocity(
        self, twist: Twist2D, client: str, rank: Rank = Rank.HUMAN
    ) -> VelocityAnswer:
        """Drive directly; without another call within the dead-man time the robot stops.

        Raises:
            InvalidRequest: a value is not finite.
            ControlHeld, EStopLatched, RobotFallen, NotConnected: not now.
            SupersededRequest: its driving was ended, and it has not let go of the stick since.
        """
        now = self._clock()
        self._observe(now)
        return self._gate.velocity(twist, client, rank, now)

    @ray.method
    async def stop(self, client: str) -> GateStatus:
        """Zero, drop the path, free the holder. Never refused."""
        now = self._clock()
        self._gate.stop(client, now)
        self._send_zero()
        return self._gate.status(now)

    @ray.method
    async def estop(self, client: str) -> GateStatus:
        """Zero at once, latch, also on disk, and let the motors damp. Never refused."""
        now = self._clock()
        self._gate.estop(client, now)
        logger.warning("emergency stop by %r", client)
        # None of the three may keep the others from happening.
        self._spawn(self._damp())
        saved = self._spawn(self._save_latch())
        self._send_zero()
        await asyncio.shield(saved)
        return self._gate.status(now)

    @ray.method
    async def clear_estop(self, client: str) -> GateStatus:
        """Clear the latch. Nothing resumes; a damped robot has to be told to stand up."""
        self._gate.clear(client, self._clock())
        logger.warning("emergency stop cleared by %r", client)
        await asyncio.shield(self._spawn(self._save_latch()))
        return self._gate.status(self._clock())

    # paths

    @ray.method
    async def follow(self, path: Path) -> FollowReport:
        """Follow a path, in place of an earlier one.

        Raises:
            SupersededRequest: it carries another epoch than the newest, its goal was cancelled, or a newer goal of
                the same epoch was followed already.
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
        self._driving.set_path(points, path.final_yaw)
        self._distance_remaining = path.length
        return self._report(path.goal_id)

    @ray.method
    async def follow_report(self, goal_id: int) -> FollowReport:
        """Say how a goal's path goes; asking renews its lease."""
        self._gate.renew(goal_id, self._clock())
        return self._report(goal_id)

    @ray.method
    async def cancel_path(self, goal_id: int) -> None:
        """Stop this goal's path, and accept no other of it any more. Paths of other goals are left alone."""
        was_moving = not self._gate.is_settled
        self._gate.cancel(goal_id, self._clock())
        self._send_zero_if_ended(was_moving)

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
            twist, duration, goal_id=goal_id, epoch=epoch, client=client, now=now
        )

    # sport commands

    @ray.method
    async def sport(
        self,
        command: str,
        client: str,
        rank: Rank = Rank.HUMAN,
        parameters: Mapping[str, float] | None = None,
    ) -> SportResult:
        """Carry out a sport command once the robot stands still. StopMove is never refused.

        `parameters` are for the commands of SPORT_PARAMETERS; the gate clamps them, and the answer has them so.

        Raises:
            UnknownCommand: there is none of that name.
            InvalidRequest: a parameter that it does not take, or that is not finite.
            CommandRejected: acrobatics are off, or another command is being carried out.
            ControlHeld, EStopLatched, RobotFallen, NotConnected: not now.
        """
        check_command(command)
        if command not in ("StopMove", "Damp"):  # what makes it safer is not refused for its form
            check_parameters(command, parameters or {})
        self._observe(self._clock())
        self._admit_sport(command, client, rank, parameters)
        if command in ("StopMove", "Damp"):
            self._send_zero()
            return await self._driver.sport(command)
        if self._sport_lock.locked():
            raise CommandRejected(
                "The robot is carrying out another command.", "Ask again when it is done."
            )
        async with self._sport_lock:
            await self._settle()
            self._observe(self._clock())
            # Much may have happened meanwhile.
            applied = self._admit_sport(command, client, rank, parameters)
            if command in SPORT_PARAMETERS:
                return await self._driver.sport(command, applied)
            return await self._driver.sport(command)

    def _admit_sport(
        self, command: str, client: str, rank: Rank, parameters: Mapping[str, float] | None
    ) -> dict[str, float]:
        return self._gate.admit_sport(
            command,
            client,
            rank,
            self._clock(),
            is_acrobatic=command in ACROBATICS,
            parameters=parameters,
        )

    async def _settle(self) -> None:
        """Wait until the zeros that end a motion are sent: one during a sport command could cut it short."""
        give_up = time.monotonic() + SETTLE_TIMEOUT_S
        while not self._gate.is_settled and time.monotonic() < give_up:
            await asyncio.sleep(self._period)

    # devices

    @ray.method
    async def set_device(self, device: str, level: int, client: str) -> SportResult:
        """Set the robot's light or volume (0 to 10), or its own obstacle avoidance (0 or 1).

        Light and volume move nothing and need no lease. What the robot avoids by itself is changed by whoever drives,
        or by anyone while nobody does.

        Raises:
            InvalidRequest: no such device or level.
            NotEquipped: this robot has none.
            ControlHeld: somebody else drives.
            NotConnected: the robot does not answer.
        """
        check_device(device, level)
        if not isinstance(self._driver, EquippedRobot):
            raise NotEquipped(f"This robot, driver {self._config.driver}, has no {device}.")
        holder = self._gate.status(self._clock()).holder
        if device == "obstacle_avoidance" and holder not in ("", client):
            raise ControlHeld(f"{holder} drives the robot.", "", holder)
        result = await self._driver.set_device(device, level)
        logger.warning("%s set to %d by %r: code %d", device, level, client, result.code)
        return result

    # faults on demand

    @ray.method
    async def faults(self) -> FaultReport:
        """Return what is wrong on purpose, and what could be.

        Raises:
            NotSimulated: this driver has no faults on demand.
            NotConnected: the simulation does not answer.
        """
        return await self._faulty_driver().faults()

    @ray.method
    async def inject_fault(
        self, name: str, values: Mapping[str, float], client: str
    ) -> FaultReport:
        """Let something go wrong in the simulation; return what is wrong then. It needs no lease.

        Raises:
            InvalidFault: no such fault or number, or this body cannot have it.
            NotSimulated, NotConnected: as `faults`.
        """
        driver = self._faulty_driver()
        await driver.inject(name, **values)
        logger.warning("fault %s %s by %r", name, dict(values), client)
        return await driver.faults()

    @ray.method
    async def clear_faults(self, client: str, name: str = "") -> FaultReport:
        """End the faults of a name, all without one; return what is wrong then. Raises like `inject_fault`."""
        driver = self._faulty_driver()
        await driver.clear_faults(name)
        logger.warning("faults %s cleared by %r", name or "all", client)
        return await driver.faults()

    def _faulty_driver(self) -> FaultySource:
        if not isinstance(self._driver, FaultySource):
            raise NotSimulated(
                f"This robot, driver {self._config.driver}, cannot have faults on demand."
            )
        return self._driver

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
                if self._gate.latched:
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
                if now > self._odometry_at:
                    self._intervals.add(now - self._odometry_at)
                self._odometry_at = now
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
            self._driving.clear()
        twist, obstacle = Twist2D(), ""
        if intent.kind is not MotionKind.NONE and intent.hold is StopReason.NONE:
            twist, obstacle = self._twist_for(intent, now)
        twist_to_send = self._gate.output(twist, now, obstacle=obstacle)
        if twist_to_send is not None:
            self._send(twist_to_send)

    def _twist_for(self, intent: Intent, now: float) -> tuple[Twist2D, str]:
        """Return the twist of what drives, after the collision monitor, and what is in the way."""
        odometry = self._odometry.value
        if intent.kind is not MotionKind.PATH or odometry is None:
            limited = self._limit(intent.twist, now)
            return limited.twist, describe(limited) if limited.blocked else ""
        # The gate has seen to it that odometry and lidar are new.
        step = self._driving.step(odometry.pose, speed=self._gate.applied.vx, dt=self._period)
        self._distance_remaining, self._deviation = step.distance_remaining, step.deviation
        if step.arrived:
            self._gate.path_arrived(now, "The robot is at the goal.")
        return step.twist, step.obstacle

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
        self._gate.sent(twist, self._clock())

    def _send_zero(self) -> None:
        """Send zero at once. What the driver does not take is logged: the caller has more to do."""
        try:
            self._send(Twist2D())
        except Exception:
            logger.exception("the driver does not take a zero twist")

    def _send_zero_if_ended(self, was_moving: bool) -> None:
        """Send zero now instead of at the next tick, if what moved the robot has just ended."""
        if was_moving and self._gate.kind is MotionKind.NONE:
            self._send_zero()

    async def _send_zeros(self) -> None:
        """Send zero again and again without the loops' help."""
        for _ in range(self._config.gate.zero_repeats):
            self._send_zero()
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
        epoch, newest = self._gate.epoch, self._gate.newest_goal_id
        if goal_id != state.goal_id:
            return FollowReport(
                0,
                FollowState.NONE,
                pose=pose,
                epoch=epoch,
                newest_goal_id=newest,
                stops=self._gate.stops,
            )
        return FollowReport(
            goal_id=goal_id,
            state=state.state,
            reason=state.reason,
            message=state.message,
            pose=pose,
            distance_remaining=self._distance_remaining,
            deviation=self._deviation,
            epoch=epoch,
            newest_goal_id=newest,
            stops=self._gate.stops,
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
                logger.info("the motors damp")
                self._faults.pop("damp", None)
            else:
                logger.error("the robot refused to damp its motors: %s", result.message)
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
                logger.info("the e-stop's file says: %s", f"latched by {by!r}" if by else "clear")
                self._faults.pop("latch", None)

    # small things

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    async def _pause(self, duration: float) -> None:
        """Sleep, but not beyond `close`."""
        try:
            async with asyncio.timeout(duration):
                await self._stopping.wait()
        except TimeoutError:
            return


def _build_driver(config: RhinoConfig) -> Platform:
    if config.driver == "fake":
        return FakePlatform(config.fake, config.robot)
    if config.driver == "go2":
        from rhino_actors.drivers.go2.platform import Go2Platform  # needs the `go2` extra

        return Go2Platform(config.go2, config.robot, config.paths)
    from rhino_actors.drivers.mujoco.platform import MujocoPlatform  # needs the `sim` extra

    return MujocoPlatform(config.mujoco, config.robot)


def _age(value: Odometry | LidarFrame | CameraFrame | None, now: float) -> float | None:
    return None if value is None else max(0.0, now - value.stamp)


def _is_finite(odometry: Odometry) -> bool:
    numbers = (*odometry.position, *odometry.orientation, odometry.stamp)
    return all(map(math.isfinite, numbers)) and odometry.twist.is_finite
