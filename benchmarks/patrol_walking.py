"""A patrol by the walking robot, in lock-step: how fast it drives, how much it turns, how long places wait.

    python -m benchmarks.patrol_walking --world apartment --seed 1 --minutes 25
    python -m benchmarks.patrol_walking --world apartment --seed 1 --minutes 25 --set patrol.rounds=true

The robot first explores the world, as in benchmarks/exploration.py, then patrols the map that it made; both are the
actors' own pieces, with the L1 lidar, drift and people. Idleness is the mission's own, over its safe floor.
"""

import argparse

import numpy as np

from benchmarks.exploration import Explorer, Setup
from benchmarks.judge import Judge
from benchmarks.lockstep import Navigator, Robot, make_router, wait_for_map
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.exploration.explore_mission import ExploreMission
from rhino_actors.exploration.mission import Mission
from rhino_actors.exploration.patrol_mission import PatrolMission
from rhino_actors.messages.missions import PatrolRequest

EXPLORE_LIMIT_S = 1800.0
STANDING_M_S, TURNING_RAD_S = 0.03, 0.1


def patrol(setup: Setup, minutes: float) -> None:
    """Explore, patrol, and print a line a minute and the sums of the second half."""
    config, world = setup.config(), make_world(setup.world, setup.seed, people=setup.people)
    robot = Robot(world, config)
    judge, navigator = Judge(robot, world), Navigator(robot, make_router(config))
    wait_for_map(robot)

    def start(mission: Mission) -> Explorer:
        return Explorer(navigator, mission, make_router(config))

    def step(explorer: Explorer) -> None:
        robot.step()
        judge.step()
        navigator.tick()
        explorer.step()

    explorer = start(ExploreMission(config.explorer, config.robot))
    while explorer.end is None and robot.now < EXPLORE_LIMIT_S:
        step(explorer)
    print(f"explored: {explorer.end}, {judge.length:.0f} m in {robot.now:.0f} s", flush=True)
    explorer = start(PatrolMission(PatrolRequest(), config.patrol, config.robot))
    began, before, due = robot.now, judge.length, robot.now + 60.0
    twists, idleness = [], []
    while explorer.end is None and robot.now < began + 60.0 * minutes:
        step(explorer)
        twists.append((abs(robot.twist.vx), abs(robot.twist.omega)))
        progress = explorer.choice.patrol
        if robot.now < due or progress is None:
            continue
        due += 60.0
        idleness.append((progress.worst_idleness, progress.mean_idleness))
        print(
            f"{(robot.now - began) / 60.0:4.0f} min {judge.length - before:6.0f} m {len(explorer.drives):5} goals,"
            f" visited {progress.share_visited:.3f}, idleness worst {progress.worst_idleness:5.0f} s,"
            f" mean {progress.mean_idleness:4.0f} s",
            flush=True,
        )
    speed, turn = np.array(twists).T
    worst, mean = np.array(idleness[len(idleness) // 2 :]).T
    print(
        f"second half: idleness worst {worst.max():.0f} s, mean {mean.mean():.0f} s;"
        f" all: {(judge.length - before) / minutes:.1f} m a minute,"
        f" stands turning {100.0 * ((speed < STANDING_M_S) & (turn > TURNING_RAD_S)).mean():.0f} %"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--world", default="apartment", choices=sorted(WORLDS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=25.0)
    parser.add_argument(
        "--set", nargs="*", default=[], help="section.key=value of the configuration"
    )
    arguments = parser.parse_args()
    setup = Setup(arguments.world, arguments.seed, settings=tuple(arguments.set))
    patrol(setup, arguments.minutes)


if __name__ == "__main__":
    main()
