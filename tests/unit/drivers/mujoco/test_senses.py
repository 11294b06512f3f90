"""The simulation in lock-step: what its sensors bring, what people do, what goes wrong on demand."""

import json
import math
import struct
from dataclasses import replace

import lz4.block
import numpy as np
import pytest

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, Walk, World
from rhino_actors.errors import ConfigError
from rhino_actors.geometry import yaw_from_quaternion
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.sensors import LidarKind

pytest.importorskip("mujoco")

from rhino_actors.drivers.mujoco.l1 import POINT_RATE, SWEEP_RATE, sweep
from rhino_actors.drivers.mujoco.samples import LidarSample, OdometrySample
from rhino_actors.drivers.mujoco.simulation import Simulation
from tests.simulations import plain_simulation

STILL = Twist2D()
CONFIG = plain_simulation(lidar_azimuths=60, lidar_elevations=4)
L1 = replace(CONFIG, lidar="l1")
WALL = Box("wall", (2.0, 0.0, 0.6), (0.2, 6.0, 1.2))


def open_floor(*boxes: Box, people: tuple[Walk, ...] = ()) -> World:
    floor = Material("floor", "", (0.5, 0.5, 0.5))
    return World("open", 0, boxes, (floor,), (), (-20.0, -20.0, 20.0, 20.0), people)


class Run:
    """A simulation and everything that it brought."""

    def __init__(self, config: MujocoConfig = CONFIG, world: World | None = None) -> None:
        self.sim = Simulation(world or open_floor(WALL), config, RobotConfig())
        self.odometry: list[OdometrySample] = []
        self.lidar: list[LidarSample] = []
        self.times: list[float] = []  # at which lidar came

    def go(self, seconds: float, twist: Twist2D = STILL) -> "Run":
        for _ in range(round(seconds / self.sim.tick)):
            observation = self.sim.step(twist)
            if observation.odometry is not None:
                self.odometry.append(observation.odometry)
            if observation.lidar is not None:
                self.lidar.append(observation.lidar)
                self.times.append(self.sim.time)
        return self

    def points(self) -> np.ndarray:
        return self.lidar[-1].frame(1, 0.0).points


# the L1


def test_the_l1_publishes_the_robots_own_message_and_the_frame_is_what_is_in_it() -> None:
    run = Run(L1).go(2.0)
    sample = run.lidar[-1]
    frame = sample.frame(7, 3.0)
    assert (frame.seq, frame.stamp, frame.kind, frame.resolution) == (7, 3.0, LidarKind.VOXEL, 0.05)
    # Unpacked the plain way, without our decoder.
    (length,) = struct.unpack_from("<H", sample.message)
    data = json.loads(sample.message[4 : 4 + length])["data"]
    assert data["width"] == [128, 128, 38] and data["frame_id"] == "odom"
    raw = lz4.block.decompress(sample.message[4 + length :], uncompressed_size=data["src_size"])
    z, y, x = np.nonzero(np.unpackbits(np.frombuffer(raw, np.uint8)).reshape(38, 128, 128))
    cells = np.stack([x, y, z], axis=1) * data["resolution"] + np.array(data["origin"])
    assert np.allclose(frame.points, cells, atol=1e-5)


def test_the_l1_comes_at_its_rate_and_sees_floor_and_wall_where_they_are() -> None:
    run = Run(L1).go(4.0)
    assert len(run.lidar) == pytest.approx(4.0 * L1.lidar_rate_hz, abs=1.5)
    points = run.points()
    assert 1000 < len(points) < 8000
    floor = np.abs(points[:, 2]) < 0.08
    assert 0.5 < floor.mean() < 0.99  # it looks down
    wall = points[~floor]
    assert np.all(np.abs(wall[:, 0] - 1.9) < 0.10)
    assert np.all(np.hypot(*(points[:, :2]).T) < 3.2 * math.sqrt(2) + 0.1)


