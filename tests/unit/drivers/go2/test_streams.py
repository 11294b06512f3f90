"""What keeps running when one part of it fails: pictures after a damaged one, commands that wait to leave."""

import asyncio
import gc
import logging
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("aiortc")

from rhino_actors.config import Go2Config
from rhino_actors.drivers.go2 import video
from rhino_actors.drivers.go2.connection import MessageChannel
from rhino_actors.drivers.go2.video import NewestFrame


class Track:
    """Brings a frame every few milliseconds."""

    kind = "video"

    async def recv(self) -> Any:
        await asyncio.sleep(0.005)
        return object()


async def test_a_damaged_picture_is_logged_and_does_not_end_the_camera(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(video, "DAMAGED_PAUSE_S", 0.01, raising=False)
    delivered, tries = asyncio.Event(), []

    def jpeg(frame: Any) -> tuple[bytes, int, int]:
        tries.append(frame)
        if len(tries) <= 2:
            raise RuntimeError("damaged")
        return b"jpeg", 4, 3

    newest = NewestFrame(Go2Config(), lambda *picture: delivered.set())
    monkeypatch.setattr(newest, "_jpeg", jpeg)
    with caplog.at_level(logging.ERROR):
        reading = asyncio.create_task(newest.read(Track()))  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(5.0):
                await delivered.wait()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
    assert sum("picture" in record.message for record in caplog.records) == 2


async def test_a_command_that_waits_to_leave_is_not_forgotten() -> None:
    left: list[str] = []

    async def send(number: int, kind: int, data: bytes, expiry: float) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            await waiting
        finally:
            left.append("gone")

    transport = SimpleNamespace(_remote_partial_reliability=True, _send=send)
    channel: Any = object.__new__(MessageChannel)
    channel.channel = SimpleNamespace(transport=transport, id=1, readyState="open")
    channel._sending = set()
    channel.send_expiring("stop", 1.0)
    await asyncio.sleep(0)
    gc.collect()
    assert left == [], "only the loop's weak reference would hold it"
    for task in list(channel._sending):
        task.cancel()
    await asyncio.gather(*channel._sending, return_exceptions=True)
    assert left == ["gone"] and channel._sending == set()
