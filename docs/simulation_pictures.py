"""Make the pictures of docs/simulation.md: the worlds by camera and from above, the postures, the ways of drawing.

    MUJOCO_GL=egl python docs/simulation_pictures.py        or osmesa; written to docs/images

Everything is drawn from seed 1, so the same version of the worlds gives the same pictures.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import cv2
import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.base import STILL
from rhino_actors.drivers.mujoco.camera import FrontCamera
from rhino_actors.drivers.mujoco.locomotion import WalkingRobot
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.walking_model import compile_walking_model
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.drivers.mujoco.worlds.export import picture as truth_picture
from rhino_actors.drivers.mujoco.worlds.scene import (
    BODY_GROUP,
    HEAD_GROUP,
    Light,
    Material,
    World,
)
from rhino_actors.messages.geometry import Twist2D

IMAGES = Path(__file__).resolve().parent / "images"
SEED = 1
HEIGHT = 300  # [px] of the picture from above and of the truth beside it
# Where the camera of each world looks from: x, y [m], yaw [rad] in odom.
VIEWS = {
    "apartment": (0.0, 0.0, 0.0),
    "office": (-0.6, -2.6, -0.85),
    "warehouse": (0.0, 0.0, 0.0),
    "maze": (5.4, -2.0, 0.2),
}

Image = NDArray[np.uint8]  # (rows, cols, 3) BGR


def camera_view(name: str, way: str, *, width: int = 640) -> Image:
    """Return what the robot's camera sees, standing at VIEWS."""
    config = MujocoConfig(
        world=name, seed=SEED, base="walking", camera_width=width, camera_height=width * 9 // 16
    )
    simulation = Simulation(make_world(name, SEED), config, RobotConfig())
    assert isinstance(simulation.base, WalkingRobot)
    simulation.base.place(*VIEWS[name])
    for _ in range(50):
        simulation.step(STILL)
    camera = FrontCamera(simulation.model, config, way)
    jpeg = camera.jpeg(simulation.coordinates)
    camera.close()
    return np.asarray(cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR), np.uint8)


def from_above(name: str) -> Image:
    """Return a world without its ceiling from above, +x right and +y up, without perspective."""
    world = make_world(name, SEED)
    x_min, y_min, x_max, y_max = world.interior
    width = round(HEIGHT * (x_max - x_min) / (y_max - y_min))
    config = MujocoConfig(camera_width=2 * width, camera_height=2 * HEIGHT)
    model = compile_walking_model(world, config)
    for geom in range(model.ngeom):
        if model.geom(geom).name.startswith("ceiling"):
            model.geom_rgba[geom, 3] = 0.0
            model.geom_matid[geom] = -1
    model.light_active[:] = 0
    model.vis.headlight.ambient[:] = 0.55
    model.vis.headlight.diffuse[:] = 0.45
    model.vis.global_.fovy = y_max - y_min
    camera = mujoco.MjvCamera()
    camera.orthographic = 1
    camera.lookat[:] = (x_min + x_max) / 2.0, (y_min + y_max) / 2.0, 0.0
    camera.distance, camera.azimuth, camera.elevation = 12.0, 90.0, -90.0
    robot = WalkingRobot(model)
    mujoco.mj_forward(model, robot.data)
    return cv2.resize(_render(model, robot.data, camera, 2 * width, 2 * HEIGHT), (width, HEIGHT))


def beside_truth(name: str) -> Image:
    """Return the picture from above beside the truth grid, equally large."""
    above = from_above(name)
    truth = cv2.resize(
        truth_picture(make_world(name, SEED)), above.shape[1::-1], interpolation=cv2.INTER_AREA
    )
    gap = np.full((HEIGHT, 8, 3), 255, np.uint8)
    return np.hstack([above, gap, truth])


