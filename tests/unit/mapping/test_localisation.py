"""The localiser: sure or silent, smooth once it knows, loud when it is lost. Worlds of boxes, scans in numpy."""

import functools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.geometry import compose, inverse, transform_points
from rhino_actors.mapping.likelihood import Transform
from rhino_actors.mapping.localisation import Localiser, LocaliserOptions
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.localisation import LocalisationState, LocalisationStatus
from tests.unit.mapping.scene import Box, Lidar, room

LIDAR = Lidar(beams=120, max_range=6.0)


def furnished(seed: int) -> list[Box]:
    """A room of 9 x 7 m with five blocks, no two alike, its middle clear."""
    rng = np.random.default_rng(seed)
    boxes = room(9.0, 7.0)
    for x, y in ((1.2, 1.0), (7.2, 1.3), (1.4, 5.4), (7.0, 5.6), (4.3, 6.2)):
        w, d = rng.uniform(0.3, 1.2, 2)
        dx, dy = rng.uniform(-0.3, 0.3, 2)
        boxes.append((x + dx, y + dy, 0.0, x + dx + w, y + dy + d, 1.0))
    return boxes


def mapped(
    boxes: list[Box], places: list[tuple[float, float]]
) -> tuple[NDArray[np.int8], GridGeometry]:
    mapper = OccupancyMapper(0.05, max_range=6.0)
    for x, y in places:
        for _ in range(2):
            mapper.integrate(*LIDAR.scan(boxes, x, y))
    return mapper.occupancy(), mapper.geometry


@functools.cache
def furnished_map(seed: int) -> tuple[NDArray[np.int8], GridGeometry]:
    places = [(x, y) for x in (2.5, 3.5, 4.5, 5.5, 6.5) for y in (2.4, 3.5, 4.6)]
    return mapped(furnished(seed), places)


class Walk:
    """A robot whose odom lies anywhere in the map, and drifts when told to."""

    def __init__(self, boxes: list[Box], localiser: Localiser, odom: Transform) -> None:
        self.boxes, self.localiser, self.odom = boxes, localiser, odom
        self.stamp = 0.0
        self.steps: list[
            float
        ] = []  # how far the robot's place in the map jumped beyond its motion [m]
        self.error = (math.inf, math.inf)

    def see(self, x: float, y: float, yaw: float = 0.0, noise: float = 0.01) -> LocalisationStatus:
        """Scan from a true pose in the map."""
        points, origin = LIDAR.scan(self.boxes, x, y, yaw, noise, seed=int(1000 * self.stamp))
        self.stamp += 0.25
        odom_from_map = inverse(self.odom)
        ox, oy = transform_points(odom_from_map, [origin[:2]])[0].tolist()
        pose = Pose2D(*compose(odom_from_map, (x, y, yaw)))
        known = self.localiser.is_localised
        before = compose(self.localiser.map_from_odom, pose.as_tuple())
        status = self.localiser.add_frame(
            transform_points(odom_from_map, points), (ox, oy, origin[2]), pose, stamp=self.stamp
        )
        after = compose(self.localiser.map_from_odom, pose.as_tuple())
        if known:
            self.steps.append(math.hypot(after[0] - before[0], after[1] - before[1]))
        self.error = (
            math.hypot(after[0] - x, after[1] - y),
            abs(math.remainder(after[2] - yaw, math.tau)),
        )
        return status

    def drive(
        self, begin: tuple[float, float], end: tuple[float, float], steps: int
    ) -> LocalisationStatus:
        for part in np.linspace(0.0, 1.0, steps):
            x = begin[0] + part * (end[0] - begin[0])
            y = begin[1] + part * (end[1] - begin[1])
            status = self.see(x, y, 0.4 * part)
        return status


def anywhere(seed: int) -> Transform:
    rng = np.random.default_rng(seed)
    return (*rng.uniform(-40.0, 40.0, 2).tolist(), float(rng.uniform(-math.pi, math.pi)))


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_robot_wherever_odom_lies(seed: int) -> None:
    walk = Walk(furnished(seed), Localiser(*furnished_map(seed)), anywhere(seed))
    assert walk.localiser.status.state is LocalisationState.SEARCHING
    status = walk.drive((2.5, 3.0), (5.5, 4.0), 40)
    assert status.state is LocalisationState.LOCALISED and status.share > 0.8
    assert walk.error[0] < 0.06 and walk.error[1] < math.radians(1.0)


def test_equal_frames_give_equal_answers() -> None:
    found = []
    for _ in range(2):
        walk = Walk(furnished(1), Localiser(*furnished_map(1)), anywhere(9))
        walk.drive((2.5, 3.0), (5.5, 4.0), 40)
        found.append(walk.localiser.map_from_odom)
    assert found[0] == found[1]


