"""Configuration: frozen dataclasses carry defaults, units and bounds; YAML only overrides.

`load_config` reads a file from `configs/` by name, or any path, and fails on the first key or value it does not
know, naming those that it knows. Every value is in SI units; the unit of a field stands in its metadata.
"""

import dataclasses
import math
import os
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import yaml

from rhino_actors.errors import ConfigError
from rhino_actors.messages.grid import MapLayer
from rhino_actors.messages.localisation import DriftMode
from rhino_actors.messages.navigation import NavMode

NAMESPACE = "rhino"  # Ray namespace of every actor


def option(
    default: Any, unit: str, doc: str, *, low: float | None = None, high: float | None = None
) -> Any:
    """Declare a config field: its default, unit ("" where it has none), one line of text, and inclusive bounds."""
    return field(default=default, metadata={"unit": unit, "doc": doc, "low": low, "high": high})


def section(kind: type) -> Any:
    """Declare a nested section that defaults to all its own defaults."""
    return field(default_factory=kind)


@dataclass(frozen=True)
class RobotConfig:
    """The robot's body: defined once, read by mapping, planning and control."""

    name: str = option(
        "go2", "", "name of the robot: actors are `<name>/<actor>`, letters, digits, - and _"
    )
    length: float = option(0.70, "m", "body length along x", low=0.05, high=3.0)
    width: float = option(0.31, "m", "body width along y, legs included", low=0.05, high=3.0)
    inscribed_radius: float = option(
        0.30, "m", "radius that the centre keeps from every obstacle", low=0.05, high=2.0
    )
    inflation_radius: float = option(
        0.80, "m", "radius within which an obstacle costs", low=0.05, high=5.0
    )
    cost_scaling_factor: float = option(
        6.0, "1/m", "how fast the cost of an obstacle falls with distance", low=0.1, high=50.0
    )
    obstacle_min_height: float = option(
        0.08, "m", "points lower than this above the floor are floor", low=0.0, high=1.0
    )
    obstacle_max_height: float = option(
        0.60, "m", "points higher than this above the floor are passed under", low=0.1, high=5.0
    )


@dataclass(frozen=True)
class FakeConfig:
    """The fake driver: a kinematic disc in a hand-made map; for tests and dashboard work."""

    map: str = option("room", "", "name of a built-in map (room, two_rooms, corridor)")
    start_x: float = option(math.nan, "m", "start in odom; .nan takes the map's own")
    start_y: float = option(math.nan, "m", "start in odom; .nan takes the map's own")
    start_yaw: float = option(0.0, "rad", "start heading", low=-math.pi, high=math.pi)
    lidar_rate_hz: float = option(7.7, "Hz", "lidar frames per second", low=0.1, high=50.0)
    lidar_beams: int = option(360, "", "beams of a scan", low=8, high=4000)
    lidar_range: float = option(10.0, "m", "longest range", low=0.5, high=50.0)
    camera_rate_hz: float = option(
        5.0, "Hz", "pictures per second; 0 turns the camera off", low=0.0, high=60.0
    )
    hold_timeout_s: float = option(
        0.5, "s", "the driver's own dead-man: a twist older than this is zero", low=0.05, high=5.0
    )