def test_the_l1_does_not_see_the_robot_itself_and_legs_cast_a_shadow() -> None:
    points = Run(L1, open_floor()).go(3.0).points()
    assert np.all(np.abs(points[:, 2]) < 0.08)


def test_the_beams_sweep_the_hemisphere_without_repeating_themselves() -> None:
    beams = sweep(0, 10_800)
    assert np.linalg.norm(beams, axis=1) == pytest.approx(1.0)
    assert beams[:, 2].min() > -1e-9 and beams[:, 2].max() > 0.999
    assert np.array_equal(np.concatenate([sweep(0, 432), sweep(432, 432)]), sweep(0, 864))
    per_sweep = round(POINT_RATE / SWEEP_RATE)
    starts = beams[::per_sweep]
    assert len(np.unique(starts.round(6), axis=0)) > 0.9 * len(starts)


def test_a_voxel_stays_for_its_life_and_then_goes() -> None:
    """A wall that the robot turned away from is still in the map for ttl seconds."""
    short = Run(replace(L1, voxel_ttl_s=0.2)).go(3.0, Twist2D(omega=0.8))
    long = Run(replace(L1, voxel_ttl_s=10.0)).go(3.0, Twist2D(omega=0.8))
    assert len(long.points()) > 1.5 * len(short.points())


def test_an_ideal_lidar_has_no_noise_and_a_scan_has_some() -> None:
    def spread(profile: str) -> float:
        points = Run(replace(CONFIG, lidar=profile)).go(0.2).points()
        ahead = points[(points[:, 0] > 1.5) & (points[:, 0] < 2.3) & (points[:, 2] > 0.1)]
        assert len(ahead) > 10
        return float(np.abs(ahead[:, 0] - 1.9).max())

    assert spread("ideal") < 1e-5
    assert spread("scan") > 1e-3


