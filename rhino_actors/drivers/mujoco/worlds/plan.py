"""What the generators of worlds draw with: colours, a floor plan that collects boxes, and pieces of furniture.

A plan has its own coordinates, whose origin is its lower-left corner; every box is moved so that the start lies at
the origin of odom. Stands on numpy alone.
"""

import math
from typing import NamedTuple

import numpy as np

from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, Rgb, Trap

WALL_HEIGHT = 2.4  # [m]
PASSAGE = 0.85  # [m] kept free beside every piece of furniture that is placed by chance
TRAP_WIDTH = 0.50  # [m] wider than the robot's body, too narrow for it to pass safely
ATTEMPTS = 24  # places that are tried for a piece
WALL = 0.12  # [m] thickness
DOOR_HEIGHT = 2.02  # [m] underside of the lintel

FABRICS: tuple[Rgb, ...] = (
    (0.18, 0.36, 0.55),
    (0.55, 0.22, 0.20),
    (0.24, 0.45, 0.36),
    (0.72, 0.52, 0.22),
    (0.42, 0.32, 0.52),
)
BOOKS: tuple[Rgb, ...] = (
    (0.65, 0.16, 0.16),
    (0.16, 0.35, 0.62),
    (0.85, 0.70, 0.25),
    (0.20, 0.50, 0.30),
    (0.85, 0.82, 0.75),
    (0.35, 0.20, 0.40),
)
WHITE: Rgb = (0.92, 0.92, 0.90)
STEEL: Rgb = (0.75, 0.77, 0.79)
DARK: Rgb = (0.12, 0.12, 0.13)
OAK: Rgb = (0.62, 0.44, 0.26)
LEAF: Rgb = (0.16, 0.42, 0.18)
TERRACOTTA: Rgb = (0.70, 0.36, 0.22)
SKY: Rgb = (0.62, 0.80, 0.95)


def plaster(name: str, rgb: Rgb) -> Material:
    """Return a wall paint with marks in it, which a camera can hold on to."""
    mark = (rgb[0] * 0.86, rgb[1] * 0.86, rgb[2] * 0.86)
    return Material(name, "flat", rgb, rgb, "random", mark, cube=True)


Span = tuple[float, float]


class Area(NamedTuple):
    """An upright rectangle of the plan [m]."""

    x: Span
    y: Span

    @property
    def middle(self) -> tuple[float, float]:
        return ((self.x[0] + self.x[1]) / 2.0, (self.y[0] + self.y[1]) / 2.0)

    def grown(self, margin: float) -> "Area":
        """Return the rectangle with `margin` added on every side [m]."""
        return Area(
            (self.x[0] - margin, self.x[1] + margin), (self.y[0] - margin, self.y[1] + margin)
        )

    def meets(self, other: "Area") -> bool:
        """Tell whether the two share more than an edge."""
        return (
            self.x[0] < other.x[1]
            and other.x[0] < self.x[1]
            and self.y[0] < other.y[1]
            and other.y[0] < self.y[1]
        )