@dataclass(frozen=True)
class MujocoConfig:
    """The MuJoCo simulation."""

    world: str = option(
        "apartment",
        "",
        "apartment, office, warehouse or maze, or the path of a ROS map (map_server .yaml)",
    )
    seed: int = option(1, "", "seed of the scene, of noise, drift and faults", low=0)
    people: bool = option(True, "", "let the people of a world walk about")
    speed: float = option(1.0, "", "simulated seconds per second of the clock", low=0.05, high=50.0)
    drift: str = option("default", "", "of odometry, as a Go2 has it: off, default or harsh")
    lidar: str = option(
        "l1", "", "l1 (the Go2's own, as voxel maps), scan (rings of beams) or ideal (no noise)"
    )
    voxel_ttl_s: float = option(
        2.0, "s", "how long a voxel of the l1 stays without a new return", low=0.1, high=60.0
    )
    faults: str = option(
        "", "", "faults from the start, `name key=value ...; ...`; docs/simulation.md lists them"
    )
    base: str = option(
        "walking", "", "walking (legs with weight) or kinematic (a base that is driven)"
    )
    fast: bool = option(False, "", "walking in steps of 4 ms instead of 2, for CI")
    lidar_rate_hz: float = option(7.7, "Hz", "lidar frames per second", low=0.1, high=50.0)
    lidar_azimuths: int = option(360, "", "beams around", low=16, high=4000)
    lidar_elevations: int = option(16, "", "rings of beams", low=1, high=128)
    lidar_range: float = option(10.0, "m", "longest range", low=0.5, high=60.0)
    lidar_noise: float = option(0.01, "m", "standard deviation of a range", low=0.0, high=0.5)
    odometry_rate_hz: float = option(50.0, "Hz", "poses per second", low=1.0, high=500.0)
    camera: str = option(
        "auto", "", "auto (the first that works), egl, osmesa, raycast (no OpenGL, 160x90) or off"
    )
    camera_width: int = option(640, "px", "picture width", low=32, high=1920)
    camera_height: int = option(360, "px", "picture height", low=32, high=1080)
    camera_rate_hz: float = option(15.0, "Hz", "pictures per second", low=0.1, high=60.0)
    camera_quality: int = option(75, "", "JPEG quality", low=10, high=100)
    hold_timeout_s: float = option(
        0.5, "s", "the driver's own dead-man: a twist older than this is zero", low=0.05, high=5.0
    )
    start_timeout_s: float = option(60.0, "s", "longest wait for the simulation to start", low=1.0)


@dataclass(frozen=True)
class Go2Config:
    """The real Go2, over its own WebRTC."""

    robot_ip: str = option("", "", "address of the robot; `rhino discover` finds it")
    aes_key: str = option(
        "", "", "32 hexadecimal digits, firmware from 1.1.15; RHINO_GO2_AES_KEY comes first"
    )
    connect_timeout_s: float = option(
        15.0, "s", "longest wait for the connection once the robot answered", low=1.0, high=60.0
    )
    lost_after_s: float = option(
        1.0, "s", "silence after which the link counts as lost", low=0.3, high=10.0
    )
    reconnect_after_s: float = option(
        3.0, "s", "silence after which it connects anew", low=1.0, high=30.0
    )
    velocity_api: str = option(
        "move", "", "move (sport request, m/s) or joystick (the remote control's sticks)"
    )
    velocity_rate_hz: float = option(
        20.0, "Hz", "how often a velocity is sent while moving", low=5.0, high=50.0
    )
    hold_timeout_s: float = option(
        0.25, "s", "the driver's own dead-man: a twist older than this is zero", low=0.05, high=2.0
    )
    command_max_age_s: float = option(
        0.25, "s", "a velocity not delivered in this time is thrown away", low=0.05, high=1.0
    )
    odometry_max_age_s: float = option(
        0.25, "s", "no velocity is sent when odometry is older", low=0.1, high=2.0
    )
    max_buffered_bytes: int = option(
        400, "bytes", "no velocity is sent when more waits to be sent", low=0, high=100_000
    )
    scale_vx: float = option(
        1.0, "", "velocity asked for per velocity wanted, forward", low=-5.0, high=5.0
    )
    scale_vy: float = option(
        1.0, "", "velocity asked for per velocity wanted, left", low=-5.0, high=5.0
    )
    scale_omega: float = option(
        1.0, "", "velocity asked for per velocity wanted, turning", low=-5.0, high=5.0
    )
    stick_vx: float = option(
        0.67, "s/m", "stick `ly` per velocity forward; its sign too", low=-10.0, high=10.0
    )
    stick_vy: float = option(
        -1.0, "s/m", "stick `lx` per velocity to the left; its sign too", low=-10.0, high=10.0
    )
    stick_omega: float = option(
        -0.5, "s/rad", "stick `rx` per turning to the left; its sign too", low=-10.0, high=10.0
    )
    calibrated: bool = option(
        True, "", "use what `rhino calibrate` stored for this robot instead of the numbers above"
    )
    obstacle_avoidance: str = option(
        "keep", "", "the robot's own obstacle avoidance: keep, on or off"
    )
    lidar_x: float = option(0.289, "m", "lidar's place in base_link", low=-1.0, high=1.0)
    lidar_z: float = option(-0.047, "m", "lidar's place in base_link", low=-1.0, high=1.0)
    camera: bool = option(True, "", "receive the front camera's video")
    camera_rate_hz: float = option(15.0, "Hz", "most pictures per second", low=0.1, high=30.0)
    camera_width: int = option(
        1280, "px", "pictures are scaled down to this width", low=160, high=1920
    )
    camera_quality: int = option(75, "", "JPEG quality", low=10, high=100)


