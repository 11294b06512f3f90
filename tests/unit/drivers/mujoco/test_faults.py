import math

import pytest

from rhino_actors.drivers.mujoco.faults import KINDS, FaultBoard, check_fault, parse_faults
from rhino_actors.errors import ConfigError


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
