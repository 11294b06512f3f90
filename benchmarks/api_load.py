"""The API under load, in a deployment that this starts: streams, videos and drivers at once, and e-stops among them.

    python -m benchmarks.api_load                       fake robot; 50 event streams, 10 videos, 20 drivers, 60 s
    python -m benchmarks.api_load --config sim          the simulation
    python -m benchmarks.api_load --plan --events 3 --films 3 --drivers 0     three viewers, the planner at full load
    python -m benchmarks.api_load --seconds 10 --events 10 --films 2 --drivers 4      short, for CI

One client drives, the other drivers are refused with his name. Every few seconds somebody else stops the robot while
it moves, by REST and by WebSocket in turn, clears the latch and has it stand up. "To the gate" is from before the
request is sent to the gate's decision, "to the wire" to the moment when the driver was first given the zero: both
stamps are of this host's monotonic clock. The same is measured first with nobody else there: the ratio of the two
says more than either on a busy machine. --one-server has driving share a process with streams, to compare. Loopback
only; folders and port of its own. Figures are of the machine at that moment, and the clients share its cores with
what they measure.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import numpy as np
import psutil

from tests.deployment import Rhino

TURN = {"vx": 0.0, "vy": 0.0, "omega": 0.6}  # on the spot: nothing is in the way
ZERO = {"vx": 0.0, "vy": 0.0, "omega": 0.0}
DRIVER_HZ = 10.0
PLAN_HZ = 4.0
SETTING_OUT_S = 2.0
MOVING_WAIT_S = 10.0
IDLE_SHARE = 0.25  # of the load's time, before it
PATIENCE_S = 60.0
SETTLE_S = 15.0  # for the counts of open streams to go back to zero


@dataclass(frozen=True)
class Load:
    """How much of what."""

    seconds: float = 60.0
    events: int = 50
    films: int = 10
    drivers: int = 20
    plan: bool = False  # goals again and again, instead of driving by hand
    vanish: int = 200  # connects that go away again, after the load
    estops: int = 0  # at least so many before it ends


@dataclass
class Report:
    """What came of it. Times in ms."""

    statuses: Counter[int] = field(default_factory=Counter)
    idle_to_gate: list[float] = field(default_factory=list)  # before the load
    idle_estop_rest: list[float] = field(default_factory=list)
    idle_estop_socket: list[float] = field(default_factory=list)
    to_gate: list[float] = field(default_factory=list)
    round_trip: list[float] = field(default_factory=list)  # of velocities, refused ones too
    estop_rest: list[float] = field(default_factory=list)  # to the wire
    estop_socket: list[float] = field(default_factory=list)
    refused_by: Counter[str] = field(default_factory=Counter)
    stop_failed: list[str] = field(default_factory=list)
    served_by: Counter[str] = field(default_factory=Counter)  # which server answered velocities
    events: int = 0
    frames_kb: float = 0.0
    open_during: int = 0
    open_after: int = -1
    memory_before: dict[str, float] = field(default_factory=dict)  # MB, proportional set size
    memory_after: dict[str, float] = field(default_factory=dict)

    failed: list[str] = field(default_factory=list)  # answers of 500 and above

    async def note(self, answer: aiohttp.ClientResponse) -> None:
        """Count an answer, and keep what it says if it is the server's failure."""
        self.statuses[answer.status] += 1
        if answer.status >= 500:
            said = (await answer.text())[:600]
            self.failed.append(f"{answer.method} {answer.url.path} {answer.status} {said}")

    @property
    def server_errors(self) -> int:
        """Answers of 500 and above."""
        return sum(count for status, count in self.statuses.items() if status >= 500)

    @property
    def estops(self) -> int:
        """E-stops that were asked for while the robot moved, and zeroed it."""
        return len(self.estop_rest) + len(self.estop_socket)


