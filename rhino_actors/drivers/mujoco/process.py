"""The physics process: steps the simulation in real time, publishes its sensors, obeys the platform actor.

Started by `link.py` as `python -m rhino_actors.drivers.mujoco.process FD SETTINGS`. Requests come as JSON lines on
stdin and are answered on stdout; twists and sensors travel through the shared memory. It ends when stdin ends or
its parent is gone, and the camera process ends with it. A twist older than `hold_timeout_s` counts as zero.
"""

import gc
import json
import os
import queue
import sys
import threading
import time
from dataclasses import asdict
from typing import IO, Any

import mujoco

from rhino_actors.config import MujocoConfig, RobotConfig
from rhino_actors.drivers.mujoco import wire
from rhino_actors.drivers.mujoco.base import STILL
from rhino_actors.drivers.mujoco.camera_ladder import CameraLadder
from rhino_actors.drivers.mujoco.samples import Observation
from rhino_actors.drivers.mujoco.shm import SharedBlock
from rhino_actors.drivers.mujoco.simulation import Simulation
from rhino_actors.drivers.mujoco.truth import pack_truth
from rhino_actors.drivers.mujoco.worlds import make_world
from rhino_actors.errors import ConfigError
from rhino_actors.messages.geometry import Twist2D
from rhino_actors.messages.platform import Posture

# Farther behind the clock than this, simulated time is given up instead of caught up [s].
MAX_LAG = 0.25
STATE_PERIOD = 0.2  # [s]
FACTOR_WINDOW = 2.0  # [s] over which the real-time factor is taken
# When the main loop does not end by itself after stdin did [s].
EXIT_GRACE = 1.0


class PhysicsLoop:
    """Ties the simulation to the wall clock and to the shared memory."""

    def __init__(
        self, simulation: Simulation, block: SharedBlock, config: MujocoConfig, camera: CameraLadder
    ) -> None:
        self._simulation = simulation
        self._block = block
        self._config = config
        self._camera = camera
        self._next_state = 0.0
        self._void_commands = block["command"].newest
        self._published: tuple[Posture, str] | None = None
        self._factor = 1.0
        self._factor_since: tuple[float, float] | None = None

    @property
    def period(self) -> float:
        """Length of a tick on the clock [s]."""
        return self._simulation.tick / self._config.speed

    def tick(self, stamp: float, now: float) -> None:
        """Let one period pass that ends at `stamp`, and publish what is due.

        Args:
            stamp: monotonic time that the simulated moment stands for [s]: `now`, or a little earlier when behind.
            now: monotonic time [s].
        """
        simulation = self._simulation
        observation = simulation.step(self._twist(now))
        if self._is_cut_off():
            self._void_commands = self._block["command"].newest
        else:
            self._publish(observation, stamp)
        self._block["truth"].write(pack_truth(simulation.truth(stamp)))
        self._camera.step(now)
        self._measure_factor(now)
        if self._is_cut_off():
            return
        if now >= self._next_state or self._published != (simulation.posture, self._camera.status):
            self.publish_state(now)

    def publish_state(self, now: float) -> None:
        """Publish posture, battery and how things go."""
        self._next_state = now + STATE_PERIOD
        self._published = (self._simulation.posture, self._camera.status)
        state = self._simulation.summary()
        state["camera"] = self._camera.status
        state["realtime_factor"] = self._factor
        self._block["state"].write(wire.pack_state(state))

    def answer(self, request: dict[str, Any], now: float) -> dict[str, Any]:
        """Carry out a request and return its answer. The state that it leads to is published before."""
        reply: dict[str, Any] = {"id": request["id"]}
        if request["op"] == "sport":
            result = self._simulation.command(request["command"], request.get("parameters"))
            reply["result"] = asdict(result)
            if result.accepted:
                # What was asked before a posture command or StopMove does not outlive it.
                self._void_commands = self._block["command"].newest
        elif request["op"] == "tip_over":
            self._simulation.tip_over(request["roll"], request["pitch"])
        elif request["op"] == "faults":
            reply["faults"] = [asdict(fault) for fault in self._simulation.faults.listing()]
        elif request["op"] in ("inject", "clear"):
            try:
                if request["op"] == "clear":
                    self._simulation.faults.clear(request["name"])
                else:
                    self._simulation.inject(request["name"], request["values"])
            except ConfigError as error:
                reply["refused"] = error.args
        self.publish_state(now)
        return reply

    def _twist(self, now: float) -> Twist2D:
        message = self._block["command"].read(self._void_commands)
        if message is None:
            return STILL
        twist, sent = wire.unpack_command(message[1])
        longer = self._simulation.faults.active("hold_timeout")
        limit = self._config.hold_timeout_s if longer is None else longer["timeout"]
        return twist if now - sent <= limit else STILL

    def _is_cut_off(self) -> bool:
        return self._simulation.faults.active("link_loss") is not None

    def _publish(self, observation: Observation, stamp: float) -> None:
        if observation.odometry is not None:
            self._block["odometry"].write(wire.pack_odometry(stamp, observation.odometry))
        if observation.lidar is not None:
            self._block["lidar"].write(*wire.pack_lidar(stamp, observation.lidar))
        self._block["pose"].write(wire.pack_pose(self._simulation.coordinates))

    def _measure_factor(self, now: float) -> None:
        simulated = self._simulation.time
        if self._factor_since is None:
            self._factor_since = (now, simulated)
        elif now - self._factor_since[0] >= FACTOR_WINDOW:
            wall = now - self._factor_since[0]
            self._factor = round((simulated - self._factor_since[1]) / wall, 3)
            self._factor_since = (now, simulated)


