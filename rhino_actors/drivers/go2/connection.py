"""One WebRTC connection to a Go2: the library's, with what it does wrong in the field put right by a subclass.

The library ends the process when it cannot connect, blocks the event loop with HTTP, decodes every lidar map with a
decoder that leaks, keeps requests for ever and prints. Here failures are typed errors within a time limit, HTTP runs
in a thread, messages are handed on as they are, and a failed connection is always closed.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable
from typing import Any

from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamTrack

from rhino_actors.drivers.go2 import protocol
from rhino_actors.drivers.go2.addresses import is_loopback, offer_only
from rhino_actors.drivers.go2.library import (
    UnitreeWebRTCConnection,
    WebRTCAudioChannel,
    WebRTCConnectionMethod,
    WebRTCDataChannel,
    WebRTCVideoChannel,
)
from rhino_actors.drivers.go2.signalling import exchange, open_ports
from rhino_actors.errors import ChannelNotOpened, NotConnected

CLOSE_TIMEOUT_S = 3.0
EXCHANGE_TIMEOUT_S = 15.0
TEXT = 51  # payload protocol of a text message (RFC 8831)
VALIDATED = "Validation Ok."

logger = logging.getLogger(__name__)


class MessageChannel(WebRTCDataChannel):  # type: ignore[misc]  # the library has no types
    """The library's data channel with its own reader, in which no message can raise, block or pile up."""

    def __init__(
        self,
        connection: "Connection",
        pc: RTCPeerConnection,
        on_message: Callable[[dict[str, Any]], None],
        on_binary: Callable[[bytes], None],
    ) -> None:
        super().__init__(connection, pc)
        self._on_message = on_message
        self._on_binary = on_binary
        self._sending: set[asyncio.Future[None]] = set()  # the loop itself holds no task
        self.asked = False  # the robot has sent its validation key
        self.validated = asyncio.Event()
        self.channel.remove_all_listeners("message")
        self.channel.on("message", self._take)

    def set_decoder(self, decoder_type: str) -> None:
        """Keep no decoder: lidar maps are handed on as they came."""
        self.decoder = None

    def send(self, text: str) -> None:
        """Send text reliably. Raises NotConnected."""
        if self.channel.readyState != "open":
            raise NotConnected()
        self.channel.send(text)

    def send_expiring(self, text: str, lifetime: float) -> None:
        """Send text that is thrown away when it was not delivered in `lifetime` [s]. Raises NotConnected.

        The channel delivers in order and for ever; a command that waited is worse than none. Robots that do not
        know the extension (RFC 3758) get it as any other message.
        """
        transport, number = self.channel.transport, self.channel.id
        if not getattr(transport, "_remote_partial_reliability", False) or number is None:
            self.send(text)
            return
        if self.channel.readyState != "open":
            raise NotConnected()
        sending = transport._send(number, TEXT, text.encode(), expiry=time.time() + lifetime)
        task = asyncio.ensure_future(sending)
        self._sending.add(task)
        task.add_done_callback(self._sent)

    def _sent(self, task: "asyncio.Future[None]") -> None:
        self._sending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("a command could not be sent: %s", error)

    @property
    def buffered(self) -> int:
        """Bytes that wait to be sent, or for the robot to say that it has them."""
        transport = self.channel.transport
        waiting: int = sum(chunk._book_size for chunk in transport._outbound_queue)
        return int(self.channel.bufferedAmount) + waiting

    def _take(self, message: Any) -> None:
        """Take a message. An exception here would end the transport that calls it, so none leaves."""
        try:
            self._read(message)
        except Exception:
            logger.exception("a message of the robot could not be handled: %.200r", message)

    def _read(self, message: Any) -> None:
        if isinstance(message, bytes):
            self._on_binary(message)
            return
        try:
            fields = json.loads(message)
            kind = fields["type"]
        except (ValueError, KeyError, TypeError, RecursionError):
            logger.debug("a message that is not one: %.80r", message)
            return
        if kind == "validation":
            self._validate(fields.get("data"))
        elif kind == "err" and fields.get("info") == "Validation Needed." and self.asked:
            self._validate(self.validaton.key)
        elif kind == "heartbeat":
            self.heartbeat.handle_response(fields)
        elif kind == "rtc_inner_req" and _is_probe(fields.get("info")):
            self.send(protocol.envelope("rtc_inner_req", data=fields["info"]))
        self._on_message(fields)

    def _validate(self, key: Any) -> None:
        if key == VALIDATED:
            if not self.validated.is_set():
                self.validated.set()
                self.heartbeat.start_heartbeat()
            return
        # The robot speaks before it acknowledged the channel's opening, and waits for the answer.
        self.channel._setReadyState("open")
        self.validaton.key, self.asked = key, True
        self.send(protocol.envelope("validation", data=self.validaton.encrypt_key(key)))


