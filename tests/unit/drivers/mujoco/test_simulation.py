import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, Walk, World
from rhino_actors.geometry import tilt_from_quaternion, yaw_from_quaternion
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.grid import OCCUPIED
from rhino_actors.messages.platform import Posture

pytest.importorskip("mujoco")

from rhino_actors.drivers.mujoco.lidar import MISS_FACTOR, beam_directions
from rhino_actors.drivers.mujoco.simulation import Simulation
from tests.simulations import plain_simulation

STILL = Twist2D()
CONFIG = plain_simulation(lidar_azimuths=180)
ROBOT = RobotConfig()


def simulation(*boxes: Box, config: MujocoConfig = CONFIG) -> Simulation:
    """Return the robot on an open floor of 40 x 40 m with these boxes."""
    floor = Material("floor", "", (0.5, 0.5, 0.5))
    world = World("open", 0, boxes, (floor,), (), (-20.0, -20.0, 20.0, 20.0))
    return Simulation(world, config, ROBOT)


def apartment(config: MujocoConfig = CONFIG) -> Simulation:
    return Simulation(make_world("apartment", config.seed), config, ROBOT)


def drive(sim: Simulation, twist: Twist2D, seconds: float) -> Simulation:
    for _ in range(round(seconds / 0.02)):
        sim.advance(twist, 10)
    return sim


def test_it_starts_at_the_origin_of_odom_on_its_feet() -> None:
    sim = apartment()
    assert sim.pose.as_tuple() == (0.0, 0.0, 0.0)
    assert 0.28 < sim.position[2] < 0.36
    assert sim.orientation == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    "twist", [Twist2D(vx=0.6), Twist2D(vy=-0.3), Twist2D(omega=1.0), Twist2D(0.4, 0.1, -0.5)]
)
def test_the_body_moves_as_it_is_asked_to(twist: Twist2D) -> None:
    sim = drive(simulation(), twist, 2.0)
    assert sim.twist.vx == pytest.approx(twist.vx, abs=0.02)
    assert sim.twist.vy == pytest.approx(twist.vy, abs=0.02)
    assert sim.twist.omega == pytest.approx(twist.omega, abs=0.02)
    assert yaw_from_quaternion(*sim.orientation) == pytest.approx(sim.pose.yaw, abs=1e-9)


def test_it_stops_within_a_quarter_of_a_metre_from_walking_speed() -> None:
    sim = drive(simulation(), Twist2D(vx=1.0), 2.0)
    x = sim.pose.x
    drive(sim, STILL, 2.0)
    assert sim.pose.x - x < 0.25
    assert abs(sim.twist.vx) < 1e-3


@pytest.mark.parametrize("yaw", [0.0, 0.4, 1.2])
@pytest.mark.parametrize("speed", [0.5, 2.5])
def test_a_wall_stops_it(speed: float, yaw: float) -> None:
    wall = Box("wall", (2.0, 0.0, 0.6), (0.12, 30.0, 1.2))
    sim = drive(simulation(wall), Twist2D(omega=yaw), 1.0)
    drive(sim, STILL, 1.0)
    drive(sim, Twist2D(vx=speed), 12.0)
    assert sim.pose.x < 1.94 - ROBOT.width / 2 + 0.03


@pytest.mark.slow
def test_wild_driving_never_enters_furniture() -> None:
    sim = apartment()
    truth = make_world("apartment", CONFIG.seed).truth_grid(max_height=0.45)
    rows, cols = np.nonzero(truth.occupancy == OCCUPIED)
    obstacles = truth.geometry.world_from_cells(np.stack([rows, cols], axis=1))
    rng = np.random.default_rng(3)
    travelled, last = 0.0, sim.pose
    for _ in range(120):
        drive(sim, Twist2D(*rng.uniform((-1.0, -0.8, -1.5), (1.5, 0.8, 1.5))), 0.5)
        gap = np.hypot(*(obstacles - (sim.pose.x, sim.pose.y)).T).min()
        # The nearest point of the bumper lies half the body's width from its centre; a cell is half a cell wide.
        assert gap > ROBOT.width / 2 - 0.025 - 0.03
        travelled += last.distance_to(sim.pose.x, sim.pose.y)
        last = sim.pose
    assert travelled > 8.0


