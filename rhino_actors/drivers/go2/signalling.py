"""How a client gets its offer to the robot: two generations of HTTP, three key schemes, every failure by its name.

The exchange blocks and runs in a thread. It takes no proxy from the environment and waits nowhere without a limit.
"""

import asyncio
import base64
import binascii
import json
import re
import time
from enum import StrEnum
from typing import Any

import requests
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from rhino_actors.drivers.go2.library import (
    aes_decrypt,
    aes_encrypt,
    decrypt_con_notify_data,
    generate_aes_key,
    rsa_encrypt,
    rsa_load_public_key,
)
from rhino_actors.errors import (
    RobotBusy,
    RobotKeyMissing,
    RobotKeyRejected,
    RobotUnreachable,
    SignallingFailed,
)

OLD_PORT, NEW_PORT = 8081, 9991
PROBE_S = 1.5
HTTP_TIMEOUT = (1.5, 5.0)  # [s] to connect, and between two bytes
ANSWER_S = 6.0  # [s] for a whole answer
EDGE = 10  # characters before and behind the key in data1
NONCE_BYTES, TAG_BYTES = 12, 16
DIGITS = "ABCDEFGHIJ"
MAX_ANSWER = 1_000_000  # [bytes]


class PortState(StrEnum):
    """What a TCP port does when it is knocked at."""

    OPEN = "open"
    REFUSED = "refused"
    SILENT = "silent"


async def probe(host: str, port: int, timeout: float = PROBE_S) -> PortState:
    """Return what a port does within `timeout` [s]."""
    try:
        async with asyncio.timeout(timeout):
            _, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return PortState.REFUSED
    except (OSError, TimeoutError):
        return PortState.SILENT
    writer.close()
    return PortState.OPEN


async def open_ports(host: str) -> list[int]:
    """Return the robot's open signalling ports, the newer first.

    Raises:
        RobotUnreachable: there is none; the message says whether the host is there at all.
    """
    if not host:
        raise RobotUnreachable(
            "No address of the robot is configured.",
            "Give it: rhino deploy go2 --robot-ip ADDRESS; rhino discover finds it.",
        )
    states = await asyncio.gather(probe(host, NEW_PORT), probe(host, OLD_PORT))
    found = [
        port
        for port, state in zip((NEW_PORT, OLD_PORT), states, strict=True)
        if state is PortState.OPEN
    ]
    if found:
        return found
    if PortState.REFUSED in states:
        raise RobotUnreachable(
            f"{host} is there, but neither port {NEW_PORT} nor {OLD_PORT} of it is open.",
            "It may still be starting (wait a minute), or be another machine: the payload"
            " computer's 192.168.123.18 is not the robot.",
        )
    raise RobotUnreachable(
        f"Nothing answers at {host}.",
        "Is the robot on and in this network, and is this its address? rhino discover finds it.",
    )


def exchange(host: str, ports: list[int], offer: str, aes_key: str) -> str:
    """Bring an offer to the robot and return the SDP of its answer. Blocks for seconds at worst.

    Args:
        host: of the robot.
        ports: those that are open, in the order to try.
        offer: JSON with id, sdp, type and token.
        aes_key: 32 hexadecimal digits for data2 = 3, or empty.

    Raises:
        RobotBusy, RobotKeyMissing, RobotKeyRejected, SignallingFailed, RobotUnreachable: see each.
    """
    failure: Exception | None = None
    for port in ports:
        try:
            with requests.Session() as http:
                http.trust_env = False
                if port == NEW_PORT:
                    answer = _new(http, host, offer, aes_key)
                else:
                    answer = _post(http, f"http://{host}:{OLD_PORT}/offer", offer, "json")
                return _sdp(answer)
        except (SignallingFailed, RobotUnreachable) as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _new(http: requests.Session, host: str, offer: str, aes_key: str) -> str:
    base = f"http://{host}:{NEW_PORT}"
    data1 = read_notice(_post(http, f"{base}/con_notify", None, ""), aes_key)
    try:
        public = rsa_load_public_key(data1[EDGE:-EDGE])
    except (ValueError, IndexError, TypeError) as error:
        raise SignallingFailed(f"The robot's public key cannot be read: {error}.") from error
    key = generate_aes_key()
    body = json.dumps({"data1": aes_encrypt(offer, key), "data2": rsa_encrypt(key, public)})
    sealed = _post(http, f"{base}/con_ing_{path_digits(data1)}", body, "x-www-form-urlencoded")
    try:
        return str(aes_decrypt(sealed, key))
    except (ValueError, IndexError) as error:
        raise SignallingFailed(f"The robot's answer cannot be decrypted: {error}.") from error


