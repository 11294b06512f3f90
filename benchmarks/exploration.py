"""How well the robot explores: whole explorations of simulated worlds, in lock-step, judged by the truth.

    python -m benchmarks.exploration --results runs.jsonl                 four worlds, seeds 0 to 19
    python -m benchmarks.exploration --results runs.jsonl --world maze --seeds 0:5 --processes 2
    python -m benchmarks.exploration --results glide.jsonl --body kinematic --drift off
    python -m benchmarks.exploration --results runs.jsonl --pictures pictures
    python -m benchmarks.exploration --results runs.jsonl --table         only print what is in the file

The pieces are those of the actors: mission, router, goal's life, gate, follower, collision monitor, mapper. Each run
begins at the world's start with an empty map and ends when the mission does. It adds one line of JSON to the file of
results; what is there already, with the same setup, is not run again.

Coverage is the share of the reachable floor that the map knew (`benchmarks/coverage.py` says how that is counted);
`seen` the share that was within 3 m of the robot and in line of sight. The way is held against the greedy tour to 99 %
by a robot that knows the world (`benchmarks/sim_scoring.py`). Idle is the time from a goal's end until the robot is
moved again, 0 for a goal that the next one replaced under way. An end is the mission's own; a run that the benchmark
had to break off, or that raised, has none.
"""

import argparse
import dataclasses
import json
import math
import multiprocessing
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.coverage import KnownFloor, LeftPlace
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
from benchmarks.sim_scoring import Score, Sight, greedy_tour
from rhino_actors.config import RhinoConfig
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.errors import ControlError, PlanningError
from rhino_actors.exploration import warm_up as warm_up_exploration
from rhino_actors.exploration.explore_mission import ExploreMission
from rhino_actors.exploration.mission import Choice, Mission, Target
from rhino_actors.mapping import warm_up as warm_up_mapping
from rhino_actors.messages.grid import FREE
from rhino_actors.messages.missions import MissionState
from rhino_actors.messages.navigation import GoalRequest, NavState, Rank
from rhino_actors.planning.route import Router
from serve_app.images import overview_image

HOLDER = "explorer"
NO_PLAN_TIMEOUT_S = 60.0  # without a field of costs, after which the mission is interrupted
GOAL_CHECK_S = 0.1  # [s] between two looks at whether the goal is over, as the actor does
LOOK_S = 1.0  # [s] between two looks at what the map knows
PATIENCE = 6.0  # times the greedy tour at cruise speed, and 120 s, after which a run is broken off
BROKEN_OFF = "none"


