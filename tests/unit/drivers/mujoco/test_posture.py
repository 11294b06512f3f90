import math

import numpy as np
import pytest

from rhino_actors.drivers.mujoco.gait import ABDUCTION, HIP_X, HIP_Y, LEGS, STAND_LENGTH
from rhino_actors.drivers.mujoco.kinematics import foot_place
from rhino_actors.drivers.mujoco.posture import PERFORMANCES, STAND, PostureMachine
from rhino_actors.drivers.platform import ACROBATICS, SPORT_COMMANDS
from rhino_actors.messages.platform import Posture


def settled(machine: PostureMachine, seconds: float = 12.0) -> PostureMachine:
    for _ in range(round(seconds / 0.02)):
        machine.step(0.02)
    return machine


def after(*commands: str) -> PostureMachine:
    machine = PostureMachine()
    for command in commands:
        assert machine.command(command).accepted, command
        settled(machine)
    return machine


def test_it_starts_standing_and_takes_velocity() -> None:
    assert PostureMachine().posture is Posture.STANDING
    assert PostureMachine().takes_velocity


@pytest.mark.parametrize(
    ("commands", "posture"),
    [
        (["StandDown"], Posture.LYING),
        (["StandDown", "StandUp"], Posture.STANDING),
        (["Sit"], Posture.SITTING),
        (["Sit", "RiseSit"], Posture.STANDING),
        (["Damp"], Posture.DAMPED),
        (["Damp", "StandUp"], Posture.STANDING),
        (["Damp", "StandDown"], Posture.LYING),
        (["StandDown", "RecoveryStand"], Posture.STANDING),
        (["BalanceStand"], Posture.STANDING),
        (["StopMove"], Posture.STANDING),
    ],
)
def test_commands_lead_to_their_posture(commands: list[str], posture: Posture) -> None:
    machine = after(*commands)
    assert machine.posture is posture
    assert machine.takes_velocity is (posture is Posture.STANDING)


@pytest.mark.parametrize("name", sorted(PERFORMANCES))
def test_a_performance_takes_no_velocity_and_ends_as_it_began(name: str) -> None:
    machine = PostureMachine()
    machine.command(name)
    assert machine.posture is Posture.CHANGING
    assert not machine.takes_velocity
    settled(machine)
    assert machine.posture is Posture.STANDING
    assert np.array_equal(machine.pose, STAND)


@pytest.mark.parametrize("name", sorted(ACROBATICS))
def test_flips_and_jumps_are_refused_with_code_and_sentence(name: str) -> None:
    machine = PostureMachine()
    answer = machine.command(name)
    assert not answer.accepted
    assert answer.code != 0
    assert answer.message.endswith(".")
    assert machine.takes_velocity


@pytest.mark.parametrize("name", ["Hello", "Dance1", "Sit", "RiseSit", "Pose", "Euler"])
def test_what_needs_another_posture_is_refused_and_changes_nothing(name: str) -> None:
    machine = after("StandDown")
    answer = machine.command(name)
    assert not answer.accepted
    assert name in answer.message
    assert machine.posture is Posture.LYING


def test_stop_move_cuts_a_performance_short() -> None:
    machine = PostureMachine()
    machine.command("Dance1")
    settled(machine, 1.0)
    assert machine.command("StopMove").accepted
    settled(machine, 1.0)
    assert machine.posture is Posture.STANDING


def test_stop_move_does_not_keep_a_robot_from_lying_down() -> None:
    machine = PostureMachine()
    machine.command("StandDown")
    settled(machine, 0.3)
    machine.command("StopMove")
    assert settled(machine).posture is Posture.LYING


def test_damping_counts_at_once_and_beats_a_motion() -> None:
    machine = PostureMachine()
    machine.command("Dance2")
    settled(machine, 0.5)
    assert machine.command("Damp").accepted
    assert machine.posture is Posture.DAMPED