def test_in_a_world_that_looks_the_same_from_two_sides_it_says_that_it_does_not_know() -> None:
    boxes = [*room(9.0, 7.0), (1.0, 1.0, 0.0, 2.0, 1.5, 1.0), (7.0, 5.5, 0.0, 8.0, 6.0, 1.0)]
    occupancy, geometry = mapped(boxes, [(2.5, 3.5), (4.5, 2.0), (4.5, 5.0), (6.5, 3.5)])
    walk = Walk(boxes, Localiser(occupancy, geometry), anywhere(3))
    status = walk.drive((2.5, 3.0), (6.5, 4.0), 60)
    assert status.state is LocalisationState.SEARCHING
    assert "several places" in status.sentence
    assert not status.is_usable


def test_a_rough_pose_decides_between_places_that_look_the_same() -> None:
    boxes = [*room(9.0, 7.0), (1.0, 1.0, 0.0, 2.0, 1.5, 1.0), (7.0, 5.5, 0.0, 8.0, 6.0, 1.0)]
    occupancy, geometry = mapped(boxes, [(2.5, 3.5), (4.5, 2.0), (4.5, 5.0), (6.5, 3.5)])
    walk = Walk(boxes, Localiser(occupancy, geometry, guess=Pose2D(3.2, 2.4, 0.3)), anywhere(3))
    assert walk.drive((2.5, 3.0), (6.5, 4.0), 60).state is LocalisationState.LOCALISED
    assert walk.error[0] < 0.06


def test_a_rough_pose_is_that_of_the_moment_when_it_was_said_though_the_robot_turns_at_once() -> (
    None
):
    boxes = [*room(9.0, 7.0), (1.0, 1.0, 0.0, 2.0, 1.5, 1.0), (7.0, 5.5, 0.0, 8.0, 6.0, 1.0)]
    occupancy, geometry = mapped(boxes, [(2.5, 3.5), (4.5, 2.0), (4.5, 5.0), (6.5, 3.5)])
    walk = Walk(boxes, Localiser(occupancy, geometry, guess=Pose2D(3.2, 2.7, 0.2)), anywhere(3))
    for step in range(16):
        status = walk.see(2.5, 3.0, math.radians(50.0 * step))
    assert status.state is LocalisationState.LOCALISED
    assert walk.error[0] < 0.06


def test_a_rough_pose_that_is_wrong_does_not_keep_it_from_the_right_place() -> None:
    walk = Walk(
        furnished(1), Localiser(*furnished_map(1), guess=Pose2D(7.0, 3.0, 3.0)), anywhere(4)
    )
    walk.drive((2.5, 3.0), (5.5, 4.0), 60)
    assert walk.drive((5.5, 4.0), (3.0, 4.4), 60).state is LocalisationState.LOCALISED
    assert walk.error[0] < 0.06


@pytest.mark.parametrize("narrow_score", [0.5, 1.01])
def test_a_narrow_lead_is_believed_only_if_the_place_fits_well(narrow_score: float) -> None:
    options = LocaliserOptions(clear_margin=1.5, narrow_score=narrow_score)
    walk = Walk(furnished(0), Localiser(*furnished_map(0), options=options), anywhere(2))
    walk.drive((2.5, 3.0), (5.5, 4.0), 50)
    assert walk.localiser.is_localised == (narrow_score < 1.0)


def test_in_a_corridor_without_features_it_does_not_claim_a_place() -> None:
    boxes = [(-1.0, -0.1, 0.0, 31.0, 0.0, 2.0), (-1.0, 1.8, 0.0, 31.0, 1.9, 2.0)]
    occupancy, geometry = mapped(boxes, [(float(x), 0.9) for x in range(0, 31, 2)])
    walk = Walk(boxes, Localiser(occupancy, geometry), anywhere(5))
    assert walk.drive((10.0, 0.9), (16.0, 0.9), 60).state is LocalisationState.SEARCHING


def test_in_a_strange_place_it_does_not_claim_one() -> None:
    strange = [*room(4.0, 4.0), (1.0, 2.4, 0.0, 1.6, 3.0, 1.0)]
    walk = Walk(strange, Localiser(*furnished_map(0)), anywhere(6))
    assert walk.drive((1.5, 1.2), (2.8, 1.6), 50).state is LocalisationState.SEARCHING