class Explorer:
    """The explorer actor's side in lock-step: obeys one mission until it is over."""

    def __init__(self, navigator: Navigator, mission: Mission, router: Router) -> None:
        self.navigator = navigator
        self.robot = navigator.robot
        self.mission = mission
        self.router = router
        self.end: MissionState | None = None
        self.reason = ""
        self.choice = Choice()
        self.drives: list[Drive] = []
        self.targets: list[Target] = []  # of the drives
        self.ends: list[tuple[float, float]] = []  # where goals ended, in the world
        self.refused = 0
        self.gaps: list[float] = []  # [s] between goals
        self.choice_times: list[float] = []  # [s] of thread CPU, field of costs and choice
        self.epoch = self.robot.gate.claim(HOLDER, Rank.MISSION, self.robot.now)
        self._period = 1.0 / self.robot.config.explorer.seen_out_check_hz
        self._due = self._check_due = 0.0
        self._idle_since: float | None = None
        self._no_plan_since: float | None = None

    def step(self) -> None:
        """Look at how the mission goes, if it is time or the goal is over; to be called after the navigator's tick."""
        now = self.robot.now
        self._watch_idleness(now)
        if self.end is not None or now < self._check_due:
            return
        self._check_due = now + GOAL_CHECK_S
        goal_is_over = bool(self.mission.goal_id) and not self.navigator.is_driving
        if now < self._due and not goal_is_over:
            return
        self._due = max(self._due + self._period, now)
        if self.mission.goal_id and not self._goes_on(now):
            return
        try:
            choice = self._choose(now)
            self._no_plan_since = None
        except PlanningError as error:
            self._no_plan_since = now if self._no_plan_since is None else self._no_plan_since
            if now - self._no_plan_since > NO_PLAN_TIMEOUT_S:
                self._conclude(MissionState.INTERRUPTED, error.code)
            return
        self.choice = choice
        if choice.is_complete and choice.gave_up:
            self._conclude(MissionState.BLOCKED, "SKIPPED_AREAS")
        elif choice.is_complete:
            self._conclude(MissionState.COMPLETE, "NOTHING_LEFT")
        elif choice.target is not None:
            self._go(choice.target, now)
        elif choice.drop and self.mission.goal_id:
            self.navigator.cancel()
            self.mission.forget_goal()

    def _choose(self, now: float) -> Choice:
        snapshot, pose = self.robot.mapping.snapshot, self.robot.map_pose
        assert snapshot is not None
        began = time.thread_time()
        costs = self.router.costs_from(snapshot, pose)
        choice = self.mission.choose(snapshot, pose.as_tuple(), costs, now)
        self.choice_times.append(time.thread_time() - began)
        return choice

    def _goes_on(self, now: float) -> bool:
        """Take note of how the goal goes; return False when the mission goes no further."""
        nav = self.navigator.newest
        if not self.navigator.is_driving:
            self.ends.append(self.robot.sim.position[:2])
        if nav.state is NavState.ARRIVED:
            self.mission.arrived(now)
        elif nav.state is NavState.FAILED:
            self.mission.failed(now, nav.reason)
        elif nav.state is NavState.CANCELLED:
            self._conclude(MissionState.CANCELLED, nav.reason)
            return False
        return True

    def _go(self, target: Target, now: float) -> None:
        request = GoalRequest(
            target.x,
            target.y,
            target.yaw,
            HOLDER,
            Rank.MISSION,
            allow_unknown=True,
            epoch=self.epoch,
        )
        under_way = self.navigator.is_driving
        try:
            drive = self.navigator.navigate(request)
        except PlanningError as error:
            self.refused += 1
            self.mission.refused(target, now, error.code)
            return
        except ControlError as error:
            self._conclude(MissionState.CANCELLED, error.code)
            return
        if under_way and self._idle_since is None:
            self.gaps.append(0.0)
        self.drives.append(drive)
        self.targets.append(target)
        self.mission.sent(target, drive.goal_id)

    def _watch_idleness(self, now: float) -> None:
        last = self.navigator.newest
        if self._idle_since is None:
            if self.drives and not self.navigator.is_driving and not math.isnan(last.ended):
                self._idle_since = last.ended
        elif self.navigator.is_driving and not self.robot.twist.is_zero:
            self.gaps.append(now - self._idle_since)
            self._idle_since = None

    def _conclude(self, state: MissionState, reason: str) -> None:
        self.end, self.reason = state, reason
        self.navigator.cancel()
        self.mission.forget_goal()
        self.robot.gate.release(HOLDER, self.robot.now)


@dataclass(frozen=True)
class Setup:
    """What a run depends on."""

    world: str
    seed: int
    body: str = "walking"
    lidar: str = "l1"
    drift: str = "default"
    people: bool = True
    settings: tuple[str, ...] = ()  # section.key=value

    def config(self) -> RhinoConfig:
        """Return the configuration of the run."""
        config = make_config(
            self.world, seed=self.seed, body=self.body, lidar=self.lidar, drift=self.drift
        )
        for setting in self.settings:
            config = changed(config, setting)
        return config