@dataclass(frozen=True)
class GateConfig:
    """MotionGate: the one place a twist leaves from."""

    max_vx: float = option(
        1.0, "m/s", "forward and backward limit of direct driving", low=0.05, high=3.0
    )
    max_vy: float = option(0.5, "m/s", "sideways limit", low=0.0, high=2.0)
    max_omega: float = option(1.2, "rad/s", "turning limit", low=0.1, high=4.0)
    dead_man_s: float = option(
        0.25, "s", "direct velocity older than this becomes zero", low=0.05, high=2.0
    )
    holder_timeout_s: float = option(
        3.0, "s", "silence after which a person's or agent's lease is free", low=0.2, high=600.0
    )
    mission_timeout_s: float = option(
        30.0, "s", "silence after which a mission's lease is free", low=1.0, high=3600.0
    )
    odometry_max_age_s: float = option(
        0.5, "s", "a path stops when odometry is older", low=0.05, high=5.0
    )
    lidar_max_age_s: float = option(
        1.0, "s", "a path stops when the lidar is older", low=0.1, high=10.0
    )
    jump_distance: float = option(
        0.35,
        "m",
        "a pose step in one tick beyond what the speed explains: a jump",
        low=0.05,
        high=5.0,
    )
    jump_hold_s: float = option(
        0.5, "s", "quiet time after a jump before anything goes on", low=0.1, high=10.0
    )
    fall_tilt: float = option(
        0.87, "rad", "tilt beyond which the robot has fallen", low=0.3, high=3.1
    )
    fall_time_s: float = option(0.2, "s", "how long it must be tilted so", low=0.0, high=5.0)
    zero_repeats: int = option(10, "", "zero twists sent when motion ends", low=5, high=1000)
    control_rate_hz: float = option(20.0, "Hz", "control loop", low=5.0, high=100.0)
    allow_acrobatics: bool = option(False, "", "let flips, jumps and pounces through")
    pose_tilt: float = option(0.35, "rad", "largest roll and pitch of Pose", low=0.0, high=0.75)
    pose_yaw: float = option(0.40, "rad", "largest yaw of Pose", low=0.0, high=0.6)
    pose_lower: float = option(0.12, "m", "how far Pose lowers the body", low=0.0, high=0.18)
    pose_raise: float = option(0.02, "m", "how far Pose raises the body", low=0.0, high=0.03)


@dataclass(frozen=True)
class FollowerConfig:
    """PathFollower: aims at a point ahead on the path; regulated by what lies around, or a plain P-controller."""

    cruise_speed: float = option(0.6, "m/s", "speed on a straight path", low=0.05, high=2.0)
    min_speed: float = option(0.12, "m/s", "slowest driving speed", low=0.01, high=0.5)
    lookahead_distance: float = option(
        0.45, "m", "how far ahead on the path it aims", low=0.1, high=3.0
    )
    heading_gain: float = option(1.8, "1/s", "turning rate per heading error", low=0.1, high=10.0)
    max_omega: float = option(1.2, "rad/s", "turning limit while following", low=0.1, high=4.0)
    rotate_in_place_angle: float = option(
        0.8, "rad", "heading error beyond which it turns before it drives", low=0.1, high=3.2
    )
    slow_down_distance: float = option(
        0.6, "m", "distance to the goal from which it slows", low=0.05, high=3.0
    )
    acceleration: float = option(0.8, "m/s2", "limit on speeding up", low=0.1, high=10.0)
    goal_tolerance: float = option(0.15, "m", "arrived within this of the goal", low=0.02, high=1.0)
    yaw_tolerance: float = option(
        0.15, "rad", "arrived within this of a requested heading", low=0.02, high=1.6
    )
    mode: str = option("regulated", "", "regulated, or p (the look-ahead P-controller alone)")
    deceleration: float = option(
        0.8, "m/s2", "braking before the goal, bends and narrow places", low=0.1, high=10.0
    )
    lateral_acceleration: float = option(
        0.6, "m/s2", "limits the speed in bends", low=0.05, high=10.0
    )
    max_vy: float = option(
        0.25, "m/s", "sideways speed back to the path; 0: by turning alone", low=0.0, high=1.0
    )
    lateral_gain: float = option(
        1.2, "1/s", "sideways speed per offset from the path", low=0.0, high=5.0
    )
    slow_clearance: float = option(
        0.20, "m", "free floor around the body below which it slows", low=0.0, high=2.0
    )
    narrow_speed: float = option(
        0.35, "m/s", "speed where the body touches almost", low=0.05, high=2.0
    )


