"""Where the known world ends, and where to look next. Pure: numpy in, numpy out."""

from rhino_actors.exploration import goal_selection, patrol_mission
from rhino_actors.exploration.area import check_area, check_in_reach
from rhino_actors.exploration.explore_mission import ExploreMission
from rhino_actors.exploration.frontier import FrontierCluster, FrontierMap, find_frontiers
from rhino_actors.exploration.goal_selection import SkipReason
from rhino_actors.exploration.patrol_mission import PatrolMission

__all__ = [
    "ExploreMission",
    "FrontierCluster",
    "FrontierMap",
    "PatrolMission",
    "SkipReason",
    "check_area",
    "check_in_reach",
    "find_frontiers",
    "warm_up",
]


def warm_up() -> None:
    """Compile, or load, every kernel of the package: an actor calls it at start."""
    goal_selection.warm_up()
    patrol_mission.warm_up()
