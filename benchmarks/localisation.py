"""Localisation on a saved map, and drift correction while mapping, in the simulated worlds with L1 and drift.

    python -m benchmarks.localisation                            40 starts, maps of the truth and maps we made
    python -m benchmarks.localisation --worlds office --starts 3 fewer
    python -m benchmarks.localisation --strange maze --starts 4  on a map of another world: no answer is right
    python -m benchmarks.localisation --loops                    loops of 120 m, with and without correction
    python -m benchmarks.localisation --loops --worlds office maze --loop-seeds 2 --modes none loops

Drives are simulated once and kept in the folder of --drives, about 2 MB each. A start counts as found when the first
answer is within 0.15 m and 3 degrees and no later one up to the end of the drive is a wrong one: farther off than
0.5 m or 10 degrees. On another world's map every answer is a wrong one. Times are CPU times of the thread.
"""

import argparse
import math
import time
from pathlib import Path
from tempfile import gettempdir

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from benchmarks.localisation_runs import (
    Drive,
    Transform,
    kept,
    loop_drive,
    mapping_drive,
    random_drive,
)
from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.drivers.mujoco.worlds import WORLDS, make_world
from rhino_actors.geometry import compose, inverse
from rhino_actors.mapping import Localiser, MapLayers, Whereabouts, warm_up
from rhino_actors.mapping.likelihood import surface
from rhino_actors.mapping.loop_mapping import LoopMapping
from rhino_actors.mapping.map_files import decode_map, encode_map
from rhino_actors.mapping.submap import Band
from rhino_actors.messages.grid import NO_CORRECTION, GridGeometry
from rhino_actors.messages.localisation import DriftMode

SEED = 1  # of the worlds
BAND = Band()
GOOD = (0.15, math.radians(3.0))
WRONG = (0.5, math.radians(10.0))

Grid = tuple[NDArray[np.int8], GridGeometry]


def off(found: Transform, true: Transform) -> tuple[float, float]:
    """Return how far a pose is from the true one [m], [rad]."""
    return (
        math.hypot(found[0] - true[0], found[1] - true[1]),
        abs(math.remainder(found[2] - true[2], math.tau)),
    )


def map_of(name: str, kind: str, folder: Path) -> Grid:
    """Return the map to localise on: `truth`, or `made` by our own mapper in a drive without drift, saved and read."""
    if kind == "truth":
        truth = make_world(name, SEED).truth_grid()
        return truth.occupancy, truth.geometry
    drive = kept(
        folder,
        f"map_{name}_{SEED}",
        lambda: mapping_drive(name, SEED, drift="off", seed=1, limit=1500.0),
    )
    layers = MapLayers(MapperConfig(), RobotConfig())
    for sample, stamp in zip(drive.samples, drive.times, strict=True):
        layers.integrate(sample.frame(1, stamp))
    layers.update_tiles(1)
    description, image = encode_map(layers.occupancy_grid(), layers.geometry, "map.pgm")
    return decode_map(description, lambda _: image)


def start_drive(name: str, seed: int, chosen: argparse.Namespace) -> Drive:
    """Return the drive of a start."""
    suffix = "" if chosen.base == "kinematic" else f"_{chosen.base}"
    return kept(
        chosen.drives,
        f"start_{name}_{SEED}_{seed}{suffix}",
        lambda: random_drive(name, SEED, seed=seed, duration=chosen.duration, base=chosen.base),
    )


def worst_claim(drive: Drive, grid: Grid) -> tuple[float, float]:
    """Return how far off the truth a place was believed [m], and how long one was believed [s]; 0 if none was."""
    localiser = Localiser(*grid, band=BAND)
    worst = believed = 0.0
    before = drive.times[0]
    for sample, stamp, true in zip(drive.samples, drive.times, drive.truth, strict=True):
        frame = sample.frame(1, stamp)
        localiser.add_frame(
            frame.points, frame.origin, frame.pose, voxel_size=frame.resolution, stamp=stamp
        )
        if localiser.is_localised:
            place = compose(localiser.map_from_odom, frame.pose.as_tuple())
            worst, believed = max(worst, off(place, true)[0]), believed + stamp - before
        before = stamp
    return worst, believed


