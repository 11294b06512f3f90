"""Worker that chooses exploration goals with dimos, in dimos's own Python; needs nothing of rhino.

Started by exploration_choice.py. Speaks JSON lines: {"do": "new"}, {"do": "goal", "file": npy of int8, "resolution":
..., "x": ..., "y": ...} -> {"goal": [x, y] or null, "cpu": seconds of the thread}. dimos's own stop after two goals
with less than 3 % of new cells is turned off by its option.
"""

import contextlib
import json
import sys
import time
from typing import Any

import numpy as np


def main() -> None:
    answers = sys.stdout
    explorer: Any = None
    with contextlib.redirect_stdout(sys.stderr):
        from dimos.mapping.occupancy.inflation import simple_inflate
        from dimos.msgs.geometry_msgs.Vector3 import Vector3
        from dimos.msgs.nav_msgs.OccupancyGrid import OccupancyGrid
        from dimos.navigation.experimental.frontier_exploration import (
            wavefront_frontier_goal_selector as selector,
        )

        for line in sys.stdin:
            ask = json.loads(line)
            answer: dict[str, Any] = {}
            if ask["do"] == "new":
                explorer = selector.WavefrontFrontierExplorer(info_gain_threshold=-1.0)
            elif ask["do"] == "goal":
                grid = OccupancyGrid(grid=np.load(ask["file"]), resolution=ask["resolution"])
                started = time.thread_time()
                costmap = simple_inflate(grid, 0.25)
                goal = explorer.get_exploration_goal(Vector3(ask["x"], ask["y"], 0.0), costmap)
                answer["cpu"] = time.thread_time() - started
                answer["goal"] = None if goal is None else [float(goal.x), float(goal.y)]
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
