"""What calibration makes of a drive, on drives whose truth is known, and of a peer that drives oddly."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from rhino_actors.config import Go2Config, PathsConfig
from rhino_actors.drivers.go2.calibration import (
    Calibration,
    apply_calibration,
    calibration_path,
    load_calibration,
    save_calibration,
)
from rhino_actors.drivers.go2.discovery import FoundRobot, read_answer
from rhino_actors.drivers.go2.measure import Sample, measure, works
from rhino_actors.errors import ConfigError

BEGUN, ENDED = 10.0, 11.5


def drive(
    axis: str, velocity: float, latency: float, hold: float, yaw: float = 0.7, noise: float = 0.0
) -> list[Sample]:
    """Return what 20 Hz odometry shows of one drive."""
    rng, samples = np.random.default_rng(4), []
    for stamp in np.arange(9.5, 16.0, 0.05):
        way = velocity * (min(max(stamp, BEGUN + latency), ENDED + hold) - BEGUN - latency)
        x, y, turn = 0.0, 0.0, yaw
        if axis == "vx":
            x, y = way * math.cos(yaw), way * math.sin(yaw)
        elif axis == "vy":
            x, y = -way * math.sin(yaw), way * math.cos(yaw)
        else:
            turn = math.remainder(yaw + way, math.tau)
        dx, dy = rng.normal(0.0, noise, 2) if noise else (0.0, 0.0)
        samples.append(Sample(float(stamp), x + dx, y + dy, turn))
    return samples


@pytest.mark.parametrize("axis", ["vx", "vy", "omega"])
@pytest.mark.parametrize(
    ("velocity", "latency", "hold"), [(0.3, 0.1, 1.0), (-0.25, 0.3, 0.4), (0.6, 0.05, 2.0)]
)
def test_velocity_sign_latency_and_hold_are_found(
    axis: str, velocity: float, latency: float, hold: float
) -> None:
    motion = measure(drive(axis, velocity, latency, hold), axis, BEGUN, ENDED)
    assert motion.velocity == pytest.approx(velocity, rel=0.02)
    assert motion.latency == pytest.approx(latency, abs=0.08)
    assert motion.hold == pytest.approx(hold, abs=0.1)
    assert works(motion, 0.3)


def test_noise_of_a_centimetre_does_not_spoil_it() -> None:
    motion = measure(drive("vx", 0.3, 0.1, 1.0, noise=0.005), "vx", BEGUN, ENDED)
    assert motion.velocity == pytest.approx(0.3, rel=0.1)
    assert motion.hold == pytest.approx(1.0, abs=0.3)


def test_a_robot_that_stands_is_told_from_one_that_moves() -> None:
    motion = measure(drive("vx", 0.0, 0.0, 0.0), "vx", BEGUN, ENDED)
    assert not works(motion, 0.3) and math.isnan(motion.hold)


def test_too_little_odometry_is_an_error() -> None:
    with pytest.raises(ValueError, match="rarely"):
        measure(drive("vx", 0.3, 0.1, 1.0)[::40], "vx", BEGUN, ENDED)


FOUND = Calibration("joystick", 1.1, 1.2, 0.9, 0.5, 1.0, -0.4, 0.1, 1.5, 1.7e9)


def test_what_was_found_is_kept_for_that_robot_and_used(tmp_path: Path) -> None:
    paths = PathsConfig(data=str(tmp_path))
    save_calibration("rex", FOUND, paths)
    assert load_calibration("rex", paths) == FOUND and load_calibration("other", paths) is None
    config = apply_calibration(Go2Config(robot_ip="1.2.3.4"), load_calibration("rex", paths))
    assert (config.velocity_api, config.scale_omega, config.stick_vy) == ("joystick", 0.9, 1.0)
    assert config.robot_ip == "1.2.3.4"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", json.dumps({"velocity_api": "move"})])
def test_a_damaged_file_is_told_with_what_to_do(tmp_path: Path, text: str) -> None:
    paths = PathsConfig(data=str(tmp_path))
    path = calibration_path("rex", paths)
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_calibration("rex", paths)


@pytest.mark.parametrize(
    "change",
    [
        {"velocity_api": "legs"},
        {"velocity_api": ["move"]},
        {"scale_vy": 40.0},
        {"scale_omega": True},
        {"stick_vx": -11.0},
        {"hold_s": math.nan},
        {"stick_vy": 10**400},
    ],
    ids=range(7),
)
def test_a_value_that_no_configuration_would_take_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    paths = PathsConfig(data=str(tmp_path))
    path = save_calibration("rex", FOUND, paths)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ConfigError, match="cannot be read"):
        load_calibration("rex", paths)


def test_an_answer_to_the_multicast_question_names_a_robot_or_nothing() -> None:
    assert read_answer(b'{"sn":"B42","ip":"10.0.0.7"}', "10.0.0.9") == FoundRobot("B42", "10.0.0.7")
    assert read_answer(b'{"sn":"B42"}', "10.0.0.9") == FoundRobot("B42", "10.0.0.9")
    for junk in (b"", b"{", b"[]", b"5", b'{"sn":5}', b'{"name":"unitree_dapengche"}', b"\xff\xfe"):
        assert read_answer(junk, "10.0.0.9") is None
