"""How well the robot drives: goals in simulated worlds, in lock-step, judged by the simulation's truth.

    python -m benchmarks.navigation                              every world, 5 goals each, into unknown floor
    python -m benchmarks.navigation --world office --goals 30 --known
    python -m benchmarks.navigation --scene crossings --goals 20
    python -m benchmarks.navigation --scene drop --goals 30
    python -m benchmarks.navigation --scene doors

The pieces are those of the actors: mapper and costmap, router, goal's life, motion gate, follower and collision
monitor. Only Ray, processes and clocks are left out: everything happens at a moment of simulated time, so the same
seeds print the same figures.

Each goal begins with a fresh robot at the world's start, unless `--chain` has it drive from goal to goal with the
odometry that it has by then. With `--known` the map is there before: that of a tour which knew its place. The
shortest feasible way keeps 0.30 m from everything on the truth grid. Clearance is that of the body's rectangle.
"""

import argparse
import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.judge import Judge
from benchmarks.lockstep import (
    Drive,
    Navigator,
    Robot,
    changed,
    make_config,
    make_router,
    wait_for_map,
)
from rhino_actors.config import RhinoConfig
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, Walk, World
from rhino_actors.geometry import compose, inverse
from rhino_actors.mapping import warm_up as warm_up_mapping
from rhino_actors.messages.navigation import GoalRequest, NavState
from rhino_actors.planning import cost_to_go, plan_path

CLIENT = "benchmark"
PERSON_RADIUS = 0.17  # [m] of the trunk
TOUR_STEP, TOUR_TICKS = 0.06, 3  # [m], ticks: the pace of the tour that makes a known map
TIME_LIMIT = 3.0  # times the fair time, and 30 s, after which a goal is given up


@dataclass
class Result:
    """A drive and what the judge says of it."""

    world: str
    seed: int
    drive: Drive
    goal: tuple[float, float]  # in the world
    success: bool
    walls: int
    persons: int
    falls: int
    length: float
    shortest: float
    seconds: float
    fair: float  # [s] shortest way at cruise speed
    clearance: float  # [m] mean
    least: float  # [m]
    people: float
    still: float  # [s] without a reason
    held: float  # [s] before something
    error: float  # [m] true distance to the goal at the end
    trace: list[tuple[float, float]]


def judge_drive(
    navigator: Navigator, judge: Judge, goal: tuple[float, float], *, seed: int, world: World
) -> Result:
    """Drive to a goal given in the world, as a person would click it on the robot's map, and judge it."""
    robot = navigator.robot
    judge.clear()
    start = robot.sim.pose
    map_from_world = compose(robot.map_pose.as_tuple(), inverse(start.as_tuple()))
    x, y, _ = compose(map_from_world, (*goal, 0.0))
    shortest = judge.shortest((start.x, start.y), goal)
    fair = shortest / robot.config.follower.cruise_speed
    began = robot.now
    drive = navigator.drive(
        GoalRequest(x, y, client=CLIENT), limit=TIME_LIMIT * fair + 30.0, watch=judge.step
    )
    walls, persons, falls = judge.contacts()
    clearances = judge.clearances or [judge.clearance()]
    return Result(
        world.name,
        seed,
        drive,
        goal,
        drive.state is NavState.ARRIVED,
        walls,
        persons,
        falls,
        judge.length,
        shortest,
        robot.now - began,
        fair,
        float(np.mean(clearances)),
        float(np.min(clearances)),
        judge.people,
        judge.still,
        judge.held,
        math.dist(robot.sim.position[:2], goal),
        judge.trace,
    )


def draw_goals(
    world: World, count: int, seed: int, *, least: float = 3.0
) -> list[tuple[float, float]]:
    """Return places that a body of 0.35 m radius can get to, at least so far [m] from the start as the crow flies."""
    truth = world.truth_grid(robot_radius=0.35)
    cells = np.argwhere(truth.reachable)
    places = truth.geometry.world_from_cells(cells)
    places = places[np.hypot(places[:, 0], places[:, 1]) >= least]
    rng = np.random.default_rng([seed, 17])
    return [tuple(places[i]) for i in rng.choice(len(places), count, replace=False)]  # type: ignore[misc]


