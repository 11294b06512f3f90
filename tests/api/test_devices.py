import pytest
from fastapi.testclient import TestClient

from tests.api.world import World

ANN = {"X-Rhino-Client": "ann"}


@pytest.mark.parametrize(
    ("route", "body", "call"),
    [
        ("light", {"brightness": 7}, "light 7 ann"),
        ("volume", {"volume": 0}, "volume 0 ann"),
        ("obstacle_avoidance", {"enabled": False}, "obstacle_avoidance 0 ann"),
    ],
)
def test_a_device_is_set(
    client: TestClient, world: World, route: str, body: dict[str, int], call: str
) -> None:
    answer = client.post(f"/api/robot/{route}", json=body, headers=ANN)
    assert answer.status_code == 200
    assert answer.json() == {"device": route, "accepted": True, "code": 0, "message": ""}
    assert world.platform.calls == [call]
    world.platform.is_equipped = False
    answer = client.post(f"/api/robots/go2/robot/{route}", json=body)
    assert answer.status_code == 409 and answer.json()["code"] == "NOT_EQUIPPED"


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("light", {"brightness": 11}),
        ("light", {"brightness": 2.5}),
        ("volume", {"volume": -1}),
        ("volume", {}),
        ("obstacle_avoidance", {"enabled": 1}),
    ],
)
def test_a_level_that_there_is_not_is_refused(
    client: TestClient, world: World, route: str, body: dict[str, float]
) -> None:
    assert client.post(f"/api/robot/{route}", json=body).status_code == 422
    assert world.platform.calls == []
