"""A patrol from its first goal to its end. Pure; the explorer actor obeys."""

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import PatrolConfig, RobotConfig
from rhino_actors.exploration.area import cells_inside
from rhino_actors.exploration.mission import Choice, Target
from rhino_actors.exploration.patrol_cycle import PatrolCycle
from rhino_actors.exploration.patrol_due import Floor, safe_floor
from rhino_actors.exploration.patrol_points import PointTour
from rhino_actors.exploration.patrol_routers import (
    PatrolGoal,
    Ways,
    coverage_goal,
    frontier_goal,
    random_goal,
    ways,
)
from rhino_actors.exploration.visitation import Survey, VisitationGrid, age_levels
from rhino_actors.messages.grid import INSCRIBED_INFLATED_OBSTACLE, GridGeometry, MapSnapshot
from rhino_actors.messages.missions import (
    MissionPhase,
    PatrolProgress,
    PatrolRequest,
    PatrolRouter,
    SkippedTarget,
    Visits,
)

# A goal that is passed this near, in radii of a visit, needs no stop: all of its block has been in view.
PASSED_SHARE = 0.5
EXTEND_M = 1.2  # before a goal of the round, from where on one further on may take its place
SAME_AIM_M = 0.2  # a goal so near to the one in force is the same
MIN_DUE_AGE_S = 1.0  # what is visited at this moment is never due
PROGRESS_PERIOD_S = 2.0  # how often the progress is looked at while driving
MAX_BACKOFF = 8  # times retry_s, for a place that fails again and again
# With less of the round's floor in reach, and all of that visited, the way to the rest is blocked.
CUT_OFF_SHARE = 0.7
IN_VIEW_S = 2.0  # with nothing left alone for longer, the robot sees it all from where it stands
# A place that failed is free again when so much floor around it changed.
PATCH_RADIUS_M = 1.0
PATCH_CHANGE_M2 = 0.04


@dataclass(frozen=True, slots=True)
class _Aim:
    """The goal in force, or proposed."""

    x: float  # [m] in the map
    y: float
    since: float  # [s] when it was chosen
    index: int = -1  # of the point; -1: a place that a router chose
    label: str = ""
    dwell: float = 0.0  # [s]
    cells: NDArray[np.int32] | None = None  # as in PatrolGoal


@dataclass
class _Exclusion:
    """A place that was tried in vain."""

    x: float  # [m] in the map
    y: float
    reason: str
    until: float  # [s]
    tries: int
    patch: NDArray[np.int8]  # the map around it when it failed: -1 unknown, 0 free, 1 occupied


@dataclass
class _Rounds:
    """How often all was visited."""

    start: float | None = None  # [s] when the present one began
    done: int = 0
    share: float = 0.0  # of the present one, 0..1
    first_start: float = 0.0
    floor: int = 0  # [cells] most that could be reached in the present one
    cut_since: float | None = None  # [s] since when the way to most of it is blocked


