"""Measure the Go2 driver: lidar decode against the client library's own decoder, and the driver against the peer.

    .venv/bin/python -m benchmarks.go2 decode            thread CPU time, both decoders interleaved in one run
    .venv/bin/python -m benchmarks.go2 connect --count 100
    .venv/bin/python -m benchmarks.go2 reconnect --count 200   the robot closes the channel, again and again
    .venv/bin/python -m benchmarks.go2 odometry --seconds 60   from the robot's stamp to a reader, at rest
    .venv/bin/python -m benchmarks.go2 cut               a link that is cut for 12 s while driving
    .venv/bin/python -m benchmarks.go2 estop             from the call to zero and Damp at the peer, video on
    .venv/bin/python -m benchmarks.go2 soak --seconds 1800

Driver and peer run on loopback addresses, each in a process of its own except where it says otherwise. Wall-clock
figures are of the machine at that moment: its load is printed beside them.
"""

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import psutil

from rhino_actors.config import Go2Config, RobotConfig
from rhino_actors.drivers.go2.lidar import read_voxel_message, write_voxel_message
from rhino_actors.drivers.go2.platform import Go2Platform
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.peer.http import request

ORIGIN = (-3.625, -3.275, -0.575)
LAYERS = 38


def room(count: int) -> np.ndarray:
    """Return about `count` cells (N, 3) x, y, z of a room's walls and floor."""
    rng = np.random.default_rng(1)
    cells = []
    for x, y in ((20, None), (107, None), (None, 20), (None, 107)):
        along, up = np.meshgrid(np.arange(20, 108), np.arange(8, 32))
        fixed = np.full(along.size, x if x is not None else y)
        sides = (fixed, along.ravel()) if x is not None else (along.ravel(), fixed)
        cells.append(np.stack([*sides, up.ravel()], axis=1))
    floor = np.stack(np.meshgrid(np.arange(20, 108), np.arange(20, 108)), axis=-1).reshape(-1, 2)
    cells.append(np.column_stack([floor, np.full(len(floor), 7)]))
    found = np.concatenate(cells)
    return found[rng.choice(len(found), min(count, len(found)), replace=False)]


def scatter(count: int) -> np.ndarray:
    """Return `count` random cells: the worst for every decoder."""
    return np.random.default_rng(2).integers(0, (128, 128, LAYERS), (count, 3))


def message(cells: np.ndarray) -> bytes:
    bits = np.zeros((LAYERS, 128, 128), np.uint8)
    bits[cells[:, 2], cells[:, 1], cells[:, 0]] = 1
    packed = np.packbits(bits).reshape(-1)
    return write_voxel_message(packed, stamp=1.758148e9, resolution=0.05, origin=ORIGIN)


def decode(_: argparse.Namespace) -> None:
    """Compare decoders on the same messages; each decodes from the binary block on."""
    from unitree_webrtc_connect.lidar.lidar_decoder_native import LidarDecoder

    theirs = LidarDecoder()
    print(f"{'payload':<14}{'points':>8}{'bytes':>8}{'rhino ms':>10}{'library ms':>12}{'ratio':>7}")
    for name, cells in (
        ("room 2k", room(2000)),
        ("room 10k", room(10_000)),
        ("scatter 10k", scatter(10_000)),
        ("scatter 40k", scatter(40_000)),
    ):
        voxels = read_voxel_message(message(cells))
        header = {"src_size": voxels.src_size, "resolution": 0.05, "origin": list(ORIGIN)}
        runs: tuple[Callable[[], Any], ...] = (
            voxels.points,
            lambda v=voxels, h=header: theirs.decode(v.payload, h)["points"],
        )
        assert np.allclose(runs[0](), runs[1](), atol=1e-5)
        times: list[list[float]] = [[], []]
        for _ in range(200):
            for kind, run in enumerate(runs):
                begun = time.thread_time()
                run()
                times[kind].append(1000.0 * (time.thread_time() - begun))
        ours, native = (statistics.median(t) for t in times)
        print(
            f"{name:<14}{len(voxels.points()):>8}{len(voxels.payload):>8}"
            f"{ours:>10.3f}{native:>12.3f}{native / ours:>7.1f}"
        )


@asynccontextmanager
async def peer(*words: str) -> AsyncIterator[tuple[str, Callable[..., Any]]]:
    """Run `rhino peer` in a process of its own; yields its address and a way to ask its control port."""
    host = f"127.66.{os.getpid() % 250}.{os.getpid() % 199 + 2}"
    arguments = ["peer", "--world", "room", "--host", host, "--control-port", "18099", *words]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "rhino_actors.cli", *arguments, stdout=asyncio.subprocess.DEVNULL
    )

    async def ask(method: str, path: str, body: Any = None) -> Any:
        return await request(host, 18099, method, path, body)

    try:
        for _ in range(300):
            try:
                await ask("GET", "/stats")
                break
            except OSError:
                await asyncio.sleep(0.1)
        yield host, ask
    finally:
        process.terminate()
        await process.wait()


