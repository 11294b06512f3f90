"""What holds for every test: its own data and state folders, and no Ray unless it is marked for it."""

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import ray

OPTIONAL = (
    "aiortc",
    "cv2",
    "mujoco",
    "rerun",
    "rerun_cli",
)  # tests skip what is not installed; CI must not
REAL = ("integration", "sim", "robot")  # markers of tests that may start Ray


def pytest_configure(config: pytest.Config) -> None:
    """Fail in CI when a skip would hide that an extra was not installed."""
    missing = [name for name in OPTIONAL if find_spec(name) is None]
    if missing and os.environ.get("CI"):
        raise pytest.UsageError(f"not installed, so their tests would be skipped: {missing}")


@pytest.fixture(scope="session", autouse=True)
def session_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep module-wide fixtures, such as a running deployment, out of the user's folders too."""
    folder = tmp_path_factory.mktemp("rhino")
    with pytest.MonkeyPatch.context() as patch:
        _use(patch, folder)
        yield folder


@pytest.fixture(autouse=True)
def own_folders(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Give each unit test folders of its own. A marked test keeps those of the session, that its cluster uses."""
    if not _is_real(request):
        _use(monkeypatch, tmp_path)


@pytest.fixture(autouse=True)
def no_ray(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `ray.init` raise in unit tests: what they test must work as plain classes."""
    if _is_real(request):
        return

    def refuse(*_args: Any, **_kwargs: Any) -> None:
        pytest.fail("a unit test started Ray: mark it integration, or test the plain class")

    monkeypatch.setattr(ray, "init", refuse)


def _use(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setenv("XDG_DATA_HOME", str(folder / "data"))
    patch.setenv("XDG_STATE_HOME", str(folder / "state"))
    patch.delenv("RHINO_PORT", raising=False)


def _is_real(request: pytest.FixtureRequest) -> bool:
    return any(request.node.get_closest_marker(name) for name in REAL)
