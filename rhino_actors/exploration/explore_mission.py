"""An exploration from its first target to its end. Pure; the explorer actor obeys."""

import dataclasses
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import ExplorerConfig, RobotConfig
from rhino_actors.exploration import area, frontier, goal_selection, travel
from rhino_actors.exploration.area import Polygon
from rhino_actors.exploration.attempts import Attempts
from rhino_actors.exploration.frontier import FrontierMap
from rhino_actors.exploration.goal_selection import (
    LOOKOUT_REACH_M,
    Options,
    Picked,
    SkipReason,
    pick,
)
from rhino_actors.exploration.mission import Choice, Target
from rhino_actors.exploration.room import Room
from rhino_actors.exploration.travel import CoarseTravel
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.missions import FrontierState, MissionPhase, SkippedTarget

UNMOVED_M = 0.05  # a robot that moved less, on the same map, gets the same answer
# A place to stand on that is this much nearer than the one driven to takes its place [m].
NEARER_M = 0.75
TYPICAL_SPEED = 0.4  # [m/s] until the mission has driven a while
# Codes that say something about the robot or the planner, not about the target.
NOT_THE_TARGETS_FAULT = frozenset(
    {"START_OCCUPIED", "START_OUTSIDE_MAP", "PLAN_TIMED_OUT", "PLAN_CANCELLED", "NO_MAP"}
)

AT_LOOKOUT_M = 0.75  # from a lookout, from where it need not be driven to
MOST_LOOKS = 30  # in one mission: a map that never rests must not keep it alive
CLOSED_TEXT = "The way to what is left is closed; waiting for it to open."
EXACT_CELLS = 4_000_000  # the planner's field takes a quarter of a second on so many


