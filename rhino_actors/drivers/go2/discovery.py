"""Robots on this network, found by the multicast question that the vendor's app asks."""

import asyncio
import contextlib
import json
import socket
from dataclasses import dataclass

import psutil

GROUP, QUERY_PORT, ANSWER_PORT = "231.1.1.1", 10131, 10134
QUERY = json.dumps({"name": "unitree_dapengche"}).encode()
REPEATS, REPEAT_GAP_S = 3, 0.3


@dataclass(frozen=True, slots=True, order=True)
class FoundRobot:
    """A robot that answered."""

    serial: str
    ip: str


async def discover(timeout: float = 2.0) -> list[FoundRobot]:
    """Ask on every IPv4 network of this host and return who answered within `timeout` [s].

    Raises:
        OSError: the port for answers is taken, by another program that looks for robots.
    """
    loop = asyncio.get_running_loop()
    found: set[FoundRobot] = set()
    with contextlib.ExitStack() as stack:
        answers = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        answers.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        answers.setblocking(False)
        answers.bind(("", ANSWER_PORT))
        asking = asyncio.create_task(_ask(stack))
        try:
            async with asyncio.timeout(timeout):
                while True:
                    data, sender = await loop.sock_recvfrom(answers, 2048)
                    robot = read_answer(data, sender[0])
                    if robot is not None:
                        found.add(robot)
        except TimeoutError:
            pass
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
    return sorted(found)


def read_answer(data: bytes, sender: str) -> FoundRobot | None:
    """Return the robot that an answer names, or None when it is none."""
    try:
        fields = json.loads(data)
        serial, ip = fields["sn"], fields.get("ip", sender)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return FoundRobot(serial, ip) if isinstance(serial, str) and isinstance(ip, str) else None


async def _ask(stack: contextlib.ExitStack) -> None:
    """Ask several times, by each of this host's addresses: one question is easily lost on Wi-Fi."""
    sockets = []
    for address in own_addresses():
        with contextlib.suppress(OSError):
            sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
            sock.bind((address, 0))
            sock.setblocking(False)
            sockets.append(sock)
    for _ in range(REPEATS):
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.sendto(QUERY, (GROUP, QUERY_PORT))
        await asyncio.sleep(REPEAT_GAP_S)


def own_addresses() -> list[str]:
    """Return this host's IPv4 addresses, loopback too: a simulated robot may be there."""
    return [
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family == socket.AF_INET
    ]
