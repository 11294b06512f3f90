import math

import pytest

from rhino_actors.drivers.mujoco.faults import (
    KINDS,
    MAX_FAULTS,
    TIMES,
    FaultBoard,
    check_fault,
    parse_faults,
)
from rhino_actors.drivers.mujoco.wire import capacities, pack_state
from rhino_actors.errors import ConfigError
from tests.simulations import plain_simulation


def board(text: str = "", *, seed: int = 1, walking: bool = False) -> FaultBoard:
    return FaultBoard(text, seed, walking=walking)


def test_a_configuration_names_faults_with_their_numbers_and_times() -> None:
    text = "drop_lidar share=0.3 after=20 duration=10;; odometry_jump x=-0.5 yaw=1e-1 ;"
    assert parse_faults(text) == [
        ("drop_lidar", {"share": 0.3, "after": 20.0, "duration": 10.0}),
        ("odometry_jump", {"x": -0.5, "yaw": 0.1}),
    ]


def test_a_fault_is_on_from_its_begin_to_its_end() -> None:
    faults = board("late_lidar delay=0.4 after=2 duration=3")
    seen = []
    for time in range(8):
        faults.advance(float(time))
        fault = faults.active("late_lidar")
        seen.append(fault is not None and fault["delay"] == 0.4)
    assert seen == [False, False, True, True, True, False, False, False]


def test_a_fault_asked_for_later_counts_its_time_from_then_and_clear_ends_all() -> None:
    faults = board()
    faults.advance(100.0)
    faults.add("link_loss", {"after": 1.0})
    faults.add("battery", {"after": 5.0})
    assert faults.active("link_loss") is None
    faults.advance(101.0)
    assert faults.active("link_loss") is not None
    assert faults.sentences() and "link_loss" in faults.sentences()[0]
    faults.add("clear", {})
    faults.advance(200.0)
    assert faults.active("link_loss") is None and faults.due("battery") == []


def test_an_event_happens_once_and_a_push_again_and_again() -> None:
    faults = board("battery level=5 after=1; push every=2 after=1 duration=5", walking=True)
    batteries, pushes = 0, 0
    for tick in range(100):
        faults.advance(0.1 * tick)
        batteries += len(faults.due("battery"))
        pushes += len(faults.due("push"))
    assert batteries == 1
    assert pushes == 3  # at 1, 3 and 5 s


def test_a_push_from_a_random_side_has_its_strength_and_its_seed() -> None:
    def pushes(seed: int) -> list[tuple[float, float]]:
        faults = board("push every=1", seed=seed, walking=True)
        found = []
        for tick in range(5):
            faults.advance(float(tick))
            found += [faults.push(fault) for fault in faults.due("push")]
        return found

    assert pushes(1) == pushes(1) != pushes(2)
    assert all(math.hypot(*push) == pytest.approx(20.0) for push in pushes(1))


def test_what_is_on_and_what_is_to_come_can_be_listed_and_ended_by_name() -> None:
    faults = board("late_lidar delay=0.4 duration=5; push every=2 x=20 after=3", walking=True)
    faults.advance(1.0)
    late, push = faults.listing()
    assert (late.name, dict(late.values), late.starts_in) == ("late_lidar", {"delay": 0.4}, 0.0)
    assert late.ends_in == pytest.approx(4.0)
    assert push.starts_in == pytest.approx(2.0) and push.ends_in is None
    assert any("push" in sentence for sentence in faults.sentences())
    faults.clear("push")
    assert [fault.name for fault in faults.listing()] == ["late_lidar"]
    with pytest.raises(ConfigError):
        faults.clear("fire")
    faults.clear()
    assert faults.listing() == () == faults.sentences()


def test_there_is_room_for_so_many_faults_and_for_all_they_say() -> None:
    faults = board(walking=True)
    for name in [*KINDS, *KINDS]:
        if len(faults.listing()) == MAX_FAULTS:
            with pytest.raises(ConfigError, match="already"):
                faults.add(name, {})
        elif not KINDS[name].is_event:
            faults.add(name, {"duration": 12345.678})
    assert len(faults.sentences()) == MAX_FAULTS
    state = {"injected": faults.sentences(), "camera": "x" * 1000, "low_state": [0.123456789] * 40}
    assert len(pack_state(state)) < capacities(plain_simulation())["state"] / 2


@pytest.mark.parametrize("name", sorted(KINDS))
def test_every_number_has_bounds_that_hold_and_a_default_within_them(name: str) -> None:
    kind = KINDS[name]
    check_fault(name, {key: number.low for key, number in kind.numbers.items()}, walking=True)
    check_fault(name, {key: number.high for key, number in kind.numbers.items()}, walking=True)
    for key, number in {**kind.numbers, **TIMES}.items():
        check_fault(name, {key: number.default}, walking=True)
        for bad in (math.nan, -math.inf, number.low - 1.0, number.high * 1.01 + 1.0):
            with pytest.raises(ConfigError, match=key):
                check_fault(name, {key: bad}, walking=True)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.needs_walking])
def test_what_needs_a_body_with_weight_is_refused_by_one_that_is_driven(name: str) -> None:
    check_fault(name, {}, walking=True)
    with pytest.raises(ConfigError, match="weight") as caught:
        board(name)
    assert "mujoco.base" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("drop_everything", "drop_lidar"),
        ("drop_lidar share", "share"),
        ("drop_lidar share=much", "share"),
        ("drop_lidar size=3", "share"),
        ("drop_lidar share=nan", "share"),
        ("late_lidar delay=inf", "delay"),
    ],
)
def test_a_mistake_is_refused_with_what_is_known(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        board(text)
    assert says in str(caught.value)
