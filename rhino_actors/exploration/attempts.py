"""Places that an exploration tried in vain: for how long they are left, and what frees them."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import ExplorerConfig
from rhino_actors.messages.grid import OCCUPIED, GridGeometry, MapSnapshot

Point = tuple[float, float]

NEAR_M = 0.75  # the map this far around a place is watched
CHANGED_SHARE = 0.03  # of the cells there, from which on it counts as changed
BESIDE_M = 0.8  # a failure is held against frontiers this much farther away than the skip radius
MOST_FREED = 3  # times that a change frees a place: sensor noise must not keep a mission alive


@dataclass
class Attempt:
    """A frontier that was tried in vain, in the map [m]."""

    frontier: Point
    stand: Point  # where the robot stood, or was to
    tries: int
    last: float  # [s]
    reason: str  # code of the planner; "" if the robot got there and the frontier stayed
    seen: NDArray[np.int64]  # cells unknown, occupied around frontier and stand, when tried
    freed: int = 0


class Attempts:
    """The tries of one mission. Times are monotonic [s]."""

    def __init__(self, config: ExplorerConfig) -> None:
        self._config = config
        self._attempts: list[Attempt] = []

    def add(
        self, frontier: Point, stand: Point, now: float, reason: str, snapshot: MapSnapshot | None
    ) -> None:
        """Note that a frontier was tried in vain."""
        seen = np.zeros(4, np.int64) if snapshot is None else _counts(snapshot, frontier, stand)
        for attempt in self._attempts:
            if math.dist(frontier, attempt.frontier) <= self._config.skip_radius:
                attempt.tries += 1
                attempt.last, attempt.reason, attempt.stand = now, reason, stand
                attempt.seen = seen
                return
        self._attempts.append(Attempt(frontier, stand, 1, now, reason, seen))

    def look(self, snapshot: MapSnapshot, now: float) -> None:
        """Free the places around which the map has changed since."""
        near = (2 * NEAR_M / snapshot.geometry.resolution) ** 2
        for attempt in self._attempts:
            if not attempt.tries or attempt.freed >= MOST_FREED:
                continue
            counts = _counts(snapshot, attempt.frontier, attempt.stand)
            if np.abs(counts - attempt.seen).max() > CHANGED_SHARE * near:
                attempt.tries = 0
                attempt.freed += 1

    def state(self, frontier: Point, now: float) -> tuple[bool, bool, str]:
        """Return of a frontier: whether it is left alone now; whether it may be tried as the last one; and the reason.

        The reason is the planner's code of the last try, "" if it was reached and stayed unseen.
        """
        for attempt in self._attempts:
            if not self._concerns(attempt, frontier):
                continue
            if attempt.tries >= self._config.max_attempts:
                return True, False, attempt.reason
            if attempt.reason and now - attempt.last < self._config.give_up_s:
                return True, True, attempt.reason
        return False, False, ""

    def is_rested(self, frontier: Point, now: float) -> bool:
        """Say whether a frontier that may be tried as the last one has been left alone for long enough."""
        return all(
            now - attempt.last >= self._config.retry_wait_s
            for attempt in self._attempts
            if self._concerns(attempt, frontier)
        )

    def _concerns(self, attempt: Attempt, frontier: Point) -> bool:
        """Say whether a try was of a frontier. Where a way is blocked, the parts beside it are behind it as well."""
        radius = self._config.skip_radius + (BESIDE_M if attempt.reason else 0.0)
        return attempt.tries > 0 and math.dist(frontier, attempt.frontier) <= radius

    def avoided(self, geometry: GridGeometry) -> NDArray[np.float64]:
        """Return (A, 3) row, col, radius [cells] of the places that were stood on in vain."""
        radius = self._config.skip_radius / geometry.resolution
        rows = [
            (*geometry.cell_from_world(*attempt.stand), radius)
            for attempt in self._attempts
            if attempt.tries and not attempt.reason
        ]
        return np.array(rows, np.float64).reshape(-1, 3)

    def __len__(self) -> int:
        return len(self._attempts)


def _counts(snapshot: MapSnapshot, frontier: Point, stand: Point) -> NDArray[np.int64]:
    """Return how many cells around the two places are unknown and how many occupied."""
    geometry = snapshot.geometry
    reach = round(NEAR_M / geometry.resolution)
    counts = []
    for place in (frontier, stand):
        row, col = geometry.cell_from_world(*place)
        window = snapshot.occupancy[
            max(0, row - reach) : max(0, row + reach + 1),
            max(0, col - reach) : max(0, col + reach + 1),
        ]
        beyond = (2 * reach + 1) ** 2 - window.size  # outside the grid all is unknown
        counts += [int((window < 0).sum()) + beyond, int((window >= OCCUPIED // 2).sum())]
    return np.array(counts, np.int64)
