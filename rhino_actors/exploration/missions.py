"""From what is asked for to the mission that does it."""

from rhino_actors.config import RhinoConfig
from rhino_actors.exploration.area import check_area
from rhino_actors.exploration.explore_mission import ExploreMission
from rhino_actors.exploration.mission import Mission
from rhino_actors.exploration.patrol_mission import PatrolMission
from rhino_actors.messages.missions import ExploreRequest, MissionRequest


def make_mission(request: MissionRequest, config: RhinoConfig) -> Mission:
    """Return a mission that has not begun yet. Raises InvalidRequest for an area that is no polygon."""
    if isinstance(request, ExploreRequest):
        return ExploreMission(config.explorer, config.robot, request.area)
    check_area(request.area)
    return PatrolMission(request, config.patrol, config.robot)