def known_state(
    world: World, config: RhinoConfig, cache: Path | None = None
) -> dict[str, NDArray[np.generic]]:
    """Return the mapper's state after a tour that knew its place: a kinematic base without drift, led by the truth.

    With `cache`, a folder, tours are kept there and not made twice.
    """
    kept = None
    if cache is not None:
        kept = cache / f"tour_{world.name}_{world.seed}_{config.mujoco.lidar}.npz"
        if kept.exists():
            return dict(np.load(kept))
    led = dataclasses.replace(config.mujoco, base="kinematic", drift="off", faults="")
    robot = Robot(dataclasses.replace(world, people=()), dataclasses.replace(config, mujoco=led))
    data = robot.sim.data
    last = (0.0, 0.0)
    for place in _tour(world):
        if math.dist(place, last) < TOUR_STEP:
            continue
        heading = math.atan2(place[1] - last[1], place[0] - last[0])
        turn = math.remainder(heading - float(data.qpos[2]), math.tau)
        data.qpos[:2] = place
        data.qpos[2] += max(-0.25, min(0.25, turn))
        data.qvel[:] = 0.0
        last = place
        for _ in range(TOUR_TICKS):
            robot.step()
    state = robot.mapping.layers.state()
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(kept, **state)
    return state


def _tour(world: World) -> list[tuple[float, float]]:
    """Return places [m] along a way from which nearly all floor is seen, always to the nearest that shows more."""
    from benchmarks.sim_scoring import Sight

    sight = Sight(world, robot_radius=0.30)
    costmap = np.where(sight.reachable, 0, 254).astype(np.uint8)
    stride = round(1.0 / sight.geometry.resolution)
    grid = np.argwhere(sight.reachable[::stride, ::stride]) * stride
    seen = [sight.seen(*sight.geometry.world_from_cell(int(r), int(c))) for r, c in grid]
    covered = np.zeros(sight.reachable.size, np.bool_)
    cell = sight.geometry.cell_from_world(0.0, 0.0)
    places = [(0.0, 0.0)]
    left = np.ones(len(grid), np.bool_)
    while left.any():
        left &= np.array([np.count_nonzero(~covered[cells]) > 60 for cells in seen])
        way = cost_to_go(costmap, [cell], cost_weight=0.0)[grid[:, 0], grid[:, 1]]
        way[~left] = np.inf
        best = int(np.argmin(way))
        if not np.isfinite(way[best]):
            break
        target = (int(grid[best, 0]), int(grid[best, 1]))
        for step in plan_path(costmap, cell, target, cost_weight=0.0).cells:
            places.append(sight.geometry.world_from_cell(int(step[0]), int(step[1])))
            covered[sight.seen(*places[-1])] = True
        cell = target
        left[best] = False
    return places