@dataclass(frozen=True, slots=True)
class _Aim:
    """The target in force."""

    x: float  # [m] in the map: where to stand
    y: float
    frontier_x: float  # [m] in the map, of the frontier's cell that it was chosen for
    frontier_y: float
    is_lookout: bool = False  # for no frontier: to see whether a closed way is open


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at a closed way."""

    x: float  # [m] in the map
    y: float
    since: float  # [s]


@dataclass(slots=True)
class _Progress:
    """How the robot gets on: for the estimates."""

    pose: tuple[float, float] | None = None
    since: float = 0.0
    distance: float = 0.0

    def note(self, pose: tuple[float, float, float], now: float) -> None:
        if self.pose is None:
            self.since = now
        else:
            self.distance += math.dist(self.pose, pose[:2])
        self.pose = pose[:2]

    def speed(self, now: float) -> float:
        if self.distance < 2.0 or now <= self.since:
            return TYPICAL_SPEED
        return max(0.05, self.distance / (now - self.since))


@dataclass
class _Ground:
    """What is kept of the map from one choice to the next."""

    snapshot: MapSnapshot | None = None
    frontiers: FrontierMap = field(default_factory=FrontierMap)
    travel: CoarseTravel = field(default_factory=CoarseTravel)
    room: Room = field(default_factory=Room)
    inside: NDArray[np.bool_] = field(default_factory=lambda: np.empty((0, 0), np.bool_))
    # (rows, cols) of blocks, of `travel.note_ways`: ways over known floor of the whole mission.
    ways_back: NDArray[np.int8] = field(default_factory=lambda: np.zeros((0, 0), np.int8))

    def update(self, snapshot: MapSnapshot, polygon: Polygon, radius: float) -> None:
        """Take a map; on the grid of the one before, only what differs is looked at.

        The cells are compared: `MapSnapshot.changed` counts from the newest map that the actor read, which need not be
        the newest that was chosen on.
        """
        old, self.snapshot = self.snapshot, snapshot
        geometry, changed = snapshot.geometry, None
        if old is not None and old.geometry == geometry and old.epoch == snapshot.epoch:
            changed = frontier.changed_window(
                snapshot.occupancy, old.occupancy, snapshot.costmap, old.costmap
            )
        self.frontiers.update(snapshot.occupancy, changed)
        self.travel.update(snapshot.costmap, geometry.resolution, changed)
        self.room.update(snapshot.occupancy, geometry.resolution, radius, changed)
        if old is None or old.geometry != geometry:
            if len(polygon):
                self.inside = area.cells_inside(polygon, geometry)
            self._move_ways(old.geometry if old else geometry, geometry)

    def _move_ways(self, old: GridGeometry, new: GridGeometry) -> None:
        block = self.travel.block
        shape = -(-new.shape[0] // block), -(-new.shape[1] // block)
        moved, ways_back = np.zeros(shape, np.int8), self.ways_back
        rows = round((old.origin[1] - new.origin[1]) / (new.resolution * block))
        cols = round((old.origin[0] - new.origin[0]) / (new.resolution * block))
        part = moved[
            max(0, rows) : max(0, rows + ways_back.shape[0]),
            max(0, cols) : max(0, cols + ways_back.shape[1]),
        ]
        row, col = max(0, -rows), max(0, -cols)
        kept = ways_back[row : row + part.shape[0], col : col + part.shape[1]]
        part[: kept.shape[0], : kept.shape[1]] = kept
        self.ways_back = moved


class ExploreMission:
    """Chooses target after target and remembers the places that were tried in vain.

    The rule is in docs/exploration.md. Ends: `complete` when no frontier is left that a place which the robot can stand
    on and get to promises to show more of; `blocked` when one is left to which it could not get although a way led, or
    leads, there.
    """

    exact_cells = EXACT_CELLS

    def __init__(self, config: ExplorerConfig, robot: RobotConfig, polygon: Polygon = ()) -> None:
        """Start without a map.

        Args:
            config: the explorer's options.
            robot: the body.
            polygon: corners x, y [m] in the map that frontiers and targets are kept to; empty: everything.

        Raises:
            InvalidRequest: not a polygon.
        """
        area.check_area(polygon)
        self._config = config
        self._robot = robot
        self._polygon = tuple(polygon)
        self._ground = _Ground()
        self._attempts = Attempts(config)
        self._progress = _Progress()
        self._proposed: _Aim | None = None  # of the newest choice
        self._aim: _Aim | None = None  # in force
        self._nothing_since: float | None = None
        self._looks: list[_Look] = []
        self._last: tuple[MapSnapshot, tuple[float, float], Choice] | None = None
        self.goal_id = 0  # of the planner, for the target in force; 0: none

    def sent(self, target: Target, goal_id: int) -> None:
        """Note that the planner took the target."""
        self._aim, self.goal_id, self._last = self._proposed, goal_id, None

    def forget_goal(self) -> None:
        """Note that the target is no longer driven to, through no fault of its own."""
        self._aim, self.goal_id, self._last = None, 0, None

    def arrived(self, now: float) -> None:
        """Note that the robot stands at the target: if its frontier is still there, that was a try."""
        self._tried(now, "")

    def failed(self, now: float, reason: str) -> None:
        """Note that the planner gave the target up."""
        self._tried(now, reason)

    def refused(self, target: Target, now: float, reason: str) -> None:
        """Note that the planner did not take a target."""
        if self._aim is not None:
            self.goal_id = 0
        self._aim = self._proposed
        self._tried(now, reason)

    def choose(
        self,
        snapshot: MapSnapshot,
        pose: tuple[float, float, float],
        cost_to_go: NDArray[np.float32] | None,
        now: float,
    ) -> Choice:
        """Look at the newest map.

        Args:
            snapshot: the map.
            pose: x, y [m], yaw [rad] of the robot in the map.
            cost_to_go: (rows, cols) float32, the planner's field from the robot on this map. None: the mission's own
                field over coarse blocks of known floor serves instead, as it should on maps of many million cells.
            now: monotonic time [s].
        """
        self._progress.note(pose, now)
        if self._last is not None and self._aim is not None:
            known, place, last = self._last
            if known is snapshot and math.dist(place, pose[:2]) <= UNMOVED_M:
                return last
        self._ground.update(snapshot, self._polygon, self._robot.inscribed_radius)
        picked = self._pick(snapshot, pose, cost_to_go, now)
        choice = self._decide(picked, snapshot, now)
        self._last = (snapshot, pose[:2], dataclasses.replace(choice, target=None))
        return choice

    def _pick(
        self,
        snapshot: MapSnapshot,
        pose: tuple[float, float, float],
        cost_to_go: NDArray[np.float32] | None,
        now: float,
    ) -> Picked:
        geometry, ground = snapshot.geometry, self._ground
        self._attempts.look(snapshot, now)
        at, near = geometry.cell_from_world(pose[0], pose[1]), self._robot.inscribed_radius + 0.3
        coarse = ground.travel.from_robot(*at, near)
        led = np.isfinite(coarse)
        if cost_to_go is not None:  # coarse blocks lead through gaps that the body does not fit in
            led &= ground.travel.blocks_of(np.isfinite(cost_to_go))
        aim = self._aim
        picked = pick(
            snapshot,
            ground.frontiers,
            ground.travel,
            coarse,
            cost_to_go,
            Options(self._config, self._robot.inscribed_radius),
            pose=pose,
            inside=ground.inside,
            ways_back=ground.ways_back,
            led=led,
            room=ground.room.reachable(*at, round(near / geometry.resolution)),
            attempts=self._attempts,
            now=now,
            aim=None if aim is None or aim.is_lookout else (aim.frontier_x, aim.frontier_y),
        )
        travel.note_ways(coarse, led, ground.ways_back)
        return picked

    def _decide(self, picked: Picked, snapshot: MapSnapshot, now: float) -> Choice:
        aim, geometry = self._aim, snapshot.geometry
        choice = self._described(picked, snapshot, now)
        best = picked.best
        if best is None:
            if picked.waits:
                self._nothing_since = None
                text = "What is left cannot be got to at the moment; it is tried again."
                return dataclasses.replace(
                    choice, drop=aim is not None, phase=MissionPhase.WAITING, message=text
                )
            if self._nothing_since is None:
                self._nothing_since = now
            is_closed = any(reason is SkipReason.WAY_CLOSED for _, reason in picked.skipped)
            wait = self._config.settle_time_s
            if (
                is_closed
            ):  # a person may stand in the door, or have stood there when it was seen last
                look = self._look_at_closed_way(choice, picked, geometry, now)
                if look is not None:
                    return look
                if not picked.lookouts:
                    wait = max(wait, self._config.retry_wait_s)
                choice = dataclasses.replace(
                    choice, phase=MissionPhase.WAITING, message=CLOSED_TEXT
                )
            done = now - self._nothing_since >= wait
            return dataclasses.replace(choice, is_complete=done, drop=aim is not None)
        self._nothing_since = None
        new = _Aim(*geometry.world_from_cell(*best.place), *geometry.world_from_cell(*best.at))
        if aim is not None and self._keeps(aim, new, picked, snapshot):
            return choice
        self._proposed = new
        text = f"Driving to where {best.gain:.1f} m2 of unknown floor should come in sight."
        return dataclasses.replace(choice, target=Target(new.x, new.y, message=text))

    def _look_at_closed_way(
        self, choice: Choice, picked: Picked, geometry: GridGeometry, now: float
    ) -> Choice | None:
        """Return a choice that goes to see whether a way is still closed, or waits there; None when all were looked at.

        What closed it may have gone since the robot saw it: nothing takes it off the map but another look.
        """
        aim = self._aim
        if len(self._looks) >= MOST_LOOKS:
            return None
        for lookout in picked.lookouts:
            x, y = geometry.world_from_cell(*lookout.place)
            look = next((k for k in self._looks if _are_near((k.x, k.y), (x, y))), None)
            if look is None and lookout.cost <= AT_LOOKOUT_M and aim is None:
                look = _Look(x, y, now)
                self._looks.append(look)
            if look is None:
                self._nothing_since = None
                if aim is not None and aim.is_lookout and _are_near((aim.x, aim.y), (x, y)):
                    return choice
                self._proposed = _Aim(x, y, x, y, is_lookout=True)
                text = "Driving to where a way was closed, to see whether it is open."
                return dataclasses.replace(choice, target=Target(x, y, message=text))
            if now - look.since < self._config.retry_wait_s:
                drop, phase = aim is not None, MissionPhase.WAITING
                return dataclasses.replace(choice, drop=drop, phase=phase, message=CLOSED_TEXT)
        return None

    def _keeps(self, aim: _Aim, new: _Aim, picked: Picked, snapshot: MapSnapshot) -> bool:
        """Say whether the robot drives on to the target in force."""
        if not picked.is_aim:
            return False
        cell = snapshot.geometry.cell_from_world(aim.x, aim.y)
        cost = picked.cost_of(cell)
        assert picked.best is not None
        if not math.isfinite(cost) or picked.best.cost < cost - NEARER_M:
            return False
        self._aim = dataclasses.replace(aim, frontier_x=new.frontier_x, frontier_y=new.frontier_y)
        return True

    def visits(self, geometry: GridGeometry, now: float) -> None:
        """Return None: the map itself says what was seen."""

    def _tried(self, now: float, reason: str) -> None:
        aim, self._aim, self.goal_id, self._last = self._aim, None, 0, None
        if aim is None or reason in NOT_THE_TARGETS_FAULT:
            return
        if aim.is_lookout:
            self._looks.append(_Look(aim.x, aim.y, now))
        else:
            self._attempts.add(
                (aim.frontier_x, aim.frontier_y), (aim.x, aim.y), now, reason, self._ground.snapshot
            )

    def _described(self, picked: Picked, snapshot: MapSnapshot, now: float) -> Choice:
        """Return a choice with what is told to people, and nothing decided yet."""
        geometry = snapshot.geometry
        frontiers = np.zeros((len(picked.at), 3))
        frontiers[:, :2] = geometry.world_from_cells(picked.at)
        frontiers[:, 2] = FrontierState.OPEN
        frontiers[[i for i, _ in picked.skipped], 2] = FrontierState.SKIPPED
        aim = self._aim
        if aim is not None and picked.is_aim and picked.best is not None:
            frontiers[picked.best.part, 2] = FrontierState.TARGET
        floor = float(np.count_nonzero(self._ground.ways_back))
        floor *= (self._ground.travel.block * geometry.resolution) ** 2
        left = picked.gain_left
        eta = (picked.tour + left / self._config.sensor_range) / self._progress.speed(now)
        reasons = {reason for _, reason in picked.skipped}
        return Choice(
            frontiers=frontiers,
            skipped=tuple(
                SkippedTarget(
                    *geometry.world_from_cell(*picked.at[i]), int(picked.sizes[i]), reason
                )
                for i, reason in picked.skipped
            ),
            gave_up=not reasons.isdisjoint(goal_selection.BLOCKING),
            explored_share=floor / (floor + left) if floor else None,
            eta=eta,
        )


def _are_near(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return math.dist(a, b) <= LOOKOUT_REACH_M
