"""Which of this host's addresses a WebRTC connection offers.

aioice offers all but 127.0.0.1. For a robot on a loopback address (`rhino peer`) that is wrong both ways: without a
network there is none, and with one the packets would leave by it.
"""

import ipaddress
from contextvars import ContextVar

import aioice.ice

_only: ContextVar[list[str] | None] = ContextVar("only_address", default=None)
_all_addresses = aioice.ice.get_host_addresses


def is_loopback(host: str) -> bool:
    """Return whether `host` is a loopback address, written as a number or as localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def offer_only(address: str | None) -> None:
    """Let connections of this task, and of tasks that it starts, offer one address; None: all of the host's."""
    if aioice.ice.get_host_addresses is not _addresses:
        aioice.ice.get_host_addresses = _addresses
    _only.set(None if address is None else [address])


def _addresses(use_ipv4: bool, use_ipv6: bool) -> list[str]:
    only = _only.get()
    return _all_addresses(use_ipv4, use_ipv6) if only is None else only
