"""Where a mission has driven, in a bounded number of points. Pure."""

import math

import numpy as np
from numpy.typing import NDArray


class Trace:
    """Points along the way, as even as they can be: when they become too many, every other one goes.

    Args:
        spacing: of the points at first [m]; it doubles each time that they become too many.
        limit: the most points, at least 4.
    """

    def __init__(self, spacing: float = 0.1, limit: int = 1000) -> None:
        self._spacing = spacing
        self._limit = max(4, limit)
        self._pieces: list[list[tuple[float, float]]] = [[]]
        self._newest: tuple[float, float] | None = None

    def add(self, x: float, y: float) -> None:
        """Note where the robot is [m]."""
        self._newest = (x, y)
        piece = self._pieces[-1]
        if piece and math.dist(piece[-1], (x, y)) < self._spacing:
            return
        piece.append((x, y))
        if len(self) > self._limit:
            self._thin()

    def cut(self) -> None:
        """Break the line here: what comes next is not where the robot drove to."""
        self._close()
        if self._pieces[-1]:
            self._pieces.append([])
            if len(self) > self._limit:
                self._thin()

    def points(self) -> NDArray[np.float64]:
        """Return (N, 2) x, y [m], N at most the limit and one; a row of NaN where the line breaks."""
        rows: list[tuple[float, float]] = []
        for piece in self._pieces:
            if rows and piece:
                rows.append((math.nan, math.nan))
            rows += piece
        if self._newest is not None and rows and rows[-1] != self._newest and self._pieces[-1]:
            rows.append(self._newest)
        points = np.array(rows, dtype=np.float64).reshape(-1, 2)
        points.setflags(write=False)
        return points

    def __len__(self) -> int:
        return sum(map(len, self._pieces)) + len(self._pieces) - 1

    def _close(self) -> None:
        piece = self._pieces[-1]
        if piece and self._newest is not None and piece[-1] != self._newest:
            piece.append(self._newest)
        self._newest = None

    def _thin(self) -> None:
        self._spacing *= 2.0
        # The first point of each piece stays; of pieces of one point, as a robot lost again and again leaves, the
        # older half goes.
        self._pieces = [piece[::2] for piece in self._pieces]
        if len(self) > self._limit:
            self._pieces = self._pieces[len(self._pieces) // 2 :]
