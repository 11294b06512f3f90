import mujoco
import numpy as np
import pytest

from rhino_actors.config import RobotConfig
from rhino_actors.drivers.mujoco.model import compile_model
from rhino_actors.drivers.mujoco.raycast_camera import Picture, RaycastPainter
from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, World
from tests.simulations import plain_simulation

WIDTH, HEIGHT = 160, 90
CHECKER = Material("floor", "checker", (0.9, 0.9, 0.9), (0.1, 0.1, 0.1))
PLAIN = Material("floor", "", (0.5, 0.5, 0.5))


def picture(*boxes: Box, floor: Material = PLAIN) -> Picture:
    world = World("one", 0, boxes, (floor,), (), (-20.0, -20.0, 20.0, 20.0), is_roofed=False)
    model = compile_model(world, plain_simulation(), RobotConfig())
    data = mujoco.MjData(model)
    data.qpos[3] = 0.3  # the trunk's height
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)
    return RaycastPainter(model, WIDTH, HEIGHT).paint(data)


def box(x: float, y: float, rgb: tuple[float, float, float] = (0.9, 0.1, 0.1)) -> Box:
    return Box("box", (x, y, 0.3), (0.5, 0.5, 0.6), rgb=rgb)


def is_red(image: Picture) -> np.ndarray:
    red, green, blue = (image[..., channel].astype(int) for channel in range(3))
    return (red > green + 30) & (red > blue + 30)


@pytest.mark.parametrize(("y", "side"), [(0.8, "left"), (-0.8, "right")])
def test_a_box_is_seen_in_its_colour_on_its_side_and_upright(y: float, side: str) -> None:
    rows, cols = np.nonzero(is_red(picture(box(3.0, y))))
    assert len(rows) > 100
    assert bool(cols.mean() < WIDTH / 2) is (side == "left")
    # From 0.6 m above the floor down to it, seen from between the two.
    assert rows.min() < HEIGHT / 2 < rows.max() < HEIGHT - 1


def test_it_is_as_large_as_a_pinhole_of_the_real_field_of_view_has_it() -> None:
    _, cols = np.nonzero(is_red(picture(box(3.0, 0.0))))
    focal = 0.5 * HEIGHT / np.tan(np.radians(48.6) / 2)
    nearest = 3.0 - 0.25 - 0.345  # the face, from the camera on the head
    assert cols.max() - cols.min() + 1 == pytest.approx(0.5 * focal / nearest, abs=2)


def test_what_is_far_fades_and_what_is_beyond_is_haze() -> None:
    near, far = picture(box(2.0, 0.0)), picture(box(9.0, 0.0))
    saturation = [np.ptp(image[is_red(image)].astype(int), axis=1).mean() for image in (near, far)]
    assert saturation[1] < 0.8 * saturation[0]
    assert np.ptp(near[0, :5].astype(int)) < 40  # the sky


def test_faces_edges_and_textures_can_be_told_apart() -> None:
    turned = Box("box", (2.0, 0.0, 0.2), (0.5, 0.5, 0.4), rgb=(0.9, 0.1, 0.1), yaw=0.7)
    image = picture(turned)
    shades = np.unique(image[is_red(image)][:, 0] // 8)
    assert len(shades) >= 3
    plain, checked = (picture(floor=look)[60:] for look in (PLAIN, CHECKER))
    assert checked.std() > 2.0 * plain.std()
