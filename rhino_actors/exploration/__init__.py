"""Where the known world ends, and where to look next. Pure: numpy in, numpy out."""

from rhino_actors.exploration.area import check_area, check_in_reach
from rhino_actors.exploration.explore_mission import ExploreMission
from rhino_actors.exploration.frontier import FrontierCluster, FrontierMap, find_frontiers
from rhino_actors.exploration.goal_selection import SkipReason, warm_up

__all__ = [
    "ExploreMission",
    "FrontierCluster",
    "FrontierMap",
    "SkipReason",
    "check_area",
    "check_in_reach",
    "find_frontiers",
    "warm_up",
]
