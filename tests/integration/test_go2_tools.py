"""The peer against the unmodified client library; calibrate and doctor against peers that differ from each other."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("aiortc")

from rhino_actors.config import Go2Config, RhinoConfig, config_from_tree
from rhino_actors.drivers.go2 import calibrate as calibrate_module
from rhino_actors.drivers.go2 import doctor as doctor_module
from rhino_actors.drivers.go2.lidar import TOPIC as LIDAR_TOPIC
from rhino_actors.errors import CommandRejected
from rhino_actors.peer.body import RoomBody
from rhino_actors.peer.brain import Firmware
from rhino_actors.peer.server import PeerOptions, RobotPeer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]

HOST = f"127.79.{os.getpid() % 250}.2"

# The library as it is, but for the sound library and this host's addresses; it must not know rhino's driver.
LIBRARY = """
import asyncio, sys, types
sys.modules.setdefault("sounddevice", types.ModuleType("sounddevice"))
from rhino_actors.drivers.go2.addresses import offer_only
offer_only("127.0.0.1")
from unitree_webrtc_connect.webrtc_driver import UnitreeWebRTCConnection, WebRTCConnectionMethod

async def main():
    robot = UnitreeWebRTCConnection(WebRTCConnectionMethod.LocalSTA, ip=sys.argv[1])
    await robot.connect()
    channel, seen = robot.datachannel, {}
    channel.set_decoder("native")
    assert await channel.disableTrafficSaving(True)
    def count(message):
        seen[message["topic"]] = seen.get(message["topic"], 0) + 1
        if "voxel" in message["topic"]:
            seen["points"] = len(message["data"]["data"]["points"])
    for topic in ("rt/utlidar/robot_pose", "rt/utlidar/voxel_map_compressed", "rt/lf/lowstate"):
        channel.pub_sub.subscribe(topic, count)
    channel.pub_sub.publish_without_callback("rt/utlidar/switch", "on")
    frames = []
    async def read(track):
        while True:
            frames.append((await track.recv()).width)
    robot.video.add_track_callback(read)
    channel.switchVideoChannel(True)
    for _ in range(300):
        if len(frames) > 3 and len(seen) == 4:
            break
        await asyncio.sleep(0.1)
    request = {"api_id": 1008, "parameter": {"x": 0.2, "y": 0, "z": 0}}
    answer = await channel.pub_sub.publish_request_new("rt/api/sport/request", request)
    assert answer["data"]["header"]["status"]["code"] == 0, answer
    assert frames[-1] == 1280 and seen["points"] > 1000 and len(seen) == 4, (frames[-3:], seen)
    await robot.disconnect()
    print("ALL GOOD")

asyncio.run(main())
"""


@pytest.mark.parametrize(
    "options",
    [{"signalling": "old"}, {"signalling": "new", "data2": 1}, {"data2": 2, "long_framing": True}],
    ids=["old", "new-1", "both-2-long"],
)
async def test_the_unmodified_library_connects_streams_and_moves_the_robot(
    options: dict[str, Any],
) -> None:
    peer = RobotPeer(RoomBody(), PeerOptions(host=HOST, **options))
    await peer.start()
    try:
        client = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            LIBRARY,
            HOST,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        )
        output, _ = await client.communicate()
        assert b"ALL GOOD" in output, output.decode()[-3000:]
        assert peer.commands[-1].name == "Move" and peer.commands[-1].twist.vx == 0.2
    finally:
        await peer.close()


async def calibrated(monkeypatch: pytest.MonkeyPatch, firmware: Firmware) -> Any:
    # Longer than for a person who waits: on a loaded machine odometry comes late and rarely.
    monkeypatch.setattr(calibrate_module, "DRIVE_S", 3.0)
    monkeypatch.setattr(calibrate_module, "REST_S", 1.5)
    peer = RobotPeer(RoomBody(), PeerOptions(host=HOST, firmware=firmware))
    peer.fault("silence", topic=LIDAR_TOPIC)  # calibration needs none, and it is the dearest stream
    await peer.start()
    lines: list[str] = []
    try:
        return await calibrate_module.calibrate(Go2Config(robot_ip=HOST), "", lines.append)
    finally:
        await peer.close()


async def test_calibration_finds_scale_and_hold_of_move(monkeypatch: pytest.MonkeyPatch) -> None:
    firmware = Firmware(move_scale=(0.5, 0.8, -1.0), hold_s=0.6)
    found = await calibrated(monkeypatch, firmware)
    assert found.velocity_api == "move"
    assert found.scale_vx == pytest.approx(2.0, rel=0.3)
    assert found.scale_vy == pytest.approx(1.25, rel=0.3)
    assert found.scale_omega == pytest.approx(-1.0, rel=0.3), "the sign too"
    assert found.hold_s == pytest.approx(0.6, abs=0.4)


async def test_calibration_falls_back_to_the_sticks_and_finds_their_signs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await calibrated(monkeypatch, Firmware(move_works=False, stick_scale=(1.0, 1.0, 2.0)))
    assert found.velocity_api == "joystick"
    assert found.stick_vx == pytest.approx(1.0, rel=0.3)
    assert found.stick_vy == pytest.approx(1.0, rel=0.3), "positive to the left here"
    assert found.stick_omega == pytest.approx(0.5, rel=0.3)


async def test_a_robot_that_nothing_moves_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    firmware = Firmware(move_works=False, stick_scale=(0.0, 0.0, 0.0))
    with pytest.raises(CommandRejected, match="Neither"):
        await calibrated(monkeypatch, firmware)


async def test_doctor_says_what_is_good_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "LISTEN_S", 3.0)
    monkeypatch.setattr(doctor_module, "KNOCKS", 3)
    config: RhinoConfig = config_from_tree({"go2": {"robot_ip": HOST, "camera": False}})

    async def report() -> dict[str, doctor_module.Check]:
        return {check.name: check async for check in doctor_module.examine(config, "")}

    nothing = await report()
    assert nothing["port 9991"].verdict is doctor_module.Verdict.BAD and nothing["port 9991"].fix
    assert "odometry" not in nothing
    peer = RobotPeer(RoomBody(), PeerOptions(host=HOST, fps=10.0))
    await peer.start()
    try:
        peer.faults.soc = 12
        good = await report()
        assert good["odometry"].verdict is doctor_module.Verdict.GOOD
        assert good["lidar"].verdict is doctor_module.Verdict.GOOD
        assert good["posture"].text == "standing"
        assert good["battery"].verdict is doctor_module.Verdict.NOTE
        while peer.session is not None:
            await asyncio.sleep(0.05)
        peer.fault("reject_next", count=9)
        busy = await report()
        assert busy["other app"].verdict is doctor_module.Verdict.BAD
        assert "app" in busy["other app"].fix
    finally:
        await peer.close()
