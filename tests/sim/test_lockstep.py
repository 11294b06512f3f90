"""Lock-step: equal configurations and commands give equal bits, in one process after the other."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sim

SCRIPT = """
import hashlib
import numpy as np
from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.messages.geometry import Twist2D
from tests.simulations import plain_simulation

def digest(base):
    config = plain_simulation(
        world="maze", seed=2, lidar="l1", drift="default", base=base,
        faults="drop_lidar share=0.2; jumping_stamp after=2",
    )
    sim = Simulation(make_world("maze", 2), config, RobotConfig())
    rng = np.random.default_rng(1)
    found = hashlib.sha256()
    for step in range(300):
        if step % 50 == 0:
            twist = Twist2D(*rng.uniform((-0.3, -0.2, -1.0), (0.6, 0.2, 1.0)))
        observation = sim.step(twist)
        found.update(sim.coordinates.tobytes())
        found.update(repr(observation.odometry).encode())
        if observation.lidar is not None:
            found.update(observation.lidar.message)
    return found.hexdigest()
"""


@pytest.mark.parametrize("base", ["kinematic", "walking"])
def test_three_processes_give_the_same_states_and_observations_to_the_last_bit(base: str) -> None:
    root = str(Path(__file__).resolve().parents[2])
    found = {
        subprocess.run(
            [sys.executable, "-c", f"{SCRIPT}\nprint(digest({base!r}))"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": str(number), "PYTHONPATH": root},
        ).stdout
        for number in range(3)
    }
    assert len(found) == 1
    assert len(found.pop().strip()) == len(hashlib.sha256().hexdigest())
