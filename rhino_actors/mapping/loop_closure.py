"""LoopClosure: recognises a place seen long before, and bends the whole way so that the map closes there.

The way is cut into stretches, the nodes of a graph; each keeps some frames relative to itself. What the last stretches
saw is searched for in what earlier passes saw there, each by itself, as far around as odometry may have gone off. When
one place fits, and better than any other, and the next stretch says the same, the stretches are moved so that all steps
between them bend as little as possible. The map is then drawn again from the kept frames.

`add_frame` is cheap. `begin` copies references; the `LoopSearch` that it returns works on its own and may run on
another thread while frames go on coming; `adopt` takes over what it found.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhino_actors.geometry import compose, inverse, transform_points, wrap_angle
from rhino_actors.mapping.likelihood import (
    COARSE,
    DistanceField,
    LikelihoodPyramid,
    SearchArea,
    Transform,
    refine,
    thinned,
)
from rhino_actors.mapping.occupancy import OccupancyMapper
from rhino_actors.mapping.pose_graph import Edge, bend, covariances, merged, optimised
from rhino_actors.mapping.submap import Band, obstacle_and_clear_places
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.sensors import LidarFrame, LidarKind

_UNIT = 0.001  # [m] to which kept points are rounded
_FAR = 30.0  # [m] from the robot: points beyond are drawn nearer along their beam, so that they fit into two bytes
_RECENT_NODES = 8  # that are never left out


@dataclass(frozen=True)
class LoopOptions:
    """When a place counts as seen before, and what drift is expected."""

    frame_way: float = 0.2  # [m] between two kept frames, or
    frame_turn: float = math.radians(12.0)  # [rad]
    still_time: float = (
        2.0  # [s] after which the newest frame of a robot that stands is kept instead
    )
    node_way: float = 2.0  # [m] of a stretch
    old_way: float = 15.0  # [m] driven since: nearer in time is not a loop
    recent_way: float = 6.0  # [m] of way that is searched for
    near_radius: float = 3.5  # [m] around the robot of it
    pass_nodes: int = (
        4  # stretches to either side of the nearest one of a pass that it is matched to
    )
    passes: int = 2  # matched at most, those first that the drift since leaves least sure,
    worth: tuple[float, float] = (
        0.05,
        math.radians(0.5),
    )  # deviations [m], [rad] of these at least
    uncertainty: float = 3.0  # deviations of the drift within which a place may be, and
    slack: float = 0.5  # [m] and
    spread_slack: float = math.radians(4.0)  # [rad] added to it
    max_radius: float = 6.0  # [m] of the search: when the drift may be more, nothing is believed
    max_spread: float = math.radians(45.0)  # [rad] to either side
    most_drawn: int = 150  # frames of a pass that a search draws
    min_cells: int = 80  # obstacle cells of 10 cm seen in the stretch
    min_score: float = 0.65  # as for Localiser, and so
    min_share: float = 0.75
    margin: float = 0.10  # ahead of every other place, in two stretches one after the other
    agree: tuple[float, float] = (0.25, math.radians(2.5))  # of two stretches [m], [rad]
    # Of odometry: [m] per m of way and per root of it; [rad] per root of a metre, per second, per rad turned.
    drift: tuple[float, float, float, float, float] = (
        0.010,
        0.015,
        math.radians(0.2),
        math.radians(1.0) / 60.0,
        0.01,
    )
    jump: tuple[float, float] = (
        0.5,
        2.0,
    )  # [m], [m/s]: a step longer than that is a jump of odometry
    jump_turn: float = 0.1  # [rad] that the heading may be off after one
    loop_sigma: tuple[float, float] = (0.04, math.radians(0.5))  # of a recognised place
    max_bend: float = 4.0  # deviations by which a step may be bent: more, and the loop is refused
    min_shift: tuple[float, float] = (0.05, math.radians(1.0))  # [m], [rad] worth a new drawing
    max_frames: int = 6000  # kept; beyond, those go whose place was seen again later
    max_nodes: int = 600  # beyond, old stretches are joined


class _Kept(NamedTuple):
    node: int
    node_from_base: Transform
    points: NDArray[np.int16]  # (N, 3) in the base's frame, heights above z = 0 of odom, in units
    origin: tuple[float, float, float]  # of the sensor, the same
    voxel_size: float


class Closure(NamedTuple):
    """What a search found."""

    proposals: list[Edge]  # the newest stretch, recognised in one pass or more
    edges: list[Edge] | None = None  # all that are believed now; None: it waits for a second one
    nodes: list[Transform] | None = None  # where the way lies now; None: as before
    shift: float = 0.0  # [m] that the farthest moved part of the way moved
    is_refused: bool = False  # it would bend the way too much


class LoopSearch:
    """One look for the newest stretch among the old ones, on a copy of the way. Runs beside everything else."""

    def __init__(
        self,
        options: LoopOptions,
        band: Band,
        nodes: list[Transform],
        begins: list[float],
        edges: list[Edge],
        frames: list[_Kept],
        pending: list[Edge],
    ) -> None:
        self._options = options
        self._band = band
        self.nodes = nodes
        self._begins = begins
        self.edges = edges
        self._frames = frames
        self._pending = pending

    @property
    def frame_count(self) -> int:
        return len(self._frames)

    def run(self) -> Closure | None:
        """Return what was found; None: the place is new, or not clear. Some tenths of a second."""
        proposals, edges = [], list(self.edges)
        for nearest, radius, spread in self._passes():
            moved = self._recognise(nearest, radius, spread)
            if moved is not None:
                there = compose(moved, self.nodes[-1])
                step = compose(inverse(self.nodes[nearest]), there)
                newest = len(self.nodes) - 1
                proposal = Edge(nearest, newest, step, self._options.loop_sigma, True)
                proposals.append(proposal)
                before = self._confirmed_by(proposal)
                if before is not None:
                    edges += [edge for edge in (before, proposal) if edge not in edges]
        if not proposals:
            return None
        return self._bent(proposals, edges) if len(edges) > len(self.edges) else Closure(proposals)

    def _passes(self) -> list[tuple[int, float, float]]:
        """Return the stretch nearest to the newest of each pass that is worth a look, and how far off it may be.

        As (node, distance [m], turn [rad]), those first that are least sure.
        """
        options = self._options
        newest = len(self.nodes) - 1
        here = self.nodes[newest]
        runs: list[list[int]] = []
        for index, begin in enumerate(self._begins):
            is_old = self._begins[newest] - begin >= options.old_way
            if is_old and _distance(self.nodes[index], here) <= options.max_radius:
                if runs and runs[-1][-1] == index - 1:
                    runs[-1].append(index)
                else:
                    runs.append([index])
        if not runs:
            return []
        nearest = [min(run, key=lambda k: _distance(self.nodes[k], here)) for run in runs]
        found = []
        for node, sure in zip(
            nearest, covariances(self.nodes, self.edges, nearest, newest), strict=True
        ):
            place = math.sqrt(float(np.linalg.eigvalsh(sure[:2, :2])[-1]))
            turn = math.sqrt(float(sure[2, 2]))
            if place >= options.worth[0] or turn >= options.worth[1]:
                radius = options.uncertainty * place + options.slack
                spread = options.uncertainty * turn + options.spread_slack
                if radius <= options.max_radius and spread <= options.max_spread:
                    found.append((node, radius, spread))
        found.sort(key=lambda one: -one[1])
        return found[: options.passes]

    def _confirmed_by(self, proposal: Edge) -> Edge | None:
        """Return what the stretch before said of the same pass, if it says the same."""
        nodes = self.nodes
        distance, turn = self._options.agree
        found = compose(nodes[proposal.first], proposal.step)
        for pending in self._pending:
            apart = abs(proposal.first - pending.first), proposal.second - pending.second
            if apart[0] <= self._options.pass_nodes and 0 < apart[1] <= 2:
                seen_at = compose(nodes[pending.first], pending.step)
                there = compose(
                    compose(seen_at, inverse(nodes[pending.second])), nodes[proposal.second]
                )
                turned = abs(wrap_angle(found[2] - there[2]))
                if _distance(found, there) <= distance and turned <= turn:
                    return pending
        return None

    def _bent(self, proposals: list[Edge], edges: list[Edge]) -> Closure:
        options = self._options
        moved = optimised(self.nodes, edges)
        if max(bend(moved, edge) for edge in edges) > options.max_bend:
            return Closure([], is_refused=True)
        pairs = list(zip(moved, self.nodes, strict=True))
        shift = max(_distance(a, b) for a, b in pairs)
        turn = max(abs(wrap_angle(a[2] - b[2])) for a, b in pairs)
        if shift < options.min_shift[0] and turn < options.min_shift[1]:
            return Closure(proposals, edges)
        return Closure(proposals, edges, moved, shift)

    def _recognise(self, nearest: int, radius: float, spread: float) -> Transform | None:
        """Return how the newest stretch must be moved to lie on a pass, or None when that is not clear."""
        options = self._options
        newest = len(self.nodes) - 1
        here = self.nodes[newest]
        recent, seen = [], []
        for kept in self._frames:
            if self._begins[newest] - self._begins[kept.node] <= options.recent_way:
                recent.append(kept)
            elif abs(kept.node - nearest) <= options.pass_nodes:
                seen.append(kept)
        grid = self._drawn(recent)
        ends, clear = (
            places[np.hypot(places[:, 0] - here[0], places[:, 1] - here[1]) <= options.near_radius]
            for places in obstacle_and_clear_places(grid.occupancy(), grid.geometry)
        )
        few = thinned(ends, COARSE, 400)
        if len(few) < options.min_cells or not seen:
            return None
        mapper = self._drawn(seen)
        occupancy, geometry = mapper.occupancy(), mapper.geometry
        field = DistanceField(occupancy, geometry)
        pivot = (here[0], here[1])
        candidates, is_complete = LikelihoodPyramid(
            occupancy, geometry, field, unknown_contradiction=0.0
        ).search(
            few,
            thinned(clear, 0.2, 300),
            pivot,
            area=SearchArea(here[0], here[1], 0.0, radius, spread),
            margin=options.margin,
            apart=(0.5, math.radians(10.0)),
            most=2,
        )
        if len(candidates) != 1 or not is_complete or candidates[0].score < options.min_score:
            return None
        match = refine(field, thinned(ends, 0.05, 3000), candidates[0].transform, pivot)
        if match.is_degenerate or match.share < options.min_share:
            return None
        return match.transform

    def _drawn(self, frames: Sequence[_Kept]) -> OccupancyMapper:
        mapper = self._band.mapper()
        step = -(-len(frames) // self._options.most_drawn) or 1
        for kept in frames[::step]:
            frame = _placed(kept, self.nodes)
            mapper.integrate(
                frame.points, frame.origin, pose=frame.pose, voxel_size=frame.resolution
            )
        return mapper

    def frames(self, nodes: list[Transform]) -> Iterator[LidarFrame]:
        """Give all frames kept until `begin` on a way that lies so, in the frame map, as they came."""
        return (_placed(kept, nodes) for kept in self._frames)


class LoopClosure:
    """Keeps the way and closes its loops. Not thread-safe: one caller at a time.

    Attributes:
        nodes: pose in the map of each stretch's begin.
        edges: all steps that are believed.
        closed: places recognised and believed so far.
        refused: places recognised that would have bent the way too much.
        is_full: true once nothing more can be kept; no loop is closed from then on.
    """

    def __init__(self, options: LoopOptions | None = None, band: Band | None = None) -> None:
        """Start without a way."""
        self.options = options or LoopOptions()
        self._band = band or Band()
        self.nodes: list[Transform] = []
        self._begins: list[float] = []  # [m] of way at which each node begins
        self.edges: list[Edge] = []
        self._frames: list[_Kept] = []
        self._way = 0.0
        self._jumped = 0.0  # [m] that odometry jumped since the newest node's begin
        self._turned = 0.0  # [rad] since the newest node's begin
        self._node_stamp = 0.0  # [s] of that
        self._last: Transform | None = None  # place of the newest kept frame in the map
        self._last_stamp = 0.0
        self._is_still = False  # that frame is one of a robot that stood
        self._pending: list[Edge] = []  # what the last search found
        self._searched = 0  # nodes there were at the last search
        self._search: LoopSearch | None = None
        self.closed = 0
        self.refused = 0
        self.is_full = False

    @property
    def is_due(self) -> bool:
        """True when a stretch is complete that was not searched for, and no search is under way."""
        return self._search is None and not self.is_full and len(self.nodes) > self._searched

    @property
    def kept(self) -> int:
        """Number of frames kept."""
        return len(self._frames)

    @property
    def memory(self) -> int:
        """Memory of the kept frames' points [byte]."""
        return sum(kept.points.nbytes for kept in self._frames)

    def add_frame(self, frame: LidarFrame, map_from_odom: Transform) -> None:
        """Take in a frame of odom; `map_from_odom` is where odom is believed to lie now."""
        if self.is_full:
            return
        options = self.options
        here = compose(map_from_odom, frame.pose.as_tuple())
        if self._last is None:
            self._begin_node(here, frame.stamp)
        else:
            step, turn = _distance(here, self._last), abs(wrap_angle(here[2] - self._last[2]))
            if step < options.frame_way and turn < options.frame_turn:
                if frame.stamp - self._last_stamp >= options.still_time:
                    self._keep_still(frame, here)
                return
            self._way += step
            self._turned += turn
            jump, speed = options.jump
            if step > jump + speed * (frame.stamp - self._last_stamp):
                self._jumped = step
            if self._jumped or self._way - self._begins[-1] >= options.node_way:
                self._begin_node(here, frame.stamp)
        self._last, self._last_stamp, self._is_still = here, frame.stamp, False
        self._frames.append(self._made(frame, here))
        if self._search is None and len(self._frames) > options.max_frames:
            self._thin()

    def _keep_still(self, frame: LidarFrame, here: Transform) -> None:
        """Keep the newest that a standing robot sees: who walked away is gone on the map drawn again."""
        if self._is_still:
            self._frames[-1] = self._made(frame, here)
        else:
            self._frames.append(self._made(frame, here))
        self._last_stamp, self._is_still = frame.stamp, True

    def begin(self) -> LoopSearch:
        """Return a search for the newest stretch; `adopt` or `drop` must end it before the next."""
        if self._search is not None:
            raise RuntimeError("a search is under way")
        if len(self.nodes) > self.options.max_nodes:
            self._join()
        self._searched = len(self.nodes)
        self._search = LoopSearch(
            self.options,
            self._band,
            list(self.nodes),
            list(self._begins),
            list(self.edges),
            list(self._frames),
            list(self._pending),
        )
        return self._search

    def drop(self) -> None:
        """Give up the search that is under way, if one is."""
        self._search = None

    def adopt(self, closure: Closure | None) -> Transform:
        """Take over what the search found, and return how places that the robot sees now move on the map."""
        search, self._search = self._search, None
        if search is None:
            raise RuntimeError("no search is under way")
        self._pending = [] if closure is None else closure.proposals
        if closure is None or closure.edges is None:
            self.refused += closure is not None and closure.is_refused
            return (0.0, 0.0, 0.0)
        self.closed += 1
        self.edges = [*closure.edges, *self.edges[len(search.edges) :]]
        if closure.nodes is None:
            return (0.0, 0.0, 0.0)
        moved = compose(closure.nodes[-1], inverse(search.nodes[-1]))
        later = [compose(moved, node) for node in self.nodes[len(search.nodes) :]]
        self.nodes = [*closure.nodes, *later]
        if self._last is not None:
            self._last = compose(moved, self._last)
        return moved

    def frames(self, since: int = 0) -> Iterator[LidarFrame]:
        """Give the kept frames from number `since` on, where the map has them now, in the frame map."""
        return (_placed(kept, self.nodes) for kept in self._frames[since:])

    def _begin_node(self, here: Transform, stamp: float) -> None:
        if self.nodes:
            step = compose(inverse(self.nodes[-1]), here)
            last = len(self.nodes) - 1
            sigma = self._drift(self._way - self._begins[-1], stamp - self._node_stamp)
            self.edges.append(Edge(last, last + 1, step, sigma))
        self.nodes.append(here)
        self._begins.append(self._way)
        self._turned, self._node_stamp, self._jumped = 0.0, stamp, 0.0

    def _drift(self, way: float, duration: float) -> tuple[float, float]:
        """Return the deviation of odometry over a stretch [m], [rad]."""
        scale, walk, yaw_walk, bias, yaw_scale = self.options.drift
        place = math.hypot(scale * way, walk * math.sqrt(way), 0.005)
        turn = math.hypot(
            yaw_walk * math.sqrt(way), bias * max(0.0, duration), yaw_scale * self._turned
        )
        if self._jumped:
            return math.hypot(place, self._jumped), math.hypot(turn, self.options.jump_turn)
        return place, turn

    def _made(self, frame: LidarFrame, here: Transform) -> _Kept:
        base_from_odom = inverse(frame.pose.as_tuple())
        cloud = np.asarray(frame.points, np.float64)
        local = transform_points(base_from_odom, cloud[np.isfinite(cloud).all(axis=1)])
        ((x, y),) = transform_points(base_from_odom, [frame.origin[:2]]).tolist()
        origin = (x, y, frame.origin[2])
        away = local - origin
        length = np.sqrt((away**2).sum(axis=1))
        is_far = length > _FAR
        local[is_far] = origin + away[is_far] * (_FAR / length[is_far])[:, None]
        return _Kept(
            len(self.nodes) - 1,
            compose(inverse(self.nodes[-1]), here),
            np.rint(local / _UNIT).astype(np.int16),
            origin,
            frame.resolution if frame.kind is LidarKind.VOXEL else 0.0,
        )

    def _thin(self) -> None:
        """Let frames go whose place and heading was seen again later, most often seen first.

        What was seen of late displaces nothing: the loop to what it would displace may not be closed yet.
        """
        cells: list[tuple[int, int, int] | None] = []
        for kept in self._frames:
            x, y, yaw = compose(self.nodes[kept.node], kept.node_from_base)
            is_late = self._way - self._begins[kept.node] < self.options.old_way
            place = (math.floor(2.0 * x), math.floor(2.0 * y), round(8.0 * yaw / math.tau) % 8)
            cells.append(None if is_late else place)
        late = cells.count(None)
        sizes = np.array([0, *Counter(cell for cell in cells if cell is not None).values()])
        target = self.options.max_frames * 3 // 4
        most = int(sizes.max())
        while most > 1 and late + int(np.minimum(sizes, most).sum()) > target:
            most -= 1
        count: Counter[tuple[int, int, int]] = Counter()
        left = []
        for kept, cell in zip(reversed(self._frames), reversed(cells), strict=True):
            if cell is not None:
                count[cell] += 1
            if cell is None or count[cell] <= most:
                left.append(kept)
        self._frames = left[::-1]
        self.is_full = len(self._frames) > self.options.max_frames

    def _join(self) -> None:
        """Join stretches without frames to those before them, and if that is not enough every other old one."""
        count = len(self.nodes)
        held = {kept.node for kept in self._frames} | {0} | set(range(count - _RECENT_NODES, count))
        keep = sorted(held)
        if len(keep) > self.options.max_nodes * 3 // 4:
            old = keep[:-_RECENT_NODES]
            keep = [*old[::2], *keep[-_RECENT_NODES:]]
        before = self.nodes
        self.nodes, self.edges, owner = merged(before, self.edges, keep)
        self._begins = [self._begins[index] for index in keep]
        self._frames = [
            kept._replace(
                node=owner[kept.node],
                node_from_base=compose(
                    inverse(self.nodes[owner[kept.node]]),
                    compose(before[kept.node], kept.node_from_base),
                ),
            )
            for kept in self._frames
        ]
        self._pending = []


def _placed(kept: _Kept, nodes: list[Transform]) -> LidarFrame:
    map_from_base = compose(nodes[kept.node], kept.node_from_base)
    ((x, y),) = transform_points(map_from_base, [kept.origin[:2]]).tolist()
    return LidarFrame(
        seq=0,
        stamp=0.0,
        points=transform_points(map_from_base, kept.points * _UNIT).astype(np.float32),
        origin=(x, y, kept.origin[2]),
        pose=Pose2D(*map_from_base),
        resolution=kept.voxel_size,
        kind=LidarKind.VOXEL if kept.voxel_size > 0.0 else LidarKind.SCAN,
    )


def _distance(a: Transform, b: Transform) -> float:
    return math.hypot(a[0] - b[0], a[1] - b[1])
