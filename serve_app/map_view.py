"""A robot's newest map and its pictures, each encoded once per version and shared by all who ask."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rhino_actors.errors import RhinoError
from rhino_actors.geometry import compose
from rhino_actors.messages.geometry import Pose2D
from rhino_actors.messages.grid import MapSnapshot
from rhino_actors.messages.map_patch import MapReader
from rhino_actors.messages.navigation import NavStatus
from serve_app.handles import NO_VERSION, MapVersion, Robot, read_map, read_voxels
from serve_app.images import costmap_image, encode_png, occupancy_image, overview_image
from serve_app.map_wire import encode_tiles, encode_voxels


@dataclass(frozen=True)
class Picture:
    """An encoded PNG of a map."""

    png: bytes
    etag: str
    snapshot: MapSnapshot


class MapView:
    """Holds the map and one picture of each kind: bounded by the size of the map, not by its readers."""

    def __init__(self, robot: Robot) -> None:
        self._robot = robot
        self._reader = MapReader()
        self._reading = asyncio.Lock()
        self._pictures: dict[str, Picture] = {}
        self._encoding: dict[str, asyncio.Lock] = {}

    async def snapshot(self) -> MapSnapshot:
        """Return the newest map; before the first scan a single unknown cell. Raises ActorUnavailable."""
        async with self._reading:
            held = self._reader.snapshot
            _, patch = await read_map(
                self._robot.mapper, self._reader.version if held else NO_VERSION
            )
            if patch is None and held is None:
                _, patch = await read_map(self._robot.mapper)
            if patch is not None:
                held = self._reader.take(patch)
            assert held is not None, "the mapper always has a map, if an empty one"
            return held

    async def occupancy(self) -> Picture:
        """Return the clean map in map_server's greys."""
        snapshot = await self.snapshot()
        return await self._picture(
            "raw", snapshot, "", lambda: encode_png(occupancy_image(snapshot))
        )

    async def costmap(self) -> Picture:
        """Return the costmap, the pixel being the cost."""
        snapshot = await self.snapshot()
        return await self._picture(
            "cost", snapshot, "", lambda: encode_png(costmap_image(snapshot))
        )

    async def overview(self) -> Picture:
        """Return the map with path, goal and robot drawn; what is not known now is not drawn."""
        snapshot, (odom_pose, nav) = await asyncio.gather(self.snapshot(), self.overlay())
        pose = place_on(snapshot, odom_pose)
        drawn = f"{_rounded(pose)} {nav.seq if nav else -1}"
        path, goal = overlay_of(nav)

        def draw() -> bytes:
            return encode_png(overview_image(snapshot, pose=pose, path=path, goal=goal))

        return await self._picture("view", snapshot, drawn, draw)

    async def tiles(self, since: MapVersion) -> tuple[MapVersion, bytes | None]:
        """Return the newest version and the tiles that make it of `since`, encoded; None when it is that."""
        version, patch = await read_map(self._robot.mapper, since)
        return version, None if patch is None else await asyncio.to_thread(encode_tiles, patch)

    async def voxels(self, since: MapVersion) -> tuple[MapVersion, bytes | None]:
        """Return the newest version and the voxels that make it of `since`, encoded; None when it is that."""
        version, patch = await read_voxels(self._robot.mapper, since)
        return version, None if patch is None else await asyncio.to_thread(encode_voxels, patch)

    async def overlay(self) -> tuple[Pose2D | None, NavStatus | None]:
        """Return where the robot is in odom and what it follows, None for what cannot be known now."""

        async def pose() -> Pose2D | None:
            odometry = (await self._robot.platform.status()).odometry
            return odometry.pose if odometry else None

        found = await asyncio.gather(pose(), self._robot.planner.status(), return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException) and not isinstance(error, RhinoError):
                raise error
        pose_or, nav_or = found
        return (
            None if isinstance(pose_or, BaseException) else pose_or,
            None if isinstance(nav_or, BaseException) else nav_or,
        )

    async def _picture(
        self, kind: str, snapshot: MapSnapshot, drawn: str, encode: Callable[[], bytes]
    ) -> Picture:
        digest = hashlib.blake2s(drawn.encode(), digest_size=6).hexdigest() if drawn else ""
        etag = f'"{kind}-{snapshot.epoch}-{snapshot.seq}{"-" + digest if digest else ""}"'
        async with self._encoding.setdefault(kind, asyncio.Lock()):
            held = self._pictures.get(kind)
            if held is None or held.etag != etag:
                held = Picture(await asyncio.to_thread(encode), etag, snapshot)
                self._pictures[kind] = held
            return held


def overlay_of(nav: NavStatus | None) -> tuple[NDArray[np.float64] | None, Pose2D | None]:
    """Return the path and the goal to draw, in the map: those in force, none after the end."""
    if nav is None or not nav.state.is_active:
        return None, None
    return nav.path, nav.adjusted or nav.requested


def place_on(snapshot: MapSnapshot, odom_pose: Pose2D | None) -> Pose2D | None:
    """Return where on a map the robot is to be drawn, None while its place is not known.

    Without its pose in odom now, that of the moment of the map counts.
    """
    pose = odom_pose or snapshot.robot
    if pose is None or not snapshot.localised:
        return None
    return Pose2D(*compose(snapshot.map_from_odom.as_tuple(), pose.as_tuple()))


def _rounded(pose: Pose2D | None) -> str:
    return f"{pose.x:.3f} {pose.y:.3f} {pose.yaw:.3f}" if pose else "-"
