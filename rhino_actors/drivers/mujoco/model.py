"""The Go2 as an MJCF of primitive geoms, our own text from published figures, and every name in it.

The base stands on planar joints that motors with limited force drive, so that it moves as asked and whatever it
meets holds it. Trunk height, pitch, roll and the legs are joints whose coordinates the simulation sets; their bodies
weigh next to nothing and there is no gravity, so they do not act back. One bumper has contacts; the rest is for the
lidar and the camera. MuJoCo is imported by `compile_model` alone.
The body that walks is written in `walking_model`; `compile_model` gives either.
"""

from typing import TYPE_CHECKING

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco.gait import (
    ABDUCTION,
    FOOT_RADIUS,
    HIP_X,
    HIP_Y,
    LEGS,
    SHANK,
    THIGH,
)
from rhino_actors.drivers.mujoco.walking_model import TRUNK_BODY as TRUNK_BODY
from rhino_actors.drivers.mujoco.walking_model import compile_walking_model
from rhino_actors.drivers.mujoco.worlds.scene import (
    BODY_GROUP,
    BUMPER_GROUP,
    HEAD_GROUP,
    World,
)

if TYPE_CHECKING:
    import mujoco

TIMESTEP = 0.002  # [s]

# Names in the model. Coordinates come in the order of these joints.
PLANAR_JOINTS = ("base_x", "base_y", "base_yaw")
TRUNK_JOINTS = ("trunk_z", "trunk_pitch", "trunk_roll")
LEG_JOINTS = tuple(f"{leg[0]}_{part}" for leg in LEGS for part in ("abduction", "hip", "knee"))
LIDAR_SITE = "lidar"
CAMERA = "front"
SETTLE_SITES = "settle_"  # prefix of the sites that may touch the floor

# Mounts in the trunk's frame [m].
LIDAR_MOUNT = (0.0, 0.0, 0.14)  # on the back, high enough that only the lowest ring meets the robot
CAMERA_MOUNT = (0.345, 0.0, 0.045)
CAMERA_FOVY = 48.6  # [deg] pinhole equivalent of the Go2's front camera

TRUNK_SIZE = (0.3762, 0.0935, 0.114)  # [m]
MASS = 15.0  # [kg]
YAW_INERTIA = 0.45  # [kg m2]
RESPONSE_TIME = 0.10  # [s] in which a velocity is taken up, below the force limits
MAX_ACCELERATION = 4.0  # [m/s2]
MAX_YAW_ACCELERATION = 12.0  # [rad/s2]
BUMPER_BOTTOM = 0.06  # [m] above the floor
BUMPER_TOP = 0.50  # [m]

_SHELL = "0.80 0.81 0.83 1"
_DARK = "0.15 0.15 0.17 1"
_ACCENT = "0.20 0.22 0.25 1"


def build_mjcf(world: World, config: MujocoConfig, robot: RobotConfig) -> str:
    """Return the MJCF of the robot in a world."""
    return f"""<mujoco model="rhino {world.name} {world.seed}">
<compiler angle="radian" autolimits="true"/>
<option timestep="{TIMESTEP}" integrator="implicitfast" gravity="0 0 0"/>
<visual>
  <global offwidth="{config.camera_width}" offheight="{config.camera_height}"/>
  <headlight ambient="0.34 0.34 0.36" diffuse="0.22 0.22 0.22" specular="0 0 0"/>
  <map znear="0.002" zfar="6"/>
  <quality shadowsize="0" offsamples="0" numslices="12" numstacks="8" numquads="2"/>
</visual>
<asset>
{world.asset_mjcf()}
</asset>
<worldbody>
{world.body_mjcf()}
{_robot(robot)}
</worldbody>
<actuator>
{_drive("base_x", MASS, MAX_ACCELERATION)}
{_drive("base_y", MASS, MAX_ACCELERATION)}
{_drive("base_yaw", YAW_INERTIA, MAX_YAW_ACCELERATION)}
</actuator>
</mujoco>"""


def compile_model(world: World, config: MujocoConfig, robot: RobotConfig) -> "mujoco.MjModel":
    """Return the compiled model of the base that the config names."""
    if config.base == "walking":
        return compile_walking_model(world, config, mounts=_mounts())
    import mujoco

    return mujoco.MjModel.from_xml_string(build_mjcf(world, config, robot))


def _drive(joint: str, inertia: float, acceleration: float) -> str:
    force = inertia * acceleration
    return (
        f'<velocity name="{joint}" joint="{joint}" kv="{inertia / RESPONSE_TIME:.4g}" '
        f'forcerange="{-force:.4g} {force:.4g}"/>'
    )


def _robot(robot: RobotConfig) -> str:
    # The posture's joints carry rotor inertia and no load to speak of.
    set_joint = 'armature="1"'
    return f"""<body name="base">
<joint name="base_x" type="slide" axis="1 0 0"/>
<joint name="base_y" type="slide" axis="0 1 0"/>
<joint name="base_yaw" type="hinge" axis="0 0 1"/>
<inertial pos="0 0 0.25" mass="{MASS}" diaginertia="{YAW_INERTIA} {YAW_INERTIA} {YAW_INERTIA}"/>
{_bumper(robot)}
<body name="{TRUNK_BODY}">
<joint name="trunk_z" type="slide" axis="0 0 1" {set_joint}/>
<joint name="trunk_pitch" type="hinge" axis="0 1 0" {set_joint}/>
<joint name="trunk_roll" type="hinge" axis="1 0 0" {set_joint}/>
<inertial pos="0 0 0" mass="1e-4" diaginertia="1e-7 1e-7 1e-7"/>
{_trunk()}
{chr(10).join(_leg(name, side_x, side_y, set_joint) for name, side_x, side_y, _ in LEGS)}
</body>
</body>"""


