"""What a mission did, as one picture. Pure: numpy and OpenCV."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import GridGeometry, MapSnapshot
from rhino_actors.messages.missions import MissionGoal, MissionRecord, Visits

_LONG_SIDE = 1200  # [px] of the picture, about
_MAX_SCALE = 8  # [px] per cell
_MARGIN = 12  # [px]
_HEAD = 30  # [px] for the line of text

_FAR = 30_000  # [px] OpenCV takes no coordinates of any size

# BGR
_UNKNOWN, _FREE, _OCCUPIED = (205, 205, 205), (254, 254, 254), (40, 40, 40)
_TRACE, _HOME, _END = (222, 110, 30), (60, 150, 40), (30, 30, 200)
_REACHED, _FAILED, _SKIPPED, _AREA = (60, 150, 40), (30, 30, 200), (0, 140, 255), (180, 60, 160)
# A patrol's visits: just now, half of the expiry ago, expired.
_FRESH, _MIDDLE, _STALE = (154, 166, 38), (79, 213, 255), (21, 67, 216)
_VISITS_SHARE = 0.78  # of their colour over the floor's
_LEGEND = 40  # [px]
_LEGEND_WIDTH = 230


def draw_mission(
    snapshot: MapSnapshot | None,
    record: MissionRecord,
    trace: NDArray[np.float64],
    *,
    home: Pose2D | None = None,
    area: Sequence[tuple[float, float]] = (),
    visits: Visits | None = None,
) -> bytes:
    """Return a PNG: the map as it was known, the way driven, goals, and what was left.

    Floor that a patrol visited is green where it just was, over yellow to red where the visit has expired.

    Reached goals are green rings, failed ones red, what was skipped is an orange cross, the start a green square, the
    end a red dot, the area's outline purple.

    Args:
        snapshot: the newest map; None: there was none.
        record: of the mission; its goals and skipped targets are in the map.
        trace: (N, 2) x, y [m] in the map, broken where a row is NaN.
        home: where it started, in the map.
        area: corners x, y [m] of the area that it kept to.
        visits: of a patrol, on the snapshot's grid; None: none are kept.
    """
    if snapshot is None or snapshot.is_empty:
        image = np.full((120, 640, 3), _UNKNOWN, np.uint8)
        return _png(_with_head(image, record))
    view = _View.of(snapshot, trace)
    floor = _floor(snapshot)
    if visits is not None:
        floor = _with_visits(floor, visits.age)
    image = view.enlarge(floor[view.rows, view.cols])
    if len(area) >= 3:
        corners = np.array([view.pixel(x, y) for x, y in area], np.int32)
        cv2.polylines(image, [corners], True, _AREA, 2, cv2.LINE_AA)
    for start, end in _segments(trace):
        cv2.line(image, view.pixel(*start), view.pixel(*end), _TRACE, 2, cv2.LINE_AA)
    for item in record.skipped:
        cv2.drawMarker(image, view.pixel(item.x, item.y), _SKIPPED, cv2.MARKER_TILTED_CROSS, 12, 2)
    for goal in record.goals:
        _mark_goal(image, view, goal)
    if home is not None:
        x, y = view.pixel(home.x, home.y)
        cv2.rectangle(image, (x - 6, y - 6), (x + 6, y + 6), _HOME, 2)
    points = trace[np.isfinite(trace).all(axis=1)]
    if len(points):
        cv2.circle(image, view.pixel(*points[-1]), 5, _END, -1, cv2.LINE_AA)
    framed = _with_head(image, record)
    if visits is not None:
        framed = np.vstack([framed, _legend(framed.shape[1], visits.expiry)])
    return _png(framed)


@dataclass(frozen=True)
class _View:
    """The part of the map that is drawn, and where its points lie in the picture."""

    geometry: GridGeometry
    rows: slice
    cols: slice
    scale: float  # [px] per cell

    @classmethod
    def of(cls, snapshot: MapSnapshot, trace: NDArray[np.float64]) -> "_View":
        """Return a view of what is known and of the way driven."""
        geometry = snapshot.geometry
        known = snapshot.occupancy >= 0
        rows, cols = (np.flatnonzero(known.any(axis=axis)) for axis in (1, 0))
        cells = [_cell((float(x), float(y)), geometry) for x, y in trace if math.isfinite(x + y)]
        spans = []
        for found, index, size in ((rows, 1, geometry.shape[0]), (cols, 0, geometry.shape[1])):
            places = [*found[:1].tolist(), *found[-1:].tolist(), *(int(c[index]) for c in cells)]
            low, high = (min(places), max(places)) if places else (0, size - 1)
            spans.append(slice(max(0, low - 4), min(size, high + 5)))
        longest = max(span.stop - span.start for span in spans)
        scale = min(float(_MAX_SCALE), _LONG_SIDE / longest)
        return cls(geometry, spans[0], spans[1], scale if scale < 1.0 else float(int(scale)))

    def enlarge(self, cells: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the view's cells as pixels, the highest y first."""
        rows, cols = cells.shape[:2]
        size = max(1, round(cols * self.scale)), max(1, round(rows * self.scale))
        how = cv2.INTER_NEAREST if self.scale >= 1.0 else cv2.INTER_AREA
        flipped = np.ascontiguousarray(np.flipud(cells))
        return np.asarray(cv2.resize(flipped, size, interpolation=how), np.uint8)

    def pixel(self, x: float, y: float) -> tuple[int, int]:
        """Return where a point of the map lies in the picture."""
        col = (x - self.geometry.origin[0]) / self.geometry.resolution - self.cols.start
        row = self.rows.stop - (y - self.geometry.origin[1]) / self.geometry.resolution
        return _point(np.rint(np.array([col, row]) * self.scale).astype(np.int64))


