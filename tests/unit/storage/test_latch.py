"""The e-stop's file: in doubt it is latched."""

import json
from pathlib import Path

import pytest

from rhino_actors.storage.latch import LatchFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "go2" / "estop.json"


def test_without_a_file_nothing_is_latched(path: Path) -> None:
    assert LatchFile(path).read() == (None, None)


@pytest.mark.parametrize("who", ["bert", "Zoë 🐕", 'a "b"\n'])
def test_what_was_written_is_read_by_the_next_life(path: Path, who: str) -> None:
    LatchFile(path).write(who, 12.5)
    assert LatchFile(path).read() == (who, 12.5)
    LatchFile(path).write(None, None)
    assert LatchFile(path).read() == (None, None)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"\xff\xfe", b'{"latched": "no"}', b'{"latched": 0}', b"null", b"1"],
)
def test_a_file_that_cannot_be_read_counts_as_latched_and_can_be_replaced(
    path: Path, content: bytes
) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    by, _ = LatchFile(path).read()
    assert by
    LatchFile(path).write(None, None)
    assert json.loads(path.read_text())["latched"] is False


def test_a_failed_write_is_told_and_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LatchFile(path).write("bert", 1.0)

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail)
        with pytest.raises(OSError, match="disk is full"):
            LatchFile(path).write(None, None)
    assert LatchFile(path).read() == ("bert", 1.0)
