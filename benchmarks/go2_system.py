"""Measure a whole deployment that drives the robot peer through the robot's own protocol.

    .venv/bin/python -m benchmarks.go2_system estop --count 100     POST /api/estop to zero and Damp at the peer
    .venv/bin/python -m benchmarks.go2_system explore --world office --minutes 20

`estop` has the camera on and three video viewers. `explore` explores the world twice, through the peer and with the
simulation itself, both at real time, and compares the known floor. Both use folders and ports of their own; times are
of the machine at that moment, whose load is printed beside them.
"""

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.go2 import quantile
from tests.deployment import Rhino, rhino_world
from tests.peer_process import Peer

VIEWERS = 3
LEAN = "viewer: {enabled: false}\nray: {dashboard: false}\n"


@contextmanager
def deployment(world: str, *words: str) -> Iterator[tuple[Rhino, Peer]]:
    """Run a peer and a deployment that drives it."""
    with tempfile.TemporaryDirectory() as folder, rhino_world(Path(folder)) as rhino:
        peer = Peer(rhino, world=world)
        try:
            rhino.wait_until(peer.is_up, 120.0, "the peer to listen")
            config = rhino.folder / "go2.yaml"
            config.write_text("driver: go2\n" + LEAN)
            rhino.deploy(str(config), "--robot-ip", peer.host, *words)
            rhino.wait_for_map()
            yield rhino, peer
        finally:
            peer.end()


@contextmanager
def viewers(rhino: Rhino, count: int) -> Iterator[list[int]]:
    """Read the video stream with several clients; yields the bytes that each has read."""
    read, over = [0] * count, threading.Event()

    def view(index: int) -> None:
        url = rhino.api + "/api/camera/stream"
        with httpx2.Client(timeout=10.0) as client, client.stream("GET", url) as answer:
            for chunk in answer.iter_bytes():
                read[index] += len(chunk)
                if over.is_set():
                    return

    threads = [threading.Thread(target=view, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield read
    finally:
        over.set()
        for thread in threads:
            thread.join()


def estop(args: argparse.Namespace) -> None:
    """Press while the robot is driven; both ends are on this host's clock."""
    times: dict[str, list[float]] = {"StopMove": [], "Damp": [], "answer": []}
    with deployment("room") as (rhino, peer), viewers(rhino, VIEWERS) as read:
        with httpx2.Client(base_url=rhino.api, timeout=20.0) as client:
            for _ in range(args.count):
                until = time.monotonic() + 0.5
                while time.monotonic() < until:
                    client.post("/api/velocity", json={"vx": 0.1, "vy": 0.0, "omega": 0.8})
                    time.sleep(0.05)
                pressed = time.monotonic()
                client.post("/api/estop").raise_for_status()
                times["answer"].append(time.monotonic() - pressed)
                time.sleep(0.3)
                _note(times, peer.ask("GET", "/commands"), pressed)
                client.post("/api/estop/clear").raise_for_status()
                client.post("/api/cmd/RecoveryStand").raise_for_status()
                rhino.wait_until(lambda: _stands(rhino), 20.0, "the robot to stand")
        print(f"each of {VIEWERS} viewers read {min(read) / 1e6:.1f} MB or more")
    for name, values in times.items():
        print(
            f"{name:<9} {len(values)} of {args.count}: p50 {1e3 * quantile(values, 0.5):.0f} ms,"
            f" p99 {1e3 * quantile(values, 0.99):.0f} ms; load {os.getloadavg()[0]:.0f}"
        )


def _note(times: dict[str, list[float]], commands: list[dict[str, Any]], pressed: float) -> None:
    for name in ("StopMove", "Damp"):
        stamps = [c["stamp"] for c in commands if c["name"] == name and c["stamp"] >= pressed]
        if stamps:
            times[name].append(min(stamps) - pressed)


def _stands(rhino: Rhino) -> bool:
    status = rhino.get("/api/state")["status"]
    return bool(status and status["posture"] == "standing")


def explore(args: argparse.Namespace) -> None:
    """Explore through the peer, then without it."""
    areas: list[float] = []
    with deployment(args.world, "--explore") as (rhino, _):
        areas.append(_explored(rhino, args.minutes, "through the peer"))
    with tempfile.TemporaryDirectory() as folder, rhino_world(Path(folder)) as rhino:
        rhino.deploy("sim", "--world", args.world, "--explore", "--lean")
        rhino.wait_for_map()
        areas.append(_explored(rhino, args.minutes, "without it"))
    print(f"known floor through the peer over without it: {areas[0] / areas[1]:.3f}")


def _explored(rhino: Rhino, minutes: float, how: str) -> float:
    """Wait for the mission's end, for at most `minutes`; return the known area [m2]."""
    until = time.monotonic() + 60.0 * minutes
    mission: dict[str, Any] = {}
    while time.monotonic() < until:
        mission = rhino.get("/api/state")["mission"] or {}
        if mission.get("state") not in (None, "idle", "running"):
            break
        time.sleep(5.0)
    area = float(rhino.get("/api/map/info")["known_area"])
    print(
        f"{how}: {mission.get('state')} {mission.get('reason')}, {area:.1f} m2,"
        f" {mission.get('distance', 0.0):.0f} m in {mission.get('elapsed', 0.0):.0f} s;"
        f" load {os.getloadavg()[0]:.0f}"
    )
    return area


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["estop", "explore"])
    parser.add_argument("--count", type=int, default=100, help="of presses")
    parser.add_argument("--world", default="office")
    parser.add_argument("--minutes", type=float, default=20.0, help="of exploring, at most")
    args = parser.parse_args()
    {"estop": estop, "explore": explore}[args.what](args)


if __name__ == "__main__":
    main()
