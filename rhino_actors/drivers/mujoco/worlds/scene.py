"""A scene as one list of boxes: from it come the MJCF, the truth grid and the floor that can be reached.

Frame: `odom`, which in the simulation starts as the world frame: the robot starts at the origin, facing +x.
Stands on numpy alone.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray

from rhino_actors.messages.grid import FREE, OCCUPIED, UNKNOWN, GridGeometry

# Geom groups: what the lidar and the camera see of what.
SCENE_GROUP = 0  # solid: lidar, contacts, camera
DECOR_GROUP = 1  # camera only: rugs, pictures, the ceiling
BODY_GROUP = 3  # the robot's trunk and legs: lidar (own returns are dropped), camera
HEAD_GROUP = 4  # the robot's head: not in the lidar's rays
BUMPER_GROUP = 5  # the robot's contact shape: seen by nobody

PERSON = "person_"  # prefix of the names of people's bodies and geoms, then their number

_SKY = (
    '<texture name="sky" type="skybox" builtin="gradient" rgb1="0.62 0.74 0.88" rgb2="0.32 0.38 0.46" '
    'width="128" height="768"/>'
)

Rgb = tuple[float, float, float]


class Box(NamedTuple):
    """An upright box in odom."""

    name: str
    center: tuple[float, float, float]  # [m]
    size: tuple[float, float, float]  # [m] full edges along its own x, y, z
    material: str = ""  # a material of the scene; empty: `rgb`
    rgb: Rgb = (0.6, 0.6, 0.6)
    yaw: float = 0.0  # [rad]
    solid: bool = True  # False: decoration for the camera


class Material(NamedTuple):
    """How a surface looks: a procedural texture that MuJoCo builds, or a plain colour."""

    name: str
    builtin: str  # checker, flat or gradient; empty: `rgb1` without a texture
    rgb1: Rgb
    rgb2: Rgb = (0.0, 0.0, 0.0)
    mark: str = "none"  # none, edge, cross or random
    mark_rgb: Rgb = (0.0, 0.0, 0.0)
    repeat: tuple[float, float] = (1.0, 1.0)  # times per metre of a plane or of a box's face
    cube: bool = False  # one picture for each face of a box, instead of one laid on it per metre
    emission: float = 0.0  # share of its colour that shows without light


class Light(NamedTuple):
    """A lamp that shines down."""

    position: tuple[float, float, float]  # [m]
    diffuse: Rgb = (0.45, 0.43, 0.4)


class Walk(NamedTuple):
    """A person and the loop that the person walks, again and again."""

    # [m] corners of the loop, in odom; the last leads back to the first.
    points: tuple[tuple[float, float], ...]
    speed: float = 0.8  # [m/s]
    shirt: Rgb = (0.7, 0.2, 0.2)
    trousers: Rgb = (0.2, 0.2, 0.3)


class Trap(NamedTuple):
    """A gap that a body as wide as the robot can begin to enter and not pass: there on purpose."""

    center: tuple[float, float]  # [m] in odom
    width: float  # [m]
    # [m] x_min, y_min, x_max, y_max of the floor behind it.
    pocket: tuple[float, float, float, float]


@dataclass(frozen=True)
class TruthGrid:
    """What a perfect map would show, for scoring and tests. Arrays are read-only."""

    occupancy: NDArray[np.int8]  # (rows, cols) 0 free, 100 occupied, -1 outside the building
    geometry: GridGeometry
    reachable: NDArray[np.bool_]  # (rows, cols) where the robot's centre can get to from the start

    @property
    def free_area(self) -> float:
        """Free floor [m2]."""
        return float(np.count_nonzero(self.occupancy == FREE)) * self.geometry.resolution**2

    @property
    def reachable_area(self) -> float:
        """Floor that the robot's centre can get to [m2]."""
        return float(np.count_nonzero(self.reachable)) * self.geometry.resolution**2


