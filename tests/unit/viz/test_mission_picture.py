"""Pictures of missions: what is drawn lies where it is, whatever the map's size."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.missions import (
    MissionGoal,
    MissionKind,
    MissionRecord,
    MissionState,
    SkippedTarget,
    Visits,
)
from rhino_actors.viz.mission_picture import draw_mission

GEOMETRY = GridGeometry(0.1, (-1.0, -2.0), (40, 60))
RECORD = MissionRecord(
    "a",
    "go2",
    MissionKind.EXPLORE,
    "ann",
    0.0,
    1.0,
    MissionState.COMPLETE,
    "",
    "",
    12.0,
    60.0,
    9.0,
    goals=(MissionGoal(2.0, 1.0, 0.0, 1.0, "arrived"), MissionGoal(4.0, 1.0, 1.0, 2.0, "failed")),
    skipped=(SkippedTarget(4.0, -1.0, 9, "GAVE_UP"),),
)
NO_TRACE = np.empty((0, 2))


def snapshot(occupancy: np.ndarray, geometry: GridGeometry = GEOMETRY) -> MapSnapshot:
    return MapSnapshot(
        1, 1, 0.0, geometry, occupancy, np.zeros(occupancy.shape, np.uint8), occupancy.size * 0.01
    )


def room() -> np.ndarray:
    occupancy = np.zeros((40, 60), np.int8)
    occupancy[0] = occupancy[-1] = 100
    return occupancy


def pixels(png: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return image


def of_color(image: np.ndarray, bgr: tuple[int, int, int]) -> np.ndarray:
    """Return (N, 2) x, y of the pixels of a colour, none of the line of text."""
    rows, cols = np.nonzero((image[35:] == bgr).all(axis=2))
    return np.column_stack([cols, rows + 35])


def test_everything_lies_where_it_is() -> None:
    trace = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 0.7]])
    image = pixels(draw_mission(snapshot(room()), RECORD, trace, home=Pose2D(0.0, 0.0)))
    # 60 cells at 8 pixels lie in the middle of the least width, 12 pixels below the text.
    left, bottom = (700 - 480) // 2, 30 + 12 + 320

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (x + 1.0) * 80.0, bottom - (y + 2.0) * 80.0

    for color, x, y in (
        ((60, 150, 40), 2.0, 1.0),  # reached
        ((30, 30, 200), 4.0, 1.0),  # failed
        ((0, 140, 255), 4.0, -1.0),  # skipped
    ):
        found = of_color(image, color)
        near = np.abs(found - at(x, y)).max(axis=1) <= 12
        assert near.any(), (color, x, y)
    way = of_color(image, (222, 110, 30))
    assert np.abs(way - at(1.0, 0.0)).max(axis=1).min() <= 2
    assert np.abs(way - at(2.0, 0.5)).max(axis=1).min() <= 2
    assert np.abs(way - at(1.0, 1.0)).max(axis=1).min() > 40


@pytest.mark.slow
def test_the_picture_shows_what_is_known_only_and_stays_small() -> None:
    occupancy = np.full((4000, 4000), -1, np.int8)
    occupancy[1000:1100, 1000:1200] = 0
    geometry = GridGeometry(0.05, (-100.0, -100.0), occupancy.shape)
    image = pixels(draw_mission(snapshot(occupancy, geometry), RECORD, NO_TRACE))
    assert image.shape[1] < 1300
    occupancy[:] = 0
    image = pixels(draw_mission(snapshot(occupancy, geometry), RECORD, NO_TRACE))
    assert 1150 < image.shape[1] < 1300 and image.shape[0] < 1300


def test_visits_colour_the_floor_where_they_were_from_green_to_red() -> None:
    age = np.zeros((40, 60), np.uint8)
    age[5:15, 10:30] = 1
    age[18:28, 34:44] = 255
    age[0] = 1  # a wall
    visits = Visits(GEOMETRY, age, 600.0)
    plain = pixels(draw_mission(snapshot(room()), RECORD, NO_TRACE))
    image = pixels(draw_mission(snapshot(room()), RECORD, NO_TRACE, visits=visits))
    assert len(image) > len(plain), "a line below says what the colours mean"
    image = image[: len(plain)].astype(int)
    left, bottom = (700 - 480) // 2, 30 + 12 + 320
    changed = (image != plain).any(axis=2)
    blue, green, red = image.transpose(2, 0, 1)
    for color, first, last in (
        ((green > red) & changed, (left + 80, bottom - 120), (left + 239, bottom - 41)),
        ((red > green) & changed, (left + 272, bottom - 224), (left + 351, bottom - 145)),
    ):
        rows, cols = np.nonzero(color)
        assert (cols.min(), rows.min()) == first and (cols.max(), rows.max()) == last
        assert len(rows) == (last[0] - first[0] + 1) * (last[1] - first[1] + 1)


@pytest.mark.parametrize(
    "trace",
    [
        NO_TRACE,
        np.array([[np.nan, np.nan]]),
        np.array([[1e9, -1e9], [0.0, 0.0]]),
        np.array([[0.0, 0.0], [np.nan, np.nan], [1.0, 1.0]]),
    ],
)
def test_no_way_and_no_map_breaks_it(trace: np.ndarray) -> None:
    for seen in (None, snapshot(room()), snapshot(np.full((40, 60), -1, np.int8))):
        record = replace(RECORD, kind=MissionKind.PATROL)
        assert pixels(draw_mission(seen, record, trace, area=((0, 0), (1e4, 0), (0, 1e4)))).size
