"""What every mission is to the explorer actor: it is told how its goals went, and says where to go next. Pure."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.missions import MissionPhase, PatrolProgress, SkippedTarget, Visits


@dataclass(frozen=True, slots=True)
class Target:
    """Where to send the robot."""

    x: float  # [m] in the map
    y: float
    yaw: float | None = None  # [rad]; None: as it arrives
    message: str = ""  # one sentence for people: what it drives there for
    label: str = ""  # of a patrol's point
    dwell: float = 0.0  # [s] to stand there


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do next: go to `target`; or, without one, drive on, stand, or end when `is_complete`."""

    target: Target | None = None  # a new one, which takes the place of the goal in force
    # The goal in force is not worth going on to, and there is no other yet.
    drop: bool = False
    is_complete: bool = False
    gave_up: bool = False  # some of the skipped ones were tried in vain: the end is `blocked`
    message: str = ""  # one sentence for people
    phase: MissionPhase = MissionPhase.CHOOSING  # of a mission without a goal in force
    # (K, 3) x, y [m] in the map, FrontierState.
    frontiers: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))
    skipped: tuple[SkippedTarget, ...] = ()
    explored_share: float | None = None  # as in MissionStatus
    eta: float | None = None  # [s]
    patrol: PatrolProgress | None = None


class Mission(Protocol):
    """One mission, from its first target to its end. Times are monotonic [s]; poses are in the map."""

    goal_id: int  # of the planner, for the target in force; 0: none
    exact_cells: (
        int  # on maps of no more cells it is handed the planner's field, on larger ones None
    )

    def choose(
        self,
        snapshot: MapSnapshot,
        pose: tuple[float, float, float],
        cost_to_go: NDArray[np.float32] | None,
        now: float,
    ) -> Choice:
        """Look at the newest map; called while driving too.

        Args:
            snapshot: the map.
            pose: x, y [m], yaw [rad] of the robot.
            cost_to_go: (rows, cols) float32, the planner's field from the robot on this map; inf where unreachable.
                None beyond `exact_cells`.
            now: monotonic time [s].
        """
        ...

    def sent(self, target: Target, goal_id: int) -> None:
        """Note that the planner took the target."""
        ...

    def forget_goal(self) -> None:
        """Note that the target is no longer driven to, through no fault of its own."""
        ...

    def arrived(self, now: float) -> None:
        """Note that the robot stands at the target."""
        ...

    def failed(self, now: float, reason: str) -> None:
        """Note that the planner gave the target in force up; `reason` is its code."""
        ...

    def refused(self, target: Target, now: float, reason: str) -> None:
        """Note that the planner did not take a target; `reason` is its code."""
        ...

    def visits(self, geometry: GridGeometry, now: float) -> Visits | None:
        """Return how long ago each cell of a map was visited; None: it keeps no visits."""
        ...