def test_drift_is_followed_smoothly() -> None:
    walk = Walk(furnished(3), Localiser(*furnished_map(3)), anywhere(7))
    walk.drive((2.5, 3.0), (5.5, 4.0), 40)
    walk.steps.clear()
    for index in range(80):
        # 3 mm and 0.1 degree a frame about the robot: more than ten times what a Go2 drifts.
        x, y = 5.5 - 0.02 * index, 4.0
        walk.odom = compose(
            compose((x, y, 0.0), (0.003, 0.0, math.radians(0.1))),
            compose(inverse((x, y, 0.0)), walk.odom),
        )
        status = walk.see(x, y, 0.4)
        assert status.state is LocalisationState.LOCALISED
        assert walk.error[0] < 0.08 and walk.error[1] < math.radians(2.0)
    assert 0.0 < max(walk.steps) < 0.05


@pytest.mark.parametrize(
    ("distance", "turn", "moves", "turns"),
    [
        (0.10, 0.0, 0.03, 0.0),  # three tenths of what the frame says,
        (0.0, 2.0, 0.0, 0.6),
        (0.25, 0.0, 0.05, 0.0),  # and no more than the bound
        (0.0, 6.0, 0.0, 1.0),
    ],
)
def test_a_frame_is_taken_over_in_part(
    distance: float, turn: float, moves: float, turns: float
) -> None:
    walk = Walk(furnished(3), Localiser(*furnished_map(3)), anywhere(7))
    walk.drive((2.5, 3.0), (5.5, 4.0), 40)
    true = (5.5, 4.0, 0.4)
    for _ in range(20):
        walk.see(*true, noise=0.0)
    before = walk.localiser.map_from_odom
    off = compose(compose(true, (distance, 0.0, math.radians(turn))), inverse(true))
    walk.odom = compose(off, walk.odom)
    walk.see(*true, noise=0.0)
    after = walk.localiser.map_from_odom
    pose = compose(inverse(walk.odom), true)
    was, now = compose(before, pose), compose(after, pose)
    assert math.hypot(now[0] - was[0], now[1] - was[1]) == pytest.approx(moves, abs=0.008)
    assert math.degrees(math.remainder(now[2] - was[2], math.tau)) == pytest.approx(turns, abs=0.2)


def test_one_wild_frame_moves_the_place_little() -> None:
    walk = Walk(furnished(3), Localiser(*furnished_map(3)), anywhere(7))
    walk.drive((2.5, 3.0), (5.5, 4.0), 40)
    true = walk.odom
    walk.odom = compose(true, (0.0, 0.0, math.radians(25.0)))
    walk.see(5.5, 4.0, 0.4)
    walk.odom = true
    walk.see(5.5, 4.0, 0.4)
    assert walk.error[0] < 0.12 and walk.error[1] < math.radians(2.5)


def test_carried_elsewhere_it_says_that_it_is_lost_and_finds_itself_again() -> None:
    walk = Walk(furnished(4), Localiser(*furnished_map(4)), anywhere(8))
    assert walk.drive((2.5, 3.0), (5.5, 4.0), 60).state is LocalisationState.LOCALISED
    # The odometry does not notice: it believes the robot has not moved.
    carried = compose((5.5, 4.0, 0.0), compose((-1.0, 0.5, 1.4), inverse((5.5, 4.0, 0.0))))
    walk.odom = compose(carried, walk.odom)
    states = [walk.see(5.5, 4.0, 0.4).state for _ in range(20)]
    for part in np.linspace(0.0, 1.0, 40):
        states.append(walk.see(5.5 - 2.5 * part, 4.0 - 0.5 * part, 0.4).state)
    assert LocalisationState.LOST in states
    assert states[-1] is LocalisationState.LOCALISED
    assert walk.error[0] < 0.08


def test_people_in_the_way_do_not_make_it_lost() -> None:
    boxes = furnished(0)
    walk = Walk(boxes, Localiser(*furnished_map(0)), anywhere(2))
    walk.drive((2.5, 3.0), (5.0, 3.6), 40)
    for index in range(40):
        x = 3.0 + 0.05 * index
        person: Box = (x, 4.2, 0.0, x + 0.4, 4.5, 1.7)
        walk.boxes = [*boxes, person]
        assert walk.see(5.0, 3.6, 0.4).state is LocalisationState.LOCALISED
    assert walk.error[0] < 0.06


def test_empty_and_broken_frames_change_nothing() -> None:
    walk = Walk(furnished(0), Localiser(*furnished_map(0)), anywhere(2))
    walk.drive((2.5, 3.0), (5.0, 3.6), 40)
    before = walk.localiser.map_from_odom
    pose = Pose2D(*compose(inverse(walk.odom), (5.0, 3.6, 0.4)))
    for points in (np.empty((0, 3)), np.full((50, 3), np.nan), np.full((50, 3), np.inf)):
        status = walk.localiser.add_frame(points, (*pose.as_tuple()[:2], 0.35), pose, stamp=99.0)
        assert status.state is LocalisationState.LOCALISED
    assert walk.localiser.map_from_odom == before
