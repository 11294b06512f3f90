"""What a client is called: the name that others see, and by which the motion gate tells who drives."""

from rhino_actors.errors import InvalidRequest

HEADER = "X-Rhino-Client"
MAX_CLIENT_NAME = 64
# Names by which rhino's own parts hold the robot; a client must not pass for one of them.
RESERVED_NAMES = frozenset({"explorer", "planner", "platform"})
UNKNOWN = "unknown"
_ASSISTANT = "assistant ("


def client_name(given: str | None, address: str | None) -> str:
    """Return the name of a REST client: what it calls itself, else its address. Raises InvalidRequest."""
    if not given:
        return address or UNKNOWN
    name = given.strip()
    if not name or len(name) > MAX_CLIENT_NAME or not name.isprintable():
        raise InvalidRequest(
            "The client's name cannot be used.",
            f"{HEADER} has 1 to {MAX_CLIENT_NAME} printable characters.",
        )
    if name.lower() in RESERVED_NAMES or name.lower().startswith(_ASSISTANT):
        raise InvalidRequest(
            f"The name {name!r} belongs to a part of rhino or an assistant.", "Choose another."
        )
    return name


def assistant_name(given: str | None, program: str | None, address: str | None) -> str:
    """Return the name of an MCP client; one that cannot be used is shortened, never refused: it may want to stop.

    There are no MCP sessions, so this is all that every request of a client carries:

    * the header X-Rhino-Client, if it is set: two assistants are two holders wherever they run;
    * else the program's own name, where the protocol version has it in each request (2026-07-28 on), and the
      address: two programs, or two machines, are two holders. Two assistants of one program on one machine, or behind
      one proxy or tunnel, are one and the same holder: they can interrupt each other without CONTROL_HELD.

    Ports say nothing: a client opens new connections as it likes. An assistant never has the name of a person, so it
    cannot take the robot from one, or lower its rank, by calling itself the same.
    """
    if named := _plain(given):
        return f"{_ASSISTANT}{named})"
    known = filter(None, (_plain(program), _plain(address) or UNKNOWN))
    return f"{_ASSISTANT}{', '.join(known)})"


def from_header(value: str) -> str:
    """Return a header's text: HTTP hands headers over as latin-1; names beyond it come as UTF-8 bytes."""
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value


def _plain(text: str | None) -> str:
    return "".join(ch for ch in text or "" if ch.isprintable()).strip()[:MAX_CLIENT_NAME]
