"""Streams, videos, drivers and e-stops at once, for ten seconds. Nothing is timed here: benchmarks/api_load.py does."""

import asyncio
import socket
import struct
from urllib.parse import urlsplit

import aiohttp
import httpx2
import pytest

from benchmarks.api_load import Load, run_load
from tests.deployment import Rhino

pytestmark = pytest.mark.integration


def test_the_api_under_load_fails_no_request_and_leaves_no_stream(running: Rhino) -> None:
    running.post("/api/cmd/StandUp")
    load = Load(seconds=10.0, events=10, films=3, drivers=4, vanish=40, estops=2)
    report = run_load(running, load)
    assert report.failed == []
    assert report.open_during >= load.events + load.films
    assert report.open_after == 0
    assert report.estops >= 2 and report.stop_failed == []
    # Who has it stand up again after an e-stop holds it for a moment too.
    names = {"driver", "guard", "127.0.0.1", *(f"rival-{k}" for k in range(load.drivers - 1))}
    assert report.refused_by and set(report.refused_by) <= names, "the others are told who drives"
    assert set(report.served_by) == {"control"}, "driving has a server of its own"


def test_driving_and_stopping_have_a_server_of_their_own(running: Rhino) -> None:
    def app(path: str, method: str = "POST") -> str:
        return httpx2.request(method, running.api + path, timeout=20.0).headers["X-Rhino-App"]

    for path in ("/api/stop", "/api/robots/go2/stop", "/api/control/release"):
        assert app(path) == "control"
    assert app("/api/control/health", "GET") == "control"
    assert app("/api/state", "GET") == app("/api/health", "GET") == "rest"
    assert (
        httpx2.post(running.api + "/api/stop", headers={"Origin": "http://a.b"}).status_code == 403
    )


def test_a_stop_is_carried_out_when_its_client_has_gone(running: Rhino) -> None:
    address = urlsplit(running.api)
    names = {f"ghost-{k}" for k in range(20)}
    for name in names:
        with socket.create_connection((address.hostname, address.port)) as connection:
            head = f"POST /api/stop HTTP/1.1\r\nHost: {address.netloc}\r\nX-Rhino-Client: {name}"
            connection.sendall(f"{head}\r\nContent-Length: 0\r\n\r\n".encode())
            # Reset, as when a program is killed or the network goes.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def all_stopped() -> bool:
        stopped_by = {line["holder"] for line in running.get("/api/gate/log")}
        return names <= stopped_by

    running.wait_until(all_stopped, 10.0, "all stops in the log")


def test_a_socket_that_is_cut_while_it_drives_stops_the_robot(running: Rhino) -> None:
    running.post("/api/cmd/StandUp")

    async def drive_and_vanish() -> None:
        async with aiohttp.ClientSession(running.api) as http:
            ws = await http.ws_connect("/api/robots/go2/ws?client=vanishing")
            await ws.send_json({"type": "take"})
            while True:
                message = await ws.receive_json(timeout=20.0)
                if message["type"] == "answer" and message["to"] == "take":
                    break
            for _ in range(3):
                await ws.send_json({"type": "velocity", "vx": 0, "vy": 0, "omega": 0.5})
            while message.get("to") != "velocity" or not message["ok"]:
                message = await ws.receive_json(timeout=20.0)
            connection = ws._response.connection
            assert connection is not None and connection.transport is not None
            connection.transport.abort()  # no close frame, as when a program is killed

    asyncio.run(drive_and_vanish())

    def lost() -> list[str]:
        lines = running.get("/api/gate/log")
        return [line["message"] for line in lines if line["reason"] == "CLIENT_LOST"]

    why = running.wait_until(lost, 10.0, "the zero of a client that vanished")
    assert why[0] == "The connection of vanishing closed while it drove."
    assert running.get("/api/state")["gate"]["holder"] == ""


def test_a_stream_goes_on_where_it_was_cut(running: Rhino) -> None:
    async def read(last: str = "") -> tuple[bool, str]:
        """Return whether it was resumed, and the newest id."""
        headers = {"Last-Event-ID": last} if last else {}
        resumed, newest = False, ""
        async with aiohttp.ClientSession(running.api) as http:
            async with http.get("/api/events", headers=headers) as answer:
                async for line in answer.content:
                    if b'"resumed"' in line:
                        resumed = b'"resumed":true' in line
                    elif line.startswith(b"id: "):
                        newest = line[4:].strip().decode()
                        if b"-" in line and int(newest.split("-")[1]) > 10:
                            return resumed, newest
        raise AssertionError("the stream ended")

    first, last = asyncio.run(read())
    again, _ = asyncio.run(read(last))
    assert not first and again