@dataclass(frozen=True)
class CollisionConfig:
    """CollisionMonitor: slows and stops for what the newest lidar frame shows, without a map."""

    enabled: bool = option(True, "", "watch the newest frame")
    stop_margin: float = option(0.10, "m", "free floor kept ahead of the body", low=0.0, high=1.0)
    slow_margin: float = option(
        0.45, "m", "free floor ahead below which it slows", low=0.0, high=3.0
    )
    deceleration: float = option(
        1.0, "m/s2", "braking that the stopping distance assumes", low=0.1, high=10.0
    )
    min_points: int = option(2, "", "points in the way that count as an obstacle", low=1, high=100)


@dataclass(frozen=True)
class MapperConfig:
    """MapperActor: log-odds grid, costmap, snapshots."""

    resolution: float = option(0.05, "m", "cell edge", low=0.01, high=0.5)
    max_range: float = option(9.5, "m", "farthest return that marks", low=0.5, high=50.0)
    hit_log_odds: float = option(0.85, "", "evidence of one hit", low=0.01, high=10.0)
    miss_log_odds: float = option(0.4, "", "evidence of one miss", low=0.01, high=10.0)
    max_log_odds: float = option(
        3.5, "", "clamp, so that a ghost clears in a few scans", low=0.5, high=50.0
    )
    publish_hz: float = option(
        20.0,
        "Hz",
        "most maps per second; each frame is published at once while it allows",
        low=0.2,
        high=50.0,
    )
    max_cells: int = option(64_000_000, "", "bound on the grid; growth stops there", low=10_000)
    checkpoint_period_s: float = option(
        10.0, "s", "how often a changed map is kept on disk", low=0.5, high=3600.0
    )
    layers: MapLayer = option(
        MapLayer.OCCUPANCY,
        "",
        "occupancy (2D), voxels (3D with height cost) or both, an obstacle in either counting",
    )
    carving: str = option(
        "line_of_sight",
        "",
        "voxels that a frame removes: columns (all of those it touches), line_of_sight or none",
    )
    max_voxels: int = option(
        4_000_000, "", "bound on the voxels; the oldest and farthest go", low=1000
    )
    can_climb: float = option(0.15, "m", "a step of this height is an obstacle", low=0.02, high=1.0)
    ignore_noise: float = option(0.05, "m", "a rise up to this is noise", low=0.0, high=0.5)
    smoothing: float = option(
        1.0, "", "cells over which ground heights are averaged", low=0.0, high=10.0
    )
    max_slope: float = option(
        0.52, "rad", "a slope of this angle is an obstacle", low=0.05, high=1.5
    )
    drift_correction: DriftMode = option(
        DriftMode.LOOPS,
        "",
        "against the drift of odometry: none, matching (frames to the map made so far) or loops (closed, map redrawn)",
    )


