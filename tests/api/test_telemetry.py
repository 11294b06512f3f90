"""What is measured of the robots, and what of it leaves the server."""

from dataclasses import replace
from typing import Any

import pytest
import ray.exceptions as rx
from fastapi.testclient import TestClient

from rhino_actors.messages.platform import GateDecision
from serve_app import telemetry
from serve_app.probes import Probes
from serve_app.telemetry import Telemetry
from tests.api.world import World


class Meters:
    def __init__(self) -> None:
        self.gauges: dict[tuple[str, ...], float] = {}
        self.decisions: list[tuple[str, str, str]] = []

    def set(self, name: str, value: float, labels: dict[str, str]) -> None:
        self.gauges[name, *labels.values()] = value

    def decision(self, robot: str, event: str, reason: str) -> None:
        self.decisions.append((robot, event, reason))


def watched(world: World) -> tuple[Telemetry, Any]:
    handles, meters = world.handles(), Meters()
    return Telemetry(handles, Probes(handles), lambda: {"events": 3}, meters), meters  # type: ignore[arg-type]


async def test_ages_rates_and_parts_are_gauges(world: World) -> None:
    world.platform.latched_by = "ann"
    world.lost["explorer"] = rx.ActorDiedError()
    looking, meters = watched(world)
    await looking.look()
    gauges = meters.gauges
    assert gauges["rhino_streams", "events"] == 3
    assert gauges["rhino_part_up", "go2", "platform"] == 1.0
    assert gauges["rhino_part_up", "go2", "explorer"] == 0.0
    assert gauges["rhino_sensor_age_seconds", "go2", "lidar"] == 0.1
    assert ("rhino_sensor_age_seconds", "go2", "camera") not in gauges, "there was none yet"
    assert gauges["rhino_sensor_rate_hertz", "second", "odometry"] == 50.0
    assert gauges["rhino_gate_latched", "go2"] == 1.0
    assert gauges["rhino_battery_percent", "go2"] == 87.0
    assert gauges["rhino_map_known_square_metres", "go2"] == 3.0
    assert gauges["rhino_map_latency_p99_seconds", "go2"] == 0.06


async def test_each_decision_of_the_gate_is_counted_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = GateDecision(1.0, 2.0, "stop", "ann", "STOPPED", "ann stopped the robot.")
    log = [stop]

    async def gate_log() -> tuple[GateDecision, ...]:
        return tuple(log)

    monkeypatch.setattr(world.platform, "gate_log", gate_log)
    looking, meters = watched(world)
    await looking.look()
    assert meters.decisions == [], "from before this server"
    log += [replace(stop, stamp=3.0, event="claim", reason=""), replace(stop, stamp=4.0)]
    await looking.look()
    await looking.look()
    assert [d for d in meters.decisions if d[0] == "go2"] == [
        ("go2", "claim", ""),
        ("go2", "stop", "STOPPED"),
    ]


async def test_silent_parts_do_not_end_it(world: World) -> None:
    world.lost = dict.fromkeys(("platform", "mapper", "poi_store"), rx.GetTimeoutError("late"))
    looking, meters = watched(world)
    await looking.look()
    assert meters.gauges["rhino_part_up", "go2", "platform"] == 0.0
    assert meters.gauges["rhino_part_up", "", "poi_store"] == 0.0


def test_metrics_are_served_and_nothing_of_rays_own(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = (
        "# HELP ray_rhino_part_up 1: the part answers\n# TYPE ray_rhino_part_up gauge\n"
        'ray_rhino_part_up{robot="go2"} 1.0\n# TYPE ray_node_mem gauge\nray_node_mem 5.0\n'
    )
    assert telemetry.only_ours(exported) == exported.split("# TYPE ray_node")[0]

    async def scraped() -> str:
        return telemetry.only_ours(exported)

    shared = client.app.state._state  # type: ignore[attr-defined]
    monkeypatch.setitem(shared, "services", replace(shared["services"], scrape=scraped))
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.text == telemetry.only_ours(exported)


def test_without_ray_metrics_are_503(client: TestClient) -> None:
    answer = client.get("/metrics")
    assert answer.status_code == 503 and answer.json()["code"] == "NOT_AVAILABLE"
