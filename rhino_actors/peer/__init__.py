"""A simulated Go2 that speaks the robot's own WebRTC protocol: `rhino peer`, and a fixture for tests. No Ray.

`server.py` is the peer; `signalling.py` and `keys.py` let a client in, `session.py` talks to it, `brain.py` obeys it,
`body.py` is what moves: a kinematic room or the MuJoCo Go2.
"""
