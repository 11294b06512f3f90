"""The camera process: draws what the robot's front camera sees and publishes it as JPEG.

Started by `camera_ladder.py` as `python -m rhino_actors.drivers.mujoco.camera FD SETTINGS PARENT WAY` with MUJOCO_GL
set to fit the way of drawing. It runs at a low priority, reads the model's coordinates from the shared memory and ends
with its parent. A way of drawing that does not work ends the process with an error, or kills it.
"""

import ctypes
import json
import os
import signal
import sys
import time
from typing import Protocol

import cv2
import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco import wire
from rhino_actors.drivers.mujoco.camera_ladder import RAYCAST, picture_format
from rhino_actors.drivers.mujoco.model import CAMERA, compile_model
from rhino_actors.drivers.mujoco.raycast_camera import Picture, RaycastPainter
from rhino_actors.drivers.mujoco.shm import SharedBlock
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.drivers.mujoco.worlds.scene import BODY_GROUP, HEAD_GROUP

NICENESS = 10
SAME_PICTURE = 1e-5  # [m] or [rad] below which a move does not show
LAMPS = 7  # the old OpenGL draws eight lights at once, and one is the camera's own
_PR_SET_PDEATHSIG = 1


class Painter(Protocol):
    """Draws what the front camera sees."""

    def paint(self, data: mujoco.MjData) -> Picture:
        """Return the picture (height, width, 3), RGB, row 0 at the top; cameras and lights are up to date."""

    def close(self) -> None:
        """Let go of what it draws with."""


class GlPainter:
    """Draws with OpenGL, by the way that MUJOCO_GL named when MuJoCo was imported."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        """Open a context. Raises what the library raises where there is none."""
        self._model = model
        self._camera = int(model.camera(CAMERA).id)
        self._renderer = mujoco.Renderer(model, height, width)
        # Shadows and reflections cost three times the rest.
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._options = mujoco.MjvOption()
        self._options.geomgroup[[BODY_GROUP, HEAD_GROUP]] = True

    def paint(self, data: mujoco.MjData) -> Picture:
        """Return the picture (height, width, 3), RGB, row 0 at the top."""
        self._switch_lamps(data)
        self._renderer.update_scene(data, camera=CAMERA, scene_option=self._options)
        picture: Picture = self._renderer.render()
        return picture

    def close(self) -> None:
        """Free the context, which must not be left to the end of the interpreter."""
        self._renderer.close()

    def _switch_lamps(self, data: mujoco.MjData) -> None:
        """Light the lamps around what lies just ahead of the camera, and no others."""
        ahead = data.cam_xpos[self._camera] - 2.0 * data.cam_xmat[self._camera].reshape(3, 3)[:, 2]
        distance = np.linalg.norm(data.light_xpos - ahead, axis=1)
        self._model.light_active[:] = 0
        self._model.light_active[np.argsort(distance)[:LAMPS]] = 1


class FrontCamera:
    """The front camera's pictures as JPEG, for given coordinates of the model."""

    def __init__(self, model: mujoco.MjModel, config: MujocoConfig, way: str = "egl") -> None:
        """Prepare to draw by a way of `camera_ladder.RUNGS`."""
        self.format = picture_format(way, config)
        self._model = model
        self._data = mujoco.MjData(model)
        self._quality = config.camera_quality
        painter = RaycastPainter if way == RAYCAST else GlPainter
        self._painter: Painter = painter(model, self.format.width, self.format.height)

    def jpeg(self, coordinates: NDArray[np.float64]) -> bytes:
        """Return the picture at these coordinates: the model's, then place and quaternion of each mocap body."""
        bodies = coordinates[self._model.nq :].reshape(-1, 7)
        self._data.qpos[:] = coordinates[: self._model.nq]
        self._data.mocap_pos[:], self._data.mocap_quat[:] = bodies[:, :3], bodies[:, 3:]
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        picture = cv2.cvtColor(self._painter.paint(self._data), cv2.COLOR_RGB2BGR)
        ok, encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, self._quality])
        if not ok:
            raise RuntimeError("the picture could not be encoded")
        return bytes(encoded)

    def close(self) -> None:
        """Let go of what it draws with."""
        self._painter.close()


def run(camera: FrontCamera, block: SharedBlock, parent: int) -> None:
    """Publish pictures at the camera's rate while the parent lives."""
    width, height, rate = camera.format
    period = 1.0 / rate
    due = time.monotonic()
    drawn: NDArray[np.float64] | None = None
    jpeg = b""
    while os.getppid() == parent:
        message = block["pose"].read()
        stamp = time.monotonic()
        if message is not None:
            coordinates = wire.unpack_pose(message[1])
            # While nothing moves, the picture stays what it is.
            if drawn is None or np.abs(coordinates - drawn).max() > SAME_PICTURE:
                drawn = coordinates
                jpeg = camera.jpeg(drawn)
        if jpeg:
            block["camera"].write(*wire.pack_camera(stamp, width, height, jpeg))
        due = max(due + period, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, where the kernel can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the parent is gone")


def main() -> None:
    """Entry point."""
    fd, settings = int(sys.argv[1]), json.loads(sys.argv[2])
    parent, way = int(sys.argv[3]), sys.argv[4]
    _die_with(parent)
    os.nice(NICENESS)
    cv2.setNumThreads(1)
    config, robot = MujocoConfig(**settings["mujoco"]), RobotConfig(**settings["robot"])
    model = compile_model(
        make_world(config.world, config.seed, people=config.people), config, robot
    )
    block = SharedBlock(fd, wire.capacities(config))
    camera = FrontCamera(model, config, way)
    try:
        run(camera, block, parent)
    finally:
        camera.close()


if __name__ == "__main__":
    main()
