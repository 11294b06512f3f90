"""Paths over a costmap: exact search, goals that must move, paths to drive, progress. Pure: numpy in, numpy out."""

from rhino_actors.planning import astar, coarse, guided, path
from rhino_actors.planning.astar import GridPath, Planner, cost_to_go, path_cost, plan_path
from rhino_actors.planning.coarse import CoarsePlanner
from rhino_actors.planning.goal import free_start, nearest_free_goal
from rhino_actors.planning.guided import GoalField, GuidedPlanner, build_field
from rhino_actors.planning.path import (
    cost_of,
    crosses_unknown,
    first_blocked,
    nearest_index,
    path_is_blocked,
    path_length,
    poses_from_cells,
    remaining_length,
    shortcut,
    smoothed,
)
from rhino_actors.planning.progress import ProgressChecker

__all__ = [
    "CoarsePlanner",
    "GoalField",
    "GridPath",
    "GuidedPlanner",
    "Planner",
    "ProgressChecker",
    "build_field",
    "cost_of",
    "cost_to_go",
    "crosses_unknown",
    "first_blocked",
    "free_start",
    "nearest_free_goal",
    "nearest_index",
    "path_cost",
    "path_is_blocked",
    "path_length",
    "plan_path",
    "poses_from_cells",
    "remaining_length",
    "shortcut",
    "smoothed",
    "warm_up",
]


def warm_up() -> None:
    """Compile, or load, every kernel of the package: an actor calls it at start."""
    astar.warm_up()
    guided.warm_up()
    coarse.warm_up()
    path.warm_up()
