"""Calls between actors: always with a time-out, and with Ray's errors turned into rhino's."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import ray.exceptions

from rhino_actors.errors import ActorUnavailable, RhinoError, original

Answer = TypeVar("Answer")


async def call(reference: Awaitable[Answer], timeout: float = 2.0) -> Answer:
    """Await another actor's answer.

    Args:
        reference: what `handle.method.remote(...)` returned.
        timeout: [s]; the remote call itself goes on after it.

    Raises:
        RhinoError: what the other actor raised on purpose, as it raised it.
        ActorUnavailable: it is dead, restarting, or did not answer in time; or an object of a dead one was lost.
    """
    try:
        # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the answer.
        async with asyncio.timeout(timeout):
            return await reference
    except TimeoutError as error:
        raise ActorUnavailable(f"No answer within {timeout:.1f} s.") from error
    except RhinoError as error:
        raise original(error) from None
    except (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError) as error:
        raise ActorUnavailable(f"An actor cannot be reached: {type(error).__name__}.") from error
