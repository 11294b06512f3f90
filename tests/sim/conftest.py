"""One simulated robot for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.deployment import Rhino, rhino_world


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rhino]:
    """The simulation as `rhino deploy sim` starts it."""
    with rhino_world(tmp_path_factory.mktemp("simulated")) as world:
        world.deploy("sim")
        world.wait_for_map()
        yield world
