"""Drive through each simulated world with the Go2's own lidar, map it, draw the maps beside the truth and score them.

    python -m benchmarks.voxel_pictures --out docs/images

The robot is driven in lock-step along a route through the world; its odometry is exact. For each world and each way
of carving it prints: of the truth's obstacle cells beside floor that was mapped, the share that is lethal within one
cell; the lethal cells farther than one cell from any obstacle, and of all cells; voxels, CPU time of a frame and of
an update. The pictures, of the map carved by line of sight: truth; voxels from above by height, up to 1 m; height
cost: white free, yellow to orange rough, black lethal, blue inferred, grey unknown.
"""

import argparse
import math
import time
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.worlds import WORLDS, World, make_world
from rhino_actors.geometry import wrap_angle
from rhino_actors.mapping import HeightCostmap, VoxelMapper, inflate, warm_up
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.grid import GridGeometry
from rhino_actors.messages.sensors import LidarFrame
from rhino_actors.planning import plan_path

SIZE = 0.05
SPEED, TURN = 0.7, 1.2  # [m/s], [rad/s]
Mask = NDArray[np.bool_]


def route(world: World, stops: int) -> NDArray[np.float64]:
    """Return (N, 2) x, y [m] of a route from the start to places that lie far from one another."""
    truth = world.truth_grid(SIZE, robot_radius=0.3)
    cells = np.argwhere(truth.reachable)
    costmap = inflate(
        truth.occupancy,
        resolution=SIZE,
        inscribed_radius=0.25,
        inflation_radius=0.8,
        cost_scaling_factor=4.0,
    )
    here = np.array(truth.geometry.cell_from_world(0.0, 0.0))
    chosen: list[NDArray[np.int64]] = []
    distance = np.hypot(*(cells - here).T)
    for _ in range(stops):
        chosen.append(cells[int(np.argmax(distance))])
        distance = np.minimum(distance, np.hypot(*(cells - chosen[-1]).T))
    parts = []
    while chosen:
        chosen.sort(key=lambda stop, at=here: float(np.hypot(*(stop - at))))
        stop = chosen.pop(0)
        path = plan_path(costmap, tuple(here.tolist()), tuple(stop.tolist()), allow_unknown=False)
        parts.append(path.cells)
        here = stop
    return truth.geometry.world_from_cells(np.concatenate(parts))


def steer(pose: Pose2D, path: NDArray[np.float64], at: int) -> tuple[Twist2D, int]:
    """Return a twist towards the path 0.3 m ahead, and how far along it the robot is."""
    while at < len(path) - 1 and math.hypot(path[at, 0] - pose.x, path[at, 1] - pose.y) < 0.3:
        at += 1
    off = wrap_angle(math.atan2(path[at, 1] - pose.y, path[at, 0] - pose.x) - pose.yaw)
    speed = SPEED * max(0.0, math.cos(off)) ** 2 if abs(off) < 1.2 else 0.0
    return Twist2D(speed, 0.0, max(-TURN, min(TURN, 3.0 * off))), at


def drive(world: World, config: MujocoConfig, limit: float) -> list[LidarFrame]:
    """Return the lidar frames of the way."""
    sim = Simulation(world, config, RobotConfig())
    path, at = route(world, 14), 0
    frames: list[LidarFrame] = []
    while sim.time < limit and at < len(path) - 1:
        twist, at = steer(sim.pose, path, at)
        seen = sim.step(twist)
        if seen.lidar is not None:
            frames.append(seen.lidar.frame(len(frames) + 1, sim.time))
    return frames


def build(
    frames: list[LidarFrame], carving: str
) -> tuple[VoxelMapper, HeightCostmap, float, float]:
    """Return both maps, and the median CPU time [ms] of a frame in each."""
    voxels = VoxelMapper(SIZE, carving=carving, body_length=0.8, body_width=0.5)
    costmap = HeightCostmap(SIZE)
    add, update = [], []
    for frame in frames:
        started = time.process_time()
        voxels.add_frame(frame.points, frame.origin, pose=frame.pose)
        middle = time.process_time()
        costmap.update(voxels, voxels.take_changed())
        update.append(time.process_time() - middle)
        add.append(middle - started)
    return voxels, costmap, 1000.0 * float(np.median(add)), 1000.0 * float(np.median(update))


def wide(mask: Mask) -> Mask:
    """A mask and its eight neighbours."""
    padded = np.pad(mask, 1)
    rows, cols = mask.shape
    return np.logical_or.reduce(
        [padded[r : r + rows, c : c + cols] for r in range(3) for c in range(3)]
    )


