"""How well the simulated Go2 walks: tracking, steps, stops, pushes, figures, recovery, rough ground, speed, replay.

    python -m benchmarks.locomotion --quick          a few minutes of simulated time
    python -m benchmarks.locomotion                  the full table
    python -m benchmarks.locomotion tracking pushes  only these parts

Everything is drawn from --seed: the same seed prints the same figures, but for those of speed.
"""

import argparse
import hashlib
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import MujocoConfig
from rhino_actors.drivers.mujoco.locomotion import WalkingRobot, warm_up
from rhino_actors.drivers.mujoco.people import People
from rhino_actors.drivers.mujoco.walking_model import compile_walking_model
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.drivers.mujoco.worlds.scene import Box, Material, World
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.platform import Posture

FLOOR = Material("floor", "", (0.5, 0.5, 0.5))
STILL = Twist2D()
COMMANDS = (
    (0.3, 0.0, 0.0),
    (0.6, 0.0, 0.0),
    (1.0, 0.0, 0.0),
    (0.0, 0.2, 0.0),
    (0.0, 0.4, 0.0),
    (0.0, 0.0, 0.5),
    (0.0, 0.0, 1.0),
    (0.0, 0.0, 1.5),
    (0.5, 0.0, 0.8),
    (0.8, 0.0, 1.0),
    (0.6, -0.2, -0.8),
)

Samples = NDArray[np.float64]  # (n, 3) vx, vy, omega


def scene(boxes: tuple[Box, ...] = ()) -> World:
    return World("bench", 0, boxes, (FLOOR,), (), (-60.0, -60.0, 60.0, 60.0))


class Bench:
    """Makes robots, all in one manner, and lets them walk."""

    def __init__(self, *, fast: bool, seed: int, quick: bool) -> None:
        self.fast, self.seed, self.quick = fast, seed, quick
        self.config = MujocoConfig(fast=fast)
        # One sample, in whole physics steps.
        self.sample = 0.012 if fast else 0.010
        self.flat = compile_walking_model(scene(), self.config)

    def robot(self, boxes: tuple[Box, ...] = ()) -> WalkingRobot:
        robot = WalkingRobot(
            compile_walking_model(scene(boxes), self.config) if boxes else self.flat
        )
        walk(robot, STILL, 0.5)
        return robot


def walk(robot: WalkingRobot, twist: Twist2D, seconds: float) -> Samples:
    """Let the robot walk and return what it did, sample by sample."""
    timestep = robot.model.opt.timestep
    steps = 5 if timestep < 0.003 else 3
    samples = []
    for _ in range(max(1, round(seconds / (steps * timestep)))):
        robot.advance(twist, steps)
        done = robot.twist
        samples.append((done.vx, done.vy, done.omega))
    return np.array(samples)


def smooth(values: NDArray[np.float64], samples: int) -> NDArray[np.float64]:
    return np.convolve(values, np.ones(samples) / samples, mode="valid")


def tracking(bench: Bench) -> Iterator[str]:
    yield "| command vx, vy, omega | mean error | ripple std |"
    worst_error, worst_ripple = 0.0, 0.0
    for command in COMMANDS:
        samples = walk(bench.robot(), Twist2D(*command), 8.0)[300:]
        error, ripple = samples.mean(0) - command, samples.std(0)
        worst_error = max(worst_error, float(np.abs(error).max()))
        worst_ripple = max(worst_ripple, float(ripple[2]))
        yield f"| {command} | {text(error)} | {text(ripple)} |"
    yield f"worst mean error {worst_error:.3f}, worst yaw ripple {worst_ripple:.3f} rad/s"


