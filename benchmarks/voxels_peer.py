"""dimos and Open3D behind a pipe, in their own environment: started by benchmarks/voxels.py, one line in, one out.

A line is a JSON list: the name of a function below and its arguments; points come as the path of an .npy file. The
answer is a JSON list: CPU time of the process [s] that the work took, and a result.
"""

import contextlib
import json
import sys
import time
from typing import Any

import numpy as np

grids: dict[str, Any] = {}


def make(name: str, kind: str) -> None:
    """Make a 5 cm column-carving map: dimos's own on a CPU, or its Open3D hash map on the CPU."""
    if kind == "dimos":
        from dimos.mapping.voxels.grid import VoxelGrid

        grids[name] = VoxelGrid(0.05, device="CPU:0", show_startup_log=False)
    else:
        import open3d.core as o3c
        from dimos.mapping.voxels.impl.o3d import O3dVoxels

        grids[name] = O3dVoxels(0.05, 2_000_000, True, o3c.Device("CPU:0"))


def cloud(path: str) -> Any:
    from dimos.msgs.sensor_msgs.PointCloud2 import PointCloud2

    return PointCloud2.from_numpy(np.load(path))


def add_frame(name: str, path: str) -> tuple[float, int]:
    frame = cloud(path)
    started = time.process_time()
    grids[name].add_frame(frame)
    took = time.process_time() - started
    return took, int(grids[name].size())


def publish(name: str) -> tuple[float, int]:
    """The whole map to the bytes that are sent."""
    started = time.process_time()
    message = grids[name].get_global_pointcloud2().lcm_encode()
    return time.process_time() - started, len(message)


def height_cost(path: str, save: str) -> tuple[float, int]:
    from dimos.mapping.pointclouds.occupancy import height_cost_occupancy

    points = cloud(path)
    started = time.process_time()
    grid = height_cost_occupancy(points)
    took = time.process_time() - started
    if save:
        origin = (grid.origin.position.x, grid.origin.position.y)
        np.savez(save, cost=grid.grid, origin=origin)
    return took, int(grid.grid.size)


FUNCTIONS = {f.__name__: f for f in (make, add_frame, publish, height_cost)}


def main() -> None:
    answers = sys.stdout
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        with contextlib.redirect_stdout(sys.stderr):
            result = FUNCTIONS[name](*arguments)
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