@dataclass(frozen=True)
class PlannerConfig:
    """PlannerActor: the goal's life."""

    cost_weight: float = option(
        1.0, "", "how much clearance counts against length", low=0.0, high=100.0
    )
    replan_period_s: float = option(
        1.0, "s", "longest time between plans while driving", low=0.1, high=60.0
    )
    tick_hz: float = option(
        5.0, "Hz", "how often progress is looked at and the lease renewed", low=1.0, high=50.0
    )
    path_lease_s: float = option(
        1.0, "s", "a path that is not renewed in this time stops", low=0.3, high=10.0
    )
    goal_search_radius: float = option(
        0.5, "m", "how far a goal in an obstacle may be moved", low=0.0, high=5.0
    )
    timeout_s: float = option(5.0, "s", "longest planning time", low=0.1, high=60.0)
    progress_distance: float = option(
        0.25, "m", "the way left must become this much shorter", low=0.01, high=2.0
    )
    progress_time_s: float = option(5.0, "s", "in this time, else it recovers", low=1.0, high=60.0)
    max_recoveries: int = option(
        5, "", "recoveries tried until the robot gets on again", low=0, high=20
    )
    wait_timeout_s: float = option(
        15.0, "s", "longest wait for a held path before the goal fails", low=1.0
    )
    mode: NavMode = option(NavMode.ASTAR, "", "astar or direct")
    better_by: float = option(
        0.10, "", "share of its cost by which a new way must beat the old", low=0.0, high=0.9
    )
    no_path_patience_s: float = option(
        10.0, "s", "how long a goal on its way stays when no path is found", low=0.0, high=600.0
    )
    unknown_reach: float = option(
        30.0, "m", "how far outside the map a goal may lie", low=0.0, high=200.0
    )


@dataclass(frozen=True)
class ExplorerConfig:
    """ExplorerActor: explorations and patrols."""

    min_frontier_size: float = option(0.4, "m", "shorter frontiers are left", low=0.05, high=10.0)
    max_attempts: int = option(2, "", "tries of one frontier before it is skipped", low=1, high=20)
    give_up_s: float = option(
        60.0, "s", "how long a frontier tried in vain is left alone", low=1.0, high=3600.0
    )
    skip_radius: float = option(
        0.5, "m", "frontiers this near a skipped one are skipped too", low=0.05, high=5.0
    )
    seen_out_check_hz: float = option(
        2.0, "Hz", "how often the target is looked at again", low=0.1, high=20.0
    )
    settle_time_s: float = option(
        1.5, "s", "wait for a fresh map before the end is believed", low=0.0, high=60.0
    )
    # What follows holds for patrols too.
    min_battery: float = option(
        15.0, "%", "charge at which every mission ends", low=0.0, high=100.0
    )
    map_timeout_s: float = option(
        300.0, "s", "how long a mission waits for a map, or its place in it", low=1.0, high=86400.0
    )
    log_period_s: float = option(
        10.0, "s", "how often a mission is written down while it runs", low=1.0, high=600.0
    )
    # how the next target is chosen
    sensor_range: float = option(
        3.0, "m", "how far the sensor is counted on to see", low=0.5, high=50.0
    )
    min_gain: float = option(
        0.15, "m2", "unknown floor that a look must promise", low=0.0, high=100.0
    )
    look_ahead: int = option(
        10, "", "targets whose order is planned; each doubles the work", low=1, high=12
    )
    leave_weight: float = option(
        1.0, "", "how much leaving an area unfinished counts against the way", low=0.0, high=20.0
    )
    switch_gain: float = option(
        1.0, "m", "a new order must be this much shorter to leave the target", low=0.0, high=50.0
    )
    retry_wait_s: float = option(
        8.0, "s", "rest before a target that failed is tried as the last one", low=0.0, high=600.0
    )


@dataclass(frozen=True)
class PatrolConfig:
    """Patrols: what counts as visited, and where they may go."""

    visit_radius: float = option(
        0.5, "m", "a place this near the robot and in its view is visited", low=0.1, high=5.0
    )
    expiry_s: float = option(
        1800.0, "s", "age from which a visit no longer counts", low=10.0, high=1e6
    )
    clearance: float = option(
        0.30,
        "m",
        "goals keep this from obstacles, up to robot.inflation_radius",
        low=0.0,
        high=5.0,
    )
    rounds: bool = option(
        False, "", "coverage goes around on a planned round, not step by step to what is due"
    )
    goal_cost: float = option(
        0.5, "m", "what a goal costs beyond its way (coverage without a round)", low=0.01, high=20.0
    )
    skeleton_share: float = option(
        0.1,
        "",
        "how much nearness to the middle of the floor counts (coverage without a round)",
        low=0.0,
        high=1.0,
    )
    due_share: float = option(
        0.8,
        "",
        "share of the worst idleness from which a place is due (coverage without a round)",
        low=0.0,
        high=0.95,
    )
    urgency_power: int = option(
        2,
        "",
        "power of the idleness by which a place draws the robot (coverage without a round)",
        low=1,
        high=6,
    )
    retry_s: float = option(
        60.0, "s", "how long a goal tried in vain is left alone; doubles each time", low=1.0
    )
    skip_radius: float = option(
        0.4, "m", "places this near one tried in vain are left alone too", low=0.05, high=5.0
    )
    point_search_radius: float = option(
        0.5, "m", "how far from a point in an obstacle it may stand", low=0.0, high=5.0
    )
    blocked_after_s: float = option(
        60.0, "s", "time without a reachable goal after which it gives up", low=1.0
    )


