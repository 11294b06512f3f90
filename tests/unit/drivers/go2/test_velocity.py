"""Which velocity leaves, and that none leaves late: properties over long random histories."""

import math

import numpy as np
import pytest

from rhino_actors.config import Go2Config
from rhino_actors.drivers.go2.velocity import STOPS, Kind, LinkHealth, Outgoing, VelocitySender
from rhino_actors.messages.geometry import Twist2D

CONFIG = Go2Config()
GOOD = LinkHealth(up=True, odometry_age=0.02, buffered=0)
FORWARD, ZERO = Twist2D(0.4), Twist2D()
STEP = 0.01


class Run:
    """A sender that is asked every 10 ms; keeps what left, and when."""

    def __init__(self) -> None:
        self.sender = VelocitySender(CONFIG)
        self.now = 100.0
        self.link = GOOD
        self.sent: list[tuple[float, Outgoing]] = []

    def go(self, duration: float, twist: Twist2D | None = None) -> list[Outgoing]:
        """Let time pass, asking for a twist 20 times a second; return what left."""
        before = len(self.sent)
        for index in range(round(duration / STEP)):
            if twist is not None and index % 5 == 0:
                self.sender.ask(twist, self.now, self.now)
            self.sent += [(self.now, out) for out in self.sender.step(self.now, self.link)]
            self.now += STEP
        return [out for _, out in self.sent[before:]]


def kinds(sent: list[Outgoing]) -> list[str]:
    return [out.kind.value for out in sent]


def test_a_velocity_is_repeated_twenty_times_a_second_while_it_is_wanted() -> None:
    moves = [out for out in Run().go(2.0, FORWARD) if out.kind is Kind.MOVE]
    assert 38 <= len(moves) <= 42
    assert all(out.twist == FORWARD for out in moves)


def test_the_first_command_of_all_is_stop() -> None:
    assert kinds(Run().go(0.2, FORWARD))[:2] == ["stop", "move"]


def test_stop_leaves_at_once_and_is_repeated_and_then_all_is_quiet() -> None:
    run = Run()
    run.go(1.0, FORWARD)
    run.sender.ask(ZERO, run.now, run.now)
    assert kinds(run.sender.step(run.now, run.link)) == ["stop"]
    rest = run.go(1.0)
    assert kinds(rest) == ["stop"] * (STOPS - 1)
    assert run.go(3.0) == []


def test_without_a_new_wish_the_robot_is_stopped_within_the_hold_time() -> None:
    run = Run()
    run.go(1.0, FORWARD)
    silent_since = run.now
    run.go(1.0)
    first_stop = next(at for at, out in run.sent if at >= silent_since and out.kind is Kind.STOP)
    assert first_stop - silent_since <= CONFIG.hold_timeout_s + STEP
    assert kinds(run.go(1.0)) == []


@pytest.mark.parametrize(
    "link",
    [
        LinkHealth(True, 0.3, 0),
        LinkHealth(True, math.inf, 0),
        LinkHealth(True, math.nan, 0),
        LinkHealth(True, 0.02, 5000),
    ],
)
def test_nothing_but_stop_leaves_on_old_odometry_or_into_a_queue(link: LinkHealth) -> None:
    run = Run()
    run.go(1.0, FORWARD)
    run.link = link
    assert set(kinds(run.go(2.0, FORWARD))) == {"stop"}
    run.link = GOOD
    assert kinds(run.go(0.2, FORWARD))[:2] == ["stop", "move"], "after a gap stop comes first"


def test_a_lost_link_ends_the_motion_until_somebody_decides_anew() -> None:
    run = Run()
    run.go(1.0, FORWARD)
    run.link = LinkHealth(False, 0.02, 0)
    assert run.go(2.0, FORWARD) == []
    run.link = GOOD
    assert run.go(2.0, FORWARD) == [], "the old wish does not go on"
    run.go(0.1, ZERO)
    assert "move" in kinds(run.go(0.3, FORWARD))


def test_silence_is_a_decision_too() -> None:
    run = Run()
    run.go(1.0, FORWARD)
    run.link = LinkHealth(False, 0.02, 0)
    run.go(1.0, FORWARD)
    run.link = GOOD
    run.go(1.0)
    assert kinds(run.go(0.3, FORWARD))[:2] == ["stop", "move"]


def test_a_stick_that_is_held_through_a_stall_of_this_process_does_not_drive_on() -> None:
    run = Run()
    run.go(1.0, FORWARD)
    decided, run.now = run.now, run.now + 1.5
    assert run.sender.step(run.now, LinkHealth(False, 1.5, 0)) == []
    while decided < run.now:  # what was sent meanwhile, all at once
        run.sender.ask(FORWARD, decided, run.now)
        decided += 0.05
    assert run.go(2.0, FORWARD) == [], "nobody let go of it"


def test_stop_is_sent_even_when_nothing_moves_but_not_without_end() -> None:
    run = Run()
    stops = kinds(run.go(1.0, ZERO))
    assert set(stops) == {"stop"} and 2 <= len(stops) <= 8


def test_another_command_is_not_cut_short_by_stops() -> None:
    run = Run()
    run.go(1.0, FORWARD)
    run.sender.ask(ZERO, run.now, run.now)
    run.sender.step(run.now, run.link)
    run.sender.interrupt()
    assert run.go(2.0) == []


@pytest.mark.parametrize("seed", range(20))
def test_no_move_leaves_that_was_not_wanted_just_now_on_a_good_link(seed: int) -> None:
    random, run = np.random.default_rng(seed), Run()
    asked: list[tuple[float, Twist2D]] = []
    for _ in range(60):
        twist = Twist2D(*(random.uniform(-1, 1, 3) * random.integers(0, 2, 3)).tolist())
        run.link = LinkHealth(
            bool(random.random() < 0.8),
            float(random.choice([0.02, 0.1, 0.5])),
            int(random.choice([0, 0, 3000])),
        )
        begun = run.now
        wants = random.random() < 0.7
        before = len(run.sent)
        run.go(float(random.uniform(0.02, 0.6)), twist if wants else None)
        if wants:
            asked.append((begun, twist))
        for at, out in run.sent[before:]:
            if out.kind is not Kind.MOVE:
                continue
            assert run.link.up and run.link.odometry_age < 0.25 and run.link.buffered == 0
            last = max((when for when, wish in asked if wish == out.twist), default=-1.0)
            assert last >= 0.0 and not out.twist.is_zero
            if not wants:
                assert at - begun <= CONFIG.hold_timeout_s
