from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from serve_app.app import create_api
from tests.api.world import World

BASE_URL = "http://localhost:8000"


@pytest.fixture(scope="session")
def session() -> Iterator[tuple[World, TestClient]]:
    """One server for all tests, since building one takes longer than most of them."""
    world = World()
    with TestClient(create_api(world.handles()), base_url=BASE_URL) as running:
        yield world, running


@pytest.fixture
def world(session: tuple[World, TestClient]) -> World:
    world, running = session
    world.reset()
    assert running.portal is not None
    running.portal.call(running.app.state.services.close)  # its feeds know the world before
    return world


@pytest.fixture
def client(session: tuple[World, TestClient], world: World) -> TestClient:
    return session[1]
