"""Where the known world ends, and where to look next. Pure: numpy in, numpy out."""

from rhino_actors.exploration.frontier import FrontierCluster, find_frontiers
from rhino_actors.exploration.goal_selection import (
    FrontierChoice,
    SkippedCluster,
    SkipReason,
    choose_frontier,
    warm_up,
)

__all__ = [
    "FrontierChoice",
    "FrontierCluster",
    "SkipReason",
    "SkippedCluster",
    "choose_frontier",
    "find_frontiers",
    "warm_up",
]
