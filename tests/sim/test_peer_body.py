"""The MuJoCo Go2 as the peer's body: it is driven, and its lidar and camera come in the robot's own form."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mujoco")
pytest.importorskip("aiortc")

from rhino_actors.drivers.go2.lidar import read_voxel_message
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.platform import Posture
from rhino_actors.peer.body import SimulatedBody
from rhino_actors.peer.command import make_body

pytestmark = [pytest.mark.sim, pytest.mark.timeout(200)]


async def until(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 90.0
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)
    return found


async def test_simulated_robot_drives_and_senses_as_the_real_one_tells_it() -> None:
    body = make_body("apartment", 1, walking=False, speed=1.0)
    assert isinstance(body, SimulatedBody)
    await body.start()
    try:
        first = await until(body.odometry, "odometry")
        await until(lambda: body.state().posture is Posture.STANDING, "standing")
        frame = await until(lambda: body.voxels(10), "the lidar")
        points = read_voxel_message(frame.message).points()
        assert len(points) > 500
        near = np.linalg.norm(points[:, :2] - np.array(first.position[:2]), axis=1)
        assert near.max() < 3.3 * np.sqrt(2.0), "the window is 6.4 m wide, about the robot"
        assert body.picture(1).shape == (720, 1280, 3)

        def has_driven() -> bool:
            body.drive(Twist2D(0.3))
            now = body.odometry()
            return now is not None and now.pose.distance_to(*first.position[:2]) > 0.2

        await until(has_driven, "the robot to drive")
        assert (await body.sport("StandDown")).accepted
    finally:
        await body.close()
