"""When to connect, when a link counts as lost, when to try again. Pure: time is an argument."""

import math
from enum import StrEnum

from rhino_actors.config import Go2Config
from rhino_actors.errors import RhinoError, RobotBusy, RobotKeyMissing, RobotKeyRejected

BACK_OFF_S = (1.0, 2.0, 5.0, 10.0)
# Another app is connected: it may take a while, and asking often helps nobody.
BUSY_BACK_OFF_S = (5.0, 10.0, 20.0)
# A key does not become right by trying it again.
KEY_BACK_OFF_S = (60.0,)
STEADY_S = 5.0  # a connection that lasted so long starts the back-off anew


class LinkPhase(StrEnum):
    """How the connection stands."""

    WAITING = "waiting"  # between two tries
    CONNECTING = "connecting"
    CONNECTED = "ok"
    LOST = "lost"  # connected, but nothing has arrived for a while


class Decision(StrEnum):
    """What to do now."""

    NOTHING = "nothing"
    CONNECT = "connect"
    DROP = "drop"  # give the connection up, then connect


class Recovery:
    """The life of the link to one robot."""

    def __init__(self, config: Go2Config, now: float) -> None:
        self._lost_after = config.lost_after_s
        self._reconnect_after = config.reconnect_after_s
        self._is_open = False
        self._is_trying = False
        self._next_try = now
        self._heard = -math.inf
        self._opened = -math.inf
        self._failures = 0
        self.error: RhinoError | None = None  # why there is no connection

    @property
    def is_open(self) -> bool:
        """There is a connection, whether or not anything arrives."""
        return self._is_open

    def silence(self, now: float) -> float:
        """Return how long nothing has arrived [s]."""
        return now - self._heard

    def phase(self, now: float) -> LinkPhase:
        """Return how the connection stands."""
        if self._is_trying:
            return LinkPhase.CONNECTING
        if not self._is_open:
            return LinkPhase.WAITING
        return LinkPhase.LOST if self.silence(now) > self._lost_after else LinkPhase.CONNECTED

    def decide(self, now: float) -> Decision:
        """Return what to do now."""
        if self._is_trying:
            return Decision.NOTHING
        if self._is_open:
            gone = self.silence(now) > self._reconnect_after
            return Decision.DROP if gone else Decision.NOTHING
        return Decision.CONNECT if now >= self._next_try else Decision.NOTHING

    def started(self) -> None:
        """A try has begun."""
        self._is_trying = True

    def opened(self, now: float) -> None:
        """The try succeeded."""
        self._is_trying, self._is_open = False, True
        self._opened = self._heard = now
        self.error = None

    def heard(self, now: float) -> None:
        """Something arrived."""
        self._heard = now

    def failed(self, error: RhinoError, now: float) -> None:
        """The try failed."""
        self._is_trying = self._is_open = False
        self.error = error
        waits: tuple[float, ...] = BACK_OFF_S
        if isinstance(error, RobotBusy):
            waits = BUSY_BACK_OFF_S
        elif isinstance(error, (RobotKeyMissing, RobotKeyRejected)):
            waits = KEY_BACK_OFF_S
        self._next_try = now + waits[min(self._failures, len(waits) - 1)]
        self._failures += 1

    def closed(self, error: RhinoError, now: float) -> None:
        """The connection is gone. The first try follows at once, when it had lasted."""
        self._is_open = False
        self.error = error
        if now - self._opened >= STEADY_S:
            self._failures = 0
            self._next_try = now
        else:
            self._next_try = now + BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
            self._failures += 1
