import os
import threading
from collections.abc import Iterator

import pytest

from rhino_actors.drivers.mujoco.shm import Channel, SharedBlock, channel_size

CAPACITIES = {"small": 100, "large": 5000}


@pytest.fixture
def block() -> Iterator[SharedBlock]:
    block = SharedBlock.create(CAPACITIES)
    yield block
    block.close()


def memory_of(channel_capacity: int) -> tuple[bytearray, Channel]:
    memory = bytearray(channel_size(channel_capacity))
    return memory, Channel(memoryview(memory), channel_capacity)


def test_nothing_is_read_before_the_first_message(block: SharedBlock) -> None:
    assert block["small"].newest == 0
    assert block["small"].read() is None


def test_the_newest_message_is_read_and_numbers_grow(block: SharedBlock) -> None:
    channel = block["large"]
    assert channel.write(b"first") == 1
    assert channel.write(b"sec", b"ond") == 2
    assert channel.read() == (2, b"second")
    assert channel.read(newer_than=1) == (2, b"second")
    assert channel.read(newer_than=2) is None


def test_every_side_sees_what_another_mapping_wrote(block: SharedBlock) -> None:
    other = SharedBlock(os.dup(block.fd), CAPACITIES)
    other["large"].write(b"x" * 5000)
    other["small"].write(b"y")
    assert block["large"].read() == (1, b"x" * 5000)
    assert block["small"].read() == (1, b"y")
    other.close()


def test_a_message_longer_than_the_channel_is_refused_and_changes_nothing(
    block: SharedBlock,
) -> None:
    block["small"].write(b"kept")
    with pytest.raises(ValueError, match="101 bytes"):
        block["small"].write(b"x" * 101)
    assert block["small"].read() == (1, b"kept")


def test_numbering_goes_on_from_an_earlier_life(block: SharedBlock) -> None:
    block["small"].start_after(41)
    assert block["small"].read() is None
    assert block["small"].write(b"a") == 42
    assert block["small"].read(newer_than=41) == (42, b"a")


def test_a_message_with_a_changed_byte_is_never_given_out() -> None:
    memory, channel = memory_of(64)
    channel.write(b"A" * 64)
    memory[memory.index(b"A")] ^= 1
    assert channel.read() is None


def test_a_writer_that_died_halfway_leaves_the_message_before_readable_and_the_next_one_writable() -> (
    None
):
    memory, channel = memory_of(64)
    channel.write(b"one")
    channel.write(b"two")
    before = bytes(memory)
    channel.write(b"three")
    # What memory holds when the writer of "three" dies before it has published the number.
    memory[:8] = before[:8]
    assert channel.read() == (2, b"two")
    assert channel.write(b"again") == 3
    assert channel.read() == (3, b"again")


def test_a_reader_beside_a_busy_writer_never_sees_a_torn_or_older_message(
    block: SharedBlock,
) -> None:
    channel = block["large"]
    count = 3000

    def write() -> None:
        for number in range(1, count + 1):
            channel.write(bytes([number % 251]) * (1000 + number % 4000))

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while seen < count:
        message = channel.read(newer_than=seen)
        if message is None:
            continue
        number, payload = message
        assert number > seen
        assert payload == bytes([number % 251]) * (1000 + number % 4000)
        seen = number
    writer.join()


def test_the_memory_has_no_name_that_could_be_left_behind(block: SharedBlock) -> None:
    target = os.readlink(f"/proc/self/fd/{block.fd}")
    assert target.endswith("(deleted)")


def test_close_may_be_called_twice() -> None:
    block = SharedBlock.create(CAPACITIES)
    block.close()
    block.close()
