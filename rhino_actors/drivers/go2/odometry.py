"""The robot's poses as odometry: a twist from their differences, and none that waited in the network. Pure."""

import math
from collections import deque

from rhino_actors.drivers.go2.protocol import RobotPose
from rhino_actors.geometry import wrap_angle, yaw_from_quaternion
from rhino_actors.messages.geometry import Odometry, Twist2D

TWIST_WINDOW_S = 0.2
MAX_LAG_S = 0.4  # a pose that is so much later than others were has waited on its way
CLOCK_DRIFT = 1e-3  # [s/s] by which the robot's clock may run slower than this host's
CLOCK_STEP_S = 1.0  # when all poses are late for so long, the robot's clock was set


class OdometryReader:
    """Numbers poses as they arrive and adds the velocity. Stamps are arrival times; the robot's are data."""

    def __init__(self, first_seq: int = 1) -> None:
        self._seq = first_seq
        self._recent: deque[tuple[float, float, float, float]] = deque()  # arrival, x, y, yaw
        self._offset = math.inf  # smallest arrival minus device stamp, as the clocks drift apart
        self._offset_at = 0.0  # [s] when it was last looked at
        self._late_since: float | None = None
        self._last_stamp = math.nan
        self.dropped = 0

    def restart(self) -> None:
        """Begin anew after a gap: no velocity from poses before it, and no trust in the old clock."""
        self._recent.clear()
        self._offset = math.inf
        self._late_since = None

    def read(self, pose: RobotPose, now: float) -> Odometry | None:
        """Return odometry for a pose that arrives now; None for one that waited on its way."""
        if self._waited(pose.device_stamp, now):
            self.dropped += 1
            return None
        yaw = yaw_from_quaternion(*pose.orientation)
        self._recent.append((now, pose.position[0], pose.position[1], yaw))
        while now - self._recent[0][0] > TWIST_WINDOW_S and len(self._recent) > 2:
            self._recent.popleft()
        odometry = Odometry(
            seq=self._seq,
            stamp=now,
            position=pose.position,
            orientation=pose.orientation,
            twist=self._twist(),
            device_stamp=pose.device_stamp,
        )
        self._seq += 1
        return odometry

    def _waited(self, device_stamp: float, now: float) -> bool:
        frozen = device_stamp == self._last_stamp
        self._last_stamp = device_stamp
        if frozen or math.isnan(device_stamp):
            return False  # a clock that does not run says nothing
        offset = now - device_stamp
        leaked = self._offset + CLOCK_DRIFT * (now - self._offset_at)
        self._offset, self._offset_at = min(leaked, offset), now
        if offset - self._offset <= MAX_LAG_S:
            self._late_since = None
            return False
        if self._late_since is None:
            self._late_since = now
        if now - self._late_since > CLOCK_STEP_S:
            self._offset, self._late_since = offset, None
            return False
        return True

    def _twist(self) -> Twist2D:
        first, last = self._recent[0], self._recent[-1]
        duration = last[0] - first[0]
        if duration < 0.02 or duration > 3.0 * TWIST_WINDOW_S:
            return Twist2D()
        turn = wrap_angle(last[3] - first[3])
        middle = first[3] + turn / 2.0
        dx, dy = (last[1] - first[1]) / duration, (last[2] - first[2]) / duration
        cos, sin = math.cos(middle), math.sin(middle)
        return Twist2D(cos * dx + sin * dy, -sin * dx + cos * dy, turn / duration)
