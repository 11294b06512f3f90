"""LoopMapping: closes the loops of the running map, and draws it anew beside the frames that go on coming.

`add_frame` with every fused frame; when `is_due`, `begin` gives a `Redraw` whose `run` takes its time on another
thread; `adopt` puts the result in the map's place and says where odom lies in it. Only `run` may overlap with others.
"""

import time

from rhino_actors.config import MapperConfig, RobotConfig
from rhino_actors.geometry import compose
from rhino_actors.mapping.checkpoint import State
from rhino_actors.mapping.layers import MapLayers
from rhino_actors.mapping.loop_closure import Closure, LoopClosure, LoopOptions, LoopSearch
from rhino_actors.mapping.submap import Band
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.localisation import DriftMode
from rhino_actors.messages.sensors import LidarFrame

_REST = 40  # a frame must come for so many that were drawn before the map is drawn again


class Redraw:
    """A search for a loop, and the map drawn anew when there is one.

    Attributes:
        layers: the new map of the frames until `begin`; None: the map stays.
        shift: how far the part of the way moved that moved most [m].
        took: time of the drawing [s].
    """

    def __init__(
        self, search: LoopSearch, config: MapperConfig, robot: RobotConfig, base: State | None
    ) -> None:
        self.search = search
        self._config, self._robot, self._base = config, robot, base
        self.closure: Closure | None = None
        self.layers: MapLayers | None = None
        self.shift = self.took = 0.0

    def run(self) -> None:
        """Search, and draw what was found: seconds, on a large map. Raises StorageError if the base does not fit."""
        self.closure = self.search.run()
        if self.closure is None or self.closure.nodes is None:
            return
        started = time.monotonic()
        self.layers = MapLayers(self._config, self._robot)
        if self._base is not None:
            self.layers.restore(self._base)
        for frame in self.search.frames(self.closure.nodes):
            self.layers.integrate(frame)
        self.layers.settle()
        self.shift, self.took = self.closure.shift, time.monotonic() - started


class LoopMapping:
    """The way behind one running map. One caller at a time, but for `Redraw.run`.

    Attributes:
        loops: the way.
        redraws: how often the map was drawn anew,
        redraw_s: and how long that took the last time [s].
    """

    def __init__(
        self,
        config: MapperConfig,
        robot: RobotConfig,
        *,
        base: State | None = None,
        options: LoopOptions | None = None,
    ) -> None:
        """Start without a way.

        Args:
            config: of the mapper.
            robot: its body.
            base: a state of MapLayers that every drawing begins with: the map of before a crash, which is rigid.
            options: when a place counts as seen before.
        """
        self._config, self._robot, self._base = config, robot, base
        band = Band(robot.obstacle_min_height, robot.obstacle_max_height, robot.length, robot.width)
        self.loops = LoopClosure(options, band)
        self.redraws = 0
        self.redraw_s = 0.0
        self._rested_at = 0  # frames kept in all from which the map may be drawn again
        self._kept = 0  # frames kept in all

    @classmethod
    def of(
        cls, config: MapperConfig, robot: RobotConfig, *, base: State | None = None
    ) -> "LoopMapping | None":
        """Return what the configuration asks for, None where it does not close loops."""
        is_wanted = config.drift_correction is DriftMode.LOOPS
        return cls(config, robot, base=base) if is_wanted else None

    @property
    def is_due(self) -> bool:
        """True when it is time for `begin`."""
        return self.loops.is_due and self._kept >= self._rested_at

    def add_frame(self, frame: LidarFrame, map_from_odom: Pose2D) -> bool:
        """Note a frame that was fused with this correction; says if it was the last for which there was room."""
        before, was_full = self.loops.kept, self.loops.is_full
        self.loops.add_frame(frame, map_from_odom.as_tuple())
        self._kept += max(0, self.loops.kept - before)
        return self.loops.is_full and not was_full

    def stats(self) -> dict[str, float]:
        """Return places seen again and believed, or refused, frames kept and their memory, maps drawn anew."""
        return {
            "loops_closed": float(self.loops.closed),
            "loops_refused": float(self.loops.refused),
            "loop_frames": float(self.loops.kept),
            "loop_memory_mb": self.loops.memory / 1e6,
            "redraws": float(self.redraws),
            "redraw_s": self.redraw_s,
        }

    def begin(self) -> Redraw:
        """Return the search for the newest part of the way; `adopt` must follow."""
        return Redraw(self.loops.begin(), self._config, self._robot, self._base)

    def drop(self) -> None:
        """Give up what `begin` began, if it was not adopted."""
        self.loops.drop()

    def close_now(self, layers: MapLayers, map_from_odom: Pose2D) -> Pose2D:
        """Do all at once where nobody waits, and return map_from_odom: in lock-step."""
        if not self.is_due:
            return map_from_odom
        redraw = self.begin()
        redraw.run()
        return self.adopt(redraw, layers, map_from_odom)

    def adopt(self, redraw: Redraw, layers: MapLayers, map_from_odom: Pose2D) -> Pose2D:
        """Put the new map in the place of `layers`, with the frames that came meanwhile, and return map_from_odom.

        Readers of `layers` get what differs. Without a new map nothing changes.
        """
        moved = self.loops.adopt(redraw.closure)
        drawn = redraw.layers
        if drawn is None:
            return map_from_odom
        for frame in self.loops.frames(redraw.search.frame_count):
            drawn.integrate(frame)
        layers.take_over(drawn)
        self.redraws += 1
        self.redraw_s = redraw.took
        self._rested_at = self._kept + self.loops.kept // _REST
        return Pose2D(*compose(moved, map_from_odom.as_tuple()))