def platform(host: str, **fields: Any) -> Go2Platform:
    return Go2Platform(Go2Config(robot_ip=host, calibrated=False, **fields), RobotConfig())


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, round(share * (len(values) - 1)))]


async def connect(args: argparse.Namespace) -> None:
    """Connect again and again in one process, until the robot sends, and watch memory and descriptors."""
    from rhino_actors.drivers.go2.session import RobotSession

    class Deaf:
        def odometry(self, odometry: Any) -> None: ...

        def lidar(self, *_: Any) -> None: ...

        def camera(self, *_: Any) -> None: ...

    this, times, failures = psutil.Process(), [], 0
    async with peer() as (host, ask):
        for number in range(args.count):
            session = RobotSession(Go2Config(robot_ip=host, camera=False), "", Deaf())
            running = asyncio.create_task(session.run())
            begun = time.monotonic()
            try:
                await session.connected()
                times.append(time.monotonic() - begun)
            except Exception as error:
                failures += 1
                print(f"connect {number}: {error}")
            await session.close()
            await running
            while (await ask("GET", "/stats"))["connected"]:
                await asyncio.sleep(0.02)
            if number in (9, args.count - 1):
                print(
                    f"after {number + 1}: {this.num_fds()} descriptors,"
                    f" {this.memory_info().rss / 1e6:.0f} MB"
                )
    print(
        f"{len(times)} of {args.count} connected; p50 {quantile(times, 0.5):.2f} s,"
        f" p95 {quantile(times, 0.95):.2f} s, max {max(times):.2f} s; load {os.getloadavg()[0]:.0f}"
    )


