"""When each place was last visited: a grid of times beside the map, and what it says about the map of now.

Times are kept in tiles of the lattice that the map's cells lie on, so a map that grows moves nothing, and memory
follows the robot's track. A visit is the disc around the robot that it has in view.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rhino_actors.messages.grid import (
    INSCRIBED_INFLATED_OBSTACLE,
    LETHAL_OBSTACLE,
    TILE_CELLS,
    GridGeometry,
    MapSnapshot,
)

FREE_BELOW = 50  # occupancy of a free cell: 0 to 49
NEVER = -1.0  # in the grid: not visited
MAX_TILES = 16_384  # of 4 kB; beyond, those visited longest ago count as never visited
# A track from one look to the next is followed only if the robot can have driven it.
MAX_SPEED_M_S = 2.0
SLACK_M = 0.3
MAX_GAP_S = 5.0
# Of the radius that counts between two looks, where the robot may have driven a bend.
CHORD_SHARE = 0.9
# A new epoch brings the same map again if so much of what was visited looks as before.
SAME_MAP_SHARE = 0.7


@dataclass(frozen=True, slots=True)
class Survey:
    """What the visits say about a map, by blocks of `block` x `block` cells. Arrays are (block rows, block cols)."""

    geometry: GridGeometry  # of the map
    block: int  # cells a side
    first_block: tuple[int, int]  # row, col on the lattice of blocks of block (0, 0)
    safe: NDArray[np.int32]  # safe cells that can be reached
    pending: NDArray[np.int32]  # of those, not visited since the round began
    unvisited: NDArray[
        np.int32
    ]  # of those, due: not visited since the round began, or expired, or as asked for
    urgency: NDArray[
        np.float32
    ]  # (idleness / expiry) ** power of the oldest of the unvisited; 0: none
    oldest: NDArray[np.float32]  # [s] longest idleness of a safe cell
    goal: NDArray[
        np.int32
    ]  # flat index of the cell to stand on, an unvisited one if there is any; -1: none
    entry: NDArray[np.int32]  # flat index of the cell that is cheapest to get to; -1: none
    entry_cost: NDArray[np.float32]  # of the way there; inf: none
    visited: NDArray[np.int32]  # safe cells visited within the expiry
    idleness: NDArray[np.float32]  # [s] summed over safe cells

    @property
    def safe_cells(self) -> int:
        return int(self.safe.sum())

    @property
    def share_visited(self) -> float:
        """Of the safe cells within the expiry, 0..1; 0 if there is none."""
        return float(self.visited.sum() / max(1, self.safe_cells))

    @property
    def worst_idleness(self) -> float:
        """Longest idleness of a safe cell [s]; 0 if there is none."""
        return float(self.oldest.max(initial=0.0))

    @property
    def mean_idleness(self) -> float:
        """Mean idleness of the safe cells [s]."""
        return float(self.idleness.sum(dtype=np.float64) / max(1, self.safe_cells))

    def only(self, keep: NDArray[np.bool_]) -> "Survey":
        """Return the survey without the safe cells of blocks where `keep` (block rows, block cols) is False."""
        counts: dict[str, Any] = {
            name: np.where(keep, getattr(self, name), 0)
            for name in ("safe", "pending", "unvisited", "visited", "urgency", "oldest", "idleness")
        }
        return replace(self, goal=np.where(keep, self.goal, -1), **counts)

    def cell_from_block(self, row: int, col: int) -> tuple[int, int]:
        """Return row, col in the map of a block's goal cell."""
        at = int(self.goal[row, col])
        return at // self.geometry.shape[1], at % self.geometry.shape[1]

    def block_from_world(self, x: float, y: float) -> tuple[int, int]:
        """Return (row, col) of the block that holds the point; it may lie outside."""
        first = self.geometry.first_cell
        row, col = self.geometry.cell_from_world(x, y)
        return (
            (row + first[0]) // self.block - self.first_block[0],
            (col + first[1]) // self.block - self.first_block[1],
        )


