"""Metrics for Prometheus and Ray's dashboard: requests, streams, gate decisions, ages and rates of the sensors.

Recorded with `ray.util.metrics`, so Ray exports them as `ray_rhino_...`. Labels take few values: route templates, names
of robots, parts and sensors, codes; never a client's name, a path or a number.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import httpx2
import ray
from ray.util.metrics import Counter, Gauge, Histogram

from rhino_actors.errors import NotAvailable, RhinoError
from rhino_actors.messages.platform import RobotStatus
from serve_app.handles import Handles
from serve_app.probes import Probes

_log = logging.getLogger(__name__)

PERIOD_S = 5.0
PREFIX = "ray_rhino_"
_SCRAPE_TIMEOUT_S = 3.0
_SECONDS = [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0]
Labels = Mapping[str, str]


class Meters:
    """All metrics of the server, as Ray's."""

    def __init__(self) -> None:
        by_route = ("method", "route")
        self._requests = Counter(
            "rhino_api_requests",
            "requests that have ended, streams among them",
            (*by_route, "robot", "status"),
        )
        self._seconds = Histogram(
            "rhino_api_seconds",
            "[s] from a request to the end of its answer, streams apart",
            _SECONDS,
            by_route,
        )
        self._refusals = Counter("rhino_api_refusals", "answers with an error", ("code",))
        self._decisions = Counter(
            "rhino_gate_decisions", "decisions of the motion gate", ("robot", "event", "reason")
        )
        of_a_sensor = ("robot", "sensor")
        self._gauges = {
            name: Gauge(name, description, keys)
            for name, description, keys in (
                ("rhino_streams", "streams and waiting requests that are open", ("kind",)),
                ("rhino_part_up", "1: the part answers", ("robot", "part")),
                ("rhino_sensor_age_seconds", "[s] of the newest value", of_a_sensor),
                ("rhino_sensor_rate_hertz", "[Hz] over the last seconds", of_a_sensor),
                ("rhino_gate_latched", "1: the emergency stop is latched", ("robot",)),
                ("rhino_battery_percent", "[%]", ("robot",)),
                ("rhino_map_known_square_metres", "[m2] of the cells that were seen", ("robot",)),
                ("rhino_map_latency_p99_seconds", "[s] from frame to map", ("robot",)),
            )
        }

    def request(
        self, method: str, route: str, robot: str, status: int, seconds: float, *, is_stream: bool
    ) -> None:
        """Count one request that has ended."""
        where = {"method": method, "route": route}
        self._requests.inc(1, {**where, "robot": robot, "status": str(status)})
        if not is_stream:
            self._seconds.observe(seconds, where)

    def refusal(self, code: str) -> None:
        """Count one answer with an error."""
        self._refusals.inc(1, {"code": code})

    def decision(self, robot: str, event: str, reason: str) -> None:
        """Count one decision of a motion gate."""
        self._decisions.inc(1, {"robot": robot, "event": event, "reason": reason})

    def set(self, name: str, value: float, labels: Labels) -> None:
        """Set a gauge."""
        self._gauges[name].set(value, dict(labels))


class Telemetry:
    """Looks at the robots every few seconds, and sets the gauges."""

    def __init__(
        self,
        handles: Handles,
        probes: Probes,
        streams: Callable[[], Mapping[str, int]],
        meters: Meters,
    ) -> None:
        """Look at the robots of these handles; `streams` counts what is open, by kind."""
        self._handles, self._probes = handles, probes
        self._streams, self._meters = streams, meters
        self._counted: dict[str, float] = {}  # stamp of the newest gate decision that was counted
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()

    async def look(self) -> None:
        """Look once."""
        for kind, count in self._streams().items():
            self._meters.set("rhino_streams", count, {"kind": kind})
        found = await self._probes.ask()
        for (robot, part), probe in found.items():
            up = float(probe.state == "ok")
            self._meters.set("rhino_part_up", up, {"robot": robot, "part": part})
            if part == "platform" and isinstance(probe.answer, RobotStatus):
                self._note_status(robot, probe.answer)
                with contextlib.suppress(RhinoError):  # part_up says so
                    self._note_decisions(
                        robot, await self._handles.robot(robot).platform.gate_log()
                    )
            elif part == "mapper" and probe.answer is not None:
                self._note_map(robot, probe.answer)

    async def _run(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                _log.exception("metrics of the robots cannot be taken")
            await asyncio.sleep(PERIOD_S)

    def _note_status(self, robot: str, status: RobotStatus) -> None:
        ages = {
            "odometry": status.odometry_age,
            "lidar": status.lidar_age,
            "camera": status.camera_age,
        }
        rates = {
            "odometry": status.odometry_rate,
            "lidar": status.lidar_rate,
            "camera": status.camera_rate,
            "control": status.control_rate,
        }
        for sensor, age in ages.items():
            if age is not None:
                self._meters.set(
                    "rhino_sensor_age_seconds", age, {"robot": robot, "sensor": sensor}
                )
        for sensor, rate in rates.items():
            self._meters.set("rhino_sensor_rate_hertz", rate, {"robot": robot, "sensor": sensor})
        labels = {"robot": robot}
        self._meters.set("rhino_gate_latched", float(status.gate.latched), labels)
        self._meters.set("rhino_battery_percent", status.driver_state.battery, labels)

    def _note_decisions(self, robot: str, log: Iterable[Any]) -> None:
        """Count what was decided since the last look; at the first look, nothing: it was counted before a restart."""
        newest = max((line.stamp for line in log), default=0.0)
        since = self._counted.get(robot)
        if since is not None:
            for line in log:
                if line.stamp > since:
                    self._meters.decision(robot, line.event, line.reason)
        self._counted[robot] = max(newest, since or 0.0)

    def _note_map(self, robot: str, stats: Mapping[str, float]) -> None:
        labels = {"robot": robot}
        self._meters.set("rhino_map_known_square_metres", stats["known_area"], labels)
        latency = stats["latency_ms_p99"] / 1000.0
        self._meters.set("rhino_map_latency_p99_seconds", latency, labels)


async def scrape() -> str:
    """Return rhino's metrics as Prometheus reads them, from Ray's exporter on this node.

    Raises:
        NotAvailable: the exporter does not answer.
    """
    if not ray.is_initialized():
        raise NotAvailable("There are no metrics: the server does not run on Ray.")
    try:
        url = await asyncio.to_thread(_exporter)
        async with httpx2.AsyncClient(timeout=_SCRAPE_TIMEOUT_S) as client:
            answer = await client.get(url)
            answer.raise_for_status()
    except (httpx2.HTTPError, ConnectionError, KeyError, StopIteration, RuntimeError) as error:
        raise NotAvailable(f"Ray's metrics exporter does not answer: {error!r}.") from error
    return only_ours(answer.text)


def only_ours(text: str) -> str:
    """Return the lines of rhino's own metrics out of an exporter's answer."""
    return "".join(
        f"{line}\n"
        for line in text.splitlines()
        if line.removeprefix("# HELP ").removeprefix("# TYPE ").startswith(PREFIX)
    )


def _exporter() -> str:
    here = ray.get_runtime_context().get_node_id()
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    node = next(node for node in nodes if node["NodeID"] == here)
    return f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
