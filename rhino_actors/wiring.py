"""THE graph: every actor of a deployment, its name, its resources, where it runs and whom it talks to.

Nothing else applies `ray.remote`. CPU reservations are fractions: they say which actors may share a core, not
how much they may use, and all of them together fit one core.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ray

from rhino_actors.actors.explorer import ExplorerActor
from rhino_actors.actors.mapper import MapperActor
from rhino_actors.actors.planner import PlannerActor
from rhino_actors.actors.platform import PlatformActor
from rhino_actors.actors.poi_store import PoiStore
from rhino_actors.actors.viewer import ViewerActor
from rhino_actors.config import NAMESPACE, PlacementConfig, RhinoConfig

# Safe to restart without limit: each comes back empty-handed or from what it kept on disk, and nothing of
# theirs moves the robot without a fresh decision. Calls are never repeated by Ray: a command is not idempotent.
RESTART_POLICY: Mapping[str, Any] = {"max_restarts": -1, "max_task_retries": 0}


@dataclass(frozen=True)
class Graph:
    """Handles of one robot's actors. `loops` are those whose `run` must be kept running."""

    robot: str
    platform: Any
    mapper: Any
    planner: Any
    explorer: Any
    poi_store: Any
    viewer: Any | None

    @property
    def loops(self) -> dict[str, Any]:
        """Actor name -> handle, for every actor with a `run` loop."""
        named = {
            "platform": self.platform,
            "mapper": self.mapper,
            "planner": self.planner,
            "explorer": self.explorer,
            "viewer": self.viewer,
        }
        return {f"{self.robot}/{name}": handle for name, handle in named.items() if handle}

    @property
    def handles(self) -> dict[str, Any]:
        """Actor name -> handle, for every actor."""
        return {**self.loops, "poi_store": self.poi_store}


def build_graph(config: RhinoConfig) -> Graph:
    """Create all actors of one robot on the Ray cluster that this process is connected to.

    Returns at once: the constructors run while the caller goes on.
    """
    robot, place = config.robot.name, config.placement
    on_robot, on_planner = _near(place, place.robot_side), _near(place, place.planner_side)

    def create(cls: type, name: str, cpus: float, near: Mapping[str, Any], **handles: Any) -> Any:
        # The decorated class is not known to the type checker; the actors' own handles are (ActorProxy).
        remote: Any = ray.remote(cls)
        options = {"name": name, "namespace": NAMESPACE, "num_cpus": cpus}
        return remote.options(**options, **RESTART_POLICY, **near).remote(config, **handles)

    platform = create(PlatformActor, f"{robot}/platform", 0.2, on_robot)
    mapper = create(MapperActor, f"{robot}/mapper", 0.15, on_robot, platform=platform)
    planner = create(
        PlannerActor, f"{robot}/planner", 0.15, on_planner, platform=platform, mapper=mapper
    )
    poi_store = create(PoiStore, "poi_store", 0.05, on_robot)
    explorer = create(
        ExplorerActor,
        f"{robot}/explorer",
        0.1,
        on_planner,
        platform=platform,
        mapper=mapper,
        planner=planner,
        poi_store=poi_store,
    )
    viewer = None
    if config.viewer.enabled:
        viewer = create(
            ViewerActor,
            f"{robot}/viewer",
            0.05,
            on_robot,
            platform=platform,
            mapper=mapper,
            planner=planner,
            explorer=explorer,
            poi_store=poi_store,
        )
    return Graph(robot, platform, mapper, planner, explorer, poi_store, viewer)


def _near(place: PlacementConfig, side: str) -> dict[str, Any]:
    """Prefer nodes with the label; any node serves when there is none, or none is left."""
    return {
        "label_selector": {place.label: side},
        "fallback_strategy": [{"label_selector": {}}],
    }
