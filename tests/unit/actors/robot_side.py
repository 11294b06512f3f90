"""A platform and a mapper as the planner and explorer see them, scripted by the test."""

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np

from rhino_actors.config import RhinoConfig
from rhino_actors.errors import ActorUnavailable, SupersededRequest
from rhino_actors.geometry import quaternion_from_yaw
from rhino_actors.mapping.inflation import inflate
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.navigation import FollowReport, FollowState, Path, Rank
from rhino_actors.messages.platform import StopReason

RESOLUTION = 0.05


class ScriptedPlatform:
    """Keeps the newest path; `drive` carries the robot to its end at once."""

    def __init__(self, pose: Pose2D) -> None:
        self.pose = pose
        self.epoch = 10
        self.paths: list[Path] = []
        self.cancelled: list[int] = []
        self.released: list[str] = []
        self.claims: list[tuple[str, Rank]] = []
        self.nudges: list[Twist2D] = []
        self.newest = 0
        self.stops = 0
        self.asked = 0
        self.follow_error: Exception | None = None
        self.reports: dict[int, FollowReport] = {}
        self.claim_error: Exception | None = None

    async def odometry(self, newer_than: int = 0, wait: float = 0.0) -> Odometry:
        position = (self.pose.x, self.pose.y, 0.3)
        return Odometry(1, 0.0, position, quaternion_from_yaw(self.pose.yaw), Twist2D())

    async def claim(
        self,
        client: str,
        rank: Rank,
        *,
        take: bool = False,
        on_behalf_of: str = "",
        stops: int | None = None,
    ) -> int:
        if stops not in (None, self.stops):
            raise SupersededRequest()
        if self.claim_error:
            raise self.claim_error
        self.claims.append((client, rank))
        self.epoch += 1
        return self.epoch

    async def release(self, client: str, epoch: int | None = None) -> None:
        self.released.append(client)

    async def follow(self, path: Path) -> FollowReport:
        if self.follow_error:
            raise self.follow_error
        if path.epoch != self.epoch or path.goal_id in self.cancelled:
            raise SupersededRequest()
        self.newest = max(self.newest, path.goal_id)
        self.paths.append(path)
        self.reports[path.goal_id] = FollowReport(path.goal_id, FollowState.FOLLOWING)
        return self.reports[path.goal_id]

    async def follow_report(self, goal_id: int) -> FollowReport:
        self.asked += 1
        none = FollowReport(0, FollowState.NONE)
        report = self.reports.get(goal_id, none)
        return replace(
            report,
            pose=self.pose,
            distance_remaining=1.0,
            epoch=self.epoch,
            newest_goal_id=self.newest,
            stops=self.stops,
        )

    async def cancel_path(self, goal_id: int) -> None:
        self.cancelled.append(goal_id)

    async def nudge(self, twist: Twist2D, duration: float, **_: Any) -> None:
        self.nudges.append(twist)

    def report(self, state: FollowState, reason: str = "") -> None:
        """Make the newest path's report say this."""
        goal_id = self.paths[-1].goal_id
        self.reports[goal_id] = FollowReport(goal_id, state, StopReason(reason), reason.lower())

    def drive(self) -> None:
        """Be at the end of the newest path."""
        x, y, yaw = self.paths[-1].poses[-1]
        self.pose = Pose2D(float(x), float(y), float(yaw))
        self.report(FollowState.ARRIVED)


class ScriptedMapper:
    """Serves one map; `show` replaces it."""

    def __init__(self, config: RhinoConfig) -> None:
        self._robot = config.robot
        self._snapshot: MapSnapshot | None = None
        self._seq = 0
        self.is_gone = False
        self.correction = Pose2D(0.0, 0.0, 0.0)  # map_from_odom of what is shown next
        self.localised = True  # of what is shown next

    def show(self, occupancy: np.ndarray, origin: tuple[float, float] = (0.0, 0.0)) -> None:
        self._seq += 1
        robot = self._robot
        costmap = inflate(
            occupancy,
            resolution=RESOLUTION,
            inscribed_radius=robot.inscribed_radius,
            inflation_radius=robot.inflation_radius,
            cost_scaling_factor=robot.cost_scaling_factor,
        )
        geometry = GridGeometry(RESOLUTION, origin, occupancy.shape)
        area = float((occupancy >= 0).sum()) * RESOLUTION**2
        self._snapshot = MapSnapshot(
            1,
            self._seq,
            0.0,
            geometry,
            occupancy,
            costmap,
            area,
            map_from_odom=self.correction,
            localised=self.localised,
        )

    async def snapshot(self, newer_than: tuple[int, int] = (0, 0), wait: float = 0.0) -> Any:
        if self.is_gone:
            raise ActorUnavailable()
        version = (1, self._seq)
        if self._snapshot is None or version == tuple(newer_than):
            await asyncio.sleep(min(wait, 0.02))
            return version, None
        ready: asyncio.Future[MapSnapshot] = asyncio.get_running_loop().create_future()
        ready.set_result(self._snapshot)
        return version, [ready]
