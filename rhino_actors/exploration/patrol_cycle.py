"""A patrol that goes around and around: which station of its round comes next, and what was left behind on the way.

The round is planned on the map of now and kept; a map that changes has it repaired. Each cell of the floor belongs to
the way to one station. A station is passed when nothing of that is due any more.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from rhino_actors.exploration.patrol_due import Due, Floor
from rhino_actors.exploration.patrol_round import Round, hold_against, plan_round
from rhino_actors.exploration.patrol_routers import PatrolGoal, Ways
from rhino_actors.exploration.visitation import Survey
from rhino_actors.messages.grid import MapSnapshot

# The robot keeps to its way only so well, and is looked at only so often: what a round plans to have in view.
VIEW_SHARE = 0.9
# A place that was seen so short a time ago, in rounds, is not due: it is in view of the way twice.
SEEN_SHARE = 0.2
NOMINAL_SPEED = 0.5  # [m/s] for how long a round takes, before one was driven
# The goal may be so many stations, and so far, ahead.
MOST_AHEAD = 8
AHEAD_M = 5.0
# What was left behind is fetched when no further away, and not when the way to the next station comes so near (in
# radii of a visit).
FETCH_M = 6.0
BESIDE_SHARE = 0.7
OVERDUE_SHARE = 1.2  # of a round's time, from which on it is fetched in any case
# More floor makes no round: thousands of stations, hours of driving.
MOST_FLOOR_M2 = 1500.0
REPAIR_PERIOD_S = 10.0  # between repairs of the round, at least


class PatrolCycle:
    """Keeps a round of stations, and where on it the robot is."""

    def __init__(self, radius: float) -> None:
        """Begin without a round.

        Args:
            radius: of a visit [m].
        """
        self._radius = radius
        self._round: Round | None = None
        self._owner: tuple[MapSnapshot, NDArray[np.int32]] | None = None
        self._last: int | None = None  # the station passed last
        self._heading: list[int] = []  # those on the way to the goal, which is at the last one
        self._passed_at = np.empty(0)  # [s] by station
        self._passed: deque[float] = deque()  # [s] when the last M stations were

    @property
    def stations(self) -> NDArray[np.int32]:
        """Row, col (M, 2) of the stations in their order, on the lattice of the map's cells."""
        return np.empty((0, 2), np.int32) if self._round is None else self._round.stations

    @property
    def length(self) -> float:
        """Length of a round [m]; 0 without one."""
        return 0.0 if self._round is None else self._round.length

    def reached(self, now: float) -> None:
        """Note that the robot came to its goal."""
        for station in self._heading:
            self._pass(station, now)
        self._heading = []

    def restart(self) -> None:
        """Note that the robot was carried: it may join the round anywhere."""
        self._last, self._heading = None, []

    def goal(
        self, floor: Floor, survey: Survey, tree: Ways, excluded: NDArray[np.bool_], now: float
    ) -> PatrolGoal | None:
        """Return where to go next; None if no station can be gone to, or there is too much floor for a round.

        Args:
            floor: of the newest map.
            survey: of that map.
            tree: of that survey.
            excluded: (block rows, block cols) bool, where no goal may be.
            now: monotonic time [s].
        """
        self._heading = []
        if not self._keep_up(floor, survey.block, now):
            return None
        assert self._round is not None and self._owner is not None
        first = np.array(floor.snapshot.geometry.first_cell)
        due = Due(floor, self._owner[1], survey, tree, excluded, self._due_age(now))
        cells = self._round.stations - first
        block = due.block_of(cells)
        can_be = due.is_open(block)
        count = np.bincount(due.owner, minlength=len(cells))
        if self._last is None:
            self._join(due, count, can_be)
        following = (np.arange(len(cells)) + (self._last or 0) + 1) % len(cells)
        if self._last is None:
            following = np.arange(len(cells))
        is_next = (count > 0)[following] & can_be[following]
        if not is_next.any():
            return self._idle_goal(floor, tree, cells, block, following[can_be[following]])
        ahead = int(np.argmax(is_next))
        for station in following[:ahead]:
            self._pass(int(station), now)
        stations = self._straight_on(due, cells, following[ahead:], is_next[ahead:], tree)
        station = stations[-1]
        mine = due.owner == station
        near = mine & (np.hypot(*(due.cells - cells[station]).T) <= due.reach(self._radius))
        row, col = cells[station]
        if near.any() and floor.is_safe[row, col]:
            target = cells[station]
        else:
            target = due.cells[mine][np.argmin(due.length[mine])]
        mine = np.isin(due.owner, stations)
        left = self._left_behind(due, target, tree, now, can_be[due.owner]) & ~mine
        if left.any():
            target = due.cells[left][np.argmin(due.length[left])]
            mine = left & (np.hypot(*(due.cells - target).T) <= due.reach(self._radius))
        else:
            self._heading = stations
        return due.goal(target, tree, due.cells[mine] + first)

    def _straight_on(
        self,
        due: Due,
        cells: NDArray[np.int32],
        following: NDArray[np.intp],
        is_next: NDArray[np.bool_],
        tree: Ways,
    ) -> list[int]:
        """Return the next station, and those after it whose way has in view what the ones before are due for.

        The robot then need not slow down at each.
        """
        stations = [int(following[0])]
        for station, is_due in zip(following[1:MOST_AHEAD], is_next[1:MOST_AHEAD], strict=True):
            if not is_due or due.way_length(cells[station], tree) > AHEAD_M:
                break
            before = due.cells[np.isin(due.owner, stations)]
            if not due.is_beside(before, cells[station], tree, BESIDE_SHARE * self._radius).all():
                break
            stations.append(int(station))
        return stations

    def _due_age(self, now: float) -> float:
        """Return from which age on a visit has to be made again [s]."""
        assert self._round is not None
        took = self._round.length / NOMINAL_SPEED
        if len(self._passed) == self._passed.maxlen:
            took = min(took, now - self._passed[0])
        return max(1.0, SEEN_SHARE * took)

    def _pass(self, station: int, now: float) -> None:
        self._last = station
        self._passed_at[station] = now
        self._passed.append(now)

    def _join(self, due: Due, count: NDArray[np.intp], can_be: NDArray[np.bool_]) -> None:
        """Choose the station to begin with: who waited long, and is near."""
        waits = np.full(len(count), -np.inf)
        np.maximum.at(waits, due.owner, due.age - due.length / NOMINAL_SPEED)
        waits[~can_be | (count == 0)] = -np.inf
        best = int(np.argmax(waits))
        self._last = (best - 1) % len(count) if np.isfinite(waits[best]) else None

    def _idle_goal(
        self,
        floor: Floor,
        tree: Ways,
        cells: NDArray[np.int32],
        block: NDArray[np.int32],
        following: NDArray[np.intp],
    ) -> PatrolGoal | None:
        """Return the next station that is not in view, when nothing is due."""
        for station in following:
            row, col = cells[station]
            if floor.is_safe[row, col] and floor.age[row, col] > 1.0:
                self._heading = [int(station)]
                at = (int(block[station, 0]), int(block[station, 1]))
                length = float(tree.length[at])
                return PatrolGoal(at, (int(row), int(col)), length, float(floor.age[row, col]))
        return None

    def _left_behind(
        self,
        due: Due,
        target: NDArray[np.int32],
        tree: Ways,
        now: float,
        can_be: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Return which due cells were not seen when their station was passed, and are not seen on the way either.

        Of a station that cannot be gone to, `can_be` False by cell, they are fetched when they have waited for long.
        """
        nominal = self.length / NOMINAL_SPEED
        took = max(nominal, now - self._passed[0]) if self._passed else nominal
        since = now - self._passed_at[due.owner]
        is_overdue = due.age > OVERDUE_SHARE * took
        left = (since < 0.5 * nominal) & (due.age >= since + due.least_age) & can_be
        if left.any():
            radius = BESIDE_SHARE * self._radius
            left[left] = ~due.is_beside(due.cells[left], target, tree, radius)
        left = (left | is_overdue) & (due.length <= FETCH_M)
        return left

    def _keep_up(self, floor: Floor, block: int, now: float) -> bool:
        """Plan the round, or repair it if the map changed; return whether there is one."""
        snapshot, old = floor.snapshot, self._round
        if old is not None and old.geometry.resolution != snapshot.geometry.resolution:
            old = None
        if old is not None and self._owner is not None and self._owner[0] is snapshot:
            return True
        if old is not None:
            owner, is_good = hold_against(old, snapshot, floor.is_safe)
            if is_good or now - old.stamp < REPAIR_PERIOD_S:
                self._owner = (snapshot, owner)
                return True
        area = np.count_nonzero(floor.is_safe) * snapshot.geometry.resolution**2
        if not 0.0 < area <= MOST_FLOOR_M2:
            self._round = self._owner = None
            return False
        self._plan(floor, block, old, now)
        return True

    def _plan(self, floor: Floor, block: int, old: Round | None, now: float) -> None:
        radius = VIEW_SHARE * self._radius
        new = plan_round(floor.snapshot, floor.is_safe, block, radius, now, old)
        passed_at = np.full(len(new.stations), -np.inf)
        survivors = np.flatnonzero(new.origins >= 0)
        passed_at[survivors] = self._passed_at[new.origins[survivors]]
        if old is not None and self._last is not None and len(survivors):
            # The station passed last, or the one before it that is still there.
            behind = (self._last - new.origins[survivors]) % len(old.stations)
            self._last = int(survivors[np.argmin(behind)])
        else:
            self._last = None
        self._passed_at = passed_at
        self._passed = deque(self._passed, maxlen=len(passed_at))
        self._round, self._owner = new, (floor.snapshot, new.owner)
