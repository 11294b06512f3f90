"""What runs on the robot's side, pure: motion gate, path follower, collision monitor, driving by the two."""