def read_notice(text: str, aes_key: str) -> str:
    """Return the plain data1 of a con_notify answer.

    Raises:
        RobotKeyMissing, RobotKeyRejected: data2 is 3, and the key is empty or another's.
        SignallingFailed: not such an answer, or a scheme that is not known.
    """
    try:
        fields = json.loads(base64.b64decode(text, validate=True))
        data1, scheme = fields["data1"], fields.get("data2", 1)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SignallingFailed(f"con_notify cannot be read: {error!r}.") from error
    if not isinstance(data1, str):
        raise SignallingFailed("con_notify has no data1.")
    if scheme in (None, 1):
        return data1
    try:
        if scheme == 2:
            return str(decrypt_con_notify_data(data1))
        if scheme == 3:
            return _unsealed(data1, checked_key(aes_key))
    except InvalidTag as error:
        if scheme == 3:
            raise RobotKeyRejected() from error
        raise SignallingFailed("con_notify is encrypted with a key that is not known.") from error
    except ValueError as error:
        raise SignallingFailed(f"con_notify cannot be decrypted: {error}.") from error
    raise SignallingFailed(f"The robot asks for key scheme {scheme!r}, which is not known.")


def checked_key(aes_key: str) -> bytes:
    """Return the robot's own key. Raises RobotKeyMissing, RobotKeyRejected."""
    key = aes_key.strip()
    if not key:
        raise RobotKeyMissing()
    if not re.fullmatch(r"[0-9a-fA-F]{32}", key):
        raise RobotKeyRejected(
            f"The AES-128 key has {len(key)} characters, not 32 hexadecimal digits."
        )
    return bytes.fromhex(key)


def path_digits(data1: str) -> str:
    """Return the five digits that the second request's path ends with. Raises SignallingFailed."""
    digits = [DIGITS.find(letter) for letter in data1[-EDGE:][1::2]]
    if len(digits) != EDGE // 2 or min(digits) < 0:
        raise SignallingFailed("con_notify names no path.")
    return "".join(map(str, digits))


def _unsealed(data1: str, key: bytes) -> str:
    try:
        blob = base64.b64decode(data1, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
    if len(blob) < NONCE_BYTES + TAG_BYTES:
        raise ValueError("too short")
    tag, nonce = blob[-TAG_BYTES:], blob[-TAG_BYTES - NONCE_BYTES : -TAG_BYTES]
    sealed = blob[: -TAG_BYTES - NONCE_BYTES] + tag
    return AESGCM(key).decrypt(nonce, sealed, None).decode()


def _post(http: requests.Session, url: str, body: str | None, kind: str) -> str:
    headers = {"Content-Type": f"application/{kind}"} if kind else {}
    give_up = time.monotonic() + ANSWER_S
    try:
        with http.post(
            url,
            data=body,
            headers=headers,
            timeout=HTTP_TIMEOUT,
            stream=True,
            allow_redirects=False,
        ) as answer:
            if answer.status_code != 200:
                raise SignallingFailed(
                    f"The robot's connection service answered {answer.status_code}."
                )
            return _text(answer, give_up)
    except requests.RequestException as error:
        raise RobotUnreachable(
            f"The robot's connection service does not answer: {type(error).__name__}.",
            "It may still be starting: rhino tries again.",
        ) from error


def _text(answer: Any, give_up: float) -> str:
    """Read an answer's body, of whatever length and at whatever pace it comes."""
    text = bytearray()
    for piece in answer.iter_content(1):  # a larger piece would wait until it is full
        text += piece
        if len(text) > MAX_ANSWER:
            raise SignallingFailed("The robot's answer is far too long.")
        if time.monotonic() > give_up:
            raise SignallingFailed(f"The robot's answer was not complete within {ANSWER_S:g} s.")
    return text.decode("utf-8", "replace")


def _sdp(answer: str) -> str:
    try:
        sdp = json.loads(answer)["sdp"]
    except (ValueError, KeyError, TypeError) as error:
        raise SignallingFailed("The robot's answer holds no SDP.") from error
    if sdp == "reject":
        raise RobotBusy()
    if not isinstance(sdp, str) or not sdp:
        raise SignallingFailed("The robot's answer holds no SDP.")
    return sdp