def test_equal_commands_give_equal_motion_to_the_last_bit() -> None:
    def state() -> tuple[NDArray[np.float64], NDArray[np.float32]]:
        sim = apartment()
        rng = np.random.default_rng(5)
        for _ in range(20):
            drive(sim, Twist2D(*rng.uniform(-1.0, 1.0, 3)), 0.4)
            points, _ = sim.scan()
        return sim.coordinates.copy(), points

    (one, scan_one), (two, scan_two) = state(), state()
    assert np.array_equal(one, two)
    assert np.array_equal(scan_one, scan_two)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_twist_that_is_not_finite_moves_nothing(value: float) -> None:
    sim = drive(simulation(), Twist2D(vx=value), 0.5)
    assert sim.pose.as_tuple() == (0.0, 0.0, 0.0)


def test_a_huge_twist_is_limited_to_what_the_body_can_do() -> None:
    sim = drive(simulation(), Twist2D(vx=50.0, omega=0.0), 2.0)
    assert sim.twist.vx == pytest.approx(2.5, abs=0.05)


@pytest.mark.parametrize("command", ["StandDown", "Sit", "Damp", "Hello"])
def test_it_takes_no_velocity_unless_it_stands(command: str) -> None:
    sim = simulation()
    sim.command(command)
    drive(sim, Twist2D(vx=0.5), 2.5)
    assert sim.pose.as_tuple() == (0.0, 0.0, 0.0)


def test_a_moving_robot_that_lies_down_stops() -> None:
    sim = drive(simulation(), Twist2D(vx=0.8), 1.0)
    x = sim.pose.x
    sim.command("StandDown")
    drive(sim, Twist2D(vx=0.8), 2.0)
    assert sim.pose.x - x < 0.2


@pytest.mark.parametrize(
    ("command", "low", "high"),
    [("StandDown", 0.05, 0.12), ("Damp", 0.05, 0.12), ("Sit", 0.15, 0.30)],
)
def test_the_trunk_sinks_with_the_posture(command: str, low: float, high: float) -> None:
    sim = simulation()
    sim.command(command)
    drive(sim, STILL, 4.0)
    assert low < sim.position[2] < high


@pytest.mark.parametrize("command", ["BalanceStand", "StandDown", "Sit", "Stretch"])
def test_all_feet_rest_on_the_floor_in_every_posture(command: str) -> None:
    sim = simulation()
    sim.command(command)
    drive(sim, STILL, 1.6)
    sim.scan()
    for leg in ("FR", "FL", "RR", "RL"):
        height = sim.data.site(f"settle_{leg}_foot").xpos[2] - 0.022
        assert -1e-3 < height < 0.035, leg


def test_a_robot_that_was_tipped_over_shows_it_until_it_recovers() -> None:
    sim = simulation()
    sim.tip_over(math.radians(60), 0.0)
    drive(sim, Twist2D(vx=0.5), 0.5)
    assert tilt_from_quaternion(*sim.orientation) == pytest.approx(math.radians(60), abs=1e-6)
    assert sim.posture is Posture.FALLEN
    assert sim.pose.x == 0.0
    sim.command("RecoveryStand")
    drive(sim, STILL, 4.0)
    assert tilt_from_quaternion(*sim.orientation) == pytest.approx(0.0, abs=1e-6)
    assert sim.posture is Posture.STANDING


def test_the_orientation_agrees_with_the_model() -> None:
    sim = simulation()
    sim.tip_over(0.9, -0.4)
    drive(sim, STILL, 0.5)
    sim.data.qpos[2] = 2.0
    sim.scan()
    w, x, y, z = sim.data.body("trunk").xquat
    assert np.abs(np.dot(sim.orientation, (x, y, z, w))) == pytest.approx(1.0, abs=1e-9)


