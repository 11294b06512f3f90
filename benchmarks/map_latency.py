"""How long after a lidar frame arrived a reader has the new costmap, in a running deployment.

    python -m benchmarks.map_latency                    the simulation, exploring, 60 s
    python -m benchmarks.map_latency --config test      the fake robot

The reader is a process of its own that does what the planner does: it asks the mapper for what changed, fetches it,
and puts it into its map. Latency is from the frame's stamp, its arrival at the driver, to that moment; both clocks are
the host's. Everything runs in folders and on a port of its own. Figures are of the machine at that moment.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.deployment import Rhino


async def follow(address: str, robot: str, seconds: float) -> dict[str, float]:
    """Read the map of a deployment for a while, in this process."""
    import ray

    from rhino_actors.actors.map_follower import MapFollower
    from rhino_actors.config import NAMESPACE

    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False)
    mapper = ray.get_actor(f"{robot}/mapper")
    follower = MapFollower(mapper)
    await follower.newer(5.0)
    await follower.newer(5.0)
    samples: list[float] = []
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        snapshot = await follower.newer(1.0)
        if snapshot is not None:
            samples.append(time.monotonic() - snapshot.stamp)
    stats = await mapper.stats.remote()
    kept = ("frames", "publishes", "frame_rate", "known_area", "memory_mb")
    report = {name: value for name, value in stats.items() if "_ms_" in name or name in kept}
    for percent in (50, 90, 99):
        report[f"visible_ms_p{percent}"] = 1000.0 * float(np.percentile(samples, percent))
    return {"maps": len(samples), **report}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="sim")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--follow", nargs=2, metavar=("ADDRESS", "ROBOT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.follow:
        print(json.dumps(asyncio.run(follow(*options.follow, options.seconds))))
        return
    with tempfile.TemporaryDirectory() as folder:
        rhino = Rhino(Path(folder))
        try:
            rhino.deploy(options.config)
            rhino.wait_for_map()
            rhino.post("/api/cmd/StandUp")
            rhino.post("/api/explore/start")
            reader = subprocess.run(
                [
                    *(sys.executable, "-m", "benchmarks.map_latency"),
                    *("--seconds", str(options.seconds)),
                    *("--follow", rhino.record()["ray_address"], "go2"),
                ],
                env={**rhino.environment, "RAY_AUTH_MODE": "token"},
                stdout=subprocess.PIPE,
                text=True,
                timeout=options.seconds + 60.0,
                check=True,
            )
            found = json.loads(reader.stdout.splitlines()[-1])
        finally:
            rhino.end()
    found["load"] = os.getloadavg()[0]
    print(json.dumps(found, indent=1, default=lambda value: round(value, 3)))


if __name__ == "__main__":
    main()
