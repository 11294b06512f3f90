"""Faults that need a body with weight, on the walking base."""

from dataclasses import replace

import numpy as np
import pytest

from rhino_actors.config import RobotConfig
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.worlds.scene import Material, World
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.platform import Posture
from tests.simulations import plain_simulation

pytestmark = pytest.mark.sim

FLOOR = World(
    "open", 0, (), (Material("floor", "", (0.5, 0.5, 0.5)),), (), (-20.0, -20.0, 20.0, 20.0)
)
CONFIG = plain_simulation(base="walking", lidar_azimuths=16, lidar_elevations=1)


def run(faults: str, twist: Twist2D, seconds: float) -> tuple[Simulation, np.ndarray]:
    """Return the simulation at the end, and its true (x, y, z, vy) at every tick."""
    sim = Simulation(FLOOR, replace(CONFIG, faults=faults), RobotConfig())
    rows = []
    for _ in range(round(seconds / sim.tick)):
        sim.step(twist)
        rows.append((*sim.position, sim.twist.vy))
    return sim, np.array(rows)


def test_a_push_moves_the_robot_and_it_stays_on_its_feet() -> None:
    sim, calm = run("", Twist2D(), 3.0)
    pushed, rows = run("push y=20 after=1", Twist2D(), 3.0)
    assert np.abs(calm[:, 3]).max() < 0.1 < 0.5 < np.abs(rows[:, 3]).max()
    assert rows[:, 1].max() > 0.1
    assert pushed.posture is Posture.STANDING and pushed.truth(0.0).falls == 0


def test_a_strong_push_throws_it_over_and_the_fall_is_counted() -> None:
    sim, _ = run("push y=150 after=1", Twist2D(), 4.0)
    assert sim.posture is Posture.FALLEN
    assert sim.truth(0.0).falls == 1


def test_a_payload_is_carried_and_taken_off_again() -> None:
    sim, rows = run("payload mass=4 after=1 duration=3", Twist2D(vx=0.4), 6.0)
    assert sim.posture is Posture.STANDING
    assert float(np.sum(sim.model.body_mass)) == pytest.approx(15.0, abs=0.5)
    loaded, _ = run("payload mass=4", Twist2D(), 0.5)
    assert float(np.sum(loaded.model.body_mass)) == pytest.approx(19.0, abs=0.5)


def test_slippery_feet_and_late_torques_are_walked_with() -> None:
    for faults in ("friction value=0.4", "actuator_lag delay=0.008"):
        sim, rows = run(faults, Twist2D(vx=0.3), 6.0)
        assert sim.posture is Posture.STANDING, faults
        assert rows[-1, 0] > 1.0, faults
