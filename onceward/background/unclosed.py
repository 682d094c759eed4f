"""A coroutine of a task that nothing it awaits can close.

When a task has ended with GeneratorExit and another task awaits it, Python closes the coroutines of the other one from
inside. A coroutine that is being closed cannot await anything: it could neither roll back nor return its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Unclosed(Coroutine[Any, Any, T], Generic[T]):
    """Raises another exception where the coroutine waits, in place of the GeneratorExit of what it waits for."""

    __slots__ = ("_coroutine", "_instead", "close", "send")

    def __init__(self, coroutine: CoroutineType[Any, Any, T], instead: Callable[[BaseException], Exception]) -> None:
        self._coroutine = coroutine
        self._instead = instead
        self.send = coroutine.send  # as an attribute: a step of the task costs no call of Python code
        self.close = coroutine.close

    def throw(self, error: Any, /, *rest: Any) -> Any:
        if isinstance(error, GeneratorExit):
            return self._coroutine.throw(self._instead(error))
        return self._coroutine.throw(error, *rest)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        """Return what asyncio shows of a coroutine: its name, code and frame."""
        return getattr(self._coroutine, name)
