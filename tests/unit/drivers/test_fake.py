"""The fake robot on a clock of the test's own."""

import dataclasses
import math

import numpy as np
import pytest

from rhino_actors.config import FakeConfig, RobotConfig
from rhino_actors.drivers.fake import MAPS, FakePlatform
from rhino_actors.errors import ConfigError, UnknownCommand
from rhino_actors.messages.geometry import Odometry, Twist2D
from rhino_actors.messages.platform import Posture
from rhino_actors.messages.sensors import LidarFrame

ROBOT = RobotConfig()


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


async def make(clock: Clock, **config: object) -> FakePlatform:
    fake = FakePlatform(dataclasses.replace(FakeConfig(), **config), ROBOT, clock)  # type: ignore[arg-type]
    await fake.connect()
    return fake


def drive(fake: FakePlatform, clock: Clock, twist: Twist2D, seconds: float) -> None:
    for _ in range(round(seconds / 0.05)):
        fake.send_twist(twist)
        clock.now += 0.05


def newest(fake: FakePlatform) -> Odometry:
    odometry = fake.odometry()
    assert odometry is not None
    return odometry


def scan(fake: FakePlatform) -> LidarFrame:
    frame = fake.lidar(0)
    assert frame is not None
    return frame


async def test_it_moves_as_told_in_the_body_frame() -> None:
    clock = Clock()
    fake = await make(clock, start_yaw=math.pi / 2)
    drive(fake, clock, Twist2D(0.4, 0.1, 0.0), 2.0)
    pose = newest(fake).pose
    assert (pose.x, pose.y) == pytest.approx((-0.2, 0.8), abs=0.02)
    drive(fake, clock, Twist2D(0.0, 0.0, 0.5), 1.0)
    assert newest(fake).pose.yaw == pytest.approx(math.pi / 2 + 0.5, abs=0.02)


async def test_without_a_fresh_twist_it_stops_by_itself() -> None:
    clock = Clock()
    fake = await make(clock, hold_timeout_s=0.5)
    fake.send_twist(Twist2D(0.4))
    clock.now += 5.0
    assert newest(fake).pose.x == pytest.approx(0.2, abs=0.02)
    assert newest(fake).twist.is_zero


@pytest.mark.parametrize("name", sorted(MAPS))
async def test_walls_stop_it_and_it_can_back_out(name: str) -> None:
    clock = Clock()
    fake = await make(clock, map=name)
    drive(fake, clock, Twist2D(0.9, 0.0, 0.0), 20.0)
    boxes = MAPS[name].boxes
    x, y = fake.pose.x, fake.pose.y
    dx = np.maximum(np.maximum(boxes[:, 0] - x, x - boxes[:, 2]), 0.0)
    dy = np.maximum(np.maximum(boxes[:, 1] - y, y - boxes[:, 3]), 0.0)
    assert 0.2 < np.hypot(dx, dy).min() < 0.4
    drive(fake, clock, Twist2D(-0.5), 1.0)
    assert fake.pose.x == pytest.approx(x - 0.5, abs=0.05)


async def test_odometry_comes_50_times_a_second_and_its_seq_never_repeats() -> None:
    clock = Clock()
    fake = await make(clock)
    first = newest(fake)
    seen = {first.seq}
    for _ in range(200):
        clock.now += 0.01
        seen.add(newest(fake).seq)
    assert len(seen) == pytest.approx(101, abs=1)
    assert 0.0 <= clock.now - newest(fake).stamp <= 0.021


async def test_each_beam_ends_on_a_wall_or_beyond_the_range() -> None:
    clock = Clock()
    fake = await make(clock, lidar_range=3.5)
    frame = scan(fake)
    assert frame.points.shape == (FakeConfig().lidar_beams, 3)
    assert not frame.points.flags.writeable
    distance = np.hypot(frame.points[:, 0], frame.points[:, 1])
    hit = frame.points[distance <= 3.5].astype(float)
    boxes = MAPS["room"].boxes
    dx = np.maximum(np.maximum(boxes[:, 0] - hit[:, :1], hit[:, :1] - boxes[:, 2]), 0.0)
    dy = np.maximum(np.maximum(boxes[:, 1] - hit[:, 1:2], hit[:, 1:2] - boxes[:, 3]), 0.0)
    assert np.hypot(dx, dy).min(axis=1).max() < 1e-5
    assert 0 < len(hit) < len(distance)
    assert distance[distance > 3.5] == pytest.approx(7.0)


