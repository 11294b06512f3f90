import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from serve_app.images import encode_png, jpeg_within, map_png_within, overview_image
from tests.api.world import jpeg, snapshot


def decoded(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), np.uint8)


def noisy_map(rows: int, cols: int) -> MapSnapshot:
    rng = np.random.default_rng(3)
    occupancy = rng.choice(np.array([-1, 0, 100], dtype=np.int8), (rows, cols))
    costmap = np.zeros((rows, cols), dtype=np.uint8)
    return MapSnapshot(
        1, 1, 0.0, GridGeometry(0.05, (-3.0, 2.0), (rows, cols)), occupancy, costmap, 1.0
    )


def test_png_keeps_every_pixel() -> None:
    image = np.random.default_rng(0).integers(0, 255, (37, 53), dtype=np.uint8)
    assert (cv2.imdecode(np.frombuffer(encode_png(image), np.uint8), -1) == image).all()


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (20, 30), (300, 2000), (1100, 1100)])
def test_a_map_for_an_assistant_fits_and_keeps_its_scale(rows: int, cols: int) -> None:
    data, per_cell = map_png_within(
        noisy_map(rows, cols), pose=None, path=None, goal=None, max_side=1024, max_bytes=200_000
    )
    image = decoded(data)
    assert len(data) <= 200_000 and max(image.shape) <= 1024
    assert image.shape[0] == pytest.approx(rows * per_cell, abs=1.0)
    assert image.shape[1] == pytest.approx(cols * per_cell, abs=1.0)


def test_a_picture_for_an_assistant_fits() -> None:
    small = jpeg()
    assert jpeg_within(small, max_side=1024, max_bytes=200_000) == (small, 64, 48)
    data, width, height = jpeg_within(
        jpeg(1600, 1200, noise=True), max_side=1024, max_bytes=200_000
    )
    assert len(data) <= 200_000 and max(width, height) <= 1024
    assert decoded(data).shape[:2] == (height, width)
    assert width / height == pytest.approx(4 / 3, abs=0.01)


def test_bytes_that_are_no_picture_are_refused() -> None:
    with pytest.raises(ValueError, match="no JPEG"):
        jpeg_within(b"\xff\xd8nothing", max_side=10, max_bytes=10)


@pytest.mark.parametrize("yaw", [0.0, 1.2, math.pi, -2.0])
def test_the_arrow_points_where_the_robot_looks(yaw: float) -> None:
    blank = snapshot()
    blank.occupancy[:] = 0
    image = overview_image(blank, pose=Pose2D(0.5, 0.5, yaw), scale=8).astype(int)
    rows, cols = np.nonzero((image != 254).any(axis=2))
    x = -1.0 + (cols + 0.5) * 0.1 / 8 - 0.5
    y = -0.5 + (160 - (rows + 0.5)) * 0.1 / 8 - 0.5
    farthest = np.argmax(np.hypot(x, y))
    assert math.atan2(y[farthest], x[farthest]) == pytest.approx(yaw, abs=0.15) or abs(
        abs(math.atan2(y[farthest], x[farthest]) - yaw) - math.tau
    ) == pytest.approx(0.0, abs=0.15)


@pytest.mark.parametrize("far", [1e9, -1e300, math.inf, math.nan])
def test_what_lies_far_off_the_map_draws_without_harm(far: float) -> None:
    path = np.array([[0.0, 0.0], [far, far]])
    image = overview_image(snapshot(), pose=Pose2D(far, 0.0), path=path, goal=Pose2D(0.0, far))
    assert image.shape == (20, 30, 3)
