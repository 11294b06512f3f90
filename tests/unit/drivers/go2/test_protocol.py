"""What the robot says is read as it is meant, and nothing that it could say raises anything else than MessageError."""

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rhino_actors.drivers.go2 import protocol
from rhino_actors.drivers.platform import SPORT_COMMANDS
from rhino_actors.messages.platform import Posture

SHARED = Path(os.environ.get("RHINO_SHARED") or Path(__file__).resolve().parents[5] / "shared")
VECTORS = SHARED / "data" / "go2" / "protocol.json"

POSE = {
    "header": {"stamp": {"sec": 1796054665, "nanosec": 500000000}, "frame_id": "odom"},
    "pose": {
        "position": {"x": 1.0, "y": -2.0, "z": 0.32},
        "orientation": {"x": 0.0, "y": 0.0, "z": 1.0, "w": 0.0},
    },
}
LOW = {
    "imu_state": {"rpy": [0.1, -0.2, 0.3]},
    "motor_state": [{"q": 0.1 * k, "temperature": 30 + k, "lost": 0} for k in range(12)]
    + [{"q": 0, "temperature": 0, "lost": 0}] * 8,
    "bms_state": {"soc": 87, "current": -2481},
    "foot_force": [97, 84, 81, 80],
    "power_v": 28.3,
}


@pytest.mark.skipif(not VECTORS.is_file(), reason=f"no {VECTORS}: set RHINO_SHARED")
def test_every_vector_is_read_and_answered() -> None:
    vectors = json.loads(VECTORS.read_text())
    for case in vectors["validation"]:
        assert protocol.validation_answer(case["key"]) == case["answer"]
    messages = vectors["messages"]
    assert protocol.read_pose(messages["robot_pose"]["data"]).position == (0.0, 0.0, 0.32)
    board = protocol.read_low_state(messages["lowstate"]["data"])
    assert (board.battery, board.temperature) == (87.0, 35.0)
    assert (
        board.low_state.current == pytest.approx(2.481) and len(board.low_state.joint_angles) == 12
    )
    assert protocol.read_sport_state(messages["sportmodestate"]["data"]).mode == 1
    assert protocol.fault_list(messages["add_error"]["data"]) == [(1758148000.0, 300, 4)]
    assert protocol.fault_list(messages["errors"]["data"]) == [(1758148000.0, 600, 4)]


def test_pose_and_board_are_read_with_their_units() -> None:
    pose = protocol.read_pose(POSE)
    assert pose.position == (1.0, -2.0, 0.32) and pose.orientation == (0.0, 0.0, 1.0, 0.0)
    assert pose.device_stamp == pytest.approx(1796054665.5)
    board = protocol.read_low_state(LOW)
    assert board.voltage == 28.3 and board.temperature == 41.0
    assert board.low_state.roll_pitch_yaw == (0.1, -0.2, 0.3)
    assert board.low_state.foot_forces == (97.0, 84.0, 81.0, 80.0)


@pytest.mark.parametrize("stamp", [None, "now", {}, {"sec": 1e999, "nanosec": 0}, {"sec": "1"}])
def test_a_pose_is_not_lost_for_its_stamp(stamp: Any) -> None:
    assert math.isnan(protocol.read_pose({**POSE, "header": {"stamp": stamp}}).device_stamp)


READERS = (
    (protocol.read_pose, POSE),
    (protocol.read_low_state, LOW),
    (protocol.read_sport_state, {"mode": 1, "body_height": 0.3, "error_code": 100}),
    (protocol.fault_list, [[1, 300, 4]]),
)
POISON = (None, True, "x", [], {}, [1], {"a": 1}, math.nan, math.inf, -1e308, 10**400, 0)


@pytest.mark.parametrize("reader, good", READERS, ids=lambda value: getattr(value, "__name__", ""))
def test_no_damage_raises_anything_else(reader: Any, good: Any) -> None:
    rng = np.random.default_rng(3)
    reader(good)
    for _ in range(600):
        damaged = json.loads(json.dumps(good))
        node, key = {"root": damaged}, "root"
        while isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.85:  # type: ignore[index]
            node = node[key]  # type: ignore[index, assignment]
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            key = keys[int(rng.integers(len(keys)))]
        if node == {"root": damaged}:
            continue
        node[key] = POISON[int(rng.integers(len(POISON)))]  # type: ignore[index, assignment]
        try:
            reader(damaged)
        except protocol.MessageError:
            continue


@pytest.mark.parametrize("value", POISON)
def test_what_is_no_message_at_all_is_refused(value: Any) -> None:
    for reader, _ in READERS[:3]:
        with pytest.raises(protocol.MessageError):
            reader(value)


def test_every_sport_command_has_a_number_in_both_generations() -> None:
    for mode in ("normal", "mcf"):
        numbers = protocol.sport_commands(mode)
        assert set(SPORT_COMMANDS) <= set(numbers)
        assert len(set(numbers.values())) == len(numbers), "no number means two things"
    assert protocol.sport_commands("mcf")["BackFlip"] != protocol.sport_commands("")["BackFlip"]


def test_faults_are_sentences_one_for_each_bit() -> None:
    assert protocol.fault_sentences(300, 0x4 | 0x10) == (
        "The robot reports a fault of a motor: its driver is too hot.",
        "The robot reports a fault of a motor: its winding is too hot.",
    )
    assert "code 4000 of 300" in protocol.fault_sentences(300, 0x4000)[0]
    assert protocol.fault_sentences(900, 0) == ("The robot reports a fault of source 900.",)
    assert protocol.fault_sentences(300, -5)


def test_being_in_a_mode_already_is_success_and_all_else_has_a_sentence() -> None:
    assert protocol.code_sentence(0) == protocol.code_sentence(7004) == ""
    assert all(protocol.code_sentence(code) for code in (3203, 4201, 1, -1, 99999))


@pytest.mark.parametrize(
    ("mode", "height", "tilt", "posture"),
    [
        (1, 0.32, 0.0, Posture.STANDING),
        (3, 0.30, 0.2, Posture.STANDING),
        (1, 0.08, 0.0, Posture.LYING),
        (0, 0.20, 0.0, Posture.CHANGING),
        (10, 0.25, 0.4, Posture.SITTING),
        (7, 0.10, 0.0, Posture.DAMPED),
        (1, 0.15, 1.2, Posture.FALLEN),
        (99, 0.32, 0.0, Posture.STANDING),
    ],
)
def test_posture_follows_from_mode_height_and_tilt(
    mode: int, height: float, tilt: float, posture: Posture
) -> None:
    state = protocol.SportState(mode, height, 0)
    assert protocol.posture_of(state, height, tilt) is posture


def test_numbers_that_json_does_not_know_never_leave() -> None:
    with pytest.raises(ValueError):
        protocol.request(protocol.SPORT, protocol.MOVE, 1, protocol.move_parameter(math.nan, 0, 0))