@dataclass
class Result:
    """A run and what the truth says of it."""

    setup: Setup
    end: str = BROKEN_OFF  # a MissionState, or that there was none
    reason: str = ""
    coverage: float = 0.0
    seen: float = 0.0
    blocked: float = 0.0  # share of the reachable floor that the map has as occupied
    area: float = 0.0  # [m2] reachable
    length: float = 0.0  # [m]
    tour: float = math.nan  # [m] greedy, to 99 %
    seconds: float = 0.0  # simulated
    goals: int = 0
    arrived: int = 0
    failed: int = 0
    refused: int = 0
    superseded: int = 0
    gaps: list[float] = field(default_factory=list)  # [s]
    walls: int = 0
    persons: int = 0
    falls: int = 0
    least: float = math.inf  # [m] clearance
    nearest_person: float = math.inf  # [m] between the middles
    still: float = 0.0  # [s] with a path and nothing in the way
    held: float = 0.0  # [s] before something
    recoveries: int = 0
    odometry_error: float = 0.0  # [m] at the end
    choice_p50: float = 0.0  # [s] of CPU
    choice_p95: float = 0.0
    cpu: float = 0.0  # [s] of the whole run
    way_to: dict[str, float] = field(default_factory=dict)  # coverage in % to [m] of way
    left: list[LeftPlace] = field(default_factory=list)
    skipped: list[tuple[float, float, int, str]] = field(default_factory=list)  # x, y in the map
    failures: dict[str, int] = field(default_factory=dict)  # of goals, by reason
    # Goals: posted [s], [m] of way and coverage then, x, y [m] in the map, how it ended.
    log: list[tuple[float, float, float, float, float, str]] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Way against that of the greedy tour."""
        return self.length / self.tour

    @property
    def speed(self) -> float:
        """Simulated seconds per second of CPU."""
        return self.seconds / max(self.cpu, 1e-9)


def explore(setup: Setup, pictures: Path | None = None, limit: float | None = None) -> Result:
    """Explore one world from start to end and judge it.

    Args:
        setup: which, and how.
        pictures: folder for a picture of the run; None: none is made.
        limit: simulated time [s] after which the run is broken off; None: as the world is large.
    """
    began = time.thread_time()
    config = setup.config()
    world = make_world(setup.world, setup.seed, people=setup.people)
    sight = Sight(world, robot_radius=config.robot.inscribed_radius)
    tour = greedy_tour(sight)
    result = Result(setup, tour=tour.path_for(0.99))
    if limit is None:
        limit = 120.0 + PATIENCE * tour.curve[-1][0] / config.follower.cruise_speed
    robot = Robot(world, config)
    judge = Judge(robot, world)
    floor = KnownFloor(world.truth_grid(robot_radius=config.robot.inscribed_radius))
    score = Score(sight)
    navigator = Navigator(robot, make_router(config))
    wait_for_map(robot)
    explorer = Explorer(
        navigator, ExploreMission(config.explorer, config.robot), make_router(config)
    )
    look_due = 0.0
    posted: list[tuple[float, float]] = []  # [m] of way and coverage when each goal was
    while explorer.end is None and robot.now < limit:
        robot.step()
        judge.step()
        navigator.tick()
        explorer.step()
        posted += [(judge.length, floor.coverage)] * (len(explorer.drives) - len(posted))
        if robot.now >= look_due:
            look_due = robot.now + LOOK_S
            _look(robot, floor, score)
            for share in (50, 80, 90, 95, 97, 99):
                if floor.coverage >= share / 100.0:
                    result.way_to.setdefault(str(share), round(judge.length, 1))
    _look(robot, floor, score)
    _judge(result, explorer, judge, floor, score)
    result.log = [
        (
            round(d.posted, 1),
            round(way, 1),
            round(known, 4),
            round(t.x, 2),
            round(t.y, 2),
            _end_of(d),
        )
        for d, t, (way, known) in zip(explorer.drives, explorer.targets, posted, strict=True)
    ]
    result.cpu = time.thread_time() - began
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        name = f"{setup.world}_{setup.seed:02d}_{setup.body}_{setup.drift}.png"
        cv2.imwrite(str(pictures / name), draw(explorer, judge, floor))
    return result


def _end_of(drive: Drive) -> str:
    return f"{drive.state} {drive.reason}".strip()


def _look(robot: Robot, floor: KnownFloor, score: Score) -> None:
    assert robot.mapping.snapshot is not None
    floor.step(robot.mapping.snapshot, robot.map_pose, robot.sim.pose)
    score.step(robot.sim.truth(0.0))


def _judge(
    result: Result, explorer: Explorer, judge: Judge, floor: KnownFloor, score: Score
) -> None:
    robot, drives = explorer.robot, explorer.drives
    if explorer.end is not None:
        result.end, result.reason = explorer.end.value, explorer.reason
    result.coverage, result.seen, result.blocked = floor.coverage, score.coverage, floor.blocked
    result.area = float(np.count_nonzero(floor.reachable)) * floor.geometry.resolution**2
    result.length, result.seconds = judge.length, robot.now
    result.goals = len(drives)
    result.arrived = sum(d.state is NavState.ARRIVED for d in drives)
    result.superseded = sum(d.reason == "SUPERSEDED" for d in drives)
    result.failed = sum(d.state is NavState.FAILED for d in drives)
    result.refused = explorer.refused
    for drive in drives:
        if drive.state is NavState.FAILED:
            result.failures[drive.reason] = result.failures.get(drive.reason, 0) + 1
    result.recoveries = sum(d.recoveries for d in drives)
    result.gaps = [round(gap, 2) for gap in explorer.gaps]
    result.walls, result.persons, result.falls = judge.contacts()
    result.least = min(judge.clearances, default=math.inf)
    result.nearest_person = judge.people
    result.still, result.held = judge.still, judge.held
    true, believed = robot.sim.pose, robot.map_pose
    result.odometry_error = math.dist((true.x, true.y), (believed.x, believed.y))
    times = explorer.choice_times or [0.0]
    result.choice_p50, result.choice_p95 = (float(np.quantile(times, q)) for q in (0.5, 0.95))
    result.left = floor.left()
    result.skipped = [
        (round(s.x, 2), round(s.y, 2), s.size, str(s.reason)) for s in explorer.choice.skipped
    ]


def draw(explorer: Explorer, judge: Judge, floor: KnownFloor) -> NDArray[np.uint8]:
    """Return a picture (BGR): left the truth with the way, its goals and what stayed unknown; right the robot's map."""
    scale = 3 if max(floor.geometry.shape) > 400 else 5
    truth = judge.truth.occupancy
    image = np.full((*truth.shape, 3), 90, np.uint8)
    image[truth == FREE] = (225, 225, 225)
    image[floor.reachable] = (255, 255, 255)
    image[floor.unknown] = (60, 60, 230)
    left = np.repeat(np.repeat(image, scale, axis=0), scale, axis=1)

    def pixels(points: Iterable[tuple[float, float]]) -> NDArray[np.int32]:
        places = (np.array(list(points)) - floor.geometry.origin) / floor.geometry.resolution
        return (places * scale).round().astype(np.int32)

    trace = pixels(judge.trace)
    steps = max(1, len(trace) - 1)
    for i in range(steps if len(trace) > 1 else 0):
        shade = int(255 * i / steps)
        cv2.line(left, trace[i].tolist(), trace[i + 1].tolist(), (255 - shade, 120, shade), 2)
    for place in pixels(explorer.ends).tolist() if explorer.ends else []:
        cv2.circle(left, place, 4, (0, 150, 0), -1)
    cv2.circle(left, trace[0].tolist(), 6, (0, 0, 0), 2)
    snapshot = explorer.robot.mapping.snapshot
    assert snapshot is not None
    right = overview_image(snapshot, scale=scale).copy()
    top = snapshot.geometry.origin[1] + snapshot.geometry.shape[0] * snapshot.geometry.resolution
    size = snapshot.geometry.resolution / scale
    for x, y, *_ in explorer.choice.frontiers.tolist():
        place = (round((x - snapshot.geometry.origin[0]) / size), round((top - y) / size))
        cv2.circle(right, place, 5, (0, 140, 255), 2)
    left = left[::-1]
    height = max(left.shape[0], right.shape[0])
    panels = [
        cv2.copyMakeBorder(p, 0, height - p.shape[0], 0, 8, cv2.BORDER_CONSTANT, value=(255,) * 3)
        for p in (left, right)
    ]
    return np.ascontiguousarray(np.hstack(panels))