class Clients:
    """All clients of one run."""

    def __init__(self, api: str, load: Load, report: Report) -> None:
        self._api, self._load, self._report = api, load, report
        self._gate: dict[str, Any] = {}  # newest, from the first event stream
        self._news = asyncio.Event()
        self._is_loaded = False

    async def run(self) -> None:
        """Put the load on for its time, then let go of everything."""
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(self._api, connector=connector) as self._http:
            # One who looks and one who drives, before the others come: what the same costs without a load.
            first = self._drive("driver") if not self._load.plan else self._send_goals()
            tasks = [asyncio.create_task(work) for work in (self._watch_events(0), first)]
            stopping = asyncio.create_task(self._stop_again_and_again())
            await asyncio.sleep(IDLE_SHARE * self._load.seconds)
            self._is_loaded = True
            work = [self._watch_events(k) for k in range(1, self._load.events)]
            work += [self._watch_film(k) for k in range(self._load.films)]
            work += [self._drive(f"rival-{k}") for k in range(self._load.drivers - 1)]
            tasks += [asyncio.create_task(part) for part in work]
            await asyncio.sleep(self._load.seconds)
            await self._wait_for_estops()
            self._report.open_during = await self.count_open()
            stopping.cancel()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(stopping, *tasks, return_exceptions=True)
            for error in ended:
                if isinstance(error, Exception):
                    raise error
            await self._post("/api/stop", {}, "cleaner")
            await self._vanish()
            self._report.open_after = await self._wait_until_closed()

    async def _wait_for_estops(self) -> None:
        """Go on until there were as many e-stops as wanted: a busy machine is slow to drive and to stand up."""
        ends = time.monotonic() + PATIENCE_S
        while self._report.estops < self._load.estops and time.monotonic() < ends:
            await asyncio.sleep(0.2)

    async def count_open(self) -> int:
        """Return how many streams both servers hold open."""
        total = 0
        for path in ("/api/health/streams", "/api/control/streams"):
            async with self._http.get(path) as answer:
                total += (await answer.json())["open"]
        return total

    async def _wait_until_closed(self) -> int:
        ends = time.monotonic() + SETTLE_S
        while (left := await self.count_open()) and time.monotonic() < ends:
            await asyncio.sleep(0.2)
        return left

    async def _vanish(self) -> None:
        """Connect and go away after 100 to 300 ms, a few at a time."""
        chance, at_once = random.Random(1), asyncio.Semaphore(20)

        async def visit(k: int) -> None:
            path = "/api/events" if k % 2 else f"/api/camera/stream?client=visitor-{k}"
            async with at_once:
                try:
                    async with asyncio.timeout(0.1 + 0.2 * chance.random()):
                        async with self._http.get(path) as answer:
                            await self._report.note(answer)
                            await answer.content.read()
                except TimeoutError:
                    return

        await asyncio.gather(*(visit(k) for k in range(self._load.vanish)))

    # streams

    async def _watch_events(self, k: int) -> None:
        last = ""
        while True:
            headers = {"Last-Event-ID": last} if last else {}
            async with self._http.get(
                f"/api/events?client=viewer-{k}", headers=headers, timeout=FOR_EVER
            ) as answer:
                await self._report.note(answer)
                if answer.status == 200:
                    async for line in answer.content:
                        if line.startswith(b"id: "):
                            last = line[4:].strip().decode()
                            self._report.events += 1
                        elif k == 0 and line.startswith(b"data: ") and b'"odom_pose"' in line:
                            self._gate = json.loads(line[6:])["gate"] or {}
                            self._news.set()
            await asyncio.sleep(0.5)

    async def _watch_film(self, k: int) -> None:
        while True:
            async with self._http.get(
                f"/api/camera/stream?client=film-{k}", timeout=FOR_EVER
            ) as answer:
                await self._report.note(answer)
                if answer.status == 200:
                    async for piece in answer.content.iter_any():
                        self._report.frames_kb += len(piece) / 1000.0
            await asyncio.sleep(0.5)

    # driving

    async def _post(self, path: str, body: dict[str, Any], client: str) -> tuple[int, Any]:
        async with self._http.post(path, json=body, headers={"X-Rhino-Client": client}) as answer:
            await self._report.note(answer)
            if path == "/api/velocity":
                self._report.served_by[answer.headers.get("X-Rhino-App", "?")] += 1
            return answer.status, await answer.json()

    async def _drive(self, name: str) -> None:
        period = 1.0 / DRIVER_HZ
        await asyncio.sleep(random.random() * period)
        if name != "driver":
            await asyncio.sleep(1.0)  # the driver is there first
        twist = TURN
        while True:
            asked = time.monotonic()
            status, answer = await self._post("/api/velocity", twist, name)
            self._report.round_trip.append(1000.0 * (time.monotonic() - asked))
            if status == 200:
                times = self._report.to_gate if self._is_loaded else self._report.idle_to_gate
                times.append(1000.0 * (answer["stamp"] - asked))
                twist = TURN
            elif answer["code"] == "CONTROL_HELD":
                self._report.refused_by[answer["holder"]] += 1
            elif answer["code"] == "SUPERSEDED":
                twist = ZERO  # let go of the stick, then drive on
            await asyncio.sleep(max(0.0, period - (time.monotonic() - asked)))

    async def _send_goals(self) -> None:
        """Give the next goal as soon as the robot moves to the one before: the planner rests only then."""
        goals = itertools.cycle([(1.0, 1.0), (1.2, -0.6), (-0.8, -0.8), (-0.6, 0.6)])
        x, y = next(goals)
        while True:
            await self._post("/api/navigate", {"x": x, "y": y}, "driver")
            if not await self._wait_until_it_moves(SETTING_OUT_S):
                x, y = next(goals)  # it has arrived, or lies
            await asyncio.sleep(1.0 / PLAN_HZ)

    # stopping

    async def _stop_again_and_again(self) -> None:
        async with self._http.ws_connect("/api/ws?client=guard", timeout=WS_TIMEOUT) as socket:
            answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
            reading = asyncio.create_task(_read_socket(socket, answers))
            try:
                for k in itertools.count():
                    if not await self._wait_until_it_moves():
                        self._report.stop_failed.append("the robot did not move")
                        continue
                    await self._estop(socket if k % 2 else None, answers)
                    await self._post("/api/estop/clear", {}, "guard")
                    # Held while it gets up: whoever drives next would have it, lying.
                    await self._post("/api/control/take", {}, "guard")
                    await self._post("/api/cmd/StandUp", {}, "guard")
                    await self._post("/api/control/release", {}, "guard")
            finally:
                reading.cancel()

    async def _estop(
        self, socket: aiohttp.ClientWebSocketResponse | None, answers: asyncio.Queue[dict[str, Any]]
    ) -> None:
        asked = time.monotonic()
        if socket is None:
            status, answer = await self._post("/api/estop", {}, "guard")
            times = self._report.estop_rest if self._is_loaded else self._report.idle_estop_rest
        else:
            await socket.send_json({"type": "estop"})
            message = await answers.get()
            status, answer = 200 if message["ok"] else 500, message["result"]
            idle = self._report.idle_estop_socket
            times = self._report.estop_socket if self._is_loaded else idle
        gate = answer["gate"] if status == 200 else {}
        stands = gate and not any(gate["applied"].values())
        if not stands or not gate["latched"]:
            self._report.stop_failed.append(f"{status}: {answer}")
        elif gate["applied_since"] >= asked:
            times.append(1000.0 * (gate["applied_since"] - asked))

    async def _wait_until_it_moves(self, limit_s: float = MOVING_WAIT_S) -> bool:
        try:
            async with asyncio.timeout(limit_s):
                while True:
                    self._news.clear()
                    await self._news.wait()
                    if self._gate and any(self._gate["applied"].values()):
                        return True
        except TimeoutError:
            return False