@dataclass(frozen=True)
class StoreConfig:
    """PoiStore: one SQLite file."""

    path: str = option("", "", "database file; empty: rhino.db in the data directory")
    missions_kept: int = option(
        200, "", "missions of a robot in the log; the oldest go", low=1, high=100000
    )


@dataclass(frozen=True)
class ViewerConfig:
    """ViewerActor: the Rerun stream."""

    enabled: bool = option(True, "", "log to Rerun")
    grpc_port: int = option(9876, "", "Rerun's data port, loopback", low=0, high=65535)
    web_port: int = option(9090, "", "Rerun's web viewer, loopback; 0: none", low=0, high=65535)
    memory_limit_mb: int = option(256, "MB", "history kept for late viewers", low=16, high=16384)
    camera_rate_hz: float = option(5.0, "Hz", "most pictures per second", low=0.0, high=60.0)
    record: str = option("", "", "also write this .rrd file; empty: none")


@dataclass(frozen=True)
class ServerConfig:
    """REST, events and MCP on Ray Serve."""

    host: str = option("127.0.0.1", "", "bind address; any but loopback needs a token")
    port: int = option(8000, "", "API port; RHINO_PORT overrides it", low=1, high=65535)
    token_file: str = option(
        "", "", "file with the bearer token; empty: token in the state directory if it exists"
    )
    max_streams: int = option(
        64, "", "open event and video streams; one more is refused", low=1, high=5000
    )
    stream_rate_hz: float = option(10.0, "Hz", "state events per second", low=0.5, high=50.0)


@dataclass(frozen=True)
class RayConfig:
    """The Ray cluster that deploy starts when none is there."""

    address: str = option("", "", "cluster to join; empty: that of `ray start`, else a local one")
    dashboard: bool = option(True, "", "start Ray's own dashboard")
    dashboard_port: int = option(
        0, "", "its port, loopback; 0: 8265 or the next that is free", low=0, high=65535
    )
    object_store_mb: int = option(
        400, "MB", "shared memory for maps and frames", low=80, high=65536
    )


@dataclass(frozen=True)
class PlacementConfig:
    """Which node runs what: soft, any node serves when the wanted one is missing."""

    label: str = option(
        "rhino-role", "", "node label that is looked at (`ray start --labels=rhino-role=planner`)"
    )
    robot_side: str = option("robot", "", "its value for platform, mapper, store and viewer")
    planner_side: str = option("planner", "", "its value for planner and explorer")


@dataclass(frozen=True)
class PathsConfig:
    """Folders of the robot-side host. deploy fills in what is empty, so that all actors use its user's."""

    data: str = option("", "", "what must last; empty: $XDG_DATA_HOME/rhino")
    state: str = option("", "", "run state, e-stop latch, logs; empty: $XDG_STATE_HOME/rhino")


