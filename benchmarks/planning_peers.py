"""The other planners, in their own environments: a worker that `planning.py` starts and asks over standard input.

One JSON object a line, in and out. Runs in a Python that has the peers (see README.md), without rhino. Times are CPU
time of the thread around the peer's call alone; what a peer wants made of the map beforehand is not timed, except in
`pipeline`, which is dimos's whole way from an occupancy grid to a path.
"""

import contextlib
import json
import sys
import time
from collections.abc import Callable

import numpy as np

Cells = list[tuple[int, int]] | None
COST_WEIGHT = 3.0


class Grids:
    """The map as each peer wants it. `costmap` is uint8 (rows, cols) with Nav2's values; from 253 on impassable."""

    def __init__(self, costmap: np.ndarray) -> None:
        blocked = costmap >= 253
        rate = 1.0 + COST_WEIGHT * costmap / 252.0
        self.percent = np.where(blocked, 100, np.rint(costmap * (99.0 / 252.0))).astype(np.int8)
        self.float32 = np.where(blocked, np.inf, rate).astype(np.float32)
        self.float64 = np.where(blocked, 0.0, rate)
        self.negative = np.where(blocked, -1.0, rate)
        self.int32 = np.where(blocked, 0, np.rint(100.0 * rate)).astype(np.int32)


def dimos(grids: Grids) -> Callable[..., Cells]:
    from dimos.navigation.go2.replanning_a_star.min_cost_astar_ext import min_cost_astar_cpp

    def plan(start: list[int], goal: list[int]) -> Cells:
        found = min_cost_astar_cpp(grids.percent, start[1], start[0], goal[1], goal[0], 100, 0.8)
        return [(row, col) for col, row in found] or None

    return plan


def pyastar2d(grids: Grids) -> Callable[..., Cells]:
    import pyastar2d

    def plan(start: list[int], goal: list[int]) -> Cells:
        return pyastar2d.astar_path(grids.float32, tuple(start), tuple(goal), allow_diagonal=True)

    return plan


def tcod(grids: Grids) -> Callable[..., Cells]:
    import tcod.path

    def plan(start: list[int], goal: list[int]) -> Cells:
        found = tcod.path.AStar(grids.int32, diagonal=1.41).get_path(*start, *goal)
        return [tuple(start), *found] if found else None

    return plan


def skimage(grids: Grids) -> Callable[..., Cells]:
    from skimage.graph import MCP_Geometric

    def plan(start: list[int], goal: list[int]) -> Cells:
        search = MCP_Geometric(grids.negative)
        search.find_costs([tuple(start)], [tuple(goal)])
        return search.traceback(tuple(goal))

    return plan


def semita(grids: Grids) -> Callable[..., Cells]:
    import semita

    def plan(start: list[int], goal: list[int]) -> Cells:
        found = semita.cheapest_path(grids.float64, tuple(start), tuple(goal))
        return None if found is None else found.tiles

    return plan


PEERS = {"dimos": dimos, "pyastar2d": pyastar2d, "tcod": tcod, "skimage": skimage, "semita": semita}


def dimos_pipeline(occupancy: np.ndarray, resolution: float, start: list, goal: list) -> dict:
    """What dimos does from a new occupancy grid to a path; start and goal are x, y [m]."""
    from dimos.mapping.occupancy.path_map import make_navigation_map
    from dimos.mapping.occupancy.path_resampling import smooth_resample_path
    from dimos.msgs.geometry_msgs.Pose import Pose
    from dimos.msgs.geometry_msgs.Vector3 import Vector3
    from dimos.msgs.nav_msgs.OccupancyGrid import OccupancyGrid
    from dimos.navigation.go2.replanning_a_star.min_cost_astar import min_cost_astar

    grid = OccupancyGrid(grid=occupancy, resolution=resolution)
    ends = Vector3(*goal, 0.0), Vector3(*start, 0.0)
    marks = [time.thread_time()]
    costmap = make_navigation_map(grid, 0.33, strategy="simple", gradient_strategy="voronoi")
    marks.append(time.thread_time())
    path = min_cost_astar(costmap, *ends)
    marks.append(time.thread_time())
    if path is not None:
        smooth_resample_path(path, Pose(*goal, 0.0), 0.1)
    marks.append(time.thread_time())
    return {
        "costmap": marks[1] - marks[0],
        "search": marks[2] - marks[1],
        "smooth": marks[3] - marks[2],
    }


def main() -> None:
    answers = sys.stdout
    planners: dict[str, Callable[..., Cells]] = {}
    with contextlib.redirect_stdout(sys.stderr):
        for line in sys.stdin:
            ask = json.loads(line)
            answer: dict = {}
            if ask["do"] == "peers":
                for name, make in PEERS.items():
                    with contextlib.suppress(ImportError):
                        make(Grids(np.zeros((2, 2), np.uint8)))
                        answer.setdefault("names", []).append(name)
            elif ask["do"] == "load":
                grids = Grids(np.load(ask["file"]))
                planners = {name: PEERS[name](grids) for name in ask["peers"]}
            elif ask["do"] == "plan":
                answer["cpu"] = float("inf")
                for _ in range(ask["repeat"]):
                    started = time.thread_time()
                    cells = planners[ask["peer"]](ask["start"], ask["goal"])
                    answer["cpu"] = min(answer["cpu"], time.thread_time() - started)
                answer["cells"] = None if cells is None else np.asarray(cells).tolist()
            elif ask["do"] == "pipeline":
                occupancy = np.load(ask["file"])
                answer = dimos_pipeline(occupancy, ask["resolution"], ask["start"], ask["goal"])
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
