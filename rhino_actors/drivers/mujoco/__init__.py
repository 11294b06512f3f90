"""The MuJoCo simulation of a Go2, as a `Platform`.

Start reading at `platform.py`, what the platform actor holds. It starts `process.py`, which steps `simulation.py`
in real time and starts `camera.py`; values travel through `shm.py`. `model.py` writes the robot, `worlds` the scene.
"""
