"""MissionRun: one mission from its start to its end, as the explorer actor keeps it beside the mission's status."""

import dataclasses
import math
import threading
from collections import deque

from rhino_actors.exploration.mission import Mission, Target
from rhino_actors.exploration.trace import Trace
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.missions import (
    MissionGoal,
    MissionRecord,
    MissionRequest,
    MissionState,
    MissionStatus,
    Visits,
)
from rhino_actors.messages.navigation import Rank

GOALS_KEPT = 500  # in the log
LOW_BATTERY_S = 2.0  # a charge must be low for so long before it is believed

Ending = tuple[MissionState, str, str]  # state, reason, message


@dataclasses.dataclass
class MissionRun:
    """The mission in force, and what is known of it beside its status."""

    mission: Mission
    request: MissionRequest
    client: str
    rank: Rank
    epoch: int  # motion epoch of its goals
    stops: int  # of the robot, when it got the robot
    started_at: float  # [s] since the Unix epoch
    began: float  # [s]
    running_since: float | None  # [s]; None while it is paused
    ran: float = 0.0  # [s] before that
    goal_id: int = 0  # of the planner, for the goal in force; 0: none
    last_goal_id: int = 0
    target: Target | None = None  # of the goal in force
    goal_since: tuple[float, float] = (0.0, 0.0)  # [s] since it began, [m] driven until then
    goals: deque[MissionGoal] = dataclasses.field(default_factory=lambda: deque(maxlen=GOALS_KEPT))
    trace: Trace = dataclasses.field(default_factory=Trace)
    place: Pose2D | None = None  # newest, in the map
    odom: Pose2D | None = None  # newest, in odom
    seen_at: float = 0.0  # [s] of both
    dwell_until: float | None = None  # [s]
    ending: Ending | None = None  # on the way home: how it ends there
    home_tries: int = 0
    home_problem: str = ""
    trouble_since: float | None = None  # [s]
    trouble: str = ""  # code of what it waits for
    low_since: float | None = None  # [s]
    written_at: float = -math.inf  # [s]
    looking: threading.Lock = dataclasses.field(default_factory=threading.Lock)  # at the mission

    def elapsed(self, now: float) -> float:
        """Return how long it has run, pauses left out [s]."""
        return self.ran + (now - self.running_since if self.running_since is not None else 0.0)

    def used_up(
        self, status: MissionStatus, battery: float | None, least: float, now: float
    ) -> Ending | None:
        """Return how the mission ends because it has used up what it was given; None: it has not.

        Args:
            status: its time and way so far.
            battery: charge [%]; None: not known.
            least: charge [%] below which every mission ends; the request may name a higher one.
            now: monotonic time [s].
        """
        limits = self.request.limits
        least = max(limits.min_battery or 0.0, least)
        is_low = battery is not None and battery < least
        self.low_since = (self.low_since or now) if is_low else None
        if self.low_since is not None and now - self.low_since >= LOW_BATTERY_S:
            text = f"The battery is at {battery:.0f} %, below {least:g} %."
            return MissionState.LOW_BATTERY, "LOW_BATTERY", text
        if limits.max_time is not None and status.elapsed >= limits.max_time:
            text = f"It has run for {status.elapsed:.0f} s, as long as it may."
            return MissionState.TIME_LIMIT, "TIME_LIMIT", text
        if limits.max_distance is not None and status.distance >= limits.max_distance:
            text = f"It has driven {status.distance:.1f} m, as far as it may."
            return MissionState.TIME_LIMIT, "DISTANCE_LIMIT", text
        return None

    def note_goal(
        self,
        target: Target,
        outcome: str,
        reason: str,
        since: tuple[float, float] | None,
        now: float,
        driven: float,
    ) -> None:
        """Note how a goal ended. `since` as `goal_since`, None: it was not driven to; `now` [s]; `driven` [m]."""
        ended = now - self.began
        started, before = since or (ended, driven)
        self.goals.append(
            MissionGoal(
                target.x, target.y, started, ended, outcome, reason, driven - before, target.label
            )
        )

    def record(self, status: MissionStatus, robot: str, ended_at: float | None) -> MissionRecord:
        """Return the mission for the log. `ended_at` [s] since the Unix epoch, None: it goes on."""
        return MissionRecord(
            id=status.id,
            robot=robot,
            kind=status.kind,
            client=self.client,
            started_at=self.started_at,
            ended_at=ended_at,
            state=status.state,
            reason=status.reason,
            message=status.message,
            distance=status.distance,
            elapsed=status.elapsed,
            known_area=status.known_area,
            goals=tuple(self.goals),
            skipped=status.skipped,
            goals_reached=status.goals_reached,
            goals_failed=status.goals_failed,
            explored_share=status.explored_share,
            patrol=status.patrol,
        )

    def visits(self, geometry: GridGeometry, now: float) -> Visits | None:
        """Return how long ago each cell was visited; None: the mission keeps no visits. Not while it chooses."""
        with self.looking:
            return self.mission.visits(geometry, now)

    def picture(
        self,
        snapshot: MapSnapshot | None,
        record: MissionRecord,
        status: MissionStatus,
        now: float,
    ) -> bytes:
        """Return the mission as a PNG, on the newest map."""
        # Late: OpenCV takes a while to be imported, and is needed at the end of a mission only.
        from rhino_actors.viz.mission_picture import draw_mission

        visits = self.visits(snapshot.geometry, now) if snapshot is not None else None
        return draw_mission(
            snapshot, record, self.trace.points(), home=status.home, area=status.area, visits=visits
        )
