"""The Go2 as a body with weight: a free trunk on twelve driven joints, our own text from published figures.

Masses, inertias, link lengths, joint limits and torques are those of the public URDF of the Go2; rotor inertia,
damping and dry friction of the joints are usual values for its motors. All shapes are primitives. The robot touches
the scene and a ground plane of its own (contact bit 1), and its legs the trunk (bit 2), but not each other.
MuJoCo is imported by `compile_walking_model` alone.
"""

from typing import TYPE_CHECKING

from rhino_actors.config import MujocoConfig
from rhino_actors.drivers.mujoco.gait import (
    ABDUCTION,
    FOOT_RADIUS,
    HIP_X,
    HIP_Y,
    LEGS,
    SHANK,
    STAND_HIP,
    STAND_KNEE,
    STAND_LENGTH,
    THIGH,
)
from rhino_actors.drivers.mujoco.worlds.scene import (
    BODY_GROUP,
    BUMPER_GROUP,
    HEAD_GROUP,
    World,
)

if TYPE_CHECKING:
    import mujoco

TIMESTEP = 0.002  # [s]
FAST_TIMESTEP = 0.004  # [s]

TRUNK_BODY = "trunk"
GROUND = "ground"
FREE_JOINT = "base"
START_HEIGHT = STAND_LENGTH + FOOT_RADIUS  # [m] of the trunk above the floor, standing

# Joint limits [rad] and torques [N m]: abduction, front hip, rear hip, knee.
ABDUCTION_RANGE = (-1.0472, 1.0472)
FRONT_HIP_RANGE = (-1.5708, 3.4907)
REAR_HIP_RANGE = (-0.5236, 4.5379)
KNEE_RANGE = (-2.7227, -0.83776)
HIP_TORQUE = 23.7
KNEE_TORQUE = 45.43

# What a joint resists with: damping [N m s/rad], rotor inertia [kg m2], dry friction [N m].
JOINT_DAMPING = 0.3
JOINT_ARMATURE = 0.0075
JOINT_FRICTION = 0.2

FOOT_FRICTION = 0.8
LEG_FRICTION = 0.5
# The shell slides along walls and over the floor; with the default of 1 the head would stick to what it meets.
SHELL_FRICTION = 0.3

_SHELL = "0.80 0.81 0.83 1"
_DARK = "0.15 0.15 0.17 1"
_ACCENT = "0.20 0.22 0.25 1"


def build_walking_mjcf(
    world: World, config: MujocoConfig, *, mounts: str = "", ground: bool = True
) -> str:
    """Return the MJCF of the walking robot in a world.

    Args:
        world: the scene.
        config: `fast` chooses the time step, the camera's size that of the picture buffer.
        mounts: sites and cameras of the trunk, as MJCF.
        ground: add the plane that carries the robot; without it the scene must.
    """
    timestep = FAST_TIMESTEP if config.fast else TIMESTEP
    plane = (
        f'<geom name="{GROUND}" type="plane" size="200 200 0.1" group="{BUMPER_GROUP}" '
        'contype="1" conaffinity="0" rgba="0 0 0 0"/>'
        if ground
        else ""
    )
    return f"""<mujoco model="rhino walking {world.name} {world.seed}">
<compiler angle="radian" autolimits="true"/>
<option timestep="{timestep}" integrator="implicitfast" cone="pyramidal" iterations="20"/>
<size njmax="600"/>
<visual>
  <global offwidth="{config.camera_width}" offheight="{config.camera_height}"/>
  <headlight ambient="0.34 0.34 0.36" diffuse="0.22 0.22 0.22" specular="0 0 0"/>
  <map znear="0.002" zfar="6"/>
  <quality shadowsize="0" offsamples="0" numslices="12" numstacks="8" numquads="2"/>
</visual>
<default>
  <default class="joint">
    <joint damping="{JOINT_DAMPING}" armature="{JOINT_ARMATURE}" frictionloss="{JOINT_FRICTION}"/>
  </default>
</default>
<asset>
{world.asset_mjcf()}
</asset>
<worldbody>
{world.body_mjcf()}
{plane}
{robot_mjcf(mounts)}
</worldbody>
<actuator>
{_motors()}
</actuator>
<sensor>
{_sensors()}
</sensor>
</mujoco>"""


def compile_walking_model(
    world: World, config: MujocoConfig, *, mounts: str = "", ground: bool = True
) -> "mujoco.MjModel":
    """Return the compiled model; arguments as in `build_walking_mjcf`."""
    import mujoco

    return mujoco.MjModel.from_xml_string(
        build_walking_mjcf(world, config, mounts=mounts, ground=ground)
    )


def robot_mjcf(mounts: str = "") -> str:
    """Return the robot's body, standing at the origin; `mounts` are more elements of its trunk."""
    legs = "\n".join(_leg(name, side_x, side_y) for name, side_x, side_y, _ in LEGS)
    return f"""<body name="{TRUNK_BODY}" pos="0 0 {START_HEIGHT:.6f}">
<freejoint name="{FREE_JOINT}"/>
<inertial pos="0.021112 0 -0.005366" mass="6.921" diaginertia="0.02448 0.098077 0.107"/>
{_trunk()}
<site name="imu" pos="-0.02557 0 0.04232" size="0.005" group="5"/>
{mounts}
{legs}
</body>"""


