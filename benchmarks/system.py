"""Measure a whole deployment: start, memory, CPU, rates, latencies.

    .venv/bin/python -m benchmarks.system            the simulation; about six minutes
    .venv/bin/python -m benchmarks.system --config test   the fake robot
    .venv/bin/python -m benchmarks.system --walking  only the clock, with legs, L1 and drift; two minutes

Everything runs in folders and on ports of its own. Figures are of the machine at that moment: its load is printed
beside them.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from tests.deployment import Rhino, rhino_world


def memory_mb(rhino: Rhino) -> dict[str, float]:
    """Proportional set size by process name [MB], and in all."""
    sizes: dict[str, float] = {}
    for process in rhino.family():
        try:
            name = process.name() if process.name().startswith("ray::") else _short(process)
            sizes[name] = sizes.get(name, 0.0) + process.memory_full_info().pss / 1e6
        except psutil.Error:
            continue
    return {"all": sum(sizes.values()), **dict(sorted(sizes.items(), key=lambda i: -i[1]))}


def _short(process: psutil.Process) -> str:
    words = process.cmdline()
    for word in words[1:]:
        if word.startswith("rhino_actors") or word.endswith(".py"):
            return Path(word).name
    return process.name()


def cpu_share(rhino: Rhino, seconds: float) -> dict[str, float]:
    """CPU use by process name, in cores, over some seconds."""
    before = {p: p.cpu_times() for p in rhino.family()}
    time.sleep(seconds)
    used: dict[str, float] = {}
    for process, start in before.items():
        try:
            now = process.cpu_times()
            name = process.name() if process.name().startswith("ray::") else _short(process)
        except psutil.Error:
            continue
        spent = now.user + now.system - start.user - start.system
        used[name] = used.get(name, 0.0) + spent / seconds
    return {"all": sum(used.values()), **dict(sorted(used.items(), key=lambda i: -i[1])[:12])}


def percentiles(samples: list[float]) -> dict[str, float]:
    """Median and 99th percentile [ms] of seconds."""
    ordered = sorted(samples)
    return {
        "n": len(ordered),
        "p50_ms": 1e3 * statistics.median(ordered),
        "p99_ms": 1e3 * ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))],
    }


def click_to_path(rhino: Rhino, count: int) -> dict[str, float]:
    """Time from POST /api/navigate to its answer, which holds the planned goal."""
    samples: list[float] = []
    rng = random.Random(1)
    with httpx2.Client(base_url=rhino.api, timeout=20.0) as client:
        while len(samples) < count:
            x, y = rhino.pose()
            body = {"x": x + rng.uniform(-2.0, 2.0), "y": y + rng.uniform(-2.0, 2.0)}
            started = time.perf_counter()
            answer = client.post("/api/navigate", json=body)
            took = time.perf_counter() - started
            if answer.is_success:
                samples.append(took)
            time.sleep(0.3)
        client.post("/api/stop", json={})
    return percentiles(samples)


def estop_latency(rhino: Rhino, count: int) -> dict[str, float]:
    """Time from POST /api/stop to its answer, which comes after zero was sent to the driver."""
    samples = []
    with httpx2.Client(base_url=rhino.api, timeout=20.0) as client:
        for _ in range(count):
            started = time.perf_counter()
            client.post("/api/stop", json={}).raise_for_status()
            samples.append(time.perf_counter() - started)
            time.sleep(0.05)
    return percentiles(samples)


@contextmanager
def deployed(rhino: Rhino, config: str) -> Iterator[float]:
    """Deploy, and give the time from the command to the served API [s]."""
    started = time.perf_counter()
    rhino.deploy(config)
    try:
        yield time.perf_counter() - started
    finally:
        rhino.run("down", timeout=120.0)


def walking_config(folder: Path, world: str) -> str:
    """Write the configuration of a robot that walks and senses as a Go2 does; return its path."""
    path = folder / "walking.yaml"
    mujoco = {"world": world, "base": "walking", "lidar": "l1", "drift": "default"}
    path.write_text(json.dumps({"driver": "mujoco", "mujoco": mujoco}))
    return str(path)


def clock(world: str, seconds: float) -> dict[str, Any]:
    """Explore with the walking robot; return how simulated time and odometry keep up with the wall."""
    report: dict[str, Any] = {"world": world, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder, rhino_world(Path(folder)) as rhino:
        with deployed(rhino, walking_config(Path(folder), world)) as took:
            report["start_to_api_s"] = took
            rhino.wait_for_map()
            rhino.post("/api/explore/start")
            time.sleep(5.0)
            factors, loads = [], []
            end = time.monotonic() + max(seconds, 65.0)  # the percentile is of the last minute
            while time.monotonic() < end:
                factors.append(rhino.get("/api/state")["status"]["realtime_factor"])
                loads.append(os.getloadavg()[0])
                time.sleep(2.0)
            state = rhino.get("/api/state")
            report["sim_per_wall"] = {"mean": statistics.mean(factors), "lowest": min(factors)}
            report["odometry_interval_p99_ms"] = 1e3 * state["rates"]["odometry_interval_p99"]
            report["load"] = {"mean": statistics.mean(loads), "highest": max(loads)}
            report["rates_hz"], report["camera"] = state["rates"], state["status"]["camera"]
            report["mission"] = {k: state["mission"][k] for k in ("state", "reason", "distance")}
            report["map"] = state["map"]
            report["cpu_cores_exploring"] = cpu_share(rhino, 10.0)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", default="sim")
    parser.add_argument("--explore-s", type=float, default=60.0)
    parser.add_argument("--walking", action="store_true", help="only the clock of a walking robot")
    parser.add_argument("--world", default="office", help="of --walking")
    options = parser.parse_args()
    if options.walking:
        report = clock(options.world, options.explore_s)
        print(json.dumps(report, indent=1, default=lambda v: round(v, 3)))
        return
    report = {"cores": os.cpu_count(), "load_before": os.getloadavg()}
    with tempfile.TemporaryDirectory() as folder:
        rhino = Rhino(Path(folder))
        with deployed(rhino, options.config) as took:
            report["first_start_to_api_s"] = took
        with deployed(rhino, options.config) as took:
            report["second_start_to_api_s"] = took
            rhino.wait_for_map()
            time.sleep(5.0)
            report["memory_mb_idle"] = memory_mb(rhino)
            report["cpu_cores_idle"] = cpu_share(rhino, 20.0)
            report["stop_answer"] = estop_latency(rhino, 100)
            report["click_to_path"] = click_to_path(rhino, 40)
            rhino.post("/api/explore/start")
            report["cpu_cores_exploring"] = cpu_share(rhino, options.explore_s)
            state = rhino.get("/api/state")
            report["rates_hz"] = state["rates"]
            report["mission"] = state["mission"]
            report["map"] = state["map"]
            report["memory_mb_exploring"] = memory_mb(rhino)
        rhino.end()
    report["load_after"] = os.getloadavg()
    print(json.dumps(report, indent=1, default=lambda v: round(v, 3)))


if __name__ == "__main__":
    try:
        main()
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"a command did not end: {error}") from error
