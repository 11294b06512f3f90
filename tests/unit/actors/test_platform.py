"""The platform actor as a plain class with the fake robot.

Most tests step it on a clock of their own (`Rig.step`), so they are exact; those of the loops run for real, shortly.
"""

import asyncio
import contextlib
import dataclasses
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from rhino_actors.actors.platform import PlatformActor
from rhino_actors.config import FakeConfig, GateConfig, RhinoConfig, state_dir
from rhino_actors.drivers.fake import FakePlatform
from rhino_actors.errors import (
    CommandRejected,
    ControlHeld,
    EStopLatched,
    InvalidRequest,
    NotConnected,
    NotEquipped,
    NotSimulated,
    RobotFallen,
    SupersededRequest,
    UnknownCommand,
)
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.navigation import FollowReport, FollowState, Path, Rank
from rhino_actors.messages.platform import (
    FaultReport,
    InjectedFault,
    Posture,
    SportResult,
    StopReason,
)

CONFIG = RhinoConfig(driver="fake")
GATE = GateConfig()
AHEAD = Twist2D(0.4)
ZERO = Twist2D()
POLL = 0.01


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Rig:
    """An actor with its fake robot, stepped instead of run."""

    def __init__(self, config: RhinoConfig = CONFIG) -> None:
        self.clock = Clock()
        self.fake = FakePlatform(config.fake, config.robot, self.clock)
        self.actor = PlatformActor(config, driver=self.fake, clock=self.clock)
        self.actor._loops_run = True
        self._due = self.clock.now

    async def start(self) -> "Rig":
        await self.fake.connect()
        await self.step(0.2)
        return self

    async def step(self, seconds: float) -> None:
        """Do what the loops do for this long."""
        for _ in range(round(seconds / POLL)):
            self.clock.now += POLL
            self.actor._poll_sensors(self.clock.now)
            if self.clock.now >= min(self._due, self.actor._gate.deadline) - 1e-9:
                self.actor._tick(self.clock.now)
                self._due = self.clock.now + self.actor._period
            await asyncio.sleep(0)

    async def watch(self, seconds: float, goal_id: int = 1) -> FollowReport:
        """Step as long, asking how the path goes as the planner does."""
        for _ in range(round(seconds / 0.2)):
            await self.actor.follow_report(goal_id)
            await self.step(0.2)
        return await self.actor.follow_report(goal_id)

    def wire_since(self, start: float) -> list[Twist2D]:
        return [twist for sent, twist in self.fake.wire if sent >= start - 1e-9]

    async def goto(
        self,
        *points: tuple[float, float],
        goal_id: int = 1,
        client: str = "anna",
        rank: Rank = Rank.HUMAN,
        lease: float = 10.0,
    ) -> Path:
        """Claim, and follow a path from here through these points; return it."""
        epoch = await self.actor.claim(client, rank)
        path = self.path(*points, epoch=epoch, goal_id=goal_id, client=client, lease=lease)
        await self.actor.follow(dataclasses.replace(path, rank=rank))
        return path

    def path(
        self,
        *points: tuple[float, float],
        epoch: int,
        goal_id: int = 1,
        client: str = "anna",
        lease: float = 10.0,
    ) -> Path:
        pose = self.fake.pose
        poses = np.array([(x, y, 0.0) for x, y in ((pose.x, pose.y), *points)])
        return Path(goal_id, epoch, poses, client, Rank.HUMAN, valid_for_s=lease)


@pytest.fixture
async def rig() -> Rig:
    return await Rig().start()


def assert_zeros(twists: list[Twist2D], at_least: int = 5) -> None:
    assert len(twists) >= at_least
    assert all(twist == ZERO for twist in twists)


def with_fake(**fields: Any) -> RhinoConfig:
    return dataclasses.replace(CONFIG, fake=dataclasses.replace(FakeConfig(), **fields))


# devices


class Equipped(FakePlatform):
    """A robot with a light, a speaker and an avoidance of its own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.devices: dict[str, int] = {}

    async def set_device(self, device: str, level: int) -> SportResult:
        self.devices[device] = level
        return SportResult(device, True, 0)


async def test_devices_need_no_lease_but_the_avoidance_is_the_drivers(rig: Rig) -> None:
    rig.actor._driver = driver = Equipped(CONFIG.fake, CONFIG.robot)  # type: ignore[call-arg]
    await rig.actor.claim("ann", Rank.HUMAN)
    assert (await rig.actor.set_device("light", 7, "bob")).accepted
    with pytest.raises(ControlHeld):
        await rig.actor.set_device("obstacle_avoidance", 0, "bob")
    assert (await rig.actor.set_device("obstacle_avoidance", 0, "ann")).accepted
    assert driver.devices == {"light": 7, "obstacle_avoidance": 0}
    for device, level in (("light", 11), ("volume", -1), ("horn", 1)):
        with pytest.raises(InvalidRequest):
            await rig.actor.set_device(device, level, "ann")


async def test_a_robot_without_devices_says_so(rig: Rig) -> None:
    with pytest.raises(NotEquipped):
        await rig.actor.set_device("light", 7, "ann")


# invariant 1: one way to the driver


class Spy(FakePlatform):
    """Counts what reaches the driver and from where the actor sent it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sports: list[str] = []
        self.poses: list[Mapping[str, float] | None] = []

    async def sport(
        self, command: str, parameters: Mapping[str, float] | None = None
    ) -> SportResult:
        self.sports.append(command)
        self.poses.append(parameters)
        return await super().sport(command, parameters)


