"""The log of what was refused or failed: one line each, the same one once a second at most.

What succeeded is not logged: a page asks several times a second, for as long as it is open.
"""

import logging
import math
import time

_log = logging.getLogger(__name__)

SILENCE_S = 1.0
MAX_KEPT = 1000
MAX_TEXT = 200


class RefusalLog:
    """Writes the lines, and remembers which it has just written."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, str, str], float] = {}

    def write(
        self, level: int, client: str, what: str, code: str, message: str, holder: str = ""
    ) -> None:
        """Note that `what` was refused to `client`. Texts of the client's are made harmless."""
        key, now = (client, what, code), time.monotonic()
        if now - self._written.get(key, -math.inf) < SILENCE_S:
            return
        if len(self._written) >= MAX_KEPT:
            self._written.clear()
        self._written[key] = now
        who_drives = f" ({holder} drives)" if holder else ""
        words = (what, client, code, message, who_drives)
        _log.log(level, "%s by %s: %s: %s%s", *(_one_line(word) for word in words))


def log_with_serve() -> None:
    """Send this package's lines to where Serve writes its own: the replica's log file, and its standard error."""
    own = logging.getLogger("serve_app")
    own.setLevel(logging.INFO)
    own.propagate = False
    own.handlers = [_ToServe()]


class _ToServe(logging.Handler):
    """Looks the handlers up at each line: Serve replaces them when it is configured anew."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger("ray.serve").handle(record)


def _one_line(text: str) -> str:
    return "".join(ch if ch.isprintable() else "?" for ch in text[:MAX_TEXT])