def test_a_pose_leans_the_trunk_and_keeps_the_feet_where_they_are() -> None:
    machine = PostureMachine()
    answer = machine.command("Pose", {"roll": 0.2, "pitch": -0.1, "height": -0.05})
    assert answer.accepted and answer.parameters == {"roll": 0.2, "pitch": -0.1, "height": -0.05}
    assert machine.takes_velocity
    settled(machine, 1.0)
    assert machine.pose[:2] == pytest.approx((-0.1, 0.2))
    for index, (_, side_x, side_y, _) in enumerate(LEGS):
        foot = np.empty(3)
        foot_place(machine.pose[2 + 3 * index : 5 + 3 * index].copy(), side_y, foot)
        foot += (side_x * HIP_X, side_y * HIP_Y, 0.0)
        world = turned(foot, roll=0.2, pitch=-0.1)
        stood = (side_x * HIP_X, side_y * (HIP_Y + ABDUCTION), 0.05 - STAND_LENGTH)
        assert world == pytest.approx(stood, abs=1e-6)


def turned(place: np.ndarray, *, roll: float, pitch: float) -> np.ndarray:
    """Turn a place by roll about x, then by pitch about y."""
    x, y, z = place
    y, z = math.cos(roll) * y - math.sin(roll) * z, math.sin(roll) * y + math.cos(roll) * z
    x, z = math.cos(pitch) * x + math.sin(pitch) * z, math.cos(pitch) * z - math.sin(pitch) * x
    return np.array([x, y, z])


@pytest.mark.parametrize("ends", ["StopMove", "BalanceStand", "StandUp", "RecoveryStand", "walk"])
def test_a_pose_lasts_until_something_ends_it(ends: str) -> None:
    machine = PostureMachine()
    machine.command("Euler", {"pitch": 0.3})
    assert settled(machine, 5.0).pose[0] == pytest.approx(0.3)
    machine.level() if ends == "walk" else machine.command(ends)
    assert np.array_equal(settled(machine, 2.0).pose, STAND)


def test_a_driven_base_says_that_it_leaves_out_yaw() -> None:
    answer = PostureMachine().command("Pose", {"roll": 0.1, "yaw": 0.2})
    assert answer.parameters == {"roll": 0.1, "yaw": 0.0} and answer.message


HELPS_THE_FALLEN = {"RecoveryStand", "StopMove", "Damp"}


@pytest.mark.parametrize("name", sorted(set(SPORT_COMMANDS) - HELPS_THE_FALLEN))
def test_a_fallen_robot_takes_only_recovery(name: str) -> None:
    machine = PostureMachine()
    machine.tip_over(1.2, 0.0)
    settled(machine, 1.0)
    assert not machine.command(name).accepted
    assert machine.posture is Posture.FALLEN


def test_a_fallen_robot_stays_fallen_when_damped_and_gets_up_by_recovery() -> None:
    machine = PostureMachine()
    machine.tip_over(1.2, 0.0)
    settled(machine, 1.0)
    assert machine.pose[1] == pytest.approx(1.2)
    machine.command("Damp")
    assert settled(machine, 3.0).posture is Posture.FALLEN
    assert machine.command("RecoveryStand").accepted
    assert machine.posture is Posture.CHANGING
    assert settled(machine).posture is Posture.STANDING
    assert machine.pose[1] == 0.0


@pytest.mark.parametrize("name", sorted(set(SPORT_COMMANDS) - ACROBATICS))
def test_no_motion_jumps(name: str) -> None:
    machine = PostureMachine()
    machine.command(name)
    last = machine.pose
    for _ in range(600):
        machine.step(0.02)
        assert np.abs(machine.pose - last).max() < 0.2  # 10 rad/s
        last = machine.pose


def test_every_sport_command_is_known() -> None:
    for name in SPORT_COMMANDS:
        PostureMachine().command(name)
    with pytest.raises(ValueError, match="Moonwalk"):
        PostureMachine().command("Moonwalk")