def steps(bench: Bench) -> Iterator[str]:
    for axis, wanted in ((0, 0.6), (0, 1.0), (1, 0.3), (2, 1.0)):
        command = [0.0, 0.0, 0.0]
        command[axis] = wanted
        samples = walk(bench.robot(), Twist2D(*command), 4.0)[:, axis]
        rise = float(np.argmax(samples >= 0.9 * wanted)) * bench.sample
        peak = float(smooth(samples, round(0.1 / bench.sample)).max())
        yield (
            f"step to {'vx vy omega'.split()[axis]} {wanted}: t90 {rise:.2f} s, "
            f"overshoot {100 * (samples.max() / wanted - 1):.0f} % ({100 * (peak / wanted - 1):.0f} % of 0.1 s means)"
        )
    for command, name in ((Twist2D(1.0, 0.0, 0.0), "1 m/s"), (Twist2D(0.0, 0.0, 1.0), "1 rad/s")):
        robot = bench.robot()
        walk(robot, command, 4.0)
        before = robot.pose
        ended, moving = 0.0, 0.0
        turned = 0.0
        last = before.yaw
        for _ in range(200):
            samples = walk(robot, STILL, bench.sample)
            turned += math.remainder(robot.pose.yaw - last, math.tau)
            last = robot.pose.yaw
            ended += bench.sample
            if float(np.abs(samples).max()) > 0.05:
                moving = ended
        length = math.hypot(robot.pose.x - before.x, robot.pose.y - before.y)
        yield f"stop from {name}: {length:.3f} m, {math.degrees(turned):.1f} deg, still after {moving:.2f} s"


def random_commands(bench: Bench) -> Iterator[str]:
    seconds = 60.0 if bench.quick else 300.0
    falls, rmse, _ = wander(bench, seconds, bench.seed, 0.0)
    yield f"random commands {seconds:.0f} s: falls {falls}, rmse of 0.5 s means {text(rmse)}"


def pushes(bench: Bench) -> Iterator[str]:
    plan = (
        ((20.0, 60.0, 1),)
        if bench.quick
        else ((20.0, 300.0, 6), (30.0, 300.0, 2), (40.0, 300.0, 2))
    )
    for impulse, seconds, runs in plan:
        falls, count, total = 0, 0, 0.0
        squares = np.zeros(3)
        for run in range(runs):
            fell, rmse, pushed = wander(bench, seconds, bench.seed + 10 + run, impulse)
            falls, count, total = falls + fell, count + pushed, total + seconds
            squares += rmse**2
        rmse = np.sqrt(squares / runs)
        yield (
            f"pushes of {impulse:.0f} N s every 5 s, {total / 60:.0f} min: {count} pushes, "
            f"falls {falls}, rmse of 0.5 s means {text(rmse)}"
        )


def wander(bench: Bench, seconds: float, seed: int, impulse: float) -> tuple[int, Samples, int]:
    """Walk random commands, pushed every 5 s; return falls, rmse (3,) and pushes."""
    rng = np.random.default_rng(seed)
    robot = bench.robot()
    falls, count = 0, 0
    next_push, next_command = 5.0, 0.0
    command = STILL
    errors = []
    for tick in range(round(seconds / 0.5)):
        now = 0.5 * tick
        if now >= next_command:
            next_command = now + rng.uniform(2.0, 5.0)
            command = Twist2D(
                rng.uniform(-0.5, 1.0), rng.uniform(-0.4, 0.4), rng.uniform(-1.5, 1.5)
            )
            fresh = True
        if impulse and now >= next_push:
            next_push += 5.0
            angle = rng.uniform(0.0, math.tau)
            robot.push(impulse * math.cos(angle), impulse * math.sin(angle))
            count += 1
        samples = walk(robot, command, 0.5)
        if robot.posture is Posture.FALLEN:
            falls += 1
            robot.place(0.0, 0.0, 0.0)
            walk(robot, STILL, 0.5)
            continue
        # The first half second of a command is its step, not its tracking.
        if not fresh:
            errors.append(samples.mean(0) - (command.vx, command.vy, command.omega))
        fresh = False
    return falls, np.sqrt((np.array(errors) ** 2).mean(0)), count


