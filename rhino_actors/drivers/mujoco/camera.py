"""The camera process: draws what the robot's front camera sees and publishes it as JPEG.

Started by `camera_ladder.py` as `python -m rhino_actors.drivers.mujoco.camera FD SETTINGS PARENT` with MUJOCO_GL set
to the way of drawing. It runs at a low priority, reads the model's coordinates from the shared memory and ends with
its parent. A way of drawing that does not work ends the process with an error, or kills it.
"""

import ctypes
import json
import os
import signal
import sys
import time

import cv2
import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco import wire
from rhino_actors.drivers.mujoco.model import CAMERA, compile_model
from rhino_actors.drivers.mujoco.shm import SharedBlock
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.drivers.mujoco.worlds.scene import BODY_GROUP, HEAD_GROUP

NICENESS = 10
SAME_PICTURE = 1e-5  # [m] or [rad] below which a move does not show
LAMPS = 7  # the old OpenGL draws eight lights at once, and one is the camera's own
_PR_SET_PDEATHSIG = 1


class FrontCamera:
    """Draws the front camera's picture for given coordinates of the model."""

    def __init__(self, model: mujoco.MjModel, config: MujocoConfig) -> None:
        self._model = model
        self._data = mujoco.MjData(model)
        self._quality = config.camera_quality
        self._renderer = mujoco.Renderer(model, config.camera_height, config.camera_width)
        # Shadows and reflections cost three times the rest.
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = False
        self._renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = False
        self._options = mujoco.MjvOption()
        self._options.geomgroup[[BODY_GROUP, HEAD_GROUP]] = True

    def jpeg(self, coordinates: NDArray[np.float64]) -> bytes:
        """Return the picture at these coordinates: the model's, then place and quaternion of each mocap body."""
        bodies = coordinates[self._model.nq :].reshape(-1, 7)
        self._data.qpos[:] = coordinates[: self._model.nq]
        self._data.mocap_pos[:], self._data.mocap_quat[:] = bodies[:, :3], bodies[:, 3:]
        mujoco.mj_kinematics(self._model, self._data)
        mujoco.mj_camlight(self._model, self._data)
        self._switch_lamps()
        self._renderer.update_scene(self._data, camera=CAMERA, scene_option=self._options)
        picture = cv2.cvtColor(self._renderer.render(), cv2.COLOR_RGB2BGR)
        ok, encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, self._quality])
        if not ok:
            raise RuntimeError("the picture could not be encoded")
        return bytes(encoded)

    def _switch_lamps(self) -> None:
        """Light the lamps around what lies just ahead of the camera, and no others."""
        camera = self._model.camera(CAMERA).id
        ahead = self._data.cam_xpos[camera] - 2.0 * self._data.cam_xmat[camera].reshape(3, 3)[:, 2]
        distance = np.linalg.norm(self._data.light_xpos - ahead, axis=1)
        self._model.light_active[:] = 0
        self._model.light_active[np.argsort(distance)[:LAMPS]] = 1


def run(camera: FrontCamera, block: SharedBlock, config: MujocoConfig, parent: int) -> None:
    """Publish pictures at the camera's rate while the parent lives."""
    period = 1.0 / config.camera_rate_hz
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
            block["camera"].write(
                *wire.pack_camera(stamp, config.camera_width, config.camera_height, jpeg)
            )
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
    fd, settings, parent = int(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    _die_with(parent)
    os.nice(NICENESS)
    cv2.setNumThreads(1)
    config, robot = MujocoConfig(**settings["mujoco"]), RobotConfig(**settings["robot"])
    model = compile_model(
        make_world(config.world, config.seed, people=config.people), config, robot
    )
    run(FrontCamera(model, config), SharedBlock(fd, wire.capacities(config)), config, parent)


if __name__ == "__main__":
    main()
