"""Where the server listens, and the token that it asks for. Light: it is checked before anything is started."""

import ipaddress
from dataclasses import dataclass

from rhino_actors.access_token import read_token
from rhino_actors.config import ServerConfig, token_path
from rhino_actors.errors import ConfigError


@dataclass(frozen=True)
class Access:
    """What `Guard` checks."""

    host: str  # bind address
    token: str | None = None  # None: no token is asked for

    @property
    def is_local(self) -> bool:
        """True when only programs of this machine can connect."""
        return is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a bind address can be reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_access(server: ServerConfig) -> Access:
    """Return the checks for a server's configuration, its token read from the file.

    Raises:
        ConfigError: the token file cannot be used, or a bind address beyond loopback has no token.
    """
    path = token_path(server)
    token = read_token(path) if server.token_file or path.exists() else None
    if token is None and not is_loopback(server.host):
        raise ConfigError(
            f"server.host is {server.host}, which other machines can reach, and there is no token.",
            "rhino token makes one; or set server.host to 127.0.0.1.",
        )
    return Access(server.host, token)