async def _read_socket(
    socket: aiohttp.ClientWebSocketResponse, answers: asyncio.Queue[dict[str, Any]]
) -> None:
    acknowledged = 0.0
    async for message in socket:
        if message.type is not aiohttp.WSMsgType.TEXT:
            continue
        content = json.loads(message.data)
        if content["type"] == "answer":
            answers.put_nowait(content)
        if time.monotonic() - acknowledged > 1.0:
            acknowledged = time.monotonic()
            await socket.send_json({"type": "ack", "n": content["n"]})


FOR_EVER = aiohttp.ClientTimeout(total=None)
WS_TIMEOUT = aiohttp.ClientWSTimeout(ws_close=2.0)


def can_plan(rhino: Rhino) -> bool:
    """Return whether a goal is accepted."""
    goal = {"x": 0.5, "y": 0.0}
    return httpx2.post(rhino.api + "/api/navigate", json=goal, timeout=20.0).is_success


def memory(rhino: Rhino) -> dict[str, float]:
    """Return the proportional set size [MB] of each kind of process of a deployment."""
    sizes: Counter[str] = Counter()
    for process in rhino.family():
        try:
            name = _title(process)
            sizes[name] += process.memory_full_info().pss / 1e6
        except psutil.Error:
            continue
    return dict(sizes)