class VisitationGrid:
    """Times of the last visits, in the frame map.

    Idleness of a cell is the time since its last visit, or since the grid's start if it was never visited. Not for
    two threads at once.
    """

    def __init__(self, radius: float, max_tiles: int = MAX_TILES) -> None:
        """Begin without visits.

        Args:
            radius: a place this near the robot, and in view of it, is visited [m].
            max_tiles: bound on the memory, 4 kB each.
        """
        self._radius = radius
        self._max_tiles = max_tiles
        self._start: float | None = None
        self._place: tuple[float, float, float] | None = None  # x, y [m], time [s] of the last look
        self._map: MapSnapshot | None = None
        self._slots: dict[tuple[int, int], int] = {}  # by row, col of the tile on its lattice
        self._times = np.full((16, TILE_CELLS, TILE_CELLS), NEVER, np.float32)
        self._index = np.empty((0, 0), np.int32)
        self._index_of: tuple[GridGeometry, int] | None = None

    @property
    def memory(self) -> int:
        """Bytes that the times take."""
        return self._times.nbytes

    @property
    def start(self) -> float:
        """Time that never-visited places count from [s]; 0 before the first look."""
        return self._start or 0.0

    def look(self, snapshot: MapSnapshot, x: float, y: float, now: float) -> bool:
        """Note where the robot is on the newest map, and visit what lies on its way there.

        Args:
            snapshot: the map.
            x: of the robot in the map [m].
            y: of the robot in the map [m].
            now: monotonic time [s], not earlier than before.

        Returns:
            False if the robot is where it cannot have driven to since the last look: it was carried, or the map is
            another one. Then only the place where it is now is visited.
        """
        if self._start is None:
            self._start = now
        is_same_map = self._take(snapshot)
        last, self._place = self._place, (x, y, now)
        has_driven = last is None
        points = [(x, y)]
        if last is not None and is_same_map:
            distance, gap = math.dist(last[:2], (x, y)), now - last[2]
            has_driven = distance <= MAX_SPEED_M_S * gap + SLACK_M
            if has_driven and gap <= MAX_GAP_S:
                steps = max(1, math.ceil(distance / (0.2 * self._radius)))
                points = [
                    (last[0] + (x - last[0]) * i / steps, last[1] + (y - last[1]) * i / steps)
                    for i in range(1, steps + 1)
                ]
        for point in points[:-1]:
            self._visit(snapshot, *point, now, CHORD_SHARE * self._radius)
        self._visit(snapshot, x, y, now, self._radius)
        return has_driven

    def ages(self, geometry: GridGeometry, now: float) -> NDArray[np.float32]:
        """Return the time since each cell's last visit [s], (rows, cols); inf where there was none."""
        ages = np.full(geometry.shape, np.inf, np.float32)
        row0, col0 = geometry.first_cell
        for (tile_row, tile_col), slot in self._slots.items():
            top, left = tile_row * TILE_CELLS - row0, tile_col * TILE_CELLS - col0
            rows = slice(max(0, top), max(0, min(geometry.shape[0], top + TILE_CELLS)))
            cols = slice(max(0, left), max(0, min(geometry.shape[1], left + TILE_CELLS)))
            times = self._times[
                slot, rows.start - top : rows.stop - top, cols.start - left : cols.stop - left
            ]
            if times.size:
                ages[rows, cols] = np.where(times == NEVER, np.inf, now - self.start - times)
        return ages

    def survey(
        self,
        snapshot: MapSnapshot,
        cost_to_go: NDArray[np.float32],
        now: float,
        *,
        max_cost: int,
        expiry: float,
        round_start: float,
        due_age: float | None = None,
        power: int = 2,
        area: NDArray[np.bool_] | None = None,
    ) -> Survey:
        """Hold the visits against a map.

        A cell is safe if it is free, no unknown or obstacle's surrounding, can be reached, and lies in the area.

        Args:
            snapshot: the map.
            cost_to_go: (rows, cols) float32, the planner's field from the robot; inf where it cannot go.
            now: monotonic time [s].
            max_cost: highest costmap value of a safe cell, below 253: keeps the clearance.
            expiry: age from which a visit no longer counts [s].
            round_start: monotonic time at which the round began [s].
            due_age: idleness from which a visited cell counts as unvisited [s], instead of round and expiry.
            power: of the idleness, in `urgency`.
            area: (rows, cols) bool; None: everywhere.

        Raises:
            ValueError: shapes differ.
        """
        shape = snapshot.geometry.shape
        if snapshot.costmap.shape != shape or cost_to_go.shape != shape:
            raise ValueError(f"map {shape} and cost_to_go {cost_to_go.shape} differ in shape")
        block = block_cells(self._radius, snapshot.geometry.resolution)
        row0, col0 = snapshot.geometry.first_cell
        first_block = (row0 // block, col0 // block)
        rows = (row0 + shape[0] - 1) // block - first_block[0] + 1
        cols = (col0 + shape[1] - 1) // block - first_block[1] + 1
        counts = np.zeros((4, rows, cols), np.int32)
        sums = np.zeros((3, rows, cols), np.float32)
        cells = np.full((2, rows, cols), -1, np.int32)
        entry_cost = np.full((rows, cols), np.inf, np.float32)
        _survey(
            _read_only(snapshot.occupancy),
            _read_only(snapshot.costmap),
            _read_only(cost_to_go),
            _read_only(np.empty((0, 0), np.bool_) if area is None else area),
            self._index_on(snapshot.geometry),
            self._times,
            np.array([row0, col0, block, *first_block], np.int64),
            min(max_cost, INSCRIBED_INFLATED_OBSTACLE - 1),
            np.array(
                [
                    now - self.start,
                    expiry,
                    round_start - self.start,
                    np.nan if due_age is None else due_age,
                ]
            ),
            power,
            counts,
            sums,
            cells,
            entry_cost,
        )
        return Survey(
            geometry=snapshot.geometry,
            block=block,
            first_block=first_block,
            safe=counts[0],
            pending=counts[1],
            unvisited=counts[2],
            urgency=sums[0],
            oldest=sums[1],
            goal=cells[0],
            entry=cells[1],
            entry_cost=entry_cost,
            visited=counts[3],
            idleness=sums[2],
        )

    def last_visit(self, geometry: GridGeometry, row: int, col: int) -> float | None:
        """Return when a cell of the map was visited last [s], None: never."""
        first = geometry.first_cell
        lattice = (row + first[0], col + first[1])
        slot = self._slots.get((lattice[0] // TILE_CELLS, lattice[1] // TILE_CELLS))
        if slot is None:
            return None
        time = float(self._times[slot, lattice[0] % TILE_CELLS, lattice[1] % TILE_CELLS])
        return None if time == NEVER else self.start + time

    def all_visited_since(self, cells: NDArray[np.int32], time: float) -> bool:
        """Say whether all cells (K, 2) row, col on the lattice were visited at a time or later [s]."""
        tiles, inside = cells // TILE_CELLS, cells % TILE_CELLS
        for tile in {(int(row), int(col)) for row, col in tiles}:
            slot = self._slots.get(tile)
            if slot is None:
                return False
            rows, cols = inside[(tiles == tile).all(axis=1)].T
            if (self._times[slot, rows, cols] < time - self.start).any():
                return False
        return True

    def _take(self, snapshot: MapSnapshot) -> bool:
        """Take a newer map; forget the visits, and return False, if it is another place's."""
        known, self._map = self._map, snapshot
        if known is None or known.epoch == snapshot.epoch:
            if known is None or known.geometry.resolution == snapshot.geometry.resolution:
                return True
        elif known.geometry.resolution == snapshot.geometry.resolution and self._looks_alike(
            known, snapshot
        ):
            return True
        self._slots.clear()
        self._times[:] = NEVER
        self._index_of = None
        return False

    def _looks_alike(self, old: MapSnapshot, new: MapSnapshot) -> bool:
        """Say whether the tiles with visits look in the new map as they did in the old one."""
        same = total = 0
        for tile in self._slots:
            before, after = _tile(old, tile), _tile(new, tile)
            known = before >= 0
            same += int(np.count_nonzero(known & (after >= 0) & ((before < 50) == (after < 50))))
            total += int(np.count_nonzero(known))
        return same >= SAME_MAP_SHARE * total

    def _visit(self, snapshot: MapSnapshot, x: float, y: float, now: float, radius: float) -> None:
        geometry = snapshot.geometry
        row, col = geometry.cell_from_world(x, y)
        if not geometry.contains(row, col):
            return
        reach = math.ceil(radius / geometry.resolution)
        first = geometry.first_cell
        window = [
            (max(0, at - reach) + start, min(size - 1, at + reach) + start)
            for at, size, start in zip((row, col), geometry.shape, first, strict=True)
        ]
        (low_row, high_row), (low_col, high_col) = (
            (low // TILE_CELLS, high // TILE_CELLS) for low, high in window
        )
        tiles = [
            (tile_row, tile_col)
            for tile_row in range(low_row, high_row + 1)
            for tile_col in range(low_col, high_col + 1)
        ]
        while self._slots and len(self._slots) + len(tiles) > self._max_tiles:
            self._drop_oldest()
        for tile in tiles:
            self._add_tile(tile)
        _stamp(
            _read_only(snapshot.costmap),
            self._index_on(geometry),
            self._times,
            first[0],
            first[1],
            row,
            col,
            (y - geometry.origin[1]) / geometry.resolution - 0.5,
            (x - geometry.origin[0]) / geometry.resolution - 0.5,
            (radius / geometry.resolution) ** 2 + 1e-9,
            reach,
            np.float32(now - self.start),
        )

    def _add_tile(self, tile: tuple[int, int]) -> None:
        used = len(self._slots)
        if self._slots.setdefault(tile, used) == used:
            if used == len(self._times):
                self._times = np.concatenate([self._times, np.full_like(self._times, NEVER)])
            self._index_of = None

    def _drop_oldest(self) -> None:
        """Forget the eighth of the tiles that was visited longest ago."""
        used = len(self._slots)
        tiles = list(self._slots)
        order = np.argsort(self._times[:used].max(axis=(1, 2)), kind="stable")
        kept = np.sort(order[max(1, used // 8) :])
        self._times[: len(kept)] = self._times[kept]
        self._times[len(kept) :] = NEVER
        self._slots = {tiles[old]: new for new, old in enumerate(kept.tolist())}
        self._index_of = None

    def _index_on(self, geometry: GridGeometry) -> NDArray[np.int32]:
        """Return the slot of each tile that a map touches, -1 where there is none; (tile rows, tile cols)."""
        key = (geometry, len(self._slots))
        if self._index_of != key:
            row0, col0 = (at // TILE_CELLS for at in geometry.first_cell)
            rows = (geometry.first_cell[0] + geometry.shape[0] - 1) // TILE_CELLS - row0 + 1
            cols = (geometry.first_cell[1] + geometry.shape[1] - 1) // TILE_CELLS - col0 + 1
            self._index = np.full((rows, cols), -1, np.int32)
            for (row, col), slot in self._slots.items():
                if 0 <= row - row0 < rows and 0 <= col - col0 < cols:
                    self._index[row - row0, col - col0] = slot
            self._index_of = key
        return self._index


def age_levels(ages: NDArray[np.float32], expiry: float) -> NDArray[np.uint8]:
    """Return ages [s], inf where there was no visit, as `Visits.age` has them; read-only."""
    level = 1.0 + 254.0 * np.clip(ages / np.float32(expiry), 0.0, 1.0)
    levels = np.where(np.isfinite(ages), level, 0.0).astype(np.uint8)
    levels.flags.writeable = False
    return levels


def block_cells(radius: float, resolution: float) -> int:
    """Return the edge of a block [cells]: a power of two, as tiles are, and no more than about half the radius."""
    wanted = max(1.0, 0.5 * radius / resolution)
    return min(TILE_CELLS, 1 << math.floor(math.log2(wanted) + 1e-9))


def _tile(snapshot: MapSnapshot, tile: tuple[int, int]) -> NDArray[np.int8]:
    """Return the occupancy of a tile of the lattice, unknown where the map has none."""
    cells = np.full((TILE_CELLS, TILE_CELLS), -1, np.int8)
    first, shape = snapshot.geometry.first_cell, snapshot.geometry.shape
    top, left = tile[0] * TILE_CELLS - first[0], tile[1] * TILE_CELLS - first[1]
    row0, row1 = max(0, top), min(shape[0], top + TILE_CELLS)
    col0, col1 = max(0, left), min(shape[1], left + TILE_CELLS)
    if row0 < row1 and col0 < col1:
        found = snapshot.occupancy[row0:row1, col0:col1]
        cells[row0 - top : row1 - top, col0 - left : col1 - left] = found
    return cells


def _read_only(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return a read-only contiguous view or copy: the one kind of array that the kernels are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@njit(nogil=True, cache=True)
def line_is_open(row0, col0, row1, col1, costmap, blocked_from):  # type: ignore[no-untyped-def]
    """Say whether a line between two cells meets no cell of a cost from `blocked_from` on, its ends apart."""
    steps = 2 * max(abs(row1 - row0), abs(col1 - col0))
    for i in range(1, steps):
        row = int(np.floor(row0 + 0.5 + (row1 - row0) * i / steps))
        col = int(np.floor(col0 + 0.5 + (col1 - col0) * i / steps))
        if (row != row1 or col != col1) and costmap[row, col] >= blocked_from:
            return False
    return True


@njit(nogil=True, cache=True)
def _stamp(costmap, index, times, row0, col0, row, col, at_row, at_col, squared, reach, now):  # type: ignore[no-untyped-def]
    """Write `now` into the cells of a disc that its centre has in view."""
    rows, cols = costmap.shape
    tile_row0, tile_col0 = row0 // TILE_CELLS, col0 // TILE_CELLS
    for r in range(max(0, row - reach), min(rows, row + reach + 1)):
        for c in range(max(0, col - reach), min(cols, col + reach + 1)):
            if (r - at_row) ** 2 + (c - at_col) ** 2 > squared:
                continue
            if not line_is_open(row, col, r, c, costmap, LETHAL_OBSTACLE):
                continue
            lattice_row, lattice_col = r + row0, c + col0
            slot = index[
                lattice_row // TILE_CELLS - tile_row0, lattice_col // TILE_CELLS - tile_col0
            ]
            times[slot, lattice_row % TILE_CELLS, lattice_col % TILE_CELLS] = now


@njit(nogil=True, cache=True)
def _survey(  # type: ignore[no-untyped-def]
    occupancy,
    costmap,
    field,
    area,
    index,
    times,
    lattice,
    max_cost,
    clock,
    power,
    counts,
    sums,
    cells,
    entry_cost,
):
    """Fill the arrays of a Survey: counts safe, pending, unvisited, visited; sums urgency, oldest, idleness."""
    row0, col0, block, block_row0, block_col0 = lattice
    now, expiry, round_start, due_age = clock
    tile_row0, tile_col0 = row0 // TILE_CELLS, col0 // TILE_CELLS
    rows, cols = costmap.shape
    best = np.full(entry_cost.shape, np.inf, np.float32)  # of the goal cells: cost, then distance
    middle = 0.5 * (block - 1)
    for r in range(rows):
        b_row = (r + row0) // block - block_row0
        t_row, in_row = (r + row0) // TILE_CELLS - tile_row0, (r + row0) % TILE_CELLS
        off_row = (r + row0) % block - middle
        for c in range(cols):
            cost = field[r, c]
            if cost == np.inf or costmap[r, c] >= INSCRIBED_INFLATED_OBSTACLE:
                continue
            b_col = (c + col0) // block - block_col0
            if cost < entry_cost[b_row, b_col]:
                entry_cost[b_row, b_col] = cost
                cells[1, b_row, b_col] = r * cols + c
            if costmap[r, c] > max_cost or not 0 <= occupancy[r, c] < FREE_BELOW:
                continue
            if area.size and not area[r, c]:
                continue
            lattice_col = c + col0
            slot = index[t_row, lattice_col // TILE_CELLS - tile_col0]
            time = times[slot, in_row, lattice_col % TILE_CELLS] if slot >= 0 else NEVER
            age = now - max(time, 0.0)
            counts[0, b_row, b_col] += 1
            is_pending = time < round_start or time == NEVER
            if is_pending:
                counts[1, b_row, b_col] += 1
            is_unvisited = age >= due_age or time == NEVER
            if np.isnan(due_age):
                is_unvisited = is_pending or age > expiry
            if is_unvisited:
                counts[2, b_row, b_col] += 1
                urgency = relative = max(age, 1.0) / expiry
                for _ in range(1, power):
                    urgency *= relative
                sums[0, b_row, b_col] = max(sums[0, b_row, b_col], urgency)
            if age > sums[1, b_row, b_col]:
                sums[1, b_row, b_col] = age
            off_col = lattice_col % block - middle
            rank = costmap[r, c] + (off_row * off_row + off_col * off_col) / (block * block)
            if not is_unvisited:
                rank += 1000.0  # who goes there sees at least the cell that it stands on
            if rank < best[b_row, b_col]:
                best[b_row, b_col] = rank
                cells[0, b_row, b_col] = r * cols + c
            sums[2, b_row, b_col] += age
            if time != NEVER and age <= expiry:
                counts[3, b_row, b_col] += 1
