"""VoxelMapper: lidar frames to a bounded 3D map of voxels, in which what left does not stay.

How it is wired: `add_frame` for every frame; then `take_changed` says where columns changed (world cells: row, col
of the cell whose lower-left corner is at row, col * voxel_size), which is what `HeightCostmap.update` wants, and
`take_bricks` returns the changed part of the map for a publication. `state` and `restore` are for checkpoints, as
those of OccupancyMapper.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rhino_actors.errors import StorageError
from rhino_actors.mapping import voxel_kernels as kernels
from rhino_actors.mapping.voxel_kernels import BASE_LEVEL, COLUMNS, LEVELS, NONE, SIDE, Store
from rhino_actors.mapping.window import EMPTY_WINDOW, CellWindow
from rhino_actors.messages.geometry import Pose2D

_STATE_VERSION = 1
_FEW_BRICKS = 4096
_VOXELS_PER_BRICK = 128  # fewer on average, and the bricks run out before the voxels
_SPARE = 16  # a full map drops this part of itself at once, so that it need not at every frame
_MANY = 64
_FAR = 1 << 40
_ANYWHERE = 1e12  # [m] farther than any voxel can be


class Carving(StrEnum):
    """What a frame removes from the map."""

    COLUMNS = "columns"  # all of every column that it has a voxel in
    LINE_OF_SIGHT = "line_of_sight"  # what two frames in a row looked through
    NONE = "none"  # nothing


@dataclass(frozen=True, slots=True)
class VoxelBricks:
    """Bricks of 16 x 16 columns and 64 levels that changed, as they are now. Arrays are read-only."""

    place: NDArray[np.int32]  # (B, 3) x, y, z of each brick, in bricks
    # (B, 256) by row * 16 + col; bit n: voxel of level n. A brick without a voxel is gone.
    words: NDArray[np.uint64]


class VoxelMapper:
    """Fuses lidar frames, given in odom, into a 3D map of occupied voxels.

    Voxel k along an axis holds the coordinates from k to k + 1 times the voxel size; voxels never move. The cost of a
    frame depends on the frame and not on the map. What is kept is bounded: beyond `max_voxels` the bricks that no
    frame put a voxel in for longest go first, the farthest first among equals. Not thread-safe: one caller at a time.

    Carving `columns`: a frame replaces every column of the map that it has a voxel in, at all heights.
    `line_of_sight`: a voxel goes when two frames saw through it and none in between hit it. A return protects its 26
    neighbours from the beams of its own frame, and the lowest voxel of a column stays when beams only graze it on
    their way down to the floor. `none`: the map only grows.

    Attributes:
        evicted_voxels: voxels that were dropped to keep the bound; above 0 the map is not all that was seen.
        evictions: how often that happened.
        refused_points: points of frames that alone were larger than the bound.

    Source: carving by column as the dimos documentation describes it; storage and line of sight: own.
    """

    def __init__(
        self,
        voxel_size: float = 0.05,
        carve_columns: bool = True,
        *,
        carving: Carving | str | None = None,
        max_voxels: int = 10_000_000,
        max_range: float = 50.0,
        min_range: float = 0.05,
        clear_range: float = 10.0,
        body_length: float = 0.0,
        body_width: float = 0.0,
    ) -> None:
        """Start with an empty map.

        Args:
            voxel_size: edge of a voxel [m].
            carve_columns: True is the carving `columns`, False `none`, unless `carving` is given.
            carving: see Carving.
            max_voxels: bound on the voxels; memory is at most 16 bytes a voxel, 32 with line of sight, and far
                less for what robots see, about 1 to 2 bytes.
            max_range: farthest return that marks [m].
            min_range: nearest return that counts [m].
            clear_range: how far a beam clears in line of sight [m], at most `max_range`.
            body_length: of the box along the robot's x [m] in which points are the robot itself; 0: no box.
            body_width: of the box along its y [m].

        Raises:
            ValueError: a value out of its bounds.
        """
        if not (math.isfinite(voxel_size) and voxel_size > 0.0):
            raise ValueError(f"voxel_size must be positive, not {voxel_size}")
        if not 0.0 <= min_range < max_range < math.inf:
            raise ValueError(f"min_range {min_range} is not between 0 and max_range {max_range}")
        if not (0.0 < clear_range < math.inf):
            raise ValueError(f"clear_range must be positive, not {clear_range}")
        if max_voxels < 1:
            raise ValueError(f"max_voxels must be at least 1, not {max_voxels}")
        if body_length < 0.0 or body_width < 0.0:
            raise ValueError("the body's length and width cannot be negative")
        default = Carving.COLUMNS if carve_columns else Carving.NONE
        self._carving = default if carving is None else Carving(carving)
        self._size = float(voxel_size)
        self._ranges = (float(min_range), float(max_range))
        self._clear_range = min(float(clear_range), float(max_range))
        self._body = (float(body_length) / 2.0, float(body_width) / 2.0)
        self._max_voxels = int(max_voxels)
        bricks = min(max_voxels, max(_FEW_BRICKS, max_voxels // _VOXELS_PER_BRICK))
        self._store = _allocate(bricks, self._carving is Carving.LINE_OF_SIGHT)
        self._slots = np.empty(bricks, np.int32)
        self._scratch: NDArray[np.uint64] | None = None
        if self._carving is Carving.LINE_OF_SIGHT:
            tiles = 2 * (math.ceil(self._clear_range / (voxel_size * SIDE)) + 1) + 1
            self._scratch = np.zeros((tiles * SIDE, tiles * SIDE, 6), np.uint64)
        self._frame = 0
        self._eye: int | None = None  # level, where it is not the sensor's
        self._window = _no_window()
        self._gone: list[NDArray[np.int32]] = []
        self.evicted_voxels = 0
        self.evictions = 0
        self.refused_points = 0

    @classmethod
    def of_points(cls, points: ArrayLike, voxel_size: float = 0.05) -> "VoxelMapper":
        """Return the voxels of a cloud (N, 3) [m] as it is: nothing is carved, no range counts, no bound but N."""
        cloud = _as_cloud(points)
        bound = max(_FEW_BRICKS * _VOXELS_PER_BRICK, len(cloud))
        while True:
            mapper = cls(
                voxel_size,
                carving=Carving.NONE,
                max_voxels=bound,
                max_range=_ANYWHERE,
                min_range=0.0,
            )
            mapper._eye = kernels.HIGH
            mapper.add_frame(cloud, (0.0, 0.0, 0.0))
            if mapper.refused_points == 0:
                return mapper
            bound *= 8  # scattered points: bricks ran out

    def __len__(self) -> int:
        """Return the number of voxels."""
        return int(self._store.counts[3])

    @property
    def voxel_size(self) -> float:
        """Edge of a voxel [m]."""
        return self._size

    @property
    def carving(self) -> Carving:
        return self._carving

    @property
    def store(self) -> Store:
        """The arrays, for kernels that read the map in place; nobody else may change them."""
        return self._store

    @property
    def extent(self) -> CellWindow:
        """Window in world cells of whole bricks that holds every voxel."""
        place = self._store.place[: self._store.counts[0]]
        if len(place) == 0:
            return EMPTY_WINDOW
        low, high = place.min(axis=0) * SIDE, (place.max(axis=0) + 1) * SIDE
        return CellWindow(int(low[1]), int(high[1]), int(low[0]), int(high[0]))

    @property
    def has_changed(self) -> bool:
        """True if some voxel came or went since `take_changed` was last called."""
        return bool(self._window[0] < self._window[1])

    def points(self) -> NDArray[np.float32]:
        """Return the (N, 3) float32 centres of all voxels [m], in no order; a copy that is the caller's."""
        used = int(self._store.counts[0])
        points = np.empty((len(self), 3), np.float32)
        kernels.expand(self._store.words[:used], self._store.place[:used], self._size, points)
        return points

    def take_changed(self) -> CellWindow:
        """Return the world cells whose columns hold every change since the last call."""
        if not self.has_changed:
            return EMPTY_WINDOW
        changed = CellWindow(*(int(v) for v in self._window))
        self._window = _no_window()
        return changed

    def take_bricks(self) -> VoxelBricks:
        """Return the bricks that changed since the last call; the cost is theirs, not the map's."""
        store = self._store
        changed = store.changed[: store.counts[2]].copy()
        store.counts[2] = 0
        store.dirty[changed] = 0
        place, words = store.place[changed], store.words[changed]
        if self._gone:
            gone = np.concatenate(self._gone)
            self._gone = []
            # One that was dropped and is back since then is sent as it is now.
            is_back = np.array([self._holds_brick(*p) for p in gone.tolist()], np.bool_)
            gone = np.unique(gone[~is_back], axis=0)
            place = np.concatenate([place, gone])
            words = np.concatenate([words, np.zeros((len(gone), COLUMNS), np.uint64)])
        place.flags.writeable = words.flags.writeable = False
        return VoxelBricks(place, words)

    def add_frame(
        self,
        points: ArrayLike,
        origin: Sequence[float] | NDArray[np.floating],
        *,
        pose: Pose2D | None = None,
    ) -> int:
        """Fuse one frame; the order of its points does not matter. A frame without a usable point changes nothing.

        NaN and infinite points, those nearer than `min_range` or farther than `max_range` never mark; one that is
        farther met nothing, so in line of sight its beam clears.

        Args:
            points: (N, 3) beam ends or voxel centres in odom [m], N may be 0. Not changed.
            origin: (3,) of the sensor in odom [m].
            pose: of the robot in odom: points in its body's box are left out.

        Returns:
            The number of points that marked.

        Raises:
            ValueError: wrong shapes; an origin or pose that is not finite.
        """
        cloud = _as_cloud(points)
        sensor = _finite(origin)
        box = (0.0, 0.0, 1.0, 0.0, -1.0, -1.0)
        if pose is not None:
            x, y, yaw = _finite(pose.as_tuple())
            if self._body[0] > 0.0 and self._body[1] > 0.0:
                box = (x, y, math.cos(yaw), math.sin(yaw), *self._body)
        if len(cloud) == 0:
            return 0
        if self._scratch is not None:
            self._clear(cloud, sensor, self._scratch)
        bricks, cells, used = self._place(cloud, sensor, box)
        kernels.insert(
            self._store,
            self._slots[:used],
            bricks,
            cells,
            self._carving is Carving.COLUMNS,
            self._window,
        )
        if len(self) > self._max_voxels:
            self._drop_voxels(sensor)
        return len(cells)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return what `restore` needs, as named arrays that are the caller's: the map for a checkpoint."""
        used = int(self._store.counts[0])
        return {
            "version": np.array(_STATE_VERSION),
            "voxel_size": np.array(self._size),
            "place": self._store.place[:used].copy(),
            "words": self._store.words[:used].copy(),
            "eye": self._store.eye[:used].copy(),
            "age": self._frame - self._store.touched[:used],
        }

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the map of a `state` with the same voxel size; what was known before is dropped.

        Raises:
            StorageError: not such a state, or too large; this mapper is as it was.
        """
        try:
            version, size = int(state["version"]), float(state["voxel_size"])
            place, words = state["place"], state["words"]
            age, eye = state["age"], state["eye"]
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"The voxel map's state cannot be read: {error}.") from error
        limit = 1 << 26
        fits = (
            version == _STATE_VERSION
            and size == self._size
            and place.dtype == np.int32
            and place.ndim == 2
            and place.shape[1] == 3
            and words.dtype == np.uint64
            and words.shape == (len(place), COLUMNS)
            and age.dtype == np.int64
            and age.shape == (len(place),)
            and eye.dtype == np.int32
            and eye.shape == (len(place),)
            and (len(place) == 0 or int(np.abs(place.astype(np.int64)).max()) <= limit)
            and len(np.unique(place, axis=0)) == len(place)
        )
        if not fits:
            raise StorageError("The voxel map's state is of another kind of map, or damaged.")
        counts = np.empty(len(place), np.int64)
        bits = np.array(words, np.uint64, order="C")
        kernels.count_voxels(bits, counts)
        if len(place) > len(self._store.place) or int(counts.sum()) > self._max_voxels:
            raise StorageError(
                f"The kept map has {int(counts.sum())} voxels, the bound is {self._max_voxels}.",
                "Raise max_voxels.",
            )
        store = self._store
        self._forget(np.arange(store.counts[0]))
        store.counts[:] = 0
        store.keys[:] = NONE
        self._frame += 1
        for (x, y, z), word, old, level in zip(
            place.tolist(), bits, age.tolist(), eye.tolist(), strict=True
        ):
            brick = kernels.claim_brick(store, x, y, z)
            store.words[brick] = word
            store.eye[brick] = level
            store.touched[brick] = self._frame - max(0, old) - 1
        store.counts[3] = counts.sum()
        used = len(place)
        store.dirty[:used] = 1
        store.changed[:used] = np.arange(used)
        store.counts[2] = used
        self._widen(self.extent)

    def _place(
        self,
        cloud: NDArray[np.float32],
        sensor: tuple[float, float, float],
        box: tuple[float, float, float, float, float, float],
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], int]:
        """Return slot and cell of each point that marks, and how many slots are in use."""
        eye = self._eye
        if eye is None:
            eye = max(-kernels.HIGH, min(kernels.HIGH, math.floor(sensor[2] / self._size)))
        bricks, cells = np.empty(len(cloud), np.int32), np.empty(len(cloud), np.int32)
        for attempt in range(2):
            self._frame += 1
            count, used, homeless = kernels.place_points(
                self._store,
                cloud,
                sensor,
                self._ranges,
                box,
                self._size,
                self._frame,
                eye,
                self._carving is Carving.COLUMNS,
                self._slots,
                bricks,
                cells,
                self._window,
            )
            if homeless == 0:
                break
            if attempt == 0:
                self._drop_bricks(sensor, homeless)
            else:
                self.refused_points += homeless
        return bricks[:count], cells[:count], used

    def _clear(
        self,
        cloud: NDArray[np.float32],
        sensor: tuple[float, float, float],
        scratch: NDArray[np.uint64],
    ) -> None:
        """Remove what this frame and one before it looked through."""
        tile = self._size * SIDE
        half = scratch.shape[0] // SIDE // 2
        corner = (
            (math.floor(sensor[1] / tile) - half) * SIDE,
            (math.floor(sensor[0] / tile) - half) * SIDE,
        )
        level = math.floor(sensor[2] / self._size) + BASE_LEVEL
        low_brick = level // LEVELS - 1
        part = kernels.draw_rays(
            scratch,
            corner,
            low_brick,
            cloud,
            sensor,
            (*self._ranges, self._clear_range),
            self._size,
        )
        if part[0] < part[1]:
            kernels.clear_seen_through(self._store, scratch, corner, low_brick, part, self._window)

    def _by_age(self, sensor: tuple[float, float, float]) -> NDArray[np.int64]:
        """Return the bricks, those first that go first."""
        used = int(self._store.counts[0])
        middle = (self._store.place[:used, :2] + 0.5) * (SIDE * self._size)
        distance = np.hypot(middle[:, 0] - sensor[0], middle[:, 1] - sensor[1])
        return np.lexsort((-distance, self._store.touched[:used]))

    def _drop_voxels(self, sensor: tuple[float, float, float]) -> None:
        """Keep the bound on voxels: old bricks go, then the far part of this frame's own."""
        store = self._store
        used = int(store.counts[0])
        counts = np.empty(used, np.int64)
        kernels.count_voxels(store.words[:used], counts)
        order = self._by_age(sensor)
        total = len(self)
        is_old: NDArray[np.bool_] = np.less(store.touched[order], self._frame)
        left = total - np.cumsum(counts[order])
        target = self._max_voxels - self._max_voxels // _SPARE
        before = np.concatenate([[total], left[:-1]])  # voxels before this brick goes
        goes = np.where(is_old, before > target, before > self._max_voxels)
        dropped = order[goes]
        if len(dropped) and not is_old[goes][-1] and left[goes][-1] < self._max_voxels:
            # The last one to go is of this frame and only a part of it is too much.
            last = int(dropped[-1])
            dropped = dropped[:-1]
            excess = int(before[goes][-1]) - self._max_voxels
            x, y = (store.place[last, :2] * SIDE).tolist()
            column = np.arange(COLUMNS)
            dx = (x + column % SIDE + 0.5) * self._size - sensor[0]
            dy = (y + column // SIDE + 0.5) * self._size - sensor[1]
            far_first = np.argsort(-np.hypot(dx, dy), kind="stable")
            store.counts[3] -= kernels.thin_brick(store.words[last], far_first, excess)
            self._mark(last)
        self._remove(dropped)
        self.evicted_voxels += total - len(self)
        self.evictions += 1

    def _drop_bricks(self, sensor: tuple[float, float, float], wanted: int) -> None:
        """Make room for so many bricks of this frame: empty ones and the oldest go."""
        store = self._store
        used, total = int(store.counts[0]), len(self)
        order = self._by_age(sensor)
        old = order[store.touched[order] < self._frame]
        is_empty: NDArray[np.bool_] = np.equal(store.words[:used].max(axis=1), 0)
        dropped = np.union1d(old[is_empty[old]], old[: max(wanted, used // _SPARE)])
        self._remove(dropped)
        if len(self) < total:
            self.evicted_voxels += total - len(self)
            self.evictions += 1

    def _remove(self, dropped: NDArray[np.int64]) -> None:
        if len(dropped) == 0:
            return
        self._forget(dropped)
        kept = np.ones(int(self._store.counts[0]), np.bool_)
        kept[dropped] = False
        kernels.keep_bricks(self._store, np.flatnonzero(kept))

    def _forget(self, dropped: NDArray[np.int64]) -> None:
        """Remember for readers that these bricks are no more."""
        place = self._store.place[dropped]
        if len(place) == 0:
            return
        self._gone.append(place)
        if len(self._gone) > _MANY:  # nobody takes them, or not often
            self._gone = [np.unique(np.concatenate(self._gone), axis=0)]
        low, high = place.min(axis=0) * SIDE, (place.max(axis=0) + 1) * SIDE
        self._widen(CellWindow(int(low[1]), int(high[1]), int(low[0]), int(high[0])))

    def _mark(self, brick: int) -> None:
        store = self._store
        if not store.dirty[brick]:
            store.dirty[brick] = 1
            store.changed[store.counts[2]] = brick
            store.counts[2] += 1
        x, y = (int(v) * SIDE for v in store.place[brick, :2])
        self._widen(CellWindow(y, y + SIDE, x, x + SIDE))

    def _widen(self, window: CellWindow) -> None:
        if not window.is_empty:
            w = self._window
            w[0], w[1] = min(w[0], window.row0), max(w[1], window.row1)
            w[2], w[3] = min(w[2], window.col0), max(w[3], window.col1)

    def _holds_brick(self, x: int, y: int, z: int) -> bool:
        brick = kernels.find_tile(self._store, x, y)
        while brick != NONE:
            if self._store.place[brick, 2] == z:
                return True
            brick = int(self._store.above[brick])
        return False


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache: some seconds at most, once per process."""
    points = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.0], [0.5, 0.5, 9.0]], np.float32)
    points.flags.writeable = False  # as frames from the object store are
    for carving in Carving:
        mapper = VoxelMapper(0.5, carving=carving, max_voxels=2, max_range=20.0, clear_range=2.0)
        for x in (0.0, 20.0, 40.0):
            mapper.add_frame(points + np.float32(x), (x, x, x + 0.3))
        mapper.points()
        mapper.take_bricks()
        mapper.restore(mapper.state())


def _allocate(bricks: int, with_doubt: bool) -> Store:
    """Return an empty store. Memory that holds no brick yet is reserved, not used."""
    buckets = 1 << (2 * bricks - 1).bit_length()
    return Store(
        words=np.zeros((bricks, COLUMNS), np.uint64),
        doubt=np.zeros((bricks if with_doubt else 0, COLUMNS), np.uint64),
        place=np.zeros((bricks, 3), np.int32),
        above=np.zeros(bricks, np.int32),
        touched=np.zeros(bricks, np.int64),
        eye=np.zeros(bricks, np.int32),
        slot=np.zeros(bricks, np.int32),
        dirty=np.zeros(bricks, np.uint8),
        changed=np.zeros(bricks, np.int32),
        head=np.zeros(bricks, np.int32),
        keys=np.full(buckets, NONE, np.int64),
        tiles=np.zeros(buckets, np.int32),
        counts=np.zeros(4, np.int64),
    )


def _no_window() -> NDArray[np.int64]:
    return np.array([_FAR, -_FAR, _FAR, -_FAR], np.int64)


def _as_cloud(points: ArrayLike) -> NDArray[np.float32]:
    """Return a copy, so that the kernels know one type."""
    with np.errstate(over="ignore", invalid="ignore"):
        cloud = np.array(points, np.float32, order="C")
    if cloud.size == 0:
        return np.empty((0, 3), np.float32)
    if cloud.ndim != 2 or cloud.shape[1] != 3:
        raise ValueError(f"points must be (N, 3), not {cloud.shape}")
    return cloud


def _finite(values: Sequence[float] | NDArray[np.floating]) -> tuple[float, float, float]:
    x, y, z = (float(v) for v in values)
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        raise ValueError(f"origin and pose must be finite, not {(x, y, z)}")
    return x, y, z