def recovery(bench: Bench) -> Iterator[str]:
    tumbles = 10 if bench.quick else 40
    rng = np.random.default_rng(bench.seed + 5)
    times = []
    for _ in range(tumbles):
        robot = bench.robot()
        tumble(robot, rng)
        robot.command("RecoveryStand")
        began = robot.time
        while robot.posture is Posture.CHANGING and robot.time - began < 20.0:
            walk(robot, STILL, 0.1)
        walk(robot, STILL, 0.5)
        if robot.posture is Posture.STANDING and robot.tilt < 0.1 and robot.position[2] > 0.28:
            times.append(robot.time - began - 0.5)
    within = sum(t <= 8.0 for t in times)
    yield (
        f"RecoveryStand: {within} of {tumbles} tumbles within 8 s, {len(times)} in all, "
        f"mean {np.mean(times):.1f} s, longest {max(times):.1f} s"
    )


def tumble(robot: WalkingRobot, rng: np.random.Generator) -> None:
    """Throw the robot down anyhow: a random attitude, joints and spin, and three seconds to come to rest."""
    robot.tip_over(rng.uniform(-math.pi, math.pi), rng.uniform(-1.2, 1.2))
    robot.joints[:] = np.array([0.0, 1.2, -1.8] * 4) + rng.uniform(-0.5, 0.5, 12)
    robot.data.qpos[2] = 0.45
    robot.data.qvel[:6] = rng.normal(0.0, 1.0, 6)
    robot.command("Damp")
    walk(robot, STILL, 3.0)


def figures(bench: Bench) -> Iterator[str]:
    for names in (
        ("StandDown", "StandUp"),
        ("Sit", "RiseSit"),
        ("Hello",),
        ("Stretch",),
        ("Dance1",),
        ("Dance2",),
        ("Damp", "StandUp"),
        ("BalanceStand",),
    ):
        robot = bench.robot()
        start, tilt, began = robot.pose, 0.0, robot.time
        for name in names:
            robot.command(name)
            for _ in range(2000):
                walk(robot, STILL, bench.sample)
                tilt = max(tilt, robot.tilt)
                if robot.posture is not Posture.CHANGING:
                    break
            if name == "Damp":
                walk(robot, STILL, 2.0)
        taken = robot.time - began
        walk(robot, STILL, 1.0)
        drift = math.hypot(robot.pose.x - start.x, robot.pose.y - start.y)
        after = walk(robot, Twist2D(0.5, 0.0, 0.0), 3.0)[100:, 0].mean()
        yield (
            f"{' then '.join(names)}: {taken:.1f} s, drift {100 * drift:.0f} cm, largest tilt "
            f"{math.degrees(tilt):.0f} deg, walks on at {after:.2f} of 0.50 m/s, {robot.posture.value}"
        )


def euler(bench: Bench) -> Iterator[str]:
    worst = 0.0
    for roll, pitch, yaw in (
        (0.24, 0.0, 0.0),
        (0.0, 0.24, 0.0),
        (0.0, -0.24, 0.0),
        (0.0, 0.0, 0.35),
    ):
        robot = bench.robot()
        robot.command("Euler", {"roll": roll, "pitch": pitch, "yaw": yaw})
        walk(robot, STILL, 4.0)
        worst = max(
            worst, float(np.abs(np.subtract(robot.roll_pitch_yaw, (roll, pitch, yaw))).max())
        )
    heights = []
    for height in (-0.12, 0.02):
        robot = bench.robot()
        before = robot.position[2]
        robot.command("Pose", {"height": height})
        walk(robot, STILL, 4.0)
        heights.append(abs(robot.position[2] - before - height))
    yield f"Euler: worst error {math.degrees(worst):.1f} deg, height {100 * max(heights):.1f} cm"