def _bumper(robot: RobotConfig) -> str:
    """Return the contact shape: as long and wide as the body, round at both ends, without friction."""
    radius = robot.width / 2.0
    straight = max(robot.length / 2.0 - radius, 0.001)
    middle, half = (BUMPER_TOP + BUMPER_BOTTOM) / 2.0, (BUMPER_TOP - BUMPER_BOTTOM) / 2.0
    common = f'group="{BUMPER_GROUP}" contype="0" conaffinity="1" condim="1" mass="0"'
    ends = "\n".join(
        f'<geom name="bumper_{end}" type="cylinder" pos="{x:.4f} 0 {middle}" size="{radius:.4f} {half}" {common}/>'
        for end, x in (("front", straight), ("rear", -straight))
    )
    return (
        f'<geom name="bumper" type="box" pos="0 0 {middle}" size="{straight:.4f} {radius:.4f} {half}" '
        f"{common}/>\n{ends}"
    )


def _geom(
    name: str, kind: str, size: str, look: str, *, at: str = "", group: int = BODY_GROUP
) -> str:
    return (
        f'<geom name="{name}" type="{kind}" size="{size}" {at} rgba="{look}" group="{group}" '
        'contype="0" conaffinity="0" mass="0"/>'
    )


def _trunk() -> str:
    length, width, height = (edge / 2.0 for edge in TRUNK_SIZE)
    lines = [
        _geom("trunk", "box", f"{length} {width} {height}", _SHELL),
        _geom("spine", "box", f"{length - 0.05} {width + 0.025} 0.025", _DARK, at='pos="0 0 0.01"'),
        _geom(
            "neck", "capsule", "0.045", _DARK, at='fromto="0.18 0 0 0.27 0 0.01"', group=HEAD_GROUP
        ),
        _geom(
            "head", "box", "0.035 0.052 0.034", _SHELL, at='pos="0.293 0 0.02"', group=HEAD_GROUP
        ),
        _geom(
            "face", "box", "0.006 0.044 0.026", _ACCENT, at='pos="0.330 0 0.024"', group=HEAD_GROUP
        ),
        _geom("chin", "sphere", "0.040", _DARK, at='pos="0.285 0 -0.02"', group=HEAD_GROUP),
        _geom(
            "lidar_dome", "cylinder", "0.03 0.045", _ACCENT, at='pos="0 0 0.10"', group=HEAD_GROUP
        ),
        _mounts(),
    ]
    corners = [
        (x, y, z) for x in (-length, 0.30) for y in (-width, width) for z in (-height, height)
    ]
    lines += [_settle(f"trunk_{index}", corner, 0.005) for index, corner in enumerate(corners)]
    return "\n".join(lines)


def _mounts() -> str:
    """Return what the trunk carries: the lidar's site and the camera."""
    # MuJoCo cameras look along -z with +y up; this one looks along the body's +x.
    return f"""<site name="{LIDAR_SITE}" pos="{_triple(LIDAR_MOUNT)}" size="0.01" group="5"/>
<camera name="{CAMERA}" pos="{_triple(CAMERA_MOUNT)}" xyaxes="0 -1 0 0 0 1" fovy="{CAMERA_FOVY}"/>"""


def _leg(name: str, side_x: int, side_y: int, set_joint: str) -> str:
    inertial = '<inertial pos="0 0 0" mass="1e-4" diaginertia="1e-7 1e-7 1e-7"/>'
    return f"""<body name="{name}_hip" pos="{side_x * HIP_X} {side_y * HIP_Y} 0">
<joint name="{name}_abduction" axis="1 0 0" {set_joint}/>{inertial}
{_geom(f"{name}_hip", "cylinder", "0.046 0.02", _DARK, at=f'pos="0 {side_y * 0.04} 0" zaxis="1 0 0"')}
<body name="{name}_thigh" pos="0 {side_y * ABDUCTION} 0">
<joint name="{name}_hip" axis="0 1 0" {set_joint}/>{inertial}
{_geom(f"{name}_motor", "cylinder", "0.044 0.022", _ACCENT, at=f'pos="0 {-side_y * 0.02} 0" zaxis="0 1 0"')}
{_geom(f"{name}_thigh", "capsule", "0.024", _SHELL, at=f'fromto="0 0 0 0 0 {-THIGH + 0.02}"')}
<body name="{name}_shank" pos="0 0 {-THIGH}">
<joint name="{name}_knee" axis="0 1 0" {set_joint}/>{inertial}
{_geom(f"{name}_shank", "capsule", "0.014", _DARK, at=f'fromto="0 0 0 0 0 {-SHANK}"')}
{_geom(f"{name}_foot", "sphere", f"{FOOT_RADIUS}", _DARK, at=f'pos="0 0 {-SHANK}"')}
{_settle(f"{name}_knee", (0.0, 0.0, 0.0), 0.024)}
{_settle(f"{name}_foot", (0.0, 0.0, -SHANK), FOOT_RADIUS)}
</body></body></body>"""


def _settle(name: str, at: tuple[float, float, float], radius: float) -> str:
    return f'<site name="{SETTLE_SITES}{name}" pos="{_triple(at)}" size="{radius}" group="5"/>'


def _triple(values: tuple[float, float, float]) -> str:
    return " ".join(f"{value:.6g}" for value in values)