def _title(process: psutil.Process) -> str:
    words = " ".join(process.cmdline())
    if words.startswith("ray::"):
        return words.split()[0].split("#")[0]
    return "rhino deploy" if "rhino_actors.cli" in words else "Ray"


def run_load(rhino: Rhino, load: Load) -> Report:
    """Put a load on a deployment that serves and stands, and say what came of it."""
    report = Report()
    report.memory_before = memory(rhino)
    asyncio.run(Clients(rhino.api, load, report).run())
    report.memory_after = memory(rhino)
    return report


def print_report(report: Report) -> None:
    """Print tables for people."""
    print(f"{'[ms]':36}{'n':>7}{'p50':>9}{'p99':>9}{'max':>9}")
    for name, times in (
        ("without load: velocity to the gate", report.idle_to_gate),
        ("e-stop to the wire, REST", report.idle_estop_rest),
        ("e-stop to the wire, WebSocket", report.idle_estop_socket),
        ("under load: velocity to the gate", report.to_gate),
        ("velocity, round trip, refused too", report.round_trip),
        ("e-stop to the wire, REST", report.estop_rest),
        ("e-stop to the wire, WebSocket", report.estop_socket),
    ):
        if times:
            p50, p99 = np.percentile(times, (50, 99))
            print(f"{name:36}{len(times):7}{p50:9.1f}{p99:9.1f}{max(times):9.1f}")
    print(f"\nstatuses {dict(report.statuses)}, 5xx {report.failed or 'none'}")
    print(f"velocities served by {dict(report.served_by)}, refused by {dict(report.refused_by)}")
    print(f"e-stops that failed: {report.stop_failed or 'none'}")
    print(f"{report.events} events, {report.frames_kb / 1000.0:.0f} MB of pictures")
    print(f"open streams: {report.open_during} during, {report.open_after} after")
    print(f"\n{'memory [MB, PSS]':32}{'before':>9}{'after':>9}")
    for name in sorted(report.memory_after, key=lambda n: -report.memory_after[n]):
        before, after = report.memory_before.get(name, 0.0), report.memory_after[name]
        print(f"{name:32.32}{before:9.0f}{after:9.0f}")
    before, after = sum(report.memory_before.values()), sum(report.memory_after.values())
    print(f"{'all':32}{before:9.0f}{after:9.0f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", default="test", help="what to deploy: test, sim, ...")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--events", type=int, default=50)
    parser.add_argument("--films", type=int, default=10)
    parser.add_argument("--drivers", type=int, default=20)
    parser.add_argument("--vanish", type=int, default=200)
    parser.add_argument(
        "--one-server", action="store_true", help="driving in the server of streams, to compare"
    )
    parser.add_argument("--plan", action="store_true", help="goals instead of driving by hand")
    options = parser.parse_args()
    load = Load(
        seconds=options.seconds,
        events=options.events,
        films=options.films,
        drivers=options.drivers,
        plan=options.plan,
        vanish=options.vanish,
    )
    with tempfile.TemporaryDirectory() as folder:
        rhino = Rhino(Path(folder))
        if options.one_server:
            rhino.environment["RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"] = ""
        try:
            rhino.deploy(options.config, "--lean")
            rhino.wait_until(lambda: rhino.get("/api/state")["odom_pose"], 60.0, "a pose")
            rhino.post("/api/cmd/StandUp")
            if load.plan:
                rhino.wait_for_map()
                # The planner may still compile its kernels.
                rhino.wait_until(lambda: can_plan(rhino), 300.0, "a first plan", period=1.0)
            load_average = os.getloadavg()[0]
            report = run_load(rhino, load)
        finally:
            rhino.end()
    print(f"{options.config}: {load}")
    print(
        f"load average {load_average:.1f} before, {os.getloadavg()[0]:.1f} after; {os.cpu_count()} cores\n"
    )
    print_report(report)
    return 1 if report.server_errors or report.open_after or report.stop_failed else 0


if __name__ == "__main__":
    sys.exit(main())
