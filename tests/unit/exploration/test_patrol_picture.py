"""Pictures of visits."""

import cv2
import numpy as np

from rhino_actors.exploration.patrol_picture import FRESH, STALE, patrol_picture, visit_age_image
from rhino_actors.messages.grid import UNKNOWN
from tests.unit.exploration.patrol_maps import room, snapshot_of


def _decoded(png: bytes) -> np.ndarray:
    image = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    assert image is not None
    return image[..., ::-1]


def test_ages_go_from_green_to_red_and_nothing_is_drawn_where_nobody_was() -> None:
    ages = np.array([[0.0, 300.0, 600.0, 9000.0, np.inf]], np.float32)
    image = visit_age_image(ages, 600.0)
    assert tuple(image[0, 0, :3]) == FRESH
    assert tuple(image[0, 2, :3]) == tuple(image[0, 3, :3]) == STALE
    assert (image[0, :4, 3] > 0).all() and image[0, 4, 3] == 0


def test_a_picture_has_the_highest_y_on_top() -> None:
    ages = np.full((80, 120), np.inf, np.float32)
    ages[60:70, 50:60] = 0.0
    image = _decoded(patrol_picture(snapshot_of(room()), ages, 600.0, np.zeros((0, 2))))
    green = np.argwhere((image[..., 1] > 150) & (image[..., 0] < 100))
    map_rows = image.shape[0] - 44
    drawn = green[green[:, 0] < map_rows]
    assert len(drawn) and drawn[:, 0].max() < 0.3 * map_rows


def test_the_known_part_is_drawn_with_trace_robot_goal_and_points() -> None:
    occupancy = np.full((400, 400), UNKNOWN, np.int8)
    occupancy[100:180, 200:320] = room()
    snapshot = snapshot_of(occupancy)
    ages = np.full(occupancy.shape, np.inf, np.float32)
    plain = _decoded(patrol_picture(snapshot, ages, 60.0, np.zeros((0, 2))))
    assert plain.shape[1] / (plain.shape[0] - 44) == np.float64(1.5)
    drawn = _decoded(
        patrol_picture(
            snapshot,
            ages,
            60.0,
            np.array([[11.0, 6.0], [14.0, 8.0]]),
            robot=(11.0, 6.0, 1.0),
            goal=(14.0, 8.0),
            points=np.array([[12.0, 6.0]]),
        )
    )
    assert np.count_nonzero((plain != drawn).any(axis=2)) > 300


def test_a_map_without_known_cells_is_drawn_too() -> None:
    snapshot = snapshot_of(np.full((40, 40), UNKNOWN, np.int8))
    ages = np.full((40, 40), np.inf, np.float32)
    assert _decoded(patrol_picture(snapshot, ages, 60.0, np.zeros((0, 2)))).shape[2] == 3
