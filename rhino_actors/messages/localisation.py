"""Whether the robot knows where it is in a saved map."""

from dataclasses import dataclass
from enum import StrEnum

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import NO_CORRECTION


class DriftMode(StrEnum):
    """What is done against the drift of odometry while a map is made."""

    NONE = "none"
    MATCHING = "matching"  # each frame is matched to the map made so far
    LOOPS = "loops"  # places seen again bend the whole way, and the map is drawn anew


class LocalisationState(StrEnum):
    """How the frames map and odom are joined."""

    UNKNOWN = "unknown"  # no saved map is loaded: the map is the one being made, nothing to find
    SEARCHING = "searching"  # a map is loaded, the robot's place in it is not known yet
    LOCALISED = "localised"
    LOST = "lost"  # it was known, and what the lidar sees does not fit it any more


@dataclass(frozen=True, slots=True)
class LocalisationStatus:
    """The present state, with what it rests on."""

    state: LocalisationState = LocalisationState.UNKNOWN
    share: float = 0.0  # of the lidar's points that lie on the map's obstacles, 0..1
    sentence: str = ""  # for people
    map_from_odom: Pose2D = NO_CORRECTION  # as the mapper has it; means a place only if `is_usable`

    @property
    def is_usable(self) -> bool:
        """True if goals in the map may be driven to: localised, or no saved map to be localised on."""
        return self.state in (LocalisationState.UNKNOWN, LocalisationState.LOCALISED)
