"""How good the map is: the simulated Go2 walks a world in lock-step, and its map is held against the truth.

    python -m benchmarks.map_quality                               every world, L1 lidar, walking, drift off
    python -m benchmarks.map_quality --world office --drift default --seconds 120
    python -m benchmarks.map_quality --pictures docs/images        also draw each map beside the truth

The way is a tour that sees the whole world, walked on the true pose, so that runs with and without drift walk the
same way. Equal options give equal frames. They are kept in `--cache` and replayed: a change of the mapper is measured
on the very same frames.

Of each map: IoU of occupied cells, where a cell counts as found when one of the other map lies within one cell;
precision and recall of the same; the share of floor that is called occupied, the share of obstacles called free,
and the share of the floor seen from the way that is known free. Only what was within reach of the way counts.
`doors` is the share of the reachable floor seen that can still be reached on the map with the robot's radius.
"""

import argparse
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.sim_scoring import Sight, greedy_tour
from rhino_actors.config import FollowerConfig, MapperConfig, MujocoConfig, RobotConfig
from rhino_actors.control.path_follower import PathFollower
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.drivers.mujoco.worlds.scene import World, flood
from rhino_actors.mapping import MapLayers, inflate, warm_up
from rhino_actors.mapping.loop_mapping import LoopMapping
from rhino_actors.mapping.whereabouts import Whereabouts
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.grid import NO_CORRECTION, GridGeometry, MapLayer, MapSnapshot
from rhino_actors.messages.localisation import DriftMode
from rhino_actors.messages.map_patch import MapReader
from rhino_actors.messages.sensors import LidarFrame, LidarKind

OCCUPIED_FROM = 65  # occupancy
REACH = 2.5  # [m] from the way: what the map is judged on
SPACING = 0.1  # [m] of the way's points
ROBOT_RADIUS = 0.30  # [m]


class Recording(NamedTuple):
    """The frames of a walk, and where the robot really was at each."""

    frames: list[LidarFrame]
    truth: NDArray[np.float64]  # (N, 3) x, y, yaw in the world
    people: NDArray[np.float64]  # (M, 2) places of people at the end [m]


def record(world: World, config: MujocoConfig, seconds: float) -> Recording:
    """Walk the tour of a world in lock-step."""
    tour = greedy_tour(Sight(world, robot_radius=ROBOT_RADIUS))
    points = np.array(tour.places)[:: round(SPACING / 0.05)]
    follower = PathFollower(FollowerConfig())
    follower.set_path(points, None)
    sim = Simulation(world, config, RobotConfig())
    frames: list[LidarFrame] = []
    truth: list[tuple[float, float, float]] = []
    twist = Twist2D()
    while sim.time < seconds:
        observation = sim.step(twist)
        if observation.lidar is not None:
            frames.append(observation.lidar.frame(len(frames) + 1, sim.time))
            truth.append(sim.pose.as_tuple())
        step = follower.step(sim.pose, speed=twist.vx, dt=sim.tick)
        twist = step.twist
        if step.arrived:
            break
    people = [person[:2] for person in sim.truth(0.0).people]
    return Recording(frames, np.array(truth), np.array(people).reshape(-1, 2))


def recorded(folder: Path, world: World, config: MujocoConfig, seconds: float) -> Recording:
    """Return a walk from the cache, or walk it and keep it."""
    name = f"{world.name}-{world.seed}-{config.lidar}-{config.base}-{config.drift}-{seconds:g}.npz"
    path = folder / name
    if not path.exists():
        made = record(world, config, seconds)
        folder.mkdir(parents=True, exist_ok=True)
        counts = [len(frame.points) for frame in made.frames]
        np.savez_compressed(
            path,
            points=np.concatenate([frame.points for frame in made.frames]),
            counts=counts,
            poses=[frame.pose.as_tuple() for frame in made.frames],
            origins=[frame.origin for frame in made.frames],
            stamps=[frame.stamp for frame in made.frames],
            resolution=made.frames[0].resolution,
            kind=str(made.frames[0].kind),
            truth=made.truth,
            people=made.people,
        )
    with np.load(path) as kept:
        clouds = np.split(kept["points"], np.cumsum(kept["counts"])[:-1])
        frames = [
            LidarFrame(
                seq=index + 1,
                stamp=float(stamp),
                points=points,
                origin=(float(origin[0]), float(origin[1]), float(origin[2])),
                pose=Pose2D(*map(float, pose)),
                resolution=float(kept["resolution"]),
                kind=LidarKind(str(kept["kind"])),
            )
            for index, (stamp, points, origin, pose) in enumerate(
                zip(kept["stamps"], clouds, kept["origins"], kept["poses"], strict=True)
            )
        ]
        return Recording(frames, kept["truth"], kept["people"])


