"""A rectangle of cells: how a grid says where it changed."""

from typing import NamedTuple


class CellWindow(NamedTuple):
    """Half-open ranges of rows and columns, [row0, row1) x [col0, col1)."""

    row0: int
    row1: int
    col0: int
    col1: int

    @property
    def is_empty(self) -> bool:
        return self.row0 >= self.row1 or self.col0 >= self.col1

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, cols; zero where empty."""
        return (max(0, self.row1 - self.row0), max(0, self.col1 - self.col0))

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index of the window's cells in the grid's array."""
        return (slice(self.row0, self.row1), slice(self.col0, self.col1))

    def as_tuple(self) -> tuple[int, int, int, int]:
        """Return a bare tuple, as the kernels take it."""
        return (self.row0, self.row1, self.col0, self.col1)

    def grown(self, cells: int) -> "CellWindow":
        """Return the window with a margin of `cells` on each side."""
        return CellWindow(
            self.row0 - cells, self.row1 + cells, self.col0 - cells, self.col1 + cells
        )

    def moved(self, rows: int, cols: int) -> "CellWindow":
        """Return the window shifted by that many cells."""
        return CellWindow(self.row0 + rows, self.row1 + rows, self.col0 + cols, self.col1 + cols)

    def clipped(self, other: "CellWindow") -> "CellWindow":
        """Return the part that lies in `other`; may be empty."""
        return CellWindow(
            max(self.row0, other.row0),
            min(self.row1, other.row1),
            max(self.col0, other.col0),
            min(self.col1, other.col1),
        )

    def united(self, other: "CellWindow") -> "CellWindow":
        """Return the smallest window that holds both; an empty one adds nothing."""
        if self.is_empty:
            return other
        if other.is_empty:
            return self
        return CellWindow(
            min(self.row0, other.row0),
            max(self.row1, other.row1),
            min(self.col0, other.col0),
            max(self.col1, other.col1),
        )


EMPTY_WINDOW = CellWindow(0, 0, 0, 0)
