"""The notice of each key scheme, and every way in which it can be wrong."""

import asyncio
import base64
import contextlib
import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

pytest.importorskip("aiortc")

from rhino_actors.drivers.go2.request_table import RequestTable
from rhino_actors.drivers.go2.signalling import _post, path_digits, read_notice
from rhino_actors.errors import (
    NotConnected,
    RobotKeyMissing,
    RobotKeyRejected,
    SignallingFailed,
)
from rhino_actors.peer.keys import RobotKeys

SHARED = Path(os.environ.get("RHINO_SHARED") or Path(__file__).resolve().parents[5] / "shared")
VECTORS = SHARED / "data" / "go2" / "protocol.json"
KEY = "00112233445566778899aabbccddeeff"


@pytest.mark.skipif(not VECTORS.is_file(), reason=f"no {VECTORS}: set RHINO_SHARED")
def test_every_vector_of_a_notice_is_opened() -> None:
    for case in json.loads(VECTORS.read_text())["con_notify"]:
        plain = read_notice(case["body"], case["aes_128_key"] or "")
        assert f"con_ing_{path_digits(plain)}" == case["path"]


@pytest.mark.parametrize("data2", [1, 2, 3])
def test_the_peers_notice_is_opened_and_names_its_path(data2: int) -> None:
    keys = RobotKeys(data2, KEY, path="90210")
    assert path_digits(read_notice(keys.notice(), KEY)) == "90210"


def test_a_missing_and_a_wrong_key_are_two_errors() -> None:
    notice = RobotKeys(3, KEY).notice()
    with pytest.raises(RobotKeyMissing):
        read_notice(notice, "")
    for wrong in ("ff" * 16, "abc", "zz" * 16, KEY + "00"):
        with pytest.raises(RobotKeyRejected):
            read_notice(notice, wrong)


def sealed(**fields: object) -> str:
    return base64.b64encode(json.dumps(fields).encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no base64!",
        base64.b64encode(b"no json").decode(),
        base64.b64encode(b"[1]").decode(),
        sealed(),
        sealed(data1=5),
        sealed(data1="abc", data2=2),
        sealed(data1="", data2=2),
        sealed(data1="AAAA" * 20, data2=2),
        sealed(data1="!!!", data2=3),
        sealed(data1="AAAA", data2=3),
        sealed(data1="x", data2=4),
        sealed(data1="x", data2="2"),
    ],
    ids=range(13),
)
def test_a_notice_that_is_none_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(SignallingFailed):
        read_notice(text, KEY)


@pytest.mark.parametrize("data1", ["", "short", "x" * 40, "AAAAA" + "AZ" * 5])
def test_a_path_that_is_none_is_refused(data1: str) -> None:
    with pytest.raises(SignallingFailed):
        path_digits(data1)


class Robot:
    """Answers one POST with what it is given, piece by piece, until the client is gone."""

    def __init__(self, head: bytes, pieces: Iterator[bytes]) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/offer"
        self._head, self._pieces = head, pieces
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> str:
        self._thread.start()
        return self.url

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self._thread.join(5.0)

    def _serve(self) -> None:
        client, _ = self._server.accept()
        with client, contextlib.suppress(OSError):
            asked = b""
            # The body comes in a packet of its own; closing before it was read would reset the connection.
            while not asked.endswith(b"\r\n\r\n{}") and (piece := client.recv(65_536)):
                asked += piece
            client.sendall(b"HTTP/1.1 " + self._head + b"\r\n\r\n")
            for piece in self._pieces:
                client.sendall(piece)
                time.sleep(0.05 if len(piece) == 1 else 0.0)


def posted(robot: Robot) -> str:
    with robot as url, requests.Session() as http:
        http.trust_env = False
        return _post(http, url, "{}", "json")


def test_an_answer_is_read_to_its_end() -> None:
    head = b"200 OK\r\nContent-Length: 11"
    assert posted(Robot(head, iter([b'{"sdp', b'":"x"}']))) == '{"sdp":"x"}'


def test_an_answer_that_drips_ends_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rhino_actors.drivers.go2.signalling.ANSWER_S", 0.3)
    dripping = Robot(b"200 OK\r\nContent-Length: 200", itertools.repeat(b"x", 200))
    with pytest.raises(SignallingFailed, match="not complete"):
        posted(dripping)


def test_an_answer_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rhino_actors.drivers.go2.signalling.MAX_ANSWER", 10_000)
    sent = itertools.count()
    pieces = (bytes(4096) for _ in itertools.takewhile(lambda n: n < 5000, sent))
    with pytest.raises(SignallingFailed, match="too long"):
        posted(Robot(b"200 OK", pieces))
    assert next(sent) < 5000


def test_the_offer_is_not_sent_on_to_where_an_answer_points() -> None:
    head = b"307 Temporary\r\nLocation: http://127.0.0.1:9/offer\r\nContent-Length: 0"
    with pytest.raises(SignallingFailed, match="307"):
        posted(Robot(head, iter(())))


def test_request_numbers_never_repeat_even_when_the_clock_stands() -> None:
    table = RequestTable(wall=lambda: 1000.0)
    assert len({table.number() for _ in range(1000)}) == 1000


async def test_answers_reach_whoever_asked_late_and_foreign_ones_nobody() -> None:
    table = RequestTable()
    first, second = table.number(), table.number()

    def answer(number: int, code: int) -> dict[str, object]:
        identity = {"id": number, "api_id": 1016}
        return {"header": {"identity": identity, "status": {"code": code}}, "data": "d"}

    waiting = [asyncio.create_task(table.wait(number, 5.0)) for number in (first, second)]
    await asyncio.sleep(0)
    assert table.answered(answer(second, 3203)) == (1016, 3203)
    assert table.answered(answer(first, 0)) == (1016, 0)
    assert [(await task).code for task in waiting] == [0, 3203]
    for late in (answer(first, 0), answer(12345, 0), answer(first, 0)):
        table.answered(late)
    for broken in (None, {}, {"header": 5}, {"header": {"identity": {}, "status": {}}}):
        assert table.answered(broken) is None
    with pytest.raises(TimeoutError):
        await table.wait(table.number(), 0.01)
    lost = asyncio.create_task(table.wait(table.number(), 5.0))
    await asyncio.sleep(0)
    table.fail_all()
    with pytest.raises(NotConnected):
        await lost
    assert len(table) == 0
