"""Threads and executors that a handler starts run in its context, so that its rehearsal refuses their calls too.

Python copies the context into tasks only. Outside a rehearsal nothing changes.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures import thread as pool_threads
from functools import wraps
from typing import Any

Is = Callable[[], bool]
Started = Callable[[str], None]


def carry_context(is_rehearsed: Is, started: Started) -> None:
    """Replace what starts threads and processes. `started` is called for a process without an audit event."""
    _carry_into_threads(is_rehearsed)
    _carry_into_pools(is_rehearsed)
    _announce_processes(is_rehearsed, started)


def _carry_into_threads(is_rehearsed: Is) -> None:
    start = threading.Thread.start
    work_of_pool = getattr(pool_threads, "_worker", None)

    @wraps(start)
    def carried(self: threading.Thread) -> None:
        # A thread of a pool outlives the rehearsal: each call that it runs brings its own context.
        if is_rehearsed() and getattr(self, "_target", None) is not work_of_pool:
            run, context = self.run, contextvars.copy_context()
            self.run = lambda: context.run(run)
        start(self)

    threading.Thread.start = carried


def _carry_into_pools(is_rehearsed: Is) -> None:
    submit = ThreadPoolExecutor.submit

    @wraps(submit)
    def carried(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        if is_rehearsed():
            return submit(self, contextvars.copy_context().run, fn, *args, **options)
        return submit(self, fn, *args, **options)

    ThreadPoolExecutor.submit = carried


def _announce_processes(is_rehearsed: Is, started: Started) -> None:
    """Announce calls in pools of processes, and processes that `multiprocessing` starts past the audit hook."""
    import _posixsubprocess as starts

    submit, fork_exec = ProcessPoolExecutor.submit, starts.fork_exec

    @wraps(submit)
    def announced(self: ProcessPoolExecutor, fn: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
        if is_rehearsed():
            started(f"process {getattr(fn, '__qualname__', fn)}")
        return submit(self, fn, *args, **options)

    @wraps(fork_exec)
    def announced_fork(*args: Any) -> int:
        started(" ".join(str(each) for each in args[0][:3]))
        return fork_exec(*args)

    ProcessPoolExecutor.submit = announced
    starts.fork_exec = announced_fork
