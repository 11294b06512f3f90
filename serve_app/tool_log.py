"""The log and the metrics of what assistants call, in the form of the access log: each tool as a route below /mcp."""

from serve_app.access_log import Entry, Journal, RequestMeters
from serve_app.api.errors import error_table
from serve_app.mcp.server import CANCELLED, ToolCall
from serve_app.route_table import OTHER

_CANCELLED_STATUS = 499  # as where a client of REST left before the answer


class ToolLog:
    """Gives each call of a tool to the journal and the meters."""

    def __init__(
        self, robots: tuple[str, ...], journal: Journal, meters: RequestMeters | None = None
    ) -> None:
        """Take the names of the robots, the first of which is meant where none is named, and where it goes."""
        self._robots = robots
        self._journal = journal
        self._meters = meters
        self._statuses = {row.code: row.status or 500 for row in error_table()}
        self._statuses[CANCELLED] = _CANCELLED_STATUS

    def note(self, call: ToolCall) -> None:
        """Take one call that has ended."""
        named = call.robot or self._robots[0]
        entry = Entry(
            robot=named if named in self._robots else "",
            client=call.client,
            method="GET" if call.reads else "POST",
            route=f"/mcp/{call.tool}" if call.tool else OTHER,
            status=self._statuses.get(call.code, 500) if call.code else 200,
            seconds=call.seconds,
            code=call.code,
            holder=call.holder,
        )
        self._journal.note(entry)
        if self._meters is not None:
            self._meters.request(
                entry.method,
                entry.route,
                entry.robot,
                entry.status,
                entry.seconds,
                is_stream=False,
            )
            if entry.code:
                self._meters.refusal(entry.code)
