"""Which parts answer, how quickly, and whether the sensors are fresh: asked side by side, and never waited for long."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rhino_actors.errors import ActorTimedOut, RhinoError
from rhino_actors.messages.platform import RobotStatus
from serve_app.handles import Handles, Robot
from serve_app.schemas import PartState

_log = logging.getLogger(__name__)

PATIENCE_S = 1.0
# Older, and the platform stops a path: what it sees may not be there any more.
FRESH_S = {"odometry": 0.5, "lidar": 1.0}
STORE = "poi_store"
# Without these the robot cannot be driven to a goal.
NEEDED = frozenset({"platform", "mapper", "planner"})


@dataclass(frozen=True)
class Probe:
    """What became of one question."""

    state: PartState  # restarting: or gone for good; failed: its answer was an error
    seconds: float | None  # until the answer; None: there was none
    answer: Any = None


class Probes:
    """Asks every part of every robot. Of each part one question is open at a time, however many ask for health."""

    def __init__(self, handles: Handles) -> None:
        self._questions: dict[tuple[str, str], Callable[[], Awaitable[Any]]] = {
            ("", STORE): lambda: handles.poi_store.version()
        }
        for name, robot in handles.robots.items():
            for part, question in _questions(robot).items():
                self._questions[name, part] = question
        self._open: dict[tuple[str, str], asyncio.Task[Probe]] = {}

    async def ask(self) -> dict[tuple[str, str], Probe]:
        """Return, within PATIENCE_S, what each part of each robot answers; the store's robot is ""."""
        tasks = {key: self._task(key) for key in self._questions}
        await asyncio.wait(tasks.values(), timeout=PATIENCE_S)
        silent = Probe("silent", None)
        return {key: task.result() if task.done() else silent for key, task in tasks.items()}

    def close(self) -> None:
        """Stop asking."""
        for task in self._open.values():
            task.cancel()

    def _task(self, key: tuple[str, str]) -> asyncio.Task[Probe]:
        task = self._open.get(key)
        if task is None or task.done():
            task = self._open[key] = asyncio.create_task(_probe(self._questions[key]))
        return task


def stale_sensors(status: RobotStatus) -> list[str]:
    """Return a sentence for each sensor that the robot needs and that is late or was never seen."""
    ages = {"odometry": status.odometry_age, "lidar": status.lidar_age}
    return [
        f"{name}: {'nothing yet' if age is None else f'{age:.1f} s old'}"
        for name, age in ages.items()
        if age is None or age > FRESH_S[name]
    ]


def _questions(robot: Robot) -> dict[str, Callable[[], Awaitable[Any]]]:
    return {
        "platform": lambda: robot.platform.status(),
        "mapper": lambda: robot.mapper.stats(),
        "planner": lambda: robot.planner.status(),
        "explorer": lambda: robot.explorer.status(),
    }


async def _probe(question: Callable[[], Awaitable[Any]]) -> Probe:
    loop = asyncio.get_running_loop()
    asked = loop.time()
    try:
        answer = await question()
    except ActorTimedOut:
        return Probe("silent", None)
    except RhinoError:
        return Probe("restarting", None)
    except Exception:
        _log.exception("a part cannot say how it is")
        return Probe("failed", None)
    return Probe("ok", loop.time() - asked, answer)
