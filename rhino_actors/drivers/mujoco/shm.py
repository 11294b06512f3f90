"""Shared memory between the platform actor, the physics process and the camera process.

One anonymous file holds one channel per stream. Each side maps it through an inherited descriptor and it has no
name, so the kernel frees it with its last user, however that one ends. A channel has one writer and any number of
readers; nobody ever waits. The newest message lies in one of two slots; the message's number at both ends of the
slot and a checksum keep a reader from taking a torn one. Stands on the standard library alone.
"""

import mmap
import os
import tempfile
import zlib
from collections.abc import Iterable, Mapping

_WORD = 8
_ALIGN = 64
_CHANNEL_HEADER = 64  # [0] number of the newest complete message
_SLOT_HEADER = 64  # [0] number at begin, [1] number at end, [2] length, [3] checksum
_READ_ATTEMPTS = 8


class Channel:
    """The newest message of one stream. Messages are numbered from 1; a number never repeats."""

    def __init__(self, view: memoryview, capacity: int) -> None:
        """Lay a channel over `view`, which is `channel_size(capacity)` long and begins as zeros or in use."""
        self._capacity = capacity
        self._header = view[:_CHANNEL_HEADER].cast("Q")
        slot = _SLOT_HEADER + _aligned(capacity)
        starts = [_CHANNEL_HEADER + index * slot for index in (0, 1)]
        self._slots = [view[start : start + _SLOT_HEADER].cast("Q") for start in starts]
        self._payloads = [
            view[start + _SLOT_HEADER : start + _SLOT_HEADER + capacity] for start in starts
        ]

    @property
    def newest(self) -> int:
        """Number of the newest complete message, 0 before the first."""
        return self._header[0]

    def start_after(self, number: int) -> None:
        """Let the next message have `number` + 1. Only before the first is written."""
        self._header[0] = number

    def write(self, *parts: bytes | memoryview) -> int:
        """Publish the parts as one message and return its number.

        The words are single stores of eight bytes. The number at the slot's begin is changed first and that of its
        end last, so a reader that meets the writer, or what a killed writer left, sees that they differ.

        Raises:
            ValueError: the message is longer than the channel's capacity.
        """
        views = [memoryview(part).cast("B") for part in parts]
        length = sum(len(view) for view in views)
        if length > self._capacity:
            raise ValueError(f"message of {length} bytes, the channel holds {self._capacity}")
        number = self._header[0] + 1
        slot, payload = self._slots[number & 1], self._payloads[number & 1]
        slot[0] = number
        slot[1] = 0
        position, checksum = 0, 0
        for view in views:
            payload[position : position + len(view)] = view
            position += len(view)
            checksum = zlib.crc32(view, checksum)
        slot[2] = length
        slot[3] = checksum
        slot[1] = number
        self._header[0] = number
        return number

    def read(self, newer_than: int = 0) -> tuple[int, bytes] | None:
        """Return the newest message and its number if the number exceeds `newer_than`, else None.

        None also when every attempt met the writer; the next call will do.
        """
        for _ in range(_READ_ATTEMPTS):
            number = self._header[0]
            if number <= newer_than:
                return None
            slot, payload = self._slots[number & 1], self._payloads[number & 1]
            length = slot[2]
            if slot[0] != number or slot[1] != number or length > self._capacity:
                continue
            message = bytes(payload[:length])
            if slot[0] == number and slot[1] == number and slot[3] == zlib.crc32(message):
                return number, message
        return None

    def release(self) -> None:
        """Let go of the memory."""
        for view in (self._header, *self._slots, *self._payloads):
            view.release()


class SharedBlock:
    """Named channels in one anonymous file."""

    def __init__(self, fd: int, capacities: Mapping[str, int]) -> None:
        """Map the file; `capacities` [bytes] must be the same, in the same order, on every side."""
        self.fd = fd
        self._map = mmap.mmap(fd, block_size(capacities.values()))
        self._view = memoryview(self._map)
        self._channels: dict[str, Channel] = {}
        position = 0
        for name, capacity in capacities.items():
            size = channel_size(capacity)
            self._channels[name] = Channel(self._view[position : position + size], capacity)
            position += size

    @classmethod
    def create(cls, capacities: Mapping[str, int]) -> "SharedBlock":
        """Make the file, all zeros, and map it. Processes inherit it through `fd` (`pass_fds`)."""
        fd = _anonymous_file()
        os.ftruncate(fd, block_size(capacities.values()))
        return cls(fd, capacities)

    def __getitem__(self, name: str) -> Channel:
        return self._channels[name]

    def close(self) -> None:
        """Unmap and close. Other sides keep theirs. May be called twice."""
        if self.fd < 0:
            return
        for channel in self._channels.values():
            channel.release()
        self._view.release()
        self._map.close()
        os.close(self.fd)
        self.fd = -1


def channel_size(capacity: int) -> int:
    """Return the bytes that a channel for messages of up to `capacity` bytes takes."""
    return _CHANNEL_HEADER + 2 * (_SLOT_HEADER + _aligned(capacity))


def block_size(capacities: Iterable[int]) -> int:
    """Return the bytes that a block of these channels takes."""
    return sum(channel_size(capacity) for capacity in capacities)


def _aligned(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("rhino-sim", os.MFD_CLOEXEC)
    handle, path = tempfile.mkstemp(prefix="rhino-sim-")
    os.unlink(path)
    return handle
