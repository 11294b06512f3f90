import math

import numpy as np
import pytest

from rhino_actors.drivers.mujoco.gait import LEGS
from rhino_actors.drivers.mujoco.kinematics import REACH, foot_jacobian, foot_place, leg_joints
from tests.simulations import plain_simulation

RNG = np.random.default_rng(3)
JOINTS = RNG.uniform((-0.9, -1.0, -2.6), (0.9, 2.5, -0.9), (40, 3))


def place(q: np.ndarray, side: float) -> np.ndarray:
    found = np.empty(3)
    foot_place(q, side, found)
    return found


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_jacobian_is_the_slope_of_the_place(side: float) -> None:
    for q in JOINTS:
        jacobian = np.empty((3, 3))
        foot_jacobian(q, side, jacobian)
        for joint in range(3):
            step = np.zeros(3)
            step[joint] = 1e-6
            slope = (place(q + step, side) - place(q - step, side)) / 2e-6
            assert slope == pytest.approx(jacobian[:, joint], abs=1e-7)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_joints_for_a_place_put_the_foot_there(side: float) -> None:
    for q in JOINTS:
        wanted = place(q, side)
        if wanted[2] > -0.1:
            continue  # beside or above the hip: there are two ways to reach it
        found = np.empty(3)
        leg_joints(wanted, side, found)
        assert place(found, side) == pytest.approx(wanted, abs=1e-9)
        assert found[2] < 0.0


def test_a_place_out_of_reach_is_met_as_far_as_the_leg_goes() -> None:
    joints = np.empty(3)
    leg_joints(np.array([0.3, 0.0955, -0.6]), 1.0, joints)
    foot = place(joints, 1.0)
    assert math.hypot(foot[0], foot[2]) == pytest.approx(REACH)
    assert foot[0] / foot[2] == pytest.approx(0.3 / -0.6)


def test_the_model_has_its_feet_where_the_kinematics_say() -> None:
    mujoco = pytest.importorskip("mujoco")
    from rhino_actors.drivers.mujoco.walking_model import compile_walking_model
    from rhino_actors.drivers.mujoco.worlds.scene import Material, World

    floor = Material("floor", "", (0.5, 0.5, 0.5))
    world = World("test", 0, (), (floor,), (), (-5.0, -5.0, 5.0, 5.0))
    model = compile_walking_model(world, plain_simulation())
    data = mujoco.MjData(model)
    data.qpos[:3] = 0.0
    data.qpos[7:] = JOINTS[:4].ravel()
    mujoco.mj_kinematics(model, data)
    for leg, (name, _, side, _) in enumerate(LEGS):
        hip = data.body(f"{name}_hip").xpos
        foot = data.geom(f"{name}_foot").xpos
        assert foot - hip == pytest.approx(place(JOINTS[leg], side), abs=1e-9)
    assert model.body("trunk").subtreemass[0] == pytest.approx(15.02, abs=0.01)
