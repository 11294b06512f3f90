"""The front camera without OpenGL: one ray for each pixel, shaded by colour, normal and distance.

The last way of drawing before none, for machines without a working EGL or OSMesa: few pixels, and every surface keeps
its colour and texture. Stands on MuJoCo's ray casting and numpy; shading is our own.
"""

import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from rhino_actors.drivers.mujoco.model import CAMERA
from rhino_actors.drivers.mujoco.worlds.scene import (
    BODY_GROUP,
    DECOR_GROUP,
    HEAD_GROUP,
    SCENE_GROUP,
)

FARTHEST = 30.0  # [m] beyond which there is only haze
HAZE = np.array([0.74, 0.78, 0.82])  # RGB that distance fades into, and the sky
HAZE_DISTANCE = 18.0  # [m] at which two thirds of a colour are haze
# [m] at which two thirds of a texture's contrast are lost: a pixel covers more of it.
TEXTURE_DISTANCE = 5.0
EDGE_SHADE = 0.62  # brightness of a pixel on the outline of a shape

Array = NDArray[np.float64]
Picture = NDArray[np.uint8]

_GROUPS = np.array(
    [
        group in (SCENE_GROUP, DECOR_GROUP, BODY_GROUP, HEAD_GROUP)
        for group in range(mujoco.mjNGROUP)
    ],
    dtype=np.uint8,
)


class RaycastPainter:
    """Paints what the front camera sees, from a state whose kinematics and cameras are up to date."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        """Prepare rays and colours.

        Args:
            model: of robot and scene.
            width: of the picture [px].
            height: of the picture [px].
        """
        self._model = model
        self._camera = int(model.camera(CAMERA).id)
        self._shape = (height, width)
        self._rays = _pixel_rays(width, height, math.radians(float(model.cam_fovy[self._camera])))
        count = width * height
        self._geoms = np.empty(count, np.int32)
        self._distances = np.empty(count)
        self._normals = np.empty(3 * count)
        self._paint = _Paint(model)

    def paint(self, data: mujoco.MjData) -> Picture:
        """Return the picture (height, width, 3), RGB, row 0 at the top."""
        origin = data.cam_xpos[self._camera].copy()
        rays = self._rays @ data.cam_xmat[self._camera].reshape(3, 3).T
        mujoco.mj_multiRay(
            self._model,
            data,
            origin,
            rays.reshape(-1),
            _GROUPS,
            True,
            -1,
            self._geoms,
            self._distances,
            self._normals,
            len(rays),
            FARTHEST,
        )
        colours = np.broadcast_to(HAZE, (len(rays), 3)).copy()
        met = np.flatnonzero(self._geoms >= 0)
        distances, normals = self._distances[met], self._normals.reshape(-1, 3)[met]
        geoms = self._geoms[met]
        points = origin + rays[met] * distances[:, None]
        looks = self._paint.colours(data, geoms, points, normals, distances)
        # A lamp at the camera, and light from above: floors, walls and undersides differ.
        facing = np.abs(np.einsum("ij,ij->i", normals, rays[met]))
        light = 0.42 + 0.36 * facing + 0.22 * normals[:, 2].clip(-0.5, 1.0)
        haze = 1.0 - np.exp(-distances / HAZE_DISTANCE)
        shaded = looks * (light * self._outline()[met])[:, None]
        colours[met] = shaded + haze[:, None] * (HAZE - shaded)
        picture: Picture = (255.0 * colours.clip(0.0, 1.0)).astype(np.uint8)
        return picture.reshape(*self._shape, 3)

    def close(self) -> None:
        """Nothing is held."""

    def _outline(self) -> Array:
        """Return the brightness (n,) of each pixel: lower where the shape to the right or below is another one."""
        shapes = self._geoms.reshape(self._shape)
        edge = np.zeros(self._shape, np.bool_)
        edge[:, :-1] |= shapes[:, :-1] != shapes[:, 1:]
        edge[:-1] |= shapes[:-1] != shapes[1:]
        return np.where(edge, EDGE_SHADE, 1.0).reshape(-1)


class _Paint:
    """Colours and textures of a model's geoms, as arrays."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._plain = model.geom_rgba[:, :3].astype(np.float64)
        self._texture = np.full(model.ngeom, -1)
        self._per_metre = np.ones((model.ngeom, 2))
        self._textures: list[Array] = []
        self._means: list[Array] = []
        textures: dict[int, int] = {}
        for geom, material in enumerate(model.geom_matid):
            if material < 0:
                continue
            self._plain[geom] = model.mat_rgba[material, :3]
            texture = int(model.mat_texid[material, mujoco.mjtTextureRole.mjTEXROLE_RGB])
            if texture < 0:
                continue
            if texture not in textures:
                textures[texture] = len(self._textures)
                pixels = _pixels(model, texture)
                self._means.append(pixels.mean(axis=(0, 1)))
                self._textures.append(pixels - self._means[-1])
            self._texture[geom] = textures[texture]
            self._plain[geom] *= self._means[textures[texture]]
            if model.mat_texuniform[material]:
                self._per_metre[geom] = model.mat_texrepeat[material]
        self._plain.flags.writeable = False

    def colours(
        self,
        data: mujoco.MjData,
        geoms: NDArray[np.int32],
        points: Array,
        normals: Array,
        far: Array,
    ) -> Array:
        """Return RGB (n, 3) of points (n, 3) on geoms (n,), with their normals (n, 3) and distances (n,) [m]."""
        colours: Array = self._plain[geoms].copy()
        which = self._texture[geoms]
        if not (which >= 0).any():
            return colours
        for geom in np.unique(geoms[which >= 0]):
            on = np.flatnonzero(geoms == geom)
            turn = data.geom_xmat[geom].reshape(3, 3)
            local = (points[on] - data.geom_xpos[geom]) @ turn
            # The two axes that lie in the face: a texture is laid on it from the side that the face looks to.
            face = np.abs(normals[on] @ turn).argmax(axis=1)
            u = np.where(face == 0, local[:, 1], local[:, 0]) * self._per_metre[geom, 0]
            v = np.where(face == 2, local[:, 1], local[:, 2]) * self._per_metre[geom, 1]
            contrasts = self._textures[self._texture[geom]]
            rows, cols, _ = contrasts.shape
            row, col = (v * rows).astype(np.int64) % rows, (u * cols).astype(np.int64) % cols
            colours[on] += contrasts[row, col] * np.exp(-far[on] / TEXTURE_DISTANCE)[:, None]
        return colours


def _pixels(model: mujoco.MjModel, texture: int) -> Array:
    """Return a texture as (rows, cols, 3), 0 to 1; of a cube the first of its six faces."""
    width, height = int(model.tex_width[texture]), int(model.tex_height[texture])
    channels, start = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
    data = model.tex_data[start : start + width * height * channels]
    rows = min(height, width)
    pixels: Array = data.reshape(height, width, channels)[:rows, :, :3] / 255.0
    return pixels


def _pixel_rays(width: int, height: int, fovy: float) -> Array:
    """Return unit vectors (height * width, 3) through the pixels, in the camera's frame, which looks along -z."""
    focal = 0.5 * height / math.tan(0.5 * fovy)
    x = (np.arange(width) + 0.5 - 0.5 * width) / focal
    y = (0.5 * height - np.arange(height) - 0.5) / focal
    rays = np.empty((height, width, 3))
    rays[..., 0], rays[..., 1], rays[..., 2] = x[None, :], y[:, None], -1.0
    rays /= np.linalg.norm(rays, axis=2, keepdims=True)
    return rays.reshape(-1, 3)