def postures() -> Iterator[tuple[str, Image]]:
    """Yield each posture's name and picture, the robot seen from its front left."""
    look = Material("floor", "checker", (0.72, 0.70, 0.66), (0.60, 0.58, 0.55), repeat=(2.0, 2.0))
    lights = (Light((1.0, 1.5, 2.5), (0.7, 0.7, 0.68)), Light((-1.5, 0.5, 2.5), (0.3, 0.3, 0.33)))
    world = World("open", 0, (), (look,), lights, (-4.0, -4.0, 4.0, 4.0), is_roofed=False)
    config = MujocoConfig(camera_width=640, camera_height=480)
    model = compile_walking_model(world, config)

    def after(
        *script: tuple[str | Twist2D, float], numbers: dict[str, float] | None = None
    ) -> Image:
        robot = WalkingRobot(model)
        for act, seconds in script:
            twist = act if isinstance(act, Twist2D) else STILL
            if isinstance(act, str):
                robot.command(act, numbers)
            robot.advance(twist, round(seconds / model.opt.timestep))
        return _portrait(robot)

    yield "standing", after((STILL, 1.0))
    yield "walking, 0.6 m/s", after((Twist2D(vx=0.6), 2.07))
    yield "StandDown: lying", after(("StandDown", 3.0))
    yield "Sit", after(("Sit", 3.0))
    yield "Hello", after(("Hello", 2.75))
    yield "Stretch", after(("Stretch", 1.8))
    yield "Dance1", after(("Dance1", 2.25))
    yield "Dance2", after(("Dance2", 2.35))
    yield "Pose roll=0.3", after(("Pose", 2.0), numbers={"roll": 0.3})
    yield "Pose pitch=-0.3 yaw=0.4", after(("Pose", 2.0), numbers={"pitch": -0.3, "yaw": 0.4})
    yield "Pose height=-0.12", after(("Pose", 2.0), numbers={"height": -0.12})
    yield "Damp", after(("Damp", 2.0))
    robot = WalkingRobot(model)
    robot.tip_over(2.6, 0.0)
    robot.advance(STILL, round(2.0 / model.opt.timestep))
    yield "fallen", _portrait(robot)
    robot.command("RecoveryStand")
    robot.advance(STILL, round(1.35 / model.opt.timestep))
    yield "RecoveryStand: rolling over", _portrait(robot)
    robot.advance(STILL, round(6.0 / model.opt.timestep))
    yield "RecoveryStand: done", _portrait(robot)


def _portrait(robot: WalkingRobot) -> Image:
    camera = mujoco.MjvCamera()
    camera.lookat[:] = robot.position[0], robot.position[1], 0.19
    camera.distance, camera.azimuth, camera.elevation = 1.25, 215.0, -14.0
    return cv2.resize(_render(robot.model, robot.data, camera, 640, 480), (320, 240))


def _render(
    model: mujoco.MjModel, data: mujoco.MjData, camera: mujoco.MjvCamera, width: int, height: int
) -> Image:
    options = mujoco.MjvOption()
    options.geomgroup[[BODY_GROUP, HEAD_GROUP]] = True
    with mujoco.Renderer(model, height, width) as renderer:
        renderer.update_scene(data, camera=camera, scene_option=options)
        return np.ascontiguousarray(renderer.render()[..., ::-1])


def sheet(pictures: list[tuple[str, Image]], columns: int) -> Image:
    """Return pictures of one size in rows, each with its name on it."""
    cells = []
    for name, image in pictures:
        cell = image.copy()
        cv2.rectangle(
            cell, (0, cell.shape[0] - 22), (cell.shape[1], cell.shape[0]), (40, 40, 40), -1
        )
        place = (7, cell.shape[0] - 6)
        cv2.putText(
            cell, name, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA
        )
        cells.append(np.pad(cell, ((0, 4), (0, 4), (0, 0)), constant_values=255))
    while len(cells) % columns:
        cells.append(np.full_like(cells[0], 255))
    rows = [np.hstack(cells[i : i + columns]) for i in range(0, len(cells), columns)]
    return np.vstack(rows)


def main() -> None:
    """Write every picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=IMAGES)
    folder: Path = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    def save(name: str, image: Image, quality: int = 82) -> None:
        path = folder / f"{name}.jpg"
        cv2.imwrite(str(path), image, [cv2.IMWRITE_JPEG_QUALITY, quality])
        print(f"{path}: {image.shape[1]}x{image.shape[0]}, {path.stat().st_size / 1e3:.0f} kB")

    for name in WORLDS:
        save(f"sim-{name}-above", beside_truth(name))
    views = [(name, camera_view(name, "egl")) for name in WORLDS]
    save("sim-camera", sheet(views, 2))
    cast = [
        (
            f"{name}, raycast 160x90",
            cv2.resize(camera_view(name, "raycast"), (480, 270), interpolation=cv2.INTER_NEAREST),
        )
        for name in ("apartment", "warehouse")
    ]
    save("sim-raycast", sheet(cast, 2))
    save("sim-postures", sheet(list(postures()), 3))


if __name__ == "__main__":
    main()
