"""Every way of drawing with its real process: what is there draws, what is not gives room to the next."""

import ctypes
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import cv2
import numpy as np
import pytest

from rhino_actors.config import RobotConfig
from rhino_actors.drivers.mujoco import wire
from rhino_actors.drivers.mujoco.camera_ladder import CameraLadder
from rhino_actors.drivers.mujoco.shm import SharedBlock
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.worlds import make_world
from tests.simulations import plain_simulation

pytestmark = pytest.mark.sim

# The names under which a library may be looked for.
LIBRARIES = {
    "egl": ("libEGL.so.1", "libEGL.so"),
    "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"),
}
LONG = 60.0  # [s]


def is_here(way: str) -> bool:
    """Tell whether the library of a way of drawing can be loaded on this machine."""
    for name in LIBRARIES[way]:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def broken(folder: Path, *ways: str) -> str:
    """Put files that are no libraries in the place of these; return the folder for LD_LIBRARY_PATH."""
    for way in ways:
        for name in LIBRARIES[way]:
            (folder / name).write_bytes(b"")
    return str(folder)


class Camera:
    """The ladder over a scene that does not move."""

    def __init__(self, way: str) -> None:
        config = plain_simulation(camera=way, camera_width=320, camera_height=180, people=False)
        self.block = SharedBlock.create(wire.capacities(config))
        simulation = Simulation(make_world("apartment", 1), config, RobotConfig())
        self.block["pose"].write(wire.pack_pose(simulation.coordinates))
        settings = json.dumps({"mujoco": asdict(config), "robot": asdict(RobotConfig())})
        self.ladder = CameraLadder(config, self.block, settings)

    def settle(self) -> str:
        """Climb until a way draws or none is left; return the status."""
        deadline = time.monotonic() + LONG
        while True:
            self.ladder.step(time.monotonic())
            if not self.ladder.status.startswith("starting"):
                return self.ladder.status
            assert time.monotonic() < deadline, self.ladder.status
            time.sleep(0.02)

    def picture(self) -> np.ndarray:
        message = self.block["camera"].read()
        assert message is not None
        frame = wire.unpack_camera(*message)
        image = cv2.imdecode(np.frombuffer(frame.jpeg, np.uint8), cv2.IMREAD_COLOR)
        assert image is not None and image.shape == (frame.height, frame.width, 3)
        return image

    def close(self) -> None:
        self.ladder.close()
        self.block.close()


@pytest.fixture
def cameras() -> Iterator[list[Camera]]:
    made: list[Camera] = []
    yield made
    for camera in made:
        camera.close()


def open_camera(cameras: list[Camera], way: str) -> Camera:
    cameras.append(Camera(way))
    return cameras[-1]


def likeness(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


@pytest.mark.parametrize("way", ["egl", "osmesa"])
def test_open_gl_draws_where_its_library_is_and_says_so_where_it_is_not(
    cameras: list[Camera], way: str
) -> None:
    camera = open_camera(cameras, way)
    status = camera.settle()
    if is_here(way):
        assert status == f"{way} 320x180@15"
        assert camera.picture().std() > 20.0
    else:
        assert status.startswith(f"off: {way}: ")


def test_ray_casting_draws_the_scene_that_open_gl_draws(cameras: list[Camera]) -> None:
    camera = open_camera(cameras, "raycast")
    assert camera.settle() == "raycast 160x90@5"
    cast = camera.picture()
    assert cast.std() > 20.0
    drawn = open_camera(cameras, "auto")
    if not drawn.settle().startswith("raycast"):
        smooth = [
            cv2.GaussianBlur(cv2.resize(image, (160, 90)), (0, 0), 2.0).astype(float)
            for image in (cast, drawn.picture())
        ]
        assert likeness(*smooth) > 0.7
        assert likeness(smooth[0][:, ::-1], smooth[1]) < 0.6, "and not any room is alike"


def test_a_broken_library_gives_room_to_the_next_way_and_the_state_says_why(
    cameras: list[Camera], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", broken(tmp_path, "egl"))
    status = open_camera(cameras, "auto").settle()
    assert status.startswith("osmesa 320x180@15" if is_here("osmesa") else "raycast"), status
    assert "(egl: " in status
    monkeypatch.setenv("LD_LIBRARY_PATH", broken(tmp_path, "egl", "osmesa"))
    camera = open_camera(cameras, "auto")
    status = camera.settle()
    assert status.startswith("raycast 160x90@5 (egl: ") and "; osmesa: " in status
    assert camera.picture().std() > 20.0