async def test_nothing_moves_that_the_gate_did_not_let_through(rig: Rig) -> None:
    start = rig.clock.now
    for attempt in (
        lambda: rig.actor.velocity(Twist2D(math.nan), "anna"),
        lambda: rig.actor.follow(rig.path((1, 0), epoch=0)),
        lambda: rig.actor.nudge(AHEAD, 1.0, goal_id=1, epoch=0, client="anna", rank=Rank.HUMAN),
        lambda: rig.actor.sport("FrontFlip", "anna"),
        lambda: rig.actor.sport("Fly", "anna"),
        lambda: rig.actor.sport("Pose", "anna", Rank.HUMAN, {"roll": math.inf}),
    ):
        with pytest.raises((InvalidRequest, SupersededRequest, CommandRejected, UnknownCommand)):
            await attempt()
        await rig.step(0.2)
    assert rig.wire_since(start) == []


# invariant 2: bad and large values


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
async def test_a_velocity_that_is_not_finite_produces_no_motor_command(
    rig: Rig, bad: float
) -> None:
    start = rig.clock.now
    with pytest.raises(InvalidRequest):
        await rig.actor.velocity(Twist2D(0.3, 0.0, bad), "anna")
    await rig.step(0.3)
    assert rig.wire_since(start) == []


async def test_a_large_velocity_is_clamped_and_the_answer_says_so(rig: Rig) -> None:
    answer = await rig.actor.velocity(Twist2D(50.0), "anna")
    await rig.step(0.06)
    assert answer.clamped and answer.applied == Twist2D(GATE.max_vx)
    assert rig.fake.wire[-1][1] == answer.applied


@pytest.mark.parametrize(
    "poses", [np.zeros((0, 3)), np.full((2, 3), math.nan), np.zeros(3), np.zeros((200_000, 3))]
)
async def test_a_path_that_cannot_be_followed_is_refused(
    rig: Rig, poses: np.ndarray[Any, Any]
) -> None:
    epoch = await rig.actor.claim("anna", Rank.HUMAN)
    with pytest.raises(InvalidRequest):
        await rig.actor.follow(Path(1, epoch, poses, "anna", Rank.HUMAN))


# invariant 3: zero is sent, and sent again


async def _release(rig: Rig) -> None:
    await rig.actor.release("anna")


async def _stop(rig: Rig) -> None:
    await rig.actor.stop("somebody")


async def _cancel(rig: Rig) -> None:
    await rig.actor.cancel_path(1)


async def _estop(rig: Rig) -> None:
    await rig.actor.estop("somebody")


async def _stale_odometry(rig: Rig) -> None:
    rig.fake.freeze_odometry()
    await rig.step(GATE.odometry_max_age_s + 0.05)


async def _stale_lidar(rig: Rig) -> None:
    rig.fake.freeze_lidar()
    await rig.step(GATE.lidar_max_age_s + 0.05)


async def _lost_planner(rig: Rig) -> None:
    await rig.step(1.0)


async def _sport(rig: Rig) -> None:
    with pytest.raises(CommandRejected):
        await rig.actor.sport("FrontFlip", "anna")  # a refused one ends nothing
    rig.actor._gate.admit_sport("Hello", "anna", Rank.HUMAN, rig.clock.now, is_acrobatic=False)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (_release, "RELEASED"),
        (_stop, "STOPPED"),
        (_cancel, "CANCELLED"),
        (_estop, "ESTOP_LATCHED"),
        (_stale_odometry, "STALE_ODOMETRY"),
        (_stale_lidar, "STALE_LIDAR"),
        (_lost_planner, "LEASE_EXPIRED"),
        (_sport, "SPORT_COMMAND"),
    ],
)
async def test_zero_is_sent_again_and_again_when_motion_ends(
    rig: Rig, end: Callable[[Rig], Awaitable[None]], reason: str
) -> None:
    lease = 1.0 if end is _lost_planner else 10.0
    await rig.goto((2.0, 0.0), lease=lease)
    await rig.step(0.3 if end is not _lost_planner else 0.1)
    assert rig.fake.wire[-1][1].vx > 0.0
    await end(rig)
    start = rig.clock.now
    await rig.step(0.5)
    assert_zeros(rig.wire_since(start))
    report = rig.actor._report(1)
    assert report.reason == reason
    assert isinstance(report.reason, StopReason)
    place = rig.fake.pose
    await rig.step(0.5)
    assert rig.fake.pose == place


async def test_a_client_that_vanishes_while_driving_leaves_zeros_within_0_3_s(rig: Rig) -> None:
    for _ in range(10):
        await rig.actor.velocity(AHEAD, "anna")
        last = rig.clock.now
        await rig.step(0.05)
    await rig.step(2.0)
    zeros = [sent for sent, twist in rig.fake.wire if twist == ZERO]
    assert zeros[0] - last <= GATE.dead_man_s + POLL
    assert len(zeros) == GATE.zero_repeats
    assert rig.fake.wire[-1][1] == ZERO


async def test_when_the_way_is_over_the_wire_is_silent(rig: Rig) -> None:
    await rig.goto((0.5, 0.0))
    await rig.step(6.0)
    assert (await rig.actor.follow_report(1)).state is FollowState.ARRIVED
    start = rig.clock.now
    await rig.step(1.0)
    assert rig.wire_since(start) == []


# invariant 4: leases and stale sensors