def build_map(walk: Recording, config: MapperConfig) -> tuple[MapSnapshot, float]:
    """Fuse a walk as the mapper actor does, publishing every frame; return the map and the CPU time a frame [ms]."""
    layers, reader = MapLayers(config, RobotConfig()), MapReader()
    whereabouts, map_from_odom = Whereabouts(config, RobotConfig()), NO_CORRECTION
    loops = LoopMapping.of(config, RobotConfig())
    began = time.thread_time()
    for seq, frame in enumerate(walk.frames, 1):
        map_from_odom, _ = whereabouts.place(frame, map_from_odom, layers.read)
        layers.integrate(frame, map_from_odom)
        if loops is not None:
            loops.add_frame(frame, map_from_odom)
            map_from_odom = loops.close_now(layers, map_from_odom)
        layers.update_tiles(seq)
    spent = 1000.0 * (time.thread_time() - began) / len(walk.frames)
    patch = layers.tiles.patch(0, epoch=1, seq=len(walk.frames), stamp=0.0, known_area=0.0)
    return reader.take(patch), spent


@dataclass
class Quality:
    """What a map is worth, in shares of one."""

    iou: float
    precision: float
    recall: float
    floor_blocked: float  # of the floor, called occupied
    walls_open: float  # of the obstacles' cells, called free
    floor_known: float  # of the floor in sight, called free
    doors: float  # of the reachable floor in sight, still reachable


def on_truth(
    occupancy: NDArray[np.int8], geometry: GridGeometry, truth: GridGeometry
) -> NDArray[np.int8]:
    """Return a map cut to the cells of the truth, -1 where it has none."""
    cut = np.full(truth.shape, -1, np.int8)
    row = round((geometry.origin[1] - truth.origin[1]) / truth.resolution)
    col = round((geometry.origin[0] - truth.origin[0]) / truth.resolution)
    rows, cols = geometry.shape
    r0, r1 = max(row, 0), min(row + rows, truth.shape[0])
    c0, c1 = max(col, 0), min(col + cols, truth.shape[1])
    if r0 < r1 and c0 < c1:
        cut[r0:r1, c0:c1] = occupancy[r0 - row : r1 - row, c0 - col : c1 - col]
    return cut


def wide(cells: NDArray[np.bool_], radius: int = 1) -> NDArray[np.bool_]:
    """Return the cells and those within so many cells of them."""
    kernel = np.ones((2 * radius + 1, 2 * radius + 1), np.uint8)
    return cv2.dilate(cells.astype(np.uint8), kernel).astype(np.bool_)


