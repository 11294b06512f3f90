"""Requests that wait for the robot's answer: numbers of their own, time-outs, status codes."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from rhino_actors.errors import NotConnected

NUMBERS = 2**31


class Answer(NamedTuple):
    """What the robot answered."""

    code: int
    data: str


class RequestTable:
    """Numbers requests and brings each answer to whoever waits. An answer that nobody waits for is dropped."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._last = -1
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def number(self) -> int:
        """Return the next number: the time in ms as the library's, but never one twice."""
        present = int(self._wall() * 1000)
        self._last = max(self._last + 1, present)
        return self._last % NUMBERS

    async def wait(self, number: int, timeout: float) -> Answer:
        """Wait for the answer to a request. Raises TimeoutError, or NotConnected when the link goes."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            async with asyncio.timeout(timeout):
                return await future
        finally:
            del self._waiting[number]

    def answered(self, data: Any) -> tuple[int, int] | None:
        """Take an answer's `data`; return its api number and code, or None when it is none."""
        try:
            identity, code = data["header"]["identity"], data["header"]["status"]["code"]
            number, api_id = identity["id"], identity.get("api_id", 0)
        except (KeyError, TypeError, AttributeError):
            return None
        if not isinstance(number, int) or not isinstance(code, int) or not isinstance(api_id, int):
            return None
        text = data.get("data", "")
        future = self._waiting.get(number)
        if future is not None and not future.done():
            future.set_result(Answer(code, text if isinstance(text, str) else json.dumps(text)))
        return api_id, code

    def fail_all(self) -> None:
        """End every wait: the link is gone."""
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(NotConnected("The link to the robot went before it answered."))