@dataclass(frozen=True)
class RhinoConfig:
    """One deployment."""

    driver: str = option("mujoco", "", "mujoco, fake or go2")
    robot: RobotConfig = section(RobotConfig)
    fake: FakeConfig = section(FakeConfig)
    mujoco: MujocoConfig = section(MujocoConfig)
    go2: Go2Config = section(Go2Config)
    gate: GateConfig = section(GateConfig)
    follower: FollowerConfig = section(FollowerConfig)
    collision: CollisionConfig = section(CollisionConfig)
    mapper: MapperConfig = section(MapperConfig)
    planner: PlannerConfig = section(PlannerConfig)
    explorer: ExplorerConfig = section(ExplorerConfig)
    patrol: PatrolConfig = section(PatrolConfig)
    store: StoreConfig = section(StoreConfig)
    viewer: ViewerConfig = section(ViewerConfig)
    server: ServerConfig = section(ServerConfig)
    ray: RayConfig = section(RayConfig)
    placement: PlacementConfig = section(PlacementConfig)
    paths: PathsConfig = section(PathsConfig)

    def __post_init__(self) -> None:
        if self.driver not in ("mujoco", "fake", "go2"):
            raise ConfigError(f"driver is {self.driver!r}.", "Known drivers: mujoco, fake, go2.")
        name = self.robot.name
        if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise ConfigError(
                f"robot.name is {name!r}.",
                "Use letters, digits, - and _ only: it becomes part of actor names.",
            )
        if self.robot.inflation_radius < self.robot.inscribed_radius:
            raise ConfigError(
                "robot.inflation_radius is smaller than robot.inscribed_radius.",
                "Inflation reaches at least as far as the body: raise inflation_radius [m].",
            )


def data_dir(paths: PathsConfig | None = None) -> Path:
    """Return rhino's directory for what must last: what the config names, else $XDG_DATA_HOME/rhino."""
    if paths and paths.data:
        return Path(paths.data).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "rhino"


def state_dir(paths: PathsConfig | None = None) -> Path:
    """Return rhino's directory for run state, the e-stop latch and logs: the config's, else $XDG_STATE_HOME/rhino."""
    if paths and paths.state:
        return Path(paths.state).expanduser()
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "rhino"


def access_log_path(config: RhinoConfig) -> Path:
    """Return the file of the API's access log."""
    return state_dir(config.paths) / "logs" / "access.log"


def control_log_path(config: RhinoConfig) -> Path:
    """Return the file of the access log of driving and stopping, which have a server of their own."""
    return state_dir(config.paths) / "logs" / "control.log"


def mcp_log_path(config: RhinoConfig) -> Path:
    """Return the file of the log of what assistants call."""
    return state_dir(config.paths) / "logs" / "mcp.log"


def with_paths(config: RhinoConfig) -> RhinoConfig:
    """Return the config with its empty paths resolved here: actors on a joined cluster have another environment."""
    paths = PathsConfig(data=str(data_dir(config.paths)), state=str(state_dir(config.paths)))
    return dataclasses.replace(config, paths=paths)


def database_path(config: RhinoConfig) -> Path:
    """Return the database file: what the config names, else rhino.db in the data directory."""
    named = config.store.path
    return Path(named).expanduser() if named else data_dir(config.paths) / "rhino.db"


def token_path(config: ServerConfig | None = None) -> Path:
    """Return the file of the API's bearer token, which need not exist: what the config names, else the default."""
    named = config.token_file if config else ""
    return Path(named).expanduser() if named else state_dir() / "token"