def seen_from(sight: Sight, way: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return the reachable cells within reach of the way and in its sight."""
    seen = np.zeros(sight.reachable.shape, np.bool_)
    last = (math.inf, math.inf)
    for x, y, _ in way:
        if math.dist(last, (x, y)) < 0.2:
            continue
        last = (x, y)
        cells = sight.seen(x, y)
        row, col = np.unravel_index(cells, seen.shape)
        row0, col0 = sight.geometry.cell_from_world(x, y)
        near = np.hypot(row - row0, col - col0) <= REACH / sight.geometry.resolution
        seen[row[near], col[near]] = True
    return seen


def quality(
    world: World, occupancy: NDArray[np.int8], geometry: GridGeometry, walk: Recording
) -> Quality:
    """Hold a map against the truth of its world."""
    truth = world.truth_grid(robot_radius=ROBOT_RADIUS)
    sight = Sight(world, robot_radius=ROBOT_RADIUS)
    floor = seen_from(sight, walk.truth)
    grid = on_truth(occupancy, geometry, truth.geometry)
    wall = truth.occupancy > 0
    # Faces of obstacles beside the floor in sight: the inside of a wall is never seen.
    faces = wall & wide(floor, round((ROBOT_RADIUS + 0.1) / 0.05)) & wide(~wall)
    judged = wide(floor, round((ROBOT_RADIUS + 0.1) / 0.05))
    for x, y in walk.people:
        row, col = truth.geometry.cell_from_world(x, y)
        reach = round(1.5 / 0.05)  # where someone is now, or was 2 s ago, is no error
        judged[max(0, row - reach) : row + reach, max(0, col - reach) : col + reach] = False
    faces &= judged
    marked = (grid >= OCCUPIED_FROM) & judged
    found_faces = faces & wide(grid >= OCCUPIED_FROM)
    right = marked & wide(wall)
    union = np.count_nonzero(faces) + np.count_nonzero(marked & ~wide(wall))
    open_floor = judged & ~wall & ~wide(wall)
    passable = ~wall_grown(grid)
    start = truth.geometry.cell_from_world(0.0, 0.0)
    reached = flood(passable, start) if passable[start] else np.zeros_like(passable)
    inner = (grid >= 0) & (grid < OCCUPIED_FROM)
    return Quality(
        iou=np.count_nonzero(found_faces) / max(1, union),
        precision=np.count_nonzero(right) / max(1, np.count_nonzero(marked)),
        recall=np.count_nonzero(found_faces) / max(1, np.count_nonzero(faces)),
        floor_blocked=np.count_nonzero(open_floor & marked) / max(1, np.count_nonzero(open_floor)),
        walls_open=np.count_nonzero(faces & inner & ~found_faces) / max(1, np.count_nonzero(faces)),
        floor_known=np.count_nonzero(floor & inner) / max(1, np.count_nonzero(floor)),
        doors=np.count_nonzero(floor & reached) / max(1, np.count_nonzero(floor)),
    )


def wall_grown(grid: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Return what the planner does not pass: obstacles grown by 0.25 m, and unknown cells."""
    costs = inflate(
        grid, resolution=0.05, inscribed_radius=0.25, inflation_radius=0.3, cost_scaling_factor=4.0
    )
    return costs >= 253


def picture(
    world: World, occupancy: NDArray[np.int8], geometry: GridGeometry, walk: Recording
) -> NDArray[np.uint8]:
    """Return the map on the left and the truth on the right, the way drawn in both."""
    truth = world.truth_grid(robot_radius=ROBOT_RADIUS)
    panes = []
    for cells in (on_truth(occupancy, geometry, truth.geometry), truth.occupancy):
        pane = np.full((*cells.shape, 3), 205, np.uint8)
        pane[(cells >= 0) & (cells < OCCUPIED_FROM)] = 254
        pane[cells >= OCCUPIED_FROM] = 0
        for x, y, _ in walk.truth:
            row, col = truth.geometry.cell_from_world(x, y)
            if truth.geometry.contains(row, col):
                pane[row, col] = (220, 120, 40)
        panes.append(pane[::-1])
    gap = np.full((panes[0].shape[0], 8, 3), 255, np.uint8)
    return np.hstack([panes[0], gap, panes[1]])


HEADER = (
    f"{'world':<12}{'way':>7}{'frames':>8}{'IoU':>7}{'prec':>7}{'recall':>8}{'blocked':>9}{'open':>7}"
    f"{'known':>7}{'doors':>7}{'ms':>7}"
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", action="append", choices=tuple(WORLDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300.0, help="simulated")
    parser.add_argument("--base", default="walking", choices=("walking", "kinematic"))
    parser.add_argument("--lidar", default="l1", choices=("l1", "scan", "ideal"))
    parser.add_argument("--drift", default="off", choices=("off", "default", "harsh"))
    parser.add_argument(
        "--drift-correction", default="none", choices=tuple(DriftMode), help="as the mapper's"
    )
    parser.add_argument("--layers", default="occupancy", choices=tuple(MapLayer))
    parser.add_argument("--carving", default=MapperConfig().carving)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "rhino-walks"))
    parser.add_argument("--pictures", type=Path, help="folder for map_<world>.png")
    arguments = parser.parse_args()
    warm_up()
    print(HEADER)
    for name in arguments.world or list(WORLDS):
        world = make_world(name, arguments.seed)
        config = MujocoConfig(
            world=name,
            seed=arguments.seed,
            base=arguments.base,
            lidar=arguments.lidar,
            drift=arguments.drift,
        )
        walk = recorded(arguments.cache, world, config, arguments.seconds)
        settings = MapperConfig(
            layers=MapLayer(arguments.layers),
            carving=arguments.carving,
            drift_correction=DriftMode(arguments.drift_correction),
        )
        snapshot, spent = build_map(walk, settings)
        grid, geometry = snapshot.occupancy, snapshot.geometry
        q = quality(world, grid, geometry, walk)
        way = float(np.hypot(*np.diff(walk.truth[:, :2], axis=0).T).sum())
        print(
            f"{name:<12}{way:>6.0f}m{len(walk.frames):>8}{q.iou:>7.3f}{q.precision:>7.3f}{q.recall:>8.3f}"
            f"{100 * q.floor_blocked:>8.2f}%{100 * q.walls_open:>6.2f}%{q.floor_known:>7.3f}{q.doors:>7.3f}"
            f"{spent:>7.2f}",
            flush=True,
        )
        if arguments.pictures:
            arguments.pictures.mkdir(parents=True, exist_ok=True)
            path = arguments.pictures / f"map_{name}.png"
            cv2.imwrite(str(path), picture(world, grid, geometry, walk))


if __name__ == "__main__":
    main()
