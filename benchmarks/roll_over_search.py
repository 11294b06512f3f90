"""Search the two leg poses by which the simulated Go2 rolls from its back onto its belly.

    python -m benchmarks.roll_over_search --seed 3

A cross-entropy search: draw candidates, keep the best fifth, draw around them. A candidate is judged from four ways
of lying on the back: does it end on its belly, how high does it throw itself, how fast does it spin. A cost below
-0.8 rolls over from all four.

Seed 3 ends with a mean of cost -1.03 and a best single draw of -1.11, in 20 rounds. The poses in `locomotion.ROLL_OVER`
are not of that run: an earlier search of this kind gave them, and no seed here is known to give them again. They stay
because they do better where it counts: cost -0.96, but 40 of 40 tumbles (`benchmarks/locomotion.py recovery`) in one
roll, the longest 4.1 s; with the mean of seed 3 some need two or three, 6.9 s, and 9.7 s in steps of 4 ms.
"""

import argparse
import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from benchmarks.locomotion import STILL, Bench, walk
from rhino_actors.drivers.mujoco.locomotion import WalkingRobot

# Right and left leg (abduction outwards, hip, knee [rad]) and a time [s], twice.
LOWEST = np.array([-0.6, -0.5, -2.6, -0.6, -0.5, -2.6, 0.2] * 2)
HIGHEST = np.array([1.0, 3.2, -0.85, 1.0, 3.2, -0.85, 0.6] * 2)
STARTS, ROUNDS, CANDIDATES, KEPT = 4, 20, 40, 8

Numbers = NDArray[np.float64]


def lying(bench: Bench, seed: int) -> tuple[Numbers, Numbers]:
    """Return coordinates and speeds of a robot that came to rest on its back."""
    rng = np.random.default_rng(seed)
    robot = bench.robot()
    robot.tip_over(math.pi + rng.uniform(-0.4, 0.4), rng.uniform(-0.3, 0.3))
    walk(robot, STILL, 1.5)
    return robot.data.qpos.copy(), robot.data.qvel.copy()


def cost(robot: WalkingRobot, starts: list[tuple[Numbers, Numbers]], numbers: Numbers) -> float:
    """Return how badly a candidate does, on average over the starts."""
    robot.roll_over = tuple(
        (tuple(half[0:3]), tuple(half[3:6]), float(half[6])) for half in numbers.reshape(2, 7)
    )
    total = 0.1 * float(numbers[6] + numbers[13]) * len(starts)
    for qpos, qvel in starts:
        mujoco.mj_resetData(robot.model, robot.data)
        robot.data.qpos[:], robot.data.qvel[:] = qpos, qvel
        mujoco.mj_forward(robot.model, robot.data)
        robot.command("Damp")
        robot.command("RecoveryStand")
        best, height, spin = -1.0, 0.0, 0.0
        # One attempt: fold, wait, roll, fold.
        for _ in range(round((0.85 + numbers[6] + numbers[13] + 0.75) / 0.05)):
            robot.advance(STILL, 25)
            best = max(best, math.cos(robot.tilt))
            height = max(height, robot.position[2])
            spin = max(spin, float(np.abs(robot.data.qvel[3:6]).max()))
        up = math.cos(robot.tilt)
        total += (0.0 if up > 0.8 else 1.0) - up - 0.3 * best
        total += 3.0 * max(0.0, height - 0.25) + 0.03 * spin
    return total / len(starts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=3)
    seed = parser.parse_args().seed
    bench = Bench(fast=False, seed=seed, quick=True)
    starts = [lying(bench, index) for index in range(STARTS)]
    robot = bench.robot()
    rng = np.random.default_rng(seed)
    best, best_cost = LOWEST, math.inf
    mean, spread = (LOWEST + HIGHEST) / 2.0, (HIGHEST - LOWEST) / 3.0
    for index in range(ROUNDS):
        drawn = np.clip(
            mean + spread * rng.standard_normal((CANDIDATES, len(mean))), LOWEST, HIGHEST
        )
        costs = np.array([cost(robot, starts, numbers) for numbers in drawn])
        if costs.min() < best_cost:
            best, best_cost = drawn[costs.argmin()], float(costs.min())
        kept = drawn[np.argsort(costs)[:KEPT]]
        mean = 0.3 * mean + 0.7 * kept.mean(0)
        spread = 0.3 * spread + 0.7 * kept.std(0) + 0.02
        print(f"round {index}: best {costs.min():.3f}, median {np.median(costs):.3f}", flush=True)
    for name, numbers in (("mean", np.clip(mean, LOWEST, HIGHEST)), ("best", best)):
        print(f"{name}: cost {cost(robot, starts, numbers):.3f}, {np.round(numbers, 2).tolist()}")


if __name__ == "__main__":
    main()
