"""When the link counts as lost and when it is tried again, with time as an argument."""

import pytest

from rhino_actors.config import Go2Config
from rhino_actors.drivers.go2.recovery import Decision, LinkPhase, Recovery
from rhino_actors.errors import NotConnected, RhinoError, RobotBusy, RobotKeyMissing

CONFIG = Go2Config(lost_after_s=1.0, reconnect_after_s=3.0)


def waits(error: RhinoError, count: int) -> list[float]:
    """Return the pauses between tries that fail."""
    recovery, now, found = Recovery(CONFIG, 0.0), 0.0, []
    for _ in range(count):
        assert recovery.decide(now) is Decision.CONNECT
        recovery.started()
        recovery.failed(error, now)
        before = now
        while recovery.decide(now) is Decision.NOTHING:
            now += 0.01
        found.append(round(now - before, 1))
    return found


def test_tries_get_rarer_and_stay_at_ten_seconds() -> None:
    assert waits(NotConnected(), 6) == [1.0, 2.0, 5.0, 10.0, 10.0, 10.0]


def test_a_busy_robot_is_asked_less_often_and_a_wrong_key_hardly_ever() -> None:
    assert waits(RobotBusy(), 4) == [5.0, 10.0, 20.0, 20.0]
    assert waits(RobotKeyMissing(), 2) == [60.0, 60.0]


@pytest.mark.parametrize(
    ("silence", "phase", "decision"),
    [
        (0.9, LinkPhase.CONNECTED, Decision.NOTHING),
        (1.1, LinkPhase.LOST, Decision.NOTHING),
        (2.9, LinkPhase.LOST, Decision.NOTHING),
        (3.1, LinkPhase.LOST, Decision.DROP),
    ],
)
def test_silence_is_told_after_one_second_and_ended_after_three(
    silence: float, phase: LinkPhase, decision: Decision
) -> None:
    recovery = opened()
    recovery.heard(50.0)
    assert recovery.phase(50.0 + silence) is phase
    assert recovery.decide(50.0 + silence) is decision


def test_a_link_that_lasted_is_tried_again_at_once_and_one_that_did_not_is_not() -> None:
    recovery = opened()
    recovery.closed(NotConnected(), 20.0)
    assert recovery.decide(20.0) is Decision.CONNECT
    recovery.started()
    recovery.opened(20.5)
    recovery.closed(NotConnected(), 21.0)
    assert recovery.decide(21.5) is Decision.NOTHING
    assert recovery.decide(22.1) is Decision.CONNECT


def test_nothing_is_begun_while_a_try_runs() -> None:
    recovery = Recovery(CONFIG, 0.0)
    recovery.started()
    assert all(recovery.decide(now) is Decision.NOTHING for now in (0.0, 5.0, 500.0))
    assert recovery.phase(5.0) is LinkPhase.CONNECTING


def opened() -> Recovery:
    recovery = Recovery(CONFIG, 0.0)
    recovery.started()
    recovery.opened(0.5)
    return recovery
