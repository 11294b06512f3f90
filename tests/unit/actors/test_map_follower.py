"""MapFollower: asks for what changed, and for everything after something went wrong."""

from typing import Any

import numpy as np
import pytest
import ray.exceptions

from rhino_actors.actors.map_follower import MapFollower
from rhino_actors.errors import ActorUnavailable
from rhino_actors.messages.grid import TILE_CELLS, GridGeometry
from rhino_actors.messages.map_patch import MapPatch, MapVersion
from tests.fakes import FakeHandle


def patch(seq: int, since: int, epoch: int = 1) -> MapPatch:
    shape = (1, TILE_CELLS, TILE_CELLS)
    return MapPatch(
        epoch,
        seq,
        since,
        1.0,
        GridGeometry(0.05, (0.0, 0.0), shape[1:]),
        np.zeros((1, 2), np.int32),
        np.full(shape, seq, np.int8),
        np.full(shape, seq, np.uint8),
        1.0,
    )


class Mapper:
    """Answers what it is told to, and remembers what it was asked with."""

    def __init__(self) -> None:
        self.asked: list[MapVersion] = []
        self.answer: MapPatch | Exception | None = None

    async def snapshot(self, newer_than: MapVersion, wait: float) -> Any:
        self.asked.append(newer_than)

        async def ready(value: MapPatch | Exception) -> MapPatch:
            if isinstance(value, Exception):
                raise value
            return value

        return (0, 0), None if self.answer is None else [ready(self.answer)]


async def test_follower_asks_with_what_it_has_and_starts_over_after_a_failure() -> None:
    mapper = Mapper()
    follower = MapFollower(FakeHandle(mapper))
    assert await follower.newer() is None
    for seq, since in ((3, 0), (4, 3)):
        mapper.answer = patch(seq, since)
        snapshot = await follower.newer()
        assert snapshot is not None and snapshot.occupancy[0, 0] == seq
    for failure in (ray.exceptions.OwnerDiedError("", "", ""), patch(9, 8, epoch=2)):
        mapper.answer = failure
        with pytest.raises((ActorUnavailable, ValueError)):
            await follower.newer()
        mapper.answer = patch(1, 0, epoch=2)
        assert await follower.newer() is not None
    assert mapper.asked == [(0, 0), (0, 0), (1, 3), (1, 4), (0, 0), (2, 1), (0, 0)]
