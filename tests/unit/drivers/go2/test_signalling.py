"""The notice of each key scheme, and every way in which it can be wrong."""

import asyncio
import base64
import json
import os
from pathlib import Path

import pytest

pytest.importorskip("aiortc")

from rhino_actors.drivers.go2.request_table import RequestTable
from rhino_actors.drivers.go2.signalling import path_digits, read_notice
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
