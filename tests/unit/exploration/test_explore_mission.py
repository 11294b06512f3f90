"""An exploration on drawn maps: targets, tries, ends."""

import numpy as np
import pytest

from rhino_actors.config import ExplorerConfig, PlannerConfig, RobotConfig
from rhino_actors.exploration.explore_mission import ExploreMission
from rhino_actors.exploration.mission import Choice
from rhino_actors.mapping.inflation import inflate
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry, MapSnapshot
from rhino_actors.planning.route import Router

RESOLUTION = 0.05
ROBOT = RobotConfig()
CONFIG = ExplorerConfig(settle_time_s=1.0)


def _inflate(occupancy, resolution):  # type: ignore[no-untyped-def]
    return inflate(
        occupancy,
        resolution=resolution,
        inscribed_radius=ROBOT.inscribed_radius,
        inflation_radius=ROBOT.inflation_radius,
        cost_scaling_factor=ROBOT.cost_scaling_factor,
    )


class Exploring:
    """A mission, and the robot's pose."""

    def __init__(self) -> None:
        self.mission = ExploreMission(CONFIG, ROBOT)
        self.pose = Pose2D(1.0, 1.0)
        self._router = Router(PlannerConfig(), ROBOT, _inflate)
        self._seq = 0

    def look(self, occupancy: np.ndarray, now: float) -> Choice:
        self._seq += 1
        snapshot = MapSnapshot(
            1,
            self._seq,
            now,
            GridGeometry(RESOLUTION, (0.0, 0.0), occupancy.shape),
            occupancy,
            _inflate(occupancy, RESOLUTION),
            1.0,
        )
        costs = self._router.costs_from(snapshot, self.pose)
        return self.mission.choose(snapshot, self.pose.as_tuple(), costs, now)


def _closed_room() -> np.ndarray:
    occupancy = np.full((80, 80), UNKNOWN, np.int8)
    occupancy[5:75, 5:75] = OCCUPIED
    occupancy[6:74, 6:74] = FREE
    return occupancy


def _room_with_open_door() -> np.ndarray:
    occupancy = _closed_room()
    occupancy[30:50, 74:80] = FREE
    return occupancy


def test_room_without_frontiers_is_complete_after_the_map_has_settled() -> None:
    exploring = Exploring()
    assert not exploring.look(_closed_room(), 0.0).is_complete
    assert not exploring.look(_closed_room(), 0.9).is_complete
    choice = exploring.look(_closed_room(), 1.1)
    assert choice.is_complete and not choice.gave_up and not choice.skipped


def test_open_door_is_the_target_and_is_kept_until_it_is_seen_out() -> None:
    exploring = Exploring()
    choice = exploring.look(_room_with_open_door(), 0.0)
    assert choice.target is not None
    assert choice.target.x > 3.0 and 1.5 < choice.target.y < 2.5
    exploring.mission.sent(choice.target, 1)
    assert exploring.look(_room_with_open_door(), 0.5).target is None, "drive on"
    assert exploring.mission.goal_id == 1
    seen_out = _closed_room()
    assert exploring.look(seen_out, 1.0).target is None
    assert exploring.look(seen_out, 2.5).is_complete


def test_edge_of_the_grid_is_a_frontier() -> None:
    occupancy = np.full((80, 80), FREE, np.int8)
    assert Exploring().look(occupancy, 0.0).target is not None


def test_target_tried_in_vain_is_given_up_and_listed() -> None:
    exploring = Exploring()
    occupancy = _room_with_open_door()
    now = 0.0
    for _ in range(CONFIG.max_attempts * 4):
        choice = exploring.look(occupancy, now)
        now += 0.5
        if choice.target is None:
            break
        exploring.mission.sent(choice.target, 1)
        exploring.mission.failed(now, "NO_PATH")
    assert choice.target is None
    choice = exploring.look(occupancy, now + 2.0)
    assert choice.is_complete and choice.gave_up
    assert [s.reason for s in choice.skipped] == ["GAVE_UP"]


def test_pocket_behind_walls_is_no_target_and_does_not_keep_the_mission_alive() -> None:
    occupancy = _closed_room()
    occupancy[60:70, 60:70] = OCCUPIED
    occupancy[61:69, 61:69] = FREE
    occupancy[64:66, 64:66] = UNKNOWN
    exploring = Exploring()
    exploring.look(occupancy, 0.0)
    choice = exploring.look(occupancy, 2.0)
    assert choice.is_complete
    assert choice.skipped and {s.reason for s in choice.skipped} <= {"UNREACHABLE", "NO_SAFE_CELL"}


@pytest.mark.parametrize("end", ["forget_goal", "arrived"])
def test_frontier_that_is_still_there_after_one_visit_is_tried_again(end: str) -> None:
    exploring = Exploring()
    choice = exploring.look(_room_with_open_door(), 0.0)
    assert choice.target is not None
    exploring.mission.sent(choice.target, 1)
    exploring.mission.forget_goal() if end == "forget_goal" else exploring.mission.arrived(0.5)
    again = exploring.look(_room_with_open_door(), 1.0)
    assert again.target is not None


def test_what_was_given_up_is_tried_again_after_a_while() -> None:
    exploring = Exploring()
    occupancy = _room_with_open_door()
    for now in (0.0, 0.5):
        choice = exploring.look(occupancy, now)
        assert choice.target is not None
        exploring.mission.sent(choice.target, 1)
        exploring.mission.failed(now, "NO_PATH")
    later = exploring.look(occupancy, 1.0 + CONFIG.give_up_s)
    assert later.target is not None
