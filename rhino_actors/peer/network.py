"""Where the peer's packets go: over loopback addresses, and through a link that can be made bad."""

import asyncio
import random
from collections.abc import Callable
from typing import Any

from aiortc import RTCPeerConnection


class Link:
    """Loses and delays the datagrams of connections, both ways. Change its fields at any time."""

    def __init__(self, seed: int = 1) -> None:
        self.loss = 0.0  # share, 0..1; 1 is a cut
        self.delay = 0.0  # [s] each way
        self._random = random.Random(seed)

    def attach(self, pc: RTCPeerConnection) -> None:
        """Put the link between a connection and its sockets, once its candidates are gathered."""
        for transport in _ice_connections(pc):
            for protocol in transport._protocols:
                if not isinstance(protocol.transport, _Pipe):
                    protocol.transport = _Pipe(protocol.transport, self)
                    # asyncio calls what the instance has, so this stands before the method.
                    protocol.datagram_received = self._wrapped(protocol.datagram_received)

    def _wrapped(self, received: Callable[..., None]) -> Callable[..., None]:
        return lambda data, addr: self.carry(received, data, addr)

    def carry(self, deliver: Callable[..., None], *values: Any) -> None:
        """Deliver now, later or never."""
        if self.loss > 0.0 and self._random.random() < self.loss:
            return
        if self.delay > 0.0:
            asyncio.get_running_loop().call_later(self.delay, deliver, *values)
        else:
            deliver(*values)


class _Pipe:
    """A datagram transport behind a link."""

    def __init__(self, transport: Any, link: Link) -> None:
        self._transport = transport
        self._link = link

    def sendto(self, data: bytes, addr: Any) -> None:
        self._link.carry(self._send, data, addr)

    def _send(self, data: bytes, addr: Any) -> None:
        if not self._transport.is_closing():
            self._transport.sendto(data, addr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _ice_connections(pc: RTCPeerConnection) -> list[Any]:
    found = {}
    transports = [transceiver.receiver.transport for transceiver in pc.getTransceivers()]
    if pc.sctp is not None:
        transports.append(pc.sctp.transport)
    for dtls in transports:
        connection = dtls.transport._connection
        found[id(connection)] = connection
    return list(found.values())