async def reconnect(args: argparse.Namespace) -> None:
    """Have the robot close the channel again and again, and watch the driver's process."""
    async with peer() as (host, ask):
        robot = platform(host)
        await robot.connect()
        link = robot._link
        assert link is not None
        process, times, rest = psutil.Process(link.pid), [], []
        for number in range(args.count):
            connects = (await ask("GET", "/stats"))["connects"]
            await ask("POST", "/fault", {"kind": "close_channel"})
            begun = time.monotonic()
            while True:
                stats = await ask("GET", "/stats")
                if stats["connects"] > connects and stats["connected"] and robot.state().connected:
                    break
                if time.monotonic() - begun > 60.0:
                    raise TimeoutError(f"reconnect {number} did not come within a minute")
                await asyncio.sleep(0.05)
            times.append(time.monotonic() - begun)
            rest.append((process.num_fds(), process.memory_info().rss / 1e6))
            if number in (9, args.count // 2, args.count - 1):
                print(f"after {number + 1}: {rest[-1][0]} descriptors, {rest[-1][1]:.0f} MB")
        await robot.close()
    settled = rest[9:]
    print(
        f"{len(times)} reconnects; p50 {quantile(times, 0.5):.1f} s, max {max(times):.1f} s;"
        f" descriptors {min(r[0] for r in settled)} to {max(r[0] for r in settled)},"
        f" memory {min(r[1] for r in settled):.0f} to {max(r[1] for r in settled):.0f} MB"
    )


async def odometry(args: argparse.Namespace) -> None:
    """Time each pose from the peer's own stamp to a reader that polls every millisecond, while the robot stands."""
    async with peer() as (host, _):
        robot = platform(host)
        await robot.connect()
        await asyncio.sleep(2.0)
        delays, seen, end = [], 0, time.monotonic() + args.seconds
        while time.monotonic() < end:
            newest = robot.odometry()
            if newest is not None and newest.seq != seen:
                seen = newest.seq
                delays.append(time.time() - newest.device_stamp)
            await asyncio.sleep(0.001)
        await robot.close()
    print(
        f"odometry: {len(delays)} poses, p50 {1e3 * quantile(delays, 0.5):.1f} ms,"
        f" p99 {1e3 * quantile(delays, 0.99):.1f} ms; load {os.getloadavg()[0]:.0f}"
    )


async def cut(args: argparse.Namespace) -> None:
    """Cut the link while driving; nothing may arrive late, and the robot must not go on by itself."""
    async with peer() as (host, ask):
        robot = platform(host, camera=False)
        await robot.connect()
        ages: list[float] = []
        for seconds in args.cuts:
            await drive(robot, 3.0)
            before = len(await ask("GET", "/commands"))
            await ask("POST", "/fault", {"kind": "impair", "loss": 1.0})
            await drive(robot, seconds)
            moving = (await ask("GET", "/stats"))["twist"]
            at = (await ask("GET", "/stats"))["pose"]
            await ask("POST", "/fault", {"kind": "impair", "loss": 0.0})
            await drive(robot, 6.0)
            commands = await ask("GET", "/commands")
            late = commands[before:] if len(commands) >= before else commands
            moves = [c for c in late if c["name"] == "Move" and any(c["twist"].values())]
            after = (await ask("GET", "/stats"))["pose"]
            way = float(np.hypot(after[0] - at[0], after[1] - at[1]))
            ages += [c["age"] for c in moves]
            oldest = max((c["age"] for c in moves), default=0.0)
            print(
                f"cut of {seconds:g} s: at its end the robot does {moving}; afterwards {len(moves)} moves,"
                f" oldest {oldest:.3f} s, {way:.2f} m driven; link {robot.state().link}"
            )
            # A new decision: let go of the stick.
            robot.send_twist(Twist2D())
            await asyncio.sleep(1.0)
        await robot.close()
    print(
        f"oldest command that arrived: {max(ages, default=0.0):.3f} s; load {os.getloadavg()[0]:.0f}"
    )


async def drive(robot: Go2Platform, seconds: float) -> None:
    """Ask for slow circles, as a held stick does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        robot.send_twist(Twist2D(0.2, 0.0, 0.6))
        await asyncio.sleep(0.05)


async def estop(args: argparse.Namespace) -> None:
    """Time zero and Damp from the call to their arrival at the peer; both run on this host's clock."""
    zeros, damps = [], []
    async with peer() as (host, ask):
        robot = platform(host)
        await robot.connect()
        for _ in range(args.count):
            await drive(robot, 0.5)
            before = len(await ask("GET", "/commands"))
            pressed = time.monotonic()
            robot.send_twist(Twist2D())
            await robot.sport("Damp")
            for command in (await ask("GET", "/commands"))[before:]:
                if command["name"] == "StopMove" and len(zeros) == len(damps):
                    zeros.append(1000.0 * (command["stamp"] - pressed))
                if command["name"] == "Damp":
                    damps.append(1000.0 * (command["stamp"] - pressed))
                    break
            await robot.sport("RecoveryStand")
            await asyncio.sleep(0.8)
        await robot.close()
    for name, values in (("zero", zeros), ("Damp", damps)):
        print(
            f"{name}: {len(values)} times, p50 {quantile(values, 0.5):.1f} ms,"
            f" p99 {quantile(values, 0.99):.1f} ms; load {os.getloadavg()[0]:.0f}"
        )


async def soak(args: argparse.Namespace) -> None:
    """Drive for long with everything on, and count what is lost."""
    async with peer("--fps", "30") as (host, ask):
        robot = platform(host)
        await robot.connect()
        link = robot._link
        assert link is not None
        process = psutil.Process(link.pid)
        counts = {"odometry": 0, "lidar": 0, "camera": 0}
        seen = {"odometry": 0, "lidar": 0, "camera": 0}
        gaps: list[float] = []
        begun = noted = time.monotonic()
        first = await ask("GET", "/stats")
        last_stamp = begun
        while (now := time.monotonic()) - begun < args.seconds:
            robot.send_twist(Twist2D(0.2, 0.0, 0.6))
            odometry = robot.odometry()
            if odometry is not None and odometry.seq != seen["odometry"]:
                counts["odometry"] += odometry.seq - (seen["odometry"] or odometry.seq - 1)
                gaps.append(odometry.stamp - last_stamp)
                last_stamp, seen["odometry"] = odometry.stamp, odometry.seq
            for name, frame in (
                ("lidar", robot.lidar(seen["lidar"])),
                ("camera", robot.camera(seen["camera"])),
            ):
                if frame is not None:
                    counts[name] += frame.seq - seen[name] if seen[name] else 1
                    seen[name] = frame.seq
            if now - noted > args.seconds / 5:
                noted = now
                print(
                    f"{now - begun:6.0f} s: driver {process.memory_info().rss / 1e6:.0f} MB,"
                    f" {process.num_fds()} descriptors, load {os.getloadavg()[0]:.0f}"
                )
            await asyncio.sleep(0.02)
        last = await ask("GET", "/stats")
        sent = {topic: n - first["sent"].get(topic, 0) for topic, n in last["sent"].items()}
        print(f"sent {sent}")
        print(f"arrived {counts}; commands at the peer {last['commands'] - first['commands']}")
        print(
            f"odometry gap p99 {1000 * quantile(gaps, 0.99):.0f} ms, max {1000 * max(gaps):.0f} ms"
        )
        await robot.close()


PARTS = {
    "connect": connect,
    "reconnect": reconnect,
    "odometry": odometry,
    "cut": cut,
    "estop": estop,
    "soak": soak,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=["decode", *PARTS])
    parser.add_argument("--count", type=int, default=100, help="of connects or presses")
    parser.add_argument("--seconds", type=float, default=1800.0, help="of the soak")
    parser.add_argument(
        "--cuts", type=float, nargs="+", default=[12.0, 0.6, 2.0], help="lengths [s]"
    )
    args = parser.parse_args()
    if args.what == "decode":
        decode(args)
    else:
        asyncio.run(PARTS[args.what](args))


if __name__ == "__main__":
    main()