HEADER = (
    f"{'world':<13}{'end':>12}{'cover':>7}{'seen':>7}{'bad':>6}{'way':>7}{'/tour':>6}{'to 95/99 %':>12}{'time':>7}"
    f"{'goals':>6}{'arr':>4}{'fail':>5}{'ref':>4}{'idle50/95':>10}{'walls':>6}{'pers':>5}{'fall':>5}{'near':>6}"
    f"{'rec':>4}{'held':>6}{'odo':>6}{'choice':>10}{'x real':>7}"
)


def line(r: Result) -> str:
    """Return a run as a line of the table."""
    gaps = np.array(r.gaps or [0.0])
    ways = "/".join(f"{r.way_to.get(share, math.nan):.0f}" for share in ("95", "99"))
    name = f"{r.setup.world} {r.setup.seed}"
    return (
        f"{name:<13}{r.end:>12}{100 * r.coverage:>6.1f}%{100 * r.seen:>6.1f}%{100 * r.blocked:>5.1f}%"
        f"{r.length:>6.0f}m{r.ratio:>6.2f}{ways:>12}{r.seconds:>6.0f}s"
        f"{r.goals:>6}{r.arrived:>4}{r.failed:>5}{r.refused:>4}"
        f"{np.median(gaps):>5.1f}/{np.quantile(gaps, 0.95):>4.1f}"
        f"{r.walls:>6}{r.persons:>5}{r.falls:>5}{r.nearest_person:>6.2f}{r.recoveries:>4}{r.held:>5.0f}s"
        f"{r.odometry_error:>5.2f}m{1000 * r.choice_p95:>7.1f} ms{r.speed:>7.1f}"
    )


def summary(results: list[Result]) -> str:
    """Return the figures of many runs."""
    cover = 100.0 * np.array([r.coverage for r in results])
    ratios = np.array([r.ratio for r in results])
    gaps = np.array([gap for r in results for gap in r.gaps] or [0.0])
    ends: dict[str, int] = {}
    for r in results:
        ends[r.end] = ends.get(r.end, 0) + 1
    return (
        f"{len(results)} runs: coverage median {np.median(cover):.1f} %, worst {cover.min():.1f} %; way / greedy tour "
        f"median {np.nanmedian(ratios):.2f}, worst {np.nanmax(ratios):.2f}; "
        f"contacts with people {sum(r.persons for r in results)}, walls {sum(r.walls for r in results)}; "
        f"falls {sum(r.falls for r in results)}; without an end {ends.get(BROKEN_OFF, 0)}; "
        f"idle between goals p50 {np.median(gaps):.2f}, p95 {np.quantile(gaps, 0.95):.2f} s; "
        f"ends {', '.join(f'{end} {count}' for end, count in sorted(ends.items()))}; "
        f"{sum(r.seconds for r in results) / max(1e-9, sum(r.cpu for r in results)):.1f} times real time"
    )


