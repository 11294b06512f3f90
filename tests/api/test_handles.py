import asyncio
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import ray.exceptions as rx

from rhino_actors.config import RhinoConfig
from rhino_actors.errors import (
    ActorTimedOut,
    ActorUnavailable,
    GoalOccupied,
    RhinoError,
    RobotNotFound,
)
from rhino_actors.messages.geometry import Twist2D
from serve_app import handles
from serve_app.handles import Actor, connect, read_map
from tests.api.world import FakeMapper, FakePlatform, Lost, World
from tests.fakes import FakeHandle


def died() -> rx.ActorDiedError:
    return rx.ActorDiedError()


def lost(error: BaseException) -> Actor:
    return Actor("go2/planner", lambda name: FakeHandle(Lost(error)))


def task_error(cause: Exception) -> Exception:
    wrapped: Exception = rx.RayTaskError("navigate", "traceback", cause).as_instanceof_cause()
    return wrapped


async def test_the_default_robot_is_the_configured_one_and_others_are_not_found() -> None:
    found = connect(RhinoConfig(), lambda name: FakeHandle(FakePlatform()))
    assert found.robot().name == found.robot("go2").name == "go2"
    assert (await found.robot().platform.status()).robot == "go2"
    with pytest.raises(RobotNotFound):
        found.robot("cat")


async def test_actors_are_looked_up_under_the_robots_name() -> None:
    asked: list[str] = []

    def resolve(name: str) -> Any:
        asked.append(name)
        return FakeHandle(World().pois if name == "poi_store" else FakePlatform())

    found = connect(RhinoConfig(), resolve)
    await found.robot().platform.status()
    await found.robot().platform.status()
    await found.poi_store.version()
    assert asked == ["go2/platform", "poi_store"]


async def test_an_unknown_actor_is_unavailable() -> None:
    def resolve(name: str) -> Any:
        raise ValueError("no such actor")

    with pytest.raises(ActorUnavailable, match="go2/planner does not run"):
        await Actor("go2/planner", resolve).status()


async def test_a_dead_actor_is_looked_up_again() -> None:
    found: list[Any] = [FakeHandle(Lost(died())), FakeHandle(FakePlatform())]
    actor = Actor("go2/platform", lambda name: found.pop(0))
    with pytest.raises(ActorUnavailable):
        await actor.status()
    assert (await actor.status()).robot == "go2"


@pytest.mark.parametrize(
    "error",
    [
        rx.ActorUnavailableError("restarting", b"\0" * 16),
        rx.OwnerDiedError("00", None, ""),
        rx.NodeDiedError("gone"),
        task_error(died()),
    ],
)
async def test_what_ray_says_of_a_lost_actor_is_unavailable(error: Exception) -> None:
    with pytest.raises(ActorUnavailable):
        await lost(error).status()


async def test_an_actor_that_is_silent_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        async def status(self) -> None:
            await asyncio.sleep(60)

    monkeypatch.setattr(handles, "CALL_TIMEOUT_S", 0.02)
    with pytest.raises(ActorTimedOut):
        await Actor("go2/planner", lambda name: FakeHandle(Silent())).status()


@dataclass
class Reference:
    """Stands for a ray.ObjectRef whose call is never answered."""

    call: str

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.sleep(60).__await__()


class SilentHandle:
    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *args, **kwargs: Reference(name))


@pytest.fixture
def called_off(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []

    def cancel(reference: Reference) -> None:
        calls.append(reference.call)
        raise RuntimeError("it is gone already")

    monkeypatch.setattr(ray, "ObjectRef", Reference)
    monkeypatch.setattr(ray, "cancel", cancel)
    monkeypatch.setattr(handles, "CALL_TIMEOUT_S", 0.02)
    monkeypatch.setattr(handles, "_PATIENCE_S", {})
    return calls


FORWARD = (Twist2D(0.2, 0.0, 0.0), "ann")
MOVING: list[tuple[str, str, tuple[Any, ...]]] = [
    ("planner", "navigate", ()),
    ("explorer", "start", ()),
    ("explorer", "start_patrol", ()),
    ("explorer", "resume", ()),
    ("platform", "velocity", FORWARD),
    ("platform", "sport", ("StandUp", "ann")),
]
ENDING: list[tuple[str, str, tuple[Any, ...]]] = [
    ("planner", "cancel", ()),
    ("explorer", "stop", ()),
    ("explorer", "pause", ()),
    ("platform", "stop", ()),
    ("platform", "estop", ()),
    ("platform", "release", ()),
    ("platform", "velocity", (Twist2D(), "ann")),
    ("platform", "sport", ("StopMove", "ann")),
    ("platform", "sport", ("Damp", "ann")),
]


@pytest.mark.parametrize(("part", "method", "args"), MOVING + ENDING)
async def test_a_movement_that_nobody_waits_for_is_called_off_and_an_end_is_not(
    called_off: list[str], part: str, method: str, args: tuple[Any, ...]
) -> None:
    expected = [method] if (part, method, args) in MOVING else []
    actor = Actor(f"go2/{part}", lambda name: SilentHandle())
    with pytest.raises(ActorTimedOut):
        await getattr(actor, method)(*args)
    assert called_off == expected

    called_off.clear()
    handles.CALL_TIMEOUT_S = 60.0  # put back by called_off
    waiting = asyncio.ensure_future(getattr(actor, method)(*args))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert called_off == expected


async def test_a_call_knows_nothing_of_the_request_that_made_it() -> None:
    """Ray keeps the running task in a context variable, and cancels with it what was called under it."""
    request: ContextVar[str] = ContextVar("request", default="none")
    seen: list[str] = []

    class Handle:
        def __getattr__(self, name: str) -> Any:
            async def answer() -> None:
                return

            def remote(*args: Any, **kwargs: Any) -> Any:
                seen.append(request.get())
                return answer()

            return SimpleNamespace(remote=remote)

    request.set("GET /api/camera/stream")
    await Actor("go2/platform", lambda name: Handle()).camera(0, wait=2.0)
    assert seen == ["none"]


async def test_the_actors_own_error_comes_through_with_its_fields() -> None:
    with pytest.raises(GoalOccupied) as caught:
        await lost(task_error(GoalOccupied("a sentence", "a hint"))).navigate(None)
    assert type(caught.value) is GoalOccupied
    assert (caught.value.message, caught.value.hint) == ("a sentence", "a hint")


async def test_a_bug_in_an_actor_stays_a_bug() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        await lost(task_error(ZeroDivisionError("oops"))).status()
    assert not isinstance(caught.value, RhinoError)


async def test_a_map_whose_owner_died_is_unavailable() -> None:
    class Orphan:
        async def snapshot(self, *args: Any, **kwargs: Any) -> Any:
            async def ref() -> None:
                raise rx.OwnerDiedError("00", None, "")

            return (1, 1), [ref()]

    with pytest.raises(ActorUnavailable):
        await read_map(Orphan())


async def test_a_map_is_read_once_per_version() -> None:
    mapper = FakeMapper()
    version, first = await read_map(mapper)
    assert first is mapper.current
    assert await read_map(mapper, version) == (version, None)
