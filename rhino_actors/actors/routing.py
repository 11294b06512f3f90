"""The router that planner and explorer share: planning and mapping meet here, for they may not import each other."""

from rhino_actors.config import RhinoConfig
from rhino_actors.mapping.inflation import inflate
from rhino_actors.planning.route import Router


def make_router(config: RhinoConfig) -> Router:
    """Return a router that inflates as the mapper does."""
    robot = config.robot
    return Router(
        config.planner,
        robot,
        lambda occupancy, resolution: inflate(
            occupancy,
            resolution=resolution,
            inscribed_radius=robot.inscribed_radius,
            inflation_radius=robot.inflation_radius,
            cost_scaling_factor=robot.cost_scaling_factor,
        ),
    )