async def test_frames_come_at_their_rate_and_only_new_ones() -> None:
    clock = Clock()
    fake = await make(clock, lidar_rate_hz=10.0)
    first = scan(fake)
    assert fake.lidar(first.seq) is None
    clock.now += 0.101
    second = fake.lidar(first.seq)
    assert second is not None and second.seq == first.seq + 1
    assert second.stamp == clock.now


async def test_the_camera_gives_jpegs_or_says_why_not() -> None:
    clock = Clock()
    fake = await make(clock)
    picture = fake.camera(0)
    assert picture is not None and picture.jpeg.startswith(b"\xff\xd8")
    assert fake.camera(picture.seq) is None
    off = await make(clock, camera_rate_hz=0.0)
    assert off.camera(0) is None
    assert off.state().camera.startswith("off: ")


async def test_postures_take_time_and_only_a_standing_robot_walks() -> None:
    clock = Clock()
    fake = await make(clock)
    assert (await fake.sport("StandDown")).accepted
    assert fake.state().posture is Posture.CHANGING
    clock.now += 1.0
    assert fake.state().posture is Posture.LYING
    assert not (await fake.sport("Hello")).accepted
    drive(fake, clock, Twist2D(0.5), 1.0)
    assert fake.pose.x == 0.0
    assert (await fake.sport("StandUp")).accepted
    clock.now += 1.0
    drive(fake, clock, Twist2D(0.5), 1.0)
    assert fake.pose.x == pytest.approx(0.5, abs=0.03)


async def test_damp_ends_all_motion_at_once() -> None:
    clock = Clock()
    fake = await make(clock)
    fake.send_twist(Twist2D(0.5))
    await fake.sport("Damp")
    clock.now += 1.0
    assert fake.state().posture is Posture.DAMPED
    assert fake.pose.x == 0.0


async def test_a_tilted_robot_lies_there_until_it_recovers() -> None:
    clock = Clock()
    fake = await make(clock)
    fake.tilt(math.radians(60))
    clock.now += 0.1
    assert newest(fake).tilt == pytest.approx(math.radians(60))
    drive(fake, clock, Twist2D(0.5), 1.0)
    assert fake.pose.x == 0.0
    assert not (await fake.sport("StandUp")).accepted
    assert (await fake.sport("RecoveryStand")).accepted
    clock.now += 0.1
    assert newest(fake).tilt == pytest.approx(0.0, abs=1e-6)


async def test_a_jump_moves_odometry_and_scans_alike() -> None:
    clock = Clock()
    fake = await make(clock)
    before = scan(fake).points
    fake.jump(1.5, 0.0, 0.5)
    clock.now += 0.2
    assert newest(fake).pose.x == pytest.approx(1.5)
    assert newest(fake).pose.yaw == pytest.approx(0.5)
    frame = scan(fake)
    assert frame.origin[0] == pytest.approx(1.5)
    middle = np.array(frame.origin[:2])
    assert np.hypot(*(frame.points[:, :2] - middle).T) == pytest.approx(
        np.hypot(*before[:, :2].T), abs=1e-3
    )
    angle = np.arctan2(frame.points[5, 1] - middle[1], frame.points[5, 0] - middle[0])
    assert angle == pytest.approx(math.atan2(before[5, 1], before[5, 0]) + 0.5, abs=1e-4)


async def test_frozen_sensors_and_a_lost_link_give_nothing_new() -> None:
    clock = Clock()
    fake = await make(clock)
    seq, frame = newest(fake).seq, scan(fake).seq
    fake.freeze_odometry()
    fake.freeze_lidar()
    clock.now += 1.0
    assert newest(fake).seq == seq
    assert fake.lidar(frame) is None
    fake.freeze_odometry(False)
    fake.freeze_lidar(False)
    assert newest(fake).seq > seq
    fake.disconnect()
    fake.send_twist(Twist2D(0.5))
    assert not fake.wire
    assert not fake.state().connected
    await fake.connect()
    assert fake.state().connected


async def test_the_wire_keeps_every_twist_with_its_time() -> None:
    clock = Clock()
    fake = await make(clock)
    fake.send_twist(Twist2D(0.5))
    clock.now += 0.05
    await fake.close()
    await fake.close()
    assert list(fake.wire) == [(1000.0, Twist2D(0.5)), (1000.05, Twist2D())]


async def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownCommand):
        await (await make(Clock())).sport("Fly")
    with pytest.raises(ConfigError):
        await make(Clock(), map="moon")
    fake = await make(Clock())
    fake.refuse_sport()
    assert not (await fake.sport("Hello")).accepted
