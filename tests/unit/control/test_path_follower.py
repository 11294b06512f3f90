"""The follower drives an ideal robot in these tests: what it does is judged by where the robot goes."""

import dataclasses
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.config import FollowerConfig
from rhino_actors.control.path_follower import PathFollower
from rhino_actors.errors import ConfigError
from rhino_actors.geometry import compose, wrap_angle
from rhino_actors.messages.geometry import Pose2D, Twist2D

CONFIG = FollowerConfig()
P = FollowerConfig(mode="p")
DT = 0.05


@dataclasses.dataclass
class Drive:
    """What happened on the way."""

    arrived: bool
    poses: list[Pose2D]
    twists: list[Twist2D]
    deviations: list[float]

    @property
    def end(self) -> Pose2D:
        return self.poses[-1]


def path(*points: tuple[float, float]) -> NDArray[np.float64]:
    return np.array([(x, y, 0.0) for x, y in points])


def drive(
    follower: PathFollower, start: Pose2D, *, seconds: float = 60.0, speed: float = 0.0
) -> Drive:
    pose, record = start, Drive(False, [start], [], [])
    for _ in range(round(seconds / DT)):
        step = follower.step(pose, speed=speed, dt=DT)
        record.twists.append(step.twist)
        record.deviations.append(step.deviation)
        if step.arrived:
            record.arrived = True
            return record
        speed = step.twist.vx
        moved = (speed * DT, step.twist.vy * DT, step.twist.omega * DT)
        pose = Pose2D(*compose(pose.as_tuple(), moved))
        record.poses.append(pose)
    return record


def follow(
    points: NDArray[np.float64],
    start: Pose2D | None = None,
    final_yaw: float | None = None,
    config: FollowerConfig = CONFIG,
) -> Drive:
    follower = PathFollower(config)
    follower.set_path(points, final_yaw)
    return drive(follower, start or Pose2D(points[0, 0], points[0, 1], 0.0))


STRAIGHT = path((0, 0), (4, 0))
CORNER = path(*[(0.1 * k, 0.0) for k in range(21)], *[(2.0, 0.1 * k) for k in range(1, 21)])


def test_a_straight_path_is_driven_to_within_the_tolerance_at_cruise_speed() -> None:
    run = follow(STRAIGHT)
    assert run.arrived
    assert run.end.distance_to(4, 0) <= CONFIG.goal_tolerance
    assert max(t.vx for t in run.twists) == pytest.approx(CONFIG.cruise_speed)
    assert run.twists[-1] == Twist2D()


def test_it_never_passes_the_end_of_the_path() -> None:
    assert max(p.x for p in follow(STRAIGHT).poses) <= 4.0


def test_it_speeds_up_no_faster_than_allowed() -> None:
    run = follow(STRAIGHT)
    gains = np.diff([0.0, *[t.vx for t in run.twists]])
    assert gains.max() <= CONFIG.acceleration * DT + 1e-9


@pytest.mark.parametrize("config", [CONFIG, P])
def test_it_slows_before_the_goal(config: FollowerConfig) -> None:
    run = follow(STRAIGHT, config=config)
    # From this speed it stands within the tolerance.
    assert run.twists[-2].vx ** 2 <= 2.0 * config.deceleration * config.goal_tolerance


def test_it_turns_on_the_spot_when_the_path_leads_the_other_way() -> None:
    run = follow(STRAIGHT, Pose2D(0, 0, math.pi))
    assert run.arrived
    turning = [
        t
        for t, p in zip(run.twists, run.poses, strict=False)
        if abs(wrap_angle(p.yaw)) > CONFIG.rotate_in_place_angle + 0.05 and p.x < 1
    ]
    assert turning and all(t.vx == 0.0 for t in turning)


def test_a_corner_is_taken_slower_than_the_straight_and_close_to_the_path() -> None:
    run = follow(CORNER)
    assert run.arrived
    assert max(run.deviations) < 0.2
    at_corner = [
        t.vx
        for t, p in zip(run.twists, run.poses, strict=False)
        if p.distance_to(2.0, 0.0) < CONFIG.lookahead_distance
    ]
    assert min(at_corner) < 0.7 * CONFIG.cruise_speed


@pytest.mark.parametrize("config", [CONFIG, P])
def test_twists_stay_within_the_limits(config: FollowerConfig) -> None:
    for start_yaw in (-3.0, -1.0, 0.5, 2.0):
        for t in follow(CORNER, Pose2D(0, 0, start_yaw), config=config).twists:
            assert 0.0 <= t.vx <= config.cruise_speed
            assert abs(t.omega) <= config.max_omega
            assert abs(t.vy) <= (0.0 if config.mode == "p" else config.max_vy)


def test_the_p_mode_turns_by_its_gain_towards_the_point_ahead() -> None:
    follower = PathFollower(P)
    follower.set_path(STRAIGHT, None)
    offset = 0.1
    twist = follower.step(Pose2D(1.0, offset, 0.0), speed=0.6, dt=DT).twist
    error = -math.atan2(offset, P.lookahead_distance)
    assert twist.omega == pytest.approx(P.heading_gain * error)
    assert twist.vy == 0.0


