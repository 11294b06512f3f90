"""Windows of cells."""

import numpy as np

from rhino_actors.mapping.window import EMPTY_WINDOW, CellWindow


def test_window_selects_its_cells() -> None:
    grid = np.arange(20).reshape(4, 5)
    assert grid[CellWindow(1, 3, 2, 5).slices].tolist() == [[7, 8, 9], [12, 13, 14]]


def test_union_holds_both_and_an_empty_window_adds_nothing() -> None:
    a, b = CellWindow(0, 2, 5, 6), CellWindow(-3, 1, 7, 9)
    assert a.united(b) == CellWindow(-3, 2, 5, 9)
    assert a.united(EMPTY_WINDOW) == a == CellWindow(9, 0, 9, 0).united(a)


def test_clipped_window_may_be_empty() -> None:
    a = CellWindow(0, 4, 0, 4)
    assert a.clipped(CellWindow(2, 9, -5, 3)) == CellWindow(2, 4, 0, 3)
    assert a.clipped(CellWindow(6, 9, 0, 3)).is_empty
    assert a.clipped(CellWindow(6, 9, 0, 3)).shape == (0, 3)


def test_growing_and_moving_are_by_cells() -> None:
    assert CellWindow(1, 2, 3, 4).grown(2).moved(10, -10) == CellWindow(9, 14, -9, -4)
