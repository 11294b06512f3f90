"""Localiser: where odom lies in a saved map, found from lidar frames and kept while the robot drives.

Without a place it searches the whole map with what was seen of late and believes an answer only if no other place fits
nearly as well. With one, each frame corrects it a little. It moves map -> odom alone: the robot's odometry, and what
controls the robot by it, never sees a jump.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rhino_actors.geometry import compose, inverse, transform_points, wrap_angle
from rhino_actors.mapping import likelihood
from rhino_actors.mapping.likelihood import (
    EVERYWHERE,
    DistanceField,
    LikelihoodPyramid,
    SearchArea,
    Transform,
    refine,
    thinned,
)
from rhino_actors.mapping.submap import Band, RecentGrid, obstacle_ends
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import UNKNOWN, GridGeometry
from rhino_actors.messages.localisation import LocalisationState, LocalisationStatus


@dataclass(frozen=True)
class LocaliserOptions:
    """How sure it must be, and how fast it moves. Scores are 1 when all that was seen fits the map."""

    min_score: float = 0.65  # of a place that is believed
    min_share: float = 0.70  # of the obstacles seen that lie on the map's
    clear_margin: float = 0.25  # ahead of every other place: believed at once
    margin: float = (
        0.12  # ahead of every other place, twice in a row with new evidence between: believed,
    )
    narrow_score: float = 0.80  # if it fits this well
    min_cells: int = 80  # obstacle cells of 10 cm seen before a search makes sense
    retry_way: float = 1.0  # [m] between two searches, or
    retry_turn: float = math.radians(60.0)  # [rad] or
    retry_time: float = 3.0  # [s]
    agree: tuple[float, float] = (0.35, math.radians(6.0))  # of two answers [m], [rad]
    guess_radius: float = 2.0  # [m] around a rough pose that is searched first
    guess_spread: float = math.radians(45.0)  # [rad] to either side of it
    guess_searches: int = 3  # in vain before the whole map is searched
    blend: float = 0.3  # part of a frame's correction that is taken over
    max_step: tuple[float, float] = (0.05, math.radians(1.0))  # per frame [m], [rad]
    gate: tuple[float, float] = (0.35, math.radians(8.0))  # corrections beyond are not believed
    min_ends: int = 25  # obstacle points of a frame on known cells that make evidence
    lost_share: float = 0.45  # running share of points that fit, below which it is lost
    share_rate: float = 0.05  # weight of a frame in the running share
    blind_way: float = 20.0  # [m] without evidence after which it is lost


class Localiser:
    """Finds and keeps map_from_odom on one saved map. Not thread-safe: one caller at a time.

    Attributes:
        status: state, share of points that fit, and a sentence for people.
        map_from_odom: where odom lies in the map; meaningful when localised, else the last that was believed.
    """

    def __init__(
        self,
        occupancy: NDArray[np.int8],
        geometry: GridGeometry,
        *,
        guess: Pose2D | None = None,
        options: LocaliserOptions | None = None,
        band: Band | None = None,
    ) -> None:
        """Prepare a map.

        Args:
            occupancy: (rows, cols) int8, -1 unknown, 0..100. Not changed, not kept.
            geometry: where it lies in the frame map.
            guess: rough pose of the robot in the map, looked at first; None: it may be anywhere.
            options: see there.
            band: what counts as an obstacle.

        Raises:
            ValueError: the map is too large to search.
        """
        likelihood.check_searchable(geometry)  # before anything of the map's size is allocated
        self._options = options or LocaliserOptions()
        self._field = DistanceField(occupancy, geometry)
        self._pyramid = LikelihoodPyramid(occupancy, geometry, self._field)
        self._known = np.asarray(occupancy != UNKNOWN)
        self._band = band or Band()
        self._recent = RecentGrid(self._band)
        self._guess = (
            guess  # until the next frame, whose pose it is of; from there on odometry carries it
        )
        self._guess_from_odom: Transform | None = None
        self._searches = 0  # in vain, since the guess or the loss
        self._searched_at: tuple[Pose2D, float] | None = None
        self._pending: tuple[Transform, Pose2D] | None = None  # an answer that waits for a second
        self._share = 0.0
        self._blind = 0.0
        self._last: Pose2D | None = None
        self.map_from_odom: Transform = (0.0, 0.0, 0.0)
        self.status = LocalisationStatus(
            LocalisationState.SEARCHING, 0.0, "Not localised: nothing seen yet."
        )

    @property
    def is_localised(self) -> bool:
        return self.status.state is LocalisationState.LOCALISED

    def suggest(self, pose: Pose2D) -> None:
        """Say roughly where in the map the robot stands now: looked at first, while it searches."""
        self._guess, self._searches = pose, 0

    def add_frame(
        self,
        points: ArrayLike,
        origin: tuple[float, float, float],
        pose: Pose2D,
        *,
        voxel_size: float = 0.0,
        stamp: float,
    ) -> LocalisationStatus:
        """Take in a frame and say where that leaves the robot.

        While it searches a call may take some tenths of a second, else about a millisecond.

        Args:
            points: (N, 3) beam ends or voxel centres in odom [m].
            origin: of the sensor in odom [m].
            pose: of the robot in odom.
            voxel_size: edge [m] of the voxels that the points stand for; 0 for beam ends.
            stamp: of the frame [s].
        """
        if self._guess is not None:
            self._guess_from_odom = compose(self._guess.as_tuple(), inverse(pose.as_tuple()))
            self._guess = None
        ends = obstacle_ends(points, pose, self._band)
        if self.is_localised:
            self._track(thinned(ends, 0.05, 500), pose)
        if not self.is_localised:
            # Followed too: the next search needs the last stretch of way.
            self._recent.add(points, origin, pose, voxel_size=voxel_size, stamp=stamp)
            if self._is_due(pose, stamp):
                self._searched_at = (pose, stamp)
                self._search(ends, pose)
        self._last = pose
        return self.status

    def _is_due(self, pose: Pose2D, stamp: float) -> bool:
        if self._searched_at is None:
            self._searched_at = (pose, stamp)
            return False
        options, (there, then) = self._options, self._searched_at
        return (
            there.distance_to(pose.x, pose.y) >= options.retry_way
            or abs(wrap_angle(pose.yaw - there.yaw)) >= options.retry_turn
            or stamp - then >= options.retry_time
        )

    def _search(self, frame_ends: NDArray[np.float64], pose: Pose2D) -> None:
        options = self._options
        all_ends, all_clear = self._recent.places()
        ends, clear = thinned(all_ends, likelihood.COARSE, 500), thinned(all_clear, 0.2, 400)
        if len(ends) < options.min_cells:
            self._pending = None
            self._not_found(0.0, "too little was seen; drive or turn the robot.")
            return
        pivot = (pose.x, pose.y)
        candidates, is_complete = self._pyramid.search(
            ends, clear, pivot, area=self._area(pose), margin=options.clear_margin, most=2
        )
        self._searches += 1
        if not candidates or not is_complete:
            self._pending = None
            self._not_found(0.0, "no place of the map fits." if is_complete else "too many do.")
            return
        match = refine(self._field, thinned(all_ends, 0.05, 3000), candidates[0].transform, pivot)
        best = candidates[0].score
        lead = best - candidates[1].score if len(candidates) > 1 else math.inf
        if best < options.min_score or match.share < options.min_share:
            self._pending = None
            self._not_found(match.share, "no place of the map fits what is seen.")
        elif match.is_degenerate or lead < options.margin:
            self._pending = None
            self._not_found(match.share, "several places fit what is seen; drive the robot on.")
        elif lead >= options.clear_margin or (
            best >= options.narrow_score and self._confirms(match.transform, pose)
        ):
            self._accept(match.transform, frame_ends, pose)
        else:
            if self._pending is None or not self._agrees(match.transform, pose):
                self._pending = (match.transform, pose)
            self._not_found(match.share, "one place fits best; drive on to confirm it.")

    def _area(self, pose: Pose2D) -> SearchArea:
        options = self._options
        guess = self._guess_from_odom
        if guess is None or self._searches >= options.guess_searches:
            return EVERYWHERE
        x, y, _ = compose(guess, pose.as_tuple())
        return SearchArea(x, y, guess[2], options.guess_radius, options.guess_spread)

    def _confirms(self, found: Transform, pose: Pose2D) -> bool:
        """Tell whether an answer agrees with an earlier one that rests on other evidence."""
        if self._pending is None or not self._agrees(found, pose):
            return False
        there = self._pending[1]
        moved = there.distance_to(pose.x, pose.y) >= self._options.retry_way
        return moved or abs(wrap_angle(pose.yaw - there.yaw)) >= self._options.retry_turn

    def _agrees(self, found: Transform, pose: Pose2D) -> bool:
        assert self._pending is not None
        a = compose(found, pose.as_tuple())
        b = compose(self._pending[0], pose.as_tuple())
        return _is_within(_difference(a, b), self._options.agree)

    def _accept(self, found: Transform, frame_ends: NDArray[np.float64], pose: Pose2D) -> None:
        # The stretch fixes the place; where the robot is now is best told by the newest frame.
        newest = refine(
            self._field, thinned(frame_ends, 0.05, 500), found, (pose.x, pose.y), prior=(1.0, 1.0)
        )
        moved = _difference(
            compose(newest.transform, pose.as_tuple()), compose(found, pose.as_tuple())
        )
        if _is_within(moved, self._options.gate) and len(frame_ends) >= self._options.min_ends:
            found = newest.transform
        self.map_from_odom = found
        self._share = max(newest.share, self._options.min_share)
        self._blind = 0.0
        self._pending, self._searched_at, self._searches = None, None, 0
        self._guess_from_odom = None
        self._recent.clear()
        self.status = LocalisationStatus(
            LocalisationState.LOCALISED, self._share, "The robot knows its place in the map."
        )

    def _not_found(self, share: float, why: str) -> None:
        state = self.status.state
        self.status = LocalisationStatus(state, share, f"Not localised: {why}")

    def _track(self, ends: NDArray[np.float64], pose: Pose2D) -> None:
        options = self._options
        if self._last is not None:
            self._blind += self._last.distance_to(pose.x, pose.y)
        placed = transform_points(self.map_from_odom, ends)
        is_known = self._is_known(placed)
        if np.count_nonzero(is_known) >= options.min_ends:
            self._blind = 0.0
            # Judged where the robot is believed to be: a refined place may fit by chance and not be taken.
            share = float(np.mean(self._field.at(placed[is_known]) <= likelihood.SIGMA))
            self._share += options.share_rate * (share - self._share)
            match = refine(
                self._field,
                ends[is_known],
                self.map_from_odom,
                (pose.x, pose.y),
                prior=(0.05, 0.05),
                rounds=6,
            )
            self._move(match.transform, pose)
        if self._share < options.lost_share:
            self._lose("what the lidar sees does not fit the map here.")
        elif self._blind > options.blind_way:
            self._lose(f"nothing of the map was seen for {options.blind_way:g} m.")
        else:
            self.status = LocalisationStatus(
                LocalisationState.LOCALISED, self._share, "The robot knows its place in the map."
            )

    def _move(self, found: Transform, pose: Pose2D) -> None:
        """Let the robot's place in the map go a part of the way to where a frame has it."""
        options = self._options
        here = compose(self.map_from_odom, pose.as_tuple())
        there = compose(found, pose.as_tuple())
        distance, turn = _difference(there, here)
        if not _is_within((distance, turn), options.gate):
            return
        part = min(options.blend, options.max_step[0] / max(distance, 1e-9))
        turned = max(-options.max_step[1], min(options.max_step[1], options.blend * turn))
        moved = (
            here[0] + part * (there[0] - here[0]),
            here[1] + part * (there[1] - here[1]),
            wrap_angle(here[2] + turned),
        )
        self.map_from_odom = compose(moved, inverse(pose.as_tuple()))

    def _lose(self, why: str) -> None:
        self._recent.clear()
        self._pending, self._searched_at, self._searches = None, None, 0
        self.status = LocalisationStatus(LocalisationState.LOST, self._share, f"Lost: {why}")

    def _is_known(self, places: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Tell which places (N, 2) in the map lie on cells that the map knows."""
        cells = self._field.geometry.cells_from_world(places)
        rows, cols = self._known.shape
        inside = (
            (cells[:, 0] >= 0) & (cells[:, 0] < rows) & (cells[:, 1] >= 0) & (cells[:, 1] < cols)
        )
        known = np.zeros(len(cells), np.bool_)
        known[inside] = self._known[cells[inside, 0], cells[inside, 1]]
        return known


def warm_up() -> None:
    """Compile the kernels, or load them from numba's cache."""
    likelihood.warm_up()


def _difference(a: Transform, b: Transform) -> tuple[float, float]:
    """Return the distance [m] and the signed turn [rad] from pose b to pose a."""
    return math.hypot(a[0] - b[0], a[1] - b[1]), wrap_angle(a[2] - b[2])


def _is_within(difference: tuple[float, float], bound: tuple[float, float]) -> bool:
    return difference[0] <= bound[0] and abs(difference[1]) <= bound[1]