class PatrolMission:
    """Chooses goal after goal, by a router or along points, and keeps what was visited when.

    It ends `complete` after the request's loops, and gives up (`blocked`) when for `blocked_after_s` there was no
    goal that can be reached.
    """

    exact_cells = sys.maxsize  # always

    def __init__(self, request: PatrolRequest, config: PatrolConfig, robot: RobotConfig) -> None:
        """Prepare a patrol.

        Args:
            request: what is asked for.
            config: the parameters of patrols.
            robot: its radii say what costs keep the clearance.

        Raises:
            ValueError: the router `points` without points, fewer than three corners of an area, or an expiry or
                a number of loops that is not positive.
        """
        if request.router is PatrolRouter.POINTS and not request.points:
            raise ValueError("a patrol of points needs at least one point")
        if request.area and len(request.area) < 3:
            raise ValueError("an area has at least three corners")
        if request.loops is not None and request.loops < 1:
            raise ValueError("loops is at least 1")
        if request.expiry is not None and not request.expiry > 0.0:
            raise ValueError("the expiry is positive")
        self.goal_id = 0  # of the planner, for the goal in force; 0: none
        self._request = request
        self._config = config
        self._expiry = request.expiry if request.expiry is not None else config.expiry_s
        self._max_cost = max_safe_cost(config.clearance, robot)
        self._rng = np.random.default_rng(request.seed)
        self._visits = VisitationGrid(config.visit_radius)
        self._tour = PointTour(request, config) if request.router is PatrolRouter.POINTS else None
        goes_around = config.rounds and request.router is PatrolRouter.COVERAGE
        self._cycle = PatrolCycle(config.visit_radius) if goes_around else None
        self._rounds = _Rounds()
        self._exclusions: list[_Exclusion] = []
        self._proposed: _Aim | None = None
        self._aim: _Aim | None = None
        self._dwell_until: float | None = None
        self._nothing_since: float | None = None
        self._now = 0.0
        self._snapshot: MapSnapshot | None = None
        self._area: tuple[GridGeometry, NDArray[np.bool_]] | None = None
        self._progress: tuple[float, PatrolProgress] | None = None

    # What the explorer tells it.

    def sent(self, target: Target, goal_id: int) -> None:
        """Note that the planner took the target."""
        self._aim, self.goal_id = self._proposed, goal_id

    def forget_goal(self) -> None:
        """Note that the target is no longer driven to, through no fault of its own."""
        self._aim, self.goal_id, self._dwell_until = None, 0, None

    def arrived(self, now: float) -> None:
        """Note that the robot stands at the target: it dwells there."""
        aim = self._let_go()
        if aim is None:
            return
        if aim.dwell > 0.0:
            self._dwell_until = now + aim.dwell
        if self._cycle is not None:
            self._cycle.reached(now)
        if self._tour is not None:
            self._tour.reached()
        elif not self._was_seen(aim):
            self._exclude(aim, now, "OUT_OF_VIEW")

    def failed(self, now: float, reason: str) -> None:
        """Note that the planner gave the target up: it is left alone for a while."""
        aim = self._let_go()
        if aim is not None:
            self._exclude(aim, now, reason)

    def refused(self, target: Target, now: float, reason: str) -> None:
        """Note that the planner did not take a target."""
        self._aim = self._proposed
        self.failed(now, reason)

    # What it says.

    def choose(
        self,
        snapshot: MapSnapshot,
        pose: tuple[float, float, float],
        cost_to_go: NDArray[np.float32] | None,
        now: float,
    ) -> Choice:
        """Note what is visited by now, and say where to go.

        Args:
            snapshot: the map.
            pose: x, y [m], yaw [rad] of the robot in the map.
            cost_to_go: (rows, cols) float32, the planner's field from the robot on this map; inf where unreachable.
            now: monotonic time [s].

        Raises:
            ValueError: without the field of costs.
        """
        if cost_to_go is None:
            raise ValueError("a patrol needs the planner's field of costs")
        has_driven = self._visits.look(snapshot, pose[0], pose[1], now)
        self._snapshot, self._now = snapshot, now
        if self._rounds.start is None:
            self._rounds.start = self._rounds.first_start = now
        self._free(snapshot, now)
        if not has_driven:
            self._dwell_until = None
        if self._dwell_until is not None and now < self._dwell_until:
            left = self._dwell_until - now
            self._refresh(snapshot, cost_to_go)
            return self._choice(phase=MissionPhase.DWELLING, message=f"Stands here {left:.0f} s.")
        self._dwell_until = None
        if self._tour is not None:
            return self._choose_point(self._tour, snapshot, cost_to_go, now)
        return self._choose_place(snapshot, pose, cost_to_go, now, has_driven)

    def visits(self, geometry: GridGeometry, now: float) -> Visits:
        """Return how long ago each cell of a map was visited."""
        age = age_levels(self._visits.ages(geometry, now), self._expiry)
        return Visits(geometry, age, self._expiry)

    # Places that a router chooses.

    def _choose_place(
        self,
        snapshot: MapSnapshot,
        pose: tuple[float, float, float],
        cost_to_go: NDArray[np.float32],
        now: float,
        has_driven: bool,
    ) -> Choice:
        goes_on = self._aim is not None and has_driven and self._goes_on(snapshot, pose, cost_to_go)
        if goes_on and not self._may_extend(pose):
            self._refresh(snapshot, cost_to_go)
            return self._choice()
        if self._cycle is not None and not has_driven:
            self._cycle.restart()
        elif self._cycle is not None and self._aim is not None and not goes_on:
            if self._is_passed(self._aim, pose):
                self._cycle.reached(now)
        had_goal = self.goal_id != 0
        survey, tree = self._survey(snapshot, cost_to_go, now)
        excluded = self._excluded(survey)
        is_cut_off = self._is_cut_off(survey, excluded, now)
        if is_cut_off and survey.worst_idleness < IN_VIEW_S:
            if had_goal:
                self._let_go()
            self._note(survey)
            text = "The way to the rest of the floor is blocked."
            return self._choice(phase=MissionPhase.WAITING, message=text, drop=had_goal)
        loops = self._request.loops
        is_over = loops is not None and self._rounds.done >= loops
        if is_over or (not is_cut_off and self._ends_round(survey, excluded, now)):
            if loops is not None and self._rounds.done >= loops:
                text = f"All was visited {loops} times." if loops > 1 else "All was visited."
                self._note(survey)
                return self._choice(is_complete=True, message=text)
            survey, tree = self._survey(snapshot, cost_to_go, now)
        self._note(survey)
        goal = self._route(snapshot, cost_to_go, survey, tree, excluded)
        if goes_on and (goal is None or self._is_aim(goal, snapshot)):
            return self._choice()
        if goal is None:
            if had_goal:
                self._let_go()
            return self._nothing(survey, now, drop=had_goal)
        self._nothing_since = None
        x, y = snapshot.geometry.world_from_cell(*goal.cell)
        idle = float(survey.oldest[goal.block])
        self._proposed = _Aim(x, y, now, dwell=self._request.dwell, cells=goal.cells)
        text = f"Driving {goal.length:.1f} m to where nobody was for {_duration(idle)}."
        return self._choice(Target(x, y, message=text, dwell=self._request.dwell), message=text)

    def _route(
        self,
        snapshot: MapSnapshot,
        cost_to_go: NDArray[np.float32],
        survey: Survey,
        tree: Ways,
        excluded: NDArray[np.bool_],
    ) -> PatrolGoal | None:
        if self._request.router is PatrolRouter.RANDOM:
            return random_goal(survey, tree, excluded, self._rng)
        if self._request.router is PatrolRouter.FRONTIER:
            return frontier_goal(survey, tree, excluded)
        if self._cycle is not None:
            area = self._mask(snapshot.geometry)
            floor = Floor(
                snapshot,
                safe_floor(snapshot, cost_to_go, self._max_cost, area),
                self._visits.ages(snapshot.geometry, self._now),
            )
            goal = self._cycle.goal(floor, survey, tree, excluded, self._now)
            if goal is not None:
                return goal
        return coverage_goal(
            survey,
            tree,
            excluded,
            radius=self._config.visit_radius,
            goal_cost=self._config.goal_cost,
            skeleton_share=self._config.skeleton_share,
        )

    def _goes_on(
        self,
        snapshot: MapSnapshot,
        pose: tuple[float, float, float],
        cost_to_go: NDArray[np.float32],
    ) -> bool:
        """Say whether the goal in force is worth going on to: it can be reached, and was not passed."""
        aim = self._aim
        assert aim is not None
        row, col = snapshot.geometry.cell_from_world(aim.x, aim.y)
        if not snapshot.geometry.contains(row, col) or not np.isfinite(cost_to_go[row, col]):
            return False
        if snapshot.costmap[row, col] >= INSCRIBED_INFLATED_OBSTACLE:
            return False
        return aim.dwell > 0.0 or not self._is_passed(aim, pose)

    def _may_extend(self, pose: tuple[float, float, float]) -> bool:
        """Say whether the robot comes near its goal: one further on spares it from slowing down."""
        aim = self._aim
        if self._cycle is None or aim is None or aim.dwell > 0.0:
            return False
        return math.dist((aim.x, aim.y), pose[:2]) <= EXTEND_M

    def _is_aim(self, goal: PatrolGoal, snapshot: MapSnapshot) -> bool:
        x, y = snapshot.geometry.world_from_cell(*goal.cell)
        assert self._aim is not None
        return math.dist((x, y), (self._aim.x, self._aim.y)) <= SAME_AIM_M

    def _is_passed(self, aim: _Aim, pose: tuple[float, float, float]) -> bool:
        """Say whether nothing is left to go there for."""
        if aim.cells is not None and self._visits.all_visited_since(aim.cells, aim.since - 1e-3):
            return True
        near = math.dist((aim.x, aim.y), pose[:2]) <= PASSED_SHARE * self._config.visit_radius
        return near and self._was_seen(aim)

    def _was_seen(self, aim: _Aim) -> bool:
        if self._snapshot is None:
            return False
        cell = self._snapshot.geometry.cell_from_world(aim.x, aim.y)
        seen = self._visits.last_visit(self._snapshot.geometry, *cell)
        return seen is not None and seen >= aim.since - 1e-3  # times are kept in float32

    def _is_cut_off(self, survey: Survey, excluded: NDArray[np.bool_], now: float) -> bool:
        """Say whether all in reach was visited, and the rest is out of reach; for `blocked_after_s` at most."""
        total, rounds = int(survey.safe[~excluded].sum()), self._rounds
        rounds.floor = max(rounds.floor, total)
        if survey.pending[~excluded].any() or total >= CUT_OFF_SHARE * rounds.floor:
            rounds.cut_since = None
            return False
        if rounds.cut_since is None:
            rounds.cut_since = now
        return now - rounds.cut_since < self._config.blocked_after_s

    def _ends_round(self, survey: Survey, excluded: NDArray[np.bool_], now: float) -> bool:
        """Say whether all that can be visited was, since the round began; then the next one begins."""
        can_be = ~excluded
        total = int(survey.safe[can_be].sum())
        pending = int(survey.pending[can_be].sum())
        self._rounds.share = 1.0 - pending / total if total else 0.0
        if total == 0 or pending > 0 or self._rounds.start == now:
            return False
        self._rounds.done += 1
        self._rounds.start, self._rounds.share = now, 0.0
        self._rounds.floor, self._rounds.cut_since = total, None
        return True

    def _nothing(self, survey: Survey, now: float, drop: bool) -> Choice:
        """Wait for a goal; after a while give up."""
        if self._nothing_since is None:
            self._nothing_since = now
        if tried := len(self._active()):
            text = f"Nothing else can be reached; {tried} places were tried in vain."
        elif survey.safe_cells == 0:
            text = "No safe floor can be reached."
        else:
            text = "There is no goal."
        return self._wait(now, text, drop)

    def _wait(self, now: float, text: str, drop: bool = False) -> Choice:
        assert self._nothing_since is not None
        if now - self._nothing_since >= self._config.blocked_after_s:
            return self._choice(is_complete=True, gave_up=True, message=text, drop=drop)
        return self._choice(phase=MissionPhase.WAITING, message=text, drop=drop)

    # Points.

    def _choose_point(
        self, tour: PointTour, snapshot: MapSnapshot, cost_to_go: NDArray[np.float32], now: float
    ) -> Choice:
        self._refresh(snapshot, cost_to_go)
        if self._aim is not None:
            return self._choice()
        found = tour.next(snapshot, cost_to_go, self._mask(snapshot.geometry))
        if tour.is_over:
            loops = self._request.loops
            text = (
                f"All points were visited {loops} times."
                if loops != 1
                else "All points were visited."
            )
            return self._choice(is_complete=True, message=text)
        if found is None:
            if self._nothing_since is None:
                self._nothing_since = now
            return self._wait(now, "None of the points can be reached.")
        self._nothing_since = None
        index, x, y = found
        point = self._request.points[index]
        dwell = self._request.dwell if point.dwell is None else point.dwell
        label = point.label or f"point {index + 1}"
        self._proposed = _Aim(x, y, now, index, label, dwell)
        text = f"Driving to {label}."
        return self._choice(Target(x, y, point.yaw, text, label, dwell), message=text)

    # Places tried in vain.

    def _let_go(self) -> _Aim | None:
        aim, self._aim, self.goal_id = self._aim, None, 0
        return aim

    def _exclude(self, aim: _Aim, now: float, reason: str) -> None:
        if self._tour is not None:
            self._tour.skip(reason)
            return
        tries = 1
        for old in self._exclusions:
            if math.dist((old.x, old.y), (aim.x, aim.y)) <= self._config.skip_radius:
                tries = max(tries, old.tries + 1)
        self._exclusions = [
            old
            for old in self._exclusions
            if math.dist((old.x, old.y), (aim.x, aim.y)) > self._config.skip_radius
        ]
        wait = self._config.retry_s * min(MAX_BACKOFF, 2 ** (tries - 1))
        self._exclusions.append(
            _Exclusion(aim.x, aim.y, reason, now + wait, tries, self._patch(aim.x, aim.y))
        )

    def _free(self, snapshot: MapSnapshot, now: float) -> None:
        """Forget the places whose surroundings changed; those whose time is over are tried again, but remembered."""
        cells = PATCH_CHANGE_M2 / snapshot.geometry.resolution**2
        kept = []
        for old in self._exclusions:
            patch = self._patch(old.x, old.y)
            changed = (
                patch.shape != old.patch.shape or np.count_nonzero(patch != old.patch) >= cells
            )
            # One whose time is over is remembered as long again: the next failure there then waits longer.
            if not changed and now < old.until + self._config.retry_s * MAX_BACKOFF:
                kept.append(old)
        self._exclusions = kept

    def _patch(self, x: float, y: float) -> NDArray[np.int8]:
        """Return the map around a place, as -1 unknown, 0 free, 1 occupied; unknown beyond the edge."""
        assert self._snapshot is not None
        geometry = self._snapshot.geometry
        reach = round(PATCH_RADIUS_M / geometry.resolution)
        row, col = geometry.cell_from_world(x, y)
        rows, cols = np.mgrid[row - reach : row + reach + 1, col - reach : col + reach + 1]
        inside = (rows >= 0) & (rows < geometry.shape[0]) & (cols >= 0) & (cols < geometry.shape[1])
        patch = np.full(rows.shape, -1, np.int8)
        found = self._snapshot.occupancy[rows[inside], cols[inside]]
        patch[inside] = np.where(found < 0, -1, found >= 50)
        return patch

    def _excluded(self, survey: Survey) -> NDArray[np.bool_]:
        """Return the blocks near places that were tried in vain and whose time is not over."""
        excluded = np.zeros(survey.goal.shape, np.bool_)
        reach = self._config.skip_radius / (survey.block * survey.geometry.resolution)
        for old in self._active():
            row, col = survey.block_from_world(old.x, old.y)
            row0, row1 = max(0, math.floor(row - reach)), max(0, math.ceil(row + reach) + 1)
            col0, col1 = max(0, math.floor(col - reach)), max(0, math.ceil(col + reach) + 1)
            window = excluded[row0:row1, col0:col1]
            rows, cols = np.indices(window.shape)
            window |= np.hypot(rows + row0 - row, cols + col0 - col) <= reach
        return excluded

    def _active(self) -> list[_Exclusion]:
        return [old for old in self._exclusions if old.until > self._now]

    # Progress.

    def _survey(
        self, snapshot: MapSnapshot, cost_to_go: NDArray[np.float32], now: float
    ) -> tuple[Survey, Ways]:
        assert self._rounds.start is not None
        survey = self._visits.survey(
            snapshot,
            cost_to_go,
            now,
            max_cost=self._max_cost,
            expiry=self._expiry,
            round_start=self._rounds.start,
            due_age=self._due_age(),
            power=self._config.urgency_power,
            area=self._mask(snapshot.geometry),
        )
        tree = ways(survey, snapshot.costmap)
        return survey.only(np.isfinite(tree.length)), tree

    def _due_age(self) -> float | None:
        """Return from which idleness on a place is due, None: the router goes by rounds [s]."""
        if self._request.router is not PatrolRouter.COVERAGE:
            return None
        worst = self._progress[1].worst_idleness if self._progress is not None else 0.0
        return max(MIN_DUE_AGE_S, self._config.due_share * worst)

    def _mask(self, geometry: GridGeometry) -> NDArray[np.bool_] | None:
        """Return the cells inside the request's area, None without one."""
        if not self._request.area:
            return None
        if self._area is None or self._area[0] != geometry:
            self._area = (geometry, cells_inside(self._request.area, geometry))
        return self._area[1]

    def _refresh(self, snapshot: MapSnapshot, cost_to_go: NDArray[np.float32]) -> None:
        if self._progress is None or self._now - self._progress[0] >= PROGRESS_PERIOD_S:
            self._note(self._survey(snapshot, cost_to_go, self._now)[0])

    def _note(self, survey: Survey) -> None:
        resolution = survey.geometry.resolution
        progress = PatrolProgress(
            router=self._request.router,
            share_visited=survey.share_visited,
            worst_idleness=survey.worst_idleness,
            mean_idleness=survey.mean_idleness,
            safe_area=survey.safe_cells * resolution**2,
            loops=self._loops_done(),
        )
        self._progress = (self._now, progress)

    def _eta(self) -> float | None:
        """Return the time to the end of the last loop, as the loops went so far [s]."""
        loops = self._request.loops
        if loops is None:
            return None
        done = (
            self._tour.share if self._tour is not None else self._rounds.done + self._rounds.share
        )
        spent = self._now - self._rounds.first_start
        share = done / loops
        return spent * (1.0 - share) / share if share > 0.05 else None

    def _choice(
        self,
        target: Target | None = None,
        *,
        phase: MissionPhase = MissionPhase.CHOOSING,
        message: str = "",
        drop: bool = False,
        is_complete: bool = False,
        gave_up: bool = False,
    ) -> Choice:
        progress = self._progress[1] if self._progress is not None else None
        heading = target.label if target is not None else self._aim.label if self._aim else ""
        return Choice(
            target=target,
            drop=drop,
            is_complete=is_complete,
            gave_up=gave_up,
            message=message,
            phase=phase,
            skipped=self._skipped(),
            eta=self._eta(),
            patrol=progress and replace(progress, loops=self._loops_done(), next_label=heading),
        )

    def _loops_done(self) -> int:
        return self._tour.loops if self._tour is not None else self._rounds.done

    def _skipped(self) -> tuple[SkippedTarget, ...]:
        if self._tour is not None:
            return self._tour.skipped
        return tuple(SkippedTarget(old.x, old.y, 0, old.reason) for old in self._active())