def on_grid(
    values: NDArray[np.generic], geometry: GridGeometry, target: GridGeometry, fill: int
) -> NDArray[np.generic]:
    """Return a grid's values on another of the same cells."""
    out = np.full(target.shape, fill, values.dtype)
    row = round((geometry.origin[1] - target.origin[1]) / SIZE)
    col = round((geometry.origin[0] - target.origin[0]) / SIZE)
    rows, cols = np.indices(values.shape)
    rows, cols = rows + row, cols + col
    ok = (rows >= 0) & (rows < out.shape[0]) & (cols >= 0) & (cols < out.shape[1])
    out[rows[ok], cols[ok]] = values[ok]
    return out


def score(world: World, cost: NDArray[np.int8], target: GridGeometry) -> str:
    """Say what of the truth is lethal, and what else is."""
    high = world.truth_grid(SIZE, min_height=0.20, max_height=0.55)
    any_ = world.truth_grid(SIZE, min_height=0.05, max_height=0.70)
    solid = on_grid(high.occupancy, high.geometry, target, -1) > 0
    near_any = wide(on_grid(any_.occupancy, any_.geometry, target, -1) != 0)
    lethal, floor = cost == 100, (cost >= 0) & (cost < 100) & ~solid
    faces = solid & wide(floor)
    return (
        f"obstacles {wide(lethal)[faces].mean():.3f} of {int(faces.sum())}, "
        f"false {int((lethal & ~near_any).sum())} of {int((cost >= 0).sum())}"
    )


def picture(
    world: World, voxels: VoxelMapper, costmap: HeightCostmap, target: GridGeometry
) -> NDArray[np.uint8]:
    """Truth, voxels and height cost side by side, +x right and +y up, BGR."""
    truth = world.truth_grid(SIZE)
    occupancy = on_grid(truth.occupancy, truth.geometry, target, -1)
    panels = [np.full((*target.shape, 3), 140, np.uint8) for _ in range(3)]
    panels[0][occupancy == 0] = 255
    panels[0][occupancy > 0] = 20

    points = voxels.points()
    points = points[(points[:, 2] > -0.3) & (points[:, 2] < 1.0)]
    points = points[np.argsort(points[:, 2])]
    rows, cols = target.cells_from_world(points[:, :2]).T
    shade = np.clip((points[:, 2] + 0.1) / 1.1 * 255.0, 0.0, 255.0).astype(np.uint8)
    inside = (rows >= 0) & (rows < target.shape[0]) & (cols >= 0) & (cols < target.shape[1])
    colours = cv2.applyColorMap(shade[:, None], cv2.COLORMAP_VIRIDIS)[:, 0]
    panels[1][rows[inside], cols[inside]] = colours[inside]

    cost = on_grid(costmap.cost(), costmap.geometry, target, -1)
    inferred = on_grid(costmap.inferred().astype(np.uint8), costmap.geometry, target, 0) > 0
    panels[2][cost == 0] = 255
    rough = (cost > 0) & (cost < 100)
    panels[2][rough, 0] = (200 - 3 * cost[rough].astype(int)).clip(0)
    panels[2][rough, 1] = (240 - 2 * cost[rough].astype(int)).clip(0)
    panels[2][rough, 2] = 255
    panels[2][inferred] = (250, 215, 170)
    panels[2][cost == 100] = 20
    gap = np.full((target.shape[0], 6, 3), 255, np.uint8)
    image = np.hstack([panels[0], gap, panels[1], gap, panels[2]])[::-1]
    scale = max(1, round(1000 / image.shape[1]))
    return np.repeat(np.repeat(image, scale, axis=0), scale, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS))
    parser.add_argument("--seconds", type=float, default=240.0, help="simulated, at most")
    parser.add_argument("--base", default="kinematic")
    parser.add_argument("--lidar", default="l1")
    parser.add_argument("--people", action="store_true")
    options = parser.parse_args()
    warm_up()
    for name in options.worlds:
        world = make_world(name, 1, people=options.people)
        config = MujocoConfig(
            world=name,
            seed=1,
            lidar=options.lidar,
            drift="off",
            base=options.base,
            camera="off",
            fast=True,
        )
        frames = drive(world, config, options.seconds)
        truth = world.truth_grid(SIZE)
        for carving in ("columns", "line_of_sight", "none"):
            voxels, costmap, add, update = build(frames, carving)
            cost = on_grid(costmap.cost(), costmap.geometry, truth.geometry, -1)
            print(
                f"{name:<10} {options.base} {options.lidar} {carving:<13} {len(frames)} frames: "
                f"{score(world, cost, truth.geometry)}; "
                f"{len(voxels)} voxels, {add:.2f} + {update:.2f} ms",
                flush=True,
            )
            if carving == "line_of_sight":
                image = picture(world, voxels, costmap, truth.geometry)
                options.out.mkdir(parents=True, exist_ok=True)
                path = options.out / f"mapping_voxels_{name}.png"
                cv2.imwrite(str(path), image, [cv2.IMWRITE_PNG_COMPRESSION, 9])


if __name__ == "__main__":
    main()
