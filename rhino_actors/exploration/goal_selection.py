"""Chooses what to look at next, and from where: the new floor in sight against the way, over the next few targets."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import ExplorerConfig
from rhino_actors.exploration import frontier, tour, travel, views
from rhino_actors.exploration.attempts import Attempts
from rhino_actors.exploration.frontier import Cell, FrontierMap
from rhino_actors.exploration.travel import CoarseTravel
from rhino_actors.messages.grid import MapSnapshot

_Number = TypeVar("_Number", bound=np.generic)

PART_M = 0.8  # a frontier is cut into parts that reach this far from their first cell
NEAREST_LOOK_M = 0.35  # rings of places around a part: from here
LOOK_SHARE = 0.7  # to this share of the sensor's range
AIM_REACH_M = 0.4  # a part this near to where the target's frontier was is still it
BATCH = 40  # parts, the nearest first, of which the new floor is computed at a time
THROUGH_UNKNOWN_M = 5.0  # what a way over floor never seen counts more
TURN_M = 1.0  # what turning round counts: it takes as long as driving so far
SWITCH_SHARE = 0.1  # of an order's cost: another must be this much shorter to leave the target
CLOSED_M2 = 1.0  # known floor behind a closed way, from which on the way is missed
MOST_CLOSED = 12  # parts behind closed ways for which a lookout is searched
LOOKOUT_REACH_M = 1.0  # lookouts so near to each other are of the same closed way


class SkipReason(StrEnum):
    """Why a frontier is not a target."""

    NO_SAFE_CELL = "NO_SAFE_CELL"  # it is in view of no floor that the robot fits on
    UNREACHABLE = "UNREACHABLE"  # of such floor, but no way leads or led there: a gap, glass
    TOO_SMALL = "TOO_SMALL"  # too little can be behind it
    STAYS_UNSEEN = "STAYS_UNSEEN"  # the robot looked from the best places, and it is still there
    WAY_CLOSED = "WAY_CLOSED"  # a way led there in this mission, and none does now
    GAVE_UP = "GAVE_UP"  # the robot was sent and did not get there


BLOCKING = frozenset(
    {SkipReason.WAY_CLOSED, SkipReason.GAVE_UP}
)  # the end is `blocked`, not `complete`


@dataclass(frozen=True, slots=True)
class Options:
    """What a choice depends on beside the map."""

    config: ExplorerConfig
    inscribed_radius: float  # [m]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A part of a frontier, and a place to see it from."""

    part: int
    at: Cell  # of the part
    place: Cell  # to stand on
    cost: float  # [m] of the way there
    gain: float  # [m2] unknown in sight from there


@dataclass(frozen=True, slots=True)
class Lookout:
    """A place in front of what closed a way: from there it is seen whether the way is open again."""

    place: Cell
    cost: float  # [m] of the way there


@dataclass(frozen=True, slots=True)
class Picked:
    """What was chosen, and what there was to choose from."""

    at: NDArray[np.int32]  # (P, 2) row, col of the frontiers' parts
    sizes: NDArray[np.int32]  # (P,) cells
    skipped: list[tuple[int, SkipReason]]  # part, why
    best: Candidate | None
    is_aim: bool  # best is for the frontier of the target in force
    waits: bool  # nothing to go to now, but something to try again later
    tour: float  # [m] of the order that was planned
    gain_left: float  # [m2] unknown in sight from all targets
    lookouts: list[Lookout]  # on closed ways, the nearest first; none while there is a target
    costs: NDArray[np.float32]  # [cells] or, by blocks, [m]
    unit: tuple[int, float]  # cells of a block of `costs`, and metres of its unit

    def cost_of(self, cell: Cell) -> float:
        """Return the cost [m] of the way to a cell; inf outside."""
        row, col = cell[0] // self.unit[0], cell[1] // self.unit[0]
        if not (0 <= row < self.costs.shape[0] and 0 <= col < self.costs.shape[1]):
            return math.inf
        return float(self.costs[row, col]) * self.unit[1]