def localise_on_strange_maps(chosen: argparse.Namespace) -> None:
    """Run drives on maps of other worlds, where every answer is wrong, and of the same world arranged anew.

    There an answer near the truth is right: walls stay where they are, and what stands between them does not.
    """
    for where in chosen.strange:
        made: Grid | None = None
        for name in chosen.worlds:
            is_same = name == where
            if is_same:
                anew = make_world(where, SEED + 1).truth_grid()
                strange: Grid = (anew.occupancy, anew.geometry)
            else:
                strange = made = made or map_of(where, "made", chosen.drives)
            answers = wrong = 0
            for seed in range(chosen.starts):
                worst, believed = worst_claim(start_drive(name, seed, chosen), strange)
                is_wrong = believed > 0.0 and (not is_same or worst > WRONG[0])
                answers, wrong = answers + (believed > 0.0), wrong + is_wrong
                if is_wrong:
                    print(f"  start {seed}: {worst:.2f} m off, believed {believed:.1f} s")
            print(
                f"robot in {name}, map of {where}{' arranged anew' * is_same}: {answers} answers, "
                f"{wrong} wrong, {chosen.starts} drives",
                flush=True,
            )


def localise(drive: Drive, grid: Grid) -> tuple[bool, bool]:
    """Run one drive; print a line; return whether it was found and whether any answer was a wrong one."""
    localiser = Localiser(*grid, band=BAND)
    first: tuple[float, float, float, float] | None = None
    errors: list[tuple[float, float]] = []
    search, follow, slowest, way = 0.0, 0.0, 0.0, 0.0
    losses = followed = 0
    before = drive.start
    for sample, stamp, true in zip(drive.samples, drive.times, drive.truth, strict=True):
        frame = sample.frame(1, stamp)
        way += math.hypot(true[0] - before[0], true[1] - before[1])
        before, was = true, localiser.is_localised
        started = time.thread_time()
        localiser.add_frame(
            frame.points, frame.origin, frame.pose, voxel_size=frame.resolution, stamp=stamp
        )
        spent = time.thread_time() - started
        if was:
            follow, followed = follow + spent, followed + 1
            losses += not localiser.is_localised
        else:
            search, slowest = search + spent, max(slowest, spent)
        if localiser.is_localised:
            error = off(compose(localiser.map_from_odom, frame.pose.as_tuple()), true)
            errors.append(error)
            first = first or (stamp, way, *error)
    if first is None:
        print(f"not found: {localiser.status.sentence}")
        return False, False
    all_errors = np.array(errors)
    distance, turn = all_errors.max(axis=0).tolist()
    print(
        f"first {first[0]:5.1f} s {first[1]:5.1f} m, off {first[2]:.3f} m {math.degrees(first[3]):.2f} deg; then "
        f"median {np.median(all_errors[:, 0]):.3f} most {distance:.3f} m {math.degrees(turn):.2f} deg, lost {losses}; "
        f"search {search:.2f} s, slowest {1000 * slowest:.0f} ms, follow {1000 * follow / max(followed, 1):.2f} ms"
    )
    is_wrong = distance > WRONG[0] or turn > WRONG[1]
    return first[2] <= GOOD[0] and first[3] <= GOOD[1] and not is_wrong, is_wrong


def quality(layers: MapLayers, name: str) -> float:
    """Return the intersection over union of obstacle cells with the truth's seen surface, within one cell."""
    occupancy, geometry = layers.occupancy_grid(), layers.geometry
    truth = make_world(name, SEED).truth_grid()
    solid = truth.occupancy >= 65
    faces = truth.geometry.world_from_cells(np.argwhere(surface(solid, truth.occupancy < 0)))
    known = geometry.world_from_cells(np.argwhere(occupancy >= 0))
    faces = faces[cKDTree(known).query(faces)[0] <= 2.0 * geometry.resolution]
    made = geometry.world_from_cells(np.argwhere(occupancy >= 65))
    blocks = truth.geometry.world_from_cells(np.argwhere(solid))
    reach = 1.5 * geometry.resolution
    right = int(np.count_nonzero(cKDTree(blocks).query(made)[0] <= reach))
    missed = int(np.count_nonzero(cKDTree(made).query(faces)[0] > reach))
    return right / (len(made) + missed)