def test_the_battery_drains_faster_on_the_move_and_never_below_zero() -> None:
    standing = drive(simulation(), STILL, 5.0)
    walking = drive(simulation(), Twist2D(vx=0.3), 5.0)
    assert walking.battery < standing.battery < 96.0
    standing.advance(STILL, 1)
    assert 25.0 < standing.voltage < 34.0


def test_lidar_points_lie_on_the_walls_of_the_truth() -> None:
    sim = apartment()
    drive(sim, Twist2D(0.3, 0.0, 0.4), 1.5)
    points, origin = sim.scan()
    truth = make_world("apartment", CONFIG.seed).truth_grid(min_height=0.0, max_height=2.4)
    ranges = np.linalg.norm(points - origin, axis=1)
    met = (points[:, 2] > 0.05) & (ranges < CONFIG.lidar_range)
    assert np.count_nonzero(met) > 1000
    rows, cols = np.nonzero(truth.occupancy == OCCUPIED)
    obstacles = truth.geometry.world_from_cells(np.stack([rows, cols], axis=1))
    for point in points[met][::20]:
        assert np.abs(obstacles - point[:2]).max(axis=1).min() < 0.025 + 0.05


def test_a_beam_that_meets_nothing_ends_beyond_the_range_in_its_direction() -> None:
    sim = simulation(
        config=plain_simulation(lidar_azimuths=32, lidar_elevations=16, lidar_range=5.0)
    )
    points, origin = sim.scan()
    rays = points - np.array(origin)
    ranges = np.linalg.norm(rays, axis=1)
    missed = ranges > 5.0
    assert np.any(missed)
    assert ranges[missed] == pytest.approx(5.0 * MISS_FACTOR, rel=1e-5)
    # On open floor it is the upper rings, and those that reach the floor too far away.
    assert np.all(rays[~missed][:, 2] < 0.0)
    assert np.count_nonzero(rays[missed][:, 2] > 0.0) == 6 * 32


def test_the_robot_does_not_see_itself() -> None:
    sim = simulation()
    for command in ("StandDown", "StandUp", "Sit"):
        sim.command(command)
        drive(sim, STILL, 2.0)
        points, _ = sim.scan()
        near = np.linalg.norm(points[:, :2], axis=1) < 0.6
        assert np.all(np.abs(points[near][:, 2]) < 0.06)


def test_range_noise_is_as_large_as_configured() -> None:
    wall = Box("wall", (3.0, 0.0, 1.0), (0.2, 30.0, 2.0))
    config = plain_simulation(lidar_azimuths=720, lidar_elevations=1, lidar_noise=0.02)
    points, origin = simulation(wall, config=config).scan()
    ahead = points[(points[:, 0] > 2.0) & (np.abs(points[:, 1]) < 0.4)]
    error = np.linalg.norm(ahead - origin, axis=1) * (1 - 2.9 / ahead[:, 0])
    assert 0.012 < error.std() < 0.028


def test_beams_are_unit_vectors_all_around() -> None:
    beams = beam_directions(90, 5)
    assert beams.shape == (450, 3)
    assert np.linalg.norm(beams, axis=1) == pytest.approx(1.0)
    assert np.abs(beams.reshape(5, 90, 3)[..., :2].sum(axis=1)).max() < 1e-9


def test_a_person_who_is_put_somewhere_stands_there_and_stays() -> None:
    floor = Material("floor", "", (0.5, 0.5, 0.5))
    walks = (Walk(((5.0, -3.0), (5.0, 3.0)), speed=1.0), Walk(((8.0, -3.0), (8.0, 3.0)), speed=1.0))
    bounds = (-20.0, -20.0, 20.0, 20.0)
    sim = Simulation(World("open", 0, (), (floor,), (), bounds, people=walks), CONFIG, ROBOT)
    for _ in range(20):
        sim.step(STILL)
    sim.put_person(1, 3.0, 0.5)
    for _ in range(100):
        sim.step(STILL)
    others, moved = sim.truth(0.0).people
    assert moved[:2] == (3.0, 0.5)
    assert others[1] > -2.0, "the others walk on"
    with pytest.raises(IndexError):
        sim.put_person(2, 0.0, 0.0)
