"""What is the Go2's own: the messages that it sends. Works without a robot."""

from rhino_actors.drivers.go2.lidar import decode_voxel_frame

__all__ = ["decode_voxel_frame"]
