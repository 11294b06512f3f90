"""The Ray cluster that a deployment runs on: found, described, and its Serve swept of what the dead left."""

import os
import socket

from rhino_actors.errors import DeployError

# Set before Ray is imported, unless the user set them: Ray reads them once.
RAY_ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",  # the cluster's ports are open to the network whatever the node address
    "RAY_worker_niceness": "0",  # workers run at nice 15 else, the control loop among them
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else `uv run rhino` zips and ships the working directory
    # A planner host that is gone is noticed in 5 s instead of 65 s.
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray's new default, without its warning
    # Has Serve's HTTP proxy send what drives and stops the robot to a server of its own.
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "serve_app.front.middlewares",
}
APP_NAMES = frozenset({"rhino-rest", "rhino-control", "rhino-mcp"})


def find_cluster(wanted: str = "") -> str:
    """Return the address of the Ray cluster to join, or "" when a local one must be started.

    Looks at `wanted`, then RAY_ADDRESS, then what `ray start` left behind on this machine.

    Raises:
        DeployError: an address was asked for and nothing answers there.
    """
    prepare_ray_environment()
    from ray._private.utils import read_ray_address

    asked = wanted or os.environ.get("RAY_ADDRESS", "")
    if asked == "local":
        return ""
    if asked and asked != "auto":
        if not answers(asked):
            raise DeployError(
                f"No Ray cluster answers at {asked}.",
                "Start one there (cluster/README.md), or leave the address out to start a local one.",
            )
        return asked
    address = read_ray_address() or ""
    return address if address and answers(address) else ""


def prepare_ray_environment() -> None:
    """Set what Ray reads from the environment, before it is imported; what the user set stays."""
    for name, value in RAY_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def answers(address: str) -> bool:
    """Say whether something listens at host:port."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            return True
    except (OSError, ValueError):
        return False


def describe_cluster() -> tuple[str, str, str]:
    """Return address, dashboard URL ("" without one) and session directory of the connected cluster."""
    import ray
    from ray._private.worker import global_worker

    node = global_worker.node
    if not ray.is_initialized() or node is None:
        return "", "", ""
    dashboard = node.address_info.get("webui_url") or ""
    return node.gcs_address, f"http://{dashboard}" if dashboard else "", node.get_session_dir_path()


def serve_port() -> int | None:
    """Return the port of the Serve that the connected cluster runs, or None when it runs none."""
    from ray.serve.context import _get_global_client

    client = _get_global_client(raise_if_no_controller_running=False)
    return None if client is None else int(client.http_config.port)


def delete_apps() -> None:
    """Delete the applications of a rhino deployment from the connected cluster's Serve."""
    from ray import serve

    for name in serve.status().applications:
        if name in APP_NAMES:
            serve.delete(name)


def actor_lives(name: str, namespace: str) -> bool:
    """Say whether the connected cluster has an actor of this name."""
    import ray

    try:
        ray.get_actor(name, namespace=namespace)
        return True
    except ValueError:
        return False


def last_line(error: BaseException) -> str:
    """Return what a Ray error is about: it ends with the line of the exception that it carries."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