def terrain(bench: Bench) -> Iterator[str]:
    rng = np.random.default_rng(bench.seed)
    for height in (0.02,) if bench.quick else (0.02, 0.03, 0.05):
        boxes = tuple(
            block(f"rough{i}_{j}", 0.3 * i, 0.3 * j - 3.0, 0.15, rng.uniform(0.0, height))
            for i in range(2, 30)
            for j in range(20)
        )
        yield across(bench, boxes, f"floor of blocks up to {100 * height:.0f} cm", 6.0)
    for height in (0.04,) if bench.quick else (0.02, 0.04, 0.06):
        step = Box("step", (6.0, 0.0, height / 2), (10.0, 6.0, height))
        yield across(bench, (step,), f"step of {100 * height:.0f} cm", 3.0)
    for slope in (15,) if bench.quick else (5, 10, 15, 20):
        boxes = tuple(ramp(math.radians(slope)))
        yield across(bench, boxes, f"ramp of {slope} degrees", 3.0)


def block(name: str, x: float, y: float, half: float, height: float) -> Box:
    return Box(name, (x, y, height / 2), (2 * half, 2 * half, max(height, 1e-3)))


def ramp(slope: float) -> Iterator[Box]:
    """A ramp as treads of 1 cm: boxes cannot lean, feet cannot tell."""
    tread = 0.01
    for index in range(400):
        x = 0.8 + tread * (index + 0.5)
        height = tread * (index + 0.5) * math.tan(slope)
        yield Box(f"ramp{index}", (x, 0.0, height / 2), (tread, 3.0, height))


def across(bench: Bench, boxes: tuple[Box, ...], name: str, length: float) -> str:
    robot = bench.robot(boxes)
    while robot.pose.x < length and robot.time < 40.0 and robot.posture is not Posture.FALLEN:
        # A driver keeps it straight.
        steer = -1.5 * robot.pose.yaw - 0.8 * robot.pose.y
        walk(robot, Twist2D(0.4, 0.0, max(-0.8, min(0.8, steer))), 0.1)
    if robot.posture is Posture.FALLEN:
        return f"{name}: FELL at {robot.pose.x:.1f} m"
    if robot.pose.x < length:
        return f"{name}: STUCK at {robot.pose.x:.1f} m"
    return f"{name}: crossed in {robot.time:.1f} s"


def bumps(bench: Bench) -> Iterator[str]:
    """Drive straight on until something stops the robot, back off, turn, drive on; people walk about."""
    seeds, seconds = (1, 60.0) if bench.quick else (3, 300.0)
    total, falls, length, used = 0.0, 0, 0.0, 0.0
    for name in WORLDS:
        for seed in range(1, seeds + 1):
            began = time.process_time()
            fell, walked = bump_and_turn(bench, make_world(name, seed), seed, seconds)
            used += time.process_time() - began
            total, falls, length = total + seconds, falls + fell, length + walked
    yield (
        f"bump and turn, {len(WORLDS)} worlds, {total / 60:.0f} min: falls {falls}, {length:.0f} m, "
        f"real-time factor {total / used:.0f}"
    )


def bump_and_turn(bench: Bench, world: World, seed: int, seconds: float) -> tuple[int, float]:
    """Return falls and metres."""
    rng = np.random.default_rng(seed)
    robot = WalkingRobot(compile_walking_model(world, bench.config))
    people = People(world.people, robot.model)
    falls, length, blocked = 0, 0.0, 0
    twist, until = Twist2D(0.5, 0.0, 0.0), math.inf
    steps = round(0.02 / robot.model.opt.timestep)
    turn = 0.0
    while robot.time < seconds:
        before = robot.pose
        for _ in range(5):
            people.step(robot.data, (robot.pose.x, robot.pose.y), 0.02)
            robot.advance(twist, steps)
        moved = math.hypot(robot.pose.x - before.x, robot.pose.y - before.y)
        length += moved
        if robot.posture is Posture.FALLEN:
            falls += 1
            robot.command("RecoveryStand")
            twist, until, blocked = Twist2D(-0.3, 0.0, 0.0), robot.time + 9.0, 0
        elif robot.time >= until:
            if twist.vx < 0.0:
                twist, until = Twist2D(0.0, 0.0, math.copysign(1.0, turn)), robot.time + abs(turn)
            else:
                twist, until, blocked = Twist2D(0.5, 0.0, 0.0), math.inf, -10
        elif twist.vx > 0.0:
            blocked = blocked + 1 if moved < 0.02 else min(blocked + 1, 0)
            if blocked > 4:
                turn = rng.uniform(0.7, 2.6) * rng.choice((-1.0, 1.0))
                twist, until = Twist2D(-0.3, 0.0, 0.0), robot.time + 1.2
    return falls, length


