"""Voxel map and height cost: speed against dimos, Open3D and plain numpy in the same run, and what each sees.

    python -m benchmarks.voxels --peer /path/to/peer/bin/python

The peers live in an environment of their own (docs/voxels.md says how to make it); without --peer only numpy is
compared. Times are medians of interleaved rounds, in milliseconds of the process's CPU time.
"""

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhino_actors.mapping import HeightCostmap, VoxelMapper, height_cost, warm_up

SIZE = 0.05
SPAN = 6.4  # [m] of a frame's window
Points = NDArray[np.float32]


class Peer:
    """A worker process with dimos and Open3D."""

    def __init__(self, python: str, folder: Path) -> None:
        self._folder = folder
        self._saved = 0
        self._process = subprocess.Popen(
            [python, str(Path(__file__).with_name("voxels_peer.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, *request: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the peer died at {request[0]}")
        return json.loads(answer)

    def file(self, points: Points) -> str:
        """Return the path of a file with the points."""
        self._saved += 1
        path = str(self._folder / f"{self._saved}.npy")
        np.save(path, points)
        return path

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


class NumpyVoxels:
    """Sorted keys and set operations: what one writes in numpy."""

    def __init__(self) -> None:
        self.keys = np.empty(0, np.int64)

    def add_frame(self, points: Points) -> None:
        k = np.floor(points.astype(np.float64) / SIZE).astype(np.int64) + (1 << 20)
        fresh = np.unique((k[:, 0] << 42) | (k[:, 1] << 21) | k[:, 2])
        kept = self.keys[~np.isin(self.keys >> 21, fresh >> 21)]
        self.keys = np.union1d(kept, fresh)


def frame_at(x: float, y: float, seed: int, count: int = 20_000) -> Points:
    """A frame of `count` voxel centres: floor with dithered height, four walls, boxes, in a window around a place."""
    rng = np.random.default_rng(seed)
    floor = rng.uniform(-SPAN / 2, SPAN / 2, (count * 7 // 10, 2))
    height = np.where(rng.random(len(floor)) < 0.1, 0.05, 0.0)
    walls = rng.uniform(-SPAN / 2, SPAN / 2, (count - len(floor), 1))
    side = rng.integers(0, 2, len(walls)) * 2 - 1
    across = side[:, None] * (SPAN / 2 - 0.1)
    is_x = rng.random(len(walls)) < 0.5
    wall = np.where(is_x[:, None], np.hstack([across, walls]), np.hstack([walls, across]))
    points = np.vstack(
        [
            np.column_stack([floor, height]),
            np.column_stack([wall, rng.uniform(0.0, 1.4, len(wall))]),
        ]
    )
    points[:, :2] += (x, y)
    return ((np.floor(points / SIZE) + 0.5) * SIZE).astype(np.float32)


def places(voxels: int) -> list[tuple[float, float]]:
    """A square of windows side by side."""
    side = math.ceil(math.sqrt(voxels / 15_500))
    return [((k % side) * SPAN, (k // side) * SPAN) for k in range(side * side)]


def timed(work: Callable[[], Any]) -> float:
    started = time.process_time()
    work()
    return 1000.0 * (time.process_time() - started)


def row(name: str, ours: list[float], **others: list[float]) -> None:
    mine = float(np.median(ours))
    text = f"{name:<44} {mine:9.3f}"
    for who, times in others.items():
        if times:
            theirs = float(np.median(times))
            text += f"   {who} {theirs:9.2f} ({theirs / mine:.1f}x)"
    print(text, flush=True)


def voxel_maps(peer: Peer | None, sizes: list[int], rounds: int, open3d_limit: int) -> None:
    """add_frame and publish at maps of several sizes, turn by turn."""
    maps: dict[int, VoxelMapper] = {}
    plain: dict[int, NumpyVoxels] = {}
    spots: dict[int, list[tuple[float, float]]] = {}
    for size in sizes:
        maps[size], plain[size], spots[size] = VoxelMapper(), NumpyVoxels(), []
        if peer:
            peer("make", f"dimos{size}", "dimos")
            if size <= open3d_limit:
                peer("make", f"open3d{size}", "open3d")
        for k, spot in enumerate(places(size)):
            if len(maps[size]) >= size:
                break
            points = frame_at(*spot, seed=k)
            path = peer.file(points) if peer else ""
            maps[size].add_frame(points, (*spot, 0.3))
            plain[size].add_frame(points)
            spots[size].append(spot)
            if peer:
                peer("add_frame", f"dimos{size}", path)
                if size <= open3d_limit:
                    peer("add_frame", f"open3d{size}", path)
        maps[size].take_bricks()
    add: dict[tuple[str, int], list[float]] = {}
    send: dict[tuple[str, int], list[float]] = {}
    rng = np.random.default_rng(5)
    for turn in range(rounds + 2):
        for size in sizes:
            x, y = spots[size][rng.integers(len(spots[size]))]
            points = frame_at(x + rng.integers(-20, 20) * SIZE, y, seed=1000 + turn)
            took = {
                "ours": timed(lambda m=maps[size], p=points, o=(x, y, 0.3): m.add_frame(p, o)),
                "numpy": timed(lambda m=plain[size], p=points: m.add_frame(p)),
            }
            sent = {"ours": timed(maps[size].take_bricks)}
            if peer:
                path = peer.file(points)
                for who in ("dimos", "open3d"):
                    if who == "dimos" or size <= open3d_limit:
                        cpu, voxels = peer("add_frame", f"{who}{size}", path)
                        took[who] = 1000.0 * cpu
                        if voxels != len(maps[size]):
                            raise SystemExit(f"{who} has {voxels} voxels, not {len(maps[size])}")
                sent["dimos"] = 1000.0 * peer("publish", f"dimos{size}")[0]
            if len(maps[size]) != len(plain[size].keys):
                raise SystemExit("numpy's map differs")
            if turn >= 2:
                for who, ms in took.items():
                    add.setdefault((who, size), []).append(ms)
                for who, ms in sent.items():
                    send.setdefault((who, size), []).append(ms)
    for size in sizes:
        others = {w: add.get((w, size), []) for w in ("dimos", "open3d", "numpy")}
        row(f"add_frame, 20k points, {len(maps[size]):,} voxels", add["ours", size], **others)
    for size in sizes:
        row(
            f"publish a frame's change, {len(maps[size]):,} voxels",
            send["ours", size],
            dimos=send.get(("dimos", size), []),
        )
    first, last = sizes[0], sizes[-1]
    ratio = np.median(add["ours", last]) / np.median(add["ours", first])
    print(f"add_frame at {last:,} voxels takes {ratio:.2f} times that at {first:,}")


def height_costs(peer: Peer | None, sizes: list[int], rounds: int) -> None:
    """Whole runs, and the update after one frame."""
    for size in sizes:
        mapper, costmap = VoxelMapper(), HeightCostmap()
        spots = places(size)
        for k, spot in enumerate(spots):
            if len(mapper) >= size:
                break
            mapper.add_frame(frame_at(*spot, seed=k), (*spot, 0.3))
            costmap.update(mapper, mapper.take_changed())
        points = mapper.points()
        path = peer.file(points) if peer else ""
        middle = spots[min(k, len(spots) - 1) // 2]
        whole: list[float] = []
        part: list[float] = []
        dimos: list[float] = []
        for turn in range(rounds + 2):
            frame = frame_at(middle[0] + 0.05 * (turn % 5), middle[1], seed=2000 + turn)
            mapper.add_frame(frame, (*middle, 0.3))
            times = (
                timed(lambda p=points: height_cost(p)),
                timed(lambda m=mapper, c=costmap: c.update(m, m.take_changed())),
            )
            theirs = 1000.0 * peer("height_cost", path, "")[0] if peer else None
            if turn >= 2:
                whole.append(times[0])
                part.append(times[1])
                if theirs is not None:
                    dimos.append(theirs)
        row(f"height_cost, {len(points):,} points, whole", whole, dimos=dimos)
        row("height_cost, update after a 20k frame", part, dimos=dimos, whole=whole)


def rooms(kept: float, seed: int, jitter: float = 0.0) -> tuple[Points, NDArray[np.bool_]]:
    """An office of 24 x 24 m, 2.4 m walls, doors of 1 m; each voxel kept with a probability, some moved by one.

    Returns the points and, on cells of 5 cm from (0, 0), which are wall.
    """
    rng = np.random.default_rng(seed)
    cells = 480
    wall = np.zeros((cells, cells), np.bool_)
    for k in (*range(0, cells, 120), cells - 2):
        wall[k : k + 2, :] = wall[:, k : k + 2] = True
    for a in range(0, cells, 120):
        for b in range(120, cells - 2, 120):
            wall[b : b + 2, a + 50 : a + 70] = False
            wall[a + 50 : a + 70, b : b + 2] = False
    rows, cols = np.nonzero(~wall)
    floor = np.column_stack([cols + 0.5, rows + 0.5, np.zeros(len(rows))])
    rows, cols = np.nonzero(wall)
    levels = np.arange(48)
    solid = np.column_stack(
        [
            np.repeat(cols + 0.5, levels.size),
            np.repeat(rows + 0.5, levels.size),
            np.tile(levels + 0.5, len(rows)),
        ]
    )
    moved = rng.random(len(solid)) < jitter
    solid[moved, :2] += rng.integers(-1, 2, (int(moved.sum()), 2))
    solid = solid[rng.random(len(solid)) < kept]
    floor = floor * SIZE
    floor[:, 2] = rng.normal(0.0, 0.01, len(floor))
    points = np.vstack([floor, solid * SIZE])
    return points.astype(np.float32), wall


def seen(
    cost: NDArray[np.int8], origin: tuple[float, float], wall: NDArray[np.bool_]
) -> tuple[float, int]:
    """Return the share of wall cells with cost 100 within one cell, and the lethal cells farther from a wall."""
    lethal = np.zeros(wall.shape, np.bool_)
    row, col = round(origin[1] / SIZE), round(origin[0] / SIZE)
    rows, cols = np.nonzero(cost >= 100)
    inside = (
        (rows + row >= 0)
        & (rows + row < wall.shape[0])
        & (cols + col >= 0)
        & (cols + col < wall.shape[1])
    )
    lethal[rows[inside] + row, cols[inside] + col] = True
    return float(_wide(lethal)[wall].mean()), int((lethal & ~_wide(wall)).sum())


def _wide(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    padded = np.pad(mask, 1)
    rows, cols = mask.shape
    return np.logical_or.reduce(
        [padded[r : r + rows, c : c + cols] for r in range(3) for c in range(3)]
    )


def recall(peer: Peer | None, folder: Path) -> None:
    """Which walls are lethal, and what else is."""
    print("\nwalls that are lethal within one cell (lethal cells elsewhere)")
    for jitter in (0.0, 0.3):
        for kept in (1.0, 0.8, 0.5, 0.3, 0.1):
            points, wall = rooms(kept, 3, jitter)
            cost, geometry = height_cost(points)
            share, false = seen(cost, geometry.origin, wall)
            text = f"kept {kept:.1f}, moved {jitter:.1f}:   ours {share:.3f} ({false})"
            if peer:
                path = str(folder / "cost.npz")
                peer("height_cost", peer.file(points), path)
                with np.load(path) as theirs:
                    share, false = seen(theirs["cost"], tuple(theirs["origin"].tolist()), wall)
                text += f"   dimos {share:.3f} ({false})"
            print(text, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default=os.environ.get("RHINO_PEER_DIMOS", ""))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 500_000, 1_000_000])
    parser.add_argument("--open3d-limit", type=int, default=100_000, help="largest map for Open3D")
    options = parser.parse_args()
    warm_up()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = Peer(options.peer, folder) if options.peer else None
        try:
            voxel_maps(peer, options.sizes, options.rounds, options.open3d_limit)
            height_costs(peer, options.sizes[:2], options.rounds)
            recall(peer, folder)
        finally:
            if peer:
                peer.close()


if __name__ == "__main__":
    main()