async def test_asking_for_the_report_renews_the_lease(rig: Rig) -> None:
    path = await rig.goto((3.0, 0.0), lease=0.5)
    for _ in range(10):
        await rig.step(0.2)
        assert (await rig.actor.follow_report(1)).state is FollowState.FOLLOWING
    await rig.step(0.6)
    report = await rig.actor.follow_report(1)
    assert (report.state, report.reason) == (FollowState.ENDED, "LEASE_EXPIRED")
    report = await rig.actor.follow(path)
    assert report.state is FollowState.FOLLOWING
    await rig.step(0.2)
    assert rig.fake.wire[-1][1].vx > 0.0


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (FakePlatform.freeze_odometry, "STALE_ODOMETRY"),
        (FakePlatform.freeze_lidar, "STALE_LIDAR"),
    ],
)
async def test_a_stale_sensor_holds_the_path_and_its_return_lets_it_go_on(
    rig: Rig, fault: Callable[..., None], reason: str
) -> None:
    await rig.goto((3.0, 0.0))
    await rig.step(0.5)
    fault(rig.fake)
    await rig.step(1.2)
    report = await rig.actor.follow_report(1)
    assert (report.state, report.reason) == (FollowState.WAITING, reason)
    assert (await rig.actor.status()).gate.reason == reason
    fault(rig.fake, False)
    await rig.step(0.3)
    assert (await rig.actor.follow_report(1)).state is FollowState.FOLLOWING
    assert rig.fake.wire[-1][1].vx > 0.0


async def test_stale_odometry_does_not_stop_a_person_who_drives(rig: Rig) -> None:
    rig.fake.freeze_odometry()
    rig.fake.freeze_lidar()
    await rig.step(2.0)
    await rig.actor.velocity(AHEAD, "anna")
    await rig.step(0.1)
    assert rig.fake.wire[-1][1] == AHEAD


async def test_an_odometry_jump_stops_the_path_and_marks_the_frames(rig: Rig) -> None:
    await rig.goto((3.0, 0.0))
    await rig.step(0.5)
    rig.fake.jump(1.5, 0.0)
    start = rig.clock.now
    await rig.step(0.3)
    report = await rig.actor.follow_report(1)
    assert (report.state, report.reason) == (FollowState.WAITING, "ODOM_JUMP")
    assert_zeros(rig.wire_since(start + 0.1), 4)
    frame = await rig.actor.lidar()
    assert frame is not None and not frame.pose_is_trusted
    await rig.step(0.6)
    frame = await rig.actor.lidar()
    assert frame is not None and frame.pose_is_trusted
    assert (await rig.actor.follow_report(1)).state is FollowState.FOLLOWING