class Connection(UnitreeWebRTCConnection):  # type: ignore[misc]  # the library has no types
    """A connection for one life: made, opened once, closed."""

    def __init__(
        self,
        host: str,
        aes_key: str,
        *,
        budget: float,
        on_message: Callable[[dict[str, Any]], None],
        on_binary: Callable[[bytes], None],
        on_track: Callable[[MediaStreamTrack], None],
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            host: address of the robot.
            aes_key: 32 hexadecimal digits, or empty.
            budget: longest wait for an open channel once the robot answered [s].
            on_message: called with every JSON message.
            on_binary: called with every binary message.
            on_track: called with each track as it appears.
        """
        super().__init__(WebRTCConnectionMethod.LocalSTA, ip=host)
        self._host = host
        self._aes_key = aes_key
        self._budget = budget
        self._on_message = on_message
        self._on_binary = on_binary
        self._on_track = on_track
        self.pc: RTCPeerConnection | None = None
        self.datachannel: MessageChannel | None = None

    @property
    def channel(self) -> MessageChannel:
        """The open channel. Raises NotConnected."""
        if self.datachannel is None or self.pc is None:
            raise NotConnected()
        return self.datachannel

    @property
    def is_gone(self) -> bool:
        """The robot has closed the connection, or it has failed."""
        if self.datachannel is None or self.pc is None:
            return True
        ended = self.pc.connectionState in ("closed", "failed")
        return ended or self.datachannel.channel.readyState in ("closing", "closed")

    async def connect(self) -> None:
        """Connect and validate, or raise a NotConnected that says why not; then everything is closed again."""
        try:
            await self._open()
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        """Close everything. May be called twice."""
        pc, self.pc = self.pc, None
        if self.datachannel is not None:
            self.datachannel.heartbeat.stop_heartbeat()
        if pc is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_S):
                    await pc.close()

    async def _open(self) -> None:
        ports = await open_ports(self._host)
        offer_only("127.0.0.1" if is_loopback(self._host) else None)
        pc = self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        channel = self.datachannel = MessageChannel(self, pc, self._on_message, self._on_binary)
        self.audio = WebRTCAudioChannel(pc, channel)
        self.video = WebRTCVideoChannel(pc, channel)
        pc.on("track", self._on_track)
        await pc.setLocalDescription(await pc.createOffer())
        sdp = pc.localDescription.sdp
        check_offer(sdp)
        offer = json.dumps({"id": "STA_localNetwork", "sdp": sdp, "type": "offer", "token": ""})
        async with asyncio.timeout(EXCHANGE_TIMEOUT_S):
            answer = await asyncio.to_thread(exchange, self._host, ports, offer, self._aes_key)
        try:
            await pc.setRemoteDescription(RTCSessionDescription(answer, "answer"))
        except ValueError as error:
            raise ChannelNotOpened(f"The robot's answer cannot be used: {error}.") from error
        try:
            async with asyncio.timeout(self._budget):
                await channel.validated.wait()
        except TimeoutError:
            raise self._stalled(pc, channel) from None

    def _stalled(self, pc: RTCPeerConnection, channel: MessageChannel) -> ChannelNotOpened:
        """Say which layer did not come about."""
        after = f"within {self._budget:.0f} s"
        if channel.asked:
            return ChannelNotOpened(f"The robot did not accept rhino's validation {after}.")
        if pc.iceConnectionState not in ("completed", "connected"):
            return ChannelNotOpened(
                f"No packets passed between this host and the robot {after} (ICE).",
                "Both must be in one network; a firewall or a VPN may drop UDP between them.",
            )
        if pc.connectionState != "connected":
            return ChannelNotOpened(f"The encrypted link was not set up {after} (DTLS).")
        return ChannelNotOpened(f"The robot did not speak on the data channel {after}.")


def check_offer(sdp: str) -> None:
    """Log what real robots are reported to choke on: the installed aiortc is then too old."""
    lines = sdp.splitlines()
    names = {line for line in lines if line.startswith("a=ice-ufrag:")}
    others = any(line.startswith("a=fingerprint:") and "sha-256" not in line for line in lines)
    if len(names) != 1 or others:
        logger.error(
            "the offer has %d ufrags; robots refuse it: install aiortc >= 1.15", len(names)
        )


def _is_probe(info: Any) -> bool:
    return isinstance(info, dict) and info.get("req_type") == "rtt_probe_send_from_mechine"
