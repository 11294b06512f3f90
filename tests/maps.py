"""Hand-drawn maps for tests: "#" lethal, "." free, "?" unknown, S start, G goal; the top line has the highest y."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.grid import (
    FREE,
    FREE_SPACE,
    LETHAL_OBSTACLE,
    NO_INFORMATION,
    OCCUPIED,
    UNKNOWN,
)

Cell = tuple[int, int]

_OCCUPANCY = {"#": OCCUPIED, ".": FREE, "?": UNKNOWN, "S": FREE, "G": FREE}


@dataclass(frozen=True)
class AsciiMap:
    """A drawn map as the arrays that the code under test takes."""

    occupancy: NDArray[np.int8]  # (rows, cols) -1, 0, 100; row 0 is the bottom line
    marks: dict[str, list[Cell]]  # letter to its (row, col), bottom line first

    @property
    def costmap(self) -> NDArray[np.uint8]:
        """The map without inflation: 0 free, 254 lethal, 255 unknown."""
        return costmap_from_occupancy(self.occupancy)

    @property
    def start(self) -> Cell:
        return self.marks["S"][0]

    @property
    def goal(self) -> Cell:
        return self.marks["G"][0]


def parse(text: str) -> AsciiMap:
    """Read a drawing; lines are stripped, empty ones ignored, other letters are free cells with a mark."""
    lines = [line.strip() for line in text.splitlines() if line.strip()][::-1]
    if len({len(line) for line in lines}) != 1:
        raise ValueError("the lines of a map must be equally long")
    occupancy = np.zeros((len(lines), len(lines[0])), np.int8)
    marks: dict[str, list[Cell]] = {}
    for row, line in enumerate(lines):
        for col, letter in enumerate(line):
            if letter not in _OCCUPANCY and not letter.isalpha():
                raise ValueError(f"{letter!r} means nothing in a map")
            occupancy[row, col] = _OCCUPANCY.get(letter, FREE)
            if letter.isalpha():
                marks.setdefault(letter, []).append((row, col))
    return AsciiMap(occupancy, marks)


def costmap_from_occupancy(occupancy: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Return the uninflated costmap of an occupancy grid."""
    costmap = np.full(occupancy.shape, FREE_SPACE, np.uint8)
    costmap[occupancy >= 50] = LETHAL_OBSTACLE
    costmap[occupancy < 0] = NO_INFORMATION
    return costmap


def draw(grid: NDArray[np.integer], cells: NDArray[np.integer] | None = None) -> str:
    """Return an occupancy grid as text with `cells` as "*": what a failing test should show."""
    letters = np.full(grid.shape, ".", dtype="<U1")
    letters[grid >= 50] = "#"
    letters[grid < 0] = "?"
    for row, col in [] if cells is None else cells:
        letters[row, col] = "*"
    return "\n".join("".join(line) for line in letters[::-1])