def run_world(
    name: str,
    goals: int,
    *,
    config: RhinoConfig,
    seed: int = 1,
    known: bool = False,
    chain: int = 1,
    people: bool = True,
    cache: Path | None = None,
    tell: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Drive to `goals` goals of one world; `chain` of them one after the other by the same robot."""
    world = make_world(name, seed, people=people)
    state = known_state(world, config, cache) if known else None
    router = make_router(config)
    results: list[Result] = []
    places = draw_goals(world, goals, seed)
    for first in range(0, goals, chain):
        drawn = dataclasses.replace(config.mujoco, seed=1000 * seed + first)
        robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
        if state is not None:
            robot.mapping.layers.restore(state)
        judge = Judge(robot, world)
        navigator = Navigator(robot, router)
        wait_for_map(robot)
        for goal in places[first : first + chain]:
            results.append(judge_drive(navigator, judge, goal, seed=seed, world=world))
            tell(results[-1])
    return results


HEADER = (
    f"{'world':<12}{'goal':>14}{'result':>11}{'way':>7}{'/short':>7}{'time':>7}{'/fair':>6}"
    f"{'clear':>7}{'least':>6}{'touch':>6}{'pers':>5}{'fall':>5}{'still':>6}{'held':>6}{'plans':>6}{'sent':>5}{'rec':>4}{'err':>6}"
)


def line(r: Result) -> str:
    """Return a drive as a line of the table."""
    place = f"({r.goal[0]:.1f},{r.goal[1]:.1f})"
    end = "arrived" if r.success else (r.drive.reason or r.drive.state)[:10]
    return (
        f"{r.world:<12}{place:>14}{end:>11}{r.length:>6.1f}m{r.length / max(r.shortest, 0.1):>7.2f}"
        f"{r.seconds:>6.1f}s{r.seconds / max(r.fair, 0.1):>6.2f}{r.clearance:>6.2f}m{r.least:>6.2f}"
        f"{r.walls:>6}{r.persons:>5}{r.falls:>5}{r.still:>5.1f}s{r.held:>5.1f}s{r.drive.plans:>6}{r.drive.sent:>5}"
        f"{r.drive.recoveries:>4}{r.error:>5.2f}m"
    )


def summary(results: list[Result]) -> str:
    """Return the figures of many drives."""
    done = [r for r in results if r.success] or results
    ways = sum(r.length for r in done) / max(0.1, sum(r.shortest for r in done))
    times = sum(r.seconds for r in done) / max(0.1, sum(r.fair for r in done))
    plans = np.array([t for r in results for t in r.drive.plan_times] or [0.0])
    twists = np.array([r.drive.first_twist for r in results])
    return (
        f"{len(results)} goals: success {100.0 * np.mean([r.success for r in results]):.1f} %, "
        f"contacts with walls {sum(r.walls for r in results)}, people {sum(r.persons for r in results)}, "
        f"falls {sum(r.falls for r in results)}; way {ways:.2f} of the shortest, "
        f"time {times:.2f} of the fair; clearance mean {np.mean([r.clearance for r in done]):.2f} m, "
        f"least {min(r.least for r in results):.2f} m; person nearest {min(r.people for r in results):.2f} m; "
        f"stood {sum(r.still for r in results):.1f} s for nothing, "
        f"{sum(r.held for r in results):.1f} s before something; "
        f"recoveries {sum(r.drive.recoveries for r in results)}; "
        f"plan CPU p50 {1000 * np.median(plans):.1f}, p95 {1000 * np.quantile(plans, 0.95):.1f} ms; "
        f"first twist p95 {np.nanquantile(twists, 0.95) if np.isfinite(twists).any() else math.nan:.2f} s"
    )


def open_world(
    boxes: tuple[Box, ...] = (), people: tuple[Walk, ...] = (), half: float = 8.0
) -> World:
    """Return a hall of 24 m by twice `half` [m] with walls, and what is put into it."""
    floor = Material("floor", "checker", (0.5, 0.5, 0.5), (0.4, 0.4, 0.4))
    edge = half + 0.1
    sides = (
        (8.0, -edge, 24.2, 0.2),
        (8.0, edge, 24.2, 0.2),
        (-4.1, 0.0, 0.2, 2.0 * edge),
        (20.1, 0.0, 0.2, 2.0 * edge),
    )
    walls = tuple(
        Box(f"wall_{i}", (x, y, 1.0), (sx, sy, 2.0)) for i, (x, y, sx, sy) in enumerate(sides)
    )
    interior = (-4.0, -half, 20.0, half)
    return World("hall", 0, (*walls, *boxes), (floor,), (), interior, people=people)


def door_world(width: float, angle: float, offset: float) -> World:
    """Return a hall with a wall across the way, a door in it: `angle` [rad] of the wall, `offset` [m] of the door."""
    cos, sin = math.cos(angle), math.sin(angle)
    boxes = []
    for name, side in (("left", 1.0), ("right", -1.0)):
        half = 9.0
        along = side * (width / 2.0 + half) + offset
        center = (3.0 - sin * along, cos * along, 1.0)
        boxes.append(Box(f"door_{name}", center, (0.2, 2.0 * half, 2.0), yaw=angle))
    return open_world(tuple(boxes), half=4.0)


def run_doors(
    config: RhinoConfig, tell: Callable[[str], None]
) -> list[tuple[float, float, float, Result]]:
    """Drive through doors of 0.8 m and at gaps of 0.55 m, at several angles and offsets."""
    router = make_router(config)
    results = []
    for width in (0.8, 0.55):
        for angle in (0.0, math.pi / 8, math.pi / 4):
            for offset in (0.0, 0.013, 0.025):
                world = door_world(width, angle, offset)
                drawn = dataclasses.replace(config.mujoco, seed=int(1000 * (angle + offset)) + 7)
                robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
                navigator, judge = Navigator(robot, router), Judge(robot, world)
                wait_for_map(robot)
                goal = (6.0, 0.0)
                if width < 0.6:
                    judge.costmap = np.zeros_like(judge.costmap)
                result = judge_drive(navigator, judge, goal, seed=0, world=world)
                results.append((width, angle, offset, result))
                good = result.success == (width > 0.6)
                verdict = "right" if good else "WRONG"
                place = f"{width:.2f} m at {math.degrees(angle):.0f} deg, {offset:.3f} m off"
                tell(f"{place}: {verdict} {line(result)}")
    return results


def crossing_world(seed: int) -> World:
    """Return a hall in which three people walk to and fro across the robot's way."""
    rng = np.random.default_rng([seed, 23])
    walks = []
    for x in (3.0, 6.0, 9.0):
        at = x + float(rng.uniform(-0.8, 0.8))
        far = float(rng.uniform(2.0, 4.0))
        side = float(rng.choice((-1.0, 1.0)))
        lean = float(rng.uniform(-0.8, 0.8))
        walks.append(
            Walk(((at, side * far), (at + lean, -side * far)), speed=float(rng.uniform(0.6, 1.2)))
        )
    return open_world(people=tuple(walks))


def run_crossings(
    config: RhinoConfig, count: int, tell: Callable[[str], None]
) -> tuple[int, list[Result]]:
    """Drive `count` times through crossing people; return the crossings within 2.5 m of the robot, and the drives."""
    router = make_router(config)
    results, crossings = [], 0
    for seed in range(count):
        world = crossing_world(seed)
        drawn = dataclasses.replace(config.mujoco, seed=seed)
        robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
        navigator, judge = Navigator(robot, router), Judge(robot, world)
        wait_for_map(robot, 2.5 + 0.37 * (seed % 7))
        count_crossings = watch_crossings(judge)
        result = judge_drive(navigator, judge, (12.0, 0.0), seed=seed, world=world)
        found = count_crossings()
        crossings += found
        results.append(result)
        tell(f"{found} crossings, nearest {result.people:.2f} m {line(result)}")
    return crossings, results


def watch_crossings(judge: Judge) -> Callable[[], int]:
    """Have the judge count who crosses the robot's course within 2.5 m, and return what tells the count."""
    robot, step = judge.robot, judge.step
    sides: dict[int, float] = {}
    found = 0

    def watch() -> None:
        nonlocal found
        step()
        pose = robot.sim.pose
        for index, (x, y, _) in enumerate(robot.sim.truth(0.0).people):
            _, across, _ = compose(inverse(pose.as_tuple()), (x, y, 0.0))
            near = math.dist((x, y), (pose.x, pose.y)) < 2.5
            found += near and sides.get(index, across) * across < 0.0
            sides[index] = across

    judge.step = watch  # type: ignore[method-assign]
    return lambda: found


def put_person_ahead(judge: Judge, *, at: float, off: float) -> None:
    """Have the world's one person stand 1.5 m before the robot's nose as soon as it passes x = `at` [m].

    Args:
        judge: whose `step` is called each tick.
        at: [m] in the world.
        off: [m] of the person to the left of the robot's course.
    """
    robot, step = judge.robot, judge.step
    done = False

    def watch() -> None:
        nonlocal done
        step()
        pose = robot.sim.pose
        if not done and pose.x >= at:
            done = True
            ahead = robot.config.robot.length / 2.0 + 1.5 + PERSON_RADIUS
            x, y, _ = compose(pose.as_tuple(), (ahead, off, 0.0))
            robot.sim.put_person(0, x, y)

    judge.step = watch  # type: ignore[method-assign]


def run_drops(config: RhinoConfig, count: int, tell: Callable[[str], None]) -> list[Result]:
    """Put a person 1.5 m ahead of the robot in full drive, `count` times, and see whether it touches him."""
    router = make_router(config)
    results = []
    for seed in range(count):
        world = open_world(people=(Walk(((18.0, 7.0), (18.0, 7.1)), speed=1e-6),))
        drawn = dataclasses.replace(config.mujoco, seed=seed)
        robot = Robot(world, dataclasses.replace(config, mujoco=drawn))
        navigator, judge = Navigator(robot, router), Judge(robot, world)
        wait_for_map(robot)
        put_person_ahead(judge, at=2.0 + 0.1 * (seed % 10), off=0.12 * math.sin(seed))
        result = judge_drive(navigator, judge, (9.0, 0.0), seed=seed, world=world)
        results.append(result)
        tell(f"nearest {result.people:.2f} m {line(result)}")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--scene", default="worlds", choices=("worlds", "doors", "crossings", "drop")
    )
    parser.add_argument(
        "--world", action="append", help="name, or path of a ROS map; may be repeated"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--goals", type=int, default=5, help="goals of a world, or runs of a scene")
    parser.add_argument(
        "--chain", type=int, default=1, help="goals that one robot drives to in a row"
    )
    parser.add_argument("--known", action="store_true", help="with the map of a tour")
    parser.add_argument("--cache", type=Path, help="folder in which the maps of tours are kept")
    parser.add_argument("--body", default="walking", choices=("walking", "kinematic"))
    parser.add_argument("--lidar", default="l1", choices=("l1", "scan", "ideal"))
    parser.add_argument("--drift", default="default", choices=("off", "default", "harsh"))
    parser.add_argument("--no-people", action="store_true")
    parser.add_argument(
        "--set", action="append", default=[], help="section.key=value of the configuration"
    )
    parser.add_argument("--events", action="store_true", help="print what happened to each goal")
    arguments = parser.parse_args()
    config = make_config(body=arguments.body, lidar=arguments.lidar, drift=arguments.drift)
    for setting in arguments.set:
        config = changed(config, setting)
    make_router(config).warm_up()
    warm_up_mapping()

    def tell(result: Result) -> None:
        print(line(result), flush=True)
        if arguments.events:
            for event in result.drive.events:
                print("    ", event, flush=True)
            print("     paths:", dict(result.drive.reasons), flush=True)

    def say(text: str) -> None:
        print(text, flush=True)

    if arguments.scene == "doors":
        found = run_doors(config, say)
        print(
            f"right: {sum(r.success == (w > 0.6) and r.walls == 0 for w, _, _, r in found)} of {len(found)}"
        )
        return
    if arguments.scene == "crossings":
        crossings, results = run_crossings(config, arguments.goals, say)
        print(f"{crossings} crossings; {summary(results)}")
        return
    if arguments.scene == "drop":
        print(summary(run_drops(config, arguments.goals, say)))
        return
    print(HEADER)
    everything: list[Result] = []
    for name in arguments.world or list(WORLDS):
        results = run_world(
            name,
            arguments.goals,
            config=config,
            seed=arguments.seed,
            known=arguments.known,
            chain=arguments.chain,
            people=not arguments.no_people,
            cache=arguments.cache,
            tell=tell,
        )
        print(f"{name}: {summary(results)}", flush=True)
        everything += results
    if len(everything) > len(results):
        print(f"all: {summary(everything)}")


if __name__ == "__main__":
    main()
