"""A kinematic robot in a hand-made map: for tests, demos and dashboard work without MuJoCo.

Time passes lazily: every call first carries the robot on to the clock's present, in steps of the odometry period,
so a test with a clock of its own is exact and an idle robot costs nothing.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.config import FakeConfig, RobotConfig
from rhino_actors.drivers.platform import SPORT_PARAMETERS, check_command, check_parameters
from rhino_actors.errors import ConfigError, NotConnected
from rhino_actors.geometry import compose, wrap_angle
from rhino_actors.messages.geometry import Odometry, Pose2D, Twist2D
from rhino_actors.messages.platform import DriverState, Posture, SportResult
from rhino_actors.messages.sensors import CameraFrame, LidarFrame, LidarKind

ODOMETRY_PERIOD_S = 0.02
SENSOR_HEIGHT = 0.30  # [m] above the floor
STANDING_HEIGHT = 0.31  # [m] of base_link
LYING_HEIGHT = 0.08
SKIN = 0.02  # [m] by which the disc is smaller than the radius that planning keeps
MISS_FACTOR = 2.0  # of the range: where a beam that met nothing is said to end
POSTURE_TIME_S = 0.6  # a change of posture takes this long
SHOW_TIME_S = 1.5  # so long does a show piece, like Hello
WIRE_LENGTH = 10_000
PICTURE = (320, 240)  # [px] width, height
JPEG_QUALITY = 80


@dataclass(frozen=True, slots=True)
class FakeMap:
    """Solid boxes in a hand-made world; the floor is flat and z = 0."""

    boxes: NDArray[np.float64]  # (N, 4) x_min, y_min, x_max, y_max [m]
    start: tuple[float, float]  # [m]
    bounds: tuple[float, float, float, float]  # [m] x_min, y_min, x_max, y_max of it all


def _map(
    boxes: list[tuple[float, float, float, float]],
    start: tuple[float, float],
    inner: tuple[float, float, float, float],
    wall: float = 0.15,
) -> FakeMap:
    """Put walls around the floor `inner` and boxes into it."""
    x0, y0, x1, y1 = inner
    walls = [
        (x0 - wall, y0 - wall, x0, y1 + wall),
        (x1, y0 - wall, x1 + wall, y1 + wall),
        (x0, y0 - wall, x1, y0),
        (x0, y1, x1, y1 + wall),
    ]
    solid = np.array(walls + boxes, dtype=np.float64)
    return FakeMap(solid, start, (x0 - wall, y0 - wall, x1 + wall, y1 + wall))


MAPS = {
    # 7 m x 7 m with a box and a shelf.
    "room": _map(
        [(1.9, -1.9, 2.7, -1.2), (-1.9, 1.2, -1.4, 2.6)], (0.0, 0.0), (-3.0, -3.0, 4.0, 4.0)
    ),
    # Two rooms of 5 m x 5 m, a wall with a door of 0.9 m between them, a box in the far one.
    "two_rooms": _map(
        [(3.0, -2.5, 3.15, -0.45), (3.0, 0.45, 3.15, 2.5), (5.6, 1.0, 6.3, 1.6)],
        (0.0, 0.0),
        (-2.0, -2.5, 8.15, 2.5),
    ),
    # 12 m x 1.6 m with a pocket at the far end.
    "corridor": _map(
        [(-1.0, 0.8, 8.0, 2.4), (9.6, 0.8, 11.0, 2.4)], (0.0, 0.0), (-1.0, -0.8, 11.0, 2.4)
    ),
}


class FakePlatform:
    """A disc that moves as it is told until a wall stops it. Implements `Platform`, and faults for tests.

    Attributes:
        wire: (time [s], twist) of every twist that was sent while connected, newest last.
    """

    simulated = True

    def __init__(
        self,
        config: FakeConfig,
        robot: RobotConfig,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Place the robot.

        Args:
            config: map, start, rates.
            robot: its body.
            clock: monotonic time [s]; a test may give its own.

        Raises:
            ConfigError: there is no such map.
        """
        if config.map not in MAPS:
            raise ConfigError(
                f"fake.map is {config.map!r}.", f"Built-in maps: {', '.join(sorted(MAPS))}."
            )
        self._config = config
        self._clock = clock
        self._map = MAPS[config.map]
        self._radius = max(0.05, robot.inscribed_radius - SKIN)
        start_x = self._map.start[0] if math.isnan(config.start_x) else config.start_x
        start_y = self._map.start[1] if math.isnan(config.start_y) else config.start_y
        self._pose = (start_x, start_y, wrap_angle(config.start_yaw))  # in the world
        self._odom_from_world = (0.0, 0.0, 0.0)  # changed only by jump()
        self._twist = Twist2D()
        self._moving = Twist2D()  # what it really does
        self._twist_at = -math.inf
        self._started = clock()
        self._ticks = 0
        self._odometry_seq = 0
        self._lidar_seq = 0
        self._camera_seq = 0
        self._odometry: Odometry | None = None
        self._lidar: LidarFrame | None = None
        self._camera: CameraFrame | None = None
        self._connected = False
        self._posture = Posture.STANDING
        self._posture_from = -math.inf  # until then it is CHANGING
        self._tilt = 0.0
        self._odometry_is_frozen = False
        self._lidar_is_frozen = False
        self._refuses_sport = False
        self._angles = np.linspace(-math.pi, math.pi, config.lidar_beams, endpoint=False)
        self.wire: deque[tuple[float, Twist2D]] = deque(maxlen=WIRE_LENGTH)

    async def connect(self) -> None:
        """Connect; the robot stands where it was."""
        self._advance()
        self._connected = True

    async def close(self) -> None:
        """Send zero and disconnect."""
        self.send_twist(Twist2D())
        self._connected = False

    def odometry(self) -> Odometry | None:
        """Return the newest odometry: the truth, 50 times a second."""
        self._advance()
        return self._odometry

    def lidar(self, newer_than: int) -> LidarFrame | None:
        """Return a scan of the map at sensor height, cast when it is asked for."""
        now = self._advance()
        due = self._count(now, self._config.lidar_rate_hz)
        if due > self._lidar_seq and self._connected and not self._lidar_is_frozen:
            self._lidar_seq = due
            self._lidar = self._scan(due, now)
        frame = self._lidar
        return frame if frame is not None and frame.seq > newer_than else None

    def camera(self, newer_than: int) -> CameraFrame | None:
        """Return a drawing of the map and the robot from above."""
        if self._config.camera_rate_hz <= 0.0:
            return None
        now = self._advance()
        due = self._count(now, self._config.camera_rate_hz)
        if due > self._camera_seq and due > newer_than and self._connected:
            self._camera_seq = due
            self._camera = self._draw(due, now)
        picture = self._camera
        return picture if picture is not None and picture.seq > newer_than else None

    def send_twist(self, twist: Twist2D) -> None:
        """Move so until the next twist, for `hold_timeout_s` at most."""
        now = self._advance()
        if self._connected:
            self._twist, self._twist_at = twist, now
            self.wire.append((now, twist))

    async def sport(
        self, command: str, parameters: Mapping[str, float] | None = None
    ) -> SportResult:
        """Change posture, or play a show piece by standing still for a while."""
        check_command(command)
        check_parameters(command, parameters or {})
        if not self._connected:
            raise NotConnected()
        now = self._advance()
        if self._refuses_sport:
            return SportResult(command, False, -1, "The robot refuses every command.")
        if command in ("Damp", "StopMove"):
            self._twist = Twist2D()
            if command == "Damp":
                self._change(Posture.DAMPED, now, 0.0)
            return SportResult(command, True)
        if self._tilt != 0.0 and command != "RecoveryStand":
            return SportResult(command, False, -2, "The robot lies on its side.")
        if command == "RecoveryStand":
            self._tilt = 0.0
            self._change(Posture.STANDING, now, POSTURE_TIME_S)
        elif command in ("StandUp", "BalanceStand", "RiseSit"):
            self._change(Posture.STANDING, now, POSTURE_TIME_S)
        elif command == "StandDown":
            self._change(Posture.LYING, now, POSTURE_TIME_S)
        elif self._posture is not Posture.STANDING:
            return SportResult(command, False, -3, "The robot has to stand for this.")
        elif command == "Sit":
            self._change(Posture.SITTING, now, POSTURE_TIME_S)
        elif command in SPORT_PARAMETERS:  # a disc leans no way that shows
            return SportResult(command, True, parameters=dict(parameters or {}))
        else:
            self._change(Posture.STANDING, now, SHOW_TIME_S)
        return SportResult(command, True)

    def state(self) -> DriverState:
        """Return posture, link and a battery that is always nearly full."""
        now = self._advance()
        has_camera = self._config.camera_rate_hz > 0.0
        return DriverState(
            connected=self._connected,
            posture=self._posture if now >= self._posture_from else Posture.CHANGING,
            battery=87.0,
            voltage=29.4,
            camera="drawing" if has_camera else "off: fake.camera_rate_hz is 0",
            link="ok" if self._connected else "lost",
            realtime_factor=1.0,
        )

    @property
    def pose(self) -> Pose2D:
        """Where the robot really is, in the map's world."""
        self._advance()
        return Pose2D(*self._pose)

    # faults for tests

    def freeze_odometry(self, frozen: bool = True) -> None:
        """Stop, or go on, giving new odometry."""
        self._advance()
        self._odometry_is_frozen = frozen

    def freeze_lidar(self, frozen: bool = True) -> None:
        """Stop, or go on, giving new lidar frames."""
        self._lidar_is_frozen = frozen

    def jump(self, dx: float, dy: float, dyaw: float = 0.0) -> None:
        """Let odometry say from now on that the robot is elsewhere: `odom` shifts against the world [m, rad]."""
        self._advance()
        x, y, yaw = self._odom_from_world
        self._odom_from_world = (x + dx, y + dy, wrap_angle(yaw + dyaw))

    def tilt(self, angle: float) -> None:
        """Roll the body to this angle [rad]; beyond upright it does not walk."""
        self._advance()
        self._tilt = angle

    def disconnect(self) -> None:
        """Lose the robot: nothing arrives, nothing new comes, until `connect`."""
        self._advance()
        self._connected = False

    def refuse_sport(self, refuses: bool = True) -> None:
        """Refuse every sport command."""
        self._refuses_sport = refuses

    # inside

    def _count(self, now: float, rate: float) -> int:
        return math.floor((now - self._started) * rate) + 1

    def _change(self, posture: Posture, now: float, duration: float) -> None:
        self._posture = posture
        self._posture_from = now + duration
        self._twist = Twist2D()

    def _advance(self) -> float:
        """Carry the robot on to the present; return that [s]."""
        now = self._clock()
        due = math.floor((now - self._started) / ODOMETRY_PERIOD_S)
        while self._ticks < due:
            tick_at = self._started + self._ticks * ODOMETRY_PERIOD_S
            if not self._moves_at(tick_at):
                # Nothing changes before the next call: only the newest tick has to be told.
                self._moving = Twist2D()
                self._ticks = due
            else:
                self._move(ODOMETRY_PERIOD_S)
                self._ticks += 1
        if self._connected and not self._odometry_is_frozen:
            self._publish_odometry(self._started + self._ticks * ODOMETRY_PERIOD_S)
        return now

    def _moves_at(self, moment: float) -> bool:
        return (
            not self._twist.is_zero
            and moment - self._twist_at < self._config.hold_timeout_s
            and self._posture is Posture.STANDING
            and moment >= self._posture_from
            and abs(self._tilt) < 0.5
        )

    def _move(self, dt: float) -> None:
        twist = self._twist
        half = twist.omega * dt / 2.0
        x, y, _ = compose(
            compose(self._pose, (0.0, 0.0, half)), (twist.vx * dt, twist.vy * dt, 0.0)
        )
        yaw = wrap_angle(self._pose[2] + 2.0 * half)
        if self._is_free(x, y):
            self._pose = (x, y, yaw)
            self._moving = twist
        else:
            self._pose = (self._pose[0], self._pose[1], yaw)
            self._moving = Twist2D(omega=twist.omega)

    def _is_free(self, x: float, y: float) -> bool:
        boxes = self._map.boxes
        dx = np.maximum(np.maximum(boxes[:, 0] - x, x - boxes[:, 2]), 0.0)
        dy = np.maximum(np.maximum(boxes[:, 1] - y, y - boxes[:, 3]), 0.0)
        return bool((dx * dx + dy * dy >= self._radius**2).all())

    def _pose_in_odom(self) -> tuple[float, float, float]:
        return compose(self._odom_from_world, self._pose)

    def _publish_odometry(self, stamp: float) -> None:
        if self._odometry is not None and self._odometry_seq == self._ticks + 1:
            return
        self._odometry_seq = self._ticks + 1
        x, y, yaw = self._pose_in_odom()
        standing = self._posture is Posture.STANDING
        height = STANDING_HEIGHT if standing else LYING_HEIGHT
        # Turned by yaw about z, then rolled about the body's x.
        sy, cy = math.sin(yaw / 2.0), math.cos(yaw / 2.0)
        sr, cr = math.sin(self._tilt / 2.0), math.cos(self._tilt / 2.0)
        self._odometry = Odometry(
            seq=self._odometry_seq,
            stamp=stamp,
            position=(x, y, height),
            orientation=(cy * sr, sy * sr, sy * cr, cy * cr),
            twist=self._moving,
            device_stamp=stamp - self._started,
        )

    def _scan(self, seq: int, now: float) -> LidarFrame:
        x, y, yaw = self._pose
        angles = self._angles + yaw
        ranges = self._cast(x, y, angles)
        ends = np.empty((len(angles), 3))
        ends[:, 0] = x + ranges * np.cos(angles)
        ends[:, 1] = y + ranges * np.sin(angles)
        ends[:, 2] = SENSOR_HEIGHT
        ox, oy, oyaw = self._odom_from_world
        if (ox, oy, oyaw) != (0.0, 0.0, 0.0):
            cos, sin = math.cos(oyaw), math.sin(oyaw)
            turned = np.array([[cos, sin], [-sin, cos]])
            ends[:, :2] = ends[:, :2] @ turned + (ox, oy)
        points = ends.astype(np.float32)
        points.setflags(write=False)
        pose = Pose2D(*self._pose_in_odom())
        return LidarFrame(
            seq=seq,
            stamp=now,
            points=points,
            origin=(pose.x, pose.y, SENSOR_HEIGHT),
            pose=pose,
            resolution=0.0,
            kind=LidarKind.SCAN,
            device_stamp=now - self._started,
        )

    def _cast(self, x: float, y: float, angles: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the range of each beam to the nearest box [m]; far beyond the longest range where it met none."""
        boxes = self._map.boxes
        with np.errstate(divide="ignore", invalid="ignore"):
            inverse_x = 1.0 / np.cos(angles)[:, None]
            inverse_y = 1.0 / np.sin(angles)[:, None]
            x_low, x_high = (boxes[:, 0] - x) * inverse_x, (boxes[:, 2] - x) * inverse_x
            y_low, y_high = (boxes[:, 1] - y) * inverse_y, (boxes[:, 3] - y) * inverse_y
        enter = np.fmax(np.fmin(x_low, x_high), np.fmin(y_low, y_high))
        leave = np.fmin(np.fmax(x_low, x_high), np.fmax(y_low, y_high))
        hit = (enter <= leave) & (leave >= 0.0)
        nearest = np.where(hit, np.maximum(enter, 0.0), np.inf).min(axis=1)
        longest = self._config.lidar_range
        return np.where(nearest <= longest, nearest, longest * MISS_FACTOR)

    def _draw(self, seq: int, now: float) -> CameraFrame:
        import cv2  # only who looks at pictures pays for it

        width, height = PICTURE
        x0, y0, x1, y1 = self._map.bounds
        scale = min(width / (x1 - x0), height / (y1 - y0)) * 0.95
        middle = ((x0 + x1) / 2.0, (y0 + y1) / 2.0)

        def pixel(x: float, y: float) -> tuple[int, int]:
            return (
                round(width / 2 + (x - middle[0]) * scale),
                round(height / 2 - (y - middle[1]) * scale),
            )

        image = np.full((height, width, 3), 235, dtype=np.uint8)
        for box in self._map.boxes:
            cv2.rectangle(image, pixel(box[0], box[1]), pixel(box[2], box[3]), (70, 70, 70), -1)
        x, y, yaw = self._pose
        cv2.circle(image, pixel(x, y), max(2, round(self._radius * scale)), (200, 120, 30), -1)
        nose = pixel(x + 0.5 * math.cos(yaw), y + 0.5 * math.sin(yaw))
        cv2.line(image, pixel(x, y), nose, (30, 30, 200), 2)
        cv2.putText(
            image, f"{seq}", (4, height - 6), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (90, 90, 90), 1
        )
        _, data = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])
        return CameraFrame(seq, now, data.tobytes(), width, height)