def speed(bench: Bench) -> Iterator[str]:
    began = time.process_time()
    warm_up()
    yield f"kernels ready after {time.process_time() - began:.2f} s of CPU"
    for name, model in (
        ("flat", bench.flat),
        ("apartment", compile_walking_model(make_world("apartment", 1), bench.config)),
    ):
        robot = WalkingRobot(model)
        walk(robot, Twist2D(0.3, 0.0, 0.5), 1.0)
        seconds = 10.0 if bench.quick else 40.0
        began = time.process_time()
        robot.advance(Twist2D(0.3, 0.0, 0.5), round(seconds / robot.model.opt.timestep))
        used = time.process_time() - began
        yield f"real-time factor, {name}: {seconds / used:.0f}"


def digest(seed: int, fast: bool) -> str:
    """Return a hash over the states of a scripted run: walks, pushes, figures, a fall and its end."""
    bench = Bench(fast=fast, seed=seed, quick=True)
    rng = np.random.default_rng(seed)
    robot = bench.robot()
    state = hashlib.sha256()
    for index in range(20):
        if index % 4 == 1:
            robot.push(*rng.uniform(-12.0, 12.0, 2))
        if index == 8:
            robot.command("StandDown")
        if index == 12:
            robot.command("StandUp")
        if index == 17:
            robot.tip_over(2.5, 0.3)
        if index == 18:
            robot.command("RecoveryStand")
        walk(robot, Twist2D(*(rng.uniform(-1.0, 1.0, 3) * (0.8, 0.4, 1.2))), 0.7)
        state.update(robot.data.qpos.tobytes() + robot.data.qvel.tobytes())
    return state.hexdigest()[:16]


def replay(bench: Bench) -> Iterator[str]:
    here = [digest(bench.seed, bench.fast) for _ in range(2)]
    command = [sys.executable, "-m", "benchmarks.locomotion", "digest", "--seed", str(bench.seed)]
    there = subprocess.run(
        command + (["--fast"] if bench.fast else []), capture_output=True, text=True, check=True
    )
    same = len({*here, there.stdout.strip()}) == 1
    yield f"three replays, one in another process: {'identical' if same else 'DIFFERENT'} {here[0]}"


def text(values: NDArray[np.float64]) -> str:
    return ", ".join(f"{value:.3f}" for value in values)


PARTS: dict[str, Callable[[Bench], Iterator[str]]] = {
    "tracking": tracking,
    "steps": steps,
    "random": random_commands,
    "figures": figures,
    "euler": euler,
    "recovery": recovery,
    "terrain": terrain,
    "pushes": pushes,
    "bumps": bumps,
    "speed": speed,
    "replay": replay,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, "digest", []])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--fast", action="store_true", help="steps of 4 ms instead of 2")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.parts == ["digest"]:
        print(digest(options.seed, options.fast))
        return
    warm_up()
    for name in options.parts or PARTS:
        print(f"\n{name}")
        for line in PARTS[name](Bench(fast=options.fast, seed=options.seed, quick=options.quick)):
            print(line, flush=True)


if __name__ == "__main__":
    main()
