"""Errors cross actor boundaries with all their fields, and tell people and programs what happened."""

import pickle
import re

import pytest
from ray.exceptions import RayTaskError

from rhino_actors import errors
from rhino_actors.errors import ControlHeld, NoPath, PlanningError, RhinoError, original


def _below(kind: type[RhinoError]) -> list[type[RhinoError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _below(child))]


ALL = [kind for kind in _below(RhinoError) if kind.__module__ == errors.__name__]


def _fields(error: RhinoError) -> dict[str, object]:
    return {**vars(error), "code": error.code, "text": str(error)}


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("args", [(), ("what is wrong.",), ("what is wrong.", "what to do.")])
def test_an_error_survives_pickling_and_rebuilding_from_its_args(
    kind: type[RhinoError], args: tuple[str, ...]
) -> None:
    error = kind(*args)
    for copy in (pickle.loads(pickle.dumps(error)), type(error)(*error.args)):
        assert type(copy) is kind
        assert _fields(copy) == _fields(error)


def test_the_holder_survives_pickling() -> None:
    error = ControlHeld("taken.", "wait.", "phone")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.holder, copy.message, copy.hint) == ("phone", "taken.", "wait.")


@pytest.mark.parametrize("error", [NoPath("walls."), ControlHeld("taken.", "wait.", "phone")])
def test_an_error_raised_in_an_actor_is_caught_by_its_class_and_gives_its_fields(
    error: RhinoError,
) -> None:
    arrived = RayTaskError("navigate", "trace", error).as_instanceof_cause()
    with pytest.raises(type(error)) as caught:
        raise arrived
    assert isinstance(caught.value, RhinoError)
    found = original(caught.value)
    assert isinstance(found, RhinoError)
    assert _fields(found) == _fields(error)


def test_original_leaves_other_errors_alone() -> None:
    for error in (NoPath(), ValueError("x"), KeyboardInterrupt()):
        assert original(error) is error


def test_families_are_caught_together() -> None:
    with pytest.raises(PlanningError):
        raise NoPath()


@pytest.mark.parametrize("kind", ALL)
def test_every_error_has_a_code_a_sentence_and_a_hint(kind: type[RhinoError]) -> None:
    error = kind()
    assert re.fullmatch(r"[A-Z][A-Z_]+[A-Z]", error.code)
    assert error.message.endswith(".") and error.hint.endswith(".")
    assert str(error) == f"{error.code}: {error.message} {error.hint}"


def test_codes_tell_errors_apart() -> None:
    codes = [kind.code for kind in ALL]
    assert len(set(codes)) == len(codes)
