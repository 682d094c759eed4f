"""Show where a task that does not run now waits."""

from __future__ import annotations

import asyncio
import gc
import inspect
from typing import Any

DEEPEST = 50


def waiting_at(task: asyncio.Task[Any]) -> list[str]:
    """Return the lines at which the coroutines of the task wait, the innermost last: `file:line function`.

    `Task.get_stack` shows only the outermost one.
    """
    lines: list[str] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(lines) < DEEPEST:
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await") or _unwrapped(awaited)
    return lines


def _unwrapped(awaited: Any) -> Any:
    """Return the coroutine of what its `__await__` has returned, which shows nothing by itself."""
    if type(awaited).__name__ != "coroutine_wrapper":
        return None
    return next((each for each in gc.get_referents(awaited) if inspect.iscoroutine(each)), None)


def _first(of: Any, *names: str) -> Any:
    return next((value for name in names if (value := getattr(of, name, None)) is not None), None)
