"""The lock-step explorer obeys its mission as the actor does, and counts the time between goals."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")

from benchmarks.exploration import NO_PLAN_TIMEOUT_S, Explorer
from benchmarks.lockstep import Drive
from rhino_actors.config import RhinoConfig
from rhino_actors.errors import NoPath, RobotFallen, StartOccupied
from rhino_actors.exploration.mission import Choice, Target
from rhino_actors.messages.geometry import Pose2D, Twist2D
from rhino_actors.messages.missions import MissionState
from rhino_actors.messages.navigation import GoalRequest, NavState


class Gate:
    def claim(self, client: str, rank: object, now: float) -> int:
        return 7

    def release(self, client: str, now: float) -> None:
        self.released = client


class Navigator:
    """Takes goals; the test says how they end."""

    def __init__(self) -> None:
        self.robot: Any = SimpleNamespace(
            now=0.0,
            twist=Twist2D(),
            config=RhinoConfig(),
            gate=Gate(),
            map_pose=Pose2D(0.0, 0.0),
            mapping=SimpleNamespace(snapshot=object()),
            sim=SimpleNamespace(position=(0.0, 0.0, 0.3)),
        )
        self.newest = Drive()
        self.is_driving = False
        self.requests: list[GoalRequest] = []
        self.error: Exception | None = None

    def navigate(self, request: GoalRequest) -> Drive:
        if self.error is not None:
            raise self.error
        if self.is_driving:
            self.newest.state, self.newest.reason = NavState.CANCELLED, "SUPERSEDED"
        self.requests.append(request)
        self.newest = Drive(len(self.requests), NavState.FOLLOWING, posted=self.robot.now)
        self.is_driving = True
        return self.newest

    def cancel(self) -> None:
        if self.is_driving:
            self.end(NavState.CANCELLED, "CANCELLED")

    def end(self, state: NavState, reason: str = "") -> None:
        self.is_driving = False
        self.newest.state, self.newest.reason, self.newest.ended = state, reason, self.robot.now


class Mission:
    """Says what the test wants it to, and remembers what it was told."""

    def __init__(self) -> None:
        self.goal_id = 0
        self.choice = Choice(target=Target(1.0, 2.0))
        self.told: list[str] = []

    def choose(self, *_: object) -> Choice:
        return self.choice

    def sent(self, target: Target, goal_id: int) -> None:
        self.goal_id = goal_id
        self.told.append("sent")

    def forget_goal(self) -> None:
        self.goal_id = 0

    def arrived(self, now: float) -> None:
        self.goal_id = 0
        self.told.append("arrived")

    def failed(self, now: float, reason: str) -> None:
        self.goal_id = 0
        self.told.append(f"failed {reason}")

    def refused(self, target: Target, now: float, reason: str) -> None:
        self.told.append(f"refused {reason}")


class Router:
    error: Exception | None = None

    def costs_from(self, *_: object) -> np.ndarray:
        if self.error is not None:
            raise self.error
        return np.zeros((1, 1), np.float32)


class Scene:
    def __init__(self) -> None:
        self.navigator, self.mission, self.router = Navigator(), Mission(), Router()
        self.explorer = Explorer(self.navigator, self.mission, self.router)  # type: ignore[arg-type]

    def run(self, seconds: float, *, moves: bool = True) -> None:
        robot = self.navigator.robot
        for _ in range(round(seconds / 0.02)):
            robot.now += 0.02
            robot.twist = Twist2D(vx=0.5 if moves and self.navigator.is_driving else 0.0)
            self.explorer.step()


def test_a_target_becomes_a_goal_of_the_mission() -> None:
    scene = Scene()
    scene.run(0.1)
    (request,) = scene.navigator.requests
    assert (request.x, request.y, request.client, request.epoch) == (1.0, 2.0, "explorer", 7)
    assert scene.mission.told == ["sent"]


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [(NavState.ARRIVED, "", "arrived"), (NavState.FAILED, "NO_PATH", "failed NO_PATH")],
)
def test_the_mission_hears_at_once_how_its_goal_ended(
    state: NavState, reason: str, told: str
) -> None:
    scene = Scene()
    scene.run(0.1)
    scene.mission.choice = Choice()
    scene.navigator.end(state, reason)
    scene.run(0.12)
    assert scene.mission.told == ["sent", told]
    assert scene.explorer.ends == [(0.0, 0.0)]


def test_idle_is_the_time_from_a_goals_end_until_the_robot_is_moved_again() -> None:
    scene = Scene()
    scene.run(0.1)
    scene.mission.choice = Choice()
    scene.navigator.end(NavState.ARRIVED)
    scene.run(2.0)
    scene.mission.choice = Choice(target=Target(3.0, 0.0))
    scene.run(1.0, moves=False)
    scene.run(1.0)
    assert scene.explorer.gaps[0] == pytest.approx(3.0, abs=0.1)
    assert set(scene.explorer.gaps[1:]) <= {0.0}


def test_a_goal_replaced_under_way_costs_no_idle_time() -> None:
    scene = Scene()
    scene.run(1.2)
    assert len(scene.navigator.requests) >= 2
    assert set(scene.explorer.gaps) == {0.0}


def test_a_goal_that_is_not_worth_it_any_more_is_dropped() -> None:
    scene = Scene()
    scene.run(0.1)
    scene.mission.choice = Choice(drop=True)
    scene.run(0.6)
    assert not scene.navigator.is_driving and scene.explorer.end is None


def test_a_refused_target_is_told_and_the_mission_goes_on() -> None:
    scene = Scene()
    scene.navigator.error = NoPath()
    scene.run(0.1)
    assert scene.mission.told == [f"refused {NoPath.code}"]
    assert scene.explorer.end is None and scene.explorer.refused == 1


@pytest.mark.parametrize(
    ("gave_up", "end"), [(False, MissionState.COMPLETE), (True, MissionState.BLOCKED)]
)
def test_the_end_is_the_missions(gave_up: bool, end: MissionState) -> None:
    scene = Scene()
    scene.mission.choice = Choice(is_complete=True, gave_up=gave_up)
    scene.run(0.1)
    assert scene.explorer.end is end and scene.explorer.reason
    assert scene.navigator.robot.gate.released == "explorer"


def test_a_fall_ends_the_mission() -> None:
    scene = Scene()
    scene.run(0.1)
    scene.navigator.end(NavState.CANCELLED, "FALLEN")
    scene.run(0.2)
    assert (scene.explorer.end, scene.explorer.reason) == (MissionState.CANCELLED, "FALLEN")
    scene = Scene()
    scene.navigator.error = RobotFallen()
    scene.run(0.2)
    assert scene.explorer.end is MissionState.CANCELLED


def test_a_robot_that_stands_in_an_obstacle_for_a_minute_interrupts_the_mission() -> None:
    scene = Scene()
    scene.router.error = StartOccupied()
    scene.run(NO_PLAN_TIMEOUT_S - 1.0)
    assert scene.explorer.end is None
    scene.run(3.0)
    assert scene.explorer.end is MissionState.INTERRUPTED
    assert scene.explorer.reason == StartOccupied.code