@dataclass(frozen=True)
class World:
    """A generated scene. The robot starts at the origin of odom, facing +x."""

    name: str
    seed: int
    boxes: tuple[Box, ...]
    materials: tuple[Material, ...]
    lights: tuple[Light, ...]
    interior: tuple[float, float, float, float]  # [m] x_min, y_min, x_max, y_max of what has floor
    people: tuple[Walk, ...] = ()
    traps: tuple[Trap, ...] = ()
    start: tuple[float, float] = (
        0.0,
        0.0,
    )  # [m] of odom's origin on the plan or map it was made from
    is_roofed: bool = True  # False: the sky shows above the walls
    # True: floor that no way leads to, however narrow, lies outside the building.
    only_connected: bool = False

    def truth_grid(
        self,
        resolution: float = 0.05,
        *,
        robot_radius: float = 0.30,
        min_height: float = 0.08,
        max_height: float = 0.60,
    ) -> TruthGrid:
        """Rasterise the solid boxes.

        A cell is occupied when any solid box between the two heights touches it.

        Args:
            resolution: cell edge [m]; the origin of odom lies on a cell corner.
            robot_radius: radius that the robot's centre keeps from every obstacle [m].
            min_height: boxes that end below this are driven over [m].
            max_height: boxes that begin above this are passed under [m].
        """
        x_min, y_min, x_max, y_max = self.interior
        col0, row0 = math.floor(x_min / resolution), math.floor(y_min / resolution)
        cols = math.ceil(x_max / resolution) - col0
        rows = math.ceil(y_max / resolution) - row0
        geometry = GridGeometry(resolution, (col0 * resolution, row0 * resolution), (rows, cols))
        occupied = np.zeros((rows, cols), dtype=np.bool_)
        for box in self.boxes:
            bottom = box.center[2] - box.size[2] / 2.0
            if box.solid and bottom < max_height and bottom + box.size[2] > min_height:
                _mark(occupied, geometry, box)
        xs = geometry.origin[0] + (np.arange(cols) + 0.5) * resolution
        ys = geometry.origin[1] + (np.arange(rows) + 0.5) * resolution
        inside = ((ys > y_min) & (ys < y_max))[:, None] & ((xs > x_min) & (xs < x_max))[None, :]
        start = geometry.cell_from_world(0.0, 0.0)
        if self.only_connected:
            inside &= flood(~occupied, start)
        occupancy = np.where(occupied, OCCUPIED, np.where(inside, FREE, UNKNOWN)).astype(np.int8)
        open_floor = ~_grow(occupancy != FREE, robot_radius / resolution)
        reachable = flood(open_floor, start)
        for array in (occupancy, reachable):
            array.flags.writeable = False
        return TruthGrid(occupancy, geometry, reachable)

    def asset_mjcf(self) -> str:
        """Return the textures and materials as the inside of an MJCF <asset>."""
        lines = [] if self.is_roofed else [_SKY]
        lines += [_material_mjcf(material) for material in self.materials]
        return "\n".join(lines)

    def body_mjcf(self) -> str:
        """Return floor, boxes and lights as the inside of an MJCF <worldbody>."""
        x_min, y_min, x_max, y_max = self.interior
        half = (max(x_max - x_min, y_max - y_min) / 2.0) + 2.0
        lines = [
            f'<geom name="floor" type="plane" size="{half:.3f} {half:.3f} 0.1" '
            f'pos="{(x_min + x_max) / 2:.4f} {(y_min + y_max) / 2:.4f} 0" material="floor" '
            f'group="{SCENE_GROUP}" contype="0" conaffinity="0"/>'
        ]
        lines += [_box_mjcf(box) for box in self.boxes]
        lines += [_person_mjcf(index, walk) for index, walk in enumerate(self.people)]
        lines += [
            f'<light pos="{_numbers(light.position)}" dir="0 0 -1" cutoff="85" exponent="1" '
            f'attenuation="1 0.05 0.04" diffuse="{_numbers(light.diffuse)}" specular="0.1 0.1 0.1" '
            'castshadow="false"/>'
            for light in self.lights
        ]
        return "\n".join(lines)


def _mark(occupied: NDArray[np.bool_], geometry: GridGeometry, box: Box) -> None:
    # A cell is touched when its centre lies within half a cell of the box, measured along the box's own axes.
    reach = math.hypot(box.size[0], box.size[1]) / 2.0 + geometry.resolution
    row0, col0 = geometry.cell_from_world(box.center[0] - reach, box.center[1] - reach)
    row1, col1 = geometry.cell_from_world(box.center[0] + reach, box.center[1] + reach)
    rows = np.arange(max(row0, 0), min(row1 + 1, geometry.shape[0]))
    cols = np.arange(max(col0, 0), min(col1 + 1, geometry.shape[1]))
    dx = geometry.origin[0] + (cols + 0.5) * geometry.resolution - box.center[0]
    dy = geometry.origin[1] + (rows + 0.5) * geometry.resolution - box.center[1]
    margin = 0.5 * geometry.resolution - 1e-6
    if box.yaw == 0.0:
        rows = rows[np.abs(dy) < box.size[1] / 2.0 + margin]
        cols = cols[np.abs(dx) < box.size[0] / 2.0 + margin]
        if len(rows) and len(cols):
            occupied[rows[0] : rows[-1] + 1, cols[0] : cols[-1] + 1] = True
        return
    cos, sin = math.cos(box.yaw), math.sin(box.yaw)
    along = cos * dx[None, :] + sin * dy[:, None]
    across = -sin * dx[None, :] + cos * dy[:, None]
    touched = (np.abs(along) < box.size[0] / 2.0 + margin) & (
        np.abs(across) < box.size[1] / 2.0 + margin
    )
    occupied[rows[:, None], cols[None, :]] |= touched