def max_safe_cost(clearance: float, robot: RobotConfig) -> int:
    """Return the highest cost of a cell whose centre keeps `clearance` [m] from every obstacle.

    The costmap is the inflation of messages.grid and says so up to the robot's inflation radius; beyond that, 0.
    """
    beyond = clearance - robot.inscribed_radius
    highest = INSCRIBED_INFLATED_OBSTACLE - 1
    if beyond <= 0.0:
        return highest
    if clearance >= robot.inflation_radius:
        return 0
    return math.floor(highest * math.exp(-robot.cost_scaling_factor * beyond))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120.0 else f"{seconds / 60.0:.0f} min"


def warm_up() -> None:
    """Compile, or load, the kernels of patrols."""
    robot, by_rounds = RobotConfig(), PatrolConfig(rounds=True)
    kinds = [(router, PatrolConfig()) for router in PatrolRouter if router != PatrolRouter.POINTS]
    shape = (80, 80)
    occupancy, costmap = np.zeros(shape, np.int8), np.zeros(shape, np.uint8)
    costs = np.zeros(shape, np.float32)
    for array in (occupancy, costmap, costs):
        array.flags.writeable = False
    geometry = GridGeometry(0.05, (0.0, 0.0), shape)
    for router, config in [*kinds, (PatrolRouter.COVERAGE, by_rounds)]:
        mission = PatrolMission(PatrolRequest(router=router), config, robot)
        for seq, x in ((1, 1.0), (2, 1.5)):
            snapshot = MapSnapshot(1, seq, 0.0, geometry, occupancy, costmap, 1.0)
            mission.choose(snapshot, (x, 2.0, 0.0), costs, float(seq))