@pytest.mark.parametrize("change", [{"lidar": "l2"}, {"drift": "some"}, {"faults": "fire"}])
def test_unknown_profiles_are_refused(change: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        Run(replace(CONFIG, **change))  # type: ignore[arg-type]


# odometry and its drift


def test_without_drift_odom_is_the_world() -> None:
    run = Run().go(1.5, Twist2D(0.4, 0.1, 0.5))
    last = run.odometry[-1]
    assert last.position == run.sim.position
    assert last.orientation == run.sim.orientation
    assert last.device_stamp == pytest.approx(1.5)
    assert len(run.odometry) == 75


@pytest.mark.parametrize("profile", ["scan", "l1"])
def test_map_and_odometry_drift_together(profile: str) -> None:
    """Seen from where the odometry believes to be, the wall is where it is from where the robot is."""
    config = replace(CONFIG, lidar=profile, drift="harsh", voxel_ttl_s=0.4, seed=5)
    run = Run(config).go(20.0, Twist2D(omega=1.0)).go(0.4)
    run.sim.inject("odometry_jump", {"x": 1.0, "y": -0.5, "yaw": 0.7})
    run.go(1.0)
    sample = run.lidar[-1]
    believed, true = sample.pose, run.sim.pose
    assert believed.distance_to(true.x, true.y) > 0.5
    turn = true.yaw - believed.yaw
    dx, dy = run.points()[:, 0] - believed.x, run.points()[:, 1] - believed.y
    x = true.x + math.cos(turn) * dx - math.sin(turn) * dy
    y = true.y + math.sin(turn) * dx + math.cos(turn) * dy
    z = run.points()[:, 2]
    met = (z > 0.12) & (z < 1.1) & (np.hypot(dx, dy) < 5.0)
    assert np.count_nonzero(met) > 10
    # On the wall's near face, its far side, or its ends.
    gap = np.maximum(np.abs(x - 2.0) - 0.1, np.abs(y) - 3.0)
    assert np.abs(gap[met]).max() < 0.10
    odometry = run.odometry[-1]
    assert yaw_from_quaternion(*odometry.orientation) == pytest.approx(believed.yaw, abs=1e-3)
    assert odometry.position[:2] == pytest.approx((believed.x, believed.y), abs=1e-3)


def test_the_odometry_rests_while_the_robot_lies() -> None:
    run = Run(replace(CONFIG, drift="harsh")).go(1.0)
    run.sim.command("StandDown")
    run.go(3.0)
    before = run.odometry[-1].orientation
    run.go(5.0)
    assert run.odometry[-1].orientation == before


# faults


def test_stamps_freeze_and_jump_and_come_back() -> None:
    run = Run()
    run.sim.inject("frozen_stamp", {"after": 0.5, "duration": 1.0})
    run.go(2.0)
    stamps = np.array([sample.device_stamp for sample in run.odometry])
    assert np.count_nonzero(np.diff(stamps) == 0.0) == pytest.approx(50, abs=2)
    assert stamps[-1] == pytest.approx(2.0)
    run.sim.inject("jumping_stamp", {"size": 3.0})
    run.go(1.0)
    assert np.any(np.diff([sample.device_stamp for sample in run.odometry[-50:]]) < 0.0)


def test_lidar_is_dropped_by_its_share() -> None:
    whole = Run().go(10.0)
    half = Run(replace(CONFIG, faults="drop_lidar share=0.5")).go(10.0)
    assert 0.3 < len(half.lidar) / len(whole.lidar) < 0.7
    assert Run(replace(CONFIG, faults="drop_lidar")).go(1.0).lidar == []


def test_late_lidar_shows_what_was() -> None:
    run = Run(replace(CONFIG, faults="late_lidar delay=0.5")).go(3.0, Twist2D(vx=0.5))
    age = run.times[-1] - run.lidar[-1].device_stamp
    assert 0.5 <= age < 0.55
    assert run.lidar[-1].pose.x < run.sim.pose.x - 0.15
    run.sim.inject("clear", {})
    run.go(2.0)
    assert run.times[-1] - run.lidar[-1].device_stamp < 1e-6


def test_frozen_odometry_goes_on_saying_the_same() -> None:
    run = Run(replace(CONFIG, faults="freeze_odometry after=1 duration=1")).go(1.9, Twist2D(vx=0.4))
    xs = [sample.position[0] for sample in run.odometry]
    assert len(xs) == 95 and xs[55] == xs[94] and xs[45] < xs[49]
    run.go(0.5, Twist2D(vx=0.4))
    assert run.odometry[-1].position == run.sim.position


def test_lost_odometry_does_not_come() -> None:
    run = Run(replace(CONFIG, faults="drop_odometry after=1")).go(3.0)
    assert len(run.odometry) == pytest.approx(50, abs=1)


def test_a_jump_of_the_odometry_leaves_the_robot_where_it_is() -> None:
    run = Run().go(0.5)
    run.sim.inject("odometry_jump", {"x": 0.6, "yaw": 0.2})
    run.go(0.5)
    assert run.sim.pose == Pose2D(0.0, 0.0, 0.0)
    assert run.odometry[-1].position[0] == pytest.approx(0.6 * math.cos(0.1))


def test_late_commands_take_effect_late() -> None:
    run = Run(replace(CONFIG, faults="command_latency delay=0.4"), open_floor())
    run.go(0.36, Twist2D(vx=0.5))
    assert run.sim.pose.x == 0.0
    run.go(0.6, Twist2D(vx=0.5))
    assert run.sim.twist.vx > 0.4
    run.go(0.3)
    assert run.sim.twist.vx > 0.4


def test_refused_sport_commands_change_nothing_and_say_the_code() -> None:
    run = Run(replace(CONFIG, faults="refuse_sport code=3104 duration=1")).go(0.1)
    answer = run.sim.command("StandDown")
    assert (answer.accepted, answer.code) == (False, 3104)
    run.go(1.0)
    assert run.sim.command("StandDown").accepted


def test_the_battery_can_be_emptied() -> None:
    run = Run().go(0.1)
    run.sim.inject("battery", {"level": 7.0})
    run.go(0.1)
    assert run.sim.battery == pytest.approx(7.0, abs=0.01)


# people, contacts, truth

LOOP = Walk(((3.0, 1.5), (-2.0, 1.5), (-2.0, -1.5), (3.0, -1.5)), speed=0.9)


def test_people_walk_their_loop_and_end_where_they_began() -> None:
    run = Run(world=open_floor(people=(LOOP,)))
    length = 2 * (5.0 + 3.0)
    places = []
    for _ in range(int(length / 0.9 / 0.5)):
        run.go(0.5)
        ((x, y, _),) = run.sim.truth(0.0).people
        places.append((x, y))
        assert min(abs(abs(y) - 1.5), abs(x - 3.0), abs(x + 2.0)) < 1e-6
    assert min(x for x, _ in places) < -1.9 and min(y for _, y in places) < -1.4
    run.go(length / 0.9 - 0.5 * len(places))
    assert math.dist(run.sim.truth(0.0).people[0][:2], (3.0, 1.5)) < 0.05


def test_a_person_stops_before_the_robot_and_turns_back_when_it_stays() -> None:
    towards = Walk(((3.0, 0.0), (-3.0, 0.0)), speed=0.8)
    run = Run(world=open_floor(people=(towards,)))
    nearest = math.inf
    for _ in range(200):
        run.go(0.1)
        x, y, _ = run.sim.truth(0.0).people[0]
        nearest = min(nearest, math.hypot(x, y))
    assert 0.85 < nearest < 0.95
    truth = run.sim.truth(0.0)
    assert truth.person_contacts == 0 and truth.people[0][0] > 0.8
    xs = []
    for _ in range(40):
        run.go(0.25)
        xs.append(run.sim.truth(0.0).people[0][0])
    assert max(xs) > 2.0


def test_the_lidar_sees_people() -> None:
    standing = Walk(((1.5, 0.0), (1.5, 0.01)), speed=0.0)
    points = (
        Run(replace(CONFIG, lidar_azimuths=360), open_floor(people=(standing,))).go(0.1).points()
    )
    legs = points[(np.hypot(points[:, 0] - 1.5, points[:, 1]) < 0.3) & (points[:, 2] > 0.1)]
    assert len(legs) > 10


def test_contacts_are_counted_once_for_each_touch() -> None:
    run = Run().go(6.0, Twist2D(vx=0.5))
    assert run.sim.truth(0.0).wall_contacts == 1
    run.go(1.0, Twist2D(vx=-0.5)).go(0.5).go(3.0, Twist2D(vx=0.5))
    truth = run.sim.truth(0.0)
    assert truth.wall_contacts == 2 and truth.person_contacts == 0
    assert truth.contact_time > 1.0
    touched = Run(world=open_floor(people=(Walk(((0.8, 0.0), (0.8, 0.01)), 0.0),)))
    assert touched.go(4.0, Twist2D(vx=0.5)).sim.truth(0.0).person_contacts == 1


def test_falls_are_counted() -> None:
    run = Run().go(0.2)
    run.sim.tip_over(1.2, 0.0)
    run.go(1.0)
    assert run.sim.truth(0.0).falls == 1


# lock-step


def test_another_seed_gives_other_noise() -> None:
    def last(seed: int) -> bytes:
        return Run(replace(L1, seed=seed)).go(0.5).lidar[-1].message

    assert last(1) == last(1) != last(2)


@pytest.mark.parametrize("name", ["office", "warehouse", "maze"])
def test_every_world_can_be_stepped_with_everything_on(name: str) -> None:
    config = replace(L1, world=name, drift="default")
    run = Run(config, make_world(name, 1)).go(1.0, Twist2D(vx=0.4))
    assert run.sim.pose.x > 0.25
    assert len(run.sim.truth(0.0).people) == {"office": 3, "warehouse": 2, "maze": 4}[name]
    assert len(run.points()) > 500