def _grow(blocked: NDArray[np.bool_], radius_cells: float) -> NDArray[np.bool_]:
    """Grow `blocked` by a disc of `radius_cells`; beyond the grid all is blocked."""
    reach = math.floor(radius_cells)
    rows, cols = blocked.shape
    padded = np.pad(blocked, reach, constant_values=True)
    grown = np.zeros_like(blocked)
    for drow in range(-reach, reach + 1):
        for dcol in range(-reach, reach + 1):
            if math.hypot(drow, dcol) <= radius_cells:
                grown |= padded[
                    reach + drow : reach + drow + rows, reach + dcol : reach + dcol + cols
                ]
    return grown


def flood(open_floor: NDArray[np.bool_], start: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the 4-connected part of `open_floor` that holds `start`; empty when `start` is blocked."""
    rows, cols = open_floor.shape
    reached = np.zeros_like(open_floor)
    if not (0 <= start[0] < rows and 0 <= start[1] < cols and open_floor[start]):
        return reached
    reached[start] = True
    # Unbroken stretches of open floor, numbered along the rows and along the columns: one reached cell of a stretch
    # gives all of it. Turns of the way, not its length, count the rounds.
    along = [_stretches(open_floor), _stretches(open_floor.T).T]
    count = 1
    while True:
        for stretches in along:
            found = np.zeros(int(stretches.max()) + 1, np.bool_)
            found[stretches[reached]] = True
            reached = found[stretches] & open_floor
        grown = int(np.count_nonzero(reached))
        if grown == count:
            return reached
        count = grown


def _stretches(open_floor: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Number the unbroken stretches along each row; what is blocked has the number of some stretch too."""
    begins = open_floor.copy()
    begins[:, 1:] &= ~open_floor[:, :-1]
    numbers: NDArray[np.int64] = np.cumsum(begins, dtype=np.int64).reshape(open_floor.shape)
    return numbers


def _material_mjcf(material: Material) -> str:
    shine = f'specular="0.1" shininess="0.2" emission="{material.emission:g}"'
    if not material.builtin:
        return f'<material name={quoteattr(material.name)} rgba="{_numbers(material.rgb1)} 1" {shine}/>'
    random = 'random="0.03" ' if material.mark == "random" else ""
    kind = 'type="cube" width="256"' if material.cube else 'type="2d" width="256" height="256"'
    texture = (
        f'<texture name={quoteattr(material.name)} {kind} builtin="{material.builtin}" '
        f'rgb1="{_numbers(material.rgb1)}" rgb2="{_numbers(material.rgb2)}" '
        f'mark="{material.mark}" {random}markrgb="{_numbers(material.mark_rgb)}"/>'
    )
    return (
        f"{texture}\n<material name={quoteattr(material.name)} texture={quoteattr(material.name)} "
        f'texuniform="{"false" if material.cube else "true"}" texrepeat="{_numbers(material.repeat)}" {shine}/>'
    )


def _box_mjcf(box: Box) -> str:
    colour = (
        f"material={quoteattr(box.material)}" if box.material else f'rgba="{_numbers(box.rgb)} 1"'
    )
    half = tuple(edge / 2.0 for edge in box.size)
    turn = f'euler="0 0 {box.yaw:.5f}" ' if box.yaw else ""
    group, contact = (SCENE_GROUP, 1) if box.solid else (DECOR_GROUP, 0)
    return (
        f'<geom name={quoteattr(box.name)} type="box" pos="{_numbers(box.center)}" size="{_numbers(half)}" '
        f'{turn}{colour} group="{group}" contype="{contact}" conaffinity="0"/>'
    )


def _numbers(values: tuple[float, ...]) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def _person_mjcf(index: int, walk: Walk) -> str:
    """Return a person: legs and trunk that the lidar sees and the robot can touch, and a head. Faces +x."""
    x, y = walk.points[0]
    solid = f'group="{SCENE_GROUP}" contype="1" conaffinity="0" condim="1"'
    skin, hair = "0.85 0.66 0.54 1", "0.20 0.14 0.10 1"
    shirt, trousers = _numbers(walk.shirt) + " 1", _numbers(walk.trousers) + " 1"
    parts = [
        ("leg_right", "capsule", "0.085", "0 -0.11 0.085 0 -0.10 0.82", trousers),
        ("leg_left", "capsule", "0.085", "0 0.11 0.085 0 0.10 0.82", trousers),
        ("trunk", "capsule", "0.17", "0 0 0.95 0 0 1.32", shirt),
        ("arm_right", "capsule", "0.05", "0.02 -0.24 1.36 0.10 -0.25 0.88", shirt),
        ("arm_left", "capsule", "0.05", "0.02 0.24 1.36 -0.06 0.25 0.88", shirt),
        ("head", "capsule", "0.10", "0.01 0 1.60 0.01 0 1.68", skin),
        ("hair", "capsule", "0.10", "-0.02 0 1.64 -0.02 0 1.71", hair),
    ]
    geoms = "".join(
        f'<geom name="{PERSON}{index}_{name}" type="{kind}" size="{size}" fromto="{ends}" rgba="{look}" {solid}/>'
        for name, kind, size, ends, look in parts
    )
    return f'<body name="{PERSON}{index}" mocap="true" pos="{x:.4f} {y:.4f} 0">{geoms}</body>'