def map_a_loop(drive: Drive, name: str, mode: DriftMode) -> str:
    """Map a drive from drifting odometry as the mapper does, loops at once; return a line of figures."""
    config, robot = MapperConfig(drift_correction=mode), RobotConfig()
    layers, whereabouts = MapLayers(config, robot), Whereabouts(config, robot)
    loops = LoopMapping.of(config, robot)
    spent = beside = slowest = 0.0
    map_from_odom = NO_CORRECTION
    stretches: list[Transform] = []  # the truth at each stretch's begin
    for sample, stamp, true in zip(drive.samples, drive.times, drive.truth, strict=True):
        frame = sample.frame(1, stamp)
        started = time.thread_time()
        map_from_odom, _ = whereabouts.place(frame, map_from_odom, layers.read)
        layers.integrate(frame, map_from_odom)
        if loops is not None:
            loops.add_frame(frame, map_from_odom)
        spent += time.thread_time() - started
        if loops is not None:
            stretches += [true] * (len(loops.loops.nodes) - len(stretches))
            started = time.thread_time()
            map_from_odom = loops.close_now(layers, map_from_odom)
            took = time.thread_time() - started
            beside, slowest = beside + took, max(slowest, took)
    layers.update_tiles(1)
    pose = compose(map_from_odom.as_tuple(), frame.pose.as_tuple())
    distance, turn = off(pose, drive.truth[-1])
    line = (
        f"end {distance:.3f} m {math.degrees(turn):.2f} deg, IoU {quality(layers, name):.3f}, "
        f"{1000 * spent / len(drive.samples):.1f} ms a frame"
    )
    if loops is None:
        return line
    found = [edge for edge in loops.loops.edges if edge.is_loop]
    wrong = sum(
        off(edge.step, compose(inverse(stretches[edge.first]), stretches[edge.second]))[0]
        > WRONG[0]
        for edge in found
    )
    return (
        f"{line}; believed {len(found)}, wrong {wrong}, refused {loops.loops.refused}, drawn anew {loops.redraws}; "
        f"beside {beside:.1f} s of {drive.times[-1]:.0f} s, longest {slowest:.1f} s; "
        f"{loops.loops.kept} frames kept, {loops.loops.memory / 1e6:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--worlds", nargs="+", choices=sorted(WORLDS), default=sorted(WORLDS))
    parser.add_argument("--starts", type=int, default=10, help="of each world")
    parser.add_argument("--duration", type=float, default=60.0, help="of a drive [s]")
    parser.add_argument("--maps", nargs="+", choices=("truth", "made"), default=("truth", "made"))
    parser.add_argument("--base", choices=("kinematic", "walking"), default="kinematic")
    parser.add_argument("--loops", action="store_true", help="drift correction instead")
    parser.add_argument(
        "--strange", nargs="+", choices=sorted(WORLDS), help="on the maps of these worlds"
    )
    parser.add_argument(
        "--loop-seeds", nargs="+", type=int, default=(1, 2), help="loops of a world"
    )
    parser.add_argument(
        "--modes", nargs="+", type=DriftMode, choices=tuple(DriftMode), default=tuple(DriftMode)
    )
    parser.add_argument("--drives", type=Path, default=Path(gettempdir()) / "rhino-drives")
    chosen = parser.parse_args()
    warm_up(with_voxels=False)
    if chosen.loops:
        for name in chosen.worlds:
            for seed in chosen.loop_seeds:
                drive = kept(
                    chosen.drives,
                    f"loop_{name}_{seed}",
                    lambda name=name, seed=seed: loop_drive(name, SEED, seed=seed),
                )
                for mode in chosen.modes:
                    line = map_a_loop(drive, name, mode)
                    print(f"{name} {seed} {mode:<8} {line}", flush=True)
        return
    if chosen.strange:
        localise_on_strange_maps(chosen)
        return
    for kind in chosen.maps:
        found = wrong = count = 0
        for name in chosen.worlds:
            grid = map_of(name, kind, chosen.drives)
            for seed in range(chosen.starts):
                print(f"{kind:<5} {name:<9} {seed:2d} ", end="")
                is_found, is_wrong = localise(start_drive(name, seed, chosen), grid)
                found, wrong, count = found + is_found, wrong + is_wrong, count + 1
        print(f"{kind}: {found} of {count} found, {wrong} with a wrong answer", flush=True)


if __name__ == "__main__":
    main()