def standing_coordinates() -> list[float]:
    """Return qpos of the robot standing at the origin: place, quaternion w x y z, 12 joints."""
    return [0.0, 0.0, START_HEIGHT, 1.0, 0.0, 0.0, 0.0, *(0.0, STAND_HIP, STAND_KNEE) * 4]


def _shell(name: str, kind: str, size: str, look: str, at: str, group: int) -> str:
    return (
        f'<geom name="{name}" type="{kind}" size="{size}" {at} rgba="{look}" group="{group}" mass="0" '
        f'contype="2" conaffinity="1" condim="3" friction="{SHELL_FRICTION}" priority="1"/>'
    )


def _trunk() -> str:
    return "\n".join(
        (
            _shell("trunk", "box", "0.1881 0.04675 0.057", _SHELL, "", BODY_GROUP),
            _shell("belly", "box", "0.13 0.075 0.045", _DARK, 'pos="0 0 -0.005"', BODY_GROUP),
            _shell("neck", "capsule", "0.045", _DARK, 'fromto="0.18 0 0 0.27 0 0.005"', HEAD_GROUP),
            _shell("head", "box", "0.035 0.05 0.034", _SHELL, 'pos="0.295 0 0.01"', HEAD_GROUP),
            _shell("chin", "sphere", "0.042", _ACCENT, 'pos="0.293 0 -0.04"', HEAD_GROUP),
        )
    )


def _leg(name: str, side_x: int, side_y: int) -> str:
    hip_low, hip_high = FRONT_HIP_RANGE if side_x > 0 else REAR_HIP_RANGE
    limb = f'contype="0" conaffinity="3" condim="3" friction="{LEG_FRICTION}" priority="1"'
    unseen = 'contype="0" conaffinity="0"'
    hip_at = f'pos="0 {side_y * 0.03} 0" zaxis="1 0 0"'
    motor_at = f'pos="0 {-side_y * 0.015} 0" zaxis="0 1 0"'

    def geom(part: str, kind: str, size: str, look: str, at: str, contact: str) -> str:
        return (
            f'<geom name="{name}_{part}" type="{kind}" size="{size}" {at} rgba="{look}" '
            f'group="{BODY_GROUP}" mass="0" {contact}/>'
        )

    return f"""<body name="{name}_hip" pos="{side_x * HIP_X} {side_y * HIP_Y} 0">
<joint name="{name}_abduction" class="joint" axis="1 0 0" range="{ABDUCTION_RANGE[0]} {ABDUCTION_RANGE[1]}"/>
<inertial pos="{-side_x * 0.0054} {side_y * 0.00194} -0.000105" mass="0.678" diaginertia="0.00048 0.000884 0.000596"/>
{geom("hip", "cylinder", "0.046 0.03", _DARK, hip_at, limb)}
<body name="{name}_thigh" pos="0 {side_y * ABDUCTION} 0">
<joint name="{name}_hip" class="joint" axis="0 1 0" range="{hip_low} {hip_high}"/>
<inertial pos="-0.00374 {-side_y * 0.0223} -0.0327" mass="1.152" diaginertia="0.00584 0.0058 0.00103"/>
{geom("motor", "cylinder", "0.044 0.022", _ACCENT, motor_at, unseen)}
{geom("thigh", "capsule", "0.022", _SHELL, f'fromto="0 0 0 0 0 {-THIGH}"', limb)}
<body name="{name}_shank" pos="0 0 {-THIGH}">
<joint name="{name}_knee" class="joint" axis="0 1 0" range="{KNEE_RANGE[0]} {KNEE_RANGE[1]}"/>
<inertial pos="0.00435 {-side_y * 0.00077} -0.1358" mass="0.194" diaginertia="0.0014 0.00142 0.00004"/>
{geom("shank", "capsule", "0.013", _DARK, f'fromto="0 0 0 0 0 {-SHANK + 0.03}"', limb)}
<geom name="{name}_foot" type="sphere" size="{FOOT_RADIUS}" pos="0 0 {-SHANK}" rgba="{_DARK}" group="{BODY_GROUP}"
 mass="0" contype="0" conaffinity="3" condim="3" friction="{FOOT_FRICTION}" priority="2"/>
<site name="{name}_foot" pos="0 0 {-SHANK}" size="{FOOT_RADIUS + 0.004}" group="5"/>
</body></body></body>"""


def _motors() -> str:
    lines = []
    for name, *_ in LEGS:
        for part, torque in (
            ("abduction", HIP_TORQUE),
            ("hip", HIP_TORQUE),
            ("knee", KNEE_TORQUE),
        ):
            joint = f"{name}_{part}"
            lines.append(f'<motor name="{joint}" joint="{joint}" ctrlrange="{-torque} {torque}"/>')
    return "\n".join(lines)


def _sensors() -> str:
    feet = [f'<touch name="{name}_touch" site="{name}_foot"/>' for name, *_ in LEGS]
    return "\n".join(
        (
            *feet,
            '<gyro name="gyro" site="imu"/>',
            '<accelerometer name="accelerometer" site="imu"/>',
        )
    )
