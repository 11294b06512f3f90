"""Two Ray nodes on one machine: the planner runs on its own node, and its loss stops the robot, not rhino."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.deployment import ROOT, Rhino, free_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


def _ray_environment(rhino: Rhino) -> dict[str, str]:
    lines = (ROOT / "cluster" / "ray.env").read_text().splitlines()
    pairs = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return {**rhino.environment, **pairs}


def _ray_start(rhino: Rhino, *words: str) -> None:
    ray = Path(sys.executable).with_name("ray")
    done = subprocess.run(
        [str(ray), "start", *words, "--num-cpus=2", "--object-store-memory=200000000"],
        env=_ray_environment(rhino),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def two_nodes(rhino: Rhino) -> Iterator[Rhino]:
    """A head labelled robot and a second node labelled planner, as cluster/README.md starts them."""
    ray = Path(sys.executable).with_name("ray")
    subprocess.run(
        [str(ray), "get-auth-token", "--generate"],
        env=_ray_environment(rhino),
        capture_output=True,
        timeout=60,
        check=True,
    )
    gcs = free_port()
    _ray_start(
        rhino,
        "--head",
        f"--port={gcs}",
        "--labels=rhino-role=robot",
        "--include-dashboard=false",
        f"--ray-client-server-port={free_port()}",
        f"--dashboard-agent-listen-port={free_port()}",
    )
    _ray_start(
        rhino,
        f"--address=127.0.0.1:{gcs}",
        "--labels=rhino-role=planner",
        f"--dashboard-agent-listen-port={free_port()}",
    )
    yield rhino
    rhino.run("down", timeout=120.0)
    for process in rhino.family():
        process.kill()
    psutil.wait_procs(rhino.family(), timeout=10.0)


def _actor_process(rhino: Rhino, actor: str) -> psutil.Process | None:
    found = rhino.family(f"ray::{actor}")
    return found[0] if found else None


def _raylet_of(rhino: Rhino, actor: str) -> psutil.Process | None:
    process = _actor_process(rhino, actor)
    return process.parent() if process else None


def test_planner_node_lost_while_driving_stops_the_robot_and_the_planner_moves_over(
    two_nodes: Rhino,
) -> None:
    two_nodes.deploy("test")  # finds the cluster that `ray start` left
    assert not two_nodes.record()["owns_ray"]
    two_nodes.wait_for_map()
    planner_raylet = _raylet_of(two_nodes, "PlannerActor")
    platform_raylet = _raylet_of(two_nodes, "PlatformActor")
    assert planner_raylet and platform_raylet and planner_raylet.pid != platform_raylet.pid
    assert _raylet_of(two_nodes, "ExplorerActor") == planner_raylet
    assert _raylet_of(two_nodes, "MapperActor") == platform_raylet

    x, y = two_nodes.pose()

    def sent(ahead: float) -> dict[str, object] | None:
        try:
            return two_nodes.navigate(x + ahead, y)
        except AssertionError:
            return None

    # The map goes to the planner on its own way.
    first = two_nodes.wait_until(lambda: sent(2.0), 60.0, "the planner to have a map", 1.0)
    two_nodes.wait_until(lambda: two_nodes.speed() > 0.15, 15.0, "the robot to drive", 0.0)
    planner = _actor_process(two_nodes, "PlannerActor")
    assert planner is not None
    os.kill(planner_raylet.pid, signal.SIGKILL)
    planner.wait(10.0)  # until it has noticed that its node is gone it leads the robot on
    time.sleep(1.6)
    assert two_nodes.speed() < 0.05, "the path's lease ran out, the robot stands"
    assert two_nodes.get("/api/health")["status"] == "ok"

    def moved() -> bool:
        raylet = _raylet_of(two_nodes, "PlannerActor")
        return raylet is not None and raylet.pid == platform_raylet.pid

    two_nodes.wait_until(moved, 60.0, "the planner on the node that is left", 0.5)

    goal = two_nodes.wait_until(lambda: sent(1.2), 60.0, "a goal to be accepted again", 1.0)
    assert goal["goal_id"] > first["goal_id"], "ids grow over the planner's restart"
    assert two_nodes.wait_for_end(goal["goal_id"])["state"] == "arrived"