def test_a_small_offset_is_walked_off_sideways() -> None:
    for offset in (0.1, -0.1):
        follower = PathFollower(CONFIG)
        follower.set_path(STRAIGHT, None)
        twist = follower.step(Pose2D(1.0, offset, 0.0), speed=0.6, dt=DT).twist
        assert twist.vy * offset < 0.0
    run = follow(STRAIGHT, Pose2D(0.0, 0.15, 0.0))
    beyond = [abs(p.y) for p in run.poses if p.x > 1.0]
    assert max(beyond) < 0.03


def test_it_is_slow_already_where_a_tight_bend_begins() -> None:
    angles = np.linspace(-math.pi / 2, math.pi / 2, 12)
    loop = [(2.0 + 0.3 * math.cos(a), 0.3 + 0.3 * math.sin(a)) for a in angles]
    run = follow(path((0.0, 0.0), *loop, (0.0, 0.6)))
    assert run.arrived
    allowed = math.sqrt(CONFIG.lateral_acceleration * 0.3)
    at_entry = [
        t.vx for t, p in zip(run.twists, run.poses, strict=False) if 1.9 < p.x < 2.0 and p.y < 0.1
    ]
    assert at_entry and max(at_entry) < allowed + 0.08


def test_it_brakes_in_time_for_a_bend_and_no_harder_than_it_may() -> None:
    run = follow(CORNER)
    losses = -np.diff([t.vx for t in run.twists[:-1]])
    assert losses.max() <= CONFIG.deceleration * DT + 1e-9
    assert max(t.vx for t in run.twists) > 0.55


@pytest.mark.parametrize("clearance", [0.0, 0.1, 0.15])
def test_little_room_around_the_body_makes_it_slow(clearance: float) -> None:
    speeds = []
    for room in (clearance, math.inf):
        follower, speed = PathFollower(CONFIG), 0.0
        follower.set_path(STRAIGHT, None)
        for k in range(40):
            here = Pose2D(0.02 * k, 0.0, 0.0)
            speed = follower.step(here, speed=speed, dt=DT, clearance=room).twist.vx
        speeds.append(speed)
    assert CONFIG.narrow_speed <= speeds[0] < speeds[1] - 0.02


def test_at_the_goal_it_steps_to_it_instead_of_turning_to_it() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(STRAIGHT, None)
    for _ in range(3):
        twist = follower.step(Pose2D(3.95, 0.25, 0.0), speed=0.2, dt=DT).twist
    assert twist.omega == 0.0 and twist.vy < -0.05


def test_a_mode_that_there_is_not_is_named() -> None:
    with pytest.raises(ConfigError, match="mode"):
        PathFollower(FollowerConfig(mode="fast"))


@pytest.mark.parametrize("yaw", [0.0, 1.5, math.pi, -2.5])
def test_the_final_yaw_is_reached_when_it_is_asked_for(yaw: float) -> None:
    run = follow(STRAIGHT, final_yaw=yaw)
    assert run.arrived
    assert abs(wrap_angle(run.end.yaw - yaw)) <= CONFIG.yaw_tolerance
    assert run.end.distance_to(4, 0) <= CONFIG.goal_tolerance


def test_without_a_final_yaw_it_keeps_the_heading_of_arrival() -> None:
    assert abs(follow(STRAIGHT).end.yaw) < 0.05


def test_the_goal_under_the_robot_is_reached_at_once() -> None:
    assert follow(path((0, 0))).arrived
    assert len(follow(path((0, 0))).twists) == 1


@pytest.mark.parametrize(
    "points", [path((1, 1)), path((0, 0), (0, 0), (1, 1), (1, 1)), path((0, 0), (1e-9, 0), (1, 1))]
)
def test_one_pose_and_duplicate_poses_are_paths_too(points: NDArray[np.float64]) -> None:
    run = follow(points, Pose2D(0, 0, 0))
    assert run.arrived
    assert run.end.distance_to(1, 1) <= CONFIG.goal_tolerance


def test_a_direct_path_of_two_poses_is_driven_straight() -> None:
    run = follow(path((0, 0), (2, 1)), Pose2D(0, 0, math.atan2(1, 2)))
    assert run.arrived
    assert max(run.deviations) < 0.02


def test_a_replacement_in_mid_drive_makes_no_jerk() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(STRAIGHT, None)
    first = drive(follower, Pose2D(0, 0, 0), seconds=3.0)
    before = first.twists[-1]
    # Planned a moment ago from where the robot was then: it starts behind the robot.
    follower.set_path(path((0.8, 0.0), (4, 0)), None)
    after = follower.step(first.end, speed=before.vx, dt=DT).twist
    assert after.vx == pytest.approx(before.vx, abs=CONFIG.acceleration * DT)
    assert after.omega == pytest.approx(before.omega, abs=0.1)