class Plan:
    """Collects boxes given in plan coordinates and draws what varies."""

    def __init__(self, rng: np.random.Generator, start: tuple[float, float]) -> None:
        """Begin an empty plan on which the robot starts at `start` [m], facing +x."""
        self.start = start
        self.boxes: list[Box] = []
        self.traps: list[Trap] = []
        self.spots: list[tuple[float, float]] = []  # where people like to go, in odom
        self._taken: list[Area] = []
        self._rng = rng
        self._count: dict[str, int] = {}

    def vary(self, low: float, high: float) -> float:
        return float(self._rng.uniform(low, high))

    def chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def pick(self, colours: tuple[Rgb, ...]) -> Rgb:
        return colours[int(self._rng.integers(len(colours)))]

    def box(
        self,
        name: str,
        x: tuple[float, float],
        y: tuple[float, float],
        z: tuple[float, float],
        look: str | Rgb,
        *,
        solid: bool = True,
    ) -> None:
        """Add a box by its lower and upper bounds [m]; `look` is a material's name or a colour."""
        center = (
            (x[0] + x[1]) / 2.0 - self.start[0],
            (y[0] + y[1]) / 2.0 - self.start[1],
            sum(z) / 2.0,
        )
        size = (x[1] - x[0], y[1] - y[0], z[1] - z[0])
        self._add(name, center, size, look, 0.0, solid)

    def turned(
        self,
        name: str,
        at: tuple[float, float, float],
        offset: tuple[float, float],
        size: tuple[float, float, float],
        bottom: float,
        look: str | Rgb,
    ) -> None:
        """Add a solid box at `offset` from a piece whose place and heading are `at` (x, y, yaw)."""
        cos, sin = math.cos(at[2]), math.sin(at[2])
        x = at[0] + cos * offset[0] - sin * offset[1] - self.start[0]
        y = at[1] + sin * offset[0] + cos * offset[1] - self.start[1]
        self._add(name, (x, y, bottom + size[2] / 2.0), size, look, at[2], True)

    def _add(
        self,
        name: str,
        center: tuple[float, float, float],
        size: tuple[float, float, float],
        look: str | Rgb,
        yaw: float,
        solid: bool,
    ) -> None:
        number = self._count[name] = self._count.get(name, 0) + 1
        material, rgb = (look, WHITE) if isinstance(look, str) else ("", look)
        self.boxes.append(Box(f"{name}_{number}", center, size, material, rgb, yaw, solid))

    def wall(
        self,
        along: str,
        at: float,
        span: tuple[float, float],
        doors: tuple[tuple[float, float], ...] = (),
        look: str = "plaster",
    ) -> None:
        """Add a wall whose middle line is `along` = "x" or "y" at the other coordinate, open at `doors`."""
        edges = [span[0]]
        for door in doors:
            edges += door
        edges.append(span[1])
        across = (at - WALL / 2.0, at + WALL / 2.0)
        pieces = [
            ("wall", pair, (0.0, WALL_HEIGHT)) for pair in zip(edges[::2], edges[1::2], strict=True)
        ]
        pieces += [("lintel", door, (DOOR_HEIGHT, WALL_HEIGHT)) for door in doors]
        for name, piece, height in pieces:
            x, y = (piece, across) if along == "x" else (across, piece)
            self.box(name, x, y, height, look)

    def panel(
        self, along: str, at: float, span: tuple[float, float], z: tuple[float, float], rgb: Rgb
    ) -> None:
        """Hang a picture or window on a wall's face at `at`."""
        across = (at - 0.012, at + 0.012)
        x, y = (span, across) if along == "x" else (across, span)
        self.box("panel", x, y, z, rgb, solid=False)

    def keep_free(self, area: Area) -> None:
        """Let no piece be placed by chance on this floor."""
        self._taken.append(area.grown(-PASSAGE))

    def spot(self, x: float, y: float) -> None:
        """Note a place that people may walk to."""
        self.spots.append((x - self.start[0], y - self.start[1]))

    def against(
        self, room: Area, length: float, depth: float, sides: str = "nesw"
    ) -> tuple[Area, str] | None:
        """Find floor for a piece with its back on a wall of a room, and claim it.

        It leaves PASSAGE to every other piece and to the next wall, or stands flush in the corner.

        Args:
            room: between the faces of its walls.
            length: along the wall [m].
            depth: away from it [m].
            sides: walls to choose from: n (high y), e (high x), s, w.

        Returns:
            The floor and the side; None when there is no room.
        """
        for _ in range(ATTEMPTS):
            side = sides[int(self._rng.integers(len(sides)))]
            low, high = room.x if side in "ns" else room.y
            across = room.y if side in "ns" else room.x
            if high - low < length or across[1] - across[0] < depth:
                continue
            begin = self.vary(low, high - length)
            begin = low if begin < low + PASSAGE else begin
            begin = high - length if begin > high - length - PASSAGE else begin
            along = (begin, begin + length)
            back = (
                (across[1] - depth, across[1]) if side in "ne" else (across[0], across[0] + depth)
            )
            area = Area(along, back) if side in "ns" else Area(back, along)
            if self._claim(area):
                return area, side
        return None

    def standing(self, room: Area, width: float, depth: float) -> Area | None:
        """Find floor for a piece that stands free in a room, with PASSAGE all around; None when there is none."""
        inner = room.grown(-PASSAGE)
        if inner.x[1] - inner.x[0] < width or inner.y[1] - inner.y[0] < depth:
            return None
        for _ in range(ATTEMPTS):
            x = self.vary(inner.x[0], inner.x[1] - width)
            y = self.vary(inner.y[0], inner.y[1] - depth)
            area = Area((x, x + width), (y, y + depth))
            if self._claim(area):
                return area
        return None

    def _claim(self, area: Area) -> bool:
        if any(area.grown(PASSAGE).meets(other) for other in self._taken):
            return False
        self._taken.append(area)
        return True

    def claim(self, area: Area) -> None:
        """Let what is placed by chance keep away from this piece."""
        self._taken.append(area)

    def trap(self, x: float, y: float, pocket: Area) -> None:
        """Tag a gap of TRAP_WIDTH at a place, and the floor behind it."""
        dx, dy = self.start
        self.traps.append(
            Trap(
                (x - dx, y - dy),
                TRAP_WIDTH,
                (pocket.x[0] - dx, pocket.y[0] - dy, pocket.x[1] - dx, pocket.y[1] - dy),
            )
        )

    def chair(self, x: float, y: float, yaw: float, rgb: Rgb) -> None:
        """Add a chair that faces `yaw`."""
        at = (x, y, yaw + self.vary(-0.15, 0.15))
        self.turned("seat", at, (0.0, 0.0), (0.42, 0.42, 0.05), 0.41, rgb)
        self.turned("backrest", at, (-0.19, 0.0), (0.04, 0.42, 0.46), 0.46, "wood")
        for dx in (-0.18, 0.18):
            for dy in (-0.18, 0.18):
                self.turned("chair_leg", at, (dx, dy), (0.05, 0.05, 0.41), 0.0, "wood")

    def table(self, x: tuple[float, float], y: tuple[float, float], *, along: str = "x") -> None:
        """Add a table on two slabs at the ends of its length `along`."""
        self.box("table_top", x, y, (0.70, 0.74), "wood")
        for end in (0, 1):
            if along == "x":
                near = (x[0], x[0] + 0.06) if end == 0 else (x[1] - 0.06, x[1])
                self.box("table_slab", near, (y[0] + 0.04, y[1] - 0.04), (0.0, 0.70), OAK)
            else:
                near = (y[0], y[0] + 0.06) if end == 0 else (y[1] - 0.06, y[1])
                self.box("table_slab", (x[0] + 0.04, x[1] - 0.04), near, (0.0, 0.70), OAK)

    def seat(self, desk: tuple[float, float, float], half: float) -> None:
        """Put drawers and a chair, drawn up, under a desk of `half` its length: nothing is left to drive into.

        Args:
            desk: middle of its top and the way that who sits there looks, x, y [m] and yaw [rad].
            half: of the desk's length [m].
        """
        drawers = 0.42
        self.turned(
            "drawers", desk, (-0.02, half - 0.07 - drawers / 2), (0.6, drawers, 0.6), 0.04, WHITE
        )
        x, y, yaw = desk
        ahead, left = -0.30, -drawers / 2.0
        cos, sin = math.cos(yaw), math.sin(yaw)
        place = (x + cos * ahead - sin * left, y + sin * ahead + cos * left)
        self.chair(*place, yaw, self.pick(FABRICS))

    def bookcase(self, x: tuple[float, float], y: tuple[float, float], height: float) -> None:
        """Add a bookcase whose rows of books show on every face."""
        self.box("bookcase", x, y, (0.0, height), "wood")
        shelf = 0.12
        while shelf + 0.28 < height:
            z = (shelf, shelf + self.vary(0.20, 0.27))
            books = ((x[0] + 0.04, x[1] - 0.04), (y[0] - 0.012, y[1] + 0.012))
            if x[1] - x[0] < y[1] - y[0]:
                books = ((x[0] - 0.012, x[1] + 0.012), (y[0] + 0.04, y[1] - 0.04))
            self.box("books", *books, z, self.pick(BOOKS), solid=False)
            shelf += 0.38

    def plant(self, x: float, y: float) -> None:
        """Add a plant in a pot."""
        self.box("pot", (x - 0.16, x + 0.16), (y - 0.16, y + 0.16), (0.0, 0.34), TERRACOTTA)
        height = self.vary(0.8, 1.4)
        self.box("leaves", (x - 0.2, x + 0.2), (y - 0.2, y + 0.2), (0.42, height), LEAF)
        self.box("stem", (x - 0.03, x + 0.03), (y - 0.03, y + 0.03), (0.34, 0.42), OAK)
