"""Draw what the planner makes of real maps: the search's cells in orange, the path that is driven in blue.

    python -m benchmarks.draw_paths MAP.yaml OUT.png --start 2.0 3.5 --goal 14.0 -2.0
    python -m benchmarks.draw_paths MAP.yaml OUT.png            the longest of 40 ways drawn by chance

Prints the lengths, the sharpest turns of both, and how near the driven path comes to an obstacle.
"""

import argparse
import math
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.lockstep import make_config, make_router
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import PlanningError
from rhino_actors.mapping import inflate, load_map
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import FREE, LETHAL_OBSTACLE, MapSnapshot
from rhino_actors.messages.navigation import GoalRequest, NavMode
from rhino_actors.planning import path_length, plan_path
from rhino_actors.planning.route import Route, Router
from serve_app.images import overview_image

ORANGE, BLUE = (40, 140, 250), (222, 110, 30)  # BGR
MARGIN_M = 1.5
WIDTH_PX = 1100


def load_snapshot(path: Path, config: RhinoConfig) -> MapSnapshot:
    """Return a map_server map as the mapper would publish it."""
    occupancy, geometry = load_map(path)
    robot = config.robot
    costmap = inflate(
        occupancy,
        resolution=geometry.resolution,
        inscribed_radius=robot.inscribed_radius,
        inflation_radius=robot.inflation_radius,
        cost_scaling_factor=robot.cost_scaling_factor,
    )
    area = float(np.count_nonzero(occupancy >= 0)) * geometry.resolution**2
    return MapSnapshot(1, 1, 0.0, geometry, occupancy, costmap, area)


def longest_route(router: Router, snapshot: MapSnapshot) -> tuple[Pose2D, Route]:
    """Return the longest route of 40 between places drawn by chance."""
    rng = np.random.default_rng(4)
    floor = np.argwhere((snapshot.occupancy == FREE) & (snapshot.costmap < 60))
    found: list[tuple[Pose2D, Route]] = []
    for _ in range(40):
        ends = [
            snapshot.geometry.world_from_cell(*c) for c in floor[rng.integers(len(floor), size=2)]
        ]
        try:
            request = GoalRequest(*ends[1], allow_unknown=False)
            pose = Pose2D(*ends[0])
            found.append((pose, router.plan(snapshot, pose, request, NavMode.ASTAR)))
        except PlanningError:
            continue
    return max(found, key=lambda pair: pair[1].length)


def sharpest(points: NDArray[np.floating]) -> float:
    """Return the sharpest turn of a polyline [deg]."""
    steps = np.diff(points[:, :2], axis=0)
    headings = np.unwrap(np.arctan2(steps[:, 1], steps[:, 0]))
    return math.degrees(float(np.abs(np.diff(headings)).max(initial=0.0)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("map", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--start", type=float, nargs=2)
    parser.add_argument("--goal", type=float, nargs=2)
    arguments = parser.parse_args()
    config = make_config()
    router = make_router(config)
    snapshot = load_snapshot(arguments.map, config)
    geometry = snapshot.geometry
    if arguments.start and arguments.goal:
        pose = Pose2D(*arguments.start)
        request = GoalRequest(*arguments.goal, allow_unknown=False)
        route = router.plan(snapshot, pose, request, NavMode.ASTAR)
    else:
        pose, route = longest_route(router, snapshot)
    cells = plan_path(
        snapshot.costmap,
        geometry.cell_from_world(pose.x, pose.y),
        geometry.cell_from_world(route.goal.x, route.goal.y),
        cost_weight=config.planner.cost_weight,
        allow_unknown=False,
    ).cells
    raw = geometry.world_from_cells(cells)
    lethal = geometry.world_from_cells(np.argwhere(snapshot.costmap == LETHAL_OBSTACLE))
    near = min(float(np.hypot(*(lethal - p).T).min()) for p in route.poses[:, :2])
    print(
        f"{arguments.map.name}: cells {path_length(raw):.1f} m, turns to {sharpest(raw):.0f} deg; "
        f"driven {route.length:.1f} m, turns to {sharpest(route.poses):.0f} deg, "
        f"nearest obstacle {near:.2f} m from the centre; {1000.0 * route.plan_time:.1f} ms"
    )
    low = np.minimum(raw.min(axis=0), route.poses[:, :2].min(axis=0)) - MARGIN_M
    high = np.maximum(raw.max(axis=0), route.poses[:, :2].max(axis=0)) + MARGIN_M
    scale = max(1, round(WIDTH_PX * geometry.resolution / float((high - low).max())))
    image = overview_image(snapshot, scale=scale)
    size = geometry.resolution / scale
    top = geometry.origin[1] + geometry.shape[0] * geometry.resolution

    def pixels(points: NDArray[np.floating]) -> NDArray[np.int32]:
        columns = (points[:, 0] - geometry.origin[0]) / size
        rows = (top - points[:, 1]) / size
        return np.stack([columns, rows], axis=1).round().astype(np.int32)

    cv2.polylines(image, [pixels(raw)], False, ORANGE, 2, cv2.LINE_AA)
    cv2.polylines(image, [pixels(route.poses)], False, BLUE, 2, cv2.LINE_AA)
    (left, bottom), (right, upper) = pixels(np.array([low, high]))
    height, width = image.shape[:2]
    window = image[max(0, upper) : min(height, bottom), max(0, left) : min(width, right)]
    arguments.picture.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(arguments.picture), window, [cv2.IMWRITE_PNG_COMPRESSION, 9])


if __name__ == "__main__":
    main()