def pick(
    snapshot: MapSnapshot,
    frontiers: FrontierMap,
    ways: CoarseTravel,
    coarse: NDArray[np.float32],
    exact: NDArray[np.float32] | None,
    options: Options,
    *,
    pose: tuple[float, float, float],
    inside: NDArray[np.bool_],
    ways_back: NDArray[np.int8],
    led: NDArray[np.bool_],
    room: NDArray[np.bool_],
    attempts: Attempts,
    now: float,
    aim: tuple[float, float] | None,
) -> Picked:
    """Choose on a map.

    Args:
        snapshot: the map.
        frontiers: of the map.
        ways: of the map.
        coarse: its field from the robot.
        exact: (rows, cols) float32, the planner's field from the robot; None: coarse serves.
        options: see there.
        pose: x, y [m], yaw [rad] of the robot.
        inside: (rows, cols) where frontiers and targets may lie; (0, 0): everywhere.
        ways_back: of `travel.note_ways`: how the ways went that led anywhere at some time.
        led: blocks to which one leads now.
        room: (rows, cols), of `Room.reachable`: unknown floor elsewhere is not worth seeing.
        attempts: what was tried in vain.
        now: [s] monotonic.
        aim: x, y [m] of the frontier that the target in force is for.
    """
    config, geometry = options.config, snapshot.geometry
    resolution = geometry.resolution
    occupancy, costmap = _read_only(snapshot.occupancy), _read_only(snapshot.costmap)
    field = _read_only(np.empty((0, 0), np.float32) if exact is None else exact)
    unit = (ways.block, 1.0) if exact is None else (1, resolution)
    cells, ends = frontiers.grouped(min_cells=max(1, round(config.min_frontier_size / resolution)))
    at, sizes, _ = views.parts(cells, ends, PART_M / resolution)
    if inside.size:
        kept = inside[at[:, 0], at[:, 1]]
        at, sizes = np.ascontiguousarray(at[kept]), sizes[kept]
    look = max(NEAREST_LOOK_M + 0.1, LOOK_SHARE * config.sensor_range)
    places, costs = views.standing_places(
        at,
        occupancy,
        costmap,
        field,
        coarse,
        ways.block,
        resolution,
        views.rings(resolution, NEAREST_LOOK_M, look),
        inside,
        attempts.avoided(geometry),
    )
    levels = costs[:, -1].astype(int)
    costs = (
        costs[:, :-1] + np.where(levels == views.THROUGH_UNKNOWN, THROUGH_UNKNOWN_M, 0.0)[:, None]
    )
    skipped, open_parts, resting, closed = [], [], [], []
    world = geometry.world_from_cells(at)
    for i, level in enumerate(levels.tolist()):
        if level == views.NO_FLOOR:
            tried = attempts.state((world[i, 0], world[i, 1]), now)[0] if len(attempts) else False
            reason = SkipReason.STAYS_UNSEEN if tried else SkipReason.NO_SAFE_CELL
            skipped.append((i, reason))
        elif level == views.CUT_OFF:
            stands = places[i][places[i, :, 0] >= 0]
            stands = stands[ways_back[stands[:, 0] // ways.block, stands[:, 1] // ways.block] > 0]
            if any(ways.area_around(stand) >= CLOSED_M2 for stand in stands):
                skipped.append((i, SkipReason.WAY_CLOSED))
                closed.append(stands)
            else:
                skipped.append((i, SkipReason.UNREACHABLE))
        else:
            left, again, why = (
                attempts.state((world[i, 0], world[i, 1]), now)
                if len(attempts)
                else (False, False, "")
            )
            if left:
                skipped.append((i, SkipReason.GAVE_UP if why else SkipReason.STAYS_UNSEEN))
                if again:
                    resting.append(i)
            else:
                open_parts.append(i)
    reach = config.sensor_range / resolution

    def candidates(of: list[int], enough: int) -> list[Candidate]:
        """Return those of some parts that promise enough, and note the others as too small."""
        of = sorted(of, key=costs.min(axis=1).tolist().__getitem__)
        found: list[Candidate] = []
        for begin in range(0, len(of), BATCH):
            batch = of[begin : begin + BATCH]
            gains = views.seen_area(
                np.ascontiguousarray(places[batch].reshape(-1, 2)),
                occupancy,
                inside,
                reach,
                room,
            ).reshape(len(batch), -1)
            gains *= resolution * resolution
            most = gains.max(axis=1)
            good = gains >= views.GOOD_SHARE * most[:, None]
            chosen = np.argmin(np.where(good, costs[batch], np.inf), axis=1)
            for k, (i, ring) in enumerate(zip(batch, chosen.tolist(), strict=True)):
                if most[k] < config.min_gain:
                    skipped.append((i, SkipReason.TOO_SMALL))
                    continue
                row, col = places[i, ring].tolist()
                found.append(
                    Candidate(
                        i,
                        (int(at[i, 0]), int(at[i, 1])),
                        (row, col),
                        float(costs[i, ring]),
                        float(gains[k, ring]),
                    )
                )
            if len(found) >= enough:
                break
        return found

    found = candidates(open_parts, config.look_ahead)
    waits = False
    if not found and resting:
        rested = [i for i in resting if attempts.is_rested((world[i, 0], world[i, 1]), now)]
        before = len(skipped)
        found = candidates(rested, config.look_ahead)
        del skipped[before:]
        if found:
            chosen = {c.part for c in found}
            skipped = [s for s in skipped if s[0] not in chosen]
        waits = not found
    aimed = _aimed(found, world, aim)
    few = _spread(found, aimed, at, occupancy, look / resolution, config.look_ahead)
    best, is_aim, length = _first(few, aimed, ways, pose, snapshot, config)
    travel_costs = coarse if exact is None else exact
    lookouts = []
    if best is None and not waits:
        lookouts = _lookouts(closed, ways, ways_back, led, costmap, travel_costs, unit)
    return Picked(
        at,
        sizes,
        skipped,
        best,
        is_aim,
        waits,
        length,
        sum(c.gain for c in few),
        lookouts,
        travel_costs,
        unit,
    )


def warm_up() -> None:
    """Compile, or load, the kernels of explorations."""
    for module in (frontier, travel, views, tour):
        module.warm_up()


def _aimed(
    found: list[Candidate], world: NDArray[np.float64], aim: tuple[float, float] | None
) -> Candidate | None:
    """Return the candidate for the frontier of the target in force, if it is still there."""
    if aim is None or not found:
        return None
    away = [math.dist(world[c.part], aim) for c in found]
    nearest = int(np.argmin(away))
    return found[nearest] if away[nearest] <= PART_M + AIM_REACH_M else None


def _spread(
    found: list[Candidate],
    aimed: Candidate | None,
    at: NDArray[np.int32],
    occupancy: NDArray[np.int8],
    reach: float,
    most: int,
) -> list[Candidate]:
    """Return the nearest candidates, the target in force first, without those that one before them shows as well."""
    order = sorted(found, key=lambda c: c.cost)
    if aimed is not None:
        order = [aimed, *(c for c in order if c is not aimed)]
    few: list[Candidate] = []
    shown = np.zeros(len(at), np.bool_)
    for candidate in order:
        if shown[candidate.part]:
            continue
        few.append(candidate)
        if len(few) == most:
            break
        shown |= views.sees(occupancy, np.array(candidate.place), at, reach)
    return few


def _first(
    few: list[Candidate],
    aimed: Candidate | None,
    ways: CoarseTravel,
    pose: tuple[float, float, float],
    snapshot: MapSnapshot,
    config: ExplorerConfig,
) -> tuple[Candidate | None, bool, float]:
    """Return the candidate that the best order begins with, whether it is the target in force, and the order's cost."""
    if not few:
        return None, False, 0.0
    between = ways.between(np.array([c.place for c in few], np.int32))
    known = np.isfinite(between)
    far = float(between[known].max(initial=0.0)) + 10.0
    between = np.where(known, between, far)
    first = np.array([c.cost + TURN_M * _turn(c, pose, snapshot) for c in few])
    leaving = config.leave_weight * np.sqrt([c.gain for c in few])
    totals = tour.tour_costs(first, between, leaving)
    best = int(np.argmin(totals))
    if aimed is not None:
        index = next(i for i, c in enumerate(few) if c is aimed)
        # The estimates of a long order waver more than those of a short one.
        if totals[index] - totals[best] <= max(config.switch_gain, SWITCH_SHARE * totals[best]):
            best = index
    return few[best], few[best] is aimed, float(totals[best])


def _lookouts(
    closed: list[NDArray[np.int32]],
    ways: CoarseTravel,
    ways_back: NDArray[np.int8],
    led: NDArray[np.bool_],
    costmap: NDArray[np.uint8],
    costs: NDArray[np.float32],
    unit: tuple[int, float],
) -> list[Lookout]:
    """Return where the ways that once led to some places, (K, 2) each, end now; the nearest first."""
    found: list[Lookout] = []
    block = ways.block
    for stands in closed[:MOST_CLOSED]:
        ends = (
            travel.way_end((int(row), int(col)), led, ways_back) for row, col in stands // block
        )
        at = next((end for end in ends if end is not None), None)
        if at is None:
            continue
        window = costmap[at[0] * block : (at[0] + 1) * block, at[1] * block : (at[1] + 1) * block]
        rows, cols = np.indices(window.shape).reshape(2, -1) + np.multiply(at, block)[:, None]
        away = costs[rows // unit[0], cols // unit[0]] * unit[1]
        best = int(np.argmin(np.where(np.isfinite(away), window.ravel(), 255)))
        place, cost = (int(rows[best]), int(cols[best])), float(away[best])
        near = LOOKOUT_REACH_M / ways.edge * block
        if math.isfinite(cost) and all(math.dist(place, o.place) > near for o in found):
            found.append(Lookout(place, cost))
    return sorted(found, key=lambda lookout: lookout.cost)


def _turn(candidate: Candidate, pose: tuple[float, float, float], snapshot: MapSnapshot) -> float:
    """Return how far the robot would have to turn to face a place, 0..1 of a half turn."""
    x, y = snapshot.geometry.world_from_cell(*candidate.place)
    if math.dist((x, y), pose[:2]) < 0.5:
        return 0.0
    away = math.atan2(y - pose[1], x - pose[0]) - pose[2]
    return abs(math.remainder(away, 2 * math.pi)) / math.pi


def _read_only(array: NDArray[_Number]) -> NDArray[_Number]:
    """Return a read-only contiguous view or copy: the one kind of array that the kernels are compiled for."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
