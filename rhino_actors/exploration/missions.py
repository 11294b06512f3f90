"""From what is asked for to the mission that does it."""

from rhino_actors.config import RhinoConfig
from rhino_actors.errors import MissionError
from rhino_actors.exploration.explore_mission import ExploreMission
from rhino_actors.exploration.mission import Mission
from rhino_actors.messages.missions import ExploreRequest, MissionRequest


def make_mission(request: MissionRequest, config: RhinoConfig) -> Mission:
    """Return a mission that has not begun yet. Raises MissionError for one that this rhino cannot do."""
    if isinstance(request, ExploreRequest):
        return ExploreMission(config.explorer, config.robot)
    raise MissionError("This rhino cannot patrol.")