async def test_odometry_that_is_not_finite_is_not_taken(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = rig.fake.odometry()
    assert good is not None
    bad = dataclasses.replace(good, seq=good.seq + 1, position=(math.nan, 0.0, 0.0))
    monkeypatch.setattr(rig.fake, "odometry", lambda: bad)
    await rig.step(0.1)
    assert await rig.actor.odometry() == good
    assert any("finite" in fault for fault in (await rig.actor.status()).faults)


# invariant 5: the e-stop


async def test_the_estop_sends_zero_in_the_same_call_and_damps(rig: Rig) -> None:
    await rig.goto((3.0, 0.0))
    await rig.step(0.5)
    before = len(rig.fake.wire)
    status = await rig.actor.estop("bert")
    assert rig.fake.wire[before][1] == ZERO
    assert status.latched and status.latched_by == "bert"
    await rig.step(0.1)
    assert rig.fake.state().posture is Posture.DAMPED


async def test_the_estop_survives_a_restart_and_clearing_it_resumes_nothing(rig: Rig) -> None:
    path = await rig.goto((3.0, 0.0))
    await rig.actor.estop("bert")
    again = Rig()
    again.clock.now = rig.clock.now
    await again.start()
    status = (await again.actor.status()).gate
    assert status.latched and status.latched_by == "bert"
    assert status.latched_since == pytest.approx(time.time(), abs=60.0)
    for attempt in (
        lambda: again.actor.claim("anna", Rank.HUMAN),
        lambda: again.actor.velocity(AHEAD, "anna"),
        lambda: again.actor.follow(path),
        lambda: again.actor.sport("StandUp", "anna"),
    ):
        with pytest.raises(EStopLatched):
            await attempt()
    await again.actor.clear_estop("anna")
    await again.step(0.5)
    assert list(again.fake.wire) == []
    with pytest.raises(SupersededRequest):
        await again.actor.follow(path)
    assert not (await Rig().actor.status()).gate.latched


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", b'{"latched": "no"}', b"null"])
async def test_a_latch_file_that_cannot_be_read_counts_as_latched(content: bytes) -> None:
    file = state_dir() / "go2" / "estop.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    rig = await Rig().start()
    assert (await rig.actor.status()).gate.latched
    await rig.actor.clear_estop("anna")
    assert json.loads(file.read_text())["latched"] is False


async def test_a_latch_that_cannot_be_written_still_stops_and_says_so(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", fail)
    status = await rig.actor.estop("bert")
    assert status.latched
    assert any("disk is full" in fault for fault in (await rig.actor.status()).faults)


async def test_a_robot_that_refuses_to_damp_is_a_fault_and_stays_stopped(rig: Rig) -> None:
    rig.fake.refuse_sport()
    await rig.actor.estop("bert")
    await rig.step(0.1)
    status = await rig.actor.status()
    assert status.gate.latched
    assert any("refused to damp" in fault for fault in status.faults)


async def test_stop_during_a_path_makes_later_paths_of_that_decision_void(rig: Rig) -> None:
    path = await rig.goto((3.0, 0.0))
    await rig.step(0.3)
    await rig.actor.stop("bert")
    for goal_id in (1, 2):
        with pytest.raises(SupersededRequest):
            await rig.actor.follow(dataclasses.replace(path, goal_id=goal_id))
    start = rig.clock.now
    await rig.step(0.5)
    assert_zeros(rig.wire_since(start))


@pytest.mark.parametrize("who", ["anna", "bert"])
async def test_a_stop_holds_against_a_stick_that_is_held_on(rig: Rig, who: str) -> None:
    start = rig.clock.now
    for k in range(80):
        if k == 20:
            stopped = rig.clock.now
            await rig.actor.stop(who)
        with contextlib.suppress(SupersededRequest):
            await rig.actor.velocity(AHEAD, "anna")
        await rig.step(0.05)
    assert AHEAD in rig.wire_since(start)
    assert_zeros(rig.wire_since(stopped))
    await rig.step(0.3)
    await rig.actor.velocity(AHEAD, "anna")
    await rig.step(0.06)
    assert rig.fake.wire[-1][1] == AHEAD


async def test_a_driver_that_takes_no_zero_does_not_keep_the_estop_from_its_other_steps(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await rig.goto((3.0, 0.0))

    def fail(_: Twist2D) -> None:
        raise RuntimeError("the pipe is torn")

    caplog.set_level("INFO")
    with monkeypatch.context() as patch:
        patch.setattr(rig.fake, "send_twist", fail)
        assert (await rig.actor.estop("bert")).latched
        await asyncio.sleep(0)
    assert json.loads((state_dir() / "go2" / "estop.json").read_text())["by"] == "bert"
    await rig.step(0.1)
    assert rig.fake.state().posture is Posture.DAMPED
    for line in ("emergency stop by 'bert'", "the pipe is torn", "latched by", "damp"):
        assert line in caplog.text


async def test_an_estop_whose_caller_is_gone_is_kept_on_disk(rig: Rig) -> None:
    async with rig.actor._latch_lock:  # an earlier write is still on its way
        call = asyncio.create_task(rig.actor.estop("bert"))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    await rig.actor.close()
    assert json.loads((state_dir() / "go2" / "estop.json").read_text())["latched"] is True


# invariant 6: one holder


async def test_the_second_driver_learns_who_drives_and_the_robot_does_not_shudder(
    rig: Rig,
) -> None:
    for _ in range(10):
        await rig.actor.velocity(Twist2D(0.3), "anna")
        with pytest.raises(ControlHeld) as refused:
            await rig.actor.velocity(Twist2D(-0.3), "bert")
        assert refused.value.holder == "anna"
        await rig.step(0.05)
    assert {twist.vx for _, twist in rig.fake.wire} == {0.3}
    await rig.actor.claim("bert", Rank.HUMAN, take=True)
    assert (await rig.actor.status()).gate.holder == "bert"


async def test_a_persons_velocity_takes_over_from_a_mission(rig: Rig) -> None:
    path = await rig.goto((3.0, 0.0), client="explorer", rank=Rank.MISSION)
    await rig.step(0.3)
    await rig.actor.velocity(Twist2D(-0.2), "anna")
    await rig.step(0.06)
    assert rig.fake.wire[-1][1] == Twist2D(-0.2)
    report = await rig.actor.follow_report(1)
    assert (report.state, report.reason) == (FollowState.ENDED, "PREEMPTED")
    assert report.epoch > path.epoch
    with pytest.raises(SupersededRequest):
        await rig.actor.follow(path)


async def test_the_next_goal_of_a_client_survives_everything_that_comes_late_of_the_first(
    rig: Rig,
) -> None:
    first = await rig.goto((0.0, 1.5), goal_id=1)
    await rig.step(0.2)
    epoch = await rig.actor.claim("anna", Rank.HUMAN)
    assert (await rig.watch(0.6, goal_id=1)).state is FollowState.FOLLOWING, "until then it drives"
    await rig.actor.follow(rig.path((1.5, 0.0), epoch=epoch, goal_id=2))
    with pytest.raises(SupersededRequest):
        await rig.actor.follow(first)
    with pytest.raises(SupersededRequest):
        await rig.actor.nudge(
            AHEAD, 1.0, goal_id=1, epoch=first.epoch, client="anna", rank=Rank.HUMAN
        )
    await rig.actor.cancel_path(1)
    await rig.actor.release("anna", first.epoch)
    assert (await rig.watch(8.0, goal_id=2)).state is FollowState.ARRIVED
    assert rig.fake.pose.distance_to(1.5, 0.0) <= CONFIG.follower.goal_tolerance + 0.01


async def test_after_cancel_and_a_new_goal_only_the_new_one_is_followed(rig: Rig) -> None:
    epoch = await rig.actor.claim("anna", Rank.HUMAN)
    for round_ in range(100):
        old, new = 2 * round_ + 1, 2 * round_ + 2
        path = rig.path((2.0, 1.0), epoch=epoch, goal_id=old)
        await rig.actor.follow(path)
        await rig.actor.cancel_path(old)
        await rig.actor.follow(rig.path((0.0, -2.0), epoch=epoch, goal_id=new))
        # What the planner had on its way for the old goal arrives late.
        with pytest.raises(SupersededRequest):
            await rig.actor.follow(path)
        await rig.actor.cancel_path(old)
        report = await rig.actor.follow_report(new)
        assert (report.goal_id, report.state) == (new, FollowState.FOLLOWING)
        report = await rig.actor.follow_report(old)
        assert (report.goal_id, report.state) == (0, FollowState.NONE)
        assert report.newest_goal_id == new
    assert (await rig.watch(12.0, goal_id=200)).state is FollowState.ARRIVED
    assert rig.fake.pose.distance_to(0.0, -2.0) <= CONFIG.follower.goal_tolerance + 0.01


# invariant 7: falls


async def test_a_fall_ends_everything_and_getting_up_resumes_nothing(rig: Rig) -> None:
    path = await rig.goto((3.0, 0.0))
    await rig.step(0.5)
    rig.fake.tilt(math.radians(60))
    await rig.step(0.3)
    start = rig.clock.now
    await rig.step(0.3)
    assert_zeros(rig.wire_since(start))
    status = await rig.actor.status()
    assert status.driver_state.posture is Posture.FALLEN
    assert (await rig.actor.follow_report(1)).reason == "FALLEN"
    frame = await rig.actor.lidar()
    assert frame is not None and not frame.pose_is_trusted, "a map is not made lying down"
    with pytest.raises(RobotFallen):
        await rig.actor.claim("anna", Rank.HUMAN)
    with pytest.raises(RobotFallen):
        await rig.actor.sport("Hello", "anna")
    await rig.step(1.0)
    assert (await rig.actor.sport("RecoveryStand", "anna")).accepted
    start = rig.clock.now
    await rig.step(2.0)
    assert rig.wire_since(start) == []
    frame = await rig.actor.lidar()
    assert frame is not None and frame.pose_is_trusted
    with pytest.raises(SupersededRequest):
        await rig.actor.follow(path)
    await rig.goto((0.5, 0.0), goal_id=2)
    await rig.step(0.2)
    assert rig.fake.wire[-1][1] != ZERO


# the collision monitor in the loop


async def test_a_path_into_a_wall_waits_before_it_and_an_agent_or_person_stops_too(
    rig: Rig,
) -> None:
    await rig.goto((6.0, 0.0))  # the wall is at x = 4
    report = await rig.watch(15.0)
    assert (report.state, report.reason) == (FollowState.WAITING, "OBSTACLE")
    nose = rig.fake.pose.x + CONFIG.robot.length / 2
    assert 3.75 < nose <= 4.0 - CONFIG.collision.stop_margin + 0.02
    place = rig.fake.pose
    for _ in range(10):
        await rig.actor.velocity(AHEAD, "anna")
        await rig.step(0.05)
    assert rig.fake.pose == place
    for _ in range(10):
        await rig.actor.velocity(Twist2D(-0.3), "anna")
        await rig.step(0.05)
    assert rig.fake.pose.x < place.x - 0.1, "backing out is free"


async def test_a_goal_right_before_a_wall_is_reached_as_near_as_the_body_allows(rig: Rig) -> None:
    await rig.goto((4.0 - CONFIG.robot.inscribed_radius + 0.02, 0.0))
    assert (await rig.watch(12.0)).state is FollowState.ARRIVED


async def test_a_nudge_backs_out_and_the_path_goes_on(rig: Rig) -> None:
    path = await rig.goto((6.0, 0.0))
    await rig.watch(12.0)
    place = rig.fake.pose
    await rig.actor.nudge(
        Twist2D(-0.2), 1.0, goal_id=1, epoch=path.epoch, client="anna", rank=Rank.HUMAN
    )
    await rig.step(1.2)
    assert rig.fake.pose.x == pytest.approx(place.x - 0.2, abs=0.04)
    report = await rig.actor.follow_report(1)
    assert (report.state, report.reason) == (FollowState.ENDED, "IDLE")
    assert (await rig.actor.follow(path)).state is FollowState.FOLLOWING


async def test_a_nudge_into_a_wall_stops_before_it() -> None:
    rig = await Rig(with_fake(start_x=3.4)).start()
    epoch = await rig.actor.claim("anna", Rank.HUMAN)
    await rig.actor.nudge(Twist2D(0.3), 3.0, goal_id=1, epoch=epoch, client="anna", rank=Rank.HUMAN)
    await rig.step(3.2)
    assert rig.fake.pose.x < 3.4 + 0.16


async def test_a_person_is_held_before_a_wall_only_by_what_the_lidar_sees_now() -> None:
    rig = await Rig(with_fake(start_x=3.52)).start()
    await rig.actor.velocity(AHEAD, "anna")
    await rig.step(0.06)
    assert rig.fake.wire[-1][1] == ZERO
    assert (await rig.actor.status()).gate.reason == "OBSTACLE"
    rig.fake.freeze_lidar()
    await rig.step(2.0)
    await rig.actor.velocity(AHEAD, "anna")
    await rig.step(0.06)
    assert rig.fake.wire[-1][1] == AHEAD, "an old frame says nothing; a person sees the robot"


async def test_the_wall_is_known_while_odometry_jumps() -> None:
    rig = await Rig(with_fake(start_x=3.52)).start()
    rig.fake.freeze_lidar()
    rig.fake.jump(-2.0, 0.0)
    await rig.step(0.1)
    await rig.actor.velocity(AHEAD, "anna")
    await rig.step(0.06)
    assert rig.fake.wire[-1][1] == ZERO


async def test_a_person_is_held_before_a_wall_without_odometry_too() -> None:
    rig = await Rig(with_fake(start_x=2.5)).start()
    rig.fake.freeze_odometry()
    for _ in range(200):
        await rig.actor.velocity(AHEAD, "anna")
        await rig.step(0.05)
    assert 3.7 < rig.fake.pose.x + CONFIG.robot.length / 2 < 3.95


# following


async def test_the_robot_drives_a_path_and_arrives() -> None:
    rig = await Rig(with_fake(map="two_rooms")).start()
    await rig.goto((2.0, 0.0), (4.5, 0.0), (5.0, -1.5))
    assert (await rig.watch(20.0)).state is FollowState.ARRIVED
    assert rig.fake.pose.distance_to(5.0, -1.5) <= CONFIG.follower.goal_tolerance + 0.01


async def test_the_status_tells_how_late_odometry_comes(rig: Rig) -> None:
    assert (await rig.actor.status()).odometry_interval_p99 is None, "too few to say"
    await rig.step(4.0)
    status = await rig.actor.status()
    assert status.odometry_interval_p99 == pytest.approx(0.02, abs=0.001)
    for _ in range(4):  # of 200
        rig.clock.now += 0.1
        await rig.step(0.02)
    late = (await rig.actor.status()).odometry_interval_p99
    assert late is not None and late > 0.09


# faults on demand


class Faulty(FakePlatform):
    """A fake robot that can be asked for faults."""

    asked: dict[str, Mapping[str, float]]

    async def faults(self) -> FaultReport:
        found = tuple(InjectedFault(name, v, 0.0, None) for name, v in self.asked.items())
        return FaultReport(found, ())

    async def inject(self, name: str, /, **values: float) -> None:
        self.asked[name] = values

    async def clear_faults(self, name: str = "") -> None:
        self.asked = {n: v for n, v in self.asked.items() if name and n != name}


async def test_faults_reach_a_simulation_whoever_drives_and_the_answer_lists_them() -> None:
    rig = Rig()
    driver = Faulty(CONFIG.fake, CONFIG.robot, rig.clock)
    driver.asked = {}
    rig.fake = rig.actor._driver = driver
    await rig.start()
    await rig.goto((3.0, 0.0))
    await rig.step(0.5)
    # A value may be called as the arguments are.
    report = await rig.actor.inject_fault("push", {"x": 20.0, "name": 1.0}, "bert")
    assert report.faults == (InjectedFault("push", {"x": 20.0, "name": 1.0}, 0.0, None),)
    await rig.actor.inject_fault("link_loss", {}, "bert")
    assert [f.name for f in (await rig.actor.clear_faults("bert", "push")).faults] == ["link_loss"]
    assert (await rig.actor.clear_faults("bert")).faults == ()
    assert (await rig.actor.faults()).faults == ()
    await rig.step(0.1)
    assert rig.actor._gate.holder(rig.clock.now) == "anna"
    assert not rig.fake.wire[-1][1].is_zero, "and nothing stops for it"


async def test_a_robot_without_faults_on_demand_says_so(rig: Rig) -> None:
    for ask in (
        lambda: rig.actor.faults(),
        lambda: rig.actor.inject_fault("push", {}, "anna"),
        lambda: rig.actor.clear_faults("anna"),
    ):
        with pytest.raises(NotSimulated, match="fake"):
            await ask()


# sport commands


async def test_a_sport_command_waits_until_the_robot_stands_still() -> None:
    rig = Rig()
    rig.fake = Spy(CONFIG.fake, CONFIG.robot, rig.clock)
    rig.actor._driver = rig.fake
    await rig.start()
    await rig.goto((3.0, 0.0))
    await rig.step(0.5)
    command = asyncio.create_task(rig.actor.sport("StandDown", "anna"))
    await rig.step(0.2)
    assert rig.fake.sports == [], "zeros come first"
    with pytest.raises(CommandRejected):
        await rig.actor.sport("Hello", "anna")
    await rig.step(0.6)
    assert (await command).accepted
    start = rig.clock.now
    await rig.step(1.0)
    assert rig.wire_since(start) == [], "no zero cuts the command short"
    assert (await rig.actor.follow_report(1)).reason is StopReason.SPORT
    assert rig.fake.state().posture is Posture.LYING
    assert (await rig.actor.velocity(AHEAD, "anna")).applied == ZERO


async def test_a_pose_reaches_the_driver_clamped_and_a_bad_one_does_not() -> None:
    rig = Rig()
    spy = rig.fake = Spy(CONFIG.fake, CONFIG.robot, rig.clock)
    rig.actor._driver = spy
    await rig.start()
    answer = await rig.actor.sport("Pose", "anna", Rank.HUMAN, {"roll": 9.0, "height": -0.05})
    applied = {"roll": GATE.pose_tilt, "height": -0.05}
    assert answer.accepted and answer.parameters == applied
    assert spy.poses == [applied]
    for command, parameters in (
        ("Pose", {"roll": math.nan}),
        ("Pose", {"lift": 0.1}),
        ("Euler", {"height": 0.01}),
        ("Hello", {"roll": 0.1}),
    ):
        with pytest.raises(InvalidRequest):
            await rig.actor.sport(command, "anna", Rank.HUMAN, parameters)
    with pytest.raises(ControlHeld):
        await rig.actor.sport("Pose", "bert", Rank.HUMAN, {"roll": 0.1})
    assert spy.sports == ["Pose"]
    assert (await rig.actor.sport("StopMove", "bert", Rank.AGENT, {"roll": 0.1})).accepted


async def test_an_estop_while_a_sport_command_waits_keeps_it_from_the_robot() -> None:
    rig = Rig()
    rig.fake = Spy(CONFIG.fake, CONFIG.robot, rig.clock)
    rig.actor._driver = rig.fake
    await rig.start()
    await rig.goto((3.0, 0.0))
    await rig.step(0.3)
    command = asyncio.create_task(rig.actor.sport("Hello", "anna"))
    await asyncio.sleep(0)
    await rig.actor.estop("bert")
    await rig.step(0.6)
    with pytest.raises(EStopLatched):
        await command
    assert rig.fake.sports == ["Damp"]


async def test_after_the_latch_is_cleared_the_robot_stands_up_when_told(rig: Rig) -> None:
    await rig.actor.estop("bert")
    await rig.step(0.6)
    await rig.actor.clear_estop("bert")
    assert (await rig.actor.sport("StandUp", "anna")).accepted
    await rig.step(1.0)
    assert rig.fake.state().posture is Posture.STANDING
    await rig.actor.velocity(AHEAD, "anna")
    await rig.step(0.06)
    assert rig.fake.wire[-1][1] == AHEAD


async def test_stop_move_is_open_to_anyone(rig: Rig) -> None:
    await rig.goto((3.0, 0.0))
    await rig.step(0.3)
    assert (await rig.actor.sport("StopMove", "a stranger", Rank.AGENT)).accepted
    start = rig.clock.now
    await rig.step(0.3)
    assert_zeros(rig.wire_since(start))
    assert (await rig.actor.follow_report(1)).reason == "STOPPED"


# sensors and status


async def test_a_lost_link_refuses_drivers_and_holds_paths(rig: Rig) -> None:
    await rig.goto((3.0, 0.0))
    await rig.step(0.3)
    rig.fake.disconnect()
    await rig.step(0.1)
    report = await rig.actor.follow_report(1)
    assert (report.state, report.reason) == (FollowState.WAITING, "NOT_CONNECTED")
    with pytest.raises(NotConnected):
        await rig.actor.velocity(AHEAD, "anna")


async def test_a_reader_with_a_number_of_an_earlier_life_gets_the_new_value(rig: Rig) -> None:
    odometry = await rig.actor.odometry(newer_than=10_000_000)
    assert odometry is not None


async def test_status_tells_ages_rates_and_who_drives(rig: Rig) -> None:
    await rig.actor.claim("anna", Rank.HUMAN)
    await rig.step(3.0)
    status = await rig.actor.status()
    assert status.robot == "go2" and status.driver == "fake" and status.simulated
    assert status.odometry_age is not None and status.odometry_age <= 0.03
    assert status.odometry_rate == pytest.approx(50.0, rel=0.1)
    assert status.lidar_rate == pytest.approx(7.7, rel=0.15)
    await rig.actor.claim("anna", Rank.HUMAN)
    gate = (await rig.actor.status()).gate
    assert (gate.holder, gate.holder_rank) == ("anna", "human")
    assert [line.event for line in await rig.actor.gate_log()] == ["claim"]


# the real loops


@asynccontextmanager
async def running(
    config: RhinoConfig = CONFIG,
) -> AsyncIterator[tuple[PlatformActor, FakePlatform]]:
    fake = FakePlatform(config.fake, config.robot)
    actor = PlatformActor(config, driver=fake)
    loops = asyncio.create_task(actor.run())
    assert await actor.odometry(0, 5.0) is not None
    assert await actor.lidar(0, 5.0) is not None
    try:
        yield actor, fake
    finally:
        await actor.close()
        await loops


async def test_the_loops_send_zeros_when_a_client_vanishes() -> None:
    async with running() as (actor, fake):
        for _ in range(6):
            await actor.velocity(AHEAD, "anna")
            last = time.monotonic()
            await asyncio.sleep(0.04)
        await asyncio.sleep(0.9)
        zeros = [sent for sent, twist in fake.wire if twist == ZERO]
        assert zeros[0] >= last + GATE.dead_man_s
        assert len(zeros) >= 5
        assert any(twist == AHEAD for _, twist in fake.wire)


async def test_the_dead_man_does_not_wait_for_the_next_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = dataclasses.replace(CONFIG, gate=dataclasses.replace(GATE, control_rate_hz=5.0))
    rig = await Rig(config).start()
    real_sleep, start = asyncio.sleep, rig.clock.now

    async def sleep(duration: float) -> None:
        rig.clock.now += duration
        if rig.clock.now > start + 1.0:
            rig.actor._stopping.set()
        await real_sleep(0)

    monkeypatch.setattr("asyncio.sleep", sleep)
    await rig.actor.velocity(AHEAD, "anna")
    await rig.actor._control_loop()
    times = {round(sent - start, 6): twist for sent, twist in rig.fake.wire}
    assert times[0.2] == AHEAD
    assert times[GATE.dead_man_s] == ZERO
    assert set(times) >= {0.0, 0.2, 0.25, 0.4, 0.6}, "and the ticks keep their times"


async def test_closing_while_driving_sends_zeros_and_ends_run() -> None:
    async with running() as (actor, fake):
        await actor.velocity(AHEAD, "anna")
        await asyncio.sleep(0.1)
        assert fake.wire[-1][1] == AHEAD
        await actor.close()
        await actor.close()
        assert_zeros([twist for _, twist in fake.wire][-5:])
        with pytest.raises(NotConnected):
            await actor.velocity(AHEAD, "anna")


@pytest.mark.parametrize("broken", ["odometry", "camera"])
async def test_a_loop_that_fails_stops_the_robot_and_leaves_run(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakePlatform(CONFIG.fake, CONFIG.robot)
    actor = PlatformActor(CONFIG, driver=fake)
    loops = asyncio.create_task(actor.run())
    await actor.lidar(0, 5.0)
    await actor.velocity(AHEAD, "anna")
    await asyncio.sleep(0.1)

    def fail(*_: int) -> None:
        raise RuntimeError("torn")

    with monkeypatch.context() as patch:
        patch.setattr(fake, broken, fail)
        with pytest.raises(RuntimeError, match="torn"):
            await loops
    assert_zeros([twist for _, twist in fake.wire][-5:])
    with pytest.raises(NotConnected):
        await actor.velocity(AHEAD, "anna")
    assert (await actor.status()).gate.reason == "LOOP_FAILED"
    # The supervisor starts it anew, and nothing of before goes on.
    loops = asyncio.create_task(actor.run())
    seen = await actor.odometry()
    assert seen is not None
    assert await actor.odometry(seen.seq, 5.0) is not None
    await asyncio.sleep(0.1)
    assert fake.wire[-1][1] == ZERO
    await actor.velocity(AHEAD, "anna")
    await actor.close()
    await loops


async def test_a_second_run_waits_for_the_first_and_takes_over_when_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakePlatform(CONFIG.fake, CONFIG.robot)
    actor = PlatformActor(CONFIG, driver=fake)
    first = asyncio.create_task(actor.run())
    await actor.lidar(0, 5.0)
    second = asyncio.create_task(actor.run())  # as after a blip: the caller lost the first

    def fail() -> None:
        raise RuntimeError("torn")

    with monkeypatch.context() as patch:
        patch.setattr(fake, "odometry", fail)
        with pytest.raises(RuntimeError, match="torn"):
            await first
    assert not second.done()
    seen = await actor.odometry()
    assert seen is not None
    assert await actor.odometry(seen.seq, 5.0) is not None
    third = asyncio.create_task(actor.run())
    await actor.velocity(AHEAD, "anna")
    await actor.close()
    await asyncio.gather(second, third)


async def test_connecting_is_tried_until_it_works(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rhino_actors.actors.platform.BACK_OFF_S", (0.01, 0.02))
    fake = FakePlatform(CONFIG.fake, CONFIG.robot)
    tries = 0

    async def connect() -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise NotConnected("No robot answers.")
        await FakePlatform.connect(fake)

    monkeypatch.setattr(fake, "connect", connect)
    actor = PlatformActor(CONFIG, driver=fake)
    loops = asyncio.create_task(actor.run())
    assert await actor.odometry(0, 5.0) is not None
    assert tries == 4
    assert caplog.text.count("No robot answers") == 3
    await actor.close()
    await loops


async def test_a_lost_link_is_connected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rhino_actors.actors.platform.LINK_CHECK_S", 0.02)
    async with running() as (actor, fake):
        fake.disconnect()
        await asyncio.sleep(0.2)
        assert fake.state().connected
        assert (await actor.status()).faults == ()


async def test_many_can_wait_for_the_next_value_and_a_wait_has_an_end() -> None:
    async with running() as (actor, fake):
        first = await actor.odometry()
        assert first is not None
        waiters = [actor.odometry(first.seq, 5.0) for _ in range(100)]
        values = await asyncio.gather(*waiters)
        assert all(value is not None and value.seq > first.seq for value in values)
        fake.freeze_odometry()
        await asyncio.sleep(0.05)
        last = await actor.odometry()
        assert last is not None
        assert await actor.odometry(last.seq, 0.05) is None
        assert await actor.odometry(last.seq, math.nan) is None
        assert await actor.odometry(last.seq, -1.0) is None


async def test_no_one_waits_longer_than_the_longest_long_poll(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rhino_actors.actors.latest.MAX_WAIT_S", 0.05)
    actor = PlatformActor(CONFIG, driver=FakePlatform(CONFIG.fake, CONFIG.robot))
    async with asyncio.timeout(5.0):
        assert await actor.camera(0, math.inf) is None


def test_the_actor_builds_the_driver_that_the_configuration_names() -> None:
    actor = PlatformActor(CONFIG)
    assert isinstance(actor._driver, FakePlatform)


# who holds it


async def test_a_lost_connection_is_zero_on_the_wire_at_once() -> None:
    rig = await Rig().start()
    await rig.actor.velocity(AHEAD, "anna")
    await rig.step(0.1)
    assert rig.fake.wire[-1][1] == AHEAD
    await rig.actor.lose("bob")
    assert rig.fake.wire[-1][1] == AHEAD, "another one's connection is nothing to the robot"
    await rig.actor.lose("anna")
    assert rig.fake.wire[-1] == (rig.clock.now, ZERO), "without waiting for a tick or the dead-man"
    gate = (await rig.actor.status()).gate
    assert gate.holder == "" and gate.applied_since == rig.clock.now
    assert gate.reason == StopReason.CLIENT_LOST


async def test_letting_go_is_zero_on_the_wire_at_once() -> None:
    rig = await Rig().start()
    await rig.actor.velocity(AHEAD, "anna")
    await rig.step(0.1)
    await rig.actor.release("anna")
    assert rig.fake.wire[-1] == (rig.clock.now, ZERO)


async def test_control_is_taken_and_kept_through_the_actor() -> None:
    rig = await Rig().start()
    await rig.actor.claim("explorer", Rank.MISSION)
    took = await rig.actor.take("anna", "explorer")
    assert took.taken_from == "explorer" and took.gate.holder == "anna"
    await rig.step(GATE.holder_timeout_s - 0.2)
    assert (await rig.actor.keep("anna")).holder == "anna"
    await rig.step(GATE.holder_timeout_s - 0.2)
    with pytest.raises(ControlHeld):
        await rig.actor.keep("bob")
    known = (await rig.actor.gate_log())[-1].stamp
    await rig.step(POLL)
    await rig.actor.stop("bob")
    assert {line.event for line in await rig.actor.gate_log(known)} == {"stop"}