class _OneOfEachKey(yaml.SafeLoader):
    """YAML without duplicate keys: the second would silently win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise ConfigError(
                    f"The key {key.value} stands twice, line {key.start_mark.line + 1}."
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


def load_config(source: str | Path, overrides: Mapping[str, Any] | None = None) -> RhinoConfig:
    """Read a configuration.

    Args:
        source: name of a file in the package's configs (`sim`, `test`), or a path to a YAML file.
        overrides: dotted keys to values, applied last, e.g. {"mujoco.seed": 3}.

    Raises:
        ConfigError: no such file, not YAML, unknown key, value of the wrong type or out of bounds.
    """
    path = _find(source)
    try:
        tree = yaml.load(path.read_text(encoding="utf-8"), _OneOfEachKey)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path} is not YAML that rhino reads: {error}") from error
    if tree is None:
        tree = {}
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} holds a {type(tree).__name__}, not a mapping of sections.")
    for dotted, value in (overrides or {}).items():
        _override(tree, dotted, value)
    if "RHINO_PORT" in os.environ and "server.port" not in (overrides or {}):
        _override(tree, "server.port", _port(os.environ["RHINO_PORT"]))
    return config_from_tree(tree)


def config_from_tree(tree: Mapping[str, Any]) -> RhinoConfig:
    """Build a configuration from nested mappings. Raises ConfigError."""
    return typing.cast(RhinoConfig, _build(RhinoConfig, tree, ""))


def config_to_tree(config: RhinoConfig) -> dict[str, Any]:
    """Return the whole configuration as plain nested mappings, every default resolved."""
    return {
        name: _plain(value)
        if not dataclasses.is_dataclass(value)
        else {key: _plain(item) for key, item in dataclasses.asdict(value).items()}  # type: ignore[arg-type]
        for name, value in ((f.name, getattr(config, f.name)) for f in dataclasses.fields(config))
    }


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _find(source: str | Path) -> Path:
    builtin = Path(__file__).resolve().parent.parent / "configs"
    path = Path(source)
    if path.suffix in (".yaml", ".yml"):
        if path.is_file():
            return path
        raise ConfigError(
            f"There is no file {path}.",
            "Give a path to a YAML file, or the name of a built-in one.",
        )
    named = builtin / f"{source}.yaml"
    if named.is_file() and path.name == str(source):
        return named
    known = ", ".join(sorted(p.stem for p in builtin.glob("*.yaml")))
    raise ConfigError(
        f"There is no configuration {str(source)!r}.",
        f"Built-in: {known}; or a path ending in .yaml.",
    )


def _port(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConfigError(
            f"RHINO_PORT is {text!r}.", "It must be a port number, 1 to 65535."
        ) from None


def _override(tree: dict[str, Any], dotted: str, value: Any) -> None:
    *parents, last = dotted.split(".")
    for name in parents:
        child = tree.get(name)
        if child is None:
            child = tree[name] = {}
        if not isinstance(child, dict):
            raise ConfigError(f"{name} is not a section, so {dotted} cannot be set.")
        tree = child
    tree[last] = value


def _build(kind: type, tree: Any, where: str) -> Any:
    if tree is None:
        tree = {}
    if not isinstance(tree, Mapping):
        raise ConfigError(
            f"{where or 'the configuration'} must be a section of keys, not {tree!r}."
        )
    hints = typing.get_type_hints(kind)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    for key in tree:
        if key not in fields:
            raise ConfigError(f"Unknown key {_join(where, key)}.", f"Known here: {_known(fields)}.")
    values = {
        key: _value(hints[key], fields[key], raw, _join(where, key)) for key, raw in tree.items()
    }
    return kind(**values)


def _value(hint: Any, spec: dataclasses.Field[Any], raw: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), raw, where)
    unit = spec.metadata.get("unit") or ""
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(raw)
        except ValueError:
            raise ConfigError(
                f"{where} is {raw!r}.", f"Known: {', '.join(m.value for m in hint)}."
            ) from None
    if isinstance(hint, types.UnionType):
        hint = next(t for t in typing.get_args(hint) if t is not type(None))
    wanted = (
        f"a number in {unit}"
        if unit
        else {str: "text", bool: "true or false", int: "a whole number"}.get(hint, "a number")
    )
    ok = (
        isinstance(raw, bool)
        if hint is bool
        else isinstance(raw, (int, float) if hint is float else hint)
    )
    if not ok or (isinstance(raw, bool) and hint is not bool):
        raise ConfigError(
            f"{where} must be {wanted}, not {raw!r}.",
            "Values are plain numbers in SI units; YAML wants 1000.0 or 1.0e+3, not 1e3.",
        )
    if hint in (int, float):
        _check_bounds(raw, spec, where, unit)
    return hint(raw)


def _check_bounds(raw: float, spec: dataclasses.Field[Any], where: str, unit: str) -> None:
    low, high = spec.metadata.get("low"), spec.metadata.get("high")
    if abs(raw) > 2**63:  # a whole number may be beyond every float
        raw = math.inf if raw > 0 else -math.inf
    if math.isnan(raw) and isinstance(spec.default, float) and math.isnan(spec.default):
        return
    below = low is not None and not raw >= low
    above = high is not None and not raw <= high
    if below or above or not math.isfinite(raw):
        span = f"{'-inf' if low is None else low} to {'inf' if high is None else high}"
        raise ConfigError(
            f"{where} is {raw}, outside {span}{' ' + unit if unit else ''}.",
            "Values are in SI units.",
        )


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def _known(fields: Mapping[str, dataclasses.Field[Any]]) -> str:
    names = []
    for name, spec in fields.items():
        unit = spec.metadata.get("unit")
        names.append(f"{name} [{unit}]" if unit else name)
    return ", ".join(names)
