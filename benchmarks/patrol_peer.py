"""Worker that patrols with dimos's router and planner, in dimos's own Python; needs nothing of rhino.

Started by patrol.py with one JSON argument. As dimos's patrol does it: the router draws a goal, the goal is moved to a
safe cell (clearance 0.3 + 0.2 m), the path is searched on the navigation map of the planner and smoothed, the robot
walks it to its end, and the router draws the next one. The robot's pose is told every 5 cm. A goal without a safe cell
or a path is drawn anew 2 s later. Time to choose and plan is not charged to the robot.
"""

import contextlib
import json
import math
import random
import sys
import time
from typing import Any

import numpy as np

STEP = 0.05  # [m] between poses
WIDTH = 0.33  # [m] the planner's, 1.1 times the robot's
ROUTER_CLEARANCE = 0.15  # [m]
GOAL_CLEARANCE = 0.5  # [m]
NEAR = 1.5  # [m] goals nearer than this are planned to on the other gradient
RETRY = 2.0  # [s]


def patrol(ask: dict[str, Any]) -> dict[str, Any]:
    """Return the track (N, 3) time [s], x, y [m], the CPU times of next_goal [s], and the number of goals."""
    from dimos.mapping.occupancy.path_map import make_navigation_map
    from dimos.mapping.occupancy.path_resampling import smooth_resample_path
    from dimos.msgs.geometry_msgs.PoseStamped import PoseStamped
    from dimos.msgs.nav_msgs.OccupancyGrid import OccupancyGrid
    from dimos.navigation.experimental.patrolling.create_patrol_router import create_patrol_router
    from dimos.navigation.go2.replanning_a_star.goal_validator import find_safe_goal
    from dimos.navigation.go2.replanning_a_star.min_cost_astar import min_cost_astar

    np.random.seed(ask["seed"])  # noqa: NPY002 what dimos draws from
    random.seed(ask["seed"])
    grid = OccupancyGrid(np.load(ask["world"])["grid"], resolution=ask["resolution"])
    far_map = make_navigation_map(grid, WIDTH, "simple", "voronoi")
    near_map = make_navigation_map(grid, WIDTH, "simple", "gradient")
    router = create_patrol_router(ask["router"], ROUTER_CLEARANCE)
    router.handle_occupancy_grid(grid)

    def pose(x: float, y: float) -> PoseStamped:
        return PoseStamped(frame_id="world", position=[x, y, 0.0])

    x, y = ask["start"]
    router.handle_odom(pose(x, y))
    now, goals, track, choices = 0.0, 0, [(0.0, x, y)], []
    while now < ask["seconds"]:
        began = time.thread_time()
        goal = router.next_goal()
        choices.append(time.thread_time() - began)
        safe = path = None
        if goal is not None:
            safe = find_safe_goal(
                grid,
                goal.position,
                algorithm="bfs_contiguous",
                cost_threshold=100,
                min_clearance=GOAL_CLEARANCE,
                max_search_distance=4.0,
            )
        if safe is not None:
            costs = near_map if math.hypot(safe.x - x, safe.y - y) <= NEAR else far_map
            path = min_cost_astar(costs, safe, pose(x, y).position)
        if path is None or not path.poses:
            now += RETRY
            continue
        goals += 1
        end = pose(safe.x, safe.y)
        for at in smooth_resample_path(path, end, 0.1).poses:
            target = (at.position.x, at.position.y)
            while now < ask["seconds"] and math.dist((x, y), target) > 1e-6:
                left = math.dist((x, y), target)
                share = min(1.0, STEP / left)
                x, y = x + (target[0] - x) * share, y + (target[1] - y) * share
                now += min(STEP, left) / ask["speed"]
                track.append((now, x, y))
                router.handle_odom(pose(x, y))
    return {"track": np.array(track), "choices": np.array(choices), "goals": goals}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    with contextlib.redirect_stdout(sys.stderr):
        np.savez(request["result"], **patrol(request))
