"""Stand-ins for Ray handles, so that actors and routes are tested as plain classes."""

import inspect
from typing import Any


class FakeHandle:
    """`handle.method.remote(...)` calls `target.method(...)`; coroutines are awaited by the caller."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        class _Method:
            @staticmethod
            async def remote(*args: Any, **kwargs: Any) -> Any:
                result = method(*args, **kwargs)
                return await result if inspect.isawaitable(result) else result

        return _Method()