def to_json(result: Result) -> str:
    """Return a result as one line."""
    return json.dumps(dataclasses.asdict(result))


def from_json(text: str) -> Result:
    """Return the result that a line holds."""
    fields: dict[str, Any] = json.loads(text)
    setup = fields.pop("setup")
    setup["settings"] = tuple(setup["settings"])
    left = [LeftPlace(**place) for place in fields.pop("left")]
    for name in ("skipped", "log"):
        fields[name] = [tuple(place) for place in fields.get(name, [])]
    return Result(setup=Setup(**setup), left=left, **fields)


def read_results(path: Path) -> list[Result]:
    """Return the results in a file, in its order; none where there is no file. A line cut short is left out."""
    if not path.exists():
        return []
    results = []
    for text in path.read_text().splitlines():
        try:
            results.append(from_json(text))
        except (ValueError, TypeError, KeyError):
            print(f"{path}: a line that is no result is left out: {text[:60]}")
    return results


def try_explore(setup: Setup, pictures: Path | None) -> Result:
    """Explore; an exception becomes a result without an end."""
    try:
        return explore(setup, pictures)
    except Exception as error:
        traceback.print_exc()
        return Result(setup, reason=f"{type(error).__name__}: {error}")


def print_table(results: list[Result]) -> None:
    """Print every run and the figures of each world."""
    print(HEADER)
    for name in dict.fromkeys(r.setup.world for r in results):
        runs = sorted(
            (r for r in results if r.setup.world == name),
            key=lambda r: (r.setup.drift, r.setup.seed),
        )
        for r in runs:
            print(line(r))
        print(f"{name}: {summary(runs)}")


def _warm_up() -> None:
    make_router(RhinoConfig()).warm_up()
    warm_up_mapping()
    warm_up_exploration()


def _seeds(text: str) -> list[int]:
    """Return the seeds of "0:20" (0 to 19) or "3,7,9"."""
    if ":" in text:
        first, _, end = text.partition(":")
        return list(range(int(first), int(end)))
    return [int(seed) for seed in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--results", type=Path, required=True, help="file of JSON lines, appended to"
    )
    parser.add_argument("--world", action="append", help="name, or path of a ROS map; repeatable")
    parser.add_argument("--seeds", type=_seeds, default=list(range(20)), help="0:20, or 3,7,9")
    parser.add_argument("--body", default="walking", choices=("walking", "kinematic"))
    parser.add_argument("--lidar", default="l1", choices=("l1", "scan", "ideal"))
    parser.add_argument("--drift", default="default", choices=("off", "default", "harsh"))
    parser.add_argument("--no-people", action="store_true")
    parser.add_argument("--set", action="append", default=[], help="section.key=value")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each run")
    parser.add_argument("--processes", type=int, default=1, help="runs at a time")
    parser.add_argument("--table", action="store_true", help="run nothing, print what is there")
    arguments = parser.parse_args()
    if not arguments.table:
        setups = [
            Setup(
                world,
                seed,
                arguments.body,
                arguments.lidar,
                arguments.drift,
                not arguments.no_people,
                tuple(arguments.set),
            )
            for seed in arguments.seeds
            for world in arguments.world or list(WORLDS)
        ]
        done = {r.setup for r in read_results(arguments.results)}
        run_all(
            [s for s in setups if s not in done],
            arguments.results,
            pictures=arguments.pictures,
            processes=arguments.processes,
        )
    print_table(read_results(arguments.results))


def run_all(setups: list[Setup], path: Path, *, pictures: Path | None, processes: int) -> None:
    """Run each setup in a pool of processes and append its result to the file as soon as it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(processes, mp_context=context, initializer=_warm_up) as pool,
        path.open("a") as file,
    ):
        print(HEADER, flush=True)
        runs = [pool.submit(partial(try_explore, setup, pictures)) for setup in setups]
        for run in as_completed(runs):
            result = run.result()
            file.write(to_json(result) + "\n")
            file.flush()
            print(line(result), flush=True)


if __name__ == "__main__":
    main()
