"""Deployments for the slow tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployment import Rhino, rhino_world


@pytest.fixture
def rhino(tmp_path: Path) -> Iterator[Rhino]:
    """Nothing deployed yet; whatever the test deploys is ended, and nothing of it may be left."""
    with rhino_world(tmp_path) as world:
        yield world


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rhino]:
    """One fake robot, shared by the tests of a module; each test leaves it standing."""
    with rhino_world(tmp_path_factory.mktemp("running")) as world:
        world.deploy("test")
        world.wait_for_map()
        yield world