class Requests:
    """Reads requests from a stream in a thread; `ended` is set when the stream ends."""

    def __init__(self, stream: IO[str]) -> None:
        self.ended = threading.Event()
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._stream = stream
        threading.Thread(target=self._read, name="requests", daemon=True).start()

    def take(self) -> list[dict[str, Any]]:
        """Return the requests that came since the last call."""
        found: list[dict[str, Any]] = []
        while not self._lines.empty():
            found.append(json.loads(self._lines.get()))
        return found

    def _read(self) -> None:
        for line in self._stream:
            self._lines.put(line)
        self.ended.set()
        # The main loop ends within a tick. Should it hang, the process still must not outlive the actor.
        time.sleep(EXIT_GRACE)
        os._exit(1)


def run(loop: PhysicsLoop, requests: Requests) -> None:
    """Tick in step with the wall clock until the requests end or the parent is gone."""
    parent = os.getppid()
    due = time.monotonic()
    loop.tick(due, due)
    _reply({"ready": True})
    while not requests.ended.is_set() and os.getppid() == parent:
        due += loop.period
        now = time.monotonic()
        if now < due:
            requests.ended.wait(due - now)
            now = time.monotonic()
        elif now - due > MAX_LAG:
            due = now
        for request in requests.take():
            _reply(loop.answer(request, now))
        loop.tick(due, now)


def _reply(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def _warn(message: str) -> None:
    # Without a handler MuJoCo writes MUJOCO_LOG.TXT where the process happens to stand.
    print(f"mujoco: {message}", file=sys.stderr, flush=True)


def main() -> None:
    """Entry point."""
    fd, settings = int(sys.argv[1]), sys.argv[2]
    tree = json.loads(settings)
    config, robot = MujocoConfig(**tree["mujoco"]), RobotConfig(**tree["robot"])
    mujoco.set_mju_user_warning(_warn)
    requests = Requests(sys.stdin)
    block = SharedBlock(fd, wire.capacities(config))
    simulation = Simulation(
        make_world(config.world, config.seed, people=config.people), config, robot
    )
    camera = CameraLadder(config, block, settings)
    gc.freeze()
    try:
        run(PhysicsLoop(simulation, block, config, camera), requests)
    except BrokenPipeError:
        pass  # the actor died between a request and its answer
    finally:
        camera.close()


if __name__ == "__main__":
    main()
