"""A `rhino peer` in a process of its own, and its control port."""

import asyncio
import random
import signal
import subprocess
from typing import Any

from rhino_actors.peer.http import request
from tests.deployment import Rhino, free_port


class Peer:
    """A `rhino peer` in a process of its own."""

    def __init__(self, rhino: Rhino, *words: str, world: str = "room") -> None:
        self.host = (
            f"127.{random.randint(1, 250)}.{random.randint(0, 250)}.{random.randint(2, 250)}"
        )
        self.port = free_port()
        self.process: subprocess.Popen[str] = rhino.start(
            "peer", "--world", world, "--host", self.host, "--control-port", str(self.port), *words
        )

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        return asyncio.run(request(self.host, self.port, method, path, body))

    def is_up(self) -> bool:
        try:
            return bool(self.ask("GET", "/stats"))
        except OSError:
            return False

    def end(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30.0)
