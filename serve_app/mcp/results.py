"""What the tools answer, where it is more than a model of the REST API."""

from pydantic import BaseModel, Field

from serve_app.schemas import Gate, Mission, Nav, Pose, VelocityResponse


class NavReport(Nav):
    """How a goal goes."""

    ended: bool = Field(description="false: it is still under way; ask get_nav_status again")
    exploring: bool = Field(False, description="a mission sets the goals")


class MissionProgress(Mission):
    """How a mission goes."""

    ended: bool = Field(description="false: it is still under way; ask get_mission_status again")


class VelocityReport(VelocityResponse):
    """What was driven."""

    note: str = Field(description="what was clamped, and to what; empty: nothing")


class StopReport(BaseModel):
    """What a stop ended."""

    stopped: list[str] = Field(description="robots that stand")
    silent: list[str] = Field(
        description="robots whose platform did not answer; their own dead-man stops them"
    )
    goal_cancelled: bool = Field(description="a goal was given up")
    mission_stopped: bool = Field(description="a mission was given up")
    gates: dict[str, Gate] = Field(description="by robot")


class Observation(BaseModel):
    """What the picture is."""

    seq: int
    age: float = Field(description="[s] when it was read")
    width: int = Field(description="[px]")
    height: int = Field(description="[px]")
    robot: Pose | None = Field(description="where the robot was, in the map; null: not known")


class MapPicture(BaseModel):
    """Where the picture lies: x = left_x + column / pixels_per_metre, y = top_y - row / pixels_per_metre."""

    left_x: float = Field(description="[m] of the left edge")
    top_y: float = Field(description="[m] of the upper edge")
    pixels_per_metre: float
    width: int = Field(description="[px]")
    height: int = Field(description="[px]")
    age: float | None = Field(description="[s] of the newest lidar frame in it; null: not known")
    known_area: float = Field(description="[m2] of the floor and walls that were seen")
    empty: bool = Field(description="true before the first scan")
    robot: Pose | None
    legend: str = (
        "white: free, black: obstacle, grey: never seen, green arrow: robot, blue line: path, "
        "orange ring: goal"
    )
