"""Write a world's truth and a picture of it.

    python -m rhino_actors.drivers.mujoco.worlds --world office --seed 3 office.npz

writes office.npz and office.png. `--world` also takes the path of a map_server .yaml.
"""

import argparse
from pathlib import Path

import cv2

from rhino_actors.drivers.mujoco.worlds import GENERATOR_VERSION, make_world
from rhino_actors.drivers.mujoco.worlds.export import ROBOT_RADIUS, export, picture
from rhino_actors.errors import ConfigError


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path, help="the .npz file; the picture lies beside it")
    parser.add_argument("--world", default="apartment")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--robot-radius", type=float, default=ROBOT_RADIUS, help="[m]")
    arguments = parser.parse_args()
    output: Path = arguments.output.with_suffix(".npz")
    try:
        world = make_world(arguments.world, arguments.seed)
    except ConfigError as error:
        parser.error(str(error))
    export(output, world, GENERATOR_VERSION, robot_radius=arguments.robot_radius)
    cv2.imwrite(
        str(output.with_suffix(".png")), picture(world, robot_radius=arguments.robot_radius)
    )
    truth = world.truth_grid(robot_radius=arguments.robot_radius)
    print(
        f"{output}: {world.name}, seed {world.seed}, {len(world.boxes)} boxes, {len(world.people)} people, "
        f"free {truth.free_area:.0f} m2, reachable {truth.reachable_area:.0f} m2"
    )


if __name__ == "__main__":
    main()