def test_a_replacement_that_starts_behind_does_not_send_it_back() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(STRAIGHT, None)
    run = drive(follower, Pose2D(1.5, 0.0, 0.0))
    assert run.arrived
    assert min(p.x for p in run.poses) >= 1.5


def test_distance_remaining_falls_along_the_path_and_deviation_tells_the_offset() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(CORNER, None)
    step = follower.step(Pose2D(0.5, 0.3, 0.0), speed=0.0, dt=DT)
    assert step.deviation == pytest.approx(0.3, abs=0.01)
    assert step.distance_remaining == pytest.approx(3.5, abs=0.05)


def test_a_path_that_passes_by_its_own_end_is_driven_to_the_end() -> None:
    # Out, around and back to a goal beside the start: being near it at the start is not being there.
    loop = path((0, 0), (3, 0), (3, 2), (0, 2), (0, 0.1))
    run = follow(loop)
    assert run.arrived
    assert max(p.x for p in run.poses) > 2.5


def test_in_a_hairpin_it_does_not_skip_to_the_way_back() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(path((0, 0), (3, 0), (3, 0.4), (0, 0.4)), None)
    for x in np.arange(0.0, 2.56, 0.05):
        follower.step(Pose2D(float(x), 0.0, 0.0), speed=0.5, dt=DT)
    step = follower.step(Pose2D(2.6, 0.25, 0.0), speed=0.5, dt=DT)
    assert step.distance_remaining > 3.0


def test_it_goes_back_to_a_goal_that_it_was_pushed_off_while_turning() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(STRAIGHT, math.pi / 2)
    assert follower.step(Pose2D(4, 0, 0), speed=0.0, dt=DT).twist.omega > 0
    run = drive(follower, Pose2D(3.4, 0.0, 0.0))
    assert run.arrived
    assert run.end.distance_to(4, 0) <= 2 * CONFIG.goal_tolerance


def test_the_place_before_an_obstacle_is_accepted_only_near_the_goal() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(STRAIGHT, None)
    assert not follower.accept_here(Pose2D(3.5, 0, 0), 0.25)
    assert follower.accept_here(Pose2D(3.8, 0, 0), 0.25)
    assert follower.step(Pose2D(3.8, 0, 0), speed=0.0, dt=DT).arrived


@pytest.mark.parametrize(
    "poses",
    [
        np.zeros((0, 3)),
        np.zeros(3),
        np.zeros((2, 4)),
        np.array([[0.0, math.nan, 0.0]]),
        np.array([[math.inf, 0.0, 0.0]]),
    ],
)
def test_what_is_no_path_is_refused(poses: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError):
        PathFollower(CONFIG).set_path(poses, None)
    with pytest.raises(ValueError):
        PathFollower(CONFIG).set_path(STRAIGHT, math.nan)


def test_without_a_path_there_is_no_step() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(STRAIGHT, None)
    follower.clear()
    with pytest.raises(ValueError):
        follower.step(Pose2D(0, 0), speed=0.0, dt=DT)


def test_a_robot_that_cannot_turn_follows_on_backwards_for_a_while() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(path((0.0, 0.0), (-2.0, 0.0)), None)
    pose = Pose2D(0.0, 0.0, 0.0)
    assert follower.step(pose, speed=0.0, dt=DT).twist.vx == 0.0, "it would turn on the spot"
    twist = follower.crab_twist(pose)
    assert twist.vx < -0.1 and twist.omega == 0.0
    assert follower.step(pose, speed=0.0, dt=DT).twist.vx == 0.0, "asking is not doing"
    follower.keep_heading()
    poses = []
    for _ in range(200):
        poses.append(pose)
        twist = follower.step(pose, speed=twist.vx, dt=DT).twist
        if twist.omega != 0.0:
            break
        pose = Pose2D(*compose(pose.as_tuple(), (twist.vx * DT, twist.vy * DT, 0.0)))
    assert 0.35 < -pose.x < 0.6, "then it tries to turn again"


def test_it_turns_again_when_it_is_told_to() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(path((0.0, 0.0), (-2.0, 0.0)), None)
    here = Pose2D(0.0, 0.0, 0.0)
    follower.keep_heading()
    assert follower.step(here, speed=0.0, dt=DT).twist.omega == 0.0
    follower.turn_again()
    assert follower.step(here, speed=0.0, dt=DT).twist.omega != 0.0


def test_a_replacement_path_does_not_end_the_way_without_turning() -> None:
    follower = PathFollower(CONFIG)
    follower.set_path(path((0.0, 0.0), (-2.0, 0.0)), None)
    follower.step(Pose2D(0.0, 0.0, 0.0), speed=0.0, dt=DT)
    follower.keep_heading()
    follower.set_path(path((-0.1, 0.0), (-2.0, 0.0)), None)
    twist = follower.step(Pose2D(-0.1, 0.0, 0.0), speed=0.0, dt=DT).twist
    assert twist.vx < -0.1 and twist.omega == 0.0