def _floor(snapshot: MapSnapshot) -> NDArray[np.uint8]:
    occupancy = snapshot.occupancy
    image = np.full((*occupancy.shape, 3), _UNKNOWN, np.uint8)
    image[(occupancy >= 0) & (occupancy < 50)] = _FREE
    image[occupancy >= 50] = _OCCUPIED
    return image


def _with_visits(image: NDArray[np.uint8], age: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Colour the cells that were visited; walls stay dark."""
    drawn = image.copy()
    visited = (age > 0) & (image[..., 0] >= 100)
    colors = _visit_colors()[age[visited]]
    drawn[visited] = (1.0 - _VISITS_SHARE) * image[visited] + _VISITS_SHARE * colors
    return drawn


def _visit_colors() -> NDArray[np.float64]:
    """Return (256, 3) BGR by `Visits.age`."""
    stops = np.array([_FRESH, _MIDDLE, _STALE], np.float64)
    levels = (np.arange(256) - 1) / 254.0
    return np.stack([np.interp(levels, (0.0, 0.5, 1.0), stops[:, i]) for i in range(3)], axis=-1)


def _legend(width: int, expiry: float) -> NDArray[np.uint8]:
    """Return a strip (_LEGEND, width, 3) that says what the colours of the visits mean."""
    strip = np.full((_LEGEND, width, 3), 255, np.uint8)
    ages = np.linspace(1, 255, _LEGEND_WIDTH).astype(np.uint8)
    strip[2:14, _MARGIN : _MARGIN + _LEGEND_WIDTH] = _visit_colors()[ages]
    ago = f"{expiry / 60.0:.0f} min" if expiry >= 120.0 else f"{expiry:.0f} s"
    text = f"visited now ... {ago} ago or longer"
    place = (_MARGIN, 30)
    cv2.putText(strip, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (30, 30, 30), 1, cv2.LINE_AA)
    return strip


def _mark_goal(image: NDArray[np.uint8], view: _View, goal: MissionGoal) -> None:
    color = {"arrived": _REACHED, "failed": _FAILED, "REFUSED": _FAILED}.get(goal.outcome)
    if color is not None:
        cv2.circle(image, view.pixel(goal.x, goal.y), 5, color, 2, cv2.LINE_AA)


def _with_head(image: NDArray[np.uint8], record: MissionRecord) -> NDArray[np.uint8]:
    text = (
        f"{record.kind.value} {record.state.value}: {record.distance:.1f} m, {record.elapsed / 60.0:.1f} min, "
        f"{record.known_area:.1f} m2, {record.goals_reached} goals reached, {record.goals_failed} failed, "
        f"{len(record.skipped)} skipped"
    )
    rows, cols = image.shape[:2]
    width = max(cols + 2 * _MARGIN, 700)
    framed = np.full((rows + _HEAD + 2 * _MARGIN, width, 3), 255, np.uint8)
    left = (width - cols) // 2
    framed[_HEAD + _MARGIN : _HEAD + _MARGIN + rows, left : left + cols] = image
    cv2.putText(
        framed, text, (_MARGIN, 22), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (30, 30, 30), 1, cv2.LINE_AA
    )
    return framed


def _segments(
    trace: NDArray[np.float64],
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """Return the pieces of line from point to point; none across a break."""
    points = [(float(x), float(y)) for x, y in trace]
    pairs = zip(points, points[1:], strict=False)
    return [(a, b) for a, b in pairs if math.isfinite(sum(a) + sum(b))]


def _cell(point: tuple[float, float], geometry: GridGeometry) -> NDArray[np.int64]:
    """Return (col, row) of a point [m]; it may be outside."""
    offset = (np.array(point) - np.array(geometry.origin)) / geometry.resolution
    cell: NDArray[np.int64] = np.floor(offset).astype(np.int64)
    return cell


def _point(cell: NDArray[np.int64]) -> tuple[int, int]:
    col, row = cell.clip(-_FAR, _FAR).tolist()
    return col, row


def _png(image: NDArray[np.uint8]) -> bytes:
    _, data = cv2.imencode(".png", image)
    return bytes(data)
